//! The one door to a key that signing uses up: made here, and opened here, for every way in.
//!
//! ```text
//!   GeneratedKey::generate --> GeneratedKey::write      KEY, state, log, lock, anchors, then KEY.trees
//!
//!   Signer::open    KEY --passphrase--> secret
//!                   FilesLedger::open             the lock, and whether the state is safe
//!   Signer::sign    trees, at the first one       KEY.trees, or made again
//!                   sign_requests                 reserved, signed and checked, recorded, released
//!   Signer::close   KEY.trees, where they changed; the unused tail goes back
//! ```
//!
//! Signers of one key in one process share one ledger and one set of trees. A signature is checked before it leaves:
//! that is the engine's, which [`sign_requests`] calls.

use std::fmt;
use std::num::NonZero;
use std::ops::{ControlFlow, Range};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

use gabion_engine::keys::stateful::hss::HssSecret;
use gabion_engine::keys::stateful::xmss::XmssSecret;
use gabion_engine::keys::stateful::{
    self, IndexedSigner, Indexes, Ledger, LedgerError, Progress, Remaining, Request, StatefulKey,
    digest_of, sign_requests,
};
use gabion_engine::{Engine, Error};

use crate::files::{Environment, Paths, check_indexes, failed};
use crate::key_file::{KeyFile, Secret, spki};
use crate::keys::{NewKey, create_with};
use crate::ledger::{FilesLedger, Options};
use crate::part::Part;
use crate::registry::Chain;
use crate::sets::{Encoding, Sets};
use crate::trees::Trees;

/// A private key with its trees, of HSS or XMSS.
pub(crate) trait TreeSigner: IndexedSigner + Send {
    /// Returns the public key's encoding.
    fn public(&self) -> &[u8];

    /// Returns whether a panic ended the key.
    fn is_over(&self) -> bool;

    /// Returns the trees as they are saved beside the key file.
    fn trees(&self) -> Vec<u8>;
}

impl<S> TreeSigner for StatefulKey<'static, S>
where
    S: stateful::Secret<Key: Send, Public: Send, Scratch: Send>,
{
    fn public(&self) -> &[u8] {
        S::public_bytes(self.verify_key())
    }

    fn is_over(&self) -> bool {
        self.signatures() == 0
    }

    fn trees(&self) -> Vec<u8> {
        self.trees()
    }
}

/// A generated key without files.
pub struct GeneratedKey {
    secret: Secret,
    key: Box<dyn TreeSigner>,
    /// Where it was written down how far it was.
    part: Option<Part>,
}

/// Options for the files of a new key.
pub struct KeyFileOptions<'a> {
    /// The file of the private key. None of this name may be there.
    pub key: &'a Path,
    /// What the private key is encrypted with.
    pub passphrase: Option<&'a [u8]>,
    /// How its signatures are written.
    pub encoding: Encoding,
    /// The first index to sign with: those below it were used elsewhere.
    pub next: u64,
    /// Remaining signatures at which to warn; a hundredth of all where that is none.
    pub warn_at: Option<u64>,
    /// Files of anchors; the default one if there is none.
    pub anchors: &'a [PathBuf],
    /// Whether a file system of the network will do.
    pub allow_network: bool,
    /// What the log begins with.
    pub note: &'a str,
}

impl GeneratedKey {
    /// Makes a key of these sets, on up to `threads` threads. `watch` hears of each wave, and may stop it: then the
    /// answer is `None`.
    ///
    /// # Errors
    /// As [`StatefulKey::generate`]; [`Error::Entropy`].
    pub fn generate(
        environment: &Environment,
        engine: &'static Engine,
        sets: Sets,
        threads: NonZero<usize>,
        watch: &mut dyn FnMut(Progress<'_>) -> ControlFlow<()>,
    ) -> Result<Option<Self>, Error> {
        GeneratedKey::from_secret(engine, draw_secret(environment, &sets)?, threads, watch)
    }

    /// Generates the key of an existing secret.
    ///
    /// # Errors
    /// As [`StatefulKey::generate`].
    pub fn from_secret(
        engine: &'static Engine,
        secret: Secret,
        threads: NonZero<usize>,
        watch: &mut dyn FnMut(Progress<'_>) -> ControlFlow<()>,
    ) -> Result<Option<Self>, Error> {
        let key = build_key(engine, &secret, &[], threads, watch)?;
        Ok(key.map(|key| GeneratedKey::from_parts(secret, key, None)))
    }

    pub(crate) fn from_parts(secret: Secret, key: Box<dyn TreeSigner>, part: Option<Part>) -> Self {
        GeneratedKey { secret, key, part }
    }

    /// The sets.
    pub fn sets(&self) -> Sets {
        self.secret.sets()
    }

    /// The public key, as HSS or XMSS has it.
    pub fn public(&self) -> &[u8] {
        self.key.public()
    }

    /// The public key as SubjectPublicKeyInfo (RFC 9802), in DER or else in PEM.
    ///
    /// # Errors
    /// None that a key of these sets meets.
    pub fn spki(&self, as_der: bool) -> Result<Vec<u8>, Error> {
        spki(self.secret.sets().algorithm(), self.public(), as_der)
    }

    /// Makes the files, all or none. What [`crate::ResumableKey`] wrote down is gone before there is a private key.
    ///
    /// # Errors
    /// If one of them is there, or can't be written; if one-tree encoding is asked of several trees.
    pub fn write(
        &self,
        environment: &Environment,
        options: &KeyFileOptions<'_>,
    ) -> Result<(), Error> {
        let sets = self.secret.sets();
        if !sets.has(options.encoding) {
            let reason = "the encoding of LMS is for keys of LMS with one level";
            return Err(Error::KeyFile(reason.to_owned()));
        }
        let KeyFileOptions { passphrase, encoding, .. } = *options;
        let entropy = &*environment.entropy;
        let file = KeyFile::encode(&self.secret, self.public(), encoding, passphrase, entropy)?;
        let Range { start, end } = sets.indexes();
        let new = NewKey {
            key: options.key,
            secret: &file,
            public: self.public(),
            first: start,
            next: options.next.max(start),
            end,
            warn_at: options.warn_at.unwrap_or((end - start) / 100),
            anchors: options.anchors,
            allow_network: options.allow_network,
            note: options.note,
        };
        create_with(environment, &new, self.part.as_ref())?;
        // They can be made again.
        let _ = Trees::new(environment, options.key, &self.secret.encode()).save(&self.key.trees());
        Ok(())
    }
}

/// Draws a secret for these sets.
pub(crate) fn draw_secret(environment: &Environment, sets: &Sets) -> Result<Secret, Error> {
    let entropy = &*environment.entropy;
    Ok(match sets {
        Sets::Hss(levels) => Secret::Hss(HssSecret::draw(levels.clone(), entropy)?),
        Sets::Xmss(set) => Secret::Xmss(XmssSecret::draw(set, entropy)?),
    })
}

/// Builds the key of a secret, from `row` on, which an earlier progress gave or which is empty.
pub(crate) fn build_key(
    engine: &'static Engine,
    secret: &Secret,
    row: &[u8],
    threads: NonZero<usize>,
    watch: &mut dyn FnMut(Progress<'_>) -> ControlFlow<()>,
) -> Result<Option<Box<dyn TreeSigner>>, Error> {
    Ok(match secret {
        Secret::Hss(secret) => StatefulKey::generate(engine, secret, row, threads, watch)?
            .map(|key| Box::new(key) as _),
        Secret::Xmss(secret) => StatefulKey::generate(engine, secret, row, threads, watch)?
            .map(|key| Box::new(key) as _),
    })
}

/// Options for opening a key for signing.
#[derive(Clone, Debug)]
pub struct SignerOptions {
    /// How many indexes are reserved at once, at least: `?reserve=N`. More are quicker, and a crash burns more.
    pub ahead: u64,
    /// How many messages are signed in one call: as many may be reserved at once, whatever is left.
    pub messages: u64,
    /// Whether more may be reserved at once than [`reserve_max`](crate::reserve_max) and `messages` say.
    pub reserve_anyway: bool,
    /// How long another process may keep the key before that is an error.
    pub wait: Duration,
    /// On how many threads a top tree is made that is not kept.
    pub threads: NonZero<usize>,
}

impl Default for SignerOptions {
    fn default() -> Self {
        SignerOptions {
            ahead: 1,
            messages: 1,
            reserve_anyway: false,
            wait: Duration::from_secs(30),
            threads: NonZero::<usize>::MIN,
        }
    }
}

/// A signature that may be released.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signature {
    /// The signature, in the key's encoding.
    pub bytes: Vec<u8>,
    /// Its index.
    pub index: u64,
    /// How many signatures the key has left after it.
    pub remaining: u64,
    /// Whether it was made before, for the same request id. Then no index was used.
    pub is_repeated: bool,
    /// Whether the key should be replaced: its owner wants to be warned.
    pub is_low: bool,
}

/// A private key, open for signing.
pub struct Signer {
    file: KeyFile,
    ledger: Option<FilesLedger>,
    shared: Arc<SharedSigner>,
    environment: Environment,
    path: PathBuf,
}

/// The key that all its signers in a process share.
struct SharedSigner {
    engine: &'static Engine,
    public: Vec<u8>,
    secret: Secret,
    threads: NonZero<usize>,
    ready: Mutex<Option<PreparedKey>>,
}

/// The key with its trees.
struct PreparedKey {
    key: Box<dyn TreeSigner>,
    /// The digest of the trees in their file.
    saved_digest: [u8; 32],
}

/// By the file of the private key.
static OPEN: Chain<SharedSigner> = Chain::new();

impl Signer {
    /// Opens the private key in the file `path`. It waits for another process that has it.
    ///
    /// # Errors
    /// [`Error::KeyFile`] if the file is none, or does not open with the passphrase; [`Error::Ledger`] as
    /// [`FilesLedger::open`]. None of them changes anything.
    pub fn open(
        environment: &Environment,
        engine: &'static Engine,
        path: &Path,
        passphrase: Option<&[u8]>,
        opening: &SignerOptions,
    ) -> Result<Self, Error> {
        let file = KeyFile::read(&*environment.disk, path)?;
        Signer::from_file(environment, engine, path, file, passphrase, opening)
    }

    /// The same of a file that was read, for whoever asks for the passphrase only where there is need.
    ///
    /// # Errors
    /// As [`Signer::open`].
    pub fn from_file(
        environment: &Environment,
        engine: &'static Engine,
        path: &Path,
        file: KeyFile,
        passphrase: Option<&[u8]>,
        opening: &SignerOptions,
    ) -> Result<Self, Error> {
        let named = |error| match error {
            Error::KeyFile(reason) => Error::KeyFile(format!("{}: {reason}", path.display())),
            error => error,
        };
        let secret = file.unlock(passphrase).map_err(named)?;
        let disk = &*environment.disk;
        let paths = Paths::resolve_existing(disk, path)?;
        let options = Options {
            ahead: opening.ahead.max(1),
            messages: (!opening.reserve_anyway).then_some(opening.messages),
            wait: opening.wait,
            ..Options::default()
        };
        let ledger = FilesLedger::open(environment, &paths.key, &file.public, options)?;
        check_indexes(&paths, &ledger.indexes(), &file.sets().indexes())?;
        let shared = shared(environment, engine, &paths.key, &file, secret, opening)?;
        let (environment, path) = (environment.clone(), paths.key);
        Ok(Signer { file, ledger: Some(ledger), shared, environment, path })
    }

    /// The private key's file: sets, public key, lengths.
    pub fn file(&self) -> &KeyFile {
        &self.file
    }

    /// Signs each message with an index of its own, or with none where its request id has a signature already: one
    /// reservation for all.
    ///
    /// # Errors
    /// As [`sign_requests`]: [`Error::Ledger`] where the state is not safe or is used up, or a request id names another
    /// message. Nothing is released then.
    pub fn sign(&self, requests: &[Request<'_>]) -> Result<Vec<Signature>, Error> {
        let ledger = self.ledger()?;
        // A child must not wait for a lock that a thread of its parent had.
        ledger.check_process()?;
        let mut ready = self.shared.ready();
        if ready.is_none() && ledger.remaining()?.left > 0 {
            *ready = Some(self.prepare_key(ledger.next_index())?);
        }
        let mut key = SignerHandle(ready.as_mut().map(|ready| &mut *ready.key));
        let signed = sign_requests(ledger, &mut key, requests);
        if ready.as_ref().is_some_and(|ready| ready.key.is_over()) {
            // The next one makes it again, rather than burn an index for nothing.
            *ready = None;
        }
        let signed = signed?;
        let Remaining { left, is_low, .. } = ledger.remaining()?;
        drop(ready);
        let mut behind = signed.iter().filter(|signed| !signed.is_repeated).count() as u64;
        let omitted = self.file.encoding().omitted_len();
        let signatures = signed.into_iter().map(|signed| {
            behind -= u64::from(!signed.is_repeated);
            let bytes = signed.signature.get(omitted..).unwrap_or_default().to_vec();
            let (index, is_repeated) = (signed.index, signed.is_repeated);
            Signature { bytes, index, remaining: left + behind, is_repeated, is_low }
        });
        Ok(signatures.collect())
    }

    /// Makes the trees ready that the next signature needs, which then takes no longer than any other.
    ///
    /// # Errors
    /// As [`StatefulKey::open`].
    pub fn prepare(&self) -> Result<(), Error> {
        let ledger = self.ledger()?;
        ledger.check_process()?;
        let mut ready = self.shared.ready();
        if ready.is_none() && ledger.remaining()?.left > 0 {
            *ready = Some(self.prepare_key(ledger.next_index())?);
        }
        Ok(())
    }

    /// What is left.
    ///
    /// # Errors
    /// As [`Ledger::remaining`].
    pub fn remaining(&self) -> Result<Remaining, Error> {
        Ok(self.ledger()?.remaining()?)
    }

    /// Lets a request id be used again.
    ///
    /// # Errors
    /// As [`FilesLedger::forget`].
    pub fn forget(&self, request: &str) -> Result<(), Error> {
        Ok(self.ledger()?.forget(request)?)
    }

    /// Ends it. The last one of a process gives back what it reserved and did not use, durably.
    ///
    /// # Errors
    /// If that failed. Then it is burnt.
    pub fn close(mut self) -> Result<(), Error> {
        self.keep_trees();
        match self.ledger.take() {
            Some(ledger) => Ok(ledger.close()?),
            None => Ok(()),
        }
    }

    fn ledger(&self) -> Result<&FilesLedger, Error> {
        self.ledger.as_ref().ok_or(Error::Lost)
    }

    fn prepare_key(&self, index: u64) -> Result<PreparedKey, Error> {
        let SharedSigner { engine, public, secret, threads, .. } = &*self.shared;
        let kept = self.trees().load().unwrap_or_default();
        let key: Box<dyn TreeSigner> = match secret {
            Secret::Hss(secret) => {
                Box::new(StatefulKey::open(engine, secret, public, &kept, index, *threads)?)
            }
            Secret::Xmss(secret) => {
                Box::new(StatefulKey::open(engine, secret, public, &kept, index, *threads)?)
            }
        };
        Ok(PreparedKey { key, saved_digest: digest_of(&kept) })
    }

    fn trees(&self) -> Trees {
        Trees::new(&self.environment, &self.path, &self.shared.secret.encode())
    }

    /// Writes the trees down, where they have changed: as long as the ledger is open, so that nobody else does.
    fn keep_trees(&self) {
        if self.ledger.as_ref().is_none_or(|ledger| ledger.check_process().is_err()) {
            return;
        }
        // Whoever signs with another handle at the moment keeps them when that is closed.
        let mut ready = match self.shared.ready.try_lock() {
            Ok(ready) => ready,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return,
        };
        let Some(ready) = ready.as_mut() else { return };
        let trees = ready.key.trees();
        let digest = digest_of(&trees);
        // None are left of a key that a panic ended, nor where there is no memory for them.
        if !trees.is_empty() && digest != ready.saved_digest && self.trees().save(&trees) {
            ready.saved_digest = digest;
        }
    }
}

impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Signer of {:?}", self.path)
    }
}

impl Drop for Signer {
    fn drop(&mut self) {
        if self.ledger.is_some() {
            self.keep_trees();
        }
    }
}

impl SharedSigner {
    fn ready(&self) -> MutexGuard<'_, Option<PreparedKey>> {
        // What panics within is the engine's, which ends the key by itself.
        self.ready.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What this process has of a key already, or a new one.
fn shared(
    environment: &Environment,
    engine: &'static Engine,
    key: &Path,
    file: &KeyFile,
    secret: Secret,
    opening: &SignerOptions,
) -> Result<Arc<SharedSigner>, Error> {
    let id = environment.disk.identity(key).map_err(|error| failed(key, &error))?;
    let no_forks = || LedgerError::Unsafe("this system does not tell forks".to_owned());
    let (_, token) = environment.machine.process().ok_or_else(no_forks)?;
    let mut list = OPEN.registry(token).list();
    let known = list.get(&id).and_then(std::sync::Weak::upgrade);
    // Sectors have one public key, and each a secret of its own.
    let is_its = |shared: &Arc<SharedSigner>| {
        shared.public == file.public() && shared.secret.sets() == *file.sets()
    };
    if let Some(shared) = known.filter(is_its) {
        return Ok(shared);
    }
    let public = file.public().to_vec();
    let (threads, ready) = (opening.threads, Mutex::new(None));
    let shared = Arc::new(SharedSigner { engine, public, secret, threads, ready });
    list.insert(id, Arc::downgrade(&shared));
    Ok(shared)
}

/// A handle to the key for one call that signs. `None` if no index is left, so that none is handed to it.
struct SignerHandle<'a>(Option<&'a mut (dyn TreeSigner + 'static)>);

impl IndexedSigner for SignerHandle<'_> {
    fn check(&self) -> Result<(), Error> {
        match &self.0 {
            Some(key) => key.check(),
            // The ledger says that none is left.
            None => Ok(()),
        }
    }

    fn sign_indexed(
        &mut self,
        indexes: Indexes,
        messages: &[&[u8]],
    ) -> Result<Vec<Vec<u8>>, Error> {
        match &mut self.0 {
            Some(key) => key.sign_indexed(indexes, messages),
            None => Err(Error::Lost),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Who closes a handle does not wait for somebody who signs with another one.
    #[test]
    fn a_handle_is_closed_while_another_one_signs() {
        let folder = tempfile::tempdir().unwrap();
        let (environment, engine) = (Environment::real(), Engine::global().unwrap());
        let sets = "LMS_SHA256_M32_H5_W8".parse().unwrap();
        let mut go_on = |_: Progress<'_>| ControlFlow::Continue(());
        let made =
            GeneratedKey::generate(&environment, engine, sets, NonZero::<usize>::MIN, &mut go_on);
        let home = tempfile::tempdir().unwrap();
        let options = KeyFileOptions {
            key: &folder.path().join("k"),
            passphrase: None,
            encoding: Encoding::Hss,
            next: 0,
            warn_at: None,
            anchors: &[home.path().join("anchor")],
            allow_network: true,
            note: "made",
        };
        made.unwrap().unwrap().write(&environment, &options).unwrap();
        let open = || {
            Signer::open(&environment, engine, options.key, None, &SignerOptions::default())
                .unwrap()
        };
        let (one, two) = (open(), open());
        let request = [Request { message: b"m", id: None }];
        assert_eq!(one.sign(&request).unwrap()[0].index, 0);
        let shared = Arc::clone(&one.shared);
        let signs = shared.ready();
        let (closed, says) = std::sync::mpsc::channel();
        let closing = std::thread::spawn(move || closed.send(two.close()));
        let is_closed = says.recv_timeout(Duration::from_secs(60));
        drop(signs);
        is_closed.expect("it waits for whoever signs").unwrap();
        closing.join().unwrap().unwrap();
        assert_eq!(one.sign(&request).unwrap()[0].index, 1);
    }
}
