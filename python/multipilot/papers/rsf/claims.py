"""What paper *rsf* prints, and what arithmetic and our runs say of it.

Values in Mbit/s. ``reading`` says what the paper's number must be: of one connection, of all of them, or of one path.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from multipilot.papers.results import KERNEL, SIM, Results, Row, ratio
from multipilot.stats import Mean

BDP = {"paths.*.queue": "1bdp"}
DEEP = {"paths.*.queue": "1000p"}
EIGHT_A_SECOND = {"connections.short.arrivals": "8/s", **BDP}
SHARED_BDP = {"links.shared.queue": "1bdp"}
SHARED_DEEP = {"links.shared.queue": "1000p"}

#: The controllers that the paper compares RSF with.
RIVALS = ("lia", "olia", "balia")
#: What a user of an unpatched kernel would really pick.
BUILT_IN = ("reno", "cubic", "bbr")
COUPLED_AND_RSF = (*RIVALS, "rsf-db", "rsf-lb")
VARIANTS = ("tcp", *RIVALS, "rsf-db", "rsf-lb", *BUILT_IN)


def of_connection(row: Row) -> float | None:
    """Mean goodput of a connection over its own time."""
    value: float | None = row.get("transfer_mbps")
    return value


def of_all(row: Row) -> float | None:
    """Sum over the connections, each over its own time; of flows that come and go, what they carry together."""
    if len(row["cell"]) and any(key.endswith("arrivals") for key in row["cell"]):
        return float(row["goodput_mbps"])
    each = of_connection(row)
    return None if each is None else each * int(row["transfers"])


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
    why: Callable[[Numbers], str]
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
        """RSF over the best of ``over``."""
        others = [m for v in over if (m := self.mean(v, world)).n]
        if not others:
            return ratio(self.mean(self.row.rsf, world), Mean(float("nan"), 0, 0, 0))
        return ratio(self.mean(self.row.rsf, world), max(others, key=lambda m: m.mean))

    @property
    def paper_gain(self) -> float | None:
        others = [self.row.paper[v] for v in RIVALS if v in self.row.paper]
        return self.row.paper["rsf"] / max(others) if others and "rsf" in self.row.paper else None

    def say(self, variant: str, reading: str | None = None) -> str:
        """A value for a sentence."""
        found = self.mean(variant, SIM, reading)
        return f"{found.mean:.2f}" if found.n else "(not measured)"

    def say_gain(self, over: tuple[str, ...] = RIVALS) -> str:
        found = self.gain(SIM, over)
        return f"{found.mean:.2f}" if found.n else "(not measured)"


def _kernel_lags(n: Numbers) -> str:
    here, there = n.mean("lia"), n.mean("lia", KERNEL)
    if not there.n or there.mean > 0.85 * here.mean:
        return ""
    return (
        f" The kernel's one run of LIA has {there.mean:.2f}: what a timeout on the lossy path costs a coupled "
        "connection (goal 1 below) is worse there than in the simulator."
    )


TABLE: tuple[TableRow, ...] = (
    TableRow(
        "0",
        "0-single-path",
        "One path, no loss, 4 MB",
        "rsf-db",
        "connection",
        {"tcp": 1.58, "lia": 1.53, "olia": 1.57, "balia": 1.58, "rsf": 1.58},
        lambda n: (
            f"On one path nothing is coupled, and the window rules come out alike (LIA {n.say('lia')}, RSF-DB "
            f"{n.say('rsf-db')} Mbit/s). Each connection is measured over its own time, so those that end last have "
            "the path to themselves and the mean may pass a fifth of the path; the paper's 1.58 means that a fifth "
            "of it stayed idle."
        ),
    ),
    TableRow(
        "1",
        "1-no-loss",
        "Two equal paths, no loss, 4 MB",
        "rsf-db",
        "connection",
        {"tcp": 1.58, "lia": 2.52, "olia": 2.58, "balia": 2.54, "rsf": 2.53},
        lambda n: (
            "No random loss, so only full buffers drop packets and the paths are the limit: RSF-DB "
            f"{n.say('rsf-db')}, RSF-LB {n.say('rsf-lb')}, LIA {n.say('lia')}. A 4 MB file ends within some tens of "
            "round trips, so slow start decides more than the controller."
        ),
    ),
    TableRow(
        "2",
        "2-loss-2-percent",
        "Two equal paths, 2 % loss, 4 MB",
        "rsf-db",
        "connection",
        {"lia": 0.88, "olia": 0.98, "balia": 0.98, "rsf": 1.98},
        lambda n: (
            "The paper's rates lie above what Reno's law allows: sqrt(3/(2·0.02)) packets in 150 ms are 0.66 "
            "Mbit/s a subflow, hence about 0.66 for LIA and 1.3 for RSF. The claim is the ratio, and it stands: "
            f"{n.say_gain()} against the paper's 2.02. But uncoupled Reno has {n.say('reno')}: below half its target "
            "RSF is Reno on each path, and the gain is the absence of coupling."
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
        lambda n: (
            "At 10 % windows sit near their floor of two packets and timeouts rule, so coupling has less to "
            f"take: the ratio shrinks to {n.say_gain()} (paper: 1.59). RSF-LB, above half its loss target here (2.6 "
            f"packets/s at Reno's rate), has {n.say('rsf-lb')} where Reno has {n.say('reno')}."
        ),
    ),
    TableRow(
        "4",
        "4-bandwidth",
        "20 and 80 Mbit/s, 4 % loss, 10 MB",
        "rsf-db",
        "total",
        {"lia": 1.88, "olia": 1.88, "balia": 1.98, "rsf": 2.89},
        lambda n: (
            "1.88 for LIA cannot be of one connection when 2 % loss gave 0.88; read as the sum of five, ours "
            f"are {n.say('lia')} for LIA and {n.say('rsf-db')} for RSF-DB. The ratio is {n.say_gain()} (paper: 1.46). "
            "At 4 % loss a window holds about six packets and never feels whether the path could carry 20 or 80 "
            "Mbit/s: figure 5's rise with bandwidth does not appear."
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
        lambda n: (
            "The paper's values fit a round trip of 20 ms, so its delays are per round trip. Five connections share "
            f"two paths of 20 Mbit/s, 7.6 each after headers; RSF-DB has {n.say('rsf-db')}, LIA {n.say('lia')}, "
            f"ratio {n.say_gain()} (paper: 1.71). RSF-LB holds its loss rate to 4 packets/s a path, and falls to "
            f"{n.say('rsf-lb')}."
        ),
        {"paths.two.down.delay": "20ms", **BDP},
    ),
    TableRow(
        "6",
        "6-loss",
        "3 % and 0 % loss, 10 MB",
        "rsf-lb",
        "connection",
        {"lia": 3.13, "olia": 3.10, "balia": 3.12, "rsf": 4.48},
        lambda n: (
            "Values of this size are only reached with the second path near loss-free, where it fills up: RSF-LB "
            f"{n.say('rsf-lb')}, LIA {n.say('lia')}, ratio {n.say_gain()} (paper: 1.43). On a loss-free path five "
            "windows share the bottleneck whatever rule they follow, so little room is left for a "
            f"gain.{_kernel_lags(n)}"
        ),
        {"paths.two.loss": "0", **BDP},
    ),
    TableRow(
        "7",
        "7-short-flows",
        "Short flows, 1 to 30 s, 8 arrivals a minute",
        "rsf-db",
        "total",
        {"tcp": 3.42, "lia": 5.51, "olia": 6.21, "balia": 7.02, "rsf": 8.67},
        lambda n: (
            "Eight arrivals a second of 8.67 Mbit/s each would need a thousand Mbit/s of the 40 there are, so the "
            f"paper's axis must mean something else. With eight a minute our flows carry together {n.say('lia')} "
            f"(LIA) to {n.say('rsf-db')} Mbit/s (RSF-DB), {n.say_gain()} times the best rival (paper: 1.24); with "
            f"eight a second they fill the paths, and {n.at(EIGHT_A_SECOND).say('lia')} stand against "
            f"{n.at(EIGHT_A_SECOND).say('rsf-db')}. Figure 8 shows both."
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
        lambda n: (
            f"Totals over five connections. RSF-LB has {n.say('rsf-lb')} over the 100 s, {n.say_gain()} times the "
            "best rival (paper: 1.36), and so has uncoupled Reno. Figure 9 shows the rate over time."
        ),
    ),
    TableRow(
        "9",
        "9-competing-tcp",
        "Five TCP flows on path 1, 2 % loss",
        "rsf-db",
        "connection",
        {"tcp": 0.25, "lia": 0.66, "olia": 0.67, "balia": 0.61, "rsf": 1.20},
        lambda n: (
            "At 2 % random loss the shared path is not full (fifteen flows of 0.6 Mbit/s on 20), so nobody takes "
            f"from anybody and TCP has {n.say('tcp')} whatever runs beside it. Ratio {n.say_gain()} (paper: 1.79). "
            "Delay and loss are those of row 2, yet here the paper has what Reno's law and ours have; why its TCP "
            "has less than half of that is not explained. Nothing of this is fairness: see the shared bottleneck "
            "below."
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
        lambda n: (
            "Per-path totals of the five connections. With the 20 Mbit/s that 54 Mbit/s of air leave, all "
            f"controllers fill the paths (LIA {n.say('lia')}, RSF-DB {n.say('rsf-db')}; the paper has 17.65 to 18.60): "
            "a full path is no test of a controller."
        ),
        {"paths.*.rate": "20Mbit", **BDP},
    ),
)

#: Figure 4: Jain's index at 4 MB.
JAIN = {"lia": 0.998, "olia": 0.999, "balia": 0.997, "rsf-db": 0.995}
#: Figure 10: the multipath connections, and the TCP flows beside them.
FIGURE_10 = {"lia": (0.66, 0.25), "olia": (0.67, 0.24), "balia": (0.62, 0.25), "rsf-db": (1.21, 0.23)}
