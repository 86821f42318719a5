"""Figures 2 to 7 of the paper, and regret."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from multipilot.papers import page
from multipilot.papers.bandit import sizes
from multipilot.papers.bandit.measure import SYSTEMS, Measured, measured
from multipilot.papers.bandit.places import Floats
from multipilot.papers.bandit.policies import BATCH, CHOSEN, NAMES
from multipilot.papers.bandit.stream import SIZES
from multipilot.papers.charts import Curve, Panel, draw
from multipilot.papers.page import Section, card
from multipilot.papers.results import Results
from multipilot.report import svg
from multipilot.stats import Mean, mean_of

#: Places in figures 6 and 7, as many as the paper shows.
SHOWN = 12
Rows = list[dict[str, Any]]
STYLE = {
    CHOSEN: (svg.PATHS[1], True, False),
    "epsilon-greedy": (svg.PATHS[0], False, False),
    "bootstrapped-ucb": (svg.PATHS[2], False, False),
    "adaptive-greedy": (svg.PATHS[3], False, False),
    "explore-first": (svg.PATHS[4], False, False),
    "adaptive-active-greedy": (svg.PATHS[5], False, False),
    "lin-ucb": (svg.PATHS[6], False, True),
    "thompson": (svg.PATHS[7], False, True),
    "wifi first": (svg.INK, True, False),
    "random": (svg.MUTED, False, True),
    "svm": (svg.BAR, False, True),
    "oracle": (svg.MUTED, False, False),
}
SYSTEM_COLOURS = (svg.PATHS[1], svg.PATHS[4], svg.PATHS[2], svg.PATHS[0], svg.PATHS[3])


@dataclass(frozen=True)
class Distribution:
    """Empirical distribution functions."""

    title: str
    x_label: str
    #: Label (empty: none), values, colour, width.
    lines: Sequence[tuple[str, Floats, str, float]]
    log_x: bool = True

    def paint(self, axes: Axes) -> None:
        for label, values, colour, width in self.lines:
            sorted_values = np.sort(values)
            share = np.arange(1, len(sorted_values) + 1) / len(sorted_values)
            axes.step(sorted_values, share, where="post", color=colour, lw=width, label=label or None)
        if self.log_x:
            axes.set_xscale("log")
        axes.set_ylim(0, 1.02)
        axes.set_xlabel(self.x_label)
        axes.set_ylabel("share of rounds")
        if any(label for label, *_ in self.lines):
            axes.legend(loc="lower right")


@dataclass(frozen=True)
class Points:
    """Throughput over latency, one point a system."""

    title: str
    points: Sequence[tuple[str, float, float, str]]
    legend: bool

    def paint(self, axes: Axes) -> None:
        for name, x, y, colour in self.points:
            axes.plot(x, y, "o", ms=8, color=colour, mew=0, label=name)
        # As the paper draws it: up and to the right is better.
        axes.invert_xaxis()
        axes.margins(0.2)
        axes.set_xlabel("latency, ms")
        axes.set_ylabel("throughput, Mbit/s")
        if self.legend:
            axes.legend(fontsize=7)


def _absent(name: str, title: str) -> Section:
    return Section(name, title, ["Not measured yet."], [])


def _section(name: str, title: str, make: Callable[[Measured], Section]) -> Callable[[Results], Section]:
    def show(results: Results) -> Section:
        found = measured(results)
        return make(found) if found else _absent(name, title)

    return show


def _rows(make: Callable[[Measured], Rows]) -> Callable[[Results], Rows]:
    def rows(results: Results) -> Rows:
        found = measured(results)
        return make(found) if found else []

    return rows


def _places(m: Measured) -> Section:
    shares = [float(np.mean(o.place.capacity[:, 0] / o.place.capacity.sum(axis=1))) for o in m.outcomes]
    wins = [float(np.mean(o.place.capacity[:, 1] > o.place.capacity[:, 0])) for o in m.outcomes]
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
    total = [("", o.place.capacity.sum(axis=1), svg.PATHS[0], 0.7) for o in m.outcomes]
    everything = np.concatenate([o.place.capacity.sum(axis=1) for o in m.outcomes])
    capacity = Distribution("Capacity of both links", "Mbit/s", [*total, ("all places", everything, svg.INK, 2.4)])
    always = sum(w < 0.1 or w > 0.9 for w in wins)
    source = (
        f"Measured: {', '.join(sorted(m.real))}. Everything else is generated from it."
        if m.real
        else "All of it is generated: the paper's measurements are no longer public. The generator keeps to what is "
        "published of them: LTE faster in 40 % of the measurements, of the lower round-trip time in 20 %; single radio "
        "readings correlate weakly with capacity (0.1 to 0.5)."
    )
    lead = [
        f"{len(m.outcomes)} places of {len(m.outcomes[0].place)} rounds. LTE is the faster link in "
        f"{100 * np.mean(wins):.0f} % of all rounds; in {always} places one link is faster in more than 90 % of them.",
        source,
    ]
    return Section("fig2", "Figures 2 and 3: the places", lead, [card(draw([share, capacity], "The places"))])


def _place_rows(m: Measured) -> Rows:
    return [
        {
            "place": o.place.name,
            "wifi_mbps": float(np.median(o.place.capacity[:, 0])),
            "lte_mbps": float(np.median(o.place.capacity[:, 1])),
            "lte_faster": float(np.mean(o.place.capacity[:, 1] > o.place.capacity[:, 0])),
        }
        for o in m.outcomes
    ]


def _columns(table: Floats) -> list[Mean]:
    return [mean_of(column) for column in table.T]


def _rewards(m: Measured) -> Section:
    curves = []
    for name, life in m.lives.items():
        colour, bold, dashed = STYLE[name]
        table = life.cumulative()
        x = [BATCH * (i + 1) for i in range(table.shape[1])]
        curves.append(Curve(NAMES[name], x, _columns(table), colour, bold, dashed, markers=False))
    panel = Panel("Mean reward of all rounds so far", "round", "mean cumulative reward", curves, from_zero=False)
    late = {name: mean_of(life.late()) for name, life in m.lives.items()}
    ranked = sorted(late, key=lambda name: -late[name].mean)
    rows = [
        [NAMES[n], f"{late[n].mean:.3f}", "" if np.isnan(late[n].half) else f"±{late[n].half:.3f}", f"{late[n].n}"]
        for n in ranked
    ]
    lead = [
        "One learner for all places, refitted every 50 rounds and moved by each outcome. Reward: "
        "throughput and latency "
        "no worse than the running medians of both arms at that place, for transfers of that size and direction: one "
        "threshold for all sizes would pay for the size.",
    ]
    listed = page.table(["policy", "mean reward, second half", "95 %", "seeds"], rows)
    return Section("fig4", "Figure 4: reward of each policy", lead, [card(draw([panel], "Rewards", 4.4)), card(listed)])


def _reward_rows(m: Measured) -> Rows:
    found = []
    for name, life in m.lives.items():
        late = mean_of(life.late())
        half = None if np.isnan(late.half) else late.half
        mean = float(life.rewards.mean())
        found.append({"policy": name, "mean_reward": mean, "late_reward": late.mean, "half": half})
    return found


def _regret(m: Measured) -> Section:
    curves = []
    rounds = len(m.stream)
    ends = [BATCH * (i + 1) - 1 for i in range(rounds // BATCH)]
    for name, life in m.lives.items():
        if name != "oracle":
            colour, bold, dashed = STYLE[name]
            x = [end + 1 for end in ends]
            curves.append(
                Curve(NAMES[name], x, _columns(life.regret[:, ends].astype(float)), colour, bold, dashed, markers=False)
            )
    panel = Panel("Regret against who knows both outcomes", "round", "rewards missed so far", curves)
    stock, chosen = m.lives["wifi first"].regret[:, -1].mean(), m.lives[CHOSEN].regret[:, -1].mean()
    lead = [
        f"Over {rounds} rounds Wi-Fi first misses {stock:.0f} rewards that the other path would have brought, active "
        f"explorer {chosen:.0f}. The oracle also wins the coin flips that no context foretells.",
    ]
    return Section("regret", "Regret", lead, [card(draw([panel], "Regret", 4.0))])


def _regret_rows(m: Measured) -> Rows:
    return [{"policy": n, "regret": float(life.regret[:, -1].mean())} for n, life in m.lives.items()]


def _changing(m: Measured) -> int:
    """The place where the faster link changes most evenly."""
    wins = [abs(float(np.mean(o.place.capacity[:, 1] > o.place.capacity[:, 0])) - 0.5) for o in m.outcomes]
    return int(np.argmin(wins))


def _over_time(m: Measured) -> Section:
    place = _changing(m)
    # One size alone, or the curve shows sizes.
    chosen = (m.stream.place == place) & (m.size == SIZES[2])
    x = m.stream.round[chosen].tolist()

    def mbps(policy: str) -> Floats:
        rate: Floats = m.size[chosen] * 8e-6 / m.of(policy)[0][chosen]
        return rate

    capacity = m.outcomes[place].place.capacity.sum(axis=1)[m.stream.round[chosen]]
    panel = Panel(
        f"1 MB transfers at {m.outcomes[place].place.name}",
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
        "The place where the faster link changes most. The bandit is faster by more than 2 % in "
        f"{100 * better:.0f} % of these transfers, slower in {100 * worse:.0f} %, and starts on the same path in the "
        "others."
    ]
    return Section("fig5", "Figure 5: throughput over time", lead, [card(draw([panel], "Throughput over time", 3.8))])


def _by_place(m: Measured, policy: str, controller: str = "reno") -> list[Floats]:
    rate = m.size * 8e-6 / m.of(policy, controller)[0]
    return [rate[(m.stream.place == p) & m.late] for p in range(len(m.outcomes))]


def _distributions(m: Measured) -> Section:
    bandit, stock = _by_place(m, CHOSEN), _by_place(m, "wifi first")
    shown = range(min(SHOWN, len(bandit)))
    panels = [
        Distribution(
            m.outcomes[p].place.name,
            "Mbit/s",
            [
                ("fullmesh, Wi-Fi first" if p == 0 else "", stock[p], svg.PATHS[0], 1.4),
                ("bandit" if p == 0 else "", bandit[p], svg.PATHS[1], 2.2),
            ],
        )
        for p in shown
    ]
    gains = [float(b.mean() / s.mean() - 1) for b, s in zip(bandit, stock, strict=True)]
    top = int(np.argmax(gains))
    wins = float(np.mean(m.outcomes[top].place.capacity[:, 1] > m.outcomes[top].place.capacity[:, 0]))
    lead = [
        f"Mean throughput against fullmesh by place: from {100 * min(gains):+.0f} % to {100 * max(gains):+.0f} %, "
        f"median {100 * float(np.median(gains)):+.0f} % (second half of the rounds). Most is gained at "
        f"{m.outcomes[top].place.name}, where LTE is faster in {100 * wins:.0f} % of the rounds. In the paper's figure "
        "the bandit is ahead about half of the time at every place.",
    ]
    body = [card(draw(panels[i : i + 3], "Throughput by place", 2.9)) for i in range(0, len(panels), 3)]
    return Section("fig6", "Figure 6: throughput at 12 places", lead, body)


def _gain_rows(m: Measured) -> Rows:
    bandit, stock = _by_place(m, CHOSEN), _by_place(m, "wifi first")
    return [
        {"place": o.place.name, "bandit_mbps": float(b.mean()), "fullmesh_mbps": float(s.mean())}
        for o, b, s in zip(m.outcomes, bandit, stock, strict=True)
    ]


def _system_points(m: Measured, place: int, upload: bool) -> list[tuple[str, float, float, str]]:
    chosen = (m.stream.place == place) & (m.upload == upload) & m.late
    found = []
    for system, colour in zip(SYSTEMS, SYSTEM_COLOURS, strict=True):
        completion, latency = m.of(system.policy, system.controller)
        rate = float((m.size[chosen] * 8e-6 / completion[chosen]).mean())
        found.append((system.name, float(latency[chosen].mean()), rate, colour))
    return found


def _systems(m: Measured) -> Section:
    shown = range(min(SHOWN, len(m.outcomes)))
    body = []
    for upload, word in ((False, "downlink"), (True, "uplink")):
        panels = [Points(f"{m.outcomes[p].place.name}, {word}", _system_points(m, p, upload), p == 0) for p in shown]
        body += [
            card(draw(panels[i : i + 3], f"Throughput and latency, {word}", 2.9)) for i in range(0, len(panels), 3)
        ]
    points = {(p, u): _system_points(m, p, u) for p in shown for u in (False, True)}
    fastest = sum(max(found, key=lambda point: point[2])[0].startswith("bandit") for found in points.values())
    coupled = float(np.mean(m.of("wifi first", "reno")[0] / m.of("wifi first", "lia")[0]))
    lead = [
        f"A bandit system has the highest throughput in {fastest} of {len(points)} pictures. Latency is the round-trip "
        "time, at the end, of the path that the connection started on. Coupled control (LIA) has "
        f"{100 * (coupled - 1):+.1f} % throughput against Reno.",
    ]
    return Section("fig7", "Figure 7: throughput against latency, five systems", lead, body)


def _system_rows(m: Measured) -> Rows:
    return [
        {"place": m.outcomes[p].place.name, "upload": u, "system": name, "latency_ms": x, "mbps": y}
        for p in range(min(SHOWN, len(m.outcomes)))
        for u in (False, True)
        for name, x, y, _ in _system_points(m, p, u)
    ]


show_places, place_rows = _section("fig2", "Figures 2 and 3", _places), _rows(_place_rows)
show_rewards, reward_rows = _section("fig4", "Figure 4", _rewards), _rows(_reward_rows)
show_regret, regret_rows = _section("regret", "Regret", _regret), _rows(_regret_rows)
show_over_time = _section("fig5", "Figure 5", _over_time)
show_distributions, gain_rows = _section("fig6", "Figure 6", _distributions), _rows(_gain_rows)
show_systems, system_rows = _section("fig7", "Figure 7", _systems), _rows(_system_rows)
show_sizes, size_rows = _section("sizes", "Completion time by transfer size", sizes.section), _rows(sizes.rows)
