//! The `gabion-bench` command, as users run it.

#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)] // A panic is how a test fails.

mod engine;
mod hbs;
mod help;
#[cfg(feature = "kms")]
mod pages;
mod report;
mod run;
mod tables;
mod tls;
