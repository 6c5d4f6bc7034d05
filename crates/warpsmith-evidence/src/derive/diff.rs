//! What changed between two texts, line by line.

/// One line of a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiffLine<'a> {
    /// In both.
    Same(&'a str),
    /// In the older one alone.
    Gone(&'a str),
    /// In the newer one alone.
    New(&'a str),
}

/// Texts with more lines than this are shown as replaced: the table below would be too large.
const MAX_LINES: usize = 2000;

/// Returns the lines of both texts with the fewest that differ (by the longest common subsequence).
pub fn diff<'a>(old: &'a str, new: &'a str) -> Vec<DiffLine<'a>> {
    let old: Vec<&str> = old.lines().collect();
    let new: Vec<&str> = new.lines().collect();
    if old.len() > MAX_LINES || new.len() > MAX_LINES {
        let gone = old.into_iter().map(DiffLine::Gone);
        return gone.chain(new.into_iter().map(DiffLine::New)).collect();
    }
    // common[i][j] is the length of the longest common subsequence of old[i..] and new[j..].
    let width = new.len() + 1;
    let mut common = vec![0u16; (old.len() + 1) * width];
    for i in (0..old.len()).rev() {
        for j in (0..new.len()).rev() {
            common[i * width + j] = if old[i] == new[j] {
                common[(i + 1) * width + j + 1] + 1
            } else {
                common[(i + 1) * width + j].max(common[i * width + j + 1])
            };
        }
    }
    let (mut i, mut j) = (0, 0);
    let mut lines = Vec::with_capacity(old.len().max(new.len()));
    while i < old.len() || j < new.len() {
        if i < old.len() && j < new.len() && old[i] == new[j] {
            lines.push(DiffLine::Same(old[i]));
            (i, j) = (i + 1, j + 1);
        } else if j == new.len()
            || (i < old.len() && common[(i + 1) * width + j] >= common[i * width + j + 1])
        {
            lines.push(DiffLine::Gone(old[i]));
            i += 1;
        } else {
            lines.push(DiffLine::New(new[j]));
            j += 1;
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_the_fewest_lines() {
        let check = |old: &str, new: &str, expected: &str| {
            let text: Vec<String> = diff(old, new)
                .into_iter()
                .map(|line| match line {
                    DiffLine::Same(text) => format!(" {text}"),
                    DiffLine::Gone(text) => format!("-{text}"),
                    DiffLine::New(text) => format!("+{text}"),
                })
                .collect();
            assert_eq!(text.join("|"), expected);
        };
        check("", "", "");
        check("a\nb\nc", "a\nb\nc", " a| b| c");
        check("a\nb\nc", "a\nx\nc", " a|-b|+x| c");
        check("a", "a\nb", " a|+b");
        check("a\nb", "b", "-a| b");
        check("", "a", "+a");
    }
}
