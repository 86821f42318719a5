import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats as reference

from multipilot import console
from multipilot.stats import Mean, difference, mean_of, widening

numbers = st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=40)


@given(numbers)
def test_interval_is_students(values: list[float]) -> None:
    found = mean_of(values)
    spread = np.std(values, ddof=1) / math.sqrt(len(values))
    if spread == 0:
        assert found.half == 0
        return
    low, high = reference.t.interval(0.95, len(values) - 1, loc=np.mean(values), scale=spread)
    assert (found.low, found.high) == pytest.approx((low, high), rel=1e-6, abs=1e-6)


@given(numbers, numbers)
def test_difference_agrees_with_welch(a: list[float], b: list[float]) -> None:
    gap = difference(mean_of(a), mean_of(b))
    if np.std(a) < 1e-3 or np.std(b) < 1e-3:
        return
    interval = reference.ttest_ind(a, b, equal_var=False).confidence_interval(0.95)
    assert (gap.low, gap.high) == pytest.approx((interval.low, interval.high), rel=1e-6, abs=1e-6)


def test_interval_covers_the_truth_nineteen_times_in_twenty() -> None:
    rng = np.random.default_rng(7)
    hits = sum(abs(m.mean - 5) <= m.half for m in (mean_of(rng.normal(5, 2, 6)) for _ in range(4000)))
    assert hits / 4000 == pytest.approx(0.95, abs=0.012)


def test_one_value_claims_no_interval() -> None:
    assert math.isnan(mean_of([3.0]).half)
    assert math.isnan(difference(mean_of([3.0]), mean_of([1.0, 2.0])).half)
    assert mean_of([]).n == 0
    assert mean_of([1.0, math.nan, 3.0]) == Mean(2.0, mean_of([1.0, 3.0]).half, 2, mean_of([1.0, 3.0]).std)


def test_a_mean_is_said_with_its_interval() -> None:
    found = (console.mean(mean_of(values)) for values in ([1.0, 2.0, 3.0], [2.0], []))
    assert [*found] == ["2.00 ± 2.48", "2.00", "–"]
    assert console.mean(mean_of([1.0, 2.0, 3.0]), 0) == "2 ± 2"


def test_an_interval_is_widened_to_the_error_of_many_together() -> None:
    assert widening(10, 1) == 1
    # Student's t with 9 degrees of freedom: 2.262 at 97.5 %, 3.690 at 99.75 %.
    assert widening(10, 10) == pytest.approx(3.690 / 2.262, rel=1e-3)
    assert widening(10, 20) > widening(10, 10)
