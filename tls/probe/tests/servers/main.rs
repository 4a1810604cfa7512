//! Probes of servers in this process, over loopback.

#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)] // A panic is how a test fails.

mod dialogues;
mod handshakes;
mod hostile;
mod many;
mod paths;
mod server;
