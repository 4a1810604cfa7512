//! A parsed request for one signature or one verification.

use gabion_kms::Error;
use gabion_kms::gate::Action;
use gabion_kms::model::VersionId;
use gabion_kms::operations::SignOutput;
use gabion_kms::service;

use super::input::Input;
use super::marshaling::Marshaling;
use super::{Call, KeySelector, Reply};
use crate::problem::Problem;

/// A parsed request for one signature or one verification, without parameters of RSA.
pub struct SingleRequest {
    pub selector: KeySelector,
    pub input: Input,
    pub operation: Operation,
    /// How the signature that it makes is written.
    pub marshaling: Marshaling,
    /// The store's revision when it was read.
    pub revision: u64,
    pub shape: ResponseShape,
}

/// The operation of a request.
pub enum Operation {
    Sign { version: Option<u32> },
    Verify { version: u32, signature: Vec<u8> },
}

/// The result of an operation.
pub enum Outcome {
    Signed(SignOutput),
    Verified(bool),
}

/// Writes the response in the form of the API that was called.
#[derive(Clone, Copy)]
pub struct ResponseShape {
    pub respond: fn(&Call, &SingleRequest, Outcome) -> Result<Reply, Problem>,
    pub refuse: fn(Problem) -> Problem,
}

impl Operation {
    pub fn action(&self) -> Action {
        match self {
            Operation::Sign { .. } => Action::Sign,
            Operation::Verify { .. } => Action::Verify,
        }
    }
}

impl SingleRequest {
    /// Does what it asks for, by itself.
    ///
    /// # Errors
    /// The service's.
    pub fn run(&self, call: &Call) -> Result<Reply, Problem> {
        let (service, caller) = call.caller()?;
        let done = self.done(service, &caller);
        self.answer(call, done)
    }

    fn done(
        &self,
        service: &service::Service,
        caller: &service::Call<'_>,
    ) -> Result<Outcome, Error> {
        let (key, message) = (self.selector.key(), self.input.message());
        match &self.operation {
            Operation::Sign { version } => {
                service.sign(caller, &key, *version, message).map(Outcome::Signed)
            }
            Operation::Verify { version, signature } => {
                service.verify(caller, &key, *version, message, signature).map(Outcome::Verified)
            }
        }
    }

    /// The answer.
    ///
    /// # Errors
    /// What it came to, where that is one.
    pub fn answer(&self, call: &Call, done: Result<Outcome, Error>) -> Result<Reply, Problem> {
        let done = done.map_err(|error| (self.shape.refuse)(error.into()))?;
        (self.shape.respond)(call, self, done)
    }

    /// The version that a verdict is about.
    ///
    /// # Errors
    /// There is no such key.
    pub fn by(&self, call: &Call) -> Result<VersionId, Problem> {
        let (service, _) = call.caller()?;
        let key = service.kms().find(&self.selector.tenant, &self.selector.name)?;
        let version = match self.operation {
            Operation::Verify { version, .. } => version,
            Operation::Sign { version } => version.unwrap_or_default(),
        };
        Ok(VersionId { key, version })
    }
}
