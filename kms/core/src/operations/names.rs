//! Which key has a name, as far as that is known without a look into the store.
//!
//! A name is its key's until the key is destroyed. So what is noted here counts only while the key's view is kept, which
//! every change of the key takes away.

use std::collections::HashMap;
use std::sync::{PoisonError, RwLock};

use crate::model::{KeyId, Label};

/// Names that are noted, of each tenant.
#[derive(Default)]
pub struct Names(RwLock<ReservedName>);

#[derive(Default)]
struct ReservedName {
    of: HashMap<Label, HashMap<Label, KeyId>>,
    count: usize,
}

/// Most names that are noted: some 20 MiB of them.
const NAMES_MAX: usize = 1 << 16;

impl Names {
    /// The key that had a name when it was noted.
    pub fn get(&self, tenant: &Label, name: &Label) -> Option<KeyId> {
        let noted = self.0.read().unwrap_or_else(PoisonError::into_inner);
        noted.of.get(tenant)?.get(name).cloned()
    }

    /// Notes whose a name is.
    pub fn note(&self, tenant: &Label, name: &Label, id: &KeyId) {
        let mut noted = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if noted.count >= NAMES_MAX {
            *noted = ReservedName::default();
        }
        let names = noted.of.entry(tenant.clone()).or_default();
        if names.insert(name.clone(), id.clone()).is_none() {
            noted.count += 1;
        }
    }
}
