//! A guest that means harm: registers, rings, contexts and messages that no driver would write. Nothing panics, hangs or
//! keeps another port from being served, and only memory that was given is touched.

mod common;

use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use common::{Guest, LOW, Random, SIZE};
use model::wire::SinkWire;
use model::{Handle, PortConfig, Script, Server, Xl710};

const TOP: u32 = u32::MAX;

/// Addresses at the very end of the address space, in every place where the card adds to one.
#[test]
fn addresses_that_wrap_are_faults() {
    let mut guest = Guest::new();
    // A segment descriptor, and a context far behind it.
    guest.writes(&[
        (0x0c_0200, TOP),
        (0x0c_0100, 0xffff_f003),
        (0x0c_0000, 1 << 31),
        (0x0c_6200, 8),
        (0x10_0000, 1),
    ]);
    // The admin queues.
    guest.writes(&[
        (0x08_0000, 0xffff_fff0),
        (0x08_0100, TOP),
        (0x08_0200, 1 << 31 | 32),
        (0x08_0300, 1),
        (0x08_0400, 2),
    ]);
    let mut guest = Guest::new();
    guest.admin(0x0607, 3);
    guest.writes(&[(0x08_0080, 0xffff_fffc), (0x08_0180, TOP), (0x08_0280, 1 << 31 | 32), (0x08_0480, 31)]);
    guest.card.set_link(false);
    // Rings.
    let mut guest = Guest::new();
    guest.start_tx(!0x7f, 64, 60);
    guest.start_rx(!0x7f, 64, 60);
    guest.writes(&[(0x10_8000, 61), (0x12_8000, 40)]);
    guest.wire.offer(&[0xff; 60]);
    guest.card.pump();
    assert!(guest.card.counters().dma_faults > 0);
}

#[test]
fn a_card_that_is_no_bus_master_touches_nothing() {
    let mut guest = Guest::new();
    guest.start_rx(LOW, 64, 0);
    (0..64).for_each(|i| guest.put(LOW + 16 * i, &(LOW + 0x10_0000).to_le_bytes()));
    guest.writes(&[(0x12_8000, 60)]);
    guest.card.config_write(4, &[2, 0]);
    guest.wire.offer(&[0xff; 60]);
    guest.card.pump();
    assert_eq!(guest.get(LOW + 0x10_0000, 8), [0; 8]);
    guest.card.config_write(4, &[6, 0]);
    guest.card.pump();
    assert_eq!(guest.get(LOW + 0x10_0000, 8), [0xff; 8]);
}

/// A buffer outside of the guest's memory: its frame is not sent, and the queue stands still.
#[test]
fn what_can_not_be_read_is_not_sent() {
    let mut guest = Guest::new();
    guest.start_tx(LOW, 64, 0);
    guest.descriptor(0, 0x10, 60 << 34 | 3 << 4);
    guest.descriptor(1, LOW + 0x10_0000, 60 << 34 | 3 << 4);
    guest.writes(&[(0x10_8000, 2)]);
    assert_eq!((guest.wire.sent(), guest.card.counters().dma_faults), (0, 1));
    assert_eq!(guest.card.violations(), ["transmit: buffer that can't be read"]);
}

/// Segments that would be longer than any frame.
#[test]
fn segments_that_no_wire_carries_are_refused() {
    let mut guest = Guest::new();
    guest.start_tx(LOW, 64, 0);
    let (offsets, command) = (7 | 5 << 7 | 5 << 14_u64, 3 << 5 | 1 << 8 | 1_u64);
    guest.descriptor(0, 0, 1 | 1 << 4 | 9700 << 50);
    guest.descriptor(1, LOW + 0x10_0000, 16_000 << 34 | offsets << 16 | command << 4);
    guest.writes(&[(0x10_8000, 2)]);
    assert_eq!((guest.wire.sent(), guest.card.violations().len()), (0, 1));
}

/// One doorbell, 8159 descriptors: worked off in pieces, so that others get their turn, and to the end.
#[test]
fn a_long_ring_is_worked_off_in_pieces() {
    let mut guest = Guest::new();
    guest.start_tx(LOW, 8160, 0);
    (0..8159).for_each(|i| guest.descriptor(i, LOW + 0x10_0000, 60 << 34 | 1 << 4));
    guest.writes(&[(0x10_8000, 8159)]);
    assert!(guest.wire.sent() < 8159 && guest.card.is_busy());
    while guest.card.is_busy() {
        guest.card.pump();
    }
    assert_eq!(guest.wire.sent(), 8159);
}

/// Twenty thousand steps of everything at once, the same on every run.
#[test]
fn random_guests_do_no_harm() {
    for seed in 1..=50 {
        let (mut random, mut guest) = (Random::new(seed), Guest::new());
        for _ in 0..400 {
            common::step(&mut random, &mut guest);
        }
        let counters = guest.card.counters();
        assert!(counters.violations <= 100, "{counters:?}");
    }
}

/// The same on a card that misbehaves, by scripts that are drawn and by all that a script can hold.
#[test]
fn random_guests_do_no_harm_to_a_card_with_faults() {
    const ALL: &str = "rx-writeback late 4294967295 times always\n tx-writeback torn 4294967295 times always\n\
        tx-fetch late 4294967295\n rx-queue enable late 3 times always\n tx-queue disable never\n\
        reset late 2\n register 0x080300 reads 0xffffffff times 9\n link flap 4294967295\n card-reset 5\n\
        pf-reset after 3 frames\n firmware 65535.65535 api 0.0\n lldp on\n mac-config needs-link\n queues 1536\n\
        event 0xffff length 65535 times 4294967295\n admin any head 0xffffffff times 3\n admin any critical\n\
        admin any not-done\n admin any never\n admin any late 4294967295\n rx-ring empty 7\n";
    for seed in 1..=40 {
        let (mut random, mut guest) = (Random::new(seed), Guest::new());
        let drawn = Script::draw(seed, 50);
        let text = if seed % 4 == 0 { ALL } else { &drawn };
        guest.card.play(&text.parse().unwrap());
        for _ in 0..400 {
            common::step(&mut random, &mut guest);
        }
        assert!(guest.card.counters().violations <= 100);
    }
}

/// Two ports on sockets, served in the background, with a client each.
struct Served {
    a: UnixStream,
    b: UnixStream,
    handle: Handle,
    ended: Receiver<bool>,
    _folder: tempfile::TempDir,
}

fn served(stay: bool) -> Served {
    let folder = tempfile::tempdir().unwrap();
    let card = |name: &str| {
        let config = PortConfig { device_id: 0x1572, mac: [2, 0, 0, 0, 0, 1], name: name.into() };
        (folder.path().join(name), Xl710::new(config, Box::new(SinkWire)))
    };
    let server = Server::bind(vec![card("a"), card("b")]).unwrap();
    let server = if stay { server.stay() } else { server };
    let (handle, (sender, ended)) = (server.handle(), channel());
    std::thread::spawn(move || sender.send(server.run().is_ok()));
    let connect = |name: &str| {
        let socket = UnixStream::connect(folder.path().join(name)).unwrap();
        socket.set_read_timeout(Some(LIMIT)).unwrap();
        socket
    };
    Served { a: connect("a"), b: connect("b"), handle, ended, _folder: folder }
}

/// A bound for a server that hangs.
const LIMIT: Duration = Duration::from_secs(30);

/// DEVICE_GET_INFO, as QEMU's documentation lays it out: the answer names 9 regions.
fn is_answered(socket: &mut UnixStream) -> bool {
    let mut message = vec![1, 0, 4, 0, 32, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    message.extend([16, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    let mut answer = [0; 32];
    socket.write_all(&message).is_ok()
        && socket.read_exact(&mut answer).is_ok()
        && answer[24..28] == [9, 0, 0, 0]
}

#[test]
fn half_a_message_holds_up_nobody_for_ever() {
    let mut served = served(true);
    served.a.write_all(&[1]).unwrap();
    assert!(is_answered(&mut served.b));
    served.handle.stop();
    assert_eq!(served.ended.recv_timeout(LIMIT), Ok(true));
}

#[test]
fn a_client_that_breaks_the_protocol_loses_its_own_card_only() {
    let mut served = served(true);
    served.a.write_all(&[0; 16]).unwrap();
    assert_eq!(served.a.read(&mut [0]).unwrap_or(0), 0);
    assert!(is_answered(&mut served.b));
    served.handle.stop();
    assert_eq!(served.ended.recv_timeout(LIMIT), Ok(true));
}

#[test]
fn a_machine_is_served_until_it_lets_go_of_a_card() {
    let mut served = served(false);
    assert!(is_answered(&mut served.a) && is_answered(&mut served.b));
    drop(served.a);
    assert_eq!(served.ended.recv_timeout(LIMIT), Ok(true));
}

/// A counter that is full and would block whoever adds to it.
#[test]
fn an_interrupt_waits_for_nobody() {
    let mut guest = Guest::new();
    let event = rustix::event::eventfd(0, rustix::event::EventfdFlags::empty()).unwrap();
    rustix::io::write(&event, &(u64::MAX - 1).to_ne_bytes()).unwrap();
    guest.card.set_msix(1, Some(event));
    guest.writes(&[(0x03_4800, 5)]);
    assert_eq!(guest.card.counters().interrupts, 1);
}

#[test]
fn a_piece_behind_the_end_of_its_file_is_refused() {
    let mut guest = Guest::new();
    let file = common::file(4096);
    assert!(guest.card.map_dma(0x10_0000, 1 << 20, Some((file.as_fd(), 0)), true, true).is_err());
    assert!(guest.card.map_dma(0x10_0000, 4096, Some((file.as_fd(), 1 << 40)), true, true).is_err());
    assert!(guest.card.map_dma(0x10_0000, 4096, Some((file.as_fd(), 0)), true, true).is_ok());
    assert!(guest.card.map_dma(LOW + SIZE - 1, 2, None, true, true).is_err());
}
