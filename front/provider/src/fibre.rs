//! libcrypto's asynchronous jobs, of the very libcrypto that loaded the provider.
//!
//! The provider links no libcrypto, and the core passes none of these functions to a provider. They
//! are looked up in the file that a function of the core lies in: a process may hold two
//! libcryptos, and one that was loaded for itself alone (`RTLD_LOCAL`) is not found by name.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr::{NonNull, null_mut};

use crate::ffi::AnyFunction;

/// ASYNC_JOB.
pub enum Job {}
/// ASYNC_WAIT_CTX.
pub enum WaitCtx {}

type GetCurrentJob = unsafe extern "C" fn() -> *mut Job;
type GetWaitCtx = unsafe extern "C" fn(*mut Job) -> *mut WaitCtx;
type PauseJob = unsafe extern "C" fn() -> c_int;
type GetFd =
    unsafe extern "C" fn(*mut WaitCtx, *const c_void, *mut c_int, *mut *mut c_void) -> c_int;
/// The callback for the release of a wait context, with its descriptor and custom pointer.
pub type Cleanup = unsafe extern "C" fn(*mut WaitCtx, *const c_void, c_int, *mut c_void);
type GetCallback =
    unsafe extern "C" fn(*mut WaitCtx, *mut Option<AnyFunction>, *mut *mut c_void) -> c_int;
type SetWaitFd =
    unsafe extern "C" fn(*mut WaitCtx, *const c_void, c_int, *mut c_void, Option<Cleanup>) -> c_int;

/// The functions.
#[derive(Clone, Copy)]
pub struct Fibres {
    current: GetCurrentJob,
    wait_ctx: GetWaitCtx,
    pause: PauseJob,
    get_fd: GetFd,
    set_fd: SetWaitFd,
    get_callback: GetCallback,
}

impl Fibres {
    /// Returns the functions of the libcrypto that contains a function of the core. `None` if one
    /// of them is missing.
    pub fn beside(function: AnyFunction) -> Option<Self> {
        let file = File::of(function as *const c_void)?;
        // SAFETY: each function is of the type of its manual page, ASYNC_start_job(3) and
        // ASYNC_WAIT_CTX_new(3).
        unsafe {
            Some(Fibres {
                current: std::mem::transmute::<NonNull<c_void>, GetCurrentJob>(
                    file.symbol(c"ASYNC_get_current_job")?,
                ),
                wait_ctx: std::mem::transmute::<NonNull<c_void>, GetWaitCtx>(
                    file.symbol(c"ASYNC_get_wait_ctx")?,
                ),
                pause: std::mem::transmute::<NonNull<c_void>, PauseJob>(
                    file.symbol(c"ASYNC_pause_job")?,
                ),
                get_fd: std::mem::transmute::<NonNull<c_void>, GetFd>(
                    file.symbol(c"ASYNC_WAIT_CTX_get_fd")?,
                ),
                set_fd: std::mem::transmute::<NonNull<c_void>, SetWaitFd>(
                    file.symbol(c"ASYNC_WAIT_CTX_set_wait_fd")?,
                ),
                get_callback: std::mem::transmute::<NonNull<c_void>, GetCallback>(
                    file.symbol(c"ASYNC_WAIT_CTX_get_callback")?,
                ),
            })
        }
    }

    /// The wait context of the job that this thread is in. None outside of one.
    pub fn current(&self) -> Option<NonNull<WaitCtx>> {
        // SAFETY: libcrypto's functions; a job that runs is alive.
        unsafe {
            let job = NonNull::new((self.current)())?;
            NonNull::new((self.wait_ctx)(job.as_ptr()))
        }
    }

    /// Returns whether the program of a job wants to be called back instead of waiting for a
    /// descriptor.
    ///
    /// # Safety
    /// `context` is that of the job that runs.
    pub unsafe fn has_callback(&self, context: NonNull<WaitCtx>) -> bool {
        let (mut callback, mut argument) = (None, null_mut());
        // SAFETY: as the caller vouches; room for both answers.
        unsafe { (self.get_callback)(context.as_ptr(), &mut callback, &mut argument) == 1 }
    }

    /// Pauses the job that this thread is in, until its program resumes it. False where libcrypto
    /// could not. True is no proof that it did: it does not pause where that is blocked.
    pub fn pause(&self) -> bool {
        // SAFETY: libcrypto's function. The program resumes the job on this stack, or never.
        unsafe { (self.pause)() == 1 }
    }

    /// Returns the custom pointer stored with the descriptor that `key` set, if any.
    ///
    /// # Safety
    /// `context` is that of the job that runs.
    pub unsafe fn beside_fd(
        &self,
        context: NonNull<WaitCtx>,
        key: *const c_void,
    ) -> Option<NonNull<c_void>> {
        let (mut fd, mut custom) = (-1, null_mut());
        // SAFETY: as the caller vouches; room for both answers.
        let found = unsafe { (self.get_fd)(context.as_ptr(), key, &mut fd, &mut custom) };
        NonNull::new(custom).filter(|_| found == 1)
    }

    /// Adds a descriptor on which the program waits; `cleanup` is called with `custom` in the end.
    ///
    /// # Safety
    /// `context` is that of the job that runs; `cleanup` takes `custom`.
    pub unsafe fn set_fd(
        &self,
        context: NonNull<WaitCtx>,
        key: *const c_void,
        fd: c_int,
        custom: *mut c_void,
        cleanup: Cleanup,
    ) -> bool {
        // SAFETY: as the caller vouches.
        unsafe { (self.set_fd)(context.as_ptr(), key, fd, custom, Some(cleanup)) == 1 }
    }
}

/// A loaded file, by where it is mapped.
struct File {
    base: *mut c_void,
    handle: Option<NonNull<c_void>>,
}

/// Where an address lies: the file's name and where that is mapped.
fn place(address: *const c_void) -> Option<(*const c_char, *mut c_void)> {
    // SAFETY: room for the answer, which is only read where there is one.
    unsafe {
        let mut info: libc::Dl_info = std::mem::zeroed();
        let found = libc::dladdr(address, &mut info) != 0 && !info.dli_fname.is_null();
        found.then_some((info.dli_fname, info.dli_fbase))
    }
}

impl File {
    /// The file that an address lies in.
    fn of(address: *const c_void) -> Option<Self> {
        let (name, base) = place(address)?;
        // SAFETY: a C string of the loader's. Nothing is loaded anew; a program cannot be opened by
        // its name, and then only symbols that it exports will be found.
        let handle = unsafe { libc::dlopen(name, libc::RTLD_NOLOAD | libc::RTLD_LAZY) };
        Some(File { base, handle: NonNull::new(handle) })
    }

    /// Returns a function of this library, ignoring functions of other libraries with the same
    /// name.
    fn symbol(&self, name: &CStr) -> Option<NonNull<c_void>> {
        let handle = self.handle.map_or(libc::RTLD_DEFAULT, NonNull::as_ptr);
        // SAFETY: a handle that is open, or the one for all; a C string.
        let symbol = NonNull::new(unsafe { libc::dlsym(handle, name.as_ptr()) })?;
        let (_, base) = place(symbol.as_ptr())?;
        (base == self.base).then_some(symbol)
    }
}

impl Drop for File {
    fn drop(&mut self) {
        if let Some(handle) = self.handle {
            // SAFETY: opened above. The file stays: it is the one that loaded this module.
            unsafe { libc::dlclose(handle.as_ptr()) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_symbol_is_that_of_the_files_own() {
        let libc = File::of(libc::getpid as *const c_void).unwrap();
        assert!(libc.handle.is_some());
        assert_eq!(libc.symbol(c"getpid").unwrap().as_ptr(), libc::getpid as *mut c_void);
        assert!(libc.symbol(c"ASYNC_pause_job").is_none());
        // This program: what libc exports is found by way of it, and is not its own.
        let here = File::of(place as *const c_void).unwrap();
        assert_ne!(here.base, libc.base);
        assert!(here.symbol(c"getpid").is_none());
        assert!(File::of(std::ptr::null()).is_none());
    }

    #[test]
    fn without_libcrypto_there_are_no_fibres() {
        // SAFETY: only its address is used.
        let function = unsafe {
            std::mem::transmute::<unsafe extern "C" fn() -> libc::pid_t, AnyFunction>(libc::getpid)
        };
        assert!(Fibres::beside(function).is_none());
    }
}
