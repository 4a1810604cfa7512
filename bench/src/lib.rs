//! See the package description.

pub mod clock;
pub mod engine;
pub mod inputs;
pub mod machine;
pub mod memory;
mod ossl;
mod pairs;
pub mod tls;
pub mod wire;
