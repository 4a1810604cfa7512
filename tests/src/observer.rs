//! Kernels whose results are observed, or changed, before they are used.

use gabion_scheme::kernels::ed25519::{EdEquation, EdVerify};
use gabion_scheme::kernels::kem::{KemNoise, KemUniform};
use gabion_scheme::kernels::sha512::Sha512;
use gabion_scheme::kernels::slh::{SlhChain, SlhHash};
use gabion_scheme::kernels::slh_fors::SlhForsTree;
use gabion_scheme::kernels::xmss::{XmssChain, XmssHash, XmssSecret};
use gabion_scheme::kernels::{DsaPoly, KemPoly, Kernels, Sponge};

/// The callbacks for finished jobs. The default methods do nothing.
pub trait KernelObserver {
    /// After `sponge_many`.
    fn sponges(&self, _: &mut [Sponge<'_>]) {}
    /// After `slh_chain_many`.
    fn chains(&self, _: &mut [SlhChain<'_>]) {}
    /// After `slh_hash_many`.
    fn hashes(&self, _: &mut [SlhHash<'_>]) {}
    /// After `slh_fors_many`.
    fn fors(&self, _: &mut [SlhForsTree<'_>]) {}
    /// After `xmss_chain_many`.
    fn xmss_chains(&self, _: &mut [XmssChain<'_>]) {}
    /// After `xmss_hash_many`.
    fn xmss_hashes(&self, _: &mut [XmssHash<'_>]) {}
    /// After `xmss_secret_many`.
    fn xmss_secrets(&self, _: &mut [XmssSecret<'_>]) {}
}

/// Kernels that pass everything on to `inner` and show the results to `touch`.
#[derive(Clone)]
pub struct ObservedKernels<K, T> {
    /// The observed kernels.
    pub inner: K,
    /// The observer.
    pub touch: T,
}

/// Kernels that are passed on.
macro_rules! passed_on {
    ($(fn $name:ident($($argument:ident: $type:ty),*) $(-> $result:ty)?;)*) => {
        $(fn $name(&self, $($argument: $type),*) $(-> $result)? {
            self.inner.$name($($argument),*)
        })*
    };
}

impl<K: Kernels, T: KernelObserver + Send + Sync> Kernels for ObservedKernels<K, T> {
    fn name(&self) -> &'static str {
        "touched"
    }

    fn lanes(&self) -> usize {
        self.inner.lanes()
    }

    fn sponge_many(&self, jobs: &mut [Sponge<'_>]) {
        self.inner.sponge_many(jobs);
        self.touch.sponges(jobs);
    }

    fn slh_chain_many(&self, jobs: &mut [SlhChain<'_>]) {
        self.inner.slh_chain_many(jobs);
        self.touch.chains(jobs);
    }

    fn slh_hash_many(&self, jobs: &mut [SlhHash<'_>]) {
        self.inner.slh_hash_many(jobs);
        self.touch.hashes(jobs);
    }

    fn slh_fors_many(&self, jobs: &mut [SlhForsTree<'_>]) {
        self.inner.slh_fors_many(jobs);
        self.touch.fors(jobs);
    }

    fn xmss_chain_many(&self, jobs: &mut [XmssChain<'_>]) {
        self.inner.xmss_chain_many(jobs);
        self.touch.xmss_chains(jobs);
    }

    fn xmss_hash_many(&self, jobs: &mut [XmssHash<'_>]) {
        self.inner.xmss_hash_many(jobs);
        self.touch.xmss_hashes(jobs);
    }

    fn xmss_secret_many(&self, jobs: &mut [XmssSecret<'_>]) {
        self.inner.xmss_secret_many(jobs);
        self.touch.xmss_secrets(jobs);
    }

    passed_on! {
        fn kem_rej_uniform_vartime(bytes: &[u8], out: &mut KemPoly) -> usize;
        fn kem_sample_ntt_vartime(jobs: &mut [KemUniform<'_>]);
        fn kem_sample_cbd(eta: usize, jobs: &mut [KemNoise<'_>]);
        fn dsa_rej_uniform_vartime(bytes: &[u8], out: &mut DsaPoly) -> usize;
        fn dsa_rej_bounded_vartime(eta: usize, bytes: &[u8], out: &mut DsaPoly) -> usize;
        fn dsa_norm_below(polys: &[DsaPoly], bound: i32) -> bool;
        fn sha512_many(jobs: &mut [Sha512<'_>]);
    }
    crate::plain_kernels!(passed_on);
    crate::lms_kernels!(passed_on);
}
