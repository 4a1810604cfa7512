//! Programs with the provider, each in a separate process. Nothing loads libcrypto here, so that
//! the measurements of a first use are those of a first use.

// A panic is how a test fails, in the helpers too.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod commands;
mod module;
mod process;
mod stack;
mod tls;
