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
from time import monotonic
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
SCENARIO = ROOT / "scenarios/drones/seven.toml"


def bench(package: str, name: str) -> Any:
    call = ["cargo", "bench", "--quiet", "--locked", "-p", package, "--bench", name]
    return json.loads(subprocess.run(call, cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout)


def simulate(duration: str, train: int) -> tuple[float, float, float]:
    """Goodput in Mbit/s, seconds of wall clock and of CPU of one run on one core."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), monotonic()
    with tempfile.TemporaryDirectory() as folder:
        call = [str(ROOT / "target/release/multipilot"), "compare", str(SCENARIO), "--world", "sim", "--seeds", "1"]
        call += ["--duration", duration, "--set", f"segment_train={train}", "--out", folder, "--json"]
        done = subprocess.run(call, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    goodput = json.loads(done.stdout)["rows"][0]["goodput_mbps"]
    return goodput, monotonic() - start, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    quick = "--quick" in sys.argv[1:]
    # First the slow packets, for as long as they are bearable.
    short = "500ms" if quick else "5s"
    packets, trains = simulate(short, 1), simulate(short, 64)
    goodput, wall, cpu = simulate("10s" if quick else "200s", 64)
    document = {
        "allocation": bench("mp-wireless", "allocation"),
        "super-arm": bench("mp-policy", "super_arm"),
        "run": {"simulated": "10s" if quick else "200s", "goodput_mbps": goodput, "wall_s": wall, "cpu_s": cpu},
        "trains": {"simulated": short, "error": trains[0] / packets[0] - 1, "speed_up": packets[2] / trains[2]},
    }
    print(json.dumps(document))


if __name__ == "__main__":
    main()
