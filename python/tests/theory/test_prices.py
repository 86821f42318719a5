"""LD-MPSP's fluid of windows and prices comes to rest where its closed form says."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from multipilot.theory.prices import WindowPrices, low_delay_equilibrium
from multipilot.theory.rules import LdMpsp


def system(queue: list[float]) -> WindowPrices:
    size = len(queue)
    return WindowPrices(
        LdMpsp(), np.full(size, 0.02), np.array(queue), np.linspace(500.0, 900.0, size), np.full(size, 2e5)
    )


@settings(max_examples=20, deadline=None)
@given(queue=st.lists(st.floats(0, 0.018), min_size=1, max_size=3), near=st.floats(0.8, 1.2))
def test_the_integrator_ends_at_the_closed_form(queue: list[float], near: float) -> None:
    fluid = system(queue)
    windows, prices = low_delay_equilibrium(LdMpsp(), fluid.rtt, fluid.queue, fluid.capacity)
    end = fluid.run(windows * near, prices, 400.0).end
    assert end[: len(queue)] == pytest.approx(windows, rel=0.02)
    assert end[len(queue) :] == pytest.approx(prices, rel=0.05, abs=1e-5)


def test_rest_is_rest() -> None:
    fluid = system([0.0, 0.01])
    rest = np.concatenate(low_delay_equilibrium(LdMpsp(), fluid.rtt, fluid.queue, fluid.capacity))
    assert np.abs(fluid.rhs(rest)).max() < 1e-9


def test_an_idle_link_has_no_price() -> None:
    fluid = system([0.0])
    state = np.array([1.0, 0.0])
    assert fluid.rhs(state)[1] == 0.0
    assert fluid.rhs(np.array([1.0, 0.01]))[1] < 0
