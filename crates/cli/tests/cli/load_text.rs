//! CSV and JSON lines, and what can be wrong with them.

use crate::support::{Temp, feed, on, source};

/// Loads text from standard input into a new store, as JSON; returns exit code, message, and the
/// records.
fn load(kind: &str, args: &str, text: &[u8]) -> (i32, String, String) {
    let temp = Temp::new();
    let mut line = vec!["load", "--values", "json", kind];
    line.extend(args.split_whitespace());
    let ended = feed(&temp.store(), &line, text);
    let held = on(&temp.store(), &["scan"]);
    // A load that fails before the first record makes no store.
    (ended.code, ended.err, held.text().to_owned())
}

#[test]
fn csv_rows() {
    for (args, text, expected) in [
        (
            "",
            "id,name\n1,ann\n2,bob\n",
            "1\t{\"id\":\"1\",\"name\":\"ann\"}\n2\t{\"id\":\"2\",\"name\":\"bob\"}\n",
        ),
        ("--key name", "id,name\n1,ann\n", "ann\t{\"id\":\"1\",\"name\":\"ann\"}\n"),
        (
            "--row-numbers",
            "id\nx\nx\n",
            "000000000001\t{\"id\":\"x\"}\n000000000002\t{\"id\":\"x\"}\n",
        ),
        (
            "",
            "id,text\n1,\"a, \"\"b\"\"\nc\"\n",
            "1\t{\"id\":\"1\",\"text\":\"a, \\\"b\\\"\\nc\"}\n",
        ),
        ("", "id,text\r\n1,\r\n", "1\t{\"id\":\"1\",\"text\":\"\"}\n"),
        (
            "",
            "id,text\n1,last line without an end",
            "1\t{\"id\":\"1\",\"text\":\"last line without an end\"}\n",
        ),
        ("", "\u{feff}id\n1\n", "1\t{\"id\":\"1\"}\n"),
        ("--delimiter ;", "id;a,b\n1;2\n", "1\t{\"id\":\"1\",\"a,b\":\"2\"}\n"),
        ("--delimiter \\t", "id\tb\n1\t2\n", "1\t{\"id\":\"1\",\"b\":\"2\"}\n"),
        ("", "id\n1\n\n2\n", "1\t{\"id\":\"1\"}\n2\t{\"id\":\"2\"}\n"),
        ("", "id,v\n1,old\n1,new\n", "1\t{\"id\":\"1\",\"v\":\"new\"}\n"),
        ("", "id,name\n", ""),
        ("", "", ""),
        ("--key id", "", ""),
    ] {
        for bulk in ["", " --bulk"] {
            let (code, err, held) = load("csv:-", &format!("{args}{bulk}"), text.as_bytes());
            assert_eq!((code, held.as_str()), (0, expected), "{text:?} {args}{bulk}: {err}");
        }
    }
}

#[test]
fn csv_faults() {
    for (args, text, code, part, kept) in [
        ("", &b"id,b\n1,2\n2\n3,4\n"[..], 1, "line 3: 1 columns instead of 2", 1),
        ("", b"id,b\r\n1,2\r\n2\r\n3,4\r\n", 1, "line 3: 1 columns instead of 2", 1),
        ("", b"\nid,b\n\n1,2\n\n\n\"2\n\"\n3,4\n", 1, "line 7: 1 columns instead of 2", 1),
        ("", b"\n\nid,id\n1,2\n", 1, "line 3: column \"id\" stands twice", 0),
        ("", b"id,b\n1,2\n2,\xff\n3,4\n", 1, "line 3: column \"b\" is not UTF-8", 1),
        ("", b"id,id\n1,2\n", 1, "column \"id\" stands twice", 0),
        ("", b"id,\xff\n1,2\n", 1, "line 1: a column's name is not UTF-8", 0),
        ("--key nr", b"id,b\n1,2\n", 2, "no column \"nr\": there are id, b", 0),
        ("--key nr", b"id,\"b\n\x1b\"\n1,2\n", 2, "no column \"nr\": there are id, b\\n\\x1b\n", 0),
        ("--skip-bad", b"id,b\n1,2\n2\n3,\xff\n4,5\n", 0, "line 4: column \"b\" is not UTF-8", 2),
        ("", b"id,b\n1,\"x\n2,y\n3,z\n", 1, "line 2: a quote is opened there", 0),
        ("--skip-bad", b"id,b\n1,x\n2,\"y\n3,z\n", 1, "line 3: a quote is opened there", 1),
        ("", b"id,\"b\n1,x\n", 1, "line 1: a quote is opened there", 0),
        ("--paths full", b"id,b\n1,2\n", 2, "--paths: only files have paths", 0),
        ("--cross-devices", b"id,b\n1,2\n", 2, "--cross-devices: only files stand", 0),
        ("--key b --row-numbers", b"id,b\n1,2\n", 2, "cannot be used with", 0),
    ] {
        let (ended, err, held) = load("csv:-", args, text);
        assert_eq!((ended, held.lines().count()), (code, kept), "{part}: {err}");
        assert!(err.contains(part), "{part}: {err}");
    }
}

#[test]
fn json_lines() {
    for (args, text, expected) in [
        (
            "",
            "{\"a\":1}\n[2]\n\"three\"\n",
            "000000000001\t{\"a\":1}\n000000000002\t[2]\n000000000003\t\"three\"\n",
        ),
        (
            "--key id",
            "{\"id\":\"x\",\"v\":1}\n{\"id\":7}\n{\"id\":true}\n",
            "7\t{\"id\":7}\ntrue\t{\"id\":true}\nx\t{\"id\":\"x\",\"v\":1}\n",
        ),
        (
            "--key id",
            "{\"id\":12345678901234567890123}\n{\"id\":12345678901234567890124}\n",
            "12345678901234567890123\t{\"id\":12345678901234567890123}\n12345678901234567890124\t{\"id\":12345678901234567890124}\n",
        ),
        ("", "  {\"a\" : 1.000}  \r\n\n\n{}", "000000000001\t{\"a\" : 1.000}\n000000000004\t{}\n"),
        ("--key k", "{\"k\":\"\\u00e9\\n\"}", "é\\n\t{\"k\":\"\\u00e9\\n\"}\n"),
        ("", "\u{feff}{}\n", "000000000001\t{}\n"),
        ("", "\u{feff} {}\n", "000000000001\t{}\n"),
        ("", "\u{feff} \n", ""),
        ("", "", ""),
        ("--key id", "\n\n", ""),
    ] {
        for bulk in ["", " --bulk"] {
            let (code, err, held) = load("jsonl:-", &format!("{args}{bulk}"), text.as_bytes());
            assert_eq!((code, held.as_str()), (0, expected), "{text:?} {args}{bulk}: {err}");
        }
    }
}

#[test]
fn json_faults() {
    for (args, text, code, part, kept) in [
        ("", &b"{}\n{\"a\":}\n{}\n"[..], 1, "line 2: bad JSON in column 6", 1),
        ("", b"{}\n\n{} {}\n", 1, "line 3: bad JSON", 1),
        ("", b"{}\n{\"a\":\"\xff\"}\n", 1, "line 2: not UTF-8", 1),
        ("--key id", b"{\"id\":1}\n{\"nr\":2}\n", 1, "line 2: no field \"id\"", 1),
        ("--key id", b"{\"id\":null}\n", 1, "line 1: field \"id\" is no string", 0),
        ("--key id", b"{\"id\":[1]}\n", 1, "line 1: field \"id\" is no string", 0),
        ("--key id", b"[1]\n", 1, "line 1: bad JSON", 0),
        ("--key id --skip-bad", b"{\"id\":1}\nx\n{}\n{\"id\":4}\n", 0, "line 3: no field", 2),
        ("", b"{\"a\":1", 1, "line 1: bad JSON", 0),
    ] {
        for bulk in ["", " --bulk"] {
            let (ended, err, held) = load("jsonl:-", &format!("{args}{bulk}"), text);
            assert_eq!((ended, held.lines().count()), (code, kept), "{part}{bulk}: {err}");
            assert!(err.contains(part), "{part}{bulk}: {err}");
        }
    }
}

#[test]
fn bulk_goes_on_when_keys_are_out_of_order() {
    let mut text = String::new();
    for i in (0..3_000).chain([1_500, 100]).chain(2_990..4_000) {
        text.push_str(&format!("{{\"id\":\"{i:05}\"}}\n"));
    }
    text.push_str("{\"id\":\"00100\",\"newest\":true}\n");
    let (code, err, held) = load("jsonl:-", "--bulk --key id", text.as_bytes());
    assert_eq!(code, 0, "{err}");
    assert!(err.contains("line 3001: keys are not in ascending order"), "{err}");
    assert_eq!(held.lines().count(), 4_000);
    assert!(held.contains("00100\t{\"id\":\"00100\",\"newest\":true}\n"));
}

#[test]
fn many_rows_come_back() {
    let temp = Temp::new();
    let rows: String = (0..25_000).map(|i| format!("{},{i}\n", (i * 7_919) % 25_013)).collect();
    let file = temp.file("rows.csv", format!("id,n\n{rows}"));
    let ended = on(&temp.store(), &[&"load".into(), &source("csv", &file)]);
    assert!(ended.good().starts_with("loaded 25 000 records"), "{ended:?}");
    let held = on(&temp.store(), &["scan", "--values"]);
    let mut expected: Vec<String> = (0..25_000)
        .map(|i| format!("{{\"id\":\"{}\",\"n\":\"{i}\"}}", (i * 7_919) % 25_013))
        .collect();
    let mut lines: Vec<&str> = held.good().lines().collect();
    expected.sort();
    lines.sort_unstable();
    assert_eq!(lines, expected);
}
