//! What the crate promises, from outside.

mod attest;
mod batches;
mod gate;
mod golden;
mod histories;
mod imports;
mod kems;
mod keyid_and_roundtrip;
mod kill;
mod seals;
mod sqlite;
mod stores;
mod symmetric;
mod verbs;
mod versioned_verify;
