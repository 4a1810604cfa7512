//! The OpenSSL that Gabion is a provider of: its bundle, its environment, and whether all is well.

pub mod bundle;
pub mod doctor;
pub mod exec;
pub mod preflight;
pub mod provider;
