"""What a set must determine.

Every method gives the same answer, and maps that do not suffice are refused.
"""

from __future__ import annotations

import numpy as np
import pytest
from base_robots import looped_arm, special_robot

import minidyn as md
from conftest import count
from minidyn.errors import MinidynError, NotEquivalent, Unsupported
from minidyn.model.robot import Robot

METHODS = ("exact", "qr", "svd", "rules+qr")


def rows_of(robot: Robot, model: str, seed: int) -> np.ndarray:
    """Rows of a model straight from the regressor's definition."""
    q, ddq = np.random.default_rng(seed).uniform(-1.0, 1.0, (2, 120, robot.n))
    rest = md.regressor(robot, q, 0 * q, 0 * q)
    Y = rest if model == "gravity" else md.regressor(robot, q, 0 * q, ddq) - rest
    friction = [column.index for column in robot.layout.columns if column.is_friction]
    Y[..., friction] = 0.0
    return Y.reshape(-1, Y.shape[-1])


@pytest.mark.parametrize("model", ["gravity", "inertia"])
def test_every_method_gives_the_set(model: str) -> None:
    for seed in range(count(16, 400)):
        robot = special_robot(seed)
        W = rows_of(robot, model, seed)
        phi = np.random.default_rng((seed, 1)).normal(size=len(robot.layout))
        ranks = set()
        for method in (*METHODS, "mlc"):
            base = md.base_parameters(robot, method, model)
            kept = W[:, list(robot.layout.indices(base.kept))]
            kept = kept if base.unmixing is None else kept @ base.unmixing
            assert np.abs(W @ phi - kept @ base.values(phi)).max() <= 1e-8 * max(
                1.0, np.abs(W @ phi).max()
            ), seed
            assert base.model == model
            ranks.add(base.rank)
        assert len(ranks) == 1, (seed, ranks)


@pytest.mark.parametrize("solved", [False, True])
def test_loops_have_sets_of_gravity_and_inertia(solved: bool) -> None:
    for seed in range(count(2, 12)):
        robot = looped_arm(seed, solved)
        for model in ("gravity", "inertia"):
            ranks = {md.base_parameters(robot, method, model).rank for method in METHODS}
            assert len(ranks) == 1, (seed, model, ranks)
            (rank,) = ranks
            assert rank > 0 or not robot.gravity.any()
            assert rank < md.base_parameters(robot).rank


def test_old_names_of_models() -> None:
    robot = md.load("puma560", rotor_inertia=False)
    with pytest.warns(DeprecationWarning, match="for_ is named model now"):
        old = md.base_parameters(robot, "mlc", for_="gravity")
    assert old.kept == md.base_parameters(robot, "mlc", "gravity").kept
    with pytest.warns(DeprecationWarning, match=r'for torques at rest use model="gravity"'):
        old = md.base_parameters(robot, model="static")
    assert old.model == "zero_speed"
    assert old.kept == md.base_parameters(robot).kept
    with pytest.raises(MinidynError, match="old name"):
        md.base_parameters(robot, "mlc", "inertia", for_="gravity")
    with pytest.raises(Unsupported, match="torque, gravity and inertia"):
        md.base_parameters(robot, "mlc", "energy")


# ---------------------------------------------------------------- what a map determines


def test_a_map_knows_what_it_lacks() -> None:
    robot = md.load("puma560")
    for model, can in (
        ("torque", {"torque", "gravity", "inertia", "energy"}),
        ("gravity", {"gravity"}),
        ("inertia", {"inertia"}),
        ("energy", {"torque", "gravity", "inertia", "energy"}),
    ):
        base = md.base_parameters(robot, model=model)
        assert {
            need for need in ("torque", "gravity", "inertia", "energy") if not base.lacks(need)
        } == can, model
    assert "joint2" in md.base_parameters(robot, joints=("joint2",)).lacks("gravity")
    assert "some parameters" in md.base_parameters(robot, columns=("M3", "MX3")).lacks("gravity")
    rubbing = robot.with_drives(friction=("viscous",))
    assert "friction" in md.base_parameters(rubbing, model="energy").lacks("torque")


def test_functions_refuse_maps_that_do_not_suffice() -> None:
    robot = md.load("puma560")
    q, dq, tau = np.random.default_rng(0).normal(size=(3, robot.n))
    gravity, inertia = (md.base_parameters(robot, model=model) for model in ("gravity", "inertia"))
    for base in (gravity, inertia):
        beta = base.values()
        with pytest.raises(NotEquivalent, match=rf"torques: it is for model '{base.model}' only"):
            md.base_regressor(robot, q, dq, tau, base=base)
        with pytest.raises(NotEquivalent, match="torques"):
            md.papers.forward_dynamics_by_regressor(robot, q, dq, tau, beta, base=base)
        with pytest.raises(NotEquivalent, match="torques"):
            md.compile(robot, "base_regressor", base=base)
        with pytest.raises(NotEquivalent, match="torques"):
            md.slotine_li_regressor(robot, q, dq, dq, tau, base=base)
    t = np.arange(80) * 0.01
    motion = np.sin(t[:, None] * np.arange(1.0, robot.n + 1))
    log = md.Recording(t, motion, motion, dq=motion, ddq=motion, joint_names=robot.joint_names)
    with pytest.raises(
        NotEquivalent, match="identify: this base map does not determine the torques"
    ):
        md.identify(robot, log, base=gravity)
    with pytest.raises(NotEquivalent, match="inertia matrix"):
        md.papers.inertia_matrix_by_regressor(robot, q, gravity.values(), base=gravity)
    M = md.papers.inertia_matrix_by_regressor(robot, q, inertia.values(), base=inertia)
    np.testing.assert_allclose(M, md.inertia_matrix(robot, q), rtol=1e-9, atol=1e-12)
    # torques of poses are what a map of gravity determines
    still = np.zeros(robot.n)
    torque = md.base_regressor(robot, q, still, still, base=gravity) @ gravity.values()
    np.testing.assert_allclose(torque, md.gravity_torque(robot, q), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("method", ["exact", "mlc"])
def test_compiled_dynamics_read_base_parameters_alone(method: str) -> None:
    robot = md.load("puma4")
    base = md.base_parameters(robot, method)
    rng = np.random.default_rng(2)
    beta = rng.normal(size=base.rank)
    phi = base.lift(beta, rng.normal(size=len(base.regrouped)))
    q, dq, ddq = rng.normal(size=(3, 4, robot.n))
    arrays = {
        "inertia_matrix": (q,),
        "gravity_torque": (q,),
        "coriolis_matrix": (q, dq),
        "inverse_dynamics": (q, dq, ddq),
        "forward_dynamics": (q, dq, ddq),
    }
    for what, given in arrays.items():
        expected = getattr(md, what)(robot, *given, parameters=phi)
        open_ = md.compile(robot, what, base=base, parameters="argument")
        assert open_.function.arguments[-1].size == base.rank
        np.testing.assert_allclose(
            open_(*given, beta), expected, rtol=1e-8, atol=1e-8 * np.abs(expected).max()
        )
        baked = md.compile(robot, what, base=base, parameters=beta)
        np.testing.assert_allclose(
            baked(*given), expected, rtol=1e-8, atol=1e-8 * np.abs(expected).max()
        )
        own = md.compile(robot, what, base=base)
        np.testing.assert_allclose(
            own(*given), getattr(md, what)(robot, *given), rtol=1e-8, atol=1e-9
        )
    with pytest.raises(NotEquivalent, match="inertia matrix"):
        md.compile(robot, "inertia_matrix", base=md.base_parameters(robot, model="gravity"))
    with pytest.raises(MinidynError, match="takes no base"):
        md.compile(robot, "forward_kinematics", base=base)
