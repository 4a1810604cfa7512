//! LMS signatures at leaves that stand one behind the other (RFC 8554, sections 4.5 and 5.4.1).

use super::Scratch;
use super::hash::message_digest;
use super::keys::Public;
use super::params::N_MAX;
use super::secret::Secret;
use super::signature::read_part;
use super::verify;
use crate::ct;
use crate::error::Error;
use crate::hbs::{Reader, Tree, digit};
use crate::kernels::Kernels;
use crate::kernels::lms::{LmsChain, prefix};

/// Signatures that are made together.
pub(super) const SIGNATURES_MAX: usize = 16;

/// Signs message i with leaf q + i; [`Tree::reach`] made the leaves ready. Each entry of `out` is
/// one signature, `u32str(q) || u32str(otstype) || C || y || u32str(type) || path`.
///
/// Before it returns, every one-time signature is taken up to its leaf, as a verifier does, and compared
/// with the leaf that the tree has: a fault while a signature was made must not come out as a second
/// signature of a one-time key. The randomizer, which any value would do for, is derived twice.
///
/// # Errors
/// [`Error::Fault`]; then `out` is zero.
pub(super) fn sign<K: Kernels + ?Sized>(
    k: &K,
    tree: &Tree<Secret>,
    q: u32,
    messages: &[&[u8]],
    out: &mut [&mut [u8]],
    scratch: &mut Scratch,
) -> Result<(), Error> {
    assert!(messages.len() == out.len() && out.len() <= SIGNATURES_MAX, "a signature a message");
    let Secret { lms, ots, .. } = &tree.secret;
    let len = lms.signature_len(ots);
    assert!(out.iter().all(|out| out.len() == len), "signatures of the set's length");
    // Of a sector the tree counts from its own first leaf on.
    let number = tree.secret.first() + q;
    for (at, out) in (0..).zip(out.iter_mut()) {
        let (head, rest) = out.split_at_mut(8 + ots.n + ots.chains() * ots.n);
        head[..4].copy_from_slice(&(number + at).to_be_bytes());
        head[4..8].copy_from_slice(&ots.typecode.to_be_bytes());
        let (typecode, nodes) = rest.split_at_mut(4);
        typecode.copy_from_slice(&lms.typecode.to_be_bytes());
        let path = tree.path(q + at).chain(tree.secret.sector.way.chunks_exact(lms.n));
        for (bytes, node) in nodes.chunks_exact_mut(lms.n).zip(path) {
            bytes.copy_from_slice(node);
        }
    }
    values(k, &tree.secret, number, messages, out);
    if !check(k, tree, q, messages, out, scratch) {
        out.iter_mut().for_each(|out| ct::wipe(out));
        return Err(Error::Fault("HSS"));
    }
    Ok(())
}

/// C and a value of each chain (Algorithm 3).
fn values<K: Kernels + ?Sized>(
    k: &K,
    secret: &Secret,
    q: u32,
    messages: &[&[u8]],
    out: &mut [&mut [u8]],
) {
    let Secret { lms, ots, id, .. } = secret;
    let (n, values) = (lms.n, 8 + lms.n..8 + lms.n + ots.chains() * lms.n);
    secret.randomizers(k, q, out.iter_mut().map(|out| &mut out[8..8 + n]));
    let mut jobs = Vec::with_capacity(messages.len() * ots.chains());
    for ((q, message), out) in (q..).zip(messages).zip(out.iter_mut()) {
        let (head, values) = out[..values.end].split_at_mut(8 + n);
        let randomizer = &head[8..];
        // C is part of the signature; so Q, which the digits are of, is known to everybody.
        ct::declassify(randomizer);
        let digest: [u8; N_MAX + 2] = message_digest(ots, id, q, randomizer, message);
        let chains = (0..).zip(values.chunks_exact_mut(n));
        jobs.extend(chains.map(|(i, value)| LmsChain {
            family: lms.family,
            prefix: prefix(id, q, i as u16),
            seed: Some(secret.seed()),
            start: 0,
            steps: digit(&digest, i, ots.w),
            value,
        }));
    }
    k.lms_chain_many(&mut jobs);
    // The values are the signature.
    out.iter().for_each(|out| ct::declassify(out));
}

/// Returns whether each signature, read from its bytes, leads to the leaf that the tree has.
fn check<K: Kernels + ?Sized>(
    k: &K,
    tree: &Tree<Secret>,
    q: u32,
    messages: &[&[u8]],
    out: &[&mut [u8]],
    scratch: &mut Scratch,
) -> bool {
    let Secret { lms, ots, id, .. } = &tree.secret;
    let public = Public { lms, ots, id, root: tree.root() };
    let mut parts = Vec::with_capacity(out.len());
    for (out, message) in out.iter().zip(messages) {
        let Some(mut part) = read_part(&mut Reader::new(out), public) else { return false };
        part.message = message;
        parts.push((0, part));
    }
    verify::leaves(k, &parts, scratch);
    let found = scratch.nodes.chunks_exact(N_MAX).map(|node| Some(&node[..lms.n]));
    let has_leaves =
        found.len() == out.len() && found.eq((q..).take(out.len()).map(|q| tree.leaf(q)));
    let mut again = vec![0; out.len() * lms.n];
    tree.secret.randomizers(k, tree.secret.first() + q, again.chunks_exact_mut(lms.n));
    // As in the signature.
    ct::declassify(&again);
    has_leaves && parts.iter().map(|(_, part)| part.randomizer).eq(again.chunks_exact(lms.n))
}
