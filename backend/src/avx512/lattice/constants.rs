//! Where coefficients lie between the layers of an NTT, worked out by the compiler: what the order
//! of the roots and the way back to the standard's order follow from.

use crate::common::constants;
use crate::common::memory::Table;

/// The sources of the sixteen double words of each of two registers.
pub(super) type Pair = constants::Pair<16>;

/// A pair of registers as it lies in memory.
pub(super) const IN_ORDER: Pair = constants::in_order();

/// Models of the functions in [`super::shuffle`] with the same names, on indices.
pub(super) mod model {
    use super::{Pair, Table};
    use crate::common::constants::exchange;

    pub(in super::super) const fn halves(x: &Pair) -> Pair {
        exchange(x, 8)
    }

    pub(in super::super) const fn quads(x: &Pair) -> Pair {
        exchange(x, 2)
    }

    pub(in super::super) const fn doubles(x: &Pair) -> Pair {
        exchange(x, 1)
    }

    pub(in super::super) const fn quarters(x: &Pair) -> Pair {
        let mut out = [[0; 16]; 2];
        let mut i = 0;
        while i < 16 {
            let from = i / 4 % 2 * 8 + i % 4;
            out[0][i] = x[i / 8][from];
            out[1][i] = x[i / 8][from + 4];
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
