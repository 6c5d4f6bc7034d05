//! In which order to bind the tunables of a group.
//!
//! Enumeration binds one tunable after the other and tests a constraint as soon as its last
//! tunable is bound, so the order decides how many partial configurations are visited. Assuming
//! that constraints exclude independently of each other, the number of partial configurations
//! depends only on *which* tunables are bound, so the best order is a shortest path through the
//! subsets of the group, found layer by layer.

use std::collections::BTreeMap;

/// Subsets that survive each layer. Every subset does for groups of up to ten tunables, since
/// `binomial(10, 5)` is 252; beyond that the search is a beam.
const BEAM: usize = 256;

/// A constraint, as far as ordering is concerned.
#[derive(Clone, Copy, Debug)]
pub(super) struct Filter {
    /// The tunables it needs, as bits.
    pub(super) needs: u128,
    /// The share of their combinations that it lets pass.
    pub(super) passes: f64,
}

#[derive(Clone, Debug)]
struct BindingOrder {
    cost: f64,
    /// The expected number of partial configurations over the bound tunables.
    nodes: f64,
    order: Vec<usize>,
}

/// Returns the order in which to bind tunables with `sizes` values each.
pub(super) fn best_order(sizes: &[usize], filters: &[Filter]) -> Vec<usize> {
    let mut layer =
        BTreeMap::from([(0u128, BindingOrder { cost: 0.0, nodes: 1.0, order: Vec::new() })]);
    for _ in sizes {
        let mut next: BTreeMap<u128, BindingOrder> = BTreeMap::new();
        for (bound, plan) in &layer {
            for tunable in (0..sizes.len()).filter(|tunable| bound & (1 << tunable) == 0) {
                let grown = bound | 1 << tunable;
                let extended = extend(plan, tunable, grown, sizes[tunable], filters);
                match next.get(&grown) {
                    Some(known) if known.cost <= extended.cost => {}
                    _ => {
                        next.insert(grown, extended);
                    }
                }
            }
        }
        layer = cheapest(next);
    }
    layer.into_values().next().expect("the last layer is the whole group").order
}

fn extend(
    plan: &BindingOrder,
    tunable: usize,
    grown: u128,
    size: usize,
    filters: &[Filter],
) -> BindingOrder {
    let visited = plan.nodes * size as f64;
    let mut cost = plan.cost + visited;
    let mut nodes = visited;
    for filter in filters {
        let is_decided_now = filter.needs & (1 << tunable) != 0 && filter.needs & !grown == 0;
        if is_decided_now {
            cost += nodes;
            nodes *= filter.passes;
        }
    }
    let mut order = plan.order.clone();
    order.push(tunable);
    BindingOrder { cost, nodes, order }
}

fn cheapest(plans: BTreeMap<u128, BindingOrder>) -> BTreeMap<u128, BindingOrder> {
    if plans.len() <= BEAM {
        return plans;
    }
    let mut plans: Vec<(u128, BindingOrder)> = plans.into_iter().collect();
    plans.sort_by(|(_, a), (_, b)| a.cost.total_cmp(&b.cost));
    plans.truncate(BEAM);
    plans.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tunable_that_only_multiplies_comes_last() {
        // 0 and 1 exclude most of each other; 2 and 3 are harmless but large.
        let filters = [
            Filter { needs: 0b0011, passes: 0.01 },
            Filter { needs: 0b0110, passes: 0.9 },
            Filter { needs: 0b1010, passes: 0.9 },
        ];
        let order = best_order(&[20, 20, 50, 40], &filters);
        assert_eq!(order, [0, 1, 3, 2]);
    }

    #[test]
    fn a_group_beyond_the_beam_is_ordered_too() {
        let sizes = vec![3; 24];
        let filters: Vec<Filter> =
            (0..23).map(|idx| Filter { needs: 0b11 << idx, passes: 0.4 }).collect();
        let mut order = best_order(&sizes, &filters);
        order.sort_unstable();
        assert_eq!(order, (0..24).collect::<Vec<usize>>());
    }
}
