//! Whatever the text: parsing and evaluation answer or report, and never panic.
#![no_main]

use libfuzzer_sys::fuzz_target;
use warpsmith_model::{Expr, Value};

fuzz_target!(|text: &str| {
    match Expr::parse(text) {
        Err(error) => assert!(error.offset <= text.len()),
        Ok(expr) => {
            for value in [
                Value::Int(3),
                Value::Int(i64::MIN),
                Value::Float(-0.5),
                Value::Bool(true),
                Value::Str("gcc".to_string()),
            ] {
                let by_name = expr.eval(&|_| Some(value.clone()));
                let values = vec![value; expr.names().len()];
                let by_position = expr.eval_with(&values);
                assert_eq!(format!("{by_name:?}"), format!("{by_position:?}"));
            }
        }
    }
});
