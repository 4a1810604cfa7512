//! The functions of libssl that the tests call, loaded at run time; handshakes in memory, whose
//! bytes a test may change in transit.

use std::ffi::{CStr, CString, c_char, c_int, c_long, c_void};
use std::path::Path;
use std::ptr::{null, null_mut};

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};

use crate::libcrypto::Context;

type Ptr = *mut c_void;

macro_rules! functions {
    ($library:ident, $file:literal; $($name:ident($($type:ty),*) -> $result:ty;)*) => {
        /// Functions by their names.
        #[allow(non_snake_case)]
        pub struct $library {
            $(pub $name: unsafe extern "C" fn($($type),*) -> $result,)*
        }

        impl $library {
            fn load(prefix: &Path) -> $library {
                let lib = prefix.join("lib").join($file);
                // SAFETY: an OpenSSL library may be loaded at any time, and is never unloaded here.
                let library = unsafe { Library::open(Some(&lib), RTLD_NOW | RTLD_LOCAL) };
                let library = Box::leak(Box::new(library.expect("the library loads")));
                $library {
                    // SAFETY: the types are those of the manual pages.
                    $($name: unsafe {
                        *library.get(stringify!($name).as_bytes()).expect(stringify!($name))
                    },)*
                }
            }
        }
    };
}

functions! { Bios, "libcrypto.so";
    BIO_s_mem() -> Ptr;
    BIO_new(Ptr) -> Ptr;
    BIO_read(Ptr, *mut u8, c_int) -> c_int;
    BIO_write(Ptr, *const u8, c_int) -> c_int;
}

functions! { Ssls, "libssl.so";
    TLS_method() -> Ptr;
    SSL_CTX_new_ex(Ptr, *const c_char, Ptr) -> Ptr;
    SSL_CTX_free(Ptr) -> ();
    SSL_CTX_ctrl(Ptr, c_int, c_long, *mut c_void) -> c_long;
    SSL_CTX_set_async_callback(Ptr, Option<unsafe extern "C" fn(Ptr, Ptr) -> c_int>) -> c_int;
    SSL_CTX_use_certificate_file(Ptr, *const c_char, c_int) -> c_int;
    SSL_CTX_use_PrivateKey_file(Ptr, *const c_char, c_int) -> c_int;
    SSL_new(Ptr) -> Ptr;
    SSL_free(Ptr) -> ();
    SSL_set_bio(Ptr, Ptr, Ptr) -> ();
    SSL_set_accept_state(Ptr) -> ();
    SSL_set_connect_state(Ptr) -> ();
    SSL_do_handshake(Ptr) -> c_int;
    SSL_get_error(Ptr, c_int) -> c_int;
    SSL_get_all_async_fds(Ptr, *mut c_int, *mut usize) -> c_int;
    SSL_get0_group_name(Ptr) -> *const c_char;
    SSL_get_shared_sigalgs(Ptr, c_int, *mut c_int, *mut c_int, *mut c_int, *mut u8, *mut u8) -> c_int;
    SSL_get_sigalgs(Ptr, c_int, *mut c_int, *mut c_int, *mut c_int, *mut u8, *mut u8) -> c_int;
    SSL_CTX_set_ciphersuites(Ptr, *const c_char) -> c_int;
    SSL_CTX_set_max_early_data(Ptr, u32) -> c_int;
    SSL_write(Ptr, *const u8, c_int) -> c_int;
    SSL_read(Ptr, *mut u8, c_int) -> c_int;
    SSL_write_early_data(Ptr, *const u8, usize, *mut usize) -> c_int;
    SSL_read_early_data(Ptr, *mut u8, usize, *mut usize) -> c_int;
    SSL_get_early_data_status(Ptr) -> c_int;
    SSL_key_update(Ptr, c_int) -> c_int;
    SSL_get1_session(Ptr) -> Ptr;
    SSL_set_session(Ptr, Ptr) -> c_int;
    SSL_session_reused(Ptr) -> c_int;
    SSL_SESSION_free(Ptr) -> ();
    SSL_export_keying_material_early(Ptr, *mut u8, usize, *const c_char, usize, *const u8, usize) -> c_int;
    SSL_export_keying_material(Ptr, *mut u8, usize, *const c_char, usize, *const u8, usize, c_int) -> c_int;
}

/// libssl, and the part of libcrypto that carries its bytes.
pub struct Libssl {
    bios: Bios,
    ssl: Ssls,
}

/// One end of a connection; a server where it has a certificate.
pub struct End<'a> {
    lib: &'a Libssl,
    ctx: Ptr,
    server: bool,
}

/// The result of a handshake.
#[derive(Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Both sides are through and agree on the keys: the group, by libssl's name.
    Group(String),
    /// A side gave up and sent this alert in the clear, or 0 where it was encrypted or not sent.
    Alert(u8),
}

/// The direction of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    ToServer,
    ToClient,
}

impl Libssl {
    /// Loads the libssl of an installed OpenSSL, whose libcrypto must be the loaded one.
    pub fn load(prefix: &Path) -> Libssl {
        Libssl { bios: Bios::load(prefix), ssl: Ssls::load(prefix) }
    }

    /// Returns an endpoint that offers or accepts these groups, or libssl's own list. Returns
    /// `None` if libssl does not know a group.
    pub fn end(
        &self,
        context: &Context,
        groups: Option<&str>,
        certificate: Option<(&Path, &Path)>,
    ) -> Option<End<'_>> {
        const TLS1_3: c_long = 0x0304;
        let path = |path: &Path| CString::new(path.to_str().unwrap()).unwrap();
        // SAFETY: live objects, C strings, numbers of ssl.h: the lowest version, the groups, PEM.
        unsafe {
            let ctx = (self.ssl.SSL_CTX_new_ex)(context.raw, null(), (self.ssl.TLS_method)());
            assert!(!ctx.is_null(), "{}", context.lib.last_error());
            let end = End { lib: self, ctx, server: certificate.is_some() };
            assert_eq!((self.ssl.SSL_CTX_ctrl)(ctx, 123, TLS1_3, null_mut()), 1);
            if let Some(groups) = groups {
                let groups = CString::new(groups).unwrap();
                if (self.ssl.SSL_CTX_ctrl)(ctx, 92, 0, groups.as_ptr().cast_mut().cast()) != 1 {
                    return None;
                }
            }
            if let Some((chain, key)) = certificate {
                let (chain, key) = (path(chain), path(key));
                let used = (self.ssl.SSL_CTX_use_certificate_file)(ctx, chain.as_ptr(), 1);
                assert_eq!(used, 1, "{}", context.lib.last_error());
                let used = (self.ssl.SSL_CTX_use_PrivateKey_file)(ctx, key.as_ptr(), 1);
                assert_eq!(used, 1, "{}", context.lib.last_error());
            }
            Some(end)
        }
    }

    /// A connection that has sent nothing yet.
    pub fn connection(&self, end: &End<'_>) -> Connection<'_> {
        // SAFETY: live objects; the connection takes both memory BIOs over.
        unsafe {
            let raw = (self.ssl.SSL_new)(end.ctx);
            assert!(!raw.is_null());
            let bio = || (self.bios.BIO_new)((self.bios.BIO_s_mem)());
            let (incoming, outgoing) = (bio(), bio());
            (self.ssl.SSL_set_bio)(raw, incoming, outgoing);
            match end.server {
                true => (self.ssl.SSL_set_accept_state)(raw),
                false => (self.ssl.SSL_set_connect_state)(raw),
            }
            Connection { lib: self, raw, incoming, outgoing }
        }
    }

    /// The first bytes that a client sends.
    pub fn client_hello(&self, client: &End<'_>) -> Vec<u8> {
        let mut connection = self.connection(client);
        assert_eq!(connection.step(), Some(false));
        connection.sent()
    }

    /// Runs a handshake; `change` may modify the bytes in transit.
    pub fn handshake(
        &self,
        client: &End<'_>,
        server: &End<'_>,
        mut change: impl FnMut(Direction, &mut Vec<u8>),
    ) -> Outcome {
        let (mut client, mut server) = (self.connection(client), self.connection(server));
        let mut through = [false; 2];
        for _ in 0..10 {
            for (at, way) in [Direction::ToServer, Direction::ToClient].into_iter().enumerate() {
                let (from, to) = match way {
                    Direction::ToServer => (&mut client, &mut server),
                    Direction::ToClient => (&mut server, &mut client),
                };
                let step = from.step();
                let mut bytes = from.sent();
                change(way, &mut bytes);
                let Some(done) = step else {
                    // An alert record in the clear: type, version, length, level, description.
                    let alert = bytes.len() >= 7 && bytes[0] == 21 && bytes[3..5] == [0, 2];
                    return Outcome::Alert(if alert { bytes[6] } else { 0 });
                };
                through[at] = done;
                to.receive(&bytes);
            }
            if through == [true; 2] {
                assert_eq!(client.exported(), server.exported());
                // SAFETY: a live connection; the name belongs to libssl.
                let name = unsafe { (self.ssl.SSL_get0_group_name)(client.raw) };
                // SAFETY: a C string.
                let name = unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned();
                return Outcome::Group(name);
            }
        }
        panic!("the handshake does not end");
    }
}

/// The way in which the second of two connections resumed the first.
#[derive(Debug, PartialEq, Eq)]
pub enum Resumption {
    /// A full handshake.
    None,
    /// It resumed the first one's session, without early data.
    Session,
    /// The server took the early data, too.
    EarlyData,
}

impl Libssl {
    /// Two connections, the second with the session of the first and with early data; on both, data
    /// go both ways before and after both sides change their keys. Both sides must export the same.
    pub fn resume(&self, client: &End<'_>, server: &End<'_>) -> Resumption {
        const ACCEPTED: c_int = 2;
        let mut first = [self.connection(client), self.connection(server)];
        finish(&mut first);
        talk(&mut first);
        let [mut client, mut server] = [self.connection(client), self.connection(server)];
        // SAFETY: live connections; the session is taken over and given back.
        unsafe {
            let session = (self.ssl.SSL_get1_session)(first[0].raw);
            assert_eq!((self.ssl.SSL_set_session)(client.raw, session), 1);
            (self.ssl.SSL_SESSION_free)(session);
        }
        client.write_early(b"early");
        server.receive(&client.sent());
        let early = server.read_early();
        if early.is_some() {
            assert_eq!(early.as_deref(), Some(&b"early"[..]));
            assert_eq!(client.exported_early(), server.exported_early());
        }
        client.receive(&server.sent());
        assert_eq!(client.step(), Some(true));
        server.receive(&client.sent());
        assert_eq!(server.read_early(), None);
        let mut second = [client, server];
        finish(&mut second);
        talk(&mut second);
        assert_ne!(first[0].exported(), second[0].exported());
        // SAFETY: live connections.
        let [reused, early] = unsafe {
            let reused = second.each_ref().map(|end| (self.ssl.SSL_session_reused)(end.raw) == 1);
            let accepted = second
                .each_ref()
                .map(|end| (self.ssl.SSL_get_early_data_status)(end.raw) == ACCEPTED);
            [reused, accepted]
        };
        match (reused, early) {
            ([true, true], [true, true]) => Resumption::EarlyData,
            ([true, true], [false, false]) => Resumption::Session,
            ([false, false], [false, false]) => Resumption::None,
            other => panic!("the sides differ: {other:?}"),
        }
    }
}

/// Ends a handshake.
fn finish(pair: &mut [Connection<'_>; 2]) {
    for _ in 0..5 {
        let [client, server] = pair;
        let there = client.step().expect("the client goes on");
        server.receive(&client.sent());
        let here = server.step().expect("the server goes on");
        client.receive(&server.sent());
        if there && here {
            assert_eq!(client.exported(), server.exported());
            return;
        }
    }
    panic!("the handshake does not end");
}

/// Data both ways, before and after each side asks the other for new keys.
fn talk(pair: &mut [Connection<'_>; 2]) {
    let [client, server] = pair;
    for round in 0..3 {
        let send = |from: &mut Connection<'_>, to: &mut Connection<'_>, what: &str| {
            let text = format!("{what} {round}");
            from.write(text.as_bytes());
            to.receive(&from.sent());
            assert_eq!(to.read(), text.as_bytes());
        };
        send(server, client, "to the client");
        send(client, server, "to the server");
        let asks = if round == 0 { &mut *client } else { &mut *server };
        asks.update_keys();
    }
    assert_eq!(client.exported(), server.exported());
}

impl End<'_> {
    /// Restricts the endpoint to one cipher suite, and enables early data.
    pub fn with_suite(self, suite: &str) -> Self {
        let suite = CString::new(suite).unwrap();
        // SAFETY: a live context and a C string.
        unsafe {
            assert_eq!((self.lib.ssl.SSL_CTX_set_ciphersuites)(self.ctx, suite.as_ptr()), 1);
            assert_eq!((self.lib.ssl.SSL_CTX_set_max_early_data)(self.ctx, 1 << 14), 1);
        }
        self
    }

    /// Limits the endpoint to TLS 1.2.
    pub fn with_tls_1_2(self) -> Self {
        const TLS1_2: c_long = 0x0303;
        // SAFETY: a live context; the lowest and the highest version of ssl.h.
        unsafe {
            assert_eq!((self.lib.ssl.SSL_CTX_ctrl)(self.ctx, 123, TLS1_2, null_mut()), 1);
            assert_eq!((self.lib.ssl.SSL_CTX_ctrl)(self.ctx, 124, TLS1_2, null_mut()), 1);
        }
        self
    }

    /// Asks to be called back when a job can go on.
    pub fn set_async_callback(&self) {
        unsafe extern "C" fn called(_: Ptr, _: Ptr) -> c_int {
            1
        }
        // SAFETY: a live SSL_CTX and a function that stays.
        assert_eq!(unsafe { (self.lib.ssl.SSL_CTX_set_async_callback)(self.ctx, Some(called)) }, 1);
    }

    /// Runs its connections' operations in asynchronous jobs.
    pub fn set_async(&self) {
        // SAFETY: a live object; SSL_CTRL_MODE and SSL_MODE_ASYNC of ssl.h.
        let modes = unsafe { (self.lib.ssl.SSL_CTX_ctrl)(self.ctx, 33, 0x100, null_mut()) };
        assert_ne!(modes & 0x100, 0);
    }
}

// SAFETY: SSL_CTX may be shared by threads that make connections of it.
unsafe impl Sync for End<'_> {}

impl Drop for End<'_> {
    fn drop(&mut self) {
        // SAFETY: made by `end`, not used again.
        unsafe { (self.lib.ssl.SSL_CTX_free)(self.ctx) }
    }
}

/// One side of a connection in memory.
pub struct Connection<'a> {
    lib: &'a Libssl,
    raw: Ptr,
    incoming: Ptr,
    outgoing: Ptr,
}

/// The progress of a handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The handshake is complete.
    Done,
    /// It waits for the other side.
    WantsRead,
    /// An operation paused it; see [`Connection::descriptors`].
    Paused,
    /// It gave up.
    Failed,
}

impl Connection<'_> {
    /// Advances the handshake.
    pub fn advance(&mut self) -> Step {
        // SAFETY: a live connection.
        unsafe {
            let answer = (self.lib.ssl.SSL_do_handshake)(self.raw);
            // Numbers of ssl.h: SSL_ERROR_WANT_READ and SSL_ERROR_WANT_ASYNC.
            match (answer, (self.lib.ssl.SSL_get_error)(self.raw, answer)) {
                (1, _) => Step::Done,
                (_, 2) => Step::WantsRead,
                (_, 9) => Step::Paused,
                _ => Step::Failed,
            }
        }
    }

    /// Goes on: whether it is through, or `None` where it gave up.
    fn step(&mut self) -> Option<bool> {
        match self.advance() {
            Step::Done => Some(true),
            Step::WantsRead => Some(false),
            Step::Paused | Step::Failed => None,
        }
    }

    /// Returns the descriptors that a paused connection waits for.
    pub fn descriptors(&self) -> Vec<c_int> {
        let mut count = 0;
        // SAFETY: a live connection; first the number is asked for, then there is room for as many.
        unsafe {
            let all = self.lib.ssl.SSL_get_all_async_fds;
            assert_eq!(all(self.raw, null_mut(), &mut count), 1);
            let mut descriptors = vec![-1; count];
            assert_eq!(all(self.raw, descriptors.as_mut_ptr(), &mut count), 1);
            descriptors
        }
    }

    /// Returns how many signature algorithms the peer of a server offers, and how many both sides
    /// know. libssl looks each one up.
    pub fn signature_algorithms(&self) -> (c_int, c_int) {
        let (mut signature, mut hash, mut both, mut raw) = (0, 0, 0, [0; 2]);
        let [high, low] = &mut raw;
        // SAFETY: a live connection, room for each answer about the first one.
        unsafe {
            let ssl = &self.lib.ssl;
            let peers =
                (ssl.SSL_get_sigalgs)(self.raw, 0, &mut signature, &mut hash, &mut both, high, low);
            let shared = (ssl.SSL_get_shared_sigalgs)(
                self.raw,
                0,
                &mut signature,
                &mut hash,
                &mut both,
                high,
                low,
            );
            (peers, shared)
        }
    }

    /// Returns the bytes that it has sent since the last call.
    pub fn sent(&mut self) -> Vec<u8> {
        let mut bytes = vec![0; 1 << 16];
        let room = c_int::try_from(bytes.len()).unwrap();
        // SAFETY: a live BIO, room as long as said.
        let got = unsafe { (self.lib.bios.BIO_read)(self.outgoing, bytes.as_mut_ptr(), room) };
        bytes.truncate(usize::try_from(got).unwrap_or(0));
        bytes
    }

    /// Passes it the bytes of the other side.
    pub fn receive(&mut self, bytes: &[u8]) {
        if !bytes.is_empty() {
            let len = c_int::try_from(bytes.len()).unwrap();
            // SAFETY: a live BIO, bytes as long as said.
            let taken = unsafe { (self.lib.bios.BIO_write)(self.incoming, bytes.as_ptr(), len) };
            assert_eq!(taken, len);
        }
    }

    fn write(&mut self, bytes: &[u8]) {
        let len = c_int::try_from(bytes.len()).unwrap();
        // SAFETY: a live connection, bytes as long as said.
        let written = unsafe { (self.lib.ssl.SSL_write)(self.raw, bytes.as_ptr(), len) };
        assert_eq!(written, len);
    }

    fn read(&mut self) -> Vec<u8> {
        let mut bytes = vec![0; 1 << 14];
        let room = c_int::try_from(bytes.len()).unwrap();
        // SAFETY: a live connection, room as long as said.
        let got = unsafe { (self.lib.ssl.SSL_read)(self.raw, bytes.as_mut_ptr(), room) };
        bytes.truncate(usize::try_from(got).unwrap_or(0));
        bytes
    }

    fn write_early(&mut self, bytes: &[u8]) {
        let (mut written, write) = (0, self.lib.ssl.SSL_write_early_data);
        // SAFETY: a live connection, bytes as long as said.
        let done = unsafe { write(self.raw, bytes.as_ptr(), bytes.len(), &mut written) };
        assert_eq!((done, written), (1, bytes.len()));
    }

    /// Returns early data; `None` if there is no more.
    fn read_early(&mut self) -> Option<Vec<u8>> {
        let (mut bytes, mut got) = (vec![0; 1 << 14], 0);
        // SAFETY: a live connection, room as long as said.
        let answer = unsafe {
            let read = self.lib.ssl.SSL_read_early_data;
            read(self.raw, bytes.as_mut_ptr(), bytes.len(), &mut got)
        };
        bytes.truncate(got);
        (answer == 1).then_some(bytes)
    }

    /// Asks for new keys of both directions.
    fn update_keys(&mut self) {
        const REQUESTED: c_int = 1;
        // SAFETY: a live connection.
        let done = unsafe { (self.lib.ssl.SSL_key_update)(self.raw, REQUESTED) };
        assert_eq!(done, 1);
    }

    /// Exports keying material like [`Self::exported`], from the early secret.
    fn exported_early(&self) -> [u8; 32] {
        let (mut out, label) = ([0; 32], "EXPORTER-early");
        let export = self.lib.ssl.SSL_export_keying_material_early;
        // SAFETY: a live connection, room and label as long as said, no context.
        let done = unsafe {
            let label_at = label.as_ptr().cast();
            export(self.raw, out.as_mut_ptr(), out.len(), label_at, label.len(), null(), 0)
        };
        assert_eq!(done, 1);
        out
    }

    /// Keying material, which both sides have alike only where they agree on every secret.
    pub fn exported(&self) -> [u8; 32] {
        let (mut out, label) = ([0; 32], "EXPORTER-test");
        let export = self.lib.ssl.SSL_export_keying_material;
        // SAFETY: a live connection, room and label as long as said, no context.
        let done = unsafe {
            let label_at = label.as_ptr().cast();
            export(self.raw, out.as_mut_ptr(), out.len(), label_at, label.len(), null(), 0, 0)
        };
        assert_eq!(done, 1);
        out
    }
}

impl Drop for Connection<'_> {
    fn drop(&mut self) {
        // SAFETY: made by `connection`, not used again; frees its BIOs.
        unsafe { (self.lib.ssl.SSL_free)(self.raw) }
    }
}
