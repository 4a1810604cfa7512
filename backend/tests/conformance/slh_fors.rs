//! Subtrees of FORS against fors_node (FIPS 205, Algorithm 15), written out as the recursion it is.

use std::panic::{AssertUnwindSafe, catch_unwind};

use gabion_scheme::kernels::Kernels;
use gabion_scheme::kernels::slh::{SlhAddress, SlhContext, SlhFamily};
use gabion_scheme::kernels::slh_fors::{FORS_HEIGHT_MAX, SlhForsTree};

use super::reference::Rng;
use super::slh::{FAMILIES, GUARD, SIZES, tweak};

/// Runs every check of this file.
pub fn check(k: &dyn Kernels) {
    for family in FAMILIES {
        for n in SIZES {
            check_counts(k, family, n);
            check_heights(k, family, n);
            check_misuse(k, family, n);
        }
    }
}

/// One subtree: which key, where, and the leaf whose path is wanted.
struct Case {
    context: SlhContext,
    address: SlhAddress,
    sk_seed: Vec<u8>,
    first: u32,
    leaf: Option<u32>,
}

impl Case {
    fn new(rng: &mut Rng, family: SlhFamily, n: usize, height: u32) -> Self {
        let mut address = SlhAddress([0; 32]);
        address.0[..24].copy_from_slice(&rng.bytes(24));
        address.0[16..20].copy_from_slice(&[0, 0, 0, 3]);
        Case {
            context: SlhContext::new(family, &rng.bytes(n)),
            address,
            sk_seed: rng.bytes(n),
            // Up to the largest that is allowed; at times the least.
            first: if rng.below(4) == 0 {
                0
            } else {
                (rng.below(1 << 31) as u32) >> height << height
            },
            leaf: (rng.below(3) > 0).then(|| rng.below(1 << height) as u32),
        }
    }

    /// fors_node (Algorithm 15).
    fn node(&self, level: u32, index: u32) -> Vec<u8> {
        let (family, n) = (self.context.family, self.context.n);
        let mut address = self.address.0;
        address[24..28].copy_from_slice(&level.to_be_bytes());
        address[28..].copy_from_slice(&index.to_be_bytes());
        let hash = |address: &[u8; 32], message: &[u8]| {
            tweak(family, n, &self.context.pk_seed[..n], address, message, level > 0)
        };
        if level > 0 {
            let children = [2 * index, 2 * index + 1].map(|child| self.node(level - 1, child));
            return hash(&address, &children.concat());
        }
        let mut secret = address;
        secret[19] = 6;
        hash(&address, &hash(&secret, &self.sk_seed))
    }
}

/// Runs the cases in one call and compares; outputs lie side by side with guards between them.
fn run(k: &dyn Kernels, (n, height): (usize, u32), cases: &[Case]) {
    let path_len = height as usize * n;
    let stride = path_len + n + 2 * GUARD;
    let mut buffer = vec![0xa5u8; cases.len() * stride + GUARD];
    let places = buffer[GUARD..].chunks_exact_mut(stride);
    let mut jobs: Vec<_> = (cases.iter().zip(places))
        .map(|(case, place)| {
            let (path, rest) = place.split_at_mut(path_len);
            SlhForsTree {
                context: &case.context,
                sk_seed: &case.sk_seed,
                address: case.address,
                first: case.first,
                height,
                leaf: case.leaf.unwrap_or_default(),
                path: if case.leaf.is_some() { path } else { &mut [] },
                root: &mut rest[GUARD..GUARD + n],
            }
        })
        .collect();
    k.slh_fors_many(&mut jobs);
    drop(jobs);
    assert!(buffer[..GUARD].iter().all(|&byte| byte == 0xa5), "wrote before the first path");
    for (i, (case, place)) in cases.iter().zip(buffer[GUARD..].chunks_exact(stride)).enumerate() {
        let what = format!(
            "{:?}, n {n}, height {height}, subtree {i} of {}",
            case.context.family,
            cases.len()
        );
        let (path, rest) = place.split_at(path_len);
        let mut want = vec![0xa5; path_len];
        if let Some(leaf) = case.leaf {
            for (level, node) in (0..).zip(want.chunks_exact_mut(n)) {
                node.copy_from_slice(
                    &case.node(level, (case.first >> level) + (leaf >> level ^ 1)),
                );
            }
        }
        assert_eq!(path, want, "path: {what}");
        assert_eq!(rest[GUARD..][..n], case.node(height, case.first >> height), "root: {what}");
        let guards = rest[..GUARD].iter().chain(&rest[GUARD + n..]);
        assert!(guards.copied().all(|byte| byte == 0xa5), "wrote beside an output: {what}");
    }
}

/// Calls of 0 to 20 subtrees and of more than two groups of lanes.
fn check_counts(k: &dyn Kernels, family: SlhFamily, n: usize) {
    let mut rng = Rng::new(8);
    for count in (0..=20).chain([33, 40]) {
        let cases: Vec<_> = (0..count).map(|_| Case::new(&mut rng, family, n, 2)).collect();
        run(k, (n, 2), &cases);
    }
}

/// Every height that there is, the highest for one subtree, since the definition is slow.
fn check_heights(k: &dyn Kernels, family: SlhFamily, n: usize) {
    let mut rng = Rng::new(9);
    for height in 0..=FORS_HEIGHT_MAX {
        let count = if height > 5 { 1 } else { 17 };
        let cases: Vec<_> = (0..count).map(|_| Case::new(&mut rng, family, n, height)).collect();
        run(k, (n, height), &cases);
    }
    // The last leaf there is, and its path.
    let last = Case { first: (1 << 31) - 8, leaf: Some(7), ..Case::new(&mut rng, family, n, 3) };
    run(k, (n, 3), &[last]);
}

/// The fields of a subtree; of outputs, how many bytes they have.
#[derive(Clone, Copy)]
struct Fields<'a> {
    context: &'a SlhContext,
    address: SlhAddress,
    sk_seed: &'a [u8],
    first: u32,
    height: u32,
    leaf: u32,
    path: usize,
    root: usize,
}

/// Checks that mismatched inputs panic before anything is written.
fn check_misuse(k: &dyn Kernels, family: SlhFamily, n: usize) {
    let mut rng = Rng::new(10);
    let (good, other) = (Case::new(&mut rng, family, n, 3), Case::new(&mut rng, family, n, 3));
    let other_n = SlhContext::new(family, &rng.bytes(if n == 16 { 24 } else { 16 }));
    let mut with_height = other.address;
    with_height.0[27] = 1;
    let of_wots = other.address.with_type(0);
    let short = vec![0; n - 1];
    let right = Fields {
        context: &other.context,
        address: other.address,
        sk_seed: &other.sk_seed,
        first: 8,
        height: 3,
        leaf: 2,
        path: 3 * n,
        root: n,
    };
    let bad = [
        Fields { context: &other_n, ..right },
        Fields { address: with_height, ..right },
        Fields { address: of_wots, ..right },
        Fields { sk_seed: &short, ..right },
        Fields { first: 4, ..right },
        Fields { first: 1 << 31, ..right },
        Fields { height: 2, ..right },
        Fields { height: FORS_HEIGHT_MAX + 1, ..right },
        Fields { leaf: 8, ..right },
        Fields { path: 2 * n, ..right },
        Fields { root: n + 1, ..right },
    ];
    for (i, bad) in [right].into_iter().chain(bad).enumerate() {
        let [mut first, mut path, mut root] = [n, bad.path, bad.root].map(|len| vec![0xa5u8; len]);
        let call = AssertUnwindSafe(|| {
            let one = SlhForsTree {
                context: &good.context,
                sk_seed: &good.sk_seed,
                address: good.address,
                first: good.first,
                height: 3,
                leaf: 0,
                path: &mut [],
                root: &mut first,
            };
            let Fields { context, address, sk_seed, first, height, leaf, .. } = bad;
            let (path, root) = (&mut path[..], &mut root[..]);
            let two = SlhForsTree { context, sk_seed, address, first, height, leaf, path, root };
            k.slh_fors_many(&mut [one, two]);
        });
        assert_eq!(catch_unwind(call).is_ok(), i == 0, "misuse {i} of subtrees");
        if i > 0 {
            let written = first.iter().chain(&path).chain(&root).any(|&byte| byte != 0xa5);
            assert!(!written, "a refused call wrote something");
        }
    }
}
