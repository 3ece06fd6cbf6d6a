"""The public door to base parameters: one function, a method and a model by name."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike

from minidyn.arrays import single_thread
from minidyn.base.base_map import BaseMap, Order, Question
from minidyn.base.check import checked
from minidyn.base.closed_form.structure import FOR
from minidyn.base.numeric.own_rows import OWN, OwnRegressor, own_regressor
from minidyn.base.tolerance import Answer, Solver, as_it_is, within_tolerance
from minidyn.errors import MinidynError, UnknownName, Unsupported
from minidyn.formats.load import as_robot
from minidyn.model.canonical import Canonical
from minidyn.model.geometry import TOLERANCE
from minidyn.model.loops import check_loops
from minidyn.model.robot import Robot
from minidyn.notices import Notice, warning

FEW_ROWS = warning(
    "base.few_rows",
    "A regressor of your own has as many base parameters as rows; more rows may show more.",
    "Give rows at more states: half as many again as columns, and some more.",
)
_OPTIONS = {
    "exact": (),
    "qr": ("scaling",),
    "svd": ("scaling",),
    "mlc": ("version",),
    "rules+qr": ("scaling",),
}
METHODS = tuple(_OPTIONS)


Rows = ArrayLike | Callable[[np.random.Generator], ArrayLike]
"""A regressor of one's own: a matrix (r, p), or a function that gives rows at a random state."""


def base_parameters(
    robot: Robot | str | os.PathLike[str] | Rows,
    method: str = "exact",
    model: str = "torque",
    *,
    seed: int = 0,
    joints: Sequence[str] | str | None = None,
    columns: Sequence[str] | str | None = None,
    order: Order | None = None,
    scaling: str | tuple[float, float] | None = None,
    version: str | None = None,
    for_: str | None = None,
    tolerance: float = TOLERANCE,
    names: Sequence[str] | None = None,
    measured: Iterable[str] | str | None = None,
    motion: Any = None,
    massless_known: bool = False,
) -> BaseMap:
    """Return the smallest set of parameters that a robot's motion can show.

    And how standard parameters make it up.

    Args:
        robot: A robot, the name of a built-in one or the path of a robot file; trees, mimic joints,
            loads and closed loops included. Or a regressor of your own: rows (r, p) that are linear
            in p parameters, or a function of a random generator that gives rows at a random state;
            then the answer is numeric ("qr" or "svd").
        method: "exact" (arithmetic modulo primes: no tolerance), "qr" or "svd" (the paper's, in
            floating point), "mlc" (closed-form rule for chains and trees: minimal linear
            combinations), or "rules+qr" (that rule first, then "qr" for what it cannot decide:
            loops, followers, coupled drives).
        model: What the set must determine: "torque" (torques of a motion), "gravity" (torques at
            rest), "inertia" (the inertia matrix), "energy" (differences of energy) or "zero_speed"
            (torques at zero speed, accelerations included: without friction the same as "torque").
        seed: Of the random states.
        joints: Names of the independent joints that move; None: all. The others are held in one
            general position, as if bolted; the torque that holds them is not observed.
        columns: Names of the parameters asked about, the others being known; None: all.
        order: Which parameters to keep where there is a choice: names, the most wanted first, or a
            sort key of columns; None: parameters of far links join those of links nearer the base.
        scaling: For "qr", "svd" and "rules+qr": "columns" (None: the same); "paper", the row-wise
            search for a small S; or weights (λ1, λ2) of the paper's J = λ1 ||W|| + λ2 S for that
            search.
        version: For "mlc", of the inertia constants: "1999" (None: the same) or "1992".
        for_: Deprecated: the old name of `model` for "mlc".
        tolerance: Axes that are parallel, perpendicular, intersecting or coaxial within this, rad
            and share of the robot's size, are exactly so: rounding to six digits is undone. A
            notice says where this changes the number of base parameters. 0: the geometry as
            written; so are robots with loops that are solved for or formulas.
        names: For a regressor of your own: names of its parameters; None: p1, p2, ...
        measured: Names or patterns of the independent joints whose torque is measured; None: all
            that move. Only rows of these count.
        motion: Positions, speeds and accelerations (q, dq, ddq), (N, n) each, or what has them (a
            prepared recording): the set that this motion shows, by "qr" or "svd", and its
            `condition`. None: what all motions show together.
        massless_known: Links whose ten parameters are zero in the robot's file are massless, and
            known: they are not counted. Otherwise a link in the middle of a chain of joints counts
            as any other.

    Example:
        Of a Panda whose second torque alone is measured, 42 of 43 base parameters show:

        >>> md.base_parameters("panda", measured="*2").rank
        42

    Raises:
        WrongArgument: No robot, name or path.
        UnknownName: A method, model, joint or parameter that does not exist, with near names.
        LoopError: A loop of the robot does not close.
        Unsupported: For "mlc", a robot or question that the rule does not cover; the message names
            the method to use.

    Implements: Gautier1991, base parameters of the three models.
    Implements: Lin1994 Theorem 1, for rows of any linear model.
    """
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise MinidynError(f"seed: expected a whole number from 0 on, got {seed!r}")
    if isinstance(robot, np.ndarray | list | tuple) or (
        callable(robot) and not isinstance(robot, type)
    ):
        of_robot: dict[str, tuple[object, object]] = {
            "model": (model, "torque"),
            "joints": (joints, None),
            "scaling": (scaling, None),
            "version": (version, None),
            "for_": (for_, None),
            "tolerance": (tolerance, TOLERANCE),
            "measured": (measured, None),
            "motion": (motion, None),
            "massless_known": (massless_known, False),
        }
        wrong = [name for name, (value, default) in of_robot.items() if value != default]
        return _of_rows(own_regressor(robot, names, seed), method, columns, order, wrong)
    if names is not None:
        raise MinidynError(
            "names: only for a regressor of your own; the parameters of a robot have names"
        )
    robot = as_robot(robot, free_base=True)
    if massless_known:
        columns = _with_mass(robot, columns)
    question = Question.of(robot, _model(model, for_), joints, columns, order, measured)
    if not isinstance(tolerance, int | float | np.floating) or not 0.0 <= tolerance < 0.1:
        raise MinidynError(
            "tolerance: expected a number from 0 to 0.1 (rad, and share of the size), got "
            f"{tolerance!r}"
        )
    if tolerance not in (0.0, TOLERANCE) and (
        question.robot.implicit_loops or question.robot.formulas
    ):
        raise Unsupported(
            "tolerance: loops that are solved for and joints that follow formulas close for the "
            "geometry as written only; leave tolerance out, or correct the robot file"
        )
    if method not in METHODS:
        raise UnknownName("method", method, METHODS)
    given = {"scaling": scaling, "version": version}
    options: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    for name in options:
        if name not in _OPTIONS[method]:
            has = ", ".join(_OPTIONS[method]) or "none"
            raise MinidynError(f"method {method!r} takes no option {name!r}; its options: {has}")
    if question.robot.loops:
        check_loops(question.robot)
    if question.robot.free_base:
        _check_free_base(question.robot, scaling)
    if method == "mlc" and (
        question != Question(question.robot, question.model) or question.model not in FOR
    ):
        raise Unsupported(
            "method 'mlc' answers for all joints and parameters, and for the models torque, "
            "gravity and inertia; "
            'for other questions use method="exact"'
        )
    if motion is not None:
        from minidyn.base.numeric.of_motion import motion_base, states_of

        states = states_of(question.robot, motion)
        if joints is not None:
            raise MinidynError("joints: not with motion; what does not move is not shown")
        if method not in ("exact", "qr", "svd"):
            raise Unsupported(f"method {method!r}: the set of a motion is numeric; use 'qr'")
        with single_thread():
            how = "qr" if method == "exact" else method
            return motion_base(question, states, how, float(tolerance))
    if method != "exact" or question.robot.formulas or question.robot.implicit_loops:
        # brings a BLAS of its own, which must be there to be limited; slow to import otherwise
        import scipy.linalg  # noqa: F401
    with single_thread():
        base = within_tolerance(question, tolerance, _solver(method, seed, options))
        return checked(replace(base, tolerance=float(tolerance)))


def _check_free_base(robot: Robot, scaling: str | tuple[float, float] | None) -> None:
    """Refuse what is not supported of a robot with a free base."""
    if robot.formulas:
        name = next(iter(robot.formulas))
        raise Unsupported(
            f"robot {robot.name!r} has a free base, and joint {name!r} follows a formula that is "
            "not linear: base parameters of both together are not supported yet"
        )
    if scaling not in (None, "columns"):
        raise Unsupported(
            f"scaling={scaling!r}: the search for well-scaled states does not know a free base "
            'yet; leave it out, or use method="exact", which needs no scaling'
        )


def _with_mass(robot: Robot, columns: Sequence[str] | str | None) -> Sequence[str] | None:
    """Return names of the parameters asked about without those of massless links."""
    asked = (columns,) if isinstance(columns, str) else columns
    massless = {
        name
        for part in robot.layout.links
        if not robot.parameters[part].any()
        for name in robot.layout.names[part]
    }
    if not massless:
        return asked
    return [name for name in asked or robot.layout.names if name not in massless]


def _solver(method: str, seed: int, options: dict[str, Any]) -> Solver:
    """Return how a method answers; each loads its own code, to start quickly."""
    if method == "exact":
        from minidyn.base.exact.by_twin import exact_answer
        from minidyn.base.exact.precise import precise_or_numeric_base

        def exact(question: Question, twin: Canonical | None) -> Answer:
            if question.robot.formulas or question.robot.implicit_loops:
                return Answer(precise_or_numeric_base(question, seed))
            return exact_answer(question, twin, seed)

        return exact
    if method == "mlc":
        from minidyn.base.closed_form.mlc import mlc_base

        return as_it_is(
            lambda asked: mlc_base(asked.robot, for_=asked.model, tolerance=0.0, **options)
        )
    if method == "rules+qr":
        from minidyn.base.numeric.rules_qr import rules_qr_base

        return as_it_is(lambda asked: rules_qr_base(asked, seed, **options))
    from minidyn.base.numeric.numeric import numeric_base

    return as_it_is(lambda asked: numeric_base(asked, method, seed, **options))


def _of_rows(
    own: OwnRegressor,
    method: str,
    columns: Sequence[str] | str | None,
    order: Order | None,
    needs_robot: Sequence[str],
) -> BaseMap:
    """Return the base parameters of rows; what needs a robot is refused by name."""
    if method not in ("exact", "qr", "svd"):
        why = (
            f"method {method!r} needs a robot"
            if method in METHODS
            else f"unknown method {method!r}"
        )
        raise Unsupported(f'{why}; for a regressor of your own use method="qr" or "svd"')
    if needs_robot:
        raise Unsupported(
            f"{', '.join(needs_robot)}: needs a robot; a regressor of your own has rows and names "
            "alone"
        )
    from minidyn.base.numeric.numeric import decide

    robot = cast("Robot", own)
    question = Question.of(robot, columns=columns, order=order)
    notices: list[Notice] = []
    used = (
        "qr" if method == "exact" else method
    )  # rows are floating point: there is nothing exact about them
    with single_thread():
        kept, regrouped, K, found = decide(own.observation, question.asked, used, notices)
    if len(own.W) == found.rank < len(found.columns):
        text = f"{len(own.W)} rows show {found.rank} base parameters; more rows may show more"
        notices.append(FEW_ROWS(text, rows=len(own.W), columns=len(found.columns)))
    return checked(
        replace(question.answer(used, kept, regrouped, K, found.gap, notices), model=OWN)
    )


def _model(model: str, for_: str | None) -> str:
    """Return the model asked for; names of old still count, with a warning."""
    if for_ is not None:
        if model not in ("torque", for_):
            raise MinidynError(
                f"give model= alone: for_={for_!r} is its old name, and model={model!r}"
            )
        model = for_
        warnings.warn(
            f'for_ is named model now: md.base_parameters(robot, model="{for_}")',
            DeprecationWarning,
            3,
        )
    if model == "static":
        text = (
            'model="static" is now model="zero_speed": torques at zero speed, with the base '
            'parameters of model="torque" (without friction); for torques at rest use '
            'model="gravity"'
        )
        warnings.warn(text, DeprecationWarning, 3)
        return "zero_speed"
    return model
