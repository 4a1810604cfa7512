//! The functions of libcuda that are called, resolved by name at run time.
//!
//! Names and signatures are those of `cuda.h` of CUDA 13.0, whose macros put the suffixes on. Where
//! it has several editions of a function this is the oldest one, which every driver still has.
//! Handles are C's opaque pointers; here they are numbers, which a C function takes in the same
//! registers.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use once_cell::race::OnceBox;

use super::error::NoDevice;

/// A handle: `CUcontext`, `CUmodule`, `CUfunction`, `CUstream` or `CUevent`. 0 is the null handle.
pub type Handle = usize;

/// The result of a function: `CUresult`.
pub type Code = c_int;

/// Answers that matter here.
pub(crate) mod code {
    use super::Code;

    pub(crate) const SUCCESS: Code = 0;
    pub(crate) const OUT_OF_MEMORY: Code = 2;
    pub(crate) const NO_DEVICE: Code = 100;
    pub(crate) const NOT_READY: Code = 600;
    pub(crate) const HOST_MEMORY_ALREADY_REGISTERED: Code = 712;
}

macro_rules! table {
    ($(#[$meta:meta])* $name:ident { $($symbol:ident($($arg:ty),* $(,)?);)* }) => {
        $(#[$meta])*
        #[allow(non_snake_case, missing_docs)]
        pub struct $name {
            $(pub $symbol: unsafe extern "C" fn($($arg),*) -> Code,)*
        }

        impl $name {
            fn resolve(library: &Library) -> Result<Self, NoDevice> {
                Ok(Self {
                    $($symbol: {
                        let name = concat!(stringify!($symbol), "\0");
                        // SAFETY: the type that stands in this table is the function's in C.
                        *unsafe { library.get(name.as_bytes()) }
                            .map_err(|_| NoDevice::NoFunction(stringify!($symbol)))?
                    },)*
                })
            }
        }
    };
}

table! {
    /// The functions of libcuda that are called. `cuda.h` documents each of them.
    Api {
        cuInit(c_uint);
        cuDriverGetVersion(*mut c_int);
        cuGetErrorName(Code, *mut *const c_char);

        cuDeviceGetCount(*mut c_int);
        cuDeviceGet(*mut c_int, c_int);
        cuDeviceGetName(*mut c_char, c_int, c_int);
        cuDeviceGetUuid_v2(*mut [u8; 16], c_int);
        cuDeviceGetAttribute(*mut c_int, c_int, c_int);
        cuDeviceTotalMem_v2(*mut usize, c_int);

        cuCtxCreate_v2(*mut Handle, c_uint, c_int);
        cuCtxDestroy_v2(Handle);
        cuCtxPushCurrent_v2(Handle);
        cuCtxPopCurrent_v2(*mut Handle);

        cuModuleLoadData(*mut Handle, *const c_void);
        cuModuleGetFunction(*mut Handle, Handle, *const c_char);
        cuFuncGetParamInfo(Handle, usize, *mut usize, *mut usize);
        cuLaunchKernel(
            Handle, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, Handle, *mut *mut c_void,
            *mut *mut c_void,
        );

        cuMemAlloc_v2(*mut u64, usize);
        cuMemGetInfo_v2(*mut usize, *mut usize);
        cuMemHostRegister_v2(*mut c_void, usize, c_uint);
        cuMemHostUnregister(*mut c_void);
        cuMemcpyHtoDAsync_v2(u64, *const c_void, usize, Handle);
        cuMemcpyDtoHAsync_v2(*mut c_void, u64, usize, Handle);
        cuMemsetD8Async(u64, u8, usize, Handle);

        cuStreamCreate(*mut Handle, c_uint);
        cuEventCreate(*mut Handle, c_uint);
        cuEventRecord(Handle, Handle);
        cuEventQuery(Handle);
        cuEventElapsedTime(*mut f32, Handle, Handle);
    }
}

/// A failed call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// The function's name.
    pub(crate) call: &'static str,
    /// Its result.
    pub(crate) code: Code,
}

impl Refusal {
    /// There is no memory of the host.
    pub(crate) const NO_HOST_MEMORY: Self = Refusal { call: "mmap", code: code::OUT_OF_MEMORY };

    /// Returns whether memory could not be allocated, which harms nothing that there is.
    pub(crate) fn is_of_memory(&self) -> bool {
        self.code == code::OUT_OF_MEMORY && matches!(self.call, "cuMemAlloc_v2" | "mmap")
    }
}

/// Turns a driver's return code into a result; `call` is the function's name.
pub(crate) fn check_code(call: &'static str, code: Code) -> Result<(), Refusal> {
    if code == code::SUCCESS { Ok(()) } else { Err(Refusal { call, code }) }
}

impl Api {
    /// The refusal with its name, for people.
    pub(crate) fn no_device(&self, refusal: Refusal) -> NoDevice {
        let mut name: *const c_char = std::ptr::null();
        // SAFETY: any number is allowed; the answer is a constant string of the library's, or null.
        let name = unsafe {
            let known = (self.cuGetErrorName)(refusal.code, &mut name) == code::SUCCESS;
            if known && !name.is_null() {
                CStr::from_ptr(name).to_string_lossy().into_owned()
            } else {
                "an error that the driver has no name for".to_owned()
            }
        };
        NoDevice::Refused { call: refusal.call, number: refusal.code, name }
    }
}

/// Returns the system's libcuda. It is loaded once, and never unloaded, because it starts threads
/// and installs handlers.
///
/// # Errors
/// [`NoDevice::NoLibrary`], [`NoDevice::NoFunction`]; the next call tries again.
pub(crate) fn load() -> Result<&'static Api, NoDevice> {
    static API: OnceBox<Api> = OnceBox::new();
    API.get_or_try_init(|| {
        // SAFETY: the driver's own library, by the name under which every driver installs it; its initialisers do
        // nothing that a program has to prepare for.
        let library = unsafe { Library::open(Some("libcuda.so.1"), RTLD_NOW | RTLD_LOCAL) }
            .map_err(|cause| NoDevice::NoLibrary(cause.to_string()))?;
        let api = Api::resolve(&library);
        std::mem::forget(library);
        api.map(Box::new)
    })
}
