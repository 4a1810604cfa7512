//! Compares every function and every instruction with the processor's, on edge cases and at random.

use core::arch::x86_64 as real;

use super::*;

const ROUNDS: usize = 400;

/// Numbers by a linear congruence (Knuth), half of them replaced by edge cases.
struct Inputs(u64);

impl Inputs {
    fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        let top = self.0 >> 32;
        self.0 = self.0.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        let random = top << 32 | self.0 >> 32;
        const EDGES: [u64; 14] = [
            0,
            !0,
            0x8080_8080_8080_8080,
            0x8000_8000_8000_8000,
            0x8000_0000_8000_0000,
            0x8000_0000_0000_0000,
            0x7f7f_7f7f_7f7f_7f7f,
            0x7fff_7fff_7fff_7fff,
            0x0001_0001_0001_0001,
            0x0000_0001_0000_0001,
            // Counts of shifts at the widths and about them.
            0x0010_000f_0000_001f,
            0x0000_0020_0000_0021,
            0x40,
            0x3f,
        ];
        match random >> 5 & 31 {
            edge @ 0..14 => EDGES[edge as usize],
            14 => random & 0x3f,
            15 => random & 0xff,
            _ => random,
        }
    }

    fn words<const N: usize>(&mut self) -> [u64; N] {
        core::array::from_fn(|_| self.word())
    }
}

/// An emulated value that has a counterpart on the processor.
trait EmulatedValue: Sized {
    type Real;
    fn any(inputs: &mut Inputs) -> Self;
    fn real(&self) -> Self::Real;
    fn assert_same(&self, real: Self::Real, what: &str);
}

macro_rules! registers {
    ($($t:ident)*) => { $(
        impl EmulatedValue for $t {
            type Real = real::$t;
            fn any(inputs: &mut Inputs) -> Self {
                $t(inputs.words())
            }
            fn real(&self) -> real::$t {
                // SAFETY: same size, and any bits are a register.
                unsafe { core::mem::transmute_copy(self) }
            }
            fn assert_same(&self, real: real::$t, what: &str) {
                // SAFETY: as above.
                let real: $t = unsafe { core::mem::transmute_copy(&real) };
                assert_eq!(self.0, real.0, "{what}");
            }
        }
    )* };
}

registers!(__m512i __m256i __m128i);

macro_rules! integers {
    ($($t:ty)*) => { $(
        impl EmulatedValue for $t {
            type Real = $t;
            fn any(inputs: &mut Inputs) -> Self {
                inputs.word() as $t
            }
            fn real(&self) -> $t {
                *self
            }
            fn assert_same(&self, real: $t, what: &str) {
                assert_eq!(*self, real, "{what}");
            }
        }
    )* };
}

integers!(u8 u16 u32 u64 i8 i16 i32 i64);

/// Returns whether the processor has the emulated instructions.
fn is_supported() -> bool {
    crate::avx512::Avx512::detect().is_some() && is_x86_feature_detected!("sha")
}

/// Compares functions of the given arguments, with each of the given constants.
macro_rules! same {
    ($test:ident: $($name:ident $([$($constant:literal)*])? ($($arg:ident: $kind:ty),*);)*) => {
        #[test]
        fn $test() {
            if is_supported() {
                // SAFETY: the processor supports the features, as just detected.
                unsafe { compare() }
            }
            #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vbmi,avx512vbmi2")]
            #[target_feature(enable = "avx512ifma,avx512vnni,sha,bmi2,ssse3")]
            fn compare() {
                $(
                    let mut inputs = Inputs(stringify!($name).len() as u64);
                    for _ in 0..ROUNDS {
                        let _ = &mut inputs; // Not every function takes something.
                        $(let $arg = <$kind>::any(&mut inputs);)*
                        let what = format!(
                            concat!(stringify!($name), "(", $(stringify!($arg), " = {:x?} ",)* ")"),
                            $($arg),*
                        );
                        same!(@call $name $([$($constant)*])? [$($arg)*] what);
                    }
                )*
            }
        }
    };
    (@call $name:ident [$($arg:ident)*] $what:ident) => {
        super::$name($($arg),*).assert_same(real::$name($($arg.real()),*), &$what);
    };
    (@call $name:ident [$($constant:literal)*] $args:tt $what:ident) => {
        $(same!(@constant $name $constant $args $what);)*
    };
    (@constant $name:ident $constant:literal [$($arg:ident)*] $what:ident) => {
        let out = super::$name::<$constant>($($arg),*);
        let expected = real::$name::<$constant>($($arg.real()),*);
        out.assert_same(expected, &format!("{} with {}", $what, $constant));
    };
}

same! { arithmetic_is_the_processors:
    _mm512_add_epi16(a: __m512i, b: __m512i);
    _mm512_add_epi32(a: __m512i, b: __m512i);
    _mm512_add_epi64(a: __m512i, b: __m512i);
    _mm512_sub_epi16(a: __m512i, b: __m512i);
    _mm512_sub_epi32(a: __m512i, b: __m512i);
    _mm512_sub_epi64(a: __m512i, b: __m512i);
    _mm512_and_si512(a: __m512i, b: __m512i);
    _mm512_or_si512(a: __m512i, b: __m512i);
    _mm512_xor_si512(a: __m512i, b: __m512i);
    _mm512_max_epi16(a: __m512i, b: __m512i);
    _mm512_max_epi32(a: __m512i, b: __m512i);
    _mm512_min_epi32(a: __m512i, b: __m512i);
    _mm512_min_epu16(a: __m512i, b: __m512i);
    _mm512_min_epu32(a: __m512i, b: __m512i);
    _mm512_mullo_epi16(a: __m512i, b: __m512i);
    _mm512_mullo_epi32(a: __m512i, b: __m512i);
    _mm512_mullo_epi64(a: __m512i, b: __m512i);
    _mm512_mulhi_epi16(a: __m512i, b: __m512i);
    _mm512_mulhrs_epi16(a: __m512i, b: __m512i);
    _mm512_mul_epi32(a: __m512i, b: __m512i);
    _mm512_abs_epi32(a: __m512i);
    _mm512_madd_epi16(a: __m512i, b: __m512i);
    _mm512_maddubs_epi16(a: __m512i, b: __m512i);
    _mm512_madd52lo_epu64(a: __m512i, b: __m512i, c: __m512i);
    _mm512_madd52hi_epu64(a: __m512i, b: __m512i, c: __m512i);
    _mm512_ternarylogic_epi32 [0 0x96 0xca 0xe8 0x1b](a: __m512i, b: __m512i, c: __m512i);
    _mm_ternarylogic_epi64 [0 0x96 0xca 0xe8 0x1b](a: __m128i, b: __m128i, c: __m128i);
    _mm512_ternarylogic_epi64 [0xff 0xd2 0xc6 0x9c 0x40](a: __m512i, b: __m512i, c: __m512i);
    _mm512_cvtepi16_epi32(a: __m256i);
    _mm512_cvtepi8_epi32(a: __m128i);
    _mm512_cvtepu8_epi16(a: __m256i);
    _mm_add_epi32(a: __m128i, b: __m128i);
    _mm_add_epi64(a: __m128i, b: __m128i);
    _mm_or_si128(a: __m128i, b: __m128i);
    _mm_xor_si128(a: __m128i, b: __m128i);
    _bzhi_u64(a: u64, count: u32);
}

same! { constants_are_the_processors:
    _mm512_setzero_si512();
    _mm512_set1_epi8(x: i8);
    _mm512_set1_epi16(x: i16);
    _mm512_set1_epi32(x: i32);
    _mm512_set1_epi64(x: i64);
    _mm512_set_epi64(h: i64, g: i64, f: i64, e: i64, d: i64, c: i64, b: i64, a: i64);
    _mm_setzero_si128();
    _mm_cvtsi32_si128(x: i32);
    _mm_cvtsi64_si128(x: i64);
    _mm_set_epi64x(high: i64, low: i64);
    _mm_set_epi8(a: i8, b: i8, c: i8, d: i8, e: i8, f: i8, g: i8, h: i8, i: i8, j: i8, k: i8,
        l: i8, m: i8, n: i8, o: i8, p: i8);
}

same! { shifts_are_the_processors:
    _mm512_slli_epi16 [0 1 15 16 200](a: __m512i);
    _mm512_slli_epi32 [0 1 31 32 200](a: __m512i);
    _mm512_slli_epi64 [0 1 63 64 200](a: __m512i);
    _mm512_srli_epi16 [0 1 15 16 200](a: __m512i);
    _mm512_srli_epi32 [0 1 31 32 200](a: __m512i);
    _mm512_srli_epi64 [0 1 63 64 200](a: __m512i);
    _mm512_srai_epi32 [0 1 31 32 200](a: __m512i);
    _mm_srli_epi64 [0 1 63 64 200](a: __m128i);
    _mm_ror_epi64 [0 1 63 64 200](a: __m128i);
    _mm512_ror_epi32 [0 1 31 32 200](a: __m512i);
    _mm512_ror_epi64 [0 1 63 64 200](a: __m512i);
    _mm512_rol_epi32 [0 1 31 32 200](a: __m512i);
    _mm512_rol_epi64 [0 1 63 64 200](a: __m512i);
    _mm512_shldi_epi32 [0 1 16 31 32 200](a: __m512i, b: __m512i);
    _mm512_shrdi_epi64 [0 1 51 63 200](a: __m512i, b: __m512i);
    _mm512_shrdv_epi64(a: __m512i, b: __m512i, count: __m512i);
    _mm512_sll_epi16(a: __m512i, count: __m128i);
    _mm512_srl_epi32(a: __m512i, count: __m128i);
    _mm512_srl_epi64(a: __m512i, count: __m128i);
    _mm512_sllv_epi32(a: __m512i, count: __m512i);
    _mm512_sllv_epi64(a: __m512i, count: __m512i);
    _mm512_srlv_epi32(a: __m512i, count: __m512i);
    _mm512_srlv_epi64(a: __m512i, count: __m512i);
}

same! { masks_are_the_processors:
    _mm512_cmpeq_epi8_mask(a: __m512i, b: __m512i);
    _mm512_cmpeq_epi32_mask(a: __m512i, b: __m512i);
    _mm512_cmpeq_epi64_mask(a: __m512i, b: __m512i);
    _mm512_cmpneq_epu64_mask(a: __m512i, b: __m512i);
    _mm512_cmpge_epi16_mask(a: __m512i, b: __m512i);
    _mm512_cmpge_epi32_mask(a: __m512i, b: __m512i);
    _mm512_cmpgt_epi16_mask(a: __m512i, b: __m512i);
    _mm512_cmplt_epi16_mask(a: __m512i, b: __m512i);
    _mm512_cmplt_epi32_mask(a: __m512i, b: __m512i);
    _mm512_cmplt_epu8_mask(a: __m512i, b: __m512i);
    _mm512_cmplt_epu16_mask(a: __m512i, b: __m512i);
    _mm512_cmplt_epu32_mask(a: __m512i, b: __m512i);
    _mm512_test_epi32_mask(a: __m512i, b: __m512i);
    _mm512_test_epi64_mask(a: __m512i, b: __m512i);
    _mm512_testn_epi64_mask(a: __m512i, b: __m512i);
    _mm512_mask_cmpeq_epi8_mask(m: u64, a: __m512i, b: __m512i);
    _mm512_mask_cmpeq_epi32_mask(m: u16, a: __m512i, b: __m512i);
    _mm512_mask_cmpeq_epi64_mask(m: u8, a: __m512i, b: __m512i);
    _mm512_mask_cmpneq_epu64_mask(m: u8, a: __m512i, b: __m512i);
    _mm512_mask_cmpge_epi16_mask(m: u32, a: __m512i, b: __m512i);
    _mm512_mask_cmpge_epi32_mask(m: u16, a: __m512i, b: __m512i);
    _mm512_mask_cmpgt_epi16_mask(m: u32, a: __m512i, b: __m512i);
    _mm512_mask_cmplt_epi16_mask(m: u32, a: __m512i, b: __m512i);
    _mm512_mask_cmplt_epi32_mask(m: u16, a: __m512i, b: __m512i);
    _mm512_mask_cmplt_epu8_mask(m: u64, a: __m512i, b: __m512i);
    _mm512_mask_cmplt_epu16_mask(m: u32, a: __m512i, b: __m512i);
    _mm512_mask_cmplt_epu32_mask(m: u16, a: __m512i, b: __m512i);
    _mm512_mask_test_epi32_mask(m: u16, a: __m512i, b: __m512i);
    _mm512_mask_test_epi64_mask(m: u8, a: __m512i, b: __m512i);
    _mm512_mask_testn_epi64_mask(m: u8, a: __m512i, b: __m512i);
    _mm512_mask_add_epi32(source: __m512i, m: u16, a: __m512i, b: __m512i);
    _mm512_mask_sub_epi16(source: __m512i, m: u32, a: __m512i, b: __m512i);
    _mm512_mask_sub_epi32(source: __m512i, m: u16, a: __m512i, b: __m512i);
    _mm512_mask_sub_epi64(source: __m512i, m: u8, a: __m512i, b: __m512i);
    _mm512_mask_xor_epi64(source: __m512i, m: u8, a: __m512i, b: __m512i);
    _mm512_mask_mov_epi32(source: __m512i, m: u16, a: __m512i);
    _mm512_mask_mov_epi64(source: __m512i, m: u8, a: __m512i);
    _mm512_mask_blend_epi16(m: u32, a: __m512i, b: __m512i);
    _mm512_mask_blend_epi64(m: u8, a: __m512i, b: __m512i);
    _mm512_maskz_mov_epi32(m: u16, a: __m512i);
    _mm512_maskz_mov_epi64(m: u8, a: __m512i);
    _mm512_maskz_set1_epi16(m: u32, x: i16);
    _mm512_maskz_set1_epi32(m: u16, x: i32);
    _mm512_maskz_compress_epi8(m: u64, a: __m512i);
    _mm512_maskz_compress_epi16(m: u32, a: __m512i);
    _mm512_maskz_compress_epi32(m: u16, a: __m512i);
    _mm512_maskz_expand_epi8(m: u64, a: __m512i);
}

same! { shuffles_are_the_processors:
    _mm512_shuffle_epi8(a: __m512i, index: __m512i);
    _mm_shuffle_epi8(a: __m128i, index: __m128i);
    _mm512_shuffle_epi32 [0x1b 0xb1 0x0e 0x93](a: __m512i);
    _mm512_mask_shuffle_epi32 [0x1b 0xb1 0x0e 0x93](source: __m512i, m: u16, a: __m512i);
    _mm_shuffle_epi32 [0x1b 0xb1 0x0e 0xe1](a: __m128i);
    _mm512_shuffle_i64x2 [0x44 0xee 0x88 0xdd 0x1b](a: __m512i, b: __m512i);
    _mm512_permutex_epi64 [0x1b 0xb1 0x0e 0x93](a: __m512i);
    _mm512_unpacklo_epi32(a: __m512i, b: __m512i);
    _mm512_unpackhi_epi32(a: __m512i, b: __m512i);
    _mm512_unpacklo_epi64(a: __m512i, b: __m512i);
    _mm512_unpackhi_epi64(a: __m512i, b: __m512i);
    _mm_unpacklo_epi32(a: __m128i, b: __m128i);
    _mm_unpackhi_epi32(a: __m128i, b: __m128i);
    _mm_unpacklo_epi64(a: __m128i, b: __m128i);
    _mm_unpackhi_epi64(a: __m128i, b: __m128i);
    _mm_alignr_epi8 [0 4 15 16 20 32 200](a: __m128i, b: __m128i);
    _mm512_permutexvar_epi8(index: __m512i, a: __m512i);
    _mm512_permutexvar_epi16(index: __m512i, a: __m512i);
    _mm512_permutexvar_epi32(index: __m512i, a: __m512i);
    _mm512_permutexvar_epi64(index: __m512i, a: __m512i);
    _mm512_permutex2var_epi8(a: __m512i, index: __m512i, b: __m512i);
    _mm512_permutex2var_epi16(a: __m512i, index: __m512i, b: __m512i);
    _mm512_permutex2var_epi32(a: __m512i, index: __m512i, b: __m512i);
    _mm512_permutex2var_epi64(a: __m512i, index: __m512i, b: __m512i);
    _mm512_maskz_permutexvar_epi8(m: u64, index: __m512i, a: __m512i);
    _mm512_multishift_epi64_epi8(places: __m512i, a: __m512i);
    _mm512_packus_epi16(a: __m512i, b: __m512i);
    _mm512_packus_epi32(a: __m512i, b: __m512i);
    _mm512_castsi512_si128(a: __m512i);
    _mm512_castsi512_si256(a: __m512i);
    _mm512_extracti64x4_epi64 [0 1](a: __m512i);
    _mm512_inserti64x4 [0 1](a: __m512i, b: __m256i);
}

same! { quads_are_the_processors:
    _mm256_add_epi64(a: __m256i, b: __m256i);
    _mm256_and_si256(a: __m256i, b: __m256i);
    _mm256_or_si256(a: __m256i, b: __m256i);
    _mm256_xor_si256(a: __m256i, b: __m256i);
    _mm256_mullo_epi64(a: __m256i, b: __m256i);
    _mm256_madd52lo_epu64(a: __m256i, b: __m256i, c: __m256i);
    _mm256_madd52hi_epu64(a: __m256i, b: __m256i, c: __m256i);
    _mm256_unpacklo_epi64(a: __m256i, b: __m256i);
    _mm256_unpackhi_epi64(a: __m256i, b: __m256i);
    _mm256_setzero_si256();
    _mm256_set1_epi64x(x: i64);
    _mm256_setr_epi64x(a: i64, b: i64, c: i64, d: i64);
    _mm256_slli_epi64 [0 1 63 64 200](a: __m256i);
    _mm256_srli_epi64 [0 1 63 64 200](a: __m256i);
    _mm256_shrdi_epi64 [0 1 51 63 200](a: __m256i, b: __m256i);
    _mm256_permute4x64_epi64 [0x1b 0xb1 0x0e 0x93](a: __m256i);
    _mm256_permutexvar_epi64(index: __m256i, a: __m256i);
    _mm256_mask_permutex_epi64 [0x1b 0xb1 0x0e 0x93](source: __m256i, m: u8, a: __m256i);
    _mm256_mask_add_epi64(source: __m256i, m: u8, a: __m256i, b: __m256i);
    _mm256_mask_sub_epi64(source: __m256i, m: u8, a: __m256i, b: __m256i);
    _mm256_mask_blend_epi64(m: u8, a: __m256i, b: __m256i);
    _mm256_blend_epi32 [0xf0 0x0f 0xa5 0](a: __m256i, b: __m256i);
    _mm256_cmpeq_epi64_mask(a: __m256i, b: __m256i);
    _mm256_mask_cmpeq_epi64_mask(m: u8, a: __m256i, b: __m256i);
    _mm256_testn_epi64_mask(a: __m256i, b: __m256i);
    _mm512_broadcast_i64x4(a: __m256i);
}

same! { sha_256_is_the_processors:
    _mm_sha256rnds2_epu32(cdgh: __m128i, abef: __m128i, wk: __m128i);
    _mm_sha256msg1_epu32(a: __m128i, b: __m128i);
    _mm_sha256msg2_epu32(a: __m128i, b: __m128i);
}

/// Compares masks of all lengths and any masks, over memory of which only the unmasked part is
/// mapped.
#[test]
fn masked_memory_is_the_processors() {
    if is_supported() {
        // SAFETY: the processor supports the features, as just detected.
        unsafe { compare() }
    }
    #[target_feature(enable = "avx512f,avx512bw")]
    fn compare() {
        let mut inputs = Inputs(1);
        for length in (0..=64).chain([64; ROUNDS]) {
            let source = __m512i::any(&mut inputs);
            let bytes: [i8; 64] = cast(source);
            let part = bytes[..length].to_vec();
            let mask = !_bzhi_u64(!0, 0) & _bzhi_u64(!0, length as u32);
            let mask = if inputs.word() & 1 == 1 { mask } else { mask & inputs.word() };
            // SAFETY: the masks reach no further than the memory does.
            unsafe {
                let expected = real::_mm512_maskz_loadu_epi8(mask, part.as_ptr());
                _mm512_maskz_loadu_epi8(mask, part.as_ptr()).assert_same(expected, "bytes");
                let (words, mask) = (part.as_ptr().cast::<i64>(), mask as u8);
                if length == 64 {
                    let expected = real::_mm512_maskz_loadu_epi64(mask, words);
                    _mm512_maskz_loadu_epi64(mask, words).assert_same(expected, "words");
                }
            }
            let (mut stored, mut expected) = (vec![7i8; length], vec![7i8; length]);
            // SAFETY: as above.
            unsafe {
                _mm512_mask_storeu_epi8(stored.as_mut_ptr(), mask, source);
                real::_mm512_mask_storeu_epi8(expected.as_mut_ptr(), mask, source.real());
            }
            assert_eq!(stored, expected);
        }
    }
}

/// Loads and stores agree with the processor's at any address.
#[test]
fn memory_is_the_processors() {
    if !is_supported() {
        return;
    }
    let mut inputs = Inputs(2);
    for at in 0..64 {
        let bytes: [u8; 128] = cast(inputs.words::<16>());
        let source = bytes[at..].as_ptr();
        // SAFETY: the processor supports the features, as just detected; 64 bytes are there.
        unsafe {
            let expected = real::_mm512_loadu_si512(source.cast());
            _mm512_loadu_si512(source.cast()).assert_same(expected, "512 bits");
            let expected = real::_mm_loadu_si128(source.cast());
            _mm_loadu_si128(source.cast()).assert_same(expected, "128 bits");
            let expected = real::_mm_loadl_epi64(source.cast());
            _mm_loadl_epi64(source.cast()).assert_same(expected, "64 bits");
        }
        let (a, b) = (__m512i::any(&mut inputs), __m128i::any(&mut inputs));
        let (mut stored, mut expected) = ([[7u8; 128]; 4], [[7u8; 128]; 4]);
        let c = __m256i::any(&mut inputs);
        // SAFETY: as above.
        unsafe {
            _mm512_storeu_si512(stored[0][at..].as_mut_ptr().cast(), a);
            real::_mm512_storeu_si512(expected[0][at..].as_mut_ptr().cast(), a.real());
            _mm_storeu_si128(stored[1][at..].as_mut_ptr().cast(), b);
            real::_mm_storeu_si128(expected[1][at..].as_mut_ptr().cast(), b.real());
            _mm_storel_epi64(stored[2][at..].as_mut_ptr().cast(), b);
            real::_mm_storel_epi64(expected[2][at..].as_mut_ptr().cast(), b.real());
            _mm256_storeu_si256(stored[3][at..].as_mut_ptr().cast(), c);
            real::_mm256_storeu_si256(expected[3][at..].as_mut_ptr().cast(), c.real());
        }
        assert_eq!(stored, expected);
        _mm256_zeroall(); // Nothing to compare: no register is left to look at.
    }
}

/// One instruction on registers 0 to 3, which are loaded before and stored behind.
macro_rules! instruction {
    ($inputs:ident: $($text:literal),*) => { $(
        for _ in 0..ROUNDS / 4 {
            let before: [__m512i; 4] = core::array::from_fn(|_| __m512i::any(&mut $inputs));
            let (mut emulated, mut expected) = (before, before);
            instruction!(@run [$crate::emulation::asm] emulated $text);
            instruction!(@run [core::arch::asm] expected $text);
            let [emulated, expected] = [emulated, expected].map(|all| all.map(|word| word.0));
            assert_eq!(emulated, expected, "{} on {before:x?}", $text);
        }
    )* };
    (@run [$($asm:tt)*] $state:ident $text:literal) => {
        // SAFETY: reads and writes the four registers of the state; all that is written is
        // declared lost.
        unsafe {
            $($asm)*!(
                "vmovdqu64 zmm0, [{state}]",
                "vmovdqu64 zmm1, [{state} + 64]",
                "vmovdqu64 zmm2, [{state} + {size} * 2]",
                "vmovdqu64 zmm3, [{state} + 64 + 128]",
                $text,
                "vmovdqu64 [{state}], zmm0",
                "vmovdqu64 [{state} + 64], zmm1",
                "vmovdqu64 [{state} + {size} * 2], zmm2",
                "vmovdqu64 [{state} + 192], zmm3",
                state = in(reg) &mut $state,
                size = const size_of::<__m512i>(),
                out("zmm0") _, out("zmm1") _, out("zmm2") _, out("zmm3") _, out("zmm4") _,
                out("zmm5") _, out("zmm6") _, out("zmm7") _, out("zmm8") _, out("zmm9") _,
                out("zmm10") _, out("zmm11") _, out("zmm12") _, out("zmm13") _, out("zmm14") _,
                out("zmm15") _, out("k1") _,
                options(nostack)
            );
        }
    };
}

#[test]
fn instructions_are_the_processors() {
    if !is_supported() {
        return;
    }
    let mut inputs = Inputs(3);
    instruction!(inputs:
        "/* nothing */",
        "vmovdqa64 zmm1, zmm2",
        "vmovdqa64 ymm1, ymm2",
        "vmovdqa64 xmm1, xmm2",
        "vmovdqa xmm1, [{state} + 16]",
        "vmovdqu ymm1, [{state} + 8]",
        "vmovdqu64 [{state} + 24], ymm1",
        "vmovq xmm1, [{state} + 3]",
        "vmovq [{state} + 64], xmm1",
        "vpbroadcastq zmm3, qword ptr [{state} + 8]",
        "vpbroadcastq xmm3, qword ptr [{state} + 8]",
        "vpxorq zmm1, zmm2, zmm3",
        "vpxorq ymm1, ymm2, ymm3",
        "vpxorq xmm1, xmm2, xmm3"
    );
    instruction!(inputs:
        "vpxord xmm3, xmm3, xmm3",
        "vporq xmm1, xmm2, [{state} + 80]",
        "vpaddd xmm1, xmm2, [{state} + 80]",
        "vpaddd zmm1, zmm2, zmm3",
        "vpaddq xmm1, xmm2, xmm3",
        "vpshufb xmm1, xmm2, [{state} + 80]",
        "vpunpcklqdq xmm1, xmm2, xmm3",
        "vpunpckhqdq ymm1, ymm2, ymm3",
        "vpdpwssd zmm1, zmm2, zmm3",
        "vpternlogq zmm1, zmm2, zmm3, 0x96",
        "vpternlogq ymm1, ymm2, ymm3, 0xd2",
        "vpternlogq xmm1, xmm2, xmm3, 0xc6",
        "vpternlogd xmm1, xmm2, [{state} + 64], 0xfe"
    );
    instruction!(inputs:
        "vprolq zmm1, zmm2, 27",
        "vprolq xmm1, xmm2, 63",
        "vpshufd xmm1, xmm2, 0xe1",
        "vpshufd ymm1, ymm2, 0x0e",
        "vpalignr xmm1, xmm2, xmm3, 4",
        "sha256rnds2 xmm1, xmm2",
        "sha256msg1 xmm1, xmm2",
        "sha256msg2 xmm1, xmm2",
        "kxorw k1, k1, k1",
        "vzeroall"
    );
}

/// Operands that pass through, vectors that come out, loops.
#[test]
fn operands_and_jumps_are_the_processors() {
    let mut inputs = Inputs(4);
    let (mut even, mut odd) = (5u16, 10u16);
    // SAFETY: an empty instruction.
    unsafe { asm!("/* {0} {1} */", inout(kreg) even, inout(kreg) odd, options(pure, nomem)) };
    assert_eq!((even, odd), (5, 10));

    let (a, b) = (__m512i::any(&mut inputs), __m512i::any(&mut inputs));
    let mut sum = __m512i::any(&mut inputs);
    let expected = _mm512_add_epi32(sum, _mm512_madd_epi16(a, b));
    // SAFETY: arithmetic on registers.
    unsafe {
        asm!("vpdpwssd {0}, {1}, {2}", inout(zmm_reg) sum, in(zmm_reg) a, in(zmm_reg) b,
            options(pure, nomem, nostack, preserves_flags));
    }
    assert_eq!(sum.0, expected.0);

    let words: [u64; 6] = inputs.words();
    let mut total = 0u64;
    // SAFETY: goes over the six words and writes the sum.
    unsafe {
        asm!(
            "vpxorq xmm0, xmm0, xmm0",
            "2:",
            "vmovq xmm1, [{at}]",
            "vpaddq xmm0, xmm0, xmm1",
            "add {at}, 8",
            "cmp {at}, {end}",
            "jne 2b",
            "vmovq [{total}], xmm0",
            at = inout(reg) words.as_ptr() => _,
            end = in(reg) words.as_ptr_range().end,
            total = in(reg) &mut total,
            out("xmm0") _, out("xmm1") _,
            options(nostack),
        );
    }
    assert_eq!(total, words.into_iter().fold(0, u64::wrapping_add));
}

/// A function that is not compared could be wrong, and memcheck would then follow a computation
/// that no kernel makes.
#[test]
fn every_function_and_instruction_is_compared() {
    let compared = include_str!("tests.rs");
    let mut functions = 0;
    for text in [
        include_str!("arithmetic.rs"),
        include_str!("masks.rs"),
        include_str!("memory.rs"),
        include_str!("quads.rs"),
        include_str!("sha.rs"),
        include_str!("shuffles.rs"),
    ] {
        // In definitions, and in the tables of macros that define.
        let names = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        for name in names.filter(|name| name.starts_with("_mm") || name.starts_with("_bzhi")) {
            assert!(
                compared.contains(&format!("{name}(")) || compared.contains(&format!("{name} [")),
                "{name} is not compared with the processor's"
            );
            functions += 1;
        }
    }
    let mut instructions = 0;
    for line in include_str!("assembly.rs").lines().filter(|line| line.contains("=> Operation::")) {
        for name in line.split('"').skip(1).step_by(2) {
            assert!(
                compared.contains(&format!("\"{name} "))
                    || compared.contains(&format!("\"{name}\"")),
                "{name} is not compared with the processor's"
            );
            instructions += 1;
        }
    }
    assert!(functions > 150 && instructions > 20, "{functions} and {instructions} were found");
}
