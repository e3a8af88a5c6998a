pub mod bench;
pub mod clock;
pub mod disk;
pub mod model;
pub mod random;
pub mod stepped;
pub mod stream;
pub mod suite;
