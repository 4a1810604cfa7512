#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| gabion_tests::fuzz::run("inventory", data));
