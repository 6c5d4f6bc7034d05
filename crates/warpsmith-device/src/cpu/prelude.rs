//! System headers that are compiled once for all configurations of a kernel.
//!
//! A search compiles one source hundreds of times, with other macros each time, and the compiler spends
//! most of it on the same system headers. A *prelude* holds what a kernel [opens](super::opening) with,
//! precompiled. It changes nothing but the time: it is used only where no macro of the configuration and
//! no header of the lab is mentioned in it, the unit that it is made for is built both ways and must come
//! out the same to the byte, and what does not compile with it is compiled again without.
//!
//! Preludes are kept beside the artifacts, in a folder that compilers can read and not write.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use warpsmith_model::{BlobId, Hasher};

use super::opening::{opening, without_comments};
use super::{artifacts, info, toolchain};
use crate::sys::files::read_regular;
use crate::target::Unit;

/// The folder of preludes in a cache.
const FOLDER: &str = "preludes";

/// The header; its precompiled form has the name that gcc looks for, and a second one for clang.
const HEADER_FILE: &str = "prelude.h";
const PRECOMPILED_FILE: &str = "prelude.h.gch";
const CLANG_FILE: &str = "prelude.h.pch";

/// The files that went into it, as the compiler lists them. Until the prelude has been tried, the list has
/// another name, so that nobody else finds it.
const FILES_FILE: &str = "prelude.d";
const UNTRIED_FILE: &str = "untried.d";

/// The longest list: a thousand times what one takes.
const LIST_BYTES: u64 = 16 << 20;

/// Units with the same opening after which a prelude is made: to make one takes about as long as two
/// compilations.
const WORTHWHILE: u32 = 3;

/// Flags that mean the same for a header by itself: those that choose code, macros
/// and warnings.
const HARMLESS_FLAGS: [&str; 7] = ["-O", "-m", "-f", "-std=", "-g", "-D", "-W"];

/// A precompiled header.
#[derive(Debug)]
pub(super) struct Prelude {
    folder: PathBuf,
    /// Every word in the headers that is not in a comment.
    words: HashSet<String>,
    files: Vec<PathBuf>,
}

/// What this process knows of an opening.
#[derive(Debug)]
enum Known {
    /// So many units had it.
    Seen(u32),
    Ready(Arc<Prelude>),
    /// There is none and will be none: it is being made, it could not be made, or it changed what was built.
    Unusable,
}

/// An opening in a cache, by the hash of everything that its prelude depends on but the headers.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct CachedPrelude {
    cache_dir: PathBuf,
    key: BlobId,
    opening: String,
}

impl CachedPrelude {
    /// Returns the place of a unit's prelude; none for a unit that cannot have one.
    pub(super) fn of(cache_dir: &Path, unit: &Unit, tool: &toolchain::Tool) -> Option<Self> {
        let opening = opening(unit)?;
        let is_harmless =
            |flag: &String| HARMLESS_FLAGS.iter().any(|known| flag.starts_with(known));
        if !unit.flags.iter().all(is_harmless) {
            return None;
        }
        let mut hasher = Hasher::new("prelude");
        hasher.part(tool.path.as_os_str().as_encoded_bytes()).part(tool.version.as_bytes());
        hasher.part(opening.as_bytes());
        for flag in &unit.flags {
            hasher.part(flag.as_bytes());
        }
        hasher.part(info::processor_identity().as_bytes());
        Some(Self { cache_dir: cache_dir.to_path_buf(), key: hasher.into(), opening })
    }

    /// Returns the prelude for a unit, if there is one that changes nothing for it.
    pub(super) fn prelude(&self, unit: &Unit) -> Option<Arc<Prelude>> {
        let mut known = known();
        let state = known.entry(self.clone()).or_insert(Known::Seen(0));
        if let Known::Seen(0) = state
            && let Some(prelude) = self.load()
        {
            *state = Known::Ready(Arc::new(prelude));
        }
        match state {
            Known::Ready(prelude) if prelude.suits(unit) => Some(Arc::clone(prelude)),
            _ => None,
        }
    }

    /// Says that many units will have this opening, so that the first of them makes the prelude.
    pub(super) fn expect_many(&self) {
        let mut known = known();
        let state = known.entry(self.clone()).or_insert(Known::Seen(0));
        if let Known::Seen(count) = state {
            *count = WORTHWHILE;
        }
    }

    /// Counts a unit that is built without a prelude; says whether it is time to make one, which the
    /// caller then does.
    pub(super) fn is_time(&self) -> bool {
        let mut known = known();
        let state = known.entry(self.clone()).or_insert(Known::Seen(0));
        let Known::Seen(count) = state else { return false };
        *count += 1;
        let is_time = *count >= WORTHWHILE;
        if is_time {
            // Meanwhile the others do without.
            *state = Known::Unusable;
        }
        is_time
    }

    /// Leaves it to the next unit to make the prelude, since this one cannot show that it changes nothing.
    pub(super) fn leave_to_next(&self) {
        known().insert(self.clone(), Known::Seen(WORTHWHILE));
    }

    /// Makes the prelude. `is_the_same` builds a unit with it and says whether the same came out as without.
    pub(super) fn make(
        &self,
        unit: &Unit,
        tool: &toolchain::Tool,
        base_flags: &[&str],
        is_the_same: impl Fn(&Prelude) -> bool,
    ) -> io::Result<()> {
        let _step = crate::trace::step("precompiling headers");
        let Some(_lock) = artifacts::lock(&self.cache_dir, &self.key, unit.deadline)? else {
            // Whoever is in the way may be about to write there.
            return Ok(());
        };
        let place = self.folder();
        if let Some(prelude) = self.load() {
            // Another process was faster.
            known().insert(self.clone(), Known::Ready(Arc::new(prelude)));
            return Ok(());
        }
        if place.exists() {
            // It is out of date, or was left unfinished. Whoever uses it now compiles again without.
            fs::remove_dir_all(&place)?;
        }
        fs::create_dir_all(&place)?;
        // Clang insists on the header's place, so it is compiled where it is to stay.
        match self.precompiled(unit, tool, base_flags)? {
            Some(prelude) if prelude.suits(unit) && is_the_same(&prelude) => {
                fs::rename(place.join(UNTRIED_FILE), place.join(FILES_FILE))?;
                known().insert(self.clone(), Known::Ready(Arc::new(prelude)));
                Ok(())
            }
            _ => fs::remove_dir_all(&place),
        }
    }

    /// Compiles the opening; none when that fails.
    fn precompiled(
        &self,
        unit: &Unit,
        tool: &toolchain::Tool,
        base_flags: &[&str],
    ) -> io::Result<Option<Prelude>> {
        let place = fs::canonicalize(self.folder())?;
        fs::write(place.join(HEADER_FILE), &self.opening)?;
        let header = ["-x", "c-header", HEADER_FILE, "-o", PRECOMPILED_FILE];
        let arguments: Vec<String> = base_flags
            .iter()
            .copied()
            .filter(|flag| *flag != "-shared")
            .map(str::to_string)
            .chain(unit.flags.iter().cloned())
            .chain(["-g0", "-MD", "-MF", UNTRIED_FILE].map(str::to_string))
            .chain(header.map(str::to_string))
            .collect();
        let output = toolchain::run(&tool.path, &arguments, &place, None, unit.deadline)?;
        if output.end != toolchain::End::Exited(0) {
            return Ok(None);
        }
        fs::hard_link(place.join(PRECOMPILED_FILE), place.join(CLANG_FILE))?;
        Ok(Prelude::load(&place, UNTRIED_FILE))
    }

    fn load(&self) -> Option<Prelude> {
        Prelude::load(&fs::canonicalize(self.folder()).ok()?, FILES_FILE)
    }

    fn folder(&self) -> PathBuf {
        self.cache_dir.join(FOLDER).join(self.key.to_string())
    }
}

impl Prelude {
    /// Finds a prelude on the disk; none where there is none, or a header has changed since.
    fn load(folder: &Path, list: &str) -> Option<Self> {
        let made = fs::metadata(folder.join(PRECOMPILED_FILE)).ok()?;
        let listed = read_regular(&folder.join(list), LIST_BYTES).ok()?;
        let listed = String::from_utf8(listed).ok()?;
        let (_, listed) = listed.split_once(':')?;
        let files: Vec<PathBuf> = listed
            .split_whitespace()
            .filter(|word| *word != "\\" && *word != HEADER_FILE)
            .map(PathBuf::from)
            .collect();
        let mut words = HashSet::new();
        for file in files.iter().chain([&folder.join(HEADER_FILE)]) {
            let state = fs::metadata(file).ok().filter(fs::Metadata::is_file)?;
            // Not when it was written: packages bring files that are older than their installation.
            if (state.ctime(), state.ctime_nsec()) > (made.ctime(), made.ctime_nsec()) {
                return None;
            }
            let text = String::from_utf8_lossy(&fs::read(file).ok()?).into_owned();
            let code = without_comments(&text).unwrap_or(text);
            let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
            words.extend(code.split(|c| !is_part(c)).map(str::to_string));
        }
        Some(Self { folder: folder.to_path_buf(), words, files })
    }

    /// Says whether neither a macro nor a header of a unit could have changed what is in here.
    fn suits(&self, unit: &Unit) -> bool {
        let is_mentioned = |(name, _): &(String, String)| self.words.contains(name);
        let is_shadowed =
            |(name, _): &(String, String)| self.files.iter().any(|file| file.ends_with(name));
        !unit.defines.iter().any(is_mentioned) && !unit.headers.iter().any(is_shadowed)
    }

    /// Returns the folder that a compiler must be able to read.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the arguments that a compiler needs.
    pub(super) fn arguments(&self) -> [String; 2] {
        ["-include".to_string(), self.folder.join(HEADER_FILE).display().to_string()]
    }
}

fn known() -> MutexGuard<'static, HashMap<CachedPrelude, Known>> {
    static KNOWN: LazyLock<Mutex<HashMap<CachedPrelude, Known>>> = LazyLock::new(Mutex::default);
    KNOWN.lock().unwrap_or_else(PoisonError::into_inner)
}
