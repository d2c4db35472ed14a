//! memif: shared rings with another process, after libmemif's protocol 2.0.
//!
//! The client owns the memory: rings and buffers lie in regions, which are files that it hands to the server over a UNIX
//! socket. An image has no socket, so a bridge on its host has one for it ([`channel`]).

pub mod channel;
pub mod client;
mod copy_rx;
mod copy_tx;
mod fast;
pub mod layout;
pub mod message;
pub mod plug;
pub mod ring;
pub mod rx;
pub mod server;
pub mod tx;
mod zero_rx;
mod zero_tx;

pub use client::{Attach, Client, ClientOptions, End};
pub use plug::{Attachment, Fault, Kick, Plug, Side, Slots};
pub use rx::Rx;
pub use server::{Attached, Server, ServerOptions};
pub use tx::Tx;

/// Bytes of the longest frame: no other port takes a longer one.
pub const MAX_FRAME: u32 = 9728;

#[cfg(test)]
mod tests;
