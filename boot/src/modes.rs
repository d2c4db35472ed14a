//! The forwarding modes of an image: the built-in ones, and those that somebody adds.
//!
//! A type that implements [`Modes`] is what a core runs. [`Forwarder`] is the built-in modes; [`Added`] puts one in front
//! of others:
//!
//! ```
//! use boot::modes::{Added, CoreGround, CustomMode, Modes};
//! use hal::DmaError;
//! use kernel::forward::{ForwardMode, Verdict, Work};
//! use kernel::{Burst, DropReason, config::Config};
//!
//! /// Drops everything.
//! struct Hole;
//!
//! impl ForwardMode for Hole {
//!     fn name(&self) -> &'static str {
//!         "hole"
//!     }
//!     fn forward(&mut self, _: &mut Work<'_>, _: &mut Burst) -> Verdict {
//!         Verdict::Drop(DropReason::Mode)
//!     }
//! }
//!
//! impl CustomMode for Hole {
//!     const NAME: &'static str = "hole";
//!     fn new(_: &Config, _: &CoreGround<'_>) -> Result<Self, DmaError> {
//!         Ok(Self)
//!     }
//! }
//!
//! assert!(Added::<Hole>::names().eq(["hole"]));
//! ```

use alloc::boxed::Box;
use alloc::vec::Vec;

use hal::simd::Isa;
use hal::{DmaError, DmaMemory};
use kernel::Burst;
use kernel::config::Config;
use kernel::forward::{CoreShare, ForwardMode, Forwarder, Input, Mode, Route, TellTime, Verdict, Work};
use kernel::port::Touch;
use kernel::port::time_stamp::TimeStamper;

/// What a mode of a core is made with.
pub struct CoreGround<'a> {
    /// The core's number.
    pub core: usize,
    /// Its streams.
    pub streams: usize,
    /// The best loops that may run.
    pub isa: Isa,
    /// Of the time stamp counter.
    pub ticks_per_second: u64,
    /// Gives memory of that many bytes, which is never taken back.
    pub memory: &'a dyn Fn(usize) -> Result<DmaMemory, DmaError>,
}

/// A mode that an image has beside the built-in ones.
pub trait CustomMode: ForwardMode + Sized {
    /// Its name in `--forward-mode`, at most 32 bytes. A built-in mode of the same name is hidden.
    const NAME: &'static str;

    /// The mode for one core.
    ///
    /// # Errors
    /// There is no memory left for it.
    fn new(config: &Config, core: &CoreGround<'_>) -> Result<Self, DmaError>;

    /// Buffers that it keeps of each stream, from one poll to the next.
    fn buffers_kept(config: &Config) -> u32 {
        let _ = config;
        0
    }
}

/// All modes of an image.
pub trait Modes: ForwardMode + Sized {
    /// Names beside the built-in ones.
    fn names() -> impl Iterator<Item = &'static str>;

    /// The mode that `config` names, for one core.
    ///
    /// # Errors
    /// There is no memory left for it.
    fn make(config: &Config, core: &CoreGround<'_>) -> Result<Self, DmaError>;

    /// It needs the clocks of the ports that receive.
    fn wants_clocks(&self) -> bool {
        false
    }

    /// Gives it the clock of `port`, which its stream `stream` receives from; see [`Forwarder::give_clock`].
    fn give_clock(
        &mut self,
        stream: usize,
        port: usize,
        stamper: Box<dyn TimeStamper + Send>,
        tell: TellTime,
    ) {
        let _ = (stream, port, stamper, tell);
    }

    /// Buffers that it keeps of each stream beside those that [`Config::buffers_needed`] counts.
    fn buffers_kept(config: &Config) -> u32;
}

impl Modes for Forwarder {
    fn names() -> impl Iterator<Item = &'static str> {
        core::iter::empty()
    }

    fn make(config: &Config, core: &CoreGround<'_>) -> Result<Self, DmaError> {
        let noisy = &config.modes.noisy;
        let (mut fifos, mut noisy_memory) = (Vec::new(), None);
        if config.mode == Mode::Noisy {
            if noisy.fifo > 0 {
                for _ in 0..core.streams {
                    fifos.push((core.memory)(noisy.fifo_bytes())?);
                }
            }
            if noisy.memory_mib > 0 {
                noisy_memory = Some((core.memory)(noisy.memory_bytes())?);
            }
        }
        let ticks_per_second = core.ticks_per_second;
        let share = CoreShare { core: core.core as u8, fifos, noisy_memory, ticks_per_second };
        Ok(Self::new(config.mode, &config.modes, core.isa, share))
    }

    fn wants_clocks(&self) -> bool {
        Self::wants_clocks(self)
    }

    fn give_clock(
        &mut self,
        stream: usize,
        port: usize,
        stamper: Box<dyn TimeStamper + Send>,
        tell: TellTime,
    ) {
        Self::give_clock(self, stream, port, stamper, tell);
    }

    fn buffers_kept(_: &Config) -> u32 {
        0
    }
}

/// Mode `M` beside the modes `R`; a core asks once a burst which it is.
pub enum Added<M, R = Forwarder> {
    /// It is `M`.
    Custom(M),
    /// It is another.
    Other(R),
}

impl<M: CustomMode, R: Modes> Modes for Added<M, R> {
    fn names() -> impl Iterator<Item = &'static str> {
        core::iter::once(M::NAME).chain(R::names())
    }

    fn make(config: &Config, core: &CoreGround<'_>) -> Result<Self, DmaError> {
        if is_named::<M>(config) {
            M::new(config, core).map(Self::Custom)
        } else {
            R::make(config, core).map(Self::Other)
        }
    }

    fn wants_clocks(&self) -> bool {
        matches!(self, Self::Other(mode) if mode.wants_clocks())
    }

    fn give_clock(
        &mut self,
        stream: usize,
        port: usize,
        stamper: Box<dyn TimeStamper + Send>,
        tell: TellTime,
    ) {
        if let Self::Other(mode) = self {
            mode.give_clock(stream, port, stamper, tell);
        }
    }

    fn buffers_kept(config: &Config) -> u32 {
        if is_named::<M>(config) { M::buffers_kept(config) } else { R::buffers_kept(config) }
    }
}

fn is_named<M: CustomMode>(config: &Config) -> bool {
    config.added_mode.as_deref() == Some(M::NAME)
}

/// Calls the method of whichever mode it is.
macro_rules! either {
    ($self:ident, $mode:ident => $call:expr) => {
        match $self {
            Self::Custom($mode) => $call,
            Self::Other($mode) => $call,
        }
    };
}

impl<M: ForwardMode, R: ForwardMode> ForwardMode for Added<M, R> {
    fn name(&self) -> &'static str {
        either!(self, mode => mode.name())
    }

    fn input(&self) -> Input {
        either!(self, mode => mode.input())
    }

    fn touch(&self, route: &Route) -> Option<Touch> {
        either!(self, mode => mode.touch(route))
    }

    fn forward(&mut self, work: &mut Work<'_>, burst: &mut Burst) -> Verdict {
        either!(self, mode => mode.forward(work, burst))
    }

    fn unsent(&mut self, frames: usize) {
        either!(self, mode => mode.unsent(frames));
    }

    fn finish(&mut self) {
        either!(self, mode => mode.finish());
    }
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use hal::simd::Isa;
    use kernel::DropReason;

    use super::*;

    /// Drops everything, and keeps `KEPT` buffers.
    struct Hole<const KEPT: u32>;

    impl<const KEPT: u32> ForwardMode for Hole<KEPT> {
        fn name(&self) -> &'static str {
            Self::NAME
        }
        fn forward(&mut self, _: &mut Work<'_>, _: &mut Burst) -> Verdict {
            Verdict::Drop(DropReason::Mode)
        }
    }

    impl<const KEPT: u32> CustomMode for Hole<KEPT> {
        const NAME: &'static str = if KEPT == 0 { "hole" } else { "deep-hole" };
        fn new(_: &Config, core: &CoreGround<'_>) -> Result<Self, DmaError> {
            if KEPT > 0 {
                (core.memory)(4096)?;
            }
            Ok(Self)
        }
        fn buffers_kept(_: &Config) -> u32 {
            KEPT
        }
    }

    type Both = Added<Hole<0>, Added<Hole<7>>>;

    fn made(line: &str) -> Result<(&'static str, u32), DmaError> {
        let config = Config::parse_with(line, |name| Both::names().any(|known| known == name)).unwrap();
        let memory = |len| Err(DmaError { len });
        let ground =
            CoreGround { core: 0, streams: 1, isa: Isa::best(), ticks_per_second: 1, memory: &memory };
        Ok((Both::make(&config, &ground)?.name(), Both::buffers_kept(&config)))
    }

    #[test]
    fn each_name_makes_its_mode() {
        assert_eq!(Both::names().collect::<Vec<_>>(), ["hole", "deep-hole"]);
        assert_eq!(made("--forward-mode=hole"), Ok(("hole", 0)));
        assert_eq!(made("--forward-mode=mac"), Ok(("mac", 0)));
        assert_eq!(made(""), Ok(("io", 0)));
        assert_eq!(made("--forward-mode=deep-hole"), Err(DmaError { len: 4096 }));
    }
}
