//! The self-test of XMSS and XMSS^MT: signatures of keys of which one leaf of each tree is known.
//!
//! Any secrets and any path lead to some root, so that a key of every set stands here as its root
//! alone, and signs by portable code. The roots were made by a program of RFC 8391's algorithms
//! over Python's hashlib.

use gabion_backend::portable::Portable;
use gabion_backend::{Backend, Batch, Operation, Xmss};
use gabion_scheme::Status;
use gabion_scheme::kernels::Kernels;
use gabion_scheme::kernels::xmss::{
    XmssAddress, XmssContext, XmssSecret, XmssSecretSeed, address_type,
};
use gabion_scheme::prehash::Prehash;
use gabion_scheme::xmss::{
    Generation, Scheme, Set, VerifyKey, XmssFamily, testing_only_signatures,
};

/// The number of a set, the index, and the root that the lane's bytes lead to: every hash function
/// and length.
const CASES: [(u32, u64, &str); 7] = [
    (13, 700, "b0a17b52b146b221d72bedf3887caa84fc5cab8c7354ca57"),
    (2, 40_000, "7530be4460fe974e11d739ab938938a1d24fd868bb63228c645517aa8efbde04"),
    (
        4,
        1023,
        "5486bf1a91fea2c0aa3ac25ecb0d90dc9cfd417a14ba4d8fb29e036837c02848\
         f5bcee8f964a2e206dbea9380ba5e9f50ce12d7715bcfec0059216c9f3c26957",
    ),
    (7, 0, "25723e865daa703c66249f2b1f1ab61588afd241d81860560eea89406f734606"),
    (19, 5, "cbbb1f8fd7adb18480fb558b965530e88b22136527bf3919"),
    (16, 511, "6c48fb589d4fdd3c248a3c7c28511d0294ba7ea342e523cf6bb4bbce2a14d86b"),
    (
        10,
        77,
        "7d7d82f943a5775b422b42674bf322a45c5ac5dcbe5605177ca215447cd57d93\
         8d9974fd418bda5818450f29baa00a5cb48daa2a6d81c1513e1606f9ef2587b5",
    ),
];
/// The data for XMSS^MT: four, eight and twelve layers, with the hashes of XMSS.
const LAYERS: [(u32, u64, &str); 4] = [
    (0x02, 0xabcde, "99b2c3a12d3c35da5c158d675df1dad856edb03765129083e3e4b090e959ee39"),
    (0x28, (1 << 60) - 2 - (3 << 33), "774e76d1361aeced123c00818519c82c9a9fafbb4f5f8c8c"),
    (0x32, 1, "cd6c159fcb11cca2111cda0097d09d394d0c846da8817d67"),
    (0x15, 0x5a_5a5a_5a5a, "40dab4c6ac880669f8377115080a95746d0065e3fbbeab85f9df47607f7b62ff"),
];

/// The hash functions that keys sign with, and SHA-256 of the secrets that [`SECRETS`] chains begin
/// with. By a program over Python's hashlib, too.
const OF_SECRETS: [(XmssFamily, usize, &str); 4] = [
    (XmssFamily::Sha256, 24, "206545c909c76aa7cbc8ae1014a2a9efa715a931547f3ec09d1ffe492d16b128"),
    (XmssFamily::Sha256, 32, "964a9cc9eb676df88492e5776cd8de4249c850d93e13bb2b37dac1a6630a62d0"),
    (XmssFamily::Shake256, 24, "a041d01d7301f30fc14cca75c5abf82417f1fd21deb1019de22e9c734599aab2"),
    (XmssFamily::Shake256, 32, "a9ce618ce4b0876bfb70dee77b0158cfa75546053af84cd0d57d1d72417356f7"),
];
/// Two groups of lanes, and some more.
const SECRETS: u32 = 37;

/// Sets that sign, one for each hash function and length, and SHA-256 of some nodes of a key: the
/// leaves 5 to 7 of XMSS.
const NODES: [(&str, &str); 4] = [
    ("XMSS-SHA2_10_192", "f812043f52caf44f09980ab8ff0715901cb3a910aa983597821b8e1252454dbf"),
    ("XMSS-SHA2_10_256", "d60fb0710b17df638d698f9011d4c59f53e192733f8c93a3a755584048f24239"),
    ("XMSS-SHAKE256_10_192", "a220511bf8ecbdf92166e54abda3d615a13fe92b1f301e1ec7e4dd299d7f2ebb"),
    ("XMSS-SHAKE256_10_256", "78ab1861adb76a922d82cb5c733762b7c06833e34990b2c391eaf29261c50869"),
];
/// The nodes for XMSS^MT: node 6 of the top tree, two levels above its leaves. All were computed by
/// the program, too.
const NODES_OF_LAYERS: [(&str, &str); 4] = [
    ("XMSSMT-SHA2_20/4_192", "384b1d3b2f9cb9ab3c5539ebe0c9acf4f71e9f6cb9f60b9b89403ee43148cf16"),
    ("XMSSMT-SHA2_20/4_256", "0ac1641c69cf323b30b6885dc72c61a77406eaf732c8e0d24a50c9ec605a2920"),
    (
        "XMSSMT-SHAKE256_20/4_192",
        "3cab5c628a78afa5c9ba43b164cee35bb9ab798e4183fd454129ff842574e374",
    ),
    (
        "XMSSMT-SHAKE256_20/4_256",
        "0435415af6aec26325705a45316ff0a7077beaea3e7eb85da668be49262b60d1",
    ),
];

/// The input of a lane.
#[derive(Clone)]
struct Lane {
    key: VerifyKey,
    message: Vec<u8>,
    signature: Vec<u8>,
}

pub(crate) fn run(backend: &dyn Backend, scheme: Scheme) -> Result<(), String> {
    let lanes = lanes(scheme)?;
    let ok = vec![Status::Ok; lanes.len()];
    expect_statuses(backend, scheme, &lanes, &ok, "known signatures")?;
    for (at, lane) in lanes.chunks(1).enumerate().take(lanes.len() / 2) {
        expect_statuses(
            backend,
            scheme,
            lane,
            &ok[..1],
            &format!("known signature {at} by itself"),
        )?;
    }
    // One thing after the other is wrong, in every lane but one.
    for turn in 0..8 {
        let spared = turn % lanes.len();
        let mut wrong = lanes.clone();
        for (_, lane) in wrong.iter_mut().enumerate().filter(|(at, _)| *at != spared) {
            spoil(lane, turn)?;
        }
        let mut expected = vec![Status::InvalidSignature; wrong.len()];
        expected[spared] = Status::Ok;
        let what = format!("signatures with a fault ({turn})");
        expect_statuses(backend, scheme, &wrong, &expected, &what)?;
    }
    nodes(backend, scheme)?;
    backend.kernels().map_or(Ok(()), secrets)
}

/// Tests the operation of signing keys that verification does not use: deriving the secrets of
/// chains.
fn secrets(k: &dyn Kernels) -> Result<(), String> {
    for (family, n, expected) in OF_SECRETS {
        let bytes = |first: u8, step: u8| -> Vec<u8> {
            (0..n as u8).map(|at| first.wrapping_add(step.wrapping_mul(at))).collect()
        };
        let context = &XmssContext::new(family, &bytes(0x2f, 0xff));
        let seed = &XmssSecretSeed::new(family, &bytes(0x70, 1));
        let mut secrets = vec![0; SECRETS as usize * n];
        let jobs = (0..SECRETS).zip(secrets.chunks_exact_mut(n)).map(|(at, output)| {
            let address = XmssAddress::new(3, 1 << 32 | 2, address_type::OTS)
                .with(XmssAddress::KEY_PAIR, 5 + at / 7)
                .with(XmssAddress::CHAIN, at);
            XmssSecret { context, seed, address, output }
        });
        k.xmss_secret_many(&mut jobs.collect::<Vec<_>>());
        let found = hex(&Prehash::Sha2_256.digest(&secrets));
        if found != expected {
            return Err(format!("secrets of {family:?} with {n} bytes have the digest {found}"));
        }
    }
    Ok(())
}

/// Tests the operations that build a key's trees.
fn nodes(backend: &dyn Backend, scheme: Scheme) -> Result<(), String> {
    let (cases, levels, range) = match scheme {
        Scheme::Xmss => (NODES, 10, 5..8),
        Scheme::XmssMt => (NODES_OF_LAYERS, 4, 6..7),
    };
    for (name, expected) in cases {
        let set = Set::from_name(name).ok_or("a set is missing")?;
        let seeds: Vec<u8> = (0..3 * set.n).map(|at| (7 * at + set.n) as u8).collect();
        let making = Generation::with_whole_levels(set, levels, &seeds);
        let mut making = making.map_err(|error| error.to_string())?;
        let all = making.span(usize::MAX).ok_or("a row without nodes")?;
        let mut piece = all.split_at(range.end).0.split_at(range.start).1;
        let mut status = vec![Status::NotRun; range.len()];
        let operation = Operation::Xmss(Xmss::Nodes { scheme, piece: piece.reborrow() });
        backend.run(&mut Batch { operation, status: &mut status }).check_done(&status)?;
        let found = hex(&Prehash::Sha2_256.digest(piece.job().output));
        if found != expected || status.iter().any(|status| !status.is_ok()) {
            return Err(format!("nodes of {name} have the digest {found}: {status:?}"));
        }
    }
    Ok(())
}

/// Changes the index, r, the first or the last chain or the end of the path of the lowest tree; the
/// message; the length.
fn spoil(lane: &mut Lane, turn: usize) -> Result<(), String> {
    let set = lane.key.set().ok_or("a key without a set")?;
    let (index, n) = (set.index_len(), set.n);
    let values = index + n + set.chains() * n;
    match turn {
        0 => lane.signature[index - 1] ^= 1,
        1 => lane.signature[index] ^= 0x10,
        2 => lane.signature[index + n] ^= 0x10,
        3 => lane.signature[values - 1] ^= 0x10,
        4 => lane.signature[values + set.tree_height() as usize * n - 1] ^= 0x10,
        5 => lane.message[0] ^= 1,
        6 => lane.signature.truncate(lane.signature.len() - 1),
        _ => lane.signature.push(0),
    }
    Ok(())
}

/// Two lanes for each case, with two messages of one length and more.
fn lanes(scheme: Scheme) -> Result<Vec<Lane>, String> {
    let cases = match scheme {
        Scheme::Xmss => &CASES[..],
        Scheme::XmssMt => &LAYERS,
    };
    let mut lanes = [const { Vec::new() }; 2];
    for (at, (number, index, root)) in (0..).zip(cases) {
        let set = Set::from_number(scheme, *number).ok_or("a set is missing")?;
        let messages = [0, 1].map(|turn| vec![turn; 50 + 37 * at as usize]);
        let both = messages.each_ref().map(Vec::as_slice);
        let (key, signatures) =
            testing_only_signatures(&Portable, set, *index, &both, &mut bytes_of(at));
        let found = hex(&key[4..4 + set.n]);
        if found != *root {
            return Err(format!("{}: the root is {found}", set.name));
        }
        let key = VerifyKey::decode(scheme, &key).map_err(|error| error.to_string())?;
        for ((lanes, message), signature) in lanes.iter_mut().zip(messages).zip(signatures) {
            lanes.push(Lane { key: key.clone(), message, signature });
        }
    }
    Ok(lanes.concat())
}

/// The numbers of a linear congruence.
fn bytes_of(at: u32) -> impl FnMut(usize) -> Vec<u8> {
    let mut state = at;
    move |len| {
        let byte = |_| {
            state = state.wrapping_mul(1_103_515_245).wrapping_add(12_345);
            (state >> 16) as u8
        };
        (0..len).map(byte).collect()
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Verifies lanes and insists on a status for each.
fn expect_statuses(
    backend: &dyn Backend,
    scheme: Scheme,
    lanes: &[Lane],
    expected: &[Status],
    what: &str,
) -> Result<(), String> {
    let keys: Vec<_> = lanes.iter().map(|lane| &lane.key).collect();
    let messages: Vec<_> = lanes.iter().map(|lane| &lane.message[..]).collect();
    let signatures: Vec<_> = lanes.iter().map(|lane| &lane.signature[..]).collect();
    let mut status = vec![Status::NotRun; lanes.len()];
    let verify = Xmss::Verify { scheme, keys: &keys, messages: &messages, signatures: &signatures };
    let mut batch = Batch { operation: Operation::Xmss(verify), status: &mut status };
    batch.check().map_err(|error| error.to_string())?;
    backend.run(&mut batch).check_done(&status)?;
    if status == expected { Ok(()) } else { Err(format!("{what}: {status:?}")) }
}
