//! Programs with the provider in processes of their own. Nothing loads libcrypto here: what is measured
//! of a first use is that of a first use.

// A panic is how a test fails, in the helpers too.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod commands;
mod module;
mod process;
mod stack;
mod tls;
