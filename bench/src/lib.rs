//! See the package description.

pub mod clock;
pub mod command;
pub mod engine;
pub mod inputs;
pub mod machine;
pub mod memory;
mod ossl;
mod pairs;
pub mod size;
pub mod tls;
pub mod wire;
