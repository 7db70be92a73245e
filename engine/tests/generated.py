"""Random kernels whose barriers all threads of a block reach together, and whose threads never race.

Shared memory changes hands at barriers only: up to the next one, an element is either its thread's own, or read by all
and written by nobody. At a place that all threads reach, loops and branches depend on uniform variables alone. With
warp functions there are also places that all lanes of a warp reach, where they depend on values that a warp shares.
"""

from dataclasses import dataclass, field
from random import Random

BEFORE = """
#define MIX(a, b) ((a) * 31u + (b))
#define ME threadIdx.x
#define OWN(s) s[threadIdx.x]
struct Pair { unsigned first; float second; };
__constant__ unsigned table[4] = {3, 1, 4, 1};
__device__ unsigned larger(unsigned a, unsigned b) { return a > b ? a : b; }
__device__ void bump(unsigned *p, unsigned by) { *p += by; }
__device__ void flip(unsigned &r) { r ^= 0x55u; }
template <class T> __device__ T twice(T v) { return v + v; }
"""
OF_WARPS = """
#define FULL 0xffffffffu
__device__ unsigned mixed(unsigned v) {
    for (int k = 16; k > 0; k /= 2) {
        unsigned other = __shfl_xor_sync(FULL, v, k);
        v = MIX(v, other);
    }
    return v;
}
__device__ unsigned first_of(unsigned v, unsigned w) { return w == 1u ? mixed(v) : v; }
"""


@dataclass
class _Scope:
    """The names that can be used at a place, by kind."""

    uniform: list = field(default_factory=list)  # unsigned, changed by all threads alike
    counters: list = field(default_factory=list)  # unsigned, changed by all threads alike, but only read here
    varying: list = field(default_factory=list)  # unsigned
    constant: list = field(default_factory=list)  # unsigned, not to be changed
    floats: list = field(default_factory=list)
    arrays: list = field(default_factory=list)  # of 4 unsigned
    pairs: list = field(default_factory=list)

    def inner(self):
        return _Scope(**{name: list(value) for name, value in vars(self).items()})

    def hide(self, name):
        for names in vars(self).values():
            if name in names:
                names.remove(name)

    def names(self):
        return [name for names in vars(self).values() for name in names]


class Generator:
    """A writer of kernels ``name(unsigned *out, const unsigned *in, unsigned n)``; `in` has 64 elements."""

    def __init__(self, seed, warps=False):
        self.random = Random(seed)
        self.count = 0
        self.warps = warps

    # -- expressions

    def pick(self, *choices):
        return self.random.choice(choices)

    def often(self, percent):
        return self.random.random() * 100 < percent

    def uniform(self, scope, depth=2):
        """Write an expression with the same value in all threads."""
        leaves = ["n", "blockIdx.x", "blockDim.x", "WIDTH", str(self.random.randrange(1, 9)) + "u"]
        leaves += scope.uniform * 2 + scope.counters
        if depth == 0 or self.often(30):
            return self.random.choice(leaves)
        a, b = (self.uniform(scope, depth - 1) for _ in range(2))
        larger = self.pick(f"({a} > {b} ? {a} : {b})", f"(unsigned)min({a}, {b})")
        same = self.pick(f"({a} ^ {b})", f"({a} >> 1)", f"MIX({a}, {b})")
        return self.pick(f"({a} + {b})", f"({a} * {b})", f"{a} % 5u", larger, same)

    def varying(self, scope, depth=2):
        """Write an expression that can differ between threads."""
        if depth == 0 or self.often(25):
            leaves = ["threadIdx.x", "ME", "in[threadIdx.x % 64u]", self.uniform(scope, 0)]
            leaves += (scope.varying + scope.constant) * 3 + [f"{name}.first" for name in scope.pairs]
            leaves += [f"OWN({name})" for name, own in self.shared.items() if own]
            return self.random.choice(leaves)
        a, b = (self.varying(scope, depth - 1) for _ in range(2))
        choices = [f"({a} + {b})", f"({a} * {b})", f"({a} ^ {b})", f"({a} & 7u)", f"MIX({a}, {b})", f"larger({a}, {b})"]
        choices += [f"({a} < {b} ? {a} : {b})", f"({a} == {b} ? 2u : 5u)", f"in[({a}) % 64u]", f"table[{a} & 3]"]
        choices += [f"{name}[({a}) & 3]" for name in scope.arrays]
        choices += [f"{name}[({a}) % WIDTH]" for name, own in self.shared.items() if not own] * 3
        choices += [f"(unsigned)(int)({name})" for name in scope.floats]
        return self.random.choice(choices)

    def number(self, scope):
        """Write a float expression with a value of at most some thousands."""
        leaves = [f"(float)(({self.varying(scope)}) & 1023u)", "0.5f"]
        leaves += [f"{name} * 0.25f" for name in scope.floats * 2]
        leaves += [f"{name}.second * 0.5f" for name in scope.pairs]
        return f"({self.random.choice(leaves)} {self.pick('+', '-')} {self.random.choice(leaves)})"

    def new(self, letter):
        self.count += 1
        self.here.add(f"{letter}{self.count}")
        return f"{letter}{self.count}"

    def declaration(self, scope):
        """Declare a variable of each thread, under a new name or under that of an outer variable."""
        outer = [name for name in scope.names() if name not in self.here]
        name = self.random.choice(outer) if outer and self.often(12) else self.new("v")
        scope.hide(name)  # an initializer that names it would read the variable itself
        value, kind = self.varying(scope), self.pick("late", "two", *vars(scope))
        if kind == "two":
            other = self.new("v")
            text, kind = f"unsigned {name} = {value}, {other} = {self.varying(scope)};", "varying"
            scope.varying.append(other)
        elif kind in ("floats", "pairs"):
            text = f"float {name} = {self.number(scope)};"
            if kind == "pairs":
                text = f"Pair {name} = {{{value}, {self.number(scope)}}};"
        elif kind == "arrays":
            text = f"unsigned {name}[4] = {{{value}, {self.varying(scope)}}};"
        elif kind == "constant":
            text = f"const unsigned {name} = {value};"
        else:
            text = f"unsigned {name}; {name} = {value};" if kind == "late" else f"unsigned {name} = {value};"
            kind = "varying"
        getattr(scope, kind).append(name)
        self.here.add(name)
        return text

    def change(self, scope):
        """Write a statement that changes a variable of each thread, or an element that the thread owns."""
        value = self.varying(scope)
        choices = [f"out[OUT] = MIX(out[OUT], {value});"]
        for name in scope.varying:
            other = self.random.choice(scope.varying)
            choices += [f"{name} = {value};", f"{name} {self.pick('+', '^', '*')}= {value};"]
            choices += [f"{name}++;", f"--{name};"]
            choices += [f"bump(&{name}, {value});", f"flip({name});", f"{name} = {other} = {value};"]
            choices += [f"{{ unsigned &r = {name}; r += {value}; }}", f"{{ unsigned *p = &{name}; *p ^= {value}; }}"]
            if other != name:
                choices += [f"{name} = ({other}++, {other} + 1u);", f"(ME % 2 ? {name} : {other}) += 3u;"]
        for name in scope.floats:
            choices += [f"{name} = {self.number(scope)};", f"{name} += {self.number(scope)};"]
        for name in scope.arrays:
            choices += [f"{name}[({value}) & 3] = {self.varying(scope)};", f"{name}[1]++;"]
            choices += [f"for (int j = 0; j < 4; j++) {name}[j] += {value};", f"*({name} + 2) ^= {value};"]
        for name in scope.pairs:
            choices += [f"{name}.first += {value};", f"{name}.second = {self.number(scope)};"]
            choices += [f"{{ Pair *q = &{name}; q->first ^= 3u; }}"]
        for name, own in self.shared.items():
            if own:
                choices += [f"OWN({name}) = {value};", f"{name}[ME] += {value};"] * 2
                choices += [f"{{ unsigned *o = {name} + threadIdx.x; *o ^= {value}; }}", f"flip({name}[threadIdx.x]);"]
        return self.random.choice(choices)

    def alone(self, scope, depth, in_loop=False):
        """Write a statement that each thread may run or skip by itself."""
        chance = self.random.random()
        if depth == 0 or chance < 0.5:
            return self.change(scope)
        test = f"({self.varying(scope, 1)}) % {self.pick('2u', '3u', '5u')} {self.pick('==', '!=')} 1u"
        jumps = ["return;"] if self.often(15) else []
        jumps += ["break;", "continue;"] if in_loop else []
        if jumps and chance < 0.58:
            return f"if ({test}) {self.random.choice(jumps)}"
        if chance < 0.72:
            other = f" else {{ {self.body(scope, depth - 1, in_loop)} }}" if self.often(40) else ""
            return f"if ({test}) {{ {self.body(scope, depth - 1, in_loop)} }}{other}"
        if chance < 0.86:
            counter = self.new("j")
            inner = scope.inner()
            inner.constant.append(counter)
            unroll = "\n#pragma unroll\n" if self.often(30) else ""
            bound = self.pick("4u", f"({self.varying(scope, 1)}) % 4u")
            body = self.body(inner, depth - 1, True, [counter])
            return f"{unroll}for (unsigned {counter} = 0; {counter} < {bound}; ++{counter}) {{ {body} }}"
        if chance < 0.93:
            cases = " ".join(f"case {i}: {self.change(scope)} {self.pick('break;', '')}" for i in range(2))
            return f"switch (({self.varying(scope, 1)}) & 3) {{ {cases} default: {self.change(scope)} }}"
        return f"{{ {self.body(scope, depth - 1, in_loop)} }}"

    def body(self, scope, depth, in_loop, here=()):
        scope, before = scope.inner(), self.here
        self.here = set(here)
        text = []
        for _ in range(self.random.randrange(1, 4)):
            text.append(self.declaration(scope) if self.often(25) else self.alone(scope, depth, in_loop))
        self.here = before
        return " ".join(text)

    # -- statements at places that all threads reach

    def barrier(self, own=None):
        """Write a barrier, after which shared arrays have other owners: those of `own`, if it is given."""
        for name in self.shared:
            self.shared[name] = own[name] if own else self.often(50)
        return "__syncthreads();"

    def together(self, scope, depth, loop=None):
        """Write a statement; `loop` says who owns the shared arrays where the innermost loop with a barrier starts."""
        if self.warps and self.often(35):
            return self.of_warp(scope, depth)
        chance = self.random.random()
        if chance < 0.2:
            return self.barrier()
        if chance < 0.3:
            return self.declaration(scope)
        if chance < 0.36:
            name = self.new("u")
            text = f"{self.pick('unsigned', 'unsigned', 'const unsigned')} {name} = {self.uniform(scope)};"
            (scope.counters if text.startswith("const") else scope.uniform).append(name)
            return text
        if chance < 0.42 and scope.uniform:
            name = self.random.choice(scope.uniform)
            return self.pick(f"{name} += {self.uniform(scope)};", f"{name}++;", f"{name} = {self.uniform(scope)};")
        if chance < 0.46:  # mostly worth computing again: it depends on the indices
            name = self.new("i")
            text = f"const int {name} = ({self.uniform(scope, 1)}) * 4 + threadIdx.x;"
            scope.constant.append(name)
            return text
        if chance < 0.49 and loop == self.shared and loop is not None:
            return f"if (({self.uniform(scope)}) % 3u == 1u) {self.pick('break;', 'continue;')}"
        if depth == 0 or chance < 0.72:
            return self.alone(scope, 2)
        if chance < 0.84:
            start = dict(self.shared)
            counter = self.new("c")
            inner = scope.inner()
            inner.counters.append(counter)
            body = self.all_of(inner, depth - 1, start, [counter]) + " " + self.barrier(start)
            bound = self.pick("2u", "3u", f"({self.uniform(scope, 1)}) % 4u")
            kind = self.pick("for", "for", "while", "do")
            if kind == "for":
                also = f", {self.random.choice(scope.varying)} += ME" if scope.varying and self.often(25) else ""
                return f"for (unsigned {counter} = 0; {counter} < ({bound}); ++{counter}{also}) {{ {body} }}"
            # The increment comes first: the statements after it may continue.
            head = f"unsigned {counter} = 0;"
            if kind == "while":
                return f"{{ {head} while ({counter} < ({bound})) {{ {counter}++; {body} }} }}"
            return f"{{ {head} do {{ ++{counter}; {body} }} while ({counter} < 3u); }}"
        if chance < 0.94:
            after = {name: self.often(50) for name in self.shared}
            before, test = dict(self.shared), self.uniform(scope)
            then = f"{self.all_of(scope, depth - 1, None)} {self.barrier(after)}"
            self.shared = before
            otherwise = f"{self.all_of(scope, depth - 1, None)} {self.barrier(after)}"
            return f"if (({test}) % 3u != 0u) {{ {then} }} else {{ {otherwise} }}"
        return f"{{ {self.all_of(scope, depth - 1, loop)} }}"

    # -- statements at places that all lanes of a warp reach

    def same(self, scope, depth=1):
        """Write an expression with the same value in all lanes of a warp."""
        warp = self.pick("w", "w", "(ME / 32u)", "(threadIdx.x >> 5)", "(threadIdx.x / warpSize)")
        if depth == 0 or self.often(30):
            return self.pick(warp, self.uniform(scope, 0))
        return f"({self.same(scope, depth - 1)} {self.pick('+', '*', '^')} {self.same(scope, depth - 1)})"

    def exchange(self, scope):
        """Write a call of a warp function, as an expression."""
        lane = self.pick(str(self.random.randrange(40)), f"({self.varying(scope, 1)}) % 32u", self.uniform(scope, 1))
        width = f", {self.pick(4, 8, 16, 32)}" if self.often(30) else ""
        value, mask = self.varying(scope), self.pick("FULL", "~0u", "0xffffffff", "-1")
        shuffle = f"__shfl{self.pick('', '_up', '_down', '_xor')}_sync({mask}, {value}, {lane}{width})"
        vote = f"__{self.pick('ballot', 'any', 'all')}_sync({mask}, ({value}) % 3u == 1u)"
        total = f"__reduce_{self.pick('add', 'min', 'max', 'and', 'or', 'xor')}_sync({mask}, {value})"
        return self.pick(shuffle, shuffle, shuffle, vote, total)

    def of_warp(self, scope, depth):
        """Write a statement with warp functions and without barriers."""
        chance = self.random.random()
        if chance < 0.1:
            return "__syncwarp();"
        if chance < 0.35:
            first, second = self.new("v"), self.new("v")
            last = self.pick(self.exchange, self.varying)(scope)
            text = f"unsigned {first} = {self.exchange(scope)}, {second} = {last};"
            scope.varying += [first, second]
            return text
        if chance < 0.65 or depth == 0:
            value = self.exchange(scope)
            choices = [f"out[OUT] = MIX(out[OUT], {value});", f"out[OUT] = 7u * {value} + {self.exchange(scope)};"]
            choices += [f"if ({value} % 2u == 1u) {{ {self.body(scope, 1, False)} }}"] if "shfl" not in value else []
            for name in scope.varying:
                choices += [f"{name} {self.pick('', '+', '^')}= {value};", f"{name} = mixed({self.varying(scope, 1)});"]
                choices += [f"{name} ^= 3u * mixed({name}) + 1u;", f"{name} = first_of({name}, w);"]
            for name in scope.floats:
                choices += [f"{name} = 0.5f * __shfl_down_sync(FULL, {self.number(scope)}, {self.uniform(scope, 0)});"]
            return self.random.choice(choices)
        inner, here = scope.inner(), []
        if chance < 0.8:
            counter = self.new("c")
            inner.counters.append(counter)
            start, step = self.pick(("0", "1"), (self.same(scope), "2u"), ("w", "(WIDTH + 31u) / 32u"))
            head, here = f"for (unsigned {counter} = {start}; {counter} < 4u; {counter} += {step})", [counter]
        else:
            head = f"if ({self.pick(f'{self.same(scope)} % 3u != 1u', 'ME < 32u', 'threadIdx.x >= 64')})"
        before, self.here = self.here, set(here)
        body = []
        for _ in range(self.random.randrange(1, 4)):
            if self.often(15):
                name = self.new("u")
                body.append(f"unsigned {name} = {self.same(scope)}; {name} += {self.same(scope)};")
                inner.counters.append(name)
            chance = self.random.random()
            if chance < 0.5:
                body.append(self.of_warp(inner, depth - 1))
            else:
                body.append(self.declaration(inner) if chance < 0.75 else self.alone(inner, 1))
        self.here = before
        return f"{head} {{ {' '.join(body)} }}"

    def all_of(self, scope, depth, loop, here=()):
        scope, before = scope.inner(), self.here
        self.here = set(here)
        text = "\n    ".join(self.together(scope, depth, loop) for _ in range(self.random.randrange(2, 6)))
        self.here = before
        return text

    def kernel(self, name):
        """Write a kernel."""
        self.shared, self.here, self.count = {"s": True, "t": True}, set(), 0
        scope = _Scope()
        lines = ["__shared__ unsigned s[WIDTH], t[WIDTH];", "OWN(s) = in[ME]; t[ME] = ME;"]
        lines += ["const unsigned w = threadIdx.x / 32;"] if self.warps else []
        lines += [self.declaration(scope) for _ in range(2)]
        lines += [self.together(scope, 3) for _ in range(self.random.randrange(5, 12))]
        lines += [self.barrier()]
        lines += [f"out[OUT] = MIX(out[OUT], {name});" for name in scope.varying + scope.constant]
        lines += [f"out[OUT] = MIX(out[OUT], __float_as_uint({name}));" for name in scope.floats]
        lines += [f"out[OUT] = MIX(out[OUT], {name}[1] + {name}[2]);" for name in scope.arrays]
        lines += [f"out[OUT] = MIX(out[OUT], s[{'ME' if self.shared['s'] else 'WIDTH / 2'}]);"]
        body = "\n    ".join(lines)
        return f"__global__ void {name}(unsigned *out, const unsigned *in, unsigned n)\n{{\n    {body}\n}}\n"


def source(seed, count, width, warps=False):
    """Write a file of `count` kernels ``k0``, ``k1``, ... for blocks of `width` threads, also with warp functions."""
    generator = Generator(seed, warps)
    before = BEFORE + OF_WARPS * warps
    head = f"#define WIDTH {width}u\n#define OUT (blockIdx.x * WIDTH + threadIdx.x)\n{before}"
    return head + 'extern "C" {\n' + "\n".join(generator.kernel(f"k{i}") for i in range(count)) + "}\n"
