//! Options of both kinds, by name, and what is refused.

use super::*;
use crate::{PRESETS, table, typed};
use esker::{
    Compaction, Comparator, Compression, Durability, FilterPolicy, GroupPrefix, Scheduler,
    TimeSlice,
};
use std::cmp::Ordering;
use std::sync::Arc;

fn options(text: &str) -> Result<Options> {
    let mut options = Options::default();
    apply(&mut options, text).map(|()| options)
}

#[test]
fn options_of_both_kinds_are_set_by_name() {
    let options = options(
        "block_bytes=1KiB,preset=edge,memory_budget_bytes=32MiB,pinned_bytes_max=1MiB,\
         compression=none,zstd:7, filter = bloom:14,compaction=tiered,\
         scheduler={\"time-slice\":{\"slice_ms\":8000,\"release_share\":0.5}},create_if_missing=false",
    )
    .expect("good options");
    assert_eq!(options.memory_budget_bytes, 32 << 20);
    assert_eq!(options.pinned_bytes_max, Some(1 << 20));
    let keyspace = &options.default_keyspace;
    assert_eq!(keyspace.block_bytes, 4096, "of the preset, which begins anew");
    assert_eq!(keyspace.compression, [Compression::None, Compression::Zstd { level: 7 }]);
    assert!(matches!(keyspace.filter, Filter::Bloom { bits_per_key: 14 }));
    assert_eq!(keyspace.compaction, Compaction::Tiered);
    let slice = TimeSlice { slice_ms: Some(8_000), release_share: 0.5 };
    assert_eq!(keyspace.scheduler, Scheduler::TimeSlice(slice));
    assert_eq!(keyspace.memtable_bytes, 2 << 20, "of the preset");
    assert!(!options.create_if_missing);
}

/// Wherever it stands: all else before it begins anew.
#[test]
fn a_preset_leaves_what_may_be_created() {
    let text = "create_if_missing=false, error_if_exists =true,block_bytes=1KiB,preset=edge";
    let options = options(text).expect("good options");
    assert!(!options.create_if_missing && options.error_if_exists);
    assert_eq!(options.default_keyspace.block_bytes, 4096);
}

/// Brackets and quotes count where a value begins with one.
#[test]
fn a_delimiter_may_be_a_bracket_or_a_quote() {
    for byte in ["[", "]", "{", "}", "\""] {
        let groups = format!("groups=delimiter:{byte}");
        let both =
            [format!("durability=external,{groups}"), format!("{groups},durability=external")];
        for text in both {
            let options = options(&text).expect("good options");
            let expected = GroupPrefix::Delimiter { byte: byte.as_bytes()[0] };
            assert_eq!(options.default_keyspace.groups, Some(expected), "{text}");
            assert_eq!(options.durability, Durability::External, "{text}");
        }
    }
}

#[test]
fn wrong_options_are_refused_with_the_name_and_change_nothing() {
    for (text, part) in [
        ("speed=9", "use one of block_cache_bytes, "),
        ("speed=9", "memtable_bytes"),
        // Without a name it goes on with the value before it.
        ("block_bytes", "\"8,block_bytes\" is no value"),
        ("block_bytes=big", "block_bytes"),
        ("block_bytes=1", "outside 512"),
        ("block_bytes=-5", "block_bytes"),
        ("compression=[\"rar\"]", "compression"),
        ("filter=bloom:many", "filter"),
        ("compaction=flat", "compaction"),
        ("preset=fast", "fast"),
        ("scheduler=time-slice:0", "slice_ms"),
        ("create_if_missing=7", "create_if_missing"),
        ("durability=none", "option durability=none: unknown variant"),
        ("groups=7", "groups"),
        ("groups=fixed", "option groups: \"fixed\" is no value"),
        ("groups=fixed:0", "1 to 1024"),
        ("groups=fixed:many", "option groups: \"fixed:many\" is no value"),
        ("groups=delimiter:", "option groups: \"delimiter:\" is no value"),
        ("groups=delimiter:ab", "option groups: \"delimiter:ab\" is no value"),
        ("groups=delimiter:ü", "option groups: \"delimiter:ü\" is no value"),
        ("block_cache_bytes=fixed:3", "option block_cache_bytes=fixed:3"),
    ] {
        let mut options = Options::default();
        let error = apply(&mut options, &format!("restart_interval=8,{text}")).expect_err(text);
        assert!(error.to_string().contains(part), "{text}: {error}");
        assert_eq!(options.default_keyspace.restart_interval, 16, "{text}");
    }
    let error = options("block_bytes").expect_err("no value").to_string();
    assert!(error.contains("option block_bytes: write it as name=value"), "{error}");
}

#[test]
fn a_store_below_a_log_and_its_groups_are_set_by_name() {
    let byte = |byte| Some(GroupPrefix::Delimiter { byte });
    for (text, groups) in [
        ("groups=delimiter:/", byte(b'/')),
        ("groups=delimiter:7", byte(b'7')),
        ("groups=delimiter:=,block_bytes=4KiB", byte(b'=')),
        ("groups={\"delimiter\":{\"byte\":0}}", byte(0)),
        ("groups=fixed:4", Some(GroupPrefix::Fixed { bytes: 4 })),
        ("groups=fixed:4,groups=delimiter:/", byte(b'/')),
        ("groups=delimiter:/,groups=null", None),
        ("", None),
    ] {
        let options = options(&format!("{text},durability=external")).expect(text);
        assert_eq!(options.durability, Durability::External, "{text}");
        assert_eq!(options.default_keyspace.groups, groups, "{text}");
    }
    assert_eq!(options("durability=wal").expect("good").durability, Durability::Wal);
    let mut keyspace = KeyspaceOptions::default();
    apply_to_keyspace(&mut keyspace, "groups=delimiter:/").expect("good");
    assert_eq!(keyspace.groups, byte(b'/'));
}

#[test]
fn groups_are_shown_as_they_are_typed() {
    for byte in 0..=255u8 {
        let groups = Some(GroupPrefix::Delimiter { byte });
        let keyspace = KeyspaceOptions { groups, ..KeyspaceOptions::default() };
        let shown = typed("groups", &to_tree(&keyspace).expect("tree")["groups"]);
        if byte.is_ascii_alphanumeric() || byte == b'/' {
            assert_eq!(shown, format!("delimiter:{}", char::from(byte)));
        }
        let mut back = KeyspaceOptions::default();
        apply_to_keyspace(&mut back, &format!("groups={shown},restart_interval=8")).expect(&shown);
        assert_eq!((back.groups, back.restart_interval), (groups, 8), "{shown}");
    }
    let fixed = serde_json::json!({ "fixed": { "bytes": 4 } });
    assert_eq!(typed("groups", &fixed), "fixed:4");
}

#[test]
fn what_the_table_shows_can_be_typed() {
    for (preset, name) in PRESETS.iter().enumerate() {
        let shown: Vec<String> = table()
            .expect("table")
            .iter()
            .map(|(name, values)| format!("{name}={}", typed(name, &values[preset])))
            .collect();
        let back = to_tree(&options(&shown.join(",")).expect(name)).expect("tree");
        assert_eq!(back, to_tree(&Options::preset(name).expect(name)).expect("tree"));
    }
}

struct Own;

impl Comparator for Own {
    fn name(&self) -> &str {
        "test.own"
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        b.cmp(a)
    }
}

impl FilterPolicy for Own {
    fn name(&self) -> &str {
        "test.own"
    }

    fn build(&self, _: &[&[u8]]) -> Vec<u8> {
        Vec::new()
    }

    fn may_contain(&self, _: &[u8], _: &[u8]) -> bool {
        true
    }
}

#[test]
fn what_is_the_users_own_stays() {
    let mut keyspace = KeyspaceOptions {
        order: KeyOrder::Custom(Arc::new(Own)),
        filter: Filter::Custom(Arc::new(Own)),
        ..KeyspaceOptions::default()
    };
    let keyspaces = [("other".to_owned(), keyspace.clone())].into();
    let mut options =
        Options { default_keyspace: keyspace.clone(), keyspaces, ..Options::default() };
    options.create_if_missing = false;
    apply(&mut options, "preset=edge,block_bytes=8KiB").expect("good");
    assert_eq!(options.memory_budget_bytes, Options::edge().memory_budget_bytes);
    assert!(!options.create_if_missing);
    let other = &options.keyspaces["other"];
    for changed in [&options.default_keyspace, other] {
        assert_eq!(changed.order.name(), "test.own");
        assert!(matches!(changed.filter, Filter::Custom(_)));
    }
    assert_eq!((options.default_keyspace.block_bytes, other.block_bytes), (8192, 4096));
    apply_to_keyspace(&mut keyspace, "filter=none").expect("good");
    assert!(matches!(keyspace.filter, Filter::None));
    assert_eq!(keyspace.order.name(), "test.own");
    let error = apply_to_keyspace(&mut keyspace, "wal_bytes_max=1GiB").expect_err("a store's");
    assert!(error.to_string().contains("no option"), "{error}");
}
