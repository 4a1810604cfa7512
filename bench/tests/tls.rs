//! The TLS harness against the OpenSSL bundle, and against its absence.
//!
//! Tests that shake hands need a bundle; without one they say so and pass, since a machine may
//! run the unit tests before it has built OpenSSL. `GABION_TEST_NEEDS_BUNDLE=1` turns that into a
//! failure, for the suite that builds the bundle first.

#![allow(clippy::expect_used, clippy::unwrap_used)] // A panic is how a test fails, in its helpers too.

use gabion_bench::Error;
use gabion_bench::tls::{
    self, Config, Probe, Provider, Row, Stack, Witness, compare, compare_watched,
};
use gabion_ship::environment::Settings;

/// The bundle's place, as every command finds it.
fn settings() -> Settings {
    Settings::from_process().expect("the GABION_OPENSSL variables are sound")
}

/// A short run: ten slices of 10 ms for each provider.
fn config(providers: &[Provider]) -> Config {
    Config {
        providers: providers.to_vec(),
        seconds: 0.1,
        modules: Some(settings().modules()),
        ..Config::new(settings().layout.prefix().to_path_buf())
    }
}

/// Returns whether there is a bundle to test against.
fn bundle() -> bool {
    let prefix = settings().layout.prefix().to_path_buf();
    let found = settings().require_bundle().is_ok();
    let needed = std::env::var_os("GABION_TEST_NEEDS_BUNDLE").is_some();
    assert!(found || !needed, "no bundle at {}", prefix.display());
    if !found {
        eprintln!("not run: no OpenSSL bundle at {}", prefix.display());
    }
    found
}

fn check(row: &Row, config: &Config, scheme: &str) {
    assert_eq!(row.version, "TLSv1.3");
    assert!(row.group.eq_ignore_ascii_case(&config.group), "{}", row.group);
    assert_eq!(row.sig, config.signature);
    assert_eq!(row.signature_scheme, scheme);
    assert_eq!(row.threads, config.threads);
    assert!(row.samples >= 10);
    assert!(row.handshakes >= row.samples as u64);
    assert!(row.server_us > 1.0 && row.client_us > 1.0);
    // The loop holds both sides and a little more, so its rate is below what the sides allow.
    let bound = 1e6 / (row.spread.server_us.p20 + row.spread.client_us.p20);
    assert!(row.spread.handshakes_per_cpu_s.p20 < bound);
    let spread = &row.spread.server_us;
    assert!(spread.p20 <= row.server_us && row.server_us <= spread.p80);
}

/// Measures rustls with either provider and libssl with either, in one run.
#[test]
fn rustls_takes_turns_with_libssl() {
    if !bundle() {
        return;
    }
    let stacks = vec![Stack::Openssl, Stack::Rustls];
    let config = Config { stacks, ..config(&[]) };
    let rows = compare(&config).unwrap();
    let lanes: Vec<_> = rows.iter().map(|row| (row.stack, row.provider)).collect();
    let of_libssl = [Provider::Default, Provider::Gabion].map(|name| (Stack::Openssl, name));
    let of_rustls = [Provider::AwsLcRs, Provider::Gabion].map(|name| (Stack::Rustls, name));
    assert_eq!(lanes, [of_libssl, of_rustls].concat());
    for row in &rows {
        check(row, &config, "mldsa65");
        // A ClientHello has a share of ML-KEM-768, and a server's flight two keys and signatures of ML-DSA-65.
        assert!(row.bytes_c2s > 1216 && row.bytes_s2c > 2 * 3309 + 1952, "{row:?}");
    }
    assert!(tls::render(&rows).contains("rustls"));
}

/// Every signature that libssl has, and groups that aws-lc-rs lacks.
#[test]
fn rustls_is_measured_with_every_certificate_and_group() {
    if !bundle() {
        return;
    }
    let base = Config { stacks: vec![Stack::Rustls], seconds: 0.02, ..config(&[]) };
    for (signature, scheme) in [
        ("ML-DSA-44", "mldsa44"),
        ("ML-DSA-87", "mldsa87"),
        ("ECDSA-P-256", "ecdsa_secp256r1_sha256"),
        ("ECDSA-P-384", "ecdsa_secp384r1_sha384"),
        ("Ed25519", "ed25519"),
        ("RSA-2048", "rsa_pss_rsae_sha256"),
    ] {
        let config = Config { signature: signature.into(), ..base.clone() };
        for row in compare(&config).unwrap() {
            assert_eq!((row.stack, &row.signature_scheme[..]), (Stack::Rustls, scheme));
            let rsa = signature == "RSA-2048";
            let signs = if rsa { Provider::AwsLcRs } else { row.provider };
            assert_eq!(row.signature_provider, signs.name());
        }
    }
    for (group, count) in [
        ("default", 2),
        ("MLKEM512", 1),
        ("SecP384r1MLKEM1024", 1),
        ("SecP521r1MLKEM1024", 1),
        ("x25519", 2),
    ] {
        let config =
            Config { group: group.into(), signature: "ECDSA-P-256".into(), ..base.clone() };
        assert_eq!(compare(&config).unwrap().len(), count, "{group}");
    }
    let both = |providers: &[Provider]| Config { providers: providers.to_vec(), ..base.clone() };
    assert_eq!(compare(&both(&[Provider::Default])).unwrap()[0].provider, Provider::AwsLcRs);
    assert!(matches!(compare(&both(&[Provider::Fips])), Err(Error::Usage(_))));
    let of_libssl = config(&[Provider::AwsLcRs]);
    assert!(matches!(compare(&of_libssl), Err(Error::Usage(_))));
    let lacking = Config { group: "MLKEM512".into(), ..both(&[Provider::AwsLcRs]) };
    assert!(matches!(compare(&lacking), Err(Error::NotReady(_))));
}

#[test]
fn every_signature_is_negotiated_and_counted() {
    if !bundle() {
        return;
    }
    // Bytes of public key and signature, by FIPS 204, table 2.
    for (signature, scheme, key_and_signatures) in [
        ("ML-DSA-44", "mldsa44", 1312 + 2 * 2420),
        ("ML-DSA-65", "mldsa65", 1952 + 2 * 3309),
        ("ML-DSA-87", "mldsa87", 2592 + 2 * 4627),
        ("ECDSA-P-256", "ecdsa_secp256r1_sha256", 65 + 2 * 70),
        ("ECDSA-P-384", "ecdsa_secp384r1_sha384", 97 + 2 * 102),
        ("Ed25519", "ed25519", 32 + 2 * 64),
        ("RSA-2048", "rsa_pss_rsae_sha256", 256 + 2 * 256),
    ] {
        let config = Config { signature: signature.into(), ..config(&[Provider::Default]) };
        let rows = compare(&config).expect(signature);
        check(&rows[0], &config, scheme);
        assert_eq!(rows[0].signature_provider, "default");
        // Leaf certificate (key and one signature), CertificateVerify, and the key share of
        // X25519MLKEM768; 250 to 700 bytes are names, headers, Finished and the like.
        let known = key_and_signatures + 1088 + 32;
        let rest = rows[0].bytes_s2c as i64 - known;
        assert!((250..700).contains(&rest), "{signature}: {rest} bytes of the rest");
    }
}

#[test]
fn every_group_is_negotiated_and_counted() {
    if !bundle() {
        return;
    }
    // Bytes of both key shares.
    for (group, client, server) in [
        ("X25519MLKEM768", 1184 + 32, 1088 + 32),
        ("SecP256r1MLKEM768", 65 + 1184, 65 + 1088),
        ("SecP384r1MLKEM1024", 97 + 1568, 97 + 1568),
        ("MLKEM512", 800, 768),
        ("MLKEM768", 1184, 1088),
        ("MLKEM1024", 1568, 1568),
        ("x25519", 32, 32),
        ("secp256r1", 65, 65),
        ("secp384r1", 97, 97),
    ] {
        let config = Config {
            group: group.into(),
            signature: "Ed25519".into(),
            ..config(&[Provider::Default])
        };
        let row = compare(&config).expect(group).remove(0);
        check(&row, &config, "ed25519");
        assert_eq!(row.kem_provider, "default");
        // The remaining bytes do not depend on the share, except for the client's list of point
        // formats, 8 bytes, which OpenSSL sends with a classical curve only.
        let classical = group.starts_with("sec") || group.starts_with('x');
        let rest = (row.bytes_c2s - client, row.bytes_s2c - server);
        assert_eq!(rest, (if classical { 283 } else { 275 }, 612), "{group}");
    }
}

#[test]
fn fips_serves_with_its_own_code() {
    if !bundle() {
        return;
    }
    let config = Config {
        threads: 2,
        cipher: Some("tls_aes_128_gcm_sha256".into()),
        ..config(&[Provider::Default, Provider::Fips])
    };
    let rows = compare(&config).expect("the bundle holds the FIPS provider");
    assert_eq!(rows.len(), 2);
    for row in &rows {
        check(row, &config, "mldsa65");
        assert_eq!(row.cipher, "TLS_AES_128_GCM_SHA256");
    }
    assert_eq!(rows[1].provider, Provider::Fips);
    assert_eq!((&*rows[1].kem_provider, &*rows[1].signature_provider), ("fips", "fips"));
}

/// Returns whether there is a bundle with our module in it.
fn module() -> bool {
    if !bundle() {
        return false;
    }
    let module = settings().modules().join("gabion.so");
    if !module.exists() {
        assert!(std::env::var_os("GABION_TEST_NEEDS_BUNDLE").is_none());
        eprintln!("not run: no {}", module.display());
    }
    module.exists()
}

#[test]
fn gabion_serves_its_groups_and_signatures() {
    if !module() {
        return;
    }
    for (group, signature, kem, signer) in [
        ("X25519MLKEM768", "ML-DSA-65", "gabion", "gabion"),
        ("SecP384r1MLKEM1024", "ML-DSA-87", "gabion", "gabion"),
        ("MLKEM512", "ML-DSA-44", "gabion", "gabion"),
        ("SecP256r1MLKEM768", "ECDSA-P-256", "gabion", "default"),
        ("x25519", "ML-DSA-65", "default", "gabion"),
    ] {
        let config =
            Config { group: group.into(), signature: signature.into(), threads: 2, ..config(&[]) };
        let rows = compare(&config).expect(group);
        let served: Vec<(Provider, &str, &str)> = rows
            .iter()
            .map(|row| (row.provider, &*row.kem_provider, &*row.signature_provider))
            .collect();
        assert_eq!(served[0], (Provider::Default, "default", "default"), "{group}");
        assert_eq!(served[1], (Provider::Gabion, kem, signer), "{group}");
        for row in &rows {
            check(row, &config, &row.signature_scheme);
        }
        // All providers send the same number of bytes; ECDSA signatures vary by a few bytes.
        assert_eq!(rows[0].bytes_c2s, rows[1].bytes_c2s, "{group}");
        assert!(rows[0].bytes_s2c.abs_diff(rows[1].bytes_s2c) <= 4, "{group}");
    }
}

#[test]
fn provider_only_algorithms_are_measured_alone() {
    if !module() {
        return;
    }
    let measured = |group: &str, signature: &str, scheme: &str| {
        let config = Config { group: group.into(), signature: signature.into(), ..config(&[]) };
        let mut rows = compare(&config).expect(signature);
        assert_eq!(rows.len(), 1);
        check(&rows[0], &config, scheme);
        assert_eq!((rows[0].provider, &*rows[0].kem_provider), (Provider::Gabion, "gabion"));
        rows.remove(0)
    };
    for (group, client, server) in [
        ("SecP256r1MLKEM512", 65 + 800, 65 + 768),
        ("SecP384r1MLKEM768", 97 + 1184, 97 + 1088),
        ("SecP521r1MLKEM1024", 133 + 1568, 133 + 1568),
        ("MLKEM512X25519", 800 + 32, 768 + 32),
    ] {
        let row = measured(group, "Ed25519", "ed25519");
        // As of every other hybrid.
        assert_eq!((row.bytes_c2s - client, row.bytes_s2c - server), (275, 612), "{group}");
    }
    // Bytes of public key and signature, of Falcon the mean, and records beyond one a message.
    for (signature, scheme, key, signed, records) in [
        ("SLH-DSA-SHA2-128f", "slhdsa_sha2_128f", 32, 17_088, 2),
        ("Falcon-1024", "falcon1024", 1793, 1271, 0),
        ("Falcon-padded-512", "falconpadded512", 897, 666, 0),
    ] {
        let row = measured("X25519MLKEM768", signature, scheme);
        assert_eq!(row.signature_provider, "gabion");
        let known = key + 2 * signed + 1088 + 32 + records * 22;
        let rest = row.bytes_s2c as i64 - known;
        assert!((250..700).contains(&rest), "{signature}: {rest} bytes of the rest");
    }
    for (group, signature, missing) in [
        ("p521_mlkem1024", "ML-DSA-87", "SecP521r1MLKEM1024"),
        ("X25519MLKEM768", "Falcon-512", "Falcon-512"),
        ("X25519MLKEM768", "slhdsa_shake_128s", "SLH-DSA-SHAKE-128s"),
    ] {
        let config = Config {
            group: group.into(),
            signature: signature.into(),
            ..config(&[Provider::Gabion, Provider::Default])
        };
        let error = compare(&config).unwrap_err();
        let expected = format!("OpenSSL has no {missing} in TLS: only --provider gabion has");
        assert_eq!(error, Error::Usage(expected));
    }
}

#[test]
fn a_row_has_the_promised_fields() {
    if !bundle() {
        return;
    }
    let row = compare(&config(&[Provider::Default])).expect("default is built in").remove(0);
    let json = serde_json::to_value(&row).expect("a row is plain data");
    let object = json.as_object().expect("an object");
    for field in [
        "group",
        "sig",
        "provider",
        "cipher",
        "threads",
        "handshakes",
        "handshakes_per_cpu_s",
        "server_us",
        "client_us",
        "bytes_c2s",
        "bytes_s2c",
        "samples",
        "machine",
        "version",
        "signature_scheme",
        "kem_provider",
        "signature_provider",
        "openssl",
        "spread",
        "groups",
        "stack",
    ] {
        assert!(object.contains_key(field), "{field} is missing");
    }
    assert_eq!(object.len(), 21);
    assert_eq!(json["provider"], "default");
    for field in ["cpu", "cores", "features", "kernel", "compiler"] {
        assert!(!json["machine"][field].is_null(), "machine.{field} is missing");
    }
    for field in ["handshakes_per_cpu_s", "server_us", "client_us"] {
        assert!(json["spread"][field]["p20"].is_number(), "spread.{field} is missing");
    }
    let table = tls::render(&[row.clone(), row]);
    assert!(table.contains("server CPU, us") && table.contains("1.00x"), "{table}");
}

/// A witness that remembers, and that can object.
#[derive(Default)]
struct Watch {
    seen: Vec<String>,
    objection: Option<&'static str>,
}

impl Witness for Watch {
    fn before(&mut self, provider: Provider) -> Result<(), String> {
        self.seen.push(format!("before {}", provider.name()));
        Ok(())
    }

    fn after(&mut self, probe: &Probe) -> Result<(), String> {
        self.seen.push(format!("after {} {}", probe.provider.name(), probe.group));
        self.objection.map_or(Ok(()), |text| Err(text.into()))
    }
}

#[test]
fn a_witness_sees_the_checked_handshake_and_can_stop_the_run() {
    if !bundle() {
        return;
    }
    let mut watch = Watch::default();
    compare_watched(&config(&[Provider::Default]), &mut watch).expect("nobody objects");
    assert_eq!(watch.seen, ["before default", "after default X25519MLKEM768"]);
    watch.objection = Some("the counters did not move");
    let error = compare_watched(&config(&[Provider::Default]), &mut watch).unwrap_err();
    assert_eq!(error, Error::Failed("the counters did not move".into()));
}

#[test]
fn an_unknown_suite_is_refused_with_openssls_reason() {
    if !bundle() {
        return;
    }
    let config = Config { cipher: Some("TLS_ROT13".into()), ..config(&[Provider::Default]) };
    let error = compare(&config).unwrap_err();
    assert!(matches!(error, Error::Usage(_)), "{error:?}");
    let text = error.to_string();
    assert!(text.contains("TLS_ROT13") && text.contains("no cipher match"), "{text}");
}

#[test]
fn invalid_measurements_are_usage_errors() {
    let change: [fn(&mut Config); 7] = [
        |config| config.group = "KYBER9000".into(),
        |config| config.signature = "ML-DSA-66".into(),
        |config| config.seconds = 0.0,
        |config| config.seconds = f64::NAN,
        |config| config.seconds = f64::INFINITY,
        |config| config.threads = 0,
        |config| config.threads = 100_000,
    ];
    for change in change {
        let mut wrong = config(&[]);
        change(&mut wrong);
        let error = compare(&wrong).unwrap_err();
        assert!(matches!(error, Error::Usage(_)), "{wrong:?}: {error:?}");
    }
}

#[test]
fn a_missing_bundle_is_named_with_its_remedy() {
    let empty = std::env::temp_dir().join("gabion-no-openssl-here");
    let error = compare(&Config::new(empty.clone())).unwrap_err();
    assert!(matches!(error, Error::NotReady(_)), "{error:?}");
    let text = error.to_string();
    assert!(text.contains(&*empty.to_string_lossy()), "{text}");
    assert!(text.contains("gabion bundle build"), "{text}");
}

/// Default's figures must never stand in the name of a provider that did not load.
#[test]
fn a_provider_without_a_module_is_an_error() {
    if !bundle() {
        return;
    }
    let config = Config {
        modules: Some(std::env::temp_dir().join("gabion-no-modules-here")),
        ..config(&[])
    };
    let error = compare(&config).unwrap_err();
    assert!(matches!(error, Error::NotReady(_)), "{error:?}");
    let text = error.to_string();
    assert!(text.contains("the provider `gabion` did not load"), "{text}");
    assert!(text.contains("gabion.so: cannot open shared object file"), "{text}");
}

/// A provider that loads under our name and offers nothing, as one built for another time would.
const IDLE_PROVIDER: &str = r#"
struct dispatch { int id; void (*function)(void); };
static int capabilities(void *provider, const char *kind, void *callback, void *argument) {
    (void)provider, (void)kind, (void)callback, (void)argument;
    return 1;
}
static const struct dispatch table[] = {{1030, (void (*)(void))capabilities}, {0, 0}};
int OSSL_provider_init(const void *core, const struct dispatch *in, const struct dispatch **out,
                       void **provider) {
    (void)in;
    *out = table;
    *provider = (void *)core;
    return 1;
}
"#;

/// OpenSSL says nothing when a preferred provider lacks an algorithm; the harness has to.
#[test]
fn a_provider_that_leaves_the_work_to_default_is_an_error() {
    if !bundle() {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let source = folder.path().join("idle.c");
    std::fs::write(&source, IDLE_PROVIDER).expect("a temporary file");
    let compiled = std::process::Command::new("cc")
        .args(["-shared", "-fPIC", "-o"])
        .args([&folder.path().join("gabion.so"), &source])
        .status()
        .expect("a C compiler, which Rust links with");
    assert!(compiled.success());
    let modules = Some(folder.path().to_path_buf());
    let error = compare(&Config { modules: modules.clone(), ..config(&[]) }).unwrap_err();
    assert!(matches!(error, Error::NotReady(_)), "{error:?}");
    let text = error.to_string();
    assert!(text.contains("X25519MLKEM768 would be served by `default`"), "{text}");
    let classical = Config { modules: modules.clone(), group: "x25519".into(), ..config(&[]) };
    let text = compare(&classical).unwrap_err().to_string();
    assert!(text.contains("ML-DSA-65 would be served by `default`"), "{text}");
    // If there is nothing for Gabion to serve, users get the default provider's code.
    let row = compare(&Config { signature: "Ed25519".into(), ..classical })
        .expect("a classical handshake")
        .remove(1);
    assert_eq!(row.provider, Provider::Gabion);
    assert_eq!((&*row.kem_provider, &*row.signature_provider), ("default", "default"));
}

#[test]
fn missing_provider_algorithm_is_reported_as_not_ready() {
    if !bundle() {
        return;
    }
    let config = Config { group: "x25519".into(), ..config(&[Provider::Fips]) };
    let error = compare(&config).unwrap_err();
    assert!(matches!(error, Error::NotReady(_)), "{error:?}");
    let text = error.to_string();
    assert!(text.contains("`fips` cannot serve") && text.contains("X25519"), "{text}");
}
