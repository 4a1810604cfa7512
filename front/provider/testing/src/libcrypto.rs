//! The functions of libcrypto that the tests call, loaded at run time.

use std::ffi::{CStr, CString, c_char, c_int, c_long, c_ulong, c_void};
use std::path::Path;
use std::ptr::{null, null_mut};

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};

type Ptr = *mut c_void;
type AllocateStack = unsafe extern "C" fn(*mut usize) -> Ptr;
type FreeStack = unsafe extern "C" fn(Ptr);
type JobFunction = unsafe extern "C" fn(Ptr) -> c_int;

/// OSSL_PARAM.
#[repr(C)]
pub struct Param {
    key: *const c_char,
    data_type: u32,
    data: *const c_void,
    data_size: usize,
    return_size: usize,
}

/// The type of a text.
const UTF8: u32 = 4;
/// Stands for a byte string without an address.
const NULL: u32 = u32::MAX;

/// A list of parameters and the data that it points to.
#[derive(Clone, Debug, Default)]
pub struct Params {
    entries: Vec<(CString, u32, Vec<u8>)>,
}

impl Params {
    pub fn octets(mut self, key: &str, value: &[u8]) -> Self {
        self.entries.push((CString::new(key).unwrap(), 5, value.to_vec()));
        self
    }

    pub fn int(mut self, key: &str, value: c_int) -> Self {
        self.entries.push((CString::new(key).unwrap(), 1, value.to_ne_bytes().to_vec()));
        self
    }

    pub fn text(mut self, key: &str, value: &str) -> Self {
        // The zero is there, and not counted.
        let value = [value.as_bytes(), b"\0"].concat();
        self.entries.push((CString::new(key).unwrap(), UTF8, value));
        self
    }

    /// A byte string that is a null pointer.
    pub fn null(self, key: &str) -> Self {
        self.absent(key, 0)
    }

    /// A byte string that is a null pointer, with a length all the same.
    pub fn absent(self, key: &str, len: usize) -> Self {
        self.value(key, NULL, &vec![0; len])
    }

    /// A value of any type.
    pub fn value(mut self, key: &str, data_type: u32, bytes: &[u8]) -> Self {
        self.entries.push((CString::new(key).unwrap(), data_type, bytes.to_vec()));
        self
    }

    /// The list as C takes it; it points into `self`.
    pub fn list(&self) -> Vec<Param> {
        let entry = |(key, data_type, data): &(CString, u32, Vec<u8>)| Param {
            key: key.as_ptr(),
            data_type: if *data_type == NULL { 5 } else { *data_type },
            data: if *data_type == NULL { null() } else { data.as_ptr().cast() },
            data_size: data.len() - usize::from(*data_type == UTF8),
            return_size: usize::MAX,
        };
        let end = Param { key: null(), data_type: 0, data: null(), data_size: 0, return_size: 0 };
        self.entries.iter().map(entry).chain([end]).collect()
    }
}

/// The names in a list of parameters, sorted.
///
/// # Safety
/// The list is null or has an end.
pub unsafe fn names(list: *const Param) -> Vec<String> {
    // SAFETY: as the caller vouches.
    unsafe { entries(list) }.into_iter().map(|(name, _)| name).collect()
}

macro_rules! functions {
    ($($name:ident($($type:ty),*) -> $result:ty;)*) => {
        /// libcrypto's functions, by their names.
        #[allow(non_snake_case)]
        pub struct Libcrypto {
            $(pub $name: unsafe extern "C" fn($($type),*) -> $result,)*
        }

        impl Libcrypto {
            /// Loads the libcrypto of an installed OpenSSL; it stays for the life of the process.
            pub fn load(prefix: &Path) -> Libcrypto {
                let lib = prefix.join("lib/libcrypto.so");
                // SAFETY: libcrypto may be loaded at any time, and is never unloaded here.
                let library = unsafe { Library::open(Some(&lib), RTLD_NOW | RTLD_LOCAL) };
                let library = Box::leak(Box::new(library.expect("libcrypto loads")));
                Libcrypto {
                    // SAFETY: the types are those of the manual pages.
                    $($name: unsafe {
                        *library.get(stringify!($name).as_bytes()).expect(stringify!($name))
                    },)*
                }
            }
        }
    };
}

functions! {
    OPENSSL_version_major() -> u32;
    ASYNC_set_mem_functions(AllocateStack, FreeStack) -> c_int;
    ASYNC_start_job(*mut Ptr, Ptr, *mut c_int, JobFunction, *mut c_void, usize) -> c_int;
    ASYNC_WAIT_CTX_new() -> Ptr;
    ASYNC_WAIT_CTX_free(Ptr) -> ();
    OPENSSL_cleanup() -> ();
    OSSL_LIB_CTX_new() -> Ptr;
    OSSL_LIB_CTX_free(Ptr) -> ();
    OSSL_LIB_CTX_load_config(Ptr, *const c_char) -> c_int;
    OSSL_PROVIDER_set_default_search_path(Ptr, *const c_char) -> c_int;
    OSSL_PROVIDER_load(Ptr, *const c_char) -> Ptr;
    OSSL_PROVIDER_load_ex(Ptr, *const c_char, *mut Param) -> Ptr;
    OSSL_PROVIDER_unload(Ptr) -> c_int;
    OSSL_PROVIDER_self_test(Ptr) -> c_int;
    OSSL_PROVIDER_get0_name(Ptr) -> *const c_char;
    EVP_PKEY_CTX_new_from_name(Ptr, *const c_char, *const c_char) -> Ptr;
    EVP_PKEY_CTX_new_from_pkey(Ptr, Ptr, *const c_char) -> Ptr;
    EVP_PKEY_CTX_free(Ptr) -> ();
    EVP_PKEY_CTX_dup(Ptr) -> Ptr;
    EVP_PKEY_CTX_set_params(Ptr, *const Param) -> c_int;
    EVP_PKEY_CTX_settable_params(Ptr) -> *const Param;
    EVP_PKEY_CTX_gettable_params(Ptr) -> *const Param;
    EVP_PKEY_CTX_get_params(Ptr, *mut Param) -> c_int;
    EVP_PKEY_CTX_get0_provider(Ptr) -> Ptr;
    EVP_PKEY_new_raw_private_key_ex(Ptr, *const c_char, *const c_char, *const u8, usize) -> Ptr;
    EVP_PKEY_keygen_init(Ptr) -> c_int;
    EVP_PKEY_paramgen_init(Ptr) -> c_int;
    EVP_PKEY_generate(Ptr, *mut Ptr) -> c_int;
    EVP_PKEY_fromdata_init(Ptr) -> c_int;
    EVP_PKEY_fromdata(Ptr, *mut Ptr, c_int, *const Param) -> c_int;
    EVP_PKEY_todata(Ptr, c_int, *mut *mut Param) -> c_int;
    EVP_PKEY_fromdata_settable(Ptr, c_int) -> *const Param;
    EVP_PKEY_new() -> Ptr;
    EVP_PKEY_copy_parameters(Ptr, Ptr) -> c_int;
    EVP_PKEY_print_public(Ptr, Ptr, c_int, Ptr) -> c_int;
    EVP_PKEY_print_private(Ptr, Ptr, c_int, Ptr) -> c_int;
    EVP_PKEY_print_params(Ptr, Ptr, c_int, Ptr) -> c_int;
    BIO_s_mem() -> Ptr;
    BIO_new(Ptr) -> Ptr;
    BIO_free(Ptr) -> c_int;
    BIO_read(Ptr, *mut c_void, c_int) -> c_int;
    OSSL_PARAM_free(*mut Param) -> ();
    EVP_PKEY_free(Ptr) -> ();
    CRYPTO_free(Ptr, *const c_char, c_int) -> ();
    d2i_PUBKEY_ex(*mut Ptr, *mut *const u8, c_long, Ptr, *const c_char) -> Ptr;
    d2i_AutoPrivateKey_ex(*mut Ptr, *mut *const u8, c_long, Ptr, *const c_char) -> Ptr;
    i2d_PUBKEY(Ptr, *mut *mut u8) -> c_int;
    i2d_PrivateKey(Ptr, *mut *mut u8) -> c_int;
    EVP_PKEY_dup(Ptr) -> Ptr;
    EVP_PKEY_eq(Ptr, Ptr) -> c_int;
    EVP_PKEY_get0_provider(Ptr) -> Ptr;
    EVP_PKEY_get_size(Ptr) -> c_int;
    EVP_PKEY_get_bits(Ptr) -> c_int;
    EVP_PKEY_get_default_digest_name(Ptr, *mut c_char, usize) -> c_int;
    EVP_PKEY_get_security_bits(Ptr) -> c_int;
    EVP_PKEY_gettable_params(Ptr) -> *const Param;
    EVP_PKEY_get_int_param(Ptr, *const c_char, *mut c_int) -> c_int;
    EVP_PKEY_get_octet_string_param(Ptr, *const c_char, *mut u8, usize, *mut usize) -> c_int;
    EVP_PKEY_set1_encoded_public_key(Ptr, *const u8, usize) -> c_int;
    EVP_PKEY_pairwise_check(Ptr) -> c_int;
    EVP_PKEY_encapsulate_init(Ptr, *const Param) -> c_int;
    EVP_PKEY_encapsulate(Ptr, *mut u8, *mut usize, *mut u8, *mut usize) -> c_int;
    EVP_PKEY_decapsulate_init(Ptr, *const Param) -> c_int;
    EVP_PKEY_decapsulate(Ptr, *mut u8, *mut usize, *const u8, usize) -> c_int;
    EVP_PKEY_derive_init(Ptr) -> c_int;
    EVP_PKEY_derive_set_peer(Ptr, Ptr) -> c_int;
    EVP_PKEY_derive_set_peer_ex(Ptr, Ptr, c_int) -> c_int;
    EVP_PKEY_derive(Ptr, *mut u8, *mut usize) -> c_int;
    EVP_PKEY_settable_params(Ptr) -> *const Param;
    EVP_PKEY_public_check(Ptr) -> c_int;
    EVP_PKEY_private_check(Ptr) -> c_int;
    EVP_PKEY_check(Ptr) -> c_int;
    EVP_SIGNATURE_fetch(Ptr, *const c_char, *const c_char) -> Ptr;
    EVP_SIGNATURE_free(Ptr) -> ();
    EVP_PKEY_sign_message_init(Ptr, Ptr, *const Param) -> c_int;
    EVP_PKEY_sign_message_update(Ptr, *const u8, usize) -> c_int;
    EVP_PKEY_sign_message_final(Ptr, *mut u8, *mut usize) -> c_int;
    EVP_PKEY_sign(Ptr, *mut u8, *mut usize, *const u8, usize) -> c_int;
    EVP_PKEY_verify_message_init(Ptr, Ptr, *const Param) -> c_int;
    EVP_PKEY_verify_message_update(Ptr, *const u8, usize) -> c_int;
    EVP_PKEY_verify_message_final(Ptr) -> c_int;
    EVP_PKEY_CTX_set_signature(Ptr, *const u8, usize) -> c_int;
    EVP_PKEY_verify(Ptr, *const u8, usize, *const u8, usize) -> c_int;
    EVP_MD_CTX_new() -> Ptr;
    EVP_MD_CTX_free(Ptr) -> ();
    EVP_DigestSignInit_ex(Ptr, *mut Ptr, *const c_char, Ptr, *const c_char, Ptr, *const Param) -> c_int;
    EVP_DigestVerifyInit_ex(Ptr, *mut Ptr, *const c_char, Ptr, *const c_char, Ptr, *const Param) -> c_int;
    EVP_KDF_fetch(Ptr, *const c_char, *const c_char) -> Ptr;
    EVP_KDF_free(Ptr) -> ();
    EVP_KDF_get0_provider(Ptr) -> Ptr;
    EVP_KDF_CTX_new(Ptr) -> Ptr;
    EVP_KDF_CTX_free(Ptr) -> ();
    EVP_KDF_CTX_dup(Ptr) -> Ptr;
    EVP_KDF_CTX_reset(Ptr) -> ();
    EVP_KDF_CTX_set_params(Ptr, *const Param) -> c_int;
    EVP_KDF_CTX_get_params(Ptr, *mut Param) -> c_int;
    EVP_KDF_CTX_gettable_params(Ptr) -> *const Param;
    EVP_KDF_CTX_settable_params(Ptr) -> *const Param;
    EVP_KDF_CTX_get_kdf_size(Ptr) -> usize;
    EVP_KDF_derive(Ptr, *mut u8, usize, *const Param) -> c_int;
    OSSL_STORE_open_ex(*const c_char, Ptr, *const c_char, Ptr, Ptr, *const Param, Ptr, Ptr) -> Ptr;
    OSSL_STORE_load(Ptr) -> Ptr;
    OSSL_STORE_eof(Ptr) -> c_int;
    OSSL_STORE_close(Ptr) -> c_int;
    OSSL_STORE_INFO_get1_PKEY(Ptr) -> Ptr;
    OSSL_STORE_INFO_free(Ptr) -> ();
    ERR_clear_error() -> ();
    ERR_get_error() -> c_ulong;
    ERR_peek_error() -> c_ulong;
    ERR_peek_last_error_all(*mut *const c_char, *mut c_int, *mut *const c_char, *mut *const c_char, *mut c_int) -> c_ulong;
    ERR_reason_error_string(c_ulong) -> *const c_char;
}

/// A separate library context.
pub struct Context {
    pub lib: &'static Libcrypto,
    pub raw: Ptr,
}

// SAFETY: a library context may be used by many threads.
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

/// A key. Threads share the pointer on purpose, since the tests check that.
pub struct Key<'a> {
    pub context: &'a Context,
    pub raw: Ptr,
}

// SAFETY: EVP_PKEY may be used by many threads.
unsafe impl Send for Key<'_> {}
// SAFETY: as above.
unsafe impl Sync for Key<'_> {}

/// The elements of a list, without its end.
///
/// # Safety
/// The list is null or has an end, and outlives the iterator.
unsafe fn elements<'a>(list: *const Param) -> impl Iterator<Item = &'a Param> {
    // SAFETY: as the caller vouches, nothing behind the end is looked at.
    (0..).map_while(move |index| unsafe {
        list.as_ref().map(|_| &*list.add(index)).filter(|param| !param.key.is_null())
    })
}

/// The names and types of a list, sorted.
///
/// # Safety
/// The list is null or has an end.
unsafe fn entries(list: *const Param) -> Vec<(String, u32)> {
    // SAFETY: as the caller vouches; keys are C strings.
    let mut entries: Vec<_> = unsafe {
        elements(list)
            .map(|param| (CStr::from_ptr(param.key).to_str().unwrap().to_owned(), param.data_type))
            .collect()
    };
    entries.sort();
    entries
}

fn c(text: &str) -> CString {
    CString::new(text).unwrap()
}

impl Context {
    /// A context with a configuration file.
    pub fn with_config(lib: &'static Libcrypto, config: &Path) -> Self {
        let context = Context::bare(lib);
        let config = c(config.to_str().unwrap());
        // SAFETY: a fresh context and a C string.
        let done = unsafe { (lib.OSSL_LIB_CTX_load_config)(context.raw, config.as_ptr()) };
        assert_eq!(done, 1, "{}", lib.last_error());
        context
    }

    /// A context without configuration.
    pub fn bare(lib: &'static Libcrypto) -> Self {
        // SAFETY: no argument.
        let raw = unsafe { (lib.OSSL_LIB_CTX_new)() };
        assert!(!raw.is_null());
        Context { lib, raw }
    }

    fn pkey_ctx(&self, algorithm: &str, query: &str) -> Ptr {
        let (algorithm, query) = (c(algorithm), c(query));
        // SAFETY: C strings and a live context.
        unsafe {
            (self.lib.EVP_PKEY_CTX_new_from_name)(self.raw, algorithm.as_ptr(), query.as_ptr())
        }
    }

    /// Generates a key with the provider that the query asks for.
    pub fn generate(&self, algorithm: &str, query: &str, params: &Params) -> Option<Key<'_>> {
        let (ctx, list) = (self.pkey_ctx(algorithm, query), params.list());
        let mut raw = null_mut();
        // SAFETY: a fresh context of ours, a list with an end.
        unsafe {
            let made = !ctx.is_null()
                && (self.lib.EVP_PKEY_keygen_init)(ctx) == 1
                && (self.lib.EVP_PKEY_CTX_set_params)(ctx, list.as_ptr()) == 1
                && (self.lib.EVP_PKEY_generate)(ctx, &mut raw) == 1;
            (self.lib.EVP_PKEY_CTX_free)(ctx);
            made.then_some(Key { context: self, raw })
        }
    }

    /// Returns the names and types of the settable parameters of key generation, sorted.
    pub fn settable_for_generation(&self, algorithm: &str, query: &str) -> Vec<(String, u32)> {
        let ctx = self.pkey_ctx(algorithm, query);
        // SAFETY: a fresh context of ours; the list of a module that stays.
        unsafe {
            assert_eq!((self.lib.EVP_PKEY_keygen_init)(ctx), 1);
            let list = entries((self.lib.EVP_PKEY_CTX_settable_params)(ctx));
            (self.lib.EVP_PKEY_CTX_free)(ctx);
            list
        }
    }

    /// Returns the names and types of the parameters that a key can be imported from for a
    /// selection, sorted.
    pub fn settable_for_import(
        &self,
        algorithm: &str,
        query: &str,
        selection: c_int,
    ) -> Vec<(String, u32)> {
        let ctx = self.pkey_ctx(algorithm, query);
        // SAFETY: a fresh context of ours; the list of a module that stays.
        unsafe {
            let list = entries((self.lib.EVP_PKEY_fromdata_settable)(ctx, selection));
            (self.lib.EVP_PKEY_CTX_free)(ctx);
            list
        }
    }

    /// An empty key, as TLS makes for its peer's key share.
    pub fn empty(&self, algorithm: &str, query: &str) -> Key<'_> {
        let ctx = self.pkey_ctx(algorithm, query);
        let mut raw = null_mut();
        // SAFETY: a fresh context of ours.
        unsafe {
            assert_eq!((self.lib.EVP_PKEY_paramgen_init)(ctx), 1);
            assert_eq!((self.lib.EVP_PKEY_generate)(ctx, &mut raw), 1);
            (self.lib.EVP_PKEY_CTX_free)(ctx);
        }
        Key { context: self, raw }
    }

    /// Imports a key from its parts with the provider that the query selects.
    pub fn import(&self, algorithm: &str, query: &str, params: &Params) -> Option<Key<'_>> {
        const KEYPAIR: c_int = 0x87;
        let (ctx, list) = (self.pkey_ctx(algorithm, query), params.list());
        let mut raw = null_mut();
        // SAFETY: a fresh context of ours, a list with an end.
        unsafe {
            let made = !ctx.is_null()
                && (self.lib.EVP_PKEY_fromdata_init)(ctx) == 1
                && (self.lib.EVP_PKEY_fromdata)(ctx, &mut raw, KEYPAIR, list.as_ptr()) == 1;
            (self.lib.EVP_PKEY_CTX_free)(ctx);
            made.then_some(Key { context: self, raw })
        }
    }
}

impl Context {
    /// Makes a private key from its raw bytes with the provider that the query selects.
    pub fn raw_private(&self, algorithm: &str, query: &str, bytes: &[u8]) -> Option<Key<'_>> {
        let [name, query] = [algorithm, query].map(|text| CString::new(text).unwrap());
        // SAFETY: a live context, C strings, and as many bytes as said.
        let raw = unsafe {
            (self.lib.EVP_PKEY_new_raw_private_key_ex)(
                self.raw,
                name.as_ptr(),
                query.as_ptr(),
                bytes.as_ptr(),
                bytes.len(),
            )
        };
        (!raw.is_null()).then_some(Key { context: self, raw })
    }
}

/// The structure that a key is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyStructure {
    /// SubjectPublicKeyInfo.
    Public,
    /// PKCS#8.
    Private,
}

impl Context {
    /// Reads a key from DER, which must be all of the bytes.
    pub fn read(&self, what: KeyStructure, der: &[u8]) -> Option<Key<'_>> {
        let mut at = der.as_ptr();
        let len = der.len() as c_long;
        // SAFETY: a live context, as many bytes as said.
        let raw = unsafe {
            match what {
                KeyStructure::Public => {
                    (self.lib.d2i_PUBKEY_ex)(null_mut(), &mut at, len, self.raw, null())
                }
                KeyStructure::Private => {
                    (self.lib.d2i_AutoPrivateKey_ex)(null_mut(), &mut at, len, self.raw, null())
                }
            }
        };
        let key = (!raw.is_null()).then_some(Key { context: self, raw })?;
        (at == der.as_ptr_range().end).then_some(key)
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: made by `bare`, and everything made with it borrows it.
        unsafe { (self.lib.OSSL_LIB_CTX_free)(self.raw) }
    }
}

impl Libcrypto {
    /// Returns how many errors this thread's queue holds; it is empty afterwards.
    pub fn take_errors(&self) -> usize {
        // SAFETY: no argument.
        std::iter::repeat_with(|| unsafe { (self.ERR_get_error)() })
            .take_while(|&code| code != 0)
            .count()
    }

    /// The last error of this thread: its reason and its data.
    pub fn last_error(&self) -> String {
        let (mut data, mut flags) = (null(), 0);
        // SAFETY: null where the answer is not wanted; the strings live until the next error.
        unsafe {
            let code = (self.ERR_peek_last_error_all)(
                null_mut(),
                null_mut(),
                null_mut(),
                &mut data,
                &mut flags,
            );
            let text = |text: *const c_char| match text.is_null() {
                true => String::new(),
                false => CStr::from_ptr(text).to_string_lossy().into_owned(),
            };
            format!("{}: {}", text((self.ERR_reason_error_string)(code)), text(data))
        }
    }
}

impl Key<'_> {
    /// The key as DER.
    pub fn write(&self, what: KeyStructure) -> Option<Vec<u8>> {
        let mut out = null_mut();
        // SAFETY: a live key; libcrypto allocates the buffer, of the length that it returns.
        unsafe {
            let len = match what {
                KeyStructure::Public => (self.lib().i2d_PUBKEY)(self.raw, &mut out),
                KeyStructure::Private => (self.lib().i2d_PrivateKey)(self.raw, &mut out),
            };
            let len = usize::try_from(len).ok().filter(|&len| len > 0)?;
            let der = std::slice::from_raw_parts(out, len).to_vec();
            (self.lib().CRYPTO_free)(out.cast(), null(), 0);
            Some(der)
        }
    }

    fn lib(&self) -> &'static Libcrypto {
        self.context.lib
    }

    /// A byte string of the key; `None` where it has no such part.
    pub fn part(&self, name: &str) -> Option<Vec<u8>> {
        let name = c(name);
        let mut out = vec![0; 8192];
        let mut len = 0;
        // SAFETY: a live key, a C string, room as long as said.
        let done = unsafe {
            (self.lib().EVP_PKEY_get_octet_string_param)(
                self.raw,
                name.as_ptr(),
                out.as_mut_ptr(),
                out.len(),
                &mut len,
            )
        };
        out.truncate(len);
        (done == 1).then_some(out)
    }

    /// Returns the names of the parameters that it lists as gettable.
    pub fn gettable(&self) -> Vec<String> {
        // SAFETY: a live key; the list of a module that stays.
        unsafe { names((self.lib().EVP_PKEY_gettable_params)(self.raw)) }
    }

    /// Returns the names and types of the parameters that it lists as gettable, sorted.
    pub fn gettable_typed(&self) -> Vec<(String, u32)> {
        // SAFETY: a live key; the list of a module that stays.
        unsafe { entries((self.lib().EVP_PKEY_gettable_params)(self.raw)) }
    }

    /// Returns the names and types of the parameters that it lists as settable, sorted.
    pub fn settable(&self) -> Vec<(String, u32)> {
        // SAFETY: a live key; the list of a module that stays.
        unsafe { entries((self.lib().EVP_PKEY_settable_params)(self.raw)) }
    }

    /// Returns an encapsulation's settable and gettable parameters, and the result of a query
    /// without parameters.
    pub fn lists_of_encapsulation(&self, query: &str) -> ([Vec<(String, u32)>; 2], c_int) {
        let ctx = self.operation(query);
        let mut nothing = Params::default().list();
        // SAFETY: a live context; lists of a module that stays, and one of ours with an end.
        unsafe {
            let lib = self.lib();
            assert_eq!((lib.EVP_PKEY_encapsulate_init)(ctx.raw, null()), 1);
            let lists = [lib.EVP_PKEY_CTX_settable_params, lib.EVP_PKEY_CTX_gettable_params];
            let answered = (lib.EVP_PKEY_CTX_get_params)(ctx.raw, nothing.as_mut_ptr());
            (lists.map(|list| entries(list(ctx.raw))), answered)
        }
    }

    /// Returns a key of the same type without material: `EVP_PKEY_copy_parameters` copies shared
    /// parameters, which these types lack.
    pub fn without_material(&self) -> Self {
        // SAFETY: a live key, and a fresh one.
        unsafe {
            let raw = (self.lib().EVP_PKEY_new)();
            let done = (self.lib().EVP_PKEY_copy_parameters)(raw, self.raw);
            assert_eq!(done, 1, "{}", self.lib().last_error());
            Key { context: self.context, raw }
        }
    }

    /// Returns the result and the text of EVP_PKEY_print_public, _private or _params.
    pub fn printed(
        &self,
        print: unsafe extern "C" fn(Ptr, Ptr, c_int, Ptr) -> c_int,
    ) -> (c_int, String) {
        let mut text = vec![0; 1 << 17];
        // SAFETY: a memory BIO of ours, a live key, room as long as said.
        unsafe {
            let bio = (self.lib().BIO_new)((self.lib().BIO_s_mem)());
            let done = print(bio, self.raw, 0, null_mut());
            let len = (self.lib().BIO_read)(bio, text.as_mut_ptr().cast(), text.len() as c_int);
            (self.lib().BIO_free)(bio);
            text.truncate(usize::try_from(len).unwrap_or(0));
            (done, String::from_utf8(text).unwrap())
        }
    }

    /// The parts that it hands over for a selection, with their bytes; none where it refuses.
    pub fn data(&self, selection: c_int) -> Option<Vec<(String, Vec<u8>)>> {
        let mut list = null_mut();
        // SAFETY: a live key; libcrypto allocates a terminated list of byte strings.
        unsafe {
            let done = (self.lib().EVP_PKEY_todata)(self.raw, selection, &mut list) == 1;
            let mut parts: Vec<_> = elements(list)
                .map(|part| {
                    let key = CStr::from_ptr(part.key).to_str().unwrap().to_owned();
                    let bytes = std::slice::from_raw_parts(part.data.cast(), part.data_size);
                    (key, bytes.to_vec())
                })
                .collect();
            parts.sort();
            (self.lib().OSSL_PARAM_free)(list);
            done.then_some(parts)
        }
    }

    /// The names of those parts.
    pub fn parts(&self, selection: c_int) -> Option<Vec<String>> {
        Some(self.data(selection)?.into_iter().map(|(name, _)| name).collect())
    }

    /// The shared secret with a peer; the size that was asked for first must be right.
    pub fn derive(&self, query: &str, peer: &Key<'_>) -> Option<Vec<u8>> {
        let ctx = self.operation(query);
        let (mut len, mut secret) = (0, vec![0; 66]);
        // SAFETY: live objects, room as long as said.
        unsafe {
            let lib = self.lib();
            let asked = (lib.EVP_PKEY_derive_init)(ctx.raw) == 1
                && (lib.EVP_PKEY_derive_set_peer)(ctx.raw, peer.raw) == 1
                && (lib.EVP_PKEY_derive)(ctx.raw, null_mut(), &mut len) == 1;
            if !asked {
                return None;
            }
            let size = len;
            let done = (lib.EVP_PKEY_derive)(ctx.raw, secret.as_mut_ptr(), &mut len) == 1;
            assert!(!done || len == size);
            secret.truncate(len);
            done.then_some(secret)
        }
    }

    /// A number of the key; `None` where it has no such one.
    pub fn number(&self, name: &str) -> Option<c_int> {
        let (name, mut out) = (c(name), 0);
        // SAFETY: a live key, a C string, room for a number.
        let done =
            unsafe { (self.lib().EVP_PKEY_get_int_param)(self.raw, name.as_ptr(), &mut out) };
        (done == 1).then_some(out)
    }

    /// Returns which digest goes with the key, and whether it must be that one (2) or may (1).
    pub fn default_digest(&self) -> (c_int, String) {
        let mut name = [0; 64];
        // SAFETY: a live key, room as long as said; the answer is a C string.
        unsafe {
            let get = self.lib().EVP_PKEY_get_default_digest_name;
            let answer = get(self.raw, name.as_mut_ptr(), name.len());
            let text = CStr::from_ptr(name.as_ptr()).to_string_lossy();
            (answer, text.into_owned())
        }
    }

    /// The name of the provider that holds the key.
    pub fn provider(&self) -> String {
        // SAFETY: a live key; its provider's name lives as long.
        unsafe {
            let provider = (self.lib().EVP_PKEY_get0_provider)(self.raw);
            CStr::from_ptr((self.lib().OSSL_PROVIDER_get0_name)(provider))
                .to_string_lossy()
                .into_owned()
        }
    }

    /// A context for an operation with the key, by the provider that the query asks for.
    pub fn operation(&self, query: &str) -> PkeyCtx {
        let query = c(query);
        // SAFETY: live objects and a C string.
        let raw = unsafe {
            (self.lib().EVP_PKEY_CTX_new_from_pkey)(self.context.raw, self.raw, query.as_ptr())
        };
        assert!(!raw.is_null(), "{}", self.lib().last_error());
        PkeyCtx { lib: self.lib(), raw }
    }

    fn signature(&self, algorithm: &str, query: &str) -> Ptr {
        let (algorithm, query) = (c(algorithm), c(query));
        // SAFETY: a live context and C strings.
        let raw = unsafe {
            (self.lib().EVP_SIGNATURE_fetch)(self.context.raw, algorithm.as_ptr(), query.as_ptr())
        };
        assert!(!raw.is_null(), "{}", self.lib().last_error());
        raw
    }

    /// Signs in one call.
    pub fn sign(
        &self,
        algorithm: &str,
        query: &str,
        params: &Params,
        message: &[u8],
    ) -> Option<Vec<u8>> {
        let (ctx, signature) = (self.operation(query), self.signature(algorithm, query));
        let mut out = vec![0; 1 << 16];
        let (mut len, list) = (out.len(), params.list());
        // SAFETY: live objects, room as long as said.
        unsafe {
            let lib = self.lib();
            let done = (lib.EVP_PKEY_sign_message_init)(ctx.raw, signature, list.as_ptr()) == 1
                && (lib.EVP_PKEY_sign)(
                    ctx.raw,
                    out.as_mut_ptr(),
                    &mut len,
                    message.as_ptr(),
                    message.len(),
                ) == 1;
            (lib.EVP_SIGNATURE_free)(signature);
            out.truncate(len);
            done.then_some(out)
        }
    }

    /// Verifies in one call.
    pub fn verify(
        &self,
        algorithm: &str,
        query: &str,
        params: &Params,
        message: &[u8],
        made: &[u8],
    ) -> bool {
        let (ctx, signature) = (self.operation(query), self.signature(algorithm, query));
        let list = params.list();
        // SAFETY: live objects, bytes as long as said.
        unsafe {
            let lib = self.lib();
            let begun = (lib.EVP_PKEY_verify_message_init)(ctx.raw, signature, list.as_ptr());
            assert_eq!(begun, 1, "{}", lib.last_error());
            let verdict = (lib.EVP_PKEY_verify)(
                ctx.raw,
                made.as_ptr(),
                made.len(),
                message.as_ptr(),
                message.len(),
            );
            (lib.EVP_SIGNATURE_free)(signature);
            verdict == 1
        }
    }

    /// Encapsulates: ciphertext and shared secret.
    pub fn encapsulate(&self, query: &str, params: &Params) -> Option<(Vec<u8>, Vec<u8>)> {
        let ctx = self.operation(query);
        let (mut ct, mut secret) = (vec![0; 4096], vec![0; 128]);
        let (mut ct_len, mut secret_len) = (ct.len(), secret.len());
        let list = params.list();
        // SAFETY: live objects, room as long as said.
        let done = unsafe {
            (self.lib().EVP_PKEY_encapsulate_init)(ctx.raw, list.as_ptr()) == 1
                && (self.lib().EVP_PKEY_encapsulate)(
                    ctx.raw,
                    ct.as_mut_ptr(),
                    &mut ct_len,
                    secret.as_mut_ptr(),
                    &mut secret_len,
                ) == 1
        };
        ct.truncate(ct_len);
        secret.truncate(secret_len);
        done.then_some((ct, secret))
    }

    /// Decapsulates.
    pub fn decapsulate(&self, query: &str, ct: &[u8]) -> Option<Vec<u8>> {
        let ctx = self.operation(query);
        let mut secret = vec![0; 128];
        let mut len = secret.len();
        // SAFETY: live objects, room as long as said.
        let done = unsafe {
            (self.lib().EVP_PKEY_decapsulate_init)(ctx.raw, null()) == 1
                && (self.lib().EVP_PKEY_decapsulate)(
                    ctx.raw,
                    secret.as_mut_ptr(),
                    &mut len,
                    ct.as_ptr(),
                    ct.len(),
                ) == 1
        };
        secret.truncate(len);
        done.then_some(secret)
    }
}

impl Drop for Key<'_> {
    fn drop(&mut self) {
        // SAFETY: made by this context, not used again.
        unsafe { (self.lib().EVP_PKEY_free)(self.raw) }
    }
}

/// An operation that was begun.
pub struct PkeyCtx {
    lib: &'static Libcrypto,
    pub raw: Ptr,
}

impl PkeyCtx {
    /// The name of the provider that does the operation; only after its init.
    pub fn provider(&self) -> String {
        // SAFETY: a live context; the name lives as long.
        unsafe {
            let provider = (self.lib.EVP_PKEY_CTX_get0_provider)(self.raw);
            CStr::from_ptr((self.lib.OSSL_PROVIDER_get0_name)(provider))
                .to_string_lossy()
                .into_owned()
        }
    }
}

impl Drop for PkeyCtx {
    fn drop(&mut self) {
        // SAFETY: made by `operation`, not used again.
        unsafe { (self.lib.EVP_PKEY_CTX_free)(self.raw) }
    }
}

/// A key derivation that was begun.
pub struct Kdf {
    lib: &'static Libcrypto,
    raw: Ptr,
    /// The name of the provider that does it.
    pub provider: String,
}

impl Context {
    /// Begins a key derivation by the provider that the query selects; `None` if there is no such
    /// provider.
    pub fn kdf(&self, name: &str, query: &str) -> Option<Kdf> {
        let (name, query) = (c(name), c(query));
        // SAFETY: a live context and C strings; the context holds what was fetched.
        unsafe {
            let kdf = (self.lib.EVP_KDF_fetch)(self.raw, name.as_ptr(), query.as_ptr());
            if kdf.is_null() {
                return None;
            }
            let provider = (self.lib.EVP_KDF_get0_provider)(kdf);
            let provider = CStr::from_ptr((self.lib.OSSL_PROVIDER_get0_name)(provider));
            let provider = provider.to_string_lossy().into_owned();
            let raw = (self.lib.EVP_KDF_CTX_new)(kdf);
            (self.lib.EVP_KDF_free)(kdf);
            assert!(!raw.is_null(), "{}", self.lib.last_error());
            Some(Kdf { lib: self.lib, raw, provider })
        }
    }
}

impl Kdf {
    /// Sets parameters; whether they were taken.
    pub fn set(&mut self, params: &Params) -> bool {
        // SAFETY: a live context, a list with an end.
        unsafe { (self.lib.EVP_KDF_CTX_set_params)(self.raw, params.list().as_ptr()) == 1 }
    }

    /// Derives so many bytes; without a list of parameters if `params` is `None`.
    pub fn derive(&mut self, len: usize, params: Option<&Params>) -> Option<Vec<u8>> {
        let list = params.map(Params::list);
        let list = list.as_ref().map_or(null(), |list| list.as_ptr());
        // One byte more, so that there is an address where there is no length.
        let mut out = vec![0x55; len + 1];
        // SAFETY: a live context, room as long as said, a list with an end or null.
        let done = unsafe { (self.lib.EVP_KDF_derive)(self.raw, out.as_mut_ptr(), len, list) };
        assert_eq!(out.pop(), Some(0x55));
        (done == 1).then_some(out)
    }

    /// Returns the names and types of the gettable and the settable parameters, sorted.
    pub fn lists(&self) -> [Vec<(String, u32)>; 2] {
        // SAFETY: a live context; both answer with a list that has an end and stays.
        unsafe {
            let lists =
                [self.lib.EVP_KDF_CTX_gettable_params, self.lib.EVP_KDF_CTX_settable_params];
            lists.map(|list| entries(list(self.raw)))
        }
    }

    /// Returns the value of a parameter of that type for a buffer of `room` bytes, with the
    /// reported length: `usize::MAX` if none is reported.
    pub fn get(&self, key: &str, data_type: u32, room: usize) -> Option<(usize, Vec<u8>)> {
        let (key, mut out) = (c(key), vec![0x55_u8; room]);
        let data = out.as_mut_ptr().cast_const().cast();
        let (data_size, return_size) = (room, usize::MAX);
        let end = Param { key: null(), data_type: 0, data: null(), data_size: 0, return_size: 0 };
        let asked = Param { key: key.as_ptr(), data_type, data, data_size, return_size };
        let mut list = [asked, end];
        // SAFETY: a live context; a list with an end, and as much room as it says.
        let done = unsafe { (self.lib.EVP_KDF_CTX_get_params)(self.raw, list.as_mut_ptr()) };
        (done == 1).then_some((list[0].return_size, out))
    }

    /// Returns how many bytes it says that it gives.
    pub fn size(&mut self) -> usize {
        // SAFETY: a live context.
        unsafe { (self.lib.EVP_KDF_CTX_get_kdf_size)(self.raw) }
    }

    /// Resets all parameters.
    pub fn reset(&mut self) {
        // SAFETY: a live context.
        unsafe { (self.lib.EVP_KDF_CTX_reset)(self.raw) }
    }

    /// A copy with all that was set.
    pub fn duplicate(&self) -> Kdf {
        // SAFETY: a live context.
        let raw = unsafe { (self.lib.EVP_KDF_CTX_dup)(self.raw) };
        assert!(!raw.is_null(), "{}", self.lib.last_error());
        Kdf { lib: self.lib, raw, provider: self.provider.clone() }
    }
}

impl Drop for Kdf {
    fn drop(&mut self) {
        // SAFETY: made by `kdf` or `duplicate`, not used again.
        unsafe { (self.lib.EVP_KDF_CTX_free)(self.raw) }
    }
}
