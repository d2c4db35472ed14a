//! Device registers: a window, typed names for offsets in it, and the doorbell.
//!
//! ```
//! use hal::{Bar, BarAccess, Reg, Ro, Rw};
//! const STATUS: Reg<u32, Ro> = Reg::at(0x08);
//! const CONTROL: Reg<u32, Rw> = Reg::at(0x00);
//! fn start(bar: &impl Bar) -> u32 {
//!     bar.write(CONTROL, 1);
//!     bar.read(STATUS)
//! }
//! ```
//!
//! A read-only register can't be written:
//!
//! ```compile_fail
//! use hal::{Bar, BarAccess, Reg, Ro};
//! const STATUS: Reg<u32, Ro> = Reg::at(0x08);
//! fn wrong(bar: &impl Bar) {
//!     bar.write(STATUS, 1);
//! }
//! ```

use core::marker::PhantomData;
use core::sync::atomic::{Ordering, fence};

/// A window of 32-bit device registers; a clone is another handle to the same window.
///
/// Accesses are volatile, in program order, and never merged or split. An offset that is not a multiple of
/// the width, or that lies outside of the window, reads as all ones (as a card that is gone does) and is
/// not written.
pub trait Bar: Clone + 'static {
    /// Bytes in the window.
    fn size(&self) -> u64;
    /// The 32-bit register at `offset`.
    fn read32(&self, offset: u32) -> u32;
    /// Writes the 32-bit register at `offset`.
    fn write32(&self, offset: u32, value: u32);
    /// Two neighbouring registers in one 8-byte access: the low one at `offset`, a multiple of 8.
    fn read64(&self, offset: u32) -> u64;
}

/// May be read.
pub trait Readable {}
/// May be written.
pub trait Writable {}

/// Access class of a register that is only read.
pub enum Ro {}
/// Access class of a register that is only written, such as a tail.
pub enum Wo {}
/// Access class of a register that is read and written.
pub enum Rw {}

impl Readable for Ro {}
impl Readable for Rw {}
impl Writable for Wo {}
impl Writable for Rw {}

/// What a 32-bit register holds.
pub trait RegValue: Copy {
    /// From the register's bits; unknown bits are kept.
    fn from_raw(bits: u32) -> Self;
    /// The register's bits.
    fn into_raw(self) -> u32;
}

impl RegValue for u32 {
    fn from_raw(bits: u32) -> Self {
        bits
    }
    fn into_raw(self) -> u32 {
        self
    }
}

/// Makes `bitflags` types over `u32` values of registers.
#[macro_export]
macro_rules! register_flags {
    ($($flags:ty),+ $(,)?) => {$(
        impl $crate::RegValue for $flags {
            fn from_raw(bits: u32) -> Self {
                <$flags>::from_bits_retain(bits)
            }
            fn into_raw(self) -> u32 {
                self.bits()
            }
        }
    )+};
}

/// A register at a fixed offset, holding a `V`, with access class `A`.
pub struct Reg<V, A> {
    offset: u32,
    kind: PhantomData<fn() -> (V, A)>,
}

impl<V, A> Clone for Reg<V, A> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<V, A> Copy for Reg<V, A> {}

impl<V, A> Reg<V, A> {
    /// The register at `offset` bytes.
    pub const fn at(offset: u32) -> Self {
        Self { offset, kind: PhantomData }
    }

    /// Bytes from the start of the window.
    pub const fn offset(self) -> u32 {
        self.offset
    }
}

/// `N` registers of the same kind at equal distances.
pub struct RegArray<V, A, const N: usize> {
    first: u32,
    stride: u32,
    kind: PhantomData<fn() -> (V, A)>,
}

impl<V, A, const N: usize> Clone for RegArray<V, A, N> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<V, A, const N: usize> Copy for RegArray<V, A, N> {}

impl<V, A, const N: usize> RegArray<V, A, N> {
    /// Registers at `first`, `first + stride`, ...
    pub const fn at(first: u32, stride: u32) -> Self {
        Self { first, stride, kind: PhantomData }
    }

    /// Register `index`, or `None` from `N` on.
    pub const fn get(self, index: usize) -> Option<Reg<V, A>> {
        if index < N { Some(Reg::at(self.first + self.stride * index as u32)) } else { None }
    }
}

/// Typed access to a [`Bar`].
pub trait BarAccess: Bar {
    /// Reads a register.
    fn read<V: RegValue, A: Readable>(&self, reg: Reg<V, A>) -> V {
        V::from_raw(self.read32(reg.offset))
    }

    /// Writes a register.
    fn write<V: RegValue, A: Writable>(&self, reg: Reg<V, A>, value: V) {
        self.write32(reg.offset, value.into_raw());
    }

    /// Reads, changes and writes back; bits that `change` leaves alone keep what they held.
    fn update<V: RegValue, A: Readable + Writable>(&self, reg: Reg<V, A>, change: impl FnOnce(V) -> V) {
        self.write(reg, change(self.read(reg)));
    }

    /// The doorbell at `reg`.
    fn doorbell<A: Writable>(&self, reg: Reg<u32, A>) -> Doorbell<Self> {
        Doorbell { bar: self.clone(), offset: reg.offset }
    }
}

impl<B: Bar> BarAccess for B {}

/// A tail register: the only thing that tells a device of new descriptors.
pub struct Doorbell<B> {
    bar: B,
    offset: u32,
}

impl<B: Bar> Doorbell<B> {
    /// Hands the descriptors before `tail` to the device: all earlier stores to memory are visible to it
    /// before the register is written.
    #[inline]
    pub fn ring(&self, tail: u32) {
        fence(Ordering::Release);
        self.bar.write32(self.offset, tail);
    }
}
