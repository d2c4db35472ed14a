//! memif in a process of the host: sockets, shared files, and threads that carry out what the sessions of
//! `drivers::memif` want.

pub mod client;
pub mod server;
pub mod socket;

pub use client::ClientThread;
pub use server::{Interface, ServerThread};
pub use socket::Address;
