"""Printed formulas are read again and must give the numbers of the functions they are formulas
of.
"""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import minidyn as md
from conftest import count
from formula_readers import READERS, check_latex, read_text, state_values
from hostile_names import HOSTILE
from minidyn.dynamics.formulas import named_lengths
from minidyn.dynamics.functions import call
from minidyn.errors import MinidynError, UnknownName, Unsupported
from minidyn.model.geometry import Step
from minidyn.model.parameters import STANDARD
from minidyn.model.robot import Robot
from robot_cases import (
    FOUR_BAR,
    formula_robot,
    random_chain,
    random_state,
    relative_error,
    robot_of_seed,
)

PRECISE = 1e-10  # fifteen digits are printed
FUNCTIONS = {
    "inertia_matrix": ("q",),
    "coriolis_matrix": ("q", "dq"),
    "gravity_torque": ("q",),
    "inverse_dynamics": ("q", "dq", "ddq"),
    "forward_dynamics": ("q", "dq", "tau"),
    "energy": ("q", "dq"),
    "regressor": ("q", "dq", "ddq"),
    "lagrange_regressor": ("q", "dq", "ddq"),
    "lumeng16_regressor": ("q", "dq", "ddq"),
    "slotine_li_regressor": ("q", "dq", "dqr", "ddqr"),
    "momentum_regressor": ("q", "dq"),
    "energy_regressor": ("q", "dq"),
    "forward_kinematics": ("q",),
    "jacobian": ("q",),
}
SEEDS = range(7000, 7000 + count(12, 300))


def given(what: str, at: dict[str, np.ndarray]) -> dict[str, float]:
    """Values of what a function takes."""
    return state_values(**{name: at[name] for name in FUNCTIONS[what]})


def state(robot: Robot, seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {
        name: rng.uniform(-1.5, 1.5, robot.n) for name in ("q", "dq", "ddq", "dqr", "ddqr", "tau")
    }


def expected(robot: Robot, what: str, at: dict[str, np.ndarray]) -> list[np.ndarray]:
    """What the plain functions compute, which know nothing of formulas."""
    found = call(robot, what, tuple(at[name] for name in FUNCTIONS[what]), None, None)
    return list(found) if isinstance(found, tuple) else [found]


def assert_same(found: list[np.ndarray], wanted: list[np.ndarray], size: float = 0.0) -> None:
    assert len(found) == len(wanted)
    for one, two in zip(found, wanted):
        assert one.shape == np.shape(two)
        scale = max(size, float(np.abs(two).max(initial=0.0)), 1e-3)
        assert np.abs(one - two).max(initial=0.0) < PRECISE * scale


def weight(robot: Robot) -> float:
    """A torque that the robot's weight and motion can make: rounding is of this size."""
    return float(np.nansum(np.abs(robot.parameters)))


# ---------------------------------------------------------------- numbers


@pytest.mark.parametrize("seed", SEEDS)
def test_every_format_gives_the_numbers_of_random_robots(seed: int) -> None:
    """Trees, sliding joints, oblique axes, anchors, drives, mimic joints, loads, any gravity."""
    robot = robot_of_seed(seed)
    at = state(robot, seed)
    rng = np.random.default_rng(seed)
    chosen = ["inertia_matrix", *rng.choice(list(FUNCTIONS)[1:], 2, replace=False)]
    for what in chosen:
        found = md.formulas(robot, what, digits=15)
        values = found.values | given(what, at)
        wanted = expected(robot, what, at)
        if what == "forward_dynamics":
            wanted_error = np.linalg.cond(md.inertia_matrix(robot, at["q"]))
            assert relative_error(read_text(found, values)[0], wanted[0]) < PRECISE * wanted_error
            continue
        for reader in READERS.values():
            assert_same(reader(found, values), wanted, weight(robot))
        check_latex(found.latex(document=True))


@pytest.mark.parametrize("what", FUNCTIONS)
@pytest.mark.parametrize("joints", ["RR", "RP", "PRR", "RRR"])
def test_small_chains_are_closed_and_both_forms_are_right(joints: str, what: str) -> None:
    robot = random_chain(len(joints), joints, friction=("viscous", "coulomb"), rotor_inertia=True)
    at = state(robot)
    wanted = expected(robot, what, at)
    for form in ("closed", "listing"):
        if form == "closed" and (what == "forward_dynamics" or joints in ("RRR", "PRR")):
            continue  # quotients of long polynomials
        found = md.formulas(robot, what, form=form, digits=15)
        assert found.form == form
        for reader in READERS.values():
            assert_same(reader(found, found.values | given(what, at)), wanted, weight(robot))


@pytest.mark.parametrize("seed", range(count(5, 60)))
@pytest.mark.parametrize("method", ["exact", "mlc"])
def test_base_parameters_are_enough(seed: int, method: str) -> None:
    robot = random_chain(seed, "RPRRRR"[: 2 + seed % 5], gravity=[0.0, 3.0, -9.0])
    base = md.base_parameters(robot, method=method)
    at = state(robot, seed)
    for what in ("inertia_matrix", "inverse_dynamics", "base_regressor", "regressor"):
        found = md.formulas(robot, what, base=base, digits=15)
        values = found.values | given("regressor" if what.endswith("regressor") else what, at)
        if what.endswith("regressor"):
            wanted = md.base_regressor(robot, at["q"], at["dq"], at["ddq"], base=base)
            assert found.results[0].shape == (robot.n, base.rank)
        else:
            wanted = expected(robot, what, at)[0]
            assert {*found.values} <= {*base.names, *dict(named_lengths(robot).symbols), "g"}
        for reader in READERS.values():
            assert_same(reader(found, values), [wanted], weight(robot))


def relations_robot(seed: int) -> md.Robot:
    if seed:
        return robot_of_seed(seed + 299)
    robot = md.load("hpr")  # a loop: its relations have fractions of lengths
    return robot.with_parameters(np.random.default_rng(0).normal(size=len(robot.layout)))


@pytest.mark.parametrize("seed", range(count(9, 101)))
def test_relations_give_the_base_parameters(seed: int) -> None:
    robot = relations_robot(seed)
    base = md.base_parameters(robot)
    found = md.formulas(robot, "relations", base=base, digits=15)
    lengths = dict(named_lengths(robot).symbols)
    values = dict(zip(robot.parameter_names, robot.parameters)) | lengths
    wanted = dict(zip(base.names, base.values()))
    for reader in READERS.values():
        (beta,) = reader(found, values)
        for label, value in zip(found.results[0].labels, beta):
            assert value == pytest.approx(wanted[label.text], rel=1e-8, abs=1e-9)
    joined = [name for name in base.names if name not in base.kept]
    assert {label.text for label in found.results[0].labels} == set(joined)


@pytest.mark.parametrize(
    "what", ["inertia_matrix", "inverse_dynamics", "regressor", "coriolis_matrix"]
)
def test_a_robot_with_a_formula_for_a_joint(what: str) -> None:
    robot = formula_robot()
    at = state(robot)
    found = md.formulas(robot, what, digits=15)
    for reader in READERS.values():
        assert_same(
            reader(found, found.values | given(what, at)), expected(robot, what, at), weight(robot)
        )


def test_loops_that_are_solved_for_are_refused(tmp_path: Path) -> None:
    (tmp_path / "bar.toml").write_text(FOUR_BAR)
    robot = md.load(tmp_path / "bar.toml")
    with pytest.raises(Unsupported, match="open_loops"):
        md.formulas(robot, "inertia_matrix")
    assert md.formulas(robot.open_loops(), "inertia_matrix").results[0].shape == (4, 4)


@pytest.mark.parametrize("name", md.robots())
def test_built_in_robots(name: str) -> None:
    robot = md.load(name)
    if robot.implicit_loops:
        pytest.skip("solved for")
    filled = robot.with_parameters(np.random.default_rng(0).uniform(0.1, 1.0, len(robot.layout)))
    q = state(robot)["q"]
    found = md.formulas(robot, "inertia_matrix", digits=15)
    values = found.values | dict(zip(filled.parameter_names, filled.parameters)) | state_values(q=q)
    assert_same(read_text(found, values), [md.inertia_matrix(filled, q)], weight(filled))


# ---------------------------------------------------------------- what is seen


def planar() -> Robot:
    return md.Robot.from_mdh("RR", a=[0, 0.5], gravity=[0, -9.81, 0])


def test_the_inertia_matrix_of_the_books() -> None:
    text = md.formulas(planar(), "inertia_matrix").text()
    assert "M11 = ZZ1 + ZZ2 + M2 a2² + 2 MX2 a2 c2 - 2 MY2 a2 s2\n" in text
    assert "M12 = M21 = ZZ2 + MX2 a2 c2 - MY2 a2 s2\n" in text
    assert "M22 = ZZ2\n" in text


def test_sums_of_angles_of_parallel_axes() -> None:
    robot = md.Robot.from_mdh("RRR", alpha=[0, np.pi / 2, 0], a=[0, 0, 0.4])
    entry = md.formulas(robot, "inertia_matrix").entries["M11"]
    for part in (
        "XX2 s2²",
        "YY2 c2²",
        "XX3 s23²",
        "2 XY3 c23 s23",
        "YY3 c23²",
        "2 MX3 a3 c2 c23",
        "M3 a3² c2²",
    ):
        assert part in entry


def test_the_gravity_torques_of_the_books() -> None:
    robot = planar().with_parameters([0] * 6 + [0.2, 0, 0, 1.0] + [0] * 6 + [0.3, 0, 0, 2.0])
    text = md.formulas(robot, "gravity_torque", parameters="nonzero").text()
    assert (
        "tau1 = M2 a2 g c1 + MX1 g c1 + MX2 g c12\n" in text
        or "tau1 = MX1 g c1 + MX2 g c12 + M2 a2 g c1\n" in text
    )
    assert "tau2 = MX2 g c12\n" in text


def test_names_of_minimal_combinations() -> None:
    robot = md.load("rx90")
    latex = md.formulas(
        robot, "gravity_torque", base=md.base_parameters(robot, method="mlc")
    ).latex()
    assert r"(k_{2})_{x}" in latex
    latex = md.formulas(
        robot, "inertia_matrix", base=md.base_parameters(robot, method="mlc")
    ).latex()
    assert r"(U_{1})_{33}" in latex
    check_latex(latex)


def test_a_listing_names_the_links_quantities() -> None:
    robot = md.load("puma560")
    found = md.formulas(robot, "inverse_dynamics")
    assert found.form == "listing"
    names = {own.text for own, _ in found.lines}
    assert {"s2", "c6", "w3x", "dw3y", "a4z", "f5x", "n6z"} <= names
    assert {"D3", "R3", "D4", "R4", "g"} <= set(found.values)
    assert found.text() == md.formulas(robot, "inverse_dynamics").text()


@pytest.mark.parametrize("name", ["scara", "ur5e", "panda"])
def test_lengths_without_a_symbol_get_one(name: str) -> None:
    robot = named_lengths(md.load(name))
    steps = [
        step for joint in robot.joints for step in (*joint.before, *joint.after) if not step.is_turn
    ]
    assert steps
    assert all(dict(robot.symbols)[step.symbol] * step.factor == step.value for step in steps)
    assert {"scara": "a2", "ur5e": "d4", "panda": "a5"}[name] in dict(robot.symbols)


def test_symbols_that_look_like_others_are_kept_apart() -> None:
    robot = md.Robot.from_mdh(
        "RRR", a=[0, 0.5, 0.4], parameters=np.arange(1.0, 31.0), gravity=[0, -9.81, 0]
    )
    for evil in (
        "c2",
        "q1",
        "g",
        "M2",
        "M11",
        "t1",
        "w3x",
        "Matrix",
        "x$^{2}$",
        "\\input{a}",
        "a b",
        "lambda",
    ):
        steps = ((), (Step("tx", 0.5, evil),), (Step("tx", 0.4, evil + "_"),))
        joints = tuple(replace(joint, before=before) for joint, before in zip(robot.joints, steps))
        odd = replace(robot, joints=joints, symbols=((evil, 0.5), (evil + "_", 0.4)))
        at = state(odd)
        wanted = expected(robot, "inverse_dynamics", at)
        for form in ("closed", "listing"):
            found = md.formulas(odd, "inverse_dynamics", digits=15, form=form)
            check_latex(found.latex())
            for reader in READERS.values():
                assert_same(reader(found, found.values | given("inverse_dynamics", at)), wanted)


@pytest.mark.parametrize(
    "name", [*HOSTILE, "$x$", r"\end{document}", "a|b`c`", "# x", "'''\nimport os", "<script>"]
)
def test_foreign_names_are_shown_and_never_acted_upon(name: str) -> None:
    robot = planar()
    joints = tuple(replace(joint, name=f"{name}{k}") for k, joint in enumerate(robot.joints))
    robot = replace(robot, name=name, joints=joints, link_names=(f"{name}a", f"{name}b"))
    found = md.formulas(robot, "inertia_matrix")
    check_latex(found.latex(document=True))
    body = found.markdown()
    assert body.count("$$") == 2
    table = body[body.index("| symbol") :].splitlines()
    for row in table:
        assert row.replace("\\|", "").count("|") == 4
        assert row.replace("\\$", "").count("$") in (0, 2)
    assert "<" not in body
    assert "\n\n\n" not in body
    first, second, *_ = found.sympy().splitlines()
    assert first.startswith("# ")
    assert second.startswith("from sympy import")
    compile(found.sympy(), "formulas", "exec")


@pytest.mark.skipif(
    not (shutil.which("pdflatex") or shutil.which("tectonic")), reason="no LaTeX here"
)
@pytest.mark.parametrize("what", ["inertia_matrix", "inverse_dynamics", "relations"])
def test_a_real_latex_compiles_it(what: str, tmp_path: Path) -> None:
    found = md.formulas(md.load("puma560"), what)
    found.save(tmp_path / "f.tex")
    tool = shutil.which("pdflatex")
    command = (
        [tool, "-interaction=nonstopmode", "-halt-on-error", "f.tex"]
        if tool
        else ["tectonic", "f.tex"]
    )
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)


# ---------------------------------------------------------------- use


def test_files_by_their_ending(tmp_path: Path) -> None:
    found = md.formulas(planar(), "energy")
    for ending, text in ((".txt", found.text()), (".md", found.markdown()), (".py", found.sympy())):
        found.save(tmp_path / f"f{ending}")
        assert (tmp_path / f"f{ending}").read_text(encoding="utf-8") == text
    found.save(tmp_path / "f.tex")
    assert (tmp_path / "f.tex").read_text().startswith(r"\documentclass")
    with pytest.raises(MinidynError, match=r"\.tex"):
        found.save(tmp_path / "f.pdf")
    assert found._repr_latex_().startswith("$$\n\\begin{aligned}")
    assert found._repr_markdown_() == found.markdown()


def test_parameters_as_numbers_and_columns() -> None:
    robot = md.load("two_link")
    at = state(robot)
    own = md.formulas(robot, "inertia_matrix", parameters="own", digits=15)
    assert not set(own.values) & {f"{symbol}{k}" for symbol in STANDARD for k in (1, 2)}
    assert_same(
        read_text(own, own.values | given("inertia_matrix", at)),
        expected(robot, "inertia_matrix", at),
    )
    few = md.formulas(robot, "regressor", columns=["M2", "MX2"])
    assert [label.text for label in few.results[0].labels] == ["Y1_M2", "Y1_MX2", "Y2_M2", "Y2_MX2"]


def test_wrong_words_and_combinations() -> None:
    robot = md.load("two_link")
    base = md.base_parameters(robot)
    with pytest.raises(UnknownName, match="inertia_matrix"):
        md.formulas(robot, "inertia_matrx")
    with pytest.raises(UnknownName, match="closed"):
        md.formulas(robot, "energy", form="close")
    with pytest.raises(UnknownName, match="nonzero"):
        md.formulas(robot, "energy", parameters="nonzeros")
    with pytest.raises(MinidynError, match="base="):
        md.formulas(robot, "jacobian", base=base)
    with pytest.raises(MinidynError, match="columns="):
        md.formulas(robot, "inertia_matrix", columns=["M1"])
    with pytest.raises(MinidynError, match="built like"):
        md.formulas(robot.with_gravity([0, 0, 1]), "inertia_matrix", base=base)
    with pytest.raises(Unsupported, match="1000 terms"):
        md.formulas(random_chain(2, "RRRRRRR"), "inverse_dynamics", form="closed")
    with pytest.raises(UnknownName):
        md.formulas(robot, "energy").to("pdf")


def test_the_old_name_works_and_names_the_new_one() -> None:
    with pytest.warns(DeprecationWarning, match=r"md\.formulas"):
        found = md.regressor_formulas(md.load("two_link"), columns=["ZZ2"])
    assert [str(row[0]) for row in found] == ["ddq1 + ddq2", "ddq1 + ddq2"]


def test_random_state_is_used() -> None:
    """The same formulas serve every state: read once, at three states."""
    robot = random_chain(5, "RRP")
    found = md.formulas(robot, "inverse_dynamics", digits=15)
    for q, dq, ddq in zip(*random_state(robot, np.random.default_rng(1), 3)):
        values = found.values | state_values(q=q, dq=dq, ddq=ddq)
        assert_same(
            read_text(found, values), [md.inverse_dynamics(robot, q, dq, ddq)], weight(robot)
        )
