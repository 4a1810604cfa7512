//! The provider: its state in one library context, with tables, pools, cache and switches.

use std::ffi::c_void;
use std::ops::Deref;
use std::sync::Arc;

use crate::async_jobs::AsyncJobs;
use crate::bio::BioCalls;
use crate::cache::PublicKeys;
use crate::core::Core;
use crate::ffi::Dispatch;
use crate::fibre::Fibres;
use crate::pool::KeyPools;
use crate::process::Process;
use crate::settings::{self, Switch};
use crate::tables::Tables;

/// One loading of the provider into one library context.
pub struct Provider {
    /// The core that loaded it.
    pub core: Core,
    /// The tables that it registers.
    pub tables: Tables,
    /// The core's functions for reading and writing files.
    pub bio: BioCalls,
    /// Public keys that came in lately.
    pub public_keys: PublicKeys,
    /// Key pairs that were made ahead.
    pub key_pools: KeyPools,
    /// Operations in asynchronous jobs.
    pub async_jobs: AsyncJobs,
    /// Whether X25519 by itself is served.
    pub x25519: bool,
    /// Whether TLS may use signature schemes whose codepoints are drafts' or private.
    pub tls_drafts: bool,
}

/// The provider that a key or a context came from.
///
/// The core keeps a provider loaded, and its context in place, as long as anything made by it is
/// left, so this may be held by all of that.
#[derive(Clone, Copy)]
pub struct ProviderRef(*const Provider);

// SAFETY: a provider is immutable once made, and the core's functions may be called from any
// thread.
unsafe impl Send for ProviderRef {}
// SAFETY: as above.
unsafe impl Sync for ProviderRef {}

impl ProviderRef {
    /// # Safety
    /// `context` is what [`Provider::into_context`] gave, not yet torn down.
    pub unsafe fn new(context: *mut c_void) -> Self {
        ProviderRef(context.cast_const().cast())
    }
}

impl Deref for ProviderRef {
    type Target = Provider;

    fn deref(&self) -> &Provider {
        // SAFETY: `new` was called with a provider's context, and the core keeps it in place.
        unsafe { &*self.0 }
    }
}

impl Provider {
    /// Creates the provider from the core's functions and settings; `tables` makes the registered
    /// tables, with key exchanges or without.
    ///
    /// # Safety
    /// `table` is the core's dispatch table, with an end.
    pub unsafe fn new(
        core: Core,
        table: *const Dispatch,
        tables: impl FnOnce(bool) -> Tables,
    ) -> Self {
        // SAFETY: as the caller vouches.
        let bio = unsafe { BioCalls::collect(table) };
        let is_on = |switch: Switch| switch.is_on(core.setting(switch.name));
        let process = Arc::new(Process::new());
        let fibres = core.function().filter(|_| is_on(settings::ASYNC_JOBS));
        let key_pools = is_on(settings::KEY_POOLS);
        let x25519 = settings::X25519.parse(core.setting(settings::X25519.name));
        // FIPS mode `only` has no place for it, whatever else was said.
        let x25519 = x25519.unwrap_or(key_pools) && !settings::is_fips_only();
        let tables = tables(x25519);
        core.name_objects(tables.unknown_objects());
        Provider {
            tables,
            x25519,
            bio,
            public_keys: PublicKeys::new(&process),
            key_pools: KeyPools::new(&process, key_pools),
            async_jobs: AsyncJobs::new(&process, fibres.and_then(Fibres::beside)),
            tls_drafts: is_on(settings::TLS_DRAFTS),
            core,
        }
    }

    /// Passes the provider to the core.
    pub fn into_context(self) -> *mut c_void {
        Box::into_raw(Box::new(self)).cast()
    }
}
