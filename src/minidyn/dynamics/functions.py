"""The robot's dynamics as plain functions of arrays.

Robot first, leading batch axes, `out=` where wanted. q, dq, ddq and tau have shape (..., n) in the
order of `robot.joint_names`: rad or m, and N m or N, joint side.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from minidyn.arrays import Array
from minidyn.dynamics.drives import Shapes, drive_columns, has_load, on_drives, with_inertias
from minidyn.dynamics.group import check_quaternions
from minidyn.dynamics.implicit import implicit_call
from minidyn.dynamics.kernel import (
    READY,
    BaseColumns,
    Chosen,
    regressor_form,
    require_own,
    require_robot,
    run,
    run_function,
)
from minidyn.dynamics.loads import drive_loads
from minidyn.dynamics.newton_euler import rigid_regressor
from minidyn.dynamics.record import build
from minidyn.dynamics.tree import REAL, coordinates, measured_rows, place
from minidyn.errors import Unsupported
from minidyn.graph.derivative import tangents
from minidyn.graph.scalar import Graph
from minidyn.model.drives import Drive
from minidyn.model.robot import Robot


def inverse_dynamics(
    robot: Robot,
    q: ArrayLike,
    dq: ArrayLike,
    ddq: ArrayLike,
    parameters: ArrayLike | None = None,
    *,
    memory: ArrayLike | None = None,
) -> Array:
    """Return the joint torques (..., n) of a motion: links, rotors and friction.

    Drives that remember have states, which :func:`minidyn.drive_states` computes along a motion:
    `memory` (..., m). None: they slide steadily, as long after a reversal or a rest.

    Implements: LuMeng1993 eq. (66)-(71).
    """
    return call(robot, "inverse_dynamics", (q, dq, ddq), parameters, None, memory=memory)


def gravity_torque(robot: Robot, q: ArrayLike, parameters: ArrayLike | None = None) -> Array:
    """Return the torques (..., n) that hold the robot still against gravity, without friction."""
    return call(robot, "gravity_torque", (q,), parameters, None)


def coriolis_matrix(
    robot: Robot, q: ArrayLike, dq: ArrayLike, parameters: ArrayLike | None = None
) -> Array:
    """Return C (..., n, n) from Christoffel symbols.

    C dq are the velocity torques and Ṁ - 2C is skew-symmetric.
    """
    return call(robot, "coriolis_matrix", (q, dq), parameters, None)


def inertia_matrix(robot: Robot, q: ArrayLike, parameters: ArrayLike | None = None) -> Array:
    """Return the inertia matrix M (..., n, n), rotors included."""
    return call(robot, "inertia_matrix", (q,), parameters, None)


def forward_dynamics(
    robot: Robot,
    q: ArrayLike,
    dq: ArrayLike,
    tau: ArrayLike,
    parameters: ArrayLike | None = None,
    *,
    memory: ArrayLike | None = None,
    out: Array | None = None,
) -> Array:
    """Return the accelerations (..., n) that torques tau (..., n) cause.

    Memory as for :func:`inverse_dynamics`.
    """
    return call(robot, "forward_dynamics", (q, dq, tau), parameters, out, memory=memory)


def inverse_dynamics_derivatives(
    robot: Robot,
    q: ArrayLike,
    dq: ArrayLike,
    ddq: ArrayLike,
    parameters: ArrayLike | None = None,
    *,
    memory: ArrayLike | None = None,
    out: tuple[Array, Array, Array] | None = None,
) -> tuple[Array, Array, Array]:
    """Return the derivatives (..., n, n) of the joint torques by q, dq and ddq.

    The third is the inertia matrix; friction that grows with the load adds to it. Friction that
    reverses at once, sign(dq), has derivative 0: what remains is its smooth part. Give joints a
    `sign_width` where a slope at standstill is wanted. What drives remember is held still.

    Args:
        robot: The robot.
        q: Positions (..., n), rad or m.
        dq: Speeds (..., n).
        ddq: Accelerations (..., n).
        parameters: Standard parameters (p,); None: the robot's own.
        memory: As for :func:`inverse_dynamics`.
        out: Three arrays (..., n, n) to write into.

    Example:
        >>> import minidyn as md
        >>> robot = md.load("scara")
        >>> by_q, by_dq, M = md.inverse_dynamics_derivatives(robot, [0.1] * 4, [1.0] * 4, [0.0] * 4)
        >>> M.shape
        (4, 4)
    """
    arrays = q, dq, ddq
    found = call(robot, "inverse_dynamics_derivatives", arrays, parameters, out, memory=memory)
    return cast("tuple[Array, Array, Array]", found)


def forward_dynamics_derivatives(
    robot: Robot,
    q: ArrayLike,
    dq: ArrayLike,
    tau: ArrayLike,
    parameters: ArrayLike | None = None,
    *,
    memory: ArrayLike | None = None,
    out: tuple[Array, Array, Array] | None = None,
) -> tuple[Array, Array, Array]:
    """Return the derivatives (..., n, n) of the accelerations by q, dq and tau.

    The third is the inverse of the inertia matrix where friction does not grow with the load. Dry
    friction, parameters, memory and out as for :func:`inverse_dynamics_derivatives`.

    Example:
        >>> import minidyn as md
        >>> robot = md.load("scara")
        >>> by_q, by_dq, inverse = md.forward_dynamics_derivatives(robot, *[[0.1] * 4] * 3)
        >>> bool(abs(inverse @ md.inertia_matrix(robot, [0.1] * 4)).max() < 1 + 1e-9)
        True
    """
    arrays = q, dq, tau
    found = call(robot, "forward_dynamics_derivatives", arrays, parameters, out, memory=memory)
    return cast("tuple[Array, Array, Array]", found)


def linearize(
    robot: Robot,
    q: ArrayLike,
    dq: ArrayLike,
    tau: ArrayLike,
    parameters: ArrayLike | None = None,
    *,
    memory: ArrayLike | None = None,
) -> tuple[Array, Array]:
    """Return (A, B) with d/dt (δq, δdq) = A (δq, δdq) + B δtau about states and torques.

    A (..., 2n, 2n) and B (..., 2n, n) of continuous time. Dry friction as in
    :func:`inverse_dynamics_derivatives`.

    Args:
        robot: The robot.
        q: Positions (..., n), rad or m.
        dq: Speeds (..., n).
        tau: Torques (..., n), N m or N; `md.gravity_torque(robot, q)` holds the robot still.
        parameters: Standard parameters (p,); None: the robot's own.
        memory: As for :func:`inverse_dynamics`.

    Example:
        >>> import minidyn as md
        >>> robot = md.load("two_link")
        >>> A, B = md.linearize(robot, [0.5, 0.5], [0.0, 0.0], md.gravity_torque(robot, [0.5, 0.5]))
        >>> A.shape, B.shape
        ((4, 4), (4, 2))
    """
    by_q, by_dq, by_tau = forward_dynamics_derivatives(robot, q, dq, tau, parameters, memory=memory)
    n, batch = robot.n, by_q.shape[:-2]
    A, B = np.zeros((*batch, 2 * n, 2 * n)), np.zeros((*batch, 2 * n, n))
    A[..., :n, n:] = np.eye(n)
    A[..., n:, :n], A[..., n:, n:], B[..., n:, :] = by_q, by_dq, by_tau
    return A, B


def regressor(
    robot: Robot,
    q: ArrayLike,
    dq: ArrayLike,
    ddq: ArrayLike,
    *,
    parametrization: str = "standard",
    form: str = "newton_euler",
    columns: Sequence[str] | None = None,
    memory: ArrayLike | None = None,
    out: Array | None = None,
) -> Array:
    """Return Y (..., n, p) with inverse_dynamics = Y @ parameters.

    Ten columns a link, rotors, friction.

    Args:
        robot: The robot.
        q: Positions (..., n).
        dq: Speeds (..., n).
        ddq: Accelerations (..., n).
        parametrization: "standard", or "lumeng16" for sixteen parameters a link (mass, centre of
            mass and inertia about it); `minidyn.papers.lumeng16` has their names and values.
        form: "newton_euler" (recursive, quick) or "lagrange" (closed form); both give the same
            numbers.
        columns: Names of the columns that are wanted, in this order; None: all.
        memory: As for :func:`inverse_dynamics`.
        out: Array to write into.

    Implements: Gautier1991 eq. (8); LuMeng1993 eq. (66)-(85) and (27)-(48).
    """
    what = "regressor"
    if parametrization != "standard" or form != "newton_euler":
        what = regressor_form(parametrization, form)
    base = None if columns is None else Chosen(tuple(columns))
    return call(robot, what, (q, dq, ddq), None, out, base, memory=memory)


def base_regressor(
    robot: Robot,
    q: ArrayLike,
    dq: ArrayLike,
    ddq: ArrayLike,
    *old: ArrayLike,
    base: BaseColumns | None = None,
    memory: ArrayLike | None = None,
    out: Array | None = None,
) -> Array:
    """Return the regressor (..., n, b) of the base parameters of a map.

    inverse_dynamics = Y @ beta. A map for some joints, some parameters, gravity or inertia alone
    gives the columns of its own parameters; then Y @ beta is not the whole torque.

    Args:
        robot: The robot.
        q: Positions (..., n).
        dq: Speeds (..., n).
        ddq: Accelerations (..., n).
        *old: Not to be used: base was the second argument once.
        base: The result of `md.base_parameters(robot)`; it must be given.
        memory: As for :func:`inverse_dynamics`.
        out: Array (..., n, b) to write into.
    """
    if old:
        positional_base("base_regressor(robot, q, dq, ddq, base=base)", old, base)
        base, q, dq, ddq = q, dq, ddq, old[0]  # type: ignore[assignment]
    # a map of gravity determines the torques of poses
    at_rest = getattr(base, "model", "") == "gravity" and not (np.any(dq) or np.any(ddq))
    require_own(robot, base, "base_regressor", "gravity" if at_rest else "torque")
    return call(robot, "base_regressor", (q, dq, ddq), None, out, base=base, memory=memory)


def positional_base(new: str, old: tuple[object, ...], base: object) -> None:
    """Warn that a map was given by position.

    Raise where there are more arguments than that explains.
    """
    if len(old) > 1 or base is not None:
        raise TypeError(f"too many arguments; expected md.{new}")
    warnings.warn(
        f"the base map is given by keyword now: md.{new}", DeprecationWarning, stacklevel=3
    )


def energy(
    robot: Robot,
    q: ArrayLike,
    dq: ArrayLike,
    parameters: ArrayLike | None = None,
    *,
    out: tuple[Array, Array] | None = None,
) -> tuple[Array, Array]:
    """Return (kinetic, potential) energy, each (...), J.

    Rotors included, potential zero at the world's origin.
    """
    return cast("tuple[Array, Array]", call(robot, "energy", (q, dq), parameters, out))


def energy_regressor(
    robot: Robot, q: ArrayLike, dq: ArrayLike, *, out: Array | None = None
) -> Array:
    """Return h (..., p) with kinetic + potential energy = h @ parameters.

    Friction columns are zero.

    Implements: Gautier1991 eq. (9)-(12).
    """
    return call(robot, "energy_regressor", (q, dq), None, out)


def centroidal_momentum_matrix(
    robot: Robot, q: ArrayLike, parameters: ArrayLike | None = None, *, out: Array | None = None
) -> Array:
    """Return A (..., 6, n): A dq is the momentum of all links, about their centre of mass.

    Linear rows first, kg m/s, then angular ones, kg m²/s, world axes. A fixed base does not count,
    nor does the inertia of rotors.

    Args:
        robot: The robot.
        q: Positions (..., nq).
        parameters: Standard parameters (p,); None: the robot's own.
        out: Array to write into.

    Example:
        >>> import minidyn as md
        >>> robot = md.load("two_link").with_free_base()
        >>> md.compile(robot.with_parameters([1.0] * 30), "centroidal_momentum_matrix").arguments
        ('q',)
    """
    return call(robot, "centroidal_momentum_matrix", (q,), parameters, out)


def forward_kinematics(
    robot: Robot, q: ArrayLike, link: str | int | None = None, *, out: Array | None = None
) -> Array:
    """Return the placement (..., 4, 4) in the world of a link or frame.

    Args:
        robot: The robot.
        q: Positions (..., n).
        link: Name of a link or of a frame merged into one, or the link's index; None: the last
            link.
        out: Array to write into.
    """
    return call(robot, "forward_kinematics", (q,), None, out, link=link)


def jacobian(
    robot: Robot, q: ArrayLike, link: str | int | None = None, *, out: Array | None = None
) -> Array:
    """Return the Jacobian (..., 6, n) of a link's or frame's origin.

    Angular rows first, world axes.
    """
    return call(robot, "jacobian", (q,), None, out, link=link)


def frame_motion(
    robot: Robot, q: ArrayLike, dq: ArrayLike, ddq: ArrayLike, link: str | None, position: Array
) -> tuple[Array, Array, Array]:
    """Return acceleration less gravity, angular speed and acceleration (N, 3) of a point of a link,
    in its own axes.
    """
    require_robot(robot, "the motion of a frame")
    graph = Graph()
    x, dx, ddx = (list(graph.inputs(name, robot.n)) for name in ("q", "dq", "ddq"))
    T = build(robot, "forward_kinematics", {"q": x}, link=link)
    R = [T[i][k] for i in range(3) for k in range(3)]
    point = [T[i][3] + sum((T[i][k] * float(position[k]) for k in range(3)), 0.0) for i in range(3)]
    first = tangents([*R, *point], dict(zip(x, dx)))
    second = tangents(first, dict(zip([*x, *dx], [*dx, *ddx])))

    def own(values: Any, i: int, k: int) -> Any:  # entry of Rᵀ times the derivative of R
        return sum((T[row][i] * values[3 * row + k] for row in range(3)), 0.0)

    omega = [own(first, 2, 1), own(first, 0, 2), own(first, 1, 0)]
    alpha = [0.5 * (own(second, i, k) - own(second, k, i)) for i, k in ((2, 1), (0, 2), (1, 0))]
    rise = [second[9 + row] - float(robot.gravity[row]) for row in range(3)]
    a = [sum((T[row][k] * rise[row] for row in range(3)), 0.0) for k in range(3)]
    function = graph.function("frame_motion", {"a": a, "omega": omega, "alpha": alpha})
    found = run_function(function, (q, dq, ddq), None)
    return tuple(np.asarray(part) for part in found)  # type: ignore[return-value]


_NOTHING: dict[tuple[str, str | int | None], Callable[..., Any]] = {}


def call(
    robot: Robot,
    what: str,
    arrays: tuple[ArrayLike, ...],
    parameters: ArrayLike | None,
    out: Any,
    base: BaseColumns | None = None,
    link: str | int | None = None,
    memory: ArrayLike | None = None,
) -> Array:
    """Compute one of the robot's functions; the public functions say what and in which form."""
    if (
        parameters is None
        and base is None
        and memory is None
        and (link is None or type(link) is str)
    ):
        ready = READY.get(id(robot), _NOTHING).get((what, link))
        if ready is not None:
            return ready(*arrays) if out is None else ready(*arrays, out=out)  # type: ignore[no-any-return]
    require_robot(robot, what, free_base=True)
    if robot.free_base:
        check_quaternions(robot, what, arrays[0])
    if robot.implicit_loops:
        if memory is not None:
            raise Unsupported(
                f"robot {robot.name!r}: its loops are solved numerically; drives cannot remember "
                "there"
            )
        return implicit_call(robot, what, arrays, parameters, out, base, link)  # type: ignore[no-any-return]
    return run(robot, what, arrays, parameters, out, base, link, memory)  # type: ignore[no-any-return]


# Links and drives apart. While friction is chosen, a robot has many drives: other terms, smoothing
# widths and travels, each a function of its own to a compiler. What links need depends on none of
# them: it is compiled once, and drives, a few columns, are computed by NumPy. Robots whose joints
# follow formulas or implicit loops are computed whole.


def links_alone(robot: Robot) -> Robot:
    """Return the robot without drives: its parameters (10 links,) are those of the links."""
    return robot.with_joints(lambda joint: replace(joint, drive=Drive()))


def inertias_of_links(robot: Robot, q: Array, parameters: Array) -> Array:
    """Return the inertia matrix (N, n, n) of the links alone for the robot's parameters (p,)."""
    return inertia_matrix(links_alone(robot), q, _of_links(robot, parameters))


def gravity_of_links(robot: Robot, q: Array, parameters: Array) -> Array:
    """Return the torques (N, n) that hold the links still for the robot's parameters (p,)."""
    return gravity_torque(links_alone(robot), q, _of_links(robot, parameters))


def torques_of_links(
    robot: Robot,
    motion: tuple[Array, Array, Array],
    parameters: Array,
    gravity: tuple[float, float, float] | None = None,
) -> Array:
    """Return the torques (N, n) of a motion by the links alone, in another gravity where given."""
    links = links_alone(robot)
    links = links if gravity is None else replace(links, gravity=np.array(gravity))
    return inverse_dynamics(links, *motion, _of_links(robot, parameters))


def regressor_by_parts(robot: Robot, q: Array, dq: Array, ddq: Array) -> Array:
    """Return the regressor (N, n, p) of a motion; drives slide steadily."""
    if _is_whole(robot):
        return regressor(robot, q, dq, ddq)
    Y = np.zeros((len(q), robot.n, len(robot.layout)))
    Y[..., _places(robot)] = regressor(links_alone(robot), q, dq, ddq)
    for index, torques in _drives(robot, q, dq, ddq, None):
        for row, torque in enumerate(torques):
            Y[:, row, index] = torque
    return Y


def regressors_by_gravity(
    robot: Robot, q: Array, dq: Array, ddq: Array
) -> tuple[Array, Array, NDArray[np.intp]]:
    """Return the parts of a regressor that is linear in gravity, for robots without formulas.

    The regressor without gravity (N, n, p), drives sliding steadily; what one m/s² of gravity along
    x, y and z of the base's frame adds to columns of first moments and masses (3, N, n, c), and the
    places of these columns (c,) among all. Nothing is compiled: a recursion over arrays.
    """
    c = coordinates(robot, *(list(np.asarray(values, dtype=float).T) for values in (q, dq, ddq)))
    tree, still = place(robot, c.q, REAL), [0.0] * len(robot.joints)
    moving = rigid_regressor(replace(tree, gravity=tree.zeros), c.dq, c.ddq)
    resting = rigid_regressor(replace(tree, gravity=list(np.eye(3)[..., None])), still, still)
    places = np.array([part.start + k for part in robot.layout.links for k in range(6, 10)])
    Y = np.zeros((len(q), robot.n, len(robot.layout)))
    pulls = np.zeros((3, len(q), robot.n, len(places)))
    for link, part in enumerate(robot.layout.links):
        for joint, entries in moving[link].items():
            for row, ratio in c.G[joint].items():
                for k, entry in enumerate(entries):
                    Y[:, row, part.start + k] += ratio * entry
                for k, entry in enumerate(resting[link][joint][6:]):
                    pulls[:, :, row, 4 * link + k] += ratio * entry
    for index, torques in _drives(robot, q, dq, ddq, None):
        for row, torque in enumerate(torques):
            Y[:, row, index] = torque
    return Y, pulls, places


def torques_by_parts(
    robots: Sequence[Robot], q: Array, dq: Array, ddq: Array, memory: Array | None = None
) -> list[Array]:
    """Return the torques (N, n) of a motion for robots that differ in their drives alone.

    Memory (N, m) as elsewhere. Parameters are those of each robot; those of the links are the same
    for all.
    """
    first = robots[0]
    if _is_whole(first):
        return [inverse_dynamics(robot, q, dq, ddq, memory=memory) for robot in robots]
    links = inverse_dynamics(links_alone(first), q, dq, ddq, _of_links(first, first.parameters))
    found = []
    for robot in robots:
        tau = links.copy()
        for index, torques in _drives(robot, q, dq, ddq, memory):
            for row, torque in enumerate(torques):
                tau[:, row] += robot.parameters[index] * torque
        found.append(tau)
    return found


def loads_of_motion(robot: Robot, q: Array, dq: Array, ddq: Array, parameters: Array) -> Array:
    """Return what each drive carries along a motion, as (N, joints), N m or N, whether or not its
    friction grows so.

    No joint has a formula.
    """
    c = coordinates(robot, *(list(np.asarray(values, dtype=float).T) for values in (q, dq, ddq)))
    if len(robot.independent) < len(robot.joints):
        ten = [list(parameters[part]) for part in robot.layout.links]
        found = drive_loads(robot, place(robot, c.q, REAL), c, ten, parameters.tolist())
    else:
        links = inverse_dynamics(links_alone(robot), q, dq, ddq, _of_links(robot, parameters))
        found = on_drives(robot, with_inertias(robot, c, list(links.T), parameters.tolist()))
    return np.stack([np.broadcast_to(load, len(q)) for load in found], axis=1)


def _is_whole(robot: Robot) -> bool:
    return bool(robot.implicit_loops or robot.formulas)


def _places(robot: Robot) -> list[int]:
    """Return where parameters of links stand."""
    return [place for part in robot.layout.links for place in range(part.start, part.stop)]


def _of_links(robot: Robot, parameters: Array) -> Array:
    return np.asarray(parameters)[_places(robot)]


def _drives(
    robot: Robot, q: Array, dq: Array, ddq: Array, memory: Array | None
) -> Iterator[tuple[int, Sequence[Any]]]:
    """Yield for each drive parameter its place, and what a value of 1 adds to each joint's torque.

    (N,), or zero.
    """
    c = coordinates(robot, *(list(np.asarray(values, dtype=float).T) for values in (q, dq, ddq)))
    loads = (
        list(loads_of_motion(robot, q, dq, ddq, robot.parameters).T) if has_load(robot) else None
    )
    states = None if memory is None else list(memory.T)
    for column in drive_columns(robot, c.dq, c.ddq, Shapes(robot, c.q, loads, states)):
        torque: list[Any] = [0.0] * len(robot.joints)
        for joint, ratio in column.ratios.items():
            torque[joint] = ratio * column.value
        yield column.index, measured_rows(robot, c.project(torque))
