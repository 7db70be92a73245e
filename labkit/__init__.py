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
    "LabError": "errors",
    "Layer": "layers",
    "LENET86": "layers",
    "LENET72": "layers",
    "LENET28": "layers",
    "conv_loops": "reference",
    "conv_numpy": "reference",
    "conv_float64": "reference",
    "device": "devices",
    "LADDER": "ladder",
    "variant": "ladder",
    "variants": "ladder",
    "rung": "ladder",
    "solution": "ladder",
    "diff": "ladder",
    "show": "ladder",
    "check": "checker",
    "bench": "benchmark",
    "kernel_times": "benchmark",
    "Pipeline": "streaming",
    "schedule": "streaming",
    "bench_streams": "streambench",
    "recorded_streams": "streambench",
    "recorded_timelines": "streambench",
    "record": "results",
    "recorded": "results",
    "counters": "results",
    "published": "publications",
    "library": "publications",
    "dataset": "data",
    "cycle": "data",
    "LeNet86": "network",
    "course_table": "network",
    "trace": "tracing",
    "sweep": "sweeping",
    "recorded_sweep": "sweeps",
    "best": "sweeping",
    "profile": "profiling",
    "sanitize": "sanitizing",
    "resources": "compiled",
    "rounding_errors": "precision",
    "setup": "page",
    "table": "page",
    "predict": "page",
    "claim": "page",
}
_MODULES = ("cuda", "devices", "draw", "layers", "network", "reference", "streaming")

__all__ = [*_HOME, *_MODULES]  # noqa: PLE0604 (they are strings)


def __getattr__(name: str):
    if name in _HOME:
        value = getattr(import_module(f"labkit.{_HOME[name]}"), name)
        globals()[name] = value
        return value
    if name in _MODULES:
        return import_module(f"labkit.{name}")
    raise AttributeError(f"labkit has no name {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
