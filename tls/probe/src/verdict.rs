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

/// The key exchange of a handshake.
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
    /// The feature that the path drops; `None` if the complete ClientHello was answered.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithm::{KeyKind, SignatureKind};

    fn key_exchange(version: u16, group: Option<u16>) -> KeyExchange<'static> {
        let algorithm = group.map_or("RSA key transport".to_owned(), raw::group_name);
        KeyExchange { version, group, algorithm, ..KeyExchange::default() }
    }

    #[test]
    fn the_reason_names_the_side_that_decides() {
        let first = key_exchange(raw::TLS1_3, Some(FIRST_GROUP)).verdict();
        assert!(first.post_quantum && first.why.contains("which the probe offers first"));
        let other = key_exchange(raw::TLS1_3, Some(0x11eb));
        let other = KeyExchange { is_hello_retry_request: true, ..other }.verdict();
        assert!(other.post_quantum && other.why.contains("it prefers SecP256r1MLKEM768"));
        assert!(other.why.ends_with("which costs a round trip"), "{other:?}");
        let curve = key_exchange(raw::TLS1_3, Some(0x1d));
        let unknown = curve.clone().verdict();
        assert!(!unknown.post_quantum && unknown.why.contains("the server's list decides"));
        assert!(unknown.fix.is_empty());
        let known = KeyExchange { program: Some("PostgreSQL"), ..curve.clone() }.verdict();
        assert!(known.why.contains("sets its groups itself"), "{known:?}");
        assert!(known.fix.len() == 2 && known.fix[0].starts_with("ssl_groups"), "{known:?}");
        let path = KeyExchange { not_survived: Some("the hello"), ..curve }.verdict();
        assert!(path.why.starts_with("the network path or the server drops the hello"));
        let old = key_exchange(raw::TLS1_2, None);
        let old = KeyExchange { program: Some("nginx"), ..old }.verdict();
        assert!(old.why.contains("TLSv1.2"), "{old:?}");
        assert!(old.fix[0].starts_with("ssl_protocols") && old.fix.len() == 2, "{old:?}");
    }

    fn certificate(name: &str, issuer: &str, key: bool, signature: bool) -> Certificate {
        let algorithm = |is_post_quantum| if is_post_quantum { "ML-DSA-65" } else { "RSA" };
        Certificate {
            subject: name.to_owned(),
            issuer: issuer.to_owned(),
            key: KeyKind {
                name: algorithm(key).to_owned(),
                is_post_quantum: key,
                ..KeyKind::default()
            },
            signature: SignatureKind {
                name: algorithm(signature).to_owned(),
                is_post_quantum: signature,
            },
            ..Certificate::default()
        }
    }

    #[test]
    fn one_classical_signature_is_enough() {
        let leaf = certificate("leaf", "ca", true, true);
        let ca = certificate("ca", "root", true, true);
        let root = certificate("root", "root", false, false);
        for (chain, expected) in [
            (vec![leaf.clone()], true),
            (vec![leaf.clone(), ca.clone()], true),
            // The root's signature on itself proves nothing, so it does not matter.
            (vec![leaf.clone(), ca, root.clone()], true),
            (vec![certificate("leaf", "ca", true, false)], false),
            (vec![certificate("leaf", "ca", false, true)], false),
            (vec![leaf.clone(), certificate("ca", "root", true, false), root], false),
        ] {
            let chain: Vec<_> = chain.into_iter().map(Ok).collect();
            let verdict = authentication(&chain).unwrap();
            assert_eq!(verdict.post_quantum, expected, "{verdict:?}");
        }
        assert_eq!(authentication(&[]), None);
        for chain in [vec![Err("x".to_owned())], vec![Ok(leaf), Err("x".to_owned())]] {
            let verdict = authentication(&chain).unwrap();
            assert!(!verdict.post_quantum && verdict.why.contains("cannot be read: x"));
        }
    }

    #[test]
    fn ssh_servers_are_judged_by_a_current_client() {
        let lists = |kex: &str| SshLists {
            banner: "SSH-2.0-OpenSSH_9.2p1".to_owned(),
            kex: vec![kex.to_owned()],
            host_keys: vec!["ssh-ed25519".to_owned()],
        };
        let hybrid = ssh_key_exchange(&lists("mlkem768x25519-sha256"));
        assert!(hybrid.post_quantum && hybrid.fix.is_empty(), "{hybrid:?}");
        let curve = ssh_key_exchange(&lists("curve25519-sha256"));
        assert!(!curve.post_quantum && curve.fix[0].starts_with("KexAlgorithms"), "{curve:?}");
        let nothing = ssh_key_exchange(&lists("rsa1024-sha1"));
        assert!(!nothing.post_quantum && nothing.why.contains("in common"), "{nothing:?}");
        assert!(!ssh_authentication(&lists("x")).post_quantum);
    }
}
