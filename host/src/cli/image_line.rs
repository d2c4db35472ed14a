//! What the image would say of its command line, told before anything is started.

use kernel::assign::Assignment;
use kernel::config::Config;

use crate::Failure;
use crate::run::RunOptions;

/// Options of the image that `--append` must not give it again, with what gives them.
const TAKEN: [(&str, &str); 12] = [
    ("--forward-mode", "the run has --forward"),
    ("--burst", "the run has --burst"),
    ("--rxd", "the run has --rxd"),
    ("--txd", "the run has --txd"),
    ("--rx-desc", "the run has --rx-desc"),
    ("--nb-cores", "the run has --nb-cores"),
    ("--rxq", "the run has --rxq"),
    ("--txq", "the run has --txq"),
    ("--config", "the run has --config"),
    ("--isa", "the run has --isa"),
    ("--exit", "a run needs to know how the image ends"),
    ("--self-test", "an image that tests itself forwards nothing"),
];

/// Checks what the image is told by the options of a run.
///
/// # Errors
/// What the image would end with.
pub fn check(options: &RunOptions) -> Result<(), Failure> {
    check_append(&options.append)?;
    // Another image may have options that this one has not.
    if options.image.is_some() {
        return Ok(());
    }
    let ports = options.ports.len().max(options.real.len());
    let told = |error: &dyn std::fmt::Display| Failure::usage(error.to_string());
    let config = Config::parse(&options.image_options()).map_err(|error| told(&error))?;
    let cores = usize::from(options.cpus);
    let assignment = Assignment::new(&config, ports, cores).map_err(|error| told(&error))?;
    let streams = (0..cores).map(|core| assignment.of_core(core).count()).max().unwrap_or(0);
    let needed = config.buffers_needed(streams);
    if let Some(count) = config.total_num_mbufs.filter(|count| *count < needed) {
        return Err(Failure::usage(format!(
            "option --total-num-mbufs={count}: a core needs {needed} for its {streams} queue pairs"
        )));
    }
    if let Some(port) = peers(&options.append).find(|port| *port >= ports) {
        return Err(Failure::usage(format!("option --eth-peer={port}: there are {ports} ports")));
    }
    if !config.card.rx_vlans.is_empty() && !config.card.vlan_filter {
        return Err(Failure::usage("option --rx-vlan: of no effect without --enable-hw-vlan-filter"));
    }
    Ok(())
}

fn check_append(append: &str) -> Result<(), Failure> {
    for word in append.split_ascii_whitespace() {
        let name = word.split('=').next().unwrap_or_default();
        if let Some((_, why)) = TAKEN.iter().find(|(taken, _)| *taken == name) {
            return Err(Failure::usage(format!("--append {name}: {why}")));
        }
        if name == "--tso-set" {
            return Err(Failure::usage("--append --tso-set: a run checks frame by frame what comes back"));
        }
        if matches!(name, "--port-topology" | "--no-promiscuous") {
            let why = "a run checks what comes back from its ports in pairs, for whomever it is";
            return Err(Failure::usage(format!("--append {name}: {why}")));
        }
    }
    Ok(())
}

/// The ports of `--eth-peer` options.
fn peers(append: &str) -> impl Iterator<Item = usize> + '_ {
    let words: Vec<&str> = append.split_ascii_whitespace().collect();
    let values = words.iter().enumerate().filter_map(|(index, word)| match word.strip_prefix("--eth-peer") {
        Some("") => append.split_ascii_whitespace().nth(index + 1),
        Some(value) => value.strip_prefix('='),
        None => None,
    });
    let ports: Vec<usize> = values.filter_map(|value| value.split(',').next()?.parse().ok()).collect();
    ports.into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(options: RunOptions, text: &str) {
        let said = check(&options).expect_err(text).to_string();
        assert!(said.contains(text) && !said.contains('\n'), "{said}");
    }

    #[test]
    fn what_the_image_would_refuse_is_refused_before() {
        assert!(check(&RunOptions::default()).is_ok());
        let append = |append: &str| RunOptions { append: append.into(), ..RunOptions::default() };
        refused(append("--colour=blue"), "--colour");
        refused(append("--total-num-mbufs=10"), "--total-num-mbufs=10: a core needs");
        refused(append("--eth-peer=2,02:00:00:00:00:09"), "--eth-peer=2: there are 2 ports");
        refused(append("--eth-peer 7,02:00:00:00:00:09"), "--eth-peer=7: there are 2 ports");
        refused(append("--rx-vlan=5"), "--enable-hw-vlan-filter");
        assert!(check(&append("--rx-vlan=5 --enable-hw-vlan-filter --eth-peer=1,02:00:00:00:00:09")).is_ok());
        let map = |map: &[[u16; 3]]| RunOptions { map: map.to_vec(), ..RunOptions::default() };
        refused(map(&[[0, 0, 0], [5, 0, 0]]), "--config=(5,0,0): there are 2 ports");
        refused(map(&[[0, 1, 0], [1, 0, 0]]), "--config=(0,1,0): a port's queues count up from 0");
        refused(map(&[[0, 0, 0]]), "--config: no queue of port 1");
        let many = RunOptions { rxq: Some(64), txq: Some(64), ..RunOptions::default() };
        refused(many, "core 0 would have 128 streams: at most 64");
    }

    #[test]
    fn what_the_run_decides_is_not_appended() {
        for (word, text) in [
            ("--forward-mode=io", "the run has --forward"),
            ("--rxq 2", "--rxq: the run has --rxq"),
            ("--exit=halt", "how the image ends"),
            ("--self-test=simd", "tests itself"),
            ("--port-topology=loop", "in pairs"),
            ("--no-promiscuous", "in pairs"),
        ] {
            refused(RunOptions { append: word.into(), ..RunOptions::default() }, text);
            let image = Some("image".into());
            refused(RunOptions { append: word.into(), image, ..RunOptions::default() }, text);
        }
        let other =
            RunOptions { append: "--mine=1".into(), image: Some("x".into()), ..RunOptions::default() };
        assert!(check(&other).is_ok());
    }
}
