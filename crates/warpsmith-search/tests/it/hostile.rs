//! Seeded mutation of the files of other tuners for a moment, so that every run of the tests covers what
//! `fuzz/` covers at length: whatever the bytes, the answer is a space or an error, never a panic.

use std::time::{Duration, Instant};

use warpsmith_model::rng::Rng;
use warpsmith_search::{Recorded, SpaceSpec};

const SEED: u64 = 11;
const TIME_FOR_EACH: Duration = Duration::from_secs(1);
const LEAST_ROUNDS: usize = 200;

/// Pieces that mean something in JSON, in Python's lists or in expressions.
const PIECES: [&[u8]; 28] = [
    b"{",
    b"}",
    b"[",
    b"]",
    b"\"",
    b":",
    b",",
    b"null",
    b"true",
    b"-1",
    b"0",
    b"1e999",
    b"9223372036854775808",
    b"1e-320",
    b"NaN",
    b"\"time\": ",
    b"\"times\": []",
    b"\"InvalidConfig\"",
    b"\\u0000",
    b"\xff\xfe",
    b" % 0",
    b" ** 999",
    b"list(range(0, 10**18))",
    b" for i in range(9)",
    b"(((((((((",
    b"\"results\": 3",
    b"\"schema_version\": [1]",
    b"\"cache\": {}",
];

/// Runs rounds until the time is up, but a fair number even on a slow machine.
fn for_a_moment(mut round: impl FnMut(&mut Rng)) {
    let mut rng = Rng::new(SEED);
    let start = Instant::now();
    let mut n_rounds = 0;
    while n_rounds < LEAST_ROUNDS || start.elapsed() < TIME_FOR_EACH {
        round(&mut rng);
        n_rounds += 1;
    }
}

/// Changes bytes in one to four places: deletes, repeats, inserts or overwrites pieces of them.
fn mutate(rng: &mut Rng, original: &[u8]) -> Vec<u8> {
    let mut bytes = original.to_vec();
    for _ in 0..1 + rng.below(4) {
        let at = rng.below(bytes.len() + 1);
        let end = (at + rng.below(24)).min(bytes.len());
        let piece = PIECES[rng.below(PIECES.len())];
        match rng.below(5) {
            0 => {
                bytes.drain(at..end);
            }
            1 => {
                let copy = bytes[at..end].to_vec();
                bytes.splice(at..at, copy);
            }
            2 => {
                bytes.splice(at..at, piece.iter().copied());
            }
            3 => bytes.truncate(at),
            _ => {
                bytes.splice(at..end, piece.iter().copied());
            }
        }
    }
    bytes
}

fn file(path: &str) -> Vec<u8> {
    let path = format!("{}/tests/data/{path}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read(path).expect("the test's data")
}

#[test]
fn recorded_spaces_survive_mutation() {
    let files = [
        file("recorded/convolution_A100_extract_kernel_tuner.json"),
        file("recorded/convolution_A100_extract_t4.json"),
    ];
    for_a_moment(|rng| {
        let file = &files[rng.below(files.len())];
        let bytes = mutate(rng, file);
        match Recorded::read(&bytes) {
            // What is accepted can be written, and what is written can be read.
            Ok(recorded) => {
                assert!(recorded.optimum_ms() > 0.0 && recorded.optimum_ms().is_finite());
                for written in [recorded.kernel_tuner_cache(), recorded.t4_results()] {
                    let again = Recorded::read(written.to_string().as_bytes());
                    let again = again.unwrap_or_else(|error| panic!("{error}: {written}"));
                    assert_eq!(again.entries().len(), recorded.entries().len());
                }
            }
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    });
}

#[test]
fn spaces_survive_mutation() {
    let files = [
        file("spaces/hotspot_t1_extract.json"),
        file("spaces/clblast_xgemm_direct.json"),
        file("spaces/dedispersion.json"),
    ];
    for_a_moment(|rng| {
        let file = &files[rng.below(files.len())];
        let bytes = mutate(rng, file);
        match SpaceSpec::read(&bytes) {
            Ok(spec) => match spec.space() {
                Ok(space) => {
                    let last = space.get(space.len() - 1).expect("the last configuration");
                    assert_eq!(space.index_of(&last), Some(space.len() - 1));
                    SpaceSpec::read(spec.to_json().to_string().as_bytes()).expect("what we wrote");
                }
                Err(error) => assert!(!error.to_string().is_empty()),
            },
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    });
}
