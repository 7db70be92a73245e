"""Make four cheats from any exercise, which meet goals without the work: `labkit.exercises.trial` tries them.

If a cheat succeeds, inputs can be known, or a goal is met by doing nothing.
"""

import re
from collections.abc import Iterable, Iterator

import numpy as np

from hostcuda.source import code_only
from labkit.exercises.exercise import SOURCE_CHARACTERS, Exercise
from labkit.exercises.subjects import Kernels, Output

CHEATS = ("stored answers", "no load", "all by one thread", "atomics for loads")
STORED, GRADED = "seed of stored results", "seed of the grading"
# A kernel's head; groups: name, parameters. `code_only` blanks strings, so extern "C" is extern " "
# here.
_KERNEL = re.compile(r"""(?:extern\s*"\s*"\s*)?__global__\s+void\s+(\w+)\s*\(([^()]*)\)\s*\{""")
# What threads of a block or a warp use to work together.
_WORK_TOGETHER = re.compile(
    r"__shared__|__sync|__shfl|__ballot|\basm\b|mma|\bbarrier\b|cooperative_groups"
)
_TYPES = {
    "float32": "float",
    "float64": "double",
    "int32": "int",
    "uint32": "unsigned",
    "uint8": "unsigned char",
}
# A thread's number in the whole grid, and the number of all threads, in C++.
_THREAD = (
    "((((blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x) * blockDim.z + threadIdx.z) * blockDim.y"
    " + threadIdx.y) * blockDim.x + threadIdx.x"
)
_THREADS = "gridDim.x * gridDim.y * gridDim.z * blockDim.x * blockDim.y * blockDim.z"


def make_cheats(exercise: Exercise, right: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield (name, source) of kernels that get around what an exercise teaches, to test that its goals refuse them.

    `right` are sources of kernels with right results, the solution first: the cheats are made from
    them.
    """
    right = list(dict.fromkeys(right))
    # only of `Kernels`, whose launches hold the expected results: the cheats have them in their code
    if isinstance(exercise.subject, Kernels):
        yield from _store_answers(exercise, right[0])
    # one is enough
    yield from [
        ("all by one thread", text) for source in right if (text := _use_one_thread(source))
    ][:1]
    # Two at most, and not from the solution, which may meet the goals with atomics, too.
    yield from [
        ("atomics for loads", text)
        for source in right[1:]
        if (text := _load_by_atomics(source)) != source
    ][:2]


def _find_head(source: str) -> re.Match | None:
    """Return the match of `_KERNEL` for the head of a source's only kernel; None if it has no kernel or several."""
    heads = list(_KERNEL.finditer(code_only(source)))
    return heads[0] if len(heads) == 1 else None


def _wrap_in_function(source: str, head: re.Match, more_parameters: str = "") -> str:
    """Return the source with its kernel as a __device__ function `honest`, followed by the kernel's head up to its {.

    `more_parameters` begins with a comma. The caller appends the kernel's new body.
    """
    function = f"{source[: head.start()]}__device__ void honest({head[2]}{more_parameters})\n{{{source[head.end() :]}\n"
    return f"{function}#undef threadIdx\n#undef blockIdx\n{source[head.start() : head.end()]}\n"


def _parameter_names(parameters: str) -> list[str]:
    """Return the names in a C++ parameter list, "const float *x, int n"; "0" for a parameter without a name."""
    return [
        words[-1] if len(words := re.findall(r"\w+", declaration)) > 1 else "0"
        for declaration in parameters.split(",")
    ]


def _store_answers(exercise: Exercise, honest: str) -> Iterator[tuple[str, str]]:
    """Yield (name, source) of kernels that hold the counted shape's results in a table, or as stores without a load.

    On other shapes they run the `honest` kernel. The results are of another seed than the
    grading's: they are right only if the inputs do not depend on the seed.
    """
    subject, head = exercise.with_seed(STORED).subject, _find_head(honest)
    launches = subject.make_launches(next(case for case in subject.cases if case.counted))
    if len(launches) > 1 or not head:
        return
    # The parameters' names in the source; a name that occurs twice, such as "0", leaves fewer than
    # there are arguments.
    arguments = dict(zip(names := _parameter_names(head[2]), launches[0].arguments, strict=False))
    outputs = {
        name: argument.expected.ravel()
        for name, argument in arguments.items()
        if isinstance(argument, Output)
    }
    # Parameters without a name, or elements without a literal in C++: no such cheat.
    if len(arguments) < len(launches[0].arguments) or {
        output.dtype.name for output in outputs.values()
    } - {*_TYPES}:
        return
    tests = [
        f"gridDim.x == {launches[0].grid[0]}",  # of the counted shape
        *(
            f"{name} == {value}"
            for name, value in arguments.items()
            if isinstance(value, int) and name != "0"
        ),
    ]
    tables, copies, stores = _write_results(outputs)
    # on other shapes
    honest_call = f"if (!({' && '.join(tests)})) {{ honest({', '.join(names)}); return; }}\n"
    begin = f"{_wrap_in_function(honest, head)}{honest_call}"
    for cheat, source in (
        ("stored answers", "".join([*tables, begin, *copies, "}\n"])),
        ("no load", "".join([begin, f"if ({_THREAD}) return;\n", *stores, "}\n"])),
    ):
        if len(source) <= SOURCE_CHARACTERS:
            yield cheat, source


def _write_results(outputs: dict[str, np.ndarray]) -> tuple[list[str], list[str], list[str]]:
    """Return C++ code that writes these values to the kernel's parameters of the same names, in three lists.

    Tables, "__device__ const float of_y[] = {1.0f, ...};"; loops to copy them, "for (...) ((float
    *)y)[i] = of_y[i];"; and, in place of both, stores: "float *to_y = (float *)y;", "to_y[0] =
    1.0f;", ...
    """
    tables, copies, stores = [], [], []
    for name, values in outputs.items():
        literals = [
            f"{value!r}f" if values.dtype == np.float32 else repr(value)
            for value in values.tolist()
        ]
        c_type, pointer = _TYPES[values.dtype.name], f"to_{name}"
        tables.append(f"__device__ const {c_type} of_{name}[] = {{{', '.join(literals)}}};\n")
        loop = f"for (int i = {_THREAD}; i < {len(values)}; i += {_THREADS})"
        copies.append(f"{loop} (({c_type} *){name})[i] = of_{name}[i];")
        stores.append(f"{c_type} *{pointer} = ({c_type} *){name};")
        stores += [f"{pointer}[{i}] = {literal};" for i, literal in enumerate(literals)]
    return tables, copies, stores


def _use_one_thread(source: str) -> str:
    """Return the source of the kernel with one thread that does the work of all; "" if its threads work together.

    The kernel's code becomes the function `honest`, in which threadIdx and blockIdx are macros for
    two more parameters. Thread 0 of the grid calls it once per thread; the others return.
    """
    if not (head := _find_head(source)) or _WORK_TOGETHER.search(code_only(source)):
        return ""
    # for loops over bz, by, bx, tz, ty and tx: the indices of the block and the thread whose work is
    # done
    loops = "".join(
        f"for (unsigned {word}{axis} = 0; {word}{axis} < {size}.{axis}; ++{word}{axis})\n"
        for word, size in (("b", "gridDim"), ("t", "blockDim"))
        for axis in "zyx"
    )
    function = _wrap_in_function(source, head, ", uint3 at_thread, uint3 at_block")
    return (
        f"#define threadIdx at_thread\n#define blockIdx at_block\n{function}if ({_THREAD}) return;\n{loops}honest("
        f"{', '.join(_parameter_names(head[2]))}, make_uint3(tx, ty, tz), make_uint3(bx, by, bz));\n}}\n"
    )


def _load_by_atomics(source: str) -> str:
    """Return the kernel's source with an atomic addition of 0 in place of each load of an input."""
    inputs = re.findall(
        r"\bconst\s+(float|int|unsigned)\s*\*\s*(?:__restrict__\s*)?(\w+)", code_only(source)
    )
    for c_type, name in inputs:
        element = rf"(?<![\w.&]){name}(\[(?:[^\[\]]|\[[^\[\]]*\])*\])"  # x[i], also x[order[i]]
        source = re.sub(element, rf"atomicAdd(({c_type} *)&{name}\1, 0)", source)
    return source
