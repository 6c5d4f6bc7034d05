//! Reads the table that Nsight Compute prints (`ncu --csv --page raw`): a row of metric names, a row of
//! units, then a row for each launch. Values become SI base units, percentages become shares of one.

use std::collections::BTreeMap;

/// One launch as the table has it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LaunchRow {
    /// The kernel function's name.
    pub kernel: String,
    /// Every metric that has a number.
    pub metrics: BTreeMap<String, f64>,
}

/// Why there is no table.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TableError {
    /// The driver keeps the counters from this user.
    #[error("this user may not read the GPU's performance counters (ERR_NVGPUCTRPERM)")]
    Forbidden,
    /// There is no row of metric names.
    #[error("the profiler printed no table of metrics; it said: {said}")]
    NoTable {
        /// What was printed instead, shortened.
        said: String,
    },
    /// There are names and units, but no launch.
    #[error("the profiler saw no launch of a kernel")]
    NoLaunch,
    /// A row ends early.
    #[error("line {line} of the table has {found} columns instead of {expected}: it was cut off")]
    CutOff {
        /// The line, from 1.
        line: usize,
        /// How many columns it has.
        found: usize,
        /// How many it should have.
        expected: usize,
    },
}

/// What the profiler says where counters are forbidden.
const FORBIDDEN: &str = "ERR_NVGPUCTRPERM";
/// The first column of the row of names.
const FIRST_COLUMN: &str = "ID";
const KERNEL_COLUMN: &str = "Kernel Name";
/// As much of an unexpected output as a message quotes.
const QUOTED_CHARS: usize = 300;

/// Reads a table; what the profiler says around it (`==PROF==`) is passed over.
pub fn parse(text: &str) -> Result<Vec<LaunchRow>, TableError> {
    if text.contains(FORBIDDEN) {
        return Err(TableError::Forbidden);
    }
    let is_remark = |line: &str| line.trim().is_empty() || line.starts_with("==");
    let mut rows = text
        .lines()
        .enumerate()
        .filter(|(_, line)| !is_remark(line))
        .map(|(idx, line)| (idx + 1, cells(line)))
        .skip_while(|(_, cells)| cells.first().is_none_or(|first| first != FIRST_COLUMN));
    let Some((_, names)) = rows.next() else {
        let words: Vec<&str> = text.split_whitespace().collect();
        let said: String = words.join(" ").chars().take(QUOTED_CHARS).collect();
        let said = if said.is_empty() { "nothing".to_string() } else { said };
        return Err(TableError::NoTable { said });
    };
    let whole = |(line, cells): (usize, Vec<String>)| match cells.len() == names.len() {
        true => Ok(cells),
        false => Err(TableError::CutOff { line, found: cells.len(), expected: names.len() }),
    };
    let units = whole(rows.next().ok_or(TableError::NoLaunch)?)?;
    let scales: Vec<f64> = units.iter().map(|unit| scale(unit)).collect();
    let mut launches = Vec::new();
    for row in rows {
        let mut launch = LaunchRow::default();
        for ((name, cell), scale) in names.iter().zip(whole(row)?).zip(&scales) {
            if name == KERNEL_COLUMN {
                launch.kernel = cell;
            } else if let Some(value) = number(&cell) {
                launch.metrics.insert(name.clone(), value * scale);
            }
        }
        launches.push(launch);
    }
    if launches.is_empty() { Err(TableError::NoLaunch) } else { Ok(launches) }
}

/// Splits a line at its commas, except for those between quotation marks; two marks inside of a
/// quotation stand for one.
fn cells(line: &str) -> Vec<String> {
    let mut cells = vec![String::new()];
    let mut quoted = false;
    let mut characters = line.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '"' if quoted && characters.peek() == Some(&'"') => {
                characters.next();
                cells.last_mut().expect("there is a first cell").push('"');
            }
            '"' => quoted = !quoted,
            ',' if !quoted => cells.push(String::new()),
            other => cells.last_mut().expect("there is a first cell").push(other),
        }
    }
    cells
}

/// Reads a number with thousands separators; text, an empty cell and what is not finite are none.
fn number(cell: &str) -> Option<f64> {
    let plain: String = cell.chars().filter(|character| *character != ',').collect();
    plain.parse::<f64>().ok().filter(|value| value.is_finite())
}

/// Returns what to multiply with for SI base units: `Kbyte` is 1000 bytes, `%` a hundredth, and in
/// `Gbyte/s` both sides count.
fn scale(unit: &str) -> f64 {
    let mut sides = unit.split('/').map(side_scale);
    let first = sides.next().unwrap_or(1.0);
    sides.fold(first, |scale, below| scale / below)
}

fn side_scale(side: &str) -> f64 {
    match side {
        "%" => return 0.01,
        "s" | "sec" | "second" => return 1.0,
        "ms" | "msec" | "msecond" => return 1e-3,
        "us" | "usec" | "usecond" => return 1e-6,
        "ns" | "nsec" | "nsecond" => return 1e-9,
        _ => {}
    }
    // A prefix stands before a word in small letters (`Mhz`); `SM` is a word of its own.
    let has_word = side.chars().nth(1).is_some_and(|second| second.is_ascii_lowercase());
    match side.chars().next() {
        Some('K') if has_word => 1e3,
        Some('M') if has_word => 1e6,
        Some('G') if has_word => 1e9,
        Some('T') if has_word => 1e12,
        _ => 1.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_become_si_base_units() {
        let check = |unit: &str, expected: f64| {
            let found = scale(unit);
            assert!((found / expected - 1.0).abs() < 1e-12, "{unit}: {found}, not {expected}");
        };
        check("", 1.0);
        check("ns", 1e-9);
        check("usecond", 1e-6);
        check("byte/s", 1.0);
        check("Kbyte/block", 1e3);
        check("Gbyte/second", 1e9);
        check("byte/ms", 1e3);
        check("Ghz", 1e9);
        check("%", 0.01);
        check("SM", 1.0);
        check("register/thread", 1.0);
    }

    #[test]
    fn a_table_is_read_among_remarks() {
        let text = "==PROF== Connected to process 1 (/bin/x)\n\n\
            \"ID\",\"Kernel Name\",\"time\",\"share\",\"none\",\"odd\"\n\
            \"\",\"\",\"ns\",\"%\",\"\",\"\"\n\
            \"0\",\"a \"\"b\"\", c\",\"21,435.5\",\"50\",\"\",\"nan\"\n\
            ==PROF== Disconnected from process 1\n\
            \"1\",\"second\",\"1\",\"100\",\"n/a\",\"-inf\"\n";
        let rows = parse(text).expect("a table");
        assert_eq!(rows.len(), 2);
        assert_eq!(rows[0].kernel, "a \"b\", c");
        assert!((rows[0].metrics["time"] - 21_435.5e-9).abs() < 1e-15);
        assert_eq!(rows[0].metrics["share"], 0.5);
        assert!(!rows[0].metrics.contains_key("none") && !rows[0].metrics.contains_key("odd"));
        assert_eq!(rows[1].metrics.len(), 3, "{:?}", rows[1]);
    }

    #[test]
    fn what_is_no_table_is_called_so() {
        let check = |text: &str, expected: &str| {
            let said = parse(text).expect_err(text).to_string();
            assert!(said.contains(expected), "`{expected}` is not in `{said}`");
        };
        let head = "\"ID\",\"Kernel Name\",\"time\"\n";
        check("", "it said: nothing");
        check("Segmentation fault", "Segmentation fault");
        check("==WARNING== No kernels were profiled.\n", "No kernels were profiled");
        check(head, "no launch");
        check(&format!("{head}\"\",\"\",\"ns\"\n"), "no launch");
        check(&format!("{head}\"\",\"\",\"ns\"\n\"0\",\"k"), "line 3 of the table has 2 columns");
        check(
            "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU \
             Performance Counters on the target device 0.",
            "may not read",
        );
    }
}
