//! The report as text.

use std::fmt;

use super::report::{Figures, Report};

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ([a, b], ways) = (self.pair, if self.ways == 2 { "both ways" } else { "one way" });
        let cores = if self.lcores == 1 { "1 core".into() } else { format!("{} cores", self.lcores) };
        writeln!(
            f,
            "RFC 2544, {} from port {a} to port {b}, {ways}: {} on {cores} under {}",
            self.forward, self.isa, self.accel
        )?;
        writeln!(
            f,
            "rates are those of one way, sizes with FCS; trials of {} s, resolution {} %, PDR at {} % loss\n",
            self.seconds, self.resolution_percent, self.pdr_percent
        )?;
        self.rates(f)?;
        self.latencies(f)?;
        for frame in self.frames.iter().filter(|frame| frame.histogram.total() > 0) {
            let at = frame.repeats.map_or("ndr", |repeats| repeats.at).to_uppercase();
            writeln!(f, "\nlatency of {} bytes at the {at}", frame.size)?;
            write!(f, "{}", frame.histogram.plot())?;
        }
        self.books(f)
    }
}

impl Report {
    fn rates(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:>5} {:>12} {:>8} {:>10} {:<8} {:>12} {:<8}  repeats: with loss, loss %",
            "size", "NDR fps", "line %", "Mbit/s", "bound", "PDR fps", "bound"
        )?;
        for frame in &self.frames {
            let ndr = rate(frame.ndr.as_ref(), frame.ndr_searched);
            write!(f, "{:>5} {ndr} {}", frame.size, bounded(frame.pdr.as_ref(), frame.pdr_searched))?;
            match frame.repeats {
                Some(spread) => {
                    let [low, high] = spread.loss_percent;
                    let at = if spread.at == "ndr" { "" } else { " (at the PDR)" };
                    writeln!(f, "  {} of {}, {low:.3} to {high:.3}{at}", spread.with_loss, spread.trials)?;
                }
                None if frame.pdr_searched => writeln!(f, "  none")?,
                None => writeln!(f, "  not measured to the end")?,
            }
        }
        Ok(())
    }

    fn latencies(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "\n{:>5} {:>9} {:>9} {:>9} {:>9} {:>9}  us; medians of the repeats",
            "size", "min", "median", "99 %", "99.9 %", "max"
        )?;
        for frame in &self.frames {
            let (Some(latency), Some(spread)) = (frame.latency_us, frame.repeats) else { continue };
            let [low, high] = spread.median_us;
            writeln!(
                f,
                "{:>5} {:>9.1} {:>9.1} {:>9.1} {:>9.1} {:>9.1}  {low:.1} to {high:.1}",
                frame.size, latency.min, latency.median, latency.p99, latency.p99_9, latency.max
            )?;
        }
        Ok(())
    }

    fn books(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let drops: Vec<String> =
            self.drops.iter().map(|(reason, count)| format!(", {reason} {count}")).collect();
        writeln!(f, "\nall trials: sent {}, came out {}{}", self.sent, self.out, drops.concat())?;
        for (what, lines) in [("note", &self.notes), ("told", &self.events), ("problem", &self.problems)] {
            for line in lines {
                writeln!(f, "{what}: {line}")?;
            }
        }
        write!(f, "{}", if self.good() { "every frame is accounted for" } else { "FAILED" })
    }
}

/// A rate, marked where higher ones may pass, too.
fn fps(found: &Figures) -> String {
    let wire = found.bound == "highest" && found.line_percent > 99.0;
    let mark = if found.bound == "loss" || wire { "" } else { ">=" };
    format!("{mark}{:.0}", found.fps)
}

/// What stands where there is no rate, with the reason.
fn none(searched: bool) -> (&'static str, &'static str) {
    if searched { ("none", "loss") } else { ("-", "-") }
}

fn rate(found: Option<&Figures>, searched: bool) -> String {
    let Some(found) = found else {
        let (none, bound) = none(searched);
        return format!("{none:>12} {:>8} {:>10} {bound:<8}", "-", "-");
    };
    let (fps, bound) = (fps(found), found.bound);
    format!("{fps:>12} {:>8.2} {:>10.1} {bound:<8}", found.line_percent, found.mbps)
}

fn bounded(found: Option<&Figures>, searched: bool) -> String {
    let Some(found) = found else {
        let (none, bound) = none(searched);
        return format!("{none:>12} {bound:<8}");
    };
    format!("{:>12} {:<8}", fps(found), found.bound)
}

#[cfg(test)]
mod tests {
    use super::super::search::Bound;
    use super::*;

    #[test]
    fn what_was_not_measured_is_not_called_loss() {
        assert_eq!(bounded(None, true).trim(), "none loss");
        assert_eq!(bounded(None, false).trim(), "- -");
        assert!(!rate(None, false).contains("loss"));
    }

    #[test]
    fn rates_that_may_be_higher_are_marked() {
        let of = |bound, fps| bounded(Some(&Figures::new(fps, bound, 64, 1e6)), true);
        assert!(of(Bound::Source, 5000.0).contains(">=5000 source"));
        assert!(of(Bound::Highest, 5000.0).contains(">=5000 highest"));
        assert!(!of(Bound::Highest, 1e6).contains(">=") && !of(Bound::Loss, 5000.0).contains(">="));
    }
}
