//! Depth first through all states.

use super::event::Event;
use super::fingerprint::{Fingerprint, Seen};
use super::finish;
use super::rank::Broken;
use super::recall::Recall;
use super::scope::{Defect, Scope};
use super::world::World;
use super::{Outcome, Progress, Violation};

/// Transitions between two calls of the caller's progress function.
const REPORT_EVERY: u64 = 1 << 18;

/// What the search carries along.
pub(super) struct Search<'a> {
    scope: &'a Scope,
    recall: Recall,
    seen: Seen,
    /// States from which a fair completion was shown to end well.
    done: Seen,
    /// The leader's logical states, by step; and what each frame that moved pages met on each rank.
    histories: Seen,
    path: Vec<Event>,
    transitions: u64,
    leaves: u64,
    depth: usize,
    progress: &'a mut dyn FnMut(Progress),
}

impl<'a> Search<'a> {
    pub(super) fn new(scope: &'a Scope, progress: &'a mut dyn FnMut(Progress)) -> Self {
        Self {
            scope,
            recall: Recall::new(),
            seen: Seen::new(),
            done: Seen::new(),
            histories: Seen::new(),
            path: Vec::new(),
            transitions: 0,
            leaves: 0,
            depth: 0,
            progress,
        }
    }

    pub(super) fn run(mut self, defect: Option<Defect>) -> Outcome {
        let mut world = World::new(self.scope, defect);
        let result = finish::warm_up(&mut world, &mut self.recall).and_then(|()| {
            world.begin();
            self.seen.insert(world.fingerprint());
            self.visit(&world)
        });
        let violation = result.err().map(|broken| self.violation(broken));
        Outcome {
            states: self.seen.len(),
            transitions: self.transitions,
            depth: self.depth as u64,
            leaves: self.leaves,
            histories: self.histories.len(),
            histories_sum: self.histories.sum(),
            violation,
        }
    }

    /// Explores everything behind a state that is visited for the first time.
    fn visit(&mut self, world: &World<'_>) -> Result<(), Broken> {
        self.depth = self.depth.max(self.path.len());
        let events = world.events(self.scope.order);
        if !world.is_cut() && !events.iter().any(|event| event.is_due()) {
            self.leaf(world)?;
        }
        for event in events {
            let mut next = world.clone();
            self.path.push(event);
            self.count();
            let output = next.take(event, self.scope.order, &mut self.recall)?;
            if !output.cut {
                self.note(event, output.met, &next);
                if self.seen.insert(next.fingerprint()) {
                    self.visit(&next)?;
                }
            }
            self.path.pop();
        }
        Ok(())
    }

    /// The bounds are reached, but for what may never happen.
    fn leaf(&mut self, world: &World<'_>) -> Result<(), Broken> {
        self.leaves += 1;
        let length = self.path.len();
        finish::finish(world.clone(), &mut self.recall, &mut self.done, &mut self.path)?;
        self.path.truncate(length);
        Ok(())
    }

    fn count(&mut self) {
        self.transitions += 1;
        if self.transitions.is_multiple_of(REPORT_EVERY) {
            (self.progress)(Progress { states: self.seen.len(), transitions: self.transitions });
        }
    }

    fn note(&mut self, event: Event, met: Option<u128>, world: &World<'_>) {
        if let Some(met) = met {
            self.histories.insert(met);
        }
        if matches!(event, Event::Lead { .. } | Event::Close { rank: 0 }) {
            let leader = &world.ranks[0];
            self.histories.insert(Fingerprint::of(&(leader.step, leader.open_step, leader.logical())));
        }
    }

    fn violation(&self, broken: Broken) -> Violation {
        Violation { scope: self.scope.name, rank: broken.rank, what: broken.what, path: self.path.clone() }
    }
}
