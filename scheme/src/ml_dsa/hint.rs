//! The hint's encoding: HintBitPack and HintBitUnpack (FIPS 204, Algorithms 20 and 21).
//!
//! ```text
//!   omega bytes: positions of the ones, row after row, rising inside a row | zero padding
//!   k bytes:     for each row, how many positions rows 0..=i have together
//! ```

use super::params::Params;
use crate::kernels::{DsaPoly, N};

/// HintBitPack (Algorithm 20). `hint` holds k polynomials of 0 and 1 with at most omega ones
/// together, `out` has `omega + k` bytes. The hint is public: time depends on it.
pub(super) fn pack_vartime(p: &Params, hint: &[DsaPoly], out: &mut [u8]) {
    out.fill(0);
    let (positions, ends) = out.split_at_mut(p.omega);
    let mut index = 0;
    for (row, end) in hint.iter().zip(ends) {
        for (j, &bit) in row.0.iter().enumerate() {
            if bit != 0 {
                positions[index] = j as u8;
                index += 1;
            }
        }
        *end = index as u8;
    }
}

/// The checks of HintBitUnpack (Algorithm 21, lines 4, 9 and 16) on `omega + k` bytes: ends do
/// not fall and stay within omega, positions rise inside a row, the padding is zero.
pub(super) fn is_well_formed(p: &Params, bytes: &[u8]) -> bool {
    let (positions, ends) = bytes.split_at(p.omega);
    let mut start = 0;
    for &end in ends {
        let end = usize::from(end);
        if end < start || end > p.omega {
            return false;
        }
        if positions[start..end].windows(2).any(|pair| pair[0] >= pair[1]) {
            return false;
        }
        start = end;
    }
    positions[start..].iter().all(|&byte| byte == 0)
}

/// Row `row` of HintBitUnpack (Algorithm 21) from bytes that are well formed.
pub(super) fn unpack_row(p: &Params, bytes: &[u8], row: usize, out: &mut DsaPoly) {
    let (positions, ends) = bytes.split_at(p.omega);
    let start = if row == 0 { 0 } else { usize::from(ends[row - 1]) };
    out.0 = [0; N];
    for &position in &positions[start..usize::from(ends[row])] {
        out.0[usize::from(position)] = 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithms::Algorithm;
    use crate::ml_dsa::params;

    fn sample(p: &Params) -> (Vec<DsaPoly>, Vec<u8>) {
        let mut hint = vec![DsaPoly::default(); p.k];
        for (row, positions) in [(0, vec![0, 1, 255]), (2, vec![7]), (3, vec![3, 200])] {
            for j in positions {
                hint[row].0[j] = 1;
            }
        }
        let mut bytes = vec![0xff; p.omega + p.k];
        pack_vartime(p, &hint, &mut bytes);
        (hint, bytes)
    }

    #[test]
    fn hint_packing_roundtrips() {
        for algorithm in [Algorithm::MlDsa44, Algorithm::MlDsa65, Algorithm::MlDsa87] {
            let p = params(algorithm).expect("an ML-DSA set");
            let (hint, bytes) = sample(p);
            assert!(is_well_formed(p, &bytes));
            let mut row = DsaPoly([9; N]);
            for (i, expected) in hint.iter().enumerate() {
                unpack_row(p, &bytes, i, &mut row);
                assert_eq!(&row, expected, "{algorithm} row {i}");
            }
        }
    }

    #[test]
    fn a_full_hint_and_an_empty_one_are_well_formed() {
        let p = params(Algorithm::MlDsa65).expect("an ML-DSA set");
        let mut hint = vec![DsaPoly::default(); p.k];
        let mut bytes = vec![0; p.omega + p.k];
        pack_vartime(p, &hint, &mut bytes);
        assert!(bytes.iter().all(|&b| b == 0) && is_well_formed(p, &bytes));
        hint[p.k - 1].0[..p.omega].fill(1);
        pack_vartime(p, &hint, &mut bytes);
        assert!(is_well_formed(p, &bytes));
        assert_eq!(usize::from(bytes[p.omega + p.k - 1]), p.omega);
    }

    #[test]
    fn malformed_hints_are_seen() {
        let p = params(Algorithm::MlDsa44).expect("an ML-DSA set");
        let (_, good) = sample(p);
        let refused = |change: &dyn Fn(&mut [u8])| {
            let mut bytes = good.clone();
            change(&mut bytes);
            assert_ne!(bytes, good);
            !is_well_formed(p, &bytes)
        };
        assert!(refused(&|b| b.swap(0, 1)), "positions fall");
        assert!(refused(&|b| b[1] = b[0]), "a position twice");
        assert!(refused(&|b| b[p.omega - 1] = 1), "padding");
        assert!(refused(&|b| b[6] = 1), "padding right behind the last position");
        assert!(refused(&|b| b[p.omega + 1] = 2), "ends fall");
        assert!(refused(&|b| b[p.omega + 3] = p.omega as u8 + 1), "more than omega");
        assert!(refused(&|b| b[p.omega + 3] = 255), "far more than omega");
    }
}
