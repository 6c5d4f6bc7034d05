//! The innermost loops of machine code, cut where something is waited for or said to others: what runs beside which
//! products and copies is the compiler's decision, and only the listing shows it.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::sass::{Function, Instruction};

/// One innermost loop. Loops that only wait, as those behind an mbarrier's, are parts of the one around them.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Loop {
    pub function: String,
    /// Of its first instruction.
    pub address: u64,
    pub n_instructions: u32,
    pub sections: Vec<Section>,
}

/// What stands between two points of order.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Section {
    /// What comes first, in words (`products <= 1`); empty at the beginning of the loop.
    pub after: Vec<String>,
    /// Names without modifiers, counted.
    pub instructions: BTreeMap<String, u32>,
}

/// Finds the innermost loops of functions, the longest first.
pub fn innermost(functions: &[Function]) -> Vec<Loop> {
    let mut loops: Vec<Loop> = functions.iter().flat_map(loops_of).collect();
    loops.sort_by_key(|it| std::cmp::Reverse(it.n_instructions));
    loops
}

fn loops_of(function: &Function) -> Vec<Loop> {
    let graph = Graph::new(&function.instructions);
    let bodies = graph.loop_bodies();
    let (waits, rest): (Vec<&BTreeSet<usize>>, Vec<&BTreeSet<usize>>) =
        bodies.values().partition(|body| graph.only_waits(body));
    let in_wait: BTreeSet<usize> = waits.into_iter().flatten().copied().collect();
    let is_innermost =
        |body: &BTreeSet<usize>| !rest.iter().any(|other| *other != body && other.is_subset(body));
    let mut loops = Vec::new();
    for body in rest.iter().filter(|body| is_innermost(body)) {
        let blocks = body.iter().filter(|block| !in_wait.contains(block));
        let code: Vec<&Instruction> = blocks.flat_map(|block| graph.code(*block)).collect();
        let Some(first) = code.first() else { continue };
        loops.push(Loop {
            function: function.name.clone(),
            address: first.address,
            n_instructions: code.len() as u32,
            sections: sections(&code),
        });
    }
    loops
}

// --- Order -----------------------------------------------------------------------------------------------------

fn sections(code: &[&Instruction]) -> Vec<Section> {
    let mut sections = vec![Section::default()];
    for instruction in code {
        match point_of_order(instruction) {
            Some(words) => match sections.last_mut() {
                Some(last) if last.instructions.is_empty() => last.after.push(words),
                _ => sections.push(Section { after: vec![words], ..Section::default() }),
            },
            None if is_bookkeeping(instruction) => {}
            None => {
                if let Some(last) = sections.last_mut() {
                    *last.instructions.entry(instruction.plain_name().to_string()).or_insert(0) +=
                        1;
                }
            }
        }
    }
    sections.retain(|section| !section.after.is_empty() || !section.instructions.is_empty());
    sections
}

/// Says what an instruction waits for, or whom it tells; none if it does neither.
fn point_of_order(instruction: &Instruction) -> Option<String> {
    let name = instruction.name.as_str();
    let last = instruction.operands.rsplit(", ").next().unwrap_or_default();
    let pending = u64::from_str_radix(last.trim_start_matches("0x"), 16).unwrap_or(0);
    let words = match instruction.plain_name() {
        "WARPGROUP" if name.contains("DEPBAR") => format!("products <= {pending}"),
        "DEPBAR" => format!("copies <= {pending}"),
        "BAR" if name.contains("ARV") => "barrier: arrive".to_string(),
        "BAR" => "barrier".to_string(),
        "UCGABAR_WAIT" => "cluster".to_string(),
        "UCGABAR_ARV" => "cluster: arrive".to_string(),
        "SYNCS" if name.contains("PHASECHK") => "mbarrier".to_string(),
        "SYNCS" if name.contains("ARRIVE") => "mbarrier: arrive".to_string(),
        "MEMBAR" => "memory".to_string(),
        _ => return None,
    };
    Some(words)
}

/// Whether an instruction does nothing but lead to others.
fn is_bookkeeping(instruction: &Instruction) -> bool {
    matches!(
        instruction.plain_name(),
        "BRA" | "BSSY" | "BSYNC" | "NOP" | "WARPSYNC" | "WARPGROUP" | "YIELD" | "EXIT"
    )
}

// --- Control flow ----------------------------------------------------------------------------------------------

/// Blocks of instructions that run one after the other, and who follows whom.
struct Graph<'a> {
    code: &'a [Instruction],
    /// Indices of each block's first instruction, and at last their number.
    bounds: Vec<usize>,
    followers: Vec<Vec<usize>>,
}

impl<'a> Graph<'a> {
    fn new(code: &'a [Instruction]) -> Self {
        let place_of: BTreeMap<u64, usize> =
            code.iter().enumerate().map(|(place, it)| (it.address, place)).collect();
        let target_of = |it: &Instruction| branch_target(it).and_then(|to| place_of.get(&to));
        let mut starts = BTreeSet::from([0, code.len()]);
        for (place, instruction) in code.iter().enumerate() {
            if let Some(target) = target_of(instruction) {
                starts.insert(*target);
            }
            if ends_block(instruction) {
                starts.insert(place + 1);
            }
        }
        let bounds: Vec<usize> = starts.into_iter().collect();
        let n_blocks = bounds.len() - 1;
        let block_at = |place: usize| bounds.binary_search(&place).ok().filter(|it| *it < n_blocks);
        let followers = (0..n_blocks)
            .map(|block| {
                let last = &code[bounds[block + 1] - 1];
                let target = target_of(last).and_then(|place| block_at(*place));
                let next = may_go_on(last).then(|| block_at(bounds[block + 1])).flatten();
                target.into_iter().chain(next).collect()
            })
            .collect();
        Self { code, bounds, followers }
    }

    fn code(&self, block: usize) -> &'a [Instruction] {
        &self.code[self.bounds[block]..self.bounds[block + 1]]
    }

    /// The blocks of every loop, by its first. A loop is what reaches a branch back to a block that all ways to the
    /// branch lead through.
    fn loop_bodies(&self) -> BTreeMap<usize, BTreeSet<usize>> {
        let mut before = vec![Vec::new(); self.followers.len()];
        for (block, followers) in self.followers.iter().enumerate() {
            followers.iter().for_each(|follower| before[*follower].push(block));
        }
        let dominators = self.immediate_dominators(&before);
        let leads_through = |block: usize, head: usize| {
            let up = |it: &usize| dominators[*it].filter(|above| above != it);
            let is_reached = dominators[block].is_some();
            is_reached && std::iter::successors(Some(block), up).any(|it| it == head)
        };
        let mut bodies: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
        for (block, followers) in self.followers.iter().enumerate() {
            for head in followers.iter().filter(|head| leads_through(block, **head)) {
                let body = bodies.entry(*head).or_insert_with(|| BTreeSet::from([*head]));
                let mut open = vec![block];
                while let Some(member) = open.pop() {
                    if body.insert(member) {
                        open.extend(&before[member]);
                    }
                }
            }
        }
        bodies
    }

    /// For each block the last other one that every way to it leads through; the first has itself, and those out of
    /// reach none. (Cooper, Harvey and Kennedy: A Simple, Fast Dominance Algorithm.)
    fn immediate_dominators(&self, before: &[Vec<usize>]) -> Vec<Option<usize>> {
        let order = self.in_order();
        let mut rank = vec![usize::MAX; self.followers.len()];
        order.iter().enumerate().for_each(|(place, block)| rank[*block] = place);
        let mut found: Vec<Option<usize>> = vec![None; self.followers.len()];
        if let Some(first) = found.first_mut() {
            *first = Some(0);
        }
        let mut changed = true;
        while changed {
            changed = false;
            for block in order.iter().skip(1) {
                let mut known = before[*block].iter().copied().filter(|it| found[*it].is_some());
                let Some(mut common) = known.next() else { continue };
                for mut other in known {
                    while common != other {
                        let later =
                            if rank[common] > rank[other] { &mut common } else { &mut other };
                        *later = found[*later].unwrap_or(0);
                    }
                }
                if found[*block] != Some(common) {
                    found[*block] = Some(common);
                    changed = true;
                }
            }
        }
        found
    }

    /// The blocks that can be reached, each before those that follow it, branches back aside.
    fn in_order(&self) -> Vec<usize> {
        let mut order = Vec::new();
        let mut seen = vec![false; self.followers.len()];
        let mut open: Vec<(usize, usize)> = Vec::new();
        if let Some(first) = seen.first_mut() {
            *first = true;
            open.push((0, 0));
        }
        while let Some((block, next)) = open.pop() {
            match self.followers[block].get(next) {
                Some(&follower) => {
                    open.push((block, next + 1));
                    if !std::mem::replace(&mut seen[follower], true) {
                        open.push((follower, 0));
                    }
                }
                None => order.push(block),
            }
        }
        order.reverse();
        order
    }

    /// Whether a loop does nothing but ask again whether something has come.
    fn only_waits(&self, body: &BTreeSet<usize>) -> bool {
        let mut asks = false;
        for instruction in body.iter().flat_map(|block| self.code(*block)) {
            asks |= instruction.name.contains("TRYWAIT") || instruction.name.contains("TRY_ALLOC");
            let is_work = !is_bookkeeping(instruction)
                && !matches!(
                    instruction.plain_name(),
                    "SYNCS" | "USETMAXREG" | "PLOP3" | "NANOSLEEP"
                );
            if is_work {
                return false;
            }
        }
        asks
    }
}

/// Where a branch leads, if that is known.
fn branch_target(instruction: &Instruction) -> Option<u64> {
    if instruction.plain_name() != "BRA" {
        return None;
    }
    let last = instruction.operands.rsplit(|letter: char| letter.is_whitespace()).next()?;
    u64::from_str_radix(last.strip_prefix("0x")?, 16).ok()
}

fn ends_block(instruction: &Instruction) -> bool {
    matches!(instruction.plain_name(), "BRA" | "BRX" | "JMP" | "JMX" | "EXIT" | "RET" | "KILL")
}

/// Whether what follows may run next.
fn may_go_on(instruction: &Instruction) -> bool {
    // `BRA P1, 0x80` and `BRA.U UP0, 0x80` have their condition among the operands.
    let has_condition = instruction.has_predicate || instruction.operands.contains(',');
    !ends_block(instruction) || has_condition
}

#[cfg(test)]
mod tests {
    use super::super::sass::parse;
    use super::*;

    /// A listing with an instruction at every 16th address.
    fn listing(code: &[&str]) -> Vec<Function> {
        let lines =
            code.iter().enumerate().map(|(place, it)| format!("/*{:04x}*/ {it} ;", 16 * place));
        parse(&format!("Function : k\n{}", lines.collect::<Vec<_>>().join("\n")))
    }

    fn counts(pairs: &[(&str, u32)]) -> BTreeMap<String, u32> {
        pairs.iter().map(|(name, count)| (name.to_string(), *count)).collect()
    }

    #[test]
    fn a_loop_is_cut_at_its_waits() {
        let functions = listing(&[
            "LDC R1, c[0x0][0x28]",
            "WARPGROUP.ARRIVE", // 0x10, the loop
            "HGMMA.64x64x16.F32.BF16 R24, gdesc[UR8], RZ",
            "HGMMA.64x64x16.F32.BF16 R88, R92, gdesc[UR8]",
            "WARPGROUP.DEPBAR.LE gsb0, 0x1",
            "MUFU.EX2 R4, R4",
            "WARPGROUP.DEPBAR.LE gsb0, 0x0",
            "@!P1 SYNCS.ARRIVE.TRANS64.A1T0 RZ, [R2+URZ], RZ",
            "MUFU.EX2 R5, R5",
            "FADD R6, R6, R5",
            "@P0 BRA 0x10",
            "EXIT",
            "BRA 0xc0", // behind every function's end
        ]);
        let loops = innermost(&functions);
        assert_eq!(loops.len(), 1);
        let section = |after: &[&str], pairs: &[(&str, u32)]| Section {
            after: after.iter().map(|it| it.to_string()).collect(),
            instructions: counts(pairs),
        };
        assert_eq!((loops[0].address, loops[0].n_instructions), (0x10, 10));
        assert_eq!(
            loops[0].sections,
            [
                section(&[], &[("HGMMA", 2)]),
                section(&["products <= 1"], &[("MUFU", 1)]),
                section(&["products <= 0", "mbarrier: arrive"], &[("FADD", 1), ("MUFU", 1)]),
            ]
        );
    }

    #[test]
    fn asking_again_behind_the_code_is_a_part_of_the_loop_that_waits() {
        let functions = listing(&[
            "MOV R1, R2",
            "SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [UR4], R3", // 0x10, the loop
            "@!P0 BRA 0x70",
            "FFMA R1, R1, R1, R1", // 0x30
            "FFMA R1, R1, R1, R1",
            "@P1 BRA 0x10",
            "EXIT",
            "SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [UR4], R3", // 0x70, asks until it has come
            "@!P0 BRA 0x70",
            "BRA 0x30",
        ]);
        let loops = innermost(&functions);
        assert_eq!(loops.len(), 1, "{loops:?}");
        let [section] = &loops[0].sections[..] else { panic!("{loops:?}") };
        assert_eq!(section.after, ["mbarrier"]);
        assert_eq!(section.instructions, counts(&[("FFMA", 2)]));
    }

    #[test]
    fn only_the_innermost_of_nested_loops_is_shown_and_jumps_forth_make_none() {
        let functions = listing(&[
            "MOV R1, R2",        // 0x00
            "LDG.E R4, [R2.64]", // 0x10, outer
            "@P2 BRA 0x50",      // over the inner loop
            "FADD R1, R1, R4",   // 0x30, inner
            "BRA P1, 0x30",
            "BRA.U UP0, 0x10", // 0x50
            "EXIT",
        ]);
        let loops = innermost(&functions);
        let found: Vec<(u64, u32)> =
            loops.iter().map(|it| (it.address, it.n_instructions)).collect();
        assert_eq!(found, [(0x30, 2)]);
        assert!(innermost(&listing(&["@P0 BRA 0x20", "NOP", "EXIT"])).is_empty());
        // Two ways into it: no block that all of them lead through.
        assert!(
            innermost(&listing(&["@P0 BRA 0x20", "FADD R1, R1, R1", "@P1 BRA 0x10", "EXIT"]))
                .is_empty()
        );
        assert!(innermost(&[Function::default()]).is_empty());
    }
}
