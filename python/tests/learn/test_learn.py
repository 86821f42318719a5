"""Training: it learns, it resumes, and what it leaves is an actor."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from multipilot import _core

SHIPPED = Path(__file__).parents[3] / "crates/policy/actors/ddpg.json"


def test_a_network_by_hand() -> None:
    document = {
        "format": "multipilot-actor",
        "version": 1,
        "history": 1,
        "layers": [{"activation": "tanh", "weights": [[1.0], [0.5], [-2.0]], "bias": [0.25]}],
    }
    actions = np.frombuffer(_core.act(json.dumps(document), np.float32([0.5, 1.0, 0.1]).tobytes()), np.float32)
    assert actions == pytest.approx(np.tanh([0.5 + 0.5 - 0.2 + 0.25]))


def test_an_actor_that_diverged_is_refused() -> None:
    text = SHIPPED.read_text(encoding="utf-8")
    document = json.loads(text)
    document["layers"][0]["bias"][0] = float("nan")
    with pytest.raises(ValueError, match=r"multipilot train") as caught:
        _core.act(json.dumps(document), b"")
    assert "\n" not in str(caught.value)


@pytest.mark.extras
class TestTraining:
    @pytest.fixture(autouse=True)
    def _needs(self) -> None:
        pytest.importorskip("jax", reason="pip install 'multipilot[learn]'")
        pytest.importorskip("optax", reason="pip install 'multipilot[learn]'")

    def small(self, **changes: object):  # type: ignore[no-untyped-def]
        from multipilot.env import BASE, Task
        from multipilot.learn.training import Plan

        path = {"rate": "20Mbit", "delay": "10ms", "queue": "40p"}
        task = Task({**BASE, "paths": {"a": path}}, rate_mbps=(10, 30), start=(0.3, 0.6))
        plan = Plan(rounds=12, lanes=8, steps=150, history=2, every=100, task=task, updates=2)
        return replace(plan, **changes)  # type: ignore[arg-type]

    def test_resumed_equals_uninterrupted(self, tmp_path: Path) -> None:
        import jax

        from multipilot.learn.training import Trainer

        for algorithm in ("ddpg", "td3", "twin-average"):
            plan = self.small(algorithm=algorithm, rounds=4, steps=40)
            whole = Trainer.begin(plan)
            for _ in range(4):
                whole.run_round()
            first = Trainer.begin(plan)
            for _ in range(2):
                first.run_round()
            first.save(tmp_path / algorithm)
            second = Trainer.resume(plan, tmp_path / algorithm)
            for _ in range(2):
                second.run_round()
            for ours, theirs in zip(jax.tree.leaves(whole.state), jax.tree.leaves(second.state), strict=True):
                assert np.array_equal(ours, theirs), algorithm
            assert whole.curve == second.curve

    def test_a_checkpoint_of_other_settings_is_refused(self, tmp_path: Path) -> None:
        from multipilot.learn.training import Trainer

        Trainer.begin(self.small()).save(tmp_path)
        with pytest.raises(ValueError, match="other settings"):
            Trainer.resume(self.small(seed=2), tmp_path)

    def test_ctrl_c_keeps_what_was_learnt(self, tmp_path: Path) -> None:
        call = [sys.executable, "-m", "multipilot.learn.cli", "--rounds", "1000", "--lanes", "2", "--steps", "20"]
        call += ["--out", str(tmp_path), "--json"]
        running = subprocess.Popen(call, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        until = time.monotonic() + 120
        while not (tmp_path / "checkpoint.pickle").exists() and time.monotonic() < until:
            time.sleep(0.1)
        running.send_signal(signal.SIGINT)
        said, errors = running.communicate(timeout=120)
        assert running.returncode == 130, errors
        document = json.loads(said)
        assert document["rounds"] == len(json.loads((tmp_path / "curve.json").read_text()))
        assert len(_core.act(Path(document["actor"]).read_text(), np.zeros(12, np.float32).tobytes())) == 4
        assert "--resume" in errors
        more = str(document["rounds"] + 1)
        again = subprocess.run([*call[:3], "--rounds", more, *call[5:], "--resume"], capture_output=True, text=True)
        assert again.returncode == 0, again.stderr
        assert json.loads(again.stdout)["rounds"] == document["rounds"] + 1


@pytest.mark.extras
def test_unknown_algorithms_are_refused() -> None:
    call = [sys.executable, "-m", "multipilot.learn.cli", "ppo"]
    done = subprocess.run(call, capture_output=True, text=True)
    assert done.returncode == 2
    assert "ddpg, td3, twin-average" in done.stderr
