//! Private keys of HSS: made on several threads and in pieces, used up by signing, closed and opened again.

use std::num::NonZero;
use std::ops::ControlFlow;

use gabion_engine::keys::stateful::hss::{
    HssSecret, Levels, Progress, StatefulKey, draw_sectors, generate_sectors,
};
use gabion_engine::keys::stateful::{
    IndexedSigner, Ledger, LedgerError, Request, sign_requests, testing_only_ledger,
};
use gabion_engine::lms::{LM_OTS, LMS};
use gabion_engine::{Algorithm, Engine, Error, Message, OsEntropy};

/// Trees 5 high with W1, so many.
fn levels(count: usize) -> Levels {
    Levels::new(&vec![(&LMS[0], &LM_OTS[0]); count]).unwrap()
}

fn threads(count: usize) -> NonZero<usize> {
    NonZero::new(count).unwrap()
}

fn go_on(_: Progress<'_>) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

fn made<'e>(engine: &'e Engine, secret: &HssSecret, count: usize) -> StatefulKey<'e> {
    StatefulKey::generate(engine, secret, &[], threads(count), &mut go_on).unwrap().unwrap()
}

fn check(engine: &Engine, key: &StatefulKey<'_>, message: &[u8], signature: &[u8]) {
    let public = engine.signature_public(Algorithm::Hss, key.verify_key().bytes()).unwrap();
    engine.verify(&public, Message::Pure { context: &[], message }, signature).unwrap();
}

/// A key is the same on any number of threads, and where it was stopped in the middle and gone on with from what was
/// written down.
#[test]
fn keys_are_the_same_on_any_threads_and_in_pieces() {
    let engine = Engine::global().unwrap();
    let high = Levels::new(&[(&LMS[1], &LM_OTS[0])]).unwrap();
    let secret = HssSecret::draw(high, &OsEntropy).unwrap();
    let one = made(engine, &secret, 1);
    assert_eq!(one.verify_key(), made(engine, &secret, 3).verify_key());
    let mut written = Vec::new();
    let mut stop = |progress: Progress<'_>| {
        written = progress.row.to_vec();
        assert_eq!(progress.all, 1024);
        if progress.done > 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let stopped = StatefulKey::generate(engine, &secret, &[], threads(1), &mut stop).unwrap();
    assert!(stopped.is_none());
    assert!((1..1024).contains(&(written.len() / 32)), "{} bytes", written.len());
    let mut first = None;
    let mut watch = |progress: Progress<'_>| {
        first.get_or_insert(progress.done);
        ControlFlow::Continue(())
    };
    let rest = StatefulKey::generate(engine, &secret, &written, threads(2), &mut watch).unwrap();
    assert_eq!(rest.unwrap().verify_key(), one.verify_key());
    assert_eq!(first, Some(written.len() as u32 / 32), "what is done is not done again");
    for row in [&written[1..], &[0; 32 * 1025][..]] {
        assert!(StatefulKey::generate(engine, &secret, row, threads(1), &mut go_on).is_err());
    }
}

/// Signed with a ledger's indexes up to the last, over borders between trees, in batches and one by one; then an
/// error each time, and nothing changes (cisco/hash-sigs issue 26, botan PR 5382).
#[test]
fn a_ledger_uses_a_key_up() {
    let engine = Engine::global().unwrap();
    let secret = HssSecret::draw(levels(2), &OsEntropy).unwrap();
    let mut key = made(engine, &secret, 2);
    let ledger = testing_only_ledger(key.signatures());
    let mut next = 0;
    for count in [1, 30, 70, 1, 900, 22] {
        let texts: Vec<_> = (0..count).map(|i| format!("message {}", next + i)).collect();
        let requests: Vec<_> =
            texts.iter().map(|text| Request { message: text.as_bytes(), id: None }).collect();
        let signed = sign_requests(&ledger, &mut key, &requests).unwrap();
        for (at, (signed, text)) in signed.iter().zip(&texts).enumerate() {
            assert_eq!(signed.index, next + at as u64);
            if at % 29 == 0 {
                check(engine, &key, text.as_bytes(), &signed.signature);
            }
        }
        next += count;
    }
    assert_eq!(next, 1024);
    for _ in 0..2 {
        let ended = sign_requests(&ledger, &mut key, &[Request { message: b"more", id: None }]);
        let used_up = LedgerError::Exhausted { wanted: 1, left: 0 };
        assert_eq!(ended.unwrap_err(), Error::Ledger(used_up));
    }
}

/// There must be as many messages as indexes, and no index beyond the key's last one, even if a
/// ledger allows it.
#[test]
fn indexes_have_to_fit() {
    let engine = Engine::global().unwrap();
    let secret = HssSecret::draw(levels(1), &OsEntropy).unwrap();
    let mut key = made(engine, &secret, 1);
    let ledger = testing_only_ledger(100);
    let mut reservation = ledger.reserve(100).unwrap();
    let two = reservation.take(2).unwrap();
    assert_eq!(key.sign_indexed(two, &[b"one"]), Err(Error::Lost));
    let many = reservation.take(40).unwrap();
    assert!(key.sign_indexed(many, &[&b"m"[..]; 40]).is_err());
    let beyond = reservation.take(1).unwrap();
    assert_eq!(beyond.first(), 42);
    assert!(key.sign_indexed(beyond, &[b"beyond"]).is_err());
    check(engine, &key, b"within", &key_at(&mut made(engine, &secret, 1), 31, b"within"));
}

fn key_at(key: &mut StatefulKey<'_>, index: u64, message: &[u8]) -> Vec<u8> {
    key.testing_only_sign_at(index, &[message]).unwrap().pop().unwrap()
}

/// A key that was closed and reopened signs the same signatures, with its trees, with older ones,
/// without trees, and with altered ones; it never opens under another public key (bc-java issue
/// 2414).
#[test]
fn keys_open_again() {
    let engine = Engine::global().unwrap();
    let secret = HssSecret::draw(levels(3), &OsEntropy).unwrap();
    let mut key = made(engine, &secret, 1);
    let public = key.verify_key().bytes().to_vec();
    let early = key.trees();
    key_at(&mut key, 1030, b"before");
    let trees = key.trees();
    let expected = key_at(&mut key, 1031, b"after");
    check(engine, &key, b"after", &expected);
    let open = |secret: &HssSecret, public: &[u8], trees: &[u8], index| {
        StatefulKey::open(engine, secret, public, trees, index, threads(2))
    };
    for trees in [&trees[..], &early, &[], &trees[..trees.len() - 1], &trees[..3], &[0xff; 24]] {
        let mut again = open(&secret, &public, trees, 1031).unwrap();
        assert!(key_at(&mut again, 1031, b"after") == expected, "{} bytes", trees.len());
    }
    let again = open(&secret, &public, &trees, 1031).unwrap();
    assert!(again.trees() == trees, "all of it is taken");
    // Of the row of the top tree, whose root is compared.
    let mut wrong = trees.clone();
    wrong[24 + 40] ^= 1;
    assert!(open(&secret, &public, &wrong, 1031).is_err());
    let other = HssSecret::draw(levels(3), &OsEntropy).unwrap();
    assert!(open(&other, &public, &[], 0).is_err());
    assert!(open(&secret, &public, &trees, 1 << 15).is_err(), "there is no such index");
}

/// The form of key files.
#[test]
fn secrets_have_one_form() {
    let sets = [(&LMS[6], &LM_OTS[5]), (&LMS[5], &LM_OTS[6])];
    let secret = HssSecret::draw(Levels::new(&sets).unwrap(), &OsEntropy).unwrap();
    let bytes = secret.encode();
    assert_eq!(bytes.len(), 4 + 16 + 24 + 16);
    let again = HssSecret::decode(&bytes).unwrap();
    assert!(*again.encode() == *bytes && again.levels() == secret.levels());
    assert!(!format!("{secret:?}").contains("seed"));
    for len in 0..bytes.len() {
        assert!(HssSecret::decode(&bytes[..len]).is_err(), "{len} bytes");
    }
    assert!(HssSecret::decode(&[&bytes[..], &[0]].concat()).is_err());
    for (at, value) in [(0, 1), (3, 0), (3, 1), (3, 9), (7, 0), (11, 3), (15, 5)] {
        let mut wrong = bytes.to_vec();
        wrong[at] = value;
        assert!(HssSecret::decode(&wrong).is_err(), "byte {at} is {value}");
    }
}

/// Sectors of a tree sign with indexes of their own alone, all under one public key; also where trees are not kept whole.
#[test]
fn sectors_share_a_public_key_and_no_index() {
    let engine = Engine::global().unwrap();
    for keep in [16, 1, 2] {
        let levels = Levels::new(&[(&LMS[0], &LM_OTS[2])]).unwrap().with_whole_levels(keep);
        let secrets = draw_sectors(&levels, 4, &OsEntropy, Vec::new()).unwrap();
        let made = sectors(engine, &secrets, 2, &mut |_| ControlFlow::Continue(()));
        let made = made.unwrap().unwrap();
        let public = made[0].1.verify_key().bytes().to_vec();
        let mut seeds = Vec::new();
        let ways: Vec<Vec<u8>> =
            made.iter().map(|(secret, _)| secret.levels().way().to_vec()).collect();
        for (at, (secret, mut key)) in (0..).zip(made) {
            assert_eq!(key.verify_key().bytes(), public);
            let first = 8 * at;
            for index in first..first + 8 {
                let message = [index as u8];
                let signed = key.testing_only_sign_at(index, &[&message]).unwrap();
                check(engine, &key, &message, &signed[0]);
                assert_eq!(signed[0][4..8], (index as u32).to_be_bytes());
            }
            let together = key.testing_only_sign_at(first + 5, &[b"x", b"y", b"z"]).unwrap();
            together.iter().zip([b"x", b"y", b"z"]).for_each(|(s, m)| check(engine, &key, m, s));
            for (outside, count) in [(first.wrapping_sub(1), 1), (first + 8, 1), (first + 7, 2)] {
                let messages = &[&b"x"[..]; 2][..count];
                assert!(key.testing_only_sign_at(outside, messages).is_err(), "{at}: {outside}");
            }
            // Opened anew, with what is kept and without it.
            let encoded = secret.encode();
            let again = |number: u32, way: &[u8]| {
                let sector = levels.clone().sector(4, number, way).unwrap();
                HssSecret::decode(&encoded).unwrap().in_sector(sector).unwrap()
            };
            let own = again(at as u32, &ways[at as usize]);
            for trees in [key.trees(), Vec::new()] {
                let opened =
                    StatefulKey::open(engine, &own, &public, &trees, first + 3, threads(1));
                let mut opened = opened.unwrap();
                let signed = opened.testing_only_sign_at(first + 3, &[b"y"]).unwrap();
                check(engine, &opened, b"y", &signed[0]);
            }
            // As another sector, or with another's way up, it is no key.
            let other = (at as u32 + 1) % 4;
            for (number, way) in [(other, at as u32), (other, other), (at as u32, other)] {
                let wrong = again(number, &ways[way as usize]);
                let refused = StatefulKey::open(
                    engine,
                    &wrong,
                    &public,
                    &[],
                    8 * u64::from(number),
                    threads(1),
                );
                assert!(matches!(refused, Err(Error::Input(_))), "{number}, {way}: {refused:?}");
            }
            let unjoined = again(at as u32, &[]);
            assert!(StatefulKey::open(engine, &unjoined, &public, &[], first, threads(1)).is_err());
            seeds.push(encoded[12..44].to_vec());
        }
        seeds.sort();
        seeds.dedup();
        assert_eq!(seeds.len(), 4, "each sector has a seed of its own");
    }
}

#[test]
fn sectors_that_are_stopped_or_are_none_make_no_key() {
    let engine = Engine::global().unwrap();
    let one = Levels::new(&[(&LMS[0], &LM_OTS[2])]).unwrap();
    let mut waves = 0;
    let mut stop = |_: usize| {
        waves += 1;
        if waves == 6 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let secrets = draw_sectors(&one, 4, &OsEntropy, Vec::new()).unwrap();
    let stopped = sectors(engine, &secrets, 1, &mut stop).unwrap();
    assert!(stopped.is_none() && waves == 6);
    for (levels, count) in
        [(one.clone(), 3), (one.clone(), 32), (one.clone(), u32::MAX), (levels(2), 2)]
    {
        let drawn = draw_sectors(&levels, count, &OsEntropy, Vec::new());
        assert!(matches!(drawn, Err(Error::Input(_))), "{count}");
    }
    // Sectors of two keys, and a row too few.
    let mut known: Vec<_> = secrets.into_iter().map(Some).collect();
    let others = draw_sectors(&one, 4, &OsEntropy, Vec::new()).unwrap();
    known[2] = others.into_iter().nth(2);
    assert!(draw_sectors(&one, 4, &OsEntropy, known).is_err());
    let secrets = draw_sectors(&one, 4, &OsEntropy, Vec::new()).unwrap();
    let rows = vec![Vec::new(); 3];
    let mut go_on = |_: usize, _: Progress<'_>| ControlFlow::Continue(());
    assert!(generate_sectors(engine, &secrets, rows, threads(1), &mut go_on).is_err());
}

type MadeSectors = Option<Vec<(HssSecret, StatefulKey<'static>)>>;

/// Makes all sectors from their beginning.
fn sectors(
    engine: &'static Engine,
    secrets: &[HssSecret],
    count: usize,
    watch: &mut dyn FnMut(usize) -> ControlFlow<()>,
) -> Result<MadeSectors, Error> {
    let mut watch = |number: usize, _: Progress<'_>| watch(number);
    let rows = vec![Vec::new(); secrets.len()];
    generate_sectors(engine, secrets, rows, threads(count), &mut watch)
}

/// Secrets that were drawn stay, and completed work is not repeated: the public key equals that of
/// an uninterrupted run.
#[test]
fn sectors_go_on_from_what_was_done() {
    let engine = Engine::global().unwrap();
    let levels = Levels::new(&[(&LMS[0], &LM_OTS[2])]).unwrap();
    let secrets = draw_sectors(&levels, 4, &OsEntropy, Vec::new()).unwrap();
    let mut rows = vec![Vec::new(); 4];
    let mut keep = |number: usize, progress: Progress<'_>| {
        rows[number] = progress.row.to_vec();
        match (number, progress.done) {
            (2, 1..) => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        }
    };
    let begun = vec![Vec::new(); 4];
    let stopped = generate_sectors(engine, &secrets, begun, threads(1), &mut keep).unwrap();
    assert!(stopped.is_none() && rows[1].len() == 8 * 32 && !rows[2].is_empty());
    let whole = sectors(engine, &secrets, 1, &mut |_| ControlFlow::Continue(())).unwrap().unwrap();
    let known = secrets.into_iter().map(Some).take(3).collect();
    let again = draw_sectors(&levels, 4, &OsEntropy, known).unwrap();
    let mut first = Vec::new();
    let mut watch = |number: usize, progress: Progress<'_>| {
        first.push((number, progress.done));
        ControlFlow::Continue(())
    };
    let made = generate_sectors(engine, &again, rows, threads(1), &mut watch).unwrap().unwrap();
    assert!(first.starts_with(&[(0, 8), (1, 8)]) && first[2].0 == 2 && first[2].1 > 0, "{first:?}");
    // The last one is another, and so is the tree.
    let publics = [&whole, &made].map(|made| made[0].1.verify_key().bytes().to_vec());
    assert_ne!(publics[0], publics[1]);
    assert_eq!(publics[0][..28], publics[1][..28], "I is the same");
    assert_eq!(whole[0].0.encode(), made[0].0.encode());
}
