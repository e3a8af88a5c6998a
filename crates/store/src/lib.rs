pub mod blobs;
pub mod embedded;
pub mod moving;
#[cfg(feature = "postgres")]
pub mod postgres;
