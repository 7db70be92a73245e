"""Counters: Nsight Compute's metrics under friendly names, what is computed from them, and their headings in tables."""

from typing import NamedTuple


class Counter(NamedTuple):
    """A metric that the CPU engine counts, and how it follows from the runtime's record of a launch.

    Attributes
    ----------
    name : str
        The friendly name.
    metric : str
        Nsight Compute's name. Those with ``lab__`` are the CPU engine's own: Nsight Compute has no
        single metric.
    space, op : str
        The accesses that it sums: their memory space and operation; no operation: all of them.
        Without a space it is a number of the whole launch.
    figure : str
        Which number of the record, see ``counts_text`` in ``runtime/counting.cpp``: of an access
        "requests", "units" (sectors of global memory, else wavefronts) or "extra" (units beyond the
        least possible number), "bytes" (of all lanes), "lines" (of 128 bytes of global memory, per
        request) or "groups" (loads from shared memory, of which those that a compiler can join into one
        of 16 bytes count as one), of a launch "barriers", "block_barriers" and "named_barriers" (of
        warps), "matrices" (warps' operations on matrices), "exchanges" (warps' shuffles, votes,
        matches and reductions), "largest_result" (the largest integer that an atomic operation has returned),
        "counter_results" (values, of single lanes, that atomic operations on an allocation of one
        value have returned),
        "unique_bytes", "busiest_warp" (the most memory instructions of a warp), "two_way_warps" (that
        store to shared memory and load from it), "copied_bytes" (of asynchronous copies to shared
        memory), "overlapped_bytes" (of those whose thread reads as much shared memory before it
        waits for them as between any two barriers) or "bytes_ahead" (the most bytes of bulk copies
        that are under way while a thread reads what an earlier one has copied; racecheck counts
        these three).
    """

    name: str
    metric: str
    space: str
    op: str
    figure: str


_MEMORY = "l1tex__t_{}_pipe_lsu_mem_{}_op_{}.sum"  # requests or sectors; memory space; operation
_SHARED, _WAVEFRONTS = (
    "smsp__inst_executed_op_shared_{}.sum",
    "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_{}.sum",
)
_CONFLICTS = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_{}.sum"
COUNTERS = (
    *(
        Counter(f"{name}_{unit}", _MEMORY.format(unit, "global", op), "global", op, figure)
        for name, op in (
            ("global_load", "ld"),
            ("global_store", "st"),
            ("atomic", "atom"),
            ("reduction", "red"),
        )
        for unit, figure in (("requests", "requests"), ("sectors", "units"))
    ),
    *(
        Counter(f"shared_{name}_{unit}", metric.format(op), "shared", op, figure)
        for unit, metric, figure in (
            ("instructions", _SHARED, "requests"),
            ("wavefronts", _WAVEFRONTS, "units"),
            ("conflicts", _CONFLICTS, "extra"),
        )
        for name, op in (("load", "ld"), ("store", "st"))
    ),
    Counter("shared_atomic_requests", _SHARED.format("atom"), "shared", "atom", "requests"),
    Counter("shared_atomic_wavefronts", _WAVEFRONTS.format("atom"), "shared", "atom", "units"),
    # Of all lanes, where requests count a warp's lanes as one.
    *(
        Counter(f"shared_{name}_bytes", f"lab__bytes_of_shared_{name}s.sum", "shared", op, "bytes")
        for name, op in (("load", "ld"), ("store", "st"), ("atomic", "atom"))
    ),
    # As if nvcc joined neighbouring words that all lanes of a warp read, one load after the other.
    Counter("shared_load_groups", "lab__groups_of_shared_loads.sum", "shared", "ld", "groups"),
    # Of 128 bytes: a warp that loads a row of 32 floats needs one, one that loads a column 32.
    # Of all lanes: a load of four words counts as four.
    Counter("global_load_bytes", "lab__bytes_of_global_loads.sum", "global", "ld", "bytes"),
    *(
        Counter(f"{name}_lines", f"lab__lines_of_{name}s.sum", "global", op, "lines")
        for name, op in (
            ("global_load", "ld"),
            ("global_store", "st"),
            ("atomic", "atom"),
            ("reduction", "red"),
        )
    ),
    Counter("constant_requests", "lab__constant_requests.sum", "constant", "", "requests"),
    Counter("constant_serialized", "lab__constant_serialized.sum", "constant", "", "extra"),
    Counter("constant_bytes", "lab__bytes_of_constant_loads.sum", "constant", "", "bytes"),
    Counter("barriers", "lab__barriers.sum", "", "", "barriers"),
    # Without the phases of barriers in shared memory, which have arrivals of their own.
    Counter("block_barriers", "lab__barriers_of_blocks.sum", "", "", "block_barriers"),
    # With a number of PTX, as `bar.sync 1, 64`: of warps, at each arrival, also if nobody waits.
    Counter("named_barriers", "lab__barriers_with_a_number.sum", "", "", "named_barriers"),
    # Requests of variables whose address is taken: the CPU engine cannot count other local
    # requests.
    Counter(
        "local_requests_address_taken",
        "lab__local_requests_address_taken.sum",
        "local",
        "",
        "requests",
    ),
    Counter("unique_bytes", "lab__unique_bytes_global.sum", "", "", "unique_bytes"),
    Counter("busiest_warp", "lab__instructions_of_busiest_warp.max", "", "", "busiest_warp"),
    Counter("two_way_warps", "lab__warps_of_shared_stores_and_loads.sum", "", "", "two_way_warps"),
    Counter(
        "largest_atomic_result", "lab__largest_result_of_atomics.max", "", "", "largest_result"
    ),
    # A queue, or another counter that has an allocation of its own.
    Counter("counter_results", "lab__results_of_counters.sum", "", "", "counter_results"),
    Counter("matrix_operations", "lab__matrix_operations.sum", "", "", "matrices"),
    # Of numbers between the lanes of a warp; operations on matrices are not among them.
    Counter("lane_exchanges", "lab__exchanges_between_lanes.sum", "", "", "exchanges"),
    Counter("copied_bytes", "lab__bytes_of_asynchronous_copies.sum", "", "", "copied_bytes"),
    Counter("overlapped_bytes", "lab__bytes_of_overlapped_copies.sum", "", "", "overlapped_bytes"),
    Counter("bytes_ahead", "lab__bytes_of_bulk_copies_ahead.max", "", "", "bytes_ahead"),
)
_NAMED = {counter.name: counter.metric for counter in COUNTERS}
# Friendly name -> Nsight Compute's metric, for the counters that the CPU engine has, too.
COUNTED = {name: metric for name, metric in _NAMED.items() if not metric.startswith("lab__")}
# Counters that only a GPU has: time, caches, instructions, and the compiler's decisions.
MEASURED = {
    "time_ns": "gpu__time_duration.sum",
    "l1_hit_pct": "l1tex__t_sector_hit_rate.pct",
    "l2_read_sectors": "lts__t_sectors_op_read.sum",
    "l2_write_sectors": "lts__t_sectors_op_write.sum",
    "dram_bytes": "dram__bytes.sum",
    "instructions": "smsp__inst_executed.sum",
    # the CPU engine counts them as loads
    "matrix_load_instructions": "smsp__inst_executed_op_ldsm.sum",
    # spills too, which the CPU engine does not have
    "local_load_requests": _MEMORY.format("requests", "local", "ld"),
    "local_store_requests": _MEMORY.format("requests", "local", "st"),
    "constant_cache_requests": "idc__requests.sum",  # one per word that a warp asks for
    "registers": "launch__registers_per_thread",
    "shared_bytes": "launch__shared_mem_per_block",
    "occupancy_pct": "sm__maximum_warps_per_active_cycle_pct",
}
# Counters that `recording.counters` records in addition, for every kernel. Busy: in per cent of the
# unit's maximum.
_PEAK, _ACTIVE = ".avg.pct_of_peak_sustained_elapsed", ".avg.pct_of_peak_sustained_active"
_THREADS = "smsp__sass_thread_inst_executed_op_{}_pred_on.sum"
RECORDED = {
    "cycles": "sm__cycles_elapsed.max",
    "issue_slots_pct": "smsp__issue_active" + _ACTIVE,
    "warps_resident_pct": "sm__warps_active" + _ACTIVE,
    "l1_wavefronts": "l1tex__data_pipe_lsu_wavefronts.sum",
    "l1_busy_pct": "l1tex__data_pipe_lsu_wavefronts" + _PEAK,
    "shared_pipe_wavefronts": "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum",
    "shared_busy_pct": "l1tex__data_pipe_lsu_wavefronts_mem_shared" + _PEAK,
    "l2_busy_pct": "lts__throughput" + _PEAK,
    "constant_cache_misses": "idc__requests_lookup_miss.sum",
    "constant_cache_busy_pct": "idc__request_cycles_active" + _PEAK,
    "constant_load_instructions": "smsp__inst_executed_op_ldc.sum",
    "mio_instructions": "sm__mio_inst_issued.sum",  # issued to the MIO, which takes one per cycle
    "tensor_instructions": "sm__inst_executed_pipe_tensor.sum",
    "tensor_busy_pct": "sm__pipe_tensor_cycles_active" + _ACTIVE,
    "half_instructions": "sm__inst_executed_pipe_fma_type_fp16.sum",
    "thread_instructions": "smsp__thread_inst_executed.sum",
    **{
        f"thread_{kind}_instructions": _THREADS.format(kind)
        for kind in ("ffma", "integer", "control", "memory")
    },
}
# And for kernels whose loops are unrolled in many ways: how instructions come to a multiprocessor.
FETCHED = {
    "instruction_fetches": "sm__icc_requests.sum",  # of the multiprocessor's instruction cache
    "instruction_fetch_misses": "sm__icc_requests_lookup_miss.sum",
    # of the next cache, which several of them share
    "next_fetches": "gcc__cache_requests_type_instruction.sum",
    "next_fetch_misses": "gcc__cache_requests_type_instruction_lookup_miss.sum",
}
# Friendly name -> column of a profile.
NAMES = {
    **_NAMED,
    **MEASURED,
    "static_shared_bytes": "launch__shared_mem_per_block_static",
    "local_bytes": "local_bytes",  # per thread: spills, and arrays that do not fit into registers
    "spill_store_bytes": "spill_store_bytes",
    "spill_load_bytes": "spill_load_bytes",
}
# Means over the launches of a variant; all others are sums.
NOT_ADDITIVE = (
    "l1_hit_pct",
    "registers",
    "shared_bytes",
    "static_shared_bytes",
    "local_bytes",
    "spill_store_bytes",
    "spill_load_bytes",
    "occupancy_pct",
    "unique_bytes",
    "busiest_warp",
    "largest_atomic_result",
    "bytes_ahead",
)
SUMS = {
    "global_requests": (
        "global_load_requests",
        "global_store_requests",
        "atomic_requests",
        "reduction_requests",
    ),
    "global_sectors": (
        "global_load_sectors",
        "global_store_sectors",
        "atomic_sectors",
        "reduction_sectors",
    ),
    "local_requests": ("local_load_requests", "local_store_requests"),
    "shared_instructions": ("shared_load_instructions", "shared_store_instructions"),
    "shared_wavefronts": ("shared_load_wavefronts", "shared_store_wavefronts"),
    "shared_conflicts": ("shared_load_conflicts", "shared_store_conflicts"),
}
# Quotients of sums over the launches.
QUOTIENTS = {
    "sectors_per_request": ("global_sectors", "global_requests"),
    "sectors_per_load": ("global_load_sectors", "global_load_requests"),
    "sectors_per_store": ("global_store_sectors", "global_store_requests"),
    "wavefronts_per_shared_load": ("shared_load_wavefronts", "shared_load_instructions"),
    "wavefronts_per_shared_store": ("shared_store_wavefronts", "shared_store_instructions"),
}
# The columns of a table of traffic, in their order, and their words.
TRAFFIC = {
    "variant": "variant",
    "kernel": "kernel",
    "launches": "launches",
    "global_load_requests": "load requests",
    "sectors_per_load": "sectors per load",
    "global_store_requests": "store requests",
    "sectors_per_store": "sectors per store",
    "global_sectors": "global sectors",
    "atomic_requests": "atomics, old value used",
    "reduction_requests": "atomics, old value unused",
    "shared_atomic_requests": "shared atomics",
    "shared_wavefronts": "shared wavefronts",
    "shared_conflicts": "of these conflicts",
    "constant_requests": "constant requests",
    "constant_serialized": "of these repeated",
    "local_requests": "local requests",
    "local_requests_address_taken": "local requests (address taken)",
    "time_ns": "time (ns)",
    "registers": "registers",
    "shared_bytes": "shared bytes incl. the driver's",
    "static_shared_bytes": "static shared bytes",
    "local_bytes": "local bytes",
    "occupancy_pct": "occupancy (%)",
}

# Nsight Compute's reasons why a warp does not issue its next instruction, and what the warp waits
# for: see "Warp Stall Reasons" in the Nsight Compute documentation. STALLED gives the metric of a
# reason: cycles per issued instruction.
STALLED = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"
STALLS = {
    "long_scoreboard": "data from global or local memory",
    # and other results of the memory input/output unit (MIO)
    "short_scoreboard": "data from shared memory",
    "mio_throttle": "room in the queue to shared memory",  # the MIO's queue
    # of the load/store unit, for local and global memory
    "lg_throttle": "room in the queue to global memory",
    "imc_miss": "a miss in the constant cache",  # of immediate constants
    "barrier": "a barrier",
    "math_pipe_throttle": "a busy arithmetic pipe",
    "wait": "a fixed latency",
    "no_instruction": "the fetch of an instruction",
    "branch_resolving": "the target of a branch",
    "dispatch_stall": "the dispatch unit",
    "not_selected": "its issue slot: another warp was issued",
}
