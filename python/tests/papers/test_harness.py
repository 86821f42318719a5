"""What every paper stands on: rows and their means, budgets, the page."""

import math
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from multipilot.papers import page
from multipilot.papers.paper import Paper, Point
from multipilot.papers.results import KERNEL, SIM, Results, ratio, variant_of
from multipilot.papers.rsf import PAPER
from multipilot.papers.runs import Budget, find_scenarios
from multipilot.stats import mean_of


def row(controller: str, seed: int, goodput: float, path_manager: str = "fullmesh", **cell: str) -> dict[str, object]:
    return {
        "variant": controller,
        "controller": controller,
        "path_manager": path_manager,
        "scheduler": "default",
        "seed": seed,
        "goodput_mbps": goodput,
        "cell": cell,
    }


def results(*rows: dict[str, object]) -> Results:
    found = Results()
    found.add(SIM, "a", {"rows": list(rows)})
    return found


def test_one_subflow_of_reno_is_tcp() -> None:
    assert variant_of(row("reno", 1, 1.0, "single")) == "tcp"
    assert variant_of(row("reno", 1, 1.0)) == "reno"
    assert variant_of(row("bbr", 1, 1.0, "single")) == "bbr"


def test_means_are_over_the_seeds_of_one_cell() -> None:
    found = results(
        row("lia", 1, 1.0, queue="1bdp"), row("lia", 2, 3.0, queue="1bdp"), row("lia", 1, 9.0, queue="1000p"),
        row("reno", 1, 7.0, queue="1bdp"),
    )  # fmt: skip
    mean = found.mean(SIM, "a", "lia", "goodput_mbps", {"queue": "1bdp"})
    assert (mean.mean, mean.n) == (2.0, 2)
    assert found.mean(SIM, "a", "lia", "goodput_mbps").n == 3
    assert found.mean(KERNEL, "a", "lia", "goodput_mbps").n == 0
    assert found.mean(SIM, "a", "lia", "no_such_column").n == 0


def test_a_ratio_carries_both_intervals() -> None:
    a, b = mean_of([2.0, 2.2, 1.8]), mean_of([1.0, 1.1, 0.9])
    found = ratio(a, b)
    assert found.mean == pytest.approx(2.0)
    assert found.half == pytest.approx(2.0 * math.sqrt(2) * a.half / a.mean)
    assert math.isnan(ratio(a, mean_of([])).mean)


def test_a_budget_starts_nothing_that_would_outlast_it() -> None:
    now = [0.0]
    budget = Budget(100, lambda: now[0])
    assert budget.allows(100)
    now[0] = 60
    assert budget.allows(40)
    assert not budget.allows(41)


def test_missing_scenarios_are_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="--scenarios"):
        find_scenarios("rsf", tmp_path / "nowhere")


@pytest.fixture(scope="module")
def scenarios() -> Path:
    return find_scenarios("rsf")


def test_every_scenario_of_the_paper_is_there_and_used(scenarios: Path) -> None:
    named = {e.scenario for e in PAPER.experiments}
    assert named == {file.stem for file in scenarios.glob("*.toml")}
    for item in PAPER.items:
        assert set(item.scenarios) <= named
    assert {s for item in PAPER.items for s in item.scenarios} == named


def test_about_thirty_points_for_the_kernel_each_once() -> None:
    names = [point.name for point in PAPER.points]
    assert len(set(names)) == len(names)
    assert 25 <= len(names) <= 35
    assert all(isinstance(p, Point) for p in PAPER.points)


class Wellformed(HTMLParser):
    VOID = frozenset({"meta", "br", "path", "use", "line", "img", "hr"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.faults: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in self.VOID:
            self.open.append(tag)
        for name, value in attrs:
            if name in ("src", "href", "xlink:href") and value and not value.startswith("#"):
                self.faults.append(f"{tag} refers to {value}")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        if tag in self.VOID:
            return
        if not self.open or self.open.pop() != tag:
            self.faults.append(f"</{tag}> closes nothing")


def render(paper: Paper, found: Results) -> str:
    return page.render(
        paper.name, paper.title, paper.source, paper.summary(found), "facts", [i.show(found) for i in paper.items]
    )


def test_the_page_stands_without_any_measurement() -> None:
    html = render(PAPER, Results())
    parser = Wellformed()
    parser.feed(html)
    assert parser.faults == []
    assert parser.open == []
    assert "nan" not in re.sub(r"<svg.*?</svg>", "", html, flags=re.DOTALL).lower()
    assert all(f'id="{item.name}"' in html for item in PAPER.items)
    for item in PAPER.items:
        assert f"multipilot paper rsf --only {item.name}" in html
