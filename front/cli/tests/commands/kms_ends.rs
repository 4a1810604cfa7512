//! How `gabion kms serve` starts and ends under different parents, and how to replace a lost
//! administrator.

use std::io::{Read, Write};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::harness::Work;
use crate::kms::{Caller, ServeCommand, config, ended, terminate};

/// How long whatever is waited for may take.
const LONG: Duration = Duration::from_secs(30);

/// A store whose seal two of three shares open, which are in `shares`.
fn place(work: &Work) -> Caller<'_> {
    work.write("kms.toml", config(work, "store", ""));
    let (caller, shares) = Caller::init(work, &["--shares", "3", "--threshold", "2"]);
    work.write("shares", shares.join("\n"));
    caller
}

/// A server that tells a socket of its state.
fn told(work: &Work, name: &str) -> Child {
    let mut command = work.command(&["kms", "serve", "--config", "kms.toml"]);
    command.env("NOTIFY_SOCKET", name).stderr(Stdio::null()).spawn().unwrap()
}

#[test]
fn service_manager_is_notified_of_ready_and_stopping() {
    let work = Work::new();
    let caller = place(&work);
    let socket = UnixDatagram::bind(work.path("notify")).unwrap();
    socket.set_read_timeout(Some(LONG)).unwrap();
    let mut child = told(&work, work.path("notify").to_str().unwrap());
    let heard = || {
        let mut bytes = [0; 64];
        let len = socket.recv(&mut bytes).unwrap();
        String::from_utf8(bytes[..len].to_vec()).unwrap()
    };
    assert_eq!(heard(), "READY=1");
    // The notification is correct: the server answers.
    assert!(!caller.run(&["status"]).text().is_empty());
    terminate(&child);
    assert_eq!(heard(), "STOPPING=1");
    assert_eq!(ended(&mut child), Some(0));
    // A missing notification socket does not prevent serving.
    let mut child = told(&work, "/missing/notify");
    caller.hears();
    terminate(&child);
    assert_eq!(ended(&mut child), Some(0));
}

/// SIGHUP is a reload, and what asks for nothing does nothing; SIGQUIT ends it as SIGTERM does.
#[test]
fn no_signal_ends_a_server_without_a_drain() {
    let work = Work::new();
    let caller = place(&work);
    let socket = UnixDatagram::bind(work.path("notify")).unwrap();
    socket.set_read_timeout(Some(LONG)).unwrap();
    let heard = || {
        let mut bytes = [0; 128];
        let len = socket.recv(&mut bytes).unwrap();
        String::from_utf8(bytes[..len].to_vec()).unwrap()
    };
    let mut child = told(&work, work.path("notify").to_str().unwrap());
    assert_eq!(heard(), "READY=1");
    let send = |child: &Child, signal: &str| {
        let id = child.id().to_string();
        assert!(Command::new("kill").args(["-s", signal, &id]).status().unwrap().success());
    };
    // Numbers, since not every kill(1) knows every name: USR1, USR2, ALRM, PIPE, VTALRM, PROF, IO, PWR, STKFLT, XFSZ, XCPU, WINCH, RTMIN, RTMAX.
    for signal in
        ["10", "12", "14", "13", "26", "27", "29", "30", "16", "25", "24", "28", "34", "64"]
    {
        send(&child, signal);
        assert!(!caller.run(&["status"]).text().is_empty(), "{signal}");
    }
    for _ in 0..2 {
        send(&child, "HUP");
        let reloading = heard();
        let time = reloading.strip_prefix("RELOADING=1\nMONOTONIC_USEC=").unwrap();
        assert!(time.parse::<u64>().unwrap() > 0);
        assert_eq!(heard(), "READY=1");
    }
    send(&child, "QUIT");
    assert_eq!(heard(), "STOPPING=1");
    assert_eq!(ended(&mut child), Some(0));
}

/// A request of which a part has come when the server is asked to end.
#[test]
fn a_request_that_is_under_way_is_answered_before_the_end() {
    let work = Work::new();
    let caller = place(&work);
    let mut child = told(&work, "/missing/notify");
    caller.hears();
    caller.run(&["unseal", "shares"]).ok();
    let body = r#"{"name": "k", "algorithm": "ml-dsa-65"}"#;
    let mut stream = UnixStream::connect(work.path("kms")).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    let head = format!(
        "POST /v1/kms/keys HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {}\r\nContent-Length: {}\r\n\
         Expect: 100-continue\r\n\r\n",
        caller.token,
        body.len()
    );
    stream.write_all(head.as_bytes()).unwrap();
    // The server has read the head and waits for the body.
    let mut bytes = [0; 512];
    let mut said = String::new();
    while !said.contains("100 Continue\r\n\r\n") {
        let len = stream.read(&mut bytes).unwrap();
        assert!(len > 0, "{said}");
        said.push_str(std::str::from_utf8(&bytes[..len]).unwrap());
    }
    stream.write_all(&body.as_bytes()[..10]).unwrap();
    terminate(&child);
    let start = Instant::now();
    while UnixStream::connect(work.path("kms")).is_ok() {
        assert!(start.elapsed() < LONG, "it takes connections still");
        std::thread::sleep(Duration::from_millis(5));
    }
    stream.write_all(&body.as_bytes()[10..]).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("\"name\":\"k\""), "{answer}");
    assert_eq!(ended(&mut child), Some(0));
}

/// A full disk under the log neither prevents serving nor changes the exit code; a `dev` server
/// whose token cannot be printed is useless and ends.
#[test]
fn unwritable_output_ends_dev_server_only() {
    let work = Work::new();
    let caller = place(&work);
    let full = || Stdio::from(std::fs::File::options().write(true).open("/dev/full").unwrap());
    let child = work.command(&["kms", "serve", "--config", "kms.toml"]).stderr(full()).spawn();
    let mut child = child.unwrap();
    let start = Instant::now();
    while caller.run(&["status"]).text().is_empty() {
        assert!(start.elapsed() < LONG, "it does not serve");
        std::thread::sleep(Duration::from_millis(20));
    }
    terminate(&child);
    assert_eq!(ended(&mut child), Some(0));
    for (command, code) in [(&["kms", "status"][..], 2), (&["kms", "serve", "--config", "none"], 2)]
    {
        let status = work.command(command).stderr(full()).status().unwrap();
        assert_eq!(status.code(), Some(code), "{command:?}");
    }
    for json in [&[][..], &["--json"]] {
        let command = [&["kms", "dev", "--listen", "127.0.0.1:0"][..], json].concat();
        let child = work.command(&command).stdout(full()).stderr(Stdio::null()).spawn();
        assert_eq!(ended(&mut child.unwrap()), Some(3), "{command:?}");
    }
}

/// Clients that disconnect before the answer do not affect others: no write to a closed connection
/// ends the process.
#[test]
fn early_disconnect_does_not_end_the_server() {
    let work = Work::new();
    let caller = place(&work);
    let mut child = told(&work, "/missing/notify");
    caller.hears();
    for _ in 0..50 {
        let mut stream = UnixStream::connect(work.path("kms")).unwrap();
        stream.write_all(&b"GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n".repeat(5)).unwrap();
    }
    assert!(caller.run(&["status"]).text().contains("sealed"));
    terminate(&child);
    assert_eq!(ended(&mut child), Some(0));
}

#[test]
fn shares_replace_a_lost_administrator() {
    let work = Work::new();
    let caller = place(&work);
    let server = ServeCommand::start(&caller);
    caller.run(&["unseal", "shares"]).ok();
    caller.run(&["key", "create", "k", "--algorithm", "ed25519"]).ok();
    let shares = String::from_utf8(work.read("shares")).unwrap();
    work.write("one", shares.lines().next().unwrap());
    let lost = caller.with("");
    assert_eq!(lost.run(&["recover-admin", "one"]).ok().text(), "1 of 2 shares are entered\n");
    caller.run(&["key", "list"]).ok();
    lost.run(&["recover-admin", "--lifetime", "30d", "one"]).fails(2).says("--reset");
    lost.run(&["recover-admin", "--lifetime", "never", "one"]).fails(2).says("12h or 30d");
    let recovered = lost.run(&["recover-admin", "--json", "shares"]).ok().json();
    assert!(recovered["expires_ms"].as_u64().is_some());
    caller.run(&["key", "list"]).fails(1).says("unauthenticated");
    let new = caller.with(recovered["token"].as_str().unwrap());
    assert!(new.run(&["key", "list"]).ok().text().contains('k'));
    // Under policies that permit nothing to the new administrator.
    work.write("ops.cedar", "permit(principal == Token::\"first\", action, resource);");
    new.run(&["policy", "put", "all", "ops.cedar"]).ok();
    let how = lost.run(&["recover-admin", "--principal", "new", "shares"]).ok().text();
    assert!(how.contains("policies do not apply to this token until it ends"), "{how}");
    assert!(how.contains("  all#0  Token::\"first\"  token, policy\n"), "{how}");
    let token = how.lines().next().unwrap().strip_prefix("token  ").unwrap().to_owned();
    caller.with(&token).run(&["policy", "delete", "all"]).ok();
    let new = caller.with(&token);
    new.run(&["recover-admin", "/dev/null"]).fails(2).says("no share was given");
    assert_eq!(server.end(), Some(0));
}

/// A holder of a share left: shares are replaced, and the old ones open only copies made before.
#[test]
fn shares_and_passphrase_are_dealt_anew_by_shares_of_before() {
    let work = Work::new();
    let caller = place(&work);
    let server = ServeCommand::start(&caller);
    caller.run(&["unseal", "shares"]).ok();
    caller.run(&["key", "create", "k", "--algorithm", "ed25519"]).ok();
    work.write("m", "a message");
    caller.run(&["sign", "--key", "k", "--out", "m.sig", "m"]).ok();
    let reseal = ["kms", "reseal", "--config", "kms.toml", "--shares", "4", "--threshold", "3"];
    // Shares cannot be replaced while a server runs.
    work.gabion(&[&reseal[..], &["shares"]].concat()).fails(3);
    assert_eq!(server.end(), Some(0));
    let shares = String::from_utf8(work.read("shares")).unwrap();
    let first = shares.lines().next().unwrap();
    for (few, says) in [
        ("", "no share was given"),
        (first, "2 are needed"),
        (&*format!("{first}\n{first}"), "2 are needed"),
        ("gbs1-nonsense", "invalid share"),
        (&first[..first.len() - 1], "share"),
    ] {
        work.write("few", few);
        let code = if few.is_empty() { 2 } else { 1 };
        let done = work.gabion(&[&reseal[..], &["few"]].concat());
        assert!(!done.text().contains("gbs1-"), "{few}");
        done.fails(code).says(says);
    }
    work.write("passphrase", "another one");
    let wrong =
        ["kms", "reseal", "--config", "kms.toml", "--shares", "2", "--threshold", "3", "shares"];
    work.gabion(&wrong).fails(2).says("recovery set");
    let with = [&reseal[..], &["--passphrase", "file:passphrase", "--json", "shares"]].concat();
    let made = work.gabion(&with).ok().json();
    let new: Vec<&str> =
        made["shares"].as_array().unwrap().iter().map(|share| share.as_str().unwrap()).collect();
    assert_eq!(new.len(), 4);
    work.write("new", new[1..].join("\n"));
    // The old ones do no more, not even for another set.
    work.gabion(&[&reseal[..], &["shares"]].concat()).fails(1);
    let server = ServeCommand::start(&caller);
    caller.run(&["unseal", "shares"]).fails(1).says("unseal_failed");
    caller.run(&["unseal", "--reset"]).ok();
    caller.run(&["unseal", "new"]).ok();
    // Keys and tokens are unchanged, and the audit log records the reseal.
    caller.run(&["verify", "--key", "k", "--sig", "m.sig", "m"]).ok();
    let log = caller.run(&["audit", "tail", "--lines", "100", "--json"]).ok().text();
    assert_eq!(log.matches("\"principal\":\"reseal\"").count(), 2, "{log}");
    caller.run(&["seal"]).ok();
    caller.run(&["unseal", "--passphrase", "file:passphrase"]).ok();
    assert_eq!(server.end(), Some(0));
}

/// A request that takes longer than the shutdown limit does not delay the shutdown, and answered
/// changes are kept.
#[test]
fn a_server_ends_in_time_under_work_that_takes_longer() {
    let work = Work::new();
    let caller = place(&work);
    let mut child = told(&work, "/missing/notify");
    caller.hears();
    caller.run(&["unseal", "shares"]).ok();
    caller.run(&["key", "create", "slow", "--algorithm", "SLH-DSA-SHA2-128s"]).ok();
    let item = r#"{"op":"sign","key":"slow","message":"bQ=="}"#;
    let body = format!("{{\"items\":[{}]}}", vec![item; 39].join(","));
    let asks = || {
        let mut stream = UnixStream::connect(work.path("kms")).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        let head = format!(
            "POST /v1/kms/batch HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {}\r\nContent-Length: {}\r\n\r\n{body}",
            caller.token,
            body.len()
        );
        stream.write_all(head.as_bytes()).unwrap();
        stream
    };
    // Some wait for those that run. Each reads all along: an answer is longer than what a socket holds.
    let readers: Vec<_> = (0..8)
        .map(|_| {
            let mut stream = asks();
            std::thread::spawn(move || {
                let mut answer = String::new();
                let _ = stream.read_to_string(&mut answer);
                answer
            })
        })
        .collect();
    let first = caller.run(&["status"]).text();
    assert!(!first.is_empty());
    std::thread::sleep(Duration::from_millis(500));
    terminate(&child);
    assert_eq!(ended(&mut child), Some(0));
    // Each is answered as a whole, hears nothing, or sees by the length that it did not hear all.
    for answer in readers.into_iter().map(|reader| reader.join().unwrap()) {
        let Some((head, body)) = answer.split_once("\r\n\r\n") else {
            assert!(answer.is_empty(), "{answer:.100}");
            continue;
        };
        let says = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        let length: usize = says.unwrap_or_else(|| panic!("{head}")).parse().unwrap();
        assert!(body.len() <= length, "{head}");
        assert!(body.len() < length || body.ends_with('}'), "{head}");
    }
    // The store and the log open again.
    let server = ServeCommand::start(&caller);
    caller.run(&["unseal", "shares"]).ok();
    assert!(caller.run(&["key", "list"]).ok().text().contains("slow"));
    caller.run(&["audit", "verify"]).ok();
    assert_eq!(server.end(), Some(0));
}

/// A process with a low limit of open files takes fewer connections, and always has files left for
/// its log and its store.
#[test]
fn few_files_are_few_connections_and_no_end() {
    let work = Work::new();
    let caller = place(&work);
    let mut command = Command::new("sh");
    let serve = format!(
        "ulimit -n 100 && exec {} kms serve --config kms.toml",
        env!("CARGO_BIN_EXE_gabion")
    );
    command.args(["-c", &serve]).current_dir(work.folder()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    caller.hears();
    caller.run(&["unseal", "shares"]).ok();
    caller.run(&["key", "create", "k", "--algorithm", "ed25519"]).ok();
    for _ in 0..3 {
        // More than it may have files, and none of them says anything.
        let held: Vec<UnixStream> =
            (0..200).map_while(|_| UnixStream::connect(work.path("kms")).ok()).collect();
        assert!(held.len() >= 100, "{}", held.len());
        std::thread::sleep(Duration::from_millis(100));
        drop(held);
        caller.run(&["key", "rotate", "k"]).ok();
        caller.run(&["sign", "--key", "k", "--force", "--out", "k.sig", "kms.toml"]).ok();
    }
    caller.run(&["audit", "verify"]).ok();
    terminate(&child);
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert_eq!(ended(&mut child), Some(0));
    assert!(said.contains("limits.local_connections") && !said.contains("panicked"), "{said}");
}

/// A process whose files may not grow says so, goes on with what needs no room, and loses nothing.
#[test]
fn a_limit_on_files_is_a_full_disk_and_no_end() {
    let work = Work::new();
    let caller = place(&work);
    let serve = format!(
        "ulimit -f 3000 && exec {} kms serve --config kms.toml",
        env!("CARGO_BIN_EXE_gabion")
    );
    let mut command = Command::new("sh");
    command.args(["-c", &serve]).current_dir(work.folder()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    caller.hears();
    caller.run(&["unseal", "shares"]).ok();
    caller.run(&["key", "create", "k", "--algorithm", "ed25519"]).ok();
    // 1.5 MB of the store.s log are some seventy changes.
    let made =
        (0..1000).take_while(|_| caller.run(&["key", "rotate", "k"]).code == Some(0)).count();
    assert!(made < 1000);
    assert!(!caller.run(&["status"]).ok().text().is_empty());
    terminate(&child);
    assert_eq!(ended(&mut child), Some(0));
    // All that was answered is there where there is room again.
    let server = ServeCommand::start(&caller);
    caller.run(&["unseal", "shares"]).ok();
    let key = caller.run(&["key", "show", "k", "--json"]).ok().json();
    assert!(key["key"]["latest"].as_u64().unwrap() > made as u64, "{key}");
    caller.run(&["key", "rotate", "k"]).ok();
    caller.run(&["audit", "verify"]).ok();
    assert_eq!(server.end(), Some(0));
}

/// Shares already given can be reset with a share or locally on this machine, but not with a
/// missing file.
#[test]
fn shares_are_reset_by_a_share_or_locally() {
    let work = Work::new();
    let caller = place(&work);
    let server = ServeCommand::start(&caller);
    let shares = String::from_utf8(work.read("shares")).unwrap();
    let one = |n: usize| shares.lines().nth(n).unwrap();
    work.write("one", one(0));
    work.write("two", one(1));
    assert_eq!(caller.run(&["unseal", "one"]).ok().text(), "1 of 2 shares are entered\n");
    // In place of the earlier ones.
    assert_eq!(
        caller.run(&["unseal", "--reset", "two"]).ok().text(),
        "1 of 2 shares are entered\n"
    );
    caller.run(&["unseal", "--reset", "missing"]).fails(2);
    assert_eq!(caller.run(&["unseal", "two"]).ok().text(), "1 of 2 shares are entered\n");
    assert_eq!(caller.run(&["unseal", "--reset"]).ok().text(), "the server is sealed\n");
    let count = |more: &[&str]| {
        let recover = [&["recover-admin", "--json"][..], more].concat();
        caller.run(&recover).ok().json()["given"].clone()
    };
    assert_eq!(
        (count(&["one"]), count(&["--reset", "two"]), count(&["--reset"])),
        (1.into(), 1.into(), 0.into())
    );
    caller.run(&["unseal", "shares"]).ok();
    assert_eq!(server.end(), Some(0));
}
