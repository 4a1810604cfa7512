//! Converts arguments from C to Rust. Before use, every pointer is checked for NULL and alignment,
//! and every output for overlaps with other arguments.

use std::ffi::{CStr, c_char};

use gabion_engine::{Algorithm, UnknownAlgorithm};

use crate::border::{Failure, code};

/// Returns the failure for an unexpected NULL.
fn missing(what: &str) -> Failure {
    Failure::new(code::ARGUMENT, format!("{what} is NULL"))
}

/// Rejects NULL and misaligned pointers.
fn check<T>(what: &str, pointer: *const T) -> Result<(), Failure> {
    if pointer.is_null() {
        return Err(missing(what));
    }
    if !pointer.is_aligned() {
        return Err(Failure::new(code::ARGUMENT, format!("{what} is not aligned for its type")));
    }
    Ok(())
}

/// Returns the failure for a wrong length.
pub fn wrong_length(what: &str, expected: usize, got: usize) -> Failure {
    Failure::new(code::LENGTH, format!("{what}: {got} bytes; expected {expected}"))
}

/// Returns the length of `n` items in bytes, or a failure if such an array cannot exist.
pub fn total(what: &str, n: usize, each: usize) -> Result<usize, Failure> {
    n.checked_mul(each)
        .filter(|total| isize::try_from(*total).is_ok())
        .ok_or_else(|| Failure::new(code::LENGTH, format!("{what}: {n} lanes are too many")))
}

/// Rejects a batch that is too large for an array of handles, before its arrays are cleared. The
/// array of status codes is half as large: its length could be valid, and clearing it would write
/// past its end.
pub fn lanes(n: usize) -> Result<(), Failure> {
    total("a batch", n, size_of::<*const ()>()).map(drop)
}

/// Returns the array of `len` items at `data`; NULL stands for an empty array.
///
/// # Safety
/// `data` is NULL or points to `len` items that nothing changes during the call.
pub unsafe fn slice<'a, T>(what: &str, data: *const T, len: usize) -> Result<&'a [T], Failure> {
    total(what, len, size_of::<T>())?;
    if len == 0 {
        return Ok(&[]);
    }
    check(what, data)?;
    // SAFETY: not NULL and aligned, `len` items as the caller says, no longer than an array can be.
    Ok(unsafe { std::slice::from_raw_parts(data, len) })
}

/// The memory region of an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    what: &'static str,
    start: usize,
    bytes: usize,
}

impl Region {
    /// Returns the region of `len` items at `data`; NULL is an empty region. A length too large for
    /// any array is an empty region, too; [`total`] rejects it as a length.
    pub fn new<T>(what: &'static str, data: *const T, len: usize) -> Region {
        let bytes = if data.is_null() { 0 } else { total(what, len, size_of::<T>()).unwrap_or(0) };
        Region { what, start: data.addr(), bytes }
    }

    /// Returns the region of a NUL-terminated string.
    ///
    /// # Safety
    /// `text` is NULL or ends with a NUL.
    pub unsafe fn text(what: &'static str, text: *const c_char) -> Region {
        if text.is_null() {
            return Region::new(what, text, 0);
        }
        // SAFETY: not NULL, and the caller's condition is this function's.
        Region::new(what, text, unsafe { CStr::from_ptr(text) }.to_bytes_with_nul().len())
    }

    fn overlaps(&self, other: &Region) -> bool {
        let end = |region: &Region| region.start.saturating_add(region.bytes);
        self.bytes > 0 && other.bytes > 0 && self.start < end(other) && other.start < end(self)
    }
}

/// The output regions of a call, each with the first region that it overlaps, if any. A function
/// registers all its outputs and inputs here before it writes anything, because clearing an output
/// may otherwise destroy an input.
pub struct OutputRegions<const N: usize> {
    regions: [(Region, Option<&'static str>); N],
}

impl<const N: usize> OutputRegions<N> {
    /// Compares all outputs of a call with each other.
    pub fn new(regions: [Region; N]) -> Self {
        let clash = |at: usize| {
            let others = regions.iter().enumerate().filter(|(other, _)| *other != at);
            others.map(|(_, other)| other).find(|other| regions[at].overlaps(other))
        };
        let with = |at: usize| (regions[at], clash(at).map(|other| other.what));
        OutputRegions { regions: std::array::from_fn(with) }
    }

    /// Compares the outputs with an input.
    pub fn read(&mut self, input: Region) {
        for (region, clash) in &mut self.regions {
            if clash.is_none() && region.overlaps(&input) {
                *clash = Some(input.what);
            }
        }
    }

    /// Compares the outputs with further inputs.
    pub fn and(mut self, inputs: impl IntoIterator<Item = Region>) -> Self {
        inputs.into_iter().for_each(|input| self.read(input));
        self
    }

    /// Fails if the output of `len` items at `data` overlaps another region.
    pub fn check<T>(&self, data: *const T, len: usize) -> Result<(), Failure> {
        let asked = Region::new("", data, len);
        let same = |region: &Region| (region.start, region.bytes) == (asked.start, asked.bytes);
        match self.regions.iter().find(|(region, _)| same(region)) {
            Some((_, None)) => Ok(()),
            Some((region, Some(other))) => Err(Failure::new(
                code::ARGUMENT,
                format!("{} overlaps {other}; expected buffers apart", region.what),
            )),
            None => Err(Failure::new(
                code::FAULT,
                "internal error: an output was not checked for overlaps",
            )),
        }
    }

    /// Returns the output array of `len` items at `data`, each set to `blank`; NULL stands for an
    /// empty array. A function requests all of its outputs before it can fail, so that none of them
    /// keeps its old content. An output that overlaps another region is left unchanged.
    ///
    /// # Safety
    /// `data` is NULL or points to `len` items that no other code uses during the call.
    pub unsafe fn output<'a, T: Copy>(
        &self,
        what: &str,
        data: *mut T,
        len: usize,
        blank: T,
    ) -> Result<&'a mut [T], Failure> {
        total(what, len, size_of::<T>())?;
        if len == 0 {
            return Ok(&mut []);
        }
        check(what, data)?;
        self.check(data, len)?;
        // SAFETY: not NULL, aligned and apart from all else; `len` items as the caller says, no
        // longer than an array can be.
        let items = unsafe { std::slice::from_raw_parts_mut(data, len) };
        items.fill(blank);
        Ok(items)
    }
}

/// Returns a reference to the value that `pointer` points to.
///
/// # Safety
/// `pointer` is NULL or points to a value that nothing changes during the call.
pub unsafe fn reference<'a, T>(what: &str, pointer: *const T) -> Result<&'a T, Failure> {
    check(what, pointer)?;
    // SAFETY: not NULL and aligned, and the caller's condition is this function's.
    Ok(unsafe { &*pointer })
}

/// Returns a mutable reference to the value that `pointer` points to.
///
/// # Safety
/// `pointer` is NULL or points to a place that nothing else uses during the call.
pub unsafe fn place<'a, T>(what: &str, pointer: *mut T) -> Result<&'a mut T, Failure> {
    check(what, pointer)?;
    // SAFETY: not NULL and aligned, and the caller's condition is this function's.
    Ok(unsafe { &mut *pointer })
}

/// Returns the bytes of a string: a path or a passphrase, which may not be UTF-8.
///
/// # Safety
/// `text` is NULL or ends with a NUL and does not change during the call.
pub unsafe fn bytes_of_text<'a>(what: &str, text: *const c_char) -> Result<&'a [u8], Failure> {
    if text.is_null() {
        return Err(missing(what));
    }
    // SAFETY: not NULL, and the caller's condition is this function's.
    Ok(unsafe { CStr::from_ptr(text) }.to_bytes())
}

/// Returns a UTF-8 string.
///
/// # Safety
/// See [`bytes_of_text`].
pub unsafe fn text<'a>(what: &str, text: *const c_char) -> Result<&'a str, Failure> {
    // SAFETY: the caller's condition is this function's.
    let bytes = unsafe { bytes_of_text(what, text) }?;
    str::from_utf8(bytes).map_err(|_| Failure::new(code::ARGUMENT, format!("{what} is not UTF-8")))
}

/// Returns the algorithm with a name.
///
/// # Safety
/// See [`text`].
pub unsafe fn algorithm(name: *const c_char) -> Result<Algorithm, Failure> {
    // SAFETY: the caller's condition is this function's.
    let name = unsafe { text("algorithm", name) }?;
    name.parse().map_err(|unknown: UnknownAlgorithm| {
        let reason = unknown.reason();
        let text = format!("{reason}; gabion_algorithm_name() lists those there are");
        Failure::new(code::ALGORITHM, text)
    })
}

/// Writes the bytes that `made` returns for the object at `from` to the caller's buffer, and their
/// length to `*len`, which contains the buffer size. If the buffer is NULL, writes only the length.
///
/// # Safety
/// `len` is NULL or a place for a length; `out` is NULL or has `*len` bytes.
pub unsafe fn give<'a>(
    what: &'static str,
    from: Region,
    out: *mut u8,
    len: *mut usize,
    made: impl FnOnce() -> Result<&'a [u8], Failure>,
) -> Result<(), Failure> {
    let place_of_len = len;
    // SAFETY: the caller's condition is this function's.
    let len = unsafe { place("the length", len) }?;
    let room = if out.is_null() { 0 } else { *len };
    let filled = OutputRegions::new([
        Region::new(what, out, room),
        Region::new("the length", place_of_len, 1),
    ])
    .and([from]);
    // SAFETY: the caller's condition; a NULL buffer has no bytes.
    let room = unsafe { filled.output(what, out, room, 0) };
    filled.check(place_of_len, 1)?;
    let room = room?;
    let bytes = made()?;
    if !out.is_null() {
        let got = room.len();
        let place = room.get_mut(..bytes.len());
        place.ok_or_else(|| wrong_length(what, bytes.len(), got))?.copy_from_slice(bytes);
    }
    *len = bytes.len();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regions_overlap_by_a_byte_and_not_where_they_touch() {
        let bytes = [0u8; 16];
        let part = |from: usize, len: usize| Region::new("part", bytes[from..].as_ptr(), len);
        for (a, b, overlap) in [
            (part(0, 8), part(8, 8), false),
            (part(0, 9), part(8, 8), true),
            (part(4, 1), part(0, 16), true),
            (part(4, 0), part(0, 16), false),
            (part(4, 4), part(4, 4), true),
            (part(0, usize::MAX), part(8, 1), false),
            (Region::new("none", std::ptr::null::<u8>(), 16), part(0, 16), false),
        ] {
            assert_eq!((a.overlaps(&b), b.overlaps(&a)), (overlap, overlap), "{a:?} {b:?}");
        }
    }

    /// Two overlapping outputs are left unchanged; a third one is cleared.
    #[test]
    fn an_output_that_overlaps_is_refused_and_the_others_are_blank() {
        let mut bytes = [7u8; 12];
        let data = bytes.as_mut_ptr();
        let far = data.wrapping_add(8);
        let near = data.wrapping_add(3);
        let regions = [(data, 4), (near, 4), (far, 4)].map(|(at, len)| Region::new("out", at, len));
        let filled = OutputRegions::new(regions);
        // SAFETY: all three lie in `bytes`, which no other code uses.
        let refused = unsafe {
            [(data, 4), (near, 4), (far, 4)]
                .map(|(at, len)| filled.output("out", at, len, 0).is_err())
        };
        assert_eq!(refused, [true, true, false]);
        assert_eq!(bytes, [7, 7, 7, 7, 7, 7, 7, 7, 0, 0, 0, 0]);
        assert!(filled.check(data, 5).is_err(), "an output that nobody compared");
    }
}
