//! Where it ran and with which settings: all that a time depends on.

use warpsmith_model::{Ceilings, DeviceInfo, Guard, units};

use super::super::data::View;
use super::super::html::{Html, html};
use super::{empty, facts};

pub(super) fn body(view: &View<'_>) -> Html {
    let environment = &view.data.environment;
    let mut body = html!("<h3>Machine</h3>\n");
    body.push(machine(&environment.device, &environment.system, &environment.warpsmith));
    body.push(html!("<h3>Compilers</h3>\n"));
    body.push(if environment.compilers.is_empty() {
        empty("No compiler was found.")
    } else {
        facts(
            environment
                .compilers
                .iter()
                .map(|compiler| (compiler.name.clone(), html!("{}", compiler.version))),
        )
    });
    body.push(html!("<h3>Protections</h3>\n"));
    let isolation = &environment.isolation;
    body.push(facts([
        ("System calls filtered (seccomp)".to_string(), guard(&isolation.seccomp)),
        ("Files and network confined (Landlock)".to_string(), guard(&isolation.landlock)),
        ("Memory, files and time limited".to_string(), guard(&isolation.rlimits)),
        ("Inputs sealed against writing".to_string(), guard(&isolation.sealed_inputs)),
        ("Candidates without privileges".to_string(), guard(&isolation.privileges)),
    ]));
    body.push(html!("<h3>Measured ceilings</h3>\n"));
    body.push(match &view.data.ceilings {
        Some(ceilings) => measured(ceilings),
        None => empty("The machine’s ceilings were not measured."),
    });
    body.push(html!("<h3>Settings</h3>\n"));
    body.push(settings(view));
    body.push(html!(
        "<p class='small'>Environment <code>{}</code> · lab <code>{}</code></p>\n",
        view.data.run.environment.short(),
        view.lab.id.short()
    ));
    body
}

fn machine(device: &DeviceInfo, system: &str, warpsmith: &str) -> Html {
    let caches = format!(
        "{} L1d and {} L2 per core, {} last level",
        units::bytes(device.l1d_bytes as f64),
        units::bytes(device.l2_bytes as f64),
        units::bytes(device.l3_bytes as f64)
    );
    let vectors =
        format!("{} bits; {}", u64::from(device.vector_bytes) * 8, device.features.join(", "));
    let ticks =
        device.ticks_per_s.map_or("none".to_string(), |ticks| format!("{:.0} MHz", ticks / 1e6));
    let monitored = device.cuda.as_ref().map(|cuda| {
        let words = match &cuda.unmonitored {
            None => "read after each launch that is timed".to_string(),
            Some(reason) => format!("not read: {reason}"),
        };
        ("Clocks, temperature and power".to_string(), html!("{}", words))
    });
    let machine = [
        ("Device".to_string(), html!("{}", device.name)),
        ("Threads".to_string(), html!("{}", device.threads as usize)),
        ("Caches".to_string(), html!("{}", caches)),
        ("Vectors".to_string(), html!("{}", vectors)),
        ("Cycle counter".to_string(), html!("{}", ticks)),
        ("System".to_string(), html!("{}", system)),
        ("Warpsmith".to_string(), html!("{}", warpsmith)),
    ];
    facts(machine.into_iter().chain(monitored))
}

fn guard(guard: &Guard) -> Html {
    match guard {
        Guard::Active => {
            html!("<span class='badge faster'><span aria-hidden='true'>✓</span> active</span>")
        }
        Guard::Missing { reason } => html!(
            "<span class='badge slower'><span aria-hidden='true'>✕</span> missing</span> {}",
            reason
        ),
    }
}

fn measured(ceilings: &Ceilings) -> Html {
    let mut facts_of = vec![
        ("Single precision".to_string(), html!("{}", units::flops(ceilings.f32_flops_per_s))),
        ("Double precision".to_string(), html!("{}", units::flops(ceilings.f64_flops_per_s))),
        ("Memory".to_string(), html!("{}", units::bandwidth(ceilings.memory_bytes_per_s))),
        ("Nearest caches".to_string(), html!("{}", units::bandwidth(ceilings.cache_bytes_per_s))),
        ("Empty launch".to_string(), html!("{}", units::time(ceilings.launch_floor_s))),
    ];
    if ceilings.busy {
        let words = "Other programs kept the machine busy: these may be far too low";
        facts_of.push(("Measured".to_string(), html!("{}", words)));
    }
    let short: Vec<String> =
        ceilings.shortfalls().into_iter().map(|(rate, per_s)| rate.describe(per_s)).collect();
    if !short.is_empty() {
        let words = format!("{}; the ceilings are the best ever seen here", short.join(", "));
        facts_of.push(("The newest measurement".to_string(), html!("{}", words)));
    }
    facts(facts_of)
}

fn settings(view: &View<'_>) -> Html {
    let settings = &view.data.run.settings;
    if settings.is_empty() {
        return empty("The run recorded no settings.");
    }
    facts(settings.iter().map(|(name, value)| {
        let value = match value {
            serde_json::Value::String(text) => text.clone(),
            serde_json::Value::Null => "none".to_string(),
            other => other.to_string(),
        };
        (name.clone(), html!("<code>{}</code>", value))
    }))
}
