//! The energy that a GPU has used, if its management library reports it.

use std::ffi::{CString, c_char, c_int, c_ulonglong};

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use once_cell::race::OnceBox;

use super::devices::DeviceInfo;

/// The functions of NVML that are called. Handles are opaque pointers, represented as numbers.
struct Nvml {
    by_bus: unsafe extern "C" fn(*const c_char, *mut usize) -> c_int,
    energy: unsafe extern "C" fn(usize, *mut c_ulonglong) -> c_int,
}

impl Nvml {
    /// Returns the system's library, which is loaded and initialized once; `None` if it is missing
    /// or its initialization fails.
    fn get() -> Option<&'static Nvml> {
        static NVML: OnceBox<Option<Nvml>> = OnceBox::new();
        NVML.get_or_init(|| Box::new(Self::load())).as_ref()
    }

    fn load() -> Option<Nvml> {
        // SAFETY: a library of the driver's, by the name under which every driver installs it.
        let library =
            unsafe { Library::open(Some("libnvidia-ml.so.1"), RTLD_NOW | RTLD_LOCAL) }.ok()?;
        // SAFETY: `nvmlReturn_t nvmlInit_v2(void)`, and the two functions as the structure above has them, of which
        // nvml.h gives the types.
        let (init, nvml) = unsafe {
            let init = *library.get::<unsafe extern "C" fn() -> c_int>(b"nvmlInit_v2\0").ok()?;
            let by_bus = *library.get(b"nvmlDeviceGetHandleByPciBusId_v2\0").ok()?;
            let energy = *library.get(b"nvmlDeviceGetTotalEnergyConsumption\0").ok()?;
            (init, Nvml { by_bus, energy })
        };
        // It stays loaded, as the pointers do.
        std::mem::forget(library);
        // SAFETY: it takes nothing, and may be called again by other code.
        (unsafe { init() } == 0).then_some(nvml)
    }
}

/// The meter of a GPU.
pub struct Energy {
    nvml: &'static Nvml,
    device: usize,
}

impl Energy {
    /// Returns the meter of a GPU; `None` without a management library, or if it does not report
    /// energy.
    pub fn of_device(info: &DeviceInfo) -> Option<Self> {
        let nvml = Nvml::get()?;
        let bus = CString::new(info.bus.as_str()).ok()?;
        let mut device = 0;
        // SAFETY: a string that ends with a zero, and a place for the answer.
        let found = unsafe { (nvml.by_bus)(bus.as_ptr(), &mut device) } == 0;
        let energy = Energy { nvml, device };
        (found && energy.millijoules().is_some()).then_some(energy)
    }

    /// Returns the millijoules that the whole GPU has used since its driver was loaded, for all
    /// processes. `None` if the query fails.
    pub fn millijoules(&self) -> Option<u64> {
        let mut energy: c_ulonglong = 0;
        // SAFETY: a handle that the library gave, which it keeps, and a place for the answer.
        (unsafe { (self.nvml.energy)(self.device, &mut energy) } == 0).then_some(energy)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_that_is_not_there_has_no_meter() {
        let bus = "ffff:ff:1f.0".to_owned();
        let info = DeviceInfo {
            ordinal: 0,
            name: String::new(),
            uuid: String::new(),
            capability: (7, 5),
            multiprocessors: 1,
            memory_bytes: 0,
            clock_khz: 0,
            copy_engines: 0,
            bus,
            driver: (13, 0),
        };
        assert!(Energy::of_device(&info).is_none());
    }
}
