"""Actors as ONNX models."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from multipilot.learn.evaluate import of_file

SHIPPED = Path(__file__).parents[3] / "crates/policy/actors/ddpg.json"


def converted(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    call = [sys.executable, "-m", "multipilot.learn.onnx", *words]
    return subprocess.run(call, cwd=folder, capture_output=True, text=True)


@pytest.mark.extras
def test_the_model_acts_as_the_file_does(tmp_path: Path) -> None:
    pytest.importorskip("onnx", reason="pip install 'multipilot[onnx]'")
    runtime = pytest.importorskip("onnxruntime", reason="pip install onnxruntime")
    done = converted(tmp_path, str(SHIPPED))
    assert (done.returncode, done.stdout) == (0, "actor.onnx\n"), done.stderr
    session = runtime.InferenceSession(tmp_path / "actor.onnx", providers=["CPUExecutionProvider"])
    (given,) = session.get_inputs()
    seen = np.random.default_rng(1).uniform(0, 1, (1000, given.shape[1])).astype(np.float32)
    (actions,) = session.run(["action"], {"observation": seen})
    assert actions.shape == (1000, 1)
    assert actions[:, 0] == pytest.approx(of_file(SHIPPED)(seen), abs=1e-5)
    assert np.ptp(actions) > 0.1


@pytest.mark.extras
def test_a_file_that_is_none_is_one_line(tmp_path: Path) -> None:
    pytest.importorskip("onnx", reason="pip install 'multipilot[onnx]'")
    (tmp_path / "actor.json").write_text("{}")
    done = converted(tmp_path, "actor.json")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert done.stderr.startswith("multipilot: actor.json: ")
    assert not (tmp_path / "actor.onnx").exists()


def test_an_actor_that_is_missing_says_what_to_give(tmp_path: Path) -> None:
    done = converted(tmp_path, "actor.json")
    assert (done.returncode, done.stdout) == (2, "")
    why = "cannot read it (No such file or directory); give an actor that `multipilot train` wrote"
    assert done.stderr == f"multipilot: actor.json: {why}\n"
