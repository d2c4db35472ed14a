//! memif: shared rings with another process, after libmemif's protocol 2.0.
//!
//! The client owns the memory: rings and buffers lie in regions, which are files that it hands to the server over a UNIX
//! socket. An image has no socket, so a bridge on its host has one for it ([`channel`]).

pub mod channel;
pub mod message;
