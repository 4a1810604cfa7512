//! A parsed request for one signature or one verification.

use gabion_kms::Error;
use gabion_kms::gate::Action;
use gabion_kms::operations::SignOutput;
use gabion_kms::service::Generation;

use super::input::Input;
use super::marshaling::Marshaling;
use super::{Call, KeySelector, Reply};
use crate::problem::Problem;

/// A parsed request for one signature or one verification.
pub struct SingleRequest {
    pub selector: KeySelector,
    pub input: Input,
    pub operation: Operation,
    /// The text form of the signature.
    pub marshaling: Marshaling,
    /// The store's revision when the request was parsed.
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
    Verified { version: u32, valid: bool },
}

/// Creates the response in the format of the API that was called.
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
    /// Runs the request by itself.
    ///
    /// # Errors
    /// Errors of the service.
    pub fn run(&self, call: &Call) -> Result<Reply, Problem> {
        let (service, caller) = call.caller()?;
        let (key, signable) = (self.selector.key(), self.input.signable());
        let outcome = match self.operation {
            Operation::Sign { version } => {
                service.sign(&caller, &key, version, signable).map(Outcome::Signed)
            }
            Operation::Verify { version, ref signature } => service
                .verify(&caller, &key, version, signable, signature)
                .map(|valid| Outcome::Verified { version, valid }),
        };
        self.answer(call, outcome)
    }

    /// Creates the response.
    ///
    /// # Errors
    /// The operation's error, in the format of the API that was called.
    pub fn answer(&self, call: &Call, outcome: Result<Outcome, Error>) -> Result<Reply, Problem> {
        let outcome = outcome.map_err(|error| (self.shape.refuse)(error.into()))?;
        (self.shape.respond)(call, self, outcome)
    }
}

/// A call whose request was parsed.
pub struct ParsedCall {
    pub call: Call,
    pub single: SingleRequest,
}

impl ParsedCall {
    /// Runs the request by itself, without parsing the body again.
    ///
    /// # Errors
    /// `sealed` if the service was sealed while the request waited for a thread. Those of
    /// [`SingleRequest::run`], charged to the caller.
    pub fn run(&self) -> Result<Reply, Problem> {
        let Self { call, single } = self;
        call.under.get().map_or(Ok(()), Generation::check)?;
        single.run(call).map_err(|problem| call.refusal(problem))
    }

    /// Creates the response to an operation that ran in a batch.
    ///
    /// # Errors
    /// Those of [`SingleRequest::answer`], charged to the caller.
    pub fn answer(&self, outcome: Result<Outcome, Error>) -> Result<Reply, Problem> {
        let Self { call, single } = self;
        single.answer(call, outcome).map_err(|problem| call.refusal(problem))
    }
}
