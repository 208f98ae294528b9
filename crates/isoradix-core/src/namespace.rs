//! Namespaces: disjoint key spaces in one tree, named by a structured pair.
//!
//! The pair is (extra key, salt), for example LoRA name and tenant. It is never concatenated, so `("ab", "c")`
//! and `("a", "bc")` are different namespaces, and so are an absent part and an empty one.

use std::collections::BTreeMap;

use crate::hash;

/// The name of a key space: an extra key (a LoRA adapter, say) and a cache salt, each optional.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Namespace {
    extra_key: Option<Box<str>>,
    salt: Option<Box<str>>,
}

impl Namespace {
    /// The namespace of the given pair; `(None, None)` is the default one.
    #[must_use]
    pub fn new(extra_key: Option<&str>, salt: Option<&str>) -> Self {
        Self { extra_key: extra_key.map(Box::from), salt: salt.map(Box::from) }
    }

    /// The extra key.
    #[must_use]
    pub fn extra_key(&self) -> Option<&str> {
        self.extra_key.as_deref()
    }

    /// The cache salt.
    #[must_use]
    pub fn salt(&self) -> Option<&str> {
        self.salt.as_deref()
    }

    fn is_default(&self) -> bool {
        self.extra_key.is_none() && self.salt.is_none()
    }

    fn text_bytes(&self) -> usize {
        [&self.extra_key, &self.salt].into_iter().flatten().map(|text| text.len()).sum()
    }

    /// Logical hash of the pair: equal on every rank.
    pub(crate) fn hash(&self) -> u64 {
        [&self.extra_key, &self.salt].into_iter().fold(0, |seed, part| match part {
            None => hash::mix(seed, 1),
            Some(text) => hash::bytes(hash::mix(seed, 2), text.as_bytes()),
        })
    }
}

impl std::fmt::Display for Namespace {
    /// The pair as Python writes it.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let part = |text: Option<&str>| text.map_or_else(|| "None".to_owned(), |text| format!("{text:?}"));
        write!(f, "({}, {})", part(self.extra_key()), part(self.salt()))
    }
}

/// Id of a namespace that is in use. Ids are reused and therefore never enter a decision.
pub(crate) type NamespaceId = u32;

/// The default namespace is always in use.
pub(crate) const DEFAULT: NamespaceId = 0;

/// One namespace in use.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) name: Namespace,
    pub(crate) hash: u64,
    /// Cached pages.
    pub(crate) pages: u64,
    /// Pages that are locked or pinned.
    pub(crate) held_pages: u64,
    /// Roots in the tree: one, or in bigram mode one for each first token.
    pub(crate) roots: u32,
}

impl Entry {
    fn new(name: Namespace) -> Self {
        let hash = name.hash();
        Self { name, hash, pages: 0, held_pages: 0, roots: 0 }
    }
}

/// The namespaces that have something cached, plus the default one.
#[derive(Debug)]
pub(crate) struct NamespaceTable {
    ids: BTreeMap<Namespace, NamespaceId>,
    entries: Vec<Entry>,
    free: Vec<NamespaceId>,
}

impl NamespaceTable {
    pub(crate) fn new() -> Self {
        let name = Namespace::default();
        Self { ids: BTreeMap::from([(name.clone(), DEFAULT)]), entries: vec![Entry::new(name)], free: Vec::new() }
    }

    /// The id of a namespace in use.
    #[inline]
    pub(crate) fn find(&self, name: &Namespace) -> Option<NamespaceId> {
        if name.is_default() { Some(DEFAULT) } else { self.ids.get(name).copied() }
    }

    /// The id of a namespace, which is in use from now on.
    pub(crate) fn find_or_add(&mut self, name: &Namespace) -> NamespaceId {
        if let Some(id) = self.find(name) {
            return id;
        }
        let entry = Entry::new(name.clone());
        let id = if let Some(id) = self.free.pop() {
            self.entries[id as usize] = entry;
            id
        } else {
            self.entries.push(entry);
            u32::try_from(self.entries.len() - 1).expect("fewer namespaces than nodes")
        };
        self.ids.insert(name.clone(), id);
        id
    }

    /// Forgets a namespace that has no root left.
    pub(crate) fn release(&mut self, id: NamespaceId) {
        debug_assert_eq!(self[id].roots, 0);
        if id != DEFAULT {
            self.ids.remove(&self.entries[id as usize].name);
            self.free.push(id);
        }
    }

    /// All namespaces in the table, in their own order.
    pub(crate) fn all(&self) -> impl Iterator<Item = (NamespaceId, &Entry)> {
        self.ids.values().map(|id| (*id, &self[*id]))
    }

    /// All namespaces in use that hold pages, in their own order.
    pub(crate) fn in_use(&self) -> impl Iterator<Item = &Entry> {
        self.all().map(|(_, entry)| entry).filter(|entry| entry.pages > 0)
    }

    /// About the bytes that the table takes: both copies of each name, and a map's nodes as if they were full.
    pub(crate) fn memory_bytes(&self) -> usize {
        let texts: usize = self.ids.keys().map(Namespace::text_bytes).sum();
        let keys = self.ids.len() * (size_of::<Namespace>() + size_of::<NamespaceId>());
        self.entries.capacity() * size_of::<Entry>()
            + self.free.capacity() * size_of::<NamespaceId>()
            + keys
            + 2 * texts
    }
}

impl std::ops::Index<NamespaceId> for NamespaceTable {
    type Output = Entry;
    #[inline]
    fn index(&self, id: NamespaceId) -> &Entry {
        &self.entries[id as usize]
    }
}

impl std::ops::IndexMut<NamespaceId> for NamespaceTable {
    #[inline]
    fn index_mut(&mut self, id: NamespaceId) -> &mut Entry {
        &mut self.entries[id as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_not_concatenated() {
        let names = [
            Namespace::new(Some("ab"), Some("c")),
            Namespace::new(Some("a"), Some("bc")),
            Namespace::new(Some("abc"), None),
            Namespace::new(None, Some("abc")),
            Namespace::new(Some("abc"), Some("")),
            Namespace::new(None, None),
            Namespace::new(Some(""), Some("")),
        ];
        for (i, a) in names.iter().enumerate() {
            for b in &names[i + 1..] {
                assert_ne!(a, b);
                assert_ne!(a.hash(), b.hash(), "{a:?} {b:?}");
            }
        }
    }
}
