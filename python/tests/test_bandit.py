"""The bandits from Python: what is learnt, what is refused, what a file keeps."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from multipilot.bandit import Judge, PathBandit, context_names, policies

ARMS = ["wifi", "lte"]


def stream(rounds: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Contexts, and what each arm would pay: the first where the first feature is positive, else the second."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rounds, 2))
    first = rng.random(rounds) < 1 / (1 + np.exp(-3 * x[:, 0]))
    return x, np.stack([first, ~first], axis=1)


def made(policy: str = "active-explorer", **more: object) -> PathBandit:
    return PathBandit(policy, arms=ARMS, features=["a", "b"], seed=1, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("policy", policies())
def test_each_policy_learns_and_its_predictions_are_probabilities(policy: str) -> None:
    x, rewards = stream(1500)
    bandit = made(policy)
    arms = bandit.play(x, rewards)
    assert rewards[np.arange(1500), arms][1000:].mean() > 0.72  # 0.83 at best, 0.5 blindly
    p = bandit.predict_proba(x[:50])
    assert p.shape == (50, 2)
    assert ((p >= 0) & (p <= 1)).all()
    chances = bandit.decision_probabilities(x[:5])
    assert chances.sum(axis=1) == pytest.approx(1)
    assert sum(sum(bandit.counts(arm)) for arm in (0, 1)) == 1500


def test_a_fit_on_a_log_predicts_as_its_stream_pays() -> None:
    x, rewards = stream(2000)
    arms = np.random.default_rng(1).integers(2, size=2000)
    bandit = made().fit(x, list(arms), list(rewards[np.arange(2000), arms]))
    test, truth = stream(500, seed=9)
    assert truth[np.arange(500), bandit.predict(test)].mean() > 0.75


def test_a_saved_bandit_goes_on_where_it_was(tmp_path: Path) -> None:
    x, rewards = stream(400)
    whole, half = made(), made()
    expected = whole.play(x, rewards)
    half.play(x[:200], rewards[:200])
    half.save(tmp_path / "paths.bandit")
    again = PathBandit.load(tmp_path / "paths.bandit")
    assert (again.rounds, again.arms, again.features) == (200, ARMS, ["a", "b"])
    assert list(again.play(x[200:], rewards[200:])) == list(expected[200:])


def test_settings_lie_over_the_published_ones() -> None:
    bandit = made("epsilon-greedy", settings={"policy": {"epsilon": 0.0}, "sgd": {"lambda": 0.5}})
    assert bandit.settings["policy"] == {"name": "epsilon-greedy", "epsilon": 0.0, "decay": 0.9999, "until": None}
    assert bandit.settings["sgd"]["lambda"] == 0.5
    assert bandit.settings["refit_every"] == 50


@pytest.mark.parametrize(
    ("act", "error", "words"),
    [
        (lambda: made("softmax"), ValueError, "no policy .softmax.; there are lin-ucb"),
        (lambda: made(settings={"sdg": {}}), ValueError, "no setting sdg; there are"),
        (lambda: made(settings={"policy": {"exploit": 2}}), ValueError, "exploit is 2; expected a number from 0 to 1"),
        (lambda: made().decide([1.0]), ValueError, "a context of 1 values; this bandit has 2 features"),
        (lambda: made().update([1.0, 2.0], 5, True), IndexError, "arm 5 of 2"),
        (lambda: made().predict([1.0, 2.0]), ValueError, "give one row a context"),
        (lambda: made().partial_fit([[1.0, 2.0]], [0], []), ValueError, "1 contexts, 1 arms, 0 rewards"),
        (lambda: PathBandit.load("/nonexistent"), OSError, "/nonexistent"),
        (lambda: Judge(throughput_mbps=1.0), ValueError, "give both, or none"),
    ],
)
def test_what_cannot_be_is_said_in_one_line(act: object, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words) as raised:
        act()  # type: ignore[operator]
    assert "\n" not in str(raised.value)


@given(st.lists(st.lists(st.floats(), min_size=2, max_size=2), min_size=1, max_size=40), st.integers(0, 2**63))
@settings(max_examples=30, deadline=None)
def test_any_floats_are_a_context(contexts: list[list[float]], seed: int) -> None:
    bandit = PathBandit(arms=ARMS, features=["a", "b"], seed=seed)
    for number, context in enumerate(contexts):
        choice = bandit.decide(context, [True, number % 2 == 0])
        assert 0 <= choice.arm < 2
        assert 0 <= choice.probability <= 1
        bandit.update(context, choice.arm, number % 3 == 0)
    assert np.isfinite(bandit.predict_proba(contexts)).all()


def test_a_judge_asks_for_the_median_of_what_was() -> None:
    judge = Judge(window=3)
    assert judge.thresholds is None
    assert judge.judge(5.0, 20.0)
    assert not judge.judge(4.0, 10.0)
    assert judge.thresholds == (4.5, 15.0)
    assert Judge(10.0, 50.0).judge(10.0, 50.0)


def test_features_are_named_by_path() -> None:
    names = context_names(["wifi", "lte"])
    assert {"wifi.rtt_ms", "wifi.link_speed_mbps", "lte.cqi", "lte.rsrq_db"} <= set(names)
    assert len(names) == len(set(names)) == 20
