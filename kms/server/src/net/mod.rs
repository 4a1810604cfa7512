//! Connections: TLS, peers, and limits of their resources.

pub mod client_certificates;
pub mod connection_limits;
pub mod handshakes;
pub mod memory_budget;
pub mod options;
pub mod peer;
pub mod release_gate;
pub mod tls;
pub mod tls_files;
pub mod upload_limits;
pub mod write_deadline;
