"""Gautier 1991 by exact arithmetic.

Table III and V of the PUMA, the variants, the robot with a loop.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import minidyn as md
from minidyn.base.equivalence import rows_of_text
from minidyn.model.robot import Robot

# Gautier's d0 by its old name
GOLDEN: dict[str, Any] = json.loads((Path(__file__).parent / "gautier.json").read_text())
PUMA, HPR = GOLDEN["gautier_puma"], GOLDEN["hpr"]["result_B"]
MODELS = ("torque", "zero_speed", "energy")


def relations(base: md.BaseMap) -> dict[str, dict[str, float]]:
    """Return {kept: {regrouped: factor}} of the rows that are not zero."""
    rows = {
        name: {other: float(value) for other, value in zip(base.regrouped, row) if value}
        for name, row in zip(base.kept, base.K)
    }
    return {name: row for name, row in rows.items() if row}


@pytest.mark.parametrize("model", MODELS)
def test_puma_counts_names_and_relations(model: str) -> None:
    base = md.base_parameters(md.load("puma560"), model=model)
    assert (len(base.eliminated), len(base.regrouped), base.rank) == (11, 15, 40)
    assert list(base.eliminated) == PUMA["elim"]
    assert list(base.regrouped) == PUMA["regrouped"]
    assert list(base.kept) == PUMA["base"]
    assert list(base.unchanged) == PUMA["unchanged"]
    assert len(base.unchanged) == PUMA["counts"]["unchanged"]
    assert relations(base) == PUMA["beta"]  # to the last bit: entries are the fractions they are
    assert base.gap == math.inf
    assert base.notices == ()


@pytest.mark.parametrize("model", MODELS)
def test_puma_values_of_table_3(model: str) -> None:
    robot = md.load("puma560")
    base = md.base_parameters(robot, model=model)
    np.testing.assert_allclose(
        base.values(), [PUMA["XB1"][name] for name in base.kept], rtol=1e-12, atol=1e-12
    )


def test_puma_torque_from_base_parameters() -> None:
    robot, point = md.load("puma560"), PUMA["torque_point"]
    base = md.base_parameters(robot)
    Y = md.base_regressor(robot, point["q"], point["qd"], point["qdd"], base=base)
    np.testing.assert_allclose(Y @ base.values(), point["tau"], rtol=1e-11)


def mdh(joints: str, alpha: list[int], a: list[float], gravity: Any = (0, 0, -9.81)) -> Robot:
    return Robot.from_mdh(joints, np.radians(alpha), a, gravity=gravity, rotor_inertia=True)


VARIANTS = {
    "PUMA g=-z": md.load("puma560"),
    "PUMA g generic": md.load("puma560").with_gravity((3.0, -5.0, 7.0)),
    "PUMA g=0": md.load("puma560").with_gravity((0, 0, 0)),
    "2R perp": Robot.from_mdh("RR", [0, math.pi / 2], [0, 0.3], [0.4, 0.2], rotor_inertia=True),
    "SCARA RRPR": mdh("RRPR", [0, 0, 0, 0], [0, 0.4, 0.3, 0]),
    "P vert alone": mdh("P", [0], [0]),
    "P horiz alone": mdh("P", [90], [0]),
}


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("name", VARIANTS)
def test_gravity_and_rotor_variants(name: str, model: str) -> None:
    expected = PUMA["ia_and_gravity_variants"][name]
    base = md.base_parameters(VARIANTS[name], model=model)
    assert base.rank == expected["b"]
    assert base.rank + len(base.regrouped) == expected["c"]
    assert [name for name in base.regrouped if name.startswith("Ia")] == expected["mergedIa"]


def test_puma_without_rotor_inertia() -> None:
    base = md.base_parameters(md.load("puma560", rotor_inertia=False))
    expected = PUMA["ia_and_gravity_variants"]["PUMA no Ia"]
    assert (base.rank, base.rank + len(base.regrouped)) == (expected["b"], expected["c"])


@pytest.mark.parametrize("model", MODELS)
def test_hpr_with_its_loop_closed(model: str) -> None:
    base = md.base_parameters(md.load("hpr"), model=model)
    assert base.rank == HPR["closed_b"]
    assert list(base.eliminated) == HPR["eliminated"]
    assert list(base.kept) == HPR["base"]
    assert list(base.regrouped) == HPR["regrouped"]
    assert list(base.unchanged) == HPR["unchanged"]
    found = relations(base)
    assert found.keys() == HPR["beta"].keys()
    for name, row in HPR["beta"].items():
        assert found[name] == pytest.approx(row, abs=1e-8), name
    assert found["MX3"]["MX5"] == 5 / 12


@pytest.mark.parametrize("model", MODELS)
def test_hpr_in_symbols(model: str, tmp_path: Path) -> None:
    """Printed relations have the golden numbers, and those of robot files with other lengths."""
    base = md.base_parameters(md.load("hpr"), model=model)
    texts = [str(relation) for relation in base.relations()]
    assert not any("." in text for text in texts)  # every length by its name
    for relation, name in zip(base.relations(), base.kept):
        for term in relation.terms[1:]:
            value = (
                term.value
                if term.polynomial is None
                else term.polynomial.value({"D4": 0.6, "D5": 0.25, "D6": 0.7})
            )
            assert value == pytest.approx(HPR["beta"][name][term.parameter], abs=1e-8)
    text = (Path(md.__file__).parent / "model" / "robots" / "hpr.toml").read_text(encoding="utf-8")
    rng = np.random.default_rng(29)
    for number in range(3):
        path = tmp_path / f"hpr{number}.toml"
        changed = text
        for name, old in (("D4", 0.6), ("D5", 0.25), ("D6", 0.7)):
            changed = changed.replace(
                f"{name} = {old}\n", f"{name} = {rng.uniform(0.2, 0.9):.3f}\n"
            )
        path.write_text(changed, encoding="utf-8")
        other = md.base_parameters(md.load(path), model=model)
        assert not np.allclose(other.K, base.K)
        # the text is read with the lengths of the other file
        _, rows = rows_of_text(texts, other.robot.layout.names, dict(other.robot.symbols))
        np.testing.assert_allclose(rows, other.matrix, atol=1e-9)


@pytest.mark.parametrize("model", MODELS)
def test_hpr_opened(model: str) -> None:
    base = md.base_parameters(md.load("hpr").open_loops(), model=model)
    assert (base.rank, base.rank + len(base.regrouped)) == (HPR["tree_b"], HPR["tree_c"])


@pytest.mark.parametrize(
    ("which", "rotors"),
    [
        ("all Ia", range(1, 8)),
        ("Ia on active 1,3,4,6,7", (1, 3, 4, 6, 7)),
        ("Ia on motors 1,2,3,6,7", (1, 2, 3, 6, 7)),
        ("no Ia", ()),
    ],
)
def test_hpr_rotor_variants(which: str, rotors: Any) -> None:
    robot = md.load("hpr", rotor_inertia=[f"joint{k}" for k in rotors])
    base = md.base_parameters(robot)
    expected = GOLDEN["hpr"]["Ia_variants"][which]
    assert (base.rank, base.rank + len(base.regrouped)) == (expected["b"], expected["c"])
