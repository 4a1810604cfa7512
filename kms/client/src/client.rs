//! Calls of the service.

mod jwt;
mod secrets;
mod streams;

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use gabion_kms_wire::native::{
    Attest, Attested, BackedUp, Changed, CheckPolicy, ConfigureKey, CreateKey, CreateToken,
    DestroyKey, Destroyed, Key, Keys, Nothing, OfVersion, PolicyChanged, PolicyChecked, PolicySet,
    PolicySets, Problem, PutPolicy, RecoverAdmin, Recovering, RevokeToken, Rotated, Sealing, Sign,
    Signed, Status, TokenMade, Trim, Unseal, Verified, Verify, Versions,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use serde::Serialize;
use serde::de::DeserializeOwned;
use zeroize::Zeroizing;

pub use streams::StreamRequest;

use crate::address::Address;
use crate::connection::Connection;
use crate::error::Error;
use crate::http::{self, Body, Failure, Request, Response, SendError};

/// Where the service is, and as whom it is called.
#[derive(Clone)]
pub struct Settings {
    /// Where it is: the first of these that answers.
    pub addresses: Vec<Address>,
    /// What names the caller.
    pub token: Option<Zeroizing<String>>,
    /// PEM of the authorities that the service's certificate may come from.
    pub authorities: Option<PathBuf>,
    /// PEM of the client's certificate, and of its private key.
    pub certificate: Option<(PathBuf, PathBuf)>,
    /// How long an answer may take.
    pub timeout: Duration,
}

impl Settings {
    /// What GABION_KMS_ADDR (several by commas), GABION_KMS_TOKEN, GABION_KMS_CACERT, GABION_KMS_CERT and GABION_KMS_KEY
    /// say.
    ///
    /// # Errors
    /// [`Error::Settings`].
    pub fn from_environment() -> Result<Self, Error> {
        Self::of(|name| std::env::var_os(name))
    }

    /// What variables say. Files may have any name; of the others a text that is none is refused, and not taken for unset.
    fn of(variable: impl Fn(&str) -> Option<OsString>) -> Result<Self, Error> {
        let read = |name: &str| variable(name).filter(|value| !value.is_empty());
        let text = |name: &str| {
            let no_text = |_| Error::Settings(format!("{name} is no text (UTF-8)"));
            read(name).map(|value| value.into_string().map_err(no_text)).transpose()
        };
        let addresses = text("GABION_KMS_ADDR")?.ok_or_else(|| {
            Error::Settings(
                "GABION_KMS_ADDR is not set; expected https://HOST:PORT or unix:/PATH, as `gabion kms dev` prints it"
                    .to_owned(),
            )
        })?;
        let certificate = match (read("GABION_KMS_CERT"), read("GABION_KMS_KEY")) {
            (Some(certificate), Some(key)) => Some((certificate.into(), key.into())),
            (None, None) => None,
            (Some(_), None) | (None, Some(_)) => {
                let why =
                    "GABION_KMS_CERT and GABION_KMS_KEY belong together; one of them is not set";
                return Err(Error::Settings(why.to_owned()));
            }
        };
        Ok(Settings {
            certificate,
            addresses: addresses.split(',').map(str::parse).collect::<Result<_, _>>()?,
            token: text("GABION_KMS_TOKEN")?.map(Zeroizing::new),
            authorities: read("GABION_KMS_CACERT").map(PathBuf::from),
            timeout: Duration::from_secs(30),
        })
    }
}

/// Calls the service. Connections are kept; several threads may share one client, and each call has a connection of
/// its own.
pub struct Client {
    settings: Settings,
    tls: Arc<ClientConfig>,
    kept: Mutex<Vec<(usize, Connection)>>,
    /// The caller's name for the changes that it asks for.
    op_id: Option<String>,
}

/// How long whoever asks for a backup waits for it: it takes as long as its disk takes the store.
const LONG: Duration = Duration::from_secs(60 * 60);

/// Connections that are kept.
const KEPT_MAX: usize = 16;

impl Client {
    /// A client. It connects when it is used.
    ///
    /// # Errors
    /// [`Error::Settings`]: no authority can be read; a token that no token is.
    pub fn new(settings: &Settings) -> Result<Self, Error> {
        let is_token =
            |token: &Zeroizing<String>| token.bytes().all(|byte| byte.is_ascii_graphic());
        if !settings.token.as_ref().is_none_or(is_token) {
            let why = "the token has bytes that no token has; expected one line without spaces";
            return Err(Error::Settings(why.to_owned()));
        }
        Ok(Client {
            tls: Arc::new(tls(settings)?),
            settings: settings.clone(),
            kept: Mutex::default(),
            op_id: None,
        })
    }

    /// The same, which asks for one change of a key under a name of the caller's: asked for again within 24 hours it is not
    /// done again, and has the same answer. Calls that are no such changes are refused.
    #[must_use]
    pub fn with_op_id(self, op_id: &str) -> Self {
        Client { op_id: Some(op_id.to_owned()), ..self }
    }

    /// Makes a key.
    ///
    /// # Errors
    /// As of all calls: [`Error`].
    pub fn create(&self, key: &CreateKey) -> Result<Key, Error> {
        self.post("/v1/kms/keys", key)
    }

    /// The keys whose names come after one.
    ///
    /// # Errors
    /// As of all calls.
    pub fn list(&self, after: Option<&str>, limit: u32) -> Result<Keys, Error> {
        let after = after.map(|after| format!("&after={}", escaped(after))).unwrap_or_default();
        self.get(&format!("/v1/kms/keys?limit={limit}{after}"))
    }

    /// A key.
    ///
    /// # Errors
    /// As of all calls.
    pub fn show(&self, key: &str) -> Result<Key, Error> {
        self.get(&of_key(key, ""))
    }

    /// Versions of a key that come after one.
    ///
    /// # Errors
    /// As of all calls.
    pub fn versions(&self, key: &str, after: u32) -> Result<Versions, Error> {
        self.get(&of_key(key, &format!("/versions?after={after}")))
    }

    /// Gives a key one version more.
    ///
    /// # Errors
    /// As of all calls.
    pub fn rotate(&self, key: &str) -> Result<Rotated, Error> {
        self.post(&of_key(key, "/rotate"), &Nothing {})
    }

    /// Changes what may be done with versions, and labels.
    ///
    /// # Errors
    /// As of all calls.
    pub fn configure(&self, key: &str, to: &ConfigureKey) -> Result<Key, Error> {
        self.post(&of_key(key, "/config"), to)
    }

    /// Takes a version out of use.
    ///
    /// # Errors
    /// As of all calls.
    pub fn disable(&self, key: &str, version: u32) -> Result<Changed, Error> {
        self.post(&of_key(key, "/disable"), &OfVersion { version })
    }

    /// Puts a version into use again.
    ///
    /// # Errors
    /// As of all calls.
    pub fn enable(&self, key: &str, version: u32) -> Result<Changed, Error> {
        self.post(&of_key(key, "/enable"), &OfVersion { version })
    }

    /// Destroys the versions before one, for good.
    ///
    /// # Errors
    /// As of all calls.
    pub fn trim(&self, key: &str, before: u32) -> Result<Changed, Error> {
        self.post(&of_key(key, "/trim"), &Trim { before })
    }

    /// Deletes a key; it can be restored.
    ///
    /// # Errors
    /// As of all calls.
    pub fn delete(&self, key: &str) -> Result<Changed, Error> {
        self.call("DELETE", &of_key(key, ""), None::<&Nothing>)
    }

    /// Restores a key that was deleted.
    ///
    /// # Errors
    /// As of all calls.
    pub fn restore(&self, key: &str) -> Result<Changed, Error> {
        self.post(&of_key(key, "/restore"), &Nothing {})
    }

    /// Destroys a key that was deleted, for good.
    ///
    /// # Errors
    /// As of all calls.
    pub fn destroy(&self, key: &str) -> Result<Destroyed, Error> {
        self.post(&of_key(key, "/destroy"), &DestroyKey::default())
    }

    /// Destroys a key that was deleted, for good, and the keys of all periods of backups that may have it. By the key's id
    /// it goes on where it stopped.
    ///
    /// # Errors
    /// As of all calls.
    pub fn destroy_with_backups(&self, key: &str) -> Result<Destroyed, Error> {
        let how = DestroyKey { expire_backups: Some(true) };
        // A backup that is being made comes first.
        self.call_within(LONG, "POST", &of_key(key, "/destroy"), Some(&how))
    }

    /// Signs.
    ///
    /// # Errors
    /// As of all calls.
    pub fn sign(&self, what: &Sign) -> Result<Signed, Error> {
        self.post("/v1/kms/sign", what)
    }

    /// Verifies. A signature that is wrong is an answer; one that can't be one is refused.
    ///
    /// # Errors
    /// As of all calls.
    pub fn verify(&self, what: &Verify) -> Result<Verified, Error> {
        self.post("/v1/kms/verify", what)
    }

    /// Describes a key.
    ///
    /// # Errors
    /// As of all calls.
    pub fn attest(&self, what: &Attest) -> Result<Attested, Error> {
        self.post("/v1/kms/attest", what)
    }

    /// Gives a share or the passphrase. Needs no token.
    ///
    /// # Errors
    /// As of all calls.
    pub fn unseal(&self, by: &Unseal) -> Result<Sealing, Error> {
        self.post("/v1/kms/unseal", by)
    }

    /// Closes the seal.
    ///
    /// # Errors
    /// As of all calls.
    pub fn seal(&self) -> Result<Sealing, Error> {
        self.post("/v1/kms/seal", &Nothing {})
    }

    /// Gives a share for a new administrator. Needs no token.
    ///
    /// # Errors
    /// As of all calls.
    pub fn recover_admin(&self, by: &RecoverAdmin) -> Result<Recovering, Error> {
        self.post("/v1/kms/recover-admin", by)
    }

    /// Makes a token.
    ///
    /// # Errors
    /// As of all calls.
    pub fn create_token(&self, token: &CreateToken) -> Result<TokenMade, Error> {
        self.post("/v1/kms/tokens", token)
    }

    /// Revokes a token with all its attenuations. Tokens that it made have ids of their own.
    ///
    /// # Errors
    /// As of all calls.
    pub fn revoke_token(&self, id: &str) -> Result<Changed, Error> {
        self.post("/v1/kms/tokens/revoke", &RevokeToken { id: id.to_owned() })
    }

    /// Writes a set of policies.
    ///
    /// # Errors
    /// As of all calls.
    pub fn put_policy(&self, name: &str, text: &str) -> Result<PolicyChanged, Error> {
        self.call("PUT", &of_policy(name), Some(&PutPolicy { text: text.to_owned() }))
    }

    /// A set of policies.
    ///
    /// # Errors
    /// As of all calls.
    pub fn policy(&self, name: &str) -> Result<PolicySet, Error> {
        self.get(&of_policy(name))
    }

    /// The sets of policies.
    ///
    /// # Errors
    /// As of all calls.
    pub fn policies(&self) -> Result<PolicySets, Error> {
        self.get("/v1/kms/policies")
    }

    /// Deletes a set of policies.
    ///
    /// # Errors
    /// As of all calls.
    pub fn delete_policy(&self, name: &str) -> Result<PolicyChanged, Error> {
        self.call("DELETE", &of_policy(name), None::<&Nothing>)
    }

    /// Asks policies, which is not yet doing what it is about.
    ///
    /// # Errors
    /// As of all calls.
    pub fn check_policy(&self, what: &CheckPolicy) -> Result<PolicyChecked, Error> {
        self.post("/v1/kms/policy-check", what)
    }

    /// Makes a copy of the store, where the server is configured to put it.
    ///
    /// # Errors
    /// As of all calls.
    pub fn backup(&self) -> Result<BackedUp, Error> {
        self.call_within(LONG, "POST", "/v1/kms/backup", Some(&Nothing {}))
    }

    /// How the service is. Needs no token.
    ///
    /// # Errors
    /// As of all calls.
    pub fn status(&self) -> Result<Status, Error> {
        self.get("/v1/kms/status")
    }

    /// Any GET.
    ///
    /// # Errors
    /// As of all calls.
    pub fn get<A: DeserializeOwned>(&self, path: &str) -> Result<A, Error> {
        self.call("GET", path, None::<&Nothing>)
    }

    /// Any POST.
    ///
    /// # Errors
    /// As of all calls.
    pub fn post<A: DeserializeOwned>(&self, path: &str, body: &impl Serialize) -> Result<A, Error> {
        self.call("POST", path, Some(body))
    }

    /// Any call. `path` is percent-encoded where it has to be.
    ///
    /// # Errors
    /// [`Error::Unreachable`]: nothing was asked. [`Error::Lost`]: it may have been done. [`Error::Refused`].
    pub fn call<A: DeserializeOwned>(
        &self,
        method: &str,
        path: &str,
        body: Option<&impl Serialize>,
    ) -> Result<A, Error> {
        self.call_within(self.settings.timeout, method, path, body)
    }

    /// A call whose answer may take so long.
    fn call_within<A: DeserializeOwned>(
        &self,
        timeout: Duration,
        method: &str,
        path: &str,
        body: Option<&impl Serialize>,
    ) -> Result<A, Error> {
        let body = body.map(serde_json::to_vec).transpose();
        let body = body.map_err(|error| Error::Settings(error.to_string()))?;
        let body = Zeroizing::new(body.unwrap_or_default());
        let named = self.op_id.as_ref().filter(|_| method != "GET").map(|op_id| {
            let sign = if path.contains('?') { '&' } else { '?' };
            format!("{path}{sign}op_id={}", escaped(op_id))
        });
        let path = named.as_deref().unwrap_or(path);
        let (address, response) = self.exchanged(timeout, method, path, &body)?;
        answer(address, &response)
    }

    /// A POST whose body is a message itself.
    fn stream<A: DeserializeOwned>(&self, path: &str, body: Body<'_>) -> Result<A, Error> {
        if self.op_id.is_some() {
            let why = "an op_id is for changes, and this changes nothing".to_owned();
            return Err(Error::Settings(why));
        }
        let (place, mut connection) = self.connected()?;
        let address = &self.settings.addresses[place];
        let mut read = Vec::new();
        let head = self.request("POST", path, address);
        let begun = http::begin(&mut connection, &head, &body)
            .map_err(Failure::Io)
            .and_then(|()| http::may_send(&mut connection, &mut read))
            .map_err(|failure| failed(address, failure))?;
        let response = match begun {
            Some(refusal) => refusal,
            None => {
                let sent = http::send_body(&mut connection, body);
                if let Err(SendError::Message(reason)) = sent {
                    // The connection ends before the body does: nothing is signed.
                    return Err(Error::Message(reason));
                }
                // Who refuses a request early may answer before it was read to its end.
                match (http::receive(&mut connection, &mut read), sent) {
                    (Ok(response), _) => response,
                    (Err(Failure::Io(_)), Err(SendError::Io(error))) => {
                        return Err(failed(address, Failure::Io(error)));
                    }
                    (Err(failure), _) => return Err(failed(address, failure)),
                }
            }
        };
        if response.is_kept && (200..=299).contains(&response.status) {
            self.keep(place, connection);
        }
        answer(address, &response)
    }

    fn request<'a>(&'a self, method: &'a str, path: &'a str, address: &Address) -> Request<'a> {
        let host = match address {
            Address::Tls { .. } => address.to_string(),
            Address::Unix(_) => "https://localhost".to_owned(),
        };
        let host = host.trim_start_matches("https://").to_owned();
        let token = self.settings.token.as_ref().map(|token| token.as_str());
        Request { method, path, host, token }
    }

    fn keep(&self, place: usize, connection: Connection) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() < KEPT_MAX {
            kept.push((place, connection));
        }
    }

    fn exchanged(
        &self,
        timeout: Duration,
        method: &str,
        path: &str,
        body: &[u8],
    ) -> Result<(&Address, Response), Error> {
        let (place, mut connection) = self.connected()?;
        let address = &self.settings.addresses[place];
        let waits = |connection: &Connection, timeout| {
            connection.set_timeout(timeout).map_err(|error| failed(address, Failure::Io(error)))
        };
        // Nothing was asked yet.
        waits(&connection, timeout)?;
        let sent = http::send(&mut connection, &self.request(method, path, address), body);
        // Who refuses a request early may answer before it was read to its end.
        let response = match (http::receive(&mut connection, &mut Vec::new()), sent) {
            (Ok(response), _) => response,
            (Err(Failure::Io(_)), Err(error)) => {
                return Err(failed(address, Failure::Io(error)));
            }
            (Err(failure), _) => return Err(failed(address, failure)),
        };
        if response.is_kept && waits(&connection, self.settings.timeout).is_ok() {
            self.keep(place, connection);
        }
        Ok((address, response))
    }

    /// A connection on which nothing was asked, or all was answered.
    fn connected(&self) -> Result<(usize, Connection), Error> {
        loop {
            let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner).pop();
            match kept {
                Some((place, connection)) if connection.is_quiet() => {
                    return Ok((place, connection));
                }
                Some(_) => {}
                None => break,
            }
        }
        let mut failure = Error::Settings("there is no address of the service".to_owned());
        for (place, address) in self.settings.addresses.iter().enumerate() {
            match Connection::open(address, &self.tls, self.settings.timeout) {
                Ok(connection) => return Ok((place, connection)),
                Err(error) => failure = error,
            }
        }
        Err(failure)
    }
}

/// What an answer says.
fn answer<A: DeserializeOwned>(address: &Address, response: &Response) -> Result<A, Error> {
    let foreign = |error: serde_json::Error| Error::Foreign {
        address: address.to_string(),
        reason: error.to_string(),
    };
    match response.status {
        200..=299 => serde_json::from_slice(&response.body).map_err(foreign),
        _ => {
            let problem: Problem = serde_json::from_slice(&response.body).map_err(foreign)?;
            Err(Error::Refused(Box::new(problem)))
        }
    }
}

/// Why there is no answer.
fn failed(address: &Address, failure: Failure) -> Error {
    let address = address.to_string();
    match failure {
        Failure::Form(reason) => Error::Foreign { address, reason },
        Failure::Io(error) => Error::Lost { address, reason: error.to_string() },
    }
}

/// Where the system keeps its authorities.
const SYSTEM: [&str; 3] =
    ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"];

fn tls(settings: &Settings) -> Result<ClientConfig, Error> {
    let mut roots = RootCertStore::empty();
    let needs = settings.addresses.iter().any(|address| matches!(address, Address::Tls { .. }));
    let system = || SYSTEM.map(PathBuf::from).into_iter().find(|path| path.is_file());
    if let Some(path) = settings.authorities.clone().or_else(system).filter(|_| needs) {
        let wrong = |reason: String| {
            Error::Settings(format!("cannot take authorities from {}: {reason}", path.display()))
        };
        let text = fs::read(&path).map_err(|error| wrong(error.to_string()))?;
        let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
        let certificates = certificates.map_err(|error| wrong(error.to_string()))?;
        if roots.add_parsable_certificates(certificates).0 == 0 {
            return Err(wrong("there is none in it".to_owned()));
        }
    }
    let provider = Arc::new(gabion_rustls::provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(|error| Error::Settings(error.to_string()))?;
    let config = config.with_root_certificates(roots);
    let Some((certificate, key)) = &settings.certificate else {
        return Ok(config.with_no_client_auth());
    };
    let wrong = |path: &PathBuf, reason: String| {
        Error::Settings(format!("cannot take the client's {}: {reason}", path.display()))
    };
    let chain: Result<Vec<_>, _> =
        CertificateDer::pem_file_iter(certificate).and_then(Iterator::collect);
    let chain = chain.map_err(|error| wrong(certificate, error.to_string()))?;
    let private =
        PrivateKeyDer::from_pem_file(key).map_err(|error| wrong(key, error.to_string()))?;
    config.with_client_auth_cert(chain, private).map_err(|error| wrong(key, error.to_string()))
}

/// The path of a key, which is named or has an id.
fn of_key(key: &str, rest: &str) -> String {
    format!("/v1/kms/keys/{}{rest}", escaped(key))
}

/// The path of a set of policies.
fn of_policy(name: &str) -> String {
    format!("/v1/kms/policies/{}", escaped(name))
}

/// A text as one segment of a path, or as a value of a query.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            true => escaped.push(char::from(byte)),
            false => escaped.push_str(&format!("%{byte:02X}")),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt;

    use super::*;

    #[test]
    fn a_variable_that_is_no_text_is_refused_and_a_file_may_have_any_name() {
        let odd = || OsString::from_vec(b"od\xffd".to_vec());
        let of = |odd_one: &str| {
            Settings::of(|name| match name {
                _ if name == odd_one => Some(odd()),
                "GABION_KMS_ADDR" => Some("https://kms".into()),
                "GABION_KMS_CERT" => Some("cert".into()),
                "GABION_KMS_KEY" => Some("key".into()),
                _ => None,
            })
        };
        for name in ["GABION_KMS_ADDR", "GABION_KMS_TOKEN"] {
            let refused = of(name).err().unwrap().to_string();
            assert!(refused.starts_with(name) && refused.contains("no text"), "{refused}");
        }
        assert_eq!(of("GABION_KMS_CACERT").unwrap().authorities, Some(odd().into()));
        let certificate = |name| of(name).unwrap().certificate.unwrap();
        assert_eq!(certificate("GABION_KMS_CERT").0, PathBuf::from(odd()));
        assert_eq!(certificate("GABION_KMS_KEY").1, PathBuf::from(odd()));
    }

    #[test]
    fn keys_are_one_segment() {
        assert_eq!(of_key("a.b-1_", "/rotate"), "/v1/kms/keys/a.b-1_/rotate");
        assert_eq!(of_key("a/b#v1 ü", ""), "/v1/kms/keys/a%2Fb%23v1%20%C3%BC");
    }
}
