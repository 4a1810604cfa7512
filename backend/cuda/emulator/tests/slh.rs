//! SLH-DSA on the device against the portable backend: keys, signatures and verdicts of all twelve sets.
//!
//! A signature of a small set takes seconds of one thread; `GABION_SOAK` has those of n = 24 and 32 made, too.

#![allow(clippy::expect_used, clippy::unwrap_used)] // A panic is how a test fails.

use gabion_backend::portable::Portable;
use gabion_backend::{Backend, Batch, BatchOutcome, Cpu, Keys, Operation, Slh};
use gabion_cuda_emulator::{SelectedBackend, selected_backend};
use gabion_scheme::Status;
use gabion_scheme::algorithms::Algorithm;
use gabion_scheme::message::Message;
use gabion_scheme::prehash::Prehash;
use gabion_scheme::slh_dsa::{Params, SigningKey, VerifyKey, params};

const SLOT: usize = 16 << 20;

fn cuda(slot_bytes: usize) -> SelectedBackend {
    selected_backend(slot_bytes).unwrap()
}

fn sets(is_small: bool) -> impl Iterator<Item = &'static Params> {
    Algorithm::all().filter_map(params).filter(move |p| (p.h_prime > 4) == is_small)
}

fn run(backend: &dyn Backend, slh: Slh<'_>, lanes: usize) -> (BatchOutcome, Vec<Status>) {
    let mut status = vec![Status::NotRun; lanes];
    let mut batch = Batch { operation: Operation::Slh(slh), status: &mut status };
    batch.check().unwrap();
    (backend.run(&mut batch), status)
}

fn seeds(p: &Params, n: usize) -> Vec<u8> {
    (0..n * p.seed_len()).map(|i| (i * 37 + i / 251) as u8).collect()
}

fn generate(backend: &dyn Backend, params: &'static Params, seeds: &[u8]) -> Vec<SigningKey> {
    let n = seeds.len() / params.seed_len();
    let mut keys: Vec<_> = (0..n).map(|_| SigningKey::blank(params)).collect();
    let (ran, status) = run(backend, Slh::Generate { params, seeds, keys: &mut keys }, n);
    assert_eq!((ran, status), (BatchOutcome::Done, vec![Status::Ok; n]), "{}", params.name());
    keys
}

/// Signatures by a backend, and their status.
fn sign(
    backend: &dyn Backend,
    params: &'static Params,
    keys: Keys<'_, SigningKey>,
    messages: &[Message<'_>],
    opt_rand: Option<&[u8]>,
) -> (Vec<u8>, Vec<Status>) {
    let n = messages.len();
    let mut sig = vec![0; n * params.sig_len()];
    let slh = Slh::Sign { params, keys, messages, opt_rand, sig: &mut sig };
    let (ran, status) = run(backend, slh, n);
    assert_eq!(ran, BatchOutcome::Done, "{}", params.name());
    (sig, status)
}

/// The verdicts of both backends, which are the same.
fn verify(
    cuda: &dyn Backend,
    params: &'static Params,
    pk: &[u8],
    messages: &[Message<'_>],
    sig: &[u8],
) -> Vec<Status> {
    let n = messages.len();
    let [(ran, status), (_, expected)] = [cuda, &Cpu::new(Portable)].map(|backend| {
        run(backend, Slh::Verify { params, keys: Keys::Fresh(pk), messages, sig }, n)
    });
    assert_eq!(ran, BatchOutcome::Done);
    assert_eq!(status, expected, "{n} signatures of {}", params.name());
    status
}

fn public(keys: &[SigningKey]) -> Vec<u8> {
    keys.iter().flat_map(|key| key.verify_key().bytes().to_vec()).collect()
}

/// Keys, signatures of both kinds of keys and both variants, and verdicts over them and over changed ones.
fn check(params: &'static Params, n: usize) {
    let cuda = cuda(SLOT);
    let (portable, seeds) = (Cpu::new(Portable), seeds(params, n));
    let (keys, expected) = (generate(&cuda, params, &seeds), generate(&portable, params, &seeds));
    for (key, expected) in keys.iter().zip(&expected) {
        assert_eq!(key.bytes(), expected.bytes(), "{}", params.name());
    }
    let text: Vec<u8> = (0..900).map(|i| (i / 3) as u8).collect();
    let messages: Vec<_> = (0..n)
        .map(|i| Message::Pure { context: &text[..i], message: &text[..(i * 150).min(900)] })
        .collect();
    let opt_rand: Vec<u8> = (0..n * params.n).map(|i| (i * 11) as u8).collect();

    let refs: Vec<&SigningKey> = keys.iter().collect();
    let fresh: Vec<u8> = keys.iter().flat_map(|key| key.bytes().to_vec()).collect();
    let all = expected.iter().collect::<Vec<_>>();
    let (expected, _) = sign(&portable, params, Keys::Known(&all), &messages, Some(&opt_rand));
    let (known, status) = sign(&cuda, params, Keys::Known(&refs), &messages, Some(&opt_rand));
    assert!(status.iter().all(|status| status.is_ok()), "{}: {status:?}", params.name());
    assert!(known == expected, "{}", params.name());
    if params.h_prime <= 4 && params.n == 16 {
        let (sig, _) = sign(&cuda, params, Keys::Fresh(&fresh), &messages, None);
        let (expected, _) = sign(&portable, params, Keys::Known(&all), &messages, None);
        assert!(sig == expected, "{}: deterministic", params.name());
    }
    check_alterations(&cuda, params, &public(&keys), &messages, &known);
}

/// Verdicts over good signatures, over signatures with a changed bit in every part, and over changed keys.
fn check_alterations(
    cuda: &dyn Backend,
    params: &'static Params,
    pk: &[u8],
    messages: &[Message<'_>],
    sig: &[u8],
) {
    let status = verify(cuda, params, pk, messages, sig);
    assert!(status.iter().all(|status| status.is_ok()), "{}: {status:?}", params.name());
    let n = 21;
    let (first, one) = (&sig[..params.sig_len()], vec![messages[0]; n]);
    let mut many = first.repeat(n);
    for lane in 0..n {
        let bit = lane * 8 * first.len() / n + lane % 8;
        many[lane * first.len() + bit / 8] ^= 1 << (bit % 8);
    }
    let keys = pk[..params.pk_len()].repeat(n);
    let status = verify(cuda, params, &keys, &one, &many);
    assert_eq!(status, [Status::InvalidSignature; 21], "{}", params.name());
    let mut keys = pk[..params.pk_len()].repeat(3);
    keys[params.pk_len()] ^= 1; // PK.seed
    keys[3 * params.pk_len() - 1] ^= 0x80; // PK.root
    let status = verify(cuda, params, &keys, &one[..3], &first.repeat(3));
    let bad = Status::InvalidSignature;
    assert_eq!(status, [Status::Ok, bad, bad], "{}", params.name());
}

#[test]
fn fast_sets() {
    sets(false).for_each(|params| check(params, 2));
}

#[test]
fn small_sets() {
    for params in sets(true) {
        if params.n == 16 || std::env::var_os("GABION_SOAK").is_some() {
            check(params, 1);
        } else {
            eprintln!("skipped: signatures of {}: GABION_SOAK has them made", params.name());
        }
    }
}

/// Without a signature of ours: what one takes is made by the best backend of the machine.
#[test]
fn small_sets_verify() {
    let best = gabion_backend::cpus().into_iter().next().unwrap();
    for params in sets(true) {
        let keys = generate(&*best, params, &seeds(params, 1));
        let messages = [Message::Internal(b"formatted")];
        let (sig, _) = sign(&*best, params, Keys::Known(&[&keys[0]]), &messages, None);
        check_alterations(&cuda(SLOT), params, &public(&keys), &messages, &sig);
    }
}

#[test]
fn every_form_of_a_message_in_small_chunks() {
    let long = vec![0x61; 3000];
    let digests: Vec<_> = Prehash::all().map(|hash| (hash, hash.digest(b"message"))).collect();
    let mut messages = vec![
        Message::Pure { context: &[], message: &[] },
        Message::Pure { context: &long[..255], message: &long },
        Message::Internal(&[]),
        Message::Internal(&long),
        Message::Mu(&[7; 64]),
        Message::Pure { context: &long[..256], message: &[] },
    ];
    messages.extend(digests.iter().map(|(hash, digest)| Message::Prehash {
        context: b"context",
        hash: *hash,
        digest,
    }));
    for algorithm in
        [Algorithm::SlhDsaSha2_128f, Algorithm::SlhDsaSha2_192f, Algorithm::SlhDsaShake128f]
    {
        let params = params(algorithm).unwrap();
        // Some lanes fit into a slot, and of those some trees at a time.
        let cuda = cuda(300 << 10);
        let keys = generate(&cuda, params, &seeds(params, 1));
        let all = vec![&keys[0]; messages.len()];
        let (sig, status) = sign(&cuda, params, Keys::Known(&all), &messages, None);
        let (expected, same) =
            sign(&Cpu::new(Portable), params, Keys::Known(&all), &messages, None);
        assert_eq!(status, same, "{}", params.name());
        assert_eq!(status.iter().filter(|status| **status == Status::InvalidInput).count(), 2);
        assert!(sig == expected, "{}", params.name());
        let pk = public(&keys).repeat(messages.len());
        let verdicts = verify(&cuda, params, &pk, &messages, &sig);
        assert_eq!(verdicts, status);
    }
}

#[test]
fn keys_are_decoded_and_wrong_ones_refused() {
    let params = params(Algorithm::SlhDsaShake192f).unwrap();
    let (cuda, n) = (cuda(SLOT), 3);
    let made = generate(&cuda, params, &seeds(params, n));
    let mut bytes: Vec<u8> = made.iter().flat_map(|key| key.bytes().to_vec()).collect();
    bytes[2 * params.sk_len() - 1] ^= 1; // PK.root of the second one
    let [first, second] = [&cuda as &dyn Backend, &Cpu::new(Portable)].map(|backend| {
        let mut keys: Vec<_> = (0..n).map(|_| SigningKey::blank(params)).collect();
        let decode = Slh::DecodePrivate { params, bytes: &bytes, keys: &mut keys };
        let (ran, status) = run(backend, decode, n);
        assert_eq!(ran, BatchOutcome::Done);
        let state: Vec<_> =
            keys.iter().map(|key| (key.is_expanded(), key.bytes().to_vec())).collect();
        (status, state)
    });
    assert_eq!(first.0, [Status::Ok, Status::InvalidKey, Status::Ok]);
    assert!(first == second);
    // A fresh key of which PK.root is another one signs nothing.
    let messages = [Message::Internal(b"message"); 3];
    let (sig, status) = sign(&cuda, params, Keys::Fresh(&bytes), &messages, None);
    assert_eq!(status, first.0);
    assert!(sig[params.sig_len()..][..params.sig_len()].iter().all(|&byte| byte == 0));
    // Decoding public keys is no work for a device.
    let mut keys = vec![VerifyKey::blank(params)];
    let pk = made[0].verify_key().bytes();
    let decode = Slh::DecodePublic { params, bytes: pk, keys: &mut keys };
    assert_eq!(run(&cuda, decode, 1).0, BatchOutcome::Declined);
}

#[test]
fn batches_larger_than_a_slot_are_declined() {
    let params = params(Algorithm::SlhDsaSha2_128f).unwrap();
    let cuda = cuda(100 << 10);
    let keys = generate(&cuda, params, &seeds(params, 1));
    let text = vec![1; 100 << 10];
    let (messages, mut sig) = ([Message::Internal(&text)], vec![0; params.sig_len()]);
    let known = Keys::Known(&[&keys[0]][..]);
    let slh = Slh::Sign { params, keys: known, messages: &messages, opt_rand: None, sig: &mut sig };
    let (ran, status) = run(&cuda, slh, 1);
    assert_eq!((ran, status[0]), (BatchOutcome::Declined, Status::NotRun));
}
