//! Every fuzzing target over its seeds, over edits of them that are the same in every run, and over
//! the inputs that once showed a defect: what `script/fuzz` begins with, without libFuzzer.

#![allow(clippy::expect_used, clippy::unwrap_used)] // A panic is how a test fails.

use gabion_tests::fuzz::{TARGETS, regressions};

/// Edited inputs of each target; GABION_SOAK raises the number.
const EDITED: usize = 100;

/// xorshift64*.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % n
    }
}

fn edited() -> usize {
    std::env::var("GABION_SOAK").ok().and_then(|n| n.parse().ok()).unwrap_or(EDITED)
}

/// One or a few changes of a seed, or two seeds in one.
fn edit(seeds: &[Vec<u8>], dice: &mut Dice) -> Vec<u8> {
    let mut data = seeds[dice.below(seeds.len())].clone();
    for _ in 0..=dice.below(4) {
        let at = dice.below(data.len() + 1);
        match dice.below(5) {
            0 => data.truncate(at),
            1 => data.insert(at, dice.below(256) as u8),
            2 => data.extend_from_slice(&seeds[dice.below(seeds.len())]),
            _ => {
                if let Some(byte) = data.get_mut(at) {
                    *byte ^= 1 << dice.below(8);
                }
            }
        }
    }
    data
}

fn replay(name: &str) {
    let target = TARGETS.iter().find(|target| target.name == name).unwrap();
    let seeds = (target.seeds)();
    assert!(seeds.len() > 5, "{} seeds", seeds.len());
    for (name, bytes) in regressions(target.name).unwrap() {
        eprintln!("regression {name}");
        (target.run)(&bytes);
    }
    seeds.iter().for_each(|seed| (target.run)(seed));
    let mut dice = Dice(0x9e37_79b9_7f4a_7c15);
    for _ in 0..edited() {
        let data = edit(&seeds, &mut dice);
        // A failure prints the input, to be kept under tests/regressions.
        let outcome = std::panic::catch_unwind(|| (target.run)(&data));
        if let Err(panic) = outcome {
            eprintln!("{name}: input {data:02x?}");
            std::panic::resume_unwind(panic);
        }
    }
}

macro_rules! replays {
    ($($name:ident),+ $(,)?) => {
        $(
            #[test]
            fn $name() {
                replay(stringify!($name));
            }
        )+

        #[test]
        fn every_target_is_replayed_and_has_a_program() {
            let names: Vec<_> = TARGETS.iter().map(|target| target.name).collect();
            assert_eq!(names, [$(stringify!($name)),+]);
            let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz");
            let manifest = std::fs::read_to_string(folder.join("Cargo.toml")).unwrap();
            for name in names {
                let program = folder.join(format!("fuzz_targets/{name}.rs"));
                let program = std::fs::read_to_string(program).unwrap();
                assert!(program.contains(&format!("fuzz::run(\"{name}\", data)")), "{name}");
                assert!(manifest.contains(&format!("name = \"{name}\"")), "{name}");
            }
        }
    };
}

replays!(
    acvp,
    c_interface,
    ciphertexts,
    inventory,
    key_files,
    kms_backups,
    kms_requests,
    kms_texts,
    kms_wrapped,
    private_keys,
    probe_ssh,
    probe_tls,
    provider_keys,
    public_keys,
    queue,
    signatures,
    stateful_keys
);
