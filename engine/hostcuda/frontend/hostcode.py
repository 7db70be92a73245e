"""Rewrite the kernel launches in host code of CUDA C++, which no C++ compiler reads.

``kernel<<<grid, block>>>(x)`` becomes
``hostcuda::launch<decltype(hostcuda_pick_kernel(x))>(hostcuda::Config(grid, block))(x)``. Each
kernel is followed by a function ``hostcuda_pick_kernel`` with the same parameters, whose result's
type names the kernel: so C++ itself chooses among overloads and deduces template arguments. If
parameters have default arguments, or an argument is a lambda, the launch becomes a call of
``hostcuda_call_kernel``, which has the same parameters. A launch through a pointer becomes
``hostcuda::launch_pointer``. See ``include/hostcuda/host.h``.
"""

import re
from collections.abc import Iterator

from hostcuda.frontend.scan import Kernel, Scan, split_parameters
from hostcuda.frontend.tokens import (
    Edit,
    apply_edits,
    find_angle_end,
    find_closing_parenthesis,
    find_opening,
    split_spans,
    walk,
)

MAIN = re.compile(r"\bmain\s*\(")
# of a file without it, such as LeetGPU's: a host function that launches kernels itself
_ENTRY = re.compile(r'\bextern\s*"[^"]*"\s*void\s+(\w+)\s*\(')
# of a template's parameter
_NAME = re.compile(r"(?P<type>(?:.*(?:[\s*&>]|\.\.\.))?)(?P<name>[A-Za-z_]\w*)$")
_TYPE_WORDS = {
    "class",
    "typename",
    "auto",
    "const",
    "volatile",
    "__restrict__",
    "int",
    "unsigned",
    "char",
    "short",
    "long",
    "float",
    "double",
    "bool",
}
_VARIABLE = re.compile(r"[^=]*[\s*&>.](\w+)\s*(?:\[[^\]]*\]\s*)*(?:=|$)")  # of a parameter
# preprocessors may put a space between << and <
LAUNCH = re.compile(r"(?<!operator)(?<!operator )<<\s?<(?!<)")
_CONFIGURED_OR_BRACKET = r">>\s?>|[][(){}]"
_LAMBDA = re.compile(r"(?<![\w)\]\s])\s*\[(?!\[)")  # a "[" that follows no operand
_NO_TYPE = re.compile(
    r"(?:\s|\b(?:const|volatile|struct|class|enum|typename|__grid_constant__|__restrict__)\b)*$"
)


def find_entry(scan: Scan) -> tuple[str, tuple[str, ...]]:
    """Return (name, parameters) of the host function that launches the kernels of a file without ``main``.

    It is ``extern "C" void solve(...)`` as LeetGPU asks for it, or the only function of that form.
    A parameter is a declaration: "float *x". Returns ("", ()) if there is no such function.
    """
    if MAIN.search(scan.code) or not LAUNCH.search(scan.code):
        return "", ()
    found = {}
    for match in _ENTRY.finditer(scan.code):
        close = find_closing_parenthesis(scan.code, match.end() - 1)
        if close and scan.code[close + 1 :].lstrip().startswith("{"):
            found[match[1]] = split_parameters(scan.code[match.end() : close])
    if "solve" in found:
        return "solve", found["solve"]
    return next(iter(found.items())) if len(found) == 1 else ("", ())


def write_picks(kernel: Kernel, names: "Names") -> str:
    """Return C++ functions by which a launch finds a kernel by its name and the types of its arguments.

    Kernels may be overloaded or templates: C++ chooses one of these functions as it would choose
    the kernel. The text goes behind the kernel's declaration; it is "" if the kernel needs none.
    ``hostcuda_pick_f`` is used for its result type alone; ``hostcuda_call_f`` launches the kernel `f`
    with its own arguments. `names` notes which kernels were declared, and which have these functions.
    """
    key = kernel.scope, kernel.name, len(kernel.parameters)
    # it has a body: without one, both positions are that of the semicolon
    defined = kernel.open < kernel.close
    # none for a specialization, or the definition of what was declared
    if "<" in kernel.name or key in names.declared:
        return ""
    if not defined:
        names.declared.add(key)
    edits, arguments = _name_parameters(kernel.template_head, 0) if kernel.template else ([], "")
    # the template's parameters are not understood: it is launched through a pointer
    if arguments is None:
        return ""
    head = apply_edits(kernel.template_head, edits)  # its parameters without a name get one
    names.launched.add(kernel.name)
    pick = f"hostcuda::Pick<{write_pointer(kernel, arguments)}>"
    parameters = [
        _add_name(parameter, f"hostcuda_{i}") for i, parameter in enumerate(kernel.parameters)
    ]
    declarations, variables = (
        ", ".join(parameters),
        [_find_name(parameter) for parameter in parameters],
    )
    text = (
        f"{head} static inline {pick} hostcuda_pick_{kernel.name}({declarations}) {kernel.requires} "
        "{ return {}; }"
    )
    # The launch is written inside of a function where an argument is a lambda, which has another type each
    # time it is written, or where C++ has to fill in default arguments: those may stand at a declaration.
    # A parameter with the kernel's name would hide the kernel in it.
    if (
        declarations
        and all(variables)
        and kernel.name not in variables
        and (defined or "=" in declarations)
    ):
        names.called.add(kernel.name)
        if "=" in declarations:
            names.defaulted.add(kernel.name)
        passed = ", ".join(variables)
        text += (
            f" {head} static inline void hostcuda_call_{kernel.name}(const hostcuda::Config &hostcuda_config, "
            f"{declarations}) {kernel.requires} {{ hostcuda::launch<{pick}>(hostcuda_config)({passed}); }}"
        )
    return f' extern "C++" {{ {text} }}'


def write_pointer(kernel: Kernel, arguments: str) -> str:
    """Return C++ for a pointer to a kernel: "static_cast<void (*)(float *)>(f<T>)"; its type selects the overload.

    `arguments` are those of the template, "<T>", or "".
    """
    types = ", ".join(map(remove_default, kernel.parameters))
    return f"static_cast<void (*)({types})>({kernel.name}{arguments})"


def register_instances(kernel: Kernel, code: str) -> list[Edit]:
    """Return edits (start, end, text) of a kernel template, by which each of its instances registers itself.

    Template parameters without a name get one. `code` is the text that has the kernel.
    """
    edits, arguments = _name_parameters(code, kernel.start)
    if arguments is None:  # the template's parameters are not understood
        return []
    # A static variable whose first value registers the instance; the body names it, so that each
    # instance has it. 1024: CUDA's most threads per block, for a kernel without __launch_bounds__.
    of_template = f"hostcuda::OfTemplate<{write_pointer(kernel, arguments)}>"
    text = f" (void)&{of_template}::template registered<({kernel.bounds or 1024})>;"
    return [*edits, (kernel.open + 1, kernel.open + 1, text)]


def _find_name(parameter: str):
    """Return the name in a parameter's declaration, with ``...`` for a pack, or None if it has none."""
    match = _VARIABLE.match(parameter)
    if not match or match[1] in _TYPE_WORDS or _NO_TYPE.match(parameter, 0, match.start(1)):
        return None
    return match[1] + "..." * ("..." in parameter)


def _add_name(parameter: str, name: str):
    """Return a parameter's declaration, with this name if it has none and is no array or function."""
    declaration = remove_default(parameter)
    if _find_name(declaration) or declaration.endswith((")", "]")):
        return parameter
    return f"{declaration} {name}{parameter[len(declaration) :]}"


def remove_default(parameter: str) -> str:
    """Return a parameter's declaration without its default argument: "int n" for "int n = 3"."""
    return parameter[slice(*split_spans(parameter, "=")[0])].rstrip()


def _name_parameters(code: str, at: int):
    """Return (edits, arguments) of the template that begins at `at`.

    The edits give a name to each parameter that has none; the arguments are the text ``<T, N, Rest...>``
    of all names. It is ([], None) if a parameter is not understood.
    """
    open_, edits, arguments = code.index("<", at), [], []
    for start, end in split_spans(code, ",", open_ + 1, find_angle_end(code, open_)):
        declaration = remove_default(code[start:end])
        name = _NAME.search(" ".join(declaration.split()))
        if name and name["type"].strip() and name["name"] not in _TYPE_WORDS:
            argument = name["name"]
        elif declaration.endswith(")"):  # a pointer to a function
            return [], None
        else:
            argument, end = f"hostcuda_{len(arguments)}", start + len(declaration)
            edits.append((end, end, f" {argument}"))
        arguments.append(argument + "..." * ("..." in declaration))
    return edits, f"<{', '.join(arguments)}>"


def edit_launches(scan: Scan, names: "Names") -> Iterator[Edit]:
    """Yield edits (start, end, text) that turn the launches ``f<<<grid, block>>>(...)`` of host code into C++ calls.

    `names` has the program's kernels.
    """
    for match in LAUNCH.finditer(scan.code):
        if not scan.on_device(match.start()) and (
            edit := _edit_launch(scan.code, match.start(), match.end(), names)
        ):
            start, end, new = edit
            # the lines behind the launch keep their numbers
            yield start, end, new + scan.newlines(start, end)


def _edit_launch(code: str, at: int, inside: int, names: "Names"):
    """Return the edit (start, end, text) of ``kernel<<<config>>>(``, whose ``<<<`` is code[at:inside], or None."""
    start = _find_kernel_start(code, at)
    close = _find_configuration_end(code, inside)
    opening = close and re.compile(r"\s*\(").match(code, close.end())
    end = opening and find_closing_parenthesis(code, close.end())
    if start is None or not end:
        return None
    after = opening.end()  # behind the parenthesis: the new text has one of its own
    kernel, config = (
        " ".join(code[start:at].split()),
        " ".join(code[inside : close.start()].split()),
    )
    arguments = " ".join(code[after:end].split())
    name = re.fullmatch(r"((?:\w+\s*::\s*)*)(\w+)((?:\s*<.*>)?)", kernel)
    # not within decltype(hostcuda_pick_...): each lambda has its own type
    has_lambda = bool(_LAMBDA.search(arguments))
    with_lambda = name and has_lambda and name[2] in names.called
    if with_lambda or (name and name[2] in names.defaulted):
        comma = ", " if arguments else ""
        return (
            start,
            after,
            f"{name[1]}hostcuda_call_{kernel[name.start(2) :]}(hostcuda::Config({config}){comma}",
        )
    if name and name[2] in names.launched and not has_lambda:
        pick = f"decltype({name[1]}hostcuda_pick_{name[2]}{name[3]}({arguments}))"
        return start, after, f"hostcuda::launch<{pick}>(hostcuda::Config({config}))("
    return start, after, f"hostcuda::launch_pointer({kernel}, hostcuda::Config({config}))("


def _find_kernel_start(code: str, at: int):
    """Return where the expression that ends before `at` begins, such as ``f``, ``a::f<3, T>``, ``(*p)`` or ``t[i].f``.

    None if there is no such expression.
    """
    start = start_before = None  # start_before: without the parentheses that were skipped last
    while True:
        at = len(code[:at].rstrip())
        if code[at - 1 : at] in (">", "]", ")"):
            start_before, opening = start, find_opening(code, at - 1)
            if opening is None:
                return start
            start, at = opening if code[at - 1] == ")" else start, opening
            continue
        # 256: longer than names are
        name = re.search(r"[A-Za-z_]\w*$", code[max(0, at - 256) : at])
        if not name or name.group() in ("return", "else", "do"):
            return start
        # the parentheses were those of a condition
        if name.group() in ("if", "for", "while", "switch"):
            return start_before
        start = at = at - len(name.group())
        joined = re.search(r"(?:::|\.|->)\s*$", code[max(0, at - 256) : at])
        if not joined:
            return start
        start = at = at - len(joined.group())


def _find_configuration_end(code: str, at: int):
    """Return the match of the first ``>>>`` from position `at` on that is in no bracket, or None."""
    for match, depth, _ in walk(code, _CONFIGURED_OR_BRACKET, at):
        if depth < 0:  # the bracket around the launch closes
            return None
        if depth == 0 and match[0][0] == ">":
            return match
    return None


class Names:
    """The kernels of a program and of its headers."""

    def __init__(self):
        self.launched = set()  # names for which there is a ``hostcuda_pick_``
        self.called = set()  # names for which there is a ``hostcuda_call_``
        self.defaulted = set()  # of these, the kernels with default arguments
        # (scope, name, number of parameters) of kernels declared before they were defined
        self.declared = set()
