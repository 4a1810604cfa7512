//! Parts of a request, parsed: body, JSON, query, trace context.

pub mod body;
pub mod json;
pub mod query;
pub mod trace;
