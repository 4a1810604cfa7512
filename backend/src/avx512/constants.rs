//! Where coefficients lie between the layers of an NTT, worked out by the compiler: what the order
//! of the roots and the way back to the standard's order follow from.

use crate::memory::Table;

/// Where the sixteen double words of each of two registers come from: index in 0..32 of the pair
/// as it lies in memory.
pub(super) type Pair = [[usize; 16]; 2];

/// A pair of registers as it lies in memory.
pub(super) const IN_ORDER: Pair = {
    let mut pair = [[0; 16]; 2];
    let mut i = 0;
    while i < 16 {
        pair[0][i] = i;
        pair[1][i] = 16 + i;
        i += 1;
    }
    pair
};

/// What the functions of [`super::shuffle`] of the same names do, on indices.
pub(super) mod model {
    use super::{Pair, Table};

    /// Concatenates, for each entry of `sources`, a run of double words of one of the registers.
    const fn gather(x: &Pair, runs: [(usize, usize); 8], length: usize) -> [usize; 16] {
        let mut out = [0; 16];
        let mut i = 0;
        while i < 16 {
            let (register, from) = runs[i / length];
            out[i] = x[register][from + i % length];
            i += 1;
        }
        out
    }

    pub(in super::super) const fn halves(x: &Pair) -> Pair {
        let z = (0, 0);
        [
            gather(x, [(0, 0), (1, 0), z, z, z, z, z, z], 8),
            gather(x, [(0, 8), (1, 8), z, z, z, z, z, z], 8),
        ]
    }

    pub(in super::super) const fn quarters(x: &Pair) -> Pair {
        let z = (0, 0);
        [
            gather(x, [(0, 0), (0, 8), (1, 0), (1, 8), z, z, z, z], 4),
            gather(x, [(0, 4), (0, 12), (1, 4), (1, 12), z, z, z, z], 4),
        ]
    }

    pub(in super::super) const fn quads(x: &Pair) -> Pair {
        [
            gather(x, [(0, 0), (1, 0), (0, 4), (1, 4), (0, 8), (1, 8), (0, 12), (1, 12)], 2),
            gather(x, [(0, 2), (1, 2), (0, 6), (1, 6), (0, 10), (1, 10), (0, 14), (1, 14)], 2),
        ]
    }

    pub(in super::super) const fn doubles(x: &Pair) -> Pair {
        let mut out = [[0; 16]; 2];
        let mut i = 0;
        while i < 16 {
            out[0][i] = x[i % 2][i - i % 2];
            out[1][i] = x[i % 2][i - i % 2 + 1];
            i += 1;
        }
        out
    }

    /// Indices for `vpermt2d` that put a pair back in memory order.
    pub(in super::super) const fn back(x: &Pair) -> [Table<i32, 16>; 2] {
        let mut out = [Table([0; 16]); 2];
        let mut i = 0;
        while i < 32 {
            let at = x[i / 16][i % 16];
            out[at / 16].0[at % 16] = i as i32;
            i += 1;
        }
        out
    }

    /// Indices for `vpermt2d` that bring a pair from memory order to `x`.
    pub(in super::super) const fn forth(x: &Pair) -> [Table<i32, 16>; 2] {
        let mut out = [Table([0; 16]); 2];
        let mut i = 0;
        while i < 32 {
            out[i / 16].0[i % 16] = x[i / 16][i % 16] as i32;
            i += 1;
        }
        out
    }
}
