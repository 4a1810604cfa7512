//! Mutants: kernels and backends with one bug each, which the self-test has to catch.

use std::sync::Mutex;

use gabion_backend::portable::Portable;
use gabion_backend::{Backend, Batch, BatchOutcome, Cpu, Dsa, Kem, Keys, Operation, Slh};
use gabion_scheme::kernels::ed25519::{EdEquation, EdVerify};
use gabion_scheme::kernels::kem::{self, KemNoise};
use gabion_scheme::kernels::lms::{LmsChain, LmsFamily, LmsHash, LmsLeaves};
use gabion_scheme::kernels::slh::{SlhChain, SlhHash};
use gabion_scheme::kernels::xmss::{XmssChain, XmssHash, XmssSecret};
use gabion_scheme::kernels::{DsaPoly, KemPoly, Kernels, Sponge};

use super::*;

/// A bug of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum KernelBug {
    None,
    /// The modulus check says yes to everything, or to q itself.
    TakesAnyCoefficient,
    TakesQ,
    /// If five polynomials of noise remain after groups of eight, all are the first of them.
    FiveOfNoise,
    /// The fourth block of SampleNTT is wrong.
    StarvedSampling,
    /// A message that leaves one byte of its last block for the padding is padded wrongly.
    PaddingOfOneByte,
    /// The strict equation of Ed25519 is verified as the other.
    Cofactored,
    /// Norms are compared with the bound's neighbours.
    BoundAbove,
    BoundBelow,
    /// UseHint does not go round at one end.
    HintAtTheTop,
    HintAtTheBottom,
    /// Chains of HSS are wrong where one is short, or its hash function is SHAKE256 with 24 bytes.
    ShortChain,
    ChainOfShake,
    /// Hashes of HSS from the ninth on are wrong.
    NinthHash,
    /// The last of several leaves of LMS that are made together is wrong.
    LastLeaf,
    /// A chain of LMS that begins with its secret and has no step is wrong.
    Secret,
    /// Chains of XMSS are wrong where one is short, its start is not the first step, or its hash
    /// values have 24 bytes.
    ShortChainOfXmss,
    LateChainOfXmss,
    ChainOf24Bytes,
    /// Hashes of XMSS from the ninth on are wrong, or those of 64 bytes.
    NinthHashOfXmss,
    HashOf64Bytes,
    /// Secrets of XMSS from the seventeenth on are wrong, or those of 24 bytes.
    SeventeenthSecret,
    SecretOf24Bytes,
}

struct MutantKernels(KernelBug);

/// Kernels that are passed on.
macro_rules! passed_on {
    ($(fn $name:ident($($argument:ident: $type:ty),*) $(-> $result:ty)?;)*) => {
        $(fn $name(&self, $($argument: $type),*) $(-> $result)? {
            Portable.$name($($argument),*)
        })*
    };
}

impl Kernels for MutantKernels {
    fn name(&self) -> &'static str {
        "planted"
    }

    fn lanes(&self) -> usize {
        8
    }

    fn sponge_many(&self, jobs: &mut [Sponge<'_>]) {
        Portable.sponge_many(jobs);
        for job in jobs {
            let len: usize = job.input.iter().map(|piece| piece.len()).sum();
            let has_one_byte_left = len % job.xof.rate() == job.xof.rate() - 1;
            job.output[0] ^= u8::from(self.0 == KernelBug::PaddingOfOneByte && has_one_byte_left);
        }
    }

    fn kem_rej_uniform_vartime(&self, bytes: &[u8], out: &mut KemPoly) -> usize {
        let count = Portable.kem_rej_uniform_vartime(bytes, out);
        if self.0 == KernelBug::StarvedSampling && bytes.len() > 3 * 168 {
            out.0[255] ^= 1;
        }
        count
    }

    fn kem_sample_cbd(&self, eta: usize, jobs: &mut [KemNoise<'_>]) {
        kem::sample_cbd(self, eta, jobs);
        if self.0 == KernelBug::FiveOfNoise && jobs.len() % 8 == 5 {
            let place = jobs.len() - 5;
            let first = jobs[place].out.clone();
            jobs[place..].iter_mut().for_each(|job| job.out.clone_from(&first));
        }
    }

    /// The code for few lanes of ML-KEM-512.
    fn kem_cbd(&self, eta: usize, bytes: &[u8], out: &mut [KemPoly]) {
        Portable.kem_cbd(eta, bytes, out);
        if self.0 == KernelBug::FiveOfNoise && out.len() % 8 == 5 {
            let place = out.len() - 5;
            let first = out[place].clone();
            out[place..].fill(first);
        }
    }

    fn kem_decode12(&self, bytes: &[u8], out: &mut [KemPoly]) -> bool {
        let is_below = Portable.kem_decode12(bytes, out);
        let coefficients = bytes.as_chunks::<3>().0.iter().flat_map(|[a, b, c]| {
            let (a, b, c) = (u16::from(*a), u16::from(*b), u16::from(*c));
            [a | (b & 15) << 8, b >> 4 | c << 4]
        });
        match self.0 {
            KernelBug::TakesAnyCoefficient => true,
            KernelBug::TakesQ => coefficients.max() <= Some(3329),
            _ => is_below,
        }
    }

    fn dsa_norm_below(&self, polys: &[DsaPoly], bound: i32) -> bool {
        let off =
            i32::from(self.0 == KernelBug::BoundAbove) - i32::from(self.0 == KernelBug::BoundBelow);
        Portable.dsa_norm_below(polys, bound + off)
    }

    fn dsa_use_hint(&self, gamma2: i32, hint: &DsaPoly, r: &DsaPoly, out: &mut DsaPoly) {
        Portable.dsa_use_hint(gamma2, hint, r, out);
        let top = (8_380_417 - 1) / (2 * gamma2) - 1;
        for ((&hint, &r), out) in hint.0.iter().zip(&r.0).zip(&mut out.0) {
            // HighBits is 0 on both sides of 0; a step from there to the top wraps around, and so
            // does one from the top.
            let r = r.rem_euclid(8_380_417);
            let is_zero = r <= gamma2 || r > 8_380_416 - gamma2;
            match self.0 {
                KernelBug::HintAtTheTop if hint == 1 && *out == 0 && !is_zero && r > 3 * gamma2 => {
                    *out = top + 1;
                }
                KernelBug::HintAtTheBottom if hint == 1 && *out == top && is_zero => *out = 0,
                _ => {}
            }
        }
    }

    fn ed25519_verify_vartime(
        &self,
        equation: EdEquation,
        jobs: &[EdVerify<'_>],
        verdicts: &mut [bool],
    ) {
        let is_planted = self.0 == KernelBug::Cofactored;
        let equation = if is_planted { EdEquation::Cofactored } else { equation };
        Portable.ed25519_verify_vartime(equation, jobs, verdicts);
    }

    fn lms_chain_many(&self, jobs: &mut [LmsChain<'_>]) {
        Portable.lms_chain_many(jobs);
        for job in jobs {
            let is_planted = match self.0 {
                KernelBug::ShortChain => job.steps == 1,
                KernelBug::Secret => job.steps == 0 && job.seed.is_some(),
                KernelBug::ChainOfShake => {
                    job.family == LmsFamily::Shake256 && job.value.len() == 24
                }
                _ => false,
            };
            job.value[0] ^= u8::from(is_planted);
        }
    }

    fn lms_leaves(&self, job: &mut LmsLeaves<'_>) {
        gabion_scheme::kernels::lms::leaves(self, job);
        let last = job.output.last_mut().filter(|_| self.0 == KernelBug::LastLeaf);
        last.into_iter().for_each(|byte| *byte ^= 1);
    }

    fn lms_hash_many(&self, jobs: &mut [LmsHash<'_>]) {
        Portable.lms_hash_many(jobs);
        let others = jobs.iter_mut().skip(8).filter(|_| self.0 == KernelBug::NinthHash);
        others.for_each(|job| job.output[0] ^= 1);
    }

    fn xmss_chain_many(&self, jobs: &mut [XmssChain<'_>]) {
        Portable.xmss_chain_many(jobs);
        for job in jobs {
            let is_planted = match self.0 {
                KernelBug::ShortChainOfXmss => job.steps == 1,
                KernelBug::LateChainOfXmss => job.steps > 0 && job.start == 7,
                KernelBug::ChainOf24Bytes => job.context.n == 24,
                _ => false,
            };
            job.value[0] ^= u8::from(is_planted);
        }
    }

    fn xmss_hash_many(&self, jobs: &mut [XmssHash<'_>]) {
        Portable.xmss_hash_many(jobs);
        for (at, job) in jobs.iter_mut().enumerate() {
            let is_planted = match self.0 {
                KernelBug::NinthHashOfXmss => at >= 8,
                KernelBug::HashOf64Bytes => job.context.n == 64,
                _ => false,
            };
            job.output[0] ^= u8::from(is_planted);
        }
    }

    fn xmss_secret_many(&self, jobs: &mut [XmssSecret<'_>]) {
        Portable.xmss_secret_many(jobs);
        for (at, job) in jobs.iter_mut().enumerate() {
            let is_planted = match self.0 {
                KernelBug::SeventeenthSecret => at >= 16,
                KernelBug::SecretOf24Bytes => job.context.n == 24,
                _ => false,
            };
            job.output[0] ^= u8::from(is_planted);
        }
    }

    passed_on! {
        fn kem_ntt(polys: &mut [KemPoly]);
        fn kem_inv_ntt(polys: &mut [KemPoly]);
        fn kem_matvec(out: &mut [KemPoly], a: &[KemPoly], v: &[KemPoly]);
        fn kem_to_mont(polys: &mut [KemPoly]);
        fn kem_add(acc: &mut [KemPoly], b: &[KemPoly]);
        fn kem_sub_from(a: &KemPoly, acc: &mut KemPoly);
        fn kem_encode12(polys: &[KemPoly], out: &mut [u8]);
        fn kem_compress(d: usize, polys: &[KemPoly], out: &mut [u8]);
        fn kem_decompress(d: usize, bytes: &[u8], out: &mut [KemPoly]);
        fn dsa_rej_uniform_vartime(bytes: &[u8], out: &mut DsaPoly) -> usize;
        fn dsa_rej_bounded_vartime(eta: usize, bytes: &[u8], out: &mut DsaPoly) -> usize;
        fn dsa_ntt(polys: &mut [DsaPoly]);
        fn dsa_inv_ntt(polys: &mut [DsaPoly]);
        fn dsa_matvec(out: &mut [DsaPoly], a: &[DsaPoly], v: &[DsaPoly]);
        fn dsa_pointwise(out: &mut [DsaPoly], c: &DsaPoly, v: &[DsaPoly]);
        fn dsa_add(acc: &mut [DsaPoly], b: &[DsaPoly]);
        fn dsa_sub(acc: &mut [DsaPoly], b: &[DsaPoly]);
        fn dsa_shift_left_d(polys: &mut [DsaPoly]);
        fn dsa_power2round(t: &DsaPoly, t1: &mut DsaPoly, t0: &mut DsaPoly);
        fn dsa_decompose(gamma2: i32, r: &DsaPoly, r1: &mut DsaPoly, r0: &mut DsaPoly);
        fn dsa_make_hint(gamma2: i32, r0: &DsaPoly, r1: &DsaPoly, hint: &mut DsaPoly) -> usize;
        fn dsa_simple_bit_pack(bits: usize, p: &DsaPoly, out: &mut [u8]);
        fn dsa_simple_bit_unpack(bits: usize, bytes: &[u8], out: &mut DsaPoly);
        fn dsa_bit_pack(bits: usize, b: i32, p: &DsaPoly, out: &mut [u8]);
        fn dsa_bit_unpack(bits: usize, b: i32, bytes: &[u8], out: &mut DsaPoly);
        fn slh_chain_many(jobs: &mut [SlhChain<'_>]);
        fn slh_hash_many(jobs: &mut [SlhHash<'_>]);
    }
}

#[test]
fn bugs_of_kernels_are_caught() {
    use Algorithm as A;
    let kems = &[A::MlKem512, A::MlKem768, A::MlKem1024][..];
    let dsas = &[A::MlDsa44, A::MlDsa65, A::MlDsa87][..];
    let bugs = [
        (KernelBug::TakesAnyCoefficient, kems),
        (KernelBug::TakesQ, kems),
        (KernelBug::FiveOfNoise, kems),
        (KernelBug::StarvedSampling, kems),
        (KernelBug::PaddingOfOneByte, dsas),
        (KernelBug::Cofactored, &[A::Ed25519]),
        (KernelBug::BoundAbove, dsas),
        (KernelBug::BoundBelow, dsas),
        (KernelBug::HintAtTheTop, dsas),
        (KernelBug::HintAtTheBottom, dsas),
        (KernelBug::ShortChain, &[A::Hss]),
        (KernelBug::ChainOfShake, &[A::Hss]),
        (KernelBug::NinthHash, &[A::Hss]),
        (KernelBug::LastLeaf, &[A::Hss]),
        (KernelBug::Secret, &[A::Hss]),
        (KernelBug::ShortChainOfXmss, &[A::Xmss, A::XmssMt]),
        (KernelBug::LateChainOfXmss, &[A::Xmss, A::XmssMt]),
        (KernelBug::ChainOf24Bytes, &[A::Xmss, A::XmssMt]),
        (KernelBug::NinthHashOfXmss, &[A::Xmss, A::XmssMt]),
        (KernelBug::HashOf64Bytes, &[A::Xmss]),
        (KernelBug::SeventeenthSecret, &[A::Xmss, A::XmssMt]),
        (KernelBug::SecretOf24Bytes, &[A::Xmss, A::XmssMt]),
    ];
    for algorithm in kems.iter().chain(dsas).chain(&[A::Ed25519, A::Hss, A::Xmss, A::XmssMt]) {
        assert_eq!(run(&Cpu::new(MutantKernels(KernelBug::None)), *algorithm), Ok(()));
    }
    for (bug, algorithms) in bugs {
        for &algorithm in algorithms {
            assert!(run(&Cpu::new(MutantKernels(bug)), algorithm).is_err(), "{bug:?} {algorithm}");
        }
    }
}

/// A bug of a backend, above its kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BackendBug {
    None,
    /// Implicit rejection compares the first, or the second half of the ciphertext.
    ComparesFirstHalf,
    ComparesSecondHalf,
    /// Signing with encoded keys takes the first lane's randomness for all.
    OneRandomness,
    /// Signing uses no randomness, or only its first byte.
    NoRandomness,
    LittleRandomness,
    /// SLH-DSA takes no opt_rand, or the first lane's.
    NoOptRand,
    OneOptRand,
    /// Lanes from the seventeenth on are wrong.
    Seventeenth,
    /// Hints in any order, or with anything behind them, are taken.
    AnyOrderOfHints,
    AnythingBehindHints,
}

struct MutantBackend {
    inner: Cpu<MutantKernels>,
    bug: BackendBug,
    /// Ciphertexts that were made.
    made: Mutex<Vec<Vec<u8>>>,
}

fn mutant_backend(bug: BackendBug) -> MutantBackend {
    MutantBackend { inner: Cpu::new(MutantKernels(KernelBug::None)), bug, made: Mutex::default() }
}

/// Returns the same keys.
fn same<'a, T>(keys: &Keys<'a, T>) -> Keys<'a, T> {
    match keys {
        Keys::Known(keys) => Keys::Known(keys),
        Keys::Fresh(bytes) => Keys::Fresh(bytes),
    }
}

impl MutantBackend {
    /// A ciphertext that agrees with one that was made where it is compared is taken for that.
    fn compared(&self, ct: &[u8], len: usize) -> Vec<u8> {
        let half = match self.bug {
            BackendBug::ComparesFirstHalf => 0..len / 2,
            BackendBug::ComparesSecondHalf => len / 2..len,
            _ => return ct.to_vec(),
        };
        let made = self.made.lock().unwrap();
        let lanes = ct.chunks_exact(len).flat_map(|ct| {
            let known = made
                .iter()
                .find(|made| made.len() == len && made[half.clone()] == ct[half.clone()]);
            known.map_or_else(|| ct.to_vec(), Clone::clone)
        });
        lanes.collect()
    }

    /// The randomness that is taken instead.
    fn slipped(&self, rnd: &[[u8; 32]], are_fresh: bool) -> Vec<[u8; 32]> {
        let mut rnd = rnd.to_vec();
        for lane in 0..rnd.len() {
            match self.bug {
                BackendBug::OneRandomness if are_fresh => rnd[lane] = rnd[0],
                BackendBug::NoRandomness => rnd[lane] = [0; 32],
                BackendBug::LittleRandomness => rnd[lane][1..].fill(0),
                _ => {}
            }
        }
        rnd
    }

    /// Signatures whose hints are put into the form that is not asked for.
    fn with_tidy_hints(&self, params: &ml_dsa::Params, sig: &[u8]) -> Vec<u8> {
        let (k, omega) = match params.algorithm {
            Algorithm::MlDsa44 => (4, 80),
            Algorithm::MlDsa65 => (6, 55),
            _ => (8, 75),
        };
        let mut sig = sig.to_vec();
        for sig in sig.chunks_exact_mut(params.sig_len()) {
            let at = sig.len() - omega - k;
            let (places, ends) = sig[at..].split_at_mut(omega);
            let mut from = 0;
            for &end in &*ends {
                let end = usize::from(end).clamp(from, omega);
                if self.bug == BackendBug::AnyOrderOfHints {
                    places[from..end].sort_unstable();
                }
                from = end;
            }
            if self.bug == BackendBug::AnythingBehindHints {
                places[from..].fill(0);
            }
        }
        sig
    }
}

impl Backend for MutantBackend {
    fn name(&self) -> &'static str {
        "slipping"
    }

    fn lanes(&self) -> usize {
        self.inner.lanes()
    }

    fn run(&self, batch: &mut Batch<'_>) -> BatchOutcome {
        let status = &mut *batch.status;
        let ran = match &mut batch.operation {
            Operation::Kem(Kem::Decaps { params, keys, ct, shared }) => {
                let (keys, ct) = (same(keys), &self.compared(ct, params.ct_len())[..]);
                let operation = Operation::Kem(Kem::Decaps { params, keys, ct, shared });
                self.inner.run(&mut Batch { operation, status })
            }
            Operation::Dsa(Dsa::Sign { params, keys, messages, rnd, sig }) => {
                let rnd = &self.slipped(rnd, matches!(keys, Keys::Fresh(_)))[..];
                let operation =
                    Operation::Dsa(Dsa::Sign { params, keys: same(keys), messages, rnd, sig });
                self.inner.run(&mut Batch { operation, status })
            }
            Operation::Dsa(Dsa::Verify { params, keys, messages, sig }) => {
                let (keys, sig) = (same(keys), &self.with_tidy_hints(params, sig)[..]);
                let operation = Operation::Dsa(Dsa::Verify { params, keys, messages, sig });
                self.inner.run(&mut Batch { operation, status })
            }
            Operation::Slh(Slh::Sign { params, keys, messages, opt_rand, sig }) => {
                let n = params.n;
                let one = opt_rand.map(|random| random[..n].repeat(random.len() / n));
                let opt_rand = match self.bug {
                    BackendBug::NoOptRand => None,
                    BackendBug::OneOptRand => one.as_deref(),
                    _ => *opt_rand,
                };
                let sign = Slh::Sign { params, keys: same(keys), messages, opt_rand, sig };
                self.inner.run(&mut Batch { operation: Operation::Slh(sign), status })
            }
            _ => self.inner.run(batch),
        };
        if let Operation::Kem(Kem::Encaps { params, ct, shared, .. }) = &mut batch.operation {
            if let (BackendBug::Seventeenth, Some(shared)) = (self.bug, shared.get_mut(16)) {
                shared[0] ^= 1;
            }
            let lanes = ct.chunks_exact(params.ct_len()).map(<[u8]>::to_vec);
            self.made.lock().unwrap().extend(lanes);
        }
        ran
    }
}

#[test]
fn bugs_above_kernels_are_caught() {
    use Algorithm as A;
    let kems = &[A::MlKem512, A::MlKem768, A::MlKem1024][..];
    let dsas = &[A::MlDsa44, A::MlDsa65, A::MlDsa87][..];
    let slhs = &[A::SlhDsaSha2_128f, A::SlhDsaSha2_192f, A::SlhDsaShake128f][..];
    let slips = [
        (BackendBug::ComparesFirstHalf, kems),
        (BackendBug::ComparesSecondHalf, kems),
        (BackendBug::Seventeenth, kems),
        (BackendBug::OneRandomness, dsas),
        (BackendBug::NoRandomness, dsas),
        (BackendBug::LittleRandomness, dsas),
        (BackendBug::AnyOrderOfHints, dsas),
        // In ML-DSA-44 no room is left behind the hints of the test.
        (BackendBug::AnythingBehindHints, &dsas[1..]),
        (BackendBug::NoOptRand, slhs),
        (BackendBug::OneOptRand, slhs),
    ];
    for algorithm in kems.iter().chain(dsas).chain(slhs) {
        assert_eq!(run(&mutant_backend(BackendBug::None), *algorithm), Ok(()));
    }
    for (bug, algorithms) in slips {
        for &algorithm in algorithms {
            assert!(run(&mutant_backend(bug), algorithm).is_err(), "{bug:?} {algorithm}");
        }
    }
}
