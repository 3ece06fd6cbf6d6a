"""Sets of base parameters as papers print them.

Which combinations are identifiable, what is missing (Corollary 6).
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from base_robots import special_robot

import minidyn as md
from conftest import count
from minidyn.errors import DescriptionError, MinidynError, ShapeError
from minidyn.model.robot import Robot

GOLDEN: dict[str, Any] = json.loads(
    (Path(__file__).parents[1] / "golden" / "gautier.json").read_text()
)
PUMA = GOLDEN["gautier_puma"]
TABLE_V = """
    ZZR1 = ZZ1 + Ia1 + YY2 + YY3 + 2 R3 MZ3 + (D3² + R3²) M3 + (D3² + D4² + R3²)(M4 + M5 + M6)
    XXR2 = XX2 - YY2 - D3² (M3 + M4 + M5 + M6)
    XZR2 = XZ2 - D3 MZ3 - D3 R3 (M3 + M4 + M5 + M6)
    ZZR2 = ZZ2 + Ia2 + D3^2 (M3 + M4 + M5 + M6)
    MXR2 = MX2 + D3 (M3 + M4 + M5 + M6)
    XXR3 = XX3 - YY3 + YY4 + 2*R4*MZ4 + (R4**2 - D4**2)*(M4 + M5 + M6)
    XYR3 = XY3 - D4 MZ4 - D4 R4 (M4 + M5 + M6)
    ZZR3 = ZZ3 + YY4 + 2·R4·MZ4 + (D4² + R4²)(M4 + M5 + M6)
    MXR3 = MX3 + D4 (M4 + M5 + M6); MYR3 = MY3 + MZ4 + R4 (M4 + M5 + M6)
    XXR4 = XX4 - YY4 + YY5; ZZR4 = ZZ4 + YY5; MYR4 = MY4 - MZ5
    XXR5 = XX5 - YY5 + YY6; ZZR5 = ZZ5 + YY6; MYR5 = MY5 + MZ6
    XXR6 = XX6 - YY6
"""


@pytest.fixture(scope="module")
def puma() -> md.BaseMap:
    return md.base_parameters("puma560")


def shown(robot: Robot, seed: int = 0) -> np.ndarray:
    """Rows that torques of many random motions give, from the compiled regressor."""
    q, dq, ddq = np.random.default_rng((seed, 20)).uniform(
        -3.0, 3.0, (3, 4 * len(robot.layout), robot.n)
    )
    return md.regressor(robot, q, dq, ddq).reshape(-1, len(robot.layout))


def in_span(W: np.ndarray, row: np.ndarray) -> bool:
    """Whether a combination is one of the rows: what least squares leaves of it."""
    scale = np.linalg.norm(W, axis=0)
    used = scale > 1e-12 * scale.max()
    if np.abs(row[~used]).max(initial=0.0) > 1e-10 * np.abs(row).max():
        return False
    A, b = (W[:, used] / scale[used]).T, row[used] / scale[used]
    x, *_ = np.linalg.lstsq(A, b, rcond=1e-11)
    return bool(np.linalg.norm(A @ x - b) < 1e-7 * np.linalg.norm(b))


def test_gautiers_table_five_is_a_set_of_base_parameters(puma: md.BaseMap) -> None:
    found = md.equivalence(puma, [TABLE_V, *PUMA["unchanged"]])
    assert found.equivalent
    assert len(found.names) == 40
    assert found.names[0] == "ZZR1"
    phi = np.random.default_rng(1).normal(size=66)
    np.testing.assert_allclose(found.matrix @ phi, found.T @ puma.values(phi), atol=1e-12)
    for method in ("qr", "mlc"):
        base = md.base_parameters("puma560", method)
        other = md.equivalence(base, found.matrix)
        assert other.equivalent, method
        np.testing.assert_allclose(other.T @ base.values(phi), found.matrix @ phi, atol=1e-9)


def test_gautiers_table_four_in_numbers(puma: md.BaseMap) -> None:
    """The golden coefficients, written with four digits as a paper does, need a tolerance of that
    size.
    """
    texts = [
        f"{row} + {' + '.join(f'{value:.4f} {name}' for name, value in entries.items())}".replace(
            "+ -", "- "
        )
        for row, entries in PUMA["beta"].items()
    ]
    assert md.equivalence(puma, [*texts, *PUMA["unchanged"]], tolerance=1e-3).equivalent


def test_what_is_wrong_with_a_set_is_named(puma: md.BaseMap) -> None:
    lines = [line for text in TABLE_V.split("\n") for line in text.split(";") if line.strip()]
    without = md.equivalence(puma, [*lines[1:], *PUMA["unchanged"]])
    assert (without.independent, without.complete, without.missing) == (True, False, ("ZZR1",))
    assert all(without.identifiable)
    twice = md.equivalence(puma, [*lines, lines[0], *PUMA["unchanged"]])
    assert (twice.independent, twice.complete, twice.rank) == (False, True, 40)
    assert not twice.equivalent
    sign = lines[12].replace("MY4 - MZ5", "MY4 + MZ5")
    wrong = md.equivalence(puma, [*lines[:12], sign, *lines[13:], *PUMA["unchanged"]])
    assert wrong.names[12] == "MYR4"
    assert [k for k, good in enumerate(wrong.identifiable) if not good] == [12]
    assert wrong.outside[12] == ("MZ5",)
    assert wrong.corrected[12] == "MY4 - MZ5"
    assert wrong.missing == ("MYR4",)
    assert np.all(np.isnan(wrong.T[12]))
    for words in ("MYR4", "MZ5", "not equivalent"):
        assert words in str(wrong)


# ---------------------------------------------------------------- sets whose rule ERRATA corrects


@pytest.mark.parametrize(("axes", "printed", "right"), [(2, 8, 6), (3, 15, 11)])
def test_the_printed_rule_has_too_many_for_intersecting_axes_without_gravity(
    axes: int, printed: int, right: int
) -> None:
    """The rule as printed takes no notice of gravity there.

    Its set is that of the same arm with weight.
    """
    alpha = [0.0, math.pi / 2, -math.pi / 2][:axes]
    robot = Robot.from_mdh("R" * axes, alpha, gravity=(0.0, 0.0, -9.81))
    rule = md.base_parameters(robot, "mlc").relations()
    assert len(rule) == printed
    still = md.base_parameters(robot.with_gravity((0, 0, 0)))
    found = md.equivalence(still, [str(relation) for relation in rule])
    assert (still.rank, found.rank, found.complete, found.equivalent) == (right, right, True, False)
    W = shown(still.robot)
    assert list(found.identifiable) == [in_span(W, row) for row in found.matrix]


def test_the_printed_delta_has_too_few_for_a_slide_below_a_vertical_axis() -> None:
    """Read as printed, δ of Theorem 5 drops k of a vertical axis that a horizontal slide carries.

    ERRATA A (b).
    """
    robot = Robot.from_mdh("PR", [math.pi / 2, -math.pi / 2])
    base = md.base_parameters(robot)
    found = md.equivalence(base, ["m1 = M1 + M2", "U33_2 = ZZ2"])
    assert (all(found.identifiable), found.independent, found.complete) == (True, True, False)
    assert (base.rank, found.missing) == (4, ("MX2", "MY2"))
    assert md.equivalence(base, ["M1 + M2", "ZZ2", "MX2 + MY2", "MX2 - MY2"]).equivalent


# ---------------------------------------------------------------- laws


def test_formulas_are_read_as_they_are_printed() -> None:
    for seed in range(count(15, 300)):
        robot = special_robot(seed)
        for method in ("exact", "mlc"):
            base = md.base_parameters(robot, method)
            for texts in (
                [str(r) for r in base.relations()],
                [r.ascii() for r in base.relations()],
            ):
                found = md.equivalence(base, texts, tolerance=1e-7)  # ten digits are printed
                assert found.equivalent, (seed, method)
                assert found.names == base.names
                np.testing.assert_allclose(found.matrix, base.matrix, rtol=1e-9, atol=1e-12)


def test_identifiable_is_what_random_motions_show() -> None:
    rng = np.random.default_rng(5)
    for seed in range(count(10, 200)):
        robot = special_robot(seed)
        base = md.base_parameters(robot)
        W = shown(robot, seed)
        rows = [rng.normal(size=len(W)) @ W / len(W) for _ in range(3)]
        rows += [rng.normal(size=len(robot.layout)) for _ in range(2)]
        rows += [np.eye(len(robot.layout))[k] for k in rng.integers(len(robot.layout), size=6)]
        found = md.equivalence(base, np.array(rows))
        assert list(found.identifiable) == [in_span(W, row) for row in rows], seed
        good = list(found.identifiable)
        assert found.rank == np.linalg.matrix_rank(
            found.matrix[good] / np.abs(found.matrix[good]).max(), tol=1e-9
        )


def test_text_that_is_no_combination_is_refused_with_its_place(puma: md.BaseMap) -> None:
    with pytest.raises(
        DescriptionError, match=r"formula 2 .*'ZZ1 \+ QQ2'.*'QQ2'.*XX1.*Ia6.*lengths: D3"
    ) as error:
        md.equivalence(puma, ["ZZ1", "ZZ1 + QQ2"])
    assert all(name in str(error.value) for name in puma.robot.layout.names)
    with pytest.raises(DescriptionError, match="did you mean 'ZZ1'"):
        md.equivalence(puma, "zz1")
    for text in (
        "ZZ1 * ZZ2",
        "sin(ZZ1)",
        "1 / ZZ1",
        "ZZ1 ** 2",
        "ZZ1 + 3",
        "(" + " + ".join(puma.kept) + ")^9",
    ):
        with pytest.raises(DescriptionError, match="sum of number times parameter"):
            md.equivalence(puma, text)
    for text in (
        "ZZ1 +",
        "ZZ1 $ 2",
        "(ZZ1",
        "",
        "__import__('os')",
        "ZZ1 if 1 else 2",
        "ZZ1 9**9**9",
    ):
        with pytest.raises(DescriptionError):
            md.equivalence(puma, text)
    with pytest.raises(ShapeError, match=r"\(m, 66\)"):
        md.equivalence(puma, np.eye(65))
    with pytest.raises(ShapeError):
        md.equivalence(puma, np.full((1, 66), np.nan))
    for wrong in (None, {"a": 1}):
        with pytest.raises(MinidynError):
            md.equivalence(puma, wrong)  # type: ignore[call-overload]
    with pytest.raises(MinidynError, match="first"):
        md.equivalence(np.eye(66), puma)  # type: ignore[call-overload]
