//! The actions of an applied frame, read off the real cache's journal.

use isoradix_core::operation::{Action, Share};
use isoradix_core::{Ordinal, Record, RecordKind};

use super::model::Model;

impl Model {
    /// The actions among these records, in order: those that the real cache has left since its last frame, before this model has
    /// [applied](Model::apply) any of them.
    #[must_use]
    pub(crate) fn actions(&self, records: &[Record]) -> Vec<Action> {
        records.iter().filter_map(|record| self.action(record)).collect()
    }

    fn action(&self, record: &Record) -> Option<Action> {
        let operation = Ordinal(record.a);
        let pages = u32::try_from(record.b).unwrap_or(u32::MAX);
        let share = || self.share(operation, pages, record.content);
        Some(match record.kind {
            RecordKind::Commit => Action::Commit { operation, share: share() },
            RecordKind::Deliver => Action::Deliver { operation, share: share() },
            RecordKind::Settle => Action::Settle { operation, keep: pages },
            RecordKind::Cancel => Action::Cancel { operation, keep: pages },
            RecordKind::Return => Action::Return { operation, from: pages },
            RecordKind::Over => Action::Unlock { operation },
            _ => return None,
        })
    }

    /// A record leaves out the number of subjects: it is that of the leading ones that the tokens reach.
    fn share(&self, ordinal: Ordinal, pages: u32, tokens: u64) -> Share {
        let operation = self.operations.iter().find(|operation| operation.ordinal == ordinal);
        let (mut subjects, mut reached) = (0, 0);
        for part in operation.iter().flat_map(|operation| &operation.parts) {
            if reached >= tokens {
                break;
            }
            reached += part.span.tokens as u64;
            subjects += 1;
        }
        Share { pages, tokens, subjects }
    }
}
