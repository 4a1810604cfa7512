//! Vault's and OpenBao's names of algorithms and hashes.

use gabion_kms::Prehash;
use gabion_kms::model::{Capability, KeyAlgorithm};

use crate::problem::Problem;

/// Types of Vault's that are not supported.
const NOT_YET: &[&str] = &[
    "aes128-gcm96",
    "xchacha20-poly1305",
    "managed_key",
    "aes128-cmac",
    "aes192-cmac",
    "aes256-cmac",
    "hybrid",
];

/// Returns the algorithm of a type: `ml-dsa` with a parameter set (Vault), `mldsa-65` (OpenBao), or
/// the service's own name.
pub fn algorithm(of: Option<&str>, set: Option<&str>) -> Result<KeyAlgorithm, Problem> {
    let of = of.unwrap_or("aes256-gcm96");
    let set = set.filter(|set| !set.is_empty());
    let name = match (of, set) {
        ("ml-dsa" | "slh-dsa", None) => {
            return Err(Problem::bad(format!("`{of}` needs `parameter_set`")));
        }
        ("ml-dsa" | "slh-dsa", Some(set)) => {
            let set = set.to_ascii_lowercase();
            format!("{of}-{}", set.strip_prefix(&format!("{of}-")).unwrap_or(&set))
        }
        (_, Some(_)) => return Err(Problem::bad(format!("`{of}` takes no `parameter_set`"))),
        ("hmac", None) => "hmac-sha-256".to_owned(),
        (of, None) => match (of.strip_prefix("mldsa-"), of.strip_prefix("ecdsa-p")) {
            (Some(set), _) => format!("ml-dsa-{set}"),
            (None, Some(bits)) if !bits.starts_with('-') => format!("ecdsa-p-{bits}"),
            (None, Some(_) | None) => of.to_ascii_lowercase(),
        },
    };
    match name.parse::<KeyAlgorithm>() {
        // Vault has no path for KEMs.
        Ok(algorithm) if algorithm.does() == Capability::Encapsulate => Err(not_yet(of)),
        Ok(algorithm) => Ok(algorithm),
        Err(_) if NOT_YET.contains(&of) => Err(not_yet(of)),
        Err(_) => Err(Problem::bad(format!("unknown key type `{name}`"))),
    }
}

fn not_yet(of: &str) -> Problem {
    Problem::unsupported(format!("keys of the type `{of}` are not supported"))
}

/// Returns Vault's type of an algorithm, and the parameter set if it has one.
pub fn type_of(algorithm: KeyAlgorithm) -> (String, Option<String>) {
    let name = algorithm.to_string();
    if name == "hmac-sha-256" {
        return ("hmac".to_owned(), None);
    }
    if let Some(bits) = name.strip_prefix("ecdsa-p-") {
        return (format!("ecdsa-p{bits}"), None);
    }
    for family in ["ml-dsa", "slh-dsa"] {
        let set = name.strip_prefix(family).and_then(|rest| rest.strip_prefix('-'));
        // A composite of ML-DSA has a longer name.
        if let Some(set) = set.filter(|set| family == "slh-dsa" || set.len() == 2) {
            return (family.to_owned(), Some(set.to_owned()));
        }
    }
    (name, None)
}

/// Parses a hash by Vault's name. Returns `Ok(None)` for `none`.
pub fn hash(name: &str) -> Result<Option<Prehash>, Problem> {
    match name {
        "none" => Ok(None),
        "sha1" => Err(Problem::unsupported("SHA-1 is not supported")),
        name => name.parse().map(Some).map_err(|_| Problem::bad(format!("unknown hash `{name}`"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_spellings_are_one_algorithm() {
        for (of, set, wanted) in [
            ("ml-dsa", Some("65"), "ml-dsa-65"),
            ("ml-dsa", Some("ml-dsa-87"), "ml-dsa-87"),
            ("mldsa-44", None, "ml-dsa-44"),
            ("ML-DSA-65", None, "ml-dsa-65"),
            ("slh-dsa", Some("slh-dsa-sha2-128s"), "slh-dsa-sha2-128s"),
            ("slh-dsa", Some("SHAKE-256f"), "slh-dsa-shake-256f"),
            ("ed25519", None, "ed25519"),
            ("aes256-gcm96", None, "aes256-gcm96"),
            ("chacha20-poly1305", None, "chacha20-poly1305"),
            ("ed25519", Some(""), "ed25519"),
            ("ecdsa-p256", None, "ecdsa-p-256"),
            ("ecdsa-p-521", None, "ecdsa-p-521"),
            ("hmac", None, "hmac-sha-256"),
            ("rsa-3072", None, "rsa-3072"),
            ("HMAC-SHA-512", None, "hmac-sha-512"),
        ] {
            let found = algorithm(Some(of), set).unwrap_or_else(|problem| panic!("{problem:?}"));
            assert_eq!(found.to_string(), wanted);
            let (of, set) = type_of(found);
            assert_eq!(algorithm(Some(&of), set.as_deref()).unwrap().to_string(), wanted);
        }
        for (of, set, code) in [
            (Some("rsa-1024"), None, "bad_request"),
            (Some("ml-kem-768"), None, "unsupported"),
            (Some("ml-dsa"), None, "bad_request"),
            (Some("ml-dsa"), Some("66"), "bad_request"),
            (Some("ed25519"), Some("65"), "bad_request"),
            (Some("nonsense"), None, "bad_request"),
        ] {
            assert_eq!(algorithm(of, set).unwrap_err().code, code, "{of:?}");
        }
        assert!(hash("sha2-256").unwrap().is_some() && hash("none").unwrap().is_none());
        assert!(hash("sha1").is_err() && hash("md5").is_err());
    }
}
