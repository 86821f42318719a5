//! Which path each connection was started on, by what was known, and what came of it: one line a decision, so that a policy
//! can be trained and judged later.

use std::io::Write;
use std::sync::Arc;

use arrow_array::builder::{Float64Builder, ListBuilder, StringBuilder, StructBuilder};
use arrow_array::{ArrayRef, BooleanArray, Float64Array, RecordBatch, StringArray, UInt32Array};
use arrow_schema::{DataType, Field, Fields, Schema, SchemaRef};

use crate::arrow::Error;
use crate::run::Decision;

fn value_fields() -> Fields {
    Fields::from(vec![
        Field::new("name", DataType::Utf8, false),
        Field::new("value", DataType::Float64, true),
    ])
}

fn values_type() -> DataType {
    let item = Field::new("item", DataType::Struct(value_fields()), false);
    DataType::List(Arc::new(item))
}

pub fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("transfer", DataType::UInt32, false),
        Field::new("time_s", DataType::Float64, false),
        Field::new("policy", DataType::Utf8, false),
        Field::new("explored", DataType::Boolean, false),
        Field::new("probability", DataType::Float64, false),
        Field::new("scores", values_type(), false),
        // From here on as in what an edge server was told.
        Field::new("arm", DataType::Utf8, false),
        Field::new("features", values_type(), false),
        Field::new("throughput_mbps", DataType::Float64, true),
        Field::new("latency_ms", DataType::Float64, true),
        Field::new("reward", DataType::Boolean, true),
    ]))
}

pub fn batch(decisions: &[Decision]) -> Result<RecordBatch, Error> {
    Ok(RecordBatch::try_new(
        schema(),
        columns(&|| decisions.iter()),
    )?)
}

/// Of decisions wherever they are kept.
pub(crate) fn columns<'a, I>(each: &dyn Fn() -> I) -> Vec<ArrayRef>
where
    I: Iterator<Item = &'a Decision>,
{
    vec![
        Arc::new(UInt32Array::from_iter_values(each().map(|d| d.transfer))),
        Arc::new(Float64Array::from_iter_values(each().map(|d| d.time_s))),
        Arc::new(StringArray::from_iter_values(each().map(|d| &d.policy))),
        Arc::new(each().map(|d| Some(d.explored)).collect::<BooleanArray>()),
        Arc::new(Float64Array::from_iter_values(
            each().map(|d| d.probability),
        )),
        values(each().map(|d| &d.scores)),
        Arc::new(StringArray::from_iter_values(each().map(|d| &d.arm))),
        values(each().map(|d| &d.features)),
        Arc::new(each().map(|d| d.throughput_mbps).collect::<Float64Array>()),
        Arc::new(each().map(|d| d.latency_ms).collect::<Float64Array>()),
        Arc::new(each().map(|d| d.reward).collect::<BooleanArray>()),
    ]
}

fn values<'a>(lists: impl Iterator<Item = &'a Vec<(String, Option<f64>)>>) -> ArrayRef {
    let fields = value_fields();
    let item = Field::new("item", DataType::Struct(fields.clone()), false);
    let mut all = ListBuilder::new(StructBuilder::from_fields(fields, 0)).with_field(item);
    for list in lists {
        let entries = all.values();
        for (name, value) in list {
            if let Some(column) = entries.field_builder::<StringBuilder>(0) {
                column.append_value(name);
            }
            if let Some(column) = entries.field_builder::<Float64Builder>(1) {
                column.append_option(*value);
            }
            entries.append(true);
        }
        all.append(true);
    }
    Arc::new(all.finish())
}

pub fn write(to: impl Write, decisions: &[Decision]) -> Result<(), Error> {
    crate::arrow::write(to, &batch(decisions)?)
}
