//! Keys that encapsulate.

use gabion_kms::Code;
use gabion_kms::model::{Capability, KeyAlgorithm, Minimum};
use gabion_kms::operations::Kms;

use crate::verbs::create;

#[test]
fn every_kem_gives_both_sides_one_secret() {
    let kms = Kms::in_memory().unwrap();
    let mut tried = 0;
    for algorithm in
        KeyAlgorithm::all().filter(|algorithm| algorithm.does() == Capability::Encapsulate)
    {
        let first = create(&kms, &format!("k{tried}"), &algorithm.to_string());
        let old = kms.encaps(&first.key, None).unwrap();
        assert_eq!(old.by, first);
        let second = kms.rotate(&first.key).unwrap();
        let new = kms.encaps(&first.key, None).unwrap();
        assert_eq!(new.by, second);
        assert!(old.secret != new.secret);
        for made in [&old, &new] {
            assert!(kms.decaps(&made.by, &made.ciphertext).unwrap() == made.secret, "{algorithm}");
        }
        // Another version has another secret, or refuses a part that can't be one.
        let other = kms.decaps(&second, &old.ciphertext);
        assert!(other.map_or(true, |secret| secret != old.secret), "{algorithm}");
        for wrong in [&old.ciphertext[1..], b"", &[&old.ciphertext[..], b"0"].concat()] {
            assert_eq!(kms.decaps(&first, wrong).err().unwrap().code(), Code::Malformed);
        }
        tried += 1;
    }
    assert!(tried >= 6, "{tried}");
}

#[test]
fn old_versions_decapsulate_until_they_may_not() {
    let kms = Kms::in_memory().unwrap();
    let first = create(&kms, "a", "ml-kem-768");
    let made = kms.encaps(&first.key, None).unwrap();
    kms.rotate(&first.key).unwrap();
    let code = kms.encaps(&first.key, Some(1)).err().unwrap().code();
    assert_eq!(code, Code::VersionNotAllowed);
    assert!(kms.decaps(&first, &made.ciphertext).unwrap() == made.secret);
    kms.set_minimum(&first.key, Minimum::Decrypt, 2).unwrap();
    let code = kms.decaps(&first, &made.ciphertext).err().unwrap().code();
    assert_eq!(code, Code::VersionNotAllowed);
}
