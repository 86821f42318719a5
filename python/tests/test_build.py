"""The build: cargo compiles no crate once for the command and once more for the extension."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def compiled(package: str) -> set[str]:
    """Crates that a package is built from, each with its features; macros and build scripts too."""
    words = ["cargo", "tree", "--locked", "--package", package, "--edges", "no-dev", "--prefix", "none", "--no-dedupe"]
    done = subprocess.run([*words, "--format", "{p} {f}"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return {re.sub(r" \((/.*?|proc-macro)\)", "", line).strip() for line in done.stdout.splitlines()}


@pytest.mark.skipif(shutil.which("cargo") is None, reason="no cargo here")
def test_the_extension_is_built_from_crates_of_the_command() -> None:
    extra = {line for line in compiled("mp-python") - compiled("multipilot") if "pyo3" not in line}
    only_pythons = {"mp-python v", "target-lexicon v"}
    doubled = sorted(line for line in extra if not any(line.startswith(name) for name in only_pythons))
    assert not doubled, (
        f"python/Cargo.toml has to ask for the command's features of these, else both are built: {doubled}"
    )
