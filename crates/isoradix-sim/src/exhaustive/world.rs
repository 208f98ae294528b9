//! All ranks, and what is between them: ballots, the reduced vector, frames on the wire.

use super::event::Event;
use super::fingerprint::Fingerprint;
use super::message::{Message, Vector};
use super::rank::{Broken, Rank};
use super::recall::Recall;
use super::scope::{Defect, Order, Scope};
use super::step::{Input, Output, Rules};
use std::collections::VecDeque;
use std::hash::Hash;
use std::rc::Rc;

/// A step that some rank has not done yet.
#[derive(Clone)]
struct Step {
    message: Rc<Message>,
    /// What the leader did with its frame, and what state that led to.
    applied: u128,
    /// The state in which the first rank left it.
    closed: Option<u128>,
}

/// Everything. A clone shares the ranks until one of them moves.
#[derive(Clone)]
pub(super) struct World<'a> {
    pub(super) scope: &'a Scope,
    pub(super) ranks: Vec<Rc<Rank>>,
    ballots: Vec<Option<Rc<Vector>>>,
    reduction: Option<Rc<Vector>>,
    /// Steps from `first_step` on.
    steps: VecDeque<Step>,
    first_step: u64,
    /// Decisions and idle frames that the leader may still take.
    pub(super) decisions: u32,
    pub(super) idle_frames: u32,
    /// Bounds: the last step, and the first vote that is not reached.
    pub(super) last_step: u64,
    pub(super) end_vote: u64,
    /// Whose turn it is, in [`Order::Turns`].
    pub(super) turn: usize,
}

impl<'a> World<'a> {
    /// The start: nothing has happened, and no bound is set.
    pub(super) fn new(scope: &'a Scope, defect: Option<Defect>) -> Self {
        let ranks: Vec<_> = (0..scope.ranks).map(|id| Rc::new(Rank::new(id, scope, defect))).collect();
        Self {
            scope,
            ballots: vec![None; ranks.len()],
            first_step: ranks[0].step + 1,
            ranks,
            reduction: None,
            steps: VecDeque::new(),
            decisions: 0,
            idle_frames: u32::MAX,
            last_step: u64::MAX,
            end_vote: u64::MAX,
            turn: 0,
        }
    }

    /// From here on the scope's bounds count, and things may go wrong.
    pub(super) fn begin(&mut self) {
        let scope = self.scope;
        self.last_step = self.ranks[0].step + scope.frames;
        self.end_vote = self.ranks[0].votes.vote() + scope.votes;
        (self.decisions, self.idle_frames) = (scope.decisions, scope.idle_frames);
        for (rank, (faults, losses)) in self.ranks.iter_mut().zip(scope.faults.iter().zip(scope.losses)) {
            let rank = Rc::make_mut(rank);
            (rank.faults, rank.losses) = (*faults, *losses);
            rank.take_fingerprints();
        }
    }

    /// No bound counts any more, and nothing goes wrong.
    pub(super) fn lift(&mut self) {
        (self.last_step, self.end_vote) = (u64::MAX, u64::MAX);
        (self.decisions, self.idle_frames) = (0, u32::MAX);
        for rank in &mut self.ranks {
            let rank = Rc::make_mut(rank);
            (rank.faults, rank.losses, rank.unseen_close) = (0, 0, false);
            rank.saw();
            rank.take_fingerprints();
        }
    }

    /// All that the future depends on.
    pub(super) fn fingerprint(&self) -> u128 {
        let mut fingerprint = Fingerprint::new();
        self.ranks.iter().for_each(|rank| rank.fingerprint.hash(&mut fingerprint));
        let awaited = self.reduction.as_ref().filter(|_| (0..self.ranks.len()).any(|rank| self.is_reduced(rank)));
        for vector in self.ballots.iter().map(Option::as_ref).chain([awaited]) {
            vector.map_or(0, |vector| vector.told).hash(&mut fingerprint);
        }
        for step in &self.steps {
            (step.message.fingerprint, step.applied, step.closed).hash(&mut fingerprint);
        }
        (self.first_step, self.decisions, self.idle_frames, self.turn).hash(&mut fingerprint);
        fingerprint.finish128()
    }

    /// Whether the rank has a vote in flight that is reduced.
    pub(super) fn is_reduced(&self, at: usize) -> bool {
        let votes = &self.ranks[at].votes;
        votes.is_in_flight() && self.reduction.as_ref().is_some_and(|vector| vector.vote == votes.vote())
    }

    /// Whether a frame is on its way to a follower.
    pub(super) fn has_frame(&self, at: usize) -> bool {
        self.step_of(self.ranks[at].step + 1).is_some()
    }

    /// Lets the event happen.
    pub(super) fn take(&mut self, event: Event, order: Order, recall: &mut Recall) -> Result<Output, Broken> {
        let (at, rules) = (event.rank(), Rules { scope: self.scope, order });
        self.turn = if order == Order::Turns { at } else { 0 };
        let mut run = |rank: &mut Rc<Rank>, input: Input<'_>| -> Result<Output, Broken> {
            let (after, output) = recall.step(rank, &input, rules)?;
            *rank = after;
            Ok(output)
        };
        match event {
            Event::Fill { .. } => {
                let mut output = run(&mut self.ranks[at], Input::Fill)?;
                self.ballots[at] = output.ballot.take();
                self.reduce(at, order, recall).map(|()| output)
            }
            Event::Complete { .. } => self.complete(at, order, recall),
            Event::Lead { decision } => {
                let taken = self.ranks[1..].iter().map(|rank| rank.step).collect();
                let output = run(&mut self.ranks[at], Input::Lead(decision, taken))?;
                self.send(decision.is_some(), &output);
                Ok(output)
            }
            Event::Follow { .. } => {
                let step = self.ranks[at].step + 1;
                let message = self.step_of(step).map(|step| step.message.clone());
                let message = message.ok_or_else(|| self.ranks[at].broken("no frame has come"))?;
                let output = run(&mut self.ranks[at], Input::Follow(&message))?;
                self.compare_applied(at, step, &output).map(|()| output)
            }
            Event::Close { .. } => {
                let output = run(&mut self.ranks[at], Input::Close)?;
                self.compare_closed(at, &output).map(|()| output)
            }
            Event::Memory { lose, .. } => run(&mut self.ranks[at], Input::Memory(lose)),
            Event::Work { operation, work, .. } => run(&mut self.ranks[at], Input::Work(operation, work)),
        }
    }

    /// Makes the reduction, if all ranks have filled their ballots.
    fn reduce(&mut self, at: usize, order: Order, recall: &mut Recall) -> Result<(), Broken> {
        if let Some(ballots) = self.ballots.iter().cloned().collect::<Option<Vec<_>>>() {
            self.ballots.fill(None);
            self.reduction = Some(Rc::new(Vector::reduce(&ballots)));
            if order != Order::Every {
                for rank in 1..self.ranks.len() {
                    self.complete(rank, order, recall)?;
                }
            }
        }
        // The others fill theirs, one by one; then the leader goes on.
        self.turn = if at == 0 || order != Order::Turns { 0 } else { (at + 1) % self.ranks.len() };
        Ok(())
    }

    fn complete(&mut self, at: usize, order: Order, recall: &mut Recall) -> Result<Output, Broken> {
        let rules = Rules { scope: self.scope, order };
        let Some(vector) = &self.reduction else { return Err(self.ranks[at].broken("no vote is reduced")) };
        let (after, output) = recall.step(&self.ranks[at], &Input::Complete(vector), rules)?;
        self.ranks[at] = after;
        Ok(output)
    }

    fn send(&mut self, decides: bool, output: &Output) {
        let (step, leader) = (self.ranks[0].step, &self.ranks[0]);
        let (Some(message), Some(applied)) = (output.message.clone(), output.applied) else { return };
        self.decisions -= u32::from(decides);
        if message.vote.is_none() && !decides && !self.scope.has_verbs(step) {
            self.idle_frames -= 1;
        }
        if self.steps.is_empty() {
            self.first_step = step;
        }
        let closed = leader.open_step.is_none().then(|| leader.logical());
        self.steps.push_back(Step { message, applied, closed });
    }

    fn compare_applied(&mut self, at: usize, step: u64, output: &Output) -> Result<(), Broken> {
        if self.step_of(step).map(|step| step.applied) != output.applied {
            return Err(
                self.ranks[at].broken(format_args!("the frame of step {step} came out otherwise than elsewhere"))
            );
        }
        if self.ranks[at].open_step.is_none() && !self.ranks[at].dead {
            let closed = Some(self.ranks[at].logical());
            return self.compare_closed(at, &Output { closed, ..Output::default() });
        }
        self.forget_steps();
        Ok(())
    }

    fn compare_closed(&mut self, at: usize, output: &Output) -> Result<(), Broken> {
        let (step, closed) = (self.ranks[at].step, output.closed);
        let known = usize::try_from(step.wrapping_sub(self.first_step)).ok().and_then(|at| self.steps.get_mut(at));
        if let Some(known) = known {
            known.closed = known.closed.or(closed);
            if known.closed != closed {
                let what = format_args!("step {step} has led to another state than elsewhere");
                return Err(self.ranks[at].broken(what));
            }
        }
        self.forget_steps();
        Ok(())
    }

    /// A step that some rank has not done.
    fn step_of(&self, step: u64) -> Option<&Step> {
        self.steps.get(usize::try_from(step.checked_sub(self.first_step)?).ok()?)
    }

    /// Steps that all ranks have done need no comparing any more.
    fn forget_steps(&mut self) {
        let done = |rank: &Rc<Rank>| rank.step - u64::from(rank.open_step.is_some());
        let least = self.ranks.iter().map(done).min().unwrap_or(0);
        while self.first_step <= least && self.steps.pop_front().is_some() {
            self.first_step += 1;
        }
    }
}
