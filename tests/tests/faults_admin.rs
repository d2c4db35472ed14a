//! The admin queue under faults: at each step of bring-up, and while the port runs.

use drivers::i40e::{AdminFault, Error, Trouble};
use kernel::port::PortControl;
use rig::TestPort;
use rig::faulty::{Driver, FaultyPort, Shape, bring_up, play};

/// Every command of bring-up, in its order.
const STEPS: [u16; 15] = [
    0x0001, 0x0110, 0x000a, 0x0107, 0x0a05, 0x0200, 0x0212, 0x0211, 0x0206, 0x0207, 0x0250, 0x0254, 0x0605,
    0x0607, 0x0603,
];
/// Those that bring-up goes on without: the receive control registers are then reached directly, and the LLDP agent runs
/// on.
const DISPENSABLE: [u16; 3] = [0x0206, 0x0207, 0x0a05];
const EAGAIN: u16 = 8;
const EBUSY: u16 = 12;
const EEXIST: u16 = 13;

fn port_of(port: TestPort, driver: Driver) -> FaultyPort {
    let mut port = FaultyPort::of(port, driver, Shape::default());
    port.start_queues().unwrap();
    port
}

/// A port that came up at the second try.
fn after(port: TestPort) {
    let driver = bring_up(&port, true).unwrap_or_else(|error| panic!("second try: {error}"));
    port_of(port, driver).finish();
}

/// Every code that there is, for every command of bring-up: the error names command and code, and the next bring-up
/// works.
#[test]
fn every_code_of_every_command_is_named() {
    for opcode in STEPS {
        let port = TestPort::new();
        for code in 1..=22 {
            // Codes that are tried again stay longer than that.
            play(&port, &format!("admin {opcode:#x} code {code} times 10"));
            let result = bring_up(&port, true);
            port.card().faults().admin.clear();
            let goes_on = DISPENSABLE.contains(&opcode) || (opcode, code) == (0x0110, EEXIST);
            match result {
                Ok(driver) if goes_on => driver.shut_down().unwrap(),
                Err(error @ Error::Admin { fault: AdminFault::Code(named), .. }) if !goes_on => {
                    assert_eq!(named, code);
                    assert!(
                        error.to_string().starts_with(&format!("admin command {opcode:#06x} (")),
                        "{error}"
                    );
                }
                other => panic!("{opcode:#06x} code {code}: {:?}", other.err()),
            }
        }
        after(port);
    }
}

/// Firmware that is busy for a while is asked again.
#[test]
fn busy_firmware_is_asked_again() {
    for opcode in STEPS {
        for code in [EAGAIN, EBUSY] {
            let mut port = FaultyPort::start(&format!("admin {opcode:#x} code {code} times 4"));
            assert_eq!(port.look(), []);
            assert!(port.driver.link().unwrap().up);
            assert!(port.port.card().faults().admin.iter().all(|(_, _, times)| *times == 0));
            port.check_buffers();
        }
    }
    FaultyPort::start("admin 0x0607 code 8 times 4").finish();
}

/// A command that is not completed, completed without its mark, or with a head that is no index, at each step: named,
/// within its bound, and the next bring-up works.
#[test]
fn a_command_that_is_never_completed_is_named_at_each_step() {
    for (how, text) in [
        ("never", "no answer within 1000 ms, PF_ATQH is"),
        ("not-done", "completed without DD"),
        ("head 0xffffffff", "PF_ATQH is 0xffffffff, which is no index of the queue"),
        ("head 32", "PF_ATQH is 0x20, which is no index of the queue"),
        ("head 31", "no answer within 1000 ms, PF_ATQH is 0x1f"),
        ("critical", "critical error, PF_ATQLEN is 0xc0000020"),
    ] {
        for opcode in STEPS {
            let port = TestPort::new();
            play(&port, &format!("admin {opcode:#x} {how}"));
            let error =
                bring_up(&port, true).err().unwrap_or_else(|| panic!("{opcode:#06x} {how}")).to_string();
            // Where a command can be done without, the next one finds that the queue is not used any more.
            let named = error.starts_with(&format!("admin command {opcode:#06x} (")) && error.contains(text);
            let next = DISPENSABLE.contains(&opcode) && error.contains("the admin queue is not running");
            assert!(named || next, "{opcode:#06x} {how}: {error}");
            let driver =
                bring_up(&port, true).unwrap_or_else(|error| panic!("{opcode:#06x} {how}, then: {error}"));
            match opcode {
                0x0107 => port_of(port, driver).finish(),
                _ => driver.shut_down().unwrap(),
            }
        }
    }
}

/// The same while the port runs: frames go on, the trouble has a name, a reset mends it.
#[test]
fn b34_a_port_that_runs_gets_over_it() {
    for (how, text, trouble) in [
        ("never", "no answer within 1000 ms", "the admin queue is not used since"),
        ("head 0xffffffff", "which is no index of the queue", "the admin queue is not used since"),
        ("head 1000", "PF_ATQH is 0x3e8, which is no index", "the admin queue is not used since"),
        ("not-done", "completed without DD", "the admin queue is not used since"),
        (
            "critical",
            "critical error, PF_ATQLEN",
            "critical error of the admin queue, PF_ATQLEN is 0xc0000020",
        ),
    ] {
        let mut port = FaultyPort::start("");
        port.play(&format!("admin 0x0254 {how}"));
        let error = port.driver.set_promiscuous(true).unwrap_err().to_string();
        assert!(error.contains(text), "{how}: {error}");
        assert!(port.driver.set_promiscuous(true).unwrap_err().to_string().contains("is not running"));
        // The data path does not need the admin queue.
        port.ten_thousand();
        assert!(port.recover());
        port.was_told(trouble);
        assert_eq!(port.look(), []);
        port.driver.set_promiscuous(true).unwrap();
        port.finish();
    }
}

/// Every command of bring-up goes wrong in a reset: the reset says so, and the next one works.
#[test]
fn a_reset_that_fails_can_be_repeated() {
    let mut port = FaultyPort::start("");
    port.stop_queues();
    for opcode in
        STEPS.into_iter().filter(|opcode| !DISPENSABLE.contains(opcode) && ![0x000a, 0x0107].contains(opcode))
    {
        for how in ["never", "code 14", "head 77"] {
            port.play(&format!("admin {opcode:#x} {how}"));
            let error = port.driver.reset().unwrap_err().to_string();
            assert!(error.starts_with(&format!("admin command {opcode:#06x} (")), "{how}: {error}");
        }
    }
    port.reset();
    port.start_queues().unwrap();
    port.finish();
}

/// A command that is completed late is waited for; one that comes after its bound is never taken for the answer to
/// another.
#[test]
fn late_answers() {
    let mut port = FaultyPort::start("admin any late 50 times always");
    assert!(port.driver.link().unwrap().up);
    port.ten_thousand();
    port.check_buffers();

    let mut port = FaultyPort::start("");
    port.play("admin 0x0254 late 200000");
    let error = port.driver.set_promiscuous(false).unwrap_err().to_string();
    assert!(error.contains("no answer within 1000 ms"), "{error}");
    // It comes, and finds nobody.
    (0..200_000).for_each(|_| port.port.card().pump());
    assert_eq!(port.look(), [Trouble::AdminStopped]);
    assert!(port.driver.set_promiscuous(false).is_err());
    assert!(port.recover());
    port.driver.set_promiscuous(false).unwrap();
    port.driver.set_promiscuous(true).unwrap();
    port.finish();
}

/// B34: events whose length is larger than any buffer, more of them than the queue holds, and a head of the event queue
/// that is no index: nothing is read twice, and the next change of the link is heard.
#[test]
fn b34_events_that_lie() {
    let mut port = FaultyPort::start("");
    for length in [0, 1, 64, 65, 4096, 4097, 65535] {
        port.play(&format!("event 0x9999 length {length} times 100"));
        assert!(port.driver.link().unwrap().up, "{length}");
    }
    for head in ["0xffffffff", "32", "1023"] {
        port.play(&format!("register 0x080380 reads {head} times 3"));
        (0..3).for_each(|_| assert!(port.driver.link().unwrap().up));
    }
    for _ in 0..40 {
        port.port.card().set_link(false);
        assert!(!port.driver.link().unwrap().up);
        port.port.card().set_link(true);
        assert!(port.driver.link().unwrap().up);
    }
    port.finish();
}

/// Firmware of another age: without receive control registers by command; with an interface that nobody knows.
#[test]
fn old_and_unknown_firmware() {
    let port = FaultyPort::start("firmware 4.22 api 1.4");
    let version = port.driver.firmware();
    assert_eq!((version.firmware, version.api), ((4, 22), (1, 4)));
    port.finish();
    FaultyPort::start("firmware 9.20 api 1.15").finish();
    for api in ["0.9", "2.0", "65535.0"] {
        let port = TestPort::new();
        play(&port, &format!("firmware 6.0 api {api}"));
        let error = bring_up(&port, true).err().unwrap().to_string();
        assert!(
            error.starts_with("Get Version (0x0001): the card says the interface's major version is 0x"),
            "{error}"
        );
        play(&port, "firmware 6.0 api 1.7");
        after(port);
    }
}
