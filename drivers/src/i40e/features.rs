//! What can be set and asked of a port that is up, while its queues run or while they don't.

use hal::Machine;
use kernel::MacAddr;
use kernel::port::PortControl;

use super::error::Error;
use super::filters::{self, Filters};
use super::flow::{self, FlowControl};
use super::nvm::{self, NvmVersion};
use super::port::I40e;
use super::rss::{self, Key, Rss, TABLE_ENTRIES};
use super::{link, switch};

impl<M: Machine> I40e<M> {
    /// The image in the card's flash.
    pub fn nvm(&self) -> NvmVersion {
        self.nvm
    }

    /// What a user of this card's firmware should know, each in words.
    pub fn remarks(&self) -> impl Iterator<Item = &'static str> + use<M> {
        nvm::remarks(self.firmware())
    }

    /// Queue pairs that the port has.
    pub fn queue_pairs(&self) -> u16 {
        self.queues() as u16
    }

    /// Spreads flows evenly over receive queues 0 to `queues` - 1; with one queue everything goes there, without a hash.
    ///
    /// # Errors
    /// More queues than the port or the table has.
    pub fn set_rss_queues(&mut self, queues: u16) -> Result<(), Error> {
        if queues == 0 || usize::from(queues) > self.queues().min(rss::TABLE_QUEUES) {
            let value = u64::from(queues);
            return Err(Error::Request { step: "receive side scaling", what: "the number of queues", value });
        }
        let key = self.rss.key;
        self.set_rss(&if queues == 1 { Rss { key, ..Rss::OFF } } else { Rss::spread(queues, key) })
    }

    /// Sets key, kinds of flows and table.
    ///
    /// # Errors
    /// The table names a queue that the port does not have.
    pub fn set_rss(&mut self, wanted: &Rss) -> Result<(), Error> {
        let queues = self.queues();
        rss::program(&mut self.admin, &self.bar, wanted, queues)?;
        self.rss = *wanted;
        Ok(())
    }

    /// Sets the key only.
    ///
    /// # Errors
    /// As for [`I40e::set_rss`].
    pub fn set_rss_key(&mut self, key: Key) -> Result<(), Error> {
        self.set_rss(&Rss { key, ..self.rss })
    }

    /// What was set last.
    pub fn rss(&self) -> &Rss {
        &self.rss
    }

    /// The table as the card has it now.
    pub fn rss_table(&self) -> [u8; TABLE_ENTRIES] {
        rss::table(&self.bar)
    }

    /// Takes the outer tag, 802.1Q, out of received frames and hands it over in their metadata, or leaves it where it is.
    ///
    /// # Errors
    /// The firmware refuses.
    pub fn set_vlan_strip(&mut self, strip: bool) -> Result<(), Error> {
        switch::set_vlan_strip(&mut self.admin, self.vsi, strip)?;
        self.vlan_strip = strip;
        Ok(())
    }

    /// Takes two tags out of frames that have two, an S-tag or C-tag outside and a C-tag inside, where
    /// [`I40e::set_vlan_strip`] is on. Holds for receive queues that are started afterwards. Unproven on a card.
    ///
    /// # Errors
    /// The firmware refuses, or descriptors have 16 bytes, which have no place for a second tag.
    pub fn set_qinq(&mut self, on: bool) -> Result<(), Error> {
        if on && !self.options.wide_descriptors {
            return Err(Error::Request { step: "second tag", what: "bytes of a descriptor", value: 16 });
        }
        switch::set_double_vlan(&mut self.admin, on)?;
        self.qinq = on;
        Ok(())
    }

    /// Which addresses and tags are received.
    pub fn filters(&self) -> &Filters {
        &self.filters
    }

    /// With it only frames without a tag, and with one that was let in by [`I40e::set_vlan`], are received.
    ///
    /// # Errors
    /// The firmware has no room, or refuses; then nothing has changed.
    pub fn set_vlan_filter(&mut self, on: bool) -> Result<(), Error> {
        self.change_filters(|filters| {
            filters.set_vlan_filter(on);
            Ok(())
        })
    }

    /// Lets the tag `vlan`, 1 to 4094, in, or no more; counts while the tag filter is on.
    ///
    /// # Errors
    /// As for [`I40e::set_vlan_filter`], or it is no tag.
    pub fn set_vlan(&mut self, vlan: u16, on: bool) -> Result<(), Error> {
        self.change_filters(|filters| filters.set_vlan(vlan, on))
    }

    /// Receives frames to `mac`, a unicast or a multicast address, too.
    ///
    /// # Errors
    /// As for [`I40e::set_vlan_filter`].
    pub fn add_address(&mut self, mac: MacAddr) -> Result<(), Error> {
        self.change_filters(|filters| filters.add_address(mac))
    }

    /// Receives frames to `mac` no more.
    ///
    /// # Errors
    /// It was not added, or the firmware refuses.
    pub fn remove_address(&mut self, mac: MacAddr) -> Result<(), Error> {
        self.change_filters(|filters| filters.remove_address(mac))
    }

    /// Receives every multicast frame, or only those to addresses that were added.
    ///
    /// # Errors
    /// The firmware refuses.
    pub fn set_all_multicast(&mut self, on: bool) -> Result<(), Error> {
        self.change_filters(|filters| {
            filters.set_all_multicast(on);
            Ok(())
        })
    }

    pub(super) fn change_filters(
        &mut self,
        change: impl FnOnce(&mut Filters) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut wanted = self.filters.clone();
        change(&mut wanted)?;
        filters::program(&mut self.admin, self.vsi, Some(&self.filters), &wanted)?;
        self.filters = wanted;
        Ok(())
    }

    /// Offers pause frames to the other end, or none. The link restarts when that changes.
    ///
    /// # Errors
    /// The firmware refuses.
    pub fn set_flow_control(&mut self, wanted: FlowControl) -> Result<(), Error> {
        flow::set(&mut self.admin, wanted)?;
        self.refresh_link()
    }

    /// What both ends have agreed on.
    ///
    /// # Errors
    /// The firmware does not say.
    pub fn flow_control(&mut self) -> Result<FlowControl, Error> {
        link::raw_status(&mut self.admin).map(|status| flow::negotiated(&status))
    }

    /// Extended statistics since the port's start, under DPDK's names: first those that every port of DPDK has
    /// (`eth_dev_stats_strings`), then i40e's.
    pub fn xstats(&mut self) -> impl Iterator<Item = (&'static str, u64)> {
        let stats = self.stats();
        let common = [
            ("rx_good_packets", stats.rx_frames),
            ("tx_good_packets", stats.tx_frames),
            ("rx_good_bytes", stats.rx_bytes),
            ("tx_good_bytes", stats.tx_bytes),
            ("rx_missed_errors", stats.rx_missed),
            ("rx_errors", stats.rx_errors),
            ("tx_errors", stats.tx_errors),
            // A ring for which there are no buffers stays short, and frames without a descriptor count as missed.
            ("rx_mbuf_allocation_errors", 0),
        ];
        // Counters of a card that was reset may have begun again.
        if self.was_reset() {
            self.xstats.restarted(&self.bar);
        }
        common.into_iter().chain(self.xstats.read(&self.bar))
    }
}
