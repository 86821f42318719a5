"""Where the reproductions are found: in the checkout, by --from, and not in an installed package alone."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import multipilot
from multipilot.papers.folder import NAMES, reproductions

FOLDER = reproductions()
CALL = [sys.executable, "-m", "multipilot.papers.cli"]
#: Computed, so that nothing is simulated.
THEORY = ["--world", "sim", "--only", "game"]


def test_each_folder_is_a_paper_that_the_command_names() -> None:
    folders = {file.parent.name.replace("_", "-") for file in FOLDER.glob("*/__init__.py")}
    assert folders == set(NAMES)


def test_another_folder_is_read_with_its_own_scenarios(tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    shutil.copytree(FOLDER, clone / FOLDER.name, ignore=shutil.ignore_patterns("__pycache__"))
    (clone / "scenarios").symlink_to(FOLDER.parent / "scenarios")
    paper = clone / FOLDER.name / "rsf" / "__init__.py"
    text = paper.read_text(encoding="utf-8")
    paper.write_text(text.replace('title="Multipath congestion control', 'title="A copy', 1), encoding="utf-8")
    call = [*CALL, "rsf", *THEORY, "--from", str(clone / FOLDER.name), "--out", str(tmp_path / "out")]
    done = subprocess.run(call, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    assert "<h1>A copy" in page
    assert 'id="game"' in page


def test_an_installed_package_says_where_the_reproductions_are(tmp_path: Path) -> None:
    """As a wheel has it: the package, and nothing beside it."""
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "multipilot").symlink_to(Path(multipilot.__file__).parent)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "site")}

    def called(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([*CALL, "rsf", *words], capture_output=True, text=True, cwd=tmp_path, env=environment)

    alone = called(*THEORY)
    assert alone.returncode == 2
    (line,) = alone.stderr.strip().splitlines()
    assert "no reproductions at reproductions" in line
    assert "--from" in line
    assert called(*THEORY, "--from", str(FOLDER), "--out", str(tmp_path / "out")).returncode == 0
    assert called("--from", str(tmp_path)).returncode == 2
