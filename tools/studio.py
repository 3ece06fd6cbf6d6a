"""Screenshots of the studio, and how fast it is, with the machine: docs/studio.md.

    python tools/studio.py             # pictures into docs/figures/studio-*.png
    python tools/studio.py --measure   # opening time and scrubbing rate

Both drive the page in the system's Chromium, on the measured UR10 log that comes with the package.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from studio_page import browser, go, opened, running  # noqa: E402

FIGURES = ROOT / "docs" / "figures"
LOG = ROOT / "src" / "minidyn" / "app" / "examples" / "ur10" / "log.csv"
SIZE = {"width": 1280, "height": 800}
LIMIT = 200_000
"""Bytes of one picture."""

SCRUB = """async (seconds) => {
  const chart = document.querySelector(".chart"), box = chart.getBoundingClientRect();
  const scene = document.querySelector(".scene.small");
  const before = +scene.dataset.drawn, fetched = chart.dataset.fetched, begin = performance.now();
  const send = (kind, x) => chart.dispatchEvent(new PointerEvent(kind, { clientX: x, clientY: box.top + 50, pointerId: 1 }));
  chart.setPointerCapture = () => {};
  send("pointerdown", box.left + 80);
  let moves = 0;
  while (performance.now() - begin < 1000 * seconds) {
    await new Promise((next) => requestAnimationFrame(next));
    send("pointermove", box.left + 80 + ((7 * moves++) % (box.width - 160)));
  }
  send("pointerup", box.left + 80);
  return [(+scene.dataset.drawn - before) / seconds, chart.dataset.fetched === fetched];
}"""  # noqa: E501
"""Moves the playhead once in each frame; how often the robot was drawn in a second."""


TURN = """([name, angle]) => {
  const slider = document.querySelector(name);
  slider.value = angle;
  slider.dispatchEvent(new Event("input"));
}"""
"""Moves one joint in the picture."""


def seconds_of(pid: int) -> float:
    """Return the processor time of a process and of those that it started, s (Linux)."""
    total = 0.0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            values = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has just ended
        if pid in (int(stat.parent.name), int(values[1])):
            total += (int(values[11]) + int(values[12])) / os.sysconf("SC_CLK_TCK")
    return total


def ready(page: Any, *selectors: str) -> None:
    """Wait for parts of the page, and for what they draw."""
    for selector in selectors:
        page.wait_for_selector(selector)
    page.wait_for_timeout(1500)


def shoot(page: Any, name: str) -> None:
    """Write one picture."""
    path = FIGURES / f"studio-{name}.png"
    page.screenshot(path=path)
    if path.stat().st_size > LIMIT:
        raise SystemExit(f"{path}: {path.stat().st_size} bytes, at most {LIMIT}")
    print(f"{path.relative_to(ROOT)}: {path.stat().st_size // 1000} kB")


def pictures(chromium: Any, folder: Path) -> None:
    """Write a picture of each stage of a whole job."""
    with running(folder / "ur10-study") as (address, _):
        context = chromium.new_context(viewport=SIZE, reduced_motion="reduce")
        page = opened(context, address, [])
        page.click("button:has-text('Try it')")
        ready(page, ".legend", "h2:has-text('base parameters')")
        for joint, angle in ((1, -1.1), (2, 1.5)):
            page.evaluate(TURN, [f"#pose-{joint}", angle])
        page.wait_for_selector("#work[hidden]", state="attached")
        ready(page)
        shoot(page, "robot")
        go(page, "logs")
        ready(page, ".chart[data-ranges]")
        page.click("#check")
        ready(page, ".verdict")
        page.focus(".chart")
        for _ in range(60):
            page.keyboard.press(".")
        ready(page)
        shoot(page, "logs")
        go(page, "identify")
        page.click("#run")
        ready(page, "#to-judge", "tr.taken")
        shoot(page, "identify")
        page.click("#to-judge")
        ready(page, ".verdict")
        page.frame_locator("iframe").locator(".series svg path.model").first.wait_for()
        page.click("main button:text-is('Torques')")
        ready(page)
        page.evaluate("document.getElementById('stage').scrollTo(0, 330)")
        ready(page)
        shoot(page, "judge")
        go(page, "use")
        page.check("#to-urdf")
        ready(page, "#export:not([disabled])")
        page.check("#to-c")
        ready(page, "#export:not([disabled])")
        page.click("#export")
        ready(page, "h2:has-text('What they lose')")
        shoot(page, "use")


def hour(path: Path) -> None:
    """Write an hour at 1 kHz of the two-link arm."""
    t = np.arange(3_600_000) * 1e-3
    q = np.stack([np.sin(0.7 * t), np.cos(1.1 * t)], axis=1)
    np.savez(
        path,
        t=t,
        q=q,
        tau=3.0 * q,
        joint_names=np.array(["joint1", "joint2"]),
        starts=np.array([0]),
    )


def measure(chromium: Any, folder: Path) -> None:
    """Print opening time, scrubbing rate and the time that a zoom into an hour takes."""
    cores = os.cpu_count()
    print(f"{platform.platform()}, {cores} cores, WebGL by software, Chromium {chromium.version}")
    hour(folder / "hour.npz")
    for name, arguments in (
        ("UR10, 19 s at 125 Hz", ("ur10", str(LOG))),
        ("two-link arm, an hour at 1 kHz", ("two_link", str(folder / "hour.npz"))),
    ):
        begin = time.perf_counter()
        with running(folder / name.split(",")[0].replace(" ", ""), *arguments) as (address, server):
            printed = time.perf_counter() - begin
            page = opened(chromium.new_context(viewport=SIZE), address, [])
            shown = time.perf_counter() - begin
            used = seconds_of(server.pid)
            words = f"address after {printed:.1f} s, page with the study after {shown:.1f} s"
            print(f"{name}: {words}; processor time {used:.1f} s")
            go(page, "logs")
            ready(page, ".chart[data-ranges]", ".scene.small[data-drawn]")
            rate, same = page.evaluate(SCRUB, 4.0)
            print(f"  scrubbing: {rate:.0f} frames a second; curves sent again: {not same}")
            times = page.evaluate(
                """async () => {
  const query = "log=%22fit%22&groups=2500&columns=[0,1]", found = [];
  for (let k = 0; k < 30; k++) {
    const begin = performance.now();
    await (await fetch(`/ask/signals?${query}&begin=${k % 7}&end=${k % 7 + 8}`)).arrayBuffer();
    found.push(performance.now() - begin);
  }
  return found;
}"""
            )
            print(f"  curves of a zoom: {float(np.median(times)):.1f} ms (median of 30)")


def main() -> None:
    """Make the pictures, or measure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--measure", action="store_true", help="print how fast the studio is")
    measures = parser.parse_args().measure
    with browser() as chromium, tempfile.TemporaryDirectory() as folder:
        (measure if measures else pictures)(chromium, Path(folder))


if __name__ == "__main__":
    main()
