//! Trailing state in storage: what each rank has of it, and whether the end that the votes came to is right.

use super::Cluster;
use crate::rng::{self, Purpose, roll};
use crate::trailing::{SIDE_CAR, STATE, Trailing, WINDOW};
use crate::violation::{Wrong, ensure};
use crate::world::at;
use isoradix_core::{Ordinal, Presence, StoredRun, Transfer};

/// Of a thousand pages so many have the part in some storage, and of those so many in a rank's own.
const SOMEWHERE_PERMILLE: [(u8, u64); 3] = [(SIDE_CAR, 990), (WINDOW, 930), (STATE, 700)];
const HERE_PERMILLE: u64 = 950;

/// What each rank has answered, of one prefetch.
#[derive(Debug)]
pub(super) struct Search {
    /// By rank, the parts of its leading pages.
    answers: Vec<Option<Vec<u8>>>,
    /// The end that the first rank began to fetch up to, in pages.
    fetched: Option<usize>,
}

/// What a stage has no layers of: every second one has no index.
pub(super) fn elsewhere(stage: usize) -> u8 {
    if stage % 2 == 1 { SIDE_CAR } else { 0 }
}

impl Cluster<'_> {
    /// Storage has answered on a rank: the leading pages that it has, with what is beside them.
    pub(super) fn presence(&mut self, rank: usize, operation: Ordinal, run: &StoredRun, tokens: u64) -> Presence {
        let page = self.scenario.page as usize;
        let names = self.stations[rank].world.storage.leading(run, page);
        let parts: Vec<u8> =
            names.iter().take(at(tokens) / page).map(|name| self.parts_in_storage(rank, *name)).collect();
        let ranks = self.stations.len();
        let search = || Search { answers: vec![None; ranks], fetched: None };
        self.searches.entry(operation).or_insert_with(search).answers[rank] = Some(parts.clone());
        Presence::observe(parts)
    }

    fn parts_in_storage(&self, rank: usize, name: u64) -> u8 {
        let seed = self.scenario.seed;
        let is_there = |(part, permille): &(u8, u64)| {
            let of = u64::from(*part);
            let somewhere = roll(seed, Purpose::State, [name, of, 0]);
            let here = roll(seed, Purpose::State, [name, of, 1 + rank as u64]);
            rng::below(somewhere, 1000) < *permille && rng::below(here, 1000) < HERE_PERMILLE
        };
        SOMEWHERE_PERMILLE.iter().filter(|part| is_there(part)).fold(0, |parts, (part, _)| parts | part)
    }

    /// A prefetch begins: up to the deepest end that every rank has, with the parts that it needs.
    pub(super) fn check_found(&mut self, rank: usize, transfer: &Transfer) -> Result<(), Wrong> {
        let Some(trailing) = self.scenario.trailing else { return Ok(()) };
        let (page, pages) = (self.scenario.page as usize, transfer.pages.len());
        ensure(transfer.parts == trailing.brought(page, pages), "trailing", || {
            format!("prefetch {} of {pages} pages brings {:?}", transfer.operation, transfer.parts)
        })?;
        let stages: Vec<usize> = (0..self.stations.len()).map(|rank| self.scenario.topology.stage(rank)).collect();
        let there = self.stations[rank].core.cache().parts_before(transfer.operation).to_vec();
        let is_whole = transfer.stored.iter().all(|run| run.from == 0);
        let Some(search) = self.searches.get_mut(&transfer.operation) else {
            return Err(Wrong::new(
                "trailing",
                format!("prefetch {} begins, and nobody was asked", transfer.operation),
            ));
        };
        let first = *search.fetched.get_or_insert(pages);
        ensure(first == pages, "trailing", || format!("rank {rank} fetches {pages} pages, another one {first}"))?;
        let mut all: Vec<Vec<u8>> = Vec::new();
        for (rank, (answer, stage)) in search.answers.iter().zip(stages).enumerate() {
            let Some(parts) = answer else {
                return Err(Wrong::new("trailing", format!("an end is agreed, and rank {rank} has not answered")));
            };
            let mut parts: Vec<u8> = parts.iter().map(|parts| parts | elsewhere(stage)).collect();
            // What is in the tree stays as it is.
            parts.iter_mut().zip(&there).for_each(|(part, there)| *part &= there);
            all.push(parts);
        }
        ensure(pages > there.len(), "trailing", || {
            format!("{pages} pages are fetched, and {} of them are in the tree", there.len())
        })?;
        check(trailing, page, pages, is_whole, &all)
    }
}

/// Every rank has the end; and no deeper one is there on all, where nothing above the run has a say.
fn check(trailing: Trailing, page: usize, end: usize, is_whole: bool, ranks: &[Vec<u8>]) -> Result<(), Wrong> {
    // A window may look back to what is above the run: that is taken for there.
    let above = vec![SIDE_CAR | WINDOW; if is_whole { 0 } else { trailing.window as usize }];
    let has = |parts: &Vec<u8>, end: usize| {
        let path: Vec<u8> = above.iter().chain(parts).copied().collect();
        end <= parts.len() && trailing.is_usable(page, &path, (above.len() + end) * page)
    };
    if let Some(rank) = ranks.iter().position(|parts| !has(parts, end)) {
        let what = format!("page {end} is the agreed end, and storage has {:?} there", ranks[rank]);
        return Err(Wrong { rank: Some(rank), ..Wrong::new("trailing", what) });
    }
    let most = ranks.iter().map(Vec::len).min().unwrap_or(0);
    let deeper = (end + 1..=most).find(|deeper| is_whole && ranks.iter().all(|parts| has(parts, *deeper)));
    ensure(deeper.is_none(), "trailing", || format!("page {end} is the agreed end, and all ranks have {deeper:?}"))
}
