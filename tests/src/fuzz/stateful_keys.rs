//! Private keys of HSS and XMSS^MT as they are written down: secrets, rows of trees that are half made, and trees that
//! were kept.

use std::num::NonZero;
use std::ops::ControlFlow;
use std::sync::OnceLock;

use gabion_engine::keys::stateful::hss::{HssSecret, Levels};
use gabion_engine::keys::stateful::xmss::{Scheme, XmssSecret};
use gabion_engine::keys::stateful::{Progress, Secret, StatefulKey};
use gabion_engine::lms::{LM_OTS, LMS};
use gabion_engine::xmss::Set;
use gabion_engine::{Engine, Error, Message};

use super::fixtures::engine;
use super::input::Input;

/// Where the known keys stand: in the middle of a tree, the second of its level.
const INDEX: u64 = 40;
/// The message of the known signatures.
const MESSAGE: &[u8] = b"kept";

/// A key of trees 5 high, its stored trees, and its signature at [`INDEX`].
struct StoredTree<S> {
    secret: S,
    public: Vec<u8>,
    row: Vec<u8>,
    trees: Vec<u8>,
    signature: Vec<u8>,
}

impl<S: Secret> StoredTree<S> {
    fn of(secret: S) -> Self {
        let mut row = Vec::new();
        let mut watch = |progress: Progress<'_>| {
            row = progress.row.to_vec();
            ControlFlow::Continue(())
        };
        let one = NonZero::<usize>::MIN;
        let key = StatefulKey::generate(engine(), &secret, &[], one, &mut watch);
        let mut key = key.expect("it can be made").expect("nobody stops it");
        key.testing_only_sign_at(INDEX - 1, &[b"before"]).expect("a signature");
        let (public, trees) = (S::public_bytes(key.verify_key()).to_vec(), key.trees());
        let signature = key.testing_only_sign_at(INDEX, &[MESSAGE]).expect("a signature").remove(0);
        StoredTree { secret, public, row, trees, signature }
    }
}

/// Two levels.
fn of_hss() -> &'static StoredTree<HssSecret> {
    static KEPT: OnceLock<StoredTree<HssSecret>> = OnceLock::new();
    KEPT.get_or_init(|| {
        let levels = Levels::new(&[(&LMS[0], &LM_OTS[0]); 2]).expect("sets that fit each other");
        StoredTree::of(HssSecret::new(levels, [3; 16], &[5; 32]).expect("a seed of 32 bytes"))
    })
}

/// Four layers.
fn of_xmss() -> &'static StoredTree<XmssSecret> {
    static KEPT: OnceLock<StoredTree<XmssSecret>> = OnceLock::new();
    KEPT.get_or_init(|| {
        let set = Set::from_name("XMSSMT-SHA2_20/4_192").expect("a set");
        StoredTree::of(XmssSecret::new(set, &[5; 72]).expect("three seeds of 24 bytes"))
    })
}

fn generate<'e, S: Secret>(
    engine: &'e Engine,
    secret: &S,
    row: &[u8],
) -> Result<StatefulKey<'e, S>, Error> {
    let mut go_on = |_: Progress<'_>| ControlFlow::Continue(());
    let key = StatefulKey::generate(engine, secret, row, NonZero::<usize>::MIN, &mut go_on)?;
    key.ok_or(Error::Lost)
}

/// Each of the three of either scheme as it is, with a byte changed, cut short, grown, and with bytes moved.
pub fn seeds() -> Vec<Vec<u8>> {
    let edits: [&[u8]; 7] = [
        &[0],
        &[1, 0, 5, 0, 1],
        &[1, 0, 100, 1, 1],
        &[1, 3, 9, 0, 0],
        &[1, 3, 200, 4, 0],
        &[1, 4, 0, 0, 32],
        &[2, 6, 24, 0, 64, 0, 1, 1, 0, 0, 4, 9],
    ];
    (0..6u8).flat_map(|form| edits.iter().map(move |edit| [&[form], *edit].concat())).collect()
}

/// Checks that decoded secrets encode to the same bytes. Whatever the stored trees contain, a key
/// opens unchanged or not at all, and its next signature is the expected one.
pub fn run(data: &[u8]) {
    let mut input = Input::new(data);
    match input.byte() % 6 {
        0 => {
            let bytes = input.edited(&of_hss().secret.encode());
            let Ok(decoded) = HssSecret::decode(&bytes) else { return };
            assert_eq!(*decoded.encode(), bytes, "another secret came out");
            let sets = decoded.levels().sets();
            if sets.len() <= 3 && sets.iter().all(|(lms, ots)| lms.h <= 5 && ots.w <= 4) {
                signs(&decoded);
            }
        }
        1 => row(&mut input, of_hss()),
        2 => trees(&mut input, of_hss()),
        3 => {
            let bytes = input.edited(&of_xmss().secret.encode());
            for scheme in [Scheme::Xmss, Scheme::XmssMt] {
                let Ok(decoded) = XmssSecret::decode(scheme, &bytes) else { continue };
                assert_eq!(*decoded.encode(), bytes, "another secret came out");
                let set = decoded.set();
                if set.d <= 4 && set.tree_height() <= 5 {
                    signs(&decoded);
                }
            }
        }
        4 => row(&mut input, of_xmss()),
        _ => trees(&mut input, of_xmss()),
    }
}

fn row<S: Secret>(input: &mut Input<'_>, kept: &StoredTree<S>) {
    let row = input.edited(&kept.row);
    // The caller that stored the row compares the public key.
    let Ok(key) = generate(engine(), &kept.secret, &row) else { return };
    assert!(row.len() <= 32 * 32, "a row that is too long");
    let is_own = kept.row.starts_with(&row);
    let public = S::public_bytes(key.verify_key());
    assert!(!is_own || public == kept.public, "nodes of its own, another key");
}

fn trees<S: Secret>(input: &mut Input<'_>, kept: &StoredTree<S>) {
    let trees = input.edited(&kept.trees);
    let one = NonZero::<usize>::MIN;
    match StatefulKey::open(engine(), &kept.secret, &kept.public, &trees, INDEX, one) {
        Ok(mut key) => {
            let made = key.testing_only_sign_at(INDEX, &[MESSAGE]).expect("a signature");
            assert!(made[0] == kept.signature, "one index, two signatures");
        }
        Err(error) => assert!(matches!(error, Error::Input(_)), "{error}"),
    }
}

/// Keys that are fast to generate sign, and their signatures verify.
fn signs<S: Secret>(secret: &S) {
    let mut key = generate(engine(), secret, &[]).expect("a key of any seed");
    let signature = key.testing_only_sign_at(0, &[MESSAGE]).expect("a signature").remove(0);
    let public = S::public_bytes(key.verify_key());
    let public = engine().signature_public(secret.algorithm(), public);
    let message = Message::Pure { context: b"", message: MESSAGE };
    engine().verify(&public.expect("its public key"), message, &signature).expect("it verifies");
}
