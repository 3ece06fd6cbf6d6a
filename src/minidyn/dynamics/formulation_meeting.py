"""Formulation 6: the wrench of the upper joint and the twist of the lower one meet in a frame between them.

Handing a wrench down one joint costs 20 multiplications, comparing a wrench with a twist costs 6. So each column's
wrench goes down only so far, and the lower joints' unit twists, which all columns share, come up to meet it. Half
frames count: frame i is level 2i, the middle frame before it level 2i - 1 (joints from 0).
"""

from __future__ import annotations

from collections.abc import Sequence

from minidyn.dynamics.chain import ChainJoint, Pair
from minidyn.dynamics.composite import Composite
from minidyn.dynamics.formulations import Matrix, joint_wrench, read_axis
from minidyn.dynamics.vectors import dot

__all__ = ["formulation_meeting"]


def formulation_meeting(chain: Sequence[ChainJoint], bodies: Sequence[Composite], levels: Sequence[int]) -> Matrix:
    """Return the inertia matrix.

    Args:
        chain: The joints at q.
        bodies: Composite bodies.
        levels: For each joint i, the level from 0 to 2i down to which its wrench goes; all 0 is formulation 1.

    Differs: Not in LinFang1999. With levels 0 it is formulation 1, with levels 2i close to formulation 3.
    """
    n = len(chain)
    zero = 0 * bodies[0].mass
    M = [[zero] * n for _ in range(n)]
    twists = [_rising(chain, j, max(levels), zero) for j in range(n)]
    for i in range(n):
        stop = min(levels[i], 2 * i)
        falling = _falling(chain, i, stop, joint_wrench(chain[i], bodies[i]))
        for j in range(i + 1):
            if 2 * j >= stop:
                value = read_axis(chain[j], falling[2 * j])
            else:
                (f, t), (w, v) = falling[stop], twists[j][stop]
                value = dot(w, t) + dot(v, f)
            M[i][j] = M[j][i] = value
    return M


def _falling(chain: Sequence[ChainJoint], i: int, stop: int, wrench: Pair) -> dict[int, Pair]:
    """Return the wrench of joint i at every level from its own down to `stop`."""
    found = {2 * i: wrench}
    for level in range(2 * i - 1, stop - 1, -1):
        if level % 2:
            wrench = chain[(level + 1) // 2].wrench_to_middle(wrench)
        else:
            wrench = chain[level // 2 + 1].wrench_from_middle(wrench)
        found[level] = wrench
    return found


def _rising(chain: Sequence[ChainJoint], j: int, top: int, zero: object) -> dict[int, Pair]:
    """Return the unit twist of joint j at every level from its own up to `top`."""
    one = zero + 1  # type: ignore[operator]
    z, nothing = [zero, zero, one], [zero, zero, zero]
    twist: Pair = (z, nothing) if chain[j].turning else (nothing, z)
    found = {2 * j: twist}
    for level in range(2 * j + 1, top + 1):
        joint = chain[(level + 1) // 2]
        twist = joint.twist_to_middle(twist) if level % 2 else joint.twist_from_middle(twist)
        found[level] = twist
    return found
