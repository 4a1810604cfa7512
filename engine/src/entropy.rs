//! Where randomness comes from.

use std::cell::Cell;

use gabion_scheme::Algorithm;
use zeroize::Zeroizing;

use crate::error::{EntropyError, Error, check_length};

/// A source of randomness that is fit for keys.
///
/// # Examples
/// ```
/// use gabion_engine::{Algorithm, Engine, Entropy, EntropyError, OsEntropy};
///
/// /// What a hardware generator gives, and the operating system's mixed into it.
/// struct Mixed;
///
/// impl Entropy for Mixed {
///     fn fill(&self, out: &mut [u8]) -> Result<(), EntropyError> {
///         OsEntropy.fill(out)?;
///         // Here `out` would be combined with the device's bytes, or an error returned.
///         Ok(())
///     }
/// }
///
/// Engine::global()?.kem_generate(Algorithm::MlKem768, &Mixed)?;
/// # Ok::<(), gabion_engine::Error>(())
/// ```
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
fn draw<const N: usize>(entropy: &dyn Entropy, lanes: usize) -> Result<Lanes<N>, EntropyError> {
    let mut values = Zeroizing::new(vec![[0u8; N]; lanes]);
    entropy.fill(values.as_flattened_mut())?;
    Ok(values)
}

/// A buffer of randomness, drawn once for several purposes and handed out piece by piece. Callers
/// that need more, for example to redraw an invalid scalar of a curve, get it from the source.
pub(crate) struct EntropyBuffer<'a> {
    source: &'a dyn Entropy,
    bytes: Zeroizing<Vec<u8>>,
    used: Cell<usize>,
}

impl<'a> EntropyBuffer<'a> {
    /// Draws `len` bytes.
    pub(crate) fn draw(source: &'a dyn Entropy, len: usize) -> Result<Self, EntropyError> {
        let mut bytes = Zeroizing::new(vec![0; len]);
        source.fill(&mut bytes)?;
        Ok(EntropyBuffer { source, bytes, used: Cell::new(0) })
    }
}

impl Entropy for EntropyBuffer<'_> {
    fn fill(&self, out: &mut [u8]) -> Result<(), EntropyError> {
        let (start, end) = (self.used.get(), self.used.get() + out.len());
        let Some(bytes) = self.bytes.get(start..end) else { return self.source.fill(out) };
        // No byte is given out twice.
        self.used.set(end);
        out.copy_from_slice(bytes);
        Ok(())
    }
}

/// The source of a batch's randomness.
#[derive(Clone, Copy)]
pub enum Randomness<'a> {
    /// A source, asked once for the whole batch.
    Fresh(&'a dyn Entropy),
    /// No randomness: the deterministic variant of a signature. An algorithm without one fails.
    Deterministic,
    /// Bytes that the caller brings, `[lane][byte]`. Randomness that is used twice, or known to
    /// others, gives secrets away.
    Bytes(&'a [u8]),
}

impl Randomness<'_> {
    /// Returns `N` bytes per lane for an algorithm with a deterministic variant, for which they are
    /// zero.
    pub(crate) fn hedge<const N: usize>(self, lanes: usize) -> Result<Lanes<N>, Error> {
        match self {
            Randomness::Fresh(entropy) => Ok(draw::<N>(entropy, lanes)?),
            Randomness::Deterministic => Ok(Lanes::new(vec![[0; N]; lanes])),
            Randomness::Bytes(bytes) => {
                check_length("the given randomness", lanes * N, bytes)?;
                Ok(Lanes::new(bytes.as_chunks::<N>().0.to_vec()))
            }
        }
    }

    /// Returns `len` bytes per lane for an algorithm whose deterministic variant uses none.
    pub(crate) fn optional(
        self,
        lanes: usize,
        len: usize,
    ) -> Result<Option<Zeroizing<Vec<u8>>>, Error> {
        match self {
            Randomness::Fresh(entropy) => {
                let mut bytes = Zeroizing::new(vec![0; lanes * len]);
                entropy.fill(&mut bytes)?;
                Ok(Some(bytes))
            }
            Randomness::Deterministic => Ok(None),
            Randomness::Bytes(bytes) => {
                check_length("the given randomness", lanes * len, bytes)?;
                Ok(Some(Zeroizing::new(bytes.to_vec())))
            }
        }
    }

    /// Returns `N` bytes per lane for an algorithm that requires randomness.
    pub(crate) fn fresh<const N: usize>(
        self,
        algorithm: Algorithm,
        lanes: usize,
    ) -> Result<Lanes<N>, Error> {
        if matches!(self, Randomness::Deterministic) {
            return Err(Error::WrongAlgorithm {
                algorithm,
                operation: "work without randomness",
                expected: "an algorithm that has a deterministic variant",
            });
        }
        self.hedge(lanes)
    }
}

/// `N` random bytes a lane; wiped when dropped.
pub(crate) type Lanes<const N: usize> = Zeroizing<Vec<[u8; N]>>;

#[cfg(test)]
mod tests {
    use super::*;

    /// A source that counts up, and counts how often it is asked.
    #[derive(Default)]
    struct CountingEntropy(Cell<u8>, Cell<usize>);

    impl Entropy for CountingEntropy {
        fn fill(&self, out: &mut [u8]) -> Result<(), EntropyError> {
            self.1.set(self.1.get() + 1);
            for byte in out {
                *byte = self.0.replace(self.0.get() + 1);
            }
            Ok(())
        }
    }

    #[test]
    fn entropy_buffer_returns_each_byte_once() {
        let source = CountingEntropy::default();
        let drawn = EntropyBuffer::draw(&source, 8).unwrap();
        let (mut first, mut second, mut third) = ([0; 3], [0; 5], [0; 2]);
        drawn.fill(&mut first).unwrap();
        drawn.fill(&mut second).unwrap();
        assert_eq!((first, second, source.1.get()), ([0, 1, 2], [3, 4, 5, 6, 7], 1));
        drawn.fill(&mut third).unwrap();
        assert_eq!((third, source.1.get()), ([8, 9], 2));
    }
}
