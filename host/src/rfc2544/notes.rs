//! What to know of the figures before they are believed.

use super::Plan;
use super::report::{Figures, Frame, Purpose};
use crate::qemu::Accel;

/// A sentence each: whose rates these are, what bounded them, how far they can be trusted.
pub fn notes(accel: Accel, plan: &Plan, frames: &[Frame], host_cpus: usize, rxd: u16) -> Vec<String> {
    let mut notes = vec![whose(accel, host_cpus)];
    let source = sizes(frames, |frame| bounded_by(frame, "source"));
    if !source.is_empty() {
        notes.push(format!(
            "the source was the limit for rates of {source} bytes that say so: beside the image, on the same cores, it held \
             no higher rate with no more loss than is allowed; what the image could do with a faster source is not known"
        ));
    }
    let highest = sizes(frames, |frame| plan.highest.is_some() && bounded_by(frame, "highest"));
    if !highest.is_empty() {
        notes.push(format!("--max-rate was the limit for rates of {highest} bytes that say \"highest\""));
    }
    let trials = sizes(frames, |frame| bounded_by(frame, "trials"));
    if !trials.is_empty() {
        notes.push(format!(
            "searches at {trials} bytes took every trial that they may: their rates passed, and higher ones may, too"
        ));
    }
    let lost =
        |frame: &Frame| frame.repeats.is_some_and(|repeats| repeats.at == "ndr" && repeats.with_loss > 0);
    let lost = sizes(frames, lost);
    if !lost.is_empty() {
        notes.push(format!(
            "not confirmed: repeats at the NDR of {lost} bytes lost frames; longer trials find lower rates that hold"
        ));
    }
    notes.extend(pace(frames, rxd));
    let unasked =
        sizes(frames, |frame| frame.trials.iter().any(|trial| trial.unasked > 0 && !trial.broken_off));
    if !unasked.is_empty() {
        notes.push(format!(
            "in trials of {unasked} bytes a card did not ask for all frames: a link was down, or the cards' thread was late"
        ));
    }
    if plan.trial.as_secs_f64() < 60.0 {
        let seconds = plan.trial.as_secs_f64();
        notes.push(format!("trials of {seconds} s: RFC 2544 has 60 s or more (--seconds 60)"));
    }
    notes
}

/// Whose rates these are.
fn whose(accel: Accel, host_cpus: usize) -> String {
    let shared = format!("image, cards and source share the host's {host_cpus} cores");
    match accel {
        Accel::Tcg => format!(
            "under tcg every instruction of the image is translated, and {shared}: rates and times are the emulator's; they \
             compare runs on this host, and tell nothing of a card or a machine; believe differences that are larger than \
             the spread of repeats"
        ),
        Accel::Kvm => {
            format!("the cards are software, and {shared}: the figures are not those of real cards")
        }
    }
}

/// How even the source's pace was where it counts.
fn pace(frames: &[Frame], rxd: u16) -> Option<String> {
    let trials = frames.iter().flat_map(|frame| &frame.trials);
    let most = trials.filter(|trial| trial.purpose == Purpose::Repeat).map(|trial| trial.most_due).max()?;
    Some(format!(
        "the source sends in groups: at most {most} frames of a way were due at once in a repeat, of which those that fit \
         into a fourth of the {rxd} receive descriptors left, and no others"
    ))
}

fn bounded_by(frame: &Frame, bound: &str) -> bool {
    let by = |found: &Option<Figures>| found.is_some_and(|found| found.bound == bound);
    by(&frame.ndr) || by(&frame.pdr)
}

/// Sizes of the frames that `of` is true for, with commas.
fn sizes(frames: &[Frame], of: impl Fn(&Frame) -> bool) -> String {
    let sizes: Vec<String> =
        frames.iter().filter(|frame| of(frame)).map(|frame| frame.size.to_string()).collect();
    sizes.join(", ")
}

#[cfg(test)]
mod tests {
    use super::super::search::Bound;
    use super::*;

    /// Notes on a frame size whose NDR is bounded so.
    fn of(bound: Bound, highest: Option<f64>) -> String {
        let mut frame = Frame::new(64, 1e6);
        frame.ndr = Some(Figures::new(5000.0, bound, 64, 1e6));
        notes(Accel::Tcg, &Plan { highest, ..Plan::default() }, &[frame], 2, 1024).join("\n")
    }

    #[test]
    fn what_was_the_limit_is_told() {
        for (bound, highest, text) in [
            (Bound::Source, None, "the source was the limit for rates of 64 bytes"),
            (Bound::Highest, Some(5000.0), "--max-rate was the limit"),
            (Bound::Trials, None, "took every trial"),
        ] {
            let said = of(bound, highest);
            assert!(said.contains(text) && said.contains("the emulator's"), "{said}");
        }
        for said in [of(Bound::Loss, None), of(Bound::Highest, None)] {
            assert!(!said.contains("the limit") && said.contains("the host's 2 cores"), "{said}");
        }
    }
}
