//! The format of backup files.
//!
//! ```text
//!   "gabionkb"  format 4  store 16  incarnation 8  revision 8  records 8  created_ms 8  period 4+8+8  salt 32     in clear
//!   chunks of 64 KiB and 16 bytes, the last one shorter      AES-256-GCM-SIV; nonce: seven zeros, number, whether it is the last
//! ```
//!
//! Numbers are little-endian, except in nonces. Each file has its own key, HKDF-SHA-256 of the
//! period's key, the salt and the whole head, so that nonces can count from zero (STREAM: Hoang,
//! Reyhanitabar, Rogaway, Vizár, 2015).

use std::path::{Path, PathBuf};

use aes_gcm_siv::aead::Aead;
use aes_gcm_siv::{Aes256GcmSiv, KeyInit, Nonce};
use gabion_disk::{Access, Disk, DiskFile, RealDisk, read_full, write_all};
use gabion_engine::{Entropy, OsEntropy};
use hkdf::Hkdf;
use sha2::Sha256;
use zeroize::Zeroizing;

use super::periods::{Period, PeriodKey, of_io, shown};
use crate::error::Error;
use crate::store::{
    BackupCopy, Head, Identity, NumberedRecord, Record, RecordPath, Revision, SqliteStore,
    StoreError,
};

/// The first bytes of a file.
const MAGIC: &[u8; 8] = b"gabionkb";

/// The format that this program writes.
const FORMAT: u32 = 1;

/// The size of the head in bytes.
const HEAD: usize = 8 + 4 + 16 + 4 * 8 + 20 + SALT;

const SALT: usize = 32;

/// The size of a chunk's plaintext, and of the tag that sealing adds, in bytes.
const CHUNK: usize = 64 << 10;
const TAG: usize = 16;

/// The maximum sizes of a path and of a value in bytes: those of stores.
const PATH_MAX: usize = crate::store::PATH_MAX;
const VALUE_MAX: usize = 1 << 20;

/// The head of a backup, which is in clear. It is authenticated only when the backup is read with
/// its period's key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backup {
    /// The identity of the store.
    pub store: Identity,
    /// The store's revision.
    pub revision: u64,
    /// The number of records ever created in the store.
    pub records: u64,
    /// The creation time in milliseconds since 1970, by a clock that may be wrong.
    pub created_ms: u64,
    /// The period whose key seals the backup.
    pub period: Period,
    salt: [u8; SALT],
}

impl Backup {
    /// Reads the head of a file; `None` if the file is not a backup of this kind.
    ///
    /// # Errors
    /// A truncated backup, or one of a newer program; a file that cannot be read.
    pub fn read(path: &Path) -> Result<Option<Self>, StoreError> {
        let file = RealDisk.open(path, Access::Read).map_err(of_io(path))?;
        Self::of_file(path, &*file)
    }

    fn of_file(path: &Path, file: &dyn DiskFile) -> Result<Option<Self>, StoreError> {
        let mut head = [0; HEAD];
        let len = read_full(file, &mut head, 0).map_err(of_io(path))?;
        if !head.starts_with(MAGIC) {
            return Ok(None);
        }
        if len < HEAD {
            return Err(damaged(path, "it ends within its head"));
        }
        Self::of(path, &head).map(Some)
    }

    fn of(path: &Path, head: &[u8; HEAD]) -> Result<Self, StoreError> {
        let mut rest = &head[MAGIC.len()..];
        let cut = || damaged(path, "it ends within its head");
        let format = u32::from_le_bytes(part(&mut rest).ok_or_else(cut)?);
        if format > FORMAT {
            let (wanted, has) = (format.into(), FORMAT.into());
            return Err(StoreError::TooOld { what: "read", wanted, has });
        }
        let mut read = || {
            let id = part(&mut rest)?;
            let mut number = || part(&mut rest).map(u64::from_le_bytes);
            let [incarnation, revision, records, created_ms] =
                [number()?, number()?, number()?, number()?];
            let period = Period {
                number: u32::from_le_bytes(part(&mut rest)?),
                from_ms: u64::from_le_bytes(part(&mut rest)?),
                id: part(&mut rest)?,
            };
            let store = Identity { id, incarnation };
            Some(Backup { store, revision, records, created_ms, period, salt: part(&mut rest)? })
        };
        read().filter(|_| format == FORMAT).ok_or_else(|| damaged(path, "its format is unknown"))
    }

    fn head(&self) -> Vec<u8> {
        let Backup { store, revision, records, created_ms, period, salt } = self;
        let mut head = Vec::with_capacity(HEAD);
        head.extend_from_slice(MAGIC);
        head.extend_from_slice(&FORMAT.to_le_bytes());
        head.extend_from_slice(&store.id);
        for number in [store.incarnation, *revision, *records, *created_ms] {
            head.extend_from_slice(&number.to_le_bytes());
        }
        head.extend_from_slice(&period.number.to_le_bytes());
        head.extend_from_slice(&period.from_ms.to_le_bytes());
        head.extend_from_slice(&period.id);
        head.extend_from_slice(salt);
        head
    }

    /// Opens the content after the head with the period's key.
    fn opening<'a>(
        &self,
        path: &'a Path,
        file: &'a dyn DiskFile,
        key: &PeriodKey,
    ) -> Result<BackupOpener<'a>, Error> {
        if key.period() != self.period || key.store() != self.store.id {
            let reason = format!(
                "it belongs to period {}, and the key to period {}",
                self.period,
                key.period()
            );
            return Err(StoreError::Backup { at: shown(path), reason }.into());
        }
        // SQLite's integers are signed, and a restored store increments its incarnation.
        let numbers = [self.store.incarnation.saturating_add(1), self.revision, self.records];
        if numbers.iter().any(|&number| i64::try_from(number).is_err()) {
            return Err(damaged(path, "its head has an impossible count").into());
        }
        Ok(BackupOpener::new(path, file, self.cipher(key)?, self.records)?)
    }

    /// Returns the cipher of the file's chunks.
    fn cipher(&self, key: &PeriodKey) -> Result<Aes256GcmSiv, Error> {
        let mut file = Zeroizing::new([0; 32]);
        let hkdf = Hkdf::<Sha256>::new(Some(&self.salt), key.bytes()?);
        let info = [&b"gabion kms backup "[..], &self.head()].concat();
        let lost = || Error::Engine(gabion_engine::Error::Lost);
        hkdf.expand(&info, &mut file[..]).map_err(|_| lost())?;
        Aes256GcmSiv::new_from_slice(&file[..]).map_err(|_| lost())
    }
}

/// A written backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrittenBackup {
    /// The revision of the backup.
    pub revision: u64,
}

/// Writes a backup of the store's current revision to a new file in a folder. Other calls read and
/// commit meanwhile; another backup of the store waits. The file gets its name when it is complete
/// and durable. On failure nothing is left.
///
/// # Errors
/// [`StoreError::Exists`]; [`StoreError::Outrun`]; errors of the store; a folder that is full or in
/// which another process writes a backup of the store; a key of another store.
pub fn write(
    store: &SqliteStore,
    folder: &Path,
    name: &str,
    key: &PeriodKey,
    now_ms: u64,
) -> Result<WrittenBackup, Error> {
    write_on(&RealDisk, store, folder, name, key, now_ms)
}

/// Writes a backup like [`write()`], to a disk that the caller provides.
///
/// # Errors
/// Those of [`write()`].
pub fn write_on(
    disk: &dyn Disk,
    store: &SqliteStore,
    folder: &Path,
    name: &str,
    key: &PeriodKey,
    now_ms: u64,
) -> Result<WrittenBackup, Error> {
    use crate::store::Store;
    let identity = store.identity();
    if key.store() != identity.id {
        let why = format!("the key of period {} belongs to another store", key.period());
        return Err(StoreError::Backups(why).into());
    }
    let path = folder.join(name);
    if disk.identity(&path).is_ok() {
        return Err(StoreError::Exists(path.display().to_string()).into());
    }
    let copying = store.copying();
    // The name is fixed, so that the next backup replaces a file that a crash left.
    let partial = folder.join(format!("{}.backup-partial", crate::text::hex(&identity.id)));
    let file = begun(disk, &partial)?;
    let mut is_named = false;
    let written = write_partial(&copying, (&*file, &partial), key, now_ms).and_then(|written| {
        check_ours(disk, &*file, &partial)?;
        // Fails if the file exists.
        disk.rename_new(&partial, &path).map_err(|error| match error.kind() {
            std::io::ErrorKind::AlreadyExists => StoreError::Exists(path.display().to_string()),
            _ => of_io(&path)(error),
        })?;
        is_named = true;
        disk.sync_folder(folder).map_err(of_io(folder))?;
        Ok(written)
    });
    if written.is_err() {
        removed(disk, &*file, if is_named { &path } else { &partial });
    }
    let _ = file.unlock();
    written
}

/// Creates the temporary file of a backup, in place of one that a crash left. Does not disturb
/// another process that writes one.
fn begun(disk: &dyn Disk, partial: &Path) -> Result<Box<dyn DiskFile>, StoreError> {
    match disk.open(partial, Access::Write) {
        Ok(left) => {
            if !left.try_lock().map_err(of_io(partial))? {
                return Err(another(partial));
            }
            disk.remove(partial).map_err(of_io(partial))?;
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => return Err(of_io(partial)(error)),
    }
    let file = disk.open(partial, Access::New).map_err(of_io(partial))?;
    match file.try_lock() {
        Ok(true) => match check_ours(disk, &*file, partial) {
            Ok(()) => Ok(file),
            Err(error) => {
                removed(disk, &*file, partial);
                Err(error)
            }
        },
        // Another process took it for a file that a crash left, and removes it.
        Ok(false) => Err(another(partial)),
        Err(error) => {
            let _ = disk.remove(partial);
            Err(of_io(partial)(error))
        }
    }
}

/// Checks that a path still names the open file.
fn check_ours(disk: &dyn Disk, file: &dyn DiskFile, path: &Path) -> Result<(), StoreError> {
    let (ours, found) = (file.identity().map_err(of_io(path))?, disk.identity(path));
    match found.map_err(of_io(path))? == ours {
        true => Ok(()),
        false => Err(another(path)),
    }
}

/// Removes an incomplete file, if the path still names it.
fn removed(disk: &dyn Disk, file: &dyn DiskFile, path: &Path) {
    if check_ours(disk, file, path).is_ok() {
        let _ = disk.remove(path);
    }
}

fn another(path: &Path) -> StoreError {
    StoreError::Backups(format!("another process writes a backup to {}", shown(path)))
}

fn write_partial(
    copying: &BackupCopy<'_>,
    (file, partial): (&dyn DiskFile, &Path),
    key: &PeriodKey,
    now_ms: u64,
) -> Result<WrittenBackup, Error> {
    let mut salt = [0; SALT];
    OsEntropy.fill(&mut salt).map_err(gabion_engine::Error::from)?;
    let sealing = std::cell::RefCell::new(None);
    let mut failure = None;
    let mut revision = 0;
    let mut begin = |head: &Head| {
        revision = head.revision.0;
        let backup = Backup {
            store: head.identity,
            revision,
            records: head.records,
            created_ms: now_ms,
            period: key.period(),
            salt,
        };
        let cipher = backup.cipher(key).map_err(|error| {
            let why = StoreError::Unavailable(error.to_string());
            failure = Some(error);
            why
        })?;
        let mut new = BackupSealer::new(partial, file, cipher, &backup.head())?;
        new.put(&head.min_writer.to_le_bytes())?;
        *sealing.borrow_mut() = Some(new);
        Ok(())
    };
    let mut take = |record: &NumberedRecord| match &mut *sealing.borrow_mut() {
        Some(sealing) => sealing.record(record),
        None => Err(StoreError::Unavailable("a record before its store".to_owned())),
    };
    let read = copying.read_out(&mut begin, &mut take);
    if let Some(error) = failure {
        return Err(error);
    }
    read?;
    if let Some(sealing) = sealing.into_inner() {
        sealing.end()?;
    }
    file.sync().map_err(of_io(partial))?;
    Ok(WrittenBackup { revision })
}

/// Restores a store from a backup with its period's key, as the next incarnation of the same store.
/// On failure no store is left.
///
/// # Errors
/// [`StoreError::Exists`]; a damaged backup, or a key of another period; errors of the disk.
pub fn restore(backup: &Path, key: &PeriodKey, to: &Path) -> Result<(), Error> {
    let file = RealDisk.open(backup, Access::Read).map_err(of_io(backup))?;
    let said = Backup::of_file(backup, &*file)?;
    let said = said.ok_or_else(|| damaged(backup, "it is not a backup"))?;
    let mut opening = said.opening(backup, &*file, key)?;
    let min_writer = u64::from_le_bytes(opening.array()?);
    let (identity, revision) = (said.store, Revision(said.revision));
    let head = Head { identity, min_writer, revision, records: said.records };
    let made = SqliteStore::read_in(to, &head, &mut || opening.record());
    Ok(made.map_err(|error| match error {
        StoreError::Malformed(why) => damaged(backup, why),
        error => error,
    })?)
}

/// Verifies a whole backup with its period's key, without restoring it. Returns the number of its
/// records.
///
/// # Errors
/// Those of [`restore`].
pub fn check(disk: &dyn Disk, backup: &Path, key: &PeriodKey) -> Result<u64, Error> {
    let file = disk.open(backup, Access::Read).map_err(of_io(backup))?;
    let said = Backup::of_file(backup, &*file)?;
    let said = said.ok_or_else(|| damaged(backup, "it is not a backup"))?;
    let mut opening = said.opening(backup, &*file, key)?;
    opening.array::<8>()?;
    let mut count = 0;
    while opening.record()?.is_some() {
        count += 1;
    }
    Ok(count)
}

/// Seals arbitrary bytes as a backup, to test what a holder of the period's key could forge.
///
/// # Errors
/// No memory; a full disk.
#[doc(hidden)]
pub fn testing_only_sealed(
    disk: &dyn Disk,
    path: &Path,
    key: &PeriodKey,
    [incarnation, revision, records]: [u64; 3],
    plain: &[u8],
) -> Result<(), Error> {
    let store = Identity { id: key.store(), incarnation };
    let (created_ms, period, salt) = (0, key.period(), [0; SALT]);
    let backup = Backup { store, revision, records, created_ms, period, salt };
    let file = disk.open(path, Access::New).map_err(of_io(path))?;
    let mut sealing = BackupSealer::new(path, &*file, backup.cipher(key)?, &backup.head())?;
    sealing.put(plain)?;
    Ok(sealing.chunk(true)?)
}

/// A writer that seals bytes chunk by chunk.
struct BackupSealer<'a> {
    path: &'a Path,
    file: &'a dyn DiskFile,
    offset: u64,
    cipher: Aes256GcmSiv,
    chunks: u32,
    plain: Zeroizing<Vec<u8>>,
}

impl<'a> BackupSealer<'a> {
    fn new(
        path: &'a Path,
        file: &'a dyn DiskFile,
        cipher: Aes256GcmSiv,
        head: &[u8],
    ) -> Result<Self, StoreError> {
        write_all(file, head, 0).map_err(of_io(path))?;
        let plain = Zeroizing::new(Vec::with_capacity(CHUNK));
        Ok(BackupSealer { path, file, offset: head.len() as u64, cipher, chunks: 0, plain })
    }

    fn put(&mut self, mut bytes: &[u8]) -> Result<(), StoreError> {
        while !bytes.is_empty() {
            // A full chunk is sealed only when more bytes follow, because the last chunk is marked.
            if self.plain.len() == CHUNK {
                self.chunk(false)?;
            }
            let (now, later) = bytes.split_at(bytes.len().min(CHUNK - self.plain.len()));
            self.plain.extend_from_slice(now);
            bytes = later;
        }
        Ok(())
    }

    fn record(
        &mut self,
        NumberedRecord { number, path, record }: &NumberedRecord,
    ) -> Result<(), StoreError> {
        let path = path.as_str().as_bytes();
        self.put(&number.to_le_bytes())?;
        self.put(&(path.len() as u32).to_le_bytes())?;
        self.put(path)?;
        self.put(&record.generation.to_le_bytes())?;
        match &record.value {
            None => self.put(&[0]),
            Some(value) => {
                self.put(&[1])?;
                self.put(&(value.len() as u32).to_le_bytes())?;
                self.put(value)
            }
        }
    }

    fn end(mut self) -> Result<(), StoreError> {
        // An end marker: no record has this number.
        self.put(&0_u64.to_le_bytes())?;
        self.chunk(true)
    }

    fn chunk(&mut self, is_last: bool) -> Result<(), StoreError> {
        let failed = |why: &str| StoreError::Backups(format!("{}: {why}", shown(self.path)));
        let sealed = self.cipher.encrypt(&nonce(self.chunks, is_last), &self.plain[..]);
        let sealed = sealed.map_err(|_| failed("cannot seal a chunk"))?;
        self.chunks =
            self.chunks.checked_add(1).ok_or_else(|| failed("a backup is limited to 256 TiB"))?;
        write_all(self.file, &sealed, self.offset).map_err(of_io(self.path))?;
        self.offset += sealed.len() as u64;
        self.plain.clear();
        Ok(())
    }
}

/// A reader that opens bytes chunk by chunk.
struct BackupOpener<'a> {
    path: &'a Path,
    file: &'a dyn DiskFile,
    offset: u64,
    cipher: Aes256GcmSiv,
    chunks: u32,
    plain: Zeroizing<Vec<u8>>,
    /// The number of bytes of the current chunk that were consumed.
    taken: usize,
    /// The next chunk, sealed; empty after the last one.
    next: Vec<u8>,
    /// The number of the last record that was read, and of the last possible one.
    last: u64,
    records: u64,
    is_ended: bool,
}

impl<'a> BackupOpener<'a> {
    fn new(
        path: &'a Path,
        file: &'a dyn DiskFile,
        cipher: Aes256GcmSiv,
        records: u64,
    ) -> Result<Self, StoreError> {
        let (plain, next) = (Zeroizing::default(), Vec::new());
        let mut opening = BackupOpener {
            path,
            file,
            offset: HEAD as u64,
            cipher,
            chunks: 0,
            plain,
            taken: 0,
            next,
            last: 0,
            records,
            is_ended: false,
        };
        opening.next = opening.sealed()?;
        Ok(opening)
    }

    fn sealed(&mut self) -> Result<Vec<u8>, StoreError> {
        let mut sealed = vec![0; CHUNK + TAG];
        let len = read_full(self.file, &mut sealed, self.offset).map_err(of_io(self.path))?;
        sealed.truncate(len);
        self.offset += len as u64;
        Ok(sealed)
    }

    fn chunk(&mut self) -> Result<(), StoreError> {
        let after = self.sealed()?;
        let sealed = std::mem::replace(&mut self.next, after);
        if sealed.is_empty() {
            return Err(damaged(self.path, "it ends within a record"));
        }
        let opened = self.cipher.decrypt(&nonce(self.chunks, self.next.is_empty()), &sealed[..]);
        self.plain = Zeroizing::new(opened.map_err(|_| {
            damaged(
                self.path,
                "it was modified, truncated or combined from other backups, or belongs to another key",
            )
        })?);
        self.taken = 0;
        self.chunks = self.chunks.wrapping_add(1);
        Ok(())
    }

    fn take(&mut self, mut out: &mut [u8]) -> Result<(), StoreError> {
        while !out.is_empty() {
            if self.taken == self.plain.len() {
                self.chunk()?;
            }
            let left = &self.plain[self.taken..];
            let len = left.len().min(out.len());
            let (now, later) = out.split_at_mut(len);
            now.copy_from_slice(&left[..len]);
            self.taken += len;
            out = later;
        }
        Ok(())
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], StoreError> {
        let mut bytes = [0; N];
        self.take(&mut bytes)?;
        Ok(bytes)
    }

    fn bytes(&mut self, most: usize) -> Result<Vec<u8>, StoreError> {
        let len = u32::from_le_bytes(self.array()?) as usize;
        if len > most {
            return Err(damaged(self.path, "a record is too long"));
        }
        let mut bytes = vec![0; len];
        self.take(&mut bytes)?;
        Ok(bytes)
    }

    fn record(&mut self) -> Result<Option<NumberedRecord>, StoreError> {
        if self.is_ended {
            return Ok(None);
        }
        let number = u64::from_le_bytes(self.array()?);
        if number == 0 {
            self.is_ended = true;
            return match self.taken == self.plain.len() && self.next.is_empty() {
                true => Ok(None),
                false => Err(damaged(self.path, "it has data after its end")),
            };
        }
        let wrong = || damaged(self.path, "it contains a malformed record");
        let path = self.bytes(PATH_MAX)?;
        let generation = u64::from_le_bytes(self.array()?);
        let value = match self.array()? {
            [0] => None,
            [1] => Some(self.bytes(VALUE_MAX)?),
            _ => return Err(wrong()),
        };
        let path = String::from_utf8(path).ok().and_then(|path| RecordPath::new(path).ok());
        let can_be = number > self.last
            && number <= self.records
            && generation > 0
            && i64::try_from(generation).is_ok();
        self.last = number;
        let path = path.filter(|_| can_be).ok_or_else(wrong)?;
        Ok(Some(NumberedRecord { number, path, record: Record { generation, value } }))
    }
}

/// Returns the nonce of a chunk.
fn nonce(chunk: u32, is_last: bool) -> Nonce {
    let mut nonce = [0; 12];
    nonce[7..11].copy_from_slice(&chunk.to_be_bytes());
    nonce[11] = u8::from(is_last);
    Nonce::from(nonce)
}

fn part<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (part, more) = rest.split_first_chunk::<N>()?;
    *rest = more;
    Some(*part)
}

fn damaged(path: &Path, reason: &str) -> StoreError {
    StoreError::Backup { at: shown(path), reason: reason.to_owned() }
}

/// The backups in a folder by name, and the names of those that are not sealed by a period's key.
type FoundBackups = (Vec<(String, Backup)>, Vec<String>);

/// Finding the backups of a store in a folder.
impl Backup {
    /// Returns the backups in a folder by name, and the names of unsealed ones from older programs.
    ///
    /// # Errors
    /// A folder or a file that cannot be read.
    pub fn all(folder: &Path) -> Result<FoundBackups, StoreError> {
        let (mut sealed, mut plain) = (Vec::new(), Vec::new());
        for entry in std::fs::read_dir(folder).map_err(of_io(folder))? {
            let path: PathBuf = entry.map_err(of_io(folder))?.path();
            let Some(name) = path.file_name().and_then(|name| name.to_str()) else { continue };
            if !name.ends_with(".backup") || !path.is_file() {
                continue;
            }
            match Self::read(&path) {
                Ok(Some(backup)) => sealed.push((name.to_owned(), backup)),
                Ok(None) => plain.push(name.to_owned()),
                // A damaged backup cannot be read with any key.
                Err(StoreError::Backup { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        sealed.sort_by(|one, other| one.0.cmp(&other.0));
        plain.sort();
        Ok((sealed, plain))
    }
}
