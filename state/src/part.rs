//! KEY.part: the saved progress of a key generation, which allows resuming it after an
//! interruption.
//!
//! ```text
//!   KEY.part    magic | number | name of the witness | secret, as KEY has it | row | HMAC-SHA-256      never signs
//!   witness     where anchors are, with the number                          without it KEY.part makes no key
//!
//!   save        witness, synced > KEY.part.new, synced > KEY.part                 again and again
//!   end         witness gone, synced > KEY.part gone, synced > KEY                once
//! ```
//!
//! A key that is generated twice would use each index twice. Therefore only the process that
//! removes the witness creates the key: a copy of KEY.part, one restored from a backup, or a second
//! process cannot.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gabion_engine::Error;
use gabion_engine::keys::stateful::LedgerError;
use hmac::Mac;
use zeroize::Zeroizing;

use crate::anchor::{Anchor, FileAnchor};
use crate::files::{
    Environment, Paths, anchor_names, anchor_paths, failed, folder_of, temporary_path,
    unsafe_state, write_file,
};
use crate::key_file::{KeyFile, Secret};
use crate::record::{KeyId, Lifecycle, Mark, Reader};
use crate::sets::{Encoding, Sets};
use crate::trees::mac_under;

const MAGIC: [u8; 8] = *b"gabpart1";
/// The label under which KEY.part is authenticated with the secret.
const LABEL: &[u8] = b"gabion part";
/// Length in bytes of the authentication tag.
const TAG: usize = 32;

/// The saved progress of a key generation.
pub struct Part {
    environment: Environment,
    paths: Paths,
    /// A random id of the key, used until its public key is known.
    number: KeyId,
    /// The path of the witness; empty for the default place.
    name: String,
    witness: PathBuf,
    /// The witness, once progress has been saved; locked, so that only one process continues.
    held: Option<FileAnchor>,
}

impl Part {
    pub fn new(
        environment: &Environment,
        paths: Paths,
        anchors: &[PathBuf],
    ) -> Result<Self, Error> {
        let mut number = [0; 32];
        environment.entropy.fill(&mut number)?;
        let mut name = anchor_names(anchors)?.swap_remove(0);
        if !name.is_empty() {
            name.push_str(".part");
        }
        let witness = witness_of(environment, &name, &number)?;
        Ok(Part { environment: environment.clone(), paths, number, name, witness, held: None })
    }

    /// Opens KEY.part, if it can be resumed.
    pub fn open(
        environment: &Environment,
        paths: Paths,
        bytes: &[u8],
        sets: &Sets,
        passphrase: Option<&[u8]>,
    ) -> Result<(Secret, Vec<u8>, Self), Error> {
        let refused = |reason: &str| {
            let begin = "remove it to begin anew";
            Error::KeyFile(format!("{}: {reason}; {begin}", paths.part.display()))
        };
        let fields = Fields::of(bytes).ok_or_else(|| refused("it is damaged"))?;
        let file = KeyFile::decode(fields.file).map_err(refused)?;
        let secret = file.unlock(passphrase).map_err(|error| match error {
            Error::KeyFile(reason) => refused(&reason),
            error => error,
        })?;
        let mac = mac_under(LABEL, &secret.encode()).chain_update(fields.said);
        if mac.verify_slice(fields.tag).is_err() {
            return Err(refused("it is damaged"));
        }
        if secret.sets() != *sets {
            let of = secret.sets();
            return Err(refused(&format!("a key of {of} was begun, and not one of {sets}")));
        }
        let (number, name) = (fields.number, fields.name.to_owned());
        let witness = witness_of(environment, &name, &number)?;
        let mut held = FileAnchor::new(Arc::clone(&environment.disk), witness.clone());
        let at = |error: io::Error| failed(&witness, &error);
        if !held.hold().map_err(at)? {
            return Err(LedgerError::Held("a process that makes it".to_owned()).into());
        }
        if held.read().map_err(at)?.is_none_or(|mark| mark.key != number) {
            return Err(unsafe_state(&paths.part, NO_WITNESS).into());
        }
        let row = fields.row.to_vec();
        let (environment, held) = (environment.clone(), Some(held));
        Ok((secret, row, Part { environment, paths, number, name, witness, held }))
    }

    /// Saves the progress durably. `file` is the secret in the form of KEY, encrypted if the key
    /// is.
    pub fn save(
        &mut self,
        secret: &Secret,
        file: &mut Option<Zeroizing<Vec<u8>>>,
        passphrase: Option<&[u8]>,
        row: &[u8],
    ) -> Result<(), Error> {
        if file.is_none() {
            let entropy = &*self.environment.entropy;
            *file = Some(KeyFile::encode(secret, &[], Encoding::Hss, passphrase, entropy)?);
        }
        let file = file.as_ref().map_or(&[][..], |file| file);
        let mut bytes = Zeroizing::new(Vec::with_capacity(256 + file.len() + row.len()));
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&self.number);
        for field in [self.name.as_bytes(), file, row] {
            bytes.extend_from_slice(&(field.len() as u64).to_be_bytes());
            bytes.extend_from_slice(field);
        }
        let tag = mac_under(LABEL, &secret.encode()).chain_update(&*bytes).finalize();
        bytes.extend_from_slice(&tag.into_bytes());
        Ok(self.write(&bytes)?)
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), LedgerError> {
        let disk = &*self.environment.disk;
        let at = |error: io::Error| failed(&self.paths.part, &error);
        if self.held.is_some() {
            return write_file(disk, &self.paths.part, bytes, true).map_err(at);
        }
        let at_witness = |error: io::Error| failed(&self.witness, &error);
        let mark = Mark {
            key: self.number,
            generation: 1,
            stamp: [0; 16],
            next: 0,
            lifecycle: Lifecycle::Active,
        };
        FileAnchor::create(disk, &self.witness, &mark).map_err(at_witness)?;
        let mut held = FileAnchor::new(Arc::clone(&self.environment.disk), self.witness.clone());
        let written = held.hold().map_err(at_witness).and_then(|_| {
            write_file(disk, &self.paths.part, bytes, false).map_err(|error| match error.kind() {
                ErrorKind::AlreadyExists => LedgerError::Held("a process that makes it".to_owned()),
                _ => at(error),
            })
        });
        match written {
            Ok(()) => self.held = Some(held),
            Err(_) => {
                let _ = disk.remove(&self.witness);
            }
        }
        written
    }

    /// Returns whether progress was saved.
    pub fn is_begun(&self) -> bool {
        self.held.is_some()
    }

    /// Removes the saved progress durably; called just before the private key is created.
    pub fn end(&self) -> Result<(), LedgerError> {
        if !self.is_begun() {
            return Ok(());
        }
        let disk = &*self.environment.disk;
        let (part, folder) = (&self.paths.part, self.paths.folder());
        let at = |path: &Path| {
            let path = path.to_owned();
            move |error: io::Error| failed(&path, &error)
        };
        disk.remove(&self.witness).map_err(|error| match error.kind() {
            ErrorKind::NotFound => unsafe_state(part, NO_WITNESS),
            _ => failed(&self.witness, &error),
        })?;
        let place = folder_of(&self.witness);
        disk.sync_folder(place).map_err(at(place))?;
        // The temporary file contains the secret, too.
        let new = temporary_path(part);
        if disk.identity(&new).is_ok() {
            disk.remove(&new).map_err(at(&new))?;
        }
        disk.remove(part).map_err(at(part))?;
        disk.sync_folder(folder).map_err(at(folder))
    }
}

const NO_WITNESS: &str =
    "its witness is missing: the key was finished, or this is a copy; remove it to begin anew";

fn witness_of(
    environment: &Environment,
    name: &str,
    number: &KeyId,
) -> Result<PathBuf, LedgerError> {
    let mut paths = anchor_paths(&*environment.machine, &[name.to_owned()], number, 0)?;
    Ok(paths.swap_remove(0))
}

/// The fields of KEY.part.
struct Fields<'a> {
    number: KeyId,
    name: &'a str,
    file: &'a [u8],
    row: &'a [u8],
    said: &'a [u8],
    tag: &'a [u8],
}

impl<'a> Fields<'a> {
    /// Parses the fields, which are not authenticated yet. Returns `None` if they are malformed.
    fn of(bytes: &'a [u8]) -> Option<Self> {
        let (said, tag) = bytes.split_at_checked(bytes.len().checked_sub(TAG)?)?;
        let mut reader = Reader(said);
        if reader.array()? != MAGIC {
            return None;
        }
        let number = reader.array()?;
        let mut field = || {
            let len = usize::try_from(reader.u64()?).ok()?;
            reader.bytes(len)
        };
        let (name, file, row) = (std::str::from_utf8(field()?).ok()?, field()?, field()?);
        reader.0.is_empty().then_some(Fields { number, name, file, row, said, tag })
    }
}
