"""When a verdict is stale: what a result depends on has changed, and a sample of the runs gives other rows."""

import json
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
import typer
from running import PAPERS

from multipilot import console, simulation
from multipilot.console import RunFailed
from multipilot.papers import check, sample
from multipilot.papers.claims import lock
from multipilot.papers.cli import refuse_to_lock
from multipilot.papers.paper import Paper
from multipilot.papers.provenance import Provenance, commit, sources
from multipilot.papers.publish import locked
from multipilot.papers.results import KERNEL, RELAY, SIM, WORLDS, Results
from multipilot.papers.runs import Runner, find_scenarios
from multipilot.papers.sources import CHOSEN, ENVIRONMENT, IN_ONE_WORLD, Sources, words

ROOT = Path(__file__).parents[3]


def test_the_checkout_has_the_sources_that_the_command_is_built_from() -> None:
    told = sources(console.command())
    here = Sources(ROOT)
    assert {world: here.whole(world) for world in told} == told, "run make build"


def test_what_scenarios_choose_is_where_the_table_says() -> None:
    here = Sources(ROOT)
    files = {name for world in WORLDS for name in here.files(world)}
    assert [start for start in CHOSEN if not any(name.startswith(start) for name in files)] == []
    for world, by in IN_ONE_WORLD.items():
        assert [start for start in by if not any(name.startswith(start) for name in here.files(world))] == []
    listed = [simulation.list_controllers, simulation.list_schedulers, simulation.list_path_managers]
    names = {entry["name"] for entries in (*listed, simulation.list_initial_paths) for entry in entries()}
    assert {word for by in CHOSEN.values() for word in by} <= names | {"radio", "bbr", "cubic", ENVIRONMENT}


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The sources of both worlds."""
    for folder in ("controllers", *(f"crates/{file.name}" for file in (ROOT / "crates").iterdir() if file.is_dir())):
        shutil.copytree(ROOT / folder, tmp_path / "copy" / folder, ignore=shutil.ignore_patterns("target", "tests"))
    return tmp_path / "copy"


def add(copy: Path, file: str, text: str = "int changed;\n") -> None:
    """Tests at the end, where a file has them, anything else at the start."""
    path = copy / file
    before = path.read_text(encoding="utf-8")
    path.write_text(before + text if "cfg(test)" in text else text + before, encoding="utf-8")


REAL_LIA = {"kernel lia", "relay lia"}


@pytest.mark.parametrize(
    ("file", "text", "changed"),
    [
        ("controllers/wvegas.h", "int changed;\n", set[str]()),
        ("controllers/lia.h", "int changed;\n", {"lia", "dalia", "aware", *REAL_LIA}),
        ("controllers/lia.h", "// A remark.\n", set[str]()),
        ("controllers/mpcc_utility.h", "int changed;\n", {"ddpg"}),
        ("controllers/mp_math.h", "int changed;\n", {"lia", "dalia", "ddpg", "aware", *REAL_LIA}),
        ("controllers/bpf/glue.bpf.c", "int changed;\n", REAL_LIA),
        ("crates/policy/src/path_manager/awareness/mod.rs", "fn changed() {}\n", {"aware"}),
        ("crates/policy/src/path_manager/fullmesh.rs", "fn changed() {}\n", {"lia", "dalia", "ddpg", "aware"}),
        ("crates/policy/src/path_manager/presence.rs", "\n#[cfg(test)]\nmod tests {\n}\n", set[str]()),
        ("crates/simulator/src/tcp/sender.rs", "fn changed() {}\n", {"lia", "dalia", "ddpg", "aware"}),
        ("crates/testbed/src/emulator.rs", "fn changed() {}\n", REAL_LIA),
        ("crates/testbed/src/relay.rs", "fn changed() {}\n", {"relay lia"}),
        ("crates/relay/src/flow/mod.rs", "fn changed() {}\n", {"relay lia"}),
        ("crates/relay/src/capture/mod.rs", "fn changed() {}\n", set[str]()),
        ("crates/policy/src/scheduler/linux.rs", "fn changed() {}\n", {"lia", "dalia", "ddpg", "aware", "relay lia"}),
        ("crates/policy/src/scheduler/ecf.rs", "fn changed() {}\n", set[str]()),
        ("crates/links/src/loss.rs", "fn changed() {}\n", {"lia", "dalia", "ddpg", "aware", *REAL_LIA}),
        ("crates/wireless/src/lib.rs", "fn changed() {}\n", set[str]()),
    ],
)
def test_a_basis_is_of_the_sources_that_a_scenario_uses(copy: Path, file: str, text: str, changed: set[str]) -> None:
    chosen = {"lia": {"lia"}, "dalia": {"dalia"}, "ddpg": {"ddpg-mpcc"}, "aware": {"lia", "loss-aware"}}

    def bases() -> dict[str, str]:
        found = Sources(copy)
        real = {f"{world} lia": found.basis(world, {"lia"}) for world in (KERNEL, RELAY)}
        return {n: found.basis(SIM, w) for n, w in chosen.items()} | real

    before = bases()
    add(copy, file, text)
    after = bases()
    assert {name for name in after if after[name] != before[name]} == changed


def test_the_words_of_a_scenario_are_its_keys_and_texts() -> None:
    scenario = {"radio": {"seed": 1}, "variants": [{"controller": ["lia", "olia"], "path_manager": "single"}]}
    assert {"radio", "lia", "olia", "single"} <= set(words(scenario))


def test_a_lock_is_of_a_tree_that_a_commit_has(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, locked = tmp_path / "values.py", tmp_path / "paper" / "claims.lock"
    locked.parent.mkdir()

    def git(*words: str) -> None:
        name = ("-c", "user.name=a", "-c", "user.email=a@example.org")
        subprocess.run(["git", "-C", str(tmp_path), *name, *words], check=True, capture_output=True)

    for one in (file, locked):
        one.write_text("", encoding="utf-8")
    git("init")
    git("add", ".")
    git("commit", "-m", "a")
    now = commit.__wrapped__
    clean = now(tmp_path)
    assert re.fullmatch("[0-9a-f]{10}", clean)
    locked.write_text("[sim]\n", encoding="utf-8")
    assert now(tmp_path) == now(locked.parent) == clean, "of two papers the second may be locked too"
    new = tmp_path / "scenarios" / "new.toml"
    new.parent.mkdir()
    new.write_text("", encoding="utf-8")
    assert now(tmp_path) == clean + "+", "it may be what was run"
    new.unlink()
    file.write_text("changed = True\n", encoding="utf-8")
    assert now(locked.parent) == clean + "+"
    with pytest.raises(typer.Exit):
        refuse_to_lock(PAPERS["rsf"], Runner("rsf", tmp_path, locked.parent, console.command(), 2))
    assert "commit them first" in " ".join(capsys.readouterr().err.split())


ITEM, SCENARIO = "bottleneck", "9-shared-bottleneck"


@pytest.fixture
def paper(tmp_path: Path) -> Paper:
    """One section of rsf with its claims, whose lock may be written."""
    rsf = PAPERS["rsf"]
    folder = tmp_path / "rsf"
    folder.mkdir()
    assert rsf.claims.folder is not None
    shutil.copy(rsf.claims.folder / "values.py", folder)
    claims = replace(rsf.claims, all=tuple(c for c in rsf.claims.all if c.item == ITEM), folder=folder)
    return replace(
        rsf,
        claims=claims,
        experiments=tuple(e for e in rsf.experiments if e.scenario == SCENARIO),
        items=tuple(i for i in rsf.items if i.name == ITEM),
    )


def checked(
    paper: Paper,
    copy: Path,
    out: Path,
    world: str = SIM,
    command: str = "",
    sampling_s: float = check.SAMPLING_S,
) -> tuple[check.Checked, Runner]:
    """As by a command built from the copy."""
    runner = Runner("rsf", out, find_scenarios("rsf"), command or console.command(), 2)
    runner.__dict__["checkout"] = found = Sources(copy)
    runner.__dict__["sources"] = {world: found.whole(world) for world in WORLDS}
    return check.check(paper, runner, [world], sampling_s), runner


def test_a_claim_is_stale_where_its_results_have_changed_and_not_before(
    paper: Paper, copy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Whatever the state of the checkout.
    monkeypatch.setattr("multipilot.papers.runs.commit", lambda _: "0123456789")
    ids = {c.id for c in paper.claims.all}
    found, runner = checked(paper, copy, tmp_path)
    assert found.stale[SIM] == ids, "not measured yet"
    results = Results()
    for experiment in paper.experiments:
        runner.simulate(experiment, results)
    locked(paper, results, {SIM: check.bases(paper, runner, SIM)}, sample.kept(paper, runner, results), tmp_path)
    (record,) = (tmp_path / "records" / "sim").glob("*/result.json")
    written = record.read_text(encoding="utf-8")
    record.write_text(written.replace('"goodput_mbps": ', '"goodput_mbps": 1'), encoding="utf-8")
    with pytest.raises(RunFailed, match="not what these sources give"):
        sample.kept(paper, runner, results)
    record.write_text(written, encoding="utf-8")

    def told(command: str = "", reads: Paper = paper) -> tuple[list[str], set[str], set[str]]:
        found, _ = checked(reads, copy, tmp_path, command=command)
        return found.lines, found.stale[SIM], found.confirmed[SIM]

    assert told() == ([], set(), set())
    add(copy, "controllers/wvegas.h")
    assert told() == ([], set(), set()), "no variant uses it"
    # What all runs use: the samples decide, here that nothing has changed.
    add(copy, "crates/simulator/src/tcp/sender.rs", "fn unused() {}\n")
    assert told() == ([], set(), ids)
    found, _ = checked(paper, copy, tmp_path, sampling_s=-1)
    assert found.stale[SIM] == ids, "no time for a sample"
    # The same sources with another result.
    other = tmp_path / "multipilot"
    other.write_text(f'#!/bin/sh\nexec {console.command()} "$@" --set mss=1200\n', encoding="utf-8")
    other.chmod(0o755)
    lines, stale, confirmed = told(str(other))
    assert (stale, confirmed) == (ids, set())
    assert "a sample gives another result" in lines[0]
    # A record of other sources is taken over where its sample gives the same, and only there.
    _, wrong = checked(paper, copy, tmp_path, command=str(other))
    assert check.take_over(paper, wrong) == []
    _, runner = checked(paper, copy, tmp_path)
    assert not runner.simulation(paper.experiments[0]).done
    assert check.take_over(paper, runner) == [SCENARIO]
    assert runner.simulation(paper.experiments[0]).done
    assert runner.kept(runner.simulation(paper.experiments[0])) == json.loads(written)["rows"]
    found, runner = checked(paper, copy, tmp_path)
    before = lock.read(tmp_path / "rsf")
    check.renewed(paper, runner, found)
    assert told() == ([], set(), set()), "renewed"
    after = lock.read(tmp_path / "rsf")
    assert {n: {**e, "basis": ""} for n, e in after[SIM].items()} == {
        n: {**e, "basis": ""} for n, e in before[SIM].items()
    }
    # The Python that reads the runs: the samples' values decide.
    add(tmp_path, "rsf/values.py", "# A remark.\n")
    assert told() == ([], set(), ids)
    renamed = {name: replace(one, mean=one.mean + 1) for name, one in paper.values(results, SIM).items()}
    lines, stale, _ = told(reads=replace(paper, values=lambda *_: renamed))
    assert stale == ids
    assert "a sample gives another result" in lines[0]
    # Nor do they where there are none.
    entries = lock.read(tmp_path / "rsf")
    for one in entries[lock.SAMPLES].values():
        one["values"] = sample.NO_VALUES
    lock.write(tmp_path / "rsf", "rsf", entries)
    lines, stale, _ = told(reads=replace(paper, values=lambda *_: {}))
    assert stale == ids
    assert "no sample of the section yields a value" in lines[0]
    tests = tuple(replace(c, test={**c.test, "margin": 0.1}) for c in paper.claims.all)
    lines, stale, _ = told(reads=replace(paper, claims=replace(paper.claims, all=tests)))
    assert stale == ids
    assert "the test has changed" in lines[0]


@pytest.mark.parametrize("name", [name for name, paper in PAPERS.items() if paper.claims.folder])
def test_a_sample_of_each_section_with_claims_feeds_a_value(name: str, tmp_path: Path) -> None:
    """Else an edit of the section's page asks for all of its runs again."""
    paper = PAPERS[name]
    assert paper.claims.folder is not None
    runner = Runner(name, tmp_path, find_scenarios(name), console.command(), 2)
    kept = lock.read(paper.claims.folder)
    measured = {name for world in WORLDS for name in kept.get(world, {})}
    items = {c.item for c in paper.claims.all if not c.excuse and c.id in measured}
    assert not items & check.silent(paper, runner, kept.get(lock.SAMPLES, {}))


def test_kernel_points_expire_with_their_controllers_and_the_emulator(paper: Paper, copy: Path, tmp_path: Path) -> None:
    _, runner = checked(paper, copy, tmp_path)
    results = Results()
    rows = [
        {"variant": name, "controller": name, "path_manager": "fullmesh", "seed": seed, "goodput_mbps": 5 + seed / 10,
         "competing_mbps": 5.0, "transfers": 1, "transfer_mbps": 5.0, "cell": {"links.shared.queue": "1bdp"}}
        for name in ("rsf-db", "lia", "bbr", "reno") for seed in range(5)
    ]  # fmt: skip
    results.add(KERNEL, SCENARIO, {"rows": rows}, provenance=Provenance("abc", "2026-11-23", "s", 5))
    locked(paper, results, {KERNEL: check.bases(paper, runner, KERNEL)}, {}, tmp_path)
    entries = lock.read(tmp_path / "rsf")[KERNEL]
    measured = {name for name, one in entries.items() if one["n"] == 5}
    assert measured
    for file, stale in (("controllers/wvegas.h", set()), ("crates/testbed/src/emulator.rs", measured)):
        add(copy, file, "fn unused() {}\n")
        found, runner = checked(paper, copy, tmp_path, KERNEL)
        assert found.stale[KERNEL] & measured == stale
        assert found.confirmed[KERNEL] == set()
        # What a page without a measurement says of them.
        told = check.earlier(paper, runner)[KERNEL]
        assert {name for name, (_, why) in told.items() if why} == stale
        assert {name: one for name, (one, _) in told.items()} == {n: e for n, e in entries.items() if "value" in e}


def test_a_page_calls_a_verdict_stale_whose_python_has_changed(paper: Paper, copy: Path, tmp_path: Path) -> None:
    _, runner = checked(paper, copy, tmp_path)
    (name, *_) = now = check.bases(paper, runner, KERNEL)
    assert paper.claims.folder is not None
    one = {"verdict": "holds", "value": 1.0, "n": 5, "commit": "abc", "date": "2026-11-23", "basis": now[name]}
    lock.write(paper.claims.folder, "rsf", {KERNEL: {name: one}})
    assert check.earlier(paper, runner) == {KERNEL: {name: (one, "")}}
    add(tmp_path, "rsf/values.py", "# A remark.\n")
    assert "Python has changed" in check.earlier(paper, runner)[KERNEL][name][1]
