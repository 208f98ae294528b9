//! Does every slot have exactly one owner? The pool, the tree and running requests are added up.

use crate::error::Error;
use crate::node::ROOT;
use crate::pool::SlotPool;
use crate::tree::Tree;

/// Nodes named in one message.
const NODES_NAMED_MAX: usize = 16;

/// Checks that `available + cached + uncached == total`, and that no cached slot is free, foreign or cached twice.
///
/// `uncached` counts the slots that running requests own beside the tree.
pub(crate) fn check(tree: &Tree, pool: &SlotPool, uncached: u64) -> Result<(), Error> {
    let (first, total) = (pool.first_slot(), pool.total());
    let mut seen = vec![false; usize::try_from(total).unwrap_or(0)];
    let (mut wrong, mut nodes) = (0_u64, Vec::new());
    let mut slots = Vec::new();
    for id in tree.walk(ROOT) {
        slots.clear();
        tree.append_slots(id, &mut slots);
        let bad = slots.iter().filter(|slot| {
            let slot = slot.cast_unsigned();
            if !(first..first + total).contains(&slot) || pool.is_free(slot) {
                return true;
            }
            let index = usize::try_from(slot - first).unwrap_or(0);
            std::mem::replace(&mut seen[index], true)
        });
        let bad = bad.count() as u64;
        if bad > 0 {
            wrong += bad;
            nodes.push(tree.nodes[id].sequence);
        }
    }
    let cached = tree.pages() * tree.page as u64;
    let difference = i128::from(pool.available() + cached + uncached) - i128::from(total);
    if wrong == 0 && difference == 0 {
        return Ok(());
    }
    nodes.truncate(NODES_NAMED_MAX);
    let what = format!(
        "available {} + cached {cached} + uncached {uncached} against a total of {total}: {difference:+}; \
         {wrong} cached slots are free, foreign or cached twice",
        pool.available()
    );
    Err(Error::invariant(what, nodes))
}
