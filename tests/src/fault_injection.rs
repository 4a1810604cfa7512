//! Kernels of SLH-DSA that are disturbed once: one bit of one of all the hashes of a signature is flipped.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use gabion_scheme::kernels::slh::{SlhAddress, SlhChain, SlhHash, address_type};
use gabion_scheme::kernels::slh_fors::SlhForsTree;

use crate::observer::{KernelObserver, ObservedKernels};

/// The hash to disturb: one of those with this layer and this type in the address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The layer of the hypertree; 0 in FORS.
    pub layer: u32,
    /// One of `slh::address_type`.
    pub kind: u32,
    /// Whether it is one of the walk from the signature to the root, which follows the trees.
    pub is_walked: bool,
    /// The number of such hashes before it.
    pub skip: usize,
}

/// Kernels that flip one bit of one result, once.
pub type FaultyKernels<K> = ObservedKernels<K, FaultInjector>;

/// Where, and whether it was.
#[derive(Clone, Default)]
pub struct FaultInjector {
    /// Of all clones.
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    place: Option<Place>,
    is_walking: bool,
}

impl<K> FaultyKernels<K> {
    /// Not disturbed yet.
    pub fn new(inner: K) -> Self {
        ObservedKernels { inner, touch: FaultInjector::default() }
    }

    /// Disturbs the next signature at this place.
    pub fn at(&self, place: Place) {
        *self.touch.lock() = State { place: Some(place), is_walking: false };
    }

    /// Returns whether it was disturbed since, which ends it.
    pub fn is_over(&self) -> bool {
        self.touch.lock().place.take().is_none()
    }
}

impl FaultInjector {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Flips a bit of the result at an address, if that is the place.
    fn result(&self, address: &SlhAddress, bytes: &mut [u8]) {
        let mut state = self.lock();
        let State { place: Some(place), is_walking } = &mut *state else { return };
        let layer = u32::from(address.0[3]);
        if (place.layer, place.kind, place.is_walked) != (layer, address.kind(), *is_walking) {
            return;
        }
        if place.skip > 0 {
            place.skip -= 1;
            return;
        }
        let middle = bytes.len() / 2;
        bytes[middle] ^= 0x10;
        state.place = None;
    }
}

impl KernelObserver for FaultInjector {
    /// A walk begins with the leaves of FORS that the signature reveals.
    fn chains(&self, jobs: &mut [SlhChain<'_>]) {
        let is_leaf = |job: &SlhChain<'_>| job.address.kind() == address_type::FORS_TREE;
        if jobs.first().is_some_and(|job| job.sk_seed.is_none() && is_leaf(job)) {
            self.lock().is_walking = true;
        }
        jobs.iter_mut().for_each(|job| self.result(&job.address, job.value));
    }

    fn hashes(&self, jobs: &mut [SlhHash<'_>]) {
        jobs.iter_mut().for_each(|job| self.result(&job.address, job.output));
    }

    /// The path of a subtree comes before its root, node by node.
    fn fors(&self, jobs: &mut [SlhForsTree<'_>]) {
        for job in jobs {
            let n = job.root.len();
            let nodes = job.path.chunks_exact_mut(n).chain([&mut *job.root]);
            nodes.for_each(|node| self.result(&job.address, node));
        }
    }
}
