//! Key generation with saved progress, which can be resumed after an interruption.
//!
//! ```text
//!   ResumableKey       KEY.part                                   one tree
//!   ResumableSectors   KEY-0.part, KEY-1.part ..                  a seed, a row and a witness for each sector;
//!                                                                  they have I in common
//! ```

use std::io::ErrorKind;
use std::num::NonZero;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use gabion_engine::keys::stateful::Progress;
use gabion_engine::keys::stateful::hss::{draw_sectors, generate_sectors};
use gabion_engine::{Engine, Error};
use zeroize::Zeroizing;

use crate::files::{Environment, Paths, failed, read_file};
use crate::key_file::Secret;
use crate::part::Part;
use crate::sets::Sets;
use crate::signer::{GeneratedKey, build_key, draw_secret};

/// Maximum size of a progress file in bytes: a row of 2^16 nodes, and more.
const PART_MAX: u64 = 16 << 20;

/// A key generation that can be resumed after an interruption.
pub struct ResumableKey {
    secret: Secret,
    row: Vec<u8>,
    passphrase: Option<Zeroizing<Vec<u8>>>,
    part: Part,
}

impl ResumableKey {
    /// Resumes an interrupted generation of the key, or starts a new one with these sets. The
    /// witness is stored where the anchors will be.
    ///
    /// # Errors
    /// - [`Error::KeyFile`] if the saved progress is damaged, has other sets, or does not open with
    ///   the passphrase.
    /// - [`Error::Ledger`] if it is a copy, or another process is using it.
    /// - [`Error::Entropy`].
    pub fn begin(
        environment: &Environment,
        key: &Path,
        sets: &Sets,
        passphrase: Option<&[u8]>,
        anchors: &[PathBuf],
    ) -> Result<Self, Error> {
        let paths = paths_of(key)?;
        let (secret, row, part) = match find_progress(environment, &paths, sets, passphrase)? {
            Some(left) => left,
            None => (
                draw_secret(environment, sets)?,
                Vec::new(),
                Part::new(environment, paths, anchors)?,
            ),
        };
        Ok(ResumableKey { secret, row, passphrase: passphrase.map(copy_passphrase), part })
    }

    /// Returns whether an interrupted generation is resumed.
    pub fn is_resumed(&self) -> bool {
        self.part.is_begun()
    }

    /// Generates the key on up to `threads` threads, saving the progress periodically. Returns
    /// `None` if `watch` stops it, after saving the progress.
    ///
    /// # Errors
    /// Fails like [`GeneratedKey::generate`]; if the progress cannot be saved.
    pub fn generate(
        self,
        engine: &'static Engine,
        threads: NonZero<usize>,
        every: Duration,
        watch: &mut dyn FnMut(Progress<'_>) -> ControlFlow<()>,
    ) -> Result<Option<GeneratedKey>, Error> {
        let ResumableKey { secret, row, passphrase, mut part } = self;
        let (mut last, mut file, mut outcome) = (Instant::now(), None, Ok(()));
        let mut saves = |progress: Progress<'_>| {
            let said = watch(progress);
            let is_between = 0 < progress.done && progress.done < progress.all;
            if said.is_continue() && !(is_between && last.elapsed() >= every) {
                return said;
            }
            let passphrase = passphrase.as_ref().map(|passphrase| &passphrase[..]);
            outcome = part.save(&secret, &mut file, passphrase, progress.row);
            last = Instant::now();
            if outcome.is_err() { ControlFlow::Break(()) } else { said }
        };
        let key = build_key(engine, &secret, &row, threads, &mut saves)?;
        outcome?;
        Ok(key.map(|key| GeneratedKey::from_parts(secret, key, Some(part))))
    }
}

/// The generation of a key in sectors, which can be resumed after an interruption.
pub struct ResumableSectors {
    secrets: Vec<Secret>,
    rows: Vec<Vec<u8>>,
    passphrase: Option<Zeroizing<Vec<u8>>>,
    parts: Vec<Part>,
}

impl ResumableSectors {
    /// Resumes the interrupted generation of sectors with these names and anchors, and starts new
    /// ones for the others. All are sectors of one LMS key, and their number is a power of two.
    ///
    /// # Errors
    /// Fails like [`ResumableKey::begin`]; [`Error::KeyFile`] if the saved progress belongs to
    /// different keys, or the sets are not those of one LMS tree; [`Error::Input`] if such sectors
    /// do not exist.
    pub fn begin(
        environment: &Environment,
        keys: &[(PathBuf, Vec<PathBuf>)],
        sets: &Sets,
        passphrase: Option<&[u8]>,
    ) -> Result<Self, Error> {
        let Sets::Hss(levels) = sets else {
            return Err(Error::KeyFile("there are sectors of keys of LMS alone".to_owned()));
        };
        let count = u32::try_from(keys.len()).unwrap_or(u32::MAX);
        let (mut known, mut rows, mut parts) = (Vec::new(), Vec::new(), Vec::new());
        let mut id = None;
        for (number, (key, anchors)) in (0..count).zip(keys) {
            let sector = Sets::Hss(levels.clone().sector(count, number, &[])?);
            let paths = paths_of(key)?;
            let part = paths.part.clone();
            match find_progress(environment, &paths, &sector, passphrase)? {
                Some((Secret::Hss(secret), row, left)) => {
                    if *id.get_or_insert(*secret.id()) != *secret.id() {
                        return Err(Error::KeyFile(format!(
                            "{}: it is of another key than the sectors before it; remove it to begin it anew",
                            part.display()
                        )));
                    }
                    known.push(Some(secret));
                    rows.push(row);
                    parts.push(left);
                }
                _ => {
                    known.push(None);
                    rows.push(Vec::new());
                    parts.push(Part::new(environment, paths, anchors)?);
                }
            }
        }
        let secrets = draw_sectors(levels, count, &*environment.entropy, known)?;
        let secrets = secrets.into_iter().map(Secret::Hss).collect();
        Ok(ResumableSectors { secrets, rows, passphrase: passphrase.map(copy_passphrase), parts })
    }

    /// Returns whether an interrupted generation is resumed.
    pub fn is_resumed(&self) -> bool {
        self.parts.iter().any(Part::is_begun)
    }

    /// Generates the sectors one after the other on up to `threads` threads, saving the progress
    /// periodically. Returns `None` if `watch` stops it. The progress passed to `watch` covers all
    /// sectors as if they were one tree.
    ///
    /// # Errors
    /// Fails like [`ResumableKey::generate`].
    pub fn generate(
        self,
        engine: &'static Engine,
        threads: NonZero<usize>,
        every: Duration,
        watch: &mut dyn FnMut(Progress<'_>) -> ControlFlow<()>,
    ) -> Result<Option<Vec<GeneratedKey>>, Error> {
        let ResumableSectors { secrets, rows, passphrase, mut parts } = self;
        let count = secrets.len() as u32;
        let mut saved: Vec<usize> = rows.iter().map(Vec::len).collect();
        // Finished sectors that are not saved yet.
        let mut waiting: Vec<(usize, Vec<u8>)> = Vec::new();
        let (mut last, mut outcome) = (Instant::now(), Ok(()));
        let mut saves = |number: usize, progress: Progress<'_>| {
            let Progress { done, all, row } = progress;
            let before = all * number as u32;
            let said = watch(Progress { done: before + done, all: all * count, row });
            let is_first = number == 0 && done == 0;
            let is_last = before + done == all * count;
            if said.is_continue() && (is_first || is_last || last.elapsed() < every) {
                if done == all && row.len() > saved[number] {
                    waiting.push((number, row.to_vec()));
                }
                return said;
            }
            waiting.push((number, row.to_vec()));
            for (number, row) in waiting.drain(..) {
                // A sector that is stopped before it makes progress counts as started, like a
                // single tree.
                let is_begun = parts[number].is_begun() || said.is_continue();
                if row.len() <= saved[number] && is_begun {
                    continue;
                }
                let passphrase = passphrase.as_ref().map(|passphrase| &passphrase[..]);
                outcome = parts[number].save(&secrets[number], &mut None, passphrase, &row);
                if outcome.is_err() {
                    return ControlFlow::Break(());
                }
                saved[number] = row.len();
            }
            last = Instant::now();
            said
        };
        let of_hss = secrets.iter().filter_map(|secret| match secret {
            Secret::Hss(secret) => Some(secret),
            Secret::Xmss(_) => None,
        });
        let made =
            generate_sectors(engine, &of_hss.collect::<Vec<_>>(), rows, threads, &mut saves)?;
        outcome?;
        let with_part = |((secret, key), part)| {
            GeneratedKey::from_parts(Secret::Hss(secret), Box::new(key), Some(part))
        };
        Ok(made.map(|made| made.into_iter().zip(parts).map(with_part).collect()))
    }
}

fn copy_passphrase(passphrase: &[u8]) -> Zeroizing<Vec<u8>> {
    Zeroizing::new(passphrase.to_vec())
}

/// Returns the files of a key to create, independent of later changes of the working directory.
fn paths_of(key: &Path) -> Result<Paths, Error> {
    let key = std::path::absolute(key).map_err(|error| failed(key, &error))?;
    Ok(Paths::new(&key))
}

/// Returns the saved progress of a key with these files and sets.
fn find_progress(
    environment: &Environment,
    paths: &Paths,
    sets: &Sets,
    passphrase: Option<&[u8]>,
) -> Result<Option<(Secret, Vec<u8>, Part)>, Error> {
    match read_file(&*environment.disk, &paths.part, PART_MAX) {
        Ok(bytes) => Part::open(environment, paths.clone(), &bytes, sets, passphrase).map(Some),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed(&paths.part, &error).into()),
    }
}
