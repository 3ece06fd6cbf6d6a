"""C99 of a controller's step that checks measurement and reference before it uses them.

The same as :class:`minidyn.control.controller.Controller` does in Python.
"""

from __future__ import annotations

from dataclasses import replace

from minidyn.control.c_checks import flag_values, guarded_file, with_prototype
from minidyn.control.sample_status import SampleStatus
from minidyn.dynamics.sources import function_source, source_name
from minidyn.graph.function import Function
from minidyn.graph.targets.c import FINITE
from minidyn.model.robot import Robot

_CONTROLLER = """
int {name}({signature})
{{
    const double *const measured[{m}] = {{{measured}}}, *const wanted[3] = {{{wanted}}};
    double used[{m} + 3][{n}], torque[{n}]{locals};
    int status = 0, seen = 1, given = 1, computed = 1;
    for (int i = 0; i < {m} + 3; i++)
        for (int j = 0; j < {n}; j++) {{
            const double value = i < {m} ? measured[i][j] : wanted[i - {m}][j];
            const int finite = {name}_finite(value);
            if (finite && fabs(value) <= {largest}) continue;
            status |= finite ? {out_of_range} : {not_finite};
            if (i < {m}) seen = 0;
            else given = 0;
        }}
    for (int j = 0; j < {n}; j++) {{
        for (int i = 0; i < {m}; i++)
            used[i][j] = seen ? measured[i][j] : (given ? wanted[i][j] : 0.0);
        for (int i = 0; i < 3; i++)
            used[{m} + i][j] = given ? wanted[i][j] : (i == 0 ? used[0][j] : 0.0);
    }}
    {call};
    for (int j = 0; j < {n}; j++) computed &= {name}_finite(torque[j]);
    if (!computed) status |= {not_finite};
{check}    if (status & {not_finite}) status &= ~{out_of_range};
    for (int j = 0; j < {n}; j++) tau[j] = computed && (seen || given) ? torque[j] : 0.0;
{adapt}    if (status) {{
        status |= {held};
        held[0] += 1.0;
        held[1] += 1.0;
    }} else held[0] -= 1.0;
    if (held[0] < 0.0) held[0] = 0.0;
    if (!{name}_finite(held[0]) || held[0] >= {limit}) {{
        held[0] = {limit};
        status |= {not_watching};
    }}
    return status;
}}
"""
_CONTROL_FLAGS = {
    SampleStatus.NOT_FINITE: "a value is not finite",
    SampleStatus.OUT_OF_RANGE: "a value is beyond its bound",
    SampleStatus.HELD: "the estimate was held",
    SampleStatus.NOT_WATCHING: "ALARM: most samples cannot be used. Stop the robot",
}


def guarded_controller(
    robot: Robot, program: Function, largest: float, limit: float, target: str
) -> str:
    """Return a controller's step with its checks as C source ("c") or header ("h").

    Values beyond `largest` cannot be true; after `limit` samples that cannot there is an alarm.
    Other targets: the arithmetic alone.
    """
    if target not in ("c", "h"):
        notes = ["Checks nothing: one value that is not finite stays in the estimate for ever."]
        return function_source(robot, program, target, notes)
    inner = replace(program, name=f"{program.name}_unchecked")
    name = source_name(robot, inner).removesuffix("_unchecked")
    source = function_source(robot, inner, target, _control_notes(name, largest, limit))
    body = _controller_body(name, source_name(robot, inner), program, largest, limit)
    prototype = body.strip().partition("\n{")[0] + ";"
    if target == "h":
        return with_prototype(source, prototype, source_name(robot, inner))
    return guarded_file(source, prototype, FINITE.format(name=name) + body)


def _control_notes(name: str, largest: float, limit: float) -> list[str]:
    return [
        f"Call {name}, once a period; what ends in _unchecked checks nothing.",
        "Returns 0 where the sample was used; else:",
        *(f"  {int(flag)}: {text}" for flag, text in _CONTROL_FLAGS.items()),
        f"Bound of each value: {largest:g}. Without a measurement tau is the model's along the",
        "reference, without a reference it holds the robot where it is, without both it is zero.",
        f"held: two counts, zero at the start: samples held lately (alarm from {limit:g}), in all.",
        "Not checked: limits of the robot, its torques, and whether values within bounds are true.",
    ]


def _controller_body(name: str, inner: str, program: Function, largest: float, limit: float) -> str:
    """Return the definition of a controller's checked step."""
    sizes = {argument.name: argument.size for argument in program.arguments}
    adapts = len(program.results) > 1
    state, *signals = sizes if adapts else ("", *sizes)
    measured, wanted = signals[:-3], signals[-3:]
    m, n = len(measured), sizes[measured[0]]
    parts = [f"const double {word}[{size}]" for word, size in sizes.items()] + [f"double tau[{n}]"]
    given = [f"used[{i}]" for i in range(m + 3)]
    call, locals_, check, adapt = f"{inner}({', '.join(given)}, torque)", "", "", ""
    if adapts:
        size = sizes[state]
        parts.append(f"double next_{state}[{size}]")
        call = f"{inner}({', '.join(['kept', *given])}, torque, moved)"
        call = f"memcpy(kept, {state}, sizeof(kept));\n    {call}"
        locals_ = f", moved[{size}], kept[{size}]"
        not_finite = int(SampleStatus.NOT_FINITE)
        check = (
            f"    for (int k = 0; k < {size}; k++)\n"
            f"        if (!{name}_finite(moved[k])) status |= {not_finite};\n"
        )
        adapt = f"    memcpy(next_{state}, status ? kept : moved, sizeof(kept));\n"
    return _CONTROLLER.format(
        name=name,
        n=n,
        m=m,
        signature=", ".join([*parts, "double held[2]"]),
        measured=", ".join(measured),
        wanted=", ".join(wanted),
        locals=locals_,
        call=call,
        check=check,
        adapt=adapt,
        largest=repr(largest),
        limit=repr(limit),
        **flag_values(),
    )
