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

/// What says when, where or how often a kernel runs, as operands name it, and what it tells. The number of the grid is
/// no special register but a constant of the driver's; where it lies from sm_100 on, others lie too.
const TELLTALES: [(&[&str], &str); 4] = [
    (&["SR_CLOCK"], "the cycle counter: a kernel can tell by it that a sanitizer watches"),
    (
        &["SR_GLOBALTIMER"],
        "the global timer: a kernel can tell by it that a sanitizer watches, or wait for a date",
    ),
    (
        &["SMID"],
        "the number of its multiprocessor: a kernel can behave differently on another device",
    ),
    (
        &["c[0x0][0x30]", "c[0x0][0x34]"],
        "the number of its grid: a kernel can tell by it what was launched before it, and that a \
         sanitizer watches",
    ),
];

/// Says which of them machine code reads.
pub fn telltales(functions: &[Function]) -> Vec<String> {
    let reads = |operand: &&str| {
        let all = functions.iter().flat_map(|function| &function.instructions);
        all.into_iter().any(|instruction| instruction.operands.contains(operand))
    };
    let found = TELLTALES.iter().filter(|(operands, _)| operands.iter().any(reads));
    found.map(|(_, words)| format!("the machine code reads {words}")).collect()
}

/// Says what a person should know of machine code; also that nobody could read it.
pub(super) fn remarks(functions: Result<Vec<Function>, Fault>) -> Vec<String> {
    match functions {
        Ok(functions) => telltales(&functions),
        Err(fault) => {
            vec![format!("whether the machine code reads clocks was not looked at: {fault}")]
        }
    }
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

    #[test]
    fn code_that_reads_clocks_is_told_from_code_that_does_not() {
        let functions = parse(
            "Function : k\n/*0000*/ CS2R R2, SR_CLOCKLO ;\n/*0010*/ S2R R4, SR_VIRTUALSMID ;\n\
             /*0020*/ S2R R0, SR_TID.X ;\n",
        );
        let said = telltales(&functions);
        assert_eq!(said.len(), 2, "{said:?}");
        assert!(said[0].contains("cycle counter") && said[1].contains("multiprocessor"));
        assert!(telltales(&parse("Function : k\n/*0000*/ S2R R0, SR_TID.X ;\n")).is_empty());
        // Constants of the driver's: the stack, blocks, the grid's number; and parameters.
        let constants =
            |at: &str| telltales(&parse(&format!("/*0000*/ LDC.64 R2, c[0x0][{at}] ;\n")));
        assert!(constants("0x30")[0].contains("number of its grid"));
        for at in ["0x0", "0xc", "0x28", "0x210", "0x300", "0x37c", "0x380"] {
            assert!(constants(at).is_empty(), "{at}");
        }
    }

    #[test]
    fn machine_code_that_nobody_could_read_is_said() {
        let said = remarks(Err(Fault::Unavailable("there is no cuobjdump".to_string())));
        assert_eq!(
            said,
            ["whether the machine code reads clocks was not looked at: there is no cuobjdump"]
        );
        assert!(remarks(Ok(Vec::new())).is_empty());
    }
}
