"""Fluid systems: the rent-seeking one with its Lyapunov function, and controllers' windows."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from multipilot.theory.fluid import Network, PrimalDual, WindowFluid
from multipilot.theory.lyapunov import Lyapunov
from multipilot.theory.rules import RULES, Balia, LdMpsp, Lia, Reno, RsfDb, RsfLb

rate = st.floats(0.05, 20)
GAINS = {"linear": lambda z: z, "constant": lambda z: 1.0, "quadratic": lambda z: z * z}


@pytest.mark.parametrize("gain", GAINS)
@settings(max_examples=300, deadline=None)
@given(data=st.data(), size=st.integers(2, 5))
def test_lyapunov_never_grows(gain: str, data: st.DataObject, size: int) -> None:
    points = arrays(float, size, elements=rate)
    lyapunov = Lyapunov.of(data.draw(points), GAINS[gain], data.draw(points))
    rates, prices = data.draw(points), data.draw(arrays(float, size, elements=st.floats(0, 5)))
    scale = 1 + np.abs(rates).max() * max(1.0, prices.max())
    assert lyapunov.derivative(rates, prices) <= 1e-9 * scale


@settings(max_examples=50, deadline=None)
@given(data=st.data(), size=st.integers(2, 4))
def test_the_derivative_is_that_of_the_value(data: st.DataObject, size: int) -> None:
    points = arrays(float, size, elements=st.floats(0.5, 5))
    lyapunov = Lyapunov.of(data.draw(points), price_gain=0.7)
    rates, prices = data.draw(points), data.draw(points)
    change = lyapunov.system().rhs(np.concatenate([rates, prices]))
    step = 1e-6
    ahead = lyapunov.value(rates + step * change[:size], prices + step * change[size:])
    behind = lyapunov.value(rates - step * change[:size], prices - step * change[size:])
    assert (ahead - behind) / (2 * step) == pytest.approx(lyapunov.derivative(rates, prices), rel=1e-4, abs=1e-5)


def test_lyapunov_is_zero_at_rest_and_positive_elsewhere() -> None:
    lyapunov = Lyapunov.of([1.0, 2.0])
    rest, prices = lyapunov.equilibrium
    assert lyapunov.value(rest, prices) == pytest.approx(0, abs=1e-12)
    assert lyapunov.value(rest * 1.5, prices) > 0.01
    assert lyapunov.value(rest, prices + 0.1) > 0.001


def test_every_start_reaches_the_one_equilibrium() -> None:
    lyapunov = Lyapunov.of([1.0, 2.0, 0.5])
    rest, price_rest = lyapunov.equilibrium
    rng = np.random.default_rng(3)
    for _ in range(8):
        run = lyapunov.system().run(rng.uniform(0.1, 8, 3), rng.uniform(0, 2, 3), 400)
        assert run.end == pytest.approx(np.concatenate([rest, price_rest]), rel=1e-3)
        assert np.diff(lyapunov.along(run)).max() < 1e-6


def test_a_throughput_that_follows_the_rates_can_make_it_grow() -> None:
    """The condition on θ is needed: the system with θ_i = V(λ_i/Σλ) climbs somewhere near the same equilibrium."""
    theta = np.array([1.0, 2.0])
    lyapunov = Lyapunov.of(theta)
    capacity = theta.sum()
    following = PrimalDual.rent_seeking(lambda rates: capacity * rates / rates.sum())
    rest, price_rest = lyapunov.equilibrium
    assert following.rhs(np.concatenate([rest, price_rest])) == pytest.approx(np.zeros(4), abs=1e-9)
    rng = np.random.default_rng(0)
    climbs = [
        lyapunov.derivative(rest * rng.uniform(0.5, 2, 2), price_rest * rng.uniform(0.2, 3, 2), following)
        for _ in range(500)
    ]
    assert max(climbs) > 1e-3


def settled(rule: object, network: Network, seconds: float = 600, **more: object) -> np.ndarray:
    size = network.rtt.size
    fluid = WindowFluid(rule, network, **more)
    return fluid.run(np.full(size, 10.0), seconds).end[:size]


@pytest.mark.parametrize("loss", [0.001, 0.01, 0.02])
def test_reno_meets_the_square_root_law(loss: float) -> None:
    window = settled(Reno(), Network.separate([0.05], [loss]))
    assert window[0] == pytest.approx(np.sqrt(1.5 * (1 - loss) / loss), rel=1e-3)


@pytest.mark.parametrize("name", ["lia", "olia", "balia"])
def test_coupled_rules_take_on_equal_paths_what_one_reno_takes(name: str) -> None:
    network = Network.separate([0.15, 0.15], [0.001, 0.001])
    alone = settled(Reno(), Network.separate([0.15], [0.001]))[0]
    assert settled(RULES[name], network, 3000).sum() == pytest.approx(alone, rel=0.02)


@pytest.mark.parametrize("rule", [Reno(), RsfDb(), RsfLb()])
def test_uncoupled_rules_take_it_on_each_path(rule: object) -> None:
    alone = settled(Reno(), Network.separate([0.15], [0.001]))[0]
    assert settled(rule, Network.separate([0.15, 0.15], [0.001, 0.001])) == pytest.approx([alone, alone], rel=1e-3)


def test_rsf_lb_is_reno_below_half_its_target_and_holds_the_loss_rate_above() -> None:
    # λl = sqrt(1.5 l)/τ: 1.15 lost packets/s at 2 % and 150 ms, 10.6 at 3 % and 20 ms
    slow, fast = Network.separate([0.15], [0.02]), Network.separate([0.02], [0.03])
    assert settled(RsfLb(), slow) == pytest.approx(settled(Reno(), slow), rel=1e-6)
    assert settled(RsfLb(), fast)[0] < 0.8 * settled(Reno(), fast)[0]


def test_rsf_db_is_reno_below_half_its_target_and_holds_the_queue_above() -> None:
    # 1000 packets/s; a buffer of 40 ms never reaches d/2 = 50 ms, one of 400 ms does
    shallow = Network.separate([0.05], [0.0], 1000, 0.04)
    deep = Network.separate([0.05], [0.0], 1000, 0.4)

    def queue(rule: object, network: Network) -> float:
        return WindowFluid(rule, network).run([10.0], 300).end[1]

    assert queue(RsfDb(), shallow) == pytest.approx(queue(Reno(), shallow), rel=1e-3)
    assert queue(RsfDb(), deep) == pytest.approx(0.1, rel=0.02)  # rests where its growth ends: q = d
    assert queue(Reno(), deep) > 0.18


def test_ld_mpsp_equilibrium() -> None:
    # l = (8/3)·((τ*−q)/τ*)/w_max², w_max = 4w/3, at q = 0
    loss = 0.002
    window = settled(LdMpsp(), Network.separate([0.05], [loss]))[0]
    assert (8 / 3) / (4 * window / 3) ** 2 == pytest.approx(loss / (1 - loss), rel=1e-3)


def test_lia_moves_off_the_worse_path_and_never_beats_reno_on_one() -> None:
    network = Network.separate([0.05, 0.05], [0.001, 0.01])
    windows = settled(Lia(), network)
    alone = settled(Reno(), network)
    assert windows[0] > 2 * windows[1]
    assert np.all(windows <= alone * 1.001)


def test_a_shared_bottleneck_gives_coupled_rules_a_fair_share() -> None:
    """Two subflows of one connection and a single Reno flow through one link, 20 Mbit/s, 1 BDP at 40 ms."""
    network = Network(
        rtt=np.full(3, 0.04),
        loss=np.full(3, 0.002),
        route=np.ones((1, 3)),
        capacity=np.array([1700.0]),
        buffer=np.array([0.04]),
    )
    share = {}
    for name in ("reno", "lia", "balia", "rsf-db"):
        fluid = WindowFluid((RULES[name], Reno()), network, np.array([0, 0, 1]))
        rates = fluid.rates(fluid.run(np.full(3, 10.0), 600))[:, -1]
        share[name] = rates[:2].sum() / rates[2]
    assert share["lia"] == pytest.approx(1, rel=0.05)
    assert share["balia"] == pytest.approx(1, rel=0.05)
    assert share["reno"] == pytest.approx(2, rel=0.05)
    assert share["rsf-db"] == pytest.approx(2, rel=0.05)


def test_balia_takes_less_from_the_larger_rate_on_loss() -> None:
    from multipilot.theory.rules import State

    state = State(np.array([10.0, 40.0]), np.array([0.1, 0.1]), np.zeros(2), np.zeros(2))
    assert Balia().decrease(state) / state.window == pytest.approx([2 / 3 * 1.5, 2 / 3])
