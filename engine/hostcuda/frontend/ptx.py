"""Translate inline PTX: known instructions become calls of C++ functions (``include/hostcuda/ptx.h``)."""

import re
from dataclasses import dataclass

from hostcuda.frontend import ptx_async
from hostcuda.frontend.tokens import split_spans


@dataclass(frozen=True)
class Operand:
    """An operand of an asm statement, such as ``"=r"(x)``."""

    letter: str  # the constraint's, such as "r"
    output: bool
    start: int  # the span of its expression in the source
    end: int


_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_TYPES = {  # PTX's types in C++
    "pred": "bool",
    "b8": "unsigned char",
    "u8": "unsigned char",
    "s8": "signed char",
    "b16": "unsigned short",
    "u16": "unsigned short",
    "s16": "short",
    "b32": "unsigned int",
    "u32": "unsigned int",
    "s32": "int",
    "b64": "unsigned long long",
    "u64": "unsigned long long",
    "s64": "long long",
    "f32": "float",
    "f64": "double",
}
_SPECIAL = {  # special registers, without the %, as C++ expressions
    "laneid": "hostcuda::lane_id()",
    "warpid": "hostcuda::ptx::thread_number() / 32",
    "nwarpid": "(hostcuda::ptx::block_threads() + 31) / 32",
    "smid": "0u",
    "nsmid": "1u",
    "lanemask_eq": "(1u << hostcuda::lane_id())",
    "lanemask_lt": "((1u << hostcuda::lane_id()) - 1)",
    "lanemask_le": "((2u << hostcuda::lane_id()) - 1)",
    "lanemask_ge": "~((1u << hostcuda::lane_id()) - 1)",
    "lanemask_gt": "~((2u << hostcuda::lane_id()) - 1)",
    "clock": "(unsigned)clock64()",
    "clock64": "clock64()",
    "globaltimer": "hostcuda::ptx::nanoseconds()",
    "cluster_ctarank": "__clusterRelativeBlockRank()",
    "cluster_nctarank": "__clusterSizeInBlocks()",
    **{
        f"{name}.{axis}": f"{variable}.{axis}"
        for axis in "xyz"
        for name, variable in (
            ("tid", "threadIdx"),
            ("ntid", "blockDim"),
            ("ctaid", "blockIdx"),
            ("nctaid", "gridDim"),
            ("cluster_ctaid", "__clusterRelativeBlockIdx()"),
            ("cluster_nctaid", "__clusterDim()"),
            ("clusterid", "__clusterIdx()"),
            ("nclusterid", "__clusterGridDimInClusters()"),
        )
    },
}

# Products of matrices: name -> (depth k, type of elements, type of sums, number of registers of A,
# of B, constraints of the sums' registers). Of the constraints, "f" is for a float and "r" for 32
# bits: two halves, or one number in TF32.
_PRODUCTS = {
    f"mma.sync.aligned.m16n8k{k}.row.col.{sums}.{name}.{name}.{sums}": (
        k,
        element,
        type_,
        a,
        b,
        letters,
    )
    for name, element, depths in (
        ("f16", "__half", {16: (4, 2), 8: (2, 1)}),
        ("bf16", "__nv_bfloat16", {16: (4, 2), 8: (2, 1)}),
        ("tf32", "nvcuda::wmma::precision::tf32", {8: (4, 2), 4: (2, 1)}),
    )
    for k, (a, b) in depths.items()
    for sums, type_, letters in (("f32", "float", "ffff"), ("f16", "__half", "rr"))
    if sums == "f32" or name == "f16"
}

# Further instructions with one result: a regular expression of the name, the type of the result,
# the number of inputs, and a format of the C++ expression: {value} is the first input, {words} are
# all inputs as 32-bit words.
_FORMULAS = (
    (
        r"cvta\.to\.shared\.u(?:64|32)",
        "size_t",
        1,
        "__cvta_generic_to_shared((const void *)(size_t){value})",
    ),
    (r"cvt\.rna\.tf32\.f32", "float", 1, "nvcuda::wmma::__float_to_tf32({value})"),
    (
        r"lop3\.b32",
        "unsigned int",
        4,
        "hostcuda::ptx::lop3({words[0]}, {words[1]}, {words[2]}, {words[3]})",
    ),
    (
        r"vabsdiff4\.u32\.u32\.u32\.add",
        "unsigned int",
        3,
        "__vsadu4({words[0]}, {words[1]}) + {words[2]}",
    ),
    (r"prmt\.b32", "unsigned int", 3, "hostcuda::ptx::prmt({words[0]}, {words[1]}, {words[2]})"),
    (r"bfe\.u32", "unsigned int", 3, "hostcuda::ptx::bfe({words[0]}, {words[1]}, {words[2]})"),
    (r"bfe\.s32", "int", 3, "hostcuda::ptx::bfe((int){words[0]}, {words[1]}, {words[2]})"),
    (
        r"bfi\.b32",
        "unsigned int",
        4,
        "hostcuda::ptx::bfi({words[0]}, {words[1]}, {words[2]}, {words[3]})",
    ),
    (r"popc\.b32", "unsigned int", 1, "__popc({words[0]})"),
    (r"clz\.b32", "unsigned int", 1, "__clz((int){words[0]})"),
    (r"brev\.b32", "unsigned int", 1, "__brev({words[0]})"),
    (r"mul\.hi\.u32", "unsigned int", 2, "__umulhi({words[0]}, {words[1]})"),
    (r"mul\.hi\.s32", "int", 2, "__mulhi((int){words[0]}, (int){words[1]})"),
    (
        r"mul\.wide\.u32",
        "unsigned long long",
        2,
        "(unsigned long long){words[0]} * {words[1]}",
    ),
    (r"mul\.wide\.s32", "long long", 2, "(long long)(int){words[0]} * (int){words[1]}"),
    (
        r"shf\.l\.wrap\.b32",
        "unsigned int",
        3,
        "__funnelshift_l({words[0]}, {words[1]}, {words[2]})",
    ),
    (
        r"shf\.r\.wrap\.b32",
        "unsigned int",
        3,
        "__funnelshift_r({words[0]}, {words[1]}, {words[2]})",
    ),
)

# Shuffles, votes and atomic operations: PTX's name -> that of the function in CUDA C++.
_SHUFFLES = {"bfly": "xor_", "up": "up_", "down": "down_", "idx": ""}
_SHUFFLE = re.compile(rf"shfl\.sync\.(?P<kind>{'|'.join(_SHUFFLES)})\.b32")
_VOTE = re.compile(r"vote\.sync\.(?P<kind>ballot\.b32|(?P<of>all|any)\.pred)")
_ATOMICS = {
    **{name: name.capitalize() for name in ("add", "min", "max", "and", "or", "xor", "inc", "dec")},
    "exch": "Exch",
    "cas": "CAS",
}
_ATOMIC = re.compile(
    r"(?:atom|(?P<red>red))(?:\.relaxed)?(?:\.(?P<scope>cta|gpu|sys))?(?:\.(?P<space>global|shared)(?:::cta)?)?"
    rf"\.(?P<name>{'|'.join(_ATOMICS)})\.(?P<type>u32|s32|b32|u64|b64|f32|f64)"
)
_SCOPES = {"cta": "_block", "sys": "_system"}
# Sums and differences of 32 bits with a carry, which the next instruction of the asm statement takes.
_CARRY = re.compile(r"(?P<name>add|sub)(?P<takes>c)?(?P<gives>\.cc)?\.[us]32")

# Operations with as many inputs as their functions have parameters, on values of the type at the
# end of their names.
_INPUTS = {
    "mov": 1,
    "not": 1,
    "neg": 1,
    "abs": 1,
    "add": 2,
    "sub": 2,
    "mul": 2,
    "mul.lo": 2,
    "min": 2,
    "max": 2,
    "and": 2,
    "or": 2,
    "xor": 2,
    "shl": 2,
    "shr": 2,
    "mad.lo": 3,
    "fma": 3,
    **{
        f"{name}.approx": 1 for name in ("ex2", "lg2", "rcp", "rsqrt", "sqrt", "sin", "cos", "tanh")
    },
    **{f"setp.{relation}": 2 for relation in ("eq", "ne", "lt", "le", "gt", "ge")},
}
_OPERATION = re.compile(
    rf"(?P<name>{'|'.join(map(re.escape, sorted(_INPUTS, key=len, reverse=True)))})(?:\.rn)?(?P<flushes>\.ftz)?"
    rf"\.(?P<type>{'|'.join(_TYPES)})"
)
_CONVERSION = re.compile(r"cvt\.(?P<to>[us](?:8|16|32|64))\.(?P<source>[us](?:8|16|32|64))")
_WITHOUT_OPERANDS = {  # instructions without operands
    "trap": "__trap()",
    **dict.fromkeys(("membar.cta", "fence.acq_rel.cta", "fence.sc.cta"), "__threadfence_block()"),
    **dict.fromkeys(("membar.gl", "fence.acq_rel.gpu", "fence.sc.gpu"), "__threadfence()"),
    **dict.fromkeys(
        ("fence.acq_rel.cluster", "fence.sc.cluster"),
        "(__threadfence(), hostcuda_cluster_fence())",
    ),
    **dict.fromkeys(("membar.sys", "fence.acq_rel.sys", "fence.sc.sys"), "__threadfence_system()"),
}
_BARRIER = re.compile(r"bar(?:rier)?(?:\.cta)?\.(?P<kind>sync|arrive)(?:\.aligned)?")
_COPY = re.compile(r"cp\.async\.c[ag]\.shared(?:::cta)?\.global(?:\.L2::\d+B)?")
_ACCESS = re.compile(
    r"(?P<kind>ld|st)\.(?P<space>global|shared)(?:::cta|::cluster)?(?:\.(?:nc|c[agsv]|lu|w[bt]|L[12]::\w+))*"
    rf"(?:\.v(?P<count>[24]))?\.(?P<type>{'|'.join(_TYPES)})"
)
_MATRICES = re.compile(
    r"(?P<kind>ld|st)matrix\.sync\.aligned\.m8n8\.x(?P<count>[124])(?P<turned>\.trans)?\.shared(?:::cta)?\.b16"
)
_KNOWN_INSTRUCTIONS = (
    "mma.sync.aligned of f16, bf16 and tf32 (m16n8k16, k8, k4), ldmatrix, stmatrix, cp.async, bar.sync, membar and "
    f"fence, ld and st, {', '.join(_INPUTS)}, selp, lop3, prmt, bfe, bfi, popc, clz, brev, mul.hi, mul.wide and "
    "shf.wrap of 32 bits, add.cc, addc, sub.cc and subc of 32 bits, shfl.sync, vote.sync, atom and red, "
    "trap, vabsdiff4.u32.u32.u32.add, cvta.to.shared, "
    f"cvt.rna.tf32, cvt of integers, {ptx_async.KNOWN}, labels and bra, special registers such as %laneid"
)

_LITERAL = re.compile(r"-?(?:0[xX][\da-fA-F]+|\d+)[uU]?")
_FLOAT = re.compile(r"0(?:f(?P<single>[\da-fA-F]{8})|d(?P<double>[\da-fA-F]{16}))", re.IGNORECASE)


def _split(text: str):
    """Return the list of an instruction's operands: the parts of the text between commas outside of brackets."""
    parts = (text[start:end].strip() for start, end in split_spans(text, ",", angles=False))
    return [part for part in parts if part]


_CARRY_FLAG = "hostcuda_carry"


class _Statement:
    """An asm statement that is being translated, with its list of `Operand`s.

    Its methods return C++ text with functions of ptx.h. They get the name of an `instruction`
    without its operands, and the texts of its `operands`. They raise ValueError, with the message
    for the user, for what is not understood.
    """

    def __init__(self, operands: list[Operand]):
        self.operands = operands
        self.declared = {}  # registers that it declares: name -> PTX type

    def read(self, text: str):
        """Return the C++ expression of an operand that is read: ``%0``, a declared or special register, a number."""
        if (number := re.fullmatch(r"%(\d+)", text)) and int(number[1]) < len(self.operands):
            return f"p{number[1]}"
        if text in self.declared:
            return name_register(text)
        if text[:1] == "%" and text.lstrip("%") in _SPECIAL:
            return _SPECIAL[text.lstrip("%")]
        if _LITERAL.fullmatch(text):
            return text
        if literal := _FLOAT.fullmatch(text):  # 0f3F800000: the bits of 1
            if literal["single"]:
                return f"__builtin_bit_cast(float, 0x{literal['single']}u)"
            return f"__builtin_bit_cast(double, 0x{literal['double']}ull)"
        raise ValueError(f"the CPU engine cannot read the operand {text or '(none)'} of inline PTX")

    def write_to(self, text: str):
        """Return the C++ expression of an operand that is written; ValueError for an input, and what is no register."""
        number = re.fullmatch(r"%(\d+)", text)
        if (
            number
            and int(number[1]) < len(self.operands)
            and not self.operands[int(number[1])].output
        ):
            raise ValueError(
                f"inline PTX writes {text}, which is not an output of its asm statement"
            )
        if not number and text not in self.declared:
            raise ValueError(f"inline PTX cannot write {text or '(none)'}")
        return self.read(text)

    def read_address(self, text: str):
        """Return the C++ arguments for an address such as ``[%1 + 16]``: the pointer, and the bytes to add."""
        match = re.fullmatch(r"\[\s*([^\[\]+]+?)\s*(?:\+\s*(-?\w+)\s*)?\]", text)
        if not match:
            raise ValueError(f"an address of inline PTX is in brackets, not {text or '(none)'}")
        return f"{self.read(match[1])}, {match[2] or 0}"

    def declare(self, text: str):
        """Add the registers in ``.reg .type name, name<number>`` to `declared`."""
        match = re.fullmatch(r"\.reg\s+\.(\w+)\s+(.*)", text)
        if not match or match[1] not in _TYPES:
            raise ValueError(f"the CPU engine cannot read the inline PTX {text}")
        names = []
        for name in _split(match[2]):
            numbered = re.fullmatch(r"(%?\w+)<(\d+)>", name)  # r<4> declares r0 to r3
            names += [f"{numbered[1]}{i}" for i in range(int(numbered[2]))] if numbered else [name]
        if not all(re.fullmatch(r"[A-Za-z_$%][\w$]*", name) for name in names):
            raise ValueError(f"the CPU engine cannot read the inline PTX {text}")
        for name in names:
            if self.declared.setdefault(name, match[1]) != match[1]:
                raise ValueError(
                    f"the CPU engine cannot read two registers {name} in one asm statement"
                )

    def translate_product(self, instruction: str, text: str):
        """Return the C++ statement for a product of matrices, a key of `_PRODUCTS`; `text` has its operands.

        These have to be four groups of registers, ``{%0, %1}, {%2, %3}, {%4}, {%5, %6}``: D, A, B
        and C of D = AB + C.
        """
        # a, b: numbers of registers of A and B; sums: constraints of those of D and C, such as "ffff"
        k, element, type_, a, b, sums = _PRODUCTS[instruction]
        letters, operands = (sums, "r" * a, "r" * b, sums), dict(enumerate(self.operands))
        # the operands' numbers: [[0, 1], [2, 3], [4], [5, 6]]
        groups = [[int(n) for n in re.findall(r"%(\d+)", group)] for group in text.split("}")[:-1]]
        # the groups as text again: another text has something else in it
        understood = ",".join("{" + ",".join(f"%{n}" for n in group) + "}" for group in groups)
        given = tuple(
            "".join(operands[n].letter for n in group if n in operands) for group in groups
        )
        is_text_understood = understood == text.replace(" ", "")
        if (
            not is_text_understood
            or given != letters
            or not all(operands[n].output for n in groups[0])
        ):
            wanted = ", ".join(
                "{" + ", ".join(f'"{letter}"' for letter in group) + "}" for group in letters
            )
            raise ValueError(
                f"{instruction} takes the registers {wanted}, of which the first group are outputs"
            )
        # A constraint's letter is also the function that reads a variable's bits.
        output, *inputs = (
            ", ".join(f"hostcuda::ptx::{operands[n].letter}(p{n})" for n in group)
            for group in groups
        )
        arguments = ", ".join(f"{{{group}}}" for group in inputs)
        return f"hostcuda::ptx::mma<{k}, {element}, {type_}>({arguments}).to({output}); "

    def translate_access(self, match: re.Match, instruction: str, operands: list[str]):
        """Return the C++ statement for a load or store, a match of `_ACCESS`; `operands`: (registers, address)."""
        names, type_, count = (
            _split(operands[0].strip("{}")),
            _TYPES[match["type"]],
            int(match["count"] or 1),
        )
        if len(names) != count:
            raise ValueError(f"{instruction} takes {count} registers, not {len(names)}")
        place = f"hostcuda::ptx::{match['space']}_at({self.read_address(operands[1])})"
        if match["kind"] == "st":
            return f"hostcuda::ptx::store<{type_}>({place}, {', '.join(map(self.read, names))}); "
        return f"hostcuda::ptx::load<{type_}, {count}>({place}).to({', '.join(map(self.write_to, names))}); "

    def translate_operation(self, match: re.Match, instruction: str, operands: list[str]):
        """Return the C++ statement for an operation on values of one type, a match of `_OPERATION` such as add.s32."""
        name, type_ = match["name"], _TYPES[match["type"]]
        # mov.b64 %0, {a, b}
        if name == "mov" and len(operands) == 2 and "{" in instruction + "".join(operands):
            if operands[0].startswith("{"):
                parts = ", ".join(map(self.write_to, _split(operands[0].strip("{}"))))
                return f"hostcuda::ptx::unpack<{type_}>({self.read(operands[1])}, {parts}); "
            parts = ", ".join(map(self.read, _split(operands[1].strip("{}"))))
            return self.put(type_, operands[0], f"hostcuda::ptx::pack<{type_}>({parts})")
        if len(operands) != 1 + _INPUTS[name]:
            raise ValueError(
                f"{instruction} takes {1 + _INPUTS[name]} operands, not {len(operands)}"
            )
        result_type = "bool" if name.startswith("setp") else type_
        # is_eq_ of setp.eq
        function = re.sub(r"\.(?:lo|approx)", "", name.replace("setp.", "is_")) + "_"
        is_shift = name in ("shl", "shr")  # its second input, the count, always has 32 bits
        values = [
            self.get("unsigned int" if is_shift and i else type_, text)
            for i, text in enumerate(operands[1:])
        ]
        if match["flushes"] and type_ != "float":
            raise ValueError(f"{instruction}: .ftz is for f32 only")
        if match["flushes"]:
            values = [f"hostcuda::flush({value})" for value in values]
        result = f"hostcuda::ptx::{function}<{type_}>({', '.join(values)})"
        if match["flushes"] and result_type == "float":
            result = f"hostcuda::flush({result})"
        return self.put(result_type, operands[0], result)

    def get(self, type_: str, operand: str):
        """Return the C++ expression of an operand's bits as a C++ type, such as "float"."""
        return f"hostcuda::ptx::get<{type_}>({self.read(operand)})"

    def put(self, type_: str, operand: str, value: str):
        """Return the C++ statement that writes the bits of `value`, an expression of this type, into an operand."""
        return f"hostcuda::ptx::put<{type_}>({self.write_to(operand)}, {value}); "

    def translate_matrices(self, match: re.Match, instruction: str, operands: list[str]):
        """Return the C++ statement that loads or stores one, two or four 8x8 matrices; `match`: of `_MATRICES`."""
        is_load = match["kind"] == "ld"
        registers, address = operands if is_load else operands[::-1]
        names = _split(registers.strip("{}"))
        if len(names) != int(match["count"]):
            uses = "writes" if is_load else "reads"
            raise ValueError(f"{instruction} {uses} {match['count']} registers, not {len(names)}")
        is_transposed = "true" if match["turned"] else "false"
        place = f"hostcuda::ptx::shared_at({self.read_address(address)})"
        call = f"hostcuda::ptx::{match['kind']}matrix<{match['count']}, {is_transposed}>"
        if not is_load:
            words = ", ".join(self.get("unsigned int", name) for name in names)
            return f"{call}({place}, {{{words}}}); "
        # r: as registers of 32 bits
        written = ", ".join(f"hostcuda::ptx::r({self.write_to(name)})" for name in names)
        return f"{call}({place}).to({written}); "

    def translate_copy(self, operands: list[str]):
        """Return the C++ statement for cp.async, with operands ``[destination], [source], size[, source_size]``."""
        destination, source = (self.read_address(operand) for operand in operands[:2])
        # without source_size, all bytes of the size are copied: the third operand is the last
        sizes = (self.get("unsigned int", size) for size in (operands[2], operands[-1]))
        places = f"hostcuda::ptx::shared_at({destination}), hostcuda::ptx::global_at({source})"
        return f"hostcuda::ptx::cp_async({places}, {', '.join(sizes)}); "

    def translate_atomic(self, match: re.Match, operands: list[str]):
        """Return the C++ statement for atom and red, a match of `_ATOMIC`; red has no result."""
        # atom: result, [address], values; red: [address], values
        result = "" if match["red"] else operands[0]
        address, *values = operands if match["red"] else operands[1:]
        type_ = _TYPES[match["type"]]
        space = match["space"] or "generic"
        place = f"({type_} *)hostcuda::ptx::{space}_at({self.read_address(address)})"
        inputs = ", ".join(self.get(type_, value) for value in values)
        function = f"atomic{_ATOMICS[match['name']]}{_SCOPES.get(match['scope'], '')}"
        call = f"{function}({place}, {inputs})"
        return f"{call}; " if match["red"] else self.put(type_, result, call)

    def translate(self, instruction: str, text: str):
        """Return the C++ statement for an instruction such as "add.s32" with operands, a `text` such as "%0, %1, 2".

        ValueError if the engine does not know the instruction, or if it has other operands.
        """
        operands = _split(text)
        if instruction in _PRODUCTS:
            return self.translate_product(instruction, text)
        if instruction in _WITHOUT_OPERANDS and not operands:
            return f"{_WITHOUT_OPERANDS[instruction]}; "
        if re.fullmatch(r"cp\.async\.(?:commit_group|wait_all|wait_group)", instruction):
            return f"hostcuda::ptx::{instruction.replace('.', '_')}({', '.join(map(self.read, operands))}); "
        if (match := _BARRIER.fullmatch(instruction)) and 1 <= len(operands) <= 2:
            values = [self.get("unsigned int", operand) for operand in operands]
            # barrier, threads: without a number of threads, 0 stands for all of the block
            return f"hostcuda::ptx::bar_{match['kind']}({', '.join([*values, '0'][:2])}); "
        if instruction == "bar.warp.sync" and len(operands) == 1:
            return f"__syncwarp({self.get('unsigned int', operands[0])}); "
        if _COPY.fullmatch(instruction) and 3 <= len(operands) <= 4:
            return self.translate_copy(operands)
        if (match := _ACCESS.fullmatch(instruction)) and len(operands) == 2:
            # a store has its address first
            registers_first = operands if match["kind"] == "ld" else operands[::-1]
            return self.translate_access(match, instruction, registers_first)
        if (match := _MATRICES.fullmatch(instruction)) and len(operands) == 2:
            return self.translate_matrices(match, instruction, operands)
        for pattern, type_, count, form in _FORMULAS:
            if re.fullmatch(pattern, instruction) and len(operands) == 1 + count:
                words = [self.get("unsigned int", operand) for operand in operands[1:]]
                return self.put(
                    type_, operands[0], form.format(value=self.read(operands[1]), words=words)
                )
        if (
            (match := re.fullmatch(r"selp\.(\w+)", instruction))
            and match[1] in _TYPES
            and len(operands) == 4
        ):
            type_ = _TYPES[match[1]]
            if_true, if_false = (self.get(type_, operand) for operand in operands[1:3])
            return self.put(
                type_, operands[0], f"{self.read(operands[3])} ? {if_true} : {if_false}"
            )
        if (match := _CONVERSION.fullmatch(instruction)) and len(operands) == 2:
            to, source = _TYPES[match["to"]], _TYPES[match["source"]]
            return self.put(to, operands[0], f"({to}){self.get(source, operands[1])}")
        if (match := _SHUFFLE.fullmatch(instruction)) and len(operands) == 5:
            value, lane, bounds, mask = (self.get("unsigned int", text) for text in operands[1:])
            # bits 8 to 12 of the bounds: 32 minus the width
            call = f"__shfl_{_SHUFFLES[match['kind']]}sync({mask}, {value}, {lane}, 32 - ({bounds} >> 8 & 31))"
            return self.put("unsigned int", operands[0], call)
        if (match := _VOTE.fullmatch(instruction)) and len(operands) == 3:
            type_, name = ("bool", match["of"]) if match["of"] else ("unsigned int", "ballot")
            call = (
                f"__{name}_sync({self.get('unsigned int', operands[2])}, {self.read(operands[1])})"
            )
            return self.put(type_, operands[0], call)
        # result (not of red), address, value, and a second value of cas
        if (match := _ATOMIC.fullmatch(instruction)) and len(operands) == (
            3 - bool(match["red"]) + (match["name"] == "cas")
        ):
            return self.translate_atomic(match, operands)
        # addc and add.cc: a plain add has no "c"
        if (match := _CARRY.fullmatch(instruction)) and len(operands) == 3 and "c" in instruction:
            self.declared.setdefault(_CARRY_FLAG, "pred")
            first, second = (
                f"(unsigned long long){self.get('unsigned int', text)}" for text in operands[1:]
            )
            sign, flag = "+" if match["name"] == "add" else "-", name_register(_CARRY_FLAG)
            value = f"{first} {sign} {second}" + (f" {sign} {flag}" if match["takes"] else "")
            keep = f"{flag} = sum >> 32 & 1; " if match["gives"] else ""
            result = self.put("unsigned int", operands[0], "(unsigned int)sum")
            return f"unsigned long long sum = {value}; {keep}{result}"
        if match := _OPERATION.fullmatch(instruction):
            return self.translate_operation(match, instruction, operands)
        if (asynchronous := ptx_async.translate(self, instruction, operands)) is not None:
            return asynchronous
        raise ValueError(
            f"the CPU engine does not know the PTX instruction {instruction}. Write it in CUDA C++, for this engine "
            f"only between #ifdef HOSTCUDA_CPU and #else, or run it on a GPU. It knows {_KNOWN_INSTRUCTIONS}"
        )


_LABEL = re.compile(r"([A-Za-z_$%][\w$%]*)\s*:(?!:)\s*")
_GUARD = re.compile(r"@(!?)([\w$%]+)\s+")
_BRANCH = re.compile(r"bra(?:\.uni)?\s+([\w$%]+)")


def name_register(name: str) -> str:
    """Return the C++ name of a register or label of PTX, without the characters % and $: "r__p3" for "%3"."""
    return "r_" + name.replace("%", "_p").replace("$", "_d")


def translate(template: str, operands: list[Operand]) -> str:
    """Translate the inline PTX of an asm statement; return C++ statements with the same effect.

    `template` is the text of the PTX; its operands ``%0``, ``%1`` are the variables p0, p1 in the
    C++. Raises ValueError if the engine does not know an instruction, or if one does not have the
    operands that it needs.
    """
    result, statement = "", _Statement(operands)
    labels, targets = set(), set()  # the labels that there are, and those of branches
    # %= is a number of the asm statement, which makes its labels unique in a function
    for text in _COMMENT.sub(" ", template).replace("%%", "%").replace("%=", "_").split(";"):
        words = " ".join(text.split())
        while part := re.match(r"[{} ]+", words) or _LABEL.match(words):
            words = words[part.end() :]
            if part.re is _LABEL:
                labels.add(part[1])
                result += f"l{name_register(part[1])}: __attribute__((unused)); "
            else:
                result += part.group().replace(" ", "")  # a block of PTX is one of C++
        if guard := _GUARD.match(words):
            if statement.declared.get(guard[2]) != "pred":
                raise ValueError(
                    f"the predicate {guard[2]} of inline PTX is not declared in its asm statement"
                )
            result += f"if ({guard[1]}{name_register(guard[2])}) "
            words = words[guard.end() :]
        if branch := _BRANCH.fullmatch(words):
            targets.add(branch[1])
            result += f"goto l{name_register(branch[1])}; "
        elif words.startswith("."):
            statement.declare(words)
        elif words:
            instruction, _, rest = words.partition(" ")
            result += "{ " + statement.translate(instruction, rest) + "} "
    if missing := sorted(targets - labels):
        raise ValueError(
            f"inline PTX branches to {', '.join(missing)}, a label that its asm statement does not have"
        )
    # of the registers that the PTX declares; at the begin, because a C++ goto must not jump over a definition
    definitions = (
        f"{_TYPES[type_]} {name_register(name)}{{}}; " for name, type_ in statement.declared.items()
    )
    return "".join(definitions) + result
