//! Keys that encrypt and make tags.

use std::sync::Arc;

use gabion_kms::model::{Minimum, State, VersionId};
use gabion_kms::operations::{Kms, Options};
use gabion_kms::seal::{AuthenticatedStore, Sealer, Shares, Slots, UnsealMethod, init, unseal};
use gabion_kms::store::{MemoryStore, Outcome, Record, RecordPath, Store, Transaction};
use gabion_kms::{Code, Error, Prehash};

use crate::seals::adopted;
use crate::verbs::{create, pure};

const AEADS: [&str; 3] = ["xaes-256-gcm", "aes256-gcm96", "chacha20-poly1305"];

fn code<T>(result: Result<T, Error>) -> Code {
    result.err().unwrap().code()
}

#[test]
fn ciphertext_decrypts_only_with_its_version() {
    let kms = Kms::in_memory().unwrap();
    for name in AEADS {
        let first = create(&kms, name, name);
        let old = kms.encrypt(&first.key, None, b"secret", b"beside").unwrap();
        assert_eq!(old.by, first);
        let second = kms.rotate(&first.key).unwrap();
        let new = kms.rewrap(&first, &old.ciphertext, b"beside", None).unwrap();
        assert_eq!(new.by, second);
        for encrypted in [&old, &new] {
            let plain = kms.decrypt(&encrypted.by, &encrypted.ciphertext, b"beside").unwrap();
            assert_eq!(&**plain, b"secret");
        }
        // One error, whatever is wrong.
        let mut other = old.ciphertext.clone();
        *other.last_mut().unwrap() ^= 1;
        for (by, ciphertext, beside) in [
            (&first, &other[..], &b"beside"[..]),
            (&first, &old.ciphertext, b"besid"),
            (&second, &old.ciphertext, b"beside"),
            (&first, &old.ciphertext[1..], b"beside"),
            (&first, b"", b"beside"),
        ] {
            let failed = kms.decrypt(by, ciphertext, beside);
            assert_eq!(failed.err(), Some(Error::DecryptFailed));
            assert_eq!(code(kms.rewrap(by, ciphertext, beside, None)), Code::DecryptFailed);
        }
        // Old versions decrypt until they may not, and don't encrypt unless they may.
        assert_eq!(code(kms.encrypt(&first.key, Some(1), b"", b"")), Code::VersionNotAllowed);
        kms.set_minimum(&first.key, Minimum::Sign, 1).unwrap();
        assert_eq!(kms.encrypt(&first.key, Some(1), b"", b"").unwrap().by, first);
        kms.set_minimum(&first.key, Minimum::Decrypt, 2).unwrap();
        let refused = kms.decrypt(&first, &old.ciphertext, b"beside");
        assert_eq!(code(refused), Code::VersionNotAllowed);
        kms.set_state(&first.key, 2, State::Disabled).unwrap();
        assert_eq!(code(kms.encrypt(&first.key, None, b"", b"")), Code::VersionDisabled);
    }
}

#[test]
fn tags_are_made_and_verified() {
    let kms = Kms::in_memory().unwrap();
    for (name, len) in [("hmac-sha-256", 32), ("hmac-sha-384", 48), ("hmac-sha-512", 64)] {
        let id = create(&kms, name, name);
        let tagged = kms.hmac(&id.key, None, b"text").unwrap();
        assert_eq!((&tagged.by, tagged.tag.len()), (&id, len));
        assert_eq!(kms.hmac(&id.key, None, b"text").unwrap(), tagged);
        assert_eq!(kms.verify_hmac(&id, b"text", &tagged.tag), Ok(true));
        assert_eq!(kms.verify_hmac(&id, b"texts", &tagged.tag), Ok(false));
        assert_eq!(code(kms.verify_hmac(&id, b"text", &tagged.tag[1..])), Code::Malformed);
        kms.rotate(&id.key).unwrap();
        assert_ne!(kms.hmac(&id.key, None, b"text").unwrap().tag, tagged.tag);
        assert_eq!(kms.verify_hmac(&id, b"text", &tagged.tag), Ok(true));
    }
}

/// A version of any key has keys for tags, which are derived from its secret and go with it.
#[test]
fn every_key_makes_tags_by_a_derived_key() {
    let kms = Kms::in_memory().unwrap();
    for name in ["xaes-256-gcm", "ed25519", "ml-kem-512", "ml-dsa-44", "ecdsa-p-256", "rsa-2048"] {
        let id = create(&kms, name, name);
        let tag = |version| kms.hmac_by(&id.key, version, Prehash::Sha3_256, b"text");
        let tagged = tag(None).unwrap();
        assert_eq!((&tagged.by, tagged.tag.len()), (&id, 32));
        assert_eq!(tag(None).unwrap(), tagged);
        let verify = |text: &[u8]| kms.verify_hmac_by(&id, Prehash::Sha3_256, text, &tagged.tag);
        assert_eq!((verify(b"text"), verify(b"texts")), (Ok(true), Ok(false)));
        let other_hash = kms.verify_hmac_by(&id, Prehash::Sha2_256, b"text", &tagged.tag);
        assert_eq!(other_hash, Ok(false));
        assert_eq!(code(kms.hmac_by(&id.key, None, Prehash::Shake256, b"")), Code::Unsupported);
        kms.rotate(&id.key).unwrap();
        assert_ne!(tag(None).unwrap().tag, tagged.tag);
        assert_eq!(verify(b"text"), Ok(true));
        assert_eq!(code(tag(Some(1))), Code::VersionNotAllowed);
        kms.set_minimum(&id.key, Minimum::Verify, 2).unwrap();
        assert_eq!(code(verify(b"text")), Code::VersionNotAllowed);
        // The path of this service itself asks for a key of that type.
        assert_eq!(code(kms.hmac(&id.key, None, b"text")), Code::Unsupported);
        kms.set_state(&id.key, 2, State::Disabled).unwrap();
        assert_eq!(code(tag(None)), Code::VersionDisabled);
    }
    // A key for tags has one hash, and its own bytes.
    let id = create(&kms, "tags", "hmac-sha-384");
    let by = |hash| kms.hmac_by(&id.key, None, hash, b"text");
    assert_eq!(by(Prehash::Sha2_384), kms.hmac(&id.key, None, b"text"));
    assert_eq!(code(by(Prehash::Sha2_256)), Code::Unsupported);
}

#[test]
fn keys_do_what_their_algorithm_does_and_nothing_else() {
    let kms = Kms::in_memory().unwrap();
    let [aead, mac, signer, kem] = ["xaes-256-gcm", "hmac-sha-256", "ed25519", "ml-kem-512"]
        .map(|name| create(&kms, name, name));
    for id in [&aead, &mac, &signer, &kem] {
        let key = &id.key;
        let is = |other: &VersionId| id.key == other.key;
        let kind = |result: Result<(), Error>| result.err().map(|error| error.code());
        let refused = |may: bool| if may { None } else { Some(Code::Unsupported) };
        assert_eq!(kind(kms.sign(key, None, pure(b"x")).map(drop)), refused(is(&signer)));
        assert_eq!(kind(kms.encrypt(key, None, b"x", b"").map(drop)), refused(is(&aead)));
        assert_eq!(kind(kms.hmac(key, None, b"x").map(drop)), refused(is(&mac)));
        assert_eq!(kind(kms.encaps(key, None).map(drop)), refused(is(&kem)));
        assert_eq!(kind(kms.datakey(key, 32, b"").map(drop)), refused(is(&aead)));
        kms.attest(key, "nonce").unwrap();
    }
    assert_eq!(code(kms.verify(&mac, pure(b"x"), &[0; 64])), Code::Unsupported);
    assert_eq!(code(kms.decrypt(&kem, &[0; 64], b"")), Code::Unsupported);
    assert_eq!(code(kms.decaps(&aead, &[0; 64])), Code::Unsupported);
    assert_eq!(code(kms.verify_hmac(&signer, b"x", &[0; 64])), Code::Unsupported);
}

#[test]
fn random_bytes_and_keys_for_data_are_drawn() {
    let kms = Kms::in_memory().unwrap();
    let id = create(&kms, "a", "xaes-256-gcm").key;
    for len in [16, 32, 64] {
        let datakey = kms.datakey(&id, len, b"beside").unwrap();
        assert_eq!(datakey.plain.len(), len);
        let again = kms.decrypt(&datakey.encrypted.by, &datakey.encrypted.ciphertext, b"beside");
        assert_eq!(again.unwrap(), datakey.plain);
        assert_ne!(kms.datakey(&id, len, b"beside").unwrap().plain, datakey.plain);
    }
    assert_eq!(code(kms.datakey(&id, 33, b"")), Code::BadRequest);
    assert_ne!(kms.random(32).unwrap(), kms.random(32).unwrap());
    assert_eq!(kms.random(0).unwrap().len(), 0);
    assert_eq!(kms.random(128 << 10).unwrap().len(), 128 << 10);
    assert_eq!(code(kms.random((128 << 10) + 1)), Code::TooLarge);
    let line = r#"kms_ops_total{op="random",alg="none"} 5"#;
    assert!(kms.metrics().text().lines().any(|found| found == line));
}

/// Random nonces of 96 bits are counted before they are used, across restarts, and run out.
#[test]
fn messages_under_short_nonces_are_counted_and_run_out() {
    let store = Arc::new(MemoryStore::new());
    let slots = Slots { recovery: Shares { shares: 1, threshold: 1 }, passphrase: None };
    let (_, shares) = adopted(&*store, init(&*store, &slots));
    let sealer = || unseal(&*store, UnsealMethod::Shares(&shares)).unwrap();
    let kms = || {
        let store = Arc::clone(&store) as Arc<dyn Store>;
        Kms::new(store, sealer(), Options::default()).unwrap()
    };
    for name in ["aes256-gcm96", "chacha20-poly1305", "xaes-256-gcm"] {
        let id = create(&kms(), name, name).key;
        let path = RecordPath::new(format!("versions/default/{}/0000000001", id.uuid)).unwrap();
        let read = || store.read(std::slice::from_ref(&path)).unwrap().records.remove(0).unwrap();
        // The number stands at the end of the version's record.
        let opened = || {
            let (generation, value) = (read().generation, read().value.unwrap());
            (sealer().open(&path, generation, &value).unwrap().to_vec(), generation)
        };
        let counted = || {
            let (plain, generation) = opened();
            (u64::from_le_bytes(*plain.last_chunk().unwrap()), generation)
        };
        let block = |n: u64| (n << 14, n + 1);
        for round in 1..=2 {
            let kms = kms();
            for _ in 0..3 {
                kms.encrypt(&id, None, b"x", b"").unwrap();
            }
            // A process that ends loses its block, and no message is encrypted without one.
            match name {
                "xaes-256-gcm" => assert_eq!(opened().1, 1),
                _ => assert_eq!(counted(), block(round)),
            }
        }
        if name == "xaes-256-gcm" {
            continue;
        }
        let last = (1_u64 << 32) - (1 << 14);
        set(&*store, sealer(), &path, |plain| {
            let keys = plain.len() - 8;
            [&plain[..keys], &last.to_le_bytes()].concat()
        });
        let kms = kms();
        assert_eq!(code(kms.encrypt(&id, None, b"x", b"")), Code::VersionExhausted);
        assert_eq!(code(kms.datakey(&id, 32, b"")), Code::VersionExhausted);
        // Another version begins anew, and the records go with the key.
        kms.rotate(&id).unwrap();
        kms.encrypt(&id, None, b"x", b"").unwrap();
        kms.delete(&id).unwrap();
        kms.destroy(&id).unwrap();
        assert_eq!(read().value, None);
    }
}

/// Writes a record by its seal, as the service would.
fn set(
    store: &dyn Store,
    sealer: Sealer,
    path: &RecordPath,
    change: impl FnOnce(&[u8]) -> Vec<u8>,
) {
    let sealer = Arc::new(sealer);
    let records = AuthenticatedStore::open(store, sealer.clone()).unwrap();
    let record = records.read(std::slice::from_ref(path)).unwrap().records.remove(0);
    let (before, plain) = record.map_or((0, Vec::new()), |Record { generation, value }| {
        (generation, sealer.open(path, generation, &value.unwrap()).unwrap().to_vec())
    });
    let sealed = sealer.seal(path, before + 1, &change(&plain)).unwrap();
    let put = Transaction::new().put(path.clone(), before, sealed);
    assert!(matches!(records.commit(&put).unwrap(), Outcome::Committed(_)));
}

/// A version that an older program made has no number itself, and goes on from the record that it
/// was counted in.
#[test]
fn nonce_counters_of_older_versions_are_kept() {
    let store = Arc::new(MemoryStore::new());
    let slots = Slots { recovery: Shares { shares: 1, threshold: 1 }, passphrase: None };
    let (_, shares) = adopted(&*store, init(&*store, &slots));
    let sealer = || unseal(&*store, UnsealMethod::Shares(&shares)).unwrap();
    let kms = || Kms::new(store.clone() as Arc<dyn Store>, sealer(), Options::default()).unwrap();
    let (id, other) =
        (create(&kms(), "a", "aes256-gcm96").key, create(&kms(), "b", "aes256-gcm96").key);
    for (id, counted) in [(&id, Some((1_u64 << 32) - (2 << 14))), (&other, None)] {
        let path =
            |family| RecordPath::new(format!("{family}/default/{}/0000000001", id.uuid)).unwrap();
        set(&*store, sealer(), &path("versions"), |plain| plain[..plain.len() - 8].to_vec());
        if let Some(counted) = counted {
            set(&*store, sealer(), &path("counts"), |_| counted.to_string().into_bytes());
        }
    }
    // One block is left, and each process takes one.
    for id in [&other, &other, &id] {
        kms().encrypt(id, None, b"x", b"").unwrap();
    }
    assert_eq!(code(kms().encrypt(&id, None, b"x", b"")), Code::VersionExhausted);
}

#[test]
fn an_expired_key_makes_nothing_new_and_opens_what_it_made() {
    let kms = Kms::in_memory().unwrap();
    let [aead, signer, kem] =
        ["xaes-256-gcm", "ml-dsa-44", "ml-kem-512"].map(|name| create(&kms, name, name));
    let encrypted = kms.encrypt(&aead.key, None, b"x", b"").unwrap();
    let signed = kms.sign(&signer.key, None, pure(b"x")).unwrap();
    let made = kms.encaps(&kem.key, None).unwrap();
    for id in [&aead, &signer, &kem] {
        // One far away changes nothing.
        kms.set_expiry(&id.key, Some(u64::MAX)).unwrap();
    }
    kms.encrypt(&aead.key, None, b"x", b"").unwrap();
    for id in [&aead, &signer, &kem] {
        kms.set_expiry(&id.key, Some(1)).unwrap();
    }
    assert_eq!(code(kms.encrypt(&aead.key, None, b"x", b"")), Code::KeyExpired);
    assert_eq!(code(kms.sign(&signer.key, None, pure(b"x"))), Code::KeyExpired);
    assert_eq!(code(kms.encaps(&kem.key, None)), Code::KeyExpired);
    assert_eq!(&**kms.decrypt(&aead, &encrypted.ciphertext, b"").unwrap(), b"x");
    assert_eq!(kms.verify(&signer, pure(b"x"), &signed.signature), Ok(true));
    assert!(kms.decaps(&kem, &made.ciphertext).unwrap() == made.secret);
    kms.set_expiry(&signer.key, None).unwrap();
    kms.sign(&signer.key, None, pure(b"x")).unwrap();
}
