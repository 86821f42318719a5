//! Outcomes of the connections of a host, one line each, for policies to be trained on later.
//!
//! A folder of Arrow IPC streams. A stream can be read as far as it goes, so that whatever ends its writer costs the lines
//! that were not written yet; the index of a Parquet file comes last, and a file without it is lost as a whole. Every
//! writer has files of its own. The oldest go when all together take more than [`MOST`].

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use arrow_array::{ArrayRef, RecordBatch, StringArray, TimestampMillisecondArray};
use arrow_ipc::writer::StreamWriter;
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef, TimeUnit};

use crate::arrow::Error;
use crate::decisions;
use crate::run::Decision;

/// Of all files, bytes.
pub const MOST: u64 = 64 << 20;
/// A file that has grown to this is followed by another.
const FULL: u64 = 4 << 20;
/// What a file counts at least, so that their number is bounded too.
const LEAST: u64 = 64 << 10;
const ENDING: &str = "arrows";

/// The end of one connection.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Outcome {
    /// ms since 1970, UTC
    pub ended_ms: i64,
    /// `device`, `server` or `stock`
    pub chosen_by: String,
    /// Transfers are numbered, and times counted, from when the writer began.
    pub decision: Decision,
}

pub fn schema() -> SchemaRef {
    let at = DataType::Timestamp(TimeUnit::Millisecond, Some("UTC".into()));
    let mut fields = vec![
        Arc::new(Field::new("ended", at, false)),
        Arc::new(Field::new("chosen_by", DataType::Utf8, false)),
    ];
    fields.extend(decisions::schema().fields().iter().cloned());
    Arc::new(Schema::new(fields))
}

fn batch(outcomes: &[Outcome]) -> Result<RecordBatch, Error> {
    let ended = outcomes.iter().map(|l| l.ended_ms);
    let chosen_by = outcomes.iter().map(|l| &l.chosen_by);
    let mut columns: Vec<ArrayRef> = vec![
        Arc::new(TimestampMillisecondArray::from_iter_values(ended).with_timezone("UTC")),
        Arc::new(StringArray::from_iter_values(chosen_by)),
    ];
    columns.extend(decisions::columns(&|| outcomes.iter().map(|l| &l.decision)));
    Ok(RecordBatch::try_new(schema(), columns)?)
}

/// Writes into a folder, which is made with the first lines.
pub struct Log {
    folder: PathBuf,
    file: Option<StreamWriter<io::BufWriter<File>>>,
}

impl Log {
    pub fn new(folder: &Path) -> Log {
        Log {
            folder: folder.to_owned(),
            file: None,
        }
    }

    /// They are the system's when this returns: the end of the process no longer costs them.
    pub fn append(&mut self, outcomes: &[Outcome]) -> Result<(), Error> {
        if outcomes.is_empty() {
            return Ok(());
        }
        let (batch, file) = (batch(outcomes)?, self.file.take());
        // Others clear up too.
        let there =
            file.filter(|f| state(f).is_ok_and(|(length, links)| length < FULL && links > 0));
        let mut file = match there {
            Some(file) => file,
            None => return self.begin(&batch),
        };
        file.write(&batch)?;
        file.flush()?;
        self.file = Some(file);
        Ok(())
    }

    fn begin(&mut self, first: &RecordBatch) -> Result<(), Error> {
        let io = |e: io::Error| Error::Arrow(ArrowError::from(e));
        fs::create_dir_all(&self.folder).map_err(io)?;
        self.clear_up().map_err(io)?;
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let (mut ms, pid) = (since.map_or(0, |d| d.as_millis()), std::process::id());
        let (path, file) = loop {
            // In the order in which they were begun.
            let name = format!("{ms:013}-{pid}.{ENDING}");
            let path = self.folder.join(name);
            match File::create_new(&path) {
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => ms += 1,
                made => break (path, made.map_err(io)?),
            }
        };
        let begun = StreamWriter::try_new_buffered(file, &schema()).and_then(|mut file| {
            file.write(first)?;
            file.flush()?;
            Ok(file)
        });
        if begun.is_err() {
            // One without an outcome would push out those of before, one each time on a full disk.
            let _ = fs::remove_file(path);
        }
        self.file = Some(begun?);
        Ok(())
    }

    /// Room for one file more.
    fn clear_up(&self) -> io::Result<()> {
        let mut all = Vec::new();
        for entry in fs::read_dir(&self.folder)? {
            let path = entry?.path();
            if path.extension().is_some_and(|e| e == ENDING) {
                let length = fs::metadata(&path).map_or(0, |m| m.len());
                all.push((path, length.max(LEAST)));
            }
        }
        all.sort();
        let mut sum: u64 = FULL + all.iter().map(|(_, length)| length).sum::<u64>();
        for (path, length) in all {
            if sum <= MOST {
                break;
            }
            let _ = fs::remove_file(path);
            sum -= length;
        }
        Ok(())
    }
}

/// Length and names of the file.
fn state(of: &StreamWriter<io::BufWriter<File>>) -> io::Result<(u64, u64)> {
    let found = of.get_ref().get_ref().metadata()?;
    Ok((found.len(), found.nlink()))
}
