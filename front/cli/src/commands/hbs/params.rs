//! `gabion hbs params`: the sets, how long their signatures are, and what they would cost on this machine.
//!
//! Nothing is signed for it: a verification of any bytes takes the hashes that it would take of a signature. Each set of
//! one-time signatures is measured under one tree, since how full lanes are depends on it; other trees and operations
//! follow by their hashes.

use std::time::{Duration, Instant};

use gabion_engine::lms::{LM_OTS, LMS, LmOts, Lms, LmsFamily};
use gabion_engine::{Algorithm, Engine, Error, Message, Status};
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::keys;
use crate::table::{Align, Table};

/// List the parameter sets with signature lengths, numbers of signatures and expected times
///
/// Example:
///   gabion hbs params
///   gabion hbs params --json
///
/// Times are of one thread of this machine, estimated from some verifications that are measured, with lanes as full
/// as each operation fills them. Signing has the tree in memory. HSS puts up to 8 trees under each other: lengths
/// and times of verification add up.
#[derive(clap::Parser)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// Print one JSON array
    #[arg(long)]
    json: bool,
}

/// Lanes that are measured together, as many as fill what the widest kernels have.
const LANES: usize = 16;
/// How long each set is measured at least.
const MEASURED: Duration = Duration::from_millis(10);

/// A pair of sets that belong together, and its costs in seconds.
struct Row {
    lms: &'static Lms,
    ots: &'static LmOts,
    keygen: f64,
    sign: f64,
    verify: f64,
}

/// Runs the command.
pub fn run(args: Args) -> Result<u8, Failure> {
    let engine = keys::engine()?;
    let rows = rows(engine)?;
    if args.json {
        say!("{}", Value::Array(rows.iter().map(as_json).collect()));
    } else {
        crate::stdout::print(format_args!("{}", as_table(&rows)))?;
    }
    Ok(0)
}

fn rows(engine: &Engine) -> Result<Vec<Row>, Failure> {
    let mut rows = Vec::new();
    let mut known: Vec<(u32, [f64; 2])> = Vec::new();
    for lms in &LMS {
        let is_pair = |ots: &&LmOts| (ots.family, ots.n) == (lms.family, lms.n);
        for ots in LM_OTS.iter().filter(is_pair) {
            let found = known.iter().find(|(typecode, _)| *typecode == ots.typecode);
            let [alone, many] = match found {
                Some((_, costs)) => *costs,
                None => {
                    let costs = [measure(engine, lms, ots, 1)?, measure(engine, lms, ots, LANES)?];
                    known.push((ots.typecode, costs));
                    costs
                }
            };
            let leaves = 2f64.powi(lms.h as i32);
            let keygen = leaves * (hashes_of_leaf(ots) + node(lms)) * many;
            // Secrets, half of all steps, and the message; then the path, which is there.
            let sign = (ots.chains() as f64 + steps(ots) + 2.0) * alone;
            rows.push(Row {
                lms,
                ots,
                keygen,
                sign,
                verify: hashes_of_verification(lms, ots) * alone,
            });
        }
    }
    Ok(rows)
}

/// Steps of all chains on average: half of them, since digits of a digest are anything.
fn steps(ots: &LmOts) -> f64 {
    ots.chains() as f64 * f64::from(ots.last()) / 2.0
}

/// Blocks of a hash of so many bytes behind the 22 of each: of SHA-256, or of SHAKE256.
fn blocks(family: LmsFamily, len: usize) -> f64 {
    match family {
        LmsFamily::Sha256 => (22 + len + 9).div_ceil(64) as f64,
        LmsFamily::Shake256 => (22 + len + 1).div_ceil(136) as f64,
    }
}

fn node(lms: &Lms) -> f64 {
    blocks(lms.family, 2 * lms.n)
}

/// Secrets, whole chains, the public key of the one-time signature and the leaf.
fn hashes_of_leaf(ots: &LmOts) -> f64 {
    let ends = blocks(ots.family, ots.chains() * ots.n);
    ots.chains() as f64 * (1.0 + f64::from(ots.last())) + ends + 1.0
}

fn hashes_of_verification(lms: &Lms, ots: &LmOts) -> f64 {
    let ends = blocks(ots.family, ots.chains() * ots.n);
    steps(ots) + ends + 1.0 + f64::from(lms.h) * node(lms)
}

/// Seconds of a block, in verifications of so many lanes: bytes that nobody signed take as long.
fn measure(engine: &Engine, lms: &Lms, ots: &LmOts, lanes: usize) -> Result<f64, Failure> {
    let [lms_number, ots_number] = [lms.typecode, ots.typecode].map(u32::to_be_bytes);
    let key = [&[0, 0, 0, 1], &lms_number[..], &ots_number, &vec![7; 16 + lms.n]].concat();
    let key = engine.signature_public(Algorithm::Hss, &key)?;
    let one_time = vec![7; ots.signature_len() - 4];
    let path = vec![7; lms.h as usize * lms.n];
    let parts = [&[0; 8], &ots_number[..], &one_time, &lms_number, &path];
    let signature = parts.concat();
    let texts: Vec<[u8; 1]> = (0..lanes).map(|lane| [lane as u8]).collect();
    let messages: Vec<_> =
        texts.iter().map(|message| Message::Pure { context: b"", message }).collect();
    let (keys, signatures) = (vec![&key; lanes], signature.repeat(lanes));
    let (lengths, mut status) = (vec![signature.len(); lanes], vec![Status::NotRun; lanes]);
    let mut best = Duration::MAX;
    let begun = Instant::now();
    // The first one runs the self-test.
    while best == Duration::MAX || begun.elapsed() < MEASURED {
        let start = Instant::now();
        engine.verify_many(&keys, &messages, &signatures, &lengths, &mut status)?;
        best = best.min(start.elapsed());
        if status.iter().any(|status| *status != Status::InvalidSignature) {
            return Err(Error::BadSignature.into());
        }
    }
    Ok(best.as_secs_f64() / (lanes as f64 * hashes_of_verification(lms, ots)))
}

fn name(row: &Row) -> String {
    format!("{}_W{}", row.lms.name, row.ots.w)
}

fn as_json(row: &Row) -> Value {
    json!({
        "set": name(row),
        "lms": row.lms.name,
        "lms_typecode": row.lms.typecode,
        "lmots": row.ots.name,
        "lmots_typecode": row.ots.typecode,
        "public_key": 4 + row.lms.public_key_len(),
        "signature": 4 + row.lms.signature_len(row.ots),
        "signatures": 1u64 << row.lms.h,
        "keygen_s": row.keygen,
        "sign_s": row.sign,
        "verify_s": row.verify,
    })
}

/// A time in three digits or so.
fn time(seconds: f64) -> String {
    match seconds {
        0.0..1e-3 => format!("{:.0} us", seconds * 1e6),
        1e-3..1.0 => format!("{:.1} ms", seconds * 1e3),
        1.0..120.0 => format!("{seconds:.1} s"),
        120.0..7200.0 => format!("{:.0} min", seconds / 60.0),
        _ => format!("{:.1} h", seconds / 3600.0),
    }
}

fn as_table(rows: &[Row]) -> Table {
    let mut table = Table::new(&[
        ("set", Align::Left),
        ("signature", Align::Right),
        ("signatures", Align::Right),
        ("keygen", Align::Right),
        ("sign", Align::Right),
        ("verify", Align::Right),
    ]);
    for row in rows {
        table.row([
            name(row),
            (4 + row.lms.signature_len(row.ots)).to_string(),
            (1u64 << row.lms.h).to_string(),
            time(row.keygen),
            time(row.sign),
            time(row.verify),
        ]);
    }
    table
}
