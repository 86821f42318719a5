"""The report in a browser: it asks nothing of the network, nothing overflows, both colour schemes have contrast."""

from pathlib import Path
from typing import Any

import pytest
import records
from pages import watched

pytestmark = pytest.mark.extras

CONTRAST = """
() => {
  const lightness = text => {
    const linear = v => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4;
    const [r, g, b] = text.match(/[\\d.]+/g).slice(0, 3).map(v => linear(v / 255));
    return .2126 * r + .7152 * g + .0722 * b;
  };
  const page = lightness(getComputedStyle(document.body).backgroundColor);
  const ratio = text => { const l = lightness(text); return (Math.max(l, page) + .05) / (Math.min(l, page) + .05); };
  const inks = [...document.querySelectorAll('h1, td, th, p, .legend li')].map(e => getComputedStyle(e).color);
  // not the shares, which stand on their bars
  const labels = [...document.querySelectorAll("figure svg text:not([style*='var(--surface)'])")];
  const drawn = labels.map(e => getComputedStyle(e).fill);
  return Math.min(...inks.map(ratio), ...drawn.map(ratio));
}
"""


@pytest.fixture(scope="module")
def page_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from multipilot.report import write

    record = records.make({"lia": 0.6, "reno": 0.8, "rsf-db": 0.82}, seeds=4, fallback=True)
    return write(record, tmp_path_factory.mktemp("page") / "report.html")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1280])
def test_page_in_a_browser(browser: Any, page_file: Path, scheme: str, width: int) -> None:
    seen = watched(browser, width, scheme)
    page = seen.page
    page.goto(page_file.as_uri())
    assert seen.asked == [page_file.as_uri()]
    # three panels of bars, and a timeline for each of the three variants
    assert page.locator("svg").count() == 3 + 3
    seen.is_whole()
    assert page.evaluate(CONTRAST) >= 4.5
    page.close()


def test_page_on_paper(browser: Any, page_file: Path) -> None:
    page = browser.new_page()
    page.goto(page_file.as_uri())
    assert page.pdf(format="A4").startswith(b"%PDF")
    page.close()
