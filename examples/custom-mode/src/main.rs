//! The image: i40e ports, the built-in modes, and `ttl`.
#![no_std]
#![no_main]
#![forbid(unsafe_code)]

use boot::image::{App, I40eDriver};
use boot::modes::Added;
use custom_mode::Ttl;

/// What this image is made of.
enum Image {}

impl App for Image {
    type Driver = I40eDriver;
    type Modes = Added<Ttl>;
}

boot::image!(Image);
