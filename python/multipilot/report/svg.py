"""Matplotlib figures as inline SVG whose colours are the page's, so that one drawing serves light, dark and paper."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from html import escape
from importlib import resources
from typing import Any

import matplotlib as mpl
from matplotlib.artist import Artist
from matplotlib.figure import Figure

# Stand-ins: Matplotlib wants real colours, the page's style sheet decides what each becomes.
_PAGE = {
    "INK": "#0a0b01",
    "MUTED": "#0a0b02",
    "GRID": "#0a0b03",
    "ACCENT": "#0a0b04",
    "BAR": "#0a0b05",
    "SURFACE": "#0a0b06",
    **{f"PATH-{index}": f"#0a0c{index:02x}" for index in range(8)},
}
_colours = ContextVar("colours", default=_PAGE)

INK: str
MUTED: str
GRID: str
ACCENT: str
BAR: str
SURFACE: str
PATHS: tuple[str, ...]


def __getattr__(name: str) -> Any:
    """``INK``, ``MUTED``, …, ``PATHS``: the colours to draw with."""
    found = _colours.get()
    if name == "PATHS":
        return tuple(found[f"PATH-{index}"] for index in range(8))
    if name in found:
        return found[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


@contextmanager
def light() -> Iterator[None]:
    """Within the block drawings have the light scheme's own colours: for pictures that no style sheet sees."""
    values = dict(re.findall(r"--([\w-]+): (#\w+)", _schemes()[0]))
    token = _colours.set({name: values[name.lower()] for name in _PAGE})
    try:
        yield
    finally:
        _colours.reset(token)


def _schemes() -> list[str]:
    """The variables of the style sheet: light, dark."""
    css = resources.files("multipilot.report").joinpath("style.css").read_text(encoding="utf-8")
    return re.findall(r":root \{(.*?)\}", css, flags=re.DOTALL)[:2]


def style() -> AbstractContextManager[None]:
    """Matplotlib's settings for all pictures of the page."""
    ink, muted, grid = (_colours.get()[name] for name in ("INK", "MUTED", "GRID"))
    context: AbstractContextManager[None] = mpl.rc_context(
        {
            "svg.fonttype": "none",
            "svg.hashsalt": "multipilot",
            "font.size": 9.5,
            "font.family": "DejaVu Sans",
            "text.color": ink,
            "axes.edgecolor": grid,
            "axes.facecolor": "none",
            "axes.grid": True,
            "axes.axisbelow": True,
            "axes.labelcolor": muted,
            "axes.labelsize": 8.5,
            "axes.titlecolor": ink,
            "axes.titlelocation": "left",
            "axes.titlesize": 9.5,
            "axes.titleweight": "bold",
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.spines.left": False,
            "figure.facecolor": "none",
            "grid.color": grid,
            "grid.linewidth": 0.7,
            "legend.frameon": False,
            "legend.fontsize": 8.5,
            "lines.linewidth": 1.5,
            "lines.solid_joinstyle": "round",
            "path.simplify_threshold": 0.3,
            "savefig.facecolor": "none",
            "xtick.color": grid,
            "xtick.labelcolor": muted,
            "xtick.labelsize": 8.5,
            "ytick.color": grid,
            "ytick.labelcolor": muted,
            "ytick.labelsize": 8.5,
            "ytick.major.size": 0,
        }
    )
    return context


class Picture(Figure):
    """A figure that a notebook shows without pyplot."""

    def _repr_png_(self) -> bytes:
        buffer = io.BytesIO()
        self.savefig(buffer, format="png", dpi=110, facecolor="white")
        return buffer.getvalue()


#: What the name of a drawing group begins with that is a text to show.
_TIP = "tip:"


def tip(artist: Artist, text: str) -> None:
    """Has browsers show the text while the pointer is on it."""
    artist.set_gid(_TIP + text)


def inline(figure: Figure, label: str) -> str:
    """The figure as an ``<svg>`` element, with ``label`` for those who cannot see it."""
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    for name, colour in _PAGE.items():
        text = text.replace(colour, f"var(--{name.lower()})")
    text = re.sub(rf'<g id="{_TIP}([^"]*)">', r"<g><title>\1</title>", text)
    # Names of drawing groups repeat from figure to figure; those that something refers to are hashes of their content.
    referred = set(re.findall(r'(?:url\(#|href="#)([^")]+)', text))
    text = re.sub(r' id="([^"]+)"', lambda match: match[0] if match[1] in referred else "", text)
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    box = re.search(r'viewBox="([^"]+)"', text)
    assert box is not None, "Matplotlib wrote an SVG without a viewBox"
    width = float(box[1].split()[2])
    size, name = f"max-width:{width * 1.34:.0f}px", escape(label, quote=True)
    head = f'<svg viewBox="{box[1]}" style="{size}" role="img" aria-label="{name}">'
    return re.sub(r"<svg[^>]*>", lambda _: head, text, count=1)


def standalone(figure: Figure, label: str) -> str:
    """The figure as an SVG file of its own, light or dark as its reader is."""
    light, dark = _schemes()
    style = f"svg{{{light}}} @media(prefers-color-scheme:dark){{svg{{{dark}}}}}"
    style += "text{font-family:system-ui,sans-serif!important}"
    names = 'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"'
    back = '<rect width="100%" height="100%" fill="var(--surface)"/>'
    drawing = inline(figure, label).replace("<svg ", f"<svg {names} ", 1)
    return drawing.replace(">", f"><style>{style}</style>{back}", 1) + "\n"
