"""Results in notebooks.

Tables with hostile names, frames, figures that draw something, bars for long calls.
"""

from __future__ import annotations

import io
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import minidyn as md
from minidyn.display import DisplayTable, envelope, progress_bar, save_figure, shown_time
from minidyn.notices import Notice
from report_cases import HOSTILE_NAME, hostile_estimate, small_estimate, small_runs


def shown() -> dict[str, Any]:
    """One value of each kind that notebooks show, with names that are attacks where names come from
    files.
    """
    estimate, fit, other = hostile_estimate()
    robot = md.load("two_link").with_drives(True, ("viscous", "coulomb"))
    rows = md.compare(robot, *small_runs(), ("wls", "ols"), friction="own", rotor_inertia=None)
    return {
        "robot": estimate.robot,
        "base": estimate.base,
        "recording": fit,
        "estimate": estimate,
        "validation": md.validate(estimate, other),
        "comparison": rows,
    }


@pytest.fixture(scope="module")
def values() -> dict[str, Any]:
    return shown()


class Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        assert not any(name.startswith("on") for name, _ in attrs)

    def handle_data(self, data: str) -> None:
        self.text += data


def test_tables_are_html_and_names_stay_text(values: dict[str, Any]) -> None:
    for kind, value in values.items():
        reader = Reader()
        reader.feed(value._repr_html_())
        assert set(reader.tags) <= {
            "div",
            "p",
            "b",
            "table",
            "thead",
            "tbody",
            "tr",
            "th",
            "td",
            "ul",
            "li",
        }, kind
        assert reader.tags.count("tr") > 2, kind
        assert "\u202e" not in reader.text, kind
    reader.feed(values["validation"]._repr_html_())
    assert HOSTILE_NAME in reader.text


def test_frames_hold_the_numbers(values: dict[str, Any]) -> None:
    frames = {kind: value.to_pandas() for kind, value in values.items()}
    estimate = values["estimate"]
    assert np.array_equal(frames["estimate"]["value"], estimate.beta)
    assert np.array_equal(frames["estimate"]["std"], estimate.std)
    assert list(frames["base"]["base parameter"]) == list(estimate.base.names)
    assert np.allclose(frames["base"]["value"], estimate.base.values())
    recording = values["recording"]
    assert np.array_equal(
        frames["recording"][f"tau.{recording.joint_names[2]}"], recording.tau[:, 2]
    )
    assert list(frames["validation"]["joint"]) == list(recording.joint_names)
    assert list(frames["robot"]["joint"]) == [joint.name for joint in estimate.robot.joints]
    assert list(frames["comparison"]["method"]) == ["wls", "wls", "ols", "ols"]


def test_without_pandas_the_command_is_named(
    values: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    for value in values.values():
        with pytest.raises(md.MinidynError, match=r"pip install \"minidyn\[pandas\]\""):
            value.to_pandas()


def test_figures_draw_something(values: dict[str, Any], tmp_path: Path) -> None:
    from matplotlib.image import imread

    for kind, value in values.items():
        save_figure(value.plot(), tmp_path / f"{kind}.png")
        pixels = imread(tmp_path / f"{kind}.png")[..., :3]
        coloured = np.ptp(pixels, axis=-1) > 0.2  # text and axes are grey
        assert coloured.sum() > 500, kind
        assert np.ptp(np.flatnonzero(coloured.any(axis=0))) > 0.25 * pixels.shape[1], kind


def test_empty_and_long_recordings_are_drawn(tmp_path: Path) -> None:
    empty = md.Recording(np.zeros(0), np.zeros((0, 2)), np.zeros((0, 2)))
    assert "0 samples" in empty._repr_html_()
    save_figure(empty.plot(), tmp_path / "empty.png")
    t = np.arange(50_000) / 1000.0
    q = np.sin(t)[:, None]
    q[30_000] = 9.0
    axis = md.Recording(t, q, None).plot().axes[0]
    assert len(axis.lines[0].get_xdata()) < 10_000
    assert axis.lines[0].get_ydata().max() == 9.0


def test_a_simulated_run_shows_reference_errors_and_estimates() -> None:
    robot = md.load("two_link")
    law = md.control.computed_torque(robot, bandwidth=10)
    run = md.simulate(robot, law, md.trajectory.fourier(robot, seed=1), 1.0)
    labels = [axis.get_ylabel() for axis in run.plot("$run$").axes]
    assert [label.split(",")[0] for label in labels] == ["position", "tracking error", "torque"]


def test_peaks_survive_and_runs_are_not_joined() -> None:
    t = np.concatenate([np.arange(100) / 100, np.arange(50) / 100])
    times, breaks = shown_time(t)
    assert breaks == [100]
    assert np.isnan(envelope(times, np.ones((150, 1)), 1000, breaks).low).sum() == 1


def test_what_is_unknown_or_long_is_shown_short() -> None:
    columns = {
        "name": ["x" * 500, None],
        "share": [0.1234, np.nan],
        "count": [12345, None],
        "yes": [True, False],
    }
    notices = (
        Notice("a.b", "info", "hidden"),
        Notice("a.c", "error", "first", "Do <it>."),
        Notice.from_json("a text"),
    )
    text = DisplayTable("t", columns, ("share",), notices).to_html()
    assert "x" * 119 + "…" in text
    assert "12.3 %" in text
    assert "12\u202f345" in text
    assert text.count("–") == 3
    assert text.index("Error: ") < text.index("first Do &lt;it&gt;.") < text.index("a text")
    assert "hidden" not in text
    assert "… and 55 rows more" in DisplayTable("t", {"k": range(255)}).to_html()


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_long_calls_show_a_bar_when_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    fit, other = small_runs()
    robot = small_estimate().base.robot
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    settings = {"friction": "own", "rotor_inertia": None, "consistent": False}
    expected = md.identify(robot, fit, **settings)
    assert terminal.getvalue() == ""
    assert np.array_equal(md.identify(robot, fit, **settings, progress=True).beta, expected.beta)
    assert "identifying" in terminal.getvalue()
    md.cross_validate(robot, fit, folds=2, progress=True)
    md.compare(robot, fit, other, ("wls",), consistent=(False,), friction="own", progress=True)
    assert "cross-validating" in terminal.getvalue()
    assert "comparing methods" in terminal.getvalue()
    plain = io.StringIO()
    monkeypatch.setattr(sys, "stderr", plain)
    with progress_bar("a\x1b[31m name", 3) as done:
        done(2)
    assert plain.getvalue() == "a\\x1b[31m name ...\n"
    counts: list[int] = []
    md.compare(
        robot,
        fit,
        other,
        ("wls",),
        consistent=(False, True),
        friction="own",
        progress=counts.append,
    )
    assert counts == [1, 2]
