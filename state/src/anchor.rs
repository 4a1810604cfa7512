//! Anchors: witnesses of a state that lie elsewhere, so that a copied or restored folder does not bring them.
//!
//! ```text
//!   state of generation g, stamp s, after b        an anchor may say
//!                                                  g, s        it was raised to this state
//!                                                  g - 1, b    the state is one ahead: nothing was released yet
//!                                                  gone        handed over or retired: refused, whatever the state
//!                                                  else        one of the two is an old copy: refused
//! ```
//!
//! A mark that says gone has the stamp of the state that left and a higher generation than it, so that programs that do not
//! know the lifecycle find the state too old (ADR 0094).
//!
//! An index leaves only after every anchor was raised to the state that reserves it. A state that was recovered has no b:
//! only the anchors that `recover` raised or created are witnesses of it, and of those that follow it (ADR 0080).

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gabion_disk::{Access, Disk, read_full};

use crate::record::{ANCHOR_MAGIC, KeyId, Lifecycle, Mark, NO_STAMP, Stamp, State};
use crate::slots::{BLOCK, Slots};

/// A witness of the newest state. A counter of a TPM may be one, or another machine.
pub trait Anchor: Send {
    /// What messages call it.
    fn name(&self) -> String;

    /// Keeps everybody else from raising it until this value ends; whether nobody else does so already. Two copies
    /// of a key have a lock each and one anchor: without this both could find what they expect, and raise it. A
    /// witness that compares and raises in one step has nothing to do here.
    ///
    /// # Errors
    /// The system's. A witness that is missing is none: [`Anchor::read`] says so.
    fn hold(&mut self) -> io::Result<bool> {
        Ok(true)
    }

    /// Lets others raise it again.
    fn release(&mut self) {}

    /// What it was raised to last. None where it is missing, or can't be read as one: that is no fresh start.
    ///
    /// # Errors
    /// The system's.
    fn read(&mut self) -> io::Result<Option<Mark>>;

    /// Raises it, durably when it returns, from the generation that has the stamp `before` or from the same one;
    /// where that is none, from whatever it says.
    ///
    /// # Errors
    /// If it says anything else, which it goes on saying; the system's, and then nobody knows what it says.
    fn raise(&mut self, mark: &Mark, before: Option<&Stamp>) -> io::Result<()>;
}

/// What an anchor says about a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The anchor agrees with the state.
    UpToDate,
    /// The anchor is one generation behind the state.
    OneBehind,
    /// The state was recovered, and this anchor was not raised by that.
    NotRecovered,
    /// The state is older than what the anchor saw.
    StateIsOld,
    /// The anchor is older than the state can explain.
    AnchorIsOld,
    /// It saw another state of the same age.
    Diverged,
    /// The key left this anchor.
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
    /// Returns the verdict if the state was recovered, as
    /// [`Log::ends_with_recovery`](crate::log::Log::ends_with_recovery) finds.
    pub fn after_recovery(self, is_recovered: bool) -> Self {
        match self {
            Verdict::OneBehind if is_recovered => Verdict::NotRecovered,
            verdict => verdict,
        }
    }

    /// Whether the key left the anchor.
    pub fn lifecycle(self) -> Lifecycle {
        match self {
            Verdict::KeyLeft(lifecycle) => lifecycle,
            _ => Lifecycle::Active,
        }
    }

    /// Why the state may not be used; None where it may.
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
                "the state is older than the anchor: restored, or a copy that another went on from",
            ),
            Verdict::NotRecovered => Some(
                "the key was recovered since this anchor was raised, in another home or by a `recover` that was \
                 interrupted",
            ),
            Verdict::AnchorIsOld => Some(
                "the anchor is older than the state: restored, or the key was used from another home since",
            ),
            Verdict::Diverged => {
                Some("the anchor saw another state: the key was copied, and both went on")
            }
        }
    }
}

/// A file as an anchor.
pub struct FileAnchor {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    slots: Option<Slots>,
}

impl FileAnchor {
    /// The file of this name, which is there or not.
    pub fn new(disk: Arc<dyn Disk>, path: PathBuf) -> Self {
        FileAnchor { disk, path, slots: None }
    }

    /// Opens the file once. Returns `None` if it is missing.
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

    /// Whether the file is there and was never written to: whoever made it was killed at it.
    pub(crate) fn is_blank(&mut self) -> bool {
        let Ok(Some(slots)) = self.open_slots(Access::Read) else { return false };
        let mut bytes = [0; 2 * BLOCK as usize];
        let read = read_full(slots.file(), &mut bytes, 0);
        read.is_ok_and(|read| bytes[..read].iter().all(|byte| *byte == 0))
    }

    /// Whether such a file could be made: the folders above it are, and stay.
    pub(crate) fn probe(disk: &dyn Disk, path: &Path) -> io::Result<()> {
        let folder = path.parent().ok_or(ErrorKind::NotFound)?;
        make_folders(disk, folder)?;
        let mut probe = path.as_os_str().to_owned();
        probe.push(".probe");
        let probe = PathBuf::from(probe);
        match disk.open(&probe, Access::New) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(error),
            // One that is there was left by somebody who was killed.
            _ => disk.remove(&probe),
        }
    }

    /// Makes the file and the folders above it, with a first mark; durable when it returns.
    ///
    /// # Errors
    /// The system's. [`ErrorKind::AlreadyExists`] if there is one. Then none is made.
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
        // By the same handle through which it is raised, so that it is held as long as it may be.
        match self.open_slots(Access::Write)? {
            Some(slots) => slots.file().try_lock(),
            None => Ok(true),
        }
    }

    fn release(&mut self) {
        if let Some(slots) = self.slots.take() {
            // It is closed in any case.
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
            return Err(io::Error::other("somebody else raises it"));
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
            (_, Some(_)) => return Err(io::Error::other("it was raised by somebody else")),
            (_, None) => slots.write(&mark.record())?,
        }
        slots.file().sync()
    }
}

/// The default anchor of a key, of those of a home; a sector of a key has its own.
pub fn default_path(anchors: &Path, key: &KeyId, first: u64) -> PathBuf {
    let mut name: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
    if first > 0 {
        name.push_str(&format!("-{first}"));
    }
    anchors.join(name)
}

/// Makes a folder and those above it, durably.
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
        // A state that was recovered, which an anchor of the generation before can't have seen, whatever it says.
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
