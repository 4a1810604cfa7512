//! Each instruction set's kernels against the portable ones, where this processor has it.

mod kernels;
mod sponge;

/// Turns each `fn name(k: &dyn Kernels)` into the tests `avx512::name` and `avx2::name`.
macro_rules! on_every_instruction_set {
    ($($name:ident),+ $(,)?) => {
        mod avx512 {
            $(
                #[test]
                fn $name() {
                    if let Some(k) = crate::avx512::Avx512::detect() {
                        super::$name(&k);
                    }
                }
            )+
        }

        mod avx2 {
            $(
                #[test]
                fn $name() {
                    if let Some(k) = crate::avx2::Avx2::detect() {
                        super::$name(&k);
                    }
                }
            )+
        }
    };
}
use on_every_instruction_set;
