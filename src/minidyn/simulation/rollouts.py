"""Closed loops side by side on a GPU, one thread a run; logs stay there until a run is asked for.

Each thread keeps its state and goes through time by classical fourth-order Runge-Kutta, the torque
held between two steps of the controller: the same two recorded programs, a step of the controller
and forward dynamics, as on the processor. What is logged lies run by run, so that one run is one
piece of memory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, overload

import numpy as np

from minidyn.arrays import Array
from minidyn.dynamics.kernel import function_of
from minidyn.errors import MinidynError, UnknownName, Unsupported
from minidyn.graph.function import Function
from minidyn.graph.targets.cuda.kernel import (
    DEVICES,
    Code,
    download,
    empty_array,
    free_memory,
    stream_of_own,
    upload,
)
from minidyn.graph.targets.cuda.source import cuda_statements, head_of
from minidyn.graph.targets.text import comment_lines
from minidyn.recording.recording import Recording
from minidyn.simulation.loop import REFERENCE, Setup, diverged
from minidyn.simulation.trajectory import along

BLOCK = 64
"""Threads of a block: few, so that some thousand runs fill a GPU."""

SIGNALS = ("q", "dq", "ddq", "tau")
"""What is logged of each joint."""

_RANDOM = """
static __device__ __forceinline__ unsigned long long md_mix(unsigned long long x) /* splitmix64 */
{
    x += 0x9e3779b97f4a7c15ull;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return x ^ (x >> 31);
}

/* The number-th normal number of a key: it depends on nothing else, so runs may be computed in any order. */
static __device__ __forceinline__ md_real md_normal(unsigned long long key, unsigned long long number)
{
    const md_real unit = 1.1102230246251565e-16; /* 2^-53 */
    const md_real u = ((md_mix(key + 2 * number) >> 11) + 1) * unit, v = (md_mix(key + 2 * number + 1) >> 11) * unit;
    return sqrt(-2 * log(u)) * cos(6.283185307179586 * v);
}
"""  # noqa: E501

_KERNEL = """
extern "C" __global__ void __launch_bounds__(%(block)d) md_rollout(
    long long md_runs, long long md_steps, long long md_every, md_real md_dt,
    unsigned long long md_seed, md_real md_noise, md_real md_speed_noise,
    const md_real *__restrict__ md_reference, const md_real *__restrict__ md_limit,
    const md_real *__restrict__ md_q0, const md_real *__restrict__ md_dq0, const md_real *__restrict__ md_state0,
    md_real *__restrict__ md_q, md_real *__restrict__ md_dq, md_real *__restrict__ md_ddq, md_real *__restrict__ md_tau,
    md_real *__restrict__ md_estimate, md_real *__restrict__ md_failed)
{
    const int n = %(n)d, size = %(size)d, logged = %(logged)d;
    const long long run = (long long)blockIdx.x * %(block)d + threadIdx.x;
    if (run >= md_runs) return;
    md_real q[n], dq[n], tau[n], a[n], state[size + 1], limit[n];
    for (int j = 0; j < n; j++) {
        q[j] = md_q0[run * n + j];
        dq[j] = md_dq0[run * n + j];
        limit[j] = md_limit[j];
        tau[j] = a[j] = 0;
    }
    for (int k = 0; k < size; k++) state[k] = md_state0[run * size + k];
    const unsigned long long key = md_mix(md_seed ^ md_mix(run));
    md_real failed = -1;
    for (long long step = 0; step <= md_steps; step++) {
        const long long at = (run * (md_steps + 1) + step) * n;
        for (int j = 0; j < n; j++) {
            md_q[at + j] = q[j];
            md_dq[at + j] = dq[j];
        }
        if (md_estimate)
            for (int k = 0; k < logged; k++)
                md_estimate[(run * (md_steps + 1) + step) * logged + k] = state[k];
        if (%(controlled)d && step %% md_every == 0) {
            md_real seen[n], speed[n];
            for (int j = 0; j < n; j++) {
                seen[j] = q[j];
                speed[j] = dq[j];
            }
            if (md_noise > 0)
                for (int j = 0; j < n; j++) seen[j] += md_noise * md_normal(key, 2 * n * step + j);
            if (md_speed_noise > 0)
                for (int j = 0; j < n; j++) speed[j] += md_speed_noise * md_normal(key, 2 * n * step + n + j);
            const md_real *const reference = md_reference + step * 3 * n;
            md_control(%(given)s);
            for (int j = 0; j < n; j++) tau[j] = tau[j] > limit[j] ? limit[j] : tau[j] < -limit[j] ? -limit[j] : tau[j];
        }
        md_real x[n], v[n], way[n], gain[n], now[n];
        for (int j = 0; j < n; j++) {
            x[j] = q[j];
            v[j] = dq[j];
            way[j] = gain[j] = 0;
        }
        #pragma unroll 1
        for (int stage = 0; stage < 4; stage++) {
            md_plant(x, v, tau, now);
            if (stage == 0) {
                bool finite = true;
                for (int j = 0; j < n; j++) {
                    a[j] = now[j];
                    md_ddq[at + j] = now[j];
                    md_tau[at + j] = tau[j];
                    finite = finite && now[j] - now[j] == 0;
                }
                if (!finite && failed < 0) failed = step;
                if (step == md_steps) break;
            }
            const md_real weight = stage == 1 || stage == 2 ? 2 : 1, length = stage == 2 ? md_dt : md_dt / 2;
            for (int j = 0; j < n; j++) {
                way[j] += weight * v[j];
                gain[j] += weight * now[j];
                x[j] = q[j] + length * v[j];
                v[j] = dq[j] + length * now[j];
            }
        }
        for (int j = 0; j < n; j++) {
            q[j] += md_dt / 6 * way[j];
            dq[j] += md_dt / 6 * gain[j];
        }
    }
    md_failed[run] = failed;
}
"""  # noqa: E501


class Rollout:
    """A plant (q, dq, tau) -> ddq under a controller, compiled for a GPU.

    The controller is a recorded step: from some of `q`, `dq`, `ddq` (of the step before), `q_d`,
    `dq_d`, `ddq_d` and a state of any other name to `tau` and, where there is a state, the next
    one. None: no torque.
    """

    def __init__(self, plant: Function, control: Function | None, logged: int = 0) -> None:
        self.plant, self.control, self.logged = plant, control, logged
        self.n = plant.results[0].size
        self._places = {"q": "seen", "dq": "speed", "ddq": "a"}
        self._places |= {
            name: f"reference + {k * self.n}" for k, name in enumerate(("q_d", "dq_d", "ddq_d"))
        }
        states = [
            argument
            for argument in (control.arguments if control else ())
            if argument.name not in self._places
        ]
        self.size = sum(argument.size for argument in states)  # of the controller's state
        self._code: Code | None = None

    @cached_property
    def text(self) -> str:
        """Self-contained CUDA C++: `md_rollout`."""
        functions = [self.plant, *([] if self.control is None else [self.control])]
        comments = [line for function in functions for line in comment_lines(function, ())]
        lines = [*head_of(functions, comments), _RANDOM, *_device_function("md_plant", self.plant)]
        given = ""
        if self.control is not None:
            lines += _device_function("md_control", self.control)
            places = [
                self._places.get(argument.name, "state") for argument in self.control.arguments
            ]
            given = ", ".join([*places, *["tau", "state"][: len(self.control.results)]])
        else:
            lines += ["static __device__ void md_control() {}"]
        table = {"block": BLOCK, "n": self.n, "size": self.size, "logged": self.logged}
        return "\n".join(lines) + _KERNEL % (
            table | {"controlled": int(self.control is not None), "given": given}
        )

    def run(
        self,
        q0: Array,
        dq0: Array,
        state0: Array,
        reference: Array,
        limit: Array,
        *,
        dt: float,
        every: int,
        noise: float,
        velocity_noise: float,
        seed: int,
    ) -> tuple[dict[str, Any], Array]:
        """Return what is logged, arrays (runs, samples, ...) on the GPU, and for each run the step
        at which it failed.

        Args:
            q0: Positions (runs, n) at the start.
            dq0: Speeds (runs, n) at the start.
            state0: The controller's state (runs, size) at the start.
            reference: q_d, dq_d and ddq_d side by side (samples, 3 n).
            limit: Largest torques (n,).
            dt: Step, s.
            every: Steps between two of the controller.
            noise: Standard deviation of the positions that the controller sees.
            velocity_noise: The same of speeds.
            seed: Of the noise.
        """
        runs, samples = len(q0), len(reference)
        if self._code is None:
            self._code = Code(self.text, "md_rollout", 0)
        given = [upload(array) for array in (reference, limit, q0, dq0, state0)]
        sizes = dict.fromkeys(SIGNALS, self.n) | ({"estimate": self.logged} if self.logged else {})
        need, free = 8 * runs * samples * sum(sizes.values()), free_memory()
        if need > free:
            raise MinidynError(
                f"simulate: the logs of {runs} runs of {samples} samples need {need / 1e9:.3g} "
                f"GB, the GPU has {free / 1e9:.3g} GB free; simulate fewer runs at once, or let "
                "results of earlier ones go"
            )
        logs = {name: empty_array((runs, samples, size)) for name, size in sizes.items()}
        failed = empty_array((runs,))
        stream = stream_of_own()
        addresses = [array.ptr for array in (*given, *(logs[name] for name in SIGNALS))]
        addresses.append(logs["estimate"].ptr if self.logged else 0)
        numbers = (np.int64(runs), np.int64(samples - 1), np.int64(every), np.float64(dt))
        noises = (np.uint64(seed), np.float64(noise), np.float64(velocity_noise))
        self._code.launch(
            stream, -(-runs // BLOCK), BLOCK, *numbers, *noises, *addresses, failed.ptr
        )
        stream.sync()
        return logs, download(failed)


def one_run(logs: Mapping[str, Any], run: int) -> dict[str, Array]:
    """Return what is logged of one run, copied from the GPU."""
    return {name: download(array, run) for name, array in logs.items()}


def _device_function(name: str, function: Function) -> Sequence[str]:
    """Return a function of pointers.

    Results are written when all arguments have been read, so they may be the same.
    """
    inputs = [f"md_in{k}" for k in range(len(function.arguments))]
    outputs = [f"md_out{k}" for k in range(len(function.results))]
    body, texts = cuda_statements(function, [f"{each}[" for each in inputs], "t")
    parameters = [
        *(f"const md_real *{each}" for each in inputs),
        *(f"md_real *{each}" for each in outputs),
    ]
    lines = [f"static __device__ __forceinline__ void {name}({', '.join(parameters)})", "{", *body]
    for output, values in zip(outputs, texts):
        lines += [f"    {output}[{k}] = {text};" for k, text in enumerate(values)]
    return [*lines, "}"]


_NAMES = {"q": "q_true", "dq": "dq_true"}  # of what is logged


class Rollouts(Sequence[Recording]):
    """Runs that were simulated on a GPU.

    A sequence of recordings, each copied from there when it is asked for.

    Attributes:
        t: Times (samples,), s.
        arrays: The logs of all runs on the GPU, (runs, samples, n), as arrays that CuPy, PyTorch
            and JAX take by `from_dlpack`: true "q", "dq", "ddq", "tau", and "estimate" of adaptive
            laws where it was asked for.
    """

    def __init__(
        self,
        setup: Setup,
        t: Array,
        arrays: Mapping[str, Any],
        make: Callable[[dict[str, Array], int], Recording],
    ) -> None:
        self.t, self.arrays, self._make, self._count = t, arrays, make, len(setup.q0)
        self._reference = dict(zip(REFERENCE, along(setup.trajectory, t, setup.robot.n)))

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> Recording: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Recording]: ...

    def __getitem__(self, index: int | slice) -> Recording | Sequence[Recording]:
        if isinstance(index, slice):
            return tuple(self[row] for row in range(*index.indices(self._count)))
        row = range(self._count)[index]
        log = {_NAMES.get(name, name): values for name, values in one_run(self.arrays, row).items()}
        return self._make({"t": self.t, **self._reference, **log}, row)

    def __repr__(self) -> str:
        return f"Rollouts({self._count} runs of {len(self.t)} samples on the GPU)"


def rollouts(
    setup: Setup,
    limit: Array,
    noise: float,
    velocity_noise: float,
    seed: int,
    make: Callable[[dict[str, Array], int], Recording],
    device: str,
) -> Rollouts:
    """Run the loops of a batch on a GPU; `make` makes a recording of one run's log."""
    controller, robot = setup.controller, setup.robot
    if device not in DEVICES:
        raise UnknownName("device", device, DEVICES)
    if setup.continuous:
        raise Unsupported(
            'device="cuda": controllers on the GPU are sampled; use control="sampled"'
        )
    if controller is not None and controller.program is None:
        raise Unsupported(
            f'device="cuda": {controller.name} has no recorded program; leave device out'
        )
    estimated = len(controller.estimated) if controller is not None and setup.log_estimates else 0
    control = None if controller is None or controller.program is None else controller.program()
    rollout = Rollout(function_of(robot, "forward_dynamics"), control, estimated)
    start = np.zeros(0) if controller is None else controller.start
    if controller is not None and controller.begin is not None:
        start = controller.begin(setup.q0, setup.dq0)
    times = np.asarray(setup.dt * np.arange(setup.steps + 1), dtype=float)
    arrays, failed = rollout.run(
        setup.q0,
        setup.dq0,
        np.broadcast_to(start, (len(setup.q0), rollout.size)),
        np.concatenate(along(setup.trajectory, times, robot.n), axis=1),
        np.broadcast_to(limit, (robot.n,)),
        dt=setup.dt,
        every=setup.every,
        noise=noise,
        velocity_noise=velocity_noise,
        seed=seed,
    )
    if np.any(failed >= 0):
        raise diverged(setup, float(times[int(failed[failed >= 0].min())]))
    return Rollouts(
        setup,
        times,
        {name: arrays[name] for name in (*SIGNALS, "estimate") if name in arrays},
        make,
    )
