"""A friction term that the package does not have: one line for its column, one for its effect.

Robots and their files, simulation, generated code, the choice of terms and the report know it.
"""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import minidyn as md
from c_compiler import needs_gcc
from minidyn.dynamics.sources import source_name
from minidyn.errors import UnknownName
from minidyn.identification.terms.catalogue import EFFECTS, register
from minidyn.identification.terms.effect import Effect
from minidyn.model import drives
from minidyn.model.drives import FRICTION, NON_NEGATIVE, TERMS, Term, add_term

PLAIN = ("viscous", "coulomb", "offset")
LIMIT = 3.0  # rad/s, about which the planted drag bends


def _drag(m: drives.Motion) -> object:
    return m.odd(lambda v, s, size, ops: v * v * v / (LIMIT**2 + v * v), LIMIT)


@pytest.fixture
def drag() -> Iterator[str]:
    """A drag that grows with the cube of small speeds."""
    add_term("drag", Term("Zd", "v³ / (v_l² + v²)", "N m s/rad", True, 1.0, value=_drag))
    register(Effect("drag", ("drag",), "the drive drags beyond small speeds"))
    yield "drag"
    EFFECTS.pop("drag")
    term = TERMS.pop("drag")
    FRICTION.pop("drag")
    drives.BY_SYMBOL.pop(term.symbol)
    NON_NEGATIVE.discard(term.symbol)


def planted(term: str, size: float) -> md.Robot:
    """Return a two-link arm with friction, the drag of each joint of this size."""
    robot = md.load("two_link").with_drives(True, (*PLAIN, term), sign_width=0.02)
    sizes = {"Ia": 0.1, "Fv": 0.3, "Fc": 1.0, "Fo": 0.1, "Zd": size}
    values = robot.parameters.copy()
    for columns in robot.layout.drives:
        for column in columns:
            values[column.index] = sizes[column.symbol]
    return robot.with_parameters(values)


def log_of(robot: md.Robot, seed: int, noise: float = 0.01) -> md.Recording:
    """Return a log of a fast motion."""
    t, rng = np.arange(0.0, 20.0, 0.004), np.random.default_rng(seed)
    q, dq, ddq = md.trajectory.fourier(robot, seed=seed, speed=2.0)(t)
    tau = md.inverse_dynamics(robot, q, dq, ddq)
    tau = tau + noise * tau.std(axis=0) * rng.normal(size=tau.shape)
    return md.Recording(t, q, tau, joint_names=robot.joint_names)


def test_its_torque_is_that_of_its_formula(drag: str, tmp_path: Path) -> None:
    with_it, without = planted(drag, 2.0), planted(drag, 0.0)
    dq = np.array([0.7, -1.3])
    motion = np.array([0.2, 0.4]), dq, np.zeros(2)
    added = md.inverse_dynamics(with_it, *motion) - md.inverse_dynamics(without, *motion)
    np.testing.assert_allclose(added, 2.0 * dq**3 / (LIMIT**2 + dq**2), rtol=1e-9)
    md.save(with_it, tmp_path / "arm.toml")
    again = md.load(tmp_path / "arm.toml")
    np.testing.assert_allclose(
        md.inverse_dynamics(again, *motion), md.inverse_dynamics(with_it, *motion)
    )
    law = md.control.computed_torque(with_it, bandwidth=10)
    run = md.simulate(with_it, law, md.trajectory.fourier(with_it, seed=1), 0.5)
    assert np.isfinite(run.tau).all()


def test_it_is_chosen_where_it_is_and_shown(drag: str, tmp_path: Path) -> None:
    true = planted(drag, 2.0)
    described = md.load("two_link").with_drives(True)
    estimate = md.identify(described, log_of(true, 1))
    assert drag in estimate.record["friction"]
    assert any(row.candidate == drag and row.is_taken for row in estimate.selection)
    test = log_of(true, 2, 0.0)
    plain = md.identify(described, log_of(true, 1), friction=PLAIN)
    errors = [md.validate(model, test).relative_error for model in (estimate, plain)]
    assert errors[0] < 0.5 * errors[1]
    page = md.report(estimate, tmp_path / "r.html", code=False).read_text(encoding="utf-8")
    assert "the drive drags beyond small speeds" in page
    rest = md.identify(described, log_of(true, 1), forbid_terms=(drag,))
    assert drag not in rest.record["friction"]


@needs_gcc
def test_generated_code_has_it(drag: str, tmp_path: Path) -> None:
    robot = planted(drag, 2.0)
    kernel = md.compile(robot, "inverse_dynamics")
    (tmp_path / "f.c").write_text(kernel.source("c"), encoding="utf-8")
    command = ["gcc", "-O2", "-shared", "-fPIC", "f.c", "-o", "f.so", "-lm"]
    subprocess.run(command, cwd=tmp_path, check=True)
    run = getattr(ctypes.CDLL(str(tmp_path / "f.so")), source_name(robot, kernel.function))
    motion, torque = [np.array([0.2, 0.4]), np.array([0.7, -1.3]), np.zeros(2)], np.zeros(2)
    run(*(a.ctypes.data_as(ctypes.POINTER(ctypes.c_double)) for a in (*motion, torque)))
    np.testing.assert_allclose(torque, md.inverse_dynamics(robot, *motion), rtol=1e-9)


def test_a_name_that_is_taken_is_refused() -> None:
    with pytest.raises(UnknownName):
        add_term("coulomb", Term("Zc", "s(v)", "N m", True, value=lambda m: m.s))
    with pytest.raises(UnknownName):
        add_term("other", Term("Fc", "s(v)", "N m", True, value=lambda m: m.s))
