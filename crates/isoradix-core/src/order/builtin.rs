//! The built-in policies other than LRU.

use super::policy::{NodeFacts, Policy, PolicyFailure, PolicyKey};
use crate::error::Error;

/// A built-in policy that ranks leaves by key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Builtin {
    /// Least hits first, then least recently used.
    Lfu,
    /// Oldest insertion first.
    Fifo,
    /// Most recently used first.
    Mru,
    /// Newest insertion first.
    Filo,
    /// Lowest priority first, then least recently used.
    Priority,
    /// Segmented LRU: nodes with fewer hits than the threshold first, LRU inside each segment.
    ///
    /// Source: Karedla, Love, Wherry, "Caching strategies to improve disk system performance", 1994.
    Slru {
        /// Hits that make a node protected.
        threshold: u64,
    },
    /// Tail-optimised LRU: what cannot shorten the next prefill below its budget goes first, then LRU.
    ///
    /// A conversation whose history reached `reach` and whose next prompt adds `next_prompt` tokens needs only
    /// `reach + next_prompt - threshold` tokens cached to keep its next prefill within `threshold` tokens; a node
    /// that starts at or past that is safe to drop. Source: Zhang et al., arXiv:2510.15152.
    Tlru {
        /// Tokens that a prefill may compute and still be in time.
        threshold: u64,
        /// Tokens that the next prompt is expected to add.
        next_prompt: u64,
    },
}

/// LRU by key, for orders that the list does not keep.
pub(super) struct LeastRecent;

impl Policy for LeastRecent {
    fn name(&self) -> String {
        "lru".to_owned()
    }

    fn key(&mut self, facts: &NodeFacts<'_>) -> Result<PolicyKey, PolicyFailure> {
        Ok(PolicyKey(facts.last_access.seq, 0))
    }
}

impl Builtin {
    /// The policy of that name.
    pub(crate) fn parse(spec: &str) -> Result<Self, Error> {
        let (name, arguments) = spec.split_once(':').map_or((spec, None), |(name, rest)| (name, Some(rest)));
        let numbers =
            arguments.map_or(Ok(Vec::new()), |text| text.split(',').map(|part| part.trim().parse()).collect());
        let numbers: Vec<u64> = numbers.map_err(|_| unknown(spec))?;
        match (name, numbers.as_slice()) {
            ("lfu", []) => Ok(Self::Lfu),
            ("fifo", []) => Ok(Self::Fifo),
            ("mru", []) => Ok(Self::Mru),
            ("filo", []) => Ok(Self::Filo),
            ("priority", []) => Ok(Self::Priority),
            ("slru", []) => Ok(Self::Slru { threshold: 2 }),
            ("slru", [0]) => Err(plain_lru(spec, "every node reaches the threshold, so all are alike")),
            ("slru", [threshold]) => Ok(Self::Slru { threshold: *threshold }),
            ("tlru", []) => Err(plain_lru(spec, "without a threshold no node is safe to drop, so all are alike")),
            ("tlru", [threshold, next_prompt]) => Ok(Self::Tlru { threshold: *threshold, next_prompt: *next_prompt }),
            _ => Err(unknown(spec)),
        }
    }

    fn rank(self, facts: &NodeFacts<'_>) -> PolicyKey {
        let age = facts.last_access.seq;
        match self {
            Self::Lfu => PolicyKey(facts.hits, age),
            Self::Fifo => PolicyKey(facts.created.seq, 0),
            Self::Mru => PolicyKey(!age, 0),
            Self::Filo => PolicyKey(!facts.created.seq, 0),
            Self::Priority => PolicyKey(PolicyKey::from_signed(facts.priority, 0).0, age),
            Self::Slru { threshold } => PolicyKey(u64::from(facts.hits >= threshold), age),
            Self::Tlru { threshold, next_prompt } => {
                let budget = facts.reach.saturating_add(next_prompt).saturating_sub(threshold);
                let safe_to_drop = facts.depth - facts.length >= budget;
                PolicyKey(u64::from(!safe_to_drop), age)
            }
        }
    }
}

fn unknown(spec: &str) -> Error {
    Error::Invalid {
        what: format!("unknown eviction policy {spec:?}"),
        hint: "use lru, lfu, fifo, mru, filo, priority, slru[:threshold] or tlru:threshold,next_prompt",
    }
}

/// Refused rather than taken for what it comes to: who asks for segments or a tail bound wants them.
fn plain_lru(spec: &str, why: &str) -> Error {
    Error::Invalid {
        what: format!("eviction policy {spec:?} is plain lru: {why}"),
        hint: "use lru, slru:threshold with a threshold of 2 or more, or tlru:threshold,next_prompt in tokens",
    }
}

impl Policy for Builtin {
    fn name(&self) -> String {
        match self {
            Self::Lfu => "lfu".to_owned(),
            Self::Fifo => "fifo".to_owned(),
            Self::Mru => "mru".to_owned(),
            Self::Filo => "filo".to_owned(),
            Self::Priority => "priority".to_owned(),
            Self::Slru { threshold } => format!("slru:{threshold}"),
            Self::Tlru { threshold, next_prompt } => format!("tlru:{threshold},{next_prompt}"),
        }
    }

    fn key(&mut self, facts: &NodeFacts<'_>) -> Result<PolicyKey, PolicyFailure> {
        Ok(self.rank(facts))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_specs() {
        for spec in ["lfu", "fifo", "mru", "filo", "priority", "slru:2", "slru:9", "tlru:0,0", "tlru:4096,512"] {
            assert_eq!(Builtin::parse(spec).unwrap().name(), spec);
        }
    }

    #[test]
    fn misspelt_specs_are_refused() {
        for spec in ["", "LRU", "lfu:1", "slru:", "slru:-1", "slru:1,2", "tlru:1", "tlru:a,b", "tlru:", "slru:1:2"] {
            assert!(Builtin::parse(spec).is_err(), "{spec}");
        }
    }

    #[test]
    fn specs_that_come_to_plain_lru_are_refused_as_that() {
        for spec in ["slru:0", "tlru"] {
            let message = Builtin::parse(spec).unwrap_err().to_string();
            assert!(message.contains("is plain lru: ") && message.contains("\nhint: use lru, "), "{message}");
        }
    }
}
