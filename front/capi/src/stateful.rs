//! Keys that signing uses up: opened with their state, signed with, looked at.

use std::ffi::{OsStr, c_char};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::null_mut;

use gabion_engine::keys::stateful::Request;
use gabion_engine::{Error, memory, with_room};
use gabion_state::{Environment, KeyFile, Signer, SignerOptions};

use crate::border::{Code, Failure, border, code, engine};
use crate::input::{self, OutputRegions, Region, wrong_length};

/// `gabion_stateful_key`: a key, open for signing, with the lock that keeps other processes out.
pub struct StatefulKey(Signer);

/// `gabion_stateful_status`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct StatefulStatus {
    /// The next index.
    pub index: u64,
    /// Signatures that are left.
    pub remaining: u64,
    /// Indexes that were lost, at most.
    pub burnt: u64,
    /// The generation of the state.
    pub generation: u64,
    /// 1 where the key should be replaced.
    pub is_low: u32,
    /// 1 where nothing forbids signing.
    pub is_safe: u32,
}

/// `gabion_stateful_signed`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct StatefulSigned {
    /// The index that signed.
    pub index: u64,
    /// Signatures that are left.
    pub remaining: u64,
    /// 1 where the key should be replaced.
    pub is_low: u32,
    /// 1 where the request was signed before.
    pub is_repeated: u32,
}

/// Opens the private key in a file for signing.
///
/// # Safety
/// `path` and `passphrase` are NULL or texts, `key` is NULL or a place for a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gabion_stateful_key_open(
    path: *const c_char,
    passphrase: *const c_char,
    reserve: u64,
    key: *mut *mut StatefulKey,
) -> Code {
    border(|| {
        // SAFETY: the caller's condition.
        let inputs =
            unsafe { [Region::text("path", path), Region::text("passphrase", passphrase)] };
        let filled = OutputRegions::new([Region::new("the place of the key", key, 1)]).and(inputs);
        // SAFETY: the caller's condition.
        let key = unsafe { filled.output("key", key, 1, null_mut()) }?;
        // SAFETY: the caller's condition, for both.
        let (path, passphrase) = unsafe {
            let given = !passphrase.is_null();
            let given = given.then(|| input::bytes_of_text("passphrase", passphrase));
            (file("path", path)?, given.transpose()?)
        };
        if reserve == 0 {
            return Err(Failure::new(code::INPUT, "reserve is 0; expected 1 or more"));
        }
        let engine = engine()?;
        let opening = SignerOptions { ahead: reserve, ..SignerOptions::default() };
        let signer =
            roomily(|| Signer::open(&Environment::real(), engine, path, passphrase, &opening))?;
        key[0] = Box::into_raw(Box::new(StatefulKey(signer)));
        Ok(())
    })
}

/// Writes the public key.
///
/// # Safety
/// `key` is NULL or a handle; `len` is NULL or a place for a length; `bytes` is NULL or has `*len`
/// bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gabion_stateful_key_public(
    key: *const StatefulKey,
    bytes: *mut u8,
    len: *mut usize,
) -> Code {
    let from = Region::new("key", key, 1);
    // SAFETY: the caller's condition, for both.
    border(|| unsafe {
        input::give("the public key", from, bytes, len, || {
            Ok(input::reference("key", key)?.0.file().public())
        })
    })
}

/// Signs a message with a new index, or returns the existing signature of its request id.
///
/// # Safety
/// `key` is NULL or a handle; `message` is NULL or has `message_len` bytes; `request_id` is NULL or
/// a text; `signature_len` is NULL or a place, and `signature` NULL or `*signature_len` bytes;
/// `about` is NULL or a place.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gabion_stateful_key_sign(
    key: *const StatefulKey,
    message: *const u8,
    message_len: usize,
    request_id: *const c_char,
    signature: *mut u8,
    signature_len: *mut usize,
    about: *mut StatefulSigned,
) -> Code {
    border(|| {
        let place_of_len = signature_len;
        // SAFETY: the caller's condition.
        let signature_len = unsafe { input::place("the length", signature_len) }?;
        let room = if signature.is_null() { 0 } else { *signature_len };
        let abouts = usize::from(!about.is_null());
        // SAFETY: the caller's condition.
        let id = unsafe { Region::text("request id", request_id) };
        let filled = OutputRegions::new([
            Region::new("the signature", signature, room),
            Region::new("the length", place_of_len, 1),
            Region::new("about", about, abouts),
        ])
        .and([
            Region::new("message", message, message_len),
            Region::new("key", key, 1),
            id,
        ]);
        // SAFETY: the caller's condition, for both.
        let (out, about) = unsafe {
            (
                filled.output("the signature", signature, room, 0),
                filled.output("about", about, abouts, StatefulSigned::default()),
            )
        };
        filled.check(place_of_len, 1)?;
        let (out, about) = (out?, about?);
        // SAFETY: the caller's condition, for all.
        let (key, message, id) = unsafe {
            let id = (!request_id.is_null()).then(|| input::text("request id", request_id));
            let message = input::slice("message", message, message_len)?;
            (&input::reference("key", key)?.0, message, id.transpose()?)
        };
        let expected = key.file().signature_len();
        if signature.is_null() {
            *signature_len = expected;
            return Ok(());
        }
        // Before an index is used.
        let got = out.len();
        let place = out.get_mut(..expected);
        let place = place.ok_or_else(|| wrong_length("the signature", expected, got))?;
        memory::check()?;
        let signed = roomily(|| key.sign(&[Request { message, id }]))?;
        let signed = signed.into_iter().next().ok_or(Error::Lost)?;
        if signed.bytes.len() != expected {
            return Err(Error::Lost.into());
        }
        place.copy_from_slice(&signed.bytes);
        *signature_len = expected;
        if let [about] = about {
            let (index, remaining) = (signed.index, signed.remaining);
            let [is_low, is_repeated] = [signed.is_low, signed.is_repeated].map(u32::from);
            *about = StatefulSigned { index, remaining, is_low, is_repeated };
        }
        Ok(())
    })
}

/// Closes a key and durably returns its unused reserved indexes.
///
/// # Safety
/// `key` is NULL or a handle that is not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gabion_stateful_key_close(key: *mut StatefulKey) -> Code {
    border(|| {
        if key.is_null() {
            return Ok(());
        }
        // SAFETY: a handle, as the caller says, which `gabion_stateful_key_open` made of a box.
        let key = unsafe { Box::from_raw(key) };
        Ok(roomily(|| key.0.close())?)
    })
}

/// Looks at a key without opening it.
///
/// # Safety
/// `path` is NULL or a text, `status` is NULL or a place.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gabion_stateful_key_status(
    path: *const c_char,
    status: *mut StatefulStatus,
) -> Code {
    border(|| {
        // SAFETY: the caller's condition.
        let inputs = unsafe { [Region::text("path", path)] };
        let filled = OutputRegions::new([Region::new("status", status, 1)]).and(inputs);
        // SAFETY: the caller's condition.
        let out = unsafe { filled.output("status", status, 1, StatefulStatus::default()) }?;
        // SAFETY: the caller's condition.
        let path = unsafe { file("path", path) }?;
        let around = Environment::real();
        let (seen, is_own) = roomily(|| {
            let seen = gabion_state::status(&around, path)?;
            let file = KeyFile::read(&*around.disk, path)?;
            let is_own = seen.check_key(path, file.public()).is_ok();
            Ok((seen, is_own))
        })?;
        let agrees = seen.anchors.iter().all(|(_, why)| why.is_none());
        let is_safe = is_own && seen.refusal.is_none() && agrees;
        out[0] = StatefulStatus {
            index: seen.index,
            remaining: seen.remaining.left,
            burnt: seen.remaining.burnt,
            generation: seen.generation,
            is_low: u32::from(seen.remaining.is_low),
            is_safe: u32::from(is_safe),
        };
        Ok(())
    })
}

/// Converts a string to a path, without interpreting its bytes.
///
/// # Safety
/// `text` is NULL or ends with a NUL and does not change during the call.
unsafe fn file<'a>(what: &str, text: *const c_char) -> Result<&'a Path, Failure> {
    // SAFETY: the caller's condition is this function's.
    let bytes = unsafe { input::bytes_of_text(what, text) }?;
    Ok(Path::new(OsStr::from_bytes(bytes)))
}

/// Does work that needs more stack than the caller may have.
fn roomily<T>(work: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    with_room(work)?
}
