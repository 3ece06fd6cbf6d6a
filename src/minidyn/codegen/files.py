"""Robots to files.

`md.save`, source code of their functions, a whole model in C with its parameters baked in. Formats
have words for some drive terms only. `said` is the robot that a program computes with which reads
nothing but the file; `lost` names what it has no words for.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from minidyn.dynamics.drives import drive_ratios, memory_columns
from minidyn.dynamics.kernel import BaseColumns, function_of
from minidyn.dynamics.record import WHAT
from minidyn.dynamics.sources import (
    PRINTERS,
    c_files,
    function_source,
    memory_notes,
    notes_of,
    source_name,
)
from minidyn.dynamics.tree import coordinates
from minidyn.errors import (
    DescriptionError,
    MinidynError,
    UnknownName,
    UnknownParameters,
    Unsupported,
    WrongArgument,
)
from minidyn.files import write_atomically
from minidyn.formats.load import as_robot
from minidyn.formats.toml.write import toml_text
from minidyn.graph.function import Function, safe_identifier
from minidyn.graph.targets.c import FINITE
from minidyn.model.drives import BREAKAWAY, BY_SYMBOL, FRICTION, PRESLIDING, REST_TIME, ROTOR
from minidyn.model.geometry import TOLERANCE
from minidyn.model.joint import Joint
from minidyn.model.robot import Robot, require_fixed_base
from minidyn.notices import Notice, warning
from minidyn.text import safe_comment

TARGETS = ("c", *PRINTERS, "llvm")
"""Languages that files are written in."""


REMEMBERING = ("inverse_dynamics", "forward_dynamics", "regressor", "base_regressor")
"""Functions that take the states of drives that remember as an argument."""


def function_for(
    robot: Robot,
    what: str,
    parameters: str | None = None,
    link: str | None = None,
    base: bool = False,
    formulation: int | None = None,
    tolerance: float = TOLERANCE,
) -> Function:
    """Return a function of a robot as it is to be printed.

    Parameters "own" bakes the robot's values in, "argument" makes them the function's last
    argument; None: "own", or "argument" with `base`. With `base`, or a formulation of the inertia
    matrix, base parameters are all that is read, by the cheapest program known, the one that
    `md.papers.operation_count` counts; axes that are special within the tolerance are exactly so,
    as in `md.base_parameters`. States of drives that remember are an argument of
    REMEMBERING functions; programs that read base parameters take steady sliding.
    """
    wanted = WHAT.get(what)
    if wanted is None:
        raise UnknownName("function", what, WHAT)
    if link is not None and not wanted.link:
        kinematic = " and ".join(name for name, other in WHAT.items() if other.link)
        raise Unsupported(f"--link is for {kinematic}; {what} is of the whole robot")
    columns: BaseColumns | None = None
    if base or formulation is not None:
        return _minimal(robot, what, parameters or "argument", formulation, tolerance)
    if wanted.columns:
        from minidyn.base.base_parameters import (
            base_parameters,
        )  # the other functions start without it

        columns = base_parameters(robot, tolerance=tolerance)
    at_call = "argument" if parameters == "argument" and wanted.parameters else None
    function = function_of(
        robot, what, parameters=at_call, base=columns, link=link, memory=what in REMEMBERING
    )
    if link is None:
        return function
    return replace(
        function, name=safe_identifier(f"{what}_{link}")
    )  # several links may stand side by side


def _minimal(
    robot: Robot, what: str, parameters: str, formulation: int | None, tolerance: float
) -> Function:
    """Return a function that reads base parameters alone, those of `md.base_parameters`."""
    from minidyn.base.base_parameters import base_parameters
    from minidyn.base.minimal_functions import program_for
    from minidyn.dynamics.papers.minimal import MINIMAL_WHAT

    known = [name for name in MINIMAL_WHAT if name in WHAT]
    if what not in known:
        raise Unsupported(f"--base is for {', '.join(known)}; {what} is written without it")
    at_call = "argument" if parameters == "argument" else None
    base = base_parameters(robot, tolerance=tolerance)
    return program_for(robot, what, base, formulation, at_call)


def code_files(
    robot: Robot, function: Function, target: str, tolerance: float = TOLERANCE
) -> dict[str, str]:
    """Return {file name: text} of a function in one of TARGETS.

    Names are letters, digits and underscores alone. Where it takes base parameters, comments say
    what they are, for the tolerance that it was made with.
    """
    if target not in TARGETS:
        raise UnknownName("target", target, TARGETS)
    notes: list[str] = []
    if any(argument.name == "beta" for argument in function.arguments):
        from minidyn.base.base_parameters import base_parameters

        notes = notes_of(function, base_parameters(robot, tolerance=tolerance))
    if target == "c":
        return c_files(robot, function, notes)
    name = source_name(robot, function)
    if target == "llvm":
        from minidyn.graph.targets.native.host import linked
        from minidyn.graph.targets.native.kernel import compile_function

        return {f"{name}.ll": linked(compile_function(function).llvm_ir)}
    return {name + PRINTERS[target][0]: function_source(robot, function, target, notes)}


LEFT_OUT = warning(
    "code.left_out", "One function of the model cannot be written as C code for this robot."
)

FUNCTIONS = (
    "inverse_dynamics",
    "gravity_torque",
    "inertia_matrix",
    "coriolis_matrix",
    "forward_dynamics",
)
"""What a model consists of."""

_FILE = re.compile(
    r"[A-Za-z0-9_][A-Za-z0-9_.+-]*"
)  # what an #include and a command line take as it is


def c_model(
    robot: Robot, name: str, functions: Sequence[str] = FUNCTIONS
) -> tuple[dict[str, str], tuple[Notice, ...]]:
    """Return ({"NAME.h": text, "NAME.c": text}, what could not be written) of a robot's functions.

    Where none of the functions can be written, the first reason is raised.
    """
    if not _FILE.fullmatch(name):
        raise DescriptionError(
            f"{name!r}: expected a name of letters, digits, _ . + and - for C files; choose another"
        )
    prototypes, bodies, names, notices = [], [], [], []
    helpers: dict[str, None] = {}
    reason: MinidynError | None = None
    for what in functions:
        try:
            function = function_for(robot, what)
        except Unsupported as error:
            reason = reason or error
            notices.append(LEFT_OUT(f"no C code of {what}: {error}", function=what))
            continue
        names.append(source_name(robot, function))
        texts = c_files(robot, function)
        prototypes.append(
            texts[f"{names[-1]}.h"].split("#endif\n\n", 1)[1].split(";\n", 1)[0] + ";"
        )
        body = texts[f"{names[-1]}.c"].split("#include <math.h>\n", 1)[1].strip("\n")
        helper, _, rest = ("\n" + body).rpartition("\nvoid ")
        if helper:
            helpers[helper.strip()] = None  # each function brings its own copy of sign_of
        bodies.append("void " + rest)
    if not names and reason is not None:
        raise reason
    if memory_columns(robot):
        try:
            prototype, body = states_in_c(robot)
            prototypes.append(prototype)
            bodies.append(body)
        except Unsupported as error:
            notices.append(LEFT_OUT(f"no C code of drive_states: {error}", function="drive_states"))
    checks = CHECK_INCLUDES if memory_columns(robot) else ""
    head = _head(robot, name, names)
    guard = f"MINIDYN_{safe_identifier(name).upper()}_H"
    header = (
        f"{head}#ifndef {guard}\n#define {guard}\n\n"
        + '#ifdef __cplusplus\nextern "C" {\n#endif\n\n'
        f"#define {safe_identifier(name).upper()}_JOINTS {robot.n}\n\n"
        + "\n\n".join(prototypes)
        + "\n\n#ifdef __cplusplus\n}\n#endif\n\n#endif\n"
    )
    source = (
        f'{head}#include "{name}.h"\n\n#include <math.h>\n{checks}\n'
        + "\n\n".join([*helpers, *bodies])
        + "\n"
    )
    return {f"{name}.h": header, f"{name}.c": source}, tuple(notices)


CHECK_INCLUDES = "#include <stdint.h>\n#include <string.h>\n"
"""What the code of the states of drives needs beside math.h."""
FARTHEST = 1e6
"""Position, rad or m, beyond which none can be true."""
_STATES = """\
/* Returns 0, or where a position is not finite (17) or beyond @FARTHEST@ (18) holds the states. */
@HEAD@
{
    double @USED@, state[@SIZE@];
    for (int k = 0; k < @N@; k++) {
        if (!@NAME@_finite(before[k]) || !@NAME@_finite(after[k])@STEP@) return 17;
        if (fabs(before[k]) > @FARTHEST@ || fabs(after[k]) > @FARTHEST@) return 18;
    }
    /* states lie from -1 to 1; what does not cannot be gone on from */
    for (int k = 0; k < @SIZE@; k++)
        state[k] = @NAME@_finite(memory[k]) && fabs(memory[k]) <= 1.0 ? memory[k] : 0.0;
@LINES@
    memcpy(memory, state, sizeof(state));
    return 0;
}"""


def states_in_c(robot: Robot) -> tuple[str, str]:
    """Return prototype and text of the C function that takes the states of drives from one position
    to the next.
    """
    if robot.formulas:
        raise Unsupported(
            "joints follow others by formulas, so that the way of a drive is not a sum of theirs"
        )
    c = coordinates(robot, [0.0] * robot.n, [0.0] * robot.n, [0.0] * robot.n)
    name = source_name(robot, Function("drive_states", (), (), (), ()))
    lines = []
    for place, column in enumerate(memory_columns(robot)):
        turned: dict[int, float] = {}
        for other, ratio in drive_ratios(robot, column.joint).items():
            for k, factor in c.G[other].items():
                turned[k] = turned.get(k, 0.0) + ratio * factor
        moved = (
            " + ".join(f"{factor!r} * (after[{k}] - before[{k}])" for k, factor in turned.items())
            or "0.0"
        )
        now, travel = f"state[{place}]", robot.joints[column.joint].drive.travel(column.symbol)
        lines.append(f"    d = {moved};")
        if column.symbol == BREAKAWAY:
            rested, moving = (
                f"1.0 - (1.0 - {now}) * exp(-step / {REST_TIME!r})",
                f"{now} * exp(-fabs(d) / {travel!r})",
            )
            lines.append(
                f"    {now} = fabs(d) < {robot.joints[column.joint].rest_speed!r} * step ? "
                f"{rested} : {moving};"
            )
        else:
            lines += ["    s = (d > 0.0) - (d < 0.0);"]
            lines += [f"    if (d != 0.0) {now} = s - (s - {now}) * exp(-fabs(d) / {travel!r});"]
    symbols = [column.symbol for column in memory_columns(robot)]
    step = ", double step" if BREAKAWAY in symbols else ""
    ends = f"const double before[{robot.n}], const double after[{robot.n}]{step}"
    head = f"int {name}({ends}, double memory[{len(symbols)}])"
    values = {
        "NAME": name,
        "N": str(robot.n),
        "SIZE": str(len(symbols)),
        "USED": "d, s" if PRESLIDING in symbols else "d",
        "STEP": f" || !{name}_finite(step) || step < 0.0" if step else "",
        "LINES": "\n".join(lines),
        "HEAD": head,
        "FARTHEST": repr(FARTHEST),
    }
    body = re.sub(r"@([A-Z]+)@", lambda match: values[match[1]], _STATES)
    return head + ";", FINITE.format(name=name).strip("\n") + "\n\n" + body


def _head(robot: Robot, name: str, names: Sequence[str]) -> str:
    """Return the comment at the head of both files: whose model, units, how to compile and call."""
    order = [f"  {number}: {joint}" for number, joint in enumerate(robot.joint_names)]
    call = next((function for function in names if function.endswith("inverse_dynamics")), names[0])
    memory = f", memory[{len(memory_columns(robot))}]" if memory_columns(robot) else ""
    lines = [
        (
            f"Dynamic model of robot {robot.name}, written by minidyn. Parameters are baked in, "
            "rotor inertia and friction"
        ),
        f"included. Robot fingerprint {robot.fingerprint}.",
        "",
        "Compile:  gcc -std=c99 -O2 -c "
        + name
        + ".c      (link with -lm; any C99 or C++ compiler will do)",
        f'Call:     #include "{name}.h"',
        f"          double q[{robot.n}], dq[{robot.n}], ddq[{robot.n}]{memory}, tau[{robot.n}];",
        f"          {call}(q, dq, ddq, {'memory, ' if memory else ''}tau);",
        "",
        (
            "Units: rad, rad/s, rad/s^2, N m for joints that turn; m, m/s, m/s^2, N for joints "
            "that slide. Matrices are"
        ),
        "row-major. No memory is allocated and nothing is kept between calls. Order of the joints:",
        *order,
    ]
    if memory_columns(robot):
        lines += [
            "",
            *memory_notes(robot),
            (
                "drive_states takes them from one position to the next: call it once a step, for "
                "breakaway with its time. Where a position cannot be true it holds them and "
                "returns 17 or 18, else 0."
            ),
        ]
    return "/*\n" + "".join(f" * {safe_comment(line)}".rstrip() + "\n" for line in lines) + " */\n"


def save(robot: Robot | str | os.PathLike[str], path: str | os.PathLike[str]) -> None:
    """Write a robot to a .toml, .urdf, .xml, .mjcf or .c file.

    TOML keeps everything. URDF is for other tools; MuJoCo simulates the MJCF as it stands. What
    these two cannot say goes into a side file NAME.minidyn.toml beside them, which `md.load` finds.
    All give the same torques when they are loaded again. C is the robot's model with its parameters
    baked in, and a header.

    Each file is either the old one or the whole new one: it is written under another name and then
    put in place.

    Args:
        robot: The robot, or its built-in name or path.
        path: Where to; the ending chooses the format.

    Raises:
        WrongArgument: The first argument is no robot.
        DescriptionError: Another ending, a folder that does not exist, a robot the format cannot
            describe, a name that C cannot include.
        Unsupported: A robot that the format has no words for.
        UnknownParameters: MJCF or C of a robot whose parameters are unknown.
    """
    if isinstance(path, Robot):
        raise WrongArgument("save: robot and path seem to be swapped; expected save(robot, path)")
    robot = as_robot(robot, free_base=True)
    if not isinstance(path, str | os.PathLike) or not isinstance(os.fspath(path), str):
        raise DescriptionError(f"save: expected a file's path, got {path!r}")
    target = Path(path)
    suffix = target.suffix.lower()
    if os.path.isdir(target):  # a Path's own method raises where nobody may look
        raise DescriptionError(
            f"{target}: a folder; expected a file's name ending with .toml, .urdf, .xml or .c"
        )
    if suffix == ".toml":
        write_atomically(target, toml_text(robot).encode())
    elif suffix == ".urdf":
        from minidyn.formats.urdf.write import write_urdf

        write_urdf(robot, target)
    elif suffix in (".xml", ".mjcf"):
        from minidyn.formats.mjcf.write import write_mjcf

        write_mjcf(robot, target)
    elif suffix == ".c":
        require_fixed_base(robot, "save as .c (md.compile(...).source prints single functions)")
        for name, text in c_model(robot, target.stem)[0].items():
            write_atomically(target.with_name(name), text.encode())
    else:
        raise DescriptionError(
            f"{target}: the name ends with {suffix!r}; a robot is saved as .toml, .urdf, .xml or .c"
        )


EARTH = (0.0, 0.0, -9.81)
"""Gravity, m/s², where a format has no word for it."""


@dataclass(frozen=True)
class Written:
    """What a consumer gets.

    Attributes:
        files: Paths of what was written.
        robot: The robot that was to be written.
        said: The robot as the consumer computes with it; what it cannot be told is zero.
        trees: Whether the consumer knows trees of free joints alone, so that joints which follow
            others move freely.
        notices: What else is to be told.
    """

    files: tuple[Path, ...]
    robot: Robot
    said: Robot
    trees: bool = False
    notices: tuple[Notice, ...] = ()

    @property
    def missing(self) -> dict[str, list[str]]:
        """What the consumer is not told, and the joints that have it.

        Drive terms, gravity, joints that follow.
        """
        found = lost(self.robot, self.said)
        followers = [joint.name for joint in self.robot.joints if joint.follows is not None]
        return found | ({"mimic": followers} if self.trees and followers else {})


def said(
    robot: Robot,
    symbols: Collection[str],
    *,
    coupled: bool = False,
    smooth: bool = False,
    gravity: bool = True,
) -> Robot:
    """Return the robot as a format describes it that has words for some drive terms.

    Args:
        robot: The whole robot.
        symbols: Of the drive terms, "Ia", "Fv", ..., that it can say.
        coupled: Whether it can say them of drives that other joints turn, too.
        smooth: Whether it knows over which speeds friction reverses.
        gravity: Whether it can say which way gravity points.
    """
    values = robot.parameters.copy()
    for joint, columns in zip(robot.joints, robot.layout.drives):
        for column in columns:
            own = column.symbol in BY_SYMBOL and BY_SYMBOL[column.symbol].own
            if column.symbol not in symbols or (joint.drive.coupling and not coupled and not own):
                values[column.index] = 0.0

    def at_once(joint: Joint) -> Joint:
        return replace(joint, drive=replace(joint.drive, sign_width=0.0))

    made = robot.with_parameters(values)
    made = made if smooth else made.with_joints(at_once)
    return made if gravity else made.with_gravity(EARTH)


def lost(robot: Robot, heard: Robot) -> dict[str, list[str]]:
    """Return {what a format cannot say: the joints that have it}, from a robot and from what the
    format says of it.
    """
    found: dict[str, list[str]] = {}
    for joint, other, columns in zip(robot.joints, heard.joints, robot.layout.drives):
        at_once = joint.drive.sign_width != other.drive.sign_width
        for column in columns:
            if robot.parameters[column.index] != heard.parameters[column.index]:
                found.setdefault(term_name(column.symbol), []).append(joint.name)
            elif at_once and column.symbol in ("Fc", "Jc") and robot.parameters[column.index]:
                found.setdefault("smoothing width", []).append(joint.name)
    if not np.allclose(robot.gravity, heard.gravity, rtol=0, atol=1e-12):
        found["gravity"] = []
    return found


def term_name(symbol: str) -> str:
    """Return the words for a drive term: "rotor inertia", "own viscous"."""
    names = {value: name for name, value in FRICTION.items()} | {ROTOR: "rotor_inertia"}
    return names[symbol].replace("_", " ")


def refuse_unsayable(robot: Robot, what: str) -> None:
    """Raise for a robot whose joints a format of trees cannot describe, and for unknown
    parameters.
    """
    if robot.loops or robot.formulas:
        why = "has loops" if robot.loops else "has joints that follow formulas"
        raise Unsupported(
            f"robot {robot.name!r} {why}, which {what} cannot describe; use C, or robot.toml"
        )
    unknown = [name for name, value in zip(robot.layout.names, robot.parameters) if np.isnan(value)]
    if unknown:
        raise UnknownParameters(
            f"robot {robot.name!r} cannot be written for {what}: {', '.join(unknown[:6])} unknown"
        )


def prim_names(names: Iterable[str], taken: Iterable[str] = ()) -> dict[str, str]:
    """Return {name: identifier} for names of USD's prims.

    Letters, digits and underscores, each once.
    """
    found: dict[str, str] = {}
    for name in names:
        found[name] = safe_identifier(name, {*taken, *found.values()})
    return found
