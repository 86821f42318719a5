"""What paper *rsf* prints, and how to read it.

Values in Mbit/s. ``reading`` says what the paper's number must be: of one connection, of all of them, or of one path.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from multipilot.papers.results import SIM, Results, Row, ratio
from multipilot.stats import Mean, mean_of

BDP = {"paths.*.queue": "1bdp"}
DEEP = {"paths.*.queue": "1000p"}
EIGHT_A_SECOND = {"connections.short.arrivals": "8/s", **BDP}
SHARED_BDP = {"links.shared.queue": "1bdp"}
SHARED_DEEP = {"links.shared.queue": "1000p"}

#: The controllers that the paper compares RSF with.
RIVALS = ("lia", "olia", "balia")
#: What a user of an unpatched kernel would really pick.
BUILT_IN = ("reno", "cubic", "bbr")
VARIANTS = ("tcp", *RIVALS, "rsf-db", "rsf-lb", *BUILT_IN)


def of_connection(row: Row) -> float | None:
    """Mean goodput of a connection over its own time."""
    value: float | None = row.get("transfer_mbps")
    return value


def of_all(row: Row) -> float | None:
    """What all connections carry together while any of them runs. The sum of each one's rate over its own time would
    exceed what the paths can carry.
    """
    return float(row["goodput_mbps"])


def of_path(row: Row) -> float | None:
    values = list(row["path_mbps"].values())
    return sum(values) / len(values) if values else None


def of_rival(row: Row) -> float | None:
    """One of the five competing TCP flows."""
    value = row.get("competing_mbps")
    return None if value is None else float(value) / 5


READINGS: dict[str, Callable[[Row], float | None]] = {
    "connection": of_connection,
    "total": of_all,
    "path": of_path,
}


@dataclass(frozen=True)
class TableRow:
    """A row of table 2. ``rsf`` is the form that the paper ran; ``paper`` is by variant, with ``rsf`` for that form."""

    id: str
    scenario: str
    title: str
    rsf: str
    reading: str
    paper: Mapping[str, float]
    #: How to read the printed values: arithmetic, no result of ours.
    note: str
    cell: Mapping[str, str] = field(default_factory=lambda: BDP)
    #: The paper's TCP column here is of competing flows.
    tcp_competes: bool = False


@dataclass(frozen=True)
class Numbers:
    """A row's figures, for tables and sentences."""

    results: Results
    row: TableRow
    cell: Mapping[str, str]

    def mean(self, variant: str, world: str = SIM, reading: str | None = None) -> Mean:
        if variant == "tcp" and self.row.tcp_competes:
            return self.results.mean(world, self.row.scenario, self.row.rsf, of_rival, self.cell)
        measure = READINGS[reading or self.row.reading]
        return self.results.mean(world, self.row.scenario, variant, measure, self.cell)

    def at(self, cell: Mapping[str, str]) -> Numbers:
        """The same row in another cell of its grid."""
        return Numbers(self.results, self.row, cell)

    def gain(self, world: str = SIM, over: tuple[str, ...] = RIVALS) -> Mean:
        """RSF over the best of ``over``; NaN unless all of them were measured."""
        others = [self.mean(v, world) for v in over]
        if not all(m.n for m in others):
            return mean_of([])
        return ratio(self.mean(self.row.rsf, world), max(others, key=lambda m: m.mean))

    @property
    def paper_gain(self) -> float | None:
        others = [self.row.paper[v] for v in RIVALS if v in self.row.paper]
        return self.row.paper["rsf"] / max(others) if others and "rsf" in self.row.paper else None


TABLE: tuple[TableRow, ...] = (
    TableRow(
        "0",
        "0-single-path",
        "One path, no loss, 4 MB",
        "rsf-db",
        "connection",
        {"tcp": 1.58, "lia": 1.53, "olia": 1.57, "balia": 1.58, "rsf": 1.58},
        (
            "Each connection is measured over its own time. Those that end last have the path to themselves, so the "
            "mean may exceed a fifth of the path. The printed 1.58 is less than a fifth of 10 Mbit/s."
        ),
    ),
    TableRow(
        "1",
        "1-no-loss",
        "Two equal paths, no loss, 4 MB",
        "rsf-db",
        "connection",
        {"tcp": 1.58, "lia": 2.52, "olia": 2.58, "balia": 2.54, "rsf": 2.53},
        (
            "Without random loss only full buffers drop packets, so the paths are the limit. A 4 MB file ends within "
            "some tens of round trips, slow start included."
        ),
    ),
    TableRow(
        "2",
        "2-loss-2-percent",
        "Two equal paths, 2 % loss, 4 MB",
        "rsf-db",
        "connection",
        {"lia": 0.88, "olia": 0.98, "balia": 0.98, "rsf": 1.98},
        (
            "Reno's law gives sqrt(3/(2·0.02)) packets in 150 ms, 0.66 Mbit/s a subflow: about 0.66 for LIA and 1.3 "
            "for two uncoupled subflows. All printed rates lie above it."
        ),
        {"connections.*.bytes": "4MB", **BDP},
    ),
    TableRow(
        "3",
        "3-loss-10-percent",
        "Two equal paths, 10 % loss, 4 MB",
        "rsf-db",
        "connection",
        {"lia": 0.31, "olia": 0.35, "balia": 0.39, "rsf": 0.62},
        (
            "Reno's law gives windows of four packets at 10 % loss, near the floor of two, and 2.6 lost packets/s, "
            "above RSF-LB's μ/2 = 2."
        ),
    ),
    TableRow(
        "4",
        "4-bandwidth",
        "20 and 80 Mbit/s, 4 % loss, 10 MB",
        "rsf-db",
        "total",
        {"lia": 1.88, "olia": 1.88, "balia": 1.98, "rsf": 2.89},
        (
            "1.88 for LIA cannot be of one connection if 2 % loss gave 0.88, so it is read as the sum of five. Reno's"
            " law gives a window of six packets at 4 % loss, whatever the path's rate."
        ),
        {"paths.two.rate": "80Mbit", **BDP},
    ),
    TableRow(
        "5",
        "5-delay",
        "20 and 20 ms, 3 % loss, 10 MB",
        "rsf-db",
        "connection",
        {"lia": 2.59, "olia": 2.69, "balia": 2.69, "rsf": 4.59},
        (
            "The printed values fit a round trip of 20 ms, so the paper's delays are per round trip. Five connections"
            " share two paths of 20 Mbit/s, 7.6 each after headers. By its law Reno loses 10.6 packets/s a path, "
            "above RSF-LB's μ = 4."
        ),
        {"paths.two.downlink.delay": "20ms", **BDP},
    ),
    TableRow(
        "6",
        "6-loss",
        "3 % and 0 % loss, 10 MB",
        "rsf-lb",
        "connection",
        {"lia": 3.13, "olia": 3.10, "balia": 3.12, "rsf": 4.48},
        "Values of this size need a second path that is nearly free of loss.",
        {"paths.two.loss": "0", **BDP},
    ),
    TableRow(
        "7",
        "7-short-flows",
        "Short flows, 1 to 30 s, 8 arrivals a minute",
        "rsf-db",
        "total",
        {"tcp": 3.42, "lia": 5.51, "olia": 6.21, "balia": 7.02, "rsf": 8.67},
        (
            "Eight arrivals a second of 8.67 Mbit/s each need a thousand Mbit/s of the 40 there are, so the paper's "
            "axis means something else. Figure 8 has eight a minute, eight a second, and eight flows at once."
        ),
        {"connections.short.arrivals": "8/min", **BDP},
    ),
    TableRow(
        "8",
        "8-path-failure",
        "Path 1 dies at 50 s, 2 % loss",
        "rsf-lb",
        "total",
        {"tcp": 2.21, "lia": 3.88, "olia": 3.97, "balia": 4.19, "rsf": 5.71},
        "Totals over five connections.",
    ),
    TableRow(
        "9",
        "9-competing-tcp",
        "Five TCP flows on path 1, 2 % loss",
        "rsf-db",
        "connection",
        {"tcp": 0.25, "lia": 0.66, "olia": 0.67, "balia": 0.61, "rsf": 1.20},
        (
            "At 2 % random loss ten flows of 0.6 Mbit/s do not fill 20 Mbit/s, so nothing of this is fairness; "
            "the shared bottleneck below is. Delay and loss are those of row 2; the paper does not explain why its "
            "TCP has less than half of Reno's law."
        ),
        tcp_competes=True,
    ),
    TableRow(
        "W",
        "w-wifi",
        "Wi-Fi: 20 Mbit/s of IP a path, 8 ms, 0.1 % loss",
        "rsf-db",
        "path",
        {"rsf": 18.60},
        "Per-path totals of the five connections. 54 Mbit/s of air leave about 20 Mbit/s of IP.",
        {"paths.*.rate": "20Mbit", **BDP},
    ),
)

#: Figure 4: Jain's index at 4 MB.
JAIN = {"lia": 0.998, "olia": 0.999, "balia": 0.997, "rsf-db": 0.995}
#: Figure 10: the multipath connections, and the TCP flows beside them.
FIGURE_10 = {"lia": (0.66, 0.25), "olia": (0.67, 0.24), "balia": (0.62, 0.25), "rsf-db": (1.21, 0.23)}
