//! The anchors of a key during `recover` and `retire`, which raise them from any mark.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use gabion_disk::Disk;
use gabion_engine::keys::stateful::LedgerError;

use crate::anchor::{Anchor, FileAnchor};
use crate::files::{Environment, Paths, failed};
use crate::ledger::held_anchor;
use crate::record::{Head, Lifecycle, Mark, State};

/// The newest record among a state and its anchors.
pub struct NewestState {
    /// The next index.
    pub next: u64,
    /// The generation.
    pub generation: u64,
    /// Whether the state or an anchor records that the key left.
    pub lifecycle: Lifecycle,
}

/// Locks the anchors at these paths and reads their marks, even if they do not match the key.
/// `check` may reject a lifecycle found in the state or an anchor.
pub fn read_anchors(
    environment: &Environment,
    paths: &Paths,
    (head, state): (&Head, &State),
    places: Vec<PathBuf>,
    anchors: &mut Vec<Witness>,
    check: impl Fn(&Path, Lifecycle) -> Result<(), LedgerError>,
) -> Result<NewestState, LedgerError> {
    let State { next, generation, lifecycle, .. } = *state;
    let mut seen = NewestState { next, generation, lifecycle };
    check(&paths.state, lifecycle)?;
    for path in places {
        let at = |error| failed(&path, &error);
        let mut anchor = FileAnchor::new(Arc::clone(&environment.disk), path.clone());
        if !anchor.hold().map_err(at)? {
            return Err(held_anchor(&path));
        }
        let mark = anchor.read().map_err(at)?;
        if let Some(mark) = mark.filter(|mark| mark.key == head.key) {
            seen.next = seen.next.max(mark.next);
            seen.generation = seen.generation.max(mark.generation);
            seen.lifecycle = seen.lifecycle.max(mark.lifecycle);
        }
        // Dropped anchors are released, whatever their mark.
        anchors.push((path.clone(), anchor, mark.is_some()));
        mark.filter(|mark| mark.key == head.key)
            .map_or(Ok(()), |mark| check(&path, mark.lifecycle))?;
    }
    Ok(seen)
}

/// An anchor's path, the anchor, and whether it had a valid mark.
pub type Witness = (PathBuf, FileAnchor, bool);

/// Raises anchors from any mark, and creates missing ones.
pub fn raise_or_make(
    disk: &dyn Disk,
    anchors: &mut [Witness],
    mark: &Mark,
) -> Result<(), LedgerError> {
    for (path, anchor, is_there) in anchors {
        let raised = match *is_there || disk.identity(path).is_ok() {
            true => anchor.raise(mark, None),
            false => FileAnchor::create(disk, path, mark),
        };
        raised.map_err(|error| failed(path, &error))?;
    }
    Ok(())
}
