"""How much a prior counts: its scale, by the score of held-out blocks of time.

A robot file may be off by a few percent, by half, or hold the values of another robot. The scale of
a prior says how far its bodies may be off, as parts of their own size. A few scales are tried, each
fitted to all blocks of time but one; the scale whose models predict the blocks left out best is
taken. All have the same number of parameters, so that none is simpler than another. The weakest
scale takes half of each body from the file and half from the geometry: a prior is never without
weight. In addition, links that the data contradict may count less than the others, if the score
gains enough.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from minidyn.arrays import Array, single_thread
from minidyn.base.base_map import BaseMap
from minidyn.identification.consistency.primal_dual import Pair, solve
from minidyn.identification.consistency.prior import Centre, Seen, centres_of, shares_of
from minidyn.identification.consistency.whitened import prior_errors, weighted, whiten
from minidyn.identification.estimators.held_out import repeated_variance
from minidyn.identification.estimators.method import Fold
from minidyn.identification.score import Gain
from minidyn.identification.selection import Decision
from minidyn.model.robot import Robot
from minidyn.notices import Notice, info


@dataclass(frozen=True)
class Scale:
    """How far the bodies of a prior may be off.

    Attributes:
        name: What tables call it.
        error: Root mean square of a body's errors, as parts of its own size.
        part: Of each body that is the prior's; the rest is a body drawn from the geometry.
    """

    name: str
    error: float
    part: float = 1.0

    @property
    def weight(self) -> float:
        """Weight of the distance from the prior, in noise variances, for normal errors."""
        return 2.0 / self.error**2


# 10 and 30 %: on logs of four real robots the test error is smallest between them. The weakest
# scale: half as heavy or twice, so that the values of another robot hardly harm.
SCALES = (
    Scale("prior within 10 %", 0.1),
    Scale("prior within 30 %", 0.3),
    Scale("half of the prior", 1.0, 0.5),
)
_, USUAL, LEAST = SCALES
"""Of logs too short to compare scales; the weakest."""

LITTLE = info(
    "prior.little",
    "The data contradict the robot file's bodies: half of each comes from the geometry.",
    "Ask the source of the robot file for masses, centres of mass and inertias if the model is to "
    "be used beyond the recorded motion.",
)


@dataclass(frozen=True, eq=False)
class ScaledPrior:
    """A prior and how much it counts.

    Attributes:
        scale: How far its bodies may be off.
        parameters: Standard parameters (p,), NaN where unknown.
        weight: Of its distance, in noise variances.
        shares: Part of the weight that each link gets (links,).
        misfits: Of blocks held out (blocks,), in noise variances; empty: not tried.
        pair: Solution without the first block, from where that of all data is near.
        tried: Weights with their misfits of all blocks, (k, 2), rising.
        decisions: One of each scale that was tried.
    """

    scale: Scale
    parameters: Array
    weight: float
    shares: Array
    misfits: Array = field(default_factory=lambda: np.zeros(0))
    pair: Pair | None = None
    tried: Array = field(default_factory=lambda: np.zeros((0, 2)))
    decisions: tuple[Decision, ...] = ()

    def gain(self, before: ScaledPrior, joints: int) -> Gain:
        """Return the gain over another one, nats a sample.

        The noise is that of the blocks which the other one predicts, alike at all joints.
        """
        unit = -0.5 * joints / max(float(np.mean(before.misfits)), np.finfo(float).tiny)
        return Gain.of(unit * before.misfits, unit * self.misfits)

    @property
    def record(self) -> dict[str, Any]:
        """Plain values."""
        curve = {"prior_curve": self.tried.tolist()} if len(self.tried) else {}
        return {
            "prior_scale": self.scale.name,
            "prior_weight": self.weight,
            "prior_shares": self.shares.tolist(),
        } | curve

    @property
    def notices(self) -> tuple[Notice, ...]:
        """What a reader should know."""
        if self.scale is not LEAST:
            return ()
        text = (
            "the data contradict the robot file's bodies: half of each comes from the file, half "
            f"from the geometry, and they may be off by {100 * LEAST.error:.0f} % of their own "
            "size, the least weight that a prior has"
        )
        return (LITTLE(text, scale=LEAST.name, error=LEAST.error, part=LEAST.part),)


@dataclass(frozen=True, eq=False)
class PriorTrial:
    """Tries scales of a prior.

    Attributes:
        robot: The robot.
        base: Its base parameters.
        data: R (b, b) and z (b,) of all data.
        folds: The same without a block, and of the block, for each; all in noise variances.
        known: The prior (p,), NaN where unknown.
        prior_kind: "entropic", "euclidean" or "geodesic".
        seen: How large torques and speeds were.
    """

    robot: Robot
    base: BaseMap
    data: tuple[Array, Array]
    folds: Sequence[Fold]
    known: Array
    prior_kind: str = "entropic"
    seen: Seen | None = None

    @cached_property
    def noise(self) -> float:
        """Variance of what neither noise nor parameters explain, of that of the noise."""
        return repeated_variance(self.folds)

    @cached_property
    def centre(self) -> Centre:
        """The prior as it is."""
        return centres_of(self.robot, self.base, [self.data], self.known, None, self.seen)[0]

    def at(self, scale: Scale) -> ScaledPrior:
        """Return the prior at a scale; what the model lacks counts as noise."""
        shares, weight = shares_of(self.centre, given=True), scale.weight * self.noise
        if scale.part == 1.0:
            return ScaledPrior(scale, self.known, weight, shares)
        (drawn,) = centres_of(self.robot, self.base, [self.data], None, None, self.seen)
        mixed = self.known.copy()
        for part, is_known in zip(self.robot.layout.links, self.centre.known_links):
            if is_known:
                mixed[part] = scale.part * mixed[part] + (1.0 - scale.part) * drawn.phi[part]
        return ScaledPrior(scale, mixed, weight, shares)

    def held_out(self, prior: ScaledPrior, start: Pair | None = None) -> ScaledPrior:
        """Return it with the misfits of held-out blocks, which are fitted side by side."""
        sets = [(R, z) for R, z, *_ in self.folds]
        centres = centres_of(self.robot, self.base, sets, prior.parameters, None, self.seen)
        cases = [(R, z, centre) for (R, z), centre in zip(sets, centres)]
        plain = whiten(self.robot, self.base, cases)
        problem = weighted(plain, self.prior_kind, prior.weight, prior.shares)
        solved = solve(problem, start, tolerance=1e-6)
        values = problem.phi(solved.x) @ self.base.matrix.T
        misfits = [
            float(np.sum((R @ beta - z) ** 2)) + rest
            for (_, _, R, z, rest), beta in zip(self.folds, values)
        ]
        return replace(prior, misfits=np.array(misfits), pair=solved.pair)

    def less_for_links(self, prior: ScaledPrior) -> tuple[ScaledPrior, tuple[str, ...]]:
        """Return it with the least weight on links that are off by more, and their joints."""
        R, z = (values / np.sqrt(self.noise) for values in self.data)
        (centre,) = centres_of(self.robot, self.base, [(R, z)], prior.parameters, None, self.seen)
        errors = prior_errors(whiten(self.robot, self.base, [(R, z, centre)]))
        least = LEAST.weight / prior.scale.weight
        contradicted = (errors.links > LEAST.error**2) & (prior.shares > least)
        shares = np.where(contradicted, least, prior.shares)
        joints = [self.robot.joints[k].name for k in np.flatnonzero(contradicted)]
        return replace(prior, shares=shares), tuple(joints)


def choose_scale(trial: PriorTrial) -> ScaledPrior:
    """Return the prior at the scale whose models predict held-out blocks of time best."""
    if len(trial.folds) < 2:
        reason = "too few blocks of time to compare scales"
        decision = Decision(USUAL.name, is_taken=True, reason=reason)
        return replace(trial.at(USUAL), decisions=(decision,))
    with single_thread():
        tried = list[ScaledPrior]()
        for scale in SCALES:
            is_like = bool(tried) and scale.part == tried[-1].scale.part
            tried.append(trial.held_out(trial.at(scale), tried[-1].pair if is_like else None))
        best = min(tried, key=lambda prior: float(np.sum(prior.misfits)))
        less, joints = trial.less_for_links(best)
        less = trial.held_out(less, best.pair) if joints else best
    rows = [
        Decision.of(
            prior.scale.name,
            (),
            prior.gain(tried[0], trial.robot.n),
            is_taken=prior is best,
            reason="best score" if prior is best else "",
        )
        for prior in tried
    ]
    if joints:
        gain = less.gain(best, trial.robot.n)
        is_worth = gain.is_worth(len(joints))
        rows.append(Decision.of(f"{best.scale.name}, less for links", joints, gain, is_worth))
        best = less if is_worth else best
    curve = sorted((prior.weight, float(np.sum(prior.misfits))) for prior in tried)
    return replace(best, tried=np.array(curve), decisions=tuple(rows))


def earlier_scale(trial: PriorTrial, record: Mapping[str, Any]) -> ScaledPrior:
    """Return the prior at the scale that was chosen for nearly the same data."""
    scale = next(scale for scale in SCALES if scale.name == record["prior_scale"])
    curve = np.array(record.get("prior_curve", np.zeros((0, 2))))
    prior = replace(trial.at(scale), weight=record["prior_weight"], tried=curve)
    return replace(prior, shares=np.array(record["prior_shares"]))
