"""Host code in CUDA C++ text: kernel launches, which no C++ compiler reads.

``kernel<<<grid, block>>>(x)`` becomes
``labkit::launch<decltype(labkit_pick_kernel(x))>(labkit::Config(grid, block))(x)``. Each kernel is followed by a
function ``labkit_pick_kernel`` with the same parameters, whose result's type names the kernel: so C++ itself chooses
among overloads and deduces template arguments. If parameters have default arguments, or an argument is a lambda, the
launch becomes a call of ``labkit_call_kernel``, which has the same parameters. A launch through a pointer becomes
``labkit::launch_pointer``. See ``include/labkit/host.h``.
"""

import re

__all__ = ["MAIN", "launches", "picks"]

MAIN = re.compile(r"\bmain\s*\(")
_NAME = re.compile(r"[A-Za-z_]\w*$")
_VARIABLE = re.compile(r"[^=]*[\s*&>.](\w+)\s*(?:\[[^\]]*\]\s*)*(?:=|$)")  # of a parameter
_TYPES = {"int", "unsigned", "char", "short", "long", "float", "double", "bool", "const", "__restrict__"}
_LAUNCH = re.compile(r"<<<(?!<)")
_IN_MACRO = (
    'static_assert(false, "the CPU engine reads kernel launches in functions, not in macros: write a function, or the '
    'launch itself");'
)


def picks(kernel, names, defined):
    """The text after a kernel's first declaration that lets launches choose it; `names` collects the kernels' names.

    `defined` says whether that is its definition, whose parameters have names.
    """
    key = (kernel.scope, kernel.name, len(kernel.parameters))
    if "<" in kernel.name or key in names.declared:  # a specialization; the definition of what was declared
        return ""
    arguments = _template_arguments(kernel.head) if kernel.template else ""
    if arguments is None:
        return ""
    names.launched.add(kernel.name)
    types = ", ".join(re.sub(r"=.*", "", parameter) for parameter in kernel.parameters)
    pointer = f"static_cast<void (*)({types})>({kernel.name}{arguments})"
    pick = f"labkit::Pick<{pointer}, {str(kernel.template).lower()}>"
    head = " ".join(kernel.head.split())
    given = ", ".join(kernel.parameters)
    text = f"{head} static inline {pick} labkit_pick_{kernel.name}({given}) {{ return {{}}; }}"
    variables = [_variable(parameter) for parameter in kernel.parameters]
    if given and all(variables) and (defined or "=" in given):
        names.called.add(kernel.name)
        if "=" in given:
            names.defaulted.add(kernel.name)
        handed_on = ", ".join(variables)
        text += (f" {head} static inline void labkit_call_{kernel.name}(const labkit::Config &labkit_config, {given}) "
                 f"{{ labkit::launch<{pick}>(labkit_config)({handed_on}); }}")  # fmt: skip
    return f' extern "C++" {{ {text} }}'


def _variable(parameter):
    """The name of a parameter, to hand it on; None if it has none."""
    found = _VARIABLE.match(parameter)
    return found and found[1] not in _TYPES and found[1] + "..." * ("..." in parameter)


def _template_arguments(head):
    """``<T, N, Rest...>`` for ``template <class T, int N = 4, class... Rest>``; None if a parameter has no name."""
    inner, parts, depth, at = head[head.index("<") + 1 : head.rindex(">")], [], 0, 0
    for i, character in enumerate(f"{inner},"):
        depth += {"<": 1, "(": 1, ">": -1, ")": -1}.get(character, 0)
        if character == "," and depth == 0:
            parts.append(inner[at:i])
            at = i + 1
    arguments = []
    for part in parts:
        part = part.partition("=")[0].strip()
        name = _NAME.search(part)
        if not name or name.group() == part or name.group() in ("class", "typename", "int", "unsigned", "bool"):
            return None
        arguments.append(name.group() + "..." * ("..." in part))
    return f"<{', '.join(arguments)}>"


def launches(scan, names, in_kernel, line_of):
    """Edits (start, end, text) for the launches of host code.

    Parameters
    ----------
    scan : labkit.cpu.source.Scan
    names : Names
    in_kernel : function
        Whether a position is in a function that runs on the device; its launches stay as they are.
    line_of : function
        The line of a position in the user's file.
    """
    for match in _LAUNCH.finditer(scan.code):
        if not in_kernel(match.start()) and (found := _launch(scan.code, match.start(), match.end(), names)):
            start, end, new = found
            yield start, end, new + "\n" * scan.text.count("\n", start, end)
    for directive in scan.directives:
        if directive.word == "define" and _LAUNCH.search(directive.rest):
            at, line = directive.end, line_of(directive.end)
            yield at, at, f"\n#line {line}\n{_IN_MACRO}\n#line {line + 1}"


def _launch(code, at, inside, names):
    """The edit for the launch whose ``<<<`` is at `at`: the kernel and its configuration; the arguments stay."""
    start = _kernel_start(code, at)
    close = _level_end(code, inside, ">>>")
    if start is None or close is None:
        return None
    open_ = close + 3
    while code[open_ : open_ + 1].isspace():
        open_ += 1
    end = _level_end(code, open_ + 1, ")") if code[open_ : open_ + 1] == "(" else None
    if end is None:
        return None
    kernel, config = " ".join(code[start:at].split()), " ".join(code[inside:close].split())
    arguments = " ".join(code[open_ + 1 : end].split())
    name = re.match(r"((?:\w+\s*::\s*)*)(\w+)", kernel)
    with_lambda = name and "{" in arguments and name[2] in names.called  # it has no place within decltype
    if with_lambda or (name and name[2] in names.defaulted):
        comma = ", " if arguments else ""
        return start, open_ + 1, f"{name[1]}labkit_call_{kernel[name.start(2):]}(labkit::Config({config}){comma}"
    if name and name[2] in names.launched and "{" not in arguments:
        pick = f"decltype({name[1]}labkit_pick_{name[2]}{kernel[name.end() :]}({arguments}))"
        return start, open_, f"labkit::launch<{pick}>(labkit::Config({config}))"
    return start, open_, f"labkit::launch_pointer({kernel}, labkit::Config({config}))"


def _kernel_start(code, at):
    """Where the expression before `at` begins: ``name``, ``a::name<3, T>``, ``(*pointer)``, ``table[i].f``."""
    start = None
    while True:
        while at and code[at - 1].isspace():
            at -= 1
        if code[at - 1 : at] in _PAIRS:
            closing, at = code[at - 1], _level_start(code, at - 1)
            if at is None or closing == ")":
                return at
            continue
        name = re.search(r"[A-Za-z_]\w*$", code[max(0, at - 256) : at])
        if not name:
            return start
        start = at = at - len(name.group())
        joined = re.search(r"(?:::|\.|->)\s*$", code[max(0, at - 256) : at])
        if not joined:
            return start
        start = at = at - len(joined.group())


_PAIRS = {">": "<", "]": "[", ")": "("}


def _level_start(code, at):
    """The bracket that matches the closing one at `at`."""
    wanted = []
    while at >= 0:
        character = code[at]
        if character in _PAIRS and (character != ">" or not wanted or wanted[-1] == "<"):
            wanted.append(_PAIRS[character])
        elif wanted and character == wanted[-1]:
            wanted.pop()
            if not wanted:
                return at
        at -= 1
    return None


def _level_end(code, at, what):
    """The first `what` from `at` on that is in no bracket."""
    depth = 0
    while at < len(code):
        if depth == 0 and code.startswith(what, at):
            return at
        depth += {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}.get(code[at], 0)
        if depth < 0:
            return None
        at += 1
    return None


class Names:
    """The kernels of a program and of its headers.

    Attributes
    ----------
    launched : set of str
        Names for which there is a ``labkit_pick_``.
    called, defaulted : set of str
        Those for which there is a ``labkit_call_``; of these, the kernels with default arguments.
    declared : set
        (scope, name, number of parameters) of kernels that were declared before they were defined.
    """

    def __init__(self):
        self.launched, self.called, self.defaulted, self.declared = set(), set(), set(), set()
