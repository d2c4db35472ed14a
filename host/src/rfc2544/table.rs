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
            write!(f, "{:>5} {} {}", frame.size, rate(frame.ndr.as_ref()), bounded(frame.pdr.as_ref()))?;
            match frame.repeats {
                Some(spread) => {
                    let [low, high] = spread.loss_percent;
                    let at = if spread.at == "ndr" { "" } else { " (at the PDR)" };
                    writeln!(f, "  {} of {}, {low:.3} to {high:.3}{at}", spread.with_loss, spread.trials)?;
                }
                None => writeln!(f, "  none")?,
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

fn rate(found: Option<&Figures>) -> String {
    match found {
        Some(found) => {
            format!("{:>12.0} {:>8.2} {:>10.1} {:<8}", found.fps, found.line_percent, found.mbps, found.bound)
        }
        None => format!("{:>12} {:>8} {:>10} {:<8}", "none", "-", "-", "loss"),
    }
}

fn bounded(found: Option<&Figures>) -> String {
    match found {
        Some(found) => format!("{:>12.0} {:<8}", found.fps, found.bound),
        None => format!("{:>12} {:<8}", "none", "loss"),
    }
}
