//! Verdicts: whether the key exchange and the authentication are post-quantum, why, and what
//! changes it.
//!
//! The probe offers hybrids first, so a server that selects a curve decides by its own list, or has
//! nothing else.

use crate::advice;
use crate::certificate::Certificate;
use crate::raw;
use crate::report::Verdict;
use crate::ssh::SshLists;

/// The group that the probe offers first.
const FIRST_GROUP: u16 = 0x11ec;

/// What a handshake says about its key exchange.
#[derive(Clone, Debug, Default)]
pub struct KeyExchange<'a> {
    /// The version of TLS.
    pub version: u16,
    /// The group; `None` for RSA key transport and for finite fields without a codepoint.
    pub group: Option<u16>,
    /// The key exchange by name.
    pub algorithm: String,
    /// Whether the server sent a HelloRetryRequest.
    pub is_hello_retry_request: bool,
    /// What the path drops; `None` if the complete ClientHello was answered.
    pub not_survived: Option<&'a str>,
    /// The server's program.
    pub program: Option<&'a str>,
}

impl KeyExchange<'_> {
    /// Returns the verdict.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        let post_quantum = self.group.is_some_and(raw::is_group_post_quantum);
        let algorithm = self.algorithm.clone();
        let first = raw::group_name(FIRST_GROUP);
        let mut why = if post_quantum {
            match self.group == Some(FIRST_GROUP) {
                true => format!("the server accepts {first}, which the probe offers first"),
                false => format!("the server's list decides: it prefers {algorithm} to {first}"),
            }
        } else {
            self.why_classical(&first)
        };
        if post_quantum && self.is_hello_retry_request {
            why.push_str("; it asks for it with a HelloRetryRequest, which costs a round trip");
        }
        let fix = if post_quantum { Vec::new() } else { self.fix() };
        Verdict { post_quantum, algorithm, why, fix }
    }

    fn why_classical(&self, first: &str) -> String {
        if let Some(dropped) = self.not_survived {
            return format!(
                "the network path or the server drops {dropped}, so the connection was made \
                 without it"
            );
        }
        if self.version < raw::TLS1_3 {
            return format!(
                "the server selected {}, which has no post-quantum key exchange, although the \
                 probe offers TLS 1.3",
                raw::version_name(self.version)
            );
        }
        match self.program.and_then(advice::find).and_then(|advice| advice.reason) {
            Some(reason) => format!("the server's list decides: {reason}"),
            None => format!(
                "the server's list decides: the probe offers {first} first, and the server \
                 selected {}. Its list has no hybrid or prefers a curve, or its TLS library has no \
                 ML-KEM (OpenSSL before 3.5)",
                self.algorithm
            ),
        }
    }

    fn fix(&self) -> Vec<String> {
        let Some(advice) = self.program.and_then(advice::find) else { return Vec::new() };
        let tls13 = if self.version < raw::TLS1_3 { advice.tls13 } else { &[] };
        tls13.iter().chain(advice.groups).map(|line| (*line).to_owned()).collect()
    }
}

/// Returns the verdict on a chain whose first certificate is the server's. A signature on a
/// self-signed root does not count, because clients trust the root by its key.
///
/// Returns `None` for an empty chain.
#[must_use]
pub fn authentication(chain: &[Result<Certificate, String>]) -> Option<Verdict> {
    let verdict = |post_quantum, algorithm: &str, why: String, fix: &[&str]| {
        let fix = fix.iter().map(|line| (*line).to_owned()).collect();
        Some(Verdict { post_quantum, algorithm: algorithm.to_owned(), why, fix })
    };
    let leaf = match chain.first()? {
        Ok(leaf) => leaf,
        Err(error) => {
            return verdict(
                false,
                "unknown",
                format!("the certificate cannot be read: {error}"),
                &[],
            );
        }
    };
    if !leaf.key.is_post_quantum {
        let why = format!(
            "the server's key is {}; the probe offers ML-DSA, so the server has no certificate \
             with an ML-DSA key, or its list prefers this one",
            leaf.key.name
        );
        let fix = "# add a certificate with an ML-DSA-65 key beside this one, for clients that \
                   support it";
        return verdict(false, &leaf.key.name, why, &[fix]);
    }
    for (number, certificate) in chain.iter().enumerate() {
        let certificate = match certificate {
            Ok(certificate) => certificate,
            Err(error) => {
                let why =
                    format!("certificate {} of the chain cannot be read: {error}", number + 1);
                return verdict(false, "unknown", why, &[]);
            }
        };
        let is_root = certificate.subject == certificate.issuer;
        if !is_root && !certificate.signature.is_post_quantum {
            let (name, key) = (&certificate.signature.name, &leaf.key.name);
            let why = format!(
                "the server's key is {key}, but the signature on the certificate of `{}` is {name}",
                certificate.subject
            );
            return verdict(false, name, why, &[]);
        }
    }
    let why = format!("the server's key and every signature that it sent are {}", leaf.key.name);
    let others = chain.iter().flatten().any(|other| other.signature.name != leaf.key.name);
    let why = match others {
        true => "the server's key and every signature that it sent are post-quantum".to_owned(),
        false => why,
    };
    verdict(true, &leaf.key.name, why, &[])
}

/// Returns the verdict on the key exchange of an SSH server with a client of OpenSSH 10.
#[must_use]
pub fn ssh_key_exchange(lists: &SshLists) -> Verdict {
    let algorithm = lists.negotiated_kex();
    let post_quantum = lists.is_kex_post_quantum();
    let why = match algorithm {
        None => "the server and a client of OpenSSH 10 have no method in common".to_owned(),
        Some(name) if post_quantum => {
            format!("the server offers {name}, the first choice of OpenSSH 10 that it has")
        }
        Some(name) => {
            format!("the server's list decides: it has no post-quantum method, so {name} is used")
        }
    };
    let advice = advice::find(&lists.banner).filter(|_| !post_quantum);
    let fix = advice.iter().flat_map(|advice| advice.groups).map(|line| (*line).to_owned());
    let algorithm = algorithm.unwrap_or("none").to_owned();
    Verdict { post_quantum, algorithm, why, fix: fix.collect() }
}

/// Returns the verdict on the host keys of an SSH server.
#[must_use]
pub fn ssh_authentication(lists: &SshLists) -> Verdict {
    let algorithm = lists.negotiated_host_key().unwrap_or("none").to_owned();
    let post_quantum = lists.has_post_quantum_host_key();
    let why = match post_quantum {
        true => "the server has a post-quantum host key".to_owned(),
        false => "the server has classical host keys only; OpenSSH 10 has no others".to_owned(),
    };
    Verdict { post_quantum, algorithm, why, fix: Vec::new() }
}
