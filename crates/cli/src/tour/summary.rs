//! Last section: the tour in numbers, and the shape of the tree.

use super::state::Tour;
use crate::failure::{Failure, Result};
use crate::paint::Paint;
use crate::tree;
use crate::units;
use esker::Db;
use std::path::Path;

/// Before each line of the drawing.
const INDENT: &str = "   ";

/// Sums up, draws the tree, closes the store.
pub(super) fn summary(tour: &mut Tour<'_>, db: Db, dir: &Path) -> Result<()> {
    let stats = db.stats();
    let keyspace = stats.keyspaces.first().cloned().unwrap_or_default();
    tour.figures.write_amplification = keyspace.write_amplification().unwrap_or(0.0);
    tour.figures.disk_bytes = disk_bytes(dir)?;
    tour.figures.checks = tour.show.checks;
    tour.figures.failed = tour.show.failed;
    tour.figures.seconds = tour.watch.seconds();
    db.close()?;
    if tour.plan.json {
        let figures = tour.figures.clone();
        return tour.show.json(&figures);
    }
    let f = tour.figures.clone();
    let show = &mut tour.show;
    show.title("Summary")?;
    show.figure("loaded", f.loaded, &units::rate(f.loaded, f.load_seconds))?;
    let gets = format!(
        "p50 {}   p99 {}",
        units::duration_ns(f.get_p50_ns),
        units::duration_ns(f.get_p99_ns)
    );
    show.figure("gets", f.gets, &gets)?;
    show.figure("scanned per second", f.scan_per_second, "records")?;
    let changed = format!("overwritten, and {} deleted", units::count(f.deleted));
    show.figure("changed", f.overwritten, &changed)?;
    let loaded = format!("for {} loaded", units::bytes(f.loaded_bytes));
    show.text_figure("on disk", &units::bytes(f.disk_bytes), &loaded)?;
    let amplification = format!("{:.2}", f.write_amplification);
    show.text_figure("write amplification", &amplification, "bytes of tables per byte written")?;
    let killed = format!(
        "writes acknowledged before {} kills, {}",
        f.kills,
        units::rate(f.killed_acknowledged, f.kill_seconds)
    );
    show.figure("killed", f.killed_acknowledged, &killed)?;
    let recovery = format!("slowest recovery {}", units::duration_ns(f.recovery_ns_max));
    show.figure("came back", f.came_back, &recovery)?;
    let failed = format!("{} failed, {:.1} s in all", f.failed, f.seconds);
    show.figure("checks", f.checks, &failed)?;
    show.line("")?;
    let paint = Paint { width: show.paint.width - INDENT.len(), ..show.paint };
    for line in tree::draw(&keyspace, &tour.plan.options.default_keyspace, &paint) {
        show.line(format!("{INDENT}{line}").trim_end())?;
    }
    Ok(())
}

fn disk_bytes(dir: &Path) -> Result<u64> {
    let fail = |error: std::io::Error| Failure::io("read", dir, &error);
    let mut total = 0;
    for entry in std::fs::read_dir(dir).map_err(fail)? {
        total += entry.map_err(fail)?.metadata().map_or(0, |metadata| metadata.len());
    }
    Ok(total)
}
