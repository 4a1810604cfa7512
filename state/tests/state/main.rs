//! The state under faults, on a simulated disk, and on a real one.

mod broken;
mod disk;
mod faults;
mod hooked;
mod making;
mod real;
mod signer;
mod world;
