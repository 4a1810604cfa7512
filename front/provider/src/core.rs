//! What the core offers a provider: its error queue and its source of randomness; and the border
//! that every entry point crosses.

use std::ffi::{CStr, CString, c_char, c_int, c_uchar, c_void};
use std::ops::Deref;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use gabion_engine::host::Uncancelled;
use gabion_engine::{Engine, Entropy, EntropyError, OsEntropy, memory};

use crate::cache::PublicKeys;
use crate::codec::bio::BioCalls;
use crate::error::Failure;
use crate::ffi::{AnyFunction, CoreHandle, Dispatch, Param, ParamsIn, function, name};
use crate::fibre::Fibres;
use crate::names::Tables;
use crate::paused::PausedJobs;
use crate::pool::KeyPools;
use crate::process::Process;
use crate::say::say;
use crate::served::Served;
use crate::settings::{self, Switch};
use crate::stats::{self, Counter, Operation};

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

/// One loading of the provider into one library context.
pub struct Provider {
    handle: *const CoreHandle,
    upcalls: Upcalls,
    /// What it registers.
    pub tables: Tables,
    /// How files are read and written.
    pub bio: BioCalls,
    /// Public keys that came in lately.
    pub public_keys: PublicKeys,
    /// Key pairs that were made ahead.
    pub key_pools: KeyPools,
    /// Operations in asynchronous jobs.
    pub paused: PausedJobs,
    /// Whether X25519 by itself is served.
    pub x25519: bool,
    /// Whether TLS may use signature schemes whose codepoints are drafts' or private.
    pub tls_drafts: bool,
    /// The core's version, major and minor, where what the default provider does depends on it.
    pub core_version: (u32, u32),
}

/// The provider that a key or a context came from.
///
/// The core keeps a provider loaded, and its context in place, as long as anything made by it is
/// left, so this may be held by all of that.
#[derive(Clone, Copy)]
pub struct ProviderRef(*const Provider);

// SAFETY: a provider is immutable once made, and the core's functions may be called from any thread.
unsafe impl Send for ProviderRef {}
// SAFETY: as above.
unsafe impl Sync for ProviderRef {}

impl ProviderRef {
    /// # Safety
    /// `context` is what [`Provider::into_context`] gave, not yet torn down.
    pub unsafe fn new(context: *mut c_void) -> Self {
        ProviderRef(context.cast_const().cast())
    }
}

impl Deref for ProviderRef {
    type Target = Provider;

    fn deref(&self) -> &Provider {
        // SAFETY: `new` was called with a provider's context, and the core keeps it in place.
        unsafe { &*self.0 }
    }
}

impl Provider {
    /// Collects the core's functions.
    ///
    /// # Safety
    /// `table` is the core's dispatch table, with an end.
    pub unsafe fn new(handle: *const CoreHandle, table: *const Dispatch) -> Self {
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
        // SAFETY: as the caller vouches.
        let bio = unsafe { BioCalls::collect(table) };
        let provider = Provider::with(handle, upcalls, bio);
        provider.name_objects();
        provider
    }

    /// A provider over functions of the core, with the settings that this tells.
    fn with(handle: *const CoreHandle, upcalls: Upcalls, bio: BioCalls) -> Self {
        let is_on = |switch: Switch| switch.is_on(upcalls.setting(handle, switch.name));
        let process = Arc::new(Process::new());
        let fibres =
            upcalls.new_error.filter(|_| is_on(settings::ASYNC_JOBS)).and_then(|function| {
                // SAFETY: only its address is used.
                Fibres::beside(unsafe { std::mem::transmute::<NewError, AnyFunction>(function) })
            });
        let key_pools = is_on(settings::KEY_POOLS);
        let x25519 = settings::X25519.said(upcalls.setting(handle, settings::X25519.name));
        // FIPS mode `only` has no place for it, whatever else was said.
        let x25519 = x25519.unwrap_or(key_pools) && !settings::is_fips_only();
        Provider {
            tables: Tables::new(x25519),
            x25519,
            bio,
            public_keys: PublicKeys::new(&process),
            key_pools: KeyPools::new(&process, key_pools),
            paused: PausedJobs::new(&process, fibres),
            tls_drafts: is_on(settings::TLS_DRAFTS),
            core_version: upcalls.setting(handle, name::CORE_VERSION).map_or((0, 0), version_of),
            handle,
            upcalls,
        }
    }

    /// What the provider's section of the configuration file says under a name.
    pub fn setting(&self, name: &'static CStr) -> Option<&CStr> {
        self.upcalls.setting(self.handle, name)
    }

    /// Tells OpenSSL the object identifiers of signatures that it does not know, and that each is
    /// its own key type: without that no certificate with them verifies.
    fn name_objects(&self) {
        let (Some(create), Some(add)) = (self.upcalls.create_object, self.upcalls.add_signature)
        else {
            return;
        };
        for (oid, short, long) in self.tables.unknown_objects() {
            // SAFETY: the core's functions and C strings; what exists already is left as it is.
            unsafe {
                create(self.handle, oid.as_ptr(), short.as_ptr(), long.as_ptr());
                add(self.handle, oid.as_ptr(), c"".as_ptr(), oid.as_ptr());
            }
        }
    }

    /// Hands the provider to the core.
    pub fn into_context(self) -> *mut c_void {
        Box::into_raw(Box::new(self)).cast()
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
        // libcrypto makes room for a text, and where it can't, its own reasons for that take the place of
        // this one.
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

/// Major and minor of a version of OpenSSL, such as `3.5.5`; zeros of what is none.
fn version_of(version: &CStr) -> (u32, u32) {
    let mut numbers = version.to_str().unwrap_or_default().split('.').map(str::parse::<u32>);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => (major, minor),
        _ => (0, 0),
    }
}

impl Upcalls {
    /// What the provider's section of the configuration file says under a name.
    fn setting(&self, handle: *const CoreHandle, name: &'static CStr) -> Option<&CStr> {
        let mut answer = std::ptr::null();
        let mut params = [Param::asks_text(name, &mut answer), Param::END];
        // SAFETY: the core's function; a list with an end, with room for the pointer; the text is the
        // core's and stays as long as the provider.
        unsafe {
            (self.get_params?)(handle, params.as_mut_ptr());
            c_text(answer)
        }
    }

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
impl Entropy for Provider {
    fn fill(&self, out: &mut [u8]) -> Result<(), EntropyError> {
        let (Some(get), Some(cleanup)) =
            (self.upcalls.get_user_entropy, self.upcalls.cleanup_user_entropy)
        else {
            return OsEntropy.fill(out);
        };
        for out in out.chunks_mut(ENTROPY_MAX) {
            let bits = 8 * out.len() as c_int;
            let mut buffer = std::ptr::null_mut();
            // SAFETY: the core's functions, of their types; it fills `got` bytes and takes them back.
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

impl Entropy for ProviderRef {
    fn fill(&self, out: &mut [u8]) -> Result<(), EntropyError> {
        (**self).fill(out)
    }
}

/// The engine of this process, where there is memory for an operation.
pub fn engine() -> Result<&'static Engine, Failure> {
    memory::check()?;
    Ok(Engine::global()?)
}

/// Says once in the life of the process that something is wrong with it.
fn tell_once(failure: &Failure) {
    static TOLD: AtomicBool = AtomicBool::new(false);
    if !TOLD.swap(true, Ordering::Relaxed) {
        let text = "OpenSSL may go on with another provider (told once)";
        say(&format!("gabion: {failure}; {text}\n"));
    }
}

/// Runs the body of an entry point. A failure goes to OpenSSL's error queue and becomes `refusal`;
/// so does a panic, which must not unwind into C. Nor does a cancellation of the thread, which waits
/// until the call is over ([`Uncancelled`]).
pub fn border<T>(
    provider: Option<&Provider>,
    refusal: T,
    body: impl FnOnce() -> Result<T, Failure>,
) -> T {
    cross(provider, None, refusal, |_| body())
}

/// As [`border`], and counts the call, and its failure, for `GABION_STATS`.
pub fn counted<T>(
    provider: &Provider,
    algorithm: Served,
    operation: Operation,
    refusal: T,
    body: impl FnOnce() -> Result<T, Failure>,
) -> T {
    counted_as(provider, stats::counter(algorithm, operation), refusal, body)
}

/// The same with a counter.
pub fn counted_as<T>(
    provider: &Provider,
    counter: &Counter,
    refusal: T,
    body: impl FnOnce() -> Result<T, Failure>,
) -> T {
    cross(Some(provider), Some(counter), refusal, |_| body())
}

/// As [`counted`], for a body that may pause the job that it is in: it has to let the thread go.
pub fn counted_in_a_job<T>(
    provider: &Provider,
    algorithm: Served,
    operation: Operation,
    refusal: T,
    body: impl FnOnce(&Uncancelled) -> Result<T, Failure>,
) -> T {
    cross(Some(provider), Some(stats::counter(algorithm, operation)), refusal, body)
}

fn cross<T>(
    provider: Option<&Provider>,
    counter: Option<&Counter>,
    refusal: T,
    body: impl FnOnce(&Uncancelled) -> Result<T, Failure>,
) -> T {
    let held = Uncancelled::hold();
    counter.into_iter().for_each(Counter::call);
    // A body that panicked leaves no half-made state: keys are set at once, outputs by one copy.
    let failure = match catch_unwind(AssertUnwindSafe(|| body(&held))) {
        Ok(Ok(value)) => return value,
        Ok(Err(failure)) => failure,
        Err(panic) => Failure::Panic(panic_text(&*panic)),
    };
    counter.into_iter().for_each(Counter::error);
    raise(provider, &failure);
    refusal
}

/// Raises an error; not even a panic on that way gets out.
fn raise(provider: Option<&Provider>, failure: &Failure) {
    if let Some(provider) = provider {
        let _ = catch_unwind(AssertUnwindSafe(|| provider.raise(failure)));
    }
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    panic
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "panic without a message".to_owned())
}

/// Moves a value to the heap and hands it to C.
pub fn hand_over<T>(value: T) -> *mut c_void {
    Box::into_raw(Box::new(value)).cast()
}

/// Borrows what [`hand_over`] gave.
///
/// # Errors
/// A null pointer.
///
/// # Safety
/// `pointer` is null or came from `hand_over::<T>`, and nothing changes the value during `'a`.
pub unsafe fn borrow<'a, T>(pointer: *const c_void) -> Result<&'a T, Failure> {
    // SAFETY: as the caller vouches.
    unsafe { pointer.cast::<T>().as_ref() }.ok_or(Failure::Misuse("a null pointer was passed"))
}

/// Borrows what [`hand_over`] gave, to change it.
///
/// # Errors
/// A null pointer.
///
/// # Safety
/// `pointer` is null or came from `hand_over::<T>`, and nobody else uses the value during `'a`.
pub unsafe fn borrow_mut<'a, T>(pointer: *mut c_void) -> Result<&'a mut T, Failure> {
    // SAFETY: as the caller vouches.
    unsafe { pointer.cast::<T>().as_mut() }.ok_or(Failure::Misuse("a null pointer was passed"))
}

/// Takes back what [`hand_over`] gave, and drops it.
///
/// # Safety
/// `pointer` is null or came from `hand_over::<T>` and is not used again.
pub unsafe fn take_back<T>(pointer: *mut c_void) {
    if !pointer.is_null() {
        let _held = Uncancelled::hold();
        // A destructor that panics must not unwind into C either.
        let _ = catch_unwind(AssertUnwindSafe(|| {
            // SAFETY: as the caller vouches.
            drop(unsafe { Box::from_raw(pointer.cast::<T>()) });
        }));
    }
}

/// The entry point that frees what [`hand_over`] gave.
///
/// # Safety
/// As [`take_back`]: the core frees a key or a context once, after its last use.
pub unsafe extern "C" fn free<T>(pointer: *mut c_void) {
    // SAFETY: as the caller vouches.
    unsafe { take_back::<T>(pointer) }
}

/// The entry point that copies a context.
///
/// # Safety
/// `context` is null or came from `hand_over::<T>`, and nothing changes it meanwhile.
pub unsafe extern "C" fn dupctx<T: Clone>(context: *mut c_void) -> *mut c_void {
    border(None, std::ptr::null_mut(), || {
        // SAFETY: as the caller vouches.
        let context = unsafe { borrow::<T>(context) }?;
        Ok(hand_over(context.clone()))
    })
}

/// What the core begins, sets parameters of and uses from one thread: a context that [`hand_over`]
/// gave.
pub trait TakesParams {
    /// Whose it is.
    fn provider(&self) -> ProviderRef;

    /// Takes what a list sets.
    ///
    /// # Errors
    /// A parameter that is refused.
    fn set(&mut self, params: ParamsIn<'_>) -> Result<(), Failure>;
}

/// Runs the body of an entry point that changes its context.
///
/// # Safety
/// `context` is null or came from `hand_over::<T>`, and nobody else uses it meanwhile.
pub unsafe fn change<T: TakesParams>(
    context: *mut c_void,
    body: impl FnOnce(&mut T) -> Result<c_int, Failure>,
) -> c_int {
    // SAFETY: as the caller vouches.
    let Ok(context) = (unsafe { borrow_mut::<T>(context) }) else {
        return 0;
    };
    let provider = context.provider();
    border(Some(&provider), 0, || body(context))
}

/// The entry point that sets parameters.
///
/// # Safety
/// As [`change`]; `params` is null or a list with an end.
pub unsafe extern "C" fn set_ctx_params<T: TakesParams>(
    context: *mut c_void,
    params: *const Param,
) -> c_int {
    // SAFETY: as the caller vouches.
    unsafe {
        change::<T>(context, |context| {
            context.set(ParamsIn::new(params))?;
            Ok(1)
        })
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::served::SERVED;
    use std::sync::Mutex;

    /// What the fake core was told: reasons and texts.
    static TOLD: Mutex<Vec<(u32, String)>> = Mutex::new(Vec::new());

    unsafe extern "C" fn new_error(_: *const CoreHandle) {}

    unsafe extern "C" fn vset_error(
        _: *const CoreHandle,
        reason: u32,
        format: *const c_char,
        _: *mut c_void,
    ) {
        // SAFETY: the provider passes a C string.
        let text = unsafe { c_text(format) }.unwrap().to_str().unwrap().to_owned();
        TOLD.lock().unwrap().push((reason, text));
    }

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

    fn provider(upcalls: Upcalls) -> Provider {
        Provider::with(std::ptr::null(), upcalls, BioCalls::default())
    }

    #[test]
    fn a_panic_stops_at_the_border_and_becomes_an_error() {
        let upcalls = Upcalls {
            new_error: Some(new_error),
            vset_error: Some(vset_error),
            ..Upcalls::default()
        };
        let provider = provider(upcalls);
        let answer = border(Some(&provider), 0, || -> Result<c_int, Failure> {
            panic!("100% wrong");
        });
        assert_eq!(answer, 0);
        let (algorithm, operation) = (SERVED[5], Operation::Sign);
        let answer = counted(&provider, algorithm, operation, 0, || -> Result<c_int, Failure> {
            panic!("{} wrong", "quite");
        });
        assert_eq!(answer, 0);
        let answer = border(None, 7, || Err(Failure::Misuse("nobody hears it")));
        assert_eq!(answer, 7);
        // Percent signs are doubled, for the core formats the text.
        let told = TOLD.lock().unwrap();
        let text = "internal fault, please report it: ";
        // ERR_R_INTERNAL_ERROR of ERR_LIB_PROV.
        let code = 57 << 23 | 0xc0103;
        assert_eq!(told[0], (code, format!("{text}100%% wrong")));
        assert_eq!(told[1], (code, format!("{text}quite wrong")));
        assert_eq!(told.len(), 2);
        assert_eq!(stats::counter(algorithm, operation).values(), (1, 1));
    }

    /// As by another thread that gives this one up, in the middle of a call that waits for something.
    #[test]
    fn a_cancellation_waits_until_the_call_is_over() {
        unsafe extern "C" {
            fn pthread_cancel(thread: libc::pthread_t) -> c_int;
            fn pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
        }
        let call = || {
            // SAFETY: this thread is asked to end, and does not have to any more at its end.
            unsafe {
                assert_eq!(pthread_cancel(libc::pthread_self()), 0);
                let answer = border(None, 0, || {
                    std::thread::sleep(std::time::Duration::from_millis(1));
                    Ok(1)
                });
                let mut before = -1;
                assert_eq!(pthread_setcancelstate(1, &mut before), 0);
                (answer, before)
            }
        };
        // PTHREAD_CANCEL_ENABLE is 0: the thread is as it came.
        assert_eq!(std::thread::spawn(call).join().unwrap(), (1, 0));
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

    #[test]
    fn randomness_is_the_cores_or_an_error() {
        let short = provider(Upcalls {
            get_user_entropy: Some(short_entropy),
            cleanup_user_entropy: Some(cleanup),
            ..Upcalls::default()
        });
        let mut out = [0; 32];
        assert!(short.fill(&mut out).unwrap_err().0.contains("gave 31 bytes"));
        assert_eq!(out, [0; 32]);
        // A core without the upcall: the operating system's.
        let bare = provider(Upcalls::default());
        bare.fill(&mut out).unwrap();
        assert_ne!(out, [0; 32]);
    }
}
