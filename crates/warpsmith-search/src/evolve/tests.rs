//! The decisions of every mode, with scripted replies.

use warpsmith_model::lab::{LabFiles, scaffold};
use warpsmith_model::{CandidateId, CudaInfo, DeviceInfo};

use super::population::tests::member;
use super::*;

fn device() -> DeviceInfo {
    DeviceInfo {
        name: "a test machine".to_string(),
        threads: 2,
        l1d_bytes: 32 << 10,
        l2_bytes: 1 << 20,
        l3_bytes: 32 << 20,
        vector_bytes: 32,
        features: vec!["avx2".to_string()],
        ticks_per_s: None,
        cuda: None,
    }
}

fn lab() -> Arc<Lab> {
    let files: LabFiles = scaffold("blend").expect("a lab").into_iter().collect();
    Arc::new(Lab::parse(&files).expect("a valid lab"))
}

/// An evolution of the new lab's naive kernel, whose time is 10 s.
fn evolution(mode: EvolutionMode, seed: u64) -> Evolution {
    let lab = lab();
    let kernel = lab.kernel("00_naive").expect("the naive kernel").clone();
    let workloads: Vec<String> = lab.workloads.iter().map(|it| it.name.clone()).collect();
    let first = Member {
        source: kernel.source.clone(),
        thought: "baseline".to_string(),
        ..member(None, Some(10.0))
    };
    let config = EvolutionConfig {
        mode,
        seed,
        feedback: true,
        models: vec![ModelChoice { name: "one".to_string(), weight: 1.0 }],
        policy: ModelPolicy::Weights,
        task: task(&lab, &kernel, &workloads, &device()),
        lab,
        kernel,
    };
    Evolution::new(config, first)
}

/// A reply whose source differs from the seed's by a constant.
fn reply(evolution: &Evolution, number: u32) -> String {
    let source = &evolution.seed.source;
    format!(
        "name: kernel {number}\ncode:\n```\n{source}\nstatic const int n{number} = 1;\n```\n\
         thought: idea {number}"
    )
}

/// Answers the next call with a candidate of this time, or one that failed.
fn step(evolution: &mut Evolution, time_s: Option<f64>) -> PlannedCall {
    let plan = evolution.plan();
    let text = reply(evolution, plan.number);
    let proposed = evolution.judge(&text).expect("a new candidate");
    evolution.called(&plan, 0.0, 10);
    let is_best = time_s.is_some_and(|time_s| time_s < evolution.best().time_s().unwrap_or(0.0));
    let member = Member {
        title: proposed.title.clone(),
        thought: proposed.thought.clone(),
        source: proposed.kernel.source.clone(),
        ..member(Some(plan.number), time_s)
    };
    evolution.observe(&plan, &proposed, member, is_best);
    plan
}

fn holds(plan: &PlannedCall, words: &[&str], absent: &[&str]) {
    let text = &plan.prompt.user;
    for word in words {
        assert!(text.contains(word), "`{word}` is not in\n{text}");
    }
    for word in absent {
        assert!(!text.contains(word), "`{word}` is in\n{text}");
    }
}

#[test]
fn every_prompt_states_task_rules_machine_and_format() {
    for mode in EvolutionMode::ALL {
        let plan = evolution(mode, 1).plan();
        let words = ["# The task", "# The rules", "# The machine", "a test machine", "tunables:"];
        holds(&plan, &words, &[]);
        let lab = lab();
        for name in lab.tensors.iter().map(|it| &it.name) {
            holds(&plan, &[&format!("`{name}`")], &[]);
        }
        for workload in &lab.workloads {
            holds(&plan, &[&workload.name], &[]);
        }
    }
}

#[test]
fn free_shows_the_best_source_alone_and_asks_for_code_alone() {
    let mut evolution = evolution(EvolutionMode::Free, 1);
    let absent = ["thought:", "idea", "diagnosis", "Its time", "Parent"];
    let first = step(&mut evolution, Some(5.0));
    assert_eq!((first.operator, first.parents.len()), (Operator::Init, 0));
    holds(&first, &["The fastest correct kernel so far", "no explanation"], &absent);
    let second = step(&mut evolution, Some(7.0));
    holds(&second, &["n0 = 1"], &absent);
    // The slower one is not the best, hence not shown; free has no population.
    let third = step(&mut evolution, None);
    holds(&third, &["n0 = 1"], &["n1 = 1"]);
    let fourth = evolution.plan();
    assert_eq!(fourth.operator, Operator::Init);
    holds(&fourth, &["n0 = 1", "failure of m2"], &["n2 = 1"]);
}

#[test]
fn insight_shows_the_best_with_its_limits_and_three_thoughts() {
    let mut evolution = evolution(EvolutionMode::Insight, 1);
    let first = step(&mut evolution, Some(5.0));
    holds(&first, &["diagnosis of seed", "| baseline", "10.0 s"], &["idea"]);
    for time_s in [6.0, 7.0, 8.0, 9.0] {
        let plan = step(&mut evolution, Some(time_s));
        assert_eq!((plan.operator, plan.parents.len()), (Operator::Init, 0));
    }
    step(&mut evolution, None);
    let plan = evolution.plan();
    holds(&plan, &["| kernel 0", "n0 = 1", "diagnosis of m0", "thought:"], &["n1 = 1", "Parent"]);
    let (_, thoughts) = plan.prompt.user.split_once("# What earlier").expect("thoughts");
    let (thoughts, _) = thoughts.split_once("\n#").expect("a next section");
    assert_eq!(thoughts.matches("| idea").count(), 3, "{thoughts}");
    assert!(!thoughts.contains("idea 5"), "the thought of a failure: {thoughts}");
}

#[test]
fn full_breeds_as_soon_as_two_are_valid() {
    let mut evolution = evolution(EvolutionMode::Full, 1);
    let first = step(&mut evolution, None);
    assert_eq!(first.operator, Operator::Init, "the seed alone cannot be crossed");
    let second = step(&mut evolution, Some(12.0));
    assert_eq!(second.operator, Operator::Init, "what failed cannot be crossed");
    let third = step(&mut evolution, Some(8.0));
    assert_eq!((third.operator, third.parents.len()), (Operator::Crossover, 2));
    holds(&third, &["# Parent 1", "# Parent 2", "n1 = 1", "diagnosis of m1", "12.0 s"], &[]);
    let fourth = step(&mut evolution, Some(9.0));
    assert_eq!((fourth.operator, fourth.parents.len()), (Operator::Mutation, 1));
    holds(&fourth, &["# Parent 1"], &["# Parent 2"]);
    let fifth = evolution.plan();
    assert_eq!(fifth.operator, Operator::Crossover);
    let known: Vec<CandidateId> = evolution.members().iter().map(|it| it.id).collect();
    assert!(fifth.parents.iter().all(|parent| known.contains(parent)));
}

#[test]
fn best_of_n_asks_the_same_every_time() {
    let mut evolution = evolution(EvolutionMode::BestOfN, 1);
    let first = step(&mut evolution, Some(5.0));
    step(&mut evolution, None);
    let third = evolution.plan();
    assert_eq!(first.prompt, third.prompt);
    holds(&third, &[], &["n0 = 1", "failure of"]);
}

#[test]
fn failures_are_fed_back_only_where_that_is_asked_for() {
    let mut silent = evolution(EvolutionMode::Full, 1);
    silent.config.feedback = false;
    step(&mut silent, None);
    holds(&silent.plan(), &[], &["failure of m0"]);
    let mut told = evolution(EvolutionMode::Full, 1);
    for _ in 0..3 {
        step(&mut told, None);
    }
    holds(&told.plan(), &["failure of m1", "failure of m2"], &["failure of m0"]);
    let plan = told.plan();
    let rejected = told.judge("no code at all").expect_err("no candidate");
    told.called(&plan, 0.0, 1);
    told.rejected(&rejected);
    holds(&told.plan(), &["no fenced block"], &[]);
}

#[test]
fn duplicates_changed_contracts_and_bad_tunables_are_refused() {
    let mut evolution = evolution(EvolutionMode::Free, 1);
    let check = |evolution: &Evolution, text: &str, reason: Rejection, words: &str| {
        let rejected = evolution.judge(text).expect_err(text);
        assert_eq!(rejected.reason, reason, "{rejected:?}");
        assert!(rejected.detail.contains(words), "{rejected:?}");
    };
    let source = evolution.seed.source.clone();
    let seed_again = format!("```\n// the same\n{source}\n```");
    check(&evolution, &seed_again, Rejection::Duplicate, "of the seed");
    let text = reply(&evolution, 0);
    step(&mut evolution, Some(5.0));
    check(&evolution, &text, Rejection::Duplicate, "of call 0");
    let entry = evolution.config.kernel.launches[0].entry.clone();
    let renamed = format!("```\n{}\n```", source.replace(&entry, "other_name"));
    check(&evolution, &renamed, Rejection::ContractChanged, &entry);
    let with = |lines: &str| format!("```\n{source}\nint x;\n```\ntunables:\n{lines}");
    let axis = evolution.config.lab.axes[0].clone();
    check(&evolution, &with(&format!("{axis} = [1]")), Rejection::BadTunables, &axis);
    check(&evolution, &with("CFLAGS = [1]"), Rejection::BadTunables, "CFLAGS");
    let proposed = evolution.judge(&with("ROWS = [4, 8]")).expect("valid");
    assert_eq!(proposed.kernel.tunables.len(), 1);
    assert_eq!(proposed.kernel.name, "e001_unnamed");
    // The same source with other tunables is another candidate; one with none of its own is too.
    evolution.judge(&with("ROWS = [2]")).expect("valid");
}

#[test]
fn an_evolution_is_a_function_of_seed_replies_and_findings() {
    for mode in EvolutionMode::ALL {
        let times =
            [Some(9.0), None, Some(11.0), Some(8.0), None, Some(7.0), Some(7.5), Some(20.0)];
        let run = |seed: u64| -> Vec<PlannedCall> {
            let mut evolution = evolution(mode, seed);
            times.iter().map(|time_s| step(&mut evolution, *time_s)).collect()
        };
        assert_eq!(run(1), run(1), "{mode:?}");
        if mode == EvolutionMode::Full {
            assert_ne!(run(1), run(2), "the seed decides who breeds");
        }
    }
}

proptest::proptest! {
    /// Whatever a model says, it is read or refused.
    #[test]
    fn no_reply_breaks_the_reader(text in "(name:|thought:|tunables:|```|\\\\|#include|%:|[A-Z]+ = \\[|\\]|,|\"|'|/\\*|\\*/|//|\\n|.){0,60}") {
        let evolution = evolution(EvolutionMode::Full, 1);
        let _read_or_refused = evolution.judge(&text);
        let _always_a_text = novelty::normalised(&text);
        proptest::prop_assert!(feedback::quoted(&text).lines().all(|line| line.starts_with("| ")));
    }
}

#[test]
fn a_prompt_for_a_gpu_names_the_grid() {
    let mut with_cuda = device();
    with_cuda.cuda = Some(CudaInfo {
        arch: "sm_90a".to_string(),
        driver: "13.0".to_string(),
        driver_version: None,
        sms: 132,
        warp_size: 32,
        max_threads: 1024,
        smem_per_block: 232_448,
        memory_bytes: 1 << 36,
        unmonitored: None,
    });
    let lab = lab();
    let text = task(&lab, lab.kernel("00_naive").expect("there"), &[], &with_cuda);
    assert!(text.contains("sm_90a") && text.contains("132 multiprocessors"), "{text}");
}

#[test]
fn a_submitted_source_is_held_to_the_rules_for_replies() {
    let files: LabFiles = scaffold("blend").expect("a lab").into_iter().collect();
    let lab = Lab::parse(&files).expect("a valid lab");
    let base = lab.kernel("00_naive").expect("the naive kernel");
    let submit = |source: &str, tunables: &[(String, Vec<i64>)]| {
        submitted(&lab, base, &Submission { title: "Rows at once", source, tunables })
    };
    let declared = [("ROWS".to_string(), vec![4, 1])];
    let (kernel, tunables) = submit("void blend(void);", &declared).expect("a kernel");
    assert!(kernel.name.starts_with("a_rows_at_once_"), "{}", kernel.name);
    assert_eq!((kernel.launches.len(), tunables.len()), (base.launches.len(), 1));
    assert_eq!(kernel.default.get("ROWS").map(ToString::to_string).as_deref(), Some("4"));
    let (again, _) = submit("void blend(void);", &declared).expect("a kernel");
    assert_eq!(again.name, kernel.name, "the same submission is the same kernel");
    let (other, _) = submit("void blend(void);", &[]).expect("a kernel");
    assert_ne!(other.name, kernel.name);
    let refused = |source: &str, tunables: &[(String, Vec<i64>)], reason: Rejection| {
        assert_eq!(submit(source, tunables).expect_err("refused").reason, reason, "{source}");
    };
    refused("int nothing;", &[], Rejection::ContractChanged);
    refused("#include \"/etc/passwd\"\nvoid blend(void);", &[], Rejection::ForbiddenInclude);
    refused(&format!("void blend(void);{}", " ".repeat(70_000)), &[], Rejection::TooLarge);
    refused("void blend(void);", &[("x y".to_string(), vec![1])], Rejection::BadTunables);
    refused("void blend(void);", &[("X".to_string(), Vec::new())], Rejection::BadTunables);
    // A name that would end the declaration and begin another one is no name.
    let sly = "A = [1]\nB".to_string();
    refused("void blend(void);", &[(sly, vec![1])], Rejection::BadTunables);
}
