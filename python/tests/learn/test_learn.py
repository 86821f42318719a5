"""Training: it learns, it resumes, and what it leaves is an actor."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from multipilot import _core
from multipilot.learn.cli import origin

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


def test_an_actor_names_the_command_and_the_commit_that_made_it() -> None:
    plan = SimpleNamespace(algorithm="td3", seed=3, lanes=16, steps=400, history=4, logs=0, records=[], competing=8)
    command, _, commit = origin(plan, 28, " --loss 0.08").rpartition(", commit ")  # type: ignore[arg-type]
    assert command == (
        "multipilot train td3 --seed 3 --rounds 28 --lanes 16 --steps 400 --history 4 --loss 0.08 --competing 8"
    )
    head = ["git", "-C", str(Path(__file__).parent), "rev-parse", "--short=10", "HEAD"]
    assert commit.rstrip("+") == subprocess.run(head, capture_output=True, text=True).stdout.strip()


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
        plan = Plan(
            algorithm="td3", rounds=12, lanes=8, steps=150, history=2, every=100, task=task, updates=4, competing=0
        )
        return replace(plan, **changes)  # type: ignore[arg-type]

    def test_resumed_equals_uninterrupted(self, tmp_path: Path) -> None:
        import jax

        from multipilot.learn.training import Trainer

        for algorithm in ("ddpg", "td3", "twin-average"):
            plan = self.small(algorithm=algorithm, rounds=4, steps=40, competing=3)
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

    @pytest.mark.parametrize("shuffle", [False, True])
    def test_it_learns_from_rewards_and_from_nothing_else(self, shuffle: bool) -> None:
        from multipilot.learn.evaluate import always_up, play
        from multipilot.learn.training import Trainer

        plan = self.small(shuffle=shuffle)
        trainer = Trainer.begin(plan)
        judged = {"task": plan.task, "lanes": 8, "steps": 100, "seed": 77, "history": plan.history}
        untrained = play(trainer.actor(), **judged).reward
        for _ in range(plan.rounds):
            trainer.run_round()
        better = play(trainer.actor(), **judged).reward - max(untrained, play(always_up, **judged).reward)
        # With rewards in random order nothing can be learnt, and a test that passed then would measure something else.
        assert (better > 0.2) is not shuffle, better

    @pytest.mark.parametrize("algorithm", ["td3", "twin-average"])
    def test_logs_of_mpcc_are_learnt_from_without_acting(self, algorithm: str) -> None:
        from multipilot.learn.evaluate import play
        from multipilot.learn.training import Trainer

        plan = self.small(algorithm=algorithm, rounds=2, logs=2, steps=60)
        trainer = Trainer.begin(plan)
        for _ in range(plan.rounds):
            trainer.run_round()
        data = trainer.replay.data[: len(trainer.replay)]
        actions = data[:, trainer.replay.width]
        # MPCC probes both ways.
        assert (actions > 0.05).any()
        assert (actions < -0.05).any()
        assert trainer.best is not None
        assert np.isfinite(play(trainer.actor(), plan.task, lanes=2, steps=20, history=2).reward)

    def test_the_file_says_what_was_trained(self, tmp_path: Path) -> None:
        from multipilot.learn.evaluate import of_file
        from multipilot.learn.networks import export
        from multipilot.learn.training import Trainer

        trainer = Trainer.begin(self.small())
        # The untrained last layer is next to nothing: a larger one shows what is wrong with the first.
        weights, bias = trainer.state.actor[-1]
        network = [*trainer.state.actor[:-1], (weights * 300, bias)]
        export(network, tmp_path / "actor.json", "by a test")
        trainer.state = trainer.state._replace(actor=network)
        seen = np.random.default_rng(1).uniform((0.3, 0.7, 0) * 2, (0.6, 1, 0.1) * 2, (50, 6)).astype(np.float32)
        assert of_file(tmp_path / "actor.json")(seen) == pytest.approx(trainer.actor()(seen), abs=1e-4)
        assert np.ptp(trainer.actor()(seen)) > 0.2

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

    def test_tensorboard_reads_the_curve(self, tmp_path: Path) -> None:
        pytest.importorskip("tensorboard", reason="pip install 'multipilot[tensorboard]'")
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

        call = [sys.executable, "-m", "multipilot.learn.cli", "--rounds", "3", "--lanes", "2", "--steps", "20"]
        done = subprocess.run([*call, "--tensorboard", "--out", str(tmp_path)], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        events = EventAccumulator(str(tmp_path)).Reload()
        curve = json.loads((tmp_path / "curve.json").read_text())
        read = [(event.step, event.tensor_proto.float_val[0]) for event in events.Tensors("training_reward")]
        assert read == [(e["steps"], pytest.approx(e["training_reward"])) for e in curve]
        assert [event.step for event in events.Tensors("reward")] == [e["steps"] for e in curve if "reward" in e]


@pytest.mark.extras
def test_unknown_algorithms_are_refused() -> None:
    call = [sys.executable, "-m", "multipilot.learn.cli", "ppo"]
    done = subprocess.run(call, capture_output=True, text=True)
    assert done.returncode == 2
    assert "ddpg, td3, twin-average" in done.stderr
