//! What a rank comes to see of a request, and when: its data has arrived, or will not.

use super::phase::Group;
use super::plan::Plan;
use crate::queue::Micros;
use crate::rng::{self, Purpose, mix, roll};
use isoradix_core::decisions::Report;
use std::fmt;

/// Of a thousand questions, how many meet what.
#[derive(Debug, Clone, Copy)]
pub(super) struct Odds {
    /// One rank's data does not come.
    pub(super) fails: u64,
    /// One rank's data came, and then it is lost.
    pub(super) fails_late: u64,
    /// One rank only ever says that it waits.
    pub(super) stuck: u64,
    /// One rank says nothing.
    pub(super) silent: u64,
}

/// Faults that are on for a rank when it begins to look.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Trouble {
    /// Microseconds by which it hears late.
    pub(super) late_us: Micros,
    /// Of a thousand, how many do not come.
    pub(super) fails_permille: u64,
    pub(super) silent: bool,
}

/// What a question is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct About {
    pub(super) group: Group,
    pub(super) request: u32,
    pub(super) epoch: u32,
}

impl fmt::Display for About {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of request {}, epoch {}", self.group.as_str(), self.request, self.epoch)
    }
}

/// What a rank reports, and how long after it has asked.
pub(super) fn reports(plan: &Plan, about: About, rank: usize, trouble: Trouble) -> Vec<(Micros, Report)> {
    let of = u64::from(about.epoch) << 1 | about.group as u64;
    // one word for all ranks, and one of its own
    let all = roll(plan.seed, Purpose::Fate, [about.request.into(), of, 0]);
    let own = roll(plan.seed, Purpose::Fate, [about.request.into(), of, 1 + rank as u64]);
    let comes = rng::below(mix(own, 1), 2 * plan.transfer_us + 1) + trouble.late_us;
    let later = comes + 1 + rng::below(mix(own, 2), plan.transfer_us);
    let is_its = rng::below(mix(all, 1), plan.topology.members() as u64) == rank as u64;
    let mut reports = Vec::new();
    if trouble.silent {
        return reports;
    }
    let waits = rng::below(mix(own, 3), 2) == 0;
    reports.extend(waits.then_some((comes / 2, Report::Pending)));
    let Odds { fails, fails_late, stuck, silent } = plan.odds;
    let luck = rng::below(all, 1000);
    if is_its && luck < silent {
        return Vec::new();
    }
    if is_its && luck < silent + stuck {
        return vec![(comes / 2, Report::Pending), (later, Report::Pending)];
    }
    let fails_here = rng::below(mix(own, 4), 1000) < trouble.fails_permille;
    if fails_here || is_its && luck < silent + stuck + fails {
        // who has failed is not there after all
        reports.extend([(comes, Report::Failed), (later, Report::Ready)]);
        return reports;
    }
    reports.push((comes, Report::Ready));
    if is_its && luck < silent + stuck + fails + fails_late {
        reports.push((later, Report::Failed));
    } else if rng::below(mix(own, 5), 8) == 0 {
        // whoever polls in a loop says it again
        reports.push((later, if waits { Report::Ready } else { Report::Pending }));
    }
    reports
}
