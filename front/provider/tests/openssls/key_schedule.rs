//! The key schedule of TLS 1.3: `TLS13-KDF` compared with the default provider's over what programs
//! may set, rightly and wrongly, and connections that use all of it (resumption, early data,
//! KeyUpdate, exporters) between every mix of sides.

use std::path::Path;
use std::sync::LazyLock;

use gabion_provider_stats as stats;
use gabion_provider_testing::libcrypto::{Context, Kdf, Libcrypto, Params};
use gabion_provider_testing::libssl::{Libssl, Resumption};
use gabion_provider_testing::{
    EVERY_WAY, OURS, STOCK, Side, TestFolder, lib_prefix, started_again, with_every_openssl,
};

const NAME: &str = "TLS13-KDF";
const EXTRACT: i32 = 1;
const EXPAND: i32 = 2;

static LIB: LazyLock<Libcrypto> = LazyLock::new(|| Libcrypto::load(&lib_prefix()));

/// Returns this process's counters: calls and errors.
fn counted() -> (u64, u64) {
    let file = std::env::var_os("GABION_STATS").unwrap();
    let snapshot = stats::read(Path::new(&file)).unwrap();
    let row = snapshot.rows.iter().find(|row| row.algorithm == NAME && row.operation == "derive");
    row.map(|row| (row.calls, row.errors)).unwrap()
}

fn both() -> (TestFolder, Context) {
    let place = TestFolder::new();
    let context = Context::with_config(&LIB, &place.path("gabion.cnf"));
    (place, context)
}

/// The completed handshakes that this process counted.
fn counted_handshakes() -> u64 {
    let file = std::env::var_os("GABION_STATS").unwrap();
    let rows = stats::read(Path::new(&file)).unwrap().tls;
    rows.iter().filter(|row| row.kind == "handshake").map(|row| row.count).sum()
}

/// Returns the KDF of our provider and that of the default provider.
fn pair(context: &Context) -> [Kdf; 2] {
    let pair = [OURS, STOCK].map(|query| context.kdf(NAME, query).unwrap());
    assert_eq!([&pair[0].provider[..], &pair[1].provider[..]], ["gabion", "default"]);
    pair
}

/// Returns the output of both, which must be equal.
fn derived(pair: &mut [Kdf; 2], len: usize, params: Option<&Params>) -> Option<Vec<u8>> {
    let [ours, stock] = pair.each_mut().map(|kdf| kdf.derive(len, params));
    assert_eq!(ours, stock, "{len} bytes, {params:?}");
    ours
}

fn labelled() -> Params {
    Params::default().octets("prefix", b"tls13 ").octets("label", b"derived")
}

#[test]
fn answers_are_those_of_the_default_provider() {
    with_every_openssl("key_schedule::answers");
}

#[test]
#[ignore = "started by answers_are_those_of_the_default_provider"]
fn answers() {
    if !started_again() {
        return;
    }
    let (_place, context) = both();
    // Without a query for a provider, Gabion's serves; with fips=yes it never does.
    assert_eq!(context.kdf(NAME, "").unwrap().provider, "gabion");
    assert!(context.kdf(NAME, "fips=yes").is_none());
    right_and_wrong(&context);
    reused(&context);
    asked(&context);
    varied(&context);
}

const KEY: [u8; 48] = [7; 48];
const LONG: [u8; 300] = [7; 300];

/// Bytes asked for, what is set, and whether that succeeds.
type Case = (usize, Params, bool);

fn with(mode: i32, digest: &str) -> Params {
    labelled().int("mode", mode).text("digest", digest)
}

fn expand() -> Params {
    with(EXPAND, "SHA2-384").octets("key", &KEY)
}

/// Byte strings that are there, empty, too long, missing or null.
fn lengths() -> Vec<Case> {
    let bare = || Params::default().int("mode", EXPAND).text("digest", "SHA256");
    let label = |len: usize| {
        let params = bare().octets("key", &KEY).octets("prefix", b"tls13 ");
        params.octets("label", &LONG[..len])
    };
    let extract = || with(EXTRACT, "sha384");
    vec![
        (48, expand().octets("data", &KEY), true),
        (12, expand(), true),
        (0, expand(), true),
        (255 * 48, expand(), true),
        (255 * 48 + 1, expand(), false),
        (1 << 16, expand(), false),
        (48, with(EXPAND, "SHA2-384"), false),
        (48, expand().null("data"), false),
        (48, with(EXPAND, "SHA2-384").null("key"), false),
        (48, with(EXPAND, "SHA2-384").octets("key", b""), true),
        (48, expand().octets("data", b""), true),
        (48, expand().octets("data", &LONG[..255]), true),
        (48, expand().octets("data", &LONG[..256]), false),
        (32, label(0), true),
        (32, label(249), true),
        (32, label(250), false),
        (32, bare().octets("key", &KEY), true),
        (48, extract(), true),
        (48, extract().octets("key", &LONG), true),
        (48, extract().octets("salt", &KEY), true),
        (48, extract().octets("salt", b"").octets("key", b""), true),
        (47, extract(), false),
        (49, extract(), false),
        (0, extract(), false),
        (48, extract().null("salt"), false),
    ]
}

/// Modes, hashes and queries, and values of the wrong type.
fn words() -> Vec<Case> {
    let mode =
        |mode: &str| labelled().text("mode", mode).text("digest", "SHA-384").octets("key", &KEY);
    let keyed = |params: Params| params.octets("key", &KEY);
    vec![
        (48, labelled().text("digest", "SHA384").octets("key", &KEY), false),
        (48, labelled().int("mode", EXPAND).octets("key", &KEY), false),
        (48, with(0, "SHA384").octets("key", &KEY), false),
        (48, with(3, "SHA384").octets("key", &KEY), false),
        (48, with(-1, "SHA384").octets("key", &KEY), false),
        (48, mode("expand_only"), true),
        (48, mode("EXTRACT_ONLY"), true),
        (48, mode("EXTRACT_AND_EXPAND"), false),
        (48, mode("expand"), false),
        (48, keyed(labelled().octets("mode", &[2, 0, 0, 0]).text("digest", "SHA384")), false),
        (48, expand().text("properties", ""), true),
        (48, expand().text("properties", "?fips=yes"), true),
        (48, expand().text("properties", "fips=no"), true),
        (48, expand().text("properties", "fips=yes"), false),
        (48, expand().text("properties", "provider=nobody"), false),
        (48, expand().octets("properties", b""), false),
        (48, with(EXPAND, "no-such-hash").octets("key", &KEY), false),
        (48, with(EXPAND, "").octets("key", &KEY), false),
        (16, with(EXPAND, "SHAKE128").octets("key", &KEY), false),
        (48, labelled().int("mode", EXPAND).octets("digest", b"SHA384").octets("key", &KEY), false),
        (48, labelled().int("mode", EXPAND).text("digest", "SHA384").text("key", "key"), false),
        (48, expand().octets("salt", &LONG).octets("seed", &LONG), true),
    ]
}

/// Single calls, with what comes of them.
fn right_and_wrong(context: &Context) {
    let before = counted();
    let mut errors = 0;
    for (len, params, succeeds) in lengths().into_iter().chain(words()) {
        let made = derived(&mut pair(context), len, Some(&params));
        assert_eq!(made.is_some(), succeeds, "{len} bytes, {params:?}");
        errors += u64::from(!succeeds);
        // The other way to set the same.
        let mut pair = pair(context);
        let [ours, stock] = pair.each_mut().map(|kdf| kdf.set(&params));
        assert_eq!(ours, stock, "{params:?}");
        if ours {
            assert_eq!(derived(&mut pair, len, None), made, "{params:?}");
            errors += u64::from(!succeeds);
        }
    }
    let after = counted();
    assert!(after.0 - before.0 >= 48, "{after:?}");
    assert_eq!(after.1 - before.1, errors);
    // Hashes that TLS does not use are rejected here, by name.
    let params = with(EXPAND, "SHA3-256").octets("key", &KEY);
    assert_eq!(pair(context)[0].derive(32, Some(&params)), None);
    assert!(LIB.last_error().contains("`digest` must be SHA2-224"), "{}", LIB.last_error());
}

/// Contexts that are used again, copied and reset.
fn reused(context: &Context) {
    let mut pair = pair(context);
    let sizes = |pair: &mut [Kdf; 2]| {
        let [ours, stock] = pair.each_mut().map(Kdf::size);
        assert_eq!(ours, stock);
        ours
    };
    assert_eq!(sizes(&mut pair), usize::MAX);
    let all = labelled().int("mode", EXPAND).text("digest", "SHA384").octets("key", &[1; 48]);
    let with_data = derived(&mut pair, 48, Some(&all.clone().octets("data", &[2; 48])));
    // Nothing new is set: all is as it was.
    assert_eq!(derived(&mut pair, 48, None), with_data);
    assert_eq!(derived(&mut pair, 48, Some(&Params::default())), with_data);
    assert_eq!(sizes(&mut pair), usize::MAX);
    // Something else is set: 3.5 forgets the data, later ones do not.
    assert!(derived(&mut pair, 48, Some(&Params::default().octets("label", b"derived"))).is_some());
    let mut copies = pair.each_ref().map(Kdf::duplicate);
    assert_eq!(derived(&mut copies, 48, None), derived(&mut pair, 48, None));
    // The copy goes its own way.
    let extract = Params::default().int("mode", EXTRACT);
    let extracted = derived(&mut copies, 48, Some(&extract));
    assert!(extracted.is_some() && extracted != derived(&mut pair, 48, None));
    assert_eq!(sizes(&mut copies), 48);
    copies.iter_mut().for_each(Kdf::reset);
    assert_eq!(derived(&mut copies, 48, None), None);
    assert_eq!(derived(&mut copies, 48, Some(&all)).map(|out| out.len()), Some(48));
}

/// Compares the parameters of a context, in the types that may be queried and in others, with too
/// small and with sufficient buffers. The parameters depend on OpenSSL's version.
fn asked(context: &Context) {
    const TYPES: [u32; 4] = [1, 2, 4, 5]; // Integer, unsigned integer, text, bytes.
    let both = pair(context);
    assert_eq!(both[0].lists(), both[1].lists());
    let gettable: Vec<String> = both[0].lists()[0].iter().map(|(key, _)| key.clone()).collect();
    // SAFETY: a number.
    if unsafe { (LIB.OPENSSL_version_major)() } >= 4 {
        assert_eq!(gettable, ["digest", "info", "mode", "mode", "salt", "size"]);
    }
    let hashes = ["SHA224", "sha256", "SHA-384", "SHA512", "SHA512-224", "SHA2-512/256", "SM3"];
    let mut states = vec![
        Params::default(),
        Params::default().int("mode", EXTRACT),
        with(EXTRACT, "SHA2-256").octets("salt", b""),
        with(EXPAND, "SHA2-256").octets("salt", &KEY),
        with(EXTRACT, "SHA2-256").octets("salt", &LONG),
        Params::default().text("mode", "extract_and_expand").text("digest", "SHA256"),
    ];
    states.extend(hashes.map(|hash| with(EXTRACT, hash)));
    let mut answers = 0;
    for state in &states {
        let mut pair = pair(context);
        let [ours, stock] = pair.each_mut().map(|kdf| kdf.set(state));
        assert_eq!(ours, stock, "{state:?}");
        for key in ["size", "digest", "mode", "salt", "info", "key"] {
            for data_type in TYPES {
                for room in [0, 4, 8, 12, 13, 64, 400] {
                    if data_type < 3 && ![4, 8].contains(&room) {
                        continue;
                    }
                    let [ours, stock] = pair.each_ref().map(|kdf| kdf.get(key, data_type, room));
                    assert_eq!(ours, stock, "{key}, type {data_type}, {room} bytes of {state:?}");
                    answers += usize::from(ours.is_some_and(|(len, _)| len != usize::MAX));
                }
            }
        }
    }
    assert!(answers > 100, "{answers}");
}

/// Numbers that look random, the same in every run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) as usize % n
    }

    fn one_of<T: Copy>(&mut self, values: &[T]) -> T {
        values[self.below(values.len())]
    }

    fn bytes(&mut self, lens: &[usize]) -> Vec<u8> {
        let len = self.one_of(lens);
        (0..len).map(|_| self.below(256) as u8).collect()
    }

    /// Some parameters, most of them good.
    fn params(&mut self) -> Params {
        const HASHES: [&str; 9] = [
            "SHA2-256",
            "SHA2-384",
            "SHA256",
            "sha384",
            "SHA-512",
            "SHA2-224",
            "SHA512-256",
            "SHA2-512/224",
            "SM3",
        ];
        let mut params = Params::default();
        if self.below(8) > 0 {
            params = params.int("mode", self.one_of(&[EXTRACT, EXPAND, EXPAND, EXPAND]));
        }
        if self.below(8) > 0 {
            params = params.text("digest", self.one_of(&HASHES));
        }
        let lens = [0, 1, 31, 32, 48, 63, 64, 65, 80, 98, 127, 128, 129, 200];
        for (name, odds) in [("key", 7), ("salt", 4), ("prefix", 6), ("label", 6), ("data", 5)] {
            if self.below(8) < odds {
                params = params.octets(name, &self.bytes(&lens));
            }
        }
        params
    }
}

/// Many sequences of calls on one context each.
fn varied(context: &Context) {
    let mut numbers = Numbers(8446);
    let (mut successes, mut refusals) = (0, 0);
    for _ in 0..4000 {
        let mut pair = pair(context);
        for _ in 0..=numbers.below(3) {
            let params = numbers.params();
            if numbers.below(4) == 0 {
                let [ours, stock] = pair.each_mut().map(|kdf| kdf.set(&params));
                assert_eq!(ours, stock, "{params:?}");
                continue;
            }
            let len = numbers.one_of(&[0, 12, 16, 28, 32, 32, 48, 48, 48, 64, 65, 300]);
            match derived(&mut pair, len, Some(&params)) {
                Some(_) => successes += 1,
                None => refusals += 1,
            }
        }
    }
    assert!(successes > 1500 && refusals > 500, "{successes} {refusals}");
}

#[test]
fn connections_agree_between_every_mix_of_sides() {
    with_every_openssl("key_schedule::connections");
}

#[test]
#[ignore = "started by connections_agree_between_every_mix_of_sides"]
fn connections() {
    if !started_again() {
        return;
    }
    let (place, gabion) = both();
    place.openssl(
        Side::Stock,
        "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout leaf.key -subj \
         /CN=localhost -days 2 -out leaf.pem",
    );
    let stock = Context::with_config(&LIB, &place.path("stock.cnf"));
    let ssl = Libssl::load(&lib_prefix());
    let context = |side: Side| if side == Side::Stock { &stock } else { &gabion };
    let (leaf, key) = (place.path("leaf.pem"), place.path("leaf.key"));
    // SAFETY: a number.
    let has_sm3 = unsafe { (LIB.OPENSSL_version_major)() } >= 4;
    let suites = ["TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_SM4_GCM_SM3"];
    for suite in &suites[..2 + usize::from(has_sm3)] {
        for (client, server) in EVERY_WAY {
            let from = ssl.end(context(client), None, None).unwrap().with_suite(suite);
            let to = ssl.end(context(server), None, Some((&leaf, &key))).unwrap();
            let to = to.with_suite(suite);
            let what = format!("{suite}: {client:?} -> {server:?}");
            let before = counted();
            let handshakes_before = counted_handshakes();
            assert_eq!(ssl.resume(&from, &to), Resumption::EarlyData, "{what}");
            let after = counted();
            let ours = [client, server].iter().filter(|&&side| side == Side::Gabion).count() as u64;
            // Two connections: some twenty derivations a side each.
            let calls = after.0 - before.0;
            assert!(calls >= 40 * ours && (ours > 0 || calls == 0), "{what}: {calls}");
            assert_eq!(after.1, before.1, "{what}");
            // The resumed one, too, and once each, although both sides change their keys.
            assert_eq!(counted_handshakes() - handshakes_before, 2 * ours, "{what}");
        }
    }
}
