"""Translate PTX's asynchronous instructions: mbarriers, bulk copies and fences of proxies.

Like those of `hostcuda.frontend.ptx`, they become calls of C++ functions
(``include/hostcuda/ptx_async.h``). A statement that is translated gives the C++ text of operands:
`Operands` says how.
"""

import re
from typing import Protocol


class Operands(Protocol):
    """How the C++ text of operands is made; see ``_Statement`` in `hostcuda.frontend.ptx`."""

    def read(self, text: str) -> str:
        """Return the C++ expression for an operand of PTX that is read, a variable or a number: "p0" for "%0".

        The operand %0 of an asm statement is the variable p0 in the C++ that replaces it.
        `hostcuda.frontend.ptx` implements this method of a protocol.
        """

    def write_to(self, text: str) -> str:
        """Return the C++ expression for an operand of PTX that is written, a variable: "p0" for "%0".

        Raises ValueError for what cannot be written, such as a number or an input. `hostcuda.frontend.ptx`
        implements this method of a protocol.
        """

    def get(self, type_: str, operand: str) -> str:
        """Return the C++ expression for the bits of an operand of PTX, taken as a C++ type such as "unsigned int".

        It is "hostcuda::ptx::get<unsigned int>(p0)" for "%0". `hostcuda.frontend.ptx` implements this
        method of a protocol.
        """

    def put(self, type_: str, operand: str, value: str) -> str:
        """Return the C++ statement that writes a value, an expression of a C++ type, into an operand of PTX.

        ("float", "%0", "a + b") gives "hostcuda::ptx::put<float>(p0, a + b); ".
        `hostcuda.frontend.ptx` implements this method of a protocol.
        """

    def read_address(self, text: str) -> str:
        """Return the C++ arguments for an address of PTX, the pointer and the bytes to add: "p1, 16" for "[%1+16]".

        `hostcuda.frontend.ptx` implements this method of a protocol.
        """


_SCOPE = r"(?:\.(?:cta|cluster))?"
_RELEASE, _ACQUIRE = (rf"(?:\.(?:{order}|relaxed))?{_SCOPE}" for order in ("release", "acquire"))
_SPACE = r"(?P<space>\.shared(?:::cta|::cluster)?)?"
_HINT = r"(?P<hint>\.L2::cache_hint)?"
_WORD, _LONG = "unsigned int", "unsigned long long"

# mbarrier.arrive and its like: name, what it does to the bytes, how it arrives
_ARRIVE = re.compile(
    rf"mbarrier\.arrive(?P<drop>_drop)?(?P<expect>\.expect_tx)?(?P<incomplete>\.noComplete)?{_RELEASE}{_SPACE}\.b64"
)
_BYTES = re.compile(
    rf"mbarrier\.(?P<kind>expect_tx|complete_tx)(?:\.relaxed)?{_SCOPE}{_SPACE}\.b64"
)
_WAIT = re.compile(
    rf"mbarrier\.(?P<kind>test|try)_wait(?P<parity>\.parity)?{_ACQUIRE}{_SPACE}\.b64"
)
_INIT = re.compile(rf"mbarrier\.(?P<kind>init|inval){_SPACE}\.b64")
_PENDING = "mbarrier.pending_count.b64"
_COPIES_ARRIVE = re.compile(rf"cp\.async\.mbarrier\.arrive(?P<noinc>\.noinc)?{_SPACE}\.b64")
_TO_SHARED = re.compile(
    r"cp\.async\.bulk\.shared(?:::cta|::cluster)\.(?P<source>global|shared::cta)\.mbarrier::complete_tx::bytes"
    + r"(?P<multicast>\.multicast::cluster)?"
    + _HINT
)
_TO_GLOBAL = re.compile(rf"cp\.async\.bulk\.global\.shared::cta\.bulk_group{_HINT}")
_OPERATION = r"(?P<operation>add|min|max|inc|dec|and|or|xor)"
_REDUCE = re.compile(
    r"cp\.reduce\.async\.bulk\.global\.shared::cta\.bulk_group"
    + _HINT
    + rf"\.{_OPERATION}(?:\.noftz)?\.(?P<type>u32|s32|u64|s64|b32|b64|f16|bf16|f32|f64)"
)
_TENSOR = r"tensor\.(?P<rank>[1-5])d"
_BOX_TO_SHARED = re.compile(
    rf"cp\.async\.bulk\.{_TENSOR}\.shared(?:::cta|::cluster)\.global(?:\.tile)?\.mbarrier::complete_tx::bytes"
    rf"(?P<multicast>\.multicast::cluster)?{_HINT}"
)
_BOX_TO_GLOBAL = re.compile(
    rf"cp(?P<reduces>\.reduce)?\.async\.bulk\.{_TENSOR}\.global\.shared::cta"
    rf"(?:\.{_OPERATION})?(?:\.tile)?\.bulk_group{_HINT}"
)
_BOX = re.compile(r"\[\s*(?P<map>[^,\s]+)\s*,\s*\{(?P<at>[^{}]*)\}\s*\]")
_ST_ASYNC = re.compile(
    r"st\.async(?:\.weak)?(?:\.shared::cluster)?\.mbarrier::complete_tx::bytes(?:\.shared::cluster)?"
    r"(?:\.v(?P<count>[24]))?\.(?P<type>[busf](?:32|64))"
)
_RED_ASYNC = re.compile(
    r"red\.async(?:\.relaxed)?(?:\.cluster)?(?:\.shared::cluster)?\.mbarrier::complete_tx::bytes(?:\.shared::cluster)?"
    rf"\.{_OPERATION}\.(?P<type>[usb](?:32|64))"
)
_CLUSTER = re.compile(
    r"barrier\.cluster\.(?:(?P<kind>arrive)(?:\.(?P<order>release|relaxed))?|wait(?:\.acquire)?)(?:\.aligned)?"
)
_MAP = re.compile(r"(?P<kind>mapa|getctarank)(?P<space>\.shared::cluster)?\.u(?P<bits>32|64)")
_WAIT_GROUP = re.compile(r"cp\.async\.bulk\.wait_group(?P<read>\.read)?")
_FENCE = re.compile(r"fence\.proxy\.async(?:\.(?P<space>global|shared(?:::cta|::cluster)?))?")
_DEPENDENT = re.compile(r"griddepcontrol\.(?P<kind>launch_dependents|wait)")
# Of no effect here: a cluster's blocks run on one worker, and caches are not modelled.
_NOTHING = re.compile(
    r"(?:cp\.async\.bulk\.)?prefetch(?:u)?(?:\.\w+(?:::\w+)*)+|prefetch\.tensormap"
    r"|fence\.proxy\.tensormap(?:::generic)?\.[\w.:]+"
)
_WGMMA = re.compile(
    r"wgmma\.mma_async\.sync\.aligned\.m64n(?P<n>\d+)k16\.(?P<sums>f32|f16)\.(?P<type>f16|bf16)\.(?P=type)"
)
_WGMMA_WAIT = "wgmma.wait_group.sync.aligned"
_REGISTERS = re.compile(r"setmaxnreg\.(inc|dec)\.sync\.aligned\.u32")
_ELEMENTS = {
    "u32": "unsigned int",
    "s32": "int",
    "b32": "unsigned int",
    "u64": "unsigned long long",
    "s64": "long long",
    "b64": "unsigned long long",
    "f16": "__half",
    "bf16": "__nv_bfloat16",
    "f32": "float",
    "f64": "double",
}
KNOWN = (
    "mbarrier in all its forms, cp.async.mbarrier.arrive, cp.async.bulk between global and shared memory, its "
    "groups, tensors and multicasts, cp.reduce.async.bulk, st.async, red.async, fence.proxy.async, elect.sync, wgmma "
    "of f16 and bf16, setmaxnreg, barrier.cluster, mapa, griddepcontrol"
)


def _place(statement: Operands, match: re.Match, address: str) -> str:
    """Return the C++ expression of a pointer to shared memory: by its 32 bits there, or by a generic address."""
    kind = "shared" if match["space"] else "generic"
    return f"hostcuda::ptx::{kind}_at({statement.read_address(address)})"


def _translate_mbarrier(statement: Operands, name: str, operands: list[str]) -> str | None:
    """Return the C++ statement of an instruction on an mbarrier, or None for another one."""
    if (match := _INIT.fullmatch(name)) and len(operands) == 1 + (match["kind"] == "init"):
        place = _place(statement, match, operands[0])
        count = [statement.get(_WORD, operand) for operand in operands[1:]]
        return f"hostcuda::ptx::mbarrier_{match['kind']}({', '.join([place, *count])}); "
    if (match := _ARRIVE.fullmatch(name)) and (
        len(operands) == 3 or (len(operands) == 2 and not match["expect"])
    ):
        state, address, *counts = operands
        value = statement.get(_WORD, counts[0]) if counts else "1u"
        count, bytes_ = ("1u", value) if match["expect"] else (value, "0u")
        how = "relaxed" if ".relaxed" in name else "once"
        how = "drop" if match["drop"] else "incomplete" if match["incomplete"] else how
        call = (
            f"hostcuda::ptx::mbarrier_arrive({_place(statement, match, address)}, {count}, {bytes_}, "
            f'hostcuda::Arrival::{how}, "{name.partition(".shared")[0].removesuffix(".b64")}")'
        )
        return f"{call}; " if state == "_" else statement.put(_LONG, state, call)
    if (match := _BYTES.fullmatch(name)) and len(operands) == 2:
        place, count = _place(statement, match, operands[0]), statement.get(_WORD, operands[1])
        return f"hostcuda::ptx::mbarrier_{match['kind']}({place}, {count}); "
    if (match := _WAIT.fullmatch(name)) and 3 <= len(operands) <= 4:
        place = _place(statement, match, operands[1])
        phase = statement.get(_WORD if match["parity"] else _LONG, operands[2])
        ending = ".parity" if match["parity"] else ""
        values = f"0, (int)({phase} & 1)" if match["parity"] else f"{phase}, -1"
        call = f'hostcuda::ptx::mbarrier_wait({place}, {values}, "mbarrier.{match["kind"]}_wait{ending}")'
        return statement.put("bool", operands[0], call)
    if name == _PENDING and len(operands) == 2:
        state = statement.get(_LONG, operands[1])
        return statement.put(_WORD, operands[0], f"(unsigned int)({state} >> 32)")
    if (match := _COPIES_ARRIVE.fullmatch(name)) and len(operands) == 1:
        is_counted = "true" if match["noinc"] else "false"
        return f"hostcuda::ptx::cp_async_arrive({_place(statement, match, operands[0])}, {is_counted}); "
    return None


def _read_box(statement: Operands, match: re.Match, text: str) -> str:
    """Return the C++ arguments for a tensor map, the coordinates and their number, of an operand ``[map, {x, y}]``."""
    box = _BOX.fullmatch(text)
    coordinates = [part.strip() for part in box["at"].split(",")] if box else []
    if len(coordinates) != int(match["rank"]):
        raise ValueError(f"{match.string} takes [map, {{{match['rank']} coordinates}}], not {text}")
    at = ", ".join(statement.get("int", part) for part in coordinates)
    return f"{statement.read(box['map'])}, {{{at}}}, {match['rank']}"


def _translate_bulk(statement: Operands, name: str, operands: list[str]) -> str | None:
    """Return the C++ statement of a bulk copy or of what waits for it, or None for another instruction."""

    def place(space: str, operand: str) -> str:
        """Return the C++ expression of a pointer."""
        return f"hostcuda::ptx::{space}_at({statement.read_address(operand)})"

    match = _TO_SHARED.fullmatch(name)
    if match and len(operands) == 4 + bool(match["hint"]) + bool(match["multicast"]):
        source = place(match["source"].partition(":")[0], operands[1])
        blocks = f", {statement.get(_WORD, operands[4])}" if match["multicast"] else ""
        return (
            f"hostcuda::ptx::bulk_to_shared({place('shared', operands[0])}, {source}, "
            f"{statement.get(_WORD, operands[2])}, {place('shared', operands[3])}{blocks}); "
        )
    match = _BOX_TO_SHARED.fullmatch(name)
    if match and len(operands) == 3 + bool(match["hint"]) + bool(match["multicast"]):
        values = _read_box(statement, match, operands[1]), place("shared", operands[0])
        blocks = f", {statement.get(_WORD, operands[3])}" if match["multicast"] else ""
        return f"hostcuda::ptx::box_to_shared({', '.join(values)}, {place('shared', operands[2])}{blocks}); "
    match = _BOX_TO_GLOBAL.fullmatch(name)
    if (
        match
        and len(operands) == 2 + bool(match["hint"])
        and bool(match["reduces"]) == bool(match["operation"])
    ):
        values = f"{_read_box(statement, match, operands[0])}, {place('shared', operands[1])}"
        # and, or and xor are words of C++
        underscore = "_" if match["operation"] in ("and", "or", "xor") else ""
        reduction = f"hostcuda::ptx::reductions::{match['operation'] or 'none'}{underscore}"
        return f"hostcuda::ptx::box_to_global({values}, {reduction}); "
    match = _TO_GLOBAL.fullmatch(name) or _REDUCE.fullmatch(name)
    if match and len(operands) == 3 + bool(match["hint"]):
        places = f"{place('global', operands[0])}, {place('shared', operands[1])}"
        values = f"{places}, {statement.get(_WORD, operands[2])}"
        if match.re is _TO_GLOBAL:
            return f"hostcuda::ptx::bulk_to_global({values}); "
        function = f"hostcuda::ptx::reduce_{match['operation']}<{_ELEMENTS[match['type']]}>"
        return f"hostcuda::ptx::bulk_reduce({values}, hostcuda::ptx::combine<{function}, {_ELEMENTS[match['type']]}>); "
    if (match := _ST_ASYNC.fullmatch(name)) and len(operands) == 3:
        type_ = _ELEMENTS[match["type"]]
        values = [text.strip() for text in operands[1].strip("{} ").split(",")]
        if len(values) != int(match["count"] or 1):
            raise ValueError(f"{name} takes {match['count'] or 1} registers, not {len(values)}")
        words = ", ".join(statement.get(type_, value) for value in values)
        places = f"{place('shared', operands[0])}, {place('shared', operands[2])}"
        return f"hostcuda::ptx::st_async<{type_}>({places}, {words}); "
    if (match := _RED_ASYNC.fullmatch(name)) and len(operands) == 3:
        type_ = _ELEMENTS[match["type"]]
        places = f"{place('shared', operands[0])}, {place('shared', operands[2])}"
        function = f"hostcuda::ptx::reduce_{match['operation']}<{type_}>"
        return f"hostcuda::ptx::red_async<{function}, {type_}>({places}, {statement.get(type_, operands[1])}); "
    if name == "cp.async.bulk.commit_group" and not operands:
        return "hostcuda::commit_bulk(); "
    if (match := _WAIT_GROUP.fullmatch(name)) and len(operands) == 1:
        only_read = "true" if match["read"] else "false"
        return f"hostcuda::await_bulk({statement.get(_WORD, operands[0])}, {only_read}); "
    return None


def _translate_wgmma(statement: Operands, name: str, operands: list[str]) -> str | None:
    """Return the C++ statement of a product of a warpgroup, or of its groups; None for another instruction."""
    if name in ("wgmma.fence.sync.aligned", "wgmma.commit_group.sync.aligned") and not operands:
        return f"hostcuda::ptx::{'_'.join(name.split('.')[:2])}(); "
    if name == _WGMMA_WAIT and len(operands) == 1:
        return f"hostcuda::ptx::wgmma_wait_group({statement.get(_WORD, operands[0])}); "
    if (match := _REGISTERS.fullmatch(name)) and len(operands) == 1:
        takes = "true" if match[1] == "inc" else "false"
        return f"hostcuda::ptx::setmaxnreg({statement.get(_WORD, operands[0])}, {takes}); "
    match = _WGMMA.fullmatch(name)
    if not match or len(operands) < 3:
        return None
    n, (sums, a, b, *rest) = int(match["n"]), operands
    if n % 8 or not 8 <= n <= 256 or (match["type"], match["sums"]) == ("bf16", "f16"):
        raise ValueError(
            f"there is no {name}: n is a multiple of 8 up to 256, and sums of bf16 are f32"
        )
    has_registers = a.startswith("{")
    registers = [text.strip() for text in sums.strip("{} ").split(",")]
    count = n // 2 if match["sums"] == "f32" else n // 4
    # scale-d, imm-scale-a, imm-scale-b, and whether a and b are transposed
    if len(registers) != count or len(rest) != (4 if has_registers else 5):
        kinds = "four" if has_registers else "five"
        raise ValueError(
            f"{name} has {count} registers for the sums, a, b, and {kinds} operands behind them"
        )
    words = [text.strip() for text in a.strip("{} ").split(",")] if has_registers else ["0"] * 4
    fragment = ", ".join(statement.get(_WORD, word) for word in words)
    a_descriptor = "0ull" if has_registers else statement.get(_LONG, a)
    adds, a_scale, b_scale, *turned = (statement.read(text) for text in rest)
    turned = ["0", *turned] if has_registers else turned
    types = f"{n}, {_ELEMENTS[match['type']]}, {'float' if match['sums'] == 'f32' else '__half'}"
    flags = f"{'true' if has_registers else 'false'}, (bool)({adds}), {a_scale}, {b_scale}, {', '.join(turned)}"
    outputs = ", ".join(map(statement.write_to, registers))
    return (
        f"hostcuda::ptx::wgmma<{types}>({{{fragment}}}, {a_descriptor}, {statement.get(_LONG, b)}, {flags}, "
        f"__builtin_FILE(), __builtin_LINE(), {outputs}); "
    )


def _translate_cluster(statement: Operands, name: str, operands: list[str]) -> str | None:
    """Return the C++ statement of a cluster's barrier, or of addresses in its blocks; None for another instruction."""
    if (match := _CLUSTER.fullmatch(name)) and not operands:
        if not match["kind"]:
            return "hostcuda::ptx::cluster_wait(); "
        return (
            f"hostcuda::ptx::cluster_arrive({'false' if match['order'] == 'relaxed' else 'true'}); "
        )
    match = _MAP.fullmatch(name)
    if not match or len(operands) != (3 if match["kind"] == "mapa" else 2):
        return None
    type_ = _LONG if match["bits"] == "64" else _WORD
    values = ", ".join(statement.get(type_, operand) for operand in operands[1:2])
    if match["kind"] == "mapa":
        values += f", {statement.get(_WORD, operands[2])}"
    in_window = "true" if match["space"] else "false"
    return statement.put(
        type_ if match["kind"] == "mapa" else _WORD,
        operands[0],
        f"hostcuda::ptx::{match['kind']}<{type_}, {in_window}>({values})",
    )


def translate(statement: Operands, name: str, operands: list[str]) -> str | None:
    """Translate a PTX instruction for asynchronous work, such as "mbarrier.init"; return C++ with the same effect.

    `name` is the instruction's; `statement` gives the C++ text of its operands. Returns None for
    another kind of instruction. Raises ValueError for operands that the instruction does not have.
    """
    if name.startswith(("mbarrier.", "cp.async.mbarrier.")):
        return _translate_mbarrier(statement, name, operands)
    if (match := _FENCE.fullmatch(name)) and not operands:
        # which memory the fence is for: the one that its name has, or both
        shared, global_ = (
            "false" if match["space"] and not match["space"].startswith(space) else "true"
            for space in ("shared", "global")
        )
        return f"hostcuda_proxy_fence({shared}, {global_}); "
    if name == "fence.mbarrier_init.release.cluster" and not operands:
        return "hostcuda_cluster_fence(); "
    if _NOTHING.fullmatch(name):  # such as "prefetch.global.L2": without effect on the CPU
        return "; "
    # griddepcontrol.wait and .launch_dependents: of a kernel that may start before the one in front of it ends
    if (match := _DEPENDENT.fullmatch(name)) and not operands:
        return f"hostcuda_grid_{match['kind']}(); "
    if (cluster := _translate_cluster(statement, name, operands)) is not None:
        return cluster
    if name.startswith(("wgmma.", "setmaxnreg.")):
        return _translate_wgmma(statement, name, operands)
    if name == "elect.sync" and len(operands) == 2:
        # "lane|predicate": a variable for the number of the elected lane, or "_" for none, and one
        # that says whether it is this lane
        lane, _, predicate = operands[0].partition("|")
        mask = statement.get(_WORD, operands[1])
        result = f"unsigned int elected = hostcuda::ptx::elect({mask}); "
        if lane.strip() != "_":
            result += statement.put(_WORD, lane.strip(), "elected")
        return result + statement.put("bool", predicate.strip(), "elected == hostcuda::lane_id()")
    # a bulk copy, or None: it is no instruction for asynchronous work
    return _translate_bulk(statement, name, operands)
