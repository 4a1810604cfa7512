//! A device with its slots, for the process that made it.

use std::time::Duration;

use gabion_backend::{BatchOutcome, forks};

use crate::device::Device;
use crate::slots::{NoSlot, SlotGuard, Slots};

/// Slots: one is copied to, one runs and one is copied from, of two batches at once.
const SLOTS: usize = 6;
/// The maximum wait of a batch for a slot, after which it is declined.
const PATIENCE: Duration = Duration::from_millis(500);

/// Batches on a device.
///
/// It runs [`gabion_backend::Kem`] but what expands keys for a processor, [`gabion_backend::Dsa`] likewise, all of
/// [`gabion_backend::Hss`] and [`gabion_backend::Xmss`], and [`gabion_backend::Slh`] but decoding public keys. Keys are fresh
/// or known; known ones of ML-KEM and ML-DSA stay on the device. It declines everything else.
pub struct Cuda<D: Device> {
    slots: Slots<D>,
    /// The process that made it; a forked child has no device.
    process: Option<u64>,
}

impl<D: Device> Cuda<D> {
    /// A backend over a device, with slots of `slot_bytes` each; a batch whose chunk takes longer than `at_most` is
    /// lost.
    pub fn new(device: D, slot_bytes: usize, at_most: Duration) -> Self {
        Cuda { slots: Slots::new(device, SLOTS, slot_bytes, at_most), process: forks::token() }
    }

    /// The device.
    pub fn device(&self) -> &D {
        self.slots.device()
    }

    /// Returns whether this is the process that made it.
    pub(crate) fn is_here(&self) -> bool {
        self.process == forks::token()
    }

    /// Returns how many slots there are.
    pub(crate) fn slots(&self) -> usize {
        self.slots.count()
    }

    /// Bytes of a slot, which bound the lanes that run together.
    pub(crate) fn slot_bytes(&self) -> usize {
        self.slots.bytes()
    }

    /// A slot, if one is free now.
    pub(crate) fn slot_now(&self) -> Option<SlotGuard<'_, D>> {
        self.slots.take().ok()
    }

    /// A slot, or how the batch is answered without one.
    pub(crate) fn slot(&self) -> Result<SlotGuard<'_, D>, BatchOutcome> {
        self.slots.take_within(PATIENCE).map_err(|refused| match refused {
            NoSlot::Broken => BatchOutcome::Lost,
            NoSlot::Busy => BatchOutcome::Declined,
        })
    }
}

impl<D: Device> Drop for Cuda<D> {
    fn drop(&mut self) {
        if self.is_here() {
            self.slots.clear_residents();
        }
    }
}
