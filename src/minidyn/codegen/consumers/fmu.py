"""For tools of co-simulation: a source FMU of FMI 3.0, the whole model as C, with its description.

The robot is a plant for Model Exchange and Co-Simulation: torques in; positions, speeds and
accelerations out. Beside it, independent of the plant, stands the torque of a reference motion, for
feedforward. `fmi3.c` in this folder is the same for all robots; what differs is in fmu.h, model.c
and modelDescription.xml. The importing tool compiles it with its headers of the standard
(fmi3Functions.h).
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Sequence
from pathlib import Path

from lxml import etree

from minidyn.codegen.files import Written, c_model, function_for
from minidyn.dynamics.drives import memory_columns
from minidyn.dynamics.sources import source_name
from minidyn.errors import Unsupported
from minidyn.files import write_atomically
from minidyn.formats.xml_file import document, refusing_names
from minidyn.graph.function import safe_identifier
from minidyn.model.drives import BREAKAWAY
from minidyn.model.robot import Robot
from minidyn.text import new_name, visible

_DATE = (1980, 1, 1, 0, 0, 0)  # the same robot gives the same bytes

_GROUPS = ("tau", "q", "der(q)", "dq", "ddq", "q_ref", "dq_ref", "ddq_ref", "tau_ref")
"""Variables in the order of their value references, joint by joint; fmi3.c has the same order."""

_UNITS = {"q": ("rad", "m"), "dq": ("rad/s", "m/s"), "ddq": ("rad/s2", "m/s2"), "tau": ("N.m", "N")}
_BASE_UNITS = {
    "s": {"s": 1},
    "rad": {"rad": 1},
    "rad/s": {"rad": 1, "s": -1},
    "rad/s2": {"rad": 1, "s": -2},
    "N.m": {"kg": 1, "m": 2, "s": -2},
    "m": {"m": 1},
    "m/s": {"m": 1, "s": -1},
    "m/s2": {"m": 1, "s": -2},
    "N": {"kg": 1, "m": 1, "s": -2},
}


def write(robot: Robot, path: Path) -> Written:
    """Write NAME.fmu; everything of the model is in it."""
    texts, left_out = c_model(robot, "model", ("inverse_dynamics", "forward_dynamics"))
    if left_out:
        raise Unsupported(str(left_out[0]))
    identifier = safe_identifier(robot.name)
    own = Path(__file__).with_name("fmi3.c").read_text(encoding="utf-8")
    sources = {"fmi3.c": own, "fmu.h": _header(robot), **texts}
    files = {
        "modelDescription.xml": _description(robot, identifier),
        "sources/buildDescription.xml": _build(identifier),
        **{f"sources/{name}": text.encode() for name, text in sources.items()},
    }
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(zipfile.ZipInfo(name, _DATE), data, zipfile.ZIP_DEFLATED)
    write_atomically(path, stream.getvalue())
    return Written((path,), robot, robot)


def _header(robot: Robot) -> str:
    """Return fmu.h: sizes, the token, and how the functions of model.c are called."""
    names = {
        what: source_name(robot, function_for(robot, what))
        for what in ("inverse_dynamics", "forward_dynamics")
    }
    size = len(memory_columns(robot))
    memory, given = ("", "(void)(memory); ") if not size else ("memory, ", "")
    step = "step, " if any(column.symbol == BREAKAWAY for column in memory_columns(robot)) else ""
    remember = (
        names["inverse_dynamics"].replace("inverse_dynamics", "drive_states")
        + f"(before, after, {step}memory)"
    )
    lines = [
        "/* What fmi3.c needs to know of this robot; written by minidyn. */",
        '#include "model.h"',
        "",
        f"#define FMU_N {robot.n}",
        f"#define FMU_MEMORY {size}",
        f'#define FMU_TOKEN "{_token(robot)}"',
        (
            f"#define FMU_INVERSE(q, dq, ddq, memory, tau) {given}{names['inverse_dynamics']}(q, "
            f"dq, ddq, {memory}tau)"
        ),
        (
            f"#define FMU_FORWARD(q, dq, tau, memory, ddq) {given}{names['forward_dynamics']}(q, "
            f"dq, tau, {memory}ddq)"
        ),
        (
            "#define FMU_REMEMBER(before, after, step, memory) "
            f"{remember if size else '(void)(memory)'}"
        ),
    ]
    return "\n".join(lines) + "\n"


def _token(robot: Robot) -> str:
    return f"{{{robot.fingerprint}}}"


def _references(robot: Robot, group: str) -> list[int]:
    """Return the value references of a group, joint by joint."""
    first = 1 + _GROUPS.index(group) * robot.n
    return list(range(first, first + robot.n))


def _description(robot: Robot, identifier: str) -> bytes:
    with refusing_names(robot.name):
        root = etree.Element(
            "fmiModelDescription",
            fmiVersion="3.0",
            modelName=visible(robot.name) or "robot",
            instantiationToken=_token(robot),
            description="Plant by forward dynamics; tau_ref: inverse dynamics of q_ref, dq_ref, ddq_ref",  # noqa: E501
            generationTool="minidyn",
            variableNamingConvention="flat",
        )
        both = {
            "modelIdentifier": identifier,
            "canGetAndSetFMUState": "true",
            "canSerializeFMUState": "true",
        }
        etree.SubElement(root, "ModelExchange", both)
        etree.SubElement(
            root, "CoSimulation", both | {"canHandleVariableCommunicationStepSize": "true"}
        )
        _units(robot, etree.SubElement(root, "UnitDefinitions"))
        _variables(robot, etree.SubElement(root, "ModelVariables"))
        _structure(robot, etree.SubElement(root, "ModelStructure"))
        return document(root)


def _unit(robot: Robot, group: str, joint: int) -> str:
    kind = group.removesuffix("_ref").replace("der(q)", "dq")
    return _UNITS[kind][robot.joints[robot.independent[joint]].slides]


def _units(robot: Robot, section: etree._Element) -> None:
    used = {"s", *(_unit(robot, group, joint) for group in _GROUPS for joint in range(robot.n))}
    for name, powers in _BASE_UNITS.items():
        if name in used:
            unit = etree.SubElement(section, "Unit", name=name)
            etree.SubElement(unit, "BaseUnit", {key: str(power) for key, power in powers.items()})


def _variables(robot: Robot, section: etree._Element) -> None:
    def add(name: str, reference: int, **more: str) -> None:
        etree.SubElement(
            section, "Float64", {"name": name, "valueReference": str(reference), **more}
        )

    add("time", 0, causality="independent", variability="continuous", unit="s")
    taken: set[str] = {"time", "step"}
    for group in _GROUPS:
        for joint, reference in enumerate(_references(robot, group)):
            name = visible(robot.joint_names[joint])
            name = f"der(q.{name})" if group == "der(q)" else f"{group}.{name}"
            more = {"unit": _unit(robot, group, joint), "variability": "continuous"}
            if group in ("tau", "q_ref", "dq_ref", "ddq_ref"):
                more |= {"causality": "input", "start": "0"}
            elif group in ("q", "dq"):
                more |= {"causality": "output", "initial": "exact", "start": "0"}
            else:
                more |= {
                    "causality": "local" if group == "der(q)" else "output",
                    "initial": "calculated",
                }
            if group in ("der(q)", "ddq"):
                more["derivative"] = str(
                    _references(robot, "q" if group == "der(q)" else "dq")[joint]
                )
            add(new_name(name, taken), reference, **more)
    step = {
        "causality": "parameter",
        "variability": "tunable",
        "initial": "exact",
        "start": "0.001",
        "min": "1e-9",
    }
    text = "longest step of Co-Simulation's integrator"
    add("step", 1 + len(_GROUPS) * robot.n, unit="s", description=text, **step)


def _structure(robot: Robot, section: etree._Element) -> None:
    plant = [reference for group in ("tau", "q", "dq") for reference in _references(robot, group)]
    motion = [
        reference
        for group in ("q_ref", "dq_ref", "ddq_ref")
        for reference in _references(robot, group)
    ]

    def add(tag: str, group: str, on: Sequence[int] | None) -> None:
        for joint, reference in enumerate(_references(robot, group)):
            known = _references(robot, group)[joint : joint + 1] if on is None else on
            values = {"valueReference": str(reference), "dependencies": " ".join(map(str, known))}
            etree.SubElement(section, tag, values)

    def add_speed(tag: str) -> None:
        for reference, speed in zip(_references(robot, "der(q)"), _references(robot, "dq")):
            etree.SubElement(section, tag, valueReference=str(reference), dependencies=str(speed))

    for group, on in (("q", None), ("dq", None), ("ddq", plant), ("tau_ref", motion)):
        add("Output", group, on)
    add_speed("ContinuousStateDerivative")
    add("ContinuousStateDerivative", "ddq", plant)
    add_speed("InitialUnknown")
    add("InitialUnknown", "ddq", plant)
    add("InitialUnknown", "tau_ref", motion)


def _build(identifier: str) -> bytes:
    root = etree.Element("fmiBuildDescription", fmiVersion="3.0")
    configuration = etree.SubElement(root, "BuildConfiguration", modelIdentifier=identifier)
    sources = etree.SubElement(configuration, "SourceFileSet", language="C99")
    for name in ("fmi3.c", "model.c"):
        etree.SubElement(sources, "SourceFile", name=name)
    return document(root)
