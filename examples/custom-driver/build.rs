//! The image is linked as barewire says.

fn main() {
    let args = std::env::var("DEP_BAREWIRE_IMAGE_LINK_ARGS").unwrap_or_default();
    args.split('\u{1f}').for_each(|arg| println!("cargo:rustc-link-arg-bins={arg}"));
}
