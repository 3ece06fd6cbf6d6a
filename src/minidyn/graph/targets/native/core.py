"""The tape as straight-line code on vectors: one sample per lane, one block of samples per call.

A block holds every scalar of an argument or result as one vector, one after the other: scalar e of
a block lies at offset e * width. All addresses are then constants, no two columns collide in the
cache, and with width 1 a block is an ordinary contiguous array.

Three functions come out of a tape:

- `@once(uniform arguments..., u)` computes what depends on uniform arguments alone, into the small
  buffer u;
- `@fill(results..., u)` writes outputs that do not depend on the sample; they stay in a block that
  is used again;
- `@core.<width>(arguments..., results..., u)` computes one block, everything else.

A tape of thousands of steps has far more values alive than there are vector registers, and LLVM
keeps nearly the order it is given. So the order is chosen here: first the sines and cosines (each
is a call, which empties the registers), then always the step that frees most values, among those
the one whose operands are freshest. On regressors this saves a quarter of the time against the
order of recording.

LLVM takes longer than in proportion for long functions, so a tape beyond WHOLE steps is cut into
pieces, each a function; values that a later piece needs lie in a buffer on the stack between them.
A base regressor of 60 joints in a row (71,156 steps) is compiled in a quarter of the time, and runs
15 to 30 % slower: more than a thousand values are alive at each cut. Shorter tapes stay whole.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Set
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import cast

from minidyn.graph.function import Function, Instruction
from minidyn.graph.targets.native.host import (
    FLAGS,
    atan2_text,
    double,
    joined,
    loop_end,
    sincos_text,
    splat,
    spread,
    suffix,
    vector,
    vector_at,
)


def schedule(function: Function) -> list[int]:
    """Return the tape indices to compute per sample, in order.

    Constants and inputs are loaded where used.
    """
    tape = function.tape
    free = {index for index, step in enumerate(tape) if step.op == "input"} | function.uniform_steps
    needed: set[int] = set()  # all sines and cosines with what they depend on
    for index in range(len(tape) - 1, -1, -1):
        if index not in free and (index in needed or tape[index].op in ("sin", "cos")):
            needed.update((index, *tape[index].args))
    first = sorted(needed - free)
    return first + _greedy(tape, free, first)


def _greedy(tape: tuple[Instruction, ...], free: Set[int], first: list[int]) -> list[int]:
    """Order all other steps, one at a time, by what each frees and how fresh its operands are."""
    operands = [tuple({arg for arg in step.args if arg not in free}) for step in tape]
    users: list[list[int]] = [[] for _ in tape]
    for index, args in enumerate(operands):
        if index not in free:
            for arg in args:
                users[arg].append(index)
    left = [len(those) for those in users]  # uses to come
    waiting = [len(args) for args in operands]  # operands to come
    made = [-1] * len(tape)  # when it was computed
    done = [index in free for index in range(len(tape))]
    heap: list[tuple[int, int, int]] = []
    order: list[int] = []

    def offer(index: int) -> None:
        """Put a step that can be computed now on the heap; worse entries of it may remain there."""
        args = operands[index]
        alive = (1 if users[index] else 0) - sum(left[arg] == 1 for arg in args)
        heapq.heappush(heap, (alive, -max((made[arg] for arg in args), default=-1), index))

    def compute(index: int, time: int) -> None:
        done[index] = True
        made[index] = time
        for arg in operands[index]:
            left[arg] -= 1
            if left[arg] == 1:  # one use remains: whoever it is now frees the value
                for user in users[arg]:
                    if not done[user] and waiting[user] == 0:
                        offer(user)
        for user in users[index]:
            waiting[user] -= 1
            if waiting[user] == 0:
                offer(user)

    for time, index in enumerate(first):
        compute(index, time)
    for index in range(len(tape)):
        if not done[index] and waiting[index] == 0:
            offer(index)
    while heap:
        index = heapq.heappop(heap)[2]
        if not done[index]:
            order.append(index)
            compute(index, len(first) + len(order))
    return order


PIECE = 3000
"""Steps of a piece of a long tape."""

WHOLE = 30_000
"""Steps of a tape that is not cut; longer ones would be compiled for more than ten seconds."""

_RUN = 16  # equal constants in a row from which a loop writes them


_BINARY = {"add": "fadd", "sub": "fsub", "mul": "fmul", "div": "fdiv"}


@dataclass(frozen=True)
class Plan:
    """What is computed where: the tape split into constants, once per call and once per sample."""

    function: Function

    @cached_property
    def constants(self) -> dict[int, float]:
        """Value of each constant step."""
        return {
            k: step.value
            for k, step in enumerate(self.function.tape)
            if isinstance(step.value, float | int)
        }

    def bits_of(self, index: int) -> str | None:
        """The bits of a step that is a constant; None for others."""
        return double(self.constants[index]) if index in self.constants else None

    @cached_property
    def slots(self) -> dict[int, int]:
        """Place in the buffer u of each step computed once per call that the rest needs."""
        once = self.function.uniform_steps
        needed = {index for outputs in self.function.outputs for index in outputs}
        for index, step in enumerate(self.function.tape):
            if index not in once:
                needed.update(step.args)
        kept = sorted(index for index in needed if index in once and index not in self.constants)
        return {index: slot for slot, index in enumerate(kept)}

    @cached_property
    def stores(self) -> dict[int, list[tuple[int, int]]]:
        """For each step that is an output: the results and positions it goes to."""
        places: dict[int, list[tuple[int, int]]] = {}
        for result, outputs in enumerate(self.function.outputs):
            for position, index in enumerate(outputs):
                places.setdefault(index, []).append((result, position))
        return places

    @cached_property
    def block_sizes(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Scalars per sample in the block of each argument (none for uniform ones) and of each
        result.
        """
        arguments = tuple(
            0 if argument.uniform else argument.size for argument in self.function.arguments
        )
        return arguments, tuple(result.size for result in self.function.results)

    @cached_property
    def names(self) -> tuple[list[str], list[str]]:
        """What arguments and results are called in the code."""
        return [f"a{k}" for k in range(len(self.block_sizes[0]))], [
            f"o{k}" for k in range(len(self.block_sizes[1]))
        ]

    @cached_property
    def call(self) -> str:
        """The operands of a call of `@core`: a pointer per argument and result, and u."""
        return ", ".join(f"ptr %{name}" for name in (*self.names[0], *self.names[1], "u"))


def helper_text(plan: Plan, width: int) -> str:
    """Return the declarations and functions that the steps of `@once` (scalar) and `@core` call."""
    once = plan.function.uniform_steps
    needed: dict[tuple[str, int], None] = {}
    for index, step in enumerate(plan.function.tape):
        kind = "sin" if step.op == "cos" else step.op
        needed[kind, 1 if index in once else width] = None
    text = ""
    for kind, lanes in needed:
        if kind == "sin":
            text += sincos_text(lanes)
        elif kind == "atan2":
            text += atan2_text(lanes)
        elif kind == "sqrt":
            text += f"declare {vector(lanes)} @llvm.sqrt.{suffix(lanes)}({vector(lanes)})\n"
    return text


class _Steps:
    """Emits steps of a tape one by one; the value of step i is %v<i> or a constant."""

    def __init__(
        self, plan: Plan, width: int, *, once: bool, kept: Mapping[int, int] | None = None
    ) -> None:
        self.plan, self.width, self.once = plan, width, once
        self.kept = kept or {}  # places in the buffer w of values of earlier pieces
        self.real = vector(width)
        self.lines: list[str] = []
        self.names: dict[int, str] = {}
        self.pairs: set[int] = set()

    def value(self, index: int) -> str:
        """Return the operand for a step: loads of inputs and of u appear at the first use."""
        name = self.names.get(index)
        if name is not None:
            return name
        plan = self.plan
        if index in plan.constants:
            name = splat(float(plan.constants[index]), self.width)
        elif not self.once and index in plan.slots:
            name = f"%v{index}"
            self.lines += spread(name[1:], "u", plan.slots[index], self.width)
        elif index in self.kept:
            name = f"%v{index}"
            self.lines += vector_at(name[1:], "w", self.kept[index] * self.width, self.width)
        else:
            name = f"%v{index}"
            self._step(index, name)
        self.names[index] = name
        return name

    def _step(self, index: int, name: str) -> None:
        step = self.plan.function.tape[index]
        real, width = self.real, self.width
        if step.op == "input":
            argument, element = cast("tuple[int, int]", step.value)
            self.lines += vector_at(name[1:], f"a{argument}", element * width, width)
            return
        operands = [self.value(arg) for arg in step.args]
        if step.op in _BINARY:
            self.lines.append(
                f"  {name} = {_BINARY[step.op]} {FLAGS} {real} {operands[0]}, {operands[1]}"
            )
        elif step.op == "neg":
            self.lines.append(f"  {name} = fneg {FLAGS} {real} {operands[0]}")
        elif step.op in ("sin", "cos"):
            angle, pair = step.args[0], f"{{ {real}, {real} }}"
            if angle not in self.pairs:  # sine and cosine of one angle come from one call
                self.pairs.add(angle)
                self.lines.append(
                    f"  %sc{angle} = call {pair} @sincos.{width}({real} {operands[0]})"
                )
            self.lines.append(f"  {name} = extractvalue {pair} %sc{angle}, {int(step.op == 'cos')}")
        elif step.op == "sqrt":
            self.lines.append(
                f"  {name} = call {real} @llvm.sqrt.{suffix(width)}({real} {operands[0]})"
            )
        elif step.op == "atan2":
            self.lines.append(
                f"  {name} = call {real} @atan2.{width}({real} {operands[0]}, {real} {operands[1]})"
            )
        elif step.op == "sign":
            bit, (zero, one, minus) = (
                vector(width, "i1"),
                (splat(value, width) for value in (0.0, 1.0, -1.0)),
            )
            self.lines += [
                f"  {name}.p = fcmp ogt {real} {operands[0]}, {zero}",
                f"  {name}.n = fcmp olt {real} {operands[0]}, {zero}",
                f"  {name}.s = select {bit} {name}.n, {real} {minus}, {real} {operands[0]}",
                f"  {name} = select {bit} {name}.p, {real} {one}, {real} {name}.s",
            ]

    def store(self, pointer: str, offset: int, value: str, tag: str) -> None:
        """Append a store of a whole vector at a constant offset."""
        self.lines.append(
            f"  %{tag} = getelementptr double, ptr %{pointer}, i64 {offset * self.width}"
        )
        self.lines.append(f"  store {self.real} {value}, ptr %{tag}, align {8 * self.width}")

    def results(self, index: int) -> None:
        """Store a step to every result element it is, at once: it need not stay in a register."""
        for result, position in self.plan.stores.get(index, ()):
            self.store(f"o{result}", position, self.value(index), f"s{result}.{position}")

    def constants(self, result: int, places: range, bits: str) -> None:
        """Store a constant to a row of result elements: by a loop where it is long."""
        if len(places) >= _RUN:
            begin, size = f"%s{result}.{places[0]}", len(places) * self.width
            self.lines += [
                f"  {begin} = getelementptr double, ptr %o{result}, i64 {places[0] * self.width}",
                f"  call void @same(ptr {begin}, i64 {size}, double {bits})",
            ]
            return
        outputs = self.plan.function.outputs[result]
        for position in places:
            value = self.value(outputs[position])
            self.store(f"o{result}", position, value, f"s{result}.{position}")

    def function(self, name: str, attributes: str = "", more: str = "") -> str:
        """Return the steps as a function; `more` are operands after those of all functions."""
        parameters = (self.plan.call + more).replace("ptr ", "ptr noalias ")
        head = f"define internal void @{name}({parameters}) noinline{attributes} #0 {{"
        return "\n".join([head, *self.lines, "  ret void", "}", ""])


def core_text(plan: Plan, width: int) -> str:
    """Return `@core.<width>`.

    The stack is aligned to whole vectors: values that do not fit the registers are kept there, and
    across a cache line each access would cost two (up to a third of the time, decided by the
    caller's stack).
    """
    order, aligned = schedule(plan.function), f" alignstack({max(16, 8 * width)})"
    if len(order) > WHOLE:
        return _core_in_pieces(plan, width, order, aligned)
    steps = _Steps(plan, width, once=False)
    for index in order:
        steps.value(index)
        steps.results(index)
    _store_inputs(steps)
    return steps.function(f"core.{width}", aligned)


def _store_inputs(steps: _Steps) -> None:
    """Append the stores of inputs that are outputs."""
    plan = steps.plan
    for index in plan.stores:
        if plan.function.tape[index].op == "input" and index not in plan.slots:
            steps.results(index)


def _core_in_pieces(plan: Plan, width: int, order: list[int], aligned: str) -> str:
    pieces = [order[k : k + PIECE] for k in range(0, len(order), PIECE)]
    places, room = _kept_values(plan.function.tape, pieces)
    text, more = "", ", ptr %w"
    kept: dict[int, int] = {}
    for number, piece in enumerate(pieces):
        steps = _Steps(plan, width, once=False, kept=kept)
        for index in piece:
            value = steps.value(index)
            steps.results(index)
            if index in places:
                steps.store("w", places[index], value, f"w{index}")
        if number == len(pieces) - 1:
            _store_inputs(steps)
        kept = kept | {index: places[index] for index in piece if index in places}
        text += steps.function(f"core.{width}.{number}", aligned, more)
    calls = [
        f"  call void @core.{width}.{number}({plan.call}{more})" for number in range(len(pieces))
    ]
    parameters = plan.call.replace("ptr ", "ptr noalias ")
    head = f"define internal void @core.{width}({parameters}) noinline{aligned} #0 {{"
    buffer = f"  %w = alloca {vector(width)}, i64 {room}, align {8 * width}"
    return text + joined([head, buffer, *calls, "  ret void", "}", ""])


def _kept_values(
    tape: tuple[Instruction, ...], pieces: list[list[int]]
) -> tuple[dict[int, int], int]:
    """Return places in a buffer of the values that a later piece needs, and its size.

    A place is free again in the piece after the last that needs its value.
    """
    made = {index: number for number, piece in enumerate(pieces) for index in piece}
    last: dict[int, int] = {}
    for number, piece in enumerate(pieces):
        for index in piece:
            last.update((arg, number) for arg in tape[index].args if made.get(arg, number) < number)
    places: dict[int, int] = {}
    free: list[int] = []
    room = 0
    ends: dict[int, list[int]] = {}
    for number, piece in enumerate(pieces):
        free += ends.pop(number - 1, [])
        for index in piece:
            if index in last:
                if not free:
                    free.append(room)
                    room += 1
                places[index] = free.pop()
                ends.setdefault(last[index], []).append(places[index])
    return places, max(room, 1)


def once_text(plan: Plan) -> str:
    """Return `@once`: scalar code into u."""
    steps = _Steps(plan, 1, once=True)
    for index in sorted(plan.function.uniform_steps):
        value = steps.value(index)
        if index in plan.slots:
            steps.store("u", plan.slots[index], value, f"u{plan.slots[index]}")
    return steps.function("once")


def fill_text(plan: Plan, width: int) -> str:
    """Return `@fill.<width>`: outputs that are constants or depend on uniform arguments alone.

    Long rows of one constant, such as zeros, are written by a loop.
    """
    steps = _Steps(plan, width, once=False)
    for index in plan.stores:
        if index in plan.slots:
            steps.results(index)
    for result, outputs in enumerate(plan.function.outputs):
        begin = 0
        for value, group in groupby(plan.bits_of(index) for index in outputs):
            end = begin + len(list(group))
            if value is not None:
                steps.constants(result, range(begin, end), value)
            begin = end
    return _SAME + steps.function(f"fill.{width}")


_SAME = f"""
define internal void @same(ptr %block, i64 %size, double %value) noinline #0 {{
entry:
  br label %next
next:
  %k = phi i64 [ 0, %entry ], [ %k.next, %next ]
  %p = getelementptr double, ptr %block, i64 %k
  store double %value, ptr %p, align 8
{loop_end("k", 1, "%size", "next", "done")}
done:
  ret void
}}
"""


def plan_text(plan: Plan, width: int) -> str:
    """Return `@once`, `@fill` and `@core` with what they call."""
    return (
        helper_text(plan, width) + once_text(plan) + fill_text(plan, width) + core_text(plan, width)
    )
