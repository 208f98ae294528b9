//! Does every slot have exactly one owner? The pool, the tree and running requests are added up.

use std::collections::BTreeSet;

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
    // Sequence number of the node that owns a slot; sequence numbers begin at 1.
    let mut owners = Vec::<u64>::new();
    let slots_total = usize::try_from(total).expect("a pool has at most 2^31 slots");
    Error::make_room(&mut owners, slots_total, "the owners of a pool's slots")?;
    owners.resize(slots_total, 0);
    let (mut wrong, mut nodes) = (0_u64, BTreeSet::new());
    let mut slots = Vec::new();
    for id in tree.walk(ROOT) {
        let node = tree.nodes[id].sequence;
        slots.clear();
        if tree.nodes[id].residency.on_device() {
            tree.append_slots(id, &mut slots);
        }
        for slot in slots.iter().map(|slot| slot.cast_unsigned()) {
            let own = (first..first + total).contains(&slot) && !pool.is_free(slot);
            let before = if own {
                let index = usize::try_from(slot - first).expect("a pool has at most 2^31 slots");
                std::mem::replace(&mut owners[index], node)
            } else {
                node
            };
            if before != 0 {
                wrong += 1;
                nodes.extend([before, node]);
            }
        }
    }
    let cached = tree.counts().device * tree.page as u64;
    let owned = i128::from(pool.available()) + i128::from(cached) + i128::from(uncached);
    let difference = owned - i128::from(total);
    if wrong == 0 && difference == 0 {
        return Ok(());
    }
    let what = format!(
        "available {} + cached {cached} + uncached {uncached} against a total of {total}: {difference:+}; \
         {wrong} cached slots are free, foreign or cached twice",
        pool.available()
    );
    Err(Error::invariant(what, nodes.into_iter().take(NODES_NAMED_MAX).collect()))
}
