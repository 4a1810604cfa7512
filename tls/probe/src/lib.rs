//! Probes servers: whether their connections are post-quantum, and why one is not.
//!
//! ```text
//!   target   host, port, protocol --> connect    one socket with deadlines
//!                                     starttls   the dialogue before TLS
//!                                     handshake  TLS by rustls, every certificate accepted
//!                                     raw        TLS that rustls does not speak
//!                                     ssh        the lists of an SSH server
//!                                     matrix     which forms of the ClientHello get through
//!                                         |
//!   report <-- verdict (advice) <---------+
//!   pool       many targets on a fixed number of threads
//!
//!   inventory  files and folders --> keys and certificates --+--> cbom    CycloneDX document
//!   certificate, algorithm                        reports ---+            and comparison of two
//! ```
//!
//! The probe looks and changes nothing. Everything that a server sends is bounded in bytes and in
//! time before it is parsed.

#![forbid(unsafe_code)]

pub mod advice;
pub mod algorithm;
pub mod cbom;
pub mod certificate;
pub mod connect;
pub mod handshake;
pub mod inventory;
pub mod matrix;
pub mod pool;
pub mod probe;
pub mod program;
pub mod raw;
pub mod report;
pub mod results;
pub mod ssh;
pub mod starttls;
pub mod target;
pub mod time;
pub mod verdict;
