"""A device of the federation's test, ``device.py OWN KNOWN SEED [liar]``: plays MS-UCB, keeps a file of what it saw."""

import sys
import time
from pathlib import Path

import numpy as np

from multipilot.federation import SuperArms, files

REWARD = {"a": 0.9, "b": 0.3, "c": 0.8, "d": 0.2, "e": 0.7, "f": 0.1, "g": 0.4}
LIE = {link: (1e9, 1.0 if REWARD[link] < 0.5 else 0.0) for link in REWARD}


def main(own: Path, known: Path, seed: int, liar: bool) -> None:
    draw = np.random.default_rng(seed)
    device = SuperArms(list(REWARD), 3, seed=seed)
    # A new connection is seeded at its start by what is known here already.
    heard = files.load(known)
    device.begin_with(heard)
    first = device.choose()
    own.with_suffix(".first").write_text(" ".join(sorted(first)), encoding="utf-8")
    while True:
        chosen = device.choose()
        device.learn({link: float(np.clip(REWARD[link] + draw.normal(0, 0.05), 0, 1)) for link in chosen})
        files.save(own, LIE if liar else device.own)
        time.sleep(0.02)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), "liar" in sys.argv)
