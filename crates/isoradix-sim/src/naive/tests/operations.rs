//! What operations do to nodes and to the ledger.

use isoradix_core::operation::{Action, Kind, Share};

use super::super::{Model, Refused, Settings};
use super::{SETTINGS, drained, key, space, whole};

const STORING: Settings = Settings { storage: true, ..SETTINGS };

#[test]
fn a_given_up_backup_occupies_its_pages_until_it_has_drained() {
    let mut model = Model::new(SETTINGS);
    let node = model.insert_whole(&key(10, 1));
    model.close_step(0);
    let operation = model.only_issued().ordinal;
    model.apply_all(&[Action::Cancel { operation, keep: 0 }]);
    assert_eq!((model.occupied(), model.node(node).lock_ref, model.node(node).pending), (10, 1, true));
    model.apply_all(&drained(operation, 0));
    assert_eq!((model.occupied(), model.node(node).lock_ref, model.node(node).on_host), (0, 0, false));
    assert_eq!(model.apply(&Action::Unlock { operation }), Err(Refused::Operation));
}

#[test]
fn a_backup_is_about_its_own_node_alone() {
    let mut model = Model::new(STORING);
    let parent = model.insert_backed(&key(10, 1));
    let child = model.insert_whole(&key(20, 1));
    model.close_step(0);
    let [store, backup] = model.issued() else { panic!("a store of the parent and a backup of the child") };
    let (backup, store) = (backup.clone(), store.clone());
    assert_eq!((model.node(parent).pending, model.node(child).pending), (false, true));
    model.apply_all(&[
        Action::Cancel { operation: store.ordinal, keep: 0 },
        Action::Unlock { operation: store.ordinal },
    ]);
    model.complete(&backup);
    model.close_step(0);
    model.complete(&model.only_issued());
    assert_eq!(
        (model.node(parent).stored, model.node(child).stored),
        (true, true),
        "a store takes along what is above"
    );
}

#[test]
fn a_short_grant_delivers_the_leading_nodes() {
    let mut model = Model::new(SETTINGS);
    let first = model.insert_whole(&key(10, 1));
    let second = model.insert_whole(&key(10, 2));
    model.close_step(0);
    let operation = model.only_issued().ordinal;
    let share = Share { pages: 10, tokens: 10, subjects: 1 };
    model.apply_all(&[Action::Commit { operation, share }]);
    model.lower(12);
    assert_eq!((model.occupied(), model.capacity, model.node(second).pending), (10, 12, true));
    model.apply_all(&[
        Action::Deliver { operation, share },
        Action::Settle { operation, keep: 10 },
        Action::Unlock { operation },
    ]);
    assert_eq!((model.node(first).on_host, model.node(second).on_host), (true, false));
    model.raise(2000);
    assert_eq!(model.capacity, SETTINGS.capacity);
}

#[test]
fn the_window_declines_on_all_ranks_alike() {
    let mut model = Model::new(Settings { window: 1, ..SETTINGS });
    let node = model.insert_backed(&key(10, 1));
    model.evict(10);
    let receipt = model.host_lock(node).unwrap();
    assert_eq!(model.load_back_need(receipt), Ok(0), "operation 0 is not retired on all ranks");
    assert_eq!(model.prefetch(&key(10, 2), &space(), 0), Ok(None));
    let other = model.insert_whole(&key(10, 2));
    model.close_step(0);
    assert!(model.issued().is_empty());
    model.slide(1);
    assert_eq!(model.load_back_need(receipt), Ok(10));
    model.close_step(0);
    assert_eq!(model.only_issued().subjects[0].id, other, "the wish has waited");
}

#[test]
fn what_a_step_plans_has_its_place_in_the_window() {
    let mut model = Model::new(Settings { window: 3, ..SETTINGS });
    let nodes = [1, 2].map(|token| model.insert_backed(&key(10, token)));
    model.slide(2);
    model.evict(20);
    let receipts = nodes.map(|node| model.host_lock(node).unwrap());
    for token in [3, 4] {
        model.prefetch(&key(10, token), &space(), 0).unwrap().unwrap();
    }
    assert_eq!(model.load_back(receipts[0]), Ok(10));
    assert_eq!(model.load_back(receipts[1]), Ok(10), "it joins the first");
    assert_eq!(model.prefetch(&key(10, 5), &space(), 0), Ok(None));
    model.close_step(0);
    let kinds: Vec<Kind> = model.issued().iter().map(|issued| issued.kind).collect();
    assert_eq!(kinds, [Kind::LoadBack, Kind::Prefetch, Kind::Prefetch]);
}

#[test]
fn a_wish_waits_for_what_is_pending_above_it() {
    let mut model = Model::new(SETTINGS);
    let parent = model.insert_whole(&key(10, 1));
    model.close_step(0);
    let backup = model.only_issued();
    let child = model.insert_whole(&key(20, 1));
    model.close_step(0);
    assert!(model.issued().is_empty());
    let mut failing = model.clone();

    model.complete(&backup);
    model.close_step(0);
    assert_eq!(model.issued_ids(), [child]);

    failing.apply_all(&[Action::Cancel { operation: backup.ordinal, keep: 0 }]);
    failing.apply_all(&drained(backup.ordinal, 0));
    failing.close_step(0);
    assert_eq!(failing.issued_ids(), [parent, child]);
}

#[test]
fn what_is_above_a_lowered_capacity_is_evicted_when_the_step_ends() {
    let mut model = Model::new(SETTINGS);
    let nodes = [1, 2].map(|token| model.insert_backed(&key(10, token)));
    model.evict(20);
    model.lower(15);
    assert_eq!((model.occupied(), model.capacity), (20, 15));
    model.close_step(0);
    assert_eq!((model.occupied(), model.node(nodes[1]).on_host), (10, true));
}

#[test]
fn what_was_backed_up_is_stored_in_the_step_of_its_delivery() {
    let mut model = Model::new(STORING);
    let node = model.insert_whole(&key(10, 1));
    model.close_step(0);
    let backup = model.only_issued();
    model.complete(&backup);
    model.evict(10);
    let mut emptied = model.clone();
    assert_eq!((model.node(node).host_ref, emptied.evict_host(10).pages), (0, 10));
    emptied.close_step(0);
    assert!(emptied.issued().is_empty(), "it is gone");
    model.close_step(0);
    assert_eq!((model.node(node).host_ref, model.evict_host(10).pages), (1, 0));
    let store = model.only_issued();
    assert_eq!((store.kind, whole(&store)), (Kind::Store, Share { pages: 0, tokens: 10, subjects: 1 }));

    let mut failing = model.clone();
    failing.apply_all(&[Action::Cancel { operation: store.ordinal, keep: 0 }]);
    failing.apply_all(&[Action::Unlock { operation: store.ordinal }]);
    assert_eq!((failing.node(node).stored, failing.node(node).host_ref), (false, 0));
    model.complete(&store);
    assert_eq!((model.node(node).stored, model.node(node).host_ref), (true, 0));
}

#[test]
fn a_prefetch_grows_a_leaf_on_host_below_its_locked_anchor() {
    let mut model = Model::new(STORING);
    let all = key(40, 1);
    let anchor = model.insert_backed(&all[..10]);
    model.evict(10);
    assert_eq!(model.prefetch(&key(40, 2), &space(), anchor), Err(Refused::Anchor));
    assert_eq!(model.prefetch(&all[..10], &space(), anchor), Ok(None));
    let ticket = model.prefetch(&all, &space(), anchor).unwrap().unwrap();
    assert_eq!((model.node(anchor).host_ref, model.prefetch_ordinal(ticket)), (1, None));
    model.close_step(0);
    assert_eq!(model.node(anchor).host_ref, 2, "the other one is the store's");
    let operation = model.prefetch_ordinal(ticket).unwrap();
    assert_eq!(model.issued().iter().map(|issued| issued.kind).collect::<Vec<Kind>>(), [Kind::Prefetch, Kind::Store]);
    assert_eq!(model.occupied(), 40);

    let asked = Share { pages: 30, tokens: 30, subjects: 1 };
    let arrived = Share { pages: 12, tokens: 12, subjects: 1 };
    model.apply_all(&[
        Action::Commit { operation, share: asked },
        Action::Deliver { operation, share: arrived },
        Action::Cancel { operation, keep: 12 },
    ]);
    assert_eq!(model.prefetch_ordinal(ticket), None);
    assert_eq!((model.occupied(), model.match_prefix(&all, &space()).host_tokens), (40, 22));
    assert_eq!(model.node(anchor).host_ref, 2);
    model.apply_all(&drained(operation, 12));
    assert_eq!((model.occupied(), model.node(anchor).host_ref), (22, 1));
}

#[test]
fn a_prefetch_keeps_what_came_meanwhile_and_hangs_nothing_below_what_is_not_on_host() {
    let mut model = Model::new(STORING);
    let all = key(40, 1);
    model.prefetch(&all, &space(), 0).unwrap().unwrap();
    model.close_step(0);
    let prefetch = model.only_issued();
    let dirty = model.insert_whole(&all[..25]);
    let before = model.state().nodes;
    model.complete(&prefetch);
    assert_eq!((model.state().nodes, model.occupied()), (before, 0));

    let mut model = Model::new(STORING);
    model.insert_backed(&all[..25]);
    model.prefetch(&all, &space(), 0).unwrap().unwrap();
    model.close_step(0);
    let prefetch = model.issued()[0].clone();
    assert_eq!((prefetch.kind, model.occupied()), (Kind::Prefetch, 65));
    model.complete(&prefetch);
    let found = model.match_prefix(&all, &space());
    assert_eq!((found.hit_tokens, found.node, found.host_tokens, model.occupied()), (25, dirty, 15, 40));
    assert!(!model.node(found.host_node).stored, "what it hangs below is not");
}

#[test]
fn an_anchor_outlives_the_step_in_which_its_prefetch_is_forgotten() {
    let mut model = Model::new(SETTINGS);
    let anchor = model.insert_backed(&key(10, 1));
    model.evict(10);
    model.prefetch(&key(15, 1), &space(), anchor).unwrap().unwrap();
    model.lower(5);
    model.close_step(0);
    assert_eq!((model.issued().len(), model.node(anchor).host_ref, model.occupied()), (0, 0, 10));
    model.close_step(0);
    assert_eq!(model.occupied(), 0);
}

#[test]
fn a_prefetch_does_not_bring_back_a_namespace_that_was_removed() {
    let mut model = Model::new(STORING);
    model.prefetch(&key(10, 1), &space(), 0).unwrap().unwrap();
    model.close_step(0);
    let open = model.only_issued();
    let waiting = model.prefetch(&key(10, 2), &space(), 0).unwrap().unwrap();
    assert_eq!(model.remove_namespace(&space()), Ok(0));
    model.close_step(0);
    assert_eq!((model.issued().len(), model.prefetch_ordinal(waiting), model.occupied()), (0, None, 10));
    model.complete(&open);
    assert_eq!((model.state().nodes.len(), model.occupied()), (0, 0));
}

#[test]
fn a_prefetch_that_does_not_fit_is_forgotten() {
    let mut model = Model::new(Settings { capacity: 20, ..STORING });
    let ticket = model.prefetch(&key(21, 1), &space(), 0).unwrap().unwrap();
    model.close_step(0);
    assert_eq!((model.prefetch_ordinal(ticket), model.issued().len(), model.occupied()), (None, 0, 0));
}

#[test]
fn a_reset_leaves_what_open_operations_may_touch_until_all_of_them_have_ended() {
    let mut model = Model::new(SETTINGS);
    let node = model.insert_backed(&key(10, 1));
    model.evict(10);
    let receipt = model.host_lock(node).unwrap();
    model.load_back(receipt).unwrap();
    model.insert_whole(&key(5, 2));
    model.close_step(0);
    let [load, backup] = model.issued() else { panic!("a load-back and a backup") };
    let (load, backup) = (load.clone(), backup.clone());
    model.insert_whole(&key(3, 3));
    let reset = model.reset();
    assert_eq!((reset.dropped, reset.free_now), (18, 3), "loaded 10 and backed up 5 are still touched");
    assert_eq!((model.state().nodes.len(), model.occupied()), (0, 15), "read 10, written 5");

    let again = model.insert_whole(&key(5, 2));
    assert_eq!(model.complete(&backup), 0);
    assert!(!model.node(again).on_host, "an old operation delivers nothing");
    assert_eq!(model.occupied(), 10);
    assert_eq!(model.complete(&load), 15);
    assert_eq!(model.occupied(), 0);
}
