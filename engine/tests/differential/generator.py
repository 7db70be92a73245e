"""Random kernels that are legal on a GPU, have no race, and use what a rewriter of text may misread.

Up to the next barrier, an array in shared memory is either read by all or each element is its
thread's own; a word in shared or device memory is read by all, written by one thread, or added to
atomically. At a place that all threads reach, loops and branches depend on uniform values alone.
Signed integers do not overflow, and every index is in range.
"""

import re
from dataclasses import dataclass, field, replace
from random import Random

from .compare import Batch, Case

# Each batch has some of these; a kernel uses only what its batch has.
TOOLS = {
    "plain": """
#define MIX(a, b) ((a) * 31u + (b))
__constant__ unsigned table[8] = {3, 1, 4, 1, 5, 9, 2, 6};
__device__ unsigned larger(unsigned a, unsigned b) { return a > b ? a : b; }
__device__ unsigned scrambled(unsigned x, unsigned k) {
    for (unsigned i = 0; i < (k & 3); ++i) {
        if (x & 8) return x >> 1;
        x = x * 5 + i;
    }
    return x;
}
template <class T> __device__ T twice(T v) { return v + v; }
template <class T, int N> __device__ T repeated(T v) {
    T sum = 0;
    for (int i = 0; i < N; ++i) sum = sum * 3 + v;
    return sum;
}
struct Point { unsigned x, y; };
""",
    "changers": """
__device__ void bump(unsigned *p, unsigned by) { *p += by; }
__device__ void flip(unsigned &r) { r ^= 0x55u; }
__device__ unsigned step(unsigned &r, unsigned by = 3) { return r += by; }
template <class T> __device__ void exchange(T &a, T &b) { T c = a; a = b; b = c; }
__device__ unsigned &chosen(unsigned &a, unsigned &b, bool first) { return first ? a : b; }
""",
    "disguised": """
__device__ unsigned floor(unsigned &v) { return v = v / 2 + 1; }
__device__ void trunc(unsigned &v, int bits) { v &= (1u << bits) - 1u; }
__device__ unsigned make_odd(unsigned &v) { return v |= 1u; }
__device__ unsigned atomicTwice(unsigned &v) { return v *= 2u; }
struct Best { __device__ static unsigned max(unsigned &v, unsigned by) { return v += by; } };
""",
    "operators": """
struct Bits { unsigned v; };
__device__ void operator>>(Bits &b, unsigned &count) { count += b.v & 3u; b.v >>= 1; }
__device__ Bits &operator<<(Bits &b, unsigned x) { b.v = b.v * 3u + x; return b; }
__device__ unsigned operator+(Bits &b, unsigned x) { b.v += 5u; return b.v ^ x; }
__device__ unsigned operator-(Bits &b) { return b.v++; }
""",
    "classes": """
class Counter {
public:
    unsigned at, by;
    __device__ void step() { at += by; }
    __device__ unsigned peek() const { return at * 3u + by; }
    __device__ operator unsigned() const { return at; }
    __device__ unsigned operator()(unsigned x) { return at ^= x; }
    __device__ Counter &operator+=(unsigned x) { at += x; return *this; }
};
union Word { unsigned u; unsigned char bytes[4]; };
enum Level { LOW = 1, MIDDLE = 4, HIGH = 9 };
struct Packed { unsigned low : 7, high : 11; };
struct Adder { unsigned by; __device__ void operator()(unsigned &v) const { v += by; } };
struct Holder { unsigned &r; __device__ void add(unsigned x) { r += x; } };
struct View { const unsigned *at; };
""",
    "aliases": """
using Ref = unsigned &;
typedef unsigned &OldRef;
template <class T> using To = T &;
__device__ void raise(Ref v, To<unsigned> w) { v += 2u; w ^= v; }
""",
    "enumerators": """
enum Names { first = 3, count = 5, row = 7, kept = 11 };
""",
}
WAITS = "#define WAIT __syncthreads();\n#define wait_for_all() __syncthreads()\n"
FULL = "0xffffffffu"
CASTS = ["(unsigned char)", "(unsigned short)", "(unsigned)", "static_cast<unsigned>"]
REFERENCE_CASTS = ["(unsigned &)", "reinterpret_cast<unsigned &>", "static_cast<unsigned &>"]
TEMPLATE_CALLS = ["twice<unsigned>({})", "repeated<unsigned, 2>({})", "twice((unsigned)({}))"]
ASSIGNMENTS = ["=", "+=", "-=", "*=", "^=", "|=", "&=", "+="]
TYPES = [
    "unsigned",
    "unsigned",
    "unsigned",
    "const unsigned",
    "unsigned int",
    "unsigned const",
    "uint",
]
NAMES = ["v", "w", "k", "t", "a", "b", "x", "y", "sum", "at"]
NAMES += ["row", "first", "last", "count", "mine", "kept", "lane", "next"]
BATCH = 20


def batch(number, size=BATCH):
    """Make the batch of the seeds from `number` * `size` on."""
    kernels = [Kernel(number * size + i, tools_of(number)) for i in range(size)]
    prelude = WAITS + "".join(TOOLS[name] for name in tools_of(number))
    return Batch(prelude, [kernel.case() for kernel in kernels])


def tools_of(number):
    """Return the names of the tools that a batch has."""
    random = Random(f"tools {number}")
    return ["plain", *(name for name in TOOLS if name != "plain" and random.random() < 0.5)]


@dataclass
class Node:
    """A statement, or a statement with others inside."""

    head: str
    body: list = None
    tail: str = "}"

    def text(self, indent=1):
        pad = "    " * indent
        if self.body is None:
            return f"{pad}{self.head}\n"
        return f"{pad}{self.head}\n{''.join(node.text(indent + 1) for node in self.body)}{pad}{self.tail}\n"


@dataclass(frozen=True)
class Place:
    """A place that holds an unsigned value: an expression, the variables behind it, and what may be done with it."""

    text: str
    words: frozenset
    uniform: bool = False
    writable: bool = True
    plain: bool = True  # an lvalue of type unsigned whose address can be taken


@dataclass
class Scope:
    """The names that are visible at a place of the kernel, and those that the innermost block declares."""

    places: list = field(default_factory=list)
    floats: list = field(default_factory=list)
    arrays: list = field(default_factory=list)
    visible: set = field(default_factory=set)
    own: set = field(default_factory=set)

    def inner(self):
        return Scope(
            list(self.places), list(self.floats), list(self.arrays), set(self.visible), set()
        )

    def declare(self, name):
        self.places = [place for place in self.places if name not in place.words]
        self.floats = [other for other in self.floats if other != name]
        self.arrays = [other for other in self.arrays if other != name]
        self.visible.add(name)
        self.own.add(name)

    def add(self, name, text=None, words=(), **given):
        self.places.append(Place(text or name, frozenset({name, *words}), **given))


READ, OWN, LEADER, ATOMIC = "read by all", "each thread's own", "written by one thread", "added to"


class Kernel:
    """A random kernel, made from a seed: `nodes` are its statements."""

    def __init__(self, seed, tools):
        self.seed, self.tools, self.random = seed, tools, Random(seed)
        self.warps = self.chance(0.3)
        self.rare = self.chance(0.12)  # whether it may have forms that thread loops do not take
        if self.warps:
            blocks = [(32,), (64,), (96,), (128,), (32, 2), (64, 2)] + [
                (80,),
                (40,),
                (8, 5),
            ] * self.rare
        else:
            blocks = [
                (64,),
                (48,),
                (33,),
                (128,),
                (16, 4),
                (8, 4, 2),
                (5, 7),
                (1,),
                (2,),
                (100,),
                (64,),
                (64,),
            ]
        self.block = (*self.pick(blocks), 1, 1)[:3]
        self.threads = self.block[0] * self.block[1] * self.block[2]
        self.grid = (
            self.pick([(1, 1, 1), (3, 1, 1), (2, 2, 1)]) if self.threads < 200 else (1, 1, 1)
        )
        self.returns = not self.warps and self.chance(0.3)
        self.shared_bytes = 0
        self.before, self.nodes = "", []
        self.arrays, self.words = {}, {}  # in shared or device memory -> what may be done with them
        self.serial = 0
        self._write()

    def case(self):
        return Case(
            f"k{self.seed}",
            self.text(),
            self.before,
            self.block,
            self.grid,
            self.shared_bytes,
            (3, 10),
        )

    def text(self):
        body = "".join(node.text() for node in self.nodes)
        return (
            f"__global__ void k{self.seed}(unsigned *out, const unsigned *in, int n) {{\n{body}}}\n"
        )

    # -- choices

    def chance(self, p):
        return self.random.random() < p

    def pick(self, options):
        return self.random.choice(options)

    def below(self, n):
        return self.random.randrange(n)

    def has(self, tool):
        return tool in self.tools

    def unique(self, stem):
        self.serial += 1
        return f"{stem}_{self.seed}_{self.serial}"

    def name(self, scope, *texts):
        """Choose a name that can be declared now, and is in none of the texts.

        It may hide an outer one.
        """
        used = set(re.findall(r"[A-Za-z_]\w*", " ".join(texts)))
        free = [
            n
            for n in NAMES
            if n not in scope.own | used and (n not in scope.visible or self.chance(0.25))
        ]
        if free:
            return self.pick(free)
        self.serial += 1
        return f"z{self.serial}"

    def declare(self, scope, *texts):
        """Choose a name as `name` does and declare it."""
        name = self.name(scope, *texts)
        scope.declare(name)
        return name

    # -- values

    def constant(self):
        options = [
            f"{self.below(40)}u",
            f"{1 + self.below(9)}u",
            f"{self.below(1 << 16):#x}u",
            "0xffffffffu",
            "7",
            "2",
        ]
        if self.has("enumerators") and self.chance(0.3):
            return "(unsigned)" + self.pick(["::first", "::count", "::row"])
        return self.pick([*options, "sizeof(int)", "2654435761u"])

    def readable(self, scope, uniform):
        return [place for place in scope.places if place.uniform or not uniform]

    def value(self, scope, depth=2, uniform=False):
        """Write an expression without effects; uniform: with the same value in all threads of the block."""
        if depth <= 0 or self.chance(0.2):
            places = self.readable(scope, uniform)
            if places and self.chance(0.65):
                return self.pick(places).text
            if self.chance(0.4):
                return self.pick(["(unsigned)n", "blockIdx.x", "gridDim.x", "blockDim.x"])
            if not uniform and self.chance(0.7):
                return self.pick([self.me, self.me, "threadIdx.x", "threadIdx.y"])
            return self.constant()

        def e():
            return self.value(scope, depth - 1, uniform)

        forms = [
            *[lambda: f"({e()} {self.pick('+-*^&|+-')} {e()})"] * 2,
            lambda: f"{e()} + {e()}" if self.chance(0.3) else f"({e()} - {self.constant()})",
            lambda: f"({e()} >> ({e()} & 7u))",
            lambda: f"({e()} << ({e()} & 7u))",
            lambda: f"({e()} {self.pick('/%')} ({e()} | 1u))",
            lambda: f"({self.condition(scope, depth - 1, uniform)} ? {e()} : {e()})",
            lambda: f"{self.pick(CASTS)}({e()})",
            lambda: f"{self.pick(['min', 'max'])}((unsigned)({e()}), (unsigned)({e()}))",
            lambda: f"(unsigned){self.pick('-~!')}({e()})",
            lambda: f"MIX({e()}, {e()})",
            lambda: self.pick(["__popc({})", "(unsigned)__clz({})", "__brev({})"]).format(e()),
            lambda: f"{self.pick(['larger', 'scrambled'])}({e()}, {e()})",
            lambda: self.pick(TEMPLATE_CALLS).format(e()),
            lambda: f"table[({e()}) & 7u]",
        ]
        if not uniform:
            forms += [
                lambda: f"in[({e()}) & {self.pick([63, 511])}u]",
                *[lambda: self.from_shared(scope, depth) or e()] * 2,
                lambda: self.from_array(scope, depth) or e(),
                lambda: f"__float_as_uint({self.pick(scope.floats)})" if scope.floats else e(),
                lambda: f"out[{self.slot} + {self.below(2)}]",
            ]
        words = [word for word, state in self.words.items() if state == READ]
        if words and self.chance(0.02 if uniform else 0.15):
            return self.pick(words)
        return self.pick(forms[:12] if uniform and self.chance(0.97) else forms)()

    def from_array(self, scope, depth):
        return scope.arrays and f"{self.pick(scope.arrays)}[{self.value(scope, depth - 1)} & 3u]"

    def from_shared(self, scope, depth):
        if not self.arrays:
            return None
        name = self.pick(list(self.arrays))
        if self.arrays[name] == OWN:
            return f"{name}[{self.me}]"
        me, size = self.me, self.threads
        wrapped = f"{name}[({self.value(scope, depth - 1)}) % {size}u]"
        rotated = f"{name}[({me} + {1 + self.below(5)}u) % {size}u]"
        return self.pick([wrapped, wrapped, f"{name}[{size - 1}u - {me}]", rotated])

    def condition(self, scope, depth=1, uniform=False):
        if uniform and self.chance(0.6):
            word = self.pick(["n", "n", "gridDim.x", "blockIdx.x"])
            return self.pick(
                [f"{word} > {1 + self.below(4)}", f"({word} & 1)", f"{word} % 3 == {self.below(3)}"]
            )

        def e():
            return self.value(scope, depth - 1, uniform)

        return self.pick(
            [
                lambda: f"{e()} {self.pick(['<', '>', '==', '!=', '<=', '>='])} {e()}",
                lambda: f"({e()} & {1 << self.below(4)}u)",
                lambda: f"({e()} & 3u) == {self.below(4)}u",
                lambda: f"({e()} & 3u) {self.pick(['&&', '||', 'and', 'or'])} ({e()} & 4u)",
                lambda: f"!({e()} % 3u)",
                lambda: f"({e()} < {e()})",
            ]
        )()

    def real(self, scope):
        """Write a small float."""
        whole = f"(float)({self.value(scope, 1)} & 255u)"
        is_sum = scope.floats and self.chance(0.5)
        return f"{self.pick(scope.floats)} * 0.5f + {whole}" if is_sum else f"{whole} * 0.25f"

    # -- statements

    def targets(self, scope, uniform, plain=False):
        return [
            p
            for p in scope.places
            if p.writable and p.uniform == uniform and (p.plain or not plain)
        ]

    def target(self, scope, uniform):
        """Choose an lvalue."""
        if not uniform and self.chance(0.2):
            own = [f"{name}[{self.me}]" for name, state in self.arrays.items() if state == OWN]
            own += [f"out[{self.slot} + {self.below(2)}]"]
            own += [f"{name}[{self.value(scope, 1)} & 3u]" for name in scope.arrays]
            return self.pick(own)
        places = self.targets(scope, uniform)
        if not places:
            return None if uniform else f"out[{self.slot}]"
        text = self.pick(places).text
        return f"({text})" if self.chance(0.08) else text

    def changed(self, scope, uniform=False):
        """Write a statement that changes something; uniform: in all threads alike."""
        target, value = self.target(scope, uniform), self.value(scope, 2, uniform)
        if target is None:
            return []
        if uniform and self.chance(0.7):
            return [Node(f"{target} {self.pick(['=', '+=', '^='])} {value};")]
        options = [
            *[lambda: f"{target} {self.pick(ASSIGNMENTS)} {value};"] * 2,
            lambda: f"{target} {self.pick(['<<=', '>>='])} {self.value(scope, 1, uniform)} & 7u;",
            lambda: self.pick([f"{target}++;", f"++{target};", f"{target}--;", f"--{target};"]),
        ]
        plain = self.targets(scope, uniform, plain=True)
        if plain:
            p = self.pick(plain).text
            q = self.pick(plain).text
            c = self.value(scope, 1, uniform)
            options += [
                lambda: f"{self.pick(REFERENCE_CASTS)}({p}) += {c};",
                lambda: f"*(&{p}) ^= {c};",
                lambda: f"{p} {self.pick(['xor_eq', 'and_eq', 'or_eq'])} {c};",
                lambda: f"{{ unsigned &z = {p}; z += {self.value(Scope(), 1, True)}; }}",
            ]
            if p != q:
                options += [
                    lambda: f"{p} = {q}++ + {self.constant()};",
                    lambda: f"{p} = ({q} = {c}) * 3u;",
                    lambda: f"{p}++, {q} -= 2u;",
                    lambda: (
                        f"({self.condition(scope, 1, uniform)} ? {p} : {q}) += {self.constant()};"
                    ),
                    lambda: f"({p}, {q}) += {c};",
                    lambda: f"if (({p} = {c}) > 100u) {q} += 2u;",
                    lambda: f"{p} = {q} = {c};",
                    lambda: f"({p} = {c}) += {self.constant()};",
                    lambda: f"({p} & 1u) && {q}++;",
                ]
            if self.has("changers"):
                options += [
                    lambda: f"bump(&{p}, {c});",
                    lambda: f"flip({p});",
                    lambda: f"step({p}, {c});",
                    lambda: (
                        f"{target} = {self.constant()} ^ step({p});"
                        if target.strip("()") != p
                        else f"step({p});"
                    ),
                ]
                if p != q:
                    options += [
                        lambda: f"exchange({p}, {q});",
                        lambda: (
                            f"chosen({p}, {q}, {self.condition(scope, 1, uniform)}) += {self.constant()};"
                        ),
                    ]
            if self.has("disguised"):
                options += [
                    lambda: self.pick(
                        [f"floor({p});", f"trunc({p}, 9);", f"make_odd({p});", f"atomicTwice({p});"]
                    ),
                    *([lambda: f"Best::max({p}, {c});"] if self.rare else []),
                ]
            if self.has("aliases") and p != q:
                options.append(lambda: f"raise({p}, {q});")
            if self.has("classes") and self.rare:
                options += [
                    lambda: f"Adder{{{c}}}({p});",
                    lambda: f"{{ Holder z = {{{p}}}; z.add({self.constant()}); }}",
                ]
        return [Node(self.pick(options)())]

    def declared(self, scope, uniform=False):
        """Declare a variable, in one of many forms."""
        value = self.value(scope, 2, uniform)
        plain = self.targets(scope, uniform, plain=True)
        kind = self.below(30)
        if kind < 9 or self.chance(0.8 if uniform else 0.2):
            type_, name = self.pick(TYPES), self.declare(scope, value)
            form, writable = (
                self.pick(["{} = {}", "{} = {}", "{}({})", "{}{{(unsigned)({})}}"]),
                "const" not in type_,
            )
            scope.add(name, uniform=uniform, writable=writable, plain=writable)
            if kind > 0:
                return [Node(f"{type_} {form.format(name, value)};")]
            return [Node(f"{type_} {name};"), Node(f"{name} = {value};")] if writable else []
        if kind < 11:
            name = self.declare(scope, value)
            type_, width = self.pick(
                [
                    ("unsigned char", ""),
                    ("unsigned short", ""),
                    ("int", " & 0xffffu"),
                    ("auto", " | 0u"),
                ]
            )
            scope.add(name, uniform=uniform, writable=type_ not in ("int", "auto"), plain=False)
            return [Node(f"{type_} {name} = ({value}){width};")]
        if kind < 13:
            name, type_ = self.declare(scope, value), self.pick(["Point", "struct Point"])
            scope.add(name, f"{name}.x", uniform=uniform)
            scope.add(name, self.pick(["{}.y", "({}).y", "(&{})->y"]).format(name), uniform=uniform)
            return [Node(f"{type_} {name} = {{{value}, {self.constant()}}};")]
        if kind < 16 and plain:  # another name of a place
            place = self.pick(plain)
            name = self.declare(scope, place.text, *place.words)
            types = ["unsigned &", "unsigned &", "auto &", f"decltype(({place.text})) "]
            types += ["Ref ", "OldRef ", "To<unsigned> "] * self.has("aliases")
            scope.add(name, words=place.words, uniform=uniform)
            return [Node(f"{self.pick(types)}{name} = {place.text};")]
        if kind < 18 and plain:
            place = self.pick(plain)
            name = self.declare(scope, place.text, *place.words)
            if self.chance(0.5):
                scope.add(name, f"(*{name})", place.words, uniform=uniform)
                return [Node(f"unsigned *{name} = &{place.text};")]
            if self.has("classes") and self.chance(0.5):
                scope.add(
                    name, f"(*{name}.at)", place.words, uniform=uniform, writable=False, plain=False
                )
                return [Node(f"View {name} = {{&{place.text}}};")]
            scope.add(name, f"(*{name})", place.words, uniform=uniform, writable=False, plain=False)
            return [Node(f"const unsigned *{name} = &{place.text};")]
        if kind < 20 and plain:  # a macro for a place
            place = self.pick(plain)
            macro = self.unique("PLACE")
            self.before += f"#define {macro} {place.text}\n"
            scope.places.append(replace(place, text=macro))
            return []
        if kind < 22 and not uniform:
            name = self.declare(scope, value)
            scope.arrays.append(name)
            return [
                Node(
                    f"unsigned {name}[4] {self.pick([f'= {{{value}, 2u, {self.me}}}', f'{{1u, {value}}}'])};"
                )
            ]
        if kind < 24 and not uniform:
            name, real = self.name(scope), self.real(scope)
            if not re.search(rf"\b{name}\b", real):
                scope.declare(name)
                scope.floats.append(name)
                return [Node(f"float {name} = {real};")]
        if kind < 27 and self.has("classes"):
            return self.declared_of_class(scope, value, uniform)
        if kind < 29 and self.has("operators") and self.rare:
            name = self.declare(scope, value)
            nodes = [Node(f"Bits {name} = {{{value}}};")]
            if plain:
                nodes.append(Node(f"{name} >> {self.pick(plain).text};"))
            nodes.append(Node(self.pick([f"{name} << 2u << 3u;", f"{name} + 1u;", f"-{name};"])))
            scope.add(name, f"{name}.v", uniform=uniform)
            # the new name may be one of those in `plain`, which it hides
            return [
                nodes[0],
                *(node for node in nodes[1:] if not re.search(rf">> .*\b{name}\b", node.head)),
            ]
        if self.rare and not uniform:
            name = self.declare(scope, value)
            scope.add(name, plain=False)
            return [Node(f"volatile unsigned {name} = {value};")]
        return []

    def declared_of_class(self, scope, value, uniform):
        """Declare a variable of a class, a union or an enumeration."""
        name = self.declare(scope, value)
        form = self.below(4)
        if form == 0:
            scope.add(name, f"{name}.at", uniform=uniform)
            scope.add(name, f"{name}.peek()", uniform=uniform, writable=False, plain=False)
            change = self.pick([".step()", " += 3u", f"({self.constant()})", ".by = 4u"])
            type_ = self.pick(["class Counter", "Counter"])
            return [Node(f"{type_} {name} = {{{value}, 2u}};"), Node(f"{name}{change};")]
        if form == 1:
            scope.add(name, f"{name}.u", uniform=uniform)
            return [
                Node(f"union Word {name};"),
                Node(f"{name}.u = {value};"),
                Node(f"{name}.bytes[1] ^= 5;"),
            ]
        if form == 2:
            scope.add(name, uniform=uniform, writable=False, plain=False)
            return [Node(f"enum Level {name} = ({value}) & 1u ? LOW : HIGH;")]
        scope.add(name, f"{name}.low", uniform=uniform, plain=False)
        scope.add(name, f"{name}.high", uniform=uniform, plain=False)
        return [Node(f"Packed {name} = {{({value}) & 127u, 9u}};")]

    def indexed(self, scope):
        """Write an index that wraps."""
        name, c = self.name(scope), self.pick([1, 5, 8, 31])
        options = [
            (f"const unsigned {name} = {self.me} - {c}u;", f"in[{name} + {c}u]"),
            (f"const int {name} = blockIdx.x * 2654435761u + {self.me};", f"in[{name} & 255]"),
            (f"unsigned {name} = {self.me} - {c}u;", f"({name} < 999u ? in[{name}] : {c}u)"),
            (f"const int {name} = (int){self.me} - {c};", f"({name} >= 0 ? in[{name}] : {c}u)"),
            (f"const unsigned {name} = 0x7fffffffu + {self.me};", f"in[{name} - 0x7fffffffu]"),
            (f"const unsigned *{name} = in + {self.me};", f"{name}[{c}]"),
            (
                f"const long long {name} = (long long){self.me} - {c};",
                f"({name} < 0 ? 6u : in[{name}])",
            ),
        ]
        head, text = self.pick(options)
        scope.declare(name)
        scope.add(name, text, writable=False, plain=False)
        return [Node(head)]

    def inside(self, scope, depth, count=2, jumps=False, counter=None):
        inner = scope.inner()
        inner.own |= {counter}  # the body of a loop cannot declare its name again
        return [
            node
            for _ in range(1 + self.below(count))
            for node in self.of_a_thread(inner, depth, jumps)
        ]

    def of_a_thread(self, scope, depth, jumps=False):
        """Write a statement that need not be reached by all threads."""
        kind = self.below(32)
        if kind < 11:
            return self.changed(scope)
        if kind < 16:
            return self.declared(scope)
        if kind == 16:
            return self.indexed(scope)
        if kind < 19 and depth:
            nodes = [
                Node(f"if ({self.condition(scope)}) {{", self.inside(scope, depth - 1, 2, jumps))
            ]
            if self.chance(0.4):
                nodes.append(Node("else {", self.inside(scope, depth - 1, 2, jumps)))
            return nodes
        if kind < 22 and depth:
            return self.loop_of_a_thread(scope, depth)
        if kind == 22 and depth:
            cases = [
                Node(
                    f"case {i}: {{",
                    self.inside(scope, depth - 1, 1),
                    "} break;" if self.chance(0.7) else "}",
                )
                for i in range(1 + self.below(3))
            ]
            return [Node(f"switch ({self.value(scope, 1)} & 3u) {{", cases)]
        if kind == 23 and depth:
            return [Node("{", self.inside(scope, depth - 1, 3, jumps))]
        if kind == 24 and jumps:
            return [Node(f"if ({self.condition(scope)}) {self.pick(['break', 'continue'])};")]
        if kind == 25 and scope.floats:
            return [Node(f"{self.pick(scope.floats)} = {self.real(scope)};")]
        if kind == 26:
            words = [word for word, state in self.words.items() if state == ATOMIC]
            words = words or [f"out[{4000 + self.below(8)}]"]
            return [Node(f"atomicAdd(&{self.pick(words)}, {self.value(scope, 1)});")]
        if kind == 27:
            words = [word for word, state in self.words.items() if state == LEADER]
            if words:
                word = self.pick(words)
                change = f"{word} {self.pick(['=', '+=', '='])} {self.value(scope, 1)}"
                return [Node(f"if ({self.me} == {self.leaders[word]}u) {change};")]
        if kind == 28 and self.rare:
            name = self.name(scope)
            value = self.value(scope, 1)
            if not re.search(rf"\b{name}\b", value):
                scope.declare(name)
                scope.add(name, f"{name}(3u)", writable=False, plain=False)
                return [Node(f"auto {name} = [](unsigned z) {{ return z * 5u + 1u; }};")]
        if kind == 29 and self.returns and self.chance(0.4):
            return [
                Node(
                    f"if ({self.condition(scope)}) {{ out[{self.slot} + 3] = {self.below(99)}u; return; }}"
                )
            ]
        return self.changed(scope)

    def loop_of_a_thread(self, scope, depth):
        bound, limit = self.value(scope, 1), 2 + self.below(4)
        name = self.name(scope, bound)
        inner = scope.inner()
        inner.declare(name)
        inner.add(name, writable=False, plain=False)
        body = self.inside(inner, depth - 1, 2, jumps=True, counter=name)
        if self.chance(0.2):
            quiet = self.inside(inner, depth - 1, 2)
            loop = self.pick(
                [
                    [Node(f"while ({name} > 0) {{", [Node(f"--{name};"), *quiet])],
                    [Node("do {", quiet, f"}} while ({name}-- > 0);")],
                ]
            )
            return [Node("{", [Node(f"unsigned {name} = ({bound}) & 3u;"), *loop])]
        head = self.pick(
            [
                f"for (int {name} = 0; {name} < {limit}; ++{name}) {{",
                f"for (unsigned {name} = ({bound}) & 3u; {name} < {limit + 1}; {name} += 2) {{",
                f"for (unsigned {name} = ({bound}) & 3u; {name}-- > 0u;) {{",
                f"for (unsigned {name} = 0, z_{name} = {limit}u; {name} < z_{name}; {name}++, --z_{name}) {{",
                f"for (int {name} = {limit}; {name}; {name} >>= 1) {{",
            ]
        )
        return [Node(head, body)]

    # -- what all threads reach

    def state(self):
        return dict(self.arrays), dict(self.words)

    def barrier(self, state=None):
        """Write a barrier; after it memory may be used in other ways: as in `state`, if it is given."""
        if state:
            self.arrays, self.words = dict(state[0]), dict(state[1])
        else:
            self.arrays = {name: self.pick([READ, OWN]) for name in self.arrays}
            for word in self.words:
                self.words[word] = self.pick([READ, READ, LEADER, ATOMIC])
                self.leaders[word] = self.below(self.threads)
        forms = ["__syncthreads();"] * 8 + ["WAIT", "wait_for_all();"]
        return Node(self.pick(forms if self.rare else forms[:1]))

    def settled(self, state):
        """Write nothing if memory is used as in `state`, else a barrier after which it is."""
        same = state == self.state() and not any(s == LEADER for s in self.words.values())
        return [] if same and self.chance(0.7) else [self.barrier(state)]

    def of_all(self, scope, depth, count, loop=None):
        """Write statements at a place that all threads reach; loop: memory at the ends of the loop around it."""
        nodes = []
        for _ in range(count):
            kind = self.below(28)
            if kind < 6:
                nodes.append(self.barrier())
            elif kind < 9 and depth:
                nodes += self.uniform_loop(scope, depth)
            elif kind == 9 and depth:
                nodes += self.uniform_branch(scope, depth, loop)
            elif kind < 12:
                nodes += self.declared(scope, uniform=True)
            elif kind < 14:
                nodes += self.changed(scope, uniform=True)
            elif kind == 14 and loop:
                jump = self.pick(["break", "continue"])
                now = self.state()
                inside = [*self.settled(loop), Node(f"{jump};")]
                self.arrays, self.words = now
                nodes.append(Node(f"if ({self.condition(scope, 1, True)}) {{", inside))
            elif kind == 15 and depth:
                nodes.append(Node("{", self.of_all(scope.inner(), depth - 1, 3, loop)))
            elif kind == 16:
                nodes += self.function_with_barrier(scope)
            elif kind < 20 and self.warps:
                nodes += self.of_a_warp(scope, depth)
            else:
                nodes += self.of_a_thread(scope, min(depth, 2))
        return nodes

    def read_only(self, scope, word):
        """Return the scope without the right to change any place that a name belongs to."""
        inner = scope.inner()
        inner.places = [
            replace(p, writable=False, plain=False) if word in p.words else p for p in inner.places
        ]
        return inner

    def uniform_loop(self, scope, depth):
        before = [self.barrier()]
        state = self.state()
        bound = (
            self.value(scope, 1, True)
            if self.chance(0.4)
            else self.pick(["n", "n + 1", "blockIdx.x + 2"])
        )
        name = self.name(scope, bound)
        inner = scope.inner()
        inner.declare(name)
        inner.add(name, uniform=True, writable=False, plain=False)
        form = self.below(5) if self.chance(0.7) else 5 + self.below(3)
        varying = self.targets(scope, False, plain=True)
        varying = [p for p in varying if name not in p.words]
        late = f", {self.pick(varying).text} += 3u" if varying and self.chance(0.15) else ""
        jumps = state if form < 5 or form == 7 else None
        body = self.of_all(inner, depth - 1, 2 + self.below(3), jumps)
        body += [self.barrier(state)]
        heads = {
            0: f"for (int {name} = 0; {name} < n; ++{name}{late}) {{",
            1: f"for (unsigned {name} = blockIdx.x; {name} < 3u + blockIdx.x; {name}++) {{",
            2: f"for (int {name} = {self.pick([4, 8])}; {name} > 0; {name} >>= 1{late}) {{",
            3: f"for (unsigned {name} = 0, z_{name} = 4; {name} < z_{name}; ++{name}, --z_{name}) {{",
            4: f"#pragma unroll\n    for (int {name} = 0; {name} < 3; ++{name}) {{",
        }
        if form in heads:
            return [*before, Node(heads[form], body)]
        first = Node(f"unsigned {name} = ({bound}) & 3u;")
        if form == 5:
            return [
                *before,
                Node("{", [first, Node(f"while ({name} > 0u) {{", [Node(f"--{name};"), *body])]),
            ]
        if form == 6:
            return [*before, Node("{", [first, Node("do {", body, f"}} while ({name}++ < 3u);")])]
        return [
            *before,
            Node("{", [first, Node("for (;;) {", [Node(f"if ({name}++ >= 3u) break;"), *body])]),
        ]

    def uniform_branch(self, scope, depth, loop):
        condition = self.condition(scope, 1, True)
        state = self.state()
        leaders = dict(self.leaders)
        nodes = [
            Node(
                f"if ({condition}) {{",
                [*self.of_all(scope.inner(), depth - 1, 3, loop), *self.settled(state)],
            )
        ]
        self.leaders = dict(leaders)
        if self.chance(0.4):
            nodes.append(
                Node(
                    "else {",
                    [*self.of_all(scope.inner(), depth - 1, 2, loop), *self.settled(state)],
                )
            )
        self.arrays, self.words, self.leaders = dict(state[0]), dict(state[1]), leaders
        return nodes

    def function_with_barrier(self, scope):
        """Write a call of a device function with barriers; its variables have the same names as the kernel's."""
        places = self.targets(scope, False, plain=True)
        if not places or not self.arrays:
            return []
        place, array = self.pick(places), self.pick(list(self.arrays))
        s, v, at, local, i = self.random.sample(NAMES, 5)
        size = self.threads
        name = self.unique("turned")
        form = self.below(3)
        shift = self.pick([f"({at} + {1 + self.below(3)}u) % {size}u", f"{size - 1}u - {at}"])
        if form == 0:
            self.before += (
                f"__device__ unsigned {name}(unsigned *{s}, unsigned {v}, const unsigned {at}) {{\n"
                f"    __syncthreads();\n"
                f"    {s}[{at}] = {v};\n    __syncthreads();\n    const unsigned {local} = {s}[{shift}] + {v};\n"
                f"    __syncthreads();\n    {s}[{at}] = {local};\n    __syncthreads();\n    return {local} ^ 9u;\n}}\n"
            )
            call = self.pick(
                [f"{place.text} = {name}({{}});", f"{place.text} += {name}({{}}) * 3u;"]
            )
            argument = self.value(scope, 1)
        elif form == 1:
            self.before += (
                f"__device__ void {name}(unsigned *{s}, unsigned &{v}, const unsigned {at}) {{\n"
                f"    const unsigned {local} = {v} * 3u;\n    __syncthreads();\n"
                f"    {s}[{at}] = {local};\n    __syncthreads();\n"
                f"    for (int {i} = 0; {i} < 2; ++{i}) {v} += {s}[({at} + {i}) % {size}u];\n    __syncthreads();\n}}\n"
            )
            call, argument = f"{name}({{}});", place.text
        else:
            inner = self.unique("inner")
            self.before += (
                f"template <class T> __device__ void {inner}(T *{s}, T &{v}, const unsigned {at}) {{\n"
                f"    {s}[{at}] = {v};\n    __syncthreads();\n    {v} ^= {s}[{shift}];\n    __syncthreads();\n}}\n"
                f"__device__ void {name}(unsigned *{s}, unsigned &{v}, const unsigned {at}) {{\n    __syncthreads();\n"
                f"    unsigned {local} = {v} + 1u;\n    {inner}<unsigned>({s}, {local}, {at});\n"
                f"    {v} += {local};\n}}\n"
            )
            call, argument = f"{name}({{}});", place.text
        nodes = []
        if any(state == LEADER for state in self.words.values()):
            nodes.append(self.barrier())
        nodes.append(Node(call.format(f"{array}, {argument}, {self.me}")))
        nodes.append(self.barrier())
        return nodes

    def of_a_warp(self, scope, depth):
        """Write warp functions at a place that all threads reach."""
        places = self.targets(scope, False)
        if not places:
            return []
        target = self.pick(places).text
        width = 32 if self.threads % 32 == 0 else 16 if self.threads % 16 == 0 else 8

        def value():
            return f"(unsigned)({self.value(scope, 1)})"

        def shuffled(v):
            lane = f"({self.value(scope, 1)}) & {width - 1}u"
            is_whole = width == 32 and self.chance(0.8)
            limit = "" if is_whole else f", {self.pick([w for w in (4, 8, 16, 32) if w <= width])}"
            return self.pick(
                [
                    f"__shfl_xor_sync({FULL}, {v}, {1 + self.below(7 if not limit else 3)}{limit})",
                    f"__shfl_down_sync({FULL}, {v}, {1 + self.below(7)}u{limit})",
                    f"__shfl_up_sync({FULL}, {v}, {1 + self.below(7)}u{limit})",
                    f"__shfl_sync({FULL}, {v}, {lane}{limit})",
                ]
            )

        kind = self.below(10)
        if kind < 3:
            return [Node(f"{target} {self.pick(['=', '+=', '^='])} {shuffled(value())};")]
        if kind == 3:
            return [Node(f"{target} += {shuffled(value())} + {shuffled(value())} * 3u;")]
        if kind == 4:
            v = value()
            name = self.declare(scope, v)
            scope.add(name)
            return [Node(f"unsigned {name} = __ballot_sync({FULL}, {v} & 1u);")]
        if kind == 5:
            function = self.pick(["__reduce_add_sync", "__reduce_max_sync", "__reduce_xor_sync"])
            return [Node(f"{target} ^= {function}({FULL}, {value()});")]
        if kind == 6:
            name = self.name(scope, target)
            v = self.value(scope, 1)
            step = shuffled(target) if width < 32 else f"__shfl_xor_sync({FULL}, {target}, {name})"
            plain = [p.text for p in places if name not in p.words]
            if target in plain and not re.search(rf"\b{name}\b", v):
                body = [Node(f"{target} = MIX({target}, {step});")]
                return [
                    Node(
                        f"for (int {name} = {self.pick([16, 8])}; {name} > 0; {name} /= 2) {{", body
                    )
                ]
        if kind == 7 and width == 32 and self.block[1] == 1:
            inner = scope.inner()
            condition = self.pick(
                ["threadIdx.x / 32 == 0", "threadIdx.x < 32", "threadIdx.x / 32 != 1"]
            )
            body = [Node(f"{target} += {shuffled(value())};"), *self.of_a_thread(inner, 1)]
            return [Node(f"if ({condition}) {{", body)]
        if kind == 8 and width == 32 and self.block[1] == 1:
            name = self.name(scope, target)
            if name not in next(p for p in places if p.text == target).words:
                inner = scope.inner()
                inner.declare(name)
                body = [
                    Node(f"{target} ^= {shuffled(target)} + {name};"),
                    *self.of_a_thread(inner, 1),
                ]
                return [Node(f"for (int {name} = threadIdx.x / 32; {name} < 4; ++{name}) {{", body)]
        vote = self.pick(["__any_sync", "__all_sync"])
        return [Node("__syncwarp();"), Node(f"{target} += {vote}({FULL}, {value()} & 3u);")]

    # -- the whole

    def _write(self):
        scope, nodes = Scope(), self.nodes
        scope.visible = {"out", "in", "n"}
        self.me = "threadIdx.x"
        if self.block[1] * self.block[2] > 1:
            self.me = "(threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z))"
        if self.chance(0.5):
            nodes.append(Node(f"const unsigned me = {self.me};"))
            self.me = "me"
        block = "blockIdx.x" if self.grid[1] == 1 else "(blockIdx.x + gridDim.x * blockIdx.y)"
        self.slot = f"({block} * {self.threads}u + {self.me}) * 4u"
        if self.chance(0.4):
            nodes.append(Node(f"const unsigned slot = {self.slot};"))
            self.slot = "slot"
        self.leaders = {}
        self._declare_memory(nodes)
        uniform, varying = self.random.sample(NAMES, 2)
        nodes.append(Node(f"unsigned {varying} = in[{self.me}];"))
        nodes.append(Node(f"unsigned {uniform} = n * 3u;"))
        for name in (uniform, varying):
            scope.declare(name)
            scope.add(name, uniform=name == uniform)
        if self.words:
            nodes.append(self.barrier())
        nodes += self.of_all(scope, 3, 5 + self.below(9))
        nodes.append(
            self.barrier((dict.fromkeys(self.arrays, READ), dict.fromkeys(self.words, READ)))
        )
        sums = [f"{place.text} * {2 * i + 1}u" for i, place in enumerate(scope.places)]
        sums += [f"__float_as_uint({name})" for name in scope.floats]
        sums += [f"{name}[{i}]" for name in scope.arrays for i in (1, 2)]
        sums += [f"{name}[{self.threads - 1}u - {self.me}]" for name in self.arrays] + list(
            self.words
        )
        nodes += [Node(f"out[{self.slot} + 2u] += {term};") for term in sums]

    def _declare_memory(self, nodes):
        """Declare the arrays and the words in shared and device memory, with their first values."""
        count = 1 + self.below(2)
        names = self.random.sample(["tile", "cells", "line"], count)
        if self.chance(0.25):
            self.shared_bytes = 4 * self.threads * count
            whole = self.unique("memory")
            nodes.append(Node(f"extern __shared__ unsigned {whole}[];"))
            nodes += [
                Node(f"unsigned *{name} = {whole} + {i * self.threads};")
                for i, name in enumerate(names)
            ]
        else:
            nodes += [Node(f"__shared__ unsigned {name}[{self.threads}];") for name in names]
        nodes += [Node(f"{name}[{self.me}] = in[{self.me}] + {self.constant()};") for name in names]
        self.arrays = dict.fromkeys(names, OWN)
        if self.chance(0.5):
            nodes.append(Node("__shared__ unsigned word;"))
            self.words["word"] = LEADER
        if self.chance(0.15) and self.grid == (1, 1, 1):
            name = self.unique("word")
            self.before += f"__device__ unsigned {name};\n"
            self.words[name] = LEADER
        for word in self.words:
            self.leaders[word] = self.below(self.threads)
            nodes.append(
                Node(f"if ({self.me} == {self.leaders[word]}u) {word} = {self.constant()} + n;")
            )
