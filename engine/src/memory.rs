//! Memory that can't be had: asked for before a batch begins where it may be much.
//!
//! In Rust an allocation that fails ends the process. In the shared libraries a reserve stands
//! behind malloc ([`gabion_backend::reserve`]): a lone operation that has begun comes to its end,
//! and [`check`] refuses the next one. A batch may take more than any reserve, so its memory is
//! asked for first, in one piece that is given back at once.

use gabion_backend::reserve;
use gabion_scheme::algorithms::AlgorithmInfo;

use crate::error::Error;

/// The lanes up to which batches are not checked: they need some hundred kilobytes, and checking
/// takes time.
const LANES_FEW: usize = 64;
/// The memory of an expanded key, in multiples of its encoding: 9 for ML-DSA-65.
const EXPANDED: usize = 10;

/// Refuses an operation where the process lacks memory. Costs two loads where it does not.
///
/// # Errors
/// [`Error::NoMemory`], when the reserve of this library is in use and malloc still gives nothing.
#[inline]
pub fn check() -> Result<(), Error> {
    if reserve::has_memory() { Ok(()) } else { Err(Error::NoMemory("an operation")) }
}

/// Refuses to make more keys than there is memory for.
pub(crate) fn check_keys(info: &AlgorithmInfo, lanes: usize) -> Result<(), Error> {
    check_lanes(lanes, EXPANDED * (info.public_key.max() + info.private_key.max()))
}

/// Checks the memory for operations with existing keys, which output `output` bytes each.
pub(crate) fn check_operations(output: usize, lanes: usize) -> Result<(), Error> {
    // The outputs of a composite's or hybrid's parts come apart first.
    check_lanes(lanes, 2 * output + 512)
}

fn check_lanes(lanes: usize, each: usize) -> Result<(), Error> {
    if lanes <= LANES_FEW {
        return Ok(());
    }
    let bytes = lanes.checked_mul(each).ok_or(Error::TooMany { lanes })?;
    room::<u8>(bytes).map(drop)
}

/// Returns an empty list with capacity for `len` items.
pub(crate) fn room<T>(len: usize) -> Result<Vec<T>, Error> {
    let mut list = Vec::new();
    list.try_reserve_exact(len).map_err(|_| Error::NoMemory("a batch"))?;
    Ok(list)
}

/// Returns a list of equal items.
pub fn filled<T: Clone>(len: usize, item: T) -> Result<Vec<T>, Error> {
    let mut list = room(len)?;
    list.resize(len, item);
    Ok(list)
}

#[cfg(test)]
mod tests {
    use super::*;
    use gabion_scheme::Algorithm;

    #[test]
    fn oversized_allocations_are_refused() {
        let info = Algorithm::SlhDsaSha2_256f.info();
        assert_eq!(check_keys(info, 1000), Ok(()));
        assert_eq!(check_operations(info.output.max(), 1000), Ok(()));
        let none = Err(Error::NoMemory("a batch"));
        assert_eq!(check_operations(info.output.max(), 1 << 44), none);
        assert_eq!(check_keys(info, 1 << 44), none);
        assert_eq!(check_keys(info, 1 << 60), Err(Error::TooMany { lanes: 1 << 60 }));
        assert!(filled(1 << 60, 0u8).is_err());
        assert_eq!(filled(3, 7u8), Ok(vec![7; 3]));
        assert_eq!(check(), Ok(()));
    }
}
