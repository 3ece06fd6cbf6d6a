"""Notices in plain language: how grave each is, and what to do about it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Advice:
    """A notice for people.

    Attributes:
        level: "act" (do something), "look" (know it) or "note" (for the record).
        text: The notice itself.
        advice: What to do; empty where there is nothing to do.
    """

    level: str
    text: str
    advice: str


_KNOWN: tuple[tuple[str, str, str], ...] = (
    (
        r"excitation is poor",
        "act",
        "Record a motion in which these joints move against each other, faster and further. Several short runs with "
        "different motions may be given together.",
    ),
    (
        r"weakly determined",
        "look",
        "The motion hardly shows these parameters, so their values are not to be read as properties of the robot. "
        "Torques of similar motions are still predicted well; for other motions record a richer one.",
    ),
    (
        r"prior of link .* is impossible|prior of link",
        "look",
        "The values the robot came with cannot belong to any rigid body, a frequent fault of data sheets and drawings. "
        "The nearest possible body was used in their place; ask the source for better ones if they matter.",
    ),
    (
        r"consistency costs",
        "act",
        "Data and physics disagree. Check signs and units of torques and positions, gear ratios, and whether the model "
        "lacks a term (friction, springs, cables).",
    ),
    (
        r"stay open and follow the prior",
        "act",
        "Nothing is known of these combinations but what was believed before. Record a motion in which more joints "
        "move at once if the robot is to move differently.",
    ),
    (
        r"was measurably biased",
        "look",
        "Noise of positions, or friction where joints turn round, shifts plain least squares. The method iv is made "
        "for that; compare both.",
    ),
    (r"could not be certified", "act", "Do not put this model into a simulator before this is resolved."),
    (r"did not converge|stopped early|failed", "look", "The result is usable; a richer recording makes it sharper."),
    (r"lags? |delay", "look", "Torques and positions are not from the same instant; the report shows what was found."),
    (
        r"or motor side|motor side \(|degrees\?|wrong unit|offset or sign|opposite sign|units or time differ|"
        r"leave the limits",
        "act",
        "Check the units and signs of the log: a mapping file says which column is what, in which unit.",
    ),
    (r"never moving|no joint moves", "act", "A joint at rest shows neither its inertia nor its friction: move it."),
    (r"gaps in time|holes of", "look", "Samples were lost while recording; check the logger if there are many."),
    (r"spikes", "look", "Single wild values were bridged; many of them point to a loose cable or a broken sensor."),
    (
        r"named as currents",
        "look",
        "Where these are motor currents, torques are these times a drive gain that must be known or found: see the "
        "page on motor currents.",
    ),
    (
        r": (q|dq|ddq|tau) = |read as one run|a second, as given|"
        r"prepared with default settings|low-pass at|samples are kept|taken as even|copies of the one before|"
        r"kept for pictures|reads the whole recording|^friction: |no noise|not measurably biased",
        "note",
        "",
    ),
)


def advise(notices: Iterable[str]) -> list[Advice]:
    """Return notices with advice, the gravest first, each once."""
    found = []
    for text in dict.fromkeys(notices):
        for pattern, level, advice in _KNOWN:
            if re.search(pattern, text):
                found.append(Advice(level, text, advice))
                break
        else:
            found.append(Advice("look", text, ""))
    return sorted(found, key=lambda one: ("act", "look", "note").index(one.level))
