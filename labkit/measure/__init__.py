"""Correctness and time: check, bench, pipelines on streams, sweeps, traces, rounding errors."""
