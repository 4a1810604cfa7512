//! `gabion preflight --probe HOST:PORT`: tests whether the network path to a server accepts a
//! post-quantum ClientHello.
//!
//! ```text
//!   TCP ── fails ──► no answer at this address
//!    └─ ClientHello as sent by libssl ── answered ──► version, group, signature
//!        └─ no answer: leave out one feature after the other until the server answers
//! ```
//!
//! A middlebox that drops unknown features, or that expects a ClientHello to fit its first packet,
//! does not report an error. The variant that gets through shows which feature it drops.

use std::io::Read;
use std::net::{IpAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use gabion_ship::environment::Settings;
use serde::Serialize;

use crate::failure::Failure;
use crate::openssl::{CommandOutput, Openssl};

/// Polling interval of a listener.
const POLL: Duration = Duration::from_millis(2);
const CLASSICAL_GROUPS: &str = "P-256:P-384:?X25519";
/// The default groups, but a key share for P-256 only: the ClientHello stays small.
const SMALL_SHARE: &str = "*P-256:?X25519MLKEM768:?SecP256r1MLKEM768:?X25519";
const CLASSICAL_SCHEMES: &str = "ecdsa_secp256r1_sha256:ecdsa_secp384r1_sha384:?ed25519:\
    rsa_pss_rsae_sha256:rsa_pss_rsae_sha384:rsa_pss_pss_sha256:rsa_pkcs1_sha256:rsa_pkcs1_sha384";

/// A protocol in which the client requests TLS after connecting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum StartTls {
    /// `STARTTLS` (RFC 3207)
    Smtp,
    /// `STARTTLS` (RFC 9051)
    Imap,
    /// `AUTH TLS` (RFC 4217)
    Ftp,
    /// PostgreSQL's SSLRequest
    Postgres,
}

impl StartTls {
    /// Returns the value of `s_client`'s option `-starttls`.
    fn as_str(self) -> &'static str {
        match self {
            StartTls::Smtp => "smtp",
            StartTls::Imap => "imap",
            StartTls::Ftp => "ftp",
            StartTls::Postgres => "postgres",
        }
    }

    /// Returns the command of the protocol that asks for TLS.
    fn command(self) -> &'static str {
        match self {
            StartTls::Smtp | StartTls::Imap => "STARTTLS",
            StartTls::Ftp => "AUTH TLS",
            StartTls::Postgres => "SSLRequest",
        }
    }

    /// Returns whether the server answered the command without starting TLS. `s_client` ends
    /// without a message if PostgreSQL refuses, and sends its hello if another server does.
    fn is_refused(self, said: &CommandOutput) -> bool {
        let err = said.err.trim();
        match self {
            StartTls::Smtp | StartTls::Imap => err.contains("find STARTTLS in server response"),
            StartTls::Ftp => err.contains("wrong version number"),
            StartTls::Postgres => !said.ok && messages(err).next().is_none(),
        }
    }
}

/// A ClientHello variant, and the conclusion from its success if all larger variants failed.
struct Hello {
    name: &'static str,
    options: &'static [&'static str],
    shows: &'static str,
}

/// From the complete ClientHello to the smallest; each later one leaves out more.
const HELLOS: &[Hello] = &[
    Hello { name: "as libssl makes it", options: &[], shows: "" },
    Hello {
        name: "without ML-DSA",
        options: &["-sigalgs", CLASSICAL_SCHEMES],
        shows: "the signature schemes of ML-DSA (extension signature_algorithms)",
    },
    Hello {
        name: "with a small key share",
        options: &["-groups", SMALL_SHARE],
        shows: "the size of the hello, for which the key share of ML-KEM is to blame (extension key_share)",
    },
    Hello {
        name: "without ML-KEM",
        options: &["-groups", CLASSICAL_GROUPS],
        shows: "the groups of ML-KEM (extension supported_groups)",
    },
    Hello {
        name: "without either",
        options: &["-groups", CLASSICAL_GROUPS, "-sigalgs", CLASSICAL_SCHEMES],
        shows: "both the groups of ML-KEM and the signature schemes of ML-DSA",
    },
    Hello {
        name: "TLS 1.2",
        options: &["-no_tls1_3", "-sigalgs", CLASSICAL_SCHEMES],
        shows: "TLS 1.3 (extension supported_versions)",
    },
];

/// An attempted handshake and its result.
#[derive(Debug, Serialize)]
pub struct Attempt {
    hello: &'static str,
    /// Size of the ClientHello, including the record header.
    bytes: Option<usize>,
    /// Why the handshake failed; `None` if it succeeded.
    error: Option<String>,
}

/// The report that `--json` prints.
#[derive(Debug, Default, Serialize)]
pub struct Report {
    target: String,
    /// The STARTTLS protocol; absent if the connection starts with TLS.
    #[serde(skip_serializing_if = "Option::is_none")]
    starttls: Option<StartTls>,
    /// True if the first ClientHello led to a post-quantum key exchange, and the certificate
    /// verified if that was requested.
    ok: bool,
    post_quantum: bool,
    version: Option<String>,
    cipher: Option<String>,
    group: Option<String>,
    signature: Option<String>,
    /// Whether the certificate verified; `None` without `--ca`.
    verified: Option<bool>,
    /// The feature that the path drops; `None` if the first ClientHello got through, or none did.
    not_survived: Option<&'static str>,
    attempts: Vec<Attempt>,
    problems: Vec<String>,
}

/// The server to probe and the timeout for each answer.
pub struct Question {
    target: String,
    host: String,
    ca: Option<PathBuf>,
    starttls: Option<StartTls>,
    limit: Duration,
}

impl Question {
    /// Parses HOST:PORT.
    ///
    /// # Errors
    /// [`Failure::Usage`] if it is malformed.
    pub fn new(target: &str, ca: Option<PathBuf>, seconds: u64) -> Result<Question, Failure> {
        let wrong = || {
            Failure::Usage(format!(
                "invalid address `{target}`: expected HOST:PORT, such as example.com:443"
            ))
        };
        let (host, port) = target.rsplit_once(':').ok_or_else(wrong)?;
        let has_brackets = host.starts_with('[');
        let bare = host.strip_prefix('[').map_or(Some(host), |host| host.strip_suffix(']'));
        let host =
            bare.filter(|host| !host.is_empty() && !host.starts_with('-')).ok_or_else(wrong)?;
        let is_ipv6 = host.parse::<IpAddr>().is_ok_and(|address| address.is_ipv6());
        // Without brackets, the end of an IPv6 address is ambiguous.
        let is_host = !host.contains(':') || (is_ipv6 && has_brackets);
        if port.parse::<u16>().map_or(true, |port| port == 0) || !is_host {
            return Err(wrong());
        }
        let target = if is_ipv6 { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
        if let Some(file) = ca.as_deref().filter(|file| !file.is_file()) {
            return Err(Failure::Usage(format!("--ca {} is not a file", file.display())));
        }
        let limit = Duration::from_secs(seconds);
        Ok(Question { target, host: host.to_owned(), ca, starttls: None, limit })
    }

    /// Sets the STARTTLS protocol.
    pub fn starting_tls(self, starttls: Option<StartTls>) -> Question {
        Question { starttls, ..self }
    }

    /// Returns the options shared by all variants.
    fn options(&self) -> Vec<String> {
        let is_address = self.host.parse::<IpAddr>().is_ok();
        let mut options = if is_address {
            vec!["-noservername".to_owned(), "-verify_ip".to_owned(), self.host.clone()]
        } else {
            let host = self.host.clone();
            vec!["-servername".to_owned(), host.clone(), "-verify_hostname".to_owned(), host]
        };
        if let Some(ca) = &self.ca {
            options.extend(["-CAfile".to_owned(), ca.to_string_lossy().into_owned()]);
        }
        options
    }
}

/// Probes the server.
///
/// # Errors
/// [`Failure::NotReady`] without a bundle.
pub fn ask(settings: &Settings, question: &Question) -> Result<Report, Failure> {
    settings.require_bundle()?;
    let openssl = Openssl::new(settings).map_err(Failure::NotReady)?;
    let mut report = Report {
        target: question.target.clone(),
        starttls: question.starttls,
        ..Report::default()
    };
    if let Err(cause) = reach(question) {
        report.problems.push(format!("no answer at {}: {cause}", question.target));
        return Ok(report);
    }
    for hello in HELLOS {
        let (attempt, said) = attempt(&openssl, question, hello)?;
        report.attempts.push(attempt);
        if !said.worked
            && let Some(starttls) = question.starttls.filter(|way| way.is_refused(&said.finished))
        {
            report.problems.push(format!(
                "{} does not start TLS: it refused {} ({})",
                question.target,
                starttls.command(),
                starttls.as_str()
            ));
            return Ok(report);
        }
        if said.worked {
            report.not_survived = (!hello.shows.is_empty()).then_some(hello.shows);
            report.read(&said.finished.out, question.ca.is_some());
            break;
        }
    }
    report.judge();
    Ok(report)
}

/// Connects by TCP only, to tell a closed port from a middlebox.
fn reach(question: &Question) -> Result<(), String> {
    let addresses = question.target.to_socket_addrs().map_err(|cause| cause.to_string())?;
    let mut last = "its name has no address".to_owned();
    for address in addresses {
        match TcpStream::connect_timeout(&address, question.limit) {
            Ok(_) => return Ok(()),
            Err(cause) => last = cause.to_string(),
        }
    }
    Err(last)
}

/// The response to a hello: `s_client`'s output, and whether the handshake was completed.
struct Response {
    finished: CommandOutput,
    worked: bool,
}

/// Attempts one handshake.
fn attempt(
    openssl: &Openssl<'_>,
    question: &Question,
    hello: &Hello,
) -> Result<(Attempt, Response), Failure> {
    let shared = question.options();
    let mut options: Vec<&str> = shared.iter().map(String::as_str).collect();
    options.extend_from_slice(hello.options);
    let bytes = size(openssl, &options, question.limit);
    if let Some(starttls) = question.starttls {
        options.extend(["-starttls", starttls.as_str()]);
    }
    let said = openssl.ask(&connect(&question.target, &options), question.limit);
    let finished = said.map_err(Failure::NotReady)?;
    let worked =
        finished.ok && find(&finished.out, "New, ").is_some_and(|new| !new.starts_with("(NONE)"));
    let error = (!worked).then(|| reason(&finished));
    Ok((Attempt { hello: hello.name, bytes, error }, Response { finished, worked }))
}

fn connect<'a>(target: &'a str, options: &[&'a str]) -> Vec<&'a str> {
    [&["s_client", "-connect", target][..], options].concat()
}

/// Measures the size of a ClientHello by sending it to a local listener, which closes the
/// connection. Returns `None` if that fails.
fn size(openssl: &Openssl<'_>, options: &[&str], limit: Duration) -> Option<usize> {
    let listener = TcpListener::bind("127.0.0.1:0").ok()?;
    listener.set_nonblocking(true).ok()?;
    let address = listener.local_addr().ok()?.to_string();
    let _running = openssl.start_client(&connect(&address, options)).ok()?;
    let start = Instant::now();
    let mut peer = loop {
        match listener.accept() {
            Ok((peer, _)) => break peer,
            Err(_) if start.elapsed() < limit => std::thread::sleep(POLL),
            Err(_) => return None,
        }
    };
    peer.set_nonblocking(false).ok()?;
    peer.set_read_timeout(Some(limit)).ok()?;
    let mut header = [0; 5];
    peer.read_exact(&mut header).ok()?;
    Some(header.len() + usize::from(u16::from_be_bytes([header[3], header[4]])))
}

/// Returns the lines of `s_client`'s standard error, without its announcement of the address.
fn messages(err: &str) -> impl Iterator<Item = &str> {
    err.lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with("Connecting to "))
}

/// Returns why the handshake failed: the reason part of OpenSSL's error message.
fn reason(said: &CommandOutput) -> String {
    let line = said.err.lines().rfind(|line| line.contains(":error:"));
    let of_queue = line.and_then(|line| line.split(":error:").nth(1)?.split(':').nth(3));
    let words = messages(&said.err).last();
    let words = of_queue.filter(|words| !words.is_empty()).or(words);
    words.unwrap_or("the connection was closed without an error message").to_owned()
}

fn find<'a>(said: &'a str, prefix: &str) -> Option<&'a str> {
    said.lines().find_map(|line| line.trim().strip_prefix(prefix)).map(str::trim)
}

impl Report {
    /// Stores the negotiated parameters.
    fn read(&mut self, said: &str, wants_certificate: bool) {
        let first = |prefixes: &[&str]| prefixes.iter().find_map(|prefix| find(said, prefix));
        let new = find(said, "New, ").unwrap_or_default();
        self.version =
            first(&["Protocol: ", "Protocol  : "]).or(new.split(',').next()).map(str::to_owned);
        self.cipher = new.split("Cipher is ").nth(1).map(str::to_owned);
        let group = first(&["Negotiated TLS1.3 group: ", "Peer Temp Key: ", "Server Temp Key: "]);
        self.group = group.map(str::to_owned);
        self.signature = first(&["Peer signature type: "]).map(str::to_owned);
        self.post_quantum = group.is_some_and(|group| group.to_ascii_uppercase().contains("MLKEM"));
        if wants_certificate {
            let code = find(said, "Verify return code: ").unwrap_or("not said");
            self.verified = Some(code.starts_with("0 "));
            if !code.starts_with("0 ") {
                self.problems.push(format!("the certificate is not verified: {code}"));
            }
        }
    }

    /// Adds the problems. Unknown parameters count as problems.
    fn judge(&mut self) {
        match (&self.not_survived, &self.version) {
            (Some(what), _) => self.problems.push(format!("the way does not survive {what}")),
            (None, None) => {
                let why = self.attempts.first().and_then(|attempt| attempt.error.clone());
                self.problems.push(format!(
                    "{} speaks no TLS with any of {} hellos: {}",
                    self.target,
                    self.attempts.len(),
                    why.unwrap_or_default()
                ));
            }
            (None, Some(_)) => {}
        }
        if self.version.is_some() && !self.post_quantum {
            let group = self.group.as_deref().unwrap_or("a group that is not known");
            self.problems.push(format!("the key exchange, {group}, is not post-quantum"));
        }
        self.ok = self.problems.is_empty() && self.post_quantum;
    }

    /// Returns whether there are no problems.
    pub fn is_ok(&self) -> bool {
        self.ok
    }

    /// Returns the problems.
    pub fn problems(&self) -> &[String] {
        &self.problems
    }
}

/// Prints the report as text.
///
/// # Errors
/// [`Failure::NotReady`] if standard output cannot be written.
pub fn print(report: &Report) -> Result<(), Failure> {
    let or_unknown =
        |value: &Option<String>| crate::failure::spelt(value.as_deref().unwrap_or("unknown"));
    say!("verdict        {}", if report.ok { "post-quantum" } else { "no" });
    say!("server         {}", report.target);
    if report.version.is_some() {
        say!("version        {}, {}", or_unknown(&report.version), or_unknown(&report.cipher));
        let kind = if report.post_quantum { "post-quantum" } else { "not post-quantum" };
        say!("key exchange   {}, {kind}", or_unknown(&report.group));
        say!("signature      {}", or_unknown(&report.signature));
        say!(
            "certificate    {}",
            match report.verified {
                Some(true) => "verified",
                Some(false) => "not verified",
                None => "not looked at; --ca FILE has it verified",
            }
        );
    }
    for attempt in &report.attempts {
        let bytes = attempt.bytes.map_or_else(String::new, |bytes| format!(", {bytes} bytes"));
        let result = attempt.error.as_deref().unwrap_or("answered");
        say!("hello          {}{bytes}: {}", attempt.hello, crate::failure::spelt(result));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_a_host_and_a_port() {
        for (target, expected) in [
            ("example.com:443", Some(("example.com", "example.com:443"))),
            ("127.0.0.1:8443", Some(("127.0.0.1", "127.0.0.1:8443"))),
            ("[::1]:1", Some(("::1", "[::1]:1"))),
            ("::1:1", None),
            ("example.com", None),
            (":443", None),
            ("example.com:0", None),
            ("example.com:65536", None),
            ("[::1:1", None),
            ("[example.com]:1", Some(("example.com", "example.com:1"))),
            ("-x:1", None),
        ] {
            let read = Question::new(target, None, 1).ok();
            let read = read.as_ref().map(|read| (read.host.as_str(), read.target.as_str()));
            assert_eq!(read, expected, "{target}");
        }
    }

    #[test]
    fn missing_handshake_details_are_not_post_quantum() {
        let mut report = Report::default();
        report.read("New, TLSv1.3, Cipher is TLS_AES_256_GCM_SHA384\n", true);
        report.judge();
        assert!(!report.ok && !report.post_quantum && report.verified == Some(false));
        assert_eq!(report.problems.len(), 2, "{:?}", report.problems);
    }
}
