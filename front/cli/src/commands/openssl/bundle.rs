//! `gabion bundle`: builds OpenSSL with its FIPS provider and Gabion's from a pinned source.

use std::path::PathBuf;

use clap::{Parser, Subcommand};
use gabion_ship::bundle::{self, BuildRequest, SourceRequest};

use crate::failure::Failure;

/// Build an OpenSSL with its FIPS provider and Gabion's, separate from the system's.
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

/// Build the bundle, or update an existing one; prints its folder.
///
/// Without --openssl, the bundle uses the newest 3.5 version that upstream, Debian's archive or the
/// Rust registry offers. The version, the reason if it is not the newest, and the security
/// advisories that affect it are printed to standard error and written to gabion-bundle.json. An
/// existing bundle in --prefix is moved to a newer version only with --repair.
///
/// An existing bundle is not rebuilt: configuration files and gabion.so are replaced if they
/// differ, and the FIPS module is tested if that has not been done. An interrupted build leaves
/// nothing that looks complete.
#[derive(Parser)]
#[command(after_help = "Examples:
  gabion bundle build
  gabion bundle build --prefix /opt/gabion/openssl
  gabion bundle build --source openssl-3.5.9.tar.gz
  gabion bundle build --fips-module 3.5.4
  gabion bundle build --core-offload

The fips.so of a bundle is FIPS code, not a validated module; see docs/guide/fips.md.")]
struct Build {
    /// OpenSSL version [default: the newest available of the 3.5 line]
    #[arg(long, value_name = "VERSION")]
    openssl: Option<String>,
    /// Folder of the bundle; no other user may have write access to its parent [default:
    /// ~/.cache/gabion/openssl/bundle-VERSION, with the suffixes -fips-V and -offload if
    /// applicable]
    #[arg(long, value_name = "DIR")]
    prefix: Option<PathBuf>,
    /// Install the bundle under this folder, as for a package; its files refer to the paths of
    /// --prefix
    #[arg(long, value_name = "DIR", requires = "prefix")]
    root: Option<PathBuf>,
    /// Architecture of the bundle, built with the cross compiler ARCH-linux-gnu-gcc [default: this
    /// machine's]
    ///
    /// The FIPS module of another architecture is not tested, and its fipsmodule.cnf is missing
    /// until `gabion bundle build --prefix DIR` runs on such a machine.
    #[arg(long, value_name = "ARCH", requires = "root", value_parser = ["aarch64", "x86_64"])]
    arch: Option<String>,
    /// Upstream tarball (.tar.gz) to build from, instead of a pinned version
    #[arg(long, value_name = "FILE|URL")]
    source: Option<String>,
    /// SHA-256 of the tarball, if it is not a pinned one
    #[arg(long, value_name = "HEX", requires = "source")]
    sha256: Option<String>,
    /// Version of the FIPS module, if different from that of the bundle
    #[arg(long, value_name = "V")]
    fips_module: Option<String>,
    /// Rebuild and replace an existing bundle
    #[arg(long)]
    repair: bool,
    /// Gabion's provider module [default: the one installed with this program]
    #[arg(long, value_name = "FILE")]
    module: Option<PathBuf>,
    /// Keep an existing gabion.so
    #[arg(long, conflicts_with = "module")]
    keep_module: bool,
    /// Let libcrypto's own ML-KEM and ML-DSA use libgabion if GABION_OFFLOAD=1 is set (core patch)
    #[arg(long)]
    core_offload: bool,
    /// libgabion.so for --core-offload [default: the one installed with this program]
    #[arg(long, value_name = "FILE", requires = "core_offload")]
    library: Option<PathBuf>,
    /// Number of parallel compiler processes [default: number of cores]
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
