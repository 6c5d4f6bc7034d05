//! Whatever the bytes: the readers of other tuners' recorded spaces answer with a space that can be written
//! and read again, or with an error.
#![no_main]

use libfuzzer_sys::fuzz_target;
use warpsmith_search::Recorded;

fuzz_target!(|bytes: &[u8]| {
    match Recorded::read(bytes) {
        Ok(recorded) => {
            let written = recorded.kernel_tuner_cache().to_string();
            let again = Recorded::read(written.as_bytes()).expect("what was written can be read");
            assert_eq!(again.entries().len(), recorded.entries().len());
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
});
