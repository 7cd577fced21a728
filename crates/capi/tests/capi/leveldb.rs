//! LevelDB's programs on our library: they say byte for byte what they say on LevelDB's.
//!
//! What they say stands in `tests/c/said`; `ESKER_REWRITE=1` writes it anew, from LevelDB's
//! library.

use crate::support::{Scratch, compile, compiles, here, lay_out, library, run, tell};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Programs and their arguments, and those of runs that are slower for being watched.
const PROGRAMS: [(&str, &str, &str); 7] = [
    ("api", "", ""),
    ("batch", "", ""),
    ("comparator", "", ""),
    ("errors", "", ""),
    ("filter", "", ""),
    ("load", "200000", "20000"),
    ("threads", "", ""),
];

/// LevelDB's library, if it is installed with its header and has all functions of the version whose
/// interface ours has: an older one says other things.
fn leveldb() -> Option<PathBuf> {
    let main = "#include <leveldb/c.h>\nint main(void) { return leveldb_major_version() != 1; }\n";
    if !compiles(main, &["-lleveldb"]) {
        return None;
    }
    let scratch = Scratch::new(&format!("which-leveldb-{:?}", std::thread::current().id()));
    let built = scratch.path().join("batch");
    compile(&source("batch"), &built, &["-lleveldb"]);
    let loaded = run(Command::new("ldd").arg(&built));
    let line = loaded.lines().find(|line| line.contains("libleveldb"))?;
    let library = PathBuf::from(line.split_whitespace().nth(2)?);
    let has = exported(&library);
    let functions = std::fs::read_to_string(here("tests/c/said/functions.txt")).expect("functions");
    functions.lines().all(|name| has.contains(name)).then_some(library)
}

fn has_leveldb() -> bool {
    leveldb().is_some()
}

fn source(program: &str) -> PathBuf {
    here("tests/c").join(format!("{program}.c"))
}

/// Flags that make a program run on our library without LevelDB's being there.
fn own_flags(lib: &Path) -> [String; 4] {
    [
        format!("-I{}", here("include").display()),
        format!("-L{}", lib.display()),
        "-lleveldb".to_owned(),
        "-lpthread".to_owned(),
    ]
}

/// Our library under LevelDB's name.
fn our_library(scratch: &Scratch) -> PathBuf {
    let lib = scratch.below("lib");
    lay_out(&lib, "libleveldb.so.1d", "libleveldb.so");
    lib
}

/// What a program says when it runs in an empty directory on the library that is in `lib`, or
/// LevelDB's.
fn say(program: &Path, argument: &str, lib: Option<&Path>) -> String {
    let scratch = Scratch::new(&format!(
        "{}-{}",
        program.file_name().expect("a name").display(),
        if lib.is_some() { "ours" } else { "theirs" }
    ));
    let mut command = Command::new(program);
    command.current_dir(scratch.path());
    command.env("ASAN_OPTIONS", "detect_leaks=1:halt_on_error=1");
    if let Some(lib) = lib {
        command.env("LD_LIBRARY_PATH", lib);
    }
    if !argument.is_empty() {
        command.arg(argument);
    }
    run(&mut command)
}

#[test]
fn programs_say_the_same_on_both_libraries() {
    let scratch = Scratch::new("leveldb");
    let lib = our_library(&scratch);
    let has_leveldb = has_leveldb();
    if !has_leveldb {
        tell("there is no LevelDB with all functions: compared with what it has said before");
    }
    for (program, argument, _) in PROGRAMS {
        let built = scratch.path().join(program);
        if has_leveldb {
            compile(&source(program), &built, &["-lleveldb", "-lpthread"]);
        } else {
            let flags = own_flags(&lib);
            compile(&source(program), &built, &flags.each_ref().map(String::as_str));
        }
        let said = here("tests/c/said").join(format!("{program}.txt"));
        if has_leveldb {
            let theirs = say(&built, argument, None);
            if std::env::var_os("ESKER_REWRITE").is_some() {
                std::fs::write(&said, &theirs).expect("written");
            }
            let before = std::fs::read_to_string(&said).expect("what LevelDB says");
            assert!(theirs == before, "LevelDB says something new in {program}:\n{theirs}");
        }
        let expected = std::fs::read_to_string(&said).expect("what LevelDB says");
        let ours = say(&built, argument, Some(&lib));
        for (nth, (expected, ours)) in expected.lines().zip(ours.lines()).enumerate() {
            assert_eq!(ours, expected, "{program}, line {}", nth + 1);
        }
        assert!(ours == expected, "{program} ends otherwise:\n{ours}");
    }
}

/// Reads the names that a library exports and that begin as LevelDB's do.
fn exported(library: &Path) -> BTreeSet<String> {
    let table = run(Command::new("nm").args(["-D", "--defined-only"]).arg(library));
    let names = table.lines().filter_map(|line| line.split_whitespace().nth(2));
    names.filter(|name| name.starts_with("leveldb_")).map(str::to_owned).collect()
}

#[test]
fn every_function_of_leveldb_is_exported() {
    let said = here("tests/c/said/functions.txt");
    if let Some(library) = leveldb() {
        let theirs: Vec<String> = exported(&library).into_iter().collect();
        if std::env::var_os("ESKER_REWRITE").is_some() {
            std::fs::write(&said, theirs.join("\n") + "\n").expect("written");
        }
        let before = std::fs::read_to_string(&said).expect("LevelDB's functions");
        assert_eq!(theirs.join("\n"), before.trim_end());
    }
    let ours = exported(&library());
    let theirs = std::fs::read_to_string(&said).expect("LevelDB's functions");
    assert!(theirs.lines().count() > 60, "{theirs}");
    for name in theirs.lines() {
        assert!(ours.contains(name), "{name} is not exported");
    }
    let more: Vec<&String> = ours.iter().filter(|name| !theirs.contains(&***name)).collect();
    assert_eq!(more, ["leveldb_options_set_string"], "what LevelDB does not have");
}

#[test]
fn programs_are_clean_under_the_address_sanitizer() {
    if !compiles("int main(void) { return 0; }\n", &["-fsanitize=address"]) {
        tell("cc has no address sanitizer: not run");
        return;
    }
    let scratch = Scratch::new("asan");
    let lib = our_library(&scratch);
    for (program, _, argument) in PROGRAMS {
        let built = scratch.path().join(format!("{program}-asan"));
        let flags = own_flags(&lib);
        let mut flags: Vec<&str> = flags.iter().map(String::as_str).collect();
        flags.push("-fsanitize=address");
        compile(&source(program), &built, &flags);
        say(&built, argument, Some(&lib));
    }
}

/// The names and contents of the files in a directory.
fn files(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = std::fs::read_dir(dir).expect("a directory");
    let read = |path: PathBuf| {
        let name = path.file_name().expect("a name").display().to_string();
        (name, std::fs::read(&path).expect("a file"))
    };
    entries.map(|entry| read(entry.expect("an entry").path())).collect()
}

/// Runs the program of what only ours does, beside a database of LevelDB, whole and without its
/// CURRENT.
fn own(flags: &[&str]) {
    let scratch = Scratch::new(&format!("own-{}", flags.len()));
    let lib = our_library(&scratch);
    let built = scratch.path().join("own");
    let all = own_flags(&lib);
    let all: Vec<&str> = all.iter().map(String::as_str).chain(flags.iter().copied()).collect();
    compile(&source("own"), &built, &all);
    let (whole, torn) = (scratch.below("whole"), scratch.below("torn"));
    for (name, bytes) in files(&here("../cli/tests/fixtures/leveldb")) {
        std::fs::write(whole.join(&name), &bytes).expect("written");
        if name != "CURRENT" {
            std::fs::write(torn.join(&name), &bytes).expect("written");
        }
    }
    let before = (files(&whole), files(&torn));
    let mut command = Command::new(&built);
    command.args([&whole, &torn]).current_dir(scratch.below("run"));
    command.env("LD_LIBRARY_PATH", &lib).env("ASAN_OPTIONS", "detect_leaks=1:halt_on_error=1");
    assert_eq!(run(&mut command), "");
    assert!(before == (files(&whole), files(&torn)), "files of LevelDB were touched");
}

#[test]
fn what_only_ours_does() {
    own(&[]);
}

#[test]
fn what_only_ours_does_is_clean_under_the_address_sanitizer() {
    if compiles("int main(void) { return 0; }\n", &["-fsanitize=address"]) {
        own(&["-fsanitize=address"]);
    } else {
        tell("cc has no address sanitizer: not run");
    }
}
