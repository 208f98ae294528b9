//! `ARCHITECTURE.md` shows the table as it is, and `docs/operations.md` explains all of it.

use super::*;

const ARCHITECTURE: &str = include_str!("../../../../../ARCHITECTURE.md");
const DOCUMENT: &str = include_str!("../../../../../docs/operations.md");
const BEGIN: &str = "<!-- operation table: written by table_markdown, compared by a test -->\n";
const END: &str = "<!-- end of the operation table -->";

#[test]
fn the_document_shows_the_table() {
    let (_, rest) = ARCHITECTURE.split_once(BEGIN).expect("the first marker");
    let (shown, _) = rest.split_once(END).expect("the last marker");
    let table = table_markdown();
    assert_eq!(shown.trim(), table.trim(), "put this between the markers of ARCHITECTURE.md:\n\n{table}");
}

#[test]
fn every_state_event_and_kind_has_its_place_in_it() {
    let table = table_markdown();
    let names = State::ALL.map(State::as_str).into_iter().chain(Kind::ALL.map(Kind::as_str));
    for name in names.chain(Event::ALL.map(Event::as_str)) {
        assert!(table.contains(name), "{name}");
        assert!(DOCUMENT.contains(&format!("| {name} |")), "docs/operations.md says what {name} is");
    }
    assert_eq!(table.lines().filter(|line| line.matches(" | ").count() == 4).count(), TABLE.len() + 1);
}
