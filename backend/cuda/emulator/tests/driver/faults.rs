//! Every call fails in turn.

use super::fake::{InjectedFault, LIBRARY, new_world, world};
use super::{LONG, batch, is_dirty};
use gabion_cuda::driver::Nvidia;
use gabion_cuda::{Device, Fault};

/// Runs everything with a trouble at one call. Whether it came, and to which function.
fn run(trouble: InjectedFault, at: usize, keeps_locks: bool) -> Option<&'static str> {
    let _alone = new_world();
    world(|world| (world.trouble, world.keeps_locks) = (Some((trouble, at)), keeps_locks));
    let came = || world(|world| world.came);
    let Ok(device) = Nvidia::over(&LIBRARY, 0) else {
        assert!(came().is_some(), "call {at}");
        world(|world| assert_eq!(world.contexts.len(), 0, "{trouble:?} at {at}"));
        return came();
    };
    device.profile(true);
    let mut faults = 0;
    for (stream, is_pinned) in [(0, false), (1, true), (0, false), (0, true)] {
        let done = batch(&device, stream, is_pinned, LONG);
        faults += usize::from(done.is_err());
        if let Err(fault) = done {
            assert_ne!(fault, Fault::TimedOut);
            assert!(came().is_some(), "call {at} did not fail");
            let restarted = device.restart();
            if restarted.is_err() {
                // The trouble came here, or the device is gone.
                let again = device.restart();
                assert_eq!(
                    again.is_ok(),
                    trouble != InjectedFault::DeviceLost,
                    "{:?} {at}",
                    came()
                );
            }
        }
    }
    assert!(
        trouble == InjectedFault::DeviceLost || faults <= 1,
        "{faults} faults of one, {:?}",
        came()
    );
    if trouble != InjectedFault::DeviceLost && came().is_some() {
        // The fault may have hit the release of pinned memory, and is then not detected yet.
        let is_well = batch(&device, 0, false, LONG).or_else(|_| device.restart());
        assert_eq!(is_well, Ok(()), "{:?} {at}", came());
        for (stream, is_pinned) in [(0, false), (1, true)] {
            assert_eq!(batch(&device, stream, is_pinned, LONG), Ok(()), "{:?} {at}", came());
        }
    }
    assert!(!is_dirty(), "{trouble:?} at {at}, {:?}", came());
    drop(device);
    world(|world| {
        assert_eq!(world.contexts.len(), 0, "{trouble:?} at {at}, {:?}", world.came);
        if !keeps_locks {
            assert_eq!(world.locked.len(), 0, "{trouble:?} at {at}, {:?}", world.came);
        }
    });
    came()
}

#[test]
fn each_call_fails_once() {
    let cases = [
        (InjectedFault::Fails, false),
        (InjectedFault::Fails, true),
        (InjectedFault::NoMemory, false),
        (InjectedFault::ContextLost, true),
        (InjectedFault::DeviceLost, false),
    ];
    for (trouble, keeps_locks) in cases {
        let mut functions = std::collections::BTreeSet::new();
        let mut at = 0;
        while let Some(function) = run(trouble, at, keeps_locks) {
            functions.insert(function);
            at += 1;
        }
        // All but the one that gives names, and the one that tells of memory.
        assert_eq!(functions.len(), 27, "{functions:?}");
    }
}
