//! Tests of the crate's public interface.

#![allow(clippy::expect_used, clippy::unwrap_used)] // A panic is how a test fails.

mod administrators;
mod attest;
mod audit;
mod audit_archive;
mod audit_faults;
mod backups;
mod batches;
mod ciphers;
mod classes;
mod clocks;
mod coalesced;
mod denials;
mod fixture;
mod full_disk;
mod gate;
mod gate_policies;
mod generations;
mod golden;
mod golden_service;
mod histories;
mod idempotency;
mod imports;
mod jwt;
mod kems;
mod key_transfer;
mod keyid_and_roundtrip;
mod kill;
mod many_keys;
mod online;
mod op_ids;
mod panics;
mod reconcile;
mod rotations;
mod rsa;
mod seals;
mod service;
mod sqlite;
mod store_reads;
mod stores;
mod streams;
mod symmetric;
mod tampering;
mod verbs;
mod versioned_verify;
