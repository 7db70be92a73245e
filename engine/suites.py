"""Hooks of pytest for the tests of all packages: the two suites, and which files take longest.

Each file says to which suite it belongs, and why: ``pytestmark = pytest.mark.core("the judge of
every kernel")``. ``make test`` runs ``-m "not thorough"``: the core files, without the tests in
them that are marked thorough. ``make thorough`` runs ``-m thorough``: all the others. pytest by
itself runs both.
"""

import re
from collections import Counter
from functools import lru_cache

import pytest

_MARK = re.compile(r"^pytestmark = \[?\s*pytest\.mark\.(core|thorough)\(\s*\"", re.MULTILINE)
COUNT = 10  # files that the summary lists


@lru_cache
def suites(path):
    """Return the suites that the tests of a file belong to, that of the file itself first; empty if it names none."""
    text = path.read_text(encoding="utf-8")
    mark = _MARK.search(text)
    others = ["thorough"] if "pytest.mark.thorough" in text else []
    return list(dict.fromkeys([mark[1], *others])) if mark else []


def pytest_ignore_collect(collection_path, config):
    """Leave out a file of the other suite unread: importing it may take a second."""
    if not collection_path.match("test_*.py") or not (named := suites(collection_path)):
        return None
    others = {"not thorough": named[0] == "thorough", "thorough": "thorough" not in named}
    return others.get(config.option.markexpr) or None


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
