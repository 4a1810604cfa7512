//! See the package description.

pub mod clock;
pub mod inputs;
