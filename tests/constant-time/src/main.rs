//! Every secret operation once, for valgrind's memcheck: build with `--cfg ctgrind`, then secrets
//! are "uninitialised" and each branch or address that depends on one is reported.
//!
//!     tests/constant-time/ctgrind.sh            builds, runs, and insists that the leaky demo is flagged
//!     ctgrind BACKEND [ALGORITHM...]            these algorithms on that backend; without a list, those that take seconds
//!     ctgrind BACKEND HSS-keys                  key generation and signing of HSS alone
//!     ctgrind BACKEND XMSS-keys                 the same of XMSS^MT
//!     ctgrind BACKEND SLH-kernels               the kernels of every set of SLH-DSA
//!     ctgrind leaky [KERNEL]                    a leak, or one behind a kernel of AVX-512
//!
//! valgrind has AVX2 but neither AVX-512 nor the SHA extensions. Kernels for these are checked as
//! the same source over emulated instructions: with `--cfg emulated_lanes` there is a backend
//! "avx512-emulated", and the AVX2 kernels hash with the SHA extensions, emulated as well. The
//! program says which backend ran and fails if it was another one.

use std::process::ExitCode;

use gabion_backend::portable::Portable;
use gabion_engine::key_schedule::{Hash, Label, expand_label, extract};
use gabion_engine::{
    Algorithm, Config, Engine, Entropy, EntropyError, Family, Kind, Message, Randomness, Status, ct,
};
use gabion_scheme::kernels::Kernels;
use gabion_scheme::kernels::slh::{
    SlhAddress, SlhChain, SlhContext, SlhFamily, SlhHash, address_type,
};
use gabion_scheme::kernels::slh_fors::SlhForsTree;
#[cfg(target_arch = "x86_64")]
use gabion_scheme::kernels::{KemPoly, Sponge, Xof};
use gabion_scheme::lms::{self, LM_OTS, LMS, Levels, Scratch};
use gabion_scheme::xmss::{self, XMSSMT};

/// Bytes that memcheck takes for secret from here on.
struct SecretEntropy;

impl Entropy for SecretEntropy {
    fn fill(&self, out: &mut [u8]) -> Result<(), EntropyError> {
        getrandom::fill(out).map_err(|error| EntropyError(error.to_string()))?;
        ct::secret(out);
        Ok(())
    }
}

/// The place of a byte of ML-KEM's in a ciphertext: in a hybrid either part may stand first.
fn kem_byte(algorithm: Algorithm) -> usize {
    let info = algorithm.info();
    let starts =
        info.part_algorithms().next().is_none_or(|part| part.info().family == Family::MlKem);
    if starts { 0 } else { info.output.max() - 1 }
}

fn kem(engine: &Engine, algorithm: Algorithm) -> Result<(), gabion_engine::Error> {
    let key = engine.kem_generate(algorithm, &SecretEntropy)?;
    let (ciphertext, shared) = engine.encaps(&key.public(), &SecretEntropy)?;
    let opened = engine.decaps(&key, &ciphertext)?;
    let mut corrupted = ciphertext.clone();
    corrupted[kem_byte(algorithm)] ^= 1;
    let rejected = engine.decaps(&key, &corrupted)?;
    for secret in [&shared, &opened, &rejected] {
        ct::declassify(&secret[..]);
    }
    assert!(shared == opened && shared != rejected, "{algorithm}: decapsulation is wrong");
    // The same from the expanded form, which is decoded and checked.
    let again = engine.kem_private(algorithm, key.bytes())?;
    let opened = engine.decaps(&again, &ciphertext)?;
    ct::declassify(&opened[..]);
    assert_eq!(shared, opened);
    kem_batch(engine, algorithm, ciphertext.len())
}

/// Lanes of a batch: more than any instruction set has, and not a multiple of them.
const LANES: usize = 9;

fn kem_batch(
    engine: &Engine,
    algorithm: Algorithm,
    len: usize,
) -> Result<(), gabion_engine::Error> {
    let keys = engine.kem_generate_many(algorithm, LANES, &SecretEntropy)?;
    let public: Vec<_> = keys.iter().map(|key| key.public()).collect();
    let mut ciphertexts = vec![0; LANES * len];
    let secret_len = algorithm.info().shared_secret;
    let (mut shared, mut opened) = (vec![0; LANES * secret_len], vec![0; LANES * secret_len]);
    let mut status = [Status::NotRun; LANES];
    let randomness = Randomness::Fresh(&SecretEntropy);
    let public: Vec<_> = public.iter().collect();
    engine.encaps_many(&public, randomness, &mut ciphertexts, &mut shared, &mut status)?;
    // Every other ciphertext is another one than was made, in its part of ML-KEM.
    let byte = kem_byte(algorithm);
    ciphertexts.chunks_exact_mut(len).step_by(2).for_each(|ciphertext| ciphertext[byte] ^= 1);
    let keys: Vec<_> = keys.iter().collect();
    engine.decaps_many(&keys, &ciphertexts, &mut opened, &mut status)?;
    ct::declassify(&shared);
    ct::declassify(&opened);
    let secrets = shared.chunks_exact(secret_len).zip(opened.chunks_exact(secret_len));
    for (lane, (shared, opened)) in secrets.enumerate() {
        assert_eq!(shared == opened, lane % 2 == 1, "{algorithm}, lane {lane}");
        assert_eq!(status[lane], Status::Ok, "a bad ciphertext is no error");
    }
    Ok(())
}

fn dsa(engine: &Engine, algorithm: Algorithm, backend: &str) -> Result<(), gabion_engine::Error> {
    let key = engine.signature_generate(algorithm, &SecretEntropy)?;
    // Ed25519 and ECDSA have no contexts.
    let has_none = matches!(algorithm.info().family, Family::Ed25519 | Family::Ecdsa);
    let context: &[u8] = if has_none { b"" } else { b"ctgrind" };
    let message = Message::Pure { context, message: b"alone" };
    let signature = engine.sign(&key, message, &SecretEntropy)?;
    engine.verify(&key.public(), message, &signature)?;
    if matches!(algorithm.info().family, Family::MlDsa | Family::Ed25519) {
        dsa_batch(engine, algorithm, context, signature.len())?;
    }
    // A second signature of SLH-DSA takes as long as all of ML-DSA, and its differences, the
    // decoded key and the missing randomness, are equal on every backend.
    if algorithm.info().family == Family::SlhDsa && backend != "portable" {
        return Ok(());
    }
    let again = engine.signature_private(algorithm, key.bytes())?;
    let message = Message::Pure { context: b"", message: b"again" };
    let signature = if algorithm.info().family == Family::Composite {
        engine.sign(&again, message, &SecretEntropy)? // It has no deterministic variant.
    } else {
        engine.sign_deterministic(&again, message)?
    };
    engine.verify(&key.public(), message, &signature)
}

/// Of lattices that makes enough signatures for every cause of rejection to come up.
fn dsa_batch(
    engine: &Engine,
    algorithm: Algorithm,
    context: &[u8],
    len: usize,
) -> Result<(), gabion_engine::Error> {
    let keys = engine.signature_generate_many(algorithm, LANES, &SecretEntropy)?;
    let public: Vec<_> = keys.iter().map(|key| key.public()).collect();
    let texts: [[u8; 9]; LANES] = core::array::from_fn(|lane| [lane as u8; 9]);
    // Of several lengths.
    let messages: Vec<_> = (texts.iter().enumerate())
        .map(|(lane, text)| Message::Pure { context, message: &text[..1 + lane / 2] })
        .collect();
    let (mut signatures, mut lengths) = (vec![0; LANES * len], [0; LANES]);
    let mut status = [Status::NotRun; LANES];
    let keys: Vec<_> = keys.iter().collect();
    let randomness = Randomness::Fresh(&SecretEntropy);
    engine.sign_many(&keys, &messages, randomness, &mut signatures, &mut lengths, &mut status)?;
    let public: Vec<_> = public.iter().collect();
    engine.verify_many(&public, &messages, &signatures, &lengths, &mut status)?;
    assert_eq!(status, [Status::Ok; LANES], "{algorithm}");
    Ok(())
}

fn exchange(engine: &Engine, algorithm: Algorithm) -> Result<(), gabion_engine::Error> {
    let ours = engine.exchange_generate(algorithm, &SecretEntropy)?;
    let theirs = engine.exchange_generate(algorithm, &SecretEntropy)?;
    let shared = engine.derive(&ours, &theirs.public())?;
    let same = engine.derive(&theirs, &ours.public())?;
    for secret in [&shared, &same] {
        ct::declassify(&secret[..]);
    }
    assert!(shared == same, "{algorithm}: both sides must get the same");
    let again = engine.exchange_private(algorithm, ours.bytes())?;
    // Many at once, which X25519 does in lanes.
    let many = engine.exchange_generate_many(algorithm, LANES, &SecretEntropy)?;
    let peer = again.public();
    let lanes: Vec<_> = many.iter().map(|key| (key, &peer)).collect();
    for (secret, key) in engine.derive_many(&lanes)?.into_iter().zip(&many) {
        let (secret, same) = (secret?, engine.derive(&again, &key.public())?);
        for secret in [&secret, &same] {
            ct::declassify(&secret[..]);
        }
        assert!(secret == same, "{algorithm}: both sides must get the same");
    }
    Ok(())
}

/// The key schedule of TLS 1.3, whose blocks of SHA-512 come from emulated kernels where there are any.
fn derivations() -> Result<(), gabion_engine::Error> {
    let label = Label { prefix: b"tls13 ", label: b"c hs traffic" };
    for hash in Hash::ALL {
        let secret = [7u8; 64];
        ct::secret(&secret);
        let (secret, mut out) = (&secret[..hash.len()], [0; 64]);
        expand_label(hash, secret, label, b"transcript", &mut out)?;
        extract(hash, Some(secret), label, Some(secret), &mut out[..hash.len()])?;
        ct::declassify(&out);
        assert!(out != [0; 64], "{hash:?}: something must come of it");
    }
    Ok(())
}

/// How a key of HSS is called, which signs with an index and so has no door of the engine's.
const HSS_KEYS: &str = "HSS-keys";

/// Keys of HSS of each hash function, n and kind of leaf, made and opened, and signatures on both sides of a border
/// between trees. Digits of a digest are public, and say how long chains are.
fn hss(kernels: &dyn Kernels) -> Result<(), gabion_engine::Error> {
    for (hash, (lms, ots)) in [(0, 0), (5, 6), (10, 9), (15, 12)].into_iter().enumerate() {
        let mut scratch = Scratch::new();
        let upper = (&LMS[lms], &LM_OTS[ots]);
        let levels = Levels::new(&[upper, upper])?;
        let seed = [hash as u8; 32];
        ct::secret(&seed);
        let seed = &seed[..levels.n()];
        let mut key =
            lms::generate(kernels, levels.with_whole_levels(4), &[1; 16], seed, &mut scratch)?;
        for index in [31, 32] {
            let mut signature = vec![0; key.levels().signature_len()];
            key.sign(kernels, index, &[b"ctgrind"], &mut signature, &mut scratch)?;
            let mut status = [Status::NotRun];
            let public = key.verify_key();
            lms::verify(
                kernels,
                &[public],
                &[b"ctgrind"],
                &[&signature],
                &mut status,
                &mut scratch,
            );
            assert_eq!(status, [Status::Ok], "of hash {hash}, index {index}");
        }
    }
    Ok(())
}

/// How keys of XMSS^MT are called, for the same reason.
const XMSS_KEYS: &str = "XMSS-keys";

/// Makes keys of four layers of XMSS^MT, by either hash function of SP 800-208 and of either
/// length.
fn xmss_keys(kernels: &dyn Kernels) -> Result<(), gabion_engine::Error> {
    let names = ["XMSSMT-SHA2_20/4_256", "XMSSMT-SHAKE256_20/4_192"];
    let sets = names.map(|name| XMSSMT.iter().find(|set| set.name == name));
    for set in sets {
        let set = set.ok_or(gabion_engine::Error::Lost)?;
        let mut scratch = xmss::Scratch::new();
        let mut seeds = vec![7; 3 * set.n];
        ct::secret(&seeds[..2 * set.n]);
        let mut key = xmss::generate(kernels, set, &seeds, &mut scratch)?;
        ct::wipe(&mut seeds);
        for index in [31, 32] {
            let mut signature = vec![0; set.signature_len()];
            key.sign(kernels, index, &[b"ctgrind"], &mut signature, &mut scratch)?;
            let (mut status, public) = ([Status::NotRun], key.verify_key());
            let (messages, sigs) = ([&b"ctgrind"[..]], [&signature[..]]);
            xmss::verify(kernels, &[public], &messages, &sigs, &mut status, &mut scratch);
            assert_eq!(status, [Status::Ok], "{}, index {index}", set.name);
        }
    }
    Ok(())
}

/// The kernels of a backend.
fn kernels_of(name: &str) -> Option<Box<dyn Kernels>> {
    let mut all: Vec<Box<dyn Kernels>> = vec![Box::new(Portable)];
    #[cfg(target_arch = "x86_64")]
    if let Some(kernels) = gabion_backend::avx2::Avx2::detect() {
        all.push(Box::new(kernels));
        #[cfg(emulated_lanes)]
        all.push(Box::new(kernels.without_sha()));
    }
    #[cfg(target_arch = "x86_64")]
    if let Some(kernels) = gabion_backend::avx512::Avx512::detect() {
        all.push(Box::new(kernels));
        #[cfg(emulated_lanes)]
        all.push(Box::new(kernels.with_lanes()));
    }
    all.into_iter().find(|kernels| kernels.name() == name)
}

/// An example of a leak: a branch on one bit of a secret. memcheck must report it.
fn leak() -> u8 {
    let mut secret = [0u8; 32];
    ct::secret(&secret);
    secret[1] = 1;
    if core::hint::black_box(secret[0]) & 1 == 1 { secret[1] } else { 0 }
}

/// Leaks behind a kernel: a branch on one bit of its output for a secret. memcheck reports it only
/// if it has followed the secret through emulated registers, masks and instructions.
#[cfg(target_arch = "x86_64")]
fn leak_behind(kernel: &str) -> Option<u8> {
    let kernels = gabion_backend::avx512::Avx512::detect()?;
    assert_eq!(kernels.name(), "avx512-emulated", "valgrind can't run the real ones");
    let secret = [7u8; 16];
    ct::secret(&secret);
    let mut out = [[0u8; 16]; 16];
    match kernel {
        "sponge" => {
            let [a, b, c, d, e, f, g, h, ..] = out.each_mut();
            let job = |out| Sponge::new(Xof::Shake256, [&secret[..]], out);
            kernels.sponge_many(&mut [a, b, c, d, e, f, g, h].map(|out| job(&mut out[..])));
        }
        // Eight by the SHA extensions, or sixteen on lanes.
        "chain" | "lanes" => {
            let context = SlhContext::new(SlhFamily::Sha2, &[1; 16]);
            let mut jobs = out.each_mut().map(|value| SlhChain {
                context: &context,
                address: SlhAddress::default(),
                sk_seed: Some(&secret),
                start: 0,
                steps: 1,
                value,
            });
            if kernel == "chain" {
                kernels.without_lanes()?.slh_chain_many(&mut jobs[..8]);
            } else {
                kernels.with_lanes().slh_chain_many(&mut jobs);
            }
        }
        "transform" => {
            let mut poly = KemPoly::default();
            poly.0[..16].copy_from_slice(&secret.map(i16::from));
            kernels.kem_ntt(core::slice::from_mut(&mut poly));
            out[0][0] = poly.0[255] as u8;
        }
        _ => return None,
    }
    Some(if core::hint::black_box(out[0][0]) & 1 == 1 { 3 } else { 4 })
}

#[cfg(not(target_arch = "x86_64"))]
fn leak_behind(_kernel: &str) -> Option<u8> {
    None
}

/// Returns the output of many chains from a secret. With `together` they begin and end together, as
/// those of a key; otherwise they do not.
fn chains(kernels: &dyn Kernels, context: &SlhContext, secret: &[u8], together: bool) -> Vec<u8> {
    let mut values = secret.repeat(SLH_LANES);
    let mut jobs: Vec<_> = (0u32..)
        .zip(values.chunks_exact_mut(secret.len()))
        .map(|(lane, value)| SlhChain {
            context,
            address: SlhAddress::default().with_chain(lane),
            sk_seed: (together || lane % 2 == 0).then_some(secret),
            start: lane % 3,
            steps: if together { 2 } else { lane % 4 },
            value,
        })
        .collect();
    kernels.slh_chain_many(&mut jobs);
    ct::declassify(&values);
    values
}

/// So many hashes of so many secret values each: nodes, or public keys of WOTS+.
fn hashes(
    kernels: &dyn Kernels,
    context: &SlhContext,
    secret: &[u8],
    (count, values): (usize, usize),
) -> Vec<u8> {
    let input = secret.repeat(values);
    let mut outputs = vec![0; count * secret.len()];
    let mut jobs: Vec<_> = (0u32..)
        .zip(outputs.chunks_exact_mut(secret.len()))
        .map(|(lane, output)| SlhHash {
            context,
            address: SlhAddress::default().with_hash(lane),
            input: &input,
            output,
        })
        .collect();
    kernels.slh_hash_many(&mut jobs);
    ct::declassify(&outputs);
    outputs
}

/// Computes subtrees of FORS of one secret: the authentication paths of some leaves, and roots.
fn subtrees(kernels: &dyn Kernels, context: &SlhContext, secret: &[u8], count: u32) -> Vec<u8> {
    const HEIGHT: u32 = 2;
    let n = secret.len();
    let mut outputs = vec![0; count as usize * (HEIGHT as usize + 1) * n];
    let mut jobs: Vec<_> = (0..count)
        .zip(outputs.chunks_exact_mut((HEIGHT as usize + 1) * n))
        .map(|(lane, output)| {
            let (path, root) = output.split_at_mut(HEIGHT as usize * n);
            SlhForsTree {
                context,
                sk_seed: secret,
                address: SlhAddress::new(0, 1, address_type::FORS_TREE).with_key_pair(lane),
                first: lane << HEIGHT,
                height: HEIGHT,
                leaf: lane % (1 << HEIGHT),
                path: if lane % 3 > 0 { path } else { &mut [] },
                root,
            }
        })
        .collect();
    kernels.slh_fors_many(&mut jobs);
    drop(jobs);
    ct::declassify(&outputs);
    outputs
}

/// Chains at a time: two groups of the widest lanes, and some more.
const SLH_LANES: usize = 40;

/// How the kernels of SLH-DSA are called by themselves.
const SLH_KERNELS: &str = "SLH-kernels";

/// The kernels that a backend has for SLH-DSA, of every hash function and length. Flows are the same for every set, and
/// one of each hash function runs whole: others take minutes here.
fn slh_kernels(kernels: &dyn Kernels) {
    let secret = [7u8; 32];
    ct::secret(&secret);
    for family in [SlhFamily::Shake, SlhFamily::Sha2] {
        for n in [16, 24, 32] {
            let (context, secret) = (SlhContext::new(family, &[1; 32][..n]), &secret[..n]);
            for together in [true, false] {
                let expected = chains(&Portable, &context, secret, together);
                assert!(chains(kernels, &context, secret, together) == expected, "{family:?}");
            }
            for shape in [(1, 2), (3, 2), (19, 2), (9, 35), (19, 67)] {
                let expected = hashes(&Portable, &context, secret, shape);
                assert!(hashes(kernels, &context, secret, shape) == expected, "{family:?}");
            }
            for count in [3, 17] {
                let expected = subtrees(&Portable, &context, secret, count);
                assert!(subtrees(kernels, &context, secret, count) == expected, "{family:?}");
            }
        }
    }
}

/// Returns whether an algorithm was asked for. An empty list asks for all algorithms except:
/// - SLH-DSA: one key and one signature take minutes under memcheck. Its kernels run by themselves (`SLH-kernels`);
///   `script/test --all` adds whole signatures.
/// - FN-DSA and RSA: libraries of other authors that branch on public values which memcheck cannot tell from secrets.
/// - HSS and XMSS: verification has no secrets.
fn is_wanted(algorithm: Algorithm, wanted: &[String]) -> bool {
    let name = algorithm.to_string();
    if !wanted.is_empty() {
        return wanted.contains(&name);
    }
    match algorithm.info().family {
        Family::FnDsa | Family::SlhDsa | Family::Hss | Family::Xmss => false,
        Family::Composite => !algorithm.info().has_rsa(),
        Family::MlKem
        | Family::MlDsa
        | Family::Ed25519
        | Family::Ecdh
        | Family::Ecdsa
        | Family::Hybrid => true,
    }
}

fn run(engine: &Engine, backend: &str, wanted: &[String]) -> Result<(), gabion_engine::Error> {
    derivations()?;
    let mut ran = 0;
    // Functions that the engine does not expose: by the kernels alone.
    for name in [SLH_KERNELS, HSS_KEYS, XMSS_KEYS] {
        let is_default = wanted.is_empty() && name != XMSS_KEYS;
        if !is_default && !wanted.iter().any(|wanted| wanted == name) {
            continue;
        }
        let kernels = kernels_of(backend).ok_or(gabion_engine::Error::Lost)?;
        match name {
            HSS_KEYS => hss(&*kernels)?,
            XMSS_KEYS => xmss_keys(&*kernels)?,
            _ => slh_kernels(&*kernels),
        }
        println!("{name} on {backend}: done");
        ran += 1;
    }
    for algorithm in Algorithm::all().filter(|algorithm| is_wanted(*algorithm, wanted)) {
        let used = engine.backend_for(algorithm)?.name();
        assert_eq!(used, backend, "{algorithm} ran on another backend than it should have");
        match algorithm.info().kind {
            Kind::Kem => kem(engine, algorithm)?,
            Kind::KeyExchange => exchange(engine, algorithm)?,
            _ => dsa(engine, algorithm, backend)?,
        }
        println!("{algorithm} on {used}: done");
        ran += 1;
    }
    assert!(ran > 0, "no algorithm is called {wanted:?}");
    Ok(())
}

fn main() -> ExitCode {
    if !cfg!(ctgrind) {
        eprintln!("error: built without --cfg ctgrind, so nothing would be marked as secret");
        return ExitCode::from(2);
    }
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some((backend, wanted)) = arguments.split_first() else {
        eprintln!("error: expected `ctgrind BACKEND [ALGORITHM...]` or `ctgrind leaky [KERNEL]`");
        return ExitCode::from(2);
    };
    if backend == "leaky" {
        let Some(leaked) =
            wanted.first().map_or_else(|| Some(leak()), |kernel| leak_behind(kernel))
        else {
            eprintln!(
                "error: no emulated kernel {wanted:?}; try sponge, chain, lanes or transform"
            );
            return ExitCode::from(2);
        };
        println!("leaky demo: {leaked}");
        return ExitCode::SUCCESS;
    }
    let config = Config { backend: Some(backend.clone()), ..Config::default() };
    match Engine::new(&config).and_then(|engine| run(&engine, backend, wanted)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
