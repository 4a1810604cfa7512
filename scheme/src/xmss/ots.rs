//! One-time signatures, WOTS+ (RFC 8391, section 3), w of 16.

use crate::hbs::{checksum, digit};
use crate::kernels::xmss::{N_MAX, STEPS_MAX, XmssAddress, XmssChain, XmssContext};

/// Bits of a digit: w is 16.
const DIGIT: u32 = 4;

/// Returns the digits of the n signed bytes, and of their checksum (Algorithm 5, lines 1 to 12),
/// four bits each.
pub(super) fn digits(message: &[u8]) -> [u8; N_MAX + 2] {
    let n = message.len();
    let mut digits = [0; N_MAX + 2];
    digits[..n].copy_from_slice(message);
    // Three digits, from the top of two bytes.
    let sum = checksum(message, DIGIT) << 4;
    digits[n..n + 2].copy_from_slice(&(sum as u16).to_be_bytes());
    digits
}

/// The chains of a one-time signature of `message` under an address of type OTS (Algorithm 6).
pub(super) fn chains<'a>(
    context: &'a XmssContext,
    address: XmssAddress,
    message: &[u8],
    values: &'a mut [u8],
) -> impl Iterator<Item = XmssChain<'a>> {
    let digits = digits(message);
    values.chunks_exact_mut(context.n).enumerate().map(move |(i, value)| {
        let address = address.with(XmssAddress::CHAIN, i as u32);
        let start = digit(&digits, i, DIGIT);
        XmssChain { context, address, start, steps: STEPS_MAX - start, value }
    })
}

/// The chains that make a one-time signature of `message` under an address of type OTS, from their secrets
/// (Algorithm 5).
pub(super) fn chains_to<'a>(
    context: &'a XmssContext,
    address: XmssAddress,
    message: &[u8],
    values: &'a mut [u8],
) -> impl Iterator<Item = XmssChain<'a>> {
    let digits = digits(message);
    values.chunks_exact_mut(context.n).enumerate().map(move |(i, value)| {
        let address = address.with(XmssAddress::CHAIN, i as u32);
        XmssChain { context, address, start: 0, steps: digit(&digits, i, DIGIT), value }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checksum_is_three_digits() {
        for n in [24usize, 32, 64] {
            let zeros = vec![0; n];
            let most = 15 * 2 * n as u32;
            let number = |message: &[u8]| {
                let digits = digits(message);
                (0..3).fold(0, |sum, i| sum << 4 | digit(&digits, 2 * n + i, DIGIT))
            };
            assert_eq!(number(&zeros), most);
            assert_eq!(number(&vec![0xff; n]), 0);
            assert_eq!(number(&[&zeros[1..], &[0x2f][..]].concat()), most - 17);
        }
    }
}
