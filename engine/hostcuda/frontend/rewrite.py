"""Prepare CUDA C++ text for a host compiler.

With the engine's headers, a C++ compiler understands almost all of CUDA. The rest is rewritten in
the text of `hostcuda.frontend.preprocess`; no line moves. What the engine does not support becomes
a ``static_assert``.

``#pragma unroll`` is kept, and host compilers ignore it: g++ vectorizes the loops over a register
tile by itself, which is twice as fast (GEMM, 8 by 8 per thread: 4.6 against 2.1 GMAC/s) as if it
had to unroll them first.
"""

import re
from collections import Counter
from dataclasses import dataclass

from hostcuda.frontend import hostcode, ptx
from hostcuda.frontend.scan import Kernel, Scan, find_kernels
from hostcuda.frontend.tokens import (
    LEXEME,
    apply_edits,
    find_closing_parenthesis,
    find_statement_end,
    split_spans,
)


@dataclass(frozen=True)
class Rewritten:
    """The text for the host compiler, and the kernels in it."""

    text: str
    kernels: tuple[Kernel, ...]
    # of each kernel, by the name under which it is registered
    parameters: dict[str, tuple[str, ...]]


def _write_registration(kernel: Kernel, overloaded: bool, qualified: bool, bounded: set[str]):
    """Return HOSTCUDA_KERNEL(name), by which a `Kernel` can be launched; `bounded`: templates that have bounds.

    The runtime shows an `overloaded` kernel as ``name(parameters)``, and one that is `qualified`
    with its namespaces.
    """
    name = kernel.name
    if overloaded:  # the type of its pointer selects the overload
        name = f"*{hostcode.write_pointer(kernel, '')}"
    elif qualified:
        name = f"{kernel.scope}::{name}"
    # arguments: "<" of f<3>
    bounds, (template, arguments, _) = (kernel.bounds, kernel.name.partition("<"))
    if not bounds and arguments and template.strip() in bounded:
        bounds = f"{_BOUNDS}{kernel.name}::value"
    return f" HOSTCUDA_KERNEL_BOUNDS(({bounds}), {name})" if bounds else f" HOSTCUDA_KERNEL({name})"


# a class with the launch bounds of a template, which may depend on its parameters
_BOUNDS = "hostcuda_bounds_"
# Attributes of a variable: alignas(16), __attribute__((aligned(16))), [[maybe_unused]]
_ATTRIBUTE = re.compile(
    r"""\b(?:__align__|alignas|__attribute__)\s*\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\) | \[\[.*?\]\]""",
    re.VERBOSE | re.DOTALL,
)
# At namespace scope a variable is needed: another name, with the right type, for the runtime's
# pointer.
_ALIAS = 'asm("hostcuda_dynamic_shared") __attribute__((tls_model("initial-exec"), visibility("default")))'
# tile[][16]
_UNSIZED = re.compile(r"(?P<name>\b\w+)\s*\[\s*\](?P<more>(?:\s*\[[^\]]*\])*)\s*(?P<end>,|$)")


def _replace_shared(declaration: str, in_function: bool, code: str):
    """Return the text that replaces ``extern __shared__ T name[]`` (without a semicolon); None for other declarations.

    In a function it is a pointer, which a lambda can capture by value. If the `code`, all of it,
    takes the address of the array itself, it is a reference to an array.
    """
    text, externs = re.subn(r"\bextern\b", " ", _ATTRIBUTE.sub(" ", declaration))
    text, shareds = re.subn(r"\b__shared__\b", " ", text)
    first = _UNSIZED.search(text)
    if not (externs and shareds and first):
        return None
    type_ = " ".join(text[: first.start()].split())
    statements = []
    for part in _UNSIZED.finditer(text, first.start()):
        # more: the bounds of further dimensions
        name, more = (part["name"], "".join(part["more"].split()))
        pointer = f"{type_} (*%s){more}" if more else f"{type_} *%s"
        if not in_function:
            statements.append(f"extern __thread {pointer % f'const {name}'} {_ALIAS}")
        elif re.search(rf"(?<!&)&\s*{name}\b(?!\s*\[)", code):
            array = f"{type_} (%s)[]{more}"
            statements.append(f"{array % f'&{name}'} = *({array % '*'})hostcuda::dynamic_shared()")
        else:
            statements.append(f"{pointer % name} = ({pointer % ''})hostcuda::dynamic_shared()")
    return "; ".join(statements)


def _edit_dynamic_shared(scan: Scan):
    """Yield edits (start, end, text) of the declarations of dynamic shared memory in a `Scan`."""
    braces = None  # around the last such array
    for match in re.finditer(r"\b__shared__\b", scan.code):
        start = _skip_statement_head(scan.code, scan.declaration_start(match.start()))
        end = scan.code.find(";", match.end())
        new = (
            _replace_shared(scan.code[start:end], scan.scope(match.start()) is None, scan.code)
            if end >= 0
            else None
        )
        if new:
            previous_braces, braces = braces, scan.open_at(match.start())
            # others: of further arrays of the same declaration
            first, call, others = new.partition("_shared()")
            # Two arrays in the same braces are the same memory: dynamic_shared(0) has the compiler
            # warn of the second.
            call = call.replace("()", "(0)") if previous_braces is braces else call
            yield (
                start,
                end,
                first + call + others.replace("d()", "d(0)") + scan.newlines(start, end),
            )


_STATEMENT_HEAD = re.compile(
    r"\s*(?:(?P<condition>if|for|while|switch)\b[^;(]*(?=\()|(?:else|do)\b|\w+\s*:(?!:))?\s*"
)


def _skip_statement_head(code: str, at: int):
    """Return the position of the statement after ``if (...)``, ``else``, labels and spaces at position `at`."""
    while (match := _STATEMENT_HEAD.match(code, at)) and match.end() > at:
        at = match.end()
        if match["condition"]:
            at = (find_closing_parenthesis(code, at) or at) + 1
    return at


# no parenthesis follows: no function
_VARIABLE = re.compile(r"\b__(?:device|managed)__(?=[^(){};=\[]*[;={\[])")
# __shared__ alignas(16)
_ALIGNED = re.compile(r"\b(__(?:shared|constant)__)(\s+)(alignas)(?=\s*\()")


def _edit_variables(scan: Scan):
    """Yield edits that keep ``__device__`` variables which only the host writes, and put ``alignas`` first for g++."""
    for match in _VARIABLE.finditer(scan.code):
        if scan.scope(match.start()) is not None:
            yield match.end(), match.end(), " __attribute__((used))"
    for match in _ALIGNED.finditer(scan.code):
        end = find_closing_parenthesis(scan.code, match.end())
        start = _skip_statement_head(scan.code, scan.declaration_start(match.start()))
        # that is dynamic shared memory
        if end is not None and "extern" not in scan.code[start : match.end()].split():
            yield start, start, scan.text[match.start(3) : end + 1] + " "
            yield match.start(3), end + 1, scan.newlines(match.start(3), end + 1)


_ASM = re.compile(r"\b(?:asm|__asm|__asm__)\s*(?:\b(?:volatile|__volatile|__volatile__)\s*)?\(")
_OPERAND = re.compile(r'\s*"(\s*)"\s*(?=\()')  # "=r"(x), of which the scan has blanked the literal
_IN_EXPRESSION = re.compile(r"(?:[=,(?&|+*/<-]|\breturn)$")  # what is before it
_ESCAPES = {"n": "\n", "t": "\t"}


def _read_literal(text: str):
    """Return the joined contents of the string literals in `text`; raise ValueError if it has more than literals."""
    parts = []

    def read(match):
        """Add a literal's contents to `parts`; return what remains of the lexeme, which is "" but for other words."""
        lexeme = match.group()
        if match["raw"]:
            parts.append(lexeme[lexeme.index("(") + 1 : lexeme.rindex(")")])
        elif match["string"]:
            parts.append(
                re.sub(r"\\(.)", lambda escape: _ESCAPES.get(escape[1], escape[1]), lexeme[1:-1])
            )
        elif not match["comment"]:
            return lexeme
        return ""

    other = LEXEME.sub(read, text).strip()
    if other:
        raise ValueError(
            f"the CPU engine reads inline PTX from string literals, and {other} is not one"
        )
    return "".join(parts)


def _read_operands(scan: Scan, sections):
    """Yield the `ptx.Operand`s of an asm statement, %0 first; `sections`: the spans of outputs, inputs, clobbers."""
    for section, output in zip(sections, (True, False), strict=False):
        for start, end in split_spans(scan.code, ",", *section, angles=False):
            if constraint := _OPERAND.match(scan.code, start, end):
                yield ptx.Operand(
                    scan.text[slice(*constraint.span(1))].strip("=+ "),
                    output,
                    constraint.end(),
                    end,
                )
            elif scan.code[start:end].strip():
                raise ValueError(
                    f'an operand of inline PTX is "constraint"(expression), not {scan.text[start:end]}'
                )


def _edit_asm(scan: Scan):
    """Yield edits making each asm statement the call of a lambda, with its operands as arguments, where they stand."""
    for match in _ASM.finditer(scan.code):
        at, end = match.start(), find_closing_parenthesis(scan.code, match.end() - 1)
        if end is None or scan.scope(at) is not None:  # it stands in no function
            continue
        template, *sections = split_spans(scan.code, ":", match.end(), end, angles=False)
        try:
            before = scan.code[scan.declaration_start(at) : at].rstrip()
            if scan.on_device(at) and (
                scan.code[end + 1 :].lstrip()[:1] != ";" or _IN_EXPRESSION.search(before)
            ):
                raise ValueError("asm is a statement, as nvcc has it: it ends with a semicolon")
            text = _read_literal(scan.text[slice(*template)])
            operands = list(_read_operands(scan, sections))
            if not operands and not text.strip():
                continue  # a compiler barrier, also for the host's compiler
            statements = ptx.translate(text, operands)
        except ValueError as error:
            if not scan.on_device(at):
                continue  # assembly of the host's processor
            message = " ".join(str(error).split()).replace("\\", "\\\\").replace('"', '\\"')
            # In a generic lambda, because a template that nobody instantiates may have any PTX.
            refusal = f'[](auto never) {{ static_assert(sizeof never == 0, "{message}"); }}(0)'
            yield at, end + 1, refusal + scan.newlines(at, end)
            continue
        parameters = ", ".join(
            f"auto {'&' if operand.output else ''}p{n}" for n, operand in enumerate(operands)
        )
        before = f"[]({parameters}) {{ {statements}}}("
        # the operands stay as they are; what stands before and between them is replaced
        for operand in operands:
            yield at, operand.start, before + scan.newlines(at, operand.start)
            before, at = ", ", operand.end
        yield at, end + 1, (")" if operands else f"{before})") + scan.newlines(at, end)


_BARRIER = re.compile(r"\b(?:__syncthreads\w*|sync|barrier_sync\w*|asm|__asm|__asm__)\b")
_LAMBDA = re.compile(r"(?<!\])\]\s*(?:__\w+__\s*)*(?:\(|$)")  # in the head of one


def _edit_returns(scan: Scan):
    """Yield edits that tell the runtime where a thread leaves a kernel, or a function with a barrier, before its end.

    The runtime gets the first and the last line of the barriers that the thread may then not reach:
    those of the function; of a kernel, all.
    """
    for match in re.finditer(r"\breturn\b", scan.code):
        brace = scan.function(match.start())
        if brace not in scan.closing or not scan.on_device(match.start()):
            continue
        head = scan.code[scan.declaration_start(brace) : brace]
        end, close = find_statement_end(scan.code, match.start()), scan.closing[brace]
        is_last = not scan.code[end:close].strip()
        if is_last or "constexpr" in head or _is_in_lambda(scan, match.start(), brace):
            continue
        first, last = scan.place(brace)[1], scan.place(close)[1]
        if "__global__" in head:
            first, last = 0, 2**31 - 1
        elif not _BARRIER.search(scan.code, brace, close):
            continue
        yield match.start(), match.start(), f"{{ ::hostcuda::returns_within({first}, {last}); "
        yield end, end, " }"


def _is_in_lambda(scan: Scan, at: int, outermost: int) -> bool:
    """Return whether position `at` is in a lambda within the braces at position `outermost`."""
    brace = scan.open_at(at)
    while brace.start > outermost:
        if _LAMBDA.search(scan.code, scan.declaration_start(brace.start), brace.start):
            return True
        brace = brace.outer
    return False


_THREAD_LOCAL = re.compile(r"\b(?:thread_local|__thread)\b[^;=({\[]*?(?P<name>\w+)\s*[;=({\[,]")
_TEXTURE = re.compile(r"\b(?:texture|surface)\s*<[^;{}()]*>\s*\w+\s*;")  # texture<float> image;
_REFERENCE = re.compile(r"&\s*(?:\w*|\w*\s*\)\s*\[.*)$")  # how a parameter ends that is a reference
_HAS_NO = {
    "host": "host code: keep the kernels, and launch them from Python; code between #ifndef __CUDA_ARCH__ and #endif "
    "is passed over",
    "device": "launches by kernels (dynamic parallelism): launch the kernel from the host, or run it on a GPU",
    "thread_local": "thread_local variables, and nvcc has none for the device: declare a thread's variable in the "
    "kernel, and one that the block shares as __shared__",
    "texture": "texture references, which CUDA 12 has removed: use a texture object (cudaCreateTextureObject), or give "
    "the kernel a pointer and compute the index",
}


def _write_refusal(feature: str):
    """Return the ``static_assert`` whose message says that the engine lacks a feature, a key of `_HAS_NO`."""
    return f'static_assert(false, "the CPU engine has no {_HAS_NO[feature]}");'


def _reaches_device(scan: Scan, name: str, seen):
    """Return whether device code uses the variable `name`, directly or through functions and classes that use it.

    `seen` is the set of names that were looked at before; it grows.
    """
    seen.add(name)
    for use in re.finditer(rf"\b{name}\b", scan.code):
        if (start := scan.function(use.start())) is None:
            # outside of functions and classes; else `start` is the "{" of the outermost one
            continue
        user = re.search(
            r"(\w+)\s*(?:\(|$)", scan.code[scan.declaration_start(start) : start].strip()
        )
        if not user or scan.on_device(use.start()):
            return True
        if user[1] not in seen and _reaches_device(scan, user[1], seen):
            return True
    return False


def _edit_refused(scan: Scan, host: bool):
    """Yield edits that put a ``static_assert`` in place of what the engine lacks.

    That is the body of a function that launches kernels (if `host`, only of device code), and a texture
    reference. One also goes before each thread_local variable that device code reaches.
    """
    refused_end = 0  # of the last function that is replaced
    for match in hostcode.LAUNCH.finditer(scan.code):
        start = scan.function(match.start())
        if (
            match.start() < refused_end
            or start not in scan.closing
            or (host and not scan.on_device(match.start()))
        ):
            continue  # in a function that is replaced by now, in none, or allowed
        refused_end = scan.closing[start]
        refusal = _write_refusal("device" if scan.on_device(match.start()) else "host")
        new = scan.newlines(start, match.start()) + refusal  # in the line of the launch
        yield start + 1, refused_end, new + scan.newlines(match.start(), refused_end)
    for match in _THREAD_LOCAL.finditer(scan.code):
        if _reaches_device(scan, match["name"], set()):
            start = _skip_statement_head(scan.code, scan.declaration_start(match.start()))
            yield start, start, _write_refusal("thread_local")
    for match in _TEXTURE.finditer(scan.code):
        if scan.scope(match.start()) is not None:
            yield (
                match.start(),
                match.end(),
                _write_refusal("texture") + scan.newlines(*match.span()),
            )


def rewrite(
    text: str, names: hostcode.Names | None = None, tells_returns: bool = False
) -> "Rewritten":
    """Rewrite CUDA C++ as C++ for the host's compiler, with the same lines; return the text and its kernels.

    `text` has no macros any more. With `names`, a `hostcuda.frontend.hostcode.Names`, it is a whole
    program: launches in host code are rewritten, too, and `names` gets its kernels.
    `tells_returns`: the runtime learns of early returns, which check mode tells from branches
    around a barrier.
    """
    # with Linux's ends of lines, and without the mark of UTF-8 that some editors put first
    scan = Scan(text.replace("\r\n", "\n").removeprefix("\ufeff"))
    edits = [*_edit_dynamic_shared(scan), *_edit_variables(scan), *_edit_asm(scan)]
    edits += _edit_returns(scan) if tells_returns else ()
    # code that the engine refuses becomes a static_assert with the reason, and gets no other edits
    refused = list(_edit_refused(scan, names is not None))
    edits = [
        edit for edit in edits if not any(start <= edit[0] < end for start, end, _ in refused)
    ] + refused
    kernels = list(find_kernels(scan))
    edits += _edit_kernels(scan, kernels, names is not None)
    if names is not None:
        for kernel in kernels:
            # behind the kernel, functions by which launches find it
            edits.append((kernel.close + 1, kernel.close + 1, hostcode.write_picks(kernel, names)))
            if kernel.template and kernel.open < kernel.close:  # it has a body, in braces
                edits += hostcode.register_instances(kernel, scan.code)
        edits += hostcode.edit_launches(scan, names)
    defined = [kernel for kernel in kernels if not kernel.declared]
    # names that kernels of several namespaces have
    shared = _find_shared_names(defined) if names is not None else set()
    # "f(float *, int)" and "f", or "n::f" if `shared` has it -> ("float *x", "int n")
    parameters = {}
    for kernel in defined:
        types = " ".join(", ".join(map(hostcode.remove_default, kernel.parameters)).split())
        parameters[f"{kernel.name}({types})"] = kernel.parameters
        qualified = kernel.name in shared and kernel.scope
        parameters[f"{kernel.scope}::{kernel.name}" if qualified else kernel.name] = (
            kernel.parameters
        )
    return Rewritten(apply_edits(scan.text, edits), tuple(defined), parameters)


def _find_shared_names(defined: list[Kernel]) -> set[str]:
    """Return the names that kernels of several namespaces share; `defined` are all kernels of the text."""
    scopes = {(kernel.name, kernel.scope) for kernel in defined if not kernel.template}
    return {name for name, count in Counter(name for name, _ in scopes).items() if count > 1}


def _edit_kernels(scan: Scan, kernels: list[Kernel], qualifies: bool):
    """Yield edits at each `Kernel`: behind it, they register it or keep a template's bounds.

    In front of a kernel that nvcc refuses, they put a ``static_assert`` with the reason.
    If it `qualifies`, kernels of one name in several namespaces are registered with these.
    """
    defined = [kernel for kernel in kernels if not kernel.declared]
    # a set: the declaration of a kernel and its definition are one variant
    variants = {(k.name, k.scope, k.parameters) for k in kernels if not k.template}
    variants = Counter((name, scope) for name, scope, _ in variants)
    templates = Counter(k.name for k in defined if k.template)
    bounded = {k.name for k in defined if k.template and k.bounds and templates[k.name] == 1}
    shared = _find_shared_names(defined) if qualifies else set()
    for kernel in defined:
        refusal = "cannot be a member of a class: move it out of it" if kernel.scope is None else ""
        if not kernel.template and any(
            map(_REFERENCE.search, map(hostcode.remove_default, kernel.parameters))
        ):
            refusal = "takes no references: pass a pointer or a value"
        if refusal:
            at = _skip_statement_head(scan.code, kernel.start)
            yield at, at, f'static_assert(false, "a __global__ function {refusal}"); '
        elif not kernel.template:
            # of an instantiation without a body, the template's arguments
            deduced = kernel.open == kernel.close
            same_names = variants[kernel.name, kernel.scope] + templates[kernel.name]
            overloaded = (deduced or same_names > 1) and not kernel.name.endswith(">")
            yield (
                kernel.close + 1,
                kernel.close + 1,
                _write_registration(
                    kernel, overloaded, bool(kernel.name in shared and kernel.scope), bounded
                ),
            )
        elif kernel.name in bounded:  # the instances of the template are registered with these
            bounds = f"struct {_BOUNDS}{kernel.name} {{ static constexpr long long value = ({kernel.bounds}); }};"
            yield kernel.close + 1, kernel.close + 1, f" {kernel.template_head} {bounds}"
