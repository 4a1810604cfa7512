//! The boundary of every exported function: panics are caught, and errors become codes with a
//! message.

use std::ffi::{CStr, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};

use gabion_engine::host::CancellationGuard;
use gabion_engine::keys::stateful::LedgerError;
use gabion_engine::{Engine, Error, InputError, Status, memory};

use crate::last;

/// `gabion_status`.
pub type Code = i32;

/// The codes of gabion.h.
pub mod code {
    use super::Code;

    pub const OK: Code = 0;
    pub const NOT_RUN: Code = -1;
    pub const ARGUMENT: Code = -2;
    pub const ALGORITHM: Code = -3;
    pub const LENGTH: Code = -4;
    pub const KEY: Code = -5;
    pub const INPUT: Code = -6;
    pub const SIGNATURE: Code = -7;
    pub const RANDOMNESS: Code = -8;
    pub const FAULT: Code = -9;
    pub const BACKEND: Code = -10;
    pub const MEMORY: Code = -11;
    pub const STATE: Code = -12;
}

/// The description of each code; an unknown code has the last one.
static TEXTS: [&CStr; 14] = [
    c"ok",
    c"the lane was not run",
    c"an argument is NULL, not aligned, not text, or overlaps another",
    c"no such algorithm, or it has no such operation",
    c"a length does not fit",
    c"the key was refused",
    c"the input has the wrong form",
    c"the signature does not verify",
    c"no randomness",
    c"a check of the library failed",
    c"no implementation passed its self-test",
    c"no memory",
    c"the key's state forbids it",
    c"unknown status",
];

/// The failure of a call: the code, and the message for `gabion_last_error`.
#[derive(Debug)]
pub struct Failure {
    pub code: Code,
    pub text: String,
}

impl Failure {
    pub fn new(code: Code, text: impl Into<String>) -> Self {
        Failure { code, text: text.into() }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let code = match &error {
            Error::Input(input) => match input {
                InputError::Length { .. } | InputError::Batch { .. } => code::LENGTH,
                InputError::PublicKey { .. } | InputError::PrivateKey { .. } => code::KEY,
                InputError::TooManyAttempts(_) => code::FAULT,
                _ => code::INPUT,
            },
            Error::TooMany { .. } => code::LENGTH,
            Error::WrongAlgorithm { .. } | Error::NotBuilt(_) => code::ALGORITHM,
            Error::Lane { status, .. } => of_lane(*status),
            Error::BadSignature => code::SIGNATURE,
            Error::Entropy(_) => code::RANDOMNESS,
            Error::NoSuchBackend { .. }
            | Error::NoDevice { .. }
            | Error::NoBackend(_)
            | Error::BackendUnavailable { .. } => code::BACKEND,
            Error::NoMemory(_) => code::MEMORY,
            Error::Ledger(LedgerError::RequestId) => code::INPUT,
            Error::Ledger(_) => code::STATE,
            Error::KeyFile(_) => code::KEY,
            _ => code::FAULT,
        };
        Failure { code, text: error.to_string() }
    }
}

/// Returns the code of a lane's status.
pub fn of_lane(status: Status) -> Code {
    match status {
        Status::Ok => code::OK,
        Status::NotRun => code::NOT_RUN,
        Status::InvalidKey => code::KEY,
        Status::InvalidInput => code::INPUT,
        Status::InvalidSignature => code::SIGNATURE,
        Status::NoMemory => code::MEMORY,
        _ => code::FAULT,
    }
}

/// Returns the engine of this process, if there is memory for an operation.
pub fn engine() -> Result<&'static Engine, Failure> {
    memory::check()?;
    Ok(Engine::global()?)
}

/// Runs the body of an exported function, converting an error or a panic to a code and a message. A
/// cancellation of the thread is delayed until the call returns ([`CancellationGuard`]).
pub fn border(body: impl FnOnce() -> Result<(), Failure>) -> Code {
    let _held = CancellationGuard::hold();
    // A panic leaves no partial state: handles are set in one step, and outputs written by one
    // copy.
    let failure = match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => return code::OK,
        Ok(Err(failure)) => failure,
        Err(_) => Failure::new(code::FAULT, "internal error: a panic was caught; please report it"),
    };
    last::set(&failure.text);
    failure.code
}

/// Returns the description of a status; never NULL.
#[unsafe(no_mangle)]
pub extern "C" fn gabion_status_text(status: Code) -> *const c_char {
    let index = usize::try_from(-i64::from(status)).unwrap_or(usize::MAX);
    TEXTS[index.min(TEXTS.len() - 1)].as_ptr()
}

/// Writes the message of the calling thread's last failure.
///
/// # Safety
/// `text` is NULL or has `room` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gabion_last_error(text: *mut c_char, room: usize) -> usize {
    last::with(|last| {
        if !text.is_null() && room > 0 {
            let used = last.len().min(room - 1);
            // SAFETY: the caller's buffer has `room` bytes, and used + 1 is at most that.
            unsafe {
                text.cast::<u8>().copy_from_nonoverlapping(last.as_ptr(), used);
                *text.add(used) = 0;
            }
        }
        last.len()
    })
}

#[cfg(all(test, target_os = "linux"))]
#[allow(clippy::expect_used, clippy::unwrap_used)] // A panic is how a test fails.
mod tests {
    use super::*;
    use std::ffi::c_int;

    /// Simulates another thread that cancels this one during a blocking call.
    #[test]
    fn a_cancellation_waits_until_the_call_is_over() {
        unsafe extern "C" {
            fn pthread_self() -> usize;
            fn pthread_cancel(thread: usize) -> c_int;
            fn pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
        }
        let call = || {
            // SAFETY: this thread is asked to end, and does not have to any more at its end.
            unsafe {
                assert_eq!(pthread_cancel(pthread_self()), 0);
                let answer = border(|| {
                    std::thread::sleep(std::time::Duration::from_millis(1));
                    Ok(())
                });
                let mut before = -1;
                assert_eq!(pthread_setcancelstate(1, &mut before), 0);
                (answer, before)
            }
        };
        // PTHREAD_CANCEL_ENABLE is 0: the cancellation state of the thread is unchanged.
        assert_eq!(std::thread::spawn(call).join().unwrap(), (code::OK, 0));
    }
}
