//! One request, from its head to its answer.

pub mod coalesce;
pub mod headers;
pub mod openapi;
mod pending_caller;
mod request;
pub mod routes;
pub mod upload;

pub use request::{RequestContext, answer_with_fields};
