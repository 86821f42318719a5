//! Lines that are written are there, in whole or cut files, and never too many.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use arrow_array::cast::AsArray;
use arrow_array::types::UInt32Type;
use arrow_ipc::reader::StreamReader;
use mp_record::experience::{schema, Log, Outcome, MOST};
use mp_record::Decision;

fn outcome(number: u32, features: usize) -> Outcome {
    let value = |i: usize| {
        (
            format!("wifi.reading-{i}"),
            i.is_multiple_of(2).then_some(i as f64),
        )
    };
    Outcome {
        ended_ms: 1_790_000_000_000 + i64::from(number),
        chosen_by: "device".into(),
        decision: Decision {
            transfer: number,
            policy: "bandit".into(),
            arm: "wifi".into(),
            features: (0..features).map(value).collect(),
            throughput_mbps: Some(3.0),
            reward: Some(true),
            ..Decision::default()
        },
    }
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> = fs::read_dir(folder)
        .unwrap()
        .map(|e| e.unwrap().path())
        .collect();
    all.sort();
    all
}

/// The numbers of the lines, as far as the files go.
fn numbers(folder: &Path) -> Vec<u32> {
    let of = |file: &PathBuf| {
        let reader = StreamReader::try_new_buffered(File::open(file).unwrap(), None).unwrap();
        assert_eq!(reader.schema(), schema());
        let batches = reader.map_while(Result::ok);
        let numbers = batches.flat_map(|b| {
            let column = b.column_by_name("transfer").unwrap().clone();
            column.as_primitive::<UInt32Type>().values().to_vec()
        });
        numbers.collect::<Vec<_>>()
    };
    files(folder).iter().flat_map(of).collect()
}

#[test]
fn what_was_appended_is_there_whatever_comes_of_the_writer() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join("experience");
    let mut log = Log::new(&folder);
    assert!(!folder.exists(), "nothing to write, nothing there");
    log.append(&[]).unwrap();
    assert!(!folder.exists());
    log.append(&[outcome(1, 4), outcome(2, 4)]).unwrap();
    log.append(&[outcome(3, 4)]).unwrap();
    // It is still open: as after a kill.
    assert_eq!(numbers(&folder), [1, 2, 3]);
    let mut other = Log::new(&folder);
    other.append(&[outcome(4, 4)]).unwrap();
    log.append(&[outcome(5, 4)]).unwrap();
    assert_eq!(numbers(&folder), [1, 2, 3, 5, 4], "each its own file");

    // The power fails in the middle of a write.
    drop(log);
    let first = &files(&folder)[0];
    let length = fs::metadata(first).unwrap().len();
    File::options()
        .write(true)
        .open(first)
        .unwrap()
        .set_len(length - 9)
        .unwrap();
    assert_eq!(numbers(&folder), [1, 2, 3, 4]);
}

#[test]
fn the_oldest_lines_go_when_there_are_too_many() {
    let folder = tempfile::tempdir().unwrap();
    let mut log = Log::new(folder.path());
    // Some 2 MB each.
    let lines: Vec<Outcome> = (0..300).map(|n| outcome(n, 200)).collect();
    for round in 0..40 {
        let of_round = |l: &Outcome| Outcome {
            ended_ms: l.ended_ms,
            decision: Decision {
                transfer: round,
                ..l.decision.clone()
            },
            ..l.clone()
        };
        log.append(&lines.iter().map(of_round).collect::<Vec<_>>())
            .unwrap();
    }
    let size: u64 = files(folder.path())
        .iter()
        .map(|f| fs::metadata(f).unwrap().len())
        .sum();
    assert!(size <= MOST && size > MOST / 2, "{size}");
    let mut left = numbers(folder.path());
    left.dedup();
    let (first, last) = (left[0], *left.last().unwrap());
    assert!(first > 0 && last == 39, "{first} to {last}");
    assert_eq!(left, (first..=39).collect::<Vec<_>>(), "no gap");

    // Short runs leave small files: not without end either.
    let small = tempfile::tempdir().unwrap();
    for n in 0..1200 {
        Log::new(small.path()).append(&[outcome(n, 1)]).unwrap();
    }
    let count = files(small.path()).len() as u64;
    assert!(count <= MOST >> 16, "{count}");
    assert_eq!(numbers(small.path()).last(), Some(&1199));

    // A file that another writer cleared away is not written to any more.
    log.append(&[outcome(7, 1)]).unwrap();
    for file in files(folder.path()) {
        fs::remove_file(file).unwrap();
    }
    log.append(&[outcome(8, 1)]).unwrap();
    assert_eq!(numbers(folder.path()), [8]);
}
