//! The C side of OpenSSL's provider interface: types, numbers, parameters.
//!
//! Written from the documented interface (provider(7), OSSL_PARAM(3), core_dispatch.h): no OpenSSL
//! library is linked, so one module serves 3.5 and 4.0. The numbers are part of OpenSSL's stable
//! interface; a test compares them with the headers of the OpenSSL that the tests run.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::marker::PhantomData;
use std::slice;

use crate::error::Failure;

pub mod function;

/// The core's handle for this provider. Opaque.
#[repr(C)]
pub struct CoreHandle {
    _opaque: [u8; 0],
}

/// A function of any type, which the number in the table entry identifies.
pub type AnyFunction = unsafe extern "C" fn();

/// One entry of a dispatch table (OSSL_DISPATCH); a table ends with number 0.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Dispatch {
    /// The function's number in the dispatch table.
    pub number: c_int,
    /// The function.
    pub function: Option<AnyFunction>,
}

impl Dispatch {
    /// The end of a table.
    pub const END: Dispatch = Dispatch { number: 0, function: None };
}

/// Makes a table entry of a number and an `extern "C"` function of the type it stands for.
macro_rules! entry {
    ($number:expr, $function:expr, $type:ty) => {
        $crate::ffi::Dispatch {
            number: $number,
            // SAFETY: function pointers have one size and form; the core casts the pointer back to
            // the type that the number stands for before it calls it.
            function: Some(unsafe {
                std::mem::transmute::<$type, $crate::ffi::AnyFunction>($function)
            }),
        }
    };
}
pub(crate) use entry;

/// One algorithm that a provider offers (OSSL_ALGORITHM); a list ends with null names.
#[repr(C)]
pub struct AlgorithmEntry {
    /// All names, separated by colons.
    pub names: *const c_char,
    /// The properties that property queries match.
    pub properties: *const c_char,
    /// The functions.
    pub implementation: *const Dispatch,
    /// A line for people.
    pub description: *const c_char,
}

/// A value going in or out (OSSL_PARAM); a list ends with a null key.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Param {
    key: *const c_char,
    data_type: c_uint,
    data: *mut c_void,
    data_size: usize,
    return_size: usize,
}

// SAFETY: only constant descriptors are shared between threads: their pointers lead to literals.
unsafe impl Sync for Param {}

const INTEGER: c_uint = 1;
const UNSIGNED: c_uint = 2;
const REAL: c_uint = 3;
const UTF8: c_uint = 4;
const OCTETS: c_uint = 5;
const UTF8_PTR: c_uint = 6;
const OCTETS_PTR: c_uint = 7;
/// The value of `return_size` before a parameter is answered (OSSL_PARAM_UNMODIFIED).
const UNMODIFIED: usize = usize::MAX;

impl Param {
    /// The end of a list.
    pub const END: Param = Param::empty(std::ptr::null(), 0);

    const fn empty(key: *const c_char, data_type: c_uint) -> Param {
        let data = std::ptr::null_mut();
        Param { key, data_type, data, data_size: 0, return_size: UNMODIFIED }
    }

    /// Returns an entry for a list of settable parameters: an integer.
    pub const fn takes_int(key: &'static CStr) -> Param {
        Param { data_size: size_of::<c_int>(), ..Param::empty(key.as_ptr(), INTEGER) }
    }

    /// Returns an entry for a list of gettable parameters: a size.
    pub const fn gives_size(key: &'static CStr) -> Param {
        Param { data_size: size_of::<usize>(), ..Param::empty(key.as_ptr(), UNSIGNED) }
    }

    /// Returns an entry for a list of settable parameters: a byte string.
    pub const fn takes_octets(key: &'static CStr) -> Param {
        Param::empty(key.as_ptr(), OCTETS)
    }

    /// Returns an entry for a list of settable parameters: a text.
    pub const fn takes_utf8(key: &'static CStr) -> Param {
        Param::empty(key.as_ptr(), UTF8)
    }

    /// An integer for a callback to read; `value` must outlive the call.
    pub fn int(key: &'static CStr, value: &c_int) -> Param {
        Param::of(key, INTEGER, slice::from_ref(value))
    }

    /// An unsigned integer for a callback to read; `value` must outlive the call.
    pub fn uint(key: &'static CStr, value: &c_uint) -> Param {
        Param::of(key, UNSIGNED, slice::from_ref(value))
    }

    /// A text for a callback to read; `value` must outlive the call.
    pub fn utf8(key: &'static CStr, value: &CStr) -> Param {
        // The length leaves the zero out, but readers may rely on it.
        let data_size = value.count_bytes();
        Param { data_size, ..Param::of(key, UTF8, value.to_bytes_with_nul()) }
    }

    /// Returns a parameter that queries one of the core's strings. `answer` must outlive the call,
    /// and stays null if the core does not have the string.
    pub fn asks_text(key: &'static CStr, answer: &mut *const c_char) -> Param {
        let data = std::ptr::from_mut(answer).cast();
        Param {
            data,
            data_size: size_of::<*const c_char>(),
            ..Param::empty(key.as_ptr(), UTF8_PTR)
        }
    }

    /// Answers a query of [`Param::asks_text`].
    ///
    /// # Safety
    /// The parameter is one of `asks_text`, whose answer lives.
    #[cfg(test)]
    pub unsafe fn testing_only_answer(&mut self, text: *const c_char) {
        // SAFETY: as the caller vouches.
        unsafe { *self.data.cast::<*const c_char>() = text }
    }

    /// Bytes for a callback to read; `value` must outlive the call.
    pub fn octets(key: &'static CStr, value: &[u8]) -> Param {
        Param::of(key, OCTETS, value)
    }

    /// Returns whether this is the parameter of that name.
    #[cfg(test)]
    pub fn is(&self, key: &CStr) -> bool {
        // SAFETY: keys are C strings, but for that of a list's end.
        !self.key.is_null() && unsafe { CStr::from_ptr(self.key) } == key
    }

    /// Returns a parameter that points to a pointer, for a callback to take it out; the place must
    /// outlive the call.
    pub fn reference(key: &'static CStr, place: *mut *mut c_void) -> Param {
        let data_size = size_of::<*mut c_void>();
        Param { data: place.cast(), data_size, ..Param::empty(key.as_ptr(), OCTETS) }
    }

    fn of<T>(key: &'static CStr, data_type: c_uint, value: &[T]) -> Param {
        // OSSL_PARAM has one field for reading and writing; who reads a parameter never writes it.
        let data = value.as_ptr().cast_mut().cast();
        let data_size = size_of_val(value);
        Param { data, data_size, ..Param::empty(key.as_ptr(), data_type) }
    }
}

/// Parameters that the core hands in, to be read.
#[derive(Clone, Copy)]
pub struct ParamsIn<'a> {
    first: *const Param,
    call: PhantomData<&'a Param>,
}

impl<'a> ParamsIn<'a> {
    /// # Safety
    /// `first` is null or points to a terminated list, which stays valid with its data during `'a`.
    pub unsafe fn new(first: *const Param) -> Self {
        ParamsIn { first, call: PhantomData }
    }

    fn find(self, key: &CStr) -> Option<&'a Param> {
        let mut at = self.first;
        // SAFETY: the caller of `new` vouches for a list with an end; keys are C strings.
        unsafe {
            while !at.is_null() && !(*at).key.is_null() {
                if CStr::from_ptr((*at).key) == key {
                    return Some(&*at);
                }
                at = at.add(1);
            }
        }
        None
    }

    /// Returns whether the list has a parameter of that name.
    pub fn has(self, key: &CStr) -> bool {
        self.find(key).is_some()
    }

    /// Returns whether the list is empty.
    pub fn is_empty(self) -> bool {
        // SAFETY: the caller of `new` vouches for a list with an end.
        self.first.is_null() || unsafe { (*self.first).key.is_null() }
    }

    /// The first parameter of each name of a list; one pass, for lists that are long and calls that
    /// are many.
    pub fn pick<const N: usize>(self, keys: [&CStr; N]) -> [Option<&'a Param>; N] {
        let mut picked = [None; N];
        let mut at = self.first;
        // SAFETY: the caller of `new` vouches for a list with an end; keys are C strings.
        unsafe {
            while !at.is_null() && !(*at).key.is_null() {
                let key = CStr::from_ptr((*at).key);
                if let Some(place) = keys.iter().position(|known| *known == key) {
                    picked[place].get_or_insert(&*at);
                }
                at = at.add(1);
            }
        }
        picked
    }

    /// The name of the first parameter that is also in a constant list.
    pub fn first_of(self, list: &'static [Param]) -> Option<&'static str> {
        list.iter().filter(|known| !known.key.is_null()).find_map(|known| {
            // SAFETY: the keys of constant lists are literals.
            let key: &'static CStr = unsafe { CStr::from_ptr(known.key) };
            self.find(key).map(|_| key.to_str().unwrap_or("?"))
        })
    }

    /// The byte string of that name; an absent or empty one is `None`.
    ///
    /// # Errors
    /// The parameter is of another type.
    pub fn octets(self, key: &'static CStr) -> Result<Option<&'a [u8]>, Failure> {
        Ok(self.octets_ptr(key)?.filter(|bytes| !bytes.is_empty()))
    }

    /// The text of that name, without a zero at its end.
    ///
    /// # Errors
    /// The parameter is of another type.
    pub fn text(self, key: &'static CStr) -> Result<Option<&'a [u8]>, Failure> {
        self.find(key).map(|param| param.as_text(key)).transpose()
    }

    /// The byte string of that name, which may be there and empty, as OSSL_PARAM_get_octet_string
    /// takes it: no pointer to one, and never null.
    ///
    /// # Errors
    /// The parameter is of another type.
    pub fn octets_or_empty(self, key: &'static CStr) -> Result<Option<&'a [u8]>, Failure> {
        self.find(key).map(|param| param.as_octets(key)).transpose()
    }

    /// Returns the byte string of that name, or the one that it points to, like
    /// OSSL_PARAM_get_octet_string_ptr; null pointers are rejected.
    ///
    /// # Errors
    /// The parameter is of another type.
    pub fn octets_ptr(self, key: &'static CStr) -> Result<Option<&'a [u8]>, Failure> {
        let Some(param) = self.find(key) else {
            return Ok(None);
        };
        let data = match param.data_type {
            OCTETS => param.data.cast_const(),
            // SAFETY: of this type, `data` leads to a pointer to the bytes.
            OCTETS_PTR if !param.data.is_null() => unsafe { *param.data.cast::<*const c_void>() },
            _ => return Err(Failure::wrong_type(key, "a byte string")),
        };
        // SAFETY: the core vouches for `data_size` bytes at `data`, for the time of the call.
        let value = unsafe { bytes(data.cast(), param.data_size) };
        value.map(Some).ok_or_else(|| Failure::wrong_type(key, "a byte string, not a null pointer"))
    }

    /// The integer of that name.
    ///
    /// # Errors
    /// The parameter is of another type, or the number does not fit.
    pub fn int(self, key: &'static CStr) -> Result<Option<i32>, Failure> {
        self.find(key).map(|param| param.as_int(key)).transpose()
    }
}

/// Accessors for received parameters; `'a` is the duration of the call, and `key` the name for
/// error messages.
impl Param {
    /// Returns the text, without a zero at its end.
    ///
    /// # Errors
    /// It is of another type.
    pub fn as_text<'a>(&'a self, key: &'static CStr) -> Result<&'a [u8], Failure> {
        let wrong = || Failure::wrong_type(key, "a text");
        if self.data_type != UTF8 {
            return Err(wrong());
        }
        // SAFETY: the core vouches for `data_size` bytes.
        let text = unsafe { bytes(self.data.cast_const().cast(), self.data_size) };
        Ok(text.ok_or_else(wrong)?.split(|&byte| byte == 0).next().unwrap_or_default())
    }

    /// Returns the bytes, possibly an empty slice, but never from a null pointer.
    ///
    /// # Errors
    /// It is of another type.
    pub fn as_octets<'a>(&'a self, key: &'static CStr) -> Result<&'a [u8], Failure> {
        let wrong = || Failure::wrong_type(key, "a byte string, not a null pointer");
        if self.data_type != OCTETS || self.data.is_null() {
            return Err(wrong());
        }
        // SAFETY: the core vouches for `data_size` bytes at `data`, for the time of the call.
        unsafe { bytes(self.data.cast_const().cast(), self.data_size) }.ok_or_else(wrong)
    }

    /// Returns whether it is a text.
    pub fn is_text(&self) -> bool {
        self.data_type == UTF8
    }

    /// Returns the number, of any type and width, converted like OSSL_PARAM_get_int.
    ///
    /// # Errors
    /// It is of another type, or the number does not fit.
    pub fn as_int(&self, key: &'static CStr) -> Result<i32, Failure> {
        let wrong = || Failure::wrong_type(key, "an integer that 32 bits hold");
        // SAFETY: the core vouches for `data_size` bytes at `data`, for the time of the call.
        let native = unsafe { bytes(self.data.cast_const().cast(), self.data_size) };
        let native = native.filter(|bytes| !bytes.is_empty()).ok_or_else(wrong)?;
        let number = match self.data_type {
            INTEGER => wide(native, true),
            UNSIGNED => wide(native, false),
            REAL => native.try_into().ok().map(f64::from_ne_bytes).and_then(whole),
            _ => None,
        };
        number.and_then(|number| i32::try_from(number).ok()).ok_or_else(wrong)
    }
}

/// An integer of any width in the machine's order of bytes; none of more than 128 bits.
fn wide(native: &[u8], is_signed: bool) -> Option<i128> {
    let from_least = |at: usize| match cfg!(target_endian = "big") {
        true => native[native.len() - 1 - at],
        false => native[at],
    };
    let is_negative = is_signed && from_least(native.len() - 1) >= 0x80;
    let sign = if is_negative { 0xff } else { 0 };
    let mut number = [sign; 16];
    for at in 0..native.len() {
        match number.get_mut(at) {
            Some(byte) => *byte = from_least(at),
            None if from_least(at) != sign => return None,
            None => {}
        }
    }
    let number = i128::from_le_bytes(number);
    ((number < 0) == is_negative).then_some(number)
}

/// The integer that a floating-point number is, within 32 bits.
fn whole(number: f64) -> Option<i128> {
    let fits = number >= f64::from(i32::MIN) && number <= f64::from(i32::MAX);
    (fits && number.fract() == 0.0).then_some(number as i128)
}

/// Parameters that the core passes to be answered. Parameters that are not in the list are not
/// written.
pub struct ParamsOut<'a> {
    first: *mut Param,
    call: PhantomData<&'a mut Param>,
}

impl<'a> ParamsOut<'a> {
    /// # Safety
    /// `first` is null or leads to a list with an end, which only this call touches; its buffers
    /// are as long as it says.
    pub unsafe fn new(first: *mut Param) -> Self {
        ParamsOut { first, call: PhantomData }
    }

    fn find(&mut self, key: &CStr) -> Option<&mut Param> {
        let mut at = self.first;
        // SAFETY: the caller of `new` vouches for a list with an end; keys are C strings.
        unsafe {
            while !at.is_null() && !(*at).key.is_null() {
                if CStr::from_ptr((*at).key) == key {
                    return Some(&mut *at);
                }
                at = at.add(1);
            }
        }
        None
    }

    /// Answers with an integer, in the type and width that is asked for, as OSSL_PARAM_set_int
    /// does.
    ///
    /// # Errors
    /// The parameter is of another type or too narrow.
    pub fn int(&mut self, key: &'static CStr, value: i32) -> Result<(), Failure> {
        match self.find(key) {
            Some(param) => param.write_number(key, value.into(), size_of::<i32>()),
            None => Ok(()),
        }
    }

    /// Returns whether a parameter is asked for.
    pub fn asks_for(&mut self, key: &'static CStr) -> bool {
        self.find(key).is_some()
    }

    /// Returns whether a parameter is asked for as a text.
    pub fn asks_for_text(&mut self, key: &'static CStr) -> bool {
        self.find(key).is_some_and(|param| param.is_text())
    }

    /// Answers that there is nothing: a value of no bytes.
    pub fn nothing(&mut self, key: &'static CStr) {
        if let Some(param) = self.find(key) {
            param.return_size = 0;
        }
    }

    /// Answers with a size, in the type and width that is asked for, as OSSL_PARAM_set_size_t does.
    ///
    /// # Errors
    /// The parameter is of another type or too narrow.
    pub fn size(&mut self, key: &'static CStr, value: usize) -> Result<(), Failure> {
        match self.find(key) {
            Some(param) => param.write_number(key, value as i128, size_of::<usize>()),
            None => Ok(()),
        }
    }

    /// Answers with bytes.
    ///
    /// # Errors
    /// The parameter is of another type or its buffer too small.
    pub fn octets(&mut self, key: &'static CStr, value: &[u8]) -> Result<(), Failure> {
        match self.find(key) {
            None => Ok(()),
            Some(param) if param.data_type == OCTETS => param.write(key, value),
            Some(_) => Err(Failure::wrong_type(key, "a byte string")),
        }
    }

    /// Answers with a text.
    ///
    /// # Errors
    /// The parameter is of another type or its buffer too small.
    pub fn utf8(&mut self, key: &'static CStr, value: &'static CStr) -> Result<(), Failure> {
        match self.find(key) {
            None => Ok(()),
            Some(param) if param.data_type == UTF8 => {
                param.write(key, value.to_bytes())?;
                if !param.data.is_null() && param.data_size > value.count_bytes() {
                    // SAFETY: the buffer is longer than the text, so there is room for the zero.
                    unsafe { param.data.cast::<u8>().add(value.count_bytes()).write(0) };
                }
                Ok(())
            }
            Some(param) if param.data_type == UTF8_PTR => {
                param.return_size = value.count_bytes();
                if !param.data.is_null() {
                    // SAFETY: of this type, `data` leads to room for a pointer.
                    unsafe { param.data.cast::<*const c_char>().write(value.as_ptr()) };
                }
                Ok(())
            }
            Some(_) => Err(Failure::wrong_type(key, "a text")),
        }
    }
}

impl Param {
    /// Writes a number in the parameter's type and width; without a buffer, sets only the number of
    /// bytes it takes: `usual` for an integer. A number that does not fit is not written.
    fn write_number(
        &mut self,
        key: &'static CStr,
        value: i128,
        usual: usize,
    ) -> Result<(), Failure> {
        // Above it a floating-point number of 64 bits is not every integer.
        const REAL_MAX: i128 = 1 << f64::MANTISSA_DIGITS;
        let room = self.data_size;
        let (is_real, bits) = (self.data_type == REAL, (8 * room).min(127) as u32);
        let fits = match self.data_type {
            _ if self.data.is_null() => true,
            INTEGER => room > 0 && (-(1 << (bits - 1))..1 << (bits - 1)).contains(&value),
            UNSIGNED => room > 0 && (0..=(i128::MAX >> (127 - bits))).contains(&value),
            _ => room == size_of::<f64>() && (-REAL_MAX..=REAL_MAX).contains(&value),
        };
        self.return_size = if is_real { size_of::<f64>() } else { usual };
        if !fits || !matches!(self.data_type, INTEGER | UNSIGNED | REAL) {
            return Err(Failure::wrong_type(key, "an integer that the answer fits in"));
        }
        if self.data.is_null() {
            return Ok(());
        }
        // SAFETY: the core vouches for `data_size` bytes of room.
        let out = unsafe { slice::from_raw_parts_mut(self.data.cast::<u8>(), room) };
        if is_real {
            out.copy_from_slice(&(value as f64).to_ne_bytes());
            return Ok(());
        }
        let sign = if value < 0 { 0xff } else { 0 };
        for (at, &byte) in
            value.to_le_bytes().iter().chain(std::iter::repeat(&sign)).take(room).enumerate()
        {
            out[if cfg!(target_endian = "big") { room - 1 - at } else { at }] = byte;
        }
        self.return_size = room;
        Ok(())
    }

    /// Copies a value out; without a buffer, only tells its length.
    fn write(&mut self, key: &'static CStr, value: &[u8]) -> Result<(), Failure> {
        self.return_size = value.len();
        if self.data.is_null() {
            return Ok(());
        }
        if self.data_size < value.len() {
            return Err(Failure::TooSmall {
                what: key.to_str().unwrap_or("parameter"),
                expected: value.len(),
                got: self.data_size,
            });
        }
        // SAFETY: the core vouches for `data_size` bytes of room, and the value is no longer.
        unsafe { self.data.cast::<u8>().copy_from_nonoverlapping(value.as_ptr(), value.len()) };
        Ok(())
    }
}

/// Returns the bytes that C passes as pointer and length. Returns `None` for a null pointer with a
/// length, lest a missing message pass for the empty one, and for a length that exceeds
/// `isize::MAX`.
///
/// # Safety
/// `len` bytes at `data` can be read for `'a`, unless `data` is null.
pub unsafe fn bytes<'a>(data: *const u8, len: usize) -> Option<&'a [u8]> {
    match (data.is_null(), len) {
        (_, 0) => Some(&[]),
        (true, _) => None,
        _ if isize::try_from(len).is_err() => None,
        // SAFETY: as the caller vouches.
        (false, _) => Some(unsafe { slice::from_raw_parts(data, len) }),
    }
}

/// The text of a C string, if it is one.
///
/// # Safety
/// `text` is null or a C string that stays for `'a`.
pub unsafe fn c_text<'a>(text: *const c_char) -> Option<&'a CStr> {
    // SAFETY: as the caller vouches.
    (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) })
}

/// A function that the core passes on parameters to (OSSL_CALLBACK).
pub type Callback = unsafe extern "C" fn(*const Param, *mut c_void) -> c_int;

/// Operations (OSSL_OP_*).
pub mod operation {
    use std::ffi::c_int;

    /// Key derivation.
    pub const KDF: c_int = 4;
    /// Key management.
    pub const KEYMGMT: c_int = 10;
    /// Key exchange.
    pub const KEYEXCH: c_int = 11;
    /// Signatures.
    pub const SIGNATURE: c_int = 12;
    /// Key encapsulation.
    pub const KEM: c_int = 14;
    /// Loaders of a store.
    pub const STORE: c_int = 22;
    /// Encoders.
    pub const ENCODER: c_int = 20;
    /// Decoders.
    pub const DECODER: c_int = 21;
}

/// Parts of a key (OSSL_KEYMGMT_SELECT_*).
pub mod select {
    use std::ffi::c_int;

    /// The private key.
    pub const PRIVATE_KEY: c_int = 0x01;
    /// The public key.
    pub const PUBLIC_KEY: c_int = 0x02;
    /// Both.
    pub const KEYPAIR: c_int = PRIVATE_KEY | PUBLIC_KEY;
    /// Domain parameters, which these algorithms lack.
    pub const DOMAIN_PARAMETERS: c_int = 0x04;
}

/// Names of parameters (core_names.h).
pub mod name {
    use std::ffi::CStr;

    pub const BITS: &CStr = c"bits";
    pub const SECURITY_BITS: &CStr = c"security-bits";
    pub const SECURITY_CATEGORY: &CStr = c"security-category";
    pub const MAX_SIZE: &CStr = c"max-size";
    pub const MANDATORY_DIGEST: &CStr = c"mandatory-digest";
    pub const PUB: &CStr = c"pub";
    pub const PRIV: &CStr = c"priv";
    pub const SEED: &CStr = c"seed";
    pub const ENCODED_PUB: &CStr = c"encoded-pub-key";
    pub const CMS_RI_TYPE: &CStr = c"ri-type";
    pub const CMS_KEMRI_KDF_ALGORITHM: &CStr = c"kemri-kdf-alg";
    pub const IKME: &CStr = c"ikme";
    pub const DHKEM_IKM: &CStr = c"dhkem-ikm";
    pub const GROUP: &CStr = c"group";
    pub const ALGORITHM_ID: &CStr = c"algorithm-id";
    pub const CONTEXT_STRING: &CStr = c"context-string";
    pub const DETERMINISTIC: &CStr = c"deterministic";
    pub const MESSAGE_ENCODING: &CStr = c"message-encoding";
    pub const TEST_ENTROPY: &CStr = c"test-entropy";
    pub const MU: &CStr = c"mu";
    pub const SIGNATURE: &CStr = c"signature";
    pub const CIPHER: &CStr = c"cipher";
    pub const PROPERTIES: &CStr = c"properties";
    pub const EXPECT: &CStr = c"expect";
    pub const OBJECT_TYPE: &CStr = c"type";
    pub const OBJECT_DATA_TYPE: &CStr = c"data-type";
    pub const OBJECT_REFERENCE: &CStr = c"reference";
    pub const MODE: &CStr = c"mode";
    pub const DIGEST: &CStr = c"digest";
    pub const KEY: &CStr = c"key";
    pub const SALT: &CStr = c"salt";
    pub const PREFIX: &CStr = c"prefix";
    pub const LABEL: &CStr = c"label";
    pub const DATA: &CStr = c"data";
    pub const INFO: &CStr = c"info";
    pub const SIZE: &CStr = c"size";
    pub const CORE_VERSION: &CStr = c"openssl-version";
    pub const PROVIDER_NAME: &CStr = c"name";
    pub const PROVIDER_VERSION: &CStr = c"version";
    pub const PROVIDER_BUILDINFO: &CStr = c"buildinfo";
    pub const PROVIDER_STATUS: &CStr = c"status";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_null_pointer_with_a_length_is_no_empty_string() {
        let byte = 7u8;
        // SAFETY: one byte at the address, or null.
        unsafe {
            assert_eq!(bytes(&byte, 1), Some(&[7][..]));
            assert_eq!(bytes(std::ptr::null(), 0), Some(&[][..]));
            assert_eq!(bytes(std::ptr::null(), 1), None);
        }
        let absent = Param { data_size: 1, ..Param::takes_octets(name::CONTEXT_STRING) };
        let list = [absent, Param::END];
        // SAFETY: a list with an end.
        let params = unsafe { ParamsIn::new(list.as_ptr()) };
        assert!(params.octets_or_empty(name::CONTEXT_STRING).is_err());
        let empty = [Param::takes_octets(name::CONTEXT_STRING), Param::END];
        // SAFETY: a list with an end.
        let params = unsafe { ParamsIn::new(empty.as_ptr()) };
        assert!(params.octets_or_empty(name::CONTEXT_STRING).is_err(), "as at libcrypto");
        assert_eq!(params.octets_ptr(name::CONTEXT_STRING), Ok(Some(&[][..])));
    }

    /// A parameter of a chosen type over the first bytes of a buffer.
    fn over(key: &'static CStr, data_type: c_uint, buffer: &mut [u8], size: usize) -> Param {
        assert!(size <= buffer.len());
        let data = buffer.as_mut_ptr().cast();
        Param { data, data_size: size, ..Param::empty(key.as_ptr(), data_type) }
    }

    #[test]
    fn integers_are_read_in_every_width_and_refused_where_they_do_not_fit() {
        let read = |data_type, native: &[u8]| {
            let mut native = native.to_vec();
            let len = native.len();
            over(name::MU, data_type, &mut native, len).as_int(name::MU).ok()
        };
        for value in [0, 1, -1, i32::MAX, i32::MIN] {
            assert_eq!(read(INTEGER, &value.to_ne_bytes()), Some(value));
            assert_eq!(read(INTEGER, &i64::from(value).to_ne_bytes()), Some(value));
            let unsigned = (value >= 0).then_some(value);
            assert_eq!(read(UNSIGNED, &value.to_ne_bytes()), unsigned);
            assert_eq!(read(UNSIGNED, &i64::from(value).to_ne_bytes()), unsigned);
        }
        assert_eq!(read(INTEGER, &(i64::from(i32::MAX) + 1).to_ne_bytes()), None);
        assert_eq!(read(INTEGER, &(i64::from(i32::MIN) - 1).to_ne_bytes()), None);
        assert_eq!(read(UNSIGNED, &u128::MAX.to_ne_bytes()), None, "no negative number");
        for value in [0i16, 1, -1, i16::MAX, i16::MIN] {
            assert_eq!(read(INTEGER, &value.to_ne_bytes()), Some(value.into()));
            assert_eq!(read(UNSIGNED, &value.to_ne_bytes()), Some((value as u16).into()));
            assert_eq!(read(INTEGER, &i128::from(value).to_ne_bytes()), Some(value.into()));
            assert_eq!(read(REAL, &f64::from(value).to_ne_bytes()), Some(value.into()));
        }
        for number in [0.5, -1.25, f64::NAN, f64::INFINITY, 2_147_483_648.0, -2_147_483_649.0] {
            assert_eq!(read(REAL, &number.to_ne_bytes()), None, "{number}");
        }
        let longer = |sign: u8| [&1i64.to_le_bytes()[..], &[0; 16], &[sign]].concat();
        if cfg!(target_endian = "little") {
            assert_eq!([0, 1].map(|sign| read(INTEGER, &longer(sign))), [Some(1), None]);
        }
        for (data_type, len) in [(INTEGER, 0), (UNSIGNED, 0), (REAL, 4), (OCTETS, 4)] {
            assert_eq!(read(data_type, &vec![0; len]), None, "{data_type} of {len} bytes");
        }
    }

    #[test]
    fn first_of_duplicate_parameters_wins() {
        let (first, second) = (1, 2);
        let list = [
            Param::int(name::MODE, &first),
            Param::int(name::MU, &second),
            Param::int(name::MODE, &second),
            Param::END,
        ];
        // SAFETY: a list with an end.
        let params = unsafe { ParamsIn::new(list.as_ptr()) };
        assert_eq!(params.int(name::MODE), Ok(Some(1)));
        let [mode, none, mu] = params.pick([name::MODE, name::KEY, name::MU]);
        assert_eq!(mode.unwrap().as_int(name::MODE), Ok(1));
        assert_eq!(mu.unwrap().as_int(name::MU), Ok(2));
        assert!(none.is_none());
        static LIST: [Param; 3] =
            [Param::takes_int(name::KEY), Param::takes_int(name::MU), Param::END];
        assert_eq!(params.first_of(&LIST), Some("mu"));
        assert_eq!(params.first_of(&LIST[..1]), None);
    }

    #[test]
    fn byte_strings_are_read_in_place_and_behind_a_pointer() {
        let value = *b"seed";
        let pointer = value.as_ptr();
        let behind = |data| {
            let param = Param { data, data_size: 4, ..Param::takes_octets(name::SEED) };
            [Param { data_type: OCTETS_PTR, ..param }, Param::END]
        };
        let read = |list: &[Param]| {
            // SAFETY: a list with an end.
            let params = unsafe { ParamsIn::new(list.as_ptr()) };
            params.octets(name::SEED).map(|bytes| bytes.map(<[u8]>::to_vec))
        };
        assert_eq!(
            read(&[Param::octets(name::SEED, &value), Param::END]),
            Ok(Some(value.to_vec()))
        );
        assert_eq!(read(&behind((&raw const pointer).cast_mut().cast())), Ok(Some(value.to_vec())));
        assert!(read(&behind(std::ptr::null_mut())).is_err());
        assert!(read(&[Param::utf8(name::SEED, c"seed"), Param::END]).is_err());
        assert_eq!(read(&[Param::octets(name::PUB, &value), Param::END]), Ok(None));
        assert_eq!(read(&[Param::octets(name::SEED, &[]), Param::END]), Ok(None));
    }

    #[test]
    fn lists_and_values_that_are_not_there_are_told_from_empty_ones() {
        let list = [Param::octets(name::KEY, b""), Param::END];
        for (first, is_empty) in
            [(std::ptr::null(), true), (&raw const list[1], true), (&raw const list[0], false)]
        {
            // SAFETY: null, or a list with an end.
            assert_eq!(unsafe { ParamsIn::new(first) }.is_empty(), is_empty);
        }
        assert_eq!(list[0].as_octets(name::KEY), Ok(&[][..]));
        assert!(Param::takes_octets(name::KEY).as_octets(name::KEY).is_err());
        let text = Param::utf8(name::KEY, c"abc");
        assert!(text.as_octets(name::KEY).is_err());
        assert!(text.is_text() && !list[0].is_text());
        let asked = answer(OCTETS, 8, |out| {
            out.nothing(name::INFO);
            Ok(())
        });
        assert_eq!(asked, (true, 0, [A; 8]));
    }

    #[test]
    fn a_text_ends_at_its_zero() {
        for (bytes, text) in [(&b"AES\0x"[..], &b"AES"[..]), (b"AES", b"AES"), (b"", b"")] {
            let mut bytes = bytes.to_vec();
            let len = bytes.len();
            let param = over(name::CIPHER, UTF8, &mut bytes, len);
            assert_eq!(param.as_text(name::CIPHER), Ok(text));
        }
        assert!(Param::octets(name::CIPHER, b"AES").as_text(name::CIPHER).is_err());
    }

    /// Returns the content of eight bytes 0xAA after an answer into the first `size` of them.
    fn answer(
        data_type: c_uint,
        size: usize,
        give: impl FnOnce(&mut ParamsOut<'_>) -> Result<(), Failure>,
    ) -> (bool, usize, [u8; 8]) {
        let mut buffer = [0xaa; 8];
        let mut list = [over(name::INFO, data_type, &mut buffer, size), Param::END];
        // SAFETY: a list with an end, over a buffer that is as long as it says.
        let given = give(&mut unsafe { ParamsOut::new(list.as_mut_ptr()) });
        (given.is_ok(), list[0].return_size, buffer)
    }

    const A: u8 = 0xaa;

    #[test]
    fn an_answer_stays_within_the_room_that_is_offered() {
        const KEY: &CStr = name::INFO;
        let octets = |size| answer(OCTETS, size, |out| out.octets(KEY, b"abc"));
        assert_eq!(octets(3), (true, 3, [b'a', b'b', b'c', A, A, A, A, A]));
        assert_eq!(octets(2), (false, 3, [A; 8]), "the length is told all the same");
        assert!(!answer(UTF8, 8, |out| out.octets(KEY, b"abc")).0, "of another type");
        assert_eq!(
            answer(OCTETS, 8, |out| out.octets(name::SEED, b"x")),
            (true, UNMODIFIED, [A; 8])
        );

        let text = |size| answer(UTF8, size, |out| out.utf8(KEY, c"abc"));
        assert_eq!(text(3), (true, 3, [b'a', b'b', b'c', A, A, A, A, A]), "no room for the zero");
        assert_eq!(text(4), (true, 3, [b'a', b'b', b'c', 0, A, A, A, A]));
        assert_eq!(text(2), (false, 3, [A; 8]));
        assert!(!answer(OCTETS, 8, |out| out.utf8(KEY, c"abc")).0, "of another type");

        let mut asked = std::ptr::null();
        let mut list = [Param::asks_text(KEY, &mut asked), Param::END];
        // SAFETY: a list with an end, and room for a pointer.
        unsafe { ParamsOut::new(list.as_mut_ptr()) }.utf8(KEY, c"abc").unwrap();
        // SAFETY: the text that was just answered.
        assert_eq!((unsafe { CStr::from_ptr(asked) }, list[0].return_size), (c"abc", 3));

        // Without a buffer, only the length.
        let mut list = [Param::takes_octets(KEY), Param::END];
        // SAFETY: a list with an end.
        unsafe { ParamsOut::new(list.as_mut_ptr()) }.octets(KEY, b"abc").unwrap();
        assert_eq!(list[0].return_size, 3);
    }

    #[test]
    fn numbers_are_answered_in_the_width_that_is_asked_for() {
        const KEY: &CStr = name::INFO;
        let filled = |bytes: &[u8]| {
            let mut all = [A; 8];
            all[..bytes.len()].copy_from_slice(bytes);
            all
        };
        let int = |data_type, size| answer(data_type, size, |out| out.int(KEY, -2));
        assert_eq!(int(INTEGER, 4), (true, 4, filled(&(-2i32).to_ne_bytes())));
        assert_eq!(int(INTEGER, 8), (true, 8, (-2i64).to_ne_bytes()));
        assert_eq!(int(INTEGER, 2), (true, 2, filled(&(-2i16).to_ne_bytes())));
        assert_eq!(int(UNSIGNED, 4), (false, 4, [A; 8]), "a negative number");
        assert_eq!(int(REAL, 8), (true, 8, (-2f64).to_ne_bytes()));
        assert!(!int(OCTETS, 8).0 && !int(REAL, 4).0 && !int(INTEGER, 0).0, "of another type");
        let more = |size| answer(INTEGER, size, |out| out.int(KEY, 300));
        assert_eq!((more(1), more(2).0), ((false, 4, [A; 8]), true));

        let size = |data_type, room, value| answer(data_type, room, |out| out.size(KEY, value));
        for data_type in [INTEGER, UNSIGNED] {
            assert_eq!(size(data_type, 4, 7), (true, 4, filled(&7u32.to_ne_bytes())));
            assert_eq!(size(data_type, 8, 7), (true, 8, 7u64.to_ne_bytes()));
            assert_eq!(size(data_type, 2, 7), (true, 2, filled(&7u16.to_ne_bytes())));
            assert_eq!(size(data_type, 4, 1 << 32), (false, 8, [A; 8]), "does not fit");
        }
        assert_eq!(size(UNSIGNED, 4, 1 << 31).2, filled(&(1u32 << 31).to_ne_bytes()));
        assert!(!size(INTEGER, 4, 1 << 31).0, "would be negative");
        assert_eq!(size(UNSIGNED, 8, usize::MAX), (true, 8, [0xff; 8]));
        assert!(!size(INTEGER, 8, usize::MAX).0, "would be negative");
        assert_eq!(size(REAL, 8, 7), (true, 8, 7f64.to_ne_bytes()));
        assert!(!size(REAL, 8, usize::MAX).0, "is no whole number there");
        assert!(!size(OCTETS, 8, 7).0, "of another type");
    }
}
