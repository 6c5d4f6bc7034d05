//! Compares the expression language with Python itself on seeded random expressions.

use std::io::Write;
use std::process::{Command, Stdio};

use warpsmith_model::rng::Rng;
use warpsmith_model::{Expr, Value};

/// Reads expressions, one JSON string a line, and prints what each is: `int 3`, `float 0x1p+0`,
/// `bool True`, `str x`, or `error`.
const JUDGE: &str = r#"
import ast, json, operator, sys

NAMES = {"A": 7, "B": -3, "C": 0, "BIG": 2**62, "F": 2.5, "G": -0.1, "T": True, "S": "gcc"}

def ceil_div(a, b):
    return -(-a // b)

FUNCTIONS = {"min": min, "max": max, "abs": abs, "ceil_div": ceil_div, "int": int,
             "float": float, "round": round, "bool": bool}

def fits(value):
    # Python computes beyond 64 bits and real numbers, which we refuse, also on the way.
    if type(value) is int and not -2**63 <= value < 2**63:
        raise OverflowError
    if isinstance(value, complex):
        raise ValueError
    return value

def operand(value):
    # Python repeats and joins texts; we compute with numbers alone.
    if isinstance(value, str):
        raise TypeError
    return value

class Checked(ast.NodeTransformer):
    """Wraps every operation and call, and the operands of arithmetic, into a check."""
    def wrap(self, node):
        self.generic_visit(node)
        return check("fits", node)
    visit_UnaryOp = wrap
    visit_Call = wrap
    def visit_BinOp(self, node):
        self.generic_visit(node)
        left, right = check("operand", node.left), check("operand", node.right)
        return check("fits", ast.BinOp(left, node.op, right))

def check(name, node):
    return ast.Call(ast.Name(name, ast.Load()), [node], [])

def judge(text):
    scope = {"__builtins__": {}, "fits": fits, "operand": operand, **FUNCTIONS, **NAMES}
    tree = ast.parse(text, mode="eval")
    checked = ast.fix_missing_locations(Checked().visit(ast.parse(text, mode="eval")))
    try:
        value = eval(compile(checked, "checked", "eval"), scope)
    except Exception:
        return "error"
    plain = eval(compile(tree, "plain", "eval"), scope)
    assert repr(plain) == repr(value), (text, plain, value)
    if isinstance(value, float):
        return "float " + value.hex()
    return type(value).__name__ + " " + str(value)

for line in sys.stdin:
    print(judge(json.loads(line)))
"#;

const SEED: u64 = 20_260_131;
const N_EXPRESSIONS: usize = 6000;

#[test]
fn values_are_pythons() {
    let mut rng = Rng::new(SEED);
    let mut texts: Vec<String> = HAND_PICKED.iter().map(|text| text.to_string()).collect();
    texts.extend((0..N_EXPRESSIONS).map(|idx| expression(&mut rng, 1 + idx % 4)));
    let expected = ask_python(&texts);
    assert_eq!(expected.len(), texts.len(), "one answer a line");
    let mut n_values = 0;
    for (text, expected) in texts.iter().zip(&expected) {
        let got = describe(text);
        let tolerance = if text.contains("**") { 2.0 * f64::EPSILON } else { 0.0 };
        assert!(agree(&got, expected, tolerance), "`{text}`\n  python {expected}\n  ours   {got}");
        n_values += usize::from(expected != "error");
    }
    assert!(n_values > N_EXPRESSIONS / 2, "only {n_values} expressions have a value");
}

fn ask_python(texts: &[String]) -> Vec<String> {
    let mut python = Command::new("python3")
        .args(["-W", "ignore", "-c", JUDGE])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the test suite needs python3");
    let mut input = python.stdin.take().expect("piped");
    let lines: String = texts
        .iter()
        .map(|text| serde_json::to_string(text).expect("texts serialise") + "\n")
        .collect();
    let writer = std::thread::spawn(move || input.write_all(lines.as_bytes()));
    let output = python.wait_with_output().expect("python3 answers");
    writer.join().expect("no panic").expect("python3 reads everything");
    assert!(output.status.success(), "python3 failed");
    let text = String::from_utf8(output.stdout).expect("plain text");
    text.lines().map(str::to_string).collect()
}

fn describe(text: &str) -> String {
    let expr = Expr::parse(text).unwrap_or_else(|error| panic!("`{text}`: {error}"));
    let value = expr.eval(&|name| {
        Some(match name {
            "A" => Value::Int(7),
            "B" => Value::Int(-3),
            "C" => Value::Int(0),
            "BIG" => Value::Int(1 << 62),
            "F" => Value::Float(2.5),
            "G" => Value::Float(-0.1),
            "T" => Value::Bool(true),
            "S" => Value::Str("gcc".to_string()),
            _ => return None,
        })
    });
    match value {
        Ok(Value::Int(value)) => format!("int {value}"),
        Ok(Value::Bool(value)) => format!("bool {}", if value { "True" } else { "False" }),
        Ok(Value::Float(value)) => format!("float {value:?}"),
        Ok(Value::Str(value)) => format!("str {value}"),
        Err(_) => "error".to_string(),
    }
}

/// Says whether the answers agree; floats by every bit without a tolerance. Powers need one: they
/// come from two mathematical libraries, which may differ in the last place.
fn agree(got: &str, expected: &str, tolerance: f64) -> bool {
    let (Some(got), Some(expected)) = (got.strip_prefix("float "), expected.strip_prefix("float "))
    else {
        return got == expected;
    };
    let got: f64 = got.parse().expect("we wrote it");
    let expected = parse_hex_float(expected);
    let is_same = got.to_bits() == expected.to_bits() || (got.is_nan() && expected.is_nan());
    is_same || (got - expected).abs() <= tolerance * expected.abs()
}

/// Parses what Python's `float.hex` writes.
fn parse_hex_float(text: &str) -> f64 {
    let (sign, text) = text.strip_prefix('-').map_or((1.0, text), |rest| (-1.0, rest));
    let Some(text) = text.strip_prefix("0x") else {
        return sign * text.parse::<f64>().expect("inf or nan");
    };
    let (digits, exponent) = text.split_once('p').expect("an exponent");
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let mantissa = u64::from_str_radix(&format!("{whole}{fraction}"), 16).expect("digits");
    let exponent: i32 = exponent.parse().expect("a number");
    // Two steps, because the power alone can be below the least normal number.
    let scale = exponent - 4 * fraction.len() as i32;
    sign * mantissa as f64 * 2f64.powi(scale / 2) * 2f64.powi(scale - scale / 2)
}

/// Returns a random expression of limited depth. Exponents are kept small, because Python would
/// compute a number with a million digits where we refuse.
fn expression(rng: &mut Rng, depth: usize) -> String {
    if depth == 0 {
        return atom(rng).to_string();
    }
    let part = |rng: &mut Rng| {
        let text = expression(rng, depth - 1);
        if rng.below(3) == 0 { format!("({text})") } else { text }
    };
    match rng.below(22) {
        0..=7 => {
            let operator = pick(rng, &["+", "-", "*", "/", "//", "%"]);
            format!("{} {operator} {}", part(rng), part(rng))
        }
        8 => format!(
            "{} ** {}",
            power_base(rng),
            pick(rng, &["2", "3", "-1", "-2", "0", "0.5", "1.5"])
        ),
        9 => format!("-{}", part(rng)),
        10 => format!("(not {})", part(rng)),
        11 => format!("({} and {})", part(rng), part(rng)),
        12 => format!("({} or {})", part(rng), part(rng)),
        13..=15 => {
            let operators = ["==", "!=", "<", "<=", ">", ">="];
            let (first, second) = (pick(rng, &operators), pick(rng, &operators));
            format!("({} {first} {} {second} {})", part(rng), part(rng), part(rng))
        }
        16 => {
            let operator = pick(rng, &["in", "not in"]);
            format!("({} {operator} [{}, {}])", part(rng), part(rng), part(rng))
        }
        17 => format!("({} if {} else {})", part(rng), part(rng), part(rng)),
        18 => format!("{}({}, {})", pick(rng, &["min", "max"]), part(rng), part(rng)),
        19 => format!("ceil_div({}, {})", part(rng), part(rng)),
        20 => format!("{}({})", pick(rng, &["abs", "float", "bool"]), part(rng)),
        // Python converts texts too, which we refuse; numbers alone are compared.
        _ => format!("{}({} + 0)", pick(rng, &["int", "round"]), part(rng)),
    }
}

fn power_base(rng: &mut Rng) -> &'static str {
    pick(rng, &["A", "B", "C", "F", "G", "T", "2", "10", "-2", "-F", "0.0"])
}

fn atom(rng: &mut Rng) -> &'static str {
    pick(
        rng,
        &[
            "A",
            "B",
            "C",
            "BIG",
            "F",
            "G",
            "T",
            "S",
            "0",
            "1",
            "2",
            "3",
            "-1",
            "10",
            "64",
            "1024",
            "0.5",
            "1.5",
            "2.0",
            "1e3",
            "1e-3",
            "1e300",
            "True",
            "False",
            "'gcc'",
            "\"a\"",
            "''",
            "9007199254740993",
            "9223372036854775807",
        ],
    )
}

fn pick<'a>(rng: &mut Rng, choices: &[&'a str]) -> &'a str {
    choices[rng.below(choices.len())]
}

/// Corners that chance may miss.
const HAND_PICKED: &[&str] = &[
    "-2 ** 2",
    "2 ** -2 ** 2",
    "2 ** 3 ** 2",
    "(-8) ** (1 / 3)",
    "0 ** 0",
    "0 ** -1",
    "0.0 ** -1",
    "2 ** 62 + (2 ** 62 - 1)",
    "2 ** 63",
    "-BIG - BIG",
    "-BIG * 2 // -1",
    "(-BIG - BIG) % -1",
    "(-BIG - BIG) // 1",
    "abs(-BIG - BIG)",
    "9007199254740993 / 3",
    "9223372036854775807 / 10",
    "9223372036854775807 / 9223372036854775806",
    "1 / 9223372036854775807",
    "-9007199254740993 / 7",
    "(-BIG - BIG) / 3",
    "0 / -5",
    "9007199254740993 == 9007199254740993.0",
    "9007199254740993 > 9007199254740992.0",
    "9223372036854775807 == 9223372036854775808.0",
    "9223372036854775807 < 9223372036854775808.0",
    "-7.5 // 2",
    "7.5 % -2",
    "-7.5 % 2",
    "1e300 // 1e-300",
    "0.0 // -1",
    "-0.0 % 3",
    "1 // 0.1",
    "1e308 * 10",
    "1e308 * 10 - 1e308 * 10",
    "1e999 // 2",
    "5 // -1e999",
    "5 % -1e999",
    "min(1, 1.0)",
    "max(1.0, True)",
    "min(1e308 * 10 - 1e308 * 10, 1)",
    "max(1, 1e308 * 10 - 1e308 * 10)",
    "round(0.5)",
    "round(1.5)",
    "round(-2.5)",
    "round(True)",
    "int(-0.9)",
    "int(1e18)",
    "int(1e19)",
    "int(9223372036854775807.0)",
    "float(9007199254740993)",
    "1 < 2 < 3 < 2",
    "1 < 2 in (2, 3)",
    "1 not in [] and 2 not in (1,)",
    "not 1 == 2",
    "not not 'a' or 3",
    "1 if 0 else 2 if 0 else 3",
    "'a' < 'b' < 'c'",
    "'a' == 1",
    "'a' < 1",
    "'b' in ['a', 'b']",
    "True + True * 2.5",
    "-True",
    "+False",
    "1_000_000 + 0xff + 0b11 + 0o17",
    "1. + .5 + 1_0.2_5e1_0",
    "00 + 0_0",
];
