//! Scripts through the shell.

use crate::support::{Ended, Temp, command, feed, on};
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, tcgetattr};
use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStringExt;
use std::process::Stdio;

/// Runs a script on a store with one record.
fn run(args: &[&str], script: &str) -> (i32, String, String, String) {
    let temp = Temp::new();
    on(&temp.store(), &["put", "first", "1"]).good();
    let line = [&["shell"], args].concat();
    let ended = feed(&temp.store(), &line, script.as_bytes());
    let held = on(&temp.store(), &["scan"]).good().to_owned();
    (ended.code, ended.text().to_owned(), ended.err, held)
}

#[test]
fn scripts() {
    for (script, out, held) in [
        ("", "", "first\t1\n"),
        ("get first\nget second\n", "1\n(not found)\n", "first\t1\n"),
        ("put a 'x y'\nget a", "x y\n", "a\tx y\nfirst\t1\n"),
        (
            "  # comment\n\nput \"a\\tb\" -5\nscan --from a --to b\n",
            "a\\tb\t-5\n",
            "a\\tb\t-5\nfirst\t1\n",
        ),
        ("delete first\ncount\n", "0\n", ""),
        ("put a 1\nput b 2\ndelete --from a --to c\ncount", "1\n", "first\t1\n"),
        (
            "put a 1\nput b 2\nscan --reverse --keys-only --limit 2\nquit\nput c 3\n",
            "first\nb\n",
            "a\t1\nb\t2\nfirst\t1\n",
        ),
        ("flush\nsync\ncount --prefix f\nexit\n", "1\n", "first\t1\n"),
        ("put '' ''\nget ''\n", "\n", "\t\nfirst\t1\n"),
        (
            "put -5 x\nget -5\ncount --to -6\nscan --from -5 --prefix -5\ndelete -5\ncount\n",
            "x\n1\n-5\tx\n1\n",
            "first\t1\n",
        ),
        ("put -5 x\ndelete --from -5 --to -6\ncount\n", "1\n", "first\t1\n"),
        ("put x y\\ \nget x  \r\n", "y \n", "first\t1\nx\ty \n"),
    ] {
        let (code, printed, err, left) = run(&[], script);
        assert_eq!((code, err.as_str()), (0, ""), "{script:?}");
        assert_eq!((printed.as_str(), left.as_str()), (out, held), "{script:?}");
    }
}

#[test]
fn the_first_fault_ends_a_script_and_what_came_before_stays() {
    for (script, code, part) in [
        ("put a 1\nbogus\nput b 2\n", 2, "line 2: unrecognized subcommand 'bogus'"),
        ("put a 1\ndelete.old first\n", 2, "line 2: unrecognized subcommand 'delete.old'"),
        ("put a 1\n'' delete first\n", 2, "line 2: unrecognized subcommand"),
        ("put a 1\nput b\nput b 2\n", 2, "line 2: the following required arguments"),
        ("put a 1\nput 'b 2\nput b 2\n", 2, "line 2: a quote is not closed"),
        ("put a 1\nput b \\q\nput b 2\n", 2, "line 2: unknown escape"),
        ("put a 1\nscan --from b --to a\nput b 2\n", 2, "line 2: the range ends before it starts"),
        ("put a 1\ndelete\nput b 2\n", 2, "line 2:"),
    ] {
        let (ended, _, err, held) = run(&[], script);
        assert_eq!((ended, held.as_str()), (code, "a\t1\nfirst\t1\n"), "{script:?}: {err}");
        assert!(err.contains(part) && err.lines().count() == 1, "{script:?}: {err}");
    }
}

#[test]
fn encodings_help_and_drawings() {
    let (code, out, _, held) = run(&["--encoding", "hex"], "put 00ff 0a\nget 00ff\nscan\n");
    assert_eq!((code, out.as_str()), (0, "0a\n00ff\t0a\n6669727374\t31\n"));
    assert_eq!(held, "\\x00\\xff\t\\n\nfirst\t1\n");
    let (code, out, _, _) = run(&["--json"], "get first\nget no\ncount\n");
    let expected = "{\"key\":\"first\",\"value\":\"1\"}\nnull\n{\"count\":1}\n";
    assert_eq!((code, out.as_str()), (0, expected));
    let (code, out, _, _) = run(&[], "help\nstats\nlevels\n");
    assert_eq!(code, 0);
    for part in ["delete --from A --to B", "keyspace         default", "0 of 4 runs"] {
        assert!(out.contains(part), "{part}: {out}");
    }
    let (code, _, err, held) = run(&["--read-only"], "put a 1\n");
    assert_eq!((code, held.as_str()), (1, "first\t1\n"), "{err}");
    assert!(err.contains("line 1: the store is open for reading only"), "{err}");
}

#[test]
fn a_terminal_is_as_it_was_when_a_signal_ends_the_shell() {
    let temp = Temp::new();
    on(&temp.store(), &["put", "first", "1"]).good();
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
    grantpt(&master).expect("granted");
    unlockpt(&master).expect("unlocked");
    let name = OsString::from_vec(ptsname(&master, Vec::new()).expect("a name").into_bytes());
    let terminal = File::options().read(true).write(true).open(name).expect("open");
    let modes = || tcgetattr(&terminal).expect("modes").local_modes;
    let typed = LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG;
    assert!(modes().contains(typed));

    let mut shell = command(&["shell"]);
    shell.env("ESKER_DB", temp.store()).env("TERM", "xterm").stderr(Stdio::piped());
    let end = || Stdio::from(terminal.try_clone().expect("another handle"));
    let shell = shell.stdin(end()).stdout(end()).spawn().expect("esker runs");
    let (mut screen, mut piece) = (String::new(), [0; 100]);
    let mut master = File::from(master);
    while !screen.contains("esker> ") {
        let len = master.read(&mut piece).expect("read");
        screen.push_str(&String::from_utf8_lossy(&piece[..len]));
    }
    assert!(!modes().intersects(typed), "keys are read one by one: {screen}");
    kill_process(Pid::from_child(&shell), Signal::TERM).expect("signal");
    let ended = Ended::from(shell.wait_with_output().expect("it ends"));
    assert_eq!(ended.code, 130, "{ended:?}");
    assert!(modes().contains(typed), "{:?}", modes());
}
