"""What the paper leaves open: a shared bottleneck, capacity that varies, short flows, unseen paths."""

from __future__ import annotations

from functools import partial

from multipilot.papers.charts import bars_of, draw
from multipilot.papers.page import Section, lines, table
from multipilot.papers.results import KERNEL, SIM, Results, over_competing
from multipilot.papers.tables import round_trip
from multipilot.stats import Mean
from reproductions.ddpg import plan
from reproductions.ddpg.sections import broken, label

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
    return results.mean(world, plan.SHARED, controller, over_competing, {plan.RIVAL_KEY: rival})


def show_shared(results: Results) -> Section:
    panels = [
        bars_of(
            f"Share against one {plan.RIVAL_NAMES[rival]} flow",
            plan.CONTROLLERS,
            partial(share, results, rival),
            broken,
            plan.COLOURS,
        )
        for rival in ("reno", "bbr")
    ]
    shares = [partial(share, results, rival, world=world) for world in (SIM, KERNEL) for rival in TCP_RIVALS]
    names = [plan.RIVAL_NAMES[rival] for rival in TCP_RIVALS]

    return Section(
        "A shared bottleneck: share against one TCP, and against one BBR",
        [
            "Both subflows and one single-path flow through one link of 100 Mbit/s; 1 is an equal share, and RFC "
            "6356 asks for no more.",
        ],
        [
            draw(panels, "Goodput over that of one TCP flow at a shared bottleneck", height=3.6),
            table(
                ["goodput / that of the flow", *(f"one {name}" for name in names), *(f"kernel: {n}" for n in names)],
                lines(plan.CONTROLLERS, *shares, label=label),
            ),
        ],
        ["100 Mbit/s, 40 ms, a queue of 400 packets, 60 s."],
    )


def show_varying(results: Results) -> Section:
    keys = list(dict.fromkeys(key for world, key in results.folders if world == SIM and key.startswith(plan.VARYING)))
    traces = [key for key in keys if key != plan.VARYING]
    columns = [
        *(results.column(world, plan.VARYING, m) for world in (SIM, KERNEL) for m in ("goodput_mbps", round_trip)),
        *(results.column(SIM, key, "goodput_mbps") for key in traces),
    ]
    head = ["", "goodput,<br>Mbit/s", "round trip,<br>ms", "kernel:<br>goodput", "kernel:<br>round trip"]
    head += [f"goodput,<br>{key.removeprefix(plan.VARYING).strip()}" for key in traces]
    return Section(
        "Capacity that varies",
        [
            "Each path has a new rate of 10 to 100 Mbit/s every second or two. The paper names capacities that vary "
            "as what remains to be done."
        ],
        [table(head, lines(plan.CONTROLLERS, *columns, label=label, digits=1))],
        [
            "Two traces of steps, drawn once (scenarios/ddpg/varying-*.csv); 40 ms, 400 packets, 60 s. --traces "
            "FOLDER puts recorded Mahimahi traces in place of the second path."
        ],
    )


def show_short(results: Results) -> Section:
    cells = [(SIM, size, what) for size, _ in SIZES for what in ("median", "p95")] + [(KERNEL, "1MB", "median")]
    columns = [results.column(w, plan.SHORT, f"completion_{what}_s", {plan.SIZE_KEY: s}) for w, s, what in cells]
    words = [f"{words},<br>{what}" for _, words in SIZES for what in ("median", "95th")]
    return Section(
        "Short flows",
        [
            "Downloads that arrive at random, two a second. The paper names the completion of short flows as a "
            "weakness. MPCC begins at 4 Mbit/s a subflow and doubles once an interval."
        ],
        [table(["seconds", *words, "kernel: 1 MB,<br>median"], lines(plan.CONTROLLERS, *columns, label=label))],
        ["100 Mbit/s, 40 ms and 400 packets a path."],
    )


def show_unseen(results: Results) -> Section:
    def mean(controller: str, case: str) -> Mean:
        return results.mean(SIM, plan.UNSEEN, controller, "goodput_mbps", {"case": case})

    names = ("mpcc", "ddpg-mpcc", "lia", "bbr")
    body = lines(CASES, *(partial(mean, name) for name in names), label=CASES.__getitem__, digits=1)
    return Section(
        "Paths that training never saw: goodput",
        [
            "multipilot train draws 5 to 100 Mbit/s, 15 to 100 ms, queues of 0.3 to 3 bandwidth-delay products and up "
            "to 5 % loss. Beyond that an actor has only its safety left: slow start, the brake at 30 % loss, a floor, "
            "and at most a tenth a step. What it is trained for is MPCC's utility, which also pays for short queues; "
            "the next section has that.",
        ],
        [table(["goodput alone, Mbit/s", *map(label, names)], body)],
        ["One connection alone on two such paths, 60 s."],
    )
