import itertools
import json
import math
import re
from collections import Counter
from pathlib import Path

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st

from multipilot import expand
from multipilot.agree import grid, page
from multipilot.agree.judge import MOST_RUNS, PLANNED_HALF, Verdict, Whole, judge, runs_needed
from multipilot.agree.picture import draw
from multipilot.agree.worlds import RealRun, RealWorld, simulate
from multipilot.children import alone
from multipilot.stats import Mean

FACTORS = ("controller", "loss", "round_trip_ms", "rate_mbit", "paths")
ARRAY = list(grid.array())


@pytest.mark.parametrize(("one", "other"), list(itertools.combinations(FACTORS, 2)))
def test_every_pair_of_levels_meets_equally_often(one: str, other: str) -> None:
    met = Counter((getattr(cell, one), getattr(cell, other)) for cell in ARRAY)
    levels = len({a for a, _ in met}) * len({b for _, b in met})
    assert len(met) == levels
    assert set(met.values()) == {len(ARRAY) // levels}


@pytest.mark.parametrize("cell", grid.cells() + grid.quick(), ids=lambda cell: cell.name)
def test_every_cell_is_a_scenario(cell: grid.Cell) -> None:
    text = expand(cell.scenario())
    assert f'controller = "{cell.controller}"' in text
    assert text.count("[paths.") == cell.paths
    assert text.count(f"downlink.loss = {cell.loss:g}" if cell.loss else "downlink.loss = 0.0") >= cell.paths


def test_queues_are_met_in_every_kind_by_each_way_to_send() -> None:
    chosen = [cell for cell in grid.cells() if cell.queue.label]
    assert len(chosen) == 3 * len(grid.QUEUES) == 18
    said: dict[str, set[str]] = {}
    for cell in chosen:
        text = expand(cell.scenario())
        said.setdefault(cell.queue.label, set()).update(re.findall(r"^queue = (.*)$", text, re.MULTILINE))
    # 20 Mbit/s and 40 ms are 66.7 packets of 1500 bytes.
    codel = '{ limit = "267p", discipline = "codel", target = "5ms", interval = "100ms", ecn = %s }'
    red = '{ limit = "267p", discipline = "red", min = 17.0, max = 51.0, probability = 0.1, ecn = %s }'
    assert said == {
        "CoDel": {codel % "false"},
        "CoDel with ECN": {codel % "true"},
        "RED": {red % "false"},
        "RED with ECN": {red % "true"},
        "queue of 4 BDP": {'"267p"'},
        "queue of 0.3 BDP": {'"20p"'},
    }


def test_each_scheduler_meets_equal_and_unlike_paths() -> None:
    chosen = grid.relay()
    assert {cell.scheduler for cell in chosen} == set(grid.SCHEDULERS)
    assert len(chosen) == 3 * len(grid.SCHEDULERS)
    assert len({cell.label for cell in chosen}) == len(chosen)
    text = next(cell for cell in chosen if cell.name == "ecf-unlike-1pc").scenario()
    assert 'scheduler = "ecf"' in text
    paths = text[text.index("[paths.path1]") : text.index("[[connections]]")]
    # 33 packets of 1500 bytes are one bandwidth-delay product on the first, 67 on the second.
    assert paths.split("\n\n") == [
        '[paths.path1]\ndelay = "5ms"\nrate = "40Mbit"\nqueue = "33p"\nloss = 0.01',
        '[paths.path2]\ndelay = "20ms"\nrate = "20Mbit"\nqueue = "67p"\nloss = 0.01',
        "",
    ]
    for cell in chosen:
        assert f'scheduler = "{cell.scheduler}"' in expand(cell.scenario())


def test_folders_tell_scenarios_apart() -> None:
    cell = grid.quick()[0]
    longer = grid.Cell(**{**vars(cell), "duration_s": 11})
    assert cell.folder != longer.folder
    assert len({c.folder for c in grid.cells() + grid.quick()}) == len(grid.cells() + grid.quick())


@pytest.mark.parametrize(
    ("sim", "kernel", "verdict"),
    [
        ([10.0, 10.1, 9.9], [10.2, 10.1, 10.0], Verdict.AGREES),
        ([11.4, 11.5, 11.6], [10.1, 10.0, 9.9], Verdict.AGREES),  # exactly 15 %
        ([11.6, 11.7, 11.8], [10.1, 10.0, 9.9], Verdict.OFF),
        ([8.0, 8.1, 7.9], [10.1, 10.0, 9.9], Verdict.OFF),
        ([10.0, 10.1, 9.9], [7.0, 10.0, 13.0], Verdict.UNDECIDED),
        # Wide, and yet nowhere near.
        ([20.0, 20.1, 19.9], [9.0, 10.0, 11.0], Verdict.OFF),
        ([10.0, 10.1, 9.9], [10.0], Verdict.UNDECIDED),
        ([10.0, 10.1, 9.9], [], Verdict.UNDECIDED),
    ],
)
def test_rule_of_judgement(sim: list[float], kernel: list[float], verdict: Verdict) -> None:
    assert judge(ARRAY[0], sim, kernel).verdict is verdict


def test_undecided_cells_count_as_misses() -> None:
    good = judge(ARRAY[0], [10.0, 10.1, 9.9], [10.0, 10.1, 9.9])
    unknown = judge(ARRAY[1], [10.0, 10.1, 9.9], [])
    whole = Whole([good, unknown])
    assert whole.share == 0.5
    assert whole.median_difference == pytest.approx(0, abs=1e-12)
    assert not whole.agrees
    assert Whole([good]).agrees


@given(st.floats(0.0, 0.5))
def test_planned_runs_reach_the_interval_or_the_cap(variation: float) -> None:
    from scipy import stats

    runs = runs_needed(variation)
    half = stats.t.ppf(0.975, runs - 1) * variation / math.sqrt(runs)
    assert half <= PLANNED_HALF or runs == MOST_RUNS
    assert runs >= min(MOST_RUNS, 2 * (variation / 0.05) ** 2)


def judged() -> Whole:
    shifts = [0.01, -0.03, 0.12, 0.3, 0.9, -0.6]
    found = []
    for position, cell in enumerate(grid.cells()):
        base = cell.rate_mbit * cell.paths * 0.8 * (1 - 10 * cell.loss)
        shift = 1 + shifts[position % len(shifts)] * (1 if position % 4 == 0 else 0.2)
        wide = 0.3 if position % 7 == 6 else 0.02
        kernel = [base * (1 + wide * s) for s in (-1, 0, 1, 0.4)]
        found.append(judge(cell, [base * shift * (1 + 0.01 * s) for s in (-1, 0, 1)], kernel if position % 11 else []))
    return Whole(found)


def test_page_and_document(tmp_path: Path) -> None:
    whole = judged()
    page.write(whole, tmp_path / "agree.md", ["lia seed 3: no root"], quick=False)
    text = (tmp_path / "agree.md").read_text()
    assert text.count("\n| ") == len(whole.cells) + 2
    assert "![" in text
    assert "(agree.svg)" in text
    assert "lia seed 3: no root" in text
    document = page.document(whole, [])
    again = json.loads(json.dumps(document, allow_nan=False))
    assert again["agrees"] is False
    assert again["verdicts"]["off"] == whole.count(Verdict.OFF) > 0
    assert sum(again["verdicts"].values()) == len(grid.cells())
    assert len(again["cells"]) == len(grid.cells()) == 54


def test_drawing_stands_alone() -> None:
    import xml.etree.ElementTree as ElementTree

    drawing = draw(judged())
    assert ElementTree.fromstring(drawing).tag == "{http://www.w3.org/2000/svg}svg"
    assert "prefers-color-scheme:dark" in drawing


def finished(out: Path, run: RealRun, goodput: float, fallback: bool = False, notes: tuple[str, ...] = ()) -> None:
    folder = run.folder(out)
    folder.mkdir(parents=True)
    row = {"goodput_mbps": goodput, "fallback": fallback, "notes": notes}
    (folder / "result.json").write_text(json.dumps({"schema": 1, "rows": [row]}))


def test_what_is_done_is_not_done_again(tmp_path: Path) -> None:
    a, b = grid.quick()[:2]
    finished(tmp_path, RealRun(a, 1), 9.0)
    finished(tmp_path, RealRun(a, 2), 9.5, fallback=True)
    kernel = RealWorld(tmp_path, budget_s=0)
    assert kernel.missing({a: 3, b: 2}) == [RealRun(b, 1), RealRun(a, 2), RealRun(b, 2), RealRun(a, 3)]
    assert kernel.goodputs(a, 3) == [9.0]
    assert not kernel.measure({a: 3, b: 2})
    assert kernel.measure({a: 1})


def test_a_kernel_that_varies_more_than_foretold_gets_more_runs(tmp_path: Path) -> None:
    steady, varied = grid.quick()[:2]
    for seed, goodput in enumerate((9.0, 9.1, 9.0, 9.1), start=1):
        finished(tmp_path, RealRun(steady, seed), goodput)
        finished(tmp_path, RealRun(varied, seed), goodput if seed % 2 else 7.5)
    kernel = RealWorld(tmp_path, budget_s=0)
    assert kernel.second_stage({steady: 4, varied: 5})[varied] == 5
    wanted = kernel.second_stage({steady: 4, varied: 4})
    assert wanted[steady] == 4
    # σ/mean is 0.105, and t₀.₉₇₅ · 0.105 / √n comes below 8 % at n = 10.
    assert wanted[varied] == 10


def test_a_disturbed_run_is_no_measurement(tmp_path: Path) -> None:
    cell = grid.quick()[0]
    late = "3 % of the packets left the emulator over 5 ms late: this machine is too busy"
    finished(tmp_path, RealRun(cell, 1), 3.0, notes=(late,))
    finished(tmp_path, RealRun(cell, 2), 9.0, notes=("something else",))
    kernel = RealWorld(tmp_path, budget_s=60, world="sim")
    assert kernel.goodputs(cell, 2) == [9.0]
    assert RealRun(cell, 1).problem(tmp_path) == late
    finished(tmp_path, RealRun(cell, 3), 3.0, fallback=True)
    assert kernel.goodputs(cell, 3) == [9.0]
    assert "fell back" in RealRun(cell, 3).problem(tmp_path)
    assert kernel.measure({cell: 2})
    assert kernel.goodputs(cell, 2) == [simulate(cell, 1)[0], 9.0]


def test_runs_go_through_the_command_and_resume(tmp_path: Path) -> None:
    """In the simulated world, which needs no root; the kernel differs by the name of the world alone."""
    good = grid.quick()[0]
    wrong = grid.Cell(**{**vars(good), "name": "wrong", "controller": "nosuch"})
    kernel = RealWorld(tmp_path, budget_s=60, jobs=2, world="sim")
    assert not kernel.measure({good: 2, wrong: 1})
    assert len(kernel.failures) == 1
    assert "nosuch" in kernel.failures[0]
    first = kernel.goodputs(good, 2)
    assert len(first) == 2
    again = RealWorld(tmp_path, budget_s=0, world="sim")
    assert again.measure({good: 2})
    assert again.goodputs(good, 2) == first == simulate(good, 2)


def test_one_call_at_a_time_in_a_folder(tmp_path: Path) -> None:
    with alone(tmp_path / "out"), pytest.raises(typer.Exit) as refused, alone(tmp_path / "out"):
        pass
    assert refused.value.exit_code == 2
    with alone(tmp_path / "out"):
        pass


def test_gap_is_relative_to_the_kernel() -> None:
    found = judge(ARRAY[0], [9.0, 9.0], [10.0, 10.0])
    assert found.gap == Mean(pytest.approx(-0.1), 0.0, 2, 0.0)
