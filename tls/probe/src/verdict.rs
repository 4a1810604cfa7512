//! Verdicts: whether the key exchange and the authentication are post-quantum, why, and what
//! changes it.
//!
//! The complete hello offers hybrids first, so a server that selects a curve decides by its own
//! list, or has nothing else. After a smaller hello, the reason is what that hello leaves out.

use crate::advice;
use crate::certificate::Certificate;
use crate::handshake::{Form, Groups};
use crate::raw;
use crate::report::Verdict;
use crate::ssh::{SshLists, is_host_key_post_quantum};

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
    /// The form of the ClientHello that was answered.
    pub form: Form,
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
        let mut why = if !post_quantum {
            self.why_classical(&first)
        } else if self.group != Some(FIRST_GROUP) {
            format!(
                "the server selected {algorithm}, and not {first}, which the probe offers, too: \
                 it does not have that group, or prefers the other. In the first case, clients \
                 whose only hybrid is {first} get a classical connection"
            )
        } else if self.form.groups == Groups::SmallShare {
            format!("the server prefers {first} to x25519, whose share the hello has")
        } else {
            format!("the server accepts {first}, which the probe offers first")
        };
        if post_quantum && self.is_hello_retry_request {
            why.push_str("; it asks for it with a HelloRetryRequest, which costs a round trip");
        }
        let fix = if post_quantum { Vec::new() } else { self.fix() };
        Verdict { post_quantum, algorithm, why, fix }
    }

    fn why_classical(&self, first: &str) -> String {
        if self.version < raw::TLS1_3 && self.form.has_tls13 {
            return format!(
                "the server selected {}, which has no post-quantum key exchange, although the \
                 probe offers TLS 1.3",
                raw::version_name(self.version)
            );
        }
        if self.form.groups != Groups::PostQuantumFirst {
            return format!(
                "the network path or the server drops {}, so the connection was made without it",
                self.form.missing
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

/// The credentials that a server showed in a handshake.
#[derive(Clone, Debug, Default)]
pub struct Authentication<'a> {
    /// The version of TLS.
    pub version: u16,
    /// The form of the ClientHello that was answered.
    pub form: Form,
    /// The certificates, the server's first.
    pub chain: &'a [Result<Certificate, String>],
    /// Whether the server's signature was verified with the key of its certificate.
    pub is_signature_verified: bool,
}

impl Authentication<'_> {
    /// Returns the verdict; `None` for an empty chain.
    ///
    /// A classical signature on a self-issued certificate with a classical key does not count,
    /// because clients trust a root by its key.
    #[must_use]
    pub fn verdict(&self) -> Option<Verdict> {
        let leaf = match self.chain.first()? {
            Ok(leaf) => leaf,
            Err(error) => {
                return classical("unknown", format!("the certificate cannot be read: {error}"));
            }
        };
        let key = &leaf.key.name;
        if self.version < raw::TLS1_3 {
            let version = raw::version_name(self.version);
            return classical(key, format!("the server's key is {key}; {version} has no ML-DSA"));
        }
        if !leaf.key.is_post_quantum {
            return self.classical_key(key);
        }
        if !self.is_signature_verified {
            let why = format!(
                "the server's key is {key}, but the handshake's signature cannot be verified"
            );
            return classical(key, why);
        }
        for (number, certificate) in self.chain.iter().enumerate() {
            let certificate = match certificate {
                Ok(certificate) => certificate,
                Err(error) => {
                    let why =
                        format!("certificate {} of the chain cannot be read: {error}", number + 1);
                    return classical("unknown", why);
                }
            };
            // A post-quantum key does not sign itself with a classical algorithm.
            let is_root = certificate.is_self_issued() && !certificate.key.is_post_quantum;
            if !is_root && !certificate.signature.is_post_quantum {
                let name = &certificate.signature.name;
                let why = format!(
                    "the server's key is {key}, but the signature on the certificate of `{}` is \
                     {name}",
                    certificate.subject
                );
                return classical(name, why);
            }
        }
        let others = self.chain.iter().flatten().any(|other| other.signature.name != *key);
        let algorithms = if others { "post-quantum" } else { key };
        let why = format!(
            "the server's key and every signature that it sent are {algorithms}; a root that it \
             did not send is not judged"
        );
        Some(Verdict { post_quantum: true, algorithm: key.clone(), why, fix: Vec::new() })
    }

    fn classical_key(&self, key: &str) -> Option<Verdict> {
        if !self.form.has_ml_dsa {
            let why = format!(
                "the server's key is {key}; the hello that was answered does not offer ML-DSA, so \
                 the server may have another certificate"
            );
            return classical(key, why);
        }
        let why = format!(
            "the server's key is {key}; the probe offers ML-DSA, so the server has no certificate \
             with an ML-DSA key, or its list prefers this one"
        );
        let fix =
            "# add a certificate with an ML-DSA-65 key to this one, for clients that support it";
        let verdict = classical(key, why);
        verdict.map(|verdict| Verdict { fix: vec![fix.to_owned()], ..verdict })
    }
}

fn classical(algorithm: &str, why: String) -> Option<Verdict> {
    let algorithm = algorithm.to_owned();
    Some(Verdict { post_quantum: false, algorithm, why, fix: Vec::new() })
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
            format!(
                "the server's list decides: it has no post-quantum method of OpenSSH 10, so {name} \
                 is used"
            )
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
    let post_quantum = is_host_key_post_quantum(&algorithm);
    let mut why = match post_quantum {
        true => "the server has a post-quantum host key".to_owned(),
        false => "the server has classical host keys only; OpenSSH 10 has no others".to_owned(),
    };
    if let Some(other) = lists.post_quantum_host_key().filter(|_| !post_quantum) {
        why = format!("the server also offers {other}, which OpenSSH 10 does not ask for");
    }
    Verdict { post_quantum, algorithm, why, fix: Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithm::{KeyKind, SignatureKind};
    use crate::handshake::{COMPLETE, FALLBACKS};

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
        assert!(other.post_quantum && other.why.contains("and not X25519MLKEM768"), "{other:?}");
        assert!(other.why.contains("get a classical connection"), "{other:?}");
        assert!(other.why.ends_with("which costs a round trip"), "{other:?}");
        let curve = key_exchange(raw::TLS1_3, Some(0x1d));
        let unknown = curve.clone().verdict();
        assert!(!unknown.post_quantum && unknown.why.contains("the server's list decides"));
        assert!(unknown.fix.is_empty());
        let known = KeyExchange { program: Some("PostgreSQL"), ..curve.clone() }.verdict();
        assert!(known.why.contains("sets its groups itself"), "{known:?}");
        assert!(known.fix.len() == 2 && known.fix[0].starts_with("ssl_groups"), "{known:?}");
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
    fn the_reason_is_that_of_the_hello_that_was_answered() {
        let why = |form: Form, version, group| {
            KeyExchange { form, ..key_exchange(version, Some(group)) }.verdict().why
        };
        let [no_ml_dsa, small_share, no_ml_kem, _, tls12] = FALLBACKS;
        for (form, version, group, expected) in [
            (COMPLETE, raw::TLS1_3, 0x1d, "the server's list decides"),
            (no_ml_dsa, raw::TLS1_3, 0x1d, "the server's list decides"),
            (no_ml_dsa, raw::TLS1_3, FIRST_GROUP, "the server accepts"),
            (small_share, raw::TLS1_3, FIRST_GROUP, "the server prefers X25519MLKEM768 to x25519"),
            (small_share, raw::TLS1_3, 0x1d, "the network path or the server drops the size"),
            (no_ml_kem, raw::TLS1_3, 0x1d, "the network path or the server drops the groups"),
            (no_ml_kem, raw::TLS1_2, 0x1d, "the server selected TLSv1.2"),
            (tls12, raw::TLS1_2, 0x1d, "the network path or the server drops TLS 1.3"),
        ] {
            let why = why(form, version, group);
            assert!(why.starts_with(expected), "{}: {why}", form.name);
        }
        let chain = [Ok(certificate("leaf", "ca", false, false))];
        for (form, version, expected) in [
            (COMPLETE, raw::TLS1_3, "the probe offers ML-DSA"),
            (no_ml_dsa, raw::TLS1_3, "does not offer ML-DSA"),
            (COMPLETE, raw::TLS1_2, "TLSv1.2 has no ML-DSA"),
        ] {
            let verdict = Authentication { version, form, ..shown(&chain) }.verdict().unwrap();
            assert!(verdict.why.contains(expected), "{}: {verdict:?}", form.name);
            assert_eq!(verdict.fix.is_empty(), !expected.contains("the probe"));
        }
        let chain = [Ok(certificate("leaf", "ca", true, true))];
        for (version, is_signature_verified, expected) in
            [(raw::TLS1_3, true, true), (raw::TLS1_3, false, false), (raw::TLS1_2, true, false)]
        {
            let shown = Authentication { version, is_signature_verified, ..shown(&chain) };
            assert_eq!(shown.verdict().unwrap().post_quantum, expected, "{version}");
        }
    }

    /// A handshake of TLS 1.3 with the complete hello.
    fn shown(chain: &[Result<Certificate, String>]) -> Authentication<'_> {
        let version = raw::TLS1_3;
        Authentication { version, chain, is_signature_verified: true, ..Authentication::default() }
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
            // A key that was rolled over, and a server that names itself as its issuer.
            (vec![leaf.clone(), certificate("ca", "ca", true, false)], false),
            (vec![certificate("leaf", "leaf", true, false)], false),
        ] {
            let chain: Vec<_> = chain.into_iter().map(Ok).collect();
            let verdict = shown(&chain).verdict().unwrap();
            assert_eq!(verdict.post_quantum, expected, "{verdict:?}");
        }
        assert_eq!(shown(&[]).verdict(), None);
        for chain in [vec![Err("x".to_owned())], vec![Ok(leaf), Err("x".to_owned())]] {
            let verdict = shown(&chain).verdict().unwrap();
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
        let mut lists = lists("x");
        assert!(!ssh_authentication(&lists).post_quantum);
        lists.host_keys.insert(0, "ssh-mldsa-65".to_owned());
        let both = ssh_authentication(&lists);
        assert_eq!((&*both.algorithm, both.post_quantum), ("ssh-ed25519", false));
        assert!(both.why.contains("also offers ssh-mldsa-65"), "{both:?}");
    }
}
