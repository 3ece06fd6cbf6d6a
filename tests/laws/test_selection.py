"""The table of decisions: whole, stored, shown; and as plain values and back."""

from __future__ import annotations

import json
from functools import cache

import numpy as np
import pytest

import minidyn as md
from minidyn.identification.score import MIN_GAIN, MIN_STANDARD_ERRORS, Gain
from minidyn.identification.selection import FORBIDDEN, FORCED, Decision, Selection
from minidyn.identification.terms.catalogue import EFFECTS
from minidyn.model.drives import PLAIN

ROWS = (
    Decision.of("load", ("a", "b"), Gain(0.25, 0.05), True),
    Decision.of("stribeck", ("a",), Gain(-0.01, 0.02), False, "does not pay at this joint"),
    Decision("spring", is_taken=True, reason=FORCED),
    Decision("cubic", reason=FORBIDDEN),
)


def test_rows_come_back_from_json() -> None:
    selection = Selection(ROWS)
    text = json.dumps(selection.to_json())
    assert Selection.from_json(json.loads(text)) == selection
    assert Selection.from_json([]) == Selection()
    least = Decision.from_json({"candidate": "load"})
    assert least == Decision("load")


def test_rows_are_counted_joined_and_shown() -> None:
    selection = Selection(ROWS[:1]) + Selection(ROWS[1:])
    assert (len(selection), tuple(selection)) == (4, ROWS)
    assert [row.candidate for row in selection.taken] == ["load", "spring"]
    assert Selection(ROWS[:1]) + ROWS[1:] == selection
    text = str(selection.table())
    for words in ("load", "a, b", "all", "0.25", FORCED, FORBIDDEN, "does not pay"):
        assert words in text, words
    pytest.importorskip("pandas")
    frame = selection.to_pandas()
    assert list(frame["candidate"]) == [row.candidate for row in ROWS]
    assert list(frame["taken"]) == [True, False, True, False]
    assert frame["gain, nats"][0] == 0.25
    assert frame["gain, nats"].isna().tolist() == [False, False, True, True]


@cache
def estimate() -> md.Estimate:
    """A log with load friction; quadratic friction is forced, cubic forbidden."""
    robot = md.load("two_link").with_drives(True, (*PLAIN, "load"), sign_width=0.03)
    sizes = {"Ia": 0.3, "Fv": 2.0, "Fc": 3.0, "Fo": 0.2, "Fl": 0.15}
    values = [
        sizes.get(column.symbol, robot.parameters[column.index]) for column in robot.layout.columns
    ]
    truth, t = robot.with_parameters(values), np.arange(0.0, 16.0, 0.01)
    q, dq, ddq = md.trajectory.fourier(truth, seed=3, speed=2.0)(t)
    tau = md.inverse_dynamics(truth, q, dq, ddq)
    tau = tau + 0.02 * np.random.default_rng(1).normal(size=tau.shape)
    log = md.Recording(t, q, tau, dq, ddq, truth.joint_names)
    return md.identify(
        md.load("two_link").with_drives(True, PLAIN),
        log,
        friction="auto",
        force_terms="quadratic",
        forbid_terms="cubic",
    )


def test_every_term_of_the_model_has_a_row() -> None:
    found = estimate()
    rows = {
        name: [row for row in found.selection if row.candidate == name]
        for name in {row.candidate for row in found.selection}
    }
    terms = {term for joint in found.robot.joints for term in joint.drive.friction} - set(PLAIN)
    assert {"quadratic", "load"} <= terms
    assert "cubic" not in terms
    for effect in EFFECTS.values():
        assert effect.name in rows or not effect.is_tried or not terms & set(effect.terms)
        if set(effect.terms) <= terms:
            assert any(row.is_taken for row in rows[effect.name]), effect.name
            terms -= set(effect.terms)
    assert not terms  # each is of an effect that was taken
    assert [(row.is_taken, row.reason) for row in rows["quadratic"]] == [(True, FORCED)]
    assert [(row.is_taken, row.reason) for row in rows["cubic"]] == [(False, FORBIDDEN)]


def test_terms_are_taken_by_the_rule() -> None:
    """What was taken by score passes the rule; what was tried at all joints and fails it is not."""
    scored = [row for row in estimate().selection if row.candidate in EFFECTS and row.gain]
    assert any(row.is_taken for row in scored)
    assert not all(row.is_taken for row in scored)
    for row in scored:
        gain, error = float(row.gain or 0.0), float(row.standard_error or 0.0)
        passes = gain >= max(MIN_GAIN * len(row.joints), MIN_STANDARD_ERRORS * error)
        assert passes or not row.is_taken, row


def test_rows_are_stored_and_shown(tmp_path) -> None:
    found = estimate()
    found.save(tmp_path / "estimate.json")
    again = md.load_estimate(tmp_path / "estimate.json")
    assert again.selection == found.selection
    assert json.loads(json.dumps(found.record["selection"])) == found.selection.to_json()
    page = md.report(found, path=tmp_path / "report.html", code=False).read_text("utf-8")
    section = page[page.index('id="decisions"') :]
    assert f"All {len(found.selection)} rows" in section
    for row in found.selection:
        assert row.candidate in section
