//! What a rank's next ballot would say, and that it takes nothing back.

use super::rank::{Broken, Rank, machine};
use isoradix_core::protocol::{Board, words};
use std::rc::Rc;

impl Rank {
    /// The probe asks about the admission window, and is ready to fill.
    pub(super) fn aim_probe(&mut self) {
        let mut probe = machine(self.id, self.board.admission().width());
        let mut ballot = vec![0; probe.words()];
        let width = self.board.admission().width();
        // What the probe completes is no vote of this rank, and its board keeps nothing of it.
        let mut board = Board::new(self.id, width).expect("the window is small");
        let filled = probe.fill(&mut self.board.clone(), &mut ballot);
        ballot[words::RETIRED] = self.board.admission().base().cast_signed();
        let completed = filled.and_then(|()| probe.complete(&mut board, &ballot));
        completed.expect("a vote of one rank, on what is retired on all");
        self.probe = probe;
        self.peeked = self.peek();
    }

    fn peek(&self) -> Rc<[i64]> {
        let mut ballot = vec![0; self.probe.words()];
        self.probe.clone().fill(&mut self.board.clone(), &mut ballot).expect("the probe has no vote in flight");
        ballot.into()
    }

    /// No event takes back what a ballot has said, or could have said.
    pub(super) fn check_growth(&mut self) -> Result<(), Broken> {
        let now = self.peek();
        let before = std::mem::replace(&mut self.peeked, now);
        if let Some(at) = first_backward(&before, &self.peeked) {
            let (before, now) = (before[at], self.peeked[at]);
            return Err(self.broken(format_args!("word {at} of the next ballot went back from {before} to {now}")));
        }
        if i64::try_from(self.board.admission().base()) != Ok(self.probe_base()) {
            self.aim_probe();
        }
        Ok(())
    }

    fn probe_base(&self) -> i64 {
        self.peeked[words::BASE]
    }
}

/// The first word that only ever grows, and is smaller in `now` than in `before`.
fn first_backward(before: &[i64], now: &[i64]) -> Option<usize> {
    let grows = |at: &usize| matches!(*at, words::ISSUED..=words::APPLIED_STEP | words::STOPPING | words::FINISHED..);
    (0..before.len()).filter(grows).find(|at| before[*at] > now[*at])
}
