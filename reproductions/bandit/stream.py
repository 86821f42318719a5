"""What each choice would have brought: every round of every place, simulated once for each path it could start on.

A round is one transfer under the conditions of that round. With both outcomes known, any policy can live through the
rounds later, its regret is exact, and baselines see the very same network.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

import multipilot
from multipilot.bandit import Judge
from multipilot.papers.provenance import Provenance, commit, of_files, simulator_basis, today
from reproductions.bandit.places import PATHS, Floats, Place

#: Bytes of a transfer, in turn from round to round.
SIZES = (64_000, 256_000, 1_000_000, 4_000_000)
CONTROLLERS = ("reno", "lia")
#: Path managers that differ from fullmesh, all starting on Wi-Fi.
OTHERS = ("single", "ndiffports", "backup")
#: A transfer that takes longer has failed.
LIMIT_S = 60.0
FORMAT = 1


@dataclass(frozen=True)
class Outcomes:
    """Of one place. ``completion_s`` and ``latency_ms`` map (path manager, controller) to one row a round and one
    column a path that the connection starts on; a path manager of :data:`OTHERS` has the first column only, but for
    ``single``. Throughput is size over completion."""

    place: Place
    size: npt.NDArray[np.int64]
    upload: npt.NDArray[np.bool_]
    completion_s: dict[tuple[str, str], Floats]
    latency_ms: dict[tuple[str, str], Floats]
    #: Where they were simulated; none where that was in this call.
    origin: Provenance | None = None

    def mbps(self, manager: str = "fullmesh", controller: str = "reno") -> Floats:
        return self.size[:, None] * 8e-6 / self.completion_s[manager, controller]

    def rewards(self, seed: int = 0) -> npt.NDArray[np.bool_]:
        """What each arm would pay: by the running medians of both arms' throughput and latency, for each size apart,
        as one threshold for all would pay for the size of a transfer. Both directions share a threshold."""
        rng = np.random.default_rng(seed)
        mbps, latency = self.mbps(), self.latency_ms["fullmesh", "reno"]
        judges = {size: Judge() for size in SIZES}
        rewards = np.zeros(mbps.shape, dtype=bool)
        for t in range(len(mbps)):
            judge = judges[int(self.size[t])]
            thresholds = judge.thresholds
            for arm in rng.permutation(mbps.shape[1]):
                judge.judge(mbps[t, arm], latency[t, arm])
            for arm in range(mbps.shape[1]):
                rewards[t, arm] = thresholds is None or (
                    mbps[t, arm] >= thresholds[0] and latency[t, arm] <= thresholds[1]
                )
        return rewards


@dataclass(frozen=True)
class Case:
    """One transfer: the conditions of a round, and the path it starts on."""

    place: Place
    round: int
    first: int
    size: int
    upload: bool

    @property
    def name(self) -> str:
        return f"{self.round}-{self.first}"

    def toml(self) -> str:
        place, t = self.place, self.round
        lines = ["[[cases]]", f'name = "{self.name}"']
        for index, path in enumerate(PATHS):
            lines += [
                f'paths.{path}.rate = "{place.capacity[t, index] * 1000:.0f}kbit"',
                f'paths.{path}.delay = "{place.rtt_ms[t, index] * 500:.0f}us"',
                f"paths.{path}.loss = {place.loss[t, index]:.6f}",
            ]
        order = f'["{PATHS[self.first]}", "{PATHS[1 - self.first]}"]'
        direction = "upload" if self.upload else "download"
        lines.append(f'connections = [{{ paths = {order}, bytes = "{self.size}B", direction = "{direction}" }}]')
        return "\n".join(lines)


def _scenario(cases: list[Case], variants: str) -> str:
    head = [f'duration = "{LIMIT_S:.0f}s"', 'sample_interval = "20ms"']
    paths = [f'[paths.{path}]\nrate = "10Mbit"\ndelay = "20ms"\nqueue = "100p"' for path in PATHS]
    rest = ['[[connections]]\nbytes = "64kB"', f"[[variants]]\n{variants}"]
    return "\n".join([*head, *paths, *rest, *(case.toml() for case in cases)])


def _run(cases: list[Case], variants: str, seed: int) -> dict[tuple[str, str, str], tuple[float, float]]:
    """Completion (s) and latency (ms) by case, path manager and controller."""
    record = multipilot.simulate(_scenario(cases, variants), seeds=1, seed=seed)
    rows, samples = record.row_dicts, record.samples
    row_of, path_of = samples["row"].to_numpy(), samples["path"].to_numpy(zero_copy_only=False)
    srtt, time = samples["srtt_us"].to_numpy(), samples["time_s"].to_numpy()
    starts = np.searchsorted(row_of, np.arange(len(rows) + 1))
    orders = {case.name: PATHS[case.first] for case in cases}
    found = {}
    for index, row in enumerate(rows):
        name = row["variant"].rsplit(" ", 1)[-1]
        completion = row["completion_s"] or LIMIT_S
        own = slice(starts[index], starts[index + 1])
        chosen = (path_of[own] == orders[name]) & (srtt[own] > 0) & (time[own] <= completion)
        latency = float(srtt[own][chosen][-1]) / 1e3 if chosen.any() else np.nan
        found[name, row["path_manager"], row["controller"]] = (completion, latency)
    return found


def simulate(place: Place, seed: int = 1) -> Outcomes:
    """All rounds of a place: both arms with each controller, the other path managers with Reno."""
    rounds = len(place)
    size = np.array([SIZES[t % len(SIZES)] for t in range(rounds)], dtype=np.int64)
    upload = np.array([(t // len(SIZES)) % 2 == 1 for t in range(rounds)])
    wifi, lte = (
        [Case(place, t, first, int(size[t]), bool(upload[t])) for t in range(rounds)] for first in range(len(PATHS))
    )
    found = _run([*wifi, *lte], f"controller = {json.dumps(CONTROLLERS)}", seed)
    found |= _run(wifi, f'controller = "reno"\npath_manager = {json.dumps(OTHERS)}', seed)
    found |= _run(lte, 'controller = "reno"\npath_manager = "single"', seed)
    keys = [("fullmesh", c) for c in CONTROLLERS] + [(m, "reno") for m in OTHERS]
    completion, latency = {}, {}
    for manager, controller in keys:
        table = np.array(
            [
                [found.get((f"{t}-{first}", manager, controller), (np.nan, np.nan)) for first in (0, 1)]
                for t in range(rounds)
            ]
        )
        completion[manager, controller] = table[:, :, 0]
        # Without one sample the path was silent: at least its propagation.
        latency[manager, controller] = np.where(np.isnan(table[:, :, 1]), place.rtt_ms, table[:, :, 1])
    return Outcomes(place, size, upload, completion, latency)


def basis() -> str:
    """The scenario's text and the readings are this module's, the rest is the simulator's."""
    return simulator_basis("fullmesh", *CONTROLLERS, *OTHERS) + of_files(Path(__file__))[:6]


def load_or_simulate(place: Place, folder: Path, seed: int = 1, recall: bool = False) -> Outcomes | None:
    """The outcomes from ``folder`` where these very rounds were simulated before, else simulated now."""
    asked = hashlib.sha256(json.dumps([FORMAT, basis(), seed, SIZES, place.name]).encode())
    for table in (place.capacity, place.rtt_ms, place.loss, np.nan_to_num(place.context, nan=-1e6)):
        asked.update(np.round(table, 9).tobytes())
    file = folder / f"{place.name}-{asked.hexdigest()[:10]}.npz"
    if file.exists():
        with np.load(file) as kept:
            split = [key.split("/") for key in kept.files if "/" in key]
            return Outcomes(
                place,
                kept["size"],
                kept["upload"],
                {(m, c): kept[f"{what}/{m}/{c}"] for what, m, c in split if what == "completion"},
                {(m, c): kept[f"{what}/{m}/{c}"] for what, m, c in split if what == "latency"},
                Provenance(**json.loads(str(kept["origin"]))),
            )
    if recall:
        return None
    origin = Provenance(commit(Path(__file__).parent), today(), basis(), 1)
    outcomes = replace(simulate(place, seed), origin=origin)
    folder.mkdir(parents=True, exist_ok=True)
    tables = {f"completion/{m}/{c}": v for (m, c), v in outcomes.completion_s.items()}
    tables |= {f"latency/{m}/{c}": v for (m, c), v in outcomes.latency_ms.items()}
    fresh = file.with_suffix(".new.npz")
    told = json.dumps(asdict(origin))
    np.savez_compressed(fresh, size=outcomes.size, upload=outcomes.upload, origin=told, **tables)  # type: ignore[arg-type]
    fresh.replace(file)
    return outcomes
