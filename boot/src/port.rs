//! What an image asks of a port beside what [`PortControl`] says: names of loops, troubles, statistics for people, an
//! orderly end. All of it has an answer of its own for a port that has nothing to say.

use alloc::boxed::Box;
use core::fmt::Display;

use drivers::i40e::{Error, I40e, RingWatch, Rx, Trouble, Tx};
use hal::{Bar, DmaError, DmaMemory, Machine};
use kernel::port::time_stamp::TimeStamper;
use kernel::port::{Path, PortControl};
use kernel::{RxQueue, TxQueue};

/// What a queue of either direction tells of itself.
pub trait ImageQueue {
    /// Its number within the port.
    fn index(&self) -> usize;

    /// Which loop it runs, and why no faster one.
    fn path(&self) -> Path;
}

/// A port of an image.
pub trait ImagePort: PortControl<Rx: RxQueue + ImageQueue, Tx: TxQueue + ImageQueue + 'static> {
    /// What can be wrong with it while it runs; [`Infallible`](core::convert::Infallible) where nothing is looked at.
    type Trouble: Display + PartialEq;

    /// What is remembered of a queue between two looks at it; `()` where nothing is looked at.
    type Watch: Default;

    /// `len` bytes at a multiple of `align` for the packets of a core that serves this port, if they are to lie in memory of
    /// the port's own; asked for once a core, before its queues are started. `None`: they lie in the machine's memory.
    ///
    /// # Errors
    /// They are to lie there, and there is not as much left.
    fn packet_memory(&mut self, len: usize, align: usize) -> Option<Result<DmaMemory, DmaError>> {
        let _ = (len, align);
        None
    }

    /// Spreads what is received over the first `queues` queues, all of which run.
    ///
    /// # Errors
    /// The step that failed.
    fn set_rss_queues(&mut self, queues: u16) -> Result<(), Self::Error> {
        let _ = queues;
        Ok(())
    }

    /// What is wrong now; asked some ten times a second.
    fn trouble(&mut self) -> Option<Self::Trouble> {
        None
    }

    /// What holds up a receive queue that nobody polls any more. Asked twice with the same `watch`, some milliseconds
    /// apart; what is told must have been there at both looks.
    fn rx_trouble(&self, rx: &Self::Rx, watch: &mut Self::Watch) -> Option<Self::Trouble> {
        let _ = (rx, watch);
        None
    }

    /// As [`ImagePort::rx_trouble`], of a transmit queue.
    fn tx_trouble(&self, tx: &Self::Tx, watch: &mut Self::Watch) -> Option<Self::Trouble> {
        let _ = (tx, watch);
        None
    }

    /// Statistics by name, for `--xstats`.
    fn tell_xstats(&mut self, tell: &mut dyn FnMut(&'static str, u64)) {
        let _ = tell;
    }

    /// Its clock for the times of frames, if it has one that is its own. The link is up, or has no speed yet.
    fn time_stamper(&self) -> Option<Box<dyn TimeStamper + Send>> {
        None
    }

    /// Gives the device back; its queues are stopped.
    ///
    /// # Errors
    /// The step that failed.
    fn shut_down(self) -> Result<(), Self::Error>;
}

impl<B: Bar> ImageQueue for Rx<B> {
    fn index(&self) -> usize {
        Rx::index(self)
    }
    fn path(&self) -> Path {
        Rx::path(self)
    }
}

impl<B: Bar> ImageQueue for Tx<B> {
    fn index(&self) -> usize {
        Tx::index(self)
    }
    fn path(&self) -> Path {
        Tx::path(self)
    }
}

impl<M: Machine<Bar: Send>> ImagePort for I40e<M> {
    type Trouble = Trouble;
    type Watch = RingWatch;

    fn set_rss_queues(&mut self, queues: u16) -> Result<(), Error> {
        I40e::set_rss_queues(self, queues)
    }
    fn trouble(&mut self) -> Option<Trouble> {
        I40e::trouble(self)
    }
    fn rx_trouble(&self, rx: &Rx<M::Bar>, watch: &mut RingWatch) -> Option<Trouble> {
        I40e::rx_trouble(self, rx, watch)
    }
    fn tx_trouble(&self, tx: &Tx<M::Bar>, watch: &mut RingWatch) -> Option<Trouble> {
        I40e::tx_trouble(self, tx, watch)
    }
    fn tell_xstats(&mut self, tell: &mut dyn FnMut(&'static str, u64)) {
        self.xstats().for_each(|(name, count)| tell(name, count));
    }
    fn time_stamper(&self) -> Option<Box<dyn TimeStamper + Send>> {
        Some(Box::new(self.time_sync().ok()?))
    }
    fn shut_down(self) -> Result<(), Error> {
        I40e::shut_down(self)
    }
}
