"""No connection is opened: the main walk runs in a process that ends at the first try."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

CODE = """
import os, sys
def refuse(event, words):
    if event in ("socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "urllib.Request", "socket.sendto"):
        os.write(2, f"{event} {words}".encode())
        os._exit(66)
sys.addaudithook(refuse)
import minidyn as md
if sys.argv[1] == "try":
    import socket
    socket.create_connection(("192.0.2.1", 80), timeout=1)
robot = md.load("two_link")
law = md.control.pd_gravity(robot, gain=30.0, bandwidth=8.0)
log = md.simulate(robot, law, md.trajectory.fourier(robot, seed=1), 2.0, torque_noise=0.01)
log.save(sys.argv[1] + ".csv")
log = md.read_recording(sys.argv[1] + ".csv", robot)
estimate = md.identify(robot, log, friction=[], rotor_inertia=False)
md.report(estimate, log, sys.argv[1] + ".html", code=False)
estimate.save(sys.argv[1] + ".json")
"""  # noqa: E501


def run(word: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, "-c", CODE, word]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)


def test_identification_opens_no_connection(tmp_path: Path) -> None:
    done = run(str(tmp_path / "walk"))
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "walk.html").exists()


def test_a_connection_would_be_seen() -> None:
    done = run("try")
    assert done.returncode == 66
    assert "socket" in done.stderr
