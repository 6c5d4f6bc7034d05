//! Identity is content: ids are BLAKE3 hashes of what they name.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

macro_rules! id_type {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name([u8; 32]);

        impl $name {
            /// Returns the id of these bytes.
            pub fn of(bytes: &[u8]) -> Self {
                Self(*blake3::hash(bytes).as_bytes())
            }

            /// Returns the first twelve hexadecimal digits, for people.
            pub fn short(&self) -> String {
                self.to_string()[..12].to_string()
            }
        }

        impl From<Hasher> for $name {
            fn from(hasher: Hasher) -> Self {
                Self(*hasher.0.finalize().as_bytes())
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self.short())
            }
        }

        impl FromStr for $name {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, String> {
                blake3::Hash::from_hex(text)
                    .map(|hash| Self(*hash.as_bytes()))
                    .map_err(|error| format!("`{text}` is not a content id: {error}"))
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = String::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}

id_type! {
    /// Names a stored byte string: a source, a log, a binary.
    BlobId
}
id_type! {
    /// Names a candidate: source, headers, parameters, contract and compiler.
    CandidateId
}
id_type! {
    /// Names the state of a lab's files.
    LabId
}
id_type! {
    /// Names one evaluation of one candidate in one run.
    TrialId
}
id_type! {
    /// Names the machine, the tools and the protections that a trial ran with.
    EnvironmentId
}

/// Collects the parts of a compound identity; every part is length-prefixed, so no two lists of
/// parts collide by concatenation.
#[derive(Debug, Default)]
pub struct Hasher(blake3::Hasher);

impl Hasher {
    /// Starts a hash in a namespace, so that equal parts of different kinds differ.
    pub fn new(kind: &str) -> Self {
        let mut hasher = Self(blake3::Hasher::new());
        hasher.part(kind.as_bytes());
        hasher
    }

    /// Adds one part.
    pub fn part(&mut self, bytes: &[u8]) -> &mut Self {
        self.0.update(&(bytes.len() as u64).to_le_bytes());
        self.0.update(bytes);
        self
    }
}

/// Names a campaign; made for people to type (`attention-20260131-142530-9f3a`).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RunId(pub String);

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_round_trip_through_text() {
        let id = BlobId::of(b"kernel");
        assert_eq!(id.to_string().parse(), Ok(id));
        assert!("xyz".parse::<BlobId>().is_err());
    }

    #[test]
    fn parts_do_not_collide_by_concatenation() {
        let mut one = Hasher::new("test");
        one.part(b"ab").part(b"c");
        let mut other = Hasher::new("test");
        other.part(b"a").part(b"bc");
        assert_ne!(BlobId::from(one), BlobId::from(other));
    }
}
