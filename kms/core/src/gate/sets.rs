//! Sets of policies in the store, and those in force.
//!
//! ```text
//!   policies/NAME    time of the change, text        an empty text: deleted. The record's generation is the version
//! ```
//!
//! All sets are in force together. They are read into memory when the gate opens.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use cedar_policy::Policy;
use serde::{Deserialize, Serialize};

use super::decide::{AdministrationPermit, Explanation, Policies, Question, Verdict};
use super::policy;
use crate::error::Error;
use crate::model::Label;
use crate::operations::{StoreContext, damaged, opened_bytes, settle_with};
use crate::store::{RecordPath, SettleOutcome, Transaction};

/// The maximum number of policies in all sets together.
const POLICIES_MAX: usize = 1000;

/// The number of records that are read at once.
const READ_TOGETHER: usize = 64;

/// A set of policies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicySetInfo {
    /// The set's name.
    pub name: Label,
    /// The set's version: the number of writes.
    pub version: u64,
    /// The time of the last change in milliseconds since 1970, by a clock that may be wrong.
    pub changed_ms: u64,
    /// The number of policies.
    pub policies: usize,
    /// The text.
    pub text: String,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredPolicySet {
    changed_ms: u64,
    text: Option<String>,
}

/// A policy set in force.
#[derive(Clone)]
struct PolicySet {
    version: u64,
    changed_ms: u64,
    text: String,
    policies: Vec<Policy>,
}

type ByName = BTreeMap<Label, PolicySet>;

/// The policies in force.
pub struct InForce {
    sets: ByName,
    policies: Policies,
    /// A change with an unknown outcome: the old and the new policies both have to permit a
    /// request, until a change of the same set settles it.
    doubt: Option<(Label, Policies)>,
}

/// The sets of policies.
pub struct PolicySets {
    in_force: RwLock<Arc<InForce>>,
    /// Serializes changes.
    changing: Mutex<()>,
}

impl PolicySets {
    /// Reads the sets.
    pub fn open(context: &StoreContext) -> Result<Self, Error> {
        let under = RecordPath::new("policies")?;
        let (mut sets, mut after, mut listed) = (ByName::new(), None, 0);
        loop {
            let page = context.store.list(&under, after.as_ref(), READ_TOGETHER)?;
            let Some((last, _)) = page.records.last() else { break };
            after = Some(last.clone());
            listed += page.records.len() as u64;
            for (path, record) in &page.records {
                let wrong = |error: Error| damaged(path, &error.to_string());
                let name = path.as_str().rsplit('/').next().unwrap_or_default();
                let name = Label::new("set of policies", name).map_err(wrong)?;
                let Some(value) = &record.value else { continue };
                let plain = context.sealer.open(path, record.generation, value)?;
                let written: StoredPolicySet = serde_json::from_slice(&plain)
                    .map_err(|error| damaged(path, &error.to_string()))?;
                if let Some(text) = written.text {
                    // A program with another schema may have written it.
                    let policies = policy::read_accepted(&name, &text).map_err(wrong)?;
                    let (version, changed_ms) = (record.generation, written.changed_ms);
                    sets.insert(name, PolicySet { version, changed_ms, text, policies });
                }
            }
        }
        // Deleting a set needs a permission, so sets that were written never disappear without a
        // tombstone.
        context.records.check_listed("policies", listed)?;
        let policies = policies_of(&sets)?;
        let in_force = InForce { sets, policies, doubt: None };
        Ok(PolicySets { in_force: RwLock::new(Arc::new(in_force)), changing: Mutex::default() })
    }

    /// Returns the policies in force.
    pub fn in_force(&self) -> Arc<InForce> {
        self.in_force.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Writes a set, or deletes it, if `may` confirms that its author can still change policies
    /// afterwards. Returns the new version.
    ///
    /// # Errors
    /// An invalid text; errors of the store.
    pub fn change(
        &self,
        context: &StoreContext,
        name: &Label,
        text: Option<&str>,
        now_ms: u64,
        may: impl FnOnce(&Policies) -> Result<(), Error>,
    ) -> Result<u64, Error> {
        let _one = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let before = self.in_force();
        if before.doubt.as_ref().is_some_and(|(other, _)| other != name) {
            return Err(Error::OutcomeUnknown);
        }
        let is_doubtful = before.doubt.is_some();
        if text.is_none() && !before.sets.contains_key(name) && !is_doubtful {
            return Err(Error::NoPolicies(name.to_string()));
        }
        let path = RecordPath::new(format!("policies/{name}"))?;
        let generation = opened_bytes(context, &path)?.map_or(0, |(_, generation)| generation);
        let (version, mut sets) = (generation + 1, before.sets.clone());
        match text {
            None => drop(sets.remove(name)),
            Some(text) => {
                let (text, policies) = (text.to_owned(), policy::read(name, text)?);
                sets.insert(
                    name.clone(),
                    PolicySet { version, changed_ms: now_ms, text, policies },
                );
            }
        }
        let policies = policies_of(&sets)?;
        may(&policies)?;
        let written = StoredPolicySet { changed_ms: now_ms, text: text.map(str::to_owned) };
        let written = serde_json::to_vec(&written);
        let written = written.map_err(|error| Error::Parameter(error.to_string()))?;
        let sealed = context.sealer.seal(&path, version, &written)?;
        let change = Transaction::new().put(path, generation, sealed);
        match settle_with(context, &change, &version)? {
            SettleOutcome::Committed => {
                self.set(InForce { sets, policies, doubt: None });
                Ok(version)
            }
            SettleOutcome::Conflict(_) => Err(Error::Conflict),
            SettleOutcome::Unknown => {
                let still = policies_of(&before.sets)?;
                let doubt = Some((name.clone(), policies));
                self.set(InForce { sets: before.sets.clone(), policies: still, doubt });
                Err(Error::OutcomeUnknown)
            }
        }
    }

    fn set(&self, in_force: InForce) {
        *self.in_force.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(in_force);
    }
}

impl InForce {
    /// Returns the policies, and those after a change with an unknown outcome. All have to permit a
    /// request.
    pub fn all(&self) -> impl Iterator<Item = &Policies> {
        std::iter::once(&self.policies).chain(self.doubt.iter().map(|(_, policies)| policies))
    }

    /// Returns the sets in the order of their names.
    pub fn infos(&self) -> Vec<PolicySetInfo> {
        let info = |(name, set): (&Label, &PolicySet)| PolicySetInfo {
            name: name.clone(),
            version: set.version,
            changed_ms: set.changed_ms,
            policies: set.policies.len(),
            text: set.text.clone(),
        };
        self.sets.iter().map(info).collect()
    }

    /// Returns the policies that permit administration, in the order of their sets.
    pub fn administration_permits(&self) -> Vec<AdministrationPermit> {
        let policies = self.sets.values().flat_map(|set| &set.policies);
        policies.filter_map(AdministrationPermit::of).collect()
    }

    /// Returns the policies with another text of one set.
    pub fn with(&self, name: &Label, text: &str) -> Result<Policies, Error> {
        let (mut sets, policies) = (self.sets.clone(), policy::read(name, text)?);
        sets.insert(
            name.clone(),
            PolicySet { version: 0, changed_ms: 0, text: String::new(), policies },
        );
        policies_of(&sets)
    }

    /// Explains the decision of the policies on a request.
    pub fn explain(&self, question: &Question<'_>) -> Explanation {
        let explained = self.policies.explain(question);
        let agrees = self.all().all(|of| of.explain(question).verdict == Verdict::Allowed);
        match explained.verdict {
            Verdict::Allowed if !agrees => Explanation { verdict: Verdict::Denied, ..explained },
            Verdict::Allowed | Verdict::Denied | Verdict::Undecided => explained,
        }
    }
}

fn policies_of(sets: &ByName) -> Result<Policies, Error> {
    let all: Vec<Policy> = sets.values().flat_map(|set| set.policies.iter().cloned()).collect();
    if all.len() > POLICIES_MAX {
        let (what, most) = ("policies of all sets", POLICIES_MAX);
        return Err(Error::TooLarge { what, most, got: all.len() });
    }
    Policies::new(&all)
}
