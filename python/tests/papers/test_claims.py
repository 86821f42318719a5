"""Claims as data: predicates, verdicts, templates, the lock, and that every paper's claims.toml says what it means."""

import math
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from running import PAPERS, Wellformed
from test_docs import nonstandard

from multipilot.console import RunFailed
from multipilot.papers import overview
from multipilot.papers.claims import Claim, Claims, Wrong, judge, load, lock, table
from multipilot.papers.claims.claim import THEORY, fill
from multipilot.papers.claims.judge import differ
from multipilot.papers.claims.picture import margin
from multipilot.papers.claims.predicate import Check, Verdict, checks, combined
from multipilot.papers.claims.quantity import constant
from multipilot.papers.folder import reproductions
from multipilot.papers.paper import Paper
from multipilot.papers.provenance import Provenance, is_changed
from multipilot.papers.publish import locked, publish
from multipilot.papers.results import KERNEL, RELAY, SIM, Results
from multipilot.stats import Mean, difference, mean_of
from reproductions.ddpg.sections import PAYLOAD, resting_rate
from reproductions.drones import tables

HOLDS, CONTRADICTED, UNDECIDED, UNTESTABLE = Verdict
WITH_CLAIMS = [paper for paper in PAPERS.values() if paper.claims.all]


def around(mean: float, spread: float = 0.1) -> Mean:
    return mean_of([mean - spread, mean, mean + spread])


#: Half of the interval of ``around(…)``: 4.303 standard errors of three values.
HALF = around(0).half
VALUES = {
    "one": around(1.0),
    "two": around(2.0),
    "four": around(4.0),
    "near-two": around(2.05),
    "single": mean_of([2.0]),
    "missing": mean_of([]),
    "curve.a": around(9.0),
    "curve.b": around(6.0),
    "curve.c": around(3.0),
    "flat.a": around(3.0),
    "flat.b": around(3.1),
}


def test_the_example_of_the_reference_is_valid(tmp_path: Path) -> None:
    reference = Path(__file__).parents[3] / "docs/reference/claims.md"
    (example,) = re.findall(r"^```toml\n(.*?)^```", reference.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    file = tmp_path / "claims.toml"
    file.write_text(example, encoding="utf-8")
    assert [claim.id for claim in load(file).all] == ["obs2-gain"]


@pytest.mark.parametrize(
    ("test", "verdict"),
    [
        ({"within": "two", "of": 2.0, "tolerance": 0.2}, HOLDS),
        ({"within": "two", "of": 2.0, "tolerance": 0.01}, UNDECIDED),
        ({"within": "two", "of": 4.0, "tolerance": 0.1}, CONTRADICTED),
        ({"within": "two", "low": 1.5, "high": 2.5}, HOLDS),
        ({"within": "two", "at_most": 1.5}, CONTRADICTED),
        ({"ratio": ["four", "two"], "at_least": 1.5}, HOLDS),
        ({"ratio": ["four", "two"], "at_most": 1.5}, CONTRADICTED),
        ({"ratio": ["four", {"best": ["one", "two"]}], "of": 2.0, "tolerance": 0.4}, HOLDS),
        ({"ratio": ["four", {"least": ["one", "two"]}], "of": 2.0, "tolerance": 0.4}, CONTRADICTED),
        ({"ratio": ["four", {"least": ["one", "two"]}], "at_least": 2.0}, HOLDS),
        ({"compare": ["four", ">", "two"]}, HOLDS),
        ({"compare": ["four", "<", "two"]}, CONTRADICTED),
        ({"compare": ["four", ">", "two"], "margin": 2.5}, CONTRADICTED),
        ({"compare": ["near-two", ">", "two"]}, UNDECIDED),
        ({"compare": [{"minus": ["four", "two"]}, ">", 1.0]}, HOLDS),
        ({"order": ["four", "two", "one"]}, HOLDS),
        ({"order": ["four", "one", "two"]}, CONTRADICTED),
        ({"order": ["four", "near-two", "two"]}, UNDECIDED),
        ({"monotone": "curve", "direction": "falling"}, HOLDS),
        ({"monotone": "curve", "direction": "rising"}, CONTRADICTED),
        ({"monotone": "flat", "direction": "rising"}, UNDECIDED),
        ({"alike": ["two", "near-two"], "tolerance": 0.4}, HOLDS),
        ({"alike": ["two", "near-two"], "tolerance": 0.05}, UNDECIDED),
        ({"alike": ["two", "four"], "tolerance": 0.05}, CONTRADICTED),
        ({"all": [{"compare": ["four", ">", "two"]}, {"compare": ["two", ">", "one"]}]}, HOLDS),
        ({"all": [{"compare": ["four", ">", "two"]}, {"compare": ["near-two", ">", "two"]}]}, UNDECIDED),
        ({"all": [{"compare": ["near-two", ">", "two"]}, {"compare": ["one", ">", "two"]}]}, CONTRADICTED),
        ({"none": "no such thing is measured"}, UNTESTABLE),
    ],
)
def test_a_predicate_is_decided_by_the_whole_interval(test: dict[str, object], verdict: Verdict) -> None:
    assert combined(checks(test, VALUES))[0] is verdict


def test_of_many_parts_one_misses_by_chance() -> None:
    """Of thirty true parts one is beyond its 95 % interval more often than not."""
    near = Check(Mean(1.0, 0.9, 10, 1.0), high=0.0)
    true = Check(Mean(-1.0, 0.5, 10, 1.0), high=0.0)
    assert near.verdict is CONTRADICTED
    assert combined([near]) == (CONTRADICTED, near)
    assert combined([near, *[true] * 29]) == (UNDECIDED, near)
    far = Check(Mean(3.0, 0.9, 10, 1.0), high=0.0)
    assert combined([far, *[true] * 29]) == (CONTRADICTED, far)
    assert combined([true] * 30)[0] is HOLDS, "all hold no less surely than each"
    several = Claims((claim({"all": [{"within": name, "at_most": 0} for name in ("near", "true", "true", "true")]}),))
    (judged,) = judge(several, {"near": near.effect, "true": true.effect}, SIM)
    assert (judged.verdict, judged.why) == (UNDECIDED, "one of 4 parts misses, as chance may have it")


@pytest.mark.parametrize("name", ["single", "missing"])
@pytest.mark.parametrize(
    "test", [{"within": "X", "at_least": 0}, {"ratio": ["X", "two"], "at_least": 0}, {"compare": ["four", ">", "X"]}]
)
def test_one_run_or_none_decides_nothing(name: str, test: dict[str, object]) -> None:
    def named(given: object) -> object:
        return name if given == "X" else [named(g) for g in given] if isinstance(given, list) else given

    found = checks({key: named(given) for key, given in test.items()}, VALUES)
    assert combined(found)[0] is UNDECIDED


def test_a_nan_interval_is_undecided_however_many_runs() -> None:
    assert Check(Mean(5.0, math.nan, 9, math.nan), low=1.0).verdict is UNDECIDED
    assert Check(Mean(0.0, math.nan, 9, math.nan), low=1.0).verdict is UNDECIDED


def test_effects_carry_the_intervals_of_the_package() -> None:
    (check,) = checks({"compare": ["four", ">", "two"]}, VALUES)
    assert check.effect == difference(VALUES["four"], VALUES["two"])
    (check,) = checks({"within": "two", "at_least": 0}, VALUES)
    assert check.effect.half == pytest.approx(HALF)


def test_a_bound_of_none_is_plain_zero() -> None:
    (check,) = checks({"compare": ["two", "<", "four"]}, VALUES)
    assert check.wanted == "< 0"


def test_the_check_that_decides_is_the_farthest_out_or_the_closest_to_its_bound() -> None:
    verdict, check = combined(checks({"order": ["one", "two", "four"]}, VALUES))
    assert verdict is CONTRADICTED
    assert check is not None
    assert check.effect.mean == pytest.approx(-2.0)
    verdict, check = combined(checks({"order": ["four", "two", "one"]}, VALUES))
    assert check is not None
    assert check.effect.mean == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("test", "words"),
    [
        ({}, "expected one of within"),
        ({"within": "two", "order": []}, "expected one of within"),
        ({"within": "two"}, "expected of and tolerance"),
        ({"within": "two", "of": 2, "tolerance": 0}, "tolerance is to be a number above 0"),
        ({"within": "tow", "at_least": 1}, 'no value "tow"'),
        ({"within": {"maximum": []}, "at_least": 1}, 'no operation "maximum"'),
        ({"compare": ["one", "=", "two"]}, 'neither ">" nor "<"'),
        ({"compare": ["one", "two"]}, "compare takes"),
        ({"monotone": "curves", "direction": "rising"}, "no two values"),
        ({"monotone": "curve", "direction": "up"}, "direction"),
        ({"order": ["one"]}, "two quantities or more"),
        ({"order": ["one", "two"], "tolerance": 1}, "tolerance is no key"),
        ({"within": "__import__('os')", "at_least": 1}, "no value"),
    ],
)
def test_a_wrong_test_says_what_is_wrong(test: dict[str, object], words: str) -> None:
    with pytest.raises(Wrong, match=re.escape(words)):
        checks(test, VALUES)


HEAD = '[[claim]]\nid = "a"\nwhere = "Figure 1"\nsays = "A is."\nitem = "fig1"\n'


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (HEAD, "no test"),
        (HEAD + 'test = { none = "why" }\ncolour = "red"', "colour is no key"),
        (HEAD + 'test = { none = "why" }\n' + HEAD + 'test = { none = "why" }', "two claims a"),
        (HEAD + 'test = { none = "why" }\nworlds = ["moon"]', "worlds are"),
        (HEAD + 'test = { none = "why" }\nprose = { true = "Yes." }', "no verdict true"),
        (HEAD + 'test = { none = "why" }\nprose = { holds = "A is 1.83 times B." }', "no number of its own: 1.83"),
        (HEAD + 'test = { none = "why" }\nprose = { holds = "A is in 12 of 48 {cells|.0f}." }', "of its own: 12, 48"),
        (HEAD + 'test = { none = "why" }\nprose = { holds = "A is twice B." }', "no number of its own: twice"),
        (HEAD + 'test = { none = "why" }\nprose = { holds = "A nearly halves B." }', "of its own: halves, nearly"),
        (HEAD.replace('"a"', '"a b"') + 'test = { none = "why" }', "an id has letters"),
        (HEAD.replace('"a"', '"a-<b>"') + 'test = { none = "why" }\nfor = [{ c = "d" }]', "no b in for"),
    ],
)
def test_a_wrong_file_names_itself_and_the_claim(text: str, words: str, tmp_path: Path) -> None:
    file = tmp_path / "claims.toml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(Wrong, match=re.escape(words)) as wrong:
        load(file)
    assert str(file) in str(wrong.value)


def test_claims_that_differ_by_a_few_words_are_written_once(tmp_path: Path) -> None:
    file = tmp_path / "claims.toml"
    lines = (
        'for = [{ x = "b", of = 2.0 }, { x = "c", of = 3 }]\ntest = { within = "<x>", of = "<of>", tolerance = 0.1 }'
    )
    file.write_text(HEAD.replace('"a"', '"a-<x>"').replace("A is.", "<x> is <of>.") + lines, encoding="utf-8")
    assert [(claim.id, claim.says, claim.test) for claim in load(file).all] == [
        ("a-b", "b is 2.0.", {"within": "b", "of": 2.0, "tolerance": 0.1}),
        ("a-c", "c is 3.", {"within": "c", "of": 3, "tolerance": 0.1}),
    ]


def test_a_template_may_state_the_conditions_of_its_claim(tmp_path: Path) -> None:
    file = tmp_path / "claims.toml"
    prose = 'prose = { holds = "At 2 % loss A is {a} in figure 1, for two flows." }'
    head = HEAD.replace("A is.", "A is for two flows at 2 % loss.")
    file.write_text(head + 'test = { none = "why" }\n' + prose, encoding="utf-8")
    assert load(file).all[0].names() == {"a"}


#: Decimals in the text of pages on which nothing was measured: what papers print, scenarios set and definitions have.
GIVEN = {
    "rsf": {"17.65", "18.60", "0.99"},
    "loss-aware": {"0.01", "0.02", "0.05", "1.9", "0.019", "0.039", "1.5"},
    "bandit": set[str](),
    "ddpg": {"0.9", "11.35", "0.5", "0.3", f"{100 * PAYLOAD:.1f}"}
    | {f"{resting_rate(percent / 100):.1f}" for percent in (4, 5, 6)}
    | {f"{resting_rate(0.02, beta=11) * 8e-6:.1f}"},
    "drones": {"32.34", "37.92", "89.5", "81.6", "98.6", "4.4", "0.07"},
    "pilot": {"0.05", "0.85", "0.8", "1.2"},
}
#: Words of results. On a page without results they stand beside their source, or in a definition.
RESULT = re.compile(r"\b(wins?|won|beats?|gained|faster|slower|worse|mostly|nearly|hardly|as in the paper|agrees?)\b")
SOURCE = re.compile(r"\b(paper|RFC|should|benefit|interval|above the line|not tuned)\b", re.IGNORECASE)


@pytest.mark.parametrize("paper", PAPERS.values(), ids=lambda paper: paper.name)
def test_text_on_a_page_has_no_result_where_nothing_was_measured(paper: Paper) -> None:
    sections = [item.show(Results()) for item in paper.items]
    texts = [text for section in sections for text in (*section.lead, *section.notes)]
    decimals = {number for text in texts for number in re.findall(r"(?<![\d.])(?!802\.11)\d+\.\d+", text)}
    # What links carry is computed without any run.
    computed = {tables.most(phy) for phy in tables.PHYS} if paper.name == "drones" else set()
    assert decimals <= GIVEN[paper.name] | computed
    sentences = [sentence for text in texts for sentence in re.split(r"(?<=[.;]) ", text)]
    assert [s for s in sentences if RESULT.search(s) and not SOURCE.search(s)] == []


@pytest.mark.parametrize("paper", PAPERS.values(), ids=lambda paper: paper.name)
def test_words_on_a_page_are_standard(paper: Paper) -> None:
    sections = [item.show(Results()) for item in paper.items]
    texts = [text for section in sections for text in (section.title, *section.lead, *section.notes)]
    texts += [text for c in paper.claims.all for text in (c.says, c.where, c.unit, *c.prose.values())]
    # The names of values are no prose.
    assert nonstandard(re.sub(r"\{[^}]*\}", "", "\n".join(texts))) == []


def claim(test: dict[str, object], **prose: str) -> Claim:
    return Claim("a", "Figure 1", "A is twice B.", "fig1", test, unit="×", prose=prose)


TWICE = claim(
    {"ratio": ["two", "one"], "of": 2.0, "tolerance": 0.5},
    holds="A is {effect} times B, {two|.1f}.",
    contradicted="A is only {effect} times B.",
)


def test_the_page_has_the_sentence_of_the_verdict_that_came_out() -> None:
    found = Claims((TWICE,))
    (held,) = judge(found, {"one": around(1, 0.01), "two": around(2, 0.01)}, SIM)
    assert (held.verdict, held.prose) == (HOLDS, "A is 2.00 times B, 2.0.")
    (flipped,) = judge(found, {"one": around(1, 0.01), "two": around(0.5, 0.01)}, SIM)
    assert (flipped.verdict, flipped.prose) == (CONTRADICTED, "A is only 0.50 times B.")
    (open_,) = judge(found, {"one": around(1, 0.5), "two": around(2, 0.5)}, SIM)
    assert (open_.verdict, open_.prose) == (UNDECIDED, ""), "no template, no sentence"
    (unmeasured,) = judge(found, {"one": mean_of([]), "two": mean_of([])}, SIM)
    assert (unmeasured.prose, unmeasured.n, unmeasured.why) == ("", 0, "not measured")


def test_what_was_not_measured_has_no_verdict_and_a_count_no_decimals() -> None:
    found = Claims((replace(TWICE, test={"within": "cells", "at_most": 0.5}, prose={}),))
    html = table.html(found, judge(found, {"cells": mean_of([])}, SIM))
    assert "not measured" in html
    assert "badge" not in html, "an undecided one has runs"
    counted = judge(found, {"cells": constant(9)}, SIM)
    assert table.effect(counted[0]) == "9 ×"


def test_a_remark_follows_what_is_always_said() -> None:
    one = claim(TWICE.test, always="A is {effect} times B.", contradicted="That is not twice.")
    found = Claims((one,))
    for two, said in ((2.0, "A is 2.00 times B."), (0.5, "A is 0.50 times B. That is not twice.")):
        (judged,) = judge(found, {"one": around(1, 0.01), "two": around(two, 0.01)}, SIM)
        assert judged.prose == said
    assert lock.unspoken(found, {SIM: {"a": {"verdict": "undecided", "n": 5}}}) == []


def test_a_template_with_a_value_that_was_not_measured_says_nothing() -> None:
    assert fill("{two} and {missing}", VALUES) is None
    assert fill("{two|.1f}", VALUES) == "2.0"
    with pytest.raises(Wrong, match="no value"):
        fill("{tow}", VALUES)


def test_worlds_that_differ_are_told() -> None:
    found = Claims((TWICE,))
    sim = judge(found, {"one": around(1, 0.01), "two": around(2, 0.01)}, SIM)
    same = judge(found, {"one": around(1, 0.01), "two": around(2.01, 0.02)}, KERNEL)
    other = judge(found, {"one": around(1, 0.01), "two": around(1.5, 0.01)}, KERNEL)
    single = judge(found, {"one": mean_of([1.0]), "two": mean_of([1.5])}, KERNEL)
    assert differ([*sim, *same]) == set()
    assert differ([*sim, *other]) == {"a"}
    assert differ([*sim, *single]) == set(), "one run differs from nothing"
    several = [replace(j, parts=2) for j in (*sim, *other)]
    assert differ(several) == set(), "they may be decided by different parts"
    assert "differ significantly" in table.html(found, [*sim, *other])
    assert "differ significantly" not in table.html(found, [*sim, *same])
    assert "differ significantly in 1 of the 1 claims measured in both" in table.summary([*sim, *other])
    assert "differ significantly" not in table.summary([*sim, *single])


def test_a_world_has_its_column_where_a_claim_is_tested_there(tmp_path: Path) -> None:
    file = tmp_path / "claims.toml"
    test = 'test = { ratio = ["two", "one"], at_least = 1 }\n'
    file.write_text('worlds = ["sim"]\n' + HEAD + test, encoding="utf-8")
    assert load(file).all[0].worlds == (SIM,)
    assert "Linux kernel" not in table.html(load(file), [])
    file.write_text('worlds = ["sim"]\n' + HEAD + 'worlds = ["sim", "relay"]\n' + test, encoding="utf-8")
    found = load(file)
    html = table.html(found, judge(found, VALUES, SIM))
    assert [name in html for name in ("<th>simulator", "<th>relay", "<th>Linux kernel")] == [True, True, False]
    others = [*judge(found, VALUES, SIM), *judge(found, {"one": around(1, 0.01), "two": around(3, 0.01)}, RELAY)]
    assert "simulator and relay differ significantly" in table.html(found, others)
    assert "Simulator and relay differ significantly in 1 of the 1 claims" in table.summary(others)


def test_a_lock_is_read_as_it_was_written_and_keeps_what_was_not_measured(tmp_path: Path) -> None:
    found = Claims((TWICE,))
    sim = judge(found, {"one": around(1, 0.01), "two": around(2, 0.01)}, SIM)
    kernel = judge(found, {"one": mean_of([]), "two": mean_of([])}, KERNEL)
    origin = {"commit": "abc", "date": "2026-11-22", "basis": "b1"}
    first = lock.updated({}, [*sim, *kernel], {SIM: {"a": origin}}, ["a"])
    first[lock.SAMPLES] = {"one-0123": {"cell": "paths.*.queue=1bdp", "rows": "89ab"}}
    lock.write(tmp_path, "rsf", first)
    again = lock.read(tmp_path)
    assert again == first
    assert again[SIM]["a"] == {
        "verdict": "holds", "value": 2.0, "low": 1.944, "high": 2.056, "n": 3, **origin,
    }  # fmt: skip
    assert KERNEL not in again, "what was never measured has no line"
    # Another call measures the kernel alone.
    none = judge(found, {"one": mean_of([]), "two": mean_of([])}, SIM)
    later = judge(found, {"one": around(1, 0.01), "two": around(0.5, 0.01)}, KERNEL)
    second = lock.updated(again, [*none, *later], {KERNEL: {"a": {"commit": "def"}}}, ["a"])
    assert second[SIM] == again[SIM]
    assert (second[KERNEL]["a"]["verdict"], second[KERNEL]["a"]["commit"]) == ("contradicted", "def")


def test_a_record_of_a_tree_with_changes_is_not_locked(tmp_path: Path) -> None:
    rsf = PAPERS["rsf"]
    one = replace(rsf, claims=replace(rsf.claims, folder=tmp_path))
    results = goals_measured()
    results.provenance[SIM, "goal-2-no-harm"] = [Provenance("abc+", "2026-11-22", "s", 3)]
    with pytest.raises(RunFailed, match=r"section goals were measured .* \(abc\+\)"):
        locked(one, results, {}, {}, tmp_path)
    assert lock.read(tmp_path) == {}


def test_a_lock_of_some_sections_keeps_the_verdicts_of_the_others(tmp_path: Path) -> None:
    rsf = PAPERS["rsf"]
    one = replace(rsf, claims=replace(rsf.claims, folder=tmp_path))
    bases = {SIM: {c.id: "b" for c in rsf.claims.all}}
    locked(one, goals_measured(), bases, {}, tmp_path)
    first = lock.read(tmp_path)
    assert set(first[SIM]) <= {c.id for c in rsf.claims.all if SIM in c.worlds and c.item == "goals"}
    told = {key: first[SIM]["goal1-lia"][key] for key in ("verdict", "commit", "basis")}
    assert told == {"verdict": "contradicted", "commit": "abc", "basis": "b"}
    long_flows = Results()
    rows = [
        {"variant": name, "controller": name, "path_manager": "fullmesh", "seed": seed, "transfers": 5,
         "transfer_mbps": rate + seed / 100, "goodput_mbps": rate, "cell": {"paths.*.queue": "1bdp"}}
        for name, rate in (("lia", 1.0), ("rsf-db", 1.9), ("reno", 1.9)) for seed in range(3)
    ]  # fmt: skip
    long_flows.add(SIM, "2-long-flows", {"rows": rows})
    locked(one, long_flows, bases, {}, tmp_path)
    second = lock.read(tmp_path)
    assert second[SIM]["goal1-lia"] == first[SIM]["goal1-lia"]
    assert second[SIM]["target-long"]["n"] == 3


KEPT = {"verdict": "undecided", "value": 1.7, "low": 1.4, "high": 2.0, "n": 5, "commit": "abc", "date": "2026-11-23"}


@pytest.mark.parametrize("stale", ["", "sources have changed"])
def test_a_page_has_the_locks_verdict_where_nothing_was_measured(stale: str) -> None:
    rsf = PAPERS["rsf"]
    found = publish(rsf, Results(), ["fig3"], {KERNEL: {"obs2-gain": (KEPT, stale)}})
    for told in ("1.70 ± 0.30 ×, n = 5", "of claims.lock, commit abc, 2026-11-23", "1 have their verdict from"):
        assert told in found.html
    assert ("<strong>stale</strong>: sources have changed" in found.html) == bool(stale)
    (entry,) = (c for c in found.document["claims"] if (c["claim"], c["world"]) == ("obs2-gain", KERNEL))
    assert entry == {"claim": "obs2-gain", "world": KERNEL, **KEPT, "stale": stale}
    measured = publish(rsf, as_measured(rsf, KERNEL), ["fig3"], {KERNEL: {"obs2-gain": (KEPT, stale)}})
    assert "claims.lock" not in measured.html, "what was measured now counts"


def test_a_stale_verdict_is_compared_with_nothing() -> None:
    found = Claims((TWICE,))
    sim = judge(found, {"one": around(1, 0.01), "two": around(9, 0.01)}, SIM)
    (none,) = judge(found, {"one": mean_of([]), "two": mean_of([])}, KERNEL)
    assert differ([*sim, lock.recalled(none, KEPT, "")]) == {"a"}
    assert differ([*sim, lock.recalled(none, KEPT, "sources have changed")]) == set()


def test_a_flipped_verdict_without_a_template_is_found() -> None:
    kept = {SIM: {"a": {"verdict": "holds", "n": 5}}}
    assert lock.unspoken(Claims((TWICE,)), kept) == []
    kept[SIM]["a"]["verdict"] = "undecided"
    assert lock.unspoken(Claims((TWICE,)), kept) == ["a, sim: undecided"]
    kept[SIM]["a"]["n"] = 0
    assert lock.unspoken(Claims((TWICE,)), kept) == []


@pytest.fixture(params=WITH_CLAIMS, ids=lambda paper: paper.name)
def paper(request: pytest.FixtureRequest) -> Paper:
    chosen: Paper = request.param
    return chosen


def test_every_claim_is_of_values_and_a_section_that_there_are(paper: Paper) -> None:
    items = {item.name for item in paper.items}
    assert {c.item for c in paper.claims.all} <= items
    for world in (SIM, KERNEL, THEORY):
        values = paper.values(Results(), world)
        judged = judge(paper.claims, values, world)
        if world != THEORY:
            assert {j.verdict for j in judged} <= {UNDECIDED, UNTESTABLE}, "nothing was measured"
        known = paper.claims.values(values, world) if any(world in c.worlds for c in paper.claims.all) else {}
        for c in paper.claims.all:
            if world in c.worlds:
                assert c.names() <= set(known), c.id


def test_every_verdict_of_the_lock_has_its_template(paper: Paper) -> None:
    assert paper.claims.folder is not None
    assert lock.unspoken(paper.claims, lock.read(paper.claims.folder)) == []


def test_the_lock_has_claims_of_the_paper_and_no_others(paper: Paper) -> None:
    assert paper.claims.folder is not None
    kept = lock.read(paper.claims.folder)
    kept.pop(lock.SAMPLES, None)
    for world, lines in kept.items():
        assert set(lines) <= {c.id for c in paper.claims.all if world in c.worlds}
    assert len(kept[SIM]) > 0.9 * sum(SIM in c.worlds for c in paper.claims.all)


def test_the_lock_has_the_runs_and_the_commit_of_what_was_measured(paper: Paper) -> None:
    """A count of cells had n = 0, and entries were of trees that no commit has."""
    assert paper.claims.folder is not None
    kept = lock.read(paper.claims.folder)
    kept.pop(lock.SAMPLES, None)
    entries = [(world, name, one) for world, lines in kept.items() for name, one in lines.items() if "value" in one]
    assert [name for _, name, one in entries if is_changed(one["commit"])] == []
    assert [name for world, name, one in entries if not one["n"] and world != THEORY] == []


def test_the_overview_has_the_verdicts_of_the_locks() -> None:
    written = (reproductions() / overview.NAME).read_text("utf-8")
    assert written == overview.text(), "python -m multipilot.papers.overview writes it anew"


class Classes(HTMLParser):
    """Elements with a class, outside of pictures."""

    def __init__(self) -> None:
        super().__init__()
        self.found: set[tuple[str, str]] = set()
        self.drawing = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.drawing = self.drawing or tag == "svg"
        if not self.drawing:
            self.found |= {(tag, name) for name in (dict(attrs).get("class") or "").split()}

    def handle_endtag(self, tag: str) -> None:
        self.drawing = self.drawing and tag != "svg"


def matched(css: str, tag: str, name: str) -> bool:
    """Whether some rule's selector names the class, for this element or for any."""
    selectors = re.findall(r"([^{}]+)\{", css)
    parts = {part for s in selectors for part in re.split(r"[\s,>+]+", s.strip()) if f".{name}" in part}
    return any(part.split(".")[0] in ("", tag) for part in parts if name in re.split(r"[.:]", part)[1:])


def goals_measured() -> Results:
    results = Results()
    goals = [("rsf-db", 10.0), ("reno", 9.0), ("lia", 4.0)]
    for scenario in ("goal-1-throughput", "goal-2-no-harm", "goal-3-balance"):
        rows = [
            {
                "variant": name, "controller": name, "path_manager": manager, "seed": seed, "cell": {},
                "goodput_mbps": rate + seed / 10, "competing_mbps": 6.0, "path_mbps": {"one": 1.0, "two": 3.0},
            }
            for name, rate in goals for manager in ("fullmesh", "single") for seed in range(3)
        ]  # fmt: skip
        results.add(SIM, scenario, {"rows": rows}, provenance=Provenance("abc", "2026-11-22", "s", 3))
    return results


def test_every_verdict_is_coloured_on_the_element_that_has_it() -> None:
    html = publish(PAPERS["rsf"], goals_measured(), ["goals"]).html
    parser = Classes()
    parser.feed(html)
    classes = {name for _, name in parser.found}
    assert {"no", "yes", "badge", "holds", "contradicted"} <= classes
    css = html[html.index("<style>") : html.index("</style>")]
    wanted = {"no", "yes", "badge", "holds", "contradicted", "undecided", "untestable"}
    assert [(t, n) for t, n in parser.found if n in wanted and not matched(css, t, n)] == []
    assert not matched("td.no { color: red }", "span", "no"), "as it was: a miss looked like a hit"


def test_the_page_opens_with_the_claims() -> None:
    html = publish(PAPERS["rsf"], Results(), ["fig6", "game"]).html
    parser = Wellformed()
    parser.feed(html)
    assert (parser.faults, parser.open) == ([], [])
    assert html.index('id="claims"') < html.index('id="fig6"') < html.index('id="game"')
    assert 'id="claim-obs5-gradual"' in html
    assert 'id="claim-goal1-lia"' not in html, "of a section that is not asked for"


def as_measured(paper: Paper, world: str) -> Results:
    """Rows of every point of this world; no tables."""
    results = Results()
    for p in (p for p in paper.points if p.world == world):
        rows = [
            {"variant": p.controller, "controller": p.controller, "path_manager": manager, "initial_path": initial,
             "scheduler": "default", "seed": seed, "cell": dict(p.cell), "goodput_mbps": 10.0 + seed,
             "transfer_mbps": 2.0 + seed / 10, "competing_mbps": 5.0 + seed / 10, "path_mbps": {"one": 5.0, "two": 5.0},
             "jain": 0.9 + seed / 100, "ben": seed / 100, "completion_s": 1.0 + seed, "completion_median_s": 1.0 + seed}
            for manager in (p.path_manager, *p.beside)
            for initial in (p.initial_paths or ("first",))
            for seed in range(5)
        ]  # fmt: skip
        results.add(world, p.key, {"rows": rows})
    return results


#: Read from a run's tables, of points that there are.
FROM_TABLES = re.compile(r"failure-|fig6-(stays|return|no-return|leaves|rate)|obs8-(late|sooner)")


def test_a_page_opens_with_a_picture_of_what_was_measured(paper: Paper) -> None:
    names = [item.name for item in paper.items]
    assert paper.claims.folder is not None
    html = publish(paper, Results(), names, lock.fresh(paper.claims.folder)).html
    first = html[html.index('id="claims"') : html.index(f'id="{names[0]}"')]
    assert "<svg" in first


@pytest.mark.parametrize(
    ("check", "found"),
    [
        (Check(Mean(3.0, 0.5, 5, 0.1), low=2.0), 2.0),
        (Check(Mean(3.0, 0.5, 5, 0.1), high=2.0), -2.0),
        (Check(Mean(3.0, 0.5, 5, 0.1), low=2.9, high=3.2), 0.2),
        (Check(Mean(3.0, 0.0, 5, 0.0), low=2.0), 30.0),
        (Check(Mean(3.0, math.nan, 1, math.nan), low=2.0), 0.0),
        (Check(Mean(300.0, 0.1, 5, 0.1), low=2.0), 30.0),
    ],
)
def test_a_margin_is_in_half_widths(check: Check, found: float) -> None:
    assert margin(check) == pytest.approx(found)


def test_a_claim_is_of_the_kernel_where_its_points_can_decide_it_and_nowhere_else(paper: Paper) -> None:
    """A column that is "not measured" for ever tells nothing."""
    judged = judge(paper.claims, paper.values(as_measured(paper, KERNEL), KERNEL), KERNEL)
    beyond = [j.claim.id for j in judged if not j.measured and not FROM_TABLES.match(j.claim.id)]
    assert beyond == []
