//! Requests and answers of `/v1/kms`.
//!
//! Bytes are base64. A key is named by its name, or by its id `tenant/purpose/algorithm/uuid`. Requests refuse fields that
//! they do not know; answers may get more of them.

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
    /// A key to make.
    CreateKey {
        /// What its tenant calls it: 1 to 64 of 0-9 A-Z a-z _ - .
        name: String,
        /// An algorithm's name in lower case, such as ml-dsa-65 or xaes-256-gcm.
        algorithm: String,
        /// What it is for; `transit` if nothing else is said.
        purpose: Option<String>,
        /// Whose; the token's tenant if nothing else is said.
        tenant: Option<String>,
        /// What it promises to conform to, for good: cnsa2, fips-alg, software.
        conformance: Option<Vec<String>>,
        /// After how many seconds the clock has it rotated, 3600 to 315360000; 0: never, as if nothing is said.
        rotate_period_s: Option<u64>,
        /// Of ML-DSA alone: `true` has it sign and verify by `mu` only, for good.
        mu_required: Option<bool>,
        /// The longest lifetime of a JSON Web Token that it signs, in seconds, 1 to 315360000. The key then signs nothing else, for
        /// good. Without it: tokens of a day at most, and anything else.
        jwt_max_lifetime_s: Option<u64>,
    }

    [deny_unknown_fields]
    /// What is to change of a key; what is left out stays.
    ConfigureKey {
        /// The oldest version that signs, makes tags, encrypts or encapsulates; 0: the newest one alone.
        min_sign: Option<u32>,
        /// The oldest version that verifies.
        min_verify: Option<u32>,
        /// The oldest version that decrypts or decapsulates.
        min_decrypt: Option<u32>,
        /// Labels, instead of those that there are.
        labels: Option<BTreeMap<String, String>>,
        /// Whether its private half may be given out: `true`, which is for good.
        exportable: Option<bool>,
        /// From when on it makes nothing new, in milliseconds since 1970; 0: never.
        expires_ms: Option<u64>,
        /// When a use is answered: `durable`, once the disk has its record; `written`, once the system has it; `default`: as
        /// the server is configured.
        class: Option<String>,
        /// After how many seconds, counted from its newest version, the clock has it rotated, 3600 to 315360000; 0: never.
        rotate_period_s: Option<u64>,
        /// Of ML-DSA alone: whether it signs and verifies by `mu` only: `true`, which is for good.
        mu_required: Option<bool>,
        /// The longest lifetime of a JSON Web Token that it signs, in seconds, 1 to 315360000. The key then signs nothing else, for
        /// good; the limit can be changed.
        jwt_max_lifetime_s: Option<u64>,
    }

    [deny_unknown_fields]
    /// A version of a key.
    OfVersion {
        /// Its number, from 1.
        version: u32,
    }

    [deny_unknown_fields]
    /// Which versions to destroy for good.
    Trim {
        /// The first version that stays.
        before: u32,
    }

    [deny_unknown_fields]
    /// How a key is destroyed.
    DestroyKey {
        /// Whether the keys of all periods are destroyed whose backups may have it: nobody reads these backups any more. It
        /// takes the action `backup`, too. Asked for again by the key's id it goes on where it stopped.
        expire_backups: Option<bool>,
    }

    [deny_unknown_fields]
    /// No field.
    Nothing {}

    [deny_unknown_fields]
    /// A message to sign: `message`, or `digest` and `prehash`, or `mu` and `version`.
    Sign {
        /// The key, by name or id.
        key: String,
        /// Whose key it is, where it is given by name.
        tenant: Option<String>,
        /// The version that signs; the newest one if none is named.
        version: Option<u32>,
        /// The message.
        message: Option<String>,
        /// The digest of the message, made elsewhere.
        digest: Option<String>,
        /// Of ML-DSA alone: the message representative mu (FIPS 204, Algorithm 7, line 6), 64 bytes, computed with the public key
        /// of `version` and the context string. The signature is one of the message.
        mu: Option<String>,
        /// The function that makes or made the digest, such as SHA2-512: HashML-DSA, HashSLH-DSA.
        prehash: Option<String>,
        /// The context string, at most 255 bytes.
        context: Option<String>,
        /// Of RSA alone: pss or pkcs1v15; pss if nothing is said.
        padding: Option<String>,
        /// Of RSA's pss: bytes of the salt; as many as the digest has if nothing is said.
        salt_length: Option<u32>,
        /// How the signature is written: asn1 (base64), or jws: base64url without padding, and of ECDSA r and s; asn1 if nothing is said.
        marshaling: Option<String>,
    }

    [deny_unknown_fields]
    /// A signature to verify.
    Verify {
        /// The key, by name or id.
        key: String,
        /// Whose key it is, where it is given by name.
        tenant: Option<String>,
        /// The version that is said to have signed; the newest one if none is named.
        version: Option<u32>,
        /// The message.
        message: Option<String>,
        /// The digest of the message, made elsewhere.
        digest: Option<String>,
        /// Of ML-DSA alone: the message representative mu (FIPS 204, Algorithm 7, line 6), 64 bytes, computed with the public key
        /// of `version` and the context string. The signature is one of the message.
        mu: Option<String>,
        /// The function that makes or made the digest.
        prehash: Option<String>,
        /// The context string, at most 255 bytes.
        context: Option<String>,
        /// Of RSA alone: pss or pkcs1v15; pss if nothing is said.
        padding: Option<String>,
        /// Of RSA's pss: bytes of the salt; as many as the digest has if nothing is said.
        salt_length: Option<u32>,
        /// How the signature is written: asn1 (base64), or jws: base64url without padding, and of ECDSA r and s; asn1 if nothing is said.
        marshaling: Option<String>,
        /// The signature.
        signature: String,
    }

    [deny_unknown_fields]
    /// What to describe.
    Attest {
        /// The key, by name or id.
        key: String,
        /// Whose key it is, where it is given by name.
        tenant: Option<String>,
        /// A text that comes back within the answer, so that an older one is not taken for it.
        nonce: Option<String>,
    }

    []
    /// A key, as far as it is not secret.
    Key {
        /// Its id.
        id: String,
        /// What its tenant calls it.
        name: String,
        /// Its algorithm.
        algorithm: String,
        /// What its keys do: `sign`, `encrypt`, `authenticate` (tags), `encapsulate` or `sign_and_encrypt` (RSA).
        does: String,
        /// When it was made, in milliseconds since 1970.
        created_ms: u64,
        /// What people note down.
        labels: BTreeMap<String, String>,
        /// The newest version.
        latest: u32,
        /// The oldest version that was not trimmed.
        min_available: u32,
        /// The oldest version that signs, makes tags, encrypts or encapsulates; 0: the newest one alone.
        min_sign: u32,
        /// The oldest version that verifies.
        min_verify: u32,
        /// The oldest version that decrypts or decapsulates.
        min_decrypt: u32,
        /// When it was deleted; it can be restored.
        deleted_ms: Option<u64>,
        /// From when on it makes nothing new, in milliseconds since 1970.
        expires_ms: Option<u64>,
        /// Whether its private half may be given out.
        exportable: bool,
        /// When a use is answered, where the key says it: `durable` or `written`.
        class: Option<String>,
        /// What it promises to conform to.
        conformance: Option<Vec<String>>,
        /// After how many seconds the clock has it rotated; none: never.
        rotate_period_s: Option<u64>,
        /// When it does next, in milliseconds since 1970.
        rotates_ms: Option<u64>,
        /// `true` if it signs and verifies by `mu` only.
        mu_required: Option<bool>,
        /// The longest lifetime of a JSON Web Token that it signs, in seconds, if it signs nothing else.
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
        /// The labels; left out if there are none.
        labels: Option<BTreeMap<String, String>>,
    }

    []
    /// Keys in the order of their names.
    Keys {
        /// The keys.
        keys: Vec<Named>,
        /// Where to go on: the name to give as `after`. None: there are no more.
        next: Option<String>,
        /// The revision of the store.
        revision: u64,
    }

    []
    /// A version of a key, as far as it is not secret.
    Version {
        /// Its number.
        version: u32,
        /// When it was made, in milliseconds since 1970.
        created_ms: u64,
        /// `enabled` or `disabled`.
        state: String,
        /// Its public key, as PEM of a SubjectPublicKeyInfo; none if the algorithm has no such form.
        public_key: Option<String>,
    }

    []
    /// Versions of a key.
    Versions {
        /// The key's id.
        id: String,
        /// The versions that were not destroyed, the oldest first.
        versions: Vec<Version>,
        /// Where to go on: the version to give as `after`. None: there are no more.
        next: Option<u32>,
        /// The revision of the store.
        revision: u64,
    }

    []
    /// A version that was made.
    Rotated {
        /// Its id.
        id: String,
        /// Its number.
        version: u32,
        /// The revision of the store.
        revision: u64,
    }

    []
    /// A change that was made.
    Changed {
        /// The revision of the store.
        revision: u64,
    }

    []
    /// A signature.
    Signed {
        /// The id of the version that signed.
        by: String,
        /// Its number.
        version: u32,
        /// The signature.
        signature: String,
        /// The revision of the store.
        revision: u64,
    }

    []
    /// A verdict.
    Verified {
        /// Whether the signature is that version's of that message.
        valid: bool,
        /// The id of the version.
        by: String,
        /// The revision of the store.
        revision: u64,
    }

    []
    /// A key's description, and the same signed.
    Attested {
        /// What is said of the key.
        attest: Value,
        /// The same as a JWS in compact form, by the service's attestation key.
        jws: String,
        /// The revision of the store.
        revision: u64,
    }

    [deny_unknown_fields]
    /// What opens the seal: shares, one at a time or together, or the passphrase.
    Unseal {
        /// A share of the recovery set.
        share: Option<Secret>,
        /// The passphrase.
        passphrase: Option<Secret>,
        /// Whether to forget the shares that were given before.
        reset: Option<bool>,
    }

    []
    /// How far the seal is open.
    Sealing {
        /// Whether it is closed.
        sealed: bool,
        /// How many different shares were given.
        given: u32,
        /// How many of them open it; none where none was given yet.
        threshold: Option<u32>,
        /// The revision of the store; none while it is sealed.
        revision: Option<u64>,
        /// Where this opened a store that is older than its audit log: what was taken away again, and what was not, a line each.
        restored: Option<Vec<String>>,
    }

    [deny_unknown_fields]
    /// A share of the recovery set, given for a new administrator. Enough of them replace every token by one.
    RecoverAdmin {
        /// The share.
        share: Option<Secret>,
        /// What the new administrator is called; `first` if nothing is said.
        principal: Option<String>,
        /// The SHA-256 of the certificate that the token is to be bound to, in hexadecimal. Each share names the same one.
        cnf: Option<String>,
        /// How many seconds the token lives; 90 days if nothing is said. Each share names the same.
        lifetime_s: Option<u64>,
        /// Whether to forget the shares that were given before.
        reset: Option<bool>,
    }

    []
    /// How far a recovery is.
    Recovering {
        /// How many different shares were given.
        given: u32,
        /// How many of them it takes; none where none was given yet.
        threshold: Option<u32>,
        /// The new administrator's token, once there were enough.
        token: Option<Secret>,
        /// When that ends, in milliseconds since 1970.
        expires_ms: Option<u64>,
        /// With `token`: true, since policies do not apply to it until it ends. The policies are unchanged.
        overrides_policies: Option<bool>,
        /// With `token`: the policies that permit a principal to change policies or make tokens, at most 100 of them.
        permits: Option<Vec<AdministrationPermit>>,
        /// How many more of them there are; `GET /v1/kms/policies` lists the sets.
        more_permits: Option<u64>,
        /// The revision of the store; none while it is sealed.
        revision: Option<u64>,
    }

    []
    /// A policy that permits somebody to change policies or to make tokens, and so to obtain every other permission.
    AdministrationPermit {
        /// The policy: its set, and its number there, from 0.
        policy: String,
        /// Its principals in Cedar's syntax, such as Token::"ops", is Certificate, or any. Cut off after 256 characters.
        principal: String,
        /// policy, token or both.
        actions: Vec<String>,
        /// Whether it permits that only under conditions (`when` or `unless`).
        conditional: bool,
    }

    [deny_unknown_fields]
    /// A token to make. It may no more than its maker may, and not for longer.
    CreateToken {
        /// What whoever has it is called.
        principal: String,
        /// What it is limited to, such as actions=sign,verify or key_prefix=web-.
        caveats: Option<Vec<String>>,
        /// How many seconds it lives; longer than its maker's token is refused. If nothing is said, as the server is configured,
        /// or until its maker's token ends.
        lifetime_s: Option<u64>,
    }

    []
    /// A token that was made.
    TokenMade {
        /// The token.
        token: Secret,
        /// Its id, by which it is revoked.
        id: String,
        /// When it ends, in milliseconds since 1970.
        expires_ms: u64,
        /// What it is limited to.
        caveats: Vec<String>,
        /// The revision of the store.
        revision: u64,
    }

    [deny_unknown_fields]
    /// A token to revoke, with all its attenuations.
    RevokeToken {
        /// Its id.
        id: String,
    }

    []
    /// A copy of the store.
    BackedUp {
        /// The name of its file in `backup.folder` of the server's configuration.
        file: String,
        /// The path of that file on the server.
        path: Option<String>,
        /// The revision of the store.
        revision: u64,
        /// The period whose key seals it.
        period: Option<String>,
    }

    []
    /// A key that was destroyed.
    Destroyed {
        /// The revision of the store.
        revision: u64,
        /// The periods of backups whose keys were destroyed, if that was asked for.
        expired_periods: Option<Vec<String>>,
        /// The backups in the server's folder that nobody reads any more, those of earlier calls too.
        unreadable_backups: Option<Vec<String>>,
        /// The backups there that no period's key seals: an older program made them, and they have the key until they are
        /// deleted.
        plain_backups: Option<Vec<String>>,
        /// How many other keys are in no backup there that can be read.
        keys_without_backup: Option<u64>,
    }

    []
    /// A record of the audit log.
    AuditRecord {
        /// Which one, from 0.
        index: u64,
        /// What it says.
        record: Value,
        /// What it is hashed with: an entry is SHA-256(salt || record).
        salt: String,
    }

    []
    /// Records of the audit log.
    AuditRecords {
        /// The records.
        records: Vec<AuditRecord>,
        /// How many there are.
        size: u64,
        /// The revision of the store.
        revision: u64,
    }

    []
    /// Entries of the audit log, in their order: what its leaves are the hashes of.
    AuditEntries {
        /// The entries, 32 bytes each.
        entries: Vec<String>,
        /// The revision of the store.
        revision: u64,
    }

    []
    /// How far the audit log has come.
    AuditState {
        /// Its newest checkpoint, as C2SP's tlog-checkpoint has it.
        checkpoint: String,
        /// How many records there are.
        size: u64,
        /// The index of the first one that is in no archive.
        first: u64,
        /// The revision of the store.
        revision: u64,
    }

    [deny_unknown_fields]
    /// Which full segments of the audit log go to its archive: all that neither of these keeps, all if nothing is said.
    ArchiveAudit {
        /// Keep those with a record that is not older than so many seconds.
        keep_s: Option<u64>,
        /// Keep the newest ones, as far as all segments have so many MiB together at most.
        keep_mib: Option<u64>,
    }

    []
    /// What went to the archive of the audit log.
    AuditArchived {
        /// Names of files in the folder that the server is configured to put them.
        files: Vec<String>,
        /// How many records are in them.
        records: u64,
        /// The index of the first record that is in no archive.
        first: u64,
        /// The revision of the store.
        revision: u64,
    }

    []
    /// What verifies checkpoints of the audit log.
    AuditKeys {
        /// Keys as C2SP's signed-note has them: of Ed25519, and of ML-DSA-44.
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
    /// A set of policies that was written or deleted.
    PolicyChanged {
        /// What it is called.
        name: String,
        /// How often it was written.
        version: u64,
        /// The revision of the store.
        revision: u64,
    }

    []
    /// A set of policies.
    PolicySet {
        /// What it is called.
        name: String,
        /// How often it was written.
        version: u64,
        /// When it was written last, in milliseconds since 1970.
        changed_ms: u64,
        /// How many policies it has.
        policies: u64,
        /// Its text; not in a list.
        text: Option<String>,
        /// The revision of the store; not in a list.
        revision: Option<u64>,
    }

    []
    /// The sets of policies that are in force: all of them together.
    PolicySets {
        /// The sets, in the order of their names.
        sets: Vec<PolicySet>,
        /// The revision of the store.
        revision: u64,
    }

    [deny_unknown_fields]
    /// A question to policies: to those that are in force, or to those with another `text` of the set `name`.
    CheckPolicy {
        /// Which set the text is of; `check` if nothing is said.
        name: Option<String>,
        /// A text that is looked at and not written.
        text: Option<String>,
        /// Who asks: a principal of tokens, or the URI or DNS name of a certificate.
        principal: Option<String>,
        /// How they are authenticated: token or certificate; token if nothing is said.
        method: Option<String>,
        /// What they ask for, such as sign.
        action: Option<String>,
        /// The name of the key; of a list, how the names begin.
        key: Option<String>,
        /// Whose key it is; `default` if nothing is said.
        tenant: Option<String>,
        /// From where.
        address: Option<String>,
        /// How many items they ask for together; 1 if nothing is said.
        items: Option<u32>,
    }

    []
    /// What policies say. Caveats of tokens count besides.
    PolicyChecked {
        /// Whether it is allowed; none where nothing was asked.
        allowed: Option<bool>,
        /// Which policies say so: SET#N, counted from 0.
        policies: Vec<String>,
        /// What could not be evaluated; then nothing is allowed.
        errors: Vec<String>,
        /// The revision of the store.
        revision: u64,
    }

    []
    /// How the service is.
    Status {
        /// The program's version.
        version: String,
        /// Whether the store has a seal.
        initialized: bool,
        /// Whether it waits to be unsealed.
        sealed: bool,
        /// Which store it is, in hexadecimal.
        store: String,
        /// How many times it was restored from a backup.
        incarnation: u64,
        /// The revision of the store; none while it is sealed.
        revision: Option<u64>,
        /// What is not as it should be, and does not stop it: memory_not_locked, store_full, rotation_failing,
        /// thread_failing.
        warnings: Option<Vec<String>>,
    }

    []
    /// Why something was not done.
    Problem {
        /// A word of a closed list.
        code: String,
        /// What happened, for people.
        message: String,
        /// Whether the same request may succeed later.
        retryable: bool,
        /// What to do.
        hint: Option<String>,
        /// When, by the service's clock (RFC 3339).
        ts: String,
        /// What the service calls the request.
        request_id: String,
    }
}

impl Sign {
    /// A request for a signature by the newest version of a key.
    #[must_use]
    pub fn by(key: &str) -> Self {
        Sign { key: key.to_owned(), ..Sign::default() }
    }
}
