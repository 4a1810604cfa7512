//! The effect of a provider's switch: equal handshakes with it on and off, in turns.
//!
//! ```text
//!  on  ─> context with `SWITCH = yes` │ slice │       │ slice │ ...   wall time of each handshake,
//!  off ─> context with `SWITCH = no`  │       │ slice │       │ ...   CPU time of the whole process
//! ```
//!
//! A switch may move work to other threads, so what counts is the CPU time of the process, and the wall
//! time of one handshake, client and server together, as the thread sees it that makes it.

use std::path::PathBuf;
use std::sync::Barrier;
use std::time::{Duration, Instant};

pub use gabion_rows::handshakes::{LoneVerdict, Ratios, Switch as Row, SwitchFigures as Figures};

use super::Spread;
use super::credentials::{Credentials, HOST};
use super::lane::shake;
use super::names::{Group, Signature};
use super::statistics::{median, percentile};
use crate::Error;
use crate::cpu_time::process_cpu_ns;
use crate::machine::Machine;
use crate::ossl::{Certificate, Connection, Context, Endpoint, Key, Ossl, Step, Wire};

/// The options of a measurement.
#[derive(Debug, Clone)]
pub struct Config {
    /// The prefix of the OpenSSL installation.
    pub prefix: PathBuf,
    /// Folder of provider modules; `None` means `lib/ossl-modules` of the prefix.
    pub modules: Option<PathBuf>,
    /// The switch, as it is named in the provider's section of a configuration file.
    pub switch: String,
    /// Key exchange group.
    pub group: String,
    /// Algorithm of the certificates.
    pub signature: String,
    /// Threads that shake hands side by side.
    pub threads: usize,
    /// Connections that each thread's event loop has under way, in asynchronous jobs (SSL_MODE_ASYNC); 0
    /// for one after the other, without.
    pub connections: usize,
    /// Rounds; in each, both take a slice of a quarter of a second.
    pub rounds: usize,
}

/// A connection alone counts as slower where its p50 with the switch is above so many times that without.
/// Two settings that do the same differ by less than this on a quiet machine.
pub const ALONE_MAX: f64 = 1.02;

/// Length of a slice.
const SLICE: Duration = Duration::from_millis(250);

/// The switches, as the provider's section of a configuration file names them.
const SWITCHES: [&str; 3] = ["key-pools", "x25519", "async-jobs"];

/// The rows of docs/reference/provider-measurements.md: switch, group, signature, threads and
/// connections. Most certificates are ECDSA, with which the group is the largest part of a
/// handshake. `default` is not a group: libssl's own list, with two key shares of a client.
pub const USUAL: [(&str, &str, &str, usize, usize); 17] = [
    ("key-pools", "X25519MLKEM768", "ECDSA-P-256", 1, 0),
    ("key-pools", "X25519MLKEM768", "ML-DSA-65", 1, 0),
    ("key-pools", "MLKEM768", "ECDSA-P-256", 1, 0),
    ("key-pools", "MLKEM768", "ML-DSA-65", 1, 0),
    ("key-pools", "SecP256r1MLKEM768", "ECDSA-P-256", 1, 0),
    ("key-pools", "SecP256r1MLKEM768", "ML-DSA-65", 1, 0),
    ("key-pools", "SecP384r1MLKEM1024", "ECDSA-P-256", 1, 0),
    ("key-pools", "SecP384r1MLKEM1024", "ML-DSA-65", 1, 0),
    ("key-pools", "default", "ECDSA-P-256", 1, 0),
    ("key-pools", "default", "ML-DSA-65", 1, 0),
    ("x25519", "default", "ECDSA-P-256", 1, 0),
    ("x25519", "default", "ML-DSA-65", 1, 0),
    ("x25519", "x25519", "ECDSA-P-256", 1, 0),
    ("async-jobs", "X25519MLKEM768", "ML-DSA-65", 1, 1),
    ("async-jobs", "X25519MLKEM768", "ML-DSA-65", 1, 8),
    ("async-jobs", "X25519MLKEM768", "ML-DSA-65", 1, 32),
    ("async-jobs", "X25519MLKEM768", "ML-DSA-65", 2, 8),
];

/// Measures a switch.
///
/// # Errors
/// `Usage` for an unknown name, `NotReady` when OpenSSL or the provider does not load, `Failed` when
/// a handshake fails.
pub fn measure(config: &Config) -> Result<Row, Error> {
    if config.threads == 0 || config.rounds == 0 {
        return Err(Error::Usage("at least one thread and one round are needed".into()));
    }
    // The provider passes over names that it does not know: both sides would be the same.
    if !SWITCHES.contains(&config.switch.as_str()) {
        let (switch, known) = (&config.switch, SWITCHES.join(", "));
        return Err(Error::Usage(format!("no switch `{switch}`; expected one of: {known}")));
    }
    let prefix = std::fs::canonicalize(&config.prefix).unwrap_or_else(|_| config.prefix.clone());
    let ossl = Ossl::load(&prefix)?;
    let group = Group::find(&config.group)?;
    let signature = Signature::find(&config.signature)?;
    let credentials = Credentials::make(ossl, config.modules.as_deref(), signature)?;
    let pair = |word: &str| -> Result<[Endpoint; 2], Error> {
        let drafts = if signature.draft { "yes" } else { "no" };
        let settings = [(config.switch.as_str(), word), ("tls-draft-signatures", drafts)];
        let (names, query) = (["default", "gabion"], Some("?provider=gabion"));
        let modules = config.modules.as_deref();
        let context = Context::with_settings(ossl, modules, &names, query, &settings)?;
        let key = Key::from_der(&context, &credentials.leaf_key)?;
        let leaf = Certificate::from_der(&context, &credentials.leaf)?;
        let root = Certificate::from_der(&context, &credentials.root)?;
        let server = Endpoint::server(&context, group.list(), None, &key, &leaf)?;
        let client = Endpoint::client(&context, group.list(), None, &root)?;
        if config.connections > 0 {
            server.set_async();
            client.set_async();
        }
        Ok([server, client])
    };
    let (on, off) = (pair("yes")?, pair("no")?);
    for endpoints in [&on, &off] {
        slice(endpoints, config)?;
    }
    let mut slices = [Vec::new(), Vec::new()];
    for round in 0..config.rounds {
        // Each goes first in every other round.
        let order = if round % 2 == 0 { [0, 1] } else { [1, 0] };
        for place in order {
            slices[place].push(slice([&on, &off][place], config)?);
        }
    }
    let [on, off] = slices;
    let (paired, p50_spread) = paired_ratios(&on, &off);
    let (on, off) = (over(&on), over(&off));
    let of_medians = ratios(&on, &off, rounded);
    Ok(Row {
        switch: config.switch.clone(),
        group: group.name.into(),
        sig: signature.name.into(),
        threads: config.threads,
        connections: config.connections,
        rounds: config.rounds,
        on,
        off,
        paired,
        p50_spread,
        of_medians,
        alone: lone_verdict(config, &paired, &of_medians),
        machine: Machine::detect(),
        openssl: ossl.version().into(),
    })
}

/// Handshakes of all threads, for the length of a slice.
fn slice(endpoints: &[Endpoint; 2], config: &Config) -> Result<Figures, Error> {
    let (threads, [server, client]) = (config.threads, endpoints);
    let barrier = Barrier::new(threads);
    let work = || -> Result<Vec<f64>, Error> {
        barrier.wait();
        if config.connections > 0 {
            return event_loop(endpoints, config.connections);
        }
        let (start, mut times) = (Instant::now(), Vec::new());
        while start.elapsed() < SLICE {
            let begun = Instant::now();
            shake(server, client, false)?;
            times.push(begun.elapsed().as_nanos() as f64 / 1e3);
        }
        Ok(times)
    };
    let (start, cpu) = (Instant::now(), process_cpu_ns());
    let results: Vec<_> = std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let failed = || Error::Failed("a measuring thread failed".into());
        running.into_iter().map(|thread| thread.join().map_err(|_| failed())?).collect()
    });
    let (cpu, wall) = (process_cpu_ns() - cpu, start.elapsed());
    let mut times = Vec::new();
    for result in results {
        times.extend(result?);
    }
    times.sort_by(f64::total_cmp);
    let count = times.len() as f64;
    Ok(Figures {
        p50_us: times[times.len() / 2],
        p99_us: times[times.len() * 99 / 100],
        cpu_us: cpu as f64 / 1e3 / count,
        handshakes_per_s: count / wall.as_secs_f64(),
    })
}

/// Both sides of a connection, made for one loop.
struct Pair<'e> {
    begun: Instant,
    sides: [(Connection<'e>, Step); 2],
}

impl<'e> Pair<'e> {
    fn new([server, client]: &'e [Endpoint; 2]) -> Result<Self, Error> {
        let begun = Instant::now();
        let wire = Wire::new(client)?;
        let side = |endpoint| -> Result<_, Error> {
            Ok((Connection::new(endpoint, &wire, HOST)?, Step::Waiting))
        };
        Ok(Pair { begun, sides: [side(client)?, side(server)?] })
    }

    fn is_over(&self) -> bool {
        self.sides.iter().all(|(_, step)| *step == Step::Finished)
    }

    /// Lets both sides go on that can; those that are paused where their descriptor is readable.
    fn advance(&mut self) -> Result<(), Error> {
        for (connection, step) in &mut self.sides {
            if *step == Step::Paused && !is_readable(&connection.descriptors()?, 0) {
                continue;
            }
            if *step != Step::Finished {
                let status = connection.advance();
                *step = connection.judge(status)?;
            }
        }
        Ok(())
    }
}

/// Returns whether a descriptor is readable, or becomes so within a time (negative: any).
fn is_readable(descriptors: &[i32], milliseconds: i32) -> bool {
    let ask = |&fd: &i32| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    let mut asked: Vec<_> = descriptors.iter().map(ask).collect();
    // SAFETY: as many entries as said.
    unsafe { libc::poll(asked.as_mut_ptr(), asked.len() as libc::nfds_t, milliseconds) > 0 }
}

/// One thread's event loop for the length of a slice: each handshake's wall time in microseconds.
fn event_loop(endpoints: &[Endpoint; 2], connections: usize) -> Result<Vec<f64>, Error> {
    let (start, mut times) = (Instant::now(), Vec::new());
    let pairs: Result<Vec<_>, Error> = (0..connections).map(|_| Pair::new(endpoints)).collect();
    let mut pairs = pairs?;
    while start.elapsed() < SLICE {
        let mut waits = Vec::new();
        for pair in &mut pairs {
            pair.advance()?;
            if pair.is_over() {
                times.push(pair.begun.elapsed().as_nanos() as f64 / 1e3);
                *pair = Pair::new(endpoints)?;
            } else if pair.sides.iter().any(|(_, step)| *step == Step::Paused) {
                for (connection, step) in &pair.sides {
                    if *step == Step::Paused {
                        waits.extend(connection.descriptors()?);
                    }
                }
            }
        }
        if waits.len() >= connections {
            // No connection can continue.
            is_readable(&waits, -1);
        }
    }
    // Unfinished handshakes would leak OpenSSL's stacks of paused jobs.
    for mut pair in pairs {
        while !pair.is_over() {
            pair.advance()?;
        }
    }
    Ok(times)
}

fn over(slices: &[Figures]) -> Figures {
    let of = |field: fn(&Figures) -> f64| rounded(median(&sorted(slices.iter().map(field))));
    Figures {
        p50_us: of(|slice| slice.p50_us),
        p99_us: of(|slice| slice.p99_us),
        cpu_us: of(|slice| slice.cpu_us),
        handshakes_per_s: of(|slice| slice.handshakes_per_s),
    }
}

/// Returns the verdict on a lone connection, or `None` if several are under way.
fn lone_verdict(config: &Config, paired: &Ratios, of_medians: &Ratios) -> Option<LoneVerdict> {
    if config.threads != 1 || config.connections > 1 {
        return None;
    }
    let within = [paired, of_medians].map(|ratios| ratios.p50_ratio <= ALONE_MAX);
    Some(match within {
        [true, true] => LoneVerdict::NotSlower,
        [false, false] => LoneVerdict::Slower,
        _ => LoneVerdict::Undecided,
    })
}

/// Returns the medians of the rounds' ratios, and the spread of those of p50.
fn paired_ratios(on: &[Figures], off: &[Figures]) -> (Ratios, Spread) {
    let rounds: Vec<Ratios> =
        on.iter().zip(off).map(|(on, off)| ratios(on, off, |ratio| ratio)).collect();
    let of = |field: fn(&Ratios) -> f64| sorted(rounds.iter().map(field));
    let p50 = of(|round| round.p50_ratio);
    let medians = Ratios {
        p50_ratio: rounded(median(&p50)),
        cpu_ratio: rounded(median(&of(|round| round.cpu_ratio))),
        rate_ratio: rounded(median(&of(|round| round.rate_ratio))),
    };
    let at = |percent| rounded(percentile(&p50, percent));
    (medians, Spread { p20: at(20), p80: at(80) })
}

fn ratios(on: &Figures, off: &Figures, finish: fn(f64) -> f64) -> Ratios {
    Ratios {
        p50_ratio: finish(on.p50_us / off.p50_us),
        cpu_ratio: finish(on.cpu_us / off.cpu_us),
        rate_ratio: finish(on.handshakes_per_s / off.handshakes_per_s),
    }
}

fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values
}

fn rounded(value: f64) -> f64 {
    (value * 1e4).round() / 1e4
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slice(p50_us: f64, cpu_us: f64) -> Figures {
        Figures { p50_us, p99_us: 9.0, cpu_us, handshakes_per_s: 1.0 }
    }

    #[test]
    fn medians_are_of_each_figure_by_itself() {
        let all = over(&[slice(1.0, 30.0), slice(2.0, 10.0), slice(3.0, 20.0)]);
        assert_eq!(all, slice(2.0, 20.0));
    }

    /// A machine of two speeds: each round says that the switch costs nothing, the medians that it costs
    /// a third.
    #[test]
    fn rounds_and_medians_may_contradict_and_then_nothing_is_decided() {
        let on: Vec<_> = [300.0, 400.0, 400.0, 300.0, 400.0].map(|p50| slice(p50, 2.0)).into();
        let off: Vec<_> = [300.0, 400.0, 300.0, 300.0, 400.0].map(|p50| slice(p50, 1.0)).into();
        let (paired, spread) = paired_ratios(&on, &off);
        assert_eq!(paired, Ratios { p50_ratio: 1.0, cpu_ratio: 2.0, rate_ratio: 1.0 });
        assert_eq!(spread, Spread { p20: 1.0, p80: 1.0 });
        let of_medians = ratios(&over(&on), &over(&off), rounded);
        assert_eq!(of_medians, Ratios { p50_ratio: 1.3333, cpu_ratio: 2.0, rate_ratio: 1.0 });
        assert_eq!(lone_verdict(&config(1, 0), &paired, &of_medians), Some(LoneVerdict::Undecided));
    }

    #[test]
    fn a_connection_alone_is_slower_above_the_bound_by_both_ratios() {
        let ratios = |p50_ratio| Ratios { p50_ratio, cpu_ratio: 9.0, rate_ratio: 0.1 };
        for (paired, of_medians, expected) in [
            (1.02, 1.02, LoneVerdict::NotSlower),
            (0.5, 1.0, LoneVerdict::NotSlower),
            (1.0201, 1.3, LoneVerdict::Slower),
            (1.0, 1.0201, LoneVerdict::Undecided),
            (1.0201, 1.0, LoneVerdict::Undecided),
            (f64::NAN, f64::NAN, LoneVerdict::Slower),
        ] {
            let alone = lone_verdict(&config(1, 1), &ratios(paired), &ratios(of_medians));
            assert_eq!(alone, Some(expected), "{paired} {of_medians}");
        }
        for (threads, connections) in [(1, 2), (2, 0), (2, 1)] {
            let alone = lone_verdict(&config(threads, connections), &ratios(2.0), &ratios(2.0));
            assert_eq!(alone, None, "{threads} threads, {connections} connections");
        }
    }

    fn config(threads: usize, connections: usize) -> Config {
        Config {
            prefix: PathBuf::new(),
            modules: None,
            switch: "key-pools".into(),
            group: "X25519MLKEM768".into(),
            signature: "ML-DSA-65".into(),
            threads,
            connections,
            rounds: 5,
        }
    }

    /// A wrong name would end `gabion bench switches` after minutes.
    #[test]
    fn default_switch_rows_name_known_algorithms() {
        for (switch, group, signature, threads, _) in USUAL {
            assert!(SWITCHES.contains(&switch) && threads > 0, "{switch}");
            assert!(Group::find(group).is_ok() && Signature::find(signature).is_ok(), "{group}");
        }
    }
}
