//! The kernels that this program carries: machine code for each kind of GPU, and PTX for later ones.

use std::io::Read;
use std::sync::{Arc, Mutex, TryLockError, Weak};

use super::error::NoDevice;

/// The compressed fat binary that `script/cuda` makes; `kernels.txt` in the same directory lists
/// its contents.
static PACKED: &[u8] = include_bytes!("../../kernels.fatbin.xz");
/// The limits of unpacking: memory, and bytes of output.
const MEMORY_KIB: u32 = 128 << 10;
const BYTES_MAX: u64 = 256 << 20;

/// The unpacked form of some bytes, shared for as long as it is in use.
struct Image {
    packed: &'static [u8],
    held: Mutex<Weak<Vec<u8>>>,
}

impl Image {
    const fn of(packed: &'static [u8]) -> Self {
        Image { packed, held: Mutex::new(Weak::new()) }
    }

    /// Returns the shared image, or a new one. It never blocks, since a child may have been forked
    /// while a thread was unpacking: if the lock is held, the caller gets a separate image.
    fn unpack(&self) -> Result<Arc<Vec<u8>>, NoDevice> {
        let held = match self.held.try_lock() {
            Ok(held) => Some(held),
            Err(TryLockError::Poisoned(held)) => Some(held.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        };
        if let Some(image) = held.as_ref().and_then(|held| held.upgrade()) {
            return Ok(image);
        }
        let mut image = Vec::new();
        lzma_rust2::XzReader::new_mem_limit(self.packed, false, MEMORY_KIB)
            .take(BYTES_MAX)
            .read_to_end(&mut image)
            .map_err(|cause| NoDevice::Damaged(cause.to_string()))?;
        let image = Arc::new(image);
        if let Some(mut held) = held {
            *held = Arc::downgrade(&image);
        }
        Ok(image)
    }
}

/// Returns the unpacked fat binary: 49 MB, of which a context copies the kernels it needs. Callers
/// that open several devices keep it meanwhile.
///
/// # Errors
/// [`NoDevice::Damaged`].
pub(super) fn unpack() -> Result<Arc<Vec<u8>>, NoDevice> {
    static IMAGE: Image = Image::of(PACKED);
    IMAGE.unpack()
}

#[cfg(test)]
mod tests {
    use super::*;
    use sha2::{Digest, Sha256};

    #[test]
    fn the_fat_binary_is_the_one_that_kernels_txt_describes() {
        let image = unpack().unwrap();
        let said = include_str!("../../kernels.txt");
        let value = |of: &str| {
            let mut lines = said.lines().filter_map(|line| line.strip_prefix(of));
            lines.next().map(str::trim).unwrap_or_default()
        };
        assert_eq!(value("sha256 "), base16ct::lower::encode_string(&Sha256::digest(&*image)));
        assert_eq!(value("bytes "), image.len().to_string());
        assert!(value("nvcc ").starts_with("13.0."), "the driver's version of DRIVER_LEAST");
        // The magic number of a fat binary.
        assert_eq!(image[..4], 0xba55_ed50u32.to_le_bytes());
    }

    /// The output of `printf kernels | xz -9 --check=crc32`.
    const SMALL: [u8; 60] = [
        253, 55, 122, 88, 90, 0, 0, 1, 105, 34, 222, 54, 2, 0, 33, 1, 28, 0, 0, 0, 16, 207, 88,
        204, 1, 0, 6, 107, 101, 114, 110, 101, 108, 115, 0, 0, 241, 103, 87, 90, 0, 1, 27, 7, 18,
        235, 212, 23, 144, 66, 153, 13, 1, 0, 0, 0, 0, 1, 89, 90,
    ];

    #[test]
    fn unpacked_kernels_are_freed_with_last_holder() {
        let all = Image::of(&SMALL);
        let (first, second) = (all.unpack().unwrap(), all.unpack().unwrap());
        assert!(Arc::ptr_eq(&first, &second), "it is unpacked once for all who hold it");
        let is_held = || all.held.lock().unwrap().upgrade().is_some();
        drop(first);
        assert!(is_held());
        drop(second);
        assert!(!is_held(), "what nobody holds stays");
        let locked = all.held.lock().unwrap();
        assert_eq!(**all.unpack().unwrap(), *b"kernels", "without waiting for who unpacks");
        drop(locked);
        assert_eq!(**all.unpack().unwrap(), *b"kernels", "it is unpacked again");
        assert!(matches!(Image::of(b"none").unpack(), Err(NoDevice::Damaged(_))));
    }
}
