//! The device that tests run on: this processor, or a GPU if the environment names one.

use std::time::Duration;

use gabion_backend::{Backend, Batch, BatchOutcome};
use gabion_cuda::Cuda;
use gabion_cuda::driver::Nvidia;

use crate::Emulator;

/// The variable with the number of the GPU that tests run on, from 0; without it they run on [`Emulator`].
pub const DEVICE: &str = "GABION_CUDA_DEVICE";

/// How long a chunk may take. The processor is not interrupted.
const AT_MOST: Duration = Duration::from_secs(60);

/// A backend of `gabion-cuda` over the device that [`DEVICE`] selects.
pub struct SelectedBackend(Box<dyn Backend>);

/// Opens the selected device as a backend with slots of `slot_bytes` each.
///
/// # Errors
/// The variable is no number, or there is no such GPU; in words. A processor never stands in for a GPU that was named.
pub fn selected_backend(slot_bytes: usize) -> Result<SelectedBackend, String> {
    match number(std::env::var(DEVICE).ok().as_deref())? {
        None => Ok(SelectedBackend(Box::new(Cuda::new(Emulator::new(), slot_bytes, AT_MOST)))),
        Some(number) => match Nvidia::open(number) {
            Ok(gpu) => Ok(SelectedBackend(Box::new(Cuda::new(gpu, slot_bytes, AT_MOST)))),
            Err(why) => Err(format!("{DEVICE} is {number}: {why}")),
        },
    }
}

/// The number of a GPU, if one is named.
fn number(named: Option<&str>) -> Result<Option<u32>, String> {
    let Some(named) = named.filter(|named| !named.is_empty()) else { return Ok(None) };
    match named.parse() {
        Ok(number) => Ok(Some(number)),
        Err(_) => Err(format!("{DEVICE} is `{named}`; expected the number of a GPU, such as 0")),
    }
}

impl Backend for SelectedBackend {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn lanes(&self) -> usize {
        self.0.lanes()
    }

    fn run(&self, batch: &mut Batch<'_>) -> BatchOutcome {
        self.0.run(batch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gpu_is_named_by_its_number() {
        assert_eq!(number(None), Ok(None));
        assert_eq!(number(Some("")), Ok(None));
        assert_eq!(number(Some("3")), Ok(Some(3)));
        for bad in ["-1", "gpu0", "0 "] {
            assert!(number(Some(bad)).is_err_and(|said| said.contains(bad)), "{bad}");
        }
    }
}
