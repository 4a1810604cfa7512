//! Backends that fail, and what callers bring that is no key and no signature.

mod faults;
mod garbage;
