//! The kernels that this program carries: machine code for each kind of GPU, and PTX for later ones.

use std::io::Read;

use once_cell::race::OnceBox;

use super::error::NoDevice;

/// The fat binary that `script/cuda` makes, packed; `kernels.txt` beside it says what is in it.
static PACKED: &[u8] = include_bytes!("../../kernels.fatbin.xz");
/// What unpacking may take: memory, and bytes of what comes out.
const MEMORY_KIB: u32 = 128 << 10;
const BYTES_MAX: u64 = 256 << 20;

/// The fat binary, which is unpacked at first use.
///
/// # Errors
/// [`NoDevice::Damaged`].
pub(super) fn unpacked() -> Result<&'static [u8], NoDevice> {
    static IMAGE: OnceBox<Vec<u8>> = OnceBox::new();
    let image = IMAGE.get_or_try_init(|| {
        let mut image = Vec::new();
        lzma_rust2::XzReader::new_mem_limit(PACKED, false, MEMORY_KIB)
            .take(BYTES_MAX)
            .read_to_end(&mut image)
            .map_err(|cause| NoDevice::Damaged(cause.to_string()))?;
        Ok(Box::new(image))
    })?;
    Ok(image)
}

#[cfg(test)]
mod tests {
    use super::*;
    use sha2::{Digest, Sha256};

    #[test]
    fn the_fat_binary_is_the_one_that_kernels_txt_describes() {
        let image = unpacked().unwrap();
        let said = include_str!("../../kernels.txt");
        let value = |of: &str| {
            let mut lines = said.lines().filter_map(|line| line.strip_prefix(of));
            lines.next().map(str::trim).unwrap_or_default()
        };
        assert_eq!(value("sha256 "), hex::encode(Sha256::digest(image)));
        assert_eq!(value("bytes "), image.len().to_string());
        assert!(value("nvcc ").starts_with("13.0."), "the driver's version of DRIVER_LEAST");
        // The magic number of a fat binary.
        assert_eq!(image[..4], 0xba55_ed50u32.to_le_bytes());
    }
}
