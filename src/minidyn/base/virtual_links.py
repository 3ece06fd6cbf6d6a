"""From any set of base parameters to virtual links that carry it.

The link between `base` and minimal dynamics. Base parameters are as many combinations of standard
ones. Take as many single parameters of links on which the combinations are independent, put all
others to zero, and the remaining ones follow from the base parameters by one linear map. Which
single parameters are best is a matter of operations: `_FIRST` lists them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from minidyn.arrays import Array, frozen
from minidyn.base.base_map import BaseMap
from minidyn.base.closed_form.mlc import mlc_base
from minidyn.dynamics.papers.chain import is_serial
from minidyn.dynamics.papers.minimal import VirtualLinks
from minidyn.dynamics.tree import REAL, constant_placement
from minidyn.dynamics.vectors import to_child
from minidyn.errors import MinidynError
from minidyn.graph.targets.native.kernel import Recent
from minidyn.model.drives import Drive
from minidyn.model.geometry import TOLERANCE, Step
from minidyn.model.mdh_frames import to_mdh
from minidyn.model.mdh_rows import MdhRow, check_open, is_mdh, mdh_rows
from minidyn.model.robot import Robot

_DEPENDENT = 1e-8  # a column that the others make up to this share of itself is dependent

# the order in which parameters of a link are tried, turning and sliding: tensor, and second moments
_FIRST = {
    (True, False): (5, 0, 1, 2, 4, 6, 7),
    (False, False): (9, 6, 7, 8),
    (True, True): (0, 3, 1, 2, 4, 6, 7),
    (False, True): (9, 6, 7, 8),
}


@dataclass(frozen=True)
class Carrier:
    """Virtual links and how base parameters of a map make their values."""

    virtual: VirtualLinks
    base: BaseMap  # the closed-form set of the rigid chain that they carry
    matrix: Array  # (m, b) with values = matrix @ beta of that set


_CHAINS: Recent[tuple[str, float], tuple[Robot, Array] | None] = Recent(
    64
)  # by the robot's structure, as the carriers
_CARRIERS: Recent[tuple[str, str, bool], Carrier] = Recent(64)


def rigid_chain(robot: Robot, tolerance: float = TOLERANCE) -> tuple[Robot, Array] | None:
    """Return (robot in mDH frames without drives, T) with phi_rigid = T phi, or None where it is
    not an open chain.

    Neither is one whose axes are so nearly parallel that their common normal is far away. The
    answer is remembered by the robot's structure; values of the returned robot are not to be read.
    """
    key = robot.structure_fingerprint, tolerance
    if key not in _CHAINS:
        _CHAINS[key] = _rigid_chain(robot, tolerance)
    return _CHAINS[key]


def _rigid_chain(robot: Robot, tolerance: float) -> tuple[Robot, Array] | None:
    if robot.loops or any(joint.follows is not None for joint in robot.joints):
        return None
    changed, T = to_mdh(robot, tolerance=tolerance)
    if not is_mdh(changed) or not is_serial(mdh_rows(changed)):
        return None
    inertial = [k for k, column in enumerate(changed.layout.columns) if column.is_inertial]
    joints = tuple(replace(joint, drive=Drive()) for joint in changed.joints)
    rigid = replace(changed, joints=joints, parameters=changed.parameters[inertial], loops=())
    return rigid, frozen(T[inertial])


def generic_chain(robot: Robot) -> Robot:
    """Return a serial robot with the same joints and general geometry, so that nothing folds
    away.
    """
    check_open(robot, "operation counts")
    joints = to_mdh(robot)[0].joints
    turning, k = np.array([joint.turns for joint in joints]), np.arange(len(joints))
    # the first joint stays on the base: its alpha, a and d say where the base frame is, not how the
    # arm is built
    table = {
        "alpha": 0.5 + 0.07 * k,
        "a": 0.3 + 0.011 * k,
        "d": (0.2 + 0.013 * k) * turning,
        "theta": (0.4 + 0.03 * k) * ~turning,
    }
    letters, parents = (
        "".join("R" if joint.turns else "P" for joint in joints),
        [joint.parent + 1 for joint in joints],
    )
    general = {name: values * (k > 0) for name, values in table.items()}
    return Robot.from_mdh(
        letters, **general, gravity=robot.gravity, parent=parents, name=robot.name
    )


def _carrier(robot: Robot, for_: str, moments: bool) -> Carrier:
    base = mlc_base(robot, "1999", for_, 0.0)  # of a chain whose geometry is decided
    rows = mdh_rows(robot)
    matrix = base.matrix
    chosen: list[tuple[int, int]] = []
    columns: list[Array] = []
    left = np.array(matrix)
    for link, row in sorted(enumerate(rows), key=lambda item: -item[0]):
        for place in _FIRST[row.turning, moments]:
            if len(chosen) == base.rank:
                break
            column = matrix[:, 10 * link : 10 * link + 10] @ _direction(place, moments)
            rest = left[:, 10 * link : 10 * link + 10] @ _direction(place, moments)
            size = float(np.linalg.norm(rest))
            if size <= _DEPENDENT * max(float(np.linalg.norm(column)), 1e-300):
                continue
            chosen.append((link, place))
            columns.append(column)
            left = left - np.outer(rest, rest @ left) / size**2
    if len(chosen) < base.rank:
        raise MinidynError(
            f"robot {robot.name!r}: its minimal set cannot be carried by virtual links"
        )
    order = sorted(range(len(chosen)), key=lambda k: chosen[k])
    inverse = (
        np.linalg.inv(np.stack([columns[k] for k in order], axis=1)) if order else np.zeros((0, 0))
    )
    virtual = VirtualLinks(
        rows, tuple(chosen[k] for k in order), _base_acceleration(robot, rows), moments
    )
    return Carrier(virtual, base, inverse)


def carrier_of(rigid: Robot, for_: str = "torque", moments: bool = True) -> Carrier:
    """Return virtual links that carry the closed-form minimal set of a rigid chain in mDH frames.

    They determine torques or, with `for_` "inertia" (where fewer may do), the inertia matrix: by
    second moments or by inertia tensors.
    """
    key = rigid.structure_fingerprint, for_, moments
    if key not in _CARRIERS:
        _CARRIERS[key] = _carrier(rigid, for_, moments)
    return _CARRIERS[key]


def _direction(place: int, moments: bool) -> Array:
    """What one unit at a place changes in XX XY XZ YY YZ ZZ MX MY MZ M."""
    change = np.zeros(10)
    if not moments or place > 5:
        change[place] = 1.0
    elif place in (1, 2, 4):
        change[place] = -1.0
    else:
        change[[k for k in (0, 3, 5) if k != place]] = 1.0
    return change


def _base_acceleration(robot: Robot, rows: tuple[MdhRow, ...]) -> tuple[float, float, float]:
    """Minus gravity in the frame before the first joint's x steps."""
    turns, _ = constant_placement(robot.base, REAL)
    first, _ = constant_placement((Step("rz", rows[0].gamma),) if rows[0].gamma else (), REAL)
    x, y, z = to_child((*turns, *first), [-float(component) for component in robot.gravity])
    return float(x) + 0.0, float(y) + 0.0, float(z) + 0.0
