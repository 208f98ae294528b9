//! Forward passes: the ranks of a stage compute a step together, behind the stage above.

use super::world::{Event, World};
use crate::queue::Micros;
use std::collections::BTreeMap;

/// Passes under way.
#[derive(Debug)]
pub(super) struct Forward {
    /// By stage and step: ranks that have entered the step, and how long the slowest of them takes.
    entered: BTreeMap<(usize, u64), (usize, Micros)>,
    /// The last step that each stage has computed.
    computed: Vec<u64>,
}

impl Forward {
    pub(super) fn new(stages: usize) -> Self {
        Self { entered: BTreeMap::new(), computed: vec![0; stages] }
    }
}

impl World<'_> {
    /// A rank has entered a step, and takes so long for its part of it.
    pub(super) fn join_pass(&mut self, rank: usize, step: u64, takes: Micros) {
        let stage = self.plan.topology.stage(rank);
        let (ranks, slowest) = self.forward.entered.entry((stage, step)).or_default();
        (*ranks, *slowest) = (*ranks + 1, takes.max(*slowest));
        self.try_pass(stage, step);
    }

    /// A stage has computed a step: its ranks are free, and the stage below may go on.
    pub(super) fn computed(&mut self, stage: usize, step: u64) {
        self.forward.computed[stage] = step;
        for rank in self.plan.topology.peers(stage) {
            self.stations[rank].busy = false;
            let delay = if rank == 0 { self.idle_us() } else { 0 };
            self.wake(rank, delay);
        }
        self.try_pass(stage + 1, step);
    }

    fn try_pass(&mut self, stage: usize, step: u64) {
        let above = stage.checked_sub(1).is_none_or(|above| self.forward.computed[above] >= step);
        let peers = self.plan.topology.peers(stage).len();
        let Some((_, takes)) = self.forward.entered.get(&(stage, step)).filter(|(ranks, _)| *ranks == peers && above)
        else {
            return;
        };
        self.queue.after(*takes, Event::Computed { stage, step });
        self.forward.entered.remove(&(stage, step));
    }
}
