#!/usr/bin/env python3
"""The relay on real sockets: what a flow gets of the links, what calls and pages have, and what a host pays for it.

Prints one JSON document. Needs root and the Python package. The relay has its defaults, the
scheduler min-rtt and the controller pilot (bbr where that cannot be loaded); in the same run stands what MPTCP of the
kernel has, with bbr and with cubic, its default.

    shares   one flow's share of the sum of two emulated links, up and down
    voice    one-way times of a call beside an upload
    call     lost packets of a call over lossy links, and where one dies
    quic     a download over QUIC, and round trips of a small UDP flow beside it
    schedulers  one-way times of a UDP flow, by scheduler
    silence  of a download where a link dies or goes down
    pages    round trips of a small page
    busy     memory of flows that carry something
    flows    memory of connections that nobody uses
    host     CPU, round trips and memory on links without rate or delay
    beside   round trips beside UDP that is faster than the links
    rivals   connections and a download by SOCKS, beside shadowsocks-rust if ssserver and sslocal are in PATH
    pairs    random pairs of links: never slower than over the better one? On sockets; more of them in the simulator
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import relay_cost
import relay_delay
import relay_paths
from relay_host import ROOT


def pairs(binary: Path, quick: bool, folder: Path | None) -> dict[str, Any]:
    found = {
        "sockets": relay_paths.pairs(binary, "relay", 3 if quick else 30, 10),
        "simulator": relay_paths.pairs(binary, "sim", 50 if quick else 1000, 10),
    }
    if folder:
        found["traces"] = relay_paths.traces(binary, "relay", folder, 10 if quick else 60)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", type=Path, default=ROOT / "target/release/multipilot")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="two runs at most, shorter: the order of magnitude")
    parser.add_argument("--only", default="", help="some of them, by comma [default: all but pairs]")
    parser.add_argument("--traces", type=Path, metavar="FOLDER", help="pairs: Mahimahi traces beside 20 Mbit/s too")
    arguments = parser.parse_args()
    binary, quick = arguments.binary.resolve(), arguments.quick
    runs, seconds = (min(arguments.runs, 2), 4) if quick else (arguments.runs, 8)
    parts: dict[str, Callable[[], Any]] = {
        "shares": lambda: relay_paths.shares(binary, runs, seconds),
        "voice": lambda: relay_delay.voice(binary, runs, 6 if quick else 20),
        "call": lambda: relay_delay.call(binary, runs, 1000 if quick else 5000),
        "quic": lambda: relay_delay.quic(binary, runs, 6 if quick else 12),
        "schedulers": lambda: relay_delay.schedulers(binary, runs, seconds),
        "silence": lambda: relay_delay.silence(binary, runs),
        "pages": lambda: relay_delay.pages(binary, runs, 20 if quick else 50),
        "busy": lambda: relay_cost.busy(binary, runs, seconds),
        "flows": lambda: relay_cost.flows(binary, runs),
        "host": lambda: relay_cost.host(binary, runs, 5),
        "beside": lambda: relay_cost.beside(binary, runs, seconds),
        "rivals": lambda: relay_cost.rivals(binary, runs, seconds),
        "pairs": lambda: pairs(binary, quick, arguments.traces),
    }
    only = arguments.only.split(",") if arguments.only else [name for name in parts if name != "pairs"]
    if unknown := set(only) - parts.keys():
        parser.error(f"--only: unknown {', '.join(sorted(unknown))}; expected some of {', '.join(parts)}")
    # As Ctrl-C: what runs in the namespaces ends, and they go.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    figures = {}
    try:
        for name in only:
            figures[name] = parts[name]()
    finally:
        # What a part that fails, or Ctrl-C, leaves.
        print(json.dumps(figures, indent=2))


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
