//! Vector registers in safe code.
//!
//! Since intrinsics without pointers are safe inside of a function that enables their instruction set, all that a
//! vector loop needs beyond them is here: loads and stores over arrays, over descriptors of a ring and over the
//! starts of frames, each with a length that is checked, most of them by the compiler; and [`Isa`], a proof that the
//! instructions may be executed at all.
//!
//! A loop is one function with `#[target_feature(enable = "...")]`. Calling it from a function without that feature is
//! the only unsafe step, and the token in its arguments is the reason why it holds:
//!
//! ```
//! use hal::simd::{Avx2, Isa, avx2};
//!
//! #[target_feature(enable = "avx2")]
//! fn sum(_: Avx2, numbers: &[u32; 8]) -> [u32; 8] {
//!     let vector = avx2::load(numbers);
//!     let mut sums = [0; 8];
//!     avx2::store(&mut sums, core::arch::x86_64::_mm256_add_epi32(vector, vector));
//!     sums
//! }
//!
//! if let Isa::Avx2(token) = Isa::best() {
//!     // SAFETY: there is a token, so the CPU has AVX2 and its state is on.
//!     assert_eq!(unsafe { sum(token, &[1; 8]) }, [2; 8]);
//! }
//! ```

// The functions are safe; what they need of the CPU is in their attributes.
#![allow(clippy::missing_safety_doc)]

pub mod avx2;
pub mod avx512;
pub mod headers;
pub mod level;
pub mod lines;
pub mod sse;
pub mod sums;

pub use headers::Headers;
pub use level::{Avx2, Avx512, Isa, Level, Ssse3};

#[cfg(test)]
mod tests;
