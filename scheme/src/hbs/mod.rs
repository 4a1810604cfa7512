//! What the hash-based signatures with a state (LMS and HSS; XMSS) have in common.
//!
//! ```text
//!   digest --digits--> where each chain of a one-time signature stands
//!   bytes --Reader--> fields, never past their end
//! ```
//!
//! No file here, in [`crate::lms`] or in [`crate::xmss`] holds a state or finds an index: a caller hands it
//! over.

mod digits;
mod reader;

pub(crate) use digits::{checksum, digit};
pub(crate) use reader::Reader;
