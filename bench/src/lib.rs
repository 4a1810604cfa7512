//! See the package description.

pub mod clock;
pub mod command;
pub mod engine;
mod error;
pub mod inputs;
pub mod machine;
pub mod memory;
mod ossl;
mod outcome;
mod pairs;
pub mod peers;
pub mod seed;
pub mod size;
pub mod tls;
pub mod wire;

pub use error::Error;
pub use outcome::Status;
