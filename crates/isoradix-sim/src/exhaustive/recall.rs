//! Results of events on ranks, the last ones.
//!
//! An event on one rank is a function of that rank's state and of what comes in, and many states of the world have the same rank in
//! them. So most results are known already.

use super::fingerprint::Fingerprint;
use super::rank::{Broken, Rank};
use super::scope::Order;
use super::step::{Input, Output, Rules};
use std::hash::{Hash, Hasher as _};
use std::rc::Rc;

/// Results that are kept, each in the one place that its key has.
const PLACES: usize = 1 << 13;

/// What is remembered.
pub(super) struct Recall {
    places: Vec<Option<(u128, Rc<Rank>, Output)>>,
}

impl Recall {
    pub(super) fn new() -> Self {
        Self { places: vec![None; PLACES] }
    }

    /// The rank after the event. What is remembered comes from machines in exactly this state, whatever led there.
    pub(super) fn step(
        &mut self,
        rank: &Rc<Rank>,
        input: &Input<'_>,
        rules: Rules<'_>,
    ) -> Result<(Rc<Rank>, Output), Broken> {
        let key = key(rank, input, rules.order);
        let place = usize::try_from(key % PLACES as u128).unwrap_or(0);
        if let Some((known, after, output)) = &self.places[place]
            && *known == key
        {
            return Ok((after.clone(), output.clone()));
        }
        let mut after = Rank::clone(rank);
        let output = after.step(input, rules)?;
        let after = Rc::new(after);
        self.places[place] = Some((key, after.clone(), output.clone()));
        Ok((after, output))
    }
}

fn key(rank: &Rank, input: &Input<'_>, order: Order) -> u128 {
    let mut fingerprint = Fingerprint::new();
    (rank.exact, rank.id, order as u8).hash(&mut fingerprint);
    match input {
        Input::Fill => fingerprint.write_u8(0),
        Input::Complete(vector) => (1_u8, vector.fingerprint).hash(&mut fingerprint),
        Input::Lead(decision, taken) => (2_u8, decision, taken).hash(&mut fingerprint),
        Input::Follow(message) => (3_u8, message.exact).hash(&mut fingerprint),
        Input::Close => fingerprint.write_u8(4),
        Input::Memory(lose) => (5_u8, lose).hash(&mut fingerprint),
        Input::Work(k, work) => (6_u8, k, work).hash(&mut fingerprint),
    }
    fingerprint.finish128()
}
