//! The commands for OpenSSL: the bundle, its environment, and checks.

pub mod bundle;
pub mod doctor;
pub mod exec;
pub mod preflight;
pub mod provider;
