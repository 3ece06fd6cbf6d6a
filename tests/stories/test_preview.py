"""The preview of a motion in a real browser.

The robot moves, nothing is loaded, hostile names stay names.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import minidyn as md
from chromium import Browser, find_chromium
from minidyn.model.picture import moving_scene, scene_of
from report_cases import HOSTILE_NAME
from robot_cases import robot_of_seed
from shape_cases import shaped_arm

browsing = pytest.mark.skipif(
    find_chromium() is None, reason="no Chromium found; .ci/run installs one"
)
TABLE = {"kind": "plane", "point": [0, 0, 0], "normal": [0, 0, 1]}
POST = {
    "kind": "capsule",
    "name": "post",
    "from": [0.5, 0.6, 0],
    "to": [0.5, 0.6, 1],
    "radius": 0.05,
}


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("profile")) as opened:
        yield opened


@pytest.fixture(scope="module")
def motion(tmp_path_factory: pytest.TempPathFactory) -> md.Excitation:
    arm = md.load(shaped_arm(tmp_path_factory.mktemp("arm")))
    return md.excite(
        arm,
        3.0,
        friction=(),
        rotor_inertia=False,
        noise=1.0,
        limits={"acceleration": 20.0},
        obstacles=[TABLE, POST],
    )


@pytest.fixture(scope="module")
def page(motion: md.Excitation, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return motion.preview(tmp_path_factory.mktemp("preview") / "p.html")


PIXELS = """(() => { const c = document.getElementById('stage');
  const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data; let n = 0;
  for (let k = 3; k < d.length; k += 4) if (d[k]) n++;
  return n / (c.width * c.height); })()"""
PICTURE = "document.getElementById('stage').toDataURL()"
TO = (
    "((t) => {{ const s = document.getElementById('time'); s.value = t; s.dispatchEvent(new "
    "Event('input')); }})({})"
)


def test_the_page_says_that_the_way_to_the_first_point_was_not_checked(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    steps = text[text.index("Before it runs") :]
    assert 0 < steps.index("that way was not checked") < steps.index("emergency stop")


@browsing
@pytest.mark.parametrize(("width", "dark"), [(1280, False), (1280, True), (390, False)])
def test_it_runs_without_a_complaint(browser: Browser, page: Path, width: int, dark: bool) -> None:
    browser.open(page, width, 900, dark)
    assert browser.evaluate("document.documentElement.dataset.ready") == "yes"
    assert browser.evaluate("document.documentElement.scrollWidth <= innerWidth"), (
        "the page scrolls sideways"
    )
    assert browser.evaluate(PIXELS) > 0.02, "nothing is drawn"
    assert not browser.evaluate(
        "/NaN|undefined|Infinity/.test(document.querySelector('main').outerHTML)"
    )
    assert browser.complaints() == []


@browsing
def test_the_robot_moves_with_slider_and_button_and_turns_with_keys(
    browser: Browser, page: Path
) -> None:
    browser.open(page)
    first = browser.evaluate(PICTURE)
    browser.evaluate(TO.format(1.3))
    later = browser.evaluate(PICTURE)
    assert later != first
    assert browser.evaluate("document.getElementById('clock').textContent") == "1.30 s"
    moved = browser.evaluate("document.querySelector('line.now').getAttribute('transform')")
    assert moved != "translate(0,0)"
    browser.evaluate("document.getElementById('capsules').click()")
    with_capsules = browser.evaluate(PICTURE)
    assert with_capsules != later
    browser.evaluate("document.getElementById('stage').focus()")
    browser.key("ArrowLeft", 37)
    assert browser.evaluate(PICTURE) != with_capsules
    browser.evaluate("document.getElementById('play').click()")
    assert browser.evaluate("document.getElementById('play').textContent") == "Pause"
    browser.evaluate("new Promise((done) => setTimeout(done, 400))")
    assert browser.evaluate("Number(document.getElementById('time').value)") > 1.3
    browser.evaluate("document.getElementById('play').click()")
    assert browser.evaluate("document.getElementById('play').textContent") == "Play"
    assert browser.complaints() == []


@browsing
def test_names_from_files_are_names(browser: Browser, tmp_path: Path) -> None:
    names = iter([HOSTILE_NAME, "</script><b>x", "a & b"])
    robot = md.load("puma4")
    robot = replace(
        robot.with_joints(lambda joint: replace(joint, name=next(names, "last"))), name=HOSTILE_NAME
    )
    made = md.excite(robot, 3.0, friction=(), rotor_inertia=False, time_limit=0.5)
    browser.open(made.preview(tmp_path / "p.html"))
    assert browser.complaints() == []
    assert (
        browser.evaluate("document.querySelectorAll('main img, main b, main script').length") == 0
    )
    assert "</script><b>x" in browser.evaluate("document.querySelector('#limits').textContent")
    assert browser.evaluate(PIXELS) > 0.01


def test_what_the_page_says_is_what_was_designed(
    motion: md.Excitation, page: Path, tmp_path: Path
) -> None:
    text = page.read_text()
    assert "All limits are kept at all times" in text
    assert "distance" in text
    assert text.count('class="cursor now"') == min(len(motion.margins["distance"]), 6) + 4
    with pytest.raises(md.MinidynError, match="html"):
        motion.preview(tmp_path / "preview.pdf")
    wrong = md.excite("panda", 4.0, start=[0, 0, 0, 1, 0, 1, 0], friction=(), time_limit=1)
    assert "does not keep all limits" in wrong.preview(tmp_path / "wrong.html").read_text()


@pytest.mark.parametrize("seed", range(12))
def test_points_move_with_their_links(seed: int) -> None:
    """Placed where the links are, the points of the moving picture are those of the still picture
    of every pose.
    """
    rng = np.random.default_rng(seed)
    robot = robot_of_seed(seed)
    q = rng.normal(size=(3, robot.n))
    scene, placements = moving_scene(robot, q)
    carriers = np.array(scene.carriers) + 1
    ends = [
        place
        for shape in scene.shapes
        if shape.kind == "link"
        for place in (shape.points[0], shape.points[-1])
    ]
    for k in range(3):
        T = placements[k, carriers]
        placed = np.einsum("kij,kj->ki", T[:, :, :3], np.array(scene.points)) + T[:, :, 3]
        still = np.array(scene_of(robot, q[k]).points)
        for some in [ends, range(len(placed))] if k == 0 else [ends[: 2 * len(robot.joints)]]:
            size, wanted = (
                np.linalg.norm(one[some][:, None] - one[some], axis=2) for one in (placed, still)
            )
            np.testing.assert_allclose(size / size.max(), wanted / wanted.max(), atol=1e-9)
