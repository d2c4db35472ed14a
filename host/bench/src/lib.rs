//! What a forwarded frame costs a core: receive, transmit and whole ways of the i40e driver over rings in ordinary memory,
//! and what forwarding modes do to headers, each alone.
//!
//! The card is played on the same core, a quarter of a ring at a time, outside of what is timed; a doorbell is an ordinary
//! store. Without bus and card: good for comparing loops, and for nothing else.
//!
//! `barewire bench` builds the program of this crate with the flags of the image and runs it, so that what is measured is
//! what the image is made of.

pub mod case;
pub mod count;
pub mod ground;
pub mod headers;
pub mod lines;
pub mod row;
pub mod sample;

pub use case::{Bench, Case, Set};
pub use row::{Request, Row, Told};
