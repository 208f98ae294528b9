//! Batches of pages to and from a folder.

use std::fs;
use std::io::{self, ErrorKind};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::call::Call;
use crate::error::StoreError;
use crate::ledger::Ledger;
use crate::names::{Layout, UNFINISHED};
use crate::page::{PageMut, PageRef};
use crate::share::{self, lock};
use crate::status::Status;
use crate::transfer::{self, Mode};

/// A batch of fewer bytes is over before another thread has begun.
const SHARED_BYTES: u64 = 1 << 20;
/// After how long a file that nobody has finished was left by a process that is gone.
const LEFT: Duration = Duration::from_secs(3600);

/// How a folder is used.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// What its files look like.
    pub layout: Layout,
    /// Bytes that the pages may take on the disk; all processes of a folder give the same. None: what the disk has.
    pub limit: Option<u64>,
    /// Around the system's cache, where the file system can.
    pub direct: bool,
    /// Threads of a batch, the caller's among them. None: as many as there are processors, up to four.
    pub threads: Option<NonZeroUsize>,
}

impl Default for Options {
    fn default() -> Self {
        Self { layout: Layout::Sealed, limit: None, direct: false, threads: None }
    }
}

/// What a folder holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    /// Pages.
    pub pages: u64,
    /// Their bytes on the disk.
    pub bytes: u64,
}

/// A page's file, and its key where the name is one.
type Found = (PathBuf, Option<Vec<u8>>);

/// Pages in a folder. Any thread may call, and any process may use the same folder.
#[derive(Debug)]
pub struct FileStore {
    root: PathBuf,
    layout: Layout,
    limit: Option<u64>,
    mode: Mode,
    threads: usize,
    ledger: Option<Mutex<Ledger>>,
    evicted: AtomicU64,
}

/// Names files that are not finished, apart from each other within this process.
static UNFINISHED_FILES: AtomicU64 = AtomicU64::new(0);

impl FileStore {
    /// Opens a folder, which is made if it is not there.
    ///
    /// # Errors
    /// The system refuses it, or the options do not go together.
    pub fn open(root: &Path, options: Options) -> Result<Self, StoreError> {
        let Options { layout, limit, direct, threads } = options;
        if layout == Layout::Raw && limit.is_some() {
            return Err(StoreError::Options("a limit for a folder of raw pages: their owner evicts them"));
        }
        let unfinished = root.join(UNFINISHED);
        for folder in [root, &layout.pages(root), &unfinished] {
            fs::create_dir_all(folder).map_err(StoreError::io("make the folder", folder))?;
        }
        remove_left_behind(&unfinished);
        let direct = direct && transfer::takes_direct(&unfinished);
        let mut store = Self {
            root: root.to_owned(),
            layout,
            limit,
            mode: Mode { direct, sealed: layout == Layout::Sealed },
            threads: threads.map_or_else(share::threads, NonZeroUsize::get),
            ledger: None,
            evicted: AtomicU64::new(0),
        };
        if limit.is_some() {
            let ledger = store.adopt().map_err(StoreError::io("read the ledger of", root))?;
            store.ledger = Some(Mutex::new(ledger));
            store.make_room(0);
        }
        Ok(store)
    }

    /// Whether reads and writes go around the system's cache.
    #[must_use]
    pub fn is_direct(&self) -> bool {
        self.mode.direct
    }

    /// Pages that this object has evicted.
    #[must_use]
    pub fn evicted(&self) -> u64 {
        self.evicted.load(Ordering::Relaxed)
    }

    /// Whether there is a file for each key. What is in it is not looked at.
    ///
    /// # Errors
    /// A key that the layout does not take.
    pub fn exists(&self, keys: &[&[u8]]) -> Result<Vec<bool>, StoreError> {
        self.check(keys)?;
        Ok(keys.iter().map(|key| self.path(key).is_file()).collect())
    }

    /// Reads pages. Of a page that is not `Done` the bytes are undefined.
    ///
    /// # Errors
    /// A key that the layout does not take, or another number of keys than of pages; nothing was done.
    pub fn get(&self, keys: &[&[u8]], pages: Vec<PageMut<'_>>, call: &Call) -> Result<(), StoreError> {
        self.check_lengths(keys, pages.len(), call)?;
        let sizes: Vec<u64> = pages.iter().map(PageMut::bytes).collect();
        share::share(self.threads, sizes.iter().sum(), SHARED_BYTES, pages.into_iter().enumerate(), |(index, page)| {
            self.get_one(index, keys[index], page, call);
        });
        let read = |&(index, _): &(usize, &&[u8])| call.status(index) == Some(Status::Done);
        let used: Vec<(&[u8], u64)> = keys
            .iter()
            .enumerate()
            .filter(read)
            .map(|(index, key)| (*key, self.mode.file_bytes(sizes[index])))
            .collect();
        // Who could not be told evicts a little earlier what was read just now.
        let _ = self.tell(|ledger| ledger.used(&used));
        Ok(())
    }

    fn get_one(&self, index: usize, key: &[u8], page: PageMut<'_>, call: &Call) {
        if call.is_cancelled() {
            return call.finish(index, Status::Late);
        }
        let path = self.path(key);
        match self.mode.read(&path, key, page, call) {
            Ok(status) => {
                if status == Status::Corrupt {
                    // It would be found there and be a miss for ever.
                    let _ = fs::remove_file(&path);
                }
                call.finish(index, status);
            }
            Err(error) => call.fail(index, Status::Failed, || format!("cannot read {}: {error}", path.display())),
        }
    }

    /// Publishes pages; one that is there already is only used.
    ///
    /// # Errors
    /// As of [`Self::get`].
    pub fn put(&self, keys: &[&[u8]], pages: &[PageRef<'_>], call: &Call) -> Result<(), StoreError> {
        self.check_lengths(keys, pages.len(), call)?;
        let mut from = 0;
        while from < keys.len() {
            let to = self.portion(pages, from);
            self.put_portion(from..to, keys, pages, call);
            from = to;
        }
        Ok(())
    }

    /// Where a portion ends that the limit has room for.
    fn portion(&self, pages: &[PageRef<'_>], from: usize) -> usize {
        let Some(limit) = self.limit else { return pages.len() };
        let mut bytes = 0;
        let fits = |page: &&PageRef<'_>| {
            bytes += self.mode.file_bytes(page.bytes());
            bytes <= limit
        };
        from + pages[from..].iter().take_while(fits).count().max(1)
    }

    fn put_portion(&self, portion: std::ops::Range<usize>, keys: &[&[u8]], pages: &[PageRef<'_>], call: &Call) {
        let bytes = |index: usize| self.mode.file_bytes(pages[index].bytes());
        let (mut there, mut missing) = (vec![], vec![]);
        for index in portion {
            let size = fs::metadata(self.path(keys[index])).map(|found| found.len());
            if self.limit.is_some_and(|limit| bytes(index) > limit) {
                call.finish(index, Status::TooLarge);
            } else if size.is_ok_and(|size| size == bytes(index)) {
                call.finish(index, Status::Done);
                there.push((keys[index], bytes(index)));
            } else {
                missing.push(index);
            }
        }
        // First, lest these are the ones that make room. What the ledger could not be told of is adopted by whoever opens the
        // folder next.
        let _ = self.tell(|ledger| ledger.used(&there));
        self.make_room(missing.iter().map(|&index| bytes(index)).sum());
        let total = missing.iter().map(|&index| pages[index].bytes()).sum();
        share::share(self.threads, total, SHARED_BYTES, missing.iter().copied(), |index| {
            self.put_one(index, keys[index], &pages[index], call);
        });
        let put = missing.iter().copied().filter(|&index| call.status(index) == Some(Status::Done));
        let put: Vec<(&[u8], u64)> = put.map(|index| (keys[index], bytes(index))).collect();
        let _ = self.tell(|ledger| ledger.used(&put));
    }

    fn put_one(&self, index: usize, key: &[u8], page: &PageRef<'_>, call: &Call) {
        if call.is_cancelled() {
            return call.finish(index, Status::Late);
        }
        let number = UNFINISHED_FILES.fetch_add(1, Ordering::Relaxed);
        let unfinished = self.root.join(UNFINISHED).join(format!("{}-{number}", std::process::id()));
        let path = self.path(key);
        let written = self.mode.write(&unfinished, key, page, call).and_then(|status| {
            if status == Status::Done {
                publish(&unfinished, &path)?;
            }
            Ok(status)
        });
        match written {
            Ok(status) => call.finish(index, status),
            Err(error) => {
                let full = matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded);
                let status = if full { Status::Full } else { Status::Failed };
                call.fail(index, status, || format!("cannot write {}: {error}", path.display()));
            }
        }
    }

    /// Removes pages; one that is not there is no error.
    ///
    /// # Errors
    /// A key that the layout does not take, or the system refuses.
    pub fn remove(&self, keys: &[&[u8]]) -> Result<(), StoreError> {
        self.check(keys)?;
        for key in keys {
            remove_file(&self.path(key))?;
            let _ = self.tell(|ledger| ledger.gone(key));
        }
        Ok(())
    }

    /// Removes all pages.
    ///
    /// # Errors
    /// The system refuses.
    pub fn clear(&self) -> Result<(), StoreError> {
        for (path, _) in self.files()? {
            remove_file(&path)?;
        }
        let _ = self.tell(|ledger| {
            ledger.catch_up()?;
            let keys: Vec<Vec<u8>> = ledger.keys().map(<[u8]>::to_vec).collect();
            keys.iter().try_for_each(|key| ledger.gone(key))
        });
        Ok(())
    }

    /// What the folder holds: by its ledger if it has a limit, by a walk over its files otherwise.
    ///
    /// # Errors
    /// The system refuses.
    pub fn usage(&self) -> Result<Usage, StoreError> {
        if let Some(ledger) = &self.ledger {
            let mut ledger = lock(ledger);
            ledger.catch_up().map_err(StoreError::io("read the ledger of", &self.root))?;
            return Ok(Usage { pages: ledger.len() as u64, bytes: ledger.bytes() });
        }
        let files = self.files()?;
        let bytes = files.iter().filter_map(|(path, _)| fs::metadata(path).ok()).map(|found| found.len()).sum();
        Ok(Usage { pages: files.len() as u64, bytes })
    }

    fn path(&self, key: &[u8]) -> PathBuf {
        self.layout.path(&self.root, key)
    }

    fn check(&self, keys: &[&[u8]]) -> Result<(), StoreError> {
        for (index, key) in keys.iter().enumerate() {
            if let Some(limit) = self.layout.refuse(key) {
                return Err(StoreError::Key { index, bytes: key.len(), limit });
            }
        }
        Ok(())
    }

    fn check_lengths(&self, keys: &[&[u8]], pages: usize, call: &Call) -> Result<(), StoreError> {
        if keys.len() != pages || call.pages() != pages {
            return Err(StoreError::Lengths { keys: keys.len(), pages });
        }
        self.check(keys)
    }

    fn tell(&self, what: impl FnOnce(&mut Ledger) -> io::Result<()>) -> io::Result<()> {
        self.ledger.as_ref().map_or(Ok(()), |ledger| what(&mut lock(ledger)))
    }

    /// Evicts what was used longest ago until there is room for so many bytes more.
    ///
    /// Where the ledger cannot be read or written the limit is not kept; the disk says when it is full.
    fn make_room(&self, bytes: u64) {
        let Some(limit) = self.limit else { return };
        let room = limit.saturating_sub(bytes);
        let _ = self.tell(|ledger| {
            if ledger.catch_up().is_err() {
                // A full disk may have no room for the next log. A page that goes makes some, and is found gone later.
                if ledger.bytes() > room
                    && let Some(path) = ledger.keys().map(|key| self.path(key)).find(|path| path.is_file())
                {
                    fs::remove_file(path)?;
                    self.evicted.fetch_add(1, Ordering::Relaxed);
                }
                ledger.catch_up()?;
            }
            while ledger.bytes() > room {
                let Some(key) = ledger.oldest().map(<[u8]>::to_vec) else { break };
                match fs::remove_file(self.path(&key)) {
                    Ok(()) => drop(self.evicted.fetch_add(1, Ordering::Relaxed)),
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    Err(error) => return Err(error), // it is there still, and counts
                }
                ledger.gone(&key)?;
            }
            Ok(())
        });
    }

    /// The ledger, once it knows of every file there is, and of no other.
    fn adopt(&self) -> io::Result<Ledger> {
        let mut ledger = Ledger::open(&self.root)?;
        let mut files = self.files().map_err(io::Error::other)?;
        files.sort(); // by name: not in the order of the listing
        let mut found = vec![];
        for (path, key) in files {
            let Some(key) = key else { continue };
            if !ledger.holds(&key)
                && let Ok(about) = fs::metadata(&path)
            {
                found.push((key, about.len()));
            }
        }
        let found: Vec<(&[u8], u64)> = found.iter().map(|(key, bytes)| (&key[..], *bytes)).collect();
        ledger.used(&found)?;
        let gone = |key: &&[u8]| !self.path(key).is_file();
        let gone: Vec<Vec<u8>> = ledger.keys().filter(gone).map(<[u8]>::to_vec).collect();
        gone.iter().try_for_each(|key| ledger.gone(key))?;
        Ok(ledger)
    }

    /// The files of all pages, and their keys where the name is one.
    fn files(&self) -> Result<Vec<Found>, StoreError> {
        let top = self.layout.pages(&self.root);
        let mut files = vec![];
        for entry in entries(&top)? {
            match self.layout {
                Layout::Sealed => {
                    for path in entries(&entry)? {
                        let key = name_of(&path).and_then(Layout::key);
                        if key.is_some() {
                            files.push((path, key));
                        }
                    }
                }
                Layout::Raw if name_of(&entry).is_some_and(Layout::is_raw) => files.push((entry, None)),
                Layout::Raw => {}
            }
        }
        Ok(files)
    }
}

fn remove_file(path: &Path) -> Result<(), StoreError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(StoreError::io("remove", path)(error)),
        _ => Ok(()),
    }
}

/// Gives a finished file its name. The folder is made with the first page in it.
fn publish(unfinished: &Path, path: &Path) -> io::Result<()> {
    let mut renamed = fs::rename(unfinished, path);
    if renamed.as_ref().is_err_and(|error| error.kind() == ErrorKind::NotFound)
        && let Some(folder) = path.parent()
    {
        renamed = fs::create_dir_all(folder).and_then(|()| fs::rename(unfinished, path));
    }
    if renamed.is_err() {
        let _ = fs::remove_file(unfinished);
    }
    renamed
}

/// Paths in a folder; none where it is not there, or is no folder.
fn entries(folder: &Path) -> Result<Vec<PathBuf>, StoreError> {
    match fs::read_dir(folder) {
        Ok(found) => found.map(|entry| entry.map(|entry| entry.path())).collect::<io::Result<_>>(),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(vec![]),
        Err(error) => Err(error),
    }
    .map_err(StoreError::io("list", folder))
}

fn name_of(path: &Path) -> Option<&str> {
    path.file_name().and_then(|name| name.to_str())
}

/// What a process that was killed has not finished. By its age: its number may be another process's by now.
fn remove_left_behind(folder: &Path) {
    for path in entries(folder).unwrap_or_default() {
        let age = fs::metadata(&path).and_then(|about| about.modified()).map(|time| time.elapsed().unwrap_or_default());
        if age.is_ok_and(|age| age > LEFT) {
            let _ = fs::remove_file(&path);
        }
    }
}
