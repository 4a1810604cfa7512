//! ECDSA signatures in the two forms that other programs write: DER, which keys of this engine make
//! and verify, and `r || s`, which JOSE has (RFC 7518, section 3.4).

use gabion_backend::ecc::{Curve, from_der, to_der};
use gabion_scheme::Algorithm;

/// Converts a signature from DER to `r || s`. Returns `None` if it is not strict DER or the
/// algorithm is not ECDSA.
pub fn der_to_raw(algorithm: Algorithm, der: &[u8]) -> Option<Vec<u8>> {
    from_der(curve(algorithm)?, der)
}

/// Converts a signature from `r || s` to DER. Returns `None` if its length is not the curve's or
/// the algorithm is not ECDSA.
pub fn raw_to_der(algorithm: Algorithm, raw: &[u8]) -> Option<Vec<u8>> {
    let curve = curve(algorithm)?;
    (raw.len() == 2 * curve.scalar_len()).then(|| to_der(raw))
}

/// Returns whether the algorithm is ECDSA, whose signatures have two forms.
pub fn is_ecdsa(algorithm: Algorithm) -> bool {
    curve(algorithm).is_some()
}

fn curve(algorithm: Algorithm) -> Option<Curve> {
    match algorithm {
        Algorithm::EcdsaP256 => Some(Curve::P256),
        Algorithm::EcdsaP384 => Some(Curve::P384),
        Algorithm::EcdsaP521 => Some(Curve::P521),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signatures_convert_both_ways() {
        for (algorithm, len) in
            [(Algorithm::EcdsaP256, 64), (Algorithm::EcdsaP384, 96), (Algorithm::EcdsaP521, 132)]
        {
            let raw: Vec<u8> =
                (0..len).map(|at| if at % (len / 2) == 0 { 0 } else { at }).collect();
            let der = raw_to_der(algorithm, &raw).unwrap();
            assert_eq!(der_to_raw(algorithm, &der), Some(raw.clone()));
            assert_eq!(raw_to_der(algorithm, &raw[1..]), None);
            assert_eq!(raw_to_der(algorithm, &[&raw[..], &[1]].concat()), None);
            assert_eq!(der_to_raw(algorithm, &raw), None);
        }
        assert_eq!(raw_to_der(Algorithm::Ed25519, &[0; 64]), None);
        assert!(!is_ecdsa(Algorithm::EcdhP256));
    }
}
