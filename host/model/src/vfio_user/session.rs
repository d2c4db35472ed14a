//! What each command does to the card.

use std::os::fd::AsFd;

use super::message::{Message, command, u32_at, u64_at};
use crate::device::BAR3_BYTES;
use crate::pci::VECTORS;
use crate::regs::BAR0_BYTES;
use crate::{Xl710, pci};

const EINVAL: i32 = 22;
const ENOTSUP: i32 = 95;
/// Longest access to a region.
const MAX_ACCESS: usize = 4096;

const REGIONS: u32 = 9;
const CONFIG_REGION: u32 = 7;
const IRQS: u32 = 5;
const MSIX: u32 = 2;

fn numbers(values: &[u32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// Carries out a command; the answer's body, or an error number.
pub fn handle(card: &mut Xl710, message: &mut Message) -> Result<Vec<u8>, i32> {
    match message.command {
        command::VERSION => version(&message.body),
        command::DMA_MAP => map(card, message),
        command::DMA_UNMAP => unmap(card, &message.body),
        command::DEVICE_GET_INFO => {
            const RESET_AND_PCI: u32 = 0b11;
            Ok(numbers(&[16, RESET_AND_PCI, REGIONS, IRQS]))
        }
        command::DEVICE_GET_REGION_INFO => region_info(&message.body),
        command::DEVICE_GET_IRQ_INFO => irq_info(&message.body),
        command::DEVICE_SET_IRQS => set_irqs(card, message),
        command::REGION_READ => read(card, &message.body),
        command::REGION_WRITE => write(card, &message.body),
        command::REGION_WRITE_MULTI => write_multi(card, &message.body),
        command::DEVICE_RESET => {
            card.reset();
            Ok(Vec::new())
        }
        _ => Err(ENOTSUP),
    }
}

/// Major 0, whatever minor version: QEMU speaks 0.0.
fn version(body: &[u8]) -> Result<Vec<u8>, i32> {
    if u32_at(body, 0).ok_or(EINVAL)? & 0xffff != 0 {
        return Err(ENOTSUP);
    }
    let mut out = vec![0; 4];
    out.extend(
        br#"{"capabilities":{"max_msg_fds":16,"max_data_xfer_size":4096,"pgsizes":4096,"max_dma_maps":4096,"write_multiple":true}}"#,
    );
    out.push(0);
    Ok(out)
}

fn map(card: &mut Xl710, message: &Message) -> Result<Vec<u8>, i32> {
    const READ: u32 = 1;
    const WRITE: u32 = 2;
    let body = &message.body;
    let flags = u32_at(body, 4).ok_or(EINVAL)?;
    let (offset, iova, size) = (u64_at(body, 8), u64_at(body, 16), u64_at(body, 24));
    let (Some(offset), Some(iova), Some(size)) = (offset, iova, size) else { return Err(EINVAL) };
    let file = message.files.first().map(|file| (file.as_fd(), offset));
    let result = card.map_dma(iova, size, file, flags & READ != 0, flags & WRITE != 0);
    result.map(|()| Vec::new()).map_err(|error| error.raw_os_error().unwrap_or(EINVAL))
}

fn unmap(card: &mut Xl710, body: &[u8]) -> Result<Vec<u8>, i32> {
    const ALL: u32 = 1 << 1;
    let flags = u32_at(body, 4).ok_or(EINVAL)?;
    let (Some(iova), Some(size)) = (u64_at(body, 8), u64_at(body, 16)) else { return Err(EINVAL) };
    if flags & ALL != 0 {
        card.unmap_all_dma();
    } else {
        // A VMM with an IOMMU takes away whole ranges, mapped or not.
        card.unmap_dma(iova, size);
    }
    Ok(body.get(..24).unwrap_or_default().to_vec())
}

fn region_size(region: u32) -> u64 {
    match region {
        0 => BAR0_BYTES,
        3 => BAR3_BYTES,
        CONFIG_REGION => 4096,
        _ => 0,
    }
}

/// No region can be mapped: an access to a doorbell page would make all others wait for their answer.
fn region_info(body: &[u8]) -> Result<Vec<u8>, i32> {
    const READ_WRITE: u32 = 0b11;
    let region = u32_at(body, 8).filter(|region| *region < REGIONS).ok_or(EINVAL)?;
    let size = region_size(region);
    let mut out = numbers(&[32, if size > 0 { READ_WRITE } else { 0 }, region, 0]);
    out.extend(size.to_le_bytes());
    out.extend(0_u64.to_le_bytes());
    Ok(out)
}

fn irq_info(body: &[u8]) -> Result<Vec<u8>, i32> {
    const EVENTFD: u32 = 1;
    const MASKABLE_AUTOMASKED: u32 = 0b110;
    let index = u32_at(body, 8).filter(|index| *index < IRQS).ok_or(EINVAL)?;
    let (flags, count) = match index {
        0 => (EVENTFD | MASKABLE_AUTOMASKED, 1),
        1 => (EVENTFD, 1),
        MSIX => (EVENTFD, VECTORS),
        // Errors and requests to let go: none is ever sent, and QEMU warns where there is no place for them.
        _ => (EVENTFD, 1),
    };
    Ok(numbers(&[16, flags, index, count]))
}

fn set_irqs(card: &mut Xl710, message: &mut Message) -> Result<Vec<u8>, i32> {
    const DATA_NONE: u32 = 1 << 0;
    const DATA_EVENTFD: u32 = 1 << 2;
    const TRIGGER: u32 = 1 << 5;
    let body = &message.body;
    let [flags, index, start, count] = [4, 8, 12, 16].map(|at| u32_at(body, at));
    let (Some(flags), Some(index), Some(start), Some(count)) = (flags, index, start, count) else {
        return Err(EINVAL);
    };
    let end = start.checked_add(count).filter(|end| *end <= pci::VECTORS).ok_or(EINVAL)?;
    // Only MSI-X reaches anybody: drivers of this card use nothing else where they have it.
    if index != MSIX || flags & TRIGGER == 0 {
        return if index < IRQS { Ok(Vec::new()) } else { Err(EINVAL) };
    }
    if flags & DATA_EVENTFD != 0 {
        let mut files = std::mem::take(&mut message.files).into_iter();
        (start..end).for_each(|vector| card.set_msix(vector, files.next()));
    } else if flags & DATA_NONE != 0 && count == 0 {
        (0..pci::VECTORS).for_each(|vector| card.set_msix(vector, None));
    }
    Ok(Vec::new())
}

/// Offset, region and length of an access whose data begin at `data`, checked against the region.
fn access(body: &[u8], at: usize) -> Result<(u64, u32, usize), i32> {
    let (offset, region, len) = (u64_at(body, at), u32_at(body, at + 8), u32_at(body, at + 12));
    let (Some(offset), Some(region), Some(len)) = (offset, region, len) else { return Err(EINVAL) };
    let end = offset.checked_add(u64::from(len)).ok_or(EINVAL)?;
    if len as usize > MAX_ACCESS || end > region_size(region) {
        return Err(EINVAL);
    }
    Ok((offset, region, len as usize))
}

fn read(card: &mut Xl710, body: &[u8]) -> Result<Vec<u8>, i32> {
    let (offset, region, len) = access(body, 0)?;
    let mut out = body.get(..16).ok_or(EINVAL)?.to_vec();
    out.resize(16 + len, 0);
    let data = &mut out[16..];
    if region == CONFIG_REGION {
        card.config_read(offset, data);
    } else if len <= 8 {
        card.bar_read(region, offset, data);
    } else {
        for (at, word) in (offset..).step_by(4).zip(data.chunks_mut(4)) {
            card.bar_read(region, at, word);
        }
    }
    Ok(out)
}

fn write(card: &mut Xl710, body: &[u8]) -> Result<Vec<u8>, i32> {
    let (offset, region, len) = access(body, 0)?;
    let data = body.get(16..16 + len).ok_or(EINVAL)?;
    write_region(card, region, offset, data);
    Ok(body.get(..16).unwrap_or_default().to_vec())
}

fn write_region(card: &mut Xl710, region: u32, offset: u64, data: &[u8]) {
    if region == CONFIG_REGION {
        card.config_write(offset, data);
    } else {
        card.bar_write(region, offset, data);
    }
}

/// Several writes of at most 8 bytes, 24 bytes each.
fn write_multi(card: &mut Xl710, body: &[u8]) -> Result<Vec<u8>, i32> {
    const ENTRY: usize = 24;
    let count = u64_at(body, 0).ok_or(EINVAL)?;
    let entries = body.get(8..).unwrap_or_default().chunks_exact(ENTRY);
    if count > entries.len() as u64 {
        return Err(EINVAL);
    }
    for entry in entries.take(count as usize) {
        let (offset, region, len) = access(entry, 0)?;
        let data = entry.get(16..16 + len).ok_or(EINVAL)?;
        write_region(card, region, offset, data);
    }
    Ok(count.to_le_bytes().to_vec())
}
