//! Endpoints (SSL_CTX) and connections (SSL) over memory.

use std::ffi::{CStr, c_char, c_int, c_long, c_void};
use std::ptr;

use super::symbols::{Bio, Ssl, SslCtx};
use super::{Certificate, Context, Error, Handle, Key, Ossl, c_string};

const TLS1_3_VERSION: c_long = 0x0304;
const SSL_CTRL_MODE: c_int = 33;
const SSL_CTRL_SET_SESS_CACHE_MODE: c_int = 44;
const SSL_CTRL_SET_TLSEXT_HOSTNAME: c_int = 55;
const SSL_CTRL_SET_GROUPS_LIST: c_int = 92;
const SSL_CTRL_SET_MIN_PROTO_VERSION: c_int = 123;
const SSL_CTRL_SET_MAX_PROTO_VERSION: c_int = 124;
const SSL_CTRL_GET_PEER_SIGNATURE_NAME: c_int = 141;
const SSL_MODE_NO_AUTO_CHAIN: c_long = 8;
const SSL_SESS_CACHE_OFF: c_long = 0;
const SSL_VERIFY_PEER: c_int = 1;
const SSL_VERIFY_FAIL_IF_NO_PEER_CERT: c_int = 2;
const TLSEXT_NAMETYPE_HOST_NAME: c_long = 0;
const SSL_ERROR_WANT_READ: c_int = 2;
const SSL_ERROR_WANT_ASYNC: c_int = 9;
const SSL_MODE_ASYNC: c_long = 0x100;
const X509_V_OK: c_long = 0;

/// The end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// Connects and verifies the other end.
    Client,
    /// Accepts connections and has a certificate.
    Server,
}

/// The state that one side shares among its connections: an `SSL_CTX`.
pub(crate) struct Endpoint {
    raw: Handle<SslCtx>,
    pub(super) role: Role,
    pub(super) context: Context,
}

// SAFETY: OpenSSL allows SSL_new on one SSL_CTX from many threads once nothing changes its
// settings any more; they change only in the constructors below, before the value can be shared.
unsafe impl Send for Endpoint {}
// SAFETY: see above.
unsafe impl Sync for Endpoint {}

impl Endpoint {
    /// A server with this key and this one certificate, which sends no tickets. Without a group it takes
    /// those of libssl's own list.
    ///
    /// # Errors
    /// `Call` when the group or the cipher suite is unknown, or key and certificate do not match.
    pub(crate) fn server<'a>(
        context: &Context,
        group: impl Into<Option<&'a str>>,
        cipher: Option<&str>,
        key: &Key,
        certificate: &Certificate,
    ) -> Result<Endpoint, Error> {
        let endpoint = Self::new(context, Role::Server, group.into(), cipher)?;
        endpoint.identify(key, certificate)?;
        let ossl = context.ossl();
        let raw = endpoint.raw.as_ptr();
        // SAFETY: a live endpoint.
        unsafe {
            ossl.done("turning tickets off", (ossl.tls.SSL_CTX_set_num_tickets)(raw, 0))?;
        }
        Ok(endpoint)
    }

    /// A client that trusts `root` and nothing else, and verifies chain and name. Without a group it offers
    /// what libssl's own list says, with its two key shares.
    ///
    /// # Errors
    /// `Call` when the group or the cipher suite is unknown.
    pub(crate) fn client<'a>(
        context: &Context,
        group: impl Into<Option<&'a str>>,
        cipher: Option<&str>,
        root: &Certificate,
    ) -> Result<Endpoint, Error> {
        let endpoint = Self::new(context, Role::Client, group.into(), cipher)?;
        endpoint.verify(SSL_VERIFY_PEER, root)?;
        Ok(endpoint)
    }

    /// Makes a server require client certificates under `root`: mutual authentication.
    ///
    /// # Errors
    /// `Call` if the root is rejected.
    pub(crate) fn demand_client(&self, root: &Certificate) -> Result<(), Error> {
        self.verify(SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, root)
    }

    /// Sets the certificate and the key of this end.
    ///
    /// # Errors
    /// `Call` if TLS has no scheme for the key, or if key and certificate do not match.
    pub(crate) fn identify(&self, key: &Key, certificate: &Certificate) -> Result<(), Error> {
        let ossl = self.context.ossl();
        let raw = self.raw.as_ptr();
        // SAFETY: live objects; libssl takes additional references.
        unsafe {
            let used = (ossl.tls.SSL_CTX_use_certificate)(raw, certificate.raw.as_ptr());
            ossl.done("giving one side its certificate", used)?;
            let used = (ossl.tls.SSL_CTX_use_PrivateKey)(raw, key.raw.as_ptr());
            ossl.done("giving one side its key", used)?;
            ossl.done("matching key and certificate", (ossl.tls.SSL_CTX_check_private_key)(raw))?;
            // One with a chain file never searches for issuers during a handshake.
            (ossl.tls.SSL_CTX_ctrl)(raw, SSL_CTRL_MODE, SSL_MODE_NO_AUTO_CHAIN, ptr::null_mut());
        }
        Ok(())
    }

    /// Runs handshakes in asynchronous jobs, which an operation may pause.
    pub(crate) fn set_async(&self) {
        // SAFETY: a live endpoint.
        unsafe {
            let control = self.context.ossl().tls.SSL_CTX_ctrl;
            control(self.raw.as_ptr(), SSL_CTRL_MODE, SSL_MODE_ASYNC, ptr::null_mut());
        }
    }

    fn verify(&self, mode: c_int, root: &Certificate) -> Result<(), Error> {
        let ossl = self.context.ossl();
        let raw = self.raw.as_ptr();
        // SAFETY: live objects; the store belongs to the endpoint and takes a reference to the
        // certificate.
        unsafe {
            (ossl.tls.SSL_CTX_set_verify)(raw, mode, ptr::null());
            let store = (ossl.tls.SSL_CTX_get_cert_store)(raw);
            let added = (ossl.crypto.X509_STORE_add_cert)(store, root.raw.as_ptr());
            ossl.done("trusting the root certificate", added)
        }
    }

    fn new(
        context: &Context,
        role: Role,
        group: Option<&str>,
        cipher: Option<&str>,
    ) -> Result<Endpoint, Error> {
        let ossl = context.ossl();
        let tls = &ossl.tls;
        // SAFETY: a live context, no additional property query, a static method table.
        let raw = unsafe { (tls.SSL_CTX_new_ex)(context.raw(), ptr::null(), (tls.TLS_method)()) };
        let raw = ossl.owned("SSL_CTX_new", raw, tls.SSL_CTX_free)?;
        let set = |what: &str, command: c_int, number: c_long, text: *const c_char| {
            // SAFETY: each command takes the kind of argument that it is given below.
            let status =
                unsafe { (tls.SSL_CTX_ctrl)(raw.as_ptr(), command, number, text as *mut c_void) };
            ossl.done(what, status as c_int)
        };
        let none = ptr::null();
        set("asking for TLS 1.3", SSL_CTRL_SET_MIN_PROTO_VERSION, TLS1_3_VERSION, none)?;
        set("asking for TLS 1.3", SSL_CTRL_SET_MAX_PROTO_VERSION, TLS1_3_VERSION, none)?;
        if let Some(group) = group {
            let c_group = c_string(group)?;
            let what = format!("asking for the group {group}");
            set(&what, SSL_CTRL_SET_GROUPS_LIST, 0, c_group.as_ptr())?;
        }
        // SAFETY: a live endpoint; the previous cache mode is returned, not a status.
        unsafe {
            let command = SSL_CTRL_SET_SESS_CACHE_MODE;
            (tls.SSL_CTX_ctrl)(raw.as_ptr(), command, SSL_SESS_CACHE_OFF, ptr::null_mut());
        }
        if let Some(cipher) = cipher {
            let c_cipher = c_string(cipher)?;
            // SAFETY: a live endpoint and terminated text, copied.
            let status = unsafe { (tls.SSL_CTX_set_ciphersuites)(raw.as_ptr(), c_cipher.as_ptr()) };
            ossl.done(&format!("asking for the cipher suite {cipher}"), status)?;
        }
        Ok(Endpoint { raw, role, context: context.clone() })
    }
}

/// Two memory BIOs, one for each direction: the network between a pair of connections.
///
/// A BIO counts the bytes that pass, so the counts equal those on a network, including record
/// headers.
pub(crate) struct Wire {
    to_server: Handle<Bio>,
    to_client: Handle<Bio>,
    ossl: &'static Ossl,
}

impl Wire {
    /// Two empty directions.
    pub(crate) fn new(endpoint: &Endpoint) -> Result<Wire, Error> {
        let ossl = endpoint.context.ossl();
        let pipe = || {
            // SAFETY: a static method table; the result is owned here.
            let raw = unsafe { (ossl.crypto.BIO_new)((ossl.crypto.BIO_s_mem)()) };
            ossl.owned("BIO_new", raw, ossl.crypto.BIO_vfree)
        };
        Ok(Wire { to_server: pipe()?, to_client: pipe()?, ossl })
    }

    /// Bytes that the client and the server have sent so far.
    pub(crate) fn bytes(&self) -> (u64, u64) {
        // SAFETY: live BIOs.
        unsafe {
            let count = self.ossl.crypto.BIO_number_written;
            (count(self.to_server.as_ptr()), count(self.to_client.as_ptr()))
        }
    }
}

/// The state of one side of a handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// It waits for the other side.
    Waiting,
    /// An operation paused it; see [`Connection::descriptors`].
    Paused,
    /// The handshake is complete.
    Finished,
}

/// The outcome of a negotiation, in OpenSSL's names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Negotiation {
    /// `TLSv1.3`.
    pub(crate) version: String,
    /// Key exchange group.
    pub(crate) group: String,
    /// Signature scheme of the server.
    pub(crate) signature: String,
    /// Cipher suite.
    pub(crate) cipher: String,
    /// Whether an earlier session was taken up again, which would be no full handshake.
    pub(crate) resumed: bool,
    /// Whether the client accepted the server's chain and name.
    pub(crate) verified: bool,
}

/// One side of one connection.
pub(crate) struct Connection<'e> {
    pub(super) raw: Handle<Ssl>,
    pub(super) endpoint: &'e Endpoint,
}

impl<'e> Connection<'e> {
    /// A connection of `endpoint` over `wire`; a client will insist on `host` as the server's name.
    pub(crate) fn new(
        endpoint: &'e Endpoint,
        wire: &Wire,
        host: &CStr,
    ) -> Result<Connection<'e>, Error> {
        let connection = Self::unconnected(endpoint, host)?;
        let ossl = endpoint.context.ossl();
        let (incoming, outgoing) = match endpoint.role {
            Role::Client => (&wire.to_client, &wire.to_server),
            Role::Server => (&wire.to_server, &wire.to_client),
        };
        // SAFETY: live objects; the connection takes over one reference to each BIO, which is
        // added first.
        unsafe {
            (ossl.crypto.BIO_up_ref)(incoming.as_ptr());
            (ossl.crypto.BIO_up_ref)(outgoing.as_ptr());
            (ossl.tls.SSL_set_bio)(connection.raw.as_ptr(), incoming.as_ptr(), outgoing.as_ptr());
        }
        Ok(connection)
    }

    /// A connection without a way to its peer yet; see [`Connection::new`].
    pub(super) fn unconnected(endpoint: &'e Endpoint, host: &CStr) -> Result<Self, Error> {
        let ossl = endpoint.context.ossl();
        let tls = &ossl.tls;
        // SAFETY: a live endpoint.
        let raw = unsafe { (tls.SSL_new)(endpoint.raw.as_ptr()) };
        let raw = ossl.owned("SSL_new", raw, tls.SSL_free)?;
        // SAFETY: a live connection; the host name is copied.
        unsafe {
            match endpoint.role {
                Role::Server => (tls.SSL_set_accept_state)(raw.as_ptr()),
                Role::Client => {
                    (tls.SSL_set_connect_state)(raw.as_ptr());
                    let name = host.as_ptr();
                    ossl.done("naming the host", (tls.SSL_set1_host)(raw.as_ptr(), name))?;
                    let (command, kind) = (SSL_CTRL_SET_TLSEXT_HOSTNAME, TLSEXT_NAMETYPE_HOST_NAME);
                    let status = (tls.SSL_ctrl)(raw.as_ptr(), command, kind, name as *mut c_void);
                    ossl.done("sending the host name", status as c_int)?;
                }
            }
        }
        Ok(Connection { raw, endpoint })
    }

    /// Calls SSL_do_handshake once and returns its raw status: the part that is timed.
    pub(crate) fn advance(&mut self) -> c_int {
        // SAFETY: a live connection, used by one thread at a time (`&mut`).
        unsafe { (self.endpoint.context.ossl().tls.SSL_do_handshake)(self.raw.as_ptr()) }
    }

    /// Interprets a status of [`Connection::advance`].
    ///
    /// # Errors
    /// `Call` with OpenSSL's reasons when the handshake failed.
    pub(crate) fn judge(&self, status: c_int) -> Result<Step, Error> {
        if status == 1 {
            return Ok(Step::Finished);
        }
        let ossl = self.endpoint.context.ossl();
        // SAFETY: a live connection.
        let (error, verdict) = unsafe {
            let error = (ossl.tls.SSL_get_error)(self.raw.as_ptr(), status);
            (error, (ossl.tls.SSL_get_verify_result)(self.raw.as_ptr()))
        };
        if error == SSL_ERROR_WANT_READ {
            return Ok(Step::Waiting);
        }
        if error == SSL_ERROR_WANT_ASYNC {
            return Ok(Step::Paused);
        }
        let side = match self.endpoint.role {
            Role::Client => "client",
            Role::Server => "server",
        };
        let mut message = format!("the {side}'s handshake failed: {}", ossl.error_queue());
        if verdict != X509_V_OK {
            message.push_str(&format!("; the certificate: {}", verify_text(ossl, verdict)));
        }
        Err(Error::Call(message))
    }

    /// The descriptors that a paused handshake waits for.
    ///
    /// # Errors
    /// `Call` when libssl does not tell them.
    pub(crate) fn descriptors(&self) -> Result<Vec<c_int>, Error> {
        let ossl = self.endpoint.context.ossl();
        let (all, raw, mut count) = (ossl.tls.SSL_get_all_async_fds, self.raw.as_ptr(), 0);
        // SAFETY: a live connection; first the number is asked for, then there is room for as many.
        unsafe {
            ossl.done("counting descriptors", all(raw, ptr::null_mut(), &mut count))?;
            let mut descriptors = vec![-1; count];
            ossl.done("reading descriptors", all(raw, descriptors.as_mut_ptr(), &mut count))?;
            Ok(descriptors)
        }
    }

    /// Returns the parameters that the finished handshake agreed on; meant for the client, who sees
    /// the signature.
    pub(crate) fn negotiated(&mut self) -> Negotiation {
        let tls = &self.endpoint.context.ossl().tls;
        let raw = self.raw.as_ptr();
        // SAFETY: a live connection; every text is null or belongs to it or to static tables.
        unsafe {
            let mut signature: *const c_char = ptr::null();
            let (command, out) = (SSL_CTRL_GET_PEER_SIGNATURE_NAME, &raw mut signature);
            (tls.SSL_ctrl)(raw, command, 0, out.cast::<c_void>());
            let cipher = (tls.SSL_get_current_cipher)(raw);
            Negotiation {
                version: text((tls.SSL_get_version)(raw)),
                group: text((tls.SSL_get0_group_name)(raw)),
                signature: text(signature),
                cipher: text((tls.SSL_CIPHER_get_name)(cipher)),
                resumed: (tls.SSL_session_reused)(raw) != 0,
                verified: (tls.SSL_get_verify_result)(raw) == X509_V_OK,
            }
        }
    }
}

fn verify_text(ossl: &Ossl, verdict: c_long) -> String {
    // SAFETY: returns a static string for every number.
    unsafe { text((ossl.crypto.X509_verify_cert_error_string)(verdict)) }
}

/// Copies a C string; null becomes "none".
///
/// # Safety
/// `pointer` is null or a terminated string that lives during the call.
unsafe fn text(pointer: *const c_char) -> String {
    if pointer.is_null() {
        return "none".into();
    }
    // SAFETY: the caller's promise.
    unsafe { CStr::from_ptr(pointer) }.to_string_lossy().into_owned()
}
