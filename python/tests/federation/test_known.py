"""What devices tell of links: merged as if one had seen all, and doubted where a stranger says it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from multipilot.federation import SuperArms, files, merge

LINKS = ["wifi", "lte", "ap"]
REWARD = {"wifi": 0.9, "lte": 0.4, "ap": 0.6}


def played(seed: int, rounds: int) -> SuperArms:
    device = SuperArms(LINKS, 2, seed=seed)
    for _ in range(rounds):
        device.learn({link: REWARD[link] for link in device.choose()})
    return device


def test_a_federation_knows_what_one_device_would_that_saw_all_of_it() -> None:
    devices = [played(seed, 10 * seed) for seed in (1, 2, 3)]
    known = merge([d.own for d in devices])
    for link in LINKS:
        counts = [d.own.get(link, (0.0, 0.0))[0] for d in devices]
        assert known[link][0] == sum(counts)
        assert known[link][1] == pytest.approx(REWARD[link])


def test_links_have_names_so_that_devices_need_not_have_the_same_ones() -> None:
    assert merge([{"a": (1, 0.5)}, {"b": (3, 1.0)}]) == {"a": (1, 0.5), "b": (3, 1.0)}
    assert merge([]) == {}


def test_a_newcomer_begins_with_what_others_know_and_tells_only_its_own() -> None:
    newcomer = SuperArms(LINKS, 1, seed=9)
    newcomer.begin_with(merge([played(seed, 500).own for seed in range(4)]))
    assert newcomer.choose() == ["wifi"]
    assert newcomer.own == {}
    assert newcomer.index("wifi") > newcomer.index("ap") > newcomer.index("lte")


def test_a_liar_moves_a_trimmed_merge_little() -> None:
    honest = [{"a": (100.0, 0.9), "b": (100.0, 0.2)} for _ in range(4)]
    liar = {"a": (1e12, 0.0), "b": (1e12, 1.0)}
    believed, doubted = merge([*honest, liar]), merge([*honest, liar], trim=0.25)
    assert believed["a"][1] < 0.01 < 0.89 < doubted["a"][1]
    assert doubted["b"][1] < 0.21
    assert doubted["a"][0] <= 5 * 200


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        "1",
        "{",
        '{"a": 1}',
        '{"a": [1]}',
        '{"a": [1, 2]}',
        '{"a": [-1, 0.5]}',
        '{"a": [NaN, 0.5]}',
        '{"a": ["1", 0]}',
    ],
)
def test_what_is_no_knowledge_of_links_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        files.read(text)


def test_too_many_links_and_too_long_names_are_refused() -> None:
    with pytest.raises(ValueError, match="at most 64 links"):
        files.read(json.dumps({f"l{i}": [1, 0.5] for i in range(65)}))
    with pytest.raises(ValueError, match="65 letters"):
        files.read(json.dumps({"x" * 65: [1, 0.5]}))


def test_a_file_says_what_was_saved(tmp_path: Path) -> None:
    file = tmp_path / "known.json"
    assert files.load(file) == {}
    files.save(file, {"a": (3.0, 0.5)})
    assert files.load(file) == {"a": (3.0, 0.5)}
    assert [f.name for f in tmp_path.iterdir()] == ["known.json"]
    file.write_text("oops", encoding="utf-8")
    with pytest.raises(ValueError, match=r"known\.json"):
        files.load(file)
