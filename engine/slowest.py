"""A hook of pytest for the tests of both houses: which files take longest."""

from collections import Counter

COUNT = 10


def pytest_terminal_summary(terminalreporter):
    """List the slowest files, if there are more than those."""
    seconds = Counter()
    for report in (each for reports in terminalreporter.stats.values() for each in reports):
        if hasattr(report, "duration"):
            seconds[report.nodeid.partition("::")[0]] += report.duration
    if len(seconds) > COUNT:
        terminalreporter.write_sep("-", f"the {COUNT} slowest files")
        for path, spent in seconds.most_common(COUNT):
            terminalreporter.write_line(f"{spent:6.1f} s  {path}")
