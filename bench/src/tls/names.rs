//! Names of what can be measured, and what OpenSSL and TLS call it.

use std::sync::LazyLock;

use gabion_engine::{ALGORITHMS, Algorithm, AlgorithmInfo, Family, Kind};

use crate::Error;
use crate::ossl::KeyShape;

/// A key exchange group.
#[derive(Debug, Clone)]
pub(super) struct Group {
    /// libssl's name of the group; or [`DEFAULT`].
    pub(super) name: &'static str,
    /// Other spellings.
    aliases: &'static [&'static str],
    /// The operations of libcrypto for the group.
    pub(super) exchange: Exchange,
    /// Whether only our provider has it.
    pub(super) only_ours: bool,
}

/// The name for no group at all: libssl's own list, of which a client sends shares of X25519MLKEM768 and of
/// x25519, and both sides agree on the first.
pub(super) const DEFAULT: &str = "default";

/// The operation behind a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Exchange {
    /// A KEM, and the ML-KEM inside it: for the pure ones the same name.
    Kem { name: &'static str, ml_kem: &'static str },
    /// A classical key agreement.
    Derive { algorithm: &'static str, shape: KeyShape },
}

impl Exchange {
    /// Returns whether our provider has it.
    pub(super) fn is_post_quantum(self) -> bool {
        matches!(self, Exchange::Kem { .. })
    }

    /// Returns the provider if libgabion serves ML-KEM to OpenSSL's own provider: of a hybrid, it
    /// serves only the ML-KEM part.
    pub(super) fn served_by_core_patch(self) -> Option<String> {
        match self {
            Exchange::Kem { name, ml_kem } if name == ml_kem => Some("libgabion".into()),
            Exchange::Kem { ml_kem, .. } => Some(format!("default, {ml_kem}: libgabion")),
            Exchange::Derive { .. } => None,
        }
    }
}

/// A signature algorithm that certificates of a measurement use.
#[derive(Debug, Clone)]
pub(crate) struct Signature {
    /// By its standard.
    pub(crate) name: &'static str,
    /// Other spellings, in addition to the scheme's name.
    pub(crate) aliases: &'static [&'static str],
    /// Name of the key's algorithm in libcrypto.
    pub(crate) algorithm: &'static str,
    /// The other parameters for making a key.
    pub(crate) shape: KeyShape,
    /// Digest for the certificates, if the algorithm does not hash internally.
    pub(crate) digest: Option<&'static str>,
    /// Signature scheme that TLS 1.3 negotiates for such a key.
    pub(crate) scheme: &'static str,
    /// Whether our provider has it.
    pub(crate) post_quantum: bool,
    /// Whether TLS has no settled codepoint for it: OpenSSL lacks the scheme, and our provider has
    /// it behind a switch.
    pub(crate) draft: bool,
}

/// OpenSSL's groups, then the private groups of the table of algorithms.
static GROUPS: LazyLock<Vec<Group>> = LazyLock::new(|| {
    let private = ALGORITHMS.iter().filter_map(private);
    SETTLED_GROUPS.iter().cloned().chain(private).collect()
});

/// OpenSSL's signature algorithms, then those of the table with a draft's or a private codepoint.
static SIGNATURES: LazyLock<Vec<Signature>> = LazyLock::new(|| {
    let drafts = ALGORITHMS.iter().filter_map(draft);
    SETTLED_SIGNATURES.iter().cloned().chain(drafts).collect()
});

/// The group that two sides with libssl's own list agree on.
const NEGOTIATED: &str = "X25519MLKEM768";

const SETTLED_GROUPS: &[Group] = &[
    hybrid("X25519MLKEM768", "ML-KEM-768"),
    Group {
        name: DEFAULT,
        aliases: &[],
        exchange: Exchange::Kem { name: NEGOTIATED, ml_kem: "ML-KEM-768" },
        only_ours: false,
    },
    hybrid("SecP256r1MLKEM768", "ML-KEM-768"),
    hybrid("SecP384r1MLKEM1024", "ML-KEM-1024"),
    pure("MLKEM512", &["ML-KEM-512"], "ML-KEM-512"),
    pure("MLKEM768", &["ML-KEM-768"], "ML-KEM-768"),
    pure("MLKEM1024", &["ML-KEM-1024"], "ML-KEM-1024"),
    curve("x25519", &[], "X25519", KeyShape::Named),
    curve("secp256r1", &["P-256", "prime256v1"], "EC", KeyShape::Curve("P-256")),
    curve("secp384r1", &["P-384"], "EC", KeyShape::Curve("P-384")),
];

const SETTLED_SIGNATURES: &[Signature] = &[
    ml_dsa("ML-DSA-44", "mldsa44"),
    ml_dsa("ML-DSA-65", "mldsa65"),
    ml_dsa("ML-DSA-87", "mldsa87"),
    Signature {
        name: "ECDSA-P-256",
        aliases: &["P-256", "ECDSA-P256", "P256"],
        algorithm: "EC",
        shape: KeyShape::Curve("P-256"),
        digest: Some("SHA2-256"),
        scheme: "ecdsa_secp256r1_sha256",
        post_quantum: false,
        draft: false,
    },
    Signature {
        name: "ECDSA-P-384",
        aliases: &["P-384", "ECDSA-P384", "P384"],
        algorithm: "EC",
        shape: KeyShape::Curve("P-384"),
        digest: Some("SHA2-384"),
        scheme: "ecdsa_secp384r1_sha384",
        post_quantum: false,
        draft: false,
    },
    Signature {
        name: "Ed25519",
        aliases: &[],
        algorithm: "ED25519",
        shape: KeyShape::Named,
        digest: None,
        scheme: "ed25519",
        post_quantum: false,
        draft: false,
    },
    Signature {
        name: "RSA-2048",
        aliases: &["RSA2048", "RSA"],
        algorithm: "RSA",
        shape: KeyShape::Bits(2048),
        digest: Some("SHA2-256"),
        scheme: "rsa_pss_rsae_sha256",
        post_quantum: false,
        draft: false,
    },
];

const fn hybrid(name: &'static str, ml_kem: &'static str) -> Group {
    Group { name, aliases: &[], exchange: Exchange::Kem { name, ml_kem }, only_ours: false }
}

const fn pure(name: &'static str, aliases: &'static [&'static str], kem: &'static str) -> Group {
    let exchange = Exchange::Kem { name: kem, ml_kem: kem };
    Group { name, aliases, exchange, only_ours: false }
}

const fn curve(
    name: &'static str,
    aliases: &'static [&'static str],
    algorithm: &'static str,
    shape: KeyShape,
) -> Group {
    Group { name, aliases, exchange: Exchange::Derive { algorithm, shape }, only_ours: false }
}

/// A hybrid with a private codepoint, which OpenSSL does not have.
fn private(row: &'static AlgorithmInfo) -> Option<Group> {
    let is_ml_kem = |part: &Algorithm| part.info().family == Family::MlKem;
    let ml_kem = row.part_algorithms().find(is_ml_kem)?.name();
    row.tls.filter(|_| row.family == Family::Hybrid && row.draft).map(|tls| Group {
        name: tls.name,
        aliases: row.oqs.as_slice(),
        exchange: Exchange::Kem { name: row.name, ml_kem },
        only_ours: true,
    })
}

/// A signature whose scheme is a draft's or private. The provider has the key under the row's name.
fn draft(row: &'static AlgorithmInfo) -> Option<Signature> {
    let is_draft =
        row.kind == Kind::Signature && matches!(row.family, Family::SlhDsa | Family::FnDsa);
    row.tls.filter(|_| is_draft).map(|tls| Signature {
        name: row.name,
        aliases: row.wolfssl.as_slice(),
        algorithm: row.name,
        shape: KeyShape::Named,
        digest: None,
        scheme: tls.name,
        post_quantum: true,
        draft: true,
    })
}

const fn ml_dsa(name: &'static str, scheme: &'static str) -> Signature {
    Signature {
        name,
        aliases: &[],
        algorithm: name,
        shape: KeyShape::Named,
        digest: None,
        scheme,
        post_quantum: true,
        draft: false,
    }
}

impl Group {
    /// Returns the list for libssl; `None` for its own list.
    pub(super) fn list(&self) -> Option<&'static str> {
        Some(self.name).filter(|name| *name != DEFAULT)
    }

    /// Returns the group that both sides have to agree on.
    pub(super) fn negotiated(&self) -> &'static str {
        self.list().unwrap_or(NEGOTIATED)
    }

    pub(super) fn find(name: &str) -> Result<&'static Group, Error> {
        let matches = |group: &&Group| is_called(name, group.name, group.aliases);
        GROUPS.iter().find(matches).ok_or_else(|| unknown("group", name, groups()))
    }
}

impl Signature {
    pub(crate) fn find(name: &str) -> Result<&'static Signature, Error> {
        let matches = |sig: &&Signature| {
            is_called(name, sig.name, sig.aliases) || name.eq_ignore_ascii_case(sig.scheme)
        };
        let known = signatures();
        SIGNATURES.iter().find(matches).ok_or_else(|| unknown("signature", name, known))
    }
}

fn is_called(given: &str, name: &str, aliases: &[&str]) -> bool {
    given.eq_ignore_ascii_case(name) || aliases.iter().any(|a| given.eq_ignore_ascii_case(a))
}

fn unknown(kind: &str, given: &str, known: Vec<&str>) -> Error {
    Error::Usage(format!("no {kind} is called {given:?}; known are {}", known.join(", ")))
}

/// Names of the groups that can be measured.
pub fn groups() -> Vec<&'static str> {
    GROUPS.iter().map(|group| group.name).collect()
}

/// Names of the signature algorithms that can be measured.
pub fn signatures() -> Vec<&'static str> {
    SIGNATURES.iter().map(|signature| signature.name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_core_patch_serves_the_ml_kem_of_a_hybrid_and_no_more() {
        let served = |group: &str| Group::find(group).unwrap().exchange.served_by_core_patch();
        assert_eq!(served("X25519MLKEM768").unwrap(), "default, ML-KEM-768: libgabion");
        assert_eq!(served("MLKEM1024").unwrap(), "libgabion");
        assert_eq!(served("x25519"), None);
    }

    #[test]
    fn names_are_accepted_in_any_case() {
        assert_eq!(Group::find("x25519mlkem768").unwrap().name, "X25519MLKEM768");
        assert_eq!(Group::find("p-384").unwrap().name, "secp384r1");
        assert_eq!(Signature::find("ml-dsa-87").unwrap().name, "ML-DSA-87");
        assert_eq!(Signature::find("MLDSA44").unwrap().name, "ML-DSA-44");
        assert_eq!(Signature::find("p256").unwrap().name, "ECDSA-P-256");
        assert_eq!(Signature::find("ed25519").unwrap().name, "Ed25519");
        assert_eq!(Group::find("P384_MLKEM768").unwrap().name, "SecP384r1MLKEM768");
        assert_eq!(Signature::find("SLHDSA_SHAKE_256f").unwrap().name, "SLH-DSA-SHAKE-256f");
        assert_eq!(Signature::find("falconpadded512").unwrap().name, "Falcon-padded-512");
    }

    #[test]
    fn libssls_own_list_is_no_groups_name() {
        let own = Group::find("Default").unwrap();
        assert_eq!((own.list(), own.negotiated()), (None, "X25519MLKEM768"));
        let named = Group::find("x25519").unwrap();
        assert_eq!((named.list(), named.negotiated()), (Some("x25519"), "x25519"));
    }

    #[test]
    fn provider_only_names_come_from_the_table() {
        let private: Vec<_> = GROUPS.iter().filter(|group| group.only_ours).collect();
        let names: Vec<_> = private.iter().map(|group| group.name).collect();
        let expected =
            ["SecP256r1MLKEM512", "SecP384r1MLKEM768", "SecP521r1MLKEM1024", "MLKEM512X25519"];
        assert_eq!(names, expected);
        let inner = private[2].exchange;
        let expected = Exchange::Kem { name: "SecP521r1MLKEM1024", ml_kem: "ML-KEM-1024" };
        assert_eq!(inner, expected);
        let drafts: Vec<_> = SIGNATURES.iter().filter(|sig| sig.draft).collect();
        assert_eq!(drafts.len(), 12 + 4, "SLH-DSA, Falcon and Falcon padded");
        assert!(drafts.iter().all(|sig| sig.post_quantum && sig.digest.is_none()));
        assert_eq!(Signature::find("Falcon-1024").unwrap().scheme, "falcon1024");
        assert!(Signature::find("FN-DSA-512-draft").is_err(), "it has no codepoint");
    }

    #[test]
    fn an_unknown_name_is_answered_with_the_known_ones() {
        let error = Group::find("KYBER-9000").unwrap_err().to_string();
        assert!(error.contains("\"KYBER-9000\"") && error.contains("X25519MLKEM768"), "{error}");
        let error = Signature::find("").unwrap_err().to_string();
        assert!(error.contains("ML-DSA-65"), "{error}");
    }

    #[test]
    fn no_name_means_two_things() {
        for (kind, names) in [
            ("group", GROUPS.iter().map(|g| (g.name, g.aliases)).collect::<Vec<_>>()),
            ("signature", SIGNATURES.iter().map(|s| (s.name, s.aliases)).collect()),
        ] {
            let mut all: Vec<String> = names
                .iter()
                .flat_map(|(name, aliases)| std::iter::once(name).chain(aliases.iter()))
                .map(|name| name.to_ascii_lowercase())
                .collect();
            let count = all.len();
            all.sort();
            all.dedup();
            assert_eq!(all.len(), count, "a {kind} name is written twice");
        }
    }
}
