//! The queue in virtual time: the bytes decide who comes when, what fails and what is dropped.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| gabion_engine::testing_only_schedule(data));
