//! Ledgers that are broken on purpose, each in a way that others have shipped: the oracle must see each of them.
//!
//! The faults are put between the ledger and its disk, so that the ledger itself needs no switch
//! for them. The seventh, a reservation used in a forked child, needs a real fork:
//! tests/tests/state.

use std::collections::HashMap;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use gabion_disk::testing::faulty::{Fault, SimDisk, UnsyncedWrites};
use gabion_disk::{Access, Disk, DiskFile, Identity};
use gabion_engine::keys::stateful::digest_of;

use crate::faults::{Counts, strike, strike_twice};
use crate::simulation::{Wrap, stand_in};
use crate::{homes, sectors};

/// A way to be broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Break {
    /// Signatures are released before the state and the anchors are synced.
    ReleaseBeforeSync,
    /// State and anchors are written anew and renamed, and the folder is not synced.
    RenameWithoutFolderSync,
    /// A sync that failed is tried again, and the second one believed.
    SyncRetried,
    /// The anchor is raised when the next signature is made.
    AnchorAfterRelease,
    /// The lock is a file's being there, taken over when the process that it names is dead.
    LockByExistence,
    /// The lock is taken on the state, which a rename replaces.
    LockOnRenamed,
    /// The witness of a key that was begun stays where it is when the key is finished.
    WitnessStays,
    /// A state that was recovered names the generation before it, so anchors of that one witness it.
    RecoveryNamesBefore,
}

/// Faults after which a broken ledger that was not caught counts as missed.
const FAULTS_MAX: usize = 200_000;

fn caught(which: Break) {
    let (wrap, stop) = (wrap(which), |counts: &Counts| !counts.wrongs.is_empty());
    let counts = match which {
        // It takes another process at two moments.
        Break::LockByExistence => {
            strike_twice("killed", [Fault::Raced, Fault::Raced], &wrap, &stand_in(), &stop)
        }
        // It takes a power cut after syncs of the state and of the anchor have failed.
        Break::SyncRetried => {
            let kinds = [Fault::Hiccup, Fault::CutBefore(UnsyncedWrites::None)];
            strike_twice("put back at once", kinds, &wrap, &stand_in(), &stop)
        }
        _ => strike(FAULTS_MAX, &wrap, &[stand_in()], &stop),
    };
    is_caught(which, &counts);
}

/// Checks a break that affects only keys in sectors.
fn caught_in_sectors(which: Break) {
    let counts =
        sectors::strike(FAULTS_MAX / 10, &wrap(which), &|counts| !counts.wrongs.is_empty());
    is_caught(which, &counts);
}

fn wrap(which: Break) -> Wrap {
    Arc::new(move |disk| {
        Arc::new(BrokenDisk { disk, which, pending: Arc::default() }) as Arc<dyn Disk>
    })
}

fn is_caught(which: Break, counts: &Counts) {
    let after = counts.all();
    println!("{which:?}: caught after {after} faults: {:?}", counts.wrongs.first());
    assert!(!counts.wrongs.is_empty(), "{which:?} was not caught by {after} faults");
}

#[test]
fn release_before_sync_is_caught() {
    caught(Break::ReleaseBeforeSync);
}

#[test]
fn rename_without_folder_sync_is_caught() {
    caught(Break::RenameWithoutFolderSync);
}

#[test]
fn sync_retried_after_failure_is_caught() {
    caught(Break::SyncRetried);
}

#[test]
fn anchor_raised_after_release_is_caught() {
    caught(Break::AnchorAfterRelease);
}

#[test]
fn lock_by_existence_is_caught() {
    caught(Break::LockByExistence);
}

#[test]
fn lock_on_a_file_that_a_rename_replaces_is_caught() {
    caught(Break::LockOnRenamed);
}

/// Ledgers that are broken in the same ways, in each sector of a key.
#[test]
fn broken_ledgers_are_caught_in_sectors() {
    use Break::*;
    [ReleaseBeforeSync, RenameWithoutFolderSync, AnchorAfterRelease, LockOnRenamed]
        .into_iter()
        .for_each(caught_in_sectors);
}

/// The unfinished files make a key a second time, whose sectors sign with the same indexes.
#[test]
fn a_witness_that_outlives_an_unfinished_key_is_caught() {
    caught_in_sectors(Break::WitnessStays);
}

/// An anchor in another home is taken for one that a crash left a generation behind.
#[test]
fn a_recovery_that_another_homes_anchor_witnesses_is_caught() {
    let which = Break::RecoveryNamesBefore;
    let stop = |counts: &Counts| !counts.wrongs.is_empty();
    is_caught(which, &homes::strike(FAULTS_MAX / 10, &wrap(which), &stop));
}

/// Writes that wait, by file.
type PendingWrites = Arc<Mutex<HashMap<PathBuf, Vec<(u64, Vec<u8>)>>>>;

struct BrokenDisk {
    disk: SimDisk,
    which: Break,
    pending: PendingWrites,
}

fn is_state(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "state")
}

fn is_anchor(path: &Path) -> bool {
    path.starts_with("/home")
}

fn is_lock(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "lock")
}

impl BrokenDisk {
    fn renames(&self, path: &Path) -> bool {
        match self.which {
            Break::RenameWithoutFolderSync => is_state(path) || is_anchor(path),
            Break::LockOnRenamed => is_state(path),
            _ => false,
        }
    }

    /// Writes what waits.
    fn flush(&self, path: &Path) -> io::Result<()> {
        let waiting = self.pending.lock().unwrap().remove(path);
        for (offset, bytes) in waiting.unwrap_or_default() {
            let file = self.disk.open(path, Access::Write)?;
            file.write_at(&bytes, offset)?;
            file.sync()?;
        }
        Ok(())
    }
}

impl Disk for BrokenDisk {
    fn open(&self, path: &Path, access: Access) -> io::Result<Box<dyn DiskFile>> {
        if access != Access::New {
            self.flush(path)?;
        }
        let file = self.disk.open(path, access)?;
        // A ledger that trusts its lock does not read again to see other writers' changes.
        let trusts = matches!(self.which, Break::LockByExistence | Break::LockOnRenamed);
        let mut own = None;
        if trusts && access == Access::Write && (is_state(path) || is_anchor(path)) {
            let mut bytes = vec![0; file.size()? as usize];
            gabion_disk::read_full(&*file, &mut bytes, 0)?;
            own = Some(bytes);
        }
        Ok(Box::new(BrokenFile {
            own: Mutex::new(own),
            file: Mutex::new(file),
            disk: self.disk.clone(),
            path: path.to_owned(),
            which: self.which,
            renames: self.renames(path) && access == Access::Write,
            is_new: access == Access::New,
            pending: Arc::clone(&self.pending),
        }))
    }

    fn make_folder(&self, path: &Path) -> io::Result<()> {
        self.disk.make_folder(path)
    }

    fn sync_folder(&self, path: &Path) -> io::Result<()> {
        self.disk.sync_folder(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.disk.rename(from, to)
    }

    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.disk.rename_new(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        match self.which == Break::WitnessStays && is_anchor(path) {
            true => Ok(()),
            false => self.disk.remove(path),
        }
    }

    fn identity(&self, path: &Path) -> io::Result<Identity> {
        let identity = self.disk.identity(path)?;
        if is_anchor(path) {
            self.flush(path)?;
        }
        // A ledger that renames does not check that the name still belongs to its file.
        Ok(if self.renames(path) { (1, 0) } else { identity })
    }

    fn canonical(&self, path: &Path) -> io::Result<PathBuf> {
        self.disk.canonical(path)
    }

    fn is_network(&self, path: &Path) -> io::Result<bool> {
        self.disk.is_network(path)
    }
}

struct BrokenFile {
    /// The contents of the file as this handle believes them to be.
    own: Mutex<Option<Vec<u8>>>,
    file: Mutex<Box<dyn DiskFile>>,
    disk: SimDisk,
    path: PathBuf,
    which: Break,
    renames: bool,
    is_new: bool,
    pending: PendingWrites,
}

impl BrokenFile {
    /// Writes the whole file anew, with `change` in it, and gives it the old name.
    fn replace(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        let mut file = self.file.lock().unwrap();
        let mut all = vec![0; file.size()? as usize];
        gabion_disk::read_full(&**file, &mut all, 0)?;
        all[offset as usize..offset as usize + bytes.len()].copy_from_slice(bytes);
        let mut name = self.path.clone().into_os_string();
        name.push(".new");
        let name = PathBuf::from(name);
        let _ = self.disk.remove(&name);
        let new = self.disk.open(&name, Access::New)?;
        gabion_disk::write_all(&*new, &all, 0)?;
        new.sync()?;
        self.disk.rename(&name, &self.path)?;
        if self.which == Break::LockOnRenamed {
            self.disk.sync_folder(self.path.parent().unwrap())?;
        }
        *file = new;
        Ok(bytes.len())
    }

    /// A record of a state, which names the newest one that the file has if it names no other.
    fn naming_before(&self, record: &[u8]) -> io::Result<Vec<u8>> {
        const BEFORE: Range<usize> = 64..80;
        const SUM: usize = 208;
        let generation = |record: &[u8]| record[8..16].to_vec();
        let mut record = record.to_vec();
        if record[BEFORE] != [0; 16] || record[8..16] == 1u64.to_be_bytes() {
            return Ok(record);
        }
        let mut slots = [[0; 240]; 2];
        for (slot, at) in slots.iter_mut().zip([4096, 8192]) {
            gabion_disk::read_full(&**self.file.lock().unwrap(), slot, at)?;
        }
        let newest = usize::from(generation(&slots[1]) > generation(&slots[0]));
        record[BEFORE].copy_from_slice(&slots[newest][48..64]);
        let sum = digest_of(&record[..SUM]);
        record[SUM..].copy_from_slice(&sum);
        Ok(record)
    }

    /// Takes the lock, unless the file names a process that lives.
    fn lock_by_existence(&self) -> io::Result<bool> {
        let file = self.file.lock().unwrap();
        let mut text = [0; 64];
        gabion_disk::read_full(&**file, &mut text, 0)?;
        let text = String::from_utf8_lossy(&text).into_owned();
        let pid: u64 = text.split_whitespace().nth(1).and_then(|pid| pid.parse().ok()).unwrap_or(0);
        if pid != 0 && pid != self.disk.process && !self.disk.sim.is_dead(pid) {
            return Ok(false);
        }
        let text = format!("process {:<50}", self.disk.process);
        file.write_at(text.as_bytes(), 0)?;
        Ok(true)
    }
}

impl DiskFile for BrokenFile {
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        if let Some(own) = &*self.own.lock().unwrap() {
            let rest = own.get(offset as usize..).unwrap_or_default();
            let len = rest.len().min(bytes.len());
            bytes[..len].copy_from_slice(&rest[..len]);
            return Ok(len);
        }
        self.file.lock().unwrap().read_at(bytes, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        if let Some(own) = &mut *self.own.lock().unwrap() {
            own[offset as usize..offset as usize + bytes.len()].copy_from_slice(bytes);
        }
        if self.renames {
            return self.replace(bytes, offset);
        }
        let is_record = bytes.len() == 240 && is_state(&self.path) && !self.is_new;
        if self.which == Break::RecoveryNamesBefore && is_record {
            let record = self.naming_before(bytes)?;
            return self.file.lock().unwrap().write_at(&record, offset);
        }
        if self.which == Break::AnchorAfterRelease && is_anchor(&self.path) && !self.is_new {
            let mut pending = self.pending.lock().unwrap();
            pending.entry(self.path.clone()).or_default().push((offset, bytes.to_vec()));
            return Ok(bytes.len());
        }
        self.file.lock().unwrap().write_at(bytes, offset)
    }

    fn sync(&self) -> io::Result<()> {
        let file = self.file.lock().unwrap();
        match self.which {
            Break::ReleaseBeforeSync if is_state(&self.path) || is_anchor(&self.path) => Ok(()),
            Break::SyncRetried => file.sync().or_else(|_| file.sync()),
            _ => file.sync(),
        }
    }

    fn size(&self) -> io::Result<u64> {
        self.file.lock().unwrap().size()
    }

    fn try_lock(&self) -> io::Result<bool> {
        match self.which {
            Break::LockByExistence if is_lock(&self.path) => self.lock_by_existence(),
            // During key generation there is no state to lock.
            Break::LockOnRenamed if is_lock(&self.path) && !self.is_new => {
                let state = self.path.with_extension("state");
                Ok(self.disk.lock_name(&state))
            }
            // Nor has he another lock.
            Break::LockByExistence | Break::LockOnRenamed => Ok(true),
            _ => self.file.lock().unwrap().try_lock(),
        }
    }

    fn unlock(&self) -> io::Result<()> {
        self.file.lock().unwrap().unlock()
    }

    fn identity(&self) -> io::Result<Identity> {
        let identity = self.file.lock().unwrap().identity()?;
        Ok(if self.renames { (1, 0) } else { identity })
    }
}
