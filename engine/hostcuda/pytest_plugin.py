"""A pytest plugin: tests of kernels under the sanitizers, and with budgets on their counters.

See docs/testing.md.

A test with one of the markers runs in a process of its own, as `hostcuda sanitize` and `profile`
run a program. That process is a pytest for this one test, which reports the outcome in a file.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping

import pytest

from hostcuda import temporary
from hostcuda.errors import EngineError

MARKERS = {
    "hostcuda_sanitize": "hostcuda_sanitize(tool='all'): run the test under the sanitizers; a finding fails it",
    "hostcuda_budget": "hostcuda_budget(kernel=None, **largest): run the test with counters; one above its largest "
    "value fails it",
}
_REPORT = "HOSTCUDA_PYTEST_REPORT"  # in the process of a test: where it reports the outcome


def pytest_configure(config: pytest.Config) -> None:
    """Register the markers; pytest calls this hook when it starts."""
    for line in MARKERS.values():
        config.addinivalue_line("markers", line)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Replace each marked test in `items` by one that runs in a process of its own; pytest calls this hook.

    trylast: the hooks of other plugins come first, and see the tests themselves.
    """
    if _REPORT not in os.environ:  # else this process already runs a single marked test
        items[:] = [
            _ChildTest.from_test(item)
            if isinstance(item, pytest.Function) and any(map(item.get_closest_marker, MARKERS))
            else item
            for item in items
        ]


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """In the process of a test, append its outcome, a line of JSON, to the file that the parent process reads.

    pytest calls this hook after each phase of a test.
    """
    if _REPORT in os.environ:
        with open(os.environ[_REPORT], "a", encoding="utf-8") as out:
            # for a skipped test, pytest gives (file, line, reason)
            reason = (
                report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longreprtext
            )
            out.write(
                json.dumps({"outcome": report.outcome, "when": report.when, "text": reason}) + "\n"
            )


@pytest.fixture
def hostcuda_profile() -> Callable:
    """Count what a program's kernels do: ``hostcuda_profile("program.cu", "64").value("sectors_per_load", "copy")``.

    The function takes a program, its arguments, and as keywords `engine` and `options`, as
    `hostcuda.profile.profile_script` does. It returns a `Profile`; a program that fails raises an
    `EngineError`.
    """
    from hostcuda.profile import profile_script

    def count(script, *arguments, **settings):
        """Return the profile of a program, without nvcc's figures; raise an EngineError if it fails."""
        profile = profile_script(
            str(script), list(map(str, arguments)), capture=True, nvcc=False, **settings
        )
        profile.ended.require(str(script))
        return profile

    return count


class _ChildTest(pytest.Item):
    """A stand-in for a marked test, which it runs in a process of its own.

    Fixtures are set up there alone.
    """

    @classmethod
    def from_test(cls, test: pytest.Function) -> _ChildTest:
        """Return the stand-in for a test, which pytest selects, skips and reports as it would the test.

        Its `runtest` starts the process in which the test itself runs.
        """
        item = cls.from_parent(test.parent, name=test.name, nodeid=test.nodeid)
        # the conditions of skipif are evaluated in the test's module
        item.obj, item.test = (test.obj, test)
        item.own_markers, item.keywords = test.own_markers, test.keywords
        return item

    def reportinfo(self):
        return self.test.reportinfo()

    def repr_failure(self, failure, style=None):
        """Return what pytest prints of a failure: of a test in its own process the message, without a traceback."""
        if failure.errisinstance(EngineError):
            return str(failure.value)
        return super().repr_failure(failure, style)

    def runtest(self):
        """Run the test once per marker; raise an EngineError with all findings and exceeded budgets."""
        sentences = []  # a finding, an exceeded budget or a failure each
        # a marker's arguments are those of the method
        for mark in self.iter_markers("hostcuda_sanitize"):
            sentences += self._sanitize(*mark.args, **mark.kwargs)
        for mark in self.iter_markers("hostcuda_budget"):
            sentences += self._check_budget(*mark.args, **mark.kwargs)
        if sentences:
            raise EngineError("\n\n".join(sentences))

    def _sanitize(self, tool: str = "all") -> list[str]:
        """Run the test under the sanitizers; return its findings as texts, or its failure, or what was not checked."""
        from hostcuda.sanitize import watch

        findings, failure = self._run(watch, tool=tool)
        sentences = findings.lines() or failure  # a finding explains a failure after it
        if not sentences and (findings.launches == 0 or not findings.whole):
            return [findings.verdict()]
        return sentences

    def _check_budget(self, kernel: str | None = None, **largest: float) -> list[str]:
        """Run the test with counters; return its failure, or a sentence per counter above its largest value."""
        from hostcuda.profile import watch

        profile, failure = self._run(watch, nvcc=False)
        return failure or list(_list_excesses(profile, kernel, largest))

    def _run(self, watch: Callable, **settings) -> tuple:
        """Run the test in a process by `watch(command, **settings)`, of `hostcuda.sanitize` or `profile`.

        Return what `watch` returns, and the texts of the test's failures: an empty list if it
        passed. Raise what ends a test early: KeyboardInterrupt after Ctrl-C, pytest's exception if
        the test was skipped.
        """
        from hostcuda import processes as child

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
            return result, [
                f"the test's process {result.ended.problem or 'ran no test'}:\n{result.ended.last_lines}"
            ]
        for outcome in outcomes:
            if outcome["outcome"] == "skipped":
                pytest.skip(outcome["text"].removeprefix("Skipped: "))
        return result, [outcome["text"] for outcome in outcomes if outcome["outcome"] == "failed"]


def _list_excesses(profile, kernel: str | None, largest: Mapping[str, float]) -> Iterator[str]:
    """Yield a sentence for each counter of a kernel (None: of any) that is above its largest value, or undefined."""
    counts = profile.counts
    if counts.empty:
        yield "the test launched no kernel, so nothing was counted"
        return
    kernels = list(counts["kernel"]) if kernel is None else [kernel]
    for name, limit in largest.items():
        values = {kernel: profile.value(name, kernel) for kernel in kernels}
        if all(value != value for value in values.values()):  # NaN
            yield f"{name} is not defined: {', '.join(kernels)} made no such access"
        for kernel, value in values.items():
            if value > limit:
                yield f"{kernel}: {name} is {value:.4g}, more than the budget of {limit:.4g}"


if __name__ == "__main__":
    os.environ[_REPORT] = sys.argv.pop(1)
    raise SystemExit(pytest.main(sys.argv[1:]))
