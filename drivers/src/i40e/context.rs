//! Queue contexts in the host memory cache (datasheet: "LAN Tx Queue Context", "LAN Rx Queue Context").
//!
//! A context is a row of bit fields without regard to bytes. Only what is named here is set; the rest is 0.

use hal::DmaAddr;

/// Bytes of a transmit context.
pub const TX_BYTES: usize = 128;
/// Bytes of a receive context.
pub const RX_BYTES: usize = 32;

/// Least significant bit and width.
#[derive(Clone, Copy)]
struct Field(usize, usize);

/// Sets `field` of `context` to the low bits of `value`.
fn put<const N: usize>(context: &mut [u8; N], field: Field, value: u64) {
    let Field(lsb, width) = field;
    for bit in 0..width {
        let at = lsb + bit;
        if let Some(byte) = context.get_mut(at / 8) {
            let mask = 1 << (at % 8);
            *byte = if value >> bit & 1 != 0 { *byte | mask } else { *byte & !mask };
        }
    }
}

/// What a transmit queue is given.
#[derive(Debug, Clone, Copy)]
pub struct TxContext {
    /// First descriptor, aligned to 128 bytes.
    pub base: DmaAddr,
    /// Descriptors.
    pub qlen: u16,
    /// The VSI's queue set, from Get VSI Parameters.
    pub rdylist: u16,
    /// Frames may ask for the time at which they are sent.
    pub time_sync: bool,
}

impl TxContext {
    /// The context's bytes. Completion is written into the descriptors, not to a head word.
    pub fn encode(&self) -> [u8; TX_BYTES] {
        const NEW_CONTEXT: Field = Field(30, 1);
        const BASE: Field = Field(32, 57);
        const TIMESYNC_ENA: Field = Field(90, 1);
        const QLEN: Field = Field(161, 13);
        const RDYLIST: Field = Field(980, 10);
        let mut context = [0; TX_BYTES];
        put(&mut context, NEW_CONTEXT, 1);
        put(&mut context, BASE, self.base.as_u64() / 128);
        put(&mut context, QLEN, u64::from(self.qlen));
        put(&mut context, TIMESYNC_ENA, u64::from(self.time_sync));
        put(&mut context, RDYLIST, u64::from(self.rdylist));
        context
    }
}

/// What a receive queue is given.
#[derive(Debug, Clone, Copy)]
pub struct RxContext {
    /// First descriptor, aligned to 128 bytes.
    pub base: DmaAddr,
    /// Descriptors.
    pub qlen: u16,
    /// Bytes that may be written into a buffer.
    pub room: u32,
    /// 32-byte descriptors rather than 16-byte ones.
    pub wide: bool,
    /// Longest frame.
    pub max_frame: u32,
}

impl RxContext {
    /// Largest buffer: the field counts units of 128 bytes in 7 bits.
    pub const ROOM_MAX: u32 = 127 * 128;

    /// Units of 128 bytes, rounded down: the card fills all of them.
    pub const fn dbuff(room: u32) -> u32 {
        let room = if room < Self::ROOM_MAX { room } else { Self::ROOM_MAX };
        room / 128
    }

    /// The context's bytes.
    pub fn encode(&self) -> [u8; RX_BYTES] {
        const BASE: Field = Field(32, 57);
        const QLEN: Field = Field(89, 13);
        const DBUFF: Field = Field(102, 7);
        const DSIZE: Field = Field(116, 1);
        const CRCSTRIP: Field = Field(117, 1);
        const L2TSEL: Field = Field(119, 1);
        const RXMAX: Field = Field(174, 14);
        const LRXQTHRESH: Field = Field(198, 3);
        const PREFENA: Field = Field(201, 1);
        let mut context = [0; RX_BYTES];
        put(&mut context, BASE, self.base.as_u64() / 128);
        put(&mut context, QLEN, u64::from(self.qlen));
        put(&mut context, DBUFF, u64::from(Self::dbuff(self.room)));
        put(&mut context, DSIZE, u64::from(self.wide));
        put(&mut context, CRCSTRIP, 1);
        put(&mut context, L2TSEL, 1);
        put(&mut context, RXMAX, u64::from(self.max_frame));
        put(&mut context, LRXQTHRESH, 2);
        put(&mut context, PREFENA, 1);
        context
    }
}

#[cfg(test)]
mod tests {
    use hal::Machine;
    use hal::hosted::{FakeBar, HostedMachine};

    use super::*;

    fn bits(context: &[u8], lsb: usize, width: usize) -> u64 {
        (0..width).map(|i| u64::from(context[(lsb + i) / 8] >> ((lsb + i) % 8) & 1) << i).sum()
    }

    fn base() -> DmaAddr {
        HostedMachine::<FakeBar>::new(1 << 16).unwrap().dma_alloc(4096, 4096).unwrap().addr()
    }

    /// Positions from Linux `i40e_hmc_rxq_ce_info` and the values that its driver or DPDK's gives.
    #[test]
    fn receive_fields_are_where_linux_puts_them() {
        let context =
            RxContext { base: base(), qlen: 1024, room: 2048, wide: true, max_frame: 9728 }.encode();
        assert_eq!(bits(&context, 0, 13), 0);
        assert_eq!(bits(&context, 32, 57) * 128, base().as_u64());
        assert_eq!((bits(&context, 89, 13), bits(&context, 102, 7), bits(&context, 109, 5)), (1024, 16, 0));
        assert_eq!((bits(&context, 114, 2), bits(&context, 116, 1), bits(&context, 117, 1)), (0, 1, 1));
        assert_eq!((bits(&context, 119, 1), bits(&context, 174, 14), bits(&context, 201, 1)), (1, 9728, 1));
    }

    /// A buffer of 2047 or 2100 usable bytes must not be told as more than it has; 16 KiB is more than fits.
    #[test]
    fn buffer_size_is_rounded_down() {
        assert_eq!([2047, 2048, 2100, 16384, 127].map(RxContext::dbuff), [15, 16, 16, 127, 0]);
    }

    /// Positions from Linux `i40e_hmc_txq_ce_info`.
    #[test]
    fn transmit_fields_are_where_linux_puts_them() {
        let context = TxContext { base: base(), qlen: 4096, rdylist: 0x155, time_sync: true }.encode();
        assert_eq!((bits(&context, 30, 1), bits(&context, 160, 1)), (1, 0));
        assert_eq!((bits(&context, 89, 1), bits(&context, 90, 1), bits(&context, 91, 1)), (0, 1, 0));
        assert_eq!(bits(&context, 32, 57) * 128, base().as_u64());
        assert_eq!((bits(&context, 161, 13), bits(&context, 980, 10)), (4096, 0x155));
    }
}
