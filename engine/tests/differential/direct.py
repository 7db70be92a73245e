"""Random kernels without barriers whose loops all threads run alike (`hostcuda.loops.direct`), or nearly so."""

from random import Random

from .compare import Batch, Case

PRELUDE = """
__constant__ unsigned table[8] = {3, 1, 4, 1, 5, 9, 2, 6};
__device__ float weights[8] = {0.1f, 3, -1.7f, 0.25f, 2.3f, -0.7f, 1, 8};
"""
BLOCKS = (
    (16, 16, 1),
    (32, 2, 1),
    (10, 7, 1),
    (40, 1, 1),
    (8, 2, 3),
    (17, 3, 1),
    (64, 1, 1),
    (5, 9, 1),
    (33, 1, 2),
)
WIDE = 128  # threads in x of a grid at most; out has room for 32 rows of them


class Direct:
    """A writer of kernels.

    A thread has an element of `out` of its own; `in` and the tables are only read.
    """

    def __init__(self, seed):
        self.random = Random(f"direct {seed}")
        self.name, self.count = f"d{seed}", 0
        self.block = self.pick(*BLOCKS)
        self.grid = (self.pick(1, 2, 3) if self.block[0] < 40 else 1, 1, 1)
        self.numbers, self.floats, self.same = (
            ["w"],
            [],
            ["n", "first"],
        )  # two per thread; one per row
        # whether it is to be a kernel whose loops are exchanged
        self.plain = self.random.random() < 0.8
        self.around = []  # counters
        self.row = (
            "threadIdx.y" if self.block[2] == 1 else "(threadIdx.z * blockDim.y + threadIdx.y)"
        )

    def pick(self, *choices):
        return self.random.choice(choices)

    def new(self, letter):
        self.count += 1
        return f"{letter}{self.count}"

    def uniform(self, depth=2):
        """Write a small number of at least 0 that is the same for a row."""
        if depth == 0 or self.random.random() < 0.4:
            return self.pick(*self.same, str(self.random.randrange(5)))
        a, b = self.uniform(depth - 1), self.uniform(depth - 1)
        return self.pick(f"({a} + {b})", f"min({a}, {b})", f"({a} * 2 + {b})", f"(({a}) % 7)")

    def load(self):
        """Write a read: in[...], with neighbors in memory in most cases, the thread's own element, or a table's."""
        a, b = self.uniform(), self.uniform()
        index = " + ".join([self.pick(f"w + {a}", f"{a} * 9 + w", f"w + {a} + {b}"), *self.around])
        odd = self.pick(
            f"w * 3 + {self.uniform()}",
            f"(w ^ 5) + {self.uniform()}",
            "w",
            f"w - {self.uniform(0)} + 40",
        )
        other = "out[me]" if self.plain else f"in[{odd}]"
        return self.pick(*[f"in[{index}]"] * (6 if self.plain else 2), other, self.even())

    def even(self):
        return self.pick(
            f"table[{self.uniform()} % 8]",
            f"table[({self.uniform()}) & 7]",
            f"in[{self.uniform()}]",
        )

    def value(self):
        a = self.pick(self.load(), f"(unsigned){self.pick(*self.numbers)}", self.load())
        times = "3u" if self.plain else self.even()
        return self.pick(
            a,
            f"{a} * {times}",
            f"{a} + {self.load()}",
            f"({a} ^ {self.uniform()})",
            f"max({a}, 9u)",
        )

    def number(self):
        a = f"(float)({self.load()} & 255u)"
        b = self.pick(f"weights[{self.uniform()} % 8]", "0.3f", *self.floats)
        return self.pick(f"(float)({a})", f"{a} * {b}", f"fmaxf({a}, {b})", f"{b} * {a}")

    def declaration(self):
        kind, name = self.pick("float", "unsigned", "same", "far"), self.new("v")
        if kind == "float":
            text = f"float {name} = {self.pick('0', '1.5f', '(float)w')};"
            self.floats.append(name)
        elif kind == "same":
            text = f"const int {name} = {self.uniform()};"
            self.same.append(name)
        elif kind == "far":
            text = f"const int {name} = w + {self.uniform()};"
            self.numbers.append(name)
        else:
            text = f"unsigned {name} = {self.pick('0', 'w', '7u')};"
            self.sums.append(name)
        return text

    def change(self):
        chance = self.random.random()
        if self.floats and chance < 0.35:
            name = self.pick(*self.floats)
            return self.pick(f"{name} += {self.number()};", f"{name} = {name} + {self.number()};")
        if self.sums and chance < 0.75:
            name = self.pick(*self.sums)
            mixed = f"{name} = {name} * 31u + {self.load()};"
            return self.pick(f"{name} += {self.value()};", mixed, f"{name} ^= {self.load()};")
        return self.pick(
            f"out[me] += {self.value()};",
            f"out[me] = {self.value()};",
            f"out[me] ^= {self.load()};",
        )

    def body(self, depth):
        """Write statements at a place that all threads that are left reach."""
        before = [list(names) for names in (self.numbers, self.floats, self.same, self.sums)]
        text = []
        for _ in range(self.random.randrange(1, 4)):
            chance = self.random.random()
            if depth and chance < 0.5:
                text.append(self.loop(depth - 1))
            elif chance < 0.65:
                text.append(self.declaration())
            elif chance < 0.7 and not (self.plain and self.around):
                text.append(f"if (in[w] & 1u) {{ {self.change()} }}")
            elif chance < 0.74 and depth and not (self.plain and self.around):
                text.append(f"if ({self.uniform()} > 2) {{ {self.body(depth - 1)} }}")
            else:
                text.append(self.change())
        self.numbers, self.floats, self.same, self.sums = before
        return "\n".join(text)

    def loop(self, depth):
        counter = self.new("i")
        bound = (
            self.pick(
                "n", "3", "n + 1", self.uniform(1), "h % 4", "" if self.plain else "(int)(w % 3)"
            )
            or "n"
        )
        unroll = self.pick("", "", "\n#pragma unroll\n")
        step = self.pick(f"++{counter}", f"{counter} += 2", f"{counter}++")
        self.same.append(counter)
        self.around.append(counter)
        body = self.body(depth)
        if self.plain:
            body += f"\nout[me] += in[{' + '.join(['w', *self.around])}];"
        self.same.remove(counter)
        self.around.remove(counter)
        return f"{unroll}for (int {counter} = 0; {counter} < {bound}; {step}) {{ {body} }}"

    def case(self):
        self.sums = []
        w = self.pick(
            "blockIdx.x * blockDim.x + threadIdx.x", "threadIdx.x + blockDim.x * blockIdx.x"
        )
        first = self.pick("h", "blockIdx.x % 2", "h % 3 + n / 2")
        text = [
            f"const int w = {w};",
            f"const int h = {self.row};",
            f"const int me = h * {WIDE} + w;",
        ]
        text.append(f"const int first = {first};")
        edge = self.random.randrange(3, 70)
        guard = self.pick(
            f"w >= {edge}", "h > 1 || w > 20", "w % 5 == 2", "w == 4 || w == 11", "n > 20"
        )
        shape = self.pick("return", "around", "none", "two")
        if shape in ("return", "two"):
            text.append(f"if ({guard}) return;")
        if shape == "two":
            text.append("if (h == 5) return;")
        body = "\n".join(
            [self.declaration(), self.declaration(), self.loop(1), self.body(2), self.stores()]
        )
        text.append(f"if (!({guard})) {{ {body} }}" if shape == "around" else body)
        parameters = "unsigned *out, const unsigned *in, int n"
        kernel = f"__global__ void {self.name}({parameters}) {{\n" + "\n".join(text) + "\n}\n"
        return Case(self.name, kernel, block=self.block, grid=self.grid, ns=(0, 1, 4))

    def stores(self):
        sums = [f"out[me] = out[me] * 31u + {name};" for name in self.sums]
        return "\n".join(sums + [f"out[me] += __float_as_uint({name});" for name in self.floats])


def batch(number, size=20):
    """Make the batch of the seeds from `number` * `size` on."""
    return Batch(PRELUDE, [Direct(number * size + i).case() for i in range(size)])
