//! An emulated GPU that runs the kernels of `gabion-cuda`, compiled for the host processor, block
//! after block and step after step. For tests: results equal a GPU's, but run times say nothing
//! about one.

mod hooks;
mod selection;

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::collections::BTreeMap;
use std::ffi::{CStr, CString, c_char};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use gabion_cuda::{Arguments, Device, Fault, Launch, PinnedBuffer};
use gabion_scheme::ct;

pub use hooks::{Action, Call, Hook, HookedDevice};
pub use selection::{DEVICE, SelectedBackend, selected_backend};

/// The alignment that `Device::allocate` promises.
const ALIGNMENT: usize = 256;

/// `GabionEmulatorKernel` of `emulator.hpp`.
#[repr(C)]
struct Entry {
    name: *const c_char,
    arguments: usize,
    jobs: u32,
    run: Option<unsafe extern "C" fn(*const u8, u32)>,
}

unsafe extern "C" {
    fn gabion_emulator_launch(
        kernel: *const c_char,
        arguments: *const u8,
        len: usize,
        blocks: u32,
    ) -> i32;
    fn gabion_emulator_kernel(number: usize) -> *const Entry;
}

/// The names of all kernels, with the jobs of a block.
pub fn kernels() -> Vec<(String, u32)> {
    (0..).map_while(entry).map(|(name, jobs, _)| (name, jobs)).collect()
}

/// Returns the length of a kernel's arguments in bytes; `None` if there is no such kernel.
pub fn arguments_len(kernel: &str) -> Option<usize> {
    (0..).map_while(entry).find(|(name, ..)| name == kernel).map(|(_, _, arguments)| arguments)
}

/// A kernel by its number: its name, the jobs of a block, and bytes of its arguments.
fn entry(number: usize) -> Option<(String, u32, usize)> {
    // SAFETY: any number is allowed; what is not null is an entry of a constant table.
    let entry = unsafe { gabion_emulator_kernel(number).as_ref()? };
    // SAFETY: a string that ends with a zero.
    let name = unsafe { CStr::from_ptr(entry.name) };
    Some((name.to_string_lossy().into_owned(), entry.jobs, entry.arguments))
}

/// A GPU emulated on the processor. Every call is done before it returns.
#[derive(Default)]
pub struct Emulator {
    /// The allocations: bytes, by address.
    memory: Mutex<BTreeMap<u64, usize>>,
}

impl Emulator {
    /// A device without any memory yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns how many allocations there are.
    pub fn allocations(&self) -> usize {
        self.lock().len()
    }

    /// Returns whether allocated memory contains these bytes, at a multiple of their length.
    pub fn holds(&self, bytes: &[u8]) -> bool {
        self.lock().iter().any(|(&address, &len)| {
            // SAFETY: allocated, and not accessed elsewhere while the caller looks.
            let all = unsafe { std::slice::from_raw_parts(address as *const u8, len) };
            all.chunks_exact(bytes.len().max(1)).any(|chunk| chunk == bytes)
        })
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, usize>> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a kernel that is given addresses of this process.
    ///
    /// # Safety
    /// Fails like [`Device::launch`].
    unsafe fn call(&self, launch: &Launch<'_>) -> Result<(), Fault> {
        let kernel = CString::new(launch.kernel).map_err(|_| Fault::Failed)?;
        let (arguments, len) = (launch.arguments.as_ptr(), launch.arguments.len());
        // SAFETY: the name ends with a zero, and `arguments` has `len` bytes, which the callee
        // compares with the size of the kernel's parameters. The caller guarantees that their
        // content is valid.
        let done =
            unsafe { gabion_emulator_launch(kernel.as_ptr(), arguments, len, launch.blocks) };
        if done == 0 { Ok(()) } else { Err(Fault::Failed) }
    }

    /// Frees everything, wiped.
    fn release(memory: &mut BTreeMap<u64, usize>) {
        for (address, bytes) in std::mem::take(memory) {
            // SAFETY: allocated below with this layout, and no references remain.
            unsafe {
                ct::wipe(std::slice::from_raw_parts_mut(address as *mut u8, bytes));
                if let Ok(layout) = Layout::from_size_align(bytes, ALIGNMENT) {
                    dealloc(address as *mut u8, layout);
                }
            }
        }
    }
}

/// Checks that all bytes lie in one allocation.
fn check_range(memory: &BTreeMap<u64, usize>, address: u64, bytes: usize) -> Result<(), Fault> {
    match memory.range(..=address).next_back() {
        Some((start, len)) if address - start + bytes as u64 <= *len as u64 => Ok(()),
        _ => Err(Fault::Failed),
    }
}

impl Device for Emulator {
    fn allocate(&self, bytes: usize) -> Result<u64, Fault> {
        let layout =
            Layout::from_size_align(bytes.max(1), ALIGNMENT).map_err(|_| Fault::NoMemory)?;
        // SAFETY: the size is not zero.
        let start = unsafe { alloc_zeroed(layout) };
        if start.is_null() {
            return Err(Fault::NoMemory);
        }
        self.lock().insert(start as u64, layout.size());
        Ok(start as u64)
    }

    fn pin(&self, bytes: usize) -> Result<PinnedBuffer, Fault> {
        PinnedBuffer::new(bytes)
    }

    unsafe fn upload(
        &self,
        _stream: usize,
        to: u64,
        from: *const u8,
        bytes: usize,
    ) -> Result<(), Fault> {
        let memory = self.lock();
        check_range(&memory, to, bytes)?;
        // SAFETY: within an allocation, which is no memory of Rust's; the other one is the caller's.
        unsafe { std::ptr::copy_nonoverlapping(from, to as *mut u8, bytes) };
        Ok(())
    }

    fn clear(&self, _stream: usize, address: u64, bytes: usize) -> Result<(), Fault> {
        let memory = self.lock();
        check_range(&memory, address, bytes)?;
        // SAFETY: within an allocation.
        ct::wipe(unsafe { std::slice::from_raw_parts_mut(address as *mut u8, bytes) });
        Ok(())
    }

    unsafe fn launch(&self, _stream: usize, launch: &Launch<'_>) -> Result<(), Fault> {
        // SAFETY: the caller's.
        unsafe { self.call(launch) }
    }

    fn finish(&self, _stream: usize, _at_most: Duration) -> Result<(), Fault> {
        Ok(())
    }

    unsafe fn download(
        &self,
        _stream: usize,
        from: u64,
        to: *mut u8,
        bytes: usize,
    ) -> Result<(), Fault> {
        let memory = self.lock();
        check_range(&memory, from, bytes)?;
        // SAFETY: within an allocation, which is no memory of Rust's; the other one is the caller's.
        unsafe { std::ptr::copy_nonoverlapping(from as *const u8, to, bytes) };
        Ok(())
    }

    fn restart(&self) -> Result<(), Fault> {
        Self::release(&mut self.lock());
        Ok(())
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        Self::release(self.memory.get_mut().unwrap_or_else(PoisonError::into_inner));
    }
}

/// Runs one kernel over separate device memory: `bytes` are copied in and back out.
///
/// # Errors
/// A [`Fault`] if there is no such kernel.
///
/// # Safety
/// With `arguments` made from the device address of `bytes`, the kernel must access no device
/// memory outside `bytes`.
pub unsafe fn run_on<A: Arguments>(
    kernel: &str,
    blocks: u32,
    bytes: &mut [u8],
    arguments: impl FnOnce(u64) -> A,
) -> Result<(), Fault> {
    let device = Emulator::new();
    let address = device.allocate(bytes.len())?;
    let arguments = arguments(address);
    // SAFETY: copies happen at once, of as many bytes as there are; the launch is the caller's.
    unsafe {
        device.upload(0, address, bytes.as_ptr(), bytes.len())?;
        device.launch(0, &Launch::new(kernel, &arguments, blocks))?;
        device.download(0, address, bytes.as_mut_ptr(), bytes.len())
    }
}
