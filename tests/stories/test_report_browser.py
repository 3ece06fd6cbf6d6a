"""The report in a real browser.

It runs without a complaint, everything is drawn, and everybody can use it.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import minidyn as md
from chromium import CUT, Browser, find_chromium
from mesh_cases import binary_stl, urdf
from report_cases import HOSTILE_NAME, hostile_estimate, small_estimate, small_runs

pytestmark = pytest.mark.skipif(
    find_chromium() is None, reason="no Chromium found; .ci/run installs one"
)


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("profile")) as opened:
        yield opened


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    fit, other = small_runs()
    plan = md.one_joint_plan(small_estimate().base.robot, friction="own", rotor_inertia=None)
    target = tmp_path_factory.mktemp("report") / "r.html"
    return md.report(small_estimate(), {"other run": other}, target, fit=fit, plan=plan)


DRAWN = """[...document.querySelectorAll('svg')].filter(s => s.checkVisibility()).map(s => {
  const box = s.getBoundingClientRect(), marks = [...s.querySelectorAll('path,polyline,polygon,rect,circle')];
  const text = s.outerHTML;
  return [s.getAttribute('aria-label'), box.width, box.height, marks.length, /NaN|undefined|Infinity/.test(text),
          [...s.querySelectorAll('path')].every(p => p.getAttribute('d').length > 1)];
})"""  # noqa: E501


def check_figures(browser: Browser) -> int:
    figures = browser.evaluate(DRAWN)
    for label, width, height, marks, broken, full in figures:
        assert label
        assert width > 40, label
        assert height > 8, label
        assert marks > 0, label
        assert not broken, label
        assert full, label
    return len(figures)


@pytest.mark.parametrize(
    ("width", "dark"), [(1280, False), (1280, True), (390, False), (390, True)]
)
def test_it_runs_and_draws_without_a_complaint(
    browser: Browser, page: Path, width: int, dark: bool
) -> None:
    browser.open(page, width, 900, dark)
    assert browser.evaluate("document.documentElement.dataset.ready") == "yes"
    assert check_figures(browser) > 20
    assert browser.evaluate(CUT) == []
    assert browser.evaluate("document.documentElement.scrollWidth <= innerWidth"), (
        "the page scrolls sideways"
    )
    assert browser.complaints() == []
    background = browser.evaluate("getComputedStyle(document.body).backgroundColor")
    light = sum(int(part) for part in background[4:-1].split(",")[:3]) > 384
    assert light is not dark


def test_labels_of_many_parameters_do_not_lie_on_each_other(
    browser: Browser, tmp_path: Path
) -> None:
    """Sixty-nine of an arm with seven joints.

    In the map of correlations and below the bars of the excitation.
    """
    terms = ("viscous", "coulomb", "offset")
    robot = md.load("gen3").with_drives(True, terms)
    robot = robot.with_joints(lambda joint: replace(joint, name=f"shoulder_{joint.name}"))
    robot = robot.with_parameters([0.3 if np.isnan(value) else value for value in robot.parameters])
    t = np.arange(1500) / 100
    q, dq, ddq = md.trajectory.fourier(robot, seed=2)(t)
    tau = md.inverse_dynamics(robot, q, dq, ddq) + np.random.default_rng(0).normal(size=q.shape)
    run = md.Recording(t, q, tau, dq, ddq, robot.joint_names)
    estimate = md.identify(robot, run, friction=terms, rotor_inertia=True, consistent=False)
    assert len(estimate.names) == 69
    browser.open(md.report(estimate, {"run": run}, tmp_path / "r.html", code=False))
    # the errors of joints with long names fit into the window
    assert browser.evaluate(
        "[...document.querySelectorAll('#torque .scroll')].every(s => s.scrollWidth <= s.clientWidth)"  # noqa: E501
    )
    script = """(() => { const lie = [];
      for (const [figure, upright] of [['figure.heat', true], ['figure.heat', false], ['#excitation svg', false]]) {
        const marks = [...document.querySelectorAll(figure + ' text.tick')].map(t => t.getBoundingClientRect())
          .filter(b => (b.width > b.height) === upright).map(b => upright ? [b.top, b.bottom] : [b.left, b.right]);
        marks.sort((a, b) => a[0] - b[0]);
        lie.push([marks.length, marks.slice(1).filter((b, k) => b[0] < marks[k][1] - 3).length]);
      } return lie; })()"""  # noqa: E501
    for count, lying in browser.evaluate(script):
        assert count >= 69
        assert lying == 0
    assert browser.evaluate(CUT) == []


def test_text_can_be_read_in_both_themes(browser: Browser, page: Path) -> None:
    """Contrast of text against what is behind it, as the accessibility guidelines count it.

    4.5 at least.
    """
    script = """(() => {
      const parts = (c) => c.match(/[\\d.]+/g).map(Number);
      const light = (c) => parts(c).slice(0, 3).map(v => v / 255)
        .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
        .reduce((sum, v, k) => sum + v * [0.2126, 0.7152, 0.0722][k], 0);
      const behind = (e) => { for (; e; e = e.parentElement) {
        const c = getComputedStyle(e).backgroundColor;
        if ((parts(c)[3] ?? 1) === 1) return c; } return 'rgb(255,255,255)'; };
      const poor = [];
      for (const e of document.querySelectorAll('p,li,td,th,h1,h2,h3,a,summary,code,span,dt,button,figcaption')) {
        if (!e.checkVisibility() || ![...e.childNodes].some(n => n.nodeType === 3 && n.data.trim())) continue;
        const [a, b] = [light(getComputedStyle(e).color), light(behind(e))].sort((x, y) => y - x);
        const ratio = (a + 0.05) / (b + 0.05);
        if (ratio < 4.5) poor.push([e.textContent.slice(0, 30), ratio]);
      }
      return poor; })()"""  # noqa: E501
    for dark in (False, True):
        browser.open(page, 1280, 900, dark)
        assert browser.evaluate(script) == []


def test_the_keyboard_reaches_everything_in_order(browser: Browser, page: Path) -> None:
    browser.open(page)
    wanted = browser.evaluate(
        "[...document.querySelectorAll('a[href],button,summary,[tabindex=\"0\"]')].filter(e => e.checkVisibility())"  # noqa: E501
        ".map((e, k) => { e.dataset.order = k; return e.tagName.toLowerCase(); })"
    )
    seen = []
    for _ in range(len(wanted)):
        browser.key("Tab", 9)
        order, outlined = browser.evaluate(
            "[+document.activeElement.dataset.order, getComputedStyle(document.activeElement).outlineStyle !== 'none']"  # noqa: E501
        )
        assert outlined, f"no visible focus on {wanted[order]}"
        seen.append(order)
    assert seen == list(range(len(wanted)))
    assert wanted[0] == "a"  # the link that skips to the summary
    assert {"button", "summary", "svg", "div"} <= set(wanted)


def test_keys_buttons_and_mouse_zoom_all_joints_together(browser: Browser, page: Path) -> None:
    browser.open(page)
    lines = "[...document.querySelectorAll('.series[data-run=run0] path.model')].map(p => p.getAttribute('d'))"  # noqa: E501
    times = (
        "[...document.querySelectorAll('.series[data-run=run0] .middle')].map(t => +t.textContent)"
    )
    whole = browser.evaluate(lines)
    span = np.ptp(browser.evaluate(times))
    browser.evaluate("document.querySelector('.series svg').focus()")
    browser.key("+", 187, "+")
    zoomed = browser.evaluate(lines)
    assert all(before != after for before, after in zip(whole, zoomed, strict=True))
    assert np.ptp(browser.evaluate(times)) < 0.7 * span
    assert "Showing 2." in browser.evaluate(
        "document.getElementById('status').textContent"
    )  # said to screen readers
    browser.key("ArrowRight", 39)
    assert browser.evaluate(lines) != zoomed
    browser.key("0", 48, "0")
    assert browser.evaluate(lines) == whole
    browser.evaluate("document.querySelector('[data-zoom=in]').click()")
    assert browser.evaluate(lines) == zoomed
    browser.evaluate("document.querySelector('[data-zoom=all]').click()")
    place = "(() => { const s = document.querySelector('.series svg'); s.scrollIntoView({block: 'center'});" \
        "const r = s.getBoundingClientRect(); return [r.x, r.y, r.width, r.height]; })()"  # fmt: skip  # noqa: E501
    browser.evaluate("document.documentElement.style.scrollBehavior = 'auto'")
    browser.evaluate(place)
    browser.evaluate(
        "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
    )  # scrolled by now
    x, y, width, height = browser.evaluate(place)
    browser.mouse("mouseMoved", x + 0.4 * width, y + height / 3)
    assert "measured" in browser.evaluate("document.querySelector('.readout').textContent")
    browser.mouse("mousePressed", x + 0.4 * width, y + height / 3, 1)
    browser.mouse("mouseMoved", x + 0.6 * width, y + height / 3, 1)
    browser.mouse("mouseReleased", x + 0.6 * width, y + height / 3)
    assert np.ptp(browser.evaluate(times)) < 0.4 * span
    assert browser.complaints() == []


def test_the_robot_turns_and_the_theme_changes(browser: Browser, page: Path) -> None:
    browser.open(page)
    points = "[...document.querySelectorAll('.turnable polyline')].map(p => p.getAttribute('points')).join()"  # noqa: E501
    before = browser.evaluate(points)
    browser.evaluate("document.querySelector('.turnable svg').focus()")
    browser.key("ArrowLeft", 37)
    after = browser.evaluate(points)
    assert after != before
    browser.key("ArrowRight", 39)
    back = browser.evaluate(points)  # the script stands where the page was drawn
    assert np.allclose(
        *(np.fromstring(text.replace(" ", ","), sep=",") for text in (back, before)), atol=0.11
    )
    inside = "[...document.querySelectorAll('.turnable [data-points], .turnable [data-at]')].every(e => {" \
        "const a = e.getBoundingClientRect(), b = e.closest('svg').getBoundingClientRect();" \
        "return a.left >= b.left && a.right <= b.right && a.top >= b.top && a.bottom <= b.bottom; })"  # fmt: skip  # noqa: E501
    assert browser.evaluate(inside)
    for _ in range(12):  # half round, up and down: it stays in the picture
        browser.key("ArrowLeft", 37)
        browser.key("ArrowUp", 38)
        assert browser.evaluate(inside)
    colour = "getComputedStyle(document.body).backgroundColor"
    light = browser.evaluate(colour)
    browser.evaluate("document.getElementById('theme').click()")
    assert browser.evaluate(colour) != light
    assert browser.complaints() == []


def test_screen_readers_find_names_for_everything(browser: Browser, page: Path) -> None:
    browser.open(page)
    nodes = browser.call("Accessibility.getFullAXTree")["nodes"]
    roles: dict[str, list[str]] = {}
    for node in nodes:
        if not node.get("ignored"):
            role = node.get("role", {}).get("value", "")
            roles.setdefault(role, []).append(node.get("name", {}).get("value", ""))
    for role in ("image", "button", "link", "table", "region", "heading"):
        assert roles.get(role), role
        assert all(name.strip() for name in roles[role]), role
    for landmark in ("main", "navigation", "banner", "contentinfo"):
        assert len(roles[landmark]) == 1, landmark


def test_hostile_names_do_nothing(browser: Browser, tmp_path: Path) -> None:
    estimate, fit, other = hostile_estimate()
    target = md.report(
        estimate,
        {HOSTILE_NAME: other},
        tmp_path / "r.html",
        fit=fit,
        title=HOSTILE_NAME,
        code=False,
    )
    for width in (1280, 390):
        browser.open(target, width)
        assert browser.evaluate("document.documentElement.dataset.ready") == "yes"
        assert check_figures(browser) > 10
        assert browser.evaluate("[document.images.length, document.scripts.length]") == [0, 2]
        assert browser.evaluate("document.querySelector('h1').textContent") == HOSTILE_NAME
        assert browser.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert browser.complaints() == []
        assert not any(
            event.get("method") == "Page.javascriptDialogOpening" for event in browser.events
        )


def test_the_policy_forbids_what_is_not_the_page(
    browser: Browser, page: Path, tmp_path: Path
) -> None:
    """Were markup to slip in, the browser would not run it.

    The complaints tell that the check can fail.
    """
    broken = tmp_path / "broken.html"
    added = "<img src='x.png'><script>document.documentElement.dataset.hacked = 'yes'</script>"
    broken.write_text(page.read_text().replace("<main", added + "<main", 1))
    browser.open(broken)
    assert browser.evaluate("document.documentElement.dataset.hacked ?? 'no'") == "no"
    assert len(browser.complaints()) >= 2


def test_without_a_script_all_figures_are_there(browser: Browser, page: Path) -> None:
    browser.call("Emulation.setScriptExecutionDisabled", value=True)
    try:
        browser.open(page)
        assert browser.evaluate("document.documentElement.dataset.ready ?? 'no'") == "no"
        assert check_figures(browser) > 20
    finally:
        browser.call("Emulation.setScriptExecutionDisabled", value=False)


def test_paper_and_pictures(browser: Browser, page: Path) -> None:
    from matplotlib.image import imread

    browser.open(page)
    printed = browser.pdf()
    assert printed.startswith(b"%PDF")
    assert (
        4
        <= printed.count(b"/Type /Page\n")
        + printed.count(b"/Type /Page ")
        + printed.count(b"/Type /Page/")
        <= 20
    )
    for selector in (".series svg", ".turnable svg", "#excitation svg", "#residuals svg"):
        red, _, blue = np.moveaxis(imread(io.BytesIO(browser.screenshot(selector)))[..., :3], -1, 0)
        coloured = np.abs(blue - red) > 0.25  # text and grid lines are grey
        assert coloured.sum() > 300, selector
        assert np.ptp(np.flatnonzero(coloured.any(axis=0))) > 0.3 * coloured.shape[1], selector


def test_commands_are_copied_by_a_button(browser: Browser, page: Path) -> None:
    browser.open(page)
    browser.call(
        "Browser.grantPermissions", permissions=["clipboardReadWrite", "clipboardSanitizedWrite"]
    )
    first = "document.querySelector('.command .copy')"
    assert browser.evaluate(f"{first}.checkVisibility()")
    browser.evaluate(f"{first}.focus(), {first}.click()")
    for _ in range(50):
        if browser.evaluate(f"{first}.textContent") == "Copied":
            break
    command = browser.evaluate(f"{first}.parentElement.querySelector('code').textContent")
    assert browser.evaluate("navigator.clipboard.readText()") == command
    assert browser.complaints() == []


def test_parameters_are_filtered_and_saved(browser: Browser, tmp_path: Path) -> None:
    import csv

    estimate, fit, other = hostile_estimate()
    browser.open(md.report(estimate, other, tmp_path / "r.html", fit=fit, code=False))
    rows = "[...document.querySelectorAll('.estimates tbody tr')].filter(r => r.checkVisibility())"
    every = browser.evaluate(f"{rows}.length")
    for kind in ("weak", "moved"):
        browser.evaluate(f"document.querySelector('[data-filter={kind}]').click()")
        shown, marked = browser.evaluate(
            f"[{rows}.filter(r => !r.classList.contains('group')).length,"
            f" document.querySelectorAll('.estimates .chip.{kind}').length]"
        )
        assert shown == marked
    browser.evaluate("document.querySelector('[data-filter=all]').click()")
    assert browser.evaluate(f"{rows}.length") == every
    browser.call("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path))
    browser.evaluate("document.querySelector('[data-save]').click()")
    saved = tmp_path / "parameters.csv"
    for _ in range(200):
        if saved.is_file() and saved.stat().st_size:
            break
        browser.evaluate("new Promise(done => setTimeout(done, 50))")
    with saved.open(newline="", encoding="utf-8") as file:
        table = list(csv.DictReader(file))
    assert [row["parameter"] for row in table] == list(estimate.names)
    np.testing.assert_allclose([float(row["value"]) for row in table], estimate.beta, rtol=1e-8)
    assert {row["link"] for row in table} <= {
        HOSTILE_NAME,
        "'--><!--",
        "]]>",
    }  # nothing a spreadsheet runs
    assert browser.complaints() == []


def test_on_a_phone_nothing_is_cut_and_wide_tables_say_so(browser: Browser, page: Path) -> None:
    browser.open(page, 390)
    browser.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true; })")
    browser.evaluate(
        "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
    )
    cut = browser.evaluate(
        "[...document.querySelectorAll('main *')].filter(e => e.checkVisibility() && !e.closest('.scroll > *, svg *'))"  # noqa: E501
        ".filter(e => { const r = e.getBoundingClientRect();"
        " return r.width && (r.right > innerWidth + 1 || r.left < -1); })"
        ".map(e => e.outerHTML.slice(0, 80))"
    )
    assert cut == []
    wide, said, stays = browser.evaluate(
        "(() => { const wide = [...document.querySelectorAll('.scroll')].filter(e => e.checkVisibility() &&"  # noqa: E501
        " e.scrollWidth > e.clientWidth + 2); const first = document.querySelector('.scroll.wide tbody th');"  # noqa: E501
        " return [wide.length, wide.filter(e => getComputedStyle(e, '::before').content.includes('scroll')).length,"  # noqa: E501
        " getComputedStyle(first).position]; })()"
    )
    assert wide == said > 3
    assert stays == "sticky"
    browser.open(page, 1280)
    assert (
        browser.evaluate(
            "document.querySelectorAll('#torque .scroll.wide, #links .scroll.wide').length"
        )
        == 0
    )


def test_the_robot_is_shown_with_its_meshes_and_turns(browser: Browser, tmp_path: Path) -> None:
    (tmp_path / "a.stl").write_bytes(binary_stl())
    robot = md.load(
        urdf(tmp_path, '<visual><geometry><mesh filename="a.stl"/></geometry></visual>')
    )
    base = md.base_parameters(robot)
    covariance = np.eye(base.rank)
    estimate = md.Estimate(
        robot, base, base.values(), covariance, np.ones(1), "wls", False, 9.0, 100, (), {}
    )
    page = md.report(estimate, tmp_path / "r.html", code=False)
    browser.open(page)
    faces = "[...document.querySelectorAll('.turnable .faces polygon')].map(p => p.getAttribute('points'))"  # noqa: E501
    before = browser.evaluate(faces)
    assert len(before) == 28
    assert "Meshes of the robot file" in browser.evaluate(
        "document.querySelector('.turnable').textContent"
    )
    order = "[...document.querySelectorAll('.turnable .faces polygon')].map(p => p.dataset.points)"
    first = browser.evaluate(order)
    browser.evaluate("document.querySelector('.turnable svg').focus()")
    for _ in range(12):
        browser.key("ArrowLeft", 37)
    assert browser.evaluate(faces) != before
    turned = browser.evaluate(order)
    assert turned != first  # what was behind is in front
    assert sorted(turned) == sorted(first)
    assert browser.complaints() == []
    without = md.report(estimate, tmp_path / "s.html", code=False)
    (tmp_path / "a.stl").unlink()
    (tmp_path / "arm.urdf").unlink()
    assert "Meshes of" in without.read_text()
    assert "Stick figure" in md.report(estimate, tmp_path / "t.html", code=False).read_text()
