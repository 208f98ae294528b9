//! The store beside a bare read, and a bare write and rename, of the same pages, in turns of one run.
//!
//! `cargo bench --package isoradix-store -- [FOLDER]`; the folder decides which file system is measured, and is emptied of what
//! this puts in it. Files are in the system's cache, which is the hardest case: a disk would hide what the store adds.

#![expect(clippy::float_arithmetic, clippy::cast_precision_loss, reason = "figures for people")]

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use isoradix_store::{Call, FileStore, Options, PageMut, PageRef};

const BATCH_BYTES: usize = 64 << 20;
const ROUNDS: usize = 15;

fn main() {
    let given = std::env::args().skip(1).find(|argument| !argument.starts_with('-'));
    let root =
        given.map_or_else(std::env::temp_dir, PathBuf::from).join(format!("isoradix-bare-{}", std::process::id()));
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get).min(4);
    println!("{ROUNDS} rounds of {} MiB in {}, medians, GB/s", BATCH_BYTES >> 20, root.display());
    println!(
        "{:>9} {:>6} | {:>9} {:>9} {:>9} {:>7} {:>7}",
        "page", "verb", "bare x 1", "bare", "store", "of x 1", "of bare"
    );
    println!("{:>16} | {:>9} {:>9} {:>9}", "", "", format!("x {threads}"), format!("x {threads}"));
    for page in [256 << 10, 1 << 20, 4 << 20] {
        Bench::new(&root, page, threads).run();
    }
    let _ = fs::remove_dir_all(&root);
}

struct Bench {
    root: PathBuf,
    store: FileStore,
    memory: Vec<u8>,
    keys: Vec<Vec<u8>>,
    page: usize,
    threads: usize,
}

impl Bench {
    fn new(root: &Path, page: usize, threads: usize) -> Self {
        let root = root.join(page.to_string());
        let store = FileStore::open(&root.join("store"), Options { limit: Some(8 << 30), ..Options::default() });
        fs::create_dir_all(root.join("bare")).expect("the folder can be made");
        let pages = BATCH_BYTES / page;
        Self {
            store: store.expect("the folder can be made"),
            memory: (0..BATCH_BYTES).map(|at| (at * 31 % 251).to_le_bytes()[0]).collect(),
            keys: (0..pages).map(|at| [at.to_le_bytes(); 8].concat()).collect(),
            root,
            page,
            threads,
        }
    }

    /// Each way has its turn in every round, the first one another each time: what one leaves to the disk slows down the next.
    fn run(mut self) {
        let mut times: [[Vec<Duration>; 2]; 3] = Default::default();
        for round in 0..=ROUNDS {
            for turn in 0..3 {
                let way = (round + turn) % 3;
                let [put, get] = self.turn(way);
                // the first round finds caches cold and folders empty
                if round > 0 {
                    times[way][0].push(put);
                    times[way][1].push(get);
                }
            }
        }
        let [bare, shared, store] = times.map(|verbs| verbs.map(speed));
        for (verb, name) in ["put", "get"].into_iter().enumerate() {
            let (bare, shared, store) = (bare[verb], shared[verb], store[verb]);
            let (of_one, of_bare) = (store / bare * 100.0, store / shared * 100.0);
            let page = format!("{} KiB", self.page >> 10);
            println!("{page:>9} {name:>6} | {bare:>9.2} {shared:>9.2} {store:>9.2} {of_one:>6.0}% {of_bare:>6.0}%");
        }
    }

    /// Puts and gets all pages in one of three ways: bare on one thread, bare on several, by the store.
    fn turn(&mut self, way: usize) -> [Duration; 2] {
        let threads = if way == 0 { 1 } else { self.threads };
        let times = if way == 2 {
            [timed(|| self.store_put()), timed(|| self.store_get())]
        } else {
            [timed(|| self.bare_put(threads)), timed(|| self.bare_get(threads))]
        };
        self.empty();
        times
    }

    fn empty(&mut self) {
        self.store.clear().expect("files can be removed");
        for at in 0..self.keys.len() {
            let _ = fs::remove_file(self.bare(at));
        }
    }

    fn bare(&self, at: usize) -> PathBuf {
        self.root.join("bare").join(at.to_string())
    }

    fn bare_put(&self, threads: usize) {
        self.share(threads, |at| {
            let unfinished = self.root.join("bare").join(format!("{at}.tmp"));
            let bytes = &self.memory[at * self.page..(at + 1) * self.page];
            File::create_new(&unfinished).and_then(|mut file| file.write_all(bytes)).expect("there is room");
            fs::rename(&unfinished, self.bare(at)).expect("files can be renamed");
        });
    }

    fn bare_get(&mut self, threads: usize) {
        let mut memory = std::mem::take(&mut self.memory);
        let pages: Vec<_> = memory.chunks_mut(self.page).map(std::sync::Mutex::new).collect();
        self.share(threads, |at| {
            let mut page = pages[at].lock().expect("nobody panics");
            File::open(self.bare(at)).and_then(|mut file| file.read_exact(&mut page)).expect("it was put");
        });
        drop(pages);
        self.memory = memory;
    }

    fn store_put(&self) {
        let pages: Vec<PageRef<'_>> = self.memory.chunks(self.page).map(|page| PageRef::new(vec![page])).collect();
        let (keys, call) = (self.keys(), Call::new(self.keys.len()));
        self.store.put(&keys, &pages, &call).expect("the keys are right");
        assert!(call.codes().iter().all(|code| *code == 1), "{:?}", call.failure());
    }

    fn store_get(&mut self) {
        let mut memory = std::mem::take(&mut self.memory);
        let pages = memory.chunks_mut(self.page).map(|page| PageMut::new(vec![page])).collect();
        let (keys, call) = (self.keys(), Call::new(self.keys.len()));
        self.store.get(&keys, pages, &call).expect("the keys are right");
        assert!(call.codes().iter().all(|code| *code == 1), "{:?}", call.failure());
        self.memory = memory;
    }

    fn keys(&self) -> Vec<&[u8]> {
        self.keys.iter().map(Vec::as_slice).collect()
    }

    /// Does each page, on so many threads.
    fn share(&self, threads: usize, work: impl Fn(usize) + Sync) {
        let (next, total) = (std::sync::atomic::AtomicUsize::new(0), self.keys.len());
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    loop {
                        let at = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                        if at >= total {
                            return;
                        }
                        work(at);
                    }
                });
            }
        });
    }
}

/// GB/s of the median.
fn speed(mut times: Vec<Duration>) -> f64 {
    times.sort_unstable();
    BATCH_BYTES as f64 / times[times.len() / 2].as_secs_f64() / 1e9
}

fn timed(work: impl FnOnce()) -> Duration {
    let begun = Instant::now();
    work();
    begun.elapsed()
}
