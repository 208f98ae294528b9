//! The store from outside: batches, faults on the disk, the limit, several users of one folder.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use isoradix_store::{Call, FileStore, Layout, Options, PageMut, PageRef, SEAL_BYTES, Status, StoreError};
use proptest::prelude::*;

fn open(root: &Path, options: Options) -> FileStore {
    FileStore::open(root, options).unwrap()
}

fn put(store: &FileStore, pages: &[(&[u8], &[u8])]) -> Vec<u8> {
    let keys: Vec<&[u8]> = pages.iter().map(|(key, _)| *key).collect();
    let views: Vec<PageRef<'_>> = pages.iter().map(|(_, page)| PageRef::new(page.chunks(7000).collect())).collect();
    let call = Call::new(pages.len());
    store.put(&keys, &views, &call).unwrap();
    call.codes()
}

fn get(store: &FileStore, key: &[u8], bytes: usize) -> (Status, Vec<u8>) {
    let mut page = vec![0xee; bytes];
    let call = Call::new(1);
    store.get(&[key], vec![PageMut::new(page.chunks_mut(5000).collect())], &call).unwrap();
    (Status::of(call.codes()[0]).unwrap(), page)
}

fn bytes(seed: usize, count: usize) -> Vec<u8> {
    (0..count).map(|at| (((at + seed) * 2_654_435_761) >> 7).to_le_bytes()[0]).collect()
}

/// The files of all pages, in order.
fn files(root: &Path) -> Vec<PathBuf> {
    let mut found = vec![];
    for folder in fs::read_dir(root.join("pages")).unwrap() {
        found.extend(fs::read_dir(folder.unwrap().path()).unwrap().map(|entry| entry.unwrap().path()));
    }
    found.sort();
    found
}

#[test]
fn what_was_put_is_read() {
    for direct in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let store = open(folder.path(), Options { direct, ..Options::default() });
        for (key, size) in [(1u8, 1), (2, 31), (3, 4096), (4, 262_143), (5, 262_144), (6, 700_001), (7, 3 << 20)] {
            let page = bytes(size, size);
            assert_eq!(put(&store, &[(&[key], &page)]), [Status::Done as u8]);
            assert_eq!(get(&store, &[key], size), (Status::Done, page), "{size} bytes, direct {direct}");
            assert_eq!(files(folder.path()).len(), usize::from(key));
        }
        assert_eq!(fs::read_dir(folder.path().join("unfinished")).unwrap().count(), 0);
    }
}

#[test]
fn direct_and_plain_files_are_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let plain = open(folder.path(), Options::default());
    let direct = open(folder.path(), Options { direct: true, ..Options::default() });
    let page = bytes(3, 300_000);
    put(&plain, &[(b"a", &page)]);
    put(&direct, &[(b"b", &page)]);
    assert_eq!(get(&direct, b"a", page.len()), (Status::Done, page.clone()));
    assert_eq!(get(&plain, b"b", page.len()), (Status::Done, page));
}

#[test]
fn a_large_batch_is_shared_by_threads() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), Options { threads: std::num::NonZeroUsize::new(4), ..Options::default() });
    let pages: Vec<Vec<u8>> = (0..40).map(|seed| bytes(seed, 100_000)).collect();
    let keys: Vec<[u8; 2]> = (0..40u8).map(|at| [at, 9]).collect();
    let batch: Vec<(&[u8], &[u8])> = keys.iter().zip(&pages).map(|(key, page)| (&key[..], &page[..])).collect();
    assert_eq!(put(&store, &batch), [Status::Done as u8; 40]);
    let mut memory = vec![0; 40 * 100_000];
    let views = memory.chunks_mut(100_000).map(|page| PageMut::new(vec![page])).collect();
    let call = Call::new(40);
    let names: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
    store.get(&names, views, &call).unwrap();
    assert_eq!(call.codes(), [Status::Done as u8; 40]);
    assert_eq!(memory, pages.concat());
    assert_eq!(store.exists(&[&[1, 9], &[1, 8]]).unwrap(), [true, false]);
}

#[test]
fn every_bit_of_a_file_counts() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), Options::default());
    let page = bytes(1, 150);
    put(&store, &[(b"key", &page)]);
    let file = files(folder.path()).remove(0);
    let right = fs::read(&file).unwrap();
    assert_eq!(right.len(), page.len() + SEAL_BYTES);
    for bit in 0..right.len() * 8 {
        let mut wrong = right.clone();
        wrong[bit / 8] ^= 1 << (bit % 8);
        fs::write(&file, &wrong).unwrap();
        assert_eq!(get(&store, b"key", 150).0, Status::Corrupt, "bit {bit}");
        assert!(!file.exists(), "what is corrupt is removed, so that it can be put again");
    }
    put(&store, &[(b"key", &page)]);
    assert_eq!(get(&store, b"key", 150), (Status::Done, page));
}

#[test]
fn torn_pages_are_misses() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), Options::default());
    let page = bytes(1, 9000);
    put(&store, &[(b"key", &page)]);
    let file = files(folder.path()).remove(0);
    let right = fs::read(&file).unwrap();
    for length in [0, 1, 4096, 8999, 9000, 9031] {
        fs::write(&file, &right[..length]).unwrap();
        assert_eq!(get(&store, b"key", 9000).0, Status::WrongSize, "{length} bytes");
    }
    // of the right size, with a hole of zeros: a machine that lost power
    for hole in [0..4096, 4096..8192, 8192..9032] {
        let mut torn = right.clone();
        torn[hole].fill(0);
        fs::write(&file, &torn).unwrap();
        assert_eq!(get(&store, b"key", 9000).0, Status::Corrupt);
    }
}

#[test]
fn a_page_under_another_key_is_a_miss() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), Options::default());
    put(&store, &[(b"ab", &bytes(1, 100)), (b"ac", &bytes(2, 100))]);
    let found = files(folder.path());
    fs::copy(&found[0], &found[1]).unwrap();
    assert_eq!(get(&store, b"ab", 100).0, Status::Done);
    assert_eq!(get(&store, b"ac", 100).0, Status::Corrupt);
}

#[test]
fn other_sizes_and_keys_are_misses() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), Options::default());
    put(&store, &[(b"key", &bytes(1, 100))]);
    assert_eq!(get(&store, b"key", 99).0, Status::WrongSize);
    assert_eq!(get(&store, b"key", 101).0, Status::WrongSize);
    assert_eq!(get(&store, b"kex", 100).0, Status::Missing);
}

#[test]
fn what_is_refused_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), Options::default());
    let page = [1u8];
    let views = || vec![PageRef::new(vec![&page[..]]), PageRef::new(vec![&page[..]])];
    let call = Call::new(2);
    assert!(matches!(store.put(&[b"a", b""], &views(), &call), Err(StoreError::Key { index: 1, bytes: 0, .. })));
    assert!(matches!(store.put(&[b"a"], &views(), &call), Err(StoreError::Lengths { keys: 1, pages: 2 })));
    assert!(store.exists(&[&[0; 65]]).is_err());
    assert!(files(folder.path()).is_empty());
    let options = Options { layout: Layout::Raw, limit: Some(1), ..Options::default() };
    assert!(matches!(FileStore::open(folder.path(), options), Err(StoreError::Options(_))));
    let file = folder.path().join("file");
    fs::write(&file, b"").unwrap();
    assert!(matches!(FileStore::open(&file, Options::default()), Err(StoreError::Io { .. })));
}

#[test]
fn a_call_that_was_given_up_does_nothing_more() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), Options::default());
    let call = Call::new(1);
    call.cancel();
    let page = bytes(1, 100);
    store.put(&[b"key"], &[PageRef::new(vec![&page])], &call).unwrap();
    assert_eq!(call.codes(), [Status::Late as u8]);
    assert!(files(folder.path()).is_empty());
}

#[test]
fn raw_files_are_bytes_alone() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), Options { layout: Layout::Raw, ..Options::default() });
    let page = bytes(1, 5000);
    put(&store, &[(b"00ff_model_0_1", &page)]);
    assert_eq!(fs::read(folder.path().join("00ff_model_0_1.bin")).unwrap(), page);
    fs::write(folder.path().join("11_model_0_1.bin"), &page[..4000]).unwrap();
    assert_eq!(get(&store, b"11_model_0_1", 4000), (Status::Done, page[..4000].to_vec()));
    assert_eq!(get(&store, b"11_model_0_1", 4001).0, Status::WrongSize);
    fs::write(folder.path().join("notes.txt"), b"").unwrap();
    assert_eq!(store.usage().unwrap().pages, 2);
    store.clear().unwrap();
    assert_eq!(store.usage().unwrap().pages, 0);
    assert!(folder.path().join("notes.txt").exists());
}

#[test]
fn the_limit_is_kept_by_use() {
    let folder = tempfile::tempdir().unwrap();
    let limit = Some(3 * (100 + SEAL_BYTES as u64));
    let store = open(folder.path(), Options { limit, ..Options::default() });
    let page = bytes(1, 100);
    for key in [b"a", b"b", b"c"] {
        put(&store, &[(key, &page)]);
    }
    assert_eq!(get(&store, b"a", 100).0, Status::Done);
    put(&store, &[(b"b", &page)]); // there already: used
    put(&store, &[(b"d", &page)]);
    assert_eq!(store.exists(&[b"a", b"b", b"c", b"d"]).unwrap(), [true, true, false, true]);
    assert_eq!((store.usage().unwrap().pages, store.evicted()), (3, 1));
    let large = bytes(1, 1000);
    assert_eq!(put(&store, &[(b"e", &large)]), [Status::TooLarge as u8]);
    store.remove(&[b"a", b"x"]).unwrap();
    assert_eq!(store.usage().unwrap().pages, 2);
    store.clear().unwrap();
    assert_eq!(store.usage().unwrap().pages, 0);
}

#[test]
fn a_ledger_that_cannot_go_on_in_a_next_log_makes_room_all_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let limit = Some(3 * (8 + SEAL_BYTES as u64));
    let store = open(folder.path(), Options { limit, ..Options::default() });
    let page = bytes(1, 8);
    put(&store, &[(b"a", &page), (b"b", &page), (b"c", &page)]);
    let unfinished = folder.path().join("unfinished");
    fs::remove_dir(&unfinished).unwrap();
    fs::write(&unfinished, b"").unwrap(); // as on a full disk: neither log nor page can be written
    for _ in 0..20 {
        let mut room = vec![0; 8 * 1000];
        let pages = room.chunks_mut(8).map(|page| PageMut::new(vec![page])).collect();
        store.get(&vec![&b"c"[..]; 1000], pages, &Call::new(1000)).unwrap(); // the log is long, and sealed
    }
    assert!(store.usage().is_err(), "there is no next log");
    assert_eq!(put(&store, &[(b"d", &page)]), [Status::Failed as u8]);
    assert_eq!(store.exists(&[b"a", b"b", b"c"]).unwrap(), [false, true, true]);
    fs::remove_file(&unfinished).unwrap();
    fs::create_dir(&unfinished).unwrap();
    assert_eq!(put(&store, &[(b"d", &page)]), [Status::Done as u8]);
    assert_eq!(store.exists(&[b"a", b"b", b"c", b"d"]).unwrap(), [false, true, true, true]);
    assert_eq!((store.usage().unwrap().pages, store.evicted()), (3, 1));
}

#[test]
fn what_a_ledger_does_not_know_is_adopted_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let page = bytes(1, 100);
    let unlimited = open(folder.path(), Options::default());
    for key in [b"c", b"a", b"b"] {
        put(&unlimited, &[(key, &page)]);
    }
    let limit = Some(3 * (100 + SEAL_BYTES as u64));
    let store = open(folder.path(), Options { limit, ..Options::default() });
    assert_eq!(store.usage().unwrap().pages, 3);
    put(&store, &[(b"d", &page)]);
    assert_eq!(store.exists(&[b"a", b"b", b"c", b"d"]).unwrap(), [false, true, true, true]);
    // and what it knows of that is gone is forgotten
    fs::remove_file(&files(folder.path())[0]).unwrap();
    let again = open(folder.path(), Options { limit, ..Options::default() });
    assert_eq!(again.usage().unwrap().pages, 2);
}

#[test]
fn what_a_crash_leaves_is_removed_once_it_is_old() {
    let folder = tempfile::tempdir().unwrap();
    drop(open(folder.path(), Options::default()));
    let path = |name: &str| folder.path().join("unfinished").join(name);
    for (name, age_s) in [("7-0", 7200), ("ledger-3-7-0", 7200), ("8-0", 60), ("ledger-3-8-0", 60)] {
        let file = fs::File::create(path(name)).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_secs(age_s)).unwrap();
    }
    drop(open(folder.path(), Options { limit: Some(1000), ..Options::default() }));
    let there = ["7-0", "ledger-3-7-0", "8-0", "ledger-3-8-0"].map(|name| path(name).exists());
    assert_eq!(there, [false, false, true, true], "the young ones may still be written");
}

/// The least recently used pages, as a list.
#[derive(Default)]
struct Naive {
    order: Vec<u8>,
}

impl Naive {
    fn put(&mut self, keys: &[u8], most: usize) {
        let (there, missing): (Vec<u8>, Vec<u8>) = keys.iter().partition(|key| self.order.contains(key));
        self.used(&there);
        self.order.drain(..(self.order.len() + missing.len()).saturating_sub(most));
        self.used(&missing);
    }

    fn used(&mut self, keys: &[u8]) {
        for key in keys {
            self.order.retain(|other| other != key);
            self.order.push(*key);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// Victims are those of a list, whichever of several users puts and reads.
    #[test]
    fn victims_are_those_of_a_list(turns in prop::collection::vec((0..3usize, any::<bool>(), prop::collection::btree_set(0..14u8, 1..4)), 1..60)) {
        let folder = tempfile::tempdir().unwrap();
        let options = Options { limit: Some(6 * (50 + SEAL_BYTES as u64)), ..Options::default() };
        let stores: Vec<FileStore> = (0..3).map(|_| open(folder.path(), options)).collect();
        let mut naive = Naive::default();
        for (who, puts, keys) in turns {
            let keys: Vec<u8> = keys.into_iter().collect();
            if puts {
                let pages: Vec<Vec<u8>> = keys.iter().map(|key| bytes(usize::from(*key), 50)).collect();
                let batch: Vec<(&[u8], &[u8])> = keys.iter().zip(&pages).map(|(key, page)| (std::slice::from_ref(key), &page[..])).collect();
                put(&stores[who], &batch);
                naive.put(&keys, 6);
            } else {
                for key in &keys {
                    let (status, page) = get(&stores[who], &[*key], 50);
                    prop_assert_eq!(status == Status::Done, naive.order.contains(key));
                    if status == Status::Done {
                        prop_assert_eq!(page, bytes(usize::from(*key), 50));
                        naive.used(&[*key]);
                    }
                }
            }
            let there: Vec<u8> = (0..14).filter(|key| stores[who].exists(&[&[*key]]).unwrap()[0]).collect();
            let mut expected = naive.order.clone();
            expected.sort_unstable();
            prop_assert_eq!(there, expected);
        }
    }
}
