//! Backup periods and their keys: a folder with one file each.

use std::fmt;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use gabion_disk::{Access, Disk, RealDisk, read_full, write_all};
use gabion_engine::{Entropy, OsEntropy};
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

use crate::clock::rfc3339;
use crate::error::Error;
use crate::seal::Key;
use crate::store::StoreError;
use crate::text::{hex as digits, of_hex};

/// The prefix of a key file's content.
const PREFIX: &str = "gbp1";

/// The extension of a key file.
const ENDING: &str = ".key";

/// The name of a key file while it is written.
const PARTIAL: &str = "new.partial";

/// A size limit that no key file reaches.
const FILE_MAX: usize = 1 << 10;

/// A backup period: its number in the folder, its start, and a random id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Period {
    pub(super) number: u32,
    pub(super) from_ms: u64,
    pub(super) id: [u8; 8],
}

impl Period {
    /// Returns the period's number in its folder.
    pub fn number(&self) -> u32 {
        self.number
    }
}

/// The text form, such as `000001-20261127T033438123Z-0123456789abcdef`.
impl fmt::Display for Period {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let from = rfc3339(self.from_ms);
        let from: String = from.chars().filter(char::is_ascii_alphanumeric).collect();
        write!(out, "{:06}-{from}-{}", self.number, digits(&self.id))
    }
}

/// The key of a period. Secret.
pub struct PeriodKey {
    period: Period,
    /// The store whose backups it seals.
    store: [u8; 16],
    /// The number of records in the store when the period began.
    records: u64,
    key: Key,
}

/// Prints the period without the key.
impl fmt::Debug for PeriodKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "PeriodKey {}", self.period)
    }
}

impl PeriodKey {
    /// Reads a key file.
    ///
    /// # Errors
    /// [`StoreError::Backup`]; no memory.
    pub fn read(path: &Path) -> Result<Self, Error> {
        Self::of_path(path)?.ok_or_else(|| refused(path, "it was destroyed").into())
    }

    /// Reads a key file; `None` if it was overwritten.
    fn of_path(path: &Path) -> Result<Option<Self>, Error> {
        let Some(text) = of_file(path)? else { return Ok(None) };
        let key = Self::of(&text)?;
        let none = || refused(path, "it is not the key of a backup period");
        Ok(Some(key.ok_or_else(none)?))
    }

    /// Returns the key's period.
    pub fn period(&self) -> Period {
        self.period
    }

    /// Returns the period's number in its folder, and the number of records in the store when it
    /// began.
    pub fn began(&self) -> (u32, u64) {
        (self.period.number, self.records)
    }

    pub(super) fn store(&self) -> [u8; 16] {
        self.store
    }

    pub(super) fn bytes(&self) -> Result<&[u8; 32], Error> {
        Ok(self.key.bytes()?)
    }

    fn of(text: &str) -> Result<Option<Self>, Error> {
        let Some((said, sum)) = text.trim_end().rsplit_once('-') else { return Ok(None) };
        let parts: Vec<&str> = said.split('-').collect();
        let [PREFIX, number, from_ms, id, store, records, key] = parts[..] else { return Ok(None) };
        let read = || {
            let period = Period {
                number: number.parse().ok()?,
                from_ms: from_ms.parse().ok()?,
                id: of_hex(id)?,
            };
            let mut bytes = Zeroizing::new([0; 32]);
            let len = base16ct::lower::decode(key, &mut bytes[..]).ok()?.len();
            if len != bytes.len() {
                return None;
            }
            Some((period, of_hex(store)?, records.parse().ok()?, bytes))
        };
        let Some((period, store, records, bytes)) = read().filter(|_| checksum(said) == sum) else {
            return Ok(None);
        };
        let key = PeriodKey { period, store, records, key: Key::of(&bytes[..])? };
        // The text form is canonical: numbers have no signs or leading zeros.
        let is_it = key.text()?.trim_end() == text.trim_end();
        Ok(Some(key).filter(|_| is_it))
    }

    /// Allocated with the final size, so that reallocation leaves no copies in memory.
    fn text(&self) -> Result<Zeroizing<String>, Error> {
        let Period { number, from_ms, id } = self.period;
        let mut text = Zeroizing::new(String::with_capacity(FILE_MAX));
        let head = format!(
            "{PREFIX}-{number}-{from_ms}-{}-{}-{}-",
            digits(&id),
            digits(&self.store),
            self.records
        );
        text.push_str(&head);
        let digit = |value: u8| char::from_digit(u32::from(value), 16);
        text.extend(self.bytes()?.iter().flat_map(|byte| [byte >> 4, byte & 15]).filter_map(digit));
        let sum = checksum(&text);
        text.push('-');
        text.push_str(&sum);
        text.push('\n');
        Ok(text)
    }
}

/// The backup periods of a store, whose keys are in a folder. Only one process at a time may create
/// or destroy keys.
#[derive(Clone, Debug)]
pub struct Periods {
    folder: PathBuf,
    store: [u8; 16],
}

impl Periods {
    /// Opens the periods of a store by its id. The first period creates the folder.
    pub fn new(folder: &Path, store: [u8; 16]) -> Self {
        Periods { folder: folder.to_owned(), store }
    }

    /// Returns the folder of the keys.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the existing keys, the oldest first. Changes nothing.
    ///
    /// # Errors
    /// A folder or a file that cannot be read; a file that is not a key of a period.
    pub fn all(&self) -> Result<Vec<PeriodKey>, Error> {
        Ok(self.looked()?.0)
    }

    /// Returns the existing keys, the oldest first, and overwritten files that were not removed.
    fn looked(&self) -> Result<(Vec<PeriodKey>, Vec<PathBuf>), Error> {
        let entries = match fs::read_dir(&self.folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Ok(Default::default());
            }
            Err(error) => return Err(of_io(&self.folder)(error).into()),
        };
        let (mut keys, mut gone) = (Vec::new(), Vec::new());
        for entry in entries {
            let path = entry.map_err(of_io(&self.folder))?.path();
            if !path.to_string_lossy().ends_with(ENDING) {
                continue;
            }
            match PeriodKey::of_path(&path)? {
                Some(key) => keys.push(key),
                None => gone.push(path),
            }
        }
        keys.retain(|key| key.store == self.store);
        keys.sort_by_key(|key| key.period);
        Ok((keys, gone))
    }

    /// Returns the existing keys before a change, and removes overwritten files.
    fn swept(&self) -> Result<Vec<PeriodKey>, Error> {
        let (keys, gone) = self.looked()?;
        gone.iter().try_for_each(|path| self.remove(path))?;
        Ok(keys)
    }

    /// Returns the key of a period.
    ///
    /// # Errors
    /// [`StoreError::NoPeriod`]; those of [`Self::all`].
    pub fn find(&self, period: Period) -> Result<PeriodKey, Error> {
        let found = self.all()?.into_iter().find(|key| key.period == period);
        found.ok_or_else(|| self.missing(period).into())
    }

    pub(super) fn missing(&self, period: Period) -> StoreError {
        StoreError::NoPeriod { period: period.to_string(), folder: shown(&self.folder) }
    }

    /// Returns the newest period's key if that period has not ended; otherwise the key of a new
    /// one, which is durable when this returns.
    ///
    /// # Errors
    /// Those of [`Self::all`]; no randomness; a full disk.
    pub fn current(&self, now_ms: u64, length_ms: u64, records: u64) -> Result<PeriodKey, Error> {
        match self.swept()?.pop() {
            // A clock that went back does not end a period early, and one that was far ahead does
            // not make a period endless.
            Some(newest) if now_ms.abs_diff(newest.period.from_ms) < length_ms => Ok(newest),
            newest => self.begin(newest.map_or(0, |key| key.period.number), now_ms, records),
        }
    }

    /// Returns the key of a new period, even if the newest one has not ended. It is durable when
    /// this returns.
    ///
    /// # Errors
    /// Those of [`Self::current`].
    pub fn renew(&self, now_ms: u64, records: u64) -> Result<PeriodKey, Error> {
        let newest = self.swept()?.pop();
        self.begin(newest.map_or(0, |key| key.period.number), now_ms, records)
    }

    /// Returns the periods whose backups may contain a record, by its number in the store: those
    /// that did not end before the record was created. Periods are compared by record counts, not
    /// by clocks. `ended` lists periods whose keys are gone, by [`PeriodKey::began`]: without them
    /// their neighbors would seem longer than they were.
    ///
    /// # Errors
    /// Those of [`Self::all`].
    pub fn holding(&self, number: u64, ended: &[(u32, u64)]) -> Result<Vec<PeriodKey>, Error> {
        let mut keys = self.all()?;
        let mut began: Vec<_> =
            keys.iter().map(PeriodKey::began).chain(ended.iter().copied()).collect();
        began.sort_unstable();
        let end = |key: &PeriodKey| {
            let next = began.iter().find(|(period, _)| *period > key.period.number);
            next.map_or(u64::MAX, |(_, records)| *records)
        };
        keys.retain(|key| end(key) >= number);
        Ok(keys)
    }

    /// Destroys a period's key durably: overwrites and removes its file. A missing key counts as
    /// destroyed.
    ///
    /// # Errors
    /// Those of [`Self::all`]; a failed write.
    pub fn destroy(&self, period: Period) -> Result<(), Error> {
        let path = self.path(period);
        let file = match RealDisk.open(&path, Access::Write) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(of_io(&path)(error).into()),
        };
        let len = file.size().map_err(of_io(&path))?;
        let zeros = vec![0; usize::try_from(len).unwrap_or(FILE_MAX).min(FILE_MAX)];
        write_all(&*file, &zeros, 0).and_then(|()| file.sync()).map_err(of_io(&path))?;
        drop(file);
        Ok(self.remove(&path)?)
    }

    fn remove(&self, path: &Path) -> Result<(), StoreError> {
        RealDisk.remove(path).map_err(of_io(path))?;
        RealDisk.sync_folder(&self.folder).map_err(of_io(&self.folder))
    }

    fn begin(&self, last: u32, now_ms: u64, records: u64) -> Result<PeriodKey, Error> {
        make_folder(&self.folder)?;
        let mut id = [0; 8];
        OsEntropy.fill(&mut id).map_err(gabion_engine::Error::from)?;
        let number = last.checked_add(1).ok_or(Error::TooLarge {
            what: "periods",
            most: u32::MAX as usize,
            got: u32::MAX as usize,
        })?;
        let period = Period { number, from_ms: now_ms, id };
        let key = PeriodKey { period, store: self.store, records, key: Key::drawn()? };
        let (text, path) = (key.text()?, self.path(period));
        let partial = self.folder.join(PARTIAL);
        // A key that a crash left sealed nothing.
        let _ = RealDisk.remove(&partial);
        let made = RealDisk
            .open(&partial, Access::New)
            .and_then(|file| write_all(&*file, text.as_bytes(), 0).and_then(|()| file.sync()))
            .and_then(|()| RealDisk.rename_new(&partial, &path))
            .and_then(|()| RealDisk.sync_folder(&self.folder));
        if let Err(error) = made {
            // The key has sealed no backup.
            let _ = RealDisk.remove(&partial);
            return Err(of_io(&path)(error).into());
        }
        Ok(key)
    }

    fn path(&self, period: Period) -> PathBuf {
        self.folder.join(format!("{period}{ENDING}"))
    }
}

/// Creates a folder with mode 0700 if it is missing, durably, and checks that this process may
/// write to it. Returns its absolute path, without links.
///
/// # Errors
/// [`StoreError::Backups`], which names the folder.
pub fn make_folder(folder: &Path) -> Result<PathBuf, StoreError> {
    if !folder.exists() {
        RealDisk.make_folder(folder).map_err(of_io(folder))?;
        let parent = folder.parent().filter(|parent| !parent.as_os_str().is_empty());
        let parent = parent.unwrap_or(Path::new("."));
        RealDisk.sync_folder(parent).map_err(of_io(parent))?;
    }
    // If the path is a file, this fails.
    let within = folder.join(".");
    rustix::fs::access(&within, rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK)
        .map_err(|error| of_io(folder)(error.into()))?;
    RealDisk.canonical(folder).map_err(of_io(folder))
}

/// Returns whether a folder, which need not exist yet, is the same as another one or within it.
/// Compares the folders themselves, so names and links do not matter.
///
/// # Errors
/// A folder that cannot be inspected.
pub fn is_within(folder: &Path, other: &Path) -> Result<bool, StoreError> {
    let Ok(wanted) = fs::metadata(other) else { return Ok(false) };
    let wanted = (wanted.dev(), wanted.ino());
    // The existing part of the path.
    let mut there = std::path::absolute(folder).map_err(of_io(folder))?;
    while !there.exists() && there.pop() {}
    let there = RealDisk.canonical(&there).map_err(of_io(folder))?;
    for above in there.ancestors() {
        let is = fs::metadata(above).map_err(of_io(above))?;
        if (is.dev(), is.ino()) == wanted {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Reads a key file; `None` if it was overwritten.
fn of_file(path: &Path) -> Result<Option<Zeroizing<String>>, StoreError> {
    let file = RealDisk.open(path, Access::Read).map_err(of_io(path))?;
    let mut bytes = Zeroizing::new(vec![0; FILE_MAX]);
    let len = read_full(&*file, &mut bytes, 0).map_err(of_io(path))?;
    let bytes = bytes.get(..len).unwrap_or_default();
    if !bytes.is_empty() && bytes.iter().all(|&byte| byte == 0) {
        return Ok(None);
    }
    // A file that is not UTF-8 is not a key.
    Ok(Some(Zeroizing::new(std::str::from_utf8(bytes).unwrap_or_default().to_owned())))
}

fn refused(path: &Path, reason: &str) -> StoreError {
    StoreError::Backup { at: shown(path), reason: reason.to_owned() }
}

/// Returns the first four bytes of a SHA-256 in hexadecimal.
fn checksum(text: &str) -> String {
    digits(&Sha256::digest(text)[..4])
}

pub(super) fn shown(path: &Path) -> String {
    format!("`{}`", path.display())
}

/// Converts an I/O error about a file.
pub(super) fn of_io(path: &Path) -> impl Fn(std::io::Error) -> StoreError {
    move |error| match error.kind() {
        std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => {
            StoreError::Backups(format!("the disk has no room for `{}`", path.display()))
        }
        _ => StoreError::Backups(format!("`{}`: {error}", path.display())),
    }
}
