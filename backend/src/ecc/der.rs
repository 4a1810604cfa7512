//! ECDSA signatures in DER: `SEQUENCE { INTEGER r, INTEGER s }` (RFC 3279, section 2.2.3), as TLS,
//! X.509 and OpenSSL have them, against `r || s` of fixed length (IEEE P1363), as JOSE has them.
//!
//! No length here is above 255: `r` and `s` have 66 bytes at most.

use super::Curve;

const SEQUENCE: u8 = 0x30;
const INTEGER: u8 = 0x02;

/// The longest DER signature of a curve.
#[cfg(test)]
fn longest(curve: Curve) -> usize {
    // Tag and length of each integer; a zero byte before a leading bit that is set.
    let top = usize::from(curve != Curve::P521);
    let content = 2 * (2 + top + curve.scalar_len());
    content + if content > 127 { 3 } else { 2 }
}

/// DER of `r || s`.
pub fn to_der(raw: &[u8]) -> Vec<u8> {
    let (r, s) = raw.split_at(raw.len() / 2);
    let mut content = Vec::with_capacity(raw.len() + 6);
    for number in [r, s] {
        let first = number.iter().position(|&byte| byte != 0).unwrap_or(number.len() - 1);
        let number = &number[first..];
        let sign = number[0] >> 7;
        content.extend([INTEGER, number.len() as u8 + sign]);
        content.extend(std::iter::repeat_n(0, usize::from(sign)));
        content.extend(number);
    }
    let mut der = vec![SEQUENCE];
    if content.len() > 127 {
        der.push(0x81);
    }
    der.push(content.len() as u8);
    der.extend(content);
    der
}

/// `r || s` of strict DER; none for anything that another encoding of the same numbers could be.
pub fn from_der(curve: Curve, der: &[u8]) -> Option<Vec<u8>> {
    let rest = der.strip_prefix(&[SEQUENCE])?;
    let content = match rest {
        [0x81, len @ 128..=255, content @ ..] | [len @ 0..=127, content @ ..] => {
            (content.len() == usize::from(*len)).then_some(content)?
        }
        _ => return None,
    };
    let mut raw = Vec::with_capacity(2 * curve.scalar_len());
    let rest = integer(curve, content, &mut raw)?;
    integer(curve, rest, &mut raw)?.is_empty().then_some(raw)
}

/// Reads one positive INTEGER from the front and appends it with the curve's length.
fn integer<'a>(curve: Curve, der: &'a [u8], raw: &mut Vec<u8>) -> Option<&'a [u8]> {
    let [INTEGER, len @ 1..=127, rest @ ..] = der else { return None };
    let (number, rest) = rest.split_at_checked(usize::from(*len))?;
    let number = match number {
        [0x80..=255, ..] | [0, 0..=127, ..] => return None,
        [0, tail @ ..] if !tail.is_empty() => tail,
        other => other,
    };
    let zeros = curve.scalar_len().checked_sub(number.len())?;
    raw.extend(std::iter::repeat_n(0, zeros));
    raw.extend(number);
    Some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use gabion_scheme::Algorithm;

    const CURVES: [Curve; 3] = [Curve::P256, Curve::P384, Curve::P521];

    #[test]
    fn raw_to_der_and_back() {
        for curve in CURVES {
            let len = curve.scalar_len();
            for first in [0, 1, 0x7f, 0x80, 0xff] {
                for zeros in [0, 1, len - 2, len - 1] {
                    let mut raw = vec![0; 2 * len];
                    raw[zeros] = first.max(1);
                    raw[len + zeros] = first.max(1);
                    raw[2 * len - 1] |= 1;
                    let der = to_der(&raw);
                    assert!(der.len() <= longest(curve) + 2);
                    assert_eq!(from_der(curve, &der), Some(raw), "{der:02x?}");
                }
            }
        }
    }

    #[test]
    fn the_table_knows_the_longest() {
        for algorithm in [Algorithm::EcdsaP256, Algorithm::EcdsaP384, Algorithm::EcdsaP521] {
            let curve = Curve::of(algorithm).unwrap();
            assert_eq!(algorithm.info().output.max(), longest(curve), "{algorithm}");
            let mut raw = vec![0xff; 2 * curve.scalar_len()];
            if curve == Curve::P521 {
                raw[0] = 1;
                raw[66] = 1;
            }
            assert_eq!(to_der(&raw).len(), longest(curve));
        }
    }

    #[test]
    fn non_canonical_der_signatures_are_refused() {
        let good = [0x30, 6, 2, 1, 1, 2, 1, 0x7f];
        assert!(from_der(Curve::P256, &good).is_some());
        for len in 0..good.len() {
            assert_eq!(from_der(Curve::P256, &good[..len]), None);
        }
        for bad in [
            &[0x31, 6, 2, 1, 1, 2, 1, 1][..],
            &[0x30, 0x81, 6, 2, 1, 1, 2, 1, 1],
            &[0x30, 0x80, 2, 1, 1, 2, 1, 1, 0, 0],
            &[0x30, 7, 2, 1, 1, 2, 1, 1],
            &[0x30, 6, 2, 1, 1, 2, 1, 1, 0],
            &[0x30, 7, 2, 1, 1, 2, 1, 1, 0],
            &[0x30, 7, 2, 2, 0, 1, 2, 1, 1],
            &[0x30, 6, 2, 1, 0x80, 2, 1, 1],
            &[0x30, 5, 2, 0, 2, 1, 1],
            &[0x30, 6, 3, 1, 1, 2, 1, 1],
            &[0x30, 7, 2, 0x81, 1, 1, 2, 1, 1],
        ] {
            assert_eq!(from_der(Curve::P256, bad), None, "{bad:02x?}");
        }
        let long = [&[0x30, 2 + 33 + 3, 2, 33][..], &[1; 33], &[2, 1, 1]].concat();
        assert_eq!(from_der(Curve::P256, &long), None);
        assert!(from_der(Curve::P384, &long).is_some());
    }
}
