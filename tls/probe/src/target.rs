//! Targets: a host, a port, and the protocol that leads to the handshake.

use std::fmt;

use serde::{Deserialize, Serialize};

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
