"""The daemon and ModemManager: a modem's signal reaches ``multipilot status``, from a mock on a bus of its own."""

import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from multipilot import console

pytestmark = pytest.mark.extras

NAMESPACE = f"mp-modem-{os.getpid()}"
#: python-dbusmock comes with the system's Python, not with that of the virtual environment.
PYTHON = "/usr/bin/python3"
MOCK = """
import subprocess, sys, time
import dbus, dbusmock

service, root = "org.freedesktop.ModemManager1", "/org/freedesktop/ModemManager1"
call = [sys.executable, "-m", "dbusmock", "--session", "--is-object-manager", service, root, service]
server = subprocess.Popen(call)
bus = dbus.SessionBus()
while not bus.name_has_owner(service):
    time.sleep(0.05)
mock = dbus.Interface(bus.get_object(service, root), dbusmock.MOCK_IFACE)
ports = dbus.Array([("cdc-wdm0", dbus.UInt32(6)), ("wwan0", dbus.UInt32(2))], signature="(su)")
modem = {"Ports": ports, "SignalQuality": dbus.Struct((dbus.UInt32(50), dbus.Boolean(True)), signature="ub")}
path = root + "/Modem/0"
mock.AddObject(path, service + ".Modem", modem, dbus.Array([], signature="(ssss)"))
signal = service + ".Modem.Signal"
one = dbus.Interface(bus.get_object(service, path), dbusmock.MOCK_IFACE)
print("ready", flush=True)
for line in sys.stdin:
    lte = dbus.Dictionary({"rssi": dbus.Double(float(line))}, signature="sv")
    setup = ("Setup", "u", "", "self.Set('%s', 'Rate', dbus.UInt32(args[0]))" % signal)
    try:
        one.UpdateProperties(signal, {"Lte": lte})
    except dbus.DBusException:
        one.AddProperties(signal, {"Lte": lte, "Rate": dbus.UInt32(0)})
        one.AddMethods(signal, [setup])
server.terminate()
"""


@pytest.fixture
def bus(tmp_path: Path) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Address of a private bus, and the mock on it: a line of dBm to its input changes the modem's signal."""
    if not shutil.which("dbus-daemon") or subprocess.run([PYTHON, "-c", "import dbusmock"], stderr=-3).returncode:
        pytest.skip("no python-dbusmock here: apt-get install python3-dbusmock")
    daemon = subprocess.Popen(
        ["dbus-daemon", "--session", "--nofork", "--print-address=1"], stdout=subprocess.PIPE, text=True
    )
    assert daemon.stdout is not None
    address = daemon.stdout.readline().strip()
    mock = subprocess.Popen(
        [PYTHON, "-c", MOCK],
        env={**os.environ, "DBUS_SESSION_BUS_ADDRESS": address},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert mock.stdout is not None
        assert mock.stdout.readline() == "ready\n"
        yield address, mock
    finally:
        mock.stdin.close() if mock.stdin else None
        mock.wait(10)
        daemon.terminate()
        daemon.wait(10)


@pytest.fixture
def host(bus: tuple[str, subprocess.Popen[str]], tmp_path: Path) -> Iterator[Path]:
    """A network namespace with an interface wwan0, and the daemon in it; the daemon's socket."""
    if os.geteuid():
        pytest.skip("network namespaces need root")

    def ip(*words: str) -> None:
        subprocess.run(["ip", *words], check=True)

    ip("netns", "add", NAMESPACE)
    socket = tmp_path / "control.sock"
    daemon = None
    try:
        ip("-n", NAMESPACE, "link", "add", "wwan0", "type", "veth", "peer", "name", "mast0")
        ip("-n", NAMESPACE, "address", "add", "10.77.0.2/24", "dev", "wwan0")
        for end in ("wwan0", "mast0"):
            ip("-n", NAMESPACE, "link", "set", end, "up")
        call = ["ip", "netns", "exec", NAMESPACE, console.command(), "daemon", "--socket", str(socket)]
        daemon = subprocess.Popen(call, env={**os.environ, "DBUS_SYSTEM_BUS_ADDRESS": bus[0]})
        yield socket
    finally:
        if daemon:
            # Ended by a signal, it leaves its controller for the next daemon.
            down = ["ip", "netns", "exec", NAMESPACE, console.command(), "down", "--socket", str(socket)]
            ended = subprocess.run(down)
            if ended.returncode:
                daemon.kill()
            daemon.wait()
        ip("netns", "delete", NAMESPACE)


def signal(socket: Path) -> int | None:
    call = [console.command(), "status", "--json", "--socket", str(socket)]
    done = subprocess.run(call, capture_output=True, text=True)
    if done.returncode:
        return None
    paths = json.loads(done.stdout)["paths"]
    return next((path["signal_dbm"] for path in paths if path["interface"] == "wwan0"), None)


def becomes(socket: Path, wanted: int) -> None:
    deadline = time.monotonic() + 30
    while (found := signal(socket)) != wanted:
        assert time.monotonic() < deadline, f"{found} dBm, not {wanted}"
        time.sleep(0.2)


def test_a_modems_signal_reaches_the_status(bus: tuple[str, subprocess.Popen[str]], host: Path) -> None:
    mock = bus[1]
    assert mock.stdin is not None
    becomes(host, -82)  # 50 % of ModemManager's quality, before anything better is known
    for dbm in (-62, -91):
        mock.stdin.write(f"{dbm}\n")
        mock.stdin.flush()
        becomes(host, dbm)
