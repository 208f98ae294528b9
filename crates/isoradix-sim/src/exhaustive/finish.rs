//! The fair completion: from the bounds on, physics is kind and every rank goes on in its turn. All operations must end.

use super::copy::Copy;
use super::event::{Event, Work};
use super::fingerprint::Seen;
use super::rank::{Broken, Rank};
use super::recall::Recall;
use super::scope::Order;
use super::world::World;
use std::fmt::Write as _;

/// Rounds, each of one vote and one step, in which everything has to be over.
const ROUNDS_MAX: u32 = 40;

/// Runs a world to its end. `done` knows states from which that was shown already. `path` takes the events.
pub(super) fn finish(
    mut world: World<'_>,
    recall: &mut Recall,
    done: &mut Seen,
    path: &mut Vec<Event>,
) -> Result<(), Broken> {
    world.lift();
    let (mut fingerprints, length) = (Vec::new(), path.len());
    for _ in 0..ROUNDS_MAX {
        let fingerprint = world.fingerprint();
        let known = done.contains(fingerprint);
        if known || is_over(&world) {
            if !known {
                check_end(&world)?;
                fingerprints.push(fingerprint);
            }
            for fingerprint in fingerprints {
                done.insert(fingerprint);
            }
            return Ok(());
        }
        fingerprints.push(fingerprint);
        Round { world: &mut world, recall, path }.run()?;
    }
    path.truncate(length);
    Err(stuck(&world))
}

/// Runs the scope's warm steps.
pub(super) fn warm_up(world: &mut World<'_>, recall: &mut Recall) -> Result<(), Broken> {
    let mut path = Vec::new();
    while world.ranks[0].step < world.scope.warm_steps() {
        Round { world, recall, path: &mut path }.run()?;
    }
    Ok(())
}

/// All that physics has to do, one vote, and one step.
struct Round<'r, 'a> {
    world: &'r mut World<'a>,
    recall: &'r mut Recall,
    path: &'r mut Vec<Event>,
}

impl Round<'_, '_> {
    fn run(mut self) -> Result<(), Broken> {
        let ranks = 0..self.world.scope.ranks;
        for rank in ranks.clone() {
            while let Some(event) = self.kind_event(rank) {
                self.take(event)?;
            }
        }
        let fills = ranks.clone().map(|rank| Event::Fill { rank });
        let completes = ranks.clone().map(|rank| Event::Complete { rank });
        for event in completes.clone().chain(fills).chain(completes) {
            self.take_if_offered(event)?;
        }
        for event in [close(0), Event::Lead { decision: None }, close(0)] {
            self.take_if_offered(event)?;
        }
        for rank in ranks.skip(1) {
            self.take_if_offered(close(rank))?;
            while self.take_if_offered(Event::Follow { rank })? {
                self.take_if_offered(close(rank))?;
            }
        }
        Ok(())
    }

    /// What physics does next if it is kind.
    fn kind_event(&self, rank: u32) -> Option<Event> {
        let kindness = |event: &Event| match event {
            Event::Work { work: Work::Find { pages }, .. } => Some(*pages),
            Event::Work { work: Work::Reserve | Work::Advance | Work::Succeed | Work::Leave, .. }
            | Event::Memory { lose: false, .. } => Some(0),
            _ => None,
        };
        let events = self.offers(rank as usize).into_iter();
        events.filter(|event| kindness(event).is_some()).max_by_key(kindness)
    }

    fn take_if_offered(&mut self, event: Event) -> Result<bool, Broken> {
        let offered = self.offers(event.rank()).contains(&event);
        if offered { self.take(event).map(|()| true) } else { Ok(false) }
    }

    fn offers(&self, rank: usize) -> Vec<Event> {
        let mut events = Vec::new();
        self.world.events_of(rank, Order::Every, &mut events);
        events
    }

    fn take(&mut self, event: Event) -> Result<(), Broken> {
        self.path.push(event);
        self.world.take(event, Order::Every, self.recall).map(|_| ())
    }
}

fn close(rank: u32) -> Event {
    Event::Close { rank }
}

/// Nothing is left to be done: then nothing more will ever happen.
fn is_over(world: &World<'_>) -> bool {
    let leader = &world.ranks[0];
    if leader.dead {
        return world.ranks.iter().all(|rank| rank.dead || rank.step >= leader.step);
    }
    let last = world.scope.last_step();
    world.ranks.iter().all(|rank| {
        let whole = rank.host.ledger().capacity() == rank.host.ledger().start_capacity() && rank.lost == 0;
        rank.step >= last && rank.open_step.is_none() && is_quiet(rank) && whole
    })
}

/// Every operation has ended, and the window has slid over it.
fn is_quiet(rank: &Rank) -> bool {
    let issued = rank.table.issued();
    let slid = rank.table.base() == issued && rank.board.admission().base() == issued;
    slid && rank.copies.iter().all(Copy::is_off)
}

fn check_end(world: &World<'_>) -> Result<(), Broken> {
    let leader = &world.ranks[0];
    for rank in &world.ranks {
        if rank.dead != leader.dead {
            return Err(rank.broken("the server ends on some ranks only"));
        }
        if !rank.dead {
            rank.check_quiet()?;
        }
    }
    Ok(())
}

/// Says what is not over.
fn stuck(world: &World<'_>) -> Broken {
    let rank = world.ranks.iter().find(|rank| !is_quiet(rank)).unwrap_or(&world.ranks[0]);
    let mut what = format!("not over after {ROUNDS_MAX} kind rounds:");
    for entry in rank.table.iter() {
        let _ = write!(what, " {} {} is {};", entry.kind().as_str(), entry.ordinal(), entry.state().as_str());
    }
    let (ledger, lost) = (rank.host.ledger(), rank.lost);
    let _ = write!(what, " step {}, window from {} of {}", rank.step, rank.table.base(), rank.table.issued());
    let _ = write!(what, ", capacity {} of {}, {lost} pages lost", ledger.capacity(), ledger.start_capacity());
    rank.broken(what)
}
