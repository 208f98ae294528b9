//! KV events: which blocks are cached, for routers and other listeners.
//!
//! A block is a page. Its hash is SHA-256 over the previous block's 32 bytes and its tokens as little-endian words (pairs
//! of words in bigram mode); the first block of a namespace other than the default chains from a hash of the pair. What is
//! published is the first eight bytes, read big-endian as a signed number. Off by default; values, not callbacks: the
//! scheduler drains them after a step and publishes them as it likes.

use crate::namespace::Namespace;
use crate::node::NodeId;
use crate::sha256::Sha256;
use crate::tree::Tree;

/// Events kept for a listener that does not drain; beyond, they are replaced by one `Cleared`.
const PENDING_MAX: usize = 1 << 20;

const NAMESPACE_TAG: &[u8] = b"isoradix-kv-event-namespace-1";

type BlockHash = [u8; 32];

/// Something a listener should know.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum KvEvent {
    /// Blocks are cached from now on.
    Stored {
        /// One hash for each block, in order.
        block_hashes: Vec<i64>,
        /// The block before the first one.
        parent: Option<i64>,
        /// The blocks' tokens; in bigram mode the first one of each pair.
        token_ids: Vec<u32>,
        /// Tokens of a block.
        block_size: u32,
        /// Where the blocks live.
        namespace: Namespace,
    },
    /// Blocks are gone.
    Removed {
        /// One hash for each block.
        block_hashes: Vec<i64>,
    },
    /// Nothing is cached any more.
    Cleared,
}

/// Block hashes of all nodes, and the events not drained yet.
#[derive(Debug, Default)]
pub(crate) struct EventLog {
    hashes: Vec<Vec<BlockHash>>,
    pending: Vec<KvEvent>,
}

impl EventLog {
    /// A leaf was added.
    pub(crate) fn stored(&mut self, tree: &Tree, id: NodeId) {
        let node = &tree.nodes[id];
        let tokens = tree.tokens(id);
        let before = if tree.nodes[node.parent].is_root() { None } else { self.of(node.parent).last().copied() };
        let first = tree.token_before(id);
        let namespace = &tree.namespaces[node.namespace].name;
        let mut previous = before.or_else(|| namespace_seed(namespace));
        let hashes: Vec<BlockHash> = (0..node.pages as usize)
            .map(|page| {
                let range = page * tree.page..(page + 1) * tree.page;
                let before_page = if page == 0 { first } else { first.map(|_| tokens[range.start - 1]) };
                let hash = block_hash(previous.as_ref(), before_page, &tokens[range]);
                previous = Some(hash);
                hash
            })
            .collect();
        let token_ids = first.into_iter().chain(tokens.iter().copied()).take(tokens.len()).collect();
        self.push(KvEvent::Stored {
            block_hashes: hashes.iter().map(published).collect(),
            parent: before.as_ref().map(published),
            token_ids,
            block_size: u32::try_from(tree.page).expect("a page size"),
            namespace: namespace.clone(),
        });
        self.slot(id).clone_from(&hashes);
    }

    /// A node was split: `head` took its first pages.
    pub(crate) fn split(&mut self, tree: &Tree, head: NodeId, tail: NodeId) {
        let rest = self.slot(tail).split_off(tree.nodes[head].pages as usize);
        let of_head = std::mem::replace(self.slot(tail), rest);
        *self.slot(head) = of_head;
    }

    /// A leaf is about to go.
    pub(crate) fn removed(&mut self, id: NodeId) {
        let hashes = std::mem::take(self.slot(id));
        let hashes = hashes.iter().map(published);
        if let Some(KvEvent::Removed { block_hashes }) = self.pending.last_mut() {
            block_hashes.extend(hashes);
            return;
        }
        let block_hashes = hashes.collect();
        self.push(KvEvent::Removed { block_hashes });
    }

    /// Everything is gone.
    pub(crate) fn cleared(&mut self) {
        self.hashes.clear();
        self.push(KvEvent::Cleared);
    }

    /// Takes the events that are pending.
    pub(crate) fn take(&mut self) -> Vec<KvEvent> {
        std::mem::take(&mut self.pending)
    }

    fn push(&mut self, event: KvEvent) {
        if self.pending.len() >= PENDING_MAX {
            self.pending = vec![KvEvent::Cleared];
        }
        self.pending.push(event);
    }

    fn of(&self, id: NodeId) -> &[BlockHash] {
        self.hashes.get(id as usize).map_or(&[], Vec::as_slice)
    }

    fn slot(&mut self, id: NodeId) -> &mut Vec<BlockHash> {
        if self.hashes.len() <= id as usize {
            self.hashes.resize_with(id as usize + 1, Vec::new);
        }
        &mut self.hashes[id as usize]
    }
}

fn block_hash(previous: Option<&BlockHash>, token_before: Option<u32>, tokens: &[u32]) -> BlockHash {
    let mut sha = Sha256::new();
    if let Some(previous) = previous {
        sha.update(previous);
    }
    let mut left = token_before;
    for token in tokens {
        if let Some(first_of_pair) = left {
            sha.update(&first_of_pair.to_le_bytes());
            left = Some(*token);
        }
        sha.update(&token.to_le_bytes());
    }
    sha.finish()
}

fn namespace_seed(namespace: &Namespace) -> Option<BlockHash> {
    if *namespace == Namespace::default() {
        return None;
    }
    let mut sha = Sha256::new();
    sha.update(NAMESPACE_TAG);
    for part in [namespace.extra_key(), namespace.salt()] {
        match part {
            None => sha.update(&[0]),
            Some(text) => {
                sha.update(&[1]);
                sha.update(&(text.len() as u64).to_le_bytes());
                sha.update(text.as_bytes());
            }
        }
    }
    Some(sha.finish())
}

fn published(hash: &BlockHash) -> i64 {
    i64::from_be_bytes(hash[..8].try_into().expect("eight bytes"))
}
