//! ML-DSA (FIPS 204) over whole batches; a single operation is a batch of one.
//!
//! ```text
//!   keygen   seeds --H--> rho, rho', K --ExpandA, ExpandS--> A, s1, s2 --NTT--> t --> pk, sk
//!                                        (one call)                            \--H--> tr
//!   sign     tr, M' --H--> mu --H--> rho''                                         (one call each)
//!            round:  ExpandMask --> y --NTT, A--> w --> w1 --H--> c~ --H--> c --> z, r0, h: good?
//!                    `- every in-flight attempt of every operation in each of the three calls
//!   verify   tr, M' --H--> mu;  c~ --H--> c  --NTT, A, t1--> w1' --H--> c~' == c~?
//!            `--------- one call ---------'                  `- one call
//! ```
//!
//! - [`Params`], [`params`]: the parameter sets and sizes.
//! - [`VerifyKey`], [`SigningKey`]: keys with everything derived from them once.
//! - [`Message`](crate::message::Message): the message to sign: pure, pre-hashed, mu, or M' as it
//!   is.
//! - [`keygen`], [`expand_verify_keys`], [`expand_signing_keys`], [`sign()`], [`verify()`]: the
//!   batch operations.
//! - [`Scratch`]: buffers that are kept from call to call.
//!
//! Every function is generic over [`Kernels`]; slices are indexed `[lane]`, outputs of fixed size
//! are contiguous. Slices of different lengths and keys of different parameter sets in one call
//! are a misuse and panic before anything is written.

mod challenge;
mod expand;
mod hint;
mod keygen;
mod keys;
mod message;
mod params;
mod sign;
mod verify;

pub use crate::message::CONTEXT_MAX;
pub use keygen::{expand_signing_keys, expand_verify_keys, keygen};
pub use keys::{SigningKey, VerifyKey};
pub use params::{ATTEMPTS_MAX, D, MU_LEN, Params, SEED_LEN, params};
pub use sign::sign;
pub use verify::verify;

use crate::ct;
use crate::kernels::{DsaPoly, KemPoly, Kernels, Sponge};
use crate::message::Header;

/// Buffers for the batch operations. They grow to the size that the largest call needs and stay;
/// secrets in them are wiped before a call returns. Each running call needs separate ones.
#[derive(Default)]
pub struct Scratch {
    jobs: Jobs,
    /// Squeezed bytes of ExpandA, which are public; possibly longer than needed, and never wiped.
    a_squeezed: Vec<u8>,
    /// Squeezed bytes of ExpandMask.
    squeezed: Vec<u8>,
    /// Squeezed bytes of ExpandS.
    s_squeezed: Vec<u8>,
    /// Counters that follow a seed: `[job]`.
    nonces: Vec<[u8; 2]>,
    s_nonces: Vec<[u8; 2]>,
    /// rho of each lane: `[lane]`.
    rhos: Vec<[u8; 32]>,
    /// H(xi || k || l), `[lane]`.
    seeds: Vec<[u8; 128]>,
    headers: Vec<Header>,
    /// mu, `[op]`; tr in key generation.
    mu: Vec<[u8; 64]>,
    /// rho'', `[op]`.
    rho_mask: Vec<[u8; 64]>,
    /// Encoded w1, `[attempt or lane][w1_len]`.
    w1_bytes: Vec<u8>,
    /// c~ of each attempt or lane, in the first `c_tilde_len` bytes.
    c_tilde: Vec<[u8; 64]>,
    /// SampleInBall's stream, `[attempt or lane]`.
    ball: Vec<[u8; challenge::BALL_LEN]>,
    /// y, `[attempt][l]`.
    y: Vec<DsaPoly>,
    /// HighBits(w), `[attempt][k]`.
    w1: Vec<DsaPoly>,
    /// LowBits(w), `[attempt][k]`.
    w0: Vec<DsaPoly>,
    /// One lane's vectors.
    vectors: Vec<DsaPoly>,
    /// c and its products with s1 or s2 in ML-KEM's ring.
    small: Vec<KemPoly>,
    attempts: Vec<sign::Attempt>,
    tried: Vec<u16>,
    active: Vec<usize>,
}

impl Scratch {
    /// Empty buffers.
    pub fn new() -> Self {
        Self::default()
    }

    /// Wipes the buffers that making and expanding keys use for secrets.
    fn wipe_of_keys(&mut self) {
        ct::wipe(&mut self.s_squeezed);
        ct::wipe(self.seeds.as_flattened_mut());
        ct::wipe(&mut self.vectors);
    }

    /// Wipes the buffers that signing uses for secrets.
    fn wipe_of_signing(&mut self) {
        ct::wipe(&mut self.squeezed);
        ct::wipe(&mut self.rho_mask);
        ct::wipe(&mut self.w1_bytes);
        ct::wipe(&mut self.c_tilde);
        ct::wipe(self.ball.as_flattened_mut());
        for polys in [&mut self.y, &mut self.w1, &mut self.w0, &mut self.vectors] {
            ct::wipe(polys);
        }
        ct::wipe(&mut self.small);
    }
}

impl Drop for Scratch {
    /// A call that unwound did not reach its own wipe.
    fn drop(&mut self) {
        self.wipe_of_keys();
        self.wipe_of_signing();
    }
}

/// Sets the length of a buffer whose contents don't matter.
fn resize<T: ct::Wipe + Clone + Default>(buffer: &mut Vec<T>, len: usize) {
    ct::resize(buffer, len, T::default());
}

/// Sets the length of a buffer of arrays whose contents don't matter.
fn resize_arrays<const B: usize>(buffer: &mut Vec<[u8; B]>, len: usize) {
    ct::resize(buffer, len, [0; B]);
}

/// The list handed to [`Kernels::sponge_many`], with its allocation kept between calls.
#[derive(Default)]
struct Jobs(Vec<Sponge<'static>>);

impl Jobs {
    /// Runs all of `jobs` in one call of the kernel.
    fn run<'a, K: Kernels>(&mut self, kernels: &K, jobs: impl Iterator<Item = Sponge<'a>>) {
        let mut list: Vec<Sponge<'a>> = std::mem::take(&mut self.0);
        list.extend(jobs);
        if !list.is_empty() {
            kernels.sponge_many(&mut list);
        }
        list.clear();
        // An empty list maps to an empty list of another lifetime; the standard library keeps
        // the allocation, because source and target have the same layout.
        self.0 = list.into_iter().map(|_| unreachable!("the list was cleared")).collect();
    }
}

/// Declassifies the result of a check, but not the checked values.
///
/// The failing attempt, and the polynomial at which it fails, do not depend on the secrets: the
/// distribution of a rejected coefficient is equal for all keys (Dilithium round 3 specification,
/// section 5.5). Values stay secret.
fn reveal(passed: bool) -> bool {
    let cell = [passed];
    ct::declassify(&cell);
    std::hint::black_box(cell)[0]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::Xof;

    #[test]
    fn wiping_reaches_every_secret_buffer() {
        let mut scratch = Scratch::new();
        let poly = DsaPoly([7; 256]);
        scratch.squeezed = vec![1; 100];
        scratch.s_squeezed = vec![1; 100];
        scratch.seeds = vec![[1; 128]; 3];
        scratch.rho_mask = vec![[1; 64]; 3];
        scratch.w1_bytes = vec![1; 100];
        scratch.c_tilde = vec![[1; 64]; 3];
        scratch.ball = vec![[1; challenge::BALL_LEN]; 3];
        scratch.y = vec![poly.clone(); 2];
        scratch.w1 = vec![poly.clone(); 2];
        scratch.w0 = vec![poly.clone(); 2];
        scratch.vectors = vec![poly; 2];
        scratch.small = vec![KemPoly([7; 256]); 2];
        scratch.wipe_of_keys();
        scratch.wipe_of_signing();
        assert_eq!(scratch.small, vec![KemPoly::default(); 2]);
        let bytes = [&scratch.squeezed, &scratch.s_squeezed, &scratch.w1_bytes];
        assert!(bytes.iter().all(|b| b.len() == 100 && b.iter().all(|&x| x == 0)));
        assert_eq!(scratch.seeds, vec![[0; 128]; 3]);
        assert_eq!(scratch.rho_mask, vec![[0; 64]; 3]);
        assert_eq!(scratch.c_tilde, vec![[0; 64]; 3]);
        assert_eq!(scratch.ball, vec![[0; challenge::BALL_LEN]; 3]);
        for polys in [&scratch.y, &scratch.w1, &scratch.w0, &scratch.vectors] {
            assert_eq!(polys, &vec![DsaPoly::default(); 2]);
        }
    }

    #[test]
    fn the_job_list_keeps_its_allocation() {
        let mut out = [[0u8; 32]; 9];
        let mut list: Vec<Sponge<'_>> = Vec::new();
        list.extend(out.iter_mut().map(|o| Sponge::new(Xof::Shake256, [b"x"], o)));
        let capacity = list.capacity();
        list.clear();
        let again: Vec<Sponge<'static>> =
            list.into_iter().map(|_| unreachable!("the list was cleared")).collect();
        assert_eq!(again.capacity(), capacity);
    }
}
