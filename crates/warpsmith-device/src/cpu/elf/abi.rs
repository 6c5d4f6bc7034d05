//! Numbers of the format, from the System V ABI and its supplements.

pub(super) const ET_DYN: u16 = 3;
pub(super) const EM_X86_64: u16 = 62;
pub(super) const EM_AARCH64: u16 = 183;

pub(super) const PT_NULL: u32 = 0;
pub(super) const PT_LOAD: u32 = 1;
pub(super) const PT_DYNAMIC: u32 = 2;
pub(super) const PT_NOTE: u32 = 4;
pub(super) const PT_PHDR: u32 = 6;
pub(super) const PT_TLS: u32 = 7;
pub(super) const PT_GNU_EH_FRAME: u32 = 0x6474_e550;
pub(super) const PT_GNU_STACK: u32 = 0x6474_e551;
pub(super) const PT_GNU_RELRO: u32 = 0x6474_e552;
pub(super) const PT_GNU_PROPERTY: u32 = 0x6474_e553;
pub(super) const PT_GNU_SFRAME: u32 = 0x6474_e554;
pub(super) const PF_X: u32 = 1;
pub(super) const PF_W: u32 = 2;

pub(super) const DT_NULL: u64 = 0;
pub(super) const DT_NEEDED: u64 = 1;
pub(super) const DT_PLTRELSZ: u64 = 2;
pub(super) const DT_PLTGOT: u64 = 3;
pub(super) const DT_HASH: u64 = 4;
pub(super) const DT_STRTAB: u64 = 5;
pub(super) const DT_SYMTAB: u64 = 6;
pub(super) const DT_RELA: u64 = 7;
pub(super) const DT_RELASZ: u64 = 8;
pub(super) const DT_RELAENT: u64 = 9;
pub(super) const DT_STRSZ: u64 = 10;
pub(super) const DT_SYMENT: u64 = 11;
pub(super) const DT_INIT: u64 = 12;
pub(super) const DT_FINI: u64 = 13;
pub(super) const DT_PLTREL: u64 = 20;
pub(super) const DT_DEBUG: u64 = 21;
pub(super) const DT_JMPREL: u64 = 23;
pub(super) const DT_BIND_NOW: u64 = 24;
pub(super) const DT_INIT_ARRAY: u64 = 25;
pub(super) const DT_FINI_ARRAY: u64 = 26;
pub(super) const DT_INIT_ARRAYSZ: u64 = 27;
pub(super) const DT_FINI_ARRAYSZ: u64 = 28;
pub(super) const DT_FLAGS: u64 = 30;
pub(super) const DT_RELRSZ: u64 = 35;
pub(super) const DT_RELR: u64 = 36;
pub(super) const DT_RELRENT: u64 = 37;
pub(super) const DT_GNU_HASH: u64 = 0x6fff_fef5;
pub(super) const DT_TLSDESC_PLT: u64 = 0x6fff_fef6;
pub(super) const DT_TLSDESC_GOT: u64 = 0x6fff_fef7;
pub(super) const DT_VERSYM: u64 = 0x6fff_fff0;
pub(super) const DT_RELACOUNT: u64 = 0x6fff_fff9;
pub(super) const DT_FLAGS_1: u64 = 0x6fff_fffb;
pub(super) const DT_VERDEF: u64 = 0x6fff_fffc;
pub(super) const DT_VERDEFNUM: u64 = 0x6fff_fffd;
pub(super) const DT_VERNEED: u64 = 0x6fff_fffe;
pub(super) const DT_VERNEEDNUM: u64 = 0x6fff_ffff;
/// Where PLTs are, and how they were made: for lazy binding, on both machines.
pub(super) const PROCESSOR_TAGS: std::ops::RangeInclusive<u64> = 0x7000_0000..=0x7000_0005;

pub(super) const DF_SYMBOLIC: u64 = 2;
pub(super) const DF_BIND_NOW: u64 = 8;
pub(super) const DF_STATIC_TLS: u64 = 16;
pub(super) const DF_1_NOW: u64 = 1;

pub(super) const STT_GNU_IFUNC: u8 = 10;

pub(super) const DYNAMIC_BYTES: usize = 16;
pub(super) const SYMBOL_BYTES: u64 = 24;
pub(super) const RELA_BYTES: u64 = 24;
pub(super) const PROGRAM_HEADER_BYTES: u16 = 56;
pub(super) const FILE_HEADER_BYTES: usize = 64;

/// What a relocation of a kind writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Written {
    Nothing,
    Bytes(u64),
    /// What code of the file returns.
    Resolved,
}

/// Returns what a relocation writes; none for kinds that linkers have no need of in a library.
pub(super) fn written(machine: u16, kind: u32) -> Option<Written> {
    let written = match (machine, kind) {
        (_, 0) => Written::Nothing,
        // 64, GLOB_DAT, JUMP_SLOT, RELATIVE, DTPMOD64, DTPOFF64, TPOFF64; TLSDESC; IRELATIVE.
        (EM_X86_64, 1 | 6 | 7 | 8 | 16 | 17 | 18) => Written::Bytes(8),
        (EM_X86_64, 36) => Written::Bytes(16),
        (EM_X86_64, 37) => Written::Resolved,
        // ABS64, GLOB_DAT, JUMP_SLOT, RELATIVE, TLS_DTPMOD, TLS_DTPREL, TLS_TPREL; TLSDESC; IRELATIVE.
        (EM_AARCH64, 257 | 1025..=1030) => Written::Bytes(8),
        (EM_AARCH64, 1031) => Written::Bytes(16),
        (EM_AARCH64, 1032) => Written::Resolved,
        _ => return None,
    };
    Some(written)
}
