//! The service behind its seal: what there is to say of it while it is closed, and the verbs while it is open.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, Weak};
use std::thread;
use std::time::{Duration, Instant};

use gabion_engine::Engine;
use gabion_kms::audit::{Archived, Checkpoint, Keep};
use gabion_kms::clock::{Clock, SystemClock};
use gabion_kms::gate::{self, Action, AdministrationPermit, Peer, Principal, Token};
use gabion_kms::memory::{Lock, is_swap_on};
use gabion_kms::operations::{self, Kms};
use gabion_kms::seal::{self, By, Cost, Holder, Sealer, Share, Shares, Slots};
use gabion_kms::service::{AuditAt, Call, Generation, Options, Service};
use gabion_kms::store::{self, MemoryStore, SqliteStore, Store};
use gabion_kms_wire::{Secret, native};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

use super::administrator_warning::{self, AdministratorWarning};
use super::backups::{self, Backups};
use super::checkpoint_copies::{self, MirrorFailures};
use super::metrics::Disks;
use super::panics::{BackgroundThread, PanicCounters};
use super::unseal_limits::{ClientAddress, PassphraseThrottle};
use super::wrapping_key::WrappingKeyJob;
use crate::config::Config;
use crate::error::Error;
use crate::problem::Problem;

/// A store, and its keys while it is unsealed.
pub struct Keeper {
    store: Arc<dyn Store>,
    /// The same, where it is one in a file.
    file: Option<Arc<SqliteStore>>,
    /// None: in memory.
    audit: Option<PathBuf>,
    backups: Option<Backups>,
    archive: Option<PathBuf>,
    /// A second place for checkpoints.
    mirror_folder: Option<PathBuf>,
    mirror_failures: Arc<MirrorFailures>,
    panics: Arc<PanicCounters>,
    kms: operations::Options,
    service: Options,
    clock: Arc<dyn Clock>,
    is_initialized: AtomicBool,
    open: RwLock<Option<Arc<Service>>>,
    /// What was closed, and is there for as long as something of it still runs.
    closing: Mutex<Weak<()>>,
    /// Shares that were given, and are too few so far. Held while the seal is opened: once at a time.
    given: Mutex<Vec<Share>>,
    /// The same, for a new administrator. Taken before `given`.
    recovering: Mutex<Recovery>,
    /// Guesses of the passphrase.
    throttle: PassphraseThrottle,
    /// The service's own keys.
    wrapping_key_job: Arc<WrappingKeyJob>,
    /// Whether they are made without anybody asking.
    makes_own_keys: bool,
    /// Why the process's memory is not locked; none where it is, and where nobody asked for that.
    unlocked: Option<UnlockedMemory>,
    /// Receives lines about a restored store and about the end of the last administrator's token.
    log: LogSink,
    administrator_warning: AdministratorWarning,
}

/// Receives log lines.
pub type LogSink = fn(&str);

/// The process's memory is not locked.
struct UnlockedMemory {
    /// Whether the configuration takes that.
    is_allowed: bool,
}

/// Shares that were given for a new administrator.
#[derive(Default)]
struct Recovery {
    shares: Vec<Share>,
    principal: Option<String>,
    /// What the token is to be bound to.
    certificate: Option<[u8; 32]>,
    lifetime_s: Option<u64>,
}

/// The seal of a new store: shares, passphrase, first token.
#[derive(Clone, Copy)]
pub struct SealSetup<'a> {
    /// How many shares there are.
    pub shares: u8,
    /// How many of them open it.
    pub threshold: u8,
    /// What opens it besides.
    pub passphrase: Option<&'a str>,
    /// PEM of the certificate that the first token is bound to.
    pub certificate: Option<&'a [u8]>,
    /// The lifetime of the first token in seconds; 90 days if `None`.
    pub lifetime_s: Option<u64>,
    /// For whom each share is wrapped, in their order; nobody: they are handed out in clear.
    pub holders: &'a [Holder],
}

impl SealSetup<'_> {
    /// Refuses holders who are not as many as shares, before anything is there.
    fn check(&self) -> Result<(), gabion_kms::Error> {
        match self.holders {
            [] => Ok(()),
            holders => seal::check_holders(holders, usize::from(self.shares)),
        }
    }

    fn slots(&self) -> Slots<'_> {
        let recovery = Shares { shares: self.shares, threshold: self.threshold };
        Slots { recovery, passphrase: self.passphrase.map(|text| (text, Cost::default())) }
    }

    /// What is handed out of shares: all of it is there before the first one goes.
    fn texts(&self, shares: &[Share]) -> Result<Vec<Zeroizing<String>>, Error> {
        if self.holders.is_empty() {
            return Ok(shares.iter().map(|share| Zeroizing::new(share.to_string())).collect());
        }
        let engine = Engine::global().map_err(gabion_kms::Error::from)?;
        let wrapped = seal::wrap(engine, shares, self.holders)?;
        Ok(wrapped.iter().map(|share| Zeroizing::new(share.to_string())).collect())
    }
}

/// How long whoever opens the seal waits for the end of operations that ran when it was closed.
const CLOSING: Duration = Duration::from_secs(2);

/// Most shares that wait for others.
const GIVEN_MAX: usize = 255;

/// The maximum number of permits that the answer to a recovery lists.
const PERMITS_MAX: usize = 100;

/// The maximum number of characters of a principal in that list.
const PERMIT_PRINCIPAL_MAX: usize = 256;

impl Keeper {
    /// Keys that end with the process and are never written anywhere, and a token that may do everything.
    ///
    /// # Errors
    /// No randomness; no backend of the name that the environment asks for.
    pub fn in_memory() -> Result<(Self, Zeroizing<String>), gabion_kms::Error> {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let sealer = Sealer::volatile(store.identity().id)?;
        let gate = gate::Options {
            needs_certificate_for_administration: false,
            ..gate::Options::default()
        };
        let keeper = Keeper {
            store,
            file: None,
            audit: None,
            backups: None,
            archive: None,
            mirror_folder: None,
            mirror_failures: Arc::default(),
            panics: Arc::default(),
            kms: operations::Options::default(),
            service: Options { gate, ..Options::default() },
            is_initialized: AtomicBool::new(true),
            open: RwLock::new(None),
            closing: Mutex::default(),
            given: Mutex::default(),
            recovering: Mutex::default(),
            unlocked: None,
            throttle: PassphraseThrottle::default(),
            wrapping_key_job: Arc::default(),
            makes_own_keys: false,
            clock: Arc::new(SystemClock),
            log: |_| {},
            administrator_warning: AdministratorWarning::default(),
        };
        let service = keeper.opened(sealer)?;
        let longest = Some(keeper.service.gate.lifetime_ms_max);
        let token = service.administrator_token(&Principal::new("dev")?, None, longest)?;
        keeper.set(Some(service));
        Ok((keeper, Zeroizing::new(token.to_string())))
    }

    /// The keys of a store in a file, sealed unless the configuration has the passphrase.
    ///
    /// # Errors
    /// A store that is not there, or in use; a passphrase that does not open it.
    pub fn open(config: &Config) -> Result<Self, Error> {
        Self::open_logging(config, |_| {})
    }

    /// The same, and somebody hears, a line each, what came of it whenever the seal opens over a store that was put back to an
    /// older state.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_logging(config: &Config, log: LogSink) -> Result<Self, Error> {
        let keeper = Keeper { log, ..Self::at(config)? };
        if let Some(path) = &config.seal.passphrase_file {
            let passphrase = passphrase(path)?;
            keeper.unsealed(seal::unseal(&*keeper.store, By::Passphrase(&passphrase))?)?;
        }
        Ok(keeper)
    }

    /// Says of the process whether its memory is locked. Where it is not, and the system swaps, nothing is served unless
    /// that is allowed.
    #[must_use]
    pub fn with_memory(self, lock: &Lock, is_allowed: bool) -> Self {
        let unlocked = match lock {
            Lock::Whole => None,
            Lock::Not(_) => Some(UnlockedMemory { is_allowed }),
        };
        Keeper { unlocked, ..self }
    }

    /// Makes the service's own keys when the seal has been open for a while, so that nobody who asks for them waits.
    #[must_use]
    pub fn making_own_keys(self) -> Self {
        Keeper { makes_own_keys: true, ..self }
    }

    /// The same by another clock, from the next time on that the seal is opened.
    #[must_use]
    pub fn with_clock(self, clock: Arc<dyn Clock>) -> Self {
        Keeper { clock, ..self }
    }

    /// Gives a store its seal, and a token that may do everything. Each share is handed out before anything is there.
    ///
    /// # Errors
    /// A store that has a seal, or is in use; numbers that make no sense, holders too; no certificate where administration needs one; what
    /// `hand_out` says.
    pub fn init<E: From<Error>>(
        config: &Config,
        initial: &SealSetup<'_>,
        mut hand_out: impl FnMut(Zeroizing<String>) -> Result<(), E>,
    ) -> Result<Zeroizing<String>, E> {
        let certificate = initial.certificate.map(digest_of).transpose()?;
        if certificate.is_none() && config.service().gate.needs_certificate_for_administration {
            // Its token could make no other and read no log, and there would be no other.
            let why = "administration needs a token that is bound to a client's certificate: name that (--certificate), or set \
                       tokens.administration_needs_certificate = false";
            return Err(Error::Settings(why.to_owned()).into());
        }
        let lifetime_ms = initial.lifetime_s.map(|seconds| seconds.saturating_mul(1000));
        let dealt = || -> Result<_, Error> {
            initial.check()?;
            // Checked before the store exists.
            lifetime_ms.map_or(Ok(()), |ms| config.service().gate.check_lifetime(ms))?;
            if !config.store.path.exists() {
                SqliteStore::create(&config.store.path).map_err(gabion_kms::Error::from)?;
            }
            let keeper = Self::at(config)?;
            let dealt = seal::init(&*keeper.store, &initial.slots())?;
            let texts = initial.texts(dealt.shares())?;
            Ok((keeper, dealt, texts))
        };
        let (keeper, dealt, texts) = dealt()?;
        for text in texts {
            hand_out(text)?;
        }
        let adopted = || -> Result<_, Error> {
            let sealer = dealt.adopt(&*keeper.store, dealt.shares())?;
            let service = keeper.opened(sealer)?;
            let first = Principal::new("first")?;
            let token = service.administrator_token(&first, certificate, lifetime_ms)?;
            service.checkpoint()?;
            Ok(Zeroizing::new(token.to_string()))
        };
        Ok(adopted()?)
    }

    /// Deals what opens a seal anew, in place of all that opened it: by enough shares of the recovery set, while nobody serves
    /// the store. Each new share is handed out before anything is changed; no record is touched.
    ///
    /// # Errors
    /// A store that is in use or has no seal; shares that do not open it; numbers that make no sense; what `hand_out` says.
    /// After [`gabion_kms::Error::OutcomeUnknown`] either these or the shares of before open it: keep both.
    pub fn reseal<E: From<Error>>(
        config: &Config,
        given: &[Zeroizing<String>],
        initial: &SealSetup<'_>,
        log: LogSink,
        mut hand_out: impl FnMut(Zeroizing<String>) -> Result<(), E>,
    ) -> Result<(), E> {
        let opened = || -> Result<_, Error> {
            initial.check()?;
            let of_share = |error| gabion_kms::Error::Seal(gabion_kms::SealError::Share(error));
            let given = given.iter().map(|share| share.parse::<Share>().map_err(of_share));
            let given = given.collect::<Result<Vec<_>, _>>()?;
            let mut keeper = Keeper { log, ..Self::at(config)? };
            // Enough shares are given for this, by somebody who sees what it says.
            keeper.service.takes_older = true;
            let dealt = seal::change_slots(&*keeper.store, &given, &initial.slots())?;
            let texts = initial.texts(dealt.shares())?;
            let service = keeper.opened(seal::unseal(&*keeper.store, By::Shares(&given))?)?;
            Ok((keeper, dealt, texts, service))
        };
        let (keeper, dealt, texts, service) = opened()?;
        for text in texts {
            hand_out(text)?;
        }
        let adopted = || -> Result<(), Error> {
            let who = service.gate().local(Principal::new("reseal")?);
            let adopt = || dealt.adopt(&*keeper.store, dealt.shares()).map(drop);
            service.administer(&Call::new(&who, "reseal"), Action::Seal, adopt)?;
            service.checkpoint()?;
            Ok(())
        };
        Ok(adopted()?)
    }

    /// Makes the store that a configuration names of a copy, by the key of its period: that of a file, or the one in the
    /// folder that the configuration names.
    ///
    /// # Errors
    /// A store that is there; a copy that is damaged; a period whose key is not there.
    pub fn restore(config: &Config, backup: &Path, key: Option<&Path>) -> Result<(), Error> {
        Ok(backups::restore(config, backup, key)?)
    }

    fn at(config: &Config) -> Result<Self, Error> {
        let size_max = config.store.size_max_mib.map(|mib| u64::from(mib) << 20);
        let file = SqliteStore::open(&config.store.path, store::Options { size_max });
        let file = Arc::new(file.map_err(gabion_kms::Error::from)?);
        let store: Arc<dyn Store> = file.clone();
        let is_initialized = AtomicBool::new(seal::is_initialised(&*store)?);
        Ok(Keeper {
            store,
            file: Some(file),
            audit: Some(config.audit.folder.clone()),
            backups: Backups::new(config)?,
            archive: config.audit.archive.clone(),
            mirror_folder: config.audit.checkpoints.clone(),
            mirror_failures: Arc::default(),
            panics: Arc::default(),
            kms: operations::Options {
                cache_bytes_max: (config.store.cache_mib as usize) << 20,
                ..operations::Options::default()
            },
            service: config.service(),
            is_initialized,
            open: RwLock::new(None),
            closing: Mutex::default(),
            given: Mutex::default(),
            recovering: Mutex::default(),
            unlocked: None,
            throttle: PassphraseThrottle::default(),
            wrapping_key_job: Arc::default(),
            makes_own_keys: false,
            clock: Arc::new(SystemClock),
            log: |_| {},
            administrator_warning: AdministratorWarning::default(),
        })
    }

    /// The verbs, if the seal is open.
    pub(crate) fn service(&self) -> Result<Arc<Service>, Problem> {
        let open = self.open.read().unwrap_or_else(PoisonError::into_inner);
        open.clone().ok_or_else(Problem::sealed)
    }

    /// Takes a share, or the passphrase. Enough of them open the seal.
    pub(crate) fn unseal(
        &self,
        by: &native::Unseal,
        peer: &Peer,
    ) -> Result<native::Sealing, Problem> {
        let (client, forgets) = (ClientAddress::of(peer), by.reset == Some(true));
        let was_open = self.service().is_ok();
        match (&by.share, &by.passphrase) {
            _ if self.service().is_ok() => {}
            (Some(_), Some(_)) => {
                return Err(Problem::bad("expected one of `share` and `passphrase`"));
            }
            (None, None) if forgets => {
                may_forget(client)?;
                self.given().clear();
            }
            // An opening that failed is tried again by the shares that were given for it.
            (None, None) if is_enough(&self.given()) && !client.is_stranger() => {
                let mut given = self.given();
                if is_enough(&given) && self.service().is_err() {
                    self.open_by(&mut given)?;
                }
            }
            (None, None) => return Err(Problem::bad("missing field `share` or `passphrase`")),
            (None, Some(passphrase)) => {
                if forgets {
                    may_forget(client)?;
                    self.given().clear();
                }
                self.try_passphrase(client, passphrase)?;
            }
            (Some(share), None) => {
                // Who has one of the set may have it count anew.
                let share = self.share(share)?;
                let mut given = self.given();
                if forgets {
                    given.clear();
                }
                if self.service().is_err() {
                    self.take(&mut given, share)?;
                }
            }
        }
        let sealing = self.sealing(&self.given());
        // Whoever opened it hears what came of that, and nobody who asks later.
        let service = self.service().ok().filter(|_| !was_open);
        let lines = service.map(|service| service.restored().lines().collect::<Vec<_>>());
        Ok(native::Sealing { restored: lines.filter(|lines| !lines.is_empty()), ..sealing })
    }

    /// Opens the seal by a passphrase. Shares are taken meanwhile: a wrong one keeps nobody waiting.
    fn try_passphrase(&self, client: ClientAddress, passphrase: &Secret) -> Result<(), Problem> {
        self.wait_for_end()?;
        let _attempt = self.throttle.begin(client)?;
        if self.service().is_ok() {
            return Ok(());
        }
        let sealer = seal::unseal(&*self.store, By::Passphrase(passphrase.expose()))?;
        let mut given = self.given();
        if self.service().is_err() {
            self.unsealed(sealer)?;
            given.clear();
        }
        Ok(())
    }

    /// Closes the seal. What runs goes on to its end.
    pub(crate) fn seal(&self) -> native::Sealing {
        let given = self.given();
        self.set(None);
        self.sealing(&given)
    }

    /// Makes a copy of the store in the folder for that.
    pub(crate) fn backup(&self) -> Result<native::BackedUp, gabion_kms::Error> {
        let (backups, file) = self.backups()?;
        backups.write(file)
    }

    /// Copies of the store, and the file that it is.
    pub(crate) fn backups(&self) -> Result<(&Backups, &SqliteStore), gabion_kms::Error> {
        match (&self.backups, &self.file) {
            (Some(backups), Some(file)) => Ok((backups, file)),
            (None, _) | (_, None) => {
                let why = "the server is not configured to make backups";
                Err(gabion_kms::Error::Unsupported(why.to_owned()))
            }
        }
    }

    /// Moves full segments of the audit log to the folder for that.
    pub(crate) fn archive(
        &self,
        service: &Service,
        call: &Call<'_>,
        keep: &Keep,
    ) -> Result<Archived, gabion_kms::Error> {
        match &self.archive {
            Some(folder) => service.audit_archive(call, folder, keep),
            None => {
                let why = "the server is not configured to archive its audit log";
                Err(gabion_kms::Error::Unsupported(why.to_owned()))
            }
        }
    }

    /// Signs how far the audit log has come. To be called each second, and at the end.
    pub(crate) fn tick(&self) {
        self.panics.catch(BackgroundThread::Clock, || {
            let Ok(service) = self.service() else { return };
            // What fails here fails with the next operation, too, and /readyz says so.
            let _ = service.checkpoint();
            let _ = service.log().prepare();
            self.administrator_warning.log(&service, self.clock.now_ms(), self.log);
            if self.makes_own_keys {
                self.wrapping_key_job.tick(&service);
            }
        });
    }

    /// The same at the end, with all that the log was not told of.
    pub(crate) fn last_tick(&self) {
        self.panics.catch(BackgroundThread::Clock, || {
            let Ok(service) = self.service() else { return };
            let _ = service.tell_of_denials(true);
        });
        self.tick();
    }

    /// Rotates one key that is due, if any is, and says whether another one may be.
    pub(crate) fn rotate_due(&self) -> bool {
        // What fails is counted, and /readyz says so.
        let rotate = |service: Arc<Service>| service.rotate_due(1).is_ok_and(|done| done.is_more);
        let rotated =
            self.panics.catch(BackgroundThread::Rotation, || self.service().is_ok_and(rotate));
        // The next key has its turn at the next look.
        rotated.unwrap_or(false)
    }

    /// Why no requests are served.
    pub(crate) fn reason(&self) -> Option<&'static str> {
        if self.unlocked.as_ref().is_some_and(|unlocked| !unlocked.is_allowed && is_swap_on()) {
            return Some("memory_not_locked");
        }
        match self.service() {
            Err(_) if !self.is_initialized.load(Ordering::Acquire) => Some("not_initialized"),
            Err(problem) => Some(problem.code),
            Ok(service) if service.log().health().is_err() => Some("audit_unwritable"),
            Ok(_) => {
                let is_broken = |file: &Arc<SqliteStore>| file.health().is_err();
                self.file.as_ref().is_some_and(is_broken).then_some("store_unavailable")
            }
        }
    }

    /// What is not as it should be, and does not stop it.
    pub(crate) fn warnings(&self) -> Vec<&'static str> {
        let is_full = self.file.as_ref().is_some_and(|file| file.is_full());
        let unlocked = self.unlocked.as_ref().map(|_| "memory_not_locked");
        let fails = self.service().is_ok_and(|service| service.is_rotation_failing());
        let full = is_full.then_some("store_full");
        let panics = self.panics.is_any().then_some("thread_failing");
        let ends = self.service().is_ok_and(|service| administrator_warning::is_due(&service));
        let ends = ends.then_some(administrator_warning::WARNING);
        let warnings = [unlocked, full, fails.then_some("rotation_failing"), panics, ends];
        warnings.into_iter().flatten().collect()
    }

    /// How it is.
    pub(crate) fn status(&self) -> native::Status {
        let service = self.service().ok();
        let identity = self.store.identity();
        native::Status {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            initialized: self.is_initialized.load(Ordering::Acquire),
            sealed: service.is_none(),
            store: identity.id.iter().map(|byte| format!("{byte:02x}")).collect(),
            incarnation: identity.incarnation,
            revision: service.map(|service| service.kms().revision()),
            warnings: Some(self.warnings().into_iter().map(str::to_owned).collect()),
        }
    }

    /// A share of this store's set. Anybody may give one: another set's is not put beside those that were given.
    fn share(&self, text: &Secret) -> Result<Share, Problem> {
        let share = read(text)?;
        match seal::is_of_its_set(&*self.store, &share)? {
            true => Ok(share),
            false => Err(Problem::other_set(share.index(), &share.set())),
        }
    }

    /// The recovery set, and how many of its shares were given. While the seal is being opened none is counted.
    pub(crate) fn progress(&self) -> Result<(Option<Shares>, usize), Problem> {
        let given = self.given.try_lock().map_or(0, |given| given.len());
        Ok((seal::recovery(&*self.store)?, given))
    }

    /// Takes one share more, and opens the seal if there are enough.
    fn take(&self, given: &mut Vec<Share>, share: Share) -> Result<(), Problem> {
        if enough(given, share)? { self.open_by(given) } else { Ok(()) }
    }

    /// Opens the seal by the shares that were given. They are kept where it fails for another reason than a wrong one.
    fn open_by(&self, given: &mut Vec<Share>) -> Result<(), Problem> {
        self.wait_for_end()?;
        let opened = seal::unseal(&*self.store, By::Shares(given));
        let opened = opened.and_then(|sealer| self.unsealed(sealer)).map_err(Problem::from);
        spend(given, &opened);
        opened
    }

    /// Takes a share for a new administrator. Enough of them open the seal if it is closed, and replace every token by one.
    pub(crate) fn recover_admin(
        &self,
        by: &native::RecoverAdmin,
        peer: &Peer,
    ) -> Result<(native::Recovering, Option<Generation>), Problem> {
        let told = |given: &[Share], token: Option<Token>| native::Recovering {
            given: given.len() as u32,
            threshold: given.first().map(|share| share.threshold().into()),
            expires_ms: token.as_ref().and_then(Token::expires_ms),
            token: token.map(|token| token.to_string().into()),
            revision: self.revision(),
            ..native::Recovering::default()
        };
        let recovering = || self.recovering.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(share) = &by.share else {
            return match by.reset {
                Some(true) => {
                    may_forget(ClientAddress::of(peer))?;
                    *recovering() = Recovery::default();
                    Ok((told(&[], None), None))
                }
                Some(false) | None => Err(Problem::bad("missing field `share`")),
            };
        };
        let share = self.share(share)?;
        let certificate = by.cnf.as_deref().map(digest).transpose()?;
        let principal = Principal::new(by.principal.as_deref().unwrap_or("first"))?;
        let lifetime_ms = by.lifetime_s.map(|seconds| seconds.saturating_mul(1000));
        // Checked before a share is used.
        lifetime_ms.map_or(Ok(()), |ms| self.service.gate.check_lifetime(ms))?;
        let mut recovery = recovering();
        if by.reset == Some(true) {
            *recovery = Recovery::default();
        }
        if recovery.shares.is_empty() {
            recovery.principal = by.principal.clone();
            (recovery.certificate, recovery.lifetime_s) = (certificate, by.lifetime_s);
        } else if (&recovery.principal, recovery.certificate, recovery.lifetime_s)
            != (&by.principal, certificate, by.lifetime_s)
        {
            // Whoever gives the last share is not to turn the others' into a token of their own.
            let why = "the shares that were given before are for another administrator, certificate or lifetime";
            return Err(Problem::bad(why).hint("`gabion kms recover-admin --reset` forgets those"));
        }
        if !enough(&mut recovery.shares, share)? {
            return Ok((told(&recovery.shares, None), None));
        }
        let recovered = self.recovered_by(&recovery.shares, &principal, certificate, lifetime_ms);
        let recovered = recovered.map(|(token, permits, generation)| {
            let listed = permits.iter().take(PERMITS_MAX).map(permit).collect();
            let recovering = native::Recovering {
                overrides_policies: Some(true),
                permits: Some(listed),
                more_permits: Some(permits.len().saturating_sub(PERMITS_MAX) as u64)
                    .filter(|&more| more > 0),
                ..told(&recovery.shares, Some(token))
            };
            (recovering, Some(generation))
        });
        spend(&mut recovery.shares, &recovered);
        recovered
    }

    /// Makes the token of a new administrator, and opens the seal for that if it is closed. Returns it with the policies that
    /// permit administration to others.
    fn recovered_by(
        &self,
        shares: &[Share],
        principal: &Principal,
        certificate: Option<[u8; 32]>,
        lifetime_ms: Option<u64>,
    ) -> Result<(Token, Vec<AdministrationPermit>, Generation), Problem> {
        let given = self.given();
        let sealer = seal::unseal(&*self.store, By::Shares(shares))?;
        if self.service().is_err() {
            self.wait_for_end()?;
            self.unsealed(sealer)?;
        }
        drop(given);
        let service = self.service()?;
        let token = service.recover(principal, certificate, lifetime_ms)?;
        Ok((token, service.gate().administration_permits(), service.generation().clone()))
    }

    /// Waits for the end of operations of the service that was sealed: the audit log is theirs until then. No request holds
    /// that service while its body comes.
    ///
    /// # Errors
    /// `closing`: some of them take longer.
    fn wait_for_end(&self) -> Result<(), Problem> {
        let closing = self.closing.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let start = Instant::now();
        while closing.strong_count() > 0 {
            if start.elapsed() >= CLOSING {
                return Err(Problem::closing());
            }
            thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    fn unsealed(&self, sealer: Sealer) -> Result<(), gabion_kms::Error> {
        let service = self.opened(sealer)?;
        self.is_initialized.store(true, Ordering::Release);
        self.set(Some(service));
        Ok(())
    }

    fn opened(&self, sealer: Sealer) -> Result<Service, gabion_kms::Error> {
        let kms = Kms::new(self.store.clone(), sealer, self.kms)?.with_clock(self.clock.clone());
        let audit = match &self.audit {
            Some(folder) => AuditAt::Folder(folder),
            None => AuditAt::Memory,
        };
        let service = Service::open(kms, &audit, self.service.clone())?;
        service.restored().lines().for_each(|line| (self.log)(&line));
        if let Some(folder) = &self.mirror_folder {
            checkpoint_copies::check(folder, &service)?;
        }
        Ok(service)
    }

    /// The service's RSA key.
    pub(crate) fn wrapping_key_job(&self) -> &Arc<WrappingKeyJob> {
        &self.wrapping_key_job
    }

    /// The second place for checkpoints.
    pub(crate) fn mirror_folder(&self) -> Option<&Path> {
        self.mirror_folder.as_deref()
    }

    /// How often that could not be written.
    pub(crate) fn mirror_failures(&self) -> &Arc<MirrorFailures> {
        &self.mirror_failures
    }

    /// Panics of threads that go on by themselves.
    pub(crate) fn panics(&self) -> &Arc<PanicCounters> {
        &self.panics
    }

    /// What it keeps on disks.
    pub(crate) fn disks(&self) -> Disks<'_> {
        Disks { store: self.file.as_deref().map(SqliteStore::path), audit: self.audit.as_deref() }
    }

    /// The newest checkpoint.
    pub(crate) fn checkpoint(&self) -> Option<Checkpoint> {
        self.service().ok()?.log().newest()
    }

    fn set(&self, service: Option<Service>) {
        let closed = {
            let mut open = self.open.write().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *open, service.map(Arc::new))
        };
        if let Some(service) = closed {
            // From here on nothing of it begins, and no byte of an answer is written.
            service.generation().close();
            let mut closing = self.closing.lock().unwrap_or_else(PoisonError::into_inner);
            *closing = service.alive();
            drop(closing);
            // The log says how far it came.
            let _ = service.checkpoint();
        }
    }

    fn sealing(&self, given: &[Share]) -> native::Sealing {
        native::Sealing {
            sealed: self.service().is_err(),
            given: given.len() as u32,
            threshold: given.first().map(|share| share.threshold().into()),
            revision: self.revision(),
            restored: None,
        }
    }

    /// The revision of the store; none while it is sealed.
    fn revision(&self) -> Option<u64> {
        Some(self.service().ok()?.revision())
    }

    fn given(&self) -> MutexGuard<'_, Vec<Share>> {
        self.given.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Refuses a stranger who would have the shares of others forgotten: again and again, so that there are never enough.
fn may_forget(client: ClientAddress) -> Result<(), Problem> {
    if !client.is_stranger() {
        return Ok(());
    }
    let why = "who gives no share has none of others' forgotten";
    Err(Problem::denied(why)
        .hint("give a share of yours with it, or ask at the server's own socket or by a client's certificate"))
}

fn read(share: &Secret) -> Result<Share, Problem> {
    share.expose().parse().map_err(|error| {
        Problem::from(gabion_kms::Error::Seal(gabion_kms::SealError::Share(error)))
    })
}

/// Takes one share more; whether there are enough.
fn enough(given: &mut Vec<Share>, share: Share) -> Result<bool, Problem> {
    // Shares of two sets make no key: the first one says which set is meant.
    if given.first().is_some_and(|first| first.set() != share.set()) {
        return Err(Problem::bad("the share is of another set than those that were given before")
            .hint("the same command with `--reset` forgets those"));
    }
    if given.iter().all(|known| known.index() != share.index()) && given.len() < GIVEN_MAX {
        given.push(share);
    }
    Ok(is_enough(given))
}

fn is_enough(given: &[Share]) -> bool {
    given.first().is_some_and(|first| given.len() >= usize::from(first.threshold()))
}

/// Forgets shares by which something was done, those of a request that can't succeed, and wrong ones: nobody knows which of
/// them it was. After a failure of the server the next try needs no new ones.
fn spend<T>(given: &mut Vec<Share>, done: &Result<T, Problem>) {
    if done.as_ref().err().is_none_or(|problem| problem.status < 500) {
        given.clear();
    }
}

fn permit(of: &AdministrationPermit) -> native::AdministrationPermit {
    native::AdministrationPermit {
        policy: of.policy.clone(),
        principal: of.principal.chars().take(PERMIT_PRINCIPAL_MAX).collect(),
        actions: of.actions.iter().map(ToString::to_string).collect(),
        conditional: of.has_conditions,
    }
}

/// A SHA-256 in hexadecimal, as a token's caveat has it.
fn digest(text: &str) -> Result<[u8; 32], Problem> {
    match format!("cnf={text}").parse()? {
        gate::Caveat::Cnf(digest) => Ok(digest),
        _ => Err(Problem::bad("`cnf` is no SHA-256 in hexadecimal")),
    }
}

/// What a token has that is bound to a certificate in PEM: `cnf=` and this.
///
/// # Errors
/// What is no certificate.
pub fn cnf(pem: &[u8]) -> Result<String, Error> {
    Ok(digest_of(pem)?.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Returns when a certificate in PEM expires, in milliseconds since 1970; `None` if it cannot be read.
pub fn certificate_end_ms(pem: &[u8]) -> Option<u64> {
    let certificate = CertificateDer::from_pem_slice(pem).ok()?;
    let seconds = crate::net::tls_files::of_certificate(&certificate)?.not_after;
    u64::try_from(seconds).ok()?.checked_mul(1000)
}

/// The SHA-256 of a certificate.
fn digest_of(pem: &[u8]) -> Result<[u8; 32], Error> {
    let certificate = CertificateDer::from_pem_slice(pem);
    let certificate = certificate
        .map_err(|error| Error::Settings(format!("that is no certificate of PEM: {error}")))?;
    Ok(Sha256::digest(&certificate).into())
}

/// The first line of a file.
fn passphrase(path: &Path) -> Result<Zeroizing<String>, Error> {
    let wrong = |reason: String| Error::Settings(format!("{}: {reason}", path.display()));
    let text = fs::read_to_string(path).map(Zeroizing::new);
    let text = text.map_err(|error| wrong(error.to_string()))?;
    match text.lines().next().filter(|line| !line.is_empty()) {
        Some(line) => Ok(Zeroizing::new(line.to_owned())),
        None => Err(wrong("its first line is empty".to_owned())),
    }
}
