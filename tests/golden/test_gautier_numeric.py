"""Gautier 1991 by the paper's own numeric methods.

PUMA 560 (Tables I-V), its variants, the HPR loop, scaling.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import minidyn as md
from conftest import numeric_base
from minidyn.base.numeric.numeric import scaling_of
from minidyn.base.numeric.samples import JointStates, model_rows
from minidyn.model.robot import Robot

# Gautier's d0 by its old name
GOLDEN: dict[str, Any] = json.loads((Path(__file__).parent / "gautier.json").read_text())
PUMA = GOLDEN["gautier_puma"]
MODELS = ("torque", "zero_speed", "energy")
TABLE_V = """
ZZR1 = ZZ1 + Ia1 + YY2 + YY3 + 2 R3 MZ3 + (D3² + R3²) M3 + (D3² + D4² + R3²)(M4 + M5 + M6)
XXR2 = XX2 - YY2 - D3² (M3 + M4 + M5 + M6)
XZR2 = XZ2 - D3 MZ3 - D3 R3 (M3 + M4 + M5 + M6)
ZZR2 = ZZ2 + Ia2 + D3² (M3 + M4 + M5 + M6)
MXR2 = MX2 + D3 (M3 + M4 + M5 + M6)
XXR3 = XX3 - YY3 + YY4 + 2 R4 MZ4 + (R4² - D4²)(M4 + M5 + M6)
XYR3 = XY3 - D4 MZ4 - D4 R4 (M4 + M5 + M6)
ZZR3 = ZZ3 + YY4 + 2 R4 MZ4 + (D4² + R4²)(M4 + M5 + M6)
MXR3 = MX3 + D4 (M4 + M5 + M6)
MYR3 = MY3 + MZ4 + R4 (M4 + M5 + M6)
XXR4 = XX4 - YY4 + YY5
ZZR4 = ZZ4 + YY5
MYR4 = MY4 - MZ5
XXR5 = XX5 - YY5 + YY6
ZZR5 = ZZ5 + YY6
MYR5 = MY5 + MZ6
XXR6 = XX6 - YY6
""".strip().splitlines()


@pytest.fixture(scope="module")
def puma() -> Robot:
    return md.load("puma560")


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("method", ["qr", "svd"])
def test_tables_two_three_and_five(puma: Robot, method: str, model: str) -> None:
    base = numeric_base(puma, method, model)
    assert base.eliminated == tuple(PUMA["elim"])
    assert base.regrouped == tuple(PUMA["regrouped"])
    assert base.kept == tuple(PUMA["base"])
    assert base.unchanged == tuple(PUMA["unchanged"])
    counts = PUMA["counts"]
    assert len(base.robot.layout) == counts["standard"] == 66
    assert (len(base.eliminated), len(base.regrouped), base.rank) == (11, 15, 40)
    assert len(base.unchanged) == counts["unchanged"] == 23
    np.testing.assert_allclose(
        base.values(), [PUMA["XB1"][name] for name in base.kept], rtol=0, atol=1e-9
    )
    K = np.zeros_like(base.K)
    for row, entries in PUMA["beta"].items():
        for column, value in entries.items():
            K[base.kept.index(row), base.regrouped.index(column)] = value
    np.testing.assert_array_equal(base.K == 0.0, K == 0.0)  # zeros are exact
    np.testing.assert_allclose(base.K, K, rtol=0, atol=1e-11)
    assert base.gap > 1e10
    assert not base.notices
    assert [str(r) for r in base.relations() if len(r.terms) > 1] == TABLE_V


def test_table_three_as_printed(puma: Robot) -> None:
    base = numeric_base(puma)
    printed = {
        "ZZR1": 5.0186,
        "XXR2": -2.0500,
        "ZZR2": 6.5500,
        "XXR3": 0.7634,
        "ZZR3": 0.9646,
        "XXR4": -0.4200,
    }
    values = dict(zip(base.names, base.values()))
    assert {name: round(values[name], 4) for name in printed} == printed


def test_the_base_parameters_make_the_torque_and_the_energy_of_the_golden_point(
    puma: Robot,
) -> None:
    point = PUMA["torque_point"]
    q, dq, ddq = (np.array(point[key]) for key in ("q", "qd", "qdd"))
    base = numeric_base(puma)
    tau = md.base_regressor(puma, q, dq, ddq, base=base) @ base.values()
    np.testing.assert_allclose(tau, point["tau"], rtol=0, atol=1e-11)
    energy = md.energy_regressor(puma, q, dq)[list(puma.layout.indices(base.kept))]
    rest = md.energy_regressor(puma, 0 * q, 0 * q)[list(puma.layout.indices(base.kept))]
    own = sum(md.energy(puma, q, dq)) - sum(md.energy(puma, 0 * q, 0 * q))
    assert (energy - rest) @ base.values() == pytest.approx(own, abs=1e-11)


def _variant(name: str) -> Robot:
    puma = md.load("puma560")
    if name == "PUMA g generic":
        return puma.with_gravity((1.3, -4.1, -8.2))
    if name == "PUMA g=0":
        return puma.with_gravity((0, 0, 0))
    if name == "PUMA no Ia":
        return puma.with_drives(rotor_inertia=False)
    if name == "2R perp":
        return Robot.from_mdh(
            "RR", alpha=[0, np.pi / 2], a=[0, 0.3], d=[0.4, 0.2], rotor_inertia=True
        )
    if name == "SCARA RRPR":
        return Robot.from_mdh("RRPR", a=[0, 0.4, 0.3, 0], d=[0.5, 0, 0, 0], rotor_inertia=True)
    if name == "P vert alone":
        return Robot.from_mdh("P", rotor_inertia=True)
    if name == "P horiz alone":
        return Robot.from_mdh("P", alpha=[np.pi / 2], rotor_inertia=True)
    return puma


@pytest.mark.parametrize("name", list(PUMA["ia_and_gravity_variants"]))
@pytest.mark.parametrize("method", ["qr", "svd"])
def test_gravity_and_rotor_variants(name: str, method: str) -> None:
    expected = PUMA["ia_and_gravity_variants"][name]
    for model in MODELS:
        base = numeric_base(_variant(name), method, model)
        assert (base.rank + len(base.regrouped), base.rank) == (expected["c"], expected["b"]), model
        merged = [name for name in base.regrouped if name.startswith("Ia")]
        assert merged == expected.get("mergedIa", merged), model


@pytest.mark.parametrize("name", list(PUMA["ia_and_gravity_variants"]))
def test_energies_that_are_not_differences_count_one_too_many(name: str) -> None:
    expected = PUMA["ia_and_gravity_variants"][name]
    robot, rng = _variant(name), np.random.default_rng(0)
    draw = [rng.uniform(-3, 3, (200, robot.n)) for _ in range(3)]
    h = model_rows(robot, "energy", JointStates(*draw))
    h = h[:, np.ptp(h, axis=0) > 1e-9]  # the paper drops constant functions first
    assert np.linalg.matrix_rank(h, tol=1e-9) == expected.get("b_raw_h", expected["b"])
    assert np.linalg.matrix_rank(h[1:] - h[0], tol=1e-9) == expected["b"]


def test_hpr_with_its_loop_and_without() -> None:
    hpr, result = md.load("hpr"), GOLDEN["hpr"]["result_B"]
    for method in ("qr", "svd"):
        assert numeric_base(hpr.open_loops(), method).rank == result["tree_b"] == 47
        for model in MODELS:
            base = numeric_base(hpr, method, model)
            assert base.rank == result["closed_b"] == 35
            assert set(base.kept) == set(result["base"])
            assert set(base.eliminated) == set(result["eliminated"])
            assert set(base.unchanged) == set(result["unchanged"])
            for row, entries in result["beta"].items():
                found = base.matrix[base.kept.index(row)]
                named = {
                    n: found[k] for k, n in enumerate(hpr.layout.names) if found[k] and n != row
                }
                assert named == pytest.approx(entries, abs=1e-7)


def test_scaling_of_random_rows_is_what_the_paper_says(puma: Robot) -> None:
    golden = PUMA["scaling"]["median_log10_S_vel1"]
    for model, key in zip(MODELS, ("d", "d0", "h")):
        found = []
        for seed in range(60):
            rng = np.random.default_rng(seed)
            count = 55 if model == "energy" else 10
            draw = [rng.uniform(-size, size, (count, 6)) for size in (np.pi, 1.0, 1.0)]
            rows = model_rows(puma, model, JointStates(*draw)).reshape(-1, 66)
            found.append(np.log10(scaling_of(rows[:, np.abs(rows).max(axis=0) > 1e-12])))
        assert np.median(found) == pytest.approx(golden[key], abs=0.6)


def test_row_wise_scaling_search(puma: Robot) -> None:
    base = numeric_base(puma, model="energy", scaling="paper")
    assert base.kept == tuple(PUMA["base"])
    (notice,) = base.notices
    assert notice.code == "base.row_scaling"
    assert notice.data["scaling_before"] > 1e4  # random rows
    assert notice.data["scaling_after"] < 2e3  # the golden search reaches 388
    assert notice.data["gap_before"] > 1
    assert notice.data["gap_after"] > 1
