//! Hits of transitions under faults, and the table of them.

use super::mirror::Taken;
use super::rows::{PLACES, Row, reachable};
use crate::fault::FaultKind;
use isoradix_core::operation::Pools;
use std::fmt::Write;

const COLUMNS: usize = FaultKind::OF_CACHES;

/// How often each transition was taken while a fault of each kind was on, in any run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Coverage {
    /// `COLUMNS` counters a row.
    hits: Vec<u64>,
    /// Whenever.
    all: Vec<u64>,
    /// Load-backs that failed after commit, which ends a run.
    pub(crate) fatal: u64,
}

impl Default for Coverage {
    fn default() -> Self {
        Self { hits: vec![0; PLACES * COLUMNS], all: vec![0; PLACES], fatal: 0 }
    }
}

impl Coverage {
    pub(crate) fn count(&mut self, taken: &[Taken], active: &[FaultKind]) {
        for Taken { row, .. } in taken {
            self.all[row.place()] += 1;
            for kind in active {
                self.hits[row.place() * COLUMNS + *kind as usize] += 1;
            }
        }
    }

    /// Adds another run's.
    pub fn merge(&mut self, other: &Self) {
        self.hits.iter_mut().zip(&other.hits).for_each(|(own, other)| *own += other);
        self.all.iter_mut().zip(&other.all).for_each(|(own, other)| *own += other);
        self.fatal += other.fatal;
    }

    fn hits(&self, row: Row, kind: FaultKind) -> u64 {
        self.hits[row.place() * COLUMNS + kind as usize]
    }

    /// Pairs of a transition and a passing fault that never met, by name.
    #[must_use]
    pub fn zeros(&self) -> Vec<String> {
        let rows = reachable(Pools::USUAL).into_iter();
        let pairs = rows.flat_map(|row| FaultKind::passing().iter().map(move |kind| (row, *kind)));
        let never = pairs.filter(|(row, kind)| self.hits(*row, *kind) == 0);
        never.map(|(row, kind)| format!("{} x {}", name(row), kind.as_str())).collect()
    }

    /// The table as text: a row a transition, a column a kind of fault; zeros are marked.
    #[must_use]
    pub fn table(&self) -> String {
        let mut out = String::new();
        for (number, kind) in FaultKind::ALL[..COLUMNS].iter().enumerate() {
            let _ = writeln!(out, "  {number:>2} {}", kind.as_str());
        }
        let _ = write!(out, "{:<36}{:>9}", "transition", "all");
        for number in 0..COLUMNS {
            let _ = write!(out, "{number:>8}");
        }
        out.push('\n');
        for row in reachable(Pools::USUAL) {
            let _ = write!(out, "{:<36}{:>9}", name(row), self.all[row.place()]);
            for kind in &FaultKind::ALL[..COLUMNS] {
                let hits = self.hits(row, *kind);
                let shown = if hits == 0 { "-0-".to_owned() } else { hits.to_string() };
                let _ = write!(out, "{shown:>8}");
            }
            out.push('\n');
        }
        let _ = writeln!(out, "load_back failed after commit, fatal: {}", self.fatal);
        out
    }
}

fn name(Row { kind, state, event }: Row) -> String {
    format!("{} {} + {}", kind.as_str(), state.as_str(), event.as_str())
}
