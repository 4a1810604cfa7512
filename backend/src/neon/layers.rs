//! Common parts of the transforms of ML-KEM and ML-DSA: products with constants, butterflies, and
//! layers over eight registers. Both work alike on coefficients of different width, for which the
//! instructions have different names, so a macro defines this once for each.

/// Defines products with constants, butterflies and layers for vectors of one type: the type, that of
/// a coefficient, coefficients in a vector, the modulus, and the instructions.
macro_rules! layers {
    (
        $vector:ident of $lanes:literal $number:ident modulo $q:ident,
        $dup:ident $load:ident $add:ident $sub:ident $mul:ident $mls:ident $high:ident
    ) => {
        /// A constant for each coefficient, both forms.
        #[derive(Clone, Copy)]
        struct Constant {
            z: $vector,
            quotient: $vector,
        }

        /// Returns a constant with equal values for all coefficients.
        #[inline]
        #[target_feature(enable = "neon")]
        fn broadcast(Factor(z, quotient): Factor<$number>) -> Constant {
            Constant { z: $dup(z), quotient: $dup(quotient) }
        }

        #[inline]
        #[target_feature(enable = "neon")]
        fn constant([z, quotient]: &[[$number; $lanes]; 2]) -> Constant {
            // SAFETY: as many numbers as a vector has lanes, each.
            unsafe { Constant { z: $load(z.as_ptr()), quotient: $load(quotient.as_ptr()) } }
        }

        /// b z modulo q for any b: with R = 2^16 or 2^32, |result| <= (1/2 + |b| / R) q < q.
        #[inline]
        #[target_feature(enable = "neon")]
        fn multiply(b: $vector, c: Constant) -> $vector {
            let quotient = $high(b, c.quotient);
            $mls($mul(b, c.z), quotient, $dup($q))
        }

        /// A butterfly of the NTT.
        #[inline]
        #[target_feature(enable = "neon")]
        fn butterfly(a: $vector, b: $vector, c: Constant) -> ($vector, $vector) {
            let t = multiply(b, c);
            ($add(a, t), $sub(a, t))
        }

        /// A butterfly of the inverse NTT.
        #[inline]
        #[target_feature(enable = "neon")]
        fn inverse_butterfly(a: $vector, b: $vector, c: Constant) -> ($vector, $vector) {
            ($add(a, b), multiply($sub(b, a), c))
        }

        /// A layer over registers that lie `DISTANCE` apart, of eight, with its roots.
        #[inline]
        #[target_feature(enable = "neon")]
        fn layer_between<const DISTANCE: usize>(w: &mut [$vector; 8], factors: &[Factor<$number>]) {
            for (block, factor) in factors[..4 / DISTANCE].iter().enumerate() {
                let c = broadcast(*factor);
                for low in 2 * DISTANCE * block..2 * DISTANCE * block + DISTANCE {
                    (w[low], w[low + DISTANCE]) = butterfly(w[low], w[low + DISTANCE], c);
                }
            }
        }

        /// A layer within neighbours: 0 and 1 for the last length but one and the last.
        #[inline]
        #[target_feature(enable = "neon")]
        fn layer_within<const LAYER: usize>(
            w: &mut [$vector; 8],
            roots: &[Roots<$number, $lanes>; 4],
        ) {
            for (pair, roots) in w.as_chunks_mut::<2>().0.iter_mut().zip(roots) {
                let (a, b) = exchange::<LAYER>(pair[0], pair[1]);
                (pair[0], pair[1]) = butterfly(a, b, constant(&roots[LAYER]));
            }
        }

        /// A layer of the inverse over registers that lie `DISTANCE` apart, with its roots in rising
        /// order.
        #[inline]
        #[target_feature(enable = "neon")]
        fn inverse_layer_between<const DISTANCE: usize>(
            w: &mut [$vector; 8],
            factors: &[Factor<$number>],
        ) {
            for (block, factor) in factors[..4 / DISTANCE].iter().rev().enumerate() {
                let c = broadcast(*factor);
                for low in 2 * DISTANCE * block..2 * DISTANCE * block + DISTANCE {
                    (w[low], w[low + DISTANCE]) = inverse_butterfly(w[low], w[low + DISTANCE], c);
                }
            }
        }
    };
}

pub(super) use layers;
