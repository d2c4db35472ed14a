//! Cycles against frame size, a line for each instruction set, as SVG.

use std::collections::BTreeMap;
use std::fmt::Write;

use bench::Row;
use bench::case::{Loops, SIZES};

use super::Report;

const WIDTH: f64 = 420.0;
const HEIGHT: f64 = 260.0;
const LEFT: f64 = 46.0;
const TOP: f64 = 28.0;
const COLOURS: [(Loops, &str); 4] = [
    (Loops::Scalar, "#888888"),
    (Loops::Ssse3, "#1b7837"),
    (Loops::Avx2, "#2166ac"),
    (Loops::Avx512, "#b2182b"),
];

/// A picture for each bench, descriptor, ring, burst and set of the report, one below the other.
pub fn svg(report: &Report) -> String {
    let mut pictures: BTreeMap<String, Vec<&Row>> = BTreeMap::new();
    for row in &report.cases {
        pictures.entry(title(row)).or_default().push(row);
    }
    let step = HEIGHT + TOP + 48.0;
    let height = step * pictures.len() as f64;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{}\" height=\"{height}\" font-family=\"sans-serif\" font-size=\"11\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
        WIDTH + LEFT + 90.0
    );
    for (index, (title, rows)) in pictures.iter().enumerate() {
        let _ = writeln!(out, "<g transform=\"translate({LEFT},{})\">", step * index as f64 + TOP);
        picture(&mut out, title, rows);
        out.push_str("</g>\n");
    }
    out.push_str("</svg>\n");
    out
}

fn title(row: &Row) -> String {
    let case = row.case;
    let rings = if case.bench.has_rings() {
        format!(", {}-byte descriptors, ring {}", case.desc, case.ring)
    } else {
        String::new()
    };
    format!("{}{rings}, burst {}, {}", case.bench.name(), case.burst, case.set.name())
}

fn picture(out: &mut String, title: &str, rows: &[&Row]) {
    let top = rows.iter().map(|row| row.tsc_cycles).fold(1.0, f64::max) * 1.1;
    let x = |size: u16| {
        let place = SIZES.iter().position(|known| *known == size).unwrap_or(0);
        WIDTH * (place as f64 + 0.5) / SIZES.len() as f64
    };
    let y = |cycles: f64| HEIGHT * (1.0 - cycles / top);
    let _ =
        writeln!(out, "<text x=\"0\" y=\"-10\" font-weight=\"bold\">{title}: cycles a frame by size</text>");
    let _ = writeln!(out, "<path d=\"M0 0V{HEIGHT}H{WIDTH}\" fill=\"none\" stroke=\"black\"/>");
    for size in SIZES {
        let _ = writeln!(
            out,
            "<text x=\"{:.1}\" y=\"{}\" text-anchor=\"middle\">{size}</text>",
            x(size),
            HEIGHT + 14.0
        );
    }
    for part in 0..=4 {
        let cycles = top * f64::from(part) / 4.0;
        let _ = writeln!(
            out,
            "<text x=\"-6\" y=\"{:.1}\" text-anchor=\"end\">{cycles:.1}</text>",
            y(cycles) + 4.0
        );
    }
    let mut named = 0.0;
    for (loops, colour) in COLOURS {
        let mut points: Vec<(u16, f64)> = rows
            .iter()
            .filter(|row| row.case.isa == loops)
            .map(|row| (row.case.size, row.tsc_cycles))
            .collect();
        points.sort_by_key(|(size, _)| *size);
        if points.is_empty() {
            continue;
        }
        let line: Vec<String> =
            points.iter().map(|(size, cycles)| format!("{:.1},{:.1}", x(*size), y(*cycles))).collect();
        let _ = writeln!(
            out,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>",
            line.join(" ")
        );
        for (size, cycles) in points {
            let _ = writeln!(
                out,
                "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"3\" fill=\"{colour}\"/>",
                x(size),
                y(cycles)
            );
        }
        named += 16.0;
        let _ = writeln!(
            out,
            "<text x=\"{}\" y=\"{named}\" fill=\"{colour}\">{}</text>",
            WIDTH + 8.0,
            loops.name()
        );
    }
}

#[cfg(test)]
mod tests {
    use bench::Case;

    use super::*;

    #[test]
    fn each_instruction_set_has_a_line_through_its_sizes() {
        let row = |name: &str, tsc_cycles| Row {
            case: Case::from_name(name).unwrap(),
            tsc_cycles,
            min: 1.0,
            max: 9.0,
            samples: 5,
            instructions: None,
            lines: 1.0,
            tsc_hz: 1,
        };
        let cases = vec![
            row("macswap/avx2/32/60/l1", 2.0),
            row("macswap/avx2/32/1518/l1", 4.0),
            row("macswap/scalar/32/60/l1", 8.0),
            row("i40e-io/avx2/32/1024/32/60/l2", 3.0),
        ];
        let (cpu, rustc) = (String::new(), String::new());
        let report = Report { cpu, rustc, tsc_hz: 1, cases, peers: Vec::new(), notes: Vec::new() };
        let picture = svg(&report);
        assert_eq!(picture.matches("<polyline").count(), 3);
        assert_eq!(picture.matches("<circle").count(), 4);
        // The least and the largest size, 2 and 4 of 8.8 cycles.
        assert!(picture.contains("points=\"26.2,200.9 393.8,141.8\""), "{picture}");
    }
}
