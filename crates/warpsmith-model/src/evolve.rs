//! Evolution of sources by language models: what was asked, what came back, what it cost.
//!
//! An evolution is a list of calls. A [`CallRecord`] holds everything about one of them that is not
//! a trial: the operator, the parents, the prompt, the reply and what was made of it. With the
//! trials of the candidates that replies proposed it is enough to repeat every decision.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::{BlobId, CandidateId, Ceilings, TrialId, TunableRecord};

/// Which information goes into prompts, and what is kept of replies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EvolutionMode {
    /// The task and the best source; replies are code alone.
    Free,
    /// The task, the best with its approach and diagnosis, and earlier thoughts.
    Insight,
    /// The task, parents from a population, thoughts and diagnoses; crossover and mutation.
    Full,
    /// The task and the seed alone, every time: independent samples, for comparison.
    BestOfN,
}

impl EvolutionMode {
    /// Every mode.
    pub const ALL: [Self; 4] = [Self::Free, Self::Insight, Self::Full, Self::BestOfN];

    /// Returns the name used in tables, files and flags.
    pub fn name(self) -> &'static str {
        match self {
            Self::Free => "free",
            Self::Insight => "insight",
            Self::Full => "full",
            Self::BestOfN => "best-of-n",
        }
    }
}

impl FromStr for EvolutionMode {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|mode| mode.name() == name).ok_or_else(|| {
            let known = Self::ALL.map(Self::name).join(", ");
            format!("there is no mode `{name}`; there are {known}")
        })
    }
}

/// How a new source is made of earlier ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Operator {
    /// From the task alone; no parents.
    Init,
    /// From two parents.
    Crossover,
    /// From one parent.
    Mutation,
}

impl Operator {
    /// Returns the name used in tables and files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Init => "init",
            Self::Crossover => "crossover",
            Self::Mutation => "mutation",
        }
    }
}

/// How a model is chosen where there are several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ModelPolicy {
    /// At random, as the weights say.
    #[default]
    Weights,
    /// At random, in favour of those whose proposals won the most for what they cost.
    Bandit,
}

/// A model that may be asked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelChoice {
    /// Its name in the configuration.
    pub name: String,
    /// How often it is asked, beside the others.
    pub weight: f64,
}

/// What an evolution was asked to do, beyond what every campaign is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EvolveSettings {
    /// Which information goes into prompts.
    pub mode: EvolutionMode,
    /// Tokens at most, in and out together.
    pub tokens: Option<u64>,
    /// Money at most, in the currency of the configured prices.
    pub money: Option<f64>,
    /// Further configurations to try of each new source that declares tunables.
    pub tune_trials: u32,
    /// Whether failures are fed back; the published method does not.
    pub feedback: bool,
    /// The models, in the order of the configuration.
    pub models: Vec<ModelChoice>,
    /// How one of them is chosen.
    pub policy: ModelPolicy,
    /// The configuration of the models; keys are never in it.
    pub models_file: std::path::PathBuf,
    /// What prompts say of a source's limits is taken from. Left out where it is times alone, as in all
    /// runs from before there was a choice.
    #[serde(default, skip_serializing_if = "InsightFrom::is_times")]
    pub insight_from: InsightFrom,
}

/// What the limits of a source are found out from, where its target has more to say than times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InsightFrom {
    /// Its times against the measured ceilings.
    #[default]
    Times,
    /// Those, and what the compiler made of it.
    Code,
    /// Those, and what a profiler counts.
    Counters,
}

impl InsightFrom {
    fn is_times(&self) -> bool {
        *self == Self::Times
    }
}

/// What a model is asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Prompt {
    /// What the model is.
    pub system: String,
    /// What it is to do.
    pub user: String,
}

impl fmt::Display for Prompt {
    /// Writes both parts, as they are stored and shown.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[system]\n{}\n\n[user]\n{}", self.system, self.user)
    }
}

/// What a call used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Tokens of the prompt.
    pub input_tokens: u64,
    /// Tokens of the reply.
    pub output_tokens: u64,
    /// Whether the provider did not say, and both were estimated from the number of characters.
    pub estimated: bool,
}

impl Usage {
    /// Returns all tokens.
    pub fn tokens(&self) -> u64 {
        self.input_tokens.saturating_add(self.output_tokens)
    }

    /// Estimates the tokens of texts: about four characters each, in English and in C.
    pub fn estimate(prompt: &Prompt, reply: &str) -> Self {
        let tokens = |text: &str| text.chars().count().div_ceil(4) as u64;
        Self {
            input_tokens: tokens(&prompt.system) + tokens(&prompt.user),
            output_tokens: tokens(reply),
            estimated: true,
        }
    }
}

/// One call of a model; one trial of the evolution, whatever came of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CallRecord {
    /// The document's format version.
    pub format: u32,
    /// Its place in the evolution, from 0.
    pub number: u32,
    /// How the reply was to be made.
    pub operator: Operator,
    /// Of which candidates.
    pub parents: Vec<CandidateId>,
    /// The model, by its name in the configuration.
    pub model: String,
    /// The prompt's text.
    pub prompt: BlobId,
    /// What was used.
    pub usage: Usage,
    /// What it cost, by the configured prices.
    pub cost: f64,
    /// Seconds that the provider took, retries and pauses between them included.
    pub provider_s: f64,
    /// How often the provider was asked again after a failure that may pass.
    pub retries: u32,
    /// What came back.
    pub answer: CallAnswer,
}

/// What came back from a model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "answer")]
pub enum CallAnswer {
    /// Nothing that could be used; the provider failed.
    Failed {
        /// Why, in words; never a key.
        reason: String,
    },
    /// A reply.
    Replied {
        /// Its text.
        reply: BlobId,
        /// What was made of it.
        verdict: ReplyVerdict,
    },
}

/// What was made of a reply, before anything was compiled.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "verdict")]
pub enum ReplyVerdict {
    /// It holds no candidate.
    Rejected {
        /// Of which kind the reason is.
        reason: Rejection,
        /// The reason in words.
        detail: String,
    },
    /// It holds a candidate that is new.
    Proposed {
        /// The kernel's name.
        kernel: String,
        /// What the model calls it.
        title: String,
        /// What the model had in mind.
        thought: String,
        /// The source.
        source: BlobId,
        /// The tunables that the reply declares beside those of the contract.
        tunables: Vec<TunableRecord>,
    },
}

/// A source that a coding agent brought: what its kernel is made of beside the source itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SourceRecord {
    /// The document's format version.
    pub format: u32,
    /// The name of the kernel that it became.
    pub kernel: String,
    /// The kernel of the lab whose contract it keeps.
    pub base: String,
    /// What the agent calls it; empty where it does not.
    pub title: String,
    /// What the agent had in mind; empty where it does not say.
    pub thought: String,
    /// The source.
    pub source: BlobId,
    /// The tunables that it declares beside those of the contract.
    pub tunables: Vec<TunableRecord>,
}

/// Why a reply holds no candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rejection {
    /// No fenced block.
    NoCode,
    /// More than one fenced block.
    SeveralCodes,
    /// The reply ends inside of its code.
    Truncated,
    /// The source is larger than any kernel.
    TooLarge,
    /// The source asks for a file that is not a header.
    ForbiddenInclude,
    /// The source lacks a function that the contract names.
    ContractChanged,
    /// The declared tunables are not valid.
    BadTunables,
    /// The same source, comments and white space aside, was seen before.
    Duplicate,
}

impl Rejection {
    /// Returns the name used in tables and files.
    pub fn name(self) -> &'static str {
        match self {
            Self::NoCode => "no code",
            Self::SeveralCodes => "several codes",
            Self::Truncated => "truncated",
            Self::TooLarge => "too large",
            Self::ForbiddenInclude => "forbidden include",
            Self::ContractChanged => "contract changed",
            Self::BadTunables => "bad tunables",
            Self::Duplicate => "duplicate",
        }
    }
}

impl CallRecord {
    /// Returns the text that names this call, and whose hash a candidate's origin holds.
    pub fn text(&self) -> String {
        serde_json::to_string(self).expect("plain data always serialises")
    }

    /// Returns the call's identity: the hash of its text.
    pub fn id(&self) -> BlobId {
        BlobId::of(self.text().as_bytes())
    }

    /// Returns every text that the call names.
    pub fn texts(&self) -> Vec<BlobId> {
        let mut texts = vec![self.prompt];
        if let CallAnswer::Replied { reply, verdict } = &self.answer {
            texts.push(*reply);
            if let ReplyVerdict::Proposed { source, .. } = verdict {
                texts.push(*source);
            }
        }
        texts
    }
}

/// What an evolution starts from; with the calls and the trials it determines every prompt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EvolutionStart {
    /// The document's format version.
    pub format: u32,
    /// The kernel that is evolved.
    pub kernel: String,
    /// The trial of its author's choice, which speed-ups are held against.
    pub seed_trial: TrialId,
    /// What the machine could do at most, as diagnoses quote it.
    pub ceilings: Ceilings,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_have_one_name_each() {
        for mode in EvolutionMode::ALL {
            assert_eq!(mode.name().parse(), Ok(mode));
            let text = serde_json::to_string(&mode).expect("JSON");
            assert_eq!(text, format!("\"{}\"", mode.name()));
        }
        let unknown = "fulll".parse::<EvolutionMode>().expect_err("no such mode");
        assert!(unknown.contains("fulll") && unknown.contains("best-of-n"), "{unknown}");
    }

    #[test]
    fn a_call_names_every_text_that_belongs_to_it() {
        let call = CallRecord {
            format: 1,
            number: 3,
            operator: Operator::Mutation,
            parents: vec![CandidateId::of(b"parent")],
            model: "one".to_string(),
            prompt: BlobId::of(b"prompt"),
            usage: Usage { input_tokens: 10, output_tokens: 5, estimated: false },
            cost: 0.25,
            provider_s: 1.5,
            retries: 0,
            answer: CallAnswer::Replied {
                reply: BlobId::of(b"reply"),
                verdict: ReplyVerdict::Proposed {
                    kernel: "e003_one".to_string(),
                    title: "one".to_string(),
                    thought: "fewer loads".to_string(),
                    source: BlobId::of(b"source"),
                    tunables: Vec::new(),
                },
            },
        };
        assert_eq!(call.texts(), [b"prompt".as_slice(), b"reply", b"source"].map(BlobId::of));
        let again: CallRecord = serde_json::from_str(&call.text()).expect("read back");
        assert_eq!((again.id(), &again), (call.id(), &call));
    }
}
