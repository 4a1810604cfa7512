//! No kernel leaves the upper parts of vector registers in use.
//!
//! Where they are in use, Intel's processors since Golden Cove take some 250 cycles to go from an instruction
//! of SSE, which is all that code for every x86-64 has, to one of AVX, and back: a compression by the SHA
//! extensions, which have no other encoding, goes many times each way. The processor itself says whether they are
//! in use (XINUSE, Intel's manual, volume 1, section 13.6). AMD's keep no such books, so there the test says
//! that it saw nothing.

#![cfg(target_arch = "x86_64")]
#![allow(clippy::expect_used, clippy::unwrap_used)] // A panic is how a test fails.

use std::arch::asm;
use std::arch::x86_64::__cpuid_count;
use std::collections::BTreeSet;
use std::sync::Mutex;

use gabion_backend::avx2::Avx2;
use gabion_backend::avx512::Avx512;
use gabion_backend::{Backend, Cpu};
use gabion_engine::{
    ALGORITHMS, Config, Engine, KemPrivateKey, Kind, Message, OsEntropy, Randomness, Status,
};
use gabion_scheme::kernels::ed25519::{EdEquation, EdVerify};
use gabion_scheme::kernels::kem::{KemNoise, KemUniform};
use gabion_scheme::kernels::sha512::Sha512;
use gabion_scheme::kernels::slh::{SlhChain, SlhHash};
use gabion_scheme::kernels::slh_fors::SlhForsTree;
use gabion_scheme::kernels::{DsaPoly, KemPoly, Kernels, Sponge};

/// The names of kernels after which the upper parts were in use.
static LEFT: Mutex<BTreeSet<(&str, &str)>> = Mutex::new(BTreeSet::new());

/// Returns whether the upper part of any of the registers 0 to 15 is in use: bits 2 and 6 of
/// XINUSE.
fn in_use() -> bool {
    let low: u32;
    // SAFETY: `can_tell` saw that the processor has XGETBV with ECX = 1.
    unsafe { asm!("xgetbv", in("ecx") 1, out("eax") low, out("edx") _, options(nomem, nostack)) };
    low & (1 << 2 | 1 << 6) != 0
}

/// Returns whether the processor tells registers in use from empty ones.
fn can_tell() -> bool {
    #[allow(unused_unsafe)] // The newest compilers need no `unsafe` here.
    // SAFETY: a processor with AVX2, which the caller found, has leaf 13.
    let has = unsafe { __cpuid_count(13, 1) }.eax & 1 << 2 != 0;
    has && {
        // SAFETY: the same processor has VZEROUPPER, and all registers are declared.
        unsafe { asm!("vpcmpeqd ymm0, ymm0, ymm0", out("ymm0") _, options(nomem, nostack)) };
        let full = in_use();
        // SAFETY: as above.
        unsafe { asm!("vzeroupper", out("ymm0") _, options(nomem, nostack)) };
        full && !in_use()
    }
}

/// Kernels with a check after each call.
struct CheckedKernels<K>(K);

macro_rules! watched {
    ($(fn $name:ident($($argument:ident: $type:ty),*) $(-> $result:ty)?;)*) => {
        $(fn $name(&self, $($argument: $type),*) $(-> $result)? {
            // Libraries may have left them so.
            let before = in_use();
            let result = self.0.$name($($argument),*);
            if in_use() && !before {
                LEFT.lock().unwrap().insert((self.0.name(), stringify!($name)));
            }
            result
        })*
    };
}

impl<K: Kernels> Kernels for CheckedKernels<K> {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn lanes(&self) -> usize {
        self.0.lanes()
    }

    watched! {
        fn sponge_many(jobs: &mut [Sponge<'_>]);
        fn kem_rej_uniform_vartime(bytes: &[u8], out: &mut KemPoly) -> usize;
        fn kem_sample_ntt_vartime(jobs: &mut [KemUniform<'_>]);
        fn kem_sample_cbd(eta: usize, jobs: &mut [KemNoise<'_>]);
        fn dsa_rej_uniform_vartime(bytes: &[u8], out: &mut DsaPoly) -> usize;
        fn dsa_rej_bounded_vartime(eta: usize, bytes: &[u8], out: &mut DsaPoly) -> usize;
        fn dsa_norm_below(polys: &[DsaPoly], bound: i32) -> bool;
        fn slh_chain_many(jobs: &mut [SlhChain<'_>]);
        fn slh_hash_many(jobs: &mut [SlhHash<'_>]);
        fn slh_fors_many(jobs: &mut [SlhForsTree<'_>]);
        fn sha512_many(jobs: &mut [Sha512<'_>]);
    }
    gabion_tests::plain_kernels!(watched);
    gabion_tests::lms_kernels!(watched);
    gabion_tests::xmss_kernels!(watched);
}

/// Every operation of every algorithm alone and nine at once; the self-tests before them run theirs too.
fn run_everything(backend: Box<dyn Backend>) {
    let engine = Engine::with_backends(vec![backend], &Config::default()).unwrap();
    let is_quick = |name: &str| !name.starts_with("SLH-DSA") || name.ends_with("128f");
    for row in ALGORITHMS.iter().filter(|row| !row.name.contains("RSA") && is_quick(row.name)) {
        for n in [1, 9] {
            let mut status = vec![Status::NotRun; n];
            match row.kind {
                Kind::Signature => {
                    let Ok(key) = engine.signature_generate(row.algorithm, &OsEntropy) else {
                        continue;
                    };
                    let message = vec![Message::Pure { context: b"", message: b"watched" }; n];
                    let (mut sigs, mut lengths) = (vec![0; n * row.output.max()], vec![0; n]);
                    let fresh = Randomness::Fresh(&OsEntropy);
                    let keys = vec![&key; n];
                    engine
                        .sign_many(&keys, &message, fresh, &mut sigs, &mut lengths, &mut status)
                        .unwrap();
                    let public = key.public();
                    let keys = vec![&public; n];
                    engine.verify_many(&keys, &message, &sigs, &lengths, &mut status).unwrap();
                }
                Kind::Kem => {
                    let key = engine.kem_generate(row.algorithm, &OsEntropy).unwrap();
                    let public = KemPrivateKey::public(&key);
                    let (mut ct, mut shared) =
                        (vec![0; n * row.output.max()], vec![0; n * row.shared_secret]);
                    let fresh = Randomness::Fresh(&OsEntropy);
                    engine
                        .encaps_many(&vec![&public; n], fresh, &mut ct, &mut shared, &mut status)
                        .unwrap();
                    engine.decaps_many(&vec![&key; n], &ct, &mut shared, &mut status).unwrap();
                }
                Kind::KeyExchange => {
                    let key = engine.exchange_generate(row.algorithm, &OsEntropy).unwrap();
                    let public = key.public();
                    assert!(engine.derive_many(&vec![(&key, &public); n]).unwrap()[0].is_ok());
                    continue;
                }
            }
            assert_eq!(status, vec![Status::Ok; n], "{}", row.name);
        }
    }
}

#[test]
fn kernels_leave_no_upper_part_in_use() {
    let Some(avx2) = Avx2::detect().filter(|_| can_tell()) else {
        eprintln!("Skipped: this processor does not tell registers in use from empty ones.");
        return;
    };
    run_everything(Box::new(Cpu::new(CheckedKernels(avx2))));
    if let Some(avx512) = Avx512::detect() {
        run_everything(Box::new(Cpu::new(CheckedKernels(avx512))));
    }
    let left = LEFT.lock().unwrap();
    assert!(left.is_empty(), "upper parts in use after {left:?}");
}
