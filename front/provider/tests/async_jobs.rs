//! Many connections in one thread with SSL_MODE_ASYNC: operations pause and run together elsewhere.

// A panic is how a test fails, in the helpers too.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::ffi::{c_int, c_void};
use std::ptr::null_mut;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use gabion_provider_testing::libcrypto::{Context, Key, Libcrypto, Params};
use gabion_provider_testing::libssl::{Connection, End, Libssl, Step};
use gabion_provider_testing::{Side, TestFolder};

static LIB: LazyLock<Libcrypto> = LazyLock::new(|| {
    let lib = Libcrypto::load(&gabion_provider_testing::prefix());
    // SAFETY: before any job was started; both functions keep to ASYNC_set_mem_functions(3).
    assert_eq!(unsafe { (lib.ASYNC_set_mem_functions)(guarded_stack, free_stack) }, 1);
    lib
});

/// An inaccessible page in front of each job's stack, which OpenSSL's own stacks lack: a stack
/// overflow ends the test instead of overwriting other memory.
const GUARD: usize = 4096;
const STACK: usize = 32 << 10;

unsafe extern "C" fn guarded_stack(len: *mut usize) -> *mut c_void {
    let (access, flags) =
        (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: fresh memory; libcrypto passes the length that it wants.
    unsafe {
        assert_eq!(*len, STACK, "the stack of a job is what OpenSSL makes it");
        let start = libc::mmap(null_mut(), GUARD + STACK, access, flags, -1, 0);
        assert_ne!(start, libc::MAP_FAILED);
        assert_eq!(libc::mprotect(start, GUARD, libc::PROT_NONE), 0);
        start.byte_add(GUARD)
    }
}

unsafe extern "C" fn free_stack(stack: *mut c_void) {
    if !stack.is_null() {
        // SAFETY: made above, and not used again.
        unsafe { libc::munmap(stack.byte_sub(GUARD), GUARD + STACK) };
    }
}

static SSL: LazyLock<Libssl> = LazyLock::new(|| {
    // libssl binds to the libcrypto that is there already.
    LazyLock::force(&LIB);
    Libssl::load(&gabion_provider_testing::prefix())
});

const GROUP: &str = "X25519MLKEM768";

/// Tests look at the threads and descriptors of the whole process, so they take turns.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The client's and the server's endpoint, in one library context of ours.
struct Endpoints {
    // Before the context, which they use.
    client: End<'static>,
    server: End<'static>,
    _context: Context,
    _place: TestFolder,
}

impl Endpoints {
    /// With the switch as it is said; certificates with `algorithm`.
    fn new(algorithm: &str, switch: &str) -> Self {
        let place = TestFolder::new();
        place.configure(&format!("async-jobs = {switch}"));
        let words = format!(
            "req -x509 -newkey {algorithm} -nodes -keyout leaf.key -out leaf.pem -subj /CN=leaf -days 2"
        );
        place.openssl(Side::Stock, &words);
        let context = Context::with_config(&LIB, &place.path("gabion.cnf"));
        let files = (place.path("leaf.pem"), place.path("leaf.key"));
        let server = SSL.end(&context, Some(GROUP), Some((&files.0, &files.1))).unwrap();
        let client = SSL.end(&context, Some(GROUP), None).unwrap();
        client.set_async();
        server.set_async();
        Endpoints { client, server, _context: context, _place: place }
    }

    fn pair(&self) -> Pair {
        let sides = [SSL.connection(&self.client), SSL.connection(&self.server)];
        Pair { sides, steps: [Step::WantsRead; 2] }
    }
}

/// Client and server of one connection.
struct Pair {
    sides: [Connection<'static>; 2],
    steps: [Step; 2],
}

impl Pair {
    fn is_over(&self) -> bool {
        self.steps == [Step::Done; 2] || self.steps.contains(&Step::Failed)
    }

    /// Returns the descriptors that it waits for, if it is paused.
    fn descriptors(&self) -> Vec<c_int> {
        let paused = self.sides.iter().zip(&self.steps).filter(|(_, step)| **step == Step::Paused);
        paused.flat_map(|(side, _)| side.descriptors()).collect()
    }

    /// Advances a side, and passes on its output after `change`.
    fn advance(&mut self, side: usize, change: &mut dyn FnMut(&mut Vec<u8>)) -> Step {
        if self.steps[side] != Step::Done {
            self.steps[side] = self.sides[side].advance();
            assert!(is_cancellable(), "a job that pauses leaves the thread as it came");
        }
        let mut bytes = self.sides[side].sent();
        change(&mut bytes);
        self.sides[1 - side].receive(&bytes);
        self.steps[side]
    }
}

/// Returns whether this thread can be cancelled, as a thread can at first.
fn is_cancellable() -> bool {
    unsafe extern "C" {
        fn pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
    }
    let (mut before, mut disabled) = (-1, -1);
    // SAFETY: 1 is PTHREAD_CANCEL_DISABLE; what was is put back.
    unsafe {
        assert_eq!(pthread_setcancelstate(1, &mut before), 0);
        assert_eq!(pthread_setcancelstate(before, &mut disabled), 0);
    }
    before == 0
}

/// Returns whether one of the descriptors is readable, now.
fn is_readable(descriptors: &[c_int]) -> bool {
    let ask = |&fd: &c_int| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    let mut asked: Vec<_> = descriptors.iter().map(ask).collect();
    // SAFETY: as many entries as said.
    unsafe { libc::poll(asked.as_mut_ptr(), asked.len() as libc::nfds_t, 0) > 0 }
}

/// An event loop: shakes hands on all of them; how often one was seen paused. `waits` says whether it
/// waits for a paused one's descriptor, or asks again at once.
fn run(pairs: &mut [Pair], waits: bool, change: &mut dyn FnMut(usize, &mut Vec<u8>)) -> usize {
    let mut pauses = 0;
    for _ in 0..1_000_000 {
        let mut all_over = true;
        for (index, pair) in pairs.iter_mut().enumerate() {
            for side in 0..2 {
                if pair.is_over() {
                    break;
                }
                all_over = false;
                let is_paused = pair.steps[side] == Step::Paused;
                if is_paused && waits && !is_readable(&pair.sides[side].descriptors()) {
                    continue;
                }
                let step = pair.advance(side, &mut |bytes| change(index, bytes));
                pauses += usize::from(step == Step::Paused);
            }
        }
        if all_over {
            return pauses;
        }
    }
    panic!("the handshakes do not end");
}

fn unchanged(_: usize, _: &mut Vec<u8>) {}

fn all_agree(pairs: &[Pair]) {
    for pair in pairs {
        assert_eq!(pair.steps, [Step::Done; 2], "{}", LIB.last_error());
        assert_eq!(pair.sides[0].exported(), pair.sides[1].exported());
    }
}

/// Connections of which some are paused: on the way, and not to the end.
fn half_way(ends: &Endpoints) -> Vec<Pair> {
    for _ in 0..100 {
        let mut pairs: Vec<_> = (0..48).map(|_| ends.pair()).collect();
        for _ in 0..2 {
            for pair in &mut pairs {
                for side in 0..2 {
                    if pair.steps[side] != Step::Paused && !pair.is_over() {
                        pair.advance(side, &mut |_| ());
                    }
                }
            }
        }
        if pairs.iter().any(|pair| !pair.descriptors().is_empty()) {
            return pairs;
        }
    }
    panic!("nothing paused, so nothing was tested");
}

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

#[test]
fn many_connections_pause_and_agree() {
    let _turn = turn();
    for (algorithm, waits) in [("ML-DSA-65", true), ("ML-DSA-44", false)] {
        let ends = Endpoints::new(algorithm, "yes");
        let mut pauses = 0;
        for _ in 0..4 {
            let mut pairs: Vec<_> = (0..48).map(|_| ends.pair()).collect();
            pauses += run(&mut pairs, waits, &mut unchanged);
            all_agree(&pairs);
        }
        assert!(pauses > 0, "{algorithm}: nothing paused, so nothing was tested");
    }
}

#[test]
fn disabled_async_jobs_do_not_pause() {
    let _turn = turn();
    let ends = Endpoints::new("ML-DSA-44", "no");
    let mut pairs: Vec<_> = (0..48).map(|_| ends.pair()).collect();
    assert_eq!(run(&mut pairs, true, &mut unchanged), 0);
    all_agree(&pairs);
}

/// It is not told of a descriptor that becomes readable, and would wait for ever.
#[test]
fn a_program_that_wants_to_be_called_back_is_not_paused() {
    let _turn = turn();
    let ends = Endpoints::new("ML-DSA-44", "yes");
    ends.client.set_async_callback();
    ends.server.set_async_callback();
    let mut pairs: Vec<_> = (0..48).map(|_| ends.pair()).collect();
    assert_eq!(run(&mut pairs, true, &mut unchanged), 0);
    all_agree(&pairs);
}

/// Zeros instead of a point: a client's share of X25519 is the end of its key share.
fn spoil(bytes: &mut [u8]) {
    const HEAD: [u8; 4] = [0x11, 0xec, 0x04, 0xc0];
    let at = bytes.windows(4).position(|head| head == HEAD);
    if let Some(at) = at {
        bytes[at + 4 + 1184..at + 4 + 1216].fill(0);
    }
}

#[test]
fn a_bad_share_fails_its_own_connection() {
    let _turn = turn();
    let ends = Endpoints::new("ML-DSA-44", "yes");
    let mut pauses = 0;
    for _ in 0..4 {
        let mut pairs: Vec<_> = (0..48).map(|_| ends.pair()).collect();
        pauses += run(&mut pairs, true, &mut |index, bytes| {
            if index % 5 == 0 {
                spoil(bytes);
            }
        });
        for (index, pair) in pairs.into_iter().enumerate() {
            if index % 5 == 0 {
                assert_eq!(pair.steps[1], Step::Failed, "connection {index}");
            } else {
                all_agree(&[pair]);
            }
        }
    }
    assert!(pauses > 0);
}

#[test]
fn connections_that_are_freed_while_they_wait_leave_nothing_open() {
    let _turn = turn();
    let ends = Endpoints::new("ML-DSA-65", "yes");
    let mut pairs: Vec<_> = (0..48).map(|_| ends.pair()).collect();
    run(&mut pairs, true, &mut unchanged);
    drop(pairs);
    let before = descriptors();
    // Freed with their operations under way.
    (0..20).for_each(|_| drop(half_way(&ends)));
    assert!(descriptors() <= before, "closed with their connections");
    let mut pairs: Vec<_> = (0..48).map(|_| ends.pair()).collect();
    run(&mut pairs, true, &mut unchanged);
    all_agree(&pairs);
    drop(pairs);
    assert!(descriptors() <= before, "{before} descriptors before, {} after", descriptors());
}

/// An event loop considers a descriptor closed with its connection. If a child inherited it, or if
/// it was duplicated, the loop would still get events for it, for a connection that is freed.
#[test]
fn a_copy_of_a_descriptor_is_silent_when_its_connection_is_freed() {
    let _turn = turn();
    let ends = Endpoints::new("ML-DSA-65", "yes");
    let mut copies = Vec::new();
    for round in 0..10 {
        let pairs = half_way(&ends);
        if round % 2 == 1 {
            // Results are ready, and not fetched yet.
            std::thread::sleep(Duration::from_millis(20));
        }
        let all = pairs.iter().flat_map(Pair::descriptors);
        // SAFETY: no pointer is passed.
        let made: Vec<_> = all.map(|fd| unsafe { libc::dup(fd) }).collect();
        drop(pairs);
        assert!(!is_readable(&made));
        copies.extend(made);
    }
    let mut pairs: Vec<_> = (0..48).map(|_| ends.pair()).collect();
    run(&mut pairs, true, &mut unchanged);
    all_agree(&pairs);
    assert!(!is_readable(&copies), "a worker wrote to what was freed");
    // SAFETY: made above.
    copies.into_iter().for_each(|fd| assert_eq!(unsafe { libc::close(fd) }, 0));
}

/// A server at its limit, which a peer may bring about.
#[test]
fn descriptor_exhaustion_disables_pausing_without_failures() {
    let _turn = turn();
    let ends = Endpoints::new("ML-DSA-44", "yes");
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: room for the limits; no descriptor is closed by that.
    unsafe { assert_eq!(libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit), 0) };
    let none = libc::rlimit { rlim_cur: 3, ..limit };
    // SAFETY: a limit of this process, put back below.
    unsafe { assert_eq!(libc::setrlimit(libc::RLIMIT_NOFILE, &none), 0) };
    let mut pairs: Vec<_> = (0..48).map(|_| ends.pair()).collect();
    let pauses = run(&mut pairs, true, &mut unchanged);
    // SAFETY: as above.
    unsafe { assert_eq!(libc::setrlimit(libc::RLIMIT_NOFILE, &limit), 0) };
    assert_eq!(pauses, 0);
    all_agree(&pairs);
    let mut pairs: Vec<_> = (0..48).map(|_| ends.pair()).collect();
    assert!(run(&mut pairs, true, &mut unchanged) > 0, "and later they pause again");
    all_agree(&pairs);
}

const SLOW: &str = "SLH-DSA-SHA2-128f";

/// The input of a signing job, and its signature.
struct Order<'a> {
    key: &'a Key<'a>,
    algorithm: &'static str,
    deterministic: bool,
    signature: Option<Vec<u8>>,
}

impl<'a> Order<'a> {
    fn new(key: &'a Key<'a>, algorithm: &'static str, deterministic: bool) -> Self {
        Order { key, algorithm, deterministic, signature: None }
    }
}

/// A job: carries out the order whose address is passed.
unsafe extern "C" fn signs(order: *mut c_void) -> c_int {
    // SAFETY: the argument is a copy of the address of an order that stays alive, with no other
    // references.
    let order = unsafe { &mut **order.cast::<*mut Order<'_>>() };
    let params = Params::default();
    let params = if order.deterministic { params.int("deterministic", 1) } else { params };
    order.signature = order.key.sign(
        order.algorithm,
        gabion_provider_testing::OURS,
        &params,
        b"before and after",
    );
    c_int::from(order.signature.is_some())
}

/// A signing job, with its wait context.
struct Job<'a> {
    raw: *mut c_void,
    wait: *mut c_void,
    order: &'a mut Order<'a>,
}

impl<'a> Job<'a> {
    fn new(order: &'a mut Order<'a>) -> Self {
        // SAFETY: no argument.
        let wait = unsafe { (LIB.ASYNC_WAIT_CTX_new)() };
        Job { raw: null_mut(), wait, order }
    }

    /// Starts or continues the job; returns its result, or `None` if it paused.
    fn advance(&mut self) -> Option<bool> {
        const PAUSED: c_int = 2;
        const FINISHED: c_int = 3;
        let (mut order, mut signed) = (std::ptr::from_mut(self.order), 0);
        // SAFETY: live objects; the argument is copied at the start.
        let state = unsafe {
            let argument = (&raw mut order).cast();
            let size = size_of::<*mut Order<'_>>();
            (LIB.ASYNC_start_job)(&mut self.raw, self.wait, &mut signed, signs, argument, size)
        };
        assert!(is_cancellable());
        assert!([PAUSED, FINISHED].contains(&state), "{state}");
        (state == FINISHED).then_some(signed == 1)
    }
}

impl Drop for Job<'_> {
    fn drop(&mut self) {
        // SAFETY: made with it; the job is over.
        unsafe { (LIB.ASYNC_WAIT_CTX_free)(self.wait) };
    }
}

/// Signatures of one message by one key, in jobs side by side; how many of the jobs paused.
fn signed_side_by_side(key: &Key<'_>, deterministic: bool) -> (Vec<Vec<u8>>, usize) {
    const JOBS: usize = 48;
    let mut orders: Vec<_> =
        (0..JOBS).map(|_| Order::new(key, "ML-DSA-44", deterministic)).collect();
    let mut jobs: Vec<_> = orders.iter_mut().map(Job::new).collect();
    let mut left: Vec<usize> = (0..JOBS).collect();
    let mut paused = 0;
    while !left.is_empty() {
        left.retain(|&index| jobs[index].advance().is_none_or(|signed| !signed));
        paused = paused.max(left.len());
    }
    let take = |job: Job<'_>| job.order.signature.take().unwrap();
    (jobs.into_iter().map(take).collect(), paused)
}

/// The worker's randomness was drawn by its caller, for this signature alone.
#[test]
fn hedged_signatures_of_one_message_differ() {
    let _turn = turn();
    let place = TestFolder::new();
    place.configure("async-jobs = yes");
    let context = Context::with_config(&LIB, &place.path("gabion.cnf"));
    let key =
        context.generate("ML-DSA-44", gabion_provider_testing::OURS, &Params::default()).unwrap();
    let (mut signatures, mut paused) = (Vec::new(), 0);
    for _ in 0..4 {
        let (made, at_once) = signed_side_by_side(&key, false);
        signatures.extend(made);
        paused = paused.max(at_once);
    }
    assert!(paused > 1, "{paused} paused at once, so nothing was tested");
    let all = signatures.len();
    signatures.sort();
    signatures.dedup();
    assert_eq!(signatures.len(), all, "two signatures are equal");
    let (mut same, _) = signed_side_by_side(&key, true);
    same.dedup();
    assert_eq!(same.len(), 1, "deterministic ones differ");
    assert!(!signatures.contains(&same[0]));
}

/// The worker that has its operation is its parent's.
#[test]
fn a_forked_child_goes_on_with_what_its_parent_paused() {
    let _turn = turn();
    let place = TestFolder::new();
    place.configure("async-jobs = yes");
    let context = Context::with_config(&LIB, &place.path("gabion.cnf"));
    let key = context.generate(SLOW, gabion_provider_testing::OURS, &Params::default()).unwrap();
    for _ in 0..40 {
        let mut order = Order::new(&key, SLOW, false);
        let mut job = Job::new(&mut order);
        if let Some(signed) = job.advance() {
            assert!(signed);
            continue;
        }
        // SAFETY: the child goes on with its copy and ends by _exit; one that hangs is killed.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: no pointer is passed.
            unsafe {
                libc::alarm(20);
                libc::_exit(
                    (0..100).find_map(|_| job.advance()).map_or(2, |done| i32::from(!done)),
                );
            }
        }
        assert_eq!((0..100).find_map(|_| job.advance()), Some(true));
        let mut status = -1;
        // SAFETY: a child of ours.
        assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
        assert_eq!(status, 0, "status {status:#x}");
        return;
    }
    panic!("nothing paused, so nothing was tested");
}

#[test]
fn a_forked_child_pauses_with_a_worker_of_its_own() {
    let _turn = turn();
    let ends = Endpoints::new("ML-DSA-44", "yes");
    let shake = || {
        let mut pairs: Vec<_> = (0..48).map(|_| ends.pair()).collect();
        let pauses = run(&mut pairs, true, &mut unchanged);
        all_agree(&pairs);
        pauses
    };
    assert!((0..4).map(|_| shake()).sum::<usize>() > 0);
    // SAFETY: the child shakes hands and ends by _exit.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: no pointer is passed.
        unsafe { libc::alarm(60) };
        let good = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            (0..4).map(|_| shake()).sum::<usize>() > 0
        }));
        // SAFETY: ends the child without the parent's exit handlers.
        unsafe { libc::_exit(i32::from(!good.unwrap_or(false))) }
    }
    shake();
    let mut status = -1;
    // SAFETY: a child of ours.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    assert_eq!(status, 0, "status {status:#x}");
}
