//! Instructions a frame, kept in a file: they don't depend on how busy a machine is, so a check may compare them.

use std::collections::BTreeMap;
use std::path::PathBuf;

use bench::{Case, Request, Told};
use serde::{Deserialize, Serialize};

use super::{ask, rustc};
use crate::{Failure, image};

/// More than this part above what is kept is a fault.
const ALLOWED: f64 = 0.03;

/// The file.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Kept {
    /// The compiler whose code was counted; another one makes other code.
    pub rustc: String,
    /// Instructions a frame, by case.
    pub instructions: BTreeMap<String, f64>,
}

/// What a check found.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Checked {
    /// Case, what is kept, what was counted.
    pub rows: Vec<(String, f64, f64)>,
    /// Why some or all were not compared.
    pub skipped: Vec<String>,
}

impl Checked {
    /// Cases that take more than is kept, by more than is allowed.
    pub fn worse(&self) -> impl Iterator<Item = &(String, f64, f64)> {
        self.rows.iter().filter(|(_, kept, now)| *now > kept * (1.0 + ALLOWED))
    }

    /// A table, and whether nothing is worse.
    pub fn told(&self) -> (String, bool) {
        let lines = self.rows.iter().map(|(case, kept, now)| {
            format!("{case:<36} {kept:>8.2} {now:>8.2} {:>+7.1} %\n", (now / kept - 1.0) * 100.0)
        });
        let skipped = self.skipped.iter().map(|why| format!("skipped: {why}\n"));
        (lines.chain(skipped).collect(), self.worse().next().is_none())
    }
}

fn path() -> PathBuf {
    image::workspace().join("host/bench/instructions.toml")
}

fn kept() -> Result<Kept, Failure> {
    let path = path();
    let told = |error: &dyn std::fmt::Display| Failure::usage(format!("{}: {error}", path.display()));
    let text = std::fs::read_to_string(&path).map_err(|error| told(&error))?;
    toml::from_str(&text).map_err(|error| told(&error))
}

/// Counts the usual cases and writes them down; says what was written.
///
/// # Errors
/// They can't be counted, or the file not be written.
pub fn write() -> Result<String, Failure> {
    let cases: Vec<Case> = Case::all().into_iter().filter(Case::is_usual).collect();
    let (instructions, _) = count(&cases)?;
    let kept = Kept { rustc: rustc(), instructions };
    let (path, count) = (path(), kept.instructions.len());
    let told = |error: &dyn std::fmt::Display| Failure::usage(format!("{}: {error}", path.display()));
    let text = toml::to_string(&kept).map_err(|error| told(&error))?;
    let text = format!("# Instructions a frame. `barewire bench --write` counts them anew.\n{text}");
    std::fs::write(&path, text).map_err(|error| told(&error))?;
    Ok(format!("{}: {count} cases", path.display()))
}

/// Counts what is kept again, as far as it is `wanted`.
///
/// # Errors
/// The file is not there, or they can't be counted.
pub fn check(wanted: impl Fn(&Case) -> bool) -> Result<Checked, Failure> {
    let kept = kept()?;
    let now = rustc();
    let mut checked = Checked::default();
    if now != kept.rustc {
        checked.skipped.push(format!("this is {now}, and what is kept was counted with {}", kept.rustc));
        return Ok(checked);
    }
    let named = kept.instructions.keys().filter_map(|name| Case::from_name(name));
    let cases: Vec<Case> = named.filter(wanted).collect();
    let (counts, uncounted) = count(&cases)?;
    for case in uncounted {
        checked.skipped.push(format!("{case}: this machine lacks the instructions, or lets nobody trace"));
    }
    for (case, kept) in kept.instructions {
        if let Some(now) = counts.get(&case) {
            checked.rows.push((case, kept, *now));
        }
    }
    Ok(checked)
}

/// Counts cases; also those that could not be counted.
fn count(cases: &[Case]) -> Result<(BTreeMap<String, f64>, Vec<String>), Failure> {
    let (mut counts, mut not) = (BTreeMap::new(), Vec::new());
    let names = cases.iter().map(Case::to_string).collect();
    ask(&Request::Count { cases: names }, |told| match told {
        Told::Count { case, instructions: Some(count) } => {
            counts.insert(case, (count * 100.0).round() / 100.0);
        }
        Told::Count { case, instructions: None } => not.push(case),
        _ => {}
    })?;
    Ok((counts, not))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_takes_more_is_worse() {
        let row = |now| ("i40e-io/avx2".to_owned(), 20.0, now);
        let checked = |now| Checked { rows: vec![row(now)], skipped: Vec::new() };
        assert!(checked(20.5).told().1 && checked(10.0).told().1);
        let (text, good) = checked(20.7).told();
        assert!(!good && text.contains("+3.5 %"), "{text}");
    }

    #[test]
    fn the_file_that_is_kept_names_cases_that_there_are() {
        let kept = kept().unwrap();
        assert!(kept.instructions.len() >= 45 && kept.rustc.starts_with("rustc 1."));
        assert!(kept.instructions.keys().all(|name| Case::from_name(name).is_some()));
    }
}
