//! What the crate promises, from outside.

mod kill;
mod sqlite;
mod stores;
