"""Four places as scenario files: the bandit learns within the run, in the simulator and on the kernel.

The files in ``scenarios/bandit`` were written by ``python -m reproductions.bandit.worlds FOLDER``.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from multipilot.papers.charts import Bars, draw
from multipilot.papers.page import Section, number, table
from multipilot.papers.paper import Experiment, Point
from multipilot.papers.results import KERNEL, SIM, WORLDS, Results, Row
from multipilot.papers.tables import read
from multipilot.report import svg
from multipilot.stats import Mean, mean_of
from reproductions.bandit.places import FEATURES, LEAVING, PATHS, Place, generate
from reproductions.bandit.policies import CHOSEN as BANDIT

#: Names of the files, and which of the generated places they are.
CHOSEN = {"bad-wifi": 8, "mixed": 10, "good-wifi": 5, "leaving": 5}
TITLES = {
    "bad-wifi": "a place where LTE is mostly faster",
    "mixed": "a place where either is",
    "good-wifi": "a place where Wi-Fi is mostly faster",
    "leaving": "a place whose Wi-Fi the user leaves and comes back to",
}
DURATION_S, STEP_S = 120, 4
#: Path manager and choice of the initial path, by the name on the page.
VARIANTS = {
    "fullmesh": ("fullmesh", "first"),
    "bandit": ("fullmesh", BANDIT),
    "single": ("single", "first"),
    "ndiffports": ("ndiffports", "first"),
    "backup": ("backup", "first"),
}

EXPERIMENTS = tuple(Experiment(name) for name in CHOSEN)
POINTS = tuple(Point(name, {}, "reno", initial_paths=("first", BANDIT)) for name in CHOSEN)


def lte_wins(place: Place) -> float:
    """Share of the rounds in which LTE is the faster link."""
    return float(np.mean(place.capacity[:, 1] > place.capacity[:, 0]))


def scenario(name: str, place: Place) -> str:
    """TOML. Conditions and readings change every few seconds."""
    lines = [
        f'title = "Which path to start on, at {TITLES[name]}"',
        f'description = "Generated place {place.name}: LTE is faster {100 * lte_wins(place):.0f} % of the time"',
        f'duration = "{DURATION_S}s"',
        "",
    ]
    for path in PATHS:
        lines += [f"[paths.{path}]", 'rate = "10Mbit"', 'delay = "20ms"', 'queue = "100p"', ""]
    lines += [
        "# One short download after the other.",
        "[[connections]]",
        'bytes = "256kB"',
        'arrivals = "2/s"',
        "count = 1",
        "",
        "[[variants]]",
        'controller = "reno"',
        f'initial_path = ["first", "{BANDIT}"]',
        "",
        "[[variants]]",
        'controller = "reno"',
        'path_manager = ["single", "ndiffports", "backup"]',
        "",
    ]
    for t in range(DURATION_S // STEP_S):
        for index, path in enumerate(PATHS):
            told = {
                feature.removeprefix(f"{path}."): place.context[t, FEATURES.index(feature)]
                for feature in FEATURES
                if feature.startswith(f"{path}.")
            }
            readings = ", ".join(f"{key} = {value:.4g}" for key, value in told.items() if np.isfinite(value))
            lines += [
                "[[events]]",
                f'at = "{t * STEP_S}s"',
                f'path = "{path}"',
                f'rate = "{place.capacity[t, index] * 1000:.0f}kbit"',
                f'delay = "{place.rtt_ms[t, index] * 500:.0f}us"',
                f"loss = {place.loss[t, index]:.5f}",
                f"readings = {{ {readings} }}",
                "",
            ]
    return "\n".join(lines)


def write(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, place in CHOSEN.items():
        places = generate(DURATION_S // STEP_S, seed=3, leaving=LEAVING if name == "leaving" else 0.0)
        (folder / f"{name}.toml").write_text(scenario(name, places[place]), encoding="utf-8")


def _rows(results: Results, world: str, name: str, variant: str) -> list[Row]:
    manager, initial = VARIANTS[variant]
    return results.select(world, name, path_manager=manager, initial_path=initial)


def _late_share(results: Results, world: str, name: str, arm: str) -> Mean:
    """Of the connections of the last third, the share that the bandit started on this path."""
    shares = []
    for row in _rows(results, world, name, "bandit"):
        if (chosen := read(row, "decisions")) is not None:
            late = chosen["time_s"].to_numpy() >= DURATION_S * 2 / 3
            shares.append(float(np.mean(np.array(chosen["arm"].to_pylist())[late] == arm)))
    return mean_of(shares)


def completion_ms(results: Results, world: str, name: str, variant: str) -> Mean:
    rows = _rows(results, world, name, variant)
    return mean_of(1e3 * float(row["completion_s"]) for row in rows if row["completion_s"])


def show(results: Results) -> Section:
    panels = []
    rows = []
    for name in CHOSEN:
        sim, kernel = ([completion_ms(results, w, name, m) for m in VARIANTS] for w in (SIM, KERNEL))
        colours = [svg.PATHS[1] if m == "bandit" else svg.BAR for m in VARIANTS]
        panels.append(Bars(name, tuple(VARIANTS), sim, colours, kernel=kernel, digits=0))
        for world in (SIM, KERNEL):
            stock, bandit = (completion_ms(results, world, name, m) for m in ("fullmesh", "bandit"))
            share = _late_share(results, world, name, "lte")
            if stock.n and bandit.n:
                cells = [number(stock, 0), number(bandit, 0), f"{100 * (bandit.mean / stock.mean - 1):+.0f} %"]
                cells += [f"{100 * share.mean:.0f} %" if share.n else "", f"{bandit.n}"]
                rows.append([f"{name}, {WORLDS[world]}", *cells])
    head = ["256 kB downloads", "fullmesh, ms", "bandit, ms", "change", "started on LTE, last third", "runs"]
    lead = [
        "Four places as scenario files, the same for both worlds: short downloads one after the other for two minutes, "
        "while links and radio readings change every four seconds. The bandit starts with nothing and learns within "
        "the run, so that its mean holds its mistakes too. Bars: mean completion time in ms, simulator; squares: "
        "kernel."
    ]
    if not rows:
        return Section("Four places in both worlds", [*lead, "Not measured yet."], [])
    picture = draw(panels, "Completion time by path manager, and with the bandit's initial path", 3.4)
    return Section("Four places in both worlds", lead, [picture, table(head, rows)])


if __name__ == "__main__":
    write(Path(sys.argv[1]))
