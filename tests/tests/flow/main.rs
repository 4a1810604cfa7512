//! The flows of the standards, step by step.

mod defects;
mod lms;
mod ml_dsa;
mod slh_dsa;
mod xmss;
