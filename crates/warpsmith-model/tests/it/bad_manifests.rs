//! Manifests that must not load, and what their authors are told.

use crate::edits::{Edit, after, after_replacing};

#[test]
fn an_unknown_key() {
    let errors = after_replacing("lab.toml", "title  =", "titel  =");
    insta::assert_snapshot!(errors, @r#"
    lab.toml:3:1: unknown key `titel`
        3 | titel  = "Scaled vector"
          | ^^^^^
     help: did you mean `title`?
    "#);
}

#[test]
fn a_wrong_type() {
    let errors = after_replacing("lab.toml", "element_eps = 4", r#"element_eps = "4""#);
    insta::assert_snapshot!(errors, @r#"
    lab.toml:36:15: invalid type: string "4", expected f64
       36 | element_eps = "4"
          |               ^^^
    "#);
}

#[test]
fn a_wrong_type_of_a_table() {
    let errors = after_replacing("lab.toml", r#"axes   = ["N"]"#, "axes   = [\"N\"]\nmicro  = 3");
    insta::assert_snapshot!(errors, @r#"
    lab.toml:5:10: invalid type: integer `3`, expected a table
        5 | micro  = 3
          |          ^
    "#);
}

#[test]
fn an_unknown_value() {
    let errors = after_replacing(
        "lab.toml",
        "dtype = \"f32\"\nrole  = \"output\"",
        "dtype = \"f31\"\nrole  = \"output\"",
    );
    insta::assert_snapshot!(errors, @r#"
    lab.toml:15:9: unknown value `f31`
       15 | dtype = "f31"
          |         ^^^^^
     help: did you mean `f32`?
    "#);
}

#[test]
fn a_missing_key() {
    let errors = after_replacing("lab.toml", "flops = \"2 * N\"\n", "");
    insta::assert_snapshot!(errors, @r#"
    lab.toml:31:1: missing key `flops`
       31 | [work]
          | ^^^^^^
    "#);
}

#[test]
fn broken_toml() {
    let errors = after_replacing("lab.toml", r#"name   = "scale""#, r#"name   = "scale"#);
    insta::assert_snapshot!(errors, @r#"
    lab.toml:2:16: invalid basic string, expected `"`
        2 | name   = "scale
          |                ^
    "#);
}

#[test]
fn a_key_twice() {
    let errors =
        after_replacing("lab.toml", r#"name   = "scale""#, "name   = \"scale\"\nname = \"other\"");
    insta::assert_snapshot!(errors, @r#"
    lab.toml:3:1: duplicate key
        3 | name = "other"
          | ^^^^
    "#);
}

#[test]
fn a_newer_format() {
    let errors = after_replacing("lab.toml", "format = 1", "format = 2\nnew_key = 3");
    insta::assert_snapshot!(errors, @r#"
    lab.toml:1:10: this file has format 2, which is newer than Warpsmith
        1 | format = 2
          |          ^
     help: this build reads format 1; update Warpsmith
    "#);
}

#[test]
fn no_format() {
    let errors = after_replacing("lab.toml", "format = 1\n", "");
    insta::assert_snapshot!(errors, @r#"
    lab.toml: missing key `format`
     help: this build reads `format = 1`
    "#);
}

#[test]
fn an_unknown_name_in_a_shape() {
    let errors = after_replacing(
        "lab.toml",
        "shape = [\"N\"]\ndtype = \"f32\"\nrole  = \"output\"",
        "shape = [\"M\"]\ndtype = \"f32\"\nrole  = \"output\"",
    );
    insta::assert_snapshot!(errors, @r#"
    lab.toml:14:11: unknown name `M`
       14 | shape = ["M"]
          |           ^
     help: it sees the axes: N
    "#);
}

#[test]
fn a_device_constant_in_a_shape() {
    let errors = after_replacing("lab.toml", r#"blocks = "N""#, r#"blocks = "THREADS""#);
    insta::assert_snapshot!(errors, @r#"
    lab.toml:26:11: `THREADS` is a device constant, which this expression cannot see
       26 | blocks = "THREADS"
          |           ^^^^^^^
     help: it sees the axes
    "#);
}

#[test]
fn a_shape_of_nothing() {
    let errors = after_replacing(
        "lab.toml",
        "shape = [\"N\"]\ndtype = \"f32\"\nrole  = \"output\"",
        "shape = [\"N - 1\"]\ndtype = \"f32\"\nrole  = \"output\"",
    );
    insta::assert_snapshot!(errors, @r#"
    lab.toml:14:10: on proof `one`: `N - 1` is 0; it must be at least 1
       14 | shape = ["N - 1"]
          |          ^^^^^^^
    "#);
}

#[test]
fn a_division_by_zero() {
    let errors = after_replacing("lab.toml", r#"flops = "2 * N""#, r#"flops = "2 * N // (N - 1)""#);
    insta::assert_snapshot!(errors, @r#"
    lab.toml:32:9: on proof `one`: `2 * N // (N - 1)`: division by zero
       32 | flops = "2 * N // (N - 1)"
          |         ^^^^^^^^^^^^^^^^^^
    "#);
}

#[test]
fn a_keyword_as_an_axis() {
    let errors = after(&[
        Edit::Replace("lab.toml", r#"axes   = ["N"]"#, r#"axes   = ["N", "for", "long", "9n"]"#),
        Edit::Replace(
            "lab.toml",
            "axes = { N = 1 }",
            r#"axes = { N = 1, "for" = 1, long = 1, 9n = 1 }"#,
        ),
        Edit::Replace(
            "lab.toml",
            "axes = { N = 65536 }",
            r#"axes = { N = 1, "for" = 1, long = 1, 9n = 1 }"#,
        ),
        Edit::Replace("lab.toml", "[ranges]\nN = { min = 1, max = 20000 }\n", ""),
    ]);
    insta::assert_snapshot!(errors, @r#"
    lab.toml:4:16: the axis `for` is a keyword of C
        4 | axes   = ["N", "for", "long", "9n"]
          |                ^^^^^
    lab.toml:4:23: the axis `long` is a keyword of C
        4 | axes   = ["N", "for", "long", "9n"]
          |                       ^^^^^^
    lab.toml:4:31: the axis `9n` is no C identifier
        4 | axes   = ["N", "for", "long", "9n"]
          |                               ^^^^
    "#);
}

#[test]
fn the_same_name_twice() {
    let errors = after_replacing("lab.toml", r#"name  = "factor""#, r#"name  = "x""#);
    insta::assert_snapshot!(errors, @r#"
    lab.toml:19:9: the scalar `x` has the name of the tensor
       19 | name  = "x"
          |         ^^^
    "#);
}

#[test]
fn two_workloads_of_one_name() {
    let errors = after_replacing(
        "lab.toml",
        "[[proof]]",
        "[[workload]]\nname = \"big\"\naxes = { N = 2 }\n\n[[proof]]",
    );
    insta::assert_snapshot!(errors, @r#"
    lab.toml:52:8: there are two workloads named `big`
       52 | name = "big"
          |        ^^^^^
    "#);
}

#[test]
fn a_missing_axis() {
    let errors = after_replacing("lab.toml", "axes = { N = 65536 }", "axes = {}");
    insta::assert_snapshot!(errors, @r#"
    lab.toml:49:8: the workload has no value for `N`
       49 | axes = {}
          |        ^^
    "#);
}

#[test]
fn an_unknown_axis() {
    let errors = after_replacing("lab.toml", "axes = { N = 65536 }", "axes = { n = 65536 }");
    insta::assert_snapshot!(errors, @r#"
    lab.toml:49:10: unknown axis `n`
       49 | axes = { n = 65536 }
          |          ^
     help: did you mean `N`?
    "#);
}

#[test]
fn a_workload_beyond_reason() {
    let errors =
        after_replacing("lab.toml", "axes = { N = 65536 }", "axes = { N = 1000000000000 }");
    insta::assert_snapshot!(errors, @r#"
    lab.toml:49:8: workload `big` needs 7.3 TiB of tensors; 1 TiB is the limit
       49 | axes = { N = 1000000000000 }
          |        ^^^^^^^^^^^^^^^^^^^^^
    "#);
}

#[test]
fn a_range_for_no_axis() {
    let errors =
        after_replacing("lab.toml", "N = { min = 1, max = 20000 }", "M = { min = 1, max = 20000 }");
    insta::assert_snapshot!(errors, @r#"
    lab.toml:55:1: `[ranges]` has no value for `N`
       55 | [ranges]
          | ^^^^^^^^
    lab.toml:56:1: unknown axis `M`
       56 | M = { min = 1, max = 20000 }
          | ^
     help: known here: `N`
    "#);
}

#[test]
fn a_range_upside_down() {
    let errors =
        after_replacing("lab.toml", "N = { min = 1, max = 20000 }", "N = { min = 9, max = 2 }");
    insta::assert_snapshot!(errors, @r#"
    lab.toml:56:5: `min` is above `max`
       56 | N = { min = 9, max = 2 }
          |     ^^^^^^^^^^^^^^^^^^^^
    "#);
}

#[test]
fn a_range_of_both_kinds() {
    let errors = after_replacing(
        "lab.toml",
        "N = { min = 1, max = 20000 }",
        "N = { min = 9, values = [2] }",
    );
    insta::assert_snapshot!(errors, @r#"
    lab.toml:56:5: a range is `{ min = .., max = .. }` or `{ values = [..] }`
       56 | N = { min = 9, values = [2] }
          |     ^^^^^^^^^^^^^^^^^^^^^^^^^
    "#);
}

#[test]
fn a_range_that_allows_empty_tensors() {
    let errors =
        after_replacing("lab.toml", "N = { min = 1, max = 20000 }", "N = { min = 0, max = 2 }");
    insta::assert_snapshot!(errors, @r#"
    lab.toml:8:10: on the smallest shape of `[ranges]`: `N` is 0; it must be at least 1
        8 | shape = ["N"]
          |          ^^^
    lab.toml:14:10: on the smallest shape of `[ranges]`: `N` is 0; it must be at least 1
       14 | shape = ["N"]
          |          ^^^
    lab.toml:26:10: on the smallest shape of `[ranges]`: `N` is 0; it must be at least 1
       26 | blocks = "N"
          |          ^^^
    "#);
}

#[test]
fn an_unknown_micro_workload() {
    let errors =
        after_replacing("lab.toml", "[ranges]", "[micro]\nworkloads = [\"bgi\"]\n\n[ranges]");
    insta::assert_snapshot!(errors, @r#"
    lab.toml:56:14: unknown workload `bgi`
       56 | workloads = ["bgi"]
          |              ^^^^^
     help: did you mean `big`?
    "#);
}

#[test]
fn no_output() {
    let errors = after_replacing("lab.toml", r#"role  = "output""#, r#"role  = "input""#);
    insta::assert_snapshot!(errors, @r#"
    lab.toml: the lab has no output tensor
     help: add a `[[tensor]]` with `role = "output"`
    "#);
}

#[test]
fn a_tolerance_of_zero() {
    let errors = after_replacing("lab.toml", "norm_eps    = 2", "norm_eps    = 0");
    insta::assert_snapshot!(errors, @r#"
    lab.toml:35:1: `norm_eps` is 0; it must be above 0
       35 | [tolerance]
          | ^^^^^^^^^^^
    "#);
}

#[test]
fn tolerances_that_zeros_are_within() {
    let refused = |replaced: &str, by: &str, words: &str| {
        let errors = after_replacing("lab.toml", replaced, by);
        assert!(errors.contains(words) && errors.contains("calibrate"), "{errors}");
    };
    refused("norm_eps    = 2", "norm_eps    = 1e7", "`norm_eps` allows an error of 1.19 times");
    refused(
        "element_eps = 4",
        "element_eps = 1e9",
        "`element_eps` allows an element to be off by 119",
    );
    let wide = "default = { mixed = {} }\ntolerance_scale = 1e8";
    refused("default = { mixed = {} }", wide, "widened by the `tolerance_scale` of `mixed");
}

#[test]
fn a_ramp_along_an_axis_that_a_tensor_does_not_have() {
    let ramp = |axis: i32| {
        let ramp = format!("ramp = {{ axis = {axis}, first = 0.0, last = 9.0, std = 1.0 }}");
        after_replacing("lab.toml", "mixed = {}", &ramp)
    };
    assert!(ramp(-2).contains("has 1 axes, so there is no axis -2"), "{}", ramp(-2));
    assert!(ramp(0).contains("counted from the last one"), "{}", ramp(0));
}

#[test]
fn scalars_that_cannot_be_drawn() {
    let refused = |draw: &str, words: &str| {
        let scalar = format!(
            "[[scalar]]\nname = \"s\"\ndtype = \"i64\"\nvalue = \"3\"\ndraw = {draw}\n\n[reference]"
        );
        let errors = after_replacing("lab.toml", "[reference]", &scalar);
        assert!(errors.contains(words), "{errors}");
    };
    refused("{ factors = [2.0, 1.0] }", "the lower one first");
    refused("{ values = [] }", "`values` is empty");
    refused("{ values = [0.5, 1.0] }", "must be whole");
    refused("{ }", "`draw` is `{ factors");
    refused("{ values = [], factors = [1.0, 2.0] }", "`values` is empty");
    refused("{ values = [1], factors = [1.0, inf] }", "the lower one first");
}

#[test]
fn a_bad_distribution() {
    let errors = after_replacing("lab.toml", "std = 1.0", "std = -1.0");
    insta::assert_snapshot!(errors, @r#"
    lab.toml:41:11: `std` must be above 0
       41 | default = { normal = { mean = 0.0, std = -1.0 } }
          |           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
    "#);
}

#[test]
fn an_unknown_distribution() {
    let errors =
        after_replacing("lab.toml", "default = { mixed = {} }", "default = { lognormal = {} }");
    insta::assert_snapshot!(errors, @r#"
    lab.toml:45:13: unknown value `lognormal`
       45 | default = { lognormal = {} }
          |             ^^^^^^^^^
     help: did you mean `normal`?
    "#);
}

#[test]
fn inputs_for_an_output() {
    let errors = after_replacing(
        "lab.toml",
        "default = { mixed = {} }",
        "default = { mixed = {} }\ntensors = { y = { mixed = {} }, xx = { mixed = {} } }",
    );
    insta::assert_snapshot!(errors, @r#"
    lab.toml:46:13: `y` is an output, which is never filled
       46 | tensors = { y = { mixed = {} }, xx = { mixed = {} } }
          |             ^
    lab.toml:46:33: unknown tensor `xx`
       46 | tensors = { y = { mixed = {} }, xx = { mixed = {} } }
          |                                 ^^
     help: did you mean `x`?
    "#);
}

#[test]
fn a_missing_reference() {
    let errors = after_replacing("lab.toml", r#""reference.c""#, r#""refrence.c""#);
    insta::assert_snapshot!(errors, @r#"
    lab.toml:24:10: there is no file `refrence.c`
       24 | source = "refrence.c"
          |          ^^^^^^^^^^^^
     help: did you mean `reference.c`?
    "#);
}

#[test]
fn an_unknown_oracle() {
    let errors = after_replacing("lab.toml", r#"kernel = "00_naive""#, r#"kernel = "naive""#);
    insta::assert_snapshot!(errors, @r#"
    lab.toml:29:10: unknown kernel `naive`
       29 | kernel = "naive"
          |          ^^^^^^^
     help: known here: `00_naive`, `10_fast`
    "#);
}

#[test]
fn a_missing_manifest() {
    let errors = after(&[Edit::Delete("lab.toml")]);
    insta::assert_snapshot!(errors, @"lab.toml: the file is missing");
}

#[test]
fn nothing_at_all() {
    let errors = after(&[
        Edit::Write(
            "lab.toml",
            "format = 1\nname = \"nothing\"\ntitle = \"Nothing\"\naxes = []\noracle = { kernel = \"00_naive\" }\nreference = { source = \"reference.c\", entry = \"f\", blocks = \"1\" }\nwork = { flops = \"1\", bytes = \"1\" }\ntolerance = { element_eps = 1, norm_eps = 1 }\n",
        ),
        Edit::Delete("kernels/10_fast.toml"),
        Edit::Delete("kernels/10_fast.c"),
        Edit::Replace("kernels/00_naive.toml", r#""N""#, r#""1""#),
        Edit::Delete("baselines/numpy.toml"),
    ]);
    insta::assert_snapshot!(errors, @r#"
    lab.toml: the lab has no workload
     help: add a `[[workload]]` with `name` and `axes`
    lab.toml: the lab has no proof
     help: add a `[[proof]]` with `name` and `axes`
    lab.toml: the lab has no input tensor
     help: add a `[[tensor]]` with `role = "input"`
    lab.toml: the lab has no output tensor
     help: add a `[[tensor]]` with `role = "output"`
    lab.toml: the lab has no inputs
     help: add `[[inputs]]` with `name` and `default`
    "#);
}

#[test]
fn everything_at_once() {
    let errors = after(&[
        Edit::Replace(
            "lab.toml",
            r#"title  = "Scaled vector""#,
            "titel  = \"Scaled vector\"\ntitle  = \"Scaled vector\"",
        ),
        Edit::Replace("lab.toml", r#"bytes = "2 * N * 4""#, r#"bytes = "2 * M * 4""#),
        Edit::Replace("lab.toml", r#"kernel = "00_naive""#, "kernel = \"0_naive\"\nkernle = 1"),
        Edit::Replace("kernels/10_fast.toml", "BLOCK % UNROLL == 0", "BLOK % UNROLL == 0"),
        Edit::Replace("kernels/10_fast.toml", "ceil_div(N, BLOCK)", "ceil_div(N, X)"),
        Edit::Replace("baselines/numpy.toml", "size_mb", "size_gb"),
        Edit::Write("kernels/20_next.c", ""),
    ]);
    insta::assert_snapshot!(errors, @r#"
    kernels/20_next.c: this source has no contract
     help: add `kernels/20_next.toml`
    lab.toml:3:1: unknown key `titel`
        3 | titel  = "Scaled vector"
          | ^^^^^
     help: did you mean `title`?
    lab.toml:30:10: unknown kernel `0_naive`
       30 | kernel = "0_naive"
          |          ^^^^^^^^^
     help: did you mean `00_naive`?
    lab.toml:31:1: unknown key `kernle`
       31 | kernle = 1
          | ^^^^^^
     help: did you mean `kernel`?
    lab.toml:35:14: unknown name `M`
       35 | bytes = "2 * M * 4"
          |              ^
     help: it sees the axes: N
    kernels/10_fast.toml:5:17: unknown name `BLOK`
        5 | constraints = ["BLOK % UNROLL == 0"]
          |                 ^^^^
     help: did you mean `BLOCK`?
    kernels/10_fast.toml:9:23: unknown name `X`
        9 | blocks = "ceil_div(N, X)"
          |                       ^
     help: it sees axes, tunables and device constants: N, BLOCK, UNROLL, THREADS, L1D_BYTES, L2_BYTES, L3_BYTES, VECTOR_BYTES, SMS, WARP_SIZE, MAX_THREADS, SMEM_PER_BLOCK
    baselines/numpy.toml:5:1: unknown key `size_gb`
        5 | size_gb  = 20
          | ^^^^^^^
     help: did you mean `size_mb`?
    "#);
}

/// The reference of the lab as a script, without an oracle, and further edits.
fn with_script(manifest: &[(&str, &str)]) -> String {
    let files = crate::edits::good_lab();
    let mut text = files["lab.toml"].clone();
    let start = text.find("[reference]").expect("a reference");
    let end = text.find("[work]").expect("work after it");
    text.replace_range(start..end, "[reference]\nsource = \"reference.py\"\n\n");
    for (from, to) in manifest {
        assert!(text.contains(from), "{from}");
        text = text.replacen(from, to, 1);
    }
    after(&[Edit::Write("lab.toml", &text), Edit::Write("reference.py", "def prepare(): ...\n")])
}

#[test]
fn a_script_as_the_reference_has_no_entry_no_blocks_and_no_oracle() {
    assert_eq!(with_script(&[]), "nothing is wrong");
    let source = "source = \"reference.py\"";
    let entry = with_script(&[(source, "source = \"reference.py\"\nentry = \"f\"")]);
    assert!(entry.contains("a script as the reference has no `entry`"), "{entry}");
    let blocks = with_script(&[(source, "source = \"reference.py\"\nblocks = \"1\"")]);
    assert!(blocks.contains("a script as the reference has no `blocks`"), "{blocks}");
    let oracle = with_script(&[("[work]", "[oracle]\nkernel = \"00_naive\"\n\n[work]")]);
    assert!(oracle.contains("answers on every shape itself"), "{oracle}");
    let missing = with_script(&[("reference.py", "refrence.py")]);
    assert!(missing.contains("did you mean `reference.py`?"), "{missing}");
}

#[test]
fn a_function_as_the_reference_needs_its_name_its_blocks_and_an_oracle() {
    let files = crate::edits::good_lab();
    let text = &files["lab.toml"];
    let start = text.find("[oracle]").expect("an oracle");
    let end = text.find("[work]").expect("work after it");
    let without = format!("{}{}", &text[..start], &text[end..]);
    let oracle = after(&[Edit::Write("lab.toml", &without)]);
    assert!(oracle.contains("a C function as the reference needs an oracle"), "{oracle}");
    let entry = text.lines().find(|line| line.starts_with("entry")).expect("an entry");
    let unnamed = after_replacing("lab.toml", entry, "");
    assert!(unnamed.contains("needs `entry` and `blocks`"), "{unnamed}");
}

#[test]
fn an_extra_shape_with_the_name_of_a_workload() {
    let errors = after_replacing(
        "lab.toml",
        "[[proof]]",
        "[[extra]]\nname = \"big\"\naxes = { N = 2 }\n\n[[proof]]",
    );
    insta::assert_snapshot!(errors, @r#"
    lab.toml:52:8: the workload `big` is there already
       52 | name = "big"
          |        ^^^^^
    "#);
}
