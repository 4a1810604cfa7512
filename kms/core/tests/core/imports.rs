//! Keys that come from elsewhere, and keys that go there.

use gabion_engine::key_file::{FileForm, encode_private};
use gabion_engine::keys::PrivateKey;
use gabion_engine::{Algorithm, Engine, OsEntropy};
use gabion_kms::model::VersionId;
use gabion_kms::operations::{Import, Kms, NewKey};
use gabion_kms::transport::Form;
use gabion_kms::{Code, Error};

use crate::verbs::{create, label, pure};

fn new(name: &str, algorithm: &str) -> NewKey {
    let [tenant, purpose, name] = ["default", "transit", name].map(label);
    NewKey { tenant, purpose, name, algorithm: algorithm.parse().unwrap() }
}

fn code<T>(result: Result<T, Error>) -> Code {
    result.err().unwrap().code()
}

/// Whether a key does what another one made, and the other way round.
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
fn what_is_exported_is_imported_again_as_the_same_key() {
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
        // A key of the same tenant is refused where the public half tells; symmetric ones are beside each other.
        let again = here.import(&new(&format!("{name}-again"), name), Import::Raw(&raw));
        match again {
            Ok(again) => assert!(is_secret && are_the_same(&here, &id, &again)),
            Err(error) => assert!(!is_secret && error.code() == Code::Exists, "{error}"),
        }
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
    let other = kms.import(&new("b", "hmac-sha-256"), Import::Raw(&[7; 32])).unwrap();
    let tag = kms.hmac(&other.key, None, b"x").unwrap().tag;
    assert_eq!(kms.verify_hmac(&first, b"x", &tag), Ok(false));
    assert_eq!(kms.verify_hmac(&second, b"x", &tag), Ok(true));
}

#[test]
fn what_can_not_be_the_key_is_refused() {
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
        // A point of small order.
        ("ed25519", Import::Public(&[0; 32])),
    ] {
        let refused = kms.import(&new("a", algorithm), import);
        assert_eq!(code(refused), Code::BadRequest, "{algorithm}");
    }
    assert_eq!(code(kms.find(&label("default"), &label("a"))), Code::NotFound);
}

/// A public key that somebody brought stays somebody else's: no version is made here that would sign in its name.
#[test]
fn whoever_has_the_private_half_rotates_a_public_key() {
    let (here, there) = (Kms::in_memory().unwrap(), Kms::in_memory().unwrap());
    for name in ["ed25519", "ml-kem-768"] {
        let first = create(&there, name, name).key;
        there.rotate(&first).unwrap();
        let publics = there.publics(&first, 0, 2).unwrap();
        let brought = |n: usize| Import::Public(&publics[n].bytes);
        let id = here.import(&new(name, name), brought(0)).unwrap().key;
        let refused = here.rotate(&id).err().unwrap();
        assert_eq!(refused.code(), Code::Unsupported);
        assert!(refused.to_string().contains("brings the next version"), "{refused}");
        assert_eq!(here.import_version(&id, brought(1)).unwrap().version, 2);
        assert_eq!(code(here.rotate(&id)), Code::Unsupported);
    }
}
