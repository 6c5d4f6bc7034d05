//! What the loader would run of an artifact before anybody launches it, and how that is put off.
//!
//! Loading takes rights that a candidate must never have: mapping executable memory, opening files. But
//! the loader also runs code of what it loads: constructors, and the resolvers of indirect functions. So
//! the constructors are taken out of the tables that the loader reads, and the runner calls them itself
//! once those rights are gone. Resolvers run in the middle of loading and cannot be put off; an artifact
//! that has some is refused. So is one that needs libraries beyond the compiler's own, whose constructors
//! could call functions that the artifact defines.
//!
//! None of it may come about by another way. A kernel's assembly can put what it likes into the sections that
//! linkers make such tables of, so nothing in a file is taken for a linker's: a file is let through if it says
//! nothing to the loader but what is known here ([`entry`], [`abi::written`]), if what the loader goes by lies
//! where nothing writes ([`Image::constant`]), and if its relocations write to its own variables alone
//! ([`Image::check_place`]).

mod abi;
mod image;
mod tables;

use serde::{Deserialize, Serialize};

use image::Image;
use tables::Tags;

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

/// Takes the constructors out of the tables that the loader reads; returns what they are. An error says in
/// words what an artifact may not have.
pub(crate) fn defer_constructors(file: &mut [u8]) -> Result<Deferred, String> {
    let (deferred, taken) = read(file)?;
    for at in taken {
        // A tag that loaders ignore in a library.
        file[at..at + 8].copy_from_slice(&abi::DT_DEBUG.to_le_bytes());
        file[at + 8..at + 16].fill(0);
    }
    Ok(deferred)
}

/// What becomes of an entry of the dynamic section.
enum Entry {
    /// The loader gets it; there is one with this tag.
    Kept,
    Library,
    /// The loader must not see it, or has no use for it where all symbols are bound at once.
    Taken,
}

fn entry(tag: u64) -> Option<Entry> {
    match tag {
        abi::DT_NEEDED => Some(Entry::Library),
        abi::DT_INIT | abi::DT_INIT_ARRAY | abi::DT_INIT_ARRAYSZ => Some(Entry::Taken),
        abi::DT_FINI | abi::DT_FINI_ARRAY | abi::DT_FINI_ARRAYSZ => Some(Entry::Taken),
        abi::DT_DEBUG | abi::DT_PLTGOT | abi::DT_TLSDESC_PLT | abi::DT_TLSDESC_GOT => {
            Some(Entry::Taken)
        }
        tag if abi::PROCESSOR_TAGS.contains(&tag) => Some(Entry::Taken),
        abi::DT_HASH | abi::DT_GNU_HASH => Some(Entry::Kept),
        abi::DT_STRTAB | abi::DT_STRSZ | abi::DT_SYMTAB | abi::DT_SYMENT => Some(Entry::Kept),
        abi::DT_RELA | abi::DT_RELASZ | abi::DT_RELAENT | abi::DT_RELACOUNT => Some(Entry::Kept),
        abi::DT_JMPREL | abi::DT_PLTRELSZ | abi::DT_PLTREL => Some(Entry::Kept),
        abi::DT_RELR | abi::DT_RELRSZ | abi::DT_RELRENT => Some(Entry::Kept),
        abi::DT_VERSYM | abi::DT_VERNEED | abi::DT_VERNEEDNUM => Some(Entry::Kept),
        abi::DT_VERDEF | abi::DT_VERDEFNUM => Some(Entry::Kept),
        abi::DT_BIND_NOW | abi::DT_FLAGS | abi::DT_FLAGS_1 => Some(Entry::Kept),
        _ => None,
    }
}

/// Says whether a tag that must have a certain value has it.
fn is_as_it_must_be(tag: u64, value: u64) -> bool {
    let flags = abi::DF_SYMBOLIC | abi::DF_BIND_NOW | abi::DF_STATIC_TLS;
    match tag {
        abi::DT_SYMENT => value == abi::SYMBOL_BYTES,
        abi::DT_RELAENT => value == abi::RELA_BYTES,
        abi::DT_RELRENT => value == 8,
        abi::DT_PLTREL => value == abi::DT_RELA,
        abi::DT_FLAGS => value & !flags == 0,
        abi::DT_FLAGS_1 => value & !abi::DF_1_NOW == 0,
        _ => true,
    }
}

/// Returns what is put off, and the entries of the dynamic section that the loader must not see.
fn read(file: &[u8]) -> Result<(Deferred, Vec<usize>), String> {
    let image = Image::of(file)?;
    let (mut tags, mut taken, mut needed) = (Tags::new(), Vec::new(), Vec::new());
    for (at, tag, value) in image.dynamic()? {
        let what = entry(tag).filter(|_| is_as_it_must_be(tag, value)).ok_or_else(|| {
            format!(
                "its dynamic section has the tag {tag:#x} ({value:#x}), which kernels do not need"
            )
        })?;
        if matches!(what, Entry::Library) {
            needed.push(value);
            continue;
        }
        // Of two with the same tag loaders take one or the other.
        if tags.insert(tag, value).is_some() {
            return Err(format!("its dynamic section has the tag {tag:#x} twice"));
        }
        if matches!(what, Entry::Taken) {
            taken.push(at);
        }
    }
    tables::check(&image, &tags)?;
    let names = tags.get(&abi::DT_STRTAB).copied().ok_or("it has no table of names")?;
    let libraries: Result<Vec<String>, String> =
        needed.into_iter().map(|offset| library(image.name(names, offset)?)).collect();
    let count = tags.get(&abi::DT_INIT_ARRAYSZ).map_or(0, |bytes| bytes / 8);
    let table = tags.get(&abi::DT_INIT_ARRAY).map(|at| (*at, count)).filter(|_| count > 0);
    let init = tags.get(&abi::DT_INIT).copied();
    Ok((Deferred { init, table, libraries: libraries? }, taken))
}

/// Returns the name of a library that artifacts may need.
fn library(name: &str) -> Result<String, String> {
    // A name with a slash would be a path.
    let is_name = name.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c));
    if is_name && KNOWN_LIBRARIES.iter().any(|known| name.starts_with(known)) {
        return Ok(name.to_string());
    }
    Err(format!("it needs {name}; kernels may use the C library and the compiler's own alone"))
}

#[cfg(test)]
mod tests;
