//! A report as text.

use std::fmt;

use bench::Row;

use super::Report;

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}, time stamp counter {:.3} GHz, {}", self.cpu, self.tsc_hz as f64 / 1e9, self.rustc)?;
        writeln!(
            f,
            "{:<36} {:>8} {:>8} {:>8} {:>12} {:>6}",
            "case", "cycles", "least", "most", "instructions", "lines"
        )?;
        self.cases.iter().try_for_each(|row| line(f, row))?;
        if let Some(row) = self.cases.first() {
            writeln!(
                f,
                "cycles: ticks a frame, the median of {} turns' medians; lines: of cache, by design",
                row.samples
            )?;
        }
        for peer in &self.peers {
            writeln!(f, "{peer}{}", self.beside(peer))?;
        }
        self.notes.iter().try_for_each(|note| writeln!(f, "note: {note}"))
    }
}

fn line(f: &mut fmt::Formatter<'_>, row: &Row) -> fmt::Result {
    let Row { case, tsc_cycles, min, max, lines, .. } = row;
    let count = row.instructions.map_or_else(|| "-".into(), |count| format!("{count:.2}"));
    writeln!(f, "{:<36} {tsc_cycles:>8.2} {min:>8.2} {max:>8.2} {count:>12} {lines:>6.2}", case.to_string())
}

impl Report {
    /// How a peer compares with the best case of this run that does the same.
    fn beside(&self, peer: &super::PeerRow) -> String {
        // With descriptors of 32 bytes, as Debian builds DPDK, and the same instructions, where they are known.
        let same = |row: &&Row| {
            let isa = peer.isa.is_none_or(|isa| row.case.isa.name() == isa && row.case.desc == 32);
            row.case.bench.name() == peer.beside && row.case.is_usual() && isa
        };
        let best = self.cases.iter().filter(same).min_by(|a, b| a.tsc_cycles.total_cmp(&b.tsc_cycles));
        best.map_or_else(String::new, |row| {
            let counts =
                row.instructions.zip(peer.instructions).map_or_else(String::new, |(ours, theirs)| {
                    format!(", {:.2} of its instructions", ours / theirs)
                });
            format!("; {} takes {:.2} of it{counts}", row.case, row.tsc_cycles / peer.tsc_cycles)
        })
    }
}
