//! The table as a document: what `ARCHITECTURE.md` shows between its markers.

use super::kind::{Kind, Pools};
use super::state::{Effect, State, TABLE, Transition};
use crate::host::Backing;
use std::collections::BTreeMap;
use std::fmt::Write;

/// The diagram, the first states and all transitions, in Markdown.
#[must_use]
pub fn table_markdown() -> String {
    let mut text = String::new();
    diagram(&mut text);
    starts(&mut text);
    rows(&mut text);
    text
}

/// One arrow for each pair of states, with all events that lead along it.
fn diagram(text: &mut String) {
    let mut arrows: BTreeMap<(State, State), Vec<&str>> = BTreeMap::new();
    for row in TABLE.iter().filter(|row| row.action != Effect::Fatal) {
        for from in row.from.iter().filter(|from| **from != row.to) {
            let labels = arrows.entry((*from, row.to)).or_default();
            for event in row.event {
                if !labels.contains(&event.as_str()) {
                    labels.push(event.as_str());
                }
            }
        }
    }
    text.push_str("```mermaid\nstateDiagram-v2\n");
    for first in State::ALL.into_iter().filter(|state| !begins_in(*state).is_empty()) {
        let _ = writeln!(text, "    [*] --> {}", first.as_str());
    }
    for ((from, to), labels) in arrows {
        let _ = writeln!(text, "    {} --> {}: {}", from.as_str(), to.as_str(), labels.join(", "));
    }
    for last in State::ALL.into_iter().filter(|state| state.is_terminal()) {
        let _ = writeln!(text, "    {} --> [*]", last.as_str());
    }
    text.push_str("```\n\n");
}

/// The kinds that begin in a state, each with the backing of its pool.
fn begins_in(state: State) -> Vec<(Kind, Option<Backing>)> {
    let mut found = Vec::new();
    for backing in [Backing::Voting, Backing::Fixed] {
        let pools = Pools { host: backing, device: backing };
        let begin = Kind::ALL.into_iter().filter(|kind| State::first(*kind, pools) == state);
        found.extend(begin.map(|kind| (kind, pools.of(kind))));
    }
    found.dedup();
    found
}

fn starts(text: &mut String) {
    text.push_str("| first state | of |\n|---|---|\n");
    for state in State::ALL {
        let mut kinds: Vec<String> = Vec::new();
        for (kind, backing) in begins_in(state) {
            let name = match backing {
                None => kind.as_str().to_owned(),
                Some(Backing::Voting) => format!("{} (pages voted on)", kind.as_str()),
                Some(Backing::Fixed) => format!("{} (pages fixed)", kind.as_str()),
            };
            if !kinds.contains(&name) {
                kinds.push(name);
            }
        }
        if !kinds.is_empty() {
            let _ = writeln!(text, "| {} | {} |", state.as_str(), kinds.join(", "));
        }
    }
    text.push('\n');
}

fn rows(text: &mut String) {
    text.push_str("| in | event | kinds | to | effect |\n|---|---|---|---|---|\n");
    for Transition { from, event, to, kinds, action } in TABLE {
        let from: Vec<&str> = from.iter().map(|state| state.as_str()).collect();
        let event: Vec<&str> = event.iter().map(|event| event.as_str()).collect();
        let kinds: Vec<&str> = kinds.iter().map(|kind| kind.as_str()).collect();
        let kinds = if kinds.len() == Kind::ALL.len() { "all".to_owned() } else { kinds.join(", ") };
        let to = if *action == Effect::Fatal { "" } else { to.as_str() };
        let cells = [&from.join(", "), &event.join(", "), &kinds, to, action.as_str()];
        let _ = writeln!(text, "| {} |", cells.join(" | "));
    }
}
