//! SampleInBall (FIPS 204, Algorithm 29): the challenge polynomial c from its hash c~.

use super::params::Params;
use crate::kernels::{DsaPoly, Kernels, N, Sponge, Xof};

/// Bytes squeezed at first: one block of SHAKE256. A challenge needs 8 bytes of signs and about
/// 67 at most on average; a second block is needed once in many thousand challenges or never.
pub(super) const BALL_LEN: usize = 136;

/// The sponge whose output [`sample`] reads.
pub(super) fn sponge<'a>(c_tilde: &'a [u8], stream: &'a mut [u8; BALL_LEN]) -> Sponge<'a> {
    Sponge::new(Xof::Shake256, [c_tilde], stream)
}

/// SampleInBall of a public c~ whose first block is `stream`.
///
/// Time and addresses depend on c~, which is public: it is in the signature, or belongs to an
/// attempt that was rejected for reasons independent of it.
pub(super) fn sample_vartime<K: Kernels>(
    kernels: &K,
    p: &Params,
    c_tilde: &[u8],
    stream: &[u8; BALL_LEN],
    c: &mut DsaPoly,
) {
    if fill(p, stream, c) {
        return;
    }
    let mut len = 2 * BALL_LEN;
    loop {
        let mut longer = vec![0; len];
        kernels.sponge_many(&mut [Sponge::new(Xof::Shake256, [c_tilde], &mut longer)]);
        if fill(p, &longer, c) {
            return;
        }
        len += BALL_LEN;
    }
}

/// Algorithm 29 over a stream; false if the stream ends too early.
fn fill(p: &Params, stream: &[u8], c: &mut DsaPoly) -> bool {
    let Some((signs, mut rest)) = stream.split_first_chunk::<8>() else {
        return false;
    };
    let mut signs = u64::from_le_bytes(*signs);
    c.0 = [0; N];
    for i in N - p.tau..N {
        let j = loop {
            let Some((&byte, tail)) = rest.split_first() else {
                return false;
            };
            rest = tail;
            if usize::from(byte) <= i {
                break usize::from(byte);
            }
        };
        c.0[i] = c.0[j];
        c.0[j] = 1 - 2 * (signs & 1) as i32;
        signs >>= 1;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithms::Algorithm;
    use crate::ml_dsa::params;

    #[test]
    fn a_challenge_has_tau_signs() {
        for algorithm in [Algorithm::MlDsa44, Algorithm::MlDsa65, Algorithm::MlDsa87] {
            let p = params(algorithm).expect("an ML-DSA set");
            let stream: Vec<u8> = (0..BALL_LEN).map(|i| (i * 89 + 3) as u8).collect();
            let mut c = DsaPoly([5; N]);
            assert!(fill(p, &stream, &mut c));
            assert_eq!(c.0.iter().filter(|x| x.abs() == 1).count(), p.tau);
            assert_eq!(c.0.iter().filter(|x| **x == 0).count(), N - p.tau);
        }
    }

    #[test]
    fn a_short_stream_is_reported() {
        let p = params(Algorithm::MlDsa44).expect("an ML-DSA set");
        let mut c = DsaPoly::default();
        assert!(
            !fill(p, &[0xff; BALL_LEN], &mut c),
            "nothing acceptable for the first places"
        );
        assert!(!fill(p, &[0; 8 + 38], &mut c), "one byte too few");
        assert!(fill(p, &[0; 8 + 39], &mut c));
        assert!(!fill(p, &[0; 7], &mut c));
    }
}
