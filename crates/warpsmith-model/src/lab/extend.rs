//! Adds tunables to a contract's text; everything else in it stays what it was.

use super::Tunable;
use crate::Value;

/// Returns a contract with further tunables, whose first values are their defaults. Without any it is
/// the same text. The result is not checked here: [`super::parse_kernel`] is what judges a contract.
pub fn with_tunables(contract: &str, added: &[Tunable]) -> Result<String, String> {
    if added.is_empty() {
        return Ok(contract.to_string());
    }
    let mut table: toml::Table =
        contract.parse().map_err(|error| format!("the contract is not TOML: {error}"))?;
    for tunable in added {
        let first = tunable.values.first();
        let first = first.ok_or_else(|| format!("the tunable `{}` has no values", tunable.name))?;
        let values = tunable.values.iter().map(toml_value).collect();
        let tunables = inner(&mut table, "tunables")?;
        if tunables.contains_key(&tunable.name) {
            return Err(format!("the contract already has a tunable `{}`", tunable.name));
        }
        tunables.insert(tunable.name.clone(), toml::Value::Array(values));
        let default = inner(inner(&mut table, "search")?, "default")?;
        default.insert(tunable.name.clone(), toml_value(first));
    }
    toml::to_string(&table).map_err(|error| format!("the contract cannot be written: {error}"))
}

fn inner<'a>(table: &'a mut toml::Table, key: &str) -> Result<&'a mut toml::Table, String> {
    let entry = table.entry(key).or_insert_with(|| toml::Value::Table(toml::Table::new()));
    entry.as_table_mut().ok_or_else(|| format!("`{key}` of the contract is not a table"))
}

fn toml_value(value: &Value) -> toml::Value {
    match value {
        Value::Bool(value) => toml::Value::Boolean(*value),
        Value::Int(value) => toml::Value::Integer(*value),
        Value::Float(value) => toml::Value::Float(*value),
        Value::Str(value) => toml::Value::String(value.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::{Lab, LabFiles, parse_kernel, scaffold};

    fn lab() -> Lab {
        let files: LabFiles = scaffold("blend").expect("a lab").into_iter().collect();
        Lab::parse(&files).expect("a valid lab")
    }

    #[test]
    fn further_tunables_leave_the_rest_of_a_contract_alone() {
        let lab = lab();
        for kernel in &lab.kernels {
            let added =
                [Tunable { name: "DEPTH".to_string(), values: vec![Value::Int(4), Value::Int(1)] }];
            let contract = with_tunables(&kernel.contract, &added).expect("extended");
            let extended =
                parse_kernel(&lab, &kernel.name, &contract, &kernel.source).expect("still valid");
            assert_eq!(extended.flags, kernel.flags);
            assert_eq!(extended.launches.len(), kernel.launches.len());
            for (one, other) in extended.launches.iter().zip(&kernel.launches) {
                assert_eq!(one.entry, other.entry);
                assert_eq!(one.blocks.text(), other.blocks.text());
            }
            assert_eq!(extended.tunables.len(), kernel.tunables.len() + 1);
            assert_eq!(extended.default.get("DEPTH"), Some(&Value::Int(4)));
            for (name, value) in &kernel.default.0 {
                assert_eq!(extended.default.get(name), Some(value));
            }
            let again = with_tunables(&contract, &added).expect_err("it has that name now");
            assert!(again.contains("DEPTH"), "{again}");
            assert_eq!(with_tunables(&kernel.contract, &[]).as_ref(), Ok(&kernel.contract));
        }
    }
}
