//! Notes on measurements, in words: made where something was measured, gathered where they are shown.
//!
//! A trial on thirty workloads can have the same thing to say of most of them. The evidence keeps every
//! note as it was made; [`gathered`] makes one line of those that say the same.

/// A note that the samples of a workload are noisy: how wide the median's interval is, as a share of it.
pub fn noisy(workload: &str, width: f64) -> String {
    format!("{workload}: {NOISY}{:.0} % of it", width * 100.0)
}

/// A note that a time mostly shows the launch.
pub fn near_floor(workload: &str, floors: f64) -> String {
    format!("{workload}: {NEAR_FLOOR}{floors}x{NEAR_FLOOR_END}")
}

/// A note that readings were set aside.
pub fn taken_again(workload: &str, readings: usize) -> String {
    format!("{workload}: {readings}{TAKEN_AGAIN}")
}

/// A note that leading samples do not count.
pub fn warm_up(workload: &str, samples: usize) -> String {
    format!("{workload}: {samples}{WARM_UP}")
}

/// A note that readings of a busy machine count for want of others.
pub fn busy(workload: &str) -> String {
    format!("{workload}: {BUSY}")
}

/// A note that the mean of a workload's readings is so many times their median.
pub fn uneven(workload: &str, medians: f64) -> String {
    format!("{workload}: {UNEVEN}{medians:.1}{UNEVEN_END}")
}

const NOISY: &str = "the samples are noisy; the median's interval spans ";
const NEAR_FLOOR: &str = "the time is within ";
const NEAR_FLOOR_END: &str = " of an empty launch, so it measures the harness as well";
const TAKEN_AGAIN: &str = " reading(s) taken again, because something else slowed the machine";
const WARM_UP: &str = " leading sample(s) left out as warm-up";
const BUSY: &str = "something else kept the machine busy or slow; its readings count nevertheless";

const UNEVEN: &str = "the mean of the readings is ";
const UNEVEN_END: &str = " times their median; either something disturbed the machine, or the kernel does in \
                          few launches what it leaves out in others";

/// What a note says, apart from where.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Remark<'a> {
    Noisy { percent: f64 },
    NearFloor { floors: &'a str },
    TakenAgain { readings: u64 },
    WarmUp { samples: u64 },
    Busy,
    Uneven { medians: f64 },
}

impl<'a> Remark<'a> {
    fn of(words: &'a str) -> Option<Self> {
        if let Some(rest) = words.strip_prefix(NOISY) {
            let percent = rest.strip_suffix(" % of it")?.parse().ok()?;
            return Some(Self::Noisy { percent });
        }
        if let Some(rest) = words.strip_prefix(NEAR_FLOOR) {
            return Some(Self::NearFloor { floors: rest.strip_suffix(NEAR_FLOOR_END)? });
        }
        if let Some(readings) = words.strip_suffix(TAKEN_AGAIN) {
            return Some(Self::TakenAgain { readings: readings.parse().ok()? });
        }
        if let Some(rest) = words.strip_prefix(UNEVEN) {
            return Some(Self::Uneven { medians: rest.strip_suffix(UNEVEN_END)?.parse().ok()? });
        }
        if let Some(samples) = words.strip_suffix(WARM_UP) {
            return Some(Self::WarmUp { samples: samples.parse().ok()? });
        }
        (words == BUSY).then_some(Self::Busy)
    }

    /// Returns what is said once of several subjects: before where it is, and behind that.
    fn of_several(&self) -> (&'static str, &'static str) {
        match self {
            Self::Noisy { .. } => ("noisy", ""),
            Self::NearFloor { .. } => ("within ", ", so these times measure the harness as well"),
            Self::TakenAgain { .. } => {
                ("readings taken again", ", because something else slowed the machine")
            }
            Self::WarmUp { .. } => ("leading samples left out as warm-up", ""),
            Self::Busy => (
                "something else kept the machine busy or slow",
                "; its readings count nevertheless",
            ),
            Self::Uneven { .. } => (
                "the mean of the readings is far from their median",
                " (something disturbed the machine, or the kernel does in few launches what it leaves out in \
                 others)",
            ),
        }
    }

    /// Says whether both say the same, however much of it.
    fn is_like(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::NearFloor { floors: one }, Self::NearFloor { floors: other }) => one == other,
            _ => std::mem::discriminant(self) == std::mem::discriminant(other),
        }
    }
}

/// One kind of remark on one subject: where it was made.
struct Group<'a> {
    /// The contender of a comparison; empty for a trial, which has one subject.
    subject: &'a str,
    /// The workload and what was said of it; or a note as it is.
    said: Vec<(&'a str, Option<Remark<'a>>)>,
}

impl Group<'_> {
    /// What is said everywhere in it, however much; none for a note that stays as it is.
    fn kind(&self) -> Option<&Remark<'_>> {
        self.said.first().and_then(|(_, remark)| remark.as_ref())
    }

    /// Says where it is said. Contenders of the same name say the same of one workload.
    fn place(&self, n_workloads: usize) -> String {
        let mut named: Vec<&str> = self.said.iter().map(|(on, _)| *on).collect();
        named.sort_unstable();
        named.dedup();
        match named.as_slice() {
            [one] => format!("on {one}"),
            several => format!("on {} of {n_workloads} workloads", several.len()),
        }
    }

    /// Says how much of it there is, at most or together; nothing where that is not counted.
    fn amount(&self) -> Option<String> {
        let remarks = || self.said.iter().filter_map(|(_, remark)| remark.as_ref());
        let up_to = if self.said.len() > 1 { "up to " } else { "" };
        match self.kind()? {
            Remark::Noisy { .. } => {
                let percent = |it: &Remark<'_>| match it {
                    Remark::Noisy { percent } => *percent,
                    _ => 0.0,
                };
                Some(format!("{up_to}{:.0} %", remarks().map(percent).fold(0.0, f64::max)))
            }
            Remark::Uneven { .. } => {
                let medians = |it: &Remark<'_>| match it {
                    Remark::Uneven { medians } => *medians,
                    _ => 0.0,
                };
                Some(format!("{up_to}{:.1} times", remarks().map(medians).fold(0.0, f64::max)))
            }
            Remark::TakenAgain { .. } | Remark::WarmUp { .. } => {
                let count = |it: &Remark<'_>| match it {
                    Remark::TakenAgain { readings: count } | Remark::WarmUp { samples: count } => {
                        *count
                    }
                    _ => 0,
                };
                Some(remarks().map(count).sum::<u64>().to_string())
            }
            Remark::NearFloor { .. } | Remark::Busy => None,
        }
    }
}

/// Makes one line of the notes that say the same of several of these workloads, or of several subjects, at the
/// place of the first of them; all others stay as they are.
pub fn gathered<S: AsRef<str>>(notes: &[String], workloads: &[S]) -> Vec<String> {
    let mut groups: Vec<Group<'_>> = Vec::new();
    for note in notes {
        let parsed = workloads.iter().find_map(|workload| parse(note, workload.as_ref()));
        let Some((subject, workload, remark)) = parsed else {
            groups.push(Group { subject: "", said: vec![(note, None)] });
            continue;
        };
        let known = groups.iter_mut().find(|group| {
            let first = group.said.first().and_then(|(_, first)| first.as_ref());
            group.subject == subject && first.is_some_and(|first| first.is_like(&remark))
        });
        match known {
            Some(group) => group.said.push((workload, Some(remark))),
            None => groups.push(Group { subject, said: vec![(workload, Some(remark))] }),
        }
    }
    lines(&groups, workloads.len())
}

/// Writes a line for each group; one for those that say the same of several subjects, at the place of the first.
fn lines(groups: &[Group<'_>], n_workloads: usize) -> Vec<String> {
    let is_like = |one: &Group<'_>, other: &Group<'_>| match (one.kind(), other.kind()) {
        (Some(one_kind), Some(other_kind)) => {
            !one.subject.is_empty() && !other.subject.is_empty() && one_kind.is_like(other_kind)
        }
        _ => false,
    };
    let mut lines = Vec::new();
    for (idx, group) in groups.iter().enumerate() {
        if groups[..idx].iter().any(|earlier| is_like(earlier, group)) {
            continue;
        }
        let same: Vec<&Group<'_>> =
            groups[idx..].iter().filter(|later| is_like(group, later)).collect();
        lines.push(match same.len() {
            0 | 1 => line(group, n_workloads),
            _ => line_of_several(&same, n_workloads),
        });
    }
    lines
}

/// Says of several subjects what is said of each of them: what it is once, then who and how much.
fn line_of_several(groups: &[&Group<'_>], n_workloads: usize) -> String {
    let first_on = groups[0].said[0].0;
    let is_on_one = groups.iter().flat_map(|group| &group.said).all(|(on, _)| *on == first_on);
    let (what, why) = groups[0].kind().map_or(("", ""), |kind| kind.of_several());
    let amounts: Vec<String> = groups
        .iter()
        .map(|group| {
            let mut details = Vec::new();
            if !is_on_one {
                details.push(group.place(n_workloads));
            }
            details.extend(group.amount());
            match details.is_empty() {
                true => group.subject.to_string(),
                false => format!("{} ({})", group.subject, details.join(", ")),
            }
        })
        .collect();
    let on = if is_on_one { format!(" on {first_on}") } else { String::new() };
    let floors = match groups[0].kind() {
        Some(Remark::NearFloor { floors }) => format!("{floors} of an empty launch"),
        _ => String::new(),
    };
    format!("{what}{floors}{on}{why}: {}", amounts.join(", "))
}

/// Takes apart `workload: remark`, or `subject: workload: remark`.
fn parse<'a>(note: &'a str, workload: &'a str) -> Option<(&'a str, &'a str, Remark<'a>)> {
    let (subject, words) = match note.strip_prefix(workload).and_then(|it| it.strip_prefix(": ")) {
        Some(words) => ("", words),
        None => {
            let (before, words) = note.split_once(&format!(": {workload}: "))?;
            (before, words)
        }
    };
    Remark::of(words).map(|remark| (subject, workload, remark))
}

fn line(group: &Group<'_>, n_workloads: usize) -> String {
    let subject = match group.subject {
        "" => String::new(),
        subject => format!("{subject}: "),
    };
    let remarks: Vec<(&str, &Remark<'_>)> =
        group.said.iter().filter_map(|(on, remark)| Some((*on, remark.as_ref()?))).collect();
    let Some((_, kind)) = remarks.first() else {
        return group.said.iter().map(|(note, _)| *note).collect();
    };
    let on = group.place(n_workloads);
    let sum = |of: fn(&Remark<'_>) -> u64| remarks.iter().map(|(_, it)| of(it)).sum::<u64>();
    match kind {
        Remark::Noisy { .. } => {
            let (at, widest) =
                most(
                    &remarks,
                    |it| if let Remark::Noisy { percent } = it { *percent } else { 0.0 },
                );
            match remarks.len() {
                1 => {
                    format!("{subject}noisy {on} (the median's interval spans {widest:.0} % of it)")
                }
                _ => format!(
                    "{subject}noisy {on} (the median's interval spans up to {widest:.0} % of it, on {at})"
                ),
            }
        }
        Remark::NearFloor { floors } => format!(
            "{subject}within {floors} of an empty launch {on}, so these times measure the harness as well"
        ),
        Remark::TakenAgain { .. } => {
            let all =
                sum(|it| if let Remark::TakenAgain { readings } = it { *readings } else { 0 });
            format!(
                "{subject}{} taken again {on}, because something else slowed the machine",
                counted(all, "reading")
            )
        }
        Remark::WarmUp { .. } => {
            let all = sum(|it| if let Remark::WarmUp { samples } = it { *samples } else { 0 });
            format!("{subject}{} left out as warm-up {on}", counted(all, "leading sample"))
        }
        Remark::Uneven { .. } => {
            let (at, medians) =
                most(
                    &remarks,
                    |it| {
                        if let Remark::Uneven { medians } = it { *medians } else { 0.0 }
                    },
                );
            let times = match remarks.len() {
                1 => format!("{medians:.1} times their median {on}"),
                _ => format!("up to {medians:.1} times their median {on} (most on {at})"),
            };
            let why = UNEVEN_END.trim_start_matches(" times their median");
            format!("{subject}{UNEVEN}{times}{why}")
        }
        Remark::Busy => format!("{subject}{BUSY} ({on})"),
    }
}

/// Returns where the most was said of something, and how much.
fn most<'a>(remarks: &[(&'a str, &Remark<'_>)], of: fn(&Remark<'_>) -> f64) -> (&'a str, f64) {
    let most = remarks.iter().max_by(|a, b| of(a.1).total_cmp(&of(b.1)));
    most.map_or(("", 0.0), |(at, remark)| (*at, of(remark)))
}

fn counted(number: u64, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(n: usize) -> Vec<String> {
        (0..n).map(|idx| format!("n{idx}")).collect()
    }

    #[test]
    fn what_is_said_of_most_workloads_is_one_line() {
        let workloads = names(30);
        let widths = (0..25).map(|idx| noisy(&format!("n{idx}"), 0.10 + 0.001 * f64::from(idx)));
        let notes: Vec<String> =
            std::iter::once("left out: a shape".to_string()).chain(widths).collect();
        assert_eq!(
            gathered(&notes, &workloads),
            [
                "left out: a shape",
                "noisy on 25 of 30 workloads (the median's interval spans up to 12 % of it, on n24)",
            ]
        );
    }

    /// They were a pair of lines for each contender.
    #[test]
    fn what_is_said_of_several_contenders_is_one_line() {
        let said = |label: &str, on: &str, width: f64| format!("{label}: {}", noisy(on, width));
        let notes = [said("a: b", "n0", 0.2), said("c", "n0", 0.16), said("a: b", "n1", 0.1)];
        assert_eq!(
            gathered(&notes, &names(2)),
            ["noisy: a: b (on 2 of 2 workloads, up to 20 %), c (on n0, 16 %)"]
        );
        assert_eq!(gathered(&notes[..2], &names(2)), ["noisy on n0: a: b (20 %), c (16 %)"]);
        assert_eq!(
            gathered(&notes[..1], &names(2)),
            ["a: b: noisy on n0 (the median's interval spans 20 % of it)"]
        );
        let of = |label: &str, note: String| format!("{label}: {note}");
        let notes = [
            of("a", near_floor("n0", 3.0)),
            of("a", taken_again("n0", 2)),
            of("b", taken_again("n0", 1)),
            of("b", near_floor("n0", 3.0)),
            of("a", busy("n0")),
            of("b", busy("n1")),
            noisy("n0", 0.2),
        ];
        assert_eq!(
            gathered(&notes, &names(2)),
            [
                "within 3x of an empty launch on n0, so these times measure the harness as well: a, b",
                "readings taken again on n0, because something else slowed the machine: a (2), b (1)",
                "something else kept the machine busy or slow; its readings count nevertheless: a (on n0), b \
                 (on n1)",
                "noisy on n0 (the median's interval spans 20 % of it)",
            ]
        );
    }

    #[test]
    fn counts_are_added_up_and_other_words_stay() {
        let notes = [
            taken_again("n0", 2),
            "n0: of another kind".to_string(),
            taken_again("n1", 1),
            warm_up("n1", 1),
            busy("n0"),
            near_floor("n0", 3.0),
            near_floor("n1", 3.0),
        ];
        assert_eq!(
            gathered(&notes, &names(3)),
            [
                "3 readings taken again on 2 of 3 workloads, because something else slowed the machine",
                "n0: of another kind",
                "1 leading sample left out as warm-up on n1",
                "something else kept the machine busy or slow; its readings count nevertheless (on n0)",
                "within 3x of an empty launch on 2 of 3 workloads, so these times measure the harness as \
                 well",
            ]
        );
    }

    #[test]
    fn means_far_from_their_medians_are_one_line() {
        let notes = [uneven("n0", 1.6), uneven("n1", 9.0), uneven("n2", 2.0)];
        assert_eq!(
            gathered(&notes, &names(3)),
            [
                "the mean of the readings is up to 9.0 times their median on 3 of 3 workloads (most on n1); \
              either something disturbed the machine, or the kernel does in few launches what it leaves out \
              in others"
            ]
        );
        assert_eq!(
            gathered(&notes[..1], &names(3)),
            [
                "the mean of the readings is 1.6 times their median on n0; either something disturbed the \
              machine, or the kernel does in few launches what it leaves out in others"
            ]
        );
    }

    #[test]
    fn a_workload_whose_name_begins_like_another_is_told_apart() {
        let notes = [noisy("n1", 0.2), noisy("n10", 0.3)];
        let lines = gathered(&notes, &["n1", "n10"]);
        assert_eq!(
            lines,
            ["noisy on 2 of 2 workloads (the median's interval spans up to 30 % of it, on n10)"]
        );
    }
}
