"""C99 around generated arithmetic that checks each sample before it is used.

The same as :mod:`minidyn.control.sample_guard` does in Python. Numbers are tested by their bits, so
that a compiler which is told that all numbers are finite (-ffast-math) leaves the tests in place.
"""

from __future__ import annotations

import numpy as np

from minidyn.arrays import Array
from minidyn.control.c_checks import flag_values, guarded_file, with_prototype
from minidyn.control.sample_guard import GAP, NEVER, SampleGuard
from minidyn.control.sample_status import SampleStatus
from minidyn.dynamics.sources import function_source, source_name
from minidyn.graph.function import Function
from minidyn.graph.targets.c import FINITE
from minidyn.model.robot import Robot

_CHECK = """
/* Checks a sample, of which something finite was computed or not, and moves the memory on: last
   sample, repeats of each value, what moved meanwhile ({m} numbers each), phase (0: not begun, 1:
   interrupted, 2: running), periods without a usable sample, samples held in all. Returns flags. */
static int {name}_check(double *memory, const double *const *signals, double elapsed, int computed)
{{
    static const double lower[{m}] = {{{lower}}};
    static const double upper[{m}] = {{{upper}}};
    static const double effort[{n}] = {{{effort}}}, jump[{n}] = {{{jump}}};
    static const double travel[3] = {{{travel}}};
    double *same = memory + {m}, *moved = memory + 2 * {m}, *phase = memory + 3 * {m};
    double *unused = phase + 1, *held = phase + 2;
    const int timed = {name}_finite(elapsed);
    const double periods = timed ? elapsed / {period} : 1.0;
    const int begun = *phase > 0.0;
    int status = 0, gap = 0, used = 0;
    for (int i = 0; i < {m}; i++) {{
        const double value = signals[i / {n}][i % {n}];
        if (!{name}_finite(value)) status |= {not_finite};
        else if (!(value >= lower[i] && value <= upper[i])) status |= {out_of_range};
    }}
    if (status & {not_finite}) status &= ~{out_of_range};
    if (!status && !computed) status = {not_finite};
    if (!status) {{
        gap = begun && !(timed && fabs(periods - 1.0) <= {gap});
        for (int j = 0; j < {n}; j++) {{
            const double step = signals[0][j] - memory[j], way = {period} * signals[1][j];
            const double added[3] = {{way, step - way, fabs(step)}};
            if (*phase == 2.0 && fabs(step) > jump[j]) gap = 1;
            for (int s = 0; s < 3; s++) {{
                const int i = {n} * s + j, repeats = begun && signals[s][j] == memory[i];
                same[i] = repeats ? same[i] + 1.0 : 0.0;
                moved[i] = repeats ? moved[i] + added[s] : 0.0;
                const double seconds = {period} * same[i];
                if (seconds > {frozen} && fabs(moved[i]) > travel[s] + {standstill} * seconds
                    && !(s == 2 && fabs(signals[s][j]) >= effort[j])) status |= {stuck};
            }}
        }}
        memcpy(memory, signals[0], {n} * sizeof(double));
        memcpy(memory + {n}, signals[1], {n} * sizeof(double));
        memcpy(memory + 2 * {n}, signals[2], {n} * sizeof(double));
        if (!status && gap) status |= {gap_flag};
        used = !status && *phase == 2.0;
    }}
    *phase = !(status & ~{gap_flag}) ? 2.0 : (begun ? 1.0 : 0.0);
    if (used) *unused -= 1.0;
    else {{
        status |= {held};
        if (begun || *phase == 0.0) {{ /* the first sample of all is not a lost one */
            *unused += periods > 1.0 ? periods : 1.0;
            *held += 1.0;
        }}
    }}
    if (*unused < 0.0) *unused = 0.0;
    if (!{name}_finite(*unused) || *unused >= {limit}) {{
        *unused = {limit};
        status |= {not_watching};
    }}
    return status;
}}
"""

_OBSERVER = """
int {name}(const double state[{size}], const double q[{n}], const double dq[{n}], const double tau[{n}], double elapsed, double torque[{n}], double threshold[{n}], double next_state[{size}])
{{
    static const double noise[{n}] = {{{noise}}};
    const double *const signals[3] = {{q, dq, tau}};
    double r[{n}], level[{n}], moved[{old}], bound[{n}], kept[{size}];
    int computed = 1, status, begins;
    memcpy(kept, state, sizeof(kept));
    {name}_unchecked(kept, q, dq, tau, r, level, moved, bound);
    for (int i = 0; i < {old}; i++) computed &= {name}_finite(moved[i]);
    begins = !(kept[{phase}] > 0.0);
    status = {name}_check(kept + {old}, signals, elapsed, computed);
    if (!(status & {held})) memcpy(kept, moved, sizeof(moved));
    else if (kept[{phase}] == 2.0) {{ /* the residual is held and goes on from this sample */
        memcpy(kept + {n}, moved + {n}, 2 * {n} * sizeof(double));
        if (begins) memcpy(kept + 3 * {n}, bound, sizeof(bound));
    }}
    for (int j = 0; j < {n}; j++) {{
        torque[j] = kept[j];
        threshold[j] = status & {not_watching} ? -1.0 : noise[j] + kept[3 * {n} + j];
    }}
    memcpy(next_state, kept, sizeof(kept));
    return status;
}}
"""  # noqa: E501


def flag_notes(name: str, guard: SampleGuard) -> list[str]:
    """Return comments that say what a guarded function of a name does and returns."""
    upper = guard.upper
    n = guard.n
    return [
        f"Call {name}, once a period ({guard.period:g} s); what ends in _unchecked checks nothing.",
        "elapsed: time since the call before, s. Lost samples show in it; without a clock pass "
        f"{guard.period:g}.",
        "Where no new sample came, call it with NaN. Returns 0 where the sample was used; else:",
        *(f"  {int(flag)}: {text}" for flag, text in _FLAGS.items()),
        "The state that is all zero begins. Bounds, joint by joint:",
        f"  positions from {_listed(guard.lower[:n])} to {_listed(upper[:n])}",
        f"  speeds up to {_listed(upper[n : 2 * n])}, torques up to {_listed(upper[2 * n :])}",
        f"Stuck: a value repeats to the last digit for {guard.frozen:g} s while the joint moves.",
        "Not checked: whether values within these bounds are true.",
    ]


_FLAGS = {
    SampleStatus.NOT_FINITE: "a value is not finite",
    SampleStatus.OUT_OF_RANGE: "a value is beyond its bound",
    SampleStatus.STUCK: "a signal is stuck",
    SampleStatus.GAP: "samples are missing before this one",
    SampleStatus.HELD: "the state was held",
    SampleStatus.NOT_WATCHING: "ALARM: nothing is watched; thresholds are -1. Stop the robot",
}


def _listed(values: Array) -> str:
    return ", ".join(f"{value:.6g}" for value in values)


def check_source(name: str, guard: SampleGuard) -> str:
    """Return the C functions that test numbers and check samples, names beginning with `name`."""
    values = {
        "n": guard.n,
        "m": 3 * guard.n,
        "lower": c_numbers(guard.lower),
        "upper": c_numbers(guard.upper),
        "effort": c_numbers(guard.effort),
        "jump": c_numbers(guard.jump),
        "travel": c_numbers(guard.travel[:: guard.n]),
        "period": repr(float(guard.period)),
        "gap": repr(GAP),
        "frozen": repr(float(guard.frozen)),
        "standstill": repr(float(guard.standstill)),
        "limit": repr(float(guard.limit)),
        "gap_flag": int(SampleStatus.GAP),
    }
    return (FINITE + _CHECK).format(name=name, **flag_values(), **values)


def c_numbers(values: Array) -> str:
    """Return numbers as C has them, none of them infinite."""
    return ", ".join(repr(float(value)) for value in np.clip(values, -NEVER, NEVER))


def guarded_observer(
    robot: Robot, noise: Array, program: Function, size: int, guard: SampleGuard, target: str
) -> str:
    """Return a momentum observer's step with its checks as C source ("c") or header ("h").

    `size` is the length of its state but for what the guard remembers. Other targets: the
    arithmetic alone.
    """
    if target not in ("c", "h"):
        notes = ["Checks nothing: one value that is not finite stays in the state for ever."]
        return function_source(robot, program, target, notes)
    inner = source_name(robot, program)
    name = inner.removesuffix("_unchecked")
    source = function_source(robot, program, target, flag_notes(name, guard))
    body = _OBSERVER.format(
        name=name,
        n=guard.n,
        old=size,
        size=size + guard.size,
        phase=size + 9 * guard.n,
        noise=c_numbers(noise),
        **flag_values(),
    )
    prototype = body.strip().partition("\n{")[0] + ";"
    if target == "h":
        return with_prototype(source, prototype, inner)
    return guarded_file(source, prototype, check_source(name, guard) + body)
