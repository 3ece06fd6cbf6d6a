"""Values of a recorded function summed on a GPU over blocks of consecutive samples.

Only the sums leave it.
"""

from __future__ import annotations

import numpy as np

from minidyn.arrays import Array
from minidyn.graph.function import Function
from minidyn.graph.targets.cuda.kernel import (
    Code,
    CudaFunction,
    download,
    empty_array,
    stream_of_own,
    upload,
)

SUMS = """
typedef double md_real;

extern "C" __global__ void __launch_bounds__(128) md_sum(
    long long count, long long size, long long length, const md_real *__restrict__ rows, md_real *__restrict__ sums)
{
    const long long k = (long long)blockIdx.x * 128 + threadIdx.x, block = k / size;
    const long long begin = block * length, end = begin + length < count ? begin + length : count;
    if (begin >= count) return;
    md_real total = md_real(0);
    #pragma unroll 4
    for (long long row = begin; row < end; row++)
        total += rows[row * size + k % size];
    sums[k] = total;
}
"""  # noqa: E501


class CudaSums:
    """A function of one result whose values are summed on a GPU over blocks of consecutive
    samples.
    """

    def __init__(self, function: Function) -> None:
        self.function = function
        self._values = CudaFunction(function)
        self._sum: Code | None = None

    def __call__(self, length: int, *arrays: Array) -> Array:
        """Return sums (blocks, size) over `length` samples each, the last one of what is left.

        Arrays are NumPy's. Those of uniform arguments are (size,), the others (N, size).
        """
        given = [upload(array) for array in arrays]
        single = sum(
            1 << number
            for number, argument in enumerate(self.function.arguments)
            if argument.uniform
        )
        count = max(
            array.shape[0]
            for array, argument in zip(given, self.function.arguments)
            if not argument.uniform
        )
        size, blocks = self.function.results[0].size, -(-count // length)
        values, sums = empty_array((count, size)), empty_array((blocks, size))
        stream = stream_of_own()
        self._sum = self._sum or Code(SUMS, "md_sum", 0)
        self._values.launch(0, stream, count, single, [*(array.ptr for array in given), values.ptr])
        numbers = (np.int64(count), np.int64(size), np.int64(length))
        self._sum.launch(stream, -(-blocks * size // 128), 128, *numbers, values.ptr, sums.ptr)
        return np.asarray(download(sums))
