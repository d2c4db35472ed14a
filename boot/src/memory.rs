//! The memory map: from what firmware says to what may be used.

use heapless::Vec;

/// Ranges that are kept of a map; more are left unused.
pub const MAX_RANGES: usize = 64;
/// Below this lie firmware's tables, option ROMs and the vectors of cores that are not started yet.
const LOW_MEMORY: u64 = 1 << 20;
const PAGE: u64 = 4096;

/// Bytes from `start` to `end`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Range {
    /// First byte.
    pub start: u64,
    /// Byte behind the last one.
    pub end: u64,
}

impl Range {
    /// Bytes.
    pub const fn len(self) -> u64 {
        self.end.saturating_sub(self.start)
    }

    /// No bytes.
    pub const fn is_empty(self) -> bool {
        self.len() == 0
    }
}

/// Ranges of memory.
pub type Ranges = Vec<Range, MAX_RANGES>;

/// The memory that may be used: whole pages of `ram` above the first MiB, without `taken`, in ascending order.
pub fn usable(ram: &[Range], taken: &[Range]) -> Ranges {
    let mut usable = Ranges::new();
    for range in ram {
        let Some(start) = range.start.max(LOW_MEMORY).checked_next_multiple_of(PAGE) else { continue };
        let end = range.end / PAGE * PAGE;
        let _ = usable.push(Range { start, end });
    }
    for hole in taken {
        usable = without(&usable, *hole);
    }
    usable.retain(|range| !range.is_empty());
    usable.sort_unstable();
    join(usable)
}

/// A page below 1 MiB for the first instructions of cores that are started: the highest one that is memory. Nothing of
/// a loader lies there that has not been copied, and firmware keeps what it needs out of the map or at the bottom.
pub fn start_page(ram: &[Range], taken: &[Range]) -> Option<u64> {
    /// Vectors 0xa0 to 0xbf are none that a core can be started at, and above lies no memory.
    const END: u64 = 0xa_0000;
    /// Interrupt vectors and BIOS data.
    const START: u64 = 0x1000;
    let mut low = Ranges::new();
    for range in ram {
        let start = range.start.clamp(START, END).next_multiple_of(PAGE);
        let _ = low.push(Range { start, end: range.end.min(END) / PAGE * PAGE });
    }
    for hole in taken {
        low = without(&low, *hole);
    }
    low.iter().filter(|range| !range.is_empty()).map(|range| range.end - PAGE).max()
}

fn without(ranges: &Ranges, hole: Range) -> Ranges {
    let (hole_start, hole_end) = (hole.start / PAGE * PAGE, hole.end.div_ceil(PAGE).saturating_mul(PAGE));
    let mut left = Ranges::new();
    for range in ranges {
        if hole.is_empty() || hole_end <= range.start || range.end <= hole_start {
            let _ = left.push(*range);
            continue;
        }
        for part in [
            Range { start: range.start, end: hole_start.min(range.end) },
            Range { start: hole_end.max(range.start), end: range.end },
        ] {
            if !part.is_empty() {
                let _ = left.push(part);
            }
        }
    }
    left
}

/// Joins ranges that touch or overlap.
fn join(sorted: Ranges) -> Ranges {
    let mut out = Ranges::new();
    for range in sorted {
        match out.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => {
                let _ = out.push(range);
            }
        }
    }
    out
}

/// Where memory ends: the byte behind the highest range.
pub fn top(ram: &[Range]) -> u64 {
    ram.iter().map(|range| range.end).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn range(start: u64, end: u64) -> Range {
        Range { start, end }
    }

    /// A map as QEMU's q35 gives it with 6 GiB, and an image at 1 MiB.
    #[test]
    fn image_and_low_memory_are_not_used() {
        let ram = [range(0, 0x9fc00), range(0x10_0000, 0x7ffd_8000), range(0x1_0000_0000, 0x2_0000_0000)];
        let taken = [range(0x10_0000, 0x1a_3456)];
        let want = [range(0x1a_4000, 0x7ffd_8000), range(0x1_0000_0000, 0x2_0000_0000)];
        assert_eq!(usable(&ram, &taken)[..], want);
        assert_eq!(top(&ram), 0x2_0000_0000);
    }

    /// Memory below the EBDA of QEMU's q35, of a map with two low ranges, and of one with none.
    #[test]
    fn cores_start_at_the_highest_low_page() {
        let q35 = [range(0, 0x9_fc00), range(0x10_0000, 0x7ffd_8000)];
        assert_eq!(start_page(&q35, &[]), Some(0x9_e000));
        assert_eq!(start_page(&q35, &[range(0x9_e800, 0x9_e900)]), Some(0x9_d000));
        assert_eq!(start_page(&[range(0x800, 0x5800), range(0x1000, 0x3000)], &[]), Some(0x4000));
        assert_eq!(start_page(&[range(0, 0x1fff), range(0x10_0000, 0x20_0000)], &[]), None);
        assert_eq!(start_page(&[range(0, u64::MAX)], &[range(0, 0x10_0000)]), None);
        assert_eq!(start_page(&[range(u64::MAX - 1, u64::MAX)], &[]), None);
    }

    #[test]
    fn holes_split_and_cover() {
        let ram = [range(0x20_0000, 0x40_0000)];
        let taken = [range(0x28_0800, 0x28_0900), range(0x3f_f000, 0x50_0000), range(0x20_0000, 0x20_0000)];
        let want = [range(0x20_0000, 0x28_0000), range(0x28_1000, 0x3f_f000)];
        assert_eq!(usable(&ram, &taken)[..], want);
        assert!(usable(&ram, &[range(0, u64::MAX)]).is_empty());
    }

    /// Firmware that lists ranges twice, overlapping, unsorted, or ending before they begin.
    #[test]
    fn a_map_that_lies_gives_each_page_once() {
        let ram = [
            range(0x60_0000, 0x80_0000),
            range(0x40_0000, 0x70_0000),
            range(0x40_0000, 0x50_0000),
            range(0x90_0000, 0x80_0000),
            range(u64::MAX - 10, u64::MAX),
        ];
        assert_eq!(usable(&ram, &[])[..], [range(0x40_0000, 0x80_0000)]);
    }
}
