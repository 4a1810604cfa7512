//! ExpandA and ExpandS (FIPS 204, Algorithms 32 and 33): polynomials by rejection sampling,
//! many lanes' worth of sponges in one call.

use super::keys::VerifyKey;
use super::params::Params;
use super::{Jobs, resize_arrays};
use crate::ct;
use crate::kernels::{DsaPoly, Kernels, N, Sponge, Xof};

/// Bytes squeezed at first for a polynomial of A: five blocks hold 280 candidates, of which fewer
/// than 256 are accepted with probability below 2^-130.
const UNIFORM_LEN: usize = 5 * Xof::Shake128.rate();
/// Bytes squeezed at first for a polynomial of s1 or s2: two blocks hold 544 candidates. With
/// eta = 4, where 9 of 16 are accepted, one polynomial in about 10^5 needs more.
pub(super) const BOUNDED_LEN: usize = 2 * Xof::Shake256.rate();

/// ExpandA (Algorithm 32) for every lane: fills `a_hat` of the key that `part` finds in
/// `keys[lane]` from `rhos[lane]`. The sponges of `others` run with the first group.
///
/// Groups bound the memory: sponges of a group are squeezed and parsed before the next starts.
pub(super) fn expand_a<'a, K: Kernels, T>(
    kernels: &K,
    p: &Params,
    rhos: &[[u8; 32]],
    buffers: (&mut Jobs, &mut Vec<u8>, &mut Vec<[u8; 2]>),
    keys: &mut [T],
    part: fn(&mut T) -> &mut VerifyKey,
    others: impl Iterator<Item = Sponge<'a>>,
) {
    let (jobs, squeezed, nonces) = buffers;
    let total = p.matrix_len() * rhos.len();
    // Eight rounds of all lanes: a whole key's matrix is one group with eight lanes, while with
    // one lane the group stays in the first-level cache.
    let group_len = (8 * kernels.lanes().max(1)).min(total);
    if squeezed.len() < UNIFORM_LEN * group_len {
        squeezed.resize(UNIFORM_LEN * group_len, 0);
    }
    resize_arrays(nonces, group_len);
    let mut others = Some(others);
    for start in (0..total).step_by(group_len.max(1)) {
        let group = start..total.min(start + group_len);
        for (nonce, index) in nonces.iter_mut().zip(group.clone()) {
            let (r, s) = place(p, index);
            // Algorithm 32, line 3: rho' = rho || s || r.
            *nonce = [s as u8, r as u8];
        }
        let sponges = squeezed.chunks_exact_mut(UNIFORM_LEN).zip(&*nonces).zip(group.clone()).map(
            |((out, nonce), index)| {
                Sponge::new(Xof::Shake128, [&rhos[index / p.matrix_len()][..], nonce], out)
            },
        );
        let others = others.take().into_iter().flatten().map(shorten);
        jobs.run(kernels, others.chain(sponges));
        for ((bytes, nonce), index) in squeezed.chunks_exact(UNIFORM_LEN).zip(&*nonces).zip(group) {
            let (lane, poly) = (index / p.matrix_len(), index % p.matrix_len());
            let out = &mut part(&mut keys[lane]).a_hat_mut()[poly];
            if kernels.dsa_rej_uniform_vartime(bytes, out) < N {
                uniform_again(kernels, &rhos[lane], nonce, out);
            }
        }
    }
}

/// Shortens the lifetime of a sponge to that of its neighbours in a chain.
fn shorten<'a: 'b, 'b>(sponge: Sponge<'a>) -> Sponge<'b> {
    sponge
}

/// Row and column of the matrix element with a running index over lanes.
fn place(p: &Params, index: usize) -> (usize, usize) {
    let poly = index % p.matrix_len();
    (poly / p.l, poly % p.l)
}

/// RejNTTPoly (Algorithm 30) with more and more blocks, where the first five were not enough.
#[cold]
fn uniform_again<K: Kernels>(kernels: &K, rho: &[u8; 32], nonce: &[u8; 2], out: &mut DsaPoly) {
    let mut len = UNIFORM_LEN;
    loop {
        len += Xof::Shake128.rate();
        let mut bytes = vec![0; len];
        kernels.sponge_many(&mut [Sponge::new(Xof::Shake128, [&rho[..], nonce], &mut bytes)]);
        if kernels.dsa_rej_uniform_vartime(&bytes, out) == N {
            return;
        }
    }
}

/// The counters of ExpandS (Algorithm 33) for `lanes` lanes: 0..l for s1, l..l + k for s2.
pub(super) fn s_nonces(p: &Params, lanes: usize, nonces: &mut Vec<[u8; 2]>) {
    nonces.clear();
    let per_lane = p.l + p.k;
    nonces.extend((0..lanes * per_lane).map(|i| ((i % per_lane) as u16).to_le_bytes()));
}

/// The parsing part of RejBoundedPoly (Algorithm 31) on the first [`BOUNDED_LEN`] bytes.
pub(super) fn bounded<K: Kernels>(
    kernels: &K,
    p: &Params,
    rho_prime: &[u8],
    nonce: &[u8; 2],
    bytes: &[u8],
    out: &mut DsaPoly,
) {
    let mut count = [kernels.dsa_rej_bounded_vartime(p.eta, bytes, out)];
    // How many candidates were rejected says nothing about those that were accepted.
    ct::declassify(&count);
    let mut len = BOUNDED_LEN;
    while count[0] < N {
        len += Xof::Shake256.rate();
        let mut longer = vec![0; len];
        kernels.sponge_many(&mut [Sponge::new(Xof::Shake256, [rho_prime, nonce], &mut longer)]);
        count = [kernels.dsa_rej_bounded_vartime(p.eta, &longer, out)];
        ct::declassify(&count);
        ct::wipe(&mut longer);
    }
}
