//! The cases that can be measured.

use gabion_engine::{Algorithm, Family};
use gabion_rows::operations::{Key, Operation, Subject};

use super::stateful::{MEASURED, SIGNATURES};
use crate::inputs;

/// A row that can be measured, but for the size of the batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Case {
    /// The parameter set.
    pub algorithm: Algorithm,
    /// The operation.
    pub operation: Operation,
    /// The state of its key.
    pub key: Key,
    /// Whether the private half of a key that is made stays its seed, so that the public one alone comes back.
    pub is_seed: bool,
    /// The set, of a family that has one algorithm for many.
    pub set: Option<&'static str>,
}

impl Case {
    /// Every case, in the order of the algorithms' table.
    pub fn all() -> impl Iterator<Item = Case> {
        use Operation::{Decaps, Encaps, Keygen, Sign, Verify};
        let stateful = MEASURED.into_iter().map(|(set, algorithm)| Case {
            algorithm,
            operation: Verify,
            key: Key::Cached,
            is_seed: false,
            set: Some(set),
        });
        let of_table = Algorithm::all().flat_map(|algorithm| {
            let operations: &'static [Operation] = match algorithm.info().family {
                Family::MlKem => &[Keygen, Encaps, Decaps],
                Family::MlDsa => &[Keygen, Sign, Verify],
                // The seam has no encoded key pairs of it.
                Family::SlhDsa => &[Sign, Verify],
                _ => &[],
            };
            operations.iter().flat_map(move |&operation| {
                let case =
                    move |key, is_seed| Case { algorithm, operation, key, is_seed, set: None };
                let is_kem = algorithm.info().family == Family::MlKem;
                let all = [(Key::Fresh, true), (Key::Fresh, false), (Key::Cached, false)];
                all.into_iter()
                    .filter(move |&(key, is_seed)| match operation {
                        Keygen => key == Key::Fresh && (is_kem || !is_seed),
                        _ => !is_seed,
                    })
                    .map(move |(key, is_seed)| case(key, is_seed))
            })
        });
        of_table.chain(stateful)
    }

    /// The set's name, or the algorithm's.
    pub fn of(&self) -> &'static str {
        self.set.unwrap_or_else(|| self.algorithm.name())
    }

    /// Returns the text that a filter matches, `algorithm:operation:key`; the key is `seed` for
    /// private keys that are kept as seeds.
    pub fn name(&self) -> String {
        let key = if self.is_seed { "seed" } else { self.key.word() };
        format!("{}:{}:{key}", self.of(), self.operation.word())
    }

    /// Returns the case as rows identify it.
    pub fn subject(&self) -> Subject {
        let algorithm = self.of().to_owned();
        Subject { algorithm, operation: self.operation, key: self.key }
    }

    /// Returns the names of key generation's outputs.
    pub fn returns(&self) -> Option<String> {
        let words = match self.algorithm.info().family {
            Family::MlKem if self.is_seed => "ek",
            Family::MlKem => "ek, dk",
            _ => "pk, sk",
        };
        (self.operation == Operation::Keygen).then(|| words.to_owned())
    }

    /// Items of a pool: signing takes as many attempts as the item says, and SLH-DSA takes a processor long.
    pub fn items(&self) -> usize {
        match (self.algorithm.info().family, self.algorithm.name().ends_with('s')) {
            (Family::SlhDsa, true) => 8,
            (Family::SlhDsa, false) => 64,
            (Family::Hss | Family::Xmss, _) => SIGNATURES,
            _ => inputs::MESSAGES,
        }
    }
}
