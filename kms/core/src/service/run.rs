//! What every verb goes through.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use crate::audit::{Class, Digest, Log, Outcome, Record};
use crate::error::{Denied, Error};
use crate::gate::{Authenticated, Gate, Method, Peer, Principal, Request};
use crate::model::{KeyId, Label};
use crate::operations::Kms;
use crate::seal::Key;

/// Keys, who may use them, and what is told of that.
///
/// # Examples
/// ```
/// use gabion_kms::Message;
/// use gabion_kms::gate::{Peer, Principal};
/// use gabion_kms::model::Label;
/// use gabion_kms::operations::{Kms, NewKey};
/// use gabion_kms::service::{AuditAt, Call, KeyRef, Options, Service};
///
/// let service = Service::open(Kms::in_memory()?, &AuditAt::Memory, Options::default())?;
/// let token = service.first_token(&Principal::new("me")?)?.to_string();
///
/// let who = service.authenticate(&token, &Peer::default())?;
/// let call = Call { who: &who, request_id: "r-1" };
/// let [tenant, purpose, name] = ["default", "transit", "web"].map(|text| Label::new("key", text));
/// let (tenant, purpose, name) = (tenant?, purpose?, name?);
/// let key = KeyRef { tenant: &tenant, name: &name };
/// let algorithm = "ed25519".parse()?;
/// let new = NewKey { tenant: tenant.clone(), purpose, name: name.clone(), algorithm };
/// service.create(&call, &new)?;
/// let message = Message::Pure { context: b"", message: b"text" };
/// let signed = service.sign(&call, &key, None, message)?;
/// assert!(service.verify(&call, &key, signed.by.version, message, &signed.signature)?);
/// # Ok::<(), gabion_kms::Error>(())
/// ```
pub struct Service {
    pub(super) kms: Kms,
    pub(super) gate: Gate,
    pub(super) log: Log,
    pub(super) class: Class,
    /// Those who could not be authenticated.
    pub(super) strangers: AtomicU64,
    /// What secrets are told of by.
    pub(super) digests: Key,
    /// How much of the log the store knows of.
    pub(super) known: Mutex<u64>,
}

/// Who calls, and which request it is.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    /// Who.
    pub who: &'a Authenticated,
    /// Which request: the front's name for it, of which the log takes 128 bytes.
    pub request_id: &'a str,
}

/// A key, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyRef<'a> {
    /// Whose.
    pub tenant: &'a Label,
    /// What they call it.
    pub name: &'a Label,
}

/// What is told of an operation, beside who asked for what.
#[derive(Clone)]
pub(super) struct Told {
    pub key: Option<String>,
    pub input: Option<Digest>,
    pub output: Option<Digest>,
    pub outcome: Outcome,
}

/// Most characters of a request's name.
const REQUEST_ID_MAX: usize = 128;

impl Service {
    /// Takes whoever has a token for whom it says.
    ///
    /// # Errors
    /// [`Error::Unauthenticated`].
    pub fn authenticate(&self, token: &str, peer: &Peer) -> Result<Authenticated, Error> {
        Ok(self.gate.authenticate(token, peer, now_ms()).inspect_err(|_| {
            self.strangers.fetch_add(1, Ordering::Relaxed);
        })?)
    }

    /// Takes somebody for whom a certificate names, which was verified already.
    pub fn of_certificate(&self, principal: Principal, peer: &Peer) -> Authenticated {
        self.gate.of_certificate(principal, peer)
    }

    /// How often somebody was not authenticated.
    pub fn strangers(&self) -> u64 {
        self.strangers.load(Ordering::Relaxed)
    }

    /// The audit log.
    pub fn log(&self) -> &Log {
        &self.log
    }

    /// The keys, for what nobody calls: metrics, what is cached.
    pub fn kms(&self) -> &Kms {
        &self.kms
    }

    /// The gate.
    pub fn gate(&self) -> &Gate {
        &self.gate
    }

    /// Runs a use: nothing of it stays but its answer and its record.
    pub(super) fn used<T>(
        &self,
        call: &Call<'_>,
        request: &Request<'_>,
        input: Option<Digest>,
        operate: impl FnOnce() -> Result<T, Error>,
        told: impl FnOnce(&T) -> Told,
        again: impl FnOnce(&T) -> Result<(), Error>,
    ) -> Result<T, Error> {
        self.used_as(self.class, call, request, input, operate, told, again)
    }

    /// Runs a use whose record is of a class.
    #[allow(clippy::too_many_arguments, reason = "each is one step of a use")]
    pub(super) fn used_as<T>(
        &self,
        class: Class,
        call: &Call<'_>,
        request: &Request<'_>,
        input: Option<Digest>,
        operate: impl FnOnce() -> Result<T, Error>,
        told: impl FnOnce(&T) -> Told,
        again: impl FnOnce(&T) -> Result<(), Error>,
    ) -> Result<T, Error> {
        self.permit(call, request, input)?;
        let done = operate().or_else(|error| self.failed(call, request, input, error))?;
        let told = told(&done);
        self.log.append(&[record(call, request, told.clone())], class)?;
        let still = self.allowed(call, request).and_then(|()| again(&done));
        if let Err(error) = still {
            let withheld = Told { outcome: Outcome::Withheld, ..told };
            self.log.append_at_last(&[record(call, request, withheld)], class)?;
            return Err(hidden(error, request));
        }
        Ok(done)
    }

    /// Runs a change: it is told of before it begins, and what came of it afterwards.
    pub(super) fn changed<T>(
        &self,
        call: &Call<'_>,
        request: &Request<'_>,
        operate: impl FnOnce() -> Result<T, Error>,
        key: impl FnOnce(&T) -> Option<String>,
    ) -> Result<T, Error> {
        self.permit(call, request, None)?;
        let of = |key, outcome| Told { key, input: None, output: None, outcome };
        let begun = record(call, request, of(None, Outcome::Begun));
        self.log.append(&[begun], Class::Durable)?;
        let done = operate();
        let told = match &done {
            Ok(done) => of(key(done), Outcome::Done),
            Err(error) => of(None, Outcome::Failed(error.code())),
        };
        self.log.append_at_last(&[record(call, request, told)], Class::Durable)?;
        done
    }

    /// Whether somebody may do something. Where they may not, that is told of.
    pub(super) fn permit(
        &self,
        call: &Call<'_>,
        request: &Request<'_>,
        input: Option<Digest>,
    ) -> Result<(), Error> {
        self.allowed(call, request)
            .or_else(|error| self.failed(call, request, input, error))
            .map_err(|error| hidden(error, request))
    }

    pub(super) fn allowed(&self, call: &Call<'_>, request: &Request<'_>) -> Result<(), Error> {
        Ok(self.gate.allow(&self.kms, call.who, request, now_ms())?)
    }

    /// Tells of what failed.
    fn failed<T>(
        &self,
        call: &Call<'_>,
        request: &Request<'_>,
        input: Option<Digest>,
        error: Error,
    ) -> Result<T, Error> {
        let outcome = Outcome::Failed(error.code());
        let told = Told { key: None, input, output: None, outcome };
        self.log.append(&[record(call, request, told)], self.class)?;
        Err(error)
    }

    /// What is told of a secret.
    pub(super) fn keyed(&self, secret: &[u8]) -> Digest {
        Digest::keyed(self.digests.bytes(), secret)
    }

    /// The key of a name.
    pub(super) fn find(&self, key: &KeyRef<'_>) -> Result<KeyId, Error> {
        self.kms.find(key.tenant, key.name)
    }
}

/// What the log is told.
pub(super) fn record(call: &Call<'_>, request: &Request<'_>, told: Told) -> Record {
    let Told { key, input, output, outcome } = told;
    Record {
        time_ms: now_ms(),
        request_id: call.request_id.chars().take(REQUEST_ID_MAX).collect(),
        principal: call.who.principal().clone(),
        method: match call.who.method() {
            Method::Token { id } => format!("token:{id}"),
            Method::Certificate => "certificate".to_owned(),
            Method::Local => "local".to_owned(),
        },
        action: request.action,
        tenant: request.tenant.cloned(),
        key: key.or_else(|| request.key.map(str::to_owned)),
        input,
        output,
        outcome,
        revision: None,
    }
}

/// What somebody is told of a key that they may not see: that there is none.
pub(super) fn hidden(error: Error, request: &Request<'_>) -> Error {
    match (error, request.key) {
        (Error::Denied(Denied::Tenant | Denied::Key | Denied::Unseen), Some(name)) => {
            Error::NoKey(name.to_owned())
        }
        (error, _) => error,
    }
}

/// Milliseconds since 1970, by a clock that may be wrong.
pub(super) fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| since.as_millis() as u64)
}
