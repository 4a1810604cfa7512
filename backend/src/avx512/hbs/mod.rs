//! Hash-based signatures with a state: layouts over the lanes of `sha2`.

pub(super) mod leaves;
pub(super) mod lms;
pub(super) mod xmss;
