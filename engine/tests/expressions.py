"""Kernels that evaluate an expression for each element, to be compared with NumPy or exact arithmetic."""

import numpy as np

import hostcuda

INTEGERS = {
    "short": np.int16,
    "ushort": np.uint16,
    "int": np.int32,
    "uint": np.uint32,
    "ll": np.int64,
    "ull": np.uint64,
}
C_NAMES = {
    "ushort": "unsigned short",
    "uint": "unsigned int",
    "ll": "long long",
    "ull": "unsigned long long",
}
MODES = ["rn", "rz", "ru", "rd"]
ROUND = {"rn": np.rint, "rz": np.trunc, "ru": np.ceil, "rd": np.floor}


def write_kernel(name, parameters, expressions, result):
    """Return a kernel that evaluates one of the expressions, by its number, for each element.

    `parameters` are (type, name) pairs, one array each; `result` is the type of the results.
    """
    arrays = ", ".join(f"const {kind} *{p}_" for kind, p in parameters)
    reads = " ".join(f"{kind} {p} = {p}_[i];" for kind, p in parameters)
    cases = "\n".join(f"        case {i}: y[i] = {e}; break;" for i, e in enumerate(expressions))
    return f"""
extern "C" __global__ void {name}(int which, int n, {arrays}, {result} *y) {{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    {reads}
    switch (which) {{
{cases}
    }}
}}
"""


def evaluate(module, name, which, dtype, *arrays):
    """Return the results of the expression with this number in a kernel of `write_kernel`."""
    cuda, n = hostcuda.driver, arrays[0].size
    y = np.empty(n, dtype)
    grid = ((n + 127) // 128, 1)
    module.get_function(name)(
        np.int32(which),
        np.int32(n),
        *map(cuda.In, arrays),
        cuda.Out(y),
        block=(128, 1, 1),
        grid=grid,
    )
    return y
