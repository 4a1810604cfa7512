//! See the package description.

pub mod clock;
pub mod engine;
pub mod inputs;
pub mod machine;
mod ossl;
pub mod tls;
