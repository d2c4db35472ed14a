//! What testpmd says.

/// Cycles a packet of each run that had packets, in order.
pub fn cycles(text: &str) -> Vec<f64> {
    let numbers = text.split("CPU cycles/packet=").skip(1);
    numbers.filter_map(|rest| rest.split([' ', '(']).next()?.parse().ok()).collect()
}

/// The frequency of the time stamp counter, in MHz.
pub fn megahertz(text: &str) -> Option<f64> {
    let (before, _) = text.split_once(" MHz Clock")?;
    before.rsplit(' ').next()?.parse().ok()
}

/// The version, such as `22.11.11`.
pub fn version(text: &str) -> Option<String> {
    let rest = text.split_once("'DPDK ").or_else(|| text.split_once("DPDK version: DPDK "))?.1;
    let version: String = rest.chars().take_while(|c| c.is_ascii_digit() || *c == '.').collect();
    (!version.is_empty()).then_some(version)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As Debian's testpmd 22.11.11 said it.
    const SAID: &str = "Telling cores to stop...
Waiting for lcores to finish...

  ---------------------- Forward statistics for port 0  ----------------------
  RX-packets: 569508608      RX-dropped: 0             RX-total: 569508608
  TX-packets: 569508864      TX-dropped: 0             TX-total: 569508864
  ----------------------------------------------------------------------------

  CPU cycles/packet=6.19 (total cycles=3527016914 / total io packets=569508608) at 2790 MHz Clock

Done.
Set macswap packet forwarding mode
Telling cores to stop...
Waiting for lcores to finish...
Done.
";

    #[test]
    fn each_run_is_found() {
        assert_eq!(cycles(SAID), [6.19]);
        assert_eq!(megahertz(SAID), Some(2790.0));
        assert_eq!((cycles(""), megahertz("")), (vec![], None));
    }

    #[test]
    fn the_version_is_found() {
        assert_eq!(version("EAL: RTE Version: 'DPDK 22.11.11'\n"), Some("22.11.11".into()));
        assert_eq!(version("testpmd"), None);
    }
}
