//! `gabion hbs` with several hosts and verifiers: keys that leave a host, bounds of reservations,
//! public keys in the formats that boot loaders take, digests.

use std::fs;
use std::process::Command;

use crate::harness::{CommandResult, Work};

const SET: &str = "LMS_SHA256_M32_H5_W4";

fn with_key(set: &str, options: &[&str]) -> Work {
    let work = Work::new();
    work.write("f", "an image\n");
    work.gabion(&[&["hbs", "keygen", set, "--out", "k", "--pub", "p"], options].concat()).ok();
    work
}

fn hbs(work: &Work, arguments: &str) -> CommandResult {
    work.gabion(&[vec!["hbs"], arguments.split(' ').collect()].concat())
}

/// Runs the command as another user, or on another unnamed machine.
fn hbs_elsewhere(work: &Work, arguments: &str) -> CommandResult {
    let arguments = [vec!["hbs"], arguments.split(' ').collect()].concat();
    let mut command = work.command(&arguments);
    CommandResult::of(command.env("XDG_STATE_HOME", work.path("other-home")).output().unwrap())
}

#[test]
fn a_key_that_is_handed_over_signs_on_the_other_host_alone() {
    let work = with_key(SET, &[]);
    hbs(&work, "sign --key k --out s0 f").ok();
    // Without a home it is unknown whether the key left it.
    let mut homeless = work.command(&["hbs", "backup", "k", "--out", "b2"]);
    homeless.env_remove("HOME").env_remove("XDG_STATE_HOME");
    CommandResult::of(homeless.output().unwrap()).fails(4).says("HOME");
    hbs(&work, "backup k --out b --hand-over").ok().says("no longer signs here");
    let refused = hbs(&work, "sign --key k --out s1 f").fails(4);
    refused.says("handed over to another host").says("--i-have-destroyed-every-other-copy");
    assert!(!work.has("s1"));
    let seen = hbs(&work, "status k --json").fails(4).json();
    assert!(seen["refusal"].as_str().unwrap().contains("handed over"), "{seen}");
    hbs(&work, "recover k --burn 3").fails(4).says("handed over");
    hbs_elsewhere(&work, "recover k --burn 3").fails(4).says("handed over");
    hbs(&work, "backup k --out b2").fails(4).says("handed over");
    hbs(&work, "backup k --out b2 --hand-over").fails(4).says("handed over");
    assert!(!work.has("b2") && !work.has("b2.part"));
    // Restored where it was made, by mistake.
    fs::create_dir(work.path("again")).unwrap();
    hbs(&work, "restore b --out again/k").ok();
    hbs(&work, "sign --key again/k --out s1 f").fails(4).says("handed over");
    hbs(&work, "recover again/k --burn 0").fails(4);
    fs::create_dir(work.path("there")).unwrap();
    hbs_elsewhere(&work, "restore b --out there/k").ok();
    hbs_elsewhere(&work, "sign --key there/k --out s1 f").fails(4).says("recover");
    hbs_elsewhere(&work, "recover there/k --burn 0").ok();
    hbs_elsewhere(&work, "sign --key there/k --out s1 f").ok();
    hbs(&work, "sign --key there/k --out s2 f").fails(4);
    hbs(&work, "audit k there/k s0 s1").ok();
    // Back again, by the same way.
    hbs_elsewhere(&work, "backup there/k --out back --hand-over").ok();
    fs::create_dir(work.path("home")).unwrap();
    hbs(&work, "restore back --out home/k").ok();
    hbs(&work, "sign --key home/k --out s2 f").fails(4);
    hbs(&work, "recover home/k --burn 0 --i-have-destroyed-every-other-copy").ok();
    let made = hbs(&work, "sign --key home/k --json --out s2 f").ok().json();
    assert_eq!(made["index"], 2);
    assert!(hbs(&work, "log home/k").ok().text().contains("taken back"));
    hbs_elsewhere(&work, "sign --key there/k --out s3 f").fails(4);
}

#[test]
fn a_sector_is_handed_over_and_another_one_retired() {
    let work = with_key(SET, &["--sectors", "2"]);
    hbs(&work, "backup k-1 --out b --hand-over").ok();
    hbs(&work, "sign --key k-1 --out s f").fails(4).says("handed over");
    hbs(&work, "sign --key k-0 --out s f").ok();
    hbs(&work, "retire k-0").ok();
    hbs(&work, "sign --key k-0 --out t f").fails(4).says("retired").says("gabion hbs keygen");
    hbs(&work, "recover k-0 --burn 0").fails(4).says("retired");
    hbs(&work, "recover k-0 --burn 0 --i-have-destroyed-every-other-copy").fails(4).says("retired");
    hbs(&work, "status k-0").fails(4).says("retired");
    fs::create_dir(work.path("there")).unwrap();
    hbs_elsewhere(&work, "restore b --out there/k").ok();
    hbs_elsewhere(&work, "recover there/k --burn 0").ok();
    let made = hbs_elsewhere(&work, "sign --key there/k --json --out t f").ok().json();
    assert_eq!(made["index"], 16);
    hbs(&work, "log k-0").ok();
}

/// The state of one sector in place of another's ends neither of the keys.
#[test]
fn the_state_of_another_sector_is_refused() {
    let work = with_key(SET, &["--sectors", "2"]);
    let own: Vec<_> = ["state", "log"].map(|of| work.read(&format!("k-0.{of}"))).into();
    for of in ["state", "log"] {
        work.write(&format!("k-0.{of}"), work.read(&format!("k-1.{of}")));
    }
    for command in ["backup k-0 --out b --hand-over", "retire k-0", "recover k-0 --burn 0"] {
        hbs(&work, command).fails(4).says("another sector");
    }
    for (of, bytes) in ["state", "log"].into_iter().zip(own) {
        work.write(&format!("k-0.{of}"), bytes);
    }
    assert!(!work.has("b"));
    for sector in ["k-0", "k-1"] {
        hbs(&work, &format!("sign --key {sector} --out {sector}.sig f")).ok();
    }
}

#[test]
fn a_reservation_that_the_key_cannot_spare_is_refused_unless_that_is_stated() {
    let work = with_key("LMS_SHA256_M32_H10_W1", &[]);
    let before = fs::read(work.path("k.state")).unwrap();
    for many in ["129", "4000000000", "18446744073709551615"] {
        let refused = hbs(&work, &format!("sign --key k --reserve {many} --out s f")).fails(2);
        refused.says("expected at most 128").says("--reserve-anyway");
    }
    assert_eq!(fs::read(work.path("k.state")).unwrap(), before);
    hbs(&work, "sign --key k --reserve 128 --out s f").ok();
    hbs(&work, "sign --key k --reserve 1000 --reserve-anyway --out t f").ok();
    // As many as there are files need no statement.
    let small = with_key(SET, &[]);
    let names: Vec<String> = (0..20).map(|at| format!("m{at}")).collect();
    names.iter().for_each(|name| small.write(name, name));
    hbs(&small, "sign --key k --reserve 5 --out s f").fails(2).says("expected at most 4");
    hbs(&small, &format!("sign --key k --reserve 20 {}", names.join(" "))).ok();
}

#[test]
fn a_public_key_is_written_again_in_every_form() {
    let work = with_key(SET, &[]);
    assert_eq!(hbs(&work, "pub k").ok().out, work.read("p"));
    hbs(&work, "pub k --format raw --out raw").ok();
    hbs(&work, "pub k --format bare --out bare").ok();
    hbs(&work, "pub k --format der --out der").ok();
    let (raw, bare) = (work.read("raw"), work.read("bare"));
    assert_eq!((raw.len(), bare.len()), (60, 56));
    assert_eq!((&raw[..4], &raw[4..]), (&[0, 0, 0, 1][..], &bare[..]));
    hbs(&work, "sign --key k --out s f").ok();
    for public in ["raw", "bare", "der", "p"] {
        hbs(&work, &format!("verify --key {public} --sig s f")).ok();
    }
    let c = hbs(&work, "pub k --format c").ok().text();
    assert!(c.contains("hbs_public_key[60] = {") && c.contains("0x00, 0x00, 0x00, 0x01,"), "{c}");
    hbs(&work, "pub k --format raw --out raw").fails(2);
    hbs(&work, "pub k --format raw --out k.state --force").fails(2);
    let levels = with_key("LMS_SHA256_M32_H5_W8,LMS_SHA256_M32_H5_W8", &[]);
    hbs(&levels, "pub k --format raw --out raw").ok();
    assert_eq!(levels.read("raw").len(), 60);
    hbs(&levels, "pub k --format bare --out bare").fails(2).says("--format raw");
    let lms = with_key(SET, &["--encoding", "lms"]);
    assert_eq!(hbs(&lms, "pub k --format bare").out.len(), 56);
    assert_eq!(lms.read("p").len(), 56);
    assert!(hbs(&lms, "pub k --format c").ok().text().contains("hbs_public_key[56]"));
    let xmss = with_key("XMSS-SHA2_10_192", &[]);
    hbs(&xmss, "pub k --format raw --out raw").ok();
    // RFC 8391: the set's number, the root and the seed.
    assert_eq!(xmss.read("raw").len(), 4 + 24 + 24);
    hbs(&xmss, "sign --key k --out s f").ok();
    hbs(&xmss, "verify --key raw --algorithm XMSS --sig s f").ok();
}

#[test]
fn verify_takes_a_digest_as_sign_does() {
    let work = with_key(SET, &[]);
    let digest = "98ea6e4f216f2fb4b69fff9b3a44842c38686ca685f3f55dc48c5d3fb1107be4";
    work.write("hex", format!("{digest}  image.bin\n"));
    let bytes: Vec<u8> =
        (0..32).map(|at| u8::from_str_radix(&digest[2 * at..2 * at + 2], 16).unwrap()).collect();
    work.write("raw", &bytes);
    hbs(&work, "sign --key k --digest --out s hex").ok();
    hbs(&work, "verify --key p --sig s --digest hex").ok();
    hbs(&work, "verify --key p --sig s --digest raw").ok();
    hbs(&work, "verify --key p --sig s raw").ok();
    hbs(&work, "verify --key p --sig s hex").fails(1);
    hbs(&work, "verify --key p --sig s --digest f").fails(2).says("does not hold a digest");
    // Without blocks on the disk.
    fs::File::create(work.path("big")).unwrap().set_len(3 << 30).unwrap();
    hbs(&work, "sign --key k big").fails(2).says("--digest");
    hbs(&work, "verify --key p --sig s big").fails(2).says("--digest");
}

/// The files that wolfBoot takes, by the sizes that its documentation has, and another library's verdict on them.
#[test]
fn the_files_of_the_recipe_for_wolfboot_are_what_it_takes() {
    let work = with_key("WC_LMS_PARM_L2_H5_W8", &[]);
    hbs(&work, "pub k --format raw --out k_pub.raw").ok();
    assert_eq!(work.read("k_pub.raw").len(), 60);
    work.write("image_v1_digest.bin", [0x5a; 32]);
    hbs(&work, "sign --key k --digest --out image_v1.sig image_v1_digest.bin").ok();
    // LMS_LEVELS=2 LMS_HEIGHT=5 LMS_WINTERNITZ=8: IMAGE_SIGNATURE_SIZE=2644.
    assert_eq!(work.read("image_v1.sig").len(), 2644);
    hbs(&work, "verify --key k_pub.raw --sig image_v1.sig --digest image_v1_digest.bin").ok();
    let program = "from pyhsslms import HssPublicKey\n\
        read = lambda name: open(name, 'rb').read()\n\
        key = HssPublicKey.deserialize(read('k_pub.raw'))\n\
        assert key.verify(read('image_v1_digest.bin'), read('image_v1.sig'))\n\
        assert not key.verify(b'another', read('image_v1.sig'))\n";
    let python =
        |code: &str| Command::new("python3").args(["-c", code]).current_dir(work.folder()).output();
    match python("import pyhsslms") {
        Ok(found) if found.status.success() => {
            let verified = python(program).unwrap();
            assert!(verified.status.success(), "{}", String::from_utf8_lossy(&verified.stderr));
        }
        _ => eprintln!("not run: the verdict of pyhsslms, which python3 lacks"),
    }
}

#[test]
fn a_single_file_system_is_warned_of() {
    let work = Work::new();
    let made = hbs(&work, &format!("keygen {SET} --out k")).ok();
    made.says("warning: every anchor is on the file system of the key");
    let seen = hbs(&work, "status k --json").ok().json();
    let warned = seen["warnings"].as_array().unwrap().iter();
    assert_eq!(warned.filter(|it| it.as_str().unwrap().contains("every anchor")).count(), 1);
}

#[test]
fn sets_that_cnsa_does_not_allow_are_left_out() {
    let work = Work::new();
    let listed = hbs(&work, "params --cnsa --json").ok().says("neither HSS nor XMSS^MT");
    let sets = listed.json();
    let names: Vec<&str> =
        sets.as_array().unwrap().iter().map(|row| row["set"].as_str().unwrap()).collect();
    assert!(names.contains(&"LMS_SHA256_M24_H15_W4") && names.contains(&"XMSS-SHA2_10_192"));
    assert!(!names.iter().any(|name| name.starts_with("XMSSMT") || name.contains("SHA2_10_512")));
    hbs(&work, "keygen WC_LMS_PARM_L2_H5_W8 --profile cnsa2 --out k").fails(2).says("neither HSS");
}
