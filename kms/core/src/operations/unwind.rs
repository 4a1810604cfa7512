//! Cleanup after panics: a panic propagates, and code that catches it finds a consistent state.

use std::thread;

/// Runs a function if it is dropped by a panic.
pub struct OnUnwind<F: FnMut()>(pub F);

impl<F: FnMut()> Drop for OnUnwind<F> {
    fn drop(&mut self) {
        if thread::panicking() {
            (self.0)();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    #[test]
    fn on_unwind_runs_only_on_panic() {
        let ran = Cell::new(0);
        drop(OnUnwind(|| ran.set(ran.get() + 1)));
        assert_eq!(ran.get(), 0);
        let cut = catch_unwind(AssertUnwindSafe(|| {
            let _noted = OnUnwind(|| ran.set(ran.get() + 1));
            panic!("planted");
        }));
        assert!(cut.is_err());
        assert_eq!(ran.get(), 1);
    }
}
