"""What is known of links, as JSON: ``{"ap-1": [12, 0.8]}``, count and mean reward. A reader never sees half of it."""

from __future__ import annotations

import json
import math
from pathlib import Path

from multipilot.federation.bandit import Known
from multipilot.files import replacing

MOST_LINKS = 64
LONGEST_NAME = 64


def read(text: str | bytes) -> Known:
    """What a stranger says: anything but links with a finite count and a mean from 0 to 1 is a ValueError."""
    found = json.loads(text)
    if not isinstance(found, dict) or len(found) > MOST_LINKS:
        raise ValueError(f"expected an object of at most {MOST_LINKS} links")
    known: Known = {}
    for link, arm in found.items():
        if len(link) > LONGEST_NAME:
            raise ValueError(f"a link's name has {len(link)} letters; at most {LONGEST_NAME}")
        numbers = isinstance(arm, list) and len(arm) == 2 and all(type(v) in (int, float) for v in arm)
        if not (numbers and math.isfinite(arm[0]) and arm[0] >= 0 and 0 <= arm[1] <= 1):
            raise ValueError(f"{link}: expected [count, mean] with a mean from 0 to 1")
        known[link] = (float(arm[0]), float(arm[1]))
    return known


def show(known: Known) -> str:
    return json.dumps(known, sort_keys=True)


def load(path: Path) -> Known:
    """Nothing where there is no file yet."""
    try:
        return read(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def save(path: Path, known: Known) -> None:
    with replacing(path) as fresh:
        fresh.write_text(show(known), encoding="utf-8")
