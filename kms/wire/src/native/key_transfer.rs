//! Of keys that come and go.

use crate::secret::Secret;

wire! {
    [deny_unknown_fields]
    /// A key to make of what somebody brings: one of `raw`, `pkcs8`, `public` and `wrapped`.
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
        /// A private or symmetric key that was wrapped for the service's key: `GET /v1/kms/wrapping-key`.
        wrapped: Option<String>,
        /// How it was wrapped: x-wing, rsa-oaep-sha224, rsa-oaep-sha256, rsa-oaep-sha384 or rsa-oaep-sha512; x-wing if nothing else is said.
        wrapping: Option<String>,
        /// What was wrapped: pkcs8, or raw. If nothing is said pkcs8, if a standard has that for the algorithm.
        form: Option<String>,
        /// What it promises to conform to, for good: cnsa2, fips-alg, software. No label says where the key was before.
        conformance: Option<Vec<String>>,
        /// After how many seconds the clock has it rotated, 3600 to 315360000; 0: never, as if nothing is said. Not of `public`.
        rotate_period_s: Option<u64>,
    }

    [deny_unknown_fields]
    /// A version to make of what somebody brings: one of `raw`, `pkcs8`, `public` and `wrapped`.
    ImportVersion {
        /// The bytes of a symmetric key; the seed of a private key, or its standard's encoding.
        raw: Option<Secret>,
        /// A private key as DER of PKCS#8, not encrypted.
        pkcs8: Option<Secret>,
        /// A public key alone, in its standard's bytes: it verifies or encapsulates.
        public: Option<String>,
        /// A private or symmetric key that was wrapped for the service's key: `GET /v1/kms/wrapping-key`.
        wrapped: Option<String>,
        /// How it was wrapped: x-wing, rsa-oaep-sha224, rsa-oaep-sha256, rsa-oaep-sha384 or rsa-oaep-sha512; x-wing if nothing else is said.
        wrapping: Option<String>,
        /// What was wrapped: pkcs8, or raw. If nothing is said pkcs8, if a standard has that for the algorithm.
        form: Option<String>,
    }

    [deny_unknown_fields]
    /// How to give out the private half of a version.
    ExportKey {
        /// The version; the newest one if none is named.
        version: Option<u32>,
        /// `pkcs8`, or `raw`: a symmetric key's bytes, a seed, or the standard's encoding. Where nothing is said `pkcs8`, if a
        /// standard has that for the algorithm.
        form: Option<String>,
        /// For whom to wrap it, so that nobody else sees it: DER of a SubjectPublicKeyInfo of X-Wing, or of RSA.
        wrap_for: Option<String>,
    }

    []
    /// The private half of a version.
    Exported {
        /// Of which version.
        version: u32,
        /// `pkcs8` (DER, not encrypted) or `raw`.
        form: String,
        /// The key, where it is not wrapped.
        private_key: Option<Secret>,
        /// The key, wrapped.
        wrapped: Option<String>,
        /// How it is wrapped.
        wrapping: Option<String>,
        /// For whom: the SHA-256 of the SubjectPublicKeyInfo, in hexadecimal, as the audit log's record has it.
        recipient: Option<String>,
        /// The revision of the store.
        revision: u64,
    }

    []
    /// The service's key, for which others wrap what they import.
    WrappingKey {
        /// x-wing or rsa.
        kind: String,
        /// The public key, as PEM of a SubjectPublicKeyInfo.
        public_key: String,
        /// The SHA-256 of the SubjectPublicKeyInfo, in hexadecimal.
        sha256: String,
        /// The revision of the store.
        revision: u64,
    }
}
