"""The edge server's page in a browser, fed by a server at work; its export; and the API under generated requests."""

import json
import random
import re
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet as parquet
import pytest
from pages import watched

from multipilot import console, experience

pytestmark = pytest.mark.extras


class Server(NamedTuple):
    address: str
    device: str
    operator: str
    data: Path


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    data = tmp_path_factory.mktemp("edge")
    config = data / "server.toml"
    config.write_text('limits.requests = 1000000\nreward.throughput = "20Mbit"\n')
    call = [console.command(), "serve", "--config", str(config), "--data", str(data)]

    def token(*options: str) -> str:
        made = subprocess.run([*call, "--new-token", *options], check=True, capture_output=True, text=True)
        return made.stdout.strip()

    device, operator = token("phone"), token("desk", "--operator")
    running = subprocess.Popen([*call, "--listen", "127.0.0.1:0"], stderr=subprocess.PIPE, text=True)
    try:
        assert running.stderr
        found = None
        while found is None:
            line = running.stderr.readline()
            assert line, "the server ended"
            found = re.search(r"http://\S+", line)
        # Its access log would fill the pipe.
        threading.Thread(target=running.stderr.read, daemon=True).start()
        yield Server(found[0], device, operator, data)
    finally:
        running.terminate()
        assert running.wait(30) == 0


def ask(server: Server, path: str, body: Any = None, token: str = "") -> Any:
    headers = {"Authorization": f"Bearer {token or server.device}", "Content-Type": "application/json"}
    data = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(urllib.request.Request(server.address + path, data, headers)) as answer:
        return json.load(answer)


@pytest.fixture(scope="module")
def fed(server: Server) -> Server:
    """Two places, where Wi-Fi is good while its signal is."""
    dice = random.Random(7)
    for i in range(900):
        location = "cafe" if i % 3 else "station"
        signal = -90 + 50 * dice.random()
        context = {"wifi.signal_dbm": signal}
        path = ask(server, "/v1/choose", {"location": location, "context": context})["path"]
        good = (path == "wifi") == (signal > -65) if dice.random() < 0.9 else dice.random() < 0.5
        outcome = {
            "id": f"c{i}",
            "location": location,
            "path": path,
            "context": context,
            "chosen_by": "server",
            "throughput_mbps": 40.0 if good else 5.0,
            "latency_ms": 20.0,
        }
        ask(server, "/v1/outcomes", {"outcomes": [outcome]})
    while ask(server, "/health")["behind"]:
        pass
    return server


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1280])
def test_page_shows_what_was_learnt(browser: Any, fed: Server, scheme: str, width: int) -> None:
    seen = watched(browser, width, scheme)
    page = seen.page
    page.goto(fed.address + "/")
    assert page.locator("#shown").is_hidden()
    page.fill("#token", fed.operator)
    page.click("button")
    page.wait_for_selector("#shown:not([hidden]) #reward svg polyline")
    assert page.locator("#locations tr").count() == 3
    assert "900 outcomes of 2 locations" in page.inner_text("#says")
    assert page.locator("#reward polyline").count() == 2
    assert page.locator("#chosen polygon").count() == 2
    assert page.locator("#calibration circle").count() >= 3
    assert page.locator("#drift").is_hidden()
    # As many samples of lines, areas and dots as there are drawn, and as they are drawn.
    assert page.locator("#reward-legend i").count() == 2
    assert page.locator("#calibration-legend i.dot").count() == 1
    for figure in ("reward", "calibration"):
        dashed = page.locator(f"#{figure} polyline[stroke-dasharray='4 4']").count()
        styles = page.eval_on_selector_all(
            f"#{figure}-legend i", "all => all.map(i => getComputedStyle(i).borderTopStyle)"
        )
        assert styles.count("dashed") == dashed == 1
    assert page.inner_text("#chosen-legend").endswith("all by this server")
    page.click("#locations tr:has-text('cafe')")
    page.wait_for_selector("#drift svg rect")
    legend = page.inner_text("#drift-legend")
    assert "wifi, worse (below 0)" in legend
    assert "alarm" in legend.splitlines()[-1]
    assert page.inner_text("#where").startswith("cafe: good from 20.0 Mbit/s on")
    seen.is_whole()
    assert all(url.startswith(fed.address) or url.startswith("data:") for url in seen.asked)
    page.close()


def test_page_says_why_it_shows_nothing(browser: Any, server: Server) -> None:
    page = browser.new_page()
    page.goto(server.address + "/")
    page.fill("#token", server.device)
    page.click("button")
    page.wait_for_function("document.getElementById('says').textContent.includes('operator')")
    assert page.locator("#shown").is_hidden()
    page.close()


def test_experience_is_exported_while_the_server_works(fed: Server, tmp_path: Path) -> None:
    assert experience.export(fed.data, tmp_path / "out.parquet", throughput_mbps=20) == 900
    table = parquet.read_table(tmp_path / "out.parquet")
    sums = table.group_by("location").aggregate([("reward", "sum")]).to_pylist()
    rewards = {place["location"]: place["reward_sum"] for place in sums}
    known = ask(fed, "/v1/state", token=fed.operator)["locations"]
    assert rewards == {place["location"]: place["rewards"] for place in known}


def test_generated_requests_are_answered_as_described(server: Server) -> None:
    pytest.importorskip("schemathesis", reason="pip install 'multipilot[extras]'")
    checks = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"
    for token in (server.device, server.operator):
        done = subprocess.run(
            [
                *(sys.executable, "-m", "schemathesis.cli", "run", server.address + "/openapi.json"),
                *("--header", f"Authorization: Bearer {token}", "--checks", checks),
                *("--max-examples", "40", "--seed", "1", "--no-color"),
            ],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert ask(server, "/health") is not None
