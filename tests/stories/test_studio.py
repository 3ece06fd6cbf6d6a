"""The studio in a real browser: whole jobs, wrong files, cancelled runs, reloads, two windows."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import minidyn as md
from minidyn.app.studio.document import EXAMPLES
from studio_page import NOT_GREY, browser, go, opened, running, until

FOREIGN = {"q": "Winkel", "dq": "Tempo", "tau": "Moment"}


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with browser() as made:
        yield made


@pytest.fixture
def context(chromium: Any) -> Iterator[Any]:
    made = chromium.new_context(viewport={"width": 1280, "height": 800}, accept_downloads=True)
    yield made
    made.close()


def two_link_log(path: Path) -> None:
    """Write a log of the arm "two_link" with column names that nobody can guess, in degrees."""
    robot = md.load("two_link")
    law = md.control.computed_torque(robot, bandwidth=10.0, period=2e-3)
    motion = md.trajectory.fourier(robot, seed=1)
    made = md.simulate(robot, law, motion, 6.0, torque_noise=0.01, seed=1)
    columns = {"Zeit": made.t}
    for k, which in enumerate("AB"):
        columns[f"{FOREIGN['q']} {which}"] = np.rad2deg(made.q[:, k])
        columns[f"{FOREIGN['tau']} {which}"] = made.tau[:, k]  # type: ignore[index]
    np.savetxt(
        path,
        np.stack(list(columns.values()), axis=1),
        delimiter=";",
        header=";".join(columns),
        comments="",
    )


def hashes(folder: Path, *names: str) -> dict[str, str]:
    return {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in names}


def test_whole_job_on_a_dropped_log_with_foreign_columns(context: Any, tmp_path: Path) -> None:
    folder, complaints = tmp_path / "study", list[str]()
    log = tmp_path / "<b onclick=alert(1)>Messung.csv"
    two_link_log(log)
    wrong = tmp_path / "wrong.csv"
    wrong.write_bytes(bytes(range(256)) * 20)
    md.save(md.load("two_link"), tmp_path / "arm.toml")
    with running(folder) as (address, _):
        page = opened(context, address, complaints)
        assert "token" not in page.url
        assert page.is_visible("[data-stage=identify].locked")
        # robot: a file that is none, then one that is; it is drawn and moves
        page.set_input_files("main input[type=file]", wrong)
        page.wait_for_selector("#banner p.bad:has-text('wrong.csv: a robot file ends with')")
        page.set_input_files("main input[type=file]", tmp_path / "arm.toml")
        page.wait_for_selector(".legend:has-text('in combination')")
        page.wait_for_selector("h2:has-text('base parameters')")
        scene = page.query_selector(".scene canvas")
        before = scene.evaluate(NOT_GREY)
        assert before[0] > 500
        drawn = int(page.get_attribute(".scene", "data-drawn"))
        page.focus("#pose-1")
        page.keyboard.press("End")
        until(page, f"+document.querySelector('.scene').dataset.drawn > {drawn}")
        assert scene.evaluate(NOT_GREY)[1] != before[1]
        # logs: a file that is none, then columns that have to be said
        go(page, "logs")
        page.set_input_files("main input[type=file]", wrong)
        page.wait_for_selector("#banner p.bad, .problem")
        page.click("button:has-text('Remove')")
        page.wait_for_selector("button:has-text('Remove')", state="detached")
        page.set_input_files("main input[type=file]", log)
        page.wait_for_selector("strong:text-is('<b onclick=alert(1)>Messung.csv')")
        page.wait_for_selector("#map-apply.main")
        page.select_option("#map-time", "Zeit")
        for k, which in enumerate("AB"):
            for signal_name in ("q", "tau"):
                column = f"{FOREIGN[signal_name]} {which}"
                page.select_option(f"#map-{signal_name}-{k}", column)
        page.select_option("#unit-q", "deg")
        page.click("#map-apply")
        page.wait_for_selector(".chart[data-ranges]")
        ranges = np.array(json.loads(page.get_attribute(".chart", "data-ranges")))
        assert np.isfinite(ranges).all()
        assert abs(ranges[0]).max() < 8.0  # rad, not degrees
        chart = page.query_selector(".chart canvas")
        assert chart.evaluate(NOT_GREY)[0] > 300
        page.click("#check")
        page.wait_for_selector(".verdict")
        # a reload in the middle, and a second window that looks
        page.reload()
        page.wait_for_selector(".verdict")
        other = opened(context, page.url, complaints)
        other.wait_for_selector("#banner:has-text('this one only looks')")
        # identification
        go(page, "identify")
        page.select_option("#set-method", "wls")
        page.wait_for_selector("#study span:text-is('method = \"wls\"')")
        other.wait_for_selector("#study span:text-is('method = \"wls\"')")
        go(other, "identify")
        assert other.is_disabled("#run")
        page.click("#run")
        page.wait_for_selector("#to-judge")
        assert page.query_selector_all("tr.taken")
        # verdict, report, exports
        page.click("#to-judge")
        page.wait_for_selector(".verdict .headline")
        report = page.frame_locator("iframe")
        report.locator(".series svg path.model").first.wait_for()
        go(page, "use")
        page.check("#to-urdf")
        page.wait_for_selector("#export:not([disabled])")
        page.click("#export")
        page.wait_for_selector("h2:has-text('What they lose'), p:has-text('Nothing is lost')")
        with page.expect_download() as got:
            page.click("a:text-is('robot.urdf')")
        assert got.value.path().read_text().startswith("<")
        # the report opens without a server
        alone = context.new_page()
        alone.goto((folder / "results" / "report" / "report.html").as_uri())
        alone.wait_for_selector(".series svg path.model")
        alone.wait_for_selector(".turnable svg")
        alone.close()
        # the page that writes is closed: the other may
        page.close()
        other.wait_for_selector("#run:not([disabled])")
        assert not [one for one in complaints if "400" not in one], complaints
    # the same again without the studio
    names = ("identify/estimate.json", "validate/validation.json", "export/robot.urdf")
    made = hashes(folder / "results", *names)
    again = subprocess.run(
        [sys.executable, "-m", "minidyn", "run", "study.toml", "--rerun"],
        cwd=folder,
        capture_output=True,
        text=True,
    )
    assert again.returncode == 0, again.stderr
    assert hashes(folder / "results", *names) == made


@pytest.mark.long
def test_whole_job_on_the_measured_example(context: Any, tmp_path: Path) -> None:
    complaints: list[str] = []
    log = str(EXAMPLES / "ur10" / "log.csv")
    with running(tmp_path / "study", "ur10", log) as (address, _):
        page = opened(context, address, complaints)
        page.wait_for_selector("h2:has-text('36 base parameters')")
        go(page, "logs")
        page.wait_for_selector(".chart[data-ranges]")
        # the playhead moves the robot, and asks for no curve again
        fetched = page.get_attribute(".chart", "data-fetched")
        scene = page.query_selector(".scene.small canvas")
        page.wait_for_selector(".scene.small[data-drawn]")
        before = scene.evaluate(NOT_GREY)
        page.focus(".chart")
        for _ in range(40):
            page.keyboard.press(".")
        until(page, "document.querySelector('.readout').textContent.match(/t = [34]/)")
        assert scene.evaluate(NOT_GREY)[1] != before[1]
        assert page.get_attribute(".chart", "data-fetched") == fetched
        # zooming asks for finer data
        for _ in range(3):
            page.keyboard.press("+")
        until(
            page,
            f"+document.querySelector('.chart').dataset.fetched > {fetched} && "
            "document.querySelector('.chart').dataset.size === '1'",
        )
        page.click("#check")
        page.wait_for_selector(".verdict")
        go(page, "identify")
        # cancelled, then run
        page.click("#run")
        page.click("footer button:text-is('Cancel')")
        page.wait_for_selector("footer.cancelled")
        assert page.is_visible("[data-stage=judge].locked")
        page.click("#run")
        page.wait_for_selector("#to-judge")
        page.click("#to-judge")
        page.wait_for_selector(".headline:has-text('Ready to use')")
        assert not complaints


@pytest.mark.long
def test_a_motion_is_designed_and_two_estimates_are_compared(context: Any, tmp_path: Path) -> None:
    complaints: list[str] = []
    two_link_log(tmp_path / "log.csv")
    text = (tmp_path / "log.csv").read_text()
    for name, new in (("Zeit", "t"), ("Winkel A", "q1_deg"), ("Winkel B", "q2_deg")):
        text = text.replace(name, new)
    text = text.replace("Moment A", "tau1").replace("Moment B", "tau2")
    (tmp_path / "log.csv").write_text(text)
    folder = tmp_path / "study"
    with running(folder, "two_link", str(tmp_path / "log.csv")) as (address, _):
        page = opened(context, address, complaints)
        go(page, "motion")
        page.fill("#motion-duration", "4")
        page.fill("#motion-limit", "1")
        page.select_option("#motion-formats", ["urscript"])
        page.click("#design")
        moving = page.frame_locator("iframe").locator("canvas#stage")
        moving.wait_for()
        assert page.is_visible("a:text-is('motion.csv')")
        go(page, "logs")
        page.wait_for_selector(".chart[data-ranges]")
        page.click("#check")
        page.wait_for_selector(".verdict")
        for method in ("wls", "ols"):
            go(page, "identify")
            page.select_option("#set-method", method)
            page.wait_for_selector(f"#study span:text-is('method = \"{method}\"')")
            page.wait_for_selector("td:text-is('to do')")
            page.click("#run")
            page.wait_for_selector("#to-judge")
            page.click("#to-judge")
            if method == "wls":
                page.click("#keep")
                page.wait_for_selector("#compare:not([disabled])")
        page.click("#compare")
        beside = page.frame_locator("iframe[title='Two estimates side by side']")
        beside.locator("table").first.wait_for()
        assert not complaints


@pytest.mark.long
@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
def test_a_crash_of_the_work_is_a_message_and_the_page_stays(context: Any, tmp_path: Path) -> None:
    with running(tmp_path / "study") as (address, server):
        page = opened(context, address, [])
        page.click("button:has-text('Try it')")
        go(page, "logs")
        page.wait_for_selector(".chart[data-ranges]")
        page.click("#check")
        page.wait_for_selector("footer:has-text('checking')")
        listed = subprocess.run(
            ["pgrep", "-P", str(server.pid)], capture_output=True, text=True, check=True
        )
        os.kill(max(map(int, listed.stdout.split())), signal.SIGKILL)
        page.wait_for_selector("footer.failed:has-text('SIGKILL')")
        page.click("#check")
        page.wait_for_selector(".verdict")
