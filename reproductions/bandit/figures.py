"""Figures 2 to 7 of the paper, and regret."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from matplotlib.axes import Axes

from multipilot import console
from multipilot.papers import page
from multipilot.papers.charts import Curve, Panel, draw
from multipilot.papers.page import Section
from multipilot.papers.results import Results
from multipilot.report import svg
from multipilot.stats import mean_of
from reproductions.bandit import sizes
from reproductions.bandit.measure import SYSTEMS, Draw, Measured, measured
from reproductions.bandit.places import Floats
from reproductions.bandit.policies import BATCH, CHOSEN, NAMES
from reproductions.bandit.stream import SIZES
from reproductions.bandit.worlds import lte_wins

#: Places in figures 6 and 7, as many as the paper shows.
SHOWN = 12
COLOURS = {
    "active-explorer": svg.PATHS[1],
    "epsilon-greedy": svg.PATHS[0],
    "bootstrapped-ucb": svg.PATHS[2],
    "adaptive-greedy": svg.PATHS[3],
    "explore-first": svg.PATHS[4],
    "adaptive-active-greedy": svg.PATHS[5],
    "lin-ucb": svg.PATHS[6],
    "thompson": svg.PATHS[7],
    "wifi first": svg.INK,
    "random": svg.MUTED,
    "svm": svg.BAR,
    "oracle": svg.MUTED,
}
#: Not in the paper.
DASHED = ("lin-ucb", "thompson", "random", "svm")
STOCK = "fullmesh, Reno"
SYSTEM_COLOURS = (svg.PATHS[1], svg.PATHS[4], svg.PATHS[2], svg.PATHS[0], svg.PATHS[3])


@dataclass(frozen=True)
class Distribution:
    """Empirical distribution functions."""

    title: str
    x_label: str
    #: Label (empty: none), values, colour, width.
    lines: Sequence[tuple[str, Floats, str, float]]

    def paint(self, axes: Axes) -> None:
        for label, values, colour, width in self.lines:
            axes.ecdf(values, color=colour, lw=width, label=label or None)
        axes.set(xscale="log", ylim=(0, 1.02), xlabel=self.x_label, ylabel="share of rounds")
        if any(label for label, *_ in self.lines):
            axes.legend(loc="lower right")


@dataclass(frozen=True)
class Points:
    """Throughput over latency of each system, both relative to the same stock system."""

    title: str
    clouds: Mapping[str, Sequence[tuple[float, float]]]

    def paint(self, axes: Axes) -> None:
        for (name, points), colour in zip(self.clouds.items(), SYSTEM_COLOURS, strict=True):
            axes.plot(*zip(*points, strict=True), "o", ms=5, color=colour, mew=0, alpha=0.8, label=name)
        axes.axhline(1, color=svg.MUTED, lw=0.8)
        axes.axvline(1, color=svg.MUTED, lw=0.8)
        axes.set(xlabel=f"latency over that of {STOCK}", ylabel="throughput over it")
        axes.legend(fontsize=7)


def _section(title: str, make: Callable[[Measured], Section]) -> Callable[[Results], Section]:
    def show(results: Results) -> Section:
        found = measured(results)
        return make(found) if found else Section(title, ["Not measured yet."], [])

    return show


def _places(d: Draw) -> Section:
    shares = [float(np.mean(o.place.capacity[:, 0] / o.place.capacity.sum(axis=1))) for o in d.outcomes]
    wins = [lte_wins(o.place) for o in d.outcomes]
    order = np.argsort(shares)[::-1]
    x = list(range(1, len(order) + 1))
    share = Panel(
        "Throughput share by place",
        "place, from most Wi-Fi to least",
        "share",
        [
            Curve("Wi-Fi's share of the capacity", x, [shares[i] for i in order], svg.PATHS[0]),
            Curve("rounds in which LTE is faster", x, [wins[i] for i in order], svg.PATHS[1]),
        ],
    )
    total = [("", o.place.capacity.sum(axis=1), svg.PATHS[0], 0.7) for o in d.outcomes]
    everything = np.concatenate([o.place.capacity.sum(axis=1) for o in d.outcomes])
    capacity = Distribution("Capacity of both links", "Mbit/s", [*total, ("all places", everything, svg.INK, 2.4)])
    always = sum(w < 0.1 or w > 0.9 for w in wins)
    source = (
        f"Measured: {', '.join(sorted(d.real))}. Everything else is generated from it."
        if d.real
        else "All of it is generated: the paper's measurements are no longer public. Within the coverage of the Wi-Fi "
        "the generator keeps to what is published of them: LTE faster in 40 % of the measurements, of the lower "
        "round-trip time in 20 %; single radio readings correlate weakly with capacity (0.1 to 0.5)."
    )
    lead = [
        f"{len(d.outcomes)} places of {len(d.outcomes[0].place)} rounds. LTE is the faster link in "
        f"{100 * np.mean(wins):.0f} % of all rounds; in {always} places one link is faster in more than 90 % of them.",
        source,
    ]
    return Section("Figures 2 and 3: the places", lead, [draw([share, capacity], "The places")])


def _first(make: Callable[[Draw], Section]) -> Callable[[Measured], Section]:
    """Of the first draw, which the section says."""

    def made(m: Measured) -> Section:
        section = make(m.draws[0])
        told = f"This section's picture and numbers are of the first of {len(m.draws)} draws; claims are over all."
        return replace(section, notes=[*section.notes, told])

    return made


def _curve(name: str, x: Sequence[float], table: Floats) -> Curve:
    """Means over a policy's lives, which are the rows of the table."""
    bold = name in (CHOSEN, "wifi first")
    means = [mean_of(column) for column in table.T]
    return Curve(NAMES[name], x, means, COLOURS[name], bold, name in DASHED, markers=False)


def _rewards(m: Measured) -> Section:
    curves = []
    for name, life in m.lives.items():
        table = life.cumulative()
        x = [BATCH * (i + 1) for i in range(table.shape[1])]
        curves.append(_curve(name, x, table))
    panel = Panel("Mean reward of all rounds so far", "round", "mean cumulative reward", curves, from_zero=False)
    late = {name: mean_of(life.late()) for name, life in m.lives.items()}
    ranked = sorted(late, key=lambda name: -late[name].mean)
    rows = [
        [NAMES[n], f"{late[n].mean:.3f}", "" if np.isnan(late[n].half) else f"±{late[n].half:.3f}", f"{late[n].n}"]
        for n in ranked
    ]
    lead = [
        "One learner for all places, refitted every 50 rounds and moved by each outcome. Reward: throughput and "
        "latency no worse than the running medians of both arms at that place, for transfers of that size: one "
        "threshold for all sizes would pay for the size. The context has the readings of both paths and the size.",
    ]
    listed = page.table(["policy", "mean reward, second half", "95 %", "seeds"], rows)
    return Section("Figure 4: reward of each policy", lead, [draw([panel], "Rewards", 4.4), listed])


def _regret(m: Measured) -> Section:
    curves = []
    rounds = len(m.draws[0].stream)
    ends = [BATCH * (i + 1) - 1 for i in range(rounds // BATCH)]
    for name, life in m.lives.items():
        if name != "oracle":
            curves.append(_curve(name, [end + 1 for end in ends], life.regret[:, ends].astype(float)))
    panel = Panel("Regret against who knows both outcomes", "round", "rewards missed so far", curves)
    stock, chosen = (mean_of(map(float, m.lives[who].regret[:, -1])) for who in ("wifi first", CHOSEN))
    lead = [
        f"Over {rounds} rounds Wi-Fi first misses {console.mean(stock, 0)} rewards that the other path "
        f"would have brought, {NAMES[CHOSEN]} {console.mean(chosen, 0)}. The oracle also wins the coin "
        "flips that no context foretells.",
    ]
    return Section("Regret", lead, [draw([panel], "Regret", 4.0)])


def _changing(d: Draw) -> int:
    """The place where the faster link changes most evenly."""
    return int(np.argmin([abs(lte_wins(o.place) - 0.5) for o in d.outcomes]))


def _over_time(d: Draw) -> Section:
    place = _changing(d)
    # One size alone, or the curve shows sizes.
    chosen = (d.stream.place == place) & (d.size == SIZES[2])
    x = d.stream.round[chosen].tolist()

    def mbps(policy: str) -> Floats:
        rate: Floats = d.size[chosen] * 8e-6 / d.of(policy)[0][chosen]
        return rate

    capacity = d.outcomes[place].place.capacity.sum(axis=1)[d.stream.round[chosen]]
    panel = Panel(
        f"1 MB transfers at {d.outcomes[place].place.name}",
        "round",
        "Mbit/s",
        [
            Curve("capacity of both links", x, capacity.tolist(), svg.MUTED, dashed=True, markers=False),
            Curve("fullmesh, Wi-Fi first", x, mbps("wifi first").tolist(), svg.PATHS[0]),
            Curve("bandit", x, mbps(CHOSEN).tolist(), svg.PATHS[1], bold=True),
        ],
    )
    better, worse = (mbps(CHOSEN) > 1.02 * mbps("wifi first")).mean(), (mbps(CHOSEN) < 0.98 * mbps("wifi first")).mean()
    lead = [
        f"The place where the faster link changes most. The bandit is faster by more than 2 % in {100 * better:.0f} % "
        f"of these transfers, slower in {100 * worse:.0f} %."
    ]
    return Section("Figure 5: throughput over time", lead, [draw([panel], "Throughput over time", 3.8)])


def _by_place(d: Draw, policy: str) -> list[Floats]:
    return [d.mbps(policy, place, d.late) for place in range(len(d.outcomes))]


def _distributions(d: Draw) -> Section:
    bandit, stock = _by_place(d, CHOSEN), _by_place(d, "wifi first")
    shown = range(min(SHOWN, len(bandit)))
    panels = [
        Distribution(
            d.outcomes[p].place.name,
            "Mbit/s",
            [
                ("fullmesh, Wi-Fi first" if p == 0 else "", stock[p], svg.PATHS[0], 1.4),
                ("bandit" if p == 0 else "", bandit[p], svg.PATHS[1], 2.2),
            ],
        )
        for p in shown
    ]
    gains = [float(b.mean() / s.mean() - 1) for b, s in zip(bandit, stock, strict=True)]
    best = d.outcomes[int(np.argmax(gains))].place
    lead = [
        f"{len(panels)} of {len(gains)} places are drawn. Mean throughput against fullmesh by place, of all: from "
        f"{100 * min(gains):+.0f} % to {100 * max(gains):+.0f} %, median {100 * float(np.median(gains)):+.0f} % "
        f"(second half of the rounds). Most is gained at {best.name}, where LTE is faster in "
        f"{100 * lte_wins(best):.0f} % of the rounds. In the paper's figure the bandit is ahead about half of the "
        "time, on average over the places.",
    ]
    body = [draw(panels[i : i + 3], "Throughput by place", 2.9) for i in range(0, len(panels), 3)]
    return Section("Figure 6: throughput by place", lead, body)


def system_points(d: Draw, place: int, upload: bool) -> list[tuple[str, float, float]]:
    chosen = (d.stream.place == place) & (d.upload == upload) & d.late
    found = []
    for system in SYSTEMS:
        completion, latency = d.of(system.policy, system.controller)
        rate = float((d.size[chosen] * 8e-6 / completion[chosen]).mean())
        found.append((system.name, float(latency[chosen].mean()), rate))
    return found


def leads(points: list[tuple[str, float, float]]) -> tuple[bool, bool, bool]:
    """Whether a bandit system has the highest throughput, the lowest latency, and one within 10 % of the lowest. A tie
    is no lead: where the bandit starts on Wi-Fi it is fullmesh.
    """
    ours, others = ([p for p in points if p[0].startswith("bandit") == mine] for mine in (True, False))
    fast = max(rate for *_, rate in ours) > max(rate for *_, rate in others)
    latency, theirs = (min(ms for _, ms, _ in some) for some in (ours, others))
    return fast, latency < theirs, latency <= 1.1 * theirs


def _systems(d: Draw) -> Section:
    clouds: dict[str, list[tuple[float, float]]] = {system.name: [] for system in SYSTEMS}
    fastest = total = 0
    for place in range(min(SHOWN, len(d.outcomes))):
        for upload in (False, True):
            points = system_points(d, place, upload)
            stock = next((x, y) for name, x, y in points if name == STOCK)
            fastest += leads(points)[0]
            total += 1
            for name, x, y in points:
                clouds[name].append((x / stock[0], y / stock[1]))
    coupled = float(np.mean(d.of("wifi first", "reno")[0] / d.of("wifi first", "lia")[0]))
    lead = [
        f"One point for each of {SHOWN} places and each direction, relative to fullmesh with Reno there: up and to the "
        f"left is better. A bandit system has the highest throughput in {fastest} of {total}. Latency is the "
        "round-trip time, at the end, of the path that the connection started on. Coupled control (LIA) has "
        f"{100 * (coupled - 1):+.1f} % throughput against Reno.",
    ]
    drawn = draw([Points("All places, both directions", clouds)], "Throughput over latency of five systems", 4.4)
    return Section("Figure 7: throughput against latency, five systems", lead, [drawn])


show_places = _section("Figures 2 and 3", _first(_places))
show_rewards = _section("Figure 4", _rewards)
show_regret = _section("Regret", _regret)
show_over_time = _section("Figure 5", _first(_over_time))
show_distributions = _section("Figure 6", _first(_distributions))
show_systems = _section("Figure 7", _first(_systems))
show_sizes = _section("Completion time by transfer size", sizes.section)
