//! What the loader would run of an artifact before anybody launches it, and how that is put off.
//!
//! Loading takes rights that a candidate must never have: mapping executable memory, opening files. But
//! the loader also runs code of what it loads: constructors, and the resolvers of indirect functions. So
//! the constructors are taken out of the tables that the loader reads, and the runner calls them itself
//! once those rights are gone. Resolvers run in the middle of loading and cannot be put off; an artifact
//! that has some is refused. So is one that needs libraries beyond the compiler's own, whose constructors
//! could call functions that the artifact defines.

use std::ops::Range;

use serde::{Deserialize, Serialize};

/// What an artifact's constructors are, and what it needs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Deferred {
    /// The address of a function that comes first, from where the artifact is loaded.
    pub(crate) init: Option<u64>,
    /// Where the table of the others lies, and how many it has.
    pub(crate) table: Option<(u64, u64)>,
    /// The libraries that it needs, by the names that the loader knows.
    pub(crate) libraries: Vec<String>,
}

/// Libraries that artifacts may need: the C library and those of the compilers.
const KNOWN_LIBRARIES: [&str; 10] = [
    "libc.so",
    "libm.so",
    "libmvec.so",
    "libgcc_s.so",
    "libpthread.so",
    "libatomic.so",
    "libquadmath.so",
    "ld-linux",
    "libc.musl",
    "ld-musl",
];

/// Numbers of the format, from the System V ABI and its supplements.
mod abi {
    pub(super) const PT_LOAD: u32 = 1;
    pub(super) const PT_DYNAMIC: u32 = 2;
    pub(super) const DT_NULL: u64 = 0;
    pub(super) const DT_NEEDED: u64 = 1;
    pub(super) const DT_STRTAB: u64 = 5;
    pub(super) const DT_SYMTAB: u64 = 6;
    pub(super) const DT_RELA: u64 = 7;
    pub(super) const DT_RELASZ: u64 = 8;
    pub(super) const DT_INIT: u64 = 12;
    pub(super) const DT_RPATH: u64 = 15;
    pub(super) const DT_REL: u64 = 17;
    pub(super) const DT_PLTRELSZ: u64 = 2;
    pub(super) const DT_PLTREL: u64 = 20;
    pub(super) const DT_DEBUG: u64 = 21;
    pub(super) const DT_JMPREL: u64 = 23;
    pub(super) const DT_INIT_ARRAY: u64 = 25;
    pub(super) const DT_INIT_ARRAYSZ: u64 = 27;
    pub(super) const DT_RUNPATH: u64 = 29;
    pub(super) const DT_PREINIT_ARRAYSZ: u64 = 33;
    pub(super) const DT_AUDIT: u64 = 0x6fff_fefc;
    pub(super) const DT_DEPAUDIT: u64 = 0x6fff_fefb;
    pub(super) const DT_AUXILIARY: u64 = 0x7fff_fffd;
    pub(super) const DT_FILTER: u64 = 0x7fff_ffff;
    pub(super) const STT_GNU_IFUNC: u8 = 10;
    pub(super) const IRELATIVE: [u32; 2] = [37, 1032];
    pub(super) const DYNAMIC_BYTES: usize = 16;
    pub(super) const SYMBOL_BYTES: usize = 24;
    pub(super) const RELA_BYTES: usize = 24;
    pub(super) const PROGRAM_HEADER_BYTES: usize = 56;
    pub(super) const FILE_HEADER_BYTES: usize = 64;
}

/// Takes the constructors out of the tables that the loader reads; returns what they are. An error says in
/// words what an artifact may not have.
pub(crate) fn defer_constructors(file: &mut [u8]) -> Result<Deferred, String> {
    let image = Image::of(file).ok_or("it is no 64-bit ELF file with a dynamic section")?;
    let mut deferred = Deferred::default();
    let mut table = (None, None);
    let mut edits: Vec<(usize, u64, u64)> = Vec::new();
    for (at, tag, value) in image.dynamic(file) {
        match tag {
            abi::DT_INIT => {
                deferred.init = Some(value);
                // A tag that loaders ignore in a library.
                edits.push((at, abi::DT_DEBUG, 0));
            }
            abi::DT_INIT_ARRAY => table.0 = Some(value),
            abi::DT_INIT_ARRAYSZ => {
                table.1 = Some(value / 8);
                edits.push((at, abi::DT_INIT_ARRAYSZ, 0));
            }
            abi::DT_NEEDED => {
                let name = image.name(file, value).ok_or("a name in it has no end")?;
                if !KNOWN_LIBRARIES.iter().any(|known| name.starts_with(known)) {
                    return Err(format!(
                        "it needs {name}; kernels may use the C library and the compiler's own alone"
                    ));
                }
                deferred.libraries.push(name);
            }
            abi::DT_PREINIT_ARRAYSZ
            | abi::DT_RPATH
            | abi::DT_RUNPATH
            | abi::DT_AUDIT
            | abi::DT_DEPAUDIT
            | abi::DT_AUXILIARY
            | abi::DT_FILTER
            | abi::DT_REL => {
                return Err(format!(
                    "its dynamic section has the tag {tag:#x}, which kernels do not need"
                ));
            }
            abi::DT_PLTREL if value != abi::DT_RELA => {
                return Err("it has relocations of another kind than its machine's".to_string());
            }
            _ => {}
        }
    }
    if let (Some(at), Some(count @ 1..)) = table {
        deferred.table = Some((at, count));
    }
    if image.has_resolvers(file).ok_or("a table in it lies outside of the file")? {
        return Err(
            "it has an indirect function, whose resolver would run while it is loaded; choose the \
             variant when compiling, by a tunable"
                .to_string(),
        );
    }
    for (at, tag, value) in edits {
        file[at..at + 8].copy_from_slice(&tag.to_le_bytes());
        file[at + 8..at + 16].copy_from_slice(&value.to_le_bytes());
    }
    Ok(deferred)
}

/// Where things lie in a file.
struct Image {
    /// Addresses, and where their bytes begin in the file.
    loaded: Vec<(Range<u64>, u64)>,
    /// Of the dynamic section, in the file.
    dynamic: Range<usize>,
}

impl Image {
    fn of(file: &[u8]) -> Option<Self> {
        let is_elf64 = file.len() >= abi::FILE_HEADER_BYTES && file[..6] == *b"\x7fELF\x02\x01";
        if !is_elf64 {
            return None;
        }
        let first = word(file, 32)? as usize;
        let size = usize::from(half(file, 54)?);
        let count = usize::from(half(file, 56)?);
        if size < abi::PROGRAM_HEADER_BYTES {
            return None;
        }
        let (mut loaded, mut dynamic) = (Vec::new(), None);
        for idx in 0..count {
            let at = first.checked_add(idx.checked_mul(size)?)?;
            let kind = u32::from_le_bytes(file.get(at..at.checked_add(4)?)?.try_into().ok()?);
            let offset = word(file, at.checked_add(8)?)?;
            let address = word(file, at.checked_add(16)?)?;
            let bytes = word(file, at.checked_add(32)?)?;
            match kind {
                abi::PT_LOAD => loaded.push((address..address.checked_add(bytes)?, offset)),
                abi::PT_DYNAMIC => {
                    let end = offset.checked_add(bytes)? as usize;
                    if dynamic.replace(offset as usize..end).is_some() || end > file.len() {
                        return None;
                    }
                }
                _ => {}
            }
        }
        Some(Self { loaded, dynamic: dynamic? })
    }

    /// Returns the entries of the dynamic section: place in the file, tag, value.
    fn dynamic(&self, file: &[u8]) -> Vec<(usize, u64, u64)> {
        self.dynamic
            .clone()
            .step_by(abi::DYNAMIC_BYTES)
            .map_while(|at| Some((at, word(file, at)?, word(file, at + 8)?)))
            .take_while(|(_, tag, _)| *tag != abi::DT_NULL)
            .collect()
    }

    fn value(&self, file: &[u8], wanted: u64) -> Option<u64> {
        self.dynamic(file).into_iter().find(|(_, tag, _)| *tag == wanted).map(|found| found.2)
    }

    /// Returns where an address lies in the file.
    fn place(&self, address: u64) -> Option<usize> {
        let (range, offset) = self.loaded.iter().find(|(range, _)| range.contains(&address))?;
        usize::try_from(offset.checked_add(address - range.start)?).ok()
    }

    fn name(&self, file: &[u8], offset: u64) -> Option<String> {
        let names = self.value(file, abi::DT_STRTAB)?;
        let bytes = file.get(self.place(names.checked_add(offset)?)?..)?;
        let end = bytes.iter().position(|byte| *byte == 0)?;
        Some(String::from_utf8_lossy(&bytes[..end]).into_owned())
    }

    /// Says whether a relocation, or a symbol that one refers to, is resolved by code of the file.
    fn has_resolvers(&self, file: &[u8]) -> Option<bool> {
        let symbols = self.value(file, abi::DT_SYMTAB);
        for (table, size) in [(abi::DT_RELA, abi::DT_RELASZ), (abi::DT_JMPREL, abi::DT_PLTRELSZ)] {
            let Some(address) = self.value(file, table) else { continue };
            let bytes = usize::try_from(self.value(file, size)?).ok()?;
            if bytes == 0 {
                continue;
            }
            let start = self.place(address)?;
            let relocations = file.get(start..start.checked_add(bytes)?)?;
            for relocation in relocations.chunks_exact(abi::RELA_BYTES) {
                let info = word(relocation, 8)?;
                if abi::IRELATIVE.contains(&(info as u32)) {
                    return Some(true);
                }
                let symbol = info >> 32;
                if symbol != 0 && self.is_indirect(file, symbols?, symbol)? {
                    return Some(true);
                }
            }
        }
        // The shims are looked up by name, through no relocation. They are the harness's own, but a file
        // defines what it likes: every symbol that is listed counts.
        let Some(symbols) = symbols else { return Some(false) };
        let names = self.value(file, abi::DT_STRTAB)?;
        // Linkers put the names right after the symbols; nothing else says how many there are.
        let count = names.checked_sub(symbols).map_or(0, |bytes| bytes / abi::SYMBOL_BYTES as u64);
        for symbol in 1..count {
            if self.is_indirect(file, symbols, symbol)? {
                return Some(true);
            }
        }
        Some(false)
    }

    fn is_indirect(&self, file: &[u8], symbols: u64, symbol: u64) -> Option<bool> {
        let address = symbols.checked_add(symbol.checked_mul(abi::SYMBOL_BYTES as u64)?)?;
        let at = self.place(address)?;
        let (info, section) = (*file.get(at + 4)?, half(file, at + 6)?);
        Some(info & 0xf == abi::STT_GNU_IFUNC && section != 0)
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at.checked_add(8)?)?.try_into().ok()?))
}

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(bytes.get(at..at.checked_add(2)?)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_elf_file_is_refused_in_words() {
        for mut bytes in [Vec::new(), vec![0; 10], vec![0x7f; 4096], b"\x7fELF\x02\x01".repeat(40)]
        {
            assert!(defer_constructors(&mut bytes).is_err());
        }
    }
}
