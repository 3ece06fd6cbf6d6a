"""Draw docs/figures/report*.png: parts of the demo's report as a browser shows them; needs Chromium."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from click.testing import CliRunner

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
            (HERE / "report-robot.png").write_bytes(browser.screenshot("#robot"))
            # one picture for the README: verdict and a joint's torque
            browser.evaluate(
                "(() => { const figure = document.querySelector('.linked');"
                "document.querySelector('#torque').replaceChildren(document.querySelector('#torque h2'), figure);"
                "[...figure.querySelectorAll('.series')].slice(1).forEach(one => one.remove());"
                "document.querySelectorAll('section:not(#summary):not(#torque)').forEach(one => one.remove());"
                "document.querySelector('footer').remove(); })()"
            )
            (HERE / "report.png").write_bytes(browser.screenshot("body"))
            (HERE / "report-torque.png").write_bytes(browser.screenshot("#torque"))


if __name__ == "__main__":
    main()
