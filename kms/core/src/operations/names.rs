//! A cache from names to keys.
//!
//! A name belongs to its key until the key is destroyed. So an entry is valid while the key's view
//! is cached, which every change of the key removes.

use std::collections::HashMap;
use std::sync::{PoisonError, RwLock};

use crate::model::{KeyId, Label};

/// The cached names of each tenant.
#[derive(Default)]
pub struct Names(RwLock<ReservedName>);

#[derive(Default)]
struct ReservedName {
    of: HashMap<Label, HashMap<Label, KeyId>>,
    count: usize,
}

/// The maximum number of names, which take about 20 MiB.
const NAMES_MAX: usize = 1 << 16;

impl Names {
    /// Returns the key that had the name when it was noted.
    pub fn get(&self, tenant: &Label, name: &Label) -> Option<KeyId> {
        let noted = self.0.read().unwrap_or_else(PoisonError::into_inner);
        noted.of.get(tenant)?.get(name).cloned()
    }

    /// Notes a name.
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
