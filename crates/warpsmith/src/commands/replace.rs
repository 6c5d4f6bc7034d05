//! Which files may be replaced where a user names one: what the same command wrote, and empty ones.

use std::path::Path;

use anyhow::{Result, bail};

/// What a command writes to a file that a user names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Product {
    /// The report of a run.
    Report,
    /// The chart of `simulate`.
    Chart,
}

impl Product {
    fn name(self) -> &'static str {
        match self {
            Self::Report => "report",
            Self::Chart => "chart",
        }
    }

    /// Says whether a file of this content is one that we wrote.
    fn made(self, content: &str) -> bool {
        match self {
            Self::Report => {
                content.starts_with("<!doctype html>") && content.contains(">Made by Warpsmith ")
            }
            Self::Chart => content.starts_with(&super::curves::beginning()),
        }
    }
}

/// Refuses a path where there is a file that is no earlier product of the same kind: a slip of the hand must
/// cost no source and no evidence.
pub fn refuse_other(path: &Path, product: Product) -> Result<()> {
    // What is no file, such as a pipe, is written to and not replaced; and one that cannot be read cannot be
    // judged.
    if !path.is_file() {
        return Ok(());
    }
    let is_own = std::fs::read(path).is_ok_and(|content| {
        content.is_empty() || str::from_utf8(&content).is_ok_and(|content| product.made(content))
    });
    if !is_own {
        bail!(
            "{} exists and is no earlier {} of Warpsmith, so it was left as it is\nhint: name another file, \
             or remove this one first",
            path.display(),
            product.name()
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_products_of_the_same_kind_are_replaced() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("file");
        refuse_other(&path, Product::Report).expect("there is none");
        let report = "<!doctype html>\n<footer><p>Made by Warpsmith 0.1.0 from the evidence";
        let chart = crate::commands::curves::svg(&[], "title");
        let others = ["void kernel(void) {}\n", "<!doctype html>\n<p>mine</p>\n", "<svg></svg>\n"];
        for (content, report_may, chart_may) in [
            ("", true, true),
            (report, true, false),
            (&chart, false, true),
            (others[0], false, false),
            (others[1], false, false),
            (others[2], false, false),
        ] {
            std::fs::write(&path, content).expect("written");
            assert_eq!(refuse_other(&path, Product::Report).is_ok(), report_may, "{content}");
            assert_eq!(refuse_other(&path, Product::Chart).is_ok(), chart_may, "{content}");
        }
        std::fs::write(&path, [0xff; 9]).expect("written");
        let said = refuse_other(&path, Product::Report).expect_err("no text").to_string();
        assert!(said.contains("hint: name another file"), "{said}");
    }
}
