//! What the CUDA assembler remarks about code that is right but slower than its source asks for.
//!
//! `ptxas` never fails over these: products that should overlap run one after the other, or warps keep
//! the registers that they were to hand over, and the program still computes the right thing.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a remark says is lost.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Loss {
    /// Matrix products that were to overlap (`wgmma`) run one after the other.
    Serialized,
    /// A wait for matrix products that the source does not have.
    InjectedWait,
    /// Registers stay where they are: `setmaxnreg` is ignored.
    Setmaxnreg,
    /// Something else that the compiler calls a potential loss of performance.
    Other,
}

impl Loss {
    /// Returns its name, as contracts write it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Serialized => "serialized",
            Self::InjectedWait => "injected_wait",
            Self::Setmaxnreg => "setmaxnreg",
            Self::Other => "other",
        }
    }

    fn of(message: &str) -> Option<Self> {
        let is_loss = message.contains(LOSS_WORDS);
        if message.contains("wgmma.mma_async instructions are serialized") {
            return Some(Self::Serialized);
        }
        if message.contains("'setmaxnreg' ignored") {
            return Some(Self::Setmaxnreg);
        }
        // An injected `warpgroup.arrive` (C7519) orders registers and waits for nothing; it is no loss.
        if message.contains("warpgroup.wait is injected") {
            return Some(Self::InjectedWait);
        }
        is_loss.then_some(Self::Other)
    }
}

/// What the compiler's words begin with.
const LOSS_WORDS: &str = "Potential Performance Loss";

/// One thing that the compiler remarks about a function.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Remark {
    /// What is lost.
    pub loss: Loss,
    /// The compiler's number for it (`C7511`); empty where it gives none.
    pub code: String,
    /// The function, where the compiler names it; else it is about everything in the module.
    pub function: Option<String>,
    /// The first such remark on the function, in the compiler's words.
    pub message: String,
    /// How many such remarks there are on the function.
    pub count: u32,
}

impl fmt::Display for Remark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (loss, message) = (self.loss.name(), &self.message);
        match self.code.as_str() {
            "" => write!(f, "{loss}: {message}")?,
            code => write!(f, "{loss} ({code}): {message}")?,
        }
        if self.count > 1 { write!(f, " ({} times)", self.count) } else { Ok(()) }
    }
}

/// Reads the remarks in what `nvcc` or NVRTC said, in order; several of a kind on a function are one.
pub fn remarks(log: &str) -> Vec<Remark> {
    let mut found: Vec<Remark> = Vec::new();
    for line in log.lines() {
        let Some(remark) = remark(line) else { continue };
        let is_like = |known: &&mut Remark| {
            (known.loss, &known.code, &known.function)
                == (remark.loss, &remark.code, &remark.function)
        };
        match found.iter_mut().find(is_like) {
            Some(known) => known.count += 1,
            None => found.push(remark),
        }
    }
    found
}

/// Returns the remarks as notes of a trial.
pub fn compiler_notes(log: &str) -> Vec<String> {
    remarks(log).iter().map(|remark| format!("compiler: {remark}")).collect()
}

/// Reads `ptxas info    : (C7511) Potential Performance Loss: ... in the function 'name'`.
fn remark(line: &str) -> Option<Remark> {
    let (_, words) = line.trim_start().strip_prefix("ptxas")?.split_once(':')?;
    let words = words.trim();
    let coded = words.strip_prefix('(').and_then(|rest| rest.split_once(')'));
    let (code, message) = match coded {
        Some((code, message)) if is_code(code) => (code, message.trim()),
        _ => ("", words),
    };
    let loss = Loss::of(message)?;
    let named = message.rsplit_once("function '").map(|(_, name)| name);
    let function = named.and_then(|name| name.split('\'').next()).map(str::to_string);
    let message = message.strip_prefix(LOSS_WORDS).map_or(message, |it| it.trim_start_matches(':'));
    let message = message.split_whitespace().collect::<Vec<_>>().join(" ");
    Some(Remark { loss, code: code.to_string(), function, message, count: 1 })
}

fn is_code(word: &str) -> bool {
    let digits = word.strip_prefix('C').unwrap_or_default();
    !digits.is_empty() && digits.bytes().all(|letter| letter.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str, expected: Option<(Loss, &str, Option<&str>)>) {
        let found = remarks(line);
        let read = found.first().map(|it| (it.loss, it.code.as_str(), it.function.as_deref()));
        assert_eq!(read, expected, "{line}");
    }

    /// The words of ptxas 13.0, all of those that concern `wgmma` and `setmaxnreg`.
    #[test]
    fn losses_are_told_apart() {
        let serialized = |why: &str| {
            format!(
                "ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are \
                 serialized due to {why} in the function 'fwd'"
            )
        };
        for why in [
            "the presence of Extern calls",
            "wgmma pipeline crossing function boundary at a function call",
            "insufficient register resources for the wgmma pipeline",
            "non wgmma instructions defining input registers of a wgmma between start and end of \
             the pipeline stage",
            "ill formed pipeline stage",
            "program dependence on compiler-inserted WG.DP in divergent path",
        ] {
            check(&serialized(why), Some((Loss::Serialized, "C7510", Some("fwd"))));
        }
        let without_in = "ptxas info : (C7512) Potential Performance Loss: wgmma.mma_async instructions \
                          are serialized due to insufficient register resources for the function 'fwd'";
        check(without_in, Some((Loss::Serialized, "C7512", Some("fwd"))));
        for why in [
            "'setmaxnreg' ignored to allow debugging.",
            "'setmaxnreg' ignored; unable to determine register count at entry.",
            "'setmaxnreg' ignored to maintain minimum register requirements.",
        ] {
            let line = format!("ptxas info    : (C7508) Potential Performance Loss: {why}");
            check(&line, Some((Loss::Setmaxnreg, "C7508", None)));
        }
        check(
            "ptxas info    : (C7517) warpgroup.wait is injected in around line 47 by compiler to \
             allow use of registers defined by GMMA in function 'fwd'",
            Some((Loss::InjectedWait, "C7517", Some("fwd"))),
        );
        check(
            "ptxas warning : Potential Performance Loss: something new",
            Some((Loss::Other, "", None)),
        );
    }

    #[test]
    fn all_else_in_a_log_is_no_remark() {
        for line in [
            "ptxas info    : (C7519) warpgroup.arrive is injected in around line 106 by compiler to \
             allow use of registers in GMMA in function 'fwd'",
            "ptxas info    : Compiling entry function 'setmaxnreg' for 'sm_90a'",
            "ptxas info    : Function properties for serialized_wgmma",
            "ptxas info    : Used 30 registers, used 0 barriers",
            "k.cu(3): warning: Potential Performance Loss: said by a source",
            "",
        ] {
            check(line, None);
        }
    }

    #[test]
    fn remarks_of_a_kind_on_a_function_are_counted() {
        let wait = |line: u32, function: &str| {
            format!(
                "ptxas info    : (C7517) warpgroup.wait is injected in around line {line} by compiler \
                 to allow use of registers defined by GMMA in function '{function}'\n"
            )
        };
        let found = remarks(&[wait(84, "fwd"), wait(127, "fwd"), wait(9, "bwd")].concat());
        let counts: Vec<u32> = found.iter().map(|remark| remark.count).collect();
        assert_eq!(counts, [2, 1]);
        assert_eq!(
            found[0].to_string(),
            "injected_wait (C7517): warpgroup.wait is injected in around line 84 by compiler to allow \
             use of registers defined by GMMA in function 'fwd' (2 times)"
        );
    }
}
