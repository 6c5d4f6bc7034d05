//! Whatever the bytes: the readers of spaces (plain and T1) answer with tunables and constraints, or with an
//! error. The space itself is built where that is quick.
#![no_main]

use libfuzzer_sys::fuzz_target;
use warpsmith_search::SpaceSpec;

fuzz_target!(|bytes: &[u8]| {
    let spec = match SpaceSpec::read(bytes) {
        Ok(spec) => spec,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return;
        }
    };
    let combinations: f64 = spec.tunables.iter().map(|it| it.values.len() as f64).product();
    if combinations > 1e6 {
        return;
    }
    if let Ok(space) = spec.space() {
        let last = space.get(space.len() - 1).expect("the last configuration");
        assert_eq!(space.index_of(&last), Some(space.len() - 1));
    }
});
