//! Where randomness comes from.

/// The source of randomness failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no randomness: {0}")]
pub struct EntropyError(pub String);

/// A source of randomness that is fit for keys.
pub trait Entropy {
    /// Fills `out` with fresh random bytes.
    ///
    /// # Errors
    /// When the source fails; `out` must then not be used.
    fn fill(&self, out: &mut [u8]) -> Result<(), EntropyError>;
}

/// The operating system's generator (getrandom(2) on Linux).
#[derive(Clone, Copy, Debug, Default)]
pub struct OsEntropy;

impl Entropy for OsEntropy {
    fn fill(&self, out: &mut [u8]) -> Result<(), EntropyError> {
        getrandom::fill(out).map_err(|error| EntropyError(error.to_string()))
    }
}

/// Draws `lanes` values of `N` bytes at once.
pub(crate) fn draw<const N: usize>(
    entropy: &dyn Entropy,
    lanes: usize,
) -> Result<zeroize::Zeroizing<Vec<[u8; N]>>, EntropyError> {
    let mut values = zeroize::Zeroizing::new(vec![[0u8; N]; lanes]);
    entropy.fill(values.as_flattened_mut())?;
    Ok(values)
}
