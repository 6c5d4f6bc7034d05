//! Evolution of a kernel's source by language models.
//!
//! An [`Evolution`] decides what is asked ([`Evolution::plan`]), what a reply is worth before
//! anything is compiled ([`Evolution::judge`]), and what later prompts are made of
//! ([`Evolution::observe`]). Who answers is behind [`Llm`]; who evaluates is the campaign.
//!
//! It is no [`crate::Proposer`]: a reply that holds no candidate costs a trial all the same, and a
//! candidate is a source before it is a choice of parameters. The parameters of each new source are
//! searched by the proposers of this crate.
//!
//! Every decision is a function of the seed, the replies and what became of the candidates, so an
//! evolution is resumed and replayed by showing it the same replies and findings again.

mod choice;
mod diagnosis;
mod feedback;
mod llm;
mod novelty;
mod population;
mod prompt;
mod reply;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::Arc;

use warpsmith_model::lab::{Kernel, Tunable, parse_kernel, with_tunables};
use warpsmith_model::rng::Rng;
use warpsmith_model::{
    BlobId, CandidateId, EvolutionMode, Lab, ModelChoice, ModelPolicy, Operator, Prompt, Rejection,
};

pub use diagnosis::{diagnosis, insight};
pub use feedback::failure;
pub use llm::{Completion, Llm, LlmError};
pub use population::{Member, POPULATION, Standing};
pub use prompt::{brief, task};
pub use reply::{MAX_SOURCE_BYTES, Rejected, Reply, parse};

use choice::Models;
use population::Population;
use prompt::Parts;

/// Thoughts that a prompt holds.
const THOUGHTS: usize = 3;
/// Failures that a prompt holds.
const FAILURES: usize = 2;

/// What an evolution needs to start.
#[derive(Clone, Debug)]
pub struct EvolutionConfig {
    /// Which information goes into prompts.
    pub mode: EvolutionMode,
    /// Determines every random choice.
    pub seed: u64,
    /// Whether failures are fed back.
    pub feedback: bool,
    /// The models; at least one.
    pub models: Vec<ModelChoice>,
    /// How one of them is chosen.
    pub policy: ModelPolicy,
    /// The lab.
    pub lab: Arc<Lab>,
    /// The kernel whose contract every source keeps.
    pub kernel: Kernel,
    /// What is computed, as [`task`] says it.
    pub task: String,
}

/// An evolution in progress.
#[derive(Clone, Debug)]
pub struct Evolution {
    config: EvolutionConfig,
    seed: Member,
    population: Population,
    models: Models,
    /// The sources seen so far, and where: none for the seed.
    seen: HashMap<BlobId, Option<u32>>,
    thoughts: Vec<String>,
    /// Title and failure, the newest last.
    failures: Vec<(String, String)>,
    next_call: u32,
    /// Counts the calls that had parents, of which crossover and mutation take turns.
    bred: u32,
}

/// What to ask next.
#[derive(Clone, Debug, PartialEq)]
pub struct PlannedCall {
    /// The call's number.
    pub number: u32,
    /// How the new source is to be made.
    pub operator: Operator,
    /// Of which candidates.
    pub parents: Vec<CandidateId>,
    /// The model to ask.
    pub model: String,
    /// What to ask it.
    pub prompt: Prompt,
}

/// A new candidate, as a reply proposed it.
#[derive(Clone, Debug)]
pub struct Proposed {
    /// What the model calls it.
    pub title: String,
    /// What the model had in mind.
    pub thought: String,
    /// The kernel, with the contract of the one that is evolved and the reply's own tunables.
    pub kernel: Kernel,
    /// The tunables that the reply declares.
    pub tunables: Vec<Tunable>,
}

impl Evolution {
    /// Starts from the author's kernel, which is a member that costs no trial.
    pub fn new(config: EvolutionConfig, seed: Member) -> Self {
        let models = Models::new(config.policy, &config.models);
        let fingerprint = novelty::fingerprint(&seed.source, &[]);
        Self {
            population: Population::new(seed.clone()),
            seed,
            models,
            seen: HashMap::from([(fingerprint, None)]),
            thoughts: Vec::new(),
            failures: Vec::new(),
            next_call: 0,
            bred: 0,
            config,
        }
    }

    /// Returns the candidates that the next prompt describes and of which no profile is known yet.
    /// [`Evolution::inform`] says what theirs show; it may change that prompt, but nothing else.
    pub fn unprofiled(&self) -> Vec<CandidateId> {
        let operator = self.operator();
        let described = match (self.config.mode, operator) {
            (EvolutionMode::Free | EvolutionMode::BestOfN, _) => Vec::new(),
            (_, Operator::Init) => vec![self.population.best()],
            (_, Operator::Crossover | Operator::Mutation) => self.parents(operator),
        };
        let is_unknown =
            |member: &&Member| matches!(member.standing, Standing::Valid { insight: None, .. });
        described.into_iter().filter(is_unknown).map(|member| member.id).collect()
    }

    /// Learns what a profile of a candidate shows.
    pub fn inform(&mut self, id: CandidateId, insight: &str) {
        self.population.inform(id, insight);
    }

    fn rng(&self, purpose: &str) -> Rng {
        let number = self.next_call;
        Rng::derive(self.config.seed, &format!("{purpose} of call {number}"))
    }

    fn parents(&self, operator: Operator) -> Vec<&Member> {
        let n_parents = match operator {
            Operator::Init => 0,
            Operator::Crossover => 2,
            Operator::Mutation => 1,
        };
        self.population.draw(n_parents, &mut self.rng("parents"))
    }

    /// Decides what to ask next. Asked twice, it answers the same.
    pub fn plan(&self) -> PlannedCall {
        let config = &self.config;
        let number = self.next_call;
        let operator = self.operator();
        let parents = self.parents(operator);
        let thoughts = match config.mode {
            EvolutionMode::Free | EvolutionMode::BestOfN => Vec::new(),
            EvolutionMode::Insight | EvolutionMode::Full => {
                self.some_thoughts(&mut self.rng("thoughts"))
            }
        };
        let best = match config.mode {
            EvolutionMode::BestOfN => &self.seed,
            _ => self.population.best(),
        };
        let failures = match config.mode {
            EvolutionMode::BestOfN => &[],
            _ if !config.feedback => &[],
            _ => &self.failures[self.failures.len().saturating_sub(FAILURES)..],
        };
        let prompt = prompt::render(&Parts {
            mode: config.mode,
            operator,
            task: &config.task,
            best,
            parents: &parents,
            thoughts: &thoughts,
            failures,
        });
        PlannedCall {
            number,
            operator,
            parents: parents.iter().map(|parent| parent.id).collect(),
            model: self.models.draw(&mut self.rng("model")).to_string(),
            prompt,
        }
    }

    /// Crossover and mutation take turns once there are two to cross.
    fn operator(&self) -> Operator {
        let can_breed = self.config.mode == EvolutionMode::Full && self.population.n_valid() >= 2;
        match (can_breed, self.bred.is_multiple_of(2)) {
            (false, _) => Operator::Init,
            (true, true) => Operator::Crossover,
            (true, false) => Operator::Mutation,
        }
    }

    fn some_thoughts(&self, rng: &mut Rng) -> Vec<&str> {
        let mut thoughts: Vec<&str> = self.thoughts.iter().map(String::as_str).collect();
        rng.shuffle(&mut thoughts);
        thoughts.truncate(THOUGHTS);
        thoughts
    }

    /// Says what a reply to the next call is worth: a new candidate, or why it is none.
    pub fn judge(&self, text: &str) -> Result<Proposed, Rejected> {
        let Reply { title, thought, source, tunables } = reply::parse(text)?;
        check_entries(&self.config.kernel, &source)?;
        if let Some(call) = self.seen.get(&novelty::fingerprint(&source, &tunables)) {
            let of = call.map_or("of the seed".to_string(), |call| format!("of call {call}"));
            let detail = format!("the same source as that {of}, comments and white space aside");
            return Err(Rejected::new(Rejection::Duplicate, detail));
        }
        let title = if title.is_empty() { "unnamed".to_string() } else { title };
        let name = format!("e{:03}_{}", self.next_call, slug(&title));
        let kernel = extended(&self.config.lab, &self.config.kernel, &name, &source, &tunables)?;
        Ok(Proposed { title, thought, kernel, tunables })
    }

    /// Counts a call, whatever came of it; the next plan is another one.
    pub fn called(&mut self, plan: &PlannedCall, cost: f64, tokens: u64) {
        self.models.asked(&plan.model, cost, tokens);
        if plan.operator != Operator::Init {
            self.bred += 1;
        }
        self.next_call = plan.number + 1;
    }

    /// Learns that a reply held no candidate.
    pub fn rejected(&mut self, rejected: &Rejected) {
        let failure =
            format!("the answer could not be used\n{}", feedback::quoted(&rejected.detail));
        self.failures.push(("an answer".to_string(), failure));
    }

    /// Learns what became of a candidate. `is_best` says that it was shown to be faster than the
    /// best so far.
    pub fn observe(
        &mut self,
        plan: &PlannedCall,
        proposed: &Proposed,
        member: Member,
        is_best: bool,
    ) {
        let fingerprint = novelty::fingerprint(&proposed.kernel.source, &proposed.tunables);
        self.seen.insert(fingerprint, Some(plan.number));
        match &member.standing {
            Standing::Valid { .. } if !member.thought.is_empty() => {
                self.thoughts.push(member.thought.clone());
            }
            Standing::Valid { .. } => {}
            Standing::Invalid { failure } => {
                self.failures.push((member.title.clone(), failure.clone()));
            }
        }
        if is_best {
            self.models.won(&plan.model);
        }
        self.population.enter(member, is_best);
    }

    /// Learns that a candidate was compiled to the very binary of an earlier one: it is no new member.
    pub fn twin(&mut self, plan: &PlannedCall, proposed: &Proposed) {
        let fingerprint = novelty::fingerprint(&proposed.kernel.source, &proposed.tunables);
        self.seen.insert(fingerprint, Some(plan.number));
        let failure = "it compiles to the same program as an earlier kernel".to_string();
        self.failures.push((proposed.title.clone(), failure));
    }

    /// Returns the member that nobody was shown to be faster than.
    pub fn best(&self) -> &Member {
        self.population.best()
    }

    /// Returns the members, the best first.
    pub fn members(&self) -> &[Member] {
        self.population.members()
    }
}

/// A source that was not asked for in a prompt, with what goes with it.
#[derive(Clone, Debug)]
pub struct Submission<'a> {
    /// What its author calls it; may be empty.
    pub title: &'a str,
    /// The complete source.
    pub source: &'a str,
    /// The tunables that it declares, with their values, the preferred one first.
    pub tunables: &'a [(String, Vec<i64>)],
}

/// Makes a kernel of a source that keeps the contract of another kernel, or says why it is none: the
/// same rules as for the replies of models. The kernel is named after the title and the contents, so
/// the same submission is the same kernel.
pub fn submitted(
    lab: &Lab,
    base: &Kernel,
    submission: &Submission<'_>,
) -> Result<(Kernel, Vec<Tunable>), Rejected> {
    let Submission { title, source, tunables } = submission;
    reply::check_source(source)?;
    let tunables = reply::declared(tunables)?;
    check_entries(base, source)?;
    let title = if title.is_empty() { "unnamed" } else { title };
    let contents = format!("{}\n{tunables:?}\n{source}", base.contract);
    let name = format!("a_{}_{}", slug(title), &BlobId::of(contents.as_bytes()).short()[..8]);
    let kernel = extended(lab, base, &name, source, &tunables)?;
    Ok((kernel, tunables))
}

/// Refuses a source without the functions that the contract launches.
fn check_entries(kernel: &Kernel, source: &str) -> Result<(), Rejected> {
    for launch in &kernel.launches {
        if !has_word(source, &launch.entry) {
            let detail = format!("the source does not define `{}`", launch.entry);
            return Err(Rejected::new(Rejection::ContractChanged, detail));
        }
    }
    Ok(())
}

/// Makes a kernel of a source, a contract and further tunables.
fn extended(
    lab: &Lab,
    base: &Kernel,
    name: &str,
    source: &str,
    tunables: &[Tunable],
) -> Result<Kernel, Rejected> {
    let refuse = |detail: String| Rejected::new(Rejection::BadTunables, detail);
    let contract = with_tunables(&base.contract, tunables).map_err(refuse)?;
    parse_kernel(lab, name, &contract, source)
        .map_err(|errors| refuse(first_line(&errors.to_string())))
}

/// Says whether a text holds a word as such, not as a part of another.
fn has_word(text: &str, word: &str) -> bool {
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    text.match_indices(word).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = text[at + word.len()..].chars().next();
        !before.is_some_and(is_part) && !after.is_some_and(is_part)
    })
}

/// Makes a part of a kernel's name.
fn slug(title: &str) -> String {
    let plain = |letter: char| {
        if letter.is_ascii_alphanumeric() { letter.to_ascii_lowercase() } else { '_' }
    };
    let text: String = title.chars().map(plain).take(24).collect();
    let words: Vec<&str> = text.split('_').filter(|word| !word.is_empty()).collect();
    if words.is_empty() { "unnamed".to_string() } else { words.join("_") }
}

fn first_line(text: &str) -> String {
    text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default().trim().to_string()
}
