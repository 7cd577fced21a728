//! The tables of docs/errors.md for the command: each row is run, and the page says what came of
//! it.
//!
//! A row is a line for the shell, run in a directory of its own beside a small store. Its exit code
//! stands in the table here; what it says stands in the page only, and must be what the command
//! says. With `ESKER_REWRITE` set the page is written anew instead. After each row the store is
//! read again: what it held before, it holds still, and `verify` finds nothing.

mod fields;
mod table;

use crate::support::{Ended, Temp, all, command, fingerprint, on, skip, unbuilt};
use esker::{Db, KeyOrder, KeyspaceOptions, Options, Setup};
use std::collections::BTreeMap;
use std::fs;
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use table::{Case, Kept, SECTIONS, World};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/errors.md");
const BEGIN: &str = "<!-- what the command says: begin -->\n";
const END: &str = "<!-- what the command says: end -->\n";

/// Bytes of the value of `k3`: more than fits into a pipe.
const LARGE: usize = 200_000;

/// What every row finds in its directory.
fn furnish(temp: &Temp) {
    // Without threads, so that its files have the same numbers every time.
    let setup = Setup { inline_background: true, ..Setup::default() };
    let db = Db::open_with(temp.store(), Options::default(), setup).expect("a store");
    for (key, value) in [("k1", "1"), ("k2", "1"), ("k3", &"x".repeat(LARGE))] {
        db.put(key.as_bytes(), value.as_bytes()).expect("put");
    }
    db.flush().expect("flush");
    db.put(b"k4", b"4").expect("put");
    db.close().expect("close");
    temp.file("file", "");
    temp.file("rows.csv", "id,name\n1,ann\n2,bob\n");
    fs::create_dir(temp.join("empty")).expect("directory");
    fs::create_dir(temp.join("foreign")).expect("directory");
    temp.file("foreign/notes.txt", "mine");
    let order = KeyOrder::Custom(std::sync::Arc::new(Backwards));
    let default_keyspace = KeyspaceOptions { order, ..KeyspaceOptions::default() };
    let other = Options { default_keyspace, ..Options::default() };
    let setup = Setup { inline_background: true, ..Setup::default() };
    let db = Db::open_with(temp.join("backwards"), other, setup).expect("a store in another order");
    db.put(b"a", b"1").expect("put");
    db.flush().expect("flush");
    db.close().expect("close");
    unbuilt(&temp.join("unbuilt"));
    let leveldb = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/leveldb");
    copy(&leveldb, &temp.join("leveldb"));
}

/// Orders keys from the last to the first.
struct Backwards;

impl esker::Comparator for Backwards {
    fn name(&self) -> &str {
        "backwards"
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> std::cmp::Ordering {
        b.cmp(a)
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("directory");
    for entry in fs::read_dir(from).expect("directory") {
        let entry = entry.expect("entry");
        let target = to.join(entry.file_name());
        if entry.file_type().expect("kind").is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).expect("copy");
        }
    }
}

/// Files of a directory and those below it, with what is in them.
fn tree(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(dir).expect("directory") {
        let path = entry.expect("entry").path();
        if path.is_dir() {
            files.extend(tree(&path));
        } else {
            files.insert(path.clone(), fs::read(&path).expect("file"));
        }
    }
    files
}

/// Runs a line in a directory, as the world of the row wants it. `None`: there is no such world
/// here.
fn run(case: &Case, dir: &Path) -> Option<Ended> {
    let line = case.run;
    let mut shell = match case.world {
        World::Plain | World::Held => Command::new("sh"),
        World::FullDisk | World::ReadOnlyDisk => {
            let mut unshare = Command::new("unshare");
            unshare.args(["--user", "--map-root-user", "--mount", "sh"]);
            unshare
        }
        World::Stranger => stranger(dir),
    };
    let script = match case.world {
        World::Plain | World::Held | World::Stranger => line.to_owned(),
        World::FullDisk => format!(
            "mkdir disk; mount -t tmpfs -o size=2m none disk || exit 77
            cp -r store disk/store; cd disk; head -c 3m /dev/zero > filling 2> /dev/null
            ({line}); code=$?
            rm filling; rm -r ../store; cp -r store ../store; exit $code"
        ),
        World::ReadOnlyDisk => format!(
            "mount --bind store store && mount -o remount,bind,ro store || exit 77
            {line}"
        ),
    };
    let binary = Path::new(env!("CARGO_BIN_EXE_esker"));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let dirs =
        binary.parent().map(Path::to_path_buf).into_iter().chain(std::env::split_paths(&path));
    let output = shell
        .args(["-c", &script])
        .env("PATH", std::env::join_paths(dirs).expect("PATH"))
        .env_remove("ESKER_DB")
        .current_dir(dir)
        .stdin(Stdio::null())
        .output();
    let ended = Ended::from(output.ok()?);
    let missing = case.world != World::Plain && matches!(ended.code, 77 | 126 | 127);
    let missing = missing || ended.err.starts_with("unshare: ");
    (!missing).then_some(ended)
}

/// A shell of somebody who may not touch what is in `locked`.
fn stranger(dir: &Path) -> Command {
    let locked = dir.join("locked");
    fs::create_dir(&locked).expect("directory");
    copy(&dir.join("store"), &locked.join("store"));
    if !rustix::process::geteuid().is_root() {
        mode(&locked, 0o000);
        return Command::new("sh");
    }
    mode(&locked, 0o700);
    let mut shell = Command::new("setpriv");
    shell.args(["--reuid=65534", "--regid=65534", "--clear-groups", "sh"]);
    shell
}

fn mode(path: &Path, mode: u32) {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("mode");
}

/// A process that holds the store.
fn holder(dir: &Path) -> Child {
    let mut child = command(&["shell", "--db", "store"])
        .current_dir(dir)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("esker runs");
    let mut answer = [0; 2];
    let (stdin, stdout) = (child.stdin.as_mut(), child.stdout.as_mut());
    std::io::Write::write_all(stdin.expect("stdin"), b"get k1\n").expect("write");
    std::io::Read::read_exact(stdout.expect("stdout"), &mut answer).expect("answer");
    child
}

/// Runs a row and checks all of it but what it says. Returns that: the last line.
fn check(case: &Case, pristine: &Path, held: &str) -> Option<String> {
    let temp = Temp::new();
    let dir = temp.join("");
    copy(pristine, &dir);
    let sound = tree(&temp.store());
    if !case.before.is_empty() {
        let before = Command::new("sh").args(["-ec", case.before]).current_dir(&dir).output();
        let before = before.expect("sh");
        assert!(before.status.success(), "{}: {before:?}", case.run);
    }
    let damaged = tree(&temp.store());
    let outside = names(&dir);
    let leveldb = tree(&dir.join("leveldb"));
    let holder = (case.world == World::Held).then(|| holder(&dir));
    let ended = run(case, &dir);
    if let Some(mut holder) = holder {
        drop(holder.stdin.take());
        assert!(holder.wait().expect("ends").success());
    }
    if dir.join("locked").exists() {
        mode(&dir.join("locked"), 0o700);
    }
    let ended = ended?;
    let Case { run, code, .. } = case;
    assert_eq!(ended.code, *code, "{run}: {ended:?}");
    assert!(!ended.err.contains("panicked"), "{run}: {}", ended.err);
    mend(&sound, &damaged, run);
    let mut expected = outside;
    match case.kept {
        Kept::Store => assert!(all(&temp.store()) == held, "{run}: the store is another"),
        Kept::More(keys) => {
            let keys: Vec<&str> =
                ["k1", "k2", "k3", "k4"].into_iter().chain(keys.iter().copied()).collect();
            let now = on(&temp.store(), &["scan", "--keys-only"]);
            let mut now: Vec<&str> = now.good().lines().collect();
            let mut keys = keys;
            keys.sort_unstable();
            now.sort_unstable();
            assert_eq!(now, keys, "{run}");
        }
        Kept::New(records) => {
            assert!(all(&temp.store()) == held, "{run}: the store is another");
            assert_eq!(on(&dir.join("new"), &["count"]).good(), format!("{records}\n"), "{run}");
            on(&dir.join("new"), &["verify"]).good();
            expected.push("new".to_owned());
        }
        Kept::Salvaged => {
            // Whatever it could not use is kept, and what it made is sound.
            assert!(!tree(&temp.store().join("lost")).is_empty(), "{run}");
            let now = all(&temp.store());
            assert!(now.lines().all(|record| held.contains(record)), "{run}: {now:.200}");
        }
    }
    on(&temp.store(), &["verify"]).good();
    let mut found = names(&dir);
    found.retain(|name| !["disk", "locked", "code"].contains(&name.as_str()));
    expected.sort();
    assert_eq!(found, expected, "{run}: files were made");
    assert_eq!(fs::read(dir.join("foreign/notes.txt")).expect("file"), b"mine", "{run}");
    assert_eq!(names(&dir.join("foreign")).len(), 1, "{run}");
    let mut others = tree(&dir.join("leveldb"));
    others.retain(|path, _| !path.ends_with("LOCK"));
    assert!(others == leveldb || !case.before.is_empty(), "{run}: the LevelDB store is another");
    assert_eq!(ended.err.is_empty(), *code == 0, "{run}: {}", ended.err);
    let last = ended.err.lines().last().unwrap_or("esker: ");
    let said = last.strip_prefix("esker: ").unwrap_or_else(|| panic!("{run}: {}", ended.err));
    assert!(*code == 0 || said.contains(": "), "{run}: what is to be done? {said}");
    // Stores are told by paths from the root.
    let here = dir.canonicalize().expect("a directory");
    let said = [here.join("disk"), here]
        .iter()
        .fold(said.to_owned(), |said, dir| said.replace(&format!("{}/", dir.display()), ""));
    Some(without_chance(&said))
}

/// Where a record of a manifest stands depends on how many bytes random salts take before it.
fn without_chance(said: &str) -> String {
    const PLACE: &str = "MANIFEST-000001 at offset ";
    match said.split_once(PLACE) {
        Some((head, tail)) if !tail.starts_with("0:") => {
            let rest = tail.trim_start_matches(|c: char| c.is_ascii_digit());
            format!("{head}{PLACE}N{rest}")
        }
        _ => said.to_owned(),
    }
}

fn names(dir: &Path) -> Vec<String> {
    let names =
        fs::read_dir(dir).expect("directory").map(|entry| entry.expect("entry").file_name());
    let mut names: Vec<String> = names.map(|name| name.into_string().expect("name")).collect();
    names.sort();
    names
}

/// Takes the damage that a row began with away again. The command must have left it as it was.
fn mend(sound: &BTreeMap<PathBuf, Vec<u8>>, damaged: &BTreeMap<PathBuf, Vec<u8>>, run: &str) {
    if run.contains("esker repair") {
        return;
    }
    for (path, bytes) in sound {
        let broken = damaged.get(path);
        if broken == Some(bytes) {
            continue;
        }
        assert!(fs::read(path).ok().as_ref() == broken, "{run} changed {}", path.display());
        fs::write(path, bytes).expect("mend");
    }
}

/// A row of the page. `said` has been told by the command, or stands in the page already.
fn row(case: &Case, said: &str) -> String {
    let cell = |text: &str| text.replace('|', "\\|");
    let said = if said.is_empty() { "nothing".to_owned() } else { format!("`` {said} ``") };
    format!(
        "| {} | `` {} `` | {} | {} |\n",
        cell(case.wrong),
        cell(case.run),
        cell(&said),
        case.code
    )
}

/// The row for a case that stands in a page.
fn written(page: &str, case: &Case) -> Option<String> {
    let start = row(case, "");
    let start = &start[..start.len() - format!("nothing | {} |\n", case.code).len()];
    page.lines().find(|line| line.starts_with(start)).map(|line| format!("{line}\n"))
}

#[test]
fn each_row_of_the_page_is_what_the_command_does() {
    let page = fs::read_to_string(PAGE).expect("page");
    let (head, rest) = page.split_once(BEGIN).expect("the page has a place for the tables");
    let (_, tail) = rest.split_once(END).expect("the place has an end");
    let pristine = Temp::new();
    furnish(&pristine);
    let held = all(&pristine.store());
    assert_eq!(held.lines().count(), 4);
    on(&pristine.store(), &["verify"]).good();
    let mut tables = String::new();
    let mut skipped = 0;
    let mut failed = Vec::new();
    for (section, cases) in SECTIONS {
        tables.push_str(&format!(
            "\n### {section}\n\n| what is wrong | command | it says | exit |\n|---|---|---|---|\n"
        ));
        for case in *cases {
            // All rows are run before one of them fails the test.
            match catch_unwind(|| check(case, &pristine.join(""), &held)) {
                Ok(Some(said)) => tables.push_str(&row(case, &said)),
                Ok(None) => {
                    skipped += 1;
                    tables.push_str(&written(&page, case).unwrap_or_else(|| row(case, "")));
                }
                Err(_) => failed.push(case.run),
            }
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
    if skipped > 0 {
        skip(&format!("{skipped} rows need mount namespaces or another user"));
    }
    let now = format!("{head}{BEGIN}{tables}\n{END}{tail}");
    if std::env::var_os("ESKER_REWRITE").is_some() {
        fs::write(PAGE, now).expect("page");
        return;
    }
    for (stands, told) in page.lines().zip(now.lines()) {
        assert_eq!(stands, told, "docs/errors.md: set ESKER_REWRITE=1 to write it anew");
    }
    assert_eq!(page.lines().count(), now.lines().count(), "docs/errors.md has other rows");
}

#[test]
fn the_store_of_the_rows_is_what_they_think() {
    let temp = Temp::new();
    furnish(&temp);
    let names: Vec<String> = fingerprint(&temp.store()).into_keys().collect();
    assert_eq!(names, ["000003.wal", "000004.tbl", "CURRENT", "LOCK", "MANIFEST-000001"]);
}
