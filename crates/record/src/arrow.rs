//! Transfers and samples as Arrow IPC files: one column a field, nothing compressed, so that any Arrow reader opens them.

use std::io::{Read, Seek, Write};
use std::sync::Arc;

use arrow_array::builder::{ListBuilder, StringBuilder, StructBuilder, UInt64Builder};
use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, UInt32Type, UInt64Type};
use arrow_array::{
    Array, ArrayRef, BooleanArray, Float64Array, RecordBatch, StringArray, UInt32Array, UInt64Array,
};
use arrow_ipc::reader::FileReader;
use arrow_ipc::writer::FileWriter;
use arrow_schema::{ArrowError, DataType, Field, Fields, Schema, SchemaRef};

use crate::run::{Sample, Transfer};

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot be written or read as Arrow: {0}")]
    Arrow(#[from] ArrowError),
    #[error("has no column {0} of the right type")]
    Column(&'static str),
}

fn path_bytes_fields() -> Fields {
    Fields::from(vec![
        Field::new("path", DataType::Utf8, false),
        Field::new("bytes", DataType::UInt64, false),
    ])
}

pub fn transfers_schema() -> SchemaRef {
    let item = Field::new("item", DataType::Struct(path_bytes_fields()), false);
    Arc::new(Schema::new(vec![
        Field::new("connection", DataType::Utf8, false),
        Field::new("id", DataType::UInt32, false),
        Field::new("multipath", DataType::Boolean, false),
        Field::new("fallback", DataType::Boolean, false),
        Field::new("start_s", DataType::Float64, false),
        Field::new("end_s", DataType::Float64, true),
        Field::new("bytes", DataType::UInt64, false),
        Field::new("intact", DataType::Boolean, true),
        Field::new("window_overruns", DataType::UInt64, true),
        Field::new("path_bytes", DataType::List(Arc::new(item)), false),
    ]))
}

pub fn samples_schema() -> SchemaRef {
    let u32s = |name: &str| Field::new(name, DataType::UInt32, false);
    Arc::new(Schema::new(vec![
        Field::new("time_s", DataType::Float64, false),
        u32s("transfer"),
        u32s("subflow"),
        Field::new("path", DataType::Utf8, false),
        u32s("cwnd"),
        u32s("ssthresh"),
        u32s("srtt_us"),
        u32s("min_rtt_us"),
        Field::new("delivered_bytes", DataType::UInt64, false),
        Field::new("in_order_bytes", DataType::UInt64, true),
        u32s("lost"),
        Field::new("pacing_rate", DataType::UInt64, false),
        Field::new("backup", DataType::Boolean, false),
    ]))
}

pub fn transfers_batch(transfers: &[Transfer]) -> Result<RecordBatch, Error> {
    let each = || transfers.iter();
    let columns: Vec<ArrayRef> = vec![
        Arc::new(StringArray::from_iter_values(each().map(|t| &t.connection))),
        Arc::new(UInt32Array::from_iter_values(each().map(|t| t.id))),
        Arc::new(each().map(|t| Some(t.multipath)).collect::<BooleanArray>()),
        Arc::new(each().map(|t| Some(t.fallback)).collect::<BooleanArray>()),
        Arc::new(Float64Array::from_iter_values(each().map(|t| t.start_s))),
        Arc::new(each().map(|t| t.end_s).collect::<Float64Array>()),
        Arc::new(UInt64Array::from_iter_values(each().map(|t| t.bytes))),
        Arc::new(each().map(|t| t.intact).collect::<BooleanArray>()),
        Arc::new(each().map(|t| t.window_overruns).collect::<UInt64Array>()),
        path_bytes(transfers),
    ];
    Ok(RecordBatch::try_new(transfers_schema(), columns)?)
}

fn path_bytes(transfers: &[Transfer]) -> ArrayRef {
    let fields = path_bytes_fields();
    let item = Field::new("item", DataType::Struct(fields.clone()), false);
    let mut list = ListBuilder::new(StructBuilder::from_fields(fields, 2)).with_field(item);
    for transfer in transfers {
        let entries = list.values();
        for (path, bytes) in &transfer.path_bytes {
            if let Some(column) = entries.field_builder::<StringBuilder>(0) {
                column.append_value(path);
            }
            if let Some(column) = entries.field_builder::<UInt64Builder>(1) {
                column.append_value(*bytes);
            }
            entries.append(true);
        }
        list.append(true);
    }
    Arc::new(list.finish())
}

pub fn samples_batch(samples: &[Sample]) -> Result<RecordBatch, Error> {
    let u32s = |get: fn(&Sample) -> u32| -> ArrayRef {
        Arc::new(UInt32Array::from_iter_values(samples.iter().map(get)))
    };
    let u64s = |get: fn(&Sample) -> u64| -> ArrayRef {
        Arc::new(UInt64Array::from_iter_values(samples.iter().map(get)))
    };
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Float64Array::from_iter_values(
            samples.iter().map(|s| s.time_s),
        )),
        u32s(|s| s.transfer),
        u32s(|s| s.subflow),
        Arc::new(StringArray::from_iter_values(
            samples.iter().map(|s| &s.path),
        )),
        u32s(|s| s.cwnd),
        u32s(|s| s.ssthresh),
        u32s(|s| s.srtt_us),
        u32s(|s| s.min_rtt_us),
        u64s(|s| s.delivered_bytes),
        Arc::new(
            samples
                .iter()
                .map(|s| s.in_order_bytes)
                .collect::<UInt64Array>(),
        ),
        u32s(|s| s.lost),
        u64s(|s| s.pacing_rate),
        Arc::new(
            samples
                .iter()
                .map(|s| Some(s.backup))
                .collect::<BooleanArray>(),
        ),
    ];
    Ok(RecordBatch::try_new(samples_schema(), columns)?)
}

pub(crate) fn write(to: impl Write, batch: &RecordBatch) -> Result<(), Error> {
    let mut writer = FileWriter::try_new_buffered(to, batch.schema_ref())?;
    writer.write(batch)?;
    Ok(writer.finish()?)
}

pub fn write_transfers(to: impl Write, transfers: &[Transfer]) -> Result<(), Error> {
    write(to, &transfers_batch(transfers)?)
}

pub fn write_samples(to: impl Write, samples: &[Sample]) -> Result<(), Error> {
    write(to, &samples_batch(samples)?)
}

pub fn read_transfers(from: impl Read + Seek) -> Result<Vec<Transfer>, Error> {
    let mut out = Vec::new();
    for batch in FileReader::try_new_buffered(from, None)? {
        let batch = Columns(batch?);
        let (connection, id, bytes) = (
            batch.strings("connection")?,
            batch.u32s("id")?,
            batch.u64s("bytes")?,
        );
        let (multipath, fallback, intact) = (
            batch.booleans("multipath")?,
            batch.booleans("fallback")?,
            batch.booleans("intact")?,
        );
        let (start_s, end_s) = (batch.floats("start_s")?, batch.floats("end_s")?);
        // Records of before have no such column.
        let overruns = match batch.0.column_by_name("window_overruns") {
            Some(_) => Some(batch.u64s("window_overruns")?),
            None => None,
        };
        let lists = batch.column("path_bytes", |c| c.as_list_opt::<i32>())?;
        for i in 0..batch.0.num_rows() {
            let entries = lists.value(i);
            let entries = entries.as_struct_opt().ok_or(Error::Column("path_bytes"))?;
            let paths = entries
                .column(0)
                .as_string_opt::<i32>()
                .ok_or(Error::Column("path_bytes"))?;
            let counts = entries
                .column(1)
                .as_primitive_opt::<UInt64Type>()
                .ok_or(Error::Column("path_bytes"))?;
            out.push(Transfer {
                connection: connection.value(i).to_owned(),
                id: id.value(i),
                multipath: multipath.value(i),
                fallback: fallback.value(i),
                start_s: start_s.value(i),
                end_s: end_s.is_valid(i).then(|| end_s.value(i)),
                bytes: bytes.value(i),
                intact: intact.is_valid(i).then(|| intact.value(i)),
                window_overruns: overruns.filter(|o| o.is_valid(i)).map(|o| o.value(i)),
                path_bytes: (0..entries.len())
                    .map(|k| (paths.value(k).to_owned(), counts.value(k)))
                    .collect(),
            });
        }
    }
    Ok(out)
}

pub fn read_samples(from: impl Read + Seek) -> Result<Vec<Sample>, Error> {
    let mut out = Vec::new();
    for batch in FileReader::try_new_buffered(from, None)? {
        let batch = Columns(batch?);
        let [transfer, subflow, cwnd, ssthresh] =
            ["transfer", "subflow", "cwnd", "ssthresh"].map(|c| batch.u32s(c));
        let [srtt_us, min_rtt_us, lost] = ["srtt_us", "min_rtt_us", "lost"].map(|c| batch.u32s(c));
        let (transfer, subflow, cwnd, ssthresh) = (transfer?, subflow?, cwnd?, ssthresh?);
        let (srtt_us, min_rtt_us, lost) = (srtt_us?, min_rtt_us?, lost?);
        let (time_s, path) = (batch.floats("time_s")?, batch.strings("path")?);
        let (delivered_bytes, pacing_rate) =
            (batch.u64s("delivered_bytes")?, batch.u64s("pacing_rate")?);
        let backup = batch.booleans("backup")?;
        // Older records have no such column.
        let in_order = match batch.0.column_by_name("in_order_bytes") {
            Some(_) => Some(batch.u64s("in_order_bytes")?),
            None => None,
        };
        out.extend((0..batch.0.num_rows()).map(|i| Sample {
            time_s: time_s.value(i),
            transfer: transfer.value(i),
            subflow: subflow.value(i),
            path: path.value(i).to_owned(),
            cwnd: cwnd.value(i),
            ssthresh: ssthresh.value(i),
            srtt_us: srtt_us.value(i),
            min_rtt_us: min_rtt_us.value(i),
            delivered_bytes: delivered_bytes.value(i),
            in_order_bytes: in_order.filter(|o| o.is_valid(i)).map(|o| o.value(i)),
            lost: lost.value(i),
            pacing_rate: pacing_rate.value(i),
            backup: backup.value(i),
        }));
    }
    Ok(out)
}

/// Columns of a batch by name and type.
struct Columns(RecordBatch);

impl Columns {
    fn column<'a, T>(
        &'a self,
        name: &'static str,
        cast: impl Fn(&'a ArrayRef) -> Option<T>,
    ) -> Result<T, Error> {
        self.0
            .column_by_name(name)
            .and_then(cast)
            .ok_or(Error::Column(name))
    }

    fn strings(&self, name: &'static str) -> Result<&StringArray, Error> {
        self.column(name, |c| c.as_string_opt::<i32>())
    }

    fn booleans(&self, name: &'static str) -> Result<&BooleanArray, Error> {
        self.column(name, |c| c.as_boolean_opt())
    }

    fn floats(&self, name: &'static str) -> Result<&Float64Array, Error> {
        self.column(name, |c| c.as_primitive_opt::<Float64Type>())
    }

    fn u32s(&self, name: &'static str) -> Result<&UInt32Array, Error> {
        self.column(name, |c| c.as_primitive_opt::<UInt32Type>())
    }

    fn u64s(&self, name: &'static str) -> Result<&UInt64Array, Error> {
        self.column(name, |c| c.as_primitive_opt::<UInt64Type>())
    }
}
