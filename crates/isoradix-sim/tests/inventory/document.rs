//! The tables of the document.

/// One source.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) id: String,
    pub(crate) class: String,
    pub(crate) aligned: String,
    /// What of its last column stands in backticks.
    pub(crate) scenarios: Vec<String>,
}

/// All rows of tables of five columns that begin with an id.
pub(crate) fn rows(text: &str) -> Vec<Row> {
    let cells = text.lines().filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |"));
    let cells = cells.map(|line| line.split(" | ").collect::<Vec<_>>());
    let of_sources = cells.filter_map(|cells| <[&str; 5]>::try_from(cells).ok()).filter(|[id, ..]| *id != "id");
    let row = |[id, _, class, aligned, scenario]: [&str; 5]| Row {
        id: id.to_owned(),
        class: class.to_owned(),
        aligned: aligned.to_owned(),
        scenarios: scenario.split('`').skip(1).step_by(2).map(str::to_owned).collect(),
    };
    of_sources.map(row).collect()
}
