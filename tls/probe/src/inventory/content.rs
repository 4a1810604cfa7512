//! Recognizes keys and certificates in the bytes of a file.
//!
//! ```text
//!   bytes ─┬─ PEM blocks ─> label, DER ─┬─ certificate (RFC 5280)
//!          ├─ DER ──────────────────────┼─ public key: SubjectPublicKeyInfo, PKCS#1
//!          │                            ├─ private key: PKCS#8, ECPrivateKey, PKCS#1
//!          │                            └─ openssh-key-v1, and the stateful keys of `gabion hbs`
//!          └─ text ─────> lines with an OpenSSH public key
//! ```
//!
//! Of a private key, the algorithm and the size are read; the key is wiped from memory afterwards.

use base64ct::{Base64, Encoding};
use gabion_engine::key_file::Shape;
use pkcs8::der::asn1::{AnyRef, OctetStringRef};
use pkcs8::der::{self, Decode, Reader, SliceReader, Tag, TagNumber, Tagged};
use pkcs8::spki::{AlgorithmIdentifierRef, SubjectPublicKeyInfoRef};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

use super::openssh::{self, SshKey};
use crate::algorithm::{KeyKind, integer_bits};
use crate::certificate::{Certificate, hex};

/// The kind of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// An X.509 certificate.
    Certificate,
    /// A private key.
    PrivateKey,
    /// A public key, or an SSH certificate.
    PublicKey,
}

impl Kind {
    /// Returns the kind in words.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Kind::Certificate => "certificate",
            Kind::PrivateKey => "private key",
            Kind::PublicKey => "public key",
        }
    }
}

/// A key or certificate in a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Entry {
    /// The kind: certificate, private key or public key.
    pub kind: Kind,
    /// Its place in the file: the number of the PEM block or the line, from 1; 0 in a DER file.
    pub position: usize,
    /// Its format: `PEM`, `DER` or `OpenSSH`.
    pub format: &'static str,
    /// The algorithm of the key; `None` for an encrypted private key, which does not say.
    pub algorithm: Option<KeyKind>,
    /// Whether a password is needed to use it.
    pub is_encrypted: bool,
    /// The SHA-256 of the certificate or public key, in lower-case hex; `None` for a private key
    /// whose file does not contain the public key.
    pub sha256: Option<String>,
    /// The certificate; `None` for keys.
    pub certificate: Option<Certificate>,
}

impl Entry {
    /// Returns an entry that is not encrypted and has no fingerprint.
    fn new(kind: Kind, algorithm: Option<KeyKind>, format: &'static str) -> Entry {
        Entry {
            kind,
            position: 0,
            format,
            algorithm,
            is_encrypted: false,
            sha256: None,
            certificate: None,
        }
    }

    /// Returns whether the key, and the issuer's signature of a certificate, resist quantum
    /// computers; `None` if the algorithm of an encrypted private key is unknown.
    #[must_use]
    pub fn is_post_quantum(&self) -> Option<bool> {
        match &self.certificate {
            Some(certificate) => Some(certificate.is_post_quantum()),
            None => self.algorithm.as_ref().map(|kind| kind.is_post_quantum),
        }
    }
}

/// The entries of a file, and the parts that are damaged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Content {
    /// The keys and certificates, in the order of the file.
    pub entries: Vec<Entry>,
    /// The blocks that could not be read, and why.
    pub damaged: Vec<String>,
}

/// Maximum number of damaged blocks that are reported for one file.
const DAMAGED_MAX: usize = 10;

/// Finds the keys and certificates in a file. Files of other types give an empty list.
#[must_use]
pub fn inspect(bytes: &[u8]) -> Content {
    let mut content = Content::default();
    if bytes.first() == Some(&0x30) && Shape::parse(bytes).is_some() {
        content.entries.extend(of_der(bytes));
        return content;
    }
    let mut position = 0;
    let mut body = Zeroizing::new(Vec::with_capacity(bytes.len()));
    let lines = bytes.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii_end).enumerate();
    let mut lines = lines.peekable();
    while let Some((number, line)) = lines.next() {
        let Some(label) = label(line, b"-----BEGIN ") else {
            if let Some(key) = std::str::from_utf8(line).ok().and_then(openssh::public_key) {
                let entry = of_ssh(key, Kind::PublicKey);
                content.entries.push(Entry { position: number + 1, ..entry });
            }
            continue;
        };
        position += 1;
        body.clear();
        let mut has_headers = false;
        while let Some((_, line)) = lines.next_if(|(_, line)| !line.starts_with(b"-----")) {
            has_headers |= line.contains(&b':');
            body.extend(line.iter().filter(|byte| !byte.is_ascii_whitespace()));
        }
        let is_end = |line: &[u8]| self::label(line, b"-----END ") == Some(label);
        let has_end = lines.next_if(|(_, line)| is_end(line)).is_some();
        match of_block(label, &body, has_headers, has_end) {
            Ok(entry) => content.entries.extend(entry.map(|entry| Entry { position, ..entry })),
            Err(reason) if content.damaged.len() < DAMAGED_MAX => {
                content.damaged.push(format!("block {position} (`{label}`) {reason}"));
            }
            Err(_) => {}
        }
    }
    content
}

/// Returns the label on the first or last line of a PEM block.
fn label<'a>(line: &'a [u8], start: &[u8]) -> Option<&'a str> {
    std::str::from_utf8(line.strip_prefix(start)?.strip_suffix(b"-----")?).ok()
}

/// The label of a stateful private key (`gabion_state::LABEL`).
const STATEFUL: &str = "GABION STATEFUL PRIVATE KEY";

/// Describes a PEM block. Blocks of other types, such as parameters and requests, have no entry.
fn of_block(
    label: &str,
    body: &[u8],
    has_headers: bool,
    has_end: bool,
) -> Result<Option<Entry>, String> {
    let key_algorithm = match label {
        "RSA PRIVATE KEY" => Some("RSA"),
        "EC PRIVATE KEY" => Some("ECDSA"),
        "DSA PRIVATE KEY" => Some("DSA"),
        "CERTIFICATE"
        | "X509 CERTIFICATE"
        | "TRUSTED CERTIFICATE"
        | "PUBLIC KEY"
        | "RSA PUBLIC KEY"
        | "PRIVATE KEY"
        | "ENCRYPTED PRIVATE KEY"
        | "OPENSSH PRIVATE KEY"
        | STATEFUL => None,
        _ => return Ok(None),
    };
    if !has_end {
        return Err("is cut short".to_owned());
    }
    if let Some(name) = key_algorithm.filter(|_| has_headers) {
        // The old encryption of PEM leaves the label as it is.
        let algorithm = Some(KeyKind::classical(name, 0));
        let entry = Entry::new(Kind::PrivateKey, algorithm, "PEM");
        return Ok(Some(Entry { is_encrypted: true, ..entry }));
    }
    let text = std::str::from_utf8(body).map_err(|_| "is not base64")?;
    let mut der = Zeroizing::new(vec![0; body.len()]);
    let der = Base64::decode(text, &mut der).map_err(|_| "is not base64")?;
    let entry = match label {
        "CERTIFICATE" | "X509 CERTIFICATE" => return of_certificate(der, "PEM").map(Some),
        "TRUSTED CERTIFICATE" => return of_certificate(first_structure(der), "PEM").map(Some),
        "RSA PRIVATE KEY" => integer_bits(der, 1).map(|bits| private(KeyKind::rsa(bits), "PEM")),
        "DSA PRIVATE KEY" => integer_bits(der, 1)
            .map(|bits| private(KeyKind::classical(format!("DSA-{bits}"), bits), "PEM")),
        "RSA PUBLIC KEY" => integer_bits(der, 0).map(|bits| Entry {
            sha256: Some(hex(&Sha256::digest(der))),
            ..Entry::new(Kind::PublicKey, Some(KeyKind::rsa(bits)), "PEM")
        }),
        "OPENSSH PRIVATE KEY" => openssh::private_key(der).map(|key| of_ssh(key, Kind::PrivateKey)),
        STATEFUL => of_stateful(der),
        _ => of_der(der).map(|entry| Entry { format: "PEM", ..entry }),
    };
    entry.map(Some).ok_or_else(|| "is damaged".to_owned())
}

fn private(algorithm: KeyKind, format: &'static str) -> Entry {
    Entry::new(Kind::PrivateKey, Some(algorithm), format)
}

fn of_ssh(key: SshKey, kind: Kind) -> Entry {
    Entry {
        is_encrypted: key.is_encrypted,
        sha256: Some(key.sha256),
        ..Entry::new(kind, Some(key.algorithm), "OpenSSH")
    }
}

fn of_certificate(der: &[u8], format: &'static str) -> Result<Entry, String> {
    let certificate = Certificate::parse(der).map_err(|cause| format!("is damaged: {cause}"))?;
    Ok(Entry {
        sha256: Some(certificate.sha256.clone()),
        certificate: Some(certificate.clone()),
        ..Entry::new(Kind::Certificate, Some(certificate.key), format)
    })
}

/// Returns the bytes of the first structure: openssl writes trust settings after the certificate.
fn first_structure(der: &[u8]) -> &[u8] {
    let rest = SliceReader::new(der).and_then(|mut reader| {
        AnyRef::decode(&mut reader)?;
        usize::try_from(reader.remaining_len())
    });
    rest.ok().and_then(|rest| der.get(..der.len().checked_sub(rest)?)).unwrap_or(der)
}

/// Describes a DER file; `None` if it is neither a key nor a certificate.
fn of_der(der: &[u8]) -> Option<Entry> {
    match Shape::parse(der)? {
        Shape::Private => of_pkcs8(der).ok(),
        Shape::EcPrivate => of_ec_private(der).ok(),
        Shape::Encrypted => {
            AnyRef::from_der(der).ok()?;
            let entry = Entry::new(Kind::PrivateKey, None, "DER");
            Some(Entry { is_encrypted: true, ..entry })
        }
        Shape::Public => {
            let info = SubjectPublicKeyInfoRef::from_der(der).ok()?;
            Some(Entry {
                sha256: Some(hex(&Sha256::digest(der))),
                ..Entry::new(Kind::PublicKey, Some(KeyKind::of_public(&info)), "DER")
            })
        }
        Shape::Certificate => of_certificate(der, "DER").ok(),
    }
}

/// Describes a PKCS#8 private key by its first three fields.
fn of_pkcs8(der: &[u8]) -> der::Result<Entry> {
    let mut fields = SliceReader::new(AnyRef::from_der(der)?.value())?;
    u8::decode(&mut fields)?;
    let identifier = AlgorithmIdentifierRef::decode(&mut fields)?;
    let octets = <&OctetStringRef>::decode(&mut fields)?;
    Ok(private(KeyKind::of_private(&identifier, octets.as_bytes()), "DER"))
}

/// Describes an ECPrivateKey (RFC 5915) by its parameters.
fn of_ec_private(der: &[u8]) -> der::Result<Entry> {
    let mut fields = SliceReader::new(AnyRef::from_der(der)?.value())?;
    u8::decode(&mut fields)?;
    <&OctetStringRef>::decode(&mut fields)?;
    let mut curve = None;
    if !fields.is_finished() {
        let field = AnyRef::decode(&mut fields)?;
        let parameters = Tag::ContextSpecific { constructed: true, number: TagNumber(0) };
        if field.tag() == parameters {
            curve = Some(AnyRef::from_der(field.value())?);
        }
    }
    let kind = match curve {
        Some(_) => KeyKind::of_curve(curve),
        None => KeyKind::classical("ECDSA", 0),
    };
    Ok(private(kind, "DER"))
}

/// Describes a private key of `gabion hbs keygen` by the byte that follows its version.
fn of_stateful(bytes: &[u8]) -> Option<Entry> {
    let [kind, _, protection] = *bytes.strip_prefix(b"gabkey01")?.first_chunk()?;
    let name = match kind {
        1 | 4 => "HSS",
        2 => "XMSS",
        3 => "XMSSMT",
        _ => return None,
    };
    let algorithm = KeyKind { name: name.to_owned(), is_post_quantum: true, bits: 0 };
    Some(Entry { is_encrypted: protection != 0, ..private(algorithm, "PEM") })
}

#[cfg(test)]
mod tests {
    use super::*;
    use gabion_engine::Algorithm;
    use gabion_rustls::certificate::tlv;
    use gabion_rustls::testing::{KEYS, Key, chain};

    fn pem(label: &str, der: &[u8]) -> String {
        let body = Base64::encode_string(der);
        let lines: Vec<&str> =
            body.as_bytes().chunks(64).map(|line| std::str::from_utf8(line).unwrap()).collect();
        format!("-----BEGIN {label}-----\r\n{}\r\n-----END {label}-----\r\n", lines.join("\r\n"))
    }

    fn one(bytes: &[u8]) -> Entry {
        let Content { entries, damaged } = inspect(bytes);
        assert_eq!((entries.len(), damaged), (1, Vec::new()));
        entries.into_iter().next().unwrap()
    }

    #[test]
    fn certificates_and_private_keys_of_every_kind_are_found() {
        for key in KEYS {
            let chain = chain(key, 0);
            let certificate = one(&chain.certificates[0]);
            let private = one(chain.file.secret_der());
            assert_eq!((certificate.kind, private.kind), (Kind::Certificate, Kind::PrivateKey));
            assert_eq!(certificate.algorithm, private.algorithm, "{key:?}");
            assert_eq!((private.format, private.position), ("DER", 0));
            let text = [
                "Certificate:\n    Data\n".to_owned(),
                pem("CERTIFICATE", &chain.certificates[0]),
                pem("DH PARAMETERS", b"-"),
                pem("PRIVATE KEY", chain.file.secret_der()),
            ];
            let Content { entries, damaged } = inspect(text.concat().as_bytes());
            assert_eq!(damaged, [""; 0]);
            assert_eq!(entries.iter().map(|one| one.position).collect::<Vec<_>>(), [1, 3]);
            assert_eq!(entries[0].certificate, certificate.certificate);
            assert_eq!((entries[1].format, &entries[1].algorithm), ("PEM", &private.algorithm));
        }
    }

    /// RFC 8017, appendix A.1: the modulus decides the size.
    #[test]
    fn old_formats_are_found_by_their_label() {
        let modulus = tlv(2, &[&[0, 0x80], &[1; 127]]);
        let numbers = [&modulus[..], &tlv(2, &[&[1, 0, 1]])].concat();
        let private = tlv(0x30, &[&tlv(2, &[&[0]]), &numbers]);
        for (label, der) in
            [("RSA PRIVATE KEY", private), ("RSA PUBLIC KEY", tlv(0x30, &[&numbers]))]
        {
            let entry = one(pem(label, &der).as_bytes());
            assert_eq!(entry.algorithm, Some(KeyKind::rsa(1024)), "{label}");
        }
        let curve = tlv(0xa0, &[&tlv(6, &[&[0x2b, 0x81, 4, 0, 0x22]])]);
        let ec = tlv(0x30, &[&tlv(2, &[&[1]]), &tlv(4, &[&[7; 48]]), &curve]);
        let entry = one(pem("EC PRIVATE KEY", &ec).as_bytes());
        assert_eq!(entry.algorithm.unwrap().name, "ECDSA P-384");
        let headers = "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\nAAAA\n\
                       -----END RSA PRIVATE KEY-----\n";
        let entry = one(headers.as_bytes());
        assert!(entry.is_encrypted);
        assert_eq!(entry.algorithm.unwrap().name, "RSA");
    }

    #[test]
    fn trust_settings_after_a_certificate_are_ignored() {
        let chain = chain(Key::Engine(Algorithm::Ed25519), 0);
        let trusted = [&chain.root[..], &[0x30, 0]].concat();
        let entry = one(pem("TRUSTED CERTIFICATE", &trusted).as_bytes());
        assert_eq!(entry.sha256, one(&chain.root).sha256);
        let damaged = inspect(pem("CERTIFICATE", &trusted).as_bytes()).damaged;
        assert!(damaged[0].starts_with("block 1 (`CERTIFICATE`) is damaged"), "{damaged:?}");
    }

    #[test]
    fn damaged_blocks_are_reported_and_others_are_read() {
        let chain = chain(Key::Engine(Algorithm::Ed25519), 0);
        let good = pem("CERTIFICATE", &chain.root);
        let text = [
            "-----BEGIN CERTIFICATE-----\nAAAA\n",
            &good,
            "-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n",
            "-----BEGIN PRIVATE KEY-----\nMAA=\n-----END PRIVATE KEY-----\n",
        ];
        let Content { entries, damaged } = inspect(text.concat().as_bytes());
        assert_eq!(entries.len(), 1);
        let [cut, base64, key] = &damaged[..] else { panic!("{damaged:?}") };
        assert_eq!(cut, "block 1 (`CERTIFICATE`) is cut short");
        assert_eq!(base64, "block 3 (`CERTIFICATE`) is not base64");
        assert_eq!(key, "block 4 (`PRIVATE KEY`) is damaged");
        let many = text[2].repeat(DAMAGED_MAX + 1);
        assert_eq!(inspect(many.as_bytes()).damaged.len(), DAMAGED_MAX);
    }

    /// A string as SSH encodes it.
    fn string(bytes: &[u8]) -> Vec<u8> {
        [&(bytes.len() as u32).to_be_bytes()[..], bytes].concat()
    }

    #[test]
    fn openssh_keys_are_found() {
        let blob =
            |parts: &[&[u8]]| parts.iter().flat_map(|part| string(part)).collect::<Vec<u8>>();
        let modulus = [&[0, 0xc0][..], &[1; 383]].concat();
        let rsa = blob(&[b"ssh-rsa", &[1, 0, 1], &modulus]);
        let certificate = blob(&[b"ssh-rsa-cert-v01@openssh.com", &[9; 32], &[1, 0, 1], &modulus]);
        let ecdsa = blob(&[b"ecdsa-sha2-nistp384", b"nistp384", &[4; 97]]);
        let ml_dsa = blob(&[b"ssh-mldsa-65", &[1; 1952]]);
        let hardware = blob(&[b"sk-ssh-ed25519@openssh.com", &[1; 32], b"ssh:"]);
        let line = |name: &str, blob: &[u8]| format!("{name} {}\n", Base64::encode_string(blob));
        let text = [
            "# ssh-rsa AAAA\n".to_owned(),
            format!("command=\"x\",no-pty {}", line("ssh-rsa", &rsa)),
            format!("host,192.0.2.1 {}", line("ecdsa-sha2-nistp384", &ecdsa)),
            line("ssh-rsa-cert-v01@openssh.com", &certificate),
            line("ssh-mldsa-65", &ml_dsa),
            line("sk-ssh-ed25519@openssh.com", &hardware),
            line("ssh-ed25519", &rsa),
        ];
        let found = inspect(text.concat().as_bytes()).entries;
        let names: Vec<&str> =
            found.iter().map(|one| &*one.algorithm.as_ref().unwrap().name).collect();
        assert_eq!(names, ["RSA-3072", "ECDSA P-384", "RSA-3072", "ssh-mldsa-65", "Ed25519"]);
        assert_eq!(found[0].position, 2);
        assert_eq!(found[3].is_post_quantum(), Some(true));
        for (cipher, is_encrypted) in [("none", false), ("aes256-ctr", true)] {
            let header = blob(&[cipher.as_bytes(), b"bcrypt", b""]);
            let key =
                [b"openssh-key-v1\0", &header[..], &[0, 0, 0, 1], &string(&rsa), b"rest"].concat();
            let entry = one(pem("OPENSSH PRIVATE KEY", &key).as_bytes());
            assert_eq!((entry.kind, entry.is_encrypted), (Kind::PrivateKey, is_encrypted));
            assert_eq!(entry.sha256, found[0].sha256);
        }
    }
}
