//! The queue in virtual time: the input bytes choose the order of arrivals, the failures and the
//! dropped jobs.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| gabion_engine::testing_only_schedule(data));
