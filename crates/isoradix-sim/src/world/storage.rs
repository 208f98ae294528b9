//! External storage, as one rank sees it: its own shard of every page, which it may have lost.

use super::at;
use crate::request::{self, Tag};
use crate::rng;
use isoradix_core::StoredRun;
use std::collections::BTreeMap;

/// One rank's shards, by the tag of each page's last token.
#[derive(Debug, Default)]
pub(crate) struct Storage {
    shards: BTreeMap<Tag, Vec<Tag>>,
}

impl Storage {
    /// A page, under the name that its key gives it.
    pub(crate) fn put(&mut self, name: Tag, tags: Vec<Tag>) {
        self.shards.insert(name, tags);
    }

    /// Pages are gone, without a word.
    pub(crate) fn lose(&mut self, lost: impl Fn(Tag) -> bool) {
        self.shards.retain(|name, _| !lost(*name));
    }

    pub(crate) fn get(&self, name: Tag) -> Option<&Vec<Tag>> {
        self.shards.get(&name)
    }

    /// The pages of a run that are there, as a leading part.
    pub(crate) fn leading(&self, run: &StoredRun, page: usize) -> Vec<Tag> {
        let mut names = names(run, page);
        let there = names.iter().take_while(|name| self.shards.contains_key(name)).count();
        names.truncate(there);
        names
    }

    /// How many tokens of a run are there, in a leading part of whole pages.
    pub(crate) fn run(&self, run: &StoredRun, page: usize) -> u64 {
        (self.leading(run, page).len() * page) as u64
    }
}

/// Pages that one owner holds, of a thousand so many.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Orphans {
    pub(crate) word: u64,
    pub(crate) permille: u64,
}

impl Orphans {
    /// Whether a page is one of them: on all ranks alike.
    pub(crate) fn has(self, name: Tag) -> bool {
        rng::below(rng::mix(self.word, name), 1000) < self.permille
    }
}

/// The names of a run's pages.
pub(crate) fn names(StoredRun { namespace, key, from }: &StoredRun, page: usize) -> Vec<Tag> {
    let tags = request::tags(namespace, key);
    tags[at(*from).min(tags.len())..].chunks_exact(page).filter_map(|page| page.last().copied()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use isoradix_core::Namespace;

    /// A page that is absent in front hides all behind it.
    #[test]
    fn only_a_leading_run_counts() {
        let mut storage = Storage::default();
        let run = |from| StoredRun { namespace: Namespace::default(), key: vec![1, 2, 3, 4, 5, 6, 7], from };
        let names = names(&run(0), 2);
        assert_eq!(names.len(), 3);
        storage.put(names[1], vec![1, 2]);
        storage.put(names[2], vec![1, 2]);
        assert_eq!(storage.run(&run(0), 2), 0);
        assert_eq!(storage.run(&run(2), 2), 4);
        storage.put(names[0], vec![1, 2]);
        assert_eq!(storage.run(&run(0), 2), 6);
    }
}
