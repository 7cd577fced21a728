//! The tour, on a small directory.

use crate::support::{Temp, esker, on};
use std::fs;
use std::path::Path;

#[test]
fn a_small_tour_passes_and_leaves_nothing() {
    let temp = Temp::new();
    let source = Path::new(env!("CARGO_MANIFEST_DIR"));
    let source = source.to_str().expect("path");
    let stores = temp.join("stores");
    let dir = stores.to_str().expect("path");
    let ended = esker(&["tour", "--db", dir, "--source", source]);
    let text = ended.good();
    for part in
        ["1  Load", "SIGKILL", "3  Index", "7  Summary", "0 failed", "write amplification", "L0 "]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!text.contains("FAILED"), "{text}");
    assert!(text.is_ascii(), "{text}");
    let paths_aside = text.replace(source, "");
    assert!(paths_aside.lines().all(|line| line.chars().count() <= 100), "{text}");
    assert!(!stores.exists(), "the stores are gone");
}

#[test]
fn kept_stores_can_be_looked_at() {
    let temp = Temp::new();
    let empty = temp.join("empty");
    fs::create_dir(&empty).expect("directory");
    let stores = temp.join("stores");
    let (dir, source) = (stores.to_str().expect("path"), empty.to_str().expect("path"));
    let ended = esker(&["tour", "--db", dir, "--source", source, "--keep", "--json"]);
    let line = ended.good();
    assert_eq!(line.lines().count(), 1, "{line}");
    for part in ["\"loaded\":0", "\"kills\":3", "\"failed\":0"] {
        assert!(line.contains(part), "{part}: {line}");
    }
    let count = on(&stores.join("crash"), &["count"]);
    let count: u64 = count.good().trim().parse().expect("number");
    assert!(line.contains(&format!("\"came_back\":{count}")), "{count}: {line}");
    let again = esker(&["tour", "--db", dir, "--source", source]);
    assert_eq!(again.code, 2, "{again:?}");
    on(&stores.join("files"), &["verify"]).good();
}
