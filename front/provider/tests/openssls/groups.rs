//! The hybrid groups, and pure ML-KEM: handshakes in memory between every mix of sides, with the
//! counters that show which provider did the work; shares that were changed in transit; the groups
//! that are offered by default.

use std::path::Path;
use std::sync::LazyLock;

use gabion_engine::Algorithm;
use gabion_provider_stats as stats;
use gabion_provider_testing::libcrypto::{Context, Libcrypto, Params};
use gabion_provider_testing::libssl::{Direction, End, Libssl, Outcome};
use gabion_provider_testing::{
    EVERY_WAY, GROUPS, KEMS, OURS, PRIVATE_GROUPS, STOCK, Side, TestFolder, both, lib_prefix,
    started_again, with_every_openssl,
};

static LIB: LazyLock<Libcrypto> = LazyLock::new(|| Libcrypto::load(&lib_prefix()));
static SSL: LazyLock<Libssl> = LazyLock::new(|| {
    // libssl binds to the libcrypto that is there already.
    LazyLock::force(&LIB);
    Libssl::load(&lib_prefix())
});

/// Both sides' contexts, and a server's certificate.
struct Sides {
    place: TestFolder,
    stock: Context,
    gabion: Context,
}

impl Sides {
    fn new() -> Self {
        Sides::with("")
    }

    /// With a line in our provider's section of the configuration.
    fn with(line: &str) -> Self {
        let place = TestFolder::new();
        place.configure(line);
        place.openssl(
            Side::Stock,
            "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout leaf.key -subj \
             /CN=localhost -days 2 -out leaf.pem",
        );
        let context = |file| Context::with_config(&LIB, &place.path(file));
        let (stock, gabion) = (context("stock.cnf"), context("gabion.cnf"));
        Sides { place, stock, gabion }
    }

    fn context(&self, side: Side) -> &Context {
        if side == Side::Stock { &self.stock } else { &self.gabion }
    }

    fn client(&self, side: Side, groups: Option<&str>) -> End<'static> {
        SSL.end(self.context(side), groups, None).expect("libssl knows the groups")
    }

    fn server(&self, side: Side, groups: Option<&str>) -> End<'static> {
        let (leaf, key) = (self.place.path("leaf.pem"), self.place.path("leaf.key"));
        let certificate = Some((leaf.as_path(), key.as_path()));
        SSL.end(self.context(side), groups, certificate).expect("libssl knows the groups")
    }
}

/// Returns this process's counters for a KEM: keygen, import, encaps, decaps, and errors of all.
fn counted(name: &str) -> [u64; 5] {
    let file = std::env::var_os("GABION_STATS").unwrap();
    let snapshot = stats::read(Path::new(&file)).unwrap();
    let of = |operation: &str| {
        let mut rows = snapshot.rows.iter();
        rows.find(|row| row.algorithm == name && row.operation == operation).unwrap()
    };
    let rows = ["keygen", "import", "encaps", "decaps"].map(of);
    let errors = rows.iter().map(|row| row.errors).sum();
    [rows[0].calls, rows[1].calls, rows[2].calls, rows[3].calls, errors]
}

/// Returns the counters for X25519: keygen, import, derive, peer, and errors of all.
fn counted_x25519() -> [u64; 5] {
    let file = std::env::var_os("GABION_STATS").unwrap();
    let snapshot = stats::read(Path::new(&file)).unwrap();
    let of = |operation: &str| {
        let mut rows = snapshot.rows.iter();
        rows.find(|row| row.algorithm == "X25519" && row.operation == operation).unwrap()
    };
    let rows = ["keygen", "import", "derive", "peer"].map(of);
    let errors = rows.iter().map(|row| row.errors).sum();
    [rows[0].calls, rows[1].calls, rows[2].calls, rows[3].calls, errors]
}

/// The TLS events that this process counted.
fn counted_tls(kind: &str, side: Option<&str>, name: &str) -> u64 {
    let file = std::env::var_os("GABION_STATS").unwrap();
    let rows = stats::read(Path::new(&file)).unwrap().tls;
    let is_it = |row: &&stats::TlsRow| {
        (row.kind.as_str(), row.side.as_deref(), row.name.as_str()) == (kind, side, name)
    };
    rows.iter().filter(is_it).map(|row| row.count).sum()
}

/// Key exchanges of a group as client and as server, and completed handshakes.
fn counted_handshakes(group: &str) -> [u64; 3] {
    let exchanges = |side| counted_tls("key_exchange", Some(side), group);
    [exchanges("client"), exchanges("server"), counted_tls("handshake", None, "TLSv1.3")]
}

fn kem_of(group: &str) -> &'static str {
    group.parse::<Algorithm>().unwrap().name()
}

#[test]
fn handshakes_between_every_mix_of_sides() {
    with_every_openssl("groups::handshakes");
}

#[test]
#[ignore = "started by handshakes_between_every_mix_of_sides"]
fn handshakes() {
    if !started_again() {
        return;
    }
    let sides = Sides::new();
    let pure = ["MLKEM512", "MLKEM768", "MLKEM1024"];
    for group in GROUPS.into_iter().chain(pure) {
        for (client, server) in EVERY_WAY {
            let before = counted(kem_of(group));
            let tls_before = counted_handshakes(group);
            let ends = (sides.client(client, Some(group)), sides.server(server, Some(group)));
            for _ in 0..3 {
                let outcome = SSL.handshake(&ends.0, &ends.1, |_, _| ());
                assert_eq!(outcome, Outcome::Group(group.into()), "{client:?} -> {server:?}");
            }
            let after = counted(kem_of(group));
            let (c, s) =
                (3 * u64::from(client == Side::Gabion), 3 * u64::from(server == Side::Gabion));
            // A client makes a key and opens; a server takes a share in and encapsulates.
            let wanted = [before[0] + c, before[1] + s, before[2] + s, before[3] + c, before[4]];
            assert_eq!(after, wanted, "{group}: {client:?} -> {server:?}");
            let wanted = [tls_before[0] + c, tls_before[1] + s, tls_before[2] + c + s];
            assert_eq!(counted_handshakes(group), wanted, "{group}: {client:?} -> {server:?}");
            // The hybrid is ours as a whole: its ML-KEM does not count by itself.
        }
    }
    let pure = counted("ML-KEM-768");
    assert_eq!(pure[4], 0);
    assert_eq!(pure[0], 6, "only MLKEM768, twice three clients, made such keys");
}

#[test]
fn x25519_is_ours_where_it_is_switched_on() {
    with_every_openssl("groups::classical");
}

#[test]
#[ignore = "started by x25519_is_ours_where_it_is_switched_on"]
fn classical() {
    if !started_again() {
        return;
    }
    let off = Sides::new();
    let ends = (off.client(Side::Gabion, Some("x25519")), off.server(Side::Gabion, Some("x25519")));
    assert_eq!(SSL.handshake(&ends.0, &ends.1, |_, _| ()), Outcome::Group("x25519".into()));
    let ends = (off.client(Side::Gabion, None), off.server(Side::Gabion, None));
    assert_eq!(SSL.handshake(&ends.0, &ends.1, |_, _| ()), Outcome::Group("X25519MLKEM768".into()));
    assert_eq!(counted_x25519(), [0; 5], "nobody switched it on");

    let sides = Sides::with("x25519 = yes");
    for old in [false, true] {
        for (client, server) in EVERY_WAY {
            let before = counted_x25519();
            let tls_before = counted_tls("key_exchange", None, "x25519");
            let end = |end: End<'static>| if old { end.with_tls_1_2() } else { end };
            // In TLS 1.2 the list also says which curves certificates may have.
            let groups = Some("x25519:secp256r1");
            let client_end = end(sides.client(client, groups));
            let server_end = end(sides.server(server, groups));
            let outcome = SSL.handshake(&client_end, &server_end, |_, _| ());
            assert_eq!(outcome, Outcome::Group("x25519".into()), "{client:?} -> {server:?}");
            let ours = [client, server].iter().filter(|side| **side == Side::Gabion).count() as u64;
            let more: Vec<u64> = counted_x25519().iter().zip(before).map(|(a, b)| a - b).collect();
            assert_eq!(more, [ours, ours, ours, ours, 0], "{client:?} -> {server:?}, old: {old}");
            let counted = counted_tls("key_exchange", None, "x25519") - tls_before;
            assert_eq!(counted, ours, "{client:?} -> {server:?}, old: {old}");
        }
    }
    // Of two shares the second is ours, too, and nothing in the ClientHello tells.
    let [stock, gabion] = [Side::Stock, Side::Gabion]
        .map(|side| offered(&SSL.client_hello(&sides.client(side, None))));
    assert_eq!(stock, gabion, "groups and shares");
    assert!(gabion.1.contains(&(0x1d, 32)), "{:?}", gabion.1);
    let before = counted_x25519();
    let ends = (sides.client(Side::Gabion, None), sides.server(Side::Gabion, None));
    assert_eq!(SSL.handshake(&ends.0, &ends.1, |_, _| ()), Outcome::Group("X25519MLKEM768".into()));
    let more: Vec<u64> = counted_x25519().iter().zip(before).map(|(a, b)| a - b).collect();
    assert_eq!(more, [1, 0, 0, 0, 0], "a share that the server does not take");
    wrong_shares_of_x25519(&sides);
}

/// The alerts are the default provider's.
fn wrong_shares_of_x25519(sides: &Sides) {
    let one: Vec<u8> = (0..32).map(|at| u8::from(at == 0)).collect();
    let lengths = [0, 1, 31, 33, 65].map(|len| vec![9; len]);
    for share in lengths.into_iter().chain([vec![0; 32], one]) {
        for way in [Direction::ToServer, Direction::ToClient] {
            let [ours, theirs] = [Side::Gabion, Side::Stock].map(|side| {
                let (client, server) =
                    (sides.client(side, Some("x25519")), sides.server(side, Some("x25519")));
                let mut done = false;
                SSL.handshake(&client, &server, |at, bytes| {
                    if at == way && !done {
                        replace(bytes, &share);
                        done = true;
                    }
                })
            });
            assert!(matches!(ours, Outcome::Alert(_)), "{share:?} {way:?}: {ours:?}");
            assert_eq!(ours, theirs, "{share:?} {way:?}");
        }
    }
}

#[test]
fn private_groups_are_ours_by_both_names() {
    with_every_openssl("groups::private_groups");
}

#[test]
#[ignore = "started by private_groups_are_ours_by_both_names"]
fn private_groups() {
    if !started_again() {
        return;
    }
    let sides = Sides::new();
    let others = ["p256_mlkem512", "p384_mlkem768", "p521_mlkem1024", "MLKEM512X25519"];
    for (group, oqs) in PRIVATE_GROUPS.into_iter().zip(others) {
        let before = counted(group);
        // The one that has two numbers is two groups.
        let is_two = oqs == "p256_mlkem512";
        for (ours, theirs) in [(group, group), (group, oqs), (oqs, group), (oqs, oqs)] {
            let client = sides.client(Side::Gabion, Some(ours));
            let server = sides.server(Side::Gabion, Some(theirs));
            let outcome = SSL.handshake(&client, &server, |_, _| ());
            let expected = match is_two {
                true if ours != theirs => Outcome::Alert(40),
                true => Outcome::Group(ours.into()),
                false => Outcome::Group(group.into()),
            };
            assert_eq!(outcome, expected, "{ours} -> {theirs}");
            let shares = offered(&SSL.client_hello(&client)).1;
            let number = match (is_two, ours) {
                (true, "p256_mlkem512") => 0x2f4b,
                _ => group.parse::<Algorithm>().unwrap().info().tls.unwrap().number,
            };
            assert_eq!(shares[0].0, number, "{ours}");
        }
        let after = counted(group);
        let more: Vec<u64> = after.iter().zip(before).map(|(a, b)| a - b).collect();
        // Each ClientHello makes one more key; one without a matching server has no other use.
        let met = if is_two { 2 } else { 4 };
        assert_eq!((more[0], &more[1..]), (8, &[met, met, met, 0][..]), "{group}");
        // No other provider knows them, and a provider that was not queried takes no part.
        for name in [group, oqs] {
            assert!(SSL.end(&sides.stock, Some(name), None).is_none(), "{name}");
        }
        let (client, server) =
            (sides.client(Side::Gabion, Some(group)), sides.server(Side::Gabion, None));
        let outcome = SSL.handshake(&client, &server, |_, _| ());
        assert_eq!(outcome, Outcome::Alert(40), "{group}: the server's own list has no such group");
    }
}

/// Hybrids that are the default provider's, over an ML-KEM that it fetches by name and so from ours: keys
/// of X448MLKEM1024, which is no group, and the group of SM2 that OpenSSL 4.0 has.
#[test]
fn hybrids_of_the_default_provider_work_over_our_ml_kem() {
    with_every_openssl("groups::their_hybrids");
}

#[test]
#[ignore = "started by hybrids_of_the_default_provider_work_over_our_ml_kem"]
fn their_hybrids() {
    if !started_again() {
        return;
    }
    let (sides, none) = (Sides::new(), Params::default());
    let (context, name) = (&sides.gabion, "X448MLKEM1024");
    let before = counted("ML-KEM-1024");
    let key = context.generate(name, "", &none).unwrap();
    let share = context.empty(name, "");
    assert_eq!([key.provider(), share.provider()], ["default", "default"]);
    let public = key.part("encoded-pub-key").unwrap();
    // SAFETY: a live key, bytes as long as said.
    let set =
        unsafe { (LIB.EVP_PKEY_set1_encoded_public_key)(share.raw, public.as_ptr(), public.len()) };
    assert_eq!(set, 1);
    let (ct, secret) = share.encapsulate("", &none).unwrap();
    assert_eq!(key.decapsulate("", &ct), Some(secret));
    let more: Vec<u64> =
        counted("ML-KEM-1024").iter().zip(before).map(|(after, before)| after - before).collect();
    assert_eq!((more[0], more[2..].to_vec()), (1, vec![1, 1, 0]), "{more:?}");
    assert_eq!(counted_handshakes("MLKEM1024"), [0; 3], "not a key share");

    let group = "curveSM2MLKEM768";
    // SAFETY: a number.
    let has_it = unsafe { (LIB.OPENSSL_version_major)() } >= 4;
    assert_eq!(SSL.end(&sides.stock, Some(group), None).is_some(), has_it);
    for (client, server) in EVERY_WAY.into_iter().filter(|_| has_it) {
        let before = counted("ML-KEM-768");
        let ends = (sides.client(client, Some(group)), sides.server(server, Some(group)));
        let outcome = SSL.handshake(&ends.0, &ends.1, |_, _| ());
        assert_eq!(outcome, Outcome::Group(group.into()), "{client:?} -> {server:?}");
        let after = counted("ML-KEM-768");
        let (c, s) = (u64::from(client == Side::Gabion), u64::from(server == Side::Gabion));
        let wanted = [before[0] + c, before[2] + s, before[3] + c, before[4]];
        assert_eq!([after[0], after[2], after[3], after[4]], wanted, "{client:?} -> {server:?}");
        assert_eq!(counted_handshakes("MLKEM768")[..2], [0; 2], "the group is curveSM2MLKEM768");
    }
}

/// Where the parts of a ClientHello or ServerHello, alone in its record, stand.
struct Hello {
    /// The places of the two-byte lengths around the key share, innermost first; the record's last.
    lengths: Vec<usize>,
    /// The key share's bytes.
    share: std::ops::Range<usize>,
}

/// The extensions of a hello: type, and where the content stands.
fn extensions(hello: &[u8]) -> (usize, Vec<(u16, std::ops::Range<usize>)>) {
    let word = |at: usize| usize::from(u16::from_be_bytes([hello[at], hello[at + 1]]));
    assert_eq!(hello[0], 22, "a handshake record");
    // Record header 5, message header 4, version 2, random 32, session.
    let mut at = 43;
    at += 1 + usize::from(hello[at]);
    at += match hello[5] {
        1 => 2 + word(at) + 2,
        2 => 2 + 1,
        other => panic!("message {other} is no hello"),
    };
    let list = at;
    let end = at + 2 + word(at);
    at += 2;
    let mut found = Vec::new();
    while at < end {
        found.push((word(at) as u16, at + 4..at + 4 + word(at + 2)));
        at += 4 + word(at + 2);
    }
    (list, found)
}

/// Finds the only key share of a hello.
fn hello(bytes: &[u8]) -> Hello {
    let (list, extensions) = extensions(bytes);
    let share = extensions.iter().find(|(kind, _)| *kind == 51).unwrap().1.clone();
    let client = bytes[5] == 1;
    // A client's list of shares begins with its length; then come the group, the length, the bytes.
    let entry = share.start + if client { 2 } else { 0 };
    let mut lengths = vec![entry + 2];
    lengths.extend(client.then_some(share.start));
    lengths.extend([share.start - 2, list, 7, 3]);
    Hello { lengths, share: entry + 4..share.end }
}

/// Puts another share in place of the one that is there, and makes every length right.
fn replace(bytes: &mut Vec<u8>, share: &[u8]) {
    let hello = hello(bytes);
    let more = share.len() as isize - hello.share.len() as isize;
    bytes.splice(hello.share, share.iter().copied());
    for at in hello.lengths {
        let length = isize::from(i16::from_be_bytes([bytes[at], bytes[at + 1]])) + more;
        bytes[at..at + 2].copy_from_slice(&(length as u16).to_be_bytes());
    }
}

/// Returns whether a handshake is tried with a share of every length: minutes.
fn every_length() -> bool {
    std::env::var_os("GABION_SOAK").is_some()
}

/// Returns shares that must be rejected, made from a valid one: a name, and the bytes. `curve` is
/// where the curve's part stands.
fn wrong_shares(
    share: &[u8],
    curve: std::ops::Range<usize>,
    point: bool,
) -> Vec<(String, Vec<u8>)> {
    let mut wrong = Vec::new();
    let len = share.len();
    let some = [1, 2, 31, 32, 64, 65, 97, 133, len / 2, len - 33, len - 2, len - 1];
    let cuts = if every_length() { (1..len).collect() } else { some.to_vec() };
    for cut in cuts {
        wrong.push((format!("{} bytes", len - cut), share[..len - cut].to_vec()));
    }
    for more in [1, 32, 1000] {
        wrong.push((format!("{} bytes", len + more), [share, &vec![0; more]].concat()));
    }
    wrong.push(("the curve's part alone".into(), share[curve.clone()].to_vec()));
    let rest = [&share[..curve.start], &share[curve.end..]].concat();
    wrong.push(("ML-KEM's part alone".into(), rest.clone()));
    let parts = if curve.start == 0 {
        [rest, share[curve.clone()].to_vec()].concat()
    } else {
        [share[curve.clone()].to_vec(), rest].concat()
    };
    wrong.push(("the parts changed round".into(), parts));
    let mut with = |what: &str, change: &dyn Fn(&mut [u8])| {
        let mut bytes = share.to_vec();
        change(&mut bytes[curve.clone()]);
        wrong.push((what.into(), bytes));
    };
    with("the curve's part all zero", &|part| part.fill(0));
    if point {
        with("a compressed point's head", &|part| part[0] = 2);
        with("a hybrid point's head", &|part| part[0] = 6);
        with("infinity's head", &|part| part[0] = 0);
        with("not on the curve", &|part| *part.last_mut().unwrap() ^= 1);
        with("coordinates out of range", &|part| part[1..].fill(0xff));
    }
    wrong
}

#[test]
fn wrong_shares_end_the_handshake() {
    with_every_openssl("groups::shares");
}

#[test]
#[ignore = "started by wrong_shares_end_the_handshake"]
fn shares() {
    if !started_again() {
        return;
    }
    let sides = Sides::new();
    for group in GROUPS.into_iter().chain(PRIVATE_GROUPS) {
        let private = PRIVATE_GROUPS.contains(&group);
        let info = group.parse::<Algorithm>().unwrap().info();
        let point = !group.contains("X25519");
        let kem = info.parts[usize::from(point)].algorithm().unwrap();
        for way in [Direction::ToServer, Direction::ToClient] {
            let (whole, kem) = match way {
                Direction::ToServer => (info.public_key.max(), kem.info().public_key.max()),
                Direction::ToClient => (info.output.max(), kem.info().output.max()),
            };
            let curve = if point { 0..whole - kem } else { kem..whole };
            let run = |side: Side, change: &dyn Fn(&[u8]) -> Vec<u8>| {
                let ends = (sides.client(side, Some(group)), sides.server(side, Some(group)));
                let mut done = false;
                SSL.handshake(&ends.0, &ends.1, |at, bytes| {
                    if at == way && !done {
                        let share = bytes[hello(bytes).share].to_vec();
                        assert_eq!(share.len(), whole, "{group} {way:?}");
                        replace(bytes, &change(&share));
                        done = true;
                    }
                })
            };
            let same = run(Side::Gabion, &<[u8]>::to_vec);
            assert_eq!(same, Outcome::Group(group.into()), "an unchanged share is taken");
            let mut tried = wrong_shares(&vec![7; whole], curve.clone(), point);
            if way == Direction::ToServer {
                // Coefficients that are not reduced: ML-KEM's check of its public key.
                tried.push(("ML-KEM's part all ones".into(), Vec::new()));
            }
            for (index, (what, _)) in tried.iter().enumerate() {
                let change =
                    |share: &[u8]| match wrong_shares(share, curve.clone(), point).get(index) {
                        Some((_, bytes)) => bytes.clone(),
                        None => {
                            let mut bytes = vec![0xff; share.len()];
                            bytes[curve.clone()].copy_from_slice(&share[curve.clone()]);
                            bytes
                        }
                    };
                let ours = run(Side::Gabion, &change);
                let what = format!("{group} {way:?}: {what}");
                assert!(matches!(ours, Outcome::Alert(_)), "{what}: {ours:?}");
                // OpenSSL takes hybrid encodings of points too, which TLS 1.3 does not have (RFC 8446,
                // section 4.2.8.2).
                if !private && !what.ends_with("a hybrid point's head") {
                    assert_eq!(ours, run(Side::Stock, &change), "{what}: the alert");
                }
            }
            // A changed bit of the right form: the sides do not agree on the keys.
            let bit = |share: &[u8]| {
                let mut bytes = share.to_vec();
                bytes[if point { whole - 5 } else { 5 }] ^= 1;
                bytes
            };
            assert!(matches!(run(Side::Gabion, &bit), Outcome::Alert(_)), "{group} {way:?}");
        }
    }
}

/// Shares of a peer that libssl passes to a provider, at every length: only the right one is
/// accepted, by Gabion's and, if it has the group, by the default provider.
#[test]
fn a_share_of_any_other_length_is_refused() {
    let (_place, context) = both();
    for name in KEMS.into_iter().chain(GROUPS).chain(PRIVATE_GROUPS) {
        let queries = if PRIVATE_GROUPS.contains(&name) { vec![OURS] } else { vec![OURS, STOCK] };
        let key = context.generate(name, OURS, &Params::default()).expect(name);
        let share = key.part("encoded-pub-key").unwrap();
        let (ct, secret) = key.encapsulate(OURS, &Params::default()).unwrap();
        let longer = |bytes: &[u8]| [bytes, &[0; 200]].concat();
        let (shares, cts) = (longer(&share), longer(&ct));
        for query in queries {
            let empty = context.empty(name, query);
            // SAFETY: a live key, bytes as long as said.
            let takes = |len| unsafe {
                (LIB.EVP_PKEY_set1_encoded_public_key)(empty.raw, shares.as_ptr(), len) == 1
            };
            // Once it is taken, the key takes no more: the right length comes last.
            for len in (0..shares.len()).filter(|len| *len != share.len()) {
                assert!(!takes(len), "{name} {query}: {len} bytes");
            }
            assert!(takes(share.len()), "{name} {query}");
        }
        for (len, opens) in (0..cts.len()).map(|len| (len, len == ct.len())) {
            let opened = key.decapsulate(OURS, &cts[..len]);
            assert_eq!(opened, opens.then(|| secret.clone()), "{name}: {len} bytes");
        }
    }
}

/// The groups that a ClientHello offers and those it sends shares of, each as it stands there; the
/// shares without their random bytes.
fn offered(bytes: &[u8]) -> (Vec<u8>, Vec<(u16, usize)>) {
    let (_, extensions) = extensions(bytes);
    let find = |wanted: u16| extensions.iter().find(|(kind, _)| *kind == wanted).unwrap().1.clone();
    let shares = &bytes[find(51)];
    let word = |at: usize| u16::from_be_bytes([shares[at], shares[at + 1]]);
    let (mut at, mut sent) = (2, Vec::new());
    while at < shares.len() {
        sent.push((word(at), usize::from(word(at + 2))));
        at += 4 + usize::from(word(at + 2));
    }
    (bytes[find(10)].to_vec(), sent)
}

#[test]
fn default_groups_are_unchanged_by_the_provider() {
    with_every_openssl("groups::defaults");
}

#[test]
#[ignore = "started by default_groups_are_unchanged_by_the_provider"]
fn defaults() {
    if !started_again() {
        return;
    }
    let sides = Sides::new();
    let [stock, gabion] = [Side::Stock, Side::Gabion].map(|side| {
        let bytes = SSL.client_hello(&sides.client(side, None));
        (offered(&bytes), bytes)
    });
    assert_eq!(stock.0, gabion.0, "groups and shares");
    assert_eq!(stock.1.len(), gabion.1.len(), "the rest of the ClientHello");
    assert!(stock.0.0.len() > 10 && stock.0.1.contains(&(0x11ec, 1216)), "{:?}", stock.0);
    for group in PRIVATE_GROUPS {
        let number = group.parse::<Algorithm>().unwrap().info().tls.unwrap().number;
        let named = gabion.0.0.windows(2).any(|pair| pair == number.to_be_bytes());
        assert!(!named, "{group} is offered unasked");
        let asked = offered(&SSL.client_hello(&sides.client(Side::Gabion, Some(group))));
        let info = group.parse::<Algorithm>().unwrap().info();
        assert_eq!(asked.1, [(number, info.public_key.max())]);
    }
    // A handshake of defaults on both sides takes the hybrid, and ours serves it.
    for (client, server) in EVERY_WAY {
        let ends = (sides.client(client, None), sides.server(server, None));
        let outcome = SSL.handshake(&ends.0, &ends.1, |_, _| ());
        assert_eq!(outcome, Outcome::Group("X25519MLKEM768".into()));
    }
    assert_eq!(counted("X25519MLKEM768")[2..], [2, 2, 0]);
}

#[test]
fn keys_are_used_as_libssl_does_and_belong_together() {
    with_every_openssl("groups::keys");
}

#[test]
#[ignore = "started by keys_are_used_as_libssl_does_and_belong_together"]
fn keys() {
    if !started_again() {
        return;
    }
    let sides = Sides::new();
    let (context, none) = (&sides.gabion, Params::default());
    for name in GROUPS.into_iter().chain(PRIVATE_GROUPS) {
        let info = name.parse::<Algorithm>().unwrap().info();
        let ours = context.generate(name, OURS, &none).unwrap();
        let public = ours.part("encoded-pub-key").unwrap();
        assert_eq!(public.len(), info.public_key.max());
        let share = context.empty(name, OURS);
        assert_eq!((share.part("encoded-pub-key"), share.provider()), (None, "gabion".into()));
        // SAFETY: live keys, bytes as long as said.
        unsafe {
            let set = LIB.EVP_PKEY_set1_encoded_public_key;
            assert_ne!(set(share.raw, public.as_ptr(), public.len() - 1), 1);
            assert_eq!(set(share.raw, public.as_ptr(), public.len()), 1);
            assert_ne!(set(share.raw, public.as_ptr(), public.len()), 1, "a key is filled once");
            assert_eq!((LIB.EVP_PKEY_eq)(ours.raw, share.raw), 1);
            assert_eq!((LIB.EVP_PKEY_pairwise_check)(ours.operation(OURS).raw), 1);
        }
        assert_eq!(share.part("priv"), None);
        let (ct, secret) = share.encapsulate(OURS, &none).unwrap();
        assert_eq!((ct.len(), secret.len()), (info.output.max(), info.shared_secret), "{name}");
        assert_eq!(ours.decapsulate(OURS, &ct), Some(secret.clone()));
        assert_eq!(ours.decapsulate(OURS, &ct[1..]), None);
        assert!(share.decapsulate(OURS, &ct).is_none(), "a public key opens nothing");
        // Without a seed, and without given randomness.
        assert!(context.generate(name, OURS, &none_with("seed", 64)).is_none());
        assert!(share.encapsulate(OURS, &none_with("ikme", 32)).is_none());
        let copy = gabion_provider_testing::libcrypto::Key {
            context,
            // SAFETY: a live key.
            raw: unsafe { (LIB.EVP_PKEY_dup)(ours.raw) },
        };
        assert_eq!(copy.decapsulate(OURS, &ct), Some(secret.clone()));
        if PRIVATE_GROUPS.contains(&name) {
            continue;
        }
        beside_stock(context, name, &ours);
    }
}

/// Compares keys with the default provider's: the numbers are equal, and each accepts the other's
/// shares.
fn beside_stock(context: &Context, name: &str, ours: &gabion_provider_testing::libcrypto::Key<'_>) {
    let none = Params::default();
    let public = ours.part("encoded-pub-key").unwrap();
    // The same numbers as the default provider's, and keys that cross over.
    let stock = context.generate(name, STOCK, &none).unwrap();
    for number in [LIB.EVP_PKEY_get_bits, LIB.EVP_PKEY_get_security_bits, LIB.EVP_PKEY_get_size] {
        // SAFETY: live keys.
        unsafe { assert_eq!(number(ours.raw), number(stock.raw), "{name}") };
    }
    // The key shares of the wire, in both directions.
    let theirs = context.empty(name, STOCK);
    let from_theirs = stock.part("encoded-pub-key").unwrap();
    let from_stock = context.empty(name, OURS);
    // SAFETY: live keys, bytes as long as said.
    unsafe {
        let set = LIB.EVP_PKEY_set1_encoded_public_key;
        assert_eq!(set(theirs.raw, public.as_ptr(), public.len()), 1);
        assert_eq!(set(from_stock.raw, from_theirs.as_ptr(), from_theirs.len()), 1);
    }
    let (ct, secret) = theirs.encapsulate(STOCK, &none).unwrap();
    assert_eq!(ours.decapsulate(OURS, &ct), Some(secret), "{name}");
    let (ct, secret) = from_stock.encapsulate(OURS, &none).unwrap();
    assert_eq!(stock.decapsulate(STOCK, &ct), Some(secret), "{name}");
    // The default provider hands out no hybrid key on a NIST curve and can use none that comes in
    // with its private half, so only the others cross over as keys.
    if name.starts_with("X25519") {
        for (holder, by) in [(ours, STOCK), (&stock, OURS)] {
            let (ct, secret) = holder.encapsulate(by, &none).expect("the key crosses over");
            for opener in [OURS, STOCK] {
                assert_eq!(holder.decapsulate(opener, &ct), Some(secret.clone()), "{name}");
            }
        }
    }
}

fn none_with(name: &str, len: usize) -> Params {
    Params::default().octets(name, &vec![3; len])
}
