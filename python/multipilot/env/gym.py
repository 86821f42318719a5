"""Gymnasium's view of the environments; each class's docstring is its specification."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from multipilot import _core
from multipilot.env.lanes import FACTS, FEATURES, Asked, Floats, Lanes
from multipilot.env.task import Task

_ENDLESS = 1 << 31


def _box(low: float, count: int) -> Any:
    return spaces.Box(low, 1.0, (count,), np.float32)


#: Of the facts, those that are in the info, and where.
_TOLD = ("time_s", "rate", "delivered", "lost", "rtt_us", "utility", "best")
_PLACES = [FACTS.index(name) for name in _TOLD]


def _checked(action: Any, shape: tuple[int, ...]) -> Floats:
    """The action as an array; one that is no number would steer the simulation into nonsense without a word."""
    array = np.asarray(action, np.float32)
    if array.size != np.prod(shape):
        raise ValueError(f"action: shape {array.shape}; expected {shape}")
    if not np.isfinite(array).all():
        raise ValueError(f"action: {array.tolist()} has a value that is no finite number; expected -1 to 1")
    return array.reshape(shape)


def _check_settings(history: int, steps: int, reward: str, num_envs: int = 1) -> None:
    for name, value in (("history", history), ("steps", steps), ("num_envs", num_envs)):
        if value < 1:
            raise ValueError(f"{name}: {value}; give 1 or more")
    if reward not in ("utility", "scaled"):
        raise ValueError(f'reward: "{reward}"; one of "utility", "scaled"')


class SubflowEnv(gymnasium.Env[Floats, Floats]):
    """One subflow of a Multipath TCP connection steers its rate; its siblings run plain MPCC.

    ## Observation
    ``Box(0, 1, (3 * history,), float32)``: the last ``history`` monitor intervals, newest first, each

    | number | meaning |
    | --- | --- |
    | rate / (2 × peak) | sending rate over twice the highest delivery rate so far (forgotten by 0.5 % an interval) |
    | least round trip / round trip | mean of the interval; 1: the queue is empty |
    | loss | part of the packets |

    ## Action
    ``Box(-1, 1, (1,), float32)``: the rate becomes rate × (1 + 0.1 a). MPCC's floor of 25 kB/s holds, and its brake:
    after an interval with over 30 % loss (of more than 100 packets) the rate is halved and nobody asked.

    ## Reward
    With ``reward="utility"`` MPCC's own of the interval that the action led to, rates in Mbit/s:
    U = X^0.9 - 11.35 L X - 900 dRTT/dt X, X the rates of all subflows, L the part lost, a slope under 3 % counting as
    0. It may be thousands below zero where a queue fills. ``reward="scaled"`` divides by the utility of full paths
    without loss and cuts off at ±1.

    ## Time
    A step is one monitor interval of 1.5 smoothed round trips, sent at one rate, and the round trip that its
    acknowledgements take to come in.

    ## Start and end
    The subflow begins at a rate that has 40 to 70 % of a full path's utility (``Task.start``; ``None`` for MPCC's slow
    start). Nothing terminates; after ``steps`` steps the episode is truncated. ``reset(seed=…)`` decides everything
    that follows; without a seed the next episode is another one.

    ## Info
    ``time_s``, ``rate`` (bytes/s), ``delivered`` and ``lost`` (packets), ``rtt_us``, ``utility`` and ``best``, the
    utility of full paths without loss.

    ## Versions
    v0: first.
    """

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012

    def __init__(
        self, task: Task | None = None, *, history: int = 4, steps: int = 1000, reward: str = "utility"
    ) -> None:
        _check_settings(history, steps, reward)
        self.observation_space = _box(0.0, FEATURES * history)
        self.action_space = _box(-1.0, 1)
        self._scaled, self._steps = reward == "scaled", steps
        task = task or Task()
        self._core = _core.Lanes(task.given(), task.wishes(), task.varied(), 1, 1, history, _ENDLESS, 1, [])
        self._seed, self._episode, self._taken = 0, 0, 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Floats, dict[str, Any]]:
        super().reset(seed=seed)
        if seed is not None:
            self._seed, self._episode = seed, 0
        elif not self._episode:
            self._seed = int(self.np_random.integers(1 << 31))
        self._core.restart(self._seed, self._episode)
        self._episode += 1
        self._taken = 0
        seen, _, info = self._go_on(0.0)
        return seen, info

    def step(self, action: Floats) -> tuple[Floats, float, bool, bool, dict[str, Any]]:
        # An episode that the scenario's own end has cut off: nothing that follows belongs to it.
        seen, over, info = self._go_on(float(_checked(action, (1,))[0]))
        self._taken += 1
        reward = 0.0 if over else _reward(info["utility"], info["best"], self._scaled)
        return seen, reward, False, over or self._taken >= self._steps, info

    def _go_on(self, action: float) -> tuple[Floats, bool, dict[str, Any]]:
        seen, fresh, facts = self._core.step_alone(action)
        info = {name: facts[place] for name, place in zip(_TOLD, _PLACES, strict=True)}
        return np.frombuffer(seen, np.float32).copy(), fresh, info


def _reward(utility: float, best: float, scaled: bool) -> float:
    return max(-1.0, min(1.0, utility / best)) if scaled else utility


class SubflowVectorEnv(VectorEnv[Floats, Floats, Any]):
    """``num_envs`` of :class:`SubflowEnv` side by side, simulated by native threads.

    Spaces, rewards and times are those of :class:`SubflowEnv`. After a truncated step the next one begins another
    episode, whatever its action, with reward 0 (Gymnasium's ``AutoresetMode.NEXT_STEP``). Info holds for
    each fact one array and its mask (``_rtt_us``). ``reset(seed=[…])`` gives each environment a seed of its own, with
    which it goes on as :class:`SubflowEnv` does.
    """

    metadata: dict[str, Any] = {"render_modes": [], "autoreset_mode": AutoresetMode.NEXT_STEP}  # noqa: RUF012

    def __init__(
        self,
        num_envs: int,
        task: Task | None = None,
        *,
        history: int = 4,
        steps: int = 1000,
        reward: str = "utility",
        threads: int = 1,
    ) -> None:
        _check_settings(history, steps, reward, num_envs)
        self.num_envs = num_envs
        self.single_observation_space = _box(0.0, FEATURES * history)
        self.single_action_space = _box(-1.0, 1)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._scaled, self._steps = reward == "scaled", steps
        # The question that opens an episode is none of its steps.
        self._lanes = Lanes(task or Task(), num_envs, history=history, steps=steps + 1, agents=1, threads=threads)
        self._taken = np.zeros(num_envs, int)

    def reset(
        self, *, seed: int | list[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Floats, dict[str, Any]]:
        if isinstance(seed, list):
            if len(seed) != self.num_envs:
                raise ValueError(f"seed: a list of {len(seed)} for {self.num_envs} environments; give one each")
            super().reset(seed=next((one for one in seed if one is not None), None))
            drawn = self.np_random.integers(1 << 31, size=self.num_envs)
            self._lanes.restart_each([int(d) if one is None else one for one, d in zip(seed, drawn, strict=True)])
        else:
            super().reset(seed=seed)
            self._lanes.restart(seed if seed is not None else int(self.np_random.integers(1 << 31)), 0)
        self._taken[:] = 0
        asked = self._lanes.step()
        return asked.observations.copy(), self._infos(asked)

    def step(self, actions: Floats) -> tuple[Floats, Any, Any, Any, dict[str, Any]]:
        asked = self._lanes.step(_checked(actions, (self.num_envs, 1)).reshape(self.num_envs))
        self._taken = np.where(asked.fresh, 0, self._taken + 1)
        rewards = np.clip(asked.rewards, -1, 1) if self._scaled else asked.fact("utility")
        rewards = np.where(asked.fresh, 0.0, rewards)
        truncated = self._taken >= self._steps
        return asked.observations.copy(), rewards, np.zeros(self.num_envs, bool), truncated, self._infos(asked)

    @staticmethod
    def _infos(asked: Asked) -> dict[str, Any]:
        infos: dict[str, Any] = {}
        for name, values in zip(_TOLD, asked.facts[:, _PLACES].T.copy(), strict=True):
            # Gymnasium's masks: which environments have the entry.
            infos[name], infos[f"_{name}"] = values, np.ones(len(values), bool)
        return infos


class ConnectionEnv(gymnasium.Env[Floats, Floats]):
    """A whole Multipath TCP connection steers the rates of all its subflows, and which paths it uses.

    ## Observation
    ``Box(0, 1, (3 * history * paths,), float32)``: that of :class:`SubflowEnv` for each path in the scenario's order;
    zeros before a path's first interval.

    ## Action
    ``Box(-1, 1, (2 * paths,), float32)``: first a step for each path, as in :class:`SubflowEnv`; then for each path
    whether it is used: below 0 it is set to backup by MP_PRIO, and carries nothing once the sender has got that, one
    round trip later. Where all are below 0 none is set to backup.

    ## Reward
    MPCC's utility of the connection: U = (Σ x)^0.9 - max over paths of (11.35 L + 900 dRTT/dt) × Σ x; scaled as in
    :class:`SubflowEnv` with ``reward="scaled"``.

    ## Time
    A step ends when every path in use has acknowledged its interval; a path that does not within 2 s is not waited for.
    A subflow that is done early goes on at its rate until the others are.

    ## Start and end, versions
    As :class:`SubflowEnv`. Terminates nothing. Info has ``time_s``, ``utility``, ``best`` and ``rates`` (bytes/s).
    """

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012

    def __init__(
        self, task: Task | None = None, *, history: int = 4, steps: int = 1000, reward: str = "utility"
    ) -> None:
        _check_settings(history, steps, reward)
        task = task or Task()
        self._core = _core.Together(task.given(), task.wishes(), task.varied(), 1, history)
        self.paths = self._core.paths
        self.observation_space = _box(0.0, FEATURES * history * self.paths)
        self.action_space = _box(-1.0, 2 * self.paths)
        self._scaled, self._steps, self._taken = reward == "scaled", steps, 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Floats, dict[str, Any]]:
        super().reset(seed=seed)
        self._taken = 0
        observation, *_, info = self._read(self._core.reset(int(self.np_random.integers(1 << 31))))
        return observation, info

    def step(self, action: Floats) -> tuple[Floats, float, bool, bool, dict[str, Any]]:
        action = _checked(action, (2 * self.paths,))
        steps, use = action[: self.paths], action[self.paths :]
        self._taken += 1
        return self._read(self._core.step(steps.tobytes(), [bool(u < 0) for u in use]))

    def _read(
        self, found: tuple[bytes, float, float, float, list[float], bool]
    ) -> tuple[Floats, float, bool, bool, dict[str, Any]]:
        observation, utility, best, time_s, rates, over = found
        info = {"time_s": time_s, "utility": utility, "best": best, "rates": np.array(rates)}
        reward = _reward(utility, best, self._scaled)
        seen = np.frombuffer(observation, np.float32).copy()
        return seen, reward, False, over or self._taken >= self._steps, info


# Gymnasium from 1.0 on reads no entry points: whoever makes one names this module, or imports it.
gymnasium.register(
    "multipilot/Subflow-v0",
    "multipilot.env.gym:SubflowEnv",
    vector_entry_point="multipilot.env.gym:SubflowVectorEnv",
)
gymnasium.register("multipilot/Connection-v0", "multipilot.env.gym:ConnectionEnv")
