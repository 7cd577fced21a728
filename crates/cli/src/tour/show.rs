//! How the tour looks: titles, aligned figures, checks.

use crate::failure::Result;
use crate::output::Output;
use crate::paint::{Ink, Paint};
use crate::units;

/// Columns of the names of figures.
const NAME_WIDTH: usize = 22;
/// Columns of figures.
const FIGURE_WIDTH: usize = 12;

/// Writes the tour as it goes; nothing if only a machine reads it.
pub(super) struct Show {
    out: Output,
    pub(super) paint: Paint,
    silent: bool,
    sections: u64,
    /// Checks so far.
    pub(super) checks: u64,
    /// Checks that failed.
    pub(super) failed: u64,
}

impl Show {
    pub(super) fn new(paint: Paint, silent: bool) -> Show {
        Show { out: Output::new(), paint, silent, sections: 0, checks: 0, failed: 0 }
    }

    /// Writes a line, at once.
    pub(super) fn line(&mut self, text: &str) -> Result<()> {
        if self.silent {
            return Ok(());
        }
        self.out.line(text)?;
        self.out.flush()
    }

    /// Begins a section.
    pub(super) fn title(&mut self, text: &str) -> Result<()> {
        if self.sections > 0 {
            self.line("")?;
        }
        self.sections += 1;
        let title = format!("{}  {text}", self.sections);
        let title = self.paint.ink(Ink::Strong, &title);
        self.line(&title)
    }

    /// A number and what there is to say about it.
    pub(super) fn figure(&mut self, name: &str, n: u64, remark: &str) -> Result<()> {
        self.text_figure(name, &units::count(n), remark)
    }

    /// A figure with a unit.
    pub(super) fn text_figure(&mut self, name: &str, figure: &str, remark: &str) -> Result<()> {
        let line = format!("   {name:NAME_WIDTH$}{figure:>FIGURE_WIDTH$}   {remark}");
        self.line(line.trim_end())
    }

    /// Something that must hold, and whether it does.
    pub(super) fn check(&mut self, holds: bool, what: &str) -> Result<()> {
        self.checks += 1;
        self.failed += u64::from(!holds);
        let (mark, ink) = match (holds, self.paint.unicode) {
            (true, true) => ("✓", Ink::Good),
            (true, false) => ("ok", Ink::Good),
            (false, true) => ("✗ FAILED", Ink::Bad),
            (false, false) => ("FAILED", Ink::Bad),
        };
        let line = format!("   {} {what}", self.paint.ink(ink, mark));
        self.line(&line)
    }

    /// Writes JSON, whoever reads.
    pub(super) fn json(&mut self, value: &impl serde::Serialize) -> Result<()> {
        self.out.json(value)?;
        self.out.flush()
    }
}
