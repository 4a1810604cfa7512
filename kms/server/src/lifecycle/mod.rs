//! The running service: its seal, and background threads.

pub mod administrator_warning;
pub mod backups;
pub mod checkpoint_copies;
pub mod maintenance;
pub mod metrics;
pub mod panics;
pub mod rotation;
pub mod seal_setup;
pub mod seal_state;
pub mod service_host;
pub mod state;
pub mod systemd;
pub mod unseal_limits;
pub mod unsealing;
pub mod wrapping_key;
