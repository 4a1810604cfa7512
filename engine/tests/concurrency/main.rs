//! One engine for many threads, and the queue.

#![allow(clippy::expect_used, clippy::unwrap_used)] // A panic is how a test fails.

mod queue;
mod threads;
