//! What physics may do next on a rank, and what then becomes known there.

use super::copy::{Copy, Run};
use super::event::Work;
use super::rank::{Broken, PAGE, Rank, index};
use super::scope::{Defect, Order, Scope};
use isoradix_core::operation::Kind;
use isoradix_core::protocol::Posted;
use isoradix_core::protocol::ProtocolError;
use isoradix_core::{Ordinal, PerRank};

impl Rank {
    /// All that may happen here by itself. `may_be_met`: whether a frame or an eviction may yet meet a copy that has started.
    pub(super) fn works(&self, scope: &Scope, order: Order, may_be_met: bool) -> Vec<(Ordinal, Work)> {
        let mut works = Vec::new();
        for (k, copy) in (0..).map(Ordinal).zip(&self.copies) {
            if copy.run != Run::Off && !(copy.unseen && order != Order::Every) {
                self.works_of(copy, scope, order != Order::Every && !may_be_met, |work| works.push((k, work)));
            }
        }
        works
    }

    fn works_of(&self, copy: &Copy, scope: &Scope, no_start: bool, mut add: impl FnMut(Work)) {
        if copy.cancelled || copy.run == Run::Leaving {
            if copy.run != Run::Waiting {
                add(Work::Leave);
            }
            return;
        }
        let prefetch = copy.kind == Kind::Prefetch;
        if prefetch && copy.found.is_none() {
            scope.finds.iter().filter(|pages| **pages <= copy.asked).for_each(|&pages| add(Work::Find { pages }));
        }
        let known =
            !prefetch || copy.found.is_some_and(|found| found > 0) || (copy.found.is_none() && !scope.find_first);
        if copy.votes_pages() && copy.reserved.is_none() && known {
            add(Work::Reserve);
            let less = scope.reserves.iter().filter(|most| self.faults > 0 && **most < copy.asked);
            less.for_each(|&most| add(Work::ReserveLess { most }));
        }
        if copy.may_start() && !no_start {
            add(Work::Start);
        }
        let whole = copy.limit().is_some_and(|limit| copy.arrived >= limit);
        if prefetch && copy.may_move() && !whole {
            add(Work::Advance);
        }
        if copy.may_move() && (!prefetch || whole) {
            add(Work::Succeed);
        }
        if self.faults > 0 && copy.stake && (scope.fatal || copy.kind != Kind::LoadBack) {
            add(Work::Fail);
        }
    }

    /// Lets it happen, and posts what becomes known by it.
    pub(super) fn work(&mut self, k: Ordinal, work: Work, scope: &Scope) -> Result<(), Broken> {
        match work {
            Work::Find { pages } => {
                self.copy(k).found = Some(pages);
                self.posted(|board| board.post_hit(k, PerRank::observe(u64::from(pages) * PAGE)))
            }
            Work::Reserve => self.reserve(k, u32::MAX),
            Work::ReserveLess { most } => {
                self.faults -= 1;
                self.reserve(k, most)
            }
            Work::Start => {
                self.begin(k)?;
                self.copy(k).unseen = true;
                if self.has(Defect::ReadyAtStart) { self.post_ready(k, true) } else { Ok(()) }
            }
            Work::Advance => self.advance(k),
            Work::Succeed => self.end(k, true, scope),
            Work::Fail => {
                self.faults -= 1;
                self.end(k, false, scope)
            }
            Work::Leave => self.leave(k),
        }
    }

    fn reserve(&mut self, k: Ordinal, most: u32) -> Result<(), Broken> {
        let copy = self.copy_ref(k);
        let most = if copy.kind == Kind::Prefetch { copy.found.unwrap_or(u32::MAX).min(most) } else { most };
        let got = match most {
            u32::MAX => self.host.reserve(k),
            most => self.host.reserve_up_to(k, PerRank::observe(most)),
        };
        let got = got.map_err(|error| self.broken(error))?;
        let pages = u32::try_from(self.host.pages(k).len()).unwrap_or(0);
        self.copy(k).reserved = Some(pages);
        self.posted(|board| board.post_pages(k, got))
    }

    /// The copy may touch its pages from here on.
    fn begin(&mut self, k: Ordinal) -> Result<(), Broken> {
        let copy = self.copy_ref(k);
        if copy.run == Run::Running {
            return Ok(());
        }
        let Some(limit) = copy.limit() else { return Err(self.broken(format_args!("copy {k} starts too early"))) };
        let touches = self.pool_ref(copy.kind).pages(k).iter().copied().take(limit as usize).collect();
        let copy = self.copy(k);
        (copy.run, copy.touches) = (Run::Running, touches);
        Ok(())
    }

    fn advance(&mut self, k: Ordinal) -> Result<(), Broken> {
        self.begin(k)?;
        let ahead = u64::from(self.has(Defect::ProgressAhead));
        let copy = self.copy(k);
        copy.arrived += 1;
        let tokens = (u64::from(copy.arrived) + ahead).min(copy.asked.into()) * PAGE;
        self.posted(|board| board.post_progress(k, PerRank::observe(tokens)))
    }

    fn end(&mut self, k: Ordinal, well: bool, scope: &Scope) -> Result<(), Broken> {
        if self.copy_ref(k).may_start() {
            self.begin(k)?;
        }
        let copy = self.copy(k);
        if well {
            copy.arrived = copy.limit().unwrap_or(0).max(copy.arrived);
            copy.touches.clear();
            copy.reads.clear();
        }
        copy.run = Run::Leaving;
        self.post_nothing(k)?;
        self.post_ready(k, well)?;
        if scope.two_posts { Ok(()) } else { self.leave(k) }
    }

    /// Whoever fails before it has answered answers "nothing": the others wait for each number, and may never say how it ended.
    fn post_nothing(&mut self, k: Ordinal) -> Result<(), Broken> {
        let copy = self.copy_ref(k);
        let (found, reserved) = (copy.found.is_some() || copy.kind != Kind::Prefetch, copy.reserved.is_some());
        if !found {
            self.posted(|board| board.post_hit(k, PerRank::observe(0)))?;
        }
        if !reserved && self.copy_ref(k).votes_pages() {
            self.posted(|board| board.post_pages(k, PerRank::observe(0)))?;
        }
        Ok(())
    }

    fn leave(&mut self, k: Ordinal) -> Result<(), Broken> {
        let copy = self.copy(k);
        copy.run = Run::Off;
        copy.touches.clear();
        copy.reads.clear();
        self.post_finished(k)?;
        self.forget_copy(k);
        Ok(())
    }

    fn post_ready(&mut self, k: Ordinal, well: bool) -> Result<(), Broken> {
        self.posted(|board| board.post_ready(k, PerRank::observe(well)))
    }

    fn posted(
        &mut self,
        post: impl FnOnce(&mut isoradix_core::protocol::Board) -> Result<Posted, ProtocolError>,
    ) -> Result<(), Broken> {
        post(&mut self.board).map(|_| ()).map_err(|error| self.broken(error))
    }

    /// Whether a copy has started that no frame has met yet.
    pub(super) fn has_unseen_start(&self) -> bool {
        self.copies.iter().any(|copy| copy.unseen)
    }

    /// Whether the operation has ended here, for physics.
    pub(super) fn is_off(&self, k: Ordinal) -> bool {
        self.copies.get(index(k)).is_none_or(|copy| copy.run == Run::Off)
    }
}
