//! Keys with one known leaf, and signatures by it: for self-tests and tests.
//!
//! ```text
//!   bytes of any kind -> I, C, secrets of one leaf, its path
//!
//!   secrets --chains as far as the digits say--> signature --as who verifies does--> root
//! ```
//!
//! No tree is built, so that a signature of any parameter set costs as much as a few verifications.

use super::hash::message_digest;
use super::keys::Public;
use super::params::{LmOts, Lms};
use super::signature::Part;
use super::{Scratch, verify};
use crate::hbs::digit;
use crate::kernels::Kernels;
use crate::kernels::lms::{LmsChain, prefix};

/// Returns an encoded public key of LMS, and a signature of each message by leaf `q`, both without
/// the leading word of HSS. `take` returns random bytes of the given length. The key is discarded;
/// it could not sign with any other leaf.
///
/// # Panics
/// If both sets are not of one hash function.
pub fn testing_only_signatures<K: Kernels + ?Sized>(
    k: &K,
    (lms, ots): (&'static Lms, &'static LmOts),
    q: u32,
    messages: &[&[u8]],
    take: &mut dyn FnMut(usize) -> Vec<u8>,
) -> (Vec<u8>, Vec<Vec<u8>>) {
    assert!((lms.family, lms.n) == (ots.family, ots.n), "sets of one hash function");
    let (id, randomizer) = (take(16), take(ots.n));
    let id: [u8; 16] = std::array::from_fn(|at| id[at]);
    let (secrets, path) = (take(ots.chains() * ots.n), take(lms.h as usize * lms.n));
    let (mut root, mut scratch) = (Vec::new(), Scratch::new());
    let [number, one_time, tree] = [q, ots.typecode, lms.typecode].map(u32::to_be_bytes);
    let signatures = messages.iter().map(|message| {
        let digest = message_digest(ots, &id, q, &randomizer, message);
        let mut values = secrets.clone();
        let chains = (0..).zip(values.chunks_exact_mut(ots.n)).map(|(i, value)| LmsChain {
            family: ots.family,
            prefix: prefix(&id, q, i),
            seed: None,
            start: 0,
            steps: digit(&digest, i.into(), ots.w),
            value,
        });
        k.lms_chain_many(&mut chains.collect::<Vec<_>>());
        let public = Public { lms, ots, id: &id, root: &[] };
        let (randomizer, values, path) = (&randomizer[..], &values[..], &path[..]);
        let part = Part { public, q, randomizer, values, path, message };
        verify::roots(k, &[(0, part)], &mut scratch);
        root = scratch.nodes[..lms.n].to_vec();
        [&number[..], &one_time, randomizer, values, &tree, path].concat()
    });
    let signatures = signatures.collect();
    ([&tree[..], &one_time, &id, &root].concat(), signatures)
}
