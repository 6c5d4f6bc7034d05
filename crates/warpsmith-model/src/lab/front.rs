//! `front.toml`: which kernel, with which parameters, serves which shape.
//!
//! A front is a kernel of its lab like any other: it is gated, timed and compared. What it launches on a
//! shape is the kernel of the route that lies nearest.

use super::document::{Document, did_you_mean};
use super::files::{Entries, FrontFile, Located, RouteFile};
use super::{CudaCompiler, Kernel, Workload};
use crate::{EvalError, Params, Value};

/// The name of a lab's front, among its kernels.
pub const FRONT: &str = "front";

/// Which kernel serves which shape.
#[derive(Clone, Debug)]
pub struct Front {
    /// Axes in which a route and a shape should agree, before distance counts.
    pub exact: Vec<String>,
    /// The routes, in the file's order.
    pub routes: Vec<Route>,
}

/// A shape that a kernel with parameters was chosen for.
#[derive(Clone, Debug)]
pub struct Route {
    /// The value of every axis, in the lab's order.
    pub near: Vec<(String, i64)>,
    /// The kernel.
    pub kernel: Kernel,
    /// The value of every tunable.
    pub params: Params,
}

impl Front {
    /// Returns the route for a shape: the nearest of those that agree with it, or the first of these. None
    /// where no kernel serves the shape.
    pub fn route(&self, shape: &Workload) -> Result<Option<&Route>, EvalError> {
        let mut best: Option<(f64, &Route)> = None;
        for route in self.agreeing(shape)? {
            let (_, apart) = self.distance(route, shape);
            if best.is_none_or(|(least, _)| apart < least) {
                best = Some((apart, route));
            }
        }
        Ok(best.map(|(_, route)| route))
    }

    /// Returns the routes that shapes with a shape's exact axes may lead to, whatever the others are: of
    /// those whose kernel serves it, all that agree in the most exact axes.
    pub fn agreeing(&self, shape: &Workload) -> Result<Vec<&Route>, EvalError> {
        let (mut fewest, mut routes) = (usize::MAX, Vec::new());
        for route in &self.routes {
            if !route.kernel.serves(shape)? {
                continue;
            }
            let (differing, _) = self.distance(route, shape);
            if differing < fewest {
                (fewest, routes) = (differing, Vec::new());
            }
            if differing == fewest {
                routes.push(route);
            }
        }
        Ok(routes)
    }

    /// Returns in how many exact axes a route and a shape differ, and how far they are apart in the others:
    /// the sum of the logarithms of the ratios.
    fn distance(&self, route: &Route, shape: &Workload) -> (usize, f64) {
        let (mut differing, mut apart) = (0, 0.0);
        for (axis, near) in &route.near {
            let value = shape.axis(axis).unwrap_or(*near);
            if self.exact.contains(axis) {
                differing += usize::from(value != *near);
            } else {
                apart += ((value as f64 + 1.0) / (*near as f64 + 1.0)).ln().abs();
            }
        }
        (differing, apart)
    }
}

impl Kernel {
    /// Returns what runs on a shape: the kernel itself, or the one that its front chooses. A front that
    /// serves no such shape is itself, and launches nothing.
    pub fn on<'a>(
        &'a self,
        shape: &Workload,
        params: &'a Params,
    ) -> Result<(&'a Kernel, &'a Params), EvalError> {
        let route = match &self.front {
            Some(front) => front.route(shape)?,
            None => None,
        };
        Ok(route.map_or((self, params), |route| (&route.kernel, &route.params)))
    }
}

/// Says whether a contract is a front's.
pub(super) fn is_front(name: &str) -> bool {
    name == FRONT
}

/// Checks a front; none when something is wrong with it.
pub(super) fn check(
    document: &mut Document<'_>,
    file: &FrontFile,
    text: &str,
    axes: &[String],
    kernels: &[Kernel],
) -> Option<Kernel> {
    document.check_line(&file.summary, "summary");
    document.check_unique(&file.exact, "exact axes");
    for axis in file.exact.iter().filter(|axis| !axes.contains(axis)) {
        let help = did_you_mean(axis, axes.iter().map(String::as_str));
        document.report_with_help(axis.span(), format!("unknown axis `{}`", **axis), help);
    }
    if file.route.is_empty() {
        let help = "`warpsmith front` writes the file from measurements".to_string();
        document.report_file("a front without a `[[route]]`", Some(help));
    }
    let routes: Vec<Route> =
        file.route.iter().filter_map(|it| check_route(document, it, axes, kernels)).collect();
    if !document.is_clean() {
        return None;
    }
    // What is compiled is the routes' kernels, so a front is another one when any of them changes. Its
    // source is everything that it depends on.
    let mut parts: Vec<&Kernel> = Vec::new();
    for route in &routes {
        if !parts.iter().any(|known| known.name == route.kernel.name) {
            parts.push(&route.kernel);
        }
    }
    let mut sources = vec![text.to_string()];
    sources.extend(parts.iter().map(|it| format!("{}\n{}", it.contract, it.source)));
    Some(Kernel {
        name: FRONT.to_string(),
        summary: file.summary.to_string(),
        contract: text.to_string(),
        source: sources.join("\n"),
        flags: Vec::new(),
        specialize: Vec::new(),
        requires: Vec::new(),
        constraints: Vec::new(),
        launches: Vec::new(),
        scratch: Vec::new(),
        tunables: Vec::new(),
        default: Params::default(),
        expand: Vec::new(),
        expect: None,
        arch: parts.iter().filter_map(|it| it.arch.clone()).max_by_key(|arch| narrowness(arch)),
        compiler: parts
            .iter()
            .map(|it| it.compiler)
            .find(|it| *it == CudaCompiler::Nvcc)
            .unwrap_or_default(),
        tensor_maps: Vec::new(),
        build: None,
        front: Some(Box::new(Front {
            exact: file.exact.iter().map(|axis| axis.to_string()).collect(),
            routes,
        })),
    })
}

/// Orders architectures by how few devices have them: the newer, and of a generation the one that no
/// later one has (`sm_90a`).
fn narrowness(arch: &str) -> (u32, bool) {
    let number = arch.trim_matches(|letter: char| !letter.is_ascii_digit()).parse().unwrap_or(0);
    (number, arch.ends_with('a'))
}

fn check_route(
    document: &mut Document<'_>,
    file: &RouteFile,
    axes: &[String],
    kernels: &[Kernel],
) -> Option<Route> {
    for axis in file.near.keys().filter(|axis| !axes.contains(axis)) {
        let help = did_you_mean(axis, axes.iter().map(String::as_str));
        document.report_with_help(axis.span(), format!("unknown axis `{}`", **axis), help);
    }
    let mut near = Vec::new();
    for axis in axes {
        match file.near.get(axis.as_str()) {
            Some(value) if **value < 0 => {
                document.report(value.span(), format!("`{axis}` must not be negative"));
            }
            Some(value) => near.push((axis.clone(), **value)),
            None => document.report(file.near.span(), format!("`near` has no `{axis}`")),
        }
    }
    let rungs = kernels.iter().filter(|known| known.front.is_none());
    let Some(kernel) = rungs.clone().find(|known| known.name == *file.kernel) else {
        let names = rungs.map(|known| known.name.as_str());
        let help = did_you_mean(&file.kernel, names);
        let message = format!("the lab has no kernel `{}`", *file.kernel);
        document.report_with_help(file.kernel.span(), message, help);
        return None;
    };
    let params = check_params(document, &file.params, kernel, &file.kernel);
    Some(Route { near, kernel: kernel.clone(), params })
}

fn check_params(
    document: &mut Document<'_>,
    written: &Entries<Value>,
    kernel: &Kernel,
    place: &Located<String>,
) -> Params {
    let mut params = Params::default();
    for tunable in &kernel.tunables {
        match written.get(tunable.name.as_str()) {
            Some(value) if tunable.values.contains(value) => {
                params.0.insert(tunable.name.clone(), (**value).clone());
            }
            Some(value) => {
                let message = format!("`{}` is no value of `{}`", **value, tunable.name);
                document.report(value.span(), message);
            }
            None => {
                let message = format!("`params` has no `{}` of `{}`", tunable.name, kernel.name);
                document.report(place.span(), message);
            }
        }
    }
    for name in written.keys() {
        if !kernel.tunables.iter().any(|tunable| tunable.name == **name) {
            let help = did_you_mean(name, kernel.tunables.iter().map(|it| it.name.as_str()));
            let message = format!("`{}` has no tunable `{}`", kernel.name, **name);
            document.report_with_help(name.span(), message, help);
        }
    }
    params
}
