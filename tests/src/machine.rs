//! Test programs that need a machine: all of their tests are skipped, with one line that says why, where there is no
//! QEMU and none can be had.

use std::path::PathBuf;
use std::process::ExitCode;

use barewire::image::{self, Profile};
use barewire::qemu::Qemu;
use libtest_mimic::{Arguments, Failed, Trial};

/// What a test with a machine needs.
#[derive(Clone)]
pub struct Ground {
    /// The QEMU.
    pub qemu: Qemu,
    /// The image, as it is used.
    pub image: PathBuf,
    /// The image with checks.
    pub dev_image: PathBuf,
}

/// A test: its name and what it does.
pub type Case = (String, Box<dyn FnOnce(&Ground) -> Result<(), Failed> + Send>);

/// A test of that name.
pub fn case(
    name: impl Into<String>,
    run: impl FnOnce(&Ground) -> Result<(), Failed> + Send + 'static,
) -> Case {
    (name.into(), Box::new(run))
}

/// Runs a test program. Machines take a core each, so tests run one by one.
pub fn run(cases: Vec<Case>) -> ExitCode {
    run_with(cases, None)
}

/// As [`run`], all skipped for the reason `missing` if there is one.
pub fn run_with(cases: Vec<Case>, missing: Option<String>) -> ExitCode {
    let mut args = Arguments::from_args();
    args.test_threads.get_or_insert(1);
    if args.list {
        let trials = cases.into_iter().map(|(name, _)| Trial::test(name, || Ok(()))).collect();
        return libtest_mimic::run(&args, trials).exit_code();
    }
    let ground = match missing {
        Some(missing) => Err(missing),
        None => prepare(),
    };
    if let Err(missing) = &ground {
        println!("skipped: {missing}");
    }
    let trials = cases.into_iter().map(|(name, run)| match ground.clone() {
        Ok(ground) => Trial::test(name, move || run(&ground)),
        Err(_) => Trial::test(name, || Ok(())).with_ignored_flag(true),
    });
    libtest_mimic::run(&args, trials.collect()).exit_code()
}

/// No QEMU is a reason to skip; an image that does not build is not.
fn prepare() -> Result<Ground, String> {
    let qemu = Qemu::obtain(&mut |step| eprintln!("{step}")).map_err(|failure| failure.to_string())?;
    let build = |profile| match image::build(profile) {
        Ok(image) => image,
        Err(failure) => panic!("{failure}"),
    };
    Ok(Ground { qemu, image: build(Profile::Release), dev_image: build(Profile::Dev) })
}

/// Fails a test with `what` unless `holds`.
pub fn ensure(holds: bool, what: impl FnOnce() -> String) -> Result<(), Failed> {
    if holds { Ok(()) } else { Err(what().into()) }
}

/// The long form of a test is asked for: `BAREWIRE_FULL=1`.
pub fn full() -> bool {
    std::env::var_os("BAREWIRE_FULL").is_some_and(|value| value == "1")
}
