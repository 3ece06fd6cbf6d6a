"""A robot's function compiled for this machine.

What `md.compile` returns, and how plain calls find or make one.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from minidyn.arrays import Array, unmasked
from minidyn.dynamics.drives import memory_columns
from minidyn.dynamics.papers.sixteen import sixteen_layout
from minidyn.dynamics.record import WHAT, record, require_formulas, without_unknowns
from minidyn.dynamics.sources import function_source, notes_of
from minidyn.errors import MinidynError, NotEquivalent, ShapeError, UnknownName, WrongArgument
from minidyn.graph.function import Function, evaluate_in_blocks, packed_results
from minidyn.graph.targets.cuda.kernel import CudaFunction
from minidyn.graph.targets.differentiable import jax_function, on_processor, torch_function
from minidyn.graph.targets.native.builtin import called_by
from minidyn.graph.targets.native.host import linked
from minidyn.graph.targets.native.kernel import (
    Recent,
    check_out,
    compile_function,
    is_compiled,
    take_argument,
)
from minidyn.model.robot import Robot, require_fixed_base


class BaseColumns(Protocol):
    """What a base regressor needs of a base-parameter map.

    Which standard columns it keeps, and how it mixes them.
    """

    @property
    def kept(self) -> tuple[str, ...]:
        """Names such as "ZZ1"."""

    @property
    def unmixing(self) -> NDArray[np.float64] | None:
        """Matrix (b, b) from base parameters to kept ones, where the map mixes them.

        None: they are the same.
        """


@runtime_checkable
class BaseValues(BaseColumns, Protocol):
    """What dynamics from base parameters need of a map.

    The way there, and a full vector that has them.
    """

    def values(self, phi: ArrayLike | None = None) -> NDArray[np.float64]:
        """Base parameters (b,) of standard ones (p,)."""

    def lift(self, beta: ArrayLike) -> NDArray[np.float64]:
        """Standard parameters (p,) that have base parameters (b,)."""


class Kernel:
    """A compiled function of one robot.

    Call it with float64 arrays, one for each of `arguments`, shape (..., n); leading shapes
    broadcast. `out=` writes into an existing array. On a GPU it takes and returns arrays that live
    there (docs/gpu.md).

    Attributes:
        robot: The robot.
        what: Which function.
        function: The recorded program.
        threads: Threads that large batches are split over.
        cuda: The function on an NVIDIA GPU; None where it is machine code of the processor.
        base: The base map whose parameters the function reads; None where it reads standard ones,
            or none.
    """

    def __init__(
        self,
        robot: Robot,
        what: str,
        function: Function,
        threads: int = 1,
        cuda: CudaFunction | None = None,
        base: BaseColumns | None = None,
    ) -> None:
        self.robot = robot
        self.what = what
        self.function = function
        self.threads = threads
        self.cuda = cuda
        self.base = base
        if cuda is not None:
            self.__class__ = called_by(Kernel, cuda)
            return
        self._native = compile_function(function)
        self._small = self._native.splits_from * min(
            (a.size for a in function.arguments if not a.uniform), default=0
        )
        if threads == 1 and self._native.fast is not self._native.general:
            self.__class__ = called_by(Kernel, self._native.fast)

    def __call__(self, *arrays: ArrayLike, out: Any = None, threads: int | None = None) -> Any:
        """Compute one sample or a batch; see the class. `threads` None: the kernel's own number."""
        if threads is None:
            if arrays and type(arrays[0]) is np.ndarray and arrays[0].size < self._small:
                return self._native.fast(*arrays, out=out)  # too small to split
            threads = self.threads
        return self._native.general(*arrays, out=out, threads=threads)

    @property
    def arguments(self) -> tuple[str, ...]:
        """Names of the arguments, in call order."""
        return tuple(argument.name for argument in self.function.arguments)

    @property
    def counts(self) -> dict[str, int]:
        """Operations for one sample: mul, add, div, sincos (pairs), sqrt, other."""
        return dict(self.function.counts)

    def source(self, target: str = "c") -> str:
        """Return the function as text in one of `sources.TARGETS`.

        "c" (complete in itself), "h", "python", ... Where it takes parameters, what depends on them
        alone stands in NAME_prepare and the rest, which has exactly the operations of `counts`, in
        NAME_prepared; NAME calls both.
        """
        if target == "llvm":
            return linked(compile_function(self.function).llvm_ir)
        notes = notes_of(self.function, self.base)
        if target == "cuda" and self.cuda is not None:
            options = {"dtype": self.cuda.dtype, "layout": self.cuda.layout}
            return function_source(self.robot, self.function, target, notes, **options)
        return function_source(self.robot, self.function, target, notes)

    def torch(self) -> Callable[..., Any]:
        """Return the function for PyTorch tensors, with gradients by compiled programs of their own
        (docs/gpu.md).

        Tensors live where the kernel runs: on the GPU, or in float64 on the processor.
        `torch.func.vmap` works; second derivatives do not.
        """
        cuda = self.cuda
        if cuda is not None:
            return torch_function(
                self.function,
                lambda f: CudaFunction(f, cuda.dtype, cuda.layout),
                cuda.layout == "rows",
            )
        return torch_function(self.function, on_processor)

    def jax(self) -> Callable[..., Any]:
        """Return the function for JAX arrays (..., n), traced step by step.

        `jit`, `grad` and `vmap` see through it.
        """
        return jax_function(self.function)

    def __reduce__(self) -> tuple[Any, ...]:
        """Copies and other processes compile the recorded program again, or find it compiled."""
        return Kernel, (self.robot, self.what, self.function, self.threads, self.cuda, self.base)

    def __repr__(self) -> str:
        counts = self.counts
        return (
            f"Kernel({self.what} of {self.robot.name!r}: {counts['mul']} mul, {counts['add']} add)"
        )


def check_parameters(robot: Robot, parameters: ArrayLike) -> NDArray[np.float64]:
    """Return standard parameters as an array (p,).

    NaN (unknown) may stand in it, infinity may not.
    """
    values = np.asarray(unmasked(parameters, "parameters"))
    if values.dtype.kind not in "fiub":
        raise ShapeError(f"parameters: dtype {values.dtype}, expected real numbers")
    if values.shape != (len(robot.layout),):
        raise ShapeError(
            f"parameters: expected shape ({len(robot.layout)},) in the order of "
            f"robot.parameter_names, got {values.shape}"
        )
    if np.isinf(values).any():
        name = robot.layout.names[int(np.argmax(np.isinf(values)))]
        raise MinidynError(
            f"parameter {name} is infinite; give a number, or NaN where it is unknown"
        )
    return values.astype(float)


def require_robot(robot: object, what: str, *, free_base: bool = False) -> None:
    """Raise where something else stands in a robot's place, or one with a base that is free.

    Callers that know a free base say so.
    """
    if isinstance(robot, Robot):
        if not free_base:
            require_fixed_base(robot, what)
        return
    if isinstance(robot, str | os.PathLike):
        raise WrongArgument(
            f"{what}: expected a Robot, got {robot!r}; md.load({robot!r}) loads one"
        )
    kind = "None" if robot is None else f"a value of type {type(robot).__name__}"
    order = (
        "; the robot comes before the arrays"
        if isinstance(robot, np.ndarray | list | tuple)
        else ""
    )
    raise WrongArgument(f"{what}: expected a Robot, got {kind}{order}; md.load(name) loads one")


NEEDED = {
    "inertia_matrix": "inertia",
    "coriolis_matrix": "inertia",
    "gravity_torque": "gravity",
    "energy": "energy",
    "energy_regressor": "energy",
}
"""What a base map must determine for a function, where that is not the torques."""

_NEEDS = {
    "torque": "torques",
    "gravity": "gravity torques",
    "inertia": "inertia matrix",
    "energy": "energy",
}


def require_whole(base: object, what: str, need: str = "torque") -> None:
    """Raise where a base map does not determine what is needed."""
    lacks = getattr(base, "lacks", None)
    reason = lacks(need) if lacks else ""
    if reason:
        wanted = (
            "md.base_parameters(robot)"
            if need == "torque"
            else f'md.base_parameters(robot, model="{need}")'
        )
        raise NotEquivalent(
            f"{what}: this base map does not determine the {_NEEDS[need]}: {reason}; use {wanted}"
        )


def require_own(robot: Robot, base: BaseColumns | None, what: str, need: str = "torque") -> None:
    """Raise where a base map does not determine what is needed, or belongs to a robot that is built
    otherwise.
    """
    require_whole(base, what, need)
    owner = getattr(base, "robot", None)
    if owner is robot:
        return
    require_robot(robot, what, free_base=True)
    if isinstance(owner, Robot) and owner.structure_fingerprint != robot.structure_fingerprint:
        raise MinidynError(
            f"{what}: base is of robot {owner.name!r}, which is not built like {robot.name!r} "
            "(geometry, gravity, joints or drives differ); find it again with md.base_parameters"
        )


_COMPILED = ("native", "cuda")
_FUNCTIONS: Recent[tuple[object, ...], Function] = Recent(512)


def function_of(
    robot: Robot,
    what: str,
    *,
    parameters: ArrayLike | str | None = None,
    base: BaseColumns | None = None,
    link: str | int | None = None,
    memory: bool = False,
) -> Function:
    """Return the recorded program of a robot's function, with `memory` of the states of its drives.

    If any, too.
    """
    require_robot(robot, str(what), free_base=True)
    require_formulas(
        robot,
        "a kernel needs them as functions of the active joints: give formulas in the robot's "
        "file, or compile robot.open_loops()",
    )
    values: NDArray[np.float64] | str = robot.parameters
    if isinstance(parameters, str):
        if parameters != "argument":
            raise UnknownName("way to give parameters", parameters, ("argument",))
        values = parameters
    elif parameters is not None and base is None:
        values = check_parameters(robot, parameters)
    wanted = WHAT.get(what) if isinstance(what, str) else None
    columns: Sequence[int] | None = None
    combine: NDArray[np.float64] | None = None
    if wanted is not None and base is not None and not (wanted.columns or wanted.subset):
        if not wanted.parameters or not isinstance(base, BaseValues):
            raise MinidynError(
                f"{what} takes no base="
                if not wanted.parameters
                else f"{what}: base is no base map"
            )
        if isinstance(values, str):
            columns, combine = robot.layout.indices(base.kept), base.unmixing
        else:
            values = base.lift(base.values(robot.parameters) if parameters is None else parameters)
    elif wanted is not None and (wanted.columns or (wanted.subset and base is not None)):
        if base is None:
            raise MinidynError(f"{what} needs base=: the result of md.base_parameters(robot)")
        if not hasattr(base, "kept"):
            raise MinidynError(
                f"{what}: base is {type(base).__name__}; expected the result of "
                "md.base_parameters(robot)"
            )
        columns = (sixteen_layout(robot) if wanted.sixteen else robot.layout).indices(base.kept)
        combine = base.unmixing
    reads = wanted is None or wanted.reads(robot)
    memory = memory and bool(memory_columns(robot))
    if link is not None and wanted is not None and not wanted.link:
        raise MinidynError(f"{what} is of the whole robot; it takes no link, got {link!r}")
    frame = robot.find_frame(link) if wanted is not None and wanted.link else None
    key = (
        robot.structure_fingerprint,
        what if isinstance(what, str) else repr(what),
        (values if isinstance(values, str) else values.tobytes()) if reads else None,
        None if columns is None else tuple(columns),
        None if combine is None else combine.tobytes(),
        frame,
        memory,
    )
    function = _FUNCTIONS.get(key)
    if function is None:
        function = record(
            robot,
            what,
            parameters=values,
            columns=columns,
            combine=combine,
            link=link,
            memory=memory,
        )
        _FUNCTIONS[key] = function
    return function


def compile_kernel(
    robot: Robot,
    what: str,
    *,
    parameters: ArrayLike | str | None = None,
    base: BaseColumns | None = None,
    threads: int = 1,
    link: str | int | None = None,
    target: str = "native",
    dtype: str = "float64",
    layout: str = "rows",
    packed: bool = False,
    memory: bool = False,
) -> Kernel:
    """Compile one of the robot's functions by its standard recursion.

    Arguments are those of `md.compile`.
    """
    require_own(robot, base, what, NEEDED.get(what, "torque"))
    function = function_of(robot, what, parameters=parameters, base=base, link=link, memory=memory)
    return kernel_of(robot, what, function, base, threads, target, dtype, layout, packed)


def kernel_of(
    robot: Robot,
    what: str,
    function: Function,
    base: BaseColumns | None,
    threads: int,
    target: str,
    dtype: str,
    layout: str,
    packed: bool,
) -> Kernel:
    """Compile a recorded function of a robot; arguments are those of `md.compile`."""
    if target not in _COMPILED:
        raise UnknownName("target", target, _COMPILED)
    if target == "native" and (dtype, layout) != ("float64", "rows"):
        raise WrongArgument(
            'dtype and layout are for target="cuda"; machine code takes float64 arrays (..., n)'
        )
    if not isinstance(threads, int) or isinstance(threads, bool) or threads < 1:
        raise MinidynError(f"threads: expected a whole number from 1, got {threads!r}")
    if packed:
        function = packed_results(function)
    if target == "cuda":
        if threads != 1:
            raise WrongArgument("threads: a kernel on the GPU has none")
        return Kernel(robot, what, function, cuda=CudaFunction(function, dtype, layout), base=base)
    return Kernel(robot, what, function, threads, base=base)


PARAMETRIZATIONS = {
    "standard": {"newton_euler": "regressor", "lagrange": "lagrange_regressor"},
    "lumeng16": {"newton_euler": "lumeng16_regressor", "lagrange": "lumeng16_lagrange_regressor"},
}
"""Name of the robot's function for each parametrization and form."""

FORMS = tuple(PARAMETRIZATIONS["standard"])


@dataclass(frozen=True)
class Chosen:
    """Some columns by name, as they are: what a base map is to a base regressor."""

    kept: tuple[str, ...]
    unmixing: NDArray[np.float64] | None = None


def regressor_form(parametrization: str, form: str) -> str:
    """Return the name of the robot's function that computes a regressor in this form."""
    if parametrization not in PARAMETRIZATIONS:
        raise UnknownName("parametrization", parametrization, PARAMETRIZATIONS)
    if form not in FORMS:
        raise UnknownName("form of the regressor", form, FORMS)
    return PARAMETRIZATIONS[parametrization][form]


EAGER_SAMPLES = 200  # run this many samples of a function on NumPy before machine code pays
LARGE = 8_000  # steps of a function from which compiling takes half a second and more
_CALL = 170  # samples that would take NumPy as long as starting its operations for one call
_SEEN: Recent[str, int] = Recent(10_000)  # samples run on NumPy, by function
READY: Recent[int, dict[tuple[str, str | int | None], Callable[..., Any]]] = Recent(256)
"""Machine code at hand: by the identity of a living robot, by function and link."""


def run(
    robot: Robot,
    what: str,
    arrays: tuple[ArrayLike, ...],
    parameters: ArrayLike | None,
    out: Any,
    base: BaseColumns | None = None,
    link: str | int | None = None,
    memory: ArrayLike | None = None,
) -> Any:
    """Compute a function of a robot without implicit loops; parameters None: its own values.

    Memory None: none.
    """
    remembers = memory is not None and bool(memory_columns(robot))
    arrays = (*arrays, memory) if remembers else arrays  # type: ignore[arg-type]
    if parameters is None:
        function = function_of(robot, what, base=base, link=link, memory=remembers)
        # quaternions of a free base are checked at every call
        is_plain = base is None and not remembers and not robot.free_base
        return run_function(function, arrays, out, robot if is_plain else None, link)
    values = without_unknowns(robot, what, check_parameters(robot, parameters))
    return run_function(
        function_of(robot, what, parameters="argument", memory=remembers), (*arrays, values), out
    )


def run_function(
    function: Function,
    arrays: tuple[ArrayLike, ...],
    out: Any,
    robot: Robot | None = None,
    link: str | int | None = None,
    *,
    steps: int = LARGE,
    patience: int | None = None,
) -> Any:
    """Run on NumPy the first few small calls of a function, on machine code from then on.

    Given the robot, the machine code is remembered for it, so that later calls find it at once.

    Large functions run on NumPy longer: a step costs about 6 ns a sample there and 75 µs to
    compile, more in larger functions. Machine code pays when as much time has gone into NumPy as
    compiling takes: `patience` is how many samples of a large function (from `steps` steps on) go
    through NumPy; None: by its size.
    """
    large = len(function.tape) >= steps
    if not large:
        patience = EAGER_SAMPLES
    elif patience is None:
        patience = int(12_500 * (1.0 + len(function.tape) / 40_000))
    seen = _SEEN.get(function.fingerprint, 0)
    if seen < patience and (not is_compiled(function) if large else out is None):
        real = [
            take_argument(value, argument, function.name)
            for value, argument in zip(arrays, function.arguments)
        ]
        count = max(1, real[0].size // real[0].shape[-1])
        _SEEN[function.fingerprint] = seen + (
            count + _CALL if large else max(count, EAGER_SAMPLES // 10)
        )
        if count < patience:
            return _on_numpy(function, real, out)
    native = compile_function(function)
    if robot is not None:
        key = id(robot)
        if key not in READY:  # the entry holds what removes it when the robot goes
            READY[key] = {("", None): weakref.ref(robot, lambda _: READY.pop(key, None))}
        READY[key][function.name, link] = native.fast
    return native(*arrays, out=out)


def _on_numpy(function: Function, arrays: list[Array], out: Any) -> Any:
    found = evaluate_in_blocks(function, *arrays)
    if out is None:
        return found
    parts = found if isinstance(found, tuple) else (found,)
    batch = parts[0].shape[: parts[0].ndim - len(function.results[0].shape)]
    targets = check_out(out, function.results, batch, function.name)
    for target, part in zip(targets, parts):
        target[...] = part
    return tuple(targets) if isinstance(out, list | tuple) or len(targets) != 1 else targets[0]
