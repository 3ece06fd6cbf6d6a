"""Recorded functions compiled for an NVIDIA GPU and called with arrays that live there.

Compiled by NVRTC and launched through NVIDIA's `cuda-core`, which needs no CUDA toolkit. Arrays of
CuPy, PyTorch and JAX are taken and returned without copies, on the stream the caller works on;
NumPy arrays are copied there and back. Compiled code is kept in the user's cache folder, by a hash
of its text, the GPU and the compiler.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from minidyn.errors import MinidynError, ShapeError, UnknownName, WrongArgument, optional
from minidyn.graph.function import Function
from minidyn.graph.targets.cuda.source import LAYOUTS, TYPES, block_of, cuda_source

_CACHE = 1 << 28  # bytes of compiled code that are kept on disk
_STATIC = 48 << 10  # bytes of shared memory that a block may have without asking


class CudaFunction:
    """A recorded function on the GPU.

    Call it with arrays of one library, one for each argument. In the layout "rows" an array has
    shape (..., size) and a result (..., *shape); in the layout "components" the axes of a sample
    come first, (size, ...) and (*shape, ...). Each array is contiguous, and either has the common
    leading shape or is one sample for all.

    Attributes:
        function: The recorded function.
        dtype: "float64" or "float32".
        layout: "rows" or "components".
    """

    def __init__(self, function: Function, dtype: str = "float64", layout: str = "rows") -> None:
        if dtype not in TYPES:
            raise UnknownName("number type", dtype, tuple(TYPES))
        if layout not in LAYOUTS:
            raise UnknownName("layout", layout, LAYOUTS)
        self.function = function
        self.dtype = dtype
        self.layout = layout
        self._type = np.dtype(dtype)
        self._block = block_of(function, layout)
        self._codes: dict[int, Code] = {}

    def __call__(self, *arrays: Any, out: Any = None) -> Any:
        """Return the result, or a tuple of several, as arrays of the caller's library.

        `out` receives it instead.
        """
        if len(arrays) != len(self.function.arguments):
            names = ", ".join(argument.name for argument in self.function.arguments)
            raise ShapeError(
                f"{self.function.name} takes {len(self.function.arguments)} arrays ({names}), got "
                f"{len(arrays)}"
            )
        library = library_of([*arrays, *([] if out is None else [out])])
        arrays = tuple(library.take(array, self._type) for array in arrays)
        batch, single = self._batch([tuple(array.shape) for array in arrays])
        shapes = [self._placed(result.shape, batch) for result in self.function.results]
        outs = self._outs(out, shapes, library, arrays)
        number, stream, waits = stream_of(library, arrays)
        results = (
            outs
            if outs is not None
            else [library.empty(shape, self._type, arrays) for shape in shapes]
        )
        places = [library.place(array, stream) for array in (*arrays, *results)]
        self._check(places)
        self.launch(number, stream, math.prod(batch), single, [place[0] for place in places])
        if waits:
            stream.sync()
        found = tuple(library.give(result) for result in results)
        if out is not None and library is _OWN:
            for one, values in zip([out] if len(found) == 1 else out, found):
                np.copyto(one, values)
            return out
        return found[0] if len(found) == 1 else found

    def compile(self, device: int = 0) -> float:
        """Compile for a GPU, or find it compiled; return the seconds this took."""
        import time

        begin = time.perf_counter()
        self._code(device)
        return time.perf_counter() - begin

    def _placed(self, shape: tuple[int, ...], batch: tuple[int, ...]) -> tuple[int, ...]:
        return batch + shape if self.layout == "rows" else shape + batch

    def _batch(self, shapes: Sequence[tuple[int, ...]]) -> tuple[tuple[int, ...], int]:
        """Return the leading shape of the results, and which arguments are one sample for all, as
        bits.
        """
        rows, leading = self.layout == "rows", []
        for argument, shape in zip(self.function.arguments, shapes):
            expected = f"(..., {argument.size})" if rows else f"({argument.size}, ...)"
            if not shape or shape[-1 if rows else 0] != argument.size:
                raise ShapeError(
                    f"{self.function.name}: {argument.name} has shape {shape}, expected {expected}"
                )
            leading.append(shape[:-1] if rows else shape[1:])
        batch = max(leading, key=len, default=())
        single = 0
        for number, (argument, shape) in enumerate(zip(self.function.arguments, leading)):
            if shape == () and batch != ():
                single |= 1 << number
            elif shape != batch:
                texts = ", ".join(f"{a.name} {s}" for a, s in zip(self.function.arguments, leading))
                raise ShapeError(
                    f"{self.function.name}: arrays on the GPU have one batch shape, or none; got "
                    f"{texts}; expand {argument.name} first"
                )
        return batch, single

    def _outs(
        self, out: Any, shapes: list[tuple[int, ...]], library: _Library, arrays: Sequence[Any]
    ) -> Any:
        if out is None:
            return None
        outs = [out] if len(shapes) == 1 and not isinstance(out, tuple) else list(out)
        if library is _OWN:
            return None
        if not library.writes:
            raise WrongArgument(f"out: arrays of {library.name} are not written into")
        if len(outs) != len(shapes):
            raise ShapeError(f"out: expected {len(shapes)} arrays, got {len(outs)}")
        for result, shape, one in zip(self.function.results, shapes, outs):
            if tuple(one.shape) != shape:
                raise ShapeError(
                    f"out: {result.name} has shape {tuple(one.shape)}, expected {shape}"
                )
        return outs

    def _check(self, places: Sequence[Place]) -> None:
        """Raise where an array is not what the kernel reads.

        Nothing is converted or copied silently.
        """
        for number, (_, dtype, contiguous, on_gpu) in enumerate(places):
            if contiguous and on_gpu and dtype == self.dtype:
                continue
            names = [
                *(a.name for a in self.function.arguments),
                *(r.name for r in self.function.results),
            ]
            what = f"{self.function.name}: {names[number]}"
            if not on_gpu:
                raise WrongArgument(f"{what} is not on a GPU")
            if dtype != self.dtype:
                raise WrongArgument(
                    f"{what} has dtype {dtype}, this kernel computes in {self.dtype}"
                )
            raise WrongArgument(f"{what} is not contiguous; make it so, it is not copied here")

    def launch(
        self, device: int, stream: Any, count: int, single: int, pointers: list[int]
    ) -> None:
        """Queue it for arrays at these addresses, arguments and then results.

        `single` as in the printed text.
        """
        if count == 0 or not any(result.size for result in self.function.results):
            return
        code = self._codes.get(device) or self._code(device)
        code.launch(
            stream,
            -(-count // self._block),
            self._block,
            np.int64(count),
            np.uint32(single),
            *pointers,
        )

    def _code(self, device: int) -> Code:
        text = cuda_source(self.function, dtype=self.dtype, layout=self.layout, split=False)
        return self._codes.setdefault(device, Code(text, _entry(text), device))

    def __reduce__(self) -> tuple[Any, ...]:
        return CudaFunction, (self.function, self.dtype, self.layout)


def _entry(text: str) -> str:
    return text.split("__launch_bounds__(", 1)[1].split(") ", 1)[1].split("(", 1)[0]


class Code:
    """A kernel of a text, compiled for one GPU or found compiled.

    Attributes:
        processors: Multiprocessors of the GPU.
    """

    def __init__(self, text: str, entry: str, device: int, shared: int = 0) -> None:
        core, utils, on = _core(), optional("cuda.core.utils"), _device(device)
        options = core.ProgramOptions(std="c++17", arch=f"sm_{on.arch}")
        cache = utils.FileStreamProgramCache(max_size_bytes=_CACHE)
        code = core.Program(text, code_type="c++", options=options).compile("cubin", cache=cache)
        self.processors = int(on.properties.multiprocessor_count)
        self._kernel, self._shared = code.get_kernel(entry), shared
        if shared > _STATIC:
            driver = optional("cuda.bindings.driver")
            what = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            (failed,) = driver.cuKernelSetAttribute(what, shared, int(self._kernel.handle), device)
            if int(failed):
                raise MinidynError(
                    f"this GPU has no {shared} bytes of shared memory for a block: {failed!r}"
                )

    def launch(self, stream: Any, grid: int, block: int, *arguments: Any) -> None:
        """Queue it on a stream; addresses are plain integers."""
        core = _core()
        config = core.LaunchConfig(grid=grid, block=block, shmem_size=self._shared)
        core.launch(stream, config, self._kernel, *arguments)


DEVICES = ("cuda",)
"""What computes instead of the processor, as `device=` takes it."""


def require_device(device: str) -> None:
    """Raise where a device has another name, or is not there: before long work."""
    if device not in DEVICES:
        raise UnknownName("device", device, DEVICES)
    _device(0)


def _contiguous(shape: Sequence[int], strides: Sequence[int]) -> bool:
    step = 1
    if 0 in shape:
        return True
    for size, stride in zip(reversed(shape), reversed(strides)):
        if size != 1 and stride != step:
            return False
        step *= size
    return True


def _device(number: int) -> Any:
    core = _core()
    try:
        device = core.Device(number)
        device.set_current()
    except Exception as error:
        raise MinidynError(f"no NVIDIA GPU can be used here: {error}") from error
    return device


@functools.cache
def _core() -> Any:
    return optional("cuda.core")


@functools.lru_cache(maxsize=64)
def _stream(handle: int) -> Any:
    return _core().Stream.from_handle(
        handle or 1
    )  # 0 is the legacy default stream, whose own number is 1


Place = tuple[int, str, bool, bool]
"""Where an array lies.

Its address, the name of its number type, whether it is contiguous, whether it is on a GPU.
"""


@dataclass(frozen=True)
class _Library:
    """How a library's arrays are taken, made and ordered in time."""

    name: str
    take: Callable[
        [Any, np.dtype[Any]], Any
    ]  # an array as one on the GPU, contiguous where it had to be copied
    empty: Callable[[tuple[int, ...], np.dtype[Any], Sequence[Any]], Any]
    give: Callable[[Any], Any]
    stream: Callable[
        [Sequence[Any]], tuple[int, int | None]
    ]  # device number, and the caller's stream; None: our own
    place: Callable[
        [Any, Any], Place
    ]  # of an array, once the work that makes it is waited for by a stream
    writes: bool = True


def stream_of_own() -> Any:
    """Return the stream on which our own memory of the first GPU is used."""
    return _own_stream(0)


@functools.cache
def _own_stream(device: int) -> Any:
    return _device(device).create_stream()


def stream_of(library: _Library, arrays: Sequence[Any]) -> tuple[int, Any, bool]:
    """Return the number of the GPU, the stream to queue on, and whether the caller expects to find
    the work done.
    """
    number, handle = library.stream(arrays)
    return number, _own_stream(number) if handle is None else _stream(handle), handle is None


def library_of(arrays: Sequence[Any]) -> _Library:
    """Return the library that arrays are of; NumPy arrays and numbers may stand among those of
    another.
    """
    found = {type(array).__module__.partition(".")[0] for array in arrays} - {"numpy", "builtins"}
    found = {"jax" if name == "jaxlib" else name for name in found}
    if not found:
        return _OWN
    name = found.pop()
    if found or name not in _LIBRARIES:
        known = ", ".join(("numpy", *_LIBRARIES))
        raise WrongArgument(
            f"expected arrays of one library ({known}), got {', '.join(sorted({name, *found}))}"
        )
    return _LIBRARIES[name]()


def _own_buffer(shape: tuple[int, ...], dtype: np.dtype[Any], device: int) -> Any:
    """Return memory of our own as a view that other libraries take."""
    size = max(1, math.prod(shape)) * dtype.itemsize
    buffer = _device(device).allocate(size, stream=_own_stream(device))
    return optional("cuda.core.utils").StridedMemoryView.from_buffer(buffer, shape, dtype=dtype)


def empty_array(shape: tuple[int, ...]) -> Any:
    """Return memory of our own for float64 numbers on the first GPU.

    `ptr`, `shape`, and other libraries take it.
    """
    return _own_buffer(shape, np.dtype(np.float64), 0)


def free_memory() -> int:
    """Return the bytes of the first GPU that are free."""
    _device(0)
    failed, free, _ = optional("cuda.bindings.driver").cuMemGetInfo()
    return 0 if int(failed) else int(free)


def upload(array: ArrayLike, dtype: np.dtype[Any] = np.dtype(np.float64)) -> Any:  # noqa: B008
    """Return a copy of a NumPy array in memory of our own."""
    values = np.ascontiguousarray(array, dtype=dtype)
    view = _own_buffer(values.shape, dtype, 0)
    _copy("cuMemcpyHtoDAsync", view.ptr, values.ctypes.data, values.nbytes)
    return view


def download(view: Any, row: int | None = None) -> Any:
    """Return a copy of memory of our own, or of one row of it, as a NumPy array."""
    values = np.empty(view.shape if row is None else view.shape[1:], dtype=view.dtype)
    _copy(
        "cuMemcpyDtoHAsync",
        values.ctypes.data,
        view.ptr + (row or 0) * values.nbytes,
        values.nbytes,
    )
    return values


def _copy(how: str, target: int, source: int, size: int) -> None:
    stream = _own_stream(0)
    if size:
        (code,) = getattr(optional("cuda.bindings.driver"), how)(
            target, source, size, int(stream.handle)
        )
        if int(code):
            raise MinidynError(f"{size} bytes could not be copied between memory and GPU: {code!r}")
    stream.sync()


def _view_place(array: Any, stream: Any) -> Place:
    """Return where an array lies that speaks DLPack."""
    view = optional("cuda.core.utils").StridedMemoryView.from_any_interface(
        array, stream_ptr=int(stream.handle)
    )
    contiguous = view.strides is None or _contiguous(view.shape, view.strides)
    return view.ptr, str(view.dtype), contiguous, bool(view.is_device_accessible)


def _no_tracers(array: Any, dtype: np.dtype[Any]) -> Any:
    import jax

    if isinstance(array, jax.core.Tracer):
        raise WrongArgument("inside jax.jit, grad and vmap use kernel.jax(), which JAX traces")
    return jax.numpy.asarray(array, dtype=dtype) if isinstance(array, np.ndarray) else array


def _jax_device(arrays: Sequence[Any]) -> int:
    device = next(iter(arrays[0].devices())) if arrays else None
    return 0 if device is None else int(getattr(device, "local_hardware_id", 0) or 0)


def _torch() -> _Library:
    import torch

    def device(arrays: Sequence[Any]) -> Any:
        found = next((a.device for a in arrays if isinstance(a, torch.Tensor) and a.is_cuda), None)
        if found is None:
            raise WrongArgument(
                "PyTorch tensors on a GPU are expected: tensor.cuda() copies one there"
            )
        return found

    def take(array: Any, dtype: np.dtype[Any]) -> Any:
        if isinstance(array, torch.Tensor):
            return array.detach()
        return torch.as_tensor(np.asarray(array, dtype=dtype), device="cuda")

    return _Library(
        "PyTorch",
        take,
        lambda shape, dtype, arrays: torch.empty(
            shape, dtype=getattr(torch, dtype.name), device=device(arrays)
        ),
        lambda result: result,
        lambda arrays: (
            device(arrays).index or 0,
            int(torch.cuda.current_stream(device(arrays)).cuda_stream),
        ),
        lambda array, _: (
            array.data_ptr(),
            str(array.dtype)[6:],
            array.is_contiguous(),
            array.is_cuda,
        ),  # torch.TYPE
    )


def _cupy() -> _Library:
    import cupy

    return _Library(
        "CuPy",
        lambda array, dtype: (
            array if isinstance(array, cupy.ndarray) else cupy.asarray(array, dtype=dtype)
        ),
        lambda shape, dtype, _: cupy.empty(shape, dtype=dtype),
        lambda result: result,
        lambda arrays: (int(arrays[0].device.id), int(cupy.cuda.get_current_stream().ptr)),
        lambda array, _: (
            int(array.data.ptr),
            array.dtype.name,
            bool(array.flags.c_contiguous),
            True,
        ),
    )


def _jax() -> _Library:
    import jax

    return _Library(
        "JAX",
        _no_tracers,
        lambda shape, dtype, arrays: _own_buffer(shape, dtype, _jax_device(arrays)),
        jax.dlpack.from_dlpack,
        lambda arrays: (_jax_device(arrays), None),
        _view_place,
        writes=False,
    )


_OWN = _Library(
    "NumPy",
    upload,
    lambda shape, dtype, _: _own_buffer(shape, dtype, 0),
    download,
    lambda _: (0, None),
    lambda view, _: (view.ptr, str(view.dtype), True, True),
    writes=False,
)
_LIBRARIES = {
    "cupy": functools.cache(_cupy),
    "torch": functools.cache(_torch),
    "jax": functools.cache(_jax),
}
