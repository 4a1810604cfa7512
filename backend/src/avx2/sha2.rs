//! Common parts of SHA-256 and SHA-512 in lanes of AVX2.

/// The exclusive or of three.
macro_rules! xor {
    ($a:expr, $b:expr, $c:expr) => {
        _mm256_xor_si256(_mm256_xor_si256($a, $b), $c)
    };
}
pub(super) use xor;
