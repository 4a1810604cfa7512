//! Private keys of HSS as they are written down: secrets, rows of trees that are half made, and trees that were kept.

use std::num::NonZero;
use std::ops::ControlFlow;
use std::sync::OnceLock;

use gabion_engine::keys::stateful::hss::{HssSecret, Levels, Progress, StatefulKey};
use gabion_engine::lms::{LM_OTS, LMS};
use gabion_engine::{Algorithm, Engine, Error, Message};

use super::input::Input;
use super::known::engine;

/// Where the known key stands: in the middle of a tree, the second of its level.
const INDEX: u64 = 40;
/// What the known signature signs.
const MESSAGE: &[u8] = b"kept";

/// A key of two levels, what was kept of it, and its signature at [`INDEX`].
struct Kept {
    secret: HssSecret,
    public: Vec<u8>,
    row: Vec<u8>,
    trees: Vec<u8>,
    signature: Vec<u8>,
}

fn kept() -> &'static Kept {
    static KEPT: OnceLock<Kept> = OnceLock::new();
    KEPT.get_or_init(|| {
        let levels = Levels::new(&[(&LMS[0], &LM_OTS[0]); 2]).expect("sets that fit each other");
        let secret = HssSecret::new(levels, [3; 16], &[5; 32]).expect("a seed of 32 bytes");
        let mut row = Vec::new();
        let mut watch = |progress: Progress<'_>| {
            row = progress.row.to_vec();
            ControlFlow::Continue(())
        };
        let one = NonZero::<usize>::MIN;
        let key = StatefulKey::generate(engine(), &secret, &[], one, &mut watch);
        let mut key = key.expect("it can be made").expect("nobody stops it");
        key.testing_only_sign_at(INDEX - 1, &[b"before"]).expect("a signature");
        let (public, trees) = (key.verify_key().bytes().to_vec(), key.trees());
        let signature = key.testing_only_sign_at(INDEX, &[MESSAGE]).expect("a signature").remove(0);
        Kept { secret, public, row, trees, signature }
    })
}

fn generate<'e>(
    engine: &'e Engine,
    secret: &HssSecret,
    row: &[u8],
) -> Result<StatefulKey<'e>, Error> {
    let mut go_on = |_: Progress<'_>| ControlFlow::Continue(());
    let key = StatefulKey::generate(engine, secret, row, NonZero::<usize>::MIN, &mut go_on)?;
    key.ok_or(Error::Lost)
}

/// Each of the three as it is, with a byte changed, cut short, grown, and with bytes moved.
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
    (0..3u8).flat_map(|form| edits.iter().map(move |edit| [&[form], *edit].concat())).collect()
}

/// What is decoded encodes to the same bytes. Whatever is kept of trees, a key opens as it was or not at all, and its next
/// signature is the one that it would have made.
pub fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let Kept { secret, public, row, trees, signature } = kept();
    match input.byte() % 3 {
        0 => {
            let bytes = input.edited(&secret.encode());
            let Ok(decoded) = HssSecret::decode(&bytes) else { return };
            assert_eq!(*decoded.encode(), bytes, "another secret came out");
            signs(&decoded);
        }
        1 => {
            let row = input.edited(row);
            // Whoever wrote the row down compares the public key.
            let Ok(key) = generate(engine(), secret, &row) else { return };
            assert!(row.len() <= 32 * 32, "a row that is too long");
            let own = kept().row.starts_with(&row);
            assert!(!own || key.verify_key().bytes() == public, "nodes of its own, another key");
        }
        _ => {
            let trees = input.edited(trees);
            let one = NonZero::<usize>::MIN;
            let opened = StatefulKey::open(engine(), secret, public, &trees, INDEX, one);
            match opened {
                Ok(mut key) => {
                    let made = key.testing_only_sign_at(INDEX, &[MESSAGE]).expect("a signature");
                    assert!(made[0] == *signature, "one index, two signatures");
                }
                Err(error) => assert!(matches!(error, Error::Input(_)), "{error}"),
            }
        }
    }
}

/// Keys that are quickly made sign, and what they sign verifies.
fn signs(secret: &HssSecret) {
    let levels = secret.levels();
    if levels.sets().iter().any(|(lms, ots)| lms.h > 5 || ots.w > 4) || levels.sets().len() > 3 {
        return;
    }
    let mut key = generate(engine(), secret, &[]).expect("a key of any seed");
    let signature = key.testing_only_sign_at(0, &[MESSAGE]).expect("a signature").remove(0);
    let public = engine().signature_public(Algorithm::Hss, key.verify_key().bytes());
    let message = Message::Pure { context: b"", message: MESSAGE };
    engine().verify(&public.expect("its public key"), message, &signature).expect("it verifies");
}
