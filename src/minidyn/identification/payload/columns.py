"""What a run with a load may differ by from the baseline model, as columns.

The load, friction, the baseline's errors. All unknowns are in units of their expected size, so that
a prior is one row of the identity for each.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from minidyn.arrays import Array, covariance_root
from minidyn.base.numeric.samples import units_of
from minidyn.dynamics.drives import has_load
from minidyn.dynamics.functions import base_regressor, gravity_torque, loads_of_motion, regressor
from minidyn.errors import DescriptionError
from minidyn.identification.estimate import Estimate
from minidyn.identification.problem import places_of
from minidyn.identification.rows.base_rows import Samples
from minidyn.identification.rows.pieces import Pieces, pieces_of, reduced
from minidyn.identification.rows.triangles import Triangles
from minidyn.model.drives import FRICTION
from minidyn.model.geometry import matrix_of
from minidyn.model.parameters import Column, transform
from minidyn.model.robot import Robot
from minidyn.recording.recording import Recording

LARGEST_LOAD = 10.0
"""Rounding: size of a load over the robot's own mass, so large that data always win."""
LOAD_SIZE = np.array([0.1] * 6 + [0.3] * 3 + [1.0])
"""Rounding: kg m², kg m, kg, units in which the parameters of a load are of one size."""
WIDEST_LOAD = 100.0 * LOAD_SIZE
"""Rounding: standard deviations so wide that data always win."""
_TERMS = ("viscous", "coulomb", "offset")


def carrier_of(robot: Robot, link: str | None) -> tuple[int, Array]:
    """Return the link that carries a load, and the load's frame on it (4, 4); None: the last link.

    Raises:
        DescriptionError: It is the base.
    """
    carrier, steps = robot.find_frame(link)
    if carrier < 0:
        raise DescriptionError(f"a load on the base {link!r} moves nothing; name a moving link")
    return carrier, matrix_of(steps)


def of_frame(placement: Array) -> Array:
    """Return what makes ten parameters in a frame (4, 4) on a link those of the link (10, 10)."""
    return np.asarray(transform(np.eye(10), placement).T)


@dataclass(frozen=True)
class RawColumns:
    """Columns of a run, before units.

    The load's ten, friction, base parameters, gravity turned about two axes.
    """

    estimate: Estimate  # the baseline
    run: Recording
    carrier: int  # index of the link that carries the load
    placement: Array  # the load's frame on it (4, 4)
    with_friction: Robot  # the baseline's robot with all simple friction terms switched on
    friction: tuple[Column, ...]  # their columns
    turned: tuple[
        Robot, ...
    ]  # robots in gravity turned by a right angle times its size, one for each horizontal axis
    # covariance (n, n) of the shares by which the torques' drive gains are off; zero: not known to
    # be
    gains: Array
    carried: (
        Array  # the load (10,) in its frame about which friction that grows with it is linearised
    )

    def __call__(self, piece: Recording) -> tuple[Array, Array]:
        """Return columns (N, n, k) and measured minus baseline torque (N, n)."""
        log = Samples.all_of(piece)
        state = log.q, log.dq, log.ddq
        layout = self.with_friction.layout
        ten = [column.name for column in layout.columns[layout.links[self.carrier]]]
        Y = regressor(
            self.with_friction, *state, columns=[*ten, *(column.name for column in self.friction)]
        )
        to_link = of_frame(self.placement)
        slopes, known = self._load_friction(state, Y[..., 10:], to_link @ self.carried)
        loaded = self.estimate.robot
        if has_load(loaded):
            values = loaded.parameters.copy()
            values[loaded.layout.links[self.carrier]] += to_link @ self.carried
            loaded = loaded.with_parameters(values)
        B = base_regressor(loaded, *state, base=self.estimate.base, memory=log.states)
        tilt = [gravity_torque(turned, log.q)[..., None] for turned in self.turned]
        columns = np.concatenate([(Y[..., :10] + slopes) @ to_link, Y[..., 10:], B, *tilt], axis=-1)
        return columns, log.tau - self.estimate.predict(piece) - known

    def _load_friction(
        self, state: tuple[Array, Array, Array], friction: Array, ten: Array
    ) -> tuple[Array, Array]:
        """Return what friction that grows with the load adds for the load (10,), which is in the
        link's frame.

        Drive d has Fl |g| s(v), with s(v) its Coulomb column and g what it carries, of the robot g₀
        and of the load G φ. So it adds Fl s (|g₀ + G φ| - |g₀|), about the load: columns (N, n,
        10), and what they leave (N, n).
        """
        robot, (samples, n) = self.estimate.robot, state[0].shape
        slopes, known = np.zeros((samples, n, 10)), np.zeros((samples, n))
        if not has_load(robot):
            return slopes, known
        values = np.array(robot.parameters)
        bare = loads_of_motion(robot, *state, values)
        G = np.zeros((*bare.shape, 10))
        for k in range(10):
            more = values.copy()
            more[robot.layout.links[self.carrier]][k] += 1.0
            G[..., k] = loads_of_motion(robot, *state, more) - bare
        whole = bare + G @ ten
        for place, column in enumerate(self.friction):
            share = robot.drive_terms(column.joint).get(FRICTION["load"], 0.0)
            if column.symbol != FRICTION["coulomb"] or not share:
                continue
            d, s = column.joint, share * friction[..., place]
            slopes += s[..., None] * (np.sign(whole[:, d])[:, None] * G[:, d])[:, None]
            known += (
                s
                * (
                    np.abs(whole[:, d])
                    - np.abs(bare[:, d])
                    - np.sign(whole[:, d]) * (G[:, d] @ ten)
                )[:, None]
            )
        return slopes, known

    @cached_property
    def rows(self) -> Triangles:
        """All of the run, reduced."""
        return reduced(pieces_of(self.run, self))

    @property
    def places(self) -> tuple[slice, slice, slice, slice]:
        """Where load, friction, base and tilt columns are."""
        f, b = 10 + len(self.friction), 10 + len(self.friction) + len(self.estimate.beta)
        return slice(0, 10), slice(10, f), slice(f, b), slice(b, b + len(self.turned))


def raw_columns(
    estimate: Estimate, run: Recording, link: str | None, gains: Array | None
) -> RawColumns:
    """Return the columns for a load on a link or frame; None: the last link.

    The gains' covariance (n, n) is that of the shares by which torques, the baseline's too, are
    off; None: of none.
    """
    robot = estimate.robot
    carrier, place = carrier_of(robot, link)
    own = {term for joint in robot.joints for term in joint.drive.friction}
    with_friction = robot.with_drives(
        friction=[term for term in FRICTION if term in own or term in _TERMS]
    )
    symbols = {FRICTION[term] for term in _TERMS}
    friction = tuple(column for column in with_friction.layout.columns if column.symbol in symbols)
    turned = []
    if np.any(robot.gravity) and np.all(np.isfinite(robot.parameters)):
        up = robot.gravity / np.linalg.norm(robot.gravity)
        across = np.cross(up, np.eye(3)[int(np.argmin(np.abs(up)))])
        across /= np.linalg.norm(across)
        turned = [
            robot.with_gravity(np.cross(axis, robot.gravity))
            for axis in (across, np.cross(up, across))
        ]
    gains = np.zeros((robot.n, robot.n)) if gains is None else gains
    return RawColumns(
        estimate, run, carrier, place, with_friction, friction, tuple(turned), gains, np.zeros(10)
    )


ALWAYS = ("friction", "baseline", "gains", "load")
"""Blocks of unknowns that are always estimated: errors of baseline and gains among them."""


@dataclass(frozen=True)
class Group:
    """Something that may have changed since the baseline was taken."""

    kind: str  # "friction", "torque scale", "link" or "gravity"
    name: str  # the joint or link it concerns; "" for gravity
    block: str  # of unknowns
    places: tuple[int, ...]  # in the block


@dataclass(frozen=True, eq=False)
class Unknowns:
    """Blocks of unknowns in units of their expected sizes, and how they act on each joint."""

    raw: RawColumns
    maps: Mapping[str, Array]  # from raw columns to a block, for each joint (n, k, c)
    # size of one unit (c,), of use for load, friction, scale and tilt
    units: Mapping[str, Array]
    friction: tuple[Group, ...]  # groups of friction columns, by joint
    candidates: tuple[Group, ...]  # groups that are only estimated where the data ask for them

    @cached_property
    def whole(self) -> Array:
        """The maps of all blocks (n, k, u)."""
        return np.concatenate(list(self.maps.values()), axis=2)

    @property
    def places(self) -> dict[str, slice]:
        """Where blocks are among all unknowns (u)."""
        return places_of({name: len(unit) for name, unit in self.units.items()})

    def only(self, *names: str) -> Unknowns:
        """Return some of the blocks."""
        maps, units = ({name: own[name] for name in names} for own in (self.maps, self.units))
        return replace(self, maps=maps, units=units)

    def with_wider_baseline(self, factor: float) -> Unknowns:
        """Return the unknowns with errors of the baseline that are expected to be so many times
        larger.
        """
        wider = self.maps["baseline"] * factor
        return replace(self, maps={**self.maps, "baseline": wider})

    def columns(self, piece: Recording) -> tuple[Array, Array]:
        """Return the columns (N, n, u) of unknowns, and measured minus baseline torque (N, n)."""
        X, y = self.raw(piece)
        return np.asarray(np.swapaxes(np.swapaxes(X, 0, 1) @ self.whole, 0, 1)), y

    @property
    def pieces(self) -> Pieces:
        """The rows of the run."""
        return pieces_of(self.raw.run, self.columns)

    def squares(self, x: Array) -> Array:
        """Return for each joint the sum of squared residual torques (n,) of unknowns x (u,)."""
        parts = zip(self.raw.rows.factors, self.whole)
        return np.array([np.sum((F @ np.append(turn @ x, -1.0)) ** 2) for F, turn in parts])


def unknowns_of(raw: RawColumns, ten: Array) -> Unknowns:
    """Return the unknowns of a run, with what is known of the load (10,).

    A changed torque scale acts on its torque.
    """
    estimate, robot, rows = raw.estimate, raw.estimate.robot, raw.rows
    n = robot.n
    load, friction, base, tilt = raw.places
    total = rows.factors[0].shape[1] - 1
    maps, units, candidates = dict[str, Array](), dict[str, Array](), list[Group]()

    def everywhere(place: slice, matrix: Array) -> Array:
        columns = np.zeros((n, total, matrix.shape[1]))
        columns[:, place] = matrix
        return columns

    def add(block: str, columns: Array, unit: Array) -> None:
        """Take columns (n, k, c) that are already scaled by their unit (c,)."""
        maps[block], units[block] = columns, unit

    def offer(kind: str, name: str, columns: Array, unit: Array) -> None:
        """Take columns of a candidate."""
        add(f"{kind} {name}", columns, unit)
        candidates.append(Group(kind, name, f"{kind} {name}", tuple(range(len(unit)))))

    sizes = _friction_sizes(raw)
    add("friction", everywhere(friction, np.diag(sizes)), sizes)
    # the baseline's errors: its covariance has independent unit unknowns
    of_base = everywhere(base, covariance_root(_finite(estimate)))
    of_gains = _gain_errors(raw, ten)
    for block, columns in (("baseline", of_base), ("gains", of_gains)):
        add(block, columns, np.ones(columns.shape[2]))
    for joint, name in enumerate(robot.joint_names):
        columns = np.zeros((n, total, 1))
        columns[joint, base, 0] = estimate.beta
        columns[joint, load, 0] = ten
        offer("torque scale", name, columns, np.ones(1))
    if raw.turned:
        offer("gravity", "", everywhere(tilt, np.eye(2)), np.ones(2))
    sizes_of_body = (_mass(robot) or 10.0) * units_of(robot).parameters[robot.layout.links[0]]
    for index, (name, part) in enumerate(zip(robot.link_names, robot.layout.links)):
        body = estimate.base.matrix[:, part] * sizes_of_body
        if index != raw.carrier and np.any(body):
            offer("link", name, everywhere(base, body), sizes_of_body)
    unit = LARGEST_LOAD * sizes_of_body
    add("load", everywhere(load, np.diag(unit)), unit)
    return Unknowns(raw, maps, units, tuple(_friction_groups(raw)), tuple(candidates))


def _mass(robot: Robot) -> float:
    """Return the mass of the links that is known, kg; 0: nothing is."""
    return max(float(np.nansum([robot.parameters[part][9] for part in robot.layout.links])), 0.0)


def _friction_sizes(raw: RawColumns) -> Array:
    """Return expected sizes of friction: as large as it is, or a tenth of the joint's torque."""
    estimate, robot, rows = raw.estimate, raw.estimate.robot, raw.rows
    norms = np.array([np.linalg.norm(factor, axis=0) for factor in rows.factors])
    torque = np.maximum(norms[:, -1], np.sqrt(rows.samples) * estimate.sigma)
    sizes = []
    for size, term in zip(norms[:, raw.places[1]].T, raw.friction):
        joint = int(np.argmax(size))
        fallback = 0.1 * torque[joint] / size[joint] if size[joint] > 0 else 1.0
        known = robot.parameters[robot.layout.index(term.name)] if term.name in robot.layout else 0
        sizes.append(max(abs(float(np.nan_to_num(known))), fallback))
    return np.array(sizes)


def _friction_groups(raw: RawColumns) -> Iterator[Group]:
    """Yield the friction columns of each joint that has some."""
    robot = raw.estimate.robot
    for index, name in zip(robot.independent, robot.joint_names):
        if terms := [k for k, term in enumerate(raw.friction) if term.joint == index]:
            yield Group("friction", name, "friction", tuple(terms))


def _gain_errors(raw: RawColumns, ten: Array) -> Array:
    """Return the columns (n, k, r) of independent unit errors of the drive gains.

    Gains that are off by shares u make torques (1 + u_j) (Y_j beta + Y_j^L phi) of this run and of
    the baseline's, whose fit then has beta + S u: what is left is u_j (Y_j beta + Y_j^L phi) - Y_j
    S u. A share that all joints have in common makes S u = u beta: it shows nowhere, and scales the
    load. S is that of least squares on this run's motion, joints weighted by their noise, for the
    baseline's motion is not known here.
    """
    estimate, rows = raw.estimate, raw.rows
    n, b = estimate.robot.n, len(estimate.beta)
    load, _, base, _ = raw.places
    values, vectors = np.linalg.eigh(raw.gains)
    root = (vectors * np.sqrt(np.maximum(values, 0.0)))[:, values > 1e-12 * max(values[-1], 0.0)]
    columns = np.zeros((n, rows.factors[0].shape[1] - 1, root.shape[1]))
    if not root.shape[1]:
        return columns
    unit = 1.0 / np.maximum(np.sqrt(np.diag(_finite(estimate))), 1e-300)
    scale = np.sqrt(rows.samples) * np.maximum(estimate.sigma, 1e-300)
    shown = [factor[:, base] / unit / noise for factor, noise in zip(rows.factors, scale)]
    normal = np.array([part.T @ part for part in shown])
    faint = (
        1e-9 * np.trace(normal.sum(axis=0)) / b * np.eye(b)
    )  # what no joint shows is shared by all
    own = (normal + faint / n) @ (estimate.beta * unit)
    S = np.linalg.solve(normal.sum(axis=0) + faint, own.T) / unit[:, None]
    columns[:, base] = estimate.beta[:, None] * root[:, None] - S @ root
    columns[:, load] = ten[:, None] * root[:, None]
    return columns


def _finite(estimate: Estimate) -> Array:
    """Return the baseline's covariance.

    What its recording left open is taken to be off by ten times its size.
    """
    covariance = estimate.of_data.copy()
    still_open = ~np.isfinite(np.diag(covariance))
    if np.any(still_open):
        robot = estimate.robot
        kept = list(robot.layout.indices(estimate.base.kept))
        sizes = units_of(robot).parameters[kept] * max(_mass(robot), 1.0)
        covariance[still_open] = covariance[:, still_open] = 0.0
        covariance[still_open, still_open] = (
            10.0 * np.maximum(np.abs(estimate.beta), sizes)[still_open]
        ) ** 2
    return np.asarray(covariance)
