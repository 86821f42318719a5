"""Figures 7, 9 and 10: training, energy and aggregate rate, from the radio alone."""

from __future__ import annotations

from typing import Any

from multipilot.papers.charts import Bars, Curve, Panel, draw
from multipilot.papers.page import Section
from multipilot.papers.results import Results, ratio
from multipilot.report import svg
from multipilot.stats import Mean, mean_of
from reproductions.drones import air, transport

ALLOCATION, ENERGY = "allocation", "energy"
NAMES = {
    "greedy": "algorithm 1",
    "bush": "BUSH (abstraction)",
    "hekaton": "HEKATON (abstraction)",
    "802.11ad": "802.11ad MU-MIMO",
}
TINTS = dict(zip(NAMES, (svg.PATHS[1], svg.PATHS[0], svg.PATHS[2], svg.MUTED), strict=True))
COUNT = "radio.devices.drone.count"
#: Seeds of the passers-by in figure 9.
DRAWS = range(1, 6)


def overhead(_: Results) -> Section:
    curves = []
    for case, label, colour in (
        ("802.11ad", "802.11ad: all devices train", svg.MUTED),
        ("chosen", "at most 40 chosen devices train", svg.PATHS[1]),
    ):
        found = [one for one in training() if one["case"] == case]
        x, y = ([one[key] for one in found] for key in ("devices", "training_ms"))
        curves.append(Curve(label, x, y, colour, bold=True))
    panel = Panel("Beam training at one access point", "devices", "ms of each beacon interval", curves)
    return Section(
        "Figure 7: overhead against the number of devices",
        [
            "802.11ad trains every device that is there; algorithm 1 those that it chose, at most 40. A chosen device "
            "is polled too.",
        ],
        [draw([panel], "Training time over devices: all of them, and forty chosen ones")],
        [
            "Predicted from frame times, 27 sectors; nothing calibrated.",
        ],
    )


def training() -> list[dict[str, Any]]:
    """By case and number of devices."""
    return [
        {"case": c.values["case"], "devices": int(c.values[COUNT]), "training_ms": c.training_ms}
        for c in air.cells("overhead")
    ]


def _at(cells: tuple[air.Cell, ...]) -> dict[str, air.Cell]:
    return {c.values["case"]: c for c in cells}


#: Only small cases can be tried whole.
OPTIMUM = {"greedy": NAMES["greedy"], "exhaustive": "the optimum", **NAMES}


def energy(_: Results) -> Section:
    found = efficiency()
    base = found["802.11ad"]
    bars = Bars(
        "bits per joule, 802.11ad MU-MIMO = 1",
        list(OPTIMUM.values()),
        [ratio(found[case], base) for case in OPTIMUM],
        [TINTS.get(case, svg.PATHS[3]) for case in OPTIMUM],
        digits=1,
    )
    return Section(
        "Figure 9: energy",
        [f"Two chains at each access point and two devices, for 20 s of orbit, {len(DRAWS)} draws of passers-by."],
        [draw([bars], "Energy efficiency of five allocations over 802.11ad", height=3.2)],
        [
            "Power of an active chain: 32 phase shifters of 30 mW, mixer 40 mW, converter 200 mW, amplifier at 20 %; "
            "baseband 200 mW, times the chains for zero-forcing. 802.11ad has one channel and one stream, the others "
            "one channel and up to two. The optimum is the allocation of most throughput among all that there are; "
            "algorithm 1 takes the largest gain first. HEKATON here knows the channel of the instant at no cost and "
            "takes all interference away, BUSH knows what the last sector sweep told of each azimuth.",
        ],
    )


def efficiency() -> dict[str, Mean]:
    """Mbit/J by case."""
    draws = [_at(air.cells(ENERGY, f"radio.seed={seed}")) for seed in DRAWS]
    return {case: mean_of(found[case].bits_per_joule / 1e6 for found in draws) for case in OPTIMUM}


#: Figure 8's runs have ten devices.
DEVICES, OTHER_COUNTS = (5, 10, 20), (5, 20)


def aggregate(results: Results) -> Section:
    by_count = {n: _at(air.cells(ALLOCATION, f"{COUNT}={n}")) for n in DEVICES}
    curves = [
        Curve(
            name,
            [float(n) for n in DEVICES],
            [by_count[n][case].gbps for n in DEVICES],
            TINTS[case],
            bold=case == "greedy",
        )
        for case, name in NAMES.items()
    ]
    panel = Panel("What the links carry, IP packets", "devices", "Gbit/s", curves)
    return Section(
        "Figure 10: aggregate rate for 5 to 20 devices",
        [
            "Five access points of four chains, one channel, two streams to a device; 802.11ad has one. The same air "
            "for all four, on the left one draw of passers-by."
        ],
        [
            draw(
                [panel, transport.by_devices(results, DEVICES)],
                "Aggregate rate and goodput over the number of devices for four allocations",
            )
        ],
        [
            "Left the radio alone, the mean of IP packets without transport; right what downloads of 15 s (of 30 s "
            "with ten devices) made of it. HEKATON and BUSH are abstractions of what was published. MS-UCB is over "
            "five links. Left an access point's airtime is shared among all that hold it, right among those that use "
            "it.",
        ],
    )
