"""The page of ``multipilot try``: what a download, a call and pages had, by what carried them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from html import escape
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from multipilot.record import RecordError
from multipilot.report import page, svg

FILE = "try.json"
# Seconds between packets of the call.
CALL_EVERY_S = 0.02


@dataclass(frozen=True)
class Trial:
    """One way: series over time, and the figures of the table."""

    way: str
    mbps: np.ndarray[Any, np.dtype[np.float64]]
    megabytes: float
    pause_s: float
    round_trips_ms: list[float | None]
    pages: list[tuple[float, float | None]]

    @property
    def lost_s(self) -> list[float]:
        """When packets of the call were sent that nothing answered."""
        return [number * CALL_EVERY_S for number, took in enumerate(self.round_trips_ms) if took is None]

    @property
    def failed_s(self) -> list[float]:
        return [at for at, took in self.pages if took is None]

    @property
    def cells(self) -> list[str]:
        answered = [took for took in self.round_trips_ms if took is not None]
        took = [took for _, took in self.pages if took is not None]
        return [
            f"{self.megabytes:.1f}",
            f"{self.pause_s:.2f}",
            f"{100 * len(self.lost_s) / max(1, len(self.round_trips_ms)):.1f}",
            f"{np.quantile(answered, 0.99):.0f}" if answered else "–",
            f"{len(self.failed_s)} of {len(self.pages)}",
            f"{1000 * median(took):.0f}" if took else "–",
        ]


COLUMNS = (
    ("Download", "MB"),
    ("Longest pause", "s"),
    ("Call", "% lost"),
    ("99 % answered in", "ms"),
    ("Pages", "failed"),
    ("Median", "ms"),
)


def load(file: Path) -> dict[str, Any]:
    """The document that ``multipilot try`` wrote."""
    try:
        document = json.loads(file.read_text(encoding="utf-8"))
        trials(document)
    except (ValueError, KeyError, TypeError) as error:
        raise RecordError(f"{file}: not a record of multipilot try ({error}); run it again") from error
    return dict(document)


def trials(document: dict[str, Any]) -> list[Trial]:
    found = []
    for entry in document["trials"]:
        had = entry["experience"]
        steps = np.asarray(had["download"]["steps"], dtype=np.float64)
        found.append(
            Trial(
                way=str(entry["way"]),
                mbps=steps * 8e-6 / float(document["step_s"]),
                megabytes=had["download"]["bytes"] / 1e6,
                pause_s=had["download"]["pause_s"],
                round_trips_ms=had["call"]["round_trips_ms"],
                pages=[(p["at_s"], p["took_s"]) for p in had["pages"]],
            )
        )
    return found


def figure(document: dict[str, Any]) -> Figure:
    """The download's rate of each way over time; below it what the call and the pages lost."""
    found = trials(document)
    # What came late and then all at once may exceed it.
    top = 1.15 * float(document["capacity_mbps"])
    with svg.style():
        drawn = svg.Picture(figsize=(8.6, 0.7 + 1.25 * len(found)), layout="constrained")
        rows = drawn.subplots(len(found), 1, sharex=True, squeeze=False)[:, 0]
        for axes, trial in zip(rows, found, strict=True):
            _row(axes, trial, document, top)
        for mark in document["marks"]:
            rows[0].text(mark["at_s"] + 0.06, top, mark["what"], color=svg.MUTED, fontsize=8.5, va="bottom")
        rows[-1].set_xlabel("s")
        return drawn


def _row(axes: Axes, trial: Trial, document: dict[str, Any], top: float) -> None:
    best = trial.way == "relay"
    edges = np.arange(len(trial.mbps) + 1) * float(document["step_s"])
    axes.stairs(trial.mbps, edges, fill=True, color=svg.ACCENT if best else svg.BAR)
    for mark in document["marks"]:
        axes.axvline(mark["at_s"], color=svg.MUTED, linewidth=0.8, linestyle=(0, (3, 3)))
    # Two lanes below the axis, each a sixth of the height.
    for lane, (name, times, width) in enumerate(
        (("call", trial.lost_s, CALL_EVERY_S), ("pages", trial.failed_s, 0.25)), start=1
    ):
        low = -top * lane / 5
        axes.broken_barh([(at, width) for at in times], (low, top / 6), color=svg.PATHS[4], linewidth=0)
        axes.text(-0.1, low + top / 12, name, ha="right", va="center", color=svg.MUTED, fontsize=7.5)
    axes.axhline(0, color=svg.MUTED, linewidth=0.7)
    axes.set_ylim(-top * 0.42, top)
    axes.grid(axis="x", visible=False)
    axes.set_xlim(0, float(document["duration_s"]))
    axes.set_yticks([float(document["capacity_mbps"])])
    axes.tick_params(axis="x", length=0)
    axes.set_ylabel(trial.way, rotation=0, ha="right", va="center", color=svg.INK, fontsize=9.5, labelpad=24)
    axes.yaxis.label.set_fontweight("bold" if best else "normal")


def label(document: dict[str, Any]) -> str:
    """The figure in words."""
    return "; ".join(
        f"{t.way}: {t.megabytes:.1f} MB, {t.cells[2]} % of the call lost, {t.cells[4]} pages failed"
        for t in trials(document)
    )


def render(document: dict[str, Any]) -> str:
    """The page as one self-contained HTML document."""
    found = trials(document)
    head = "<th>Way</th>" + "".join(f"<th>{name}<br>{unit}</th>" for name, unit in COLUMNS)
    rows = "".join(f"<tr><td>{escape(t.way)}</td>{''.join(f'<td>{cell}</td>' for cell in t.cells)}</tr>" for t in found)
    body = [
        "<header>",
        '<p class="over"><span class="pill">Linux kernel, emulated paths</span>one run of each</p>',
        f"<h1>{escape(str(document['title']))}</h1>",
        f'<p class="muted">{escape(str(document["description"]))} A download, a call and a page every half second.</p>',
        "</header>",
        "<h2>In figures</h2>",
        f'<div class="card scroll"><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>',
        "<h2>Over time</h2>",
        '<p class="note">Goodput of the download, Mbit/s. Below each: packets of the call that nothing answered, '
        "and pages that failed or took longer than 3 s.</p>",
        f'<div class="card scroll">{svg.inline(figure(document), label(document))}</div>',
        f'<p class="note">{escape(WAYS)}</p>',
    ]
    return page.document(str(document["title"]), body)


WAYS = (
    "direct: TCP and UDP by the routing table, as without multipilot. lte: over the LTE alone. "
    "mptcp: connections over the kernel's MPTCP to a server that speaks it; UDP is as direct. "
    "relay: all TCP and UDP over both links to a "
    "relay; the server speaks plain TCP."
)


def write(folder: Path, out: Path) -> Path:
    """Write the page of ``folder`` to ``out`` and return its path."""
    text = render(load(folder / FILE))
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(text, encoding="utf-8")
    return out
