//! What the crate promises, from outside.

mod keyid_and_roundtrip;
mod kill;
mod sqlite;
mod stores;
