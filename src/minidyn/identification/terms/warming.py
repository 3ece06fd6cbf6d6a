"""Warming: friction that falls while a log is recorded, as when grease warms up.

One share for all drives: friction falls exponentially from (1 + share) times what it is at the
log's end. What the beginning has more of it is taken off the torques: the model is that of the end,
not of a mean that the robot never had.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from minidyn.arrays import Array
from minidyn.identification.held_out import Drives, HeldOut
from minidyn.identification.score import Gain
from minidyn.identification.settings import WARMING
from minidyn.model.drives import ALIASES, PLAIN
from minidyn.notices import Notice, info
from minidyn.recording.lazy import AnyRecording
from minidyn.recording.recording import Recording

TIMES = (0.1, 0.3, 1.0)
"""Grid of times over which friction falls, over that of the log."""

STAYING_TERMS = frozenset({PLAIN[-1], "load", *ALIASES["ripple"]})
"""Terms that heat does not lower: offsets, loads, waves."""

WARMED = info(
    "friction.warming",
    "By how much friction fell during the log, as when grease warms up: the model is that of the "
    "log's end.",
)


@dataclass(frozen=True, eq=False)
class Warming:
    """How much more friction the beginning of a log has.

    Attributes:
        share: Of the friction, at the first sample.
        time: Over which it falls to 1/e, s.
        gain: Of the model with it.
        torque: What the beginning has more (N, n), at the samples of the blocks.
    """

    share: float
    time: float
    gain: Gain
    torque: Array

    @property
    def notice(self) -> Notice:
        """What a reader should know."""
        text = (
            f"friction fell while the log was recorded: at first it was {100 * self.share:.2g} % "
            f"larger than at the end, and it fell over about {self.time:.2g} s. The model is that "
            "of the end"
        )
        return WARMED(text, share=self.share, time=self.time)


def warming_of(held_out: HeldOut, drives: Drives) -> Warming | None:
    """Return the best fall of friction over a log of one run; None where there is none to try."""
    data = held_out.data
    if not isinstance(data.log, Recording) or len(data.log.starts) != 1:
        return None
    terms = {term for drive in drives.values() for term in drive.friction}
    friction = held_out.torque_of(drives, terms - STAYING_TERMS)
    t, length = data.motion.t, float(data.motion.t[-1] - data.motion.t[0])
    before, best = held_out.scores(drives), None
    for part in TIMES:
        time = part * length
        last = np.exp(-length / time)
        more = friction * ((np.exp((t[0] - t) / time) - last) / (1.0 - last))[:, None]
        name = held_out.add_column(f"{WARMING} over {time:g} s", dict(enumerate(more.T)))
        after = held_out.scores(drives, name)
        if best is None or after.mean() > best[1].mean():
            best = time, after, name, more
    if best is None:
        return None
    time, after, name, more = best
    share = held_out.fit(drives, name).friction[name]
    return Warming(share, time, Gain.of(before, after), share * more)


def without_warming(recording: AnyRecording, t: Array, warming: Warming) -> AnyRecording:
    """Return a recording without the torque that its beginning has more."""
    if not isinstance(recording, Recording):
        return recording
    more = np.stack([np.interp(recording.t, t, torque) for torque in warming.torque.T], axis=1)
    raw = {name: values - more for name, values in recording.telemetry.items() if name == "tau_raw"}
    return replace(
        recording, tau=np.asarray(recording.tau) - more, telemetry={**recording.telemetry, **raw}
    )
