//! A TAP interface as a wire: the host's own kernel answers. Skipped, with one line that says why, where no interface
//! can be made.

use std::process::{Command, ExitCode};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use barewire::tap::{Tap, TapAccount, TapWire};
use libtest_mimic::{Arguments, Failed, Trial};
use model::Wire;

/// How long the kernel may take to answer: a bound for one that does not, far above what one needs.
const LIMIT: Duration = Duration::from_secs(20);
const HOST: [u8; 4] = [10, 213, 7, 1];
const CARD: [u8; 4] = [10, 213, 7, 2];
const CARD_MAC: [u8; 6] = [0x02, 0, 0, 0, 7, 2];

fn main() -> ExitCode {
    let args = Arguments::from_args();
    let name = format!("bwt{}", std::process::id());
    let missing = if args.list { None } else { prepare(&name).err() };
    if let Some(why) = &missing {
        println!("skipped: {why}");
    }
    let test = Trial::test("the_host_answers_arp_and_ping_through_a_tap", move || answers(&name));
    libtest_mimic::run(&args, vec![test.with_ignored_flag(missing.is_some())]).exit_code()
}

/// Whether an interface can be made and given an address here.
fn prepare(name: &str) -> Result<(), String> {
    let (tap, _wire) = Tap::open(name).map_err(|failure| failure.to_string())?;
    ip(&["address", "show", "dev", tap.name()])
}

fn ip(args: &[&str]) -> Result<(), String> {
    let output = Command::new("ip").args(args).output().map_err(|error| format!("ip: {error}"))?;
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    if output.status.success() { Ok(()) } else { Err(format!("ip {}: {said}", args.join(" "))) }
}

/// The next frame for the card that `wanted` finds right; what the host sends on its own account is passed over.
fn next(wire: &mut TapWire, kicks: &Receiver<()>, wanted: impl Fn(&[u8]) -> bool) -> Result<Vec<u8>, Failed> {
    let until = Instant::now() + LIMIT;
    loop {
        while let Some(frame) = wire.receive() {
            if wanted(frame) {
                return Ok(frame.to_vec());
            }
        }
        let left = until.saturating_duration_since(Instant::now());
        kicks.recv_timeout(left).map_err(|_| "the host does not answer")?;
    }
}

fn answers(name: &str) -> Result<(), Failed> {
    let (mut tap, mut wire) = Tap::open(name)?;
    let (kick, kicks) = channel();
    tap.start(move || _ = kick.send(()));
    ip(&["address", "add", "10.213.7.1/24", "dev", name])?;
    wire.transmit(&arp_request());
    let answer = next(&mut wire, &kicks, |frame| frame[12..14] == [8, 6] && frame[20..22] == [0, 2])?;
    assert_eq!((answer.len(), &answer[..6], &answer[28..32]), (60, &CARD_MAC[..], &HOST[..]));
    let host_mac: [u8; 6] = answer[22..28].try_into()?;
    for payload in [0, 1000] {
        let request = echo_request(host_mac, payload);
        wire.transmit(&request);
        let answer = next(&mut wire, &kicks, |frame| frame[12..14] == [8, 0] && frame[23] == 1)?;
        assert_eq!((answer.len(), answer[34]), (60.max(42 + payload), 0));
        assert_eq!(answer[38..42 + payload], request[38..42 + payload]);
    }
    // Three frames went in; how many the host sends on its own account is its own affair.
    let account = tap.account();
    assert_eq!((account.to_host, account.refused, account.why), (3, 0, None));
    assert!(account.from_host >= 3, "{}", account.from_host);
    // An interface that is down takes nothing, and that is told.
    ip(&["link", "set", name, "down"])?;
    wire.transmit(&echo_request(host_mac, 0));
    let TapAccount { to_host, refused, why, .. } = tap.account();
    assert_eq!((to_host, refused, why.is_some()), (3, 1, true));
    Ok(())
}

fn ethernet(to: [u8; 6], kind: [u8; 2]) -> Vec<u8> {
    [&to[..], &CARD_MAC, &kind].concat()
}

/// RFC 826.
fn arp_request() -> Vec<u8> {
    let mut frame = ethernet([0xff; 6], [8, 6]);
    frame.extend([0, 1, 8, 0, 6, 4, 0, 1]);
    frame.extend([&CARD_MAC[..], &CARD, &[0; 6], &HOST].concat());
    frame.resize(60, 0);
    frame
}

/// RFC 792, with a payload of counted bytes.
fn echo_request(to: [u8; 6], payload: usize) -> Vec<u8> {
    let mut frame = ethernet(to, [8, 0]);
    let len = (28 + payload) as u16;
    let [high, low] = len.to_be_bytes();
    frame.extend([0x45, 0, high, low, 0, 0, 0x40, 0, 64, 1, 0, 0]);
    frame.extend([CARD, HOST].concat());
    frame.extend([8, 0, 0, 0, 0x12, 0x34, 0, 1]);
    frame.extend((0..payload).map(|i| i as u8));
    for (sum_at, from, to) in [(24, 14, 34), (36, 34, frame.len())] {
        let sum = internet_checksum(&frame[from..to]);
        frame[sum_at..sum_at + 2].copy_from_slice(&sum);
    }
    frame.resize(frame.len().max(60), 0);
    frame
}

/// RFC 1071.
fn internet_checksum(bytes: &[u8]) -> [u8; 2] {
    let word = |pair: &[u8]| u32::from(pair[0]) << 8 | u32::from(pair.get(1).copied().unwrap_or(0));
    let sum: u32 = bytes.chunks(2).map(word).sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    (!(sum as u16 + (sum >> 16) as u16)).to_be_bytes()
}
