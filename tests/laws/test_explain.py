"""Reasons of base parameters are facts: they hold, they are complete, and geometry breaks them."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from base_robots import special_robot
from chain_cases import special_chain
from turned_robots import turned

import minidyn as md
from conftest import count
from minidyn.base.explanation import ALONE, LEADS, NO_EFFECT, REGROUPED
from minidyn.base.invariances import invariances
from minidyn.errors import MinidynError, UnknownName
from minidyn.model.robot import Robot
from robot_cases import random_robot, random_state

RIGHT = math.pi / 2
DOWN, ACROSS, NONE = (0.0, 0.0, -9.81), (0.0, -9.81, 0.0), (0.0, 0.0, 0.0)


def robots(seed: int) -> Robot:
    rng = np.random.default_rng(seed)
    if seed % 4 == 0:
        return special_chain(seed, 5)
    if seed % 4 == 1:
        return random_robot(rng, 4, special=seed % 8 == 1, drives=False, loads=seed % 3 % 2)
    if seed % 4 == 2:
        return turned(
            special_robot(seed, 5), rng, ("freely", "about a coordinate axis")[seed % 8 // 4]
        )
    return special_robot(seed)


@pytest.mark.parametrize("seed", range(count(12, 400)))
def test_reasons_span_what_a_base_map_leaves_out(seed: int) -> None:
    """On the regressor itself, and no more and no fewer than the exact rank asks for."""
    robot = robots(seed)
    base = md.base_parameters(robot)
    found = invariances(base.understood)
    changes = np.array([each.vector for each in found]).reshape(len(found), len(robot.layout))
    Y = md.regressor(base.understood, *random_state(robot, np.random.default_rng(1), 20))
    felt = np.abs(Y @ changes.T).max(axis=(0, 1), initial=0.0)
    size = np.abs(Y).max() * np.abs(changes).max(axis=1, initial=0.0)
    assert (felt <= 1e-9 * size).all(), found[int(np.argmax(felt / size))]
    assert np.linalg.matrix_rank(changes, tol=1e-9) == len(robot.layout) - base.rank
    for name, each in base.explanations.of.items():
        assert each.other == "", each
        status = base.statuses[name].partition(":")[0]
        expected = {"identifiable": ALONE, "no effect": NO_EFFECT}.get(status, REGROUPED)
        assert each.status == (
            LEADS if status == "in combination" and name in base.kept else expected
        )
        assert bool(each.reasons) == (each.status in (REGROUPED, NO_EFFECT))


def chain(joints: str, gravity: tuple[float, float, float] = DOWN, **table: object) -> Robot:
    return Robot.from_mdh(joints, gravity=gravity, **table)  # type: ignore[arg-type]


def held(robot: Robot) -> Robot:
    """The robot whose first joint is a load that is bolted on."""
    first = replace(robot.joints[0], kind="fixed")
    return replace(robot, joints=(first, *robot.joints[1:]))


PERTURBED = {
    "one direction": (
        "XX2",
        chain("RR", ACROSS, a=[0, 0.5]),
        NO_EFFECT,
        chain("RR", ACROSS, a=[0, 0.5], alpha=[0, 0.2]),
        LEADS,
    ),
    "first moment along it": (
        "MZ2",
        chain("RR", ACROSS, a=[0, 0.5]),
        NO_EFFECT,
        chain("RR", ACROSS, a=[0, 0.5], alpha=[0, 0.2]),
        REGROUPED,
    ),
    "still axis": ("MX1", chain("R"), NO_EFFECT, chain("R", (1.0, 0.0, -9.81)), ALONE),
    "still axis, coaxial": (
        "MX2",
        chain("RR", d=[0, 0.3]),
        NO_EFFECT,
        chain("RR", a=[0, 0.2], d=[0, 0.3]),
        ALONE,
    ),
    "slides along": (
        "MX2",
        chain("RP", ACROSS),
        REGROUPED,
        chain("RP", ACROSS, alpha=[0, 0.2]),
        ALONE,
    ),
    "one point": (
        "MX3",
        chain("RRR", NONE, alpha=[0, RIGHT, RIGHT], d=[0.0, 0.0, 0.3]),
        REGROUPED,
        chain("RRR", NONE, alpha=[0, RIGHT, RIGHT], a=[0, 0.2, 0], d=[0.0, 0.0, 0.3]),
        ALONE,
    ),
    "axis at rest": ("M1", chain("R"), NO_EFFECT, chain("P"), ALONE),
    "on the axis": (
        "M2",
        chain("RR", alpha=[0, RIGHT], a=[0, 0.3]),
        REGROUPED,
        chain("RP", alpha=[0, RIGHT], a=[0, 0.3]),
        ALONE,
    ),
    "slides": (
        "XX3",
        chain("RRP", alpha=[0, RIGHT, RIGHT]),
        REGROUPED,
        chain("RRR", alpha=[0, RIGHT, RIGHT]),
        LEADS,
    ),
    "never turns": (
        "ZZ2",
        chain("PP", alpha=[0, RIGHT]),
        NO_EFFECT,
        chain("PR", alpha=[0, RIGHT]),
        ALONE,
    ),
    "rotor": (
        "Ia2",
        chain("RR", alpha=[0, RIGHT], rotor_inertia=True),
        REGROUPED,
        chain("RR", alpha=[0, 1.2], rotor_inertia=True),
        ALONE,
    ),
    "bolted": (
        "MX1",
        held(chain("RR", alpha=[0, RIGHT])),
        NO_EFFECT,
        chain("RR", (1.0, 0.0, -9.81), alpha=[0, RIGHT]),
        ALONE,
    ),
}


@pytest.mark.parametrize("kind", PERTURBED)
def test_a_parameter_changes_class_where_its_reason_is_broken(kind: str) -> None:
    name, robot, status, other, then = PERTURBED[kind]
    before, after = (md.base_parameters(each).explain(name) for each in (robot, other))
    assert before.status == status
    assert before.reasons[0].kind == kind.partition(",")[0]
    assert after.status == then, after
    main = before.reasons[0]
    assert (main.kind, main.joint) not in [(each.kind, each.joint) for each in after.reasons]


def test_links_that_turn_alike_are_noticed_in_a_parallelogram() -> None:
    base = md.base_parameters(md.load("hpr"))
    found = base.explain("XX5")
    assert found.reasons[0].kind == "turn alike"
    assert "links 2 and 5 always turn alike" in found.why
    assert "follow others" in base.explain("MX5").why
    open_ = base.robot.open_loops()
    assert md.base_parameters(open_).explain("XX5").status == LEADS


@pytest.mark.parametrize("name", ["puma560", "ur10", "scara", "panda", "two_arm"])
def test_texts_say_what_holds(name: str) -> None:
    base = md.base_parameters(md.load(name))
    every = base.explanations
    text = str(every)
    for parameter in base.robot.layout.names:
        assert parameter in text
        found = str(every.of[parameter])
        assert found.count("\n") < 12
        assert "nan" not in found
    assert len(text.splitlines()) < 12 * len(base.robot.joints)


def test_yy3_of_the_puma() -> None:
    found = md.base_parameters(md.load("puma560")).explain("YY3")
    assert found.status == REGROUPED
    assert found.flow == ("link 3", "link 2", "link 1")
    assert [(name, factor) for name, factor, _ in found.enters] == [("ZZR1", "1"), ("XXR3", "-1")]
    assert "masses on this axis (M3, MZ3, XX3 + YY3) move as if they were bolted to link 2" in str(
        found
    )
    assert found.to_json()["s"] == 2
    m2 = md.base_parameters(md.load("puma560")).explain("M2")
    at_rest = "and masses on this axis (M1, MZ1, XX1 + YY1) stay at rest"
    assert m2.why.endswith(f"There joint 1 turns about its z axis, {at_rest}")


def test_pictures() -> None:
    pytest.importorskip("matplotlib")
    found = md.base_parameters(md.load("puma560")).explain("YY3")
    words = {text.get_text() for axis in found.plot().axes for text in axis.texts}
    assert {"1 = r", "2 = s", "3", " y"} <= words


def test_misuse_is_explained() -> None:
    robot = md.load("two_link")
    with pytest.raises(UnknownName, match="YY1"):
        md.base_parameters(robot).explain("YY_1")
    with pytest.raises(MinidynError, match="parameter"):
        md.base_parameters(robot).explain("YY9")
