//! A libcuda without a GPU: its functions over memory of this process and kernels of `gabion-cuda-emulator`.
//!
//! Operations run late: each query of an event runs the next three of its stream, in order, and the
//! rest run when a test calls for them. There is one [`World`], so tests take turns.

use std::alloc::{Layout, alloc, dealloc};
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};

use gabion_cuda::driver::{Api, Code, Handle};
use gabion_cuda::{Device, Launch};
use gabion_cuda_emulator::{Emulator, arguments_len};

pub const OUT_OF_MEMORY: Code = 2;
pub const NOT_READY: Code = 600;
pub const UNKNOWN: Code = 999;
const INVALID_VALUE: Code = 1;
const INVALID_CONTEXT: Code = 201;
const INVALID_HANDLE: Code = 400;
const NOT_FOUND: Code = 500;
const ILLEGAL_ADDRESS: Code = 700;
const ALREADY_REGISTERED: Code = 712;
const NOT_REGISTERED: Code = 713;
const LAUNCH_FAILED: Code = 719;
const NO_DEVICE: Code = 100;

/// A fault injected at a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InjectedFault {
    /// The call fails.
    Fails,
    /// There is no memory for it.
    NoMemory,
    /// The call fails, and so does each one after it in its context.
    ContextLost,
    /// The call fails, and so does each one after it.
    DeviceLost,
}

/// All that the library knows.
#[derive(Default)]
pub struct World {
    /// Calls of each function, and of all but `cuGetErrorName`.
    pub calls: BTreeMap<&'static str, usize>,
    pub call: usize,
    /// The trouble, and at which call it comes.
    pub trouble: Option<(InjectedFault, usize)>,
    /// The function that failed.
    pub came: Option<&'static str>,
    pub is_gone: bool,
    /// Whether events are never reached.
    pub is_stuck: bool,
    /// Whether contexts do not end before this is over.
    pub is_held: bool,
    /// Whether memory stays locked when the context ends that locked it.
    pub keeps_locks: bool,
    /// Whether no memory can be locked.
    pub locks_nothing: bool,
    /// The number of devices.
    pub count: c_int,
    pub version: c_int,
    pub capability: (c_int, c_int),
    pub contexts: BTreeMap<Handle, Context>,
    /// Memory of the host that is locked: bytes, by address.
    pub locked: BTreeMap<usize, usize>,
    /// Copies from and to memory that is not locked.
    pub unlocked_copies: usize,
    last: Handle,
}

#[derive(Default)]
pub struct Context {
    broken: Option<Code>,
    /// Memory of the device: bytes, by address.
    pub memory: BTreeMap<u64, usize>,
    streams: BTreeMap<Handle, VecDeque<StreamOperation>>,
    /// Events: whether they are timed, whether they were recorded, and whether they were reached.
    events: BTreeMap<Handle, (bool, bool, bool)>,
    functions: BTreeMap<Handle, String>,
    modules: Vec<Handle>,
    locked: Vec<usize>,
}

enum StreamOperation {
    Copy { from: usize, to: usize, bytes: usize },
    Zero { at: usize, bytes: usize },
    Launch { kernel: String, arguments: Vec<u8>, blocks: u32 },
    Event(Handle),
}

static WORLD: Mutex<Option<World>> = Mutex::new(None);
static RELEASED: Condvar = Condvar::new();
static ALONE: Mutex<()> = Mutex::new(());
/// Unpacked once for all tests, which make a context for each fault.
static KERNELS: OnceLock<Option<Arc<Vec<u8>>>> = OnceLock::new();

thread_local! {
    static STACK: RefCell<Vec<Handle>> = const { RefCell::new(Vec::new()) };
}

/// Starts a new world, which lasts as long as the guard.
pub fn new_world() -> MutexGuard<'static, ()> {
    let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    assert!(KERNELS.get_or_init(gabion_cuda::driver::held_kernels).is_some());
    let world = World { count: 2, version: 13000, capability: (9, 0), ..World::default() };
    *WORLD.lock().unwrap_or_else(PoisonError::into_inner) = Some(world);
    STACK.with(|stack| stack.borrow_mut().clear());
    alone
}

/// Looks at the world, or changes it.
pub fn world<T>(look: impl FnOnce(&mut World) -> T) -> T {
    let mut world = WORLD.lock().unwrap_or_else(PoisonError::into_inner);
    look(world.as_mut().unwrap())
}

/// Lets contexts end.
pub fn release() {
    world(|world| world.is_held = false);
    RELEASED.notify_all();
}

/// Runs every operation that is still queued in a context.
pub fn run_late_operations() {
    world(|world| {
        for context in world.contexts.values_mut() {
            let streams: Vec<Handle> = context.streams.keys().copied().collect();
            for stream in streams {
                while context.step(stream) {}
            }
        }
    });
}

/// Handles of contexts that are current to this thread, the last one on top.
pub fn stack() -> Vec<Handle> {
    STACK.with(|stack| stack.borrow().clone())
}

/// Makes something that is no context of ours current.
pub fn push(handle: Handle) {
    STACK.with(|stack| stack.borrow_mut().push(handle));
}

impl Context {
    fn holds(&self, address: usize, bytes: usize) -> bool {
        let before = self.memory.range(..=address as u64).next_back();
        before.is_some_and(|(&start, &len)| address - start as usize + bytes <= len)
    }

    /// Does the next thing that a stream was asked for.
    fn step(&mut self, stream: Handle) -> bool {
        let asked = self.streams.get_mut(&stream).and_then(VecDeque::pop_front);
        match asked {
            None => return false,
            // SAFETY: memory of the device was looked up, and that of the host is the caller's of the library.
            Some(StreamOperation::Copy { from, to, bytes }) => unsafe {
                std::ptr::copy_nonoverlapping(from as *const u8, to as *mut u8, bytes);
            },
            // SAFETY: as above.
            Some(StreamOperation::Zero { at, bytes }) => unsafe {
                std::ptr::write_bytes(at as *mut u8, 0, bytes);
            },
            Some(StreamOperation::Launch { kernel, arguments, blocks }) => {
                let launch = Launch { kernel: &kernel, arguments: &arguments, blocks };
                // SAFETY: the caller's of the library.
                if unsafe { Emulator::new().launch(0, &launch) }.is_err() {
                    self.broken = Some(LAUNCH_FAILED);
                }
            }
            Some(StreamOperation::Event(event)) => {
                if let Some(event) = self.events.get_mut(&event) {
                    event.2 = true;
                }
            }
        }
        true
    }

    fn end(&mut self) {
        for (address, bytes) in std::mem::take(&mut self.memory) {
            // SAFETY: allocated with this layout.
            unsafe { dealloc(address as *mut u8, Layout::from_size_align(bytes, 256).unwrap()) };
        }
    }
}

impl World {
    fn handle(&mut self) -> Handle {
        self.last += 16;
        self.last
    }

    /// Counts a call, and has its trouble.
    fn begin(&mut self, name: &'static str) -> Result<(), Code> {
        *self.calls.entry(name).or_default() += 1;
        let call = self.call;
        self.call += 1;
        if self.is_gone {
            return Err(UNKNOWN);
        }
        let now = self.trouble.filter(|(_, at)| *at == call);
        let Some((trouble, _)) = now else { return Ok(()) };
        self.came = Some(name);
        match trouble {
            InjectedFault::Fails => Err(UNKNOWN),
            InjectedFault::NoMemory => Err(OUT_OF_MEMORY),
            InjectedFault::DeviceLost => {
                self.is_gone = true;
                Err(UNKNOWN)
            }
            InjectedFault::ContextLost => {
                for context in self.contexts.values_mut() {
                    context.broken = Some(LAUNCH_FAILED);
                }
                Err(LAUNCH_FAILED)
            }
        }
    }

    /// Returns the current context, unless it failed.
    fn current(&mut self) -> Result<&mut Context, Code> {
        let handle = STACK.with(|stack| stack.borrow().last().copied()).ok_or(INVALID_CONTEXT)?;
        let context = self.contexts.get_mut(&handle).ok_or(INVALID_CONTEXT)?;
        context.broken.map_or(Ok(context), Err)
    }

    fn is_locked(&self, address: usize, bytes: usize) -> bool {
        let before = self.locked.range(..=address).next_back();
        before.is_some_and(|(&start, &len)| address - start + bytes <= len)
    }
}

/// A function of the library.
fn call(name: &'static str, ask: impl FnOnce(&mut World) -> Result<(), Code>) -> Code {
    world(|world| match world.begin(name).and_then(|()| ask(world)) {
        Ok(()) => 0,
        Err(code) => code,
    })
}

/// Enqueues an operation on a stream.
fn enqueue(name: &'static str, stream: Handle, what: StreamOperation) -> Code {
    call(name, |world| {
        let context = world.current()?;
        context.streams.get_mut(&stream).ok_or(INVALID_HANDLE)?.push_back(what);
        Ok(())
    })
}

/// Writes an answer.
///
/// # Safety
/// The pointer is good for it.
unsafe fn answer<T>(to: *mut T, value: T) -> Result<(), Code> {
    // SAFETY: the caller's.
    unsafe { to.write(value) };
    Ok(())
}

unsafe extern "C" fn init(flags: c_uint) -> Code {
    call("cuInit", |world| match (flags, world.count) {
        (0, 1..) => Ok(()),
        (0, _) => Err(NO_DEVICE),
        _ => Err(INVALID_VALUE),
    })
}

unsafe extern "C" fn driver_get_version(version: *mut c_int) -> Code {
    // SAFETY: the caller's, here and in all functions below.
    call("cuDriverGetVersion", |world| unsafe { answer(version, world.version) })
}

unsafe extern "C" fn get_error_name(code: Code, name: *mut *const c_char) -> Code {
    let known: &CStr = match code {
        UNKNOWN => c"CUDA_ERROR_UNKNOWN",
        OUT_OF_MEMORY => c"CUDA_ERROR_OUT_OF_MEMORY",
        _ => return INVALID_VALUE,
    };
    // SAFETY: as above.
    unsafe { name.write(known.as_ptr()) };
    0
}

unsafe extern "C" fn device_get_count(count: *mut c_int) -> Code {
    // SAFETY: as above.
    call("cuDeviceGetCount", |world| unsafe { answer(count, world.count) })
}

unsafe extern "C" fn device_get(device: *mut c_int, ordinal: c_int) -> Code {
    call("cuDeviceGet", |world| match (0..world.count).contains(&ordinal) {
        // SAFETY: as above.
        true => unsafe { answer(device, 70 + ordinal) },
        false => Err(INVALID_VALUE),
    })
}

unsafe extern "C" fn device_get_name(name: *mut c_char, len: c_int, device: c_int) -> Code {
    call("cuDeviceGetName", |_| {
        let text = format!("Fake {}\0", device - 70);
        assert!(text.len() <= len as usize);
        // SAFETY: as above.
        unsafe { std::ptr::copy_nonoverlapping(text.as_ptr().cast(), name, text.len()) };
        Ok(())
    })
}

unsafe extern "C" fn device_get_uuid(uuid: *mut [u8; 16], device: c_int) -> Code {
    // SAFETY: as above.
    call("cuDeviceGetUuid_v2", |_| unsafe { answer(uuid, [device as u8; 16]) })
}

unsafe extern "C" fn device_get_attribute(value: *mut c_int, which: c_int, device: c_int) -> Code {
    call("cuDeviceGetAttribute", |world| {
        let known = match which {
            13 => 1_980_000,
            16 => 132,
            33 => device,
            34 | 50 => 0,
            40 => 3,
            75 => world.capability.0,
            76 => world.capability.1,
            _ => return Err(INVALID_VALUE),
        };
        // SAFETY: as above.
        unsafe { answer(value, known) }
    })
}

unsafe extern "C" fn device_total_mem(bytes: *mut usize, _: c_int) -> Code {
    // SAFETY: as above.
    call("cuDeviceTotalMem_v2", |_| unsafe { answer(bytes, 80 << 30) })
}

unsafe extern "C" fn ctx_create(context: *mut Handle, flags: c_uint, device: c_int) -> Code {
    call("cuCtxCreate_v2", |world| {
        if flags != 4 || !(70..70 + world.count).contains(&device) {
            return Err(INVALID_VALUE);
        }
        let handle = world.handle();
        world.contexts.insert(handle, Context::default());
        push(handle);
        // SAFETY: as above.
        unsafe { answer(context, handle) }
    })
}

/// Ends it whatever it answers, as the library does.
unsafe extern "C" fn ctx_destroy(context: Handle) -> Code {
    let mut all = WORLD.lock().unwrap_or_else(PoisonError::into_inner);
    while all.as_ref().is_some_and(|world| world.is_held) {
        all = RELEASED.wait(all).unwrap_or_else(PoisonError::into_inner);
    }
    let world = all.as_mut().unwrap();
    let begun = world.begin("cuCtxDestroy_v2");
    let Some(mut ended) = world.contexts.remove(&context) else { return INVALID_CONTEXT };
    ended.end();
    if !world.keeps_locks {
        world.locked.retain(|start, _| !ended.locked.contains(start));
    }
    STACK.with(|stack| stack.borrow_mut().pop_if(|top| *top == context));
    begun.err().unwrap_or(0)
}

unsafe extern "C" fn ctx_push(context: Handle) -> Code {
    call("cuCtxPushCurrent_v2", |world| {
        world.contexts.get(&context).ok_or(INVALID_CONTEXT)?;
        push(context);
        Ok(())
    })
}

unsafe extern "C" fn ctx_pop(context: *mut Handle) -> Code {
    call("cuCtxPopCurrent_v2", |_| {
        let top = STACK.with(|stack| stack.borrow_mut().pop()).ok_or(INVALID_CONTEXT)?;
        // SAFETY: as above.
        unsafe { answer(context, top) }
    })
}

unsafe extern "C" fn module_load(module: *mut Handle, image: *const c_void) -> Code {
    call("cuModuleLoadData", |world| {
        // SAFETY: as above; a fat binary begins with its magic number.
        assert_eq!(unsafe { image.cast::<u32>().read_unaligned() }, 0xba55_ed50);
        let handle = world.handle();
        world.current()?.modules.push(handle);
        // SAFETY: as above.
        unsafe { answer(module, handle) }
    })
}

unsafe extern "C" fn module_function(
    function: *mut Handle,
    module: Handle,
    name: *const c_char,
) -> Code {
    call("cuModuleGetFunction", |world| {
        // SAFETY: as above.
        let name = unsafe { CStr::from_ptr(name) }.to_str().unwrap().to_owned();
        let handle = world.handle();
        let context = world.current()?;
        if !context.modules.contains(&module) {
            return Err(INVALID_HANDLE);
        }
        arguments_len(&name).ok_or(NOT_FOUND)?;
        context.functions.insert(handle, name);
        // SAFETY: as above.
        unsafe { answer(function, handle) }
    })
}

unsafe extern "C" fn parameter(
    function: Handle,
    index: usize,
    offset: *mut usize,
    bytes: *mut usize,
) -> Code {
    call("cuFuncGetParamInfo", |world| {
        let name = world.current()?.functions.get(&function).ok_or(INVALID_HANDLE)?;
        if index != 0 {
            return Err(INVALID_VALUE);
        }
        let len = arguments_len(name).unwrap();
        // SAFETY: as above.
        unsafe {
            answer(offset, 0)?;
            answer(bytes, len)
        }
    })
}

#[allow(clippy::too_many_arguments)]
unsafe extern "C" fn launch(
    function: Handle,
    grid_x: c_uint,
    grid_y: c_uint,
    grid_z: c_uint,
    block_x: c_uint,
    block_y: c_uint,
    block_z: c_uint,
    shared: c_uint,
    stream: Handle,
    arguments: *mut *mut c_void,
    extra: *mut *mut c_void,
) -> Code {
    call("cuLaunchKernel", |world| {
        assert_eq!((grid_y, grid_z, block_x, block_y, block_z, shared), (1, 1, 128, 1, 1, 0));
        assert!(extra.is_null());
        let context = world.current()?;
        let kernel = context.functions.get(&function).ok_or(INVALID_HANDLE)?.clone();
        let len = arguments_len(&kernel).unwrap();
        // SAFETY: as above: one argument of so many bytes.
        let arguments = unsafe { std::slice::from_raw_parts((*arguments).cast(), len) }.to_vec();
        let stream = context.streams.get_mut(&stream).ok_or(INVALID_HANDLE)?;
        stream.push_back(StreamOperation::Launch { kernel, arguments, blocks: grid_x });
        Ok(())
    })
}

unsafe extern "C" fn mem_alloc(address: *mut u64, bytes: usize) -> Code {
    call("cuMemAlloc_v2", |world| {
        let context = world.current()?;
        let layout = Layout::from_size_align(bytes, 256).map_err(|_| OUT_OF_MEMORY)?;
        if bytes == 0 || bytes > 1 << 30 {
            return Err(if bytes == 0 { INVALID_VALUE } else { OUT_OF_MEMORY });
        }
        // SAFETY: not empty.
        let start = unsafe { alloc(layout) };
        // SAFETY: so many bytes, which hold whatever there was.
        unsafe { std::ptr::write_bytes(start, 0xaa, bytes) };
        context.memory.insert(start as u64, bytes);
        // SAFETY: as above.
        unsafe { answer(address, start as u64) }
    })
}

unsafe extern "C" fn mem_get_info(free: *mut usize, total: *mut usize) -> Code {
    call("cuMemGetInfo_v2", |world| {
        world.current()?;
        // SAFETY: as above.
        unsafe {
            answer(free, 79 << 30)?;
            answer(total, 80 << 30)
        }
    })
}

unsafe extern "C" fn host_register(start: *mut c_void, bytes: usize, flags: c_uint) -> Code {
    call("cuMemHostRegister_v2", |world| {
        let start = start as usize;
        if flags != 1 || !start.is_multiple_of(4096) || bytes == 0 || !bytes.is_multiple_of(4096) {
            return Err(INVALID_VALUE);
        }
        world.current()?;
        if world.locks_nothing {
            return Err(801);
        }
        let before = world.locked.range(..start + bytes).next_back();
        if before.is_some_and(|(&other, &len)| other + len > start) {
            return Err(ALREADY_REGISTERED);
        }
        world.locked.insert(start, bytes);
        world.current()?.locked.push(start);
        Ok(())
    })
}

unsafe extern "C" fn host_unregister(start: *mut c_void) -> Code {
    call("cuMemHostUnregister", |world| {
        let start = start as usize;
        world.current()?.locked.retain(|&other| other != start);
        world.locked.remove(&start).map(drop).ok_or(NOT_REGISTERED)
    })
}

unsafe extern "C" fn upload(to: u64, from: *const c_void, bytes: usize, stream: Handle) -> Code {
    copy("cuMemcpyHtoDAsync_v2", (from as usize, to as usize), to as usize, bytes, stream)
}

unsafe extern "C" fn download(to: *mut c_void, from: u64, bytes: usize, stream: Handle) -> Code {
    copy("cuMemcpyDtoHAsync_v2", (from as usize, to as usize), from as usize, bytes, stream)
}

/// A copy; `device` is the address of the two that is the device's.
fn copy(
    name: &'static str,
    (from, to): (usize, usize),
    device: usize,
    bytes: usize,
    stream: Handle,
) -> Code {
    call(name, |world| {
        let host = if device == from { to } else { from };
        let is_locked = world.is_locked(host, bytes);
        world.unlocked_copies += usize::from(!is_locked);
        let context = world.current()?;
        if !context.holds(device, bytes) {
            context.broken = Some(ILLEGAL_ADDRESS);
            return Err(ILLEGAL_ADDRESS);
        }
        let queue = context.streams.get_mut(&stream).ok_or(INVALID_HANDLE)?;
        queue.push_back(StreamOperation::Copy { from, to, bytes });
        // The library waits where it can't copy by itself.
        while !is_locked && context.step(stream) {}
        Ok(())
    })
}

unsafe extern "C" fn memset(address: u64, byte: u8, bytes: usize, stream: Handle) -> Code {
    call("cuMemsetD8Async", |world| {
        assert_eq!(byte, 0);
        let context = world.current()?;
        if !context.holds(address as usize, bytes) {
            context.broken = Some(ILLEGAL_ADDRESS);
            return Err(ILLEGAL_ADDRESS);
        }
        let queue = context.streams.get_mut(&stream).ok_or(INVALID_HANDLE)?;
        queue.push_back(StreamOperation::Zero { at: address as usize, bytes });
        Ok(())
    })
}

unsafe extern "C" fn stream_create(stream: *mut Handle, flags: c_uint) -> Code {
    call("cuStreamCreate", |world| {
        assert_eq!(flags, 1);
        let handle = world.handle();
        world.current()?.streams.insert(handle, VecDeque::new());
        // SAFETY: as above.
        unsafe { answer(stream, handle) }
    })
}

unsafe extern "C" fn event_create(event: *mut Handle, flags: c_uint) -> Code {
    call("cuEventCreate", |world| {
        assert!(flags == 0 || flags == 2);
        let handle = world.handle();
        world.current()?.events.insert(handle, (flags == 0, false, false));
        // SAFETY: as above.
        unsafe { answer(event, handle) }
    })
}

unsafe extern "C" fn event_record(event: Handle, stream: Handle) -> Code {
    let recorded = world(|world| {
        let context = world.current().ok()?;
        let event = context.events.get_mut(&event)?;
        (event.1, event.2) = (true, false);
        Some(())
    });
    match recorded {
        Some(()) => enqueue("cuEventRecord", stream, StreamOperation::Event(event)),
        None => call("cuEventRecord", |world| world.current().and(Err(INVALID_HANDLE))),
    }
}

unsafe extern "C" fn event_query(event: Handle) -> Code {
    call("cuEventQuery", |world| {
        let is_stuck = world.is_stuck;
        let context = world.current()?;
        if !is_stuck {
            let all: Vec<Handle> = context.streams.keys().copied().collect();
            for stream in all.into_iter().flat_map(|stream| [stream; 3]) {
                context.step(stream);
            }
        }
        context.broken.map_or(Ok(()), Err)?;
        let (_, is_recorded, is_reached) = context.events.get(&event).ok_or(INVALID_HANDLE)?;
        if *is_recorded && !is_reached { Err(NOT_READY) } else { Ok(()) }
    })
}

unsafe extern "C" fn event_elapsed(ms: *mut f32, from: Handle, to: Handle) -> Code {
    call("cuEventElapsedTime", |world| {
        let context = world.current()?;
        for event in [from, to] {
            match context.events.get(&event).ok_or(INVALID_HANDLE)? {
                (true, true, true) => {}
                (true, true, false) => return Err(NOT_READY),
                _ => return Err(INVALID_HANDLE),
            }
        }
        // SAFETY: as above.
        unsafe { answer(ms, 0.25) }
    })
}

/// The library.
pub static LIBRARY: Api = Api {
    cuInit: init,
    cuDriverGetVersion: driver_get_version,
    cuGetErrorName: get_error_name,
    cuDeviceGetCount: device_get_count,
    cuDeviceGet: device_get,
    cuDeviceGetName: device_get_name,
    cuDeviceGetUuid_v2: device_get_uuid,
    cuDeviceGetAttribute: device_get_attribute,
    cuDeviceTotalMem_v2: device_total_mem,
    cuCtxCreate_v2: ctx_create,
    cuCtxDestroy_v2: ctx_destroy,
    cuCtxPushCurrent_v2: ctx_push,
    cuCtxPopCurrent_v2: ctx_pop,
    cuModuleLoadData: module_load,
    cuModuleGetFunction: module_function,
    cuFuncGetParamInfo: parameter,
    cuLaunchKernel: launch,
    cuMemAlloc_v2: mem_alloc,
    cuMemGetInfo_v2: mem_get_info,
    cuMemHostRegister_v2: host_register,
    cuMemHostUnregister: host_unregister,
    cuMemcpyHtoDAsync_v2: upload,
    cuMemcpyDtoHAsync_v2: download,
    cuMemsetD8Async: memset,
    cuStreamCreate: stream_create,
    cuEventCreate: event_create,
    cuEventRecord: event_record,
    cuEventQuery: event_query,
    cuEventElapsedTime: event_elapsed,
};
