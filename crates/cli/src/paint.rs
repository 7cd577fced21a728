//! How a terminal may be drawn on: width, colours, characters.

use std::env;
use std::fmt::Write;

/// Narrower than this, drawings are not laid out any more.
const WIDTH_MIN: usize = 60;
/// Wider than this, they do not get easier to read.
const WIDTH_MAX: usize = 110;
/// Width where there is no terminal.
const WIDTH_PLAIN: usize = 80;

/// What output may use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Paint {
    /// Columns.
    pub(crate) width: usize,
    /// Escape sequences for colours are understood and wanted.
    pub(crate) colour: bool,
    /// Characters beyond ASCII are shown.
    pub(crate) unicode: bool,
}

/// Colours by meaning.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Ink {
    /// Titles.
    Strong,
    /// Of less importance.
    Faint,
    /// Well within limits, or a check that passed.
    Good,
    /// Near a limit.
    Warm,
    /// Over a limit, or a check that failed.
    Bad,
    /// Cells of tables.
    Cell,
}

impl Paint {
    /// For standard output: plain ASCII without colour unless it is a terminal; no colour with
    /// `NO_COLOR` or `TERM=dumb`.
    pub(crate) fn for_stdout(terminal: bool) -> Paint {
        if !terminal {
            return Paint::plain();
        }
        let set = |name: &str| env::var_os(name).is_some_and(|value| !value.is_empty());
        let dumb = env::var_os("TERM").is_none_or(|term| term == "dumb");
        let width = terminal_size::terminal_size().map_or(WIDTH_PLAIN, |(w, _)| w.0.into());
        Paint {
            width: width.clamp(WIDTH_MIN, WIDTH_MAX),
            colour: !dumb && !set("NO_COLOR"),
            unicode: !dumb && speaks_utf8(),
        }
    }

    /// For files and pipes.
    pub(crate) fn plain() -> Paint {
        Paint { width: WIDTH_PLAIN, colour: false, unicode: false }
    }

    /// The text in a colour, if there are colours.
    pub(crate) fn ink(&self, ink: Ink, text: &str) -> String {
        if !self.colour || text.is_empty() {
            return text.to_owned();
        }
        let code = match ink {
            Ink::Strong => "1",
            Ink::Faint => "2",
            Ink::Good => "32",
            Ink::Warm => "33",
            Ink::Bad => "31",
            Ink::Cell => "36",
        };
        format!("\x1b[{code}m{text}\x1b[0m")
    }

    /// A bar of `width` columns that is filled to `share` (0.0..=1.0).
    pub(crate) fn bar(&self, share: f64, width: usize, ink: Ink) -> String {
        const EIGHTHS: [char; 7] = ['▏', '▎', '▍', '▌', '▋', '▊', '▉'];
        let share = share.clamp(0.0, 1.0);
        let eighths = (share * width as f64 * 8.0).round() as usize;
        // Something is never drawn as nothing.
        let eighths = if share > 0.0 { eighths.max(1) } else { 0 };
        let (mut full, part) = (eighths / 8, eighths % 8);
        let mut filled = String::new();
        if self.unicode {
            filled.extend(std::iter::repeat_n('█', full));
            if part > 0 {
                filled.push(EIGHTHS[part - 1]);
                full += 1;
            }
        } else {
            full += usize::from(part >= 4 || full == 0 && part > 0);
            filled.extend(std::iter::repeat_n('#', full));
        }
        let empty = if self.unicode { '░' } else { '.' };
        let rest: String = std::iter::repeat_n(empty, width - full.min(width)).collect();
        let mut text = self.ink(ink, &filled);
        let _ = write!(text, "{}", self.ink(Ink::Faint, &rest));
        text
    }
}

/// True if the locale's characters are UTF-8. The first of these variables that is set decides.
fn speaks_utf8() -> bool {
    let value = ["LC_ALL", "LC_CTYPE", "LANG"]
        .iter()
        .find_map(|name| env::var(name).ok().filter(|value| !value.is_empty()));
    value.is_some_and(|value| {
        let value = value.to_ascii_lowercase();
        value.contains("utf-8") || value.contains("utf8")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_have_their_width() {
        let fancy = Paint { width: 80, colour: false, unicode: true };
        for paint in [Paint::plain(), fancy] {
            for share in [0.0, 0.001, 0.03, 0.5, 0.96, 0.999, 1.0, 7.0] {
                let bar = paint.bar(share, 10, Ink::Good);
                assert_eq!(bar.chars().count(), 10, "{share} {bar}");
            }
        }
        assert_eq!(Paint::plain().bar(0.001, 4, Ink::Good), "#...");
        assert_eq!(Paint::plain().bar(0.0, 4, Ink::Good), "....");
        assert_eq!(fancy.bar(0.5, 4, Ink::Good), "██░░");
    }
}
