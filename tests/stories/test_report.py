"""The report as a file: complete, closed to the outside, honest, and whole or absent."""

from __future__ import annotations

import html.parser
import itertools
import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import minidyn as md
from conftest import OWN
from minidyn.app.cli.main import main
from minidyn.display import envelope, shown_time, tag
from minidyn.notices import Notice
from minidyn.pages.html import data_block
from minidyn.text import number, percent, with_error
from report_cases import HOSTILE_NAME, hostile_estimate, small_estimate, small_runs
from robot_cases import FOUR_BAR


class Reader(html.parser.HTMLParser):
    """Collects elements with their attributes, texts of headings, and data blocks."""

    def __init__(self) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


def read(path: Path) -> Reader:
    reader = Reader()
    reader.feed(path.read_text(encoding="utf-8"))
    return reader


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    fit, other = small_runs()
    return md.report(
        small_estimate(),
        {"other run": other},
        tmp_path_factory.mktemp("report") / "r.html",
        fit=fit,
    )


def test_nothing_outside_the_file_is_named(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert page.stat().st_size < 3_000_000
    assert "http" not in text.replace("http-equiv", "")
    assert "//" not in re.sub(r"//[^\n]*\n", "", text.split("<script>")[1].split("</script>")[0])
    for name, attributes in read(page).elements:
        assert name not in ("link", "iframe", "object", "embed", "img", "base"), name
        assert "src" not in attributes
        assert attributes.get("href", "#").startswith("#")
        assert not any(key.startswith("on") or key == "style" for key in attributes), attributes
    policy = next(
        a["content"]
        for n, a in read(page).elements
        if a.get("http-equiv") == "Content-Security-Policy"
    )
    assert policy is not None
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy


def test_all_parts_are_there(page: Path) -> None:
    reader = read(page)
    keys = [attributes.get("id") for name, attributes in reader.elements if name == "section"]
    assert keys == [
        "summary",
        "notices",
        "torque",
        "friction",
        "decisions",
        "residuals",
        "links",
        "robot",
        "base",
        "excitation",
        "parameters",
        "consistency",
        "code",
        "record",
    ]
    estimate = small_estimate()
    for name in (
        *estimate.names,
        *estimate.robot.joint_names,
        md.__version__,
        estimate.robot.fingerprint,
    ):
        assert name in reader.text, name
    for relation in estimate.base.relations():
        if len(relation.terms) > 1:
            assert relation.formula().replace(" - ", " − ") in reader.text


def test_headings_landmarks_and_descriptions(page: Path) -> None:
    reader = read(page)
    levels = [int(name[1]) for name, _ in reader.elements if re.fullmatch("h[1-6]", name)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in itertools.pairwise(levels))
    names = [name for name, _ in reader.elements]
    assert names.count("main") == names.count("header") == names.count("nav") == 1
    for name, attributes in reader.elements:
        if name == "svg":
            assert attributes["role"] == "img"
            assert attributes["aria-label"]
        if name == "th":
            assert attributes["scope"] in ("row", "col")
    ids = [attributes["id"] for _, attributes in reader.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    targets = {str(attributes["href"])[1:] for name, attributes in reader.elements if name == "a"}
    assert targets <= set(ids)


def test_hostile_names_stay_text(tmp_path: Path) -> None:
    estimate, fit, other = hostile_estimate()
    page = md.report(
        estimate,
        {HOSTILE_NAME: other},
        tmp_path / "r.html",
        fit=fit,
        title=HOSTILE_NAME,
        code=False,
    )
    text = page.read_text(encoding="utf-8")
    assert "<img" not in text
    assert text.count("<script") == 2  # data and the page's own
    assert text.count("</script") == 2
    reader = read(page)
    assert HOSTILE_NAME in reader.text
    assert not any(key.startswith("on") for _, attributes in reader.elements for key in attributes)
    assert "\u202e" not in text  # turns text round
    assert "\\u202e" in reader.text


def test_the_verdict_follows_the_evidence(tmp_path: Path) -> None:
    fit, other = small_runs()
    good = small_estimate()
    assert (
        "Ready to use"
        in md.report(good, other, tmp_path / "a.html", fit=fit, code=False).read_text()
    )
    untested = md.report(good, path=tmp_path / "b.html", code=False).read_text()
    assert "Usable with care" in untested
    assert "not tested on data it was not fitted to" in untested
    values = good.robot.parameters.copy()
    values[good.robot.layout.index("M2")] = -1.0
    impossible = replace(good, robot=good.robot.with_parameters(values))
    assert (
        "Not to be used yet"
        in md.report(impossible, path=tmp_path / "c.html", fit=fit, code=False).read_text()
    )
    wrong = md.Recording(other.t, other.q, -np.asarray(other.tau), joint_names=other.joint_names)
    assert (
        "Not to be used yet" in md.report(good, wrong, tmp_path / "d.html", code=False).read_text()
    )
    tau = np.asarray(other.tau)
    noise = (
        0.15 * np.sqrt(np.mean(tau**2, axis=0)) * np.random.default_rng(3).normal(size=tau.shape)
    )
    noisy = md.Recording(other.t, other.q, tau + noise, joint_names=other.joint_names)
    shown = md.report(good, noisy, tmp_path / "e.html", code=False).read_text()
    assert "Usable with care" in shown
    assert "most of it is noise of the measured torque" in shown
    dead = md.Recording(
        other.t, other.q, 0 * tau, joint_names=other.joint_names
    )  # a sensor that was not plugged in
    for runs in ({"dead": dead}, {"dead": dead, "other": other}, {"other": other, "dead": dead}):
        shown = md.report(good, runs, tmp_path / "f.html", code=False).read_text()
        assert "Not to be used yet" in shown
        assert "no torque error can be computed on dead" in shown


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    fit, other = small_runs()
    good = small_estimate()
    bare = md.identify(md.load("two_link"), fit, friction=(), rotor_inertia=None, consistent=False)
    text = md.report(bare, other, tmp_path / "a.html", fit=fit, code=False).read_text()
    assert "The model has no friction" in text
    spoiled = replace(good, robot=good.robot.with_parameters(1.2 * good.robot.parameters))
    text = md.report(spoiled, other, tmp_path / "b.html", code=False).read_text()
    assert "Look at the residuals of joint1" in text
    description = good.base.robot.with_parameters(good.robot.parameters)
    spoiled = replace(spoiled, base=replace(good.base, robot=description))
    text = md.report(spoiled, other, tmp_path / "c.html", code=False).read_text()
    assert "the prior is better" in text
    crossed = md.cross_validate(good.base.robot, fit, folds=2, **OWN)
    text = md.report(
        good, path=tmp_path / "d.html", fit=fit, cross_validation=crossed, code=False
    ).read_text()
    assert "On parts of the log held out of the fit" in text
    assert "Ready to use" in text


def test_peaks_survive_decimation() -> None:
    t = np.arange(100_000) / 1000.0
    signal = np.zeros((len(t), 1))
    signal[54_321] = 7.0
    signal[12_345] = -3.0
    found = envelope(t, signal, 500, [])
    assert len(found.t) <= 500
    assert found.high.max() == 7.0
    assert found.low.min() == -3.0
    assert abs(found.t[int(np.argmax(found.high))] - 54.321) < 0.2


def test_runs_whose_clocks_start_anew_follow_each_other() -> None:
    t = np.concatenate([np.arange(100) / 100, np.arange(50) / 100])
    shown, breaks = shown_time(t)
    assert breaks == [100]
    assert np.all(np.diff(shown) > 0)
    found = envelope(shown, np.ones((150, 1)), 1000, breaks)
    assert np.isnan(found.low).sum() == 1


def test_long_logs_stay_small(tmp_path: Path) -> None:
    robot = md.load("panda")
    base = md.base_parameters(robot)
    size = 200_000
    estimate = md.Estimate(
        robot,
        base,
        base.values(),
        1e-4 * np.eye(base.rank),
        np.ones(robot.n),
        "wls",
        True,
        30.0,
        size,
        (),
        {},
    )
    rng = np.random.default_rng(0)
    tau = rng.normal(size=(size, estimate.robot.n))
    runs = {
        f"run {k}": md.Validation(
            0.1,
            0.1,
            {
                name: {"rmse": 0.1, "relative_error": 0.1, "whiteness": 0.0}
                for name in estimate.robot.joint_names
            },
            np.arange(size) / 1000.0,
            tau,
            0.9 * tau,
        )
        for k in range(8)
    }
    assert md.report(estimate, runs, tmp_path / "r.html", code=False).stat().st_size < 3_000_000


def test_robots_of_other_kinds(tmp_path: Path) -> None:
    """Trees, loops, sliding joints, unknown parameters.

    What cannot be told is said, the rest is there.
    """
    from minidyn.model.picture import scene_of

    linkage = tmp_path / "linkage.toml"
    linkage.write_text(FOUR_BAR)
    for name in (*md.robots(), linkage):
        robot = md.load(name)
        points = np.array(scene_of(robot).points)
        assert np.isfinite(points).all(), name
        assert np.linalg.norm(points, axis=1).max() < 1.0 + 1e-9
    for robot in (md.load(linkage), md.load("two_arm"), md.load("rx90").with_parameters(None)):
        base = md.base_parameters(robot)
        unknown = md.Estimate(
            robot,
            base,
            np.zeros(base.rank),
            np.eye(base.rank),
            np.ones(robot.n),
            "wls",
            False,
            1e9,
            100,
            (),
            {},
        )
        text = md.report(unknown, path=tmp_path / "r.html", code=False).read_text()
        assert not re.search(
            "NaN|nan|inf", text.split("<body>")[1].split("<script")[0].replace("information", "")
        )
        assert robot.joint_names[-1] in text
    assert "physical consistency cannot be checked" in text
    spread = np.diag(
        np.where(np.arange(base.rank) < 3, np.inf, 1.0)
    )  # what the recording does not determine
    some = md.Estimate(
        robot, base, np.ones(base.rank), spread, np.ones(robot.n), "wls", False, np.inf, 100, (), {}
    )
    text = (
        md.report(some, path=tmp_path / "r.html", code=False)
        .read_text()
        .split("<body>")[1]
        .split("<script")[0]
    )
    assert text.count("the recording does not determine it") == 3
    assert not re.search("NaN|nan|inf,", text)


def test_numbers_are_short_and_aligned() -> None:
    assert [number(x) for x in (0.0, 1.0, -0.01234, 123456.0, 1.5e-7)] == [
        "0",
        "1.00",
        "−0.0123",
        "123456",
        "1.50 · 10⁻⁷",
    ]
    assert number(float("nan")) == "–"
    assert percent(0.0271) == "2.7 %"
    assert percent(1.234) == "123 %"
    assert with_error(-0.00001, 0.01) == ("0.000", "0.010")
    assert with_error(12.3456, 0.27) == ("12.35", "0.27")


def test_markup_is_made_in_one_place_only() -> None:
    assert tag("p", "<b>", title='"&') == '<p title="&quot;&amp;">&lt;b&gt;</p>'
    assert "</" not in data_block("x", {"a": "</script><!--"}).removesuffix("</script>")
    assert json.loads(data_block("x", [float("nan"), 1.5]).split(">", 1)[1].split("<")[0]) == [
        None,
        1.5,
    ]
    root = Path(md.__file__).parent
    made = [path.name for path in root.rglob("*.py") if re.search(r"\bHtml\(", path.read_text())]
    assert sorted(made) == ["display.py", "html.py"]


def test_notices_are_sorted_by_level_with_advice(tmp_path: Path) -> None:
    info = Notice("test.info", "info", "low-pass at 10 Hz")
    look = Notice("test.look", "warning", "weakly determined: XX1", "Read it with <care>.")
    act = Notice("test.act", "error", "excitation is poor", "Record again.")
    _, other = small_runs()
    run = replace(
        md.validate(small_estimate(), other), notices=(act, Notice("test.run", "warning", "a gap"))
    )
    estimate = replace(
        small_estimate(), notices=(info, look, act, Notice.from_json("a text of an older file"))
    )
    text = md.report(estimate, {"<run>": run}, tmp_path / "r.html", code=False).read_text()
    part = text.split('id="notices"')[1].split("</section>")[0]
    said = re.findall(r"<summary>(.*?)</summary>", part)
    assert said == ["Errors (1)", "Warnings (3)", "Information (1)"]
    assert [part.count(f'class="notices {level}"') for level in ("error", "warning", "info")] == [
        1,
        1,
        1,
    ]
    assert '<p>Excitation is poor.</p><p class="advice">Record again.</p>' in part
    assert "Read it with &lt;care&gt;." in part
    assert (
        "&lt;run&gt;: a gap." in part
    )  # of the run alone; what the estimate says as well is said once
    assert "Read the errors and warnings among the notices below." in text


def test_paths_come_last_and_may_stand_for_values(tmp_path: Path) -> None:
    fit, other = small_runs()
    small_estimate().save(tmp_path / "estimate.json")
    fit.save(tmp_path / "fit.csv")
    other.save(tmp_path / "other.npz")
    page = md.report(
        str(tmp_path / "estimate.json"), tmp_path / "other.npz", tmp_path / "a.html", code=False
    )
    assert "other.npz (test data)" in page.read_text()
    runs = {"one": tmp_path / "other.npz", "two": other}
    page = md.report(
        tmp_path / "estimate.json", runs, tmp_path / "b.html", fit=tmp_path / "fit.csv", code=False
    )
    text = page.read_text()
    assert all(
        words in text
        for words in ("One (test data)", "two (test data)", "fitted data", "Motion of each joint")
    )
    assert md.report(small_estimate(), tmp_path / "c.html", code=False) == tmp_path / "c.html"
    for old in (
        (tmp_path / "d.html", small_estimate()),
        (tmp_path / "d.html", small_estimate(), other),
    ):
        with pytest.warns(
            DeprecationWarning, match=r"is now md.report\(estimate, validation, path\)"
        ):
            assert md.report(*old, code=False) == tmp_path / "d.html"
    with pytest.warns(DeprecationWarning, match="is now"):
        page = md.report(
            str(tmp_path / "d.html"), small_estimate(), validation={"other": other}, code=False
        )
    assert "Other (test data)" in page.read_text()


def test_wrong_requests(tmp_path: Path) -> None:
    estimate = small_estimate()
    with pytest.raises(md.MinidynError, match=r"ends in \.html"):
        md.report(estimate, path=tmp_path / "r.pdf")
    with pytest.raises(md.MinidynError, match="cannot be written"):
        md.report(estimate, path=tmp_path / "none" / "r.html", code=False)
    with pytest.raises(
        md.MinidynError, match="expected an estimate or its path first, got Recording"
    ):
        md.report(small_runs()[0], path=tmp_path / "r.html")
    with pytest.raises(md.MinidynError, match="expected test data second"):
        md.report(estimate, 3, tmp_path / "r.html")
    fit, _ = small_runs()
    without = md.Recording(fit.t, fit.q, None, joint_names=fit.joint_names)
    with pytest.raises(md.MinidynError, match="torques"):
        md.report(estimate, without, tmp_path / "r.html")
    assert list(tmp_path.iterdir()) == []


def test_the_verb(tmp_path: Path) -> None:
    fit, other = small_runs()
    small_estimate().save(tmp_path / "estimate.json")
    fit.save(tmp_path / "fit.npz")
    other.save(tmp_path / "other.npz")
    words = [
        "report",
        "estimate.json",
        "other.npz",
        "--fit",
        "fit.npz",
        "--output",
        "r.html",
        "--json",
    ]
    result = CliRunner().invoke(main, [str(tmp_path / w) if "." in w else w for w in words])
    assert result.exit_code == 0, result.output
    answer = json.loads(result.stdout)
    assert answer["bytes"] == (tmp_path / "r.html").stat().st_size
    page = (tmp_path / "r.html").read_text()
    assert "other.npz (test data)" in page
    words.append("--lazy")  # now the logs stay on disk, and the errors are the same
    result = CliRunner().invoke(main, [str(tmp_path / w) if "." in w else w for w in words])
    assert result.exit_code == 0, result.output
    shares = [
        re.findall(r"<td class=\"num\">([\d.]+ %)", text)
        for text in (page, (tmp_path / "r.html").read_text())
    ]
    assert shares[0][:6] == shares[1][:6]


def test_the_first_screen_holds_a_picture_of_the_errors_before_and_after(tmp_path: Path) -> None:
    fit, other = small_runs()
    estimate = small_estimate()
    tau = np.asarray(other.tau).copy()
    tau[:, 1] += (
        2.0 * tau[:, 1].std() * np.sin(np.arange(len(tau)) / 40)
    )  # slow, no noise: this joint is bad
    spoiled = md.Recording(other.t, other.q, tau, joint_names=other.joint_names)
    text = md.report(estimate, spoiled, tmp_path / "r.html", fit=fit, code=False).read_text()
    summary = text.split('id="summary"')[1].split("</section>")[0]
    drawn = summary.split("<svg")[1].split("</svg>")[0]
    assert drawn.count('class="bar before"') == 2
    assert drawn.count('class="bar after good"') == 1
    assert drawn.count('class="bar after bad"') == 1
    run = md.validate(estimate, spoiled)
    for name, entry in run.per_joint.items():
        assert f"{name}: {percent(entry['relative_error'])}" in drawn
        assert f"{name} before: {percent(entry['prior_relative_error'])}" in drawn
    assert (
        "<svg"
        not in md.report(estimate, tmp_path / "s.html", code=False)
        .read_text()
        .split('id="notices"')[0]
    )


def test_a_joint_with_a_fast_disturbance_is_not_drawn_green(tmp_path: Path) -> None:
    fit, other = small_runs()
    tau = np.asarray(other.tau).copy()
    tau[:, 1] += tau[:, 1].std() * np.sign(np.sin(1.9 * np.arange(len(tau))))  # above every cut-off
    spoiled = md.Recording(other.t, other.q, tau, joint_names=other.joint_names)
    text = md.report(
        small_estimate(), spoiled, tmp_path / "r.html", fit=fit, code=False
    ).read_text()
    drawn = text.split('id="summary"')[1].split("<svg")[1].split("</svg>")[0]
    assert drawn.count('class="bar after good"') == 1
    assert drawn.count('class="bar after caution"') == 1


def test_measured_is_thick_and_pale_model_thin_prior_dashed(page: Path) -> None:
    from minidyn.display import MEASURED, MODEL, PRIOR, RESIDUAL

    text = page.read_text()
    style = text.split("<style>")[1].split("</style>")[0]
    width = {name: float(re.search(rf"svg path\.{name} {{[^}}]*stroke-width: ([\d.]+)", style)[1])  # type: ignore[index]
             for name in ("measured", "model", "prior")}  # fmt: skip
    assert width["measured"] > 2 * width["model"]
    assert "stroke-dasharray" in style.split("svg path.prior {")[1].split("}")[0]
    for name, colour in {
        "pale": MEASURED,
        "blue": MODEL,
        "orange": RESIDUAL,
        "prior": PRIOR,
    }.items():
        assert f"--{name}: {colour};" in style  # figures as files have the colours of the page
    first = text.split('class="series"')[1].split("</svg>")[0]
    assert [
        first.count(f'path class="{name}"') for name in ("measured", "prior", "model", "residual")
    ] == [1] * 4
    data = json.loads(text.split('id="data">')[1].split("</script>")[0])
    assert set(data["runs"]["run0"]["joints"][0]) == {"measured", "model", "residual", "prior"}


def test_figures_as_files_have_the_lines_of_the_page_and_units() -> None:
    run = md.validate(small_estimate(), small_runs()[1])
    assert run.prior_predicted is not None
    assert run.motion is not None
    assert run.prior_predicted.shape == run.measured.shape == np.asarray(run.motion.dq).shape
    for axis in run.plot().axes:
        assert "torque, N·m" in axis.get_ylabel()
        lines = {line.get_label(): line for line in axis.lines}
        assert list(lines) == ["measured", "before identification", "model", "measured − model"]
        assert lines["measured"].get_linewidth() > 2 * lines["model"].get_linewidth()
        assert lines["before identification"].get_linestyle() == "--"
    hostile, _, other = hostile_estimate()
    assert "force, N\n" in md.validate(hostile, other).plot().axes[2].get_ylabel()


def part_of(page: Path, key: str) -> str:
    return page.read_text().split(f'<section id="{key}"')[1].split("</section>")[0]


def test_friction_is_drawn_over_speed_with_the_points_it_was_found_from(
    page: Path, tmp_path: Path
) -> None:
    part = part_of(page, "friction")
    assert part.count("<svg") == 2
    assert part.count('class="points"') == part.count('path class="model"') == 2
    assert "speed, rad/s" in part
    assert "torque, N·m" in part
    estimate = small_estimate()
    for joint in (1, 2):
        values = [
            estimate.robot.parameters[estimate.robot.layout.index(f"{symbol}{joint}")]
            for symbol in ("Fv", "Fc")
        ]
        assert f"viscous {number(values[0])} N·m·s/rad, coulomb {number(values[1])} N·m" in part
    fit, other = small_runs()
    bare = md.identify(md.load("two_link"), fit, friction=(), rotor_inertia=None)
    assert (
        'id="friction"'
        not in md.report(bare, other, tmp_path / "r.html", fit=fit, code=False).read_text()
    )


def test_a_friction_curve_is_the_friction_of_the_model() -> None:
    from minidyn.app.report.section_friction import friction_curve

    robot = small_estimate().robot
    speeds = np.array([-2.0, -0.5, 0.5, 2.0])
    viscous, coulomb = (robot.parameters[robot.layout.index(name)] for name in ("Fv2", "Fc2"))
    curve = friction_curve(robot, robot.parameters, np.array([0.3, -0.4]), 1, speeds)
    width = robot.joints[1].drive.sign_width
    sign = speeds / np.sqrt(speeds**2 + width**2) if width else np.sign(speeds)
    np.testing.assert_allclose(curve, viscous * speeds + coulomb * sign, atol=1e-9)


def test_links_before_and_after_say_what_comes_from_the_data(page: Path) -> None:
    part = part_of(page, "links")
    estimate = small_estimate()
    for link, before in zip(estimate.robot.links, estimate.base.robot.links):
        assert link.name in part
        assert (
            f'<span class="was">{before.mass:.2f}</span><span class="now">{link.mass:.2f}</span>'
            in part
        )
    assert len(re.findall(r"(data|prior) [\d.]+ %</span>", part)) == 6


def test_shares_are_those_of_what_torques_can_show() -> None:
    from minidyn.identification.diagnose.origin import link_origins

    estimate = small_estimate()
    found = link_origins(estimate)
    assert all(0.0 <= share <= 1.0 for link in found for share in link.shares)
    # a joint without gravity about it shows its moment of inertia only; its mass stays the prior's
    lonely = md.Robot.from_mdh(
        "R", alpha=[0], a=[0], d=[0], parameters=[0.1, 0, 0, 0.1, 0, 0.2, 0, 0, 0, 3.0]
    )
    base = md.base_parameters(lonely)
    assert base.names == ("ZZ1",)
    told = md.Estimate(
        lonely, base, base.values(), 1e-9 * np.eye(1), np.ones(1), "wls", True, 1.0, 10, (), {}
    )
    mass, _, inertia = link_origins(told)[0].shares
    assert mass < 0.9
    assert inertia > mass - 1e-9
    silent = replace(told, covariance=np.array([[np.inf]]))
    assert link_origins(silent)[0].shares == pytest.approx((0.0, 0.0, 0.0), abs=1e-9)


def test_residuals_have_histogram_autocorrelation_and_explained_spectrum(page: Path) -> None:
    part = part_of(page, "residuals")
    for words in (
        "Histogram of the residual",
        "Autocorrelation of the residual",
        "Spectrum of measured torque",
    ):
        assert part.count(words) == 2
    for words in (
        "% of the samples",
        "time between samples, s",
        "frequency, Hz",
        "How to read these figures",
    ):
        assert words in part


def test_commands_name_the_files_of_the_reader(tmp_path: Path) -> None:
    fit, other = small_runs()
    folder = tmp_path / "my results"
    folder.mkdir()
    robot = md.load("two_link").with_drives(True, ("viscous", "coulomb"))
    md.save(robot.with_parameters(0.8 * robot.parameters), tmp_path / "arm.toml")
    fit.save(tmp_path / "fit.csv")
    other.save(tmp_path / "other.npz")
    arguments = [
        "identify",
        str(tmp_path / "arm.toml"),
        str(tmp_path / "fit.csv"),
        "--output",
        str(folder),
    ]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0, result.output
    assert str(folder / "report.html") in result.output
    page = read(folder / "report.html")
    assert (
        f"minidyn report '{folder}/estimate.json' other-log.csv --output report.html" in page.text
    )
    assert (
        f"minidyn generate '{folder}/two_link.toml' inverse_dynamics --target c --output code"
        in page.text
    )
    arguments = [
        "report",
        str(folder / "estimate.json"),
        "--fit",
        str(tmp_path / "fit.csv"),
        "--output",
    ]
    result = CliRunner().invoke(main, [*arguments, str(tmp_path / "again.html")])
    assert result.exit_code == 0, result.output
    again = (tmp_path / "again.html").read_text()
    assert "minidyn generate &#x27;" in again
    bare = md.identify(md.load("two_link"), fit, friction=(), rotor_inertia=None, consistent=False)
    told = read(
        md.report(bare, other, tmp_path / "bare.html", fit=tmp_path / "fit.csv", code=False)
    ).text
    assert f"minidyn identify two_link {tmp_path / 'fit.csv'} --friction auto" in told
    for text in (page.text, told, again):
        assert not re.search("FOLDER|ROBOT|[^-]LOG", text.split("How this was made")[0])
    copies = [
        attributes for name, attributes in page.elements if "copy" in str(attributes.get("class"))
    ]
    assert (
        f"minidyn excite {tmp_path / 'arm.toml'} --duration 20 --after '{folder}/estimate.json'"
        in page.text
    )
    assert len(copies) == sum(
        page.text.count(f"minidyn {verb} ") for verb in ("report", "generate", "excite")
    )
    assert all(
        "hidden" in attributes for attributes in copies
    )  # shown by the script, which alone can copy


def test_parameters_have_one_set_of_names(tmp_path: Path) -> None:
    estimate = small_estimate()
    plan = md.one_joint_plan(estimate.base.robot, friction="own", rotor_inertia=None)
    assert not set(plan.base.names) <= set(estimate.names)  # the plan has names of its own
    page = md.report(estimate, tmp_path / "r.html", plan=plan, code=False)
    text = read(page).text
    for name in set(plan.base.names) - set(estimate.names):
        assert name not in text
    shown = re.findall(r"<td>([^<]*)</td></tr>", part_of(page, "plan"))
    assert sorted(
        name for cell in shown for name in cell.split(", ") if name in estimate.names
    ) == sorted(estimate.names)


def test_settings_are_said_in_words(tmp_path: Path) -> None:
    record = {
        "sign_width": [0.1, 0.2],
        "prior_curve": [[1.0, 2.0]],
        "weird": 3,
    }
    estimate = replace(small_estimate(), record=record)
    part = part_of(md.report(estimate, tmp_path / "r.html", code=False), "record")
    assert "smoothing width of friction, rad/s or m/s" in part
    assert "weird" in part
    assert not re.search("sign_width|prior curve| values<", re.sub("<[^>]*>", " ", part))


def test_parameters_are_grouped_by_link_and_can_be_filtered_and_saved(page: Path) -> None:
    estimate = small_estimate()
    part = part_of(page, "parameters")
    groups = re.findall(r'<tr class="group"><th scope="row" colspan="8">(.*?)</th>', part)
    assert groups == ["link1 (joint 1: joint1)", "link2 (joint 2: joint2)"]
    layout = estimate.base.robot.layout
    cut = part.split("</table>")[0].split('<tr class="group">')
    for joint in (0, 1):
        wanted = [
            n
            for n, kept in zip(estimate.names, estimate.base.kept)
            if layout.column(kept).joint == joint
        ]
        assert re.findall(r'<tr><th scope="row">(\w+)</th>', cut[joint + 1]) == wanted
    weak = len(estimate.weak)
    words = {"all": f"All {len(estimate.beta)}", "weak": f"Weak {weak}"}
    for kind, text in words.items():
        assert re.search(f'data-filter="{kind}"[^>]*>{text}<', part)
    sheet = json.loads(page.read_text().split('id="data">')[1].split("</script>")[0])["parameters"]
    assert [row[0] for row in sheet["rows"]] == list(estimate.names)
    np.testing.assert_allclose([row[3] for row in sheet["rows"]], estimate.beta, rtol=1e-8)
    assert "Correlation of the estimates" in part
    squares = sum(
        len(found.split("M")) - 1 for found in re.findall(r'class="cell [^"]*" d="([^"]*)"', part)
    )
    std = estimate.std
    assert squares == np.sum(np.tril(np.abs(estimate.covariance / np.outer(std, std)) > 0.1, -1))


def test_an_observer_adds_the_forces_that_it_finds(tmp_path: Path) -> None:
    fit, _ = small_runs()
    estimate = small_estimate()
    observer = md.control.momentum_observer(estimate)
    found = read(md.report(estimate, tmp_path / "r.html", fit=fit, observer=observer, code=False))
    assert ("section", {"id": "watch", "aria-labelledby": "watch-title"}) in found.elements
    assert "Least detectable force" in found.text
    assert all(name in found.text for name in estimate.robot.link_names)
