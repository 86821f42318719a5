"""The environments: their contract, and that the seed decides everything."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from multipilot import SimulationError, expand
from multipilot.env import BASE, Lanes, Task

SMALL = Task({**BASE, "paths": {n: {"rate": "10Mbit", "delay": "10ms", "queue": "30p"} for n in ("a", "b")}})
VARIED = replace(SMALL, rate_mbps=(4, 12), rtt_ms=(15, 40), queue_bdp=(0.5, 2), loss=(0, 0.05), change_s=(1, 3))


def walk(lanes: Lanes, steps: int) -> np.ndarray:
    asked = lanes.step()
    rows = []
    for _ in range(steps):
        asked = lanes.step(np.sin(9 * asked.observations.sum(axis=1)))
        rows.append(np.concatenate([asked.observations, asked.facts], axis=1))
    return np.array(rows)


def test_the_seed_decides_and_threads_do_not() -> None:
    one = walk(Lanes(VARIED, 3, seed=5, steps=20), 50)
    assert np.array_equal(one, walk(Lanes(VARIED, 3, seed=5, steps=20, threads=2), 50))
    assert not np.array_equal(one, walk(Lanes(VARIED, 3, seed=6, steps=20), 50))


def test_an_episode_can_be_called_by_its_number() -> None:
    lanes = Lanes(VARIED, 1, seed=5, steps=10)
    all_of_it = walk(lanes, 39)
    again = Lanes(VARIED, 1, seed=5, steps=10)
    again.restart(5, 2)
    assert np.array_equal(again.step().observations[0], all_of_it[19][0][:12])


def test_watched_connections_run_plain_mpcc() -> None:
    asked = Lanes(SMALL, 1, watched=[0]).step()
    assert asked.fact("asked")[0] == 0
    assert np.isfinite(asked.facts).all()


def test_a_built_in_scenario_can_be_steered() -> None:
    task = Task(expand("wifi-lte", controllers=["ddpg-mpcc"]))
    assert np.isfinite(walk(Lanes(task, 1, steps=20), 20)).all()
    with pytest.raises(ValueError, match="no built-in of that name"):
        Lanes(Task("wifi-lt"), 1)


def test_a_scenario_without_a_learned_controller_says_so() -> None:
    other = Task({**BASE, "duration": "11s", "variants": [{"controller": "lia"}]})
    with pytest.raises(SimulationError, match="ddpg-mpcc"):
        Lanes(other, 1).step()


def test_a_range_that_is_none_says_so() -> None:
    with pytest.raises(ValueError, match=r"rate_mbps: \(9"):
        Lanes(replace(SMALL, rate_mbps=(9, 3)))


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"loss": (0, 1.5)}, r"loss: \(0, 1.5\)"),
        ({"rtt_ms": (0, 5)}, "rtt_ms"),
        ({"rate_mbps": (float("nan"), 5)}, "rate_mbps"),
        ({"start": (0.5, 2)}, "start"),
        ({"change_s": (1, 2), "rate_mbps": None}, "change_s"),
    ],
)
def test_an_impossible_task_is_refused(wrong: dict[str, object], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        Lanes(replace(SMALL, **wrong), 1)  # type: ignore[arg-type]


def test_a_lane_with_a_seed_of_its_own_is_the_only_lane_of_that_seed() -> None:
    both = Lanes(VARIED, 2, seed=1, steps=10)
    both.restart_each([8, 3])
    together = walk(both, 30)
    for lane, seed in enumerate((8, 3)):
        single = walk(Lanes(VARIED, 1, seed=seed, steps=10), 30)
        assert np.array_equal(together[:, lane], single[:, 0])
    with pytest.raises(ValueError, match="1 for 2 lanes"):
        both.restart_each([8])


def test_without_gymnasium_a_line_says_what_to_install() -> None:
    code = (
        "import sys; sys.modules['gymnasium'] = None\n"
        "from multipilot import env\n"
        "try: env.SubflowEnv\n"
        "except ImportError as e: print(e)"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert "pip install 'multipilot[learn]'" in said


@pytest.mark.extras
class TestGymnasium:
    @pytest.fixture(autouse=True)
    def _needs(self) -> None:
        pytest.importorskip("gymnasium", reason="pip install 'multipilot[learn]'")

    @pytest.mark.parametrize("name", ["SubflowEnv", "ConnectionEnv"])
    @pytest.mark.parametrize("reward", ["utility", "scaled"])
    def test_the_checker_has_nothing_to_say(self, name: str, reward: str) -> None:
        import warnings

        from gymnasium.utils.env_checker import check_env

        from multipilot import env

        with warnings.catch_warnings():
            warnings.simplefilter("error")
            check_env(getattr(env, name)(SMALL, steps=20, reward=reward), skip_render_check=True)

    @pytest.mark.parametrize("name", ["Subflow", "Connection"])
    def test_the_seed_decides_in_the_registered_ones_too(self, name: str) -> None:
        import gymnasium

        import multipilot.env.gym  # noqa: F401

        def episode(seed: int) -> np.ndarray:
            env = gymnasium.make(f"multipilot/{name}-v0", task=VARIED, steps=8, reward="scaled")
            first, _ = env.reset(seed=seed)
            env.action_space.seed(seed)
            rows = [env.step(env.action_space.sample())[:2] for _ in range(8)]
            return np.array([first, *(observation for observation, _ in rows)]).ravel()

        assert np.array_equal(episode(3), episode(3))
        assert not np.array_equal(episode(3), episode(4))

    def test_a_step_is_in_its_spaces_and_the_last_is_truncated(self) -> None:
        from multipilot.env import SubflowEnv

        env = SubflowEnv(VARIED, steps=12)
        observation, _ = env.reset(seed=3)
        ends = []
        for _ in range(12):
            assert env.observation_space.contains(observation)
            observation, reward, terminated, truncated, info = env.step(env.action_space.sample())
            assert reward == info["utility"] <= info["best"] * 50
            assert not terminated
            ends.append(truncated)
        assert ends == [False] * 11 + [True]

    def test_vectors_agree_with_single_environments_in_kind(self) -> None:
        from multipilot.env import SubflowVectorEnv

        env = SubflowVectorEnv(4, VARIED, steps=5, reward="scaled", threads=2)
        env.reset(seed=1)
        cut = np.zeros(4, bool)
        for _ in range(14):
            observations, rewards, _, truncated, _ = env.step(np.zeros((4, 1), np.float32))
            assert observations.shape == (4, 12)
            assert (rewards[cut] == 0).all()
            cut = truncated
        assert cut.sum() in (0, 4)

    def test_a_parked_path_carries_nothing(self) -> None:
        from multipilot.env import ConnectionEnv

        env = ConnectionEnv(SMALL, steps=100)
        env.reset(seed=1)
        for _ in range(12):
            *_, info = env.step(np.array([0, 0, 1, -1], np.float32))
        assert info["rates"][0] > 0 == info["rates"][1]

    def test_a_vector_with_a_list_of_seeds_is_its_single_environments(self) -> None:
        from multipilot.env import SubflowEnv, SubflowVectorEnv

        vector = SubflowVectorEnv(3, VARIED, steps=6)
        seen, infos = vector.reset(seed=[5, 2, 5])
        singles = [SubflowEnv(VARIED, steps=6) for _ in range(3)]
        for env, seed, own in zip(singles, (5, 2, 5), seen, strict=True):
            assert np.array_equal(env.reset(seed=seed)[0], own)
        assert infos["_rtt_us"].tolist() == [True] * 3
        for _ in range(5):
            actions = vector.action_space.sample()
            seen, rewards, _, _, infos = vector.step(actions)
            for env, action, own, reward, rtt in zip(singles, actions, seen, rewards, infos["rtt_us"], strict=True):
                alone = env.step(action)
                assert np.array_equal(alone[0], own)
                assert (alone[1], alone[4]["rtt_us"]) == (reward, rtt)
        with pytest.raises(ValueError, match="a list of 2 for 3"):
            vector.reset(seed=[1, 2])

    def test_gymnasium_makes_vectors_of_its_own_kind(self) -> None:
        import gymnasium

        from multipilot.env import SubflowVectorEnv

        made = gymnasium.make_vec("multipilot.env.gym:multipilot/Subflow-v0", num_envs=2, task=SMALL, steps=4)
        assert isinstance(made.unwrapped, SubflowVectorEnv)
        made.reset(seed=1)

    def test_actions_that_are_no_numbers_are_refused(self) -> None:
        from multipilot.env import ConnectionEnv, SubflowEnv, SubflowVectorEnv

        envs = [SubflowEnv(SMALL), ConnectionEnv(SMALL), SubflowVectorEnv(2, SMALL)]
        for env in envs:
            env.reset(seed=1)
            wrong = env.action_space.sample()
            wrong.flat[-1] = np.nan
            with pytest.raises(ValueError, match="no finite number"):
                env.step(wrong)
            with pytest.raises(ValueError, match="shape"):
                env.step(np.zeros(7, np.float32))
        with pytest.raises(ValueError, match="num_envs: 0"):
            SubflowVectorEnv(0, SMALL)
