//! One engine for many threads, and the queue.

mod queue;
mod threads;
