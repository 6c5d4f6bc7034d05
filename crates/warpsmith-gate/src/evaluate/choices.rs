//! What a front may launch beside what it launches on a shape.
//!
//! A front launches other kernels on large shapes than on small ones, and a kernel is another binary for
//! each value of an axis that its source knows. So what a front may launch on shapes with a small shape's
//! exact axes is judged on the small one as well, as if the front had chosen it there.

use warpsmith_model::Params;
use warpsmith_model::lab::{Front, Kernel, Workload};

use super::bench::Subject;
use crate::bind;
use crate::error::GateError;

/// One of the kernels, with parameters, that a front is made of.
pub(super) struct FrontMember<'a> {
    pub(super) kernel: &'a Kernel,
    pub(super) params: &'a Params,
    /// The shapes on which the front chooses another, but whose exact axes may lead to this one.
    pub(super) elsewhere: Vec<Workload>,
    /// The front chooses it on one of the shapes.
    pub(super) is_chosen: bool,
}

impl<'a> FrontMember<'a> {
    pub(super) fn subject(&self) -> Subject<'a> {
        Subject::Kernel { kernel: self.kernel, params: self.params }
    }

    pub(super) fn label(&self) -> String {
        format!("`{}` with {}", self.kernel.name, self.params)
    }

    fn is(&self, kernel: &Kernel, params: &Params) -> bool {
        self.kernel.name == kernel.name && self.params == params
    }
}

/// Returns what a front is made of, each kernel with parameters once; nothing where the subject is no front.
pub(super) fn choices<'a>(
    subject: Subject<'a>,
    shapes: &[Workload],
) -> Result<Vec<FrontMember<'a>>, GateError> {
    let Subject::Kernel { kernel, params } = subject else { return Ok(Vec::new()) };
    let Some(front) = &kernel.front else { return Ok(Vec::new()) };
    let mut choices = distinct(front);
    for shape in shapes {
        let routes = front.agreeing(shape).map_err(|source| {
            let what = format!("`requires` of a kernel of `{}`", kernel.name);
            GateError::Expression { what, source }
        })?;
        if routes.is_empty() {
            continue;
        }
        let chosen = bind::chosen(kernel, params, shape)?;
        for choice in &mut choices {
            if choice.is(chosen.0, chosen.1) {
                choice.is_chosen = true;
            } else if routes.iter().any(|route| choice.is(&route.kernel, &route.params)) {
                choice.elsewhere.push(shape.clone());
            }
        }
    }
    Ok(choices)
}

fn distinct(front: &Front) -> Vec<FrontMember<'_>> {
    let mut choices: Vec<FrontMember<'_>> = Vec::new();
    for route in &front.routes {
        let (kernel, params) = (&route.kernel, &route.params);
        if !choices.iter().any(|known| known.is(kernel, params)) {
            choices.push(FrontMember { kernel, params, elsewhere: Vec::new(), is_chosen: false });
        }
    }
    choices
}
