//! Giving a store its seal, or another one.

use gabion_engine::Engine;
use gabion_kms::gate::{Action, Principal};
use gabion_kms::seal::{self, Cost, Holder, Share, Shares, Slots, UnsealMethod};
use gabion_kms::service::Call;
use gabion_kms::store::SqliteStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

use super::backups::Backups;
use super::seal_state::{LogSink, SealState};
use super::service_host::ServiceHost;
use crate::config::Config;
use crate::error::Error;
use crate::net::tls_files;

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

impl ServiceHost {
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
            let (seal, _file) = SealState::at(config, |_| {})?;
            Backups::new(config)?;
            let dealt = seal::init(&*seal.store, &initial.slots())?;
            let texts = initial.texts(dealt.shares())?;
            Ok((seal, dealt, texts))
        };
        let (seal, dealt, texts) = dealt()?;
        for text in texts {
            hand_out(text)?;
        }
        let adopted = || -> Result<_, Error> {
            let sealer = dealt.adopt(&*seal.store, dealt.shares())?;
            let service = seal.new_service(sealer)?;
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
            let (mut seal, _file) = SealState::at(config, log)?;
            Backups::new(config)?;
            // Enough shares are given for this, by somebody who sees what it says.
            seal.options.takes_older = true;
            let dealt = seal::change_slots(&*seal.store, &given, &initial.slots())?;
            let texts = initial.texts(dealt.shares())?;
            let service =
                seal.new_service(seal::unseal(&*seal.store, UnsealMethod::Shares(&given))?)?;
            Ok((seal, dealt, texts, service))
        };
        let (seal, dealt, texts, service) = opened()?;
        for text in texts {
            hand_out(text)?;
        }
        let adopted = || -> Result<(), Error> {
            let who = service.gate().local(Principal::new("reseal")?);
            let adopt = || dealt.adopt(&*seal.store, dealt.shares()).map(drop);
            service.administer(&Call::new(&who, "reseal"), Action::Seal, adopt)?;
            service.checkpoint()?;
            Ok(())
        };
        Ok(adopted()?)
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
    let seconds = tls_files::of_certificate(&certificate)?.not_after;
    u64::try_from(seconds).ok()?.checked_mul(1000)
}

/// The SHA-256 of a certificate.
fn digest_of(pem: &[u8]) -> Result<[u8; 32], Error> {
    let certificate = CertificateDer::from_pem_slice(pem);
    let certificate = certificate
        .map_err(|error| Error::Settings(format!("that is no certificate of PEM: {error}")))?;
    Ok(Sha256::digest(&certificate).into())
}
