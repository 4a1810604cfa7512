use super::*;
use crate::raw::{TLS1_0, client_hello};

fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len()).unwrap().to_be_bytes();
    [&[kind], &length[1..], body].concat()
}

fn record(kind: u8, body: &[u8]) -> Vec<u8> {
    let length = u16::try_from(body.len()).unwrap().to_be_bytes();
    [&[kind, 3, 3], &length[..], body].concat()
}

/// A ServerHello with extensions.
fn hello(version: u16, random: [u8; 32], id: &[u8], suite: u16, extensions: &[u8]) -> Vec<u8> {
    let mut body = version.to_be_bytes().to_vec();
    body.extend(random);
    body.push(u8::try_from(id.len()).unwrap());
    body.extend(id);
    body.extend(suite.to_be_bytes());
    body.push(0);
    if !extensions.is_empty() {
        body.extend(u16::try_from(extensions.len()).unwrap().to_be_bytes());
        body.extend(extensions);
    }
    message(2, &body)
}

const VERSIONS_1_3: [u8; 6] = [0, 43, 0, 2, 3, 4];

fn retry(group: u16) -> Vec<u8> {
    let [high, low] = group.to_be_bytes();
    let extensions = [&VERSIONS_1_3[..], &[0, 51, 0, 2, high, low]].concat();
    record(22, &hello(0x0303, RETRY, &SESSION_ID, 0x1302, &extensions))
}

fn hello_1_3() -> Vec<u8> {
    let mut extensions = [&[0, 51, 0, 36, 0, 0x1d, 0, 32][..], &[5; 32]].concat();
    extensions.extend(VERSIONS_1_3);
    record(22, &hello(0x0303, [9; 32], &SESSION_ID, 0x1301, &extensions))
}

/// A flight of TLS 1.2 with two certificates, with ECDHE on P-256.
fn flight_1_2() -> Vec<Vec<u8>> {
    let certificate = [&[0, 0, 11, 0, 0, 4][..], b"leaf", &[0, 0, 1], b"c"].concat();
    let point = [&[3, 0, 0x17, 2, 4, 4][..], &[8, 4, 0, 3, 1, 2, 3]].concat();
    vec![
        hello(0x0303, [9; 32], &[], 0xc02f, &[0xff, 1, 0, 1, 0, 0, 23, 0, 0]),
        message(11, &certificate),
        message(22, &[1, 0, 0, 0]),
        message(12, &point),
        message(13, &[1, 1, 0, 2, 4, 3, 0, 0]),
        message(14, &[]),
    ]
}

fn read(bytes: &[u8], offer: &Offer<'_>) -> Result<Answer, RawError> {
    let mut bytes = bytes;
    read_answer(&mut bytes, offer)
}

fn refusal(bytes: &[u8], offer: &Offer<'_>) -> String {
    read(bytes, offer).unwrap_err().to_string()
}

#[test]
fn a_hello_retry_request_names_the_preferred_group() {
    let offer = Offer::new(Some("a.example"));
    let answer = read(&retry(0x11ec), &offer).unwrap();
    let expected = Answer {
        version: TLS1_3,
        cipher_suite: 0x1302,
        group: Some(0x11ec),
        is_hello_retry_request: true,
        ..Answer::default()
    };
    assert_eq!(answer, expected);
    let share = Offer { key_share: KeyShare::X25519, ..offer };
    assert_eq!(read(&retry(0x11ec), &share).unwrap(), expected);
    let again = refusal(&retry(0x001d), &share);
    assert!(again.ends_with("a key share of x25519, which the client did not offer"), "{again}");
}

#[test]
fn a_server_hello_of_tls_1_3_answers_the_share() {
    let offer = Offer { key_share: KeyShare::X25519, ..Offer::new(None) };
    let answer = read(&hello_1_3(), &offer).unwrap();
    assert_eq!((answer.version, answer.cipher_suite), (TLS1_3, 0x1301));
    assert_eq!((answer.group, answer.is_hello_retry_request), (Some(0x001d), false));
    // Without a share there is nothing that it could answer.
    assert!(matches!(read(&hello_1_3(), &Offer::new(None)), Err(RawError::NotOffered(_))));
}

#[test]
fn a_flight_of_tls_1_2_is_read_in_any_records() {
    let offer = Offer::new(None);
    let messages = flight_1_2();
    let together = record(22, &messages.concat());
    let answer = read(&together, &offer).unwrap();
    assert_eq!(answer.version, TLS1_2);
    assert_eq!(answer.group, Some(0x0017));
    assert_eq!(answer.signature_scheme, Some(0x0804));
    assert_eq!(answer.certificates, [b"leaf".to_vec(), b"c".to_vec()]);
    assert_eq!(answer.dhe_bits, None);
    for size in [1, 7, 64] {
        let pieces = messages.concat();
        let records: Vec<u8> = pieces.chunks(size).flat_map(|piece| record(22, piece)).collect();
        assert_eq!(read(&records, &offer).unwrap(), answer, "records of {size} bytes");
    }
    // A warning, such as unrecognized_name, may precede the flight.
    let warned = [record(21, &[1, 112]), together].concat();
    assert_eq!(read(&warned, &offer).unwrap(), answer);
}

#[test]
fn finite_fields_have_a_size_and_rsa_transport_has_no_group() {
    let offer = Offer::new(None);
    let mut messages = flight_1_2();
    let mut parameters = vec![0, 129, 0, 0x80];
    parameters.extend([1; 127]);
    parameters.extend([0, 1, 2, 0, 1, 3]);
    // TLS 1.0 names no scheme.
    parameters.extend([0, 2, 1, 1]);
    messages[0] = hello(TLS1_0, [9; 32], &[1, 2], 0x0033, &[]);
    messages[3] = message(12, &parameters);
    let answer = read(&record(22, &messages.concat()), &offer).unwrap();
    assert_eq!((answer.version, answer.dhe_bits, answer.group), (TLS1_0, Some(1024), None));
    assert_eq!(answer.signature_scheme, None);

    messages[0] = hello(TLS1_0, [9; 32], &[], 0x002f, &[]);
    let twelve = read(&record(22, &messages.concat()), &offer);
    assert!(matches!(twelve, Err(RawError::Unexpected(12))), "{twelve:?}");
    messages.remove(3);
    let answer = read(&record(22, &messages.concat()), &offer).unwrap();
    assert_eq!((answer.cipher_suite, answer.group, answer.dhe_bits), (0x002f, None, None));
}

#[test]
fn malformed_answers_are_named() {
    let offer = Offer::new(None);
    let messages = flight_1_2();
    let without = |at: usize| {
        let mut messages = messages.clone();
        messages.remove(at);
        record(22, &messages.concat())
    };
    let twice = [&VERSIONS_1_3[..], &VERSIONS_1_3].concat();
    let cases: [(&str, Vec<u8>); 17] = [
        ("after 0 bytes", Vec::new()),
        ("after 9 bytes", record(22, &messages.concat())[..9].to_vec()),
        ("does not speak TLS: its answer begins with \"HTTP/\"", b"HTTP/1.1 400".to_vec()),
        ("the alert handshake_failure", record(21, &[2, 40])),
        ("the alert close_notify", record(21, &[1, 0])),
        ("the alert unrecognized_name", record(21, &[1, 112]).repeat(5)),
        ("handshake record is empty", record(22, &[])),
        ("longer than 16,384 bytes", [&[22, 3, 3, 0x40, 1][..], &[0; 0x4001]].concat()),
        ("more than 262144 bytes", record(22, &[2, 4, 0, 1])),
        ("message of type 23", record(23, &[1])),
        ("message of type 11", record(22, &messages[1])),
        ("message of type 22", without(1)),
        ("message of type 14", without(3)),
        ("an extension is repeated", record(22, &hello(0x303, RETRY, &[], 0x1301, &twice))),
        ("needs supported_versions", record(22, &hello(0x303, RETRY, &[], 0x1301, &[]))),
        ("selected SSLv3", record(22, &hello(0x300, [9; 32], &[], 0x2f, &[]))),
        ("TLS_AES_128_GCM_SHA256 in TLSv1.2", record(22, &hello(0x303, [9; 32], &[], 0x1301, &[]))),
    ];
    for (expected, bytes) in cases {
        let refusal = refusal(&bytes, &offer);
        assert!(refusal.contains(expected), "{refusal}; expected {expected}");
    }
}

/// A server that never ends is read to the limit and no further.
#[test]
fn endless_flights_are_cut() {
    struct Endless(Vec<u8>, usize);
    impl Read for Endless {
        fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
            for byte in out.iter_mut() {
                *byte = self.0[self.1 % self.0.len()];
                self.1 += 1;
            }
            Ok(out.len())
        }
    }
    let offer = Offer::new(None);
    let mut flight = flight_1_2();
    flight.truncate(2);
    let status = message(22, &vec![0; 200 << 10]).repeat(4);
    let mut bytes = record(22, &flight.concat());
    bytes.extend(status.chunks(1 << 14).flat_map(|piece| record(22, piece)));
    let mut endless = Endless(bytes, 0);
    let error = read_answer(&mut endless, &offer).unwrap_err();
    assert!(matches!(error, RawError::TooLong(_)), "{error}");
    assert!(endless.1 <= 513 << 10, "{} bytes", endless.1);
    let mut endless = Endless(record(21, &[1, 112]), 0);
    assert!(matches!(read_answer(&mut endless, &offer), Err(RawError::Alert(112))));
}

/// Every truncation and single-bit change of good answers is read without a panic; a truncation is
/// never accepted.
#[test]
fn mutations_do_not_panic() {
    let share = Offer { key_share: KeyShare::X25519, ..Offer::new(Some("a.example")) };
    let seeds = [retry(0x11ec), hello_1_3(), record(22, &flight_1_2().concat())];
    for seed in &seeds {
        assert!(read(seed, &share).is_ok());
        for end in 0..seed.len() {
            assert!(read(&seed[..end], &share).is_err(), "{end} of {} bytes", seed.len());
        }
        for bit in 0..seed.len() * 8 {
            let mut changed = seed.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            let _ = read(&changed, &share);
        }
    }
    assert_eq!(client_hello(&share, [0; 32])[0], 22);
}
