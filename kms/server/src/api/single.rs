//! A request for one signature or for one verdict, that was read and not answered.

use gabion_kms::Error;
use gabion_kms::gate::Action;
use gabion_kms::model::VersionId;
use gabion_kms::operations::Signed;
use gabion_kms::service;

use super::input::Input;
use super::marshaling::Marshaling;
use super::{Call, Reply, Wanted};
use crate::problem::Problem;

/// A request for one signature or verdict, by a key that has no parameters of its own.
pub struct Single {
    pub wanted: Wanted,
    pub input: Input,
    pub what: What,
    /// How the signature that it makes is written.
    pub marshaling: Marshaling,
    /// The store's revision when it was read.
    pub revision: u64,
    pub form: Form,
}

/// What it asks for.
pub enum What {
    Sign { version: Option<u32> },
    Verify { version: u32, signature: Vec<u8> },
}

/// What came of it.
pub enum Done {
    Signed(Signed),
    Verified(bool),
}

/// How it is answered.
#[derive(Clone, Copy)]
pub struct Form {
    pub done: fn(&Call, &Single, Done) -> Result<Reply, Problem>,
    pub failed: fn(Problem) -> Problem,
}

impl What {
    pub fn action(&self) -> Action {
        match self {
            What::Sign { .. } => Action::Sign,
            What::Verify { .. } => Action::Verify,
        }
    }
}

impl Single {
    /// Does what it asks for, by itself.
    ///
    /// # Errors
    /// The service's.
    pub fn run(&self, call: &Call) -> Result<Reply, Problem> {
        let (service, caller) = call.caller()?;
        let done = self.done(service, &caller);
        self.answer(call, done)
    }

    fn done(&self, service: &service::Service, caller: &service::Call<'_>) -> Result<Done, Error> {
        let (key, message) = (self.wanted.key(), self.input.message());
        match &self.what {
            What::Sign { version } => {
                service.sign(caller, &key, *version, message).map(Done::Signed)
            }
            What::Verify { version, signature } => {
                service.verify(caller, &key, *version, message, signature).map(Done::Verified)
            }
        }
    }

    /// The answer.
    ///
    /// # Errors
    /// What it came to, where that is one.
    pub fn answer(&self, call: &Call, done: Result<Done, Error>) -> Result<Reply, Problem> {
        let done = done.map_err(|error| (self.form.failed)(error.into()))?;
        (self.form.done)(call, self, done)
    }

    /// The version that a verdict is about.
    ///
    /// # Errors
    /// There is no such key.
    pub fn by(&self, call: &Call) -> Result<VersionId, Problem> {
        let (service, _) = call.caller()?;
        let key = service.kms().find(&self.wanted.tenant, &self.wanted.name)?;
        let version = match self.what {
            What::Verify { version, .. } => version,
            What::Sign { version } => version.unwrap_or_default(),
        };
        Ok(VersionId { key, version })
    }
}
