//! Many signatures at once.

wire! {
    [deny_unknown_fields]
    /// Something of a batch: what `sign` or `verify` takes.
    BatchItem {
        /// `sign` or `verify`.
        op: String,
        /// The key, by name or id.
        key: String,
        /// Whose key it is, where it is given by name.
        tenant: Option<String>,
        /// The version; the newest one if none is named.
        version: Option<u32>,
        /// The message.
        message: Option<String>,
        /// The digest of the message, made elsewhere.
        digest: Option<String>,
        /// Of ML-DSA alone: the message representative mu, 64 bytes, computed with the public key of `version`.
        mu: Option<String>,
        /// The function that makes or made the digest.
        prehash: Option<String>,
        /// The context string, at most 255 bytes.
        context: Option<String>,
        /// Of `verify`: the signature.
        signature: Option<String>,
        /// How the signature is written: asn1 (base64), or jws: base64url without padding, and of ECDSA r and s; asn1 if nothing is said.
        marshaling: Option<String>,
    }

    [deny_unknown_fields]
    /// Messages to sign and signatures to verify, by any keys.
    Batch {
        /// Each by itself.
        items: Vec<BatchItem>,
        /// The status of the whole answer if something of it failed: 200 if nothing is said, or 400 to 599.
        status_if_failed: Option<u32>,
    }

    []
    /// Why an item was not done.
    ItemProblem {
        /// A word of a closed list.
        code: String,
        /// What happened, for people.
        message: String,
        /// Whether the same may succeed later.
        retryable: bool,
        /// What to do.
        hint: Option<String>,
    }

    []
    /// What came of an item.
    BatchResult {
        /// The status that it would have had alone. A signature that is wrong was looked at: 200.
        status: u32,
        /// The id of the version that signed, or is said to have signed.
        by: Option<String>,
        /// Its number.
        version: Option<u32>,
        /// The signature that was made.
        signature: Option<String>,
        /// Whether the signature is that version's of that message.
        valid: Option<bool>,
        /// Why it was not done.
        problem: Option<ItemProblem>,
    }

    []
    /// What came of a batch.
    BatchDone {
        /// In the order of the items.
        results: Vec<BatchResult>,
        /// How many of them were not done.
        failed: u32,
        /// The revision of the store.
        revision: u64,
    }
}
