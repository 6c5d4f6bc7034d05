//! When an evolution stops. A budget is looked at before every call, so it is never exceeded by
//! more than the call that was under way.

use std::time::Duration;

use super::Tally;

/// Limits; each ends the evolution by itself.
#[derive(Clone, Copy, Debug)]
pub struct EvolutionBudget {
    /// Calls at most; each is a trial, whatever comes of it.
    pub trials: u32,
    /// Tokens at most.
    pub tokens: Option<u64>,
    /// Money at most.
    pub money: Option<f64>,
    /// Seconds at most, from the beginning or from being resumed.
    pub seconds: f64,
}

/// Why an evolution stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EvolutionEnd {
    /// Every trial was made.
    Trials,
    /// The tokens are used up.
    Tokens,
    /// The money is spent.
    Money,
    /// The time is over.
    Time,
    /// There were no more stored replies.
    Replies,
}

impl EvolutionEnd {
    /// Says why, as the end of a sentence.
    pub fn words(self) -> &'static str {
        match self {
            Self::Trials => "every trial was made",
            Self::Tokens => "the budget of tokens is used up",
            Self::Money => "the budget of money is spent",
            Self::Time => "the time is over",
            Self::Replies => "there were no more stored replies",
        }
    }
}

impl EvolutionBudget {
    /// Says which limit is reached, if any.
    pub fn is_spent(&self, tally: &Tally, elapsed: Duration) -> Option<EvolutionEnd> {
        if tally.calls >= self.trials {
            Some(EvolutionEnd::Trials)
        } else if self.tokens.is_some_and(|most| tally.tokens() >= most) {
            Some(EvolutionEnd::Tokens)
        } else if self.money.is_some_and(|most| tally.cost >= most) {
            Some(EvolutionEnd::Money)
        } else if elapsed.as_secs_f64() >= self.seconds {
            Some(EvolutionEnd::Time)
        } else {
            None
        }
    }
}
