"""Figures 5, 11 and 12: LD-MPSP beside Reno, LIA and DALIA, packet trains over the radio's links."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from multipilot.papers.charts import NAMES, Panel, curve_of, draw
from multipilot.papers.page import Section, number, table
from multipilot.papers.results import SIM, Results, Row
from multipilot.stats import Mean, mean_of
from reproductions.drones.series import gbps, rate_over_time, utility

LOSSY, JOINING, DOWNLOADS = "lossy", "joining", "downloads"
SIZES = ("2MB", "4MB", "6MB", "8MB", "10MB", "100MB")
SIZE = "connections.0.bytes"
RETRY, RETRIES = "radio.retries", (7, 25)


def swing(row: Row) -> float | None:
    """Percent by which the multipath connection's throughput changes from second to second, in the mean."""
    if row["folder"] is None:
        return None
    rate = rate_over_time(row, 0)[5:]
    return float(100 * np.abs(np.diff(rate)).mean() / rate.mean())


def competing_gbps(row: Row) -> float:
    return float(row["competing_mbps"]) / 1e3


def share(row: Row) -> float:
    """Of what both kinds of flows carry."""
    return gbps(row) / (gbps(row) + competing_gbps(row))


def lossy(results: Results) -> Section:
    lines = []
    for retries in RETRIES:
        for name in ("lia", "ld-mpsp"):
            cell = {RETRY: str(retries)}
            means = [results.mean(SIM, LOSSY, name, read, cell) for read in (gbps, competing_gbps, share)]
            if means[0].n:
                lines.append([f"{retries}, {0.4 ** (retries + 1):.0e}", NAMES[name], *map(number, means)])
    return Section(
        "Figure 5: five Reno flows against five multipath flows, 40 % of frames failing",
        [
            "Seven links of one channel; five Reno flows on one link each, five multipath "
            "ones on all seven. 40 % of MPDUs fail; block acks send them again, up to a limit that the paper does not "
            "state. What is left is the loss that TCP sees.",
        ],
        [table("retries, loss | controller | multipath, Gbit/s | Reno, Gbit/s | multipath of both", lines, names=2)],
        [
            "Two of the seven links carry no Reno flow, so that an even split of ten flows is 50 %. With the "
            "standard's seven retries 0.07 % are lost for good.",
        ],
    )


def joining(results: Results) -> Section:
    curves, lines = [], []
    for name in ("ld-mpsp", "dalia"):
        found = results.find(SIM, JOINING, name)
        if not found:
            continue
        every = [rate_over_time(row, 0) for row in found]
        rate = np.mean(every, axis=0)
        curves.append(curve_of(name, list(np.arange(1.0, len(rate) + 1)), list(rate), bold=True, markers=False))
        mean = mean_of(float(one[5:].mean()) for one in every)
        lines.append([NAMES[name], number(mean), number(results.mean(SIM, JOINING, name, swing), 1)])
    panel = Panel("One multipath connection on five links", "s", "Gbit/s", curves)
    return Section(
        "Figure 11: flows join and leave",
        [
            "A Reno flow joins one link after the other, four of the five, from 10 s on; the last that came leaves "
            "first, from 70 s on."
        ],
        [
            draw([panel], "Goodput of LD-MPSP and DALIA while flows join and leave"),
            table(["controller", "mean, Gbit/s", "mean change from second to second, %"], lines),
        ],
        ["DALIA's rule is in no public text: this is a reconstruction."],
    )


def utility_of(row: Row) -> float | None:
    return utility(row, 10)


def _same(lia: Sequence[Mean], dalia: Sequence[Mean]) -> list[str]:
    """DALIA is LIA with another growth of the window after slow start."""
    alike = [size for size, a, b in zip(SIZES, lia, dalia, strict=True) if a.n and a == b]
    if not alike:
        return []
    return [
        f"At {', '.join(alike)} LIA and DALIA are the same runs to the last digit, and so are the claims about them: "
        "both have TCP's slow start, and these downloads end in it. Only longer ones tell the two apart."
    ]


def downloads(results: Results) -> Section:
    sizes = [float(size.removesuffix("MB")) for size in SIZES]
    means = {
        name: [results.mean(SIM, DOWNLOADS, name, utility_of, {SIZE: size}) for size in SIZES]
        for name in ("lia", "ld-mpsp", "dalia")
    }
    curves = [
        curve_of(name, sizes, found, bold=name == "ld-mpsp", dashed=name == "dalia") for name, found in means.items()
    ]
    panel = Panel("Ten downloads at once", "size, MB", "Σ log (Mbit/s)", curves, log_x=True, from_zero=False)
    return Section(
        "Figure 12: network utility of downloads",
        [
            "Two devices at 25 m/s along seven access points, five downloads each at any time over their five best "
            "links. The paper's sizes are 2 to 10 MB; 100 MB is ours.",
        ],
        [draw([panel], "Utility over the size of downloads for three controllers", height=3.4)],
        ["The five links are the best by SNR. DALIA is a reconstruction.", *_same(means["lia"], means["dalia"])],
    )
