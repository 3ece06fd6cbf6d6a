"""Draw docs/figures/rehearsal.png: the first screen of a rehearsal.

Needs Chromium.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import minidyn as md

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1] / "tests"))
from chromium import Browser, find_chromium  # noqa: E402 - the tests' own helper


def main() -> None:
    """Rehearse the default motion of a panda arm, and take a picture of the page."""
    if find_chromium() is None:
        sys.exit("no Chromium found; install it, or name one with MINIDYN_CHROMIUM")
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        page = md.rehearse("panda", draws=10).report(folder / "rehearsal.html")
        with Browser(folder / "profile") as browser:
            browser.open(page, 1000)
            keep = "section:not(#summary):not(#deviations)"
            for part in ("nav", "footer", keep):
                browser.evaluate(
                    f"document.querySelectorAll('{part}').forEach(one => one.remove())"
                )
            (HERE / "rehearsal.png").write_bytes(browser.screenshot("body"))


if __name__ == "__main__":
    main()
