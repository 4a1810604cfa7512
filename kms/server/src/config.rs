//! The configuration file of a server. `kms.toml` in this crate's folder lists all settings and
//! explains them.

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use gabion_kms::audit::{self, Class};
use gabion_kms::model::Label;
use gabion_kms::{gate, service};
use serde::Deserialize;

use crate::error::Error;
use crate::net::options::{Coalesce, Listen, Options};
use crate::net::tls;

/// The configuration file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    listen: Vec<Listen>,
    tls: Option<Tls>,
    /// The store of the keys.
    pub store: Store,
    /// The passphrase that opens the seal.
    #[serde(default)]
    pub seal: Seal,
    /// The audit log.
    pub audit: Audit,
    #[serde(default)]
    tokens: Tokens,
    /// Requirements for the process's memory.
    #[serde(default)]
    pub memory: Memory,
    /// The backups.
    #[serde(default)]
    pub backup: Backup,
    #[serde(default)]
    limits: Limits,
    #[serde(default)]
    quota: Quota,
}

/// The TLS certificate.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Tls {
    certificate: PathBuf,
    key: PathBuf,
    client_authorities: Option<PathBuf>,
    client_revocations: Option<PathBuf>,
}

/// The store.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Store {
    /// The store's file.
    pub path: PathBuf,
    /// The maximum size of the file in MiB.
    pub size_max_mib: Option<u32>,
    /// The size of the cache of expanded keys in MiB.
    #[serde(default = "cache_mib")]
    pub cache_mib: u32,
}

/// Unsealing at the start.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Seal {
    /// A file with the passphrase.
    pub passphrase_file: Option<PathBuf>,
}

/// The audit log.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Audit {
    /// The log's folder.
    pub folder: PathBuf,
    #[serde(default = "origin")]
    origin: String,
    #[serde(default)]
    durable: bool,
    /// The folder for archived segments.
    pub archive: Option<PathBuf>,
    /// A second folder for checkpoints.
    pub checkpoints: Option<PathBuf>,
    #[serde(default = "segment_mib")]
    segment_mib: u32,
}

/// Requirements for the process's memory.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Memory {
    /// Whether to start even if the memory may be swapped.
    pub allow_unlocked: bool,
}

/// Limits of tokens.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Tokens {
    lifetime_seconds: u32,
    lifetime_seconds_max: u32,
    warning_hours: u32,
    administration_needs_certificate: bool,
}

impl Default for Tokens {
    fn default() -> Self {
        let day = 24 * 60 * 60;
        Tokens {
            lifetime_seconds: day,
            lifetime_seconds_max: 365 * day,
            warning_hours: 168,
            administration_needs_certificate: true,
        }
    }
}

fn segment_mib() -> u32 {
    64
}

fn origin() -> String {
    "gabion-kms".to_owned()
}

/// Backups.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Backup {
    /// The folder of the backups.
    pub folder: Option<PathBuf>,
    /// The folder of the keys that seal them.
    pub keys: Option<PathBuf>,
    /// The length of a backup period in days.
    pub period_days: u32,
}

impl Default for Backup {
    fn default() -> Self {
        Backup { folder: None, keys: None, period_days: 7 }
    }
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Limits {
    body_kib: u32,
    stream_max_mib: u32,
    streams: u32,
    streams_per_tenant: u32,
    connections: u32,
    local_connections: u32,
    connections_per_address: u32,
    drain_seconds: u32,
    coalesce: Coalesce,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            body_kib: 1024,
            stream_max_mib: 64 << 10,
            streams: 64,
            streams_per_tenant: 32,
            connections: 1024,
            local_connections: 256,
            connections_per_address: 256,
            drain_seconds: 8,
            coalesce: Coalesce::Any,
        }
    }
}

/// Quotas of tenants.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Quota {
    microseconds_per_second: Option<u32>,
    burst_seconds: u32,
    tenants: BTreeMap<Label, u32>,
}

impl Default for Quota {
    fn default() -> Self {
        let service::QuotaOptions { us_per_second, of_tenants, burst_seconds } =
            service::QuotaOptions::default();
        Quota { microseconds_per_second: us_per_second, burst_seconds, tenants: of_tenants }
    }
}

fn cache_mib() -> u32 {
    64
}

/// The maximum size of a request body in KiB, which is held in memory.
const BODY_KIB_MAX: u32 = 64 << 10;

/// The maximum size of a streamed message in MiB: 16 TiB.
const STREAM_MIB_MAX: u32 = 16 << 20;

/// The maximum number of streamed messages. Each takes half a MiB, or as much as a request body.
const STREAMS_MAX: u32 = 10_000;

/// The maximum number of connections. Each takes a file descriptor.
const CONNECTIONS_MAX: u32 = 100_000;

/// The maximum drain time in seconds. The process ends within ten seconds.
const DRAIN_MAX: u32 = 9;

impl Config {
    /// Reads a configuration file.
    ///
    /// # Errors
    /// [`Error::Settings`], with the file and the problem.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let wrong = |reason: String| Error::Settings(format!("{}: {reason}", path.display()));
        let text = fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
        text.parse().map_err(|error: Error| wrong(error.to_string()))
    }

    /// Returns the server's options, including its certificate.
    ///
    /// # Errors
    /// [`Error::Settings`]: a missing certificate, or a key that does not match it.
    pub fn options(&self) -> Result<Options, Error> {
        let tls = match &self.tls {
            Some(tls) => Some(Arc::new(tls::Tls::new(tls.files())?)),
            None => None,
        };
        Ok(Options {
            listen: self.listen.clone(),
            tls,
            monotonic_us: None,
            body_max: (self.limits.body_kib as usize) << 10,
            stream_max: u64::from(self.limits.stream_max_mib) << 20,
            streams_max: self.limits.streams as usize,
            streams_per_tenant_max: self.limits.streams_per_tenant as usize,
            connections_max: self.limits.connections as usize,
            local_connections_max: self.limits.local_connections as usize,
            connections_per_address_max: self.limits.connections_per_address as usize,
            drain: Duration::from_secs(self.limits.drain_seconds.into()),
            coalesce: self.limits.coalesce,
        })
    }

    /// Returns the folder of the backup keys.
    pub(crate) fn backup_keys(&self) -> PathBuf {
        self.backup.keys.clone().unwrap_or_else(|| {
            let mut name = self.store.path.clone().into_os_string();
            name.push(".backup-keys");
            name.into()
        })
    }

    /// Returns the service's options.
    pub(crate) fn service(&self) -> service::Options {
        service::Options {
            gate: gate::Options {
                needs_certificate_for_administration: self.tokens.administration_needs_certificate,
                lifetime_ms: u64::from(self.tokens.lifetime_seconds) * 1000,
                lifetime_ms_max: u64::from(self.tokens.lifetime_seconds_max) * 1000,
                has_certificates: self
                    .tls
                    .as_ref()
                    .is_some_and(|tls| tls.client_authorities.is_some()),
                warning_ms: u64::from(self.tokens.warning_hours) * 3_600_000,
            },
            origin: self.audit.origin.clone(),
            log: audit::Options {
                segment_bytes: u64::from(self.audit.segment_mib) << 20,
                // At most half of a segment.
                reserve_bytes: if self.audit.segment_mib == 1 { 512 << 10 } else { 1 << 20 },
            },
            class: if self.audit.durable { Class::Durable } else { Class::Written },
            quota: service::QuotaOptions {
                us_per_second: self.quota.microseconds_per_second,
                of_tenants: self.quota.tenants.clone(),
                burst_seconds: self.quota.burst_seconds,
            },
            takes_older: false,
        }
    }

    fn check(&self) -> Result<(), Error> {
        let within = |what: &str, value: u32, most: u32| match (1..=most).contains(&value) {
            true => Ok(()),
            false => Err(Error::Settings(format!("`{what}` is {value}; expected 1 to {most}"))),
        };
        within("limits.body_kib", self.limits.body_kib, BODY_KIB_MAX)?;
        within("limits.stream_max_mib", self.limits.stream_max_mib, STREAM_MIB_MAX)?;
        within("limits.streams", self.limits.streams, STREAMS_MAX)?;
        let of_tenant = self.limits.streams_per_tenant;
        within("limits.streams_per_tenant", of_tenant, STREAMS_MAX)?;
        within("limits.connections", self.limits.connections, CONNECTIONS_MAX)?;
        let local = self.limits.local_connections;
        within("limits.local_connections", local, CONNECTIONS_MAX)?;
        let per_address = self.limits.connections_per_address;
        within("limits.connections_per_address", per_address, CONNECTIONS_MAX)?;
        for (tenant, &rate) in &self.quota.tenants {
            within(&format!("quota.tenants.{tenant}"), rate, u32::MAX)?;
        }
        let rate = self.quota.microseconds_per_second.unwrap_or(1);
        within("quota.microseconds_per_second", rate, u32::MAX)?;
        within("quota.burst_seconds", self.quota.burst_seconds, 3600)?;
        within("limits.drain_seconds", self.limits.drain_seconds, DRAIN_MAX)?;
        let (lifetime, most) = (self.tokens.lifetime_seconds, self.tokens.lifetime_seconds_max);
        within("tokens.lifetime_seconds_max", most, u32::MAX)?;
        within("tokens.lifetime_seconds", lifetime, most)?;
        within("tokens.warning_hours", self.tokens.warning_hours, 24 * 365)?;
        within("backup.period_days", self.backup.period_days, 3650)?;
        within("audit.segment_mib", self.audit.segment_mib, 1 << 10)?;
        within("store.cache_mib", self.store.cache_mib, 1 << 20)?;
        let of_clients =
            self.tls.as_ref().map(|tls| (&tls.client_authorities, &tls.client_revocations));
        if let Some((None, Some(_))) = of_clients {
            let why = "`tls.client_revocations` needs `tls.client_authorities`, which is missing";
            return Err(Error::Settings(why.to_owned()));
        }
        let is_open = self.listen.iter().any(|listen| matches!(listen, Listen::Tls(_)));
        match (self.listen.is_empty(), is_open && self.tls.is_none()) {
            (true, _) => Err(Error::Settings("`listen` has no address".to_owned())),
            (false, true) => Err(Error::Settings(
                "`listen` has a network address, which needs a [tls] section".to_owned(),
            )),
            (false, false) => Ok(()),
        }
    }
}

impl FromStr for Config {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let config: Config =
            toml::from_str(text).map_err(|error| Error::Settings(error.to_string()))?;
        config.check()?;
        Ok(config)
    }
}

impl Tls {
    fn files(&self) -> tls::Files {
        tls::Files {
            certificate: self.certificate.clone(),
            key: self.key.clone(),
            client_authorities: self.client_authorities.clone(),
            client_revocations: self.client_revocations.clone(),
        }
    }
}

impl<'de> Deserialize<'de> for Listen {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        let refused = || {
            serde::de::Error::custom(format!(
                "invalid address `{text}`; expected ADDRESS:PORT or unix:/PATH"
            ))
        };
        match text.strip_prefix("unix:") {
            Some(path) if path.starts_with('/') => Ok(Listen::Unix(path.into())),
            Some(_) => Err(refused()),
            None => text.parse::<SocketAddr>().map(Listen::Tls).map_err(|_| refused()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVERY_KEY: &str = include_str!("../kms.toml");

    /// Settings that are commented out in the file have their default values.
    #[test]
    fn example_configuration_parses_and_shows_defaults() {
        let shown: Config = EVERY_KEY.parse().unwrap();
        let all: String = EVERY_KEY
            .lines()
            .map(|line| if line.contains(" = ") { line.trim_start_matches("# ") } else { line })
            .collect::<Vec<_>>()
            .join("\n");
        let all: Config = all.parse().unwrap();
        assert!(all.seal.passphrase_file.is_some() && all.backup.folder.is_some());
        assert!(all.backup.keys.is_some());
        assert!(all.store.size_max_mib.is_some() && all.audit.archive.is_some());
        assert!(all.audit.checkpoints.is_some());
        assert_eq!(all.service().quota.us_per_second, Some(500_000));
        assert_eq!(all.service().quota.of_tenants.len(), 1);
        let short: Config =
            "listen = [\"127.0.0.1:8200\"]\n[tls]\ncertificate = \"/etc/gabion/kms.pem\"\n\
                             key = \"/etc/gabion/kms.key\"\n[store]\npath = \"/var/lib/gabion/kms\"\n[audit]\nfolder = \"/var/lib/gabion/audit\""
                .parse()
                .unwrap();
        assert_eq!(format!("{shown:?}"), format!("{short:?}"));
    }

    #[test]
    fn unknown_and_out_of_range_settings_are_refused() {
        let base = "listen = [\"unix:/run/k\"]\n[audit]\nfolder = \"/a\"\n[store]\npath = \"/s\"\n";
        base.parse::<Config>().unwrap();
        for (text, says) in [
            (format!("{base}sise_max_mib = 3"), "unknown field `sise_max_mib`"),
            (
                format!("{base}[limits]\nbody_kib = 0"),
                "`limits.body_kib` is 0; expected 1 to 65536",
            ),
            (format!("{base}[limits]\nstream_max_mib = 0"), "expected 1 to 16777216"),
            (format!("{base}[limits]\nstreams = 10001"), "`limits.streams` is 10001"),
            (format!("{base}[limits]\nstreams_per_tenant = 0"), "expected 1 to 10000"),
            (format!("{base}[limits]\ndrain_seconds = 10"), "expected 1 to 9"),
            (
                format!("{base}[limits]\ncoalesce = \"all\""),
                "expected one of `any`, `tenant`, `off`",
            ),
            (format!("{base}[limits]\nconnections_per_address = 0"), "expected 1 to 100000"),
            (format!("{base}[limits]\nlocal_connections = 0"), "`limits.local_connections` is 0"),
            (format!("{base}[quota]\nmicroseconds_per_second = 0"), "expected 1 to 4294967295"),
            (format!("{base}[quota]\nburst_seconds = 3601"), "expected 1 to 3600"),
            (format!("{base}[quota]\ntenants = {{ ci = 0 }}"), "`quota.tenants.ci` is 0"),
            (format!("{base}[quota]\ntenants = {{ \"a/b\" = 1 }}"), "invalid name `a/b`"),
            (format!("{base}[backup]\nperiod_days = 0"), "`backup.period_days` is 0; expected 1"),
            (format!("{base}[backup]\nkey = \"/k\""), "unknown field `key`"),
            (format!("{base}[quota]\nrequests = 5"), "unknown field `requests`"),
            (
                format!(
                    "{base}[tls]\ncertificate = \"/c\"\nkey = \"/k\"\nclient_revocations = \"/r\""
                ),
                "which is missing",
            ),
            (format!("lissten = []\n{base}"), "unknown field `lissten`"),
            (base.replace("unix:/run/k", "127.0.0.1:1"), "needs a [tls] section"),
            (base.replace("\"unix:/run/k\"", ""), "no address"),
            (base.replace("unix:/run/k", "http://x"), "expected ADDRESS:PORT"),
            (base.replace("path", "pth"), "unknown field `pth`"),
        ] {
            let error = text.parse::<Config>().unwrap_err().to_string();
            assert!(error.contains(says), "{text}: {error}");
        }
    }
}
