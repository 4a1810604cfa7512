//! RSA keys.

use gabion_kms::model::{Capability, Conformance, VersionId};
use gabion_kms::operations::{
    Import, Kms, NewKey, SignRequest, StreamForm, StreamLen, StreamUse, VerifyRequest,
};
use gabion_kms::rsa::{Hash, PrivateKey, PublicKey, Scheme};
use gabion_kms::transport::Form;
use gabion_kms::{Code, Error, Message, Prehash, Signable};

use crate::verbs::{create, label, pure};

fn code<T>(result: Result<T, Error>) -> Code {
    result.err().unwrap().code()
}

fn new(name: &str, algorithm: &str) -> NewKey {
    let [tenant, purpose, name] = ["default", "transit", name].map(label);
    NewKey { tenant, purpose, name, algorithm: algorithm.parse().unwrap() }
}

/// The public key of a version, by what the service says of it.
fn public(kms: &Kms, id: &VersionId) -> PublicKey {
    let found = kms.publics(&id.key, id.version - 1, 1).unwrap();
    assert!(found[0].pem(&id.key).unwrap().starts_with("-----BEGIN PUBLIC KEY-----\n"));
    PublicKey::of_pkcs1(&found[0].bytes).unwrap()
}

#[test]
fn an_rsa_key_signs_and_encrypts_and_rotates() {
    let kms = Kms::in_memory().unwrap();
    let first = create(&kms, "r", "rsa-2048");
    assert_eq!(first.key.algorithm.does(), Capability::SignAndEncrypt);
    let key = public(&kms, &first);
    assert_eq!(key.bits(), 2048);

    // Where nothing is said: PSS, SHA-256, a salt as long as the digest.
    let signed = kms.sign(&first.key, None, pure(b"m")).unwrap();
    let usual = Scheme::Pss { hash: Hash::Sha256, salt: Some(32) };
    assert!(key.verify_digest(usual, &Hash::Sha256.digest(b"m"), &signed.signature));
    assert_eq!(kms.verify(&first, pure(b"m"), &signed.signature), Ok(true));
    assert_eq!(kms.verify(&first, pure(b"n"), &signed.signature), Ok(false));
    assert_eq!(code(kms.verify(&first, pure(b"m"), &signed.signature[1..])), Code::Malformed);
    let digest = Hash::Sha384.digest(b"m");
    let prehash = Message::Prehash { context: b"", hash: Prehash::Sha2_384, digest: &digest };
    let by_digest = kms.sign(&first.key, None, prehash).unwrap();
    assert_eq!(kms.verify(&first, prehash, &by_digest.signature), Ok(true));

    for scheme in [
        Scheme::Pkcs1 { hash: Hash::Sha384 },
        Scheme::Pss { hash: Hash::Sha384, salt: None },
        Scheme::Pss { hash: Hash::Sha384, salt: Some(0) },
    ] {
        let sign = |digest| kms.sign(&first.key, None, Signable::Digest { scheme, digest });
        let signed = sign(&digest).unwrap();
        assert!(key.verify_digest(scheme, &digest, &signed.signature));
        let signable = |scheme| Signable::Digest { scheme, digest: &digest };
        let verified = |scheme| kms.verify(&first, signable(scheme), &signed.signature);
        assert_eq!(verified(scheme), Ok(true));
        let other = Scheme::Pss { hash: Hash::Sha384, salt: Some(7) };
        assert_eq!(verified(other), Ok(false));
        assert_eq!(code(sign(&digest[1..])), Code::BadRequest);
    }
    let too_long = Scheme::Pss { hash: Hash::Sha384, salt: Some(300) };
    let too_long = Signable::Digest { scheme: too_long, digest: &digest };
    assert_eq!(code(kms.sign(&first.key, None, too_long)), Code::BadRequest);
    let context = Message::Pure { context: b"c", message: b"m" };
    assert_eq!(code(kms.sign(&first.key, None, context)), Code::Unsupported);
    let of = |hash, digest| Message::Prehash { context: b"", hash, digest };
    assert!(kms.sign(&first.key, None, of(Prehash::Sha3_256, &[0; 32])).is_ok());
    let shake = of(Prehash::Shake128, &[0; 32]);
    assert_eq!(code(kms.sign(&first.key, None, shake)), Code::Unsupported);

    // OAEP, whose label is the associated data.
    let made = kms.encrypt(&first.key, None, b"secret", b"row 7").unwrap();
    assert_eq!(made.ciphertext.len(), 256);
    assert_eq!(**kms.decrypt(&first, &made.ciphertext, b"row 7").unwrap(), *b"secret");
    assert_eq!(code(kms.decrypt(&first, &made.ciphertext, b"row 8")), Code::DecryptFailed);
    assert_eq!(code(kms.decrypt(&first, &made.ciphertext[1..], b"row 7")), Code::DecryptFailed);
    assert_eq!(code(kms.decrypt(&first, b"", b"row 7")), Code::DecryptFailed);
    assert_eq!(code(kms.decrypt(&first, &[0xff; 256], b"row 7")), Code::DecryptFailed);
    assert_eq!(code(kms.encrypt(&first.key, None, &[0; 191], b"")), Code::TooLarge);
    let wrapped = kms.wrap(&first.key, None, &[5; 32], b"").unwrap();
    assert_eq!(code(kms.decrypt(&first, &wrapped.ciphertext, b"")), Code::DecryptFailed);
    assert_eq!(*kms.unwrap(&first, &wrapped.ciphertext, b"").unwrap(), [5; 32]);

    let second = kms.rotate(&first.key).unwrap();
    assert_ne!(public(&kms, &second).bytes(), key.bytes());
    let again = kms.rewrap(&first, &made.ciphertext, b"row 7", None).unwrap();
    assert_eq!(again.by, second);
    assert_eq!(**kms.decrypt(&second, &again.ciphertext, b"row 7").unwrap(), *b"secret");
    assert_eq!(code(kms.hmac(&first.key, None, b"x")), Code::Unsupported);
    assert_eq!(code(kms.encaps(&first.key, None)), Code::Unsupported);
    let ed25519 = create(&kms, "e", "ed25519");
    let digest = Signable::Digest { scheme: usual, digest: &Hash::Sha256.digest(b"m") };
    assert_eq!(code(kms.sign(&ed25519.key, None, digest)), Code::Unsupported);
    assert_eq!(code(kms.verify(&ed25519, digest, &[0; 64])), Code::Unsupported);
}

#[test]
fn batches_have_rsa_among_others() {
    let kms = Kms::in_memory().unwrap();
    let keys = [create(&kms, "r", "rsa-2048"), create(&kms, "e", "ed25519")];
    let (scheme, digest) = (Scheme::Pkcs1 { hash: Hash::Sha256 }, &Hash::Sha256.digest(b"m")[..]);
    let digest = Signable::Digest { scheme, digest };
    let message = |text| Signable::Message(pure(text));
    let items =
        [(0, message(b"m")), (1, message(b"m")), (0, digest), (1, digest), (1, message(b"n"))].map(
            |(place, signable)| SignRequest { key: &keys[place].key, version: None, signable },
        );
    let answers = kms.sign_batch(&items);
    assert_eq!(code(answers[3].clone()), Code::Unsupported);
    let signed: Vec<_> = answers.into_iter().filter_map(Result::ok).collect();
    let by_rsa = &signed[2].signature;
    let bad = vec![0; 256];
    let items = [
        (0, message(b"m"), &signed[0].signature),
        (1, message(b"m"), &signed[1].signature),
        (0, digest, by_rsa),
        (1, message(b"n"), &signed[3].signature),
        (0, message(b"n"), &signed[0].signature),
        (0, message(b"m"), by_rsa),
        (0, digest, &bad),
        (0, message(b"m"), &signed[1].signature),
        (1, digest, &signed[1].signature),
    ]
    .map(|(place, signable, signature)| VerifyRequest {
        by: &keys[place],
        signable,
        signature,
    });
    let verdicts = kms.verify_batch(&items);
    assert_eq!(verdicts[..4], [Ok(true), Ok(true), Ok(true), Ok(true)]);
    assert_eq!(verdicts[4..7], [Ok(false), Ok(false), Ok(false)]);
    assert_eq!(code(verdicts[7].clone()), Code::Malformed);
    assert_eq!(code(verdicts[8].clone()), Code::Unsupported);
    // The same results as for single items.
    for (item, verdict) in items.iter().zip(&verdicts) {
        assert_eq!(&kms.verify(item.by, item.signable, item.signature), verdict);
    }
}

#[test]
fn rsa_keys_come_and_go_as_files() {
    let (kms, other) = (Kms::in_memory().unwrap(), Kms::in_memory().unwrap());
    let pair = PrivateKey::testing_only_of_seed(2048, [3; 32]).unwrap();
    let der = pair.pkcs8().unwrap();
    let id = kms.import(&new("a", "rsa-2048"), Import::Pkcs8(&der)).unwrap();
    assert_eq!(code(kms.import(&new("b", "rsa-2048"), Import::Raw(pair.bytes()))), Code::Exists);
    kms.allow_export(&id.key).unwrap();
    assert_eq!(*kms.export(&id, Form::Pkcs8).unwrap(), *der);
    assert_eq!(*kms.export(&id, Form::Raw).unwrap(), *pair.bytes());
    let spki = pair.public().spki().unwrap();
    let public = other.import(&new("a", "rsa-2048"), Import::Spki(&spki)).unwrap();
    let signed = kms.sign(&id.key, None, pure(b"m")).unwrap();
    assert_eq!(other.verify(&public, pure(b"m"), &signed.signature), Ok(true));
    assert_eq!(code(other.sign(&public.key, None, pure(b"m"))), Code::Unsupported);
    assert_eq!(code(other.rotate(&public.key)), Code::Unsupported);
    let made = other.encrypt(&public.key, None, b"x", b"").unwrap();
    assert_eq!(**kms.decrypt(&id, &made.ciphertext, b"").unwrap(), *b"x");
    assert_eq!(code(other.decrypt(&public, &made.ciphertext, b"")), Code::Unsupported);

    let mut torn = der.to_vec();
    let last = torn.len() - 1;
    torn[last] ^= 1;
    for (algorithm, import) in [
        ("rsa-3072", Import::Pkcs8(&der)),
        ("rsa-2048", Import::Pkcs8(&der[1..])),
        ("rsa-2048", Import::Pkcs8(&torn)),
        ("rsa-2048", Import::Pkcs8(pair.bytes())),
        ("rsa-2048", Import::Raw(&der)),
        ("rsa-2048", Import::Raw(b"")),
        ("rsa-4096", Import::Public(pair.public().bytes())),
        ("rsa-2048", Import::Public(b"x")),
        ("rsa-2048", Import::Spki(&spki[..100])),
        ("ed25519", Import::Spki(&spki)),
        ("ed25519", Import::Pkcs8(&der)),
    ] {
        assert_eq!(code(kms.import(&new("x", algorithm), import)), Code::BadRequest, "{algorithm}");
    }
}

/// With the label, salts of up to 222 bytes were taken (FIPS 186-5, 5.4: as long as the digest at
/// most), and that was the default of Vault's paths.
#[test]
fn a_conforming_key_signs_with_salts_that_the_standard_has() {
    let kms = Kms::in_memory().unwrap();
    let id = kms.create_conforming(&new("r", "rsa-2048"), &[Conformance::FipsAlg].into()).unwrap();
    let hash = Hash::Sha256;
    let digest = hash.digest(b"m");
    let pss = |salt| Scheme::Pss { hash, salt };
    let sign = |scheme| kms.sign(&id.key, None, Signable::Digest { scheme, digest: &digest });
    let stream = |scheme| {
        let form = StreamForm { rsa: Some(scheme), ..StreamForm::default() };
        let len = StreamLen { of_message: None, whole_max: 1 };
        kms.stream(&id.key, None, StreamUse::Sign, form, len)
    };
    for salt in [33, 64, 222] {
        assert_eq!(code(sign(pss(Some(salt)))), Code::Unsupported);
        assert_eq!(code(stream(pss(Some(salt)))), Code::Unsupported);
    }
    for (asked, made) in [(Some(0), 0), (Some(32), 32), (None, 32)] {
        let mut came = stream(pss(asked)).unwrap();
        came.add(b"m").unwrap();
        for signed in [sign(pss(asked)), kms.sign_stream(&came)] {
            let signed = signed.unwrap().signature;
            let signable = Signable::Digest { scheme: pss(Some(made)), digest: &digest };
            assert_eq!(kms.verify(&id, signable, &signed), Ok(true));
        }
    }
    assert!(sign(Scheme::Pkcs1 { hash }).is_ok());
}

/// The digest is as strong as the parameter set (FIPS 204, 5.4), in each way in which it can come.
#[test]
fn a_conforming_key_signs_digests_that_are_strong_enough() {
    let kms = Kms::in_memory().unwrap();
    let id = kms.create_conforming(&new("m", "ml-dsa-87"), &[Conformance::FipsAlg].into()).unwrap();
    for hash in Prehash::all() {
        let is_taken = matches!(hash, Prehash::Sha2_512 | Prehash::Sha3_512 | Prehash::Shake256);
        let digest = vec![7; hash.digest_len()];
        let message = Message::Prehash { context: b"", hash, digest: &digest };
        let item = SignRequest { key: &id.key, version: None, signable: message.into() };
        let form = StreamForm { hash: Some(hash), ..StreamForm::default() };
        let len = StreamLen { of_message: None, whole_max: 1 };
        for done in [
            kms.sign(&id.key, None, message).map(drop),
            kms.sign_batch(&[item, item]).remove(1).map(drop),
            kms.stream(&id.key, None, StreamUse::Sign, form, len).map(drop),
        ] {
            let code = done.err().map(|error| error.code());
            assert_eq!(code, (!is_taken).then_some(Code::Unsupported), "{}", hash.name());
        }
    }
}
