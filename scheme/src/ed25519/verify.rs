//! Verification (RFC 8032, section 5.1.7; ZIP 215). Everything here is public.

use curve25519_dalek::scalar::Scalar;

use super::encoding::is_admitted;
use super::hash::sha512_many_modulo_l;
use super::{Rules, VerifyKey};
use crate::error::Status;
use crate::kernels::Kernels;
use crate::kernels::ed25519::{EdEquation, EdKey, EdPoint, EdVerify};

/// Lanes whose numbers are kept at once: 16 KiB.
const CHUNK: usize = 512;

/// The keys of a batch of verifications.
#[derive(Clone, Copy)]
pub enum VerifyKeys<'a> {
    /// Encoded, one a lane, under these rules.
    Fresh(Rules, &'a [[u8; 32]]),
    /// Decoded, one a lane, all under these rules.
    Decoded(Rules, &'a [&'a VerifyKey]),
}

impl<'a> VerifyKeys<'a> {
    fn rules(&self) -> Rules {
        match self {
            VerifyKeys::Fresh(rules, _) | VerifyKeys::Decoded(rules, _) => *rules,
        }
    }

    fn lane(&self, lane: usize) -> EdKey<'a> {
        match self {
            VerifyKeys::Fresh(_, bytes) => EdKey::Encoded(&bytes[lane]),
            VerifyKeys::Decoded(_, keys) => keys[lane].kernel_key(),
        }
    }

    /// Returns whether the rules admit the lane's key, as far as its bytes alone say. A known key
    /// was admitted when it was decoded, by rules that may have been others.
    fn is_admitted(&self, lane: usize) -> bool {
        self.rules() == Rules::Zip215 || is_admitted(self.lane(lane).encoded())
    }
}

/// Verifies every signature by itself; `sig[n][64]`.
///
/// A lane ends as [`Status::InvalidKey`] where its public key is not one under the rules, as
/// [`Status::InvalidSignature`] where R or S is not admitted or the equation does not hold.
pub fn verify<K: Kernels + ?Sized>(
    k: &K,
    keys: VerifyKeys<'_>,
    messages: &[&[u8]],
    sig: &[[u8; 64]],
    status: &mut [Status],
) {
    let equation = match keys.rules() {
        Rules::Strict => EdEquation::Cofactorless,
        Rules::Zip215 => EdEquation::Cofactored,
    };
    for first in (0..status.len()).step_by(CHUNK) {
        let lanes = first..(first + CHUNK).min(status.len());
        let lanes = admit(keys, sig, lanes, status);
        let challenges = challenges(k, keys, messages, sig, &lanes);
        let jobs = jobs(keys, sig, &lanes, &challenges);
        let mut verdicts = vec![false; jobs.len()];
        k.ed25519_verify_vartime(equation, &jobs, &mut verdicts);
        for ((lane, verdict), job) in lanes.into_iter().zip(verdicts).zip(&jobs) {
            status[lane] = match (verdict, job.key) {
                (true, _) => Status::Ok,
                (false, EdKey::Encoded(a)) if EdPoint::decode(a).is_none() => Status::InvalidKey,
                _ => Status::InvalidSignature,
            };
        }
    }
}

/// Verifies under [`Rules::Zip215`] by one equation over all lanes, each multiplied by its entry of
/// `z`: 128 random bits that the signers cannot predict. If the equation does not hold, or if keys
/// are under other rules, every signature is verified individually, so that the statuses equal
/// those of [`verify`]. (An equation that contains an invalid signature holds for one z in 2^128.)
pub fn verify_sum<K: Kernels + ?Sized>(
    k: &K,
    keys: VerifyKeys<'_>,
    messages: &[&[u8]],
    sig: &[[u8; 64]],
    z: &[[u8; 16]],
    status: &mut [Status],
) {
    if keys.rules() == Rules::Zip215 && status.len() > 1 {
        let lanes = admit(keys, sig, 0..status.len(), status);
        let challenges = challenges(k, keys, messages, sig, &lanes);
        let jobs = jobs(keys, sig, &lanes, &challenges);
        let z: Vec<_> = lanes.iter().map(|&lane| z[lane]).collect();
        if k.ed25519_sum_vartime(&jobs, &z) {
            for lane in lanes {
                status[lane] = Status::Ok;
            }
            return;
        }
    }
    verify(k, keys, messages, sig, status);
}

/// The lanes that are worth an equation; the others get their status.
fn admit(
    keys: VerifyKeys<'_>,
    sig: &[[u8; 64]],
    lanes: std::ops::Range<usize>,
    status: &mut [Status],
) -> Vec<usize> {
    let rules = keys.rules();
    lanes
        .filter(|&lane| {
            let (r, s) = halves(&sig[lane]);
            let is_reduced = bool::from(Scalar::from_canonical_bytes(*s).is_some());
            if !keys.is_admitted(lane) {
                status[lane] = Status::InvalidKey;
            } else if !is_reduced || (rules == Rules::Strict && !is_admitted(r)) {
                status[lane] = Status::InvalidSignature;
            } else {
                return true;
            }
            false
        })
        .collect()
}

/// R and S.
fn halves(sig: &[u8; 64]) -> (&[u8; 32], &[u8; 32]) {
    let halves = sig.as_chunks::<32>().0;
    (&halves[0], &halves[1])
}

/// SHA-512(R || A || M) modulo L of each lane.
fn challenges<K: Kernels + ?Sized>(
    k: &K,
    keys: VerifyKeys<'_>,
    messages: &[&[u8]],
    sig: &[[u8; 64]],
    lanes: &[usize],
) -> Vec<[u8; 32]> {
    let hashed = lanes.iter().map(|&lane| {
        let (r, _) = halves(&sig[lane]);
        [&r[..], &keys.lane(lane).encoded()[..], messages[lane]]
    });
    sha512_many_modulo_l(k, hashed).iter().map(Scalar::to_bytes).collect()
}

fn jobs<'a>(
    keys: VerifyKeys<'a>,
    sig: &'a [[u8; 64]],
    lanes: &[usize],
    challenges: &'a [[u8; 32]],
) -> Vec<EdVerify<'a>> {
    let job = |(&lane, k): (&usize, &'a [u8; 32])| {
        let (r, s) = halves(&sig[lane]);
        EdVerify { key: keys.lane(lane), r, s, k }
    };
    lanes.iter().zip(challenges).map(job).collect()
}
