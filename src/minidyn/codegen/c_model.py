"""A robot's model as one C99 header and one source file, its parameters baked in: what a controller compiles."""

from __future__ import annotations

import re
from collections.abc import Sequence

from minidyn.codegen.files import function_for
from minidyn.dynamics.sources import c_files, source_name
from minidyn.errors import DescriptionError, MinidynError, Unsupported
from minidyn.model.robot import Robot
from minidyn.notices import Notice, look
from minidyn.text import safe_comment, safe_identifier

LEFT_OUT = look("code.left_out", "One function of the model cannot be written as C code for this robot.")

FUNCTIONS = ("inverse_dynamics", "gravity_torque", "inertia_matrix", "coriolis_matrix", "forward_dynamics")
"""What a model consists of."""

_FILE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*")  # what an #include and a command line take as it is


def c_model(robot: Robot, name: str, functions: Sequence[str] = FUNCTIONS) -> tuple[dict[str, str], tuple[Notice, ...]]:
    """Return ({"NAME.h": text, "NAME.c": text}, what could not be written) of a robot's functions.

    Where none of the functions can be written, the first reason is raised.
    """
    if not _FILE.fullmatch(name):
        raise DescriptionError(f"{name!r}: expected a name of letters, digits, _ . + and - for C files; choose another")
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
        prototypes.append(texts[f"{names[-1]}.h"].split("#endif\n\n", 1)[1].split(";\n", 1)[0] + ";")
        body = texts[f"{names[-1]}.c"].split("#include <math.h>\n", 1)[1].strip("\n")
        helper, _, rest = ("\n" + body).rpartition("\nvoid ")
        if helper:
            helpers[helper.strip()] = None  # each function brings its own copy of sign_of
        bodies.append("void " + rest)
    if not names and reason is not None:
        raise reason
    head = _head(robot, name, names)
    guard = f"MINIDYN_{safe_identifier(name).upper()}_H"
    header = (
        f"{head}#ifndef {guard}\n#define {guard}\n\n" + '#ifdef __cplusplus\nextern "C" {\n#endif\n\n'
        f"#define {safe_identifier(name).upper()}_JOINTS {robot.n}\n\n"
        + "\n\n".join(prototypes)
        + "\n\n#ifdef __cplusplus\n}\n#endif\n\n#endif\n"
    )
    source = f'{head}#include "{name}.h"\n\n#include <math.h>\n\n' + "\n\n".join([*helpers, *bodies]) + "\n"
    return {f"{name}.h": header, f"{name}.c": source}, tuple(notices)


def _head(robot: Robot, name: str, names: Sequence[str]) -> str:
    """Return the comment at the head of both files: whose model, units, how to compile and call."""
    order = [f"  {number}: {joint}" for number, joint in enumerate(robot.joint_names)]
    call = next((function for function in names if function.endswith("inverse_dynamics")), names[0])
    lines = [
        f"Dynamic model of robot {robot.name}, written by minidyn. Parameters are baked in, rotor inertia and friction",
        f"included. Robot fingerprint {robot.fingerprint}.",
        "",
        "Compile:  gcc -std=c99 -O2 -c " + name + ".c      (link with -lm; any C99 or C++ compiler will do)",
        f'Call:     #include "{name}.h"',
        f"          double q[{robot.n}], dq[{robot.n}], ddq[{robot.n}], tau[{robot.n}];  {call}(q, dq, ddq, tau);",
        "",
        "Units: rad, rad/s, rad/s^2, N m for joints that turn; m, m/s, m/s^2, N for joints that slide. Matrices are",
        "row-major. No memory is allocated and nothing is kept between calls. Order of the joints:",
        *order,
    ]
    return "/*\n" + "".join(f" * {safe_comment(line)}".rstrip() + "\n" for line in lines) + " */\n"
