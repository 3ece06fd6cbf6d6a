"""The prior: a body for every link before any data, and how far another body is from it.

Where data are silent something must still be chosen: a link's mass that no torque depends on, or
the share of a rotor in the inertia about the first axis. The choice is the body nearest to the
prior one: the given one, or, without one, a body drawn from the geometry (between the joints it
carries) whose mass follows from the data as a whole.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from minidyn.arrays import Array
from minidyn.base.base_map import BaseMap
from minidyn.base.numeric.samples import random_states, units_of
from minidyn.dynamics.functions import gravity_of_links, inertias_of_links
from minidyn.errors import MinidynError, ShapeError
from minidyn.formats.load import as_robot
from minidyn.identification.estimators.non_negative import non_negative, scaled
from minidyn.model.drives import INERTIAS, NON_NEGATIVE, ROTOR, TERMS
from minidyn.model.parameters import from_pseudo_inertia, realizability, to_pseudo_inertia
from minidyn.model.robot import Robot
from minidyn.notices import Notice, info

Prior: TypeAlias = Robot | ArrayLike | str | os.PathLike[str] | bool | None
"""A robot with prior values, its name or path; standard parameters (p,); None: the robot's own.

False: none.
"""

Seen: TypeAlias = tuple[Array, Array]
"""Root mean squares of each joint's torque (n,), N m or N, and speed (n,), rad/s or m/s, that the
data come from.
"""

INCONSISTENT = info(
    "prior.inconsistent",
    "The prior of a link cannot belong to any rigid body; the nearest body that can exist was "
    "used.",
    "The values the robot came with cannot belong to any rigid body, a frequent fault of data "
    "sheets and drawings. Ask the source of {link} for better ones if they matter.",
)

_TAPER = (
    0.75  # arms become lighter towards the tip: the mass of a link against the one that carries it
)
_THICKNESS = 0.5  # radius of a default body over the robot's length scale
_DENSITY = (
    150.0  # kg/m³ of cubes of the length scale: light and heavy arms lie within a factor of two
)
_SEEN = 3.0  # standard deviations above which a link is seen in the data
_POSITIONS = 40  # at which the torque of the prior bodies is looked at
_ACCELERATION = 0.2  # of L / T², about 5 rad/s² for an arm: what joints are speeded up with
_FRICTION = 0.5  # share of that torque which is much for friction
FAINT = 0.02  # pull of bodies and drive terms: ten units off cost one noise variance
_FIRM = 2.0  # the same for joints that crawl: one unit off costs one
_CRAWL = 0.05  # of L / T, about 0.25 rad/s for an arm: joints that move less crawl
_PART = 0.25  # of a joint's range, about a radian: a length like L for slides
_GUESSED = 0.03  # of the weight, for links that are unknown among known ones
_SMALLEST_DRIVE = 0.2  # torque of the weakest drive against the strongest
_SMALLEST_ROTOR = (
    0.01  # what is much for the smallest rotor against the inertia that the first joints move
)
_SMALLEST = (
    1e-3  # eigenvalues of a prior body, in the metric of the default one, are raised to this
)
_LOADED = frozenset(
    term.symbol for term in TERMS.values() if term.kind == "load"
)  # no unit: shares of a load


def as_prior(prior: Prior) -> Prior:
    """Return a prior with a name or path replaced by the robot it leads to."""
    return as_robot(prior, argument="prior") if isinstance(prior, str | os.PathLike) else prior


def prior_parameters(robot: Robot, prior: Prior, owners: Sequence[Robot] = ()) -> Array | None:
    """Return the prior's standard parameters (p,) of a robot, NaN where unknown.

    None where there is none. An array may also hold the parameters of one of `owners`: the robot
    with other drive terms.
    """
    source = as_prior(prior)
    if source is False:
        return None
    values: Array
    if source is None or source is True:
        values = robot.parameters
    elif isinstance(source, Robot):
        if robot.locked_joints and set(robot.locked_joints) <= set(source.joint_names):
            source = source.locked(robot.locked_joints)
        mine, theirs = ([joint.name for joint in one.joints] for one in (robot, source))
        if mine != theirs:
            raise MinidynError(
                f"prior: {source.name}: its joints ({', '.join(theirs[:8])}) are not those of "
                f"robot {robot.name!r} ({', '.join(mine[:8])}); a prior is the same robot with "
                "prior values"
            )
        values = _carried(source.parameters, source, robot)
    else:
        values = np.asarray(source, dtype=float)
        if values.shape != robot.parameters.shape:
            owner = next((one for one in owners if one.parameters.shape == values.shape), None)
            if owner is None:
                raise MinidynError(
                    f"prior: expected {len(robot.parameters)} parameters, got shape {values.shape}"
                )
            values = _carried(values, owner, robot)
    return None if np.isnan(values).all() else values


def require_values(prior: Prior, known: Array | None) -> None:
    """Raise where a prior that is named has no values (p,), so that it cannot count."""
    is_named = not (prior is None or isinstance(prior, bool))
    if is_named and (known is None or not np.any(np.nan_to_num(known))):
        raise MinidynError(
            "prior: it knows no mass, centre of mass, inertia or rotor, so that it cannot count; "
            "name a robot file that has values, or leave prior out"
        )


def _carried(values: Array, before: Robot, after: Robot) -> Array:
    """Return parameters of one robot in the order of another that has other drive terms, NaN where
    they lack.
    """
    known = dict(zip(before.parameter_names, values))
    return np.array([known.get(name, np.nan) for name in after.parameter_names])


def knows_a_body(robot: Robot, known: Array | None) -> bool:
    """Say whether a prior knows all ten parameters of at least one link."""
    if known is None:
        return False
    return any(
        np.isfinite(known[part]).all() and np.any(known[part]) for part in robot.layout.links
    )


@dataclass(frozen=True)
class Centre:
    """The prior parameters and the scales in which distances from them are measured."""

    # standard parameters (p,): every link strictly realizable; 0 for drive terms without a prior
    phi: Array
    # upper triangular U (links, 4, 4) with U Uᵀ the pseudo-inertia of a stout body of the same mass
    # and centre as the prior one, in whose metric faint pulls are measured: a slim prior, if wrong,
    # must not bite
    factors: Array
    scales: Array  # size (p,) of one unit of each drive term; of no meaning for inertial columns
    # pull (p,) of each drive term to its prior value: one unit off costs half of it, in noise
    # variances
    faint: Array
    known_links: NDArray[np.bool_]  # which links have a prior that was given (links,)
    known_drives: NDArray[np.bool_]  # which drive terms have a positive prior that was given (p,)
    notices: tuple[Notice, ...]  # what was changed or left out


def entropic_distance(phi: ArrayLike, prior: ArrayLike) -> Array:
    """Return the log-det Bregman divergence tr(P₀⁻¹P) - log det(P₀⁻¹P) - 4 of bodies (..., 10) from
    prior ones.

    It does not depend on frames or units, is convex in phi, and is infinite for bodies that cannot
    exist: the relative entropy of the Gaussian mass distributions, up to a factor.
    """
    return _of_eigenvalues(phi, prior, lambda values: values - np.log(values) - 1.0)


def euclidean_distance(phi: ArrayLike, prior: ArrayLike) -> Array:
    """Return ½ ‖P₀^-½ P P₀^-½ - 1‖² of bodies (..., 10) from prior ones.

    The entropic one to second order. The metric is the prior body's own, so that a gram of a finger
    counts like a kilogram of a shoulder.
    """
    return np.asarray(0.5 * ((_as_prior_sees(phi, prior) - np.eye(4)) ** 2).sum(axis=(-2, -1)))


def geodesic_distance(phi: ArrayLike, prior: ArrayLike) -> Array:
    """Return ½ ‖log P₀^-½ P P₀^-½‖² of bodies (..., 10) from prior ones.

    Infinite for inconsistent bodies. The affine-invariant distance of pseudo-inertias (Lee and Park
    2018; Lee, Wensing and Park 2020), up to the factor that makes it agree with the entropic and
    the Euclidean one near the prior. It depends on no frame and no unit, and a body half as heavy
    is as far as one twice as heavy. It is not convex in the parameters.
    """
    return _of_eigenvalues(phi, prior, lambda values: 0.5 * np.log(values) ** 2)


def _of_eigenvalues(phi: ArrayLike, prior: ArrayLike, part: Callable[[Array], Array]) -> Array:
    values = np.asarray(np.linalg.eigvalsh(_as_prior_sees(phi, prior)), dtype=float)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(np.all(values > 0, axis=-1), part(values).sum(axis=-1), np.inf)


def _as_prior_sees(phi: ArrayLike, prior: ArrayLike) -> Array:
    inverse = np.linalg.inv(upper_factor(to_pseudo_inertia(prior)))
    return np.asarray(inverse @ to_pseudo_inertia(phi) @ np.swapaxes(inverse, -1, -2))


DISTANCES = {
    "entropic": entropic_distance,
    "euclidean": euclidean_distance,
    "geodesic": geodesic_distance,
}
"""Kinds of distance from a prior, by name."""


def upper_factor(P: Array) -> Array:
    """Return upper triangular U (..., 4, 4) with U Uᵀ = P: with it the mass is P₄₄ = U₄₄² alone."""
    return np.ascontiguousarray(np.linalg.cholesky(P[..., ::-1, ::-1])[..., ::-1, ::-1])


def default_bodies(robot: Robot) -> Array:
    """Return ten parameters of each link (links, 10) from geometry alone, for a total mass of 1.

    A body is a thick rod through its joint's origin and the origins of what it carries; it is fat
    on purpose, since motors and housings are, and since a body inside it is reached without strain.
    """
    L = units_of(robot).length
    radius = _THICKNESS * L
    points: list[list[Array]] = [[np.zeros(3)] for _ in robot.joints]
    depth: list[int] = []
    for joint in robot.joints:
        depth.append(0 if joint.parent < 0 else depth[joint.parent] + (joint.kind != "fixed"))
        if joint.parent >= 0:
            points[joint.parent].append(joint.placement[:3, 3])
    for frame in robot.frames:
        if frame.link >= 0:
            points[frame.link].append(frame.placement[:3, 3])
    P = np.empty((len(robot.joints), 4, 4))
    for index, own in enumerate(points):
        cloud = np.array(own)
        com = cloud.mean(axis=0)
        spread = (cloud - com).T @ (cloud - com) / len(cloud) + radius**2 / 5 * np.eye(3)
        reach = float(np.linalg.norm(cloud - cloud[0], axis=1).max())
        mass = _TAPER ** depth[index] * (reach + 2 * radius)
        P[index, :3, :3] = mass * (spread + np.outer(com, com))
        P[index, :3, 3] = P[index, 3, :3] = mass * com
        P[index, 3, 3] = mass
    return from_pseudo_inertia(P / P[:, 3, 3].sum())


def centres_of(
    robot: Robot,
    base: BaseMap,
    data: Sequence[tuple[Array, Array]],
    prior: ArrayLike | None = None,
    mass: float | None = None,
    seen: Seen | None = None,
) -> list[Centre]:
    """Return the prior parameters for each set of data.

    The prior where it is known, a body of like density elsewhere. Data are R (b, b) in units of the
    noise and z (b,): they set the mass of the default bodies where neither the prior (p,), NaN
    where unknown, nor the total mass of the moving links, kg, does. The robot's own values are not
    read. Where it is not known how large speeds were, joints are taken to move well.
    """
    layout = robot.layout
    given = np.full(len(layout), np.nan) if prior is None else np.array(prior, dtype=float)
    if given.shape != (len(layout),):
        raise ShapeError(f"prior: expected shape ({len(layout)},), got {given.shape}")
    shapes = default_bodies(robot)
    masses = np.array([given[part][9] for part in layout.links])
    heavy = np.isfinite(masses) & (masses > 0)
    if heavy.any():
        totals = [masses[heavy].sum() / shapes[heavy, 9].sum()] * len(data)
    elif mass is not None:
        totals = [mass] * len(data)
    else:
        guess = _DENSITY * len(shapes) * units_of(robot).length ** 3
        totals = [_mass_in_data(robot, base, R, z, shapes, guess) for R, z in data]
    if mass is not None and not heavy.all():
        rest = mass - masses[heavy].sum()
        totals = [
            rest / shapes[~heavy, 9].sum() if rest > 0.05 * mass else total for total in totals
        ]
    made = {total: _centre(robot, given, shapes, total, seen) for total in set(totals)}
    return [made[total] for total in totals]


def _centre(robot: Robot, given: Array, shapes: Array, total: float, seen: Seen | None) -> Centre:
    """Return the prior for default bodies (links, 10) of this total mass."""
    layout = robot.layout
    phi, notices = np.zeros(len(layout)), []
    known = np.array(
        [bool(np.isfinite(given[part]).all() and np.any(given[part])) for part in layout.links]
    )
    for index, part in enumerate(layout.links):
        own = given[part][9]
        body = shapes[index] * (own / shapes[index, 9] if own > 0 else total)
        if known[index]:
            body, reason = _consistent(given[part], body)
            if reason:
                link = robot.link_names[index]
                text = (
                    f"prior of link {link!r} is not physically consistent: {reason}; the nearest "
                    "body is used"
                )
                notices.append(INCONSISTENT(text, link=link, reason=reason))
        phi[part] = body
    scales, faint = _drive_scales(robot, phi, seen)
    known_drives = np.zeros(len(layout), dtype=bool)
    for column in (column for columns in layout.drives for column in columns):
        value = given[column.index]
        if np.isfinite(value) and (value > 0 or column.symbol not in NON_NEGATIVE):
            phi[column.index] = value
            if column.symbol == ROTOR:  # friction is no matter of design: it is left to the data
                scales[column.index] = value
                known_drives[column.index] = True
    stout = to_pseudo_inertia(np.array([phi[part] for part in layout.links]))
    around = (_THICKNESS * units_of(robot).length) ** 2 / 5 * np.eye(3)
    stout[known, :3, :3] += stout[known, 3, 3, None, None] * around
    return Centre(phi, upper_factor(stout), scales, faint, known, known_drives, tuple(notices))


def shares_of(centre: Centre, given: bool) -> Array:
    """Return the share (links,) of the prior's weight that each link gets.

    Links without a prior, among others that have one, are held to their bodies drawn from the
    geometry a little: otherwise the errors of the others end in them. Where no link is known the
    weight holds for none; where no prior is given at all, not even one of unknown values, for the
    drawn bodies.
    """
    if not given:
        return np.ones(len(centre.known_links))
    return np.where(centre.known_links, 1.0, _GUESSED if centre.known_links.any() else 0.0)


def _drive_scales(robot: Robot, phi: Array, seen: Seen | None) -> tuple[Array, Array]:
    """Return one unit (p,) of each drive term, what would be much for the prior bodies, and its
    pull (p,).

    A rotor is measured by the inertia of what it moves, friction by half of the torque that carries
    and speeds up the prior bodies, or by half of the measured torque where that is larger. The pull
    is faint, but for joints that crawl: these show neither rotor nor friction as they are at speed
    (bearings creep before they slip), and a model of the crawl would be absurd beyond it.
    """
    units = units_of(robot)
    q = random_states(robot, units, _POSITIONS, np.random.default_rng(0)).q
    inertias = np.mean(np.diagonal(inertias_of_links(robot, q, phi), axis1=-2, axis2=-1), axis=0)
    torques = np.sqrt(np.mean(gravity_of_links(robot, q, phi) ** 2, axis=0))
    torques = torques + _ACCELERATION * inertias * units.speeds / units.time
    # a wrist carries little, but its drive is no hundredth of a shoulder's
    torques = np.maximum(torques, _SMALLEST_DRIVE * np.max(torques / units.rows) * units.rows)
    own = slice(robot.n - len(robot.independent), None)  # rows of joints, behind those of a base
    pulls = np.full(robot.n, FAINT)
    if seen is not None:
        torques = np.maximum(torques, seen[0])
        limits = [robot.joints[k].limits for k in robot.independent]
        ranges = np.full(robot.n, np.inf)
        ranges[own] = [limit.upper - limit.lower for limit in limits]
        usual = np.fmin(
            units.speeds, _PART * ranges / units.time
        )  # a short slide is slow and does not crawl
        pulls = pulls + _FIRM * np.minimum(1.0, _CRAWL * usual / np.maximum(seen[1], 1e-300)) ** 4
    # a flange weighs next to nothing, but the gears of its drive show a rotor a hundred times as
    # large
    sizes = units.rows / units.speeds
    inertias = np.maximum(inertias, _SMALLEST_ROTOR * np.max(inertias / sizes) * sizes)
    of_joints = np.full((3, len(robot.joints)), [[np.max(inertias)], [np.max(torques)], [FAINT]])
    of_joints[:, list(robot.independent)] = inertias[own], torques[own], pulls[own]
    rows = (
        np.array([units.length if joint.turns else 1.0 for joint in robot.joints])
        * units.length
        / units.time**2
    )
    scales, faint = np.ones(len(robot.layout)), np.zeros(len(robot.layout))
    for column in (column for columns in robot.layout.drives for column in columns):
        inertia, load, pull = of_joints[:, column.joint]
        size = inertia if column.symbol in INERTIAS else _FRICTION
        if column.symbol not in INERTIAS | _LOADED:
            size *= load * units.parameters[column.index] / rows[column.joint]
        # machine code and NumPy, which runs the first few calls, differ in the last digit: results
        # must not
        scales[column.index] = float(
            f"{max(float(size), 1e-12 * float(np.max(of_joints[:2]))):.9g}"
        )
        faint[column.index] = pull
    return scales, faint


def _consistent(given: Array, body: Array) -> tuple[Array, str]:
    """Return the nearest strictly consistent body to a given one in the metric of `body`, and what
    was wrong.
    """
    U = upper_factor(to_pseudo_inertia(body))
    inverse = np.linalg.inv(U)
    values, vectors = np.linalg.eigh(inverse @ to_pseudo_inertia(given) @ inverse.T)
    report = realizability(given)
    if values[0] >= _SMALLEST and report.realizable:
        return given, ""
    raised = (vectors * np.maximum(values, _SMALLEST)) @ vectors.T
    return from_pseudo_inertia(U @ raised @ U.T), "" if report.realizable else report.reason


def _mass_in_data(
    robot: Robot, base: BaseMap, R: Array, z: Array, shapes: Array, guess: float
) -> float:
    """Return the total mass with which the default bodies, and drive terms as they like, fit the
    data best.

    As far as links are not seen in the data (by share of mass, of those that motion can show), the
    guess replaces it, in logarithms: one finger that moves does not show the mass of an arm.
    """
    drives = [column for columns in robot.layout.drives for column in columns]
    bodies = np.zeros((len(robot.layout), len(shapes)))
    for index, part in enumerate(robot.layout.links):
        bodies[part, index] = shapes[index]
    of_drives = base.matrix[:, [column.index for column in drives]]
    links = R @ base.matrix @ bodies
    columns = np.column_stack([links.sum(axis=1), R @ of_drives])
    sizes = np.linalg.norm(columns, axis=0)
    use = sizes > 0
    if not use[0] or not np.any(z):
        return guess
    bounded = np.array([True] + [column.symbol in NON_NEGATIVE for column in drives])[use]
    rows = np.column_stack([columns[:, use] / sizes[use], z / np.linalg.norm(z)])
    A, b, scale = scaled((rows.T @ rows)[None])
    mass = float((non_negative(A, b, bounded) / scale)[0, 0])
    found = mass / sizes[0] * float(np.linalg.norm(z))
    if not (np.isfinite(found) and mass > 1e-6):
        return guess
    seen = np.linalg.norm(_beside(links, R @ of_drives), axis=0) * found > _SEEN
    could = base.matrix @ bodies
    visible = np.linalg.norm(_beside(could, of_drives), axis=0) > 1e-9 * np.linalg.norm(
        could, axis=0
    )
    share = float(shapes[seen & visible, 9].sum() / max(shapes[visible, 9].sum(), 1e-300))
    return float(np.exp(share * np.log(found) + (1.0 - share) * np.log(guess)))


def _beside(columns: Array, others: Array) -> Array:
    """Return the part of columns that no combination of others explains."""
    sizes = np.linalg.norm(others, axis=0)
    if not np.any(sizes > 0):
        return columns
    U, s, _ = np.linalg.svd(others[:, sizes > 0] / sizes[sizes > 0], full_matrices=False)
    U = U[:, s > 1e-10 * s[0]]
    return np.asarray(columns - U @ (U.T @ columns))
