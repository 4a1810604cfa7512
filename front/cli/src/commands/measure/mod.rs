//! What operations and handshakes cost, and pages of it.

pub mod bench;
pub mod report;
pub mod run;
