//! Rows of result files: of all kinds, including older formats.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::commands::{Pkeyutl, Speed};
use crate::connections::{Memory, Wire};
use crate::gpu::{Gpu, Offload, Profile};
use crate::handshakes::{Connections, Handshake, Provider, RowSpread, Server, Stack, Switch};
use crate::hbs::{Durable, Hbs};
use crate::kms::Kms;
use crate::machine::Machine;
use crate::operations::{Floor, Peer, Reference, RunOperation, Threads};
use crate::size::Module;

/// A row with its origin.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    /// The date, the machine and the software of the measurement.
    pub origin: Origin,
    /// The measurement.
    pub row: Row,
}

/// The origin of a row, as far as the row records it.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
pub struct Origin {
    /// The machine that was measured.
    #[serde(default)]
    pub machine: Host,
    /// When: `2026-11-25T09:30:59Z`.
    pub date: Option<String>,
    /// The start of its run; only other libraries' rows have it.
    pub run: Option<String>,
    /// The version of Gabion that measured.
    pub gabion: Option<String>,
    /// The commit that it was built from.
    pub commit: Option<String>,
    /// The version of OpenSSL.
    pub openssl: Option<String>,
}

/// The host that a row was measured on.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(untagged)]
pub enum Host {
    /// A machine in full.
    Machine(Machine),
    /// A name that several may have.
    Name(String),
    /// The row does not say it.
    #[default]
    Unknown,
}

/// The output of `gabion run`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunFile {
    /// The date of the file.
    pub date: Option<String>,
    /// The version of Gabion.
    pub gabion: Option<String>,
    /// The commit that it was built from.
    pub commit: Option<String>,
    /// The version of OpenSSL.
    pub openssl: Option<String>,
    /// The handshakes with each provider.
    pub tls: RunHandshakes,
    /// The engine's operations.
    pub engine: Vec<RunOperation>,
}

/// A handshake of `gabion run`: the code that served it, and its cost with each provider.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunHandshakes {
    /// TLS version that was negotiated.
    pub version: String,
    /// The group.
    pub group: String,
    /// The algorithm of the certificates.
    pub signature: String,
    /// The cipher suite.
    #[serde(default)]
    pub cipher: String,
    /// The provider of the group's key exchange.
    pub kem_provider: String,
    /// The provider of signatures.
    pub signature_provider: String,
    /// Handshakes for each second of CPU time.
    pub handshakes_per_cpu_s: PerProvider,
    /// CPU time of the server, in microseconds.
    pub server_us: PerProvider,
    /// CPU time of the client, in microseconds.
    pub client_us: PerProvider,
}

/// A figure for each provider.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct PerProvider {
    /// OpenSSL's own.
    pub default: f64,
    /// Ours.
    pub gabion: f64,
}

/// A row of any kind.
#[derive(Debug, Clone, PartialEq)]
pub enum Row {
    /// `gabion bench tls`.
    Handshake(Handshake),
    /// `gabion bench tls --table seed`.
    Connections(Connections),
    /// bench/servers.
    Server(Server),
    /// `gabion bench engine`.
    Engine(RunOperation),
    /// bench/peers.
    Peer(Peer),
    /// `gabion bench engine --backend cuda`.
    Gpu(Box<Gpu>),
    /// `gabion bench engine --backend cuda --profile`.
    Profile(Box<Profile>),
    /// `gabion bench offload`.
    Offload(Box<Offload>),
    /// The example `threads`.
    Threads(Threads),
    /// `gabion bench wire`.
    Wire(Wire),
    /// `gabion bench memory`.
    Memory(Memory),
    /// `gabion bench openssl`.
    Speed(Speed),
    /// `gabion bench pkeyutl`.
    Pkeyutl(Pkeyutl),
    /// `gabion bench switches`.
    Switch(Switch),
    /// `gabion bench size`.
    Size(Module),
    /// `gabion bench hbs`.
    Hbs(Box<Hbs>),
    /// `gabion bench hbs --durable`.
    Durable(Box<Durable>),
    /// `gabion bench kms`.
    Kms(Box<Kms>),
    /// The program `floors`.
    Floor(Floor),
    /// bench/results/recorded.ndjson.
    Reference(Reference),
    /// A kind of row that Rust code does not read.
    Other,
}

impl Row {
    /// The row of an object: of the kind that has such fields.
    fn of(value: &Value) -> Result<Row, String> {
        let has = |field: &str| value.get(field).is_some();
        let row = if has("end_to_end") {
            Row::Gpu(Box::new(parse("bench engine --backend cuda", value)?))
        } else if has("kernel_name") {
            Row::Profile(Box::new(parse("bench engine --profile", value)?))
        } else if has("way") && has("iterations") {
            Row::Offload(Box::new(parse("bench offload", value)?))
        } else if has("old_group") {
            Row::Connections(parse("bench tls --table seed", value)?)
        } else if has("server_us") {
            Row::Handshake(parse("bench tls", value)?)
        } else if has("worker_us_per_connection") {
            Row::Server(parse("servers", value)?)
        } else if has("set") && has("cycles_per_compression") {
            Row::Hbs(Box::new(parse("bench hbs", value)?))
        } else if has("set") && has("fdatasync_us") {
            Row::Durable(Box::new(parse("bench hbs --durable", value)?))
        } else if has("request") && has("through") {
            Row::Kms(Box::new(parse("bench kms", value)?))
        } else if has("floor_cycles") {
            Row::Floor(parse("floors", value)?)
        } else if has("ns_per_op") && has("peer") {
            Row::Peer(parse("peers", value)?)
        } else if has("ns_per_op") {
            Row::Engine(parse("bench engine", value)?)
        } else if has("kind") && has("core_cycles_per_op") {
            Row::Reference(parse("recorded", value)?)
        } else if has("ops_per_s") && has("threads") {
            Row::Threads(parse("threads", value)?)
        } else if has("switch") {
            Row::Switch(parse("bench switches", value)?)
        } else if has("authentication") && has("tickets") {
            Row::Wire(parse("bench wire", value)?)
        } else if has("authentication") {
            Row::Memory(parse("bench memory", value)?)
        } else if has("ratios") {
            Row::Speed(parse("bench openssl", value)?)
        } else if value["results"][0].get("process").is_some() {
            Row::Pkeyutl(parse("bench pkeyutl", value)?)
        } else if has("stripped_bytes") {
            Row::Size(parse("bench size", value)?)
        } else {
            Row::Other
        };
        Ok(row)
    }
}

impl Record {
    fn of(value: &Value) -> Result<Record, String> {
        let row = Row::of(value)?;
        let mut origin = match &row {
            // Unused, and fields of foreign rows may be anything.
            Row::Other => Origin::default(),
            _ => parse("results", value)?,
        };
        if let Row::Size(module) = &row {
            // It has had its version for longer than others.
            origin.gabion = Some(module.version.clone()).filter(|version| !version.is_empty());
        }
        Ok(Record { origin, row })
    }
}

impl RunFile {
    /// Returns the file's handshakes with each provider, and the engine's operations, as rows.
    fn records(self) -> Vec<Record> {
        let RunFile { date, gabion, commit, openssl, tls, engine } = self;
        let machine = engine.first().map(|row| row.timing.machine.clone()).unwrap_or_default();
        let place = Host::Machine(machine.clone());
        let origin = Origin { machine: place, date, run: None, gabion, commit, openssl };
        let each = |of: PerProvider, provider| match provider {
            Provider::Default => of.default,
            _ => of.gabion,
        };
        let handshake = |provider| Handshake {
            group: tls.group.clone(),
            sig: tls.signature.clone(),
            provider,
            cipher: tls.cipher.clone(),
            threads: 1,
            handshakes: 0,
            handshakes_per_cpu_s: each(tls.handshakes_per_cpu_s, provider),
            server_us: each(tls.server_us, provider),
            client_us: each(tls.client_us, provider),
            bytes_c2s: 0,
            bytes_s2c: 0,
            samples: 0,
            machine: machine.clone(),
            version: tls.version.clone(),
            signature_scheme: String::new(),
            kem_provider: String::new(),
            signature_provider: String::new(),
            openssl: String::new(),
            spread: RowSpread::default(),
            groups: String::new(),
            stack: Stack::Openssl,
        };
        let handshakes = [Provider::Default, Provider::Gabion].map(handshake).map(Row::Handshake);
        let rows = engine.into_iter().map(Row::Engine).chain(handshakes);
        rows.map(|row| Record { origin: origin.clone(), row }).collect()
    }
}

/// Parses the rows of a file: one object a line, a single object over many lines, or the output of
/// `gabion run`.
///
/// # Errors
/// A sentence about the first malformed object, or the first that lacks a field of its kind.
pub fn read(text: &str) -> Result<Vec<Record>, String> {
    let values = match serde_json::from_str::<Value>(text) {
        Ok(run) if run["engine"][0].is_object() => {
            return parse::<RunFile>("run", &run).map(RunFile::records);
        }
        Ok(value) => vec![value],
        Err(_) => {
            let lines = text.lines().filter(|line| !line.trim().is_empty());
            let values: Result<Vec<Value>, _> = lines.map(serde_json::from_str).collect();
            values.map_err(|cause| format!("{cause}; one JSON object a line is expected"))?
        }
    };
    values.iter().map(Record::of).collect()
}

fn parse<T: DeserializeOwned>(kind: &str, value: &Value) -> Result<T, String> {
    T::deserialize(value).map_err(|cause| format!("a row of `{kind}`: {cause}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The name, the rows and the lines of every file of bench/results.
    fn recorded() -> Vec<(String, Vec<Record>, Vec<Value>)> {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../results");
        let mut files = Vec::new();
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            if name.ends_with(".ndjson") || name.starts_with("run-") {
                let text = std::fs::read_to_string(&path).unwrap();
                let rows = read(&text).unwrap_or_else(|cause| panic!("{name}: {cause}"));
                let lines = text.lines().filter_map(|line| serde_json::from_str(line).ok());
                let lines = lines.filter(Value::is_object);
                files.push((name, rows, lines.collect()));
            }
        }
        assert!(files.len() > 40, "{}", files.len());
        files
    }

    #[test]
    fn every_recorded_row_is_of_a_kind() {
        // Files that no Rust code reads.
        let others = [
            "build-",
            "go-",
            "handshake-profile-",
            "hbs-faults.",
            "profile-",
            "shared-batches-",
            "soak.",
        ];
        for (name, rows, _) in recorded() {
            assert!(!rows.is_empty(), "{name}");
            let is_other = others.iter().any(|other| name.starts_with(other));
            let of_none = rows.iter().filter(|record| record.row == Row::Other).count();
            // The script of nginx ends with a ratio.
            let expected =
                if is_other { rows.len() } else { usize::from(name.contains("nginx-epyc-zen3")) };
            assert_eq!(of_none, expected, "{name}");
        }
    }

    #[test]
    fn rows_are_written_as_they_were_read() {
        /// Returns whether everything of `old` stands in `new`, which may have fields more.
        fn is_within(old: &Value, new: &Value) -> bool {
            match (old, new) {
                (Value::Object(old), Value::Object(new)) => old
                    .iter()
                    .all(|(name, value)| new.get(name).is_some_and(|new| is_within(value, new))),
                (Value::Array(old), Value::Array(new)) => {
                    old.len() == new.len() && old.iter().zip(new).all(|(a, b)| is_within(a, b))
                }
                (Value::Number(old), Value::Number(new)) => old.as_f64() == new.as_f64(),
                _ => old == new,
            }
        }
        for (name, rows, lines) in recorded() {
            for (record, mut line) in rows.iter().zip(lines) {
                // The command line puts these behind every row.
                for field in ["date", "gabion", "commit"] {
                    line.as_object_mut().unwrap().remove(field);
                }
                let new = match &record.row {
                    Row::Handshake(row) => serde_json::to_value(row),
                    Row::Connections(row) => serde_json::to_value(row),
                    Row::Engine(row) => serde_json::to_value(row),
                    Row::Peer(row) => serde_json::to_value(row),
                    Row::Gpu(row) => serde_json::to_value(row),
                    Row::Profile(row) => serde_json::to_value(row),
                    Row::Offload(row) => serde_json::to_value(row),
                    Row::Threads(row) => serde_json::to_value(row),
                    Row::Wire(row) => serde_json::to_value(row),
                    Row::Memory(row) => serde_json::to_value(row),
                    Row::Speed(row) => serde_json::to_value(row),
                    Row::Pkeyutl(row) => serde_json::to_value(row),
                    Row::Switch(row) => serde_json::to_value(row),
                    Row::Size(row) => serde_json::to_value(row),
                    Row::Hbs(row) => serde_json::to_value(row),
                    Row::Durable(row) => serde_json::to_value(row),
                    Row::Kms(row) => serde_json::to_value(row),
                    Row::Floor(row) => serde_json::to_value(row),
                    Row::Reference(row) => serde_json::to_value(row),
                    // A script writes those of servers.
                    Row::Server(_) | Row::Other => continue,
                };
                assert!(is_within(&line, &new.unwrap()), "{name}: {line}");
            }
        }
    }

    #[test]
    fn measured_rows_have_figures() {
        for (name, rows, _) in recorded() {
            for record in rows {
                let (status, is_there) = match &record.row {
                    Row::Connections(row) => (row.status, row.figures.is_some()),
                    Row::Wire(row) => (row.status, row.figures.is_some()),
                    Row::Memory(row) => (row.status, row.server.is_some() && row.client.is_some()),
                    _ => continue,
                };
                assert_eq!(status == crate::Status::Measured, is_there, "{name}");
            }
        }
    }

    #[test]
    fn a_row_that_lacks_a_field_is_no_row() {
        let cause = read("{\"server_us\": 1.0, \"group\": \"G\"}").unwrap_err();
        assert!(cause.starts_with("a row of `bench tls`: missing field"), "{cause}");
        assert!(read("{\"a\": 1}\nno JSON").unwrap_err().contains("one JSON object a line"));
        assert_eq!(read("{\"a\":\n 1}").unwrap()[0].row, Row::Other);
    }
}
