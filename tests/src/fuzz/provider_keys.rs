//! The OpenSSL provider's decoders, called as OpenSSL's core calls them: by a core of our own that
//! has nothing but a BIO.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr::{null, null_mut};
use std::sync::OnceLock;

use gabion_cli::keys::der::{self, Forms};
use gabion_cli::keys::file_form;
use gabion_engine::Algorithm;
use gabion_provider::OSSL_provider_init;

use super::fixtures;

/// Algorithms of every form of file that take microseconds to use.
const CHOICES: [Algorithm; 7] = [
    Algorithm::MlKem512,
    Algorithm::MlDsa44,
    Algorithm::SlhDsaShake128f,
    Algorithm::Falcon512,
    Algorithm::MlDsa44Ed25519Sha512,
    Algorithm::MlDsa44EcdsaP256Sha256,
    Algorithm::Hss,
];

/// OpenSSL's name for HSS, which its decoder is named after.
const HSS: &str = "id-alg-hss-lms-hashsig";

/// A public and a private key in every form.
pub fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for algorithm in CHOICES {
        let known = fixtures::of(algorithm);
        let form = file_form(algorithm).expect("they have files");
        let seed = (!known.seed.is_empty()).then_some(&known.seed[..]);
        let (expanded, public) = (Some(&known.private[..]), Some(&known.public[..]));
        seeds.push(der::encode_public(form, &known.public, true).expect("it encodes"));
        if algorithm == Algorithm::Hss {
            let old = fixtures::old_hss(&known.public);
            seeds.extend(old.map(|old| der::encode_public(form, &old, true).expect("it encodes")));
            continue;
        }
        for (seed, expanded) in [(seed, None), (None, expanded), (seed, expanded)] {
            let file = der::encode_private(form, &Forms { seed, expanded, public }, true);
            seeds.push(file.expect("it encodes").to_vec());
        }
    }
    seeds
}

/// Every decoder either leaves the bytes alone, refuses them, or gives a key with the bytes that
/// stand there, at most one of them.
pub fn run(data: &[u8]) {
    let provider = provider();
    let mut keys = 0;
    for decoder in &provider.decoders {
        let found = provider.decode(decoder, data);
        keys += usize::from(found.is_some());
        let Some((public, private)) = found else { continue };
        let public = public.expect("a key has a public part");
        match decoder.is_public {
            true => {
                // Old structures of HSS lack the word in front.
                let part = if decoder.name == HSS { &public[4..] } else { &public[..] };
                assert!(holds(data, part) && private.is_none(), "{}", decoder.name);
            }
            false => assert!(private.is_some_and(|bytes| !bytes.is_empty()), "{}", decoder.name),
        }
    }
    assert!(keys <= 1, "one structure holds one key");
}

fn holds(data: &[u8], part: &[u8]) -> bool {
    data.windows(part.len()).any(|window| window == part)
}

#[repr(C)]
struct Dispatch {
    number: c_int,
    function: Option<unsafe extern "C" fn()>,
}

#[repr(C)]
struct Entry {
    names: *const c_char,
    properties: *const c_char,
    implementation: *const Dispatch,
    description: *const c_char,
}

#[repr(C)]
struct Param {
    key: *const c_char,
    data_type: u32,
    data: *mut c_void,
    data_size: usize,
    return_size: usize,
}

type Callback = unsafe extern "C" fn(*const Param, *mut c_void) -> c_int;
type CoreParams = unsafe extern "C" fn(*const c_void, *mut Param) -> c_int;
type ReadEx = unsafe extern "C" fn(*mut Bio, *mut c_void, usize, *mut usize) -> c_int;
type Query = unsafe extern "C" fn(*mut c_void, c_int, *mut c_int) -> *const Entry;
type New = unsafe extern "C" fn(*mut c_void) -> *mut c_void;
type Free = unsafe extern "C" fn(*mut c_void);
type Load = unsafe extern "C" fn(*const c_void, usize) -> *mut c_void;
type Export = unsafe extern "C" fn(*mut c_void, c_int, Option<Callback>, *mut c_void) -> c_int;
type Decode = unsafe extern "C" fn(
    *mut c_void,
    *mut Bio,
    c_int,
    Option<Callback>,
    *mut c_void,
    *mut c_void,
    *mut c_void,
) -> c_int;

/// Numbers of functions and operations (core_dispatch.h).
mod number {
    pub const CORE_GET_PARAMS: i32 = 2;
    pub const BIO_READ_EX: i32 = 42;
    pub const QUERY_OPERATION: i32 = 1027;
    pub const KEYMGMT: i32 = 10;
    pub const DECODER: i32 = 21;
    pub const LOAD: i32 = 8;
    pub const FREE: i32 = 10;
    pub const EXPORT: i32 = 42;
    pub const NEWCTX: i32 = 1;
    pub const FREECTX: i32 = 2;
    pub const DECODE: i32 = 11;
}

/// The source that the core reads from.
struct Bio<'a>(&'a [u8]);

unsafe extern "C" fn read_ex(
    bio: *mut Bio<'_>,
    out: *mut c_void,
    room: usize,
    got: *mut usize,
) -> c_int {
    // SAFETY: the provider passes the BIO that it was given, and room as long as it says.
    unsafe {
        let left = &mut (*bio).0;
        let len = room.min(left.len());
        out.cast::<u8>().copy_from_nonoverlapping(left.as_ptr(), len);
        *left = &left[len..];
        *got = len;
        c_int::from(len > 0)
    }
}

/// One decoder, and the key management of its algorithm.
struct Decoder {
    name: String,
    is_public: bool,
    new: New,
    free: Free,
    decode: Decode,
    load: Load,
    free_key: Free,
    export: Export,
}

struct Provider {
    context: *mut c_void,
    decoders: Vec<Decoder>,
}

// SAFETY: a provider is called from any thread.
unsafe impl Send for Provider {}
// SAFETY: as above.
unsafe impl Sync for Provider {}

/// The function of that number.
///
/// # Safety
/// `F` is the type of function that the number stands for in a table with an end.
unsafe fn function<F: Copy>(table: *const Dispatch, number: i32) -> Option<F> {
    assert_eq!(size_of::<F>(), size_of::<unsafe extern "C" fn()>());
    // SAFETY: as the caller vouches.
    unsafe {
        let mut at = table;
        while (*at).number != 0 {
            if (*at).number == number {
                return Some(std::mem::transmute_copy(&(*at).function?));
            }
            at = at.add(1);
        }
    }
    None
}

/// The entries of an operation: first name, properties, functions.
///
/// # Safety
/// `list` has an end and C strings.
unsafe fn entries(list: *const Entry) -> Vec<(String, String, *const Dispatch)> {
    let mut found = Vec::new();
    let mut at = list;
    // SAFETY: as the caller vouches.
    unsafe {
        while !at.is_null() && !(*at).names.is_null() {
            let text = |text| CStr::from_ptr(text).to_string_lossy().into_owned();
            let names = text((*at).names);
            let name = names.split(':').next().unwrap_or_default().to_owned();
            found.push((name, text((*at).properties), (*at).implementation));
            at = at.add(1);
        }
    }
    found
}

/// Tells the version of the core, the one parameter that is asked for at the start by its name.
unsafe extern "C" fn core_params(_: *const c_void, params: *mut Param) -> c_int {
    // SAFETY: a list with an end; a text is asked for by room for its address.
    unsafe {
        if CStr::from_ptr((*params).key) == c"openssl-version" {
            *(*params).data.cast::<*const c_char>() = c"3.5.0".as_ptr();
        }
    }
    1
}

/// The provider, loaded by a core that offers two functions.
fn provider() -> &'static Provider {
    static PROVIDER: OnceLock<Provider> = OnceLock::new();
    PROVIDER.get_or_init(|| {
        // SAFETY: functions have one size and form; the provider casts them back.
        let (read, params) = unsafe {
            use std::mem::transmute;
            (
                transmute::<ReadEx, unsafe extern "C" fn()>(read_ex),
                transmute::<CoreParams, unsafe extern "C" fn()>(core_params),
            )
        };
        let core = [
            Dispatch { number: number::CORE_GET_PARAMS, function: Some(params) },
            Dispatch { number: number::BIO_READ_EX, function: Some(read) },
            Dispatch { number: 0, function: None },
        ];
        let (mut table, mut context) = (null::<Dispatch>(), null_mut());
        // SAFETY: a table with an end, room for both answers; the numbers stand for these types.
        unsafe {
            let out = (&raw mut table).cast();
            assert_eq!(OSSL_provider_init(null(), core.as_ptr().cast(), out, &mut context), 1);
            let query: Query = function(table, number::QUERY_OPERATION).expect("it answers");
            let list = |operation| entries(query(context, operation, null_mut()));
            let managers = list(number::KEYMGMT);
            let wanted =
                |name: &str| name == HSS || CHOICES.iter().any(|choice| choice.name() == name);
            let decoders = list(number::DECODER);
            let decoders = decoders.into_iter().filter(|(name, ..)| wanted(name));
            let decoders = decoders.map(|(name, properties, table)| {
                let manager = managers.iter().find(|(other, ..)| *other == name);
                let keys = manager.expect("every decoder's keys are managed").2;
                Decoder {
                    is_public: properties.contains("structure=SubjectPublicKeyInfo"),
                    name,
                    new: function(table, number::NEWCTX).expect("new"),
                    free: function(table, number::FREECTX).expect("free"),
                    decode: function(table, number::DECODE).expect("decode"),
                    load: function(keys, number::LOAD).expect("load"),
                    free_key: function(keys, number::FREE).expect("free"),
                    export: function(keys, number::EXPORT).expect("export"),
                }
            });
            let decoders: Vec<Decoder> = decoders.collect();
            assert_eq!(decoders.len(), 2 * CHOICES.len(), "a decoder of each structure");
            Provider { context, decoders }
        }
    })
}

/// Finds a parameter's bytes.
///
/// # Safety
/// `params` has an end.
unsafe fn param<'a>(params: *const Param, name: &CStr) -> Option<&'a Param> {
    let mut at = params;
    // SAFETY: as the caller vouches.
    unsafe {
        while !(*at).key.is_null() {
            if CStr::from_ptr((*at).key) == name {
                return Some(&*at);
            }
            at = at.add(1);
        }
    }
    None
}

/// A decoded key that the core took over.
struct ImportedKey {
    load: Load,
    key: *mut c_void,
}

unsafe extern "C" fn take(params: *const Param, argument: *mut c_void) -> c_int {
    // SAFETY: the decoder passes a list with an end and the argument that it was given.
    unsafe {
        let taken = &mut *argument.cast::<ImportedKey>();
        let reference = param(params, c"reference").expect("a key comes as a reference");
        assert!(param(params, c"data-type").is_some());
        assert!(taken.key.is_null(), "one key");
        taken.key = (taken.load)(reference.data, reference.data_size);
        c_int::from(!taken.key.is_null())
    }
}

type Parts = (Option<Vec<u8>>, Option<Vec<u8>>);

unsafe extern "C" fn collect(params: *const Param, argument: *mut c_void) -> c_int {
    // SAFETY: the provider passes a list with an end and the argument that it was given.
    unsafe {
        let parts = &mut *argument.cast::<Parts>();
        let bytes = |name| {
            let param = param(params, name)?;
            Some(std::slice::from_raw_parts(param.data.cast::<u8>(), param.data_size).to_vec())
        };
        *parts = (bytes(c"pub"), bytes(c"priv"));
    }
    1
}

impl Provider {
    /// The public and the private key that a decoder finds.
    fn decode(&self, decoder: &Decoder, data: &[u8]) -> Option<Parts> {
        const KEYPAIR: c_int = 3;
        let mut bio = Bio(data);
        let mut taken = ImportedKey { load: decoder.load, key: null_mut() };
        // SAFETY: the functions are the provider's; every pointer is live for its call.
        unsafe {
            let context = (decoder.new)(self.context);
            assert!(!context.is_null());
            let argument = (&raw mut taken).cast();
            let none = null_mut();
            let bio = (&raw mut bio).cast();
            let answer = (decoder.decode)(context, bio, 0, Some(take), argument, none, none);
            (decoder.free)(context);
            if taken.key.is_null() {
                return None;
            }
            assert_eq!(answer, 1);
            let mut parts: Parts = (None, None);
            let argument = (&raw mut parts).cast();
            assert_eq!((decoder.export)(taken.key, KEYPAIR, Some(collect), argument), 1);
            (decoder.free_key)(taken.key);
            Some(parts)
        }
    }
}
