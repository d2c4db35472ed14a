//! How an image is linked: for the stock one, and told to the build scripts of others.

/// Between two arguments in what others are told.
const BETWEEN: &str = "\u{1f}";

fn main() {
    let here = std::env::var("CARGO_MANIFEST_DIR").unwrap_or_default();
    println!("cargo:rerun-if-changed=image.ld");
    let mut args: Vec<String> = [
        "-nostartfiles",
        "-nostdlib",
        "-static",
        "-no-pie",
        "-Wl,--build-id=none",
        "-Wl,--gc-sections",
        "-Wl,-z,max-page-size=4096",
        "-Wl,-z,noexecstack",
    ]
    .map(String::from)
    .into();
    args.push(format!("-Wl,-T,{here}/image.ld"));
    for arg in &args {
        println!("cargo:rustc-link-arg-bins={arg}");
    }
    // Build scripts of crates that depend on this one find it as DEP_BAREWIRE_IMAGE_LINK_ARGS.
    println!("cargo:link_args={}", args.join(BETWEEN));
}
