"""Rows of a sample without accelerations, as a recorded step, and C that turns them into triangular
factors.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from minidyn.arrays import Array
from minidyn.base.base_map import BaseMap
from minidyn.control.c_checks import flag_values, guarded_file
from minidyn.control.guarded_source import check_source, flag_notes
from minidyn.control.sample_guard import SampleGuard
from minidyn.control.watch import Margins
from minidyn.dynamics.record import build
from minidyn.dynamics.sources import function_source, source_name
from minidyn.dynamics.vectors import Scalar
from minidyn.graph.function import Function
from minidyn.graph.node import Node
from minidyn.graph.scalar import Graph
from minidyn.model.robot import Robot

_UPDATE = """
/* Takes the rows of one sample into the factors: {size} numbers, row by row, joint after joint, zero at the start.
   state: next_state of {name}, whose sample adds nothing where it was held; forget: exp(-T / 2 memory), 1 without forgetting. For each joint the factor F of
   [X | tau] has F^T F = sum of products of its rows; its columns are base parameters, the last one the torque. */
void {name}_update(const double *state, double forget, double *factors)
{{
    static const int columns[{n}] = {{{columns}}};
    double row[{largest}];
    const double *entries = state, *torques = state + {entries};
    const int has_row = state[{mark}] == 1.0;
    for (int joint = 0; joint < {n}; joint++) {{
        const int size = columns[joint] + 1;
        for (int k = 0; k + 1 < size; k++) row[k] = has_row ? entries[k] : 0.0;
        row[size - 1] = has_row ? torques[joint] : 0.0;
        for (int k = 0; k < size; k++) {{
            double *own = factors + k * size;
            const double old = forget * own[k], length = sqrt(old * old + row[k] * row[k]);
            const double c = length > 0.0 ? old / length : 1.0, s = length > 0.0 ? row[k] / length : 0.0;
            const double kept = c * forget, lost = s * forget;
            for (int i = k; i < size; i++) {{
                const double turned = kept * own[i] + s * row[i];
                row[i] = c * row[i] - lost * own[i];
                own[i] = turned;
            }}
        }}
        entries += columns[joint];
        factors += size * size;
    }}
}}
"""  # noqa: E501
_STEP = """
int {name}(const double state[{size}], const double q[{n}], const double dq[{n}], const double tau[{n}], double elapsed, double next_state[{size}])
{{
    const double *const signals[3] = {{q, dq, tau}};
    double moved[{old}], kept[{size}];
    int computed = 1, status;
    memcpy(kept, state, sizeof(kept));
    {name}_unchecked(kept, q, dq, tau, moved);
    for (int i = 0; i < {old}; i++) computed &= {name}_finite(moved[i]);
    status = {name}_check(kept + {mark} + 1, signals, elapsed, computed);
    kept[{mark}] = status & {held} ? 0.0 : 1.0; /* whether there is a row */
    if (!(status & {held})) memcpy(kept, moved, sizeof(moved));
    else if (kept[{phase}] == 2.0) memcpy(kept + {rows}, moved + {rows}, ({old} - {rows}) * sizeof(double));
    memcpy(next_state, kept, sizeof(kept));
    return status;
}}
"""  # noqa: E501


def rows_program(
    robot: Robot, base: BaseMap, gain: Array, period: float, margins: Margins
) -> tuple[tuple[tuple[int, ...], ...], Function]:
    """Return the columns that each joint shows, and the step (state, q, dq, tau) -> next_state.

    The state holds lagged rows, entry by entry, lagged torques (n), what static friction may hide
    (n, lagged, too), then W / T - rest / 2 entry by entry, and the torques that are held (n).
    """
    graph, n = Graph(), robot.n
    shown = _shown(robot, base)
    size = sum(len(own) for own in shown)
    state = list(graph.inputs("state", 2 * size + 3 * n))
    q, dq, tau = (list(graph.inputs(name, n)) for name in ("q", "dq", "tau"))
    parts = _momentum(robot, base, q, dq)
    rows: list[Scalar] = []
    kept: list[Scalar] = []
    shares = (-np.expm1(-gain * period)).tolist()

    def lagged(place: int, joint: int, new: Scalar) -> Scalar:
        return state[place] + shares[joint] * (new - state[place])

    for joint, own in enumerate(shown):
        for column in own:
            w, rest = parts["W"][joint][column] * (1.0 / period), 0.5 * parts["rest"][joint][column]
            rows.append(lagged(len(rows), joint, w + rest - state[size + 2 * n + len(rows)]))
            kept.append(w - rest)
    rows += [lagged(size + j, j, state[2 * size + 2 * n + j]) for j in range(n)]
    rows += [lagged(size + n + j, j, margins.hidden(dq[j], j)) for j in range(n)]
    return shown, graph.function("online_step_unchecked", {"next_state": [*rows, *kept, *tau]})


def _momentum(robot: Robot, base: BaseMap, q: Sequence[Scalar], dq: Sequence[Scalar]) -> Any:
    columns = robot.layout.indices(base.kept)
    return build(
        robot, "momentum_regressor", {"q": q, "dq": dq}, columns=columns, combine=base.unmixing
    )


def _shown(robot: Robot, base: BaseMap) -> tuple[tuple[int, ...], ...]:
    """Return for each joint the base parameters that its torque depends on."""
    graph = Graph()
    q, dq = (list(graph.inputs(name, robot.n)) for name in ("q", "dq"))
    parts = _momentum(robot, base, q, dq)
    found = []
    for momentum, rest in zip(parts["W"], parts["rest"]):
        entries = enumerate(zip(momentum, rest))
        found.append(tuple(k for k, pair in entries if any(_moves(entry) for entry in pair)))
    return tuple(found)


def _moves(entry: Scalar) -> bool:
    return entry.value != 0.0 if isinstance(entry, Node) else entry != 0.0


def rows_source(robot: Robot, program: Function, counts: Sequence[int], guard: SampleGuard) -> str:
    """Return the step with its checks, and the update of the factors, as C99.

    Counts are the columns of each joint.
    """
    inner = source_name(robot, program)
    name, n, old = inner.removesuffix("_unchecked"), robot.n, program.arguments[0].size
    step = _STEP.format(
        name=name,
        n=n,
        old=old,
        mark=old,
        size=old + 1 + guard.size,
        phase=old + 1 + 9 * n,
        rows=sum(counts) + 2 * n,
        **flag_values(),
    )
    update = _UPDATE.format(
        name=name,
        n=n,
        columns=", ".join(map(str, counts)),
        largest=max(counts) + 1,
        entries=sum(counts),
        mark=old,
        size=sum((count + 1) ** 2 for count in counts),
    )
    source = function_source(robot, program, "c", flag_notes(name, guard))
    prototype = step.strip().partition("\n{")[0] + ";"
    return guarded_file(source, prototype, check_source(name, guard) + step) + update
