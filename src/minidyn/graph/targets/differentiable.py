"""Recorded functions that PyTorch and JAX differentiate.

PyTorch: the function and its gradient are two compiled programs; the gradient is recorded in
reverse mode by :func:`minidyn.graph.derivative.vjp`. JAX: the steps of the program are traced by
JAX itself, so that `jit`, `grad` and `vmap` see through them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from minidyn.graph.derivative import vjp
from minidyn.graph.function import ARITHMETIC, Function, batch_shape, run_tape
from minidyn.graph.targets.native.kernel import compile_function

Run = Callable[..., Any]
"""A compiled function of tensors."""


def torch_function(
    function: Function, compiled: Callable[[Function], Run], rows: bool = True
) -> Callable[..., Any]:
    """Return a function of PyTorch tensors with gradients with respect to all of them.

    `compiled` makes a function of tensors from a recorded one; `rows` says that the axes of a
    sample come last. First derivatives only. Tensors that are one sample for all get the sum of the
    gradients of all samples.
    """
    import torch

    arguments, results = function.arguments, function.results
    run = compiled(function)

    @functools.cache
    def gradient(wrt: tuple[str, ...]) -> Run:
        return compiled(vjp(function, wrt))

    def leading(tensor: Any) -> tuple[int, ...]:
        return tuple(tensor.shape[:-1] if rows else tensor.shape[1:])

    def flat(weight: Any, shape: tuple[int, ...]) -> Any:
        """Return the weights of a result with all axes of a sample in one."""
        batch = weight.shape[: weight.ndim - len(shape)] if rows else weight.shape[len(shape) :]
        return weight.reshape((*batch, -1) if rows else (-1, *batch)).contiguous()

    def whole(tensor: Any, like: Any) -> Any:
        """Return the gradient of one sample for all as the sum over samples."""
        extra = tensor.ndim - like.ndim
        axes = range(extra) if rows else range(1, 1 + extra)
        return tensor.sum(dim=tuple(axes)) if extra else tensor

    class Recorded(torch.autograd.Function):  # type: ignore[misc]
        """The function, and what PyTorch asks of it."""

        @staticmethod
        def forward(*tensors: Any) -> Any:
            return run(*tensors)

        @staticmethod
        def setup_context(ctx: Any, inputs: Sequence[Any], output: Any) -> None:
            ctx.save_for_backward(*inputs)

        @staticmethod
        @torch.autograd.function.once_differentiable  # type: ignore[untyped-decorator]
        def backward(ctx: Any, *weights: Any) -> Any:
            saved = ctx.saved_tensors
            wanted = [k for k, needed in enumerate(ctx.needs_input_grad) if needed]
            given = [flat(weight, result.shape) for weight, result in zip(weights, results)]
            found = gradient(tuple(arguments[k].name for k in wanted))(*saved, *given)
            each = iter(found if isinstance(found, tuple) else (found,))
            return tuple(
                whole(next(each), saved[k]) if k in wanted else None for k in range(len(saved))
            )

        @staticmethod
        def vmap(info: Any, in_dims: Sequence[int | None], *tensors: Any) -> tuple[Any, Any]:
            at = 0 if rows else 1
            moved = []
            for tensor, axis in zip(tensors, in_dims):
                if axis is not None:
                    moved.append(tensor.movedim(axis, at).contiguous())
                elif leading(tensor):
                    expanded = list(tensor.shape)
                    expanded.insert(at, info.batch_size)
                    moved.append(tensor.unsqueeze(at).expand(expanded).contiguous())
                else:
                    moved.append(tensor)
            places = tuple(0 if rows else len(result.shape) for result in results)
            return Recorded.apply(*moved), places[0] if len(places) == 1 else places

    def call(*tensors: Any) -> Any:
        return Recorded.apply(*tensors)

    return call


def jax_function(function: Function) -> Callable[..., Any]:
    """Return a function of JAX arrays (..., size) whose steps JAX traces.

    It computes in their precision.
    """
    import jax.numpy as jnp

    table = (
        ARITHMETIC
        | {op: getattr(jnp, op) for op in ("sqrt", "sin", "cos", "sign")}
        | {"atan2": jnp.arctan2}
    )

    def call(*inputs: Any) -> Any:
        arrays = [
            jnp.asarray(array, dtype=jnp.result_type(jnp.asarray(array), 1.0)) for array in inputs
        ]
        batch = batch_shape(function, [array.shape for array in arrays])
        columns = [[array[..., k] for k in range(array.shape[-1])] for array in arrays]
        found = []
        for result, scalars in zip(function.results, run_tape(function, columns, table)):
            each = [jnp.broadcast_to(jnp.asarray(value), batch) for value in scalars]
            stacked = jnp.stack(each, axis=-1) if each else jnp.zeros((*batch, 0))
            found.append(stacked.reshape(batch + result.shape))
        return found[0] if len(found) == 1 else tuple(found)

    return call


def on_processor(function: Function) -> Callable[..., Any]:
    """Return the machine code of a function for PyTorch tensors in float64 on the processor."""
    import torch

    native = compile_function(function)

    def call(*tensors: Any) -> Any:
        found = native(*[tensor.detach().numpy() for tensor in tensors])
        return (
            tuple(map(torch.as_tensor, found))
            if isinstance(found, tuple)
            else torch.as_tensor(found)
        )

    return call
