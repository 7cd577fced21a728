//! The C libraries: built, laid out where programs find them, and tested.
//!
//! Flow: `cargo rustc` with one interface of `crates/capi` -> a library with the name that the
//! linker looks for -> a directory. Templates of what describes them stand in
//! `crates/capi/install`.

use crate::process::{BUILD_MAX, FETCH_MAX, SMALL_MAX, cargo_command, output, succeeds_within};
use serde_json::Value;
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The version of the workspace.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// What programs that are linked with LevelDB ask for: Debian's name, and that of LevelDB's own
/// build.
const LEVELDB_NAMES: [&str; 3] = ["libleveldb.so.1d", "libleveldb.so.1", "libleveldb.so"];

/// What programs that are linked with our own library ask for.
const SONAME: &str = "libesker.so.0";

/// `cargo xtask leveldb DIR`: the library that takes LevelDB's place. True if it is there.
pub(crate) fn leveldb(root: &Path, dir: &Path) -> bool {
    let done = lay_out_leveldb(root, dir, "release");
    if done {
        println!("programs that are linked with LevelDB run on Esker with");
        println!("    LD_LIBRARY_PATH={} PROGRAM", dir.display());
    }
    done
}

/// `cargo xtask capi-install PREFIX`: headers, libraries, and what tells compilers of them. True if
/// all is there.
pub(crate) fn install(root: &Path, prefix: &Path) -> bool {
    let done = install_as(root, prefix, "release");
    if done {
        println!("installed in {}", prefix.display());
    }
    done
}

fn lay_out_leveldb(root: &Path, dir: &Path, profile: &str) -> bool {
    let [soname, others @ ..] = LEVELDB_NAMES;
    build(root, "leveldb", soname, profile).is_some_and(|built| {
        told(dir, || {
            fs::create_dir_all(dir)?;
            replace(&built.shared, &dir.join(soname))?;
            replace(&built.archive, &dir.join("libleveldb.a"))?;
            others.iter().try_for_each(|name| link(soname, &dir.join(name)))
        })
    })
}

fn install_as(root: &Path, prefix: &Path, profile: &str) -> bool {
    build(root, "native", SONAME, profile)
        .is_some_and(|built| told(prefix, || lay_out(root, prefix, &built)))
        && lay_out_leveldb(root, &prefix.join("lib/esker/leveldb"), profile)
}

fn lay_out(root: &Path, prefix: &Path, built: &Built) -> io::Result<()> {
    let lib = prefix.join("lib");
    let (pkgconfig, cmake) = (lib.join("pkgconfig"), lib.join("cmake/esker"));
    let include = prefix.join("include");
    // Where it is in nobody's way who has LevelDB's own header.
    let leveldb = include.join("esker/leveldb");
    for dir in [&pkgconfig, &cmake, &leveldb] {
        fs::create_dir_all(dir)?;
    }
    let capi = root.join("crates/capi");
    fs::copy(capi.join("include/esker.h"), include.join("esker.h"))?;
    fs::copy(capi.join("include/leveldb/c.h"), leveldb.join("c.h"))?;
    let full = format!("libesker.so.{VERSION}");
    replace(&built.shared, &lib.join(&full))?;
    replace(&built.archive, &lib.join("libesker.a"))?;
    link(&full, &lib.join(SONAME))?;
    link(SONAME, &lib.join("libesker.so"))?;
    let absolute = fs::canonicalize(prefix)?;
    for (name, dir) in [
        ("esker.pc", &pkgconfig),
        ("esker-config.cmake", &cmake),
        ("esker-config-version.cmake", &cmake),
    ] {
        let text = fs::read_to_string(capi.join("install").join(name))?
            .replace("@PREFIX@", &absolute.display().to_string())
            .replace("@SONAME@", SONAME)
            .replace("@VERSION@", VERSION);
        fs::write(dir.join(name), text)?;
    }
    Ok(())
}

/// Where cargo has put the libraries.
struct Built {
    shared: PathBuf,
    archive: PathBuf,
}

/// Builds the libraries with one interface, wherever cargo is told to build. `None` if that did not
/// work.
fn build(root: &Path, interface: &str, soname: &str, profile: &str) -> Option<Built> {
    let soname = format!("link-arg=-Wl,-soname,{soname}");
    let mut cargo = cargo_command();
    cargo.args(["rustc", "-p", "esker-capi", "--lib", "--no-default-features"]);
    cargo.args(["--features", interface, "--profile", profile, "--message-format"]);
    cargo.args(["json-render-diagnostics", "--crate-type", "cdylib,staticlib", "--"]);
    cargo.args(["-C", &soname, "-C", "strip=debuginfo"]).current_dir(root);
    let said = output(cargo.stderr(Stdio::inherit()))?;
    let found = said.lines().find_map(libraries);
    if found.is_none() {
        eprintln!("cargo has built no library: see what it says above");
    }
    found
}

/// The libraries that a message of cargo's names, if it is of those.
fn libraries(message: &str) -> Option<Built> {
    let message: Value = serde_json::from_str(message).ok()?;
    if message["target"]["name"] != "esker_leveldb" {
        return None;
    }
    let files: Vec<&str> =
        message["filenames"].as_array()?.iter().flat_map(Value::as_str).collect();
    let ending = |end: &str| files.iter().find(|file| file.ends_with(end)).map(PathBuf::from);
    Some(Built { shared: ending(".so")?, archive: ending(".a")? })
}

/// Puts a file in the place of another at once: a program may be running on the old one.
fn replace(from: &Path, to: &Path) -> io::Result<()> {
    let mut temporary = to.as_os_str().to_owned();
    temporary.push(".new");
    fs::copy(from, &temporary)?;
    fs::rename(&temporary, to)
}

fn link(to: &str, at: &Path) -> io::Result<()> {
    match fs::remove_file(at) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => symlink(to, at),
    }
}

/// Says what went wrong. True if nothing did.
fn told(place: &Path, done: impl FnOnce() -> io::Result<()>) -> bool {
    done().inspect_err(|error| eprintln!("{}: {error}", place.display())).is_ok()
}

/// The step of `cargo xtask test`: the tests of the crate, and programs on what an installation
/// lays out.
pub(crate) fn test(root: &Path) -> bool {
    find_leveldb();
    let tests = ["test", "--profile", "gates", "-p", "esker-capi"];
    succeeds_within(cargo_command().args(tests).current_dir(root), BUILD_MAX)
        && try_installation(root)
}

/// Installs LevelDB's library and header where that can be done, so that ours is compared with it:
/// as root, by `apt-get`.
fn find_leveldb() {
    if Path::new("/usr/include/leveldb/c.h").exists() {
        return;
    }
    let is_root = output(Command::new("id").arg("-u")).is_some_and(|id| id.trim() == "0");
    let has_apt = output(Command::new("apt-get").arg("--version")).is_some();
    if is_root && has_apt {
        println!(
            "libleveldb-dev is not installed: since this runs as root, apt-get installs it now"
        );
        let mut apt = Command::new("apt-get");
        apt.args(["install", "--yes", "--quiet", "libleveldb-dev"]);
        apt.env("DEBIAN_FRONTEND", "noninteractive").stdin(Stdio::null());
        if succeeds_within(&mut apt, FETCH_MAX) {
            return;
        }
    }
    println!(
        "libleveldb-dev is not installed: our library is compared with what LevelDB has said before, not with LevelDB"
    );
}

/// Installs into a directory for a moment, and builds and runs an example by what is there.
fn try_installation(root: &Path) -> bool {
    let dir = std::env::temp_dir().join(format!("esker-install-{}", std::process::id()));
    let prefix = dir.join("prefix");
    let done = told(&dir, || fs::create_dir_all(&prefix))
        && install_as(root, &prefix, "gates")
        && with_pkg_config(root, &dir, &prefix)
        && with_cmake(root, &dir, &prefix)
        && on_leveldb(root, &dir, &prefix);
    fs::remove_dir_all(&dir).ok();
    done
}

fn example(root: &Path) -> PathBuf {
    root.join("crates/capi/examples/tour.c")
}

fn with_pkg_config(root: &Path, dir: &Path, prefix: &Path) -> bool {
    if output(Command::new("pkg-config").arg("--version")).is_none() {
        println!("there is no pkg-config: its file is not tried");
        return true;
    }
    let mut asked = Command::new("pkg-config");
    asked.args(["--cflags", "--libs", "esker"]);
    asked.env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig"));
    let Some(flags) = output(&mut asked) else {
        println!("pkg-config does not find esker by its file");
        return false;
    };
    let program = dir.join("tour");
    let mut compile = Command::new("cc");
    compile.arg(example(root)).args(flags.split_whitespace()).arg("-o").arg(&program);
    let mut tour = Command::new(&program);
    tour.current_dir(dir).env("LD_LIBRARY_PATH", prefix.join("lib")).stdout(Stdio::null());
    succeeds_within(&mut compile, SMALL_MAX) && succeeds_within(&mut tour, SMALL_MAX)
}

fn with_cmake(root: &Path, dir: &Path, prefix: &Path) -> bool {
    if output(Command::new("cmake").arg("--version")).is_none() {
        println!("there is no cmake: its files are not tried");
        return true;
    }
    let project = dir.join("project");
    let text = format!(
        "cmake_minimum_required(VERSION 3.13)\nproject(tour C)\nfind_package(esker {VERSION} REQUIRED)\n\
         add_executable(tour {0})\ntarget_link_libraries(tour esker::esker)\n\
         add_executable(tour_static {0})\ntarget_link_libraries(tour_static esker::esker_static)\n",
        example(root).display()
    );
    let written = told(&project, || {
        fs::create_dir_all(&project)?;
        fs::write(project.join("CMakeLists.txt"), text)
    });
    let made = project.join("made");
    let mut configure = Command::new("cmake");
    configure.arg("-S").arg(&project).arg("-B").arg(&made).stdout(Stdio::null());
    configure.arg(format!("-DCMAKE_PREFIX_PATH={}", prefix.display()));
    let mut build = Command::new("cmake");
    build.arg("--build").arg(&made).stdout(Stdio::null());
    let run = |name: &str| {
        let mut example = Command::new(made.join(name));
        succeeds_within(example.current_dir(dir).stdout(Stdio::null()), SMALL_MAX)
    };
    written
        && succeeds_within(&mut configure, SMALL_MAX)
        && succeeds_within(&mut build, SMALL_MAX)
        && run("tour")
        && run("tour_static")
}

/// A program that is linked with the library that has LevelDB's name, shared and static, says what
/// it says on LevelDB's.
fn on_leveldb(root: &Path, dir: &Path, prefix: &Path) -> bool {
    let lib = prefix.join("lib/esker/leveldb");
    let path = format!("-L{}", lib.display());
    let tests = root.join("crates/capi/tests/c");
    ["-lleveldb", "-l:libleveldb.a"].iter().all(|library| {
        let run = dir.join(format!("on{library}"));
        let program = run.join("batch");
        let mut compile = Command::new("cc");
        compile.arg(tests.join("batch.c"));
        compile.arg(format!("-I{}", prefix.join("include/esker").display()));
        compile
            .args([path.as_str(), library, "-lpthread", "-ldl", "-lm", "-lgcc_s", "-o"])
            .arg(&program);
        let mut batch = Command::new(&program);
        let said = dir.join(format!("said{library}"));
        let ready = told(&run, || {
            fs::create_dir_all(&run)?;
            batch.current_dir(&run).env("LD_LIBRARY_PATH", &lib).stdout(fs::File::create(&said)?);
            Ok(())
        });
        ready
            && succeeds_within(&mut compile, SMALL_MAX)
            && succeeds_within(&mut batch, SMALL_MAX)
            && are_equal(&said, &tests.join("said/batch.txt"))
    })
}

/// True if two files hold the same.
fn are_equal(is: &Path, should_be: &Path) -> bool {
    let mut equal = false;
    told(is, || {
        equal = fs::read(is)? == fs::read(should_be)?;
        Ok(())
    });
    if !equal {
        eprintln!("{} is not what {} is", is.display(), should_be.display());
    }
    equal
}
