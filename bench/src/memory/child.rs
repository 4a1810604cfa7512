//! The process that is measured: one side of two connections.

use std::ffi::c_void;
use std::net::TcpStream;

use super::{Answer, Role, Task, Usage, stack};
use crate::Error;
use crate::ossl::{Certificate, Endpoint, Key, Ossl};
use crate::wire;

/// Connections that a child makes: one to get warm, one that counts.
pub(super) const CONNECTIONS: usize = 2;

/// The counters of the preloaded library; probe.rs defines the layout.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Heap {
    allocations: u64,
    total: u64,
    live: i64,
    peak: i64,
}

/// The library's two functions.
struct Probe {
    read: unsafe extern "C" fn(*mut Heap),
    mark: unsafe extern "C" fn(),
}

impl Probe {
    /// Finds the library in this process.
    fn find() -> Result<Probe, Error> {
        let symbol = |name: &std::ffi::CStr| {
            // SAFETY: a terminated name, looked for in what the loader has loaded globally.
            let found: *mut c_void = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
            if found.is_null() {
                let text =
                    "the heap probe is not preloaded; this is a part of `gabion bench memory`";
                return Err(Error::Usage(text.into()));
            }
            Ok(found)
        };
        let (read, mark) = (symbol(c"gabion_heap_read")?, symbol(c"gabion_heap_mark")?);
        // SAFETY: the types are those of the two functions in probe.rs.
        unsafe {
            Ok(Probe {
                read: std::mem::transmute::<*mut c_void, unsafe extern "C" fn(*mut Heap)>(read),
                mark: std::mem::transmute::<*mut c_void, unsafe extern "C" fn()>(mark),
            })
        }
    }

    /// Returns the counts, and restarts the peak from the live bytes.
    fn take(&self) -> Heap {
        let mut heap = Heap::default();
        // SAFETY: `heap` is writable and has the layout of the library's.
        unsafe {
            (self.read)(&mut heap);
            (self.mark)();
        }
        heap
    }
}

/// Runs the `task` that [`measure`](super::measure) wrote, and returns the figures as JSON.
///
/// # Errors
/// `Usage` if the task is malformed or the probe is missing; otherwise like `measure`.
pub fn run_child(task: &str) -> Result<String, Error> {
    let probe = Probe::find()?;
    let task: Task = serde_json::from_str(task)
        .map_err(|cause| Error::Usage(format!("that is no task of `bench memory`: {cause}")))?;
    let start = probe.take();
    let thread = std::thread::Builder::new().stack_size(stack::THREAD);
    let working = thread
        .spawn(move || measure(&task, &probe, &start))
        .map_err(|cause| Error::NotReady(format!("no thread: {cause}")))?;
    let failed = || Error::Failed("the measured thread failed".into());
    let answer = working.join().map_err(|_| failed())??;
    serde_json::to_string(&answer).map_err(|_| failed())
}

fn measure(task: &Task, probe: &Probe, start: &Heap) -> Result<Answer, Error> {
    let endpoint = endpoint(task)?;
    let mut connection = Heap::default();
    let (mut before, mut peak) = (Heap::default(), 0);
    let mut stack = 0;
    for _ in 0..CONNECTIONS {
        before = probe.take();
        peak = peak.max(before.peak);
        let (spoken, used) = stack::measure(|| speak(task, &endpoint));
        connection = probe.take();
        peak = peak.max(connection.peak);
        stack = used;
        spoken?;
    }
    let usage = |from: &Heap, peak: i64, stack: Option<u64>| Usage {
        allocations: connection.allocations - from.allocations,
        heap_total: connection.total - from.total,
        heap_peak: (peak - from.live).max(0) as u64,
        stack,
    };
    Ok(Answer {
        connection: usage(&before, connection.peak, Some(stack as u64)),
        process: usage(start, peak, None),
    })
}

fn endpoint(task: &Task) -> Result<Endpoint, Error> {
    let ossl = Ossl::load(&task.prefix)?;
    let context =
        crate::tls::context_for(task.provider, ossl, task.modules.as_deref(), task.drafts)?;
    let read = |name: &str| {
        let path = task.credentials.join(name);
        std::fs::read(&path)
            .map_err(|cause| Error::NotReady(format!("reading {}: {cause}", path.display())))
    };
    let cipher = Some(wire::CIPHER);
    Ok(match task.role {
        Role::Server => {
            let key = Key::from_der(&context, &read("leaf.key")?)?;
            let leaf = Certificate::from_der(&context, &read("leaf.der")?)?;
            Endpoint::server(&context, task.group.as_str(), cipher, &key, &leaf)?
        }
        Role::Client => {
            let root = Certificate::from_der(&context, &read("root.der")?)?;
            Endpoint::client(&context, task.group.as_str(), cipher, &root)?
        }
    })
}

fn speak(task: &Task, endpoint: &Endpoint) -> Result<(), Error> {
    let socket = TcpStream::connect(("127.0.0.1", task.port))
        .map_err(|cause| Error::Failed(format!("connecting to the peer: {cause}")))?;
    match task.role {
        Role::Server => wire::serve(endpoint, &socket)?,
        Role::Client => wire::ask(endpoint, &socket)?,
    }
    Ok(())
}
