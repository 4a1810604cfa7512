//! Rows of results: their clock, their fields, how they are read and compared.
//!
//! ```text
//!   gabion bench ──┐ clock, machine, inputs                        ┌──> gabion report
//!                  ├──────────────────────> a row, one JSON ──read─┤
//!   bench/peers ───┘                        object a line          └──> pages of docs (xtask)
//! ```
//!
//! A kind of row is a struct, which its harness fills in and its readers get back. A field that
//! older rows lack has a default, so that every row in bench/results can still be read; a field
//! keeps its name. This crate does not depend on the engine, because other libraries are measured
//! without it.

pub mod clock;
pub mod commands;
pub mod compare;
pub mod connections;
pub mod cpu_time;
pub mod gpu;
pub mod handshakes;
pub mod hbs;
pub mod inputs;
pub mod kms;
pub mod operations;
mod record;
pub mod size;
mod status;

pub use gabion_machine as machine;
pub use record::{Host, Origin, PerProvider, Record, Row, RunFile, RunHandshakes, read};
pub use status::Status;
