//! Keys that leave a host: handed over with a backup, or retired.
//!
//! ```text
//!   hand over   backup without its name, synced > each anchor says "handing over", synced > the backup's name, synced
//!               > each anchor says "handed over", synced > a newer state, synced
//!   retire      each anchor says "retired", in both slots, synced > a newer state, synced, if no anchor had to be made
//! ```
//!
//! An anchor with such a mark rejects the key and all its copies, for signing and for `recover`.
//! After a crash before the first anchor is raised, the key still signs and there is no backup.
//! After a later crash, the key does not sign, and the same command completes the backup: nothing
//! was signed in between, and the anchors name the state that it must contain. The newer state
//! records the hand-over too and matches no anchor, so the key stays disabled if the anchors are
//! lost or restored from an older copy of the home. It differs from the state in the backup, which
//! may sign where it is recovered.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use gabion_disk::Access;
use gabion_engine::keys::stateful::LedgerError;

use crate::anchor::{Anchor, FileAnchor, Verdict, verdict};
use crate::backup::{is_backup_of, sync_backup, take_lock, write_whole};
use crate::files::{
    Environment, KeyIdentity, Paths, anchor_paths, check_network, check_places, failed, machine_id,
    new_stamp, read_state,
};
use crate::keys::take_or_make_lock;
use crate::ledger::{NO_ANCHOR, OTHER_MACHINE, held_anchor, open_log, with_outcome};
use crate::lock::Lock;
use crate::record::{Head, KeyId, Lifecycle, Mark, NO_STAMP, Stamp, State};
use crate::slots::{Record, Slots};
use crate::witnesses::{Witness, raise_or_make, read_anchors};

/// Writes a backup that hands the key over to another host. Before the backup gets its name, the
/// anchors here durably record that the key no longer signs here. After an interruption, the same
/// call completes the backup or finds it complete. Returns whether an earlier call was interrupted,
/// which may have written another backup.
///
/// # Errors
/// Fails in these cases; the message states whether the key still signs here:
///
/// - [`LedgerError::Unsafe`] if the state belongs to another key or sector.
/// - The key must not sign here, for another reason than an interrupted hand-over.
/// - The key is in use.
/// - The file `out` exists and is not the backup of the interrupted call.
/// - A file cannot be read or written.
pub fn hand_over(
    environment: &Environment,
    key: &Path,
    identity: &KeyIdentity,
    out: &Path,
) -> Result<bool, LedgerError> {
    let unchanged = |error| with_outcome(error, UNCHANGED);
    let paths = Paths::resolve_existing(&*environment.disk, key).map_err(unchanged)?;
    let lock = take_lock(environment, &paths).map_err(unchanged)?;
    let (mut anchors, mut place) = (Vec::new(), HandOverStage::NotStarted);
    let handed =
        hand_over_under(&lock, environment, &paths, (identity, out), (&mut anchors, &mut place));
    anchors.iter_mut().for_each(|(_, anchor)| anchor.release());
    lock.release();
    handed.map_err(|error| with_outcome(error, &place.outcome(&paths, out)))
}

const UNCHANGED: &str = "nothing was handed over, and nothing changed";

/// The progress of a hand-over, for error messages.
enum HandOverStage {
    /// Nothing was written yet.
    NotStarted,
    /// The key still signs here.
    KeyActive,
    /// Some anchors may record the hand-over.
    AnchorsChanged,
    /// The backup has its name.
    BackupComplete,
}

impl HandOverStage {
    fn outcome(&self, paths: &Paths, out: &Path) -> String {
        match self {
            HandOverStage::NotStarted => UNCHANGED.to_owned(),
            HandOverStage::KeyActive => {
                "no backup was written, and the key still signs here".to_owned()
            }
            HandOverStage::AnchorsChanged => format!(
                "no backup was written, and the key no longer signs here unless `gabion hbs status` says so: {}",
                paths.recovery_command(Lifecycle::HandingOver)
            ),
            HandOverStage::BackupComplete => {
                format!("the backup {} is whole, and the key no longer signs here", out.display())
            }
        }
    }
}

type Witnesses = Vec<(PathBuf, FileAnchor)>;

fn hand_over_under(
    lock: &Lock,
    environment: &Environment,
    paths: &Paths,
    (identity, out): (&KeyIdentity, &Path),
    (anchors, place): (&mut Witnesses, &mut HandOverStage),
) -> Result<bool, LedgerError> {
    let disk = &*environment.disk;
    let (head, slots, state) = read_state(disk, paths, Access::Write)?;
    identity.check_state(paths, &head)?;
    check_places(environment, paths, head.allow_network)?;
    paths.check_active(state.lifecycle)?;
    if state.machine != machine_id(&*environment.machine)? {
        return Err(paths.unsafe_until_recovered(&paths.state, OTHER_MACHINE));
    }
    let handing = departed_mark(&state, &head.key, Lifecycle::HandingOver);
    let (active, behind) = hold_all(environment, paths, (&head, &state), &handing, anchors)?;
    let log = open_log(environment, paths, &head, &state)?;
    let verdict = Verdict::OneBehind.after_recovery(log.ends_with_recovery(state.next));
    if let Some(refused) = behind.and_then(|name| paths.refusal_of(&name, verdict)) {
        return Err(refused);
    }
    lock.sign(&*environment.machine);
    let was_interrupted = active.len() < anchors.len();
    *place = if was_interrupted { HandOverStage::AnchorsChanged } else { HandOverStage::KeyActive };
    rewrite_state(paths, &slots, &state.record(&head.key))?;
    for at in active {
        raise(&mut anchors[at], &state.mark(&head.key), &state.previous_stamp)?;
    }
    let mut leave = || {
        *place = HandOverStage::AnchorsChanged;
        anchors.iter_mut().try_for_each(|anchor| raise(anchor, &handing, &state.stamp))
    };
    match was_interrupted && is_backup_of(disk, out, paths)? {
        // The backup got its name before the interruption.
        true => leave().and_then(|()| sync_backup(disk, out))?,
        false => write_whole(disk, out, paths, leave)?,
    }
    *place = HandOverStage::BackupComplete;
    let handed = Mark {
        generation: handing.generation.saturating_add(1),
        ..departed_mark(&state, &head.key, Lifecycle::HandedOver)
    };
    anchors.iter_mut().try_for_each(|anchor| raise(anchor, &handed, &state.stamp))?;
    mark_departed(environment, paths, &handed)?;
    Ok(was_interrupted)
}

/// Locks the anchors of a key. Each must match the state, or record the hand-over of this state.
/// Returns those that match, and the name of an anchor that is one generation behind.
fn hold_all(
    environment: &Environment,
    paths: &Paths,
    (head, state): (&Head, &State),
    handing: &Mark,
    anchors: &mut Witnesses,
) -> Result<(Vec<usize>, Option<PathBuf>), LedgerError> {
    let (mut active, mut behind) = (Vec::new(), None);
    for path in anchor_paths(&*environment.machine, &head.anchors, &head.key, head.first)? {
        check_network(environment, &path, head.allow_network)?;
        let at = |error| failed(&path, &error);
        let mut anchor = FileAnchor::new(Arc::clone(&environment.disk), path.clone());
        if !anchor.hold().map_err(at)? {
            return Err(held_anchor(&path));
        }
        let mark = anchor.read().map_err(at)?;
        anchors.push((path.clone(), anchor));
        let mark = mark.ok_or_else(|| paths.unsafe_until_recovered(&path, NO_ANCHOR))?;
        if mark == *handing {
            continue;
        }
        let verdict = verdict(&mark, state, &head.key);
        if let Some(refused) = paths.refusal_of(&path, verdict) {
            return Err(refused);
        }
        active.push(anchors.len() - 1);
        if verdict == Verdict::OneBehind {
            behind = Some(path);
        }
    }
    Ok((active, behind))
}

/// Returns the mark of a key that left with this state.
fn departed_mark(state: &State, key: &KeyId, lifecycle: Lifecycle) -> Mark {
    let generation = state.generation.saturating_add(1);
    Mark { generation, lifecycle, ..state.mark(key) }
}

/// Writes the state again, because the state that was read may not be on the disk yet and the
/// anchors refer to it.
fn rewrite_state(paths: &Paths, slots: &Slots, record: &Record) -> Result<(), LedgerError> {
    let written = slots.write_again(record).and_then(|()| slots.file().sync());
    written.map_err(|error| failed(&paths.state, &error))
}

/// Records in the state that the key left, in case anchors are lost or restored from an older copy
/// of the home. No anchor matches its generation, which stops programs that do not know the
/// lifecycle.
fn mark_departed(environment: &Environment, paths: &Paths, mark: &Mark) -> Result<(), LedgerError> {
    let (head, mut slots, state) = read_state(&*environment.disk, paths, Access::Write)?;
    let (stamp, previous_stamp) = (new_stamp(environment)?, NO_STAMP);
    let Mark { generation, lifecycle, .. } = *mark;
    let state = State { generation, stamp, previous_stamp, lifecycle, ..state };
    let written = slots.write(&state.record(&head.key)).and_then(|()| slots.file().sync());
    written.map_err(|error| failed(&paths.state, &error))
}

fn raise(
    (path, anchor): &mut (PathBuf, FileAnchor),
    mark: &Mark,
    before: &Stamp,
) -> Result<(), LedgerError> {
    anchor.raise(mark, Some(before)).map_err(|error| failed(path, &error))
}

/// Retires a key in this home: its anchors durably record that it never signs again, and missing
/// anchors are created, so that no copy or backup of it signs here. This cannot be undone.
///
/// # Errors
/// If the state belongs to another key or sector; if the key is in use; if a file cannot be read or
/// written. After an error, the key is retired if at least one anchor records it.
pub fn retire(
    environment: &Environment,
    key: &Path,
    identity: &KeyIdentity,
) -> Result<(), LedgerError> {
    let disk = &*environment.disk;
    let paths = Paths::resolve_existing(disk, key)?;
    paths.check_present(disk, &[&paths.state])?;
    let (lock, is_new) = take_or_make_lock(disk, &paths)?;
    let mut anchors = Vec::new();
    let retired = retire_under(environment, &paths, identity, &mut anchors);
    anchors.iter_mut().for_each(|(_, anchor, _): &mut Witness| anchor.release());
    if is_new {
        // Without the lock file, the key is also rejected.
        let _ = disk.remove(&paths.lock);
    }
    lock.release();
    retired
}

fn retire_under(
    environment: &Environment,
    paths: &Paths,
    identity: &KeyIdentity,
    anchors: &mut Vec<Witness>,
) -> Result<(), LedgerError> {
    let disk = &*environment.disk;
    let (head, _, state) = read_state(disk, paths, Access::Read)?;
    identity.check_state(paths, &head)?;
    let places = anchor_paths(&*environment.machine, &head.anchors, &head.key, head.first)?;
    let seen = read_anchors(environment, paths, (&head, &state), places, anchors, |_, _| Ok(()))?;
    let is_home = anchors.iter().all(|(_, _, is_there)| *is_there);
    let mut mark = Mark {
        generation: seen.generation.saturating_add(1),
        next: seen.next,
        ..departed_mark(&state, &head.key, Lifecycle::Retired)
    };
    raise_or_make(disk, anchors, &mark)?;
    // Both slots record it, so that a damaged slot does not reactivate the key.
    mark.generation = mark.generation.saturating_add(1);
    for (path, anchor, _) in anchors {
        // A newly created anchor is not open yet.
        let raised = anchor.hold().and_then(|_| anchor.raise(&mark, None));
        raised.map_err(|error| failed(path, &error))?;
    }
    if !is_home {
        // Another home may use these files, with anchors that match the state.
        return Ok(());
    }
    let parted = mark_departed(environment, paths, &mark);
    parted.map_err(|error| with_outcome(error, "the key no longer signs here"))
}
