//! The rows on records of fields: loading them, indexes, finding. What there is in each directory
//! stands in `table`.

use super::table::{Case, Kept, held, keeping, plain};

pub(super) const LOADS: &[Case] = &[
    plain(
        "LevelDB values are no records",
        "esker load --db new --values fields leveldb:leveldb",
        2,
    ),
    plain("types for what has its own", "esker load --db new --type a=integer jsonl:file", 2),
    plain(
        "types for JSON text",
        "esker load --db new --values json --type id=integer csv:rows.csv",
        2,
    ),
    plain("no such type", "esker load --db new --type id=number csv:rows.csv", 2),
    plain("no type", "esker load --db new --type id csv:rows.csv", 2),
    plain("the type of no column", "esker load --db new --type nr=integer csv:rows.csv", 2),
    plain(
        "two types for a column",
        "esker load --db new --type id=text --type id=integer csv:rows.csv",
        2,
    ),
    plain(
        "an index over JSON text",
        "esker load --db new --values json --index id csv:rows.csv",
        2,
    ),
    plain("no name of a field", "esker load --db new --index '' csv:rows.csv", 2),
    plain("a column without a name", "printf 'a,\\n1,2\\n' | esker load --db new csv:-", 1),
    keeping(
        Kept::New(1),
        "a cell is not of its type",
        "printf 'a,b\\n1,2\\n2,x\\n3,4\\n' | esker load --db new --type b=integer csv:-",
        1,
    ),
    keeping(
        Kept::New(1),
        "a cell is beyond a float",
        "printf 'a,b\\n1,2\\n2,1e999\\n3,4\\n' | esker load --db new --type b=float csv:-",
        1,
    ),
    keeping(
        Kept::New(1),
        "a line is no object",
        "printf '{}\\n[1]\\n{}\\n' | esker load --db new jsonl:-",
        1,
    ),
    keeping(
        Kept::New(1),
        "a field stands twice",
        "printf '{}\\n{\"a\":1,\"a\":1}\\n{}\\n' | esker load --db new jsonl:-",
        1,
    ),
    keeping(
        Kept::New(1),
        "a field without a name",
        "printf '{}\\n{\"\":1}\\n{}\\n' | esker load --db new jsonl:-",
        1,
    ),
    keeping(
        Kept::New(1),
        "an integer of more than 64 bits",
        "printf '{}\\n{\"a\":9223372036854775808}\\n{}\\n' | esker load --db new jsonl:-",
        1,
    ),
    keeping(
        Kept::New(1),
        "a number beyond a float",
        "printf '{}\\n{\"a\":-1e999}\\n{}\\n' | esker load --db new jsonl:-",
        1,
    ),
    keeping(
        Kept::New(0),
        "a value is too long for its index",
        "(printf '{\"a\":\"'; head -c 1048577 /dev/zero | tr '\\0' x; printf '\"}') | esker load --db new --index a jsonl:-",
        1,
    ),
];

pub(super) const INDEXES: &[Case] = &[
    plain("there is no store", "esker index create --db gone price", 4),
    plain("no such keyspace", "esker index list --db unbuilt --keyspace people", 4),
    plain("there is one already", "esker index create --db unbuilt price", 2),
    plain("the name is empty", "esker index create --db store ''", 2),
    plain("there is none", "esker index drop --db store price", 4),
    plain("there is none", "esker index wait --db store price", 4),
    plain("nothing to do: no failure", "esker index wait --db store", 0),
    keeping(
        Kept::New(1),
        "a value is too long for an index",
        "(printf '{\"a\":\"'; head -c 1048577 /dev/zero | tr '\\0' x; printf '\"}') | esker load --quiet --db new jsonl:- > /dev/null; esker index create --db new a",
        1,
    ),
    held("esker index list --db store"),
    held("esker index create --db store price"),
];

pub(super) const FINDS: &[Case] = &[
    plain("there is no index", "esker find --db store price 1", 4),
    plain("the index is not ready", "esker find --db unbuilt price 1", 1),
    plain("the index is ready: no failure", "esker find --db unbuilt name ann > /dev/null", 0),
    plain(
        "it is not ready, all is read: no failure",
        "esker find --db unbuilt --scan price 1 > /dev/null",
        0,
    ),
    plain("nothing is found: no failure", "esker find --db unbuilt name bob", 0),
    plain("no field", "esker find --db store", 2),
    plain("no name of a field", "esker find --db store ''", 2),
    plain("no value of the type", "esker find --db unbuilt --type integer name ann", 2),
    plain("no value of the type", "esker find --db unbuilt --type float name --from 1 --to x", 2),
    plain("no such type", "esker find --db unbuilt --type number name 1", 2),
    plain("the range ends before it starts", "esker find --db unbuilt name --from b --to a", 2),
    plain("a value and a range", "esker find --db unbuilt name ann --from a", 2),
    plain("a number of keys", "esker find --db unbuilt name ann --count --keys", 2),
    plain("no hexadecimal digits", "esker find --db unbuilt --encoding hex name ann", 2),
    plain("a line of the shell", "echo find price 1 | esker shell --db store", 4),
    held("esker find --db store price 1"),
];
