//! Which faults of a plan are on.

use crate::fault::{Fault, FaultKind};
use crate::queue::Micros;

/// The plan, and where a run stands in it.
#[derive(Debug)]
pub(crate) struct Active {
    pub(crate) plan: Vec<Fault>,
    /// By the place in the plan: when it ends, while it is on.
    until: Vec<Option<Micros>>,
    begun: Vec<bool>,
    /// The kinds that are on, each once.
    kinds: Vec<FaultKind>,
    /// The kinds that were on not long ago, and up to which step of the leader what they left behind is still to be seen.
    pub(crate) wakes: Vec<(FaultKind, u64)>,
}

impl Active {
    pub(crate) fn new(plan: &[Fault]) -> Self {
        let count = plan.len();
        Self { plan: plan.to_vec(), until: vec![None; count], begun: vec![false; count], kinds: vec![], wakes: vec![] }
    }

    /// The kinds that are on, or were on shortly before the leader entered this step.
    pub(crate) fn felt(&self, step: u64) -> Vec<FaultKind> {
        let wakes = self.wakes.iter().filter(|(_, until)| *until >= step).map(|(kind, _)| *kind);
        let mut felt: Vec<FaultKind> = self.kinds.iter().copied().chain(wakes).collect();
        felt.sort_unstable();
        felt.dedup();
        felt
    }

    /// The size of a fault that is on for a rank, the largest one.
    pub(crate) fn size(&self, kind: FaultKind, rank: usize) -> Option<u64> {
        self.on(kind, rank).map(|(_, fault)| fault.size).max()
    }

    /// The size of a fault that is on for any rank, the largest one.
    pub(crate) fn largest(&self, kind: FaultKind) -> Option<u64> {
        let on = self.plan.iter().zip(&self.until).filter(|(fault, until)| until.is_some() && fault.kind == kind);
        on.map(|(fault, _)| fault.size).max()
    }

    /// The place in the plan of the first fault of a kind that is on.
    pub(crate) fn first(&self, kind: FaultKind) -> Option<usize> {
        let on = |place: &usize| self.until[*place].is_some() && self.plan[*place].kind == kind;
        (0..self.plan.len()).find(on)
    }

    /// When the fault is over that is on for a rank and has this size.
    pub(crate) fn ends(&self, kind: FaultKind, rank: usize, size: u64) -> Option<Micros> {
        let on = self.on(kind, rank).filter(|(_, fault)| fault.size == size);
        on.filter_map(|(place, _)| self.until[place]).max()
    }

    fn on(&self, kind: FaultKind, rank: usize) -> impl Iterator<Item = (usize, &Fault)> {
        let listed = self.kinds.contains(&kind);
        let plan = if listed { &self.plan[..] } else { &[] };
        plan.iter()
            .enumerate()
            .filter(move |(place, fault)| self.until[*place].is_some() && fault.kind == kind && fault.rank == rank)
    }

    /// Whether every fault that began is over.
    pub(crate) fn are_over(&self) -> bool {
        self.kinds.is_empty()
    }

    /// A fault begins, up to a time or for good, or ends.
    pub(crate) fn set(&mut self, fault: usize, until: Option<Micros>) {
        self.until[fault] = until;
        self.begun[fault] = true;
        let on = self.plan.iter().zip(&self.until).filter(|(_, until)| until.is_some());
        self.kinds = on.map(|(fault, _)| fault.kind).collect();
        self.kinds.sort_unstable();
        self.kinds.dedup();
    }

    /// Faults that begin when the leader enters this step, by their places.
    pub(crate) fn due(&self, step: u64) -> Vec<usize> {
        let due = |place: &usize| self.plan[*place].at_step <= step && !self.begun[*place];
        (0..self.plan.len()).filter(due).collect()
    }
}
