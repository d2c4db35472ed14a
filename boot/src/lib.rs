//! The image: a program that is the whole software of a machine. It is a library, so that anybody makes one of his own
//! parts.
//!
//! An image is a crate with a `main.rs` like this one, which the stock image is:
//!
//! ```ignore
//! #![no_std]
//! #![no_main]
//!
//! boot::image!(boot::image::Stock);
//! ```
//!
//! What `image!` is given is an `App` (feature `image`): which driver its ports have, and which forwarding modes there
//! are. `examples/custom-mode` and `examples/custom-driver` are two such crates; their build
//! scripts hand on how an image is linked, which this crate's build script says.
//!
//! Without the feature `image`, which needs compiler flags of its own, this is what can be tested on a host: boot
//! information, ACPI tables, the memory map, the plan of page tables, the traits of modes and ports.
#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod acpi;
#[cfg(any(feature = "image", test))]
mod any_port;
#[cfg(feature = "image")]
pub mod image;
pub mod memory;
pub mod modes;
pub mod port;
pub mod pvh;

/// Makes this program an image of the [`App`](image::App) of that name. Once, in a program that is `no_std` and
/// `no_main`, and linked as this crate's build script says.
#[cfg(feature = "image")]
#[macro_export]
macro_rules! image {
    ($app:ty) => {
        // SAFETY: the name is barewire's own, and is called by the entry code alone.
        #[unsafe(no_mangle)]
        extern "C" fn barewire_image_main(start_info: u64, entered: u64) -> ! {
            // SAFETY: the entry code calls this once, on the boot core, with what the loader gave it.
            unsafe { $crate::image::main::<$app>(start_info, entered) }
        }
    };
}
