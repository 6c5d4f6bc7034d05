//! Which of several models is asked next.

use warpsmith_model::rng::Rng;
use warpsmith_model::{ModelChoice, ModelPolicy};

use super::population::weighted;

/// What the models have done so far.
#[derive(Clone, Debug)]
pub(crate) struct Models {
    policy: ModelPolicy,
    models: Vec<(ModelChoice, Record)>,
}

/// What a model has done so far.
#[derive(Clone, Copy, Debug, Default)]
struct Record {
    calls: u32,
    wins: u32,
    cost: f64,
    tokens: f64,
}

impl Models {
    pub(crate) fn new(policy: ModelPolicy, models: &[ModelChoice]) -> Self {
        let models = models.iter().map(|model| (model.clone(), Record::default())).collect();
        Self { policy, models }
    }

    /// Draws the model to ask.
    pub(crate) fn draw(&self, rng: &mut Rng) -> &str {
        let weights: Vec<f64> =
            self.models.iter().map(|(model, it)| self.worth(model, it)).collect();
        self.models[weighted(&weights, rng)].0.name.as_str()
    }

    pub(crate) fn asked(&mut self, name: &str, cost: f64, tokens: u64) {
        if let Some((_, record)) = self.models.iter_mut().find(|(model, _)| model.name == name) {
            record.calls += 1;
            record.cost += cost;
            record.tokens += tokens as f64;
        }
    }

    pub(crate) fn won(&mut self, name: &str) {
        if let Some((_, record)) = self.models.iter_mut().find(|(model, _)| model.name == name) {
            record.wins += 1;
        }
    }

    /// The bandit's weight: wins per cost, where every model begins with one win for an average
    /// call. So nobody is ruled out by a bad start, and who costs much without winning fades.
    fn worth(&self, model: &ModelChoice, record: &Record) -> f64 {
        match self.policy {
            ModelPolicy::Weights => model.weight,
            ModelPolicy::Bandit => {
                let wins = f64::from(record.wins) + 1.0;
                model.weight * wins / (self.relative_cost(record) + 1.0)
            }
        }
    }

    /// What a model cost, in average calls; in tokens where nothing has a price.
    fn relative_cost(&self, record: &Record) -> f64 {
        let calls: f64 = self.models.iter().map(|(_, it)| f64::from(it.calls)).sum();
        let sum =
            |part: fn(&Record) -> f64| self.models.iter().map(|(_, it)| part(it)).sum::<f64>();
        let (money, tokens) = (sum(|it| it.cost), sum(|it| it.tokens));
        if money > 0.0 {
            record.cost * calls / money
        } else if tokens > 0.0 {
            record.tokens * calls / tokens
        } else {
            f64::from(record.calls)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn models(policy: ModelPolicy, weights: &[f64]) -> Models {
        let choice =
            |(idx, weight): (usize, &f64)| ModelChoice { name: format!("m{idx}"), weight: *weight };
        let choices: Vec<ModelChoice> = weights.iter().enumerate().map(choice).collect();
        Models::new(policy, &choices)
    }

    fn share_of_first(models: &Models) -> f64 {
        let mut rng = Rng::new(5);
        let first = (0..10_000).filter(|_| models.draw(&mut rng) == "m0").count();
        first as f64 / 10_000.0
    }

    #[test]
    fn weights_decide_how_often_a_model_is_asked() {
        let mut models = models(ModelPolicy::Weights, &[3.0, 1.0]);
        assert!((share_of_first(&models) - 0.75).abs() < 0.03);
        models.asked("m1", 1.0, 10);
        models.won("m1");
        assert!((share_of_first(&models) - 0.75).abs() < 0.03, "wins do not matter");
    }

    #[test]
    fn the_bandit_favours_wins_per_cost() {
        let mut even = models(ModelPolicy::Bandit, &[1.0, 1.0]);
        assert!((share_of_first(&even) - 0.5).abs() < 0.03, "nothing is known yet");
        for _ in 0..10 {
            even.asked("m0", 1.0, 100);
            even.asked("m1", 1.0, 100);
        }
        for _ in 0..5 {
            even.won("m0");
        }
        assert!(share_of_first(&even) > 0.8, "the winner at equal cost");
        let mut dear = models(ModelPolicy::Bandit, &[1.0, 1.0]);
        for _ in 0..10 {
            dear.asked("m0", 20.0, 100);
            dear.asked("m1", 1.0, 100);
        }
        dear.won("m0");
        dear.won("m1");
        assert!(share_of_first(&dear) < 0.2, "the same wins at twenty times the price");
        let mut free = models(ModelPolicy::Bandit, &[1.0, 1.0]);
        free.asked("m0", 0.0, 1000);
        free.asked("m1", 0.0, 10);
        assert!(share_of_first(&free) < 0.5, "tokens count where nothing has a price");
    }
}
