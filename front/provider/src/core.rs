//! The services of an OpenSSL core: its error queue, configuration, table of objects and source of
//! randomness.

use std::ffi::{CStr, CString, c_char, c_int, c_uchar, c_void};
use std::sync::atomic::{AtomicBool, Ordering};

use gabion_engine::{Engine, Entropy, EntropyError, OsEntropy, clamp, memory};

use crate::error::Failure;
use crate::ffi::{AnyFunction, CoreHandle, Dispatch, Param, c_text, function, name};
use crate::stderr::print_line;

type NewError = unsafe extern "C" fn(*const CoreHandle);
type SetErrorDebug = unsafe extern "C" fn(*const CoreHandle, *const c_char, c_int, *const c_char);
/// The last argument is a va_list: on the supported targets (x86-64 and AArch64 Linux), where it is
/// larger than two registers, C passes its address.
type VsetError = unsafe extern "C" fn(*const CoreHandle, u32, *const c_char, *mut c_void);
type GetCoreParams = unsafe extern "C" fn(*const CoreHandle, *mut Param) -> c_int;
type CreateObject =
    unsafe extern "C" fn(*const CoreHandle, *const c_char, *const c_char, *const c_char) -> c_int;
type AddSignature = CreateObject;
type GetUserEntropy =
    unsafe extern "C" fn(*const CoreHandle, *mut *mut c_uchar, c_int, usize, usize) -> usize;
type CleanupUserEntropy = unsafe extern "C" fn(*const CoreHandle, *mut c_uchar, usize);

/// The functions of the core that are used here; an older or smaller core may lack any.
#[derive(Clone, Copy, Default)]
struct Upcalls {
    new_error: Option<NewError>,
    set_error_debug: Option<SetErrorDebug>,
    vset_error: Option<VsetError>,
    get_params: Option<GetCoreParams>,
    create_object: Option<CreateObject>,
    add_signature: Option<AddSignature>,
    get_user_entropy: Option<GetUserEntropy>,
    cleanup_user_entropy: Option<CleanupUserEntropy>,
}

/// One core, for one loading of the provider.
pub struct Core {
    handle: *const CoreHandle,
    upcalls: Upcalls,
    /// Its version, major and minor, for behaviour of the default provider that depends on it.
    pub version: (u32, u32),
}

impl Core {
    /// Collects the core's functions, and queries its version.
    ///
    /// # Safety
    /// `table` is null or the core's dispatch table, with an end.
    pub unsafe fn collect(handle: *const CoreHandle, table: *const Dispatch) -> Self {
        let mut upcalls = Upcalls::default();
        let mut at = table;
        // SAFETY: the table has an end; the number says which type the core gave the function.
        unsafe {
            while !at.is_null() && (*at).number != 0 {
                if let Some(function) = (*at).function {
                    upcalls.take((*at).number, function);
                }
                at = at.add(1);
            }
        }
        let core = Core { handle, upcalls, version: (0, 0) };
        let version = core.setting(name::CORE_VERSION).map_or((0, 0), version_of);
        Core { version, ..core }
    }

    /// Returns whether the module knows this core's functions by their numbers: OpenSSL 3.5 and
    /// newer of 3, and 4. Of any other core nothing may be called.
    pub fn is_known(&self) -> bool {
        matches!(self.version, (3, 5..) | (4, _))
    }

    /// Returns a function in the core's libcrypto.
    pub fn function(&self) -> Option<AnyFunction> {
        // SAFETY: only its address is used.
        self.upcalls
            .new_error
            .map(|function| unsafe { std::mem::transmute::<NewError, AnyFunction>(function) })
    }

    /// Returns a setting in the provider's section of the configuration file.
    pub fn setting(&self, name: &'static CStr) -> Option<&CStr> {
        let mut answer = std::ptr::null();
        let mut params = [Param::asks_text(name, &mut answer), Param::END];
        // SAFETY: the core's function; a list with an end, with room for the pointer; the text is
        // the core's and stays as long as the provider.
        unsafe {
            (self.upcalls.get_params?)(self.handle, params.as_mut_ptr());
            c_text(answer)
        }
    }

    /// Registers object identifiers of signatures that OpenSSL does not know, by identifier, short
    /// and long name, and that each is its own key type: otherwise certificates with them do not
    /// verify.
    pub fn name_objects<'a>(&self, objects: impl Iterator<Item = (&'a CStr, &'a CStr, &'a CStr)>) {
        let (Some(create), Some(add)) = (self.upcalls.create_object, self.upcalls.add_signature)
        else {
            return;
        };
        for (oid, short, long) in objects {
            // SAFETY: the core's functions and C strings; what exists already is left as it is.
            unsafe {
                create(self.handle, oid.as_ptr(), short.as_ptr(), long.as_ptr());
                add(self.handle, oid.as_ptr(), c"".as_ptr(), oid.as_ptr());
            }
        }
    }

    /// Puts a failure on OpenSSL's error queue of this thread.
    pub fn raise(&self, failure: &Failure) {
        if failure.is_fault() {
            tell_once(failure);
        }
        let (Some(new_error), Some(vset_error)) = (self.upcalls.new_error, self.upcalls.vset_error)
        else {
            return;
        };
        // The core treats the text as a printf format, so its percent signs are doubled.
        let text = failure.to_string().replace('%', "%%").replace('\0', " ");
        let text = CString::new(text).unwrap_or_default();
        // libcrypto makes room for a text, and where it can't, its own reasons for that take the
        // place of this one.
        let lacks_memory = matches!(failure, Failure::Engine(gabion_engine::Error::NoMemory(_)));
        let text = if lacks_memory { std::ptr::null() } else { text.as_ptr() };
        // A va_list without arguments: the format has no conversion that would look at it.
        let mut no_arguments = [0u64; 4];
        // SAFETY: the functions are the core's, of the types that their numbers stand for.
        unsafe {
            new_error(self.handle);
            if let Some(set_debug) = self.upcalls.set_error_debug {
                set_debug(self.handle, c"gabion".as_ptr(), 0, c"provider".as_ptr());
            }
            let arguments = no_arguments.as_mut_ptr().cast();
            vset_error(self.handle, failure.code(), text, arguments);
        }
    }
}

impl Upcalls {
    /// # Safety
    /// `function` is of the type that `number` stands for.
    unsafe fn take(&mut self, number: c_int, function: AnyFunction) {
        use std::mem::transmute;
        // SAFETY: as the caller vouches.
        unsafe {
            match number {
                function::CORE_NEW_ERROR => {
                    self.new_error = Some(transmute::<AnyFunction, NewError>(function));
                }
                function::CORE_SET_ERROR_DEBUG => {
                    self.set_error_debug = Some(transmute::<AnyFunction, SetErrorDebug>(function));
                }
                function::CORE_VSET_ERROR => {
                    self.vset_error = Some(transmute::<AnyFunction, VsetError>(function));
                }
                function::CORE_GET_PARAMS => {
                    self.get_params = Some(transmute::<AnyFunction, GetCoreParams>(function));
                }
                function::CORE_OBJ_CREATE => {
                    self.create_object = Some(transmute::<AnyFunction, CreateObject>(function));
                }
                function::CORE_OBJ_ADD_SIGID => {
                    self.add_signature = Some(transmute::<AnyFunction, AddSignature>(function));
                }
                function::GET_USER_ENTROPY => {
                    self.get_user_entropy =
                        Some(transmute::<AnyFunction, GetUserEntropy>(function));
                }
                function::CLEANUP_USER_ENTROPY => {
                    self.cleanup_user_entropy =
                        Some(transmute::<AnyFunction, CleanupUserEntropy>(function));
                }
                _ => {}
            }
        }
    }
}

/// Bytes that OpenSSL's seed source gives at once: it asks getentropy(3), which gives no more.
const ENTROPY_MAX: usize = 256;

/// Randomness from OpenSSL's configured seed source; the operating system's generator where the
/// core has no such function.
impl Entropy for Core {
    fn fill(&self, out: &mut [u8]) -> Result<(), EntropyError> {
        let (Some(get), Some(cleanup)) =
            (self.upcalls.get_user_entropy, self.upcalls.cleanup_user_entropy)
        else {
            return OsEntropy.fill(out);
        };
        for out in out.chunks_mut(ENTROPY_MAX) {
            let bits = 8 * out.len() as c_int;
            let mut buffer = std::ptr::null_mut();
            // SAFETY: the core's functions, of their types; it fills `got` bytes and takes them
            // back.
            unsafe {
                let got = get(self.handle, &mut buffer, bits, out.len(), out.len());
                if buffer.is_null() || got != out.len() {
                    if !buffer.is_null() {
                        cleanup(self.handle, buffer, got);
                    }
                    return Err(EntropyError(format!(
                        "OpenSSL's seed source gave {got} bytes; expected {} of full entropy",
                        out.len()
                    )));
                }
                out.copy_from_slice(std::slice::from_raw_parts(buffer, got));
                cleanup(self.handle, buffer, got);
            }
        }
        Ok(())
    }
}

/// A source of private keys of X25519, clamped as the default provider keeps them.
pub struct ClampedEntropy<'a>(pub &'a dyn Entropy);

impl Entropy for ClampedEntropy<'_> {
    fn fill(&self, out: &mut [u8]) -> Result<(), EntropyError> {
        self.0.fill(out)?;
        let (keys, _) = out.as_chunks_mut();
        keys.iter_mut().for_each(clamp);
        Ok(())
    }
}

/// Returns the engine of this process, if there is memory for an operation.
pub fn engine() -> Result<&'static Engine, Failure> {
    memory::check()?;
    Ok(Engine::global()?)
}

/// Parses the major and minor version of OpenSSL, such as `3.5.5`; zeros if it is malformed.
fn version_of(version: &CStr) -> (u32, u32) {
    let mut numbers = version.to_str().unwrap_or_default().split('.').map(str::parse::<u32>);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => (major, minor),
        _ => (0, 0),
    }
}

/// Says once in the life of the process that something is wrong with it.
fn tell_once(failure: &Failure) {
    static TOLD: AtomicBool = AtomicBool::new(false);
    if !TOLD.swap(true, Ordering::Relaxed) {
        let text = "OpenSSL may use another provider instead (reported once)";
        print_line(&format!("gabion: {failure}; {text}\n"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    unsafe extern "C" fn short_entropy(
        _: *const CoreHandle,
        out: *mut *mut c_uchar,
        _bits: c_int,
        min: usize,
        _max: usize,
    ) -> usize {
        // SAFETY: room for one pointer; the memory is given back below.
        unsafe { *out = libc::malloc(min).cast() };
        min - 1
    }

    unsafe extern "C" fn cleanup(_: *const CoreHandle, buffer: *mut c_uchar, _: usize) {
        // SAFETY: from malloc above.
        unsafe { libc::free(buffer.cast()) }
    }

    fn core(upcalls: Upcalls) -> Core {
        Core { handle: std::ptr::null(), upcalls, version: (0, 0) }
    }

    #[test]
    fn versions_are_compared_by_their_numbers() {
        for (version, answer) in [
            (c"3.5.5", (3, 5)),
            (c"3.6.0", (3, 6)),
            (c"3.10.1", (3, 10)),
            (c"4.0.3", (4, 0)),
            (c"4", (0, 0)),
            (c"x", (0, 0)),
        ] {
            assert_eq!(version_of(version), answer, "{version:?}");
        }
    }

    /// The version that the core of the next test reports.
    static VERSION: std::sync::Mutex<Option<&CStr>> = std::sync::Mutex::new(None);

    unsafe extern "C" fn core_params(_: *const CoreHandle, params: *mut Param) -> c_int {
        let version = VERSION.lock().unwrap().map_or(std::ptr::null(), CStr::as_ptr);
        // SAFETY: a list of one text that is asked for, and an end.
        unsafe { (*params).testing_only_answer(version) };
        1
    }

    unsafe extern "C" fn unknown() {
        std::process::abort();
    }

    #[test]
    fn a_core_of_an_unknown_version_is_refused_before_anything_of_it_is_called() {
        // SAFETY: functions have one size; the number stands for this type.
        let params = unsafe { std::mem::transmute::<GetCoreParams, AnyFunction>(core_params) };
        let others = (1..200).filter(|number| *number != function::CORE_GET_PARAMS);
        let mut table: Vec<Dispatch> =
            others.map(|number| Dispatch { number, function: Some(unknown) }).collect();
        table.push(Dispatch { number: function::CORE_GET_PARAMS, function: Some(params) });
        table.push(Dispatch::END);
        for version in [Some(c"5.0.0"), Some(c"3.4.9"), Some(c"2.9"), Some(c"next"), None] {
            *VERSION.lock().unwrap() = version;
            let (mut ours, mut context) = (std::ptr::null(), std::ptr::null_mut());
            let handle = std::ptr::null();
            // SAFETY: a table with an end, and room for both answers.
            let done = unsafe {
                crate::OSSL_provider_init(handle, table.as_ptr(), &mut ours, &mut context)
            };
            assert_eq!(done, 0, "{version:?}");
            assert!(ours.is_null() && context.is_null(), "{version:?}");
        }
    }

    #[test]
    fn randomness_is_the_cores_or_an_error() {
        let short = core(Upcalls {
            get_user_entropy: Some(short_entropy),
            cleanup_user_entropy: Some(cleanup),
            ..Upcalls::default()
        });
        let mut out = [0; 32];
        assert!(short.fill(&mut out).unwrap_err().0.contains("gave 31 bytes"));
        assert_eq!(out, [0; 32]);
        // A core without the upcall: the operating system's.
        let bare = core(Upcalls::default());
        bare.fill(&mut out).unwrap();
        assert_ne!(out, [0; 32]);
    }
}
