//! The reference speaks of every column.

use mp_record::{arrow, decisions, experience, intervals, Document, Failure, Row};

#[test]
fn every_column_is_in_the_reference() {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../docs/reference/record.md"
    );
    let text = std::fs::read_to_string(path).expect("docs/reference/record.md");
    let document = Document {
        rows: vec![Row::default()],
        failed: vec![Failure::default()],
        ..Document::default()
    };
    let value: serde_json::Value = serde_json::from_str(&document.to_json()).expect("JSON");
    let keys = |v: &serde_json::Value| {
        v.as_object()
            .expect("an object")
            .keys()
            .cloned()
            .collect::<Vec<_>>()
    };
    let mut columns = [
        keys(&value),
        keys(&value["rows"][0]),
        keys(&value["failed"][0]),
    ]
    .concat();
    for schema in [
        arrow::transfers_schema(),
        arrow::samples_schema(),
        decisions::schema(),
        experience::schema(),
        intervals::schema(),
    ] {
        columns.extend(schema.fields().iter().map(|f| f.name().clone()));
    }
    for column in columns {
        assert!(
            text.contains(&format!("`{column}`")),
            "docs/reference/record.md does not mention `{column}`"
        );
    }
}
