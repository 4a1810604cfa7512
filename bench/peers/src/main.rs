//! `gabion-peers`: what `gabion bench engine` measures, done by other libraries.
//!
//! First every library is checked against all others ([`check`]); then each operation is timed
//! for all of them in turn, so that they meet the machine in the same minute.

mod aws_lc;
mod check;
mod crates;
mod curves;
mod falcon;
#[cfg(target_arch = "x86_64")]
mod graviola;
mod hybrid_rows;
mod hybrids;
mod libcrux;
mod liboqs;
mod openssl;
mod peer;
mod wolfssl;

use std::ffi::OsStr;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, ValueEnum};
use gabion_rows::clock::{Centre, Clock, Figures, Plan};
use gabion_rows::inputs;
use gabion_rows::machine::Machine;
use gabion_rows::operations::{Peer as Row, Subject, Timing};
use regex::Regex;

use check::Slot;
use hybrid_rows::hybrid_rows;
use peer::{
    DSA_SETS, Dsa, DsaSet, EXCHANGES, Error, Exchange, HYBRID_SETS, Identity, KEM_SETS, Kem,
    KemSet, Key, Operation, Peer, Randomness, Result, SIGNERS, Signer,
};

/// How this program was compiled: what the Rust peers owe their speed to.
pub const RUST_BUILD: &str = match option_env!("RUSTFLAGS") {
    Some(flags) => flags,
    None => "no RUSTFLAGS",
};

/// Signing is a mean over all messages of the inputs; everything else is a median of at least
/// this many samples.
const SAMPLES_MIN: usize = 100;

/// Turns that each library gets for a row, each with its share of the seconds.
const ROUNDS: usize = 3;

/// Key pairs that fresh operations walk through.
const KEYS: usize = 16;

/// Measures other libraries' key encapsulation, signatures and key exchange with the inputs of
/// `gabion bench engine`.
#[derive(Parser)]
#[command(
    version,
    after_help = "Example:\n  gabion-peers --filter 'ML-DSA-65:verify' --seconds 0.5 --json\n\n\
                  Exit codes: 0 done; 1 the libraries disagree; 2 command line wrong; \
                  3 a library is missing."
)]
struct Options {
    /// Only rows whose `algorithm:operation:key` matches this regular expression
    #[arg(long, value_name = "RE", default_value = "")]
    filter: Regex,

    /// Seconds for each row, in 3 turns; signing goes on until each has 1024 messages
    #[arg(long, value_name = "S", default_value_t = 1.0, value_parser = seconds)]
    seconds: f64,

    /// Only these libraries; without it all, and a missing one is an error
    #[arg(long, value_enum, value_name = "NAME")]
    peer: Vec<Name>,

    /// Check that the libraries agree, and measure nothing
    #[arg(long)]
    check: bool,

    /// One JSON object a line instead of a table
    #[arg(long)]
    json: bool,

    /// OpenSSL's prefix, or several; without it every bundle in the cache
    #[arg(long, value_name = "DIR", env = "GABION_OPENSSL_PREFIX", value_delimiter = ':')]
    openssl_prefix: Vec<PathBuf>,

    /// Where build-wolfssl.sh put its two builds, if not in the cache
    #[arg(long, value_name = "DIR")]
    wolfssl_prefix: Option<PathBuf>,
}

/// A library that can be asked for.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Name {
    /// aws-lc-rs
    AwsLc,
    /// libcrux-ml-kem, libcrux-ml-dsa and libcrux-kem
    Libcrux,
    /// OpenSSL through EVP
    Openssl,
    /// wolfSSL with its assembly
    Wolfssl,
    /// liboqs 0.13, which uses AVX2
    Liboqs,
    /// fn-dsa, slh-dsa, p256, p384, p521, x25519-dalek, ed25519-dalek, x-wing, graviola
    Crates,
    /// The key exchange groups of rustls over aws-lc-rs
    Rustls,
}

/// A positive number of seconds, fractions allowed.
fn seconds(text: &str) -> std::result::Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if seconds.is_finite() && seconds > 0.0 => Ok(seconds),
        _ => Err("expected a positive number, such as 0.5".to_owned()),
    }
}

fn main() -> ExitCode {
    let options = Options::parse();
    match run(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(match error {
                Error::Environment(_) => 3,
                Error::Filter(_) => 2,
                _ => 1,
            })
        }
    }
}

/// `~/.cache/gabion`, or what GABION_CACHE says.
pub fn cache_folder() -> Result<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|value| value != OsStr::new(""));
    set("GABION_CACHE")
        .map(PathBuf::from)
        .or_else(|| Some(PathBuf::from(set("HOME")?).join(".cache/gabion")))
        .ok_or_else(|| Error::Environment("neither GABION_CACHE nor HOME is set".to_owned()))
}

fn run(options: &Options) -> Result<()> {
    let peers = load(options)?;
    let mut report = Report::new(options);
    for set in &KEM_SETS {
        if report.wants_any(set.name, &[Operation::Keygen, Operation::Encaps, Operation::Decaps]) {
            kem_rows(set, &peers, &mut report)?;
        }
    }
    for set in &HYBRID_SETS {
        if report.wants_any(set.name, &[Operation::Keygen, Operation::Encaps, Operation::Decaps]) {
            hybrid_rows(set, &peers, &mut report)?;
        }
    }
    for set in &DSA_SETS {
        if report.wants_any(set.name, &[Operation::Keygen, Operation::Sign, Operation::Verify]) {
            dsa_rows(set, &peers, &mut report)?;
        }
    }
    for name in SIGNERS {
        if report.wants_any(name, &[Operation::Keygen, Operation::Sign, Operation::Verify]) {
            signer_rows(name, &peers, &mut report)?;
        }
    }
    for (name, private_bytes) in EXCHANGES {
        if report.wants_any(name, &[Operation::Keygen, Operation::Derive]) {
            exchange_rows((name, private_bytes), &peers, &mut report)?;
        }
    }
    if !report.printed && !options.check {
        return Err(Error::Filter(options.filter.to_string()));
    }
    Ok(())
}

/// The libraries asked for; one that is missing ends the run, for a comparison without it would
/// look complete.
fn load(options: &Options) -> Result<Vec<Box<dyn Peer>>> {
    let wanted = |name| options.peer.is_empty() || options.peer.contains(&name);
    let mut peers: Vec<Box<dyn Peer>> = Vec::new();
    if wanted(Name::AwsLc) {
        peers.push(Box::new(aws_lc::AwsLc::new()));
    }
    if wanted(Name::Libcrux) {
        peers.push(Box::new(libcrux::Libcrux::new()));
        peers.push(hybrids::libcrux());
    }
    if wanted(Name::Openssl) {
        for version in openssl::Openssl::all(&options.openssl_prefix)? {
            peers.push(Box::new(version));
        }
    }
    if wanted(Name::Wolfssl) {
        for configuration in wolfssl::Wolfssl::load(options.wolfssl_prefix.clone())? {
            peers.push(Box::new(configuration));
        }
        for configuration in wolfssl::WolfHbs::load()? {
            peers.push(Box::new(configuration));
        }
    }
    if wanted(Name::Liboqs) {
        peers.push(Box::new(liboqs::Liboqs::load()?));
    }
    if wanted(Name::Crates) {
        peers.extend(crates::all());
        peers.extend(crates::graviola());
        peers.push(hybrids::x_wing());
    }
    if wanted(Name::Rustls) {
        peers.push(hybrids::rustls());
    }
    for peer in &peers {
        let Identity { name, version, license, .. } = peer.identity();
        eprintln!("{name} {version} ({license})");
    }
    Ok(peers)
}

/// Keeps this thread on one core, the last it may use: interrupts and other programs prefer the
/// first. Where that fails the figures are only noisier.
fn pin() {
    // SAFETY: both calls get a set of the size they are told, and 0 is the calling thread.
    unsafe {
        let mut allowed: libc::cpu_set_t = std::mem::zeroed();
        let size = size_of::<libc::cpu_set_t>();
        if libc::sched_getaffinity(0, size, &mut allowed) != 0 {
            return;
        }
        let last = (0..libc::CPU_SETSIZE as usize).rfind(|&cpu| libc::CPU_ISSET(cpu, &allowed));
        if let Some(cpu) = last {
            let mut one: libc::cpu_set_t = std::mem::zeroed();
            libc::CPU_SET(cpu, &mut one);
            libc::sched_setaffinity(0, size, &one);
        }
    }
}

/// Decides which rows are wanted, measures and prints them.
struct Report<'a> {
    options: &'a Options,
    clock: Clock,
    machine: Machine,
    /// Whether any row was.
    printed: bool,
}

impl Report<'_> {
    fn new(options: &Options) -> Report<'_> {
        // In this order: the machine has the cores it has, not the one this thread keeps to.
        let machine = Machine::detect();
        pin();
        let report = Report { options, clock: Clock::new(), machine, printed: false };
        if !options.json && !options.check {
            println!("{}, {} cores", report.machine.cpu, report.machine.cores);
            println!(
                "{:<18} {:<7} {:<7} {:<18} {:>12} {:>12} {:>10} {:>10}",
                "algorithm", "op", "key", "library", "cycles", "ops/s", "us p50", "us p99"
            );
        }
        report
    }

    fn wants(&self, algorithm: &str, operation: Operation, key: Key) -> bool {
        let name = format!("{algorithm}:{}:{}", operation.word(), key.word());
        self.options.filter.is_match(&name)
    }

    fn wants_any(&self, algorithm: &str, operations: &[Operation]) -> bool {
        operations.iter().any(|&operation| {
            self.wants(algorithm, operation, Key::Fresh)
                || self.wants(algorithm, operation, Key::Cached)
        })
    }

    /// Measures one operation for every slot that does it and prints the rows.
    ///
    /// The slots take turns in [`ROUNDS`] rounds, and the round with the lowest centre is the
    /// row: what a neighbour does to a machine lasts seconds, and only ever slows.
    fn rows<T>(
        &mut self,
        (algorithm, operation, key): (&str, Operation, Key),
        slots: &mut [Slot<'_, T>],
        randomness: impl Fn(&T) -> Randomness,
        does: impl Fn(&T) -> bool,
        mut measure: impl FnMut(&mut Self, &Identity, &mut T) -> Result<Figures>,
    ) -> Result<()>
    where
        T: ?Sized,
    {
        if !self.wants(algorithm, operation, key) {
            return Ok(());
        }
        let mut best: Vec<Option<Figures>> = vec![None; slots.len()];
        for _ in 0..ROUNDS {
            for ((identity, slot), best) in slots.iter_mut().zip(&mut best) {
                if does(slot) {
                    let figures = measure(self, identity, slot)?;
                    if best.is_none_or(|best| figures.ops_per_s > best.ops_per_s) {
                        *best = Some(figures);
                    }
                }
            }
        }
        for ((identity, slot), figures) in slots.iter().zip(best) {
            if let Some(figures) = figures {
                let subject = Subject { algorithm: algorithm.to_owned(), operation, key };
                let timing = Timing {
                    subject,
                    backend: format!("{}-{}", identity.name, identity.version),
                    code: String::new(),
                    batch: 1,
                    threads: 1,
                    figures,
                    machine: self.machine.clone(),
                };
                let (randomness, peer) = (randomness(slot), (*identity).clone());
                self.print(&Row { timing, randomness, peer, run: None })?;
            }
        }
        self.printed = true;
        Ok(())
    }

    /// One round of one slot.
    fn measure(
        &mut self,
        operation: Operation,
        call: impl FnMut(usize) -> Result<()>,
    ) -> Result<Figures> {
        let plan = self.plan(operation);
        self.clock.measure(&plan, call)
    }

    /// How long one round of an operation is, and what counts of it.
    fn plan(&self, operation: Operation) -> Plan {
        let signing = operation == Operation::Sign;
        Plan {
            seconds: self.options.seconds / ROUNDS as f64,
            samples_min: if signing { inputs::MESSAGES } else { SAMPLES_MIN },
            centre: if signing { Centre::Mean } else { Centre::Median },
            operations_per_call: 1,
        }
    }

    fn print(&self, row: &Row) -> Result<()> {
        let line = if self.options.json {
            serde_json::to_string(row).map_err(|error| Error::Environment(error.to_string()))?
        } else {
            table_line(&row.timing)
        };
        let mut out = std::io::stdout().lock();
        writeln!(out, "{line}")
            .and_then(|()| out.flush())
            .map_err(|error| Error::Environment(format!("cannot write the result: {error}")))
    }
}

/// A row for people: cycles first, for they compare between machines.
fn table_line(row: &Timing) -> String {
    format!(
        "{:<18} {:<7} {:<7} {:<18} {:>12.0} {:>12.0} {:>10.2} {:>10.2}",
        row.subject.algorithm,
        row.subject.operation.word(),
        row.subject.key.word(),
        row.backend,
        row.cycles(),
        row.figures.ops_per_s,
        row.figures.ns_per_op.p50 / 1e3,
        row.figures.ns_per_op.p99 / 1e3,
    )
}

/// Keys and ciphertexts that the rows of one parameter set of ML-KEM walk through.
struct KemInputs {
    /// Encoded pairs; the first is the loaded one.
    keys: Vec<(Vec<u8>, Vec<u8>)>,
    /// One ciphertext for each key.
    to_each: Vec<Vec<u8>>,
    /// As many for the first key.
    to_first: Vec<Vec<u8>>,
}

impl KemInputs {
    /// Made by `maker`, which draws its own keys only where nobody else is there to make them.
    fn new(set: &KemSet, maker: &mut dyn Kem) -> Result<KemInputs> {
        let mut inputs = KemInputs { keys: vec![], to_each: vec![], to_first: vec![] };
        for index in 0..KEYS {
            let (mut ek, mut dk) = (vec![0; set.ek], vec![0; set.dk]);
            maker.keygen(&inputs::kem_seed(index), &mut ek, &mut dk)?;
            inputs.keys.push((ek, dk));
        }
        for index in 0..KEYS {
            let m = inputs::kem_message(index);
            let mut ct = vec![0; set.ct];
            maker.encaps_fresh(&inputs.keys[index].0, &m, &mut ct)?;
            inputs.to_each.push(ct.clone());
            maker.encaps_fresh(&inputs.keys[0].0, &m, &mut ct)?;
            inputs.to_first.push(ct);
        }
        Ok(inputs)
    }
}

fn kem_rows(set: &'static KemSet, peers: &[Box<dyn Peer>], report: &mut Report<'_>) -> Result<()> {
    let mut slots = Vec::new();
    for peer in peers {
        if let Some(kem) = peer.kem(set)? {
            slots.push((peer.identity(), kem));
        }
    }
    // Some only take keys in.
    if !slots.iter().any(|(_, kem)| kem.does(Operation::Keygen, Key::Fresh)) {
        return Ok(());
    }
    check::kem(set, &mut slots)?;
    eprintln!("{}: {} libraries agree", set.name, slots.len());
    let Some(maker) = preferred(&slots, |kem| kem.randomness(Operation::Keygen)) else {
        return Ok(());
    };
    let inputs = KemInputs::new(set, slots[maker].1.as_mut())?;
    if report.options.check {
        return Ok(());
    }
    for operation in [Operation::Keygen, Operation::Encaps, Operation::Decaps] {
        for key in [Key::Fresh, Key::Cached] {
            report.rows(
                (set.name, operation, key),
                &mut slots,
                |kem| kem.randomness(operation),
                |kem| kem.does(operation, key),
                |report, _, kem| kem_round(set, (operation, key), kem, &inputs, report),
            )?;
        }
    }
    Ok(())
}

fn kem_round(
    set: &KemSet,
    (operation, key): (Operation, Key),
    kem: &mut dyn Kem,
    inputs: &KemInputs,
    report: &mut Report<'_>,
) -> Result<Figures> {
    let (mut ek, mut dk, mut ct) = (vec![0; set.ek], vec![0; set.dk], vec![0; set.ct]);
    if key == Key::Cached {
        kem.load(&inputs::kem_seed(0), &inputs.keys[0].0, &inputs.keys[0].1)?;
    }
    report.measure(operation, |call| {
        let (public, private) = &inputs.keys[call % KEYS];
        match (operation, key) {
            (Operation::Keygen, _) => {
                return kem.keygen(&inputs::kem_seed(call), &mut ek, &mut dk);
            }
            (Operation::Encaps, Key::Fresh) => {
                kem.encaps_fresh(public, &inputs::kem_message(call), &mut ct)
            }
            (Operation::Encaps, Key::Cached) => {
                kem.encaps_cached(&inputs::kem_message(call), &mut ct)
            }
            (_, Key::Fresh) => kem.decaps_fresh(private, &inputs.to_each[call % KEYS]),
            (_, Key::Cached) => kem.decaps_cached(&inputs.to_first[call % KEYS]),
        }
        .map(|secret| {
            std::hint::black_box(secret);
        })
    })
}

/// Keys and signatures that the rows of one parameter set of ML-DSA walk through.
struct DsaInputs {
    /// Encoded pairs; the first is the loaded one, and the one that signs.
    keys: Vec<(Vec<u8>, Vec<u8>)>,
    /// A signature by each key, of the message with its number.
    by_each: Vec<Vec<u8>>,
    /// As many by the first key.
    by_first: Vec<Vec<u8>>,
}

impl DsaInputs {
    fn new(set: &DsaSet, maker: &mut dyn Dsa) -> Result<DsaInputs> {
        let mut inputs = DsaInputs { keys: vec![], by_each: vec![], by_first: vec![] };
        for index in 0..KEYS {
            let (mut pk, mut sk) = (vec![0; set.pk], vec![0; set.sk]);
            maker.keygen(&inputs::dsa_seed(index), &mut pk, &mut sk)?;
            inputs.keys.push((pk, sk));
        }
        for index in 0..KEYS {
            let mut sig = vec![0; set.sig];
            maker.sign_fresh(&inputs.keys[index].1, &inputs::message(index), &mut sig)?;
            inputs.by_each.push(sig.clone());
            maker.sign_fresh(&inputs.keys[0].1, &inputs::message(index), &mut sig)?;
            inputs.by_first.push(sig);
        }
        Ok(inputs)
    }
}

fn dsa_rows(set: &'static DsaSet, peers: &[Box<dyn Peer>], report: &mut Report<'_>) -> Result<()> {
    let mut slots = Vec::new();
    for peer in peers {
        if let Some(dsa) = peer.dsa(set)? {
            slots.push((peer.identity(), dsa));
        }
    }
    check::dsa(set, &mut slots)?;
    eprintln!("{}: {} libraries agree", set.name, slots.len());
    let Some(maker) = preferred(&slots, |dsa| dsa.randomness(Operation::Sign)) else {
        return Ok(());
    };
    let inputs = DsaInputs::new(set, slots[maker].1.as_mut())?;
    if report.options.check {
        return Ok(());
    }
    for operation in [Operation::Keygen, Operation::Sign, Operation::Verify] {
        for key in [Key::Fresh, Key::Cached] {
            report.rows(
                (set.name, operation, key),
                &mut slots,
                |dsa| dsa.randomness(operation),
                |dsa| key == Key::Fresh || dsa.keeps_key(operation),
                |report, who, dsa| dsa_round(set, (operation, key), who, dsa, &inputs, report),
            )?;
        }
    }
    Ok(())
}

fn dsa_round(
    set: &DsaSet,
    (operation, key): (Operation, Key),
    identity: &Identity,
    dsa: &mut dyn Dsa,
    inputs: &DsaInputs,
    report: &mut Report<'_>,
) -> Result<Figures> {
    let (mut pk, mut sk, mut sig) = (vec![0; set.pk], vec![0; set.sk], vec![0; set.sig]);
    let (first_pk, first_sk) = &inputs.keys[0];
    if key == Key::Cached {
        dsa.load(first_pk, first_sk)?;
    }
    let verified = |verdict: bool| match verdict {
        true => Ok(()),
        false => Err(Error::Disagreement(format!(
            "{}: {} refused a valid signature while it was measured",
            set.name, identity.name
        ))),
    };
    report.measure(operation, |call| {
        let index = call % KEYS;
        let message = inputs::message(call);
        match (operation, key) {
            (Operation::Keygen, _) => dsa.keygen(&inputs::dsa_seed(call), &mut pk, &mut sk),
            (Operation::Sign, Key::Fresh) => dsa.sign_fresh(first_sk, &message, &mut sig),
            (Operation::Sign, Key::Cached) => dsa.sign_cached(&message, &mut sig),
            (_, Key::Fresh) => {
                let message = inputs::message(index);
                dsa.verify_fresh(&inputs.keys[index].0, &message, &inputs.by_each[index])
                    .and_then(verified)
            }
            (_, Key::Cached) => {
                let message = inputs::message(index);
                dsa.verify_cached(&message, &inputs.by_first[index]).and_then(verified)
            }
        }
    })
}

/// Rows of a scheme whose slots have pairs of their own: keygen, and sign and verify with that pair.
/// Ed25519's private key is the seed that keygen takes, so signing with a fresh one is both.
fn signer_rows(name: &'static str, peers: &[Box<dyn Peer>], report: &mut Report<'_>) -> Result<()> {
    let mut slots = Vec::new();
    for peer in peers {
        if let Some(mut signer) = peer.signer(name)? {
            check::signer(name, peer.identity(), signer.as_mut())?;
            slots.push((peer.identity(), signer));
        }
    }
    eprintln!("{name}: {} libraries verify what they sign", slots.len());
    if report.options.check {
        return Ok(());
    }
    // A signature of a small set takes up to some seconds, and verifying any takes the same hashes.
    let is_small = name.starts_with("SLH-DSA") && name.ends_with('s');
    let messages = if is_small { 1 } else { KEYS };
    let rows = [
        (Operation::Keygen, Key::Fresh),
        (Operation::Sign, Key::Fresh),
        (Operation::Sign, Key::Cached),
        (Operation::Verify, Key::Cached),
    ];
    let has_row = |row: &(Operation, Key)| *row != rows[1] || name == "Ed25519";
    for (operation, key) in rows.into_iter().filter(has_row) {
        report.rows(
            (name, operation, key),
            &mut slots,
            |_| if operation == Operation::Verify { Randomness::None } else { Randomness::Drawn },
            |_| true,
            |report, _, signer| signer_round((operation, key), signer, messages, report),
        )?;
    }
    Ok(())
}

fn signer_round(
    (operation, key): (Operation, Key),
    signer: &mut dyn Signer,
    messages: usize,
    report: &mut Report<'_>,
) -> Result<Figures> {
    let mut signed: Vec<Vec<u8>> = Vec::new();
    if operation == Operation::Verify {
        let sign = |signer: &mut dyn Signer| {
            (0..messages).map(|index| signer.sign(&inputs::message(index))).collect::<Result<_>>()
        };
        signed = sign(signer)?;
        // A key that was used up meanwhile is another one since.
        if !signer.verify(&inputs::message(0), &signed[0])? {
            signed = sign(signer)?;
        }
    }
    // A small set's signature takes hundreds of milliseconds: a hundred would take a minute.
    let plan = Plan {
        seconds: report.options.seconds / ROUNDS as f64,
        samples_min: 1,
        centre: if operation == Operation::Sign { Centre::Mean } else { Centre::Median },
        operations_per_call: 1,
    };
    report.clock.measure(&plan, |call| match operation {
        Operation::Keygen => signer.keygen(),
        Operation::Sign => {
            if key == Key::Fresh {
                signer.keygen()?;
            }
            signer.sign(&inputs::message(call)).map(|signature| {
                std::hint::black_box(signature);
            })
        }
        _ => match signer.verify(&inputs::message(call % messages), &signed[call % messages])? {
            true => Ok(()),
            false => Err(Error::Disagreement("a valid signature was refused".to_owned())),
        },
    })
}

/// Rows of a key exchange: each library has its own private key, and all derive with the same keys
/// of others.
fn exchange_rows(
    (name, private_bytes): (&'static str, usize),
    peers: &[Box<dyn Peer>],
    report: &mut Report<'_>,
) -> Result<()> {
    let mut slots: Vec<Slot<'_, dyn Exchange>> = Vec::new();
    for (number, peer) in peers.iter().enumerate() {
        let mut private: [u8; 66] = inputs::bytes(50, number as u64);
        // The order of P-521 has a bit in the first byte, and the private key is to be below it.
        private[0] &= if private_bytes == 66 { 0 } else { 0x7f };
        if let Some(slot) = peer.exchange(name, &private[..private_bytes])? {
            slots.push((peer.identity(), slot));
        }
    }
    check::exchange(name, &mut slots)?;
    eprintln!("{name}: {} libraries agree", slots.len());
    if report.options.check {
        return Ok(());
    }
    let Some((_, last)) = slots.last_mut() else {
        return Ok(());
    };
    let peer_keys = (0..KEYS).map(|_| last.keygen()).collect::<Result<Vec<_>>>()?;
    let rows = [
        (Operation::Keygen, Key::Fresh),
        (Operation::Derive, Key::Fresh),
        (Operation::Derive, Key::Cached),
    ];
    for (operation, key) in rows {
        report.rows(
            (name, operation, key),
            &mut slots,
            |slot| match operation {
                Operation::Keygen => slot.randomness(),
                _ => Randomness::None,
            },
            |_| true,
            |report, _, slot| {
                report.measure(operation, |call| {
                    let peer = &peer_keys[call % KEYS];
                    match (operation, key) {
                        (Operation::Keygen, _) => slot.keygen(),
                        (_, Key::Fresh) => slot.derive_fresh(peer),
                        (_, Key::Cached) => slot.derive_cached(peer),
                    }
                    .map(|bytes| {
                        std::hint::black_box(bytes);
                    })
                })
            },
        )?;
    }
    Ok(())
}

/// The slot that makes the inputs: the first that is given its randomness, so that they are the
/// same in every run; otherwise the first there is.
fn preferred<T>(slots: &[(&Identity, T)], randomness: impl Fn(&T) -> Randomness) -> Option<usize> {
    let given = slots.iter().position(|(_, slot)| randomness(slot) == Randomness::Given);
    given.or((!slots.is_empty()).then_some(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_positive_and_may_be_fractional() {
        assert_eq!(seconds("0.25"), Ok(0.25));
        for text in ["0", "-1", "inf", "nan", "one", ""] {
            assert!(seconds(text).is_err(), "{text}");
        }
    }

    #[test]
    fn inputs_are_made_by_a_peer_that_is_given_its_randomness() {
        let identity = |name: &str| Identity {
            name: name.to_owned(),
            version: String::new(),
            license: String::new(),
            build: String::new(),
        };
        let (first, second) = (identity("first"), identity("second"));
        let slots = [(&first, Randomness::Drawn), (&second, Randomness::Given)];
        assert_eq!(preferred(&slots, |&randomness| randomness), Some(1));
        assert_eq!(preferred(&slots[..1], |&randomness| randomness), Some(0));
        assert_eq!(preferred(&slots[..0], |&randomness| randomness), None);
    }
}
