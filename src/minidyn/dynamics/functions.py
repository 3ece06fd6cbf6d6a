"""The robot's dynamics as plain functions of arrays: robot first, leading batch axes, `out=` where wanted.

q, dq, ddq and tau have shape (..., n) in the order of `robot.joint_names`: rad or m, and N m or N, joint side.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any

from numpy.typing import ArrayLike

from minidyn.arrays import Array
from minidyn.dynamics.implicit import implicit_call
from minidyn.dynamics.kernel import BaseColumns, check_parameters, function_of, require_own, require_robot
from minidyn.dynamics.needed import without_unknowns
from minidyn.dynamics.wanted import Chosen, regressor_form
from minidyn.graph.function import Function
from minidyn.model.robot import Robot


def inverse_dynamics(
    robot: Robot,
    q: ArrayLike,
    dq: ArrayLike,
    ddq: ArrayLike,
    parameters: ArrayLike | None = None,
    *,
    out: Array | None = None,
) -> Array:
    """Return the joint torques (..., n) of a motion: links, rotors and friction.

    Args:
        robot: The robot.
        q: Positions (..., n).
        dq: Speeds (..., n).
        ddq: Accelerations (..., n).
        parameters: Standard parameters (p,); None: the robot's own.
        out: Array (..., n) to write into.

    Implements: LuMeng1993 eq. (66)-(71).
    """
    result: Array = _call(robot, "inverse_dynamics", (q, dq, ddq), parameters, out)
    return result


def gravity_torque(
    robot: Robot, q: ArrayLike, parameters: ArrayLike | None = None, *, out: Array | None = None
) -> Array:
    """Return the torques (..., n) that hold the robot still against gravity, without friction."""
    result: Array = _call(robot, "gravity_torque", (q,), parameters, out)
    return result


def coriolis_matrix(
    robot: Robot,
    q: ArrayLike,
    dq: ArrayLike,
    parameters: ArrayLike | None = None,
    *,
    out: Array | None = None,
) -> Array:
    """Return C (..., n, n) from Christoffel symbols: C dq are the velocity torques and Ṁ - 2C is skew-symmetric."""
    result: Array = _call(robot, "coriolis_matrix", (q, dq), parameters, out)
    return result


def inertia_matrix(
    robot: Robot, q: ArrayLike, parameters: ArrayLike | None = None, *, out: Array | None = None
) -> Array:
    """Return the inertia matrix M (..., n, n), rotors included."""
    result: Array = _call(robot, "inertia_matrix", (q,), parameters, out)
    return result


def forward_dynamics(
    robot: Robot,
    q: ArrayLike,
    dq: ArrayLike,
    tau: ArrayLike,
    parameters: ArrayLike | None = None,
    *,
    out: Array | None = None,
) -> Array:
    """Return the accelerations (..., n) that torques tau (..., n) cause."""
    result: Array = _call(robot, "forward_dynamics", (q, dq, tau), parameters, out)
    return result


def regressor(
    robot: Robot,
    q: ArrayLike,
    dq: ArrayLike,
    ddq: ArrayLike,
    *,
    parametrization: str = "standard",
    form: str = "newton_euler",
    columns: Sequence[str] | None = None,
    out: Array | None = None,
) -> Array:
    """Return Y (..., n, p) with inverse_dynamics = Y @ parameters: ten columns a link, rotors, friction.

    Args:
        robot: The robot.
        q: Positions (..., n).
        dq: Speeds (..., n).
        ddq: Accelerations (..., n).
        parametrization: "standard", or "lumeng16" for sixteen parameters a link (mass, centre of mass and inertia about
            it); `minidyn.papers.lumeng16` has their names and values.
        form: "newton_euler" (recursive, quick) or "lagrange" (closed form); both give the same numbers.
        columns: Names of the columns that are wanted, in this order; None: all.
        out: Array to write into.

    Implements: Gautier1991 eq. (8); LuMeng1993 eq. (66)-(85) and (27)-(48).
    """
    what = "regressor"
    if parametrization != "standard" or form != "newton_euler":
        what = regressor_form(parametrization, form)
    result: Array = _call(robot, what, (q, dq, ddq), None, out, None if columns is None else Chosen(tuple(columns)))
    return result


def base_regressor(
    robot: Robot, base: BaseColumns, q: ArrayLike, dq: ArrayLike, ddq: ArrayLike, *, out: Array | None = None
) -> Array:
    """Return the regressor (..., n, b) of the base parameters of a map: inverse_dynamics = Y @ beta.

    A map for some joints, some parameters, gravity or inertia alone gives the columns of its own parameters; then
    Y @ beta is not the whole torque.
    """
    require_own(robot, base, "base_regressor")
    result: Array = _call(robot, "base_regressor", (q, dq, ddq), None, out, base=base)
    return result


def energy(
    robot: Robot,
    q: ArrayLike,
    dq: ArrayLike,
    parameters: ArrayLike | None = None,
    *,
    out: tuple[Array, Array] | None = None,
) -> tuple[Array, Array]:
    """Return (kinetic, potential) energy, each (...), J; rotors included, potential zero at the world's origin."""
    result: tuple[Array, Array] = _call(robot, "energy", (q, dq), parameters, out)
    return result


def energy_regressor(robot: Robot, q: ArrayLike, dq: ArrayLike, *, out: Array | None = None) -> Array:
    """Return h (..., p) with kinetic + potential energy = h @ parameters; friction columns are zero.

    Implements: Gautier1991 eq. (9)-(12).
    """
    result: Array = _call(robot, "energy_regressor", (q, dq), None, out)
    return result


def forward_kinematics(robot: Robot, q: ArrayLike, link: str | int | None = None, *, out: Array | None = None) -> Array:
    """Return the placement (..., 4, 4) in the world of a link or frame.

    Args:
        robot: The robot.
        q: Positions (..., n).
        link: Name of a link or of a frame merged into one, or the link's index; None: the last link.
        out: Array to write into.
    """
    result: Array = _call(robot, "forward_kinematics", (q,), None, out, link=link)
    return result


def jacobian(robot: Robot, q: ArrayLike, link: str | int | None = None, *, out: Array | None = None) -> Array:
    """Return the Jacobian (..., 6, n) of a link's or frame's origin: angular rows first, world axes."""
    result: Array = _call(robot, "jacobian", (q,), None, out, link=link)
    return result


_EAGER_SAMPLES = 200  # run this many samples of a function on NumPy before machine code pays
_LARGE = 8_000  # steps of a function from which compiling takes half a second and more
_CALL = 170  # samples that would take NumPy as long as starting its operations for one call
_SEEN: dict[str, int] = {}  # samples run on NumPy, by function
_READY: dict[int, dict[tuple[str, str | int | None], Callable[..., Any]]] = {}  # by the identity of living robots
_NOTHING: dict[tuple[str, str | int | None], Callable[..., Any]] = {}
_ENDS: dict[int, weakref.finalize[..., Robot]] = {}
_REMEMBERED = 256  # robots whose machine code is kept at hand
_COUNTED = 10_000  # functions whose samples are counted


def _call(
    robot: Robot,
    what: str,
    arrays: tuple[ArrayLike, ...],
    parameters: ArrayLike | None,
    out: Any,
    base: BaseColumns | None = None,
    link: str | int | None = None,
) -> Any:
    if parameters is None and base is None and (link is None or type(link) is str):
        ready = _READY.get(id(robot), _NOTHING).get((what, link))
        if ready is not None:
            return ready(*arrays, out=out)
    require_robot(robot, what)
    if robot.implicit_loops:
        return implicit_call(robot, what, arrays, parameters, out, base, link)
    if parameters is None:
        return _run(function_of(robot, what, base=base, link=link), arrays, out, robot if base is None else None, link)
    values = without_unknowns(robot, what, check_parameters(robot, parameters))
    return _run(function_of(robot, what, parameters="argument"), (*arrays, values), out)


def _run(
    function: Function,
    arrays: tuple[ArrayLike, ...],
    out: Any,
    robot: Robot | None = None,
    link: str | int | None = None,
) -> Any:
    """Run on NumPy the first few small calls of a function, on machine code from then on.

    Given the robot, the machine code is remembered for it, so that later calls find it at once.
    """
    from minidyn.graph.targets.native import compile_function, is_compiled
    from minidyn.graph.targets.native.arrays import take_argument

    large = len(function.tape) >= _LARGE
    patience = _patience(function) if large else _EAGER_SAMPLES
    seen = _SEEN.get(function.fingerprint, 0)
    if seen < patience and (not is_compiled(function) if large else out is None):
        real = [take_argument(value, argument, function.name) for value, argument in zip(arrays, function.arguments)]
        count = max(1, real[0].size // real[0].shape[-1])
        while len(_SEEN) >= _COUNTED:
            _SEEN.pop(next(iter(_SEEN)), None)
        _SEEN[function.fingerprint] = seen + (count + _CALL if large else max(count, _EAGER_SAMPLES // 10))
        if count < patience:
            return _on_numpy(function, real, out)
    native = compile_function(function)
    if robot is not None:
        if id(robot) not in _READY:
            while len(_READY) >= _REMEMBERED:
                _forget(next(iter(_READY)))
            _READY[id(robot)] = {}
            _ENDS[id(robot)] = weakref.finalize(robot, _forget, id(robot))
        _READY[id(robot)][function.name, link] = native.fast
    return native(*arrays, out=out)


def _forget(robot: int) -> None:
    _READY.pop(robot, None)
    end = _ENDS.pop(robot, None)
    if end is not None:
        end.detach()


def _patience(function: Function) -> int:
    """Return how many samples of a large function go through NumPy before it is compiled.

    A step costs about 6 ns a sample on NumPy and 75 µs to compile, more in larger functions: machine code pays when as
    much time has gone into NumPy as compiling takes.
    """
    return int(12_500 * (1.0 + len(function.tape) / 40_000))


def _on_numpy(function: Function, arrays: list[Array], out: Any) -> Any:
    from minidyn.graph.evaluate import evaluate_in_blocks
    from minidyn.graph.targets.native.arrays import check_out

    found = evaluate_in_blocks(function, *arrays)
    if out is None:
        return found
    parts = found if isinstance(found, tuple) else (found,)
    batch = parts[0].shape[: parts[0].ndim - len(function.results[0].shape)]
    targets = check_out(out, function.results, batch, function.name)
    for target, part in zip(targets, parts):
        target[...] = part
    return tuple(targets) if isinstance(out, list | tuple) or len(targets) != 1 else targets[0]
