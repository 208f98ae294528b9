//! What may happen next.

use super::event::Event;
use super::scope::{Defect, Order};
use super::world::World;
use isoradix_core::Ordinal;
use isoradix_core::operation::Event as Decision;

impl World<'_> {
    /// All events from here, as the order has them.
    pub(super) fn events(&self, order: Order) -> Vec<Event> {
        let mut events = Vec::new();
        match order {
            Order::Every => (0..self.ranks.len()).for_each(|rank| self.events_of(rank, order, &mut events)),
            Order::Late => self.late_events(&mut events),
            Order::Turns => self.turn_events(&mut events),
        }
        events
    }

    /// Physics has happened that nothing will see: the same comes without it.
    pub(super) fn is_cut(&self) -> bool {
        self.ranks.iter().any(|rank| rank.unseen_work)
    }

    fn late_events(&self, events: &mut Vec<Event>) {
        if let Some(rank) = self.ranks.iter().position(|rank| rank.unseen_work) {
            self.events_of(rank, Order::Late, events);
            return;
        }
        (0..self.ranks.len()).for_each(|rank| self.events_of(rank, Order::Late, events));
        drop_vain(events);
    }

    fn turn_events(&self, events: &mut Vec<Event>) {
        let leader = &self.ranks[0];
        if self.turn == 0 && leader.votes.is_in_flight() {
            if self.is_reduced(0) {
                events.push(Event::Complete { rank: 0 });
                return;
            }
            if !leader.unseen_work && !leader.unseen_close {
                self.events_of(1, Order::Turns, events);
            }
        }
        self.events_of(self.turn, Order::Turns, events);
        if !self.is_cut() {
            drop_vain(events);
            if !events.iter().any(|event| event.is_due()) {
                self.last_events(events);
            }
        }
    }

    /// The leader has done all that it must: the followers catch up.
    fn last_events(&self, events: &mut Vec<Event>) {
        let leader = &self.ranks[0];
        if leader.votes.is_in_flight() && !leader.dead {
            return;
        }
        let behind = |rank: &usize| self.ranks[*rank].step < leader.step && !self.ranks[*rank].dead;
        if let Some(rank) = (1..self.ranks.len()).find(behind) {
            self.events_of(rank, Order::Turns, events);
        }
    }

    /// What may happen on one rank.
    pub(super) fn events_of(&self, at: usize, order: Order, events: &mut Vec<Event>) {
        let rank = &self.ranks[at];
        let id = rank.id;
        if rank.dead {
            return;
        }
        if self.may_fill(at, order) {
            events.push(Event::Fill { rank: id });
        }
        if self.is_reduced(at) {
            events.push(Event::Complete { rank: id });
        }
        let frames_ahead = if at == 0 { rank.step < self.last_step } else { self.has_frame(at) };
        match rank.open_step {
            Some(step) if order == Order::Every || !rank.unseen_work || self.scope.moves_pages(step) => {
                events.push(Event::Close { rank: id });
            }
            Some(_) => {}
            None if !frames_ahead => {}
            None if at == 0 => self.lead_events(events),
            None => events.push(Event::Follow { rank: id }),
        }
        let may_be_met = frames_ahead || rank.open_step.is_some_and(|step| self.scope.moves_pages(step));
        let works = rank.works(self.scope, order, may_be_met);
        events.extend(works.into_iter().map(|(operation, work)| Event::Work { rank: id, operation, work }));
        if rank.losses > 0 && rank.free_pages() > 0 {
            events.push(Event::Memory { rank: id, lose: true });
        }
        if rank.lost > 0 {
            events.push(Event::Memory { rank: id, lose: false });
        }
    }

    fn may_fill(&self, at: usize, order: Order) -> bool {
        let rank = &self.ranks[at];
        let all_seen = order == Order::Every || !rank.has_unseen_start();
        let idle = rank.has(Defect::IdleDoesNotVote) && (0..rank.copies.len() as u64).all(|k| rank.is_off(Ordinal(k)));
        !rank.votes.is_in_flight() && rank.votes.vote() < self.end_vote && all_seen && !idle
    }

    fn lead_events(&self, events: &mut Vec<Event>) {
        let leader = &self.ranks[0];
        let in_flight = self.ranks[1..].iter().map(|rank| leader.step - rank.step).max().unwrap_or(0);
        if in_flight >= self.scope.in_flight.into() {
            return;
        }
        if self.idle_frames > 0 || leader.unframed().is_some() || self.scope.has_verbs(leader.step + 1) {
            events.push(Event::Lead { decision: None });
        }
        if self.decisions == 0 {
            return;
        }
        for entry in leader.table.iter().filter(|entry| entry.state().is_counting()) {
            for decision in [Decision::Terminate, Decision::TimeOut, Decision::Abort] {
                if entry.transition(decision).is_some() {
                    events.push(Event::Lead { decision: Some((decision, entry.ordinal())) });
                }
            }
        }
    }
}

/// Physics alone is nothing that anything will see.
fn drop_vain(events: &mut Vec<Event>) {
    if events.iter().all(|event| event.is_physics()) {
        events.clear();
    }
}
