//! The smallest binary that can serve as a runner; the tests of this crate start it. Cargo shows tests the
//! binaries of their own package alone, so the device crate's cannot be used.

#![forbid(unsafe_code)]

fn main() {
    if std::env::args().nth(1).as_deref() == Some(warpsmith_device::cpu::RUNNER_ARGUMENT) {
        warpsmith_device::cpu::runner_main();
    }
    eprintln!("this binary only serves Warpsmith's own tests");
    std::process::exit(2);
}
