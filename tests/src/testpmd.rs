//! A testpmd that runs in a guest: its command line, its answers, its numbers.

use std::collections::BTreeMap;
use std::time::Duration;

use libtest_mimic::Failed;
use model::vfio_user::PortStatus;
use model::{Handle, PortConfig, ServeError, Server, Xl710};

use crate::dpdk::Dpdk;
use crate::exchange::{Exchange, Round};
use crate::guest::Guest;
use crate::machine::{Ground, ensure};

/// What the answer to `set verbose`, which any command is followed by, contains: a mark behind the command's own answer.
const MARK: &str = "Change verbose level from";

/// A guest with two cards and testpmd in it.
pub struct Testpmd {
    guest: Guest,
    /// A way to the cards.
    pub handle: Handle,
    /// Received frames are printed.
    pub verbose: bool,
    /// The cards' wires.
    pub exchange: Exchange,
    server: Option<std::thread::JoinHandle<Result<(), ServeError>>>,
    _folder: tempfile::TempDir,
}

/// Numbers of a port by the names that testpmd prints them with.
pub type Numbers = BTreeMap<String, u64>;

impl Testpmd {
    /// An X710 and an XL710.
    const DEVICES: [u16; 2] = [0x1572, 0x1583];

    /// Address of card `port`.
    pub fn mac(port: usize) -> [u8; 6] {
        [0x68, 5, 0xca, 0, 0xd0, port as u8]
    }

    /// Starts the guest, without testpmd yet.
    ///
    /// # Errors
    /// It does not start.
    pub fn boot(ground: &Ground) -> Result<Self, Failed> {
        let dpdk = Dpdk::obtain()?;
        let folder = tempfile::tempdir()?;
        let initramfs = folder.path().join("initramfs");
        dpdk.initramfs(&initramfs)?;
        let exchange = Exchange::new(2);
        let (mut cards, mut sockets) = (Vec::new(), Vec::new());
        for (port, wire) in exchange.wires().into_iter().enumerate() {
            let config = PortConfig {
                device_id: Self::DEVICES[port],
                mac: Self::mac(port),
                name: format!("dpdk{port}"),
            };
            sockets.push(folder.path().join(format!("card{port}")));
            cards.push((sockets[port].clone(), Xl710::new(config, wire)));
        }
        let server = Server::bind(cards)?;
        let handle = server.handle();
        let server = Some(std::thread::spawn(move || server.run()));
        let mut guest = Guest::start(dpdk.command(&ground.qemu, &initramfs, &sockets))?;
        guest.wait_for("guest ready")?;
        Ok(Self { guest, handle, verbose: false, exchange, server, _folder: folder })
    }

    /// Gives the guest this long from now on.
    pub fn allow(&mut self, time: Duration) {
        self.guest.allow(time);
    }

    /// Starts testpmd with these arguments of EAL and of its own.
    ///
    /// # Errors
    /// It does not come to its prompt.
    pub fn start(&mut self, eal: &str, own: &str) -> Result<(), Failed> {
        self.guest.say(&format!("{eal} -- -i --nb-cores=1 --total-num-mbufs=8192 {own}\n"))?;
        self.guest.wait_for("Done")?;
        self.answer("show port summary all").map(|_| ())
    }

    /// What testpmd says to a command.
    ///
    /// # Errors
    /// It says nothing any more.
    pub fn answer(&mut self, command: &str) -> Result<String, Failed> {
        let before = self.guest.said().len();
        self.guest.say(&format!("{command}\nset verbose {}\n", u8::from(self.verbose)))?;
        self.guest.wait_for(MARK)?;
        Ok(self.guest.said()[before..].to_owned())
    }

    /// As [`Testpmd::answer`], which must contain each of `texts`.
    ///
    /// # Errors
    /// It does not.
    pub fn expect(&mut self, command: &str, texts: &[&str]) -> Result<String, Failed> {
        let answer = self.answer(command)?;
        let missing = texts.iter().find(|text| !answer.contains(**text));
        ensure(missing.is_none(), || format!("{command}: no {missing:?} in:\n{answer}"))?;
        Ok(answer)
    }

    /// Gives a command for each port, with the port's number in place of `PORT`. Returns the answers.
    ///
    /// # Errors
    /// It does not answer.
    pub fn each(&mut self, command: &str) -> Result<String, Failed> {
        let ports = 0..Self::DEVICES.len();
        ports.map(|port| self.answer(&command.replace("PORT", &port.to_string()))).collect()
    }

    /// Gives these commands for each port while the ports are stopped.
    ///
    /// # Errors
    /// The ports do not start again.
    pub fn configure(&mut self, commands: &[&str]) -> Result<(), Failed> {
        self.expect("port stop all", &["Done"])?;
        for command in commands {
            self.each(command)?;
        }
        self.expect("port start all", &["Done"])?;
        Ok(())
    }

    /// Sends a round through it.
    ///
    /// # Errors
    /// The exchange's.
    pub fn exchange(&mut self, round: Round) -> Result<(), Failed> {
        self.exchange.run(&self.handle, round)
    }

    /// Asks until the answer contains `text`: for what testpmd learns by itself. The guest's time is the bound.
    ///
    /// # Errors
    /// The time is up.
    pub fn until(&mut self, command: &str, text: &str) -> Result<(), Failed> {
        while !self.answer(command)?.contains(text) {}
        Ok(())
    }

    /// Numbers of `show port stats` and `show port xstats`.
    ///
    /// # Errors
    /// It does not answer.
    pub fn stats(&mut self, port: usize) -> Result<Numbers, Failed> {
        let stats = self.answer(&format!("show port stats {port}"))?;
        let extended = self.answer(&format!("show port xstats {port}"))?;
        Ok(numbers(&(stats + &extended)))
    }

    /// Ends testpmd by `quit`.
    ///
    /// # Errors
    /// It does not end with status 0.
    pub fn quit(&mut self) -> Result<(), Failed> {
        self.guest.say("quit\n")?;
        let line = self.guest.wait_for("testpmd ended with")?;
        ensure(line.ends_with("with 0"), || line)
    }

    /// Ends the guest; no card may have had anything to complain of, nor the guest's kernel, and what the cards saw
    /// must be what the wires carried.
    ///
    /// # Errors
    /// One of that is not so.
    pub fn end(mut self) -> Result<Vec<PortStatus>, Failed> {
        self.guest.say("end\n")?;
        self.guest.wait_for("guest done")?;
        let (_, said) = self.guest.end()?;
        self.handle.stop();
        if let Some(server) = self.server.take() {
            server.join().map_err(|_| "the model panicked")??;
        }
        // What the driver says of its own accord are errors, but for registers that it sets, and for an LLDP agent, which
        // this card has none of.
        let usual = ["changed global register", "i40e_dcb_init_configure(): DCB initialization in FW fails"];
        for line in said.lines().filter(|line| line.contains("I40E_")) {
            let is_usual = usual.iter().any(|usual| line.contains(usual));
            ensure(is_usual, || format!("the driver complains: {line}"))?;
        }
        for line in said.lines().filter_map(|line| line.strip_prefix("log ")) {
            let level = line.strip_prefix('<').and_then(|rest| rest.split('>').next()?.parse::<u32>().ok());
            ensure(level.is_some_and(|level| level % 8 > 4), || format!("the kernel complains: {line}"))?;
        }
        let (ports, tallies) = (self.handle.status(), self.exchange.tallies());
        for (index, port) in ports.iter().enumerate() {
            ensure(port.violations.is_empty() && port.counters.dma_faults == 0, || format!("{port:?}"))?;
            let counters = port.counters;
            let received = counters.rx_frames + counters.rx_filtered + counters.rx_missed;
            let books = (received, counters.tx_frames);
            let partner = tallies[index ^ 1];
            let wires = (tallies[index].offered, partner.returned + partner.made);
            ensure(books == wires, || format!("port {index}: {port:?}, the wire: {wires:?}"))?;
        }
        Ok(ports)
    }
}

/// Every `name: number` of a text; of a name that comes again, the last.
pub fn numbers(text: &str) -> Numbers {
    let mut numbers = Numbers::new();
    let mut words = text.split_whitespace().peekable();
    while let Some(word) = words.next() {
        if let (Some(name), Some(Ok(value))) =
            (word.strip_suffix(':'), words.peek().map(|next| next.parse::<u64>()))
        {
            numbers.insert(name.to_owned(), value);
        }
    }
    numbers
}
