//! A tiered cache by itself, or the rank that has it.

use isoradix_core::{PrefixCache, Rank, TieredCache};

use crate::shared::Tree;

/// The core behind a `TieredCache`, and behind the `Rank` that it was given to.
pub(crate) struct Machine {
    seat: Seat,
    /// Tokens that verbs have wished to move since a step was closed: how long the next close takes.
    pub(crate) coming: u64,
}

enum Seat {
    Alone(Box<TieredCache>),
    Ranked(Box<Rank>),
    /// Only while it changes from one into the other.
    Between,
}

const BETWEEN: &str = "a cache is alone or has a rank";

impl Machine {
    pub(crate) fn new(cache: TieredCache) -> Self {
        Self { seat: Seat::Alone(Box::new(cache)), coming: 0 }
    }

    pub(crate) fn cache(&self) -> &TieredCache {
        match &self.seat {
            Seat::Alone(cache) => cache,
            Seat::Ranked(rank) => rank.cache(),
            Seat::Between => unreachable!("{BETWEEN}"),
        }
    }

    pub(crate) fn cache_mut(&mut self) -> &mut TieredCache {
        match &mut self.seat {
            Seat::Alone(cache) => cache,
            Seat::Ranked(rank) => rank.cache_mut(),
            Seat::Between => unreachable!("{BETWEEN}"),
        }
    }

    /// The rank, once there is one.
    pub(crate) fn rank_mut(&mut self) -> Option<&mut Rank> {
        match &mut self.seat {
            Seat::Ranked(rank) => Some(rank),
            Seat::Alone(_) | Seat::Between => None,
        }
    }

    /// Gives the cache to a rank, if it has none.
    pub(crate) fn give_to(&mut self, make: impl FnOnce(TieredCache) -> Rank) {
        self.seat = match std::mem::replace(&mut self.seat, Seat::Between) {
            Seat::Alone(cache) => Seat::Ranked(Box::new(make(*cache))),
            taken => taken,
        };
    }
}

impl Tree for Machine {
    const NAME: &'static str = "TieredCache";

    fn tree(&self) -> &PrefixCache {
        self.cache().cache()
    }
}
