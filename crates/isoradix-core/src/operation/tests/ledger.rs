//! Who owns an operation's pages, booked from its actions alone.

use super::*;

/// The books of one operation. Each entry checks that it may be made.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
#[expect(clippy::struct_excessive_bools, reason = "entries of a book, any of which may be there")]
pub(super) struct Ledger {
    kind: Kind,
    voting: bool,
    /// Pages and tokens of each subject.
    subjects: Vec<(u32, u64)>,
    committed: Option<u32>,
    cancelled: bool,
    /// Whether every rank's copy has ended.
    untouched: bool,
    delivered: u32,
    delivered_tokens: Option<u64>,
    /// Once no page is the operation's any more.
    returned: Option<u32>,
    unlocked: bool,
}

impl Ledger {
    pub(super) fn new(operation: &Operation, pools: Pools) -> Self {
        let subjects: Vec<_> = operation.subjects().iter().map(|subject| (subject.pages, subject.tokens)).collect();
        let voting = pools.of(operation.kind()) == Some(Backing::Voting);
        Self {
            kind: operation.kind(),
            voting,
            subjects,
            committed: None,
            cancelled: false,
            untouched: false,
            delivered: 0,
            delivered_tokens: None,
            returned: None,
            unlocked: false,
        }
    }

    fn asked(&self) -> u32 {
        self.subjects.iter().map(|(pages, _)| pages).sum()
    }

    fn owned(&self) -> u32 {
        self.committed.unwrap_or(self.asked())
    }

    /// An event that says that no rank's copy touches a page any more.
    pub(super) fn ended(&mut self) {
        self.untouched = true;
    }

    fn close(&mut self) {
        self.returned = Some(self.owned() - self.delivered);
    }

    pub(super) fn book(&mut self, action: &Action) {
        assert!(!self.unlocked, "{action:?} after the end");
        match *action {
            Action::Commit { share: Share { pages, subjects, .. }, .. } => {
                assert!(self.voting && self.committed.is_none() && !self.cancelled);
                assert!(0 < pages && pages <= self.asked());
                let whole: u32 = self.subjects.iter().take(subjects as usize).map(|(pages, _)| pages).sum();
                assert!(whole == pages || self.kind == Kind::Prefetch, "subjects are whole");
                self.committed = Some(pages);
            }
            Action::Deliver { share: Share { pages, tokens, subjects }, .. } => {
                assert!(self.delivered_tokens.is_none() && !self.cancelled && tokens > 0);
                assert!(self.committed.is_some() || !self.voting);
                let parts = &self.subjects[..subjects as usize];
                let whole: u64 = parts.iter().map(|(_, tokens)| tokens).sum();
                let prefetch = self.kind == Kind::Prefetch;
                assert!(tokens == whole || tokens < whole && prefetch, "only a prefetch delivers a part");
                assert!(prefetch || self.untouched, "the copy is over before its tokens count");
                if prefetch {
                    assert_eq!(u64::from(pages) * PAGE, tokens);
                } else {
                    assert_eq!(pages, parts.iter().map(|(pages, _)| pages).sum());
                }
                self.delivered_tokens = Some(tokens);
                self.delivered = pages;
                assert!(pages <= self.owned());
            }
            Action::Settle { keep, .. } => {
                assert!(self.untouched && !self.cancelled, "pages under a copy");
                assert!(self.committed.is_some() || !self.voting, "never committed");
                assert_eq!((keep, self.returned), (self.delivered, None));
                self.close();
            }
            Action::Cancel { keep, .. } => {
                assert!(!self.cancelled && !self.untouched);
                assert_eq!(keep, self.delivered);
                self.cancelled = true;
            }
            Action::Return { from, .. } => {
                assert!(self.untouched && self.cancelled, "pages under a copy");
                assert_eq!((from, self.returned), (self.delivered, None));
                self.close();
            }
            Action::Unlock { .. } => {
                assert!(self.untouched, "locks dropped under a copy");
                assert_eq!(self.returned.is_some(), self.asked() > 0, "each page has gone somewhere");
                self.unlocked = true;
            }
        }
    }

    /// Compares the books with what the table says.
    pub(super) fn compare(&self, operation: &Operation) {
        let state = operation.state();
        assert_eq!(state.is_terminal(), self.unlocked);
        assert_eq!(matches!(state, State::Draining | State::Aborted), self.cancelled);
        let committed = operation.committed().map(|share| share.pages);
        assert_eq!(committed.filter(|_| self.voting), self.committed);
        assert_eq!(operation.delivered().map_or(0, |share| share.pages), self.delivered);
        if self.cancelled && self.kind != Kind::Prefetch {
            assert_eq!(self.delivered_tokens, None, "all or nothing");
        }
    }
}
