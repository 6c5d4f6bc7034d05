//! What is in compiled machine code: its functions and their instructions.

use std::collections::BTreeMap;
use std::process::Command;

use super::toolkit::Toolkit;
use crate::target::{Artifact, Fault};

/// A function's code, in the order of addresses.
#[derive(Debug, Default)]
pub struct Function {
    pub name: String,
    pub instructions: Vec<Instruction>,
}

#[derive(Debug)]
pub struct Instruction {
    pub address: u64,
    pub has_predicate: bool,
    /// With its modifiers (`LDGSTS.E.BYPASS.128`).
    pub name: String,
    /// As the listing has them.
    pub operands: String,
}

impl Instruction {
    /// The name without modifiers.
    pub fn plain_name(&self) -> &str {
        self.name.split('.').next().unwrap_or(&self.name)
    }
}

/// Reads the machine code of an artifact.
pub fn functions(toolkit: &Toolkit, artifact: &Artifact) -> Result<Vec<Function>, Fault> {
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
    Ok(parse(&String::from_utf8_lossy(&output.stdout)))
}

/// Counts instructions by name, with their modifiers.
pub fn count(functions: &[Function]) -> BTreeMap<String, u32> {
    let mut counts = BTreeMap::new();
    for instruction in functions.iter().flat_map(|function| &function.instructions) {
        *counts.entry(instruction.name.clone()).or_insert(0) += 1;
    }
    counts
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

pub(super) fn parse(listing: &str) -> Vec<Function> {
    let mut functions = Vec::new();
    for line in listing.lines() {
        if let Some((_, name)) = line.split_once("Function : ") {
            functions.push(Function { name: name.trim().to_string(), instructions: Vec::new() });
        } else if let Some(instruction) = parse_instruction(line) {
            if functions.is_empty() {
                functions.push(Function::default());
            }
            functions.last_mut().expect("pushed above").instructions.push(instruction);
        }
    }
    functions
}

/// `/*0010*/  @!P0 LDGSTS.E.128 [R1], [R2] ;  /* 0x... */`
fn parse_instruction(line: &str) -> Option<Instruction> {
    let (address, rest) = line.trim().strip_prefix("/*")?.split_once("*/")?;
    let address = u64::from_str_radix(address, 16).ok()?;
    let text = rest.split(';').next()?.trim();
    let (has_predicate, text) = match text.strip_prefix('@') {
        Some(guarded) => (true, guarded.split_once(char::is_whitespace)?.1.trim_start()),
        None => (false, text),
    };
    let (name, operands) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    name.starts_with(|letter: char| letter.is_ascii_uppercase()).then(|| Instruction {
        address,
        has_predicate,
        name: name.to_string(),
        operands: operands.trim().to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_are_counted_without_predicates() {
        let listing = "\t\tFunction : k\n\
        /*0000*/                   LDC R1, c[0x0][0x28] ;   /* 0x00000a00ff017b82 */\n\
                                                             /* 0x000fe20000000800 */\n\
        /*0010*/              @!P0 LDGSTS.E.BYPASS.128 [R9], [R2.64] ;\n\
        /*0020*/                   HGMMA.64x128x16.F32 R24, gdesc[UR4], !UPT ;\n\
        /*0030*/                   EXIT ;\n";
        let functions = parse(listing);
        assert_eq!((functions.len(), functions[0].name.as_str()), (1, "k"));
        let guarded = &functions[0].instructions[1];
        assert!(guarded.has_predicate);
        assert_eq!((guarded.address, guarded.operands.as_str()), (0x10, "[R9], [R2.64]"));
        let counts = count(&functions);
        let named = |names: [&str; 4]| names.map(|name| (name.to_string(), 1)).into();
        assert_eq!(counts, named(["EXIT", "HGMMA.64x128x16.F32", "LDC", "LDGSTS.E.BYPASS.128"]));
        assert_eq!(without_modifiers(&counts), named(["EXIT", "HGMMA", "LDC", "LDGSTS"]));
    }
}
