"""The robot: one frozen value that everything else reads."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from minidyn.arrays import Array, real_array
from minidyn.errors import DescriptionError, ShapeError, UnknownName, Unsupported
from minidyn.model.formula import Formula, formula_names
from minidyn.model.free_base import require_fixed_base as require_fixed_base
from minidyn.model.geometry import TOLERANCE, Steps, matrix_of, steps_from_matrix, steps_from_rpy
from minidyn.model.joint import Frame, Joint, Link, Loop, drive_changes, plain_steps
from minidyn.model.lock import (
    LockLike,
    all_but,
    fitting_joints,
    lock_positions,
    locked_notice,
    with_locked,
)
from minidyn.model.mdh import mdh_parts
from minidyn.model.parameters import LARGEST_PARAMETER, Layout, shaped_array, ten_parameters
from minidyn.notices import Notice
from minidyn.text import new_name

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

    from minidyn.model.mdh_frames import MdhTable


BASE_ROWS = ("vx", "vy", "vz", "wx", "wy", "wz")
"""What the six first rows of a free base are along: its linear and angular velocity."""

_FIXED_BASE = "robot.fixed_base"  # what a file is told that seems to have a free base

LETTERS = {"prismatic": "P", "fixed": "F", "floating": "B"}
"""Letters of kinds of joints; those that turn are R."""

LARGEST_STEP = 1e9
"""Longest shift, m, and largest turn, rad, of a placement."""


@dataclass(frozen=True, eq=False)
class Robot:
    """A tree of links and joints with gravity, drives, limits and loops.

    Never changes; `with_...` make new ones. Build one with :func:`minidyn.load`,
    :meth:`Robot.from_mdh` or :func:`minidyn.model.assemble.assemble`.

    Attributes:
        name: For people.
        joints: All moving joints, each after its parent's; mimic and passive ones included.
        link_names: The link each joint carries.
        gravity: Acceleration of gravity in the world frame (3,), m/s²: (0, 0, -9.81) where z points
            up.
        parameters: Standard parameters (p,), NaN where unknown.
        base_name: Name of the base link.
        base: Placement of the base in the world.
        frames: Links that fixed joints merged into others.
        loops: Pairs of frames that must coincide.
        symbols: (name, value) of the geometry symbols.
        notices: What a reader should know about how the robot file was understood.
        source: Where it came from.
        locks: (joint, position) of independent joints of its file that are locked: no joint here.
        base_body: Ten parameters of the base, in its frame, with what fixed joints merged into it;
            None: unknown. They matter to :meth:`with_free_base` alone.
    """

    name: str
    joints: tuple[Joint, ...]
    link_names: tuple[str, ...]
    gravity: Array
    parameters: Array
    base_name: str = "base"
    base: Steps = ()
    frames: tuple[Frame, ...] = ()
    loops: tuple[Loop, ...] = ()
    symbols: tuple[tuple[str, float], ...] = ()
    notices: tuple[Notice, ...] = ()
    source: str = ""
    locks: tuple[tuple[str, float], ...] = ()
    base_body: Array | None = None

    def __post_init__(self) -> None:
        for what, text in (("name", self.name), ("base name", self.base_name)):
            if not isinstance(text, str):
                raise DescriptionError(f"{what} of a robot: expected a text, got {text!r}")
        gravity = _frozen(self.gravity, "gravity")
        if gravity.shape != (3,) or not np.all(np.isfinite(gravity)):
            raise DescriptionError(
                f"gravity: expected 3 finite numbers (m/s²), got {self.gravity!r}"
            )
        object.__setattr__(self, "gravity", gravity)
        if not any(joint.kind != "fixed" for joint in self.joints):
            raise DescriptionError(
                f"robot {self.name!r} has no moving joint; at least one is needed"
            )
        for kind, names in (
            ("joint", [j.name for j in self.joints]),
            ("link", list(self.link_names)),
        ):
            for index, name in enumerate(names):
                if not isinstance(name, str):
                    raise DescriptionError(
                        f"robot {self.name!r}: a {kind} is called {name!r}; expected a text"
                    )
                if name in names[:index]:
                    raise DescriptionError(
                        f"robot {self.name!r}: two {kind}s are called {name!r}; names must differ"
                    )
        for index, joint in enumerate(self.joints):
            if not -1 <= joint.parent < index:
                raise DescriptionError(f"joint {joint.name!r}: its parent must come before it")
            if joint.floats and (joint.drive.columns or joint.follows is not None):
                raise DescriptionError(
                    f"joint {joint.name!r} is floating: it has no drive and follows none"
                )
            if (joint.floats and index) or (self.joints[0].floats and index and joint.parent < 0):
                raise DescriptionError(
                    f"robot {self.name!r}: joint {joint.name!r} stands beside a floating one; a "
                    "free base must be the first link, and carry all others"
                )
        values, known = _frozen(self.parameters, "parameters"), self.layout.names
        if values.shape != (len(known),):
            text = (
                f"expected {len(known)} values ({known[0]} ... {known[-1]}), got shape "
                f"{values.shape}"
            )
            raise DescriptionError(f"parameters: {text}")
        if np.isinf(values).any():
            bad = known[int(np.flatnonzero(np.isinf(values))[0])]
            raise DescriptionError(
                f"parameter {bad}: infinite; give a number, or NaN where it is unknown"
            )
        object.__setattr__(self, "parameters", values)
        if self.base_body is not None:
            object.__setattr__(self, "base_body", _frozen(self.base_body, "base_body"))
        self._check_sizes()
        self._check_followers()

    def _check_sizes(self) -> None:
        """Refuse numbers whose squares and products no computation holds."""
        placed = [("the base", self.base)]
        placed += [(f"joint {one.name!r}", (*one.before, *one.after)) for one in self.joints]
        placed += [(f"frame {one.name!r}", one.steps) for one in self.frames]
        for where, steps in placed:
            for step in steps:
                if not abs(step.value) <= LARGEST_STEP:
                    unit = "rad" if step.is_turn else "m"
                    raise DescriptionError(
                        f"robot {self.name!r}, {where}: a placement of {step.value:.6g} {unit}; "
                        f"expected at most {LARGEST_STEP:g}"
                    )
        large = np.flatnonzero(np.abs(self.parameters) > LARGEST_PARAMETER)
        if len(large) or np.any(np.abs(self.gravity) > LARGEST_STEP):
            what, value, most = (
                (self.layout.names[large[0]], self.parameters[large[0]], LARGEST_PARAMETER)
                if len(large)
                else ("gravity", np.abs(self.gravity).max(), LARGEST_STEP)
            )
            raise DescriptionError(
                f"robot {self.name!r}: {what} is {value:.6g}; expected at most {most:g}"
            )

    def _check_followers(self) -> None:
        every = [joint.name for joint in self.joints]
        named: list[tuple[str, Iterable[str], Sequence[str]]] = []  # what, names, those that exist
        for joint in self.joints:
            leaders = dict(joint.follows.terms) if joint.follows else ()
            named.append(
                (
                    f"joint in the coupling of joint {joint.name!r}:",
                    dict(joint.drive.coupling),
                    every,
                )
            )
            named.append((f"leader of joint {joint.name!r}:", leaders, self.joint_names))
        named += [
            (f"joint of loop {loop.name!r}:", (*loop.passive, *dict(loop.home)), every)
            for loop in self.loops
        ]
        for what, names, known in named:
            for name in names:
                if name not in known:
                    raise UnknownName(what, name, known)
        if self.free_base and self.implicit_loops:
            raise Unsupported(
                f"robot {self.name!r}: loop {self.implicit_loops[0].name!r} is solved for, which "
                "does not go together with a free base yet; give formulas of the active joints"
            )
        _ = self.formulas  # parsed, so that a wrong one is refused here

    # ---------------------------------------------------------------- what it has

    @cached_property
    def layout(self) -> Layout:
        """Names and places of the standard parameters."""
        return Layout.of(joint.drive for joint in self.joints)

    @cached_property
    def independent(self) -> tuple[int, ...]:
        """Indices in `joints` of the independent coordinates, in the order of q."""
        passive = {name for loop in self.loops for name in loop.passive}
        return tuple(
            index
            for index, joint in enumerate(self.joints)
            if joint.kind not in ("fixed", "floating")
            and joint.follows is None
            and joint.name not in passive
        )

    @property
    def free_base(self) -> bool:
        """Whether the base moves freely in the world (docs/free-base.md)."""
        return self.joints[0].floats

    @cached_property
    def n(self) -> int:
        """Number of independent rates: the length of dq, ddq and tau.

        Six of a free base, and one for each independent joint.
        """
        return len(BASE_ROWS) * self.free_base + len(self.independent)

    @property
    def all_rates(self) -> int:
        """Number of rates of all joints, those that follow or are fixed included."""
        return len(self.joints) + len(BASE_ROWS) * self.free_base

    @property
    def nq(self) -> int:
        """Length of q: n, and one more for the unit quaternion of a free base."""
        return self.n + self.free_base

    @cached_property
    def joint_names(self) -> tuple[str, ...]:
        """Names of the rows of tau: those of the independent joints, in the order of q.

        A free base comes first, with vx, vy, vz, wx, wy, wz behind the name of its joint.
        """
        base = [f"{self.joints[0].name}.{row}" for row in BASE_ROWS] if self.free_base else []
        return (*base, *(self.joints[index].name for index in self.independent))

    @property
    def independent_names(self) -> tuple[str, ...]:
        """Names of the independent joints: `joint_names` without the rows of a free base."""
        return self.joint_names[self.n - len(self.independent) :]

    @cached_property
    def links(self) -> tuple[Link, ...]:
        """The moving links, one for each joint."""
        merged: list[list[str]] = [[] for _ in self.joints]
        for frame in self.frames:
            if frame.link >= 0:
                merged[frame.link].append(frame.name)
        return tuple(
            Link(name, joint.name, tuple(frames), _frozen(self.parameters[part], name))
            for name, joint, frames, part in zip(
                self.link_names, self.joints, merged, self.layout.links
            )
        )

    def drive_terms(self, joint: int) -> dict[str, float]:
        """Return the values of a joint's drive terms by symbol, {"Ia": 0.3, "Fv": 1.2}.

        NaN where unknown.
        """
        return {
            column.symbol: float(self.parameters[column.index])
            for column in self.layout.drives[joint]
        }

    @property
    def parameter_names(self) -> tuple[str, ...]:
        """Names of the standard parameters: XX1, XY1, ..."""
        return self.layout.names

    @property
    def parameters_known(self) -> bool:
        """Whether any standard parameter is known."""
        return not bool(np.isnan(self.parameters).all())

    @property
    def values(self) -> Array:
        """The old name of `parameters`."""
        warnings.warn("Robot.values is now Robot.parameters", DeprecationWarning, stacklevel=2)
        return self.parameters

    @cached_property
    def implicit_loops(self) -> tuple[Loop, ...]:
        """Loops whose passive joints are not given as functions and must be solved for."""
        explicit = {joint.name for joint in self.joints if joint.follows is not None}
        return tuple(
            loop for loop in self.loops if any(name not in explicit for name in loop.passive)
        )

    @cached_property
    def formula_names(self) -> Mapping[str, str]:
        """What formulas may call the independent joints: by name, or q1, q2, ...

        by number among all joints.
        """
        jointed = [joint.name for joint in self.joints if not joint.floats]
        return formula_names(jointed, self.joint_names)

    @cached_property
    def formulas(self) -> Mapping[str, Formula]:
        """For each joint that follows a formula which is not linear, that formula."""
        return {
            joint.name: Formula(joint.follows.formula, f"joint {joint.name!r}", self.formula_names)
            for joint in self.joints
            if joint.follows is not None and joint.follows.formula
        }

    def link_name(self, index: int) -> str:
        """Return the name of a link by its index; -1 is the base."""
        return self.base_name if index < 0 else self.link_names[index]

    def joint_index(self, name: str) -> int:
        """Return the index in `joints` of a joint name."""
        names = [joint.name for joint in self.joints]
        if name not in names:
            raise UnknownName("joint", name, names)
        return names.index(name)

    def find_frame(self, name: str | int | None) -> tuple[int, Steps]:
        """Return (link index, placement on it) of a link or merged frame by name.

        None: the last link. The base has index -1.
        """
        if name is None:
            return len(self.joints) - 1, ()
        if isinstance(name, int | np.integer) and not isinstance(name, bool):
            if not -1 <= name < len(self.joints):
                raise UnknownName("link number", name, [f"0 ... {len(self.joints) - 1} (-1: base)"])
            return int(name), ()
        places: dict[str, tuple[int, Steps]] = {
            link: (index, ()) for index, link in enumerate(self.link_names)
        }
        for other, index, steps in [
            *((f.name, f.link, f.steps) for f in self.frames),
            (self.base_name, -1, ()),
        ]:
            places.setdefault(other, (index, steps))
        if name not in places:
            raise UnknownName("link", name, places)
        return places[name]

    # ---------------------------------------------------------------- variations

    @classmethod
    def from_mdh(
        cls,
        joints: str | Sequence[str],
        alpha: ArrayLike | None = None,
        a: ArrayLike | None = None,
        d: ArrayLike | None = None,
        theta: ArrayLike | None = None,
        gravity: ArrayLike = (0.0, 0.0, -9.81),
        parameters: ArrayLike | Sequence[Mapping[str, Any]] | None = None,
        rotor_inertia: bool = False,
        friction: Iterable[str] | str = (),
        parent: Sequence[int] | None = None,
        gamma: ArrayLike | None = None,
        b: ArrayLike | None = None,
        name: str = "",
    ) -> Robot:
        """Build a robot from a modified Denavit-Hartenberg table (Khalil-Kleinfinger for trees).

        Args:
            joints: One letter a joint, R (rotational) or P (translational): "RRPRRR".
            alpha: Twist angles (n,), rad; None: zeros, as for all of the table.
            a: Lengths along x (n,), m.
            d: Offsets along z at q = 0 (n,), m.
            theta: Angles about z at q = 0 (n,), rad.
            gravity: Acceleration of gravity in the base frame (3,), m/s².
            parameters: The flat standard vector (see `robot.parameter_names`), or one dict per link
                with mass, com (3,) and inertia (3, 3) about the centre of mass, axes parallel to
                the link frame; the keys Ia, Fv, Fc, Fo switch that drive term on for that joint.
            rotor_inertia: Whether every joint has the column Ia.
            friction: Friction terms of every joint: "viscous", "coulomb", "offset".
            parent: For trees, the parent of each link: 0 the base, k the link of joint k. None: a
                chain.
            gamma: For trees, angles about the parent's z (n,), rad.
            b: For trees, offsets along the parent's z (n,), m.
            name: Name of the robot.

        Returns:
            The robot, with joints joint1, joint2, ... and links link1, link2, ...
        """
        given = {"gamma": gamma, "b": b, "alpha": alpha, "a": a, "theta": theta, "d": d}
        made, values, notices = mdh_parts(
            joints, given, parameters, rotor_inertia, friction, parent
        )
        return cls(
            name=name or "robot",
            joints=made,
            link_names=tuple(f"link{index + 1}" for index in range(len(made))),
            gravity=real_array(gravity, "gravity"),
            parameters=values,
            notices=notices,
        )

    def with_parameters(self, parameters: ArrayLike | Mapping[str, float] | None) -> Robot:
        """Return the robot with other standard parameters.

        Args:
            parameters: Values (p,), or some by name, {"M3": 1.2}, the others staying; None: all
                unknown.

        Example:
            heavier = robot.with_parameters({"M3": 1.2, "MX3": 0.05})

        Raises:
            UnknownName: The robot has no parameter of that name.
        """
        if parameters is None:
            return replace(self, parameters=np.full(len(self.layout), np.nan))
        if isinstance(parameters, Mapping):
            changed = np.array(self.parameters)
            for name, value in parameters.items():
                changed[self.layout.index(name)] = shaped_array(
                    value, (), f"parameter {name}", finite=False
                )
            return replace(self, parameters=changed)
        values = real_array(parameters, "parameters")
        if values.shape != (len(self.layout),):
            raise ShapeError(
                f"parameters: expected shape ({len(self.layout)},), got {values.shape}"
            )
        return replace(self, parameters=values)

    def with_gravity(self, gravity: ArrayLike) -> Robot:
        """Return the robot in another gravity (3,), m/s², world frame."""
        return replace(self, gravity=real_array(gravity, "gravity"))

    def mounted(self, mount: ArrayLike) -> Robot:
        """Return the robot with its base turned in the world: on a wall, a ceiling, an incline.

        Args:
            mount: Roll, pitch and yaw (3,), rad, as URDF's rpy: about fixed x, then y, then z. The
                base as the file places it is turned so; a ceiling is (pi, 0, 0).
        """
        rpy = shaped_array(mount, (3,), "mount (roll, pitch, yaw)")
        if self.free_base:
            raise Unsupported(
                f"robot {self.name!r} has a free base, which stands as its quaternion says: a "
                "mount is for a fixed base"
            )
        turns = steps_from_rpy(np.zeros(3), rpy, "mount")
        return replace(self, base=(*turns, *self.base))

    def locked(self, joints: LockLike) -> Robot:
        """Return the robot with joints that do not move: a robot of fewer joints.

        Links behind a locked joint become parts of others, exactly: torques of the joints that are
        left are those of the whole robot with the others at rest. Joints that follow a locked joint
        are locked with it. The notice `robot.locked` says what was locked, and where.

        Args:
            joints: {joint: position} in rad or m, None: at 0, or in the middle of its limits where
                0 is outside; or names alone. Names may be patterns: "wheel_*".

        Raises:
            UnknownName: No joint fits a name.
            Unsupported: A joint that is left turns the drive of a locked one.
        """
        positions = lock_positions(self, joints)
        return with_locked(self, positions, locked_notice(positions))

    def reduced(self, keep: Iterable[str] | str) -> Robot:
        """Return the robot of some joints, the others locked as :meth:`locked` does by default.

        Args:
            keep: Names or patterns of the joints that move: ["torso", "arm_*"].
        """
        return self.locked(all_but(self, keep))

    @property
    def locked_joints(self) -> dict[str, float]:
        """Independent joints of the robot's file that are locked, and where (rad or m)."""
        return dict(self.locks)

    def with_free_base(self, name: str = "root_joint") -> Robot:
        """Return the robot with a base that moves freely in the world; docs/free-base.md.

        The base becomes the first link, with ten parameters of its own. The first entries of q are
        its position in the world and its unit quaternion (x, y, z, w), those of dq its linear and
        angular velocity in its own frame. Where the base stood in the world is of no effect.

        Args:
            name: Name of the floating joint.

        Example:
            >>> import minidyn as md
            >>> robot = md.load("ur10").with_free_base()
            >>> robot.n, robot.nq
            (12, 13)
        """
        if self.free_base:
            return self
        joints = [replace(joint, parent=joint.parent + 1) for joint in self.joints]
        frames = [replace(frame, link=frame.link + 1) for frame in self.frames]
        loops = [
            replace(loop, link_a=loop.link_a + 1, link_b=loop.link_b + 1) for loop in self.loops
        ]
        taken = {self.base_name, *self.link_names, *(frame.name for frame in self.frames)}
        names = {joint.name for joint in self.joints}
        body = np.full(10, np.nan) if self.base_body is None else self.base_body
        return replace(
            self,
            joints=(Joint(new_name(name, names), "floating", -1, ()), *joints),
            link_names=(self.base_name, *self.link_names),
            parameters=np.concatenate([body, self.parameters]),
            base_name=new_name("world", taken),
            base=(),
            frames=tuple(frames),
            loops=tuple(loops),
            notices=tuple(one for one in self.notices if one.code != _FIXED_BASE),
            base_body=None,
        )

    def with_drives(
        self,
        rotor_inertia: bool | Iterable[str] | None = None,
        friction: Iterable[str] | str | None = None,
        sign_width: ArrayLike | None = None,
        coupling: Mapping[str, Mapping[str, float]] | None = None,
        stribeck_speed: ArrayLike | None = None,
        presliding_travel: ArrayLike | None = None,
        ripple_order: ArrayLike | None = None,
        breakaway_travel: ArrayLike | None = None,
    ) -> Robot:
        """Return the robot with other drive terms switched on; None keeps what it has.

        Args:
            rotor_inertia: All joints (True), none (False), or the named ones.
            friction: Terms for all joints, names of minidyn.model.drives.TERMS; () for none. Terms
                that say nothing new on a joint (a counterbalance where it slides, its own friction
                where its drive is not coupled) are left out there. A balancer stays, unless
                rotor_inertia is False and friction () as well.
            sign_width: Smoothing width: speed over which Coulomb friction reverses, for all joints
                or each of `joints`.
            coupling: {joint: {other joint: coefficient}}: drives that other joints turn, too, as in
                a wrist whose last motor also feels the joint before; drives that are not named keep
                theirs.
            stribeck_speed: Speed at which the Stribeck term has fallen to a half, for all joints or
                each of `joints`.
            presliding_travel: Travel (rad or m) over which presliding builds up, for all joints or
                each of `joints`.
            ripple_order: Waves of the gears' ripple in a turn of the joint, for all joints or each
                of `joints`.
            breakaway_travel: Travel (rad or m) over which breakaway decays, for all joints or each
                of `joints`.
        """
        sizes = (
            sign_width,
            coupling,
            stribeck_speed,
            presliding_travel,
            ripple_order,
            breakaway_travel,
        )
        return self.with_joints(
            drive_changes([joint.name for joint in self.joints], rotor_inertia, friction, *sizes)
        )

    def open_loops(self) -> Robot:
        """Return the tree without its loops: every passive joint becomes an independent one."""

        def free(joint: Joint) -> Joint:
            return (
                replace(joint, follows=None) if joint.follows and joint.follows.passive else joint
            )

        return replace(self.with_joints(free), loops=())

    def with_load(
        self,
        placement: ArrayLike | None = None,
        parameters: ArrayLike | Mapping[str, Any] | None = None,
        link: str | None = None,
        name: str = "load",
    ) -> Robot:
        """Return the robot with a rigid load that keeps its own ten columns, numbered after the
        last joint.

        Args:
            placement: Load frame on the link (4, 4); None: the link's own frame.
            parameters: Ten values XX ... M in the load frame, or a dict mass, com, inertia (about
                the centre of mass); None: unknown.
            link: Link or frame that carries the load; None: the last link.
            name: Name of the load.
        """
        if not isinstance(name, str):
            raise DescriptionError(f"name of a load: expected a text, got {name!r}")
        index, steps = self.find_frame(link)
        if index < 0:
            raise DescriptionError(f"a load on the base {link!r} does not move; name a moving link")
        if placement is not None:
            steps = (*steps, *steps_from_matrix(placement, f"placement of {name!r}"))
        taken = {
            self.base_name,
            *self.link_names,
            *(j.name for j in self.joints),
            *(f.name for f in self.frames),
        }
        return self.with_fixed(
            new_name(name, taken), index, steps, ten_parameters(parameters, f"load {name!r}")
        )

    def with_fixed(self, name: str, link: int, steps: Steps, ten: Array | None) -> Robot:
        """Return the robot with a load of its own name on a link by its index, placed by steps.

        See `with_load`.
        """
        return replace(
            self,
            joints=(*self.joints, Joint(name, "fixed", link, steps)),
            link_names=(*self.link_names, name),
            parameters=np.concatenate(
                [self.parameters, np.full(10, np.nan) if ten is None else ten]
            ),
        )

    def mdh(self, tolerance: float = TOLERANCE) -> MdhTable:
        """Return the robot in modified Denavit-Hartenberg frames: its table, and where they are.

        Args:
            tolerance: Axes that are special within this, rad and share of the robot's size, are
                exactly so.

        Example:
            print(md.load("panda").mdh())

        Raises:
            Unsupported: A robot with loops or joints that follow others.
        """
        from minidyn.model.mdh_frames import mdh_table

        return mdh_table(self, tolerance=tolerance)

    def with_joints(self, change: Callable[[Joint], Joint]) -> Robot:
        """Return the robot with each joint changed.

        Columns that remain keep their values, new ones are unknown.
        """
        joints = tuple(change(joint) for joint in self.joints)
        layout, old = Layout.of(joint.drive for joint in joints), self.layout
        values = [
            self.parameters[old.index(name)] if name in old else np.nan for name in layout.names
        ]
        return replace(self, joints=joints, parameters=np.array(values))

    @property
    def torques_measured(self) -> tuple[bool, ...]:
        """Of which independent joints the torque is an output (n,)."""
        base = (True,) * (len(BASE_ROWS) * self.free_base)
        return (*base, *(self.joints[index].torque_measured for index in self.independent))

    def with_measured_torques(self, measured: Sequence[bool] | None) -> Robot:
        """Return the robot with the torques of some independent joints as outputs.

        `measured` (n,) says which; None: all. The other rows of torques and regressors are zero.
        """
        wanted = (True,) * self.n if measured is None else tuple(map(bool, measured))
        if wanted == self.torques_measured:
            return self
        known = dict(zip(self.joint_names, wanted))
        return self.with_joints(
            lambda joint: replace(joint, torque_measured=known.get(joint.name, True))
        )

    # ---------------------------------------------------------------- identity

    @cached_property
    def structure_fingerprint(self) -> str:
        """A hash of everything but parameter values and names.

        Robots with equal ones share kernels.
        """
        parts = [repr(plain_steps(self.base)), repr(self.gravity.tolist())]
        order = {joint.name: index for index, joint in enumerate(self.joints)}
        parts += [repr(joint.structure(order)) for joint in self.joints]
        parts += [repr(loop.structure(order)) for loop in self.loops]
        if any(joint.follows and joint.follows.formula for joint in self.joints):
            parts.append(repr(self.joint_names))  # formulas refer to joints by name
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]

    @cached_property
    def fingerprint(self) -> str:
        """A hash of everything that describes the robot (16 hexadecimal digits)."""
        text = repr(
            (self.structure_fingerprint, self.name, self.link_names, self.frames, self.base_name)
        )
        text += repr(
            [
                (joint.name, joint.kind, joint.limits, joint.drive.gear_ratio)
                for joint in self.joints
            ]
        )
        text += repr((self.parameters.tolist(), self.symbols))
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    # ---------------------------------------------- to look at (imported late: loading stays quick)

    def to_pandas(self) -> DataFrame:
        """Return the joints as a pandas frame.

        How each moves, its limits, the mass it carries, its drive.
        """
        from minidyn.model.picture import robot_table

        return robot_table(self).to_pandas()

    def plot(self, q: ArrayLike | None = None) -> Figure:
        """Return a matplotlib figure at positions q (n,), rad or m.

        None: a posture that shows its joints.
        """
        from minidyn.model.picture import plot_robot

        return plot_robot(self, q)

    def _repr_html_(self) -> str:
        from minidyn.model.picture import robot_table

        return robot_table(self).to_html()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Robot) and self.fingerprint == other.fingerprint

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def __reduce__(self) -> tuple[Any, ...]:
        """Copies and robots from other processes are frozen again, their arrays read-only."""
        return Robot, tuple(getattr(self, field.name) for field in fields(self))

    def __repr__(self) -> str:
        letters = "".join(LETTERS.get(joint.kind, "R") for joint in self.joints)
        unknown = int(np.isnan(self.parameters).sum())
        known = f" ({'all' if unknown == len(self.layout) else unknown} unknown)" if unknown else ""
        loops = f", {len(self.loops)} loops" if self.loops else ""
        return (
            f"Robot({self.name!r}, n={self.n}, joints={letters}, {len(self.layout)} "
            f"parameters{known}{loops})"
        )

    @property
    def base_placement(self) -> Array:
        """Placement of the base in the world (4, 4)."""
        return matrix_of(self.base)


def measured_joints(robot: Robot, names: Iterable[str] | str) -> tuple[str, ...]:
    """Return the independent joints, in the robot's order, that names or patterns mean.

    They are those whose torque is measured.
    """
    wanted = [names] if isinstance(names, str) else list(names)
    if not wanted:
        raise DescriptionError("measured: no joint is named; None means all of them")
    return tuple(one for one in robot.joint_names if one in fitting_joints(robot, wanted))


def _frozen(values: ArrayLike, where: str) -> Array:
    array = real_array(values, where).copy()
    array.setflags(write=False)
    return array
