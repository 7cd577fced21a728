//! Running the binary, and directories that go away.

use esker::fields::Record;
use esker::{Db, Options, Setup};
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};

/// A directory of this test alone.
pub(crate) struct Temp {
    path: PathBuf,
}

impl Temp {
    pub(crate) fn new() -> Temp {
        Temp::within(&std::env::temp_dir())
    }

    /// The same, in a place of the test's choice.
    pub(crate) fn within(place: &Path) -> Temp {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let unique = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("esker-cli-test-{}-{unique}", std::process::id());
        let path = place.join(name);
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).expect("temporary directory");
        Temp { path }
    }

    pub(crate) fn join(&self, name: impl AsRef<Path>) -> PathBuf {
        self.path.join(name)
    }

    /// Writes a file and returns its path.
    pub(crate) fn file(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.join(name);
        fs::write(&path, bytes).expect("write");
        path
    }

    /// The store of the test, in `store`.
    pub(crate) fn store(&self) -> PathBuf {
        self.join("store")
    }
}

impl Drop for Temp {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// What a command printed and how it ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: i32,
    pub(crate) out: Vec<u8>,
    pub(crate) err: String,
}

impl Ended {
    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.out).expect("UTF-8")
    }

    /// Standard output of a command that must have ended well.
    pub(crate) fn good(&self) -> &str {
        assert_eq!(self.code, 0, "{self:?}");
        self.text()
    }
}

impl From<Output> for Ended {
    fn from(output: Output) -> Ended {
        Ended {
            code: output.status.code().unwrap_or(-1),
            out: output.stdout,
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

/// The binary with arguments, cut off from the environment of the tests.
pub(crate) fn command<S: AsRef<OsStr>>(args: &[S]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_esker"));
    command.args(args).env_remove("ESKER_DB").stdin(Stdio::null());
    command
}

/// Runs the binary.
pub(crate) fn esker<S: AsRef<OsStr>>(args: &[S]) -> Ended {
    command(args).output().expect("esker runs").into()
}

/// Runs the binary on a store.
pub(crate) fn on<S: AsRef<OsStr>>(store: &Path, args: &[S]) -> Ended {
    command(args).env("ESKER_DB", store).output().expect("esker runs").into()
}

/// Runs the binary on a store with this on standard input.
pub(crate) fn feed<S: AsRef<OsStr>>(store: &Path, args: &[S], input: &[u8]) -> Ended {
    let mut child = command(args)
        .env("ESKER_DB", store)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("esker runs");
    let mut stdin = child.stdin.take().expect("stdin");
    // It may end before it has read everything.
    let _ = stdin.write_all(input);
    drop(stdin);
    child.wait_with_output().expect("esker ends").into()
}

/// `kind:path` as an argument.
pub(crate) fn source(kind: &str, path: &Path) -> OsString {
    let mut source = OsString::from(kind);
    source.push(":");
    source.push(path);
    source
}

/// Everything in the store, as JSON lines.
pub(crate) fn all(store: &Path) -> String {
    on(store, &["scan", "--json"]).good().to_owned()
}

/// Names and contents of all files of a directory.
pub(crate) fn fingerprint(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(dir).expect("directory");
    entries
        .map(|entry| {
            let entry = entry.expect("entry");
            let modified = entry.metadata().and_then(|m| m.modified()).expect("metadata");
            let mut content = format!("{modified:?} ").into_bytes();
            content.extend(fs::read(entry.path()).expect("file"));
            (entry.file_name().into_string().expect("name"), content)
        })
        .collect()
}

/// The files of a store with this ending.
pub(crate) fn files(store: &Path, ending: &str) -> Vec<PathBuf> {
    let names = fingerprint(store).into_keys().filter(|name| name.ends_with(ending));
    names.map(|name| store.join(name)).collect()
}

/// Flips a bit of a file.
pub(crate) fn flip(path: &Path, at: usize) {
    let mut bytes = fs::read(path).expect("file");
    bytes[at] ^= 0x10;
    fs::write(path, bytes).expect("file");
}

/// A store of one record, whose index of `name` is ready and whose index of `price` is not.
pub(crate) fn unbuilt(dir: &Path) {
    // Without threads an index is built only where somebody waits for it.
    let setup = Setup { inline_background: true, ..Setup::default() };
    let db = Db::open_with(dir, Options::default(), setup).expect("a store");
    let keyspace = db.default_keyspace();
    let record = Record::new().with("name", "ann").with("price", 1);
    keyspace.put_record(b"k1", &record).expect("put");
    keyspace.create_index("name").expect("an index");
    db.wait_indexes().expect("built");
    keyspace.create_index("price").expect("an index");
    db.close().expect("close");
}

/// Says why a test does nothing here: not by `println`, which is held back of a test that passes.
pub(crate) fn skip(why: &str) {
    writeln!(io::stdout(), "SKIPPED: {why}").expect("write");
}
