//! What the crate promises, from outside.

mod keyid_and_roundtrip;
mod kill;
mod seals;
mod sqlite;
mod stores;
