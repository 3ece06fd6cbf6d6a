"""What a motion shall show.

Columns of a robot's regressor, those that count, and what is known of the others. The log of a
motion is y = Y θ + noise. θ holds what the purpose is about (base parameters, a load, friction,
gains) and what else a fit must find from the same log: friction that changed since the robot was
identified without its load, links whose friction is asked for. The information about the part that
counts is what is left when the rest is eliminated, the Schur complement of F = Σ YᵀY / σ² and what
was known before.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from minidyn.arrays import Array
from minidyn.base.base_map import BaseMap
from minidyn.base.base_parameters import base_parameters
from minidyn.dynamics.functions import regressor
from minidyn.errors import MinidynError, UnknownName
from minidyn.excitation.bounds import predicting_parameters
from minidyn.model.drives import AUTO, OWN, PLAIN
from minidyn.model.robot import Robot, measured_joints
from minidyn.notices import Notice, info, warning
from minidyn.simulation.payload import Payload

RISE = 0.5
"""Seconds to full speed where torques cannot be predicted."""

PURPOSES = ("model", "payload", "gains", "friction", "gravity")
"""What motions are designed for."""

NO_MODEL = warning(
    "excite.no_model",
    "The robot's parameters are not known, so that torques cannot be predicted: accelerations are "
    "limited instead, so that full speed takes half a second.",
    "Give a robot with a model (an earlier estimate, a CAD file), or limits={'acceleration': ...}.",
)
NO_FRICTION_VALUES = info(
    "excite.no_friction_values",
    "Drive terms have no values in the robot's file: torques are predicted without them.",
)
NO_LOAD = warning(
    "excite.no_load",
    "The load is not known: torques are predicted without it, so that its weight may exceed their "
    "limits.",
    "Give what is known of it, payload={'mass': 3.0}, or a smaller torque_share.",
)


class Known(Protocol):
    """What is known about a robot's base parameters: an estimate, or an earlier design."""

    @property
    def robot(self) -> Robot:
        """The robot."""
        ...

    @property
    def base(self) -> BaseMap:
        """Its base parameters."""
        ...

    @property
    def covariance(self) -> Array:
        """Their covariance (b, b)."""
        ...

    @property
    def sigma(self) -> Array:
        """Noise of the torques (n,)."""
        ...


@dataclass(eq=False)
class Target:
    """What shall be known."""

    robot: Robot  # with the drive terms, and the load, that shall be found
    base: BaseMap  # what errors are predicted for
    columns: tuple[str, ...]  # of the regressor that are computed (c)
    combine: Array | None  # (c, c), where base parameters are mixtures of them
    select: NDArray[np.int_]  # those that a fit finds (k), the base parameters first
    mix: Array  # (k, k) to the basis in which information is taken
    counted: NDArray[np.int_]  # places in that basis that the criterion is about
    known: Array  # information (k, k) that is there before, same basis
    prior: Array  # values (c,) that predict torques; of no effect where efforts are not limited
    labels: tuple[
        str, ...
    ] = ()  # names of what errors are predicted for, where they are no base parameters

    def regressor(self, robot: Robot, motion: Sequence[Array]) -> Array:
        """Return the columns (N, n, c) along a motion q, dq, ddq (N, n) each, of the robot or its
        smooth twin.
        """
        Y = regressor(robot, *motion, columns=self.columns)
        return np.asarray(Y if self.combine is None else Y @ self.combine)

    def rows(self, Y: Array, weights: Array) -> Array:
        """Return weighted rows (R, k) of columns Y (N, n, c)."""
        return np.asarray(
            (weights[:, None] * Y[..., self.select]).reshape(-1, len(self.select)) @ self.mix
        )

    def back(self, slope: Array, Y: Array, weights: Array) -> Array:
        """Return derivatives (N, n, c) with respect to Y, of those (R, k) with respect to the
        rows.
        """
        found = np.zeros(Y.shape)
        found[..., self.select] = weights[:, None] * (slope @ self.mix.T).reshape(*Y.shape[:2], -1)
        return found

    def marginal(self, F: Array) -> tuple[Array, Array]:
        """Return the information (a, a) about what counts, of all (k, k), and P (a, k).

        Its derivative is Pᵀ(.)P.
        """
        k, own = len(F), self.counted
        P = np.eye(k)[own]
        if len(own) == k:
            return F[np.ix_(own, own)], P
        rest = np.setdiff1d(np.arange(k), own)
        inner = F[np.ix_(rest, rest)]
        scale = 1.0 / np.sqrt(np.maximum(np.diag(inner), 1e-300))
        scaled = inner * np.outer(scale, scale) + 1e-12 * np.eye(
            len(rest)
        )  # what is not shown at all takes no part
        P[:, rest] = -(
            np.linalg.solve(scaled, scale[:, None] * F[np.ix_(rest, own)]) * scale[:, None]
        ).T
        S = P @ F @ P.T
        return (S + S.T) / 2, P

    def covariance(self, F: Array) -> Array:
        """Return the covariance of what errors are predicted for; infinite where F (k, k) says
        nothing.
        """
        count = len(self.labels) or self.base.rank
        found = np.full((count, count), np.inf)
        if _regular(F):
            return np.asarray((self.mix @ np.linalg.inv(F) @ self.mix.T)[:count, :count])
        S = self.marginal(F)[0]
        if len(self.counted) < len(F) and _regular(S):  # then `mix` is the identity
            found[np.ix_(self.counted, self.counted)] = np.linalg.inv(S)
        return found


@dataclass(eq=False)
class GainTarget(Target):
    """Drive gains, as shares, of two logs of one motion.

    Without and with a load whose mass was weighed. With gains off by shares u the torques of both
    logs are (1 + u_j) times the measured ones, and the bodies are found from the same logs: rows
    [-τ_j e_j, Y, 0] and [-(τ_j + τ_j^L) e_j, Y, Y^L].
    """

    load: Array | None = None  # values (c,) of the load, of its own columns alone

    def rows(self, Y: Array, weights: Array) -> Array:
        """Return weighted rows of both logs."""
        n = Y.shape[1]
        parts = []
        for prior, own in self._runs():
            W = np.zeros((*Y.shape[:2], n + len(self.select)))
            W[:, np.arange(n), np.arange(n)] = -(Y @ prior)
            W[..., n:] = Y[..., self.select] * own
            parts.append((weights[:, None] * W).reshape(-1, W.shape[2]))
        return np.asarray(np.concatenate(parts) @ self.mix)

    def back(self, slope: Array, Y: Array, weights: Array) -> Array:
        """Return derivatives with respect to Y."""
        n, found = Y.shape[1], np.zeros(Y.shape)
        halves = np.split(slope @ self.mix.T, 2)
        for (prior, own), part in zip(self._runs(), halves):
            W = weights[:, None] * part.reshape(*Y.shape[:2], -1)
            found -= W[:, np.arange(n), np.arange(n)][..., None] * prior
            found[..., self.select] += W[..., n:] * own
        return found

    def _runs(self) -> list[tuple[Array, Array]]:
        """Of the log without and with the load.

        Values that predict torques (c,), and which columns are there (k,).
        """
        assert self.load is not None  # noqa: S101 - gains are asked for with a load
        own = set(_load_columns(self.robot))
        without = np.array([float(self.columns[k] not in own) for k in self.select])
        return [(self.prior - self.load, without), (self.prior, np.ones(len(self.select)))]


def _regular(F: Array) -> bool:
    """Whether information says something about every direction, whatever the units."""
    scale = 1.0 / np.sqrt(np.maximum(np.diag(F), 1e-300))
    values = np.linalg.eigvalsh(F * np.outer(scale, scale))
    return bool(np.all(np.isfinite(values)) and values[0] > 1e-12 * values[-1])


def target_of(
    robot: Robot,
    purpose: str,
    friction: Any,
    rotor_inertia: bool | None,
    earlier: Sequence[Known],
    information: Sequence[Array],
    payload: Payload | Mapping[str, Any] | float | None,
    measured: Iterable[str] | str | None = None,
) -> tuple[Target, Array | None, list[Notice]]:
    """Return what shall be known, standard parameters (p,) that predict torques (None: not known),
    and what to know.

    `earlier` is what is known already, with the information (b, b) that each of them brings.
    """
    if purpose not in PURPOSES:
        raise UnknownName("purpose", purpose, PURPOSES)
    loads = purpose in ("payload", "gains")
    if payload is not None and not loads:
        raise MinidynError(
            f'excite: payload: for purpose="payload" and "gains"; got purpose={purpose!r}'
        )
    if measured is not None and purpose != "model":
        raise MinidynError(f'excite: measured: for purpose="model"; got purpose={purpose!r}')
    if purpose == "gravity":
        friction, rotor_inertia = OWN, None
    if earlier:
        model = earlier[0].base.robot.with_parameters(earlier[0].robot.parameters)
    else:
        terms = (
            PLAIN
            if friction == AUTO
            else None
            if isinstance(friction, str) and friction == OWN
            else friction
        )
        model = robot.with_drives(
            None if purpose == "payload" and rotor_inertia is True else rotor_inertia, terms
        )
    notices: list[Notice] = []
    if not loads:
        phi, more = _predicting(model)
        if purpose == "gravity":
            model = model.with_drives(False, ())
            base = earlier[0].base if earlier else base_parameters(model, model="gravity")
            if base.model != "gravity":
                raise MinidynError(
                    'excite: after: purpose="gravity" adds to estimates from poses at rest, no '
                    "others"
                )
            target = _of_base(model, base, None)
            return _with_known(target, earlier, information), phi, more
        if measured is not None:
            target = _of_measured(model, phi, earlier, measured_joints(model, measured))
            return _with_known(target, earlier, information), phi, more
        target = _of_base(model, earlier[0].base if earlier else base_parameters(model), phi)
        if purpose == "friction":
            target.counted = np.flatnonzero(
                [model.layout.column(name).is_friction for name in target.base.kept]
            )
            target.mix = np.eye(len(target.select))
            if not len(target.counted):
                raise MinidynError(
                    'excite: purpose="friction": no friction term is asked for; name some in '
                    "friction="
                )
        return _with_known(target, earlier, information), phi, more
    given = payload if isinstance(payload, Payload) else None
    if payload is not None and given is None:
        about = {"mass": payload} if isinstance(payload, int | float) else payload
        if not isinstance(about, Mapping) or "mass" not in about:
            raise MinidynError(
                f"excite: payload: expected a mass in kg, or mass, com and inertia; got {payload!r}"
            )
        given = Payload(0.0, {"com": np.zeros(3), "inertia": np.zeros((3, 3)), **about})
    where: dict[str, Any] = (
        {} if given is None else {"link": given.link, "placement": given.placement}
    )
    loaded = model.with_load(parameters=None if given is None else given.ten, **where)
    filled = model.with_load(parameters=np.zeros(10) if given is None else given.ten, **where)
    phi, more = _predicting(filled)
    if given is None:
        if purpose == "gains":
            raise MinidynError(
                "excite: purpose=\"gains\" needs the load that was weighed: payload={'mass': 3.0}"
            )
        notices.append(
            NO_LOAD(
                "the load is not known: torques are predicted without it; give payload={'mass': "
                "...}"
            )
        )
    target = (
        _of_load(loaded, phi, earlier, information)
        if purpose == "payload"
        else _of_gains(loaded, phi)
    )
    if purpose == "gains" and phi is None:
        raise MinidynError(
            'excite: purpose="gains" needs a robot whose parameters are known, roughly: those of '
            "its file"
        )
    if purpose == "gains" and earlier:
        raise MinidynError(
            'excite: after: purpose="gains" finds the bodies from its own two logs; leave it out'
        )
    return target, phi, notices + more


def _predicting(model: Robot) -> tuple[Array | None, list[Notice]]:
    """Standard parameters (p,) that predict the torques, None where they are not known.

    And what was assumed.
    """
    phi, names = predicting_parameters(model)
    if phi is None:
        text = (
            "torques were not checked, because the robot's parameters are not known; acceleration "
            "limits are assumed instead: full speed takes half a second"
        )
        return None, [NO_MODEL(text)]
    if not names:
        return phi, []
    text = (
        f"torques are predicted without {len(names)} drive terms whose values are not known, "
        f"{names[0]} first"
    )
    return phi, [NO_FRICTION_VALUES(text, parameters=names)]


def _of_base(model: Robot, base: BaseMap, phi: Array | None) -> Target:
    """All base parameters, in an orthonormal basis of what is identifiable.

    No number depends on which lead the set.
    """
    every = np.arange(base.rank)
    mix = np.asarray(np.linalg.qr(base.matrix.T)[1].T)
    prior = np.zeros(base.rank) if phi is None else base.values(phi)
    return Target(
        model, base, base.kept, base.unmixing, every, mix, every, np.zeros((base.rank,) * 2), prior
    )


def _of_measured(
    model: Robot, phi: Array | None, earlier: Sequence[Known], measured: tuple[str, ...]
) -> Target:
    """Base parameters that the measured torques show; the others' columns predict torques alone."""
    before = {one.base.measured for one in earlier}
    if before - {measured}:
        raise MinidynError(
            "excite: after: with measured=, designs for the same measured torques; got other ones"
        )
    base = earlier[0].base if earlier else base_parameters(model, measured=measured)
    target, whole = _of_base(model, base, None), base_parameters(model)
    target.columns = tuple(dict.fromkeys([*base.kept, *whole.kept]))
    target.prior = np.zeros(len(target.columns))
    if phi is not None:
        target.prior[[target.columns.index(name) for name in whole.kept]] = whole.values(phi)
    return target


def _with_known(target: Target, earlier: Sequence[Known], information: Sequence[Array]) -> Target:
    for one in information:
        target.known = target.known + target.mix.T @ one @ target.mix
    return target


def _load_columns(loaded: Robot) -> list[str]:
    return [column.name for column in loaded.layout.columns[loaded.layout.links[-1]][:10]]


def _of_load(
    loaded: Robot, phi: Array | None, earlier: Sequence[Known], information: Sequence[Array]
) -> Target:
    """A load's parameters.

    Friction may have changed, and links are known as well as `earlier` knows them.
    """
    ten = _load_columns(loaded)
    friction = [column.name for column in loaded.layout.columns if column.is_friction]
    base = base_parameters(loaded, columns=[*ten, *friction])
    extra: list[str] = []
    known = np.zeros((base.rank, base.rank))
    if earlier:
        before = earlier[0].base
        if before.mixing is not None:
            raise MinidynError(
                "excite: after: its base parameters are mixtures of standard ones; identify by "
                "default"
            )
        extra = [name for name in before.kept if name not in base.kept]
        places = [before.kept.index(name) for name in extra]
        covariance = np.linalg.pinv(np.sum(information, axis=0), hermitian=True)[
            np.ix_(places, places)
        ]
        size = base.rank + len(extra)
        known = np.zeros((size, size))
        known[base.rank :, base.rank :] = np.linalg.pinv(covariance, hermitian=True)
    whole = base_parameters(loaded)
    columns = tuple(dict.fromkeys([*base.kept, *extra, *whole.kept]))
    prior = np.zeros(len(columns))
    if phi is not None:
        prior[[columns.index(name) for name in whole.kept]] = whole.values(phi)
    select = np.arange(base.rank + len(extra))
    own = set(ten)
    counted = np.flatnonzero([name in own for name in base.kept])
    return Target(loaded, base, columns, None, select, np.eye(len(select)), counted, known, prior)


def _of_gains(loaded: Robot, phi: Array | None) -> GainTarget:
    """Shares by which gains are off.

    Bodies, drive terms and all of the load but its mass are found beside them.
    """
    model = loaded.with_parameters(np.nan_to_num(loaded.parameters))
    ten = _load_columns(loaded)
    without = base_parameters(
        loaded, columns=[name for name in loaded.parameter_names if name not in ten]
    )
    of_load = base_parameters(loaded, columns=ten[:9])  # the mass was weighed
    if base_parameters(loaded, columns=ten).rank == of_load.rank:
        raise MinidynError(
            'excite: purpose="gains": the mass of the load has no effect on torques that its '
            "centre of mass and "
            "inertia cannot have, so that no motion shows the gains by it; measure the centre of "
            "the load, too, record "
            'purpose="model" and give md.identify_drive_gains com='
        )
    columns = (*without.kept, *of_load.kept, ten[9])
    n, select = loaded.n, np.arange(len(columns) - 1)
    prior, load = np.zeros(len(columns)), np.zeros(len(columns))
    if phi is not None:
        prior[: without.rank] = without.values(phi)
        load[without.rank : -1], load[-1] = of_load.values(phi), phi[loaded.layout.index(ten[9])]
    size = n + len(select)
    labels = tuple(f"gain {name}" for name in loaded.joint_names)
    nothing = np.zeros((size, size))
    every = np.arange(n)
    return GainTarget(
        model,
        without,
        columns,
        None,
        select,
        np.eye(size),
        every,
        nothing,
        prior + load,
        labels,
        load=load,
    )
