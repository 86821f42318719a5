//! Monitor intervals of learned controllers: what their agents saw and answered, so that an actor can be trained on it.

use std::io::Write;
use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, RecordBatch, StringArray, UInt32Array, UInt64Array};
use arrow_schema::{DataType, Field, Schema, SchemaRef};

use crate::arrow::Error;
use crate::run::Interval;

/// A column of whole numbers.
type Count = (&'static str, fn(&Interval) -> u64);

const COUNTS: [Count; 9] = [
    ("serial", |i| i.serial),
    ("rate", |i| i.rate),
    ("mss", |i| i.mss),
    ("delivered", |i| i.delivered),
    ("lost", |i| i.lost),
    ("elapsed_us", |i| i.elapsed_us),
    ("rtt_us", |i| i.rtt_us),
    ("min_rtt_us", |i| i.min_rtt_us),
    ("others", |i| i.others),
];

pub fn schema() -> SchemaRef {
    let head = [
        ("time_s", DataType::Float64),
        ("transfer", DataType::UInt32),
        ("subflow", DataType::UInt32),
        ("path", DataType::Utf8),
    ];
    let counts = COUNTS.map(|(name, _)| (name, DataType::UInt64));
    let known = head.into_iter().chain(counts);
    let mut fields: Vec<Field> = known
        .map(|(name, kind)| Field::new(name, kind, false))
        .collect();
    fields.push(Field::new("answer", DataType::UInt64, true));
    fields.push(Field::new("delay_us", DataType::UInt64, false));
    Arc::new(Schema::new(fields))
}

pub fn batch(intervals: &[Interval]) -> Result<RecordBatch, Error> {
    let each = || intervals.iter();
    let counted = |get: fn(&Interval) -> u64| -> ArrayRef {
        Arc::new(UInt64Array::from_iter_values(each().map(get)))
    };
    let mut columns: Vec<ArrayRef> = vec![
        Arc::new(Float64Array::from_iter_values(each().map(|i| i.time_s))),
        Arc::new(UInt32Array::from_iter_values(each().map(|i| i.transfer))),
        Arc::new(UInt32Array::from_iter_values(each().map(|i| i.subflow))),
        Arc::new(StringArray::from_iter_values(each().map(|i| &i.path))),
    ];
    columns.extend(COUNTS.map(|(_, get)| counted(get)));
    columns.push(Arc::new(each().map(|i| i.answer).collect::<UInt64Array>()));
    columns.push(counted(|i| i.delay_us));
    Ok(RecordBatch::try_new(schema(), columns)?)
}

pub fn write(to: impl Write, intervals: &[Interval]) -> Result<(), Error> {
    crate::arrow::write(to, &batch(intervals)?)
}
