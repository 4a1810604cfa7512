//! ML-DSA on the device against the portable backend: keys; signatures by fresh, known and
//! malformed keys, over every form of a message; verification of good signatures and of signatures
//! with each part changed.

#![allow(clippy::expect_used, clippy::unwrap_used)] // A panic is how a test fails.

use gabion_backend::portable::Portable;
use gabion_backend::{Backend, Batch, BatchOutcome, Cpu, Dsa, Keys, Operation};
use gabion_cuda_emulator::selected_backend;
use gabion_scheme::Status;
use gabion_scheme::algorithms::Algorithm;
use gabion_scheme::message::Message;
use gabion_scheme::ml_dsa::{Params, SigningKey, VerifyKey, params};
use gabion_scheme::prehash::Prehash;
use sha3::Shake128;
use sha3::digest::{ExtendableOutput, Update, XofReader};

fn sets() -> [&'static Params; 3] {
    [Algorithm::MlDsa44, Algorithm::MlDsa65, Algorithm::MlDsa87].map(|set| params(set).unwrap())
}

fn run(backend: &dyn Backend, dsa: Dsa<'_>, lanes: usize) -> (BatchOutcome, Vec<Status>) {
    let mut status = vec![Status::NotRun; lanes];
    let mut batch = Batch { operation: Operation::Dsa(dsa), status: &mut status };
    batch.check().unwrap();
    (backend.run(&mut batch), status)
}

/// Bytes that look random and differ by their seed.
fn bytes(seed: u8, len: usize) -> Vec<u8> {
    let mut out = vec![0; len];
    let mut reader = Shake128::default().chain([seed]).finalize_xof();
    XofReader::read(&mut reader, &mut out);
    out
}

/// Key pairs of both backends, which are the same.
fn keygen(cuda: &dyn Backend, params: &'static Params, seeds: &[[u8; 32]]) -> (Vec<u8>, Vec<u8>) {
    let n = seeds.len();
    let [cuda, portable] = [cuda, &Cpu::new(Portable)].map(|backend| {
        let (mut pk, mut sk) = (vec![1; n * params.pk_len()], vec![1; n * params.sk_len()]);
        let dsa = Dsa::Keygen { params, seeds, pk: &mut pk, sk: &mut sk };
        let (ran, status) = run(backend, dsa, n);
        assert_eq!(ran, BatchOutcome::Done);
        assert!(status.iter().all(|status| status.is_ok()));
        (pk, sk)
    });
    assert!(cuda == portable, "{n} keys of {}", params.name());
    cuda
}

/// Signatures and statuses of both backends, which are the same.
fn sign(
    cuda: &dyn Backend,
    params: &'static Params,
    keys: Keys<'_, SigningKey>,
    messages: &[Message<'_>],
    rnd: &[[u8; 32]],
) -> (Vec<u8>, Vec<Status>) {
    let n = messages.len();
    let [cuda, portable] = [cuda, &Cpu::new(Portable)].map(|backend| {
        let keys = match &keys {
            Keys::Fresh(keys) => Keys::Fresh(keys),
            Keys::Known(keys) => Keys::Known(keys),
        };
        let mut sig = vec![1; n * params.sig_len()];
        let (ran, status) =
            run(backend, Dsa::Sign { params, keys, messages, rnd, sig: &mut sig }, n);
        assert_eq!(ran, BatchOutcome::Done);
        (sig, status)
    });
    assert_eq!(cuda.1, portable.1, "{n} signatures of {}", params.name());
    assert!(cuda.0 == portable.0, "{n} signatures of {}", params.name());
    cuda
}

/// Keys of `n` lanes and signatures of `messages`, by the portable backend.
fn make_signatures(params: &'static Params, messages: &[Message<'_>]) -> (Vec<u8>, Vec<u8>) {
    let n = messages.len();
    let seeds: Vec<[u8; 32]> = (0..n).map(|lane| [lane as u8 ^ 0x5a; 32]).collect();
    let (mut pk, mut sk) = (vec![0; n * params.pk_len()], vec![0; n * params.sk_len()]);
    let dsa = Dsa::Keygen { params, seeds: &seeds, pk: &mut pk, sk: &mut sk };
    assert_eq!(run(&Cpu::new(Portable), dsa, n).0, BatchOutcome::Done);
    let mut sig = vec![0; n * params.sig_len()];
    let (keys, rnd) = (Keys::Fresh(&sk[..]), vec![[7; 32]; n]);
    let dsa = Dsa::Sign { params, keys, messages, rnd: &rnd, sig: &mut sig };
    assert_eq!(run(&Cpu::new(Portable), dsa, n).0, BatchOutcome::Done);
    (pk, sig)
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
        run(backend, Dsa::Verify { params, keys: Keys::Fresh(pk), messages, sig }, n)
    });
    assert_eq!(ran, BatchOutcome::Done);
    assert_eq!(status, expected, "{n} signatures of {}", params.name());
    status
}

#[test]
fn good_and_changed_signatures() {
    for params in sets() {
        let cuda = selected_backend(64 << 20).unwrap();
        let text: Vec<u8> = (0..700).map(|i| i as u8).collect();
        let messages: Vec<_> = (0..130)
            .map(|i| Message::Pure { context: &text[..i], message: &text[i..5 * i] })
            .collect();
        let (mut pk, mut sig) = make_signatures(params, &messages);
        let status = verify(&cuda, params, &pk, &messages, &sig);
        assert!(status.iter().all(|status| status.is_ok()));
        // A bit of each signature, all over it: c~, z, the hint; then a bit of each key.
        let (pk_len, sig_len) = (params.pk_len(), params.sig_len());
        for lane in 0..messages.len() {
            let bit = lane * 8 * sig_len / messages.len() + lane % 8;
            sig[lane * sig_len + bit / 8] ^= 1 << (bit % 8);
        }
        let status = verify(&cuda, params, &pk, &messages, &sig);
        assert!(status.iter().all(|status| *status == Status::InvalidSignature));
        for lane in 0..messages.len() {
            let bit = lane * 8 * sig_len / messages.len() + lane % 8;
            sig[lane * sig_len + bit / 8] ^= 1 << (bit % 8);
            pk[lane * pk_len + lane * pk_len / messages.len()] ^= 1;
        }
        let status = verify(&cuda, params, &pk, &messages, &sig);
        assert!(status.iter().all(|status| *status == Status::InvalidSignature));
    }
}

#[test]
fn hints_and_norms_at_their_bounds() {
    for params in sets() {
        let cuda = selected_backend(64 << 20).unwrap();
        let messages = [Message::Internal(b"formatted"); 12];
        let (pk, sig) = make_signatures(params, &messages);
        let (sig_len, hint) = (params.sig_len(), params.omega + params.k);
        let mut changed = sig.clone();
        for (lane, sig) in changed.chunks_exact_mut(sig_len).enumerate() {
            let (front, y) = sig.split_at_mut(sig_len - hint);
            let z = &mut front[params.c_tilde_len..];
            match lane {
                1 => y[params.omega] = params.omega as u8 + 1, // more hints than there may be
                2 => y[params.omega + params.k - 1] = 255,
                3 => y[params.omega + 1] = y[params.omega].wrapping_sub(1), // a count that falls
                4 => y[params.omega - 1] = 1, // an index beyond the last one
                5 => y[1] = y[0],             // an index twice
                6 => y.swap(0, 1),            // two indexes the wrong way round
                7 => y[..params.omega].fill(255),
                8 => y.fill(0),      // well formed, without a hint
                9 => z[..8].fill(0), // the largest coefficients
                10 => z.fill(255),   // the smallest ones
                11 => z[..3].copy_from_slice(&(params.beta as u32).to_le_bytes()[..3]), // the first that is too large
                _ => {}
            }
        }
        let status = verify(&cuda, params, &pk, &messages, &changed);
        assert!(status[0].is_ok());
        assert!(status[1..].iter().all(|status| *status == Status::InvalidSignature), "{status:?}");
    }
}

#[test]
fn every_form_of_a_message() {
    let long = vec![0x61; 5000];
    let digest = Prehash::all().map(|hash| (hash, hash.digest(b"message"))).collect::<Vec<_>>();
    let mu = [0x33; 64];
    let mut messages = vec![
        Message::Pure { context: &[], message: &[] },
        Message::Pure { context: &long[..255], message: &long },
        Message::Internal(&[]),
        Message::Internal(&long),
        Message::Mu(&mu),
    ];
    messages.extend(digest.iter().map(|(hash, digest)| Message::Prehash {
        context: b"context",
        hash: *hash,
        digest,
    }));
    for params in sets() {
        // Some eight lanes fit into a slot.
        let cuda = selected_backend(1 << 20).unwrap();
        let (pk, sig) = make_signatures(params, &messages);
        let status = verify(&cuda, params, &pk, &messages, &sig);
        assert!(status.iter().all(|status| status.is_ok()), "{status:?}");
        // A context too long in one lane, and the message of another lane in the next.
        let mut others = messages.clone();
        others[1] = Message::Pure { context: &long[..256], message: &[] };
        others[2] = messages[3];
        let status = verify(&cuda, params, &pk, &others, &sig);
        assert_eq!(status[1], Status::InvalidInput);
        assert_eq!(status[2], Status::InvalidSignature);
        assert_eq!(status.iter().filter(|status| status.is_ok()).count(), messages.len() - 2);
    }
}

#[test]
fn keys() {
    for params in sets() {
        let cuda = selected_backend(64 << 20).unwrap();
        for n in [1, 3, 4, 127, 129] {
            let seeds: Vec<_> = (0..n).map(|lane| bytes(lane, 32).try_into().unwrap()).collect();
            keygen(&cuda, params, &seeds);
        }
        // In more than one chunk.
        let cuda = selected_backend(400 << 10).unwrap();
        keygen(&cuda, params, &[[1; 32]; 11]);
    }
}

#[test]
fn signatures_by_fresh_and_by_known_keys() {
    let text = bytes(7, 1000);
    for params in sets() {
        let big = selected_backend(64 << 20).unwrap();
        // A chunk of some lanes, in rounds of as many attempts.
        let small = selected_backend(1 << 20).unwrap();
        for n in [1, 2, 5, 130] {
            let seeds: Vec<_> =
                (0..n).map(|lane| bytes(lane as u8, 32).try_into().unwrap()).collect();
            let (_, sk) = keygen(&big, params, &seeds);
            let rnd: Vec<_> = (0..n)
                .map(|lane| if lane % 3 == 0 { [0; 32] } else { [lane as u8 ^ 0x33; 32] })
                .collect();
            let messages: Vec<_> = (0..n)
                .map(|i| Message::Pure { context: &text[..i], message: &text[i..5 * i] })
                .collect();
            let cuda = if n % 2 == 0 { &big } else { &small };
            let (sig, status) = sign(cuda, params, Keys::Fresh(&sk), &messages, &rnd);
            assert!(status.iter().all(|status| status.is_ok()));
            let known: Vec<_> =
                seeds.iter().map(|seed| SigningKey::from_seed(&Portable, params, seed)).collect();
            let known: Vec<_> = known.iter().collect();
            let (again, _) = sign(cuda, params, Keys::Known(&known), &messages, &rnd);
            assert!(again == sig);
        }
    }
}

/// Signs equal operations: the same message, key and randomness take the same number of attempts in
/// each lane. Some of these take more attempts than a batch of distinct lanes is prepared for.
#[test]
fn equal_operations_are_all_signed() {
    for params in sets() {
        let key = SigningKey::from_seed(&Portable, params, &[0x3a; 32]);
        let (big, small) =
            (selected_backend(64 << 20).unwrap(), selected_backend(1 << 20).unwrap());
        for (cuda, n, texts) in [(&big, 200, 0..1), (&small, 30, 1..21)] {
            for text in texts {
                let text = [text];
                let messages = vec![Message::Internal(&text); n];
                let rnd = vec![[0; 32]; n];
                let [all, one] = [cuda as &dyn Backend, &Cpu::new(Portable)].map(|backend| {
                    let lanes = if backend.name() == "cuda" { n } else { 1 };
                    let keys = vec![&key; lanes];
                    let keys = Keys::Known(&keys[..]);
                    let (messages, rnd) = (&messages[..lanes], &rnd[..lanes]);
                    let mut sig = vec![0; lanes * params.sig_len()];
                    let dsa = Dsa::Sign { params, keys, messages, rnd, sig: &mut sig };
                    let (ran, status) = run(backend, dsa, lanes);
                    assert_eq!(ran, BatchOutcome::Done, "{} {text:?}", params.name());
                    assert!(status.iter().all(|status| status.is_ok()));
                    sig
                });
                assert!(all.chunks_exact(params.sig_len()).all(|sig| sig == one));
            }
        }
    }
}

#[test]
fn every_form_of_a_message_is_signed_and_keys_that_are_none_are_refused() {
    let long = bytes(1, 5000);
    let digest = Prehash::all().map(|hash| (hash, hash.digest(b"message"))).collect::<Vec<_>>();
    let mut messages = vec![
        Message::Pure { context: &[], message: &[] },
        Message::Pure { context: &long[..256], message: &long }, // too long a context
        Message::Pure { context: &long[..255], message: &long },
        Message::Internal(&[]),
        Message::Internal(&long[..135]),
        Message::Internal(&long[..72]), // a block of SHAKE256 with tr before it
        Message::Mu(&[0x33; 64]),
    ];
    messages.extend(digest.iter().map(|(hash, digest)| Message::Prehash {
        context: b"context",
        hash: *hash,
        digest,
    }));
    let n = messages.len();
    for params in sets() {
        let cuda = selected_backend(8 << 20).unwrap();
        let seeds: Vec<_> = (0..n).map(|lane| [lane as u8 ^ 0x77; 32]).collect();
        let (pk, mut sk) = keygen(&cuda, params, &seeds);
        let rnd = vec![[9; 32]; n];
        let (sig, status) = sign(&cuda, params, Keys::Fresh(&sk), &messages, &rnd);
        assert_eq!(status[1], Status::InvalidInput);
        assert_eq!(status.iter().filter(|status| status.is_ok()).count(), n - 1);
        assert!(sig[params.sig_len()..][..params.sig_len()].iter().all(|&byte| byte == 0));
        let verified = verify(&cuda, params, &pk, &messages, &sig);
        assert_eq!(verified, status);
        // A bit of every part but K, which nothing can check: rho, tr, s1, s2, t0; s1 out of its range.
        let (s1, t0) = (128, params.sk_len() - 416 * params.k);
        let places = [0, 64, s1, t0 - 1, t0, params.sk_len() - 1];
        let mut bad = 0;
        for (lane, key) in sk.chunks_exact_mut(params.sk_len()).enumerate().skip(1) {
            match places.get(lane - 1) {
                Some(&place) => key[place] ^= 1,
                None if lane == places.len() + 1 => key[s1..s1 + 3].fill(0xff),
                None => continue,
            }
            bad += 1;
        }
        let (sig, status) = sign(&cuda, params, Keys::Fresh(&sk), &messages, &rnd);
        assert!(status[1..=bad].iter().all(|status| *status == Status::InvalidKey), "{status:?}");
        assert!(status[bad + 1..].iter().all(|status| status.is_ok()) && status[0].is_ok());
        assert!(sig[params.sig_len()..][..bad * params.sig_len()].iter().all(|&byte| byte == 0));
    }
}

#[test]
fn known_keys_verify() {
    let messages = [Message::Internal(b"formatted"); 5];
    for params in sets() {
        let cuda = selected_backend(64 << 20).unwrap();
        let (pk, mut sig) = make_signatures(params, &messages);
        sig[0] ^= 1;
        let keys: Vec<_> = pk
            .chunks_exact(params.pk_len())
            .map(|pk| VerifyKey::decode(&Portable, params, pk).unwrap())
            .collect();
        let keys: Vec<_> = keys.iter().collect();
        let dsa = Dsa::Verify { params, keys: Keys::Known(&keys), messages: &messages, sig: &sig };
        let (ran, status) = run(&cuda, dsa, 5);
        assert_eq!((ran, status[0]), (BatchOutcome::Done, Status::InvalidSignature));
        assert!(status[1..].iter().all(|status| status.is_ok()));
    }
}

#[test]
fn oversized_batches_and_key_expansion_are_declined() {
    let params = params(Algorithm::MlDsa44).unwrap();
    let cuda = selected_backend(400 << 10).unwrap();
    let (text, short) = (vec![1; 400 << 10], Message::Internal(b"short"));
    let (pk, sig) = make_signatures(params, &[short]);
    let messages = &[Message::Internal(&text)];
    let dsa = Dsa::Verify { params, keys: Keys::Fresh(&pk), messages, sig: &sig };
    let (ran, status) = run(&cuda, dsa, 1);
    assert_eq!((ran, status[0]), (BatchOutcome::Declined, Status::NotRun));
    let (sk, mut sig) = (vec![0; params.sk_len()], vec![1; params.sig_len()]);
    let keys = Keys::Fresh(&sk[..]);
    let dsa = Dsa::Sign { params, keys, messages, rnd: &[[0; 32]], sig: &mut sig };
    assert_eq!(run(&cuda, dsa, 1).0, BatchOutcome::Declined);
    assert!(sig.iter().all(|&byte| byte == 0));
    let tiny = selected_backend(10 << 10).unwrap();
    let (mut pk, mut sk) = (vec![0; params.pk_len()], vec![0; params.sk_len()]);
    let dsa = Dsa::Keygen { params, seeds: &[[1; 32]], pk: &mut pk, sk: &mut sk };
    assert_eq!(run(&tiny, dsa, 1).0, BatchOutcome::Declined);
    let mut keys = [VerifyKey::blank(params)];
    let dsa = Dsa::DecodePublic { params, bytes: &pk, keys: &mut keys };
    assert_eq!(run(&cuda, dsa, 1).0, BatchOutcome::Declined);
}
