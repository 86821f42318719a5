"""What is measured: experiments in the simulator, and points chosen beforehand for the kernel."""

from __future__ import annotations

import json
from pathlib import Path

from multipilot.papers.paper import Experiment, Point
from multipilot.papers.runs import traces_on

PILOT = "pilot"
#: What pilot is compared with: a stock kernel's controllers, and LIA, which is RFC 6356.
OTHERS = ("linux-reno", "cubic", "bbr", "lia")
ALONE = (PILOT, *OTHERS)

#: Cells alone.
LOSS, LINKS, WALKS, TRACE, DELAY = "loss", "links", "walks", "trace", "delay"
#: Cells beside others at one bottleneck, and the controller that the TCP flow of the reference has.
RENO, CUBIC, EIGHT, LOSSY, BBR, LATE, OLDER = (
    f"beside-{name}" for name in ("reno", "cubic", "eight", "lossy", "bbr", "late", "pilot")
)
RIVAL = {
    RENO: "linux-reno",
    CUBIC: "cubic",
    EIGHT: "linux-reno",
    LOSSY: "linux-reno",
    BBR: "bbr",
    LATE: "linux-reno",
    OLDER: "linux-reno",
}
#: One flow of these comes 15 s after the other, so their shares differ; elsewhere all flows of the reference are alike.
OF_TWO_AGES = (LATE, OLDER)
THREE = (RENO, CUBIC)
DRAWN, DRAWN_BESIDE, DRAWN_REFERENCE = "drawn-alone", "drawn-beside", "drawn-reference"
ABLATION_ALONE, ABLATION_BESIDE = "ablation-alone", "ablation-beside"

#: Bits of pilot's parameter ``without``: what each leaves out.
ABLATION = {
    1: "ceiling",
    2: "noise",
    4: "coupling",
    8: "patience",
    16: "solitude",
    32: "draining",
}

SEEDS = 16
#: Queues are seen over time; a few runs say how long they are.
DELAY_SEEDS = 4


def reference(scenario: str) -> str:
    """What results call the runs with a TCP flow in the connection's place."""
    return f"{scenario} reference"


def three(scenario: str) -> str:
    """What results call the runs with three subflows."""
    return f"{scenario} with three subflows"


def _in_its_place(scenario: str) -> dict[str, str]:
    """Settings that put one TCP flow of the rival's kind in the place of the connection."""
    rival = RIVAL[scenario]
    settings = {"connections.0.protocol": "tcp", "connections.0.paths": '["one"]'}
    if scenario not in OF_TWO_AGES:
        # Where no connection leaves its controller to the variants all are under test, and rows hold their mean.
        settings["connections.0.controller"] = rival
    if scenario == OLDER:
        settings |= {
            "connections.1.protocol": "tcp",
            "connections.1.paths": '["one"]',
            "connections.1.controller": rival,
        }
    return {**settings, "variants": f'[{{controller = "{rival}"}}]'}


def _beside() -> tuple[Experiment, ...]:
    subflows = json.dumps(["one", "two", "three"])
    return (
        *(Experiment(name, tables=False) for name in RIVAL),
        *(Experiment(n, settings={"connections.0.paths": subflows}, tables=False, label=three(n)) for n in THREE),
        *(Experiment(n, settings=_in_its_place(n), tables=False, label=reference(n)) for n in RIVAL),
    )


def _ablation(scenario: str) -> Experiment:
    bits = json.dumps([0, *ABLATION])
    variants = f'[{{controller = "{PILOT}", parameters = {{without = {bits}}}}}]'
    return Experiment(scenario, settings={"variants": variants}, tables=False)


EXPERIMENTS = (
    *(Experiment(name, tables=False) for name in (LOSS, LINKS, WALKS)),
    *_beside(),
    *(Experiment(name, tables=False) for name in (DRAWN, DRAWN_BESIDE, DRAWN_REFERENCE)),
    Experiment(DELAY, settings={"sample_interval": "100ms"}, most_seeds=DELAY_SEEDS),
    *(_ablation(name) for name in (ABLATION_ALONE, ABLATION_BESIDE)),
)


def on_traces(folder: Path) -> tuple[Experiment, ...]:
    found = traces_on("two", folder)
    return tuple(Experiment(TRACE, {}, how, tables=False, label=f"{TRACE} {name}") for name, how in found)


#: On the kernel fewer controllers, for its runs take real time.
ON_KERNEL = (PILOT, "bbr", "cubic")
KERNEL_ALONE = (
    (LOSS, {"case": "no loss"}),
    (LOSS, {"case": "1 % on both"}),
    (LOSS, {"case": "2 % on both"}),
    (LOSS, {"case": "5 % on one"}),
    (LINKS, {"case": "queues of 0.25 bdp", "paths.*.loss": "0"}),
    (LINKS, {"case": "33 + 2.8 Mbit/s, queues of 1000 packets", "paths.*.loss": "0"}),
)
KERNEL_BESIDE = tuple((RENO, {"links.shared.rate": "20Mbit", "links.shared.queue": q}) for q in ("1bdp", "0.25bdp"))

#: Chosen before any was measured. The strongest rival is measured at all of them before the next, as one budget seldom
#: lasts for all.
POINTS = (
    *(Point(s, cell, RIVAL[s], settings=_in_its_place(s), label=reference(s)) for s, cell in KERNEL_BESIDE),
    *(Point(s, cell, c) for c in ON_KERNEL for s, cell in (*KERNEL_ALONE, *KERNEL_BESIDE)),
)
