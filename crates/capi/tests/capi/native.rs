//! Our own interface: every function of it, used well and wrongly, from C.

use crate::support::{Scratch, compile, compiles, here, lay_out, library, run, tell};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Builds a program against `esker.h` and runs it in an empty directory. What it says.
fn say(source: &Path, more: &[&str]) -> String {
    let name = source.file_stem().expect("a name").display().to_string();
    let scratch = Scratch::new(&format!("native-{name}-{}", more.len()));
    let lib = scratch.below("lib");
    lay_out(&lib, "libesker.so.0", "libesker.so");
    let built = scratch.path().join(&name);
    let (include, dir) =
        (format!("-I{}", here("include").display()), format!("-L{}", lib.display()));
    let flags = [&[include.as_str(), dir.as_str(), "-lesker", "-lpthread"], more].concat();
    compile(source, &built, &flags);
    let mut command = Command::new(&built);
    command.current_dir(scratch.below("run")).env("LD_LIBRARY_PATH", &lib);
    run(command.env("ASAN_OPTIONS", "detect_leaks=1:halt_on_error=1"))
}

/// The programs that call every function between them.
fn programs() -> [PathBuf; 2] {
    ["native", "groups"].map(|name| here(&format!("tests/c/{name}.c")))
}

#[test]
fn every_function_does_what_it_says() {
    for program in programs() {
        assert_eq!(say(&program, &[]), "", "{}", program.display());
    }
}

#[test]
fn every_function_is_called() {
    let table = run(Command::new("nm").args(["-D", "--defined-only"]).arg(library()));
    let names = table.lines().filter_map(|line| line.split_whitespace().nth(2));
    let ours: Vec<&str> = names.filter(|name| name.starts_with("esker_")).collect();
    assert!(ours.len() > 60, "{ours:?}");
    let text = programs().map(|program| std::fs::read_to_string(program).expect("the program"));
    let text = text.concat();
    let header = std::fs::read_to_string(here("include/esker.h")).expect("the header");
    for name in ours {
        assert!(text.contains(&format!("{name}(")), "{name} is not called in native.c or groups.c");
        assert!(header.contains(&format!("{name}(")), "{name} is not in esker.h");
    }
}

#[test]
fn it_is_clean_under_the_address_sanitizer() {
    if !compiles("int main(void) { return 0; }\n", &["-fsanitize=address"]) {
        tell("cc has no address sanitizer: not run");
        return;
    }
    // Not `fork.c`: the sanitizer's own locks stay held in children.
    for program in programs() {
        assert_eq!(say(&program, &["-fsanitize=address"]), "", "{}", program.display());
    }
}

#[test]
fn a_child_leaves_the_stores_of_its_parent_alone() {
    assert_eq!(say(&here("tests/c/fork.c"), &[]), "");
}

#[test]
fn keys_are_written_and_read_to_the_very_end() {
    assert_eq!(say(&here("tests/c/last.c"), &[]), "");
}

#[test]
fn examples_run() {
    let tour = say(&here("examples/tour.c"), &[]);
    assert_eq!(tour, "milk, before: 1\napples: none\nbread = 2\nmilk = 0\n");
    let records = say(&here("examples/records.c"), &[]);
    assert_eq!(records, "1923 p1: Edgar Codd\n1939 p4: Barbara Liskov\n1944 p3: Jim Gray\n");
}

#[test]
fn headers_are_for_cpp_too() {
    let scratch = Scratch::new("cpp");
    let source = scratch.path().join("both.cc");
    let text = "#include <esker.h>\n#include <leveldb/c.h>\n\
                int main() { return esker_version()[0] == 0 || leveldb_major_version() != 1; }\n";
    std::fs::write(&source, text).expect("written");
    if Command::new("c++").arg("--version").output().is_err() {
        tell("there is no c++: not compiled");
        return;
    }
    let mut command = Command::new("c++");
    command.args(["-Wall", "-Wextra", "-Werror", "-fsyntax-only"]).arg(&source);
    run(command.arg(format!("-I{}", here("include").display())));
}
