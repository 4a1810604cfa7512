//! Elliptic curves of [`gabion_backend::ecc`]: private keys that are drawn, operations in a
//! backend's lanes, and the self-test.

pub(crate) mod lanes;
mod self_test;

use zeroize::Zeroizing;

pub(crate) use gabion_backend::ecc::*;
pub(crate) use self_test::self_test;

use crate::entropy::Entropy;
use crate::error::EntropyError;

/// Candidates for a private scalar before the source of randomness counts as broken: one is refused
/// with probability below 2^-31.
const CANDIDATES_MAX: usize = 16;

/// Draws a private key: FIPS 186-5, A.2.2, testing candidates; RFC 7748, section 6.1.
///
/// # Errors
/// No randomness, or randomness that never gives a scalar.
pub(crate) fn generate(
    curve: Curve,
    entropy: &dyn Entropy,
) -> Result<Zeroizing<Vec<u8>>, EntropyError> {
    let mut scalar = Zeroizing::new(vec![0; curve.scalar_len()]);
    fill(curve, entropy, &mut scalar)?;
    Ok(scalar)
}

/// Draws one private key a lane into `scalars`, all of them at once; the few that are no scalars
/// again, each by itself.
///
/// # Errors
/// See [`generate`].
pub(crate) fn fill(
    curve: Curve,
    entropy: &dyn Entropy,
    scalars: &mut [u8],
) -> Result<(), EntropyError> {
    entropy.fill(scalars)?;
    for scalar in scalars.chunks_exact_mut(curve.scalar_len()) {
        let mut draws = 1;
        loop {
            if curve == Curve::P521 {
                // 521 bits are 65 bytes and one bit.
                scalar[0] &= 1;
            }
            if is_private(curve, scalar) {
                break;
            }
            if draws == CANDIDATES_MAX {
                return Err(EntropyError(format!("{draws} draws gave no private key")));
            }
            entropy.fill(scalar)?;
            draws += 1;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// A source that yields invalid candidates for scalars so many times, and then valid ones.
    struct InvalidCandidates(Cell<usize>);

    impl Entropy for InvalidCandidates {
        fn fill(&self, out: &mut [u8]) -> Result<(), EntropyError> {
            let left = self.0.get();
            self.0.set(left.saturating_sub(1));
            out.fill(if left == 0 { 1 } else { 0xff });
            Ok(())
        }
    }

    #[test]
    fn a_candidate_that_is_no_scalar_is_drawn_again() {
        for curve in [Curve::P256, Curve::P384, Curve::P521] {
            // Both lanes come from the first draw; the first one then draws by itself.
            let mut scalars = vec![0; 2 * curve.scalar_len()];
            fill(curve, &InvalidCandidates(Cell::new(3)), &mut scalars).unwrap();
            assert!(scalars[1..].iter().all(|&byte| byte == 1), "{curve:?}");
            let always = InvalidCandidates(Cell::new(usize::MAX));
            assert!(fill(curve, &always, &mut scalars).is_err(), "{curve:?}");
            let most = InvalidCandidates(Cell::new(CANDIDATES_MAX - 1));
            assert!(generate(curve, &most).is_ok(), "{curve:?}");
            assert!(
                generate(curve, &InvalidCandidates(Cell::new(CANDIDATES_MAX))).is_err(),
                "{curve:?}"
            );
        }
    }
}
