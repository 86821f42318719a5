//! Record batches to any Arrow library, without copying.

use std::sync::{Arc, Mutex};

use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{ArrayRef, Int32Array, RecordBatch, RecordBatchIterator};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

/// Batches of one schema; `pyarrow.table(...)` and others take it as it is, once.
#[pyclass(frozen, module = "multipilot._core")]
pub struct Tables {
    schema: SchemaRef,
    batches: Mutex<Option<Vec<RecordBatch>>>,
}

impl Tables {
    /// `schema` is that of the batches, which may be none.
    pub fn new(schema: SchemaRef, batches: Vec<RecordBatch>) -> Tables {
        Tables {
            schema,
            batches: Mutex::new(Some(batches)),
        }
    }
}

#[pymethods]
impl Tables {
    /// The Arrow PyCapsule interface. All consumers here take the schema as it is.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        drop(requested_schema);
        let batches = self
            .batches
            .lock()
            .map_err(|e| PyRuntimeError::new_err(e.to_string()))?
            .take()
            .ok_or_else(|| PyRuntimeError::new_err("these tables were taken already"))?;
        let reader = RecordBatchIterator::new(
            batches.into_iter().map(Ok::<_, ArrowError>),
            self.schema.clone(),
        );
        let stream = FFI_ArrowArrayStream::new(Box::new(reader));
        PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
    }
}

/// The schema with the run's index in front.
pub fn schema_with_row(schema: &Schema) -> SchemaRef {
    let row = Arc::new(Field::new("row", DataType::Int32, false));
    let fields: Vec<_> = std::iter::once(row)
        .chain(schema.fields().iter().cloned())
        .collect();
    Arc::new(Schema::new(fields))
}

pub fn with_row(batch: &RecordBatch, row: usize) -> Result<RecordBatch, ArrowError> {
    let index: ArrayRef = Arc::new(Int32Array::from(vec![row as i32; batch.num_rows()]));
    let columns = std::iter::once(index)
        .chain(batch.columns().iter().cloned())
        .collect();
    RecordBatch::try_new(schema_with_row(batch.schema_ref()), columns)
}
