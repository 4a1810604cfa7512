//! The methods of [`Kernels`](gabion_scheme::kernels::Kernels) over LMS and XMSS that AVX2 and AVX-512 have: SHA-256 by
//! kernels of their own, all else by the sponge.

/// `hash_based_methods!()`, in the implementation of `Kernels` for a token that proves the processor's features, writes
/// those methods over the functions of the modules `lms` and `xmss`, which are safe to call where these features are.
/// `Kernels` says what each does.
macro_rules! hash_based_methods {
    () => {
        hash_based_methods! {
            fn lms_chain_many(LmsChain, job => job.family): LmsFamily, lms::chain_many, lms::chains;
            fn lms_hash_many(LmsHash, job => job.family): LmsFamily, lms::hash_many, lms::hashes;
            fn xmss_chain_many(XmssChain, job => job.context.family): XmssFamily, xmss::chain_many, xmss_of_any::chains;
            fn xmss_hash_many(XmssHash, job => job.context.family): XmssFamily, xmss::hash_many, xmss_of_any::hashes;
            fn xmss_secret_many(XmssSecret, job => job.context.family): XmssFamily, xmss::secret_many, xmss_of_any::secrets;
        }
    };
    ($(fn $name:ident($job:ident, $one:ident => $of:expr): $family:ident, $own:ident::$kernel:ident, $any:ident::$else:ident;)*) => {$(
        fn $name(&self, jobs: &mut [$crate::common::hash_based::$job<'_>]) {
            match jobs.first().map(|$one| $of) {
                // SAFETY: `self` proves that the processor supports the kernel's features.
                Some($crate::common::hash_based::$family::Sha256) => unsafe { $own::$kernel(*self, jobs) },
                _ => gabion_scheme::kernels::$any::$else(self, jobs),
            }
        }
    )*};
}

pub(crate) use gabion_scheme::kernels::lms::{LmsChain, LmsFamily, LmsHash};
pub(crate) use gabion_scheme::kernels::xmss::{XmssChain, XmssFamily, XmssHash, XmssSecret};
pub(crate) use hash_based_methods;
