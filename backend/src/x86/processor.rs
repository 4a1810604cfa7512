//! Properties of a processor other than its instructions: which of two implementations of a hash is
//! faster on it.

use core::arch::x86_64::__cpuid;

/// The vendor string of a processor, twelve letters: leaf 0 of `cpuid`.
pub(crate) type Vendor = [u8; 12];

/// Returns the vendor of this processor.
pub(crate) fn vendor() -> Vendor {
    #[allow(unused_unsafe)] // The newest compilers need no `unsafe` here.
    // SAFETY: every processor of x86-64 has the instruction.
    let leaf = unsafe { __cpuid(0) };
    let mut vendor = [0; 12];
    vendor.copy_from_slice([leaf.ebx, leaf.edx, leaf.ecx].map(u32::to_le_bytes).as_flattened());
    vendor
}

/// Returns whether sixteen lanes of SHA-256 (AVX-512) are faster than the SHA extensions, if a
/// processor has both and there is enough work to fill the lanes. On Intel's they are, because all
/// the extensions' instructions wait for one port. On AMD's they are not; others are not measured.
/// `backend/src/avx512/sha2/sha256_lanes.rs` has the figures.
pub(crate) fn lanes_beat_the_sha_extensions(vendor: &Vendor) -> bool {
    vendor == b"GenuineIntel"
}

/// See [`crate::empty_upper_halves`].
#[inline(never)] // A caller keeps no values in vector registers across a call, with AVX or without.
pub(crate) fn empty_upper_halves() {
    if is_x86_feature_detected!("avx") {
        // SAFETY: the processor has AVX, and nothing lives in the registers here.
        unsafe { core::arch::asm!("vzeroupper", options(nomem, nostack, preserves_flags)) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_on_intels_processors_only() {
        assert!(lanes_beat_the_sha_extensions(b"GenuineIntel"));
        for other in [b"AuthenticAMD", b"HygonGenuine", b"CentaurHauls", &[0; 12]] {
            assert!(!lanes_beat_the_sha_extensions(other), "{other:?}");
        }
    }

    #[test]
    fn a_vendor_is_twelve_letters() {
        let name = vendor();
        assert!(name.iter().all(|byte| (b' '..=b'~').contains(byte)), "{name:?}");
        if let Ok(info) = std::fs::read_to_string("/proc/cpuinfo") {
            let line = info.lines().find(|line| line.starts_with("vendor_id"));
            let want = line.and_then(|line| line.split(": ").nth(1));
            assert!(want.is_none_or(|want| want.as_bytes() == name), "{want:?}, not {name:?}");
        }
    }
}
