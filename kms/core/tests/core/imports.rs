//! Keys that come from elsewhere, and keys that go there.

use gabion_engine::key_file::{FileForm, encode_private};
use gabion_engine::keys::PrivateKey;
use gabion_engine::{Algorithm, Engine, OsEntropy};
use gabion_kms::model::{Conformance, VersionId};
use gabion_kms::operations::{Import, Kms, NewKey};
use gabion_kms::transport::Form;
use gabion_kms::{Code, Error, Prehash};
use rsa::pkcs1::EncodeRsaPrivateKey;
use rsa::{BoxedUint, RsaPrivateKey};

use crate::verbs::{create, label, pure};

fn new(name: &str, algorithm: &str) -> NewKey {
    let [tenant, purpose, name] = ["default", "transit", name].map(label);
    NewKey { tenant, purpose, name, algorithm: algorithm.parse().unwrap() }
}

fn code<T>(result: Result<T, Error>) -> Code {
    result.err().unwrap().code()
}

/// Returns whether two keys are the same, by using each with the other's output.
fn are_the_same(kms: &Kms, a: &VersionId, b: &VersionId) -> bool {
    match a.key.algorithm.to_string().as_str() {
        name if name.starts_with("ml-kem") => {
            let made = kms.encaps(&a.key, None).unwrap();
            kms.decaps(b, &made.ciphertext).unwrap() == made.secret
        }
        name if name.starts_with("hmac") => {
            let tagged = kms.hmac(&a.key, None, b"x").unwrap();
            kms.verify_hmac(b, b"x", &tagged.tag).unwrap()
        }
        name if name.contains("gcm") || name.contains("poly") => {
            let made = kms.encrypt(&a.key, None, b"x", b"").unwrap();
            kms.decrypt(b, &made.ciphertext, b"").is_ok_and(|plain| **plain == *b"x")
        }
        _ => {
            let signed = kms.sign(&a.key, None, pure(b"x")).unwrap();
            kms.verify(b, pure(b"x"), &signed.signature).unwrap()
        }
    }
}

#[test]
fn exported_key_is_reimported_unchanged() {
    let (here, there) = (Kms::in_memory().unwrap(), Kms::in_memory().unwrap());
    for name in [
        "ed25519",
        "ml-dsa-65",
        "ecdsa-p-256",
        "slh-dsa-shake-128f",
        "ml-kem-768",
        "xaes-256-gcm",
        "aes256-gcm96",
        "chacha20-poly1305",
        "hmac-sha-512",
    ] {
        let id = create(&here, name, name);
        assert_eq!(code(here.export(&id, Form::Raw)), Code::NotExportable);
        here.allow_export(&id.key).unwrap();
        let raw = here.export(&id, Form::Raw).unwrap();
        let is_secret = id.key.algorithm.symmetric().is_some();
        let pkcs8 = here.export(&id, Form::Pkcs8);
        assert_eq!(pkcs8.is_err(), is_secret, "{name}");
        // No second key of the tenant has it.
        let again = here.import(&new(&format!("{name}-again"), name), Import::Raw(&raw));
        assert_eq!(again.err(), Some(Error::Duplicate(Some(id.to_string()))));
        let by_raw = there.import(&new(name, name), Import::Raw(&raw)).unwrap();
        assert!(are_the_same(&there, &by_raw, &by_raw));
        let Ok(pkcs8) = pkcs8 else { continue };
        there.delete(&by_raw.key).unwrap();
        assert_eq!(code(there.import(&new("other", name), Import::Pkcs8(&pkcs8))), Code::Exists);
        there.destroy(&by_raw.key).unwrap();
        let by_file = there.import(&new(name, name), Import::Pkcs8(&pkcs8)).unwrap();
        assert!(are_the_same(&there, &by_file, &by_file));
        there.allow_export(&by_file.key).unwrap();
        assert_eq!(there.export(&by_file, Form::Raw).unwrap(), raw);
    }
}

#[test]
fn a_public_key_alone_verifies_and_encapsulates() {
    let (owner, other) = (Kms::in_memory().unwrap(), Kms::in_memory().unwrap());
    let engine = Engine::global().unwrap();
    for (name, algorithm) in
        [("ml-dsa-44", Algorithm::MlDsa44), ("ml-kem-512", Algorithm::MlKem512)]
    {
        let pair = PrivateKey::generate(engine, algorithm, &OsEntropy).unwrap();
        let form = FileForm::of(algorithm).unwrap();
        let der = encode_private(form, &pair.forms(), true).unwrap();
        let private = owner.import(&new(name, name), Import::Pkcs8(&der)).unwrap();
        let public = other.import(&new(name, name), Import::Public(pair.public_bytes())).unwrap();
        other.allow_export(&public.key).unwrap();
        assert_eq!(code(other.export(&public, Form::Raw)), Code::Unsupported);
        let tag = other.hmac_by(&public.key, None, Prehash::Sha2_256, b"x");
        assert_eq!(code(tag), Code::Unsupported);
        if name == "ml-kem-512" {
            let made = other.encaps(&public.key, None).unwrap();
            assert!(owner.decaps(&private, &made.ciphertext).unwrap() == made.secret);
            assert_eq!(code(other.decaps(&public, &made.ciphertext)), Code::Unsupported);
        } else {
            let signed = owner.sign(&private.key, None, pure(b"x")).unwrap();
            assert_eq!(other.verify(&public, pure(b"x"), &signed.signature), Ok(true));
            assert_eq!(code(other.sign(&public.key, None, pure(b"x"))), Code::Unsupported);
        }
    }
}

#[test]
fn versions_are_imported_behind_those_that_there_are() {
    let kms = Kms::in_memory().unwrap();
    let first = create(&kms, "a", "hmac-sha-256");
    let second = kms.import_version(&first.key, Import::Raw(&[7; 32])).unwrap();
    assert_eq!((second.version, kms.describe(&first.key).unwrap().latest), (2, 2));
    let there = Kms::in_memory().unwrap();
    let other = there.import(&new("b", "hmac-sha-256"), Import::Raw(&[7; 32])).unwrap();
    let tag = there.hmac(&other.key, None, b"x").unwrap().tag;
    assert_eq!(kms.verify_hmac(&first, b"x", &tag), Ok(false));
    assert_eq!(kms.verify_hmac(&second, b"x", &tag), Ok(true));
}

#[test]
fn mismatched_import_material_is_refused() {
    let kms = Kms::in_memory().unwrap();
    let engine = Engine::global().unwrap();
    let der = |algorithm: Algorithm| {
        let pair = PrivateKey::generate(engine, algorithm, &OsEntropy).unwrap();
        encode_private(FileForm::of(algorithm).unwrap(), &pair.forms(), true).unwrap()
    };
    let ml_dsa = der(Algorithm::MlDsa44);
    // Seed and expanded key are both there, and the expanded one's last byte is another.
    let mut torn = ml_dsa.clone();
    *torn.last_mut().unwrap() ^= 1;
    let ed25519 = der(Algorithm::Ed25519);
    for (algorithm, import) in [
        ("ml-dsa-44", Import::Pkcs8(&torn)),
        ("ml-dsa-44", Import::Pkcs8(&ml_dsa[1..])),
        ("ml-dsa-65", Import::Pkcs8(&ml_dsa)),
        ("ml-dsa-44", Import::Pkcs8(&ed25519)),
        ("ml-dsa-44", Import::Raw(&[1; 31])),
        ("ml-dsa-44", Import::Public(&[1; 31])),
        ("xaes-256-gcm", Import::Raw(&[1; 31])),
        ("xaes-256-gcm", Import::Public(&[1; 32])),
        ("xaes-256-gcm", Import::Pkcs8(&ed25519)),
        ("hmac-sha-256", Import::Raw(&[1; 15])),
        ("hmac-sha-256", Import::Raw(&[1; 513])),
        ("xaes-256-gcm", Import::Raw(&[0; 32])),
        ("hmac-sha-512", Import::Raw(&[0; 64])),
        // A point of small order.
        ("ed25519", Import::Public(&[0; 32])),
    ] {
        let refused = kms.import(&new("a", algorithm), import);
        assert_eq!(code(refused), Code::BadRequest, "{algorithm}");
    }
    assert_eq!(code(kms.find(&label("default"), &label("a"))), Code::NotFound);
}

/// An imported public key belongs to another party: no version is generated here that would sign in
/// its name.
#[test]
fn a_public_key_is_rotated_by_importing_its_private_half() {
    let (here, there) = (Kms::in_memory().unwrap(), Kms::in_memory().unwrap());
    for name in ["ed25519", "ml-kem-768"] {
        let first = create(&there, name, name).key;
        there.rotate(&first).unwrap();
        let publics = there.publics(&first, 0, 2).unwrap();
        let brought = |n: usize| Import::Public(&publics[n].bytes);
        let id = here.import(&new(name, name), brought(0)).unwrap().key;
        let refused = here.rotate(&id).err().unwrap();
        assert_eq!(refused.code(), Code::Unsupported);
        assert!(refused.to_string().contains("import the next version"), "{refused}");
        assert_eq!(here.import_version(&id, brought(1)).unwrap().version, 2);
        assert_eq!(code(here.rotate(&id)), Code::Unsupported);
    }
}

/// One AES key under two names had two counters of its 2^32 messages.
#[test]
fn a_symmetric_key_is_imported_once() {
    let kms = Kms::in_memory().unwrap();
    let raw = |byte: u8, len: usize| vec![byte; len];
    let first = kms.import(&new("a", "aes256-gcm96"), Import::Raw(&raw(1, 32))).unwrap();
    let duplicate = Some(Error::Duplicate(Some(first.to_string())));
    // By another name, algorithm or version, and with the zeros that HMAC appends.
    let mut padded = raw(1, 32);
    padded.extend([0; 9]);
    for (algorithm, raw) in
        [("aes256-gcm96", raw(1, 32)), ("xaes-256-gcm", raw(1, 32)), ("hmac-sha-256", padded)]
    {
        assert_eq!(kms.import(&new("b", algorithm), Import::Raw(&raw)).err(), duplicate);
    }
    let other = kms.import(&new("c", "aes256-gcm96"), Import::Raw(&raw(2, 32))).unwrap();
    assert_eq!(kms.import_version(&other.key, Import::Raw(&raw(1, 32))).err(), duplicate);
    assert_eq!(code(kms.import_version(&first.key, Import::Raw(&raw(1, 32)))), Code::Exists);
    // Another tenant's is its own.
    let theirs = NewKey { tenant: label("other"), ..new("a", "aes256-gcm96") };
    kms.import(&theirs, Import::Raw(&raw(1, 32))).unwrap();
    // A key that was made here, and a key that was destroyed.
    let made = create(&kms, "made", "hmac-sha-256");
    kms.allow_export(&made.key).unwrap();
    let exported = kms.export(&made, Form::Raw).unwrap();
    assert_eq!(code(kms.import(&new("d", "hmac-sha-256"), Import::Raw(&exported))), Code::Exists);
    kms.delete(&made.key).unwrap();
    kms.destroy(&made.key).unwrap();
    kms.import(&new("d", "hmac-sha-256"), Import::Raw(&exported)).unwrap();
}

/// RSAPrivateKey of two factors, as DER.
fn pkcs1(p: &str, q: &str) -> Vec<u8> {
    let factor = |hex: &str| {
        BoxedUint::from_be_slice(&base16ct::lower::decode_vec(hex).unwrap(), 1024).unwrap()
    };
    let key = RsaPrivateKey::from_p_q(factor(p), factor(q), BoxedUint::from(65537u32)).unwrap();
    key.to_pkcs1_der().unwrap().as_bytes().to_vec()
}

/// RSA keys with easily factored moduli were accepted, with the label `fips-alg`.
#[test]
fn rsa_keys_that_are_easily_factored_are_refused() {
    let kms = Kms::in_memory().unwrap();
    let import = |p: &str, q: &str, labels: &[Conformance]| {
        let labels = labels.iter().copied().collect();
        let der = pkcs1(p, q);
        let new = new("k", "rsa-2048");
        let done = kms.import_conforming(&new, Import::Raw(&der), true, &labels);
        if let Ok(id) = &done {
            kms.delete(&id.key).unwrap();
            kms.destroy(&id.key).unwrap();
        }
        done.map(drop).map_err(|error| (error.code(), error.to_string()))
    };
    let fips = [Conformance::FipsAlg];
    assert_eq!(import(P, Q, &fips), Ok(()));
    assert_eq!(import(P, FAR, &fips), Ok(()), "|p - q| of 925 bits");
    for (p, q, says) in [
        (P, CLOSE, "too close"),
        (CLOSE, P, "too close"),
        (P, NEAR, "too close"),
        (CARMICHAEL, Q, "not prime"),
        (Q, CARMICHAEL, "not prime"),
    ] {
        let (code, text) = import(p, q, &[]).unwrap_err();
        assert!(code == Code::BadRequest && text.contains(says), "{text}");
    }
    // A prime that is smaller than the standard has it.
    assert_eq!(import(LOW, HIGH, &[]), Ok(()));
    let (code, text) = import(LOW, HIGH, &fips).unwrap_err();
    assert!(code == Code::Unsupported && text.contains("too small"), "{text}");
}

// Made by a script with Python's integers. CLOSE is the prime after P, |P - NEAR| has 923 bits and
// |P - FAR| 925, LOW is below 2^1023.5, and CARMICHAEL = (6k+1)(12k+1)(18k+1) of three primes.
const P: &str = "e170b33839263059f28c105d1fb17c2390c192cfd3ac94af0f21ddb66cad4a268d116ece1738f7d93d9c172411e20b8f\
    6b0d549b6f03675a1600a35a099950d836f675cc81e74ef5e8e25d940ed904759531985d5d9dc9f81818e811892f902b\
    d23f0824128b2f330c5c7fd0a6a3a4506513270e269e0d37f2a74de452e6b473";
const Q: &str = "c25e114fff18fe335534a034e8009d9073f6e53d3853933d8ce621ef7f405bc8cfd3dd72e7ecfd0c8027a2a235372235\
    133e6153296259c8a4a915d02ad64ce91ea7722864f54969ab3b74fe8eaca2887bb1d1244d039b723d1926aca7ef4f5d\
    67fd5499429a7079a71f11b2f9ee8bc8bd1e6912bd313bee41785bc64c3accc5";
const CLOSE: &str = "e170b33839263059f28c105d1fb17c2390c192cfd3ac94af0f21ddb66cad4a268d116ece1738f7d93d9c172411e20b8f\
    6b0d549b6f03675a1600a35a099950d836f675cc81e74ef5e8e25d940ed904759531985d5d9dc9f81818e811892f902b\
    d23f0824128b2f330c5c7fd0a6a3a4506513270e269e0d37f2a74de452e6b6cb";
const NEAR: &str = "e170b33839263059f28c105d17b17c2390c192cfd3ac94af0f21ddb66cad4a268d116ece1738f7d93d9c172411e20b8f\
    6b0d549b6f03675a1600a35a099950d836f675cc81e74ef5e8e25d940ed904759531985d5d9dc9f81818e811892f902b\
    d23f0824128b2f330c5c7fd0a6a3a4506513270e269e0d37f2a74de452e6b4ed";
const FAR: &str = "e170b33839263059f28c105cffb17c2390c192cfd3ac94af0f21ddb66cad4a268d116ece1738f7d93d9c172411e20b8f\
    6b0d549b6f03675a1600a35a099950d836f675cc81e74ef5e8e25d940ed904759531985d5d9dc9f81818e811892f902b\
    d23f0824128b2f330c5c7fd0a6a3a4506513270e269e0d37f2a74de452e6b777";
const LOW: &str = "8820312e4f8b21c04eeca87e068796a13ea88e1cad6c1ffeb91c0e0c1ec6b5b5c8b2251ed4f0d4824600084ccffd3a77\
    c0618cd3a9e2b6ba963c84826265f8891c3ca02a306824adb7f1ceabe6a0d19165ae9044e006290cafe1411aeec0354d\
    0508da0e79b4fde5c308ec62f774b41fa933235fc5b3181b2e5e7e49458f8f2d";
const HIGH: &str = "ff00003c6df5dac7d6b2c34cee179543957c04a344087e9da391b1a9ce2bcf2c6f6075e23686466b2a403f423e5ac088\
    e82ec2399a87034eb254e219f08f1a376d1852619803e4c043a8e0021369dae3a8088826ccdebb8469f366193b3b4ffa\
    e3f0805bd2b631ccd3c8679f6692d30522af4d2c778efce4bdf79206fac14ea9";
const CARMICHAEL: &str = "da9c90671f9c1feb6f1905909a08434820836a3442d48671a21c5c3675c7a9e6326c6b6c8ea791317066c94d54cb2604\
    4345df5d0dcf83f9cb8adf3b426ebf712f2a2b844dc065595b762a9557bae992196695f9566b9bb45205615623429f9d\
    22680561328746de5ad3f5defa20931b15b0b8c02244d986966f5a1016f2f881";
