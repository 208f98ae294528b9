//! Every refusal: its text, and that it changes nothing.

use super::*;
use crate::host::HostError;

/// A call that must be refused with this first line and a hint, and change nothing.
fn refused<T>(pool: &mut HostPool, text: &str, call: impl Fn(&mut HostPool) -> Result<T, HostError>) {
    let before = pool.clone();
    let error = call(pool).map(|_| ()).unwrap_err().to_string();
    assert_eq!(error.split_once("\nhint: ").map(|(what, _)| what), Some(text), "{error}");
    assert!(*pool == before, "{error}");
}

#[test]
fn asks_come_once_and_in_order() {
    let mut pool = voting(8, 8);
    reserved(&mut pool, 5, 2);
    for k in [0, 5] {
        let text = format!("operation {k} asks out of order: 6 to 9223372036854775806");
        refused(&mut pool, &text, |pool| pool.ask(Ordinal(k), 1));
    }
    refused(&mut pool, "pages asked for 0 is out of range: at least 1", |pool| pool.ask(Ordinal(6), 0));
    assert!(pool.ask(Ordinal(6), 7).unwrap().is_err());
    let text = "operation 6 asks out of order: 7 to 9223372036854775806";
    refused(&mut pool, text, |pool| pool.ask(Ordinal(6), 1));
    let text = "operation 9223372036854775807 asks out of order: 7 to 9223372036854775806";
    refused(&mut pool, text, |pool| pool.ask(Ordinal(u64::MAX >> 1), 1));
    assert_eq!(reserved(&mut pool, Ordinal::LAST.0, 1), 1);
    pool.check().unwrap();
}

#[test]
fn a_grant_is_within_the_reservation_and_comes_once() {
    let mut pool = voting(4, 8);
    let k = Ordinal(1);
    refused(&mut pool, "operation 1 holds no host pages to commit", |pool| pool.commit(k, agreed(1)));
    pool.ask(k, 6).unwrap().unwrap();
    let text = "operation 1 is granted 1 pages before this rank has reserved any (form B)";
    refused(&mut pool, text, |pool| pool.commit(k, agreed(1)));
    assert_eq!(pool.reserve(k).unwrap().into_ballot(), 4);
    refused(&mut pool, "operation 1 has reserved already, and got 4 pages", |pool| pool.reserve(k));
    let text = "operation 1 is granted 5 pages, above this rank's reservation of 4 (form B)";
    refused(&mut pool, text, |pool| pool.commit(k, agreed(5)));
    refused(&mut pool, "pages granted 0 is out of range: at least 1", |pool| pool.commit(k, agreed(0)));
    pool.commit(k, agreed(4)).unwrap();
    refused(&mut pool, "operation 1 is committed: cannot commit", |pool| pool.commit(k, agreed(4)));
    refused(&mut pool, "operation 1 is committed: cannot reserve", |pool| pool.reserve(k));
    let text = "operation 1 is to keep 5 pages, above its grant of 4";
    refused(&mut pool, text, |pool| pool.settle(k, agreed(5)));
    refused(&mut pool, text, |pool| pool.drain_rest(k, agreed(5)));
}

#[test]
fn a_draining_operation_keeps_its_pages_until_it_has_finished() {
    let mut pool = voting(4, 4);
    let k = Ordinal(0);
    reserved(&mut pool, 0, 4);
    refused(&mut pool, "operation 0 is asked: cannot finish draining", |pool| pool.finished(k));
    pool.drain(k).unwrap();
    refused(&mut pool, "operation 0 is draining: cannot abort", |pool| pool.abort(k));
    refused(&mut pool, "operation 0 is draining: cannot drain", |pool| pool.drain(k));
    refused(&mut pool, "operation 0 is draining: cannot commit", |pool| pool.commit(k, agreed(4)));
    assert!(pool.ask(Ordinal(1), 1).unwrap().is_err());
    pool.finished(k).unwrap();
    refused(&mut pool, "operation 0 is finished: cannot finish draining", |pool| pool.finished(k));
    pool.abort(k).unwrap();
    refused(&mut pool, "operation 0 holds no host pages to abort", |pool| pool.abort(k));
}

#[test]
fn a_page_is_released_once_by_its_owner() {
    let mut pool = voting(8, 8);
    assert_eq!(settled(&mut pool, 0, 3), [0, 1, 2]);
    reserved(&mut pool, 1, 2);
    refused(&mut pool, "page 3 is held by operation 1", |pool| pool.release(&[0, 1, 3]));
    refused(&mut pool, "page 1 is released twice in one call", |pool| pool.release(&[0, 1, 2, 1]));
    refused(&mut pool, "page 5 is free already", |pool| pool.release(&[2, 5]));
    refused(&mut pool, "page 8 is out of range: below 8", |pool| pool.release(&[2, 8]));
    refused(&mut pool, "operation 1 is asked: cannot settle", |pool| pool.settle(Ordinal(1), agreed(2)));
    refused(&mut pool, "operation 0 is settled: cannot abort", |pool| pool.abort(Ordinal(0)));
    refused(&mut pool, "operation 0 is settled: cannot drain", |pool| pool.drain(Ordinal(0)));
    pool.release(&[1]).unwrap();
    pool.release(&[0, 2]).unwrap();
    refused(&mut pool, "operation 0 holds no host pages to settle", |pool| pool.settle(Ordinal(0), agreed(1)));
    assert_eq!(settled(&mut pool, 2, 3), [0, 2, 1]);
    assert_eq!(reserved(&mut pool, 3, 3), 3);
    pool.commit(Ordinal(3), agreed(1)).unwrap();
    refused(&mut pool, "page 6 is held by operation 3", |pool| pool.release(&[6]));
}

#[test]
fn a_fixed_pool_is_backed_and_stays_so() {
    let short = HostPool::new(PerRank::observe(3), agreed(4), Backing::Fixed).unwrap_err();
    assert_eq!(short, HostError::Unbacked { physical: 3, capacity: 4 });
    let mut pool = fixed(4);
    pool.ask(Ordinal(0), 2).unwrap().unwrap();
    refused(&mut pool, "a fixed pool cannot lose pages", |pool| pool.withdraw(PerRank::observe(1)));
    let part = |pool: &mut HostPool| pool.reserve_up_to(Ordinal(0), PerRank::observe(1));
    refused(&mut pool, "a fixed pool cannot reserve a part", part);
    refused(&mut pool, "operation 0 is committed: cannot commit", |pool| pool.commit(Ordinal(0), agreed(2)));
}

#[test]
fn shutdown_lists_what_has_not_ended() {
    let mut pool = voting(20, 20);
    settled(&mut pool, 0, 1);
    reserved(&mut pool, 1, 2);
    pool.ask(Ordinal(2), 3).unwrap().unwrap();
    reserved(&mut pool, 3, 4);
    pool.drain(Ordinal(3)).unwrap();
    reserved(&mut pool, 4, 5);
    pool.commit(Ordinal(4), agreed(5)).unwrap();
    let text = "4 operations hold host pages at shutdown: \
                1 (asked, 2 pages), 2 (asked, 3 pages), 3 (draining, 4 pages), 4 (committed, 5 pages)";
    refused(&mut pool, text, |pool| pool.leaks());
}

#[test]
fn debug_shows_the_logical_side_alone() {
    let mut pools = [voting(8, 4), voting(6, 4)];
    for pool in &mut pools {
        reserved(pool, 0, 2);
    }
    assert_eq!(format!("{:?}", pools[0]), format!("{:?}", pools[1]));
}
