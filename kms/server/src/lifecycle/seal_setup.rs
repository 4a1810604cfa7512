//! Creating the seal of a store, and replacing it.

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
    /// The number of shares.
    pub shares: u8,
    /// The number of shares that open the seal.
    pub threshold: u8,
    /// An additional passphrase.
    pub passphrase: Option<&'a str>,
    /// The PEM of the certificate that the first token is bound to.
    pub certificate: Option<&'a [u8]>,
    /// The lifetime of the first token in seconds; 90 days if `None`.
    pub lifetime_s: Option<u64>,
    /// The holders for whom the shares are wrapped, in the order of the shares. If empty, the
    /// shares are handed out in clear.
    pub holders: &'a [Holder],
}

impl SealSetup<'_> {
    /// Checks the number of holders, before anything is created.
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

    /// Returns the texts of the shares, all of them before the first one is handed out.
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
    /// Creates the seal of a store, and a token with all permissions. The shares are handed out
    /// before anything is stored.
    ///
    /// # Errors
    /// A store that has a seal, or is in use; invalid numbers of shares or holders; a missing
    /// certificate if administration requires one; errors of `hand_out`.
    pub fn init<E: From<Error>>(
        config: &Config,
        initial: &SealSetup<'_>,
        mut hand_out: impl FnMut(Zeroizing<String>) -> Result<(), E>,
    ) -> Result<Zeroizing<String>, E> {
        let certificate = initial.certificate.map(digest_of).transpose()?;
        if certificate.is_none() && config.service().gate.needs_certificate_for_administration {
            // The token could neither make other tokens nor read the log, and there would be no
            // other token.
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

    /// Replaces the passphrase and all shares, with enough shares of the current recovery set,
    /// while no process serves the store. The new shares are handed out before anything is changed.
    /// Records are not changed.
    ///
    /// # Errors
    /// A store that is in use or has no seal; shares that do not open it; invalid numbers of
    /// shares; errors of `hand_out`. After [`gabion_kms::Error::OutcomeUnknown`] either the new or
    /// the previous shares open the seal: keep both.
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
            // The operator gives enough shares for this, and sees the report.
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

/// Returns the value of a token's `cnf` caveat for a certificate in PEM.
///
/// # Errors
/// An invalid certificate.
pub fn cnf(pem: &[u8]) -> Result<String, Error> {
    Ok(digest_of(pem)?.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Returns when a certificate in PEM expires, in milliseconds since 1970; `None` if it cannot be
/// parsed.
pub fn certificate_end_ms(pem: &[u8]) -> Option<u64> {
    let certificate = CertificateDer::from_pem_slice(pem).ok()?;
    let seconds = tls_files::of_certificate(&certificate)?.not_after;
    u64::try_from(seconds).ok()?.checked_mul(1000)
}

/// Returns the SHA-256 of a certificate.
fn digest_of(pem: &[u8]) -> Result<[u8; 32], Error> {
    let certificate = CertificateDer::from_pem_slice(pem);
    let certificate = certificate
        .map_err(|error| Error::Settings(format!("not a certificate in PEM: {error}")))?;
    Ok(Sha256::digest(&certificate).into())
}
