//! The processing of one request, from its head to its response.

pub mod coalesce;
pub mod headers;
pub mod openapi;
mod pending_caller;
mod request;
pub mod routes;
pub mod upload;

pub use request::{RequestContext, answer_with_fields};
