//! Faults that numbers draw: whatever comes, in whatever order, the port is brought back with what its troubles say, ten
//! thousand frames pass, and every buffer is there.

use kernel::port::PortControl;
use model::Script;
use rig::faulty::{FaultyPort, Shape};
use rig::frames;
use rig::machine::full;

/// Frames within which the faults come.
const FRAMES: u64 = 3000;

fn survive(seed: u64) {
    let text = Script::draw(seed, FRAMES);
    // Told only where the test fails.
    println!("{text}");
    let sizes = [64, 96, 256, 544];
    let pick = |shift: u64| sizes[(seed >> shift) as usize % sizes.len()];
    let shape = Shape { wide: seed.is_multiple_of(2), rxd: pick(1), txd: pick(3), ..Shape::default() };
    let mut port = FaultyPort::with(shape, &text);
    let mut rounds = 0;
    while port.port.card().faults().planned() > 0 || port.port.card().is_busy() {
        let lengths = [60, 61, 1514, 2048, 2049, 9000];
        let offered: Vec<_> =
            (0..50).map(|n| frames::numbered(n, lengths[n as usize % lengths.len()])).collect();
        port.exchange(&offered);
        let _ = port.driver.link();
        port.recover();
        rounds += 1;
        assert!(rounds < 2000, "the script does not end; told was {:?}", port.told);
    }
    // What lies on the wire since the card did not take it comes now, and some marks may still be wrong.
    for _ in 0..10 {
        port.exchange(&(0..30).map(|n| frames::numbered(n, 60)).collect::<Vec<_>>());
        port.recover();
    }
    port.exchange(&[]);
    port.port.card().faults().admin.clear();
    assert_eq!(port.look(), []);
    port.finish();
}

#[test]
fn seeds() {
    (0..if full() { 5000 } else { 100 }).for_each(survive);
}
