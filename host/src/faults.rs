//! Faults of a software card: a script from a file, or one that a number draws.

use std::io::Read;
use std::path::PathBuf;

use model::Script;

use crate::Failure;

/// Frames within which the faults of a drawn script come.
const FRAMES: u64 = 10_000;

/// Bytes of a script.
const LONGEST: u64 = 1 << 20;

/// Where a script comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FaultSource {
    /// A file with a fault a line.
    File(PathBuf),
    /// A number; what it draws is told, so that it can be kept in a file.
    Seed(u64),
}

impl FaultSource {
    /// The script for the port `name`.
    ///
    /// # Errors
    /// The file can't be read, or a line of it is no fault.
    pub fn script(&self, name: &str) -> Result<Script, Failure> {
        match self {
            Self::File(path) => {
                let told =
                    |error: &dyn std::fmt::Display| Failure::usage(format!("{}: {error}", path.display()));
                let mut text = String::new();
                let file = std::fs::File::open(path).map_err(|error| told(&error))?;
                file.take(LONGEST + 1).read_to_string(&mut text).map_err(|error| told(&error))?;
                if text.len() as u64 > LONGEST {
                    return Err(told(&format!("more than {LONGEST} bytes are no script")));
                }
                text.parse().map_err(|error| told(&error))
            }
            Self::Seed(seed) => {
                let text = Script::draw(*seed, FRAMES);
                text.lines().for_each(|line| eprintln!("barewire: faults of {name}: {line}"));
                text.parse().map_err(|error| Failure::usage(format!("seed {seed}: {error}")))
            }
        }
    }
}

/// `N`, for `seed=N`.
///
/// # Errors
/// What can stand there.
pub fn parse_seed(text: &str) -> Result<FaultSource, String> {
    text.parse().map(FaultSource::Seed).map_err(|_| format!("seed {text}: a number from 0 on"))
}

/// What a script can hold, for `--help`.
pub const HELP: &str = "\
Faults: faults=FILE makes the card misbehave as the file says, seed=N as the number draws (the script is told). A line \
holds one fault; # begins a comment. Events are accesses to registers and times that the card works; frames are those \
through its MAC, either way.

  [after N frames] FAULT, or FAULT [after N frames]
  admin OPCODE|any code N|never|late N|head N|not-done|critical [times N|always]
  rx-writeback|tx-writeback late N|missing|torn N|swapped N [skip N] [times N|always]
  tx-fetch late N               doorbells are looked at N events later; memory must not change meanwhile
  rx-ring empty N               no receive descriptor for N events
  rx-queue|tx-queue enable|disable never|late N [times N|always]
  reset never|late N            a reset by the driver takes N reads
  register OFFSET reads VALUE [times N|always]
  link down|up|flap N
  pf-reset                      the function is reset from the card's side
  card-reset N                  the card is reset, GLGEN_RSTAT says so for N reads
  firmware X.Y [api A.B]
  queues N                      the function has N queue pairs
  lldp on|off                   the firmware's LLDP agent
  mac-config needs-link         Set MAC Config fails while the link is down, and frames stay short
  event OPCODE length N [times N]";
