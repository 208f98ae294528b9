//! A policy ranks by Logical facts: a per-rank value is no fact and no part of a key.

use isoradix_core::{NodeFacts, PerRank, PolicyKey};

fn rank(facts: &mut NodeFacts<'_>, free_pages: PerRank<u64>) -> PolicyKey {
    facts.hits = PerRank::observe(1_u64);
    PolicyKey(free_pages, 0)
}

fn main() {
    let _ = rank;
}
