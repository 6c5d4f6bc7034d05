//! The part of the full gate that runs a kernel under sanitizers, where its target has some: they see a
//! race that was lucky on every run, an access beside a tensor that changed nothing, a read of memory
//! that happened to hold the right thing.
//!
//! Kernels run many times slower under them, so they run on small shapes and on the least of the lab's real
//! workloads. The lab's manifest says which these are, and a kernel can know it; so some small shapes are drawn,
//! of those that the gate has judged already, and so are scalars and the distribution of the inputs. What passed
//! on the small shapes and did not come to an end on the real one is noted, as is what a tool itself doubts;
//! everything else that is not clean is a verdict or an error.
//!
//! What a front launches elsewhere runs on the small shapes, too; see [`super::choices`].

use std::sync::Arc;
use std::time::Duration;

use warpsmith_device::target::{CaseId, Fault, Flaw, Program, Sanitized, Sanitizer, Sanitizers};
use warpsmith_device::trace;
use warpsmith_model::lab::{Kernel, Workload};
use warpsmith_model::{CrashCause, Outcome, Params, SANITIZER_NOTE};

use super::bench::{Bench, Stop, Subject};
use super::choices::choices;
use super::shapes;
use crate::bind;
use crate::corpus::{Case, Want};
use crate::error::GateError;

/// How long a launch on a small shape may take; a kernel that needs longer has lost its way.
const SMALL_DEADLINE: Duration = Duration::from_secs(120);
/// How long a launch on a real workload may take before the small shapes have to do.
const REAL_DEADLINE: Duration = Duration::from_secs(60);
/// Operations of a real workload at most: racecheck can be a thousand times slower than the kernel, and
/// naive kernels do some ten billion operations a second even so.
const MOST_FLOPS: f64 = 2e9;

/// Further launches of every small shape, in one loaded module: a kernel can count them, and one that behaves in
/// the first of a module alone would be clean. Racecheck sees a race where one warp is ahead of another, and may not
/// see it in the next launch. A launch costs little once the tool runs.
const FURTHER_LAUNCHES: usize = 17;

/// Drawn shapes beside the lab's proofs. Each costs so many launches under every tool.
const DRAWN_SHAPES: usize = 3;

/// Runs the candidate under every sanitizer of its target.
pub(super) fn check(bench: &mut Bench<'_>, workloads: &[Workload]) -> Result<(), Stop> {
    let Subject::Kernel { kernel, params } = bench.subject else {
        // Libraries are trusted.
        return Ok(());
    };
    if let Some(workload) = workloads.first() {
        let artifact = bench.program(workload)?.artifact;
        bench.notes.extend(bench.target.remarks(&artifact));
    }
    let found = bench.target.sanitizers();
    if matches!(found, Ok(None)) {
        return Ok(());
    }
    if !bench.limits.sanitize {
        bench.notes.push(format!("{SANITIZER_NOTE}ran without sanitizers (--no-sanitizer)"));
        return Ok(());
    }
    let sanitizers = found.map_err(|source| {
        let doing = format!("looking for what `{}` must run under", kernel.name);
        GateError::Target { doing, source }
    })?;
    let Some(sanitizers) = sanitizers else { return Ok(()) };
    let gate = Gate { name: &kernel.name, sanitizers };
    let shapes = small_shapes(bench)?;
    let small = gate.small_runs(bench, kernel, params, &shapes)?;
    if small.is_empty() {
        let words = "serves no small shape, so none was run under them";
        bench.notes.push(format!("{SANITIZER_NOTE}{words}"));
    }
    let real = gate.least_workload(bench, kernel, params, workloads)?;
    let deadline = if real.is_some() { REAL_DEADLINE } else { SMALL_DEADLINE };
    gate.every_tool(bench, small, real, deadline)?;
    let (mut others, mut deadline) = (Vec::new(), Duration::ZERO);
    for choice in choices(bench.subject, &shapes)? {
        let label = choice.label();
        for shape in &choice.elsewhere {
            let (kernel, params) = (choice.kernel, choice.params);
            others.push(gate.small_run(bench, kernel, params, Some(&label), shape)?);
        }
        if !choice.elsewhere.is_empty() {
            deadline += SMALL_DEADLINE;
        } else if !choice.is_chosen {
            let words = "serves no small shape, so it was not run under them";
            bench.notes.push(format!("{SANITIZER_NOTE}{label} {words}"));
        }
    }
    gate.every_tool(bench, others, None, deadline)
}

/// Returns the proof shapes and some drawn ones, as the gate has judged the candidate on them.
fn small_shapes(bench: &mut Bench<'_>) -> Result<Vec<Workload>, Stop> {
    let (lab, seed) = (bench.lab, bench.seed);
    let proofs = lab.proofs.iter().map(|shape| bind::with_drawn_scalars(lab, shape, seed));
    let mut small = proofs.collect::<Result<Vec<_>, _>>()?;
    small.extend(shapes::some_small(bench, DRAWN_SHAPES)?);
    Ok(small)
}

struct Gate<'a> {
    /// The candidate's.
    name: &'a str,
    sanitizers: Sanitizers,
}

/// A program with what it runs on.
struct Run<'a> {
    kernel: &'a Kernel,
    params: &'a Params,
    /// Which of a front's choices it is, where the front itself would choose another on this shape.
    choice: Option<String>,
    shape: Workload,
    /// Whether it is quick enough to be launched again and again.
    is_small: bool,
    program: Program,
    case: Arc<Case>,
}

impl Gate<'_> {
    fn small_runs<'k>(
        &self,
        bench: &mut Bench<'_>,
        kernel: &'k Kernel,
        params: &'k Params,
        shapes: &[Workload],
    ) -> Result<Vec<Run<'k>>, Stop> {
        let subject = Subject::Kernel { kernel, params };
        let mut runs = Vec::new();
        for shape in shapes {
            if subject.serves(shape)? {
                runs.push(self.small_run(bench, kernel, params, None, shape)?);
            }
        }
        Ok(runs)
    }

    fn small_run<'k>(
        &self,
        bench: &mut Bench<'_>,
        kernel: &'k Kernel,
        params: &'k Params,
        choice: Option<&str>,
        shape: &Workload,
    ) -> Result<Run<'k>, Stop> {
        let program = bench.program_of(Subject::Kernel { kernel, params }, shape)?;
        let cases = bench.corpus.proof_cases(bench.target, bench.lab, shape, bench.seed)?;
        // A lab has a distribution of inputs.
        let case = Arc::clone(&cases[bench.rng.below(cases.len())]);
        let (choice, shape) = (choice.map(str::to_string), shape.clone());
        Ok(Run { kernel, params, choice, shape, is_small: true, program, case })
    }

    /// Chooses the workload with the least work, where that is little enough.
    fn least_workload<'k>(
        &self,
        bench: &mut Bench<'_>,
        kernel: &'k Kernel,
        params: &'k Params,
        workloads: &[Workload],
    ) -> Result<Option<Run<'k>>, Stop> {
        let lab = bench.lab;
        let mut least: Option<(f64, &Workload)> = None;
        for workload in workloads {
            let flops = bind::work_size(lab, workload)?.flops;
            if least.is_none_or(|(fewest, _)| flops < fewest) {
                least = Some((flops, workload));
            }
        }
        let Some((flops, workload)) = least else { return Ok(None) };
        if flops > MOST_FLOPS {
            bench.notes.push(format!(
                "{SANITIZER_NOTE}the least workload, {}, has {flops:.1e} operations, more than the \
                 {MOST_FLOPS:.0e} that are run under them; the small shapes alone were",
                workload.name
            ));
            return Ok(None);
        }
        let program = bench.program(workload)?;
        let (inputs, want) = (bench.rng.below(lab.inputs.len()), Want::Exactly(1));
        let cases = bench.corpus.cases(bench.target, lab, workload, inputs, bench.seed, want)?;
        let case = Arc::clone(cases.first().expect("one was asked for"));
        let shape = workload.clone();
        Ok(Some(Run { kernel, params, choice: None, shape, is_small: false, program, case }))
    }

    /// Runs every tool on everything at once, since a tool takes seconds to start; on the small shapes alone
    /// where it does not come to an end with the real one.
    fn every_tool(
        &self,
        bench: &mut Bench<'_>,
        small: Vec<Run<'_>>,
        real: Option<Run<'_>>,
        deadline: Duration,
    ) -> Result<(), Stop> {
        let n_small = small.len();
        let real_name = real.as_ref().map(|run| run.shape.name.clone());
        let all: Vec<Run<'_>> = small.into_iter().chain(real).collect();
        let small = &all[..n_small];
        if all.is_empty() {
            return Ok(());
        }
        let mut clean = Vec::new();
        let mut clean_on_small = Vec::new();
        for tool in self.sanitizers.tools.clone() {
            // Racecheck is so slow that what is clean once is worth knowing.
            let further = if tool == Sanitizer::Racecheck { 0 } else { FURTHER_LAUNCHES };
            match (self.judge(bench, tool, &all, further, deadline)?, &real_name) {
                (Bill::Clean, _) => clean.push(tool),
                (Bill::Doubtful, _) => {}
                (Bill::Unfinished { limit_s }, None) => {
                    return Err(timed_out(tool, small, limit_s));
                }
                (Bill::Unfinished { limit_s }, Some(name)) => {
                    bench.notes.push(format!(
                        "{SANITIZER_NOTE}{} did not finish within {limit_s} s on {name}",
                        tool.name()
                    ));
                    if small.is_empty() {
                        continue;
                    }
                    match self.judge(bench, tool, small, further, SMALL_DEADLINE)? {
                        Bill::Clean => clean_on_small.push(tool),
                        Bill::Doubtful => {}
                        Bill::Unfinished { limit_s } => {
                            return Err(timed_out(tool, small, limit_s));
                        }
                    }
                }
            }
            let is_clean = clean.contains(&tool) || clean_on_small.contains(&tool);
            let goes_on = is_clean && tool == Sanitizer::Racecheck && !small.is_empty();
            if goes_on && !self.stays_clean(bench, tool, small, deadline)? {
                clean.retain(|known| *known != tool);
                clean_on_small.retain(|known| *known != tool);
            }
        }
        self.note_clean(bench, &clean, &all);
        self.note_clean(bench, &clean_on_small, small);
        Ok(())
    }

    /// Looks for what does not come up in every launch. False where the tool lost track; what does not come
    /// to an end stays as clean as it was.
    fn stays_clean(
        &self,
        bench: &mut Bench<'_>,
        tool: Sanitizer,
        small: &[Run<'_>],
        deadline: Duration,
    ) -> Result<bool, Stop> {
        let further = FURTHER_LAUNCHES;
        let bill = self.judge(bench, tool, small, further, deadline)?;
        if let Bill::Unfinished { limit_s } = bill {
            bench.notes.push(format!(
                "{SANITIZER_NOTE}{} did not finish {further} further launches of the small shapes \
                 within {limit_s} s",
                tool.name()
            ));
        }
        Ok(!matches!(bill, Bill::Doubtful))
    }

    fn note_clean(&self, bench: &mut Bench<'_>, clean: &[Sanitizer], runs: &[Run<'_>]) {
        if !clean.is_empty() {
            let tools: Vec<&str> = clean.iter().map(|tool| tool.name()).collect();
            bench.notes.push(format!(
                "{SANITIZER_NOTE}{} found nothing {} ({})",
                tools.join(", "),
                summary(runs),
                self.sanitizers.version
            ));
        }
    }

    /// Runs a tool. What it finds ends the evaluation, what it doubts is noted.
    fn judge(
        &self,
        bench: &mut Bench<'_>,
        tool: Sanitizer,
        runs: &[Run<'_>],
        further: usize,
        deadline: Duration,
    ) -> Result<Bill, Stop> {
        bench.has_time(&names(runs))?;
        Ok(match self.sanitize(bench, tool, runs, further, deadline)? {
            Sanitized::Clean => Bill::Clean,
            Sanitized::Flagged(flaw) => return Err(self.flagged(bench, tool, runs, further, flaw)),
            Sanitized::Unfinished { limit_s } => Bill::Unfinished { limit_s },
            Sanitized::Doubtful(words) => {
                let (tool, place) = (tool.name(), names(runs));
                let note = format!("{SANITIZER_NOTE}{tool} is in doubt about {place}: {words}");
                bench.notes.push(note);
                Bill::Doubtful
            }
        })
    }

    /// Runs every program once, and the small ones so often again, in one loaded module each.
    fn sanitize(
        &self,
        bench: &mut Bench<'_>,
        tool: Sanitizer,
        runs: &[Run<'_>],
        further: usize,
        deadline: Duration,
    ) -> Result<Sanitized, GateError> {
        let _step = trace::step(tool.name());
        let mut watched: Vec<(&Program, CaseId)> = Vec::new();
        watched.extend(runs.iter().map(|run| (&run.program, run.case.id)));
        for run in runs.iter().filter(|run| run.is_small) {
            watched.extend(std::iter::repeat_n((&run.program, run.case.id), further));
        }
        bench.target.sanitize(tool, &watched, deadline).map_err(|source| {
            let doing = format!("running `{}` under {}", self.name, tool.name());
            GateError::Target { doing, source }
        })
    }

    /// Turns a finding into the candidate's outcome.
    fn flagged(
        &self,
        bench: &mut Bench<'_>,
        tool: Sanitizer,
        runs: &[Run<'_>],
        further: usize,
        flaw: Flaw,
    ) -> Stop {
        let runs = self.narrowed(bench, tool, runs, further);
        // What was flagged is the very binary that the gate judged. One with line numbers is another
        // binary with the same instructions; where it cannot be had, the finding stands without them.
        let located = self.with_lines(bench, runs).ok().and_then(|runs| {
            match self.sanitize(bench, tool, &runs, further, SMALL_DEADLINE) {
                Ok(Sanitized::Flagged(located)) => Some(located),
                _ => None,
            }
        });
        let Flaw { message, report } = located.unwrap_or(flaw);
        let cause = CrashCause::Sanitizer { tool: tool.name().to_string(), message, report };
        Stop::Outcome(Box::new(Outcome::Crashed { workload: names(runs), cause }))
    }

    /// Returns the runs of the choice that a finding is about, where it comes up again with it alone.
    fn narrowed<'r, 'k>(
        &self,
        bench: &mut Bench<'_>,
        tool: Sanitizer,
        runs: &'r [Run<'k>],
        further: usize,
    ) -> &'r [Run<'k>] {
        if by_choice(runs).nth(1).is_none() {
            return runs;
        }
        for of_one in by_choice(runs) {
            let answer = self.sanitize(bench, tool, of_one, further, SMALL_DEADLINE);
            if matches!(answer, Ok(Sanitized::Flagged(_))) {
                return of_one;
            }
        }
        runs
    }

    /// Compiles the same programs with line numbers.
    fn with_lines<'k>(
        &self,
        bench: &mut Bench<'_>,
        runs: &[Run<'k>],
    ) -> Result<Vec<Run<'k>>, GateError> {
        let lab = bench.lab;
        let deadline = Duration::from_secs_f64(bench.limits.compile_deadline_s);
        let mut located = Vec::new();
        for run in runs {
            let (kernel, params, shape) = (run.kernel, run.params, run.shape.clone());
            let device = bench.target.info().clone();
            let mut unit = bind::kernel_unit(lab, kernel, params, &shape, &device, deadline)?;
            unit.flags.extend(self.sanitizers.line_flags.iter().cloned());
            let artifact = bench.target.compile(&unit).map_err(|source: Fault| {
                GateError::Target { doing: format!("compiling `{}`", kernel.name), source }
            })?;
            let program = bind::kernel_program(lab, kernel, params, &shape, &device, artifact)?;
            let (choice, case) = (run.choice.clone(), Arc::clone(&run.case));
            let is_small = run.is_small;
            located.push(Run { kernel, params, choice, shape, is_small, program, case });
        }
        Ok(located)
    }
}

/// What a tool's answer comes to.
enum Bill {
    Clean,
    Doubtful,
    Unfinished { limit_s: f64 },
}

fn timed_out(tool: Sanitizer, runs: &[Run<'_>], limit_s: f64) -> Stop {
    let workload = format!("{}, under {}", names(runs), tool.name());
    Stop::Outcome(Box::new(Outcome::TimedOut { workload, limit_s }))
}

/// Names the shapes, and whose choice it is where it is not the candidate's: `odd, wide; odd by ...`.
fn names(runs: &[Run<'_>]) -> String {
    let said = by_choice(runs).map(|of_one| {
        let shapes: Vec<String> = of_one.iter().map(|run| name(&run.shape)).collect();
        let shapes = shapes.join(", ");
        match &of_one[0].choice {
            Some(choice) => format!("{shapes} by {choice}"),
            None => shapes,
        }
    });
    said.collect::<Vec<_>>().join("; ")
}

/// Names a shape; a drawn one by its extents.
fn name(shape: &Workload) -> String {
    if shape.name == shapes::DRAWN { bind::describe_shape(shape) } else { shape.name.clone() }
}

/// Says what was run in few words, however many choices a front has.
fn summary(runs: &[Run<'_>]) -> String {
    if runs.iter().all(|run| run.choice.is_none()) {
        return format!("on {}", names(runs));
    }
    let mut kernels: Vec<(&str, usize)> = Vec::new();
    for of_one in by_choice(runs) {
        let name = of_one[0].kernel.name.as_str();
        match kernels.iter_mut().find(|(known, _)| *known == name) {
            Some((_, choices)) => *choices += 1,
            None => kernels.push((name, 1)),
        }
    }
    let kernels = kernels.iter().map(|(name, choices)| match choices {
        1 => format!("`{name}`"),
        _ => format!("`{name}` with {choices} sets of parameters"),
    });
    let kernels = kernels.collect::<Vec<_>>().join(", ");
    format!("in {} runs of what it launches on other shapes: {kernels}", runs.len())
}

fn by_choice<'r, 'k>(runs: &'r [Run<'k>]) -> impl Iterator<Item = &'r [Run<'k>]> {
    runs.chunk_by(|one, next| one.choice == next.choice)
}
