//! The driver over the system's libcuda, where there is one with a GPU; elsewhere this says so and does nothing.

use std::time::{Duration, Instant};

use gabion_cuda::driver::{Energy, Nvidia};
use gabion_cuda::{Device, Fault, HashArguments, Launch};

use super::{LONG, batch};

/// Bytes of a large copy.
const LARGE: usize = 64 << 20;

#[test]
fn real_gpu_runs_batches_and_restarts() {
    let device = match Nvidia::open(0) {
        Ok(device) => device,
        Err(error) => return println!("no GPU here: {error}"),
    };
    let free = device.free_bytes().unwrap();
    println!("{:?}, {free} bytes are free", device.info());
    let meter = Energy::of_device(device.info());
    println!("energy: {:?} mJ", meter.as_ref().and_then(Energy::millijoules));
    for round in 0..3 {
        for (stream, is_pinned) in [(0, false), (1, true), (2, false), (0, true)] {
            assert_eq!(batch(&device, stream, is_pinned, LONG), Ok(()), "{round}");
        }
    }
    memory_is_zero(&device);
    large_copies(&device);
    launches_are_timed(&device);
    errors_are_over_after_a_restart(&device);
    time_outs_are_over_after_a_restart(&device);
    a_child_has_no_device(&device);
    println!("{:?}", device.counters());
    drop(device);
    let again = Nvidia::open(0).unwrap();
    assert_eq!(batch(&again, 0, true, LONG), Ok(()));
    a_wrong_address_is_an_error_for_now_or_for_good(&again);
}

fn memory_is_zero(device: &Nvidia) {
    let mut bytes = vec![7; 1 << 20];
    let at = device.allocate(bytes.len()).unwrap();
    assert_eq!(at % 256, 0);
    // SAFETY: it stays until it has finished.
    unsafe { device.download(3, at, bytes.as_mut_ptr(), bytes.len()) }.unwrap();
    device.finish(3, LONG).unwrap();
    assert!(bytes.iter().all(|&byte| byte == 0));
    assert_eq!(device.allocate(1 << 50), Err(Fault::NoMemory));
}

fn large_copies(device: &Nvidia) {
    let at = device.allocate(LARGE).unwrap();
    let (mut plain, mut back) = (vec![0u8; LARGE], vec![0u8; LARGE]);
    let (mut pinned, mut pinned_back) = (device.pin(LARGE).unwrap(), device.pin(LARGE).unwrap());
    for (i, byte) in plain.iter_mut().enumerate() {
        *byte = (i / 251) as u8 ^ i as u8;
    }
    pinned.copy_from_slice(&plain);
    for round in 0..3 {
        let mut took = Vec::new();
        for (from, to) in [(&plain[..], &mut back[..]), (&pinned[..], &mut pinned_back[..])] {
            to.fill(0);
            let staged = device.counters().staged;
            let begun = Instant::now();
            // SAFETY: both stay until it has finished.
            unsafe { device.upload(0, at, from.as_ptr(), LARGE) }.unwrap();
            device.finish(0, LONG).unwrap();
            let up = begun.elapsed();
            // SAFETY: as above.
            unsafe { device.download(0, at, to.as_mut_ptr(), LARGE) }.unwrap();
            device.finish(0, LONG).unwrap();
            took.push((up, begun.elapsed() - up, device.counters().staged - staged));
            assert!(to == from, "{round}");
            device.clear(0, at, LARGE).unwrap();
            device.finish(0, LONG).unwrap();
        }
        assert_eq!(took[1].2, 0, "pinned memory is locked");
        for (up, down, staged) in took {
            let rate = |took: Duration| LARGE as f64 / took.as_secs_f64() / 1e9;
            println!(
                "{LARGE} bytes, {staged} staged: {:.1} GB/s to, {:.1} from",
                rate(up),
                rate(down)
            );
        }
    }
}

fn launches_are_timed(device: &Nvidia) {
    device.profile(true);
    for _ in 0..3 {
        assert_eq!(batch(device, 0, false, LONG), Ok(()));
    }
    let times = device.times();
    println!("{times:?}");
    assert!(matches!(&times[..], [(_, 3, ms)] if *ms > 0.0));
    device.profile(false);
}

fn errors_are_over_after_a_restart(device: &Nvidia) {
    let mut kept = device.pin(4096).unwrap();
    kept.fill(5);
    for trouble in 0..3 {
        let launch = wrong_launch();
        let launch = Launch::new("gabion_keccak_f", &launch, 1);
        // SAFETY: nothing runs.
        let asked = unsafe {
            match trouble {
                0 => device.launch(0, &Launch { kernel: "gabion_sha1", ..launch }),
                1 => device.launch(0, &Launch { arguments: &[0; 8], ..launch }),
                _ => device.upload(0, 256, kept.as_ptr(), 4096),
            }
        };
        let finished = device.finish(0, LONG);
        println!("trouble {trouble}: {asked:?}, {finished:?}");
        assert!(asked.and(finished) == Err(Fault::Failed), "trouble {trouble}");
        assert_eq!(device.allocate(1), Err(Fault::Failed));
        let begun = Instant::now();
        assert_eq!(device.restart(), Ok(()));
        println!("restarted in {:?}", begun.elapsed());
        for is_pinned in [false, true] {
            assert_eq!(batch(device, 0, is_pinned, LONG), Ok(()));
        }
        let staged = device.counters().staged;
        let at = device.allocate(4096).unwrap();
        // SAFETY: it stays until it has finished.
        unsafe { device.upload(1, at, kept.as_ptr(), 4096) }.unwrap();
        assert_eq!((device.finish(1, LONG), device.counters().staged), (Ok(()), staged));
    }
    assert!(kept.iter().all(|&byte| byte == 5));
}

/// Returns arguments with an address that is not allocated.
fn wrong_launch() -> HashArguments {
    HashArguments { messages: 256, out: 256, length: 200, n: 1 }
}

/// A wrong address in a kernel can leave a process without CUDA for good (CUDA_ERROR_ILLEGAL_ADDRESS, CUDA Driver API).
/// Then every call fails, and none hangs.
fn a_wrong_address_is_an_error_for_now_or_for_good(device: &Nvidia) {
    // SAFETY: nothing runs but the kernel that is given a wrong address, which is an error of its context.
    let asked = unsafe { device.launch(0, &Launch::new("gabion_keccak_f", &wrong_launch(), 1)) };
    assert_eq!(asked.and(device.finish(0, LONG)), Err(Fault::Failed));
    match device.restart() {
        Ok(()) => assert_eq!(batch(device, 0, true, LONG), Ok(())),
        Err(fault) => {
            println!("no restart after a wrong address: {fault:?}");
            assert_eq!(batch(device, 0, false, LONG), Err(Fault::Failed));
            assert_eq!(device.allocate(1), Err(Fault::Failed));
        }
    }
}

fn time_outs_are_over_after_a_restart(device: &Nvidia) {
    const N: usize = 1 << 20;
    const LAUNCHES: usize = 400;
    for is_pinned in [false, true] {
        let at = device.allocate(200 * N).unwrap();
        let arguments = HashArguments { messages: at, out: at, length: 200, n: N as u32 };
        let launch = Launch::new("gabion_keccak_f", &arguments, N as u32 / 128);
        let (mut plain, mut pinned) = (vec![0xeeu8; 4096], device.pin(4096).unwrap());
        pinned.fill(0xee);
        let to = if is_pinned { &mut pinned[..] } else { &mut plain[..] };
        // SAFETY: the memory has that many states; the target of the copy stays until the copy has
        // finished.
        unsafe {
            for _ in 0..LAUNCHES {
                device.launch(0, &launch).unwrap();
            }
            device.download(0, at, to.as_mut_ptr(), 4096).unwrap();
        }
        let begun = Instant::now();
        assert_eq!(device.finish(0, Duration::from_millis(1)), Err(Fault::TimedOut));
        println!("timed out after {:?}, pinned: {is_pinned}", begun.elapsed());
        let at_once = to.to_vec();
        std::thread::sleep(Duration::from_millis(500));
        assert!(to == &at_once[..], "written after it has finished");
        assert!(is_pinned || to.iter().all(|&byte| byte == 0xee));
        let begun = Instant::now();
        assert_eq!(device.restart(), Ok(()));
        println!("restarted in {:?}", begun.elapsed());
        assert_eq!(batch(device, 0, is_pinned, LONG), Ok(()));
    }
}

fn a_child_has_no_device(device: &Nvidia) {
    let mut pinned = device.pin(4096).unwrap();
    pinned.fill(9);
    // SAFETY: the child looks at its own memory and ends by _exit.
    let status = unsafe {
        let child = libc::fork();
        if child == 0 {
            let is_zero = pinned.iter().all(|&byte| byte == 0);
            let refused = [device.allocate(1).map(drop), device.finish(0, LONG), device.restart()];
            let is_refused = refused.iter().all(|done| *done == Err(Fault::Failed));
            libc::_exit(i32::from(!(is_zero && is_refused)));
        }
        let mut status = -1;
        libc::waitpid(child, &mut status, 0);
        status
    };
    assert_eq!(status, 0);
    pinned.iter().for_each(|&byte| assert_eq!(byte, 9));
    assert_eq!(batch(device, 0, true, LONG), Ok(()));
}
