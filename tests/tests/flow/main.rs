//! The flows of the standards, step by step.

mod ml_dsa;
mod slh_dsa;
