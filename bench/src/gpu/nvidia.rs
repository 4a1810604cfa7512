//! A GPU of NVIDIA's as a device under measurement.

use gabion_cuda::driver::{Energy, Nvidia};
use gabion_rows::gpu;

use super::card::{Card, Time};

impl Card for Nvidia {
    fn describe(&self) -> gpu::Device {
        let info = self.info();
        gpu::Device {
            name: info.name.clone(),
            driver: format!("{}.{}", info.driver.0, info.driver.1),
            multiprocessors: info.multiprocessors,
            clock_mhz: info.clock_khz / 1000,
        }
    }

    fn profile(&self, is_on: bool) {
        Nvidia::profile(self, is_on);
    }

    fn times(&self) -> Vec<Time> {
        let times = Nvidia::times(self).into_iter();
        times.map(|(kernel, launches, ms)| Time { kernel, launches, ns: ms * 1e6 }).collect()
    }

    fn energy_mj(&self) -> Option<u64> {
        Energy::of_device(self.info())?.millijoules()
    }
}
