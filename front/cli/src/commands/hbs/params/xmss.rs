//! The sets of XMSS and XMSS^MT, and their costs.
//!
//! Costs are counted in blocks of the hash function. What PRF begins with is one block of the key where its hash is
//! SHA-256 and n is 32, and counts once a key.

use std::time::{Duration, Instant};

use gabion_engine::xmss::{Set, XMSS, XMSSMT, XmssFamily};
use gabion_engine::{Algorithm, Engine, Error, Message, Status};
use serde_json::{Value, json};

use crate::failure::Failure;

/// Lanes that are measured together, as many as fill what the widest kernels have.
const LANES: usize = 16;
/// How long each hash function is measured at least.
const MEASURED: Duration = Duration::from_millis(10);

/// A set, and its costs in seconds. What makes no keys has the last one alone.
pub struct Row {
    pub set: &'static Set,
    pub keygen: Option<f64>,
    pub sign: Option<f64>,
    pub verify: f64,
}

/// All sets, those of XMSS first.
pub fn rows(engine: &Engine) -> Result<Vec<Row>, Failure> {
    let mut known: Vec<((XmssFamily, usize), [f64; 2])> = Vec::new();
    for set in XMSS.iter().filter(|set| set.h == 10) {
        known.push(((set.family, set.n), [measure(engine, set, 1)?, measure(engine, set, LANES)?]));
    }
    let rows = XMSS.iter().chain(&XMSSMT).filter_map(|set| {
        let of_hash = known.iter().find(|(hash, _)| *hash == (set.family, set.n));
        let &(_, [alone, many]) = of_hash?;
        let (leaves, layers) = (2f64.powi(set.tree_height() as i32), f64::from(set.d));
        let keygen = layers * leaves * (leaf(set) + node(set)) * many;
        // One-time signature and its check take the whole chains; of a tree that comes next there is a leaf.
        let grows = if set.d > 1 { leaf(set) * many } else { 0.0 };
        let sign = leaf(set) * alone + grows;
        let verify = of_verification(set) * alone;
        let [keygen, sign] = [keygen, sign].map(|cost| set.can_sign().then_some(cost));
        Some(Row { set, keygen, sign, verify })
    });
    Ok(rows.collect())
}

pub fn as_json(row: &Row) -> Value {
    json!({
        "set": row.set.name,
        "number": row.set.number,
        "public_key": row.set.public_key_len(),
        "signature": row.set.signature_len(),
        "signatures": row.set.signatures(),
        "keygen_s": row.keygen,
        "sign_s": row.sign,
        "verify_s": row.verify,
    })
}

/// Blocks of a hash of so many bytes.
fn blocks(set: &Set, len: usize) -> f64 {
    let blocks = match set.family {
        XmssFamily::Sha256 => (len + 9).div_ceil(64),
        XmssFamily::Sha512 => (len + 17).div_ceil(128),
        XmssFamily::Shake128 => (len + 1).div_ceil(168),
        XmssFamily::Shake256 => (len + 1).div_ceil(136),
    };
    blocks as f64
}

/// What stands before the key of a hash.
fn padding(set: &Set) -> usize {
    if set.n == 24 { 4 } else { set.n }
}

/// Whether the first block of PRF is one of the key.
fn has_state(set: &Set) -> f64 {
    f64::from(u8::from((set.family, set.n) == (XmssFamily::Sha256, 32)))
}

fn prf(set: &Set) -> f64 {
    blocks(set, padding(set) + set.n + 32) - has_state(set)
}

fn step(set: &Set) -> f64 {
    2.0 * prf(set) + blocks(set, padding(set) + 2 * set.n)
}

fn node(set: &Set) -> f64 {
    3.0 * prf(set) + blocks(set, padding(set) + 3 * set.n)
}

/// Secrets, whole chains and the tree above them.
fn leaf(set: &Set) -> f64 {
    let secret = blocks(set, padding(set) + 2 * set.n + 32) - has_state(set);
    let chains = set.chains() as f64;
    chains * (secret + 15.0 * step(set)) + (chains - 1.0) * node(set)
}

/// Half of all steps, since digits of a digest are anything, and nodes up to the root, of every layer.
fn of_verification(set: &Set) -> f64 {
    let chains = set.chains() as f64;
    let nodes = chains - 1.0 + f64::from(set.tree_height());
    f64::from(set.d) * (chains * 7.5 * step(set) + nodes * node(set))
}

/// Seconds of a block, in verifications of so many lanes: bytes that nobody signed take as long.
fn measure(engine: &Engine, set: &Set, lanes: usize) -> Result<f64, Failure> {
    let key = [&set.number.to_be_bytes()[..], &vec![7; 2 * set.n]].concat();
    let key = engine.signature_public(Algorithm::from(set.scheme), &key)?;
    let texts: Vec<[u8; 1]> = (0..lanes).map(|lane| [lane as u8]).collect();
    let messages: Vec<_> =
        texts.iter().map(|message| Message::Pure { context: b"", message }).collect();
    let (keys, signatures) = (vec![&key; lanes], vec![0; lanes * set.signature_len()]);
    let (lengths, mut status) = (vec![set.signature_len(); lanes], vec![Status::NotRun; lanes]);
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
    Ok(best.as_secs_f64() / (lanes as f64 * of_verification(set)))
}

#[cfg(test)]
mod tests {
    use gabion_engine::xmss::Scheme;

    use super::*;

    /// The counts that a profile of the standard's algorithms has (SHA-256, n = 32: 4 blocks a step, 6 a node, 2 a secret).
    #[test]
    fn blocks_are_counted_as_they_are_hashed() {
        let set = Set::from_number(Scheme::Xmss, 1).expect("XMSS-SHA2_10_256");
        assert_eq!((step(set), node(set)), (4.0, 6.0));
        assert_eq!(leaf(set), 67.0 * (2.0 + 60.0) + 66.0 * 6.0);
        assert_eq!(of_verification(set), 67.0 * 30.0 + 76.0 * 6.0);
        let set = Set::from_number(Scheme::Xmss, 13).expect("XMSS-SHA2_10_192");
        assert_eq!((step(set), node(set)), (5.0, 8.0));
    }
}
