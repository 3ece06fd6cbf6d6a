"""Joints under PD control with dry friction, simulated with exact derivatives by all that is not
known of them.

    M(q) ddq + h(q, dq) + Ia ddq + Fv dq + Fc sign(dq) + Fo = kp (q_d(t - delay) - q) - kd dq

Sensitivities S = ∂(q, dq)/∂θ go through the same Runge-Kutta steps as the state, with derivatives
of inverse dynamics from the graph: M dS̈ = ∂τ - ∂ID. Friction is dry: a joint that stops sticks
until more than Fc pulls at it. Steps end where a joint stops or breaks away, and there
sensitivities jump by (f₋ - f₊) ∂t/∂θ, so that they stay exact.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from minidyn.arrays import Array
from minidyn.dynamics.record import record, without_unknowns
from minidyn.graph.derivative import jacobian
from minidyn.graph.targets.native.kernel import compile_function
from minidyn.identification.diagnose.thresholds import FAR
from minidyn.model.robot import Robot

MAX_TURN, MAX_DECAY = 0.3, 0.7  # size: rad and time constants in one step of integration
MAX_STEPS = 20  # size: of integration between two samples
MIN_STEP = 1e-13  # rounding: share of the time


class ServoLoop:
    """A robot whose joints follow commands (N, n), given at times (N,), from its sample `first` on.

    Unknowns θ are armature, viscous and Coulomb friction, bias and kp of all joints, and the delay
    (5n + 1,); then positions and speeds of the beginning (2n,).
    """

    def __init__(
        self,
        robot: Robot,
        t: Array,
        command: Array,
        kd: Array,
        *,
        first: int = 0,
        held: bool = False,
    ) -> None:
        from scipy.interpolate import CubicSpline  # slow to import

        self.n, self.kd, self.held = robot.n, kd, held
        phi = without_unknowns(robot, "inverse_dynamics", robot.parameters)
        inverse = record(robot, "inverse_dynamics", parameters=phi)
        self.inverse = compile_function(inverse)
        self.slopes = [compile_function(jacobian(inverse, name)) for name in ("q", "dq")]
        self.inertia = compile_function(record(robot, "inertia_matrix", parameters=phi))
        self.command, self.times, self.time_list = command, t, t.tolist()
        self.pieces = None if held else np.moveaxis(CubicSpline(t, command).c, 0, 1)
        self.t, self.parts = t[first:], 1
        self.own, self.minus = np.arange(self.n), np.full(self.n, -1.0)
        self.rows, self.columns = np.tile(self.own, 5), np.arange(5 * self.n)

    def finer(self, theta: Array, q: Array) -> None:
        """Take more steps between samples where the loop asks for them."""
        Ia, Fv, _, _, kp = theta[:-1].reshape(5, self.n)
        ease = np.diag(np.linalg.inv(self.inertia(q) + np.diag(Ia)))
        rate = np.maximum(np.sqrt(kp * ease) / MAX_TURN, (Fv + self.kd) * ease / MAX_DECAY).max()
        parts = int(np.clip(np.ceil(float(np.median(np.diff(self.t))) * rate), 1, MAX_STEPS))
        self.parts = max(self.parts, parts)

    def commanded(self, t: float) -> tuple[Array, Array]:
        """Return the command (n,) of a time, and its rate.

        A cubic spline, or steps where commands are held.
        """
        k = min(
            max(bisect_right(self.time_list, t) - 1, 0), len(self.time_list) - 1 - (not self.held)
        )
        if self.pieces is None or t < self.time_list[0]:
            return self.command[k], np.zeros(self.n)
        x, (c3, c2, c1, c0) = t - self.time_list[k], self.pieces[k]
        return ((c3 * x + c2) * x + c1) * x + c0, (3.0 * c3 * x + 2.0 * c2) * x + c1

    def simulated(self, theta: Array, first: Array) -> tuple[Array, Array]:
        """Return positions (N, n) of the closed loop, and their derivatives (N, n, 5n + 1 + 2n) by
        all unknowns.
        """
        n, late = self.n, float(theta[-1])
        p = 5 * n + 1 + 2 * n
        S = np.zeros((2 * n, p))
        S[self.own, 5 * n + 1 + self.own] = S[n + self.own, 6 * n + 1 + self.own] = 1.0
        every, found = np.full((len(self.t), n), np.nan), np.full((len(self.t), n, p), np.nan)
        walk = _Walk(self, theta, first[:n].copy(), first[n:].copy(), S)
        walk.commands = self.commanded(float(self.t[0]) - late)
        walk.sign = np.sign(walk.v)
        walk.settle()
        every[0], found[0] = walk.q, walk.S[:n]
        # a loop that gets far beyond what is commanded, and a radian, is unstable
        lost = FAR * (1.0 + float(np.ptp(self.command, axis=0).max()))
        changes = self.times + late if self.held else np.zeros(0)
        for k, (begin, end) in enumerate(pairwise(self.t.tolist())):
            stops = changes[(changes > begin) & (changes <= end)].tolist()
            edges = np.append(
                begin + (end - begin) / self.parts * np.arange(self.parts), end
            ).tolist()
            for stop in sorted({*edges[1:], *stops}):
                walk.go(begin, stop)
                begin = stop
                if stop in stops:
                    walk.step_of_command(stop - late)
            if not np.abs(walk.q - self.command[0]).max() < lost:
                break
            every[k + 1], found[k + 1] = walk.q, walk.S[:n]
        return every, found


class _Walk:
    """The loop on its way.

    State, direction of each joint's friction (0: it sticks), and sensitivities S (2n, p).
    """

    def __init__(self, loop: ServoLoop, theta: Array, q: Array, v: Array, S: Array) -> None:
        self.loop, self.n, self.late = loop, loop.n, float(theta[-1])
        self.Ia, self.Fv, self.Fc, self.Fo, self.kp = theta[:-1].reshape(5, loop.n)
        self.q, self.v, self.S = q, v, S
        self.sign = np.zeros(loop.n)
        self.commands = loop.commanded(-np.inf)
        self.none = np.zeros(loop.n)

    def stage(self, q: Array, v: Array, commands: tuple[Array, Array]) -> _Stage:
        """Return accelerations, of joints that stick zero, and the torque that their friction must
        hold.
        """
        A = self.loop.inertia(q)
        A[self.loop.own, self.loop.own] += self.Ia
        drive = self.kp * (commands[0] - q) - (self.loop.kd + self.Fv) * v - self.Fo
        torque = drive - self.loop.inverse(q, v, self.none)
        stuck = self.sign == 0.0
        if not stuck.any():
            W = np.linalg.inv(A)
            return _Stage(q, v, W @ (torque - self.Fc * self.sign), W, self.none, commands)
        W = np.zeros_like(A)
        moving = np.flatnonzero(~stuck)
        W[np.ix_(moving, moving)] = np.linalg.inv(A[np.ix_(moving, moving)])
        a = W @ (torque - self.Fc * self.sign)
        return _Stage(q, v, a, W, np.where(stuck, torque - A @ a, 0.0), commands)

    def stages(self, begin: float, end: float, one: _Stage) -> list[_Stage]:
        """Return the four stages of a Runge-Kutta step and the one at its end.

        Commands are those of their times.
        """
        h, q, v = end - begin, one.q, one.v
        between, after = self.commands, self.commands
        if not self.loop.held:
            between, after = (self.loop.commanded(t - self.late) for t in ((begin + end) / 2, end))
        two = self.stage(q + h / 2 * v, v + h / 2 * one.a, between)
        three = self.stage(q + h / 2 * two.v, v + h / 2 * two.a, between)
        four = self.stage(q + h * three.v, v + h * three.a, after)
        q = q + h / 6 * (v + 2 * (two.v + three.v) + four.v)
        v = v + h / 6 * (one.a + 2 * (two.a + three.a) + four.a)
        return [one, two, three, four, self.stage(q, v, after)]

    def room(self, at: _Stage) -> Array:
        """Return how far each joint is from stopping (speed) or from breaking away (torque).

        Negative: it is past.
        """
        return np.where(self.sign == 0.0, self.Fc - np.abs(at.held), self.sign * at.v)

    def settle(self) -> _Stage:
        """Let go joints that friction cannot hold; return what follows."""
        for _ in range(self.n + 1):
            now = self.stage(self.q, self.v, self.commands)
            excess = np.where(
                self.sign == 0.0, np.abs(now.held) - self.Fc * (1.0 + 1e-12) - 1e-15, -1.0
            )
            if excess.max() <= 0.0:
                break
            j = int(np.argmax(excess))
            self.sign[j] = np.sign(now.held[j])
        self.now = now
        return now

    def go(self, begin: float, end: float) -> None:
        """Integrate from one time to another, stopping wherever a joint stops or breaks away."""
        for _ in range(4 * self.n + 8):
            made = self.stages(begin, end, self.now)
            if not self.room(made[-1]).min() < 0.0:
                break
            low, high, reached, tried = begin, end, made, end
            above, below = (
                max(float(self.room(self.now).min()), 0.0),
                float(self.room(made[-1]).min()),
            )
            for turn in range(60):
                if high - low <= MIN_STEP * max(1.0, abs(high)):
                    break
                share = above / (above - below) if turn % 3 < 2 else 0.5
                tried = low + min(max(share, 1e-3), 1.0 - 1e-3) * (high - low)
                made = self.stages(begin, tried, self.now)
                value = float(self.room(made[-1]).min())
                if value < 0.0:
                    high, below, reached = tried, value, made
                else:
                    low, above = tried, value
            self.taken(reached, high - begin)
            self.event(reached[-1])
            begin = high
            if end - begin <= MIN_STEP * max(1.0, abs(end)):
                return
        self.taken(made, end - begin)

    def event(self, before: _Stage) -> None:
        """Change the directions of friction of joints that are past.

        Sensitivities jump, for its time depends on θ.
        """
        past = self.room(before) < 0.0
        stopped = np.flatnonzero(past & (self.sign != 0.0))
        self.sign = np.where(past & (self.sign == 0.0), np.sign(before.held), self.sign)
        self.sign[stopped], self.v = 0.0, self.v.copy()
        self.v[stopped] = 0.0
        after = self.settle()
        if len(stopped):
            j, n = int(stopped[0]), self.n
            when = -self.S[n + j] / before.a[j]
            self.S[n:] += np.outer(before.a - after.a, when)
            self.S[n:][self.sign == 0.0] = 0.0

    def step_of_command(self, t: float) -> None:
        """Take the command of a time: a step, whose own time changes with the delay."""
        before = self.now.a
        self.commands = self.loop.commanded(t + 1e-9)
        self.S[self.n :, 5 * self.n] += before - self.settle().a

    def taken(self, stages: list[_Stage], h: float) -> None:
        """Take a step: sensitivities go through the stages of the state."""
        S = self.S
        one, two, three, four, end = stages
        K1 = self.slope(one, S)
        K2 = self.slope(two, S + h / 2 * K1)
        K3 = self.slope(three, S + h / 2 * K2)
        K4 = self.slope(four, S + h * K3)
        self.S = S + h / 6 * (K1 + 2 * (K2 + K3) + K4)
        self.q, self.v, self.commands, self.now = end.q, end.v, end.commands, end

    def slope(self, at: _Stage, S: Array) -> Array:
        """Return the rates (2n, p) of the sensitivities: M dS̈ = ∂τ - ∂ID."""
        loop, n = self.loop, self.n
        by_q, by_v = (slope(at.q, at.v, at.a) for slope in loop.slopes)
        by_q[loop.own, loop.own] += self.kp
        by_v[loop.own, loop.own] += loop.kd + self.Fv
        right = -(by_q @ S[:n]) - by_v @ S[n:]
        u, du = at.commands
        right[loop.rows, loop.columns] += np.concatenate(
            [-at.a, -at.v, -self.sign, loop.minus, u - at.q]
        )
        right[:, 5 * n] -= self.kp * du
        return np.concatenate([S[n:], at.W @ right])


class _Stage(NamedTuple):
    """The loop at a moment."""

    q: Array
    v: Array
    a: Array
    W: Array  # inverse of the inertia matrix of the joints that move (n, n), zero elsewhere
    held: Array  # torque that friction holds at joints that stick, zero elsewhere
    commands: tuple[Array, Array]
