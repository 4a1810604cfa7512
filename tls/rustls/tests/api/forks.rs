//! A process that was forked after its parent made handshakes: it draws fresh secrets, and does not
//! block.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::FromRawFd;
use std::sync::Arc;

use gabion_engine::Algorithm;
use gabion_rustls::groups::DEFAULT;
use gabion_rustls::testing::{Chain, Key, chain};

use super::pair::{client, connect, engine_provider, server, shake};

/// Runs in a separate process, without other threads that could be at work.
#[test]
fn a_child_draws_its_own_secrets() {
    const CHILD: &str = "GABION_TEST_FORK";
    if std::env::var_os(CHILD).is_some() {
        return fork_and_compare();
    }
    let name = "forks::a_child_draws_its_own_secrets";
    let mut child = std::process::Command::new(std::env::current_exe().unwrap());
    let ended = child.args(["--exact", name, "--test-threads", "1"]).env(CHILD, "1").output();
    let ended = ended.unwrap();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stdout));
}

/// Returns one value of each kind that a process draws: key shares of both sides of every group, a random value of rustls's, a
/// signature, and the random and session id of a ClientHello.
fn drawn(chain: &Chain) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    for group in DEFAULT {
        let started = group.start().unwrap();
        all.push(group.start_and_complete(started.pub_key()).unwrap().pub_key);
        all.push(started.pub_key().to_vec());
    }
    let provider = engine_provider(DEFAULT);
    let mut random = [0; 32];
    provider.secure_random.fill(&mut random).unwrap();
    all.push(random.to_vec());
    let signer = chain.key.choose_scheme(&[rustls::SignatureScheme::ML_DSA_65]).unwrap();
    let mut signature = signer.sign(b"transcript").unwrap();
    // Without the hints at its end, which are zeros in part.
    signature.truncate(1024);
    all.push(signature);
    let (client, server) = (client(&provider, chain), server(&provider, chain));
    let (mut hello, mut out) = (connect(&Arc::new(client), &Arc::new(server)).0, Vec::new());
    hello.write_tls(&mut out).unwrap();
    // Behind the heads of the record and the message and a version (RFC 8446, section 4.1.2). The rest is alike in both processes.
    all.push(out[11..76].to_vec());
    all
}

fn fork_and_compare() {
    let provider = engine_provider(DEFAULT);
    let chain = chain(Key::Engine(Algorithm::MlDsa65), 1);
    let (client, server) =
        (Arc::new(client(&provider, &chain)), Arc::new(server(&provider, &chain)));
    // The parent has begun to use everything, its cache of public keys too.
    shake(&client, &server).unwrap();
    let mut pipe = [0; 2];
    // SAFETY: the array has room for two.
    assert_eq!(unsafe { libc::pipe(pipe.as_mut_ptr()) }, 0);
    // SAFETY: both are open, and owned by nothing else.
    let [mut from_child, to_parent] = pipe.map(|fd| unsafe { File::from_raw_fd(fd) });
    // SAFETY: the child ends by _exit, whatever happens in it.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: no pointer is passed.
        unsafe { libc::alarm(60) };
        let work = || {
            shake(&client, &server).unwrap();
            let mut to_parent = &to_parent;
            drawn(&chain).iter().for_each(|value| to_parent.write_all(value).unwrap());
        };
        let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
        // SAFETY: nothing of the parent's is undone on the way.
        unsafe { libc::_exit(i32::from(ended.is_err())) };
    }
    assert!(child > 0, "no process could be made");
    drop(to_parent);
    let own = drawn(&chain);
    shake(&client, &server).unwrap();
    let mut aws_lc_provider = Vec::new();
    from_child.read_to_end(&mut aws_lc_provider).unwrap();
    let mut status = 0;
    // SAFETY: a child of this process that was not waited for yet.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0, "{status}");
    assert_eq!(own.iter().map(Vec::len).sum::<usize>(), aws_lc_provider.len());
    let mut rest = &aws_lc_provider[..];
    for (number, own) in own.iter().enumerate() {
        let (other, after) = rest.split_at(own.len());
        // No run of 16 bytes is equal at the same place.
        let mut same = own.windows(16).zip(other.windows(16)).enumerate();
        let same = same.find(|(_, (own, other))| own == other);
        assert!(same.is_none(), "value {number}: {same:?}");
        rest = after;
    }
}
