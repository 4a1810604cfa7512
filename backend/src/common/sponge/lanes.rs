//! The operations that an instruction set supplies for sponges, and the macro that compiles their
//! functions for it.

use gabion_scheme::kernels::Sponge;

use super::{Lane, Row, State, zero_behind};
use crate::common::memory::Plain;

/// The operations that sponges need of an instruction set with `N` lanes, of which a step of
/// `NARROW` lanes costs less than one of all; `NARROW` is `N` without such a step.
pub(crate) trait Lanes<const N: usize, const NARROW: usize>: Copy {
    /// A register: a word of each of the N states, or N words of one of them.
    type Vector: Plain;

    /// Returns a word that is equal in all lanes.
    fn splat(self, word: u64) -> Self::Vector;
    /// Exclusive or.
    fn xor(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// The words of the lanes that are set in `lanes`, and zeros.
    fn only(self, v: Self::Vector, lanes: u8) -> Self::Vector;
    /// The first `count` words at an address, N at most, and zeros.
    ///
    /// # Safety
    /// N words can be read there.
    unsafe fn load(self, words: *const u8, count: usize) -> Self::Vector;
    /// The word at each address.
    ///
    /// # Safety
    /// A word can be read at each.
    unsafe fn gather(self, words: [*const u8; N]) -> Self::Vector;
    /// Stores the first `length` bytes of a register, or all where there are fewer.
    ///
    /// # Safety
    /// That many bytes can be written there.
    unsafe fn store(self, target: *mut u8, v: Self::Vector, length: usize);
    /// Copies a piece of [`SHORT`] bytes at most to `row[at..]`; anything may follow it, up to
    /// [`SHORT`] bytes from `at`.
    fn copy_short(self, row: &mut Row, at: usize, piece: &[u8]);
    /// Puts two pieces, [`SHORT`] bytes together at most, one behind the other at the head of a row;
    /// zeros follow up to [`SHORT`] bytes.
    #[inline(always)]
    fn copy_pair(self, row: &mut Row, a: &[u8], b: &[u8]) {
        self.copy_short(row, 0, a);
        self.copy_short(row, a.len(), b);
        zero_behind(row, a.len() + b.len());
    }
    /// Returns which bytes equal `byte`, as bits.
    fn equal(self, bytes: &[u8; 64], byte: u8) -> u64;
    /// Converts N words each of lanes 0 to W - 1 to W words each of all; the contents of the other
    /// lanes do not matter. `W` is `N` or `NARROW`.
    fn rows_to_words<const W: usize>(self, rows: [Self::Vector; N]) -> [Self::Vector; N];
    /// The way back.
    fn words_to_rows<const W: usize>(self, words: [Self::Vector; N]) -> [Self::Vector; N];
    /// Keccak-f[1600] on lanes 0 to W - 1; `W` is `N` or `NARROW`.
    fn permute<const W: usize>(self, state: &mut State<Self::Vector>);
    /// Keccak-f[1600] on one state.
    fn permute_one(self, words: &mut [u64; 25]);
    /// Clears every vector register.
    fn clear(self);

    /// [`absorb`], compiled for this instruction set.
    fn absorb<const W: usize>(
        self,
        state: &mut State<Self::Vector>,
        lanes: &mut [Lane; N],
        rows: &mut [Row; N],
        jobs: &[Sponge<'_>],
        fresh: u8,
    );
    /// [`squeeze`], compiled for this instruction set.
    fn squeeze<const W: usize>(
        self,
        state: &State<Self::Vector>,
        lanes: &mut [Lane; N],
        rows: &mut [Row; N],
        jobs: &mut [Sponge<'_>],
    );
    /// [`run_in_step`], compiled for this instruction set.
    fn run_in_step(
        self,
        state: &mut State<Self::Vector>,
        rows: &mut [Row; N],
        jobs: &mut [Sponge<'_>],
        group: [usize; N],
    ) -> bool;
    /// [`run_alone`], compiled for this instruction set.
    fn run_alone(self, words: &mut [u64; 25], lane: Lane, job: &mut Sponge<'_>);
}

/// Copies a piece of unusual length: the last half of a row of bytes is the first half once more
/// where there are not that many.
#[inline(always)]
pub(crate) fn copy_any(target: &mut [u8], piece: &[u8]) {
    /// The first and the last `W` of `W` to `2 W` bytes.
    #[inline(always)]
    fn ends<const W: usize>(target: &mut [u8], piece: &[u8]) -> bool {
        let (Some(first), Some(last)) = (piece.first_chunk::<W>(), piece.last_chunk::<W>()) else {
            return false;
        };
        target[..W].copy_from_slice(first);
        target[piece.len() - W..].copy_from_slice(last);
        true
    }
    let done = ends::<32>(target, piece)
        || ends::<16>(target, piece)
        || ends::<8>(target, piece)
        || ends::<4>(target, piece)
        || ends::<2>(target, piece)
        || ends::<1>(target, piece);
    debug_assert!(done || piece.is_empty());
}

/// Defines `sponge_many` and its parts for an instruction set, within its own module: the token's
/// type, its lanes, the lanes of a narrow step, its register, and as an attribute the features that
/// the token stands for.
///
/// The parts stay separate functions: a call costs nothing relative to a permutation, and the scan
/// of the machine code knows which of their arguments describe jobs, and which point to data.
macro_rules! stations {
    ($isa:ty, $n:literal, $narrow:literal, $vector:ty, $(#[$features:meta])?) => {
        /// Runs every sponge to its end.
        $(#[$features])?
        pub(crate) fn sponge_many(isa: $isa, jobs: &mut [Sponge<'_>]) {
            $crate::common::sponge::sponge_many::<$isa, $n, $narrow>(isa, jobs);
        }

        $(#[$features])?
        #[inline(never)]
        fn absorb<const W: usize>(
            isa: $isa,
            state: &mut [$vector; 25],
            lanes: &mut [$crate::common::sponge::Lane; $n],
            rows: &mut [$crate::common::sponge::Row; $n],
            jobs: &[Sponge<'_>],
            fresh: u8,
        ) {
            $crate::common::sponge::absorb::<$isa, $n, $narrow, W>(isa, state, lanes, rows, jobs, fresh);
        }

        $(#[$features])?
        #[inline(never)]
        fn squeeze<const W: usize>(
            isa: $isa,
            state: &[$vector; 25],
            lanes: &mut [$crate::common::sponge::Lane; $n],
            rows: &mut [$crate::common::sponge::Row; $n],
            jobs: &mut [Sponge<'_>],
        ) {
            $crate::common::sponge::squeeze::<$isa, $n, $narrow, W>(isa, state, lanes, rows, jobs);
        }

        $(#[$features])?
        #[inline(never)]
        fn run_in_step(
            isa: $isa,
            state: &mut [$vector; 25],
            rows: &mut [$crate::common::sponge::Row; $n],
            jobs: &mut [Sponge<'_>],
            group: [usize; $n],
        ) -> bool {
            $crate::common::sponge::run_in_step::<$isa, $n, $narrow>(isa, state, rows, jobs, group)
        }

        $(#[$features])?
        #[inline(never)]
        fn run_alone(
            isa: $isa,
            words: &mut [u64; 25],
            lane: $crate::common::sponge::Lane,
            job: &mut Sponge<'_>,
        ) {
            $crate::common::sponge::run_alone::<$isa, $n, $narrow>(isa, words, lane, job);
        }
    };
    (methods: $vector:ty, $n:literal) => {
        #[inline(always)]
        fn absorb<const W: usize>(
            self,
            state: &mut [$vector; 25],
            lanes: &mut [$crate::common::sponge::Lane; $n],
            rows: &mut [$crate::common::sponge::Row; $n],
            jobs: &[Sponge<'_>],
            fresh: u8,
        ) {
            // SAFETY: the token proves that the processor supports the function's features.
            unsafe { absorb::<W>(self, state, lanes, rows, jobs, fresh) }
        }

        #[inline(always)]
        fn squeeze<const W: usize>(
            self,
            state: &[$vector; 25],
            lanes: &mut [$crate::common::sponge::Lane; $n],
            rows: &mut [$crate::common::sponge::Row; $n],
            jobs: &mut [Sponge<'_>],
        ) {
            // SAFETY: the token proves that the processor supports the function's features.
            unsafe { squeeze::<W>(self, state, lanes, rows, jobs) }
        }

        #[inline(always)]
        fn run_in_step(
            self,
            state: &mut [$vector; 25],
            rows: &mut [$crate::common::sponge::Row; $n],
            jobs: &mut [Sponge<'_>],
            group: [usize; $n],
        ) -> bool {
            // SAFETY: the token proves that the processor supports the function's features.
            unsafe { run_in_step(self, state, rows, jobs, group) }
        }

        #[inline(always)]
        fn run_alone(
            self,
            words: &mut [u64; 25],
            lane: $crate::common::sponge::Lane,
            job: &mut Sponge<'_>,
        ) {
            // SAFETY: the token proves that the processor supports the function's features.
            unsafe { run_alone(self, words, lane, job) }
        }
    };
}
pub(crate) use stations;
