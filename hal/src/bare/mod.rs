//! The bare machine: x86-64 without an operating system, memory mapped one to one.

pub mod apic;
pub mod arena;
pub mod cpu;
pub mod machine;
pub mod mmio;
pub mod msr;
pub mod ports;
pub mod tsc;

pub use apic::LocalApic;
pub use arena::Arena;
pub use machine::BareMachine;
pub use mmio::MmioBar;
pub use tsc::TscClock;
