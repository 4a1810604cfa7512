//! The published benchmark's rows: connections, connect time and throughput for each group.
//!
//! ```text
//!  row ─> Pair of endpoints, one for each provider ─> rounds, in which the providers take turns:
//!           exchange:  connect, 128 KiB each way in packets of 16 KiB, again and again
//!           50 KiB:    connect, then the server's answer to its last byte
//!           elapsed:   the same over a socket of the loopback, a thread for each side
//!           threads:   connections a second by 1..N threads, elapsed time
//! ```
//!
//! Except in the third, both sides run in one thread and exchange data in memory, so a side's times
//! are the CPU time that it spends in libssl, without network latency. `connect` is the handshake;
//! both sides together are the time that one connection keeps a core busy.

mod last_byte;
mod old;
mod table;

use std::path::PathBuf;
use std::time::{Duration, Instant};

pub use gabion_rows::handshakes::{
    ConnectionFigures as Figures, Connections as Row, OldSide, SideBySide as Threads, SideFigures,
};
pub use table::render;

use crate::Error;
use crate::cpu_time::thread_cpu_ns;
use crate::machine::Machine;
use crate::ossl::{self, Certificate, Connection, Context, Endpoint, Key, Ossl, Step, Wire};
use crate::outcome::{self, Outcome};
use crate::pairs;
use crate::tls::{self, Credentials, HOST, Provider, Signature};
use crate::wire::CIPHER;
use old::OLD;

/// Bytes each way in a connection, and in a packet: the published benchmark's.
const EXCHANGE: usize = 128 << 10;
const PACKET: usize = 16 << 10;
/// The answer whose last byte is waited for.
const ANSWER: usize = 50 << 10;
/// A handshake of TLS 1.3 takes two turns of each side.
const TURNS_MAX: usize = 8;
/// Turns that the providers take in a row.
const ROUNDS: usize = 5;

/// The options of a measurement.
#[derive(Debug, Clone)]
pub struct Config {
    /// The prefix of the OpenSSL installation.
    pub prefix: PathBuf,
    /// Folder of provider modules; `None` means `lib/ossl-modules` of the prefix.
    pub modules: Option<PathBuf>,
    /// Providers that take turns.
    pub providers: Vec<Provider>,
    /// Algorithm of the certificates; that of the published rows is RSA-2048.
    pub signature: String,
    /// The cipher suite, in any case; none means TLS_AES_256_GCM_SHA384.
    pub cipher: Option<String>,
    /// Time for each row and provider, in seconds; more than 0 and at most 3600.
    pub seconds: f64,
    /// Most threads that connect side by side, 1 to 1024.
    pub threads: usize,
}

/// Measures every row for each provider, in the published order, and hands each to `done`.
///
/// # Errors
/// `Usage` for a value out of range, `NotReady` when OpenSSL or a provider does not load,
/// `Failed` when a connection fails that should not.
pub fn measure(config: &Config, mut done: impl FnMut(&Row)) -> Result<Vec<Row>, Error> {
    if !(config.seconds > 0.0 && config.seconds <= 3600.0) {
        let text = "--seconds is out of range; more than 0 and at most 3600 is possible";
        return Err(Error::Usage(text.into()));
    }
    if !(1..=1024).contains(&config.threads) {
        return Err(Error::Usage("--threads is out of range; 1 to 1024 is possible".into()));
    }
    let prefix = std::fs::canonicalize(&config.prefix).unwrap_or_else(|_| config.prefix.clone());
    let ossl = Ossl::load(&prefix)?;
    let signature = Signature::find(&config.signature)?;
    let credentials = Credentials::make(ossl, config.modules.as_deref(), signature)?;
    let contexts: Result<Vec<Context>, ossl::Error> = config
        .providers
        .iter()
        .map(|provider| {
            tls::context_for(*provider, ossl, config.modules.as_deref(), signature.draft)
        })
        .collect();
    let contexts = contexts?;
    let cipher = config.cipher.as_deref().map_or(CIPHER.to_owned(), str::to_ascii_uppercase);
    // An unknown cipher suite is an error of the command line, not of a row.
    if let Some(context) = contexts.first() {
        let root = Certificate::from_der(context, &credentials.root)?;
        Endpoint::client(context, "x25519", Some(&cipher), &root)
            .map_err(|error| Error::Usage(Error::from(error).to_string()))?;
    }
    let machine = Machine::detect();
    let mut rows = Vec::new();
    for old in &OLD {
        let group = pairs::successor(old.group);
        let outcomes = outcomes(config, &contexts, &credentials, group, &cipher)?;
        for (provider, outcome) in config.providers.iter().zip(outcomes) {
            let (status, note, figures) = outcome::fields(outcome);
            let row = Row {
                old_group: old.group.to_owned(),
                old_server: old.server,
                old_client: old.client,
                group: group.map(str::to_owned),
                sig: signature.name.to_owned(),
                cipher: cipher.clone(),
                provider: *provider,
                status,
                note,
                figures,
                openssl: ossl.version().to_owned(),
                machine: machine.clone(),
            };
            done(&row);
            rows.push(row);
        }
    }
    Ok(rows)
}

/// Returns a row's outcome for each provider; the providers take turns.
fn outcomes(
    config: &Config,
    contexts: &[Context],
    credentials: &Credentials,
    group: Option<&'static str>,
    cipher: &str,
) -> Result<Vec<Outcome<Figures>>, Error> {
    let Some(group) = group else {
        return Ok(vec![outcome::no_successor(); contexts.len()]);
    };
    let mut pairs = Vec::new();
    for context in contexts {
        let pair = Pair::open(context, credentials, group, cipher);
        let pair = outcome::unless_missing(pair, group, &config.signature)?;
        pairs.push(pair.map(|pair| (pair, Sums::default())));
    }
    // Half of the time goes to the exchange, a quarter to the answer in both ways, a quarter to threads.
    let part = |share: f64| Duration::from_secs_f64(config.seconds * share / ROUNDS as f64);
    for _ in 0..ROUNDS {
        for (pair, sums) in pairs.iter_mut().flatten() {
            pair.exchange(sums, part(0.5))?;
            pair.answer(sums, part(0.125))?;
            last_byte::measure(pair, part(0.125), |ns| sums.elapsed.push(ns))?;
            pair.side_by_side(sums, config.threads, part(0.25))?;
        }
    }
    Ok(pairs.into_iter().map(|pair| pair.map(|(_, sums)| sums.figures())).collect())
}

/// The time of one side, in nanoseconds.
#[derive(Debug, Clone, Copy, Default)]
struct SideSums {
    connect: u64,
    rx: u64,
    tx: u64,
}

/// The sums of one provider's rounds.
#[derive(Debug, Default)]
struct Sums {
    connections: u64,
    server: SideSums,
    client: SideSums,
    /// CPU nanoseconds to the last byte, one for each connection.
    last_byte: Vec<u64>,
    /// Elapsed nanoseconds to it, one for each connection over the loopback.
    elapsed: Vec<u64>,
    /// Handshakes and elapsed seconds, by number of threads.
    threads: Vec<(usize, u64, f64)>,
}

impl Sums {
    fn figures(mut self) -> Figures {
        let bytes = self.connections * EXCHANGE as u64;
        let side = |sums: SideSums| {
            let ms = |ns: u64| thousandths(ns as f64 / 1e6);
            let mb_s = |ns: u64| thousandths(bytes as f64 / f64::from(1 << 20) / (ns as f64 / 1e9));
            SideFigures {
                connect_ms: ms(sums.connect),
                connect_avg_ms: thousandths(sums.connect as f64 / 1e6 / self.connections as f64),
                rx_total_ms: ms(sums.rx),
                tx_total_ms: ms(sums.tx),
                rx_mb_s: mb_s(sums.rx),
                tx_mb_s: mb_s(sums.tx),
            }
        };
        let (server, client) = (side(self.server), side(self.client));
        let median = |taken: &mut [u64]| {
            taken.sort_unstable();
            thousandths(taken[taken.len() / 2] as f64 / 1e6)
        };
        let per_s = |&(threads, count, seconds): &(usize, u64, f64)| Threads {
            threads,
            handshakes_per_s: (count as f64 / seconds * 10.0).round() / 10.0,
        };
        Figures {
            connections: self.connections,
            total_bytes: 2 * bytes,
            server,
            client,
            last_byte_50k_ms: median(&mut self.last_byte),
            last_byte_50k_elapsed_ms: median(&mut self.elapsed),
            threads: self.threads.iter().map(per_s).collect(),
        }
    }
}

fn thousandths(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}

/// Both ends of one provider's connections.
struct Pair {
    server: Endpoint,
    client: Endpoint,
}

/// An open connection.
struct Open<'p> {
    server: Connection<'p>,
    client: Connection<'p>,
    server_ns: u64,
    client_ns: u64,
}

impl Pair {
    fn open(
        context: &Context,
        credentials: &Credentials,
        group: &str,
        cipher: &str,
    ) -> Result<Pair, ossl::Error> {
        let key = Key::from_der(context, &credentials.leaf_key)?;
        let leaf = Certificate::from_der(context, &credentials.leaf)?;
        let root = Certificate::from_der(context, &credentials.root)?;
        Ok(Pair {
            server: Endpoint::server(context, group, Some(cipher), &key, &leaf)?,
            client: Endpoint::client(context, group, Some(cipher), &root)?,
        })
    }

    /// A full handshake.
    fn connect(&self) -> Result<Open<'_>, Error> {
        let wire = Wire::new(&self.client)?;
        let mut open = Open {
            server: Connection::new(&self.server, &wire, HOST)?,
            client: Connection::new(&self.client, &wire, HOST)?,
            server_ns: 0,
            client_ns: 0,
        };
        let (mut client, mut server) = (Step::Waiting, Step::Waiting);
        for _ in 0..TURNS_MAX {
            for (end, step, ns) in [
                (&mut open.client, &mut client, &mut open.client_ns),
                (&mut open.server, &mut server, &mut open.server_ns),
            ] {
                if *step == Step::Waiting {
                    let start = thread_cpu_ns();
                    let status = end.advance();
                    *ns += thread_cpu_ns() - start;
                    *step = end.judge(status)?;
                }
            }
            if (client, server) == (Step::Finished, Step::Finished) {
                return Ok(open);
            }
        }
        Err(Error::Failed(format!("a handshake did not finish within {TURNS_MAX} turns")))
    }

    /// Connections that carry [`EXCHANGE`] bytes each way: at least one.
    fn exchange(&self, sums: &mut Sums, length: Duration) -> Result<(), Error> {
        let start = Instant::now();
        loop {
            let mut open = self.connect()?;
            sums.connections += 1;
            sums.server.connect += open.server_ns;
            sums.client.connect += open.client_ns;
            for _ in 0..EXCHANGE / PACKET {
                let (tx, rx) = carry(&mut open.client, &mut open.server, PACKET)?;
                sums.client.tx += tx;
                sums.server.rx += rx;
                let (tx, rx) = carry(&mut open.server, &mut open.client, PACKET)?;
                sums.server.tx += tx;
                sums.client.rx += rx;
            }
            if start.elapsed() >= length {
                return Ok(());
            }
        }
    }

    /// Connections whose server answers with [`ANSWER`] bytes: at least one.
    fn answer(&self, sums: &mut Sums, length: Duration) -> Result<(), Error> {
        let start = Instant::now();
        loop {
            let mut open = self.connect()?;
            let mut spent = open.server_ns + open.client_ns;
            for size in (0..ANSWER).step_by(PACKET).map(|at| PACKET.min(ANSWER - at)) {
                let (tx, rx) = carry(&mut open.server, &mut open.client, size)?;
                spent += tx + rx;
            }
            sums.last_byte.push(spent);
            if start.elapsed() >= length {
                return Ok(());
            }
        }
    }

    /// Handshakes by 1, 2, 4 .. `most` threads, which share the time.
    fn side_by_side(&self, sums: &mut Sums, most: usize, length: Duration) -> Result<(), Error> {
        let counts = thread_counts(most);
        let each = length / counts.len() as u32;
        for count in counts {
            let start = Instant::now();
            let work = || -> Result<u64, Error> {
                let mut made = 0;
                loop {
                    self.connect()?;
                    made += 1;
                    if start.elapsed() >= each {
                        return Ok(made);
                    }
                }
            };
            let made: Result<u64, Error> = std::thread::scope(|scope| {
                let running: Vec<_> = (0..count).map(|_| scope.spawn(work)).collect();
                let failed = || Error::Failed("a thread failed".into());
                running.into_iter().map(|thread| thread.join().map_err(|_| failed())?).sum()
            });
            let (made, seconds) = (made?, start.elapsed().as_secs_f64());
            match sums.threads.iter_mut().find(|entry| entry.0 == count) {
                Some(entry) => *entry = (count, entry.1 + made, entry.2 + seconds),
                None => sums.threads.push((count, made, seconds)),
            }
        }
        Ok(())
    }
}

/// 1, 2, 4 .. and the last one itself.
fn thread_counts(most: usize) -> Vec<usize> {
    let mut counts: Vec<usize> =
        std::iter::successors(Some(1), |count| Some(count * 2)).take_while(|c| *c < most).collect();
    counts.push(most);
    counts
}

/// Sends one packet over memory and receives it; CPU nanoseconds of either.
fn carry(
    from: &mut Connection<'_>,
    to: &mut Connection<'_>,
    size: usize,
) -> Result<(u64, u64), Error> {
    let data = [0x5a; PACKET];
    let mut room = [0; PACKET];
    let start = thread_cpu_ns();
    from.send(&data[..size])?;
    let sent = thread_cpu_ns();
    let mut received = 0;
    while received < size {
        match to.receive(&mut room[received..size])? {
            0 => return Err(Error::Failed("a connection ended in the middle".into())),
            count => received += count,
        }
    }
    Ok((sent - start, thread_cpu_ns() - sent))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_double_up_to_the_last() {
        assert_eq!(thread_counts(1), [1]);
        assert_eq!(thread_counts(2), [1, 2]);
        assert_eq!(thread_counts(6), [1, 2, 4, 6]);
    }

    #[test]
    fn sums_become_figures() {
        let side = SideSums { connect: 2_000_000, rx: 500_000_000, tx: 250_000_000 };
        let sums = Sums {
            connections: 8,
            server: side,
            client: side,
            last_byte: vec![3_000_000, 1_000_000, 2_000_000],
            elapsed: vec![4_000_000],
            threads: vec![(1, 100, 0.5)],
        };
        let figures = sums.figures();
        assert_eq!(figures.total_bytes, 8 * 262_144);
        assert_eq!((figures.server.rx_mb_s, figures.server.tx_mb_s), (2.0, 4.0));
        assert_eq!((figures.client.connect_ms, figures.client.connect_avg_ms), (2.0, 0.25));
        assert_eq!((figures.last_byte_50k_ms, figures.last_byte_50k_elapsed_ms), (2.0, 4.0));
        assert_eq!(figures.threads[0].handshakes_per_s, 200.0);
    }
}
