//! Creates and opens stateful keys: the common entry point of all frontends.
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
//! Signers of the same key in one process share one ledger and one set of trees. The engine
//! verifies each signature in [`sign_requests`] before it is released.

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

    /// Returns the trees in the form saved next to the key file.
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

/// A generated key that has no files yet.
pub struct GeneratedKey {
    secret: Secret,
    key: Box<dyn TreeSigner>,
    /// The saved progress of its generation.
    part: Option<Part>,
}

/// Options for the files of a new key.
pub struct KeyFileOptions<'a> {
    /// The private key file; must not exist.
    pub key: &'a Path,
    /// The passphrase to encrypt the private key with.
    pub passphrase: Option<&'a [u8]>,
    /// The encoding of its signatures.
    pub encoding: Encoding,
    /// The first index to sign with: those below it were used elsewhere.
    pub next: u64,
    /// Warn when this many signatures remain; `None` for a hundredth of all.
    pub warn_at: Option<u64>,
    /// The anchor files; empty for the default one.
    pub anchors: &'a [PathBuf],
    /// Whether a network file system is allowed.
    pub allow_network: bool,
    /// The first note in the log.
    pub note: &'a str,
}

impl GeneratedKey {
    /// Generates a key with these sets on up to `threads` threads. `watch` is called after each
    /// wave; if it stops the generation, the result is `None`.
    ///
    /// # Errors
    /// Fails like [`StatefulKey::generate`]; [`Error::Entropy`].
    pub fn generate(
        environment: &Environment,
        engine: &'static Engine,
        sets: Sets,
        threads: NonZero<usize>,
        watch: &mut dyn FnMut(Progress<'_>) -> ControlFlow<()>,
    ) -> Result<Option<Self>, Error> {
        GeneratedKey::from_secret(engine, draw_secret(environment, &sets)?, threads, watch)
    }

    /// Generates the trees of an existing secret.
    ///
    /// # Errors
    /// Fails like [`StatefulKey::generate`].
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

    /// Returns the sets.
    pub fn sets(&self) -> Sets {
        self.secret.sets()
    }

    /// Returns the public key in the encoding of HSS or XMSS.
    pub fn public(&self) -> &[u8] {
        self.key.public()
    }

    /// Returns the public key as SubjectPublicKeyInfo (RFC 9802), in DER or PEM.
    ///
    /// # Errors
    /// Does not fail for keys with these sets.
    pub fn spki(&self, as_der: bool) -> Result<Vec<u8>, Error> {
        spki(self.secret.sets().algorithm(), self.public(), as_der)
    }

    /// Writes all files of the key, or none. The saved progress of [`crate::ResumableKey`] is
    /// removed before the private key is created.
    ///
    /// # Errors
    /// If one of the files exists or cannot be written; if the LMS encoding is requested for
    /// several trees.
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
        // The trees can be computed again.
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

/// Builds the key of a secret, starting from the nodes in `row`: saved progress, or empty.
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
    /// The minimum number of indexes to reserve at once (`?reserve=N`). Larger blocks are faster,
    /// but a crash burns more.
    pub ahead: u64,
    /// The number of messages signed per call: this many indexes may always be reserved at once.
    pub messages: u64,
    /// Whether to ignore the limit of [`reserve_max`](crate::reserve_max) and `messages`.
    pub reserve_anyway: bool,
    /// How long to wait while another process holds the key.
    pub wait: Duration,
    /// The number of threads that recompute a top tree that is not cached.
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
    /// Whether it was made earlier for the same request id. Then no index was used.
    pub is_repeated: bool,
    /// Whether fewer signatures remain than the owner's warning threshold.
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

/// The key state shared by all signers in a process.
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
    /// The digest of the trees that are saved in the file.
    saved_digest: [u8; 32],
}

/// The open keys, by private key file.
static OPEN: Chain<SharedSigner> = Chain::new();

impl Signer {
    /// Opens the private key file `path`, waiting for another process that holds it.
    ///
    /// # Errors
    /// [`Error::KeyFile`] if the file is not a private key file or does not open with the
    /// passphrase; [`Error::Ledger`] as for [`FilesLedger::open`]. No error changes anything.
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

    /// Opens a private key file that was already read, so that the caller can ask for a passphrase
    /// only if it is needed.
    ///
    /// # Errors
    /// Fails like [`Signer::open`].
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

    /// Returns the private key file: sets, public key, lengths.
    pub fn file(&self) -> &KeyFile {
        &self.file
    }

    /// Signs each message with a new index, or returns the existing signature of its request id.
    /// All indexes are reserved together.
    ///
    /// # Errors
    /// Fails like [`sign_requests`]: [`Error::Ledger`] if the state is not safe, the key is used
    /// up, or a request id belongs to another message. Nothing is released then.
    pub fn sign(&self, requests: &[Request<'_>]) -> Result<Vec<Signature>, Error> {
        let ledger = self.ledger()?;
        // A forked child must not wait for a lock that a thread of its parent held.
        ledger.check_process()?;
        let mut ready = self.shared.ready();
        if ready.is_none() && ledger.remaining()?.left > 0 {
            *ready = Some(self.prepare_key(ledger.next_index())?);
        }
        let mut key = SignerHandle(ready.as_mut().map(|ready| &mut *ready.key));
        let signed = sign_requests(ledger, &mut key, requests);
        if ready.as_ref().is_some_and(|ready| ready.key.is_over()) {
            // The next call builds it again, which is better than burning an index for nothing.
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

    /// Prepares the trees for the next signature, so that it takes no longer than any other.
    ///
    /// # Errors
    /// Fails like [`StatefulKey::open`].
    pub fn prepare(&self) -> Result<(), Error> {
        let ledger = self.ledger()?;
        ledger.check_process()?;
        let mut ready = self.shared.ready();
        if ready.is_none() && ledger.remaining()?.left > 0 {
            *ready = Some(self.prepare_key(ledger.next_index())?);
        }
        Ok(())
    }

    /// Returns the remaining signatures.
    ///
    /// # Errors
    /// Fails like [`Ledger::remaining`].
    pub fn remaining(&self) -> Result<Remaining, Error> {
        Ok(self.ledger()?.remaining()?)
    }

    /// Allows a request id to be used again.
    ///
    /// # Errors
    /// Fails like [`FilesLedger::forget`].
    pub fn forget(&self, request: &str) -> Result<(), Error> {
        Ok(self.ledger()?.forget(request)?)
    }

    /// Closes the signer. The last signer of a process durably returns the reserved indexes that
    /// were not used.
    ///
    /// # Errors
    /// If that failed; the indexes are then burnt.
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

    /// Saves the trees if they have changed, while the ledger is still open, so that no other
    /// process does.
    fn keep_trees(&self) {
        if self.ledger.as_ref().is_none_or(|ledger| ledger.check_process().is_err()) {
            return;
        }
        // If another handle is signing now, it saves the trees when it is closed.
        let mut ready = match self.shared.ready.try_lock() {
            Ok(ready) => ready,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return,
        };
        let Some(ready) = ready.as_mut() else { return };
        let trees = ready.key.trees();
        let digest = digest_of(&trees);
        // There are no trees if a panic ended the key or memory ran out.
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
        // The engine handles panics in its code and ends the key.
        self.ready.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the key that this process has open already, or a new one.
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
    // Sectors share a public key, but each has a separate secret.
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

/// A handle to the key for one signing call. `None` if no index is left, so that none is passed to
/// it.
struct SignerHandle<'a>(Option<&'a mut (dyn TreeSigner + 'static)>);

impl IndexedSigner for SignerHandle<'_> {
    fn check(&self) -> Result<(), Error> {
        match &self.0 {
            Some(key) => key.check(),
            // The ledger reports that no index is left.
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

    /// Closing a handle does not wait for another handle that is signing.
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
