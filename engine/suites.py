"""Hooks of pytest for the tests of all packages: the three suites, and which files take longest.

Each file says to which suite it belongs, and why: ``pytestmark = pytest.mark.core("the judge of
every kernel")``. Of its tests, some may be marked with a later suite, and then belong to that one
alone. `MARKS` has the expression with which `make` chooses each suite; pytest by itself runs all.
"""

import re
from collections import Counter
from functools import lru_cache

import pytest

MARKS = {  # `make` names the suites so, from the earliest to the last
    "core": "not thorough and not exhaustive",
    "thorough": "thorough and not exhaustive",
    "exhaustive": "exhaustive",
}
_MARK = re.compile(r"^pytestmark = \[?\s*pytest\.mark\.(core|thorough)\(\s*\"", re.MULTILINE)
COUNT = 10  # files that the summary lists


@lru_cache
def suites(path):
    """Return the suites that the tests of a file belong to, that of the file itself first; empty if it names none."""
    text = path.read_text(encoding="utf-8")
    mark = _MARK.search(text)
    others = [suite for suite in MARKS if f"pytest.mark.{suite}" in text]
    return list(dict.fromkeys([mark[1], *others])) if mark else []


def pytest_ignore_collect(collection_path, config):
    """Leave out a file without tests of the chosen suite unread: importing it may take a second."""
    if not collection_path.match("test_*.py") or not (named := suites(collection_path)):
        return None
    chosen = next((suite for suite, mark in MARKS.items() if mark == config.option.markexpr), None)
    return (chosen is not None and chosen not in named) or None


def pytest_pycollect_makeitem(collector):
    """Refuse a file that does not say to which suite it belongs."""
    if isinstance(collector, pytest.Module) and not suites(collector.path):
        raise collector.CollectError(
            f"{collector.path.name} belongs to no suite. Write after its imports, for `make test`: pytestmark = "
            'pytest.mark.core("why"), or for `make thorough`: pytestmark = pytest.mark.thorough("why")'
        )


def pytest_terminal_summary(terminalreporter):
    """List the slowest files, if there are more than `COUNT`."""
    seconds = Counter()
    for report in (report for reports in terminalreporter.stats.values() for report in reports):
        if hasattr(report, "duration"):
            seconds[report.nodeid.partition("::")[0]] += report.duration
    if len(seconds) > COUNT:
        terminalreporter.write_sep("-", f"the {COUNT} slowest files")
        for path, spent in seconds.most_common(COUNT):
            terminalreporter.write_line(f"{spent:6.1f} s  {path}")
