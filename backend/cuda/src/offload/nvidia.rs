//! NVIDIA's driver as a source.

use std::fs;
use std::path::Path;

use super::absent::Absent;
use super::source::{DeviceDescription, Source};
use crate::driver::{self, DeviceInfo, NoDevice, Nvidia};

/// The GPUs that NVIDIA's driver lets this process use.
#[derive(Clone, Copy, Debug, Default)]
pub struct Driver;

/// The device nodes that the driver's kernel module creates: on servers, under WSL 2, on Jetson
/// boards.
const NODES: [&str; 3] = ["/dev/nvidiactl", "/dev/dxg", "/dev/nvmap"];
/// The file with the version of the kernel module.
const VERSION: &str = "/sys/module/nvidia/version";

impl Source for Driver {
    type Device = Nvidia;

    fn may_be_there(&self) -> bool {
        NODES.iter().any(|node| Path::new(node).exists())
    }

    fn check(&self) -> Result<(), Absent> {
        driver::check().map_err(unusable)?;
        if self.may_be_there() { Ok(()) } else { Err(Absent::NoDevice) }
    }

    fn open(&self) -> Result<Vec<(DeviceDescription, Nvidia)>, Absent> {
        let (mut opened, mut first) = (Vec::new(), None);
        let devices = driver::devices().map_err(unusable)?;
        for (info, device) in devices.iter().zip(driver::open_all(&devices)) {
            match device {
                Ok(device) => opened.push((describe(info), device)),
                Err(why) => first = first.or(Some(why)),
            }
        }
        match first {
            Some(why) if opened.is_empty() => Err(unusable(why)),
            _ if opened.is_empty() => Err(Absent::NoDevice),
            _ => Ok(opened),
        }
    }
}

fn unusable(why: NoDevice) -> Absent {
    Absent::Unusable(why.to_string())
}

fn describe(info: &DeviceInfo) -> DeviceDescription {
    let cuda = format!("CUDA {}.{}", info.driver.0, info.driver.1);
    let module = fs::read_to_string(VERSION).unwrap_or_default();
    DeviceDescription {
        name: info.name.clone(),
        uuid: info.uuid.clone(),
        capability: info.capability,
        memory_bytes: info.memory_bytes,
        driver: match module.trim() {
            "" => cuda,
            version => format!("{version} ({cuda})"),
        },
    }
}
