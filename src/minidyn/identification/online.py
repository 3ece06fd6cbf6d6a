"""Estimation while the robot runs.

Recursive least squares on base parameters, as triangles that rows are turned into. Rows need no
accelerations. Over one period T the momentum W β changes by the torque, so that

    D = (W(k+1) - W(k)) / T + mean(rest)   satisfies   D β = mean(tau),

and both sides pass the same lag as the momentum observer's residual: exact in discrete time. Each
joint keeps the triangular factor of its rows (square-root information); a sample is one row more
for each, by orthogonal rotations, which loses no digits that normal equations would. Forgetting
multiplies the factors by exp(-T / 2 memory).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import chdtrc

from minidyn.arrays import Array, covariance_root
from minidyn.base.base_parameters import base_parameters
from minidyn.control.controller import gain_vector, positive
from minidyn.control.momentum_observer import momentum_observer, residual_noise
from minidyn.control.sample_guard import RUNNING
from minidyn.control.sample_status import Flags, SampleStatus
from minidyn.dynamics.drives import friction_columns
from minidyn.errors import MinidynError
from minidyn.formats.load import RobotLike, as_robot
from minidyn.graph.targets.native.kernel import compile_function
from minidyn.identification.consistency.consistency import make_consistent
from minidyn.identification.estimate import Estimate
from minidyn.identification.inputs import lifted
from minidyn.identification.online_rows import rows_program, rows_source
from minidyn.identification.payload.columns import WIDEST_LOAD, carrier_of, of_frame
from minidyn.identification.payload.payload import nearest_body
from minidyn.identification.problem import BlockProblem, Rows
from minidyn.identification.rows.triangles import Triangle, Triangles
from minidyn.model.robot import Robot, require_fixed_base
from minidyn.simulation.payload import Payload

BLOCK = 128  # size: samples that are turned into the triangles at once


@dataclass(frozen=True)
class Change:
    """Something that has happened to the robot since the model was made.

    Attributes:
        time: When external torque passed its threshold first, s from the first sample.
        joints: Names of the joints that showed it.
        load: The body that explains it best, on the last link, with its covariance.
        probability: Of a misfit as large as the one that the load leaves, if it is a load: small
            for other contacts.
    """

    time: float
    joints: tuple[str, ...]
    load: Payload
    probability: float


class Online:
    """Base parameters that follow the robot while it moves; :func:`online` makes it.

    Unlike other values of this package it changes: `add` takes samples in, one a period. Everything
    else asks.

    Attributes:
        model: The estimate that it began with: robot, base parameters, noise, prior.
        gain: Pole of the lag (n,), 1/s.
        period: Of the samples, s.
        memory: Time constant of forgetting, s; infinite: nothing is forgotten.
        friction_error: Share by which friction may have changed, where a load is found.
        confirm: Seconds that a change must last before it is one.
        samples: How many came, those that were held included.
        status: Flags of :class:`minidyn.control.SampleStatus` of the last sample; 0: it was used.
    """

    def __init__(
        self,
        model: Estimate,
        gain: Array,
        period: float,
        memory: float,
        prior: bool,
        friction_error: float,
        confirm: float,
        keep: float,
        guarding: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        self.model, self.gain, self.period, self.memory, self.confirm = (
            model,
            gain,
            period,
            memory,
            confirm,
        )
        self._prior, self.friction_error = prior, friction_error
        self.samples, self.status = 0, SampleStatus(0)
        self._observer = momentum_observer(
            model,
            gain=gain,
            period=period,
            friction_error=friction_error,
            track_friction=False,  # its own rows have friction
            **guarding,
        )
        self._columns, self.program = rows_program(
            model.robot, model.base, gain, period, self._observer.margins
        )
        self._step = compile_function(self.program)
        edges = np.cumsum([0, *(len(own) for own in self._columns)])
        self._parts = [slice(a, b) for a, b in pairwise(edges.tolist())]
        self._entries = int(edges[-1])
        self._triangles = [Triangle(len(own) + 1) for own in self._columns]
        self._scale = noise_of(model, period)
        self._block = np.empty(
            (BLOCK, self._entries + 2 * model.robot.n)
        )  # rows, torques, what standstill hides
        self._filled = 0
        self._kept: list[Array] = []  # blocks of rows of the last seconds
        self._keep = max(1, round(keep / period / BLOCK))
        self._noise = residual_noise(model, gain)
        self._watched = np.zeros(self._observer.state_size)  # state of the observer
        self._state: Array | None = None
        self._since = -1  # sample from which torque has been above its threshold without a pause
        self._over = 0  # samples since
        self._passed: set[int] = set()

    def add(
        self, q: ArrayLike, dq: ArrayLike, tau: ArrayLike, elapsed: ArrayLike | None = None
    ) -> SampleStatus:
        """Take one sample in, each (n,), or several (N, n).

        Positions, speeds, and torques held until the next one. A sample that is not finite, beyond
        its bounds or stuck adds no row and holds the state. Returns the flags of the sample, of
        several those of all of them.

        Args:
            q: Positions.
            dq: Speeds.
            tau: Torques.
            elapsed: Time since the sample before, s, (N,) for several; None: one period.
        """
        if np.ndim(q) > 1:
            arrays = [np.asarray(array, dtype=float) for array in (q, dq, tau)]
            times = [None] * len(arrays[0]) if elapsed is None else np.asarray(elapsed).tolist()
            flags = SampleStatus(0)
            for position, speed, torque, seconds in zip(*arrays, times):
                flags |= self.add(position, speed, torque, seconds)
            return flags
        begun = self._state is not None
        self._watched, external, threshold, status = self._observer(
            self._watched, q, dq, tau, elapsed
        )
        self.status = SampleStatus(int(status))
        self.samples += 1
        self._take(np.asarray(q, dtype=float), np.asarray(dq, dtype=float), tau)
        if not begun:
            return self.status
        if not self.status:
            self._compare(np.abs(external) > threshold)
        if self._filled == BLOCK:
            self._flush()
        return self.status

    def _take(self, q: Array, dq: Array, tau: ArrayLike) -> None:
        """Add the row of a sample; a sample that is held adds zeros, which only grow old."""
        width = self._block.shape[1]
        can_go_on = self._watched[self._phase] == RUNNING
        if self._state is None:
            self._state = self._begin(q, dq, tau) if can_go_on else None
            return
        if not self.status:
            self._state = self._step(self._state, q, dq, tau)
            self._block[self._filled] = self._state[:width]
        else:
            if can_go_on:  # the lag is held and goes on from this sample
                self._state = np.concatenate(
                    [self._state[:width], self._step(self._state, q, dq, tau)[width:]]
                )
            self._block[self._filled] = 0.0
        self._filled += 1

    def _compare(self, over: Flags) -> None:
        """Note whether external torques are above their thresholds (n,)."""
        if over.any():
            self._since = self.samples - 1 if self._since < 0 else self._since
            self._over += 1
            self._passed.update(np.flatnonzero(over).tolist())
        elif not self.changed:
            self._since, self._over, self._passed = -1, 0, set()

    @property
    def _phase(self) -> int:
        """Where the state of the observer says whether the last sample can be gone on from."""
        return 13 * self.model.robot.n

    @property
    def held(self) -> int:
        """Samples that could not be used."""
        return int(self._watched[-1])

    @property
    def watching(self) -> bool:
        """Whether samples can be used; False after the watchdog's time without one: an alarm."""
        return not self.status & SampleStatus.NOT_WATCHING

    @property
    def changed(self) -> bool:
        """Whether external torque has stayed above its threshold for `confirm` seconds."""
        return self._since >= 0 and self._over * self.period >= self.confirm

    def _begin(self, q: Array, dq: Array, tau: ArrayLike) -> Array:
        """Return the state after the first sample.

        Its rows are those of an empty past and are not taken in.
        """
        moved = self._step(np.zeros(self.program.arguments[0].size), q, dq, tau)
        n, m = self.model.robot.n, self._entries
        moved[: m + n] = 0.0
        moved[m + n : m + 2 * n] = self._observer.margins.level
        return np.asarray(moved)

    def _flush(self) -> None:
        """Turn the rows of the block into the triangles."""
        if not self._filled:
            return
        rows = self._block[: self._filled]
        ages = np.arange(self._filled - 1, -1, -1.0)
        fade = np.exp(-0.5 * self.period / self.memory * ages)[:, None]
        old = float(np.exp(-0.5 * self.period / self.memory * self._filled))
        for joint, (triangle, part) in enumerate(zip(self._triangles, self._parts)):
            own = np.column_stack([rows[:, part], rows[:, self._entries + joint]])
            triangle.factor = triangle.factor * old
            triangle.add_rows(own * fade)
        self._kept = [*self._kept[-self._keep :], rows.copy()]
        self._filled = 0

    @property
    def triangles(self) -> Triangles:
        """The factors of [X | tau], one for each joint, not yet divided by its noise."""
        self._flush()
        factors = tuple(triangle.factor for triangle in self._triangles)
        return Triangles(self._columns, len(self.model.beta), factors, max(1, self.samples - 1))

    def weighted(self, prior: bool | None = None) -> tuple[Array, Array, float]:
        """Return (R (b, b), z (b,), rest).

        ‖R beta - z‖² + rest is the misfit in noise variances, prior included.
        """
        return self._problem(prior).left_to("base")

    def _problem(self, prior: bool | None = None) -> BlockProblem:
        F = self.triangles.together(self._scale)
        rows = [Rows({"base": F[:, :-1]}, F[:, -1])]
        if self._prior if prior is None else prior:
            rows.append(Rows.known("base", self.model.beta, spread_root(self.model)))
        return BlockProblem.of(*rows)

    @property
    def beta(self) -> Array:
        """The base parameters (b,) as they are known now."""
        problem = self._problem()
        R = np.abs(problem.rows.columns["base"][:-1])
        if not np.all(np.diag(R) > 1e-12 * R.max(initial=0.0)):
            raise MinidynError(
                "online: the motion does not determine all base parameters yet; begin with a prior"
            )
        return problem.solved().x

    @property
    def covariance(self) -> Array:
        """Of the base parameters (b, b)."""
        return self._problem().solved().covariance

    def estimate(self, consistent: bool = False) -> Estimate:
        """Return the model as it is known now.

        Physically consistent where asked, which takes some milliseconds.
        """
        beta, covariance = self.beta, self.covariance
        robot, base = self.model.robot, self.model.base
        phi = lifted(base, beta, robot)
        if consistent:
            R, z, rest = self.weighted()
            made = make_consistent(
                robot, base, R, z, prior=robot.parameters, rss=rest, covariance=covariance
            )
            beta, phi, covariance = made.beta, made.phi, np.asarray(made.covariance)
        record = {**self.model.record, "online_samples": self.samples}
        return replace(
            self.model,
            robot=robot.with_parameters(phi),
            beta=beta,
            covariance=covariance,
            data_covariance=None,
            log_covariance=None,
            consistent=consistent,
            notices=(),
            record=record,
        )

    def load(self, link: str | None = None, *, since: int | None = None) -> Payload:
        """Return the load that explains the latest samples, against the model that it began with.

        Errors of that model, within its covariance, are solved for together with the load.

        Args:
            link: Link or frame that carries it; None: the last link.
            since: First sample that counts; None: since the change, or all that are kept.
        """
        return self._load(link, since)[0]

    def _load(self, link: str | None, since: int | None) -> tuple[Payload, float, float]:
        """Return the load, and the misfit that it leaves with its degrees of freedom."""
        rows, first = self._recent()
        begin = since if since is not None else self._since if self._since >= 0 else first
        rows = rows[max(0, begin - first) :]
        rows = rows[rows.any(axis=1)]  # those of samples that were held are zero
        # the lag holds what was before: without what is left of it, it begins anew here
        joints = [
            *(j for j, part in enumerate(self._parts) for _ in range(part.stop - part.start)),
            *range(len(self.gain)),
        ]
        fade = np.exp(-self.gain[joints] * self.period * np.arange(len(rows))[:, None])
        rows, hidden = rows[:, : len(joints)], rows[1:, len(joints) :]
        own = (rows - fade * rows[:1])[1:]
        doubt = np.sqrt(
            1.0 + (hidden / self._noise) ** 2
        )  # friction of a joint about to reverse is not known
        model = self.model
        if len(own) < 10:
            raise MinidynError(
                f"online: {len(own)} samples since the change are too few for a load"
            )
        carrier, placement = carrier_of(model.robot, link)
        ten = model.base.matrix[:, model.robot.layout.links[carrier]] @ of_frame(placement)
        root = spread_root(model, self.friction_error)
        known = {"errors": np.ones(len(root)), "load": WIDEST_LOAD}
        blocks = [Rows.known(block, 0.0, unit) for block, unit in known.items()]
        for joint, (part, columns) in enumerate(zip(self._parts, self._columns)):
            X, at = own[:, part], list(columns)
            left = own[:, self._entries + joint] - X @ model.beta[at]
            scale = self._scale[joint] * doubt[:, joint]
            X = X / scale[:, None]
            blocks.append(Rows({"errors": X @ root[at], "load": X @ ten[at]}, left / scale))
        solution = BlockProblem.of(*blocks).solved()
        found, spread = solution["load"], solution.spread("load")
        body = nearest_body(found, spread) if found[9] > 0 else found
        settings = {"samples": len(own), "unconstrained": found.tolist()}
        # rows behind a lag repeat each other: independent ones are as far apart as noise is
        # correlated
        independent = len(own) * model.robot.n * float(np.mean((model.sigma / self._scale) ** 2))
        return Payload(0.0, body, None, link, spread, (), settings), solution.rest, independent

    @property
    def change(self) -> Change | None:
        """What has happened to the robot, as a load on its last link; None: nothing that lasted."""
        if not self.changed:
            return None
        load, rest, free = self._load(None, None)
        joints = tuple(self.model.robot.joint_names[j] for j in sorted(self._passed))
        return Change(self._since * self.period, joints, load, float(chdtrc(free, rest)))

    def _recent(self) -> tuple[Array, int]:
        """Return rows that are kept, the newest last, and the number of the first one's sample."""
        self._flush()
        rows = np.concatenate(self._kept) if self._kept else self._block[:0]
        return rows, self.samples - len(rows)

    def source(self, target: str = "c") -> str:
        """Return the step as C99.

        The rows of a sample, which is checked as in `add`, and the update of the factors that they
        are turned into, where a sample that was held adds nothing. Solve with
        the factors, each divided by its joint's noise, as `Online.triangles` has them.
        """
        if target != "c":
            raise MinidynError(f'online: code is printed as "c", got {target!r}')
        counts = [len(own) for own in self._columns]
        return rows_source(self.model.robot, self.program, counts, self._observer.guard)

    def __repr__(self) -> str:
        return (
            f"Online({self.samples} samples of {self.model.robot.name!r}, {len(self.model.beta)} "
            "base parameters)"
        )


def online(
    model: Estimate | RobotLike,
    *,
    gain: ArrayLike = 30.0,
    period: float = 1e-3,
    memory: float | None = None,
    prior: bool | float = True,
    sigma: ArrayLike | None = None,
    friction_error: float = 0.1,
    confirm: float = 0.1,
    keep: float = 5.0,
    bounds: Mapping[str, ArrayLike] | None = None,
    frozen: float = 0.2,
    watchdog: float = 0.05,
) -> Online:
    """Return an estimator that follows the robot sample by sample, without accelerations.

    Args:
        model: An estimate: its noise, and its values and covariance as prior. Or a robot (its name
            or path), with `sigma` and a number for `prior`.
        gain: Pole of the lag that rows and torques pass, 1/s; a number or one for each joint.
        period: Of the samples, s.
        memory: Time constant of forgetting, s; None: nothing is forgotten, and the result is that
            of all samples.
        prior: Whether the estimate's values and covariance count; for a robot, the share by which
            its own values may be off (0.3 is thirty percent of each, at least of a typical one).
        sigma: Noise of torques (n,), N m or N, of independent samples; None: from the estimate.
        friction_error: Share by which friction may have changed since, as for
            :func:`momentum_observer`: it widens thresholds and the deviations of a load.
        confirm: Seconds that external torque must stay above its threshold before a change is one.
        keep: Seconds of rows that are kept, of which a load is found.
        bounds: Of values that a sample may have, as for :func:`momentum_observer`.
        frozen: Seconds that a signal may repeat itself while its joint moves.
        watchdog: Seconds without a usable sample after which `watching` is False.
    """
    known = (
        model if isinstance(model, Estimate) else _from_robot(as_robot(model), prior, sigma, period)
    )
    require_fixed_base(known.robot, "online")
    if isinstance(model, Estimate) and sigma is not None:
        known = replace(
            model,
            sigma=gain_vector("sigma", sigma, model.robot.n),
            record={"block_seconds": 10 * period},
        )
    K, length = gain_vector("gain", gain, known.robot.n), positive("period", period)
    fading = np.inf if memory is None else positive("memory", memory)
    times = positive("confirm", confirm), positive("keep", keep)
    guarding = {"bounds": bounds, "frozen": frozen, "watchdog": watchdog}
    return Online(known, K, length, fading, bool(prior), float(friction_error), *times, guarding)


def _from_robot(
    robot: Robot, prior: bool | float, sigma: ArrayLike | None, period: float
) -> Estimate:
    """Return a robot's own values as an estimate, off by some share of each."""
    if sigma is None:
        raise MinidynError("online: a robot has no noise of its own: give sigma=, or an estimate")
    share = 0.3 if prior is True else positive("prior", prior) if prior else 1.0
    base = base_parameters(robot)
    beta = np.asarray(base.values(robot.parameters), dtype=float)
    if np.isnan(beta).any():
        raise MinidynError("online: the robot has unknown parameters (NaN); begin with an estimate")
    kinds = [name.rstrip("0123456789_R") for name in base.names]
    typical = {kind: np.median(np.abs(beta[[k == kind for k in kinds]])) for kind in set(kinds)}
    spread = share * np.maximum(np.abs(beta), [max(float(typical[kind]), 1e-3) for kind in kinds])
    noise = gain_vector("sigma", sigma, robot.n)
    record = {"block_seconds": 10 * period}
    return Estimate(
        robot, base, beta, np.diag(spread**2), noise, "prior", False, 1.0, 0, (), record
    )


def spread_root(model: Estimate, friction_error: float = 0.0) -> Array:
    """Return a square root (b, b) of the covariance of the model's base parameters.

    Open ones are off by their size. Friction may have changed by a share beside.
    """
    covariance = np.array(model.covariance)
    friction = model.base.matrix[:, friction_columns(model.robot)].any(axis=1)
    covariance += np.diag((friction_error * model.beta * friction) ** 2)
    loose = ~np.isfinite(np.diag(covariance))
    covariance[loose] = covariance[:, loose] = 0.0
    covariance[loose, loose] = np.maximum(np.abs(model.beta[loose]), 1.0) ** 2
    certain = np.diag(covariance) < 1e-24
    covariance[certain, certain] = 1e-24
    return covariance_root(covariance, 1e-14)


def noise_of(model: Estimate, period: float) -> Array:
    """Return what rows of each joint are divided by (n,).

    Noise, grown by the samples that repeat each other. Noise with correlation time θ has the
    density σ² θ: rows every T seconds, lagged or not, count as θ / T repeats.
    """
    blocks = float(model.record.get("block_seconds") or 0.0)  # ten times the correlation time
    return np.asarray(np.maximum(model.sigma, 1e-12) * np.sqrt(max(1.0, 0.1 * blocks / period)))
