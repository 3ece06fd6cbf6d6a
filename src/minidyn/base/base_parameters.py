"""The public door to base parameters: one function, a method and a model by name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from minidyn.arrays import single_thread
from minidyn.base.base_map import BaseMap
from minidyn.base.question import Order, Question
from minidyn.errors import MinidynError, UnknownName, Unsupported
from minidyn.model.robot import Robot

_OPTIONS = {
    "exact": (),
    "qr": ("scaling",),
    "svd": ("scaling",),
    "mlc": ("version", "for_"),
    "rules+qr": ("scaling",),
}
METHODS = tuple(_OPTIONS)


def base_parameters(
    robot: Robot,
    method: str = "exact",
    model: str = "torque",
    seed: int = 0,
    *,
    joints: Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
    order: Order | None = None,
    **options: Any,
) -> BaseMap:
    """Return the smallest set of parameters that a robot's motion can show, and how standard ones make it up.

    Args:
        robot: The robot; trees, mimic joints, loads and closed loops included.
        method: "exact" (arithmetic modulo primes: no tolerance), "qr" or "svd" (the paper's, in floating point),
            "mlc" (closed-form rule for chains and trees: minimal linear combinations), or "rules+qr" (that rule first,
            "qr" on what loops, followers and coupled drives leave open).
        model: "torque", "static" (zero speed) or "energy" (differences of energy).
        seed: Of the random states.
        joints: Names of the independent joints that move; None: all. The others are held in one general position, as
            if bolted, and what it takes to hold them is not observed.
        columns: Names of the parameters asked about, the others being known; None: all.
        order: Which parameters to keep where there is a choice: names, the most wanted first, or a sort key of
            columns; None: parameters of far links join those of links nearer the base.
        options: Of the method: scaling="paper" for "qr", "svd" and "rules+qr"; version="1999" or "1992" and
            for_="torque", "gravity" or "inertia" for "mlc".

    Raises:
        UnknownName: A method, model, joint or parameter that does not exist, with near names.
        LoopError: A loop of the robot does not close.
        Unsupported: For "mlc", a robot or question that the rule does not cover; the message names the method to use.

    Implements: Gautier1991, base parameters of the three models.
    """
    question = Question.of(robot, model, joints, columns, order)
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise MinidynError(f"seed: expected a whole number from 0 on, got {seed!r}")
    if method not in METHODS:
        raise UnknownName("method", method, METHODS)
    for name in options:
        if name not in _OPTIONS[method]:
            has = ", ".join(_OPTIONS[method]) or "none"
            raise MinidynError(f"method {method!r} takes no option {name!r}; its options: {has}")
    if robot.loops:
        from minidyn.model.loops import check_loops

        check_loops(robot)
    if method == "mlc":
        return _by_rule(question, **options)
    if method != "exact":
        import scipy.linalg  # noqa: F401  (brings a BLAS of its own, which must be there to be limited)
    with single_thread():
        return _by_arithmetic(question, method, seed, **options)


def _by_arithmetic(question: Question, method: str, seed: int, **options: Any) -> BaseMap:
    robot = question.robot
    if method == "exact":
        if robot.formulas or robot.implicit_loops:
            from minidyn.base.exact.precise import precise_base

            return precise_base(question, seed)
        from minidyn.base.exact.exact import exact_base

        return exact_base(question, seed)
    if method == "rules+qr":
        from minidyn.base.numeric.rules_qr import rules_qr_base

        return rules_qr_base(question, seed, **options)
    from minidyn.base.numeric.numeric import numeric_base

    return numeric_base(
        robot,
        method,
        question.model,
        seed,
        order=question.order,
        joints=question.joints,
        columns=question.columns,
        **options,
    )


def _by_rule(question: Question, **options: Any) -> BaseMap:
    from minidyn.base.closed_form.mlc import mlc_base

    asked = (question.joints, question.columns, question.order)
    if question.model != "torque" or any(part is not None for part in asked):
        raise Unsupported(
            "method 'mlc' answers for all joints and parameters, and for the torque model (or for_=\"gravity\", "
            'for_="inertia"); for other questions use method="exact"'
        )
    return mlc_base(question.robot, **options)
