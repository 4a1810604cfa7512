//! Batches of signatures.

wire! {
    [deny_unknown_fields]
    /// An item of a batch, with the fields of `sign` or `verify`.
    BatchItem {
        /// `sign` or `verify`.
        op: String,
        /// The key, by name or id.
        key: String,
        /// The key's tenant, if the key is given by name.
        tenant: Option<String>,
        /// The version; the newest one by default.
        version: Option<u32>,
        /// The message.
        message: Option<String>,
        /// The digest of the message, computed by the client.
        digest: Option<String>,
        /// For ML-DSA: the message representative mu, 64 bytes, computed with the public key of
        /// `version`.
        mu: Option<String>,
        /// The hash of the digest.
        prehash: Option<String>,
        /// The context string, at most 255 bytes.
        context: Option<String>,
        /// For `verify`: the signature.
        signature: Option<String>,
        /// The text form of the signature: asn1 (base64), the default, or jws (base64url without
        /// padding; ECDSA signatures are r and s, concatenated).
        marshaling: Option<String>,
    }

    [deny_unknown_fields]
    /// Messages to sign and signatures to verify, with any keys.
    Batch {
        /// The items, which are processed independently.
        items: Vec<BatchItem>,
        /// The status of the whole response if an item failed: 200, the default, or 400 to 599.
        status_if_failed: Option<u32>,
    }

    []
    /// The error of an item.
    ItemProblem {
        /// A code from a closed list.
        code: String,
        /// A message for people.
        message: String,
        /// Whether the same item may succeed later.
        retryable: bool,
        /// A hint what to do.
        hint: Option<String>,
    }

    []
    /// The result of an item.
    BatchResult {
        /// The status that the item would have had alone. A wrong signature has the status 200.
        status: u32,
        /// The id of the version that signed, or of the claimed one.
        by: Option<String>,
        /// The version's number.
        version: Option<u32>,
        /// The new signature.
        signature: Option<String>,
        /// Whether the signature of the message by this version is valid.
        valid: Option<bool>,
        /// The error.
        problem: Option<ItemProblem>,
    }

    []
    /// The results of a batch.
    BatchDone {
        /// The results, in the order of the items.
        results: Vec<BatchResult>,
        /// The number of failed items.
        failed: u32,
        /// The revision of the store.
        revision: u64,
    }
}
