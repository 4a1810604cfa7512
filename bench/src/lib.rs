//! See the package description.

pub mod command;
pub mod engine;
mod error;
pub mod gpu;
pub mod hbs;
#[cfg(feature = "kms")]
pub mod kms;
pub mod memory;
pub mod offload;
mod ossl;
mod outcome;
mod pairs;
pub mod seed;
pub mod size;
pub mod tls;
pub mod wire;

pub use error::Error;
pub use gabion_rows::{Status, clock, cpu_time, inputs, machine};
