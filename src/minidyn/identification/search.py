"""The search for terms: one score, one rule, from all joints to single ones.

Terms are tried at all joints first: what one joint shows hardly, all joints together may show. Then
joint by joint, and a term that does not pay at a joint leaves it. Shapes (smoothing widths,
travels, speeds) are those that predict held-out blocks best.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

import numpy as np

from minidyn.arrays import Array
from minidyn.display import Announced
from minidyn.identification.data import Data
from minidyn.identification.held_out import Anchor, Fit, HeldOut
from minidyn.identification.score import MIN_GAIN, Gain
from minidyn.identification.selection import FORCED, Decision
from minidyn.identification.settings import WARMING
from minidyn.identification.terms.catalogue import EFFECTS
from minidyn.identification.terms.effect import Effect
from minidyn.identification.terms.presliding import PRESLIDING, min_travel
from minidyn.identification.terms.warming import Warming, warming_of
from minidyn.model.drives import Drive

WIDTHS = (0.0, 0.005, 0.01, 0.02, 0.04, 0.07, 0.13, 0.25, 0.5)
"""Grid of smoothing widths, over the root mean square of the drive's speed."""

DEFAULT_WIDTH = 0.04
"""Smoothing width before one is chosen, over the same."""

FINER = (1 / 1.6, 1 / 1.25, 1.25, 1.6)
"""Factors of shapes that are tried around the best of a grid, which is coarser than logs show."""

Drives = dict[int, Drive]


class Search:
    """One search on a log.

    Args:
        data: The log, with the loads of a first fit.
        anchor: Of the rigid part.
        noise_std: Of each row (n,).
        effects: What may be added.
        is_width_free: Whether smoothing widths are chosen.
    """

    def __init__(
        self,
        data: Data,
        anchor: Anchor,
        noise_std: Array,
        effects: Sequence[Effect],
        is_width_free: bool,
    ) -> None:
        self.data, self.anchor, self.effects = data, anchor, tuple(effects)
        self.is_width_free = is_width_free
        self.decisions = Announced[Decision]("decision")
        self.held_out = HeldOut(data, anchor, noise_std)

    def refit(self, drives: Drives) -> Fit:
        """Fit a model to all blocks; go on with its noise and its loads."""
        fit = self.held_out.fit(drives)
        self.data = self.data.with_loads(fit.rigid)
        self.held_out = HeldOut(self.data, self.anchor, fit.noise_std)
        return fit

    def with_widths(self, drives: Drives) -> Drives:
        """Return drives with the smoothing widths that predict best: one for all, then each."""
        speeds = self.data.speeds
        alike = [
            {
                joint: replace(drive, sign_width=float(share * speeds[joint]))
                for joint, drive in drives.items()
            }
            for share in WIDTHS
        ]
        self.held_out.add(alike)
        scores = [float(np.mean(self.held_out.scores(model))) for model in alike]
        best = alike[int(np.argmax(scores))]
        for joint, drive in best.items():
            options = [replace(drive, sign_width=float(share * speeds[joint])) for share in WIDTHS]
            best = {**best, joint: self._best(best, joint, options)}
        best = self._finer(best, "sign_width")  # a coarse width would ask for other terms
        self._decide("smoothing width", (), drives, best)
        return best

    def with_forced(self, drives: Drives, named: Drives, is_fixed: bool) -> Drives:
        """Return drives with the terms that were named, each in the shape that predicts best.

        A shape that the drive's file gives is kept. A joint that cannot show an effect goes
        without it, unless the terms are fixed.
        """
        for effect in EFFECTS.values():
            residual = self.held_out.fit(drives).residual
            for joint, drive in drives.items():
                if not effect.is_in(named[joint]) or effect.is_in(drive):
                    continue
                given = getattr(drive, effect.shape) if effect.shape else 0.0
                options = (
                    [effect.added(drive, given)]
                    if given
                    else self._options(effect, joint, drive, residual)
                )
                if not options and is_fixed:
                    options = [effect.added(drive, given)]
                if options:
                    drives = {**drives, joint: self._best(drives, joint, options)}
                else:
                    reason = "the log cannot show it at this joint"
                    self.decisions.append(
                        Decision(effect.name, self._names([joint]), is_taken=False, reason=reason)
                    )
        return drives

    def with_presliding(self, drives: Drives) -> Drives | None:
        """Return drives with presliding that the log shows; None where it shows none."""
        option = self._with(PRESLIDING, drives, drives, self.held_out.fit(drives).residual)
        changed = [joint for joint in drives if option[joint].friction != drives[joint].friction]
        if not changed or not self._gain(drives, option).is_worth(len(changed)):
            return None
        return self._finer(option, "presliding_travel")

    def warming(self, drives: Drives, is_forced: bool) -> Warming | None:
        """Return what the log's beginning has more of friction, where that is worth it or forced.

        Go on without that torque.
        """
        found = warming_of(self.held_out, drives)
        if found is None:
            return None
        is_taken = found.share > 0.0 and (is_forced or found.gain.is_worth(len(drives)))
        reason = (FORCED if is_taken else "friction does not fall") if is_forced else ""
        self.decisions.append(Decision.of(WARMING, (), found.gain, is_taken, reason))
        if not is_taken:
            return None
        self.data = self.data.with_torques(self.data.motion.tau - found.torque)
        self.held_out = HeldOut(self.data, self.anchor, self.held_out.noise_std)
        return found

    def with_terms(self, drives: Drives) -> Drives:
        """Return drives with the terms that the log confirms."""
        drives = self._added(drives, drives.keys(), self.effects)
        single = [effect for effect in self.effects if not effect.is_of_all_joints]
        for joint in drives:
            drives = self._without_losers(self._added(drives, [joint], single), joint)
        return drives

    def refined(self, drives: Drives, named: Drives) -> Drives:
        """Return drives with shapes between those of the grids; those that a file gives stay."""
        shapes = [one.shape for one in EFFECTS.values() if one.shape not in ("", "ripple_order")]
        widths = ["sign_width"] if self.is_width_free else []
        for name in [*widths, *dict.fromkeys(shapes)]:
            given = {joint for joint, drive in named.items() if getattr(drive, name)}
            drives = self._finer(drives, name, () if name == "sign_width" else given)
        return drives

    def _finer(self, drives: Drives, name: str, given: Collection[int] = ()) -> Drives:
        """Return drives with a shape between those of its grid; given ones stay."""
        users = [one for one in EFFECTS.values() if one.shape == name]
        for joint, drive in drives.items():
            is_used = name == "sign_width" or any(one.is_in(drive) for one in users)
            if joint in given or not is_used or not getattr(drive, name):
                continue
            least = min_travel(self.data, joint) if name == "presliding_travel" else 0.0
            values = [getattr(drive, name) * factor for factor in (1.0, *FINER)]
            options = [replace(drive, **{name: max(value, least)}) for value in values]
            drives = {**drives, joint: self._best(drives, joint, options)}
        return drives

    def _best(self, drives: Drives, joint: int, options: Sequence[Drive]) -> Drive:
        """Return the option that predicts best."""
        if len(options) == 1:
            return options[0]
        scores = self.held_out.options(drives, joint, options).mean(axis=1)
        return options[int(np.argmax(scores))]

    def _gain(self, before: Drives, after: Drives) -> Gain:
        """Return the gain in log density, nats a sample, summed over the rows."""
        return Gain.of(self.held_out.scores(before), self.held_out.scores(after))

    def _names(self, joints: Iterable[int]) -> tuple[str, ...]:
        return tuple(self.data.robot.joints[joint].name for joint in joints)

    def _decide(self, candidate: str, joints: Sequence[int], before: Drives, after: Drives) -> None:
        gain = self._gain(before, after)
        self.decisions.append(Decision.of(candidate, self._names(joints), gain, True))

    def _options(self, effect: Effect, joint: int, drive: Drive, residual: Array) -> list[Drive]:
        """Return a drive with the effect, in all shapes that are tried."""
        if not effect.applies(self.data, joint):
            return []
        shapes = effect.shapes(self.data, joint, drive, residual)
        shares = effect.narrower() if self.is_width_free else (None,)
        return [
            effect.added(drive, shape, None if share is None else share * drive.sign_width)
            for shape in shapes
            for share in shares
        ]

    def _with(
        self, effect: Effect, drives: Drives, joints: Iterable[int], residual: Array
    ) -> Drives:
        """Return drives with an effect at those joints that can show it, each in its best shape."""
        changed = dict(drives)
        for joint in joints:
            if not effect.is_in(drives[joint]):
                options = self._options(effect, joint, drives[joint], residual)
                if options:
                    changed[joint] = self._best(drives, joint, options)
        return changed

    def _added(self, drives: Drives, joints: Collection[int], effects: Iterable[Effect]) -> Drives:
        """Add the best effect to joints as long as it is worth it."""
        remaining, is_single = list(effects), len(joints) == 1
        while remaining:
            residual = self.held_out.fit(drives).residual
            tried: list[tuple[Effect, Drives, Gain, tuple[int, ...]]] = []
            for effect in remaining:
                option = self._with(effect, drives, joints, residual)
                changed = tuple(j for j in joints if option[j].friction != drives[j].friction)
                if changed:
                    tried.append((effect, option, self._gain(drives, option), changed))
            tried.sort(key=lambda one: -one[2].mean)
            best = next((one for one in tried if one[2].is_worth(len(one[3]))), None)
            for one in tried if not is_single else [best] if best else ():
                names = self._names(one[3])
                self.decisions.append(Decision.of(one[0].name, names, one[2], one is best))
            if best is None:
                break
            drives = best[1]
            remaining.remove(best[0])
        return drives

    def _without_losers(self, drives: Drives, joint: int) -> Drives:
        """Leave effects out at a joint where they do not pay."""
        for effect in self.effects:
            if not effect.is_in(drives[joint]):
                continue
            plain = effect.removed(drives[joint])
            options = [plain]
            if self.is_width_free:
                speed = self.data.speeds[joint]
                options += [replace(plain, sign_width=float(share * speed)) for share in WIDTHS]
            without = {**drives, joint: self._best(drives, joint, options)}
            gain = self._gain(without, drives)
            if gain.mean < MIN_GAIN:
                names = self._names([joint])
                self.decisions.append(
                    Decision.of(effect.name, names, gain, False, "does not pay at this joint")
                )
                drives = without
        return drives


def width_of(data: Data, joint: int) -> float:
    """Return the smoothing width that a search begins with."""
    return DEFAULT_WIDTH * float(data.speeds[joint])
