//! Rows of the hybrid KEMs.

use std::cell::RefCell;
use std::hint::black_box;

use crate::check::{self, Parts};
use crate::peer::{Hybrid, HybridPair, HybridSet, Key, Operation, Peer, Result};
use crate::{KEYS, Report, preferred};
use gabion_rows::clock::Figures;
use gabion_rows::inputs;

/// Rows of a hybrid. All encapsulate to the same keys, of which one library made the pairs, and those
/// that decapsulate with encoded keys take these too. A cached key decapsulates as the pair that the
/// library made itself: not every one gives private keys out.
pub fn hybrid_rows(
    set: &'static HybridSet,
    peers: &[Box<dyn Peer>],
    report: &mut Report<'_>,
) -> Result<()> {
    let mut slots = Vec::new();
    for peer in peers {
        if let Some(hybrid) = peer.hybrid(set)? {
            slots.push((peer.identity(), hybrid));
        }
    }
    let mut parts = Parts::of(set, peers)?;
    check::hybrid(set, &mut slots, &mut parts)?;
    let composed = parts.turns();
    eprintln!("{}: {} libraries agree, and {composed} pairs of parts", set.name, slots.len());
    let Some(maker) = preferred(&slots, |hybrid| hybrid.randomness(Operation::Keygen)) else {
        return Ok(());
    };
    if report.options.check {
        return Ok(());
    }
    let inputs = HybridInputs::new(slots[maker].1.as_mut())?;
    for operation in [Operation::Keygen, Operation::Encaps, Operation::Decaps] {
        for key in [Key::Fresh, Key::Cached] {
            // A private key that nobody gave out is nobody's input.
            let has_key =
                (operation, key) != (Operation::Decaps, Key::Fresh) || inputs.has_private();
            report.rows(
                (set.name, operation, key),
                &mut slots,
                |hybrid| hybrid.randomness(operation),
                |hybrid| has_key && hybrid.does(operation, key),
                |report, _, hybrid| hybrid_round((operation, key), hybrid, &inputs, report),
            )?;
        }
    }
    Ok(())
}

/// Keys and ciphertexts that the rows of one hybrid walk through.
struct HybridInputs {
    pairs: Vec<HybridPair>,
    /// One ciphertext for each pair.
    to_each: Vec<Vec<u8>>,
}

fn seed(index: usize) -> [u8; 96] {
    inputs::bytes(51, index as u64)
}

fn message(index: usize) -> [u8; 64] {
    inputs::bytes(52, index as u64)
}

impl HybridInputs {
    fn new(maker: &mut dyn Hybrid) -> Result<HybridInputs> {
        let pairs =
            (0..KEYS).map(|index| maker.keygen(&seed(index))).collect::<Result<Vec<_>>>()?;
        let to_each = (pairs.iter().enumerate())
            .map(|(index, pair)| Ok(maker.encaps_fresh(&pair.public, &message(index))?.0))
            .collect::<Result<_>>()?;
        Ok(HybridInputs { pairs, to_each })
    }

    fn has_private(&self) -> bool {
        self.pairs.iter().all(|pair| pair.private.is_some())
    }
}

fn hybrid_round(
    (operation, key): (Operation, Key),
    hybrid: &mut dyn Hybrid,
    inputs: &HybridInputs,
    report: &mut Report<'_>,
) -> Result<Figures> {
    if (operation, key) == (Operation::Decaps, Key::Cached) {
        return decaps_cached_round(hybrid, report);
    }
    if (operation, key) == (Operation::Encaps, Key::Cached) {
        hybrid.load(&inputs.pairs[0].public)?;
    }
    report.measure(operation, |call| {
        let index = call % KEYS;
        let pair = &inputs.pairs[index];
        match (operation, key) {
            (Operation::Keygen, _) => {
                black_box(hybrid.keygen(&seed(call))?);
            }
            (Operation::Encaps, Key::Fresh) => {
                black_box(hybrid.encaps_fresh(&pair.public, &message(call))?);
            }
            (Operation::Encaps, Key::Cached) => {
                black_box(hybrid.encaps_cached(&message(call))?);
            }
            _ => {
                let private = pair.private.as_deref().unwrap_or_default();
                black_box(hybrid.decaps_fresh(private, &inputs.to_each[index])?);
            }
        }
        Ok(())
    })
}

/// Decapsulates with the library's own pair. One that is used up is made anew, and encapsulated to, before
/// each call and outside of the time.
fn decaps_cached_round(hybrid: &mut dyn Hybrid, report: &mut Report<'_>) -> Result<Figures> {
    let is_used_up = hybrid.is_used_up();
    let mut public = hybrid.keygen(&seed(0))?.public;
    let mut to_own = (0..KEYS)
        .map(|index| Ok(hybrid.encaps_fresh(&public, &message(index))?.0))
        .collect::<Result<Vec<_>>>()?;
    let state = RefCell::new((hybrid, &mut to_own));
    let plan = report.plan(Operation::Decaps);
    report.clock.measure_prepared(
        &plan,
        |call| {
            let (hybrid, to_own) = &mut *state.borrow_mut();
            if is_used_up {
                public = hybrid.keygen(&seed(call))?.public;
                to_own[call % KEYS] = hybrid.encaps_fresh(&public, &message(call))?.0;
            }
            Ok(())
        },
        |call| {
            let (hybrid, to_own) = &mut *state.borrow_mut();
            black_box(hybrid.decaps_cached(&to_own[call % KEYS])?);
            Ok(())
        },
    )
}
