//! Finding by what a field holds: through an index and without one, against a model.

use crate::support::{Temp, feed, on, unbuilt};
use std::path::Path;

/// `(key, field)` of some records: the field is of any type, or absent; one value is no record.
const RECORDS: &str = r#"{"k":"a","v":1}
{"k":"b","v":1.0}
{"k":"c","v":"1"}
{"k":"d","v":true}
{"k":"e","v":null}
{"k":"f"}
{"k":"g","v":"null"}
{"k":"h","v":-5}
{"k":"i","v":10}
{"k":"j","v":9}
{"k":"k","v":2.5}
{"k":"l","v":"true"}
{"k":"m","v":false}
{"k":"n","v":"apple"}
{"k":"o","v":1}
"#;

fn filled(index: bool) -> Temp {
    let temp = Temp::new();
    let mut load = vec!["load", "--key", "k", "jsonl:-"];
    if index {
        load.extend(["--index", "v"]);
    }
    feed(&temp.store(), &load, RECORDS.as_bytes()).good();
    // A record with bytes in the field, and what is none.
    on(&temp.store(), &["put", "--encoding", "hex", "70", "e1010176034000ff"]).good();
    on(&temp.store(), &["put", "q", "no record"]).good();
    // The record of v = 1, with a byte behind it.
    let broken = "e10101760910800000000000000100";
    on(&temp.store(), &["put", "--encoding", "hex", "72", broken]).good();
    temp
}

/// The keys that a find gives, with blanks between.
fn keys(store: &Path, args: &str, more: &[&str]) -> String {
    let mut line = vec!["find", "v", "--keys-only"];
    line.extend(args.split_whitespace());
    line.extend(more);
    let ended = on(store, &line);
    ended.good().split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn every_form_finds_what_it_should_with_an_index_and_without() {
    let (indexed, bare) = (filled(true), filled(false));
    for (args, found) in [
        // In the order of values: null, false, true, integers, floats, text, bytes.
        ("", "e m d h a o j i b k c n g l p"),
        ("1", "a o b c"),
        ("1 --type integer", "a o"),
        ("1 --type float", "b"),
        ("1.0", "b"),
        ("1.0 --type float", "b"),
        ("1 --type text", "c"),
        ("true", "d l"),
        ("TRUE", "d"),
        ("true --type boolean", "d"),
        ("null", "e g"),
        ("null --type null", "e"),
        ("null --type text", "g"),
        ("-5", "h"),
        ("apple", "n"),
        ("nothing", ""),
        ("--type integer", "h a o j i"),
        ("--type bytes", "p"),
        ("--type text", "c n g l"),
        ("--type boolean", "m d"),
        ("--from 9 --to 10", "j"),
        ("--from 1 --to 10 --type integer", "a o j"),
        ("--from 1 --to 9", "a o b k c"),
        ("--from 1 --to 1", ""),
        ("--from 2 --type integer", "j i"),
        ("--to 1 --type integer", "h"),
        ("--from -10 --to 1 --type integer", "h"),
        ("--from 2 --type float", "k"),
        ("--from b", "g l"),
        ("--to b --type text", "c n"),
        ("--from 0.5", "b k c n g l"),
        ("--from false --to true", "m g"),
        ("--from false --to true --type boolean", "m"),
        ("--limit 3", "e m d"),
        ("1 --limit 3", "a o b"),
        ("--limit 0", ""),
    ] {
        assert_eq!(keys(&indexed.store(), args, &[]), found, "{args}");
        let mut sorted: Vec<&str> = found.split_whitespace().collect();
        sorted.sort_unstable();
        let count = format!("{}\n", sorted.len());
        let mut line = vec!["find", "v", "--count"];
        line.extend(args.split_whitespace());
        assert_eq!(on(&indexed.store(), &line).good(), count, "{args}");
        // Without an index they come in the order of keys, and the first of these are others.
        for store in [indexed.store(), bare.store()] {
            if !args.contains("--limit") {
                assert_eq!(keys(&store, args, &["--scan"]), sorted.join(" "), "{args} --scan");
            }
            let counted = on(&store, &[&line[..], &["--scan"]].concat());
            assert_eq!(counted.good(), count, "{args} --scan");
        }
        if !args.is_empty() {
            let missing = on(&bare.store(), &line);
            assert_eq!(missing.code, 4, "{args}: {missing:?}");
        }
    }
    assert_eq!(keys(&indexed.store(), "--encoding hex 00ff", &[]), "70");
    assert_eq!(keys(&indexed.store(), "--encoding escaped \\x00\\xff", &["--scan"]), "p");
    assert_eq!(keys(&indexed.store(), "--type bytes --from \u{1}", &[]), "");
    assert_eq!(keys(&bare.store(), "--limit 2", &["--scan"]), "a b");
}

#[test]
fn what_is_found_is_printed_as_a_scan_prints_it() {
    let temp = filled(true);
    let store = temp.store();
    for (args, printed) in [
        (&["1", "--type", "float"][..], "b\t{\"k\":\"b\",\"v\":1.0}\n"),
        (&["1", "--type", "float", "--keys"], "b\n"),
        (&["1", "--type", "float", "--values"], "{\"k\":\"b\",\"v\":1.0}\n"),
        (&["1.0", "--json"], "{\"key\":\"b\",\"fields\":{\"k\":\"b\",\"v\":1.0}}\n"),
        (&["1.0", "--json", "--keys"], "{\"key\":\"b\"}\n"),
        (&["--type", "bytes", "--json"], "{\"key\":\"p\",\"fields\":{\"v\":{\"hex\":\"00ff\"}}}\n"),
        (&["--type", "bytes", "--encoding", "hex"], "70\te1010176034000ff\n"),
        (&["1", "--count", "--json"], "{\"count\":4}\n"),
    ] {
        for scan in [&[][..], &["--scan"]] {
            let line = [&["find", "v"][..], args, scan].concat();
            assert_eq!(on(&store, &line).good(), printed, "{line:?}");
        }
    }
    let raw = on(&store, &["find", "v", "--type", "bytes", "--raw", "--values"]);
    assert_eq!(raw.out, b"\xe1\x01\x01v\x03\x40\x00\xff\n");
    let script =
        "find v 1.0\nfind v --count\nput a x\nfind v 1 --keys\nfind v 1 --scan --keys --limit 1\n";
    let shell = feed(&store, &["shell"], script.as_bytes());
    assert_eq!(shell.good(), "b\t{\"k\":\"b\",\"v\":1.0}\n15\no\nb\nc\nb\n");
    let read =
        feed(&store, &["shell", "--read-only", "--json"], b"find v --count\nfind v 10 --keys\n");
    assert_eq!(read.good(), "{\"count\":14}\n{\"key\":\"i\"}\n");
}

#[test]
fn an_index_follows_what_is_written() {
    let temp = filled(true);
    let store = temp.store();
    on(&store, &["delete", "a"]).good();
    on(&store, &["delete", "--from", "i", "--to", "k"]).good();
    assert_eq!(keys(&store, "--type integer", &[]), "h o");
    feed(
        &store,
        &["load", "--key", "k", "jsonl:-"],
        b"{\"k\":\"o\",\"v\":7}\n{\"k\":\"z\",\"v\":7}\n",
    )
    .good();
    assert_eq!(keys(&store, "7", &[]), "o z");
    assert_eq!(keys(&store, "1 --type integer", &[]), "");
    on(&store, &["compact"]).good();
    assert_eq!(keys(&store, "--type integer", &[]), "h o z");
    let copy = temp.join("copy");
    on(&store, &["checkpoint", copy.to_str().expect("path")]).good();
    assert_eq!(keys(&copy, "--type integer", &[]), "h o z");
    on(&copy, &["verify"]).good();
}

#[test]
fn a_store_with_an_index_that_is_not_ready_says_what_to_do() {
    let temp = Temp::new();
    let store = temp.store();
    unbuilt(&store);
    let early = on(&store, &["find", "price", "1"]);
    assert_eq!((early.code, early.text()), (1, ""), "{early:?}");
    assert!(early.err.contains("`esker index wait`") && early.err.contains("--scan"), "{early:?}");
    assert_eq!(on(&store, &["find", "price", "1", "--scan", "--keys"]).good(), "k1\n");
    assert_eq!(on(&store, &["find", "name", "ann", "--keys"]).good(), "k1\n");
    let stats = on(&store, &["stats"]).good().to_owned();
    assert!(stats.contains("of name, ready") && stats.contains("of price, not ready"), "{stats}");
    let verify = on(&store, &["verify"]).good().to_owned();
    assert!(
        verify.contains("index of field \"name\" in keyspace \"default\": 1 entry, as"),
        "{verify}"
    );
    assert!(
        verify.contains("\"price\" in keyspace \"default\": not ready, and so not"),
        "{verify}"
    );
    // Whatever opens it for writing goes on with it; this waits.
    on(&store, &["index", "wait", "price"]).good();
    assert_eq!(on(&store, &["find", "price", "1", "--keys"]).good(), "k1\n");
    let stats = on(&store, &["stats", "--json"]).good().to_owned();
    assert_eq!(stats.matches("\"is_ready\":true").count(), 2, "{stats}");
}
