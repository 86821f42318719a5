"""Policies of Stable-Baselines3 as files that multipilot runs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytestmark = pytest.mark.extras


@pytest.fixture(autouse=True)
def _needs() -> None:
    pytest.importorskip("stable_baselines3", reason="pip install 'multipilot[sb3]'")


def env():  # type: ignore[no-untyped-def]
    from multipilot.env import BASE, SubflowEnv, Task

    path = {"rate": "20Mbit", "delay": "10ms", "queue": "40p"}
    return SubflowEnv(Task({**BASE, "paths": {"a": path}}), history=2, steps=30, reward="scaled")


@pytest.mark.parametrize("name", ["TD3", "DDPG", "SAC"])
def test_the_file_acts_as_the_model_does(name: str, tmp_path: Path) -> None:
    import stable_baselines3
    import torch

    from multipilot.learn.evaluate import of_file

    narrow = {"net_arch": [16, 8]}
    model = getattr(stable_baselines3, name)("MlpPolicy", env(), learning_starts=20, policy_kwargs=narrow)
    model.learn(60)
    with torch.no_grad():
        # Hardly trained, it says nearly the same to everything.
        next(iter(model.policy.actor.parameters())).mul_(20)
    model.save(tmp_path / "model.zip")
    call = [sys.executable, "-m", "multipilot.learn.sb3", "model.zip", "--algorithm", name.lower()]
    done = subprocess.run(call, cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "actor.json\n"), done.stderr
    seen = np.random.default_rng(1).uniform(0, 1, (50, 6)).astype(np.float32)
    expected, _ = model.predict(seen, deterministic=True)
    assert of_file(tmp_path / "actor.json")(seen) == pytest.approx(expected[:, 0], abs=1e-4)
    assert np.ptp(expected) > 0.1


def test_what_the_file_cannot_say_is_refused() -> None:
    import stable_baselines3

    from multipilot.learn.sb3 import layers

    with pytest.raises(ValueError, match=r"PPO: .* one of ddpg, td3, sac"):
        layers(stable_baselines3.PPO("MlpPolicy", env(), n_steps=8, batch_size=8))
    with pytest.raises(ValueError, match=r"observations \(2,\) .* expected those of multipilot/Subflow-v0"):
        layers(stable_baselines3.TD3("MlpPolicy", "MountainCarContinuous-v0"))


def test_a_file_that_is_none_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "model.zip").write_text("nothing")
    call = [sys.executable, "-m", "multipilot.learn.sb3", "model.zip"]
    done = subprocess.run(call, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith("multipilot: model.zip: ")
    assert done.stderr.count("\n") == 1
