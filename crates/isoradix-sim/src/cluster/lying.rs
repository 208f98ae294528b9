//! A caller that lies: one rank is handed its requests in another order than they arrived in.
//!
//! Once its state is another one, the core itself must find it out before another frame is applied. What this simulator knows
//! from above does not count.

use super::Cluster;
use crate::check::Parted;
use crate::request::What;
use crate::violation::{Violation, Wrong, ensure};
use isoradix_core::protocol::{BatchHeader, BatchRequest};
use std::rc::Rc;

/// The lie, and what has come of it.
#[derive(Debug, Default)]
pub(super) struct Lie {
    /// Whose caller it is, once it lies.
    rank: Option<usize>,
    /// A request that is held back until the next step.
    withheld: Option<What>,
    /// Some request was handed over out of its order.
    told: bool,
    /// The step that the rank left with another state than the others.
    parted: Option<u64>,
}

impl Lie {
    /// The caller of a rank lies from now on.
    pub(super) fn begin(&mut self, rank: usize) {
        self.rank = Some(rank);
    }

    /// What the rank is handed of what arrived: two requests the other way round, or a single one a step late.
    fn hand_over(&mut self, arrived: &[What]) -> Vec<What> {
        let mut handed = arrived.to_vec();
        let is_request = |what: &What| matches!(what, What::Arrive(_));
        let mut requests = handed.iter().enumerate().filter(|(_, what)| is_request(what)).map(|(place, _)| place);
        match (requests.next(), requests.next()) {
            (Some(first), Some(second)) => {
                handed.swap(first, second);
                self.told = true;
            }
            (Some(only), None) if self.withheld.is_none() => {
                self.withheld = Some(handed.remove(only));
                self.told = true;
                return handed;
            }
            _ => {}
        }
        if let Some(withheld) = self.withheld.take() {
            handed.push(withheld);
        }
        handed
    }

    /// Whether it explains that a rank differs from the leader.
    fn explains(&self, rank: usize) -> bool {
        self.rank.is_some_and(|liar| liar == rank || liar == 0)
    }

    /// Whether some request was handed over out of its order.
    pub(super) fn is_told(&self) -> bool {
        self.told
    }
}

impl Cluster<'_> {
    /// What a rank is handed of what arrived.
    pub(super) fn handed(&mut self, rank: usize, arrived: &[What]) -> Vec<What> {
        if self.lie.rank == Some(rank) { self.lie.hand_over(arrived) } else { arrived.to_vec() }
    }

    /// A rank that differs from the leader has broken the promise, unless it was lied to.
    pub(super) fn compared(&mut self, step: u64, compared: Result<(), Parted>) -> Result<(), Wrong> {
        match compared {
            Err(parted) if self.lie.explains(parted.rank) => {
                if parted.in_state {
                    self.lie.parted.get_or_insert(step);
                }
                Ok(())
            }
            compared => compared.map_err(|parted| self.parted(&parted)),
        }
    }

    /// A rank has applied a frame: by then the core has found out what it had to.
    pub(super) fn check_found_out(&self, rank: usize, step: u64) -> Result<(), Wrong> {
        let late = self.lie.parted.filter(|parted| *parted < step && self.lie.explains(rank));
        ensure(late.is_none(), "undetected", || {
            format!(
                "it was handed requests in another order, has had another state since step {late:?}, and applies step {step}"
            )
        })
    }

    /// At the end of a run that found nothing out.
    pub(super) fn check_no_lie(&self) -> Result<(), Wrong> {
        let Some(parted) = self.lie.parted else { return Ok(()) };
        let what = format!("requests were handed over in another order, the state differs since step {parted}");
        Err(Wrong { rank: self.lie.rank, ..Wrong::new("undetected", what) })
    }

    /// Whether a violation is the lie, found out by the core.
    pub(super) fn finds_out(&self, violation: &Violation) -> bool {
        self.lie.told && matches!(violation.kind, "divergence" | "vote" | "batch")
    }

    /// What a rank's batch is, as it goes beside its activations.
    pub(super) fn header(&self, rank: usize) -> Result<Rc<BatchHeader>, Wrong> {
        let station = &self.stations[rank];
        let running = station.scheduler.running.iter();
        let requests = running.map(|running| {
            let (prefix, extend) = (running.computed as u64, (running.wanted - running.computed) as u64);
            BatchRequest::numbered(running.request.into(), prefix, extend)
        });
        let number = u32::try_from(rank).unwrap_or(u32::MAX);
        let header = BatchHeader::new(number, station.step, station.steps, None, requests.collect());
        header.map(Rc::new).map_err(|error| Wrong::new("batch", error.to_string()))
    }
}
