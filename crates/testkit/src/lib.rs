pub mod clock;
pub mod disk;
pub mod model;
pub mod random;
