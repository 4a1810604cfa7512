//! The C interface, from C and from Rust.

mod c;
mod key_batches;
mod randomness;
