"""A recorded function for JAX: as a callable and as source text, for GPUs and for learning.

Both are plain traced arithmetic, so `jit`, `vmap` and `grad` apply. They compute in the precision of their
arguments. JAX's default is float32, which is not enough for identification; switch on `jax_enable_x64` and
pass float64. On CPU, float32 under `jit` has given wrong regressors at batches of 10,000 where float64 was
right; the tests hold float64 at that batch size to the reference evaluator.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from minidyn.errors import Unsupported
from minidyn.graph.function import Function, batch_shape, operations, run_tape
from minidyn.graph.targets.python import module_source


def jax_source(function: Function, *, comments: Iterable[object] = ()) -> str:
    """Return the text of a module that defines the function for JAX arrays.

    Args:
        function: The recorded function.
        comments: Lines for the head of the module, as the robot's name; made safe.

    Returns:
        Source text. The function takes and returns what that of
        :func:`minidyn.graph.targets.python.python_source` does.
    """
    convert = "{0} = jnp.asarray({0}, dtype=jnp.result_type(jnp.asarray({0}), 1.0))"
    return module_source(function, comments, "jax.numpy", "jnp", convert)


def jax_function(function: Function) -> Callable[..., Any]:
    """Return the function as a compiled JAX callable.

    Args:
        function: The recorded function.

    Returns:
        A callable of arrays (..., size) whose leading axes broadcast; it returns an array (..., *shape), or a
        tuple of them where the function has several results.

    Raises:
        Unsupported: Where JAX is not installed.
    """
    try:
        import jax
        import jax.numpy as jnp
    except ImportError as error:
        raise Unsupported(
            "the JAX target needs the package jax, which is not installed: pip install 'minidyn[jax]'"
        ) from error
    table = operations(jnp)

    def call(*inputs: Any) -> Any:
        arrays = [jnp.asarray(array) for array in inputs]
        arrays = [array.astype(jnp.result_type(array, 1.0)) for array in arrays]
        batch = batch_shape(function, [array.shape for array in arrays])
        columns = [[array[..., k] for k in range(array.shape[-1])] for array in arrays]
        results = []
        for result, values in zip(function.results, run_tape(function, columns, table)):
            spread = [jnp.broadcast_to(value, batch) for value in values]
            array = jnp.stack(spread, axis=-1) if spread else jnp.zeros((*batch, 0))
            results.append(array.reshape(batch + result.shape))
        return results[0] if len(results) == 1 else tuple(results)

    call.__name__ = function.name
    compiled: Callable[..., Any] = jax.jit(call)
    return compiled
