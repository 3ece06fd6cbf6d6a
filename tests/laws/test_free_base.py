"""Robots with a free base: what they are, and the laws of their functions and base parameters."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import minidyn as md
from free_base_cases import carried_body, some_state, walker
from minidyn.model.assemble import LooseJoint, LooseLink, assemble
from minidyn.model.robot import BASE_ROWS, Robot

Array = NDArray[np.float64]


def expected_rank(robot: Robot) -> int:
    """Return 10 of the base, 7 of each link that turns, 4 of each that slides, and all drives."""
    drives = sum(len(columns) for columns in robot.layout.drives)
    return 10 + drives + sum(7 if joint.turns else 4 for joint in robot.joints[1:])


@pytest.mark.parametrize(("legs", "joints", "rank"), [(1, 1, 17), (1, 3, 31), (4, 3, 94)])
def test_counts_of_legged_bodies(legs: int, joints: int, rank: int) -> None:
    """As three slides and three turns before the body give, the links between them known."""
    carried = carried_body(legs, joints)
    whole = assemble(
        "walker",
        [LooseLink(link.name, "", link.parameters) for link in carried.links[5:]],
        [
            LooseJoint(
                joint.name,
                "",
                joint.kind,
                carried.link_names[joint.parent],
                name,
                joint.before,
                joint.motion,
            )
            for joint, name in zip(carried.joints[6:], carried.link_names[6:])
        ],
    ).with_free_base()
    for method in ("exact", "qr", "svd", "mlc"):
        assert md.base_parameters(whole, method).rank == rank, method
    assert md.base_parameters(carried, massless_known=True).rank == rank


@pytest.mark.parametrize("seed", range(60))
def test_all_methods_find_the_set_of_the_rule(seed: int) -> None:
    robot = walker(seed)
    exact = md.base_parameters(robot)
    assert exact.rank == expected_rank(robot)
    assert not [notice for notice in exact.notices if notice.level != "info"]
    q, dq, ddq = some_state(robot, 12, seed)
    Y = md.regressor(robot, q, dq, ddq)
    tau = md.inverse_dynamics(robot, q, dq, ddq)
    for method in ("exact", "qr", "svd", "mlc"):
        base = md.base_parameters(robot, method)
        assert base.check.relations < 1e-11
        if method != "mlc":
            assert base.kept == exact.kept
        beta = base.values()
        own = md.base_regressor(robot, q, dq, ddq, base=base)
        size = np.abs(tau).max()
        assert np.abs(own @ beta - tau).max() < 1e-11 * size
        assert np.abs(Y @ base.lift(beta) - tau).max() < 1e-11 * size
        md.equivalence(exact, base)


@pytest.mark.parametrize("seed", range(60))
def test_laws_of_the_functions(seed: int) -> None:
    """M, C and g make up tau; Ṁ - 2C is skew-symmetric along the motion; power is energy's rate."""
    robot = walker(seed).with_drives(friction=())
    (q,), (dq,), (ddq,) = some_state(robot, 1, seed)
    tau = md.inverse_dynamics(robot, q, dq, ddq)
    M, C = md.inertia_matrix(robot, q), md.coriolis_matrix(robot, q, dq)
    g = md.gravity_torque(robot, q)
    size = np.abs(tau).max()
    reference = np.random.default_rng(seed).normal(size=robot.n)
    Y = md.slotine_li_regressor(robot.with_drives(False, ()), q, dq, reference, ddq)
    links = [k for part in robot.layout.links for k in range(part.start, part.stop)]
    rigid = robot.with_drives(False, ())
    expected = md.inertia_matrix(rigid, q) @ ddq + C @ reference + g
    assert np.abs(Y @ robot.parameters[links] - expected).max() < 1e-12 * size
    assert np.abs(M @ ddq + C @ dq + g - tau).max() < 1e-12 * size
    assert np.array_equal(M, M.T)
    assert np.linalg.eigvalsh(M)[0] > 0.0
    assert (
        np.abs(
            md.inverse_dynamics(robot, q, dq, md.forward_dynamics(robot, q, dq, tau)) - tau
        ).max()
        < 1e-10 * size
    )
    assert sum(md.energy(robot, q, dq)) == pytest.approx(
        md.energy_regressor(robot, q, dq) @ robot.parameters, rel=1e-12
    )
    h = 1e-5
    ahead, behind = (md.integrate(robot, q, step * dq) for step in (h, -h))
    rate = (md.inertia_matrix(robot, ahead) - md.inertia_matrix(robot, behind)) / (2 * h)
    skew = rate - 2.0 * C
    assert np.abs(skew + skew.T).max() < 1e-7 * np.abs(C).max()
    after = sum(md.energy(robot, ahead, dq + h * ddq))
    before = sum(md.energy(robot, behind, dq - h * ddq))
    assert (after - before) / (2 * h) == pytest.approx(float(tau @ dq), rel=1e-6, abs=1e-7 * size)


@pytest.mark.parametrize("seed", range(40))
def test_jacobians_are_what_placements_do(seed: int) -> None:
    robot = walker(seed)
    (q,), (dq,), _ = some_state(robot, 1, seed)
    link = robot.link_names[-1]
    J = md.jacobian(robot, q, link)
    h = 1e-6
    ahead, behind = (
        md.forward_kinematics(robot, md.integrate(robot, q, step * dq), link) for step in (h, -h)
    )
    rate = (ahead - behind) / (2 * h)
    spin = rate[:3, :3] @ md.forward_kinematics(robot, q, link)[:3, :3].T
    omega = np.array([spin[2, 1], spin[0, 2], spin[1, 0]])
    assert np.allclose(J @ dq, [*omega, *rate[:3, 3]], atol=1e-8)


def test_a_quaternion_that_is_none_is_refused() -> None:
    robot = walker(1)
    (q,), (dq,), (ddq,) = some_state(robot, 1)
    wrong = q.copy()
    wrong[3:7] *= 1.1
    with pytest.raises(md.MinidynError, match=r"q\[3:7\].*norm 1.1.*x, y, z, w"):
        md.inverse_dynamics(robot, wrong, dq, ddq)
    with pytest.raises(md.MinidynError, match=r"expected shape .*position of the base"):
        md.inverse_dynamics(robot, q[1:], dq, ddq)
    nearly = q.copy()
    nearly[3:7] *= 1.0001  # rounded: it turns all the same
    assert np.allclose(
        md.inverse_dynamics(robot, nearly, dq, ddq), md.inverse_dynamics(robot, q, dq, ddq)
    )


def test_where_the_base_stands_in_the_world_acts_on_nothing_but_gravity() -> None:
    robot = walker(3)
    q, dq, ddq = some_state(robot, 2)
    q[1] = q[0]
    q[1, :3] += 5.0
    dq[1], ddq[1] = dq[0], ddq[0]
    tau = md.inverse_dynamics(robot, q, dq, ddq)
    assert np.array_equal(tau[0], tau[1])
    weightless = robot.with_gravity((0, 0, 0))
    turned = q.copy()
    turned[:, 3:7] = (0.0, 0.0, 0.0, 1.0)
    assert np.allclose(
        md.inverse_dynamics(weightless, turned, dq, ddq),
        md.inverse_dynamics(weightless, q, dq, ddq),
    )


def test_a_free_base_needs_the_base_body() -> None:
    robot = md.load("ur10", free_base=True)
    assert robot.n == 12
    assert robot.nq == 13
    assert robot.joint_names[:6] == tuple(
        f"root_joint.{row}" for row in ("vx", "vy", "vz", "wx", "wy", "wz")
    )
    assert robot.with_free_base() is robot
    (q,), (dq,), (ddq,) = some_state(robot, 1)
    with pytest.raises(md.MinidynError, match=r"XX1"):
        md.inverse_dynamics(robot, q, dq, ddq)
    assert md.base_parameters(robot).rank == expected_rank(robot)


URDF = """<robot name="hopper">
  <link name="world"/>
  <joint name="root" type="floating"><parent link="world"/><child link="trunk"/></joint>
  <link name="trunk"><inertial><origin xyz="0.1 0 0"/><mass value="3"/>
    <inertia ixx="1" ixy="0.1" ixz="0" iyy="2" iyz="0" izz="2"/></inertial></link>
  <joint name="hip" type="revolute"><origin xyz="0.2 0.1 0" rpy="0.1 0.2 0.3"/>
    <parent link="trunk"/><child link="leg"/><axis xyz="0 1 0"/>
    <limit lower="-1" upper="1" velocity="2" effort="3"/></joint>
  <link name="leg"><inertial><origin xyz="0 0 -0.2"/><mass value="1"/>
    <inertia ixx="0.1" ixy="0" ixz="0" iyy="0.1" iyz="0" izz="0.02"/></inertial></link>
</robot>"""

MJCF = """<mujoco model="hopper"><worldbody>
  <body name="trunk" pos="0 0 1"><freejoint name="root"/>
    <inertial pos="0.1 0 0" mass="3" fullinertia="1 2 2 0.1 0 0"/>
    <body name="leg" pos="0.2 0.1 0" quat="0.98334744 0.0342708 0.1060205 0.1435722">
      <joint name="hip" axis="0 1 0" range="-1 1" limited="true" actuatorfrcrange="-3 3"
             actuatorfrclimited="true"/>
      <inertial pos="0 0 -0.2" mass="1" fullinertia="0.1 0.1 0.02 0 0 0"/>
    </body></body></worldbody><compiler angle="radian"/></mujoco>"""

TOML = """
[[joint]]
name = "root"
type = "floating"
child = "trunk"
[[joint]]
name = "hip"
parent = "trunk"
child = "leg"
xyz = [0.2, 0.1, 0]
rpy = [0.1, 0.2, 0.3]
axis = [0, 1, 0]
[[link]]
name = "trunk"
mass = 3.0
com = [0.1, 0, 0]
inertia = [1, 0.1, 0, 2, 0, 2]
[[link]]
name = "leg"
mass = 1.0
com = [0, 0, -0.2]
inertia = [0.1, 0, 0, 0.1, 0, 0.02]
"""


@pytest.mark.parametrize(("text", "name"), [(URDF, "r.urdf"), (MJCF, "r.xml"), (TOML, "r.toml")])
def test_formats_say_it_alike(text: str, name: str, tmp_path: Path) -> None:
    """And a URDF without the joint, loaded with a free base, is the same robot."""
    (tmp_path / name).write_text(text)
    robot = md.load(tmp_path / name)
    assert robot.joint_names == (*(f"root.{row}" for row in BASE_ROWS), "hip")
    assert robot.links[0].mass == 3.0
    assert md.load(tmp_path / name, free_base=True) == robot
    fixed = URDF.replace('<link name="world"/>', "").replace(URDF.splitlines()[2], "")
    (tmp_path / "fixed.urdf").write_text(fixed)
    other = md.load(tmp_path / "fixed.urdf", free_base=True)
    q, dq, ddq = some_state(robot, 3)
    expected = md.inverse_dynamics(other, q, dq, ddq)
    given = md.inverse_dynamics(robot, q, dq, ddq)
    np.testing.assert_allclose(given, expected, rtol=1e-6, atol=1e-6)
    for ending in ("toml", "urdf", "xml"):
        md.save(robot, tmp_path / f"saved.{ending}")
        again = md.load(tmp_path / f"saved.{ending}")
        np.testing.assert_allclose(
            md.inverse_dynamics(again, q, dq, ddq),
            md.inverse_dynamics(robot, q, dq, ddq),
            rtol=1e-12,
        )
        assert again.joint_names == robot.joint_names
    assert md.load(tmp_path / "saved.toml") == robot


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            ('parent link="world"/><child link="trunk"', 'parent link="trunk"/><child link="foot"'),
            "no parent joint|floating",
        ),
        (
            ('<joint name="hip" type="revolute">', '<joint name="hip" type="floating">'),
            r"r.urdf:6: joint 'hip' is floating; only a free base",
        ),
        (
            ('<parent link="trunk"/><child link="leg"', '<parent link="world"/><child link="leg"'),
            "floating; only a free base is supported",
        ),
    ],
)
def test_other_floating_joints_are_refused(
    change: tuple[str, str], message: str, tmp_path: Path
) -> None:
    text = URDF.replace(*change).replace("</robot>", '<link name="foot"/></robot>')
    (tmp_path / "r.urdf").write_text(text)
    with pytest.raises(md.MinidynError, match=message):
        md.load(tmp_path / "r.urdf")


def test_locking_and_freeing_may_be_done_in_any_order(tmp_path: Path) -> None:
    """What a locked joint leaves on the base is part of the base that is freed."""
    text = URDF.replace('<link name="world"/>', "").replace(URDF.splitlines()[2], "")
    text = text.replace(
        "</robot>",
        """<joint name="knee" type="revolute"><origin xyz="0 0 -0.4"/><parent link="leg"/>
        <child link="shank"/><axis xyz="1 0 0"/></joint><link name="shank"><inertial>
        <mass value="0.5"/><inertia ixx="0.1" ixy="0" ixz="0" iyy="0.1" iyz="0" izz="0.1"/>
        </inertial></link></robot>""",
    )
    (tmp_path / "r.urdf").write_text(text)
    robot = md.load(tmp_path / "r.urdf")
    one, two = robot.with_free_base().locked({"hip": 0.3}), robot.locked({"hip": 0.3})
    np.testing.assert_allclose(one.parameters, two.with_free_base().parameters, atol=1e-15)


def test_joints_of_a_free_robot_are_locked_as_others_are() -> None:
    robot = walker(7, drives=False)
    name = robot.joints[1].name
    locked = robot.locked({name: 0.4})
    assert locked.free_base
    assert locked.n == robot.n - 1
    q, dq, ddq = some_state(robot, 2)
    column = robot.joint_names.index(name)
    q[:, column + 1], dq[:, column], ddq[:, column] = 0.4, 0.0, 0.0
    tau = md.inverse_dynamics(robot, q, dq, ddq)
    less = (np.delete(part, column + place, axis=1) for part, place in ((q, 1), (dq, 0), (ddq, 0)))
    np.testing.assert_allclose(
        md.inverse_dynamics(locked, *less), np.delete(tau, column, axis=1), rtol=1e-9, atol=1e-9
    )
    assert robot.reduced([name]).joint_names == (*robot.joint_names[:6], name)
    with pytest.raises(md.MinidynError, match="lock: joint"):
        robot.locked({robot.joint_names[0]: 0.0})


def test_a_thrown_body_keeps_what_it_must() -> None:
    """Momentum about the centre of mass and energy stay; the centre of mass falls.

    Halving the step makes the error sixteen times smaller: the method is of fourth order.
    """
    robot = walker(5, drives=False)
    (q,), (dq,), _ = some_state(robot, 1, 5)
    drift = []
    for dt in (2e-3, 1e-3):
        log = md.simulate(robot, None, None, 0.5, dt=dt, q0=q, dq0=0.5 * dq)
        energy = sum(md.energy(robot, log.q, log.dq))
        drift.append(float(np.abs(energy - energy[0]).max()))
        A = md.centroidal_momentum_matrix(robot, log.q)
        momentum = np.einsum("eij,ej->ei", A, log.dq)
        mass = sum(link.mass for link in robot.links)
        fallen = momentum[0, :3] + mass * np.outer(log.t, robot.gravity)
        scale = np.abs(momentum).max()
        assert np.abs(momentum[:, :3] - fallen).max() < 1e-6 * scale
        assert np.abs(momentum[:, 3:] - momentum[0, 3:]).max() < 1e-6 * scale
        assert np.abs(np.linalg.norm(log.q[:, 3:7], axis=1) - 1.0).max() < 1e-14
    assert 8.0 < drift[0] / drift[1] < 32.0


def test_torques_and_pushes_act_as_inverse_dynamics_says(tmp_path: Path) -> None:
    robot = walker(2)

    def torque(t: float, q: Array, dq: Array) -> Array:
        return np.array([np.sin(3 * t)] * robot.n) - 0.1 * dq

    push = md.Push(0.05, 0.02, (0.0, 0.0, 4.0), robot.link_names[0])
    log = md.simulate(robot, torque, None, 0.1, push=push)
    tau = md.inverse_dynamics(robot, log.q, log.dq, log.ddq)
    rest = tau - log.tau
    pushed = (log.t >= 0.05 - 1e-9) & (log.t < 0.07 - 1e-9)
    assert np.abs(rest[~pushed]).max() < 1e-8
    J = md.jacobian(robot, log.q[pushed], robot.link_names[0])
    assert np.abs(rest[pushed] - 4.0 * J[:, 5]).max() < 1e-8
    assert len(log[10:20].q) == 10
    with pytest.raises(md.MinidynError, match=r"numpy.savez keeps"):
        log.save(tmp_path / "log.npz")
    noisy = md.simulate(robot, torque, None, 0.01, noise=1e-3, velocity_noise=1e-3, seed=1)
    assert np.abs(np.linalg.norm(noisy.q[:, 3:7], axis=1) - 1.0).max() < 1e-14
    with pytest.raises(md.MinidynError, match=r"free base.*not supported yet: trajectory, delay"):
        md.simulate(robot, torque, md.trajectory.hold(np.zeros(3)), 0.1, delay=0.01)


@pytest.mark.parametrize(
    "what",
    [
        "inverse_dynamics",
        "forward_dynamics",
        "inertia_matrix",
        "coriolis_matrix",
        "regressor",
        "centroidal_momentum_matrix",
        "energy",
        "jacobian",
    ],
)
def test_every_target_computes_the_same(what: str, tmp_path: Path) -> None:
    robot = walker(11)
    kernel = md.compile(robot, what)
    q, dq, ddq = some_state(robot, 3)
    given = (q, dq, ddq)[: len(kernel.arguments)]
    expected = kernel(*given)
    again = getattr(md, what)(robot, *given)
    scope: dict[str, Any] = {}
    exec(kernel.source("python"), scope)  # noqa: S102
    of_python = scope[what](*given)
    for one, other, text in zip(*map(as_list, (expected, again, of_python))):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(one, text, rtol=1e-12, atol=1e-12)
    assert "define" in kernel.source("llvm")
    assert "__global__" in kernel.source("cuda")
    assert "jnp" in kernel.source("jax")


def as_list(result: Any) -> list[Array]:
    return list(result) if isinstance(result, tuple) else [result]


LOG = md.Recording(np.arange(50) * 0.01, np.zeros((50, 8)), np.zeros((50, 8)))
REFUSED: dict[str, Callable[[Robot], object]] = {
    "check": lambda robot: md.check(robot, LOG),
    "prepare": lambda robot: md.prepare(robot, LOG),
    "cross_validate": lambda robot: md.cross_validate(robot, LOG),
    "filtered_regressor": lambda robot: md.filtered_regressor(robot, LOG, 5.0),
    "online": lambda robot: md.online(robot),
    "excite": lambda robot: md.excite(robot, 5.0),
    "one_joint_plan": lambda robot: md.one_joint_plan(robot),
    "actuators": lambda robot: md.identify_actuators(robot, LOG),
    "pd_gravity": lambda robot: md.control.pd_gravity(robot, gain=1.0, bandwidth=1.0),
    "computed_torque": lambda robot: md.control.computed_torque(robot, bandwidth=1.0),
    "slotine_li": lambda robot: md.control.slotine_li(
        robot, bandwidth=1.0, gain=1.0, adaptation=1.0
    ),
    "momentum_observer": lambda robot: md.control.momentum_observer(robot),
    "fourier": lambda robot: md.trajectory.fourier(robot),
    "simulate_batch": lambda robot: md.simulate_batch(
        robot, None, None, 0.1, q0=np.zeros((2, robot.nq))
    ),
    "formulas": lambda robot: md.formulas(robot, "inverse_dynamics"),
    "regressor_formulas": lambda robot: md.regressor_formulas(robot),
    "lagrange": lambda robot: md.regressor(robot, *some_state(robot, 1), form="lagrange"),
    "lumeng16": lambda robot: md.regressor(
        robot, *some_state(robot, 1), parametrization="lumeng16"
    ),
    "momentum_regressor": lambda robot: md.compile(robot, "momentum_regressor"),
    "by the regressor": lambda robot: md.papers.inertia_matrix_by_regressor(
        robot, some_state(robot, 1)[0]
    ),
    "operation_count": lambda robot: md.papers.operation_count(robot, "inverse_dynamics"),
    "inertia_constants": lambda robot: md.papers.inertia_constants(robot),
    "formulation": lambda robot: md.inertia_matrix(robot, some_state(robot, 1)[0], formulation=1),
    "mounted": lambda robot: robot.mounted((0.1, 0.0, 0.0)),
    "C": lambda robot: md.save(robot, "nowhere.c"),
    "load": lambda robot: md.inverse_dynamics(
        robot.with_drives(friction=["coulomb", "load"]), *some_state(robot, 1)
    ),
    "paper's scaling": lambda robot: md.base_parameters(robot, "qr", scaling="paper"),
    "rule of gravity": lambda robot: md.base_parameters(robot, "mlc", "gravity"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_does_not_know_a_free_base_says_so(what: str) -> None:
    with pytest.raises(md.MinidynError, match="free base"):
        REFUSED[what](md.load("two_link", free_base=True))


def test_robots_with_a_fixed_base_do_the_same_operations_as_before() -> None:
    """Quaternions leave no trace in their programs."""
    counts = md.compile(md.load("ur10"), "regressor").counts
    assert counts["div"] == 0
    robot = md.load("ur10")
    q, dq, _ = np.random.default_rng(0).normal(size=(3, 6))
    assert np.array_equal(md.integrate(robot, q, dq), q + dq)
    A = md.centroidal_momentum_matrix(
        robot.with_parameters(np.arange(1.0, 1 + len(robot.layout))), q
    )
    assert A.shape == (6, 6)


def test_an_mjcf_free_joint_with_a_drive_is_refused(tmp_path: Path) -> None:
    (tmp_path / "r.xml").write_text(
        MJCF.replace('<freejoint name="root"/>', '<joint name="root" type="free" damping="1"/>')
    )
    with pytest.raises(md.MinidynError, match="joint 'root' is free and has damping"):
        md.load(tmp_path / "r.xml")
