//! What users ask for: requests that share and split prefixes, and what else reaches the leader.

use crate::rng::{Rng, mix};
use isoradix_core::Namespace;

/// Namespaces in use.
pub(crate) const NAMESPACES: u8 = 2;

/// Token values: few, so that prefixes are shared and split.
const ALPHABET: u64 = 5;

/// The tag of a token's KV: a hash of everything up to that token. Never 0, which stands for nothing.
pub(crate) type Tag = u64;

/// The namespace of that number.
pub(crate) fn namespace(number: u8) -> Namespace {
    if number == 0 { Namespace::default() } else { Namespace::new(Some("lora-a"), None) }
}

/// The tag before the first token.
pub(crate) fn first_tag(namespace: &Namespace) -> Tag {
    mix(77, namespace.extra_key().map_or(0, |name| name.len() as u64 + 1))
}

/// The tag one token further.
pub(crate) fn next_tag(tag: Tag, token: u32) -> Tag {
    mix(tag, token.into()) | 1
}

/// The tags of all tokens of a key.
pub(crate) fn tags(namespace: &Namespace, tokens: &[u32]) -> Vec<Tag> {
    let mut tag = first_tag(namespace);
    let step = |token: &u32| {
        tag = next_tag(tag, *token);
        tag
    };
    tokens.iter().map(step).collect()
}

/// One request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) namespace: u8,
    /// The prompt and all that will be generated.
    pub(crate) tokens: Vec<u32>,
    pub(crate) prompt: usize,
    /// One for each token.
    pub(crate) tags: Vec<Tag>,
    pub(crate) priority: i64,
    /// Steps for which its end stays pinned, 0 for not at all.
    pub(crate) pin_steps: u64,
    /// Whether the prompt is cached as soon as it is computed.
    pub(crate) caches_prompt: bool,
    /// Whether its inserts start at the node that it holds.
    pub(crate) resumes: bool,
    /// Whether it caches what it has when it is aborted.
    pub(crate) caches_when_aborted: bool,
}

/// What reaches the leader, and through it all ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum What {
    /// A request.
    Arrive(u32),
    /// Its user has gone.
    Abort(u32),
    /// Everything cached is dropped.
    Flush,
    /// A namespace is dropped.
    Forget(u8),
    /// A prefix is kept young.
    Touch(u32),
    /// The request that joined the batch last goes back to the queue.
    Retract,
    /// So many host pages are wanted back.
    EvictHost(u32),
    /// So many device tokens are wanted back.
    Evict(u64),
}

/// One thing that reaches the leader before it enters a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Input {
    pub(crate) at_step: u64,
    pub(crate) what: What,
}

/// The requests and inputs of a seed.
#[derive(Debug, Clone)]
pub(crate) struct Workload {
    pub(crate) requests: Vec<Request>,
    pub(crate) inputs: Vec<Input>,
}

impl Workload {
    /// Inputs for so many steps, with keys of at most `longest` tokens.
    pub(crate) fn new(rng: &mut Rng, steps: u64, longest: usize) -> Self {
        let mut workload = Self { requests: Vec::new(), inputs: Vec::new() };
        let documents: Vec<Vec<u32>> = (0..rng.within(3, 7)).map(|_| text(rng, longest / 2)).collect();
        let gap = rng.within(2, 6);
        let mut step = 0;
        while step < steps {
            workload.arrive(rng, step, &documents, longest);
            workload.disturb(rng, step);
            // Now and then everything falls idle.
            step += if rng.chance(30) { rng.within(20, 60) } else { rng.within(0, 2 * gap) };
        }
        workload.inputs.sort_by_key(|input| input.at_step);
        workload
    }

    /// One request; sometimes it goes on where an earlier one ended.
    fn arrive(&mut self, rng: &mut Rng, at_step: u64, documents: &[Vec<u32>], longest: usize) {
        let earlier = (!self.requests.is_empty() && rng.chance(350)).then(|| rng.index(self.requests.len()));
        let (namespace, mut tokens) = match earlier {
            Some(earlier) => (self.requests[earlier].namespace, self.requests[earlier].tokens.clone()),
            None => (u8::from(rng.chance(200)), rng.pick(documents).clone()),
        };
        if rng.chance(400) {
            tokens.truncate(rng.index(tokens.len()) + 1);
        }
        tokens.extend(text(rng, longest / 6));
        tokens.truncate(longest - 8);
        let prompt = tokens.len();
        tokens.extend((0..rng.within(0, 7)).map(|_| token(rng)));
        let tags = tags(&crate::request::namespace(namespace), &tokens);
        let number = u32::try_from(self.requests.len()).unwrap_or(u32::MAX);
        self.requests.push(Request {
            namespace,
            tokens,
            prompt,
            tags,
            priority: if rng.chance(200) { rng.below(3).cast_signed() } else { 0 },
            pin_steps: if rng.chance(60) { rng.within(3, 40) } else { 0 },
            caches_prompt: rng.chance(400),
            resumes: rng.chance(300),
            caches_when_aborted: rng.chance(400),
        });
        self.inputs.push(Input { at_step, what: What::Arrive(number) });
        if rng.chance(60) {
            let at_step = at_step + rng.within(0, 8);
            self.inputs.push(Input { at_step, what: What::Abort(number) });
        }
    }

    /// What else an operator or a user does.
    fn disturb(&mut self, rng: &mut Rng, at_step: u64) {
        let request = u32::try_from(rng.index(self.requests.len())).unwrap_or_default();
        let what = match rng.below(1000) {
            0..4 => What::Flush,
            4..10 => What::Forget(u8::try_from(rng.below(NAMESPACES.into())).unwrap_or_default()),
            10..30 => What::Touch(request),
            30..45 => What::EvictHost(u32::try_from(rng.within(1, 12)).unwrap_or(1)),
            45..60 => What::Evict(rng.within(1, 40)),
            _ => return,
        };
        self.inputs.push(Input { at_step, what });
    }
}

fn token(rng: &mut Rng) -> u32 {
    u32::try_from(rng.below(ALPHABET)).unwrap_or_default()
}

/// Between one and so many tokens.
fn text(rng: &mut Rng, longest: usize) -> Vec<u32> {
    let length = 1 + rng.index(longest.max(1));
    (0..length).map(|_| token(rng)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_tell_prefixes_apart() {
        let [default, lora] = [0, 1].map(namespace);
        let key = [1, 2, 3];
        assert_eq!(tags(&default, &key)[..2], tags(&default, &key[..2]));
        assert_ne!(tags(&default, &key), tags(&lora, &key));
        assert_ne!(tags(&default, &[1, 2])[1], tags(&default, &[2, 2])[1]);
    }

    #[test]
    fn a_workload_is_the_seeds_own() {
        let make = |seed| Workload::new(&mut Rng::new(seed, 3), 400, 64);
        assert_eq!(make(5).requests, make(5).requests);
        assert_ne!(make(5).requests, make(6).requests);
        let workload = make(5);
        assert!(workload.requests.len() > 40);
        assert!(workload.requests.iter().all(|request| request.tokens.len() <= 64 && request.prompt > 0));
        assert!(workload.inputs.is_sorted_by_key(|input| input.at_step));
    }
}
