//! The command, as users run it.

#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)] // A panic is how a test fails.

mod acvp;
mod bench;
mod bundle;
mod core_offload;
mod curve_keys;
mod draft_keys;
mod ed25519;
mod fips_guard;
mod hbs;
mod hbs_edges;
mod hbs_evidence;
mod hbs_hosts;
mod hss;
mod inventory;
mod keys;
#[cfg(feature = "kms")]
mod kms;
#[cfg(feature = "kms")]
mod kms_audit;
#[cfg(feature = "kms")]
mod kms_backups;
#[cfg(feature = "kms")]
mod kms_docs;
#[cfg(feature = "kms")]
mod kms_ends;
#[cfg(feature = "kms")]
mod kms_holders;
#[cfg(feature = "kms")]
mod kms_jwt;
#[cfg(feature = "kms")]
mod kms_streams;
#[cfg(feature = "kms")]
mod kms_unit;
mod manual;
mod mu;
#[cfg(feature = "kms")]
mod pages;
mod probe;
mod provider_config;
mod raw_keys;
mod reports;
mod slh_dsa;
mod speed;

use gabion_cli_testing as harness;
