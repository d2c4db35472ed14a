//! The host memory cache: memory of ours in which the card keeps queue contexts. Datasheet: "Host Memory Cache".
//!
//! The function's private memory begins with its transmit contexts, then, at a multiple of 512 bytes, its
//! receive contexts. One segment descriptor of 2 MiB covers all of it, backed directly by one piece of memory
//! that is as large as the contexts need.

use hal::{Bar, BarAccess, DmaMemory, Machine};

use super::context::{RX_BYTES, RxContext, TX_BYTES, TxContext};
use super::error::{self, Error};
use super::regs;

const STEP: &str = "host memory cache";
const SEGMENT: u64 = 2 << 20;
const VALID: u32 = 1 << 0;
const DIRECT: u32 = 1 << 1;
const PAGES_SHIFT: u32 = 2;
const PAGES: u32 = 512;
const WRITE: u32 = 1 << 31;

/// Contexts of all queues of the function.
pub struct Hmc {
    memory: DmaMemory,
    queues: usize,
    rx_offset: usize,
}

impl Hmc {
    /// Gives the card memory for `queues` queues each way and tells physical function `pf` where they are.
    pub fn new<M: Machine>(machine: &M, bar: &M::Bar, pf: usize, queues: usize) -> Result<Self, Error> {
        check_sizes(bar, queues)?;
        let rx_offset = (queues * TX_BYTES).next_multiple_of(512);
        let len = (rx_offset + queues * RX_BYTES).next_multiple_of(4096);
        if len as u64 > SEGMENT {
            return Err(Error::Request { step: STEP, what: "the number of queues", value: queues as u64 });
        }
        let memory = machine.dma_alloc(len, 4096).map_err(error::memory(STEP))?;
        let hmc = Self { memory, queues, rx_offset };
        hmc.program(bar, pf)?;
        Ok(hmc)
    }

    /// Tells the card where the contexts are, at first and after each reset.
    pub fn program<B: Bar>(&self, bar: &B, pf: usize) -> Result<(), Error> {
        let addr = self.memory.addr();
        bar.write(regs::PFHMC_SDDATAHIGH, addr.high());
        bar.write(regs::PFHMC_SDDATALOW, addr.low() | PAGES << PAGES_SHIFT | DIRECT | VALID);
        bar.write(regs::PFHMC_SDCMD, WRITE);
        let bad_pf = Error::Card { step: STEP, what: "the function's number", value: pf as u64 };
        let write = |array: hal::RegArray<u32, hal::Rw, 16>, value: usize| match array.get(pf) {
            Some(register) => {
                bar.write(register, value as u32);
                Ok(())
            }
            None => Err(bad_pf),
        };
        write(regs::GLHMC_LANTXBASE, 0)?;
        write(regs::GLHMC_LANTXCNT, self.queues)?;
        write(regs::GLHMC_LANRXBASE, self.rx_offset / 512)?;
        write(regs::GLHMC_LANRXCNT, self.queues)?;
        write(regs::GLHMC_FCOEDDPCNT, 0)?;
        write(regs::GLHMC_FCOEFCNT, 0)
    }

    /// Queues that there are contexts for.
    pub fn queues(&self) -> usize {
        self.queues
    }

    /// Writes the context of transmit queue `queue`.
    pub fn set_tx(&self, queue: usize, context: &TxContext) -> Result<(), Error> {
        self.memory.store(queue * TX_BYTES, context.encode()).map_err(error::layout("transmit context"))
    }

    /// Writes the context of receive queue `queue`.
    pub fn set_rx(&self, queue: usize, context: &RxContext) -> Result<(), Error> {
        let at = self.rx_offset + queue * RX_BYTES;
        self.memory.store(at, context.encode()).map_err(error::layout("receive context"))
    }

    /// Takes the memory away from the card.
    pub fn release<B: Bar>(&self, bar: &B) {
        bar.write(regs::PFHMC_SDDATAHIGH, 0);
        bar.write(regs::PFHMC_SDDATALOW, PAGES << PAGES_SHIFT | DIRECT);
        bar.write(regs::PFHMC_SDCMD, WRITE);
    }
}

/// The card's context sizes are those that the contexts are written in, and it has as many queues.
fn check_sizes<B: Bar>(bar: &B, queues: usize) -> Result<(), Error> {
    let log2 = |bytes: usize| bytes.trailing_zeros();
    for (what, register, bytes) in [
        ("GLHMC_LANTXOBJSZ", regs::GLHMC_LANTXOBJSZ, TX_BYTES),
        ("GLHMC_LANRXOBJSZ", regs::GLHMC_LANRXOBJSZ, RX_BYTES),
    ] {
        let value = bar.read(register);
        if value & 0xf != log2(bytes) {
            return Err(Error::Card { step: STEP, what, value: u64::from(value) });
        }
    }
    let most = bar.read(regs::GLHMC_LANQMAX);
    if ((most & 0x7ff) as usize) < queues {
        return Err(Error::Card { step: STEP, what: "GLHMC_LANQMAX", value: u64::from(most) });
    }
    Ok(())
}
