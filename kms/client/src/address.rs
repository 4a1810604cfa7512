//! Addresses of the service.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use crate::error::Error;

/// An address of the service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// `https://HOST:PORT`: TLS 1.3.
    Tls {
        /// A host name or an IP address, without brackets.
        host: String,
        /// The port.
        port: u16,
    },
    /// `unix:/PATH`: a Unix socket.
    Unix(PathBuf),
}

/// Vault's default port.
const PORT: u16 = 8200;

impl FromStr for Address {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let refused = || {
            Error::Settings(format!(
                "invalid address `{text}`; expected https://HOST:PORT or unix:/PATH"
            ))
        };
        if let Some(path) = text.strip_prefix("unix:") {
            return match path.starts_with('/') {
                true => Ok(Address::Unix(path.into())),
                false => Err(refused()),
            };
        }
        let rest = text.strip_prefix("https://").ok_or_else(refused)?;
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        let (host, port) = match rest.strip_prefix('[') {
            Some(rest) => {
                let (host, port) = rest.split_once(']').ok_or_else(refused)?;
                (host, port)
            }
            None => rest.split_at(rest.find(':').unwrap_or(rest.len())),
        };
        let port = match port.strip_prefix(':') {
            Some(port) => port.parse().map_err(|_| refused())?,
            None if port.is_empty() => PORT,
            None => return Err(refused()),
        };
        let is_host = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:".contains(&byte);
        match !host.is_empty() && host.bytes().all(is_host) {
            true => Ok(Address::Tls { host: host.to_owned(), port }),
            false => Err(refused()),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Tls { host, port } if host.contains(':') => {
                write!(out, "https://[{host}]:{port}")
            }
            Address::Tls { host, port } => write!(out, "https://{host}:{port}"),
            Address::Unix(path) => write!(out, "unix:{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_written_as_it_was_read() {
        for text in [
            "https://127.0.0.1:8200",
            "https://[::1]:1",
            "https://kms.example:65535",
            "unix:/run/k",
        ] {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), text);
        }
        assert_eq!("https://kms/".parse::<Address>().unwrap().to_string(), "https://kms:8200");
        for text in [
            "",
            "kms:8200",
            "http://kms:8200",
            "https://",
            "https://:1",
            "https://a:b",
            "https://a/b",
            "https://[::1",
            "https://[::1]x",
            "unix:run",
            "https://a b:1",
        ] {
            assert!(text.parse::<Address>().is_err(), "{text}");
        }
    }
}
