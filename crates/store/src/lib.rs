pub mod embedded;
#[cfg(feature = "postgres")]
pub mod postgres;
