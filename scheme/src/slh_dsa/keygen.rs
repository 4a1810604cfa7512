//! Key generation, and keys from their encodings, over a batch.

use super::forest::{self, Tree, TreeOutput};
use super::keys::{SigningKey, VerifyKey};
use super::params::Params;
use super::{OPS_MAX, Scratch};
use crate::ct;
use crate::error::Status;
use crate::kernels::Kernels;
use crate::kernels::slh::{SlhAddress, address_type};

/// slh_keygen_internal (FIPS 205, Algorithm 18): `seeds[lane]` is SK.seed, SK.prf and PK.seed,
/// `[lane][seed_len]`; `keys[lane]` takes the key.
///
/// # Panics
/// If `seeds` is not one seed per key.
pub fn keygen<K: Kernels>(
    kernels: &K,
    p: &'static Params,
    seeds: &[u8],
    keys: &mut [SigningKey],
    scratch: &mut Scratch,
) {
    assert_eq!(seeds.len(), keys.len() * p.seed_len(), "one seed per key");
    ct::secret(seeds);
    for (key, seed) in keys.iter_mut().zip(seeds.chunks_exact(p.seed_len())) {
        key.set(p, seed);
    }
    for keys in keys.chunks_mut(OPS_MAX) {
        top_trees(kernels, p, keys, scratch);
    }
    keys.iter_mut().for_each(SigningKey::finish);
}

/// Decodes many public keys: `bytes` holds one encoding per key. Every encoding of the right length
/// is a public key, so each status becomes [`Status::Ok`].
///
/// # Panics
/// If the lengths of `bytes`, `keys` and `status` do not fit each other.
pub fn expand_verify_keys(
    p: &'static Params,
    bytes: &[u8],
    keys: &mut [VerifyKey],
    status: &mut [Status],
) {
    assert_eq!(bytes.len(), keys.len() * p.pk_len(), "one encoding per key");
    assert_eq!(status.len(), keys.len(), "one status per key");
    for (key, bytes) in keys.iter_mut().zip(bytes.chunks_exact(p.pk_len())) {
        key.set(p, bytes, true);
    }
    status.fill(Status::Ok);
}

/// Decodes many private keys: `bytes` holds one encoding per key.
///
/// The top tree is worked out here, as key generation does: signing needs it anyway, and its root
/// shows whether PK.root belongs to the private key. `status[lane]` becomes [`Status::Ok`], or
/// [`Status::InvalidKey`] where it doesn't; such a key is wiped.
///
/// # Panics
/// If the lengths of `bytes`, `keys` and `status` do not fit each other.
pub fn expand_signing_keys<K: Kernels>(
    kernels: &K,
    p: &'static Params,
    bytes: &[u8],
    keys: &mut [SigningKey],
    status: &mut [Status],
    scratch: &mut Scratch,
) {
    assert_eq!(bytes.len(), keys.len() * p.sk_len(), "one encoding per key");
    assert_eq!(status.len(), keys.len(), "one status per key");
    ct::secret(bytes);
    for (key, bytes) in keys.iter_mut().zip(bytes.chunks_exact(p.sk_len())) {
        key.set(p, bytes);
    }
    for keys in keys.chunks_mut(OPS_MAX) {
        top_trees(kernels, p, keys, scratch);
    }
    for (key, status) in keys.iter_mut().zip(status) {
        // Both are public keys: the one given and the one that belongs to SK.seed.
        if key.verify_key().root() == key.top_root() {
            key.finish();
            *status = Status::Ok;
        } else {
            key.refuse();
            *status = Status::InvalidKey;
        }
    }
}

/// Makes keys whose top trees were worked out elsewhere: `bytes` holds one seed per key, or one encoding, and
/// `trees` all nodes of each, the lowest level first, `[key][2^(h' + 1) - 1][n]`. A lane that is not [`Status::Ok`] is left
/// alone; where PK.root of an encoding is not the tree's root it becomes [`Status::InvalidKey`], and the key blank.
///
/// # Panics
/// If the lengths of `bytes`, `trees`, `keys` and `status` do not fit each other.
pub fn from_trees(
    p: &'static Params,
    bytes: &[u8],
    trees: &[u8],
    keys: &mut [SigningKey],
    status: &mut [Status],
) {
    let each = bytes.len() / keys.len().max(1);
    assert!(each == p.seed_len() || each == p.sk_len() || keys.is_empty(), "a seed or an encoding");
    assert_eq!(bytes.len(), keys.len() * each, "one seed or encoding per key");
    assert_eq!(trees.len(), keys.len() * p.tree_len(), "one tree per key");
    assert_eq!(status.len(), keys.len(), "one status per key");
    ct::secret(bytes);
    let parts = bytes.chunks_exact(each.max(1)).zip(trees.chunks_exact(p.tree_len()));
    for ((key, (bytes, tree)), status) in keys.iter_mut().zip(parts).zip(status) {
        if !status.is_ok() {
            continue;
        }
        key.set(p, bytes);
        key.parts_mut().2.copy_from_slice(tree);
        if each == p.seed_len() || key.verify_key().root() == key.top_root() {
            key.finish();
        } else {
            key.refuse();
            *status = Status::InvalidKey;
        }
    }
}

/// The tree of the top layer, d - 1, of each key (Algorithm 18, lines 1 to 3).
fn top_trees<K: Kernels>(kernels: &K, p: &Params, keys: &mut [SigningKey], scratch: &mut Scratch) {
    let mut trees: Vec<_> = keys
        .iter_mut()
        .map(|key| {
            let (context, sk_seed, nodes) = key.parts_mut();
            let address = SlhAddress::new(p.d - 1, 0, address_type::TREE);
            Tree { context, sk_seed, address, offset: 0, output: TreeOutput::Nodes(nodes) }
        })
        .collect();
    forest::build(kernels, p, &mut trees, scratch);
}
