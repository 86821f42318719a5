"""What the paper leaves open: a shared bottleneck, capacity that varies, short flows, unseen paths."""

from __future__ import annotations

from functools import partial
from typing import Any

from multipilot.papers.charts import bars_of, draw
from multipilot.papers.ddpg.plan import (
    COLOURS,
    CONTROLLERS,
    NAMES,
    RIVAL_KEY,
    RIVAL_NAMES,
    SHARED,
    SHORT,
    SIZE_KEY,
    UNSEEN,
    VARYING,
)
from multipilot.papers.ddpg.sections import broken, label, say
from multipilot.papers.page import Section, number, table
from multipilot.papers.results import KERNEL, SIM, Results, Row
from multipilot.papers.tables import round_trip
from multipilot.stats import Mean

TCP_RIVALS = ("reno", "cubic", "bbr")
SIZES = (("100kB", "100 kB"), ("1MB", "1 MB"), ("5MB", "5 MB"))
CASES = {
    "within": "100 Mbit/s, 40 ms, 400 packets",
    "slow": "2 Mbit/s each",
    "fast": "500 Mbit/s each",
    "far": "300 ms a round trip",
    "shallow": "queues of 0.05 bdp",
    "lossy": "8 % loss",
    "unlike": "100 and 5 Mbit/s, 20 and 200 ms",
}


def share(results: Results, rival: str, controller: str, world: str = SIM) -> Mean:
    """Goodput of the connection over that of the one TCP flow beside it."""

    def read(found: Row) -> float | None:
        theirs = found.get("competing_mbps")
        return float(found["goodput_mbps"]) / float(theirs) if theirs else None

    return results.mean(world, SHARED, controller, read, {RIVAL_KEY: rival})


def show_shared(results: Results) -> Section:
    panels = [
        bars_of(
            f"Share against one {RIVAL_NAMES[rival]} flow",
            CONTROLLERS,
            partial(share, results, rival),
            broken,
            COLOURS,
        )
        for rival in ("reno", "bbr")
    ]
    lines = []
    for controller in CONTROLLERS:
        here = [share(results, rival, controller) for rival in TCP_RIVALS]
        kernel = [share(results, rival, controller, KERNEL) for rival in TCP_RIVALS]
        if any(m.n for m in here):
            lines.append([label(controller), *(number(m) for m in here), *(number(m) for m in kernel)])

    def at(controller: str, rival: str) -> str:
        return say(share(results, rival, controller), 2)

    return Section(
        "bottleneck",
        "A shared bottleneck: share against one TCP, and against one BBR",
        [
            "Both subflows and one single-path flow through one link of 100 Mbit/s; 1 is an equal share, and RFC "
            f"6356 asks for no more. Against Reno MPCC has {at('mpcc', 'reno')}, DDPG-MPCC {at('ddpg-mpcc', 'reno')}, "
            f"LIA {at('lia', 'reno')}, BBR {at('bbr', 'reno')}; against BBR {at('mpcc', 'bbr')}, "
            f"{at('ddpg-mpcc', 'bbr')}, {at('lia', 'bbr')} and {at('bbr', 'bbr')}.",
        ],
        [
            draw(panels, "Goodput over that of one TCP flow at a shared bottleneck", height=3.6),
            table(
                ["goodput / that of the flow", *(f"one {RIVAL_NAMES[r]}" for r in TCP_RIVALS)]
                + [f"kernel: {RIVAL_NAMES[r]}" for r in TCP_RIVALS],
                lines,
            ),
        ],
        ["100 Mbit/s, 40 ms, a queue of 400 packets, 60 s."],
    )


def show_varying(results: Results) -> Section:
    lines = []
    keys = list(dict.fromkeys(key for world, key in results.folders if world == SIM and key.startswith(VARYING)))
    for controller in CONTROLLERS:
        here = [results.mean(SIM, VARYING, controller, m) for m in ("goodput_mbps", round_trip)]
        kernel = [results.mean(KERNEL, VARYING, controller, m) for m in ("goodput_mbps", round_trip)]
        traces = [results.mean(SIM, key, controller, "goodput_mbps") for key in keys if key != VARYING]
        if here[0].n:
            lines.append([label(controller), *(number(m, 1) for m in (*here, *kernel, *traces))])

    def at(controller: str, measure: Any = "goodput_mbps") -> str:
        return say(results.mean(SIM, VARYING, controller, measure))

    head = ["", "goodput,<br>Mbit/s", "round trip,<br>ms", "kernel:<br>goodput", "kernel:<br>round trip"]
    head += [f"goodput,<br>{key.removeprefix(VARYING).strip()}" for key in keys if key != VARYING]
    return Section(
        "capacity",
        "Capacity that varies",
        [
            "Each path has a new rate of 10 to 100 Mbit/s every second or two. The paper names capacities that vary "
            f"as what remains to be done. MPCC has {at('mpcc')} Mbit/s at a mean round trip of "
            f"{at('mpcc', round_trip)} ms, DDPG-MPCC {at('ddpg-mpcc')} at {at('ddpg-mpcc', round_trip)}, LIA "
            f"{at('lia')} at {at('lia', round_trip)}, BBR {at('bbr')} at {at('bbr', round_trip)}."
        ],
        [table(head, lines)],
        [
            "Two traces of steps, drawn once (scenarios/ddpg/varying-*.csv); 40 ms, 400 packets, 60 s. --traces "
            "FOLDER puts recorded Mahimahi traces in place of the second path."
        ],
    )


def show_short(results: Results) -> Section:
    lines = []
    for controller in CONTROLLERS:
        cells = [
            results.mean(SIM, SHORT, controller, m, {SIZE_KEY: size})
            for size, _ in SIZES
            for m in ("completion_median_s", "completion_p95_s")
        ]
        kernel = results.mean(KERNEL, SHORT, controller, "completion_median_s", {SIZE_KEY: "1MB"})
        if any(m.n for m in cells):
            lines.append([label(controller), *(number(m) for m in cells), number(kernel)])

    def at(controller: str, size: str) -> str:
        return say(results.mean(SIM, SHORT, controller, "completion_median_s", {SIZE_KEY: size}), 2)

    return Section(
        "short",
        "Short flows",
        [
            "Downloads that arrive at random, two a second. The paper names the completion of short flows as a "
            f"weakness. The median of 1 MB is {at('mpcc', '1MB')} s for MPCC, {at('ddpg-mpcc', '1MB')} s for "
            f"DDPG-MPCC, {at('lia', '1MB')} s for LIA and {at('bbr', '1MB')} s for BBR. MPCC begins at 4 Mbit/s a "
            "subflow and doubles once an interval."
        ],
        [
            table(
                [
                    "seconds",
                    *(f"{words},<br>{what}" for _, words in SIZES for what in ("median", "95th")),
                    "kernel: 1 MB,<br>median",
                ],
                lines,
            )
        ],
        ["100 Mbit/s, 40 ms and 400 packets a path."],
    )


def show_unseen(results: Results) -> Section:
    names = ("mpcc", "ddpg-mpcc", "lia", "bbr")
    lines = []
    for case, words in CASES.items():
        found = [results.mean(SIM, UNSEEN, c, "goodput_mbps", {"case": case}) for c in names]
        if any(m.n for m in found):
            lines.append([words, *(number(m, 1) for m in found)])
    return Section(
        "unseen",
        "Paths that training never saw: goodput",
        [
            "multipilot train draws 5 to 100 Mbit/s, 15 to 100 ms, queues of 0.3 to 3 bandwidth-delay products and up "
            "to 5 % loss. Beyond that an actor has only its safety left: slow start, the brake at 30 % loss, a floor, "
            "and at most a tenth a step. What it is trained for is MPCC's utility, which also pays for short queues; "
            "the next section has that.",
        ],
        [table(["goodput alone, Mbit/s", *(NAMES[c].split(",")[0] for c in names)], lines)],
        ["One connection alone on two such paths, 60 s."],
    )
