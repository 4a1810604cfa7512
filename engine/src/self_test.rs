//! The self-test that a backend passes before an algorithm first runs on it.
//!
//! One known answer per operation, over two lanes, or over nine where the backend has lanes of its
//! own, so that a full group and a remainder both run and every lane's answer is its own; and the first
//! two lanes once more, each by itself, since a single operation takes ways of its own. The
//! expected digests were made with another implementation (OpenSSL 3.5.5: `genpkey` from a seed,
//! `pkeyutl -encap` with given randomness, `-decap` of a corrupted ciphertext, deterministic
//! `-sign` with a context), from the seeds and messages that [`seed`] and [`message`] give. What
//! SLH-DSA takes instead is in [`slh`].

mod fn_dsa;
mod slh;

mod ed25519;

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::ecc;
use crate::family::hybrid;

use gabion_backend::{Backend, Batch, Keys, Operation};
use gabion_scheme::algorithms::Family;
use gabion_scheme::composite::{self, Classical};
use gabion_scheme::ct;
use gabion_scheme::ed25519::Rules;
use gabion_scheme::ml_dsa::{self, Message};
use gabion_scheme::{Algorithm, Status};
use gabion_scheme::{ml_kem, slh_dsa};
use sha3::{Digest, Sha3_256};

/// The context of the signatures.
const CONTEXT: &[u8] = b"gabion";
/// Lanes of the long test: a group of eight and one more.
const LANES_MANY: usize = 9;
/// Lanes of the short test, for backends without lanes.
const LANES_FEW: usize = 2;

/// SHA3-256 over every lane's `ek || dk || ct || K || K of the corrupted ct`, or
/// `pk || sk || sig`: for two lanes, for nine.
static EXPECTED: [(Algorithm, [&str; 2]); 6] = [
    (
        Algorithm::MlKem512,
        [
            "592db881728b6780bea18f84481ac3dae98326b563be68135df79fdbdbe455c9",
            "5c0dd7e99da4a7a3567a4c00ac63f86aac2f37250f4b9d018d056a0adc167d6a",
        ],
    ),
    (
        Algorithm::MlKem768,
        [
            "7ec55924515341f15d91abf1abe3e10d41767979b11fac8adb08a9f5aef6f003",
            "e5d96ff13cc814696956021ac9cef579988f51af4789b1d4312879b45d937c8d",
        ],
    ),
    (
        Algorithm::MlKem1024,
        [
            "d112e438f31fbffad5c2b51596808c1418bbd9f842b566f2afb2b6f2d6826b10",
            "fb82cc3e53320ac69e57fa7b1c0d478612a24121704e3e70f8d9fde2f32ab7e5",
        ],
    ),
    (
        Algorithm::MlDsa44,
        [
            "9c4f680c0b707082c5fcad3fc17a2eeb38e3a017992dc71dbf48d01250821a5f",
            "705bbe98f1ed7ef0c4f2cc2395bd46fbf4803c991fefd022324b8af13dd79124",
        ],
    ),
    (
        Algorithm::MlDsa65,
        [
            "3fdf525c1affb6931d730be0439369a9d3bfe16ec07fcf4f67955677d5a80956",
            "d329458f6724bc32a1c09c8d598e541590efeb619b0564518e45a6d531c4d278",
        ],
    ),
    (
        Algorithm::MlDsa87,
        [
            "f53555ace5d573a51846db428f8f01cf2e7e4c5ca42c4658ffd76ad2f9743ec2",
            "53248ceb2a18c5c4c4357daaabf29b9f7183f972444f672fba715262e5d48b07",
        ],
    ),
];

/// The seed of a lane.
fn seed<const N: usize>(lane: usize) -> [u8; N] {
    std::array::from_fn(|j| (17 * lane + 31 * j + 5) as u8)
}

/// The message (200 bytes, so that its sponge takes more than one block) or the encapsulation
/// randomness (32 bytes) of a lane.
fn message<const N: usize>(lane: usize) -> [u8; N] {
    std::array::from_fn(|j| (29 * lane + 13 * j + 1) as u8)
}

/// The algorithms whose self-tests are part of this one's. They are tested once for all that need
/// them, so that a process tests ML-DSA-65 once and not with each of its composites.
pub(crate) fn parts(algorithm: Algorithm) -> Vec<Algorithm> {
    use Algorithm as A;
    if let Some(params) = composite::params(algorithm) {
        let classical = match params.classical {
            // There is no algorithm of that name; the crate verifies what it signs.
            Classical::Rsa(_) => None,
            Classical::Ecdsa(curve) => Some(curve.ecdsa()),
            Classical::Ed25519 => Some(A::Ed25519),
        };
        return [params.ml_dsa].into_iter().chain(classical).collect();
    }
    if hybrid::Parts::of(algorithm).is_some() {
        let named = algorithm.info().parts.iter().filter_map(|name| name.parse().ok());
        // A curve's exchange has the test of its signature.
        return named.map(|part| parts(part).first().copied().unwrap_or(part)).collect();
    }
    match algorithm {
        // One curve, and a signature has a key as an exchange has one.
        A::EcdhP256 => vec![A::EcdsaP256],
        A::EcdhP384 => vec![A::EcdsaP384],
        A::EcdhP521 => vec![A::EcdsaP521],
        _ => slh::stands_for(algorithm).into_iter().collect(),
    }
}

/// Why a self-test did not pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Failed {
    /// An answer was wrong; what differed.
    Wrong(String),
    /// It could not be run to its end, which says nothing of the answers.
    NoMemory,
}

impl From<String> for Failed {
    fn from(what: String) -> Self {
        Failed::Wrong(what)
    }
}

/// A backend that is tested; knows whether a lane lacked memory.
struct Watched<'a> {
    backend: &'a dyn Backend,
    lacked_memory: AtomicBool,
}

impl Backend for Watched<'_> {
    fn name(&self) -> &'static str {
        self.backend.name()
    }

    fn lanes(&self) -> usize {
        self.backend.lanes()
    }

    fn run(&self, batch: &mut Batch<'_>) {
        self.backend.run(batch);
        if batch.status.contains(&Status::NoMemory) {
            self.lacked_memory.store(true, Ordering::Relaxed);
        }
    }
}

/// Tests what an algorithm has beside its [`parts`] on one backend.
pub(crate) fn run(backend: &dyn Backend, algorithm: Algorithm) -> Result<(), Failed> {
    let watched = Watched { backend, lacked_memory: AtomicBool::new(false) };
    let passed = run_watched(&watched, algorithm);
    // Whatever came of it where a lane lacked memory is no answer.
    if watched.lacked_memory.into_inner() { Err(Failed::NoMemory) } else { passed }
}

fn run_watched(backend: &dyn Backend, algorithm: Algorithm) -> Result<(), Failed> {
    // What the engine asks for is in this build; each family is asked once more, so that its code can go.
    if let Some(parts) = hybrid::Parts::of(algorithm).filter(|_| Family::Hybrid.is_built()) {
        return Ok(hybrid::self_test(parts)?);
    }
    if !parts(algorithm).is_empty() {
        return Ok(());
    }
    let (lanes, column) = if backend.lanes() > 1 { (LANES_MANY, 1) } else { (LANES_FEW, 0) };
    if let Some(curve) = ecc::Curve::of(algorithm) {
        // What single operations take is no backend's, and is tested all the same.
        ecc::self_test(curve)?;
        return match curve {
            ecc::Curve::X25519 => Ok(ecc::lanes::self_test(backend, lanes)?),
            _ => Ok(()),
        };
    }
    if let Some(params) =
        gabion_scheme::fn_dsa::params(algorithm).filter(|_| Family::FnDsa.is_built())
    {
        return Ok(fn_dsa::run(backend, params)
            .map_err(|what| format!("{algorithm} self-test: {what}"))?);
    }
    let answer = if let Some(params) =
        ml_kem::params(algorithm).filter(|_| Family::MlKem.is_built())
    {
        of_both_widths(lanes, |lanes| kem(backend, params, lanes))
    } else if let Some(params) = ml_dsa::params(algorithm).filter(|_| Family::MlDsa.is_built()) {
        of_both_widths(lanes, |lanes| dsa(backend, params, lanes))
    } else if let Some(params) = slh_dsa::params(algorithm).filter(|_| Family::SlhDsa.is_built()) {
        slh::answer(backend, params)
    } else if let Some(rules) = ed25519_rules(algorithm).filter(|_| Family::Ed25519.is_built()) {
        ed25519::run(backend, rules, lanes)
    } else {
        Err("there is no self-test for it".to_owned())
    };
    let digest = answer.map_err(|what| format!("{algorithm} self-test: {what}"))?;
    ct::declassify(&digest);
    let expected = EXPECTED.iter().find(|row| row.0 == algorithm).map(|row| row.1[column]);
    let expected = expected.or_else(|| slh::expected(algorithm));
    let expected = expected.or(ed25519_rules(algorithm).map(|_| ed25519::EXPECTED[column]));
    let digest: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    if expected == Some(digest.as_str()) {
        return Ok(());
    }
    Err(format!("{algorithm} self-test: the known answer over {lanes} lanes differs").into())
}

/// The rules that an Ed25519's name stands for; none for another algorithm.
fn ed25519_rules(algorithm: Algorithm) -> Option<Rules> {
    match algorithm {
        Algorithm::Ed25519 => Some(Rules::Strict),
        Algorithm::Ed25519Zip215 => Some(Rules::Zip215),
        _ => None,
    }
}

/// Runs one operation and insists on every lane's success.
fn all_ok(backend: &dyn Backend, lanes: usize, operation: Operation<'_>) -> Result<(), String> {
    let mut status = vec![Status::NotRun; lanes];
    let mut batch = Batch { operation, status: &mut status };
    let name = batch.task();
    batch.check().map_err(|error| error.to_string())?;
    backend.run(&mut batch);
    match status.iter().position(|status| !status.is_ok()) {
        None => Ok(()),
        Some(lane) => Err(format!("{name}: lane {lane} of {lanes} says {:?}", status[lane])),
    }
}

/// The digest of what `results` gives for `n` lanes together, of which the first two must be the same
/// by themselves.
fn of_both_widths(
    n: usize,
    results: impl Fn(Range<usize>) -> Result<Vec<Vec<u8>>, String>,
) -> Result<[u8; 32], String> {
    let together = results(0..n)?;
    // One lane works with keys as they are made, the other with keys that were decoded.
    for lane in 0..2 {
        let by_itself = results(lane..lane + 1).map_err(|what| format!("by itself, {what}"))?;
        if by_itself[..] != together[lane..=lane] {
            return Err(format!("lane {lane} by itself is not what it is among {n}"));
        }
    }
    Ok(together.iter().fold(Sha3_256::new(), Sha3_256::chain_update).finalize().into())
}

/// What each of these lanes gives: `ek || dk || ct || K || K of the corrupted ct`.
fn kem(
    backend: &dyn Backend,
    params: &'static ml_kem::Params,
    lanes: Range<usize>,
) -> Result<Vec<Vec<u8>>, String> {
    let n = lanes.len();
    let is_decoded = |place: usize| (lanes.start + place) % 2 == 1;
    let seeds: Vec<[u8; 64]> = lanes.clone().map(seed).collect();
    let mut keys = vec![ml_kem::DecapsKey::blank(params); n];
    let operation = Operation::KemGenerate { params, seeds: &seeds, keys: &mut keys };
    all_ok(backend, n, operation)?;
    // Every second lane works with what its keys' encodings are decoded to.
    let ek: Vec<u8> = keys.iter().flat_map(|key| key.encaps_key().bytes()).copied().collect();
    let dk: Vec<u8> = keys.iter().flat_map(|key| key.bytes()).copied().collect();
    let mut public = vec![ml_kem::EncapsKey::blank(params); n];
    let mut private = vec![ml_kem::DecapsKey::blank(params); n];
    let operation = Operation::KemDecodePublic { params, bytes: &ek, keys: &mut public };
    all_ok(backend, n, operation)?;
    let operation = Operation::KemDecodePrivate { params, bytes: &dk, keys: &mut private };
    all_ok(backend, n, operation)?;
    let known: Vec<_> =
        (0..n).map(|at| if is_decoded(at) { &public[at] } else { keys[at].encaps_key() }).collect();
    let m: Vec<[u8; 32]> = lanes.clone().map(message).collect();
    let mut ct = vec![0; n * params.ct_len()];
    let mut shared = vec![[0; 32]; n];
    let keys_known = Keys::Known(&known);
    all_ok(
        backend,
        n,
        Operation::KemEncaps { params, keys: keys_known, m: &m, ct: &mut ct, shared: &mut shared },
    )?;
    let known: Vec<_> =
        (0..n).map(|at| if is_decoded(at) { &private[at] } else { &keys[at] }).collect();
    let mut opened = vec![[0; 32]; n];
    let (own, operation_ct) = (Keys::Known(&known[..]), &ct[..]);
    all_ok(
        backend,
        n,
        Operation::KemDecaps { params, keys: own, ct: operation_ct, shared: &mut opened },
    )?;
    // The self-test's secrets are constants of this file.
    ct::declassify(&opened);
    ct::declassify(&shared);
    if opened != shared {
        return Err("decaps does not give what encaps gave".to_owned());
    }
    let mut corrupted = ct.clone();
    for (lane, ct) in lanes.zip(corrupted.chunks_exact_mut(params.ct_len())) {
        ct[lane] ^= 1;
    }
    let (own, ct_bad) = (Keys::Known(&known[..]), &corrupted[..]);
    all_ok(
        backend,
        n,
        Operation::KemDecaps { params, keys: own, ct: ct_bad, shared: &mut opened },
    )?;
    ct::declassify(&opened);
    let secrets = shared.iter().zip(&opened);
    let made = keys.iter().zip(ct.chunks_exact(params.ct_len())).zip(secrets);
    let result = made.map(|((key, ct), (shared, opened))| {
        ct::declassify(key.bytes());
        [key.encaps_key().bytes(), key.bytes(), ct, shared, opened].concat()
    });
    Ok(result.collect())
}

/// What each of these lanes gives: `pk || sk || sig`.
fn dsa(
    backend: &dyn Backend,
    params: &'static ml_dsa::Params,
    lanes: Range<usize>,
) -> Result<Vec<Vec<u8>>, String> {
    let n = lanes.len();
    let is_decoded = |place: usize| (lanes.start + place) % 2 == 1;
    let seeds: Vec<[u8; 32]> = lanes.clone().map(seed).collect();
    let mut keys: Vec<_> = (0..n).map(|_| ml_dsa::SigningKey::blank(params)).collect();
    let operation = Operation::DsaGenerate { params, seeds: &seeds, keys: &mut keys };
    all_ok(backend, n, operation)?;
    let texts: Vec<[u8; 200]> = lanes.clone().map(message).collect();
    let messages: Vec<Message<'_>> =
        texts.iter().map(|text| Message::Pure { context: CONTEXT, message: text }).collect();
    // Every second lane works with what its keys' encodings are decoded to.
    let pk: Vec<u8> = keys.iter().flat_map(|key| key.verify_key().bytes()).copied().collect();
    let sk: Vec<u8> = keys.iter().flat_map(|key| key.bytes()).copied().collect();
    let mut decoded: Vec<_> = (0..n).map(|_| ml_dsa::VerifyKey::blank(params)).collect();
    let mut private: Vec<_> = (0..n).map(|_| ml_dsa::SigningKey::blank(params)).collect();
    let operation = Operation::DsaDecodePublic { params, bytes: &pk, keys: &mut decoded };
    all_ok(backend, n, operation)?;
    let operation = Operation::DsaDecodePrivate { params, bytes: &sk, keys: &mut private };
    all_ok(backend, n, operation)?;
    let known: Vec<_> =
        (0..n).map(|at| if is_decoded(at) { &private[at] } else { &keys[at] }).collect();
    let mut sig = vec![0; n * params.sig_len()];
    let rnd = vec![[0; 32]; n];
    let own = Keys::Known(&known[..]);
    all_ok(
        backend,
        n,
        Operation::DsaSign { params, keys: own, messages: &messages, rnd: &rnd, sig: &mut sig },
    )?;
    let public: Vec<_> = (0..n)
        .map(|at| if is_decoded(at) { &decoded[at] } else { keys[at].verify_key() })
        .collect();
    let verify_keys = Keys::Known(&public[..]);
    all_ok(
        backend,
        n,
        Operation::DsaVerify { params, keys: verify_keys, messages: &messages, sig: &sig },
    )?;
    // One corrupted lane must fail, and must fail alone.
    let mut corrupted = sig.clone();
    corrupted[(n - 1) * params.sig_len()] ^= 1;
    let mut status = vec![Status::NotRun; n];
    let verify_keys = Keys::Known(&public[..]);
    let operation =
        Operation::DsaVerify { params, keys: verify_keys, messages: &messages, sig: &corrupted };
    backend.run(&mut Batch { operation, status: &mut status });
    if status[n - 1] != Status::InvalidSignature || !status[..n - 1].iter().all(|s| s.is_ok()) {
        return Err("a corrupted signature was not refused in its own lane alone".to_owned());
    }
    let made = keys.iter().zip(sig.chunks_exact(params.sig_len()));
    let result = made.map(|(key, sig)| {
        ct::declassify(key.bytes());
        ct::declassify(sig);
        [key.verify_key().bytes(), key.bytes(), sig].concat()
    });
    Ok(result.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use gabion_backend::cpus;

    /// Parts are tested before what they are parts of, and have none of themselves: a thread that
    /// tests never waits for itself.
    #[test]
    fn parts_have_no_parts() {
        let mut with_parts = 0;
        for algorithm in Algorithm::all() {
            let of = parts(algorithm);
            assert!(of.iter().all(|&part| parts(part).is_empty()), "{algorithm}");
            with_parts += usize::from(!of.is_empty());
        }
        // 15 composites, 8 hybrids, 6 small sets of SLH-DSA, 3 of ECDH.
        assert_eq!(with_parts, 32);
    }

    #[test]
    fn every_algorithm_passes_on_every_backend() {
        for backend in cpus() {
            for algorithm in Algorithm::all() {
                assert_eq!(run(&*backend, algorithm), Ok(()), "{}", backend.name());
            }
        }
    }
}
