//! What runs on the host beside the image: the `barewire` command as a library.

pub mod bench;
pub mod capture;
mod child;
pub mod cli;
pub mod error;
pub mod faults;
pub mod image;
pub mod memif;
pub mod packages;
pub mod pci;
pub mod qemu;
pub mod rfc2544;
pub mod run;
pub mod serve;
pub mod signals;
pub mod tap;
pub mod traffic;

pub use error::Failure;
