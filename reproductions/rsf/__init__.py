"""Paper *rsf*: multipath congestion control as a rent-seeking game (Future Internet 14(9), 257, 2022).

printed   what the paper prints, and how to read it
values    the values that claims.toml is about
table     table 2
figures   figures 3 to 11
fairness  what the paper leaves out
theory    pictures of the theory
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from multipilot.papers.claims import load
from multipilot.papers.paper import Experiment, Item, Paper, Point
from reproductions.rsf import fairness, figures, sweeps, table, theory
from reproductions.rsf.printed import BDP, SHARED_BDP, TABLE
from reproductions.rsf.values import values

_QUICK = {"grid.paths.*.queue": "1bdp"}
_SECONDS = {"sample_interval": "1s"}

EXPERIMENTS = (
    Experiment("0-single-path", _QUICK),
    Experiment("1-no-loss", _QUICK),
    Experiment("2-loss-2-percent", _QUICK),
    Experiment("2-long-flows"),
    Experiment("3-loss-10-percent", _QUICK),
    Experiment("4-bandwidth", _QUICK),
    Experiment("5-delay", _QUICK),
    Experiment("6-loss", _QUICK),
    Experiment("7-short-flows", _QUICK),
    Experiment("7-eight-flows"),
    Experiment("8-path-failure", _QUICK, _SECONDS),
    Experiment("9-competing-tcp", _QUICK),
    Experiment("9-shared-bottleneck"),
    Experiment("w-wifi", _QUICK),
    Experiment("goal-1-throughput"),
    Experiment("goal-2-no-harm"),
    Experiment("goal-3-balance"),
    Experiment("target-delay"),
    Experiment("target-loss"),
)


def _points() -> tuple[Point, ...]:
    """What the paper claims first, then each row's RSF and LIA, then who else goes on after a path's death."""
    long = [Point("2-long-flows", BDP, c) for c in ("rsf-db", "lia", "reno")]
    two = next(row for row in TABLE if row.id == "2")
    second = [Point(two.scenario, two.cell, c) for c in ("rsf-db", "lia", "reno", "bbr", "olia", "balia")]
    harm = [Point("9-shared-bottleneck", SHARED_BDP, c) for c in ("rsf-db", "reno", "lia")]
    goal = [Point("goal-1-throughput", {}, "lia"), Point("goal-1-throughput", {}, "reno", "single")]
    rest = [Point(row.scenario, row.cell, c) for row in TABLE if row.id != "2" for c in (row.rsf, "lia")]
    eight = next(row for row in TABLE if row.id == "8")
    failure = [Point(eight.scenario, eight.cell, c) for c in ("reno", "olia", "balia")]
    return (*long, *second, *harm, *goal, *rest, *failure)


_SCENARIOS = tuple(dict.fromkeys(row.scenario for row in TABLE))

PAPER = Paper(
    name="rsf",
    title="Multipath congestion control as a rent-seeking game",
    source="Future Internet 14(9), 257, 2022",
    claims=load(Path(__file__).with_name("claims.toml")),
    values=values,
    experiments=EXPERIMENTS,
    points=_points(),
    items=(
        Item("table2", _SCENARIOS, table.show),
        Item("fig3", ("2-loss-2-percent",), partial(sweeps.show_sweep, sweeps.SWEEPS[0])),
        Item("fig4", ("2-loss-2-percent",), figures.show_jain),
        Item("fig5", ("4-bandwidth",), partial(sweeps.show_sweep, sweeps.SWEEPS[1])),
        Item("fig6", ("5-delay",), partial(sweeps.show_sweep, sweeps.SWEEPS[2])),
        Item("fig7", ("6-loss",), partial(sweeps.show_sweep, sweeps.SWEEPS[3])),
        Item("fig8", ("7-short-flows", "7-eight-flows"), figures.show_short),
        Item("fig9", ("8-path-failure",), figures.show_failure),
        Item("fig10", ("9-competing-tcp",), figures.show_competing),
        Item("bottleneck", ("9-shared-bottleneck",), fairness.bottleneck),
        Item("fig11", ("w-wifi",), figures.show_wifi),
        Item("goals", ("goal-1-throughput", "goal-2-no-harm", "goal-3-balance"), fairness.goals),
        Item("built-in", _SCENARIOS, fairness.built_in),
        Item("targets", ("2-long-flows", "target-delay", "target-loss"), fairness.targets),
        Item("buffers", _SCENARIOS, table.show_deep),
        Item("game", (), theory.game),
        Item("phase", (), theory.phase),
        Item("lyapunov", (), theory.lyapunov),
        Item("regret", (), theory.regret),
    ),
)
