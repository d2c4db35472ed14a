//! Ports of several kinds in one image: enums over them and over their queues, with nothing between the caller and the one
//! that it is but a branch.

/// Makes the types of a port that is one of several: the port, its queues, its errors and troubles, and what is remembered
/// between two looks. Each kind has a name for fields, a name for variants, and the port's type, an
/// [`ImagePort`](crate::port::ImagePort).
macro_rules! any_port {
    (
        port $Port:ident, rx $Rx:ident, tx $Tx:ident, error $Error:ident, trouble $Trouble:ident, watch $Watch:ident;
        $($field:ident: $Kind:ident($Inner:ty)),+ $(,)?
    ) => {
        /// A port of any kind.
        #[allow(clippy::large_enum_variant, reason = "there are few, and they stay where they are")]
        pub enum $Port {
            $(#[doc = concat!("Of kind ", stringify!($field), ".")] $Kind($Inner)),+
        }

        /// A receive queue of any kind.
        #[allow(clippy::large_enum_variant, reason = "a branch, and no pointer, on the way of a frame")]
        pub enum $Rx {
            $(#[doc = concat!("Of kind ", stringify!($field), ".")]
            $Kind(<$Inner as kernel::port::PortControl>::Rx)),+
        }

        /// A transmit queue of any kind.
        #[allow(clippy::large_enum_variant, reason = "a branch, and no pointer, on the way of a frame")]
        pub enum $Tx {
            $(#[doc = concat!("Of kind ", stringify!($field), ".")]
            $Kind(<$Inner as kernel::port::PortControl>::Tx)),+
        }

        /// Why a step failed, with any kind of port.
        #[derive(Debug)]
        pub enum $Error {
            $(#[doc = concat!("Of kind ", stringify!($field), ".")]
            $Kind(<$Inner as kernel::port::PortControl>::Error),)+
            /// A queue was given to a port of another kind.
            OtherKind,
        }

        /// What is wrong with a port of any kind.
        #[derive(PartialEq)]
        pub enum $Trouble {
            $(#[doc = concat!("Of kind ", stringify!($field), ".")]
            $Kind(<$Inner as $crate::port::ImagePort>::Trouble)),+
        }

        /// What is remembered of a queue of any kind between two looks.
        #[derive(Default)]
        pub struct $Watch {
            $($field: <$Inner as $crate::port::ImagePort>::Watch),+
        }

        impl core::fmt::Display for $Error {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                match self {
                    $(Self::$Kind(inner) => core::fmt::Display::fmt(inner, f),)+
                    Self::OtherKind => f.write_str("the queue is one of another kind of port"),
                }
            }
        }

        impl core::error::Error for $Error {}

        impl core::fmt::Display for $Trouble {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                match self {
                    $(Self::$Kind(inner) => core::fmt::Display::fmt(inner, f)),+
                }
            }
        }

        $crate::any_port::any_queue!($Rx, $Tx; $($Kind),+);
        $crate::any_port::any_control!($Port, $Rx, $Tx, $Error; $($Kind($Inner)),+);
        $crate::any_port::any_image_port!($Port, $Rx, $Tx, $Error, $Trouble, $Watch; $($field: $Kind),+);
    };
}
pub(crate) use any_port;

/// The data path of [`any_port`].
macro_rules! any_queue {
    ($Rx:ident, $Tx:ident; $($Kind:ident),+) => {
        impl $Rx {
            /// Receives and sends by a queue that is of one kind.
            #[inline]
            fn relay_to<T: kernel::TxQueue + 'static>(
                &mut self,
                tx: &mut T,
                pool: &mut kernel::Pool,
                touch: kernel::port::Touch,
                limit: usize,
            ) -> Option<kernel::port::Relayed> {
                match self {
                    $(Self::$Kind(rx) => kernel::RxQueue::relay(rx, tx, pool, touch, limit)),+
                }
            }
        }

        impl kernel::RxQueue for $Rx {
            #[inline]
            fn rx_burst(
                &mut self,
                buffers: &mut impl kernel::Buffers,
                burst: &mut kernel::Burst,
                limit: usize,
            ) -> usize {
                match self {
                    $(Self::$Kind(rx) => rx.rx_burst(buffers, burst, limit)),+
                }
            }

            /// A queue knows those of its own kind, and nothing of this enum.
            #[inline]
            fn relay<T: kernel::TxQueue + 'static>(
                &mut self,
                tx: &mut T,
                pool: &mut kernel::Pool,
                touch: kernel::port::Touch,
                limit: usize,
            ) -> Option<kernel::port::Relayed> {
                match (tx as &mut dyn core::any::Any).downcast_mut::<$Tx>() {
                    $(Some($Tx::$Kind(tx)) => self.relay_to(tx, pool, touch, limit),)+
                    None => self.relay_to(tx, pool, touch, limit),
                }
            }

            fn counters(&self) -> kernel::port::QueueCounters {
                match self {
                    $(Self::$Kind(rx) => kernel::RxQueue::counters(rx)),+
                }
            }

            fn drops(&self) -> &kernel::Drops {
                match self {
                    $(Self::$Kind(rx) => kernel::RxQueue::drops(rx)),+
                }
            }
        }

        impl kernel::TxQueue for $Tx {
            #[inline]
            fn tx_burst(&mut self, buffers: &mut impl kernel::Buffers, burst: &mut kernel::Burst) -> usize {
                match self {
                    $(Self::$Kind(tx) => tx.tx_burst(buffers, burst)),+
                }
            }

            #[inline]
            fn take_sent(&mut self, block: &mut [u32; kernel::BLOCK]) -> bool {
                match self {
                    $(Self::$Kind(tx) => tx.take_sent(block)),+
                }
            }

            fn counters(&self) -> kernel::port::QueueCounters {
                match self {
                    $(Self::$Kind(tx) => kernel::TxQueue::counters(tx)),+
                }
            }

            fn drops(&self) -> &kernel::Drops {
                match self {
                    $(Self::$Kind(tx) => kernel::TxQueue::drops(tx)),+
                }
            }
        }

        $crate::any_port::any_queue!(@told $Rx; $($Kind),+);
        $crate::any_port::any_queue!(@told $Tx; $($Kind),+);
    };
    (@told $Queue:ident; $($Kind:ident),+) => {
        impl $crate::port::ImageQueue for $Queue {
            fn index(&self) -> usize {
                match self {
                    $(Self::$Kind(queue) => $crate::port::ImageQueue::index(queue)),+
                }
            }

            fn path(&self) -> kernel::port::Path {
                match self {
                    $(Self::$Kind(queue) => $crate::port::ImageQueue::path(queue)),+
                }
            }
        }
    };
}
pub(crate) use any_queue;

/// [`PortControl`](kernel::port::PortControl) of [`any_port`].
macro_rules! any_control {
    ($Port:ident, $Rx:ident, $Tx:ident, $Error:ident; $($Kind:ident($Inner:ty)),+) => {
        impl kernel::port::PortControl for $Port {
            type Rx = $Rx;
            type Tx = $Tx;
            type Error = $Error;

            fn mac(&self) -> kernel::MacAddr {
                match self {
                    $(Self::$Kind(port) => port.mac()),+
                }
            }

            fn start_rx(
                &mut self,
                queue: u16,
                setup: &kernel::port::QueueSetup,
                buffers: &mut impl kernel::Buffers,
            ) -> Result<$Rx, $Error> {
                match self {
                    $(Self::$Kind(port) => {
                        port.start_rx(queue, setup, buffers).map($Rx::$Kind).map_err($Error::$Kind)
                    }),+
                }
            }

            fn start_tx(&mut self, queue: u16, setup: &kernel::port::QueueSetup) -> Result<$Tx, $Error> {
                match self {
                    $(Self::$Kind(port) => port.start_tx(queue, setup).map($Tx::$Kind).map_err($Error::$Kind)),+
                }
            }

            fn stop_rx(
                &mut self,
                rx: $Rx,
                buffers: &mut impl kernel::Buffers,
            ) -> Result<kernel::port::QueueCounters, $Error> {
                match (self, rx) {
                    $((Self::$Kind(port), $Rx::$Kind(rx)) => port.stop_rx(rx, buffers).map_err($Error::$Kind),)+
                    #[allow(unreachable_patterns, reason = "there may be one kind")]
                    _ => Err($Error::OtherKind),
                }
            }

            fn stop_tx(
                &mut self,
                tx: $Tx,
                buffers: &mut impl kernel::Buffers,
            ) -> Result<kernel::port::QueueCounters, $Error> {
                match (self, tx) {
                    $((Self::$Kind(port), $Tx::$Kind(tx)) => port.stop_tx(tx, buffers).map_err($Error::$Kind),)+
                    #[allow(unreachable_patterns, reason = "there may be one kind")]
                    _ => Err($Error::OtherKind),
                }
            }

            fn set_promiscuous(&mut self, on: bool) -> Result<(), $Error> {
                match self {
                    $(Self::$Kind(port) => port.set_promiscuous(on).map_err($Error::$Kind)),+
                }
            }

            fn link(&mut self) -> Result<kernel::Link, $Error> {
                match self {
                    $(Self::$Kind(port) => port.link().map_err($Error::$Kind)),+
                }
            }

            fn stats(&mut self) -> kernel::port::PortStats {
                match self {
                    $(Self::$Kind(port) => port.stats()),+
                }
            }
        }
    };
}
pub(crate) use any_control;

/// [`ImagePort`](crate::port::ImagePort) of [`any_port`].
macro_rules! any_image_port {
    (
        $Port:ident, $Rx:ident, $Tx:ident, $Error:ident, $Trouble:ident, $Watch:ident;
        $($field:ident: $Kind:ident),+
    ) => {
        impl $crate::port::ImagePort for $Port {
            type Trouble = $Trouble;
            type Watch = $Watch;

            fn packet_memory(
                &mut self,
                len: usize,
                align: usize,
            ) -> Option<Result<hal::DmaMemory, hal::DmaError>> {
                match self {
                    $(Self::$Kind(port) => port.packet_memory(len, align)),+
                }
            }

            fn set_rss_queues(&mut self, queues: u16) -> Result<(), $Error> {
                match self {
                    $(Self::$Kind(port) => {
                        $crate::port::ImagePort::set_rss_queues(port, queues).map_err($Error::$Kind)
                    }),+
                }
            }

            fn trouble(&mut self) -> Option<$Trouble> {
                match self {
                    $(Self::$Kind(port) => $crate::port::ImagePort::trouble(port).map($Trouble::$Kind)),+
                }
            }

            fn rx_trouble(&self, rx: &$Rx, watch: &mut $Watch) -> Option<$Trouble> {
                match (self, rx) {
                    $((Self::$Kind(port), $Rx::$Kind(rx)) => {
                        let told = $crate::port::ImagePort::rx_trouble(port, rx, &mut watch.$field);
                        told.map($Trouble::$Kind)
                    })+
                    #[allow(unreachable_patterns, reason = "there may be one kind")]
                    _ => None,
                }
            }

            fn tx_trouble(&self, tx: &$Tx, watch: &mut $Watch) -> Option<$Trouble> {
                match (self, tx) {
                    $((Self::$Kind(port), $Tx::$Kind(tx)) => {
                        let told = $crate::port::ImagePort::tx_trouble(port, tx, &mut watch.$field);
                        told.map($Trouble::$Kind)
                    })+
                    #[allow(unreachable_patterns, reason = "there may be one kind")]
                    _ => None,
                }
            }

            fn tell_xstats(&mut self, tell: &mut dyn FnMut(&'static str, u64)) {
                match self {
                    $(Self::$Kind(port) => port.tell_xstats(tell)),+
                }
            }

            fn time_stamper(
                &self,
            ) -> Option<alloc::boxed::Box<dyn kernel::port::time_stamp::TimeStamper + Send>> {
                match self {
                    $(Self::$Kind(port) => port.time_stamper()),+
                }
            }

            fn shut_down(self) -> Result<(), $Error> {
                match self {
                    $(Self::$Kind(port) => {
                        $crate::port::ImagePort::shut_down(port).map_err($Error::$Kind)
                    }),+
                }
            }
        }
    };
}
pub(crate) use any_image_port;

#[cfg(test)]
mod tests;
