//! From ports that are up to forwarding on all cores, and to an orderly end.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;
use core::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use core::time::Duration;

use hal::bare::TscClock;
use hal::{Clock, Line};
use kernel::assign::Assignment;
use kernel::config::{Config, MAX_CORES};
use kernel::forward::ieee1588::Event;
use kernel::lcore::Flow;
use kernel::port::{Path, PortControl};

use super::console::{Input, println};
use super::links::Links;
use super::machine::BootMachine;
use super::ports::Ports;
use super::streams::{self, Core, Share};
use super::{App, account, exit, heap};
use crate::modes::Modes as _;
use crate::port::{ImagePort as _, ImageQueue};

/// How often a core looks away from its queues.
const SERVICE_PERIOD: Duration = Duration::from_millis(10);
/// How long a core may take to see that it is to stop: one poll, but a busy host may not run it for a while.
const STOP_LIMIT: Duration = Duration::from_secs(10);

/// The one line that all cores read. It is written once, at the end.
static STOP: Line<AtomicBool> = Line(AtomicBool::new(false));

/// A [`Work`] for each of the other cores, by their number.
static WORK: [AtomicPtr<()>; MAX_CORES] = [const { AtomicPtr::new(core::ptr::null_mut()) }; MAX_CORES];

/// What another core is given; it comes back when the core is done.
struct Work<A: App> {
    share: Share<A>,
    clock: TscClock,
}

/// Forwards until the console says `quit`.
pub fn run<A: App>(boot: BootMachine, mut ports: Ports<A>, config: &Config, entered: u64) -> ! {
    let assignment = Assignment::new(config, ports.len(), boot.cores.count());
    let assignment = assignment.unwrap_or_else(|error| exit::fatal(format_args!("{error}")));
    let mut shares = streams::start(&boot, &mut ports, config, &assignment);
    // Before anybody is told that it forwards: what comes then is to have a time.
    for share in &mut shares {
        give_clocks::<A>(share, &mut ports);
    }
    announce(&boot, &mut ports, config, &assignment, &shares, entered);
    for share in &mut shares {
        share.core.send_first(config.tx_first.into(), &config.modes);
    }
    let mut links = Links::new(&ports);
    let own = shares.iter().position(|share| share.number == 0).map(|at| shares.remove(at));
    let others = lay_out::<A>(&boot, shares);
    heap::close();
    for number in &others {
        boot.cores.give(*number, forward_on::<A>);
    }
    let mut own = look_after(boot.clock(), own, &mut ports, &mut links);
    STOP.0.store(true, Ordering::Relaxed);
    // Nobody polls any more, or does not say so, before anything of another core is looked at.
    for number in &others {
        boot.cores.wait(*number, STOP_LIMIT);
    }
    let mut good = true;
    let mut account = account::Account::<A>::new(&ports, config.card.xstats);
    if let Some(share) = &mut own {
        good &= account.stop(share, &mut ports, boot.clock());
    }
    for number in others {
        good &= match take_back::<A>(&boot, number) {
            Some(mut work) => account.stop(&mut work.share, &mut ports, boot.clock()),
            None => {
                println!("barewire: error: core {number} did not stop within {} s", STOP_LIMIT.as_secs());
                false
            }
        };
    }
    exit::leave(account.end(ports, good))
}

/// Gives the mode of a core the clocks of its ports, if it needs them.
fn give_clocks<A: App>(share: &mut Share<A>, ports: &mut Ports<A>) {
    if !share.core.mode_mut().wants_clocks() {
        return;
    }
    let received: Vec<usize> = share.core.streams.iter().map(|stream| stream.rx_port).collect();
    for (stream, port) in received.into_iter().enumerate() {
        let Some(at) = ports.get_mut(port) else { continue };
        // The clock's step depends on the link's speed.
        if let Err(error) = at.control.link() {
            exit::fatal(format_args!("{}: {error}", at.name));
        }
        match at.control.time_stamper() {
            Some(clock) => share.core.mode_mut().give_clock(stream, port, clock, tell_time),
            None => exit::fatal(format_args!("{}: has no clock of its own for times of frames", at.name)),
        }
    }
}

/// Tells what is known of a frame's time.
fn tell_time(port: usize, event: Event) {
    println!("Port {port} {event}");
}

/// The boot core's loop, with or without queues of its own. It alone looks after the console and the links.
fn look_after<A: App>(
    clock: &TscClock,
    own: Option<Share<A>>,
    ports: &mut Ports<A>,
    links: &mut Links<A>,
) -> Option<Share<A>> {
    let mut input = Input::default();
    let mut service = || {
        links.look(ports);
        match input.poll() {
            Some(line) if line.trim() == "quit" => return Flow::Stop,
            Some(line) => println!("{}: not known; quit ends", line.trim()),
            None => {}
        }
        Flow::Continue
    };
    let Some(mut share) = own else {
        while service() == Flow::Continue {
            clock.delay(SERVICE_PERIOD);
        }
        return None;
    };
    share.core.run(clock, SERVICE_PERIOD, |_| service());
    Some(share)
}

/// Lays out each share for its core; returns their numbers.
fn lay_out<A: App>(boot: &BootMachine, shares: Vec<Share<A>>) -> Vec<usize> {
    fn may_move_to_another_core<T: Send>() {}
    may_move_to_another_core::<Work<A>>();
    let numbers = shares.iter().map(|share| share.number).collect();
    for share in shares {
        let number = share.number;
        let work = Box::into_raw(Box::new(Work { share, clock: *boot.clock() }));
        WORK[number].store(work.cast(), Ordering::Relaxed);
    }
    numbers
}

/// The loop of a core other than the boot core.
fn forward_on<A: App>(number: usize) {
    let work = WORK[number].load(Ordering::Relaxed).cast::<Work<A>>();
    // SAFETY: made by `lay_out` for this core, before the core was told to come here; nobody else touches it until
    // this core is done.
    let Work { share, clock } = unsafe { &mut *work };
    share.core.run(clock, SERVICE_PERIOD, |_: &mut Core<A>| {
        if STOP.0.load(Ordering::Relaxed) { Flow::Stop } else { Flow::Continue }
    });
}

/// What a core was given, if it is done.
fn take_back<A: App>(boot: &BootMachine, number: usize) -> Option<Box<Work<A>>> {
    if !boot.cores.is_done(number) {
        return None;
    }
    let work = WORK[number].swap(core::ptr::null_mut(), Ordering::Relaxed).cast::<Work<A>>();
    // SAFETY: from `Box::into_raw`, and taken once; the core that had it is done.
    (!work.is_null()).then(|| unsafe { Box::from_raw(work) })
}

fn announce<A: App>(
    boot: &BootMachine,
    ports: &mut Ports<A>,
    config: &Config,
    assignment: &Assignment,
    shares: &[Share<A>],
    entered: u64,
) {
    for (index, port) in ports.iter_mut().enumerate() {
        let link = port.control.link();
        let link = link.unwrap_or_else(|error| exit::fatal(format_args!("{}: {error}", port.name)));
        port.link = link;
        let streams = || shares.iter().flat_map(|share| &share.core.streams);
        let rx = streams().find(|stream| stream.rx_port == index).map(|stream| stream.rx.path());
        let tx = streams().find(|stream| stream.tx_port == index).map(|stream| stream.tx.path());
        println!(
            "barewire: port {index} {} mac={} {link}{}{}",
            port.name,
            port.control.mac(),
            Told("rx", rx),
            Told("tx", tx)
        );
    }
    if let (Some(rxq), Some(txq)) = (config.rxq.or(Some(1)), config.txq.or(Some(1)))
        && rxq != txq
    {
        println!("rxq {rxq}, txq {txq}: {} queue pairs of each port are used", rxq.min(txq));
    }
    for stream in assignment.streams() {
        println!(
            "barewire: stream port={} rxq={} tx_port={} txq={} core={} apic_id={}",
            stream.rx_port,
            stream.queue,
            stream.tx_port,
            stream.queue,
            stream.core,
            boot.cores.apic_id(stream.core)
        );
    }
    let clock = boot.clock();
    println!(
        "barewire: cpu isa={} vectors={} tsc_khz={} cores={} lcores={} reason=\"{}\"",
        boot.isa(config),
        boot.level,
        clock.ticks_per_second() / 1000,
        boot.cores.count(),
        assignment.cores(),
        if config.isa.is_some() { "--isa" } else { "the best of this CPU" }
    );
    let micros = clock.to_duration(clock.ticks().wrapping_sub(entered)).as_micros();
    println!("barewire: boot_ms={}.{:03}", micros / 1000, micros % 1000);
    println!("barewire ready: {} ports", ports.len());
}

/// A queue's path as the port's line has it: which loop it runs, and why no faster one.
struct Told(&'static str, Option<Path>);

impl fmt::Display for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(side, path) = self;
        let Some(path) = path else { return Ok(()) };
        write!(f, " {side}_path=\"{path}\"")?;
        path.reason.map_or(Ok(()), |reason| write!(f, " {side}_reason=\"{reason}\""))
    }
}
