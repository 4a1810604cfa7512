//! The self-test of signing keys: the keys of known seeds, and their signatures.
//!
//! Key generation and signing are not batches, and they run kernels that verification does not:
//! leaves, and chains that start from their secret. A signature is verified against its tree before
//! it is released, but that does not check the randomizer C.

use gabion_scheme::kernels::Kernels;
use gabion_scheme::lms::{self, Levels, LmOts, Lms, Scratch};
use gabion_scheme::prehash::Prehash;

/// The numbers of tree and one-time signature, the root, and SHA-256 of the signature with index
/// [`INDEX`]: each hash function and length, by the sets that are made quickest. The first root is
/// BouncyCastle's; the others the portable kernels made, whose keys of these sets are those of the
/// crate hbs-lms.
const CASES: [(u32, u32, &str, &str); 4] = [
    (
        5,
        3,
        "85a05b6f00ef7ab477b466ba915790b100f9de6c406c9ee9dd662bca201246bb",
        "15eb2bc47c968315fc094a1f2086cc960218ebec6a0872ec45dc0b2f58fedc5e",
    ),
    (
        10,
        5,
        "6ca37fb026a56f40ba0b866350b6722d02b66523c4483622",
        "f3091734ad07bba599b00835dcb26f38bfbd60de50a9cd00cec127dcaab84b77",
    ),
    (
        15,
        9,
        "f57500a8779a6650bd5761b9f77cd15e6fff96b968b8536cce0b1c6a7fa78d29",
        "3cbd4f1e83419d319ac5e4ad21e39d6c98a2c611c0b2d90f6dd869bbc80687a5",
    ),
    (
        20,
        13,
        "1ecd73947596352dc3c740079376ea0959ddfeb627e120cd",
        "b9fe95c3cc7bbe8d4e11a87b6d1236de8af53b7a21265089783c63bffd96b04c",
    ),
];
/// Above which there are 4 leaves, below which 27: whole groups of lanes and a rest on either side.
const INDEX: u64 = 27;

pub(super) fn run(k: &dyn Kernels) -> Result<(), String> {
    let mut scratch = Scratch::new();
    for (tree, one_time, root, digest) in CASES {
        let sets = Lms::from_typecode(tree).zip(LmOts::from_typecode(one_time));
        let levels =
            Levels::new(&[sets.ok_or("a set is missing")?]).map_err(|error| error.to_string())?;
        // 2f, 2e, ... of n bytes, and 0f, 0e, ... 00.
        let seed: Vec<u8> = (0..levels.n() as u8).map(|at| 0x2f - at).collect();
        let id = std::array::from_fn(|at| 0x0f - at as u8);
        let made = lms::generate(k, levels, &id, &seed, &mut scratch);
        let mut key = made.map_err(|error| error.to_string())?;
        let found = hex(&key.verify_key().bytes()[28..]);
        if found != root {
            return Err(format!("key {tree}/{one_time} has the root {found}"));
        }
        let mut signature = vec![0; key.levels().signature_len()];
        key.sign(k, INDEX, &[b"self-test"], &mut signature, &mut scratch)
            .map_err(|error| error.to_string())?;
        let found = hex(&Prehash::Sha2_256.digest(&signature));
        if found != digest {
            return Err(format!("a signature of key {tree}/{one_time} has the digest {found}"));
        }
    }
    Ok(())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
