//! Vault's Transit: the same keys by other paths, fields and names.
//!
//! Fields that Vault's and OpenBao's pages list are known. What is asked for by one and can't be done is `unsupported`, and
//! not passed over in silence; what is not known is refused by name.

mod keys;
mod names;
mod signatures;

pub use keys::{LIST, config, create, list, list_by_get, read, rotate};
pub use signatures::{sign, verify};

use gabion_kms::model::Label;
use gabion_kms_client::transit::{Flag, Number};
use serde_json::Value;

use super::{Call, TENANT, Wanted};
use crate::problem::Problem;

/// The key that the path names. Its name may stand in the body too, if it is the same.
fn wanted(call: &Call, in_body: Option<&str>) -> Result<Wanted, Problem> {
    let name = call.key();
    if in_body.is_some_and(|other| other != name) {
        return Err(Problem::bad("`name` is another one than that in the path"));
    }
    Ok(Wanted { tenant: tenant(call)?, name: Label::new("key", name)? })
}

fn tenant(call: &Call) -> Result<Label, Problem> {
    Ok(Label::new("tenant", call.namespace.as_deref().unwrap_or(TENANT))?)
}

/// Fields that may be there, if they ask for nothing.
struct Unsupported<'a>(&'a str);

impl Unsupported<'_> {
    fn refuse(&self) -> Problem {
        Problem::unsupported(format!("`{}` is not supported", self.0))
    }

    fn text(&self, value: Option<&str>) -> Result<(), Problem> {
        if value.unwrap_or_default().is_empty() { Ok(()) } else { Err(self.refuse()) }
    }

    fn flag(&self, value: Option<Flag>) -> Result<(), Problem> {
        if value.is_some_and(|flag| flag.0) { Err(self.refuse()) } else { Ok(()) }
    }

    fn number(&self, value: Option<Number>) -> Result<(), Problem> {
        if value.is_some_and(|number| number.0 != 0) { Err(self.refuse()) } else { Ok(()) }
    }

    /// A time: 0 in one of the ways that Vault takes.
    fn time(&self, value: Option<&Value>) -> Result<(), Problem> {
        let is_none = |value: &Value| match value {
            Value::Null => true,
            Value::Number(number) => number.as_f64() == Some(0.0),
            Value::String(text) => {
                matches!(text.trim_end_matches(['s', 'm', 'h', 'd']), "" | "0")
            }
            Value::Bool(_) | Value::Array(_) | Value::Object(_) => false,
        };
        if value.is_none_or(is_none) { Ok(()) } else { Err(self.refuse()) }
    }
}

/// A version: none where it is 0 or not named.
fn version(number: Option<Number>) -> Result<Option<u32>, Problem> {
    let Some(Number(number)) = number else { return Ok(None) };
    let version = u32::try_from(number);
    let version = version.map_err(|_| Problem::bad(format!("{number} is no version")))?;
    Ok(Some(version).filter(|&version| version != 0))
}

/// What is not there is a bad request, where the path is that of an operation.
fn of_operation(problem: Problem) -> Problem {
    if problem.status == 404 { Problem { status: 400, ..problem } } else { problem }
}
