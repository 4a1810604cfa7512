//! The estimated cost of operations, so that tenants are charged by work instead of requests, and
//! slow operations do not delay quick ones.
//!
//! The figures are those of docs/reference/performance.md for a single operation with AVX-512,
//! rounded up. A factor of two is accurate enough. [`gabion_engine`]'s backends know their own
//! costs only where several of them compete for an algorithm.

use std::sync::OnceLock;

use crate::gate::Action;
use crate::model::KeyAlgorithm;

/// The overhead of a request, in microseconds: gate, audit log, HTTP.
pub const REQUEST_US: u64 = 50;

/// The number of bytes of a request that cost one microsecond to read, decode and hash.
const BYTES_A_US: usize = 200;

/// The cost of a change in microseconds, including the wait for the disk.
const CHANGE_US: u64 = 4_000;

/// The costs of an algorithm in microseconds.
#[derive(Clone, Copy)]
struct Costs {
    /// Of signing, including the check before the signature is released; of encrypting or making a
    /// tag.
    makes: u64,
    /// Of verifying, and of decapsulating.
    checks: u64,
    /// Of generating a key.
    key: u64,
}

/// Returns the cost of one item in microseconds, without the request's overhead.
pub fn item_us(algorithm: Option<KeyAlgorithm>, action: Action) -> u64 {
    let of = algorithm.map_or(Costs { makes: 5, checks: 5, key: 5 }, costs);
    match action {
        // The cost of a tag, with a key for tags or one derived from another key.
        Action::Hmac => 5,
        // RSA encrypts with the public key, and so costs as much as verifying.
        Action::Encrypt | Action::Wrap if is_rsa(algorithm) => of.checks,
        Action::Decrypt | Action::Unwrap | Action::Rewrap if is_rsa(algorithm) => of.makes,
        Action::Sign
        | Action::SignJwt
        | Action::Encrypt
        | Action::Rewrap
        | Action::Datakey
        | Action::Wrap
        | Action::Encaps
        | Action::Random => of.makes,
        Action::Verify | Action::Decrypt | Action::Unwrap | Action::Decaps => of.checks,
        Action::Create | Action::Rotate | Action::Import => CHANGE_US + of.key,
        Action::Config | Action::Enable | Action::Restore => CHANGE_US,
        Action::Attest => 200,
        Action::List | Action::Show | Action::Export | Action::Status => 20,
        // Actions that withdraw use and administration are free.
        Action::Disable
        | Action::Trim
        | Action::Delete
        | Action::Destroy
        | Action::Token
        | Action::Policy
        | Action::Audit
        | Action::Seal
        | Action::Backup => 0,
    }
}

fn is_rsa(algorithm: Option<KeyAlgorithm>) -> bool {
    algorithm.and_then(KeyAlgorithm::rsa).is_some()
}

/// Returns the cost of a request's bytes in microseconds.
pub fn bytes_us(bytes: usize) -> u64 {
    (bytes / BYTES_A_US) as u64
}

/// Looks the costs up in a table that is built once.
fn costs(algorithm: KeyAlgorithm) -> Costs {
    static ALL: OnceLock<Vec<Costs>> = OnceLock::new();
    let all = ALL.get_or_init(|| {
        let mut all = Vec::new();
        for algorithm in KeyAlgorithm::all() {
            let place = algorithm.place();
            if all.len() <= place {
                all.resize(place + 1, of_name(""));
            }
            all[place] = of_name(&algorithm.to_string());
        }
        all
    });
    all.get(algorithm.place()).copied().unwrap_or_else(|| of_name(""))
}

/// Returns the costs of an algorithm by its name in key ids.
fn of_name(name: &str) -> Costs {
    let slh_dsa = |is_shake: bool, set: &str| {
        let (once, checks) = match set {
            "128s" => (125_000, 600),
            "192s" => (262_000, 900),
            "256s" => (252_000, 1_300),
            "128f" => (6_300, 1_200),
            "192f" => (11_600, 1_700),
            _ => (23_500, 1_800),
        };
        let once = if is_shake { once * 5 / 2 } else { once };
        // A signature is made twice before it is released. Generating a key computes the top tree,
        // an eighth of a signature of a small set, and less of a fast set (FIPS 205, Table 2).
        Costs { makes: 2 * once, checks, key: once / 8 + 2 * once }
    };
    if let Some(set) = name.strip_prefix("slh-dsa-sha2-") {
        return slh_dsa(false, set);
    }
    if let Some(set) = name.strip_prefix("slh-dsa-shake-") {
        return slh_dsa(true, set);
    }
    // By the size in bits. Generating a key takes hundreds of prime candidates.
    match name.strip_prefix("rsa-") {
        Some("2048") => Costs { makes: 1_500, checks: 60, key: 300_000 },
        Some("3072") => Costs { makes: 4_500, checks: 100, key: 1_000_000 },
        Some(_) => Costs { makes: 10_000, checks: 200, key: 3_000_000 },
        None if name.contains("256-gcm") || name.contains("gcm96") || name.contains("hmac") => {
            Costs { makes: 5, checks: 5, key: 5 }
        }
        None if name == "ed25519" => Costs { makes: 25, checks: 15, key: 50 },
        None => Costs { makes: 120, checks: 60, key: 300 },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cost_table_marks_slow_algorithms() {
        let of = |name: &str, action| item_us(Some(name.parse().unwrap()), action);
        assert!(of("ed25519", Action::Sign) < 100 && of("ml-dsa-87", Action::Verify) < 500);
        assert!(of("slh-dsa-sha2-128s", Action::Sign) >= 250_000);
        assert!(of("slh-dsa-shake-256f", Action::Sign) > of("slh-dsa-sha2-256f", Action::Sign));
        assert!(of("slh-dsa-sha2-128f", Action::Sign) > 12_000);
        assert!(of("slh-dsa-sha2-256s", Action::Verify) < 2_000);
        assert_eq!(of("slh-dsa-sha2-128s", Action::Show), item_us(None, Action::Show));
        for algorithm in KeyAlgorithm::all() {
            let name = algorithm.to_string();
            let is_slow = name.starts_with("slh-dsa") || ["rsa-3072", "rsa-4096"].contains(&&*name);
            assert_eq!(item_us(Some(algorithm), Action::Sign) > 2_000, is_slow, "{name}");
            assert!(item_us(Some(algorithm), Action::Create) >= CHANGE_US);
            assert_eq!(item_us(Some(algorithm), Action::Disable), 0);
        }
        assert!(of("slh-dsa-shake-256s", Action::Hmac) < 100);
        assert!(of("rsa-4096", Action::Decrypt) > 2_000 && of("rsa-4096", Action::Encrypt) < 2_000);
        assert_eq!((bytes_us(0), bytes_us(1 << 20)), (0, 5242));
    }
}
