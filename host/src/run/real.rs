//! A machine with real cards: the image forwards what comes in on their wires, and this program shows what it says.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use serde::Serialize;

use super::process::Process;
use super::rig::{BOOT_LIMIT, END_LIMIT, HURRIED_END_LIMIT};
use super::{Event, ImageReport, RunOptions};
use crate::pci::{Bdf, Host};
use crate::qemu::{self, Machine};
use crate::{Failure, signals};

/// The account of a run with real cards. Keys of the JSON object are never renamed.
#[derive(Debug, Serialize)]
pub struct RealSummary {
    /// Accelerator.
    pub accel: &'static str,
    /// By port.
    pub ports: Vec<RealPort>,
    /// What went wrong.
    pub problems: Vec<String>,
}

/// What the image counted at a port.
#[derive(Debug, Serialize)]
pub struct RealPort {
    /// Its card.
    pub pci: String,
    /// Frames that came in.
    pub rx_frames: u64,
    /// Frames sent.
    pub tx_frames: u64,
    /// Frames dropped, by reason.
    pub drops: BTreeMap<String, u64>,
}

/// Runs until the time is up or somebody stops it.
///
/// # Errors
/// A card can't be had, or there is no machine to put it into.
pub fn run_real(options: &RunOptions, json: bool) -> Result<RealSummary, Failure> {
    for card in &options.real {
        Host::default().check(*card).map_err(Failure::usage)?;
    }
    let (events, inbox) = mpsc::channel();
    let stop = events.clone();
    signals::on_stop(move || drop(stop.send(Event::Stop)))?;
    let mut progress = super::Progress::new();
    let ground = super::prepare(options, &mut progress)?;
    progress.clear();
    let machine = machine(&ground, options);
    let mut process = Process::start(machine.command(&ground.qemu), &events)?;
    let mut image = ImageReport::default();
    let failure = attend(options, json, &inbox, &mut process, &mut image);
    process.end();
    let mut problems: Vec<String> = failure.into_iter().collect();
    problems.append(&mut image.errors);
    let ports = options.real.iter().enumerate().map(|(index, card)| {
        let stats = image.ports.get(&index).and_then(|port| port.stats.clone()).unwrap_or_default();
        let (rx_frames, tx_frames, drops) = (stats.rx_frames, stats.tx_frames, stats.drops);
        RealPort { pci: card.to_string(), rx_frames, tx_frames, drops }
    });
    Ok(RealSummary { accel: ground.accel.name(), ports: ports.collect(), problems })
}

fn machine(ground: &super::Ground, options: &RunOptions) -> Machine {
    let mut machine = Machine::new(ground.accel, ground.image.clone(), options.image_options(), Vec::new());
    machine.extra = options.real.iter().enumerate().flat_map(|(index, card)| devices(index, *card)).collect();
    machine
}

/// A root port and the card behind it.
fn devices(index: usize, card: Bdf) -> [String; 4] {
    let device = "-device".to_owned();
    [
        device.clone(),
        format!("pcie-root-port,id=real{index},chassis={},x-speed=8,x-width=8", 100 + index),
        device,
        format!("vfio-pci,host={card},bus=real{index}"),
    ]
}

/// Shows what the image says, tells it to end, and waits for that. Says what went wrong.
fn attend(
    options: &RunOptions,
    json: bool,
    inbox: &mpsc::Receiver<Event>,
    process: &mut Process,
    image: &mut ImageReport,
) -> Option<String> {
    const FOREVER: Duration = Duration::from_secs(86_400 * 365);
    let mut until = Instant::now() + BOOT_LIMIT;
    let (mut ready, mut ending) = (false, false);
    loop {
        match inbox.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(Event::Line(line)) => {
                if !json {
                    let _ = writeln!(std::io::stdout(), "{line}");
                }
                image.line(&line);
                process.remember(line);
                if image.ready && !ready {
                    ready = true;
                    until = Instant::now() + options.duration.unwrap_or(FOREVER);
                }
            }
            Ok(Event::Exited(Some(qemu::DEBUG_EXIT_SUCCESS))) if image.ended_well => return None,
            Ok(Event::Exited(status)) => return Some(process.ended_with(status, image)),
            Ok(Event::ServerEnded(_)) => {}
            Ok(Event::Stop) | Err(RecvTimeoutError::Timeout) if ready && !ending => {
                ending = true;
                until = Instant::now() + END_LIMIT;
                process.say("quit\n");
            }
            Ok(Event::Stop) if ending => until = until.min(Instant::now() + HURRIED_END_LIMIT),
            Ok(Event::Stop) => return Some("stopped while the image was booting".into()),
            Err(_) if ending => return Some(process.tell("the image did not end when it was told to")),
            Err(_) => {
                return Some(
                    process.tell(&format!("the image is not ready after {} s", BOOT_LIMIT.as_secs())),
                );
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Arguments as QEMU's documentation of vfio-pci has them.
    #[test]
    fn a_card_sits_behind_a_root_port_of_its_own() {
        let card = Bdf::parse("0000:5e:00.1").unwrap();
        let arguments = devices(1, card);
        assert_eq!(arguments[1], "pcie-root-port,id=real1,chassis=101,x-speed=8,x-width=8");
        assert_eq!(arguments[3], "vfio-pci,host=0000:5e:00.1,bus=real1");
    }
}
