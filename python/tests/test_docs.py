"""The documentation: its words are the standard ones, and its links lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TOP = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md")
PAGES = [*(ROOT / name for name in TOP), *sorted(ROOT.glob("docs/**/*.md"))]

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
    r"left in peace": "probation",
    r"(?:what )?a path alone would carry": "estimated standalone rate",
    r"surely": "significantly",
    r"paths? (?:are |is )?known": "warm start",
    r"(?:what )?the next connection begins with": "warm start",
    r"first transfers?": "cold start",
    r"with growing patience": "with exponential backoff",
    r"liv(?:ed?|es) through": "outcome",
    r"mend(?:s|ed|ing)?": "fix",
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
