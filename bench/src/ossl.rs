//! OpenSSL's libcrypto and libssl, loaded by absolute path: the only `unsafe` of the TLS harness.
//!
//! ```text
//! Ossl (function tables, one per process)
//!   └─ Context (one OSSL_LIB_CTX: its providers, its default properties)
//!        ├─ Key, Certificate        (pki, operations)
//!        └─ Endpoint (SSL_CTX) ──> Connection (SSL, memory BIOs)      (connection)
//! ```
//!
//! Nothing is linked: the harness measures the libssl of the bundle it is pointed at, whatever the
//! system carries. Each provider gets a separate library context, so that two providers can take
//! turns in one process without affecting each other.

mod connection;
mod operations;
mod pki;
mod socket;
mod symbols;

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::ptr::{self, NonNull};
use std::sync::{Arc, OnceLock};

pub(crate) use connection::{Connection, Endpoint, Negotiation, Step, Wire};
pub(crate) use pki::{Certificate, Key, KeyShape, Subject, derive_provider, kem_provider};

use symbols::{Crypto, OsslLibCtx, OsslParam, OsslProvider, Tls};

/// `OPENSSL_INIT_NO_LOAD_CONFIG`: the machine's `openssl.cnf` must not influence the measurement.
const INIT_NO_LOAD_CONFIG: u64 = 0x80;
/// `OPENSSL_INIT_NO_ATEXIT`: worker threads may outlive `main`, so nothing is torn down at exit.
const INIT_NO_ATEXIT: u64 = 0x0008_0000;
/// `OSSL_PARAM_UTF8_STRING`.
const PARAM_UTF8_STRING: u32 = 4;
/// First version with the post-quantum groups, `OPENSSL_VERSION_NUMBER` of 3.5.0.
const VERSION_MIN: u64 = 0x3050_0000;

/// Errors below the harness.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Error {
    /// A file, a function or a provider is missing.
    NotReady(String),
    /// OpenSSL refused a call; the text ends with its error queue.
    Call(String),
}

/// The loaded libraries.
pub(crate) struct Ossl {
    crypto: Crypto,
    tls: Tls,
    prefix: PathBuf,
    modules: PathBuf,
    version: String,
}

impl Ossl {
    /// Loads `prefix`/lib/libcrypto and libssl, once per process.
    ///
    /// A second call with the same prefix returns the same tables. Another prefix is refused: the
    /// loader binds libssl to whichever libcrypto of that soname came first, so the second bundle
    /// would be measured with the first one's algorithms.
    ///
    /// # Errors
    /// `NotReady` when a library is missing, older than 3.5, or bound to a foreign libcrypto.
    pub(crate) fn load(prefix: &Path) -> Result<&'static Ossl, Error> {
        static LOADED: OnceLock<Ossl> = OnceLock::new();
        // An error is not remembered: the caller may name a better prefix next.
        if LOADED.get().is_none() {
            let fresh = Self::open(prefix)?;
            let _ = LOADED.set(fresh);
        }
        match LOADED.get() {
            Some(ossl) if ossl.prefix == prefix => Ok(ossl),
            Some(ossl) => Err(Error::NotReady(format!(
                "this process already uses the OpenSSL of {}; start another one for {}",
                ossl.prefix.display(),
                prefix.display()
            ))),
            None => Err(Error::NotReady("OpenSSL could not be loaded".into())),
        }
    }

    fn open(prefix: &Path) -> Result<Ossl, Error> {
        let lib = find_library_folder(prefix)?;
        let soname = |name: &str, major: &str| lib.join(format!("{name}.so.{major}"));
        let major = if soname("libcrypto", "3").exists() { "3" } else { "4" };
        let crypto = Crypto::open(&soname("libcrypto", major))?;
        let tls = Tls::open(&soname("libssl", major))?;
        if crypto.OpenSSL_version as usize != tls.OpenSSL_version as usize {
            return Err(Error::NotReady(format!(
                "{} is bound to another libcrypto than the one next to it; unset LD_PRELOAD and \
                 LD_LIBRARY_PATH, or build the bundle with its own run path",
                soname("libssl", major).display()
            )));
        }
        let options = INIT_NO_LOAD_CONFIG | INIT_NO_ATEXIT;
        // SAFETY: both functions take option bits and an optional settings object.
        let (started, number, version) = unsafe {
            let started = (crypto.OPENSSL_init_crypto)(options, ptr::null()) == 1
                && (tls.OPENSSL_init_ssl)(options, ptr::null()) == 1;
            let version = CStr::from_ptr((crypto.OpenSSL_version)(0)).to_string_lossy();
            (started, (crypto.OpenSSL_version_num)(), version.into_owned())
        };
        if !started {
            return Err(Error::NotReady(format!("{version} did not initialise")));
        }
        if number < VERSION_MIN {
            return Err(Error::NotReady(format!(
                "{} is {version}; ML-KEM and ML-DSA need OpenSSL 3.5 or later",
                prefix.display()
            )));
        }
        Ok(Ossl {
            crypto,
            tls,
            prefix: prefix.to_path_buf(),
            modules: lib.join("ossl-modules"),
            version,
        })
    }

    /// `OpenSSL 3.5.5 27 Jan 2026`, as the loaded libcrypto calls itself.
    pub(crate) fn version(&self) -> &str {
        &self.version
    }

    /// Empties this thread's error queue into one line, the oldest entry (the cause) first.
    fn error_queue(&self) -> String {
        let mut entries: Vec<String> = Vec::new();
        loop {
            let mut data: *const c_char = ptr::null();
            let mut flags: c_int = 0;
            let none = ptr::null_mut();
            // SAFETY: the three null out-pointers mean "not wanted"; data and flags are written.
            let code = unsafe {
                (self.crypto.ERR_get_error_all)(none, ptr::null_mut(), none, &mut data, &mut flags)
            };
            if code == 0 {
                break;
            }
            let entry = self.error_entry(code, data, flags);
            // The same reason is often raised again, without the details, on the way up.
            if !entries.iter().any(|earlier| earlier.starts_with(&entry)) {
                entries.push(entry);
            }
        }
        if entries.is_empty() { "no reason given".into() } else { entries.join("; ") }
    }

    /// One entry of the queue: its reason, and the details the raiser attached.
    fn error_entry(&self, code: std::ffi::c_ulong, data: *const c_char, flags: c_int) -> String {
        const ERR_TXT_STRING: c_int = 2;
        let mut buffer = [0 as c_char; 256];
        // SAFETY: the buffer's length is passed, and the result is terminated; a non-null reason
        // is a static string; data is a string when the flag says so, valid until the next call.
        unsafe {
            let reason = (self.crypto.ERR_reason_error_string)(code);
            let detail = if flags & ERR_TXT_STRING != 0 && !data.is_null() && *data != 0 {
                CStr::from_ptr(data).to_string_lossy()
            } else {
                "".into()
            };
            // Reasons below 64 belong to the whole library and have no text of their own.
            match (reason.is_null(), detail.is_empty()) {
                (false, true) => CStr::from_ptr(reason).to_string_lossy().into_owned(),
                (false, false) => {
                    format!("{} ({detail})", CStr::from_ptr(reason).to_string_lossy())
                }
                (true, false) => detail.into_owned(),
                (true, true) => {
                    (self.crypto.ERR_error_string_n)(code, buffer.as_mut_ptr(), buffer.len());
                    CStr::from_ptr(buffer.as_ptr()).to_string_lossy().into_owned()
                }
            }
        }
    }

    fn call_error(&self, what: &str) -> Error {
        Error::Call(format!("{what} failed: {}", self.error_queue()))
    }

    /// Turns OpenSSL's "1 is success" into a `Result`; `what` names the call for the message.
    fn done(&self, what: &str, status: c_int) -> Result<(), Error> {
        if status > 0 { Ok(()) } else { Err(self.call_error(what)) }
    }

    /// Takes ownership of a new object; null means that the call failed.
    fn owned<T>(
        &self,
        what: &str,
        object: *mut T,
        free: unsafe extern "C" fn(*mut T),
    ) -> Result<Handle<T>, Error> {
        match NonNull::new(object) {
            Some(pointer) => Ok(Handle { pointer, free }),
            None => Err(self.call_error(what)),
        }
    }
}

/// An owned OpenSSL object with the function that frees it.
struct Handle<T> {
    pointer: NonNull<T>,
    free: unsafe extern "C" fn(*mut T),
}

impl<T> Handle<T> {
    fn as_ptr(&self) -> *mut T {
        self.pointer.as_ptr()
    }
}

impl<T> Drop for Handle<T> {
    fn drop(&mut self) {
        // SAFETY: `Ossl::owned` is the only constructor, and it takes the one reference we hold.
        unsafe { (self.free)(self.pointer.as_ptr()) }
    }
}

/// The folder of the shared libraries: `lib`, or `lib64` where a build chose that.
fn find_library_folder(prefix: &Path) -> Result<PathBuf, Error> {
    for folder in ["lib", "lib64"].map(|name| prefix.join(name)) {
        for major in ["3", "4"] {
            if folder.join(format!("libcrypto.so.{major}")).exists() {
                return Ok(folder);
            }
        }
    }
    Err(Error::NotReady(format!(
        "no OpenSSL at {}: lib/libcrypto.so.3 is missing; build the bundle with `gabion bundle \
         build`, or name another one with --prefix or GABION_OPENSSL_PREFIX",
        prefix.display()
    )))
}

/// Text for C. The harness passes names and paths; one with a NUL inside cannot be right.
fn c_string(text: &str) -> Result<CString, Error> {
    CString::new(text).map_err(|_| Error::Call(format!("{text:?} contains a NUL byte")))
}

/// A library context with its own providers and default properties. Clones share it.
#[derive(Clone)]
pub(crate) struct Context {
    inner: Arc<ContextInner>,
}

struct ContextInner {
    ossl: &'static Ossl,
    providers: Vec<NonNull<OsslProvider>>,
    raw: Handle<OsslLibCtx>,
}

// SAFETY: a library context is made for use by many threads at once; after `Context::new` has
// loaded the providers, nothing here changes it.
unsafe impl Send for ContextInner {}
// SAFETY: see above.
unsafe impl Sync for ContextInner {}

impl Context {
    /// Makes a library context, loads `providers` in that order and sets the default properties.
    /// Modules are looked for in `modules`, or where the libraries are installed.
    ///
    /// Once a provider was loaded explicitly, OpenSSL no longer falls back to loading `default` by
    /// itself, so the context holds these providers and no others.
    ///
    /// # Errors
    /// `NotReady`, with OpenSSL's own words, when a provider does not load.
    pub(crate) fn new(
        ossl: &'static Ossl,
        modules: Option<&Path>,
        providers: &[&str],
        properties: Option<&str>,
    ) -> Result<Context, Error> {
        Self::with_settings(ossl, modules, providers, properties, &[])
    }

    /// [`Context::new`], with `settings` for the provider `gabion`, as in its section of a
    /// configuration file.
    ///
    /// # Errors
    /// See [`Context::new`].
    pub(crate) fn with_settings(
        ossl: &'static Ossl,
        modules: Option<&Path>,
        providers: &[&str],
        properties: Option<&str>,
        settings: &[(&str, &str)],
    ) -> Result<Context, Error> {
        // SAFETY: no arguments; the result is owned here.
        let raw = unsafe { (ossl.crypto.OSSL_LIB_CTX_new)() };
        let raw = ossl.owned("OSSL_LIB_CTX_new", raw, ossl.crypto.OSSL_LIB_CTX_free)?;
        let modules = modules.unwrap_or(&ossl.modules);
        let search_path = CString::new(modules.as_os_str().as_bytes())
            .map_err(|_| Error::Call("the module folder's name contains a NUL byte".into()))?;
        // SAFETY: live context, terminated path, copied by the callee.
        let status = unsafe {
            let set = ossl.crypto.OSSL_PROVIDER_set_default_search_path;
            set(raw.as_ptr(), search_path.as_ptr())
        };
        ossl.done("OSSL_PROVIDER_set_default_search_path", status)?;
        let mut inner = ContextInner { ossl, providers: Vec::new(), raw };
        for name in providers {
            let provider = inner.load_provider(name, modules, settings)?;
            inner.providers.push(provider);
        }
        if let Some(properties) = properties {
            let text = c_string(properties)?;
            // SAFETY: live context, terminated text, copied by the callee.
            let status = unsafe {
                (ossl.crypto.EVP_set_default_properties)(inner.raw.as_ptr(), text.as_ptr())
            };
            ossl.done("EVP_set_default_properties", status)?;
        }
        Ok(Context { inner: Arc::new(inner) })
    }

    fn ossl(&self) -> &'static Ossl {
        self.inner.ossl
    }

    fn raw(&self) -> *mut OsslLibCtx {
        self.inner.raw.as_ptr()
    }
}

impl ContextInner {
    fn load_provider(
        &self,
        name: &str,
        modules: &Path,
        ours: &[(&str, &str)],
    ) -> Result<NonNull<OsslProvider>, Error> {
        let ossl = self.ossl;
        let settings = match name {
            "fips" => fips_settings(&ossl.prefix)?,
            "gabion" => {
                let pair = |(key, value): &(&str, &str)| Ok((c_string(key)?, c_string(value)?));
                ours.iter().map(pair).collect::<Result<_, Error>>()?
            }
            _ => Vec::new(),
        };
        let mut params: Vec<OsslParam> = settings
            .iter()
            .map(|(key, value)| OsslParam {
                key: key.as_ptr(),
                data_type: PARAM_UTF8_STRING,
                data: value.as_ptr() as *mut c_void,
                data_size: value.as_bytes().len(),
                return_size: 0,
            })
            .collect();
        params.push(OsslParam {
            key: ptr::null(),
            data_type: 0,
            data: ptr::null_mut(),
            data_size: 0,
            return_size: 0,
        });
        let c_name = c_string(name)?;
        // SAFETY: live context; the parameter list ends with a null key, and its strings outlive
        // the call, which copies them.
        let provider = unsafe {
            let load = ossl.crypto.OSSL_PROVIDER_load_ex;
            load(self.raw.as_ptr(), c_name.as_ptr(), params.as_mut_ptr())
        };
        NonNull::new(provider).ok_or_else(|| self.provider_missing(name, modules))
    }

    fn provider_missing(&self, name: &str, modules: &Path) -> Error {
        let remedy = match name {
            "gabion" => "install the module with `gabion bundle build` or `make install`",
            "fips" => "rebuild the bundle with `gabion bundle build --repair`",
            _ => "rebuild the bundle with `gabion bundle build`",
        };
        Error::NotReady(format!(
            "the provider `{name}` did not load from {}: {}; {remedy}",
            modules.display(),
            self.ossl.error_queue()
        ))
    }
}

impl Drop for ContextInner {
    fn drop(&mut self) {
        for provider in &self.providers {
            // SAFETY: loaded by this context, unloaded once; the context itself goes after this.
            unsafe { (self.ossl.crypto.OSSL_PROVIDER_unload)(provider.as_ptr()) };
        }
    }
}

/// The settings that `openssl fipsinstall` wrote: the fips module refuses to start without its MAC.
fn fips_settings(prefix: &Path) -> Result<Vec<(CString, CString)>, Error> {
    let path = prefix.join("ssl/fipsmodule.cnf");
    let text = std::fs::read_to_string(&path).map_err(|cause| {
        Error::NotReady(format!(
            "{} could not be read: {cause}; it is made with the bundle: `gabion bundle build`",
            path.display()
        ))
    })?;
    let mut settings = Vec::new();
    for line in text.lines() {
        let line = line.split('#').next().unwrap_or_default();
        if let Some((key, value)) = line.split_once('=') {
            settings.push((c_string(key.trim())?, c_string(value.trim())?));
        }
    }
    Ok(settings)
}
