//! A record folder through its life: fresh, resumed, refused, killed.

use std::fs;
use std::path::Path;

use mp_record::*;
use mp_scenario::{Overrides, Scenario};

fn scenario(text: &str) -> Scenario {
    let none = |_: &Path| Err(std::io::Error::other("no traces here"));
    let parsed = mp_scenario::parse("s.toml", text, Path::new(""), &none, &Overrides::default())
        .expect("a good scenario");
    parsed.cells.into_iter().next().expect("one cell").scenario
}

fn run() -> Run {
    let transfer = |id, end_s, bytes, paths: &[(&str, u64)]| Transfer {
        connection: "mptcp0".into(),
        id,
        multipath: true,
        start_s: 1.0,
        end_s,
        bytes,
        intact: end_s.map(|_| true),
        window_overruns: end_s.map(|_| 7),
        path_bytes: paths.iter().map(|(p, b)| (p.to_string(), *b)).collect(),
        ..Transfer::default()
    };
    Run {
        transfers: vec![
            transfer(
                0,
                Some(3.0),
                4_000_000,
                &[("a", 3_000_000), ("b", 1_000_000)],
            ),
            transfer(1, None, 0, &[]),
        ],
        samples: vec![Sample {
            time_s: 0.5,
            path: "a".into(),
            cwnd: 10,
            in_order_bytes: Some(1_000_000),
            pacing_rate: u64::MAX,
            backup: true,
            ..Sample::default()
        }],
        elapsed_s: 5.0,
        ..Run::default()
    }
}

fn row(seed: u64) -> Row {
    Row {
        variant: "lia".into(),
        seed,
        goodput_mbps: 12.5,
        ..Row::default()
    }
}

#[test]
fn a_record_reads_back_what_was_written() {
    let dir = tempfile::tempdir().unwrap();
    let mut folder = Folder::open(dir.path(), Document::new("s", "S", "sim"), "x = 1\n").unwrap();
    folder.append(row(1), &run()).unwrap();
    folder.append(row(2), &Run::default()).unwrap();
    folder.flush().unwrap();
    assert_eq!(&Folder::read(dir.path()).unwrap(), folder.document());
    assert_eq!(
        Folder::read_run(dir.path(), 0).unwrap(),
        (run().transfers, run().samples)
    );
    assert_eq!(Folder::read_run(dir.path(), 1).unwrap(), (vec![], vec![]));
    assert_eq!(
        fs::read_to_string(dir.path().join("scenario.toml")).unwrap(),
        "x = 1\n"
    );
    let names: Vec<_> = fs::read_dir(dir.path().join("runs"))
        .unwrap()
        .map(|e| e.unwrap().file_name())
        .collect();
    assert_eq!(names.len(), 2, "no temporary folder is left: {names:?}");
}

#[test]
fn a_table_without_the_newer_columns_is_read() {
    let transfers = run().transfers;
    let batch = arrow::transfers_batch(&transfers).unwrap();
    let place = batch.schema().index_of("window_overruns").unwrap();
    let mut older = batch.clone();
    older.remove_column(place);
    let mut file = Vec::new();
    let mut writer = arrow_ipc::writer::FileWriter::try_new(&mut file, &older.schema()).unwrap();
    writer.write(&older).unwrap();
    writer.finish().unwrap();
    drop(writer);
    let read = arrow::read_transfers(std::io::Cursor::new(file)).unwrap();
    assert!(read.iter().all(|t| t.window_overruns.is_none()));
    assert_eq!(read[0].path_bytes, transfers[0].path_bytes);
}

#[test]
fn the_same_comparison_resumes_and_another_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let open =
        |world: &str, text: &str| Folder::open(dir.path(), Document::new("s", "S", world), text);
    let mut folder = open("sim", "x = 1\n").unwrap();
    folder.append(row(1), &run()).unwrap();
    folder
        .fail(Failure {
            variant: "lia".into(),
            seed: 2,
            error: "lost".into(),
        })
        .unwrap();
    assert!(
        matches!(open("sim", "x = 1\n"), Err(Error::Busy { .. })),
        "two at once"
    );
    drop(folder);

    // A kill between the tables and the row leaves a folder that the next run of that index replaces.
    fs::create_dir_all(dir.path().join("runs/0001/junk")).unwrap();
    let mut again = open("sim", "x = 1\n").unwrap();
    assert_eq!(again.done(), [("lia".to_owned(), 1)].into());
    assert!(
        again.document().failed.is_empty(),
        "what failed gets another chance"
    );
    again.append(row(2), &run()).unwrap();
    assert!(!dir.path().join("runs/0001/junk").exists());
    drop(again);

    for (world, text) in [("kernel", "x = 1\n"), ("sim", "x = 2\n")] {
        let message = open(world, text).unwrap_err().to_string();
        assert!(
            message.ends_with(
                "holds another comparison (s, sim world); choose another folder with --out"
            ),
            "{message}"
        );
    }
    // Runs of two kernels under one name would be no comparison.
    let file = dir.path().join("result.json");
    let text = fs::read_to_string(&file).unwrap();
    let version = env!("CARGO_PKG_VERSION");
    fs::write(&file, text.replace(version, "0.0.1")).unwrap();
    let message = open("sim", "x = 1\n").unwrap_err().to_string();
    let told = format!("its runs are of multipilot 0.0.1, this is {version}; choose another");
    assert!(message.contains(&told), "{message}");
    fs::write(&file, "{\"schema\": 9}").unwrap();
    let message = open("sim", "x = 1\n").unwrap_err().to_string();
    assert!(
        message.contains("result.json is no record") && !message.contains('\n'),
        "{message}"
    );
}

#[test]
fn a_row_separates_what_is_tested_from_what_competes() {
    let s = scenario(
        "[paths.a]\nrate = '9Mbit'\n[paths.b]\nrate = '9Mbit'\n[[connections]]\ncount = 2\nbytes = '4MB'\n\
         [[connections]]\nname = 'rival'\nprotocol = 'tcp'\npaths = ['a']\ncontroller = 'cubic'",
    );
    let mut run = run();
    run.transfers.push(Transfer {
        connection: "rival".into(),
        id: 2,
        start_s: 0.0,
        bytes: 5_000_000,
        ..Transfer::default()
    });
    run.window_overruns = Some(7);
    let row = Row::of(&s, &s.variants[0], 7, &run);
    assert_eq!(row.window_overruns, Some(7));
    assert_eq!(
        (
            row.variant.as_str(),
            row.seed,
            row.transfers,
            row.unfinished
        ),
        ("linux-reno", 7, 2, 1)
    );
    assert_eq!(
        row.goodput_mbps, 8.0,
        "4 MB from second 1 to the end of the run at 5"
    );
    assert_eq!(row.competing_mbps, Some(8.0));
    assert_eq!(
        row.completion_s, None,
        "one of two has no end: a mean over the other would be too good"
    );
    assert_eq!(row.jain, Some(0.5));
    assert_eq!((row.path_mbps["a"], row.path_mbps["b"]), (6.0, 2.0));
    assert!(!row.fallback);

    run.transfers[1].end_s = Some(4.0);
    run.transfers[2].fallback = true;
    let row = Row::of(&s, &s.variants[0], 7, &run);
    assert_eq!((row.completion_s, row.unfinished), (Some(2.5), 0));
    assert!(!row.fallback, "a rival's fallback is not ours");
    run.transfers[0].fallback = true;
    assert!(Row::of(&s, &s.variants[0], 7, &run).fallback);
}

#[test]
fn without_a_connection_under_test_all_are() {
    let s = scenario("[paths.a]\nrate = '9Mbit'\n[[connections]]\nname = 'rival'\nprotocol = 'tcp'\ncontroller = 'cubic'");
    let transfers = vec![Transfer {
        connection: "rival".into(),
        bytes: 1_000_000,
        ..Transfer::default()
    }];
    let row = Row::of(
        &s,
        &s.variants[0],
        1,
        &Run {
            transfers,
            elapsed_s: 8.0,
            ..Run::default()
        },
    );
    assert_eq!((row.goodput_mbps, row.competing_mbps), (1.0, None));
}

#[test]
fn the_document_has_the_columns_that_outsiders_use() {
    let mut document = Document::new("s", "S", "sim");
    document.rows.push(row(1));
    let value: serde_json::Value = serde_json::from_str(&document.to_json()).unwrap();
    assert_eq!(value["schema"], 1);
    assert_eq!(
        (&value["scenario"], &value["world"]),
        (&"s".into(), &"sim".into())
    );
    for column in [
        "variant",
        "controller",
        "path_manager",
        "initial_path",
        "scheduler",
        "seed",
        "goodput_mbps",
        "completion_s",
        "fallback",
        "jain",
        "ben",
        "paper",
        "competing_mbps",
    ] {
        assert!(
            value["rows"][0].get(column).is_some(),
            "{column} is missing"
        );
    }
    assert!(value["rows"][0]["ben"].is_null());
}

#[test]
fn a_record_with_damaged_tables_is_not_continued() {
    type Damage = fn(&Path);
    let damages: [Damage; 2] = [
        |table| fs::remove_file(table).unwrap(),
        |table| fs::write(table, &fs::read(table).unwrap()[..10]).unwrap(),
    ];
    for damage in damages {
        let dir = tempfile::tempdir().unwrap();
        let open = || Folder::open(dir.path(), Document::new("s", "S", "sim"), "x = 1\n");
        let mut folder = open().unwrap();
        folder.append(row(1), &run()).unwrap();
        folder.append(row(2), &run()).unwrap();
        folder.flush().unwrap();
        drop(folder);
        drop(open().expect("a whole record is continued"));
        damage(&dir.path().join("runs/0001/samples.arrow"));
        let line = open().unwrap_err().to_string();
        assert!(
            line.contains("runs/0001: a table of this run is missing or cut short"),
            "{line}"
        );
    }
}
