//! Targets: a host, a port, and the protocol that leads to the handshake.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use rustls::pki_types::ServerName;
use serde::{Deserialize, Serialize};

/// The most targets that one list may have.
pub const TARGETS_MAX: usize = 1 << 20;
/// The port of HTTPS, and of targets without another one.
const HTTPS: u16 = 443;
/// The port of SSH.
const SSH: u16 = 22;

/// The protocol whose handshake is probed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// TLS, perhaps after a STARTTLS dialogue.
    #[default]
    Tls,
    /// SSH.
    Ssh,
}

/// A protocol in which the client requests TLS after connecting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StartTls {
    /// `STARTTLS` (RFC 3207).
    Smtp,
    /// `STARTTLS` (RFC 9051).
    Imap,
    /// `STLS` (RFC 2595).
    Pop3,
    /// The extended operation StartTLS (RFC 4511).
    Ldap,
    /// `AUTH TLS` (RFC 4217).
    Ftp,
    /// PostgreSQL's SSLRequest.
    Postgres,
    /// MySQL's SSLRequest.
    Mysql,
}

impl StartTls {
    /// Every protocol.
    pub const ALL: [StartTls; 7] = [
        StartTls::Smtp,
        StartTls::Imap,
        StartTls::Pop3,
        StartTls::Ldap,
        StartTls::Ftp,
        StartTls::Postgres,
        StartTls::Mysql,
    ];

    /// Returns the name on the command line and in reports.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            StartTls::Smtp => "smtp",
            StartTls::Imap => "imap",
            StartTls::Pop3 => "pop3",
            StartTls::Ldap => "ldap",
            StartTls::Ftp => "ftp",
            StartTls::Postgres => "postgres",
            StartTls::Mysql => "mysql",
        }
    }

    /// Returns the command of the protocol that asks for TLS.
    #[must_use]
    pub fn command(self) -> &'static str {
        match self {
            StartTls::Smtp | StartTls::Imap => "STARTTLS",
            StartTls::Pop3 => "STLS",
            StartTls::Ldap => "StartTLS",
            StartTls::Ftp => "AUTH TLS",
            StartTls::Postgres | StartTls::Mysql => "SSLRequest",
        }
    }

    /// Returns the port on which servers of the protocol listen.
    #[must_use]
    pub fn port(self) -> u16 {
        match self {
            StartTls::Smtp => 25,
            StartTls::Imap => 143,
            StartTls::Pop3 => 110,
            StartTls::Ldap => 389,
            StartTls::Ftp => 21,
            StartTls::Postgres => 5432,
            StartTls::Mysql => 3306,
        }
    }
}

impl fmt::Display for StartTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for StartTls {
    type Err = TargetError;

    fn from_str(name: &str) -> Result<StartTls, TargetError> {
        let known = StartTls::ALL.into_iter().find(|protocol| protocol.as_str() == name);
        known.ok_or_else(|| TargetError::StartTls(shown(name)))
    }
}

/// The steps before the handshake, for targets that do not name them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Opening {
    /// The protocol whose handshake is probed.
    pub protocol: Protocol,
    /// The dialogue before TLS.
    pub starttls: Option<StartTls>,
}

impl Opening {
    fn port(self) -> u16 {
        match (self.protocol, self.starttls) {
            (Protocol::Ssh, _) => SSH,
            (Protocol::Tls, Some(starttls)) => starttls.port(),
            (Protocol::Tls, None) => HTTPS,
        }
    }
}

/// The most characters of a word that an error repeats.
const SHOWN_LEN_MAX: usize = 300;

fn shown(word: &str) -> String {
    word.chars().take(SHOWN_LEN_MAX).collect()
}

/// A malformed target or list.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TargetError {
    /// The address is malformed.
    #[error("invalid address `{0}`: expected HOST or HOST:PORT, such as example.com:443")]
    Address(String),
    /// The STARTTLS protocol is unknown.
    #[error(
        "invalid STARTTLS protocol `{0}`: expected smtp, imap, pop3, ldap, ftp, postgres or mysql"
    )]
    StartTls(String),
    /// A word after the address is unknown.
    #[error("invalid word `{0}` after the address: expected `ssh` or `starttls=PROTOCOL`")]
    Word(String),
    /// A line of a list is malformed.
    #[error("line {line}: {cause}")]
    Line {
        /// The number of the line, from 1.
        line: usize,
        /// The cause.
        cause: Box<TargetError>,
    },
    /// The list is too long.
    #[error("the list has more than {TARGETS_MAX} targets; split it")]
    TooMany,
}

/// A server to probe.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Target {
    host: String,
    port: u16,
    protocol: Protocol,
    starttls: Option<StartTls>,
}

impl Target {
    /// Parses `HOST` or `HOST:PORT`. An IPv6 address needs brackets.
    ///
    /// # Errors
    /// [`TargetError::Address`] if it is malformed.
    pub fn parse(text: &str, opening: Opening) -> Result<Target, TargetError> {
        let wrong = || TargetError::Address(shown(text));
        let (host, port) = match text.strip_prefix('[') {
            Some(rest) => {
                let (host, port) = rest.split_once(']').ok_or_else(wrong)?;
                let port = match port {
                    "" => None,
                    port => Some(port.strip_prefix(':').ok_or_else(wrong)?),
                };
                (host, port)
            }
            None => match text.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (text, None),
            },
        };
        let port = match port {
            Some(port) => port.parse().ok().filter(|port| *port != 0).ok_or_else(wrong)?,
            None => opening.port(),
        };
        ServerName::try_from(host).map_err(|_| wrong())?;
        let Opening { protocol, starttls } = opening;
        Ok(Target { host: host.to_ascii_lowercase(), port, protocol, starttls })
    }

    /// Parses a list: one target a line, optionally followed by `ssh` or `starttls=PROTOCOL`.
    /// Everything after a `#` is a comment.
    ///
    /// # Errors
    /// [`TargetError::Line`] with the first malformed line, [`TargetError::TooMany`] for a list of
    /// more than [`TARGETS_MAX`] targets.
    pub fn parse_list(text: &str, opening: Opening) -> Result<Vec<Target>, TargetError> {
        let mut targets = Vec::new();
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        for (number, line) in text.lines().enumerate() {
            let mut words = line.split('#').next().unwrap_or_default().split_whitespace();
            let Some(address) = words.next() else { continue };
            let opening = match (words.next(), words.next()) {
                (None, _) => Ok(opening),
                (Some(word), None) => Opening::parse(word),
                (_, Some(word)) => Err(TargetError::Word(shown(word))),
            };
            let target = opening.and_then(|opening| Target::parse(address, opening));
            let at_line = |cause| TargetError::Line { line: number + 1, cause: Box::new(cause) };
            targets.push(target.map_err(at_line)?);
            if targets.len() > TARGETS_MAX {
                return Err(TargetError::TooMany);
            }
        }
        Ok(targets)
    }

    /// Returns the host: a name or an IP address.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Returns the port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns the protocol whose handshake is probed.
    #[must_use]
    pub fn protocol(&self) -> Protocol {
        self.protocol
    }

    /// Returns the dialogue before TLS.
    #[must_use]
    pub fn starttls(&self) -> Option<StartTls> {
        self.starttls
    }

    /// Returns the host's name for certificates and server name indication.
    #[must_use]
    pub fn server_name(&self) -> Option<ServerName<'static>> {
        ServerName::try_from(self.host.clone()).ok()
    }
}

/// `HOST:PORT`, with brackets around an IPv6 address.
impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.parse::<IpAddr>() {
            Ok(IpAddr::V6(_)) => write!(f, "[{}]:{}", self.host, self.port),
            _ => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

impl Opening {
    /// Parses a word of a list.
    fn parse(word: &str) -> Result<Opening, TargetError> {
        match word.split_once('=') {
            Some(("starttls", name)) => {
                Ok(Opening { protocol: Protocol::Tls, starttls: Some(name.parse()?) })
            }
            None if word == "ssh" => Ok(Opening { protocol: Protocol::Ssh, starttls: None }),
            _ => Err(TargetError::Word(shown(word))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_a_host_and_perhaps_a_port() {
        for (text, expected) in [
            ("example.com:443", Some("example.com:443")),
            ("Example.com", Some("example.com:443")),
            ("127.0.0.1:8443", Some("127.0.0.1:8443")),
            ("[::1]:1", Some("[::1]:1")),
            ("[::1]", Some("[::1]:443")),
            ("::1:1", None),
            ("::1", None),
            ("", None),
            (":443", None),
            ("example.com:", None),
            ("example.com:0", None),
            ("example.com:65536", None),
            ("[::1:1", None),
            ("[::1]1", None),
            ("-x:1", None),
            ("a b:1", None),
            ("a\u{1b}[2J", None),
        ] {
            let read = Target::parse(text, Opening::default()).ok();
            assert_eq!(read.map(|read| read.to_string()).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn ports_are_those_of_the_protocols() {
        let ports = [25, 143, 110, 389, 21, 5432, 3306];
        for (starttls, port) in StartTls::ALL.into_iter().zip(ports) {
            let opening = Opening { protocol: Protocol::Tls, starttls: Some(starttls) };
            assert_eq!(Target::parse("a", opening).unwrap().port(), port);
            assert_eq!(starttls.as_str().parse(), Ok(starttls));
        }
        assert_eq!(Target::parse("a", Opening::parse("ssh").unwrap()).unwrap().port(), 22);
    }

    #[test]
    fn a_list_has_comments_and_openings() {
        let list =
            "\u{feff}# servers\n a.example  # web\n\nb.example starttls=smtp\nc.example:2222 ssh\n";
        let targets = Target::parse_list(list, Opening::default()).unwrap();
        let read: Vec<_> = targets
            .iter()
            .map(|target| (target.to_string(), target.protocol(), target.starttls()))
            .collect();
        assert_eq!(
            read,
            [
                ("a.example:443".to_owned(), Protocol::Tls, None),
                ("b.example:25".to_owned(), Protocol::Tls, Some(StartTls::Smtp)),
                ("c.example:2222".to_owned(), Protocol::Ssh, None),
            ]
        );
        for (list, error) in [
            ("a\nb tls\n", "line 2: invalid word `tls`"),
            ("a ssh starttls=smtp", "line 1: invalid word `starttls=smtp`"),
            ("a starttls=gopher", "line 1: invalid STARTTLS protocol `gopher`"),
            ("a:b:c", "line 1: invalid address `a:b:c`"),
        ] {
            let read = Target::parse_list(list, Opening::default()).unwrap_err().to_string();
            assert!(read.starts_with(error), "{read}");
        }
    }
}
