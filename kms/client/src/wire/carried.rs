//! Of keys that come and go.

use crate::secret::Secret;

wire! {
    [deny_unknown_fields]
    /// A key to make of what somebody brings: one of `raw`, `pkcs8` and `public`.
    ImportKey {
        /// What its tenant calls it: 1 to 64 of 0-9 A-Z a-z _ - .
        name: String,
        /// An algorithm's name in lower case, such as ml-dsa-65 or xaes-256-gcm.
        algorithm: String,
        /// What it is for; `transit` if nothing else is said.
        purpose: Option<String>,
        /// Whose; the token's tenant if nothing else is said.
        tenant: Option<String>,
        /// The bytes of a symmetric key; the seed of a private key, or its standard's encoding.
        raw: Option<Secret>,
        /// A private key as DER of PKCS#8, not encrypted.
        pkcs8: Option<Secret>,
        /// A public key alone, in its standard's bytes: it verifies or encapsulates.
        public: Option<String>,
    }

    [deny_unknown_fields]
    /// A version to make of what somebody brings: one of `raw`, `pkcs8` and `public`.
    ImportVersion {
        /// The bytes of a symmetric key; the seed of a private key, or its standard's encoding.
        raw: Option<Secret>,
        /// A private key as DER of PKCS#8, not encrypted.
        pkcs8: Option<Secret>,
        /// A public key alone, in its standard's bytes: it verifies or encapsulates.
        public: Option<String>,
    }

    [deny_unknown_fields]
    /// How to give out the private half of a version.
    ExportKey {
        /// The version; the newest one if none is named.
        version: Option<u32>,
        /// `pkcs8`, or `raw`: a symmetric key's bytes, a seed, or the standard's encoding. Where nothing is said `pkcs8`, if a
        /// standard has that for the algorithm.
        form: Option<String>,
    }

    []
    /// The private half of a version.
    Exported {
        /// Of which version.
        version: u32,
        /// `pkcs8` (DER, not encrypted) or `raw`.
        form: String,
        /// The key.
        private_key: Secret,
        /// The revision of the store.
        revision: u64,
    }
}
