//! Tests of the language by table; `tests/it/python.rs` compares it with Python itself.

use super::*;

fn lookup(name: &str) -> Option<Value> {
    match name {
        "A" => Some(Value::Int(7)),
        "B" => Some(Value::Int(-3)),
        "F" => Some(Value::Float(2.5)),
        "T" => Some(Value::Bool(true)),
        "CC" => Some(Value::Str("gcc".to_string())),
        _ => None,
    }
}

/// Checks a value by its debug text, which tells `1`, `1.0` and `true` apart.
fn check(text: &str, expected: &str) {
    let got = match Expr::parse(text) {
        Err(error) => format!("{}: {error}", error.offset),
        Ok(expr) => match expr.eval(&lookup) {
            Ok(Value::Str(value)) => format!("'{value}'"),
            Ok(value) => value.to_string(),
            Err(error) => error.to_string(),
        },
    };
    assert_eq!(got, expected, "for `{text}`");
}

#[test]
fn arithmetic_is_pythons() {
    check("1 + 2 * 3", "7");
    check("7 / 2", "3.5");
    check("6 / 2", "3.0");
    check("A // 2", "3");
    check("-7 // 2", "-4");
    check("7 // -2", "-4");
    check("-7 % 3", "2");
    check("7 % -3", "-2");
    check("-7.5 // 2", "-4.0");
    check("7.5 % -2", "-0.5");
    check("2 ** 10", "1024");
    check("2 ** -1", "0.5");
    check("-2 ** 2", "-4");
    check("(-2) ** 2", "4");
    check("2 ** 3 ** 2", "512");
    check("2 ** -2 ** 2", "0.0625");
    check("+True", "1");
    check("-T + T", "0");
    check("True + True", "2");
    check("1_000 + 0x10 + 0b11 + 0o7", "1026");
    check("1. + .5 + 1e2", "101.5");
    check("9007199254740993 / 1", "9007199254740992.0");
    check("1 - 2 - 3", "-4");
    check("100 / 10 / 2", "5.0");
}

#[test]
fn logic_returns_operands_and_stops_early() {
    check("0 or A", "7");
    check("A and B", "-3");
    check("0 and MISSING", "0");
    check("1 or MISSING", "1");
    check("1 and MISSING", "`1 and MISSING`: `MISSING` is not known");
    check("not A", "false");
    check("not not 0.5", "true");
    check("'' or 'x'", "'x'");
    check("1 if A > 100 else 2", "2");
    check("1 if T else MISSING", "1");
    check("1 if 0 else 2 if 0 else 3", "3");
    check("not 1 == 2", "true");
    check("True or True and False", "true");
}

#[test]
fn comparisons_chain_and_compare_exactly() {
    check("1 < 2 < 3", "true");
    check("1 < 3 < 2", "false");
    check("3 > 2 == 2 != 5 >= 5", "true");
    check("2 < 1 < MISSING", "false");
    check("1 == 1.0 == True", "true");
    check("9007199254740993 == 9007199254740992.0", "false");
    check("9007199254740993 > 9007199254740992.0", "true");
    check("9223372036854775807 < 9.3e18", "true");
    check("-0.0 == 0", "true");
    check("CC == 'gcc'", "true");
    check("CC == 1", "false");
    check("CC != 1", "true");
    check("'a' < 'b'", "true");
    check("A in [1, 7]", "true");
    check("A not in (1, 7)", "false");
    check("CC in ['gcc', 'clang',]", "true");
    check("1 in []", "false");
    check("1 in (1,)", "true");
    check("1 < 2 in [2]", "true");
    check("3 < 2 in [2]", "false");
    check("CC < 1", "`CC < 1`: `<` cannot order a text and an integer");
}

#[test]
fn functions_are_pythons() {
    check("min(3, 1, 2)", "1");
    check("max(1, 2.5)", "2.5");
    check("max(1, True)", "1");
    check("max(True, 1)", "true");
    check("min('b', 'a')", "'a'");
    check("abs(B)", "3");
    check("abs(-0.5)", "0.5");
    check("abs(False)", "0");
    check("ceil_div(7, 2)", "4");
    check("ceil_div(-7, 2)", "-3");
    check("ceil_div(8, 2)", "4");
    check("ceil_div(7.0, 2)", "4.0");
    check("int(2.9)", "2");
    check("int(-2.9)", "-2");
    check("round(2.5)", "2");
    check("round(3.5)", "4");
    check("round(-0.5)", "0");
    check("float(3)", "3.0");
    check("bool('')", "false");
    check("bool(F)", "true");
}

#[test]
fn what_has_no_value_is_an_error() {
    check("1 // 0", "`1 // 0`: division by zero");
    check("1 / 0.0", "`1 / 0.0`: division by zero");
    check("1 % 0", "`1 % 0`: division by zero");
    check("ceil_div(1, 0)", "`ceil_div(1, 0)`: division by zero");
    check("0 ** -1", "`0 ** -1`: 0 to a negative power is a division by zero");
    check("(-8) ** 0.5", "`(-8) ** 0.5`: a root of a negative number is not real");
    check("2 ** 63", "`2 ** 63`: overflow: the value does not fit into 64 bits");
    check("2 ** 62 * 2", "`2 ** 62 * 2`: overflow: the value does not fit into 64 bits");
    check("10.0 ** 400", "`10.0 ** 400`: overflow: the value does not fit into 64 bits");
    check("int(1e300)", "`int(1e300)`: overflow: the value does not fit into 64 bits");
    check("int(1e999)", "`int(1e999)`: inf has no integer value");
    check("'a' + 'b'", "`'a' + 'b'`: `+` is not defined for a text and a text");
    check("-CC", "`-CC`: a text has no sign");
    check("int('5')", "`int('5')`: `int` is not defined for a text");
    check("1 ** 9223372036854775807", "1");
    check("(-1) ** 9223372036854775807", "-1");
}

#[test]
fn what_is_no_expression_is_an_error_with_a_place() {
    check("", "0: the expression is empty");
    check("   ", "3: expected a value, got the end");
    check("1 +", "3: expected a value, got the end");
    check("1 2", "2: unexpected the number 2");
    check("(1", "0: this needs a `)`");
    check("(1]", "2: expected `)`, got `]`");
    check("[1, 2]", "0: a list can only stand after `in`");
    check("1, 2", "1: a list can only stand after `in`");
    check("(1, 2)", "2: a list can only stand after `in`");
    check("A in 3", "5: `in` needs a literal list, such as `[1, 2, 4]`");
    check("A in (3)", "5: parentheses around one value make no list; write `[...]`");
    check("A in [1] == T", "9: a list cannot be compared");
    check("1 if 2", "2: this `if` has no `else`");
    check("A && B", "2: write `and` for `&&`");
    check("A || B", "2: write `or` for `||`");
    check("!A", "0: write `not` for `!`");
    check("A = B", "2: write `==` to compare");
    check("A ? 1 : 2", "2: write `x if condition else y` for `condition ? x : y`");
    check("A << 2", "2: there is no `<<`; write `* 2 **`");
    check("1 + not 2", "4: put parentheses around `not ...` here");
    check("true", "0: truth is written `True`");
    check("ceildiv(1, 2)", "0: unknown function `ceildiv`; did you mean `ceil_div`?");
    check(
        "sqrt(4)",
        "0: unknown function `sqrt`; there are min, max, abs, ceil_div, int, float, round, bool",
    );
    check("min(1)", "0: `min` takes at least 2 arguments, not 1");
    check("abs(1, 2)", "0: `abs` takes 1 argument, not 2");
    check("ceil_div(1)", "0: `ceil_div` takes 2 arguments, not 1");
    check("012", "0: a whole number must not start with 0");
    check("1__0", "0: an underscore in a number must stand between two digits");
    check("12abc", "2: a number must not run into a name");
    check("1e", "0: the exponent of this number has no digits");
    check("0x", "0: `` is not a whole number to base 16");
    check("99999999999999999999", "0: this number does not fit into 64 bits");
    check("'abc", "0: this text has no closing '");
    check(r"'a\q'", r#"2: texts know the escapes \\, \', \", \n and \t alone"#);
    check("A @ B", "2: `@` has no meaning here");
    check("x is None", "2: expressions here have no `is`");
}

#[test]
fn nesting_is_limited() {
    let deep = |n: usize, open: &str, close: &str| {
        Expr::parse(&format!("{}1{}", open.repeat(n), close.repeat(n)))
    };
    assert!(deep(150, "(", ")").is_ok());
    for (open, close) in [("(", ")"), ("-", ""), ("not ", ""), ("abs(", ")"), ("2 ** ", "")] {
        let error = deep(100_000, open, close).expect_err("too deep");
        assert!(error.message.contains("200 levels"), "{error}");
    }
    let error = Expr::parse(&format!("1{}", " + 1".repeat(100_000))).expect_err("too tall");
    assert!(error.message.contains("200 levels"), "{error}");
    assert!(Expr::parse(&format!("1{}", " and 1".repeat(1000))).is_ok(), "chains stay flat");
}

#[test]
fn names_are_sorted_and_bind_by_position() {
    let expr = Expr::parse("Z * A + min(Z, M) if CC == 'gcc' else A").expect("valid");
    assert_eq!(expr.names(), ["A", "CC", "M", "Z"]);
    let values = [Value::Int(2), Value::Str("gcc".to_string()), Value::Int(100), Value::Int(10)];
    assert_eq!(expr.eval_with(&values), Ok(Value::Int(30)));
    assert_eq!(expr.eval_bool_with(&values), Ok(true));
    assert!(expr.eval_with(&values[..3]).is_err());
}

#[test]
fn an_integer_must_be_one() {
    let int = |text: &str| Expr::parse(text).expect("valid").eval_int(&lookup);
    assert_eq!(int("A // 2"), Ok(3));
    assert_eq!(int("T"), Ok(1));
    let message = "`A / 7`: 1.0 is a float where an integer is needed; divide with `//` or use \
                   `int`";
    assert_eq!(int("A / 7"), Err(EvalError(message.to_string())));
    assert!(int("CC").is_err());
}
