//! `gabion bundle`: OpenSSL with its FIPS provider and ours, built from a pinned source.

use std::path::PathBuf;

use clap::{Parser, Subcommand};
use gabion_ship::bundle::{self, BuildRequest, SourceRequest};

use crate::failure::Failure;

/// Build an OpenSSL with its FIPS provider and Gabion's, apart from the system's.
#[derive(Parser)]
#[command(after_help = "Example:\n  gabion bundle build && gabion exec -- openssl version")]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    Build(Build),
}

/// Build the bundle, or bring a finished one up to date; prints its folder.
///
/// Without --openssl it is the newest of the 3.5 line that upstream, Debian's archive or the Rust
/// registry has. Which it is, why not a newer one, and which security advisories concern it is said on
/// standard error, and in gabion-bundle.json. A finished bundle that --prefix names is brought to a newer
/// version by --repair only.
///
/// A finished bundle is not built again: its configuration files and gabion.so are replaced where
/// they differ, and the FIPS module is tested if that was left out. An interrupted build leaves nothing
/// that looks finished.
#[derive(Parser)]
#[command(after_help = "Examples:
  gabion bundle build
  gabion bundle build --prefix /opt/gabion/openssl
  gabion bundle build --source openssl-3.5.9.tar.gz
  gabion bundle build --fips-module 3.5.4
  gabion bundle build --core-offload

The fips.so of a bundle is FIPS code, not a validated module; see docs/guide/fips.md.")]
struct Build {
    /// OpenSSL version [default: the newest of the 3.5 line that can be had]
    #[arg(long, value_name = "VERSION")]
    openssl: Option<String>,
    /// Folder of the bundle, in one that nobody else may write to [default:
    /// ~/.cache/gabion/openssl/bundle-VERSION, with -fips-V and -offload behind it where it has these]
    #[arg(long, value_name = "DIR")]
    prefix: Option<PathBuf>,
    /// Put the bundle into a tree under this folder, as for a package; its files name the paths of --prefix
    #[arg(long, value_name = "DIR", requires = "prefix")]
    root: Option<PathBuf>,
    /// Processor that the bundle is for, by the cross compiler ARCH-linux-gnu-gcc [default: this machine's]
    ///
    /// The FIPS module of another processor is not tested, and its fipsmodule.cnf is missing, until `gabion bundle
    /// build --prefix DIR` runs there.
    #[arg(long, value_name = "ARCH", requires = "root", value_parser = ["aarch64", "x86_64"])]
    arch: Option<String>,
    /// Upstream tarball (.tar.gz) to build from, instead of a pinned version
    #[arg(long, value_name = "FILE|URL")]
    source: Option<String>,
    /// SHA-256 that the tarball must have, when it is not a pinned one
    #[arg(long, value_name = "HEX", requires = "source")]
    sha256: Option<String>,
    /// Version of the FIPS module, where it is not that of the bundle
    #[arg(long, value_name = "V")]
    fips_module: Option<String>,
    /// Build again and replace the bundle that is there
    #[arg(long)]
    repair: bool,
    /// Gabion's provider module [default: the one that came with this program]
    #[arg(long, value_name = "FILE")]
    module: Option<PathBuf>,
    /// Leave a gabion.so that is there already as it is
    #[arg(long, conflicts_with = "module")]
    keep_module: bool,
    /// Let libcrypto's own ML-KEM and ML-DSA go to libgabion where GABION_OFFLOAD=1 (core patch)
    #[arg(long)]
    core_offload: bool,
    /// libgabion.so for --core-offload [default: the one that came with this program]
    #[arg(long, value_name = "FILE", requires = "core_offload")]
    library: Option<PathBuf>,
    /// Compilers at a time [default: the number of cores]
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
}

/// Runs the command.
pub fn run(args: Args) -> Result<u8, Failure> {
    let Action::Build(build) = args.action;
    let request = BuildRequest {
        version: build.openssl,
        prefix: build.prefix,
        root: build.root,
        source: SourceRequest { location: build.source, sha256: build.sha256 },
        fips_module: build.fips_module,
        repair: build.repair,
        module: build.module,
        keep_module: build.keep_module,
        core_offload: build.core_offload,
        library: build.library,
        jobs: build.jobs,
        arch: build.arch,
    };
    let layout = bundle::build(&request)?;
    say!("{}", layout.prefix().display());
    Ok(0)
}
