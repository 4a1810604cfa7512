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

/// SampleInBall of a public c~ whose first block is `stream`; `squeeze` fills longer buffers with
/// SHAKE256(c~) from its beginning, should one block not be enough.
///
/// Time and addresses depend on c~, which is public: it is in the signature, or belongs to an
/// attempt that was rejected for reasons independent of it.
pub(super) fn sample_vartime(
    p: &Params,
    stream: &[u8; BALL_LEN],
    c: &mut DsaPoly,
    mut squeeze: impl FnMut(&mut [u8]),
) {
    if fill(p, stream, c) {
        return;
    }
    let mut len = BALL_LEN;
    loop {
        len += BALL_LEN;
        let mut longer = vec![0; len];
        squeeze(&mut longer);
        if fill(p, &longer, c) {
            return;
        }
    }
}

/// Returns the function that [`sample_vartime`] squeezes with.
pub(super) fn squeezer<'a, K: Kernels>(
    kernels: &'a K,
    c_tilde: &'a [u8],
) -> impl FnMut(&mut [u8]) + 'a {
    |out| kernels.sponge_many(&mut [Sponge::new(Xof::Shake256, [c_tilde], out)])
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
    fn a_hungry_challenge_squeezes_on() {
        let p = params(Algorithm::MlDsa87).expect("an ML-DSA set");
        // 0xff is refused at every place but the last: the first two blocks hold too little.
        let stream = |len: usize| -> Vec<u8> {
            let tail = (0..len).map(|i| if i < 2 * BALL_LEN { 0xff } else { (i % 197) as u8 });
            tail.collect()
        };
        let first: [u8; BALL_LEN] = stream(BALL_LEN).try_into().expect("a block");
        let mut c = DsaPoly::default();
        let mut lengths = Vec::new();
        sample_vartime(p, &first, &mut c, |out| {
            lengths.push(out.len());
            out.copy_from_slice(&stream(out.len()));
        });
        assert_eq!(lengths, [2 * BALL_LEN, 3 * BALL_LEN]);
        let mut expected = DsaPoly::default();
        assert!(fill(p, &stream(4 * BALL_LEN), &mut expected));
        assert_eq!(c, expected);
    }

    #[test]
    fn a_short_stream_is_reported() {
        let p = params(Algorithm::MlDsa44).expect("an ML-DSA set");
        let mut c = DsaPoly::default();
        assert!(!fill(p, &[0xff; BALL_LEN], &mut c), "nothing acceptable for the first places");
        assert!(!fill(p, &[0; 8 + 38], &mut c), "one byte too few");
        assert!(fill(p, &[0; 8 + 39], &mut c));
        assert!(!fill(p, &[0; 7], &mut c));
    }
}
