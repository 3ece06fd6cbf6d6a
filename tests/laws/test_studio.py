"""The studio without a browser: who may talk to it, what is uploaded, what it writes, what it
shows of long logs, and that its processes end with it.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import tomllib
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import minidyn as md
from minidyn.app.studio.desk import Desk
from minidyn.app.studio.document import EXAMPLES, Actions, text_of
from minidyn.app.studio.guard import FRAMED, POLICY, Guard, is_loopback
from minidyn.app.studio.phases import PARTS, Phases
from minidyn.app.studio.processes import WorkEnded, Worker
from minidyn.app.studio.pyramid import FACTOR, Pyramid, write_pyramid
from minidyn.app.studio.server import LOG_ENDINGS, NOTES, ROBOT_ENDINGS, Studio
from minidyn.display import listening
from minidyn.errors import DescriptionError, MinidynError, UnknownName
from minidyn.formats.load import SUFFIXES
from minidyn.recording.read.read import READERS
from studio_page import running

LOG = EXAMPLES / "ur10" / "log.csv"


# ------------------------------------------------------------ guard


async def _page(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"secret"})


def request(
    guard: Guard, *headers: tuple[str, str], method: str = "GET", query: str = ""
) -> tuple[int, dict[str, str], bytes]:
    """Return status, headers and body of one request."""
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    raw = [(name.lower().encode(), value.encode()) for name, value in headers]
    scope = {"type": "http", "method": method, "query_string": query.encode(), "headers": raw}
    asyncio.run(guard(scope, None, send))  # type: ignore[arg-type]
    answered = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    return sent[0]["status"], answered, b"".join(one.get("body", b"") for one in sent[1:])


@pytest.fixture
def guard() -> Guard:
    return Guard(_page, "127.0.0.1")


HOST = ("Host", "127.0.0.1:8123")


def _cookie(guard: Guard) -> tuple[str, str]:
    return "Cookie", f"{guard.cookie}={guard.token}"


def test_token_becomes_a_cookie_that_scripts_and_other_sites_cannot_use(guard: Guard) -> None:
    status, headers, body = request(guard, HOST, query=f"token={guard.token}")
    assert (status, headers["location"], body) == (303, "/", b"")
    assert {"HttpOnly", "SameSite=Strict"} <= set(headers["set-cookie"].split("; "))
    status, headers, body = request(guard, HOST, _cookie(guard))
    assert (status, body) == (200, b"secret")
    assert headers["content-security-policy"] == POLICY
    assert "unsafe" not in POLICY
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"


def test_without_the_token_nothing_is_shown(guard: Guard) -> None:
    wrong = guard.token[:-1] + ("A" if guard.token[-1] != "A" else "B")
    for attack in (
        {},
        {"query": f"token={wrong}"},
        {"query": "token="},
    ):
        status, headers, body = request(guard, HOST, **attack)  # type: ignore[arg-type]
        assert status == 403
        assert b"secret" not in body
        assert "set-cookie" not in headers
    for cookie in (f"{guard.cookie}={wrong}", f"other={guard.token}", f"{guard.cookie}=", ";=;,"):
        assert request(guard, HOST, ("Cookie", cookie))[0] == 403


@pytest.mark.parametrize(
    "host",
    ["evil.example", "127.0.0.1.evil.example:80", "localhost.evil.example", "192.168.1.7", "", "["],
)
def test_a_foreign_name_for_this_address_is_refused(guard: Guard, host: str) -> None:
    for method in ("GET", "POST"):
        origin = ("Origin", f"http://{host}")
        status, _, body = request(guard, ("Host", host), origin, _cookie(guard), method=method)
        assert status == 421
        assert b"secret" not in body
    two = (HOST, ("Host", "evil.example"))
    assert request(guard, *two, _cookie(guard))[0] == 421
    assert request(guard, _cookie(guard))[0] == 421


@pytest.mark.parametrize("host", ["127.0.0.1:9000", "localhost:1", "[::1]:5"])
def test_a_tunnel_may_have_another_port(guard: Guard, host: str) -> None:
    assert request(guard, ("Host", host), _cookie(guard))[0] == 200


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "http://127.0.0.1:1", "https://127.0.0.1.evil:8123"]
)
def test_another_sites_page_may_not_talk_to_it(guard: Guard, origin: str) -> None:
    for method in ("GET", "POST", "PUT"):
        answer = request(guard, HOST, ("Origin", origin), _cookie(guard), method=method)
        assert answer[0] == 403
        assert b"secret" not in answer[2]
    site = ("Sec-Fetch-Site", "cross-site")
    assert request(guard, HOST, site, _cookie(guard))[0] == 403


def test_what_changes_something_says_its_origin(guard: Guard) -> None:
    assert request(guard, HOST, _cookie(guard), method="POST")[0] == 403
    own = ("Origin", "http://127.0.0.1:8123")
    assert request(guard, HOST, own, _cookie(guard), method="POST")[0] == 200


def test_a_socket_is_refused(guard: Guard) -> None:
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    asyncio.run(guard({"type": "websocket", "headers": []}, None, send))  # type: ignore[arg-type]
    assert sent == [{"type": "websocket.close", "code": 1008}]


def test_bound_to_all_addresses_it_answers_to_numbers_alone() -> None:
    guard = Guard(_page, "0.0.0.0")  # noqa: S104 - what is tested
    assert not is_loopback("0.0.0.0")  # noqa: S104
    assert request(guard, ("Host", "192.168.1.7:80"), _cookie(guard))[0] == 200
    assert request(guard, ("Host", "evil.example:80"), _cookie(guard))[0] == 421


def test_reports_in_a_frame_are_strangers() -> None:
    assert "allow-same-origin" not in FRAMED
    assert "default-src 'none'" in FRAMED


# ------------------------------------------------------------ uploads


async def _chunks(*parts: bytes) -> AsyncIterator[bytes]:
    for part in parts:
        yield part


def take(studio: Studio, kind: str, name: str, *parts: bytes) -> str:
    """Return the name under which a file was taken."""

    async def ask(task: str, **given: Any) -> Any:
        names[given["file"]] = given["name"]

    names: dict[str, str] = {}
    studio.desk.ask = ask  # type: ignore[assignment, method-assign]
    file = asyncio.run(studio.take(kind, name, _chunks(*parts)))
    studio.state["names"] = names
    return file


@pytest.fixture
def studio(tmp_path: Path) -> Studio:
    return Studio(tmp_path / "study" / "of", limit=1000)


def test_uploaded_files_get_names_of_ours(studio: Studio) -> None:
    studio.folder.mkdir(parents=True)
    for name in (
        "../../../evil.csv",
        "..\\..\\evil.csv",
        "/etc/evil.csv",
        "a\x00b\n<b>.csv",
        "x.CSV",
    ):
        file = take(studio, "log", name, b"t,q\n", b"0,1\n")
        assert Path(file).parts[0] == "files"
        assert Path(file).name.removeprefix("log-").removesuffix(".csv").isdigit()
        shown = studio.state["names"][file]
        assert "/" not in shown
        assert "\n" not in shown
        assert "\x00" not in shown
    written = sorted(one.name for one in studio.folder.parent.parent.rglob("*") if one.is_file())
    assert written == [f"log-{k}.csv" for k in range(1, 6)]
    assert (studio.folder / "files/log-1.csv").read_bytes() == b"t,q\n0,1\n"


def test_an_upload_beyond_the_limit_leaves_nothing(studio: Studio) -> None:
    studio.folder.mkdir(parents=True)
    sent = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal sent
        while True:
            sent += 100
            yield bytes(100)

    with pytest.raises(DescriptionError, match="larger than"):
        asyncio.run(studio.take("log", "big.csv", endless()))
    assert sent <= studio.limit + 200
    assert list((studio.folder / "files").iterdir()) == []


@pytest.mark.parametrize(
    ("kind", "name"), [("log", "run.sh"), ("robot", "log.csv"), ("log", "x"), ("robot", ".toml")]
)
def test_an_upload_of_another_kind_is_refused(studio: Studio, kind: str, name: str) -> None:
    with pytest.raises(DescriptionError, match="ends with one of"):
        take(studio, kind, name, b"x")
    assert not studio.folder.exists()


def test_endings_are_those_of_the_readers() -> None:
    assert set(LOG_ENDINGS) <= set(READERS)
    assert set(ROBOT_ENDINGS) == set(SUFFIXES)


OUTSIDE = (
    "/page/../server.py",
    "/page/..%2Fserver.py",
    "/page/%2e%2e%2fserver.py",
    "/page/desk.py",
    "/results/../../secret.txt",
    "/results/..%2f..%2fsecret.txt",
    "/results/identify/../study.toml",
    "/notes/lock",
    "/notes/..%2f..%2fsecret.txt",
    "/openapi.json",
    "/ask/run",
    "/ask/__class__",
)
"""Addresses that lead to nothing: files beside and above, and requests that nobody offers."""


def test_the_whole_server_refuses_what_its_parts_refuse(tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("secret of the folder above")
    with running(tmp_path / "study") as (address, _):
        where, _, token = address.removeprefix("http://").partition("/?token=")
        port = int(where.rpartition(":")[2])
        own = {"Origin": f"http://{where}"}

        def send(
            method: str, path: str, body: bytes = b"", **headers: str
        ) -> tuple[int, bytes, Any]:
            line = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
            line.request(method, path, body, headers)
            answer = line.getresponse()
            with closing(line), answer:
                return answer.status, answer.read(), answer.headers

        status, _, headers = send("GET", f"/?token={token}")
        assert status == 303
        cookie = {"Cookie": headers["Set-Cookie"].split(";")[0]}
        assert send("GET", "/", **cookie)[0] == 200
        assert (
            b"default-src 'none'"
            in send("GET", "/", **cookie)[2]["Content-Security-Policy"].encode()
        )
        for path in OUTSIDE:
            status, body, _ = send("GET", path, **cookie)
            assert status in (400, 404), path
            assert b"secret of" not in body
            assert b"import" not in body
        act = json.dumps({"window": "mine", "name": "robot", "given": {"file": "ur10"}}).encode()
        assert send("POST", "/act", act, **own)[0] == 403  # no cookie
        assert send("POST", "/act", act, **cookie)[0] == 403  # no origin
        assert send("POST", "/act", act, **cookie, Origin="http://evil.example")[0] == 403
        assert send("POST", "/act", act, **cookie, **own)[0] == 409  # no window listens
        assert send("POST", "/act", b"x" * (2 << 20), **cookie, **own)[0] == 400
        assert send("POST", "/act", b"[1]", **cookie, **own)[0] == 400
        assert send("PUT", "/upload?window=a&kind=log&name=a.csv", b"1", **cookie, **own)[0] == 409
        assert send("GET", "/", **cookie, Host="evil.example")[0] == 421
        upgrade = {"Connection": "Upgrade", "Upgrade": "websocket", "Origin": "http://evil.example"}
        assert send("GET", "/events?window=a", **cookie, **upgrade)[0] == 403
    assert not (tmp_path / "study" / "files").exists()


# ------------------------------------------------------------ the study file


def test_actions_are_lines_of_a_right_study_file(tmp_path: Path) -> None:
    (tmp_path / NOTES).mkdir()
    shutil.copy(LOG, tmp_path / "log.csv")
    actions = Actions(tmp_path / "study.toml")
    actions.act("robot", {"file": "ur10"})
    actions.act("robot_option", {"name": "lock", "value": {"wrist_3_joint": 0.0}})
    actions.act("logs", {"fit": ["log.csv"], "test": []})
    actions.act("setting", {"name": "method", "value": "wls"})
    actions.act("setting", {"name": "cutoff", "value": 12.0})
    actions.act("export", {"to": ["toml"]})
    written = tomllib.loads((tmp_path / "study.toml").read_text())
    assert written["robot"] == {"file": "ur10", "lock": {"wrist_3_joint": 0.0}}
    assert [one["files"] for one in written["log"]] == [["log.csv"], ["log.csv"]]
    assert written["identify"] == {"logs": ["fit"], "method": "wls"}
    assert written["preparation"] == {"cutoff": 12.0}
    states = [step.state for step in md.run_study(tmp_path / "study.toml", dry=True).steps]
    assert states == ["to do"] * len(states)
    before = (tmp_path / "study.toml").read_bytes()
    for name, given, error in (
        ("robot", {"file": "no_such_robot"}, MinidynError),
        ("robot_option", {"name": "lock", "value": {"no_joint": 0.0}}, MinidynError),
        ("setting", {"name": "method", "value": "magic"}, DescriptionError),
        ("setting", {"name": "output", "value": "../.."}, UnknownName),
        ("logs", {"fit": ["no_such.csv"], "test": []}, MinidynError),
        ("export", {"to": ["nowhere"]}, DescriptionError),
        ("shell", {}, UnknownName),
        ("robot", {}, DescriptionError),
    ):
        with pytest.raises(error):
            actions.act(name, given)
        assert (tmp_path / "study.toml").read_bytes() == before
    assert text_of(Actions(tmp_path / "study.toml").tables).encode() == before


def test_run_waits_for_a_check_of_exactly_these_inputs(tmp_path: Path) -> None:
    desk = Desk(tmp_path, lambda **facts: None)
    assert desk.on_state()["locked"]["logs"] == "Choose a robot first."
    desk.on_act("example", {})
    assert desk.on_state()["locked"]["run"] == "Check the logs."
    with pytest.raises(DescriptionError, match="Check the logs"):
        desk.on_run(["identify"])
    desk.on_check()
    assert desk.on_state()["locked"]["run"] == ""
    assert desk.on_act("setting", {"name": "method", "value": "ols"})["locked"]["run"] == ""
    for changed in (
        ("mapping", {"offset": 0.1}),
        ("robot_option", {"name": "gravity", "value": [0, 0, 9.81]}),
    ):
        assert "have changed" in desk.on_act(*changed)["locked"]["run"]
    desk.on_act("mapping", {"offset": None})
    back = desk.on_act("robot_option", {"name": "gravity", "value": None})
    assert back["locked"]["run"] == ""
    again = Desk(tmp_path, lambda **facts: None).on_state()  # the window was closed
    assert again == back
    log = tmp_path / "files" / "ur10-log.csv"
    log.write_text(log.read_text().replace("0.6205652", "0.6205653", 1))
    assert "have changed" in desk.on_state()["locked"]["run"]


def test_a_log_that_cannot_be_read_is_a_message(tmp_path: Path) -> None:
    desk = Desk(tmp_path, lambda **facts: None)
    desk.on_act("robot", {"file": "two_link"})
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "log-1.csv").write_text("Zeit,A,B\n0,1,2\n1,2,3\n")
    desk.on_add("files/log-1.csv", "<img src=x>.csv")
    desk.on_act("logs", {"fit": ["files/log-1.csv"], "test": []})
    desk.on_read()
    error = desk.on_state()["views"]["fit"]["error"]
    assert "<img src=x>.csv" in error
    assert "log-1.csv" not in error
    found = desk.on_columns("files/log-1.csv")
    assert found["names"] == ["Zeit", "A", "B"]
    assert found["problem"]


# ------------------------------------------------------------ progress


def test_long_work_says_its_phase_its_share_and_what_is_left() -> None:
    said: list[dict[str, Any]] = []
    steps = ["identify", "validate"]
    before: dict[str, float] = {}
    for _ in range(2):
        said.clear()
        phases = Phases(steps, before, lambda **facts: said.append(facts))
        phases.step("identify")
        for part in ("reading", "reading", "solving", "a part that nobody planned"):
            phases.part(part)
            time.sleep(0.01)
        for part in PARTS["identify"]:
            phases.part(part)
        phases.step("validate")
        phases.end()
        assert said[0]["left"] == (sum(before[one] for one in phases._names) if before else None)
        before = phases.seconds
    shares = [one["share"] for one in said if "nobody" not in one["phase"]]
    assert [one["phase"] for one in said].count("identify: reading") == 2
    assert said[0]["share"] == 0.0
    assert max(shares) <= 1.0
    assert said[-1]["share"] > 0.9
    left = [one["left"] for one in said]
    assert 0.0 < left[-1] < left[0]


def test_what_identify_announces_changes_nothing() -> None:
    robot = md.load("two_link")
    law = md.control.computed_torque(robot, bandwidth=10.0, period=2e-3)
    motion = md.trajectory.fourier(robot, seed=1)
    log = md.simulate(robot, law, motion, 4.0, torque_noise=0.01, seed=1)
    heard: list[tuple[str, Any]] = []
    plain = md.identify(robot, log)
    with listening(lambda what, content: heard.append((what, content))):
        announced = md.identify(robot, log)
    np.testing.assert_array_equal(plain.beta, announced.beta)
    parts = [str(content) for what, content in heard if what == "phase"]
    assert parts == list(PARTS["identify"])
    decisions = [content for what, content in heard if what == "decision"]
    assert decisions
    assert set(decisions) <= set(plain.selection.rows)
    heard.clear()
    md.identify(robot, log)
    assert not heard  # nobody listens any more


# ------------------------------------------------------------ long logs


def test_the_pyramid_shows_every_peak_and_no_line_over_a_gap(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    t = np.arange(20_000) * 1e-3
    t[12_000:] += 5.0  # a gap
    values = np.cumsum(rng.normal(size=(20_000, 3)), axis=0).astype(np.float32)
    values[4321, 1] = 1e4  # a peak of one sample
    values[7000:7003, 2] = np.nan  # a hole of one joint
    write_pyramid(tmp_path, t, values)
    pyramid = Pyramid(tmp_path)
    for begin, end, groups in (
        (0.0, 25.0, 700),
        (3.0, 6.0, 700),
        (4.3, 4.34, 700),
        (24.0, 30.0, 9),
    ):
        part = pyramid.stretch(begin, end, groups, range(3))
        inside = (t >= begin) & (t <= end)
        assert np.all(np.nanmin(part.low, axis=0) <= np.nanmin(values[inside], axis=0))
        assert np.all(np.nanmax(part.high, axis=0) >= np.nanmax(values[inside], axis=0))
        assert len(part.t) <= max(groups, 20_000 / FACTOR**2) + 2
        middle = np.searchsorted(t, part.t)
        shown = part.size > 1
        for k in range(0, len(part.t), 50):  # each group is what a loop finds
            rows = slice(max(0, middle[k] - part.size), middle[k] + part.size)
            assert np.nanmin(values[rows, 0]) <= part.low[k, 0]
            assert part.high[k, 0] <= np.nanmax(values[rows, 0])
        crossing = (part.t[:-1] < 12.0) & (part.t[1:] > 12.0)
        assert part.gap[:-1][crossing].all()
        if begin == 0.0:
            assert shown
            assert crossing.sum() == 1
            hole = np.abs(part.t - 7.0) < 0.1
            assert part.gap[hole, 2].any()
            assert not part.gap[hole, 1].any()
    np.testing.assert_array_equal(
        pyramid.samples(t[[5, 19_000]], [0, 2]), values[[5, 19_000]][:, [0, 2]]
    )


def test_an_hour_at_a_kilohertz_answers_at_once(tmp_path: Path) -> None:
    t = np.arange(3_600_000) * 1e-3
    write_pyramid(tmp_path, t, np.sin(t)[:, None].astype(np.float32))
    pyramid = Pyramid(tmp_path)
    begin = time.process_time()
    for k in range(100):
        part = pyramid.stretch(30.0 * k, 30.0 * k + 600.0, 3000, [0])
        assert len(part.t) < 3100
    assert time.process_time() - begin < 2.0


# ------------------------------------------------------------ processes


def test_a_crash_of_the_work_is_a_message(tmp_path: Path) -> None:
    (tmp_path / NOTES).mkdir()

    async def story() -> None:
        worker = Worker(tmp_path / NOTES)
        answer, _ = await worker.ask("state")
        assert answer["value"]["locked"]["logs"]
        with pytest.raises(MinidynError, match="unknown action"):
            await worker.ask("act", name="shell", given={})
        process = worker._process
        assert process is not None
        os.kill(process.pid, signal.SIGKILL)
        with pytest.raises(WorkEnded, match="SIGKILL"):
            await worker.ask("state")
        answer, _ = await worker.ask("state")  # the next request starts another
        await worker.end()
        assert process.returncode is not None

    asyncio.run(story())


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
def test_the_program_warns_refuses_a_second_one_and_ends_quietly(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "minidyn", "studio", "--folder", str(tmp_path), "--no-browser"]
    everywhere = [*command, "--host", "0.0.0.0", "--json"]  # noqa: S104 - what is tested
    first = subprocess.Popen(everywhere, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert first.stdout is not None
    said = json.loads("".join(iter(first.stdout.readline, "}\n")) + "}")
    assert said["address"].startswith("http://127.0.0.1:")
    second = subprocess.run(command, capture_output=True, text=True)
    assert second.returncode == 2
    assert "another process" in second.stderr
    first.send_signal(signal.SIGINT)
    _, errors = first.communicate(timeout=60)
    assert first.returncode == 0
    assert errors.startswith("warning: 0.0.0.0 is reached from other machines")
    assert errors.count("\n") == 1, errors
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        third = subprocess.run([*command, "--port", port], capture_output=True, text=True)
    assert third.returncode == 2
    assert "choose another port" in third.stderr


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
def test_workers_end_with_a_server_that_is_killed(tmp_path: Path) -> None:
    program = (
        "import asyncio, os, pathlib, sys\n"
        "from minidyn.app.studio.processes import Worker\n"
        "async def story():\n"
        "    worker = Worker(pathlib.Path(sys.argv[1]))\n"
        "    await worker.ask('state')\n"
        "    print(worker._process.pid, flush=True)\n"
        "    os.kill(os.getpid(), 9)\n"
        "asyncio.run(story())\n"
    )
    (tmp_path / NOTES).mkdir()
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / NOTES)], capture_output=True, text=True
    )
    pid = int(done.stdout)
    for _ in range(100):
        if not _runs(pid):
            break
        time.sleep(0.1)
    assert not _runs(pid)


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    state = Path(f"/proc/{pid}/stat")
    return not (state.exists() and state.read_text().rpartition(")")[2].split()[0] == "Z")


def test_a_second_window_only_looks(tmp_path: Path) -> None:
    async def story() -> None:
        studio = Studio(tmp_path)
        first, second, again = (studio.listen(name) for name in ("one", "two", "one"))
        assert json.loads((await anext(first))[6:])["writes"]
        assert not json.loads((await anext(second))[6:])["writes"]
        third = json.loads((await anext(again))[6:])  # a copy of the first tab has its name
        assert not third["writes"]
        assert third["window"] != "one"
        studio.require_writer("one")
        for name in ("two", third["window"], "", "three"):
            with pytest.raises(PermissionError):
                studio.require_writer(name)
        await first.aclose()  # type: ignore[attr-defined]
        studio._pass_on()
        assert json.loads((await anext(second))[6:])["writes"]
        for one in (second, again):
            await one.aclose()  # type: ignore[attr-defined]

    asyncio.run(story())
