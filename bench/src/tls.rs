//! Full TLS 1.3 handshakes inside one process: what one costs each side, provider by provider.
//!
//! ```text
//!  Config ─> Credentials (made once) ─┬─> Lane: default │ slice │       │ slice │ ...
//!                                     └─> Lane: gabion  │       │ slice │       │ ...
//!            one handshake checked ──────────┘            medians over the slices ─> Row, Row
//! ```
//!
//! Server and client of a handshake live in the same thread and talk over memory, so nothing but
//! libssl and the provider is measured. Each handshake is a full one: the server proves who it is,
//! the client verifies chain and name against a root it trusts, and neither resumes anything.
//! Providers take turns in slices of a quarter of a second, since a machine's clock moves by more
//! between two longer runs than the providers differ.

mod credentials;
mod lane;
mod names;
mod remote;
mod rustls;
mod serve;
mod slice;
mod statistics;
pub mod switches;
mod table;

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

pub use gabion_rows::handshakes::{Handshake as Row, Provider, RowSpread, Spread, Stack};
pub use names::{groups, signatures};
pub use serve::serve;
pub use table::render;

use crate::Error;
use crate::machine::Machine;
use crate::ossl::{self, Context, Ossl};
pub(crate) use credentials::{Credentials, HOST};
use lane::Lane;
use names::Group;
pub(crate) use names::Signature;
pub(crate) use remote::{SWITCH, judge_counts};

/// The options of a measurement.
#[derive(Debug, Clone)]
pub struct Config {
    /// The prefix of the OpenSSL installation.
    pub prefix: PathBuf,
    /// Folder of provider modules; `None` means `lib/ossl-modules` of the prefix.
    pub modules: Option<PathBuf>,
    /// Key exchange group, in any case: see [`groups`]; `default` for libssl's own list.
    pub group: String,
    /// Algorithm of the server's and the root's key, in any case: see [`signatures`].
    pub signature: String,
    /// Cipher suite, as TLS names it; none leaves the choice to OpenSSL.
    pub cipher: Option<String>,
    /// Stacks whose providers take turns; none means libssl's alone.
    pub stacks: Vec<Stack>,
    /// Providers that take turns; none means default and gabion, or gabion alone where OpenSSL does
    /// not have the group or the signature; of rustls aws-lc-rs and gabion.
    pub providers: Vec<Provider>,
    /// Time for each provider, in seconds; more than 0 and at most 3600. Below 2.5 the slices get
    /// shorter, so that there are always at least ten.
    pub seconds: f64,
    /// Threads that shake hands side by side over one shared pair of endpoints, 1 to 1024.
    pub threads: usize,
    /// The program that runs [`serve`] when it is started with `bench tls-lane`; needed for
    /// [`Provider::Offload`].
    pub program: Option<PathBuf>,
}

impl Config {
    /// The measurement that matters most: X25519MLKEM768 and ML-DSA-65, default against gabion,
    /// 5 seconds each, on one thread, with the OpenSSL installed at `prefix`.
    pub fn new(prefix: PathBuf) -> Config {
        Config {
            prefix,
            modules: None,
            group: "X25519MLKEM768".into(),
            signature: "ML-DSA-65".into(),
            cipher: None,
            stacks: Vec::new(),
            providers: Vec::new(),
            seconds: 5.0,
            threads: 1,
            program: None,
        }
    }
}

/// The parameters of one handshake, made and checked before anything is timed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Probe {
    /// The TLS that made it.
    #[serde(default)]
    pub stack: Stack,
    /// The provider that was to serve.
    pub provider: Provider,
    /// TLS version.
    pub version: String,
    /// Key exchange group.
    pub group: String,
    /// Signature scheme of the server.
    pub signature_scheme: String,
    /// Cipher suite.
    pub cipher: String,
    /// See [`Row::kem_provider`].
    pub kem_provider: String,
    /// See [`Row::signature_provider`].
    pub signature_provider: String,
    /// Bytes from client to server.
    pub bytes_c2s: u64,
    /// Bytes from server to client.
    pub bytes_s2c: u64,
}

/// An observer of each provider's checked handshake from outside OpenSSL.
///
/// OpenSSL answers which provider it would use; counters that the provider itself keeps tell
/// which one worked. A caller that can read such counters compares them here.
pub trait Witness {
    /// Called before the checked handshake of `provider`, with its context loaded.
    ///
    /// # Errors
    /// A message ends the measurement.
    fn before(&mut self, provider: Provider) -> Result<(), String>;

    /// Called after it.
    ///
    /// # Errors
    /// A message ends the measurement: the provider was not the one that worked.
    fn after(&mut self, probe: &Probe) -> Result<(), String>;
}

/// The witness that believes OpenSSL.
impl Witness for () {
    fn before(&mut self, _: Provider) -> Result<(), String> {
        Ok(())
    }

    fn after(&mut self, _: &Probe) -> Result<(), String> {
        Ok(())
    }
}

/// Measures each provider and returns one row for each, in the order asked for.
///
/// # Errors
/// `Usage` for an unknown name or a value out of range, `NotReady` when OpenSSL or a provider does
/// not load, `Failed` when a handshake fails or differs from the request. A provider that leaves
/// operations to the default provider is an error: the default's figures are never reported under
/// its name.
pub fn compare(config: &Config) -> Result<Vec<Row>, Error> {
    compare_watched(config, &mut ())
}

/// [`compare`], with a witness for each provider's first handshake.
///
/// # Errors
/// Those of [`compare`], and `Failed` with what the witness says.
pub fn compare_watched(config: &Config, witness: &mut dyn Witness) -> Result<Vec<Row>, Error> {
    let plan = Plan::new(config)?;
    if std::env::var_os(remote::SWITCH).is_some_and(|value| value == "1") {
        return Err(Error::Usage(format!(
            "{}=1 is set here, and would offload what is measured as OpenSSL's own code; unset it, \
             and ask for --provider offload",
            remote::SWITCH
        )));
    }
    // The same folder under two names would look like two bundles.
    let prefix = std::fs::canonicalize(&config.prefix).unwrap_or_else(|_| config.prefix.clone());
    let ossl = Ossl::load(&prefix)?;
    let credentials = Credentials::make(ossl, plan.modules.as_deref(), plan.signature)?;
    let mut lanes = Vec::new();
    for (stack, provider) in &plan.lanes {
        lanes.push(match (stack, provider) {
            (Stack::Rustls, _) => Lane::rustls(*provider, &plan, &credentials)?,
            (Stack::Openssl, Provider::Offload) => {
                Lane::in_process(config, &prefix, &plan, &credentials)?
            }
            (Stack::Openssl, _) => Lane::open(ossl, *provider, &plan, &credentials, witness)?,
        });
    }
    let measured = lane::measure(&lanes, &plan)?;
    let machine = Machine::detect();
    let rows = lanes.iter().zip(measured).map(|(lane, slices)| {
        statistics::row(&lane.probe, &plan, &slices, machine.clone(), ossl.version())
    });
    let rows: Vec<Row> = rows.collect::<Result<_, _>>()?;
    for (lane, row) in lanes.into_iter().zip(&rows) {
        lane.finish(&plan, row.handshakes)?;
    }
    Ok(rows)
}

/// A checked [`Config`].
struct Plan {
    group: &'static Group,
    signature: &'static Signature,
    cipher: Option<String>,
    lanes: Vec<(Stack, Provider)>,
    slices: usize,
    slice_s: f64,
    threads: usize,
    modules: Option<PathBuf>,
}

/// Slices that a median needs at least.
const SLICES_MIN: usize = 10;
/// Length of a slice in seconds, unless the whole run is shorter than ten of them.
const SLICE_S: f64 = 0.25;

impl Plan {
    fn new(config: &Config) -> Result<Plan, Error> {
        if !(config.seconds > 0.0 && config.seconds <= 3600.0) {
            return Err(Error::Usage(format!(
                "--seconds {} is out of range; more than 0 and at most 3600 is possible",
                config.seconds
            )));
        }
        if !(1..=1024).contains(&config.threads) {
            return Err(Error::Usage(format!(
                "--threads {} is out of range; 1 to 1024 is possible",
                config.threads
            )));
        }
        let (group, signature) = (Group::find(&config.group)?, Signature::find(&config.signature)?);
        let slice_s = SLICE_S.min(config.seconds / SLICES_MIN as f64);
        Ok(Plan {
            group,
            signature,
            cipher: config.cipher.as_deref().map(str::to_ascii_uppercase),
            lanes: lanes(config, group, signature)?,
            slices: ((config.seconds / slice_s).round() as usize).max(SLICES_MIN),
            slice_s,
            threads: config.threads,
            modules: config.modules.clone(),
        })
    }

    /// A library context in which `provider` serves.
    fn context(&self, ossl: &'static Ossl, provider: Provider) -> Result<Context, ossl::Error> {
        context_for(provider, ossl, self.modules.as_deref(), self.signature.draft)
    }
}

/// Returns the providers that take turns, stack by stack.
fn lanes(
    config: &Config,
    group: &Group,
    signature: &Signature,
) -> Result<Vec<(Stack, Provider)>, Error> {
    let mut stacks = config.stacks.clone();
    stacks.dedup();
    if stacks.is_empty() {
        stacks.push(Stack::Openssl);
    }
    // A provider of one stack says nothing of the other, unless there is only one.
    let asked = |stack: Stack| -> Vec<Provider> {
        let its = |provider: &Provider| stacks.len() == 1 || is_of(stack, *provider);
        config.providers.iter().copied().filter(its).collect()
    };
    let mut lanes = Vec::new();
    for &stack in &stacks {
        let providers = match stack {
            Stack::Openssl => providers(&asked(stack), group, signature)?,
            Stack::Rustls => rustls_providers(&asked(stack), group)?,
        };
        lanes.extend(providers.into_iter().map(|provider| (stack, provider)));
    }
    Ok(lanes)
}

/// Returns whether a stack has a provider of that name; `default` is aws-lc-rs under rustls.
fn is_of(stack: Stack, provider: Provider) -> bool {
    match provider {
        Provider::Gabion | Provider::Default => true,
        Provider::Fips | Provider::Offload => stack == Stack::Openssl,
        Provider::AwsLcRs => stack == Stack::Rustls,
    }
}

/// Returns the providers that take turns under rustls.
fn rustls_providers(asked: &[Provider], group: &Group) -> Result<Vec<Provider>, Error> {
    if asked.is_empty() {
        let lacks = group.only_ours || ["SecP384r1MLKEM1024", "MLKEM512"].contains(&group.name);
        let both = vec![Provider::AwsLcRs, Provider::Gabion];
        return Ok(if lacks { vec![Provider::Gabion] } else { both });
    }
    let its = |&provider: &Provider| match provider {
        Provider::Default => Ok(Provider::AwsLcRs),
        Provider::Gabion | Provider::AwsLcRs => Ok(provider),
        Provider::Fips | Provider::Offload => Err(Error::Usage(format!(
            "rustls has no provider `{}` here: only gabion and aws-lc-rs, which is its default",
            provider.name()
        ))),
    };
    asked.iter().map(its).collect()
}

/// Returns the providers that take turns under libssl; fails if a provider lacks an algorithm.
fn providers(
    asked: &[Provider],
    group: &Group,
    signature: &Signature,
) -> Result<Vec<Provider>, Error> {
    if let Some(other) = asked.iter().find(|&&provider| !is_of(Stack::Openssl, provider)) {
        let why = "is one of rustls: --stack rustls has it";
        return Err(Error::Usage(format!("the provider `{}` {why}", other.name())));
    }
    let missing = match (group.only_ours, signature.draft) {
        (true, _) => Some(group.name),
        (_, true) => Some(signature.name),
        _ => None,
    };
    match missing {
        Some(_) if asked.is_empty() => Ok(vec![Provider::Gabion]),
        None if asked.is_empty() => Ok(vec![Provider::Default, Provider::Gabion]),
        Some(name) if asked.iter().any(|&provider| provider != Provider::Gabion) => {
            Err(Error::Usage(format!("OpenSSL has no {name} in TLS: only --provider gabion has")))
        }
        _ => Ok(asked.to_vec()),
    }
}

/// A library context in which a provider serves.
pub(crate) fn context(
    provider: Provider,
    ossl: &'static Ossl,
    modules: Option<&std::path::Path>,
) -> Result<Context, ossl::Error> {
    context_for(provider, ossl, modules, false)
}

/// Returns a library context for a provider. With `drafts`, Gabion's has TLS signature schemes
/// without a settled codepoint, which every ClientHello then offers.
pub(crate) fn context_for(
    provider: Provider,
    ossl: &'static Ossl,
    modules: Option<&std::path::Path>,
    drafts: bool,
) -> Result<Context, ossl::Error> {
    match provider {
        Provider::Default => Context::new(ossl, modules, &["default"], None),
        // This process's libcrypto has the switch off, and would serve in another's name.
        Provider::Offload => Err(ossl::Error::NotReady(
            "the provider `offload` runs in a separate process, which only `gabion bench tls` \
             starts, and not for a table"
                .into(),
        )),
        Provider::Gabion => {
            let (names, property) = (["default", "gabion"], Some("?provider=gabion"));
            let settings = [("tls-draft-signatures", "yes")];
            let settings = if drafts { &settings[..] } else { &[] };
            Context::with_settings(ossl, modules, &names, property, settings)
        }
        Provider::AwsLcRs => Err(ossl::Error::NotReady(
            "the provider `aws-lc-rs` is one of rustls, and serves no libssl".into(),
        )),
        // `base` decodes certificates and keys, which the FIPS provider does not.
        Provider::Fips => Context::new(ossl, modules, &["fips", "base"], Some("fips=yes")),
    }
}
