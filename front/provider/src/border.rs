//! The border that every entry point crosses: panics and cancellations stop at it, calls and
//! failures are counted, and pointers become references.

use std::ffi::{c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};

use gabion_engine::host::CancellationGuard;

use crate::error::Failure;
use crate::ffi::{Param, ParamsIn};
use crate::provider::{Provider, ProviderRef};
use crate::stats::Counter;

/// Runs the body of an entry point. A failure goes to OpenSSL's error queue and becomes `refusal`;
/// so does a panic, which must not unwind into C. Nor does a cancellation of the thread, which
/// waits until the call is over ([`CancellationGuard`]).
pub fn border<T>(
    provider: Option<&Provider>,
    refusal: T,
    body: impl FnOnce() -> Result<T, Failure>,
) -> T {
    cross(provider, None, refusal, |_| body())
}

/// Runs a body like [`border`], and counts the call and its failure for `GABION_STATS`. The body
/// gets the cancellation guard, which it must release to pause the job that it runs in.
pub fn counted<T>(
    provider: &Provider,
    counter: &Counter,
    refusal: T,
    body: impl FnOnce(&CancellationGuard) -> Result<T, Failure>,
) -> T {
    cross(Some(provider), Some(counter), refusal, body)
}

/// Moves a value to the heap and hands it to C.
pub fn hand_over<T>(value: T) -> *mut c_void {
    Box::into_raw(Box::new(value)).cast()
}

/// Borrows a value of [`hand_over`].
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

/// Borrows the value behind a pointer of [`hand_over`] mutably.
///
/// # Errors
/// A null pointer.
///
/// # Safety
/// `pointer` is null or came from `hand_over::<T>`, and no other code uses the value during `'a`.
pub unsafe fn borrow_mut<'a, T>(pointer: *mut c_void) -> Result<&'a mut T, Failure> {
    // SAFETY: as the caller vouches.
    unsafe { pointer.cast::<T>().as_mut() }.ok_or(Failure::Misuse("a null pointer was passed"))
}

/// Takes a value of [`hand_over`] back, and drops it.
///
/// # Safety
/// `pointer` is null or came from `hand_over::<T>` and is not used again.
pub unsafe fn take_back<T>(pointer: *mut c_void) {
    if !pointer.is_null() {
        let _held = CancellationGuard::hold();
        // A destructor that panics must not unwind into C either.
        let _ = catch_unwind(AssertUnwindSafe(|| {
            // SAFETY: as the caller vouches.
            drop(unsafe { Box::from_raw(pointer.cast::<T>()) });
        }));
    }
}

/// Frees a value of [`hand_over`]; an entry point.
///
/// # Safety
/// Those of [`take_back`]: the core frees a key or a context once, after its last use.
pub unsafe extern "C" fn free<T>(pointer: *mut c_void) {
    // SAFETY: as the caller vouches.
    unsafe { take_back::<T>(pointer) }
}

/// Duplicates a context; an entry point.
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

/// A context of [`hand_over`], which the core creates, configures and uses from one thread.
pub trait TakesParams {
    /// Returns the provider that it belongs to.
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
/// `context` is null or came from `hand_over::<T>`, and no other code uses it meanwhile.
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

/// Sets parameters of a context; an entry point.
///
/// # Safety
/// Those of [`change`]; `params` is null or a list with an end.
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

fn cross<T>(
    provider: Option<&Provider>,
    counter: Option<&Counter>,
    refusal: T,
    body: impl FnOnce(&CancellationGuard) -> Result<T, Failure>,
) -> T {
    let held = CancellationGuard::hold();
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
        let _ = catch_unwind(AssertUnwindSafe(|| provider.core.raise(failure)));
    }
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    panic
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "panic without a message".to_owned())
}

#[cfg(test)]
mod tests {
    use std::ffi::c_char;
    use std::sync::Mutex;

    use super::*;
    use crate::core::Core;
    use crate::ffi::{CoreHandle, Dispatch, c_text, entry, function};
    use crate::key_types::KEY_TYPES;
    use crate::names;
    use crate::stats::{self, Operation};

    type NewError = unsafe extern "C" fn(*const CoreHandle);
    type VsetError = unsafe extern "C" fn(*const CoreHandle, u32, *const c_char, *mut c_void);

    /// The errors that the simulated core received: reasons and texts.
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

    #[test]
    fn a_panic_stops_at_the_border_and_becomes_an_error() {
        let table = [
            entry!(function::CORE_NEW_ERROR, new_error, NewError),
            entry!(function::CORE_VSET_ERROR, vset_error, VsetError),
            Dispatch::END,
        ];
        // SAFETY: a table with an end.
        let provider = unsafe {
            let core = Core::collect(std::ptr::null(), table.as_ptr());
            Provider::new(core, table.as_ptr(), names::tables)
        };
        let answer = border(Some(&provider), 0, || -> Result<c_int, Failure> {
            panic!("100% wrong");
        });
        assert_eq!(answer, 0);
        let counter = stats::counter(KEY_TYPES[5], Operation::Sign);
        let answer = counted(&provider, counter, 0, |_| -> Result<c_int, Failure> {
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
        assert_eq!(counter.values(), (1, 1));
    }

    /// Simulates another thread that cancels this one during a blocking call.
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
}
