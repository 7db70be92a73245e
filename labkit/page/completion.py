"""Complete names in kernel cells on Tab: CUDA's built-ins, types and functions, and the names in the cell."""

import re

from IPython.core.completer import (
    CompletionContext,
    SimpleCompletion,
    SimpleMatcherResult,
    context_matcher,
)
from IPython.core.interactiveshell import InteractiveShell

_CELL = re.compile(r"%%(kernel|cuda)\b")
_NAME = re.compile(r"[A-Za-z_]\w*")
# What Pygments' list of CUDA's names lacks.
_NAMES = """
__activemask __all_sync __any_sync __ballot_sync __fmaf_rn __frcp_rn __launch_bounds__ __ldg __managed__
__match_any_sync __popc __restrict__ __shfl_down_sync __shfl_sync __shfl_up_sync __shfl_xor_sync __syncwarp __clz
__ffs atomicAdd atomicAnd atomicCAS atomicExch atomicMax atomicMin atomicOr atomicSub atomicXor __float2half
__half2float __half22float2 __floats2half2_rn __hadd2 __hfma2 __hmul2 half half2 rsqrtf fmaf fmaxf fminf __expf
__logf wmma unsigned float double int const void for while if else return switch static extern struct template typename
volatile
"""


@context_matcher(identifier="labkit.kernel_cells")
def complete(context: CompletionContext) -> SimpleMatcherResult:
    """Return names of CUDA and of the cell that begin like the word before the cursor; none outside of kernel cells.

    In a cell that begins with %%kernel or %%cuda, below this line 0, they replace Python's own
    completions.
    """
    word = re.search(r"\w*$", context.text_until_cursor)[0]
    if not (_CELL.match(context.full_text) and context.cursor_line and _NAME.fullmatch(word)):
        return {"completions": []}
    from pygments.lexers.c_like import CudaLexer  # only now: `import labkit` is light

    from hostcuda.source import without_comments

    cuda = {
        *_NAMES.split(),
        *CudaLexer.variables,
        *CudaLexer.functions,
        *CudaLexer.vector_types,
        *CudaLexer.function_qualifiers,
        *CudaLexer.variable_qualifiers,
    }
    lines = context.full_text.split("\n")
    # of the cursor; the word before it is no name of the cell
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
    return {
        "completions": completions,
        "matched_fragment": word,
        "suppress": True,
    }  # True: no matches of Python's


def register(shell: InteractiveShell) -> None:
    """Add the completions to a notebook."""
    shell.Completer.custom_matchers.append(complete)
