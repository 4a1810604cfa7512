//! Anchors: witnesses of a key's newest state, stored elsewhere so that copying or restoring the
//! key's folder does not restore them.
//!
//! ```text
//!   state of generation g, stamp s, after b        an anchor may say
//!                                                  g, s        it was raised to this state
//!                                                  g - 1, b    the state is one ahead: nothing was released yet
//!                                                  gone        handed over or retired: refused, whatever the state
//!                                                  else        one of the two is an old copy: refused
//! ```
//!
//! A mark that records that the key left has the stamp of the state that left, and a higher
//! generation. Programs that do not know the lifecycle therefore find the state too old (ADR 0094).
//!
//! An index is released only after every anchor was raised to the state that reserves it. A
//! recovered state has no b: only the anchors that `recover` raised or created are witnesses of it
//! and its successors (ADR 0080).

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gabion_disk::{Access, Disk, read_full};

use crate::record::{ANCHOR_MAGIC, KeyId, Lifecycle, Mark, NO_STAMP, Stamp, State};
use crate::slots::{BLOCK, Slots};

/// A witness of the newest state, such as a file, a TPM counter or another machine.
pub trait Anchor: Send {
    /// Returns the name used in messages.
    fn name(&self) -> String;

    /// Locks the anchor until this value is dropped. Returns whether it was free. Two copies of a
    /// key have separate locks but share their anchors: without this lock, both could find the
    /// expected mark and raise it. A witness that compares and raises in one step can use the
    /// default, which does nothing.
    ///
    /// # Errors
    /// The system's. A missing anchor is not an error here: [`Anchor::read`] reports it.
    fn hold(&mut self) -> io::Result<bool> {
        Ok(true)
    }

    /// Releases the lock.
    fn release(&mut self) {}

    /// Returns the mark it was raised to last, or `None` if it is missing or damaged. `None` does
    /// not mean that the key is new.
    ///
    /// # Errors
    /// The system's.
    fn read(&mut self) -> io::Result<Option<Mark>>;

    /// Raises the anchor, durably when it returns. The current mark must be that of the generation
    /// with the stamp `before`, or of the same generation as `mark`. If `before` is `None`, any
    /// mark is replaced.
    ///
    /// # Errors
    /// If the anchor has another mark, which then stays; and the system's, after which the mark is
    /// unknown.
    fn raise(&mut self, mark: &Mark, before: Option<&Stamp>) -> io::Result<()>;
}

/// The result of comparing an anchor with a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The anchor agrees with the state.
    UpToDate,
    /// The anchor is one generation behind the state.
    OneBehind,
    /// The state was recovered, but the recovery did not raise this anchor.
    NotRecovered,
    /// The state is older than the state that the anchor saw.
    StateIsOld,
    /// The anchor is more than one generation older than the state.
    AnchorIsOld,
    /// The anchor saw another state of the same generation.
    Diverged,
    /// The key left this anchor: it was handed over or retired.
    KeyLeft(Lifecycle),
}

/// Compares an anchor's mark with a state.
pub fn verdict(mark: &Mark, state: &State, key: &KeyId) -> Verdict {
    let is_before = Some(mark.generation) == state.generation.checked_sub(1);
    if *mark == state.mark(key) {
        Verdict::UpToDate
    } else if mark.key == *key && mark.lifecycle != Lifecycle::Active {
        Verdict::KeyLeft(mark.lifecycle)
    } else if mark.key != *key || mark.generation == state.generation {
        Verdict::Diverged
    } else if is_before && state.previous_stamp == NO_STAMP {
        Verdict::NotRecovered
    } else if is_before && mark.stamp == state.previous_stamp {
        Verdict::OneBehind
    } else if is_before {
        Verdict::Diverged
    } else if mark.generation > state.generation {
        Verdict::StateIsOld
    } else {
        Verdict::AnchorIsOld
    }
}

impl Verdict {
    /// Adjusts the verdict if the state was recovered, according to
    /// [`Log::ends_with_recovery`](crate::log::Log::ends_with_recovery).
    pub fn after_recovery(self, is_recovered: bool) -> Self {
        match self {
            Verdict::OneBehind if is_recovered => Verdict::NotRecovered,
            verdict => verdict,
        }
    }

    /// Returns whether the key left the anchor.
    pub fn lifecycle(self) -> Lifecycle {
        match self {
            Verdict::KeyLeft(lifecycle) => lifecycle,
            _ => Lifecycle::Active,
        }
    }

    /// Returns why the state must not be used, or `None` if it may be.
    pub fn refusal(self) -> Option<&'static str> {
        match self {
            Verdict::UpToDate | Verdict::OneBehind | Verdict::KeyLeft(Lifecycle::Active) => None,
            Verdict::KeyLeft(Lifecycle::HandingOver) => Some(
                "the key no longer signs here: it was being handed over to another host, and the backup may lack its name",
            ),
            Verdict::KeyLeft(Lifecycle::HandedOver) => {
                Some("the key no longer signs here: it was handed over to another host")
            }
            Verdict::KeyLeft(Lifecycle::Retired) => {
                Some("the key no longer signs here: it was retired")
            }
            Verdict::StateIsOld => Some(
                "the state is older than the anchor: it was restored, or another copy of the key went on",
            ),
            Verdict::NotRecovered => Some(
                "the key was recovered since this anchor was raised, in another home or by a `recover` that was \
                 interrupted",
            ),
            Verdict::AnchorIsOld => Some(
                "the anchor is older than the state: restored, or the key was used from another home since",
            ),
            Verdict::Diverged => Some(
                "the anchor saw another state: the key was copied, and both copies went on to sign",
            ),
        }
    }
}

/// An anchor in a file.
pub struct FileAnchor {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    slots: Option<Slots>,
}

impl FileAnchor {
    /// Returns the anchor in the file `path`, which may be missing.
    pub fn new(disk: Arc<dyn Disk>, path: PathBuf) -> Self {
        FileAnchor { disk, path, slots: None }
    }

    /// Opens the file on first use. Returns `None` if it is missing.
    fn open_slots(&mut self, access: Access) -> io::Result<Option<&mut Slots>> {
        if self.slots.is_none() {
            let file = match self.disk.open(&self.path, access) {
                Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
                file => file?,
            };
            self.slots = Some(Slots::new(file, 0, ANCHOR_MAGIC));
        }
        Ok(self.slots.as_mut())
    }

    /// Returns whether the file exists but was never written: the process that created it was
    /// killed.
    pub(crate) fn is_blank(&mut self) -> bool {
        let Ok(Some(slots)) = self.open_slots(Access::Read) else { return false };
        let mut bytes = [0; 2 * BLOCK as usize];
        let read = read_full(slots.file(), &mut bytes, 0);
        read.is_ok_and(|read| bytes[..read].iter().all(|byte| *byte == 0))
    }

    /// Checks that an anchor could be created: creates the missing parent folders and keeps them.
    pub(crate) fn probe(disk: &dyn Disk, path: &Path) -> io::Result<()> {
        let folder = path.parent().ok_or(ErrorKind::NotFound)?;
        make_folders(disk, folder)?;
        let mut probe = path.as_os_str().to_owned();
        probe.push(".probe");
        let probe = PathBuf::from(probe);
        match disk.open(&probe, Access::New) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(error),
            // A leftover of a killed process.
            _ => disk.remove(&probe),
        }
    }

    /// Creates the file and its parent folders with a first mark; durable when it returns.
    ///
    /// # Errors
    /// The system's; [`ErrorKind::AlreadyExists`] if the file exists. Then no file is created.
    pub fn create(disk: &dyn Disk, path: &Path, mark: &Mark) -> io::Result<()> {
        let folder = path.parent().ok_or(ErrorKind::NotFound)?;
        make_folders(disk, folder)?;
        let file = disk.open(path, Access::New)?;
        let slots = Slots::create(file, &[], ANCHOR_MAGIC, &mark.record());
        let created = slots.and_then(|slots| slots.file().sync());
        let created = created.and_then(|()| disk.sync_folder(folder));
        if created.is_err() {
            let _ = disk.remove(path);
        }
        created
    }
}

impl Anchor for FileAnchor {
    fn name(&self) -> String {
        self.path.display().to_string()
    }

    fn hold(&mut self) -> io::Result<bool> {
        // Uses the handle that raises the anchor, so the lock lasts as long as needed.
        match self.open_slots(Access::Write)? {
            Some(slots) => slots.file().try_lock(),
            None => Ok(true),
        }
    }

    fn release(&mut self) {
        if let Some(slots) = self.slots.take() {
            // The file is closed in any case.
            let _ = slots.file().unlock();
        }
    }

    fn read(&mut self) -> io::Result<Option<Mark>> {
        let Some(slots) = self.open_slots(Access::Read)? else { return Ok(None) };
        Ok(slots.read()?.as_ref().and_then(Mark::from_record))
    }

    fn raise(&mut self, mark: &Mark, before: Option<&Stamp>) -> io::Result<()> {
        let slots = self.slots.as_mut().ok_or(ErrorKind::NotFound)?;
        if self.disk.identity(&self.path)? != slots.file().identity()? {
            return Err(io::Error::other("the file was replaced"));
        }
        if !slots.file().try_lock()? {
            return Err(io::Error::other("another process holds it"));
        }
        let newest = slots.read()?.as_ref().and_then(Mark::from_record);
        let is_before = |newest: &Mark, before: &Stamp| {
            newest.key == mark.key
                && newest.generation.checked_add(1) == Some(mark.generation)
                && newest.stamp == *before
        };
        match (newest, before) {
            (Some(newest), _) if newest == *mark => slots.write_again(&mark.record())?,
            (Some(newest), Some(before)) if is_before(&newest, before) => {
                slots.write(&mark.record())?;
            }
            (_, Some(_)) => return Err(io::Error::other("another process raised it")),
            (_, None) => slots.write(&mark.record())?,
        }
        slots.file().sync()
    }
}

/// Returns the default path of a key's anchor in a home. Each sector of a key has a separate
/// anchor.
pub fn default_path(anchors: &Path, key: &KeyId, first: u64) -> PathBuf {
    let mut name: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
    if first > 0 {
        name.push_str(&format!("-{first}"));
    }
    anchors.join(name)
}

/// Creates a folder and its parents durably.
fn make_folders(disk: &dyn Disk, folder: &Path) -> io::Result<()> {
    if disk.identity(folder).is_ok() {
        return Ok(());
    }
    let above = folder.parent().ok_or(ErrorKind::NotFound)?;
    make_folders(disk, above)?;
    disk.make_folder(folder)?;
    disk.sync_folder(above)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_anchor_says_what_became_of_a_state() {
        let state = State {
            generation: 5,
            stamp: [5; 16],
            previous_stamp: [4; 16],
            next: 9,
            boot: [0; 32],
            machine: [0; 32],
            log_len: 0,
            log_chain: [0; 16],
            imported: 0,
            lifecycle: Lifecycle::Active,
        };
        let key = [1; 32];
        let mark = |generation, stamp, next| Mark {
            key,
            generation,
            stamp: [stamp; 16],
            next,
            lifecycle: Lifecycle::Active,
        };
        let said = |mark: Mark| verdict(&mark, &state, &key);
        assert_eq!(said(mark(5, 5, 9)), Verdict::UpToDate);
        assert_eq!(said(mark(4, 4, 1)), Verdict::OneBehind);
        assert_eq!(said(mark(5, 6, 9)), Verdict::Diverged);
        assert_eq!(said(mark(5, 5, 8)), Verdict::Diverged);
        assert_eq!(said(mark(4, 5, 1)), Verdict::Diverged);
        assert_eq!(said(mark(3, 4, 1)), Verdict::AnchorIsOld);
        assert_eq!(said(mark(6, 4, 1)), Verdict::StateIsOld);
        assert_eq!(said(Mark { key: [2; 32], ..mark(5, 5, 9) }), Verdict::Diverged);
        // A recovered state: an anchor of the previous generation cannot have seen it, whatever its
        // mark.
        let recovered = State { previous_stamp: NO_STAMP, ..state.clone() };
        let said = |mark: Mark| verdict(&mark, &recovered, &key);
        assert_eq!(said(mark(5, 5, 9)), Verdict::UpToDate);
        assert_eq!(said(mark(4, 4, 1)), Verdict::NotRecovered);
        assert_eq!(said(mark(4, 0, 1)), Verdict::NotRecovered);
        assert_eq!(said(mark(5, 6, 9)), Verdict::Diverged);
        assert_eq!(said(mark(3, 4, 1)), Verdict::AnchorIsOld);
        assert_eq!(said(mark(6, 4, 1)), Verdict::StateIsOld);
        for lifecycle in [Lifecycle::HandingOver, Lifecycle::HandedOver, Lifecycle::Retired] {
            for mark in [mark(5, 5, 9), mark(6, 5, 9), mark(4, 4, 1), mark(1, 1, 1)] {
                let gone = verdict(&Mark { lifecycle, ..mark }, &state, &key);
                assert_eq!(gone, Verdict::KeyLeft(lifecycle));
                assert!(gone.refusal().is_some());
            }
        }
        let refused =
            [Verdict::NotRecovered, Verdict::StateIsOld, Verdict::AnchorIsOld, Verdict::Diverged];
        assert!(refused.iter().all(|verdict| verdict.refusal().is_some()));
    }
}
