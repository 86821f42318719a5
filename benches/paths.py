#!/usr/bin/env python3
"""Controllers on two paths of the running kernel: aggregation, coupling, scenario 2 of the rent-seeking paper.

Prints one JSON document; each figure is a mean with half its 95 % interval over the seeds. Every ratio is taken within
one seed, so that both of its sides met the same losses. Needs root, for the emulated paths.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from multipilot.stats import mean_of

ROOT = Path(__file__).resolve().parent.parent
SUM_OF_RATES = 20.0  # Mbit/s, in every case of scenarios/simult-flows.toml

Row = dict[str, Any]


def compare(binary: Path, scenario: str, *options: str) -> list[Row]:
    """The rows of one comparison; what the command says meanwhile goes to our stderr."""
    with tempfile.TemporaryDirectory() as folder:
        call = [str(binary), "compare", str(ROOT / "scenarios" / scenario), "--world", "kernel", "--json"]
        result = subprocess.run([*call, "--out", f"{folder}/record", *options], stdout=subprocess.PIPE, check=False)
        if result.returncode != 0:
            sys.exit(result.returncode)
        return list(json.loads(result.stdout)["rows"])


def figure(values: Iterable[float]) -> dict[str, float | int | None]:
    mean = mean_of(values)
    half = None if mean.n < 2 else round(mean.half, 3)
    return {"mean": round(mean.mean, 3), "half": half, "n": mean.n}


def grouped(rows: Iterable[Row], *keys: str) -> dict[tuple[str, ...], list[Row]]:
    groups: dict[tuple[str, ...], list[Row]] = defaultdict(list)
    for row in rows:
        groups[tuple(str(row[key]) for key in keys)].append(row)
    return groups


def aggregation(binary: Path, seeds: int) -> dict[str, Any]:
    """Goodput / sum of the rates, per case of simult-flows and controller."""
    rows = compare(binary, "simult-flows.toml", "--seeds", str(seeds))
    cases: dict[str, Any] = defaultdict(dict)
    for row in rows:
        row["case"] = " ".join(row["cell"].values())
    for (case, controller), some in grouped(rows, "case", "controller").items():
        cases[case][controller] = figure(row["goodput_mbps"] / SUM_OF_RATES for row in some)
    return cases


def coupling(binary: Path, seeds: int, duration: str) -> dict[str, Any]:
    """Goodput of a two-subflow connection / that of one Reno flow in the same bottleneck."""
    # Without a little jitter, packets that arrive in step with departures decide who is dropped.
    jitter = [f'--set=paths.{path}.jitter="0..2ms"' for path in ("first", "second")]
    options = ["--seeds", str(seeds), "--duration", duration, *jitter]
    rows = compare(binary, "shared-bottleneck.toml", *options)
    groups = grouped(rows, "controller").items()
    return {name: figure(row["goodput_mbps"] / row["competing_mbps"] for row in some) for (name,), some in groups}


def scenario_2(binary: Path, seeds: int, duration: str) -> dict[str, Any]:
    """RSF-DB against LIA and against Reno on each subflow: two lossy paths, flows that last."""
    controllers = ["lia", "rsf-db", "reno"]
    options = ["--controllers", ",".join(controllers), "--seeds", str(seeds), "--duration", duration]
    rows = [row for row in compare(binary, "rsf/2-long-flows.toml", *options) if row["path_manager"] == "fullmesh"]
    goodput = {(row["controller"], row["seed"]): row["goodput_mbps"] for row in rows}
    of_seeds = sorted({row["seed"] for row in rows})
    result: dict[str, Any] = {
        f"rsf-db/{other}": figure(goodput["rsf-db", seed] / goodput[other, seed] for seed in of_seeds)
        for other in ("lia", "reno")
    }
    result["goodput_mbps"] = {name: figure(goodput[name, seed] for seed in of_seeds) for name in controllers}
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--binary", type=Path, default=ROOT / "target/release/multipilot")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="one seed, shorter runs: the order of magnitude")
    parser.add_argument("--only", default="aggregation,coupling,scenario-2", help="some of them, by comma")
    arguments = parser.parse_args()
    seeds = 1 if arguments.quick else arguments.seeds
    benches = {
        "aggregation": lambda: aggregation(arguments.binary, seeds),
        "coupling": lambda: coupling(arguments.binary, seeds, "20s" if arguments.quick else "60s"),
        "scenario-2": lambda: scenario_2(arguments.binary, seeds, "40s" if arguments.quick else "120s"),
    }
    print(json.dumps({name: benches[name]() for name in arguments.only.split(",")}, indent=2))


if __name__ == "__main__":
    main()
