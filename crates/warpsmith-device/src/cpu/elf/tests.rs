//! A library as compilers make it is let through; the same with one thing changed is not.

use std::process::Command;

use super::*;

/// It has constructors, thread memory, names of its own, and functions of the C libraries that these choose
/// when they are bound.
const HONEST: &str = r#"
#include <math.h>
#include <stdlib.h>
#include <string.h>
static int variable;
static __thread int own = 3;
static int *const table[] = {&variable, &variable + 1};
static const char *const names[] = {"a", "b"};
__attribute__((visibility("default"))) __thread int *shared = &variable;
__attribute__((visibility("default"))) int twice(int a) { return a + a + own + *table[a]; }
__attribute__((constructor)) static void at_load(void) { variable = 1; }
__attribute__((destructor)) static void at_end(void) { variable = 2; }
__attribute__((visibility("default"))) void kernel(float *a, long n) {
    for (long i = 0; i < n; i++) a[i] = expf(a[i]) + sinf(a[i]) + twice(i) + names[i & 1][0];
    memcpy(a, a + n, n * sizeof *a);
    free(malloc(n + *shared++));
}
"#;

fn compile(compiler: &str, source: &str, flags: &[&str]) -> Option<Vec<u8>> {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("unit.c"), source).expect("written");
    let output = Command::new(compiler)
        .current_dir(folder.path())
        .args(["-shared", "-fPIC", "-O1", "-w"])
        .args(flags)
        .args(["-Wl,-z,defs", "-o", "unit.so", "unit.c", "-lm"])
        .output()
        .ok()?;
    // A warning means that the linker does not know a flag.
    let is_made = output.status.success() && output.stderr.is_empty();
    is_made.then(|| std::fs::read(folder.path().join("unit.so")).expect("it is there"))
}

fn honest() -> Vec<u8> {
    compile("cc", HONEST, &[]).expect("it compiles")
}

#[test]
fn what_compilers_make_is_let_through() {
    let mut n_tried = 0;
    for compiler in ["gcc", "clang"] {
        for flags in [
            &["-O0"][..],
            &["-O3", "-flto", "-fvisibility=hidden"],
            &["-ftls-model=initial-exec"],
            &["-mtls-dialect=gnu2"],
            &["-fuse-ld=gold"],
            &["-fuse-ld=lld"],
            &["-Wl,--hash-style=both", "-Wl,-z,now"],
            &["-Wl,-z,noseparate-code", "-Wl,-z,lazy"],
            &["-Wl,-z,pack-relative-relocs"],
        ] {
            let Some(mut file) = compile(compiler, HONEST, flags) else { continue };
            n_tried += 1;
            let deferred = defer_constructors(&mut file)
                .unwrap_or_else(|message| panic!("{compiler} {flags:?}: {message}"));
            assert!(deferred.table.is_some_and(|(_, count)| count >= 1), "{compiler} {flags:?}");
            assert!(deferred.libraries.iter().any(|name| name.starts_with("libc.")));
            let left: Vec<u64> = Image::of(&file)
                .expect("read")
                .dynamic()
                .expect("read")
                .iter()
                .map(|e| e.1)
                .collect();
            for tag in [abi::DT_INIT, abi::DT_INIT_ARRAY, abi::DT_FINI, abi::DT_FINI_ARRAY] {
                assert!(!left.contains(&tag), "{compiler} {flags:?}");
            }
        }
    }
    assert!(n_tried > 3, "{n_tried}");
}

#[test]
fn what_is_no_library_is_refused_in_words() {
    for mut bytes in [Vec::new(), vec![0; 10], vec![0x7f; 4096], b"\x7fELF\x02\x01".repeat(40)] {
        assert!(defer_constructors(&mut bytes).is_err());
    }
}

/// A file that is cut off somewhere is refused or let through, and nothing else.
#[test]
fn what_is_cut_off_is_no_reason_to_panic() {
    let file = honest();
    for length in (0..file.len()).step_by(7) {
        let _ = defer_constructors(&mut file[..length].to_vec());
    }
    for at in (0..file.len().min(4096)).step_by(3) {
        for byte in [0, 0x7f, 0xff] {
            let mut changed = file.clone();
            changed[at] = byte;
            let _ = defer_constructors(&mut changed);
        }
    }
}

/// Changes a library and compares what is then said of it.
fn check(change: impl Fn(&mut Vec<u8>), expected: &str) {
    let mut file = honest();
    change(&mut file);
    match defer_constructors(&mut file) {
        Ok(_) => panic!("it was let through, not refused with: {expected}"),
        Err(message) => assert!(message.contains(expected), "{message}, not: {expected}"),
    }
}

fn put(file: &mut [u8], at: usize, value: u64) {
    file[at..at + 8].copy_from_slice(&value.to_le_bytes());
}

fn at(file: &[u8], place: usize) -> u64 {
    image::word(file, place).expect("inside")
}

/// Returns where the dynamic section has a tag.
fn tag(file: &[u8], wanted: u64) -> usize {
    let entries = Image::of(file).expect("read").dynamic().expect("read");
    entries.iter().find(|entry| entry.1 == wanted).expect("it has one").0
}

/// Returns where a program header of a type is; of several, one by its number.
fn header(file: &[u8], kind: u32, number: usize) -> usize {
    let count = usize::from(image::half(file, 56).expect("inside"));
    let places = (0..count).map(|idx| at(file, 32) as usize + 56 * idx);
    let is_one = |place: &usize| at(file, *place) as u32 == kind;
    places.filter(is_one).nth(number).expect("it has one")
}

fn last_segment(file: &[u8]) -> usize {
    let is_segment =
        |idx: &usize| at(file, at(file, 32) as usize + 56 * idx) as u32 == abi::PT_LOAD;
    let count = usize::from(image::half(file, 56).expect("inside"));
    header(file, abi::PT_LOAD, (0..count).filter(is_segment).count() - 1)
}

/// Returns the place in the file of the first relocation. Linkers put those tables where addresses and places
/// in the file are the same.
fn relocation(file: &[u8]) -> usize {
    at(file, tag(file, abi::DT_RELA) + 8) as usize
}

#[test]
fn relocations_write_to_variables_alone() {
    let outside = "which is none of its variables";
    // To what the loader goes by.
    check(
        |file| {
            let dynamic = at(file, header(file, abi::PT_DYNAMIC, 0) + 16);
            let place = relocation(file);
            put(file, place, dynamic + 8);
        },
        outside,
    );
    check(
        |file| {
            let dynamic = at(file, header(file, abi::PT_DYNAMIC, 0) + 16);
            let place = relocation(file);
            put(file, place, dynamic - 4);
        },
        outside,
    );
    // To headers, to libraries before and behind, and past the end.
    for place in [0, 0x7000_0000, u64::MAX - 0x1000, u64::MAX - 3] {
        check(
            |file| {
                let at = relocation(file);
                put(file, at, place)
            },
            outside,
        );
    }
    check(
        |file| {
            let segment = last_segment(file);
            let end = at(file, segment + 16) + at(file, segment + 40);
            let place = relocation(file);
            put(file, place, end - 4);
        },
        outside,
    );
}

#[test]
fn relocations_are_of_known_types() {
    // COPY, SIZE64, RELATIVE64, PC64, and those of a linker to come.
    for kind in [5, 33, 38, 24, 77] {
        check(
            |file| {
                let at = relocation(file) + 8;
                put(file, at, kind)
            },
            "a relocation of type",
        );
    }
    check(
        |file| {
            let at = relocation(file) + 8;
            put(file, at, 37)
        },
        "indirect function",
    );
    check(
        |file| {
            let at = relocation(file) + 8;
            put(file, at, 9 << 56 | 6)
        },
        "a table of it",
    );
    check(
        |file| {
            let at = tag(file, abi::DT_RELASZ) + 8;
            put(file, at, 25)
        },
        "does not end",
    );
}

#[test]
fn symbols_that_stand_for_a_resolver_are_found_by_any_way() {
    let indirect = "indirect function";
    let symbol = |file: &[u8], idx: u64| {
        at(file, tag(file, abi::DT_SYMTAB) + 8) as usize + (idx * abi::SYMBOL_BYTES) as usize
    };
    // The last one is exported, and no relocation need refer to it.
    let exported = |file: &[u8]| {
        let names = at(file, tag(file, abi::DT_STRTAB) + 8);
        let first = at(file, tag(file, abi::DT_SYMTAB) + 8);
        symbol(file, (names - first) / abi::SYMBOL_BYTES - 1)
    };
    check(
        |file| {
            let at = exported(file) + 4;
            file[at] = 0x1a
        },
        indirect,
    );
    // A reference to another library's function that has a value of its own is found by name, too.
    check(
        |file| {
            let at = exported(file);
            file[at + 4] = 0x1a;
            file[at + 6..at + 8].fill(0);
            put(file, at + 8, 0x1000);
        },
        indirect,
    );
    // What a hash leads to need not be in the table.
    check(
        |file| {
            let table = at(file, tag(file, abi::DT_GNU_HASH) + 8) as usize;
            let n_filters = (at(file, table + 8) & 0xffff_ffff) as usize;
            let bucket = table + 16 + 8 * n_filters;
            file[bucket..bucket + 4].copy_from_slice(&0x00ff_ffffu32.to_le_bytes());
        },
        "a table of it",
    );
}

#[test]
fn tables_lie_where_nothing_writes() {
    for table in [
        abi::DT_SYMTAB,
        abi::DT_STRTAB,
        abi::DT_RELA,
        abi::DT_GNU_HASH,
        abi::DT_VERSYM,
        abi::DT_VERNEED,
    ] {
        check(
            |file| {
                let segment = last_segment(file);
                let data = at(file, segment + 16);
                let place = tag(file, table) + 8;
                put(file, place, data);
            },
            "or where it can be written",
        );
    }
    // The whole file may be writable, too.
    check(
        |file| {
            let at = header(file, abi::PT_LOAD, 0) + 4;
            file[at] = 6
        },
        "first segment",
    );
}

#[test]
fn tags_are_known_and_occur_once() {
    // DT_RPATH, DT_TEXTREL, DT_PREINIT_ARRAY, DT_RUNPATH, DT_AUDIT, DT_GNU_PRELINKED, DT_AUXILIARY, DT_REL.
    for unknown in [15, 22, 32, 29, 0x6fff_fefc, 0x6fff_fdf5, 0x7fff_fffd, 17, 1 << 40] {
        check(
            |file| {
                let at = tag(file, abi::DT_RELACOUNT);
                put(file, at, unknown)
            },
            "has the tag",
        );
    }
    check(
        |file| {
            let at = tag(file, abi::DT_RELACOUNT);
            put(file, at, abi::DT_INIT_ARRAYSZ)
        },
        "twice",
    );
    check(
        |file| {
            let at = tag(file, abi::DT_RELACOUNT);
            put(file, at, abi::DT_SYMTAB)
        },
        "twice",
    );
    // DF_TEXTREL, and DF_1_INITFIRST.
    for (tag_of, flags) in [(abi::DT_FLAGS, 4), (abi::DT_FLAGS_1, 0x20)] {
        check(
            |file| {
                let at = tag(file, abi::DT_RELACOUNT);
                put(file, at, tag_of);
                put(file, at + 8, flags);
            },
            "has the tag",
        );
    }
    check(
        |file| {
            let at = tag(file, abi::DT_SYMENT) + 8;
            put(file, at, 48)
        },
        "has the tag",
    );
    check(
        |file| {
            let dynamic = header(file, abi::PT_DYNAMIC, 0);
            put(file, dynamic + 32, 32);
            put(file, dynamic + 40, 32);
        },
        "has no end",
    );
}

#[test]
fn headers_say_where_things_are() {
    let placed = "no linker writes this way";
    // The dynamic section as the loader finds it, by its address, is not the one that was looked at.
    check(
        |file| {
            let at = header(file, abi::PT_DYNAMIC, 0) + 8;
            put(file, at, 0)
        },
        placed,
    );
    check(
        |file| {
            let at = header(file, abi::PT_TLS, 0) + 16;
            put(file, at, 1 << 40)
        },
        placed,
    );
    check(
        |file| {
            let at = header(file, abi::PT_GNU_RELRO, 0) + 16;
            put(file, at, 0)
        },
        placed,
    );
    check(
        |file| {
            let at = header(file, abi::PT_GNU_RELRO, 0) + 40;
            put(file, at, 1 << 30)
        },
        placed,
    );
    // PT_INTERP.
    check(
        |file| {
            let at = header(file, abi::PT_NOTE, 0);
            file[at] = 3
        },
        placed,
    );
    check(
        |file| {
            let at = header(file, abi::PT_TLS, 0);
            put(file, at + 40, 0)
        },
        "outside of the file",
    );
    check(
        |file| {
            let at = header(file, abi::PT_GNU_STACK, 0) + 4;
            file[at] = 7
        },
        "executable stack",
    );
    check(
        |file| {
            let at = header(file, abi::PT_GNU_STACK, 0);
            file[at..at + 4].fill(0)
        },
        "executable stack",
    );
    check(
        |file| {
            let at = header(file, abi::PT_NOTE, 0);
            file[at] = 2
        },
        "no dynamic section, or several",
    );
    check(|file| file[54] = 64, "incomplete");
}

#[test]
fn segments_lie_one_behind_the_other() {
    let order = "not in order";
    // Over what is loaded before it, where another library may be.
    check(
        |file| {
            let at = header(file, abi::PT_LOAD, 1) + 16;
            put(file, at, 0)
        },
        order,
    );
    check(
        |file| {
            let (first, last) = (header(file, abi::PT_LOAD, 0), last_segment(file));
            let (low, high) = (file[first..first + 56].to_vec(), file[last..last + 56].to_vec());
            file[first..first + 56].copy_from_slice(&high);
            file[last..last + 56].copy_from_slice(&low);
        },
        order,
    );
    check(
        |file| {
            let at = header(file, abi::PT_LOAD, 0) + 40;
            put(file, at, 1 << 20)
        },
        order,
    );
    check(
        |file| {
            let at = last_segment(file) + 16;
            let moved = u64::from_le_bytes(file[at..at + 8].try_into().expect("eight")) + 8;
            put(file, at, moved)
        },
        order,
    );
    check(
        |file| {
            let at = last_segment(file) + 4;
            file[at] = 7
        },
        "both writable and executable",
    );
    check(
        |file| {
            let at = last_segment(file);
            put(file, at + 32, 1 << 30);
            put(file, at + 40, 1 << 30)
        },
        "outside of the file",
    );
}

#[test]
fn libraries_are_known_by_their_plain_names() {
    for (name, is_fine) in [
        ("libc.so.6", true),
        ("libm.so.6", true),
        ("ld-linux-x86-64.so.2", true),
        ("libgomp.so.1", false),
        ("libc.so/../evil.so", false),
        ("$ORIGIN", false),
        ("libc.so$LIB", false),
        ("", false),
    ] {
        assert_eq!(library(name).is_ok(), is_fine, "{name}");
    }
}
