"""The identified model for other programs.

TOML, URDF, MJCF and C, each predicting as the estimate does, and more. A URDF or MJCF that the
robot came from keeps its meshes and everything else; only inertia and drives change. What such a
file cannot say stands in a side file that `md.load` finds; other programs do not read it, so that a
notice names it with the error it causes on test data. C code has the numbers baked in. Files of
other consumers are made by `minidyn.codegen.consumers`: a new one is a file there with a function
`write`, and a line in TARGETS.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from minidyn.arrays import Array
from minidyn.base.base_map import BaseMap
from minidyn.codegen.consumers import tool
from minidyn.codegen.files import Written, c_model, said, save
from minidyn.dynamics.functions import inverse_dynamics, torques_by_parts
from minidyn.errors import DescriptionError, MinidynError, NotWritten, UnknownName, Unsupported
from minidyn.files import check_outputs, new_folder, write_atomically
from minidyn.formats.load import load
from minidyn.formats.side_file import SIDE
from minidyn.formats.urdf.read import DYNAMICS
from minidyn.formats.urdf.update import inertial_numbers, update_urdf
from minidyn.formats.xml_file import root_element
from minidyn.identification.consistency.certificate import drive_numbers
from minidyn.identification.consistency.consistency import make_consistent
from minidyn.identification.flexibility import Flexibility
from minidyn.identification.known_torque import KnownTorque
from minidyn.identification.sizes import ROUNDING
from minidyn.model.parameters import possible_body
from minidyn.model.robot import Robot, require_fixed_base
from minidyn.notices import Notice, warning
from minidyn.text import file_stem, plain_percent

if TYPE_CHECKING:
    from minidyn.identification.validate import Validation

LEFT_OUT = warning(
    "export.left_out",
    "A format cannot describe the robot; its file is not written.",
    "Use TOML, which can say everything, or change what the sentence names.",
)
WRITTEN_ANEW = warning(
    "export.written_anew",
    "The file the robot came from cannot take the parameters; a new file without meshes is "
    "written.",
    "Give the robot's own URDF or MJCF as source= if the meshes are needed.",
)
NEAREST = warning(
    "export.nearest",
    "The estimate is not physically consistent: a simulator's file holds the nearest consistent "
    "model.",
    "Identify with consistent=True (--consistent) if the simulator is to simulate the estimate "
    "itself.",
)
CANNOT_SAY = warning(
    "export.cannot_say",
    "A format has no words for parts of the model: a program that reads the file alone computes "
    "without them. Their error on test data is given where there are any.",
    "Use C code, an FMU or TOML, which hold the whole model, or add what is missing to the "
    "program's torques.",
)

RIGID = warning(
    "export.flexibility",
    "Joints of the model give way, which exported files do not say: they hold the rigid model.",
    "Add the torque of `estimate.flexibility` where motions are fast, or give its stiffness to a "
    "simulator that has elastic joints.",
)

FORMATS = {"toml": "ROBOT.toml", "urdf": "ROBOT.urdf", "mjcf": "ROBOT.xml", "c": "model.c"}
"""Formats that are written where none is named, and the file of each in a folder: `file_name`."""

TARGETS = {
    "toml": "ROBOT.toml",
    "urdf": "ROBOT.urdf",
    "mjcf": "ROBOT.xml",
    "mujoco": "ROBOT.xml",
    "c": "model.c",
    "pinocchio": "ROBOT.urdf",
    "drake": "drake.urdf",
    "fmu": "ROBOT.fmu",
    "ros2_control": "ros2_control",
    "usd": "ROBOT.usda",
    "isaac": "isaac_lab.py",
    "franka": "endeffector-config.json",
    "ur": "payload.script",
}
"""All that can be asked for, formats and consumers, and the file of each in a folder: `file_name`.
"""

UNNAMED = "robot"
"""First part of the names of files of a robot whose name no file can have."""

_SAME_AS = {"mujoco": "mjcf"}
_TOOLS = ("franka", "ur")  # consumers that get the robot's load
_WITH_URDF = ("pinocchio", "drake")  # consumers whose files stand beside a URDF or change one
_SIMULATORS = ("drake", "usd")  # consumers that refuse bodies that are not physically consistent
_ENDINGS = {
    ".toml": "toml",
    ".urdf": "urdf",
    ".xml": "mjcf",
    ".mjcf": "mjcf",
    ".c": "c",
    ".fmu": "fmu",
    ".usda": "usd",
}
_WRONG = (
    ".json",
    ".yaml",
    ".yml",
    ".sdf",
    ".xacro",
    ".h",
    ".cpp",
    ".py",
    ".txt",
    ".md",
    ".html",
)  # not folders
MAX_CENTRE = 1e3  # rounding: m: a centre of mass beyond this has lost the digits of its inertia


@dataclass(frozen=True, eq=False)
class Identified:
    """What is exported of an estimate: a robot, its base parameters and how well they are known."""

    robot: Robot  # with its identified parameters
    base: BaseMap
    beta: Array  # values of the base parameters (b,)
    covariance: Array  # of beta (b, b)
    # what was subtracted before the fit, and is part of predictions; None: nothing
    known_torque: KnownTorque | None = field(default=None, kw_only=True)

    @property
    def of_data(self) -> Array:
        """Covariance of the base parameters as the data alone give them (b, b)."""
        return self.covariance

    @property
    def flexibility(self) -> Flexibility | None:
        """Joints that give way; None: stiff ones."""
        return None


@dataclass(frozen=True)
class Exported:
    """What was written.

    Attributes:
        files: Paths, in the order of FORMATS.
        notices: What could not be written, or only differently.
    """

    files: tuple[Path, ...]
    notices: tuple[Notice, ...] = ()

    def __repr__(self) -> str:
        more = f"; {len(self.notices)} notices" if self.notices else ""
        return f"Exported({', '.join(path.name for path in self.files)}{more})"


def export(
    estimate: Identified,
    path: str | os.PathLike[str],
    to: Iterable[str] | str | None = None,
    *,
    source: str | os.PathLike[str] | bool | None = None,
    test: Validation | None = None,
) -> Exported:
    """Write an identified model for other programs: `Estimate.export`."""
    require_fixed_base(estimate.robot, "export (md.save(estimate.robot, path) writes its robot)")
    if estimate.known_torque is not None:
        robot, rest = estimate.known_torque.on(estimate.robot)
        made = export(
            replace(estimate, robot=robot, known_torque=None), path, to, source=source, test=test
        )
        return replace(made, notices=(*made.notices, *rest))
    target = Path(path)
    ending = target.suffix.lower()
    origin = _source(estimate, source)
    inputs = [origin, None if origin is None else origin.with_name(origin.name + SIDE)]
    if ending in _ENDINGS and not os.path.isdir(target):
        if to is not None:
            raise DescriptionError(f"{target}: the ending chooses the format; to= is for a folder")
        check_outputs([target], inputs, ours=False)
        files, notices = _one(estimate, _ENDINGS[ending], target, origin, test)
        return Exported(tuple(files), (*notices, *_rigid(estimate)))
    if ending in _WRONG and not os.path.isdir(target):
        raise DescriptionError(
            f"{target}: the name ends with {ending!r}; expected a folder, or one of "
            f"{', '.join(_ENDINGS)}"
        )
    chosen = _chosen(to)
    written: list[Path] = []
    told = _rigid(estimate)
    files_of = {name: file_name(name, estimate.robot.name) for name in chosen}
    stale = [files_of[name] + SIDE for name in chosen if name in ("urdf", "mjcf", *_WITH_URDF)]
    with new_folder(target, stale, inputs=inputs) as folder:
        for name in chosen:
            before = {file for file in folder.rglob("*") if file.is_file()}
            try:
                files, notices = _one(estimate, name, folder / files_of[name], origin, test)
            except NotWritten:
                raise
            except (
                MinidynError
            ) as error:  # a name XML cannot hold, say: the other formats are written all the same
                for left in (
                    file for file in folder.rglob("*") if file.is_file() and file not in before
                ):
                    left.unlink()
                told.append(LEFT_OUT(f"no {name.upper()}: {error}", format=name, reason=str(error)))
                continue
            written += [target / file.relative_to(folder) for file in files]
            told += notices
        if not written:
            raise Unsupported("; ".join(map(str, told)))
    return Exported(tuple(dict.fromkeys(written)), tuple(dict.fromkeys(told)))


def file_name(target: str, robot_name: str) -> str:
    """Return the name of a target's file in a folder: "panda.urdf" for the robot "panda"."""
    name = TARGETS[target].replace("ROBOT", file_stem(robot_name, UNNAMED))
    is_taken = name != TARGETS[target] and name.lower() in TARGETS.values()  # a robot called drake
    return TARGETS[target].replace("ROBOT", UNNAMED) if is_taken else name


def _rigid(estimate: Identified) -> list[Notice]:
    """Return a notice where joints of the estimate give way: files do not say so."""
    bent = estimate.flexibility
    if bent is None or not bent.compliance.any():
        return []
    every = zip(bent.robot.joint_names, bent.stiffness.tolist(), bent.units)
    shown = [(name, size, unit) for name, size, unit in every if np.isfinite(size)]
    text = (
        "files hold the rigid model; joints give way: "
        f"{', '.join(f'{n} {size:.3g} {unit}' for n, size, unit in shown)}"
    )
    return [RIGID(text, stiffness={name: size for name, size, _ in shown}, encoder=bent.encoder)]


def _chosen(to: Iterable[str] | str | None) -> list[str]:
    """Return what is asked for, each once, in the order of TARGETS."""
    asked = [to] if isinstance(to, str) else list(FORMATS if to is None else to)
    for name in asked:
        if name not in TARGETS:
            raise UnknownName("format", name, TARGETS)
    names = {_SAME_AS.get(name, name) for name in asked}
    return [name for name in TARGETS if name in names]


def _source(estimate: Identified, source: str | os.PathLike[str] | bool | None) -> Path | None:
    """Return the description that is to be kept, None where there is none."""
    if source is False:
        return None
    if source is None or source is True:
        text = estimate.robot.source or estimate.base.robot.source
        found = Path(text) if text and "\n" not in text and len(text) < 4096 else Path()
        usable = found.suffix.lower() in (".urdf", ".xml", ".mjcf") and found.is_file()
        return found if usable else None
    given = Path(source)
    if not given.is_file():
        raise DescriptionError(
            f"{given}: no such file; source= is the URDF or MJCF whose meshes are kept"
        )
    return given


def _one(
    estimate: Identified, name: str, path: Path, origin: Path | None, test: Validation | None
) -> tuple[list[Path], list[Notice]]:
    """Write one format; return the files and what to tell."""
    robot = estimate.robot
    if name == "toml":
        save(robot, path)
        return [path], []
    if name == "c":
        texts, told = c_model(robot, path.stem)
        files = [path.with_name(file) for file in texts]
        for file, text in zip(files, texts.values()):
            write_atomically(file, text.encode())
        return files, list(told)
    notices: list[Notice] = []
    if name == "mjcf":
        made = _mjcf(estimate, path, origin, notices)
    elif name == "urdf":
        exact = describable(estimate)
        _urdf(exact, path, origin, notices)
        made = Written(with_side_file(path), exact, said(exact, DYNAMICS.values(), gravity=False))
    else:
        made = _consumer(estimate, name, path, origin, notices)
    notices += _not_said(name, path, made, robot, test)
    return list(made.files), notices


def with_side_file(path: Path) -> tuple[Path, ...]:
    """Return a file, and its side file where there is one."""
    beside = path.with_name(path.name + SIDE)
    return (path, beside) if beside.is_file() else (path,)


def consumer(name: str) -> Any:
    """Return the module that writes for a consumer."""
    return import_module(f"minidyn.codegen.consumers.{name}")


def _consumer(
    estimate: Identified, name: str, path: Path, origin: Path | None, notices: list[Notice]
) -> Written:
    """Write the files of a consumer that has a module of its own."""
    module: Any = tool if name in _TOOLS else consumer(name)
    robot = (
        _simulable(estimate, path.name, notices) if name in _SIMULATORS else describable(estimate)
    )
    files: tuple[Path, ...] = ()
    if name in _WITH_URDF:
        _urdf(robot, path, origin, notices)
        files = with_side_file(path)
    made: Written = module.write(robot, path)
    notices += made.notices
    return replace(made, files=(*files, *made.files))


def _not_said(
    name: str, path: Path, made: Written, robot: Robot, test: Validation | None
) -> list[Notice]:
    """Return a notice of what a file cannot say of a robot, with the error it causes on test data
    where there are any.

    What predictions have besides the robot (known torque, the friction of a log) is in no file and
    no part of it.
    """
    missing = made.missing
    if not missing:
        return []
    words = [
        what + (f" ({len(joints)} joints)" if len(joints) > 1 else "")
        for what, joints in missing.items()
    ]
    text = f"{path.name} has no words for {', '.join(words)} (format {name})"
    errors: dict[str, float] = {}
    if test is not None and test.motion is not None:
        q, dq, ddq = (
            np.asarray(signal) for signal in (test.motion.q, test.motion.dq, test.motion.ddq)
        )
        size = float(np.linalg.norm(test.measured))
        whole, said = (torques_by_parts([one], q, dq, ddq)[0] for one in (robot, made.said))
        lacks = whole - said
        errors["error"] = float(np.linalg.norm(test.residual + lacks)) / size
        errors["whole"] = float(np.linalg.norm(test.residual)) / size
        text += (
            f"; without that the error on test data is {plain_percent(errors['error'])}, that of "
            "the whole model "
        )
        text += plain_percent(errors["whole"])
    return [CANNOT_SAY(text, target=name, file=path.name, missing=missing, **errors)]


def _urdf(robot: Robot, path: Path, origin: Path | None, notices: list[Notice]) -> None:
    if origin is not None and root_element(origin) == "robot":
        try:
            notices += update_urdf(robot, origin, path, drives=True)
            _require_same_torque(robot, path)
            return
        except DescriptionError as error:
            notices.append(
                WRITTEN_ANEW(f"URDF written anew, without meshes: {error}", format="urdf")
            )
    save(robot, path)
    _require_same_torque(robot, path)


def _mjcf(estimate: Identified, path: Path, origin: Path | None, notices: list[Notice]) -> Written:
    from minidyn.formats.mjcf.read import HELD
    from minidyn.formats.mjcf.update import update_mjcf
    from minidyn.formats.mjcf.write import SAYABLE, refuse_in_mjcf, write_mjcf

    exact = describable(estimate)
    refuse_in_mjcf(exact)
    robot = _simulable(estimate, path.name, notices)
    if origin is not None and root_element(origin) == "mujoco":
        try:
            notices += update_mjcf(robot, origin, path, exact=exact)
            _require_same_torque(exact, path)
            return Written(with_side_file(path), robot, said(robot, HELD))
        except DescriptionError as error:
            notices.append(
                WRITTEN_ANEW(f"MJCF written anew, without meshes: {error}", format="mjcf")
            )
    seen = origin if origin is not None and root_element(origin) == "robot" else None
    notices += write_mjcf(robot, path, exact=exact, seen=seen)
    _require_same_torque(exact, path)
    return Written(with_side_file(path), robot, said(robot, SAYABLE, coupled=True))


def _simulable(estimate: Identified, what: str, notices: list[Notice]) -> Robot:
    """Return the robot with bodies that simulators accept.

    The nearest consistent one where its own are none.
    """
    robot = describable(estimate)
    try:
        return _possible(robot)
    except DescriptionError:
        notices.append(
            NEAREST(
                "the estimate is not physically consistent, and simulators refuse such bodies: "
                f"{what} holds the nearest consistent model",
                file=what,
            )
        )
    return _possible(nearest_consistent(estimate))


def _possible(robot: Robot) -> Robot:
    """Return the robot with bodies a little inside of what bodies can have.

    Raise where they are outside.
    """
    values = robot.parameters.copy()
    for name, value in zip(*drive_numbers(robot, values)):
        if value < 0:
            raise DescriptionError(f"drive parameter {name} is negative")
    for part, name, joint in zip(robot.layout.links, robot.link_names, robot.joints):
        if joint.kind != "fixed":
            values[part] = possible_body(values[part], name)
    return robot.with_parameters(values)


def _require_same_torque(robot: Robot, path: Path) -> None:
    """Raise where what was written, read again, gives other torques: at three random states.

    Joints that are locked in the robot are locked again.
    """
    back = load(path)
    locked = {name: at for name, at in robot.locks if name in back.joint_names}
    back = back.locked(locked)
    if set(back.joint_names) != set(robot.joint_names):
        raise DescriptionError(f"{path.name}: would have other joints than robot {robot.name!r}")
    order = [back.joint_names.index(name) for name in robot.joint_names]
    mine = np.random.default_rng(0).uniform(-1, 1, (3, 3, robot.n))  # q, dq and ddq of three states
    theirs = np.empty_like(mine)
    theirs[..., order] = mine
    wanted = inverse_dynamics(robot, *mine)
    gap = np.abs(inverse_dynamics(back, *theirs)[..., order] - wanted)
    if not gap.max() <= ROUNDING * max(float(np.abs(wanted).max()), 1e-3):
        joint = robot.joint_names[int(gap.max(axis=0).argmax())]
        raise DescriptionError(
            f"{path.name}: would give another torque of joint {joint!r} (by {gap.max():.3g})"
        )


def describable(estimate: Identified) -> Robot:
    """Return the robot with parameters that can be written as mass, centre of mass and inertia
    about it.

    Parameters that were not made consistent may have first moments without mass. The data leave
    masses open, so that others with the same rigid torques can be chosen: the nearest with sane
    masses, drives as they are.
    """
    robot, base = estimate.robot, estimate.base
    phi = np.nan_to_num(robot.parameters)
    wanted = phi.copy()
    for part in robot.layout.links:
        ten = wanted[part]
        numbers = inertial_numbers(ten)
        if numbers is None or np.abs(numbers[1]).max() > MAX_CENTRE:
            ten[9] = max(1.0, 2.0 * float(np.abs(ten[6:9]).max()))
    if np.array_equal(wanted, robot.parameters):
        return robot
    rigid = [column.index for column in robot.layout.columns if column.is_inertial]
    B = base.matrix[:, [column.index for column in base.robot.layout.columns if column.is_inertial]]
    change = (wanted - phi)[rigid]
    moved = phi.copy()
    change = change - np.linalg.lstsq(B, B @ change, rcond=1e-12)[0]
    # what rounding leaves would be first moments of links that have no mass
    moved[rigid] += np.where(np.abs(change) > 1e-12 * np.abs(change).max(), change, 0.0)
    return robot.with_parameters(moved)


def nearest_consistent(estimate: Identified) -> Robot:
    """Return the physically consistent robot that is nearest to an estimate, measured by its own
    covariance.
    """
    size, directions = np.linalg.eigh(estimate.covariance)
    floor = max(float(size[-1]), 1e-300) * 1e-12
    # a hundredth of the noise: what pulls parameters that data leave open must not move those they
    # show
    R = 100.0 * (directions / np.sqrt(np.maximum(size, floor))).T
    known = estimate.base.robot.parameters
    prior = None if np.isnan(known).all() else known
    fit = make_consistent(estimate.robot, estimate.base, R, R @ estimate.beta, prior=prior)
    if not fit.certificate.consistent:
        raise MinidynError(
            "no physically consistent model near the estimate was found; identify with "
            "consistent=True"
        )
    return replace(estimate.robot.with_parameters(fit.phi), notices=())
