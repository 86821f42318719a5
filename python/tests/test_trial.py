"""The page of ``multipilot try``."""

import json
from pathlib import Path
from typing import Any

import pytest
from test_report import check
from typer.testing import CliRunner

from multipilot.report import trial
from multipilot.report.cli import app


def document() -> dict[str, Any]:
    def had(steps: list[int], answers: list[float | None], pages: list[float | None]) -> dict[str, Any]:
        return {
            "download": {"bytes": sum(steps), "steps": steps, "pause_s": 0.5, "intact": True, "broke": None},
            "call": {"round_trips_ms": answers},
            "pages": [{"at_s": 0.5 * n, "took_s": took} for n, took in enumerate(pages)],
            "notes": [],
        }

    return {
        "kind": "try",
        "title": "Leaving the Wi-Fi",
        "description": "Wi-Fi & LTE.",
        "duration_s": 1.0,
        "step_s": 0.25,
        "capacity_mbps": 60.0,
        "marks": [{"at_s": 0.5, "what": "wifi is gone"}],
        "trials": [
            {"way": "direct", "experience": had([1_250_000, 0, 0, 0], [20.0] * 25 + [None] * 25, [0.1, None])},
            {"way": "relay", "experience": had([1_250_000, 1_250_000, 625_000, 0], [20.0] * 50, [0.1, 0.3])},
        ],
    }


def test_the_page_has_the_figures_of_each_way(tmp_path: Path) -> None:
    (tmp_path / trial.FILE).write_text(json.dumps(document()))
    done = CliRunner().invoke(app, [str(tmp_path)])
    assert done.exit_code == 0, done.output
    page = (tmp_path / "report.html").read_text()
    check(page)
    cells = "<td>direct</td><td>1.2</td><td>0.50</td><td>50.0</td><td>20</td><td>1 of 2</td><td>100</td>"
    assert cells in page
    assert "relay: 3.1 MB, 0.0 % of the call lost, 0 of 2 pages failed" in page
    assert "Wi-Fi &amp; LTE." in page
    assert "wifi is gone" in page


def test_times_of_losses() -> None:
    direct, relay = trial.trials(document())
    assert direct.mbps.tolist() == [40.0, 0.0, 0.0, 0.0]
    assert direct.lost_s[0] == 0.5
    assert len(direct.lost_s) == 25
    assert (direct.failed_s, relay.failed_s, relay.lost_s) == ([0.5], [], [])


@pytest.mark.parametrize("text", ["{", "[]", '{"trials": [{}]}'])
def test_another_file_is_refused_in_one_line(tmp_path: Path, text: str) -> None:
    (tmp_path / trial.FILE).write_text(text)
    done = CliRunner().invoke(app, [str(tmp_path)])
    assert done.exit_code in (1, 2)
    assert "not a record of multipilot try" in done.output
    assert done.output.count("\n") == 1
