//! What is damaged of earlier runs: a later one leaves it out and says so, since it can do without.

use warpsmith_evidence::StoreError;

use crate::output::{WARN, paint, say, wrapped};

/// Returns what is intact, or nothing and says what is damaged. Other errors are errors.
pub fn intact<T>(read: Result<T, StoreError>) -> Result<Option<T>, StoreError> {
    match read {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.is_damage() => {
            say(wrapped(&format!("{}: left out: {error}", paint(WARN, "note"))));
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Returns what is intact of several, and says what is damaged.
pub fn all_intact<T>(read: Vec<Result<T, StoreError>>) -> Result<Vec<T>, StoreError> {
    read.into_iter().filter_map(|one| intact(one).transpose()).collect()
}
