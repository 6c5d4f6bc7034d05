//! Answers on disk, by the hash of everything that they depend on.
//!
//! A file is: a magic line, three numbers, the kinds and lengths of the outputs, their elements, and
//! the BLAKE3 hash of all of it. A file that does not hash to its own end, or does not fit the
//! tensors, is as good as absent and is written anew. Files appear by renaming, so a reader never
//! sees half of one.

use std::fs;
use std::path::PathBuf;
use std::time::SystemTime;

use warpsmith_device::cpu::make_private;
use warpsmith_device::target::TensorPlan;
use warpsmith_device::{parallel, trace};

use crate::check::Values;
use crate::error::GateError;

const MAGIC: &[u8; 16] = b"warpsmith-exp-1\n";
const HASH_BYTES: usize = 32;
/// Above this the oldest answers go, until [`KEPT_BYTES`] are left.
const MOST_BYTES: u64 = 4 << 30;
const KEPT_BYTES: u64 = 3 << 30;

/// An answer as it is stored.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Stored {
    pub(super) answer_s: f64,
    pub(super) sampled_blocks: u64,
    /// One per output tensor.
    pub(super) values: Vec<Values>,
}

/// A folder of answers.
#[derive(Debug)]
pub(super) struct Store {
    dir: PathBuf,
}

impl Store {
    pub(super) fn open(dir: PathBuf) -> Result<Self, GateError> {
        let store = Self { dir };
        make_private(&store.dir)
            .and_then(|()| store.prune(MOST_BYTES, KEPT_BYTES))
            .map_err(|source| GateError::Cache { path: store.dir.clone(), source })?;
        Ok(store)
    }

    /// Returns the answer of this name if there is a sound one for these outputs.
    pub(super) fn load(&self, name: &str, outputs: &[TensorPlan]) -> Option<Stored> {
        let bytes = fs::read(self.path(name)).ok()?;
        decode(&bytes, outputs)
    }

    pub(super) fn save(&self, name: &str, stored: &Stored) -> Result<(), GateError> {
        let _step = trace::step("saving an answer");
        let path = self.path(name);
        let temporary = self.dir.join(format!("{name}.{}.tmp", std::process::id()));
        let written =
            fs::write(&temporary, encode(stored)).and_then(|()| fs::rename(&temporary, &path));
        written.map_err(|source| {
            // What was written of it takes the room that there is too little of.
            let _gone = fs::remove_file(&temporary);
            GateError::Cache { path, source }
        })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.join(format!("{name}.bin"))
    }

    /// Removes the oldest answers where all of them have more than `most` bytes, until `kept` bytes are left.
    /// Other files are none of its business: whoever names a folder of theirs as the work folder may keep
    /// things there.
    fn prune(&self, most: u64, kept: u64) -> std::io::Result<()> {
        let mut files: Vec<(SystemTime, u64, PathBuf)> = Vec::new();
        for entry in fs::read_dir(&self.dir)? {
            let entry = entry?;
            if !entry.file_name().to_str().is_some_and(is_answer_name) {
                continue;
            }
            // Another process may have removed the file in the meantime.
            let Ok(metadata) = entry.metadata() else { continue };
            if metadata.is_file() {
                files.push((metadata.modified()?, metadata.len(), entry.path()));
            }
        }
        let mut total: u64 = files.iter().map(|(_, bytes, _)| bytes).sum();
        if total <= most {
            return Ok(());
        }
        files.sort();
        for (_, bytes, path) in files {
            if total <= kept {
                break;
            }
            if fs::remove_file(path).is_ok() {
                total -= bytes;
            }
        }
        Ok(())
    }
}

/// Says whether answers, or what a process that was killed left of one, have names like this one.
fn is_answer_name(name: &str) -> bool {
    const HASH_DIGITS: usize = 2 * HASH_BYTES;
    let Some((hash, rest)) = name.split_at_checked(HASH_DIGITS) else { return false };
    let process = rest.strip_prefix('.').and_then(|rest| rest.strip_suffix(".tmp"));
    let is_part = process.is_some_and(|process| {
        !process.is_empty() && process.bytes().all(|byte| byte.is_ascii_digit())
    });
    hash.bytes().all(|byte| byte.is_ascii_hexdigit()) && (rest == ".bin" || is_part)
}

fn encode(stored: &Stored) -> Vec<u8> {
    let most: usize = stored.values.iter().map(|values| 16 + 8 * values.len()).sum();
    let mut bytes = Vec::with_capacity(MAGIC.len() + 24 + most + HASH_BYTES);
    bytes.extend(MAGIC);
    bytes.extend(stored.answer_s.to_le_bytes());
    bytes.extend(stored.sampled_blocks.to_le_bytes());
    bytes.extend((stored.values.len() as u64).to_le_bytes());
    for values in &stored.values {
        let size: u64 = if matches!(values, Values::Single(_)) { 4 } else { 8 };
        bytes.extend(size.to_le_bytes());
        bytes.extend((values.len() as u64).to_le_bytes());
        match values {
            Values::Single(values) => append(&mut bytes, values, |value| value.to_le_bytes()),
            Values::Double(values) => append(&mut bytes, values, |value| value.to_le_bytes()),
        }
    }
    let hash = blake3::hash(&bytes);
    bytes.extend(hash.as_bytes());
    bytes
}

/// Appends the bytes of values: all of one size, so that every processor takes a part.
fn append<T: Copy + Sync, const SIZE: usize>(
    bytes: &mut Vec<u8>,
    values: &[T],
    encode: impl Fn(T) -> [u8; SIZE] + Sync,
) {
    let begin = bytes.len();
    bytes.resize(begin + values.len() * SIZE, 0);
    parallel::fill(&mut bytes[begin..], SIZE, |start, piece| {
        for (at, value) in piece.chunks_exact_mut(SIZE).zip(&values[start / SIZE..]) {
            at.copy_from_slice(&encode(*value));
        }
    });
}

fn decode(bytes: &[u8], outputs: &[TensorPlan]) -> Option<Stored> {
    let (content, hash) = bytes.split_at_checked(bytes.len().checked_sub(HASH_BYTES)?)?;
    if blake3::hash(content).as_bytes().as_slice() != hash {
        return None;
    }
    let mut rest = content.strip_prefix(MAGIC.as_slice())?;
    let answer_s = f64::from_bits(take_word(&mut rest)?);
    let sampled_blocks = take_word(&mut rest)?;
    if take_word(&mut rest)? != outputs.len() as u64 {
        return None;
    }
    let mut values = Vec::new();
    for plan in outputs {
        let size = take_word(&mut rest)? as usize;
        let count = take_word(&mut rest)? as usize;
        if count != plan.elements() {
            return None;
        }
        let (elements, after) = rest.split_at_checked(count.checked_mul(size)?)?;
        rest = after;
        values.push(match size {
            4 => Values::Single(
                elements.as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)).collect(),
            ),
            8 => Values::Double(
                elements.as_chunks().0.iter().map(|b| f64::from_le_bytes(*b)).collect(),
            ),
            _ => return None,
        });
    }
    rest.is_empty().then_some(Stored { answer_s, sampled_blocks, values })
}

fn take_word(rest: &mut &[u8]) -> Option<u64> {
    let (word, after) = rest.split_first_chunk::<8>()?;
    *rest = after;
    Some(u64::from_le_bytes(*word))
}

#[cfg(test)]
mod tests {
    use warpsmith_model::DType;
    use warpsmith_model::lab::Role;

    use super::*;

    #[test]
    fn answers_come_back_and_damaged_ones_do_not() {
        let plan = |n: u64| TensorPlan {
            name: "z".into(),
            shape: vec![n],
            dtype: DType::F32,
            role: Role::Output,
        };
        let outputs = [plan(3), plan(2)];
        let stored = Stored {
            answer_s: 0.25,
            sampled_blocks: 7,
            values: vec![Values::Single(vec![1.0, 2.0, 3.5]), Values::Double(vec![0.1, -1e300])],
        };
        let folder = tempfile::tempdir().expect("a folder");
        let store = Store::open(folder.path().join("expected")).expect("opens");
        assert_eq!(store.load("a", &outputs), None);
        store.save("a", &stored).expect("saves");
        assert_eq!(store.load("a", &outputs), Some(stored.clone()));
        assert_eq!(store.load("a", &outputs[..1]), None, "other tensors");

        let mut bytes = fs::read(store.path("a")).expect("there");
        bytes[60] ^= 1;
        fs::write(store.path("a"), &bytes).expect("writes");
        assert_eq!(store.load("a", &outputs), None, "a flipped bit");
        fs::write(store.path("a"), &bytes[..20]).expect("writes");
        assert_eq!(store.load("a", &outputs), None, "half a file");
    }

    #[test]
    fn pruning_removes_answers_and_nothing_of_others() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = Store::open(folder.path().join("expected")).expect("opens");
        let hash = "0af9".repeat(16);
        let theirs = ["thesis.bin".to_string(), hash.clone(), format!("{hash}.bin.txt")];
        let ours = [format!("{hash}.bin"), format!("{}.31.tmp", "7".repeat(64))];
        for name in theirs.iter().chain(&ours) {
            fs::write(store.dir.join(name), [0; 1000]).expect("written");
        }
        store.prune(2500, 0).expect("two answers are few enough");
        assert!(ours.iter().all(|name| store.dir.join(name).exists()));
        store.prune(1500, 0).expect("pruned");
        assert!(!ours.iter().any(|name| store.dir.join(name).exists()));
        for name in theirs {
            assert!(store.dir.join(&name).exists(), "{name}");
        }
    }
}
