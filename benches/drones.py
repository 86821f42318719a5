#!/usr/bin/env python3
"""Paper drones in figures: beams allocated, super-arms decided, and a 200 s run of ten devices on seven links each.

benches/drones.py [--quick]    prints one JSON document
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import mean, stdev
from time import monotonic
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
SCENARIO = ROOT / "scenarios/drones/seven.toml"


def bench(package: str, name: str) -> Any:
    call = ["cargo", "bench", "--quiet", "--locked", "-p", package, "--bench", name]
    return json.loads(subprocess.run(call, cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout)


def simulate(duration: str, train: int, seeds: int = 1) -> tuple[list[float], float, float]:
    """Goodput of each seed in Mbit/s, seconds of wall clock and of CPU of all."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), monotonic()
    with tempfile.TemporaryDirectory() as folder:
        call = [
            str(ROOT / "target/release/multipilot"),
            "compare",
            str(SCENARIO),
            "--world",
            "sim",
            "--seeds",
            str(seeds),
        ]
        call += ["--duration", duration, "--set", f"segment_train={train}", "--out", folder, "--json"]
        done = subprocess.run(call, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    goodputs = [row["goodput_mbps"] for row in json.loads(done.stdout)["rows"]]
    return goodputs, monotonic() - start, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def error(found: list[float], true: list[float]) -> tuple[float, float]:
    """Difference of the means as a share of the true one, and the half-width of its 95 % interval."""
    ratio = mean(found) / mean(true)
    spread = sum((stdev(of) / mean(of)) ** 2 / len(of) for of in (found, true))
    return ratio - 1, 2.1 * ratio * spread**0.5


def main() -> None:
    quick = "--quick" in sys.argv[1:]
    # Packets for as long as they are bearable. One seed says little: a connection that overruns its window stalls.
    short, seeds = ("500ms", 2) if quick else ("5s", 9)
    packets, trains = simulate(short, 1, seeds), simulate(short, 64, seeds)
    off, half = error(trains[0], packets[0])
    [goodput], wall, cpu = simulate("10s" if quick else "200s", 64)
    document = {
        "allocation": bench("mp-wireless", "allocation"),
        "super-arm": bench("mp-policy", "super_arm"),
        "run": {"simulated": "10s" if quick else "200s", "goodput_mbps": goodput, "wall_s": wall, "cpu_s": cpu},
        "trains": {"simulated": short, "error": off, "half": half, "speed_up": packets[2] / trains[2]},
    }
    print(json.dumps(document))


if __name__ == "__main__":
    main()
