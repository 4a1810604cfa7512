//! OpenSSL through EVP, from the libcrypto of the bundle, default provider only.
//!
//! An own library context that reads no configuration: what is measured is OpenSSL's code, not
//! a provider that a configuration file would put before it. `fresh` imports the encoded key,
//! sets up a context and runs; `cached` runs again on a context set up before, which is what
//! `openssl speed` times. Encapsulation draws its randomness: giving it would need a new set-up
//! for each call, which costs more.

mod hybrid;

use std::ffi::{CStr, CString, c_char, c_int, c_uchar, c_ulong, c_void};
use std::path::{Path, PathBuf};
use std::ptr::{NonNull, null, null_mut};
use std::rc::Rc;

use libloading::Library;

use crate::peer::{
    Dsa, DsaSet, Error, Hybrid, HybridSet, Identity, Kem, KemSet, Operation, Peer, Randomness,
    Result, Secret, Signer,
};

const NAME: &str = "openssl";

/// OPENSSL_VERSION_STRING, the number alone.
const VERSION_STRING: c_int = 6;

/// OSSL_PARAM_INTEGER, OSSL_PARAM_UTF8_STRING and OSSL_PARAM_OCTET_STRING.
const PARAM_INTEGER: u32 = 1;
const PARAM_TEXT: u32 = 4;
const PARAM_OCTETS: u32 = 5;

/// `OSSL_PARAM`: a list of these ends with one that has no name.
#[repr(C)]
struct Param {
    key: *const c_char,
    data_type: u32,
    data: *mut c_void,
    data_size: usize,
    return_size: usize,
}

impl Param {
    const END: Param =
        Param { key: null(), data_type: 0, data: null_mut(), data_size: 0, return_size: 0 };

    /// The library only reads through `data`; the caller keeps it alive.
    fn octets(key: &'static CStr, data: &[u8]) -> Param {
        Param {
            key: key.as_ptr(),
            data_type: PARAM_OCTETS,
            data: data.as_ptr().cast_mut().cast(),
            data_size: data.len(),
            return_size: 0,
        }
    }

    /// The library only reads the text.
    fn text(key: &'static CStr, text: &'static CStr) -> Param {
        Param { data_type: PARAM_TEXT, ..Param::octets(key, text.to_bytes()) }
    }

    /// The library only reads through `data`; the caller keeps it alive.
    fn integer(key: &'static CStr, data: &c_int) -> Param {
        Param {
            key: key.as_ptr(),
            data_type: PARAM_INTEGER,
            data: (data as *const c_int).cast_mut().cast(),
            data_size: size_of::<c_int>(),
            return_size: 0,
        }
    }
}

type Pointer = *mut c_void;
type NewRawKey =
    unsafe extern "C" fn(Pointer, *const c_char, *const c_char, *const c_uchar, usize) -> Pointer;
type GetRawKey = unsafe extern "C" fn(Pointer, *mut c_uchar, *mut usize) -> c_int;
type GetParam =
    unsafe extern "C" fn(Pointer, *const c_char, *mut c_uchar, usize, *mut usize) -> c_int;
type InitWithParams = unsafe extern "C" fn(Pointer, *const Param) -> c_int;
type InitMessage = unsafe extern "C" fn(Pointer, Pointer, *const Param) -> c_int;
type TwoOutputs =
    unsafe extern "C" fn(Pointer, *mut c_uchar, *mut usize, *mut c_uchar, *mut usize) -> c_int;
type OneOutput =
    unsafe extern "C" fn(Pointer, *mut c_uchar, *mut usize, *const c_uchar, usize) -> c_int;
type Verify = unsafe extern "C" fn(Pointer, *const c_uchar, usize, *const c_uchar, usize) -> c_int;

/// The functions used, and the context they work in.
struct Functions {
    context: Pointer,
    provider: Pointer,
    version: String,
    error: unsafe extern "C" fn() -> c_ulong,
    error_text: unsafe extern "C" fn(c_ulong, *mut c_char, usize),
    key_free: unsafe extern "C" fn(Pointer),
    key_from_public: NewRawKey,
    key_from_private: NewRawKey,
    get_public: GetRawKey,
    get_private: GetRawKey,
    get_octets: GetParam,
    ctx_from_name: unsafe extern "C" fn(Pointer, *const c_char, *const c_char) -> Pointer,
    ctx_from_key: unsafe extern "C" fn(Pointer, Pointer, *const c_char) -> Pointer,
    ctx_free: unsafe extern "C" fn(Pointer),
    ctx_set_params: InitWithParams,
    keygen_init: unsafe extern "C" fn(Pointer) -> c_int,
    generate: unsafe extern "C" fn(Pointer, *mut Pointer) -> c_int,
    encapsulate_init: InitWithParams,
    encapsulate: TwoOutputs,
    decapsulate_init: InitWithParams,
    decapsulate: OneOutput,
    signature_fetch: unsafe extern "C" fn(Pointer, *const c_char, *const c_char) -> Pointer,
    signature_free: unsafe extern "C" fn(Pointer),
    sign_init: InitMessage,
    sign: OneOutput,
    verify_init: InitMessage,
    verify: Verify,
    provider_unload: unsafe extern "C" fn(Pointer) -> c_int,
    context_free: unsafe extern "C" fn(Pointer),
    _library: Library,
}

impl Functions {
    fn load(path: &Path) -> Result<Functions> {
        let missing = |error: libloading::Error| {
            Error::Environment(format!(
                "{} is not an OpenSSL that has ML-KEM and ML-DSA (3.5 or later): {error}; \
                 run `gabion bundle build` or set GABION_OPENSSL_PREFIX",
                path.display()
            ))
        };
        // SAFETY: libcrypto's constructors have no preconditions.
        let library = unsafe { Library::new(path) }.map_err(missing)?;
        macro_rules! symbol {
            ($name:literal) => {
                // SAFETY: the type it is assigned to is the one in OpenSSL's headers, which is
                // the same in every version from 3.5 on.
                *unsafe { library.get(concat!($name, "\0").as_bytes()) }.map_err(missing)?
            };
        }
        let version: unsafe extern "C" fn(c_int) -> *const c_char = symbol!("OpenSSL_version");
        let context_new: unsafe extern "C" fn() -> Pointer = symbol!("OSSL_LIB_CTX_new");
        let provider_load: unsafe extern "C" fn(Pointer, *const c_char) -> Pointer =
            symbol!("OSSL_PROVIDER_load");
        let mut functions = Functions {
            context: null_mut(),
            provider: null_mut(),
            // SAFETY: the function returns a static string for every number.
            version: unsafe { CStr::from_ptr(version(VERSION_STRING)) }
                .to_string_lossy()
                .into_owned(),
            error: symbol!("ERR_get_error"),
            error_text: symbol!("ERR_error_string_n"),
            key_free: symbol!("EVP_PKEY_free"),
            key_from_public: symbol!("EVP_PKEY_new_raw_public_key_ex"),
            key_from_private: symbol!("EVP_PKEY_new_raw_private_key_ex"),
            get_public: symbol!("EVP_PKEY_get_raw_public_key"),
            get_private: symbol!("EVP_PKEY_get_raw_private_key"),
            get_octets: symbol!("EVP_PKEY_get_octet_string_param"),
            ctx_from_name: symbol!("EVP_PKEY_CTX_new_from_name"),
            ctx_from_key: symbol!("EVP_PKEY_CTX_new_from_pkey"),
            ctx_free: symbol!("EVP_PKEY_CTX_free"),
            ctx_set_params: symbol!("EVP_PKEY_CTX_set_params"),
            keygen_init: symbol!("EVP_PKEY_keygen_init"),
            generate: symbol!("EVP_PKEY_generate"),
            encapsulate_init: symbol!("EVP_PKEY_encapsulate_init"),
            encapsulate: symbol!("EVP_PKEY_encapsulate"),
            decapsulate_init: symbol!("EVP_PKEY_decapsulate_init"),
            decapsulate: symbol!("EVP_PKEY_decapsulate"),
            signature_fetch: symbol!("EVP_SIGNATURE_fetch"),
            signature_free: symbol!("EVP_SIGNATURE_free"),
            sign_init: symbol!("EVP_PKEY_sign_message_init"),
            sign: symbol!("EVP_PKEY_sign"),
            verify_init: symbol!("EVP_PKEY_verify_message_init"),
            verify: symbol!("EVP_PKEY_verify"),
            provider_unload: symbol!("OSSL_PROVIDER_unload"),
            context_free: symbol!("OSSL_LIB_CTX_free"),
            _library: library,
        };
        // SAFETY: no arguments.
        functions.context =
            functions.object("OSSL_LIB_CTX_new", unsafe { context_new() })?.as_ptr();
        // SAFETY: the context was made just above.
        let provider = unsafe { provider_load(functions.context, c"default".as_ptr()) };
        functions.provider = functions.object("OSSL_PROVIDER_load", provider)?.as_ptr();
        Ok(functions)
    }

    /// The error that the library queued, in its words.
    fn failed(&self, call: &'static str) -> Error {
        let mut text = [0 as c_char; 256];
        // SAFETY: the buffer has the length given and comes back with a final zero.
        let detail = unsafe {
            (self.error_text)((self.error)(), text.as_mut_ptr(), text.len());
            CStr::from_ptr(text.as_ptr())
        };
        Error::Call { peer: NAME, call, detail: detail.to_string_lossy().into_owned() }
    }

    fn object(&self, call: &'static str, pointer: Pointer) -> Result<NonNull<c_void>> {
        NonNull::new(pointer).ok_or_else(|| self.failed(call))
    }

    /// 1 is success.
    fn check(&self, call: &'static str, status: c_int) -> Result<()> {
        if status == 1 { Ok(()) } else { Err(self.failed(call)) }
    }
}

impl Drop for Functions {
    fn drop(&mut self) {
        // SAFETY: both were made in `load`, or are null where it failed; every key and context
        // holds a reference to this and is gone. Both functions accept null.
        unsafe {
            if !self.provider.is_null() {
                (self.provider_unload)(self.provider);
            }
            (self.context_free)(self.context);
        }
    }
}

/// The library.
pub struct Openssl {
    identity: Identity,
    functions: Rc<Functions>,
}

impl Openssl {
    /// Loads libcrypto from each prefix, or from every bundle in the cache: versions beside each other.
    pub fn all(prefixes: &[PathBuf]) -> Result<Vec<Openssl>> {
        let found;
        let prefixes = match prefixes {
            [] => {
                found = bundles()?;
                &found
            }
            given => given,
        };
        prefixes.iter().map(|prefix| Openssl::load(prefix)).collect()
    }

    fn load(prefix: &Path) -> Result<Openssl> {
        let library = ["lib", "lib64"]
            .map(|folder| prefix.join(folder).join("libcrypto.so"))
            .into_iter()
            .find(|path| path.exists())
            .ok_or_else(|| {
                Error::Environment(format!(
                    "no lib/libcrypto.so in {}; run `gabion bundle build`",
                    prefix.display()
                ))
            })?;
        let functions = Functions::load(&library)?;
        Ok(Openssl {
            identity: Identity {
                name: NAME.to_owned(),
                version: functions.version.clone(),
                license: "Apache-2.0".to_owned(),
                build: "shared libcrypto, default provider, its own release flags".to_owned(),
            },
            functions: Rc::new(functions),
        })
    }
}

/// The bundles that `gabion bundle build` left in the cache, by version.
fn bundles() -> Result<Vec<PathBuf>> {
    let folder = crate::cache_folder()?.join("openssl");
    let number = |path: &PathBuf| -> Option<Vec<u32>> {
        let version = path.file_name()?.to_str()?.strip_prefix("bundle-")?;
        version.split('.').map(|part| part.parse().ok()).collect()
    };
    let entries = std::fs::read_dir(&folder).into_iter().flatten().flatten();
    let mut bundles: Vec<PathBuf> = entries
        .map(|entry| entry.path())
        .filter(|path| number(path).is_some() && path.join("gabion-bundle.json").is_file())
        .collect();
    bundles.sort_by_key(number);
    match bundles.is_empty() {
        false => Ok(bundles),
        true => Err(Error::Environment(format!(
            "no OpenSSL bundle in {}; run `gabion bundle build` or set GABION_OPENSSL_PREFIX",
            folder.display()
        ))),
    }
}

impl Peer for Openssl {
    fn identity(&self) -> &Identity {
        &self.identity
    }

    fn kem(&self, set: &'static KemSet) -> Result<Option<Box<dyn Kem>>> {
        let generator = Generator::new(&self.functions, set.name)?;
        Ok(Some(Box::new(EvpKem { set, generator, public: None, private: None })))
    }

    fn dsa(&self, set: &'static DsaSet) -> Result<Option<Box<dyn Dsa>>> {
        let generator = Generator::new(&self.functions, set.name)?;
        let algorithm = Algorithm::fetch(&self.functions, set.name)?;
        Ok(Some(Box::new(EvpDsa { set, generator, algorithm, public: None, private: None })))
    }

    fn hybrid(&self, set: &'static HybridSet) -> Result<Option<Box<dyn Hybrid>>> {
        hybrid::slot(&self.functions, set)
    }

    fn signer(&self, name: &str) -> Result<Option<Box<dyn Signer>>> {
        if let Some((group, hashed)) = ecdsa(name) {
            return EvpEcdsa::new(&self.functions, group, hashed)
                .map(|slot| Some(Box::new(slot) as _));
        }
        let Some(signature) = signature_bytes(name) else {
            return Ok(None);
        };
        let algorithm = Algorithm::fetch(&self.functions, name)?;
        let generator = Generator::new(&self.functions, name)?;
        let (private, public) = signer_contexts(&generator, &algorithm)?;
        Ok(Some(Box::new(EvpSigner { generator, algorithm, private, public, signature })))
    }
}

/// Bytes of a signature (FIPS 205, table 2; RFC 8032, section 5.1.6) of the schemes that it has.
fn signature_bytes(name: &str) -> Option<usize> {
    let set = name.strip_prefix("SLH-DSA-SHAKE-").or(name.strip_prefix("SLH-DSA-SHA2-"));
    match (name, set) {
        ("Ed25519", _) => Some(64),
        (_, Some("128s")) => Some(7_856),
        (_, Some("128f")) => Some(17_088),
        (_, Some("192s")) => Some(16_224),
        (_, Some("192f")) => Some(35_664),
        (_, Some("256s")) => Some(29_792),
        (_, Some("256f")) => Some(49_856),
        _ => None,
    }
}

/// The curve of an ECDSA and the name of the algorithm with its hash.
fn ecdsa(name: &str) -> Option<(&'static CStr, &'static str)> {
    match name {
        "ECDSA-P-256" => Some((c"P-256", "ECDSA-SHA256")),
        "ECDSA-P-384" => Some((c"P-384", "ECDSA-SHA384")),
        "ECDSA-P-521" => Some((c"P-521", "ECDSA-SHA512")),
        _ => None,
    }
}

/// An `EVP_PKEY`.
struct PKey {
    functions: Rc<Functions>,
    key: NonNull<c_void>,
}

impl PKey {
    /// A context for operations with the key, to which it takes a reference of its own.
    fn context(&self) -> Result<Context> {
        let functions = &self.functions;
        // SAFETY: context and key are live.
        let context =
            unsafe { (functions.ctx_from_key)(functions.context, self.key.as_ptr(), null()) };
        let context = functions.object("EVP_PKEY_CTX_new_from_pkey", context)?;
        Ok(Context { functions: Rc::clone(functions), context })
    }
}

impl Drop for PKey {
    fn drop(&mut self) {
        // SAFETY: made by the same library and not freed before.
        unsafe { (self.functions.key_free)(self.key.as_ptr()) };
    }
}

/// An `EVP_PKEY_CTX`; it holds its own reference to the key it was made from.
struct Context {
    functions: Rc<Functions>,
    context: NonNull<c_void>,
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: made by the same library and not freed before.
        unsafe { (self.functions.ctx_free)(self.context.as_ptr()) };
    }
}

/// An `EVP_SIGNATURE`.
struct Algorithm {
    functions: Rc<Functions>,
    algorithm: NonNull<c_void>,
}

impl Algorithm {
    fn fetch(functions: &Rc<Functions>, name: &str) -> Result<Algorithm> {
        let name = c_string(name);
        // SAFETY: the library context is live and the name ends with a zero.
        let algorithm =
            unsafe { (functions.signature_fetch)(functions.context, name.as_ptr(), null()) };
        let algorithm = functions.object("EVP_SIGNATURE_fetch", algorithm)?;
        Ok(Algorithm { functions: Rc::clone(functions), algorithm })
    }
}

impl Drop for Algorithm {
    fn drop(&mut self) {
        // SAFETY: made by the same library and not freed before.
        unsafe { (self.functions.signature_free)(self.algorithm.as_ptr()) };
    }
}

/// The name of a parameter set for C. None contains a zero; were one added, it would be cut.
fn c_string(name: &str) -> CString {
    CString::new(name.split('\0').next().unwrap_or_default()).unwrap_or_default()
}

/// Makes and imports keys of one parameter set.
struct Generator {
    functions: Rc<Functions>,
    name: CString,
    context: Context,
}

impl Generator {
    fn new(functions: &Rc<Functions>, name: &str) -> Result<Generator> {
        let name = c_string(name);
        // SAFETY: the library context is live and the name ends with a zero.
        let context =
            unsafe { (functions.ctx_from_name)(functions.context, name.as_ptr(), null()) };
        let context = functions.object("EVP_PKEY_CTX_new_from_name", context)?;
        let context = Context { functions: Rc::clone(functions), context };
        // SAFETY: the context is live.
        let status = unsafe { (functions.keygen_init)(context.context.as_ptr()) };
        functions.check("EVP_PKEY_keygen_init", status)?;
        Ok(Generator { functions: Rc::clone(functions), name, context })
    }

    /// Makes a key, of the seed where one was set.
    fn draw(&self) -> Result<PKey> {
        let functions = &self.functions;
        let mut key = null_mut();
        // SAFETY: the context is live and set up for key generation.
        let status = unsafe { (functions.generate)(self.context.context.as_ptr(), &mut key) };
        functions.check("EVP_PKEY_generate", status)?;
        let key = functions.object("EVP_PKEY_generate", key)?;
        Ok(PKey { functions: Rc::clone(functions), key })
    }

    /// Makes the key of `seed` and encodes both parts.
    fn generate(&self, seed: &[u8], public: &mut [u8], private: &mut [u8]) -> Result<()> {
        let functions = &self.functions;
        let params = [Param::octets(c"seed", seed), Param::END];
        // SAFETY: the context is live, the list is ended and its data outlives the call.
        let status =
            unsafe { (functions.ctx_set_params)(self.context.context.as_ptr(), params.as_ptr()) };
        functions.check("EVP_PKEY_CTX_set_params(seed)", status)?;
        let key = self.draw()?;
        let mut length = public.len();
        // SAFETY: the key is live and `length` is that of the buffer.
        let status =
            unsafe { (functions.get_public)(key.key.as_ptr(), public.as_mut_ptr(), &mut length) };
        functions.check("EVP_PKEY_get_raw_public_key", status)?;
        let mut length = private.len();
        // SAFETY: as above.
        let status =
            unsafe { (functions.get_private)(key.key.as_ptr(), private.as_mut_ptr(), &mut length) };
        functions.check("EVP_PKEY_get_raw_private_key", status)
    }

    /// A context for operations with the encoded key.
    fn import(&self, public: bool, bytes: &[u8]) -> Result<Context> {
        let functions = &self.functions;
        let (call, import) = match public {
            true => ("EVP_PKEY_new_raw_public_key_ex", functions.key_from_public),
            false => ("EVP_PKEY_new_raw_private_key_ex", functions.key_from_private),
        };
        // SAFETY: context and name are live, and the length is that of the bytes.
        let key = unsafe {
            import(functions.context, self.name.as_ptr(), null(), bytes.as_ptr(), bytes.len())
        };
        PKey { functions: Rc::clone(functions), key: functions.object(call, key)? }.context()
    }
}

/// The key loaded before, or the caller's mistake.
fn loaded(context: &Option<Context>) -> Result<&Context> {
    let detail = "no key was loaded".to_owned();
    context.as_ref().ok_or(Error::Call { peer: NAME, call: "load", detail })
}

/// A fresh pair, set up for signing and for verifying.
fn signer_contexts(generator: &Generator, algorithm: &Algorithm) -> Result<(Context, Context)> {
    let functions = &generator.functions;
    let key = generator.draw()?;
    let (private, public) = (key.context()?, key.context()?);
    let algorithm = algorithm.algorithm.as_ptr();
    // SAFETY: context and algorithm are live; null stands for no parameters.
    let status = unsafe { (functions.sign_init)(private.context.as_ptr(), algorithm, null()) };
    functions.check("EVP_PKEY_sign_message_init", status)?;
    // SAFETY: as above.
    let status = unsafe { (functions.verify_init)(public.context.as_ptr(), algorithm, null()) };
    functions.check("EVP_PKEY_verify_message_init", status)?;
    Ok((private, public))
}

struct EvpSigner {
    generator: Generator,
    algorithm: Algorithm,
    private: Context,
    public: Context,
    signature: usize,
}

impl Signer for EvpSigner {
    fn keygen(&mut self) -> Result<()> {
        (self.private, self.public) = signer_contexts(&self.generator, &self.algorithm)?;
        Ok(())
    }

    fn sign(&mut self, message: &[u8]) -> Result<Vec<u8>> {
        let mut signature = vec![0; self.signature];
        sign(&self.private, message, &mut signature)?;
        Ok(signature)
    }

    fn verify(&mut self, message: &[u8], signature: &[u8]) -> Result<bool> {
        verify(&self.public, message, signature)
    }
}

/// ECDSA, whose contexts are for one message: each call sets up again, with the pair imported.
struct EvpEcdsa {
    generator: Generator,
    algorithm: Algorithm,
    private: Context,
    public: Context,
}

/// More than any signature takes in DER.
const ECDSA_BYTES: usize = 144;

impl EvpEcdsa {
    fn new(functions: &Rc<Functions>, group: &'static CStr, hashed: &str) -> Result<EvpEcdsa> {
        let algorithm = Algorithm::fetch(functions, hashed)?;
        let generator = Generator::new(functions, "EC")?;
        let params = [Param::text(c"group", group), Param::END];
        let context = generator.context.context.as_ptr();
        // SAFETY: the context is live, the list is ended and its data outlives the call.
        let status = unsafe { (functions.ctx_set_params)(context, params.as_ptr()) };
        functions.check("EVP_PKEY_CTX_set_params(group)", status)?;
        let (private, public) = signer_contexts(&generator, &algorithm)?;
        Ok(EvpEcdsa { generator, algorithm, private, public })
    }
}

impl Signer for EvpEcdsa {
    fn keygen(&mut self) -> Result<()> {
        (self.private, self.public) = signer_contexts(&self.generator, &self.algorithm)?;
        Ok(())
    }

    fn sign(&mut self, message: &[u8]) -> Result<Vec<u8>> {
        let functions = &self.generator.functions;
        let (context, algorithm) =
            (self.private.context.as_ptr(), self.algorithm.algorithm.as_ptr());
        // SAFETY: context and algorithm are live; null stands for no parameters.
        let status = unsafe { (functions.sign_init)(context, algorithm, null()) };
        functions.check("EVP_PKEY_sign_message_init", status)?;
        let mut signature = vec![0; ECDSA_BYTES];
        let mut length = signature.len();
        // SAFETY: the context is set up for signing and each length is that of its buffer.
        let status = unsafe {
            (functions.sign)(
                context,
                signature.as_mut_ptr(),
                &mut length,
                message.as_ptr(),
                message.len(),
            )
        };
        functions.check("EVP_PKEY_sign", status)?;
        signature.truncate(length);
        Ok(signature)
    }

    /// Anything but 1 is refused: a signature that is no DER is an error to the library.
    fn verify(&mut self, message: &[u8], signature: &[u8]) -> Result<bool> {
        let functions = &self.generator.functions;
        let (context, algorithm) =
            (self.public.context.as_ptr(), self.algorithm.algorithm.as_ptr());
        // SAFETY: context and algorithm are live; null stands for no parameters.
        let status = unsafe { (functions.verify_init)(context, algorithm, null()) };
        functions.check("EVP_PKEY_verify_message_init", status)?;
        // SAFETY: the context is set up for verification and each length is that of its buffer.
        let status = unsafe {
            (functions.verify)(
                context,
                signature.as_ptr(),
                signature.len(),
                message.as_ptr(),
                message.len(),
            )
        };
        Ok(status == 1)
    }
}

struct EvpKem {
    set: &'static KemSet,
    generator: Generator,
    public: Option<Context>,
    private: Option<Context>,
}

impl EvpKem {
    fn public(&self, ek: &[u8]) -> Result<Context> {
        encapsulating(self.generator.import(true, ek)?)
    }

    fn private(&self, dk: &[u8]) -> Result<Context> {
        decapsulating(self.generator.import(false, dk)?)
    }
}

/// Sets a context up for encapsulation.
fn encapsulating(context: Context) -> Result<Context> {
    let functions = &context.functions;
    // SAFETY: the context is live; null stands for no parameters.
    let status = unsafe { (functions.encapsulate_init)(context.context.as_ptr(), null()) };
    functions.check("EVP_PKEY_encapsulate_init", status)?;
    Ok(context)
}

/// Sets a context up for decapsulation.
fn decapsulating(context: Context) -> Result<Context> {
    let functions = &context.functions;
    // SAFETY: the context is live; null stands for no parameters.
    let status = unsafe { (functions.decapsulate_init)(context.context.as_ptr(), null()) };
    functions.check("EVP_PKEY_decapsulate_init", status)?;
    Ok(context)
}

/// Fills the ciphertext and the shared secret, whose lengths have to be the algorithm's.
fn encapsulate(context: &Context, ct: &mut [u8], secret: &mut [u8]) -> Result<()> {
    let (mut ct_length, mut secret_length) = (ct.len(), secret.len());
    let functions = &context.functions;
    // SAFETY: the context is set up for encapsulation and each length is that of its buffer.
    let status = unsafe {
        (functions.encapsulate)(
            context.context.as_ptr(),
            ct.as_mut_ptr(),
            &mut ct_length,
            secret.as_mut_ptr(),
            &mut secret_length,
        )
    };
    functions.check("EVP_PKEY_encapsulate", status)?;
    filled("EVP_PKEY_encapsulate", ct_length, ct)?;
    filled("EVP_PKEY_encapsulate", secret_length, secret)
}

/// Fills the shared secret, whose length has to be the algorithm's.
fn decapsulate(context: &Context, ct: &[u8], secret: &mut [u8]) -> Result<()> {
    let mut length = secret.len();
    let functions = &context.functions;
    // SAFETY: the context is set up for decapsulation and each length is that of its buffer.
    let status = unsafe {
        (functions.decapsulate)(
            context.context.as_ptr(),
            secret.as_mut_ptr(),
            &mut length,
            ct.as_ptr(),
            ct.len(),
        )
    };
    functions.check("EVP_PKEY_decapsulate", status)?;
    filled("EVP_PKEY_decapsulate", length, secret)
}

/// Refuses an output that is shorter than its buffer.
fn filled(call: &'static str, length: usize, buffer: &[u8]) -> Result<()> {
    if length == buffer.len() {
        return Ok(());
    }
    let detail = format!("{length} bytes where {} were expected", buffer.len());
    Err(Error::Call { peer: NAME, call, detail })
}

impl Kem for EvpKem {
    fn randomness(&self, operation: Operation) -> Randomness {
        match operation {
            Operation::Keygen => Randomness::Given,
            Operation::Encaps => Randomness::Drawn,
            _ => Randomness::None,
        }
    }

    fn keeps_key(&self, operation: Operation) -> bool {
        operation != Operation::Keygen
    }

    fn keygen(&mut self, seed: &[u8; 64], ek: &mut [u8], dk: &mut [u8]) -> Result<()> {
        assert_eq!(ek.len(), self.set.ek, "callers size their buffers by the set");
        self.generator.generate(seed, ek, dk)
    }

    fn load(&mut self, _seed: &[u8; 64], ek: &[u8], dk: &[u8]) -> Result<()> {
        self.public = Some(self.public(ek)?);
        self.private = Some(self.private(dk)?);
        Ok(())
    }

    fn encaps_fresh(&mut self, ek: &[u8], _m: &Secret, ct: &mut [u8]) -> Result<Secret> {
        let mut secret = [0; 32];
        encapsulate(&self.public(ek)?, ct, &mut secret)?;
        Ok(secret)
    }

    fn encaps_cached(&mut self, _m: &Secret, ct: &mut [u8]) -> Result<Secret> {
        let mut secret = [0; 32];
        encapsulate(loaded(&self.public)?, ct, &mut secret)?;
        Ok(secret)
    }

    fn decaps_fresh(&mut self, dk: &[u8], ct: &[u8]) -> Result<Secret> {
        let mut secret = [0; 32];
        decapsulate(&self.private(dk)?, ct, &mut secret)?;
        Ok(secret)
    }

    fn decaps_cached(&mut self, ct: &[u8]) -> Result<Secret> {
        let mut secret = [0; 32];
        decapsulate(loaded(&self.private)?, ct, &mut secret)?;
        Ok(secret)
    }
}

struct EvpDsa {
    set: &'static DsaSet,
    generator: Generator,
    algorithm: Algorithm,
    public: Option<Context>,
    private: Option<Context>,
}

impl EvpDsa {
    fn public(&self, pk: &[u8]) -> Result<Context> {
        let context = self.generator.import(true, pk)?;
        let functions = &context.functions;
        // SAFETY: context and algorithm are live; null stands for no parameters.
        let status = unsafe {
            (functions.verify_init)(
                context.context.as_ptr(),
                self.algorithm.algorithm.as_ptr(),
                null(),
            )
        };
        functions.check("EVP_PKEY_verify_message_init", status)?;
        Ok(context)
    }

    fn private(&self, sk: &[u8]) -> Result<Context> {
        let context = self.generator.import(false, sk)?;
        let functions = &context.functions;
        let deterministic = 1;
        let params = [Param::integer(c"deterministic", &deterministic), Param::END];
        // SAFETY: context and algorithm are live, the list is ended and its data outlives the
        // call.
        let status = unsafe {
            (functions.sign_init)(
                context.context.as_ptr(),
                self.algorithm.algorithm.as_ptr(),
                params.as_ptr(),
            )
        };
        functions.check("EVP_PKEY_sign_message_init", status)?;
        Ok(context)
    }
}

fn sign(context: &Context, message: &[u8], sig: &mut [u8]) -> Result<()> {
    let mut length = sig.len();
    let functions = &context.functions;
    // SAFETY: the context is set up for signing and each length is that of its buffer.
    let status = unsafe {
        (functions.sign)(
            context.context.as_ptr(),
            sig.as_mut_ptr(),
            &mut length,
            message.as_ptr(),
            message.len(),
        )
    };
    functions.check("EVP_PKEY_sign", status)
}

fn verify(context: &Context, message: &[u8], sig: &[u8]) -> Result<bool> {
    let functions = &context.functions;
    // SAFETY: the context is set up for verification and each length is that of its buffer.
    let status = unsafe {
        (functions.verify)(
            context.context.as_ptr(),
            sig.as_ptr(),
            sig.len(),
            message.as_ptr(),
            message.len(),
        )
    };
    match status {
        0 | 1 => Ok(status == 1),
        _ => Err(functions.failed("EVP_PKEY_verify")),
    }
}

impl Dsa for EvpDsa {
    fn randomness(&self, operation: Operation) -> Randomness {
        match operation {
            Operation::Verify => Randomness::None,
            _ => Randomness::Given,
        }
    }

    fn keeps_key(&self, operation: Operation) -> bool {
        operation != Operation::Keygen
    }

    fn keygen(&mut self, xi: &[u8; 32], pk: &mut [u8], sk: &mut [u8]) -> Result<()> {
        assert_eq!(pk.len(), self.set.pk, "callers size their buffers by the set");
        self.generator.generate(xi, pk, sk)
    }

    fn load(&mut self, pk: &[u8], sk: &[u8]) -> Result<()> {
        self.public = Some(self.public(pk)?);
        self.private = Some(self.private(sk)?);
        Ok(())
    }

    fn sign_fresh(&mut self, sk: &[u8], message: &[u8], sig: &mut [u8]) -> Result<()> {
        sign(&self.private(sk)?, message, sig)
    }

    fn sign_cached(&mut self, message: &[u8], sig: &mut [u8]) -> Result<()> {
        sign(loaded(&self.private)?, message, sig)
    }

    fn verify_fresh(&mut self, pk: &[u8], message: &[u8], sig: &[u8]) -> Result<bool> {
        verify(&self.public(pk)?, message, sig)
    }

    fn verify_cached(&mut self, message: &[u8], sig: &[u8]) -> Result<bool> {
        verify(loaded(&self.public)?, message, sig)
    }
}
