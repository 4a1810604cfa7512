//! SHA-256 by the SHA extensions on four streams, with their schedules in registers 16 to 31.
//!
//! ```text
//!   stream i:   state in 1 + 2i and 2 + 2i     words of the block in 16 + 4i to 19 + 4i
//!   all:        0 is an operand of the instructions, 9 to 11 are at hand
//! ```
//!
//! The instructions reach registers 0 to 15 only, which hold two streams with their schedules, or
//! four without. Moves between registers take no execution port, so the upper ones replace memory.
//! On Zen 4 that is faster than schedules in memory, than two streams, and than LLVM's code for
//! four, and little slower than the instructions alone. Combining them with sixteen lanes
//! ([`super::sha256_lanes`]) gains nothing, because the instructions keep the pipes of the others
//! busy as well. On Sapphire Rapids these instructions take twice as long, so there the lanes get
//! all work that fills them.

use core::arch::asm;

use crate::x86::sha_ni::{Block, Lane, ROUNDS, STREAMS, Shuffles, State};

/// Four rounds of a stream, with words that are in the upper register `$w`.
macro_rules! rounds {
    ($abef:literal $cdgh:literal $w:literal $group:literal) => {
        concat!(
            "vpaddd xmm0, xmm",
            $w,
            ", [{constants} + 16 * ",
            $group,
            "]\n",
            "sha256rnds2 xmm",
            $cdgh,
            ", xmm",
            $abef,
            "\n",
            "vpshufd xmm0, xmm0, 0x0e\n",
            "sha256rnds2 xmm",
            $abef,
            ", xmm",
            $cdgh,
            "\n",
        )
    };
}

/// The next four words of a stream's schedule in place of the first, and their rounds.
macro_rules! next_rounds {
    ($abef:literal $cdgh:literal $w0:literal $w1:literal $w2:literal $w3:literal $group:literal) => {
        concat!(
            "vmovdqa64 xmm9, xmm", $w0, "\n",
            "vmovdqa64 xmm10, xmm", $w1, "\n",
            "sha256msg1 xmm9, xmm10\n",
            "vpalignr xmm11, xmm", $w3, ", xmm", $w2, ", 4\n",
            "vpaddd xmm9, xmm9, xmm11\n",
            "vmovdqa64 xmm10, xmm", $w3, "\n",
            "sha256msg2 xmm9, xmm10\n",
            "vmovdqa64 xmm", $w0, ", xmm9\n",
            rounds!($abef $cdgh 9 $group),
        )
    };
}

/// Runs the next rounds in all streams, by which of a stream's four registers comes first.
macro_rules! next_rounds_of_all {
    (0 $group:literal) => {
        concat!(
            next_rounds!(1 2 16 17 18 19 $group), next_rounds!(3 4 20 21 22 23 $group),
            next_rounds!(5 6 24 25 26 27 $group), next_rounds!(7 8 28 29 30 31 $group),
        )
    };
    (1 $group:literal) => {
        concat!(
            next_rounds!(1 2 17 18 19 16 $group), next_rounds!(3 4 21 22 23 20 $group),
            next_rounds!(5 6 25 26 27 24 $group), next_rounds!(7 8 29 30 31 28 $group),
        )
    };
    (2 $group:literal) => {
        concat!(
            next_rounds!(1 2 18 19 16 17 $group), next_rounds!(3 4 22 23 20 21 $group),
            next_rounds!(5 6 26 27 24 25 $group), next_rounds!(7 8 30 31 28 29 $group),
        )
    };
    (3 $group:literal) => {
        concat!(
            next_rounds!(1 2 19 16 17 18 $group), next_rounds!(3 4 23 20 21 22 $group),
            next_rounds!(5 6 27 24 25 26 $group), next_rounds!(7 8 31 28 29 30 $group),
        )
    };
}

/// All 64 rounds of all streams.
macro_rules! all_rounds {
    () => {
        concat!(
            rounds!(1 2 16 0), rounds!(3 4 20 0), rounds!(5 6 24 0), rounds!(7 8 28 0),
            rounds!(1 2 17 1), rounds!(3 4 21 1), rounds!(5 6 25 1), rounds!(7 8 29 1),
            rounds!(1 2 18 2), rounds!(3 4 22 2), rounds!(5 6 26 2), rounds!(7 8 30 2),
            rounds!(1 2 19 3), rounds!(3 4 23 3), rounds!(5 6 27 3), rounds!(7 8 31 3),
            next_rounds_of_all!(0 4), next_rounds_of_all!(1 5), next_rounds_of_all!(2 6),
            next_rounds_of_all!(3 7), next_rounds_of_all!(0 8), next_rounds_of_all!(1 9),
            next_rounds_of_all!(2 10), next_rounds_of_all!(3 11), next_rounds_of_all!(0 12),
            next_rounds_of_all!(1 13), next_rounds_of_all!(2 14), next_rounds_of_all!(3 15),
        )
    };
}

/// Loads the state of a lane and builds its block.
macro_rules! load_lane {
    ($i:literal: $abef:literal $cdgh:literal $w0:literal $w1:literal $w2:literal $w3:literal) => {
        concat!(
            "vmovdqa xmm",
            $abef,
            ", [{lanes} + {lane} * ",
            $i,
            " + {start}]\n",
            "vmovdqa xmm",
            $cdgh,
            ", [{lanes} + {lane} * ",
            $i,
            " + {start} + 16]\n",
            "vmovdqa xmm9, [{lanes} + {lane} * ",
            $i,
            " + {value}]\n",
            "vmovdqa xmm10, [{lanes} + {lane} * ",
            $i,
            " + {value} + 16]\n",
            "vmovdqa xmm12, [{lanes} + {lane} * ",
            $i,
            " + {address} + 16]\n",
            "vmovdqa64 xmm",
            $w0,
            ", [{lanes} + {lane} * ",
            $i,
            " + {address}]\n",
            // The two words with the hash address, the upper one first.
            "vpshufd xmm11, xmm12, 0xe1\n",
            "vpshufb xmm",
            $w1,
            ", xmm9, [{layout}]\n",
            "vporq xmm",
            $w1,
            ", xmm",
            $w1,
            ", xmm11\n",
            "vpshufb xmm11, xmm9, [{layout} + 16]\n",
            "vpshufb xmm",
            $w2,
            ", xmm10, [{layout} + 32]\n",
            "vpternlogd xmm",
            $w2,
            ", xmm11, [{layout} + 64], 0xfe\n",
            "vpshufb xmm",
            $w3,
            ", xmm10, [{layout} + 48]\n",
            "vporq xmm",
            $w3,
            ", xmm",
            $w3,
            ", [{layout} + 80]\n",
            // One more for the next step.
            "vpaddq xmm12, xmm12, [{layout} + 96]\n",
            "vmovdqa [{lanes} + {lane} * ",
            $i,
            " + {address} + 16], xmm12\n",
        )
    };
}

/// Adds the state before and stores the value.
macro_rules! store_lane {
    ($i:literal: $abef:literal $cdgh:literal) => {
        concat!(
            "vpaddd xmm",
            $abef,
            ", xmm",
            $abef,
            ", [{lanes} + {lane} * ",
            $i,
            " + {start}]\n",
            "vpaddd xmm",
            $cdgh,
            ", xmm",
            $cdgh,
            ", [{lanes} + {lane} * ",
            $i,
            " + {start} + 16]\n",
            "vpunpckhqdq xmm9, xmm",
            $abef,
            ", xmm",
            $cdgh,
            "\n",
            "vpunpcklqdq xmm10, xmm",
            $abef,
            ", xmm",
            $cdgh,
            "\n",
            "vmovdqa [{lanes} + {lane} * ",
            $i,
            " + {value}], xmm9\n",
            "vmovdqa [{lanes} + {lane} * ",
            $i,
            " + {value} + 16], xmm10\n",
        )
    };
}

/// Loads a state and a block.
macro_rules! load_block {
    ($i:literal: $abef:literal $cdgh:literal $w0:literal $w1:literal $w2:literal $w3:literal) => {
        concat!(
            "vmovdqu xmm",
            $abef,
            ", [{states} + 32 * ",
            $i,
            "]\n",
            "vmovdqu xmm",
            $cdgh,
            ", [{states} + 32 * ",
            $i,
            " + 16]\n",
            "vmovdqu64 xmm",
            $w0,
            ", [{blocks} + 64 * ",
            $i,
            "]\n",
            "vmovdqu64 xmm",
            $w1,
            ", [{blocks} + 64 * ",
            $i,
            " + 16]\n",
            "vmovdqu64 xmm",
            $w2,
            ", [{blocks} + 64 * ",
            $i,
            " + 32]\n",
            "vmovdqu64 xmm",
            $w3,
            ", [{blocks} + 64 * ",
            $i,
            " + 48]\n",
        )
    };
}

/// Adds the state before and stores the sum.
macro_rules! store_state {
    ($i:literal: $abef:literal $cdgh:literal) => {
        concat!(
            "vpaddd xmm",
            $abef,
            ", xmm",
            $abef,
            ", [{states} + 32 * ",
            $i,
            "]\n",
            "vpaddd xmm",
            $cdgh,
            ", xmm",
            $cdgh,
            ", [{states} + 32 * ",
            $i,
            " + 16]\n",
            "vmovdqu [{states} + 32 * ",
            $i,
            "], xmm",
            $abef,
            "\n",
            "vmovdqu [{states} + 32 * ",
            $i,
            " + 16], xmm",
            $cdgh,
            "\n",
        )
    };
}

/// One step in each of four lanes.
#[inline]
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt,sha")]
pub(crate) fn step(lanes: &mut [Lane; STREAMS], shuffles: &Shuffles) {
    const { assert!(size_of::<Shuffles>() == 112 && align_of::<Lane>() == 16) };
    // SAFETY: reads and writes within the four lanes, whose fields and size come from the compiler,
    // and reads the constants; every register that is written is declared lost.
    unsafe {
        asm!(
            load_lane!(0: 1 2 16 17 18 19),
            load_lane!(1: 3 4 20 21 22 23),
            load_lane!(2: 5 6 24 25 26 27),
            load_lane!(3: 7 8 28 29 30 31),
            all_rounds!(),
            store_lane!(0: 1 2),
            store_lane!(1: 3 4),
            store_lane!(2: 5 6),
            store_lane!(3: 7 8),
            lanes = in(reg) lanes,
            layout = in(reg) shuffles,
            constants = in(reg) &ROUNDS,
            lane = const size_of::<Lane>(),
            start = const core::mem::offset_of!(Lane, start),
            address = const core::mem::offset_of!(Lane, address),
            value = const core::mem::offset_of!(Lane, value),
            out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _, out("xmm4") _,
            out("xmm5") _, out("xmm6") _, out("xmm7") _, out("xmm8") _, out("xmm9") _,
            out("xmm10") _, out("xmm11") _, out("xmm12") _,
            out("xmm16") _, out("xmm17") _, out("xmm18") _, out("xmm19") _, out("xmm20") _,
            out("xmm21") _, out("xmm22") _, out("xmm23") _, out("xmm24") _, out("xmm25") _,
            out("xmm26") _, out("xmm27") _, out("xmm28") _, out("xmm29") _, out("xmm30") _,
            out("xmm31") _,
            options(nostack, preserves_flags),
        );
    }
}

/// One block into each of four states.
#[inline]
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt,sha")]
pub(crate) fn compress(states: &mut [State; STREAMS], blocks: &[Block; STREAMS]) {
    // SAFETY: reads and writes the four states, reads the four blocks and the constants; every
    // register that is written is declared lost.
    unsafe {
        asm!(
            load_block!(0: 1 2 16 17 18 19),
            load_block!(1: 3 4 20 21 22 23),
            load_block!(2: 5 6 24 25 26 27),
            load_block!(3: 7 8 28 29 30 31),
            all_rounds!(),
            store_state!(0: 1 2),
            store_state!(1: 3 4),
            store_state!(2: 5 6),
            store_state!(3: 7 8),
            states = in(reg) states,
            blocks = in(reg) blocks,
            constants = in(reg) &ROUNDS,
            out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _, out("xmm4") _,
            out("xmm5") _, out("xmm6") _, out("xmm7") _, out("xmm8") _, out("xmm9") _,
            out("xmm10") _, out("xmm11") _,
            out("xmm16") _, out("xmm17") _, out("xmm18") _, out("xmm19") _, out("xmm20") _,
            out("xmm21") _, out("xmm22") _, out("xmm23") _, out("xmm24") _, out("xmm25") _,
            out("xmm26") _, out("xmm27") _, out("xmm28") _, out("xmm29") _, out("xmm30") _,
            out("xmm31") _,
            options(nostack, preserves_flags),
        );
    }
}

/// Four streams by this module. Having this is the proof that the processor has AVX-512 and the SHA
/// extensions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Streams(());

impl Streams {
    /// The token.
    ///
    /// # Safety
    /// The processor supports what this module's functions are compiled for.
    pub(crate) unsafe fn new() -> Self {
        Streams(())
    }
}

impl crate::x86::sha_ni::FourStreams for Streams {
    #[inline(always)]
    fn step(self, lanes: &mut [Lane; STREAMS], shuffles: &Shuffles) {
        // SAFETY: the token proves that the processor has AVX-512 and the SHA extensions.
        unsafe { step(lanes, shuffles) }
    }

    #[inline(always)]
    fn compress(self, states: &mut [State; STREAMS], blocks: &[Block; STREAMS]) {
        // SAFETY: the token proves that the processor has AVX-512 and the SHA extensions.
        unsafe { compress(states, blocks) }
    }

    #[inline(always)]
    fn clear(self) {
        // SAFETY: the token proves that the processor has AVX-512.
        unsafe { crate::avx512::registers::clear() }
    }
}
