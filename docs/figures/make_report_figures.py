"""Draw docs/figures/report*.png and compare-estimates.png: parts of pages as a browser shows them.

Needs Chromium. The report is the demo's, the comparison that of both halves of the UR10's log.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from click.testing import CliRunner

import minidyn as md
from minidyn.app.cli.main import main as minidyn

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1] / "tests"))
from chromium import Browser, find_chromium  # noqa: E402 - the tests' own helper

WIDTH = 1160


def main() -> None:
    """Run the demo, open its report and take pictures."""
    if find_chromium() is None:
        sys.exit("no Chromium found; install it, or name one with MINIDYN_CHROMIUM")
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        result = CliRunner().invoke(minidyn, ["-q", "demo", "--output", str(folder / "demo")])
        if result.exit_code:
            sys.exit(result.output)
        with Browser(folder / "profile") as browser:
            browser.open(folder / "demo" / "report.html", WIDTH)
            browser.evaluate("document.querySelector('nav').remove()")
            for part in ("robot", "friction", "links"):
                (HERE / f"report-{part}.png").write_bytes(browser.screenshot(f"#{part}"))
            # one picture for the README: verdict and a joint's torque
            browser.evaluate(
                "(() => { const figure = document.querySelector('.linked');"
                "document.querySelector('#torque').replaceChildren(document.querySelector('#torque h2'), figure);"  # noqa: E501
                "[...figure.querySelectorAll('.series')].slice(1).forEach(one => one.remove());"
                "document.querySelectorAll('section:not(#summary):not(#torque)').forEach(one => "
                "one.remove());"
                "document.querySelector('footer').remove(); })()"
            )
            (HERE / "report.png").write_bytes(browser.screenshot("body"))
            (HERE / "report-torque.png").write_bytes(browser.screenshot("#torque"))
            browser.open(_comparison(folder), WIDTH)
            (HERE / "compare-estimates.png").write_bytes(browser.screenshot("#summary"))


def _comparison(folder: Path) -> Path:
    """Identify the UR10 from each half of its log and write the page on both."""
    CliRunner().invoke(minidyn, ["-q", "example", "ur10", "--output", str(folder / "ur10")])
    robot = md.load("ur10")
    log = md.read_recording(next((folder / "ur10").glob("*.csv")), robot)
    for name, half in (("first", log[: len(log) // 2]), ("second", log[len(log) // 2 :])):
        md.identify(robot, half).save(folder / f"{name} half.json")
    return md.compare_estimates(folder / "first half.json", folder / "second half.json").report(
        folder / "both.html"
    )


if __name__ == "__main__":
    main()
