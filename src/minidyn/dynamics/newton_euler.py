"""Recursions over the links.

Motions, inverse dynamics by Newton and Euler, the inertia matrix by composite bodies. Everything is
in link frames. With A = [ω̇×] + [ω×][ω×], a point r fixed to a link has acceleration a + A r, so
that force and moment about the link's origin are linear in its ten parameters:

    f = M a + A [MX MY MZ],    n = J ω̇ + ω × J ω + [MX MY MZ] × a

Composite bodies are each link with all it carries, seen as one rigid body.

`regrouped` gives the same torques from fewer numbers: what a joint cannot show is moved to the link
below it. A rod along the axis of a rotational joint does not notice that the joint turns: its mass,
its first moment along the axis and its transverse inertia act as if it were fixed to the parent.
The inertia tensor of a link that slides acts as if it were the parent's. So each link hands these
down, towards the base, where they vanish. Torques, inertia and Coriolis matrices stay as they are;
several of a link's ten parameters become zero and the recursions shrink. Link frames are put on the
joint axes first. Parameters may be floats or graph nodes: only + - * by constants are used.

The regressor Y(q, dq, ddq) with tau = Y phi: the twist that unit speed of joint j gives link i
meets the wrench that unit value of each of link i's parameters needs. Ten short dot products per
pair, instead of carrying ten wrenches down the chain.

Motion along a reference is what adaptive control needs instead of measured accelerations. The
velocity torques are quadratic in the speeds. Their symmetric polar form, linear in dq and in a
reference speed dq_r alike, is C(q, dq) dq_r with the Christoffel matrix C, the one that makes Ṁ -
2C skew-symmetric. So every product of two speeds in the Newton-Euler recursion is replaced by the
mean of its two mixed products.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from minidyn.dynamics.tree import REAL, Move, Tree, constant_placement
from minidyn.dynamics.vectors import (
    Scalar,
    Turn,
    Vector,
    add,
    cross,
    dot,
    plus,
    scale,
    shift_tensor,
    subtract,
    tensor_product,
    to_parent,
    turn_tensor,
)
from minidyn.model.robot import Robot


@dataclass(frozen=True, slots=True)
class LinkMotion:
    """Motion of one link in its own frame."""

    w: Vector  # angular velocity ω
    dw: Vector  # angular acceleration ω̇
    A: list[Vector]  # [ω̇×] + [ω×][ω×], rows
    a: Vector  # acceleration of the origin, minus gravity
    ww: Vector  # products (wy wz, wz wx, wx wy)


def link_motions(
    tree: Tree, dq: Sequence[Scalar], ddq: Sequence[Scalar], gravity: bool = True
) -> list[LinkMotion]:
    """Return the motion of every link for joint speeds and accelerations of all joints.

    Gravity enters as an acceleration -g of the base.

    Implements: LuMeng1993 eq. (66)-(69).
    """
    base = _root_motion(tree, dq, ddq, gravity)
    found: list[LinkMotion] = []
    for index, (move, speed, acceleration) in enumerate(zip(tree.moves, dq, ddq)):
        parent = base if move.parent < 0 else found[move.parent]
        at_joint = add(parent.a, matrix_product(parent.A, move.shift))
        w, dw, a = (move.vector_to_child(v) for v in (parent.w, parent.dw, at_joint))
        if move.turning:
            own = scale(speed, move.axis)
            dw = add(add(dw, scale(acceleration, move.axis)), cross(w, own))
            w = add(w, own)
        elif not move.fixed:
            own = scale(speed, move.axis)
            a = add(add(a, scale(acceleration, move.axis)), scale(2, cross(w, own)))
        motion = _motion(w, dw, a)
        if move.lever is not None:
            motion = _motion(w, dw, add(a, matrix_product(motion.A, move.lever)))
        found.append(motion)
        for quantity, values in (("w", w), ("dw", dw), ("a", motion.a)):
            tree.note(quantity, index, values)
    return found


def _root_motion(
    tree: Tree, dq: Sequence[Scalar], ddq: Sequence[Scalar], gravity: bool
) -> LinkMotion:
    """Return the motion of the root frame: at rest, or that of a free base."""
    zero = tree.zero
    lift = [zero - g if gravity else zero for g in tree.gravity]
    if tree.axes is None:
        return _motion(tree.zeros, tree.zeros, lift)
    (v, w), (dv, dw) = tree.root_vectors(dq), tree.root_vectors(ddq)
    return _motion(w, dw, add(add(dv, cross(w, v)), lift))


def link_wrench(motion: LinkMotion, phi: Sequence[Scalar]) -> tuple[Vector, Vector]:
    """Return (force, moment about the origin) that move a link with parameters XX ... M.

    Implements: Lin1992 eq. (51)-(52), corrected as in ERRATA D; fifteen products for the moment.
    """
    XX, XY, XZ, YY, YZ, ZZ, MX, MY, MZ, M = phi
    A, a, dw, ww = motion.A, motion.a, motion.dw, motion.ww
    h = [MX, MY, MZ]
    force = add(scale(M, a), matrix_product(A, h))
    moment = [
        XX * dw[0] + (ZZ - YY) * ww[0] - XY * A[2][0] + XZ * A[1][0] + YZ * (A[1][1] - A[2][2]),
        YY * dw[1] + (XX - ZZ) * ww[1] - YZ * A[0][1] + XY * A[2][1] + XZ * (A[2][2] - A[0][0]),
        ZZ * dw[2] + (YY - XX) * ww[2] - XZ * A[1][2] + YZ * A[0][2] + XY * (A[0][0] - A[1][1]),
    ]
    return force, add(moment, cross(h, a))


def joint_torques(
    tree: Tree,
    dq: Sequence[Scalar],
    ddq: Sequence[Scalar],
    phi: Sequence[Sequence[Scalar]],
    gravity: bool = True,
) -> list[Scalar]:
    """Return the torque or force of every joint, rigid links only (drives are added elsewhere), XX
    ... M of each.
    """
    return torques_of_motions(tree, link_motions(tree, dq, ddq, gravity), phi)


def torques_of_motions(
    tree: Tree, motions: Sequence[LinkMotion], phi: Sequence[Sequence[Scalar]]
) -> list[Scalar]:
    """Return the torque or force of every joint for given motions of the links."""
    wrenches = [link_wrench(motion, ten) for motion, ten in zip(motions, phi)]
    tau: list[Scalar] = [tree.zero] * len(tree.moves)
    for index in reversed(range(len(tree.moves))):
        move = tree.moves[index]
        force, moment = wrenches[index]
        tree.note("f", index, force)
        tree.note("n", index, moment)
        angular, linear = move.unit_twist
        tau[index] = dot(angular, moment) + dot(linear, force)
        if move.parent >= 0:
            f, n = move.wrench_to_parent(force, moment)
            f0, n0 = wrenches[move.parent]
            wrenches[move.parent] = add(f0, f), add(n0, n)
    if tree.axes is not None:
        tau += [*wrenches[0][0], *wrenches[0][1]]
    return tau


def composite_inertia_matrix(tree: Tree, phi: Sequence[Sequence[Scalar]]) -> list[list[Scalar]]:
    """Return the inertia matrix of all joints, rigid links only, from ten parameters XX ...

    M of each.

    Implements: LinFang1999 eq. (12)-(17), the composite-body form.
    """
    size = len(tree.moves) + len(tree.root_rows)
    composite = [list(ten) for ten in phi]
    M: list[list[Scalar]] = [[tree.zero] * size for _ in range(size)]
    for index in reversed(range(len(tree.moves))):
        move = tree.moves[index]
        ten = composite[index]
        tree.note("composite", index, ten)
        if not move.fixed:
            force, moment = _momentum(move, ten)
            link = index
            while link >= 0:
                angular, linear = tree.moves[link].unit_twist
                M[index][link] = M[link][index] = dot(angular, moment) + dot(linear, force)
                if tree.moves[link].parent >= 0:
                    force, moment = tree.moves[link].wrench_to_parent(force, moment)
                link = tree.moves[link].parent
            for row, value in zip(tree.root_rows, (*force, *moment)):
                M[index][row] = M[row][index] = value
        if move.parent >= 0:
            if move.lever is not None:
                ten = placed(ten, (), move.lever)
            composite[move.parent] = plus(
                composite[move.parent], placed(ten, move.turns, move.shift)
            )
    for row, unit in zip(tree.root_rows, _root_units(tree)):
        for column, value in zip(tree.root_rows, _momentum_of(composite[0], *unit)):
            M[row][column] = value
    return M


def centroidal_matrix(tree: Tree, phi: Sequence[Sequence[Scalar]]) -> list[list[Scalar]]:
    """Return the six rows that rates of all joints have of the momentum of all links.

    Linear before angular about the centre of mass, world axes.
    """
    composite = [list(ten) for ten in phi]
    total: list[Scalar] = [tree.zero] * 10  # of all links, in the root frame
    found: list[tuple[Vector, Vector]] = [(tree.zeros, tree.zeros)] * len(tree.moves)
    for index in reversed(range(len(tree.moves))):
        move, ten = tree.moves[index], composite[index]
        if not move.fixed:
            force, moment = _momentum(move, ten)
            for link in tree.path(index):
                force, moment = tree.moves[link].wrench_to_parent(force, moment)
            found[index] = force, moment
        if move.lever is not None:
            ten = placed(ten, (), move.lever)
        ten = placed(ten, move.turns, move.shift)
        if move.parent >= 0:
            composite[move.parent] = plus(composite[move.parent], ten)
        else:
            total = plus(total, ten)
    if tree.axes is not None:
        momenta = (_momentum_of(total, *unit) for unit in _root_units(tree))
        found += [(momentum[:3], momentum[3:]) for momentum in momenta]
    centre = scale(1.0 / total[9], total[6:9])
    columns = [
        [*tree.to_world(force), *tree.to_world(subtract(moment, cross(centre, force)))]
        for force, moment in found
    ]
    return [list(row) for row in zip(*columns)]


def _root_units(tree: Tree) -> list[tuple[Vector, Vector]]:
    """Return (angular, linear) of each unit rate of a free base."""
    return [(tree.zeros, unit) for unit in tree.units] + [(unit, tree.zeros) for unit in tree.units]


def _momentum_of(ten: Sequence[Scalar], w: Vector, v: Vector) -> list[Scalar]:
    """Return the momentum, linear before angular about the origin, of a body at a twist."""
    h = list(ten[6:9])
    return [*add(scale(ten[9], v), cross(w, h)), *add(tensor_product(ten[:6], w), cross(h, v))]


def _momentum(move: Move, ten: Sequence[Scalar]) -> tuple[Vector, Vector]:
    """Return (linear, angular about the origin) momentum of a body at unit joint speed."""
    u, v = move.unit_twist
    h, mass = list(ten[6:9]), ten[9]
    if not move.turning:
        return scale(mass, v), cross(h, v)
    linear, angular = cross(u, h), tensor_product(ten[:6], u)
    if move.lever is None:
        return linear, angular
    return add(linear, scale(mass, v)), add(angular, cross(h, v))


def _motion(w: Vector, dw: Vector, a: Vector) -> LinkMotion:
    squares = [w[0] * w[0], w[1] * w[1], w[2] * w[2]]
    return motion_of(w, dw, a, [w[1] * w[2], w[2] * w[0], w[0] * w[1]], squares)


def motion_of(w: Vector, dw: Vector, a: Vector, products: Vector, squares: Vector) -> LinkMotion:
    """Return the motion of a link with the matrix A, from wy wz, wz wx, wx wy and wx², wy², wz²."""
    yz, zx, xy = products
    xx, yy, zz = squares
    A = [
        [-(yy + zz), xy - dw[2], zx + dw[1]],
        [xy + dw[2], -(xx + zz), yz - dw[0]],
        [zx - dw[1], yz + dw[0], -(xx + yy)],
    ]
    return LinkMotion(w, dw, A, a, products)


def matrix_product(A: list[Vector], v: Vector) -> Vector:
    """Return A v."""
    return [dot(A[0], v), dot(A[1], v), dot(A[2], v)]


_DIAGONAL = (0, 3, 5)  # places of XX, YY, ZZ


def regrouped(robot: Robot, ten: Sequence[Sequence[Scalar]]) -> tuple[Robot, list[list[Scalar]]]:
    """Return (robot, ten parameters of each link) with equal torques, link frames on the joints,
    and fewer parameters.

    The robot returned is for recursions over moving joints: its frames and parameter values mean
    nothing. Energies and placements are not those of the robot given.

    Implements: Gautier1991 eq. (19)-(21) in closed form: YY, MZ, M of a rotational link (axis z)
    and the tensor of a sliding one regrouped with the parent's.
    """
    own, joints = [], []
    for joint, body in zip(robot.joints, ten):
        own.append(
            placed(body, *constant_placement(joint.after, REAL)) if joint.after else list(body)
        )
        before = (
            joint.before if joint.parent < 0 else (*robot.joints[joint.parent].after, *joint.before)
        )
        joints.append(replace(joint, before=before, after=()))
    for index in reversed(range(len(joints))):
        joint = joints[index]
        if joint.floats:  # it shows all ten
            continue
        own[index], handed = _split(
            own[index], "xyz".index(joint.motion[1]), joint.turns, joint.slides
        )
        if joint.parent >= 0:
            turns, shift = constant_placement(joint.before, REAL)
            own[joint.parent] = plus(own[joint.parent], placed(handed, turns, shift))
    return replace(robot, joints=tuple(joints)), own


def _split(
    ten: list[Scalar], axis: int, turning: bool, sliding: bool
) -> tuple[list[Scalar], list[Scalar]]:
    """Return (what the joint shows, what it hands down)."""
    kept, handed = list(ten), [0.0] * 10
    if turning:
        first, second = _DIAGONAL[(axis + 1) % 3], _DIAGONAL[(axis + 2) % 3]
        transverse = ten[second]
        handed[first] = handed[second] = transverse
        kept[first], kept[second] = ten[first] - transverse, 0.0
        places = [6 + axis, 9]
    else:
        places = list(range(6)) if sliding else list(range(10))
    for place in places:
        handed[place], kept[place] = ten[place], 0.0
    return kept, handed


def placed(ten: Sequence[Scalar], turns: Sequence[Turn], shift: Vector) -> list[Scalar]:
    """Return the parameters of a body about and along the frame in which its own stands at these
    turns and shift.
    """
    mass = ten[9]
    J, h = shift_tensor(turn_tensor(turns, ten[:6]), to_parent(turns, list(ten[6:9])), mass, shift)
    return [*J, *h, mass]


def reference_motions(
    tree: Tree, dq: Sequence[Scalar], dq_r: Sequence[Scalar], ddq_r: Sequence[Scalar]
) -> list[LinkMotion]:
    """Return link motions whose torques are M ddq_r + C dq_r + g.

    For loops, ddq_r of all joints includes Ġ dq_r.

    Implements: LuMeng1993 eq. (87), with the
    Christoffel C of the errata.
    """
    lift = [tree.zero - g for g in tree.gravity]
    still, turning, moving = (tree.zeros, tree.zeros), tree.zeros, tree.zeros
    if tree.axes is not None:  # spatial accelerations are mixed, too: dV_r + ½ V × V_r
        (_, w), (v_r, w_r) = tree.root_vectors(dq), tree.root_vectors(dq_r)
        dv_r, dw_r = tree.root_vectors(ddq_r)
        still, turning = (w, w_r), add(dw_r, scale(0.5, cross(w, w_r)))
        moving = add(dv_r, cross(w, v_r))
    base = _mixed(still, turning, add(moving, lift))
    found: list[LinkMotion] = []
    speeds: list[tuple[Vector, Vector]] = []
    for move, speed, reference, acceleration in zip(tree.moves, dq, dq_r, ddq_r):
        parent = base if move.parent < 0 else found[move.parent]
        w, w_r = (
            move.vector_to_child(v) for v in (still if move.parent < 0 else speeds[move.parent])
        )
        dw = move.vector_to_child(parent.dw)
        a = move.vector_to_child(add(parent.a, matrix_product(parent.A, move.shift)))
        if not move.fixed:
            own, own_r, gain = (scale(rate, move.axis) for rate in (speed, reference, acceleration))
            turning = add(cross(w, own_r), cross(w_r, own))
            if move.turning:
                dw = add(add(dw, gain), scale(0.5, turning))
                w, w_r = add(w, own), add(w_r, own_r)
            else:
                a = add(add(a, gain), turning)
        motion = _mixed((w, w_r), dw, a)
        if move.lever is not None:
            motion = _mixed((w, w_r), dw, add(a, matrix_product(motion.A, move.lever)))
        found.append(motion)
        speeds.append((w, w_r))
    return found


def _mixed(speeds: tuple[Vector, Vector], dw: Vector, a: Vector) -> LinkMotion:
    w, v = speeds
    yz = 0.5 * (w[1] * v[2] + v[1] * w[2])
    zx = 0.5 * (w[2] * v[0] + v[2] * w[0])
    xy = 0.5 * (w[0] * v[1] + v[0] * w[1])
    return motion_of(w, dw, a, [yz, zx, xy], [w[0] * v[0], w[1] * v[1], w[2] * v[2]])


def link_columns(motion: LinkMotion) -> list[Vector]:
    """Return the moments (about the origin) that unit XX, XY, XZ, YY, YZ, ZZ of a link need."""
    A, dw = motion.A, motion.dw
    yz, zx, xy = motion.ww
    return [
        [dw[0], zx, -xy],
        [-A[2][0], A[2][1], A[0][0] - A[1][1]],
        [A[1][0], A[2][2] - A[0][0], -A[1][2]],
        [-yz, dw[1], xy],
        [A[1][1] - A[2][2], -A[0][1], A[0][2]],
        [yz, -zx, dw[2]],
    ]


def row_of_ten(motion: LinkMotion, moments: list[Vector], u: Vector, v: Vector) -> list[Scalar]:
    """Return the power of unit parameters XX ...

    M of a link against the twist (u, v) in its frame.
    """
    A, a = motion.A, motion.a
    return [
        *(dot(u, moment) for moment in moments),
        v[0] * A[0][0] + v[1] * A[1][0] + v[2] * A[2][0] + (u[2] * a[1] - u[1] * a[2]),
        v[0] * A[0][1] + v[1] * A[1][1] + v[2] * A[2][1] + (u[0] * a[2] - u[2] * a[0]),
        v[0] * A[0][2] + v[1] * A[1][2] + v[2] * A[2][2] + (u[1] * a[0] - u[0] * a[1]),
        dot(v, a),
    ]


def twists_on_path(tree: Tree) -> list[dict[int, tuple[Vector, Vector]]]:
    """Return for each link {joint on its path: twist of the link at its origin, in its frame, for
    unit speed}.
    """
    found: list[dict[int, tuple[Vector, Vector]]] = []
    for index, move in enumerate(tree.moves):
        own = dict(zip(tree.root_rows, _root_units(tree))) if move.parent < 0 else {}
        if move.parent >= 0:
            own = {
                joint: move.twist_to_child(*twist) for joint, twist in found[move.parent].items()
            }
        if not move.fixed:
            own[index] = move.unit_twist
        found.append(own)
    return found


def rigid_regressor(
    tree: Tree, dq: Sequence[Scalar], ddq: Sequence[Scalar]
) -> list[dict[int, list[Scalar]]]:
    """Return for each link {joint: ten entries}.

    The non-zero blocks of the regressor of all joints.

    Implements: Gautier1991 eq. (8), LuMeng1993
    eq. (70)-(85) in ten parameters a link.
    """
    return regressor_blocks(tree, link_motions(tree, dq, ddq))


def regressor_blocks(tree: Tree, motions: Sequence[LinkMotion]) -> list[dict[int, list[Scalar]]]:
    """Return for each link {joint: ten entries} for given motions of the links."""
    blocks = []
    for motion, twists in zip(motions, twists_on_path(tree)):
        moments = link_columns(motion)
        blocks.append(
            {joint: row_of_ten(motion, moments, u, v) for joint, (u, v) in twists.items()}
        )
    return blocks
