//! Known answers of the curves, from OpenSSL 3.5.5 (`pkey -pubout`, `pkeyutl -derive`, and
//! `pkeyutl -sign` with `nonce-type:1`, which is RFC 6979), through whichever library serves.

use sha3::{Digest, Sha3_256};

use super::{Curve, Hedge, SignatureInput, derive, from_der, public_key, sign, to_der, verify};
use crate::route::slot::TestFailure;

/// SHA3-256 over the public key of scalar 0, its secret with that of scalar 1, and its
/// deterministic signature in DER, where the curve has signatures.
const EXPECTED: [(Curve, &str); 4] = [
    (Curve::X25519, "e65270b4a5d5bda37700ba97a5848071c31904640d281397655c8f10815b3bdb"),
    (Curve::P256, "3b0032cf5cc3543feb69c73db985058b3d9ccc6f9c975dd7185f66c7214178cd"),
    (Curve::P384, "839948d1f8b89e8bb062f6f0e61013d909f814b5b0f7141b7130ecd33294d1ec"),
    (Curve::P521, "afe80a4bebe2233c2fcfdf7826a27d68c49fb2dd01246f0c194ff395e26bb707"),
];

/// A private scalar.
fn scalar(curve: Curve, number: usize) -> Vec<u8> {
    let byte = |j| (17 * number + 31 * j + 5) as u8;
    let mut scalar: Vec<u8> = (0..curve.scalar_len()).map(byte).collect();
    if curve == Curve::P521 {
        scalar[0] = 0;
    }
    scalar
}

/// Tests one curve.
pub(crate) fn self_test(curve: Curve) -> Result<(), TestFailure> {
    let keys = [scalar(curve, 0), scalar(curve, 1)];
    let public = keys.each_ref().map(|key| public_key(curve, key).unwrap_or_default());
    let mut hash = Sha3_256::new();
    hash.update(&public[0]);
    let mut shared = [vec![0; curve.scalar_len()], vec![0; curve.scalar_len()]];
    for (mine, peer) in [(0, 1), (1, 0)] {
        if !derive(curve, &keys[mine], &public[peer], &mut shared[mine]) {
            return Err(differs(curve, "a good key was refused"));
        }
    }
    if shared[0] != shared[1] {
        return Err(differs(curve, "the two sides do not agree"));
    }
    hash.update(&shared[0]);
    if curve != Curve::X25519 {
        hash.update(signature(curve, &keys[0], &public[0])?);
    }
    let digest: String = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    if EXPECTED.contains(&(curve, &digest)) {
        return Ok(());
    }
    Err(differs(curve, "the known answer differs"))
}

fn differs(curve: Curve, what: &str) -> TestFailure {
    TestFailure::Wrong(format!("{curve:?} self-test: {what}"))
}

/// The deterministic signature in DER, once both ways of signing were verified and a corrupted
/// signature was refused.
fn signature(curve: Curve, private: &[u8], public: &[u8]) -> Result<Vec<u8>, TestFailure> {
    let is_good =
        |form, raw: &[u8]| verify(curve, public, form, raw).map_err(|_| TestFailure::NoMemory);
    let message: Vec<u8> = (0..200).map(|j| (13 * j + 1) as u8).collect();
    let digest = curve.hash().digest(&message);
    let forms = [SignatureInput::Message(&message), SignatureInput::Digest(&digest)];
    let (mut fixed, hedge) = (Vec::new(), [9; 32]);
    for hedge in [Hedge::Fresh(&hedge), Hedge::None] {
        let raw = sign(curve, private, forms[0], hedge)
            .ok_or_else(|| differs(curve, "a good key does not sign"))?;
        fixed = from_der(curve, &to_der(&raw))
            .ok_or_else(|| differs(curve, "its own DER is refused"))?;
        let mut bad = fixed.clone();
        bad[curve.scalar_len() - 1] ^= 1;
        for form in forms {
            if !is_good(form, &fixed)? {
                return Err(differs(curve, "a good signature was refused"));
            }
            if is_good(form, &bad)? {
                return Err(differs(curve, "a corrupted signature was accepted"));
            }
        }
    }
    Ok(to_der(&fixed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_curve_passes() {
        for curve in [Curve::X25519, Curve::P256, Curve::P384, Curve::P521] {
            assert_eq!(self_test(curve), Ok(()));
        }
    }
}
