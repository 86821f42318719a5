"""Whole files, or those of before."""

from __future__ import annotations

from pathlib import Path

import pytest

from multipilot.files import replacing


def test_the_new_file_is_there_at_the_end_and_nothing_beside_it(tmp_path: Path) -> None:
    file = tmp_path / "state.json"
    for text in "first", "second":
        with replacing(file) as fresh:
            fresh.write_text(text)
            assert not file.exists() or file.read_text() == "first"
        assert file.read_text() == text
        assert list(tmp_path.iterdir()) == [file]


def test_a_failure_leaves_the_old_one(tmp_path: Path) -> None:
    file = tmp_path / "state.json"
    file.write_text("old")
    with pytest.raises(TypeError), replacing(file) as fresh:
        fresh.write_bytes("no bytes")  # type: ignore[arg-type]
    assert file.read_text() == "old"
    assert list(tmp_path.iterdir()) == [file]
