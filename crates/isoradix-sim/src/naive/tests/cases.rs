//! Rows of the regression inputs, at this level.

use isoradix_core::operation::{Kind, Subject};
use isoradix_core::{Ordinal, Writing};

use super::super::{Model, Refused, Settings};
use super::{SETTINGS, key, space};

#[test]
fn a_split_while_the_backup_is_pending_leaves_nothing_out() {
    let mut model = Model::new(SETTINGS);
    let node = model.insert_whole(&key(375, 7));
    model.close_step(0);
    let backup = model.only_issued();
    let subjects = vec![Subject { id: node, pages: 375, tokens: 375 }];
    assert_eq!((backup.ordinal, backup.kind, &backup.subjects), (Ordinal(0), Kind::Backup, &subjects));
    assert_eq!((model.node(node).pending, model.node(node).lock_ref, model.occupied()), (true, 1, 375));

    let found = model.match_prefix(&key(374, 7), &space());
    assert_eq!((found.hit_tokens, found.host_tokens), (374, 0));
    assert!(model.node(found.node).pending && model.node(node).pending);
    assert_eq!(model.node(node).length, 1);

    model.complete(&backup);
    let state = model.state();
    assert_eq!((state.nodes.len(), state.occupied), (2, 375));
    for node in state.nodes {
        assert!(node.on_device && node.on_host && !node.pending);
        assert_eq!((node.lock_ref, node.host_ref), (0, 0));
    }
}

#[test]
fn a_promise_on_host_is_kept_whole() {
    let mut model = Model::new(Settings { page: 64, capacity: 10_000, ..SETTINGS });
    let all = key(257_024, 1);
    model.insert_backed(&all[..128_000]);
    let tail = model.insert_backed(&all);
    assert_eq!(model.evict(257_024).demoted, 257_024);

    let found = model.match_prefix(&all, &space());
    assert_eq!((found.hit_tokens, found.node, found.host_tokens, found.host_node), (0, 0, 257_024, tail));
    let mut unlocked = model.clone();
    assert_eq!(unlocked.evict_host(1).victims, [tail], "without a lock, part of it goes");

    let receipt = model.host_lock(found.host_node).unwrap();
    assert_eq!(model.evict_host(1).pages, 0);
    assert_eq!(model.load_back_need(receipt), Ok(257_024));
    let other = model.insert_whole(&key(64, 2));
    assert_eq!(model.load_back(receipt), Ok(257_024));
    assert_eq!((model.node(tail).host_ref, model.node(tail).lock_ref), (0, 1), "the load holds it now");
    assert!(model.node(tail).age > model.node(other).age);
    assert_eq!(model.load_back(receipt), Err(Refused::Receipt));
    let found = model.match_prefix(&all, &space());
    assert_eq!((found.hit_tokens, found.host_tokens), (257_024, 0));
}

#[test]
fn a_lookup_that_retrieves_nothing_leaves_no_lock() {
    let mut model = Model::new(SETTINGS);
    let node = model.insert_backed(&key(1000, 3));
    model.evict(1000);
    let receipt = model.host_lock(node).unwrap();
    assert_eq!((model.node(node).host_ref, model.evict_host(1).pages), (1, 0));
    assert_eq!(model.unlock_host(receipt), Ok(()));
    assert_eq!(model.node(node).host_ref, 0);
    assert_eq!(model.unlock_host(receipt), Err(Refused::Receipt));
    assert_eq!((model.evict_host(1).pages, model.occupied()), (1000, 0));
}

#[test]
fn a_load_below_one_that_is_under_way_loads_the_rest_only() {
    let mut model = Model::new(SETTINGS);
    let all = key(50, 5);
    let upper = model.insert_backed(&all[..20]);
    let lower = model.insert_backed(&all);
    model.evict(50);

    let first = model.host_lock(upper).unwrap();
    let second = model.host_lock(lower).unwrap();
    assert_eq!((model.load_back_need(first), model.load_back_need(second)), (Ok(20), Ok(50)));
    assert_eq!(model.load_back(first), Ok(20));
    model.close_step(0);
    let first = model.only_issued();
    assert_eq!(first.subjects, [Subject { id: upper, pages: 20, tokens: 20 }]);

    assert_eq!(model.load_back(second), Ok(30));
    model.close_step(0);
    let second = model.only_issued();
    assert_eq!(second.subjects, [Subject { id: lower, pages: 30, tokens: 30 }]);
    assert_eq!((model.node(upper).lock_ref, model.node(lower).lock_ref), (2, 1));
    assert_eq!(model.evict(1).freed, 0);

    model.complete(&first);
    assert_eq!((model.node(upper).lock_ref, model.node(lower).lock_ref), (1, 1));
    model.complete(&second);
    assert_eq!((model.node(upper).lock_ref, model.node(lower).lock_ref, model.occupied()), (0, 0, 50));
}

#[test]
fn in_one_step_both_are_parts_of_one_operation() {
    let mut model = Model::new(SETTINGS);
    let all = key(50, 5);
    let upper = model.insert_backed(&all[..20]);
    let lower = model.insert_backed(&all);
    model.evict(50);
    for node in [upper, lower] {
        let receipt = model.host_lock(node).unwrap();
        model.load_back(receipt).unwrap();
    }
    model.close_step(0);
    let issued = model.only_issued();
    let subjects = [(upper, 20), (lower, 30)].map(|(id, pages)| Subject { id, pages, tokens: pages.into() });
    assert_eq!((issued.kind, issued.subjects.as_slice()), (Kind::LoadBack, subjects.as_slice()));
}

#[test]
fn a_child_waits_for_its_parent() {
    let mut model = Model::new(Settings { writing: Writing::Through { hits: 2 }, ..SETTINGS });
    let all = key(30, 9);
    let parent = model.insert_whole(&all[..10]);
    for _ in 0..2 {
        model.insert(&all, &space(), 0, 10).unwrap();
    }
    let child = model.match_prefix(&all, &space()).node;
    assert_eq!((model.node(parent).hits, model.node(child).hits), (1, 2));
    model.close_step(0);
    assert!(model.issued().is_empty(), "the child has enough hits, its parent has not");

    model.insert_whole(&all);
    model.close_step(0);
    let issued = model.only_issued();
    assert_eq!(issued.subjects.iter().map(|subject| subject.id).collect::<Vec<u64>>(), [parent, child]);
}

#[test]
fn what_does_not_fit_is_left_out_from_the_end() {
    let mut model = Model::new(Settings { capacity: 25, ..SETTINGS });
    let all = key(30, 9);
    let parent = model.insert_whole(&all[..10]);
    let child = model.insert_whole(&all);
    model.close_step(0);
    let issued = model.only_issued();
    assert_eq!(issued.subjects, [Subject { id: parent, pages: 10, tokens: 10 }]);
    model.complete(&issued);
    assert_eq!((model.node(parent).on_host, model.node(child).on_host), (true, false));
}
