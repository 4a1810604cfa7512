//! A context: what a device has of ours, until it is destroyed. Calls of other code in this process keep theirs.

use std::collections::HashMap;
use std::ffi::{CString, c_int, c_uint, c_void};
use std::ptr::null_mut;
use std::sync::{PoisonError, RwLock};

use super::library::{Api, Handle, Refusal, check_code, code};
use crate::device::Launch;

/// `CU_CTX_SCHED_BLOCKING_SYNC`: where the driver itself waits, it sleeps.
const CTX_SCHED_BLOCKING_SYNC: c_uint = 4;
/// `CU_STREAM_NON_BLOCKING`: no order among streams.
const STREAM_NON_BLOCKING: c_uint = 1;
/// `CU_EVENT_DEFAULT`, `CU_EVENT_DISABLE_TIMING`.
const EVENT_DEFAULT: c_uint = 0;
const EVENT_DISABLE_TIMING: c_uint = 2;
/// `CU_MEMHOSTREGISTER_PORTABLE`: locked for every context.
const MEMHOSTREGISTER_PORTABLE: c_uint = 1;
/// Threads of a block of every kernel (`BLOCK` of `kernels/frame.cuh`).
const BLOCK: c_uint = 128;

/// A context with the kernels in it.
pub(super) struct Context {
    api: &'static Api,
    handle: Handle,
    module: Handle,
    functions: RwLock<HashMap<String, Function>>,
    /// The number of this context among those of this process on the device, from 1.
    generation: u64,
}

/// A kernel in a context.
#[derive(Clone, Copy)]
struct Function {
    handle: Handle,
    /// The length of its arguments in bytes.
    arguments: usize,
}

impl Context {
    /// A context on a device, with the kernels of a fat binary.
    ///
    /// # Errors
    /// A [`Refusal`]; then there is no context.
    pub(super) fn new(
        api: &'static Api,
        device: c_int,
        generation: u64,
        image: &[u8],
    ) -> Result<Self, Refusal> {
        let mut handle = 0;
        // SAFETY: a place for the answer.
        let code = unsafe { (api.cuCtxCreate_v2)(&mut handle, CTX_SCHED_BLOCKING_SYNC, device) };
        check_code("cuCtxCreate_v2", code)?;
        let mut context =
            Context { api, handle, module: 0, functions: RwLock::default(), generation };
        // It is this thread's current one now.
        let loaded = pop(api).and_then(|()| {
            context.with(|_| {
                let mut module = 0;
                // SAFETY: a fat binary, which says itself how long it is; the driver keeps no pointer to it.
                let code = unsafe { (api.cuModuleLoadData)(&mut module, image.as_ptr().cast()) };
                check_code("cuModuleLoadData", code).map(|()| module)
            })
        });
        match loaded {
            Ok(module) => {
                context.module = module;
                Ok(context)
            }
            Err(refusal) => {
                context.retire().destroy();
                Err(refusal)
            }
        }
    }

    /// Returns which one of this process's contexts on the device.
    pub(super) fn generation(&self) -> u64 {
        self.generation
    }

    /// Returns the handle for destroying the context.
    pub(super) fn retire(&self) -> RetiredContext {
        RetiredContext { api: self.api, handle: self.handle }
    }

    /// Makes it the thread's current context during `ask`, and then restores the previous one.
    ///
    /// # Errors
    /// A [`Refusal`] of `ask` or of the switch.
    pub(super) fn with<T>(
        &self,
        ask: impl FnOnce(&CurrentContext<'_>) -> Result<T, Refusal>,
    ) -> Result<T, Refusal> {
        // SAFETY: a context that is not destroyed: that takes it away from all who could call this.
        let code = unsafe { (self.api.cuCtxPushCurrent_v2)(self.handle) };
        check_code("cuCtxPushCurrent_v2", code)?;
        let answer = ask(&CurrentContext(self));
        let popped = pop(self.api);
        answer.and_then(|answer| popped.map(|()| answer))
    }
}

/// Pops the thread's current context.
fn pop(api: &Api) -> Result<(), Refusal> {
    let mut handle = 0;
    // SAFETY: a place for the answer.
    check_code("cuCtxPopCurrent_v2", unsafe { (api.cuCtxPopCurrent_v2)(&mut handle) })
}

/// A context that is about to be destroyed.
#[derive(Clone, Copy)]
pub(super) struct RetiredContext {
    api: &'static Api,
    handle: Handle,
}

impl RetiredContext {
    /// Ends the context, with its memory, streams and kernels. Nothing of it runs afterwards.
    pub(super) fn destroy(self) {
        // SAFETY: this is the only owner of the context. An error means that the device failed or
        // that the process ends; either way nothing is left to do.
        let _ = unsafe { (self.api.cuCtxDestroy_v2)(self.handle) };
    }
}

/// The context that is current: all that can be asked of the driver in it.
pub(super) struct CurrentContext<'a>(&'a Context);

impl CurrentContext<'_> {
    /// Returns which one it is.
    pub(super) fn generation(&self) -> u64 {
        self.0.generation
    }

    /// A stream.
    pub(super) fn stream(&self) -> Result<Handle, Refusal> {
        let mut stream = 0;
        // SAFETY: a place for the answer.
        let code = unsafe { (self.0.api.cuStreamCreate)(&mut stream, STREAM_NON_BLOCKING) };
        check_code("cuStreamCreate", code).map(|()| stream)
    }

    /// An event, with the time at which it is reached or without.
    pub(super) fn event(&self, is_timed: bool) -> Result<Handle, Refusal> {
        let flags = if is_timed { EVENT_DEFAULT } else { EVENT_DISABLE_TIMING };
        let mut event = 0;
        // SAFETY: a place for the answer.
        let code = unsafe { (self.0.api.cuEventCreate)(&mut event, flags) };
        check_code("cuEventCreate", code).map(|()| event)
    }

    /// Puts an event into a stream.
    pub(super) fn record(&self, event: Handle, stream: Handle) -> Result<(), Refusal> {
        // SAFETY: handles of this context.
        check_code("cuEventRecord", unsafe { (self.0.api.cuEventRecord)(event, stream) })
    }

    /// Returns whether the stream is past an event.
    pub(super) fn is_past(&self, event: Handle) -> Result<bool, Refusal> {
        // SAFETY: a handle of this context.
        match unsafe { (self.0.api.cuEventQuery)(event) } {
            code::NOT_READY => Ok(false),
            code => check_code("cuEventQuery", code).map(|()| true),
        }
    }

    /// Milliseconds between two events with times, which the stream is past.
    pub(super) fn elapsed_ms(&self, from: Handle, to: Handle) -> Result<f32, Refusal> {
        let mut ms = 0.0;
        // SAFETY: a place for the answer, and handles of this context.
        let code = unsafe { (self.0.api.cuEventElapsedTime)(&mut ms, from, to) };
        check_code("cuEventElapsedTime", code).map(|()| ms)
    }

    /// Memory of the device, which may hold anything.
    pub(super) fn allocate(&self, bytes: usize) -> Result<u64, Refusal> {
        let mut address = 0;
        // SAFETY: a place for the answer.
        let code = unsafe { (self.0.api.cuMemAlloc_v2)(&mut address, bytes) };
        check_code("cuMemAlloc_v2", code).map(|()| address)
    }

    /// Returns the bytes of free memory.
    pub(super) fn free_bytes(&self) -> Result<usize, Refusal> {
        let (mut free, mut total) = (0, 0);
        // SAFETY: places for the answers.
        let code = unsafe { (self.0.api.cuMemGetInfo_v2)(&mut free, &mut total) };
        check_code("cuMemGetInfo_v2", code).map(|()| free)
    }

    /// Locks memory of the host, so that the device copies from and to it by itself.
    ///
    /// # Safety
    /// The memory is mapped until [`Self::unregister`] or the end of the context.
    pub(super) unsafe fn register(&self, start: *mut u8, bytes: usize) -> Result<(), Refusal> {
        let (start, api) = (start.cast::<c_void>(), self.0.api);
        // SAFETY: the caller's.
        let mut code =
            unsafe { (api.cuMemHostRegister_v2)(start, bytes, MEMHOSTREGISTER_PORTABLE) };
        if code == code::HOST_MEMORY_ALREADY_REGISTERED {
            // By an earlier context, or for memory that was there before; never for these pages as they are now.
            // SAFETY: the caller's, as below.
            unsafe { (api.cuMemHostUnregister)(start) };
            // SAFETY: as above.
            code = unsafe { (api.cuMemHostRegister_v2)(start, bytes, MEMHOSTREGISTER_PORTABLE) };
        }
        check_code("cuMemHostRegister_v2", code)
    }

    /// Unlocks memory of the host.
    pub(super) fn unregister(&self, start: *mut u8) -> Result<(), Refusal> {
        // SAFETY: an address that the driver looks up.
        let code = unsafe { (self.0.api.cuMemHostUnregister)(start.cast()) };
        check_code("cuMemHostUnregister", code)
    }

    /// Makes memory of the device zero.
    pub(super) fn clear(&self, stream: Handle, address: u64, bytes: usize) -> Result<(), Refusal> {
        // SAFETY: addresses are the device's; one that is wrong is an error of this context.
        let code = unsafe { (self.0.api.cuMemsetD8Async)(address, 0, bytes, stream) };
        check_code("cuMemsetD8Async", code)
    }

    /// Copies to the device.
    ///
    /// # Safety
    /// `from` has `bytes` bytes, which stay until the stream is past this or the context is destroyed.
    pub(super) unsafe fn upload(
        &self,
        stream: Handle,
        to: u64,
        from: *const u8,
        bytes: usize,
    ) -> Result<(), Refusal> {
        // SAFETY: the caller's.
        let code = unsafe { (self.0.api.cuMemcpyHtoDAsync_v2)(to, from.cast(), bytes, stream) };
        check_code("cuMemcpyHtoDAsync_v2", code)
    }

    /// Copies from the device.
    ///
    /// # Safety
    /// See [`Self::upload`]; in addition, the bytes are not read or written elsewhere meanwhile.
    pub(super) unsafe fn download(
        &self,
        stream: Handle,
        from: u64,
        to: *mut u8,
        bytes: usize,
    ) -> Result<(), Refusal> {
        // SAFETY: the caller's.
        let code = unsafe { (self.0.api.cuMemcpyDtoHAsync_v2)(to.cast(), from, bytes, stream) };
        check_code("cuMemcpyDtoHAsync_v2", code)
    }

    /// Runs a kernel.
    ///
    /// # Safety
    /// Fails like [`crate::Device::launch`].
    pub(super) unsafe fn launch(&self, stream: Handle, launch: &Launch<'_>) -> Result<(), Refusal> {
        let function = self.function(launch.kernel)?;
        if function.arguments != launch.arguments.len() {
            return Err(OTHER_ARGUMENTS);
        }
        // One argument, the whole structure, which the driver copies before it returns.
        let mut arguments = [launch.arguments.as_ptr().cast_mut().cast::<c_void>()];
        // SAFETY: the kernel belongs to this context and the arguments have the size of its
        // parameters; the caller guarantees their content.
        let code = unsafe {
            (self.0.api.cuLaunchKernel)(
                function.handle,
                launch.blocks,
                1,
                1,
                BLOCK,
                1,
                1,
                0,
                stream,
                arguments.as_mut_ptr(),
                null_mut(),
            )
        };
        check_code("cuLaunchKernel", code)
    }

    /// A kernel by its name.
    fn function(&self, name: &str) -> Result<Function, Refusal> {
        let known = self.0.functions.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(function) = known.get(name) {
            return Ok(*function);
        }
        drop(known);
        let api = self.0.api;
        let c_name = CString::new(name).map_err(|_| NO_SUCH_KERNEL)?;
        let (mut handle, mut offset, mut arguments) = (0, 0, 0);
        // SAFETY: a place for the answer, a module of this context and a string that ends with a zero.
        let code =
            unsafe { (api.cuModuleGetFunction)(&mut handle, self.0.module, c_name.as_ptr()) };
        check_code("cuModuleGetFunction", code)?;
        // SAFETY: places for the answers, and the number of its one argument.
        let code = unsafe { (api.cuFuncGetParamInfo)(handle, 0, &mut offset, &mut arguments) };
        check_code("cuFuncGetParamInfo", code)?;
        let function = Function { handle, arguments };
        let mut known = self.0.functions.write().unwrap_or_else(PoisonError::into_inner);
        known.insert(name.to_owned(), function);
        Ok(function)
    }
}

/// `CUDA_ERROR_NOT_FOUND`, as the driver says it of a name that it has not.
const NO_SUCH_KERNEL: Refusal = Refusal { call: "cuModuleGetFunction", code: 500 };
/// `CUDA_ERROR_INVALID_VALUE`: arguments of another length than the kernel's.
const OTHER_ARGUMENTS: Refusal = Refusal { call: "cuLaunchKernel", code: 1 };
