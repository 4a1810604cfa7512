//! The inputs every measurement uses, so that all implementations do the same work.
//!
//! Signing takes as many attempts as the key, the message and the randomness say: the same
//! inputs give the same attempts in every correct implementation. Nothing here is secret.

/// Number of messages that signing walks through before it starts again. A measurement signs all
/// of them, so every deterministic implementation makes the same attempts. Their mean differs
/// from the mean over all messages: by 3 % or less in two cases of three.
pub const MESSAGES: usize = 1024;

/// Length of a message in bytes.
pub const MESSAGE_BYTES: usize = 32;

/// `N` bytes that depend on `stream` and `index` alone (SplitMix64, little-endian words).
pub fn bytes<const N: usize>(stream: u64, index: u64) -> [u8; N] {
    let mut state = stream.wrapping_mul(0xd605_1c0b_8f3a_7d2f) ^ index.rotate_left(32);
    let mut out = [0; N];
    for chunk in out.chunks_mut(8) {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = state;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^= word >> 31;
        chunk.copy_from_slice(&word.to_le_bytes()[..chunk.len()]);
    }
    out
}

/// ML-KEM key generation randomness number `index`: d, then z (FIPS 203, Algorithm 16).
pub fn kem_seed(index: usize) -> [u8; 64] {
    bytes(1, index as u64)
}

/// ML-KEM encapsulation randomness m number `index` (FIPS 203, Algorithm 17).
pub fn kem_message(index: usize) -> [u8; 32] {
    bytes(2, index as u64)
}

/// ML-DSA key generation seed xi number `index` (FIPS 204, Algorithm 6).
pub fn dsa_seed(index: usize) -> [u8; 32] {
    bytes(3, index as u64)
}

/// Message number `index` of [`MESSAGES`]; signed with an empty context and rnd all zero, the
/// deterministic variant (FIPS 204, Algorithm 2).
pub fn message(index: usize) -> [u8; MESSAGE_BYTES] {
    bytes(4, (index % MESSAGES) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_differ_and_repeat() {
        let first: std::collections::BTreeSet<_> = (0..MESSAGES).map(message).collect();
        assert_eq!(first.len(), MESSAGES);
        assert_eq!(message(1), message(MESSAGES + 1));
        assert_ne!(kem_seed(0)[..32], kem_seed(0)[32..]);
        assert_ne!(kem_message(0), dsa_seed(0));
        assert_eq!(bytes::<3>(9, 9), bytes::<8>(9, 9)[..3]);
    }
}
