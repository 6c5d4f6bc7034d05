//! Properties of the expression language and of contracts, on arbitrary input.

use proptest::prelude::*;
use warpsmith_model::lab::{Lab, parse_kernel};
use warpsmith_model::{EvalError, Expr, Value};

use crate::edits::good_lab;

/// Expressions over `A`, `B` and `F`, by construction valid.
fn expressions() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        any::<u32>().prop_map(|value| value.to_string()),
        any::<i16>().prop_map(|value| format!("({value})")),
        (-1e6..1e6f64).prop_map(|value| format!("({value:?})")),
        Just("A".to_string()),
        Just("B".to_string()),
        Just("F".to_string()),
        Just("True".to_string()),
        Just("'text'".to_string()),
    ];
    let operator = proptest::sample::select(vec![
        "+", "-", "*", "/", "//", "%", "==", "!=", "<", "<=", ">", ">=", "and", "or",
    ]);
    leaf.prop_recursive(5, 40, 3, move |inner| {
        prop_oneof![
            (inner.clone(), operator.clone(), inner.clone())
                .prop_map(|(left, operator, right)| format!("{left} {operator} {right}")),
            inner.clone().prop_map(|text| format!("({text})")),
            inner.clone().prop_map(|text| format!("(not {text})")),
            inner.clone().prop_map(|text| format!("(-{text})")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("min({a}, {b})")),
            (inner.clone(), inner.clone(), inner.clone())
                .prop_map(|(a, b, c)| format!("({a} if {b} else {c})")),
            (inner.clone(), inner).prop_map(|(a, b)| format!("({a} in [{b}, 1])")),
        ]
    })
}

fn lookup(name: &str) -> Option<Value> {
    match name {
        "A" => Some(Value::Int(12)),
        "B" => Some(Value::Int(-5)),
        "F" => Some(Value::Float(0.75)),
        _ => None,
    }
}

/// Evaluates a text; an error's message names the text, so comparisons leave it out.
fn eval(text: &str) -> Option<Value> {
    let expr = Expr::parse(text).unwrap_or_else(|error| panic!("`{text}`: {error}"));
    expr.eval(&lookup).ok()
}

/// Returns the debug text, in which a NaN equals itself.
fn shown(value: &Option<Value>) -> String {
    format!("{value:?}")
}

proptest! {
    #[test]
    fn parsing_never_panics_and_points_into_the_text(text in ".{0,80}") {
        if let Err(error) = Expr::parse(&text) {
            prop_assert!(error.offset <= text.len());
            prop_assert!(!error.message.is_empty());
        }
    }

    #[test]
    fn parsing_soup_of_tokens_never_panics(
        tokens in proptest::collection::vec(
            proptest::sample::select(vec![
                "A", "1", "2.5", "'x'", "(", ")", "[", "]", ",", "+", "-", "*", "/", "//", "%",
                "**", "<", "==", "!=", "in", "not", "and", "or", "if", "else", "min", "True",
            ]),
            0..40,
        )
    ) {
        if let Ok(expr) = Expr::parse(&tokens.join(" ")) {
            let _ = expr.eval(&lookup);
        }
    }

    #[test]
    fn parentheses_and_spaces_change_nothing(text in expressions()) {
        let value = shown(&eval(&text));
        prop_assert_eq!(&shown(&eval(&format!(" (( {text} ) ) "))), &value);
        prop_assert_eq!(&shown(&eval(&text.replace(' ', "\t  "))), &value);
    }

    #[test]
    fn values_by_position_are_values_by_name(text in expressions()) {
        let expr = Expr::parse(&text).expect("valid by construction");
        let values: Vec<Value> =
            expr.names().into_iter().map(|name| lookup(name).expect("known")).collect();
        let (by_name, by_position) = (expr.eval(&lookup), expr.eval_with(&values));
        prop_assert_eq!(format!("{by_name:?}"), format!("{by_position:?}"));
        let truth = expr.eval_bool_with(&values);
        prop_assert_eq!(truth, expr.eval_bool(&lookup));
    }

    #[test]
    fn logic_obeys_de_morgan(left in expressions(), right in expressions()) {
        let one = eval(&format!("not (({left}) and ({right}))"));
        let other = eval(&format!("(not ({left})) or (not ({right}))"));
        prop_assert_eq!(one, other);
    }

    #[test]
    fn floor_division_and_remainder_fit_together(a in any::<i64>(), b in any::<i64>()) {
        let bind = |name: &str| Some(Value::Int(if name == "a" { a } else { b }));
        let whole = |text: &str| Expr::parse(text).expect("valid").eval_int(&bind);
        match (whole("a // b"), whole("a % b")) {
            (Ok(quotient), Ok(remainder)) => {
                let product = i128::from(quotient) * i128::from(b) + i128::from(remainder);
                prop_assert_eq!(product, i128::from(a));
                prop_assert!(remainder == 0 || (remainder < 0) == (b < 0));
                let ceiling = whole("ceil_div(a, b)");
                prop_assert_eq!(ceiling, Ok(quotient + i64::from(remainder != 0)));
            }
            (Err(EvalError(message)), _) => {
                prop_assert!(b == 0 || (a, b) == (i64::MIN, -1), "{message}");
            }
            (Ok(_), Err(error)) => prop_assert!(false, "{error}"),
        }
    }

    #[test]
    fn integers_and_floats_compare_exactly(a in any::<i64>(), shift in -2i64..3) {
        // The float nearest to an integer is the neighbourhood where rounding would show.
        let b = a.wrapping_add(shift) as f64;
        let bind = |name: &str| Some(if name == "a" { Value::Int(a) } else { Value::Float(b) });
        let less = Expr::parse("a < b").expect("valid").eval_bool(&bind).expect("numbers");
        let more = Expr::parse("a > b").expect("valid").eval_bool(&bind).expect("numbers");
        let equal = Expr::parse("a == b").expect("valid").eval_bool(&bind).expect("numbers");
        let (wide_a, wide_b) = (i128::from(a), b as i128);
        prop_assert_eq!((less, more, equal), (wide_a < wide_b, wide_a > wide_b, wide_a == wide_b));
    }

    #[test]
    fn a_contract_with_any_text_inserted_never_panics(
        at in 0usize..400,
        length in 0usize..20,
        text in ".{0,20}",
    ) {
        let files = good_lab();
        let lab = Lab::parse(&files).expect("the good lab is good");
        let mut letters: Vec<char> = files["kernels/10_fast.toml"].chars().collect();
        let at = at.min(letters.len());
        let end = (at + length).min(letters.len());
        letters.splice(at..end, text.chars());
        let contract: String = letters.into_iter().collect();
        if let Err(errors) = parse_kernel(&lab, "10_fast", &contract, "") {
            prop_assert!(!errors.0.is_empty());
            prop_assert!(!errors.to_string().is_empty());
        }
    }
}
