//! The stock image: i40e ports and the built-in modes.
#![no_std]
#![no_main]

boot::image!(boot::image::Stock);
