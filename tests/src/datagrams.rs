//! Cards of QEMU's own, whose wires are datagram sockets: a datagram is a frame.

use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::time::Duration;

use barewire::qemu::Machine;
use libtest_mimic::Failed;

/// How long a frame may take to come back: a bound for a machine that hangs.
const LIMIT: Duration = Duration::from_secs(60);
/// Longer than any frame.
const ROOM: usize = 20_000;

/// The test's end of a card's wire.
pub struct Datagrams {
    socket: UnixDatagram,
    card: PathBuf,
    _folder: tempfile::TempDir,
}

impl Datagrams {
    /// Puts a card of QEMU's device `kind` with this address into the machine.
    ///
    /// # Errors
    /// A socket can't be made.
    pub fn plug(machine: &mut Machine, kind: &str, mac: &str) -> Result<Self, Failed> {
        let folder = tempfile::tempdir()?;
        let (own, card) = (folder.path().join("test"), folder.path().join("card"));
        let socket = UnixDatagram::bind(&own)?;
        socket.set_read_timeout(Some(LIMIT))?;
        socket.set_write_timeout(Some(LIMIT))?;
        let id = format!("wire{}", machine.extra.len());
        machine.extra.extend([
            "-netdev".into(),
            format!(
                "dgram,id={id},local.type=unix,local.path={},remote.type=unix,remote.path={}",
                card.display(),
                own.display()
            ),
            "-device".into(),
            format!("{kind},netdev={id},mac={mac},romfile="),
        ]);
        Ok(Self { socket, card, _folder: folder })
    }

    /// Lets the card receive a frame.
    ///
    /// # Errors
    /// The machine is gone, or takes none any more.
    pub fn send(&self, frame: &[u8]) -> Result<(), Failed> {
        let sent = self.socket.send_to(frame, &self.card)?;
        if sent == frame.len() { Ok(()) } else { Err(format!("{sent} of {} bytes sent", frame.len()).into()) }
    }

    /// The next frame that the card sends.
    ///
    /// # Errors
    /// None comes.
    pub fn receive(&self) -> Result<Vec<u8>, Failed> {
        let mut frame = vec![0; ROOM];
        let len = self.socket.recv(&mut frame).map_err(|error| format!("no frame: {error}"))?;
        frame.truncate(len);
        Ok(frame)
    }
}
