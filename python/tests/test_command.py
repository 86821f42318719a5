"""The Rust command and the package together."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from test_simulation import SCENARIO

import multipilot
from multipilot import console


def command(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return subprocess.run(
        [console.command(), *words], capture_output=True, text=True, env={**os.environ, "PATH": path, **environment}
    )


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    file = tmp_path / "scenario.toml"
    file.write_text(SCENARIO)
    return file


def test_command_and_function_give_the_same_rows(scenario: Path) -> None:
    done = command("compare", str(scenario), "--world", "sim", "--seeds", "2", "--json")
    assert done.returncode == 0, done.stderr
    rows = multipilot.simulate(scenario, seeds=2).row_dicts
    key = ("variant", "seed")
    order = {tuple(row[k] for k in key): row for row in json.loads(done.stdout)["rows"]}
    assert [order[tuple(row[k] for k in key)] for row in rows] == rows


def test_report_of_what_compare_wrote(scenario: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = command("compare", str(scenario), "--world", "sim", "--seeds", "2", "--out", str(out))
    assert done.returncode == 0, done.stderr
    drawn = command("report", str(out))
    assert drawn.returncode == 0, drawn.stderr
    assert drawn.stdout.strip() == str(out / "report.html")
    assert "Congestion window" in (out / "report.html").read_text()


def test_report_of_nothing_is_a_wrong_call(tmp_path: Path) -> None:
    done = command("report", str(tmp_path))
    assert done.returncode == 2
    assert "no result.json" in done.stderr


def test_a_report_of_a_file_names_the_folder(scenario: Path, tmp_path: Path) -> None:
    done = command("report", str(scenario))
    assert (done.returncode, done.stdout) == (2, "")
    meant = "give the folder that `multipilot compare --out` wrote"
    assert done.stderr == f"multipilot: {scenario}: is a file; {meant}\n"
    (tmp_path / "result.json").write_text("{}")
    done = command("report", str(tmp_path / "result.json"))
    assert done.stderr == f"multipilot: {tmp_path / 'result.json'}: is a file; give the folder, {tmp_path}\n"


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("report",), "missing argument 'DIR'; see multipilot report --help"),
        (("agree", "--nosuch"), "no such option"),
        (("federation",), "no command; see multipilot federation --help"),
        (("experience", "folder"), "missing option '--parquet'; see multipilot experience --help"),
        (("agree", "--world", "moon"), "invalid value for '--world': 'moon' is not one of 'kernel', 'relay'"),
        (("sweep", "--seeds", "many"), "invalid value for '--seeds': "),
        (("sweep", "--seeds", "-1"), "invalid value for '--seeds': "),
    ],
)
def test_a_wrong_call_of_a_python_command_is_one_line(words: tuple[str, ...], line: str) -> None:
    done = command(*words)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"multipilot: {line}")
    assert done.stderr.count("\n") == 1
    assert not any(leaked in done.stderr for leaked in ("Input should be", "Value error")), done.stderr


def test_a_wrong_call_of_a_module_names_the_module() -> None:
    for module in ("learn.onnx", "learn.curve"):
        call = [sys.executable, "-m", f"multipilot.{module}", "--zz"]
        done = subprocess.run(call, capture_output=True, text=True)
        assert (done.returncode, done.stdout) == (2, "")
        # The words between are Click's, and other ones in each of its versions.
        assert done.stderr.startswith("multipilot: no such option")
        assert "--zz" in done.stderr
        assert done.stderr.endswith(f"; see python -m multipilot.{module} --help\n")
        assert done.stderr.count("\n") == 1


def test_a_picture_of_no_training_is_one_line(tmp_path: Path) -> None:
    for words, line in (
        ([str(tmp_path)], "No such file or directory"),
        (["--level", "MPCC", "."], "expected NAME=REWARD"),
    ):
        call = [sys.executable, "-m", "multipilot.learn.curve", *words]
        done = subprocess.run(call, capture_output=True, text=True, cwd=tmp_path)
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), done.stderr
        assert line in done.stderr


def test_help_of_a_python_command() -> None:
    done = command("help", "report")
    assert done.returncode == 0
    assert "Draw a record" in done.stdout


def test_agree_of_no_cell_is_a_wrong_call() -> None:
    done = command("agree", "--only", "nosuch-*")
    assert done.returncode == 2
    assert "no such cell" in done.stderr
    assert command("agree", "--budget", "60").returncode == 2


def test_a_folder_that_cannot_be_written_is_one_line_before_any_work(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = command("agree", "--quick", "--out", str(tmp_path / "file" / "out"))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    assert "choose a folder that can be written with --out" in done.stderr


LONG = """
import typer
from multipilot.children import Children
from multipilot.console import run
app = typer.Typer()
@app.command()
def long(script: str) -> None:
    Children().run(["sh", "-c", script], heard=lambda line: print(line, flush=True))
run(app, "long")
"""


def long(script: str) -> subprocess.Popen[str]:
    """A Python command that runs this script of the shell, whose lines on stderr it says on its stdout."""
    return subprocess.Popen(
        [sys.executable, "-c", LONG, script],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A shell starts background jobs with SIGINT ignored, and what they start inherits it.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


def test_a_python_command_that_is_told_to_end_ends_what_it_started() -> None:
    with long("echo $$ >&2; exec sleep 600") as running:
        assert running.stdout is not None
        started = int(running.stdout.readline())
        running.terminate()
        assert running.wait() == console.INTERRUPTED
    assert not Path(f"/proc/{started}").exists()


def test_a_second_ctrl_c_does_not_break_off_the_cleaning(tmp_path: Path) -> None:
    heard, done = tmp_path / "heard", tmp_path / "done"
    clean = f"trap 'touch {heard}; until [ -e {done} ]; do sleep 0.05; done; exit' INT"
    with long(f"{clean}; echo $$ >&2; while :; do sleep 0.05; done") as running:
        assert running.stdout is not None
        started = int(running.stdout.readline())
        running.send_signal(signal.SIGINT)
        while not heard.exists():
            time.sleep(0.05)
        running.send_signal(signal.SIGINT)
        with pytest.raises(subprocess.TimeoutExpired):
            running.wait(1)
        done.touch()
        _, errors = running.communicate()
    assert (running.returncode, errors) == (console.INTERRUPTED, "")
    assert not Path(f"/proc/{started}").exists()
