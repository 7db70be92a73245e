"""The CUDA convolution lab: optimize the convolutions of a LeNet in CUDA C, and see why each step worked or not.

Everything a notebook needs is a name of this package; each is imported when it is first used, so that
``import labkit`` stays light and picks no engine. The engine (a GPU, or the CPU engine that runs the same
``.cu`` source) is chosen by :mod:`labkit.cuda` when something first runs; ``LABKIT_ENGINE=cpu`` or ``gpu`` decides
for it.
"""

from importlib import import_module

__version__ = "0.1.0"

# Public name -> the module that defines it (a module never has its function's name: it would shadow it).
_HOME = {
    "LabError": "base.errors",
    "Layer": "spec.layers",
    "LENET86": "spec.layers",
    "LENET72": "spec.layers",
    "LENET28": "spec.layers",
    "conv_loops": "spec.reference",
    "conv_numpy": "spec.reference",
    "conv_float64": "spec.reference",
    "device": "spec.devices",
    "LADDER": "ladder.rungs",
    "variant": "ladder.variants",
    "variants": "ladder.variants",
    "rung": "ladder.rungs",
    "solution": "ladder.variants",
    "diff": "page.listing",
    "show": "page.listing",
    "check": "measure.check",
    "bench": "measure.bench",
    "kernel_times": "measure.bench",
    "Pipeline": "measure.pipeline",
    "schedule": "measure.pipeline",
    "bench_streams": "measure.streams",
    "recorded_streams": "measure.streams",
    "recorded_timelines": "measure.streams",
    "record": "records.results",
    "recorded": "records.results",
    "counters": "records.results",
    "published": "records.published",
    "cudnn": "records.published",
    "dataset": "network.images",
    "cycle": "network.images",
    "Network": "network.lenet86",
    "course_table": "network.lenet86",
    "trace": "measure.trace",
    "sweep": "measure.sweep",
    "recorded_sweep": "records.sweeps",
    "best": "measure.sweep",
    "profile": "evidence.profile",
    "sanitize": "evidence.sanitize",
    "resources": "evidence.nvcc",
    "rounding_errors": "measure.rounding",
    "setup": "page.claims",
    "table": "base.tables",
    "predict": "page.claims",
    "claim": "page.claims",
}
_MODULES = {
    "cuda": "cuda",
    "devices": "spec.devices",
    "draw": "draw",
    "layers": "spec.layers",
    "network": "network.lenet86",
    "reference": "spec.reference",
    "streaming": "measure.pipeline",
}

__all__ = [*_HOME, *_MODULES]  # noqa: PLE0604 (they are strings)


def __getattr__(name: str):
    if name in _HOME:
        value = getattr(import_module(f"labkit.{_HOME[name]}"), name)
        globals()[name] = value
        return value
    if name in _MODULES:
        return import_module(f"labkit.{_MODULES[name]}")
    raise AttributeError(f"labkit has no name {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
