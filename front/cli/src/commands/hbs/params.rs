//! `gabion hbs params`: parameter sets, signature lengths, and expected times on this machine.
//!
//! For each set of one-time signatures, the command generates a tree of height 5 and signs with it,
//! which takes milliseconds. The times of higher trees are extrapolated: key generation by the
//! number of leaves, signing by whether the engine keeps the whole tree. Verification is measured
//! with invalid signatures, which need as many hashes as valid ones.

mod xmss;

use std::num::NonZero;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use gabion_engine::keys::stateful::hss::{HssSecret, Levels, StatefulKey};
use gabion_engine::lms::{LM_OTS, LMS, LmOts, Lms};
use gabion_engine::{Algorithm, Engine, Error, Message, OsEntropy};
use serde_json::{Value, json};

use super::CNSA;
use crate::failure::Failure;
use crate::keys;
use crate::table::{Align, Table};

/// List the parameter sets with signature lengths, numbers of signatures and expected times
///
/// Example:
///   gabion hbs params
///   gabion hbs params --json
///   gabion hbs params --cnsa
///
/// Times are for one thread of this machine, measured with trees of height 5. Signing assumes that
/// the tree (or the cached part of a high tree) is in memory, and includes verifying the signature.
/// HSS stacks up to 8 trees: lengths and verification times add up. Times of XMSS and XMSS^MT are
/// estimated from verifications; sets that are not in SP 800-208 cannot generate keys.
#[derive(clap::Parser)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// Omit what CNSA 2.0 does not allow: XMSS^MT, HSS, and sets that are not in SP 800-208
    #[arg(long)]
    cnsa: bool,
    /// Print one JSON array
    #[arg(long)]
    json: bool,
}

/// Minimum measuring time per figure.
const MEASURED: Duration = Duration::from_millis(3);
/// Minimum number of runs whose median is reported.
const RUNS_MIN: usize = 3;
/// The height of the trees that are generated for measuring.
const LOW: u32 = 5;
/// The greatest tree height for which the engine keeps all nodes.
const KEPT_WHOLE: u32 = 16;

/// A pair of LMS and LM-OTS sets and its costs in seconds.
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
    let (rows, mut others) = (rows(engine)?, xmss::rows(engine)?);
    if args.cnsa {
        others.retain(|row| row.set.d == 1 && row.set.can_sign());
        eprintln!("note: {CNSA}");
    }
    if args.json {
        let all = rows.iter().map(as_json).chain(others.iter().map(xmss::as_json));
        say!("{}", Value::Array(all.collect()));
    } else {
        crate::stdout::print(format_args!("{}", as_table(&rows, &others)))?;
    }
    Ok(0)
}

fn rows(engine: &Engine) -> Result<Vec<Row>, Failure> {
    let mut rows = Vec::new();
    for lms in LMS.iter().filter(|lms| lms.h == LOW) {
        let is_pair = |ots: &&LmOts| (ots.family, ots.n) == (lms.family, lms.n);
        for ots in LM_OTS.iter().filter(is_pair) {
            let costs = Costs::measure(engine, lms, ots)?;
            let is_tree = |tree: &&Lms| (tree.family, tree.n) == (lms.family, lms.n);
            for lms in LMS.iter().filter(is_tree) {
                rows.push(Row {
                    lms,
                    ots,
                    keygen: costs.leaf * f64::from(1u32 << lms.h),
                    sign: if lms.h > KEPT_WHOLE { costs.sign_high } else { costs.sign },
                    verify: verification(engine, lms, ots)?,
                });
            }
        }
    }
    // In the order of the typecodes of the standards.
    rows.sort_by_key(|row| (row.lms.typecode, row.ots.typecode));
    Ok(rows)
}

/// The costs of a one-time signature set in a tree of height 5, in seconds.
struct Costs {
    /// Generating one leaf, including its share of the inner nodes.
    leaf: f64,
    /// Signing with all nodes kept.
    sign: f64,
    /// Signing while the next bottom subtree is generated.
    sign_high: f64,
}

impl Costs {
    fn measure(engine: &Engine, lms: &'static Lms, ots: &'static LmOts) -> Result<Costs, Failure> {
        let levels = Levels::new(&[(lms, ots)]).map_err(Error::from)?;
        let secret = HssSecret::draw(levels.clone(), &OsEntropy)?;
        let key = median(|_, took| record_time(took, || generate(engine, &secret).map(drop)))?;
        let mut whole = generate(engine, &secret)?;
        let leaves = whole.signatures();
        let sign = median(|run, took| sign(&mut whole, run % leaves, took))?;
        // In the lower half of a tree, while the next subtree is generated.
        let secret = HssSecret::draw(levels.with_whole_levels(1), &OsEntropy)?;
        let sign_high = median(|_, took| {
            let mut key = generate(engine, &secret)?;
            self::sign(&mut key, 0, &mut Vec::new())?;
            (1..leaves / 2).try_for_each(|index| self::sign(&mut key, index, took))
        })?;
        Ok(Costs { leaf: key / leaves as f64, sign, sign_high })
    }
}

/// Signs a message derived from the leaf index.
fn sign(key: &mut StatefulKey<'_>, index: u64, took: &mut Vec<f64>) -> Result<(), Error> {
    record_time(took, || key.testing_only_sign_at(index, &[&index.to_le_bytes()]).map(drop))
}

fn generate<'e>(engine: &'e Engine, secret: &HssSecret) -> Result<StatefulKey<'e>, Error> {
    let one = NonZero::<usize>::MIN;
    let key = StatefulKey::generate(engine, secret, &[], one, &mut |_| ControlFlow::Continue(()))?;
    key.ok_or(Error::Lost)
}

/// Measures a verification in seconds, with an invalid signature, which takes as long as a valid
/// one.
fn verification(engine: &Engine, lms: &Lms, ots: &LmOts) -> Result<f64, Error> {
    let [lms_number, ots_number] = [lms.typecode, ots.typecode].map(u32::to_be_bytes);
    let key = [&[0, 0, 0, 1], &lms_number[..], &ots_number, &vec![7; 16 + lms.n]].concat();
    let key = engine.signature_public(Algorithm::Hss, &key)?;
    let one_time = vec![7; ots.signature_len() - 4];
    let path = vec![7; lms.h as usize * lms.n];
    let signature = [&[0; 8], &ots_number[..], &one_time, &lms_number, &path].concat();
    median(|run, took| {
        // A different message each time: its digits determine the number of hash steps.
        let message = Message::Pure { context: b"", message: &run.to_le_bytes() };
        record_time(took, || match engine.verify(&key, message, &signature) {
            Err(Error::BadSignature) => Ok(()),
            Ok(()) => Err(Error::Lost),
            Err(error) => Err(error),
        })
    })
}

/// Returns the median of the recorded times. The first run is discarded: it may include a
/// self-test.
fn median(mut run: impl FnMut(u64, &mut Vec<f64>) -> Result<(), Error>) -> Result<f64, Error> {
    run(0, &mut Vec::new())?;
    let (begun, mut took) = (Instant::now(), Vec::new());
    while took.len() < RUNS_MIN || begun.elapsed() < MEASURED {
        run(took.len() as u64 + 1, &mut took)?;
    }
    took.sort_unstable_by(f64::total_cmp);
    Ok(took[took.len() / 2])
}

/// Records how many seconds `work` takes.
fn record_time(took: &mut Vec<f64>, work: impl FnOnce() -> Result<(), Error>) -> Result<(), Error> {
    let start = Instant::now();
    work()?;
    took.push(start.elapsed().as_secs_f64());
    Ok(())
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

/// Formats a time with about three digits.
fn time(seconds: f64) -> String {
    match seconds {
        0.0..1e-3 => format!("{:.0} us", seconds * 1e6),
        1e-3..1.0 => format!("{:.1} ms", seconds * 1e3),
        1.0..120.0 => format!("{seconds:.1} s"),
        120.0..7200.0 => format!("{:.0} min", seconds / 60.0),
        _ => format!("{:.1} h", seconds / 3600.0),
    }
}

fn as_table(rows: &[Row], others: &[xmss::Row]) -> Table {
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
    let time_of = |cost: Option<f64>| cost.map_or_else(|| "-".to_owned(), time);
    for row in others {
        table.row([
            row.set.name.to_owned(),
            row.set.signature_len().to_string(),
            row.set.signatures().to_string(),
            time_of(row.keygen),
            time_of(row.sign),
            time(row.verify),
        ]);
    }
    table
}
