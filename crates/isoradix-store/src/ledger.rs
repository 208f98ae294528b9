//! Which pages there are and in which order they were used: one log that every process of a folder appends to.
//!
//! An append is at one place of the file for all who read it, so the order of use, the size and the next victim are functions of
//! the log alone: not of clocks, of the order of a listing, or of who looks first. Nobody locks anything, so a process that is
//! stopped or killed holds nobody up. Two processes that evict at once take the same victim, and the second finds it gone.
//!
//! A log that has become long is sealed by a record of its own. What stands behind the seal does not count, and whoever meets it
//! goes on in the next log, which begins with what the old one came to: a function of the old one again, so it does not matter
//! who makes it. Cost: O(new records) a call, O(log pages) each; 200 bytes of memory a page.

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::names::UNFINISHED;
use crate::record::{RECORD_BYTES, Record};

const PREFIX: &str = "ledger-";
/// Records that a log may have before it is worth sealing, beside eight for each page.
const RECORDS_SPARE: u64 = 1 << 14;
const READ_BYTES: usize = 1 << 16;

/// Names logs that are being made, apart from each other within this process.
static MADE: AtomicU64 = AtomicU64::new(0);

/// Where a page was used last, and its bytes.
#[derive(Debug, Clone, Copy)]
struct Entry {
    place: u64,
    bytes: u64,
}

/// The log, and what it comes to so far.
#[derive(Debug)]
pub(crate) struct Ledger {
    root: PathBuf,
    file: File,
    number: u64,
    /// Bytes of the log that are taken in.
    read: u64,
    /// Records that are taken in.
    records: u64,
    pages: HashMap<Vec<u8>, Entry>,
    order: BTreeMap<u64, Vec<u8>>,
    bytes: u64,
    spare: u64,
}

impl Ledger {
    /// The ledger of a folder, which is made if there is none.
    pub(crate) fn open(root: &Path) -> io::Result<Self> {
        let (number, file) = open_newest(root)?;
        let mut ledger = Self {
            root: root.to_owned(),
            file,
            number,
            read: 0,
            records: 0,
            pages: HashMap::new(),
            order: BTreeMap::new(),
            bytes: 0,
            spare: RECORDS_SPARE,
        };
        ledger.catch_up()?;
        Ok(ledger)
    }

    /// Bytes of all pages.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// How many pages there are.
    pub(crate) fn len(&self) -> usize {
        self.pages.len()
    }

    pub(crate) fn holds(&self, key: &[u8]) -> bool {
        self.pages.contains_key(key)
    }

    /// All keys, in order of use.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &[u8]> {
        self.order.values().map(Vec::as_slice)
    }

    /// The page that was used longest ago.
    pub(crate) fn oldest(&self) -> Option<&[u8]> {
        self.order.values().next().map(Vec::as_slice)
    }

    /// Tells that pages were put or read, in this order.
    pub(crate) fn used(&mut self, pages: &[(&[u8], u64)]) -> io::Result<()> {
        if pages.is_empty() {
            return Ok(());
        }
        let records = pages.iter().map(|&(key, bytes)| Record::Used { key: key.to_vec(), bytes });
        let records: Vec<Record> = records.collect();
        // Behind a seal they do not count, and are told again to the next log.
        while self.append(&records)? {}
        self.compact()
    }

    /// Tells that a page is gone. Of a page that somebody used meanwhile nothing changes.
    pub(crate) fn gone(&mut self, key: &[u8]) -> io::Result<()> {
        let Some(entry) = self.pages.get(key) else { return Ok(()) };
        // If the log was sealed meanwhile, the page is found gone once more by whoever wants its room.
        self.append(&[Record::Gone { key: key.to_vec(), place: entry.place }]).map(drop)
    }

    /// Takes in what was appended by anybody since.
    pub(crate) fn catch_up(&mut self) -> io::Result<()> {
        while let Some(next) = self.take_in()? {
            self.go_on(next)?;
        }
        Ok(())
    }

    /// Appends in one write, then takes in the log to its end; whether a seal came before.
    fn append(&mut self, records: &[Record]) -> io::Result<bool> {
        let mut bytes = Vec::with_capacity(records.len() * RECORD_BYTES);
        for record in records {
            record.write(&mut bytes);
        }
        // A full disk may take a part, which readers pass over.
        let written = self.file.write(&bytes)?;
        let number = self.number;
        self.catch_up()?;
        if written < bytes.len() {
            return Err(io::Error::new(ErrorKind::StorageFull, "the ledger has no room"));
        }
        Ok(self.number != number)
    }

    /// Takes in the rest of this log; the number of the next one, if it is sealed.
    ///
    /// The seal is met again until the next log is there: what stands behind it counts nowhere.
    fn take_in(&mut self) -> io::Result<Option<u64>> {
        let mut held = Vec::new();
        let mut buffer = vec![0; READ_BYTES];
        let mut at = self.read;
        loop {
            let size = self.file.read_at(&mut buffer, at)?;
            if size == 0 {
                return Ok(None);
            }
            at += size as u64;
            held.extend_from_slice(&buffer[..size]);
            let mut rest = &held[..];
            while let Some((bytes, behind)) = rest.split_first_chunk::<RECORD_BYTES>() {
                if let Some(record) = Record::read(bytes) {
                    if let Record::Sealed { next } = record {
                        return Ok(Some(next));
                    }
                    rest = behind;
                    self.read += RECORD_BYTES as u64;
                    self.apply(record);
                } else {
                    // a part of a record, from a full disk: the next one begins somewhere behind
                    rest = &rest[1..];
                    self.read += 1;
                }
            }
            held = rest.to_vec();
        }
    }

    fn apply(&mut self, record: Record) {
        let place = self.records;
        self.records += 1;
        match record {
            Record::Used { key, bytes } => {
                self.forget(&key);
                self.bytes += bytes;
                self.order.insert(place, key.clone());
                self.pages.insert(key, Entry { place, bytes });
            }
            Record::Gone { key, place } => {
                if self.pages.get(&key).is_some_and(|entry| entry.place == place) {
                    self.forget(&key);
                }
            }
            Record::Sealed { .. } => {}
        }
    }

    fn forget(&mut self, key: &[u8]) {
        if let Some(entry) = self.pages.remove(key) {
            self.order.remove(&entry.place);
            self.bytes -= entry.bytes;
        }
    }

    /// Seals a log that is much longer than what it comes to.
    fn compact(&mut self) -> io::Result<()> {
        if self.records > self.spare + 8 * self.pages.len() as u64 {
            self.append(&[Record::Sealed { next: self.number + 1 }])?;
        }
        Ok(())
    }

    /// Leaves a sealed log for the next one, and makes that if nobody has.
    fn go_on(&mut self, next: u64) -> io::Result<()> {
        let mut bytes = Vec::with_capacity(self.pages.len() * RECORD_BYTES);
        for key in self.order.values() {
            Record::Used { key: key.clone(), bytes: self.pages[key].bytes }.write(&mut bytes);
        }
        while !self.make(next, &bytes)? {}
        let _ = fs::remove_file(path(&self.root, self.number));
        // By now it may be sealed and removed as well.
        (self.number, self.file) = open_newest(&self.root)?;
        (self.read, self.records, self.bytes) = (0, 0, 0);
        self.pages.clear();
        self.order.clear();
        Ok(())
    }

    /// Makes a log, unless somebody has: whoever comes second has made the same, and the first one's is already appended to.
    /// False if it was taken for left behind before it had its name.
    ///
    /// It is made among the unfinished pages, which are swept by their age: one that a crash leaves there is removed.
    fn make(&self, number: u64, bytes: &[u8]) -> io::Result<bool> {
        let unique = format!("{PREFIX}{number}-{}-{}", std::process::id(), MADE.fetch_add(1, Ordering::Relaxed));
        let folder = self.root.join(UNFINISHED);
        if let Err(error) = fs::create_dir(&folder)
            && error.kind() != ErrorKind::AlreadyExists
        {
            return Err(error);
        }
        let made = folder.join(unique);
        fs::write(&made, bytes)?;
        let linked = fs::hard_link(&made, path(&self.root, number));
        let _ = fs::remove_file(&made);
        match linked {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(true),
            Err(error) if error.kind() == ErrorKind::NotFound && self.root.is_dir() => Ok(false),
            linked => linked.map(|()| true),
        }
    }

    /// Whether sizes and orders fit each other.
    #[cfg(test)]
    fn check(&self) {
        assert_eq!(self.pages.len(), self.order.len());
        assert_eq!(self.bytes, self.pages.values().map(|entry| entry.bytes).sum::<u64>());
        assert!(self.order.iter().all(|(place, key)| self.pages[key].place == *place));
    }
}

fn path(root: &Path, number: u64) -> PathBuf {
    root.join(format!("{PREFIX}{number}"))
}

/// The log that is appended to, and its number; the first one of a folder is made.
fn open_newest(root: &Path) -> io::Result<(u64, File)> {
    let mut options = OpenOptions::new();
    options.read(true).append(true);
    loop {
        let found = newest(root)?;
        let number = found.unwrap_or(0);
        match options.clone().create(found.is_none()).open(path(root, number)) {
            Err(error) if error.kind() == ErrorKind::NotFound => {} // removed meanwhile: there is a newer one
            opened => return opened.map(|file| (number, file)),
        }
    }
}

/// The greatest number of a log in the folder.
fn newest(root: &Path) -> io::Result<Option<u64>> {
    let mut newest = None;
    for entry in fs::read_dir(root)? {
        let name = entry?.file_name();
        let number = name.to_str().and_then(|name| name.strip_prefix(PREFIX)).and_then(|digits| digits.parse().ok());
        newest = newest.max(number);
    }
    Ok(newest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn keys(ledger: &Ledger) -> Vec<Vec<u8>> {
        ledger.keys().map(<[u8]>::to_vec).collect()
    }

    #[test]
    fn the_order_of_use_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let mut ledger = Ledger::open(folder.path()).unwrap();
        ledger.used(&[(b"a", 1), (b"b", 2), (b"c", 3)]).unwrap();
        ledger.used(&[(b"a", 1)]).unwrap();
        assert_eq!(keys(&ledger), [b"b", b"c", b"a"]);
        ledger.gone(b"c").unwrap();
        ledger.gone(b"x").unwrap();
        assert_eq!((ledger.bytes(), ledger.len(), ledger.oldest()), (3, 2, Some(&b"b"[..])));
        let again = Ledger::open(folder.path()).unwrap();
        assert_eq!(keys(&again), keys(&ledger));
        again.check();
    }

    #[test]
    fn a_page_that_was_used_meanwhile_is_not_gone() {
        let folder = tempfile::tempdir().unwrap();
        let mut left = Ledger::open(folder.path()).unwrap();
        let mut right = Ledger::open(folder.path()).unwrap();
        left.used(&[(b"a", 1)]).unwrap();
        right.catch_up().unwrap();
        left.used(&[(b"a", 1)]).unwrap();
        right.gone(b"a").unwrap();
        assert_eq!((keys(&left), keys(&right)), (vec![b"a".to_vec()], vec![b"a".to_vec()]));
    }

    #[test]
    fn what_is_torn_is_passed_over() {
        let folder = tempfile::tempdir().unwrap();
        let mut ledger = Ledger::open(folder.path()).unwrap();
        ledger.used(&[(b"a", 1)]).unwrap();
        let mut part = vec![];
        Record::Used { key: b"torn".to_vec(), bytes: 5 }.write(&mut part);
        let mut log = OpenOptions::new().append(true).open(path(folder.path(), 0)).unwrap();
        log.write_all(&part[..70]).unwrap();
        ledger.used(&[(b"b", 1)]).unwrap();
        for seen in [&ledger, &Ledger::open(folder.path()).unwrap()] {
            assert_eq!(keys(seen), [b"a", b"b"]);
            seen.check();
        }
    }

    #[test]
    fn a_sealed_log_goes_on_in_the_next_one_for_all() {
        let folder = tempfile::tempdir().unwrap();
        let mut ledgers: Vec<Ledger> = (0..3).map(|_| Ledger::open(folder.path()).unwrap()).collect();
        for ledger in &mut ledgers {
            ledger.spare = 10;
        }
        for turn in 0..200u8 {
            let key = [turn % 5];
            ledgers[usize::from(turn) % 3].used(&[(&key, 7)]).unwrap();
        }
        for ledger in &mut ledgers {
            ledger.catch_up().unwrap();
        }
        for ledger in &ledgers {
            assert_eq!(keys(ledger), [[0], [1], [2], [3], [4]]);
            assert!(ledger.number > 1, "sealed more than once");
            ledger.check();
        }
        let left = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name());
        let mut left: Vec<_> = left.filter(|name| name != UNFINISHED).collect();
        assert_eq!(left.len(), 1, "old logs are removed: {left:?}");
        let current = left.pop().unwrap();
        assert_eq!(Some(current.as_os_str()), path(folder.path(), ledgers[0].number).file_name());
        assert_eq!(fs::read_dir(folder.path().join(UNFINISHED)).unwrap().count(), 0, "nothing unfinished is left");
    }

    #[test]
    fn a_log_that_is_swept_while_it_is_made_is_made_again() {
        let folder = tempfile::tempdir().unwrap();
        let mut ledger = Ledger::open(folder.path()).unwrap();
        ledger.spare = 10;
        let over = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|threads| {
            threads.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    for entry in fs::read_dir(folder.path().join(UNFINISHED)).into_iter().flatten().flatten() {
                        let _ = fs::remove_file(entry.path());
                    }
                }
            });
            let used: io::Result<()> =
                (0..3000u32).try_for_each(|turn| ledger.used(&[(&[turn.to_le_bytes()[0] % 5], 7)]));
            over.store(true, Ordering::Relaxed);
            used.unwrap();
        });
        assert_eq!(ledger.len(), 5);
        assert!(ledger.number > 10);
        ledger.check();
    }

    #[test]
    fn what_stands_behind_a_seal_counts_nowhere_also_where_the_next_log_cannot_be_made() {
        let folder = tempfile::tempdir().unwrap();
        let mut ledger = Ledger::open(folder.path()).unwrap();
        ledger.spare = 10;
        let unfinished = folder.path().join(UNFINISHED);
        fs::write(&unfinished, b"").unwrap(); // as on a full disk: no log can be written there
        let refused = (0..100u8).find(|turn| ledger.used(&[(&[*turn % 3], 1)]).is_err());
        assert!(refused.is_some());
        for _ in 0..3 {
            ledger.used(&[(b"late", 1)]).unwrap_err();
            assert_eq!(keys(&ledger).len(), 3);
            ledger.check();
        }
        fs::remove_file(&unfinished).unwrap();
        let mut other = Ledger::open(folder.path()).unwrap();
        ledger.used(&[(b"next", 1)]).unwrap();
        other.catch_up().unwrap();
        for seen in [&ledger, &other] {
            assert_eq!((seen.number, seen.len(), keys(seen).last().unwrap().as_slice()), (1, 4, &b"next"[..]));
            seen.check();
        }
        assert_eq!(keys(&ledger), keys(&other));
    }

    #[derive(Debug, Clone)]
    enum Turn {
        Used(usize, Vec<u8>),
        Gone(usize, u8),
        See(usize),
    }

    fn turn() -> impl Strategy<Value = Turn> {
        prop_oneof![
            (0..3usize, prop::collection::vec(0..12u8, 1..5)).prop_map(|(who, keys)| Turn::Used(who, keys)),
            (0..3usize, 0..12u8).prop_map(|(who, key)| Turn::Gone(who, key)),
            (0..3usize).prop_map(Turn::See),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// Whoever reads the log comes to the same, however the turns of three processes fall and wherever it is sealed.
        #[test]
        fn all_come_to_the_same(turns in prop::collection::vec(turn(), 1..120), spare in 3..40u64) {
            let folder = tempfile::tempdir().unwrap();
            let mut ledgers: Vec<Ledger> = (0..3).map(|_| Ledger::open(folder.path()).unwrap()).collect();
            for ledger in &mut ledgers {
                ledger.spare = spare;
            }
            for turn in turns {
                match turn {
                    Turn::Used(who, keys) => {
                        let keys: Vec<[u8; 1]> = keys.into_iter().map(|key| [key]).collect();
                        let pages: Vec<(&[u8], u64)> = keys.iter().map(|key| (&key[..], u64::from(key[0]) + 1)).collect();
                        ledgers[who].used(&pages).unwrap();
                    }
                    Turn::Gone(who, key) => ledgers[who].gone(&[key]).unwrap(),
                    Turn::See(who) => ledgers[who].catch_up().unwrap(),
                }
            }
            for ledger in &mut ledgers {
                ledger.catch_up().unwrap();
            }
            let fresh = Ledger::open(folder.path()).unwrap();
            for ledger in &ledgers {
                ledger.check();
                prop_assert_eq!(keys(ledger), keys(&fresh));
                prop_assert_eq!(ledger.bytes(), fresh.bytes());
            }
        }
    }
}
