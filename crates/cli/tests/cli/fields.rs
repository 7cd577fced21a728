//! Records of fields: what sources make of them, and how they are shown.

use crate::support::{Temp, feed, on, source};
use serde_json::Value;

/// Loads text from standard input into a new store; returns exit code, message, and the records.
fn load(kind: &str, args: &str, text: &[u8]) -> (i32, String, String) {
    let temp = Temp::new();
    let mut line = vec!["load", kind];
    line.extend(args.split_whitespace());
    let ended = feed(&temp.store(), &line, text);
    let held = on(&temp.store(), &["scan"]);
    // A load that fails before the first record makes no store.
    (ended.code, ended.err, held.text().to_owned())
}

#[test]
fn csv_rows_become_records() {
    for (args, text, expected) in [
        ("", "n,id\n1,ann\n", "1\t{\"id\":\"ann\",\"n\":\"1\"}\n"),
        (
            "--type n=integer --type f=float --type b=boolean --type t=text",
            "id,n,f,b,t\n1,-7,1,TRUE,\n2,,,,\n3,+7,1e300,false,07\n",
            "1\t{\"b\":true,\"f\":1.0,\"id\":\"1\",\"n\":-7,\"t\":\"\"}\n\
             2\t{\"b\":null,\"f\":null,\"id\":\"2\",\"n\":null,\"t\":\"\"}\n\
             3\t{\"b\":false,\"f\":1e+300,\"id\":\"3\",\"n\":7,\"t\":\"07\"}\n",
        ),
        (
            "--type f=float",
            "id,f\n1,NaN\n2,inf\n3,-inf\n4,-0.0\n",
            "1\t{\"f\":\"NaN\",\"id\":\"1\"}\n2\t{\"f\":\"inf\",\"id\":\"2\"}\n\
             3\t{\"f\":\"-inf\",\"id\":\"3\"}\n4\t{\"f\":0.0,\"id\":\"4\"}\n",
        ),
        ("--type a=b=integer", "id,a=b\n1,2\n", "1\t{\"a=b\":2,\"id\":\"1\"}\n"),
        ("--type id=integer", "id\n007\n", "007\t{\"id\":7}\n"),
        ("--key n --type n=integer", "id,n\nx,5\n", "5\t{\"id\":\"x\",\"n\":5}\n"),
        ("--type id=integer", "", ""),
        ("--values json", "n,id\n1,ann\n", "1\t{\"n\":\"1\",\"id\":\"ann\"}\n"),
    ] {
        for bulk in ["", " --bulk"] {
            let (code, err, held) = load("csv:-", &format!("{args}{bulk}"), text.as_bytes());
            assert_eq!((code, held.as_str()), (0, expected), "{text:?} {args}{bulk}: {err}");
        }
    }
}

#[test]
fn json_lines_become_records() {
    for (args, text, expected) in [
        (
            "",
            "{\"b\":1,\"a\":\"x\",\"c\":true,\"d\":null,\"e\":1.0,\"f\":-0.5e1,\"g\":[1, {\"h\":2}],\"i\":{}}\n",
            "000000000001\t{\"a\":\"x\",\"b\":1,\"c\":true,\"d\":null,\"e\":1.0,\"f\":-5.0,\
             \"g\":\"[1, {\\\"h\\\":2}]\",\"i\":\"{}\"}\n",
        ),
        (
            "--key a",
            "{\"a\":9223372036854775807}\n",
            "9223372036854775807\t{\"a\":9223372036854775807}\n",
        ),
        ("", "\n {}\t\n", "000000000002\t{}\n"),
        ("", "{\"\\u00e9\":\"\\u00e9\\n\"}\n", "000000000001\t{\"é\":\"é\\n\"}\n"),
        // What is shown on a terminal does nothing there, and is JSON all the same.
        (
            "",
            "{\"a\":\"\u{9b}\u{202e}\\u001b\"}\n",
            "000000000001\t{\"a\":\"\\u009b\\u202e\\u001b\"}\n",
        ),
    ] {
        for bulk in ["", " --bulk"] {
            let (code, err, held) = load("jsonl:-", &format!("{args}{bulk}"), text.as_bytes());
            assert_eq!((code, held.as_str()), (0, expected), "{text:?} {args}{bulk}: {err}");
        }
    }
}

#[test]
fn bad_rows_are_left_out_and_told() {
    let long = "n".repeat(256);
    let text = format!(
        "{{\"a\":1}}\n[]\n7\n{{\"a\":1,\"a\":2}}\n{{\"\":1}}\n{{\"{long}\":1}}\n{{\"a\":1e400}}\n\
         {{\"a\":-9223372036854775809}}\n{{\"a\":\"\\ud800\"}}\n{{\"a\":2}}\n"
    );
    let (code, err, held) = load("jsonl:-", "--skip-bad", text.as_bytes());
    assert_eq!((code, held.lines().count()), (0, 2), "{err}");
    for part in [
        "line 2: a line that is no object",
        "line 3: a line that is no object",
        "line 4: field \"a\" stands twice",
        "line 5: the name of a field is empty",
        "line 6: the name of a field has 256 bytes",
        "line 7: field \"a\" is a number beyond what a float holds; --values json keeps it",
        "line 8: field \"a\" is an integer of more than 64 bits; --values json keeps it",
        "line 9: field \"a\" is no text",
    ] {
        assert!(err.contains(part), "{part}: {err}");
    }
    let csv = "id,n\n1,1\n2,x\n3, 3\n4,9223372036854775808\n5,5\n";
    let (code, err, held) = load("csv:-", "--skip-bad --type n=integer", csv.as_bytes());
    assert_eq!((code, held.lines().count()), (0, 2), "{err}");
    for line in [3, 4, 5] {
        assert!(err.contains(&format!("line {line}: column \"n\": ")), "{err}");
    }
    let names = format!("id,{long}\n1,2\n");
    let (code, err, _) = load("csv:-", "", names.as_bytes());
    assert_eq!(code, 1, "{err}");
    assert!(err.contains("line 1: the name of a field has 256 bytes"), "{err}");
}

#[test]
fn a_record_is_shown_in_each_way() {
    let temp = Temp::new();
    let store = temp.store();
    feed(&store, &["load", "--key", "k", "jsonl:-"], b"{\"k\":\"a\",\"n\":1}\n").good();
    on(&store, &["put", "b", "no record"]).good();
    let hex = "e102016b023061016e09108000000000000001";
    let json = "{\"k\":\"a\",\"n\":1}";
    assert_eq!(on(&store, &["get", "a"]).good(), format!("{json}\n"));
    assert_eq!(on(&store, &["get", "61", "--encoding", "hex"]).good(), format!("{hex}\n"));
    let escaped = on(&store, &["get", "a", "--encoding", "escaped"]);
    assert!(escaped.good().starts_with("\\xe1\\x02"), "{escaped:?}");
    let raw = on(&store, &["get", "a", "--raw"]).out;
    let as_hex: String = raw.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(as_hex, hex);
    assert_eq!(
        on(&store, &["scan", "--raw", "--values", "--limit", "1"]).out,
        [&raw[..], b"\n"].concat()
    );
    let pair = format!("{{\"key\":\"a\",\"fields\":{json}}}\n");
    assert_eq!(on(&store, &["get", "a", "--json"]).good(), pair);
    let both = format!("{pair}{{\"key\":\"b\",\"value\":\"no record\"}}\n");
    assert_eq!(on(&store, &["scan", "--json"]).good(), both);
    let values = on(&store, &["scan", "--json", "--values", "--limit", "1"]);
    assert_eq!(values.good(), format!("{{\"fields\":{json}}}\n"));
    let as_hex = on(&store, &["get", "61", "--json", "--encoding", "hex"]);
    assert_eq!(as_hex.good(), format!("{{\"key_hex\":\"61\",\"value_hex\":\"{hex}\"}}\n"));
    let shell = feed(&store, &["shell"], b"get a\nget b\nscan --limit 1\n");
    assert_eq!(shell.good(), format!("{json}\nno record\na\t{json}\n"));
    // A byte too many, and it is a record no more.
    let put = ["put", "--encoding", "hex", "61", &format!("{hex}00")];
    on(&store, &put).good();
    let shown = on(&store, &["get", "a"]).good().to_owned();
    assert!(shown.starts_with("\\xe1\\x02"), "{shown}");
}

#[test]
fn a_table_comes_back_as_it_was() {
    let temp = Temp::new();
    let rows = |i: u64| {
        let flag = ["true", "false", ""][(i % 3) as usize];
        let float = i as f64 / 8.0;
        let text = ["", "plain", "a \"b\"", "x,y", "é\u{202e}"][(i % 5) as usize];
        (format!("{i:05}"), i.wrapping_mul(0x9e37_79b9) as i64 - 7, float, flag, text)
    };
    let mut csv = String::from("id,number,float,flag,text\n");
    for i in 0..5_000 {
        let (id, number, float, flag, text) = rows(i);
        let text = text.replace('"', "\"\"");
        csv.push_str(&format!("{id},{number},{float},{flag},\"{text}\"\n"));
    }
    let file = temp.file("rows.csv", csv);
    let mut load = vec!["load".into(), source("csv", &file)];
    for typed in ["number=integer", "float=float", "flag=boolean"] {
        load.extend(["--type", typed].map(Into::into));
    }
    on(&temp.store(), &load).good();
    let scan = on(&temp.store(), &["scan", "--json"]);
    let lines: Vec<Value> =
        scan.good().lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(lines.len(), 5_000);
    for (i, line) in lines.iter().enumerate() {
        let (id, number, float, flag, text) = rows(i as u64);
        let flag = serde_json::from_str::<Value>(flag).unwrap_or(Value::Null);
        let fields = serde_json::json!({ "id": id, "number": number, "float": float, "flag": flag, "text": text });
        assert_eq!(line["fields"], fields, "{i}");
        assert_eq!(line["key"], id.as_str());
        assert!(line["fields"]["float"].is_f64(), "{line}");
    }
    // What scan gives can be loaded again: the same records.
    let copy = temp.join("copy");
    let json: String = lines.iter().map(|line| format!("{}\n", line["fields"])).collect();
    feed(&copy, &["load", "--key", "id", "jsonl:-"], json.as_bytes()).good();
    assert!(
        on(&copy, &["scan", "--encoding", "hex"]).good()
            == on(&temp.store(), &["scan", "--encoding", "hex"]).good()
    );
}
