//! A layer's part of signatures, at leaves that stand one behind the other (RFC 8391, Algorithm 11).

use super::params::Set;
use super::secret::{Secret, TOGETHER};
use super::signature::Layer;
use super::{Scratch, verify};
use crate::ct;
use crate::error::Error;
use crate::hbs::{Tree, TreeSecret};
use crate::kernels::Kernels;

/// Signs digests, n bytes each, at leaves of their own, from leaf q on, which were made ready. `out` is values and
/// path of each.
///
/// Before it returns, every one-time signature is taken up to its leaf, as a verifier does, and compared
/// with the leaf that the tree has: a fault while a signature was made must not come out as a second
/// signature of a one-time key.
///
/// # Errors
/// [`Error::Fault`]; then `out` is zero.
pub(super) fn sign<K: Kernels + ?Sized>(
    k: &K,
    tree: &Tree<Secret>,
    q: u32,
    digests: &[&[u8]],
    out: &mut [&mut [u8]],
    scratch: &mut Scratch,
) -> Result<(), Error> {
    assert!(digests.len() == out.len() && out.len() <= TOGETHER, "a signature a digest");
    let set = tree.secret.seeds.set;
    assert!(out.iter().all(|out| out.len() == set.layer_len()), "signatures of the set's length");
    let values = set.chains() * set.n;
    for (q, out) in (q..).zip(out.iter_mut()) {
        for (bytes, node) in out[values..].chunks_exact_mut(set.n).zip(tree.path(q)) {
            bytes.copy_from_slice(node);
        }
    }
    tree.secret.sign(k, q, digests, out.iter_mut().map(|out| &mut out[..values]));
    let parts =
        (q..).zip(out.iter()).map(|(q, out)| (&tree.secret.seeds.context, part(tree, q, out)));
    let parts: Vec<_> = parts.collect();
    verify::leaves(k, &parts, digests, scratch);
    let found = scratch.values.chunks_exact(set.n).map(Some);
    let is_right =
        found.len() == out.len() && found.eq((q..).take(out.len()).map(|q| tree.leaf(q)));
    if !is_right {
        out.iter_mut().for_each(|out| ct::wipe(out));
        return Err(Error::Fault(tree.secret.name()));
    }
    Ok(())
}

/// A layer's part of a signature, by the tree that made it.
pub(super) fn part<'a>(tree: &Tree<Secret>, leaf: u32, bytes: &'a [u8]) -> Layer<'a> {
    let Secret { seeds, layer, tree } = &tree.secret;
    let (values, path) = split(seeds.set, bytes);
    Layer { layer: *layer, tree: *tree, leaf, values, path }
}

/// Values, and the path behind them.
fn split<'a>(set: &Set, bytes: &'a [u8]) -> (&'a [u8], &'a [u8]) {
    bytes.split_at(set.chains() * set.n)
}
