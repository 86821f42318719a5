use super::*;

fn row(variant: &str, seed: u64, goodput_mbps: f64, completion_s: Option<f64>) -> Row {
    Row {
        variant: variant.into(),
        seed,
        goodput_mbps,
        completion_s,
        ..Row::default()
    }
}

#[test]
fn the_best_stands_first_and_wins() {
    let rows = [
        row("lia", 1, 10.0, None),
        row("lia", 2, 10.2, None),
        row("olia", 1, 20.0, None),
        row("olia", 2, 20.2, None),
    ];
    let text = render(&rows, &[""]);
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines[0], "variant  goodput Mbit/s  runs");
    assert_eq!(lines[1], "olia       20.10 ± 1.27     2");
    assert_eq!(lines[2], "lia        10.10 ± 1.27     2");
    assert_eq!(
        lines[3],
        "Winner: olia with 20.10 Mbit/s, 99.0 % ahead of lia (significant at 95 %)."
    );
}

#[test]
fn files_are_won_by_the_shorter_time_and_by_whoever_finished() {
    let rows = [
        row("fast", 1, 9.0, Some(4.0)),
        row("slow", 1, 10.0, Some(5.0)),
        Row {
            unfinished: 2,
            ..row("stuck", 1, 99.0, None)
        },
    ];
    let text = render(&rows, &[""]);
    assert!(
        text.contains("Winner: fast with 4.00 s, 25.0 % ahead of slow (one run each"),
        "{text}"
    );
    assert!(text.contains("2 unfinished"), "{text}");
}

#[test]
fn a_fallback_is_flagged_and_cannot_win() {
    let rows = [
        Row {
            fallback: true,
            ..row("tcp", 1, 90.0, None)
        },
        row("lia", 1, 10.0, None),
    ];
    let text = render(&rows, &[""]);
    assert!(text.contains("fell back to TCP in 1 of 1"), "{text}");
    assert!(
        text.contains("Winner: lia with 10.00 Mbit/s, the only variant whose result counts."),
        "{text}"
    );
    let none = render(&rows[..1], &[""]);
    assert!(none.contains("No winner"), "{none}");
}

#[test]
fn notes_stand_below_the_table() {
    let noted = |seed| Row {
        notes: vec!["too busy".into()],
        ..row("lia", seed, 10.0, None)
    };
    let text = render(&(1..=7).map(noted).collect::<Vec<_>>(), &[""]);
    assert!(
        text.contains("Note on lia, seed 5: too busy\n2 more notes are in result.json.\n"),
        "{text}"
    );
}

#[test]
fn cells_have_tables_of_their_own() {
    let rows = [
        row("lia w.loss=0", 1, 10.0, None),
        row("lia w.loss=0.1", 1, 5.0, None),
        row("lia w.loss=0.1 [tcp on a]", 1, 4.0, None),
    ];
    let text = render(&rows, &["w.loss=0", "w.loss=0.1"]);
    let expected = "w.loss=0\nvariant  goodput Mbit/s  runs\nlia               10.00     1\n\n\
                    w.loss=0.1\nvariant         goodput Mbit/s  runs\nlia                       5.00     1\nlia [tcp on a]            4.00     1\n\n";
    assert_eq!(text, expected);
}
