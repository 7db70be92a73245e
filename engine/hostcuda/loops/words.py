"""The words of C++ and CUDA that the rewriter knows, and the exception for whatever it does not know."""

import re


class NeedsFibers(Exception):
    """Raised for a kernel that has to run on fibers, a stack per thread; the message is the reason for users."""


ASSIGNMENTS = {"=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>="}
STEPS = {"++", "--"}
BINARY = {
    "+",
    "-",
    "*",
    "/",
    "%",
    "<<",
    ">>",
    "<",
    ">",
    "<=",
    ">=",
    "==",
    "!=",
    "&",
    "|",
    "^",
    "&&",
    "||",
}

# Types whose members x, y, z and w are scalars.
VECTORS = {
    *(
        f"{kind}{n}"
        for n in "1234"
        for kind in (
            "char",
            "uchar",
            "short",
            "ushort",
            "int",
            "uint",
            "long",
            "ulong",
            "longlong",
            "ulonglong",
            "float",
            "double",
        )
    ),
    "half2",
    "__half2",
    "__nv_bfloat162",
    "cuComplex",
    "cuFloatComplex",
    "cuDoubleComplex",
    "dim3",
}
BUILT_IN = {
    "void",
    "bool",
    "char",
    "short",
    "int",
    "long",
    "float",
    "double",
    "signed",
    "unsigned",
    "auto",
}
TYPES = {
    *BUILT_IN,
    "size_t",
    "ptrdiff_t",
    "int8_t",
    "int16_t",
    "int32_t",
    "int64_t",
    "uint8_t",
    "uint16_t",
    "uint32_t",
    "uint64_t",
    "uint",
    "half",
    "__half",
    "__nv_bfloat16",
    "uchar",
    "ushort",
    "ulong",
    *VECTORS,
}
SPECIFIERS = {
    "const",
    "constexpr",
    "static",
    "register",
    "inline",
    "__shared__",
    "alignas",
    "__align__",
    "typename",
}
CLASSES = {"struct", "class", "union", "enum"}
# what may stand between the "*" of a pointer and its name
RESTRICT = {"__restrict__", "__restrict", "const"}
# words that may stand before a parenthesis and are no functions
KEYWORDS = {"if", "for", "while", "do", "switch", "return", "else", "sizeof", "operator"}
# equal for a block's threads, unlike threadIdx
INDICES = {"blockIdx", "blockDim", "gridDim", "warpSize"}
# Functions that give the same result for the same arguments, and do not change these.
PURE = re.compile(
    r"min|max|abs|sizeof|alignof|(static|reinterpret|const)_cast|make_\w+|__\w+2\w+|__u?mul24|u?(min|max)|"
    r"f(abs|min|max|loor|ma|mod)f?|(ceil|r?sqrt|pow|exp(2|10|m1)?|log(2|10|1p)?|a?(sin|cos|tan)h?|round|trunc|rint|erfc?)f?|"
    r"__\w+_as_\w+|__(exp|log|log2|sin|cos|tan|pow|fdivide|saturate)f|__(popc|clz|ffs|brev)(ll)?|"
    r"__h(add|sub|mul|div|fma|neg|abs|min|max)2?(_\w+)?|__builtin_(inf|nan|huge_val|fabs|fma|floor|ceil|sqrt|popcount|clz|ctz|ffs)[fls]*"
)
# What only fibers can do: wait elsewhere than at barriers, ask which thread is running, print, or
# end the launch; and what the reader of statements does not know. Also all warp functions, but
# `exchange` has replaced those below.
FIBERS_ONLY = re.compile(
    r"__sync(?!threads$)\w*|__shfl\w*|__(ballot|any|all|activemask|nanosleep)(_sync)?|__(match|reduce)_\w+|nvcuda|wmma|"
    r"cooperative_groups|this_(thread_block|grid|multi_grid|thread)|tiled_partition|coalesced_threads|thread_block_tile|"
    r"v?f?printf|puts|assert|__assert_fail|__trap|__brkpt|__builtin_trap|abort|exit|atomicCAS\w*|atomicExch\w*|asm|"
    r"volatile|__asm|__asm__|throw|try|catch|goto|co_\w+|alloca|__builtin_alloca|setjmp|longjmp|thread_local|__thread|"
    r"__func__|__FUNCTION__|__PRETTY_FUNCTION__|__builtin_FUNCTION|cuda|cg|cub|barrier|pipeline|thread_block|grid_group|thread_group|coalesced_group"
)
BARRIER = "__syncthreads"
# Warp functions that thread loops can do -> their names in lanes.h.
SHUFFLES = {
    "__shfl_sync": "shuffle_index",
    "__shfl_up_sync": "shuffle_up",
    "__shfl_down_sync": "shuffle_down",
    "__shfl_xor_sync": "shuffle_xor",
}
VOTES = {f"__{kind}_sync": kind for kind in ("ballot", "any", "all")}
REDUCTIONS = {
    f"__reduce_{kind}_sync": f"reduce_{kind}" for kind in ("add", "min", "max", "and", "or", "xor")
}
WARP_FUNCTIONS = {"__syncwarp": "sync", **SHUFFLES, **VOTES, **REDUCTIONS}
MEETING = "hostcuda_meet"  # what `exchange.py` writes where the lanes of a warp wait for each other
