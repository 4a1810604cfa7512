//! Slots: memory on the device, each with one owner at a time.
//!
//! ```text
//!   free --take--> taken, generation n --drop: secrets cleared--> free
//!                     |
//!                     +--a fault--> the device is broken: it is restarted when all slots are back, and gives none before
//! ```
//!
//! A kernel that was launched before a fault may still write. So memory is not used again after one, not even by
//! another slot, before the device was restarted.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use gabion_scheme::ct;

use crate::device::{Device, Fault, Launch};
use crate::layout::Region;
use crate::resident::{Entries, EntryLease, EvictedEntries, Kind, Residents};

/// Low bits of a status word, which hold the generation.
const GENERATION_BITS: u32 = 24;

/// Bytes for resident keys of each kind, at most: 4600 private keys of ML-KEM-768.
const RESIDENT_BYTES: usize = 32 << 20;

/// The slots of a device.
pub(crate) struct Slots<D: Device> {
    device: D,
    bytes: usize,
    at_most: Duration,
    inner: Mutex<Inner>,
    /// Told when a slot is free.
    freed: Condvar,
    residents: Residents,
}

struct Inner {
    slots: Vec<Slot>,
    generation: u32,
    broken: bool,
    /// The waiters in order, by their numbers.
    waiting: VecDeque<u64>,
    drawn: u64,
}

/// One slot; its address is 0 before it is allocated.
#[derive(Clone, Copy, Default)]
struct Slot {
    address: u64,
    is_taken: bool,
}

/// The position, address and generation of a slot that has an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct SlotClaim {
    index: usize,
    address: u64,
    generation: u32,
}

/// The reason why there is no slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoSlot {
    /// All are taken.
    Busy,
    /// The device is broken or has no memory.
    Broken,
}

impl<D: Device> Slots<D> {
    /// Returns `slots` slots of `bytes` bytes each, which are allocated on first use. A batch waits
    /// at most `at_most` for the device.
    pub(crate) fn new(device: D, slots: usize, bytes: usize, at_most: Duration) -> Self {
        let slots = vec![Slot::default(); slots];
        let inner = Mutex::new(Inner {
            slots,
            generation: 0,
            broken: false,
            waiting: VecDeque::new(),
            drawn: 0,
        });
        let residents = Residents::new(bytes.min(RESIDENT_BYTES));
        Slots { device, bytes, at_most, inner, freed: Condvar::new(), residents }
    }

    /// The device.
    pub(crate) fn device(&self) -> &D {
        &self.device
    }

    /// Bytes of a slot.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns how many there are.
    pub(crate) fn count(&self) -> usize {
        self.lock().slots.len()
    }

    /// Takes a free slot, which holds no secret of earlier users. Fails if all are taken, or if
    /// others wait for one.
    pub(crate) fn take(&self) -> Result<SlotGuard<'_, D>, NoSlot> {
        let mut inner = self.lock();
        let claim =
            if inner.waiting.is_empty() { self.claim(&mut inner) } else { Err(NoSlot::Busy) };
        drop(inner);
        claim.map(|claim| self.guard(claim))
    }

    /// Takes a free slot, queueing behind other waiters, for `patience` at most.
    pub(crate) fn take_within(&self, patience: Duration) -> Result<SlotGuard<'_, D>, NoSlot> {
        let until = Instant::now() + patience;
        let mut inner = self.lock();
        inner.drawn += 1;
        let number = inner.drawn;
        inner.waiting.push_back(number);
        let claim = loop {
            let is_next = inner.waiting.front() == Some(&number);
            let claim = if is_next { self.claim(&mut inner) } else { Err(NoSlot::Busy) };
            let left = until.saturating_duration_since(Instant::now());
            if claim != Err(NoSlot::Busy) || left.is_zero() {
                break claim;
            }
            let woken = self.freed.wait_timeout(inner, left);
            inner = woken.unwrap_or_else(PoisonError::into_inner).0;
        };
        inner.waiting.retain(|&other| other != number);
        drop(inner);
        // There may be a slot for the next one, too.
        self.freed.notify_all();
        claim.map(|claim| self.guard(claim))
    }

    /// Claims a free slot.
    fn claim(&self, inner: &mut Inner) -> Result<SlotClaim, NoSlot> {
        if inner.broken {
            self.restart(inner)?;
        }
        let index = inner.slots.iter().position(|slot| !slot.is_taken).ok_or(NoSlot::Busy)?;
        if inner.slots[index].address == 0 {
            match self.device.allocate(self.bytes) {
                Ok(address) => inner.slots[index].address = address,
                // There are as many as there is memory for: those before this one, all of which are taken.
                Err(Fault::NoMemory) if index > 0 => {
                    inner.slots.truncate(index);
                    return Err(NoSlot::Busy);
                }
                Err(fault) => {
                    // Without memory nothing is lost but the batch; anything else may have broken the others.
                    inner.broken |= fault != Fault::NoMemory;
                    return Err(NoSlot::Broken);
                }
            }
        }
        inner.generation = next_generation(inner.generation);
        inner.slots[index].is_taken = true;
        Ok(SlotClaim { index, address: inner.slots[index].address, generation: inner.generation })
    }

    /// The guard of a claimed slot.
    fn guard(&self, claim: SlotClaim) -> SlotGuard<'_, D> {
        let SlotClaim { index, address, generation } = claim;
        let mut guard = SlotGuard {
            slots: self,
            index,
            address,
            generation,
            used: 0,
            secret: 0,
            is_open: false,
            fault: None,
            lease: None,
            evicted: EvictedEntries::default(),
            sent: Vec::new(),
            fetched: Vec::new(),
            outputs: Vec::new(),
            copied: Vec::new(),
        };
        guard.sweep();
        guard
    }

    /// Restarts the device if no slot is taken.
    fn restart(&self, inner: &mut Inner) -> Result<(), NoSlot> {
        if inner.slots.iter().any(|slot| slot.is_taken) || self.device.restart().is_err() {
            return Err(NoSlot::Broken);
        }
        inner.slots.fill(Slot::default());
        self.residents.forget();
        inner.broken = false;
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<D: Device> Slots<D> {
    /// Clears resident keys, for a device that goes.
    pub(crate) fn clear_residents(&self) {
        for (address, bytes) in self.residents.memory() {
            let _ = self.device.clear(0, address, bytes);
        }
        let _ = self.device.finish(0, self.at_most);
    }
}

/// The next one; never 0, which cleared memory says.
fn next_generation(generation: u32) -> u32 {
    match (generation + 1) & ((1 << GENERATION_BITS) - 1) {
        0 => 1,
        next => next,
    }
}

/// Exclusive ownership of a slot. Buffers to copy from and to are lent to it until it has finished;
/// secret contents are cleared when it is dropped.
pub(crate) struct SlotGuard<'a, D: Device> {
    slots: &'a Slots<D>,
    index: usize,
    address: u64,
    generation: u32,
    /// Bytes that are used, and bytes from the front that may hold secrets.
    used: usize,
    secret: usize,
    /// Whether anything was asked for since it finished.
    is_open: bool,
    fault: Option<Fault>,
    /// Resident keys that it uses, and entries of dropped ones that it clears.
    lease: Option<EntryLease>,
    evicted: EvictedEntries,
    /// Owned copies: sent bytes, and fetched bytes.
    sent: Vec<WipedBytes>,
    fetched: Vec<WipedBytes>,
    /// Outputs that are written until it has finished.
    outputs: Vec<&'a mut [u8]>,
    /// The copies into these two buffers and their destinations.
    copied: Vec<(usize, *mut u8, usize)>,
}

/// Bytes that are wiped when they are dropped.
struct WipedBytes(Vec<u8>);

impl Drop for WipedBytes {
    fn drop(&mut self) {
        ct::wipe(&mut self.0);
    }
}

impl<'a, D: Device> SlotGuard<'a, D> {
    /// Returns the generation that this owner's status words carry.
    pub(crate) fn generation(&self) -> u32 {
        self.generation
    }

    /// The address of a byte of the slot.
    pub(crate) fn address(&self, offset: usize) -> u64 {
        self.address + offset as u64
    }

    /// Declares how much of the slot is used from here on, and how much of that, from the front,
    /// may hold secrets; and zeros `tails` (`Layout::tails`).
    ///
    /// # Errors
    /// [`Fault::NoMemory`] if the slot is smaller.
    pub(crate) fn reserve(
        &mut self,
        bytes: usize,
        secret: usize,
        tails: &[Region],
    ) -> Result<(), Fault> {
        if bytes > self.slots.bytes || secret > bytes {
            return Err(Fault::NoMemory);
        }
        self.used = self.used.max(bytes);
        self.secret = self.secret.max(secret);
        tails.iter().try_for_each(|tail| self.clear(tail.offset, tail.bytes))
    }

    /// Uses resident keys: one number a lane, `each` bytes an entry. Gives the address of each lane's entry, and a lane of
    /// each key that has to be filled in; nothing if they can't all be resident.
    pub(crate) fn hold(
        &mut self,
        kind: Kind,
        each: usize,
        lanes: &[u64],
    ) -> Result<Option<Entries>, Fault> {
        let lease = self.slots.residents.hold(&self.slots.device, kind, each, lanes);
        if let Err(fault) = lease {
            self.fault = Some(fault);
        }
        let mut lease = lease?;
        let keys = lease.as_mut().map(|lease| {
            (std::mem::take(&mut lease.addresses), std::mem::take(&mut lease.missing))
        });
        self.lease = lease;
        Ok(keys)
    }

    /// Copies bytes to an address of an entry that it fills in.
    ///
    /// # Safety
    /// So many bytes at the address are of an entry that [`Self::hold`] gave.
    pub(crate) unsafe fn fill(&mut self, address: u64, bytes: &'a [u8]) -> Result<(), Fault> {
        self.is_open = true;
        let device = &self.slots.device;
        // SAFETY: lent for as long as this lives; the address is the caller's.
        let done = unsafe { device.upload(self.index, address, bytes.as_ptr(), bytes.len()) };
        self.note_fault(done)
    }

    /// Clears the entries of dropped keys.
    fn sweep(&mut self) {
        self.evicted = self.slots.residents.sweep();
        for (address, bytes) in std::mem::take(&mut self.evicted.memory) {
            self.is_open = true;
            let done = self.slots.device.clear(self.index, address, bytes);
            let _ = self.note_fault(done);
        }
    }

    /// Bytes of the slot.
    pub(crate) fn slot_bytes(&self) -> usize {
        self.slots.bytes
    }

    /// Returns the reserved bytes from an offset on.
    pub(crate) fn room(&self, offset: usize) -> usize {
        self.used.saturating_sub(offset)
    }

    /// Copies bytes into the slot.
    pub(crate) fn upload(&mut self, offset: usize, bytes: &'a [u8]) -> Result<(), Fault> {
        // SAFETY: lent for as long as this lives, and it ends by finishing.
        unsafe { self.upload_from(offset, bytes.as_ptr(), bytes.len()) }
    }

    /// Copies bytes into the slot, and keeps them for as long as that takes.
    pub(crate) fn upload_own(&mut self, offset: usize, bytes: Vec<u8>) -> Result<(), Fault> {
        let (start, len) = (bytes.as_ptr(), bytes.len());
        self.sent.push(WipedBytes(bytes));
        // SAFETY: kept until it has finished, and never changed.
        unsafe { self.upload_from(offset, start, len) }
    }

    /// # Safety
    /// Fails like [`Device::upload`].
    unsafe fn upload_from(
        &mut self,
        offset: usize,
        from: *const u8,
        bytes: usize,
    ) -> Result<(), Fault> {
        self.check_range(offset, bytes)?;
        self.is_open = true;
        let (stream, to) = (self.index, self.address(offset));
        // SAFETY: the caller's.
        let done = unsafe { self.slots.device.upload(stream, to, from, bytes) };
        self.note_fault(done)
    }

    /// Makes bytes of the slot zero.
    pub(crate) fn clear(&mut self, offset: usize, bytes: usize) -> Result<(), Fault> {
        self.check_range(offset, bytes)?;
        self.is_open = true;
        let done = self.slots.device.clear(self.index, self.address(offset), bytes);
        self.note_fault(done)
    }

    /// Copies bytes out of the slot; [`Self::outputs`] gives them back.
    pub(crate) fn download(&mut self, offset: usize, out: &'a mut [u8]) -> Result<(), Fault> {
        let (start, len) = (out.as_mut_ptr(), out.len());
        self.outputs.push(out);
        // SAFETY: lent, and not touched before it has finished.
        unsafe { self.download_to(offset, start, len) }
    }

    /// Copies bytes out of the slot into a buffer of this guard; [`Self::fetched`] returns them by
    /// the number that this returns.
    pub(crate) fn fetch(&mut self, offset: usize, bytes: usize) -> Result<usize, Fault> {
        let mut out = vec![0; bytes];
        let start = out.as_mut_ptr();
        self.fetched.push(WipedBytes(out));
        // SAFETY: kept, and not touched before it has finished.
        unsafe { self.download_to(offset, start, bytes)? };
        Ok(self.fetched.len() - 1)
    }

    /// # Safety
    /// Fails like [`Device::download`].
    unsafe fn download_to(
        &mut self,
        offset: usize,
        to: *mut u8,
        bytes: usize,
    ) -> Result<(), Fault> {
        self.check_range(offset, bytes)?;
        self.is_open = true;
        self.copied.push((offset, to, bytes));
        let (stream, from) = (self.index, self.address(offset));
        // SAFETY: the caller's.
        let done = unsafe { self.slots.device.download(stream, from, to, bytes) };
        self.note_fault(done)
    }

    /// Copies everything once more that was copied out, after work that went on; not after [`Self::outputs`].
    pub(crate) fn download_again(&mut self) -> Result<(), Fault> {
        for (offset, to, bytes) in std::mem::take(&mut self.copied) {
            // SAFETY: kept or lent as before.
            unsafe { self.download_to(offset, to, bytes)? };
        }
        Ok(())
    }

    /// Runs a kernel.
    ///
    /// # Safety
    /// Fails like [`Device::launch`]; addresses are of what was reserved of this slot.
    pub(crate) unsafe fn launch(&mut self, launch: &Launch<'_>) -> Result<(), Fault> {
        self.is_open = true;
        // SAFETY: the caller's.
        let done = unsafe { self.slots.device.launch(self.index, launch) };
        self.note_fault(done)
    }

    /// Waits for all that was asked for.
    pub(crate) fn finish(&mut self) -> Result<(), Fault> {
        let done = self.slots.device.finish(self.index, self.slots.at_most);
        self.is_open = false;
        self.sent.clear();
        self.note_fault(done)
    }

    /// Returns the bytes of a fetch after [`finish`](Self::finish), and nothing before.
    pub(crate) fn fetched_bytes(&self, number: usize) -> &[u8] {
        let it = self.fetched.get(number).filter(|_| !self.is_open);
        it.map_or(&[], |bytes| &bytes.0)
    }

    /// The outputs in the order in which they were asked for, once it has finished.
    pub(crate) fn outputs(&mut self) -> Vec<&'a mut [u8]> {
        self.copied.clear();
        if self.is_open { Vec::new() } else { std::mem::take(&mut self.outputs) }
    }

    /// Records that the device gave a wrong answer.
    pub(crate) fn distrust(&mut self) {
        self.fault = Some(Fault::Failed);
    }

    fn check_range(&self, offset: usize, bytes: usize) -> Result<(), Fault> {
        match offset.checked_add(bytes) {
            Some(end) if end <= self.used => Ok(()),
            _ => Err(Fault::NoMemory),
        }
    }

    fn note_fault(&mut self, done: Result<(), Fault>) -> Result<(), Fault> {
        if let Err(fault) = done {
            self.fault = Some(fault);
        }
        done
    }
}

impl<D: Device> Drop for SlotGuard<'_, D> {
    fn drop(&mut self) {
        if self.fault.is_none() && self.secret > 0 {
            self.fault = self.clear(0, self.secret).err();
        }
        if self.is_open {
            // Before lent buffers go back, and before owned ones are dropped.
            let _ = self.finish();
        }
        if let Some(lease) = self.lease.take() {
            self.slots.residents.release(&lease, self.fault.is_none());
        }
        if self.fault.is_none() {
            self.slots.residents.mark_cleared(&mut self.evicted);
        }
        self.fetched.clear();
        let mut inner = self.slots.lock();
        inner.slots[self.index].is_taken = false;
        inner.broken |= self.fault.is_some();
        if inner.broken {
            // Immediately if no other slot is taken, since the slot holds secrets; if the device is
            // gone, the next batch tries.
            let _ = self.slots.restart(&mut inner);
        }
        drop(inner);
        self.slots.freed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generations_are_never_zero() {
        assert_eq!(next_generation(0), 1);
        assert_eq!(next_generation((1 << 24) - 2), (1 << 24) - 1);
        assert_eq!(next_generation((1 << 24) - 1), 1);
    }
}
