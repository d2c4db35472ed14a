//! What is asked of the measuring program, and what it tells, a JSON object a line.

use serde::{Deserialize, Serialize};

use crate::case::Case;

/// What is asked.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Request {
    /// Times and instructions of cases, by name.
    Measure {
        /// Their names.
        cases: Vec<String>,
        /// How often the cases of an instruction set take their turns.
        rounds: usize,
    },
    /// Instructions of cases, by name.
    Count {
        /// Their names.
        cases: Vec<String>,
    },
    /// To run a case, for whoever looks on: callgrind with `--toggle-collect='*counted_*'`.
    Run {
        /// Its name.
        case: String,
        /// Rounds of a quarter of a ring.
        rounds: usize,
    },
    /// To run a case so that whoever traces this process can count: see [`crate::count`].
    Traced {
        /// Its name.
        case: String,
        /// Rounds of a quarter of a ring.
        rounds: usize,
    },
}

/// A case and what it took.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The case.
    #[serde(flatten)]
    pub case: Case,
    /// Ticks of the time stamp counter a frame: the median of all samples' medians.
    pub tsc_cycles: f64,
    /// The least of them.
    pub min: f64,
    /// The largest of them.
    pub max: f64,
    /// How many there were.
    pub samples: usize,
    /// Instructions a frame, if they could be counted.
    pub instructions: Option<f64>,
    /// Cache lines a frame by design.
    pub lines: f64,
    /// Ticks a second.
    pub tsc_hz: u64,
}

/// What the measuring program tells.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Told {
    /// Something to know, in words.
    Note(String),
    /// A case that was measured.
    Row(Row),
    /// Instructions of a case.
    Count {
        /// Its name.
        case: String,
        /// Instructions a frame, if they could be counted.
        instructions: Option<f64>,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rows_keys_are_those_that_are_promised() {
        let case = Case::from_name("i40e-io/avx2/32/1024/32/60/l2").unwrap();
        let row = Row {
            case,
            tsc_cycles: 3.5,
            min: 3.0,
            max: 9.0,
            samples: 25,
            instructions: Some(19.1),
            lines: 0.91,
            tsc_hz: 2_800_000_000,
        };
        let text = serde_json::to_string(&row).unwrap();
        assert_eq!(
            text,
            r#"{"bench":"i40e-io","isa":"avx2","desc":32,"ring":1024,"burst":32,"size":60,"set":"l2","tsc_cycles":3.5,"min":3.0,"max":9.0,"samples":25,"instructions":19.1,"lines":0.91,"tsc_hz":2800000000}"#
        );
        assert_eq!(serde_json::from_str::<Row>(&text).unwrap(), row);
    }
}
