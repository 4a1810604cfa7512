//! What the cross-station tests share.
//!
//! - [`der`]: what certificates and keys of others are wrapped in.
//! - [`fuzz`]: what is fuzzed, as functions of bytes.
//! - [`probe`]: kernels that count, widen or hinder others.
//! - [`stopwatch`]: kernels that measure others, for the floors in docs/performance.md.
//! - [`vectors`]: where published test vectors are found and how they are read.
//! - [`on_every_backend!`]: one `#[test]` per instruction set from one generic function.

pub mod der;
pub mod fuzz;
pub mod probe;
pub mod stopwatch;
pub mod vectors;

/// Turns each `fn name<K: Kernels>(kernels: &K)` into the tests `portable::name`, `avx2::name` and
/// `avx512::name`. On a machine without an instruction set its tests say so and pass.
#[macro_export]
macro_rules! on_every_backend {
    ($($name:ident),+ $(,)?) => {
        mod portable {
            $(
                #[test]
            fn $name() {
                    super::$name(&gabion_backend::portable::Portable);
                }
            )+
        }

        #[cfg(target_arch = "x86_64")]
        mod avx2 {
            $(
                #[test]
            fn $name() {
                    match gabion_backend::avx2::Avx2::detect() {
                        Some(kernels) => super::$name(&kernels),
                        None => eprintln!("this processor has no AVX2: nothing tested"),
                    }
                }
            )+
        }

        #[cfg(target_arch = "x86_64")]
        mod avx512 {
            $(
                #[test]
            fn $name() {
                    match gabion_backend::avx512::Avx512::detect() {
                        Some(kernels) => super::$name(&kernels),
                        None => eprintln!("this processor has no AVX-512: nothing tested"),
                    }
                }
            )+
        }
    };
}
