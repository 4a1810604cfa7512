//! Batches that encrypt and decrypt: each item as if it were alone, and one wait for the disk.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use gabion_kms::audit::{Class, Outcome, Record};
use gabion_kms::gate::Caller;
use gabion_kms::model::{Label, State};
use gabion_kms::operations::{Kms, NewKey};
use gabion_kms::service::{AuditAt, Call, DecryptItem, EncryptItem, KeyRef, Options, Service};
use gabion_kms::{Code, Error};

use crate::classes::telling;
use crate::fixture::who;
use crate::verbs::label;

const KEYS: [(&str, &str); 5] = [
    ("xaes", "xaes-256-gcm"),
    ("gcm", "aes256-gcm96"),
    ("chacha", "chacha20-poly1305"),
    ("off", "xaes-256-gcm"),
    ("ed", "ed25519"),
];

fn service(at: &AuditAt<'_>, class: Class) -> (Service, Caller, Vec<Label>) {
    let options = Options { class, ..Options::default() };
    let service = Service::open(Kms::in_memory().unwrap(), at, options).unwrap();
    let who = who(&service);
    for (name, algorithm) in KEYS {
        let (tenant, purpose, name) = (label("a"), label("transit"), label(name));
        let algorithm = algorithm.parse().unwrap();
        service
            .create(&Call::new(&who, "r"), &NewKey { tenant, purpose, name, algorithm })
            .unwrap();
    }
    let names = KEYS.iter().map(|(name, _)| *name).chain(["none"]).map(label).collect();
    (service, who, names)
}

/// Returns the audit records of the last uses, without times and random parts.
fn told(service: &Service, most: usize) -> Vec<(Option<String>, String, Outcome)> {
    let entries = service.log().tail(service.log().size() - most as u64, usize::MAX).unwrap();
    let of = |Record { key, input, outcome, action, .. }| {
        (key, format!("{action:?} {input:?}"), outcome)
    };
    entries.into_iter().map(|entry| of(entry.record)).collect()
}

fn code<T>(answer: &Result<T, Error>) -> Option<Code> {
    answer.as_ref().err().map(Error::code)
}

#[test]
fn items_of_a_batch_are_encrypted_and_decrypted_as_if_each_were_alone() {
    let (service, who, names) = service(&AuditAt::Memory, Class::Written);
    let (call, tenant) = (Call::new(&who, "r"), label("a"));
    let key = |at: usize| KeyRef { tenant: &tenant, name: &names[at] };
    service.set_state(&call, &key(3), 1, State::Disabled).unwrap();
    let mut items = Vec::new();
    for at in 0..names.len() {
        for version in [None, Some(1), Some(2)] {
            for beside in [&b""[..], b"beside", b"gabion-kms wrap 1\0x"] {
                items.push(EncryptItem { key: key(at), version, plain: b"text", beside });
            }
        }
    }
    let batch = service.encrypt_batch(&call, &items);
    let of_batch = told(&service, items.len());
    let alone: Vec<_> = items
        .iter()
        .map(|item| service.encrypt(&call, &item.key, item.version, item.plain, item.beside))
        .collect();
    assert_eq!(of_batch, told(&service, items.len()));
    let codes: Vec<_> = batch.iter().map(code).collect();
    assert_eq!(codes, alone.iter().map(code).collect::<Vec<_>>());
    for wanted in [None, Some(Code::NotFound), Some(Code::VersionDisabled)] {
        assert!(codes.contains(&wanted), "{wanted:?} of {codes:?}");
    }

    // Valid ciphertexts, modified ones, and those of another key.
    let made: Vec<(EncryptItem<'_>, Vec<u8>)> = items
        .iter()
        .zip(&batch)
        .filter_map(|(item, made)| Some((*item, made.as_ref().ok()?.ciphertext.clone())))
        .collect();
    let mut given: Vec<(KeyRef<'_>, u32, Vec<u8>, &[u8])> = Vec::new();
    for (item, ciphertext) in &made {
        given.push((item.key, 1, ciphertext.clone(), item.beside));
        given.push((item.key, 1, ciphertext.clone(), b"other"));
        given.push((item.key, 9, ciphertext.clone(), item.beside));
        given.push((key(2), 1, ciphertext.clone(), item.beside));
        given.push((key(5), 1, ciphertext.clone(), item.beside));
        let mut wrong = ciphertext.clone();
        wrong[ciphertext.len() / 2] ^= 1;
        given.push((item.key, 1, wrong, item.beside));
        given.push((item.key, 1, ciphertext[..7].to_vec(), item.beside));
    }
    let items: Vec<DecryptItem<'_>> = given
        .iter()
        .map(|(key, version, ciphertext, beside)| {
            let (key, version) = (*key, *version);
            DecryptItem { key, version, ciphertext, beside }
        })
        .collect();
    let batch = service.decrypt_batch(&call, &items);
    let of_batch = told(&service, items.len());
    let alone: Vec<_> = items
        .iter()
        .map(|item| service.decrypt(&call, &item.key, item.version, item.ciphertext, item.beside))
        .collect();
    assert_eq!(batch, alone);
    assert_eq!(of_batch, told(&service, items.len()));
    let good = batch.iter().filter(|opened| matches!(opened, Ok(plain) if **plain == b"text"));
    assert!(
        good.count() >= made.len()
            && batch.iter().any(|one| code(one) == Some(Code::DecryptFailed))
    );
    assert!(service.encrypt_batch(&call, &[]).is_empty());
}

#[test]
fn a_batch_waits_for_the_disk_once() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().join("audit");
    let synced = Arc::new(AtomicUsize::new(0));
    let counter = synced.clone();
    let disk = telling(move || {
        counter.fetch_add(1, Ordering::Relaxed);
    });
    let at = AuditAt::Disk(disk, &at);
    let (service, who, names) = service(&at, Class::Durable);
    let (call, tenant) = (Call::new(&who, "r"), label("a"));
    let key = KeyRef { tenant: &tenant, name: &names[0] };
    let item = EncryptItem { key, version: None, plain: b"text", beside: b"" };
    let before = synced.load(Ordering::Relaxed);
    let made = service.encrypt_batch(&call, &[item; 20]);
    assert_eq!(synced.load(Ordering::Relaxed), before + 1);
    let ciphertexts: Vec<Vec<u8>> = made.into_iter().map(|made| made.unwrap().ciphertext).collect();
    let items: Vec<_> = ciphertexts
        .iter()
        .map(|ciphertext| DecryptItem { key, version: 1, ciphertext, beside: b"" })
        .collect();
    let opened = service.decrypt_batch(&call, &items);
    assert!(opened.iter().all(|plain| plain.as_ref().is_ok_and(|plain| **plain == b"text")));
    assert_eq!(synced.load(Ordering::Relaxed), before + 2);
    assert_eq!(told(&service, 40).iter().filter(|one| one.2 == Outcome::Done).count(), 40);
}
