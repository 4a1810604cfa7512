//! Lists the GPUs.

use std::ffi::{CStr, c_char, c_int};
use std::fmt::Write;

use super::error::NoDevice;
use super::library::{Api, Refusal, check_code, code};

/// The driver that the kernels need: that of the CUDA that compiled them, as the driver counts.
pub(super) const DRIVER_LEAST: (u32, u32) = (13, 0);
/// The oldest GPUs that the kernels are compiled for.
pub(super) const CAPABILITY_LEAST: (u32, u32) = (7, 5);

/// `CUdevice_attribute`.
const CLOCK_RATE: c_int = 13;
const MULTIPROCESSOR_COUNT: c_int = 16;
const PCI_BUS_ID: c_int = 33;
const PCI_DEVICE_ID: c_int = 34;
const ASYNC_ENGINE_COUNT: c_int = 40;
const PCI_DOMAIN_ID: c_int = 50;
const COMPUTE_CAPABILITY_MAJOR: c_int = 75;
const COMPUTE_CAPABILITY_MINOR: c_int = 76;

/// A GPU, as its driver tells of it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeviceInfo {
    /// The number of the device, from 0.
    pub ordinal: u32,
    /// The device's name.
    pub name: String,
    /// A unique identifier: `GPU-` and a UUID; that of the instance if it is a part of a GPU.
    pub uuid: String,
    /// The compute capability: major and minor.
    pub capability: (u32, u32),
    /// The number of multiprocessors.
    pub multiprocessors: u32,
    /// The size of its memory in bytes.
    pub memory_bytes: u64,
    /// The maximum clock of its multiprocessors in kHz; 0 if the driver does not report it.
    pub clock_khz: u32,
    /// The number of copies that can run in parallel to kernels: 2 is one in each direction.
    pub copy_engines: u32,
    /// The bus address: `domain:bus:device.function`, in hexadecimal.
    pub bus: String,
    /// The version of CUDA that the driver has: major and minor.
    pub driver: (u32, u32),
}

impl DeviceInfo {
    /// Returns whether there are kernels for it, and its driver takes them.
    ///
    /// # Errors
    /// [`NoDevice::OldDriver`], [`NoDevice::OldGpu`].
    pub fn serves(&self) -> Result<(), NoDevice> {
        if self.driver < DRIVER_LEAST {
            return Err(NoDevice::OldDriver { version: self.driver, least: DRIVER_LEAST });
        }
        if self.capability < CAPABILITY_LEAST {
            let (name, capability) = (self.name.clone(), self.capability);
            return Err(NoDevice::OldGpu { name, capability, least: CAPABILITY_LEAST });
        }
        Ok(())
    }
}

/// Returns all GPUs that the driver sees, including those without kernels.
///
/// # Errors
/// [`NoDevice`]; [`NoDevice::NoGpu`] if the driver sees no GPU.
pub(super) fn all(api: &Api) -> Result<Vec<DeviceInfo>, NoDevice> {
    begin(api)?;
    let driver = version(api)?;
    let count = count(api)?;
    let infos: Result<_, Refusal> = (0..count).map(|ordinal| info(api, ordinal, driver)).collect();
    infos.map_err(|refusal| api.no_device(refusal))
}

/// One GPU, with the driver's handle for it.
///
/// # Errors
/// [`NoDevice`].
pub(super) fn one(api: &Api, ordinal: u32) -> Result<(c_int, DeviceInfo), NoDevice> {
    begin(api)?;
    let driver = version(api)?;
    let count = count(api)?;
    if ordinal >= count {
        return Err(NoDevice::NoSuchGpu { ordinal, count });
    }
    let found = handle(api, ordinal).and_then(|handle| Ok((handle, info(api, ordinal, driver)?)));
    found.map_err(|refusal| api.no_device(refusal))
}

fn begin(api: &Api) -> Result<(), NoDevice> {
    // SAFETY: the only flags that are allowed; it may be called again.
    match unsafe { (api.cuInit)(0) } {
        code::NO_DEVICE => Err(NoDevice::NoGpu),
        code => check_code("cuInit", code).map_err(|refusal| api.no_device(refusal)),
    }
}

/// Returns whether the driver is recent enough.
pub(super) fn check(api: &Api) -> Result<(), NoDevice> {
    let version = version(api)?;
    let least = DRIVER_LEAST;
    if version < least { Err(NoDevice::OldDriver { version, least }) } else { Ok(()) }
}

fn version(api: &Api) -> Result<(u32, u32), NoDevice> {
    let mut version = 0;
    // SAFETY: a place for the answer.
    let code = unsafe { (api.cuDriverGetVersion)(&mut version) };
    check_code("cuDriverGetVersion", code).map_err(|refusal| api.no_device(refusal))?;
    // 1000 times the major version and 10 times the minor one.
    let version = version.unsigned_abs();
    Ok((version / 1000, version % 1000 / 10))
}

fn count(api: &Api) -> Result<u32, NoDevice> {
    let mut count = 0;
    // SAFETY: a place for the answer.
    let code = unsafe { (api.cuDeviceGetCount)(&mut count) };
    check_code("cuDeviceGetCount", code).map_err(|refusal| api.no_device(refusal))?;
    if count <= 0 { Err(NoDevice::NoGpu) } else { Ok(count.unsigned_abs()) }
}

fn handle(api: &Api, ordinal: u32) -> Result<c_int, Refusal> {
    let mut handle = 0;
    // SAFETY: a place for the answer; any number is allowed.
    let code = unsafe { (api.cuDeviceGet)(&mut handle, ordinal as c_int) };
    check_code("cuDeviceGet", code).map(|()| handle)
}

fn attribute(api: &Api, device: c_int, number: c_int) -> Result<u32, Refusal> {
    let mut value: c_int = 0;
    // SAFETY: a place for the answer; any number is allowed.
    let code = unsafe { (api.cuDeviceGetAttribute)(&mut value, number, device) };
    check_code("cuDeviceGetAttribute", code).map(|()| value.unsigned_abs())
}

fn info(api: &Api, ordinal: u32, driver: (u32, u32)) -> Result<DeviceInfo, Refusal> {
    let device = handle(api, ordinal)?;
    let mut name = [0 as c_char; 256];
    // SAFETY: so much room for a string with its end.
    let code = unsafe { (api.cuDeviceGetName)(name.as_mut_ptr(), 255, device) };
    check_code("cuDeviceGetName", code)?;
    // SAFETY: the last byte was never given away, and is the zero that ends it at the latest.
    let name = unsafe { CStr::from_ptr(name.as_ptr()) }.to_string_lossy().into_owned();
    let mut uuid = [0; 16];
    // SAFETY: a place for the answer, which has 16 bytes.
    let code = unsafe { (api.cuDeviceGetUuid_v2)(&mut uuid, device) };
    check_code("cuDeviceGetUuid_v2", code)?;
    let mut memory = 0usize;
    // SAFETY: a place for the answer.
    let code = unsafe { (api.cuDeviceTotalMem_v2)(&mut memory, device) };
    check_code("cuDeviceTotalMem_v2", code)?;
    let of = |number| attribute(api, device, number);
    Ok(DeviceInfo {
        ordinal,
        name,
        uuid: uuid_text(&uuid),
        capability: (of(COMPUTE_CAPABILITY_MAJOR)?, of(COMPUTE_CAPABILITY_MINOR)?),
        multiprocessors: of(MULTIPROCESSOR_COUNT)?,
        memory_bytes: memory as u64,
        clock_khz: of(CLOCK_RATE).unwrap_or(0),
        copy_engines: of(ASYNC_ENGINE_COUNT).unwrap_or(0),
        bus: bus_text(of(PCI_DOMAIN_ID)?, of(PCI_BUS_ID)?, of(PCI_DEVICE_ID)?),
        driver,
    })
}

/// Formats a UUID like the driver's tools.
fn uuid_text(uuid: &[u8; 16]) -> String {
    let mut text = "GPU".to_owned();
    for (i, byte) in uuid.iter().enumerate() {
        if matches!(i, 0 | 4 | 6 | 8 | 10) {
            text.push('-');
        }
        // Writing to a string does not fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

fn bus_text(domain: u32, bus: u32, device: u32) -> String {
    format!("{domain:04x}:{bus:02x}:{device:02x}.0")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_those_of_the_drivers_tools() {
        let uuid = std::array::from_fn(|i| 0xf0 - i as u8);
        assert_eq!(uuid_text(&uuid), "GPU-f0efeeed-eceb-eae9-e8e7-e6e5e4e3e2e1");
        assert_eq!(bus_text(0, 0x3b, 0), "0000:3b:00.0");
    }
}
