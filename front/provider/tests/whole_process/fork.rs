//! A key after a fork, in the child and in the parent.

use gabion_provider_testing::libcrypto::Params;
use gabion_provider_testing::{OURS, both};

use crate::turn;

#[test]
fn a_forked_child_goes_on() {
    let _turn = turn();
    let (_place, context) = both();
    let key = context.generate("ML-DSA-44", OURS, &Params::default()).unwrap();
    let params = Params::default();
    let sign = || key.sign("ML-DSA-44", OURS, &params, b"before and after").unwrap();
    let good =
        |signature: &[u8]| key.verify("ML-DSA-44", OURS, &params, b"before and after", signature);
    let before = sign();
    // SAFETY: the child only uses the key and ends by _exit, so nothing of the parent runs twice.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: no pointer is passed.
        unsafe { libc::alarm(60) };
        let (first, second) = (sign(), sign());
        let right = good(&before) && good(&first) && first != second && first != before;
        // SAFETY: ends the child without running the parent's exit handlers.
        unsafe { libc::_exit(if right { 0 } else { 1 }) }
    }
    let after = sign();
    let mut status = 0;
    // SAFETY: a child of ours.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0, "status {status:#x}");
    assert!(good(&after) && after != before);
}
