//! Serves one port per socket path, each plugged into a host that answers ARP and ping.

use model::wire::EchoWire;
use model::{PortConfig, Server, Xl710};

fn main() -> Result<(), model::ServeError> {
    let mut ports = Vec::new();
    for (index, path) in std::env::args().skip(1).enumerate() {
        let config =
            PortConfig { device_id: 0x1572, mac: [0x68, 0x05, 0xca, 0, 0, index as u8], name: path.clone() };
        ports.push((path.into(), Xl710::new(config, Box::<EchoWire>::default())));
    }
    let server = Server::bind(ports)?;
    let handle = server.handle();
    let result = server.run();
    for status in handle.status() {
        println!("{status:?}");
    }
    result
}
