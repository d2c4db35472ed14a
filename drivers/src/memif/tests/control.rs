//! Messages in the right order, in every other one, and with values that are none.

use super::message::{AddRegion, AddRing, Hello, Init, InterfaceMode, Name, VERSION};
use super::*;

fn client() -> Client {
    let mut client = Client::new(client_options(&How::plain()), memory(REGION), REGION as u64).unwrap();
    client.open();
    client
}

fn hello() -> Hello {
    let Message::Hello(hello) = Server::hello(4, 14) else { unreachable!() };
    hello
}

fn init() -> Init {
    Init { version: VERSION, id: 0, mode: InterfaceMode::Ethernet, secret: cut(""), name: cut("x") }
}

fn region() -> Message {
    Message::AddRegion(AddRegion { index: 0, size: REGION as u64 })
}

fn ring() -> AddRing {
    AddRing { client_to_server: true, index: 0, region: 0, offset: 0, log2_ring_size: 6, private_header: 0 }
}

/// One of each kind.
fn messages() -> Vec<Message> {
    vec![
        Message::Ack,
        Message::Hello(hello()),
        Message::Init(init()),
        region(),
        Message::AddRing(ring()),
        Message::Connect(Name::new()),
        Message::Connected(Name::new()),
    ]
}

#[test]
fn a_client_takes_only_what_comes_next() {
    // Messages that lead on, in their order, up to the connection.
    let way: Vec<Message> = [Message::Hello(hello())]
        .into_iter()
        .chain((0..4).map(|_| Message::Ack))
        .chain([Message::Connected(cut("peer"))])
        .collect();
    for steps in 0..=way.len() {
        for message in messages() {
            let mut client = client();
            for good in &way[..steps] {
                client.handle(good).unwrap();
            }
            let next = way.get(steps).map(Message::name);
            let taken = client.handle(&message);
            // Some servers acknowledge CONNECT.
            let extra = message == Message::Ack && next == Some("CONNECTED");
            assert_eq!(taken.is_ok(), next == Some(message.name()) || extra, "{steps} {message:?}");
            if let Err(end) = taken {
                assert_eq!(end, End::ByUs(cut(&std::format!("Unexpected message {}", message.name()))));
            }
        }
    }
}

#[test]
fn a_client_wants_no_more_than_the_server_has() {
    let options = ClientOptions { queues: 4, log2_size: 10, ..client_options(&How::plain()) };
    let region = memory(64 << 20);
    let mut client = Client::new(options, region, 64 << 20).unwrap();
    client.open();
    let hello = Hello { max_c2s_ring: 1, max_s2c_ring: 2, max_log2_ring_size: 8, ..hello() };
    let mut rings = Vec::new();
    let mut step = client.handle(&Message::Hello(hello)).unwrap();
    while let ClientStep::Send(message, _) = step {
        if let Message::AddRing(ring) = message {
            rings.push((ring.client_to_server, ring.index, ring.log2_ring_size));
        }
        let connect = matches!(message, Message::Connect(_));
        let answer = if connect { Message::Connected(cut("peer")) } else { Message::Ack };
        step = client.handle(&answer).unwrap();
    }
    assert_eq!(rings, [(true, 0, 8), (true, 1, 8), (false, 0, 8), (false, 1, 8), (false, 2, 8)]);
    assert!(client.attachment(true, 1, None).is_some() && client.attachment(true, 2, None).is_none());
    assert!(client.attachment(false, 2, None).is_some() && client.attachment(false, 3, None).is_none());
}

#[test]
fn a_version_that_is_not_ours_ends_it() {
    for (min_version, max_version, good) in [
        (VERSION, VERSION, true),
        (0, u16::MAX, true),
        (VERSION + 1, u16::MAX, false),
        (0, VERSION - 1, false),
    ] {
        let hello = Hello { min_version, max_version, ..hello() };
        assert_eq!(client().handle(&Message::Hello(hello)).is_ok(), good);
    }
    let mut server = Server::new(server_options());
    let end = server.handle(&Message::Init(Init { version: 0x100, ..init() }), Attached::Nothing);
    assert_eq!(end, Err(End::ByUs(cut("Incompatible memif version"))));
}

#[test]
fn ip_mode_is_refused_in_words() {
    let mut server = Server::new(server_options());
    let end =
        server.handle(&Message::Init(Init { mode: InterfaceMode::Other(1), ..init() }), Attached::Nothing);
    assert_eq!(end, Err(End::ByUs(cut("Only ethernet mode supported"))));
}

#[test]
fn secrets_are_asked_for_and_compared_whole() {
    let locked = ServerOptions { secret: cut("psst"), ..server_options() };
    for (secret, wanted) in [
        ("psst", None),
        ("", Some("Secret required")),
        ("pss", Some("Incorrect secret")),
        ("pssts", Some("Incorrect secret")),
        ("Psst", Some("Incorrect secret")),
    ] {
        let mut server = Server::new(server_options());
        let init = Init { secret: cut(secret), ..init() };
        server.handle(&Message::Init(init.clone()), Attached::Nothing).unwrap();
        let accepted = server.accept(locked.clone(), &init);
        assert_eq!(accepted.err(), wanted.map(|reason| End::ByUs(cut(reason))), "{secret}");
    }
}

fn accepted() -> Server {
    let mut server = Server::new(server_options());
    server.handle(&Message::Init(init()), Attached::Nothing).unwrap();
    server.accept(server_options(), &init()).unwrap();
    server
}

/// What comes along with a message that needs something.
fn attached(message: &Message) -> Attached {
    match message {
        Message::AddRegion(_) => Attached::Region(Ok(memory(REGION))),
        Message::AddRing(_) => Attached::Interrupt(Arc::new(|| {})),
        _ => Attached::Nothing,
    }
}

#[test]
fn a_server_takes_no_message_before_its_time() {
    for message in messages() {
        let wanted = matches!(message, Message::Init(_));
        let mut server = Server::new(server_options());
        assert_eq!(server.handle(&message, attached(&message)).is_ok(), wanted, "{message:?}");
        // Nobody has said yet whether the interface is free.
        let mut server = Server::new(server_options());
        server.handle(&Message::Init(init()), Attached::Nothing).unwrap();
        assert!(server.handle(&message, attached(&message)).is_err(), "{message:?}");
        let wanted = matches!(message, Message::AddRegion(_) | Message::AddRing(_));
        assert_eq!(accepted().handle(&message, attached(&message)).is_ok(), wanted, "{message:?}");
    }
}

#[test]
fn a_server_names_what_is_wrong() {
    let cases: [(Message, &str); 9] = [
        (Message::AddRegion(AddRegion { index: 1, size: 1 << 20 }), "Invalid region index"),
        (Message::AddRegion(AddRegion { index: 65_535, size: 1 << 20 }), "Invalid region index"),
        (Message::AddRing(AddRing { index: 1, ..ring() }), "Invalid ring index"),
        (Message::AddRing(AddRing { index: 65_535, ..ring() }), "Invalid ring index"),
        (Message::AddRing(AddRing { log2_ring_size: 0, ..ring() }), "Invalid ring size"),
        (Message::AddRing(AddRing { log2_ring_size: 15, ..ring() }), "Invalid ring size"),
        (Message::AddRing(AddRing { log2_ring_size: 255, ..ring() }), "Invalid ring size"),
        (Message::AddRing(AddRing { private_header: 8, ..ring() }), "Private headers are not supported"),
        (Message::Connect(Name::new()), "No rings"),
    ];
    for (message, wanted) in cases {
        let end = accepted().handle(&message, attached(&message));
        assert_eq!(end, Err(End::ByUs(cut(wanted))), "{message:?}");
    }
    for (message, wanted) in
        [(region(), "Missing region fd"), (Message::AddRing(ring()), "Missing interrupt fd")]
    {
        assert_eq!(accepted().handle(&message, Attached::Nothing), Err(End::ByUs(cut(wanted))));
    }
    let too_many = (0..5).map(|index| Message::AddRing(AddRing { index, ..ring() }));
    let mut server = accepted();
    let ends: Vec<bool> =
        too_many.map(|message| server.handle(&message, attached(&message)).is_ok()).collect();
    assert_eq!(ends, [true, true, true, true, false]);
}

#[test]
fn rings_that_lie_nowhere_end_the_connection_with_the_reason() {
    let last = REGION as u32 - (128 + 16 * 64);
    for (told, wanted) in [
        (AddRing { region: 1, ..ring() }, "Ring in an unknown region"),
        (AddRing { region: 65_535, ..ring() }, "Ring in an unknown region"),
        (AddRing { offset: last + 16, ..ring() }, "ring at 0xfffb90 not inside region of 0x1000000"),
        (AddRing { offset: u32::MAX - 15, ..ring() }, "ring at 0xfffffff0 not inside region of 0x1000000"),
        (AddRing { offset: 4, ..ring() }, "ring at 0x4 is not 16-byte aligned"),
        (AddRing { offset: last, ..ring() }, "ring cookie 0x0"),
    ] {
        let mut server = accepted();
        for message in [region(), Message::AddRing(told)] {
            server.handle(&message, attached(&message)).unwrap();
        }
        let end = server.handle(&Message::Connect(Name::new()), Attached::Nothing);
        assert_eq!(end, Err(End::ByUs(cut(wanted))));
    }
}

#[test]
fn what_does_not_fit_is_told_in_bytes() {
    let options = client_options(&How { log2_size: 14, ..How::plain() });
    let error = Client::new(options, memory(1 << 20), 1 << 20).err().unwrap();
    assert_eq!(error.available, 1 << 20);
    assert!(error.needed > 2 * 16384 * 2048);
}
