//! One page that holds everything.

use crate::Outcome;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

/// A page in HTML: text, tables as they are printed, and drawings.
#[derive(Clone, Debug)]
pub struct Page {
    html: String,
    drawings: Vec<(String, String)>,
}

impl Page {
    /// An empty page under a heading.
    pub fn new(heading: &str) -> Page {
        let heading = escaped(heading);
        let html = format!(
            "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><title>{heading}</title>\n\
             <style>body{{font:16px/1.4 sans-serif;max-width:1000px;margin:2em auto;padding:0 1em}}\
             pre{{overflow-x:auto;font-size:12px}}svg{{max-width:100%;height:auto}}</style>\n\
             <h1>{heading}</h1>\n"
        );
        Page { html, drawings: Vec::new() }
    }

    /// Adds a paragraph; `name` stands before it in bold if it is not empty.
    pub fn text(&mut self, name: &str, text: &str) -> &mut Page {
        let text = escaped(text);
        let _ = match name {
            "" => writeln!(self.html, "<p>{text}</p>"),
            name => writeln!(self.html, "<p><b>{}</b>: {text}</p>", escaped(name)),
        };
        self
    }

    /// Adds text in columns.
    pub fn columns(&mut self, text: &str) -> &mut Page {
        let _ = writeln!(self.html, "<pre>{}</pre>", escaped(text));
        self
    }

    /// Adds a drawing, which is also kept in a file `NAME.svg`.
    pub fn drawing(&mut self, name: &str, svg: String) -> &mut Page {
        let _ = writeln!(self.html, "{svg}");
        self.drawings.push((name.to_owned(), svg));
        self
    }

    /// Writes the page as `report.html` and each drawing beside it. Returns the files, the page
    /// first.
    ///
    /// # Errors
    /// Of the file system.
    pub fn write(mut self, out: &Path) -> Outcome<Vec<PathBuf>> {
        self.html.push_str("</html>\n");
        fs::create_dir_all(out).map_err(|error| format!("{}: {error}", out.display()))?;
        let mut files = Vec::new();
        let mut keep = |name: String, text: &str| -> Outcome<()> {
            let path = out.join(name);
            fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
            files.push(path);
            Ok(())
        };
        keep("report.html".to_owned(), &self.html)?;
        for (name, svg) in &self.drawings {
            keep(format!("{name}.svg"), svg)?;
        }
        Ok(files)
    }
}

/// Text that stands in HTML as it is.
pub fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_in_names_stays_text() {
        assert_eq!(escaped("a<b> & \"c\""), "a&lt;b&gt; &amp; &quot;c&quot;");
        let mut page = Page::new("<");
        page.text("", "a<b").text("<i>", "x").columns("1 < 2");
        for part in ["<title>&lt;<", "<p>a&lt;b</p>", "<b>&lt;i&gt;</b>", "<pre>1 &lt; 2</pre>"] {
            assert!(page.html.contains(part), "{part}: {}", page.html);
        }
    }
}
