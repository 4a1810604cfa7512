//! What C hands in, as Rust has it. Every pointer is checked for NULL, and that it is aligned, before
//! it is used.

use std::ffi::{CStr, c_char};

use gabion_engine::Algorithm;

use crate::border::{Failure, code};

/// A failure for a NULL where there must be something.
fn missing(what: &str) -> Failure {
    Failure::new(code::ARGUMENT, format!("{what} is NULL"))
}

/// Refuses NULL, and what no `T` can lie at: a pointer that was computed wrongly, or to no `T`.
fn check<T>(what: &str, pointer: *const T) -> Result<(), Failure> {
    if pointer.is_null() {
        return Err(missing(what));
    }
    if !pointer.is_aligned() {
        return Err(Failure::new(code::ARGUMENT, format!("{what} is not aligned for its type")));
    }
    Ok(())
}

/// A failure for a length that does not fit.
pub fn wrong_length(what: &str, expected: usize, got: usize) -> Failure {
    Failure::new(code::LENGTH, format!("{what}: {got} bytes; expected {expected}"))
}

/// The length in bytes of `n` items, or a failure where no such array can exist.
pub fn total(what: &str, n: usize, each: usize) -> Result<usize, Failure> {
    n.checked_mul(each)
        .filter(|total| isize::try_from(*total).is_ok())
        .ok_or_else(|| Failure::new(code::LENGTH, format!("{what}: {n} lanes are too many")))
}

/// Refuses a batch of which there can be no array of handles, before any of its arrays is blanked:
/// that of the status codes is half as long, and would be written over its end.
pub fn lanes(n: usize) -> Result<(), Failure> {
    total("a batch", n, size_of::<*const ()>()).map(drop)
}

/// The array of `len` items at `data`; NULL stands for an empty one.
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

/// The array of `len` items at `data`, to be filled, each `blank` until then; NULL stands for an
/// empty one. A function asks for all of its outputs before it refuses anything, so that none of
/// them holds what was there before.
///
/// # Safety
/// `data` is NULL or points to `len` items that nothing else uses during the call.
pub unsafe fn output<'a, T: Copy>(
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
    // SAFETY: not NULL and aligned, `len` items as the caller says, no longer than an array can be.
    let items = unsafe { std::slice::from_raw_parts_mut(data, len) };
    items.fill(blank);
    Ok(items)
}

/// What `pointer` points to.
///
/// # Safety
/// `pointer` is NULL or points to a value that nothing changes during the call.
pub unsafe fn reference<'a, T>(what: &str, pointer: *const T) -> Result<&'a T, Failure> {
    check(what, pointer)?;
    // SAFETY: not NULL and aligned, and the caller's condition is this function's.
    Ok(unsafe { &*pointer })
}

/// The place that `pointer` points to.
///
/// # Safety
/// `pointer` is NULL or points to a place that nothing else uses during the call.
pub unsafe fn place<'a, T>(what: &str, pointer: *mut T) -> Result<&'a mut T, Failure> {
    check(what, pointer)?;
    // SAFETY: not NULL and aligned, and the caller's condition is this function's.
    Ok(unsafe { &mut *pointer })
}

/// A text.
///
/// # Safety
/// `text` is NULL or ends with a NUL and does not change during the call.
pub unsafe fn text<'a>(what: &str, text: *const c_char) -> Result<&'a str, Failure> {
    if text.is_null() {
        return Err(missing(what));
    }
    // SAFETY: not NULL, and the caller's condition is this function's.
    unsafe { CStr::from_ptr(text) }
        .to_str()
        .map_err(|_| Failure::new(code::ARGUMENT, format!("{what} is not UTF-8")))
}

/// The algorithm of a name.
///
/// # Safety
/// As [`text`].
pub unsafe fn algorithm(name: *const c_char) -> Result<Algorithm, Failure> {
    // SAFETY: the caller's condition is this function's.
    let name = unsafe { text("algorithm", name) }?;
    name.parse().map_err(|_| {
        Failure::new(
            code::ALGORITHM,
            format!("no algorithm `{name}`; gabion_algorithm_name lists those there are"),
        )
    })
}

/// Writes the bytes that `made` gives to the caller's buffer and their length to `*len`, which held
/// the room; with a NULL buffer only the length.
///
/// # Safety
/// `len` is NULL or a place for a length; `out` is NULL or has `*len` bytes.
pub unsafe fn give<'a>(
    what: &str,
    out: *mut u8,
    len: *mut usize,
    made: impl FnOnce() -> Result<&'a [u8], Failure>,
) -> Result<(), Failure> {
    // SAFETY: the caller's condition is this function's.
    let len = unsafe { place("the length", len) }?;
    // SAFETY: the caller's condition; a NULL buffer has no bytes.
    let room = unsafe { output(what, out, if out.is_null() { 0 } else { *len }, 0) }?;
    let bytes = made()?;
    if !out.is_null() {
        let got = room.len();
        let place = room.get_mut(..bytes.len());
        place.ok_or_else(|| wrong_length(what, bytes.len(), got))?.copy_from_slice(bytes);
    }
    *len = bytes.len();
    Ok(())
}
