"""Tables in Markdown, and their cells."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import median
from typing import Any


def table(title: str, header: Iterable[str], rows: Iterable[Iterable[Any]]) -> None:
    header = list(header)
    print(f"\n**{title}**\n")
    print("| " + " | ".join(header) + " |")
    print("| --- " + "| ---: " * (len(header) - 1) + "|")
    for row in rows:
        print("| " + " | ".join(str(cell) for cell in row) + " |")


def middle(values: Iterable[float], digits: int = 2) -> str:
    """Median (least … most). Of five values these ends are the median's 94 % interval."""
    found = sorted(values)
    return f"{median(found):.{digits}f} ({found[0]:.{digits}f} … {found[-1]:.{digits}f})"
