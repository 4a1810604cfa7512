//! Import and export of keys.

use crate::secret::Secret;

wire! {
    [deny_unknown_fields]
    /// A key to import, with one of `raw`, `pkcs8`, `public` and `wrapped`.
    ImportKey {
        /// The key's name: 1 to 64 of 0-9 A-Z a-z _ - .
        name: String,
        /// The algorithm's name in lower case, such as ml-dsa-65 or xaes-256-gcm.
        algorithm: String,
        /// The key's purpose; `transit` by default.
        purpose: Option<String>,
        /// The key's tenant; by default the token's tenant.
        tenant: Option<String>,
        /// The bytes of a symmetric key; the seed of a private key, or its standard's encoding.
        raw: Option<Secret>,
        /// A private key as unencrypted PKCS#8 DER.
        pkcs8: Option<Secret>,
        /// Only a public key, in its standard's encoding: it verifies or encapsulates.
        public: Option<String>,
        /// A private or symmetric key, wrapped for the service's key: `GET /v1/kms/wrapping-key`.
        wrapped: Option<String>,
        /// The wrapping method: x-wing, rsa-oaep-sha224, rsa-oaep-sha256, rsa-oaep-sha384 or
        /// rsa-oaep-sha512; x-wing by default.
        wrapping: Option<String>,
        /// The form of the wrapped key: pkcs8 or raw. The default is pkcs8 if a standard defines it
        /// for the algorithm.
        form: Option<String>,
        /// The standards that the key promises to conform to: cnsa2, fips-alg, software. Cannot be
        /// changed. No label says where the key was stored before.
        conformance: Option<Vec<String>>,
        /// The rotation period in seconds, 3600 to 315360000; 0, the default, disables automatic
        /// rotation. Not for `public`.
        rotate_period_s: Option<u64>,
    }

    [deny_unknown_fields]
    /// A version to import, with one of `raw`, `pkcs8`, `public` and `wrapped`.
    ImportVersion {
        /// The bytes of a symmetric key; the seed of a private key, or its standard's encoding.
        raw: Option<Secret>,
        /// A private key as unencrypted PKCS#8 DER.
        pkcs8: Option<Secret>,
        /// Only a public key, in its standard's encoding: it verifies or encapsulates.
        public: Option<String>,
        /// A private or symmetric key, wrapped for the service's key: `GET /v1/kms/wrapping-key`.
        wrapped: Option<String>,
        /// The wrapping method: x-wing, rsa-oaep-sha224, rsa-oaep-sha256, rsa-oaep-sha384 or
        /// rsa-oaep-sha512; x-wing by default.
        wrapping: Option<String>,
        /// The form of the wrapped key: pkcs8 or raw. The default is pkcs8 if a standard defines it
        /// for the algorithm.
        form: Option<String>,
    }

    [deny_unknown_fields]
    /// Options of exporting the private key of a version.
    ExportKey {
        /// The version; the newest one by default.
        version: Option<u32>,
        /// The form: `pkcs8`, or `raw` (a symmetric key's bytes, a seed, or the standard's
        /// encoding). The default is `pkcs8` if a standard defines it for the algorithm.
        form: Option<String>,
        /// The recipient to wrap the key for: an X-Wing or RSA SubjectPublicKeyInfo in DER.
        wrap_for: Option<String>,
    }

    []
    /// The private key of a version.
    Exported {
        /// The version.
        version: u32,
        /// `pkcs8` (unencrypted DER) or `raw`.
        form: String,
        /// The key, if it is not wrapped.
        private_key: Option<Secret>,
        /// The key, wrapped.
        wrapped: Option<String>,
        /// The wrapping method.
        wrapping: Option<String>,
        /// The recipient: the SHA-256 of the SubjectPublicKeyInfo in hexadecimal, as in the audit
        /// record.
        recipient: Option<String>,
        /// The revision of the store.
        revision: u64,
    }

    []
    /// The service's public key, for which clients wrap imported keys.
    WrappingKey {
        /// x-wing or rsa.
        kind: String,
        /// The public key as a SubjectPublicKeyInfo in PEM.
        public_key: String,
        /// The SHA-256 of the SubjectPublicKeyInfo, in hexadecimal.
        sha256: String,
        /// The revision of the store.
        revision: u64,
    }
}
