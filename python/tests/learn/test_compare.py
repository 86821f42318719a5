"""The shipped actor beside MPCC on simulations that its training never saw; the seed decides every figure."""

from __future__ import annotations

from pathlib import Path

import pytest

from multipilot.learn.compare import compare

SHIPPED = Path(__file__).parents[3] / "crates/policy/actors/ddpg.json"


@pytest.mark.parametrize("case", ["paths", "long", "loss-4"])
def test_the_shipped_actor_carries_more_than_mpcc(case: str) -> None:
    found = compare({"shipped": SHIPPED}, [case], seeds=6, intervals=60)[case]
    assert found["shipped"]["goodput_ratio"].mean > 1
    assert found["MPCC"]["goodput_ratio"].mean == 1
    # Not by a standing queue.
    assert found["shipped"]["rtt_ratio"].mean < 1.1
