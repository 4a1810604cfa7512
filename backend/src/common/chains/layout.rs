//! The layout of a SHA-256 chain's block, scheme by scheme (FIPS 205, section 11.2; RFC 8554,
//! Algorithm 4b).

use gabion_scheme::kernels::lms::{LmsChain, OF_SECRET};
use gabion_scheme::kernels::slh::{SHA256_START, SlhAddress, SlhChain};

use super::Chain;

/// A chain with a layout.
pub(crate) trait Sha256Chain: Chain {
    /// The state that every step starts from.
    fn start(&self) -> &[u32; 8];

    /// Words 0 to 4 of the block and the hash address: of PRF, or of the first step.
    fn head(&self, is_prf: bool) -> [u8; 24];

    /// Returns the input of PRF, or of the first step.
    fn input(&self) -> &[u8];
}

impl Sha256Chain for SlhChain<'_> {
    #[inline(always)]
    fn start(&self) -> &[u32; 8] {
        &self.context.sha256
    }

    #[inline(always)]
    fn head(&self, is_prf: bool) -> [u8; 24] {
        let address: SlhAddress = match is_prf {
            true => self.address.of_secret(self.start),
            false => self.address.with_hash(self.start),
        };
        let compressed = address.compressed();
        let mut head = [0; 24];
        head[..18].copy_from_slice(&compressed[..18]);
        head[20..].copy_from_slice(&compressed[18..]);
        head
    }

    #[inline(always)]
    fn input(&self) -> &[u8] {
        self.sk_seed.unwrap_or(self.value)
    }
}

impl Sha256Chain for LmsChain<'_> {
    #[inline(always)]
    fn start(&self) -> &[u32; 8] {
        &SHA256_START
    }

    #[inline(always)]
    fn head(&self, is_prf: bool) -> [u8; 24] {
        let mut head = [0; 24];
        head[..20].copy_from_slice(&self.prefix[..20]);
        head[21..23].copy_from_slice(&self.prefix[20..]);
        head[23] = if is_prf { OF_SECRET } else { self.start as u8 };
        head
    }

    #[inline(always)]
    fn input(&self) -> &[u8] {
        self.seed.unwrap_or(self.value)
    }
}
