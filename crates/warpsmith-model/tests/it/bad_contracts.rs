//! Contracts and baselines that must not load, and what their authors are told.

use crate::edits::{Edit, after, after_replacing};

#[test]
fn an_unknown_key_in_a_table() {
    let errors = after_replacing("kernels/10_fast.toml", r#"blocks = "ceil"#, r#"blokcs = "ceil"#);
    insta::assert_snapshot!(errors, @r#"
    kernels/10_fast.toml:9:1: unknown key `blokcs`
        9 | blokcs = "ceil_div(N, BLOCK)"
          | ^^^^^^
     help: did you mean `blocks`?
    "#);
}

#[test]
fn a_key_like_no_other() {
    let errors = after_replacing("kernels/10_fast.toml", "summary", "zzz = 1\nsummary");
    insta::assert_snapshot!(errors, @r#"
    kernels/10_fast.toml:3:1: unknown key `zzz`
        3 | zzz = 1
          | ^^^
     help: known here: `format`, `target`, `summary`, `flags`, `specialize`, `requires`, `constraints`, `launch`, `scratch`, `tunables`, `search`, `expect`, `arch`, `compiler`, `tma`, `build`
    "#);
}

#[test]
fn a_compiler_of_another_target_or_of_none() {
    let errors = after_replacing("kernels/10_fast.toml", "summary", "compiler = \"nvcc\"\nsummary");
    insta::assert_snapshot!(errors, @r#"
    kernels/10_fast.toml:3:12: `compiler` is for CUDA kernels
        3 | compiler = "nvcc"
          |            ^^^^^^
    "#);
    let errors = after_replacing("kernels/10_fast.toml", "summary", "compiler = \"gcc\"\nsummary");
    insta::assert_snapshot!(errors, @r#"
    kernels/10_fast.toml:3:12: unknown value `gcc`
        3 | compiler = "gcc"
          |            ^^^^^
     help: known here: `nvrtc`, `nvcc`
    "#);
}

#[test]
fn an_axis_in_a_constraint() {
    let errors = after_replacing("kernels/10_fast.toml", "BLOCK % UNROLL == 0", "BLOCK % N == 0");
    insta::assert_snapshot!(errors, @r#"
    kernels/10_fast.toml:5:25: `N` is an axis, which this expression cannot see
        5 | constraints = ["BLOCK % N == 0"]
          |                         ^
     help: it sees tunables and device constants
    "#);
}

#[test]
fn a_misspelt_tunable_in_a_constraint() {
    let errors =
        after_replacing("kernels/10_fast.toml", "BLOCK % UNROLL == 0", "BLOCK % UNROL == 0");
    insta::assert_snapshot!(errors, @r#"
    kernels/10_fast.toml:5:25: unknown name `UNROL`
        5 | constraints = ["BLOCK % UNROL == 0"]
          |                         ^^^^^
     help: did you mean `UNROLL`?
    "#);
}

#[test]
fn a_broken_expression() {
    let errors =
        after_replacing("kernels/10_fast.toml", "BLOCK % UNROLL == 0", "BLOCK % UNROLL = 0");
    insta::assert_snapshot!(errors, @r#"
    kernels/10_fast.toml:5:32: not an expression: write `==` to compare
        5 | constraints = ["BLOCK % UNROLL = 0"]
          |                                ^
    "#);
}

#[test]
fn an_unknown_function() {
    let errors = after_replacing("kernels/10_fast.toml", "ceil_div(N, BLOCK)", "cdiv(N, BLOCK)");
    insta::assert_snapshot!(errors, @r#"
    kernels/10_fast.toml:9:11: not an expression: unknown function `cdiv`; there are min, max, abs, ceil_div, int, float, round, bool
        9 | blocks = "cdiv(N, BLOCK)"
          |           ^^^^
    "#);
}

#[test]
fn an_escaped_expression_is_underlined_whole() {
    let errors = after_replacing(
        "kernels/10_fast.toml",
        r#""ceil_div(N, BLOCK)""#,
        r#""ceil_div(N, BLOCK\u0029 +""#,
    );
    insta::assert_snapshot!(errors, @r#"
    kernels/10_fast.toml:9:10: not an expression: expected a value, got the end
        9 | blocks = "ceil_div(N, BLOCK\u0029 +"
          |          ^^^^^^^^^^^^^^^^^^^^^^^^^^^
    "#);
}

#[test]
fn a_float_count_of_blocks() {
    let errors = after_replacing("kernels/10_fast.toml", "ceil_div(N, BLOCK)", "N / BLOCK");
    insta::assert_snapshot!(errors, @r#"
    kernels/10_fast.toml:9:10: on workload `big`: `N / BLOCK`: 16.0 is a float where an integer is needed; divide with `//` or use `int`
        9 | blocks = "N / BLOCK"
          |          ^^^^^^^^^^^
    "#);
}

#[test]
fn no_blocks() {
    let errors = after_replacing("kernels/10_fast.toml", "ceil_div(N, BLOCK)", "N // BLOCK");
    insta::assert_snapshot!(errors, @r#"
    kernels/10_fast.toml:9:10: on proof `one`: `N // BLOCK` is 0; it must be at least 1
        9 | blocks = "N // BLOCK"
          |          ^^^^^^^^^^^^
    "#);
}

#[test]
fn an_oracle_that_serves_too_little() {
    let errors = after_replacing("kernels/00_naive.toml", "flags", "requires = [\"N > 1\"]\nflags");
    insta::assert_snapshot!(errors, @r#"
    lab.toml:29:10: the oracle does not serve proof `one`
       29 | kernel = "00_naive"
          |          ^^^^^^^^^^
    "#);
}

#[test]
fn a_kernel_that_serves_nothing() {
    let errors = after_replacing("kernels/10_fast.toml", "flags", "requires = [\"N < 0\"]\nflags");
    insta::assert_snapshot!(errors, @r#"
    kernels/10_fast.toml:4:13: the kernel serves none of the lab's workloads
        4 | requires = ["N < 0"]
          |             ^^^^^^^
    "#);
}

#[test]
fn an_unknown_target() {
    let errors = after_replacing("kernels/10_fast.toml", r#""cpu""#, r#""fpga""#);
    insta::assert_snapshot!(errors, @r#"
    kernels/10_fast.toml:2:11: unknown target `fpga`
        2 | target  = "fpga"
          |           ^^^^^^
     help: a kernel runs on `cpu` or `cuda`
    "#);
}

#[test]
fn a_kernel_for_another_target() {
    let errors = after_replacing("kernels/10_fast.toml", r#""cpu""#, r#""cuda""#);
    insta::assert_snapshot!(errors, @r#"
    kernels/10_fast.toml:2:11: a kernel for `cuda` in a lab for `cpu`
        2 | target  = "cuda"
          |           ^^^^^^
     help: a lab for another target is a folder of its own
    "#);
}

#[test]
fn a_contract_without_a_source() {
    let errors = after(&[Edit::Delete("kernels/10_fast.c")]);
    insta::assert_snapshot!(errors, @r#"
    kernels/10_fast.toml: this contract has no source
     help: add `kernels/10_fast.c`
    "#);
}

#[test]
fn a_source_without_a_contract() {
    let errors = after(&[Edit::Delete("kernels/10_fast.toml")]);
    insta::assert_snapshot!(errors, @r#"
    kernels/10_fast.c: this source has no contract
     help: add `kernels/10_fast.toml`
    "#);
}

#[test]
fn a_file_that_is_no_kernel() {
    let errors = after(&[Edit::Write("kernels/20_next.cu", "")]);
    insta::assert_snapshot!(errors, @r#"
    kernels/20_next.cu: this source has no contract
     help: add `kernels/20_next.toml`
    "#);
}

#[test]
fn no_launch() {
    let errors = after_replacing(
        "kernels/00_naive.toml",
        "[[launch]]\nentry  = \"scale\"\nblocks = \"N\"\n",
        "",
    );
    insta::assert_snapshot!(errors, @r#"
    kernels/00_naive.toml: the contract has no launch
     help: add a `[[launch]]` with `entry` and `blocks`
    "#);
}

#[test]
fn an_unknown_specialised_axis() {
    let errors = after_replacing("kernels/10_fast.toml", "flags", "specialize = [\"D\"]\nflags");
    insta::assert_snapshot!(errors, @r#"
    kernels/10_fast.toml:4:15: unknown axis `D`
        4 | specialize = ["D"]
          |               ^^^
     help: known here: `N`
    "#);
}

#[test]
fn a_default_that_is_no_value() {
    let errors = after_replacing("kernels/10_fast.toml", "UNROLL = 4 }", "UNROLL = 3 }");
    insta::assert_snapshot!(errors, @r#"
    kernels/10_fast.toml:16:36: 3 is no value of `UNROLL`
       16 | default = { BLOCK = 4096, UNROLL = 3 }
          |                                    ^
     help: its values are 1, 2, 4
    "#);
}

#[test]
fn a_default_that_lacks_a_tunable() {
    let errors = after_replacing("kernels/10_fast.toml", ", UNROLL = 4 }", " }");
    insta::assert_snapshot!(errors, @r#"
    kernels/10_fast.toml:16:11: the default has no value for `UNROLL`
       16 | default = { BLOCK = 4096 }
          |           ^^^^^^^^^^^^^^^^
    "#);
}

#[test]
fn a_default_with_an_unknown_tunable() {
    let errors =
        after_replacing("kernels/10_fast.toml", "UNROLL = 4 }", "UNROLL = 4, BLOCKS = 1 }");
    insta::assert_snapshot!(errors, @r#"
    kernels/10_fast.toml:16:39: unknown tunable `BLOCKS`
       16 | default = { BLOCK = 4096, UNROLL = 4, BLOCKS = 1 }
          |                                       ^^^^^^
     help: did you mean `BLOCK`?
    "#);
}

#[test]
fn tunables_without_a_default() {
    let errors = after_replacing(
        "kernels/10_fast.toml",
        "[search]\ndefault = { BLOCK = 4096, UNROLL = 4 }\nexpand  = [\"BLOCK\"]\n",
        "",
    );
    insta::assert_snapshot!(errors, @r#"
    kernels/10_fast.toml:12:1: the tunables have no default
       12 | BLOCK  = [4096, 16384]
          | ^^^^^
     help: add `[search]` with `default = { .. }`, a value for every tunable
    "#);
}

#[test]
fn a_default_without_tunables() {
    let errors = after_replacing(
        "kernels/00_naive.toml",
        "[[launch]]",
        "[search]\ndefault = {}\n\n[[launch]]",
    );
    insta::assert_snapshot!(errors, @r#"
    kernels/00_naive.toml:6:1: `[search]` without any tunables
        6 | [search]
          | ^^^^^^^^
    "#);
}

#[test]
fn a_tunable_without_values() {
    let errors = after_replacing("kernels/10_fast.toml", "UNROLL = [1, 2, 4]", "UNROLL = []");
    insta::assert_snapshot!(errors, @r#"
    kernels/10_fast.toml:13:10: the tunable `UNROLL` has no values
       13 | UNROLL = []
          |          ^^
    "#);
}

#[test]
fn a_value_twice() {
    let errors =
        after_replacing("kernels/10_fast.toml", "UNROLL = [1, 2, 4]", "UNROLL = [1, 4, 4, true]");
    insta::assert_snapshot!(errors, @r#"
    kernels/10_fast.toml:13:17: the value 4 stands here twice
       13 | UNROLL = [1, 4, 4, true]
          |                 ^
    kernels/10_fast.toml:13:20: the value true stands here twice
       13 | UNROLL = [1, 4, 4, true]
          |                    ^^^^
    "#);
}

#[test]
fn a_value_of_no_kind() {
    let errors =
        after_replacing("kernels/10_fast.toml", "UNROLL = [1, 2, 4]", "UNROLL = [1, [2], 4]");
    insta::assert_snapshot!(errors, @r#"
    kernels/10_fast.toml:13:10: expected an integer, a float, a boolean or a text
       13 | UNROLL = [1, [2], 4]
          |          ^^^^^^^^^^^
    "#);
}

#[test]
fn a_compiler_that_is_no_text() {
    let errors = after(&[
        Edit::Replace(
            "kernels/10_fast.toml",
            "UNROLL = [1, 2, 4]",
            "UNROLL = [1, 2, 4]\nCC     = [1]",
        ),
        Edit::Replace("kernels/10_fast.toml", "UNROLL = 4 }", "UNROLL = 4, CC = 1 }"),
    ]);
    insta::assert_snapshot!(errors, @r#"
    kernels/10_fast.toml:14:11: the values of `CC` are texts
       14 | CC     = [1]
          |           ^
    "#);
}

#[test]
fn a_tunable_with_the_name_of_an_axis() {
    let errors = after(&[
        Edit::Replace(
            "kernels/10_fast.toml",
            "UNROLL = [1, 2, 4]",
            "UNROLL = [1, 2, 4]\nN      = [1]",
        ),
        Edit::Replace("kernels/10_fast.toml", "UNROLL = 4 }", "UNROLL = 4, N = 1 }"),
    ]);
    insta::assert_snapshot!(errors, @r#"
    kernels/10_fast.toml:14:1: the tunable `N` has the name of an axis
       14 | N      = [1]
          | ^
    "#);
}

#[test]
fn a_default_against_a_constraint() {
    let errors = after_replacing(
        "kernels/10_fast.toml",
        "BLOCK % UNROLL == 0",
        "UNROLL > 3 and BLOCK > 4096",
    );
    insta::assert_snapshot!(errors, @r#"
    kernels/10_fast.toml:5:16: the default does not satisfy `UNROLL > 3 and BLOCK > 4096`
        5 | constraints = ["UNROLL > 3 and BLOCK > 4096"]
          |                ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
    "#);
}

#[test]
fn an_impossible_constraint() {
    let errors = after_replacing(
        "kernels/10_fast.toml",
        r#""BLOCK % UNROLL == 0""#,
        r#""UNROLL > 1", "BLOCK < UNROLL""#,
    );
    insta::assert_snapshot!(errors, @r#"
    kernels/10_fast.toml:5:30: impossible constraint: nothing satisfies `BLOCK < UNROLL`
        5 | constraints = ["UNROLL > 1", "BLOCK < UNROLL"]
          |                              ^^^^^^^^^^^^^^^^
    "#);
}

#[test]
fn impossible_constraints() {
    let errors = after_replacing(
        "kernels/10_fast.toml",
        r#""BLOCK % UNROLL == 0""#,
        r#""UNROLL < 2", "UNROLL > 2""#,
    );
    insta::assert_snapshot!(errors, @r#"
    kernels/10_fast.toml:5:16: impossible constraints: nothing satisfies this one and the others
        5 | constraints = ["UNROLL < 2", "UNROLL > 2"]
          |                ^^^^^^^^^^^^
    "#);
}

#[test]
fn an_unknown_tunable_to_expand() {
    let errors = after_replacing(
        "kernels/10_fast.toml",
        r#"expand  = ["BLOCK"]"#,
        r#"expand  = ["BLOCKS"]"#,
    );
    insta::assert_snapshot!(errors, @r#"
    kernels/10_fast.toml:17:12: unknown tunable `BLOCKS`
       17 | expand  = ["BLOCKS"]
          |            ^^^^^^^^
     help: did you mean `BLOCK`?
    "#);
}

#[test]
fn scratch_with_the_name_of_a_tensor() {
    let errors = after_replacing(
        "kernels/10_fast.toml",
        "[tunables]",
        "[[scratch]]\nname  = \"x\"\nbytes = \"N * 8\"\n\n[tunables]",
    );
    insta::assert_snapshot!(errors, @r#"
    kernels/10_fast.toml:12:9: `x` is already an argument of the lab's kernels
       12 | name  = "x"
          |         ^^^
    "#);
}

#[test]
fn scratch_beyond_reason() {
    let errors = after_replacing(
        "kernels/10_fast.toml",
        "[tunables]",
        "[[scratch]]\nname  = \"temporary\"\nbytes = \"N * 2 ** 40\"\n\n[tunables]",
    );
    insta::assert_snapshot!(errors, @r#"
    kernels/10_fast.toml:13:9: on workload `big`: `N * 2 ** 40` is 72057594037927936 bytes; 1 TiB is the limit
       13 | bytes = "N * 2 ** 40"
          |         ^^^^^^^^^^^^^
    "#);
}

#[test]
fn an_overflow() {
    let errors = after_replacing(
        "kernels/10_fast.toml",
        "[tunables]",
        "[[scratch]]\nname  = \"temporary\"\nbytes = \"N * 2 ** 60\"\n\n[tunables]",
    );
    insta::assert_snapshot!(errors, @r#"
    kernels/10_fast.toml:13:9: on workload `big`: `N * 2 ** 60`: overflow: the value does not fit into 64 bits
       13 | bytes = "N * 2 ** 60"
          |         ^^^^^^^^^^^^^
    "#);
}

#[test]
fn an_unknown_verdict() {
    let errors = after_replacing("kernels/10_fast.toml", "summary", "expect = \"wrong\"\nsummary");
    insta::assert_snapshot!(errors, @r#"
    kernels/10_fast.toml:3:10: unknown value `wrong`
        3 | expect = "wrong"
          |          ^^^^^^^
     help: known here: `compile_failed`, `crashed`, `timed_out`, `incorrect`, `implausible`, `passed`
    "#);
}

#[test]
fn a_missing_script() {
    let errors =
        after_replacing("baselines/numpy.toml", r#""numpy_scale.py""#, r#""numpy_scal.py""#);
    insta::assert_snapshot!(errors, @r#"
    baselines/numpy.toml:3:12: there is no file `baselines/numpy_scal.py`
        3 | script   = "numpy_scal.py"
          |            ^^^^^^^^^^^^^^^
     help: did you mean `numpy_scale.py`?
    "#);
}

#[test]
fn a_baseline_of_an_unknown_kind() {
    let errors = after_replacing("baselines/numpy.toml", "summary", "kind = \"cublas\"\nsummary");
    insta::assert_snapshot!(errors, @r#"
    baselines/numpy.toml:2:8: unknown value `cublas`
        2 | kind = "cublas"
          |        ^^^^^^^^
     help: did you mean `cublaslt`?
    "#);
}

#[test]
fn a_baseline_of_neither_script_nor_tensors() {
    let bare = "format = 1\nsummary = \"x\"\n";
    let errors = after(&[Edit::Write("baselines/x.toml", bare)]);
    insta::assert_snapshot!(errors, @r#"
    baselines/x.toml: the baseline has no `script`
     help: add `script = "NAME.py"`, or name another `kind`
    "#);
    let lt = "format = 1\nkind = \"cublaslt\"\nsummary = \"x\"\n";
    let errors = after(&[Edit::Write("baselines/x.toml", lt)]);
    insta::assert_snapshot!(errors, @r#"
    baselines/x.toml:2:8: cuBLASLt runs on a GPU; this lab is for the CPU
        2 | kind = "cublaslt"
          |        ^^^^^^^^^^
    baselines/x.toml:2:8: a baseline of this kind says in `gemm` which tensors are multiplied
        2 | kind = "cublaslt"
          |        ^^^^^^^^^^
     help: add `gemm = { a = "..", b = "..", c = ".." }`, the names of tensors
    "#);
}

#[test]
fn a_product_of_unknown_tensors() {
    let lt = "format = 1\nkind = \"cublaslt\"\nsummary = \"x\"\nscript = \"numpy_scale.py\"\n\
              gemm = { a = \"x\", b = \"z\", c = \"y\" }\nstart_s = 0\n";
    let errors = after(&[Edit::Write("baselines/x.toml", lt)]);
    insta::assert_snapshot!(errors, @r#"
    baselines/x.toml:2:8: cuBLASLt runs on a GPU; this lab is for the CPU
        2 | kind = "cublaslt"
          |        ^^^^^^^^^^
    baselines/x.toml:4:10: a baseline that the harness calls itself has no `script`
        4 | script = "numpy_scale.py"
          |          ^^^^^^^^^^^^^^^^
     help: remove it, or say `kind = "python"`
    baselines/x.toml:5:23: unknown tensor `z`
        5 | gemm = { a = "x", b = "z", c = "y" }
          |                       ^^^
     help: known here: `x`, `y`
    baselines/x.toml:6:11: `start_s` is at least 1
        6 | start_s = 0
          |           ^
    "#);
}

#[test]
fn a_summary_of_nothing() {
    let errors = after_replacing("baselines/numpy.toml", r#""NumPy""#, r#""""#);
    insta::assert_snapshot!(errors, @r#"
    baselines/numpy.toml:2:12: the summary must be one line of text
        2 | summary  = ""
          |            ^^
    "#);
}

#[test]
fn a_baseline_with_the_name_of_a_kernel() {
    let numpy = "format = 1\nsummary = \"NumPy\"\nscript = \"numpy_scale.py\"\n";
    let errors = after(&[Edit::Write("baselines/10_fast.toml", numpy)]);
    insta::assert_snapshot!(errors, @"baselines/10_fast.toml: this baseline has the name of a kernel");
    let errors = after(&[Edit::Write("baselines/a/b.toml", numpy)]);
    insta::assert_snapshot!(errors, @"baselines/a/b.toml: a baseline's name is made of letters, digits and underscores");
}
