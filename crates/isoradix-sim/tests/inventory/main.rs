//! The inventory of per-rank sources, `docs/divergence.md`, is held to the code.

mod document;
mod doors;
mod scenario;
mod source;

use document::Row;
use doors::{Class, DOORS, LOGICAL};
use source::Function;
use std::collections::BTreeSet;
use std::path::PathBuf;

/// A path in the repository.
fn path(of: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..").join(of)
}

fn rows() -> Vec<Row> {
    let text = std::fs::read_to_string(path("docs/divergence.md")).expect("docs/divergence.md is there");
    let rows = document::rows(&text);
    assert!(rows.len() > 50, "{} rows were read", rows.len());
    rows
}

fn functions() -> Vec<Function> {
    source::public_functions(&path("crates/isoradix-core/src"))
}

#[test]
fn every_row_has_a_class_an_alignment_and_a_name_of_its_own() {
    let mut ids = BTreeSet::new();
    for row in rows() {
        assert!(ids.insert(row.id.clone()), "{} is there twice", row.id);
        assert!(["PerRank", "Logical"].contains(&row.class.as_str()), "{}: class {}", row.id, row.class);
        let known = ["MIN", "leader", "start", "logical", "kept out", "ends the rank"];
        assert!(known.iter().any(|known| row.aligned.starts_with(known)), "{}: aligned {}", row.id, row.aligned);
    }
}

#[test]
fn every_row_has_a_scenario_that_exists() {
    let mut wrong = Vec::new();
    for row in rows() {
        wrong.extend(row.scenarios.is_empty().then(|| format!("{} has no scenario", row.id)));
        let missing = row.scenarios.iter().filter(|scenario| !scenario::exists(scenario, &path("")));
        wrong.extend(missing.map(|scenario| format!("{}: there is no {scenario}", row.id)));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A fault or a planted mistake that stands for no source would test nothing that this page promises.
#[test]
fn every_planted_mistake_is_a_rows_scenario() {
    let named: BTreeSet<String> = rows().into_iter().flat_map(|row| row.scenarios).collect();
    for defect in scenario::defects(&path("")) {
        assert!(named.contains(&format!("defect:{defect}")), "no row names defect:{defect}");
    }
}

#[test]
fn every_door_belongs_to_a_row() {
    let ids: BTreeSet<String> = rows().into_iter().map(|row| row.id).collect();
    for (name, row) in DOORS {
        assert!(ids.contains(*row), "{name} lets in {row}, of which there is no row");
    }
}

/// Whoever adds a function that takes a per-rank value, by its type, has to say what comes in by it.
#[test]
fn no_public_function_takes_a_per_rank_value_but_the_doors() {
    let doors: BTreeSet<&str> = DOORS.iter().map(|(name, _)| *name).collect();
    // The wrapper's own functions carry a value on, and let none in.
    let outside = |function: &Function| function.takes_per_rank && function.file != "provenance.rs";
    let typed: Vec<String> = functions().into_iter().filter(outside).map(|function| function.name).collect();
    assert!(typed.len() > 10, "{typed:?}");
    let unlisted: Vec<&String> = typed.iter().filter(|name| !doors.contains(name.as_str())).collect();
    assert!(unlisted.is_empty(), "not in the table of doors: {unlisted:?}");
}

/// A per-rank value may come as a plain number, a clock say, or as the mere moment of a call. So every public function by which
/// something enters the machines that ranks share is classified, whatever the types of its arguments.
#[test]
fn every_way_into_the_protocol_is_classified() {
    let files = ["protocol/", "host/", "operation/", "decisions/", "rank.rs", "chunking.rs"];
    let ways: Vec<String> = functions()
        .into_iter()
        .filter(|function| function.enters && files.iter().any(|file| function.file.starts_with(file)))
        .map(|function| function.name)
        .collect();
    let unclassified: Vec<&String> = ways.iter().filter(|name| doors::class(name).is_none()).collect();
    assert!(unclassified.is_empty(), "neither a door nor logical: {unclassified:#?}");
}

#[test]
fn the_table_of_doors_is_about_functions_that_there_are() {
    let all: BTreeSet<String> = functions().into_iter().map(|function| function.name).collect();
    for (name, _) in DOORS {
        assert!(all.contains(*name), "there is no public function {name}");
    }
    for (name, _) in LOGICAL {
        let type_of = name.strip_suffix("::*");
        let is_there =
            |function: &String| type_of.map_or(function == name, |of| function.starts_with(&format!("{of}::")));
        assert!(all.iter().any(is_there), "there is nothing public of {name}");
        // A type with a door is listed function by function, so that no new one slips through.
        let of_door = DOORS.iter().find(|(door, _)| type_of.is_some_and(|of| door.starts_with(&format!("{of}::"))));
        assert!(of_door.is_none(), "{name} covers a type with a door, {of_door:?}");
        assert_eq!(doors::class(name.trim_end_matches('*')), Some(Class::Logical), "{name}");
    }
}
