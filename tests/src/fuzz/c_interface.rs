//! The C interface: calls in any order, with lengths that are right, one off, zero or absurd, and
//! with NULL wherever a pointer may be NULL.
//!
//! The caller's obligations in gabion.h are fulfilled (a pointer that is not NULL has as many bytes
//! as its length says); everything else is up to the input. Every buffer has exactly its length, so
//! that AddressSanitizer detects an access one byte too far.

use std::ffi::{CString, c_char};
use std::ptr::{null, null_mut};

use gabion::{Message, PrivateKey, PublicKey, Sizes};
use gabion_engine::Algorithm;

use super::fixtures::{self, KeyFixture};
use super::input::Input;

/// Algorithms that take microseconds, one of each family that the interface has.
const CHOICES: [Algorithm; 8] = [
    Algorithm::MlKem512,
    Algorithm::MlKem768,
    Algorithm::X25519MlKem768,
    Algorithm::MlDsa44,
    Algorithm::Ed25519,
    Algorithm::EcdsaP256,
    Algorithm::Falcon512,
    Algorithm::X25519,
];

/// Texts that are no names of algorithms.
const NO_NAMES: [&[u8]; 4] = [b"", b"ML-KEM", b"\xff\xfe", b"ML-DSA-44 "];

/// Most lanes of a batch.
const LANES_MAX: usize = 6;

/// The codes of gabion.h but GABION_E_FAULT, which no input may cause.
const CODES: std::ops::RangeInclusive<i32> = -10..=0;
const FAULT: i32 = -9;
const NULL_MISUSE: i32 = -2;

/// Each call by itself behind keys that were made, with right and with wrong arguments.
pub fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for row in 0..u8::try_from(CHOICES.len()).expect("eight") {
        // A private key, its public key, then one call after another.
        let begin = [2, row, 0, 0, 5, 0];
        for call in 0..CALLS {
            seeds.push([&begin[..], &[call, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]].concat());
            seeds.push([&begin[..], &[call, 0, 3, 1, 2, 1, 1, 4, 2, 3, 5, 1]].concat());
        }
        for choice in 0..5 {
            // Several keys, then a batch with one of them.
            let many = [17, row, 5, choice, 11, 0, 3, 0, 0, 0, 0, 14, 0, 3, 0, 0, 0, 0];
            seeds.push([&begin[..], &many].concat());
        }
        seeds.push([&begin[..], &[14, 0, 3, 0, 0, 0, 0, 15, 0, 3, 0, 0, 0, 0]].concat());
        seeds.push([&begin[..], &[10, 0, 4, 0, 0, 0, 0, 11, 0, 4, 0, 0, 0, 0]].concat());
    }
    seeds
}

/// Handles that were made, and the calls that use them.
#[derive(Default)]
struct World {
    private: Vec<*mut PrivateKey>,
    public: Vec<*mut PublicKey>,
}

impl Drop for World {
    fn drop(&mut self) {
        // SAFETY: every handle came from the library and is freed once.
        unsafe {
            self.private.drain(..).for_each(|key| gabion::gabion_private_key_free(key));
            self.public.drain(..).for_each(|key| gabion::gabion_public_key_free(key));
        }
    }
}

/// The material of an algorithm, and a name to ask for it by: its own, none, or one of nothing.
fn a_name(input: &mut Input<'_>) -> (&'static KeyFixture, Option<CString>) {
    let row = usize::from(input.byte());
    let known = fixtures::of(CHOICES[row % CHOICES.len()]);
    let name = match row / CHOICES.len() {
        0..=20 => Some(known.algorithm.name().as_bytes()),
        21 => None,
        other => Some(NO_NAMES[other % NO_NAMES.len()]),
    };
    (known, name.map(|name| CString::new(name).expect("none has a NUL")))
}

/// Buffers of the length that is right, or another one; the pointer is NULL or leads to them.
struct Buffer {
    bytes: Vec<u8>,
    is_null: bool,
    /// The length that the call receives.
    len: usize,
}

impl Buffer {
    /// Of `right` bytes, all `fill`, or of what the input wants instead.
    fn new(input: &mut Input<'_>, right: usize, fill: u8) -> Buffer {
        let (len, is_null) = match input.byte() % 8 {
            1 => (right + 1, false),
            2 => (right.saturating_sub(1), false),
            3 => (0, false),
            4 => (right, true),
            5 => (usize::MAX, true),
            6 => (usize::MAX / 2 + 1, true),
            7 => (0, true),
            _ => (right, false),
        };
        Buffer { bytes: vec![fill; if is_null { 0 } else { len }], is_null, len }
    }

    fn of(input: &mut Input<'_>, content: &[u8]) -> Buffer {
        let mut buffer = Buffer::new(input, content.len(), 0x5a);
        let n = content.len().min(buffer.bytes.len());
        buffer.bytes[..n].copy_from_slice(&content[..n]);
        buffer
    }

    fn pointer(&self) -> *const u8 {
        if self.is_null { null() } else { self.bytes.as_ptr() }
    }

    fn place(&mut self) -> *mut u8 {
        if self.is_null { null_mut() } else { self.bytes.as_mut_ptr() }
    }

    fn is_zero(&self) -> bool {
        self.bytes.iter().all(|&byte| byte == 0)
    }
}

/// A code that the header has, and not the one for defects.
fn known_code(code: i32, call: &str) -> i32 {
    assert!(CODES.contains(&code) && code != FAULT, "{call} said {code}: {}", last_error());
    // SAFETY: the text is valid for ever.
    assert!(!gabion::gabion_status_text(code).is_null());
    code
}

fn last_error() -> String {
    let mut text = [0u8; 300];
    // SAFETY: the room is that of the buffer.
    let len = unsafe { gabion::gabion_last_error(text.as_mut_ptr().cast(), text.len()) };
    String::from_utf8_lossy(&text[..len.min(text.len() - 1)]).into_owned()
}

/// How many calls there are to choose from.
const CALLS: u8 = 20;

/// Runs the calls that the input names.
pub fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let mut world = World::default();
    for _ in 0..12 {
        if input.is_empty() {
            break;
        }
        world.call(&mut input);
    }
}

impl World {
    fn call(&mut self, input: &mut Input<'_>) {
        let call = input.byte() % CALLS;
        match call {
            0..=3 => self.make(call, input),
            4 | 5 => self.public(input),
            6..=8 => self.export(call, input),
            9 => self.decaps(input),
            10 => self.encaps_many(input),
            11 => self.decaps_many(input),
            12 => self.sign(input),
            13 => self.verify(input),
            14 => self.sign_many(input),
            15 => self.verify_many(input),
            16 => self.encaps(input),
            17 => self.generate_many(input),
            18 => self.import_many(input),
            _ => Self::ask(input),
        }
    }

    /// A private handle, or NULL; the known material of its algorithm.
    fn a_private(&self, input: &mut Input<'_>) -> (*const PrivateKey, &'static KeyFixture) {
        let key = pick(&self.private, input).cast_const();
        // SAFETY: NULL or a handle.
        (key, material(unsafe { gabion::gabion_private_key_algorithm(key) }))
    }

    fn a_public(&self, input: &mut Input<'_>) -> (*const PublicKey, &'static KeyFixture) {
        let key = pick(&self.public, input).cast_const();
        // SAFETY: NULL or a handle.
        (key, material(unsafe { gabion::gabion_public_key_algorithm(key) }))
    }

    /// generate, from_seed, private_key_import, public_key_import.
    fn make(&mut self, call: u8, input: &mut Input<'_>) {
        let (known, name) = a_name(input);
        let name = name.as_ref().map_or(null(), |name| name.as_ptr());
        let content = match call {
            1 => &known.seed,
            2 => &known.private,
            _ => &known.public,
        };
        let edited = input.edited(content);
        let bytes = Buffer::of(input, &edited);
        let (pointer, len) = (bytes.pointer(), bytes.len);
        if call == 3 {
            let mut key = null_mut();
            // SAFETY: a text or NULL, bytes of that length or NULL, a place.
            let code = unsafe { gabion::gabion_public_key_import(name, pointer, len, &mut key) };
            assert_eq!(known_code(code, "public_key_import") == 0, !key.is_null());
            self.public.extend((!key.is_null()).then_some(key));
            return;
        }
        let mut key = null_mut();
        // SAFETY: a text or NULL, bytes of that length or NULL, a place.
        let code = unsafe {
            match call {
                0 => gabion::gabion_private_key_generate(name, &mut key),
                1 => gabion::gabion_private_key_from_seed(name, pointer, len, &mut key),
                _ => gabion::gabion_private_key_import(name, pointer, len, &mut key),
            }
        };
        assert_eq!(known_code(code, "making a key") == 0, !key.is_null());
        self.private.extend((!key.is_null()).then_some(key));
    }

    fn generate_many(&mut self, input: &mut Input<'_>) {
        let (_, name) = a_name(input);
        let name = name.as_ref().map_or(null(), |name| name.as_ptr());
        let n = usize::from(input.byte()) % (LANES_MAX + 1);
        let (mut keys, mut status) = (vec![std::ptr::dangling_mut(); n], vec![7; n]);
        let (mut places, mut codes, mut told) = (keys.as_mut_ptr(), status.as_mut_ptr(), n);
        match input.byte() % 8 {
            1 => places = null_mut(),
            2 => codes = null_mut(),
            3 => told = usize::MAX / 16 + 1,
            4 => told = usize::MAX,
            _ => {}
        }
        // SAFETY: a text or NULL; n places and n codes, or NULL, or more than there can be.
        let code = unsafe { gabion::gabion_private_key_generate_many(name, told, places, codes) };
        let is_misuse = told != n || n > 0 && (places.is_null() || codes.is_null());
        assert!(!is_misuse || code != 0, "a batch without arrays was run");
        if known_code(code, "generate_many") == 0 {
            assert!(!keys.iter().any(|key| key.is_null()) && status.iter().all(|&code| code == 0));
            self.private.append(&mut keys);
        } else if told == n {
            assert!(places.is_null() || keys.iter().all(|key| key.is_null()), "a handle is left");
            assert!(codes.is_null() || status.iter().all(|&code| code == -1), "a lane was run");
        }
    }

    /// Checks that equal bytes in every lane get the verdict that they get alone.
    fn import_many(&mut self, input: &mut Input<'_>) {
        let (known, name) = a_name(input);
        let name = name.as_ref().map_or(null(), |name| name.as_ptr());
        let n = usize::from(input.byte()) % (LANES_MAX + 1);
        let one = input.edited(&known.public);
        let bytes = one.repeat(n);
        let (mut keys, mut status) = (vec![std::ptr::dangling_mut(); n], vec![7; n]);
        let (places, codes, mut told) = (keys.as_mut_ptr(), status.as_mut_ptr(), n);
        let mut from = bytes.as_ptr();
        match input.byte() % 8 {
            1 => from = null(),
            2 => told = usize::MAX / 16 + 1,
            3 => told = usize::MAX,
            _ => {}
        }
        let mut alone = null_mut();
        // SAFETY: a text or NULL; the bytes of n keys or NULL; n places and n codes, or more than there
        // can be; the bytes of one key and a place.
        let (code, expected) = unsafe {
            let (one, len) = (one.as_ptr(), one.len());
            let expected = gabion::gabion_public_key_import(name, one, len, &mut alone);
            (gabion::gabion_public_key_import_many(name, from, len, told, places, codes), expected)
        };
        if known_code(code, "import_many") == 0 {
            assert!(told == n, "a batch without arrays was run");
            assert!(status.iter().all(|&code| code == expected), "{expected} alone: {status:?}");
            assert!(keys.iter().all(|key| key.is_null() != (expected == 0)));
            self.public.extend(keys.into_iter().filter(|key| !key.is_null()));
        } else if told == n {
            assert!(keys.iter().all(|key| key.is_null()), "a handle is left");
            assert!(status.iter().all(|&code| code == -1), "a lane was run");
        }
        self.public.extend((!alone.is_null()).then_some(alone));
    }

    fn public(&mut self, input: &mut Input<'_>) {
        let (key, _) = self.a_private(input);
        let mut public = null_mut();
        // SAFETY: a handle or NULL, a place.
        let code = unsafe { gabion::gabion_private_key_public(key, &mut public) };
        assert_eq!(known_code(code, "public") == 0, !key.is_null());
        assert_eq!(public.is_null(), key.is_null());
        self.public.extend((!public.is_null()).then_some(public));
        // SAFETY: as above.
        let code = unsafe { gabion::gabion_private_key_public(key, null_mut()) };
        assert_eq!(code, NULL_MISUSE);
    }

    /// private_key_export, private_key_seed, public_key_export.
    fn export(&mut self, call: u8, input: &mut Input<'_>) {
        let (private, known) = self.a_private(input);
        let (public, of_public) = self.a_public(input);
        let (right, is_null) = match call {
            6 => (known.private.len(), private.is_null()),
            7 => (known.seed.len(), private.is_null()),
            _ => (of_public.public.len(), public.is_null()),
        };
        let mut out = Buffer::new(input, right, 0x5a);
        let mut len = out.len;
        let place: *mut usize = if input.byte() == 1 { null_mut() } else { &mut len };
        // SAFETY: a handle or NULL, a place or NULL, as many bytes as the place says or NULL.
        let code = unsafe {
            match call {
                6 => gabion::gabion_private_key_export(private, out.place(), place),
                7 => gabion::gabion_private_key_seed(private, out.place(), place),
                _ => gabion::gabion_public_key_export(public, out.place(), place),
            }
        };
        let fits = out.is_null || out.bytes.len() >= right;
        if known_code(code, "export") == 0 {
            assert!(fits && !is_null && !place.is_null() && len == right);
        } else {
            assert!(is_null || place.is_null() || !fits || call == 7, "{code}: {}", last_error());
            assert!(place.is_null() || out.is_zero(), "a failed export left something");
        }
    }

    fn encaps(&mut self, input: &mut Input<'_>) {
        let (key, known) = self.a_public(input);
        let mut ct = Buffer::new(input, known.output.len(), 0x5a);
        let mut secret = Buffer::new(input, known.shared.len(), 0x5a);
        // SAFETY: a handle or NULL, buffers of their lengths or NULL.
        let code =
            unsafe { gabion::gabion_encaps(key, ct.place(), ct.len, secret.place(), secret.len) };
        failed_is_zero(code, "encaps", &[&ct, &secret]);
        assert!(code != 0 || !secret.is_zero());
    }

    fn decaps(&mut self, input: &mut Input<'_>) {
        let (key, known) = self.a_private(input);
        let content = input.edited(&known.output);
        let ct = Buffer::of(input, &content);
        let mut secret = Buffer::new(input, known.shared.len(), 0x5a);
        // SAFETY: a handle or NULL, buffers of their lengths or NULL.
        let code =
            unsafe { gabion::gabion_decaps(key, ct.pointer(), ct.len, secret.place(), secret.len) };
        failed_is_zero(code, "decaps", &[&secret]);
        assert!(code != 0 || !secret.is_zero());
    }

    fn encaps_many(&mut self, input: &mut Input<'_>) {
        let lanes = Lanes::new(input, &self.public);
        // SAFETY: NULL or a handle.
        let known = material(unsafe { gabion::gabion_public_key_algorithm(lanes.first()) });
        let mut ct = Buffer::new(input, lanes.n * known.output.len(), 0x5a);
        let mut secrets = Buffer::new(input, lanes.n * known.shared.len(), 0x5a);
        let mut status = vec![7; lanes.n];
        // SAFETY: n handles, buffers of their lengths or NULL, n codes.
        let code = unsafe {
            gabion::gabion_encaps_many(
                lanes.pointer(),
                lanes.n,
                ct.place(),
                ct.len,
                secrets.place(),
                secrets.len,
                status.as_mut_ptr(),
            )
        };
        failed_is_zero(code, "encaps_many", &[&ct, &secrets]);
        each_lane(code, &status, &secrets, lanes.n);
    }

    fn decaps_many(&mut self, input: &mut Input<'_>) {
        let lanes = Lanes::new(input, &self.private);
        // SAFETY: NULL or a handle.
        let known = material(unsafe { gabion::gabion_private_key_algorithm(lanes.first()) });
        let content = input.edited(&known.output.repeat(lanes.n));
        let ct = Buffer::of(input, &content);
        let mut secrets = Buffer::new(input, lanes.n * known.shared.len(), 0x5a);
        let mut status = vec![7; lanes.n];
        // SAFETY: n handles, buffers of their lengths or NULL, n codes.
        let code = unsafe {
            gabion::gabion_decaps_many(
                lanes.pointer(),
                lanes.n,
                ct.pointer(),
                ct.len,
                secrets.place(),
                secrets.len,
                status.as_mut_ptr(),
            )
        };
        failed_is_zero(code, "decaps_many", &[&secrets]);
        each_lane(code, &status, &secrets, lanes.n);
    }

    fn sign(&mut self, input: &mut Input<'_>) {
        let (key, known) = self.a_private(input);
        let text = Text::new(input);
        let mut out = Buffer::new(input, known.algorithm.info().output.max(), 0x5a);
        let mut len = out.len;
        let message = text.message();
        // SAFETY: a handle or NULL, a message, a place, as many bytes as it says or NULL.
        let code = unsafe { gabion::gabion_sign(key, &message, out.place(), &mut len) };
        failed_is_zero(code, "sign", &[&out]);
        if code == 0 && !out.is_null {
            assert!(len <= out.bytes.len() && out.bytes[len..].iter().all(|&byte| byte == 0));
            let mut public = null_mut();
            // SAFETY: a handle and a place; then a handle, a message and bytes, freed once.
            unsafe {
                assert_eq!(gabion::gabion_private_key_public(key, &mut public), 0);
                let code = gabion::gabion_verify(public, &message, out.pointer(), len);
                assert_eq!(code, 0, "{}", last_error());
                gabion::gabion_public_key_free(public);
            }
        }
    }

    fn verify(&mut self, input: &mut Input<'_>) {
        let (key, known) = self.a_public(input);
        let text = Text::new(input);
        let content = input.edited(&known.output);
        let signature = Buffer::of(input, &content);
        let message = text.message();
        // SAFETY: a handle or NULL, a message, bytes of that length or NULL.
        let code =
            unsafe { gabion::gabion_verify(key, &message, signature.pointer(), signature.len) };
        known_code(code, "verify");
        assert!(code != 0 || has_length(known, &signature), "{code}");
    }

    fn sign_many(&mut self, input: &mut Input<'_>) {
        let lanes = Lanes::new(input, &self.private);
        // SAFETY: NULL or a handle.
        let known = material(unsafe { gabion::gabion_private_key_algorithm(lanes.first()) });
        let texts: Vec<_> = (0..lanes.n).map(|_| Text::new(input)).collect();
        let messages: Vec<_> = texts.iter().map(Text::message).collect();
        let mut out = Buffer::new(input, lanes.n * known.algorithm.info().output.max(), 0x5a);
        let (mut lens, mut status) = (vec![7; lanes.n], vec![7; lanes.n]);
        // SAFETY: n handles, messages, lengths and codes; bytes of that length or NULL.
        let code = unsafe {
            gabion::gabion_sign_many(
                lanes.pointer(),
                messages.as_ptr(),
                lanes.n,
                out.place(),
                out.len,
                lens.as_mut_ptr(),
                status.as_mut_ptr(),
            )
        };
        failed_is_zero(code, "sign_many", &[&out]);
        each_lane(code, &status, &out, lanes.n);
        for (len, status) in lens.iter().zip(&status) {
            assert_eq!(*len > 0, code == 0 && *status == 0);
        }
    }

    fn verify_many(&mut self, input: &mut Input<'_>) {
        let lanes = Lanes::new(input, &self.public);
        // SAFETY: NULL or a handle.
        let known = material(unsafe { gabion::gabion_public_key_algorithm(lanes.first()) });
        let texts: Vec<_> = (0..lanes.n).map(|_| Text::new(input)).collect();
        let messages: Vec<_> = texts.iter().map(Text::message).collect();
        let room = known.algorithm.info().output.max();
        let mut content = vec![0; lanes.n * room];
        for place in content.chunks_exact_mut(room.max(1)) {
            place[..known.output.len()].copy_from_slice(&known.output);
        }
        let content = input.edited(&content);
        let signatures = Buffer::of(input, &content);
        let lens: Vec<usize> = (0..lanes.n)
            .map(|_| match input.byte() {
                1 => usize::MAX,
                2 => 0,
                _ => known.output.len(),
            })
            .collect();
        let mut status = vec![7; lanes.n];
        let lens = if input.byte() == 1 { null() } else { lens.as_ptr() };
        // SAFETY: n handles, messages, lengths (or NULL) and codes; bytes of that length or NULL.
        let code = unsafe {
            gabion::gabion_verify_many(
                lanes.pointer(),
                messages.as_ptr(),
                lanes.n,
                signatures.pointer(),
                signatures.len,
                lens,
                status.as_mut_ptr(),
            )
        };
        known_code(code, "verify_many");
        for status in status {
            known_code(status, "a lane of verify_many");
            assert!(code == 0 || status == -1, "a verdict of a call that failed");
        }
    }

    /// sizes, backend, names and texts.
    fn ask(input: &mut Input<'_>) {
        let index = usize::from(input.byte());
        let name = gabion::gabion_algorithm_name(index);
        assert_eq!(name.is_null(), index >= gabion::gabion_algorithm_count());
        let mut sizes = Sizes::default();
        // SAFETY: a text or NULL, a place.
        let code = unsafe { gabion::gabion_algorithm_sizes(name, &mut sizes) };
        assert_eq!(known_code(code, "sizes") == 0, !name.is_null());
        let mut text = Buffer::new(input, 16, 0x5a);
        // SAFETY: a text or NULL, as many bytes as said or NULL.
        let code = unsafe { gabion::gabion_backend(name, text.place().cast(), text.len) };
        failed_is_zero(code, "backend", &[&text]);
        assert!(code != 0 || text.bytes.contains(&0), "no NUL");
        let room = usize::from(input.byte());
        let mut text = Buffer::new(input, room, 0x5a);
        // SAFETY: as many bytes as said or NULL.
        unsafe { gabion::gabion_last_error(text.place().cast(), text.len) };
        let code = i32::from_ne_bytes([input.byte(), input.byte(), input.byte(), input.byte()]);
        assert!(!gabion::gabion_status_text(code).is_null());
    }
}

/// The keys of a batch; one of them may be NULL or of another algorithm.
struct Lanes<T> {
    keys: Vec<*const T>,
    n: usize,
    is_null: bool,
}

impl<T> Lanes<T> {
    fn new(input: &mut Input<'_>, handles: &[*mut T]) -> Self {
        let first = pick(handles, input).cast_const();
        let n = usize::from(input.byte()) % (LANES_MAX + 1);
        let mut keys = vec![first; n];
        let choice = input.byte();
        if choice % 8 == 1 && n > 0 {
            keys[n - 1] = pick(handles, input);
        }
        Lanes { keys, n, is_null: choice % 8 == 2 }
    }

    fn first(&self) -> *const T {
        self.keys.first().copied().unwrap_or(null())
    }

    fn pointer(&self) -> *const *const T {
        if self.is_null { null() } else { self.keys.as_ptr() }
    }
}

/// A message with its bytes.
struct Text {
    message: Buffer,
    context: Buffer,
    prehash: Option<CString>,
}

impl Text {
    fn new(input: &mut Input<'_>) -> Self {
        let names: [&[u8]; 3] = [b"SHA2-256", b"shake-256", b"MD5"];
        let prehash = names.get(usize::from(input.byte()).wrapping_sub(1));
        let prehash = prehash.map(|name| CString::new(*name).expect("no NUL"));
        let context = if input.byte() % 16 == 1 { 256 } else { 0 };
        let message = if prehash.is_some() { &[1; 32][..] } else { fixtures::MESSAGE };
        Text {
            message: Buffer::of(input, message),
            context: Buffer::of(input, &[3; 256][..context]),
            prehash,
        }
    }

    fn message(&self) -> Message {
        let prehash = self.prehash.as_ref().map_or(null(), |name| name.as_ptr());
        Message {
            message: self.message.pointer(),
            message_len: self.message.len,
            context: self.context.pointer(),
            context_len: self.context.len,
            prehash,
        }
    }
}

/// One of the handles, or NULL.
fn pick<T>(handles: &[*mut T], input: &mut Input<'_>) -> *mut T {
    let at = usize::from(input.byte()) % (handles.len() + 1);
    // The last is what an input of zeros gets.
    handles.iter().rev().nth(at).copied().unwrap_or(null_mut())
}

/// The material of the algorithm of that name; of any where it is NULL.
fn material(name: *const c_char) -> &'static KeyFixture {
    let name = if name.is_null() {
        return fixtures::of(CHOICES[0]);
    } else {
        // SAFETY: the library's names are texts that stay for ever.
        unsafe { std::ffi::CStr::from_ptr(name) }.to_str().expect("names are UTF-8")
    };
    fixtures::of(name.parse().expect("the table's name"))
}

fn has_length(known: &KeyFixture, signature: &Buffer) -> bool {
    signature.len == known.output.len() || known.algorithm.info().output.varies()
}

/// A call that failed leaves zeros wherever it had a buffer.
fn failed_is_zero(code: i32, call: &str, outputs: &[&Buffer]) {
    if known_code(code, call) != 0 {
        for output in outputs {
            assert!(output.is_zero(), "{call} failed with {code} and left output");
        }
    }
}

/// The lanes of a call: all have a verdict, or none; what failed is zero.
fn each_lane(code: i32, status: &[i32], output: &Buffer, n: usize) {
    for (lane, &status) in status.iter().enumerate() {
        known_code(status, "a lane");
        assert_eq!(status == -1, code != 0, "lane {lane} says {status}, the call {code}");
        let each = output.bytes.len() / n;
        let bytes = &output.bytes[lane * each..(lane + 1) * each];
        assert_eq!(bytes.iter().all(|&byte| byte == 0), status != 0, "lane {lane}: {status}");
    }
}
