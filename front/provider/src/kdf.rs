//! The key schedule of TLS 1.3: the entry points behind EVP_KDF `TLS13-KDF`, which libssl calls for
//! every secret, key and nonce of a connection, some twenty times a side and handshake.
//!
//! Parameters and their checks are those of the default provider (EVP_KDF-TLS13_KDF(7)), which
//! looks up the hash and HMAC anew each time. Other programs may use it, too: their parameters stay
//! in the context until they are set again.

use std::ffi::{CStr, c_int, c_void};
use std::ptr::null_mut;

use gabion_engine::ct;
use gabion_engine::key_schedule::{Hash, Label, expand_label, extract};
use zeroize::Zeroizing;

use crate::border::{
    TakesParams, border, borrow, borrow_mut, change, counted, free, hand_over, set_ctx_params,
};
use crate::error::Failure;
use crate::ffi::{AlgorithmEntry, Dispatch, Param, ParamsIn, ParamsOut, entry, function, name};
use crate::provider::ProviderRef;
use crate::{stats, tls};

/// The entry of the core's list.
pub fn entry(properties: &'static CStr) -> AlgorithmEntry {
    AlgorithmEntry {
        names: c"TLS13-KDF".as_ptr(),
        properties: properties.as_ptr(),
        implementation: TABLE.as_ptr(),
        description: c"Gabion TLS 1.3 key schedule (RFC 8446)".as_ptr(),
    }
}

static TABLE: [Dispatch; 10] = [
    entry!(function::KDF_NEWCTX, newctx, New),
    entry!(function::KDF_DUPCTX, dupctx, New),
    entry!(function::KDF_FREECTX, free::<Context>, Free),
    entry!(function::KDF_RESET, reset, Free),
    entry!(function::KDF_DERIVE, derive, Derive),
    entry!(function::KDF_SET_CTX_PARAMS, set_ctx_params::<Context>, SetParams),
    entry!(function::KDF_SETTABLE_CTX_PARAMS, settable_ctx_params, List),
    entry!(function::KDF_GET_CTX_PARAMS, get_ctx_params, GetParams),
    entry!(function::KDF_GETTABLE_CTX_PARAMS, gettable_ctx_params, List),
    Dispatch::END,
];

type New = unsafe extern "C" fn(*mut c_void) -> *mut c_void;
type Free = unsafe extern "C" fn(*mut c_void);
type Derive = unsafe extern "C" fn(*mut c_void, *mut u8, usize, *const Param) -> c_int;
type SetParams = unsafe extern "C" fn(*mut c_void, *const Param) -> c_int;
type GetParams = unsafe extern "C" fn(*mut c_void, *mut Param) -> c_int;
type List = unsafe extern "C" fn(*mut c_void, *mut c_void) -> *const Param;

/// The mode of derivation (EVP_KDF_HKDF_MODE_*). TLS 1.3 does not support extract-and-expand, which
/// is mode 0 and the default of a new context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// The next secret of the chain.
    Extract = 1,
    /// Expands a secret with a label.
    Expand = 2,
}

impl Mode {
    fn of(param: &Param) -> Result<Option<Mode>, Failure> {
        let wrong = || Failure::wrong_type(name::MODE, "EXTRACT_ONLY (1) or EXPAND_ONLY (2)");
        if param.is_text() {
            let text = param.as_text(name::MODE)?;
            let is = |word: &[u8]| text.eq_ignore_ascii_case(word);
            return match text {
                _ if is(b"EXTRACT_ONLY") => Ok(Some(Mode::Extract)),
                _ if is(b"EXPAND_ONLY") => Ok(Some(Mode::Expand)),
                _ if is(b"EXTRACT_AND_EXPAND") => Ok(None),
                _ => Err(wrong()),
            };
        }
        match param.as_int(name::MODE)? {
            0 => Ok(None),
            1 => Ok(Some(Mode::Extract)),
            2 => Ok(Some(Mode::Expand)),
            _ => Err(wrong()),
        }
    }
}

/// From here on the default provider keeps a context's `data` until other data come, asks for a
/// mode at once, and answers more.
const LATER: (u32, u32) = (3, 6);

/// A derivation that was begun; used from one thread, as every EVP context.
struct Context {
    provider: ProviderRef,
    mode: Option<Mode>,
    hash: Option<Hash>,
    key: Bytes,
    salt: Bytes,
    prefix: Bytes,
    label: Bytes,
    data: Bytes,
}

impl TakesParams for Context {
    fn provider(&self) -> ProviderRef {
        self.provider
    }

    /// Takes what is set, in the default provider's order: what stands before an error is kept.
    fn set(&mut self, params: ParamsIn<'_>) -> Result<(), Failure> {
        if params.is_empty() && self.provider.core.version < LATER {
            // Later ones refuse a list with nothing, too, where no mode was set.
            return Ok(());
        }
        let [mode, digest, key, salt, prefix, label, data, properties] = params.pick([
            name::MODE,
            name::DIGEST,
            name::KEY,
            name::SALT,
            name::PREFIX,
            name::LABEL,
            name::DATA,
            name::PROPERTIES,
        ]);
        if let Some(digest) = digest {
            self.hash = None;
            self.hash = Some(hash_of(digest, properties)?);
        }
        if let Some(mode) = mode {
            self.mode = Mode::of(mode)?;
        }
        self.key.take(name::KEY, key)?;
        self.salt.take(name::SALT, salt)?;
        if self.mode.is_none() {
            return Err(Failure::wrong_type(name::MODE, "EXTRACT_ONLY (1) or EXPAND_ONLY (2)"));
        }
        self.prefix.take(name::PREFIX, prefix)?;
        self.label.take(name::LABEL, label)?;
        if self.provider.core.version < LATER {
            // That of 3.5 forgets them when any other parameter is set.
            self.data = Bytes::None;
        }
        self.data.take(name::DATA, data)
    }
}

impl Context {
    fn new(provider: ProviderRef) -> Self {
        Context {
            provider,
            mode: None,
            hash: None,
            key: Bytes::None,
            salt: Bytes::None,
            prefix: Bytes::None,
            label: Bytes::None,
            data: Bytes::None,
        }
    }

    fn derive(&self, out: &mut [u8]) -> Result<(), Failure> {
        let hash = self.hash.ok_or(Failure::Misuse("the key schedule needs a `digest`"))?;
        let label = Label {
            prefix: self.prefix.get().unwrap_or_default(),
            label: self.label.get().unwrap_or_default(),
        };
        match self.mode {
            None => Err(Failure::Misuse("the key schedule needs a `mode`")),
            Some(Mode::Extract) => Ok(extract(hash, self.salt.get(), label, self.key.get(), out)?),
            Some(Mode::Expand) => {
                let key = self.key.get();
                let key = key.ok_or(Failure::Misuse("EXPAND_ONLY needs a `key`"))?;
                expand_label(hash, key, label, self.data.get().unwrap_or_default(), out)?;
                tls::count_derivation(label.prefix, label.label);
                Ok(())
            }
        }
    }

    /// Says what was set, as 3.6 and newer do: not 3.5.
    fn answer(&self, params: &mut ParamsOut<'_>) -> Result<(), Failure> {
        if params.asks_for(name::DIGEST) {
            let unset = Failure::Misuse("the `digest` is not set");
            params.utf8(name::DIGEST, name_of(self.hash.ok_or(unset)?))?;
        }
        let (number, text) = match self.mode {
            None => (0, c"EXTRACT_AND_EXPAND"),
            Some(mode @ Mode::Extract) => (mode as i32, c"EXTRACT_ONLY"),
            Some(mode @ Mode::Expand) => (mode as i32, c"EXPAND_ONLY"),
        };
        if params.asks_for_text(name::MODE) {
            params.utf8(name::MODE, text)?;
        } else {
            params.int(name::MODE, number)?;
        }
        match self.salt.get().unwrap_or_default() {
            [] => params.nothing(name::SALT),
            salt => params.octets(name::SALT, salt)?,
        }
        Ok(())
    }

    fn parts(&mut self) -> [&mut Bytes; 5] {
        [&mut self.key, &mut self.salt, &mut self.prefix, &mut self.label, &mut self.data]
    }

    /// Returns how many bytes a derivation gives; where any number may be asked for, the largest.
    fn size(&self) -> Result<usize, Failure> {
        match (self.mode, self.hash) {
            (Some(Mode::Extract), Some(hash)) => Ok(hash.len()),
            (Some(Mode::Extract), None) => {
                Err(Failure::Misuse("the size is not known before the `digest`"))
            }
            _ => Ok(usize::MAX),
        }
    }
}

/// Bytes that a caller set, wiped when dropped. The values that TLS sets fit in place, except for
/// the shared secrets of some hybrids.
enum Bytes {
    None,
    Inline([u8; Bytes::INLINE_MAX], usize),
    Heap(Zeroizing<Vec<u8>>),
}

impl Bytes {
    const INLINE_MAX: usize = 64;

    /// Takes what a parameter holds; an error leaves nothing.
    fn take(&mut self, key: &'static CStr, param: Option<&Param>) -> Result<(), Failure> {
        let Some(param) = param else { return Ok(()) };
        *self = Bytes::None;
        self.fill(param.as_octets(key)?);
        Ok(())
    }

    /// Holds a copy of the bytes.
    fn fill(&mut self, bytes: &[u8]) {
        *self = match bytes.len() {
            // Filled where it stays, so that no copy is left elsewhere.
            len @ 0..=Bytes::INLINE_MAX => Bytes::Inline([0; Bytes::INLINE_MAX], len),
            _ => Bytes::Heap(Zeroizing::new(bytes.to_vec())),
        };
        if let Bytes::Inline(few, len) = self {
            few[..*len].copy_from_slice(bytes);
        }
    }

    fn get(&self) -> Option<&[u8]> {
        match self {
            Bytes::None => None,
            Bytes::Inline(few, len) => few.get(..*len),
            Bytes::Heap(many) => Some(many),
        }
    }
}

impl Drop for Bytes {
    fn drop(&mut self) {
        if let Bytes::Inline(few, len) = self {
            ct::wipe(&mut few[..*len]);
        }
    }
}

/// The hash that a digest's name and a property query ask for.
fn hash_of(digest: &Param, properties: Option<&Param>) -> Result<Hash, Failure> {
    let query = properties.map(|query| query.as_text(name::PROPERTIES)).transpose()?;
    if !is_ours(query.unwrap_or_default()) {
        let expected = "a query that provider=gabion answers, whose hashes these are";
        return Err(Failure::wrong_type(name::PROPERTIES, expected));
    }
    let text = std::str::from_utf8(digest.as_text(name::DIGEST)?).unwrap_or_default();
    Hash::named(text).ok_or(Failure::wrong_type(
        name::DIGEST,
        "SHA2-224, SHA2-256, SHA2-384, SHA2-512, SHA2-512/224, SHA2-512/256 or SM3",
    ))
}

/// The name that OpenSSL gives a hash.
fn name_of(hash: Hash) -> &'static CStr {
    match hash {
        Hash::Sha2_224 => c"SHA2-224",
        Hash::Sha2_256 => c"SHA2-256",
        Hash::Sha2_384 => c"SHA2-384",
        Hash::Sha2_512 => c"SHA2-512",
        Hash::Sha2_512_224 => c"SHA2-512/224",
        Hash::Sha2_512_256 => c"SHA2-512/256",
        Hash::Sm3 => c"SM3",
    }
}

/// Returns whether an implementation whose only property is `provider=gabion` satisfies a property
/// query (property(7)). A malformed query is never satisfied.
fn is_ours(query: &[u8]) -> bool {
    let Ok(query) = std::str::from_utf8(query) else { return false };
    let query = query.trim().to_ascii_lowercase();
    query.is_empty() || query.split(',').all(|clause| is_met(clause.trim()))
}

/// Returns whether a clause of a query is met; one with a question mark need not be.
fn is_met(clause: &str) -> bool {
    if clause.starts_with(['?', '-']) {
        return true;
    }
    let (name, value, wanted) = match (clause.split_once("!="), clause.split_once('=')) {
        (Some((name, value)), _) => (name, value, false),
        (None, Some((name, value))) => (name, value, true),
        (None, None) => (clause, "yes", true),
    };
    let value = value.trim().trim_matches(['"', '\'']);
    // A missing property counts as `no`.
    let has = if name.trim() == "provider" { "gabion" } else { "no" };
    (value == has) == wanted
}

unsafe extern "C" fn newctx(context: *mut c_void) -> *mut c_void {
    // SAFETY: the core passes the context that this provider gave it.
    let provider = unsafe { ProviderRef::new(context) };
    border(Some(&provider), null_mut(), || Ok(hand_over(Context::new(provider))))
}

/// Copies a context, on the heap from the beginning: a copy that is moved there leaves one on the
/// stack.
unsafe extern "C" fn dupctx(context: *mut c_void) -> *mut c_void {
    border(None, null_mut(), || {
        // SAFETY: the core passes a context of newctx, which nothing changes meanwhile.
        let context = unsafe { borrow::<Context>(context) }?;
        let mut copy = Box::new(Context::new(context.provider));
        (copy.mode, copy.hash) = (context.mode, context.hash);
        for (to, from) in copy.parts().into_iter().zip([
            &context.key,
            &context.salt,
            &context.prefix,
            &context.label,
            &context.data,
        ]) {
            from.get().into_iter().for_each(|bytes| to.fill(bytes));
        }
        Ok(Box::into_raw(copy).cast())
    })
}

unsafe extern "C" fn reset(context: *mut c_void) {
    let renew = |context: &mut Context| {
        *context = Context::new(context.provider);
        Ok(1)
    };
    // SAFETY: the core passes a context of newctx, and uses it from one thread.
    unsafe { change(context, renew) };
}

unsafe extern "C" fn derive(
    context: *mut c_void,
    out: *mut u8,
    len: usize,
    params: *const Param,
) -> c_int {
    // SAFETY: the core passes a context of newctx, and uses it from one thread.
    let Ok(context) = (unsafe { borrow_mut::<Context>(context) }) else {
        return 0;
    };
    let provider = context.provider;
    counted(&provider, stats::key_schedule(), 0, |_| {
        // SAFETY: the core passes a list with an end, or null.
        context.set(unsafe { ParamsIn::new(params) })?;
        if out.is_null() {
            return Err(Failure::Misuse("there is no buffer for the derived key"));
        }
        if isize::try_from(len).is_err() {
            return Err(Failure::Misuse("the requested length exceeds any buffer"));
        }
        // SAFETY: the caller vouches for `len` bytes of room, which no other code uses meanwhile.
        context.derive(unsafe { std::slice::from_raw_parts_mut(out, len) })?;
        Ok(1)
    })
}

unsafe extern "C" fn settable_ctx_params(_: *mut c_void, _: *mut c_void) -> *const Param {
    static SETTABLE: [Param; 10] = [
        Param::takes_utf8(name::MODE),
        Param::takes_int(name::MODE),
        Param::takes_utf8(name::PROPERTIES),
        Param::takes_utf8(name::DIGEST),
        Param::takes_octets(name::KEY),
        Param::takes_octets(name::SALT),
        Param::takes_octets(name::PREFIX),
        Param::takes_octets(name::LABEL),
        Param::takes_octets(name::DATA),
        Param::END,
    ];
    SETTABLE.as_ptr()
}

unsafe extern "C" fn get_ctx_params(context: *mut c_void, params: *mut Param) -> c_int {
    // SAFETY: the core passes a context of newctx.
    let Ok(context) = (unsafe { borrow::<Context>(context) }) else {
        return 0;
    };
    border(Some(&context.provider), 0, || {
        // SAFETY: the core passes a list with an end that is ours for the call, or null.
        let mut params = unsafe { ParamsOut::new(params) };
        if params.asks_for(name::SIZE) {
            params.size(name::SIZE, context.size()?)?;
        }
        if context.provider.core.version >= LATER {
            context.answer(&mut params)?;
        }
        // TLS has no such value; the default provider answers with an empty one.
        params.nothing(name::INFO);
        Ok(1)
    })
}

unsafe extern "C" fn gettable_ctx_params(_: *mut c_void, provider: *mut c_void) -> *const Param {
    static OF_3_5: [Param; 3] =
        [Param::gives_size(name::SIZE), Param::takes_octets(name::INFO), Param::END];
    static GETTABLE: [Param; 7] = [
        Param::gives_size(name::SIZE),
        Param::takes_utf8(name::DIGEST),
        Param::takes_utf8(name::MODE),
        Param::takes_int(name::MODE),
        Param::takes_octets(name::SALT),
        Param::takes_octets(name::INFO),
        Param::END,
    ];
    // SAFETY: the core passes the context that this provider gave it.
    let provider = unsafe { ProviderRef::new(provider) };
    if provider.core.version >= LATER { GETTABLE.as_ptr() } else { OF_3_5.as_ptr() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_answered_as_by_a_module_with_one_property() {
        for query in [
            "",
            "?fips=yes",
            "provider=gabion",
            "provider='gabion' , ?fips",
            "fips=no",
            "fips!=yes",
            "-fips",
            "provider!=default,fips=no",
        ] {
            assert!(is_ours(query.as_bytes()), "{query}");
        }
        for query in [
            "fips",
            "fips=yes",
            "provider=default",
            "provider!=gabion",
            "fips!=no",
            "?fips,fips=yes",
            ",",
        ] {
            assert!(!is_ours(query.as_bytes()), "{query}");
        }
        assert!(!is_ours(b"\xff"));
    }

    #[test]
    fn hashes_are_named_by_their_main_names() {
        for hash in Hash::ALL {
            assert_eq!(name_of(hash).to_str(), Ok(hash.names()[0]));
        }
    }

    #[test]
    fn bytes_are_kept_whole() {
        for len in [0, 1, Bytes::INLINE_MAX, Bytes::INLINE_MAX + 1, 300] {
            let value: Vec<u8> = (0..len).map(|at| (at % 251) as u8 + 1).collect();
            let param = Param::octets(name::KEY, &value);
            let mut bytes = Bytes::None;
            bytes.take(name::KEY, Some(&param)).unwrap();
            assert_eq!(bytes.get(), Some(&value[..]));
            bytes.take(name::KEY, None).unwrap();
            let mut copy = Bytes::None;
            bytes.get().into_iter().for_each(|bytes| copy.fill(bytes));
            assert_eq!(copy.get(), Some(&value[..]));
            // A null pointer is an error, and leaves nothing behind.
            let absent = Param::takes_octets(name::KEY);
            assert!(bytes.take(name::KEY, Some(&absent)).is_err());
            assert_eq!(bytes.get(), None);
        }
    }
}
