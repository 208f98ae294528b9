//! The pool: three ranks against a naive model, the cases at this level, and every refusal.

mod cases;
mod naive;
mod refusals;
mod step;
mod trio;

use super::{Backing, HostPool};
use crate::ordinal::Ordinal;
use crate::provenance::{Agreed, Applied, PerRank};

/// Stands in for the frame that would have carried the value.
fn agreed(value: u32) -> Agreed<u32> {
    Agreed::mint(&Applied::after_all_checks(), value)
}

fn voting(physical: u32, capacity: u32) -> HostPool {
    HostPool::new(PerRank::observe(physical), agreed(capacity), Backing::Voting).unwrap()
}

fn fixed(pages: u32) -> HostPool {
    HostPool::new(PerRank::observe(pages), agreed(pages), Backing::Fixed).unwrap()
}

/// Asks and reserves; what the rank votes.
fn reserved(pool: &mut HostPool, k: u64, pages: u32) -> u32 {
    pool.ask(Ordinal(k), pages).unwrap().unwrap();
    pool.reserve(Ordinal(k)).unwrap().into_ballot()
}

/// Asks, reserves, commits what was asked for and settles it.
fn settled(pool: &mut HostPool, k: u64, pages: u32) -> Vec<u32> {
    assert_eq!(reserved(pool, k, pages), pages);
    pool.commit(Ordinal(k), agreed(pages)).unwrap();
    let numbers = pool.pages(Ordinal(k)).to_vec();
    pool.settle(Ordinal(k), agreed(pages)).unwrap();
    numbers
}
