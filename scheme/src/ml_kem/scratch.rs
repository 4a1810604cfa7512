//! Working memory of a batch.

use crate::ct;
use crate::kernels::KemPoly;

/// Working memory that calls reuse: it grows to the largest batch seen, and holds no secret
/// between calls.
#[derive(Default)]
pub struct Scratch {
    /// Outputs of G: (rho, sigma) or (K, r), 64 bytes a lane.
    pub(super) g: Vec<[u8; 64]>,
    /// Outputs of J, 32 bytes a lane.
    pub(super) j: Vec<[u8; 32]>,
    /// Outputs of the PRF, `64 * eta` bytes a polynomial.
    pub(super) prf: Vec<u8>,
    /// Squeezed bytes of A.
    pub(super) squeezed: Vec<u8>,
    /// A of up to [`super::SIDE_BY_SIDE`] lanes.
    pub(super) matrix: Vec<KemPoly>,
    /// Polynomials in the NTT domain of as many lanes: (s, e), y or u.
    pub(super) hat: Vec<KemPoly>,
    /// Results of matrix products: of one lane, or w of as many lanes.
    pub(super) product: Vec<KemPoly>,
    /// Noise e1 and e2, or v', of as many lanes.
    pub(super) noise: Vec<KemPoly>,
    /// Messages m', 32 bytes a lane.
    pub(super) message: Vec<[u8; 32]>,
    /// The re-encrypted ciphertext of one lane.
    pub(super) ct: Vec<u8>,
}

impl Scratch {
    pub(super) fn wipe(&mut self) {
        ct::wipe(&mut self.g);
        ct::wipe(&mut self.j);
        ct::wipe(&mut self.prf);
        ct::wipe(&mut self.hat);
        ct::wipe(&mut self.product);
        ct::wipe(&mut self.noise);
        ct::wipe(&mut self.message);
        ct::wipe(&mut self.ct);
    }
}

impl Drop for Scratch {
    /// A call that unwound did not reach its own wipe.
    fn drop(&mut self) {
        self.wipe();
    }
}
