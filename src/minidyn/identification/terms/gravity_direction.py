"""The direction of gravity: how the robot is mounted.

A robot file seldom knows whether its robot stands on a wall or hangs from a ceiling. The regressor
of standard parameters is linear in gravity, Y = Y_0 + g_x Y_x + g_y Y_y + g_z Y_z, so that four
regressors give all directions. Products of their columns, with plain friction and rotor inertia
beside them, are summed once for each joint and block of time. A direction is then a small linear
fit: some directions are tried, and from the best one Gauss-Newton steps go on, in which the torque
that a turn of gravity adds is one more column of the fit.

Another direction than the file's is taken where it predicts blocks of time better that were held
out, by the rule of all choices. An axis of the base's frame is simpler than a direction near it. A
direction and its opposite are nearly tied: moments of the other sign give the same weight. Where
inertia does not decide, that direction is taken in which bodies with positive masses carry the
measured weight.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from minidyn.arrays import Array
from minidyn.dynamics.functions import regressors_by_gravity
from minidyn.identification.consistency.prior import default_bodies
from minidyn.identification.friction.table import BLOCKS
from minidyn.identification.rows.base_rows import Samples
from minidyn.identification.score import Gain, log_density
from minidyn.model.robot import Robot

RIDGE = 1e-3
STEPS = 12


class Fit(NamedTuple):
    """A linear fit in one direction of gravity."""

    direction: Array  # unit vector (3,) in the base's frame
    values: Array  # standard parameters (p,)
    left: float  # weighted squares
    turn: Array  # step (2,), rad, that the next fit would take
    tangents: Array


@dataclass(frozen=True)
class Sums:
    """Products of columns, for each joint and block of time.

    Columns are those of standard parameters without gravity, those of unit gravity along three
    axes, and the torque.
    """

    strength: float
    size: int
    places: NDArray[np.intp]
    columns: tuple[NDArray[np.intp], ...]
    products: tuple[Array, ...]
    samples: Array

    @classmethod
    def of(cls, robot: Robot, motion: Samples) -> Sums:
        Y, pulls, places = regressors_by_gravity(robot, motion.q, motion.dq, motion.ddq)
        edges = np.linspace(0, len(motion), BLOCKS + 1).astype(int)
        found, products = [], []
        for joint, known in enumerate(robot.torques_measured):
            if not known: continue
            rows = np.concatenate([Y[:, joint], *pulls[:, :, joint], motion.tau[:, [joint]]], axis=1)
            seen = np.flatnonzero(np.any(rows != 0.0, axis=0))
            rows = np.ascontiguousarray(rows[:, seen])
            found.append(seen)
            products.append(np.stack([rows[a:b].T @ rows[a:b] for a, b in zip(edges, edges[1:])]))
        strength = float(np.linalg.norm(robot.gravity))
        return cls(strength, Y.shape[-1], places, tuple(found), tuple(products), np.diff(edges).astype(float))

    @property
    def total(self):
        return self.size + 3 * len(self.places) + 1

    def whole(self, sigma, left_out=None):
        W = np.zeros((len(self.samples), self.total, self.total))
        for at, part, noise in zip(self.columns, self.products, sigma):
            W[:, at[:, None], at] += part / noise**2
        return W

    def mapping(self, direction):
        T = np.zeros((self.total, self.size + 1))
        T[np.arange(self.size), np.arange(self.size)] = 1.0
        for k in range(3):
            T[self.size + k * len(self.places) + np.arange(len(self.places)), self.places] = self.strength * direction[k]
        T[-1, -1] = 1.0
        return T

    def rows(self, W, direction):
        """(..., C, C) -> (..., p + 1, C)"""
        p, q = self.size, len(self.places)
        found = np.concatenate([W[..., :p, :], W[..., -1:, :]], axis=-2)
        pull = np.einsum("k,...kqc->...qc", self.strength * direction, W[..., p:-1, :].reshape(*W.shape[:-2], 3, q, W.shape[-1]))
        found[..., self.places, :] += pull
        return found

    def turned(self, values, direction):
        tangents = np.linalg.svd(direction[None])[2][1:].T
        d = np.zeros((self.total, 2))
        d[self.size:-1] = self.strength * np.einsum("kt,q->kqt", tangents, values[self.places]).reshape(-1, 2)
        return d, tangents

    def problem(self, W, direction):
        H = self.rows(W, direction)
        return np.swapaxes(self.rows(np.swapaxes(H, -1, -2), direction), -1, -2), H

    def fit(self, W, direction, step=False):
        P, H = self.problem(W, direction)
        values, left = solve(P)
        if not step:
            return Fit(direction, values, left, np.zeros(2), np.zeros((3, 2)))
        d, tangents = self.turned(values, direction)
        side, own = H @ d, d.T @ W @ d
        P = np.block([[P[:-1, :-1], side[:-1], P[:-1, -1:]], [side[:-1].T, own, side[-1:].T], [P[-1:, :-1], side[-1:], P[-1:, -1:]]])
        more, _ = solve(P)
        return Fit(direction, values, left, more[-2:], tangents)

    def refined(self, W, direction):
        now = self.fit(W, direction, True)
        for _ in range(STEPS):
            turn = now.turn * min(1.0, 0.3 / max(np.linalg.norm(now.turn), 1e-12))
            if np.linalg.norm(turn) < 1e-5: break
            for _ in range(6):
                d = now.direction + now.tangents @ turn
                new = self.fit(W, d / np.linalg.norm(d), True)
                if new.left < now.left: break
                turn = turn / 3
            else: break
            now = new
        return now

    def squares(self, values, direction):
        w = self.mapping(direction) @ np.append(values, -1.0)
        return np.stack([np.maximum(np.einsum("i,bij,j->b", w[at], P, w[at]), 0) for at, P in zip(self.columns, self.products)], axis=1)

    def noise(self, direction, sigma, rounds=3):
        for _ in range(rounds):
            fit = self.fit(self.whole(sigma).sum(0), direction)
            s = np.sqrt(self.squares(fit.values, direction).sum(0) / self.samples.sum())
            sigma = np.maximum(s, 1e-6 * self.sizes)
        return sigma

    @cached_property
    def sizes(self):
        s = np.sqrt([P[:, -1, -1].sum() for P in self.products] / self.samples.sum())
        return np.where(s > 0, s, 1.0)

    def densities(self, direction, sigma):
        W = self.whole(sigma)
        P = self.problem(W, direction)[0]
        values, _ = solve(P.sum(0) - P)
        squares = np.stack([self.squares(v, direction)[b] for b, v in enumerate(values)])
        return log_density(squares, self.samples, sigma)

    def spread(self, direction, sigma):
        W = self.whole(sigma)
        W = W.sum(0)-W
        turns = np.stack([self.fit(w, direction, True).turn for w in W])
        turns -= turns.mean(0)
        B = len(turns)
        return (B - 1) / B * turns.T @ turns

    def alignment(self, values, direction, bodies, sigma):
        """cos between gravity torque of fit and bodies."""
        def grav(v):
            w = np.zeros(self.total)
            for k in range(3):
                w[self.size + k * len(self.places) + np.arange(len(self.places))] = direction[k] * v[self.places]
            return w
        W = self.whole(sigma).sum(0)
        a, b = grav(values), grav(bodies)
        return a @ W @ b / max(math.sqrt((a @ W @ a) * (b @ W @ b)), 1e-300)


def solve(P):
    scale = np.sqrt(np.maximum(np.diagonal(P, axis1=-2, axis2=-1)[..., :-1], 0.0)); scale = np.where(scale > 0, scale, 1.0)
    A = P[..., :-1, :-1] / (scale[..., None] * scale[..., None, :])
    b = P[..., :-1, -1] / scale
    A[..., np.arange(A.shape[-1]), np.arange(A.shape[-1])] += RIDGE
    x = np.linalg.solve(A, b[..., None])[..., 0]
    return x / scale, P[..., -1, -1] - np.sum(b * x, axis=-1)


DIRECTIONS = np.array([d for d in product((-1.0, 0.0, 1.0), repeat=3) if any(d)])
DIRECTIONS /= np.linalg.norm(DIRECTIONS, axis=1)[:, None]


def bodies_of(robot):
    drawn = default_bodies(robot)
    phi = np.zeros(len(robot.layout))
    for k, part in enumerate(robot.layout.links):
        own = robot.parameters[part]
        phi[part] = own if np.isfinite(own).all() and own[9] > 0 else np.nan
    ok = np.isfinite(phi)
    ratio = np.nansum(phi[[p.start+9 for p in robot.layout.links]])
    for k, part in enumerate(robot.layout.links):
        if np.isnan(phi[part]).any():
            phi[part] = drawn[k] if not ratio > 0 else 0.0
    return phi
