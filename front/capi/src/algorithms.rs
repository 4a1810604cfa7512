//! The table of algorithms, the version, the backend of an algorithm, and its GPU usage.

use std::ffi::{CString, c_char};
use std::ptr::null;

use gabion_engine::{ALGORITHMS, AlgorithmInfo, Kind};
use once_cell::race::OnceBox;

use crate::border::{Code, Failure, border, code, engine};
use crate::input::{self, OutputRegions, Region};

/// `GABION_ABI` of gabion.h.
const ABI: u32 = 1;

/// The names as C strings. A name with a NUL would become empty; a test ensures that no name has one.
fn names() -> &'static [CString] {
    // Two racing threads may both build it: a forked child must not wait for a thread of its
    // parent.
    static NAMES: OnceBox<Vec<CString>> = OnceBox::new();
    NAMES.get_or_init(|| {
        let names = ALGORITHMS.iter().map(|row| CString::new(row.name).unwrap_or_default());
        Box::new(names.collect())
    })
}

/// `gabion_sizes`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sizes {
    /// Encoded public key.
    pub public_key: usize,
    /// Private key as the standard encodes it.
    pub private_key: usize,
    /// Seed form of the private key.
    pub seed: usize,
    /// Ciphertext of a KEM.
    pub ciphertext: usize,
    /// Shared secret of a KEM.
    pub shared_secret: usize,
    /// Longest signature.
    pub signature: usize,
}

impl From<&AlgorithmInfo> for Sizes {
    fn from(row: &AlgorithmInfo) -> Self {
        let of = |kind, size| if row.kind == kind { size } else { 0 };
        Sizes {
            public_key: row.public_key.max(),
            private_key: row.private_key.max(),
            seed: row.seed.unwrap_or(0),
            ciphertext: of(Kind::Kem, row.output.max()),
            shared_secret: row.shared_secret,
            signature: of(Kind::Signature, row.output.max()),
        }
    }
}

/// Returns the version of the library.
#[unsafe(no_mangle)]
pub extern "C" fn gabion_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}

/// Returns the version of this interface.
#[unsafe(no_mangle)]
pub extern "C" fn gabion_abi() -> u32 {
    ABI
}

/// Returns the number of algorithms.
#[unsafe(no_mangle)]
pub extern "C" fn gabion_algorithm_count() -> usize {
    ALGORITHMS.len()
}

/// Returns the name of the algorithm with this index; NULL if it is out of range.
#[unsafe(no_mangle)]
pub extern "C" fn gabion_algorithm_name(index: usize) -> *const c_char {
    names().get(index).map_or(null(), |name| name.as_ptr())
}

/// Returns the C name of an algorithm.
pub fn name(algorithm: gabion_engine::Algorithm) -> *const c_char {
    gabion_algorithm_name(algorithm as usize)
}

/// Writes the sizes of an algorithm.
///
/// # Safety
/// `algorithm` is NULL or a text; `sizes` is NULL or a place for them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gabion_algorithm_sizes(
    algorithm: *const c_char,
    sizes: *mut Sizes,
) -> Code {
    border(|| {
        // SAFETY: the caller's condition.
        let name = unsafe { Region::text("algorithm", algorithm) };
        let filled = OutputRegions::new([Region::new("sizes", sizes, 1)]).and([name]);
        // SAFETY: the caller's condition.
        let sizes = unsafe { filled.output("sizes", sizes, 1, Sizes::default()) }?;
        // SAFETY: the caller's condition.
        sizes[0] = unsafe { input::algorithm(algorithm) }?.info().into();
        Ok(())
    })
}

/// Writes the name of the backend that runs an algorithm.
///
/// # Safety
/// `algorithm` is NULL or a text; `text` is NULL or has `room` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gabion_backend(
    algorithm: *const c_char,
    text: *mut c_char,
    room: usize,
) -> Code {
    border(|| {
        // SAFETY: the caller's condition.
        let name = unsafe { Region::text("algorithm", algorithm) };
        let filled = OutputRegions::new([Region::new("name", text, room)]).and([name]);
        // SAFETY: the caller's condition; bytes and C's characters have one layout.
        let text = unsafe { filled.output("name", text.cast::<u8>(), room, 0) }?;
        // SAFETY: the caller's condition.
        let algorithm = unsafe { input::algorithm(algorithm) }?;
        let name = engine()?.backend_for(algorithm)?.name();
        // At least one zero byte must follow the name.
        if name.len() >= text.len() {
            let needed = name.len() + 1;
            return Err(Failure::new(
                code::LENGTH,
                format!("the name has {needed} bytes with its NUL; there is room for {room}"),
            ));
        }
        text[..name.len()].copy_from_slice(name.as_bytes());
        Ok(())
    })
}

/// `gabion_gpu_counts`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GpuCounts {
    /// Operations completed on a GPU.
    pub operations: u64,
    /// The batches of these operations.
    pub batches: u64,
    /// Batches that no GPU accepted.
    pub declined: u64,
    /// Batches that were lost, and run on the processor.
    pub lost: u64,
}

impl GpuCounts {
    /// Adds counts, saturating at 2^64 - 1.
    fn sum(all: impl IntoIterator<Item = GpuCounts>) -> Self {
        all.into_iter().fold(GpuCounts::default(), |sum, one| GpuCounts {
            operations: sum.operations.saturating_add(one.operations),
            batches: sum.batches.saturating_add(one.batches),
            declined: sum.declined.saturating_add(one.declined),
            lost: sum.lost.saturating_add(one.lost),
        })
    }
}

/// Writes the GPU usage of an algorithm.
///
/// # Safety
/// `algorithm` is NULL or a text; `counts` is NULL or a place for them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gabion_gpu_served(
    algorithm: *const c_char,
    counts: *mut GpuCounts,
) -> Code {
    border(|| {
        // SAFETY: the caller's condition.
        let name = unsafe { Region::text("algorithm", algorithm) };
        let filled = OutputRegions::new([Region::new("counts", counts, 1)]).and([name]);
        // SAFETY: the caller's condition.
        let counts = unsafe { filled.output("counts", counts, 1, GpuCounts::default()) }?;
        // SAFETY: the caller's condition.
        let algorithm = unsafe { input::algorithm(algorithm) }?;
        let served = engine()?.device_counts();
        let of_it = served.iter().filter(|served| served.algorithm == algorithm);
        counts[0] = GpuCounts::sum(of_it.map(|served| GpuCounts {
            operations: served.lanes,
            batches: served.batches,
            declined: served.declined,
            lost: served.lost,
        }));
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gpu_counts_are_summed_over_operations() {
        let one = GpuCounts { operations: 4096, batches: 2, declined: 3, lost: u64::MAX };
        let two = GpuCounts { operations: 1, batches: 1, declined: 0, lost: 1 };
        let sum = GpuCounts { operations: 4097, batches: 3, declined: 3, lost: u64::MAX };
        assert_eq!(GpuCounts::sum([one, two]), sum);
        assert_eq!(GpuCounts::sum([]), GpuCounts::default());
    }
}
