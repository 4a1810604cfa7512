//! The lists of what the provider registers, as the core asks for them; `names` makes them.

use std::ffi::{CStr, CString, c_int};
use std::ptr;

use crate::ffi::{AlgorithmEntry, operation};

/// The lists that the core asks for, and the strings that they point into. Immutable once made.
pub struct Tables {
    /// Key managements.
    pub keymgmt: Vec<AlgorithmEntry>,
    /// Key encapsulation.
    pub kem: Vec<AlgorithmEntry>,
    /// Key exchange.
    pub exchange: Vec<AlgorithmEntry>,
    /// Signatures.
    pub signature: Vec<AlgorithmEntry>,
    /// Key derivation.
    pub kdf: [AlgorithmEntry; 2],
    /// Loaders of a store.
    pub stores: Vec<AlgorithmEntry>,
    /// Decoders.
    pub decoders: Vec<AlgorithmEntry>,
    /// Encoders.
    pub encoders: Vec<AlgorithmEntry>,
    /// The strings that the lists point into, in the order of the served key types.
    pub names: Vec<Names>,
}

impl Tables {
    /// Object identifier, short and long name of each signature that OpenSSL does not know.
    pub fn unknown_objects(&self) -> impl Iterator<Item = (&CStr, &CStr, &CStr)> {
        let objects = self.names.iter().filter_map(|names| names.object.as_ref());
        objects.map(|[oid, short, long]| (oid.as_c_str(), short.as_c_str(), long.as_c_str()))
    }

    /// The list of an operation; null where the provider has nothing for it.
    pub fn of(&self, operation: c_int) -> *const AlgorithmEntry {
        match operation {
            operation::KEYMGMT => self.keymgmt.as_ptr(),
            operation::KEM => self.kem.as_ptr(),
            operation::KEYEXCH => self.exchange.as_ptr(),
            operation::SIGNATURE => self.signature.as_ptr(),
            operation::KDF => self.kdf.as_ptr(),
            operation::STORE => self.stores.as_ptr(),
            operation::DECODER => self.decoders.as_ptr(),
            operation::ENCODER => self.encoders.as_ptr(),
            _ => ptr::null(),
        }
    }
}

/// The end of a list.
pub const END: AlgorithmEntry = AlgorithmEntry {
    names: ptr::null(),
    properties: ptr::null(),
    implementation: ptr::null(),
    description: ptr::null(),
};

/// The names of one algorithm as C has them.
pub struct Names {
    /// All of them, the main one first, separated by colons.
    pub all: CString,
    /// A line for people.
    pub description: CString,
    /// Object identifier, short and long name, where OpenSSL must be told of them.
    pub object: Option<[CString; 3]>,
}
