//! What the crate promises, from outside.

mod attest;
mod histories;
mod keyid_and_roundtrip;
mod kill;
mod seals;
mod sqlite;
mod stores;
mod verbs;
mod versioned_verify;
