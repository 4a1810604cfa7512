//! Kernels whose secret outputs are looked for.

use std::slice::from_ref;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use gabion_scheme::kernels::kem::{KemNoise, KemUniform};
use gabion_scheme::kernels::sha512::Sha512;
use gabion_scheme::kernels::slh::{SlhChain, SlhHash};
use gabion_scheme::kernels::slh_fors::SlhForsTree;
use gabion_scheme::kernels::{DsaPoly, KemPoly, Kernels, Sponge, Xof};

use super::record;

/// Kernels whose secret outputs are recorded.
pub(crate) struct Recorder<K>(pub(crate) K);

fn record_kem(polys: &[KemPoly]) {
    for poly in polys {
        // SAFETY: 256 numbers of two bytes, in which every byte is initialised.
        record(unsafe { std::slice::from_raw_parts(poly.0.as_ptr().cast(), 512) });
    }
}

fn record_dsa(polys: &[DsaPoly]) {
    for poly in polys {
        // SAFETY: 256 numbers of four bytes, in which every byte is initialised.
        record(unsafe { std::slice::from_raw_parts(poly.0.as_ptr().cast(), 1024) });
    }
}

/// Returns whether the standards keep this sponge's output secret. ML-DSA publishes tr, mu, c~ and
/// the stream for c; the lengths of the inputs tell its seeds, ExpandS, ExpandMask and rho'' apart.
fn is_secret(job: &Sponge<'_>, is_kem: bool) -> bool {
    let input: usize = job.input.iter().map(|piece| piece.len()).sum();
    match job.xof {
        Xof::Shake128 | Xof::Sha3_256 => false,
        Xof::Sha3_512 => true,
        Xof::Shake256 => is_kem || matches!(input, 34 | 66 | 128),
    }
}

/// Calls the kernel of the same name and records the named outputs.
macro_rules! recorded {
    ($(
        $name:ident($($arg:ident: $type:ty),*) $(-> $result:ty)?
            => $($record:ident($out:expr))?;
    )*) => {
        $(fn $name(&self, $($arg: $type),*) $(-> $result)? {
            let result = self.0.$name($($arg),*);
            $($record($out);)?
            result
        })*
    };
}

impl<K: Kernels> Kernels for Recorder<K> {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    /// The lanes of the widest kernels, so that buffers grow and shrink like theirs.
    fn lanes(&self) -> usize {
        8
    }

    fn sponge_many(&self, jobs: &mut [Sponge<'_>]) {
        self.0.sponge_many(jobs);
        let is_kem = IS_KEM.load(Relaxed);
        for job in jobs.iter().filter(|job| is_secret(job, is_kem)) {
            record(job.output);
        }
    }

    fn kem_to_mont(&self, polys: &mut [KemPoly]) {
        self.0.kem_to_mont(polys);
        record_kem(polys);
        IS_SUM_OF_T.store(true, Relaxed);
    }

    fn kem_add(&self, acc: &mut [KemPoly], b: &[KemPoly]) {
        self.0.kem_add(acc, b);
        if !IS_SUM_OF_T.swap(false, Relaxed) {
            record_kem(acc);
        }
    }

    fn kem_sample_cbd(&self, eta: usize, jobs: &mut [KemNoise<'_>]) {
        self.0.kem_sample_cbd(eta, jobs);
        jobs.iter().for_each(|job| record_kem(from_ref(job.out)));
    }

    recorded! {
        dsa_add_small(acc: &mut DsaPoly, s: &KemPoly) => ;
        dsa_sub_small(acc: &mut DsaPoly, s: &KemPoly) => ;
        slh_chain_many(jobs: &mut [SlhChain<'_>]) => ;
        slh_hash_many(jobs: &mut [SlhHash<'_>]) => ;
        slh_fors_many(jobs: &mut [SlhForsTree<'_>]) => ;
        sha512_many(jobs: &mut [Sha512<'_>]) => ;
        ed25519_base_multiples(scalars: &[[u8; 32]], out: &mut [[u8; 32]])
            => record(scalars.as_flattened());
        x25519_base_multiples(scalars: &[[u8; 32]], out: &mut [[u8; 32]])
            => record(scalars.as_flattened());
        x25519_multiples(scalars: &[[u8; 32]], points: &[[u8; 32]], out: &mut [[u8; 32]])
            => record(out.as_flattened());
        kem_sample_ntt_vartime(jobs: &mut [KemUniform<'_>]) => ;
        kem_rej_uniform_vartime(bytes: &[u8], out: &mut KemPoly) -> usize => ;
        kem_cbd(eta: usize, bytes: &[u8], out: &mut [KemPoly]) => record_kem(out);
        kem_ntt(polys: &mut [KemPoly]) => record_kem(polys);
        kem_inv_ntt(polys: &mut [KemPoly]) => record_kem(polys);
        kem_matvec(out: &mut [KemPoly], a: &[KemPoly], v: &[KemPoly]) => record_kem(out);
        kem_sub_from(a: &KemPoly, acc: &mut KemPoly) => record_kem(from_ref(acc));
        kem_encode12(polys: &[KemPoly], out: &mut [u8]) => record(out);
        kem_decode12(bytes: &[u8], out: &mut [KemPoly]) -> bool => record_kem(out);
        kem_compress(d: usize, polys: &[KemPoly], out: &mut [u8]) => record(out);
        kem_decompress(d: usize, bytes: &[u8], out: &mut [KemPoly]) => ;
        dsa_rej_uniform_vartime(bytes: &[u8], out: &mut DsaPoly) -> usize => ;
        dsa_rej_bounded_vartime(eta: usize, bytes: &[u8], out: &mut DsaPoly) -> usize
            => record_dsa(from_ref(out));
        dsa_ntt(polys: &mut [DsaPoly]) => record_dsa(polys);
        dsa_inv_ntt(polys: &mut [DsaPoly]) => record_dsa(polys);
        dsa_matvec(out: &mut [DsaPoly], a: &[DsaPoly], v: &[DsaPoly]) => record_dsa(out);
        dsa_pointwise(out: &mut [DsaPoly], c: &DsaPoly, v: &[DsaPoly]) => record_dsa(out);
        dsa_add(acc: &mut [DsaPoly], b: &[DsaPoly]) => record_dsa(acc);
        dsa_sub(acc: &mut [DsaPoly], b: &[DsaPoly]) => record_dsa(acc);
        dsa_shift_left_d(polys: &mut [DsaPoly]) => ;
        dsa_power2round(t: &DsaPoly, t1: &mut DsaPoly, t0: &mut DsaPoly)
            => record_dsa(from_ref(t0));
        dsa_decompose(gamma2: i32, r: &DsaPoly, r1: &mut DsaPoly, r0: &mut DsaPoly)
            => record_dsa(&[r0.clone(), r1.clone()]);
        dsa_make_hint(gamma2: i32, r0: &DsaPoly, r1: &DsaPoly, hint: &mut DsaPoly) -> usize => ;
        dsa_use_hint(gamma2: i32, hint: &DsaPoly, r: &DsaPoly, out: &mut DsaPoly) => ;
        dsa_norm_below(polys: &[DsaPoly], bound: i32) -> bool => ;
        dsa_simple_bit_pack(bits: usize, p: &DsaPoly, out: &mut [u8]) => record(out);
        dsa_simple_bit_unpack(bits: usize, bytes: &[u8], out: &mut DsaPoly) => ;
        dsa_bit_pack(bits: usize, b: i32, p: &DsaPoly, out: &mut [u8]) => record(out);
        dsa_bit_unpack(bits: usize, b: i32, bytes: &[u8], out: &mut DsaPoly)
            => record_dsa(from_ref(out));
    }
}

/// The scheme that the running test exercises; see [`is_secret`].
pub(crate) static IS_KEM: AtomicBool = AtomicBool::new(false);

/// Whether the next sum is t_hat = A s + e, which is public; only there a product leaves
/// Montgomery's form.
static IS_SUM_OF_T: AtomicBool = AtomicBool::new(false);
