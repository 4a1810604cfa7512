//! Each instruction set's kernels against the portable ones, where this processor has it.

mod kernels;
mod sha2;
mod sponge;

/// Turns each `fn name(k: &dyn Kernels)` into the tests `avx512::name`, `avx512_with_lanes::name`,
/// `avx512_without_sha::name`, `avx2::name` and `avx2_without_sha::name`, or `neon::name` and `neon_without_extensions::name`.
macro_rules! on_every_instruction_set {
    ($($name:ident),+ $(,)?) => {
        #[cfg(target_arch = "x86_64")]
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

        #[cfg(target_arch = "x86_64")]
        mod avx512_with_lanes {
            $(
                #[test]
                fn $name() {
                    if let Some(k) = crate::avx512::Avx512::detect() {
                        super::$name(&k.with_lanes());
                    }
                }
            )+
        }

        #[cfg(target_arch = "x86_64")]
        mod avx512_without_sha {
            $(
                #[test]
                fn $name() {
                    if let Some(k) = crate::avx512::Avx512::detect() {
                        super::$name(&k.without_sha());
                    }
                }
            )+
        }

        #[cfg(target_arch = "x86_64")]
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

        #[cfg(target_arch = "x86_64")]
        mod avx2_without_sha {
            $(
                #[test]
                fn $name() {
                    if let Some(k) = crate::avx2::Avx2::detect() {
                        super::$name(&k.without_sha());
                    }
                }
            )+
        }

        #[cfg(target_arch = "aarch64")]
        mod neon {
            $(
                #[test]
                fn $name() {
                    if let Some(k) = crate::neon::Neon::detect() {
                        super::$name(&k);
                    }
                }
            )+
        }

        #[cfg(target_arch = "aarch64")]
        mod neon_without_extensions {
            $(
                #[test]
                fn $name() {
                    if let Some(k) = crate::neon::Neon::detect() {
                        super::$name(&k.without_extensions());
                    }
                }
            )+
        }
    };
}
use on_every_instruction_set;
