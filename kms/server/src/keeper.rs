//! The service behind its seal: what there is to say of it while it is closed, and the verbs while it is open.

use std::sync::{Arc, PoisonError, RwLock};

use gabion_kms::operations::{Kms, Options};
use gabion_kms::seal::Sealer;
use gabion_kms::store::{MemoryStore, Store};
use gabion_kms_client::wire;

use crate::problem::Problem;
use crate::verbs::Verbs;

/// A store, and its keys while it is unsealed.
pub struct Keeper {
    store: Arc<dyn Store>,
    is_initialized: bool,
    open: RwLock<Option<Arc<Verbs>>>,
}

impl Keeper {
    /// Keys that end with the process and are never written anywhere. Whoever has the token may do everything.
    ///
    /// # Errors
    /// No randomness; no backend of the name that the environment asks for.
    pub fn in_memory(token: &str) -> Result<Self, gabion_kms::Error> {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let sealer = Sealer::volatile(store.identity().id)?;
        let kms = Arc::new(Kms::new(store.clone(), sealer, Options::default())?);
        let open = RwLock::new(Some(Arc::new(Verbs::new(kms, token))));
        Ok(Keeper { store, is_initialized: true, open })
    }

    /// The verbs, if the seal is open.
    pub(crate) fn verbs(&self) -> Result<Arc<Verbs>, Problem> {
        self.open.read().unwrap_or_else(PoisonError::into_inner).clone().ok_or_else(Problem::sealed)
    }

    /// How it is.
    pub(crate) fn status(&self) -> wire::Status {
        let verbs = self.verbs().ok();
        let identity = self.store.identity();
        wire::Status {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            initialized: self.is_initialized,
            sealed: verbs.is_none(),
            store: identity.id.iter().map(|byte| format!("{byte:02x}")).collect(),
            incarnation: identity.incarnation,
            revision: verbs.map(|verbs| verbs.kms().revision()),
        }
    }
}
