import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from multipilot.papers.folder import open_package

sys.path.insert(0, str(Path(__file__).parent))
open_package(Path(__file__).parents[2] / "reproductions")
# The same cases each time, as with proptest under make.
settings.register_profile("same", derandomize=True)
settings.load_profile("same")


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="pip install 'multipilot[extras]'")
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if not chromium:
        pytest.skip("no chromium here: apt-get install chromium")
    with playwright.sync_playwright() as running:
        browser = running.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield browser
        browser.close()
