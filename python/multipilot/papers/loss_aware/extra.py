"""What awareness costs by the size of a file, the set on recorded traces, and why BALIA stays behind."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

from multipilot.papers.charts import NAMES
from multipilot.papers.loss_aware.benefit import Benefit, benefits, of
from multipilot.papers.loss_aware.dynamic import number, variant
from multipilot.papers.loss_aware.pictures import row
from multipilot.papers.loss_aware.plan import BEFORE, CONTROLLERS, LA, LOSSES, SIZES, V_WIFI, WIFI, known
from multipilot.papers.loss_aware.verdict import HEAD, KINDS, totals
from multipilot.papers.page import Section, table
from multipilot.papers.results import SIM, Results
from multipilot.stats import Mean, mean_of

FILES = ("100kB", "1MB", "5MB", "20MB", "50MB")
_SIZE = "connections.0.bytes"


def completion(results: Results, controller: str, size: str, manager: str, scenario: str = SIZES.key) -> Mean:
    return results.mean(SIM, scenario, variant(controller, manager), "completion_s", {_SIZE: size})


def best_alone(results: Results, controller: str, size: str) -> Mean:
    alone = [
        results.mean(SIM, SIZES.key, f"{controller} on {p}", "completion_s", {_SIZE: size}) for p in ("wifi", "lte")
    ]
    return min((m for m in alone if m.n), key=lambda m: m.mean, default=mean_of([]))


def show_sizes(results: Results) -> Section:
    lines = []
    for controller in CONTROLLERS:
        for size in FILES:
            means = [
                best_alone(results, controller, size),
                *(completion(results, controller, size, m) for m in ("fullmesh", LA)),
                completion(results, controller, size, LA, known(SIZES.key)),
            ]
            if means[1].n:
                lines.append([NAMES[controller], size, *(number(m, 2) for m in means)])
    head = ["", "file", "better path<br>alone, s", "stock, s", "loss-aware,<br>first transfer, s", "paths<br>known, s"]
    return Section(
        "sizes",
        "Files of 100 kB to 50 MB: before anything can be known, and after",
        [
            "50 + 50 Mbit/s, 1 % of loss on the Wi-Fi, on which every connection begins. Awareness needs five "
            "loss events to speak of a path; a small file has ended by then, and fares as without it. "
            f"Where a transfer of {BEFORE} s has gone over the paths before, it need not find out.",
        ],
        [table(head, lines, names=2)] if lines else [],
        ["Time from opening the connection to the last byte, simulator, mean over the seeds."],
    )


def size_rows(results: Results) -> list[dict[str, Any]]:
    return [row(b) for b in benefits(results, SIM, SIZES.key)]


def traces(results: Results) -> list[str]:
    """Names under which results hold the set on traces."""
    names = {s for w, s in results.folders if w == SIM and s.startswith("9-trace ")}
    return sorted(names - {known(name) for name in names})


def show_traces(results: Results) -> Section:
    named = traces(results)
    details = []
    found = {name: benefits(results, SIM, name) for name in named}
    for name, cells in found.items():
        kinds = [{(b.controller, b.cell): b for c in CONTROLLERS for b in kind.of(cells, c)} for kind in KINDS]
        for key, stock in kinds[0].items():
            details.append(_detail(name.removeprefix("9-trace "), stock, [kind.get(key) for kind in kinds]))
    lines = totals(found)
    return Section(
        "traces",
        "Beside a recorded LTE",
        [
            "20 Mbit/s of Wi-Fi with 0 to 5 % of loss beside an LTE link whose rate follows a recorded trace; a "
            "download of 60 s, all over the same part of the trace."
            + ("" if named else " Not measured: name a folder of Mahimahi traces by --traces."),
        ],
        [
            *([table(HEAD, lines, names=2, style="wide")] if lines else []),
            *([table(_DETAIL, details, names=3, style="wide")] if details else []),
        ],
        ["Traces: " + ", ".join(name.removeprefix("9-trace ") for name in named) + "; simulator."] if named else [],
    )


_DETAIL = [
    "trace",
    "",
    "loss on<br>the Wi-Fi",
    "better path<br>alone, Mbit/s",
    "stock",
    "first<br>transfer",
    "paths<br>known",
    "benefit,<br>stock",
    "first<br>transfer",
    "paths<br>known",
]


def _detail(trace: str, stock: Benefit, kinds: Sequence[Benefit | None]) -> list[str]:
    return [
        escape(trace),
        NAMES[stock.controller].split(",")[0],
        stock.at("paths.wifi.loss") or "",
        f"{stock.best_single:.1f}",
        *(number(b.goodput) if b else "–" for b in kinds),
        *(f"{b.mean.mean:+.2f}" if b else "–" for b in kinds),
    ]


def trace_rows(results: Results) -> list[dict[str, Any]]:
    return [row(b) for name in traces(results) for b in benefits(results, SIM, name)]


def _mean_at(results: Results, scenario: str, loss: float, aware: bool) -> float:
    cells = [
        b
        for b in of(benefits(results, SIM, scenario), "balia", aware)
        if abs(float(b.at("paths.wifi.loss") or "nan") - loss) < 1e-9
    ]
    return mean_of(b.mean.mean for b in cells).mean


def show_balia(results: Results) -> Section:
    lines = []
    for loss in LOSSES:
        values = [_mean_at(results, s, loss, a) for s in (WIFI, V_WIFI) for a in (False, True)]
        if values[0] == values[0] or values[2] == values[2]:
            lines.append([f"{100 * loss:g} %", *("–" if v != v else f"{v:+.2f}" for v in values)])
    head = [
        "loss on<br>the Wi-Fi",
        "fixed buffers,<br>stock",
        "fixed,<br>aware",
        "tuned buffers,<br>stock",
        "tuned,<br>aware",
    ]
    return Section(
        "balia",
        "Why BALIA stays behind",
        list(BALIA),
        [table(head, lines)] if lines else [],
        ["Mean benefit over the 25 pairs of rates, simulator, BALIA."],
    )


#: From the windows of single runs, both worlds: 50 + 50 Mbit/s, 1 % of loss on the Wi-Fi.
BALIA = (
    "Two things, and only one of them is BALIA's. The first is the send queue. While the Wi-Fi is in slow start "
    "the stock scheduler sees a fast path and gives it data by the megabyte; after the first losses BALIA's "
    "window there falls to two to five packets, and what was handed over leaves at 2 to 4 Mbit/s. The stream "
    "waits for it, the receive window closes, and the clean LTE stands still in the middle of its slow start. "
    "Sparing the Wi-Fi then comes too late, for a backup subflow still has to deliver what it holds; and while the "
    "LTE stands still, nobody has seen what it could carry, so that awareness may even spare the wrong path. With "
    "buffers that grow as they are used, less is handed over.",
    "The second is the coupling. BALIA lets the LTE grow by x/(Σx)² of what all paths carry and cut a window by "
    "up to three quarters where another path is faster. A window lost before the loss elsewhere is proven comes "
    "back by less than a packet a round trip of 90 ms: some 300 packets need half a minute. No choice of paths "
    "gives it back sooner, so awareness does nothing about it; Reno, CUBIC and BBR on each path do not have it.",
)
