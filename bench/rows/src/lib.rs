//! See the package description.

pub mod clock;
pub mod compare;
pub mod inputs;
pub mod machine;
