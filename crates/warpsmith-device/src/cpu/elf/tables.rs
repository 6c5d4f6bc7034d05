//! What the loader does by a library's tables: which relocations it makes and which symbols it may come to.
//!
//! Everything that it reads for that must lie where no relocation can change it. What is looked at here is
//! then what the loader finds.

use std::collections::BTreeMap;

use super::abi::{self, Written};
use super::image::{Image, half, word};

/// The values of tags, each of which occurs once.
pub(super) type Tags = BTreeMap<u64, u64>;

const INDIRECT: &str = "it has an indirect function, whose resolver would run while it is loaded; choose the \
                        variant when compiling, by a tunable";

/// Refuses relocations that write elsewhere than to the library's variables or that need code of it, and
/// symbols that stand for what such code returns.
pub(super) fn check(image: &Image<'_>, tags: &Tags) -> Result<(), String> {
    if let (Some(names), Some(bytes)) = (tags.get(&abi::DT_STRTAB), tags.get(&abi::DT_STRSZ)) {
        image.constant(*names, *bytes)?;
    }
    for tag in [abi::DT_VERNEED, abi::DT_VERDEF] {
        tags.get(&tag).map_or(Ok(&[][..]), |address| image.constant(*address, 16))?;
    }
    let symbols = Symbols {
        image,
        table: tags.get(&abi::DT_SYMTAB).copied(),
        versions: tags.get(&abi::DT_VERSYM).copied(),
    };
    for (table, size) in [(abi::DT_RELA, abi::DT_RELASZ), (abi::DT_JMPREL, abi::DT_PLTRELSZ)] {
        check_relocations(image, &symbols, table_of(image, tags, table, size, abi::RELA_BYTES)?)?;
    }
    check_packed(image, table_of(image, tags, abi::DT_RELR, abi::DT_RELRSZ, 8)?)?;
    // By name the loader finds only what is in its tables of hashes.
    tags.get(&abi::DT_HASH).map_or(Ok(()), |at| symbols.check_hashed(*at))?;
    tags.get(&abi::DT_GNU_HASH).map_or(Ok(()), |at| symbols.check_gnu_hashed(*at))
}

/// Returns the bytes of a table of entries.
fn table_of<'a>(
    image: &Image<'a>,
    tags: &Tags,
    table: u64,
    size: u64,
    entry_bytes: u64,
) -> Result<&'a [u8], String> {
    let Some(address) = tags.get(&table).copied() else { return Ok(&[]) };
    let bytes = tags.get(&size).copied().ok_or("a table of it has no size")?;
    if bytes % entry_bytes != 0 {
        return Err("a table of it does not end with an entry".to_string());
    }
    if bytes == 0 { Ok(&[]) } else { image.constant(address, bytes) }
}

fn check_relocations(image: &Image<'_>, symbols: &Symbols<'_>, table: &[u8]) -> Result<(), String> {
    for entry in table.chunks_exact(abi::RELA_BYTES as usize) {
        let (Some(place), Some(info)) = (word(entry, 0), word(entry, 8)) else { break };
        let (kind, symbol) = (info as u32, info >> 32);
        match abi::written(image.machine, kind) {
            Some(Written::Nothing) => {}
            Some(Written::Bytes(bytes)) => image.check_place(place, bytes)?,
            Some(Written::Resolved) => return Err(INDIRECT.to_string()),
            None => {
                return Err(format!(
                    "it has a relocation of type {kind}, which kernels do not need; leave the linker's \
                     sections to the linker"
                ));
            }
        }
        if symbol != 0 {
            symbols.check(symbol)?;
        }
    }
    Ok(())
}

/// Looks at relocations that only add the image's address: an even word is a place, an odd one a map of the
/// 63 words behind the last place.
fn check_packed(image: &Image<'_>, table: &[u8]) -> Result<(), String> {
    let mut next = 0u64;
    for entry in table.chunks_exact(8).filter_map(|entry| word(entry, 0)) {
        if entry & 1 == 0 {
            image.check_place(entry, 8)?;
            next = entry + 8;
        } else {
            for bit in (1..64).filter(|bit| entry >> bit & 1 == 1) {
                image.check_place(next.saturating_add(8 * (bit - 1)), 8)?;
            }
            next = next.saturating_add(8 * 63);
        }
    }
    Ok(())
}

/// The symbols that the loader may come to.
struct Symbols<'a> {
    image: &'a Image<'a>,
    table: Option<u64>,
    versions: Option<u64>,
}

impl Symbols<'_> {
    fn check(&self, idx: u64) -> Result<(), String> {
        let missing = "it refers to a symbol that it does not have";
        let at = |table: u64, bytes: u64| {
            let address = idx.checked_mul(bytes).and_then(|offset| table.checked_add(offset));
            self.image.constant(address.ok_or(missing)?, bytes)
        };
        if let Some(versions) = self.versions {
            at(versions, 2)?;
        }
        let symbol = at(self.table.ok_or(missing)?, abi::SYMBOL_BYTES)?;
        // One of another library has neither a section nor a value here.
        let is_own = half(symbol, 6) != Some(0) || word(symbol, 8) != Some(0);
        if symbol[4] & 0xf == abi::STT_GNU_IFUNC && is_own {
            return Err(INDIRECT.to_string());
        }
        Ok(())
    }

    /// Looks at the symbols of a table as the System V ABI has it: it names each of them.
    fn check_hashed(&self, table: u64) -> Result<(), String> {
        let counts = self.numbers(table, 2)?;
        let (n_buckets, n_symbols) = (counts[0], counts[1]);
        let links = self.numbers(after(table, 8)?, u64::from(n_buckets) + u64::from(n_symbols))?;
        if links.iter().any(|symbol| *symbol >= n_symbols.max(1)) {
            return Err("its table of hashes names symbols that it does not have".to_string());
        }
        (1..u64::from(n_symbols)).try_for_each(|symbol| self.check(symbol))
    }

    /// Looks at the symbols of a table as GNU linkers write it: sorted by bucket, from the first that is
    /// listed; the last of each bucket has an odd hash.
    fn check_gnu_hashed(&self, table: u64) -> Result<(), String> {
        let head = self.numbers(table, 4)?;
        let (n_buckets, first, n_filters) = (head[0], head[1], head[2]);
        let filters = after(table, 16)?;
        self.image.constant(filters, 8 * u64::from(n_filters))?;
        let at_buckets = after(filters, 8 * u64::from(n_filters))?;
        let buckets = self.numbers(at_buckets, u64::from(n_buckets))?;
        let hashes = after(at_buckets, 4 * u64::from(n_buckets))?;
        let used = || buckets.iter().copied().filter(|bucket| *bucket != 0);
        let (Some(least), Some(most)) = (used().min(), used().max()) else { return Ok(()) };
        if least < first {
            return Err("its table of hashes names symbols that it does not list".to_string());
        }
        let mut symbol = u64::from(least);
        loop {
            self.check(symbol)?;
            let hash = self.numbers(after(hashes, 4 * (symbol - u64::from(first)))?, 1)?[0];
            if symbol >= u64::from(most) && hash & 1 == 1 {
                return Ok(());
            }
            symbol += 1;
        }
    }

    /// Returns numbers of 32 bits out of a table.
    fn numbers(&self, address: u64, count: u64) -> Result<Vec<u32>, String> {
        let bytes = self.image.constant(address, 4 * count)?;
        let number = |four: &[u8]| u32::from_le_bytes(four.try_into().expect("four"));
        Ok(bytes.chunks_exact(4).map(number).collect())
    }
}

fn after(address: u64, bytes: u64) -> Result<u64, String> {
    address.checked_add(bytes).ok_or_else(|| "a table of it lies outside of the file".to_string())
}
