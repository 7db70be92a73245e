"""A pytest plugin: tests of kernels under the sanitizers, and with budgets on their counters. See docs/testing.md.

A test with one of the markers runs in a process of its own, as `hostcuda sanitize` and `profile` run a program.
That process is a pytest for this one test, which reports the outcome in a file.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable

import pytest

from hostcuda.errors import EngineError
from hostcuda.util import temporary

MARKERS = {
    "hostcuda_sanitize": "hostcuda_sanitize(tool='all'): run the test under the sanitizers; a finding fails it",
    "hostcuda_budget": "hostcuda_budget(kernel=None, **largest): run the test with counters; one above its largest "
    "value fails it",
}
_REPORT = "HOSTCUDA_PYTEST_REPORT"  # in the process of a test: where it reports the outcome


def pytest_configure(config):
    """Register the markers."""
    for line in MARKERS.values():
        config.addinivalue_line("markers", line)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items):
    """Replace each marked test by one that runs in a process of its own."""
    if _REPORT not in os.environ:
        items[:] = [_ChildTest.of(item) if isinstance(item, pytest.Function)
                    and any(map(item.get_closest_marker, MARKERS)) else item for item in items]


def pytest_runtest_logreport(report):
    """Write the outcome of a test for its parent process."""
    if _REPORT in os.environ:
        with open(os.environ[_REPORT], "a", encoding="utf-8") as out:
            reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longreprtext
            out.write(json.dumps({"outcome": report.outcome, "when": report.when, "text": reason}) + "\n")


@pytest.fixture
def hostcuda_profile() -> Callable:
    """Count what a program's kernels do: ``hostcuda_profile("program.cu", "64").value("sectors_per_load", "copy")``.

    The function takes a program, its arguments, and as keywords `engine` and `options`, as
    `hostcuda.profile.profile_script` does. It returns a `Profile`; a program that fails raises an `EngineError`.
    """
    from hostcuda.tools.profile import profile_script

    def count(script, *arguments, **settings):
        profile = profile_script(str(script), list(map(str, arguments)), capture=True, nvcc=False, **settings)
        profile.ended.require(str(script))
        return profile

    return count


class _ChildTestFailed(Exception):
    """The failure of a test in its own process. pytest prints the message alone."""


class _ChildTest(pytest.Item):
    """A stand-in for a marked test, which it runs in a process of its own. Fixtures are set up there alone."""

    @classmethod
    def of(cls, test):
        item = cls.from_parent(test.parent, name=test.name, nodeid=test.nodeid)
        item.obj, item.test = test.obj, test  # the conditions of skipif are evaluated in the test's module
        item.own_markers, item.keywords = test.own_markers, test.keywords
        return item

    def reportinfo(self):
        return self.test.reportinfo()

    def repr_failure(self, failure, style=None):
        if failure.errisinstance((_ChildTestFailed, EngineError)):
            return str(failure.value)
        return super().repr_failure(failure, style)

    def runtest(self):
        sentences = []
        for mark in self.iter_markers("hostcuda_sanitize"):
            sentences += self._sanitize(*mark.args, **mark.kwargs)
        for mark in self.iter_markers("hostcuda_budget"):
            sentences += self._check_budget(*mark.args, **mark.kwargs)
        if sentences:
            raise _ChildTestFailed("\n\n".join(sentences))

    def _sanitize(self, tool="all"):
        from hostcuda.tools.sanitize import watch

        findings, failure = self._run(watch, tool=tool)
        sentences = findings.lines() or failure  # a finding explains a failure after it
        if not sentences and (findings.launches == 0 or not findings.whole):
            return [findings.verdict()]
        return sentences

    def _check_budget(self, kernel=None, **largest):
        from hostcuda.tools.profile import watch

        profile, failure = self._run(watch, nvcc=False)
        return failure or list(_compare(profile, kernel, largest))

    def _run(self, watch, **settings):
        """Run the test under `watch`; return the result of that, and a list with the test's failure, if it failed."""
        from hostcuda.tools import processes as child

        config = self.config
        options = ["-q", "-m", "", "--rootdir", str(config.rootpath)]
        options += ["-c", str(config.inipath)] if config.inipath else []
        options += ["-n", "0"] if config.pluginmanager.hasplugin("xdist") else []
        options += [f"-p{plugin}" for plugin in (*config.option.plugins, "no:cacheprovider")]
        test = f"{self.path}::{self.nodeid.partition('::')[2]}"
        with temporary.folder() as folder:
            report = folder / "report"
            command = [sys.executable, "-m", __name__, str(report), *options, test]
            result = watch(command, capture=True, **settings)
            outcomes = child.lines(report)
        if result.ended.interrupted:
            raise KeyboardInterrupt
        if not outcomes:
            return result, [f"the test's process {result.ended.problem or 'ran no test'}:\n{result.ended.last_lines}"]
        for outcome in outcomes:
            if outcome["outcome"] == "skipped":
                pytest.skip(outcome["text"].removeprefix("Skipped: "))
        return result, [outcome["text"] for outcome in outcomes if outcome["outcome"] == "failed"]


def _compare(profile, kernel, largest):
    """Yield a sentence for each counter that is above its largest value."""
    counts = profile.counts
    if counts.empty:
        yield "the test launched no kernel, so nothing was counted"
        return
    kernels = list(counts["kernel"]) if kernel is None else [kernel]
    for name, limit in largest.items():
        values = {kernel: profile.value(name, kernel) for kernel in kernels}
        if all(value != value for value in values.values()):
            yield f"{name} is not defined: {', '.join(kernels)} made no such access"
        for kernel, value in values.items():
            if value > limit:
                yield f"{kernel}: {name} is {value:.4g}, more than the budget of {limit:.4g}"


if __name__ == "__main__":
    os.environ[_REPORT] = sys.argv.pop(1)
    raise SystemExit(pytest.main(sys.argv[1:]))
