"""The documentation: its words are the standard ones, and its links lead somewhere."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from multipilot import console, toml

ROOT = Path(__file__).resolve().parents[2]
TOP = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "python/README.md")
PAGES = [*(ROOT / name for name in TOP), *sorted(ROOT.glob("docs/**/*.md"))]

#: Commands that the package brings.
PYTHON = ("agree", "experience", "federation", "paper", "report", "sweep", "train")

# Regular expressions of whole words, and the standard term to write instead. Only what no ordinary sentence needs.
STANDARD = {
    r"at (?:each|every|one|a) look": "in each poll",
    r"between two looks": "polling interval",
    r"(?:fallen|falls|has to fall) behind by so much": "goodput deficit",
    r"standstills?": "stall",
    r"hitch(?:es)?": "stall",
    r"h(?:o|e)lds? up (?:the|a) (?:stream|connection)": "stall, or head-of-line blocking",
    r"(?:un)?park(?:s|ed|ings?)?": "set to backup, or backup state",
    r"taken? back": "restore",
    r"spare[sd]": "set to backup",
    r"acquit(?:s|ted|tals?)?": "restore",
    r"(?:left )?in peace": "probation",
    r"(?:what )?a path alone would carry": "estimated standalone rate",
    r"surely": "significantly",
    r"paths? (?:are |is )?known": "warm start",
    r"(?:what )?the next connection begins with": "warm start",
    r"inherit(?:s|ed|ance)?": "carried over between connections",
    r"primary (?:path|subflow)s?": "initial path, or initial subflow",
    r"first transfers?": "cold start",
    r"with growing patience": "with exponential backoff",
    r"liv(?:ed?|es) through": "outcome",
    r"mend(?:s|ed|ing)?": "fix",
    r"(?<!page\s)faults?(?!-)": "bug",
    r"forg(?:ave|iv(?:es?|en|ing))": "restore",
    r"yardsticks?": "baseline",
    r"rivals?": "competing flow, or baseline",
    r"not good enough": "limitation",
    r"see whether \w+ is right": "validate",
    r"beyond chance": "significant",
    r"no difference to be seen": "not significant",
    r"on the way": "in flight",
    r"hardships?": "emulated path",
    r"unheard": "retry MP_PRIO",
}

# Parts of names (of keys, flags, metrics and fields) for which there is a standard term.
NAMES = {
    "parking": "backup time",
    "park": "backup",
    "parked": "backup",
    "spare": "backup",
    "spared": "backup",
    "standstill": "stall",
    "unheard": "retry",
    "rival": "competing",
    "rivals": "competing",
    "yardstick": "baseline",
    "hardship": "emulated path",
    "look": "poll",
    "looks": "polls",
}


def prose(text: str) -> str:
    """The page without code, comments and addresses of links. Line breaks stay, for the numbers of lines."""

    def blank(found: re.Match[str]) -> str:
        return re.sub(r"[^\n]", " ", found[0])

    for code in (r"^```.*?^```", r"<!--.*?-->", r"^(?: {4}|\t)\S.*?$", r"`[^`]*`", r"\]\([^)\s]*\)", r"https?://\S+"):
        text = re.sub(code, blank, text, flags=re.DOTALL | re.MULTILINE)
    return text


def nonstandard(text: str) -> list[str]:
    """LINE: "WORDS": say "TERM", for all that has a standard term."""
    found = []
    for words, term in STANDARD.items():
        pattern = r"\b" + words.replace(" ", r"\s+") + r"\b"
        for hit in re.finditer(pattern, prose(text), flags=re.IGNORECASE):
            line = text.count("\n", 0, hit.start()) + 1
            found.append(f'{line}: "{" ".join(hit[0].split())}": say "{term}"')
    return found


def names(text: str) -> list[str]:
    """LINE: NAME: say "TERM", for all names in code spans that have a standard term."""
    found = []
    for span in re.finditer(r"`([^`\n]+)`", text):
        line = text.count("\n", 0, span.start()) + 1
        found += [f"{line}: {wrong}" for wrong in nonstandard_parts(re.findall(r"[A-Za-z][\w.-]*", span[1]))]
    return found


def without_tests(file: Path) -> str:
    """Code of a Rust file; its tests are last."""
    text = file.read_text(encoding="utf-8").split("\n#[cfg(test)]\n")[0]
    return "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("//"))


def literals(text: str) -> list[str]:
    """The strings of Rust code; a line that goes on after a backslash is one."""
    found = re.findall(r'"((?:[^"\\]|\\.)*)"', text.replace("'\"'", ""), flags=re.DOTALL)
    return [re.sub(r"\\\n\s*", "", string) for string in found]


def fields(text: str) -> list[str]:
    """Fields of the structs that become JSON."""
    struct = r"\bSerialize\b[^\]]*\)\]\s*(?:#\[[^\n]*\]\s*)*pub struct \w+ \{\n(.*?)\n\}"
    structs = re.findall(struct, text, flags=re.DOTALL)
    return [name for struct in structs for name in re.findall(r"^    pub (\w+):", struct, flags=re.MULTILINE)]


def nonstandard_parts(found: list[str]) -> list[str]:
    """NAME: say "TERM", for all names with a part that has a standard term."""
    parts = [(name, part) for name in found for part in re.split(r"[_.-]", name.lower())]
    return [f'{name}: say "{NAMES[part]}"' for name, part in parts if part in NAMES]


def told(*words: str) -> str:
    done = subprocess.run([console.command(), *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@cache
def helped(*words: str) -> str:
    """Help of a command, of Rust or of Python."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        [console.command(), "help", *words], capture_output=True, text=True, env={**os.environ, "PATH": path}
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def all_help(command: str) -> str:
    """With its subcommands."""
    inner = ("serve", "join") if command == "federation" else ()
    return "\n".join([helped(command), *(helped(command, name) for name in inner)])


def calls(text: str) -> list[tuple[int, str, list[str]]]:
    """Line, command and options of each call of multipilot in the code of a page."""
    found = []
    for code in re.finditer(r"^ *```.*?^ *```|`[^`\n]+`", text, flags=re.DOTALL | re.MULTILINE):
        # The rest of a call: up to another program's options, a comment, or the end of a line that goes on nowhere.
        for call in re.finditer(r"(?<!service )\bmultipilot ([a-z]+)((?:\\\n|[^\n`#;|&]|\|(?=\S))*)", code[0]):
            line = text.count("\n", 0, code.start() + call.start()) + 1
            options = re.findall(r"(?<![\w-])--[a-z][\w-]*", call[2].split(" -- ")[0])
            found.append((line, call[1], options))
    return found


def strings(document: object) -> list[str]:
    """All texts of a JSON document."""
    match document:
        case str():
            return [document]
        case list():
            return [text for entry in document for text in strings(entry)]
        case dict():
            return [text for entry in document.values() for text in strings(entry)]
    return []


def headings(text: str) -> set[str]:
    """Anchors as GitHub makes them."""
    outside = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    anchors: set[str] = set()
    for title in re.findall(r"^#+ (.*)$", outside, flags=re.MULTILINE):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title)
        anchor = re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-")
        anchors.add(anchor if anchor not in anchors else f"{anchor}-1")
    return anchors


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def test_what_is_not_standard_is_found_and_code_is_left_alone() -> None:
    text = "The path is\nparked.\n\n    park = 3\n\n```\na hitch\n```\nThe key `parking`, a\n[spare key](parked.md)."
    assert nonstandard(text) == ['2: "parked": say "set to backup, or backup state"']
    assert nonstandard("Look at the parks' marks: ask what is known, and take the spare one.") == [
        '1: "parks": say "set to backup, or backup state"'
    ]


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_words_are_standard(page: Path) -> None:
    found = nonstandard(page.read_text(encoding="utf-8"))
    assert not found, "\n".join(f"{name(page)}:{line}" for line in found)


def test_a_name_that_is_not_standard_is_found() -> None:
    assert names("The key\n`awareness.parking`, and `lookup`") == ['2: awareness.parking: say "backup time"']


@pytest.mark.parametrize("page", [p for p in PAGES if p.parent.name in ("reference", "guides")], ids=name)
def test_names_are_standard(page: Path) -> None:
    found = names(page.read_text(encoding="utf-8"))
    assert not found, "\n".join(f"{name(page)}:{line}" for line in found)


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 120


def test_the_words_of_the_command_are_standard(tmp_path: Path) -> None:
    told("manual", str(tmp_path))
    pages = {page.name: page.read_text(encoding="utf-8").replace("\\", "") for page in tmp_path.glob("*.1")}
    assert "multipilot-daemon.1" in pages
    texts = {"list": "\n".join(strings(json.loads(told("list", "--json")))), **pages}
    found = [f"{page}:{line}" for page, text in texts.items() for line in nonstandard(text)]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("command", PYTHON)
def test_the_words_of_the_python_commands_are_standard(command: str) -> None:
    assert not nonstandard(all_help(command))


#: Non-test files of the crates.
RUST = [
    file
    for file in sorted(ROOT.glob("crates/*/src/**/*.rs"))
    if "tests" not in file.parts and file.stem not in ("tests", "fixture")
]


def test_strings_and_fields_of_code_are_found() -> None:
    code = """
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub struct Status {
    /// A remark.
    pub up: bool,
    pub parked: Vec<u8>,
}
pub struct Inner {
    pub look: bool,
}
fn why() -> &'static str { "it was \\
     parked" }
"""
    assert fields(code) == ["up", "parked"]
    assert nonstandard_parts(fields(code)) == ['parked: say "backup"']
    assert literals(code)[1:] == ["it was parked"]


def test_messages_are_standard() -> None:
    """Errors, log lines and the reasons of the daemon: strings of at least two words."""
    messages = {file: [text for text in literals(without_tests(file)) if " " in text] for file in RUST}
    status = messages[ROOT / "crates/daemon/src/status.rs"]
    assert "nothing gets through" in status
    found = [f"{name(file)}: {wrong}" for file, texts in messages.items() for t in texts for wrong in nonstandard(t)]
    assert not found, "\n".join(found)


def test_metrics_and_json_keys_are_standard() -> None:
    pages = [file for file in RUST if file.name in ("metrics.rs", "openmetrics.rs")]
    metrics = [text for file in pages for text in literals(without_tests(file)) if re.fullmatch(r"[a-z]\w*", text)]
    assert {"path_backup", "relay_up"} <= {*metrics}
    keys = [field for file in RUST for field in fields(without_tests(file))]
    assert {"since_start", "poll_ms", "events_lost"} <= {*keys}
    found = nonstandard_parts(metrics + keys)
    assert not found, "\n".join(found)


@pytest.mark.parametrize("file", sorted(ROOT.glob("reproductions/*/claims.toml")), ids=name)
def test_claims_are_standard(file: Path) -> None:
    # Names of values are no prose.
    texts = [re.sub(r"\{[^}]*\}", "", text) for text in strings(toml.loads(file.read_text(encoding="utf-8")))]
    assert len(texts) > 20
    found = [wrong for text in texts if " " in text for wrong in nonstandard(text)]
    assert not found, "\n".join(found)


def test_calls_in_code_are_found() -> None:
    text = "Call `multipilot up --relay LINE`.\n\n```\nmultipilot run --all \\\n  --relay a|b -- curl --fail\n```\n"
    assert calls(text) == [(1, "up", ["--relay"]), (4, "run", ["--all", "--relay"])]


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_calls_are_valid(page: Path) -> None:
    for line, command, options in calls(page.read_text(encoding="utf-8")):
        known = [] if command == "help" else re.findall(r"--[a-z][\w-]*", all_help(command))
        wrong = [option for option in options if option not in known]
        assert not wrong, f"{name(page)}:{line}: multipilot {command} has no {wrong[0]}"


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"^```.*?^```|<!--.*?-->", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"https?:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{name(page)}: {link}"
        if anchor and target.suffix == ".md":
            assert anchor in headings(target.read_text(encoding="utf-8")), f"{name(page)}: {link}"
