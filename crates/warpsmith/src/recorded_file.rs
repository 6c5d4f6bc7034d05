//! Reading the files of other tuners: plain or compressed, and of a bounded size.

use std::io::Read;
use std::path::Path;

use anyhow::{Context, Result, bail};
use flate2::read::MultiGzDecoder;

/// The most bytes that are read, after decompression. The recorded spaces that are published have up
/// to a few hundred megabytes.
const MAX_BYTES: u64 = 1 << 30;

/// A few kilobytes can decompress to gigabytes. Recorded spaces shrink by 10 to 40 times; what shrank
/// by more than this is no recorded space, and is refused before it fills the memory.
const MAX_EXPANSION: u64 = 200;

/// Below this size nobody minds.
const HARMLESS_BYTES: u64 = 64 << 20;

/// What a file that gzip wrote begins with.
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

/// Reads a file, decompressing it when it is compressed.
pub fn read(path: &Path) -> Result<Vec<u8>> {
    let context = || format!("cannot read {}", path.display());
    let mut file = std::fs::File::open(path).with_context(context)?;
    let metadata = file.metadata().with_context(context)?;
    if metadata.is_dir() {
        bail!("cannot read {}: it is a folder", path.display());
    }
    let mut magic = Vec::new();
    Read::by_ref(&mut file).take(2).read_to_end(&mut magic).with_context(context)?;
    let is_compressed = magic == GZIP_MAGIC;
    let whole = std::io::Cursor::new(magic).chain(file);
    let mut bytes = Vec::new();
    let reader: Box<dyn Read> =
        if is_compressed { Box::new(MultiGzDecoder::new(whole)) } else { Box::new(whole) };
    let limit = match is_compressed {
        true => MAX_BYTES.min(HARMLESS_BYTES.max(MAX_EXPANSION * metadata.len())),
        false => MAX_BYTES,
    };
    reader.take(limit + 1).read_to_end(&mut bytes).with_context(context)?;
    if bytes.len() as u64 > limit {
        let megabytes = limit >> 20;
        let what = if is_compressed { "decompresses to" } else { "has" };
        bail!(
            "{} {what} more than {megabytes} MiB, which no space or recorded space does",
            path.display()
        );
    }
    Ok(bytes)
}

/// Returns the name of a file without folders and without the endings of its format.
pub fn stem(path: &Path) -> String {
    let name = path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into());
    let name = name.strip_suffix(".gz").unwrap_or(&name);
    name.strip_suffix(".json").unwrap_or(name).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endings_and_folders_are_left_out_of_names() {
        for (path, expected) in
            [("a/b_A100.json.gz", "b_A100"), ("c.json", "c"), ("d", "d"), ("e.gz", "e")]
        {
            assert_eq!(stem(Path::new(path)), expected);
        }
    }
}
