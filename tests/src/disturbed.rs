//! Kernels of SLH-DSA that are disturbed once: one bit of one of all the hashes of a signature is flipped.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use gabion_scheme::kernels::ed25519::{EdEquation, EdVerify};
use gabion_scheme::kernels::kem::{KemNoise, KemUniform};
use gabion_scheme::kernels::sha512::Sha512;
use gabion_scheme::kernels::slh::{SlhAddress, SlhChain, SlhHash, address_type};
use gabion_scheme::kernels::slh_fors::SlhForsTree;
use gabion_scheme::kernels::{DsaPoly, KemPoly, Kernels, Sponge};

/// Which hash is hit: one of those with this layer and this type in the address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The layer of the hypertree; 0 in FORS.
    pub layer: u32,
    /// One of `slh::address_type`.
    pub kind: u32,
    /// Whether it is one of the walk from the signature to the root, which follows the trees.
    pub is_walked: bool,
    /// How many such hashes come before it.
    pub skip: usize,
}

/// Passes everything on to `K`, and flips one bit of what comes out at one place, once.
#[derive(Clone)]
pub struct Disturbed<K> {
    inner: K,
    /// Of all clones.
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    place: Option<Place>,
    is_walking: bool,
}

impl<K: Kernels> Disturbed<K> {
    /// Not disturbed yet.
    pub fn new(inner: K) -> Self {
        Disturbed { inner, state: Arc::default() }
    }

    /// Disturbs the next signature at this place.
    pub fn at(&self, place: Place) {
        *self.lock() = State { place: Some(place), is_walking: false };
    }

    /// Whether it was disturbed since, which ends it.
    pub fn is_over(&self) -> bool {
        self.lock().place.take().is_none()
    }

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

/// Kernels that are passed on.
macro_rules! passed_on {
    ($(fn $name:ident($($argument:ident: $type:ty),*) $(-> $result:ty)?;)*) => {
        $(fn $name(&self, $($argument: $type),*) $(-> $result)? {
            self.inner.$name($($argument),*)
        })*
    };
}

impl<K: Kernels> Kernels for Disturbed<K> {
    fn name(&self) -> &'static str {
        "disturbed"
    }

    fn lanes(&self) -> usize {
        self.inner.lanes()
    }

    /// A walk begins with the leaves of FORS that the signature reveals.
    fn slh_chain_many(&self, jobs: &mut [SlhChain<'_>]) {
        let is_leaf = |job: &SlhChain<'_>| job.address.kind() == address_type::FORS_TREE;
        if jobs.first().is_some_and(|job| job.sk_seed.is_none() && is_leaf(job)) {
            self.lock().is_walking = true;
        }
        self.inner.slh_chain_many(jobs);
        jobs.iter_mut().for_each(|job| self.result(&job.address, job.value));
    }

    fn slh_hash_many(&self, jobs: &mut [SlhHash<'_>]) {
        self.inner.slh_hash_many(jobs);
        jobs.iter_mut().for_each(|job| self.result(&job.address, job.output));
    }

    /// The path of a subtree comes before its root, node by node.
    fn slh_fors_many(&self, jobs: &mut [SlhForsTree<'_>]) {
        self.inner.slh_fors_many(jobs);
        for job in jobs {
            let n = job.root.len();
            let nodes = job.path.chunks_exact_mut(n).chain([&mut *job.root]);
            nodes.for_each(|node| self.result(&job.address, node));
        }
    }

    passed_on! {
        fn sponge_many(jobs: &mut [Sponge<'_>]);
        fn kem_rej_uniform_vartime(bytes: &[u8], out: &mut KemPoly) -> usize;
        fn kem_sample_ntt_vartime(jobs: &mut [KemUniform<'_>]);
        fn kem_sample_cbd(eta: usize, jobs: &mut [KemNoise<'_>]);
        fn dsa_rej_uniform_vartime(bytes: &[u8], out: &mut DsaPoly) -> usize;
        fn dsa_rej_bounded_vartime(eta: usize, bytes: &[u8], out: &mut DsaPoly) -> usize;
        fn dsa_norm_below(polys: &[DsaPoly], bound: i32) -> bool;
        fn sha512_many(jobs: &mut [Sha512<'_>]);
    }
    crate::plain_kernels!(passed_on);
}
