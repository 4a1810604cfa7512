//! That the libraries give the same, and what each has to refuse.

use super::{Curve, derive, is_private, is_public, public_key};

const CURVES: [Curve; 4] = [Curve::X25519, Curve::P256, Curve::P384, Curve::P521];

/// A private scalar.
fn scalar(curve: Curve, number: usize) -> Vec<u8> {
    let byte = |j| (17 * number + 31 * j + 5) as u8;
    let mut scalar: Vec<u8> = (0..curve.scalar_len()).map(byte).collect();
    if curve == Curve::P521 {
        scalar[0] = 0;
    }
    scalar
}

/// The two libraries give the same, for good keys and for keys that must be refused.
#[test]
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
fn assembly_and_portable_libraries_agree() {
    use super::{assembly, portable};
    let mut compared = 0;
    for curve in CURVES {
        let len = curve.scalar_len();
        let mut private: Vec<_> = (0..20).map(|number| scalar(curve, number)).collect();
        private.extend([vec![0; len], vec![0xff; len]]);
        let mut public: Vec<_> =
            private.iter().filter_map(|key| portable::public_key(curve, key)).collect();
        let mut off = public[0].clone();
        off[len - 1] ^= 1;
        public.extend([off, vec![0; curve.public_len()], vec![0xff; curve.public_len()]]);
        for key in &private {
            let made = portable::public_key(curve, key);
            assert_eq!(is_private(curve, key), made.is_some());
            assert_eq!(public_key(curve, key), made, "{curve:?}");
            for peer in public.iter().filter(|peer| curve.is_formed(peer)) {
                let [mut a, mut b] = [vec![0; len], vec![0; len]];
                let good = portable::derive(curve, key, peer, &mut a);
                let Some(answer) = assembly::derive(curve, key, peer, &mut b) else { continue };
                assert_eq!(answer, good);
                assert_eq!(a, b, "{curve:?}");
                compared += usize::from(good);
            }
        }
        assert!(public[..20].iter().all(|key| is_public(curve, key)));
        assert!(curve == Curve::X25519 || !is_public(curve, &public[20]));
    }
    println!("{compared} secrets compared");
}

#[test]
fn small_order_and_foreign_points_are_refused() {
    let mut shared = vec![7; 32];
    for point in [[0; 32], std::array::from_fn(|j| u8::from(j == 0))] {
        assert!(!derive(Curve::X25519, &scalar(Curve::X25519, 0), &point, &mut shared));
        assert_eq!(shared, [0; 32]);
    }
    for curve in [Curve::P256, Curve::P384, Curve::P521] {
        let good = public_key(curve, &scalar(curve, 0)).unwrap();
        let compressed = [&[2 + (good.last().unwrap() & 1)][..], &good[1..=curve.scalar_len()]];
        let mut bad = good.clone();
        bad[5] ^= 1;
        for public in [&bad[..], &compressed.concat(), &[0], &good[1..]] {
            let mut shared = vec![7; curve.scalar_len()];
            assert!(!is_public(curve, public));
            assert!(!derive(curve, &scalar(curve, 1), public, &mut shared));
            assert!(shared.iter().all(|&byte| byte == 0));
        }
    }
}
