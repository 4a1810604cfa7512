//! A key that is made with its progress written down, so that an interruption costs little.

use std::io::ErrorKind;
use std::num::NonZero;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use gabion_engine::keys::stateful::Progress;
use gabion_engine::{Engine, Error};
use zeroize::Zeroizing;

use crate::files::{Paths, Surroundings, failed, read_file};
use crate::key_file::Secret;
use crate::part::Part;
use crate::sets::Sets;
use crate::signer::{Generated, drawn, made};

/// Bytes of a file of progress, at most: a row of 2^16 nodes, and more.
const PART_MAX: u64 = 16 << 20;

/// A key that is to be made, or that an interruption left unfinished.
pub struct Unfinished {
    secret: Secret,
    row: Vec<u8>,
    passphrase: Option<Zeroizing<Vec<u8>>>,
    part: Part,
}

impl Unfinished {
    /// What an interruption left of a key of this name, or a new one of these sets. Where its anchors are to be, its
    /// witness is.
    ///
    /// # Errors
    /// [`Error::KeyFile`] if what is left is damaged, of other sets, or does not open with the passphrase;
    /// [`Error::Ledger`] if it is a copy, or another process goes on with it; [`Error::Entropy`].
    pub fn begin(
        around: &Surroundings,
        key: &Path,
        sets: &Sets,
        passphrase: Option<&[u8]>,
        anchors: &[PathBuf],
    ) -> Result<Self, Error> {
        let paths = Paths::of(key);
        let bytes = match read_file(&*around.disk, &paths.part, PART_MAX) {
            Ok(bytes) => Some(bytes),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(failed(&paths.part, &error).into()),
        };
        let kept = |passphrase: &[u8]| Zeroizing::new(passphrase.to_vec());
        let (secret, row, part) = match bytes {
            Some(bytes) => Part::opened(around, paths, &bytes, sets, passphrase)?,
            None => (drawn(around, sets)?, Vec::new(), Part::new(around, paths, anchors)?),
        };
        Ok(Unfinished { secret, row, passphrase: passphrase.map(kept), part })
    }

    /// Whether it goes on with what was left.
    pub fn is_resumed(&self) -> bool {
        self.part.is_begun()
    }

    /// Makes the key, on up to `threads` threads, and writes down how far it is, once in a while and where `watch`
    /// stops it: then the answer is `None`.
    ///
    /// # Errors
    /// As [`Generated::generate`]; if it can't be written down.
    pub fn generate(
        self,
        engine: &'static Engine,
        threads: NonZero<usize>,
        every: Duration,
        watch: &mut dyn FnMut(Progress<'_>) -> ControlFlow<()>,
    ) -> Result<Option<Generated>, Error> {
        let Unfinished { secret, row, passphrase, mut part } = self;
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
        let key = made(engine, &secret, &row, threads, &mut saves)?;
        outcome?;
        Ok(key.map(|key| Generated::of_parts(secret, key, Some(part))))
    }
}
