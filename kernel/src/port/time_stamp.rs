//! Times of frames, as a port's clock takes them: IEEE 1588.
//!
//! A card keeps few times: a received frame says in its metadata which register has its time ([`Meta::time_stamp`]), a
//! frame that is sent asks for its time ([`TxRequest::time_stamp`]), and no other is kept until the first was fetched.
//!
//! [`Meta::time_stamp`]: crate::Meta::time_stamp
//! [`TxRequest::time_stamp`]: crate::request::TxRequest::time_stamp

/// Registers with times of received frames.
pub const RECEIVE_STAMPS: u8 = 4;

/// A port's clock and the times that it keeps; one core has it. No call waits for anything.
pub trait TimeStamper {
    /// Starts the clock at 0 ns and has Sync messages of PTP version 2 stamped. What was kept is forgotten.
    fn enable(&mut self);

    /// Stops the clock; no frame is stamped any more.
    fn disable(&mut self);

    /// The clock, in nanoseconds.
    fn time(&mut self) -> u64;

    /// When the frame arrived whose metadata name register `index`, in nanoseconds; the register is free then. `None`
    /// when nothing is kept there, or from [`RECEIVE_STAMPS`] on.
    fn receive_stamp(&mut self, index: u8) -> Option<u64>;

    /// When the frame that asked for it was sent, in nanoseconds, or `None` as long as it was not; the register is free
    /// then.
    fn transmit_stamp(&mut self) -> Option<u64>;

    /// Forgets all times of received frames: those of lost frames would stay for ever.
    fn release(&mut self);
}
