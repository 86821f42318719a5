import re
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
import records
from typer.testing import CliRunner

from multipilot.record import Record
from multipilot.report import grid, render, summary
from multipilot.report.cli import app
from multipilot.report.series import edges, running_total, subflows, throughput

VOID = {"meta", "br", "path", "use", "rect", "circle", "line", "image"}


class Checker(HTMLParser):
    """Every tag closed in order, and no address outside the page."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.links += [
            value or "" for name, value in attrs if name in ("src", "href", "xlink:href", "srcset", "action")
        ]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag


def check(page: str) -> Checker:
    checker = Checker()
    checker.feed(page)
    assert checker.open == []
    assert all(link.startswith("#") for link in checker.links)
    assert not re.search(r"@import|url\((?!#)|<script|<link", page)
    return checker


def test_page_is_whole_and_needs_no_network() -> None:
    page = render(records.make({"lia": 0.6, "reno": 0.8}, seeds=3, seconds=5))
    check(page)
    assert "http" not in re.sub(r"http://www\.w3\.org/\S+", "", page)
    for text in (
        "Wi-Fi and LTE, loss on Wi-Fi",
        "6.18.5",
        "reno",
        "rate = &quot;50Mbit&quot;",
        "Congestion window, packets",
    ):
        assert text in page


def test_references_in_the_drawings_resolve() -> None:
    page = render(records.make({"lia": 0.6, "reno": 0.8}, seeds=2, seconds=5))
    names = set(re.findall(r' id="([^"]+)"', page))
    assert set(re.findall(r'(?:url\(#|href="#)([^")]+)', page)) <= names


def test_no_colour_escapes_the_style_sheet() -> None:
    page = render(records.make({"lia": 0.6, "reno": 0.8}, seeds=2, seconds=5))
    drawings = "".join(re.findall(r"<svg.*?</svg>", page, flags=re.DOTALL))
    assert set(re.findall(r"(?:fill|stroke): (#[0-9a-f]{6})", drawings)) == set()
    assert "var(--path-1)" in drawings


def test_names_of_the_scenario_cannot_break_the_page() -> None:
    record = records.make({"<b>lia & 'co'</b>": 0.6}, seeds=2, seconds=2)
    page = render(record)
    check(page)
    assert "<b>lia" not in page


def test_many_variants_and_seeds_stay_readable() -> None:
    record = records.make({f"variant-{k:02}": 0.3 + k / 50 for k in range(20)}, seeds=12, seconds=2, competing=False)
    page = render(record)
    check(page)
    assert "12 more variants" in page
    assert "the seed nearest to the median of all variants" in page
    assert len(page) < 3_000_000


def test_warnings_come_before_the_figures() -> None:
    record = records.make({"lia": 0.6, "reno": 0.8}, seeds=2, seconds=2, fallback=True)
    record.document["failed"].append({"variant": "reno", "seed": 3, "error": "the server did not start"})
    page = render(record)
    for text in (
        "2 runs a connection fell back to plain TCP: lia 1 of 2, reno 1 of 2",
        "1 run failed, left out of the means: reno 1 of 3",
        "the server did not start",
        "the peer did not answer MP_CAPABLE (2 runs)",
    ):
        assert 0 < page.index(text) < page.index("Which does better")


def test_verdict_claims_no_more_than_the_runs_show() -> None:
    def verdict(**shares: float) -> str:
        return summary.verdict(summary.variants(records.make(shares, seeds=4, seconds=2, competing=False))).sentence

    assert re.match(r"reno: [\d.]+ Mbit/s, \d+ % more than lia \(95 % interval", verdict(lia=0.5, reno=0.9))
    assert "do not tell it apart from" in verdict(lia=0.70, reno=0.705)
    single = summary.variants(records.make({"lia": 0.5, "reno": 0.9}, seeds=1, seconds=2))
    assert "in one run each" in summary.verdict(single).sentence


def test_files_are_won_by_the_shorter_completion_as_in_the_commands_table() -> None:
    """``stuck`` did not end once, ``tcp`` fell back: neither can win. ``slow`` has the higher goodput."""
    took = {"quick": 2.0, "slow": 3.0, "stuck": 1.0, "tcp": 1.0}
    shares = {name: 0.5 if name == "quick" else 0.9 for name in took}
    record = records.make(shares, seeds=4, seconds=2, competing=False)
    for row in record.row_dicts:
        ended = row["variant"] != "stuck" or row["seed"] > 1
        row["completion_s"] = took[row["variant"]] + row["seed"] / 50 if ended else None
        row["fallback"] = row["variant"] == "tcp"
    verdict = summary.verdict(summary.variants(record))
    assert verdict.best == {"quick"}
    assert verdict.sentence == "quick: 2.05 s, 49 % faster than slow (95 % interval 47 to 51 %)."
    page = render(record)
    check(page)
    assert page.index("Completion, s of each variant") < page.index("Goodput, Mbit/s of each variant")


def test_competing_connections_are_told_apart() -> None:
    record = records.make({"lia": 0.6}, seeds=1, seconds=2)
    assert summary.competing_connections(record) == {"rival"}
    shares = summary.variants(record)[0].path_share
    assert sum(shares.values()) == pytest.approx(1)
    assert shares["lte"] == pytest.approx(20 / 70, rel=0.1)


def test_drawn_throughput_adds_up_to_the_bytes_delivered() -> None:
    record = records.make({"lia": 0.6}, seeds=1, seconds=20)
    flows = subflows(record.samples, record.transfers, frozenset())
    assert {(flow.transfer, flow.subflow, flow.path) for flow in flows} == {
        (0, 0, "wifi"),
        (0, 1, "lte"),
        (1, 0, "wifi"),
    }
    bins = edges(flows, 20.0)
    for flow in flows:
        drawn = (throughput(flow, bins) * 1e6 / 8 * (bins[1:] - bins[:-1])).sum()
        assert drawn == pytest.approx(flow.delivered[-1], rel=1e-9)


def test_a_record_without_telemetry_still_gets_a_page() -> None:
    record = records.make({"lia": 0.6}, seeds=2, seconds=1)
    bare = type(record)(record.document, record.transfers.slice(0, 0), record.samples.slice(0, 0))
    page = render(bare)
    check(page)
    assert "no telemetry" in page


def test_runs_whose_telemetry_is_lost_are_counted(tmp_path: Path) -> None:
    folder = records.write(tmp_path, variants={"lia": 0.6}, seeds=3, seconds=1)
    (folder / "runs/0001/samples.arrow").unlink()
    assert "1 of 3 runs left no telemetry" in render(Record.load(folder))


def test_the_command(tmp_path: Path) -> None:
    folder = records.write(tmp_path / "r", variants={"lia": 0.6}, seeds=2, seconds=1)
    done = CliRunner().invoke(
        app,
        [
            *(str(folder), "--out", str(tmp_path / "page.html"), "--parquet", str(tmp_path / "pq")),
            *("--picture", str(tmp_path / "first.svg")),
        ],
    )
    assert done.exit_code == 0, done.output
    assert done.stdout.strip() == str(tmp_path / "page.html")
    assert (tmp_path / "pq/samples.parquet").exists()
    picture = (tmp_path / "first.svg").read_text(encoding="utf-8")
    assert ElementTree.fromstring(picture).tag.endswith("svg")
    assert "prefers-color-scheme:dark" in picture
    assert re.search(r'aria-label="[^"]*: lia [\d.]+ Mbit/s"', picture)
    wrong = CliRunner().invoke(app, [str(tmp_path)])
    assert wrong.exit_code == 2
    assert wrong.stdout == ""
    assert len(wrong.stderr.strip().splitlines()) == 1


def test_a_grid_is_judged_cell_by_cell() -> None:
    record = records.make({"lia loss=0": 0.9, "reno loss=0": 0.95, "lia loss=0.1": 0.2, "reno loss=0.1": 0.4}, seeds=4)
    for row in record.row_dicts:
        row["cell"] = {"paths.wifi.loss": row["variant"].split("=")[1]}
    found = summary.variants(record)
    verdict = summary.verdict(found)
    assert verdict.best == {"reno loss=0", "reno loss=0.1"} or "do not tell" in verdict.sentence
    assert "Of 2 cells, clearly best: reno in" in verdict.sentence
    check(render(record))


def test_a_path_alone_is_no_winner() -> None:
    record = records.make(dict.fromkeys(["lia", "lia [tcp on wifi]"], 0.5), seeds=2, seconds=1, competing=False)
    for row in record.row_dicts:
        row["goodput_mbps"] = 5.0 if row["variant"] == "lia" else 9.0
    verdict = summary.verdict(summary.variants(record))
    assert (verdict.sentence, verdict.best) == ("lia: 5 Mbit/s.", {"lia"})


def gridded(losses: list[str], rates: list[str]) -> Record:
    """Goodput is known: the rate, less for lia, less with loss."""
    names = [
        f"{c} d=5 wifi.loss={loss} wifi.rate={rate}" for rate in rates for loss in losses for c in ("lia", "pilot")
    ]
    record = records.make(dict.fromkeys(names, 0.5), seeds=2, seconds=1, competing=False)
    for row in record.row_dicts:
        choice, _, loss, rate = row["variant"].split(" ")
        row["cell"] = {"paths.wifi.loss": loss.split("=")[1], "paths.wifi.rate": rate.split("=")[1]}
        full = grid.number(row["cell"]["paths.wifi.rate"]) or 0
        row["goodput_mbps"] = full / 1e6 * (1 - float(row["cell"]["paths.wifi.loss"])) * (0.5 if choice == "lia" else 1)
    return record


def test_a_grid_is_drawn_as_lines_over_its_longest_axis() -> None:
    record = gridded(["0.1", "0", "0.01"], ["50Mbit", "8Mbit"])
    drawn = grid.of(summary.variants(record))
    assert drawn is not None
    assert (drawn.key, drawn.ticks) == ("paths.wifi.loss", ["0", "0.01", "0.1"])
    assert list(drawn.panels) == ["rate 8Mbit", "rate 50Mbit"]
    assert drawn.choices == ["lia d=5", "pilot d=5"]
    line = drawn.panels["rate 50Mbit"]["lia d=5"]
    assert [round(mean.mean, 6) for mean in line if mean] == [25.0, 24.75, 22.5]
    figure = grid.figure(drawn)
    assert figure.axes[1].lines[0].get_ydata()[0] == 25.0  # type: ignore[index]
    page = render(record)
    check(page)
    assert page.count("<tr><td>loss ") == 6, "a verdict for each cell"
    assert "<td>pilot d=5</td><td>pilot d=5: 50 Mbit/s" in page
    assert "<th>Clearly best</th><th>Goodput</th>" in page


def test_a_lone_panel_of_a_grid_is_as_wide_as_the_page() -> None:
    def widths(rates: list[str]) -> list[int]:
        drawn = grid.of(summary.variants(gridded(["0", "0.01", "0.1"], rates)))
        assert drawn is not None
        return [int(width) for width in re.findall(r"max-width:(\d+)px", grid.picture(drawn))]

    # The page has 1072 pixels, a card 42 less, and two cards beside each other have 16 between them.
    (alone,) = widths(["50Mbit"])
    assert 960 <= alone <= 1030
    assert all(width <= 500 for width in widths(["50Mbit", "8Mbit"]))


def test_values_show_under_the_pointer() -> None:
    page = render(gridded(["0", "0.01", "0.1"], ["50Mbit"]))
    assert "<title>lia d=5, paths.wifi.loss 0.1: 22.5 ± 0 (95 %), 2 runs, Mbit/s</title>" in page
    page = render(records.make({"<b>lia & 'co'</b>": 0.6}, seeds=1, seconds=2))
    check(page)
    name = "&lt;b&gt;lia &amp; 'co'&lt;/b&gt;"
    assert re.search(rf"<title>{name}\. Goodput, Mbit/s: [\d.]+, 1 run</title>", page)


def test_a_grid_of_words_or_of_two_values_is_drawn_as_bars() -> None:
    record = gridded(["0", "0.1"], ["8Mbit", "50Mbit"])
    assert grid.of(summary.variants(record)) is None
    assert "Bytes by path" in render(record)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0.01", 0.01),
        ("50Mbit", 50e6),
        ("300kbit", 3e5),
        ("20ms", 0.02),
        ("2min", 120.0),
        ("1.5bdp", 1.5),
        ("100p", 100.0),
    ],
)
def test_values_of_an_axis_have_an_order(text: str, value: float) -> None:
    assert grid.number(text) == pytest.approx(value)
    assert grid.number("fullmesh") is None


def test_a_variant_of_which_every_run_failed_is_shown() -> None:
    record = records.make({"lia": 0.6}, seeds=2, seconds=1)
    record.document["failed"].append({"variant": "reno", "seed": 1, "error": "no such controller"})
    page = render(record)
    check(page)
    assert "reno 1 of 1" in page
    assert "no value" in page


def test_a_subflow_opened_anew_goes_on_from_what_the_old_one_had() -> None:
    counter = np.array([10, 30, 5, 15], dtype=np.uint64)
    assert running_total(counter).tolist() == [10.0, 30.0, 35.0, 45.0]
