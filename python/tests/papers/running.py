"""What tests of several papers do: run one of a paper's experiments, and read a page."""

import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from multipilot import console
from multipilot.papers.folder import NAMES, load
from multipilot.papers.paper import Experiment, Paper
from multipilot.papers.publish import publish
from multipilot.papers.results import SIM, Results
from multipilot.papers.runs import Runner, find_scenarios

PAPERS = {name: load(name) for name in NAMES}


def named(document: dict[str, Any], prefix: str = "") -> dict[str, dict[str, Any]]:
    """The document's values of the simulator by name."""
    return {v["name"]: v for v in document["values"] if v["world"] == SIM and v["name"].startswith(prefix)}


def simulated(paper: str, out: Path, *experiments: Experiment, seeds: int = 1) -> Results:
    results = Results()
    runner = Runner(paper, out, find_scenarios(paper), console.command(), seeds)
    for experiment in experiments:
        runner.simulate(experiment, results)
    return results


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


def stands(paper: Paper, found: Results) -> str:
    """The paper's page, after a look at its HTML."""
    html = publish(paper, found, [item.name for item in paper.items]).html
    parser = Wellformed()
    parser.feed(html)
    assert (parser.faults, parser.open) == ([], [])
    assert "nan" not in re.sub(r"<svg.*?</svg>", "", html, flags=re.DOTALL).lower()
    return html
