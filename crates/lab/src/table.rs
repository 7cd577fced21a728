//! Figures of several traces side by side, in columns.

use crate::summary::{LevelSummary, Summary};
use esker_draw::units::{bytes, duration};
use std::fmt::Write as _;

/// A row: its name, and a figure of each trace.
type Row = (String, Vec<String>);

/// Figures of traces, one column each, under their names.
pub fn table(columns: &[(String, Summary)]) -> String {
    let of = |figure: &dyn Fn(&Summary) -> String| -> Vec<String> {
        columns.iter().map(|(_, summary)| figure(summary)).collect()
    };
    let mut rows: Vec<Row> = vec![
        ("written".into(), of(&|s| bytes(s.user_bytes))),
        ("in".into(), of(&|s| duration(s.load_s * 1e9))),
        ("a second".into(), of(&|s| bytes(s.throughput() as u64))),
        ("settled after".into(), of(&|s| duration(s.settled_s * 1e9))),
        (
            "write amplification".into(),
            of(&|s| s.write_amplification.map_or("-".into(), |times| format!("{times:.2}"))),
        ),
        ("amplification of a job".into(), of(&|s| format!("{:.1}", s.job_amplification))),
        ("stops".into(), of(&|s| s.stops.count.to_string())),
        ("stopped for".into(), of(&|s| duration(s.stops.total_s * 1e9))),
        ("longest stop".into(), of(&|s| duration(s.stops.longest_s * 1e9))),
    ];
    let depth = columns.iter().map(|(_, summary)| summary.levels.len()).max().unwrap_or(0);
    for level in 0..depth {
        let of = |figure: &dyn Fn(&LevelSummary) -> String| -> Vec<String> {
            let figure = |summary: &Summary| summary.levels.get(level).map_or("-".into(), figure);
            columns.iter().map(|(_, summary)| figure(summary)).collect()
        };
        rows.push((format!("L{level} jobs"), of(&|l| l.jobs.to_string())));
        rows.push((format!("L{level} mean job"), of(&|l| duration(l.job_s * 1e9))));
        rows.push((format!("L{level} longest job"), of(&|l| duration(l.job_s_max * 1e9))));
        rows.push((
            format!("L{level} amplification"),
            of(&|l| format!("{:.1}", l.job_amplification)),
        ));
        rows.push((format!("L{level} most tables"), of(&|l| l.tables_max.to_string())));
        rows.push((format!("L{level} most runs"), of(&|l| l.runs_max.to_string())));
    }
    let names: Vec<String> = columns.iter().map(|(name, _)| name.clone()).collect();
    columns_of(&[vec![(String::new(), names)], rows].concat())
}

fn columns_of(rows: &[Row]) -> String {
    let wide = |text: &String| text.chars().count();
    let head = rows.iter().map(|(name, _)| wide(name)).max().unwrap_or(0);
    let count = rows.iter().map(|(_, figures)| figures.len()).max().unwrap_or(0);
    let width =
        |at: usize| rows.iter().filter_map(|(_, row)| row.get(at)).map(wide).max().unwrap_or(0);
    let widths: Vec<usize> = (0..count).map(width).collect();
    let mut text = String::new();
    for (name, figures) in rows {
        let _ = write!(text, "{name:head$}");
        for (figure, width) in figures.iter().zip(&widths) {
            let _ = write!(text, "  {figure:>width$}");
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_stand_below_their_names() {
        let shallow = Summary { user_bytes: 1 << 30, load_s: 2.0, ..Summary::default() };
        let level = LevelSummary { jobs: 3, tables_max: 17, ..LevelSummary::default() };
        let deep = Summary { levels: vec![level], ..shallow.clone() };
        let text = table(&[("a".into(), shallow), ("a long name".into(), deep)]);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 1 + 9 + 6);
        assert!(
            lines.iter().all(|line| line.chars().count() == lines[0].chars().count()),
            "{text}"
        );
        assert!(lines[3].starts_with("a second") && lines[3].ends_with(" 512 MiB"), "{text}");
        let jobs: Vec<&str> = lines[10].split_whitespace().collect();
        assert_eq!(jobs, ["L0", "jobs", "-", "3"]);
    }
}
