//! The rows: what is wrong, the line for the shell, the exit code, and what must be left.
//!
//! In each directory there are `store` (keys `k1` to `k3` in a table, `k4` in a log; `k3` is
//! large), `empty`, `foreign` with a file that is not ours, `backwards` (a store in another key
//! order), `leveldb` (a LevelDB store), the empty file `file`, `rows.csv`, and `unbuilt`, a store
//! whose index of `name` is ready and whose index of `price` is not.

use super::fields;

/// A row.
pub(super) struct Case {
    /// In words.
    pub(super) wrong: &'static str,
    pub(super) world: World,
    /// Lines for the shell that damage something first.
    pub(super) before: &'static str,
    pub(super) run: &'static str,
    pub(super) code: i32,
    pub(super) kept: Kept,
}

/// Where a line is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum World {
    Plain,
    /// Another process has `store` open.
    Held,
    /// On a disk without a free byte.
    FullDisk,
    /// `store` is on a disk that is mounted read-only.
    ReadOnlyDisk,
    /// By somebody who may not look into `locked`, where a copy of `store` is.
    Stranger,
}

/// What there must be afterwards.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kept {
    /// The store as it was, and nothing new.
    Store,
    /// The store with these keys more.
    More(&'static [&'static str]),
    /// The store as it was, and a store `new` with so many records.
    New(u64),
    /// What could be read, and the rest in `lost`.
    Salvaged,
}

pub(super) const fn plain(wrong: &'static str, run: &'static str, code: i32) -> Case {
    Case { wrong, world: World::Plain, before: "", run, code, kept: Kept::Store }
}

const fn within(world: World, wrong: &'static str, run: &'static str, code: i32) -> Case {
    Case { world, ..plain(wrong, run, code) }
}

const fn after(before: &'static str, wrong: &'static str, run: &'static str, code: i32) -> Case {
    Case { before, ..plain(wrong, run, code) }
}

pub(super) const fn keeping(kept: Kept, wrong: &'static str, run: &'static str, code: i32) -> Case {
    Case { kept, ..plain(wrong, run, code) }
}

const fn full(run: &'static str) -> Case {
    within(World::FullDisk, "no free byte on the disk", run, 6)
}

const fn read_only(run: &'static str) -> Case {
    within(World::ReadOnlyDisk, "the disk is mounted read-only", run, 1)
}

pub(super) const fn held(run: &'static str) -> Case {
    within(World::Held, "another process has the store open", run, 5)
}

const FLIP_TABLE: &str = "printf '\\125' | dd of=store/000004.tbl bs=1 seek=100 conv=notrunc";
const FLIP_LOG: &str = "printf '\\377' | dd of=store/000003.wal bs=1 seek=50 conv=notrunc";
const FLIP_MANIFEST: &str =
    "printf '\\377' | dd of=store/MANIFEST-000001 bs=1 seek=80 conv=notrunc";
const FLIP_CURRENT: &str = "printf '\\377' | dd of=store/CURRENT bs=1 seek=3 conv=notrunc";
const CUT_TABLE: &str = "truncate -s -1 store/000004.tbl";
const CUT_LOG: &str = "truncate -s 50 store/000003.wal";
const CUT_MANIFEST: &str = "truncate -s 150 store/MANIFEST-000001";
const NO_TABLE: &str = "rm store/000004.tbl";
const NO_LOG: &str = "rm store/000003.wal";
const NO_MANIFEST: &str = "rm store/MANIFEST-000001";
const NO_CURRENT: &str = "rm store/CURRENT";

/// All rows.
pub(super) const SECTIONS: &[(&str, &[Case])] = &[
    ("The command line", CALLS),
    ("Options of the engine", OPTIONS),
    ("Which store", STORES),
    ("Keys, values, ranges, keyspaces", KEYS),
    ("`load`", LOADS),
    ("`load`: records of fields", fields::LOADS),
    ("`index`", fields::INDEXES),
    ("`find`", fields::FINDS),
    ("`shell`", SHELLS),
    ("`checkpoint`, `dump`, `repair`, `tour`", TOOLS),
    ("Damage", DAMAGE),
    ("Held, full, read-only, not allowed", REFUSED),
    ("Output and signals", ENDS),
];

const CALLS: &[Case] = &[
    plain("no such command", "esker gett k1 --db store", 2),
    plain("no store named", "esker get k1", 2),
    plain("the store's name is empty", "esker get k1 --db ''", 2),
    plain("an argument is missing", "esker get --db store", 2),
    plain("an argument is missing", "esker put --db store k5", 2),
    plain("an argument too many", "esker get --db store k1 k2", 2),
    plain("no such option", "esker get --db store --fast k1", 2),
    plain("no such encoding", "esker get --db store --encoding base64 k1", 2),
    plain("no number", "esker scan --db store --limit many", 2),
    plain("a negative number", "esker scan --db store --limit -1", 2),
    plain("too large a number", "esker scan --db store --limit 99999999999999999999", 2),
    plain("two that exclude each other", "esker scan --db store --keys-only --values", 2),
    plain("two that exclude each other", "esker put --db store k5 v --file rows.csv", 2),
    plain("nothing to delete", "esker delete --db store", 2),
    plain("no such shell", "esker completions basic", 2),
    plain("no such manual page", "esker man gett", 2),
    plain("no size", "esker simulate --size much", 2),
    plain("no order of keys", "esker simulate --keys out:none", 2),
    plain("settings that do not fit", "esker simulate --with tiered_runs=1", 2),
    plain("memory for one memtable", "esker simulate --option memtables_bytes_max=64MiB", 2),
    plain("a record longer than a memtable", "esker simulate --record 65MiB", 2),
    plain("no such trace", "esker replay nothing.trace", 4),
    plain("no trace but a directory", "esker replay empty", 2),
    plain("no trace in it", "esker replay file", 3),
    plain("no trace in it", "esker replay rows.csv", 3),
    plain("no such trace", "esker watch nothing.trace", 4),
    plain("no trace in it", "esker watch rows.csv", 3),
    plain("no speed", "esker watch rows.csv --speed 0", 2),
];

const OPTIONS: &[Case] = &[
    plain("no such preset", "esker get --db store --preset fast k1", 2),
    plain("no `=`", "esker get --db store --option block_bytes k1", 2),
    plain("below its range", "esker get --db store --option block_bytes=1 k1", 2),
    plain("above its range", "esker get --db store --option block_bytes=2MiB k1", 2),
    plain("negative", "esker get --db store --option block_bytes=-1 k1", 2),
    plain("a fraction", "esker get --db store --option level_fanout=2.5 k1", 2),
    plain("no number", "esker get --db store --option block_bytes=big k1", 2),
    plain(
        "larger than 64 bits",
        "esker get --db store --option wal_bytes_max=99999999999TiB k1",
        2,
    ),
    plain("no truth value", "esker get --db store --option create_if_missing=maybe k1", 2),
    plain("no such compression", "esker get --db store --option compression=rar k1", 2),
    plain("no such level of it", "esker get --db store --option compression=zstd:99 k1", 2),
    plain("no such filter", "esker get --db store --option filter=bloom:0 k1", 2),
    plain("no such shape", "esker get --db store --option compaction=flat k1", 2),
    plain("no such schedule", "esker get --db store --option scheduler=fair k1", 2),
    plain("no such slice", "esker get --db store --option scheduler=time-slice:0 k1", 2),
    plain("two options that do not fit", "esker get --db store --option level0_runs_slow=2 k1", 2),
    plain(
        "two options that do not fit",
        "esker get --db store --option memtables_bytes_max=1GiB k1",
        2,
    ),
    plain("must not exist, and does", "esker put --db store --option error_if_exists=true k5 v", 2),
    plain(
        "must exist, and does not",
        "esker put --db new --option create_if_missing=false k5 v",
        4,
    ),
];

const STORES: &[Case] = &[
    plain("there is nothing", "esker get --db gone k1", 4),
    plain("there is nothing", "esker delete --db gone k1", 4),
    plain("there is nothing", "esker keyspaces create --db gone people", 4),
    plain("there is nothing", "esker repair --db gone", 4),
    plain("the directory is empty", "esker verify --db empty", 4),
    plain("the directory is empty", "esker repair --db empty", 4),
    plain("the directory is somebody else's", "esker get --db foreign k1", 4),
    plain("the directory is somebody else's", "esker put --db foreign k1 v", 2),
    plain("the directory is somebody else's", "esker load --db foreign csv:rows.csv", 2),
    plain("the directory is somebody else's", "esker repair --db foreign", 4),
    plain("a file is in its place", "esker get --db file k1", 4),
    plain("a file is in its place", "esker put --db file k1 v", 2),
    plain("a file is in its place", "esker repair --db file", 4),
    plain("a part of the path is a file", "esker get --db file/store k1", 4),
    plain("a part of the path is a file", "esker put --db file/store k1 v", 2),
    plain("written in another key order", "esker get --db backwards a", 1),
    plain("written in another key order", "esker put --db backwards a 2", 1),
    plain("written in another key order", "esker repair --db backwards", 1),
    plain("a LevelDB store", "esker get --db leveldb a", 4),
    plain("a LevelDB store", "esker put --db leveldb a 1", 4),
    plain("a LevelDB store", "esker repair --db leveldb", 4),
];

const KEYS: &[Case] = &[
    plain("the key is not there", "esker get --db store k9", 4),
    plain("the key is not there", "esker delete --db store --must-exist k9", 4),
    plain("the key is not there: no failure", "esker delete --db store k9", 0),
    plain("the keyspace is not there", "esker get --db store --keyspace people k1", 4),
    plain("the keyspace is not there", "esker put --db store --keyspace people k1 v", 4),
    plain("the keyspace is not there", "esker flush --db store --keyspace people", 4),
    plain("a keyspace of the whole store", "esker verify --db store --keyspace default", 2),
    plain("a keyspace of the whole store", "esker checkpoint --db store new --keyspace default", 2),
    plain("the keyspace is not there", "esker keyspaces drop --db store people", 4),
    plain("the keyspace is there", "esker keyspaces create --db store default", 2),
    plain("the default keyspace", "esker keyspaces drop --db store default", 2),
    plain("a keyspace without a name", "esker keyspaces create --db store ''", 2),
    plain("a line break in its name", "esker keyspaces create --db store \"$(printf 'a\\nb')\"", 2),
    plain("a name of 256 bytes", "esker keyspaces create --db store \"$(printf '%0256d' 1)\"", 2),
    plain("a name of 256 bytes", "esker put --db new --keyspace \"$(printf '%0256d' 1)\" k v", 2),
    plain("half a byte", "esker get --db store --encoding hex abc", 2),
    plain("no hexadecimal digit", "esker put --db store --encoding hex 0g 00", 2),
    plain("an unknown escape", "esker put --db store --encoding escaped k5 '\\q'", 2),
    plain("half an escape", "esker get --db store --encoding escaped '\\x1'", 2),
    plain("the range ends before it starts", "esker scan --db store --from b --to a", 2),
    plain("the range ends before it starts", "esker delete --db store --from b --to a", 2),
    plain("the range ends before it starts", "esker compact --db store --from b --to a", 2),
    plain("the range has no end", "esker delete --db store --from a", 2),
    plain("a prefix of everything", "esker delete --db store --prefix=", 2),
    plain("the file of the value is not there", "esker put --db store k5 --file gone", 4),
    plain("the file of the value is a directory", "esker put --db store k5 --file empty", 2),
    plain("the value is longer than 1 GiB", "esker put --db store k5 --file /dev/zero", 2),
];

const LOADS: &[Case] = &[
    plain("no kind of source", "esker load --db new rows.csv", 2),
    plain("no such kind", "esker load --db new xml:rows.csv", 2),
    plain("no path", "esker load --db new csv:", 2),
    plain("the source is not there", "esker load --db new csv:gone", 4),
    plain("the source is not there", "esker load --db new jsonl:gone", 4),
    plain("the source is not there", "esker load --db new files:gone", 4),
    plain("the source is not there", "esker load --db new leveldb:gone", 4),
    plain("a part of the path is a file", "esker load --db new csv:file/rows.csv", 4),
    plain("a directory, not a file", "esker load --db new csv:empty", 2),
    plain("a file, not a directory", "esker load --db new files:rows.csv", 2),
    plain("no LevelDB store", "esker load --db new leveldb:empty", 4),
    plain("an Esker store", "esker load --db new leveldb:store", 4),
    after(
        "printf x >> leveldb/CURRENT",
        "a damaged LevelDB store",
        "esker load --db new leveldb:leveldb",
        3,
    ),
    plain("no such column", "esker load --db new --key nr csv:rows.csv", 2),
    plain("two characters between columns", "esker load --db new --delimiter ab csv:rows.csv", 2),
    plain("a column stands twice", "printf 'a,a\\n1,2\\n' | esker load --db new csv:-", 1),
    plain(
        "a column's name is not UTF-8",
        "printf 'a,\\377\\n1,2\\n' | esker load --db new csv:-",
        1,
    ),
    keeping(
        Kept::New(1),
        "a row is too short",
        "printf 'a,b\\n1,2\\n3\\n4,5\\n' | esker load --db new csv:-",
        1,
    ),
    keeping(
        Kept::New(1),
        "a field is not UTF-8",
        "printf 'a,b\\n1,2\\n3,\\377\\n4,5\\n' | esker load --db new csv:-",
        1,
    ),
    keeping(
        Kept::New(2),
        "bad rows are left out: no failure",
        "printf 'a,b\\n1,2\\n3\\n4,5\\n' | esker load --db new --skip-bad csv:- 2> /dev/null > /dev/null",
        0,
    ),
    keeping(
        Kept::New(1),
        "a line is no JSON",
        "printf '{\"a\":1}\\n{\"a\":\\n{}\\n' | esker load --db new jsonl:-",
        1,
    ),
    keeping(
        Kept::New(1),
        "a line is not UTF-8",
        "printf '{}\\n\"\\377\"\\n' | esker load --db new jsonl:-",
        1,
    ),
    keeping(
        Kept::New(1),
        "the field of the key is missing",
        "printf '{\"id\":1}\\n{}\\n' | esker load --db new --key id jsonl:-",
        1,
    ),
    keeping(
        Kept::New(0),
        "the field of the key is a list",
        "printf '{\"id\":[1]}\\n' | esker load --db new --key id jsonl:-",
        1,
    ),
    keeping(
        Kept::New(1),
        "a key is longer than 1 MiB",
        "(printf 'k\\na\\n'; head -c 1048577 /dev/zero | tr '\\0' k) | esker load --db new csv:-",
        1,
    ),
    keeping(
        Kept::New(1),
        "a key is longer than 1 MiB",
        "(printf 'k\\na\\n'; head -c 1048577 /dev/zero | tr '\\0' k) | esker load --db new --bulk csv:-",
        1,
    ),
    plain("the keyspace is not there", "esker load --db store --keyspace people csv:rows.csv", 4),
    keeping(
        Kept::More(&["1", "2"]),
        "nothing is wrong",
        "esker load --db store csv:rows.csv > /dev/null 2> /dev/null",
        0,
    ),
];

const SHELLS: &[Case] = &[
    plain("no such command", "echo gett k1 | esker shell --db store", 2),
    plain("an argument is missing", "echo put k5 | esker shell --db store", 2),
    plain("a quote is not closed", "echo \"put 'k5 v\" | esker shell --db store", 2),
    plain("an unknown escape", "echo 'get \"\\q\"' | esker shell --db store", 2),
    plain(
        "the range ends before it starts",
        "echo count --from b --to a | esker shell --db store",
        2,
    ),
    keeping(
        Kept::More(&["k5"]),
        "lines before the mistake have taken effect",
        "printf 'put k5 v\\nput k6\\nput k7 v\\n' | esker shell --db store",
        2,
    ),
    plain("opened for reading only", "echo put k5 v | esker shell --db store --read-only", 1),
    plain("opened for reading only", "echo flush | esker shell --db store --read-only", 1),
    plain(
        "a key is longer than 1 MiB",
        "(printf 'put '; head -c 1048577 /dev/zero | tr '\\0' k; echo ' v') | esker shell --db store",
        2,
    ),
];

const TOOLS: &[Case] = &[
    plain("the copy's directory is there", "esker checkpoint --db store empty", 2),
    plain("the copy would be inside of the store", "esker checkpoint --db store store/copy", 2),
    plain("the copy would be the store", "esker checkpoint --db store empty/../store", 2),
    after(
        "ln -s ../store empty/link",
        "the copy would be inside of the store, by a link",
        "esker checkpoint --db store empty/link/new/copy",
        2,
    ),
    plain("a part of the copy's path is a file", "esker checkpoint --db store file/copy", 2),
    plain("no file of a store", "esker dump rows.csv", 2),
    plain("no file of a store", "esker dump store", 2),
    plain("the file is not there", "esker dump gone.wal", 4),
    after("mkdir 0.wal", "a directory", "esker dump 0.wal", 2),
    plain("no salt", "esker dump --salt zz store/CURRENT", 2),
    plain("of another key order", "esker dump backwards/000004.tbl > /dev/null", 1),
    after(FLIP_TABLE, "a damaged table", "esker dump store/000004.tbl > /dev/null", 3),
    after(FLIP_LOG, "a damaged log", "esker dump store/000003.wal > /dev/null", 3),
    after(FLIP_CURRENT, "a damaged CURRENT", "esker dump store/CURRENT > /dev/null", 3),
    plain("a file is in the place of the stores", "esker tour --db file", 2),
    plain("the directory is somebody else's", "esker tour --db foreign", 2),
    plain("a store is there already", "esker tour --db store", 2),
    plain("the source is not there", "esker tour --source gone", 4),
];

const DAMAGE: &[Case] = &[
    after(FLIP_TABLE, "a byte of a table is wrong", "esker verify --db store > /dev/null", 3),
    after(FLIP_TABLE, "a byte of a table is wrong", "esker scan --db store > /dev/null", 3),
    after(FLIP_TABLE, "a byte of a table is wrong", "esker get --db store k3", 3),
    after(
        FLIP_TABLE,
        "a byte of a table is wrong, elsewhere: no failure",
        "esker get --db store k4 > /dev/null",
        0,
    ),
    after(FLIP_TABLE, "a byte of a table is wrong", "esker compact --db store", 3),
    after(FLIP_LOG, "a byte of a log is wrong", "esker verify --db store", 3),
    after(FLIP_LOG, "a byte of a log is wrong", "esker get --db store k1", 3),
    after(FLIP_LOG, "a byte of a log is wrong", "esker put --db store k5 v", 3),
    after(FLIP_MANIFEST, "a byte of the manifest is wrong", "esker verify --db store", 3),
    after(FLIP_MANIFEST, "a byte of the manifest is wrong", "esker put --db store k5 v", 3),
    after(FLIP_CURRENT, "a byte of CURRENT is wrong", "esker verify --db store", 3),
    after(FLIP_CURRENT, "a byte of CURRENT is wrong", "esker put --db store k5 v", 3),
    after(CUT_TABLE, "a table is too short", "esker get --db store k1", 3),
    after(CUT_LOG, "a log is too short", "esker get --db store k1", 3),
    after(CUT_LOG, "a log is too short", "esker put --db store k5 v", 3),
    after(CUT_MANIFEST, "the manifest is too short", "esker get --db store k1", 3),
    after(CUT_MANIFEST, "the manifest is too short", "esker put --db store k5 v", 3),
    after(NO_TABLE, "a table is missing", "esker get --db store k4", 3),
    after(NO_TABLE, "a table is missing", "esker put --db store k5 v", 3),
    after(NO_LOG, "a log is missing", "esker get --db store k1", 3),
    after(NO_MANIFEST, "the manifest is missing", "esker get --db store k1", 3),
    after(NO_CURRENT, "CURRENT is missing", "esker get --db store k1", 3),
    after(NO_CURRENT, "CURRENT is missing", "esker put --db store k5 v", 3),
    Case {
        kept: Kept::Salvaged,
        ..after(FLIP_TABLE, "a byte of a table is wrong", "esker repair --db store > /dev/null", 3)
    },
    Case {
        kept: Kept::Salvaged,
        ..after(FLIP_LOG, "a byte of a log is wrong", "esker repair --db store > /dev/null", 3)
    },
    after(
        NO_CURRENT,
        "only CURRENT is missing: no failure",
        "esker repair --db store > /dev/null",
        0,
    ),
    plain("nothing is wrong: no failure", "esker repair --db store > /dev/null", 0),
];

const REFUSED: &[Case] = &[
    held("esker get --db store k1"),
    held("esker scan --db store"),
    held("esker put --db store k5 v"),
    held("esker load --db store csv:rows.csv"),
    held("esker verify --db store"),
    held("esker repair --db store"),
    held("esker checkpoint --db store copy"),
    held("esker shell --db store"),
    full("esker put --db store k5 v"),
    full("esker delete --db store k1"),
    full("esker flush --db store"),
    full("esker compact --db store"),
    full("esker keyspaces create --db store people"),
    full("esker load --db store csv:../rows.csv"),
    full("esker checkpoint --db store copy"),
    full("esker repair --db store"),
    full("esker put --db new k v"),
    within(
        World::FullDisk,
        "no free byte, only read: no failure",
        "esker count --db store > /dev/null",
        0,
    ),
    read_only("esker put --db store k5 v"),
    read_only("esker delete --db store k1"),
    read_only("esker flush --db store"),
    read_only("esker load --db store csv:rows.csv"),
    read_only("esker repair --db store"),
    within(
        World::ReadOnlyDisk,
        "read-only, only read: no failure",
        "esker verify --db store > /dev/null",
        0,
    ),
    within(
        World::Stranger,
        "no right to look into the directory",
        "esker get --db locked/store k1",
        1,
    ),
    within(
        World::Stranger,
        "no right to look into the directory",
        "esker put --db locked/store k5 v",
        1,
    ),
    within(
        World::Stranger,
        "no right to look into the directory",
        "esker put --db locked/new k5 v",
        1,
    ),
    Case {
        before: "mkdir blind; chmod 733 blind",
        ..within(
            World::Stranger,
            "no right to list the directory above",
            "esker put --db blind/new k5 v",
            1,
        )
    },
    Case {
        before: "mkdir -p blind/there; chmod 777 blind/there; chmod 733 blind",
        ..within(
            World::Stranger,
            "no right to list the directory above one that is there: no failure",
            "esker put --db blind/there k5 v && esker get --db blind/there k5 > /dev/null",
            0,
        )
    },
    within(
        World::Stranger,
        "no right to read the source",
        "esker load --db new csv:locked/store/CURRENT",
        1,
    ),
];

const ENDS: &[Case] = &[
    plain("the output does not fit on its disk", "esker scan --db store > /dev/full", 6),
    plain("the output does not fit on its disk", "esker get --db store k1 > /dev/full", 6),
    plain("the output does not fit on its disk", "esker stats --db store > /dev/full", 6),
    after(
        FLIP_TABLE,
        "the reader of the pipe is gone, and there is damage",
        "(esker verify --quiet --db store; echo $? > code) | true; exit $(cat code)",
        3,
    ),
    plain(
        "the reader of the pipe is gone: no failure",
        "(esker scan --db store; echo $? > code) | true; exit $(cat code)",
        0,
    ),
    plain(
        "the reader of the pipe is gone: no failure",
        "(esker completions zsh; echo $? > code) | true; exit $(cat code)",
        0,
    ),
    keeping(
        Kept::New(1),
        "Ctrl-C while it waits for more",
        "(echo '{\"a\":1}'; exec sleep 4) | timeout --foreground --preserve-status -s INT 2 esker load --quiet --db new jsonl:-",
        130,
    ),
];
