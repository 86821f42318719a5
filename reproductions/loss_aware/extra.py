"""What awareness costs by the size of a file, and the set on recorded traces."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from multipilot.papers.charts import NAMES, short
from multipilot.papers.page import Section, number, table
from multipilot.papers.results import SIM, Results
from multipilot.stats import Mean, mean_of
from reproductions.loss_aware.benefit import Benefit, benefits
from reproductions.loss_aware.dynamic import variant
from reproductions.loss_aware.plan import BEFORE, CONTROLLERS, LA, SIZES, known
from reproductions.loss_aware.verdict import HEAD, KINDS, totals

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
    head = ["", "file", "better path<br>alone, s", "stock, s", "loss-aware,<br>cold start, s", "warm<br>start, s"]
    return Section(
        "Files of 100 kB to 50 MB: before anything can be known, and after",
        [
            "50 + 50 Mbit/s, 1 % of loss on the Wi-Fi, on which every connection begins. Awareness needs five "
            f"loss events to judge a path. Warm start: a transfer of {BEFORE} s has gone over them before.",
        ],
        [table(head, lines, names=2)],
        ["Time from opening the connection to the last byte, simulator, mean over the seeds."],
    )


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
        "Beside a recorded LTE",
        [
            "20 Mbit/s of Wi-Fi with 0 to 5 % of loss beside an LTE link whose rate follows a recorded trace; a "
            "download of 60 s, all over the same part of the trace."
            + ("" if named else " Not measured: name a folder of Mahimahi traces by --traces."),
        ],
        [
            table(HEAD, lines, names=2, style="wide"),
            table(_DETAIL, details, names=3, style="wide"),
        ],
        ["Traces: " + ", ".join(name.removeprefix("9-trace ") for name in named) + "; simulator."] if named else [],
    )


_DETAIL = (
    "trace |  | loss on<br>the Wi-Fi | better path<br>alone, Mbit/s | stock | cold<br>start | warm<br>start | "
    "benefit,<br>stock | cold<br>start | warm<br>start"
)


def _detail(trace: str, stock: Benefit, kinds: Sequence[Benefit | None]) -> list[str]:
    return [
        escape(trace),
        short(stock.controller),
        stock.at("paths.wifi.loss") or "",
        f"{stock.best_single:.1f}",
        *(number(b.goodput, 1) if b else "–" for b in kinds),
        *(f"{b.mean.mean:+.2f}" if b else "–" for b in kinds),
    ]
