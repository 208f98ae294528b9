//! One event on one rank: a function of the rank and of what comes in, with its results remembered.

use super::event::Work;
use super::fingerprint::Fingerprint;
use super::message::{Message, Vector};
use super::rank::{Broken, Rank, Role};
use super::scope::{Order, Scope};
use isoradix_core::operation::Event as Decision;
use isoradix_core::protocol::{Control, Frame, ProtocolError};
use isoradix_core::{Ordinal, PerRank};
use std::hash::{Hash, Hasher as _};
use std::rc::Rc;

/// What happens.
pub(super) enum Input<'a> {
    Fill,
    Complete(&'a Rc<Vector>),
    /// The leader's frame; followers have taken the steps given.
    Lead(Option<(Decision, Ordinal)>, Vec<u64>),
    Follow(&'a Rc<Message>),
    Close,
    Memory(bool),
    Work(Ordinal, Work),
}

/// What comes of it, beside the rank's new state.
#[derive(Clone, Default)]
pub(super) struct Output {
    /// The ballot that was filled.
    pub(super) ballot: Option<Rc<Vector>>,
    /// The frame that was stamped.
    pub(super) message: Option<Rc<Message>>,
    /// Actions and logical state after a frame; logical state after the verbs.
    pub(super) applied: Option<u128>,
    pub(super) closed: Option<u128>,
    /// A frame moved pages or copies: what the rank was then, physics included, but for its votes.
    pub(super) met: Option<u128>,
    /// The same comes of another path that is explored.
    pub(super) cut: bool,
}

/// A scope, and how it is explored.
#[derive(Clone, Copy)]
pub(super) struct Rules<'a> {
    pub(super) scope: &'a Scope,
    pub(super) order: Order,
}

impl Rank {
    /// Lets it happen on this rank.
    pub(super) fn step(&mut self, input: &Input<'_>, rules: Rules<'_>) -> Result<Output, Broken> {
        let output = match input {
            Input::Fill => self.fill(),
            Input::Complete(vector) => self.complete(vector),
            Input::Lead(decision, taken) => self.lead(*decision, taken, rules),
            Input::Follow(message) => self.apply_message(message, rules),
            Input::Close => self.close_step(rules),
            Input::Memory(lose) => {
                self.change_memory(*lose);
                Ok(self.worked(rules))
            }
            Input::Work(k, work) => self.work(*k, *work, rules.scope).map(|()| self.worked(rules)),
        }?;
        if !matches!(input, Input::Fill | Input::Complete(_)) {
            self.check_growth()?;
            self.check()?;
        }
        self.take_fingerprints();
        Ok(output)
    }

    fn worked(&mut self, rules: Rules<'_>) -> Output {
        self.unseen_work = true;
        if rules.order == Order::Every {
            self.saw();
        }
        Output::default()
    }

    /// A ballot or a frame has seen what physics did here.
    pub(super) fn saw(&mut self) {
        self.unseen_work = false;
        self.copies.iter_mut().for_each(|copy| copy.unseen = false);
    }

    fn fill(&mut self) -> Result<Output, Broken> {
        let mut words = vec![0; self.votes.words()];
        let vote = self.votes.vote();
        self.votes.fill(&mut self.board, &mut words).map_err(|error| self.broken(error))?;
        self.unseen_close = false;
        self.saw();
        let ballot = Rc::new(Vector::new(vote, words, self.arrived()));
        self.keep(ballot.clone());
        Ok(Output { ballot: Some(ballot), ..Output::default() })
    }

    fn complete(&mut self, vector: &Rc<Vector>) -> Result<Output, Broken> {
        let reduced = self.votes.complete(&mut self.board, &vector.words).map_err(|error| self.broken(error))?;
        self.seen = Some((reduced, vector.clone()));
        self.keep(vector.clone());
        Ok(Output::default())
    }

    /// Reaps what was delivered, stamps a frame, and applies it.
    fn lead(
        &mut self,
        decision: Option<(Decision, Ordinal)>,
        taken: &[u64],
        rules: Rules<'_>,
    ) -> Result<Output, Broken> {
        let control = decision.map(|(decision, k)| match decision {
            Decision::Terminate => Control::Terminate(k),
            Decision::TimeOut => Control::TimeOut(k),
            _ => Control::Abort(k),
        });
        let (digest, unframed) = (self.digest(), self.unframed().map(|(_, vector)| vector.clone()));
        let newest = self.seen.as_ref().map(|(reduced, _)| reduced);
        let stamped = match &mut self.role {
            Role::Follower(_) => Err(ProtocolError::OutOfOrder { call: "stamp", why: "this rank does not lead" }),
            Role::Leader(leader, reaped) => {
                let mut edges = (0..).zip(reaped.iter_mut().zip(taken));
                let delivered = edges.try_for_each(|(edge, (before, now))| {
                    let frames = u32::try_from(*now - *before).unwrap_or(u32::MAX);
                    *before = *now;
                    leader.ahead().delivered(edge, frames)
                });
                let now = PerRank::observe(10 * leader.next_step());
                let stamped = delivered.and_then(|()| leader.stamp(newest, now, digest, control.as_slice()));
                let full = taken.iter().any(|taken| self.step + 1 - taken >= rules.scope.in_flight.into());
                if stamped.is_ok() && leader.ahead().pressure().is_some() != full {
                    return Err(self.broken("the edges are not as full as frames are in flight"));
                }
                stamped
            }
        };
        let frame = stamped.map_err(|error| self.broken(error))?;
        let vote = unframed.filter(|vector| frame.vote() == Some(vector.vote));
        let message = Rc::new(Message::new(frame.to_bytes(), vote, decision));
        Ok(Output { message: Some(message.clone()), ..self.apply_message(&message, rules)? })
    }

    /// A frame off the wire, applied; and the step's verbs, if the scope does not split steps.
    fn apply_message(&mut self, message: &Message, Rules { scope, order }: Rules<'_>) -> Result<Output, Broken> {
        let frame = Frame::from_bytes(&message.bytes).map_err(|error| self.broken(error))?;
        let digest = self.digest();
        let applied = match &mut self.role {
            Role::Leader(leader, _) => leader.apply(frame, &mut self.board).map_err(|error| error.to_string()),
            Role::Follower(follower) => {
                follower.check(frame, digest, &mut self.board).map_err(|error| error.to_string())
            }
        };
        let applied = applied.map_err(|error| self.broken(error))?;
        self.framed = message.vote.clone().or(self.framed.take());
        let outcome = self.apply(&applied)?;
        let mut fingerprint = Fingerprint::new();
        outcome.actions.hash(&mut fingerprint);
        fingerprint.write(&self.logical().to_le_bytes());
        let mut moved = outcome.moved;
        if !scope.split_steps && !self.dead {
            self.check_growth()?;
            self.close(scope)?;
            moved |= scope.moves_pages(self.step);
        }
        let cut = order != Order::Every && self.unseen_work && !moved;
        self.unseen_close = false;
        if moved {
            self.saw();
        }
        let met = moved.then(|| self.met());
        Ok(Output { applied: Some(fingerprint.finish128()), met, cut, ..Output::default() })
    }

    fn close_step(&mut self, rules: Rules<'_>) -> Result<Output, Broken> {
        let step = self.step;
        self.close(rules.scope)?;
        self.unseen_close = rules.order != Order::Every;
        if rules.scope.moves_pages(step) {
            self.saw();
        }
        Ok(Output { closed: Some(self.logical()), ..Output::default() })
    }
}
