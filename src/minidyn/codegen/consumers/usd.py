"""For Isaac Sim, Newton and MuJoCo's reader of USD.

UsdPhysics as text, with the drives in three published schemas. Bodies, joints, limits and gravity
are those of UsdPhysics. It has no words for rotor inertia and friction of joints, so that they are
written in the attributes that readers take: `MjcJointAPI` (MuJoCo's mjcPhysics), `NewtonJointAPI`
(newton-usd-schemas) and PhysX's `PhysxJointAPI` with `PhysxJointAxisAPI`. Angles are in degrees
there, but for MuJoCo's damping. UsdPhysics stores numbers of 32 bits: torques agree to about 1e-6.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from minidyn.arrays import Array
from minidyn.codegen.files import Written, prim_names, refuse_unsayable, said
from minidyn.errors import DescriptionError
from minidyn.files import write_atomically
from minidyn.graph.function import safe_identifier
from minidyn.model.drives import ROTOR
from minidyn.model.geometry import inverse_steps, matrix_of
from minidyn.model.parameters import to_body
from minidyn.model.robot import Robot
from minidyn.text import visible

_DEGREE = math.pi / 180
_SCHEMAS = ("MjcJointAPI", "NewtonJointAPI", "PhysxJointAPI")
_HEAD = """\
#usda 1.0
(
    defaultPrim = "{root}"
    doc = "Written by minidyn; drives stand in the schemas of MuJoCo (mjc), Newton (newton) and PhysX (physx)"
    kilogramsPerUnit = 1
    metersPerUnit = 1
    upAxis = "Z"
)
"""  # noqa: E501


def write(robot: Robot, path: Path) -> Written:
    """Write NAME.usda: an articulation whose base is fixed to the world."""
    refuse_unsayable(robot, "USD")
    heard = said(robot, (ROTOR, "Fv", "Fc"))
    root = safe_identifier(robot.name, ["physicsScene"])
    every = [robot.base_name, *robot.link_names]
    for name in (name for name in every if every.count(name) > 1):
        raise DescriptionError(f"two links are called {name!r}; USD needs different names")
    links = prim_names(every, ["joints"])
    size = float(np.linalg.norm(robot.gravity))
    lines = [
        _HEAD.format(root=root),
        'def PhysicsScene "physicsScene"',
        "{",
        (
            "    vector3f physics:gravityDirection = "
            f"{_tuple(robot.gravity / size if size else (0.0, 0.0, -1.0))}"
        ),
        f"    float physics:gravityMagnitude = {size!r}",
        "}",
        "",
        f'def Xform "{root}" (prepend apiSchemas = ["PhysicsArticulationRootAPI"])',
        "{",
        *_bodies(robot, links),
        '    def Scope "joints"',
        "    {",
        *_joints(heard, root, links),
        "    }",
        "}",
    ]
    write_atomically(path, ("\n".join(lines) + "\n").encode())
    return Written((path,), robot, heard, trees=True)


def _bodies(robot: Robot, links: dict[str, str]) -> list[str]:
    """Return a rigid body for the base and each link, where it stands at q = 0, with the frames on
    it inside.
    """
    places = [robot.base_placement]
    for joint in robot.joints:
        places.append(places[joint.parent + 1] @ joint.placement)
    lines: list[str] = []
    for index, (name, place) in enumerate(zip([robot.base_name, *robot.link_names], places)):
        ten = robot.parameters[robot.layout.links[index - 1]] if index else np.zeros(10)
        schemas = (
            '"PhysicsRigidBodyAPI", "PhysicsMassAPI"' if ten.any() else '"PhysicsRigidBodyAPI"'
        )
        lines += [f'    def Xform "{links[name]}" (', f"        prepend apiSchemas = [{schemas}]"]
        lines += [
            f"        displayName = {_string(name)}",
            "    )",
            "    {",
            *_place(place, "        "),
        ]
        lines += [f"        {line}" for line in (_mass(ten) if ten.any() else ())]
        own = [frame for frame in robot.frames if frame.link == index - 1]
        names = prim_names(frame.name for frame in own)
        for frame in own:
            lines += [
                f'        def Xform "{names[frame.name]}" (displayName = {_string(frame.name)})',
                "        {",
            ]
            lines += [*_place(frame.placement, "            "), "        }"]
        lines += ["    }", ""]
    return lines


def _mass(ten: Array) -> list[str]:
    mass, com, inertia = to_body(ten)
    moments, axes = np.linalg.eigh(inertia)
    axes[:, 2] *= np.sign(np.linalg.det(axes)) or 1.0
    return [
        f"float physics:mass = {float(mass)!r}",
        f"point3f physics:centerOfMass = {_tuple(com)}",
        f"float3 physics:diagonalInertia = {_tuple(moments)}",
        f"quatf physics:principalAxes = {_tuple(quaternion(axes))}",
    ]


def _joints(robot: Robot, root: str, links: dict[str, str]) -> list[str]:
    names = prim_names((joint.name for joint in robot.joints), ["root_joint"])
    lines = _joint(
        "PhysicsFixedJoint", "root_joint", "root", "", f"/{root}/{links[robot.base_name]}"
    )
    lines += [*_frames(robot.base_placement, np.eye(4)), "        }"]
    for index, joint in enumerate(robot.joints):
        parent, child = (
            f"/{root}/{links[robot.link_name(link)]}" for link in (joint.parent, index)
        )
        turns = "Fixed" if joint.kind == "fixed" else "Revolute" if joint.turns else "Prismatic"
        axis = "xyz".index(joint.motion[1])
        schemas, values = ([], []) if joint.kind == "fixed" else _drive(robot, index)
        lines += _joint(
            f"Physics{turns}Joint", names[joint.name], joint.name, parent, child, schemas
        )
        flip = np.eye(4)
        if joint.direction < 0:  # USD turns about positive axes: both frames are turned round
            flip[:3, :3] = np.diag([-1.0 if k in (axis, (axis + 1) % 3) else 1.0 for k in range(3)])
        lines += _frames(
            matrix_of(joint.before) @ flip, matrix_of(inverse_steps(joint.after)) @ flip
        )
        if joint.kind != "fixed":
            lines.append(f'            uniform token physics:axis = "{"XYZ"[axis]}"')
        lines += [*(f"            {value}" for value in values), "        }"]
    return lines


def _joint(
    kind: str, name: str, shown: str, parent: str, child: str, schemas: Iterable[str] = ()
) -> list[str]:
    applied = ", ".join(f'"{schema}"' for schema in schemas)
    head = [f"            prepend apiSchemas = [{applied}]"] if applied else []
    body = [f"            rel physics:body0 = <{parent}>"] if parent else []
    return [
        f'        def {kind} "{name}" (',
        *head,
        f"            displayName = {_string(shown)}",
        "        )",
        "        {",
        *body,
        f"            rel physics:body1 = <{child}>",
    ]


def _frames(before: Array, after: Array) -> list[str]:
    """Return the lines that place a joint on its two bodies."""
    lines = []
    for number, place in enumerate((before, after)):
        lines.append(f"            point3f physics:localPos{number} = {_tuple(place[:3, 3])}")
        lines.append(
            f"            quatf physics:localRot{number} = {_tuple(quaternion(place[:3, :3]))}"
        )
    return lines


def _drive(robot: Robot, index: int) -> tuple[list[str], list[str]]:
    """Return the schemas and attributes of a joint's drive and limits."""
    joint, terms = robot.joints[index], robot.drive_terms(index)
    rotor, viscous, dry = (terms.get(symbol, 0.0) for symbol in (ROTOR, "Fv", "Fc"))
    axis, angle = ("angular", _DEGREE) if joint.turns else ("linear", 1.0)
    limits, lines = joint.limits, []
    schemas = [*_SCHEMAS, f"PhysxJointAxisAPI:{axis}", f"PhysicsDriveAPI:{axis}"]
    for word, limit in (("lower", limits.lower), ("upper", limits.upper)):
        if math.isfinite(limit) and joint.kind != "continuous":
            lines.append(f"float physics:{word}Limit = {limit / angle!r}")
    lines += [
        f"float drive:{axis}:physics:stiffness = 0",  # driven by torques
        f"float drive:{axis}:physics:damping = 0",
        f"uniform double mjc:armature = {rotor!r}",
        f"uniform double mjc:damping = {viscous!r}",
        f"uniform double mjc:frictionloss = {dry!r}",
        f"float newton:armature = {rotor!r}",
        f"float newton:damping = {viscous * angle!r}",
        f"float newton:friction = {dry!r}",
        f"float physxJoint:armature = {rotor!r}",
        f"float physxJointAxis:{axis}:armature = {rotor!r}",
        f"float physxJointAxis:{axis}:viscousFrictionCoefficient = {viscous * angle!r}",
        f"float physxJointAxis:{axis}:dynamicFrictionEffort = {dry!r}",
        f"float physxJointAxis:{axis}:staticFrictionEffort = {dry!r}",
    ]
    if math.isfinite(limits.velocity):
        names = ("newton:velocityLimit", "physxJoint:maxJointVelocity")
        lines += [f"float {name} = {limits.velocity / angle!r}" for name in names]
    if math.isfinite(limits.effort):
        lines.append(f"float drive:{axis}:physics:maxForce = {limits.effort!r}")
    return schemas, lines


def _place(place: Array, indent: str) -> list[str]:
    return [
        f"{indent}double3 xformOp:translate = {_tuple(place[:3, 3])}",
        f"{indent}quatd xformOp:orient = {_tuple(quaternion(place[:3, :3]))}",
        f'{indent}uniform token[] xformOpOrder = ["xformOp:translate", "xformOp:orient"]',
    ]


def quaternion(R: Array) -> Array:
    """Return the unit quaternion (w, x, y, z) of a rotation matrix (3, 3), w not negative.

    The eigenvector to the largest eigenvalue of Bar-Itzhack's matrix: exact for every angle.
    """
    K = np.array(
        [
            [R[0, 0] + R[1, 1] + R[2, 2], R[2, 1] - R[1, 2], R[0, 2] - R[2, 0], R[1, 0] - R[0, 1]],
            [0.0, R[0, 0] - R[1, 1] - R[2, 2], R[0, 1] + R[1, 0], R[0, 2] + R[2, 0]],
            [0.0, 0.0, R[1, 1] - R[0, 0] - R[2, 2], R[1, 2] + R[2, 1]],
            [0.0, 0.0, 0.0, R[2, 2] - R[0, 0] - R[1, 1]],
        ]
    )
    vector = np.linalg.eigh(K, UPLO="U")[1][:, -1]
    return np.asarray(vector if vector[0] >= 0 else -vector)


def _tuple(values: Iterable[float]) -> str:
    return f"({', '.join(f'{float(value) + 0.0!r}' for value in values)})"


def _string(text: str) -> str:
    """Return a string of USD's text format; characters that are not seen are shown as codes."""
    shown = visible(text).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{shown}"'
