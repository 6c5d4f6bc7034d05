//! "Did you mean": the closest known name to a misspelt one.

/// Returns the candidate that a person most likely meant, when one is close enough.
///
/// Close is at most a third of the name's length in single-letter edits (insertion, deletion,
/// substitution, swap of neighbours); at least one, except that a single letter is close to nothing
/// but itself. Letter case costs nothing.
pub fn closest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // Names beyond this are never typed by hand; the bound keeps the quadratic distance cheap.
    const LONGEST: usize = 64;
    let name = fold(name);
    if name.len() > LONGEST {
        return None;
    }
    let limit = (name.len() / 3).max(usize::from(name.len() > 1));
    candidates
        .into_iter()
        .filter(|candidate| candidate.len() <= LONGEST)
        .map(|candidate| (distance(&name, &fold(candidate)), candidate))
        .filter(|(distance, _)| *distance <= limit)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

fn fold(name: &str) -> Vec<char> {
    name.chars().map(|letter| letter.to_ascii_lowercase()).collect()
}

/// Returns the optimal string alignment distance (Levenshtein with swaps of neighbours).
fn distance(a: &[char], b: &[char]) -> usize {
    let mut before_last = vec![0; b.len() + 1];
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i; b.len() + 1];
        for j in 1..=b.len() {
            let substitution = last[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            row[j] = substitution.min(last[j] + 1).min(row[j - 1] + 1);
            let swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
            if swapped {
                row[j] = row[j].min(before_last[j - 2] + 1);
            }
        }
        before_last = last;
        last = row;
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str, candidates: &[&str], expected: Option<&str>) {
        assert_eq!(closest(name, candidates.iter().copied()), expected, "for `{name}`");
    }

    #[test]
    fn close_names_are_suggested_and_far_ones_are_not() {
        check("BLOCK_N", &["BLOCK_M", "UNROLL"], Some("BLOCK_M"));
        check("block_m", &["UNROLL", "BLOCK_M"], Some("BLOCK_M"));
        check("blokcs", &["blocks", "bytes"], Some("blocks"));
        check("ceildiv", &["ceil_div", "min"], Some("ceil_div"));
        check("X", &["B", "S"], None);
        check("n", &["M", "N"], Some("N"));
        check("completely", &["different"], None);
        check("", &["a"], None);
        check(&"a".repeat(1000), &["a"], None);
    }
}
