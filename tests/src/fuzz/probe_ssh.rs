//! The identification and KEXINIT of an SSH server, as the probe reads them. The first byte says
//! whether edits of a good answer follow or the answer itself.

use gabion_probe::ssh::{self, SshLists};

use super::Input;

fn answer(banner: &str, kex: &str, host_keys: &str) -> Vec<u8> {
    let mut payload = vec![20];
    payload.extend([7; 16]);
    for list in [kex, host_keys, "aes128-ctr", "aes128-ctr", "", "", "none", "none", "", ""] {
        payload.extend(u32::try_from(list.len()).unwrap().to_be_bytes());
        payload.extend(list.as_bytes());
    }
    payload.extend([0; 5]);
    let padding = 4 + (8 - (payload.len() + 9) % 8) % 8;
    let length = u32::try_from(1 + payload.len() + padding).unwrap().to_be_bytes();
    let padding = [&[u8::try_from(padding).unwrap()], &payload[..], &vec![0; padding]].concat();
    [banner.as_bytes(), b"\r\n", &length, &padding].concat()
}

fn answers() -> [Vec<u8>; 3] {
    let hybrid = "mlkem768x25519-sha256,curve25519-sha256,ext-info-s";
    let openssh = answer("SSH-2.0-OpenSSH_10.0", hybrid, "ssh-ed25519,rsa-sha2-512");
    let old = answer("hello\nSSH-1.99-x", "diffie-hellman-group14-sha256", "ssh-rsa");
    let head = b"SSH-2.0-x\n\0\0\0\x0c\x06\x02\0\0\0\0\0\0\0\0\0\0";
    let ignored = [&head[..], &openssh[b"SSH-2.0-OpenSSH_10.0\r\n".len()..]].concat();
    [openssh, old, ignored]
}

fn check(lists: &SshLists) {
    assert!(lists.banner.starts_with("SSH-") && lists.banner.len() < 256);
    let names = || lists.kex.iter().chain(&lists.host_keys);
    let is_name = |name: &String| (1..=64).contains(&name.len()) && !name.contains(',');
    assert!(names().all(is_name));
    let total: usize = names().map(String::len).sum();
    assert!(total < 35_000);
    let negotiated = lists.negotiated_kex();
    assert!(negotiated.is_none_or(|name| lists.kex.iter().any(|other| other == name)));
    assert!(!lists.is_kex_post_quantum() || negotiated.is_some());
    // The lists are written and read again.
    let again = answer(&lists.banner, &lists.kex.join(","), &lists.host_keys.join(","));
    assert_eq!(ssh::read_lists(&mut &again[..]).unwrap(), *lists);
}

pub fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let answers = answers();
    let bytes = match answers.get(usize::from(input.byte() % 8)) {
        Some(answer) => input.edited(answer),
        None => input.rest().to_vec(),
    };
    match ssh::read_lists(&mut &bytes[..]) {
        Ok(lists) => check(&lists),
        Err(error) => assert!(error.to_string().len() < 300),
    }
}

pub fn seeds() -> Vec<Vec<u8>> {
    let mut seeds: Vec<Vec<u8>> =
        answers().iter().map(|answer| [&[7], &answer[..]].concat()).collect();
    seeds.extend((0..3).map(|answer| vec![answer, 0]));
    seeds.push(b"\x07220 mail.example ESMTP\r\n".to_vec());
    seeds.push(b"\x07SSH-1.5-1.2.27\n".to_vec());
    seeds
}
