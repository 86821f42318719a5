"""Loss that comes and goes, a path that dies and returns, a walk out of the Wi-Fi: figures 5 and 6, and beyond."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

from multipilot.papers.charts import NAMES, Curve, Panel, draw, short
from multipilot.papers.page import Section, lines, number, table
from multipilot.papers.results import KERNEL, SIM, WORLDS, Results
from multipilot.papers.spread import Boxes
from multipilot.papers.spread import Series as BoxSeries
from multipilot.report import svg
from multipilot.stats import Mean, mean_of
from reproductions.loss_aware.pictures import KINDS, MA_COLOUR
from reproductions.loss_aware.plan import CONTROLLERS, LA, MA
from reproductions.loss_aware.series import changes_per_minute, in_order, paths_of, recovery, runs_of, time_to_use

DYNAMIC, FAILURE, HANDOVER, THRESHOLD, DEAD = (
    "5-dynamic-loss",
    "6-path-failure",
    "7-handover",
    "6-threshold",
    "6-dead-primary",
)
MANAGERS = {**KINDS, MA: ("signal-aware", MA_COLOUR)}
#: Beyond the paper its rule is not run.
OURS = ("fullmesh", LA, MA)
WIFI_COLOUR, LTE_COLOUR = svg.PATHS[5], svg.PATHS[3]


def variant(controller: str, manager: str) -> str:
    return controller if manager == "fullmesh" else f"{controller} {manager}"


def goodputs(results: Results, world: str, scenario: str, controller: str, manager: str) -> list[float]:
    rows = runs_of(results, world, scenario, variant(controller, manager))
    return [float(row["goodput_mbps"]) for row in rows]


def _boxes(results: Results, scenario: str, title: str, managers: Sequence[str]) -> Boxes:
    def of(world: str, manager: str) -> list[list[float]]:
        return [goodputs(results, world, scenario, c, manager) for c in CONTROLLERS]

    series = [BoxSeries(*MANAGERS[m], of(SIM, m), of(KERNEL, m)) for m in managers]
    return Boxes(title, [*map(short, CONTROLLERS)], series, "", "Mbit/s", from_zero=True)


def _table(results: Results, scenario: str, managers: Sequence[str]) -> str:
    def mean(world: str, manager: str, controller: str) -> Mean:
        return mean_of(goodputs(results, world, scenario, controller, manager))

    body = [
        [who, name, *cells]
        for world, name in WORLDS.items()
        for who, *cells in lines(
            CONTROLLERS, *(partial(mean, world, m) for m in managers), label=NAMES.__getitem__, digits=1
        )
    ]
    return table(["", "world", *(f"{MANAGERS[m][0]},<br>Mbit/s" for m in managers)], body, names=2)


def show_average(results: Results) -> Section:
    return Section(
        "Figure 5: average throughput where loss comes and goes",
        [
            "90 s at 50 + 50 Mbit/s; the Wi-Fi loses 5 % from 30 s to 60 s. In the paper the stock connection "
            "mostly stays below 50 Mbit/s, one path's rate, and MPTCP-LA above it.",
            "Signal awareness (MPTCP-MA), for comparison, is told of the loss by a signal that falls at the same "
            "moment to −80 dBm, and of its end: it need not find out.",
        ],
        [
            draw(
                [_boxes(results, DYNAMIC, "Average over 90 s, one value a seed", tuple(MANAGERS))],
                "Box plots of average throughput by controller and path manager",
                height=3.8,
            ),
            _table(results, DYNAMIC, tuple(MANAGERS)),
        ],
        ["BALIA and MPTCP-LA are the paper's; loss-aware is this project's rule."],
    )


def _panels(results: Results, world: str, scenario: str, controller: str, managers: Sequence[str]) -> list[Panel]:
    panels = []
    for manager in managers:
        row = next(runs_of(results, world, scenario, variant(controller, manager)), None)
        found = paths_of(row, 1.0, 89.0) if row else {}
        if not found:
            continue
        curves = []
        for name, label, colour in (("wifi", "Wi-Fi", WIFI_COLOUR), ("lte", "LTE", LTE_COLOUR)):
            if name in found:
                series = found[name]
                curves.append(Curve(label, list(series.time[1:]), list(series.rate()), colour, markers=False))
        title = f"{MANAGERS[manager][0]}, {WORLDS[world]}"
        panels.append(Panel(title, "time, s", "Mbit/s acknowledged", curves, rules=_RULES[scenario]))
    return panels


_RULES = {
    DYNAMIC: ((30.0, "5 % loss"), (60.0, "none")),
    FAILURE: ((30.0, "dead"), (60.0, "back")),
    HANDOVER: ((20.0, "fading"), (36.0, "dead"), (48.0, "back"), (64.0, "well")),
}


def _drawn(results: Results, scenario: str, controller: str, managers: Sequence[str], label: str) -> list[str]:
    rows = (_panels(results, world, scenario, controller, managers) for world in WORLDS)
    return [draw(panels, label, height=3.4) for panels in rows if panels]


def show_rates(results: Results) -> Section:
    return Section(
        "Figure 6: each path's rate in one such run",
        [
            "BALIA, the first seed. In the paper the stock connection leaves most of the traffic on the good path "
            "and does not return to the Wi-Fi once that is well again; MPTCP-LA does.",
        ],
        _drawn(results, DYNAMIC, "balia", tuple(KINDS), "Rate of each path over time: stock, MPTCP-LA, loss-aware"),
        [
            "Payload acknowledged in each second. A path in backup carries nothing by which its state could be told: "
            "it is probed by echo requests, and comes back once enough of them were answered, or after its time.",
        ],
    )


def reactions(results: Results, world: str, controller: str, manager: str) -> dict[str, Mean]:
    """What the goodput in order falls to after the death, in % of the rate that is left; seconds until that rate; and
    from the return of the path to its use. What never happens in a run counts with the time that it had: to leave such
    runs out would leave out the worst.
    """
    lowest, full, used = [], [], []
    died, back, end = 30.0, 60.0, 89.0
    for row in runs_of(results, world, FAILURE, variant(controller, manager)):
        stream, found = in_order(row, 0.1, end), paths_of(row, 0.1, end)
        if stream is not None:
            after = recovery(stream, died, (50.0, back))
            lowest.append(0.0 if math.isnan(after.lowest) else 100 * after.lowest)
            full.append(back - died if math.isnan(after.seconds) else after.seconds)
        if "wifi" in found:
            seconds = time_to_use(found["wifi"], back)
            used.append(end - back if math.isnan(seconds) else seconds)
    return {"lowest": mean_of(lowest), "full": mean_of(full), "used": mean_of(used)}


def show_failure(results: Results) -> Section:
    body = []
    for world, name in WORLDS.items():
        for controller in CONTROLLERS:
            for manager in ("fullmesh", LA):
                found = reactions(results, world, controller, manager)
                goodput = mean_of(goodputs(results, world, FAILURE, controller, manager))
                cells = [number(found["lowest"], 0), number(found["full"]), number(found["used"]), number(goodput, 1)]
                if goodput.n:
                    body.append([NAMES[controller], f"{MANAGERS[manager][0]}, {name}", *cells])
    head = (
        " |  | goodput in order<br>falls to, % of<br>the LTE's rate | death to<br>that rate, s | "
        "return to<br>use, s | Mbit/s<br>over 90 s"
    )
    return Section(
        "Path failure and return",
        [
            "Nothing gets through the Wi-Fi from 30 s to 60 s, and its interface says nothing of it. Aim: the other "
            "path's full rate within three round trips and the detection, the returned path in use within 2 s. The "
            "pictures have Reno; the paper has no such run.",
        ],
        [
            *_drawn(results, FAILURE, "linux-reno", ("fullmesh", LA), "Rate of each path around a failure"),
            table(head, body, names=2),
        ],
        [
            "Pictures: acknowledged payload of each subflow. Table: payload that the receiver has in order, for data "
            "on the dead subflow block what comes after them. The LTE's rate is the mean from 50 s to 60 s. Columns: "
            "the lowest half second within 10 s of the death, and the seconds from the death until half-second means "
            "stay above 90 % of the LTE's rate for a second; 0 where they never fall below.",
            "A stock subflow finds out that its path is back by its own retransmissions, with exponential backoff; the "
            "aware connection gives the dead subflow up after 2 s and tries new ones, which have 6, 12, 12, … s; Linux "
            "repeats their SYNs meanwhile.",
        ],
    )


def show_handover(results: Results) -> Section:
    return Section(
        "A walk out of the Wi-Fi and back: loss against signal",
        [
            "Signal, loss and rate of the Wi-Fi fade from 20 s on, the link is dead from 36 s to 48 s and well "
            "again at 64 s; beside it 20 Mbit/s of LTE.",
        ],
        [
            *_drawn(results, HANDOVER, "linux-reno", ("fullmesh", LA, MA), "Rate of each path during a walk"),
            _table(results, HANDOVER, OURS),
        ],
        [
            "Loss awareness sends probes over the fading path while it is in backup, and restores it once enough of "
            "them were answered; each return doubles the rest before the next one. A signal needs no probe. The "
            "daemon can go by both.",
        ],
    )


def flaps(results: Results, loss: str, controller: str) -> Mean:
    rows = results.find(SIM, THRESHOLD, variant(controller, LA), {"paths.wifi.loss": loss})
    runs = [paths_of(row, 0.25, 119.0) for row in rows]
    return mean_of(max(changes_per_minute(series) for series in paths.values()) for paths in runs if paths)


def show_threshold(results: Results) -> Section:
    changes = [partial(flaps, results, loss) for loss in ("0.0003", "0.0006")]
    dead = [mean_of(goodputs(results, SIM, DEAD, "linux-reno", m)) for m in ("fullmesh", LA)]
    begun = [
        f"20 + 20 Mbit/s, the Wi-Fi dead for the first 10 of 30 s: {dead[0].mean:.1f} Mbit/s stock, "
        f"{dead[1].mean:.1f} loss-aware. Further paths join only once the first subflow is up (RFC 8684, section 3.2)."
    ]
    return Section(
        "At the threshold, and before the beginning",
        [
            "Loss that sits on the threshold must not make a path flap. Changes of priority a minute over two "
            "minutes, to backup and back each counted; aim: at most 1.",
            *(begun if dead[0].n else []),
        ],
        [table(["", "0.03 % loss", "0.06 % loss"], lines(CONTROLLERS, *changes, label=NAMES.__getitem__))],
        ["Simulator, 50 + 50 Mbit/s; intervals over the seeds."],
    )
