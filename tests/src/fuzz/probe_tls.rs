//! The first flight of a TLS server, as the probe reads it. The first byte chooses the offer, the
//! second whether edits of a good answer follow or the answer itself.

use gabion_probe::raw::{
    self, Answer, KeyShare, Offer, TLS1_3, cipher_suite_name, client_hello, group_name,
};

use super::Input;

fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len()).unwrap().to_be_bytes();
    [&[kind], &length[1..], body].concat()
}

fn record(body: &[u8]) -> Vec<u8> {
    let length = u16::try_from(body.len()).unwrap().to_be_bytes();
    [&[22, 3, 3], &length[..], body].concat()
}

/// A ServerHello of that suite, with the session ID of the probe's hello or none.
fn hello(offer: &Offer<'_>, random: &[u8; 32], suite: [u8; 2], extensions: &[u8]) -> Vec<u8> {
    let sent = client_hello(offer, [0; 32]);
    // Behind the record's header, the message's, the version and the random.
    let id = if extensions.starts_with(&[0, 43]) { &sent[43..76] } else { &[0][..] };
    let length = u16::try_from(extensions.len()).unwrap().to_be_bytes();
    message(2, &[&[3, 3], &random[..], id, &suite, &[0], &length, extensions].concat())
}

/// A HelloRetryRequest, a ServerHello, and flights of TLS 1.2 with ECDHE, DHE and RSA.
fn answers() -> [Vec<u8>; 5] {
    let offer = Offer::new(None);
    let retry =
        crate::vectors::unhex("cf21ad74e59a6111be1d8c021e65b891c2a211167abb8c5e079e09e2c8a8339c");
    let retry: [u8; 32] = retry.try_into().unwrap();
    let share = [&[0, 43, 0, 2, 3, 4, 0, 51, 0, 36, 0, 0x1d, 0, 32][..], &[5; 32]].concat();
    let asks = [0, 43, 0, 2, 3, 4, 0, 51, 0, 2, 0x11, 0xec];
    let certificate = message(11, &[&[0, 0, 7, 0, 0, 4][..], b"leaf"].concat());
    let done = message(14, &[]);
    let curve = message(12, &[3, 0, 0x17, 2, 4, 4, 8, 4, 0, 3, 1, 2, 3]);
    let field = message(12, &[0, 2, 0x80, 1, 0, 1, 2, 0, 1, 3, 8, 4, 0, 2, 1, 1]);
    let flight = |suite, parameters: &[u8]| {
        let hello = hello(&offer, &[9; 32], suite, &[0, 23, 0, 0]);
        record(&[&hello, &certificate[..], parameters, &done].concat())
    };
    [
        record(&hello(&offer, &retry, [0x13, 2], &asks)),
        record(&hello(&offer, &[9; 32], [0x13, 1], &share)),
        flight([0xc0, 0x2f], &curve),
        flight([0, 0x9e], &field),
        flight([0, 0x2f], &[]),
    ]
}

fn offer(choice: u8) -> Offer<'static> {
    let offer = Offer::new((choice & 4 != 0).then_some("a.example"));
    let key_share = if choice & 1 == 0 { KeyShare::Empty } else { KeyShare::X25519 };
    let offer = Offer { key_share, ..offer };
    if choice & 2 == 0 { offer } else { offer.without_tls13() }
}

fn check(answer: &Answer, offer: &Offer<'_>) {
    assert!(offer.versions.contains(&answer.version));
    assert!(offer.cipher_suites.contains(&answer.cipher_suite));
    assert!(!cipher_suite_name(answer.cipher_suite).starts_with("0x"));
    if let Some(group) = answer.group {
        assert!(offer.groups.contains(&group) && !group_name(group).starts_with("0x"));
    }
    let is_tls13 = answer.version == TLS1_3;
    assert_eq!(answer.certificates.is_empty(), is_tls13);
    assert!(answer.certificates.len() <= 32);
    assert!(is_tls13 || !answer.is_hello_retry_request);
    assert!(!is_tls13 || answer.group.is_some());
    assert!(answer.group.is_none() || answer.dhe_bits.is_none());
}

pub fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let offer = offer(input.byte());
    let answers = answers();
    let bytes = match answers.get(usize::from(input.byte() % 8)) {
        Some(answer) => input.edited(answer),
        None => input.rest().to_vec(),
    };
    match raw::read_answer(&mut &bytes[..], &offer) {
        Ok(answer) => check(&answer, &offer),
        Err(error) => assert!(error.to_string().len() < 200),
    }
}

pub fn seeds() -> Vec<Vec<u8>> {
    let mut seeds: Vec<Vec<u8>> =
        answers().iter().map(|answer| [&[0, 7], &answer[..]].concat()).collect();
    seeds.push([&[1, 7], &answers()[1][..]].concat());
    seeds.extend((0..8).flat_map(|offer| (0..5).map(move |answer| vec![offer, answer, 0])));
    seeds.push(b"\0\x07\x15\x03\x03\0\x02\x02\x28".to_vec());
    seeds.push(b"\0\x07HTTP/1.1 400 Bad Request\r\n".to_vec());
    seeds
}
