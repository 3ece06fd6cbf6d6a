"""Draw docs/figures/preview.png: the robot of a preview among obstacles; needs Chromium."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import minidyn as md

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1] / "tests"))
from chromium import Browser, find_chromium  # noqa: E402 - the tests' own helper
from shape_cases import shaped_arm  # noqa: E402

AROUND = [
    {"kind": "plane", "point": [0, 0, 0], "normal": [0, 0, 1]},
    {"kind": "capsule", "name": "post", "from": [0.5, 0.6, 0], "to": [0.5, 0.6, 1], "radius": 0.05},
]


def main() -> None:
    """Design a motion, write its preview, and take a picture of it two seconds later."""
    if find_chromium() is None:
        sys.exit("no Chromium found; install it, or name one with MINIDYN_CHROMIUM")
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        made = md.excite(md.load(shaped_arm(folder)), 10.0, obstacles=AROUND)
        with Browser(folder / "profile") as browser:
            browser.open(made.preview(folder / "preview.html"), 1060)
            browser.evaluate(
                "(() => { const s = document.getElementById('time'); s.value = 2; "
                "s.dispatchEvent(new Event('input'));"
                "document.getElementById('capsules').click(); })()"
            )
            (HERE / "preview.png").write_bytes(browser.screenshot("#motion"))


if __name__ == "__main__":
    main()
