//! The sets of XMSS and XMSS^MT and their costs.
//!
//! Costs are counted in compressions of the hash function. If the hash is SHA-256 and n is 32, the
//! first block of PRF contains only the key and is computed once per key.

use std::time::{Duration, Instant};

use gabion_engine::xmss::{Set, XMSS, XMSSMT, XmssFamily};
use gabion_engine::{Algorithm, Engine, Error, Message, Status};
use serde_json::{Value, json};

use crate::failure::Failure;

/// Lanes per measured batch, enough to fill the widest kernels.
const LANES: usize = 16;
/// Minimum measuring time per hash function.
const MEASURED: Duration = Duration::from_millis(10);

/// A set and its costs in seconds. Sets that cannot generate keys have only `verify`.
pub struct Row {
    pub set: &'static Set,
    pub keygen: Option<f64>,
    pub sign: Option<f64>,
    pub verify: f64,
}

/// Returns all sets, those of XMSS first.
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
        // The one-time signature and its verification together cover whole chains; with several
        // layers, one leaf of the next tree is computed as well.
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

/// Returns the number of hash blocks for a message of `len` bytes.
fn blocks(set: &Set, len: usize) -> f64 {
    let blocks = match set.family {
        XmssFamily::Sha256 => (len + 9).div_ceil(64),
        XmssFamily::Sha512 => (len + 17).div_ceil(128),
        XmssFamily::Shake128 => (len + 1).div_ceil(168),
        XmssFamily::Shake256 => (len + 1).div_ceil(136),
    };
    blocks as f64
}

/// Returns the length of the domain separator that precedes the key.
fn padding(set: &Set) -> usize {
    if set.n == 24 { 4 } else { set.n }
}

/// Returns 1 if the first block of PRF contains only the key, else 0.
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

/// Returns the cost of a leaf: secrets, complete chains, and the L-tree.
fn leaf(set: &Set) -> f64 {
    let secret = blocks(set, padding(set) + 2 * set.n + 32) - has_state(set);
    let chains = set.chains() as f64;
    chains * (secret + 15.0 * step(set)) + (chains - 1.0) * node(set)
}

/// Returns the average cost of a verification: half of all chain steps, and the nodes up to the
/// root, in every layer.
fn of_verification(set: &Set) -> f64 {
    let chains = set.chains() as f64;
    let nodes = chains - 1.0 + f64::from(set.tree_height());
    f64::from(set.d) * (chains * 7.5 * step(set) + nodes * node(set))
}

/// Measures the seconds per hash block in batches of `lanes` verifications. The signatures are
/// invalid, which takes as long.
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
    // The first call includes the self-test.
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

    /// The block counts of the standard's algorithms (SHA-256, n = 32: 4 blocks a step, 6 a node, 2
    /// a secret).
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
