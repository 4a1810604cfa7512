//! SHA-512 over secrets: the state is ours, so that it can be wiped.

use curve25519_dalek::scalar::Scalar;
use sha2::digest::generic_array::GenericArray;

use crate::ct;

/// The initial state (FIPS 180-4, section 5.3.5).
const INITIAL: [u64; 8] = [
    0x6a09_e667_f3bc_c908,
    0xbb67_ae85_84ca_a73b,
    0x3c6e_f372_fe94_f82b,
    0xa54f_f53a_5f1d_36f1,
    0x510e_527f_ade6_82d1,
    0x9b05_688c_2b3e_6c1f,
    0x1f83_d9ab_fb41_bd6b,
    0x5be0_cd19_137e_2179,
];

/// SHA-512 (FIPS 180-4, section 6.4) of the concatenation of the pieces.
pub(super) fn sha512(pieces: &[&[u8]]) -> [u8; 64] {
    let mut state = INITIAL;
    let mut block = [[0u8; 128]];
    let (mut filled, mut len) = (0, 0u128);
    let mut compress = |block: &[u8; 128]| {
        sha2::compress512(&mut state, core::slice::from_ref(GenericArray::from_slice(block)));
    };
    for mut piece in pieces.iter().copied() {
        len += piece.len() as u128;
        while !piece.is_empty() {
            let (head, rest) = piece.split_at(piece.len().min(128 - filled));
            block[0][filled..filled + head.len()].copy_from_slice(head);
            filled += head.len();
            piece = rest;
            if filled == 128 {
                compress(&block[0]);
                filled = 0;
            }
        }
    }
    block[0][filled] = 0x80;
    block[0][filled + 1..].fill(0);
    if filled >= 112 {
        compress(&block[0]);
        block[0].fill(0);
    }
    block[0][112..].copy_from_slice(&(8 * len).to_be_bytes());
    compress(&block[0]);
    let mut digest = [0; 64];
    for (word, bytes) in state.iter().zip(digest.as_chunks_mut::<8>().0) {
        *bytes = word.to_be_bytes();
    }
    ct::wipe(&mut block);
    ct::wipe(&mut state);
    digest
}

/// SHA-512 as a number modulo L.
pub(super) fn sha512_modulo_l(pieces: &[&[u8]]) -> Scalar {
    let mut digest = sha512(pieces);
    let scalar = Scalar::from_bytes_mod_order_wide(&digest);
    ct::wipe(&mut digest);
    scalar
}

#[cfg(test)]
mod tests {
    use super::*;
    use sha2::{Digest, Sha512};

    #[test]
    fn pieces_of_any_length_hash_as_one() {
        let data: Vec<u8> = (0..400u32).map(|i| (7 * i) as u8).collect();
        for len in 0..400 {
            for cut in [0, 1, 64, 111, 112, 127, 128, 129, 255] {
                let cut = cut.min(len);
                let expected: [u8; 64] = Sha512::digest(&data[..len]).into();
                assert_eq!(sha512(&[&data[..cut], &[], &data[cut..len]]), expected, "{len}, {cut}");
            }
        }
    }
}
