"""Laws of the printed relations.

Polynomials hold for other lengths, texts are exact, names do no harm.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from base_robots import looped_arm, special_robot

import minidyn as md
from conftest import count, numeric_base
from hostile_names import HOSTILE
from minidyn.base.base_map import BaseMap
from minidyn.base.numeric.samples import model_rows, random_states, units_of
from minidyn.base.printing.relations import (
    UNICODE,
    RelationTerm,
    escape_latex,
    explain,
    relations,
    relations_json,
    sum_text,
)
from minidyn.base.printing.symbols import LengthPolynomial, angle_values, symbolic_entries
from minidyn.base.rows import MODELS
from minidyn.dynamics.formulas import named_lengths
from minidyn.dynamics.tree import NamedLengths
from minidyn.model.geometry import Step
from minidyn.model.loops import check_loops
from minidyn.model.robot import Robot


# Gautier's d0 by its old name
def named(robot: Robot, share: float = 1.0) -> Robot:
    """Return the robot with names for (a share of) its lengths."""
    symbols: list[tuple[str, float]] = []

    def name(step: Step) -> Step:
        if step.is_turn or step.value == 0.0 or len(symbols) % 10 >= 10 * share:
            return step
        symbols.append((f"L{len(symbols) + 1}", step.value))
        return replace(step, symbol=symbols[-1][0], factor=1.0)

    joints = tuple(replace(joint, before=tuple(map(name, joint.before))) for joint in robot.joints)
    loops = tuple(
        replace(
            loop, steps_a=tuple(map(name, loop.steps_a)), steps_b=tuple(map(name, loop.steps_b))
        )
        for loop in robot.loops
    )
    return replace(robot, joints=joints, loops=loops, symbols=tuple(symbols))


def with_lengths(robot: Robot, values: dict[str, float]) -> Robot:
    """Return the robot with other values of its symbols."""

    def change(step: Step) -> Step:
        return (
            replace(step, value=step.factor * values[step.symbol])
            if step.symbol in values
            else step
        )

    joints = tuple(
        replace(
            joint, before=tuple(map(change, joint.before)), after=tuple(map(change, joint.after))
        )
        for joint in robot.joints
    )
    loops = tuple(
        replace(
            loop, steps_a=tuple(map(change, loop.steps_a)), steps_b=tuple(map(change, loop.steps_b))
        )
        for loop in robot.loops
    )
    robot = replace(robot, joints=joints, loops=loops, symbols=tuple(values.items()))
    check_loops(robot, {})
    return robot


def check_polynomials(
    base: BaseMap, rng: np.random.Generator, values: dict[str, float] | None = None
) -> int:
    """Check every polynomial against K of the robot with other lengths.

    Return how many there are.
    """
    found = symbolic_entries(base)
    if values is None:
        values = {name: float(value * rng.uniform(0.5, 2.0)) for name, value in base.robot.symbols}
    other = numeric_base(with_lengths(base.robot, values), "qr", base.model)
    assert other.kept == base.kept
    for (row, column), polynomial in found.items():
        expected = other.K[row, column]
        assert polynomial.value(values) == pytest.approx(expected, rel=1e-8, abs=1e-9), (
            base.names[row],
            base.regrouped[column],
        )
    return len(found)


@pytest.mark.parametrize("name", ["puma560", "rx90", "two_link"])
def test_polynomials_hold_for_other_lengths(name: str) -> None:
    for model in ("torque", "zero_speed", "energy"):
        base = numeric_base(md.load(name), "qr", model)
        assert check_polynomials(base, np.random.default_rng(1)) > 1


@pytest.mark.parametrize("seed", range(count(30, 400)))
def test_random_chains_and_trees_are_polynomial_in_their_lengths(seed: int) -> None:
    robot = named(special_robot(seed))
    base = numeric_base(robot)
    number = check_polynomials(base, np.random.default_rng(seed))
    # what changes with a length is a polynomial of it: nothing that depends on lengths is left as a
    # number
    other = numeric_base(with_lengths(robot, {name: 1.3 * value for name, value in robot.symbols}))
    changed = np.abs(other.K - base.K) > 1e-9 * (1.0 + np.abs(base.K))
    assert number >= np.count_nonzero(changed)


def test_unnamed_lengths_get_names() -> None:
    puma = md.load("puma560")
    steps = tuple(
        replace(step, symbol="") if step.symbol == "R3" else step for step in puma.joints[2].before
    )
    joints = (*puma.joints[:2], replace(puma.joints[2], before=steps), *puma.joints[3:])
    partly = replace(puma, joints=joints, symbols=tuple(s for s in puma.symbols if s[0] != "R3"))
    first, _, _, third, *_ = relations(numeric_base(partly))
    assert str(first) == (
        "ZZR1 = ZZ1 + Ia1 + YY2 + YY3 + 2 d3 MZ3 + (D3² + d3²) M3 + (D3² + D4² + d3²)(M4 + M5 + M6)"
    )
    assert str(third) == "XZR2 = XZ2 - D3 MZ3 - D3 d3 (M3 + M4 + M5 + M6)"


def test_factors_and_negative_lengths() -> None:
    robot = md.load("two_link")

    def double(step: Step) -> Step:
        return replace(step, value=-2.0 * step.value, factor=-2.0) if step.symbol == "l1" else step

    joints = tuple(
        replace(joint, before=tuple(map(double, joint.before))) for joint in robot.joints
    )
    texts = [str(relation) for relation in relations(numeric_base(replace(robot, joints=joints)))]
    assert "ZZR1 = ZZ1 + 4 l1² M2" in texts
    assert "MXR1 = MX1 - 2 l1 M2" in texts


def test_a_coefficient_that_happens_to_be_zero_is_still_there() -> None:
    equal = with_lengths(md.load("puma560"), {"D3": 0.5, "R3": 0.2, "D4": 0.3, "R4": 0.3})
    base = numeric_base(equal)
    found = {relation.name: relation for relation in relations(base)}
    assert found["XXR3"].formula() == "XX3 - YY3 + YY4 + 2 R4 MZ4 + (R4² - D4²)(M4 + M5 + M6)"
    assert [term.value for term in found["XXR3"].terms[-3:]] == [0.0, 0.0, 0.0]


def test_lengths_that_coincide_keep_their_numbers() -> None:
    # with both lengths equal the last axis meets the first; a formula in their names would be wrong
    # for others
    robot = Robot.from_mdh("RRR", alpha=[0, 0, math.pi / 2], a=[0, 0.5, 0.5], gravity=(0, 0, 0))
    robot = replace(named(robot), symbols=(("L1", 0.5), ("L2", 0.5)))
    base = numeric_base(robot)
    found = symbolic_entries(base)
    for (row, column), polynomial in found.items():
        assert polynomial.value(dict(robot.symbols)) == pytest.approx(base.K[row, column])


def test_solved_loops_and_held_joints_keep_numbers() -> None:
    assert symbolic_entries(numeric_base(named(looped_arm(0, solved=True)))) == {}
    assert symbolic_entries(numeric_base(md.load("puma560"), joints=("joint2", "joint3"))) == {}
    assert symbolic_entries(numeric_base(md.load("ur10e"))) == {}


@pytest.mark.parametrize("seed", range(count(8, 200)))
def test_loops_with_given_functions_have_formulas(seed: int) -> None:
    """A parallelogram: sides that are opposite are one length, written by the name that comes
    first.
    """
    rng = np.random.default_rng((seed, 15))
    robot = named(looped_arm(seed))
    sides = {step.symbol: -step.value for step in robot.loops[0].steps_b} | {
        step.symbol: step.value for step in robot.loops[0].steps_a
    }
    first, second = (robot.joints[k].before[0].symbol for k in (3, 4))
    other = {name: float(value * rng.uniform(0.5, 2.0)) for name, value in robot.symbols}
    (a,), (b,) = robot.loops[0].steps_a, robot.loops[0].steps_b
    other |= {a.symbol: other[second], b.symbol: -other[first]}
    for model in ("torque", "energy") if seed % 4 == 0 else ("torque",):
        base = numeric_base(robot, "qr", model)
        number = check_polynomials(base, rng, other)
        changed = np.abs(
            numeric_base(with_lengths(robot, other), "qr", model).K - base.K
        ) > 1e-9 * (1.0 + np.abs(base.K))
        assert number >= np.count_nonzero(changed)
        used = {name for entry in symbolic_entries(base).values() for name in names_in(entry)}
        assert not used & sides.keys()
        assert {first, second} <= used


def names_in(entry: LengthPolynomial) -> set[str]:
    own = {name for _, product in entry.terms for name in product}
    return own if entry.divisor is None else own | names_in(entry.divisor)


def test_lengths_without_names_in_a_loop_follow_those_with_names() -> None:
    hpr = md.load("hpr")
    (loop,) = hpr.loops
    plain = tuple(replace(step, symbol="") for step in loop.steps_a)
    found = {
        r.name: str(r)
        for r in relations(numeric_base(replace(hpr, loops=(replace(loop, steps_a=plain),))))
    }
    assert found["XXR3"] == "XXR3 = XX3 - YY3 + XX4 - YY4 - D5² M5 - D6² (M6 + M7)"
    assert found["MXR3"] == "MXR3 = MX3 + (D5/D4) MX5 + D5 M5"


FOUR_SIDES = """
gravity = [0, -9.81, 0]
[symbols]
crank = 0.5
ground = 0.4
coupler = 0.4
rocker = 0.5
[[joint]]
name = "one"
[[joint]]
name = "two"
parent = 1
a = "crank"
[[joint]]
name = "three"
parent = 0
a = "ground"
[[joint]]
name = "tip"
parent = 3
alpha = "90 deg"
a = "rocker"
[[loop]]
name = "sides"
kind = "point"
a = { link = "link2", xyz = ["coupler", 0, 0] }
b = { link = "link3", xyz = ["rocker", 0, 0] }
functions = { two = "-q1", three = "q1" }
"""


def test_sides_of_a_loop_follow_each_other(tmp_path: Path) -> None:
    """Opposite sides are equal.

    The one that the file names last is written by the other, wherever it stands.
    """
    path = tmp_path / "sides.toml"
    path.write_text(FOUR_SIDES)
    base = md.base_parameters(md.load(path))
    (first,) = (str(relation) for relation in relations(base) if relation.name == "ZZR1")
    assert first == "ZZR1 = ZZ1 + crank² (M2 + M4) + ZZ3 + YY4"
    other = {"crank": 0.7, "ground": 0.3, "coupler": 0.3, "rocker": 0.7}
    assert check_polynomials(numeric_base(base.robot), np.random.default_rng(0), other) > 2
    path.write_text(
        FOUR_SIDES.replace("coupler = 0.4", "coupler = -0.4").replace('["coupler"', '["-coupler"')
    )
    assert [str(r) for r in relations(md.base_parameters(md.load(path)))] == [
        str(r) for r in relations(base)
    ]


FOLLOWER = """
[symbols]
L1 = 0.4
L2 = 0.3
[[joint]]
name = "crank"
[[joint]]
name = "rocker"
alpha = "90 deg"
a = "L1"
mimic = { formula = "atan2(sin(crank), 2 + cos(crank))" }
[[joint]]
name = "tip"
alpha = "90 deg"
a = "L2"
"""


def test_followers_by_formulas(tmp_path: Path) -> None:
    path = tmp_path / "follower.toml"
    path.write_text(FOLLOWER)
    robot = md.load(path)
    assert robot.formulas
    states = random_states(robot, units_of(robot), 5, 3)
    for model in MODELS:  # arrays of lengths go another way than compiled rows
        rows = model_rows(robot, model, states, NamedLengths({"L1": np.full((2, 1), 0.4)}), (2,))
        np.testing.assert_allclose(rows, [model_rows(robot, model, states)] * 2, atol=1e-12)
    base = numeric_base(robot)
    assert check_polynomials(base, np.random.default_rng(2)) > 3
    assert any("L1" in str(relation) for relation in relations(base))


def test_fractions_of_another_choice() -> None:
    """Masses kept in the place of first moments are divided by lengths."""
    base = md.base_parameters("puma560", order=("M4", "M3"))
    texts = {relation.name: str(relation) for relation in relations(base)}
    found = symbolic_entries(base)
    assert any(entry.divisor for entry in found.values())
    values = {"D3": 0.4, "R3": 0.3, "D4": 0.1, "R4": 0.5}
    other = md.base_parameters(with_lengths(base.robot, values), order=("M4", "M3"))
    assert other.kept == base.kept
    for place, entry in found.items():
        assert entry.value(values) == pytest.approx(other.K[place], rel=1e-8, abs=1e-9), texts
    changed = np.abs(other.K - base.K) > 1e-9 * (1.0 + np.abs(base.K))
    assert len(found) >= np.count_nonzero(changed)


def test_printed_fractions_are_read_back() -> None:
    base = md.base_parameters("hpr")
    texts = [str(relation) for relation in relations(base)]
    assert "MXR4 = MX4 - (D5/D4) MX5 + D6 (M6 + M7)" in texts
    assert md.equivalence(base, "\n".join(texts)).equivalent
    assert r"\mathrm{MX}_{4} - \frac{D_{5}}{D_{4}}\,\mathrm{MX}_{5}" in base.to_latex()
    ratio = LengthPolynomial(
        ((1.0, ("A", "A")), (-1.0, ("B",))), LengthPolynomial(((1.0, ("A",)), (2.0, ("B",))))
    )
    assert RelationTerm("M1", 1.0, ratio).coefficient == "(A² - B)/(A + 2 B)"
    assert (
        sum_text([RelationTerm(name, 1.0, ratio) for name in ("M1", "M2")])
        == "((A² - B)/(A + 2 B))(M1 + M2)"
    )


def test_relations_are_the_map() -> None:
    for name in ("puma560", "panda", "hpr", "stanford"):
        base = md.base_parameters(md.load(name))
        layout = base.robot.layout
        for row, relation in zip(base.matrix, relations(base)):
            values = np.zeros(len(layout))
            for term in relation.terms:
                values[layout.index(term.parameter)] = term.value
            np.testing.assert_array_equal(values, row)
        data = json.loads(json.dumps(relations_json(base)))
        assert [entry["name"] for entry in data] == list(base.names)


def test_relations_of_the_closed_form_rule() -> None:
    base = md.base_parameters(md.load("puma560"), "mlc")
    texts = {relation.name: relation.formula() for relation in relations(base)}
    assert (
        texts["U33_1"]
        == "ZZ1 + Ia1 + YY2 + YY3 + 2 R3 MZ3 + (D3² + R3²) M3 + (D3² + D4² + R3²)(M4 + M5 + M6)"
    )
    assert texts["U11_22_3"] == "XX3 - YY3 + YY4 + 2 R4 MZ4 + (R4² - D4²)(M4 + M5 + M6)"
    for row, relation in zip(base.matrix, relations(base)):
        assert sum(term.value for term in relation.terms) == pytest.approx(row.sum())


def test_numbers_are_clean() -> None:
    D = LengthPolynomial(((-1.0, ("D", "D")), (-2.0, ("D",))))
    both = LengthPolynomial(((1.0, ()), (-0.5, ("A", "B"))))
    terms = [
        RelationTerm("A1", 1.0),
        RelationTerm("B1", -1.0),
        RelationTerm("C1", 0.9999999999999999),
        RelationTerm("D1", -0.25),
        RelationTerm("E1", 0.25),
        RelationTerm("F1", -3.0, D),
        RelationTerm("G1", 3.0, LengthPolynomial(((1.0, ("D", "D")), (2.0, ("D",))))),
        RelationTerm("H1", 1e-7),
        RelationTerm("I1", 0.1, both),
    ]
    assert sum_text(terms) == (
        "A1 - B1 + C1 - 0.25 (D1 - E1) - (D² + 2 D)(F1 - G1) + 1e-07 H1 + (1 - 0.5 A B) I1"
    )
    assert [term.coefficient for term in terms[:4]] == ["1", "-1", "1", "-0.25"]
    assert terms[5].coefficient == "-(D² + 2 D)"
    assert RelationTerm("X", -1.0, LengthPolynomial(((-1.0, ("D",)),))).coefficient == "-D"
    assert sum_text([]) == "0"
    assert UNICODE.symbol("D3", 2) == "D3²"


def test_ascii() -> None:
    text = relations(numeric_base(md.load("puma560")))[0].ascii()
    assert text.isascii()
    assert "(D3^2 + R3^2) M3" in text


def balanced(text: str) -> bool:
    """Return whether unescaped braces match and every environment ends."""
    depth = 0
    for token in re.findall(r"\\.|[{}]", text, flags=re.DOTALL):
        depth += {"{": 1, "}": -1}.get(token, 0)
        if depth < 0:
            return False
    left, right = text.count(r"\left("), text.count(r"\right)")
    return depth == 0 and left == right and text.count(r"\begin{") == text.count(r"\end{")


def test_latex() -> None:
    text = numeric_base(md.load("puma560")).to_latex()
    assert balanced(text)
    assert text.isascii()
    assert (
        r"\mathrm{XXR}_{3} &= \mathrm{XX}_{3} - \mathrm{YY}_{3} + \mathrm{YY}_{4} + 2\,R_{4}\,\mathrm{MZ}_{4} + "  # noqa: E501
        r"\left(R_{4}^{2} - D_{4}^{2}\right)\left(M_{4} + M_{5} + M_{6}\right) \\" in text
    )
    assert text.count("&=") == 17
    assert r"Identified alone: $\mathrm{XY}_{2}$" in text
    nothing = numeric_base(md.load("two_link"), columns=("XX1",)).to_latex()
    assert "align" not in nothing  # an empty environment does not compile


def test_markdown() -> None:
    lines = numeric_base(md.load("puma560")).to_markdown().splitlines()
    rows = [line for line in lines if line.startswith("| ")]
    assert len(rows) == 41
    assert all(len(re.findall(r"(?<!\\)\|", row)) == 4 for row in rows)
    assert "| 2 | XXR2 | XX2 - YY2 - D3² (M3 + M4 + M5 + M6) |" in lines
    assert lines[2].startswith(
        "66 standard parameters = 40 base + 15 regrouped + 11 without effect"
    )


@pytest.mark.parametrize(
    "name", [*HOSTILE, "|", "$x$ \\input{/etc/passwd} % & # ^ ~", "<script>", "\x1b[2J", "[a](b)"]
)
def test_hostile_names(name: str) -> None:
    robot = md.load("two_link")

    def rename(step: Step) -> Step:
        return replace(step, symbol=name) if step.symbol == "l1" else step

    joints = tuple(
        replace(joint, before=tuple(map(rename, joint.before))) for joint in robot.joints
    )
    symbols = tuple((name if symbol == "l1" else symbol, value) for symbol, value in robot.symbols)
    base = numeric_base(replace(robot, name=name, joints=joints, symbols=symbols))
    latex = base.to_latex()
    assert balanced(latex)
    assert latex.isascii()
    assert not re.search(
        r"(?<!\\)[#$&%](?!=)",
        latex.split("\n", 1)[1]
        .replace("$M_", "")
        .replace(r"}$", "")
        .replace(r"$\mathrm", "")
        .replace(r"$\text", "")
        .replace("$q_", ""),
    ), latex
    assert r"\input{" not in latex
    markdown = base.to_markdown()
    rows = [line for line in markdown.splitlines() if line.startswith("| ")]
    assert len(rows) == 1 + base.rank
    assert all(len(re.findall(r"(?<!\\)\|", row)) == 4 for row in rows)
    assert "<script" not in markdown
    assert "\x1b" not in markdown + latex + explain(base)


def test_escape_latex() -> None:
    assert escape_latex(r"a_b\c{d}") == r"a\_b\textbackslash{}c\{d\}"
    assert escape_latex("é 関") == "e U+95A2"


def test_explain() -> None:
    text = explain(numeric_base(md.load("puma560")))
    assert "Separately identifiable (23): XY2, YZ2, MY2" in text
    assert "Only in these combinations (17):" in text
    assert "Without effect (11):" in text
    assert "  M1: the origin of link 'link1' does not move" in text
    tilted = explain(numeric_base(md.load("puma560").with_gravity((9.81, 0, 0)), model="energy"))
    assert "Without effect (8):" in tilted


def test_every_robot_has_symbols_and_a_legend() -> None:
    base = md.base_parameters(md.load("ur10"))
    assert str(base.relations()[1]) == "XXR2 = XX2 - YY2 - a3² (M3 + M4 + M5 + M6)"
    assert base.symbols["a3"] == -0.612
    for text in (base.to_markdown(), base.to_latex().replace("{", "").replace("}", "")):
        assert "-0.612" in text
    for name in ("iiwa14", "z1", "panda", "so101"):
        for relation in md.base_parameters(md.load(name).mdh().robot).relations():
            coefficients = [term.coefficient for term in relation.terms]
            assert not any(re.search(r"\d\.\d", text) for text in coefficients), relation


@pytest.mark.parametrize("seed", range(count(10, 200)))
def test_oblique_angles_have_symbols(seed: int) -> None:
    """Entries in lengths, sines and cosines are those of K, at the robot and at another one."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 6))
    joints = "".join(rng.choice(["R", "R", "P"], n))
    table = {
        "alpha": np.where(rng.random(n) < 0.5, 0.5 * math.pi, rng.normal(size=n)),
        "a": np.where(rng.random(n) < 0.3, 0.0, rng.normal(size=n)),
        "d": np.where(rng.random(n) < 0.3, 0.0, rng.normal(size=n)),
        "theta": np.where(rng.random(n) < 0.5, 0.0, rng.normal(size=n)),
    }
    base = md.base_parameters(md.Robot.from_mdh(joints, **table))
    named = named_lengths(base.robot, base.names, angles=True)
    values = angle_values(named.symbols)
    for k, relation in enumerate(base.relations()):
        for term in relation.terms:
            entry = base.matrix[k, base.robot.layout.index(term.parameter)]
            assert abs(term.value - entry) <= 1e-12 * max(1.0, abs(entry))
            if term.polynomial is not None:
                assert abs(term.polynomial.value(values) - entry) <= 1e-9 * max(1.0, abs(entry))
    read = md.equivalence(base, [str(relation) for relation in base.relations()], tolerance=1e-8)
    assert read.equivalent


def test_an_oblique_arm_by_hand() -> None:
    arm = md.Robot.from_mdh("RR", alpha=[0, 0.4], a=[0, 0.3], d=[0.0, 0.2])
    first = md.base_parameters(arm).relations()[0]
    assert str(first) == (
        "ZZR1 = ZZ1 + sin(alpha2)² YY2 + 2 d2 sin(alpha2)² MZ2 + (d2² sin(alpha2)² + a2²) M2"
    )
    latex = md.base_parameters(arm).to_latex()
    assert r"\sin^2\alpha_{2}" in latex
    other = md.formulas(arm, "relations", digits=10).latex()
    assert latex.split("align*}")[1] == other.split("align*}")[1]


@pytest.mark.parametrize("name", ["puma560", "scara", "hpr", "z1"])
@pytest.mark.parametrize("method", ["exact", "mlc"])
def test_both_doors_print_one_latex(name: str, method: str) -> None:
    robot = md.load(name)
    if method == "mlc" and robot.loops:
        return
    base = md.base_parameters(robot, method)
    rows = base.to_latex().split("align*}")[1]
    assert rows == md.formulas(robot, "relations", base=base, digits=10).latex().split("align*}")[1]


def test_a_regressor_of_ones_own_has_relations() -> None:
    own = md.base_parameters(np.array([[1.0, 2.0, 0.0], [0.0, 0.0, 3.0]]), method="qr")
    assert len(own.relations()) == own.rank == 2
    assert own.symbols == {}
