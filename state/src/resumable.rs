//! A key that is made with its progress written down, so that an interruption costs little.
//!
//! ```text
//!   ResumableKey       KEY.part                                   one tree
//!   ResumableSectors   KEY-0.part, KEY-1.part ..                  each sector has a seed, a row and a witness of its own;
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

/// Bytes of a file of progress, at most: a row of 2^16 nodes, and more.
const PART_MAX: u64 = 16 << 20;

/// The generation of a key, which can be resumed after an interruption.
pub struct ResumableKey {
    secret: Secret,
    row: Vec<u8>,
    passphrase: Option<Zeroizing<Vec<u8>>>,
    part: Part,
}

impl ResumableKey {
    /// What an interruption left of a key of this name, or a new one of these sets. Where its anchors are to be, its
    /// witness is.
    ///
    /// # Errors
    /// [`Error::KeyFile`] if what is left is damaged, of other sets, or does not open with the passphrase;
    /// [`Error::Ledger`] if it is a copy, or another process goes on with it; [`Error::Entropy`].
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

    /// Whether it goes on with what was left.
    pub fn is_resumed(&self) -> bool {
        self.part.is_begun()
    }

    /// Makes the key, on up to `threads` threads, and writes down how far it is, once in a while and where `watch`
    /// stops it: then the answer is `None`.
    ///
    /// # Errors
    /// As [`GeneratedKey::generate`]; if it can't be written down.
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
    /// What an interruption left of keys of these names, each with the anchors that it is to have, and new ones for the
    /// others: as many sectors of one key of LMS, a power of two.
    ///
    /// # Errors
    /// As [`ResumableKey::begin`]; [`Error::KeyFile`] if what is left is of several keys, or the sets are none of one tree of
    /// LMS; [`Error::Input`] if it has no such sectors.
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

    /// Whether it goes on with what was left.
    pub fn is_resumed(&self) -> bool {
        self.parts.iter().any(Part::is_begun)
    }

    /// Makes the keys, one sector after the other, on up to `threads` threads, and writes down how far they are, once in a
    /// while and where `watch` stops it: then the answer is `None`. `watch` hears of the sectors as of one tree.
    ///
    /// # Errors
    /// As [`ResumableKey::generate`].
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
        // Those that are done and not written down yet.
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
                // One that is stopped before anything is done of it is begun all the same, as one tree is.
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

/// The files of a key that is to be made, wherever the process goes meanwhile.
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
