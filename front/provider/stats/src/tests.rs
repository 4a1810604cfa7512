use super::tls::{Kind, OTHER, Side};
use super::*;

const ROWS: usize = 20 * 5;
const COLUMNS: usize = 21;
const FILE_LEN: usize = size_of::<Table<ROWS, COLUMNS>>();
const NAMES: Names = Names { row: named, column };

/// Rows of algorithms with one letter for a name.
fn named(row: usize) -> (&'static str, &'static str) {
    let operation = ["keygen", "import", "export", "sign", "verify"][row % 5];
    (&"ABCDEFGHIJKLMNOPQRST"[row / 5..][..1], operation)
}

/// A group for each side, and completed handshakes.
fn column(index: usize) -> Column {
    if index == COLUMNS - 1 {
        return Column { kind: Kind::Handshake, side: None, name: "TLSv1.3" };
    }
    let side = [Side::Client, Side::Server][index % 2];
    Column { kind: Kind::KeyExchange, side: Some(side), name: &"ABCDEFGHIJ"[index / 2..][..1] }
}

fn open(path: &Path) -> Result<Counters<ROWS, COLUMNS>, StatsError> {
    open_as(path, "program")
}

fn open_as(path: &Path, program: &str) -> Result<Counters<ROWS, COLUMNS>, StatsError> {
    Counters::open(path, NAMES, &ProgramName::new(program))
}

fn fresh_file() -> Vec<u8> {
    super::fresh_file::<ROWS, COLUMNS>(NAMES)
}

fn scratch() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

#[test]
fn counters_are_read_by_algorithm_name() {
    let folder = scratch();
    let path = folder.path().join("stats");
    let counters = open(&path).unwrap();
    let row = &counters.rows()[2 * 5 + 3];
    row.call();
    row.call();
    row.error();
    counters.count_load();
    // A second mapping, as another process has it, adds to the same counters.
    open(&path).unwrap().rows()[0].call();
    let snapshot = read(&path).unwrap();
    assert_eq!(snapshot.loads, 1);
    assert_eq!(snapshot.of("C", Operation::Sign), (2, 1));
    assert_eq!(snapshot.of("A", Operation::Keygen), (1, 0));
    assert_eq!(snapshot.rows.iter().map(|row| row.calls).sum::<u64>(), 3);
    assert_eq!(snapshot.of("none", Operation::Sign), (0, 0));
    assert_eq!(snapshot.rows.len(), ROWS);
    assert_eq!(row.values(), (2, 1));
}

#[test]
fn stats_file_of_another_build_is_read_only() {
    let folder = scratch();
    let path = folder.path().join("stats");
    let mut file = fresh_file();
    file.drain(
        Layout { rows: 2, columns: 0 }.column_at(0)..Layout { rows: ROWS, columns: 0 }.column_at(0),
    );
    file[12] = 2;
    file[13] = 0;
    file[64..71].copy_from_slice(b"OTHER-1");
    file[64 + 48] = 9;
    std::fs::write(&path, &file).unwrap();
    assert!(matches!(open(&path), Err(StatsError::Foreign { reason: "other algorithms", .. })));
    let snapshot = read(&path).unwrap();
    assert_eq!(snapshot.rows.len(), 2);
    assert_eq!((snapshot.rows[0].algorithm.as_str(), snapshot.rows[0].calls), ("OTHER-1", 9));
    for rows in [1, 3] {
        file[12] = rows;
        std::fs::write(&path, &file).unwrap();
        assert!(matches!(read(&path), Err(StatsError::Foreign { reason: "other length", .. })));
    }
}

#[test]
fn a_foreign_file_is_refused_and_left_as_it_was() {
    let folder = scratch();
    let path = folder.path().join("precious");
    for content in [vec![b'x'; 10], vec![b'x'; FILE_LEN], {
        let mut file = fresh_file();
        file[8] ^= 1;
        file
    }] {
        std::fs::write(&path, &content).unwrap();
        assert!(matches!(open(&path), Err(StatsError::Foreign { .. })));
        assert!(matches!(read(&path), Err(StatsError::Foreign { .. })));
        assert_eq!(std::fs::read(&path).unwrap(), content);
    }
    assert!(matches!(open(folder.path()), Err(StatsError::Unusable { .. })));
    assert!(matches!(open(Path::new("/dev/zero")), Err(StatsError::Unusable { .. })));
    assert!(matches!(read(&folder.path().join("none")), Err(StatsError::Io { .. })));
}

#[test]
fn a_file_that_was_begun_is_ended() {
    let folder = scratch();
    let path = folder.path().join("stats");
    let whole = fresh_file();
    let mut half_named = whole.clone();
    half_named[1000..].fill(0);
    let longest = [&whole[..5], &whole[..100], &whole[..5000], &[0; 64], &[0; FILE_LEN]];
    for begun in [&[][..], &half_named].into_iter().chain(longest) {
        std::fs::write(&path, begun).unwrap();
        open(&path).unwrap().rows()[3].call();
        assert_eq!(read(&path).unwrap().rows[3].calls, 1, "{} bytes", begun.len());
    }
}

#[test]
fn opening_stats_never_blocks() {
    let folder = scratch();
    let path = folder.path().join("stats");
    std::fs::write(&path, fresh_file()).unwrap();
    let held = File::open(&path).unwrap();
    held.lock().unwrap();
    open(&path).unwrap();
    let pipe = folder.path().join("pipe");
    let name = std::ffi::CString::new(pipe.to_str().unwrap()).unwrap();
    // SAFETY: a C string.
    assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
    assert!(matches!(open(&pipe), Err(StatsError::Unusable { .. })));
    assert!(matches!(read(&pipe), Err(StatsError::Unusable { .. })));
    let link = folder.path().join("link");
    std::os::unix::fs::symlink(&path, &link).unwrap();
    open(&link).unwrap();
}

#[test]
fn stats_file_writable_by_others_is_refused() {
    use std::os::unix::fs::PermissionsExt;
    let folder = scratch();
    let path = folder.path().join("stats");
    open(&path).unwrap();
    let mode = |mode| {
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    mode(0o646);
    assert!(matches!(open(&path), Err(StatsError::Unusable { .. })));
    mode(0o664);
    open(&path).unwrap();
    if std::os::unix::fs::chown(&path, Some(12345), None).is_ok() {
        assert!(matches!(open(&path), Err(StatsError::Unusable { .. })));
        read(&path).unwrap();
    }
}

/// The TLS counters of a file: program, side, kind, name and count.
fn tls_of(path: &Path) -> Vec<String> {
    let rows = read(path).unwrap().tls.into_iter().map(|row| {
        let side = row.side.as_deref().unwrap_or("-");
        format!("{} {side} {} {} {}", row.program, row.kind, row.name, row.count)
    });
    rows.collect()
}

#[test]
fn programs_share_a_file_and_count_apart() {
    let folder = scratch();
    let path = folder.path().join("stats");
    let (nginx, curl, worker) = (
        open_as(&path, "nginx").unwrap(),
        open_as(&path, "curl").unwrap(),
        open_as(&path, "nginx").unwrap(),
    );
    nginx.count_tls(3);
    curl.count_tls(2);
    worker.count_tls(3);
    worker.count_tls(COLUMNS - 1);
    curl.count_tls(COLUMNS);
    let expected = [
        "nginx server key_exchange B 2",
        "nginx - handshake TLSv1.3 1",
        "curl client key_exchange B 1",
    ];
    assert_eq!(tls_of(&path), expected);
    drop((nginx, curl, worker));
    open_as(&path, "curl").unwrap().count_tls(2);
    assert_eq!(tls_of(&path)[2], "curl client key_exchange B 2");
    assert!(read(&path).unwrap().rows.iter().all(|row| row.calls == 0));
}

#[test]
fn programs_without_a_free_block_count_together() {
    let folder = scratch();
    let path = folder.path().join("stats");
    let name = |index: usize| format!("program-{index}");
    for index in 0..PROGRAMS + 5 {
        open_as(&path, &name(index)).unwrap().count_tls(0);
    }
    open_as(&path, &name(PROGRAMS - 2)).unwrap().count_tls(0);
    open_as(&path, &name(PROGRAMS - 1)).unwrap().count_tls(0);
    let rows = tls_of(&path);
    assert_eq!(rows.len(), PROGRAMS);
    assert_eq!(rows[0], "program-0 client key_exchange A 1");
    assert_eq!(rows[PROGRAMS - 2], "program-30 client key_exchange A 2");
    assert_eq!(rows[PROGRAMS - 1], format!("{OTHER} client key_exchange A 7"));
}

#[test]
fn a_program_has_one_block_if_many_processes_start_at_once() {
    let folder = scratch();
    let path = folder.path().join("stats");
    std::thread::scope(|scope| {
        for index in 0..16 {
            let (path, name) = (&path, if index % 2 == 0 { "even" } else { "odd" });
            scope.spawn(move || open_as(path, name).unwrap().count_tls(1));
        }
    });
    let mut rows = tls_of(&path);
    rows.sort();
    assert_eq!(rows, ["even server key_exchange A 8", "odd server key_exchange A 8"]);
}

#[test]
fn a_forked_child_counts_for_its_program() {
    let folder = scratch();
    let path = folder.path().join("stats");
    let counters = open(&path).unwrap();
    // SAFETY: the child only adds to a counter and ends by _exit.
    unsafe {
        let child = libc::fork();
        if child == 0 {
            counters.count_tls(0);
            libc::_exit(0);
        }
        let mut status = -1;
        assert_eq!((libc::waitpid(child, &mut status, 0), status), (child, 0));
    }
    counters.count_tls(0);
    assert_eq!(tls_of(&path), ["program client key_exchange A 2"]);
}

#[test]
fn a_name_that_was_not_written_is_completed() {
    let folder = scratch();
    let path = folder.path().join("stats");
    open(&path).unwrap().count_tls(0);
    let mut file = std::fs::read(&path).unwrap();
    let name = Layout { rows: ROWS, columns: COLUMNS }.program_at(0) + 8;
    // As if the process had been killed after it reserved the block.
    file[name..name + tls::PROGRAM_LEN].fill(0);
    std::fs::write(&path, &file).unwrap();
    assert_eq!(tls_of(&path), [" client key_exchange A 1"]);
    open(&path).unwrap();
    assert_eq!(tls_of(&path), ["program client key_exchange A 1"]);
}

#[test]
fn names_of_programs_are_cut_at_a_character() {
    let folder = scratch();
    let path = folder.path().join("stats");
    let long = format!("{}\u{e9}t\u{e9}", "a".repeat(tls::PROGRAM_LEN - 1));
    open_as(&path, &long).unwrap().count_tls(0);
    let cut = "a".repeat(tls::PROGRAM_LEN - 1);
    assert_eq!(tls_of(&path), [format!("{cut} client key_exchange A 1")]);
    let current = ProgramName::current();
    let path = std::env::current_exe().unwrap();
    assert_eq!(current, ProgramName::new(path.file_name().unwrap().to_str().unwrap()));
}

#[test]
fn a_file_of_the_previous_version_is_rejected() {
    let folder = scratch();
    let path = folder.path().join("stats");
    let mut file = fresh_file();
    file.truncate(Layout { rows: ROWS, columns: 0 }.column_at(0));
    file[8..12].copy_from_slice(&2_u32.to_ne_bytes());
    file[32..64].fill(0);
    std::fs::write(&path, &file).unwrap();
    for error in [open(&path).err(), read(&path).err()] {
        let expected = format!(
            "{} is not a counters file of this version of Gabion (other version of the format); \
             use another file, or delete this one",
            path.display()
        );
        assert_eq!(error.unwrap().to_string(), expected);
    }
    assert_eq!(std::fs::read(&path).unwrap(), file);
}
