//! The hashes of the message: PRF_msg and H_msg (FIPS 205, sections 11.1 and 11.2), and the indices
//! that the digest holds (Algorithm 19, lines 6 to 13).

use super::params::{K_MAX, M_MAX, N_MAX, Params};
use super::sha2::{self, Width};
use crate::ct;
use crate::kernels::slh::SlhFamily;
use crate::kernels::{Kernels, Sponge, Xof};
use crate::message::{Header, Message};

/// Most bytes that stand before M': R, PK.seed and PK.root.
const HEAD_MAX: usize = 3 * N_MAX;

/// One hash of a message.
pub(super) struct Input<'a> {
    /// SK.prf and opt_rand, or R and the public key.
    head: [u8; HEAD_MAX],
    head_len: usize,
    header: Header,
    message: Message<'a>,
    output: &'a mut [u8],
}

impl Drop for Input<'_> {
    fn drop(&mut self) {
        ct::wipe(&mut self.head);
    }
}

impl<'a> Input<'a> {
    /// The hash of a message whose form was checked, behind `first` and `second`.
    pub(super) fn new(
        first: &[u8],
        second: &[u8],
        message: Message<'a>,
        output: &'a mut [u8],
    ) -> Self {
        let mut head = [0; HEAD_MAX];
        head[..first.len()].copy_from_slice(first);
        head[first.len()..first.len() + second.len()].copy_from_slice(second);
        let head_len = first.len() + second.len();
        Input { head, head_len, header: Header::new(&message), message, output }
    }
}

/// PRF_msg(SK.prf, opt_rand, M') of each input into its n bytes, which are R and so public.
pub(super) fn prf_msg<K: Kernels>(kernels: &K, p: &Params, inputs: &mut [Input<'_>]) {
    match p.family {
        SlhFamily::Shake => shake(kernels, inputs),
        SlhFamily::Sha2 => {
            for input in &mut *inputs {
                let (key, opt_rand) = input.head[..input.head_len].split_at(p.n);
                let [a, b, c, d] = input.header.formatted(&input.message);
                sha2::hmac(width(p), key, &[opt_rand, a, b, c, d], input.output);
            }
        }
    }
    inputs.iter().for_each(|input| ct::declassify(input.output));
}

/// H_msg(R, PK.seed, PK.root, M') of each input into its m bytes.
pub(super) fn h_msg<K: Kernels>(kernels: &K, p: &Params, inputs: &mut [Input<'_>]) {
    if p.family == SlhFamily::Shake {
        return shake(kernels, inputs);
    }
    for input in inputs {
        let head = &input.head[..input.head_len];
        let [a, b, c, d] = input.header.formatted(&input.message);
        let mut digest = [0; 64];
        let digest = &mut digest[..width(p).digest_len()];
        sha2::hash(width(p), &[head, a, b, c, d], digest);
        // R and PK.seed.
        sha2::mgf1(width(p), &[&head[..2 * p.n], digest], input.output);
    }
}

/// SHA-512 above security category 1 (section 11.2.2).
fn width(p: &Params) -> Width {
    if p.n == 16 { Width::Sha256 } else { Width::Sha512 }
}

fn shake<K: Kernels>(kernels: &K, inputs: &mut [Input<'_>]) {
    let mut jobs: Vec<_> = inputs
        .iter_mut()
        .map(|input| {
            let Input { head, head_len, header, message, output } = input;
            let [a, b, c, d] = header.formatted(message);
            Sponge::new(Xof::Shake256, [&head[..*head_len], a, b, c, d], output)
        })
        .collect();
    kernels.sponge_many(&mut jobs);
}

/// The indices in a message digest: the leaf of each FORS tree, and the FORS key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Indices {
    /// The leaf of each FORS tree, counted over all trees: i * 2^a + base_2b(md, a, k)\[i\], `[k]`.
    pub(super) fors: [u32; K_MAX],
    /// idx_tree, the tree of the lowest layer.
    pub(super) tree: u64,
    /// idx_leaf, the leaf of that tree.
    pub(super) leaf: u32,
}

impl Indices {
    /// Parses a digest of m bytes (Algorithm 19, lines 6 to 13).
    pub(super) fn new(p: &Params, digest: &[u8; M_MAX]) -> Self {
        let (md, rest) = digest.split_at((p.a as usize * p.k).div_ceil(8));
        let tree_bits = p.h - p.h_prime;
        let (tree, rest) = rest.split_at(tree_bits.div_ceil(8) as usize);
        let leaf = &rest[..p.h_prime.div_ceil(8) as usize];
        let mut indices = Indices {
            tree: to_int(tree) & (u64::MAX >> (64 - tree_bits)),
            leaf: to_int(leaf) as u32 & ((1 << p.h_prime) - 1),
            fors: [0; K_MAX],
        };
        // base_2b (Algorithm 4): the highest bits first.
        let (mut total, mut bits) = (0u32, 0);
        let mut bytes = md.iter();
        for (tree, index) in indices.fors[..p.k].iter_mut().enumerate() {
            while bits < p.a {
                // md has k * a bits, so there is a byte wherever bits are missing.
                total = total << 8 | u32::from(*bytes.next().unwrap_or(&0));
                bits += 8;
            }
            bits -= p.a;
            *index = (total >> bits & ((1 << p.a) - 1)) + ((tree as u32) << p.a);
        }
        indices
    }

    /// Tree and leaf of the next layer (Algorithm 12, lines 7 to 9).
    pub(super) fn climb(&mut self, p: &Params) {
        self.leaf = self.tree as u32 & ((1 << p.h_prime) - 1);
        self.tree >>= p.h_prime;
    }
}

/// toInt (Algorithm 2) of at most 8 bytes.
fn to_int(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |total, &byte| total << 8 | u64::from(byte))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Algorithm;
    use crate::slh_dsa::params;

    /// Bit by bit from the definitions.
    #[test]
    fn indices_are_the_bits_of_the_digest() {
        for algorithm in Algorithm::all() {
            let Some(p) = params(algorithm) else { continue };
            let digest: [u8; M_MAX] = std::array::from_fn(|i| (i * 89 + 41) as u8);
            let bit = |at: usize| u64::from(digest[at / 8] >> (7 - at % 8) & 1);
            let number =
                |from: usize, len: usize| (from..from + len).fold(0, |x, at| x << 1 | bit(at));
            let mut indices = Indices::new(p, &digest);
            let a = p.a as usize;
            for i in 0..p.k {
                assert_eq!(u64::from(indices.fors[i]), number(i * a, a) + ((i as u64) << a));
            }
            let md_end = (p.k * a).div_ceil(8) * 8;
            let tree_bits = (p.h - p.h_prime) as usize;
            let tree_end = md_end + tree_bits.div_ceil(8) * 8;
            assert_eq!(indices.tree, number(tree_end - tree_bits, tree_bits));
            let leaf_bits = p.h_prime as usize;
            assert_eq!(u64::from(indices.leaf), number(p.m * 8 - leaf_bits, leaf_bits));
            let before = indices.tree;
            indices.climb(p);
            assert_eq!(u64::from(indices.leaf), before % (1 << p.h_prime));
            assert_eq!(indices.tree, before / (1 << p.h_prime));
        }
    }
}
