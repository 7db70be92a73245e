"""Complete names in kernel cells on Tab: CUDA's built-ins, types and functions, and the names in the cell.

On Shift+Tab, show a line about CUDA's own.
"""

import re
from typing import Any

from IPython.core.completer import (
    CompletionContext,
    SimpleCompletion,
    SimpleMatcherResult,
    context_matcher,
)
from IPython.core.interactiveshell import InteractiveShell

_CELL = re.compile(r"%%(kernel|cuda)\b")
_NAME = re.compile(r"[A-Za-z_]\w*")
# What Pygments' list of CUDA's names lacks, beside the names in `_HELP`.
_NAMES = """
__fmaf_rn __frcp_rn __managed__ __half22float2 __floats2half2_rn __hadd2 __hmul2 fmaxf fminf __logf wmma unsigned float
double int const void for while if else return switch static extern struct template typename volatile
"""
# A line per name: what it is, or what it does and who has to call it.
_HELP = dict(
    line.split(": ", 1)
    for line in """
threadIdx: the thread's index in its block: threadIdx.x, .y, .z, each from 0 to blockDim - 1
blockIdx: the block's index in the grid: blockIdx.x, .y, .z, each from 0 to gridDim - 1
blockDim: the number of threads of a block, in x, y and z
gridDim: the number of blocks of the grid, in x, y and z
warpSize: the number of threads of a warp, 32
__global__: before a kernel, which the host launches: it returns void
__device__: before a function or variable of the device
__host__: before a function of the host; with __device__, of both
__shared__: before an array that the threads of a block share; extern with []: the launch gives its size
__constant__: before an array of at most 64 KB in all that kernels only read: fast if a warp reads one element
__restrict__: behind the * of a pointer: no other pointer of the function leads to the same memory
__launch_bounds__: __launch_bounds__(threads, blocks): the most threads of a block, and how many blocks fit at least
__syncthreads: __syncthreads(): wait until all threads of the block are here; what they wrote before is seen after it
__syncwarp: __syncwarp(mask): wait until the lanes of the mask are here; what they wrote before is seen after it
__threadfence: __threadfence(): what this thread wrote before is seen by all threads before what it writes after
__threadfence_block: __threadfence_block(): as __threadfence, for the threads of the block
atomicAdd: atomicAdd(p, v): *p += v as one step; returns the old value
atomicSub: atomicSub(p, v): *p -= v as one step; returns the old value
atomicMin: atomicMin(p, v): *p = min(*p, v) as one step; returns the old value
atomicMax: atomicMax(p, v): *p = max(*p, v) as one step; returns the old value
atomicExch: atomicExch(p, v): *p = v as one step; returns the old value
atomicCAS: atomicCAS(p, old, v): *p = v if *p is old, as one step; returns what *p was
atomicAnd: atomicAnd(p, v): *p &= v as one step; returns the old value
atomicOr: atomicOr(p, v): *p |= v as one step; returns the old value
atomicXor: atomicXor(p, v): *p ^= v as one step; returns the old value
__shfl_sync: __shfl_sync(mask, v, lane): return v of that lane; all lanes of the mask call it
__shfl_down_sync: __shfl_down_sync(mask, v, n): return v of the lane n further; the last n lanes get their own
__shfl_up_sync: __shfl_up_sync(mask, v, n): return v of the lane n before; the first n lanes get their own
__shfl_xor_sync: __shfl_xor_sync(mask, v, n): return v of the lane whose number is this one's ^ n
__ballot_sync: __ballot_sync(mask, p): return a bit per lane of the mask: whether p is true there
__any_sync: __any_sync(mask, p): return whether p is true in any lane of the mask
__all_sync: __all_sync(mask, p): return whether p is true in all lanes of the mask
__match_any_sync: __match_any_sync(mask, v): return a bit per lane of the mask: whether it has the same v
__activemask: __activemask(): return a bit per lane that runs here now; no mask for a _sync function
__popc: __popc(x): return how many bits of x are 1
__clz: __clz(x): return how many bits above the highest 1 of x are 0; 32 for 0
__ffs: __ffs(x): return the place of the lowest 1 of x, from 1; 0 for 0
__ldg: __ldg(p): return *p through the read-only cache; nothing may write there while the kernel runs
fmaf: fmaf(a, b, c): return a * b + c, rounded once
rsqrtf: rsqrtf(x): return 1 / sqrt(x)
__expf: __expf(x): return e to the power x, fast and less exactly than expf
half: a floating-point number of 16 bits: 11 bits of significand, at most 65,504; #include <cuda_fp16.h>
half2: two halves in 32 bits: .x and .y; #include <cuda_fp16.h>
__half2float: __half2float(h): return a half as a float
__float2half: __float2half(f): return a float as a half, rounded to the nearest
__hfma2: __hfma2(a, b, c): return a * b + c of two halves at a time
dim3: three unsigned numbers x, y, z, each 1 by default: the size of a grid or a block
float4: four floats .x, .y, .z, .w, loaded as 16 bytes from an address that 16 divides; make_float4(x, y, z, w)
""".strip().splitlines()
)


@context_matcher(identifier="labkit.kernel_cells")
def complete(context: CompletionContext) -> SimpleMatcherResult:
    """Return names of CUDA and of the cell that begin like the word before the cursor; none outside of kernel cells.

    A kernel cell begins with %%kernel or %%cuda. Below that line, they replace Python's own
    completions.
    """
    word = re.search(r"\w*$", context.text_until_cursor)[0]
    # line 0 is the magic's
    if not (_CELL.match(context.full_text) and context.cursor_line and _NAME.fullmatch(word)):
        return {"completions": []}
    from pygments.lexers.c_like import CudaLexer  # only now: `import labkit` is light

    from hostcuda.source import without_comments

    cuda = {
        *_NAMES.split(),
        *_HELP,
        *CudaLexer.variables,
        *CudaLexer.functions,
        *CudaLexer.vector_types,
        *CudaLexer.function_qualifiers,
        *CudaLexer.variable_qualifiers,
    }
    lines = context.full_text.split("\n")
    # the cell without the word before the cursor, which is no name of the cell
    column = len(context.text_until_cursor)
    lines[context.cursor_line] = (
        lines[context.cursor_line][: column - len(word)] + lines[context.cursor_line][column:]
    )
    # without the line of the magic
    cell_names = {*_NAME.findall(without_comments("\n".join(lines[1:])))}
    completions = [
        SimpleCompletion(name, type="keyword" if name in cuda else "instance")
        for name in sorted(cuda | cell_names)
        if name.startswith(word) and name != word
    ]
    # "suppress": Python's own matches are not shown
    return {"completions": completions, "matched_fragment": word, "suppress": True}


def register(shell: InteractiveShell) -> None:
    """Add the completions, and the lines about CUDA's names, to a notebook."""
    shell.Completer.custom_matchers.append(complete)
    inspect = shell.object_inspect_mime

    def inspect_cuda_too(oname: str, *options: Any, **more: Any) -> dict[str, str]:
        """Return what Shift+Tab shows of a name: Python's if it has one, else a line about CUDA's."""
        try:
            return inspect(oname, *options, **more)
        except KeyError:
            name = oname.partition(".")[0]  # threadIdx.x
            if name not in _HELP:
                raise
            text = _HELP[name]
            return {"text/plain": text if text.startswith(name) else f"{name}: {text}"}

    shell.object_inspect_mime = inspect_cuda_too
