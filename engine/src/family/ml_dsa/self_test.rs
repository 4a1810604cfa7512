//! The self-test of ML-DSA.

use gabion_backend::{Backend, Dsa, Keys, Operation};
use gabion_scheme::message::Message;
use gabion_scheme::ml_dsa::{Params, SigningKey, VerifyKey};
use gabion_scheme::{Algorithm, Status, ct};

use crate::known_answers::{
    CONTEXT, LANES_FEW, all_ok, check_digest, expect_statuses, message, seed,
};

/// Returns the seeds and messages of the lanes for a backend with lanes: nine consecutive ones, and
/// eight whose messages end near a block boundary.
fn lanes() -> Vec<usize> {
    (0..9).chain(FIRST_ODD..FIRST_ODD + 8).collect()
}

/// The first lane whose message is not of 200 bytes.
const FIRST_ODD: usize = 92;
/// The lane whose M' leaves one byte of a block of SHAKE256: 64 + 2 + 6 + 199 = 2 * 136 - 1.
const ONE_BYTE_LEFT: usize = 94;

/// SHA3-256 over every lane's `pk || sk || sig`: of two lanes, of nine, and of [`ONE_BYTE_LEFT`].
static EXPECTED: [(Algorithm, [&str; 3]); 3] = [
    (
        Algorithm::MlDsa44,
        [
            "9c4f680c0b707082c5fcad3fc17a2eeb38e3a017992dc71dbf48d01250821a5f",
            "705bbe98f1ed7ef0c4f2cc2395bd46fbf4803c991fefd022324b8af13dd79124",
            "62be162188768ddc8fa8a848ad4d7daf7176b2f8be7ebb7e213557ec69711184",
        ],
    ),
    (
        Algorithm::MlDsa65,
        [
            "3fdf525c1affb6931d730be0439369a9d3bfe16ec07fcf4f67955677d5a80956",
            "d329458f6724bc32a1c09c8d598e541590efeb619b0564518e45a6d531c4d278",
            "874a0c139758874fab570634d76b485f26a39d468d83ea3ec626725f36181b99",
        ],
    ),
    (
        Algorithm::MlDsa87,
        [
            "f53555ace5d573a51846db428f8f01cf2e7e4c5ca42c4658ffd76ad2f9743ec2",
            "53248ceb2a18c5c4c4357daaabf29b9f7183f972444f672fba715262e5d48b07",
            "139ceee801705e528a9a0a9bcf387de9de1cae99db8e5b9158d2d942dec75d75",
        ],
    ),
];

/// The answer of a lane.
#[derive(Clone, PartialEq, Eq)]
struct Answer {
    pk: Vec<u8>,
    sk: Vec<u8>,
    sig: Vec<u8>,
}

pub(crate) fn run(backend: &dyn Backend, params: &'static Params) -> Result<(), String> {
    let has_lanes = backend.lanes() > 1;
    let lanes = if has_lanes { lanes() } else { (0..LANES_FEW).collect() };
    let all = answers(backend, params, &lanes)?;
    // One lane works with keys as they are made, the other with keys that were decoded.
    for lane in [0, 1] {
        if answers(backend, params, &lanes[lane..=lane])? != all[lane..=lane] {
            return Err(format!("lane {lane} alone differs from the same lane in a batch"));
        }
    }
    let left = answers(backend, params, &[ONE_BYTE_LEFT])?;
    let expected = EXPECTED.iter().find(|row| row.0 == params.algorithm);
    let [two, nine, one] = expected.map_or([""; 3], |row| row.1);
    let bytes = |lanes: &[Answer]| -> Vec<Vec<u8>> {
        lanes.iter().map(|lane| [&lane.pk[..], &lane.sk, &lane.sig].concat()).collect()
    };
    check_digest(&bytes(&all[..2]), two)?;
    check_digest(&bytes(&left), one)?;
    if has_lanes {
        check_digest(&bytes(&all[..9]), nine)?;
        if all[9 + ONE_BYTE_LEFT - FIRST_ODD] != left[0] {
            return Err(
                "a lane in a batch of seventeen differs from the same lane alone".to_owned()
            );
        }
        every_width(backend, params, &all[..9])?;
    }
    randomness(backend, params, &all[0])?;
    refusals(backend, params, &all[0])?;
    bounds(backend, params)
}

/// A lane's message.
fn text(lane: usize) -> Vec<u8> {
    let text: [u8; 200] = message(lane);
    text[..if lane < FIRST_ODD { 200 } else { 200 - lane % 3 }].to_vec()
}

fn pure<'a>(texts: &'a [Vec<u8>]) -> Vec<Message<'a>> {
    texts.iter().map(|text| Message::Pure { context: CONTEXT, message: text }).collect()
}

/// Returns the answers of these lanes.
fn answers(
    backend: &dyn Backend,
    params: &'static Params,
    lanes: &[usize],
) -> Result<Vec<Answer>, String> {
    let n = lanes.len();
    let seeds: Vec<[u8; 32]> = lanes.iter().map(|&lane| seed(lane)).collect();
    let mut keys: Vec<_> = (0..n).map(|_| SigningKey::blank(params)).collect();
    all_ok(backend, n, Operation::Dsa(Dsa::Generate { params, seeds: &seeds, keys: &mut keys }))?;
    // Every second lane uses keys that are decoded from their encodings.
    let is_decoded = |at: &usize| lanes[*at] % 2 == 1;
    let odd: Vec<usize> = (0..n).filter(is_decoded).collect();
    let pk: Vec<u8> = odd.iter().flat_map(|&at| keys[at].verify_key().bytes()).copied().collect();
    let sk: Vec<u8> = odd.iter().flat_map(|&at| keys[at].bytes()).copied().collect();
    let mut public: Vec<_> = odd.iter().map(|_| VerifyKey::blank(params)).collect();
    let mut private: Vec<_> = odd.iter().map(|_| SigningKey::blank(params)).collect();
    let operation = Operation::Dsa(Dsa::DecodePublic { params, bytes: &pk, keys: &mut public });
    all_ok(backend, odd.len(), operation)?;
    let operation = Operation::Dsa(Dsa::DecodePrivate { params, bytes: &sk, keys: &mut private });
    all_ok(backend, odd.len(), operation)?;
    let mut signing: Vec<&SigningKey> = keys.iter().collect();
    let mut verifying: Vec<&VerifyKey> = keys.iter().map(|key| key.verify_key()).collect();
    for (&at, (public, private)) in odd.iter().zip(public.iter().zip(&private)) {
        (signing[at], verifying[at]) = (private, public);
    }
    let texts: Vec<_> = lanes.iter().map(|&lane| text(lane)).collect();
    let messages = pure(&texts);
    let mut sig = vec![0; n * params.sig_len()];
    let (own, rnd) = (Keys::Known(&signing[..]), vec![[0; 32]; n]);
    let operation = Operation::Dsa(Dsa::Sign {
        params,
        keys: own,
        messages: &messages,
        rnd: &rnd,
        sig: &mut sig,
    });
    all_ok(backend, n, operation)?;
    let own = Keys::Known(&verifying[..]);
    let operation =
        Operation::Dsa(Dsa::Verify { params, keys: own, messages: &messages, sig: &sig });
    all_ok(backend, n, operation)?;
    changed_signatures(backend, params, &verifying, &messages, &sig)?;
    let made = keys.iter().zip(sig.chunks_exact(params.sig_len()));
    let answer = made.map(|(key, sig)| {
        ct::declassify(key.bytes());
        ct::declassify(sig);
        let (pk, sk) = (key.verify_key().bytes().to_vec(), key.bytes().to_vec());
        Answer { pk, sk, sig: sig.to_vec() }
    });
    Ok(answer.collect())
}

/// Returns the offset of a signature's hint: omega + k bytes before its end (FIPS 204, table 1).
fn hint_at(params: &Params) -> usize {
    let len = match params.algorithm {
        Algorithm::MlDsa44 => 80 + 4,
        Algorithm::MlDsa65 => 55 + 6,
        _ => 75 + 8,
    };
    params.sig_len() - len
}

/// A changed byte in c~, in z from its beginning to its end, and in the hint fails, each in its own
/// lane alone.
fn changed_signatures(
    backend: &dyn Backend,
    params: &'static Params,
    keys: &[&VerifyKey],
    messages: &[Message<'_>],
    sig: &[u8],
) -> Result<(), String> {
    let (len, hint) = (params.sig_len(), hint_at(params));
    let mut places = [0, 64, len / 2, hint - 1, hint, len - 1].into_iter();
    let n = keys.len();
    for turn in 0.. {
        let mut changed = sig.to_vec();
        let mut expected = vec![Status::Ok; n];
        let lanes = changed.chunks_exact_mut(len).zip(&mut expected).enumerate();
        // Good lanes between bad ones, and the last one bad at first.
        for (_, (sig, expected)) in lanes.filter(|(lane, _)| n == 1 || (lane + turn + n) % 2 == 1) {
            if let Some(place) = places.next() {
                sig[place] ^= 1;
                *expected = Status::InvalidSignature;
            }
        }
        if expected.iter().all(|status| status.is_ok()) {
            return Ok(());
        }
        let keys = Keys::Known(keys);
        let operation = Operation::Dsa(Dsa::Verify { params, keys, messages, sig: &changed });
        expect_statuses(backend, operation, &expected, "changed signatures")?;
    }
    Ok(())
}

/// Keys made and signatures verified in every width up to nine. Signing goes through the widths by
/// itself, as its lanes come to their ends.
fn every_width(
    backend: &dyn Backend,
    params: &'static Params,
    lanes: &[Answer],
) -> Result<(), String> {
    let texts: Vec<_> = (0..lanes.len()).map(text).collect();
    let messages = pure(&texts);
    let sig: Vec<u8> = lanes.iter().flat_map(|lane| &lane.sig).copied().collect();
    let seeds: Vec<[u8; 32]> = (0..lanes.len()).map(seed).collect();
    let mut keys: Vec<_> = lanes.iter().map(|_| VerifyKey::blank(params)).collect();
    let pk: Vec<u8> = lanes.iter().flat_map(|lane| &lane.pk).copied().collect();
    let operation = Operation::Dsa(Dsa::DecodePublic { params, bytes: &pk, keys: &mut keys });
    all_ok(backend, lanes.len(), operation)?;
    let keys: Vec<_> = keys.iter().collect();
    for n in 2..lanes.len() {
        let (known, messages) = (Keys::Known(&keys[..n]), &messages[..n]);
        let sig = &sig[..n * params.sig_len()];
        all_ok(backend, n, Operation::Dsa(Dsa::Verify { params, keys: known, messages, sig }))?;
        if n == 3 || n == 5 {
            let mut made: Vec<_> = (0..n).map(|_| SigningKey::blank(params)).collect();
            let seeds = &seeds[..n];
            all_ok(backend, n, Operation::Dsa(Dsa::Generate { params, seeds, keys: &mut made }))?;
            made.iter().for_each(|key| ct::declassify(key.bytes()));
            if made.iter().zip(lanes).any(|(key, lane)| key.bytes() != lane.sk) {
                return Err(format!("keys of {n} lanes are not what they are among more"));
            }
        }
    }
    Ok(())
}

/// Each lane's randomness counts, from its first byte to its last, and in its own lane; with keys
/// that come as encodings, too.
fn randomness(backend: &dyn Backend, params: &'static Params, lane: &Answer) -> Result<(), String> {
    const N: usize = 3;
    let mut rnd = [[0; 32]; N];
    (rnd[0][0], rnd[1][31]) = (1, 1);
    let texts = vec![text(0); N];
    let messages = &pure(&texts)[..];
    let sk = lane.sk.repeat(N);
    let mut keys = [SigningKey::blank(params)];
    let operation = Operation::Dsa(Dsa::DecodePrivate { params, bytes: &lane.sk, keys: &mut keys });
    all_ok(backend, 1, operation)?;
    let known = [&keys[0]; N];
    let mut results = Vec::new();
    for keys in [Keys::Known(&known), Keys::Fresh(&sk)] {
        let mut sig = vec![0; N * params.sig_len()];
        let operation =
            Operation::Dsa(Dsa::Sign { params, keys, messages, rnd: &rnd, sig: &mut sig });
        all_ok(backend, N, operation)?;
        ct::declassify(&sig);
        results.push(sig);
    }
    let sigs: Vec<&[u8]> = results[0].chunks_exact(params.sig_len()).collect();
    if results[0] != results[1] || sigs[2] != lane.sig {
        return Err("randomness is not that of its lane".to_owned());
    }
    if sigs[0] == sigs[1] || sigs[0] == sigs[2] || sigs[1] == sigs[2] {
        return Err("randomness does not count".to_owned());
    }
    let pk = lane.pk.repeat(N);
    let sig = &mut results[1];
    sig[params.sig_len()] ^= 1;
    let operation = Operation::Dsa(Dsa::Verify { params, keys: Keys::Fresh(&pk), messages, sig });
    let expected = [Status::Ok, Status::InvalidSignature, Status::Ok];
    expect_statuses(backend, operation, &expected, "encoded public keys")
}

/// Private keys with another tr, and with a coefficient of s1 beyond eta.
fn refusals(backend: &dyn Backend, params: &'static Params, lane: &Answer) -> Result<(), String> {
    const NO: Status = Status::InvalidKey;
    let mut sk = lane.sk.repeat(3);
    sk[64] ^= 1;
    // tr has 64 bytes behind rho and K, s1 comes next.
    sk[2 * params.sk_len() + 128] = 0xff;
    let mut keys: Vec<_> = (0..3).map(|_| SigningKey::blank(params)).collect();
    let operation = Operation::Dsa(Dsa::DecodePrivate { params, bytes: &sk, keys: &mut keys });
    expect_statuses(
        backend,
        operation,
        &[NO, Status::Ok, NO],
        "private keys whose parts do not fit",
    )
}

/// The values c~ of signatures under a key whose t1 is zero, so that w1 = UseHint(h, A z) for any c
/// and no private key is needed. For z with gamma1 - beta - 1 at its first place and the negative
/// at its last, with [`hints`]; with gamma1 - beta at its first; and with the negative of that at
/// its last. Computed by an independent program.
static COMMITMENTS: [(Algorithm, [&str; 3]); 3] = [
    (
        Algorithm::MlDsa44,
        [
            "51361d89487e46bdb31bef0023c1b6f74f97a3aa9502af734c3340d950dbe2ed",
            "d3018b0c569a619a13937ba73e5ea7f4100fd337602e5323b34cd0e53502f129",
            "5ef2e284b0d5b859e0c98a73ca219aa71154869cf078fb91c8fb8cc283126a1a",
        ],
    ),
    (
        Algorithm::MlDsa65,
        [
            "477ffd8b67f1e8b4c7c7abe46587d713dcbe7deb8c5016251504b5789a1bb941\
             a0b1751ccb1ff66ebce98809d93a5a49",
            "1916884d2b00c2662453f7395a3c7b2b9da0e51e1b60daa4a89cf9b6b2cf1728\
             97fcc12de29f8f0f66fbb78c3e746840",
            "ea7830032a3cb5c5c4e88c40456d5a8230f8e9f5b6ed20ba36358480d529d9ae\
             003e7f6a51f9b03732dd0695620fcd17",
        ],
    ),
    (
        Algorithm::MlDsa87,
        [
            "f3d6a89e5e3454d541c6ad4fba3396e89beb8f1063894316f48b6eb5c0a51678\
             8613daa42ece796dac9ad81dd7a36509010ea35f11ce3dd132ad9e60a45bdc36",
            "100b474540f765c9d22b11d8150d31dfd4319c50f6925521e8f76e4e2192f37b\
             86fc4f5ac2645cd53b5dd338607c70b4d1c4984bd5ce342d3879043129e11faa",
            "e3d457b5978fe3fa6a8c2e5dfe3ae6f26aacae38795ff0537453bd6fd6e2c93b\
             2cf6bc331d22d7b34e84e698fa5e8e8153637ce8990ae41d0593030782511c6a",
        ],
    ),
];

/// The values of FIPS 204, table 1, that [`bounds`] needs.
struct Row {
    k: usize,
    l: usize,
    gamma1: i32,
    beta: i32,
    omega: usize,
    z_bits: usize,
}

impl Row {
    fn of(params: &Params) -> Row {
        match params.algorithm {
            Algorithm::MlDsa44 => {
                Row { k: 4, l: 4, gamma1: 1 << 17, beta: 78, omega: 80, z_bits: 18 }
            }
            Algorithm::MlDsa65 => {
                Row { k: 6, l: 5, gamma1: 1 << 19, beta: 196, omega: 55, z_bits: 20 }
            }
            _ => Row { k: 8, l: 7, gamma1: 1 << 19, beta: 120, omega: 75, z_bits: 20 },
        }
    }

    /// The signature of c~ and of a z that is zero but at its first and its last place, without
    /// hints.
    fn signature(&self, c_tilde: &str, first: i32, last: i32) -> Vec<u8> {
        let digits = c_tilde.as_bytes().chunks_exact(2);
        let digit = |byte: u8| (byte as char).to_digit(16).unwrap_or_default() as u8;
        let mut sig: Vec<u8> = digits.map(|two| digit(two[0]) << 4 | digit(two[1])).collect();
        let places = self.l * 256;
        let mut bits: u64 = 0;
        let mut count = 0;
        for place in 0..places {
            let z = match place {
                0 => first,
                _ if place == places - 1 => last,
                _ => 0,
            };
            // BitPack (Algorithm 17).
            bits |= ((self.gamma1 - z) as u64) << count;
            count += self.z_bits;
            while count >= 8 {
                sig.push(bits as u8);
                (bits, count) = (bits >> 8, count - 8);
            }
        }
        sig.resize(sig.len() + self.omega + self.k, 0);
        sig
    }

    /// Returns which coefficients have a hint, polynomial by polynomial: nearly as many as there
    /// may be, so that some stand at the ends of the range of w1.
    fn hints(&self) -> impl Iterator<Item = Vec<u8>> {
        let each = self.omega / self.k;
        (0..self.k).map(move |row| {
            let mut places: Vec<u8> =
                (0..each).map(|i| ((37 * row + 255 / each * i) % 256) as u8).collect();
            places.sort_unstable();
            places
        })
    }

    /// Writes the hints (HintBitPack, Algorithm 20).
    fn set_hints(&self, sig: &mut [u8]) {
        let at = sig.len() - self.omega - self.k;
        let mut count = 0;
        for (row, places) in self.hints().enumerate() {
            sig[at + count..][..places.len()].copy_from_slice(&places);
            count += places.len();
            sig[at + self.omega + row] = count as u8;
        }
    }
}

/// Tests the norm of z from both sides of its bound, and hints in their canonical form and in
/// others, in signatures that are valid otherwise.
fn bounds(backend: &dyn Backend, params: &'static Params) -> Result<(), String> {
    const NO: Status = Status::InvalidSignature;
    let row = Row::of(params);
    let known = COMMITMENTS.iter().find(|known| known.0 == params.algorithm);
    let [within, first, last] = known.map_or([""; 3], |known| known.1);
    let bound = row.gamma1 - row.beta;
    let mut good = row.signature(within, bound - 1, 1 - bound);
    row.set_hints(&mut good);
    let hints = good.len() - row.omega - row.k;
    // Two places of a polynomial in the other order; a byte that is not zero behind the last hint.
    let mut swapped = good.clone();
    swapped.swap(hints, hints + 1);
    let mut padded = good.clone();
    let used = usize::from(good[good.len() - 1]);
    let mut sigs = vec![good.clone(), row.signature(first, bound, 0), swapped, good];
    sigs.push(row.signature(last, 0, -bound));
    let mut expected = vec![Status::Ok, NO, NO, Status::Ok, NO];
    // omega is a multiple of k in ML-DSA-44: there is no room behind the last hint.
    if used < row.omega {
        padded[hints + row.omega - 1] = 1;
        sigs.push(padded);
        expected.push(NO);
    }
    let mut pk = vec![0; params.pk_len()];
    pk[..32].copy_from_slice(&seed::<32>(7));
    let n = sigs.len();
    let (pk, texts) = (pk.repeat(n), vec![text(0); n]);
    let sig = sigs.concat();
    let operation = Operation::Dsa(Dsa::Verify {
        params,
        keys: Keys::Fresh(&pk),
        messages: &pure(&texts),
        sig: &sig,
    });
    expect_statuses(backend, operation, &expected, "signatures at the bounds")?;
    for (lane, expected) in expected.iter().enumerate() {
        let operation = Operation::Dsa(Dsa::Verify {
            params,
            keys: Keys::Fresh(&pk[..params.pk_len()]),
            messages: &pure(&texts[..1]),
            sig: &sigs[lane],
        });
        expect_statuses(backend, operation, &[*expected], "a signature at the bounds")?;
    }
    Ok(())
}
