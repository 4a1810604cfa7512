//! The flows of the standards, step by step.

mod lms;
mod ml_dsa;
mod slh_dsa;
