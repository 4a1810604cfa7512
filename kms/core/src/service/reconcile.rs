//! Reapplies revocations and other restrictions from the audit log to a store that is older than
//! the log: one that was restored from a backup, or whose file was rolled back.
//!
//! ```text
//!   log    ......... the store's last known size | revoked T, disabled K#v1, trimmed L, ...      the last state of each
//!   store  older: its revision is less than the one in the log
//!            '--noted--> restrictions reapplied --> recorded --> the log's size is noted --> requests are served
//! ```
//!
//! - Changes that remove permissions are reapplied; changes that grant some are not.
//! - Changes that the log does not describe completely, or that the store cannot repeat, are
//!   reported to the operator, one line each.
//! - After a kill, the next call continues: the store notes that it is older until everything was
//!   reapplied.

use std::collections::{BTreeMap, BTreeSet};

use super::administration::{self, RECOVER_ADMIN};
use super::own_keys::OF_SYSTEM;
use super::reconcile_report::ReconcileReport;
use super::rotations::AUTO_ROTATE;
use super::run::{AuditEntry, Call, Service};
use crate::audit::{Change, Class, Entry, Log, Outcome, Record, Setting};
use crate::error::{AuditError, Code, Error};
use crate::gate::{Action, Principal, Request, RootId, TokenId};
use crate::model::{Key, KeyId, State, VersionId};
use crate::operations::{LoggedKeyState, ReappliedRestrictions};
use crate::seal::Upgrade;
use crate::store::{FORMAT, RecordPath};

/// The principal and the request id in the audit records of reapplied restrictions.
pub const AFTER_RESTORE: &str = "after-restore";

/// The principal and the request id in the audit record of a store upgrade.
const UPGRADE: &str = "store-upgrade";

/// The number of records that are read at once.
const RECORDS_TOGETHER: usize = 10_000;

/// The number of records that are appended at once.
const TOLD_TOGETHER: usize = 100;

/// The maximum number of report lines of a kind. Further ones are counted.
const LINES_MAX: usize = 1000;

/// The part of the log that the store does not know.
#[derive(Default)]
struct LogTail {
    keys: BTreeMap<String, (Option<KeyId>, LoggedKeyState)>,
    revoked: BTreeSet<TokenId>,
    cut: BTreeSet<(TokenId, String)>,
    retired: BTreeSet<RootId>,
    /// Set if a recovery revoked all tokens; has the root key of the new ones, if that was
    /// recorded.
    recovered: Option<Option<RootId>>,
    /// Tokens that an older program made or revoked without saying which, and the number of such
    /// records.
    unclear: BTreeMap<TokenId, u32>,
    /// The newest version of each set of policies, and the keys whose labels were changed.
    policies: BTreeMap<String, u64>,
    labels: BTreeSet<String>,
    left: Vec<String>,
    more: usize,
    /// The newest revision in the records.
    revision: Option<u64>,
    /// Whether there are any changes.
    has_changes: bool,
    /// The upgrades of the store, by their names in the log.
    upgrades: BTreeSet<String>,
    /// The root keys of tokens that were made.
    roots: BTreeSet<RootId>,
    /// The service's own keys that were made.
    own: BTreeSet<String>,
    /// The names of keys whose creation began, by request and credential. `None` if two of these
    /// have the same.
    begun: BTreeMap<(String, String), Option<String>>,
    /// The names of keys that were made, by id.
    names: BTreeMap<String, String>,
}

impl LogTail {
    /// Returns whether a store of this revision lacks changes. Older programs did not record
    /// revisions.
    fn is_ahead_of(&self, revision: u64) -> bool {
        self.revision.map_or(self.has_changes, |told| told > revision)
    }

    fn look(&mut self, line: String) {
        match self.left.len() < LINES_MAX {
            true => self.left.push(line),
            false => self.more += 1,
        }
    }

    fn key(&mut self, key: &str) -> &mut LoggedKeyState {
        &mut self
            .keys
            .entry(key.to_owned())
            .or_insert_with(|| (key.parse().ok(), LoggedKeyState::default()))
            .1
    }

    fn add(&mut self, Entry { index, record, .. }: &Entry) {
        self.revision = self.revision.max(record.revision);
        let (action, key) = (record.action, record.key.as_deref().unwrap_or_default());
        let name = self.name(record);
        match record.outcome {
            Outcome::Done => {}
            Outcome::Failed(Code::OutcomeUnknown) if narrows(action) => {
                self.has_changes = true;
                let at = if key.is_empty() { "" } else { " of " };
                let line =
                    format!("the outcome of `{action}`{at}{key} is unknown (record {index})");
                return self.look(format!("{line}: repeat it if it should apply"));
            }
            Outcome::Begun
            | Outcome::Replayed
            | Outcome::Wrong
            | Outcome::Withheld
            | Outcome::Failed(_) => return,
        }
        self.has_changes |= narrows(action);
        match action {
            Action::Destroy => self.key(key).is_destroyed = true,
            Action::Delete => self.key(key).is_deleted = true,
            Action::Restore => self.key(key).is_deleted = false,
            Action::Disable | Action::Enable => self.state(*index, key, record),
            Action::Trim => match record.change {
                Some(Change::TrimmedBefore(before)) => {
                    let told = self.key(key);
                    told.before = told.before.max(before);
                }
                _ => self.untold(*index, "trimmed", key, "trim"),
            },
            Action::Config => self.config(*index, key, record),
            Action::Create | Action::Rotate | Action::Import => {
                if let Some(own) = key.strip_prefix(OF_SYSTEM) {
                    self.own.insert(own.to_owned());
                }
                if let Ok(VersionId { key, version }) = key.parse() {
                    let told = self.key(&key.to_string());
                    told.newest = told.newest.max(version);
                    if let Some(name) = name {
                        self.names.insert(key.to_string(), name);
                    }
                }
            }
            Action::Token => self.token(*index, key, record),
            Action::Policy => {
                let set = key.strip_prefix("policy:").and_then(|set| set.rsplit_once("#v"));
                if let Some((name, Ok(version))) = set.map(|(name, of)| (name, of.parse::<u64>())) {
                    let newest = self.policies.entry(name.to_owned()).or_default();
                    *newest = version.max(*newest);
                }
            }
            Action::Seal if record.request_id == UPGRADE && record.method == LOCAL => {
                self.upgrades.insert(key.to_owned());
            }
            Action::Seal if record.request_id == "reseal" && record.method == LOCAL => {
                self.look(format!(
                    "the shares of the seal were dealt anew since (record {index}), and the store opens with the previous ones: \
                     run `gabion kms reseal`"
                ));
            }
            _ => {}
        }
    }

    /// Returns the name of the key whose creation ends with a record: the record of its beginning
    /// has the name, that of its end has the id.
    fn name(&mut self, record: &Record) -> Option<String> {
        if !matches!(record.action, Action::Create | Action::Import) {
            return None;
        }
        let of = (record.request_id.clone(), record.method.clone());
        if record.outcome != Outcome::Begun {
            return self.begun.remove(&of).flatten();
        }
        let known = self.begun.entry(of);
        known.and_modify(|known| *known = None).or_insert_with(|| record.key.clone());
        None
    }

    /// Reports that a key was made after the backup, so that the store does not have it.
    fn missing(&mut self, id: &KeyId, told: &LoggedKeyState) {
        let name = self.names.get(&id.to_string()).map(|name| format!(" `{name}`"));
        let versions = match told.newest {
            0 | 1 => String::new(),
            newest => format!(" and {newest} versions of it"),
        };
        self.look(format!(
            "the key{} ({id}) was made since{versions}, and the store does not have it: its ciphertexts cannot be decrypted; create \
             another one, or restore a newer backup",
            name.unwrap_or_default()
        ));
    }

    fn state(&mut self, index: u64, key: &str, record: &Record) {
        let state = match record.action {
            Action::Disable => State::Disabled,
            _ => State::Enabled,
        };
        match (&record.change, state) {
            (Some(Change::Version(version)), state) => {
                self.key(key).states.insert(*version, state);
            }
            (_, State::Disabled) => self.untold(index, "disabled a version of", key, "disable"),
            (_, State::Enabled) => {}
        }
    }

    fn config(&mut self, index: u64, key: &str, record: &Record) {
        let is_clocks = record.method == LOCAL && record.request_id == AUTO_ROTATE;
        let settings = match &record.change {
            Some(Change::Settings(settings)) => settings,
            _ if is_clocks => return,
            _ => return self.untold(index, "configured", key, "config"),
        };
        for setting in settings {
            let told = self.key(key);
            match *setting {
                Setting::MinSign(version) => told.min_sign = Some(version),
                Setting::MinVerify(version) => told.min_verify = Some(version),
                Setting::MinDecrypt(version) => told.min_decrypt = Some(version),
                Setting::ExpiresMs(expires_ms) => told.expires_ms = expires_ms,
                Setting::Deletable(is_deletable) => told.is_kept = !is_deletable,
                Setting::MuRequired => told.requires_mu = true,
                Setting::JwtMaxLifetimeS(lifetime_s) => told.jwt_max_lifetime_s = Some(lifetime_s),
                Setting::Labels => drop(self.labels.insert(key.to_owned())),
            }
        }
    }

    fn token(&mut self, index: u64, key: &str, record: &Record) {
        let is_local = record.method == LOCAL;
        if let Some(Ok(root)) = key.strip_prefix("root:").map(str::parse::<RootId>) {
            match record.change {
                Some(Change::Revoked) => drop(self.retired.insert(root)),
                Some(Change::Made) => drop(self.roots.insert(root)),
                Some(_) => {}
                None => self.look(format!(
                    "the root key {root} of tokens was made or retired (record {index}); an older program did not say which"
                )),
            }
        }
        let Some(Ok(id)) = key.strip_prefix("token:").map(str::parse::<TokenId>) else { return };
        match &record.change {
            Some(Change::Revoked) => drop(self.revoked.insert(id)),
            Some(Change::Cut(digests)) => {
                self.cut.extend(digests.split(',').map(|digest| (id, digest.to_owned())));
            }
            Some(Change::Recovered(root)) => self.recovered = Some(root.parse().ok()),
            Some(_) => {}
            None if is_local && record.request_id == RECOVER_ADMIN => self.recovered = Some(None),
            None if record.method == key => self.look(format!(
                "one of the tokens {id} was revoked by its holder (record {index}); an older program did not say which: revoke \
                 all of them, if in doubt (`gabion kms token revoke {id}`)"
            )),
            None => *self.unclear.entry(id).or_default() += 1,
        }
    }

    /// Reports that an older program did not record enough.
    fn untold(&mut self, index: u64, what: &str, key: &str, verb: &str) {
        self.look(format!(
            "a caller {what} {key} (record {index}); an older program did not record the details: check the key, and repeat `gabion kms key {verb}` if needed"
        ));
    }
}

/// The method of the process itself in audit records.
const LOCAL: &str = "local";

/// Returns whether an action may remove permissions.
fn narrows(action: Action) -> bool {
    matches!(
        action,
        Action::Disable
            | Action::Trim
            | Action::Config
            | Action::Delete
            | Action::Destroy
            | Action::Rotate
            | Action::Token
            | Action::Policy
    )
}

impl Service {
    /// Returns the report about a store that was older than its log. It is empty if the store was
    /// not older.
    pub fn reconcile_report(&self) -> &ReconcileReport {
        &self.reconciled
    }

    /// Reapplies the restrictions that the log has and the store does not know. If the store is
    /// being upgraded, but the log says that it was upgraded before, then it is an older copy
    /// regardless of its revision, which is not authenticated in that format. Neither is the
    /// completeness of its records. So such a store opens only if the operator asked for it.
    ///
    /// # Errors
    /// [`Error::Integrity`] for such a store; errors of the store and of the log.
    pub(super) fn reconcile(
        &mut self,
        known: u64,
        was_behind: bool,
        upgrade: Option<&Upgrade>,
        takes_older: bool,
    ) -> Result<(), Error> {
        let tail = tail(&self.log, known)?;
        let now = self.kms.context().store.read(&[])?.revision.0;
        // The commits of the upgrade itself would hide that the log is ahead.
        let revision = upgrade.map_or(now, |upgrade| upgrade.began);
        let is_another =
            |upgrade: &Upgrade| tail.upgrades.iter().any(|of| *of != upgrade_text(upgrade));
        let is_again = upgrade.is_some_and(is_another);
        if is_again && !takes_older {
            return Err(Error::Integrity {
                path: "the store's file".to_owned(),
                reason: "it has an older format, and its audit log says that it was upgraded; restore a backup from after the upgrade, or \
                         check this one and take it by `gabion kms reseal`"
                    .to_owned(),
            });
        }
        if !was_behind && !is_again && !tail.is_ahead_of(revision) {
            return Ok(());
        }
        if !was_behind {
            super::open::note_behind(self.kms.context(), known, &self.log)?;
        }
        self.reconciled = self.reapply(tail)?;
        self.note_log_size()
    }

    /// Records in the log that the store was upgraded, and reports where the copy of the older
    /// store is.
    pub(super) fn audit_upgrade(&mut self, upgrade: &Upgrade) -> Result<(), Error> {
        let who = self.gate.local(Principal::new(UPGRADE)?);
        let key = Some(upgrade_text(upgrade));
        let told = AuditEntry { key, input: None, output: None, outcome: Outcome::Done };
        let record =
            self.record(&Call::new(&who, UPGRADE), &administration::of(Action::Seal), told);
        let revision = Some(self.kms.context().store.read(&[])?.revision.0);
        self.log.append_at_last(&[Record { revision, ..record }], Class::Durable)?;
        self.kms.context().records.upgrade_told()?;
        let at = match &upgrade.copy {
            Some(copy) => format!("in {}", copy.display()),
            None => "next to it".to_owned(),
        };
        self.reconciled.upgraded = Some(format!(
            "the store has format {FORMAT}, which older programs refuse; a copy of the older store is {at}: delete it when you no longer need it"
        ));
        Ok(())
    }

    fn reapply(&self, mut tail: LogTail) -> Result<ReconcileReport, Error> {
        let who = self.gate.local(Principal::new(AFTER_RESTORE)?);
        let mut doing = Replay {
            service: self,
            call: Call::new(&who, AFTER_RESTORE),
            report: ReconcileReport::default(),
            told: Vec::new(),
        };
        doing.tokens(&mut tail)?;
        for (key, (id, told)) in std::mem::take(&mut tail.keys) {
            if let Some(id) = id {
                let narrower = self.kms.reapply_restrictions(&id, &told)?;
                doing.key(&id, &told, &narrower)?;
                if narrower.is_missing && !told.is_destroyed && told.newest > 0 {
                    tail.missing(&id, &told);
                }
                if let Some(newest) = narrower.newest {
                    let is_whole = told.before <= newest;
                    let then = if is_whole {
                        format!("version {newest} makes new things again")
                    } else {
                        "none of its versions is left".to_owned()
                    };
                    tail.look(format!(
                        "{key} had version {}, which is lost: {then}; `gabion kms key rotate`",
                        told.newest
                    ));
                }
            }
        }
        for key in std::mem::take(&mut tail.labels) {
            if key.parse().is_ok_and(|id| self.kms.describe(&id).is_ok()) {
                tail.look(format!(
                    "the labels of {key} were changed since, which policies may ask for"
                ));
            }
        }
        for (name, told) in std::mem::take(&mut tail.policies) {
            let has = self.generation_of(&format!("policies/{name}"))?;
            if has < told {
                tail.look(format!("the set of policies {name} was changed up to version {told}, and is of version {has}: write or delete it again"));
            }
        }
        for own in std::mem::take(&mut tail.own) {
            if self.generation_of(&format!("system/{own}"))? == 0 {
                tail.look(format!(
                    "the service's own key `{own}` was made since, and the store does not have it: another one will be made; give that to \
                     the users of this one"
                ));
            }
        }
        doing.flush_audit(true)?;
        let mut report = doing.report;
        report.left = tail.left;
        if tail.more > 0 {
            report.left.push(format!("and {} more: `gabion kms audit tail --json`", tail.more));
        }
        Ok(report)
    }

    /// Returns the generation of a record; 0 if it is missing.
    fn generation_of(&self, path: &str) -> Result<u64, Error> {
        let read = self.kms.context().store.read(&[RecordPath::new(path)?])?;
        Ok(read.records.into_iter().next().flatten().map_or(0, |record| record.generation))
    }

    /// Notes the log's size in the store.
    fn note_log_size(&self) -> Result<(), Error> {
        let mut known = self.known.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let checkpoint = self.log.checkpoint()?;
        super::open::note(self.kms.context(), checkpoint.size, &checkpoint.root)?;
        *known = checkpoint.size;
        Ok(())
    }
}

/// The changes that are being applied again.
struct Replay<'a> {
    service: &'a Service,
    call: Call<'a>,
    report: ReconcileReport,
    told: Vec<Record>,
}

impl Replay<'_> {
    /// Reapplies tokens and root keys before keys, because they give access to everything else.
    fn tokens(&mut self, tail: &mut LogTail) -> Result<(), Error> {
        let Service { kms, gate, .. } = self.service;
        let now_ms = kms.now_ms();
        for (id, times) in std::mem::take(&mut tail.unclear) {
            match times {
                // The token was made and then revoked.
                2.. => drop(tail.revoked.insert(id)),
                _ => tail.look(format!(
                    "the token {id} was made or revoked; an older program did not say which: `gabion kms token revoke {id}`, if it was revoked"
                )),
            }
        }
        for &id in &tail.revoked {
            if gate.reapply_revocation(kms, id, now_ms)? {
                self.record_change(
                    Action::Token,
                    format!("token:{id}"),
                    Some(Change::Revoked),
                    "revoked",
                )?;
            }
        }
        for (id, digest) in &tail.cut {
            if gate.reapply_cut(kms, *id, digest, now_ms)? {
                let change = Some(Change::Cut(digest.clone()));
                self.record_change(Action::Token, format!("token:{id}"), change, "revoked one")?;
            }
        }
        let is_lost = |root: &Option<RootId>| root.is_none_or(|root| !gate.roots().contains(&root));
        if tail.recovered.as_ref().is_some_and(is_lost) {
            let root = gate.rotate(kms, now_ms)?;
            self.record_change(Action::Token, format!("root:{root}"), Some(Change::Made), "made")?;
            tail.retired.extend(gate.roots().into_iter().skip(1));
            tail.look("administrators were replaced since, and every token has ended: `gabion kms recover-admin`".to_owned());
        }
        for root in std::mem::take(&mut tail.roots) {
            if tail.recovered.is_none()
                && !tail.retired.contains(&root)
                && !gate.roots().contains(&root)
            {
                tail.look(format!(
                    "the root key {root} of tokens was made since, and the store does not have it: tokens that were made by it are \
                     invalid"
                ));
            }
        }
        for &root in &tail.retired {
            if gate.reapply_retirement(kms, root, now_ms)? {
                self.record_change(
                    Action::Token,
                    format!("root:{root}"),
                    Some(Change::Revoked),
                    "retired",
                )?;
            }
        }
        Ok(())
    }

    fn key(
        &mut self,
        id: &KeyId,
        told: &LoggedKeyState,
        narrower: &ReappliedRestrictions,
    ) -> Result<(), Error> {
        let ReappliedRestrictions { is_destroyed, key, disabled, .. } = narrower;
        if *is_destroyed {
            self.record_key(Action::Destroy, id, None, "destroyed")?;
        }
        if let Some((before, after)) = key {
            let settings = settings(before, after);
            if !settings.is_empty() {
                self.record_key(Action::Config, id, Some(Change::Settings(settings)), "limited")?;
            }
            if before.min_available != after.min_available {
                let change = Some(Change::TrimmedBefore(told.before));
                self.record_key(Action::Trim, id, change, "trimmed")?;
            }
            if before.deleted_ms != after.deleted_ms {
                self.record_key(Action::Delete, id, None, "deleted")?;
            }
        }
        for &version in disabled {
            let change = Some(Change::Version(version));
            self.record_key(
                Action::Disable,
                id,
                change,
                &format!("disabled version {version} of"),
            )?;
        }
        Ok(())
    }

    fn record_key(
        &mut self,
        action: Action,
        id: &KeyId,
        change: Option<Change>,
        what: &str,
    ) -> Result<(), Error> {
        self.record_change_of(action, Some(id), id.to_string(), change, what)
    }

    fn record_change(
        &mut self,
        action: Action,
        key: String,
        change: Option<Change>,
        what: &str,
    ) -> Result<(), Error> {
        self.record_change_of(action, None, key, change, what)
    }

    fn record_change_of(
        &mut self,
        action: Action,
        id: Option<&KeyId>,
        key: String,
        change: Option<Change>,
        what: &str,
    ) -> Result<(), Error> {
        if self.report.done.len() < LINES_MAX {
            self.report.done.push(format!("{what} {key}"));
        }
        let tenant = id.map(|id| &id.tenant);
        let request = Request { action, tenant, key: None, items: 1, makes: None };
        let told = AuditEntry { key: Some(key), input: None, output: None, outcome: Outcome::Done };
        let revision = Some(self.service.kms.context().store.read(&[])?.revision.0);
        let record = self.service.record(&self.call, &request, told);
        self.told.push(Record { change, revision, ..record });
        self.flush_audit(false)
    }

    /// Appends the collected records to the log, if there are enough of them.
    fn flush_audit(&mut self, is_last: bool) -> Result<(), Error> {
        let wanted = if is_last { 1 } else { TOLD_TOGETHER };
        if self.told.len() >= wanted {
            self.service.log.append_at_last(&std::mem::take(&mut self.told), Class::Durable)?;
        }
        Ok(())
    }
}

/// Returns the settings of a key that were restricted.
fn settings(before: &Key, after: &Key) -> Vec<Setting> {
    let is_other = |of: fn(&Key) -> u32, setting: fn(u32) -> Setting| {
        (of(before) != of(after)).then(|| setting(of(after)))
    };
    let expires =
        (before.expires_ms != after.expires_ms).then_some(Setting::ExpiresMs(after.expires_ms));
    let kept = (before.is_deletable != after.is_deletable)
        .then_some(Setting::Deletable(after.is_deletable));
    let mu = (before.requires_mu != after.requires_mu).then_some(Setting::MuRequired);
    let jwt =
        after.jwt_max_lifetime_s.filter(|_| before.jwt_max_lifetime_s != after.jwt_max_lifetime_s);
    [
        is_other(|key| key.min_sign, Setting::MinSign),
        is_other(|key| key.min_verify, Setting::MinVerify),
        is_other(|key| key.min_decrypt, Setting::MinDecrypt),
        expires,
        kept,
        mu,
        jwt.map(Setting::JwtMaxLifetimeS),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Returns the audit log's name for an upgrade.
fn upgrade_text(upgrade: &Upgrade) -> String {
    format!("store:format-{FORMAT}:{}", upgrade.id)
}

/// Reads the records of the log from an index on.
fn tail(log: &Log, known: u64) -> Result<LogTail, Error> {
    let (mut tail, mut from, before) = (LogTail::default(), known, log.first()?);
    if from < before {
        return Err(AuditError::NeedsArchive { from, before }.into());
    }
    loop {
        let entries = log.tail(from, RECORDS_TOGETHER)?;
        let Some(last) = entries.last() else { return Ok(tail) };
        from = last.index + 1;
        entries.iter().for_each(|entry| tail.add(entry));
    }
}
