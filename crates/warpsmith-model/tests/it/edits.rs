//! A good lab, and what is wrong with it after some edits.

use warpsmith_model::Lab;
use warpsmith_model::lab::LabFiles;

/// A change of the good lab.
pub(crate) enum Edit<'a> {
    /// Of a file, replace the first text by the second.
    Replace(&'a str, &'a str, &'a str),
    /// Make a file.
    Write(&'a str, &'a str),
    /// Remove a file.
    Delete(&'a str),
}

/// Returns the files of the good lab.
pub(crate) fn good_lab() -> LabFiles {
    GOOD.iter().map(|(path, text)| (path.to_string(), text.to_string())).collect()
}

/// Returns what is wrong with the good lab after some edits.
pub(crate) fn after(edits: &[Edit<'_>]) -> String {
    let mut files = good_lab();
    Lab::parse(&files).unwrap_or_else(|errors| panic!("the good lab is bad:\n{errors}"));
    for edit in edits {
        match *edit {
            Edit::Replace(path, from, to) => {
                let text = files.get_mut(path).expect("the file is there");
                assert!(text.contains(from), "{path} has no {from:?}");
                *text = text.replacen(from, to, 1);
            }
            Edit::Write(path, text) => {
                files.insert(path.to_string(), text.to_string());
            }
            Edit::Delete(path) => {
                files.remove(path).expect("the file is there");
            }
        }
    }
    match Lab::parse(&files) {
        Ok(_) => "nothing is wrong".to_string(),
        Err(errors) => errors.to_string(),
    }
}

/// Returns what is wrong with the good lab after one replacement.
pub(crate) fn after_replacing(path: &str, from: &str, to: &str) -> String {
    after(&[Edit::Replace(path, from, to)])
}

const GOOD: [(&str, &str); 8] = [
    ("lab.toml", LAB),
    ("reference.c", ""),
    ("kernels/00_naive.c", ""),
    ("kernels/00_naive.toml", NAIVE),
    ("kernels/10_fast.c", ""),
    ("kernels/10_fast.toml", FAST),
    ("baselines/numpy.toml", NUMPY),
    ("baselines/numpy_scale.py", ""),
];

const LAB: &str = r#"format = 1
name   = "scale"
title  = "Scaled vector"
axes   = ["N"]

[[tensor]]
name  = "x"
shape = ["N"]
dtype = "f32"
role  = "input"

[[tensor]]
name  = "y"
shape = ["N"]
dtype = "f32"
role  = "output"

[[scalar]]
name  = "factor"
dtype = "f32"
value = "1.5"

[reference]
source = "reference.c"
entry  = "scale_reference"
blocks = "N"

[oracle]
kernel = "00_naive"

[work]
flops = "2 * N"
bytes = "2 * N * 4"

[tolerance]
element_eps = 4
norm_eps    = 2

[[inputs]]
name    = "normal"
default = { normal = { mean = 0.0, std = 1.0 } }

[[inputs]]
name    = "mixed scales"
default = { mixed = {} }

[[workload]]
name = "big"
axes = { N = 65536 }

[[proof]]
name = "one"
axes = { N = 1 }

[ranges]
N = { min = 1, max = 20000 }
"#;

const NAIVE: &str = r#"format  = 1
target  = "cpu"
summary = "One element at a time"
flags   = ["-O1"]

[[launch]]
entry  = "scale"
blocks = "N"
"#;

const FAST: &str = r#"format  = 1
target  = "cpu"
summary = "Unrolled"
flags   = ["-O3"]
constraints = ["BLOCK % UNROLL == 0"]

[[launch]]
entry  = "scale"
blocks = "ceil_div(N, BLOCK)"

[tunables]
BLOCK  = [4096, 16384]
UNROLL = [1, 2, 4]

[search]
default = { BLOCK = 4096, UNROLL = 4 }
expand  = ["BLOCK"]
"#;

const NUMPY: &str = r#"format   = 1
summary  = "NumPy"
script   = "numpy_scale.py"
packages = ["numpy==2.3.4"]
size_mb  = 20
"#;
