"""MJCF files through MuJoCo's own reader and compiler, so that defaults, frames, angles and
includes mean the same.

Before compiling, everything dynamics does not need is taken out: pictures, meshes that carry no
mass or are not there, sensors, tendons. Inertia that the file gives outright is kept aside with all
its digits and without MuJoCo's own limits (it refuses bodies of no mass, and inertias that break
the triangle inequality).

MuJoCo refuses a file for any unknown word. Leftovers of macro languages, annotations of other tools
and elements of newer versions should not stop a robot from loading; a misspelled joint should. So
what is unknown is dropped, with a notice, unless it looks like a word that matters.
"""

from __future__ import annotations

import contextlib
import difflib
import math
import os
import re
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from lxml import etree

from minidyn.arrays import Array
from minidyn.errors import DescriptionError, optional
from minidyn.files import read_bytes, trial_file
from minidyn.formats.mjcf.guard import check_mjcf
from minidyn.formats.xml_file import numbers_text, root_element
from minidyn.model.geometry import Steps, matrix_of
from minidyn.model.parameters import from_body, from_mujoco
from minidyn.notices import Notice, info, warning

mujoco = optional("mujoco")

UNKNOWN_WORD = info(
    "mjcf.unknown_word",
    "An element or attribute that MuJoCo does not know is left out; it does not matter for the "
    "dynamics.",
)

_NEEDED = (
    "attach", "body", "compiler", "default", "equality", "frame", "freejoint", "geom", "include", "inertial", "joint",  # noqa: E501
    "motor", "mujoco", "option", "replicate", "worldbody", "actuator",
)  # fmt: skip
_COMPLAINT = re.compile(
    r"unrecognized (element|attribute)(?:: '([^']*)')?\s+Element '([^']*)', line (\d+)"
)
_LIMIT = 1000
WARNING = warning(
    "mjcf.warning", "MuJoCo warned while it read the file; its words are in the notice."
)
CONSTRAINT = warning(
    "mjcf.constraint",
    "A connect, weld or other constraint is left out: MJCF does not say which joints it moves.",
    "If it closes a kinematic loop, describe the loop in a TOML file (docs/robot-files.md).",
)
TENDONS = warning("mjcf.tendons", "Tendons are left out.")
LOST_MESH = warning(
    "mjcf.lost_mesh",
    "A body's inertia comes from a mesh whose file is not there; its parameters are unknown (NaN).",
    "Put the mesh {mesh!r} where the file expects it, or give body {body!r} an <inertial>.",
)
TOTAL_MASS = warning(
    "mjcf.total_mass",
    "The compiler setting settotalmass is not applied, because some bodies have no known mass.",
)

_NEEDLESS = (
    "keys", "sensors", "skins", "flexes", "excludes", "pairs", "tuples", "texts", "numerics", "cameras", "lights",  # noqa: E501
)  # fmt: skip


@dataclass
class Compiled:
    """What MuJoCo made of the file."""

    path: Path
    model: Any  # the compiled MjModel
    name: str
    where: list[str]  # file and line of each body, by id
    bodies: list[
        Array | None
    ]  # ten parameters of each body in its own frame, by id; None where the file gives none
    notices: list[Notice]  # what was left out


def compile_mjcf(path: Path) -> Compiled:
    """Read and compile an MJCF file.

    Refuse a DOCTYPE, what is not MJCF, and what MuJoCo refuses.
    """
    has_includes = check_mjcf(path)
    notices: list[Notice] = []
    with _warnings_as_notices(notices):
        try:
            try:
                spec = mujoco.MjSpec.from_file(str(path))
            except ValueError as error:
                spec = read_tolerantly(path, error, notices)
            where = [str(path) if has_includes else _place(path, body) for body in spec.bodies]
            _refuse_ball_joints(spec, path, has_includes)
            _leave_out(spec, notices)
            plans = _plan_inertia(spec, path, notices)
            model, name = (
                spec.compile(),
                str(spec.modelname),
            )  # a name that is no UTF-8 is a ValueError, too
        except DescriptionError:
            raise
        except ValueError as error:
            raise DescriptionError(_complaint(path, error)) from None
    bodies: list[Array | None] = [None] * model.nbody
    places = [str(path)] * model.nbody
    for body, plan, place in zip(spec.bodies, plans, where):
        bodies[body.id] = _parameters(plan, model, body.id)
        places[body.id] = place
    return Compiled(path, model, name, places, bodies, notices)


def refused_by_mujoco(data: bytes, path: Path) -> str:
    """Return why MuJoCo cannot read an MJCF text that is to stand at `path`; "" where it can."""
    with _warnings_as_notices([]), trial_file(path, data) as trial:
        try:
            mujoco.MjModel.from_xml_path(str(trial))
        except ValueError as error:
            return " ".join(str(error).split())[:200]
    return ""


def set_place(element: etree._Element, steps: Steps) -> None:
    """Set the attributes pos and quat of an MJCF element; what is zero is left out."""
    T = matrix_of(steps)
    if T[:3, 3].any():
        element.set("pos", numbers_text(T[:3, 3]))
    if not np.array_equal(T[:3, :3], np.eye(3)):
        quaternion = np.empty(4)
        mujoco.mju_mat2Quat(quaternion, T[:3, :3].ravel())
        element.set("quat", numbers_text(quaternion))


def rotation(quaternion: Array) -> Array:
    """Return the rotation matrix (3, 3) of a quaternion (w, x, y, z)."""
    R = np.empty(9)
    mujoco.mju_quat2Mat(R, quaternion / np.linalg.norm(quaternion))
    return R.reshape(3, 3)


@contextlib.contextmanager
def _warnings_as_notices(notices: list[Notice]) -> Iterator[None]:
    """Turn MuJoCo's warnings into notices.

    Left to itself it writes a log file into the current folder.
    """
    before = mujoco.get_mju_user_warning()
    said: list[str] = []
    mujoco.set_mju_user_warning(said.append)
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            yield
    finally:
        mujoco.set_mju_user_warning(before)
        said += [str(warning.message) for warning in caught]
        notices += [WARNING(f"MuJoCo: {' '.join(text.split())}") for text in dict.fromkeys(said)]


def _complaint(path: Path, error: Exception) -> str:
    """Return MuJoCo's complaint in one line, with file and line where it knows one."""
    text = " ".join(str(error).split())
    line = re.search(r"line (?:number=)?(\d+)", text, re.IGNORECASE)
    hint = "; run xacro on the file first" if "xacro" in text or "${" in text else ""
    return f"{path}{':' + line[1] if line else ''}: MuJoCo cannot read it ({text}){hint}"


def _place(path: Path, item: Any) -> str:
    line = re.search(r"line (\d+)", str(item.info))
    return f"{path}:{line[1]}" if line else str(path)


def _refuse_ball_joints(spec: Any, path: Path, has_includes: bool) -> None:
    for joint in (joint for joint in spec.joints if joint.type == mujoco.mjtJoint.mjJNT_BALL):
        place = str(path) if has_includes else _place(path, joint if joint.info else joint.parent)
        raise DescriptionError(
            f"{place}: body {joint.parent.name!r} has a ball joint; only hinges, slides and the "
            "free joint of a base are understood, replace it by three hinges at one point"
        )


def _delete(spec: Any, items: Iterable[Any]) -> None:
    for item in list(items):
        spec.delete(item)


def _leave_out(spec: Any, notices: list[Notice]) -> None:
    for section in _NEEDLESS:
        _delete(spec, getattr(spec, section, ()))
    through_joint = (mujoco.mjtTrn.mjTRN_JOINT, mujoco.mjtTrn.mjTRN_JOINTINPARENT)
    _delete(
        spec,
        [
            motor
            for motor in spec.actuators
            if motor.trntype not in through_joint or motor.plugin.active
        ],
    )
    constraints = [
        equality for equality in spec.equalities if equality.type != mujoco.mjtEq.mjEQ_JOINT
    ]
    for equality in constraints:
        what = equality.type.name.removeprefix("mjEQ_").lower()
        between = [str(equality.name1), str(equality.name2)]
        text = (
            f"the {what} constraint {equality.name or ''!r} between {between[0]!r} and "
            f"{between[1]!r} is left out"
        )
        notices.append(CONSTRAINT(text, kind=what, between=between))
    _delete(spec, constraints)
    if count := len(list(spec.tendons)):
        notices.append(TENDONS(f"{count} tendons are left out", count=count))
    _delete(spec, spec.tendons)
    for item in (*spec.geoms, *spec.sites):
        item.material = ""
    _delete(spec, [*spec.materials, *spec.textures])
    # bodies that hold still keep their names: merging is ours to do
    spec.compiler.fusestatic = False
    spec.compiler.discardvisual = False


@dataclass
class _Given:
    """A body's inertia as the file gives it.

    About its own axes, or in full where that is not None.
    """

    mass: float
    com: Array
    diagonal: Array
    full: Array | None


_Plan = _Given | Literal["compiled"] | None
"""Where a body's parameters come from: given outright, computed by MuJoCo, or nowhere."""


def _parameters(plan: _Plan, model: Any, index: int) -> Array | None:
    if plan is None:
        return None
    R = rotation(model.body_iquat[index])
    if plan == "compiled":
        inertia = (R * model.body_inertia[index]) @ R.T
        return from_body(float(model.body_mass[index]), model.body_ipos[index], inertia)
    if plan.full is not None:
        return from_mujoco(plan.mass, plan.com, plan.full)
    return from_body(plan.mass, plan.com, (R * plan.diagonal) @ R.T)


def _plan_inertia(spec: Any, path: Path, notices: list[Notice]) -> list[_Plan]:
    """Decide for each body, take out meshes, and give MuJoCo an inertia it accepts where it need
    not compute one.
    """
    compiler = spec.compiler
    always = compiler.inertiafromgeom == mujoco.mjtInertiaFromGeom.mjINERTIAFROMGEOM_TRUE
    never = compiler.inertiafromgeom == mujoco.mjtInertiaFromGeom.mjINERTIAFROMGEOM_FALSE
    # settings that change numbers on purpose: then MuJoCo's own numbers count
    adjusts = compiler.boundmass > 0 or compiler.boundinertia > 0 or bool(compiler.balanceinertia)
    scales = compiler.settotalmass > 0
    plans: list[_Plan] = []
    for body in spec.bodies:
        if body.name == spec.worldbody.name:  # what stands on the ground does not move
            _delete(spec, body.geoms)
            plans.append(None)
            continue
        heavy = [] if never else [geom for geom in body.geoms if _has_mass(geom, compiler)]
        lost = [
            geom
            for geom in heavy
            if geom.meshname and not _mesh_is_there(spec, geom.meshname, path)
        ]
        by_geoms = bool(heavy) and (always or not body.explicitinertial)
        plan: _Plan = None
        needless = [
            geom for geom in body.geoms if geom.meshname or geom.hfieldname or geom.plugin.active
        ]
        if by_geoms and not lost:
            needless = [
                geom
                for geom in needless
                if geom not in heavy and (geom.meshname or geom.hfieldname)
            ]
        if by_geoms and lost:
            mesh = str(lost[0].meshname)
            text = (
                f"body {body.name!r}: its inertia comes from the mesh {mesh!r}, whose file is not "
                "there; unknown"
            )
            notices.append(LOST_MESH(text, body=str(body.name), mesh=mesh))
        elif by_geoms or (body.explicitinertial and (adjusts or scales)):
            plan = "compiled"
        elif body.explicitinertial:
            full = np.array(body.fullinertia, dtype=float)
            given = None if math.isnan(full[0]) else full
            plan = _Given(float(body.mass), np.array(body.ipos), np.array(body.inertia), given)
        plans.append(plan)
        _delete(spec, needless)
        if plan != "compiled":
            _give_placeholder(body, plan is not None and plan.full is None)
            _delete(spec, body.geoms)
    if scales and any(plan is None for plan in plans[1:]):
        compiler.settotalmass = -1
        notices.append(TOTAL_MASS("settotalmass is not applied: some bodies have no known mass"))
    for section, user in (("meshes", "meshname"), ("hfields", "hfieldname")):
        used = {getattr(geom, user) for geom in spec.geoms} - {""}
        _delete(
            spec,
            [asset for asset in getattr(spec, section) if not {asset.name, _stem(asset)} & used],
        )
    return plans


def _has_mass(geom: Any, compiler: Any) -> bool:
    lowest, highest = compiler.inertiagrouprange
    surfaces = (mujoco.mjtGeom.mjGEOM_PLANE, mujoco.mjtGeom.mjGEOM_HFIELD)
    if not lowest <= geom.group <= highest or geom.type in surfaces:
        return False
    return bool(geom.density != 0 if math.isnan(geom.mass) else geom.mass != 0)


def _mesh_is_there(spec: Any, name: str, path: Path) -> bool:
    mesh = next((mesh for mesh in spec.meshes if name in (mesh.name, _stem(mesh))), None)
    if mesh is None or not mesh.file:
        return mesh is not None  # its points stand in the MJCF itself
    file = os.path.basename(mesh.file) if spec.strippath else mesh.file
    return bool((path.parent / (spec.compiler.meshdir or "") / file).is_file())


def _stem(asset: Any) -> str:
    return str(os.path.splitext(os.path.basename(asset.file))[0])


def _give_placeholder(body: Any, keep_orientation: bool) -> None:
    """Give MuJoCo some inertia it accepts.

    The orientation of the given one is still resolved by it.
    """
    body.explicitinertial, body.mass, body.inertia, body.ipos = True, 1.0, np.ones(3), np.zeros(3)
    body.fullinertia = np.array([math.nan, 0, 0, 0, 0, 0])
    if not keep_orientation:
        body.iquat = np.array([1.0, 0, 0, 0])


def read_tolerantly(path: Path, first: ValueError, notices: list[Notice]) -> Any:
    """Return the MjSpec of a file without its unknown parts.

    What was dropped is reported in `notices`. MuJoCo's `first` complaint is raised again where it
    is about something else, or about something that matters.
    """
    if not _COMPLAINT.search(str(first)):
        raise first
    root = _tree(path)
    _inline(root, path.parent, 0)
    _drop_foreign(root, notices)
    for _ in range(_LIMIT):
        # written on fresh lines and parsed again, so that MuJoCo's line numbers are those of the
        # elements
        text = etree.tostring(root, encoding="unicode")
        root = etree.fromstring(text)
        try:
            spec = mujoco.MjSpec.from_string(text)
        except ValueError as error:
            _drop(root, error, first, notices)
            continue
        spec.modelfiledir = str(path.parent)
        return spec
    raise first


def _tree(path: Path) -> etree._Element:
    """Return the root of a file without a DOCTYPE; elements of undeclared namespaces are kept."""
    if root_element(path) != "mujoco":
        raise DescriptionError(
            f"{path}: the root element is <{root_element(path)}>; expected <mujoco>"
        )
    parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, recover=True)
    return etree.fromstring(read_bytes(path), parser)


def _inline(root: etree._Element, folder: Path, depth: int) -> None:
    """Put the contents of included files in the place of <include>, as MuJoCo does."""
    for include in [node for node in root.iter("include") if node.get("file")]:
        parent, file = include.getparent(), folder / str(include.get("file"))
        if depth > 50:
            raise DescriptionError(f"{file}: files include each other in a ring")
        if parent is None:
            continue
        included = _tree(file)
        _inline(included, folder, depth + 1)
        position = parent.index(include)
        parent[position : position + 1] = list(included)


def _drop(top: etree._Element, error: ValueError, first: ValueError, notices: list[Notice]) -> None:
    """Drop the element or attribute that MuJoCo complains about."""
    match = _COMPLAINT.search(str(error))
    if match is None:
        raise error
    what, attribute, tag, line = match.groups()
    nodes = list(top.iter(tag))
    node = next(
        (node for node in nodes if str(node.sourceline) == line), nodes[0] if nodes else None
    )
    parent = None if node is None else node.getparent()
    needed = difflib.get_close_matches(tag.lower(), _NEEDED, n=1, cutoff=0.75)
    if node is not None and parent is not None and what == "element" and not needed:
        parent.remove(node)
        notices.append(_unknown(tag))
    elif node is not None and attribute and attribute in node.attrib and tag not in _NEEDED:
        del node.attrib[attribute]
        notices.append(_unknown(tag, attribute))
    else:
        raise first


def _drop_foreign(top: etree._Element, notices: list[Notice]) -> None:
    """Drop elements and attributes of other namespaces, declared or not: leftovers of xacro,
    annotations of tools.
    """
    for node in [node for node in top.iter() if isinstance(node.tag, str)]:
        parent = node.getparent()
        if _is_foreign(str(node.tag)) and parent is not None:
            local = str(node.tag).rsplit("}", 1)[-1]
            notices.append(_unknown(f"{node.prefix}:{local}" if node.prefix else local))
            parent.remove(node)
            continue
        for key in [key for key in node.attrib if _is_foreign(str(key))]:
            del node.attrib[key]
    etree.cleanup_namespaces(top)


def _is_foreign(name: str) -> bool:
    return name.startswith("{") or ":" in name


def _unknown(tag: str, attribute: str = "") -> Notice:
    what = f"an attribute {attribute!r} of <{tag}>" if attribute else f"an element <{tag}>"
    return UNKNOWN_WORD(
        f"{what} that MJCF does not know is left out", element=tag, attribute=attribute
    )
