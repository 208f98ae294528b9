//! Who is where, and who goes.

use isoradix_core::Writing;

use super::super::{Model, Refused, Settings};
use super::{SETTINGS, key, space};

#[test]
fn less_than_a_page_is_nothing() {
    let mut model = Model::new(Settings { page: 64, ..SETTINGS });
    let inserted = model.insert(&key(63, 1), &space(), 0, 0).unwrap();
    assert_eq!((inserted.length, inserted.node, model.state().nodes.len()), (0, 0, 0));
    assert_eq!(model.match_prefix(&key(63, 1), &space()).hit_tokens, 0);
}

#[test]
fn the_oldest_device_leaf_goes_first_and_is_demoted_if_host_has_it() {
    let mut model = Model::new(SETTINGS);
    let backed = model.insert_backed(&key(5, 1));
    model.insert_whole(&key(7, 2));
    let evicted = model.evict(6);
    assert_eq!((evicted.freed, evicted.demoted, evicted.dropped_dirty), (12, 5, 0));
    assert_eq!(evicted.victims[0], backed);
    let sizes = model.sizes();
    assert_eq!((sizes.device_total, sizes.host_total, sizes.host_only), (0, 5, 5));
}

#[test]
fn a_parent_whose_children_are_on_host_only_may_leave_the_device() {
    let mut model = Model::new(SETTINGS);
    let parent = model.insert_backed(&key(5, 1));
    let child = model.insert_backed(&key(9, 1));
    assert_eq!(model.evict(9).victims, [child, parent]);
    assert_eq!(model.evict_host(1).victims, [child], "on host, too, children go first");
    assert_eq!(model.evict_host(9).victims, [parent]);
}

#[test]
fn what_is_locked_or_pinned_stays_in_both_tiers() {
    let mut model = Model::new(SETTINGS);
    let node = model.insert_backed(&key(5, 1));
    let lock = model.lock(node).unwrap();
    assert_eq!(model.evict(5).freed, 0);
    model.unlock(lock).unwrap();
    model.evict(5);
    let pin = model.pin(node).unwrap();
    assert_eq!(model.evict_host(5).pages, 0);
    assert_eq!((model.unpin(pin), model.unpin(pin)), (Ok(()), Err(Refused::Receipt)));
    assert_eq!(model.evict_host(5).pages, 5);
}

#[test]
fn an_insert_revives_what_is_on_host_only() {
    let mut model = Model::new(SETTINGS);
    let all = key(40, 1);
    let upper = model.insert_backed(&all[..10]);
    let lower = model.insert_backed(&all[..20]);
    model.evict(10);
    assert_eq!((model.node(upper).on_device, model.node(lower).on_device), (true, false));
    let inserted = model.insert(&all, &space(), 0, 0).unwrap();
    assert_eq!((inserted.prefix_len, inserted.new_tokens), (10, 30));
    assert!(model.node(lower).on_device && model.node(lower).on_host);
    assert_eq!(model.node(lower).hits, 2);
    assert_eq!(model.insert(&all, &space(), 0, 15), Err(Refused::Resume));
}

#[test]
fn a_split_gives_both_halves_the_same_tiers() {
    let mut model = Model::new(SETTINGS);
    let lower = model.insert_backed(&key(20, 1));
    model.evict(20);
    let found = model.match_prefix(&key(12, 1), &space());
    assert_eq!((found.hit_tokens, found.node, found.host_tokens), (0, 0, 12));
    assert!(!model.node(lower).on_device && model.node(lower).on_host);
    assert!(model.node(found.host_node).age > model.node(lower).age);
}

#[test]
fn too_little_is_not_loaded_back() {
    let mut model = Model::new(SETTINGS);
    let node = model.insert_backed(&key(9, 1));
    model.evict(9);
    let receipt = model.host_lock(node).unwrap();
    assert_eq!((model.load_back_need(receipt), model.load_back(receipt)), (Ok(0), Ok(0)));
    assert_eq!((model.node(node).on_device, model.node(node).host_ref), (false, 1), "the receipt is still out");
}

#[test]
fn only_what_is_on_host_is_host_locked() {
    let mut model = Model::new(SETTINGS);
    let node = model.insert_whole(&key(9, 1));
    assert_eq!(model.host_lock(node), Err(Refused::NotOnHost));
    let root = model.host_lock(0).unwrap();
    assert_eq!(model.load_back_need(root), Ok(0));
}

#[test]
fn room_on_host_is_made_for_exactly_what_is_missing() {
    let mut model = Model::new(Settings { capacity: 25, storage: true, ..SETTINGS });
    let old = model.insert_backed(&key(5, 1));
    let young = model.insert_backed(&key(15, 2));
    model.close_step(0);
    model.complete(&model.only_issued());
    model.evict(20);

    let mut prefetching = model.clone();
    prefetching.prefetch(&key(8, 3), &space(), 0).unwrap().unwrap();
    prefetching.close_step(0);
    model.insert_whole(&key(8, 3));
    model.close_step(0);
    for model in [model, prefetching] {
        assert_eq!(model.only_issued().subjects[0].pages, 8);
        assert!(model.state().nodes.iter().all(|node| node.sequence != old));
        assert!(model.node(young).on_host);
        assert_eq!(model.occupied(), 23);
    }
}

#[test]
fn an_insert_raises_hits_below_the_resume_point_and_the_priority_of_the_whole_path() {
    let mut model = Model::new(SETTINGS);
    let upper = model.insert(&key(5, 1), &space(), -3, 0).unwrap().node;
    let lower = model.insert(&key(9, 1), &space(), 2, 5).unwrap().node;
    model.insert(&key(9, 1), &space(), 1, 5).unwrap();
    let facts = [upper, lower].map(|node| (model.node(node).hits, model.node(node).priority));
    assert_eq!(facts, [(1, 2), (2, 2)]);
}

#[test]
fn a_wish_is_for_whatever_is_dirty_on_its_path_when_the_step_ends() {
    let mut model = Model::new(SETTINGS);
    let first = model.insert_whole(&key(6, 1));
    let other = model.insert_whole(&key(6, 2));
    let head = model.match_prefix(&key(4, 1), &space()).node;
    let gone = model.insert_whole(&key(3, 3));
    model.match_prefix(&key(6, 1), &space());
    model.match_prefix(&key(6, 2), &space());
    assert_eq!(model.evict(1).victims, [gone]);
    model.close_step(0);
    assert_eq!(model.issued_ids(), [head, first, other]);
}

#[test]
fn write_back_cleans_the_oldest_after_their_ancestors() {
    let mut model = Model::new(Settings { writing: Writing::Back { low_water: 15 }, ..SETTINGS });
    let parent = model.insert_whole(&key(6, 1));
    let child = model.insert_whole(&key(10, 1));
    let other = model.insert_whole(&key(7, 2));
    model.close_step(15);
    assert!(model.issued().is_empty(), "enough is free");
    model.close_step(5);
    let issued = model.only_issued();
    assert_eq!(issued.subjects.iter().map(|subject| subject.id).collect::<Vec<u64>>(), [parent, child]);
    model.complete(&issued);
    assert_eq!(model.sizes().clean, 10);
    let evicted = model.evict(17);
    assert_eq!((evicted.demoted, evicted.dropped_dirty), (10, 7));
    assert_eq!(evicted.victims, [child, parent, other]);
}

#[test]
fn write_back_passes_over_what_is_held_and_counts_what_is_coming() {
    let mut model = Model::new(Settings { writing: Writing::Back { low_water: 15 }, ..SETTINGS });
    let parent = model.insert_whole(&key(6, 1));
    let child = model.insert_whole(&key(9, 1));
    let running = model.insert_whole(&key(20, 2));
    let other = model.insert_whole(&key(7, 3));
    let (_, _) = (model.lock(parent).unwrap(), model.lock(running).unwrap());
    model.close_step(5);
    assert_eq!(model.issued_ids(), [parent, child, other], "3 and 7 are wished for, and the parent goes along");
    model.close_step(5);
    assert!(model.issued().is_empty(), "16 are coming");
}

/// Host is full: of what sleeps there, and of what runs on the device. What is to be cleaned has this many tokens.
fn full_host(tokens: usize) -> (Model, [u64; 3]) {
    let mut model = Model::new(Settings { writing: Writing::Back { low_water: 20 }, capacity: 20, ..SETTINGS });
    let (asleep, running) = (model.insert_whole(&key(8, 1)), model.insert_whole(&key(12, 2)));
    model.close_step(0);
    model.complete(&model.only_issued());
    model.lock(running).unwrap();
    assert_eq!(model.evict(8).demoted, 8);
    let dirty = model.insert_whole(&key(tokens, 3));
    (model, [asleep, running, dirty])
}

#[test]
fn write_back_gives_up_copies_before_it_evicts_from_host() {
    let (mut model, [asleep, running, dirty]) = full_host(10);
    model.close_step(0);
    assert_eq!(model.issued_ids(), [dirty]);
    assert!(model.node(asleep).on_host && !model.node(running).on_host);
    assert_eq!(model.occupied(), 18);
}

#[test]
fn a_copy_that_is_locked_on_host_stays() {
    let (mut model, [asleep, running, dirty]) = full_host(8);
    model.host_lock(running).unwrap();
    model.close_step(0);
    assert_eq!(model.issued_ids(), [dirty]);
    assert!(model.state().nodes.iter().all(|node| node.sequence != asleep) && model.node(running).on_host);
}

#[test]
fn write_back_evicts_from_host_only_below_half_of_the_low_water() {
    let (mut model, [asleep, _, dirty]) = full_host(16);
    model.close_step(10);
    assert!(model.issued().is_empty() && model.node(asleep).on_host, "12 fit, 16 do not");
    model.close_step(9);
    assert_eq!(model.issued_ids(), [dirty]);
}

#[test]
fn a_namespace_goes_whole_or_not_at_all() {
    let mut model = Model::new(SETTINGS);
    let node = model.insert_backed(&key(10, 1));
    let receipt = model.host_lock(node).unwrap();
    assert_eq!(model.remove_namespace(&space()), Err(Refused::Held));
    model.unlock_host(receipt).unwrap();
    assert_eq!((model.remove_namespace(&space()), model.occupied()), (Ok(10), 0));
}
