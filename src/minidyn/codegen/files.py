"""Source files of a robot's functions, for other programs."""

from __future__ import annotations

from dataclasses import replace

from minidyn.dynamics.kernel import BaseColumns, function_of
from minidyn.dynamics.record import WHAT
from minidyn.dynamics.sources import PRINTERS, c_files, function_source, portable_llvm, source_name
from minidyn.errors import UnknownName, Unsupported
from minidyn.graph.function import Function
from minidyn.model.robot import Robot
from minidyn.text import safe_identifier

TARGETS = ("c", *PRINTERS, "llvm")
"""Languages that files are written in."""


def function_for(robot: Robot, what: str, parameters: str = "own", link: str | None = None) -> Function:
    """Return a function of a robot as it is to be printed.

    Parameters "own" bakes the robot's values in, "argument" makes them the function's last argument.
    """
    wanted = WHAT.get(what)
    if wanted is None:
        raise UnknownName("function", what, WHAT)
    if link is not None and not wanted.link:
        kinematic = " and ".join(name for name, other in WHAT.items() if other.link)
        raise Unsupported(f"--link is for {kinematic}; {what} is of the whole robot")
    base: BaseColumns | None = None
    if wanted.columns:
        from minidyn.base.base_parameters import base_parameters  # the other functions start without it

        base = base_parameters(robot)
    at_call = "argument" if parameters == "argument" and wanted.parameters else None
    function = function_of(robot, what, parameters=at_call, base=base, link=link)
    if link is None:
        return function
    return replace(function, name=safe_identifier(f"{what}_{link}"))  # several links may stand side by side


def code_files(robot: Robot, function: Function, target: str) -> dict[str, str]:
    """Return {file name: text} of a function in one of TARGETS; names are letters, digits and underscores alone."""
    if target not in TARGETS:
        raise UnknownName("target", target, TARGETS)
    if target == "c":
        return c_files(robot, function)
    name = source_name(robot, function)
    if target == "llvm":
        from minidyn.graph.targets.native.kernel import compile_function

        return {f"{name}.ll": portable_llvm(compile_function(function).llvm_ir)}
    return {name + PRINTERS[target][0]: function_source(robot, function, target)}
