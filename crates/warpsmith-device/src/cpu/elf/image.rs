//! How a file lies in memory once it is loaded, as its program headers say: which bytes stay what they are in
//! the file, and which can be written.

use std::ops::Range;

use super::abi;
use crate::sys::memory::page_bytes;

/// A library, and where its parts will lie.
#[derive(Debug)]
pub(super) struct Image<'a> {
    file: &'a [u8],
    pub(super) machine: u16,
    segments: Vec<Header>,
    dynamic: Header,
}

/// A program header.
#[derive(Clone, Debug)]
struct Header {
    kind: u32,
    flags: u32,
    /// In memory, from where the image begins; the first bytes are the file's, what follows is zero.
    addresses: Range<u64>,
    file: Range<u64>,
    alignment: u64,
}

const TRUNCATED: &str = "its headers are incomplete";

impl<'a> Image<'a> {
    /// Reads the headers. An error says what they say that a linker's never do.
    pub(super) fn of(file: &'a [u8]) -> Result<Self, String> {
        let is_elf64 = file.len() >= abi::FILE_HEADER_BYTES && file[..6] == *b"\x7fELF\x02\x01";
        if !is_elf64 || half(file, 16) != Some(abi::ET_DYN) {
            return Err("it is no 64-bit ELF library".to_string());
        }
        let machine = half(file, 18).ok_or(TRUNCATED)?;
        let first = word(file, 32).ok_or(TRUNCATED)?;
        let (size, count) = (half(file, 54), half(file, 56).unwrap_or(0));
        if size != Some(abi::PROGRAM_HEADER_BYTES) {
            return Err(TRUNCATED.to_string());
        }
        let end = first.checked_add(u64::from(count) * u64::from(abi::PROGRAM_HEADER_BYTES));
        let listed = end.and_then(|end| slice(file, first..end)).ok_or(TRUNCATED)?;
        let headers: Option<Vec<Header>> = listed
            .chunks_exact(usize::from(abi::PROGRAM_HEADER_BYTES))
            .map(|bytes| Header::of(bytes, file.len() as u64))
            .collect();
        let mut headers = headers.ok_or("a segment of it lies outside of the file")?;
        headers.retain(|header| header.kind != abi::PT_NULL);
        let segments: Vec<Header> =
            headers.iter().filter(|header| header.kind == abi::PT_LOAD).cloned().collect();
        check_segments(&segments, first..first + listed.len() as u64)?;
        let mut dynamic = headers.iter().filter(|header| header.kind == abi::PT_DYNAMIC);
        let (Some(dynamic), None) = (dynamic.next().cloned(), dynamic.next()) else {
            return Err("it has no dynamic section, or several".to_string());
        };
        let image = Self { file, machine, segments, dynamic };
        headers.iter().try_for_each(|header| image.check_header(header, first))?;
        if !headers.iter().any(|header| header.kind == abi::PT_GNU_STACK) {
            // Loaders then make stacks executable.
            return Err(EXECUTABLE_STACK.to_string());
        }
        Ok(image)
    }

    fn check_header(&self, header: &Header, headers_at: u64) -> Result<(), String> {
        let is_known = match header.kind {
            abi::PT_LOAD => true,
            abi::PT_GNU_STACK if header.flags & abi::PF_X != 0 => {
                return Err(EXECUTABLE_STACK.to_string());
            }
            abi::PT_GNU_STACK => true,
            // The loader takes the right to write from its pages.
            abi::PT_GNU_RELRO => {
                let (first, last) = (floor(header.addresses.start), floor(header.addresses.end));
                self.segments.iter().any(|segment| {
                    let pages = segment.pages();
                    segment.is_writable() && pages.start <= first && last <= pages.end
                })
            }
            abi::PT_PHDR => header.file.start == headers_at && self.lies_where_it_says(header),
            abi::PT_DYNAMIC => {
                let is_whole = header.file.end - header.file.start
                    == header.addresses.end - header.addresses.start;
                is_whole && self.lies_where_it_says(header)
            }
            abi::PT_NOTE
            | abi::PT_TLS
            | abi::PT_GNU_EH_FRAME
            | abi::PT_GNU_PROPERTY
            | abi::PT_GNU_SFRAME => self.lies_where_it_says(header),
            _ => false,
        };
        if is_known {
            return Ok(());
        }
        Err(format!(
            "it has a program header of type {:#x} that no linker writes this way",
            header.kind
        ))
    }

    /// Says whether the bytes at a header's addresses are those at its place in the file.
    fn lies_where_it_says(&self, header: &Header) -> bool {
        let bytes = header.file.end - header.file.start;
        bytes == 0
            || self.segment_with(header.addresses.start, bytes).is_some_and(|segment| {
                header.addresses.start - segment.addresses.start
                    == header.file.start.wrapping_sub(segment.file.start)
            })
    }

    /// Returns the segment that has so many bytes of the file at an address.
    fn segment_with(&self, address: u64, bytes: u64) -> Option<&Header> {
        let end = address.checked_add(bytes)?;
        self.segments.iter().find(|segment| {
            let from_file = segment.file.end - segment.file.start;
            segment.addresses.start <= address && end <= segment.addresses.start + from_file
        })
    }

    /// Returns bytes that are in memory what they are in the file, however the loader goes about it.
    pub(super) fn constant(&self, address: u64, bytes: u64) -> Result<&'a [u8], String> {
        let found = self.segment_with(address, bytes).filter(|segment| !segment.is_writable());
        let found = found.and_then(|segment| {
            let start = segment.file.start + (address - segment.addresses.start);
            slice(self.file, start..start + bytes)
        });
        found.ok_or_else(|| {
            format!(
                "a table of it, at {address:#x}, lies outside of the file or where it can be written; \
                 leave the linker's sections to the linker"
            )
        })
    }

    /// Returns a name out of a table of names.
    pub(super) fn name(&self, table: u64, offset: u64) -> Result<&'a str, String> {
        let start = table.checked_add(offset).ok_or("a name of it lies outside of the file")?;
        self.constant(start, 1)?;
        let segment = self.segment_with(start, 1).ok_or("a name of it lies outside of the file")?;
        let rest = segment.addresses.start + (segment.file.end - segment.file.start) - start;
        let bytes = self.constant(start, rest)?;
        let end = bytes.iter().position(|byte| *byte == 0).ok_or("a name in it has no end")?;
        std::str::from_utf8(&bytes[..end]).map_err(|_| "a name in it is no text".to_string())
    }

    /// Refuses a relocation that writes beyond what the file brings to be written, or to the tables that the
    /// loader goes by.
    pub(super) fn check_place(&self, address: u64, bytes: u64) -> Result<(), String> {
        let end = address.saturating_add(bytes);
        let own = |segment: &Header| {
            let addresses = &segment.addresses;
            segment.is_writable() && addresses.start <= address && end <= addresses.end
        };
        let dynamic = &self.dynamic.addresses;
        if self.segments.iter().any(own) && (end <= dynamic.start || dynamic.end <= address) {
            return Ok(());
        }
        Err(format!(
            "a relocation of it writes to {address:#x}, which is none of its variables; leave the \
             linker's sections to the linker"
        ))
    }

    /// Returns the entries of the dynamic section: place in the file, tag, value.
    pub(super) fn dynamic(&self) -> Result<Vec<(usize, u64, u64)>, String> {
        let mut entries = Vec::new();
        let Range { start, end } = self.dynamic.file.clone();
        for at in (start as usize..end as usize).step_by(abi::DYNAMIC_BYTES) {
            let (Some(tag), Some(value)) = (word(self.file, at), word(self.file, at + 8)) else {
                break;
            };
            if tag == abi::DT_NULL && at + abi::DYNAMIC_BYTES <= end as usize {
                return Ok(entries);
            }
            entries.push((at, tag, value));
        }
        Err("its dynamic section has no end".to_string())
    }
}

const EXECUTABLE_STACK: &str = "it asks for an executable stack, as functions inside of functions do whose \
                                address is taken; make them functions of the file";

/// Refuses segments that would lie over each other, or over other libraries: loaders put each where it says.
fn check_segments(segments: &[Header], headers: Range<u64>) -> Result<(), String> {
    let mut end = 0;
    for segment in segments {
        let page = page_bytes() as u64;
        if segment.flags & abi::PF_W != 0 && segment.flags & abi::PF_X != 0 {
            return Err("a segment of it is both writable and executable".to_string());
        }
        let is_aligned = (segment.alignment == 0 || segment.alignment.is_power_of_two())
            && segment.addresses.start % page == segment.file.start % page;
        let pages = segment.pages();
        if !is_aligned || pages.start < end {
            return Err("its segments are not in order, or not aligned".to_string());
        }
        end = pages.end;
    }
    let has_headers = |segment: &Header| {
        !segment.is_writable() && segment.file.start == 0 && headers.end <= segment.file.end
    };
    if !segments.first().is_some_and(has_headers) {
        return Err("its first segment does not hold its headers, for reading alone".to_string());
    }
    Ok(())
}

impl Header {
    /// Reads a header; none when it says more than a file of this size can have.
    fn of(bytes: &[u8], file_bytes: u64) -> Option<Self> {
        let number = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four"));
        let (offset, start) = (word(bytes, 8)?, word(bytes, 16)?);
        let (in_file, in_memory) = (word(bytes, 32)?, word(bytes, 40)?);
        let file = offset..offset.checked_add(in_file)?;
        let addresses = start..start.checked_add(in_memory)?;
        // The last page must have an end, too.
        addresses.end.checked_next_multiple_of(page_bytes() as u64)?;
        let is_stack = number(0) == abi::PT_GNU_STACK;
        if !is_stack && (in_memory < in_file || (in_file > 0 && file.end > file_bytes)) {
            return None;
        }
        let alignment = word(bytes, 48)?;
        Some(Self { kind: number(0), flags: number(4), addresses, file, alignment })
    }

    fn is_writable(&self) -> bool {
        self.flags & abi::PF_W != 0
    }

    fn pages(&self) -> Range<u64> {
        floor(self.addresses.start)..self.addresses.end.next_multiple_of(page_bytes() as u64)
    }
}

fn floor(address: u64) -> u64 {
    address - address % page_bytes() as u64
}

fn slice(bytes: &[u8], range: Range<u64>) -> Option<&[u8]> {
    bytes.get(usize::try_from(range.start).ok()?..usize::try_from(range.end).ok()?)
}

pub(super) fn word(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at.checked_add(8)?)?.try_into().ok()?))
}

pub(super) fn half(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(bytes.get(at..at.checked_add(2)?)?.try_into().ok()?))
}
