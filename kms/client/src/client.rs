//! The client and its calls.

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

/// The settings of a client.
#[derive(Clone)]
pub struct Settings {
    /// The addresses of the service. The first one that answers is used.
    pub addresses: Vec<Address>,
    /// The token of the caller.
    pub token: Option<Zeroizing<String>>,
    /// A PEM file with the authorities of the service's certificate.
    pub authorities: Option<PathBuf>,
    /// PEM files with the client certificate and its private key.
    pub certificate: Option<(PathBuf, PathBuf)>,
    /// The time limit of an answer.
    pub timeout: Duration,
}

impl Settings {
    /// Reads GABION_KMS_ADDR (one or more, separated by commas), GABION_KMS_TOKEN,
    /// GABION_KMS_CACERT, GABION_KMS_CERT and GABION_KMS_KEY.
    ///
    /// # Errors
    /// [`Error::Settings`].
    pub fn from_environment() -> Result<Self, Error> {
        Self::of(|name| std::env::var_os(name))
    }

    /// Reads the variables. File names may have any bytes. Other values that are not UTF-8 are
    /// rejected, instead of treated as unset.
    fn of(variable: impl Fn(&str) -> Option<OsString>) -> Result<Self, Error> {
        let read = |name: &str| variable(name).filter(|value| !value.is_empty());
        let text = |name: &str| {
            let no_text = |_| Error::Settings(format!("{name} is not UTF-8"));
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

/// A client of the service. It keeps connections open. Several threads may share one client;
/// concurrent calls use separate connections.
pub struct Client {
    settings: Settings,
    tls: Arc<ClientConfig>,
    kept: Mutex<Vec<(usize, Connection)>>,
    /// The `op_id` of changes.
    op_id: Option<String>,
}

/// The time limit of a backup, which takes as long as the disk needs to write the store.
const LONG: Duration = Duration::from_secs(60 * 60);

/// The maximum number of idle connections.
const KEPT_MAX: usize = 16;

impl Client {
    /// Creates a client. It connects on the first call.
    ///
    /// # Errors
    /// [`Error::Settings`] if no authority can be read, or the token is malformed.
    pub fn new(settings: &Settings) -> Result<Self, Error> {
        let is_token =
            |token: &Zeroizing<String>| token.bytes().all(|byte| byte.is_ascii_graphic());
        if !settings.token.as_ref().is_none_or(is_token) {
            let why = "the token contains invalid characters; expected one line without spaces";
            return Err(Error::Settings(why.to_owned()));
        }
        Ok(Client {
            tls: Arc::new(tls(settings)?),
            settings: settings.clone(),
            kept: Mutex::default(),
            op_id: None,
        })
    }

    /// Returns a client that makes one change under an `op_id`. If the change is repeated within 24
    /// hours, it is not made again, and has the same answer. GET requests are sent without it.
    /// Other calls that do not support an `op_id` fail.
    #[must_use]
    pub fn with_op_id(self, op_id: &str) -> Self {
        Client { op_id: Some(op_id.to_owned()), ..self }
    }

    /// Creates a key.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn create(&self, key: &CreateKey) -> Result<Key, Error> {
        self.post("/v1/kms/keys", key)
    }

    /// Lists keys, beginning after a name.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn list(&self, after: Option<&str>, limit: u32) -> Result<Keys, Error> {
        let after = after.map(|after| format!("&after={}", escaped(after))).unwrap_or_default();
        self.get(&format!("/v1/kms/keys?limit={limit}{after}"))
    }

    /// Describes a key.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn show(&self, key: &str) -> Result<Key, Error> {
        self.get(&of_key(key, ""))
    }

    /// Lists the versions of a key, beginning after a number.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn versions(&self, key: &str, after: u32) -> Result<Versions, Error> {
        self.get(&of_key(key, &format!("/versions?after={after}")))
    }

    /// Adds a version to a key.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn rotate(&self, key: &str) -> Result<Rotated, Error> {
        self.post(&of_key(key, "/rotate"), &Nothing {})
    }

    /// Changes a key's configuration and labels.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn configure(&self, key: &str, to: &ConfigureKey) -> Result<Key, Error> {
        self.post(&of_key(key, "/config"), to)
    }

    /// Disables a version.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn disable(&self, key: &str, version: u32) -> Result<Changed, Error> {
        self.post(&of_key(key, "/disable"), &OfVersion { version })
    }

    /// Enables a version.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn enable(&self, key: &str, version: u32) -> Result<Changed, Error> {
        self.post(&of_key(key, "/enable"), &OfVersion { version })
    }

    /// Destroys the versions before `before` permanently.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn trim(&self, key: &str, before: u32) -> Result<Changed, Error> {
        self.post(&of_key(key, "/trim"), &Trim { before })
    }

    /// Deletes a key, which can be restored.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn delete(&self, key: &str) -> Result<Changed, Error> {
        self.call("DELETE", &of_key(key, ""), None::<&Nothing>)
    }

    /// Restores a deleted key.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn restore(&self, key: &str) -> Result<Changed, Error> {
        self.post(&of_key(key, "/restore"), &Nothing {})
    }

    /// Destroys a deleted key permanently.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn destroy(&self, key: &str) -> Result<Destroyed, Error> {
        self.post(&of_key(key, "/destroy"), &DestroyKey::default())
    }

    /// Destroys a deleted key permanently, and the keys of all backup periods that may contain it.
    /// With the key's id, another call continues an interrupted one.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn destroy_with_backups(&self, key: &str) -> Result<Destroyed, Error> {
        let how = DestroyKey { expire_backups: Some(true) };
        // A running backup comes first.
        self.call_within(LONG, "POST", &of_key(key, "/destroy"), Some(&how))
    }

    /// Signs.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn sign(&self, what: &Sign) -> Result<Signed, Error> {
        self.post("/v1/kms/sign", what)
    }

    /// Verifies a signature. A wrong signature is an answer; bytes that cannot be a signature are
    /// an error.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn verify(&self, what: &Verify) -> Result<Verified, Error> {
        self.post("/v1/kms/verify", what)
    }

    /// Returns a signed description of a key.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn attest(&self, what: &Attest) -> Result<Attested, Error> {
        self.post("/v1/kms/attest", what)
    }

    /// Gives a share or the passphrase to unseal the service. Needs no token.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn unseal(&self, by: &Unseal) -> Result<Sealing, Error> {
        self.post("/v1/kms/unseal", by)
    }

    /// Seals the service.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn seal(&self) -> Result<Sealing, Error> {
        self.post("/v1/kms/seal", &Nothing {})
    }

    /// Gives a share to recover an administrator. Needs no token.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn recover_admin(&self, by: &RecoverAdmin) -> Result<Recovering, Error> {
        self.post("/v1/kms/recover-admin", by)
    }

    /// Makes a token.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn create_token(&self, token: &CreateToken) -> Result<TokenMade, Error> {
        self.post("/v1/kms/tokens", token)
    }

    /// Revokes a token with all its attenuations. Tokens that it made have ids of their own and
    /// stay valid.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn revoke_token(&self, id: &str) -> Result<Changed, Error> {
        self.post("/v1/kms/tokens/revoke", &RevokeToken { id: id.to_owned() })
    }

    /// Writes a set of policies.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn put_policy(&self, name: &str, text: &str) -> Result<PolicyChanged, Error> {
        self.call("PUT", &of_policy(name), Some(&PutPolicy { text: text.to_owned() }))
    }

    /// Returns a set of policies.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn policy(&self, name: &str) -> Result<PolicySet, Error> {
        self.get(&of_policy(name))
    }

    /// Returns all sets of policies.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn policies(&self) -> Result<PolicySets, Error> {
        self.get("/v1/kms/policies")
    }

    /// Deletes a set of policies.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn delete_policy(&self, name: &str) -> Result<PolicyChanged, Error> {
        self.call("DELETE", &of_policy(name), None::<&Nothing>)
    }

    /// Queries the policies about an action, without doing it.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn check_policy(&self, what: &CheckPolicy) -> Result<PolicyChecked, Error> {
        self.post("/v1/kms/policy-check", what)
    }

    /// Makes a backup of the store in the server's configured folder.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn backup(&self) -> Result<BackedUp, Error> {
        self.call_within(LONG, "POST", "/v1/kms/backup", Some(&Nothing {}))
    }

    /// Returns the status of the service. Needs no token.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn status(&self) -> Result<Status, Error> {
        self.get("/v1/kms/status")
    }

    /// Sends a GET request.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn get<A: DeserializeOwned>(&self, path: &str) -> Result<A, Error> {
        self.call("GET", path, None::<&Nothing>)
    }

    /// Sends a POST request.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn post<A: DeserializeOwned>(&self, path: &str, body: &impl Serialize) -> Result<A, Error> {
        self.call("POST", path, Some(body))
    }

    /// Sends a request. `path` has to be percent-encoded.
    ///
    /// # Errors
    /// [`Error::Unreachable`] if no request was sent; [`Error::Lost`] if it may have been
    /// processed; [`Error::Refused`].
    pub fn call<A: DeserializeOwned>(
        &self,
        method: &str,
        path: &str,
        body: Option<&impl Serialize>,
    ) -> Result<A, Error> {
        self.call_within(self.settings.timeout, method, path, body)
    }

    /// Sends a request with a given time limit.
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

    /// Sends a POST request whose body is a message.
    fn stream<A: DeserializeOwned>(&self, path: &str, body: Body<'_>) -> Result<A, Error> {
        if self.op_id.is_some() {
            let why = "an op_id is only possible for changes".to_owned();
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
                    // The connection is closed before the body is complete, so nothing is signed.
                    return Err(Error::Message(reason));
                }
                // The server may reject a request before it has read all of it.
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
        // No request was sent yet.
        waits(&connection, timeout)?;
        let sent = http::send(&mut connection, &self.request(method, path, address), body);
        // The server may reject a request before it has read all of it.
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

    /// Returns an idle connection, or a new one.
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
        let mut failure = Error::Settings("no address of the service is set".to_owned());
        for (place, address) in self.settings.addresses.iter().enumerate() {
            match Connection::open(address, &self.tls, self.settings.timeout) {
                Ok(connection) => return Ok((place, connection)),
                Err(error) => failure = error,
            }
        }
        Err(failure)
    }
}

/// Parses a response.
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

/// Converts a failure to an error.
fn failed(address: &Address, failure: Failure) -> Error {
    let address = address.to_string();
    match failure {
        Failure::Form(reason) => Error::Foreign { address, reason },
        Failure::Io(error) => Error::Lost { address, reason: error.to_string() },
    }
}

/// The system's certificate authorities.
const SYSTEM: [&str; 3] =
    ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"];

fn tls(settings: &Settings) -> Result<ClientConfig, Error> {
    let mut roots = RootCertStore::empty();
    let needs = settings.addresses.iter().any(|address| matches!(address, Address::Tls { .. }));
    let system = || SYSTEM.map(PathBuf::from).into_iter().find(|path| path.is_file());
    if let Some(path) = settings.authorities.clone().or_else(system).filter(|_| needs) {
        let wrong = |reason: String| {
            Error::Settings(format!("cannot read authorities from {}: {reason}", path.display()))
        };
        let text = fs::read(&path).map_err(|error| wrong(error.to_string()))?;
        let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
        let certificates = certificates.map_err(|error| wrong(error.to_string()))?;
        if roots.add_parsable_certificates(certificates).0 == 0 {
            return Err(wrong("it contains no certificate".to_owned()));
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
        Error::Settings(format!("cannot read the client's {}: {reason}", path.display()))
    };
    let chain: Result<Vec<_>, _> =
        CertificateDer::pem_file_iter(certificate).and_then(Iterator::collect);
    let chain = chain.map_err(|error| wrong(certificate, error.to_string()))?;
    let private =
        PrivateKeyDer::from_pem_file(key).map_err(|error| wrong(key, error.to_string()))?;
    config.with_client_auth_cert(chain, private).map_err(|error| wrong(key, error.to_string()))
}

/// Returns the path of a key, given by name or id.
fn of_key(key: &str, rest: &str) -> String {
    format!("/v1/kms/keys/{}{rest}", escaped(key))
}

/// Returns the path of a set of policies.
fn of_policy(name: &str) -> String {
    format!("/v1/kms/policies/{}", escaped(name))
}

/// Percent-encodes a text as one path segment or query value.
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
            assert!(refused.starts_with(name) && refused.contains("not UTF-8"), "{refused}");
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
