"""Random rings of `kernels/rings.cu`, and a model of their mbarriers that says what may become of each.

The model runs a ring's threads and copies in a random order, one operation at a time, with nothing of the engine. It
keeps of each mbarrier what PTX says (arrivals and bytes that are missing, and the phase), and a vector clock per
thread. So each order shows whether the threads wait forever, arrive too often, or make accesses that nothing orders.
"""

import random
from collections import defaultdict
from dataclasses import dataclass

MISTAKES = (
    "none",
    "producer does not wait",
    "consumer does not wait",
    "producer does not arrive",
    "consumer does not arrive",
    "parity of producer",
    "parity of consumer",
    "producer arrives early",
    "consumer arrives early",
    "consumer arrives twice",
    "more bytes",
    "fewer bytes",
    "full expects more",
    "full expects fewer",
    "empty expects more",
    "empty expects fewer",
    "no meeting after wait",
    "no meeting before arrival",
)
PIECE = 8  # elements


@dataclass
class Ring:
    """A ring, by the fields of the struct in the kernel."""

    stages: int
    producers: int  # warps
    consumers: int
    pieces: int  # of a tile
    tiles: int
    lanes: int  # that take part of each warp
    copies: bool  # bulk copies fill a stage, and not stores
    producers_take_turns: bool  # with the tiles; otherwise each fills its part of each
    consumers_take_turns: bool  # with the tiles; otherwise each reads some pieces of each
    each_lane_arrives: bool  # otherwise one does for its warp
    one_lane_waits: bool  # for its warp
    expects_late: bool  # behind the copy
    mistake: int = 0  # of `MISTAKES`
    tile: int = 0  # where it is made, if not everywhere
    warp: int = 0

    def makes(self, mistake: str, warp: int, tile: int) -> bool:
        """Return whether a warp makes this mistake at a tile."""
        return MISTAKES[self.mistake] == mistake and (warp, tile) == (self.warp, self.tile)

    def sharing(self) -> int:
        """Return how many producers fill a stage."""
        return 1 if self.producers_take_turns else self.producers

    def reading(self) -> int:
        """Return how many consumers read a stage."""
        return 1 if self.consumers_take_turns else self.consumers

    def expected(self) -> dict[str, int]:
        """Return how many arrivals a phase of "full" and of "empty" expects."""
        arrivals, mistake = self.lanes if self.each_lane_arrives else 1, MISTAKES[self.mistake]
        right = {
            "full": self.sharing() * (1 if self.copies else arrivals),
            "empty": self.reading() * arrivals,
        }
        return {
            name: count + (mistake == f"{name} expects more") - (mistake == f"{name} expects fewer")
            for name, count in right.items()
        }


def draw(source: random.Random, is_legal: bool) -> Ring:
    """Draw a ring: a legal one, or one with a mistake, which may do no harm."""
    producers, consumers = source.randint(1, 3), source.randint(1, 4)
    ring = Ring(
        source.randint(1, 6),
        producers,
        consumers,
        producers * source.randint(1, 4),
        source.randint(1, 9),
        source.choice((1, 2, 4)),
        *source.choices((False, True), k=6),
    )
    # Who takes turns, and not always with the same stages, may be two phases behind: parity does not tell them apart.
    is_skipping = False
    if is_legal or source.random() < 0.8:
        ring.producers_take_turns &= ring.stages % producers == 0
        ring.consumers_take_turns &= ring.stages % consumers == 0
    else:
        is_skipping = ring.producers_take_turns or ring.consumers_take_turns
    ring.tile = source.randrange(ring.tiles)
    producer = ring.tile if ring.producers_take_turns else source.randrange(producers)
    consumer = ring.tile if ring.consumers_take_turns else source.randrange(consumers)
    while not (is_legal or is_skipping or ring.mistake):
        ring.mistake = source.randrange(1, len(MISTAKES))
        is_producers = "producer" in MISTAKES[ring.mistake] or "bytes" in MISTAKES[ring.mistake]
        ring.warp = consumers + producer % producers if is_producers else consumer % consumers
        if 0 in ring.expected().values():
            ring.mistake = 0  # which mbarrier.init refuses
    return ring


def list_operations(ring: Ring) -> list[list[tuple]]:
    """Return the operations of each thread that takes part."""
    threads = []
    mistake = MISTAKES[ring.mistake]

    def wait(to, warp, lane, barrier, parity, waits):
        if waits and (not ring.one_lane_waits or lane == 0):
            to.append(("wait", barrier, parity % 2))
        if ring.one_lane_waits and mistake != "no meeting after wait":
            to.append(("meet", warp))

    def arrive(to, warp, lane, barrier):
        if not ring.each_lane_arrives and mistake != "no meeting before arrival":
            to.append(("meet", warp))
        if ring.each_lane_arrives or lane == 0:
            to.append(("arrive", barrier, 0))

    def consume(to, warp, lane, tile):
        s, lap = tile % ring.stages, tile // ring.stages
        waits = not ring.makes("consumer does not wait", warp, tile)
        parity = lap + ring.makes("parity of consumer", warp, tile)
        wait(to, warp, lane, ("full", s), parity, waits)
        if early := ring.makes("consumer arrives early", warp, tile):
            arrive(to, warp, lane, ("empty", s))
        first = 0 if ring.consumers_take_turns else warp
        pieces = range(first, ring.pieces, ring.reading())
        elements = [(j + 1) % PIECE for j in range(lane, PIECE, ring.lanes)]
        to.append(("read", [(s, p * PIECE + j) for p in pieces for j in elements]))
        if not early and not ring.makes("consumer does not arrive", warp, tile):
            arrive(to, warp, lane, ("empty", s))
        if ring.makes("consumer arrives twice", warp, tile):
            arrive(to, warp, lane, ("empty", s))

    def produce(to, warp, lane, tile):
        s, lap = tile % ring.stages, tile // ring.stages
        count = PIECE * ring.pieces // ring.sharing()
        first = 0 if ring.producers_take_turns else (warp - ring.consumers) * count
        waits = not ring.makes("producer does not wait", warp, tile)
        parity = lap + 1 + ring.makes("parity of producer", warp, tile)
        arrives = not ring.makes("producer does not arrive", warp, tile)
        wait(to, warp, lane, ("empty", s), parity, waits)
        if ring.copies:
            wrong = ring.makes("more bytes", warp, tile) - ring.makes("fewer bytes", warp, tile)
            copy = ("copy", ("full", s), [(s, first + j) for j in range(count)])
            steps = [("arrive", ("full", s), 4 * count + 16 * wrong)] * arrives + [copy]
            to.extend(reversed(steps) if ring.expects_late else steps)
            return
        if early := ring.makes("producer arrives early", warp, tile):
            arrive(to, warp, lane, ("full", s))
        to.append(("write", [(s, first + j) for j in range(lane, count, ring.lanes)]))
        if arrives and not early:
            arrive(to, warp, lane, ("full", s))

    for warp in range(ring.consumers + ring.producers):
        produces = warp >= ring.consumers
        number, of = (warp - ring.consumers, ring.producers) if produces else (warp, ring.consumers)
        turns = ring.producers_take_turns if produces else ring.consumers_take_turns
        for lane in range(1 if produces and ring.copies else ring.lanes):
            threads.append([])
            for tile in range(ring.tiles):
                if not turns or tile % of == number:
                    (produce if produces else consume)(threads[-1], warp, lane, tile)
    return threads


class Barrier:
    """An mbarrier: what its phase misses, and what its arrivals and copies let know who waits for it."""

    def __init__(self, expected: int):
        self.expected = self.missing = expected
        self.missing_bytes = self.phase = 0
        self.open, self.ended = defaultdict(int), {}  # clocks of this phase and of the last one

    def settle(self):
        """End the phase if nothing is missing."""
        if self.missing == self.missing_bytes == 0:
            self.missing, self.phase = self.expected, self.phase + 1
            self.ended, self.open = self.open, defaultdict(int)


def join(to: dict, other: dict):
    """Let a clock know what another one knows."""
    for who, time in other.items():
        to[who] = max(to[who], time)


class Run:
    """One order in which a ring's threads and copies run; `kinds` has what goes wrong."""

    def __init__(self, ring: Ring, source: random.Random):
        self.source, self.kinds = source, set()
        self.left = [operations[::-1] for operations in list_operations(ring)]
        self.clocks = [defaultdict(int, {thread: 1}) for thread in range(len(self.left))]
        self.barriers = defaultdict(dict)
        for s in range(ring.stages):
            for name, expected in ring.expected().items():
                self.barriers[name, s] = Barrier(expected)
        self.members = defaultdict(set)  # of a warp: the threads that meet
        for thread, operations in enumerate(self.left):
            for operation in operations:
                if operation[0] == "meet":
                    self.members[operation[1]].add(thread)
        self.met = defaultdict(set)
        self.copies, self.copies_begun, self.copies_seen = [], 0, set()
        self.writer, self.readers = {}, defaultdict(dict)  # per element: who, and at which time

    def can_run(self, thread: int) -> bool:
        """Return whether a thread has something to do, and need not wait."""
        if not self.left[thread]:
            return False
        what, where, *more = self.left[thread][-1]
        if what == "wait":
            return self.barriers[where].phase % 2 != more[0]
        return what != "meet" or thread not in self.met[where]

    def run(self) -> set[str]:
        """Run to the end; return the kinds of what goes wrong."""
        # some threads are slower than others, and copies too
        speeds = [self.source.random() ** 3 + 1e-3 for _ in self.left]
        copy_speed = self.source.random() ** 2
        while True:
            ready = [thread for thread in range(len(self.left)) if self.can_run(thread)]
            if self.copies and (not ready or self.source.random() < copy_speed):
                self.land_copy()
            elif ready:
                weights = [speeds[thread] for thread in ready]
                if not self.step(self.source.choices(ready, weights)[0]):
                    return self.kinds | {"fault"}
            else:
                break
        if any(self.left):
            self.kinds.add("deadlock")
        elif len(self.copies_seen) < self.copies_begun:
            self.kinds.add("copy that is not awaited")
        return self.kinds

    def land_copy(self):
        """Let one of the copies under way arrive."""
        copy, where, size = self.copies.pop(self.source.randrange(len(self.copies)))
        barrier = self.barriers[where]
        barrier.missing_bytes -= size
        barrier.open[copy] = 1
        barrier.settle()

    def step(self, thread: int) -> bool:
        """Run a thread's next operation; return False if that ends the launch."""
        what, where, *more = self.left[thread][-1]
        clock = self.clocks[thread]
        if what == "meet":
            self.met[where].add(thread)
            if self.met[where] == self.members[where]:
                self.meet(where)
            return True
        if what == "wait":
            join(clock, self.barriers[where].ended)
            self.copies_seen |= {who for who in self.barriers[where].ended if isinstance(who, str)}
        elif what == "arrive":
            barrier = self.barriers[where]
            if barrier.missing == 0:
                return False
            barrier.missing -= 1
            barrier.missing_bytes += more[0]
            join(barrier.open, clock)
            clock[thread] += 1
            barrier.settle()
        elif what == "copy":
            copy = f"copy {self.copies_begun}"
            self.copies_begun += 1
            self.write(copy, 1, clock, more[0])
            self.copies.append((copy, where, 4 * len(more[0])))
        elif what == "write":
            self.write(thread, clock[thread], clock, where)
        else:
            self.read(thread, clock, where)
        self.left[thread].pop()
        return True

    def meet(self, warp: int):
        """Let the lanes of a warp know what each of them knows."""
        known = defaultdict(int)
        for thread in self.members[warp]:
            join(known, self.clocks[thread])
        for thread in self.members[warp]:
            self.clocks[thread] = known.copy()
            self.clocks[thread][thread] += 1
            self.left[thread].pop()
        self.met[warp] = set()

    def write(self, who, time: int, clock: dict, elements: list):
        """Write elements, also by a copy that a thread with this clock begins."""
        for element in elements:
            others = [*self.readers.pop(element, {}).items()]
            if element in self.writer:
                others.append(self.writer[element])
            if any(clock[other] < its_time for other, its_time in others):
                self.kinds.add("race")
            self.writer[element] = who, time

    def read(self, thread: int, clock: dict, elements: list):
        """Read elements."""
        for element in elements:
            if element not in self.writer:
                self.kinds.add("uninitialized")
            else:
                other, its_time = self.writer[element]
                if clock[other] < its_time:
                    self.kinds.add("race")
            self.readers[element][thread] = clock[thread]


def list_outcomes(ring: Ring, orders: int = 16) -> list[set[str]]:
    """Return the kinds of what goes wrong in some random orders; a ring without a mistake has none in any."""
    source = random.Random(7)
    return [Run(ring, source).run() for _ in range(orders)]
