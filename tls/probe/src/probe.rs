//! The probe of one target: which connections are opened, and in which order.
//!
//! ```text
//!   1  complete ClientHello ---- answered ---> version, group, chain, tickets
//!        |
//!        +- alert, or not a server of TLS 1.2 or 1.3: a raw hello asks which version it speaks
//!        +- no answer: one form after the other until the server answers, then 1 again
//!   2  curves only: what a classical client gets (skipped if 1 already got a curve)
//!   3  resumption; over HTTP also the header `Server`
//! ```
//!
//! The connections follow one another, so a server never has two of them at once.

use std::io::{Read, Write};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustls::ClientConnection;
use rustls::pki_types::ServerName;

use crate::certificate::Certificate;
use crate::connect::{AddressGuard, AddressLocks, ConnectError, Connection, reach};
use crate::handshake::{
    self, Authorities, COMPLETE, Client, FALLBACKS, Form, Groups, HANDSHAKE_BYTES_MAX, Handshake,
    HandshakeError,
};
use crate::matrix;
use crate::program;
use crate::raw::{self, Answer, Offer};
use crate::report::{Attempt, ChainEntry, Negotiation, Report, Ssh, rfc3339};
use crate::ssh;
use crate::starttls::{self, DIALOGUE_BYTES_MAX, StartTlsError};
use crate::target::{Protocol, Target};
use crate::verdict::{self, Authentication, KeyExchange};

/// How long the probe waits for a session ticket, or for an HTTP response.
const TICKET_WAIT: Duration = Duration::from_secs(1);
/// The most bytes that are read after the handshake.
const AFTER_BYTES_MAX: usize = 64 << 10;
/// The longest head of an HTTP response.
const HEAD_LEN_MAX: usize = 8 << 10;
/// The most bytes that an SSH server may send.
const SSH_BYTES_MAX: usize = 64 << 10;
/// The ports of HTTP over TLS.
const HTTP_PORTS: [u16; 2] = [443, 8443];
/// The application protocols that the probe offers.
const ALPN: &[&str] = &["h2", "http/1.1"];
/// The name of the hello that asks for every version.
const RAW_HELLO: &str = "every version from TLS 1.0 on";

/// How targets are probed.
#[derive(Clone, Debug)]
pub struct Options {
    /// The time limit of each step: connecting, a STARTTLS dialogue, a handshake.
    pub limit: Duration,
    /// The authorities that certificates are verified with.
    pub authorities: Option<Arc<Authorities>>,
    /// Whether every form of the ClientHello is sent, too (see [`matrix`]).
    pub has_matrix: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options { limit: Duration::from_secs(10), authorities: None, has_matrix: false }
    }
}

/// Probes targets. Threads may share one.
#[derive(Debug, Default)]
pub struct Prober {
    options: Options,
    locks: AddressLocks,
}

impl Prober {
    /// Creates a prober.
    #[must_use]
    pub fn new(options: Options) -> Prober {
        Prober { options, locks: AddressLocks::default() }
    }

    /// Returns whether certificates are verified.
    #[must_use]
    pub fn has_authorities(&self) -> bool {
        self.options.authorities.is_some()
    }

    /// Probes a target. Failures are part of the report.
    #[must_use]
    pub fn probe(&self, target: &Target) -> Report {
        self.probe_unless_busy(target, true).unwrap_or_default()
    }

    /// Probes a target. Returns `None` if another thread probes its address, unless `may_wait`.
    pub(crate) fn probe_unless_busy(&self, target: &Target, may_wait: bool) -> Option<Report> {
        let begun = Instant::now();
        let mut report = start_report(target);
        match reach(target, &self.locks, self.options.limit, may_wait) {
            Err(ConnectError::InUse) => return None,
            Err(cause) => report.problems.push(format!("no answer at {target}: {cause}")),
            Ok((guard, connection)) => match target.protocol() {
                Protocol::Tls => self.probe_tls(target, guard, connection, &mut report),
                Protocol::Ssh => probe_ssh(target, connection, &mut report),
            },
        }
        report.clean();
        report.ok = report.is_ok();
        report.duration_ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        Some(report)
    }

    fn probe_tls(
        &self,
        target: &Target,
        guard: AddressGuard<'_>,
        connection: Connection,
        report: &mut Report,
    ) {
        // The target was parsed as a name that rustls accepts.
        let Some(name) = target.server_name() else { return };
        let limit = self.options.limit;
        let first = Some(connection);
        let mut dialer = Dialer { target, guard, limit, first, name, greeting: None };
        let selection = self.first_handshake(&mut dialer, report);
        if self.options.has_matrix {
            dialer.matrix(report);
        }
        let Some(selection) = selection else { return };
        if report.classical.is_none() {
            dialer.classical(report);
        }
        if let Some(protocol) = target.starttls() {
            report.program = program::of_greeting(protocol, dialer.greeting.as_deref());
        }
        selection.judge(report);
    }

    /// Sends one form after the other until the server answers, and resumes the session of that
    /// handshake. Returns what the server selected.
    fn first_handshake(&self, dialer: &mut Dialer<'_>, report: &mut Report) -> Option<Selection> {
        let has_authorities = self.options.authorities.is_some();
        let mut answer = None;
        let mut is_raw_asked = false;
        for form in [COMPLETE].into_iter().chain(FALLBACKS) {
            let (client, result) = self.attempt(dialer, form, report)?;
            let error = match result {
                Ok(session) => {
                    let selection = dialer.complete(form, &client, session, report);
                    return Some(self.complete_again(dialer, selection, report));
                }
                Err(Failure::StartTls(cause)) => {
                    let target = dialer.target;
                    report.problems.push(format!("{target} does not start TLS: {cause}"));
                    return None;
                }
                Err(Failure::Connect(_)) => continue,
                Err(Failure::Handshake(error)) => error,
            };
            if error.is_about_credentials() {
                answer = None;
                break;
            }
            // A server that closes the connection gets the raw hello last: a path may be to blame.
            let is_last = form.name == FALLBACKS[4].name && matches!(error, HandshakeError::Closed);
            if !is_raw_asked && (is_last || is_for_raw(&error) || client.has_seen_certificate()) {
                is_raw_asked = true;
                answer = dialer.ask_raw(report).filter(|answer| is_credible(answer, &error));
                // TLS 1.3 in a group that rustls has does not explain its failure.
                if answer.as_ref().is_some_and(explains_failure) {
                    break;
                }
            }
            if error.is_final() {
                break;
            }
        }
        if let Some(answer) = answer {
            let selection = Selection::of_answer(answer, has_authorities);
            selection.record(report);
            report.classical = negotiated(report).filter(|_| !report.post_quantum);
            return Some(selection);
        }
        let error = report.attempts.first().and_then(|attempt| attempt.error.as_deref());
        let error = error.unwrap_or_default();
        let target = dialer.target;
        report.problems.push(match report.attempts.len() {
            1 => format!("{target} completes no TLS handshake: {error}"),
            hellos => format!("{target} speaks no TLS with any of {hellos} hellos: {error}"),
        });
        None
    }

    /// Makes a handshake with one form, and records it. Returns `None` if rustls has no
    /// configuration for the form.
    fn attempt(
        &self,
        dialer: &mut Dialer<'_>,
        form: Form,
        report: &mut Report,
    ) -> Option<(Client, Result<TlsSession, Failure>)> {
        let client = match Client::new(&form, self.options.authorities.clone()) {
            Ok(client) => client,
            Err(cause) => {
                report.problems.push(format!("the form `{}` of the hello: {cause}", form.name));
                return None;
            }
        };
        let (bytes, result) = dialer.handshake(&client, dialer.alpn());
        let error = result.as_ref().err().map(ToString::to_string);
        report.attempts.push(Attempt { hello: form.name.to_owned(), bytes, error });
        Some((client, result))
    }

    /// Sends the complete ClientHello again if only a smaller one was answered: one lost connection
    /// does not show that the path drops something.
    fn complete_again(
        &self,
        dialer: &mut Dialer<'_>,
        selection: Selection,
        report: &mut Report,
    ) -> Selection {
        if selection.form == COMPLETE {
            return selection;
        }
        match self.attempt(dialer, COMPLETE, report) {
            Some((client, Ok(session))) => dialer.complete(COMPLETE, &client, session, report),
            _ => {
                report.not_survived = Some(selection.form.missing.to_owned());
                selection
            }
        }
    }
}

/// Returns whether the error is that of a server that may speak only an older TLS than rustls.
fn is_for_raw(error: &HandshakeError) -> bool {
    match error {
        HandshakeError::Alert(_) => true,
        HandshakeError::Tls(error) => {
            matches!(error, rustls::Error::PeerIncompatible(_) | rustls::Error::PeerMisbehaved(_))
        }
        _ => false,
    }
}

/// Returns whether an answer to the raw hello is to be believed after an error of rustls. In TLS 1.3
/// the raw hello sees no certificate, so a server that breaks the protocol gets no second chance.
fn is_credible(answer: &Answer, error: &HandshakeError) -> bool {
    let is_misbehaved = matches!(error, HandshakeError::Tls(rustls::Error::PeerMisbehaved(_)));
    !(handshake::is_tls13(answer.version) && is_misbehaved)
}

/// Returns whether an answer explains why rustls cannot complete a handshake.
fn explains_failure(answer: &Answer) -> bool {
    !handshake::is_tls13(answer.version) || !answer.group.is_some_and(handshake::has_group)
}

fn start_report(target: &Target) -> Report {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    Report {
        target: target.to_string(),
        protocol: target.protocol(),
        starttls: target.starttls(),
        probed_at: rfc3339(i64::try_from(now).unwrap_or(i64::MAX)),
        ..Report::default()
    }
}

/// Why a connection did not lead to a handshake.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("{0}")]
    Connect(std::io::Error),
    #[error("{0}")]
    StartTls(StartTlsError),
    #[error("{0}")]
    Handshake(HandshakeError),
}

/// The connections to one target.
struct Dialer<'a> {
    target: &'a Target,
    guard: AddressGuard<'a>,
    limit: Duration,
    /// The connection that found the address.
    first: Option<Connection>,
    name: ServerName<'static>,
    /// The greeting of the STARTTLS dialogue.
    greeting: Option<String>,
}

/// A handshake and its open connection.
struct TlsSession {
    handshake: Handshake,
    tls: ClientConnection,
    stream: Connection,
}

impl Dialer<'_> {
    fn alpn(&self) -> &'static [&'static str] {
        if self.target.starttls().is_some() { &[] } else { ALPN }
    }

    /// Connects, and starts TLS if the protocol needs that.
    fn open(&mut self) -> Result<Connection, Failure> {
        let connection = match self.first.take() {
            Some(connection) => Ok(connection),
            None => self.guard.connect(self.limit),
        };
        let mut connection = connection.map_err(Failure::Connect)?;
        if let Some(protocol) = self.target.starttls() {
            connection.start_step(DIALOGUE_BYTES_MAX);
            let greeting = starttls::start(&mut connection, protocol);
            self.greeting = greeting.map_err(Failure::StartTls)?;
        }
        Ok(connection)
    }

    /// Makes a handshake; again without application protocols if the server speaks none of them.
    /// Returns the size of the ClientHello, too.
    fn handshake(
        &mut self,
        client: &Client,
        alpn: &[&str],
    ) -> (Option<usize>, Result<TlsSession, Failure>) {
        match self.handshake_once(client, alpn) {
            (_, Err(Failure::Handshake(error))) if error.is_about_alpn() && !alpn.is_empty() => {
                self.handshake_once(client, &[])
            }
            done => done,
        }
    }

    fn handshake_once(
        &mut self,
        client: &Client,
        alpn: &[&str],
    ) -> (Option<usize>, Result<TlsSession, Failure>) {
        let mut stream = match self.open() {
            Ok(stream) => stream,
            Err(failure) => return (None, Err(failure)),
        };
        let tls = |error| Failure::Handshake(HandshakeError::Tls(error));
        let mut connection = match client.connection(self.name.clone(), alpn) {
            Ok(connection) => connection,
            Err(error) => return (None, Err(tls(error))),
        };
        stream.start_step(HANDSHAKE_BYTES_MAX);
        let io = |cause| Failure::Handshake(HandshakeError::Io(cause));
        let hello = match handshake::client_hello(&mut connection) {
            Ok(hello) => hello,
            Err(cause) => return (None, Err(io(cause))),
        };
        let sent = stream.write_all(&hello).map_err(io);
        let driven = sent.and_then(|()| {
            handshake::drive(&mut connection, &mut stream).map_err(Failure::Handshake)
        });
        let result = driven.map(|()| TlsSession {
            handshake: client.handshake(&connection),
            tls: connection,
            stream,
        });
        (Some(hello.len()), result)
    }

    /// Records a handshake, and resumes its session.
    fn complete(
        &mut self,
        form: Form,
        client: &Client,
        session: TlsSession,
        report: &mut Report,
    ) -> Selection {
        let TlsSession { mut handshake, mut tls, mut stream } = session;
        let selection = Selection::of_handshake(form, &mut handshake);
        selection.record(report);
        report.alpn = handshake.alpn;
        report.resumption = None;
        if handshake::is_tls13(selection.version) && !await_ticket(&mut tls, &mut stream) {
            report.resumption = Some(false);
        }
        drop((tls, stream));
        self.resume(client, report);
        selection
    }

    /// Asks for every version with a hello of our own.
    fn ask_raw(&mut self, report: &mut Report) -> Option<Answer> {
        let is_name = matches!(self.name, ServerName::DnsName(_));
        let offer = Offer::new(is_name.then_some(self.target.host()));
        let answer = self.open().map_err(|failure| failure.to_string()).and_then(|mut stream| {
            stream.start_step(HANDSHAKE_BYTES_MAX);
            raw::ask(&mut stream, &offer).map_err(|error| error.to_string())
        });
        let error = answer.as_ref().err().cloned();
        report.attempts.push(Attempt { hello: RAW_HELLO.to_owned(), bytes: None, error });
        answer.ok()
    }

    /// Records which forms of the ClientHello get through, and how to ask for one of them.
    fn matrix(&mut self, report: &mut Report) {
        let name = self.name.clone();
        let connect = || {
            let mut stream = self.open().map_err(|failure| failure.to_string())?;
            stream.start_step(HANDSHAKE_BYTES_MAX);
            Ok(stream)
        };
        report.matrix = matrix::ask(connect, &name);
        report.ask_with = matrix::ask_with(&report.matrix);
    }

    /// Records what a client without post-quantum groups gets.
    fn classical(&mut self, report: &mut Report) {
        if !report.post_quantum {
            report.classical = negotiated(report);
            return;
        }
        let form = Form { groups: Groups::Classical, ..COMPLETE };
        let Ok(client) = Client::new(&form, None) else { return };
        match self.handshake(&client, self.alpn()).1 {
            Ok(TlsSession { handshake, mut tls, mut stream }) => {
                report.classical = Some(Negotiation {
                    version: raw::version_name(handshake.version),
                    group: handshake.group.map(raw::group_name),
                });
                close(&mut tls, &mut stream);
            }
            Err(failure) => report.classical_error = Some(failure.to_string()),
        }
    }

    /// Resumes the session of the first handshake, and asks an HTTP server for its name.
    fn resume(&mut self, client: &Client, report: &mut Report) {
        let is_http = match report.alpn.as_deref() {
            Some("h2" | "http/1.1") => true,
            Some(_) => false,
            None => self.target.starttls().is_none() && HTTP_PORTS.contains(&self.target.port()),
        };
        // TLS 1.2 tells about its tickets in the handshake, and has session identifiers, too.
        let may_resume = report.resumption != Some(false);
        if !may_resume && !is_http {
            return;
        }
        let alpn: &[&str] = if is_http { &["http/1.1"] } else { &[] };
        let (_, result) = self.handshake(client, alpn);
        let Ok(TlsSession { handshake, mut tls, mut stream }) = result else {
            report.resumption = Some(false);
            return;
        };
        report.resumption = Some(handshake.is_resumed);
        if is_http {
            let head = ask_http(&mut tls, &mut stream, &self.target.to_string());
            report.program = program::of_http(&head);
        }
        close(&mut tls, &mut stream);
    }
}

fn negotiated(report: &Report) -> Option<Negotiation> {
    let version = report.version.clone()?;
    Some(Negotiation { version, group: report.group.clone() })
}

/// Tells the server that the connection ends. Whether that arrives does not matter.
fn close(tls: &mut ClientConnection, stream: &mut Connection) {
    tls.send_close_notify();
    let _ = handshake::write_all(tls, stream);
}

/// Waits for a session ticket, which a server of TLS 1.3 sends after the handshake. Returns whether
/// one came. The client has nothing more to say, so most servers close the connection at once.
fn await_ticket(tls: &mut ClientConnection, stream: &mut Connection) -> bool {
    stream.start_short_step(TICKET_WAIT, AFTER_BYTES_MAX);
    tls.send_close_notify();
    if handshake::write_all(tls, stream).is_err() {
        return false;
    }
    while tls.tls13_tickets_received() == 0 && matches!(handshake::receive(tls, stream), Ok(1..)) {
        // Application data that the server sends by itself is ignored.
        let _ = tls.reader().read(&mut [0; 1024]);
    }
    tls.tls13_tickets_received() > 0
}

/// Sends a HEAD request and returns the head of the response, as far as it came.
fn ask_http(tls: &mut ClientConnection, stream: &mut Connection, host: &str) -> Vec<u8> {
    stream.start_short_step(TICKET_WAIT, AFTER_BYTES_MAX);
    let request = format!(
        "HEAD / HTTP/1.1\r\nHost: {host}\r\nUser-Agent: gabion-probe\r\nConnection: close\r\n\r\n"
    );
    let mut head = Vec::new();
    if tls.writer().write_all(request.as_bytes()).is_err()
        || handshake::write_all(tls, stream).is_err()
    {
        return head;
    }
    let mut is_open = true;
    while head.len() < HEAD_LEN_MAX && !head.windows(4).any(|end| end == b"\r\n\r\n") {
        let mut chunk = [0; 1024];
        match tls.reader().read(&mut chunk) {
            Ok(read @ 1..) => head.extend_from_slice(&chunk[..read]),
            Err(cause) if cause.kind() == std::io::ErrorKind::WouldBlock && is_open => {
                is_open = matches!(handshake::receive(tls, stream), Ok(1..));
            }
            _ => break,
        }
    }
    head
}

/// The parameters that the server selected, for the verdicts.
#[derive(Debug)]
struct Selection {
    form: Form,
    version: u16,
    cipher_suite: u16,
    group: Option<u16>,
    dhe_bits: Option<usize>,
    scheme: Option<u16>,
    /// `None` after a raw hello, which forces the server to send one.
    is_hello_retry_request: Option<bool>,
    chain: Vec<Vec<u8>>,
    is_signature_verified: bool,
    trust: Option<Result<(), String>>,
}

impl Selection {
    fn of_handshake(form: Form, handshake: &mut Handshake) -> Selection {
        let is_signature_verified = handshake.is_signature_verified;
        let unverified = || Err("the handshake's signature cannot be verified".to_owned());
        let trust = handshake.trust.take();
        Selection {
            form,
            version: handshake.version,
            cipher_suite: handshake.cipher_suite,
            group: handshake.group,
            dhe_bits: None,
            scheme: handshake.scheme,
            is_hello_retry_request: Some(handshake.is_hello_retry_request),
            chain: std::mem::take(&mut handshake.chain),
            is_signature_verified,
            trust: trust.map(|trust| if is_signature_verified { trust } else { unverified() }),
        }
    }

    fn of_answer(answer: Answer, has_authorities: bool) -> Selection {
        let unverified = "the probe cannot complete a handshake with this server";
        Selection {
            form: COMPLETE,
            version: answer.version,
            cipher_suite: answer.cipher_suite,
            group: answer.group,
            dhe_bits: answer.dhe_bits,
            scheme: answer.signature_scheme,
            is_hello_retry_request: None,
            chain: answer.certificates,
            is_signature_verified: false,
            trust: has_authorities.then(|| Err(unverified.to_owned())),
        }
    }

    /// Returns the key exchange by name.
    fn algorithm(&self) -> String {
        match (self.group, self.dhe_bits) {
            (Some(group), _) => raw::group_name(group),
            (None, Some(bits)) => format!("DHE with {bits} bits"),
            (None, None) => "RSA key transport".to_owned(),
        }
    }

    fn record(&self, report: &mut Report) {
        report.version = Some(raw::version_name(self.version));
        report.cipher = Some(raw::cipher_suite_name(self.cipher_suite));
        report.group = self.group.map(raw::group_name);
        report.post_quantum = self.group.is_some_and(raw::is_group_post_quantum);
        report.signature = self.scheme.map(raw::signature_scheme_name);
        report.hello_retry_request = self.is_hello_retry_request;
    }

    /// Adds the chain, the verdicts and the problems.
    fn judge(&self, report: &mut Report) {
        let chain: Vec<Result<Certificate, String>> = self
            .chain
            .iter()
            .map(|der| Certificate::parse(der).map_err(|error| error.to_string()))
            .collect();
        report.chain = chain.iter().map(entry).collect();
        let authentication = Authentication {
            version: self.version,
            form: self.form,
            chain: &chain,
            is_signature_verified: self.is_signature_verified,
        };
        report.authentication = authentication.verdict();
        let key_exchange = KeyExchange {
            version: self.version,
            group: self.group,
            algorithm: self.algorithm(),
            is_hello_retry_request: self.is_hello_retry_request == Some(true),
            form: self.form,
            program: report.program.as_deref(),
        };
        report.key_exchange = Some(key_exchange.verdict());
        if let Some(dropped) = &report.not_survived {
            report.problems.push(format!("the network path or the server drops {dropped}"));
        }
        report.verified = self.trust.as_ref().map(Result::is_ok);
        if let Some(Err(error)) = &self.trust {
            report.problems.push(format!("the certificate is not verified: {error}"));
        }
        if !report.post_quantum {
            let algorithm = self.algorithm();
            report.problems.push(format!("the key exchange, {algorithm}, is not post-quantum"));
        }
    }
}

fn entry(certificate: &Result<Certificate, String>) -> ChainEntry {
    match certificate {
        Ok(certificate) => ChainEntry::from(certificate),
        Err(_) => ChainEntry { key: "unknown".to_owned(), ..ChainEntry::default() },
    }
}

fn probe_ssh(target: &Target, mut connection: Connection, report: &mut Report) {
    connection.start_step(SSH_BYTES_MAX);
    let lists = match ssh::ask(&mut connection) {
        Ok(lists) => lists,
        Err(cause) => {
            report.problems.push(format!("{target} does not speak SSH: {cause}"));
            return;
        }
    };
    let key_exchange = verdict::ssh_key_exchange(&lists);
    report.version = Some("SSH-2.0".to_owned());
    report.group = lists.negotiated_kex().map(str::to_owned);
    report.signature = lists.negotiated_host_key().map(str::to_owned);
    report.post_quantum = key_exchange.post_quantum;
    let software = lists.banner.strip_prefix("SSH-2.0-").unwrap_or(&lists.banner);
    report.program = Some(software.to_owned());
    if !key_exchange.post_quantum {
        let algorithm = &key_exchange.algorithm;
        report.problems.push(format!("the key exchange, {algorithm}, is not post-quantum"));
    }
    report.key_exchange = Some(key_exchange);
    report.authentication = Some(verdict::ssh_authentication(&lists));
    let ssh::SshLists { banner, kex, host_keys } = lists;
    report.ssh = Some(Ssh { banner, kex, host_keys });
}
