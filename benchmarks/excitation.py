"""Designed motions: how quick, how good, against random motions, longer searches, other solvers and
published figures.

    python benchmarks/excitation.py                    # a few minutes
    python benchmarks/excitation.py --search 3600      # "the best of an hour's search", a fresh start every time

Times are those of one core (time of the process), so that a busy machine does not count.
"""  # noqa: E501

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import minimize

import minidyn as md
from minidyn.arrays import Array, single_thread
from minidyn.dynamics.record import record
from minidyn.excitation.bounds import bounds_of
from minidyn.excitation.motion import Family
from minidyn.excitation.search import TIGHT, Problem, Search, problem_of, start_motion
from minidyn.excitation.target import target_of
from minidyn.graph.derivative import jacobian
from minidyn.graph.targets.native.kernel import compile_function

RIGID: dict[str, Any] = {"friction": (), "rotor_inertia": False, "noise": 1.0}


def spread(made: md.Excitation) -> float:
    """Geometric mean of the standard deviations, orthonormal basis."""
    return float(made.criteria["d"])


def designs(names: list[str], duration: float, seconds: float, motions: int) -> None:
    """One design of each robot, against a longer search and against random motions."""
    print(
        f"{'robot':10s} {'parameters':>10s} {'design, s':>10s} {'condition':>10s} {'logdet':>8s}",
        end="",
    )
    print(f" {'over best of search':>20s} {'best random over it':>20s} {'largest share':>14s}")
    for name in names:
        md.excite(
            name, duration, time_limit=1e-3, **RIGID
        )  # libraries are loaded, base parameters found
        begun = time.process_time()
        made = md.excite(name, duration, **RIGID)
        took = time.process_time() - begun
        best, begun, seed = spread(made), time.process_time(), 1
        while time.process_time() - begun < seconds:
            best = min(best, spread(md.excite(name, duration, seed=seed, **RIGID)))
            seed += 1
        problem = rigid_problem(name, duration)
        rng = np.random.default_rng(0)
        search = Search(problem)
        random = min(
            problem.judge(start_motion(problem, search.still, rng, use=0.97), 0.1, "d")[2]
            for _ in range(motions)
        )
        share = max(max(shares.values()) for shares in made.margins.values())
        print(
            f"{name:10s} {made.base.rank:10d} {took:10.1f} {made.condition:10.1f} "
            f"{made.logdet:8.1f}",
            end="",
        )
        print(
            f" {spread(made) / best:20.4f} {np.exp(random) / spread(made):20.2f} {share:14.4f}",
            flush=True,
        )
        print(f"{'':10s} {seed} starts in all, {motions} random motions within the same limits")


def rigid_problem(name: str, duration: float) -> Problem:
    """The search's own problem, links alone."""
    robot = md.load(name).with_drives(rotor_inertia=False, friction=())
    bounds, family = bounds_of(robot, None, 0.8), Family(robot.n, duration, 1, 5)
    target, phi, _ = target_of(robot, "model", "own", None, (), (), None)
    return problem_of(target, family, bounds, "d", np.ones(robot.n), 100 * duration, phi)


def solvers(name: str, duration: float, seconds: float) -> None:
    """BFGS with barriers against an augmented Lagrangian, SLSQP and trust-constr, from the same
    motion.
    """
    problem = rigid_problem(name, duration)
    problem.tight = dict.fromkeys(TIGHT, 1.0)
    rng = np.random.default_rng(1)
    start = start_motion(problem, Search(problem).still, rng)
    print(
        f"{'solver':22s} {'seconds':>8s} {'evaluations':>12s} {'log criterion':>14s} "
        f"{'largest share':>14s}"
    )
    for label, solve in (
        ("BFGS, barriers", _barriers),
        ("augmented Lagrangian", _lagrangian),
        ("SLSQP", _constrained("SLSQP")),
        ("trust-constr", _constrained("trust-constr")),
    ):
        count, last = [0], [start]
        begun = time.process_time()

        def look(
            u: Array, begun: float = begun, count: list[int] = count, last: list[Array] = last
        ) -> None:
            count[0] += 1
            last[0] = u.copy()
            if time.process_time() - begun > seconds:
                raise TimeoutError

        try:
            last[0] = solve(problem, start, look)
        except TimeoutError:
            label += " (out of time)"
        took = time.process_time() - begun
        _, _, value, worst = problem.judge(last[0], 1e-3, "d")
        print(f"{label:22s} {took:8.1f} {count[0]:12d} {value:14.4f} {worst:14.4f}", flush=True)


def _barriers(problem: Problem, u: Array, look: Any) -> Array:
    search = Search(problem, progress=lambda done: look(u))
    for weight, steps in ((0.1, 100), (0.03, 100), (0.01, 80), (0.003, 80), (0.001, 80)):
        u = search._minimise(u, weight, "d", steps)[1]
    return u if search.best is None else search.best


def _lagrangian(problem: Problem, u: Array, look: Any) -> Array:
    """Augmented Lagrangian on L-BFGS-B.

    Gradients of the shares by the barrier's own way through the graph.
    """
    import minidyn.excitation.search as problem_module

    barrier = problem_module._barrier
    multipliers: dict[tuple[int, ...], Any] = {}
    stiffness, order = 10.0, [0]

    def penalty(share: Array, weight: float) -> tuple[float, Array]:
        key = order[0]
        order[0] += 1
        pressed = multipliers.setdefault((key,), np.zeros((2, *share.shape)))
        price, rate = 0.0, np.zeros_like(share)
        for k, sign in enumerate((1.0, -1.0)):
            force = np.maximum(0.0, pressed[k] + stiffness * (sign * share - 1.0))
            price += float(np.sum(force**2 - pressed[k] ** 2)) / (2 * stiffness)
            rate += sign * force
            if weight < 0:  # an update of the multipliers
                pressed[k] = force
        return price, rate

    def judged(v: Array, weight: float = 1.0) -> tuple[float, Array]:
        order[0] = 0
        look(v)
        return problem.judge(v, weight, "d")[:2]

    problem_module._barrier = penalty
    try:
        for _ in range(8):
            u = minimize(
                judged, u, jac=True, method="L-BFGS-B", options={"maxiter": 200, "maxcor": 30}
            ).x
            judged(u, -1.0)
            stiffness *= 2
    finally:
        problem_module._barrier = barrier
    return u


def _constrained(method: str) -> Any:
    """A solver of SciPy that takes constraints, with exact Jacobians of the shares at the
    samples.
    """

    def solve(problem: Problem, u: Array, look: Any) -> Array:
        import minidyn.excitation.search as problem_module

        function = record(problem.robot, "inverse_dynamics", parameters=problem.robot.parameters)
        rates = [compile_function(jacobian(function, name)) for name in ("q", "dq", "ddq")]
        n, m, some = problem.family.joints, problem.family.size, slice(None)
        phi = [part[some] for part in problem.functions[0]]
        own = slice(0, n)
        sizes = (
            problem.bounds.reach["position"][own],
            problem.bounds.reach["velocity"][own],
            problem.bounds.effort,
        )

        def shares(v: Array) -> Array:
            q, dq, ddq = problem.motion(problem.coefficients(v))
            tau = problem.regressor([q, dq, ddq]) @ problem.target.prior
            parts = [(q - problem.bounds.middle[own]) / sizes[0], dq / sizes[1], tau / sizes[2]]
            return np.concatenate([part[some].ravel() for part in parts])

        def slopes(v: Array) -> Array:
            motion = [
                np.ascontiguousarray(part[some]) for part in problem.motion(problem.coefficients(v))
            ]
            count = len(motion[0])
            J = np.zeros((3, count, n, n, m))
            for j in range(n):
                J[0, :, j, j], J[1, :, j, j] = phi[0] / sizes[0][j], phi[1] / sizes[1][j]
            J[2] = sum(
                np.einsum("sij,sm->sijm", rate(*motion), part) for rate, part in zip(rates, phi)
            )
            J[2] /= sizes[2][:, None, None]
            return np.einsum("rsijm,jmk->rsijk", J, problem.scales).reshape(3 * count * n, n * m)

        def judged(v: Array) -> tuple[float, Array]:
            look(v)
            return problem.judge(v, 1.0, "d")[:2]

        barrier, problem_module._barrier = (
            problem_module._barrier,
            lambda share, weight: (0.0, np.zeros_like(share)),
        )
        try:
            limits: Any = (
                {
                    "type": "ineq",
                    "fun": lambda v: np.concatenate([1 - shares(v), 1 + shares(v)]),
                    "jac": lambda v: np.concatenate([-slopes(v), slopes(v)]),
                }
                if method == "SLSQP"
                else _between(shares, slopes)
            )
            return np.asarray(minimize(judged, u, jac=True, method=method, constraints=limits).x)
        finally:
            problem_module._barrier = barrier

    return solve


def _between(shares: Any, slopes: Any) -> Any:
    from scipy.optimize import NonlinearConstraint

    return NonlinearConstraint(shares, -1.0, 1.0, jac=slopes)


def published() -> None:
    """Motions as long as published ones.

    Their robots and limits differ, so that this is for orientation.
    """
    for title, name, duration in (
        ("FloBaRoID, 7 joints, 12 s: logdet 109.6, condition 36.6", "iiwa14", 12.0),
        ("6 joints, 20-50 s: condition 61-92", "ur10e", 20.0),
    ):
        print(title)
        for criterion in ("d", "condition"):
            made = md.excite(name, duration, criterion=criterion, **RIGID)
            print(
                f"  {name}, criterion {criterion:9s}: logdet {made.logdet:.1f}, condition "
                f"{made.condition:.1f}"
            )
    print("robot_payload_id, a load on 7 joints, 10 s: condition 116.7 of WᵀW")
    words = {
        "purpose": "payload",
        "payload": {"mass": 2.0, "com": [0, 0, 0.1]},
        "friction": (),
        "noise": 1.0,
    }
    made = md.excite("iiwa14", 10.0, criterion="condition", **words)
    print(f"  iiwa14, criterion condition: condition {made.condition**2:.1f} of WᵀW")


def with_shapes(duration: float) -> None:
    """A design that keeps links 20 mm apart, of the panda whose URDF and meshes come with
    example-robot-data.
    """
    inside = (
        "cmeel.prefix/share/example-robot-data/robots/panda_description/urdf/panda_collision.urdf"
    )
    file = next((path for place in sys.path if (path := Path(place) / inside).is_file()), None)
    if file is None:
        print("with shapes: not measured, example-robot-data is not installed")
        return
    robot = md.load(file)
    md.excite(robot, duration, time_limit=1e-3, **RIGID)  # machine code is made
    begun = time.process_time()
    made = md.excite(robot, duration, **RIGID)
    took = time.process_time() - begun
    pairs, least = len(made.margins["distance"]), 1000 * min(made.margins["distance"].values())
    print(
        f"panda with gripper and shapes, {robot.n} joints, {pairs} pairs of links: {took:.1f} s, "
        f"{least:.1f} mm apart"
    )
    print(f"  logdet {made.logdet:.1f}, condition {made.condition:.1f}, feasible: {made.feasible}")


def main() -> None:
    """Print all figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--search", type=float, default=60.0, help="seconds of the longer search for each robot"
    )
    parser.add_argument("--random", type=int, default=1000, help="random motions")
    parser.add_argument("--robots", nargs="*", default=["panda", "gen3"])
    options = parser.parse_args()
    with single_thread():
        solvers("panda", 20.0, 60.0)
        published()
        with_shapes(20.0)
        designs(options.robots, 20.0, options.search, options.random)


if __name__ == "__main__":
    main()
