//! What is in compiled machine code: its instructions, counted.

use std::collections::BTreeMap;
use std::process::Command;

use super::toolkit::Toolkit;
use crate::target::{Artifact, Fault};

/// Counts the instructions of an artifact by name, with their modifiers (`LDGSTS.E.BYPASS.128`).
pub fn instructions(
    toolkit: &Toolkit,
    artifact: &Artifact,
) -> Result<BTreeMap<String, u32>, Fault> {
    let Some(cuobjdump) = &toolkit.cuobjdump else {
        return Err(Fault::Unavailable(format!(
            "the toolkit in {} has no cuobjdump; `warpsmith setup cuda` provides one",
            toolkit.root.display()
        )));
    };
    let broken =
        |source| Fault::Broken { what: format!("running {}", cuobjdump.display()), source };
    let output =
        Command::new(cuobjdump).arg("--dump-sass").arg(&artifact.path).output().map_err(broken)?;
    if !output.status.success() {
        let words = String::from_utf8_lossy(&output.stderr).trim().to_string();
        return Err(broken(std::io::Error::other(words)));
    }
    Ok(count(&String::from_utf8_lossy(&output.stdout)))
}

/// Adds up what differs in modifiers alone.
pub fn without_modifiers(counts: &BTreeMap<String, u32>) -> BTreeMap<String, u32> {
    let mut sums = BTreeMap::new();
    for (name, count) in counts {
        let plain = name.split('.').next().unwrap_or(name);
        *sums.entry(plain.to_string()).or_insert(0) += count;
    }
    sums
}

fn count(listing: &str) -> BTreeMap<String, u32> {
    let mut counts = BTreeMap::new();
    for line in listing.lines() {
        // `/*0010*/  @!P0 LDGSTS.E.128 [R1], [R2] ;  /* 0x... */`
        let Some((address, rest)) = line.trim().split_once("*/") else { continue };
        let is_address = address.strip_prefix("/*").is_some_and(|digits| {
            !digits.is_empty() && digits.chars().all(|digit| digit.is_ascii_hexdigit())
        });
        let mut words = rest.split_whitespace().skip_while(|word| word.starts_with('@'));
        if let (true, Some(word)) = (is_address, words.next()) {
            let name = word.trim_end_matches(';');
            if name.starts_with(|letter: char| letter.is_ascii_uppercase()) {
                *counts.entry(name.to_string()).or_insert(0) += 1;
            }
        }
    }
    counts
}

#[cfg(test)]
#[test]
fn instructions_are_counted_without_predicates() {
    let listing = "        /*0000*/                   LDC R1, c[0x0][0x28] ;   /* 0x00000a00ff017b82 */\n\
                   \t\t\t\t/* 0x000fe20000000f00 */\n        \
                   /*0010*/              @!P0 LDGSTS.E.BYPASS.128 [R1], [R2] ;  /* 0x1 */\n        \
                   /*0020*/                   HGMMA.64x128x16.F32 R24, gdesc[UR4], !UPT ;\n        \
                   /*0030*/                   EXIT ;\n";
    let counts = count(listing);
    let named = |names: [&str; 4]| -> BTreeMap<String, u32> {
        names.iter().map(|name| ((*name).to_string(), 1)).collect()
    };
    assert_eq!(counts, named(["EXIT", "HGMMA.64x128x16.F32", "LDC", "LDGSTS.E.BYPASS.128"]));
    assert_eq!(without_modifiers(&counts), named(["EXIT", "HGMMA", "LDC", "LDGSTS"]));
}
