//! ECDSA on P-384 (FIPS 186-5, section 6.4.1): the nonce's point by `p384_base`, nonces (RFC 6979) and
//! arithmetic modulo the order by RustCrypto. Half the time of graviola (ADR 0011).

use gabion_scheme::ct;
use p384::ecdsa::Signature;
use p384::elliptic_curve::Curve as _;
use p384::elliptic_curve::ops::{Invert, Reduce};
use p384::{FieldBytes, NistP384, Scalar};
use rfc6979::KGenerator;
use sha2::Sha384;
use zeroize::Zeroizing;

use super::{p384_base, portable};

/// `r || s` of a digest, with a hedge in the nonce as [`portable::sign`] has it; none where the private key is not one.
pub(super) fn sign(private: &[u8], digest: &[u8], hedge: Option<&[u8; 32]>) -> Option<Vec<u8>> {
    let key = portable::scalar::<NistP384>(private)?;
    let digest = number(digest);
    let message = <Scalar as Reduce<FieldBytes>>::reduce(&digest);
    let mut more = Zeroizing::new([0; 48]);
    let more = hedge.map_or(&[][..], |drawn| {
        portable::repeat(drawn, &mut *more);
        &*more
    });
    let order = *NistP384::ORDER;
    let mut nonces = KGenerator::<Sha384, _>::new(private, &digest, more, &order);
    let mut bytes = Zeroizing::new([0; 48]);
    loop {
        nonces.fill_next_k(&mut *bytes);
        let nonce = portable::scalar::<NistP384>(&*bytes)?;
        let r = <Scalar as Reduce<FieldBytes>>::reduce(&p384_base::x_of_multiple(&bytes).into());
        let made = Zeroizing::new(*key.as_ref() * r + message);
        let inverse = Zeroizing::new(nonce.invert());
        let s = **inverse * *made;
        let signature = [r.to_bytes(), s.to_bytes()].concat();
        ct::declassify(&signature); // It is given out.
        // If one of them is zero, for one nonce in 2^383, it is not, and another nonce follows.
        if Signature::from_slice(&signature).is_ok() {
            return Some(signature);
        }
    }
}

/// Returns the number of a digest: that of its leftmost 384 bits (FIPS 186-5, section 6.4.1, step
/// 2).
fn number(digest: &[u8]) -> FieldBytes {
    let mut number = FieldBytes::default();
    let len = digest.len().min(number.len());
    let place = number.len() - len;
    number[place..].copy_from_slice(&digest[..len]);
    number
}

#[cfg(test)]
mod tests {
    use super::super::Curve;
    use super::*;

    #[test]
    fn signatures_are_those_of_the_library() {
        for round in 0..60u8 {
            let private: Vec<u8> = (0..48).map(|i| (i * 5) ^ round.wrapping_mul(29)).collect();
            // From all zero to all ones: a digest may be above the order.
            for len in [28, 32, 48, 64] {
                let digest: Vec<u8> = (0..len).map(|i| round.wrapping_mul(85) ^ (i / 28)).collect();
                for hedge in [None, Some(&[round; 32])] {
                    let made = sign(&private, &digest, hedge);
                    assert!(made.is_some());
                    let library = portable::sign(Curve::P384, &private, &digest, hedge);
                    assert_eq!(made, library, "{round}, {len}");
                }
            }
        }
    }

    #[test]
    fn invalid_private_keys_do_not_sign() {
        for private in [&[0; 48][..], &[0xff; 48], &[1; 47], &[]] {
            assert_eq!(sign(private, &[7; 48], None), None);
        }
    }
}
