"""A page in a browser, watched."""

from typing import Any, NamedTuple


class Page(NamedTuple):
    page: Any
    #: What it asked of the network.
    asked: list[str]
    errors: list[str]
    width: int

    def is_whole(self) -> None:
        """No error, nothing that overflows, and pictures that can be seen."""
        assert self.errors == []
        assert self.page.evaluate("document.documentElement.scrollWidth") <= self.width
        for svg in self.page.locator("svg").all():
            box = svg.bounding_box()
            assert box
            assert box["height"] > 100


def watched(browser: Any, width: int, scheme: str) -> Page:
    page = browser.new_page(viewport={"width": width, "height": 800}, color_scheme=scheme)
    asked: list[str] = []
    errors: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: errors.append(str(error)))
    return Page(page, asked, errors, width)
