//! Requests and responses of `/v1/kms`.
//!
//! Bytes are base64. A key is given by its name, or by its id `tenant/purpose/algorithm/uuid`.
//! Requests with unknown fields are rejected; future responses may have more fields.

mod batch;
mod jwt;
mod key_transfer;
mod secrets;

use std::collections::BTreeMap;

use serde_json::Value;

pub use batch::*;
pub use jwt::*;
pub use key_transfer::*;
pub use secrets::*;

use crate::secret::Secret;

wire! {
    [deny_unknown_fields]
    /// A key to create.
    CreateKey {
        /// The key's name: 1 to 64 of 0-9 A-Z a-z _ - .
        name: String,
        /// The algorithm's name in lower case, such as ml-dsa-65 or xaes-256-gcm.
        algorithm: String,
        /// The key's purpose; `transit` by default.
        purpose: Option<String>,
        /// The key's tenant; by default the token's tenant.
        tenant: Option<String>,
        /// The standards that the key promises to conform to: cnsa2, fips-alg, software. Cannot be
        /// changed.
        conformance: Option<Vec<String>>,
        /// The rotation period in seconds, 3600 to 315360000; 0, the default, disables automatic
        /// rotation.
        rotate_period_s: Option<u64>,
        /// For ML-DSA: `true` restricts the key to signing and verifying by `mu`. Cannot be
        /// changed.
        mu_required: Option<bool>,
        /// The maximum lifetime of the JSON Web Tokens that the key signs, in seconds, 1 to
        /// 315360000. If set, the key signs nothing else, permanently. If not set, the key signs
        /// tokens of at most one day, and anything else.
        jwt_max_lifetime_s: Option<u64>,
    }

    [deny_unknown_fields]
    /// Changes to a key. Omitted fields stay as they are.
    ConfigureKey {
        /// The oldest version that signs, makes tags, encrypts or encapsulates; 0: only the newest
        /// one.
        min_sign: Option<u32>,
        /// The oldest version that verifies.
        min_verify: Option<u32>,
        /// The oldest version that decrypts or decapsulates.
        min_decrypt: Option<u32>,
        /// The labels, which replace the existing ones.
        labels: Option<BTreeMap<String, String>>,
        /// `true` makes the private key exportable. Cannot be undone.
        exportable: Option<bool>,
        /// The expiry time in milliseconds since 1970; 0: never. An expired key still verifies and
        /// decrypts.
        expires_ms: Option<u64>,
        /// When a use is answered: `durable`, after its audit record is synced to the disk;
        /// `written`, after it is written; `default`, as the server is configured.
        class: Option<String>,
        /// The rotation period in seconds, counted from the newest version, 3600 to 315360000; 0
        /// disables automatic rotation.
        rotate_period_s: Option<u64>,
        /// For ML-DSA: `true` restricts the key to signing and verifying by `mu`. Cannot be undone.
        mu_required: Option<bool>,
        /// The maximum lifetime of the JSON Web Tokens that the key signs, in seconds, 1 to
        /// 315360000. The key then signs nothing else, permanently; the limit can be changed.
        jwt_max_lifetime_s: Option<u64>,
    }

    [deny_unknown_fields]
    /// A version of a key.
    OfVersion {
        /// The version's number, from 1.
        version: u32,
    }

    [deny_unknown_fields]
    /// The versions to destroy permanently.
    Trim {
        /// The first version that stays.
        before: u32,
    }

    [deny_unknown_fields]
    /// Options of destroying a key.
    DestroyKey {
        /// Whether to destroy the keys of all backup periods that may contain the key. These
        /// backups become unreadable. This needs the action `backup`, too. Repeating the request
        /// with the key's id continues an interrupted one.
        expire_backups: Option<bool>,
    }

    [deny_unknown_fields]
    /// An empty object.
    Nothing {}

    [deny_unknown_fields]
    /// A message to sign: `message`, or `digest` and `prehash`, or `mu` and `version`.
    Sign {
        /// The key, by name or id.
        key: String,
        /// The key's tenant, if the key is given by name.
        tenant: Option<String>,
        /// The version that signs; the newest one by default.
        version: Option<u32>,
        /// The message.
        message: Option<String>,
        /// The digest of the message, computed by the client.
        digest: Option<String>,
        /// For ML-DSA: the message representative mu (FIPS 204, Algorithm 7, line 6), 64 bytes,
        /// computed with the public key of `version` and the context string. The signature is a
        /// regular signature of the message.
        mu: Option<String>,
        /// The hash of the digest, such as SHA2-512: HashML-DSA, HashSLH-DSA.
        prehash: Option<String>,
        /// The context string, at most 255 bytes.
        context: Option<String>,
        /// For RSA: pss or pkcs1v15; pss by default.
        padding: Option<String>,
        /// For RSA with pss: the length of the salt in bytes; by default that of the digest.
        salt_length: Option<u32>,
        /// The text form of the signature: asn1 (base64), the default, or jws (base64url without
        /// padding; ECDSA signatures are r and s, concatenated).
        marshaling: Option<String>,
    }

    [deny_unknown_fields]
    /// A signature to verify.
    Verify {
        /// The key, by name or id.
        key: String,
        /// The key's tenant, if the key is given by name.
        tenant: Option<String>,
        /// The claimed version; the newest one by default.
        version: Option<u32>,
        /// The message.
        message: Option<String>,
        /// The digest of the message, computed by the client.
        digest: Option<String>,
        /// For ML-DSA: the message representative mu (FIPS 204, Algorithm 7, line 6), 64 bytes,
        /// computed with the public key of `version` and the context string. The signature is a
        /// regular signature of the message.
        mu: Option<String>,
        /// The hash of the digest.
        prehash: Option<String>,
        /// The context string, at most 255 bytes.
        context: Option<String>,
        /// For RSA: pss or pkcs1v15; pss by default.
        padding: Option<String>,
        /// For RSA with pss: the length of the salt in bytes; by default that of the digest.
        salt_length: Option<u32>,
        /// The text form of the signature: asn1 (base64), the default, or jws (base64url without
        /// padding; ECDSA signatures are r and s, concatenated).
        marshaling: Option<String>,
        /// The signature.
        signature: String,
    }

    [deny_unknown_fields]
    /// A key to describe.
    Attest {
        /// The key, by name or id.
        key: String,
        /// The key's tenant, if the key is given by name.
        tenant: Option<String>,
        /// A nonce that the description repeats, which proves that it is fresh.
        nonce: Option<String>,
    }

    []
    /// A key without its secrets.
    Key {
        /// The id.
        id: String,
        /// The name.
        name: String,
        /// The algorithm.
        algorithm: String,
        /// The operations of the algorithm: `sign`, `encrypt`, `authenticate` (tags), `encapsulate`
        /// or `sign_and_encrypt` (RSA).
        does: String,
        /// The creation time in milliseconds since 1970.
        created_ms: u64,
        /// The labels.
        labels: BTreeMap<String, String>,
        /// The newest version.
        latest: u32,
        /// The oldest version that was not trimmed.
        min_available: u32,
        /// The oldest version that signs, makes tags, encrypts or encapsulates; 0: only the newest
        /// one.
        min_sign: u32,
        /// The oldest version that verifies.
        min_verify: u32,
        /// The oldest version that decrypts or decapsulates.
        min_decrypt: u32,
        /// When the key was deleted, in milliseconds since 1970. A deleted key can be restored.
        deleted_ms: Option<u64>,
        /// The expiry time in milliseconds since 1970. An expired key still verifies and decrypts.
        expires_ms: Option<u64>,
        /// Whether the private key may be exported.
        exportable: bool,
        /// The durability of the audit records of uses, if set for the key: `durable` or `written`.
        class: Option<String>,
        /// The standards that the key promises to conform to.
        conformance: Option<Vec<String>>,
        /// The rotation period in seconds; missing if automatic rotation is disabled.
        rotate_period_s: Option<u64>,
        /// The next automatic rotation in milliseconds since 1970.
        rotates_ms: Option<u64>,
        /// `true` if the key signs and verifies only by `mu`.
        mu_required: Option<bool>,
        /// The maximum lifetime in seconds of the JSON Web Tokens that the key signs. If set, the
        /// key signs nothing else.
        jwt_max_lifetime_s: Option<u64>,
        /// The revision of the store.
        revision: u64,
    }

    []
    /// A key's name, id and labels.
    Named {
        /// The name.
        name: String,
        /// The id.
        id: String,
        /// The labels; missing if the key has no labels.
        labels: Option<BTreeMap<String, String>>,
    }

    []
    /// A page of keys, in the order of their names.
    Keys {
        /// The keys.
        keys: Vec<Named>,
        /// The name to pass as `after` for the next page; missing on the last page.
        next: Option<String>,
        /// The revision of the store.
        revision: u64,
    }

    []
    /// A version of a key without its secrets.
    Version {
        /// The version's number.
        version: u32,
        /// The creation time in milliseconds since 1970.
        created_ms: u64,
        /// `enabled` or `disabled`.
        state: String,
        /// The public key as a SubjectPublicKeyInfo in PEM; missing if the algorithm has no such
        /// form.
        public_key: Option<String>,
    }

    []
    /// A page of the versions of a key.
    Versions {
        /// The key's id.
        id: String,
        /// The versions that were not destroyed, the oldest first.
        versions: Vec<Version>,
        /// The version to pass as `after` for the next page; missing on the last page.
        next: Option<u32>,
        /// The revision of the store.
        revision: u64,
    }

    []
    /// A new version of a key.
    Rotated {
        /// The id.
        id: String,
        /// The version's number.
        version: u32,
        /// The revision of the store.
        revision: u64,
    }

    []
    /// A completed change.
    Changed {
        /// The revision of the store.
        revision: u64,
    }

    []
    /// A signature.
    Signed {
        /// The id of the version that signed.
        by: String,
        /// The version's number.
        version: u32,
        /// The signature.
        signature: String,
        /// The revision of the store.
        revision: u64,
    }

    []
    /// The result of a verification.
    Verified {
        /// Whether the signature of the message by this version is valid.
        valid: bool,
        /// The id of the version.
        by: String,
        /// The revision of the store.
        revision: u64,
    }

    []
    /// The description of a key, and its signed form.
    Attested {
        /// The description.
        attest: Value,
        /// The description as a JWS in compact form, signed by the service's attestation key.
        jws: String,
        /// The revision of the store.
        revision: u64,
    }

    [deny_unknown_fields]
    /// A secret to unseal the service: one share of the recovery set, or the passphrase.
    Unseal {
        /// A share of the recovery set.
        share: Option<Secret>,
        /// The passphrase.
        passphrase: Option<Secret>,
        /// Whether to drop the shares that were given before.
        reset: Option<bool>,
    }

    []
    /// The state of the seal.
    Sealing {
        /// Whether the service is sealed.
        sealed: bool,
        /// The number of different shares given so far.
        given: u32,
        /// The number of shares that unseal the service; missing if no share was given yet.
        threshold: Option<u32>,
        /// The revision of the store; missing while the service is sealed.
        revision: Option<u64>,
        /// If the store was older than its audit log: the restrictions that were reapplied, and
        /// those that were not, one line each.
        restored: Option<Vec<String>>,
    }

    [deny_unknown_fields]
    /// A share of the recovery set to recover an administrator. Enough shares replace all tokens by
    /// a new one.
    RecoverAdmin {
        /// The share.
        share: Option<Secret>,
        /// The principal of the new administrator; `first` by default.
        principal: Option<String>,
        /// The SHA-256 of the certificate that the token will be bound to, in hexadecimal. It has
        /// to be the same with each share.
        cnf: Option<String>,
        /// The lifetime of the token in seconds; 90 days by default. It has to be the same with
        /// each share.
        lifetime_s: Option<u64>,
        /// Whether to drop the shares that were given before.
        reset: Option<bool>,
    }

    []
    /// The state of a recovery.
    Recovering {
        /// The number of different shares given so far.
        given: u32,
        /// The number of shares that are needed; missing if no share was given yet.
        threshold: Option<u32>,
        /// The new administrator's token, after enough shares were given.
        token: Option<Secret>,
        /// When the token expires, in milliseconds since 1970.
        expires_ms: Option<u64>,
        /// With `token`: true, because policies do not apply to it until it expires. The policies
        /// are unchanged.
        overrides_policies: Option<bool>,
        /// With `token`: the policies that permit a principal to change policies or make tokens, at
        /// most 100 of them.
        permits: Option<Vec<AdministrationPermit>>,
        /// The number of further permits; `GET /v1/kms/policies` lists the sets.
        more_permits: Option<u64>,
        /// The revision of the store; missing while the service is sealed.
        revision: Option<u64>,
    }

    []
    /// A policy that permits a principal to change policies or to make tokens, and so to obtain
    /// every other permission.
    AdministrationPermit {
        /// The policy: its set, and its number there, from 0.
        policy: String,
        /// Its principals in Cedar's syntax, such as Token::"ops", is Certificate, or any. Cut off
        /// after 256 characters.
        principal: String,
        /// policy, token or both.
        actions: Vec<String>,
        /// Whether it permits that only under conditions (`when` or `unless`).
        conditional: bool,
    }

    [deny_unknown_fields]
    /// A token to make. It may do no more than its maker, and not for longer.
    CreateToken {
        /// The token's principal.
        principal: String,
        /// The caveats, such as actions=sign,verify or key_prefix=web-.
        caveats: Option<Vec<String>>,
        /// The lifetime in seconds. It is rejected if it exceeds that of the maker's token. The
        /// default is the server's, or until the maker's token expires.
        lifetime_s: Option<u64>,
    }

    []
    /// A new token.
    TokenMade {
        /// The token.
        token: Secret,
        /// The token's id, by which it is revoked.
        id: String,
        /// When the token expires, in milliseconds since 1970.
        expires_ms: u64,
        /// The caveats.
        caveats: Vec<String>,
        /// The revision of the store.
        revision: u64,
    }

    [deny_unknown_fields]
    /// A token to revoke, with all its attenuations.
    RevokeToken {
        /// The id.
        id: String,
    }

    []
    /// A backup of the store.
    BackedUp {
        /// The name of the file in `backup.folder` of the server's configuration.
        file: String,
        /// The path of the file on the server.
        path: Option<String>,
        /// The revision of the store.
        revision: u64,
        /// The period whose key seals the backup.
        period: Option<String>,
    }

    []
    /// A destroyed key.
    Destroyed {
        /// The revision of the store.
        revision: u64,
        /// The backup periods whose keys were destroyed, if requested.
        expired_periods: Option<Vec<String>>,
        /// The backups in the server's folder that are unreadable now, including those of earlier
        /// calls.
        unreadable_backups: Option<Vec<String>>,
        /// The backups in the server's folder that are not sealed by a period's key. An older
        /// program made them, and they contain the key until they are deleted.
        plain_backups: Option<Vec<String>>,
        /// The number of other keys that are in no readable backup in the server's folder.
        keys_without_backup: Option<u64>,
    }

    []
    /// A record of the audit log.
    AuditRecord {
        /// The record's index, from 0.
        index: u64,
        /// The record.
        record: Value,
        /// The salt of the record's hash: an entry is SHA-256(salt || record).
        salt: String,
    }

    []
    /// Records of the audit log.
    AuditRecords {
        /// The records.
        records: Vec<AuditRecord>,
        /// The number of records in the log.
        size: u64,
        /// The revision of the store.
        revision: u64,
    }

    []
    /// Entries of the audit log, in their order. The leaves of its tree are their hashes.
    AuditEntries {
        /// The entries, 32 bytes each.
        entries: Vec<String>,
        /// The revision of the store.
        revision: u64,
    }

    []
    /// The state of the audit log.
    AuditState {
        /// The newest checkpoint in the format of C2SP's tlog-checkpoint.
        checkpoint: String,
        /// The number of records.
        size: u64,
        /// The index of the first record that is not archived.
        first: u64,
        /// The revision of the store.
        revision: u64,
    }

    [deny_unknown_fields]
    /// Selects the full segments of the audit log to move to the archive: all that neither field
    /// keeps, and all by default.
    ArchiveAudit {
        /// Keep segments with a record that is at most this many seconds old.
        keep_s: Option<u64>,
        /// Keep the newest segments, as long as all segments together have at most this many MiB.
        keep_mib: Option<u64>,
    }

    []
    /// The segments that were moved to the archive.
    AuditArchived {
        /// The names of the files in the archive's folder.
        files: Vec<String>,
        /// The number of records in them.
        records: u64,
        /// The index of the first record that is not archived.
        first: u64,
        /// The revision of the store.
        revision: u64,
    }

    []
    /// The keys that verify checkpoints of the audit log.
    AuditKeys {
        /// The keys in the format of C2SP's signed-note: Ed25519 and ML-DSA-44.
        vkeys: Vec<String>,
        /// The revision of the store.
        revision: u64,
    }

    [deny_unknown_fields]
    /// A set of policies to write.
    PutPolicy {
        /// The policies, in Cedar's language.
        text: String,
    }

    []
    /// A written or deleted set of policies.
    PolicyChanged {
        /// The set's name.
        name: String,
        /// The set's version: the number of writes.
        version: u64,
        /// The revision of the store.
        revision: u64,
    }

    []
    /// A set of policies.
    PolicySet {
        /// The set's name.
        name: String,
        /// The set's version: the number of writes.
        version: u64,
        /// When the set was changed last, in milliseconds since 1970.
        changed_ms: u64,
        /// The number of policies.
        policies: u64,
        /// The text; missing in lists.
        text: Option<String>,
        /// The revision of the store; missing in lists.
        revision: Option<u64>,
    }

    []
    /// The sets of policies in force. All of them apply together.
    PolicySets {
        /// The sets, in the order of their names.
        sets: Vec<PolicySet>,
        /// The revision of the store.
        revision: u64,
    }

    [deny_unknown_fields]
    /// A query to the policies in force, or to those with another `text` of the set `name`.
    CheckPolicy {
        /// The set that the text replaces; `check` by default.
        name: Option<String>,
        /// A text to check, which is not written.
        text: Option<String>,
        /// The caller: a token's principal, or the URI or DNS name of a certificate.
        principal: Option<String>,
        /// The caller's method of authentication: token or certificate; token by default.
        method: Option<String>,
        /// The action, such as sign.
        action: Option<String>,
        /// The name of the key, or the name prefix of a list.
        key: Option<String>,
        /// The key's tenant; `default` by default.
        tenant: Option<String>,
        /// The caller's address.
        address: Option<String>,
        /// The number of items; 1 by default.
        items: Option<u32>,
    }

    []
    /// The decision of the policies. Caveats of tokens are checked separately.
    PolicyChecked {
        /// Whether the request is allowed; missing if the query has no request.
        allowed: Option<bool>,
        /// The policies that determined the decision: SET#N, counted from 0.
        policies: Vec<String>,
        /// The errors of policies that could not be evaluated. Then the request is denied.
        errors: Vec<String>,
        /// The revision of the store.
        revision: u64,
    }

    []
    /// The status of the service.
    Status {
        /// The program's version.
        version: String,
        /// Whether the store has a seal.
        initialized: bool,
        /// Whether the service is sealed.
        sealed: bool,
        /// The id of the store, in hexadecimal.
        store: String,
        /// The number of times that the store was restored from a backup.
        incarnation: u64,
        /// The revision of the store; missing while the service is sealed.
        revision: Option<u64>,
        /// Problems that do not stop the service: memory_not_locked, store_full, rotation_failing,
        /// thread_failing.
        warnings: Option<Vec<String>>,
    }

    []
    /// An error.
    Problem {
        /// A code from a closed list.
        code: String,
        /// A message for people.
        message: String,
        /// Whether the same request may succeed later.
        retryable: bool,
        /// A hint what to do.
        hint: Option<String>,
        /// The time of the error by the service's clock (RFC 3339).
        ts: String,
        /// The request id.
        request_id: String,
    }
}

impl Sign {
    /// Creates a request for a signature by the newest version of a key.
    #[must_use]
    pub fn by(key: &str) -> Self {
        Sign { key: key.to_owned(), ..Sign::default() }
    }
}
