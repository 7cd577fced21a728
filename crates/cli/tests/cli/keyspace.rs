//! What `--keyspace` does, command by command: no command takes it and works on something else.

use crate::support::{Temp, esker, feed, fingerprint, on};
use serde_json::Value;
use std::path::Path;

/// A store with two records in each of two keyspaces, in its log.
fn two(temp: &Temp) {
    let store = temp.store();
    on(&store, &["put", "a", "1"]).good();
    on(&store, &["keyspaces", "create", "people"]).good();
    on(&store, &["put", "b", "1"]).good();
    for key in ["a", "b"] {
        on(&store, &["put", key, "1", "--keyspace", "people"]).good();
    }
}

/// Tables of each keyspace.
fn tables(store: &Path) -> Vec<(String, u64)> {
    let listed = on(store, &["keyspaces", "list", "--json"]);
    let lines = listed.good().lines().map(|line| serde_json::from_str(line).expect("JSON"));
    let tables = |line: Value| {
        (line["name"].as_str().expect("name").to_owned(), line["tables"].as_u64().expect("tables"))
    };
    lines.map(tables).collect()
}

#[test]
fn a_keyspace_that_is_not_there_is_told_by_whoever_works_on_one() {
    let temp = Temp::new();
    two(&temp);
    let csv = temp.file("rows.csv", "a,b\n1,2\n");
    for line in [
        "get a",
        "put a 2",
        "delete a",
        "scan",
        "count",
        "find a",
        "shell",
        "levels",
        "stats",
        "flush",
        "compact",
        "index list",
        "index create a",
        "index wait",
        "index drop a",
        &format!("load csv:{}", csv.display()),
    ] {
        let line: Vec<&str> = line.split(' ').chain(["--keyspace", "nowhere"]).collect();
        let ended = on(&temp.store(), &line);
        assert_eq!(ended.code, 4, "{line:?}: {ended:?}");
        assert!(ended.err.contains("there are default, people"), "{line:?}: {}", ended.err);
    }
}

#[test]
fn whoever_works_on_the_whole_store_refuses_one() {
    let temp = Temp::new();
    two(&temp);
    let before = fingerprint(&temp.store());
    let copy = temp.join("copy");
    for line in [
        "verify",
        "repair",
        "gc",
        "groups",
        "keyspaces list",
        "keyspaces create more",
        "keyspaces drop people",
        &format!("checkpoint {}", copy.display()),
    ] {
        let words: Vec<&str> = line.split(' ').chain(["--keyspace", "people"]).collect();
        let ended = on(&temp.store(), &words);
        assert_eq!(ended.code, 2, "{line}: {ended:?}");
        let said = "'--keyspace <NAME>' found: leave it out: this is for the whole store";
        assert!(ended.err.contains(said), "{line}: {}", ended.err);
        let words: Vec<&str> = line.split(' ').chain(["--help"]).collect();
        assert!(!on(&temp.store(), &words).good().contains("--keyspace"), "{line}");
    }
    assert!(!copy.exists());
    assert!(fingerprint(&temp.store()) == before, "the store is another");
}

#[test]
fn the_help_says_which_are_meant_without_one() {
    for (command, said) in [
        ("flush", "Only this keyspace [default: all]"),
        ("stats", "Only this keyspace [default: all]"),
        ("levels", "Only this keyspace [default: all]"),
        ("compact", "Keyspace to work on [default: default]"),
        ("scan", "Keyspace to work on [default: default]"),
    ] {
        assert!(esker(&[command, "-h"]).good().contains(said), "{command}");
    }
}

#[test]
fn one_keyspace_is_flushed_and_the_other_is_not() {
    let temp = Temp::new();
    two(&temp);
    let store = temp.store();
    let one = on(&store, &["flush", "--keyspace", "people"]);
    assert_eq!(one.good(), "flushed 2 records\n");
    assert_eq!(tables(&store), [("default".to_owned(), 0), ("people".to_owned(), 1)]);
    let all = on(&store, &["flush", "--json"]);
    assert_eq!(all.good(), "{\"ok\":true,\"records\":2}\n");
    assert_eq!(tables(&store), [("default".to_owned(), 1), ("people".to_owned(), 1)]);
    for keyspace in ["default", "people"] {
        assert_eq!(on(&store, &["count", "--keyspace", keyspace]).good(), "2\n");
    }
}

#[test]
fn figures_are_of_one_keyspace() {
    let temp = Temp::new();
    two(&temp);
    let store = temp.store();
    for keyspace in ["default", "people"] {
        on(&store, &["index", "create", "name", "--keyspace", keyspace]).good();
    }
    let names = |text: &str| -> Vec<String> {
        let rows = text.lines().filter_map(|line| line.strip_prefix("keyspace "));
        rows.map(|name| name.trim().to_owned()).collect()
    };
    assert_eq!(names(on(&store, &["stats"]).good()), ["default", "people"]);
    assert_eq!(names(on(&store, &["stats", "--keyspace", "people"]).good()), ["people"]);
    let all = on(&store, &["stats", "--json"]);
    let all: Value = serde_json::from_str(all.good()).expect("JSON");
    let one = on(&store, &["stats", "--json", "--keyspace", "people"]);
    let one: Value = serde_json::from_str(one.good()).expect("JSON");
    for (list, name) in [("keyspaces", "name"), ("indexes", "keyspace")] {
        assert_eq!(all[list].as_array().expect(list).len(), 2, "{all}");
        let [here] = one[list].as_array().expect(list).as_slice() else { panic!("{one}") };
        assert_eq!(here[name], "people", "{one}");
    }
    assert_eq!(one["disk"], all["disk"], "files are of all keyspaces");
}

/// Options of a keyspace are those it is created with, and of one that is not there a mistake.
#[test]
fn options_of_a_keyspace_are_for_one_that_is_there_or_is_created() {
    let own = "keyspaces={\"people\":{\"compression\":[\"none\"]}}";
    let rows: String = (0..5_000).map(|at| format!("{at},{}\n", "same ".repeat(20))).collect();
    let bytes = |store: &Path| {
        on(store, &["flush"]).good();
        let listed = on(store, &["keyspaces", "list", "--json"]);
        let people = listed.good().lines().find(|line| line.contains("people")).expect("a line");
        let people: Value = serde_json::from_str(people).expect("JSON");
        people["table_bytes"].as_u64().expect("bytes")
    };
    let mut taken = Vec::new();
    for (options, first) in
        [(&[][..], false), (&["--option", own], false), (&["--option", own], true)]
    {
        let temp = Temp::new();
        let store = temp.store();
        if !first {
            on(&store, &["put", "a", "1"]).good();
            on(&store, &[&["keyspaces", "create", "people"][..], options].concat()).good();
        }
        let load = ["load", "--keyspace", "people", "--quiet", "csv:-"];
        let given = [&load[..], options].concat();
        feed(&store, &given, format!("id,text\n{rows}").as_bytes()).good();
        on(&store, &[&["flush"][..], options].concat()).good();
        taken.push(bytes(&store));
        let mistaken = own.replace("people", "poeple");
        let ended = on(&store, &["compact", "--option", &mistaken]);
        assert_eq!(ended.code, 2, "{ended:?}");
        assert!(ended.err.contains("\"poeple\"") && ended.err.contains("people"), "{}", ended.err);
    }
    assert!(taken[1] > 5 * taken[0] && taken[2] > 5 * taken[0], "{taken:?}");
    // Nothing is left of a store that was to have a keyspace of another name.
    let temp = Temp::new();
    let load = ["load", "--keyspace", "poeple", "--option", own, "csv:-"];
    let ended = feed(&temp.store(), &load, b"id,n\n1,2\n");
    assert_eq!((ended.code, temp.store().exists()), (2, false), "{ended:?}");
}
