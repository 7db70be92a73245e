"""Doubt the sizes and values that calls of CUDA's API get: sizes of pointers, numbers of elements, values of bytes.

So are quotients that `ceil` gets. The compiler knows the types. So each doubtful argument becomes
one of a function of ``include/hostcuda/host.h``, or ``math.h`` there, that is deprecated for the
types with which the argument is wrong.
"""

import re

from hostcuda.frontend.scan import Scan
from hostcuda.frontend.tokens import apply_edits, find_closing_parenthesis, split_spans

_CALL = re.compile(r"\bcuda(Malloc|Memcpy|Memset)(?:Async|Managed|Host)?\s*\(")
_CEIL = re.compile(r"\bceilf?\s*(?=\()")
_EXACT = re.compile(r"-\s*1\s*\)?\s*/")  # (n + t - 1) / t is rounded up itself
_CAST = re.compile(r"\(\s*(?:const\s+)?void\s*\*+\s*\)\s*")
# sizeof(p), sizeof s->p
_SIZE_OF = re.compile(r"\bsizeof\b\s*(\(?)\s*([\w.]+(?:->\w+)*)\s*(?(1)\))")
_COUNT = re.compile(r"\w+(?:\s*\*\s*\w+)*")  # n, rows * columns
_NUMBER = re.compile(r"([-+]?\d+)(?:\.0*)?[fFuUlL]*")  # -1, 1.0f
# bytes that programs choose for the elements they make, such as 0x3f3f3f3f
_MEANT_BYTES = (-1, 0, 63, 127, 128, 255)
# not the type of a byte
_WIDE = r"(?!\s*(?:(?:un)?signed\s+)?char\b|\s*u?int8_t\b|\s*bool\b|\s*std::byte\b)"
# What shows that a number {0} counts elements: {0} * sizeof(int), sizeof(int) * {0}, new int[{0}],
# vector<int> v({0}).
_COUNTS = (
    rf"{{0}}\s*\*\s*sizeof\b\s*\({_WIDE}|\bsizeof\b\s*\({_WIDE}[^()]*\)\s*\*\s*{{0}}(?!\s*[*\w])|\bnew\b{_WIDE}"
    rf"[^;()\[]*\[\s*{{0}}\s*\]|\bvector\s*<{_WIDE}[^;<>]*>\s*\w+\s*[({{{{]\s*{{0}}\s*[,)}}}}]"
)


# What shows that a number {0} counts bytes.
_COUNTS_BYTES = r"\bmalloc\s*\(\s*{0}\s*\)|(?<!\w){0}\s*/\s*(?:sizeof\b|[248]\b)|\bchar\b[^;]*[([]\s*{0}\s*[,)\]]"


def _counts_elements(number: str, pointers: list[str], body: str, of_pointer: bool) -> bool:
    """Return whether a number seems to count the elements of one of these pointers, by a function's body.

    `number` is a regular expression. If it has to count those `of_pointer`, for a copy and where it
    is written as a number, a statement that counts elements also has a pointer's variable, or it
    names what another statement with that variable uses, as in ``bytes = n * sizeof(float);
    cudaMalloc(&d, bytes);``.
    """
    if not of_pointer:
        return bool(re.search(_COUNTS.format(number), body)) and not re.search(
            _COUNTS_BYTES.format(number), body
        )
    names = {word for pointer in pointers for word in re.findall(r"[A-Za-z_]\w*", pointer)[:1]}
    statements = re.split(r"[;{}]", body)
    words = [set(re.findall(r"[A-Za-z_]\w*", statement)) for statement in statements]
    for statement, used in zip(statements, words, strict=True):
        if not re.search(_COUNTS.format(number), f"{statement};"):
            continue
        stored = re.match(r"[^=]*?(\w+)\s*=(?!=)", statement)
        if names & used or (
            stored and any(stored[1] in others and names & others for others in words)
        ):
            return True
    return False


def replace_doubtful_sizes(text: str) -> str:
    """Put doubtful arguments of cudaMalloc, cudaMemcpy, cudaMemset and ceil into functions that warn of mistakes.

    Doubtful are a value for cudaMemset that is no byte, a size that elsewhere counts elements, the
    size of a pointer instead of its array, and a quotient of integers in ceil. The functions are in
    the engine's headers; they return their argument, and are deprecated for the types with which it
    is wrong, so that the compiler warns. Returns the text.
    """
    scan, edits = Scan(text), []
    for call in _CALL.finditer(scan.code):
        function = scan.function(call.start())  # the position of its "{"
        end = find_closing_parenthesis(scan.code, call.end() - 1)
        spans = split_spans(scan.code, ",", call.end(), end) if end else ()
        size = 1 if call[1] == "Malloc" else 2  # the number of the argument with the bytes
        if function not in scan.closing or len(spans) <= size:
            continue
        arguments = [_CAST.sub("", scan.code[start:stop]).strip() for start, stop in spans]
        # Memcpy has two pointers, the others one
        pointers = arguments[:2] if call[1] == "Memcpy" else arguments[:1]
        if call[1] == "Malloc":  # which gets the pointer's address
            pointers = [word[1:].strip() if word[:1] == "&" else f"*{word}" for word in pointers]
        # Wide warns if both types point to numbers of several bytes: those of Memcpy, or one type
        # twice.
        two_pointers = pointers if len(pointers) == 2 else pointers * 2
        types = ", ".join(f"std::decay_t<decltype(({pointer}))>" for pointer in two_pointers)
        wide = f" hostcuda::Wide<{types}>"
        if (
            call[1] == "Memset"
            and (value := _NUMBER.fullmatch(arguments[1]))
            and int(value[1]) not in _MEANT_BYTES  # values of bytes that programs mean, such as 0
        ):
            edits.append((*spans[1], f"{wide}::value({arguments[1]})"))
        # a regular expression: this number or product, unless it is a member, or behind another factor
        number = r"(?<![\w.*])(?<!\* )" + r"\s*\*\s*".join(re.findall(r"\w+", arguments[size]))
        body = scan.code[function : scan.closing[function]]
        # the last argument: whether it has to count the elements of these very pointers
        if _COUNT.fullmatch(arguments[size]) and _counts_elements(
            number, pointers, body, call[1] != "Malloc" or arguments[size][:1].isdigit()
        ):
            edits.append((*spans[size], f"{wide}::count({arguments[size]})"))
        for size_of in _SIZE_OF.finditer(scan.code, *spans[size]):
            if size_of[2] in pointers:
                edits.append(
                    (
                        *size_of.span(),
                        f"hostcuda::PointerSize<decltype(({size_of[2]}))>::of({size_of[0]})",
                    )
                )
    for call in _CEIL.finditer(scan.code):
        end = find_closing_parenthesis(scan.code, call.end())
        inside = scan.code[call.end() + 1 : end] if end else ""
        if "/" in inside and not _EXACT.search(inside):
            quotient = f"hostcuda::Quotient<decltype({inside})>::of({inside})"
            edits.append((call.end() + 1, end, quotient))
    return apply_edits(
        text, [(start, end, new + scan.newlines(start, end)) for start, end, new in edits]
    )
