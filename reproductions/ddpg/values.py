"""The values that ``claims.toml`` is about, by name. Every name is there in every world, measured or not.

fig4.CONTROLLER.WHAT.BUFFER   Mbit/s; WHAT: goodput, one (on path 1), rival (the single-path connection on path 2)
fig5.CONTROLLER.WHAT.LOSS     Mbit/s; WHAT: goodput, rival
fig6., fig7., fig8.WHO        intervals 51 to 100; WHO: learned and its rival, and plain and its rival (two MPCC)
fig6.lead, fig7.lead          of the learned actor over the MPCC beside it, run by run
fig6.rise                     the learned actor's mean rate, last ten intervals less the second ten, after slow start
fig7.rise, fig7.rise-rival    mean utility of it and of the MPCC beside it, the same intervals
fig7.lead-rise                how much more its utility rises than the other's, run by run
fig8.rise                     its mean reward, the same intervals
alone.CONTROLLER.LOSS         over BBR on each subflow, one connection alone
peak.CONTROLLER.LOSS          the same connection's goodput over what its utility's peak X*(L) lets arrive
short.CONTROLLER.SIZE         s, median completion of downloads
below.cells                   cells of figures 4 and 5, of unlike rates and alone in which DDPG-MPCC carries
                              significantly less than MPCC (intervals widened for the number of cells)
pair.CONTROLLER.WHAT          beside MPCC on both paths; WHAT: goodput, mpcc
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from multipilot.papers.claims.quantity import MISSING, Values, constant
from multipilot.papers.results import SIM, Results, path_mbps, ratio
from multipilot.stats import Mean, mean_of
from reproductions.ddpg import below, plan, tolerance
from reproductions.ddpg.intervals import PLAIN, Course, measured
from reproductions.ddpg.sections import PAYLOAD, of_rivals, resting_rate
from reproductions.ddpg.topologies import LOSSES, QUEUES

FIGURES = {"fig6": "rate", "fig7": "utility", "fig8": "reward"}
#: MPCC's utility in Mbit/s, and that of its published code in bytes/s.
_PEAKS = (
    ("mpcc", "0.08", resting_rate(0.08)),
    ("mpcc-code", "0.02", resting_rate(0.02, beta=tolerance.CODE_BETA) * 8e-6),
)
COURSES = ("learned", "learned-rival", "plain", "plain-rival")
#: Name, course, what.
_RISES = (
    ("fig6.rise", "learned", "rate"),
    ("fig7.rise", "learned", "utility"),
    ("fig7.rise-rival", "learned-rival", "utility"),
    ("fig8.rise", "learned", "reward"),
)


def values(results: Results, world: str) -> Values:
    found: dict[str, Mean] = {}
    for controller in plan.CONTROLLERS:
        for measure, what in (("goodput_mbps", "goodput"), (path_mbps("one"), "one"), (of_rivals, "rival")):
            for queue, _ in QUEUES:
                mean = results.mean(world, plan.BUFFERS, controller, measure, {plan.QUEUE_KEY: queue})
                found[f"fig4.{controller}.{what}.{queue}"] = mean
        for measure, what in (("goodput_mbps", "goodput"), (of_rivals, "rival")):
            for loss, _ in LOSSES:
                found[f"fig5.{controller}.{what}.{loss}"] = results.mean(
                    world, plan.LOSS, controller, measure, {plan.LOSS_KEY: loss}
                )
        found[f"pair.{controller}.goodput"] = results.mean(world, plan.AGAINST, controller, "goodput_mbps")
        found[f"pair.{controller}.mpcc"] = results.mean(world, plan.AGAINST, controller, "competing_mbps")
    for loss in ("0.02", "0.05", "0.08"):
        found[f"alone.mpcc.{loss}"] = tolerance.over_bbr(results, "mpcc", loss, world)
    for controller, loss, rest in _PEAKS:
        goodput = results.mean(world, plan.ALONE, controller, "goodput_mbps", {plan.LOSS_KEY: loss})
        found[f"peak.{controller}.{loss}"] = ratio(goodput, constant(rest * (1 - float(loss)) * PAYLOAD))
    for controller in plan.CONTROLLERS:
        median = results.mean(world, plan.SHORT, controller, "completion_median_s", {plan.SIZE_KEY: "1MB"})
        found[f"short.{controller}.1MB"] = median
    found["below.cells"] = below.count(results, world)
    courses = _courses(results) if world == SIM else {}
    for figure, what in FIGURES.items():
        for who in COURSES:
            found[f"{figure}.{who}"] = courses[who].late(what) if who in courses else MISSING
    for name, who, what in _RISES:
        found[name] = mean_of(rises(courses[who], what)) if who in courses else MISSING
    both = courses.get("learned"), courses.get("learned-rival")
    found["fig6.lead"] = lead(*both, lambda course: course.late_of("rate"))
    found["fig7.lead"] = lead(*both, lambda course: course.late_of("utility"))
    found["fig7.lead-rise"] = lead(*both, lambda course: rises(course, "utility"))
    return found


def _courses(results: Results) -> dict[str, Course]:
    """Of the actor that ships, and of plain MPCC."""
    kept = measured(results)
    found: dict[str, Course] = {}
    for name, (tested, rival) in kept.beside.items():
        if name == PLAIN:
            found |= {"plain": tested, "plain-rival": rival}
        elif kept.actors[name].shipped:
            found |= {"learned": tested, "learned-rival": rival}
    return found


def lead(ours: Course | None, other: Course | None, value: Callable[[Course], Iterable[float]]) -> Mean:
    """Both share the links of one run: what one has more the other often has less."""
    if ours is None or other is None:
        return MISSING
    return mean_of(a - b for a, b in zip(value(ours), value(other), strict=True))


def rises(course: Course, what: str) -> list[float]:
    """Of each run, the last ten intervals less the second ten: in the first ten, slow start, any controller's rate
    rises, and its utility and reward change with the rate.
    """
    return [float(row[-10:].mean() - row[10:20].mean()) for row in getattr(course, what)]
