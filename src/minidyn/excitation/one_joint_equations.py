"""The torque of one joint while another one moves alone, linear in the minimal linear combinations.

Lock every joint but one, and each composite body behind it is rigid. Its first moment and inertia
are a constant part, which holds the combinations of its own joint, and a varying part, which is
made of those of the joints behind it and stays the same for the whole run. So joint j's torque has
few unknowns once the joints behind j are known: that is what makes identification one joint at a
time a chain of small problems.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from minidyn.arrays import Array
from minidyn.base.base_map import BaseMap
from minidyn.base.closed_form.combinations import combinations
from minidyn.base.closed_form.mlc import mlc_base
from minidyn.base.closed_form.structure import Structure
from minidyn.dynamics.drives import Shapes, drive_columns
from minidyn.dynamics.mdh_chain import poses, stands
from minidyn.dynamics.papers.composite import Constants, Stand, varying_parts
from minidyn.errors import Unsupported
from minidyn.model.drives import ROTOR
from minidyn.model.geometry import TOLERANCE
from minidyn.model.mdh_frames import to_mdh
from minidyn.model.placements import tree_pose
from minidyn.model.robot import Robot

_VERSION = "1992"


@dataclass(frozen=True, eq=False)
class Equations:
    """The small linear equations of a serial chain.

    Joints are counted from 0, as columns of a recording.
    """

    robot: Robot  # the robot as given
    # the same in modified Denavit-Hartenberg frames; its joints are the robot's moving joints
    chain: Robot
    base: BaseMap  # the minimal linear combinations (version 1992), what is to be found
    structure: Structure  # r, s, δ, σ of the chain
    own: tuple[tuple[int, ...], ...]  # places in beta of the combinations that belong to each joint

    @classmethod
    def of(cls, robot: Robot, what: str, tolerance: float = TOLERANCE) -> Equations:
        """Return the equations of a serial chain.

        Any frames, any base, fixed loads, rotor inertia and friction. Trees, loops, joints that
        follow others and coupled drives are refused, in the name of who asks.
        """
        try:
            base = mlc_base(robot, _VERSION, tolerance=tolerance)
            chain, _ = to_mdh(robot, tolerance=tolerance)
        except Unsupported as error:
            reason = str(error).split(";")[0]
            raise Unsupported(
                f"{what}: {reason}; one joint at a time needs a serial chain of free joints: use "
                "md.identify"
            ) from None
        for index, joint in enumerate(chain.joints):
            if joint.parent != index - 1:
                raise Unsupported(
                    f"{what}: robot {robot.name!r} branches at joint {joint.name!r}; one joint at "
                    "a time needs a serial chain: use md.identify"
                )
        structure = base.structure
        if structure is None or not chain.joints:
            raise Unsupported(
                f"{what}: robot {robot.name!r} has no joint that moves; there is nothing to "
                "identify"
            )
        found = combinations(chain, structure, [0.0] * len(chain.layout))
        own = tuple(
            tuple(k for k, c in enumerate(found) if c.joint == index)
            for index in range(len(chain.joints))
        )
        return cls(robot, chain, base, structure, own)

    @property
    def n(self) -> int:
        """Number of joints."""
        return len(self.chain.joints)

    @cached_property
    def first(self) -> int | None:
        """The first rotational joint r, from 0; None where all slide."""
        return next((index for index, joint in enumerate(self.chain.joints) if joint.turns), None)

    def names(self, joint: int) -> tuple[str, ...]:
        """Names of the combinations that belong to a joint."""
        return tuple(self.base.names[k] for k in self.own[joint])

    def own_rows(
        self, mover: int, joint: int, places: Array, q: Array, dq: Array, ddq: Array
    ) -> Array:
        """Return the coefficients (..., N, p) of a joint's own combinations in its torque, at many
        places at once.

        The mover is not behind the joint; its motion is q, dq and ddq (N,). Places (..., n) say
        where all joints are; the mover's entry is not read.
        """
        C = self._composite_rows(mover, joint, places, q, dq, ddq)
        rows: Array = C @ self._constants_of(joint)[:, list(self.own[joint])]
        return rows + self._extra(mover, joint, dq, ddq)

    def rows(self, mover: int, joint: int, place: Array, q: Array, dq: Array, ddq: Array) -> Array:
        """Return the coefficients (N, b) of all combinations in a joint's torque during one run.

        Arguments are those of `own_rows`, with one place (n,). Columns of joints before `joint` are
        zero.

        Implements: Lin1992 Algorithm 1, eq. (56)-(61).
        Differs: Corrected as in ERRATA D; rotor inertia and friction take part.
        """
        C = self._composite_rows(mover, joint, place, q, dq, ddq)
        rows: Array = C @ (self._constants_of(joint) + self._varying_of(joint, place))
        rows[:, list(self.own[joint])] += self._extra(mover, joint, dq, ddq)
        return rows

    # ---------------------------------------------------------------- composite bodies

    def _composite_rows(
        self, mover: int, joint: int, places: Array, q: Array, dq: Array, ddq: Array
    ) -> Array:
        """Coefficients (..., N, 7) of J11 - J22, J33, J12, J13, J23, cx, cy.

        Sliding (..., N, 4): cx, cy, cz, m̂.

        Implements: Lin1992 eq. (51)-(55), (58)-(60), corrected
        as in ERRATA D.
        """
        at = np.array(places, dtype=float)
        at[..., mover] = (
            # axes and distances seen from joint j do not depend on it, and gravity is turned below
            0.0
        )
        pose = tree_pose(self.chain, at)
        Ri, Rj = pose.links[..., mover, :3, :3], pose.links[..., joint, :3, :3]
        u = _seen(Rj, pose.axes[..., mover, :])
        s = _seen(Rj, pose.links[..., joint, :3, 3] - pose.links[..., mover, :3, 3])
        turning = self.chain.joints[mover].turns
        gravity = _seen(Ri, np.broadcast_to(self.chain.gravity, u.shape))[..., None, :] + np.zeros(
            (len(q), 1)
        )
        if turning:
            cos, sin = np.cos(q), np.sin(q)
            gx, gy = gravity[..., 0].copy(), gravity[..., 1].copy()
            gravity[..., 0], gravity[..., 1] = cos * gx + sin * gy, cos * gy - sin * gx
        between = np.swapaxes(Ri, -1, -2) @ Rj
        speed, change = (dq, ddq) if turning else (np.zeros_like(dq), np.zeros_like(ddq))
        w = u[..., None, :] * speed[:, None]
        dw = u[..., None, :] * change[:, None]
        if turning:
            across = np.cross(u, s)
            a = (
                across[..., None, :] * ddq[:, None]
                + np.cross(u, across)[..., None, :] * (dq**2)[:, None]
            )
        else:
            a = u[..., None, :] * ddq[:, None]
        x = a - gravity @ between
        if self.chain.joints[joint].turns:
            parts = [
                -w[..., 0] * w[..., 1],
                dw[..., 2],
                w[..., 0] ** 2 - w[..., 1] ** 2,
                dw[..., 0] - w[..., 1] * w[..., 2],
                dw[..., 1] + w[..., 0] * w[..., 2],
                x[..., 1],
                -x[..., 0],
            ]
        else:
            parts = [
                w[..., 0] * w[..., 2] - dw[..., 1],
                dw[..., 0] + w[..., 1] * w[..., 2],
                -(w[..., 0] ** 2 + w[..., 1] ** 2),
                x[..., 2],
            ]
        return np.stack(parts, axis=-1)

    def _constants_of(self, joint: int) -> Array:
        """The constant part (7 or 4, b) of what `_composite_rows` multiplies, over beta."""
        c = self._lifted[joint]
        if self.chain.joints[joint].turns:
            return np.stack([c.U[0] - c.U[3], c.U[5], c.U[1], c.U[2], c.U[4], c.k[0], c.k[1]])
        return np.stack([*c.k, c.mass])

    def _varying_of(self, joint: int, place: Array) -> Array:
        """The varying part (7 or 4, b) of the same at one place, over beta.

        Implements: Lin1992 Algorithm 1.
        """
        v = varying_parts(self._stands, poses(self.chain, list(place)), self._lifted, _VERSION)[
            joint
        ]
        none = np.zeros(self.base.rank)
        if self.chain.joints[joint].turns:
            parts = [v.V[0] - v.V[3], v.V[5], v.V[1], v.V[2], v.V[4], v.l[0], v.l[1]]
        else:
            parts = [*v.l, none]
        return np.stack([part + none for part in parts])

    @cached_property
    def _stands(self) -> list[Stand]:
        return stands(self.chain)

    @cached_property
    def _lifted(self) -> list[Constants]:
        """Constants of composite bodies that have these combinations, over beta.

        What they leave open is zero.

        Implements: Lin1994 eq. (53)-(54) backwards (ERRATA G: the
        virtual k of κ1, κ2).
        """
        unit, none = np.eye(self.base.rank), np.zeros(self.base.rank)
        place = {name: k for k, name in enumerate(self.base.names)}

        def row(*names: str) -> Array:
            return next((unit[place[name]] for name in names if name in place), none)

        found = []
        for index, role in enumerate(self.structure.roles):
            n = role.number
            k = [row(f"k{n}{axis}") for axis in "xyz"]
            if not role.turning and f"kappa1_{n}" in place:
                k = self._virtual_moment(index, row(f"kappa1_{n}"), row(f"kappa2_{n}"))
            U13, U23 = row(f"U13_{n}", f"U13h_{n}"), row(f"U23_{n}", f"U23h_{n}")
            U = [row(f"U11_22_{n}"), row(f"U12_{n}"), U13, none, U23, row(f"U33_{n}")]
            found.append(Constants(row(f"m{n}"), k, U))
        return found

    def _virtual_moment(self, joint: int, kappa1: Array, kappa2: Array) -> list[Array]:
        """A first moment with these κ: its part along the axis of r is open and zero."""
        pose = tree_pose(self.chain, np.zeros(self.n))
        ux, uy, uz = pose.links[joint, :3, :3].T @ pose.axes[self.first]
        across = ux * ux + uy * uy
        return [
            (-uy * kappa1 - uz * ux * kappa2) / across,
            (ux * kappa1 - uz * uy * kappa2) / across,
            kappa2,
        ]

    # ---------------------------------------------------------------- drives

    def _extra(self, mover: int, joint: int, dq: Array, ddq: Array) -> Array:
        """What drives add to the coefficients of a joint's own combinations (N, p)."""
        drives = {column.name: column.symbol for column in self.chain.layout.drives[joint]}
        symbols = [drives.get(name, "") for name in self.names(joint)]  # "" for inertia
        extra = np.zeros((len(dq), len(symbols)))
        still = np.zeros_like(dq)
        speeds, changes = [still] * self.n, [still] * self.n
        speeds[mover], changes[mover] = dq, ddq
        for column in drive_columns(
            self.chain, speeds, changes, Shapes(self.chain, [still] * self.n)
        ):
            if joint in column.ratios and column.symbol in symbols:
                extra[:, symbols.index(column.symbol)] = column.value
        role = self.structure.roles[joint]
        if (
            ROTOR in drives.values()
            and not role.turning
            and role.pull != 0.0
            and ROTOR not in symbols
        ):
            # the rotor has joined the mass, and the offset has taken the mass's weight
            extra[:, self.names(joint).index(f"m{role.number}")] += role.pull
        return extra


def _seen(R: Array, v: Array) -> Array:
    """Rᵀ v, for batches."""
    return np.asarray((np.swapaxes(R, -1, -2) @ v[..., None])[..., 0])
