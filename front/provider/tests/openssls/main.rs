//! Tests that run with the OpenSSL under test and again, each in a separate process, with every
//! other one in the cache (front/go/script/openssl builds them).

// A panic is how a test fails, in the helpers too.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod groups;
mod key_schedule;
mod lms;
