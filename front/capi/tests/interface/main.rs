//! The C interface, from C and from Rust.

mod c;
mod hss;
mod key_batches;
mod randomness;
mod stateful;
