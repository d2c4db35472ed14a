//! Port drivers of barewire: each implements the port traits of `kernel` on top of `hal`.
#![no_std]
#![deny(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod byte_channel;
pub mod i40e;
pub mod ivshmem;
pub mod memif;
pub mod virtio;
