//! Tests of devices that have no port: memory that is shared with the host, and the channel to it.

use core::time::Duration;

use drivers::byte_channel::ByteChannel;
use hal::{Clock, DmaMemory, OutOfBounds};

use super::console::println;
use super::exit;
use super::machine::{BootMachine, Window};

const PAGE: usize = 4096;

/// What the image leaves in the word at `offset` of a window.
const fn ours(offset: usize) -> u64 {
    0x6261_7265_7769_7265 ^ offset as u64
}

/// `--self-test=memory-window`: of every ivshmem device, tells address and size, and the first word of its first and of its
/// last page, as the host left them; then fills both pages with a pattern and reads it back.
pub fn memory_window(machine: &mut BootMachine) -> ! {
    let windows = machine.shared_memory().unwrap_or_else(|error| exit::fatal(format_args!("{error}")));
    for (index, Window { at, memory }) in windows.iter().enumerate() {
        let size = memory.len();
        println!("barewire: memory-window {index} at={at} address={:#x} size={size}", memory.addr().as_u64());
        for page in [0, size - PAGE] {
            match touch(memory, page) {
                Ok((before, true)) => {
                    println!("barewire: memory-window {index} page={page:#x} before={before:#018x}")
                }
                Ok((_, false)) => {
                    exit::fatal(format_args!("{at}: page {page:#x} does not keep what is written"))
                }
                Err(error) => exit::fatal(format_args!("{at}: {error}")),
            }
        }
    }
    println!("barewire: self-test memory-window ok ({} windows)", windows.len());
    exit::leave(true)
}

/// The first word of a page, before the pattern was written; and whether the pattern could be read.
fn touch(memory: &DmaMemory, page: usize) -> Result<(u64, bool), OutOfBounds> {
    let before = memory.load::<u64>(page)?;
    for offset in (page..page + PAGE).step_by(8) {
        memory.store(offset, ours(offset))?;
    }
    let mut kept = true;
    for offset in (page..page + PAGE).step_by(8) {
        kept &= memory.load::<u64>(offset)? == ours(offset);
    }
    Ok((before, kept))
}

/// How long the host may leave the channel alone.
const SILENCE: Duration = Duration::from_secs(60);

/// `--self-test=channel`: echoes what comes, until a line `end` has come, and tells whenever the other side comes or goes.
pub fn channel(machine: &mut BootMachine) -> ! {
    let channel = machine.channel();
    let mut channel = channel.unwrap_or_else(|error| exit::fatal(format_args!("{error}")));
    let clock = machine.clock();
    println!("barewire: channel ready");
    let mut told = (0, false);
    let mut line = heapless::Deque::<u8, 5>::new();
    let mut bytes = [0; 4096];
    let (mut held, mut sent, mut total) = (0, 0, 0_u64);
    let mut last = clock.ticks();
    while !line.iter().eq(b"\nend\n") || sent < held {
        let now = (channel.openings(), channel.is_open());
        if now != told {
            told = now;
            println!("barewire: channel openings={} open={}", now.0, now.1);
        }
        if sent == held {
            (held, sent) = (channel.try_read(&mut bytes), 0);
            for byte in &bytes[..held] {
                if line.is_full() {
                    line.pop_front();
                }
                let _ = line.push_back(*byte);
            }
            total += held as u64;
        }
        let done = channel.try_write(&bytes[sent..held]);
        sent += done;
        if let Some(fault) = channel.fault() {
            exit::fatal(format_args!("{fault}"));
        }
        if held > 0 && done > 0 {
            last = clock.ticks();
        }
        if clock.ticks().wrapping_sub(last) > clock.to_ticks(SILENCE) {
            exit::fatal(format_args!("self-test channel: nothing moved for {} s", SILENCE.as_secs()));
        }
    }
    println!("barewire: self-test channel ok ({total} bytes)");
    exit::leave(true)
}
