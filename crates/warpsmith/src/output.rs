//! Talking to people: styles, aligned tables, progress.
//!
//! Standard output is the result, standard error the conversation. Colours follow the terminal and
//! `NO_COLOR`; everything is legible without them.

use std::borrow::Cow;
use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use anstyle::{AnsiColor, Style};
use indicatif::{ProgressBar, ProgressStyle};
use warpsmith_model::text::{REPLACEMENT, is_control, printable};

/// Headings and names that matter.
pub const BOLD: Style = Style::new().bold();
/// Things that went well.
pub const GOOD: Style = AnsiColor::Green.on_default();
/// Things that went wrong.
pub const BAD: Style = AnsiColor::Red.on_default();
/// Things to look at.
pub const WARN: Style = AnsiColor::Yellow.on_default();
/// Things that may be overlooked.
pub const DIM: Style = Style::new().dimmed();

/// Wraps a text in a style.
pub fn paint(style: Style, text: impl std::fmt::Display) -> String {
    format!("{style}{text}{style:#}")
}

/// Writes a line of the result to standard output. A closed pipe (`| head`) ends the program
/// quietly, as it does for other tools; a result that cannot be written otherwise (a full disk, say)
/// ends it with a message.
pub fn result(text: impl std::fmt::Display) {
    if let Err(error) = writeln!(anstream::stdout(), "{}", harmless(&text.to_string())) {
        end_unwritten(&error);
    }
}

/// Ends the program, since standard output takes no more; see [`result`].
pub fn end_unwritten(error: &std::io::Error) -> ! {
    if error.kind() == std::io::ErrorKind::BrokenPipe {
        std::process::exit(0);
    }
    say(format!("{}: cannot write the result to standard output: {error}", paint(BAD, "error")));
    std::process::exit(2);
}

/// Writes a line of the conversation to standard error. There is nobody to tell when it is closed.
pub fn say(text: impl std::fmt::Display) {
    let _closed = writeln!(anstream::stderr(), "{}", harmless(&text.to_string()));
}

/// Leaves our own styles as they are, and of everything else nothing that controls a terminal: sources, logs and
/// models' replies have such characters where they like.
fn harmless(text: &str) -> Cow<'_, str> {
    if !text.contains(is_control) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let style = OWN_STYLES.iter().find(|style| rest.starts_with(**style));
        let taken = style.map_or(c.len_utf8(), |style| style.len());
        match is_control(c) && style.is_none() {
            true => shown.push(REPLACEMENT),
            false => shown.push_str(&rest[..taken]),
        }
        rest = &rest[taken..];
    }
    Cow::Owned(shown)
}

/// What [`paint`] writes for the styles above, and behind them.
const OWN_STYLES: [&str; 6] = ["\x1b[0m", "\x1b[1m", "\x1b[2m", "\x1b[31m", "\x1b[32m", "\x1b[33m"];

/// Writes a document to standard output as JSON, piece by piece: the text of a large one is larger than what
/// it was made from.
pub fn json(document: &impl serde::Serialize) -> anyhow::Result<()> {
    let mut stdout = std::io::BufWriter::new(std::io::stdout().lock());
    let written = match serde_json::to_writer_pretty(&mut stdout, document) {
        Ok(()) => stdout.write_all(b"\n").and_then(|()| stdout.flush()),
        Err(error) if error.is_io() => Err(error.into()),
        Err(error) => return Err(error.into()),
    };
    if let Err(error) = written {
        end_unwritten(&error);
    }
    Ok(())
}

/// Columns of a line of prose at most. Tables and paths may be wider.
pub const COLUMNS: usize = 80;

/// Breaks lines of prose that are wider than [`COLUMNS`] at their spaces. What follows of a line stands two
/// columns further in than its beginning.
pub fn wrapped(text: &str) -> String {
    let lines: Vec<String> = text.lines().map(wrapped_line).collect();
    lines.join("\n")
}

fn wrapped_line(line: &str) -> String {
    if width(line) <= COLUMNS {
        return line.to_string();
    }
    let indent = line.len() - line.trim_start_matches(' ').len();
    let mut lines = vec![" ".repeat(indent)];
    let mut is_first = true;
    for word in line[indent..].split(' ') {
        let last = lines.last_mut().expect("it begins with one");
        if is_first {
            last.push_str(word);
        } else if width(last) + 1 + width(word) > COLUMNS {
            lines.push(format!("{}{word}", " ".repeat(indent + 2)));
        } else {
            last.push_str(&format!(" {word}"));
        }
        is_first = false;
    }
    lines.join("\n")
}

/// Whether no line is wider than [`COLUMNS`].
pub fn fits(text: &str) -> bool {
    text.lines().all(|line| width(line) <= COLUMNS)
}

/// A table with aligned columns. Cells may be painted; their width is counted without the paint.
#[derive(Debug, Default)]
pub struct Table {
    rows: Vec<Vec<String>>,
    right: Vec<usize>,
}

impl Table {
    /// Starts a table with these headings; the columns in `right` are aligned to the right.
    pub fn new(headings: &[&str], right: &[usize]) -> Self {
        let headings = headings.iter().map(|heading| paint(DIM, heading)).collect();
        Self { rows: vec![headings], right: right.to_vec() }
    }

    /// Adds a row.
    pub fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    /// Renders with two spaces between columns.
    pub fn render(&self) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let widths: Vec<usize> = (0..columns)
            .map(|column| {
                self.rows.iter().filter_map(|row| row.get(column)).map(|cell| width(cell)).max()
            })
            .map(|widest| widest.unwrap_or(0))
            .collect();
        let mut lines = Vec::new();
        for row in &self.rows {
            let mut line = String::from("  ");
            for (column, cell) in row.iter().enumerate() {
                let padding = " ".repeat(widths[column] - width(cell));
                if self.right.contains(&column) {
                    line += &format!("{padding}{cell}  ");
                } else {
                    line += &format!("{cell}{padding}  ");
                }
            }
            lines.push(line.trim_end().to_string());
        }
        lines.join("\n")
    }
}

/// Counts characters, leaving out escape sequences.
fn width(cell: &str) -> usize {
    anstream::adapter::strip_str(cell).map(|part| part.chars().count()).sum()
}

/// Progress with a count, the best so far and the time left; a bar on a terminal, plain lines
/// elsewhere, at most one every few seconds.
#[derive(Debug)]
pub struct Progress {
    bar: Option<ProgressBar>,
    name: String,
    total: u64,
    done: u64,
    last_line: Instant,
}

const PLAIN_LINE_EVERY: Duration = Duration::from_secs(5);

impl Progress {
    /// Starts a count to `total`.
    pub fn new(name: &str, total: u64) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let style = ProgressStyle::with_template(
                "  {prefix:<8} {bar:28.cyan/dim} {pos:>4}/{len}  {elapsed} (left {eta})  {wide_msg}",
            )
            .expect("the template is a constant");
            let bar = ProgressBar::new(total).with_style(style).with_prefix(name.to_string());
            bar.enable_steady_tick(Duration::from_millis(200));
            bar
        });
        if bar.is_none() {
            say(format!("  {name}: {total} to do"));
        }
        Self { bar, name: name.to_string(), total, done: 0, last_line: Instant::now() }
    }

    /// Counts one more, with the best so far in words.
    pub fn step(&mut self, best: &str) {
        self.done += 1;
        if let Some(bar) = &self.bar {
            bar.set_message(printable(best).into_owned());
            bar.inc(1);
        } else if self.last_line.elapsed() >= PLAIN_LINE_EVERY {
            self.last_line = Instant::now();
            say(format!("  {}: {}/{}  {best}", self.name, self.done, self.total));
        }
    }

    /// Says what is being done now.
    pub fn note(&self, text: &str) {
        if let Some(bar) = &self.bar {
            bar.set_message(printable(text).into_owned());
        }
    }

    /// Ends, leaving one line.
    pub fn finish(self, text: &str) {
        if let Some(bar) = self.bar {
            bar.finish_and_clear();
        }
        say(format!("  {:<9} {text}", self.name));
    }
}

/// Says how many there are of something that has a regular plural.
pub fn counted(number: usize, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prose_is_broken_at_spaces_and_words_are_not() {
        let text = wrapped(&format!("  {}", paint(DIM, "word ".repeat(40).trim_end())));
        let plain = anstream::adapter::strip_str(&text).to_string();
        let lines: Vec<&str> = plain.lines().collect();
        assert!(lines.len() == 3 && lines.iter().all(|line| line.len() <= COLUMNS), "{plain}");
        assert!(lines[0].starts_with("  word") && lines[1].starts_with("    word"), "{plain}");
        assert_eq!(plain.split_whitespace().count(), 40);
        let path = format!("  {}", "a".repeat(100));
        assert_eq!(wrapped(&path), path);
        assert_eq!(wrapped("short\n  and as it is"), "short\n  and as it is");
    }

    /// `#error` with an escape sequence cleared the screen of whoever looked at the verdict.
    #[test]
    fn a_candidates_words_do_not_control_the_terminal_and_our_styles_stay() {
        for style in [BOLD, GOOD, BAD, WARN, DIM] {
            let painted = paint(style, "text");
            assert_eq!(harmless(&painted), painted);
        }
        let text = format!("{}\n\tb", paint(BAD, "error: \x1b[2J\x1b]0;title\x07\x1b[8m\r"));
        let shown = harmless(&text);
        assert_eq!(
            shown,
            format!(
                "{}\n\tb",
                paint(BAD, "error: \u{fffd}[2J\u{fffd}]0;title\u{fffd}\u{fffd}[8m\u{fffd}")
            )
        );
    }

    #[test]
    fn columns_align_whatever_their_paint() {
        let mut table = Table::new(&["kernel", "time"], &[1]);
        table.row(vec![paint(GOOD, "a"), "1.00 ms".into()]);
        table.row(vec!["longer".into(), "12.0 ms".into()]);
        let plain = anstream::adapter::strip_str(&table.render()).to_string();
        assert_eq!(plain, "  kernel     time\n  a       1.00 ms\n  longer  12.0 ms");
    }
}
